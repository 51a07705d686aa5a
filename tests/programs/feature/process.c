// Arguments, environment, input, signals, jumps: what a program sees of its process.

//--- main.c
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

static jmp_buf back;
static sigjmp_buf back_from_signal;
static volatile sig_atomic_t signals;
static void on_signal(int number) { signals += number; }
static void on_fault(int number, siginfo_t *information, void *context) {
    (void)context;
    siglongjmp(back_from_signal, information->si_addr == (void *)24 ? number : -1);
}
static void jump(int depth) {
    if (depth == 0)
        longjmp(back, 5);
    jump(depth - 1);
}
static ucontext_t main_context, other_context;
static char stack[65536];
static int in_context;
static void context_function(int value) {
    in_context = value;
    swapcontext(&other_context, &main_context);
    in_context += 1;
}
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv, char **envp) {
    printf("%d arguments\n", argc - 1);
    for (int i = 1; i < argc; ++i)
        printf("%d <%s>\n", i, argv[i]);
    CHECK(argv[argc] == NULL && argv[0] && argv[0][0]);
    int found = 0;
    for (char **variable = envp; *variable; ++variable)
        found += !strcmp(*variable, "CLINCH_TEST_VARIABLE=a value");
    CHECK(found == 1);
    char line[100];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        printf("read <%s>\n", line);
    }
    int way = setjmp(back);
    if (way == 0)
        jump(10);
    CHECK(way == 5);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    CHECK(signals == SIGUSR1);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGSEGV, &action, &old);
    int fault = sigsetjmp(back_from_signal, 1);
    if (fault == 0)
        *(volatile int *)24 = 1;
    CHECK(fault == SIGSEGV);
    sigaction(SIGSEGV, &old, NULL);
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = stack;
    other_context.uc_stack.ss_size = sizeof stack;
    other_context.uc_link = &main_context;
    makecontext(&other_context, (void (*)(void))context_function, 1, 7);
    swapcontext(&main_context, &other_context);
    CHECK(in_context == 7);
    swapcontext(&main_context, &other_context);
    CHECK(in_context == 8);
    int numbers[] = {5, 3, 9, 1};
    qsort(numbers, 4, sizeof *numbers, compare);
    CHECK(numbers[0] == 1 && numbers[3] == 9);
    char *folder = get_current_dir_name();
    FILE *file = fopen("made.txt", "w");
    CHECK(folder && file);
    fprintf(file, "content\n");
    fclose(file);
    CHECK(access("made.txt", R_OK) == 0 && unlink("made.txt") == 0);
    FILE *shell = popen("echo out of a pipe", "r");
    CHECK(fgets(line, sizeof line, shell) && !strcmp(line, "out of a pipe\n"));
    CHECK(pclose(shell) == 0);
    CHECK(system("exit 3") == 3 << 8);
    CHECK(getauxval(AT_PAGESZ) == 4096);
    static char big[200000];
    memset(big, 'x', sizeof big - 1);
    puts(big);
    return checked();
}
