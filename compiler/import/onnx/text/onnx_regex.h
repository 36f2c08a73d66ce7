// SPDX-License-Identifier: Apache-2.0
// Regular expressions in RE2's syntax as automata over bytes. The pattern becomes a tree (onnx_regex.c), the
// tree an automaton (onnx_regex_dfa.c). Not supported, and reported: classes of Unicode (\pL), \C, back
// references and look-around, which RE2 does not have either. (?i) knows the letters of onnx_case.h.
#ifndef COMPILER_IMPORT_ONNX_TEXT_ONNX_REGEX_H
#define COMPILER_IMPORT_ONNX_TEXT_ONNX_REGEX_H

#include "base/vec.h"

#include <stdbool.h>

typedef enum RegexKind {
    REGEX_EMPTY,  // matches nothing at all: ""
    REGEX_SET,    // one character of a set
    REGEX_CAT,    // children one after the other
    REGEX_ALT,    // one of the children
    REGEX_REPEAT, // child 0, min to max times
    REGEX_ASSERT, // a condition on the place
} RegexKind;

typedef enum RegexPlace {
    PLACE_BEGIN,
    PLACE_END,
    PLACE_LINE_BEGIN,
    PLACE_LINE_END,
    PLACE_WORD,
    PLACE_NO_WORD
} RegexPlace;

enum { REGEX_NO_MAX = -1, REGEX_MAX_REPEAT = 1000, REGEX_LAST_POINT = 0x10ffff };

typedef struct RegexRange {
    uint32_t first, last; // code points
} RegexRange;

typedef struct RegexNode RegexNode;
struct RegexNode {
    RegexKind kind;
    RegexPlace place;
    int32_t min, max;
    VEC(RegexRange) set; // in order, without overlaps
    VEC(RegexNode *) child;
};

// NULL: *error says why.
RegexNode *regex_parse(Arena *a, const char *pattern, size_t len, const char **error);

// An automaton over bytes. A zero byte, which ends strings, stays in its state.
typedef struct Automaton {
    uint32_t n_states, n_classes;
    int32_t classes[256];
    int32_t *table;  // [n_states][n_classes]
    int32_t *result; // by state: what ending in it means; regular expressions: 1 = matches
} Automaton;

// The whole string must match. False: *error says why.
bool regex_automaton(Arena *a, const RegexNode *tree, Automaton *out, const char **error);

#endif
