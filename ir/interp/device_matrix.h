// SPDX-License-Identifier: Apache-2.0
// What matrix units compute, as functions of numbers: fragments of mma.m16n8k16 by lane and register,
// matrices in shared memory by their descriptors. Separate from the functions of threads (device_wgmma.c,
// device_mma.c), so that each can be tested against a plain product.
#ifndef IR_INTERP_DEVICE_MATRIX_H
#define IR_INTERP_DEVICE_MATRIX_H

#include "ir/kernel/device.h"

enum {
    MATRIX_K = 16,       // steps of a product of 16-bit numbers
    MATRIX_MAX_K = 32,   // and of bytes
    MATRIX_WGMMA_M = 64, // rows of wgmma
    MATRIX_MAX_N = 256,  // and columns
    MATRIX_LANES = 32,
    MATRIX_QUAD = 4 // lanes that have a row of a fragment
};

// Of the bits of a bf16 or f16, of an integer or float of 8 bits.
float matrix_number(DType type, uint32_t bits);

// Row and column of sum i of a lane, of 16 rows and 8 columns for every four sums.
static inline uint32_t matrix_sum_row(uint32_t lane, uint32_t i)
{
    return lane / MATRIX_QUAD + i / 2 % 2 * 8;
}
static inline uint32_t matrix_sum_column(uint32_t lane, uint32_t i)
{
    return i / 4 * 8 + lane % MATRIX_QUAD * 2 + i % 2;
}

// Word `word` (0 to 3) of a lane's fragment of a is two numbers: row, and step of the first of them.
static inline uint32_t matrix_a_row(uint32_t lane, uint32_t word)
{
    return lane / MATRIX_QUAD + word % 2 * 8;
}
static inline uint32_t matrix_a_step(uint32_t lane, uint32_t word)
{
    return lane % MATRIX_QUAD * 2 + word / 2 * 8;
}
// Word 0 or 1 of a lane's fragment of b: step of the first number; the column is lane / 4.
static inline uint32_t matrix_b_step(uint32_t lane, uint32_t word)
{
    return lane % MATRIX_QUAD * 2 + word * 8;
}

typedef struct MatrixSize {
    uint32_t rows, n, steps;
} MatrixSize;

// sums[row * n + column] += a[row * steps + k] * b[k * n + column], in rising k.
void matrix_product(float *sums, const float *a, const float *b, MatrixSize size);

// A matrix in shared memory as wgmma finds it: what a descriptor says.
typedef struct MatrixDesc {
    uint32_t address, lead, stride; // bytes
    uint32_t swizzle;               // bytes of a swizzled row: 128, 64, 32; 0: none
    bool is_mn;                     // rows (of a) or columns (of b), not steps, are next to each other
    uint32_t bytes;                 // of an element
} MatrixDesc;

// The bits of a descriptor, and back. The address counts in 16 bytes up to 256 KB.
uint64_t matrix_desc_bits(const MatrixDesc *d);
MatrixDesc matrix_desc_of(uint64_t bits, bool is_mn, uint32_t bytes);

// Byte address of the 16 bytes of numbers that are next to each other in memory: of row (or column) i and
// step k, where i (is_mn) or k (else) is a multiple of so many.
uint32_t matrix_desc_place(const MatrixDesc *d, uint32_t i, uint32_t k);

// Where a byte of rows of `swizzle` bytes is: the address' bits from 4 on, exclusive or'ed with those from 7
// on.
static inline uint32_t matrix_swizzled(uint32_t address, uint32_t swizzle)
{
    return swizzle == 0 ? address : address ^ (address >> 3 & (swizzle - 16));
}

#endif
