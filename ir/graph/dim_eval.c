// SPDX-License-Identifier: Apache-2.0
// What values a dim can have: ranges by interval arithmetic, evaluation, and substitution of known symbols.
// The recursions end because an expression written out has at most DIM_MAX_SIZE parts.
#include "ir/graph/dim_expr.h"

// --- ranges ---

// Bounds at +-INFINITE stand for anything beyond, and stay there.
static const int64_t INFINITE = INT64_C(1) << 61;

typedef struct Range {
    int64_t min, max;
} Range;

static int64_t saturate(int64_t v)
{
    return v > INFINITE ? INFINITE : v < -INFINITE ? -INFINITE : v;
}

static bool is_infinite(int64_t v)
{
    return v == INFINITE || v == -INFINITE;
}

// `open` is the infinity on the side of the bound, which wins.
static int64_t add_bounds(int64_t a, int64_t b, int64_t open)
{
    if (a == open || b == open)
        return open;
    return saturate(a + b);
}

static int64_t multiply_bounds(int64_t a, int64_t b)
{
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product))
        return (a < 0) == (b < 0) ? INFINITE : -INFINITE;
    return saturate(product);
}

static int64_t divide_bounds(int64_t a, int64_t b)
{
    if (is_infinite(a))
        return a;
    if (is_infinite(b))
        return a < 0 ? -1 : 0;
    return dim_floor_div_int(a, b);
}

static int64_t min_int(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_int(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// The range of an operation that is monotonic in each operand, from its values at the corners.
static Range corners(Range a, Range b, int64_t (*op)(int64_t, int64_t))
{
    int64_t p = op(a.min, b.min), q = op(a.min, b.max), r = op(a.max, b.min), s = op(a.max, b.max);
    return (Range){min_int(min_int(p, q), min_int(r, s)), max_int(max_int(p, q), max_int(r, s))};
}

static Range range_of(const DimTable *t, Dim d);

static Range range_of_sum(const DimTable *t, const DimExpr *e)
{
    Range sum = {saturate(e->constant), saturate(e->constant)};
    for (uint32_t i = 0; i < e->n_terms; i++) {
        int64_t coef = saturate(e->terms[i].coef);
        Range product = {coef, coef};
        for (uint32_t k = 0; k < e->terms[i].n; k++)
            product = corners(product, range_of(t, e->terms[i].atom[k]), multiply_bounds);
        sum.min = add_bounds(sum.min, product.min, -INFINITE);
        sum.max = add_bounds(sum.max, product.max, INFINITE);
    }
    return sum;
}

static Range range_of_atom(DimKind kind, Range a, Range b)
{
    Range positive = {max_int(b.min, 1), max_int(b.max, 1)}; // of a divisor
    switch (kind) {
    case DIM_FLOOR_DIV:
        return corners(a, positive, divide_bounds);
    case DIM_MOD:
        return a.min >= 0 && a.max < positive.min ? a : (Range){0, positive.max - 1};
    case DIM_MIN:
        return (Range){min_int(a.min, b.min), min_int(a.max, b.max)};
    default:
        rlx_assert(kind == DIM_MAX);
        return (Range){max_int(a.min, b.min), max_int(a.max, b.max)};
    }
}

static Range range_of(const DimTable *t, Dim d)
{
    if (dim_is_const(d))
        return (Range){saturate(d), saturate(d)};
    const DimExpr *e = dim_expr(t, d);
    if (e->kind == DIM_SYMBOL)
        return (Range){t->symbols.data[e->symbol].min, t->symbols.data[e->symbol].max};
    if (e->kind == DIM_UNKNOWN)
        return (Range){-INFINITE, INFINITE};
    if (e->kind == DIM_SUM)
        return range_of_sum(t, e);
    return range_of_atom(e->kind, range_of(t, e->a), range_of(t, e->b));
}

void dim_range(const DimTable *t, Dim d, int64_t *min, int64_t *max)
{
    Range r = range_of(t, d);
    *min = r.min;
    *max = r.max;
}

// --- values ---

static bool eval_sum(const DimTable *t, const DimExpr *e, DimValues v, int64_t *out)
{
    int64_t sum = e->constant;
    for (uint32_t i = 0; i < e->n_terms; i++) {
        int64_t product = e->terms[i].coef, factor = 0;
        for (uint32_t k = 0; k < e->terms[i].n; k++) {
            if (!dim_eval(t, e->terms[i].atom[k], v, &factor) ||
                __builtin_mul_overflow(product, factor, &product))
                return false;
        }
        if (__builtin_add_overflow(sum, product, &sum))
            return false;
    }
    *out = sum;
    return true;
}

static bool eval_atom(const DimTable *t, const DimExpr *e, DimValues v, int64_t *out)
{
    int64_t a = 0, b = 0;
    if (!dim_eval(t, e->a, v, &a) || !dim_eval(t, e->b, v, &b))
        return false;
    if (e->kind == DIM_MIN || e->kind == DIM_MAX) {
        *out = e->kind == DIM_MIN ? min_int(a, b) : max_int(a, b);
        return true;
    }
    if (b <= 0)
        return false;
    *out = e->kind == DIM_FLOOR_DIV ? dim_floor_div_int(a, b) : dim_mod_int(a, b);
    return true;
}

bool dim_eval(const DimTable *t, Dim d, DimValues v, int64_t *out)
{
    if (dim_is_const(d)) {
        *out = d;
        return true;
    }
    const DimExpr *e = dim_expr(t, d);
    if (e->kind == DIM_SYMBOL) {
        if (e->symbol >= v.n || v.value[e->symbol] < 0)
            return false;
        *out = v.value[e->symbol];
        return true;
    }
    if (e->kind == DIM_UNKNOWN)
        return false;
    return e->kind == DIM_SUM ? eval_sum(t, e, v, out) : eval_atom(t, e, v, out);
}

// The table may grow meanwhile, but expressions and their terms stay where they are.
static Dim substitute_sum(DimTable *t, const DimExpr *e, DimValues v)
{
    Dim sum = e->constant;
    for (uint32_t i = 0; i < e->n_terms; i++) {
        Dim product = e->terms[i].coef;
        for (uint32_t k = 0; k < e->terms[i].n; k++)
            product = dim_mul(t, product, dim_substitute(t, e->terms[i].atom[k], v));
        sum = dim_add(t, sum, product);
    }
    return sum;
}

Dim dim_substitute(DimTable *t, Dim d, DimValues v)
{
    static Dim (*const make[DIM_KIND_COUNT])(DimTable *, Dim, Dim) = {
        [DIM_FLOOR_DIV] = dim_floor_div, [DIM_MOD] = dim_mod, [DIM_MIN] = dim_min, [DIM_MAX] = dim_max};
    int64_t value = 0;
    if (dim_eval(t, d, v, &value))
        return dim_constant(t, value);
    const DimExpr *e = dim_expr(t, d);
    if (e->kind == DIM_SUM)
        return substitute_sum(t, e, v);
    if (!make[e->kind])
        return d;
    return make[e->kind](t, dim_substitute(t, e->a, v), dim_substitute(t, e->b, v));
}
