// SPDX-License-Identifier: Apache-2.0
// What attention_tiles.c shares with its way for cooperative matrices (attention_coop.c).
#ifndef PASSES_LOWER_ATTENTION_ATTENTION_TILES_H
#define PASSES_LOWER_ATTENTION_ATTENTION_TILES_H

#include "passes/lower/attention/attention.h"

enum {
    ATTENTION_TILE_THREADS = 128,
    ATTENTION_TILE_TEAM = 16, // threads that share a row
    ATTENTION_TILE_TEAMS = ATTENTION_TILE_THREADS / ATTENTION_TILE_TEAM,
    ATTENTION_TILE_ROWS = 4, // of a thread, at most
    ATTENTION_TILE_KEYS = 4
};

typedef struct AttTiles {
    Lower *l;
    const Attention *a;
    bool is_coop;    // subgroups multiply, and the thread's keys and columns are neighbours
    int64_t rows;    // of a thread; its team has these of the tile: row * TEAMS + team
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

static inline int64_t attention_tile_rows(const AttTiles *x)
{
    return x->rows * ATTENTION_TILE_TEAMS;
}
static inline int64_t attention_tile_keys(const AttTiles *x)
{
    return x->keys * ATTENTION_TILE_TEAM;
}
// Row r of the thread in the tile; number j of its keys there, or of its columns, of which a thread has n.
static inline KRef attention_tile_row(const AttTiles *x, int64_t r)
{
    return k_expr(x->l->k, "$ + #", x->team, r * ATTENTION_TILE_TEAMS);
}
static inline KRef attention_tile_place(const AttTiles *x, int64_t j, int64_t n)
{
    return x->is_coop ? k_expr(x->l->k, "$ * # + #", x->lane, n, j)
                      : k_expr(x->l->k, "$ + #", x->lane, j * ATTENTION_TILE_TEAM);
}

// The rows of a tile of queries, keys or values.
typedef struct AttCopy {
    NodeId id;
    bool is_query;
    int64_t rows, size;
    KRef first, end; // behind the end there are zeros
} AttCopy;
// Element `column` of row `at` of them, or of the last row before the end; *is_inside: is it before that?
KRef attention_tile_index(const AttTiles *x, const AttCopy *c, KRef at, KRef column, KRef *is_inside);

// --- attention_coop.c ----------------------------------------------------------------------------

// Can the tiles have cooperative matrices? Then *coop is how.
bool attention_coop_fits(const AttTiles *plain, AttTiles *coop);
void attention_coop_begin(AttTiles *x);
void attention_coop_copy(const AttTiles *x, const AttCopy *c);
// Products of queries and keys into products[row][key] of the thread; values of the tile of keys, by the
// weights that it has put, are added to the thread's mix. Both end with a barrier behind what they read.
void attention_coop_products(const AttTiles *x, KRef products);
void attention_coop_put_weights(const AttTiles *x, int64_t r, const KRef *weights);
void attention_coop_add_values(const AttTiles *x, KRef first);

#endif
