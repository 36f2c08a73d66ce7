// SPDX-License-Identifier: Apache-2.0
// See device_matrix.h.
#include "ir/interp/device_matrix.h"
#include "ir/graph/small_float.h"

#include <string.h>

enum {
    UNIT = 16,          // bytes that descriptors count
    UNIT_MASK = 0x3fff, // of 14 bits
    GROUP = 8,          // rows that are one after the other
    GROUP_ROW = 16,     // bytes of a row without swizzle
    LEAD_AT = 16,       // bits of a descriptor
    STRIDE_AT = 32,
    SWIZZLE_AT = 62
};

float matrix_number(DType type, uint32_t bits)
{
    if (dtype_info[type].bytes == 1)
        return type == DTYPE_i8   ? (float)(int8_t)bits
               : type == DTYPE_u8 ? (float)(uint8_t)bits
                                  : (float)small_float_widen(type, (uint8_t)bits);
    // An f16 has its exponent 112 lower than an f32; the product is exact.
    const uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
    const uint32_t word = type == DTYPE_bf16 ? bits << 16 : rest;
    float v;
    memcpy(&v, &word, sizeof v);
    if (type == DTYPE_bf16)
        return v;
    v *= 0x1p112f;
    uint32_t result;
    memcpy(&result, &v, sizeof result);
    result |= sign | (rest >= 0x7c00u << 13 ? 0x7f800000u : 0);
    memcpy(&v, &result, sizeof v);
    return v;
}

// Four columns at a time: compilers do not do so by themselves where tests are compiled.
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

void matrix_product(float *sums, const float *a, const float *b, MatrixSize size)
{
    const uint32_t n = size.n;
    rlx_assert(n % 4 == 0);
    for (uint32_t row = 0; row < size.rows; row++)
        for (uint32_t i = 0; i < n; i += 4) {
            Four *to = (Four *)(void *)(sums + (size_t)row * n + i);
            Four sum = *to;
            for (uint32_t k = 0; k < size.steps; k++)
                sum += a[row * size.steps + k] * *(const Four *)(const void *)(b + (size_t)k * n + i);
            *to = sum;
        }
}

uint64_t matrix_desc_bits(const MatrixDesc *d)
{
    const uint64_t kind = d->swizzle == 0 ? 0 : d->swizzle == 128 ? 1 : d->swizzle == 64 ? 2 : 3;
    return (uint64_t)(d->address / UNIT & UNIT_MASK) | (uint64_t)(d->lead / UNIT) << LEAD_AT |
           (uint64_t)(d->stride / UNIT) << STRIDE_AT | kind << SWIZZLE_AT;
}

MatrixDesc matrix_desc_of(uint64_t bits, bool is_mn, uint32_t bytes)
{
    static const uint32_t swizzle[] = {0, 128, 64, 32};
    return (MatrixDesc){.address = (uint32_t)(bits & UNIT_MASK) * UNIT,
                        .lead = (uint32_t)(bits >> LEAD_AT & UNIT_MASK) * UNIT,
                        .stride = (uint32_t)(bits >> STRIDE_AT & UNIT_MASK) * UNIT,
                        .swizzle = swizzle[bits >> SWIZZLE_AT],
                        .is_mn = is_mn,
                        .bytes = bytes};
}

// Rows of the swizzle's bytes, eight of them one after the other. Next to each other in them are steps (then
// groups of eight rows are `stride` apart), or rows: then these are `lead` apart where they do not fit, and
// groups of eight steps `stride`. Without swizzle, rows have 16 bytes, and what does not fit is `lead` away.
uint32_t matrix_desc_place(const MatrixDesc *d, uint32_t i, uint32_t k)
{
    const uint32_t row_bytes = d->swizzle == 0 ? GROUP_ROW : d->swizzle;
    const uint32_t along = d->bytes * (d->is_mn ? i : k), line = d->is_mn ? k : i;
    const uint32_t beyond =
        d->is_mn || d->swizzle == 0 ? along / row_bytes * d->lead : along / row_bytes * row_bytes;
    const uint32_t at =
        d->address + beyond + line / GROUP * d->stride + line % GROUP * row_bytes + along % row_bytes;
    return matrix_swizzled(at, d->swizzle);
}
