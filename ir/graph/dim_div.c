// SPDX-License-Identifier: Apache-2.0
// Division, remainder, minimum and maximum of dims. Each is worked out as far as algebra and the ranges of
// the symbols allow; only what is left becomes an atom.
#include "ir/graph/dim_expr.h"

// --- division by a constant ---

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

// Is floor(d / b) the same for all values of the symbols?
static bool has_one_quotient(const DimTable *t, Dim d, int64_t b, int64_t *quotient)
{
    int64_t min = 0, max = 0;
    dim_range(t, d, &min, &max);
    *quotient = dim_floor_div_int(min, b);
    return *quotient == dim_floor_div_int(max, b) && min > -DIM_MAX_ENTRY && max < DIM_MAX_ENTRY;
}

// floor((floor(x / c) + k) / b) = floor((x + k c) / (c b)), for constants b, c > 0.
static bool merge_divisions(DimTable *t, const DimSum *s, int64_t b, Dim *out)
{
    const DimTerm *term = &s->term[0];
    if (s->n != 1 || term->n != 1 || term->coef != 1)
        return false;
    const DimExpr *inner = dim_expr(t, term->atom[0]);
    int64_t divisor = 0, shift = 0;
    if (inner->kind != DIM_FLOOR_DIV || !dim_is_const(inner->b) ||
        __builtin_mul_overflow(inner->b, b, &divisor) || !dim_fits(divisor) ||
        __builtin_mul_overflow(inner->b, s->constant, &shift) || !dim_fits(shift))
        return false;
    *out = dim_floor_div(t, dim_add(t, inner->a, shift), divisor);
    return true;
}

// floor of a sum whose coefficients are no multiples of b, and whose constant is in [0, b).
static Dim divide_rest(DimTable *t, const DimSum *s, int64_t b)
{
    DimSum reduced = *s;
    int64_t g = b, quotient = 0;
    Dim merged = 0, whole = dim_sum_store(t, s);
    if (dim_is_unknown(t, whole))
        return whole;
    if (has_one_quotient(t, whole, b, &quotient))
        return quotient;
    if (merge_divisions(t, s, b, &merged))
        return merged;
    for (uint32_t i = 0; i < s->n; i++)
        g = gcd(g, s->term[i].coef);
    for (uint32_t i = 0; i < s->n; i++)
        reduced.term[i].coef /= g;
    reduced.constant = dim_floor_div_int(s->constant, g);
    if (g > 1 && merge_divisions(t, &reduced, b / g, &merged))
        return merged;
    return dim_atom(t, DIM_FLOOR_DIV, dim_sum_store(t, &reduced), b / g);
}

static Dim divide_by_constant(DimTable *t, Dim a, int64_t b)
{
    if (b <= 0)
        return dim_unknown(t);
    if (dim_is_const(a))
        return dim_floor_div_int(a, b);
    if (b == 1)
        return a;
    DimSum s, out, rest;
    dim_sum_load(t, &s, a);
    dim_sum_load(t, &out, dim_floor_div_int(s.constant, b));
    dim_sum_load(t, &rest, dim_mod_int(s.constant, b));
    if (s.is_over)
        return dim_unknown(t);
    for (uint32_t i = 0; i < s.n; i++) {
        bool is_multiple = s.term[i].coef % b == 0;
        if (is_multiple)
            s.term[i].coef /= b;
        dim_sum_add_term(t, is_multiple ? &out : &rest, &s.term[i]);
    }
    return dim_add(t, dim_sum_store(t, &out), rest.n ? divide_rest(t, &rest, b) : 0);
}

// What every value of the product is a multiple of, as far as the symbols say.
static int64_t multiple_of(const DimTable *t, const DimTerm *term)
{
    int64_t m = term->coef;
    for (uint32_t i = 0; i < term->n; i++) {
        const DimExpr *e = dim_expr(t, term->atom[i]);
        int64_t more = 0;
        if (e->kind == DIM_SYMBOL && !__builtin_mul_overflow(m, t->symbols.data[e->symbol].multiple, &more))
            m = more;
    }
    return m;
}

static Dim mod_by_constant(DimTable *t, Dim a, int64_t b)
{
    if (b <= 0)
        return dim_unknown(t);
    if (dim_is_const(a))
        return dim_mod_int(a, b);
    DimSum s, rest;
    int64_t quotient = 0;
    dim_sum_load(t, &s, a);
    dim_sum_load(t, &rest, dim_mod_int(s.constant, b));
    if (s.is_over)
        return dim_unknown(t);
    for (uint32_t i = 0; i < s.n; i++) {
        if (multiple_of(t, &s.term[i]) % b == 0)
            continue;
        s.term[i].coef = dim_mod_int(s.term[i].coef, b);
        dim_sum_add_term(t, &rest, &s.term[i]);
    }
    Dim reduced = dim_sum_store(t, &rest);
    if (dim_is_const(reduced) || dim_is_unknown(t, reduced))
        return reduced;
    if (has_one_quotient(t, reduced, b, &quotient) && dim_fits(quotient * b))
        return dim_sub(t, reduced, quotient * b);
    return dim_atom(t, DIM_MOD, reduced, b);
}

// --- division by an expression ---

// a / b when the factors of b are among those of a.
static bool divide_terms(const DimTerm *a, const DimTerm *b, DimTerm *out)
{
    uint32_t k = 0;
    if (a->coef % b->coef != 0)
        return false;
    *out = (DimTerm){.coef = a->coef / b->coef};
    for (uint32_t i = 0; i < a->n; i++) {
        if (k < b->n && a->atom[i] == b->atom[k])
            k++;
        else
            out->atom[out->n++] = a->atom[i];
    }
    return k == b->n;
}

static Dim term_as_dim(DimTable *t, const DimTerm *term)
{
    DimSum s;
    dim_sum_load(t, &s, term->n ? 0 : term->coef);
    if (term->n)
        dim_sum_add_term(t, &s, term);
    return dim_sum_store(t, &s);
}

// True when 0 <= d < b for all values of the symbols.
static bool is_remainder(DimTable *t, Dim d, Dim b)
{
    int64_t min = 0, max = 0;
    dim_range(t, d, &min, &max);
    if (min < 0)
        return false;
    dim_range(t, dim_sub(t, d, b), &min, &max);
    return max < 0;
}

// Polynomial division: a = b * quotient + rest. The leading term is divided as long as it can be.
// True when rest is known to be in [0, b). Otherwise a quotient is split off only where that leaves less.
static bool divide_polynomials(DimTable *t, Dim a, Dim b, Dim *quotient, Dim *rest)
{
    DimSum whole, divisor, s;
    DimTerm q;
    *quotient = 0;
    *rest = a;
    dim_sum_load(t, &divisor, b);
    dim_sum_load(t, &s, a);
    for (uint32_t step = 0; step < DIM_MAX_TERMS && s.n; step++) {
        if (!divide_terms(&s.term[0], &divisor.term[0], &q))
            break;
        Dim part = term_as_dim(t, &q);
        Dim left = dim_sub(t, *rest, dim_mul(t, part, b));
        if (dim_is_unknown(t, left))
            break;
        *quotient = dim_add(t, *quotient, part);
        *rest = left;
        dim_sum_load(t, &s, left);
    }
    Dim above = dim_add(t, *rest, b);
    if (is_remainder(t, above, b)) {
        *quotient = dim_sub(t, *quotient, 1);
        *rest = above;
        return true;
    }
    if (is_remainder(t, *rest, b))
        return true;
    dim_sum_load(t, &whole, a);
    if (s.n >= whole.n) {
        *quotient = 0;
        *rest = a;
    }
    return false;
}

Dim dim_floor_div(DimTable *t, Dim a, Dim b)
{
    Dim quotient = 0, rest = 0;
    if (dim_is_const(b))
        return divide_by_constant(t, a, b);
    if (dim_is_unknown(t, a) || dim_is_unknown(t, b))
        return dim_unknown(t);
    if (divide_polynomials(t, a, b, &quotient, &rest))
        return quotient;
    return dim_add(t, quotient, dim_atom(t, DIM_FLOOR_DIV, rest, b));
}

Dim dim_ceil_div(DimTable *t, Dim a, Dim b)
{
    return dim_floor_div(t, dim_sub(t, dim_add(t, a, b), 1), b);
}

Dim dim_mod(DimTable *t, Dim a, Dim b)
{
    Dim quotient = 0, rest = 0;
    if (dim_is_const(b))
        return mod_by_constant(t, a, b);
    if (dim_is_unknown(t, a) || dim_is_unknown(t, b))
        return dim_unknown(t);
    return divide_polynomials(t, a, b, &quotient, &rest) ? rest : dim_atom(t, DIM_MOD, rest, b);
}

// --- minimum and maximum ---

static Dim pick(DimTable *t, DimKind kind, Dim a, Dim b)
{
    int64_t min = 0, max = 0;
    if (dim_is_unknown(t, a) || dim_is_unknown(t, b))
        return dim_unknown(t);
    dim_range(t, dim_sub(t, a, b), &min, &max);
    if (max <= 0)
        return kind == DIM_MIN ? a : b;
    if (min >= 0)
        return kind == DIM_MIN ? b : a;
    if (dim_compare(t, a, b) > 0) {
        Dim swapped = a;
        a = b;
        b = swapped;
    }
    const DimExpr *e = dim_is_const(b) ? NULL : dim_expr(t, b);
    if (e && e->kind == kind && (e->a == a || e->b == a))
        return b;
    if (e && e->kind == kind && dim_is_const(a) && dim_is_const(e->a))
        return pick(t, kind, pick(t, kind, a, e->a), e->b);
    return dim_atom(t, kind, a, b);
}

Dim dim_min(DimTable *t, Dim a, Dim b)
{
    return pick(t, DIM_MIN, a, b);
}

Dim dim_max(DimTable *t, Dim a, Dim b)
{
    return pick(t, DIM_MAX, a, b);
}
