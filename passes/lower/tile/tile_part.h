// SPDX-License-Identifier: Apache-2.0
// What the files of the register-tiled core share: the cutting of axes into runs and taps, and one tile.
#ifndef PASSES_LOWER_TILE_TILE_PART_H
#define PASSES_LOWER_TILE_TILE_PART_H

#include "passes/lower/tile/tile.h"

enum { TILE_MAX_ACC = 32, TILE_MAX_VECTORS = 8 };

TileRuns tile_axis_runs(Arena *a, const TileAxis *x, int64_t most);

// Neighbouring taps for which the same pixels [lo, hi) of a tile read inside the input.
typedef struct TileSpan {
    int64_t first, count; // taps
    int64_t lo, hi;       // pixels
} TileSpan;
typedef VEC(TileSpan) TileSpans;
// start: first output pixel when constant; -1: all pixels are inside for all taps.
TileSpans tile_spans(Arena *a, const TileAxis *x, int64_t start, int64_t pixels);
// Does some output of the axis read outside the input?
bool tile_axis_has_border(const TileAxis *x);
// So many that tiles of their own would be too much text, and too long to weigh?
bool tile_axis_has_many_edges(const TileAxis *x);

// What a tile fetches ahead while it sums, a little with every step: after n steps element base + n / period
// * pitch + n % period * step of a parameter.
typedef struct TileFetch {
    uint32_t param;
    KRef base;
    int64_t period, pitch, step; // period 0: base + n * step
} TileFetch;

// A block of output channels and a rectangle of pixels.
typedef struct TileAt {
    KRef image, row, column;         // of the first pixel
    KRef outer[TILE_MAX_OUTER];
    int64_t row_value, column_value; // their values at a border, else -1: all taps are inside
    bool clips_rows; // the one row of the tile may be at a border: kernel rows are clipped at run time
    int64_t rows, columns;
    int64_t nv, width;
    KRef channel;     // first channel
    int64_t channels; // real ones
    KRef weights;     // index of the block's first weight
    uint32_t n_fetches;
    TileFetch fetch[TILE_MAX_STREAMS + 1];
} TileAt;

// Lanes of vector v of a block: one that stands alone may be narrower. (Beside others it needs every pixel
// broadcast again in its own width: 40 of 55 % of the peak at 34 channels.)
uint8_t tile_vector_lanes(const Tile *t, int64_t channels, int64_t v);
// Index of the input element that kernel position (0, 0) reads at the tile's first pixel.
KRef tile_input_index(const Tile *t, const TileAt *at);
void tile_emit_one(const Tile *t, const TileAt *at);
// The plan with the least estimated time, or the measured one.
TilePlan tile_choose(const Tile *t);

#endif
