// SPDX-License-Identifier: Apache-2.0
// A GGUF file to one with smaller weights.
#ifndef COMPILER_QUANTIZE_QUANTIZE_H
#define COMPILER_QUANTIZE_QUANTIZE_H

#include "compiler/quantize/importance.h"
#include "compiler/quantize/mix.h"

typedef struct QuantizeJob {
    Arena *arena;
    Diag *diag;
    const char *from, *to;
    const QuantizeMix *mix;
    const Importance *importance; // NULL: all columns count the same
    void (*progress)(uint64_t done, uint64_t total); // bytes of the first file
} QuantizeJob;

// What became of the tensors of one type.
typedef struct QuantizeSum {
    const GgufType *type;
    uint64_t tensors, bytes;
    uint64_t elements;  // that were not copied as they are
    double error, norm; // sums of squares, of their differences and of themselves
} QuantizeSum;

typedef struct QuantizeReport {
    VEC(QuantizeSum) sums;
    uint64_t bytes_before, bytes; // of tensors
    uint64_t weighted;            // tensors for which the importance counted
} QuantizeReport;

// False: reported, and nothing was written.
bool quantize_file(const QuantizeJob *j, QuantizeReport *out);
// Root mean square of the differences, and relative to that of the numbers.
double quantize_rmse(const QuantizeSum *s);
double quantize_relative(const QuantizeSum *s);

#endif
