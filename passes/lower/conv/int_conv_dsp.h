// SPDX-License-Identifier: Apache-2.0
// What the files of int_conv_dsp share: int_conv_dsp.c has a loop over pairs of pixels and computes four
// channels of them from halfwords, int_conv_points.c and int_conv_pairs.c leave that loop to device
// functions, int_conv_eight.c computes one pixel by eight channels from bytes.
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
    RequantEnds ends;      // where scale is not NULL
    int64_t *moved;        // by output channel: what is not in its sums, but in its start
    int64_t shift, high;   // of all channels; the start of all that have none of their own
    BlockRun run[INT_DSP_RUNS];
    uint32_t n_runs;
    bool is_inside;                    // no tap can leave the input
    bool is_joined;                    // a run has all columns of the kernel
    bool is_row;                       // the window is one run of bytes, read as it is
    int64_t runs, n;                   // of a window, elements of each
    int64_t steps;                     // words of a window
    int64_t width;                     // channels of a block
    int64_t group_words;               // of weights
    int64_t block_words;               // int_dsp_space_blocks; 0: blocks have as many as they need
    uint32_t x, weights, window, sums; // params
    bool is_eight;                     // int_conv_eight.c computes,
    bool is_copied;                    // from a copy of the window,
    bool has_words;                    // made by words
    uint32_t x_words, window_words;    // params for that
    int64_t ahead;      // int_conv_ahead.c: windows lie behind their pixels in the result, of so many words;
    KRef base;          // where they begin
    KRef eight;         // the sums of a block
    bool may_be_points; // int_conv_points.c may take it,
    bool has_rows;      // row by row,
    int64_t parts;      // of which each is made in so many parts
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

// False: not for this one.
bool int_dsp_begin(Dsp *s, const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
// Which channels are computed how.
void int_dsp_settle(Dsp *s);
void int_dsp_params(Dsp *s);
// Pixels [first, first + n).
void int_dsp_emit(Dsp *s, int64_t first, int64_t n);
// The address of the words of a block; at: its number in the run.
KRef int_dsp_words(const Dsp *s, const Blocks *b, KRef at);
// Gives all blocks as many words; false: not all channels are bytes of one group.
bool int_dsp_space_blocks(Dsp *s);
// A block, whose sums are those of number `at`. No result is stored twice: a residual may lie where it is.
void int_dsp_store(const Dsp *s, const Blocks *b, KRef block, KRef at);

// Less scratch memory: a pixel at a time from its bytes, in place or copied, and sums of eight channels in an
// array. False: not for this one.
bool int_eight_choose(Dsp *s);
void int_eight_params(Dsp *s);
// Copies the window of a pixel.
void int_eight_copy(const Dsp *s, const IntPixel *p);
void int_eight_emit(const Dsp *s, const Blocks *b);

// Pixels of the result from row `first` on, to pixel `end`, with windows in pixels that are not made yet;
// false: not for this one.
typedef struct IntAhead {
    Dsp s;
    int64_t first, end;
} IntAhead;
bool int_ahead_choose(IntAhead *a, const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
void int_ahead_emit(IntAhead *a);

// Pixel i of two, whose window may leave the input.
void int_dsp_widen_edge(const Dsp *s, const IntPixel *p, KRef i);

// Emits pixels [first, first + n), by rows; false: not for this one.
bool int_pairs_emit(Dsp *s, int64_t first, int64_t n);

// Emits all of it, for pixels of one tap whose channels all become bytes; false: not for this one.
bool int_points_emit(const Dsp *s);

#endif
