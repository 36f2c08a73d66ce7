// SPDX-License-Identifier: Apache-2.0
// The table of block formats, those of group-affine weights, and decoding one block.
#include "ir/graph/blocks.h"
#include "ir/graph/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Steps of iq4: the levels that GGML's non-linear 4 bits stand for.
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
// e2m1, doubled.
static const int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

#define NO_PLANE                                                                                             \
    {                                                                                                        \
        0                                                                                                    \
    }
#define PLANE(at, bits, run)                                                                                 \
    {                                                                                                        \
        at, bits, run, 0, 0, 0                                                                               \
    }
#define FROM(at, bits, run, first)                                                                           \
    {                                                                                                        \
        at, bits, run, first, 0, 0                                                                           \
    }
#define PARTS(at, bits, run, first, part, step)                                                              \
    {                                                                                                        \
        at, bits, run, first, part, step                                                                     \
    }
#define FIELD(low, high, flip, bias)                                                                         \
    {                                                                                                        \
        low, high, flip, bias, 1                                                                             \
    }
#define MINUS(low, high, flip, bias)                                                                         \
    {                                                                                                        \
        low, high, flip, bias, -1                                                                            \
    }
#define ONE                                                                                                  \
    {                                                                                                        \
        NO_PLANE, NO_PLANE, 0, 1, 1                                                                          \
    }
#define NONE                                                                                                 \
    {                                                                                                        \
        NO_PLANE, NO_PLANE, 0, 0, 0                                                                          \
    }
const BlockFormat block_formats[BLOCK_FORMATS] = {
#define BLOCK(name, elements, bytes, group, kind, d, m, q, scale, min, values)                               \
    {#name, elements, bytes, group, BLOCK_##kind, d, m, 0, q, scale, min, values},
#include "ir/graph/blocks.def"
#undef BLOCK
};

static const struct {
    uint8_t type, bytes;
} floats[] = {[BLOCK_F16] = {DTYPE_f16, 2},
              [BLOCK_E8M0] = {DTYPE_f32, 1},
              [BLOCK_BF16] = {DTYPE_bf16, 2},
              [BLOCK_F32] = {DTYPE_f32, 4}};

DType block_float_type(BlockFloat kind)
{
    return (DType)floats[kind].type;
}

uint32_t block_float_bytes(BlockFloat kind)
{
    return floats[kind].bytes;
}

// --- groups --------------------------------------------------------------------------------------

enum { UNIT = 32 };
#define GROUPS_PREFIX "affine"

uint32_t block_group_elements(int64_t group)
{
    if (group < 1 || group > BLOCK_GROUP_MOST)
        return 0;
    int64_t elements = group;
    while (elements % UNIT != 0)
        elements *= 2;
    return elements <= BLOCK_GROUP_MOST ? (uint32_t)elements : 0;
}

const char *block_group_name(Arena *arena, int64_t bits, int64_t group, DType type)
{
    return arena_printf(arena, GROUPS_PREFIX "%d_%d_%s", (int)bits, (int)group, dtype_info[type].name);
}

// The lower 4 bits of elements i and 16 + i of a unit are in byte i of 16; the other two of i, 8 + i,
// 16 + i and 24 + i in byte i of 8, behind all of the low ones.
static BlockField group_bits(uint32_t bits, uint16_t at, uint32_t elements)
{
    const uint16_t high = (uint16_t)(at + elements / 2);
    return (BlockField){.low = bits == 8 ? (BlockPlane)PLANE(at, 8, 1) : (BlockPlane)PLANE(at, 4, 16),
                        .high = bits == 6 ? (BlockPlane)PLANE(high, 2, 8) : (BlockPlane)NO_PLANE,
                        .sign = 1};
}

static const BlockFormat *group_format(Arena *arena, uint32_t bits, uint32_t group, BlockFloat kind)
{
    const uint32_t elements = block_group_elements(group), pair = 2 * floats[kind].bytes;
    const uint32_t numbers = elements / group * pair;
    BlockFormat *f = ARENA_NEW(arena, BlockFormat);
    *f = (BlockFormat){.name = block_group_name(arena, bits, group, block_float_type(kind)),
                       .elements = (uint16_t)elements,
                       .bytes = (uint16_t)(numbers + elements * bits / 8),
                       .group = (uint16_t)group,
                       .float_kind = kind,
                       .m_at = floats[kind].bytes,
                       .pitch = elements == group ? 0 : (uint8_t)pair,
                       .q = group_bits(bits, (uint16_t)numbers, elements),
                       .scale = ONE,
                       .min = ONE};
    return f;
}

// The format of a name that is exactly as block_group_name makes it.
static const BlockFormat *named_groups(Arena *arena, const char *name)
{
    static const BlockFloat kinds[] = {BLOCK_F16, BLOCK_BF16, BLOCK_F32};
    const size_t n = strlen(GROUPS_PREFIX);
    if (strncmp(name, GROUPS_PREFIX, n) != 0 || strchr("468", name[n]) == NULL || name[n] == 0 ||
        name[n + 1] == 0)
        return NULL;
    const uint32_t bits = (uint32_t)(name[n] - '0');
    const long group = strtol(name + n + 2, NULL, 10);
    if (block_group_elements(group) == 0)
        return NULL;
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, block_group_name(arena, bits, group, block_float_type(kinds[i]))) == 0)
            return group_format(arena, bits, (uint32_t)group, kinds[i]);
    return NULL;
}

const BlockFormat *block_format(Arena *arena, const char *name)
{
    for (uint32_t i = 0; i < BLOCK_FORMATS; i++)
        if (strcmp(block_formats[i].name, name) == 0)
            return &block_formats[i];
    return named_groups(arena, name);
}

// --- decoding ------------------------------------------------------------------------------------

static uint32_t log2_of(uint32_t power)
{
    return (uint32_t)__builtin_ctz(power);
}

BlockPlace block_place(const BlockPlane *p, uint32_t i)
{
    rlx_assert(p->bits != 0);
    const uint32_t e = p->first + (p->part ? i / p->part * p->step + i % p->part : i);
    const uint32_t run = log2_of(p->run), bits = log2_of(p->bits), span = run + 3 - bits;
    return (BlockPlace){.byte = p->at + (e >> span << run) + (e & (p->run - 1u)),
                        .shift = (e >> run & ((8u >> bits) - 1)) << bits};
}

// The entry.
static uint32_t block_entry(const BlockPlane *p, const unsigned char *block, uint32_t i)
{
    if (p->bits == 0)
        return 0;
    const BlockPlace at = block_place(p, i);
    return block[at.byte] >> at.shift & ((1u << p->bits) - 1);
}

int block_field(const BlockField *f, const unsigned char *block, uint32_t i)
{
    const uint32_t bits = block_entry(&f->low, block, i) | block_entry(&f->high, block, i) << f->low.bits;
    return f->sign * ((int)(bits ^ f->flip) + f->bias);
}

// q of element i: the field, or what it stands for.
static int block_q(const BlockFormat *f, const unsigned char *block, uint32_t i)
{
    const int q = block_field(&f->q, block, i);
    return f->values ? f->values[q] : q;
}

double block_number(const BlockFormat *f, const unsigned char *block, uint8_t at, uint32_t g)
{
    if (f->float_kind == BLOCK_E8M0)
        return ldexp(1, block[at] - 128);
    uint32_t bits = 0;
    memcpy(&bits, block + at + g * f->pitch, floats[f->float_kind].bytes);
    if (f->float_kind == BLOCK_F16)
        return f16_to_f64((uint16_t)bits);
    bits <<= f->float_kind == BLOCK_BF16 ? 16 : 0;
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

void block_decode(const BlockFormat *f, const unsigned char *block, float *out)
{
    for (uint32_t g = 0; g < f->elements / (uint32_t)f->group; g++) {
        const double scale = block_number(f, block, f->d_at, g) * block_field(&f->scale, block, g);
        const double m = f->min.sign ? block_number(f, block, f->m_at, g) : 0;
        const double min = f->min.sign ? m * block_field(&f->min, block, g) : 0;
        for (uint32_t i = g * f->group; i < (g + 1u) * f->group; i++)
            out[i] = f->min.sign ? (float)(scale * block_q(f, block, i) + min)
                                 : (float)(scale * block_q(f, block, i));
    }
}
