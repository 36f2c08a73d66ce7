// SPDX-License-Identifier: Apache-2.0
// What the files of int_conv_dsp share: int_conv_dsp.c has a loop over pairs of pixels, int_conv_points.c
// leaves it to a device function.
#ifndef PASSES_LOWER_CONV_INT_CONV_DSP_H
#define PASSES_LOWER_CONV_INT_CONV_DSP_H

#include "passes/graph/requantise.h"
#include "passes/lower/conv/int_conv.h"

enum { INT_DSP_RUNS = 18 };

// Blocks of channels of a group that are treated alike. Where the sums of two channels do not fit one word, a
// block has half as many channels, and zeros for the odd ones.
typedef struct BlockRun {
    int64_t first, channels;
    int64_t each; // channels of a block
    bool is_bytes;
    int64_t at; // of their words in those of the group
} BlockRun;

typedef struct Dsp {
    IntConv c;
    const Domain *d;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *begin;  // what sums begin with, by output channel
    RequantScale *scale;   // by output channel; NULL: sums stay sums
    int64_t *moved;        // by output channel: what is not in its sums, but in its start
    int64_t shift, high;   // of all channels; the start of all that have none of their own
    BlockRun run[INT_DSP_RUNS];
    uint32_t n_runs;
    bool is_inside;                    // no tap can leave the input
    bool is_joined;                    // a run has all columns of the kernel
    bool is_row;                       // the input is one run, read in place
    int64_t runs, n;                   // of a window, elements of each
    int64_t steps;                     // words of a window
    int64_t width;                     // channels of a block
    int64_t group_words;               // of weights
    uint32_t x, weights, window, sums; // params
    KRef zero;
} Dsp;

typedef struct Blocks {
    const IntPixel *p;
    int64_t pixels;
    KRef first, group;
    const BlockRun *run;
} Blocks;

static inline int64_t int_dsp_pixels(const Dsp *s)
{
    return s->c.n * s->c.h * s->c.w_out;
}

static inline int64_t int_dsp_blocks(const BlockRun *r)
{
    return ceil_div(r->channels, r->each);
}

// The address of the words of a block; at: its number in the run.
KRef int_dsp_words(const Dsp *s, const Blocks *b, KRef at);
// Emits all of it, for pixels of one tap whose channels all become bytes; false: not for this one.
bool int_points_emit(const Dsp *s);

#endif
