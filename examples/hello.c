// clinch run examples/hello.c -- a b
#include <stdio.h>

int main(int argc, char **argv) {
    printf("Hello from memory: %d arguments\n", argc - 1);
    for (int i = 1; i < argc; ++i)
        printf("  %d: %s\n", i, argv[i]);
    return 0;
}
