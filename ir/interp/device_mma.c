// SPDX-License-Identifier: Apache-2.0
// Products of matrices by warps: mma.sync, simdgroup matrices.
#include "ir/graph/small_float.h"
#include "ir/interp/device_matrix.h"
#include "ir/interp/state.h"

#include <string.h>

enum { MMA_ROWS = 16, MMA_COLUMNS = 8, A_WORDS = 4, B_WORDS = 2, SUMS = 4 };

// --- mma.sync ------------------------------------------------------------------------------------

// Operands of a product: numbers, and which rows of a and columns of b are poison.
typedef struct Product {
    float a[MMA_ROWS * MATRIX_K], b[MATRIX_K * MMA_COLUMNS], sums[MMA_ROWS * MMA_COLUMNS];
    bool is_bad_row[MMA_ROWS], is_bad_column[MMA_COLUMNS];
} Product;

// False: an element that an operation has yet to write.
static bool check_ready(const Call *c, uint32_t t, const Elements *e, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (e->state[i] == ELEMENT_PENDING)
            return call_fail(c, t, "an operand that has not been waited for");
    return true;
}

// Writes the numbers of word w of a lane's fragment of a (b) at to[step * stride].
typedef struct Fragments {
    uint32_t (*step_a)(uint32_t lane, uint32_t word);
    uint32_t (*step_b)(uint32_t lane, uint32_t word);
    bool (*put)(uint32_t word, float *to, uint32_t stride); // false: these bits are not those of numbers
} Fragments;

static bool put_bf16(uint32_t word, float *to, uint32_t stride)
{
    to[0] = matrix_number(DTYPE_bf16, word & 0xffff);
    to[stride] = matrix_number(DTYPE_bf16, word >> 16);
    return true;
}

static bool put_f16(uint32_t word, float *to, uint32_t stride)
{
    to[0] = matrix_number(DTYPE_f16, word & 0xffff);
    to[stride] = matrix_number(DTYPE_f16, word >> 16);
    return true;
}

static bool put_tf32(uint32_t word, float *to, uint32_t stride)
{
    (void)stride;
    memcpy(to, &word, sizeof *to);
    return (word & 0x1fffu) == 0;
}

// One number for each word: steps 0 to 7.
static uint32_t tf32_step(uint32_t lane, uint32_t word)
{
    return lane % MATRIX_QUAD + word * MATRIX_QUAD;
}

static uint32_t tf32_a_step(uint32_t lane, uint32_t word)
{
    return tf32_step(lane, word / 2);
}

// A thread's words of both factors.
static bool take_words(const Call *c, uint32_t t, Elements *a, Elements *b)
{
    return call_elements(c, 2, t, call_int(c, 3, t), A_WORDS, a) &&
           call_elements(c, 4, t, call_int(c, 5, t), B_WORDS, b) && check_ready(c, t, a, A_WORDS) &&
           check_ready(c, t, b, B_WORDS);
}

static bool take_operands(const Call *c, const Fragments *f, uint32_t t, Product *p)
{
    const uint32_t lane = t % MATRIX_LANES, column = lane / MATRIX_QUAD;
    bool are_numbers = true;
    Elements a, b;
    if (!take_words(c, t, &a, &b))
        return false;
    for (uint32_t w = 0; w < A_WORDS; w++) {
        const uint32_t row = matrix_a_row(lane, w);
        are_numbers &= f->put(a.r[w], &p->a[row * MATRIX_K + f->step_a(lane, w)], 1);
        p->is_bad_row[row] |= a.state[w] == ELEMENT_UNWRITTEN;
    }
    for (uint32_t w = 0; w < B_WORDS; w++) {
        are_numbers &= f->put(b.r[w], &p->b[f->step_b(lane, w) * MMA_COLUMNS + column], MMA_COLUMNS);
        p->is_bad_column[column] |= b.state[w] == ELEMENT_UNWRITTEN;
    }
    if (!are_numbers)
        call_fail(c, t, "an operand with bits that the unit does not read");
    return are_numbers;
}

static bool find_sums(const Call *c, uint32_t t, Elements *d)
{
    return call_elements(c, 0, t, call_int(c, 1, t), SUMS, d) && check_ready(c, t, d, SUMS);
}

static bool multiply_warp(const Call *c, const Fragments *f, uint32_t warp)
{
    Product p = {0};
    Elements d[MATRIX_LANES];
    for (uint32_t lane = 0; lane < MATRIX_LANES; lane++) {
        if (!take_operands(c, f, warp + lane, &p) || !find_sums(c, warp + lane, &d[lane]))
            return false;
        for (uint32_t i = 0; i < SUMS; i++)
            p.sums[matrix_sum_row(lane, i) * MMA_COLUMNS + matrix_sum_column(lane, i)] = d[lane].f[i];
    }
    matrix_product(p.sums, p.a, p.b, (MatrixSize){MMA_ROWS, MMA_COLUMNS, MATRIX_K});
    for (uint32_t lane = 0; lane < MATRIX_LANES; lane++)
        for (uint32_t i = 0; i < SUMS; i++) {
            const uint32_t row = matrix_sum_row(lane, i), column = matrix_sum_column(lane, i);
            d[lane].f[i] = p.sums[row * MMA_COLUMNS + column];
            if (p.is_bad_row[row] || p.is_bad_column[column])
                d[lane].state[i] = ELEMENT_UNWRITTEN;
        }
    return true;
}

static CallResult multiply(Call *c, const Fragments *f)
{
    if (!call_gathers(c, MATRIX_LANES))
        return CALL_BLOCKED;
    for (uint32_t warp = c->begin; warp < c->end; warp += MATRIX_LANES)
        if (!multiply_warp(c, f, warp))
            break;
    return CALL_DONE;
}

CallResult interp_mma_bf16(Call *c)
{
    return multiply(c, &(Fragments){matrix_a_step, matrix_b_step, put_bf16});
}

CallResult interp_mma_f16(Call *c)
{
    return multiply(c, &(Fragments){matrix_a_step, matrix_b_step, put_f16});
}

CallResult interp_mma_tf32(Call *c)
{
    return multiply(c, &(Fragments){tf32_a_step, tf32_step, put_tf32});
}

// --- mma.sync of bytes ---------------------------------------------------------------------------

enum { BYTES = 4, BYTE_STEPS = 32, A_IS_SIGNED = 1, B_IS_SIGNED = 2 };

// Numbers of operands; sums wrap.
typedef struct ByteProduct {
    int32_t a[MMA_ROWS][BYTE_STEPS], b[MMA_COLUMNS][BYTE_STEPS];
    bool is_bad_row[MMA_ROWS], is_bad_column[MMA_COLUMNS];
} ByteProduct;

static void put_bytes(uint32_t word, bool is_signed, int32_t *to)
{
    for (uint32_t i = 0; i < BYTES; i++) {
        const int32_t byte = (int32_t)(word >> 8 * i & 0xff);
        to[i] = is_signed && byte > INT8_MAX ? byte - 256 : byte;
    }
}

static bool take_bytes(const Call *c, uint32_t t, ByteProduct *p)
{
    const uint32_t lane = t % MATRIX_LANES, column = lane / MATRIX_QUAD;
    Elements a, b;
    if (!take_words(c, t, &a, &b))
        return false;
    for (uint32_t w = 0; w < A_WORDS; w++) {
        const uint32_t row = matrix_a_row(lane, w);
        put_bytes(a.r[w], (c->constant & A_IS_SIGNED) != 0, &p->a[row][tf32_a_step(lane, w) * BYTES]);
        p->is_bad_row[row] |= a.state[w] == ELEMENT_UNWRITTEN;
    }
    for (uint32_t w = 0; w < B_WORDS; w++) {
        put_bytes(b.r[w], (c->constant & B_IS_SIGNED) != 0, &p->b[column][tf32_step(lane, w) * BYTES]);
        p->is_bad_column[column] |= b.state[w] == ELEMENT_UNWRITTEN;
    }
    return true;
}

static void add_bytes(const ByteProduct *p, uint32_t lane, Elements *d)
{
    for (uint32_t i = 0; i < SUMS; i++) {
        const uint32_t row = matrix_sum_row(lane, i), column = matrix_sum_column(lane, i);
        for (uint32_t step = 0; step < BYTE_STEPS; step++)
            d->r[i] += (uint32_t)(p->a[row][step] * p->b[column][step]);
        if (p->is_bad_row[row] || p->is_bad_column[column])
            d->state[i] = ELEMENT_UNWRITTEN;
    }
}

static bool multiply_bytes(const Call *c, uint32_t warp)
{
    ByteProduct p = {0};
    for (uint32_t lane = 0; lane < MATRIX_LANES; lane++)
        if (!take_bytes(c, warp + lane, &p))
            return false;
    for (uint32_t lane = 0; lane < MATRIX_LANES; lane++) {
        Elements d;
        if (!find_sums(c, warp + lane, &d))
            return false;
        add_bytes(&p, lane, &d);
    }
    return true;
}

CallResult interp_mma_bytes(Call *c)
{
    return call_each(c, MATRIX_LANES, multiply_bytes);
}

// --- 8-bit floats for mma.sync of 16-bit ones ----------------------------------------------------

// A word of four becomes two words of two f16 each, in their order.
static CallResult spread(Call *c, DType type)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Elements to, from;
        if (!call_elements(c, 0, t, call_int(c, 1, t), 2, &to) ||
            !call_elements(c, 2, t, call_int(c, 3, t), 1, &from) || !check_ready(c, t, &from, 1))
            break;
        const uint32_t word = from.r[0];
        uint32_t half[BYTES];
        for (uint32_t i = 0; i < BYTES; i++)
            half[i] = small_float_narrow(DTYPE_f16, small_float_widen(type, word >> 8 * i & 0xff));
        for (uint32_t i = 0; i < 2; i++) {
            to.r[i] = half[2 * i] | half[2 * i + 1] << 16;
            to.state[i] = from.state[0];
        }
    }
    return CALL_DONE;
}

CallResult interp_spread_e4m3(Call *c)
{
    return spread(c, DTYPE_f8e4m3fn);
}

CallResult interp_spread_e5m2(Call *c)
{
    return spread(c, DTYPE_f8e5m2);
}

// --- simdgroups ----------------------------------------------------------------------------------

enum { SIMD_ROWS = 16, SIMD_COLUMNS = 32, SIMD_STEPS = 8, SIMD_SQUARE = 8, SIMD_SUMS = 16, WORD = 4 };

// Where sum i of a lane is: which two elements of a square a thread has is the device's own, here those that
// it is known to have. Squares follow each other by rows.
static uint32_t simd_place(uint32_t lane, uint32_t i)
{
    const uint32_t quad = lane / 4, square = i / 2;
    const uint32_t row = (quad & 4) + lane / 2 % 4, column = (quad & 2) * 2 + lane % 2 * 2 + i % 2;
    return (square / 4 * SIMD_SQUARE + row) * SIMD_COLUMNS + square % 4 * SIMD_SQUARE + column;
}

// Lines of n numbers in memory of the group, `pitch` numbers apart, read by the lanes in turn.
static bool read_lines(const Call *c, uint32_t warp, int64_t from, uint32_t lines, uint32_t n, float *to)
{
    const uint32_t rank = machine_group_of(c->m, warp);
    for (uint32_t i = 0; i < lines; i++) {
        bool poison = false;
        const int64_t address = from + (int64_t)i * c->constant * WORD;
        if (!shared_read(c, warp + i % MATRIX_LANES, rank, address, to + (size_t)i * n, n * WORD, &poison))
            return false;
        if (poison)
            return call_fail(c, warp, "an operand in shared memory that nobody wrote");
    }
    return true;
}

static bool move_sums(const Call *c, uint32_t operand, uint32_t warp, float *square, bool is_out)
{
    for (uint32_t lane = 0; lane < MATRIX_LANES; lane++) {
        Elements d;
        if (!call_elements(c, operand, warp + lane, 0, SIMD_SUMS, &d))
            return false;
        for (uint32_t i = 0; i < SIMD_SUMS; i++) {
            if (d.state[i] != ELEMENT_WRITTEN)
                return call_fail(c, warp + lane, "a sum that nobody wrote");
            if (is_out)
                d.f[i] = square[simd_place(lane, i)];
            else
                square[simd_place(lane, i)] = d.f[i];
        }
    }
    return true;
}

static bool simd_multiply(const Call *c, uint32_t warp)
{
    float a[SIMD_STEPS * SIMD_ROWS], b[SIMD_STEPS * SIMD_COLUMNS], sums[SIMD_ROWS * SIMD_COLUMNS];
    if (!read_lines(c, warp, call_shared_address(c, 1, call_int(c, 2, warp)), SIMD_STEPS, SIMD_ROWS, a) ||
        !read_lines(c, warp, call_shared_address(c, 3, call_int(c, 4, warp)), SIMD_STEPS, SIMD_COLUMNS, b) ||
        !move_sums(c, 0, warp, sums, false))
        return false;
    for (uint32_t row = 0; row < SIMD_ROWS; row++)
        for (uint32_t k = 0; k < SIMD_STEPS; k++)
            for (uint32_t i = 0; i < SIMD_COLUMNS; i++)
                sums[row * SIMD_COLUMNS + i] += a[k * SIMD_ROWS + row] * b[k * SIMD_COLUMNS + i];
    return move_sums(c, 0, warp, sums, true);
}

CallResult interp_simd_product(Call *c)
{
    return call_each(c, MATRIX_LANES, simd_multiply);
}

static bool simd_store(const Call *c, uint32_t warp)
{
    const uint32_t rank = machine_group_of(c->m, warp);
    const int64_t to = call_shared_address(c, 0, call_int(c, 1, warp));
    float sums[SIMD_ROWS * SIMD_COLUMNS];
    if (!move_sums(c, 2, warp, sums, false))
        return false;
    for (uint32_t i = 0; i < SIMD_ROWS; i++)
        if (!shared_write(c, warp + i, rank, to + (int64_t)i * c->constant * WORD, &sums[i * SIMD_COLUMNS],
                          SIMD_COLUMNS * WORD, false))
            return false;
    return true;
}

CallResult interp_simd_put(Call *c)
{
    return call_each(c, MATRIX_LANES, simd_store);
}
