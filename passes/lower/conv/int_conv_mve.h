// SPDX-License-Identifier: Apache-2.0
// What schedules for vectors of bytes share: how device functions bring sums back to bytes (ir/kernel/mve.h),
// and which taps are inside of the input.
#ifndef PASSES_LOWER_CONV_INT_CONV_MVE_H
#define PASSES_LOWER_CONV_INT_CONV_MVE_H

#include "ir/kernel/device.h"
#include "ir/kernel/mve.h"
#include "passes/lower/conv/int_conv.h"

typedef struct MveScales {
    const RequantScale *of;   // by output channel
    int64_t groups, channels; // channels of a group
    int64_t shift, high;
} MveScales;

// Can they do it for all channels? Also false where pixels of the result do not follow each other at equal
// distances, or their channels not at all. channels: those of a group, whose blocks are packed together.
bool mve_scales_find(const IntConv *c, const Domain *d, int64_t channels, MveScales *s);
// The operand `high`.
int64_t mve_high(const MveScales *s);
// Words behind the weights of the block that begins at a channel of each group: as many for all groups.
int64_t mve_tail_words(const MveScales *s, int64_t first);
void mve_pack_tail(const MveScales *s, int64_t group, int64_t first, unsigned char **out);
void mve_put(unsigned char **out, int64_t word);

// Of the taps of a row or column of the kernel, those inside of the input: lo .. lo + n - 1.
typedef struct MveTaps {
    KRef lo, n;
} MveTaps;
// at: where tap 0 is.
MveTaps mve_taps_inside(Kernel *k, KRef at, int64_t taps, int64_t dilation, int64_t in);

#endif
