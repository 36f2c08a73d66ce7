// SPDX-License-Identifier: Apache-2.0
// How device functions for vectors of bytes bring sums back to bytes: what stands behind the weights of a
// block (ir/kernel/mve.h).
#ifndef PASSES_LOWER_CONV_INT_CONV_BYTE_SCALE_H
#define PASSES_LOWER_CONV_INT_CONV_BYTE_SCALE_H

#include "passes/lower/conv/int_conv.h"

typedef struct ByteScales {
    const RequantScale *of;   // by output channel
    int64_t groups, channels; // channels of a group
    int64_t block; // channels that are packed together; only the last block of a group may have fewer
    int64_t shift, high;
    int64_t moved; // what is added to what sums begin with
    RequantEnds ends;
} ByteScales;

// Can device functions bring the sums of all channels back to bytes? Also false where pixels of the result do
// not follow each other at equal distances, or their channels not at all. `groups` and `channels` of s and
// its `block` say which blocks there are.
bool byte_scales_find(const IntConv *c, const Domain *d, ByteScales *s);
// The operand `high`.
int64_t byte_scales_high(const ByteScales *s);
// Words behind the weights of the block that begins at a channel of each group: as many for all groups.
int64_t byte_tail_words(const ByteScales *s, int64_t first);
void byte_pack_tail(const ByteScales *s, int64_t group, int64_t first, unsigned char **out);
void byte_put_word(unsigned char **out, int64_t word);

#endif
