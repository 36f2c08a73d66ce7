// SPDX-License-Identifier: Apache-2.0
// What the two sides of attention_wgmma.c share: places in shared memory, rings of slots, tiles of queries.
// The side of the warpgroups that multiply is attention_warpgroup.c.
#ifndef PASSES_LOWER_ATTENTION_ATTENTION_WGMMA_H
#define PASSES_LOWER_ATTENTION_ATTENTION_WGMMA_H

#include "passes/lower/attention/attention_warp.h"

enum {
    ROWS = 128, // queries of a tile
    OWN_ROWS = 64,
    LINE = 128, // bytes of a row of a box: 64 elements
    LINE_ELEMENTS = 64,
    KV_SLOTS = 2,
    WARPGROUP = 128,
    THREADS = 3 * WARPGROUP,
    PRODUCER_REGISTERS = 56,
    CONSUMER_REGISTERS = 224,
    MAX_SIZE = 256
};

// The places of barriers behind the slots (of queries, keys, values, masks; these come with the keys), and
// two numbers of each: of the tile in a slot of queries, and whether a warpgroup has sums that are not
// finite.
typedef enum AwBar {
    Q_FULL,
    Q_EMPTY,
    K_FULL,
    K_EMPTY,
    V_FULL,
    V_EMPTY,
    M_EMPTY,
    Q_NUMBER,
    SPOILED,
    BAR_COUNT
} AwBar;

// Boxes of 128 bytes of a row.
typedef struct AwMask {
    DType type;
    int64_t rows;             // of a box: those of a tile, or 1, which all of them have
    int64_t boxes, box_bytes; // of a slot; from one box to the next
    int64_t bytes;            // of a slot; 0: no mask
    bool by_batch;
    uint32_t map;
} AwMask;

typedef struct AwKernel {
    Lower *l;
    Kernel *k;
    const Attention *a;
    DType type;
    int64_t boxes;   // of 64 columns of a head
    int64_t keys;    // of a block
    int64_t q_slots;
    int64_t q_bytes, kv_bytes; // of a slot
    int64_t batch, tiles_of_head, tiles, groups;
    KRef shared, thread;
    uint32_t map_q, map_k, map_v, map_y, counter;
    bool stores_boxes;
    AwMask mask;
} AwKernel;

// A tile of queries.
typedef struct AwTile {
    KRef batch, head, first;  // head: of the queries; first: query
    KRef kv_head;
    KRef begin, n;            // first block of keys, number of blocks, at least 1
} AwTile;

typedef struct AwRing {
    KRef slot, phase; // variables
    int64_t slots;
} AwRing;

AwRing aw_ring(Kernel *k, int64_t slots, int64_t phase);
void aw_advance(Kernel *k, AwRing r);
// The point of a query of a tile, without its last axis.
Point aw_point(const AwKernel *w, const AwTile *t, KRef query);
AwTile aw_tile(const AwKernel *w, KRef number);
// Warpgroup `number` of those that multiply.
void aw_consume(const AwKernel *w, KRef number);

// --- masks (attention_wgmma_mask.c) ---

// Can the copy engine read it? Sets w->mask but for the map. True without one.
bool aw_mask_fits(AwKernel *w);
void aw_mask_add_map(AwKernel *w);
// Loads the mask of the tile's queries and the keys from `first` on to the slot; does nothing without a mask.
void aw_mask_load(const AwKernel *w, const AwTile *t, KRef first, KRef slot);
int64_t aw_mask_copied(const AwKernel *w); // bytes of that
// Where a warp finds its masks: first row of the tile, address of the slot.
typedef struct AwMaskPlace {
    const AwKernel *w;
    KRef row, slot;
} AwMaskPlace;
// An AttMask of such a place.
void aw_mask_read(const void *ctx, const AttWarp *x, int64_t h, KRef first, KRef eighth, KRef *pair);

static inline KRef aw_plus(Kernel *k, KRef a, int64_t b)
{
    return k_expr(k, "$ + #", a, b);
}

static inline KRef aw_over(Kernel *k, KRef a, int64_t b)
{
    return k_expr(k, "$ / #", a, b);
}

static inline KRef aw_rest(Kernel *k, KRef a, int64_t b)
{
    return k_expr(k, "$ % #", a, b);
}

static inline KRef aw_q_slot(const AwKernel *w, KRef slot)
{
    return k_expr(w->k, "$ * # + $", slot, w->q_bytes, w->shared);
}

static inline KRef aw_k_slot(const AwKernel *w, KRef slot)
{
    return k_expr(w->k, "$ * # + $", slot, w->kv_bytes, aw_plus(w->k, w->shared, w->q_slots * w->q_bytes));
}

static inline KRef aw_v_slot(const AwKernel *w, KRef slot)
{
    return aw_plus(w->k, aw_k_slot(w, slot), KV_SLOTS * w->kv_bytes);
}

static inline KRef aw_mask_slot(const AwKernel *w, KRef slot)
{
    const int64_t at = w->q_slots * w->q_bytes + 2 * KV_SLOTS * w->kv_bytes;
    return k_expr(w->k, "$ * # + $", slot, w->mask.bytes, aw_plus(w->k, w->shared, at));
}

static inline KRef aw_bar(const AwKernel *w, AwBar b, KRef slot)
{
    const int64_t at = w->q_slots * w->q_bytes + 2 * KV_SLOTS * w->kv_bytes + KV_SLOTS * w->mask.bytes +
                       16 * (int64_t)b;
    return k_expr(w->k, "$ * 8 + $", slot, aw_plus(w->k, w->shared, at));
}

#endif
