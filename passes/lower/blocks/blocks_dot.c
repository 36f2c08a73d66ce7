// SPDX-License-Identifier: Apache-2.0
// block_matmul for a few rows by dot products of bytes, where the CPU has them: weights stay bytes, and so
// the product keeps up with memory, which conversions to f32 do not. An element of a row is a whole multiple
// of a step of its unit of 32 elements, X = 65536 a + 256 b + c with bytes a, b and c, its digits: each meets
// the weights in a sum of its own, which is exact. Accumulation: of each group of a block, scale * step * sum
// of X * bits, and add * sum of x, are added in f32, groups in rising k. A row with NaN or infinity gives
// NaN.
#include "passes/lower/blocks/blocks_product.h"

enum { DIGITS = 3, QUAD = 4, WORDS = BLOCK_UNIT / QUAD };
// The largest |X|: its upper digit is 127 after the lower ones are rounded away.
#define LARGEST 8323072.0
// Units whose elements are all smaller are rounded as if one was this large, so that steps are no denormals.
#define SMALLEST 0x1p-100

bool block_digits_apply(const Lower *l, const BlockProduct *p)
{
    return l->caps->has_dot8 && l->pass->options->accuracy >= BLOCK_DIGITS_ERROR &&
           p->packed.lanes == l->caps->f32_lanes && p->packed.step >= QUAD;
}

static int64_t units_of_row(const BlockProduct *p)
{
    return p->inner / BLOCK_UNIT;
}

// --- rounding ------------------------------------------------------------------------------------

typedef struct UnitRounding {
    KRef x;         // index of the first element
    KRef place;     // number of the unit among those of all rows
    uint32_t bytes; // param: digits as bytes
    uint8_t lanes;
    KRef factor, step;
} UnitRounding;

static KRef number(Lower *l, const UnitRounding *u, double v)
{
    return k_splat(l->k, k_number(l->k, DTYPE_f32, v), u->lanes);
}

static KRef load_x(Lower *l, const BlockProduct *p, const UnitRounding *u, int64_t i)
{
    return k_load(l->k, p->x_rows, k_expr(l->k, "$ + #", u->x, i), u->lanes, u->lanes);
}

// The step, NaN when an element is not finite: the sum of x * 0 tells.
static void find_step(Lower *l, const BlockProduct *p, UnitRounding *u)
{
    Kernel *k = l->k;
    KRef most = number(l, u, SMALLEST), rests = number(l, u, 0);
    for (int64_t i = 0; i < BLOCK_UNIT; i += u->lanes) {
        const KRef x = load_x(l, p, u, i);
        most = k_max(k, k_abs(k, x), most);
        rests = k_fma(k, x, number(l, u, 0), rests);
    }
    most = k_hreduce(k, KOP_max, most);
    u->factor = k_div(k, k_number(k, DTYPE_f32, LARGEST), most);
    u->step = k_expr(k, "$ / $ + $", most, k_number(k, DTYPE_f32, LARGEST), k_hreduce(k, KOP_add, rests));
}

// X without its lowest digit.
static KRef next_digit(Lower *l, const UnitRounding *u, KRef x)
{
    Kernel *k = l->k;
    const KRef half = k_splat(k, k_integer(k, DTYPE_i32, 128), u->lanes);
    return k_shr(k, k_add(k, x, half), k_splat(k, k_integer(k, DTYPE_i32, 8), u->lanes));
}

// Steps of a unit, between which no group ends.
static int64_t steps_of(const BlockProduct *p)
{
    return BLOCK_UNIT / p->packed.step;
}

// Digits of the elements of step s, and their sum.
static void round_step(Lower *l, const BlockProduct *p, const UnitRounding *u, int64_t s)
{
    Kernel *k = l->k;
    const int64_t size = p->packed.step;
    KRef sum = k_splat(k, k_integer(k, DTYPE_i32, 0), u->lanes);
    for (int64_t i = s * size; i < (s + 1) * size; i += u->lanes) {
        const KRef scaled = k_mul(k, load_x(l, p, u, i), k_splat(k, u->factor, u->lanes));
        KRef x = k_cast(k, k_rint(k, scaled), DTYPE_i32);
        sum = k_add(k, sum, x);
        for (int64_t digit = DIGITS; digit-- > 0; x = next_digit(l, u, x)) {
            const KRef at = k_expr(k, "$ * # + #", u->place, DIGITS * BLOCK_UNIT, digit * BLOCK_UNIT + i);
            k_store(k, u->bytes, at, k_cast(k, x, DTYPE_i8), u->lanes);
        }
    }
    const KRef whole = k_cast(k, k_hreduce(k, KOP_add, sum), DTYPE_f32);
    k_store(k, p->sums, k_expr(k, "$ * # + #", u->place, steps_of(p), s), k_mul(k, whole, u->step), 1);
}

void block_digits_round(Lower *l, BlockProduct *p)
{
    rlx_assert(block_digits_apply(l, p) && p->rows >= 1);
    Kernel *k = l->k;
    const int64_t units = units_of_row(p), all = p->rows * units;
    p->digits = lower_param_scratch(l, "digits", DTYPE_i32, (uint64_t)(all * DIGITS * WORDS));
    p->steps = lower_param_scratch(l, "steps", DTYPE_f32, (uint64_t)all);
    p->sums = lower_param_scratch(l, "sums", DTYPE_f32, (uint64_t)(all * steps_of(p)));
    UnitRounding u = {.bytes = lower_param_view(l, p->digits, DTYPE_i8),
                      .lanes = lower_fit_lanes(l, p->packed.step)};
    u.place = k_loop(k, all, KFOR_PARALLEL, "u");
    u.x = k_expr(k, "$ * # + $", u.place, BLOCK_UNIT, p->x_base);
    find_step(l, p, &u);
    k_store(k, p->steps, u.place, u.step, 1);
    for (int64_t s = 0; s < steps_of(p); s++)
        round_step(l, p, &u, s);
    k_end(k);
    k_barrier(k);
}

// --- products ------------------------------------------------------------------------------------

// 65536 a + 256 b + c of the sums of digits.
static KRef join_digits(Kernel *k, const KRef *sum, uint8_t lanes)
{
    const KRef base = k_splat(k, k_number(k, DTYPE_f32, 256), lanes);
    KRef whole = k_cast(k, sum[0], DTYPE_f32);
    for (int64_t digit = 1; digit < DIGITS; digit++)
        whole = k_fma(k, whole, base, k_cast(k, sum[digit], DTYPE_f32));
    return whole;
}

// Elements [first, group->end) of a unit of a row, number `place` of all: quads of weights are given.
static void add_group(Lower *l, const BlockProduct *p, const KRef *quad, const PackedGroup *group, KRef place,
                      int64_t first, KRef acc)
{
    Kernel *k = l->k;
    const uint8_t lanes = p->packed.lanes;
    KRef sum[DIGITS];
    for (int64_t digit = 0; digit < DIGITS; digit++) {
        sum[digit] = k_splat(k, k_integer(k, DTYPE_i32, 0), lanes);
        for (int64_t t = first / QUAD; t < group->end / QUAD; t++) {
            const KRef at = k_expr(k, "$ * # + #", place, DIGITS * WORDS, digit * WORDS + t);
            const KRef x = k_splat(k, k_load(k, p->digits, at, 1, 1), lanes);
            sum[digit] = k_dot8(k, quad[t], x, sum[digit]);
        }
    }
    const KRef step = k_splat(k, k_load(k, p->steps, place, 1, 1), lanes);
    const KRef scale = k_mul(k, group->scale, step);
    KRef all = k_fma(k, join_digits(k, sum, lanes), scale, k_get(k, acc));
    for (int64_t i = first; group->add && i < group->end; i += p->packed.step) {
        const KRef at = k_expr(k, "$ * # + #", place, steps_of(p), i / p->packed.step);
        all = k_fma(k, k_splat(k, k_load(k, p->sums, at, 1, 1), lanes), group->add, all);
    }
    k_set(k, acc, all);
}

void block_digits_add(Lower *l, const BlockProduct *p, const BlockColumns *c, KRef block, KRef unit,
                      int64_t turn)
{
    rlx_assert(c->n >= 1 && block != 0);
    Kernel *k = l->k;
    const PackedBlocks *b = &p->packed;
    const KRef of_row = k_expr(k, "$ * # + $", block, b->units, unit);
    for (int64_t v = 0; v < c->n; v++) {
        KRef words[BLOCK_MAX_WORDS], quad[WORDS];
        const PackedUnit u = block_product_unit(l, p, k_expr(k, "$ + #", c->first, v), block, unit, turn);
        blocks_packed_words(k, b, &u, words);
        for (int64_t t = 0; t < WORDS; t++)
            quad[t] = blocks_packed_quad(k, b, words, t);
        for (int64_t i = 0; i < BLOCK_UNIT;) {
            const PackedGroup group = blocks_packed_group(k, b, &c->numbers[v], &u, i);
            for (int64_t r = 0; r < p->rows; r++)
                add_group(l, p, quad, &group, k_expr(k, "$ + #", of_row, r * units_of_row(p)), i,
                          c->acc[v * BLOCK_MAX_ROWS + r]);
            i = group.end;
        }
    }
}
