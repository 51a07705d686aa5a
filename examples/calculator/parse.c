#include "parse.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const char *at;
    const char *error;
};

static const struct {
    const char *name;
    double (*function)(double);
} functions[] = {{"sqrt", sqrt}, {"sin", sin}, {"cos", cos}, {"exp", exp}, {"log", log}};

static double sum(struct parser *p);

static char next(struct parser *p) {
    while (isspace((unsigned char)*p->at))
        ++p->at;
    return *p->at;
}

static double atom(struct parser *p) {
    char c = next(p);
    if (c == '(') {
        ++p->at;
        double value = sum(p);
        if (next(p) == ')')
            ++p->at;
        else
            p->error = "missing )";
        return value;
    }
    if (c == '-') {
        ++p->at;
        return -atom(p);
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
        size_t length = strlen(functions[i].name);
        if (!strncmp(p->at, functions[i].name, length)) {
            p->at += length;
            return functions[i].function(atom(p));
        }
    }
    char *end;
    double value = strtod(p->at, &end);
    if (end == p->at)
        p->error = "not a number";
    p->at = end;
    return value;
}

static double product(struct parser *p) {
    double value = atom(p);
    for (char c; !p->error && ((c = next(p)) == '*' || c == '/');) {
        ++p->at;
        value = c == '*' ? value * atom(p) : value / atom(p);
    }
    return value;
}

static double sum(struct parser *p) {
    double value = product(p);
    for (char c; !p->error && ((c = next(p)) == '+' || c == '-');) {
        ++p->at;
        value = c == '+' ? value + product(p) : value - product(p);
    }
    return value;
}

double evaluate(const char *text, const char **error) {
    struct parser p = {text, NULL};
    double value = sum(&p);
    if (!p.error && next(&p))
        p.error = "trailing characters";
    *error = p.error;
    return value;
}
