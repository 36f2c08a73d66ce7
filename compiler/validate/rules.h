// SPDX-License-Identifier: Apache-2.0
// One function a rule, each in the file of its name; they add findings and facts to the report.
#ifndef COMPILER_VALIDATE_RULES_H
#define COMPILER_VALIDATE_RULES_H

#include "compiler/validate/tree.h"

typedef struct Rules {
    Arena *arena;
    Tree *tree;
    const ValidateInput *in;
    ValidateReport *report;
} Rules;

// at: where, or NULL; f: in which function, or NULL.
void validate_find(Rules *r, ValidateRule rule, const Function *f, const Node *at, const char *text);
void rules_check_symbols(Rules *r);
void rules_check_state(Rules *r);
void rules_check_pointers(Rules *r);
void rules_check_loops(Rules *r);
void rules_check_calls(Rules *r);
// What rows of symbols.def say about the function; NULL: nothing.
const char *rules_find_wait(const char *function);
const char *rules_find_nested(const char *function);
// The functions that a call may lead to. Through a pointer: of a parameter those that are handed over, of
// others all of its type that are named other than to call them.
typedef VEC(Function *) Functions;
void rules_find_callees(const Rules *r, const Call *call, Functions *out);

#endif
