// SPDX-License-Identifier: Apache-2.0
// Quantised blocks (blocks.h) in kernels: loads of their integers and numbers as they are stored, from the
// table of formats; and weights packed for vectors of columns.
#ifndef PASSES_LOWER_BLOCKS_BLOCKS_H
#define PASSES_LOWER_BLOCKS_BLOCKS_H

#include "ir/graph/blocks.h"
#include "passes/lower/blocks/blocks_packed.h"
#include "passes/lower/lower.h"

// --- as they are stored --------------------------------------------------------------------------

// Where a kernel reads blocks.
typedef struct BlockReader {
    const BlockFormat *f;
    uint32_t param;  // u8
    uint32_t values; // param of f->values, where there are any
} BlockReader;

BlockReader blocks_reader(Lower *l, const BlockFormat *f, NodeId id);
// The reader of a parameter of bytes.
BlockReader blocks_reader_of(Lower *l, const BlockFormat *f, uint32_t param);
// All of these take the index of a block's first byte. Entry i of a plane, field of element or group i: i32.
KRef blocks_entry(Kernel *k, const BlockReader *r, const BlockPlane *p, KRef block, KRef i);
KRef blocks_field(Kernel *k, const BlockReader *r, const BlockField *f, KRef block, KRef i);
// What q of element i stands for: i32.
KRef blocks_q(Kernel *k, const BlockReader *r, KRef block, KRef i);
// d or m of group g, by the offset of the block's first: f32.
KRef blocks_number(Kernel *k, const BlockReader *r, KRef block, uint8_t at, KRef g);
// f32: d * scale and m * min of group g; min is 0 where the format has none.
typedef struct BlockGroup {
    KRef scale, min;
} BlockGroup;
BlockGroup blocks_group(Kernel *k, const BlockReader *r, KRef block, KRef g);
// Element i of that group's block: f32, rounded once.
KRef blocks_value(Kernel *k, const BlockReader *r, const BlockGroup *group, KRef block, KRef i);

// --- packed for vectors --------------------------------------------------------------------------

// Can the weight be packed? A constant, or made of parameters only.
bool blocks_can_pack(const Lower *l, NodeId weight);
// Packs it, at compile time or once after parameters were set. Call this before loops are opened.
// beside: at most. of: NULL, or the layer whose experts the weight has, a whole number of records each: they
// are a part of the layer (PlanMoe).
struct Experts;
PackedBlocks blocks_pack(Lower *l, const BlockFormat *f, NodeId weight, uint8_t lanes, uint8_t beside,
                         const struct Experts *of);
// From here to the end of the block, the records are those of expert e, wherever the host has put it.
void blocks_packed_point(Kernel *k, const PackedBlocks *p, KRef e);

// Units of a block are computed by a loop. Where groups have numbers of their own, which unit has which of
// them must be known: units stand behind each other then, `turns` of them.
int64_t blocks_packed_turns(const PackedBlocks *p);
// Begins and ends the code of a turn: gives the number of the unit.
KRef blocks_packed_open(Kernel *k, const PackedBlocks *p, int64_t turn);
void blocks_packed_close(Kernel *k, const PackedBlocks *p);
typedef struct PackedPlace {
    KRef record; // its number
    KRef vector; // in the record
    KRef lane;   // of the vector, the only one that is read; 0: all of them
} PackedPlace;
typedef struct PackedUnit {
    PackedPlace at;
    KRef unit;
    int64_t turn;
} PackedUnit;

// A block of vector number `vector`; one of row number `row`.
PackedPlace blocks_packed_place(Kernel *k, const PackedBlocks *p, KRef vector, KRef block);
PackedPlace blocks_packed_lane(Kernel *k, const PackedBlocks *p, KRef row, KRef block);

// d and m of a vector of blocks, where all groups share them.
typedef struct PackedNumbers {
    KRef d, m;
} PackedNumbers;
PackedNumbers blocks_packed_numbers(Kernel *k, const PackedBlocks *p, const PackedPlace *at);
// Elements [first, end) of a unit are of one group: element = bits * scale + add; add is 0 where there is
// nothing to add.
typedef struct PackedGroup {
    int64_t end;
    KRef scale, add;
} PackedGroup;
// The group of element `first` of a unit.
PackedGroup blocks_packed_group(Kernel *k, const PackedBlocks *p, const PackedNumbers *n, const PackedUnit *u,
                                int64_t first);
// All words of a unit.
void blocks_packed_words(Kernel *k, const PackedBlocks *p, const PackedUnit *u, KRef *words);
// The bits of elements 4 t .. 4 t + 3 of a unit, a byte each.
KRef blocks_packed_quad(Kernel *k, const PackedBlocks *p, const KRef *words, int64_t t);
// The bits of element i of a unit, from bit `at` of an i32 on.
KRef blocks_packed_bits(Kernel *k, const PackedBlocks *p, const KRef *words, int64_t i, int64_t at);
// Element i of a unit, f32.
KRef blocks_packed_value(Kernel *k, const PackedBlocks *p, const KRef *words, const PackedGroup *g,
                         int64_t i);

#endif
