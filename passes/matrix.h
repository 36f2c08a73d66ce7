// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix products on matrix registers (KMatrix). Every f32 is taken as the sum of two bf16,
// the rounded number and the rounded rest, and of the four products the three larger ones are added up in
// f32: x * w ~ xr * wr + xr * ws + xs * wr. A product is off by at most 2^-15, and a sum of many by some 4e-6
// of its usual magnitude, as measured by tests/e2e; `--accuracy` below MATRIX_ERROR turns this off. Order of
// summation: kernel row, kernel column, 32 channels at a time; within these as the hardware does it. What is
// infinite, or above the largest bf16 (3.39e38), gives no number instead of an infinite one; numbers below
// 2^-126 count as 0.
//
// The input is split into a slab: for the phases of the strides, for some rows with their padding, all
// columns with theirs; a pixel is blocks of 32 channels, rounded and rests. So the pixels of a tile follow
// each other at one distance for every kernel position, rows of the image included; what falls on padding
// columns is not stored.
#ifndef PASSES_MATRIX_H
#define PASSES_MATRIX_H

#include "passes/tile.h"

// The error of a sum to expect, relative to the largest magnitude of all sums of a value.
#define MATRIX_ERROR 8e-6

// Has the target matrix registers, may they be used, and are they faster than vectors for this shape?
bool matrix_is_worthwhile(const Lower *l, const TileShape *s);
// Emits the loops of a tile_emit with constant weights that are not packed yet.
void matrix_emit(const Tile *t, const TileSource *weights, const char *name);

#endif
