// SPDX-License-Identifier: Apache-2.0
// What the schedules of attention share: its numbers, one query row, and how scores become weights and
// weights a result. On CPUs row by row (lower_attention.c) serves everything, and blocks of rows
// (attention_blocks.c) are for many queries. On GPUs a row in a thread (attention_thread.c) serves
// everything; groups of threads share the keys of few queries (attention_few.c), or have tiles of many
// (attention_tiles.c; of 16-bit floats on matrix units attention_mma.c and attention_wgmma.c).
#ifndef PASSES_LOWER_ATTENTION_ATTENTION_H
#define PASSES_LOWER_ATTENTION_ATTENTION_H

#include "passes/lower/operand.h"

enum {
    ATTENTION_MAX_VECTORS = 8, // of values in accumulators at a time
    ATTENTION_MAX_ACCS = 24,   // accumulators of blocks of rows
    ATTENTION_BLOCK = 64       // keys that are read, or not, where a mask hides most of them
};

typedef struct Attention {
    NodeId q, k, v, mask; // mask 0 = none
    KRef live;            // keys that count: a constant, or (has_live) a number of the run
    bool has_live, is_guarded;
    NodeId blocks; // those that the mask leaves (seen_blocks): no others are read. 0: all are
    uint32_t rank;
    int64_t heads, kv_heads, queries, keys, size, value_size;
    int64_t left, right; // keys that a query sees before and behind its place; -1: all
    KRef first;          // place of query 0 among the keys
    double scale, softcap;
    int64_t splits; // of attention_part; 0: the whole result
    int type; // of scores and sums
    Domain d; // of the result
    uint8_t dot_lanes, value_lanes;
} Attention;

// One query row.
typedef struct AttRow {
    const Attention *a;
    Point at; // the coordinates of the result before the last
    KRef kv_head;
    KRef begin, end; // keys that the row sees, without its mask; begin <= end
    bool is_listed;  // they are numbers among those of the blocks that the mask leaves
} AttRow;

// Weights of a row in scratch memory, from that of its first key on, and 1 / their sum (0 when no key is
// seen).
typedef struct AttWeights {
    uint32_t scratch;
    KRef base, factor;
} AttWeights;

// What a row has summed up over some keys, for column `column` of its values.
typedef struct AttSums {
    KRef top, sum, mix;
    KRef column;
} AttSums;

AttRow attention_row(Lower *l, const Attention *a, Point at);
// The score of a product of query and key, without the mask.
KRef attention_score(Lower *l, const Attention *a, KRef dot);
// Element (key, last) of keys or values, for the head that the row's head shares.
KRef attention_kv_index(Lower *l, const AttRow *r, NodeId id, KRef key, KRef last);
KRef attention_query_index(Lower *l, const AttRow *r, KRef last);
// The mask's element for a key, and a score with it: the sum, or -inf in place of the score where a bool
// hides the key. In place of a bool there may be what it allows, inf or -inf: a NaN becomes that, and inf
// makes NaN of the weights as a NaN does.
KRef attention_mask_at(Lower *l, const AttRow *r, KRef key);
KRef attention_masked(Lower *l, const Attention *a, KRef score, KRef v);
// y, or 0 where the attribute `guard` asks for that: `sum`, of the row's weights, or 1 / sum, is NaN.
KRef attention_guarded(Lower *l, const Attention *a, KRef y, KRef sum);
// exp(shifted) on CPUs, of a score less the largest one.
KRef attention_weight(Lower *l, const Attention *a, KRef shifted);
// Stores columns [first, first + columns) of a row, at most ATTENTION_MAX_VECTORS vectors. Keys of weight 0
// are not read.
void attention_mix(Lower *l, const AttRow *r, const AttWeights *w, KRef first, int64_t columns);
// One query row at a time: all live ones, or `queries` of them if that is not 0.
void attention_lower_rows(Lower *l, const Attention *a, KRef queries);
// One row in one thread, or loop: any target.
void attention_lower_threads(Lower *l, const Attention *a);
// One such row. columns: of the values, their number.
void attention_emit_row(Lower *l, const AttRow *r, KRef columns);
// The score of a key, with the mask.
KRef attention_score_at(Lower *l, const AttRow *r, KRef key);
// Few queries on a GPU: a group of threads goes over some of the keys. False where that does not fit.
bool attention_lower_few(Lower *l, const Attention *a);
// Many queries on a GPU: tiles of queries and keys in shared memory. False where that does not fit.
bool attention_lower_tiles(Lower *l, const Attention *a);
// Many queries of 16-bit floats on GPUs with wgmma (attention_wgmma.c). False where that does not fit.
bool attention_lower_wgmma(Lower *l, const Attention *a);
// Many queries of 16-bit floats on GPUs with mma.sync (attention_mma.c). False where that does not fit.
bool attention_lower_mma(Lower *l, const Attention *a);
// Emits these tiles in a kernel whose groups have so many threads: number `group` and every `groups`-th one
// behind it.
void attention_emit_mma(Lower *l, const Attention *a, int64_t threads, KRef group, int64_t groups);
// exp(x) for weights of values; is_half: of 16 bits, for which a GPU's own exponential is exact enough.
KRef attention_exp(Lower *l, bool is_half, KRef x);
// The most elements of a row of q, k or v that one k_fetch may take.
uint8_t attention_fetch_width(const Lower *l, NodeId id);
// Bits of the axes of the result that a run may cut.
uint32_t attention_live_axes(const Attention *a);
// Does the mask hide most keys of each query, in blocks, by its attribute and its form?
bool attention_is_sparse(const Graph *g, const Node *n);
// Into how many parts attention_few.c would split the keys; 0: it would not.
int64_t attention_count_splits(const TargetCaps *caps, const Graph *g, const Node *n);
// Where there are blocks: the row has no other keys.
void attention_list(Lower *l, AttRow *r);
// The key with number `i` of those of the row.
KRef attention_key(Lower *l, const AttRow *r, KRef i);
// The blocks that the mask leaves for a query: how many (an index), and the number of one of them.
KRef attention_count_blocks(Lower *l, const AttRow *r);
KRef attention_block(Lower *l, const AttRow *r, KRef i);
// Stores the sums of a row's part: attention_part's, or with splits 0 the result.
void attention_store_part(Lower *l, const Attention *a, Point at, const AttSums *s);
// NaN if one of n vectors has an element that is not finite: v - v is NaN then. They are added in pairs, so
// that none waits for all before it.
KRef attention_sum_of_wrong(Kernel *k, const KRef *acc, int64_t n);
// Blocks of query rows. False when they do not pay.
bool attention_lower_blocks(Lower *l, const Attention *a);

static inline uint8_t attention_count(int64_t from, int64_t n, uint8_t lanes)
{
    return (uint8_t)(n - from < lanes ? n - from : lanes);
}

#endif
