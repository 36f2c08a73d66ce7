// SPDX-License-Identifier: Apache-2.0
// The slab of matrix.h: rows of a convolution's input, padded, in phases of the strides, split into bf16.
// What a tile multiplies at one kernel position are blocks of 32 elements a pixel.
//
// Many channels: the blocks are channels; block by block, pixel by pixel, 32 rounded elements and their 32
// rests. Few channels (`is_folded`): a row of a kernel is one run of kw * ic elements, blocks are cut from
// it, and pixels overlap; the rests are a plane of their own.
#ifndef PASSES_LOWER_AMX_MATRIX_SLAB_H
#define PASSES_LOWER_AMX_MATRIX_SLAB_H

#include "passes/lower/amx/matrix.h"

// Rows of bf16 whose number and length need no padding are their own slab (`is_input`).
typedef struct Slab {
    Lower *l;
    TileShape shape; // of the convolution; where only pixels count, each is a row of its own
    TileInput in;
    bool is_linear; // so it is
    bool is_folded; // kernel columns are part of the blocks
    bool is_input;  // nothing is copied
    bool
        is_shared; // one for all threads, with all rows of all images; else each thread has one for some rows
    int64_t slices; // of an axis before rows: those that taps of one output slice read, or (is_shared) all
    KRef first_slice; // of the input, which the first of these taps reads; may be outside
    int64_t rows;  // output rows that one slab serves
    int64_t slab_rows; // of one phase
    int64_t columns;   // of one phase: more than the output has where kernels are wider than 1
    int64_t phases_h, phases_w, images;
    int64_t taps_w, blocks; // kernel columns apart from those folded; blocks of a kernel position
    int64_t step, block_step,
        part_step;  // elements: from pixel to pixel, from block to block, from part to part
    uint32_t param; // bf16
    KRef base;      // index of the first element
} Slab;

// Kernel positions (folded: rows) times blocks of 32 elements.
int64_t slab_steps(const TileShape *s);
bool slab_is_folded(const TileShape *s);
// weight_bytes: of the packed weights, which are read again for every slab.
Slab slab_new(Lower *l, const TileShape *s, const TileInput *in, int64_t weight_bytes);
// The axis before rows; one element where there is none.
TileAxis slab_slice_axis(const TileShape *s);
// Which taps along it are inside of the input.
typedef struct SlabTaps {
    KRef first, end;
} SlabTaps;
// Sets the output slice of which taps are read.
void slab_set_slice(Slab *slab, KRef slice);
SlabTaps slab_taps(const Slab *slab);
// Emits the loops that fill the slab for the output rows from first_row on of the slice that is set; those
// behind the last one are zeros. Of one that is the input: moves it there.
void slab_fill(Slab *slab, KRef image, KRef first_row);
// Fills the slab for all rows of all images with all threads, and waits for them.
void slab_fill_shared(const Slab *slab);
// Index of what a kernel position reads for pixel 0 of the slab, or of an image in a shared one; kd: the tap
// along slices.
KRef slab_tap(const Slab *slab, KRef image, KRef kd, KRef kh, KRef kw);

#endif
