// SPDX-License-Identifier: Apache-2.0
// qmatmul with rows that are rounded to 8 bits in each block, once: then weights are bytes that need no
// conversion, and four of them are one step of a dot product. Byte j of word w holds elements 4 w + j, and
// those that lie further by a part of the block for each weight more that it has. Sums of a block are exact.
#include "passes/lower/operand.h"
#include "passes/lower/product/qmatmul.h"

enum { UNROLL_STEPS = 16, AHEAD = 64 }; // vectors

// --- rounding ------------------------------------------------------------------------------------

typedef struct Rounding {
    const Product *p;
    uint32_t bytes; // param: the same memory as x_words
    KRef x, to;     // index of the block's first element in x and in `bytes`
    int64_t step;   // between elements of x
    int64_t count;  // elements of the block that there are
    uint8_t lanes;
} Rounding;

static KRef load_x(Lower *l, const Rounding *b, KRef i)
{
    Kernel *k = l->k;
    const KRef index = k_expr(k, "$ * # + $", i, b->step, b->x);
    return k_cast(k, k_load(k, lower_param(l, b->p->x, PARAM_READ), index, b->lanes, b->lanes), DTYPE_f32);
}

static KRef splat(Lower *l, const Rounding *b, KRef v)
{
    return k_splat(l->k, v, b->lanes);
}

// The largest magnitude; NaN counts as 0.
static KRef largest(Lower *l, const Rounding *b)
{
    Kernel *k = l->k;
    const KRef most = k_var(k, splat(l, b, k_number(k, DTYPE_f32, 0)), "most");
    const KRef i = k_for(k, k_index(k, 0), k_index(k, b->count), b->lanes, KFOR_SERIAL, "i");
    k_set(k, most, k_max(k, k_abs(k, load_x(l, b, i)), k_get(k, most)));
    k_end(k);
    return k_hreduce(k, KOP_max, k_get(k, most));
}

// Rounds a block; `at` is its place in x_steps and x_sums.
static void round_block(Lower *l, const Rounding *b, KRef at)
{
    Kernel *k = l->k;
    const Product *p = b->p;
    const KRef most = largest(l, b), full = k_number(k, DTYPE_f32, 127);
    const KRef factor = k_div(k, full, most);
    const KRef sum = k_var(k, splat(l, b, k_integer(k, DTYPE_i32, 0)), "sum");
    k_store(k, p->x_steps, at, k_div(k, most, full), 1);
    const KRef i = k_for(k, k_index(k, 0), k_index(k, b->count), b->lanes, KFOR_SERIAL, "i");
    const KRef scaled = k_mul(k, load_x(l, b, i), splat(l, b, factor));
    const KRef byte = k_cast(k, k_rint(k, scaled), DTYPE_i8);
    k_store(k, b->bytes, k_add(k, b->to, i), byte, b->lanes);
    k_set(k, sum, k_add(k, k_get(k, sum), k_cast(k, byte, DTYPE_i32)));
    k_end(k);
    k_store(k, p->x_sums, at, k_hreduce(k, KOP_add, k_get(k, sum)), 1);
    if (b->count == p->block)
        return;
    const KRef rest = k_for(k, k_index(k, b->count), k_index(k, p->block), 1, KFOR_SERIAL, "i");
    k_store(k, b->bytes, k_add(k, b->to, rest), k_integer(k, DTYPE_i8, 0), 1);
    k_end(k);
}

void qmatmul_round_rows(Lower *l, Product *p)
{
    Kernel *k = l->k;
    const Shape *s = lower_node(l, p->x)->shape;
    const int64_t rows = shape_numel(s) / p->inner, whole = p->inner / p->block, rest = p->inner % p->block;
    Rounding b = {.p = p, .step = lower_loc(l, p->x)->stride[s->rank - 1]};
    p->x_words = lower_param_scratch(l, "rounded", DTYPE_i32, (uint64_t)(rows * p->blocks * p->block / 4));
    p->x_steps = lower_param_scratch(l, "steps", DTYPE_f32, (uint64_t)(rows * p->blocks));
    p->x_sums = lower_param_scratch(l, "sums", DTYPE_i32, (uint64_t)(rows * p->blocks));
    b.bytes = lower_param_view(l, p->x_words, DTYPE_i8);
    Domain d = domain_of(s);
    Point at = {.lanes = 1, .count = 1};
    domain_trim(l, &d, p->x);
    const uint32_t opened = lower_open(l, &d, s->rank - 1, &at);
    KRef row = k_index(k, 0);
    for (uint32_t i = 0; i + 1 < s->rank; i++)
        row = k_expr(k, "$ * # + $", row, s->dim[i], at.idx[i]);
    at.idx[s->rank - 1] = k_index(k, 0);
    const KRef x = operand_index(l, p->x, at.idx), to = k_expr(k, "$ * #", row, p->blocks * p->block);
    const uint8_t lanes = lower_fit_lanes(l, p->block);
    if (whole > 0) {
        const KRef i = k_loop(k, whole, KFOR_PARALLEL, "b");
        b.x = k_expr(k, "$ * # + $", i, p->block * b.step, x);
        b.to = k_expr(k, "$ * # + $", i, p->block, to);
        b.count = p->block;
        b.lanes = b.step == 1 && p->block % lanes == 0 ? lanes : 1;
        round_block(l, &b, k_expr(k, "$ * # + $", row, p->blocks, i));
        k_end(k);
    }
    if (rest > 0) {
        b.x = k_expr(k, "$ + #", x, whole * p->block * b.step);
        b.to = k_expr(k, "$ + #", to, whole * p->block);
        b.count = rest;
        b.lanes = 1;
        round_block(l, &b, k_expr(k, "$ * # + #", row, p->blocks, whole));
    }
    lower_close(l, opened);
    k_barrier(k);
}

// --- products ------------------------------------------------------------------------------------

typedef struct Dots {
    const Product *p;
    KRef vector;                 // number of the vector of columns
    KRef row[QMATMUL_MAX_ROWS];  // of x
    KRef part[QMATMUL_MAX_ROWS]; // sum of the block
} Dots;

// The products of one word of weights of every lane.
static void add_word(Lower *l, const Dots *s, KRef block, KRef word)
{
    Kernel *k = l->k;
    const Product *p = s->p;
    const int64_t words = p->blob / 4, mask = ((int64_t)1 << p->bits) - 1;
    const KRef at = k_expr(k, "($ * # + $) * # + $", s->vector, p->blocks, block, words, word);
    const KRef bits = k_load(k, p->words, k_expr(k, "$ * #", at, p->lanes), p->lanes, p->lanes);
    k_prefetch(k, p->words, k_expr(k, "($ + #) * #", at, AHEAD, p->lanes));
    for (int64_t i = 0; i < p->per_byte; i++) {
        KRef q = bits;
        if (i > 0)
            q = k_shr(k, q, k_splat(k, k_integer(k, DTYPE_i32, i * p->bits), p->lanes));
        if (p->bits < 8)
            q = k_and(k, q, k_splat(k, k_integer(k, DTYPE_i32, mask * 0x01010101), p->lanes));
        for (int64_t r = 0; r < p->rows; r++) {
            const KRef first = k_expr(k, "($ * # + $) * #", s->row[r], p->blocks, block, p->block / 4);
            const KRef x = k_load(k, p->x_words, k_expr(k, "$ + $ + #", first, word, i * words), 1, 1);
            k_set(k, s->part[r], k_dot8(k, q, k_splat(k, x, p->lanes), k_get(k, s->part[r])));
        }
    }
}

// A block's sums less the zero points, times both scales, are added to acc.
static void add_block(Lower *l, const Dots *s, KRef block, const KRef *acc)
{
    Kernel *k = l->k;
    const Product *p = s->p;
    const int64_t words = p->blob / 4;
    const KRef at = k_expr(k, "($ * # + $) * #", s->vector, p->blocks, block, p->lanes);
    const KRef half = k_integer(k, DTYPE_i32, -((int64_t)1 << (p->bits - 1)));
    KRef sum[QMATMUL_MAX_ROWS], step[QMATMUL_MAX_ROWS];
    for (int64_t r = 0; r < p->rows; r++) {
        const KRef place = k_expr(k, "$ * # + $", s->row[r], p->blocks, block);
        sum[r] = k_load(k, p->x_sums, place, 1, 1);
        step[r] = k_load(k, p->x_steps, place, 1, 1);
        const KRef begin = p->zero ? k_integer(k, DTYPE_i32, 0) : k_mul(k, sum[r], half);
        k_set(k, s->part[r], k_splat(k, begin, p->lanes));
    }
    if (words * p->per_byte <= UNROLL_STEPS) {
        for (int64_t i = 0; i < words; i++)
            add_word(l, s, block, k_index(k, i));
    } else {
        add_word(l, s, block, k_loop(k, words, KFOR_SERIAL, "w"));
        k_end(k);
    }
    k_prefetch(k, p->scales, k_expr(k, "$ + #", at, (int64_t)(AHEAD / 4) * p->lanes));
    const KRef scale = k_cast(k, k_load(k, p->scales, at, p->lanes, p->lanes), DTYPE_f32);
    const KRef zero = p->zero ? k_cast(k, k_load(k, p->zeros, at, p->lanes, p->lanes), DTYPE_f32) : 0;
    for (int64_t r = 0; r < p->rows; r++) {
        KRef whole = k_cast(k, k_get(k, s->part[r]), DTYPE_f32);
        if (zero)
            whole = k_expr(k, "$ - $ * $", whole, zero, k_splat(k, k_cast(k, sum[r], DTYPE_f32), p->lanes));
        const KRef factor = k_mul(k, scale, k_splat(k, step[r], p->lanes));
        k_set(k, acc[r], k_fma(k, whole, factor, k_get(k, acc[r])));
    }
}

void qmatmul_dot_point(Lower *l, const Domain *d, Point at, void *product)
{
    const Product *p = product;
    Kernel *k = l->k;
    Dots s = {.p = p, .vector = k_expr(k, "$ / #", at.idx[d->rank - 1], p->lanes)};
    KRef acc[QMATMUL_MAX_ROWS];
    for (int64_t r = 0; r < p->rows; r++) {
        const Point row = qmatmul_row(l, d, &at, r);
        s.row[r] = k_index(k, 0);
        for (uint32_t i = 0; i + 1 < d->rank; i++)
            s.row[r] = k_expr(k, "$ * # + $", s.row[r], d->extent[i], row.idx[i]);
        acc[r] = k_var(k, k_splat(k, k_number(k, DTYPE_f32, 0), p->lanes), "acc");
        s.part[r] = k_var(k, k_splat(k, k_integer(k, DTYPE_i32, 0), p->lanes), "part");
    }
    const KRef block = k_loop(k, p->blocks, KFOR_SERIAL, "b");
    add_block(l, &s, block, acc);
    k_end(k);
    for (int64_t r = 0; r < p->rows; r++) {
        Point out = qmatmul_row(l, d, &at, r);
        out.lanes = p->lanes;
        out.count = at.count;
        pull_store_root(l, d, out, k_cast(k, k_get(k, acc[r]), lower_node(l, l->anchor)->dtype));
    }
}
