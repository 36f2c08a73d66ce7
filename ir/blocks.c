// SPDX-License-Identifier: Apache-2.0
// The table of block formats, and decoding one block.
#include "ir/blocks.h"
#include "ir/tensor.h"

#include <math.h>
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
    {#name, elements, bytes, group, BLOCK_##kind, d, m, q, scale, min, values},
#include "ir/blocks.def"
#undef BLOCK
};

const BlockFormat *block_format(const char *name)
{
    for (uint32_t i = 0; i < BLOCK_FORMATS; i++)
        if (strcmp(block_formats[i].name, name) == 0)
            return &block_formats[i];
    return NULL;
}

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

static uint32_t log2_of(uint32_t power)
{
    return (uint32_t)__builtin_ctz(power);
}

uint32_t block_entry(const BlockPlane *p, const unsigned char *block, uint32_t i)
{
    if (p->bits == 0)
        return 0;
    const uint32_t e = p->first + (p->part ? i / p->part * p->step + i % p->part : i);
    const uint32_t run = log2_of(p->run), bits = log2_of(p->bits), span = run + 3 - bits;
    const uint32_t byte = p->at + (e >> span << run) + (e & (p->run - 1u));
    return block[byte] >> ((e >> run & ((8u >> bits) - 1)) << bits) & ((1u << p->bits) - 1);
}

int block_field(const BlockField *f, const unsigned char *block, uint32_t i)
{
    const uint32_t bits = block_entry(&f->low, block, i) | block_entry(&f->high, block, i) << f->low.bits;
    return f->sign * ((int)(bits ^ f->flip) + f->bias);
}

int block_q(const BlockFormat *f, const unsigned char *block, uint32_t i)
{
    const int q = block_field(&f->q, block, i);
    return f->values ? f->values[q] : q;
}

double block_number(const BlockFormat *f, const unsigned char *block, uint8_t at)
{
    if (f->float_kind == BLOCK_E8M0)
        return ldexp(1, block[at] - 128);
    uint32_t bits = 0;
    memcpy(&bits, block + at, floats[f->float_kind].bytes);
    if (f->float_kind == BLOCK_F16)
        return f16_to_f64((uint16_t)bits);
    bits <<= f->float_kind == BLOCK_BF16 ? 16 : 0;
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

void block_decode(const BlockFormat *f, const unsigned char *block, float *out)
{
    const double d = block_number(f, block, f->d_at);
    const double m = f->min.sign ? block_number(f, block, f->m_at) : 0;
    for (uint32_t g = 0; g < f->elements / (uint32_t)f->group; g++) {
        const double scale = d * block_field(&f->scale, block, g);
        const double min = f->min.sign ? m * block_field(&f->min, block, g) : 0;
        for (uint32_t i = g * f->group; i < (g + 1u) * f->group; i++)
            out[i] = f->min.sign ? (float)(scale * block_q(f, block, i) + min)
                                 : (float)(scale * block_q(f, block, i));
    }
}
