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
    TILE_AT_ONCE = 4, // products of units that do not wait for each other
    TILE_BYTES = 16, // of a piece
    TILE_STAGED = 13, // pieces of a thread that are on their way to shared memory at once, on any GPU
    TILE_PAD = 4      // numbers between rows of sums in shared memory
};

// Rows are the gates of `units` units, tiles * TILE_ROWS of them, columns are entries of the batch. `ranks`
// groups share the units, each `blocks` times as many; `entries` of the batch, a multiple of TILE_COLUMNS,
// are a cluster's. sets: clusters that the same groups make one after the other.
typedef struct TileShape {
    int64_t tiles, units, ranks, blocks, entries, of_batch, clusters, sets;
    int64_t pair;  // elements of a word
    bool is_split; // f32, of which products see numbers of f16
} TileShape;

// How k of a product is cut: warps that share it, whole blocks of each of them, and columns of a turn of
// the group, for each team of such warps `wide` times TILE_COLUMNS.
typedef struct TileCut {
    int64_t size, split, each, wide, columns;
    bool is_kept; // weights stay in registers
} TileCut;

// 16-bit numbers that a hidden value is, or a weight.
int64_t rnn_planes(const Lower *l, const TileShape *s);
int64_t rnn_weight_planes(const Lower *l, const TileShape *s);
// Sums of a group in shared memory.
int64_t rnn_shared_sums(const TileShape *s);
// Pieces for which a processor with wgmma has room, as many as all blocks of a turn have; TILE_STAGED at
// least.
int64_t rnn_most_staged(const Lower *l, const TileShape *s, const TileCut *c);
// The most that TileCut.wide is.
int64_t rnn_most_wide(const TileShape *s);
TileCut rnn_cut(const Lower *l, const TileShape *s, int64_t size, int64_t columns);
// False: lstm_group.c is faster, or there are no units.
bool lstm_tiles_choose(Lower *l, const Lstm *m, TileShape *s);

// A layer that is emitted.
typedef struct Tiles {
    const Lstm *m;
    Lower *l;
    Kernel *k;
    TileShape s;
    int type;            // of x, and of hidden values on their way
    int64_t chunk;       // steps
    int64_t padded;      // hidden values of an entry, with zeros behind them
    int64_t planes;      // numbers that a hidden value is
    int64_t staged;      // pieces of a thread that are on their way at once
    bool is_grid;        // all groups are at work: else one of each set, for all units
    uint32_t hidden, words, ahead, states, counter;
    uint32_t exact;      // hidden values as they are, where f32 is split
    uint32_t waiting;    // z, from the first phase of a step to the second
    KRef parts;          // of sums, in shared memory
    KRef shared;         // where the memory of pieces begins
    KRef phase, thread, lane, warp, of_sets, cluster, rank;
    KRef block;          // of units, of all
    LstmStep at;
} Tiles;

// A factor: hidden values, or inputs.
typedef struct TileFactor {
    TileCut cut;
    bool is_hidden;
    KRef kept;  // weights, or 0
    KRef which; // row of hidden values
    KRef end;   // columns
    int64_t first_tile, end_tile;
} TileFactor;

// The tiles that have rows of a phase of hidden values.
void rnn_tiles_of_phase(const Lstm *m, const TileShape *s, uint8_t phase, int64_t *first, int64_t *end);
int64_t rnn_rows(const Tiles *n);
int64_t rnn_blocks(const Tiles *n);
// An entry of the batch, by its number in the cluster, and a unit, by its number in the block; the last one
// for those beyond it.
KRef rnn_entry(const Tiles *n, KRef number);
KRef rnn_unit(const Tiles *n, KRef number);
// Where the first number of a hidden value is in memory, `padded` before the second; which: of two rows.
KRef rnn_hidden_index(const Tiles *n, KRef which, KRef entry, KRef unit);
// The same in n->exact.
KRef rnn_exact_index(const Tiles *n, KRef which, KRef entry, KRef unit);
// Stores a hidden value, by its entry and unit: all of its numbers.
void rnn_store_hidden(const Tiles *n, KRef which, KRef entry, KRef unit, KRef value);
// May f32 be split, as far as the layer goes?
bool rnn_may_split(const Lower *l, const Lstm *m);
// A piece of a row of f32 weights, place[1] elements behind where the row begins (place[0]), as words of f16:
// those of the first numbers to[at ...], those of the second ones to[at + low ...]; zeros behind its end.
void rnn_fetch_split(const Tiles *n, NodeId id, const KRef *place, KRef to, KRef at, int64_t low);
// What sums of products of split numbers are to be multiplied by.
double rnn_split_factor(void);
// Weights into registers, if they are kept.
void rnn_keep_weights(const Tiles *n, TileFactor *f);
// The sums of a warp, for its columns of the turn that begins with column `first`, into shared memory.
void rnn_multiply(const Tiles *n, const TileFactor *f, KRef first);
// A sum of a unit, by its number in the block, for a column of the turn.
KRef rnn_sum(const Tiles *n, const TileFactor *f, int64_t sum, KRef unit, KRef column, KRef first);

#endif
