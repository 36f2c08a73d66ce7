// SPDX-License-Identifier: Apache-2.0
// Numbers for symbols from the sizes that axes of inputs have.
#ifndef COMPILER_IMPORT_SIZES_H
#define COMPILER_IMPORT_SIZES_H

#include "compiler/import/import.h"

// The graph says `dim`, the input that is given has `value`.
typedef struct SizeFact {
    Dim dim;
    int64_t value;
    const char *what; // "axis 1 of input 'x' (x.npy)"
    bool is_firm;     // the user says so: contradicting the model is an error, not something that later
                      // steps find out
} SizeFact;

// values: by symbol, negative = unknown; those that are known count, whatever the facts say. Fills in others,
// also where a symbol stands in an expression such as "past + 1". False: facts contradict each other or the
// ranges of symbols (reported).
bool sizes_solve(Arena *a, Diag *d, Span at, const DimTable *t, const SizeFact *facts, uint32_t n,
                 int64_t *values);

// The range that a size with `is_range` gives to its symbol, and its largest value as default. False:
// reported.
bool sizes_narrow(Diag *d, Span at, Symbol *s, const ImportSize *size);

// Symbols of a graph that is complete take what the options say as their defaults. False: reported.
bool sizes_fit(Graph *g, const ImportOptions *o);

// The input and axis that a name such as "input0_dim2" stands for.
bool sizes_parse_axis(const char *name, uint32_t *input, uint32_t *axis);

#endif
