// SPDX-License-Identifier: Apache-2.0
// Quantised blocks (ir/blocks.h) in kernels: loads of their integers and numbers, from the table of formats.
#ifndef PASSES_BLOCKS_H
#define PASSES_BLOCKS_H

#include "ir/blocks.h"
#include "passes/lower.h"

// Where a kernel reads blocks.
typedef struct BlockReader {
    const BlockFormat *f;
    uint32_t param;  // u8
    uint32_t values; // param of f->values, where there are any
} BlockReader;

BlockReader blocks_reader(Lower *l, const BlockFormat *f, NodeId id);
// All of these take the index of a block's first byte. Field of element or group i: i32.
KRef blocks_field(Kernel *k, const BlockReader *r, const BlockField *f, KRef block, KRef i);
// What q of element i stands for: i32.
KRef blocks_q(Kernel *k, const BlockReader *r, KRef block, KRef i);
// f32: d * scale and m * min of group g; min is 0 where the format has none.
typedef struct BlockGroup {
    KRef scale, min;
} BlockGroup;
BlockGroup blocks_group(Kernel *k, const BlockReader *r, KRef block, KRef g);
// Element i of that group's block: f32, rounded once.
KRef blocks_value(Kernel *k, const BlockReader *r, const BlockGroup *group, KRef block, KRef i);

#endif
