// SPDX-License-Identifier: Apache-2.0
// How lstm_tiles.c cuts a recurrent layer, which lstm_tiles_shape.c chooses.
#ifndef PASSES_LOWER_OPS_LSTM_TILES_H
#define PASSES_LOWER_OPS_LSTM_TILES_H

#include "passes/lower/ops/lstm.h"

enum {
    TILE_THREADS = 256, // of a group
    TILE_LANES = 32,
    TILE_WARPS = TILE_THREADS / TILE_LANES,
    TILE_ROWS = 16,   // of a product of units
    TILE_COLUMNS = 8,
    TILE_SUMS = 4,    // of a thread
    TILE_QUAD = 4,    // threads that share a row
    TILE_PIECE = 4,   // words that a thread fetches at once
    TILE_PRODUCTS = 2, // for which these are the factors
    TILE_BLOCK = TILE_QUAD * TILE_PIECE, // words of k that a warp fetches at once
    TILE_KEPT = 128,  // words of weights that a thread keeps
    TILE_MOST = 8,    // products of units of a block that a warp has at work
    TILE_PAD = 4      // numbers between rows of sums in shared memory
};

// Rows are the gates of `units` units, tiles * TILE_ROWS of them, columns are entries of the batch. `ranks`
// groups share the units, each `blocks` times as many; `entries` of the batch, a multiple of TILE_COLUMNS, are
// a cluster's. sets: clusters that the same groups make one after the other.
typedef struct TileShape {
    int64_t tiles, units, ranks, blocks, entries, of_batch, clusters, sets;
} TileShape;

// How k of a product is cut: warps that share it, whole blocks of each of them, and columns of a turn of the
// group, for each team of such warps `wide` times TILE_COLUMNS.
typedef struct TileCut {
    int64_t size, split, each, wide, columns;
    bool is_kept; // weights stay in registers
} TileCut;

// Elements of a word.
static inline int64_t tile_pair(const Lower *l, const Lstm *m)
{
    return k_is_half(lower_node(l, m->x)->dtype) ? 2 : 1;
}

// Numbers of the type of the inputs that a hidden value is.
int64_t tile_planes(const Lower *l, const Lstm *m);
// The most that TileCut.wide is.
int64_t tile_most_wide(const TileShape *s);
TileCut tile_cut(const Lower *l, const Lstm *m, const TileShape *s, int64_t size, int64_t columns);
// False: lstm_group.c is faster, or there are no units.
bool lstm_tiles_choose(Lower *l, const Lstm *m, TileShape *s);

#endif
