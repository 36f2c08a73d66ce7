// SPDX-License-Identifier: Apache-2.0
// How depthwise convolutions of bytes bring sums back to bytes, where the pass `requantise` found numbers
// for it. Most channels of a layer have a factor only, and share the rest. Those that have a start of their
// own, or sums that are exceptions, are marked in a table, and have their numbers in tables of such
// channels: a loop over the pixels of a channel is in the text twice then, and what these numbers cost is
// paid where they matter.
#include "passes/graph/choices.h"
#include "passes/lower/conv/int_conv.h"

enum { MAX_OWN = 255, FAR = 16 };

static int64_t floor_shift(int64_t v, int64_t by)
{
    const int64_t one = INT64_C(1) << by;
    return v / one - (v % one < 0);
}

static bool is_exception(const RequantScale *c, int64_t sum)
{
    for (uint32_t i = 0; i < c->n_exceptions; i++)
        if (c->exception[i] == sum)
            return true;
    return false;
}

int64_t int_scale_instead(const RequantScale *c, uint32_t i)
{
    const int64_t sum = c->exception[i], shift = 32 + c->shift;
    const int64_t wanted = floor_shift(sum * c->factor + c->start, shift) + c->added[i];
    for (int64_t far = 1; far <= FAR; far++)
        for (int64_t at = sum - far; at <= sum + far; at += 2 * far)
            if (!is_exception(c, at) && floor_shift(at * c->factor + c->start, shift) == wanted)
                return at;
    return 0;
}

bool int_scale_is_own(const RequantScale *c, int64_t high)
{
    return c->n_exceptions > 0 || c->start != high * (INT64_C(1) << 32);
}

bool int_scale_fits(const RequantScale *c, int64_t shift, int64_t limit)
{
    for (uint32_t i = 0; i < c->n_exceptions; i++)
        if (int_scale_instead(c, i) == 0)
            return false;
    return c->shift == shift && c->even == 0 && c->factor >= 0 && c->factor <= INT32_MAX &&
           c->start > -limit && c->start < limit;
}

int64_t int_scales_high(const RequantScale *scale, int64_t n)
{
    int64_t high = 0, votes = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t one = INT64_C(1) << 32, here = scale[i].start / one;
        if (scale[i].start % one != 0)
            continue;
        high = votes == 0 ? here : high;
        votes += here == high ? 1 : -1;
    }
    return high;
}

static void add_own(const IntConv *c, IntScales *s)
{
    Lower *l = c->l;
    Arena *a = l->pass->perm;
    const int64_t n = c->group * c->oc, k = s->n_exceptions;
    uint8_t *own = ARENA_ARRAY(a, uint8_t, (size_t)n);
    int64_t *start = ARENA_ARRAY(a, int64_t, s->n_own);
    int32_t *exception = ARENA_ARRAY(a, int32_t, (size_t)(s->n_own * k * 2));
    for (int64_t i = 0, at = 0; i < n; i++) {
        const RequantScale *of = &s->of[i];
        if (!int_scale_is_own(of, s->high))
            continue;
        start[at] = of->start;
        for (int64_t e = 0; e < k; e++) {
            const bool is_here = e < of->n_exceptions;
            exception[(at * k + e) * 2] = is_here ? (int32_t)of->exception[e] : INT32_MIN; // never occurs
            exception[(at * k + e) * 2 + 1] = is_here ? (int32_t)of->added[e] : 0;
        }
        own[i] = (uint8_t)++at;
    }
    if (s->n_own < n)
        s->own = lower_param_data(l, "own", DTYPE_u8, own, (uint64_t)n);
    s->starts = lower_param_data(l, "starts", DTYPE_i64, start, (uint64_t)s->n_own * 8);
    if (k > 0)
        s->exceptions = lower_param_data(l, "exceptions", DTYPE_i32, exception, (uint64_t)(s->n_own * k) * 8);
}

static void add_evens(const IntConv *c, IntScales *s)
{
    Lower *l = c->l;
    int32_t *even = ARENA_ARRAY(l->pass->perm, int32_t, (size_t)s->n);
    for (int64_t i = 0; i < s->n; i++)
        even[i] = (int32_t)s->of[i].even;
    s->evens = lower_param_data(l, "evens", DTYPE_i32, even, (uint64_t)s->n * 4);
}

// What follows the sums; false: something else.
static bool match(const IntConv *c, IntScales *s)
{
    const Lower *l = c->l;
    Arena *a = l->pass->perm;
    s->of = requantise_match(a, l->g, l->root, l->anchor, &s->ends);
    if (s->of != NULL)
        return true;
    s->of = requantise_match_choice(a, l->g, l->root, l->anchor, &s->ends, &s->choice);
    s->has_choice = s->of != NULL;
    return s->has_choice && s->of[0].shift >= 0;
}

bool int_scales_find(const IntConv *c, IntScales *s)
{
    Lower *l = c->l;
    const int64_t n = c->group * c->oc;
    *s = (IntScales){.n = n};
    if (!match(c, s))
        return false;
    s->shift = s->of[0].shift;
    s->start = s->of[0].start;
    s->high = int_scales_high(s->of, n);
    int32_t *factor = ARENA_ARRAY(l->pass->perm, int32_t, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        const RequantScale *of = &s->of[i];
        s->n_own += !s->has_choice && int_scale_is_own(of, s->high);
        s->has_even = s->has_even || of->even > 0;
        s->n_exceptions = of->n_exceptions > s->n_exceptions ? of->n_exceptions : s->n_exceptions;
        factor[i] = (int32_t)of->factor;
        if (of->shift != s->shift || of->factor != factor[i])
            return false;
    }
    if (s->n_own > MAX_OWN || s->shift > 31 || s->high < INT32_MIN || s->high > INT32_MAX)
        return false;
    s->factors = lower_param_data(l, "factors", DTYPE_i32, factor, (uint64_t)n * 4);
    if (s->has_even)
        add_evens(c, s);
    if (s->choice.upper != NULL)
        s->choices =
            lower_param_data(l, "choices", DTYPE_i32, s->choice.upper, (uint64_t)n * CHOICE_WORDS * 4);
    if (s->n_own > 0)
        add_own(c, s);
    return true;
}

static KRef saturated(const IntConv *c, KRef v, int64_t shift)
{
    Kernel *k = c->l->k;
    const KRef bits = k_integer(k, DTYPE_i32, shift);
    if (c->l->caps->has_sat)
        return k_sat8(k, v, bits);
    v = shift > 0 ? k_shr(k, v, bits) : v;
    return k_min(k, k_integer(k, DTYPE_i32, INT8_MAX), k_max(k, k_integer(k, DTYPE_i32, INT8_MIN), v));
}

KRef int_scales_own(const IntConv *c, const IntScales *s, KRef channel)
{
    Kernel *k = c->l->k;
    if (s->n_own == 0)
        return 0;
    return s->n_own == s->n ? k_expr(k, "$ + 1", channel)
                            : k_cast(k, k_load(k, s->own, channel, 1, 1), KT_INDEX);
}

// Variables, because results may lie over what is read: else compilers would load the numbers for each of
// them.
IntScale int_scales_load(const IntConv *c, const IntScales *s, KRef channel, KRef own)
{
    Kernel *k = c->l->k;
    IntScale of = {.factor = k_var(k, k_load(k, s->factors, channel, 1, 1), "factor")};
    if (s->has_even)
        of.even = k_var(k, k_load(k, s->evens, channel, 1, 1), "even");
    if (s->choice.upper != NULL)
        of.choices = k_expr(k, "$ * #", channel, CHOICE_WORDS);
    if (own == 0)
        return of;
    const KRef at = k_expr(k, "$ - 1", own);
    of.start = k_var(k, k_load(k, s->starts, at, 1, 1), "start");
    for (int64_t e = 0; e < s->n_exceptions; e++) {
        const KRef entry = k_expr(k, "($ * # + #) * 2", at, s->n_exceptions, e);
        of.exception[e] = k_var(k, k_load(k, s->exceptions, entry, 1, 1), "e");
        of.added[e] = k_var(k, k_load(k, s->exceptions, k_expr(k, "$ + 1", entry), 1, 1), "a");
    }
    return of;
}

// The product of a and b without its lowest 32 bits, where products have no more: by halves.
static KRef high_of_halves(Kernel *k, KRef a, KRef b)
{
    const KRef half = k_integer(k, DTYPE_i32, 16), mask = k_integer(k, DTYPE_i32, 65535);
    const KRef a0 = k_and(k, a, mask), a1 = k_shr(k, a, half), b0 = k_and(k, b, mask), b1 = k_shr(k, b, half);
    const KRef low = k_shr(k, k_cast(k, k_mul(k, a0, b0), DTYPE_u32), k_integer(k, DTYPE_u32, 16));
    const KRef middle = k_fma(k, a1, b0, k_cast(k, low, DTYPE_i32));
    const KRef other = k_fma(k, a0, b1, k_and(k, middle, mask));
    return k_add(k, k_fma(k, a1, b1, k_shr(k, middle, half)), k_shr(k, other, half));
}

// a * b + start without its lowest 32 bits.
static KRef high_sum_of_halves(Kernel *k, KRef a, KRef b, KRef start)
{
    const KRef low = k_cast(k, start, DTYPE_u32);
    const KRef high = k_cast(k, k_shr(k, start, k_integer(k, DTYPE_i64, 32)), DTYPE_i32);
    const KRef sum = k_add(k, k_cast(k, k_mul(k, a, b), DTYPE_u32), low);
    return k_add(k, k_add(k, high_of_halves(k, a, b), high), k_cast(k, k_lt(k, sum, low), DTYPE_i32));
}

static KRef high_sum(Kernel *k, KRef a, KRef b, KRef start)
{
    const KRef product = k_mul(k, k_cast(k, a, DTYPE_i64), k_cast(k, b, DTYPE_i64));
    return k_cast(k, k_shr(k, k_add(k, product, start), k_integer(k, DTYPE_i64, 32)), DTYPE_i32);
}

// Does the upper one of two values count? low: the other one.
static KRef upper_counts(const IntConv *c, const IntScales *s, const IntScale *of, KRef low)
{
    Kernel *k = c->l->k;
    const RequantChoice *by = &s->choice;
    const KRef one = k_integer(k, DTYPE_i32, 1);
    if (by->upper == NULL)
        return k_and(k, by->odd != 0 ? k_add(k, low, one) : low, one);
    const KRef inside = k_min(k, k_integer(k, DTYPE_i32, by->most),
                              k_max(k, k_integer(k, DTYPE_i32, by->least), low));
    const KRef step = k_sub(k, inside, k_integer(k, DTYPE_i32, by->least));
    const KRef word = k_cast(k, k_shr(k, step, k_integer(k, DTYPE_i32, 5)), KT_INDEX);
    const KRef bits = k_load(k, s->choices, k_expr(k, "$ + $", of->choices, word), 1, 1);
    return k_and(k, k_shr(k, bits, k_and(k, step, k_integer(k, DTYPE_i32, 31))), one);
}

// The upper one of two values, from which 1 is taken where they differ and the other one counts: few sums are
// near a step, so that is asked first.
static KRef chosen(const IntConv *c, const IntScales *s, const IntScale *of, KRef sum)
{
    Kernel *k = c->l->k;
    const KRef factor = k_get(k, of->factor), start = k_integer(k, DTYPE_i64, s->start);
    const KRef shift = k_integer(k, DTYPE_i32, s->shift), one = k_integer(k, DTYPE_i32, 1);
    const KRef rest = k_integer(k, DTYPE_i32, (INT64_C(1) << s->shift) - 1);
    const KRef high = k_var(k, c->l->caps->is_narrow ? high_sum_of_halves(k, sum, factor, start)
                                                     : high_sum(k, sum, factor, start), "high");
    const KRef low = k_add(k, k_cast(k, k_mul(k, sum, factor), DTYPE_u32),
                           k_integer(k, DTYPE_u32, (int64_t)((uint64_t)s->start & UINT32_MAX)));
    const KRef v = k_var(k, k_shr(k, k_get(k, high), shift), "v");
    const KRef is_near = k_eq(k, k_and(k, k_get(k, high), rest), k_integer(k, DTYPE_i32, 0));
    k_if(k, k_and(k, is_near, k_lt(k, low, k_integer(k, DTYPE_u32, s->choice.width))));
    const KRef below = k_sub(k, k_get(k, v), one);
    k_set(k, v, k_add(k, below, upper_counts(c, s, of, below)));
    k_end(k);
    return saturated(c, k_get(k, v), 0);
}

static KRef scaled(const IntConv *c, const IntScales *s, const IntScale *of, KRef sum)
{
    Kernel *k = c->l->k;
    if (s->has_choice)
        return chosen(c, s, of, sum);
    const KRef factor = k_get(k, of->factor), high = k_integer(k, DTYPE_i32, s->high);
    if (of->even != 0) {
        sum = k_sub(k, sum, k_integer(k, DTYPE_i32, 1));
        const KRef bit = k_and(k, k_shr(k, sum, k_get(k, of->even)), k_integer(k, DTYPE_i32, 1));
        sum = k_add(k, sum, bit);
    }
    const bool is_narrow = c->l->caps->is_narrow;
    if (of->start == 0)
        return saturated(
            c, is_narrow ? k_add(k, high_of_halves(k, sum, factor), high) : k_mulh_add(k, sum, factor, high),
            s->shift);
    KRef v = is_narrow ? high_sum_of_halves(k, sum, factor, k_get(k, of->start))
                       : high_sum(k, sum, factor, k_get(k, of->start));
    if (s->n_exceptions == 0)
        return saturated(c, v, s->shift);
    v = k_shr(k, v, k_integer(k, DTYPE_i32, s->shift));
    for (int64_t e = 0; e < s->n_exceptions; e++) {
        const KRef is_it = k_eq(k, sum, k_get(k, of->exception[e]));
        v = k_add(k, v, k_select(k, is_it, k_get(k, of->added[e]), k_integer(k, DTYPE_i32, 0)));
    }
    return saturated(c, v, 0);
}

// A byte with a sign becomes an element of the result.
static KRef ended(Kernel *k, const RequantEnds *ends, KRef v)
{
    if (ends->least > INT8_MIN)
        v = k_max(k, k_integer(k, DTYPE_i32, ends->least), v);
    if (ends->most < INT8_MAX)
        v = k_min(k, k_integer(k, DTYPE_i32, ends->most), v);
    return ends->is_unsigned ? k_cast(k, k_add(k, v, k_integer(k, DTYPE_i32, 128)), DTYPE_u8)
                             : k_cast(k, v, DTYPE_i8);
}

void int_scales_store(const IntConv *c, const Domain *d, const IntScales *s, const IntScale *of,
                      const Point *at, KRef sum)
{
    Lower *l = c->l;
    const KRef v = ended(l->k, &s->ends, scaled(c, s, of, sum));
    Pull p = pull_at(l, d, *at);
    p.space = d->has_out_space ? SPACE_OUT : SPACE_IN;
    lower_store(l, lower_param(l, l->root, PARAM_WRITE), pull_index(&p, l->root), v, at);
}
