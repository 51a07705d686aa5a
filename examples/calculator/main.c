// clinch run examples/calculator/main.c examples/calculator/parse.c -lm -- '2 * (3 + sqrt(16))'
#include "parse.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: calculator EXPRESSION...\n");
        return 2;
    }
    int failed = 0;
    for (int i = 1; i < argc; ++i) {
        const char *error = NULL;
        double value = evaluate(argv[i], &error);
        if (error) {
            fprintf(stderr, "%s: %s\n", argv[i], error);
            failed = 1;
        } else {
            printf("%s = %g\n", argv[i], value);
        }
    }
    return failed;
}
