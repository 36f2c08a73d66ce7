// SPDX-License-Identifier: Apache-2.0
// Rows of a value that a 1x1 convolution makes for the reader that gathers them. See int_conv_made.c.
#ifndef PASSES_LOWER_CONV_INT_CONV_MADE_H
#define PASSES_LOWER_CONV_INT_CONV_MADE_H

#include "passes/lower/conv/int_conv_dsp.h"

typedef struct IntMade {
    Lower l; // of the reader's kernel, with the nodes of the maker
    Domain d;
    Dsp s;
    uint32_t row, bytes; // params: a row of four channels, or part of one, as words and as bytes
    IntConv reader;
    int64_t parts; // of a row of the result; 1: rows are made as a whole
} IntMade;

// Can the maker (Lower.maker) make four channels of a row? m stays where it is from then on.
bool int_made_find(IntMade *m, const IntConv *reader);
// How the reader gathers: for `strip` rows of its result at a time, or for one of `parts` parts of a row.
typedef struct IntMadeCut {
    int64_t strip, parts;
} IntMadeCut;
void int_made_params(IntMade *m, const IntConv *reader, IntMadeCut cut);
// Makes channels [4 * block, 4 * block + 4) of a row.
void int_made_row(const IntMade *m, KRef row, KRef block);
// The same of the columns that part `part` of a row of the result reads. Those beside the input are the zero
// point.
void int_made_part(const IntMade *m, KRef row, KRef block, KRef part);
// Columns that a part reads, with those beside the input.
int64_t int_made_reach(const IntConv *reader, int64_t parts);

#endif
