// Data and functions of the C library from code that does not go through a GOT, and from code
// that does: all must see the same.

//--- a.c
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
FILE *stdout_in_b(void);
char ***environ_in_b(void);
int optind_in_b(void);
int (*puts_in_b(void))(const char *);
void *(*malloc_in_b(void))(size_t);
static FILE **streams[] = {&stdin, &stdout, &stderr};
static int (*const functions[])(const char *) = {puts, atoi};
static void *(*allocate)(size_t) = malloc;

int main(int argc, char **argv) {
    fprintf(stdout, "through stdout\n");
    fflush(stdout);
    fputs("through stderr\n", stderr);
    CHECK(stdout_in_b() == stdout);
    CHECK(*streams[1] == stdout && *streams[0] == stdin);
    CHECK(fileno(stdin) == 0 && fileno(stdout) == 1 && fileno(stderr) == 2);
    CHECK(environ_in_b() == &environ);
    CHECK(environ != NULL && getenv("CLINCH_TEST_VARIABLE") != NULL);
    setenv("CLINCH_NEW_VARIABLE", "x", 1);
    int found = 0;
    for (char **variable = environ; *variable; ++variable)
        found += !strcmp(*variable, "CLINCH_NEW_VARIABLE=x");
    CHECK(found == 1);
    environ = (char *[]){"ONLY=this", NULL};
    CHECK(getenv("ONLY") && !strcmp(getenv("ONLY"), "this") && !getenv("PATH"));

    static const struct option options[] = {{"long", required_argument, NULL, 'l'}, {0}};
    int option, n_options = 0;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "ab:", options, NULL)) != -1) {
        ++n_options;
        if (option == 'b')
            CHECK(!strcmp(optarg, "value"));
        if (option == 'l')
            CHECK(!strcmp(optarg, "other"));
        if (option == '?')
            CHECK(optopt == 'z');
    }
    CHECK(n_options == 4);
    CHECK(optind == argc - 1 && optind_in_b() == optind);
    CHECK(!strcmp(argv[optind], "rest"));

    setenv("TZ", "XYZ-3", 1);
    tzset();
    CHECK(timezone == -3 * 3600 && !strcmp(tzname[0], "XYZ") && daylight == 0);
    CHECK(puts_in_b() == puts && functions[0] == puts);
    CHECK(malloc_in_b() == malloc && allocate == malloc);
    CHECK(functions[1]("17") == 17);
    free(allocate(10));
    CHECK(fabs(sin(0.5) - 0.479425538604203) < 1e-12);
    double part;
    CHECK(modf(2.5, &part) == 0.5 && part == 2);
    CHECK(signgam == 0 || signgam != 0);
    CHECK(program_invocation_name == argv[0] || strlen(program_invocation_name) > 0);
    CHECK(signal(SIGUSR1, SIG_IGN) == SIG_DFL && raise(SIGUSR1) == 0);
    qsort(argv + argc - 1, 1, sizeof *argv, (int (*)(const void *, const void *))strcmp);
    stdout = stderr;
    printf("stdout is stderr now\n");
    fflush(stdout);
    stdout = stdout_in_b() == stderr ? fdopen(1, "w") : NULL;
    return stdout ? checked() : 1;
}

//--- b.c
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern char **environ;
FILE *stdout_in_b(void) { return stdout; }
char ***environ_in_b(void) { return &environ; }
int optind_in_b(void) { return optind; }
int (*puts_in_b(void))(const char *) { return puts; }
void *(*malloc_in_b(void))(size_t) { return malloc; }

//--- stdout
through stdout
22 checks, 0 failures
