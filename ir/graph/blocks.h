// SPDX-License-Identifier: Apache-2.0
// Formats of quantised blocks as GGML stores them: u8 tensors whose last axis is one block. A format is data
// (blocks.def): element i of a block is d * scale(g) * q(i) + m * min(g), where d and m are floats of the
// block, g = i / group, and q, scale and min are small integers made of one or two planes of bits. The
// product is exact in f32 in every format whose numbers are no f32, so the sum is the only rounding, fused or
// not. Formats of group-affine weights (affine_matmul) follow from their names, affine<bits>_<group>_<type of
// d and m>: each group has a d and an m, and a block as many groups as make whole units of 32 elements. These
// pairs come first, then planes of 4 and of 2 bits, or bytes as they are, of q, which has no sign.
#ifndef IR_GRAPH_BLOCKS_H
#define IR_GRAPH_BLOCKS_H

#include "ir/graph/graph.h"

#include <stdint.h>

// Entries of `bits` bits in bytes from `at` on: `run` bytes hold the first `run` entries in their lowest
// bits, the next `run` entries above these, and so on; then come the next `run` bytes. bits and run are
// powers of two. Where part is not 0, entry i is the one of number first + i / part * step + i % part, else
// first + i.
typedef struct BlockPlane {
    uint16_t at;
    uint8_t bits, run; // bits 0: no such plane, all entries are 0
    uint8_t first, part, step;
} BlockPlane;

// sign * (((low + high * 2^(bits of low)) ^ flip) + bias). sign 0: the term of this field does not exist.
typedef struct BlockField {
    BlockPlane low, high;
    uint8_t flip;
    int16_t bias;
    int8_t sign;
} BlockField;

typedef enum BlockFloat {
    BLOCK_F16,
    BLOCK_E8M0, // one byte e: 2^(e - 128), half of OCP's scale, since values are doubled
    BLOCK_BF16,
    BLOCK_F32,
} BlockFloat;

typedef struct BlockFormat {
    const char *name;
    uint16_t elements, bytes, group;
    BlockFloat float_kind;
    uint8_t d_at, m_at; // offsets of d and m
    uint8_t pitch;      // 0, or each group has its own, so many bytes behind those of the one before
    BlockField q, scale, min;
    const int8_t *values; // NULL, or what the 4 bits of q stand for
} BlockFormat;

enum {
#define BLOCK(name, ...) BLOCK_##name,
#include "ir/graph/blocks.def"
#undef BLOCK
    BLOCK_FORMATS
};

extern const BlockFormat block_formats[BLOCK_FORMATS];

// The element type that holds d and m (f32 for E8M0), and their size in a block.
DType block_float_type(BlockFloat kind);
uint32_t block_float_bytes(BlockFloat kind);
// NULL when there is none of that name. The arena holds formats that are not in the table.
const BlockFormat *block_format(Arena *arena, const char *name);
// Elements of a block of group-affine weights: as many groups as make whole units of 32. 0: that would be
// more than BLOCK_GROUP_MOST, which is what kernels are to unroll, and to copy as a whole.
enum { BLOCK_GROUP_MOST = 512 };
uint32_t block_group_elements(int64_t group);
// The name of their format.
const char *block_group_name(Arena *arena, int64_t bits, int64_t group, DType type);
// Where entry i of a plane that has bits lies in a block, and what it is shifted by in its byte.
typedef struct BlockPlace {
    uint32_t byte, shift;
} BlockPlace;
BlockPlace block_place(const BlockPlane *p, uint32_t i);
// Field f of a block at i, an element or (scale, min) a group.
int block_field(const BlockField *f, const unsigned char *block, uint32_t i);
// d or m of group g of a block, by the offset of the block's first.
double block_number(const BlockFormat *f, const unsigned char *block, uint8_t at, uint32_t g);
// All elements of a block, f->elements of them.
void block_decode(const BlockFormat *f, const unsigned char *block, float *out);

#endif
