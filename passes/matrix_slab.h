// SPDX-License-Identifier: Apache-2.0
// The slab of matrix.h: rows of a convolution's input, padded, in phases of the strides, split into bf16.
#ifndef PASSES_MATRIX_SLAB_H
#define PASSES_MATRIX_SLAB_H

#include "passes/matrix.h"

typedef struct Slab {
    Lower *l;
    TileShape shape; // of the convolution; where only pixels count, each is a row of its own
    TileInput in;
    bool is_linear;    // so it is
    int64_t rows;      // output rows that one slab serves
    int64_t slab_rows; // of one phase
    int64_t columns;   // of one phase: more than the output has where kernels are wider than 1
    int64_t phases_h, phases_w;
    int64_t step;   // elements from pixel to pixel
    uint32_t param; // bf16
    KRef base;      // of this thread's slab; slab_fill sets it
} Slab;

Slab slab_new(Lower *l, const TileShape *s, const TileInput *in);
// Emits the loops that fill the slab for the output rows from first_row on. Rows behind the last one are
// zeros.
void slab_fill(Slab *slab, KRef image, KRef first_row);
// Index of what a kernel position reads for pixel 0 of the slab.
KRef slab_tap(const Slab *slab, KRef kh, KRef kw);

#endif
