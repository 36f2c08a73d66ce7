// SPDX-License-Identifier: Apache-2.0
// What the files of int_conv's tiles of pixels and channels share: int_conv_grid_windows.c copies what
// int_conv_grid_sums.c adds up, and int_conv_grid.c does the rest. Three sums of GRID_SUM_BITS are in two
// words, so that two multiply-adds serve three pixels:
//
//   word 0 = sum of pixel 0 + (sum of pixel 1 << GRID_SUM_BITS)
//   word 1 = sum of pixel 2 + (sum of pixel 1 << GRID_LOW_BITS), both mod 2^32
//
// Word 0 has all of sum 0 and the lowest GRID_LOW_BITS of sum 1; without these, word 1 has all of sum 2 and
// the rest of sum 1. The words of a window are the same of elements.
#ifndef PASSES_LOWER_CONV_INT_CONV_GRID_H
#define PASSES_LOWER_CONV_INT_CONV_GRID_H

#include "passes/lower/conv/int_conv.h"

enum { GRID_SUM_BITS = 21, GRID_LOW_BITS = 32 - GRID_SUM_BITS, GRID_PACKED = 3, GRID_WORDS = 2 };
enum { GRID_MAX_PIXELS = 4, GRID_MAX_WIDTH = 8, GRID_MAX_STEP = 4, GRID_RAISE = 128 };

typedef struct Grid {
    const IntConv *of;                        // as it is; c: with words of two input channels, where
    IntConv c;                                // is_paired: strides and channels then are of words
    Domain d;
    const int32_t *values;                    // of the weights, less their zero points
    const IntScales *scales;                  // NULL: nodes say what becomes of sums
    int64_t pixels, width;                    // of a tile
    int64_t depth;                            // elements of a window
    int64_t parts;                            // one, or rows of the kernel: windows are of one at a time
    int64_t chunks;                           // into which parts are cut, where is_packed
    int64_t least;                            // of the sums of a chunk
    bool is_paired;                           // inputs of 16 bits are multiplied two at a time
    bool is_packed;                           // tiles of GRID_PACKED pixels are
    bool is_raised;                           // weights are
    bool is_direct;                           // sums stay in variables: each channel has text of its own
    bool is_inside;                           // no tap can leave the input
    bool is_joined;                           // columns of the kernel follow each other in the input
    bool is_copied;                           // windows of tiles that are not packed are, too
    DType type, window_type;                  // of packed weights; of windows: words where tiles are packed
    int64_t zero;                             // what windows have beside the input
    uint32_t x, weights, begin, window, sums; // params
    KRef first_window, first_sum;             // of a thread
} Grid;

// Pixels of a row that follow each other.
typedef struct GridPatch {
    Point at;            // of the first one
    KRef row, column, x; // of its tap 0, which may be outside; x: the index in the input
    KRef group;
    int64_t pixels;
    bool is_packed;
    KRef part; // row of the kernel, where windows have parts
    KRef sum[GRID_MAX_PIXELS]; // variables: of the windows, where weights are raised
} GridPatch;

// Channels whose sums are added up at once.
typedef struct GridBlock {
    KRef first; // channel of the group
    int64_t width;
    KRef acc[GRID_MAX_PIXELS * GRID_MAX_WIDTH]; // variables, by channel: sums, or words of packed ones
    KRef total[GRID_PACKED * GRID_MAX_WIDTH];   // of several chunks, where is_direct
} GridBlock;

// A channel of a block. number: where each has text of its own, else 0.
typedef struct GridChannel {
    KRef j;
    int64_t number;
} GridChannel;

// What is left of rows whose other tiles are packed has windows, too, so that results may lie over the input.
static inline bool grid_is_copied(const Grid *g)
{
    return g->is_copied || g->is_packed;
}

// Elements of a part of a window.
static inline int64_t grid_part(const Grid *g)
{
    return g->depth / g->parts;
}

// What is left of a row where it seldom occurs: its loops are kept short.
static inline bool grid_is_rest(const Grid *g, const GridPatch *t)
{
    enum { SELDOM = 8 };
    return t->pixels < g->pixels && g->c.w_out >= SELDOM * g->pixels;
}

// Begins the sums of the windows of a patch.
void grid_open_sums(const Grid *g, GridPatch *t);
// Makes a part of the windows of a patch: pixel after pixel, or word after word of elements.
void grid_copy_windows(const Grid *g, GridPatch *t);
// Adds up the windows of a patch in the input.
void grid_sum_windows(const Grid *g, GridPatch *t);

// The number of a channel of a block.
KRef grid_channel(const Grid *g, const GridPatch *t, const GridBlock *b, KRef j);
// Makes the sums of a block.
void grid_add_up(const Grid *g, const GridPatch *t, GridBlock *b);
// The same part by part: those of all blocks wait in memory, where they begin with 0.
void grid_clear_sums(const Grid *g, const GridPatch *t);
void grid_add_part(const Grid *g, const GridPatch *t, GridBlock *b);
// The sums of a channel of a block, in variables.
void grid_load_sums(const Grid *g, const GridPatch *t, const GridBlock *b, GridChannel at, KRef *sum);
// Elements of memory that sums take.
uint64_t grid_sums(const Grid *g);

#endif
