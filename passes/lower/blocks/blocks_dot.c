// SPDX-License-Identifier: Apache-2.0
// block_matmul by products of bytes, where the CPU has them: weights stay bytes, and so a few rows keep up
// with memory, which conversions to f32 do not, and many rows are faster than floats. An element of a row is
// a whole multiple of a step of its unit of 32 elements, whose digits each meet the weights in a sum of its
// own, which is exact: X = 65536 a + 256 b + c, for three digits of 8 bits. There are as many digits as
// --accuracy needs. Without dot8, sums of 16 bits (pair8) are joined before they might overflow,
// and many rows may have one digit of 16 bits (dot16): a word has that of an element, and above it that of
// the one half a group further on.
// Accumulation: of each group of a block, scale * step * sum of X * bits, and add * sum of x, are added in
// f32, groups in rising k. A row with NaN or infinity gives NaN.
#include "passes/lower/blocks/blocks_product.h"

#include <math.h>

enum { MAX_DIGITS = 3, QUAD = 4, WORDS = BLOCK_UNIT / QUAD };
// Units whose elements are all smaller are rounded as if one was this large, so that steps are no denormals.
#define SMALLEST 0x1p-100
// The error of a product of random numbers, of its norm, for elements of n bits: this * 2^-n.
#define ERROR_OF_BITS 1.5
// Vector instructions for the sums of a unit of a row: floats take one for each element.
enum { MOST_FOR_MANY_ROWS = 24, INSTRUCTIONS_OF_GROUP = 5 };

// --- the choice ----------------------------------------------------------------------------------

// The largest product of a weight's bits and a digit, in absolute value.
static int64_t largest_product(const BlockProduct *p)
{
    const PackedBlocks *b = &p->packed;
    return (((int64_t)1 << (b->low + b->high)) - 1) << (p->digit_bits - 1);
}

// Have digits two bytes?
static bool is_wide(const BlockProduct *p)
{
    return p->digit_bits > 8;
}

int64_t block_digits_words(const BlockProduct *p)
{
    rlx_assert(p->n_digits >= 1);
    return is_wide(p) ? 2 * WORDS : WORDS;
}

int64_t block_digits_together(const Lower *l, const BlockProduct *p)
{
    return l->caps->has_dot8 || is_wide(p) ? block_digits_words(p)
                                           : INT16_MAX / (2 * largest_product(p));
}

static int64_t instructions_of_unit(const BlockProduct *p)
{
    return p->n_digits * WORDS + BLOCK_UNIT / p->packed.step * INSTRUCTIONS_OF_GROUP;
}

// Is one digit of so many bits enough?
static bool takes_one(const BlockProduct *p, double accuracy)
{
    return ldexp(ERROR_OF_BITS, -p->digit_bits) <= accuracy;
}

// Without dot8, many rows have one digit: a byte whose products fit in halves, or two bytes, which take twice
// as many products. A product and its sum are two instructions, of which CPUs begin more in a cycle than of
// multiply-adds of floats.
static void choose_for_many(const Lower *l, BlockProduct *p, double accuracy)
{
    p->digit_bits = 8;
    if (2 * largest_product(p) > INT16_MAX || !takes_one(p, accuracy))
        p->digit_bits = 16;
    p->n_digits = takes_one(p, accuracy) && (!is_wide(p) || l->caps->has_dot16);
}

void block_digits_choose(const Lower *l, BlockProduct *p)
{
    rlx_assert(p->packed.f != NULL && p->rows >= 1);
    const double accuracy = l->pass->options->accuracy;
    p->n_digits = 0;
    if ((!l->caps->has_dot8 && !l->caps->has_pair8) || p->packed.lanes != l->caps->f32_lanes ||
        p->packed.step < QUAD)
        return;
    if (!l->caps->has_dot8 && p->rows > BLOCK_MAX_ROWS) {
        choose_for_many(l, p, accuracy);
        return;
    }
    p->digit_bits = 8;
    if (!l->caps->has_dot8 && 2 * largest_product(p) > INT16_MAX)
        p->digit_bits = 7;
    for (uint8_t n = 1; n <= MAX_DIGITS && p->n_digits == 0; n++)
        if (ldexp(ERROR_OF_BITS, -n * p->digit_bits) <= accuracy)
            p->n_digits = n;
    if (p->rows > BLOCK_MAX_ROWS && instructions_of_unit(p) > MOST_FOR_MANY_ROWS)
        p->n_digits = 0;
}

// The largest |X|: its upper digit is the largest one after the lower ones are rounded away.
static double largest_x(const BlockProduct *p)
{
    return ldexp((1 << (p->digit_bits - 1)) - 1, p->digit_bits * (p->n_digits - 1));
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
    const KRef largest = k_number(k, DTYPE_f32, largest_x(p));
    u->factor = k_div(k, largest, most);
    u->step = k_expr(k, "$ / $ + $", most, largest, k_hreduce(k, KOP_add, rests));
}

static KRef whole_number(Lower *l, const UnitRounding *u, int64_t v)
{
    return k_splat(l->k, k_integer(l->k, DTYPE_i32, v), u->lanes);
}

// Stores the digits of elements from i on, the upper one first.
static void store_digits(Lower *l, const BlockProduct *p, const UnitRounding *u, int64_t i, KRef x)
{
    Kernel *k = l->k;
    const KRef bits = whole_number(l, u, p->digit_bits), half = whole_number(l, u, 1 << (p->digit_bits - 1));
    for (int64_t digit = p->n_digits; digit-- > 0;) {
        const KRef at =
            k_expr(k, "$ * # + #", u->place, p->n_digits * BLOCK_UNIT, digit * BLOCK_UNIT + i);
        const KRef above = k_shr(k, k_add(k, x, half), bits);
        k_store(k, u->bytes, at, k_cast(k, k_sub(k, x, k_shl(k, above, bits)), DTYPE_i8), u->lanes);
        x = above;
    }
}

// Steps of a unit, between which no group ends.
static int64_t steps_of(const BlockProduct *p)
{
    return BLOCK_UNIT / p->packed.step;
}

static KRef rounded(Lower *l, const BlockProduct *p, const UnitRounding *u, int64_t i)
{
    Kernel *k = l->k;
    const KRef scaled = k_mul(k, load_x(l, p, u, i), k_splat(k, u->factor, u->lanes));
    return k_cast(k, k_rint(k, scaled), DTYPE_i32);
}

// The words of step s, whose digits have two bytes: returns the sums of elements in lanes.
static KRef store_words(Lower *l, const BlockProduct *p, const UnitRounding *u, int64_t s)
{
    Kernel *k = l->k;
    const int64_t apart = p->packed.step / 2;
    KRef sum = whole_number(l, u, 0);
    for (int64_t i = 0; i < apart; i += u->lanes) {
        const KRef low = rounded(l, p, u, s * p->packed.step + i);
        const KRef high = rounded(l, p, u, s * p->packed.step + apart + i);
        const KRef word = k_or(k, k_and(k, low, whole_number(l, u, 0xffff)),
                               k_shl(k, high, whole_number(l, u, 16)));
        const KRef at = k_expr(k, "$ * # + #", u->place, block_digits_words(p), s * apart + i);
        k_store(k, p->digits, at, word, u->lanes);
        sum = k_add(k, sum, k_add(k, low, high));
    }
    return sum;
}

// The same for digits of one byte.
static KRef store_bytes(Lower *l, const BlockProduct *p, const UnitRounding *u, int64_t s)
{
    Kernel *k = l->k;
    const int64_t size = p->packed.step;
    KRef sum = whole_number(l, u, 0);
    for (int64_t i = s * size; i < (s + 1) * size; i += u->lanes) {
        const KRef x = rounded(l, p, u, i);
        sum = k_add(k, sum, x);
        store_digits(l, p, u, i, x);
    }
    return sum;
}

// Digits of the elements of step s, and their sum.
static void round_step(Lower *l, const BlockProduct *p, const UnitRounding *u, int64_t s)
{
    Kernel *k = l->k;
    const KRef sum = (is_wide(p) ? store_words : store_bytes)(l, p, u, s);
    const KRef at = k_expr(k, "$ * # + #", u->place, steps_of(p), s), all = k_hreduce(k, KOP_add, sum);
    const KRef whole = p->has_starts ? k_mul(k, all, k_integer(k, DTYPE_i32, p->packed.bias))
                                     : k_mul(k, k_cast(k, all, DTYPE_f32), u->step);
    k_store(k, p->sums, at, whole, 1);
}

void block_digits_round(Lower *l, BlockProduct *p, KRef live)
{
    rlx_assert(p->n_digits >= 1 && p->rows >= 1);
    Kernel *k = l->k;
    const int64_t units = units_of_row(p), all = p->rows * units;
    const int64_t words = all * p->n_digits * block_digits_words(p);
    p->digits = lower_param_scratch(l, "digits", DTYPE_i32, (uint64_t)words);
    p->steps = lower_param_scratch(l, "steps", DTYPE_f32, (uint64_t)all);
    p->sums = lower_param_scratch(l, "sums", p->has_starts ? DTYPE_i32 : DTYPE_f32,
                                  (uint64_t)(all * steps_of(p)));
    UnitRounding u = {.lanes = lower_fit_lanes(l, is_wide(p) ? p->packed.step / 2 : p->packed.step)};
    if (!is_wide(p))
        u.bytes = lower_param_view(l, p->digits, DTYPE_i8);
    const KRef end = live != 0 ? k_expr(k, "$ * #", live, units) : k_index(k, all);
    u.place = k_for(k, k_index(k, 0), end, 1, KFOR_PARALLEL, "u");
    u.x = k_expr(k, "$ * # + $", u.place, BLOCK_UNIT, p->x_base);
    find_step(l, p, &u);
    k_store(k, p->steps, u.place, u.step, 1);
    for (int64_t s = 0; s < steps_of(p); s++)
        round_step(l, p, &u, s);
    k_end(k);
    k_barrier(k);
}

// --- products ------------------------------------------------------------------------------------

// X of the sums of digits.
static KRef join_digits(Kernel *k, const BlockProduct *p, const KRef *sum)
{
    const KRef base = k_splat(k, k_number(k, DTYPE_f32, 1 << p->digit_bits), p->packed.lanes);
    KRef whole = k_cast(k, sum[0], DTYPE_f32);
    for (int64_t digit = 1; digit < p->n_digits; digit++)
        whole = k_fma(k, whole, base, k_cast(k, sum[digit], DTYPE_f32));
    return whole;
}

// The products of a digit with quads [first, end) of a unit, number `place` of all.
static KRef sum_quads(Lower *l, const BlockProduct *p, const KRef *quad, KRef place, int64_t digit,
                      int64_t first, int64_t end)
{
    Kernel *k = l->k;
    const uint8_t lanes = p->packed.lanes;
    const int64_t together = block_digits_together(l, p);
    const KRef zero = k_splat(k, k_integer(k, DTYPE_i32, 0), lanes);
    KRef sum = zero;
    for (int64_t t = first; t < end;) {
        const int64_t stop = t + together < end ? t + together : end;
        KRef part = l->caps->has_dot8 ? sum : zero;
        for (; t < stop; t++) {
            const KRef at = k_expr(k, "$ * # + #", place, p->n_digits * WORDS, digit * WORDS + t);
            const KRef x = k_splat(k, k_load(k, p->digits, at, 1, 1), lanes);
            part = l->caps->has_dot8 ? k_dot8(k, quad[t], x, part) : k_pair8(k, quad[t], x, part);
        }
        sum = l->caps->has_dot8 ? part : k_join16(k, part, sum);
    }
    return sum;
}

// Elements [first, group->end) of a unit of a row, number `place` of all: quads of weights are given.
static void add_group(Lower *l, const BlockProduct *p, const KRef *quad, const PackedGroup *group, KRef place,
                      int64_t first, KRef acc)
{
    Kernel *k = l->k;
    const uint8_t lanes = p->packed.lanes;
    KRef sum[MAX_DIGITS];
    for (int64_t digit = 0; digit < p->n_digits; digit++)
        sum[digit] = sum_quads(l, p, quad, place, digit, first / QUAD, group->end / QUAD);
    const KRef step = k_splat(k, k_load(k, p->steps, place, 1, 1), lanes);
    const KRef scale = k_mul(k, group->scale, step);
    KRef all = k_fma(k, join_digits(k, p, sum), scale, k_get(k, acc));
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
        const PackedUnit u = block_product_unit(l, c, v, block, unit, turn);
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
