// SPDX-License-Identifier: Apache-2.0
// The layout of quantised blocks that are packed for vectors. Separate for those who write code that packs
// (compiler/load), and know nothing of lowering.
#ifndef PASSES_LOWER_BLOCKS_BLOCKS_PACKED_H
#define PASSES_LOWER_BLOCKS_BLOCKS_PACKED_H

#include "ir/graph/blocks.h"
#include "ir/plan/plan.h"

// Rows of blocks of a weight [(experts,) columns, blocks, bytes], by vectors of `lanes` of them (the last
// vectors repeat its last one). All of a product's weights are one stream, as it keeps up with memory only
// so: records [vectors / beside][block], each of a block of `beside` vectors, which has its parts one after
// the other. q without its bias is `low` bits, and `high` ones above them, in words of four bytes of a unit
// of 32 elements, [unit][vector][word][lane]: byte j of low word w holds elements 4 w + j, and those that lie
// 4 * low elements further above it; high words likewise. Other parts are [group][vector][lane].
enum { BLOCK_UNIT = 32, BLOCK_MAX_WORDS = 8 };
// WORDS: i32. D, M: f16 or f32, of each group or of the block. SCALES, MINS: i8.
typedef enum BlockPart {
    BLOCK_WORDS,
    BLOCK_D,
    BLOCK_M,
    BLOCK_SCALES,
    BLOCK_MINS,
    BLOCK_PARTS
} BlockPart;

typedef struct PackedBlocks {
    const BlockFormat *f;
    int64_t columns, blocks, units; // units of a block
    int64_t experts;                // that the records are parts for
    uint8_t lanes, beside, low, high;
    int16_t bias;            // q is the bits + bias
    int64_t groups, numbers; // of a block: scales, and pairs of d and m
    int64_t step;            // elements of a unit between which no group ends
    int64_t record;          // its bytes
    int64_t at[BLOCK_PARTS]; // where parts begin in it, in bytes
    uint32_t param[BLOCK_PARTS]; // the records, as elements of the part's type
} PackedBlocks;

// What the bytes of a buffer are packed from, and how; NULL: they are no blocks that were packed at compile
// time.
const PackedBlocks *blocks_packed_in(const PlanBuffer *b, const unsigned char **data);
// The number of entries of a part in a block (0: there are none), and the bytes of one.
int64_t blocks_packed_entries(const PackedBlocks *p, BlockPart part);

#endif
