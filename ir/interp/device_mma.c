// SPDX-License-Identifier: Apache-2.0
// Products of matrices by warps: mma.sync, simdgroup matrices, cooperative matrices.
#include "ir/graph/small_float.h"
#include "ir/interp/device_matrix.h"
#include "ir/interp/state.h"

#include <string.h>

enum { MMA_ROWS = 16, MMA_COLUMNS = 8, A_WORDS = 4, B_WORDS = 2, SUMS = 4 };

// What warps do together, once all their threads are there. fn: false where it failed.
static CallResult each_warp(Call *c, bool (*fn)(const Call *c, uint32_t warp))
{
    if (!call_gathers(c, MATRIX_LANES))
        return CALL_BLOCKED;
    for (uint32_t warp = c->begin; warp < c->end; warp += MATRIX_LANES)
        if (!fn(c, warp))
            break;
    return CALL_DONE;
}

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
        if (e->state[i] == ELEMENT_PENDING) {
            call_fail(c, t, "an operand that has not been waited for");
            return false;
        }
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
    return each_warp(c, multiply_bytes);
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
        if (poison) {
            call_fail(c, warp, "an operand in shared memory that nobody wrote");
            return false;
        }
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
            if (d.state[i] != ELEMENT_WRITTEN) {
                call_fail(c, warp + lane, "a sum that nobody wrote");
                return false;
            }
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
    return each_warp(c, simd_multiply);
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
    return each_warp(c, simd_store);
}

// --- cooperative matrices ------------------------------------------------------------------------

enum { COOP = 16, COOP_SQUARES = 24, COOP_LINE = COOP * 2, COOP_BY_STEPS_A = 1, COOP_BY_STEPS_B = 2, COOP_IS_KEPT = 4, COOP_KEPT = 8 };

typedef struct CoopSquare {
    float at[COOP * COOP];
    bool is_there;
} CoopSquare;

static CoopSquare *coop_squares(const Call *c, uint32_t warp)
{
    const size_t n = machine_threads(c->m) / MATRIX_LANES * COOP_SQUARES;
    CoopSquare *all = machine_state(c->m, KDEV_coop_zero, n * sizeof(CoopSquare));
    return all + warp / MATRIX_LANES * COOP_SQUARES;
}

// What is kept of a left factor, before it is known which type it has.
typedef struct CoopKept {
    uint16_t at[COOP * COOP];
    bool is_there;
} CoopKept;

static CoopKept *coop_kept(const Call *c, uint32_t warp)
{
    const size_t n = machine_threads(c->m) / MATRIX_LANES * COOP_KEPT;
    CoopKept *all = machine_state(c->m, KDEV_coop_keep, n * sizeof(CoopKept));
    return all + warp / MATRIX_LANES * COOP_KEPT;
}

CallResult interp_coop_zero(Call *c)
{
    if (!call_gathers(c, MATRIX_LANES))
        return CALL_BLOCKED;
    for (uint32_t warp = c->begin; warp < c->end; warp += MATRIX_LANES) {
        const int64_t first = call_int(c, 0, warp), n = call_int(c, 1, warp);
        if (first < 0 || n < 1 || first + n > COOP_SQUARES)
            return call_fail(c, warp, "%lld squares of sums", (long long)n);
        for (int64_t i = first; i < first + n; i++)
            coop_squares(c, warp)[i] = (CoopSquare){.is_there = true};
    }
    return CALL_DONE;
}

CallResult interp_coop_share(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t to = call_shared_address(c, 0, call_int(c, 1, t));
        Elements from;
        if (!call_elements(c, 2, t, call_int(c, 3, t), A_WORDS, &from))
            break;
        for (uint32_t i = 0; i < A_WORDS; i++)
            if (!shared_write(c, t, machine_group_of(c->m, t), to + (int64_t)i * WORD, &from.r[i], WORD,
                              from.state[i] != ELEMENT_WRITTEN))
                return CALL_DONE;
    }
    return CALL_DONE;
}

CallResult interp_coop_put_number(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const float x = call_f32(c, 2, t);
        if (!shared_write(c, t, machine_group_of(c->m, t), call_shared_address(c, 0, call_int(c, 1, t)), &x,
                          WORD, false))
            break;
    }
    return CALL_DONE;
}

// A square, lines `pitch` bytes apart, each read by a lane: to[line][place in it], or turned.
static bool read_square(const Call *c, uint32_t warp, DType type, int64_t from, int64_t pitch, bool is_turned,
                        float *to)
{
    for (uint32_t line = 0; line < COOP; line++) {
        uint16_t bits[COOP];
        bool poison = false;
        if (!shared_read(c, warp + line, machine_group_of(c->m, warp), from + line * pitch, bits, COOP_LINE,
                         &poison))
            return false;
        if (poison) {
            call_fail(c, warp + line, "an operand in shared memory that nobody wrote");
            return false;
        }
        for (uint32_t i = 0; i < COOP; i++)
            to[is_turned ? i * COOP + line : line * COOP + i] = matrix_number(type, bits[i]);
    }
    return true;
}

static bool coop_keep(const Call *c, uint32_t warp)
{
    const int64_t i = call_int(c, 0, warp), from = call_shared_address(c, 1, call_int(c, 2, warp));
    const int64_t pitch = call_int(c, 3, warp) * WORD;
    bool poison = false;
    if (i < 0 || i >= COOP_KEPT) {
        call_fail(c, warp, "square %lld of those that are kept", (long long)i);
        return false;
    }
    CoopKept *to = &coop_kept(c, warp)[i];
    for (uint32_t line = 0; line < COOP && !poison; line++)
        if (!shared_read(c, warp + line, machine_group_of(c->m, warp), from + line * pitch,
                         to->at + line * COOP, COOP_LINE, &poison))
            return false;
    to->is_there = !poison;
    return true;
}

CallResult interp_coop_keep(Call *c)
{
    return each_warp(c, coop_keep);
}

// What the operands of coop_product say.
typedef struct CoopProduct {
    int64_t a, b;                            // addresses
    int64_t rows, columns, pitch_a, pitch_b; // squares; bytes
    int64_t first;                           // square
    bool a_by_steps, b_by_steps, a_is_kept;
} CoopProduct;

static CoopProduct coop_product_of(const Call *c, uint32_t t)
{
    const int64_t order = call_int(c, 7, t);
    const bool is_kept = (order & COOP_IS_KEPT) != 0;
    return (CoopProduct){.a = is_kept ? call_int(c, 1, t) : call_shared_address(c, 0, call_int(c, 1, t)),
                         .a_is_kept = is_kept,
                         .b = call_shared_address(c, 0, call_int(c, 2, t)),
                         .rows = call_int(c, 3, t),
                         .columns = call_int(c, 4, t),
                         .pitch_a = call_int(c, 5, t) * WORD,
                         .pitch_b = call_int(c, 6, t) * WORD,
                         .first = call_int(c, 8, t),
                         .a_by_steps = (order & COOP_BY_STEPS_A) != 0,
                         .b_by_steps = (order & COOP_BY_STEPS_B) != 0};
}

static bool take_kept(const Call *c, uint32_t warp, DType type, int64_t i, float *to)
{
    if (i < 0 || i >= COOP_KEPT || !coop_kept(c, warp)[i].is_there) {
        call_fail(c, warp, "nobody keeps square %lld", (long long)i);
        return false;
    }
    for (uint32_t e = 0; e < COOP * COOP; e++)
        to[e] = matrix_number(type, coop_kept(c, warp)[i].at[e]);
    return true;
}

static bool coop_multiply(const Call *c, uint32_t warp, DType type)
{
    const CoopProduct p = coop_product_of(c, warp);
    float a[COOP_SQUARES][COOP * COOP], b[COOP * COOP];
    CoopSquare *sums = coop_squares(c, warp) + p.first;
    if (p.first < 0 || p.rows < 1 || p.columns < 1 || p.first + p.rows * p.columns > COOP_SQUARES) {
        call_fail(c, warp, "%lld x %lld squares of sums", (long long)p.rows, (long long)p.columns);
        return false;
    }
    for (int64_t i = 0; i < p.rows && p.a_is_kept; i++)
        if (!take_kept(c, warp, type, p.a + i, a[i]))
            return false;
    for (int64_t i = 0; i < p.rows && !p.a_is_kept; i++)
        if (!read_square(c, warp, type, p.a + i * (p.a_by_steps ? COOP_LINE : COOP * p.pitch_a), p.pitch_a,
                         p.a_by_steps, a[i]))
            return false;
    for (int64_t j = 0; j < p.columns; j++) {
        if (!read_square(c, warp, type, p.b + j * (p.b_by_steps ? COOP_LINE : COOP * p.pitch_b), p.pitch_b,
                         !p.b_by_steps, b))
            return false;
        for (int64_t i = 0; i < p.rows; i++) {
            CoopSquare *s = &sums[i * p.columns + j];
            if (!s->is_there) {
                call_fail(c, warp, "sums that nobody set to 0");
                return false;
            }
            matrix_product(s->at, a[i], b, (MatrixSize){COOP, COOP, COOP});
        }
    }
    return true;
}

static bool coop_multiply_f16(const Call *c, uint32_t warp)
{
    return coop_multiply(c, warp, DTYPE_f16);
}

static bool coop_multiply_bf16(const Call *c, uint32_t warp)
{
    return coop_multiply(c, warp, DTYPE_bf16);
}

CallResult interp_coop_product(Call *c)
{
    return each_warp(c, coop_multiply_f16);
}

CallResult interp_coop_product_bf16(Call *c)
{
    return each_warp(c, coop_multiply_bf16);
}

static bool coop_store(const Call *c, uint32_t warp)
{
    const int64_t i = call_int(c, 0, warp), to = call_shared_address(c, 1, call_int(c, 2, warp));
    const int64_t pitch = call_int(c, 3, warp) * WORD;
    const bool is_by_column = call_int(c, 4, warp) != 0;
    float lines[COOP * COOP];
    if (i < 0 || i >= COOP_SQUARES || !coop_squares(c, warp)[i].is_there) {
        call_fail(c, warp, "no sums in square %lld", (long long)i);
        return false;
    }
    const float *from = coop_squares(c, warp)[i].at;
    for (uint32_t e = 0; e < COOP * COOP; e++)
        lines[e] = is_by_column ? from[e % COOP * COOP + e / COOP] : from[e];
    for (uint32_t line = 0; line < COOP; line++)
        if (!shared_write(c, warp + line, machine_group_of(c->m, warp), to + line * pitch,
                          lines + line * COOP, COOP * WORD, false))
            return false;
    return true;
}

CallResult interp_coop_put(Call *c)
{
    return each_warp(c, coop_store);
}

CallResult interp_coop_get(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        bool poison = false;
        Elements to;
        if (!call_elements(c, 0, t, call_int(c, 1, t), A_WORDS, &to) ||
            !shared_read(c, t, machine_group_of(c->m, t), call_shared_address(c, 2, call_int(c, 3, t)), to.f,
                         A_WORDS * WORD, &poison))
            break;
        memset(to.state, poison ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN, A_WORDS);
    }
    return CALL_DONE;
}

static bool coop_scale(const Call *c, uint32_t warp)
{
    const int64_t first = call_int(c, 0, warp), n = call_int(c, 1, warp);
    CoopSquare *sums = coop_squares(c, warp) + first;
    for (uint32_t line = 0; line < COOP; line++) {
        const int64_t from = call_shared_address(c, 2, call_int(c, 3, warp)) + line * WORD;
        float factor = 0;
        bool poison = false;
        if (!shared_read(c, warp + line, machine_group_of(c->m, warp), from, &factor, WORD, &poison))
            return false;
        if (poison || first < 0 || first + n > COOP_SQUARES) {
            call_fail(c, warp + line, "a factor that nobody wrote, or squares that there are not");
            return false;
        }
        for (uint32_t e = 0; e < n * COOP; e++)
            sums[e / COOP].at[line * COOP + e % COOP] *= factor;
    }
    return true;
}

CallResult interp_coop_scale(Call *c)
{
    return each_warp(c, coop_scale);
}
