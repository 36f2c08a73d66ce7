// SPDX-License-Identifier: Apache-2.0
// How much each column of a weight counts: the mean square of what it is multiplied by, measured over a text.
// Kept in a GGUF file as llama.cpp has them: NAME.in_sum2 [columns, matrices] and NAME.counts [1, matrices].
#ifndef COMPILER_QUANTIZE_IMPORTANCE_H
#define COMPILER_QUANTIZE_IMPORTANCE_H

#include "compiler/import/gguf/gguf.h"
#include "compiler/import/llm/llm.h"

#define IMPORTANCE_SUMS   LLM_SUMS
#define IMPORTANCE_COUNTS ".counts"

typedef struct Importance {
    GgufFile file;
    const char *path;
} Importance;

bool importance_open(Arena *a, Diag *d, const char *path, Importance *out);
// Weights of the k columns of matrix `nth` of `n`, with a mean of 1. *out NULL: the file has none of this
// tensor. False: reported.
bool importance_of(const Importance *imp, const char *tensor, uint64_t k, uint64_t nth, uint64_t n,
                   const float **out);

// What was measured of a tensor: sums of squares of k columns over `count` rows.
typedef struct ImportanceSums {
    const char *tensor;
    uint32_t output; // of the run that measures it
    uint64_t k, count;
    double *sum;
} ImportanceSums;
// text: what was read, for people. False: reported.
bool importance_write(Arena *a, Diag *d, const char *path, const char *text, const ImportanceSums *sums,
                      uint32_t n);

#endif
