// SPDX-License-Identifier: Apache-2.0
// Cooperative matrices: products of squares of 16 x 16 by warps, from memory that their group shares.
#include "ir/interp/device_matrix.h"
#include "ir/interp/state.h"

#include <string.h>

enum {
    COOP = 16,
    COOP_LINE = COOP * 2, // bytes
    COOP_SQUARES = 24,
    COOP_KEPT = 8,
    COOP_BY_STEPS_A = 1,
    COOP_BY_STEPS_B = 2,
    COOP_IS_KEPT = 4,
    WORD = 4,
    FOUR = 4
};

typedef struct CoopSquare {
    float at[COOP * COOP];
    bool is_there;
} CoopSquare;

// Of so many bytes, which the function `owner` set up.
static void *state_of_warp(const Call *c, uint32_t warp, KDevice owner, size_t bytes)
{
    unsigned char *all = machine_state(c->m, owner, machine_threads(c->m) / MATRIX_LANES * bytes);
    return all + warp / MATRIX_LANES * bytes;
}

static CoopSquare *coop_squares(const Call *c, uint32_t warp)
{
    return state_of_warp(c, warp, KDEV_coop_zero, COOP_SQUARES * sizeof(CoopSquare));
}

// What is kept of a left factor, before it is known which type it has.
typedef struct CoopKept {
    uint16_t at[COOP * COOP];
    bool is_there;
} CoopKept;

static CoopKept *coop_kept(const Call *c, uint32_t warp)
{
    return state_of_warp(c, warp, KDEV_coop_keep, COOP_KEPT * sizeof(CoopKept));
}

static bool coop_zero(const Call *c, uint32_t warp)
{
    const int64_t first = call_int(c, 0, warp), n = call_int(c, 1, warp);
    if (first < 0 || n < 1 || first + n > COOP_SQUARES)
        return call_fail(c, warp, "%lld squares of sums", (long long)n);
    for (int64_t i = first; i < first + n; i++)
        coop_squares(c, warp)[i] = (CoopSquare){.is_there = true};
    return true;
}

CallResult interp_coop_zero(Call *c)
{
    return call_each(c, MATRIX_LANES, coop_zero);
}

CallResult interp_coop_share(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t to = call_shared_address(c, 0, call_int(c, 1, t));
        Elements from;
        if (!call_elements(c, 2, t, call_int(c, 3, t), FOUR, &from))
            break;
        for (uint32_t i = 0; i < FOUR; i++)
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
        if (poison)
            return call_fail(c, warp + line, "an operand in shared memory that nobody wrote");
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
    if (i < 0 || i >= COOP_KEPT)
        return call_fail(c, warp, "square %lld of those that are kept", (long long)i);
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
    return call_each(c, MATRIX_LANES, coop_keep);
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
    if (i < 0 || i >= COOP_KEPT || !coop_kept(c, warp)[i].is_there)
        return call_fail(c, warp, "nobody keeps square %lld", (long long)i);
    for (uint32_t e = 0; e < COOP * COOP; e++)
        to[e] = matrix_number(type, coop_kept(c, warp)[i].at[e]);
    return true;
}

static bool coop_multiply(const Call *c, uint32_t warp, DType type)
{
    const CoopProduct p = coop_product_of(c, warp);
    float a[COOP_SQUARES][COOP * COOP], b[COOP * COOP];
    CoopSquare *sums = coop_squares(c, warp) + p.first;
    if (p.first < 0 || p.rows < 1 || p.columns < 1 || p.first + p.rows * p.columns > COOP_SQUARES)
        return call_fail(c, warp, "%lld x %lld squares of sums", (long long)p.rows, (long long)p.columns);
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
            if (!s->is_there)
                return call_fail(c, warp, "sums that nobody set to 0");
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
    return call_each(c, MATRIX_LANES, coop_multiply_f16);
}

CallResult interp_coop_product_bf16(Call *c)
{
    return call_each(c, MATRIX_LANES, coop_multiply_bf16);
}

static bool coop_store(const Call *c, uint32_t warp)
{
    const int64_t i = call_int(c, 0, warp), to = call_shared_address(c, 1, call_int(c, 2, warp));
    const int64_t pitch = call_int(c, 3, warp) * WORD;
    const bool is_by_column = call_int(c, 4, warp) != 0;
    float lines[COOP * COOP];
    if (i < 0 || i >= COOP_SQUARES || !coop_squares(c, warp)[i].is_there)
        return call_fail(c, warp, "no sums in square %lld", (long long)i);
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
    return call_each(c, MATRIX_LANES, coop_store);
}

CallResult interp_coop_get(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        bool poison = false;
        Elements to;
        if (!call_elements(c, 0, t, call_int(c, 1, t), FOUR, &to) ||
            !shared_read(c, t, machine_group_of(c->m, t), call_shared_address(c, 2, call_int(c, 3, t)), to.f,
                         FOUR * WORD, &poison))
            break;
        memset(to.state, poison ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN, FOUR);
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
        if (poison || first < 0 || first + n > COOP_SQUARES)
            return call_fail(c, warp + line, "a factor that nobody wrote, or squares that there are not");
        for (uint32_t e = 0; e < n * COOP; e++)
            sums[e / COOP].at[line * COOP + e % COOP] *= factor;
    }
    return true;
}

CallResult interp_coop_scale(Call *c)
{
    return call_each(c, MATRIX_LANES, coop_scale);
}
