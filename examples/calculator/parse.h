#pragma once
// Evaluates an expression; on failure *error says why.
double evaluate(const char *text, const char **error);
