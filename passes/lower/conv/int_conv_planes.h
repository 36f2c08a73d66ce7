// SPDX-License-Identifier: Apache-2.0
// What int_conv_planes.c, which computes from planes, and int_conv_planes_gather.c, which makes them, share.
#ifndef PASSES_LOWER_CONV_INT_CONV_PLANES_H
#define PASSES_LOWER_CONV_INT_CONV_PLANES_H

#include "passes/lower/conv/int_conv.h"
#include "passes/lower/conv/int_conv_made.h"

enum { INT_PLANES_SIGN = 128 }; // by which signed inputs are raised

typedef struct IntPlanes {
    IntConv c; // rows and columns as they are walked
    const Domain *d;
    bool is_turned;      // they have changed places
    bool has_pairs;      // the DSP extension
    bool is_by_rows;     // a strip is a row of the result, for which all rows of the planes are gathered,
    int64_t parts;       // or one of so many parts of it; c has the columns of a part, without padding
    int64_t width;       // channels that are gathered at once
    int64_t strip;       // output rows at a time
    int64_t rows, pitch; // of a plane; pitch in elements
    const int32_t *values;
    DType type; // of the packed weights
    uint32_t x, weights, planes;
    const IntScales *scales; // NULL: nodes say what becomes of sums
    uint32_t begin;          // 1 + the param that sums begin with; 0: the bias, or nothing
    KRef offset;             // has_pairs: what is added to the inputs, in both halves
    IntMade *made;           // NULL: the input is in memory
    const IntConv *whole;    // where it is not: c before it was cut into parts
} IntPlanes;

// Elements of a word of the planes.
static inline int64_t int_planes_unit(const IntPlanes *p)
{
    return p->has_pairs ? 2 : 1;
}

// Are signed inputs raised, where loads of bytes have no signs?
bool int_planes_is_raised(const IntPlanes *p);
DType int_planes_type(const IntPlanes *p);
// Columns of the input that are read.
int64_t int_planes_columns(const IntPlanes *p);
// `n` elements of the planes become the zero point.
void int_planes_clear(const IntPlanes *p, KRef from, int64_t n);

// Rows of the planes: n from the input's row `first` on, which may be outside. part: of a row of the result.
typedef struct IntPlaneRows {
    KRef first, n, part;
} IntPlaneRows;
void int_planes_gather(const IntPlanes *p, KRef image, KRef block, const IntPlaneRows *rows);

#endif
