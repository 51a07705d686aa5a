// The order of constructors and destructors over three objects, by attribute and by sections.

//--- order.h
#include <stdio.h>
#include <stdlib.h>
#define BEGIN(NAME, ...) \
    __attribute__((constructor __VA_ARGS__)) static void begin_##NAME(void) { puts("begin " #NAME); }
#define END(NAME, ...) \
    __attribute__((destructor __VA_ARGS__)) static void end_##NAME(void) { puts("end " #NAME); }

//--- a.c
#include "order.h"
BEGIN(a_plain)
BEGIN(a_101, (101))
BEGIN(a_500, (500))
BEGIN(a_65534, (65534))
END(a_plain)
END(a_101, (101))
END(a_500, (500))

__attribute__((constructor)) static void with_arguments(int argc, char **argv, char **envp) {
    int n_variables = 0;
    while (envp && envp[n_variables])
        ++n_variables;
    printf("arguments in a constructor: %d %s, variables %s\n", argc, argc > 1 ? argv[1] : "-",
           n_variables ? "yes" : "no");
}

static void at_exit_first(void) { puts("at exit, registered first"); }
static void at_exit_last(void) { puts("at exit, registered last"); }
static void at_exit_more(void) { puts("at exit, registered at exit"); }
static void at_exit_middle(void) {
    puts("at exit, registers more");
    atexit(at_exit_more);
}
static void on_exit_status(int status, void *argument) {
    printf("on_exit %d %s\n", status, (char *)argument);
}

int main(void) {
    puts("main");
    atexit(at_exit_first);
    on_exit(on_exit_status, "argument");
    atexit(at_exit_middle);
    atexit(at_exit_last);
    return 9;
}

//--- b.c
#include "order.h"
END(b_plain)
END(b_500, (500))
BEGIN(b_500, (500))
BEGIN(b_102, (102))
BEGIN(b_plain)
static void at_exit_in_constructor(void) { puts("at exit, registered in a constructor"); }
__attribute__((constructor(200))) static void registers(void) { atexit(at_exit_in_constructor); }

//--- c.c
#include "order.h"
BEGIN(c_plain)
BEGIN(c_101, (101))
END(c_101, (101))
END(c_plain)

//--- stdout
begin a_101
begin c_101
begin b_102
begin a_500
begin b_500
begin a_65534
begin a_plain
arguments in a constructor: 2 one, variables yes
begin b_plain
begin c_plain
main
at exit, registered last
at exit, registers more
at exit, registered at exit
on_exit 9 argument
at exit, registered first
at exit, registered in a constructor
end c_plain
end b_plain
end a_plain
end b_500
end a_500
end c_101
end a_101
