// SPDX-License-Identifier: Apache-2.0
// Rows of a value that a 1x1 convolution makes for the reader that gathers them. See int_conv_made.c.
#ifndef PASSES_LOWER_CONV_INT_CONV_MADE_H
#define PASSES_LOWER_CONV_INT_CONV_MADE_H

#include "passes/lower/conv/int_conv_dsp.h"

typedef struct IntMade {
    Lower l; // of the reader's kernel, with the nodes of the maker
    Domain d;
    Dsp s;
    uint32_t row, bytes; // params: a row of four channels, as words and as bytes
} IntMade;

// Can the maker (Lower.maker) make four channels of a row? m stays where it is from then on.
bool int_made_find(IntMade *m, const IntConv *reader);
// strip: rows of the result that the reader gathers for at a time.
void int_made_params(IntMade *m, const IntConv *reader, int64_t strip);
// Makes channels [4 * block, 4 * block + 4) of a row.
void int_made_row(const IntMade *m, KRef row, KRef block);

#endif
