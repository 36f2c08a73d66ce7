// SPDX-License-Identifier: Apache-2.0
// What attention_tiles.c shares with its way for cooperative matrices (attention_coop.c).
#ifndef PASSES_LOWER_ATTENTION_ATTENTION_TILES_H
#define PASSES_LOWER_ATTENTION_ATTENTION_TILES_H

#include "passes/lower/attention/attention.h"

enum {
    ATTENTION_TILE_THREADS = 128,
    ATTENTION_TILE_ROWS = 4,  // of a thread, at most
    ATTENTION_TILE_KEYS = 32,
};

typedef struct AttTiles {
    Lower *l;
    const Attention *a;
    bool is_coop;    // subgroups multiply, and the thread's keys are neighbours
    uint32_t lanes;  // threads that share a row: a team
    int64_t rows;    // of a thread; its team has these of the tile: row * teams + team
    int64_t keys;    // of a thread
    int64_t columns; // of a thread, of the values
    int64_t pitch;   // of queries, keys and values in shared memory
    KRef thread, lane, team;
    KRef q, kv, weights; // shared; COOP: q is the memory of all
    KRef first;          // query of the tile
    KRef lo, hi;         // keys that its rows see
    AttRow row[ATTENTION_TILE_ROWS];
    KRef top[ATTENTION_TILE_ROWS], sum[ATTENTION_TILE_ROWS], mix; // variables; array
} AttTiles;

static inline int64_t attention_tile_teams(const AttTiles *x)
{
    return ATTENTION_TILE_THREADS / x->lanes;
}
static inline int64_t attention_tile_rows(const AttTiles *x)
{
    return x->rows * attention_tile_teams(x);
}
static inline int64_t attention_tile_keys(const AttTiles *x)
{
    return x->keys * x->lanes;
}
// Row r of the thread in the tile; number j of its keys there, or without is_coop of its columns.
static inline KRef attention_tile_row(const AttTiles *x, int64_t r)
{
    return k_expr(x->l->k, "$ + #", x->team, r * attention_tile_teams(x));
}
static inline KRef attention_tile_place(const AttTiles *x, int64_t j)
{
    return x->is_coop ? k_expr(x->l->k, "$ * # + #", x->lane, x->keys, j)
                      : k_expr(x->l->k, "$ + #", x->lane, j * x->lanes);
}

// The rows of a tile of queries, keys or values.
typedef struct AttCopy {
    NodeId id;
    bool is_query;
    int64_t rows, size;
    KRef first, end; // behind the end there are zeros; 0: they all are there
} AttCopy;
// Element `column` of row `at` of them, or of the last row before the end; *is_inside: is it before that?
// 0: it is.
KRef attention_tile_index(const AttTiles *x, const AttCopy *c, KRef at, KRef column, KRef *is_inside);

// Do all rows see all keys, of which there are whole tiles, as far as a mask does not hide them?
bool attention_tile_sees_all(const AttTiles *x);
// Products become weights in shared memory; sums so far are scaled to the new maximum.
void attention_tile_weights(const AttTiles *x, KRef first, KRef products);

// --- attention_coop.c ----------------------------------------------------------------------------

// Can the tiles have cooperative matrices? Then *coop is how.
bool attention_coop_fits(const AttTiles *plain, AttTiles *coop);
void attention_coop_begin(AttTiles *x);
// The products of all keys that the tile sees, and what comes of them. Ends with a barrier.
void attention_coop_keys(const AttTiles *x, KRef end);
// The weights of the thread's row, and the factor of its sums so far.
void attention_coop_put_weights(const AttTiles *x, const KRef *weights, KRef keep);
void attention_coop_store(const AttTiles *x, KRef end);

#endif
