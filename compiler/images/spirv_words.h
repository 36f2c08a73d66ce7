// SPDX-License-Identifier: Apache-2.0
// How the words of a SPIR-V module lie: a header, then instructions, each of which begins with its length and
// its opcode.
#ifndef COMPILER_IMAGES_SPIRV_WORDS_H
#define COMPILER_IMAGES_SPIRV_WORDS_H

#include "base/diag.h"
#include "base/vec.h"

typedef VEC(uint32_t) SpirvWords;

enum { SPIRV_HEADER = 5, SPIRV_BOUND = 3 }; // words; where the number of ids is

static inline uint32_t spirv_opcode(const uint32_t *at)
{
    return *at & 0xffffu;
}

static inline uint32_t spirv_length(const uint32_t *at)
{
    rlx_assert(*at >> 16 != 0);
    return *at >> 16;
}

#endif
