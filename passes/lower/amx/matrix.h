// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix products on matrix registers (KMatrix). Every f32 is taken as the sum of two parts
// of bf16, the rounded number and what is left of it, rounded: up to 2^-17 of it is missing. Three products
// of parts are added up in f32, all but that of the rests: sums of any length are off by 4e-6 to 1e-5 of the
// largest of them, and networks of many layers by up to 5e-5, so only `--accuracy` from MATRIX_ERROR up
// allows it. (Three parts and six products have the error of f32 sums. They were measured as well: no faster
// than vectors.) Order of summation: kernel row, kernel column, 32 channels at a time; within these as the
// hardware does it. What is infinite, or above the largest bf16 (3.39e38), gives no number instead of an
// infinite one, in first layers also in neighbours; numbers below 2^-126 count as 0.
//
// The input is split into a slab: for the phases of the strides, for some rows with their padding, all
// columns with theirs; a pixel is blocks of 32 channels, rounded and rests. So the pixels of a tile follow
// each other at one distance for every kernel position, rows of the image included; what falls on padding
// columns is not stored.
#ifndef PASSES_LOWER_AMX_MATRIX_H
#define PASSES_LOWER_AMX_MATRIX_H

#include "passes/lower/tile/tile.h"

// Where both operands are bf16 already, or f32 that come from bf16, there is one part, one product, and
// nothing missing: the error is that of f32 sums, so no accuracy is asked for. What is infinite stays so.
// Rows of bf16 that need no padding are then read where they are.

// What --accuracy must allow for f32.
#define MATRIX_ERROR 1e-4
static inline bool matrix_takes_f32(const PassOptions *o)
{
    return o->caps->has_matrix && o->accuracy >= MATRIX_ERROR;
}
static inline uint8_t matrix_parts(const TileShape *s)
{
    return s->is_bf16 ? 1 : 2;
}

// Elements that a step multiplies, and results of a tile.
enum { MATRIX_BLOCK = 32, MATRIX_LANES = 16 };

// Has the target matrix registers, may they be used, and are they faster than vectors for this shape? more:
// cycles that are needed besides.
bool matrix_is_worthwhile(const Lower *l, const TileShape *s, double more);
// Emits the loops of a tile_emit with constant weights that are not packed yet.
void matrix_emit(const Tile *t, const TileSource *weights, const char *name);
// The same inside of loops of a schedule: threads share nothing, so no barrier is needed.
void matrix_emit_inside(const Tile *t, const TileSource *weights, const char *name);
// The same for a product of bf16 with weights that are panels in memory, from element `base` of a parameter
// on: panels of two tiles of results (the last one may have one), whose rows are pairs of elements, the two
// of each result next to each other; elements behind the last one, up to whole blocks, are 0.
void matrix_emit_panels(const Tile *t, uint32_t panels, KRef base);

#endif
