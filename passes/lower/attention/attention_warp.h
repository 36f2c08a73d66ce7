// SPDX-License-Identifier: Apache-2.0
// Scores, weights and sums of 16 query rows that a warp multiplies with matrix units: what attention_mma.c
// and attention_wgmma.c share. A thread has two of the rows, lane / 4 and 8 behind it, and of every 8 columns
// the two from 2 * (lane % 4) on: element 4 * (column / 8) + 2 * (second row) + column % 2 of its arrays.
#ifndef PASSES_LOWER_ATTENTION_ATTENTION_WARP_H
#define PASSES_LOWER_ATTENTION_ATTENTION_WARP_H

#include "ir/kernel/device.h"
#include "passes/lower/attention/attention.h"

enum { ATTENTION_WARP_ROWS = 16 };

typedef struct AttWarp {
    Lower *l;
    const Attention *a;
    int64_t keys, columns;        // of a block; of the sums: a multiple of 8
    KRef lane;
    KRef scores, mix;             // arrays of f32
    KRef top[2], sum[2], keep[2]; // variables: so far; what sums so far are to be multiplied by
    AttRow row[2];
} AttWarp;

// What is added to the thread's two scores of row h in columns [8 * eighth, 8 * eighth + 8) of the block
// whose first key is `first`.
typedef void AttMask(const void *ctx, const AttWarp *x, int64_t h, KRef first, KRef eighth, KRef *pair);

// Number of a head among all of all batches, and which of its n tiles: those of a few heads in turns, so that
// their keys stay in the cache, with those of the last queries first where they see most keys.
typedef struct AttTile {
    KRef head, i;
} AttTile;
AttTile attention_tile(Lower *l, const Attention *a, KRef number, int64_t n);

// Arrays and variables; l, a, keys, columns and lane are there.
void attention_warp_open(AttWarp *x);
// Begins the rows of another tile; the array of sums is the caller's.
void attention_warp_begin(AttWarp *x);
// Products with the keys from `first` on become scores. mask: NULL if there is none.
void attention_warp_score(const AttWarp *x, KRef first, AttMask *mask, const void *ctx);
// Keys that a row does not see get weight 0. is_cut: does a row of the warp end or begin in the block?
void attention_warp_hide(const AttWarp *x, KRef first, KRef is_cut);
// Scores become weights in place.
void attention_warp_weigh(const AttWarp *x);
void attention_warp_rescale(const AttWarp *x);
// What the sums of row h are multiplied by: 0 where it sees nothing.
KRef attention_warp_factor(const AttWarp *x, int64_t h);
// 0, or NaN where a sum is not finite: a value that some row does not see may have been infinite or NaN.
KRef attention_warp_rest(const AttWarp *x);
// The sums as elements of the result, rows before `end`.
void attention_warp_store(const AttWarp *x, KRef end);
// Two neighbours as a word of an operand.
KRef attention_warp_pack(Kernel *k, DType type, KRef low, KRef high);

#endif
