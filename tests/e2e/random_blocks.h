// SPDX-License-Identifier: Apache-2.0
// Random quantised blocks for tests: all bits random, but d and m plain numbers of at most 1 that have few
// bits, so that sums of decoded elements are as well behaved as those of other tests.
#ifndef TESTS_E2E_RANDOM_BLOCKS_H
#define TESTS_E2E_RANDOM_BLOCKS_H

#include "ir/graph/blocks.h"
#include "ir/graph/tensor.h"

#include <string.h>

// bits: of a generator of 64 random bits.
typedef uint64_t (*RandomBits)(void *ctx);

// d or m at a byte of a block.
static inline void random_block_number(const BlockFormat *f, unsigned char *block, uint32_t at, uint64_t bits)
{
    if (f->float_kind == BLOCK_E8M0) {
        block[at] = (unsigned char)(120 + bits % 10);
        return;
    }
    const float v = (float)((double)(bits % 33) - 16) / 256;
    uint32_t number;
    memcpy(&number, &v, sizeof number);
    if (f->float_kind == BLOCK_F16)
        number = f16_from_f64((double)v);
    else if (f->float_kind == BLOCK_BF16)
        number >>= 16;
    memcpy(block + at, &number, block_float_bytes(f->float_kind));
}

static inline void random_blocks(const BlockFormat *f, unsigned char *blocks, int64_t n, RandomBits next,
                                 void *ctx)
{
    for (int64_t i = 0; i < n; i++, blocks += f->bytes) {
        for (uint32_t j = 0; j < f->bytes; j++)
            blocks[j] = (unsigned char)(next(ctx) >> 40);
        for (uint32_t g = 0; g < (f->pitch ? f->elements / (uint32_t)f->group : 1); g++) {
            random_block_number(f, blocks, f->d_at + g * f->pitch, next(ctx) >> 32);
            if (f->min.sign)
                random_block_number(f, blocks, f->m_at + g * f->pitch, next(ctx) >> 32);
        }
    }
}

#endif
