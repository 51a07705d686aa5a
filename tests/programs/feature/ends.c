// The ways in which a program ends; the first argument says which.

//--- main.c
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int deep(int depth, int status);

static void at_exit(void) { puts("atexit"); }
static void at_quick_exit_function(void) {
    puts("at_quick_exit");
    fflush(stdout);
}
__attribute__((destructor)) static void destructor(void) { puts("destructor"); }

static void *exits(void *argument) { exit((int)(long)argument); }
static void *prints(void *argument) {
    pthread_join(*(pthread_t *)argument, NULL);
    puts("the other thread goes on");
    return NULL;
}
static pthread_t main_thread;

__attribute__((noinline)) static int fault(volatile int *where) { return *where; }

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "return";
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    atexit(at_exit);
    at_quick_exit(at_quick_exit_function);
    printf("main %s\n", way);
    if (!strcmp(way, "exit"))
        deep(20, 13);
    if (!strcmp(way, "large"))
        exit(256 + 5);
    if (!strcmp(way, "negative"))
        return -1;
    if (!strcmp(way, "_exit")) {
        fflush(stdout);
        _exit(14);
    }
    if (!strcmp(way, "quick_exit"))
        quick_exit(15);
    if (!strcmp(way, "abort")) {
        fflush(stdout);
        abort();
    }
    if (!strcmp(way, "fault")) {
        fflush(stdout);
        return fault((int *)16);
    }
    if (!strcmp(way, "kill")) {
        fflush(stdout);
        kill(getpid(), SIGTERM);
        pause();
    }
    if (!strcmp(way, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, exits, (void *)16L);
        pthread_join(thread, NULL);
    }
    if (!strcmp(way, "pthread_exit")) {
        static pthread_t thread;
        main_thread = pthread_self();
        pthread_create(&thread, NULL, prints, &main_thread);
        pthread_exit(NULL);
    }
    if (!strcmp(way, "fork")) {
        fflush(stdout);
        int status;
        pid_t child = fork();
        if (child == 0) {
            puts("child");
            exit(7);
        }
        waitpid(child, &status, 0);
        printf("child ended with %d\n", WEXITSTATUS(status));
        return 8;
    }
    if (!strcmp(way, "exec")) {
        fflush(stdout);
        execl("/bin/sh", "sh", "-c", "echo from the shell; exit 9", (char *)NULL);
    }
    if (!strcmp(way, "pipe")) {
        int ends[2];
        fflush(stdout);
        if (pipe(ends) == 0 && close(ends[0]) == 0 && write(ends[1], "x", 1) < 0)
            return 11;
    }
    if (!strcmp(way, "closed")) {
        close(0);
        fclose(stdout);
        return 10;
    }
    return 0;
}

//--- deep.c
#include <stdlib.h>
int deep(int depth, int status) {
    volatile char frame[100];
    frame[depth] = (char)depth;
    if (depth == 0)
        exit(status);
    return deep(depth - 1, status) + frame[depth];
}
