// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that regroup the axes of an unchanged sequence of elements: reshape, flatten, squeeze,
// unsqueeze. Separate because proving equal element counts on symbolic dims is a job of its own.
#include "ir/shape/shape_rules.h"

static Dim product(DimTable *t, const Dim *d, uint32_t n)
{
    Dim p = 1;
    for (uint32_t i = 0; i < n; i++)
        p = dim_mul(t, p, d[i]);
    return p;
}

static bool has_zero(const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] == 0)
            return true;
    return false;
}

// Element counts of constant dims below the limit; check_result of the driver has not seen `s` yet.
static bool is_small(const Shape *s)
{
    int64_t p = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        const Dim d = s->dim[i];
        if (!dim_is_const(d) || d == 0)
            continue;
        if (d < 0 || d > DIM_MAX_VALUE || p > DIM_MAX_VALUE / d)
            return false;
        p *= d;
    }
    return true;
}

// Drops dims that both have, so that [seq, 6] / [seq] needs no division of a symbolic product.
static void cancel(Shape *a, Shape *b)
{
    for (uint32_t i = 0; i < a->rank;) {
        uint32_t j = 0;
        while (j < b->rank && b->dim[j] != a->dim[i])
            j++;
        if (j == b->rank) {
            i++;
            continue;
        }
        a->dim[i] = a->dim[--a->rank];
        b->dim[j] = b->dim[--b->rank];
    }
}

// The dim that makes `known` (without it) as large as `x`.
static bool work_out(ShapeCtx *c, const Shape *x, const Shape *known, Dim *out)
{
    DimTable *t = c->g->dims;
    Shape a = *x, b = *known;
    if (has_zero(known)) {
        // Any size would do: 0 is what keeps the result the smallest.
        *out = 0;
        return has_zero(x) ||
               shape_fail(c, E0204, "no size at -1 gives %s as many elements", rule_shape_text(c, known));
    }
    cancel(&a, &b);
    const Dim rest = product(t, a.dim, a.rank), divisor = product(t, b.dim, b.rank);
    if (!dim_is_const(divisor))
        return shape_fail(c, E0204, "the size at -1 is not a dim expression: give it by name");
    const Dim left = dim_mod(t, rest, divisor);
    if (dim_is_const(left) && left != 0)
        return shape_fail(c, E0204, "no size at -1 gives %s as many elements", rule_shape_text(c, known));
    *out = dim_floor_div(t, rest, divisor);
    return true;
}

// The entries of `shape` with 0 taken from the operand. *unknown is the place of -1, or the rank.
static bool read_shape(ShapeCtx *c, Shape *out, uint32_t *unknown)
{
    const Shape *x = &c->in[0].shape;
    const AttrVal *a = shape_attr(c, A_reshape_shape);
    if (a->len > SHAPE_MAX_RANK)
        return shape_fail(c, E0203, "`shape` has %llu entries, at most %d are possible",
                          (unsigned long long)a->len, SHAPE_MAX_RANK);
    *out = shape_of((uint32_t)a->len, a->u.ints);
    *unknown = out->rank;
    for (uint32_t i = 0; i < out->rank; i++) {
        Dim *d = &out->dim[i];
        if (dim_is_const(*d) && *d < -1)
            return shape_fail(c, E0203, "`shape` has the entry %lld", (long long)*d);
        if (*d == -1 && *unknown != out->rank)
            return shape_fail(c, E0203, "`shape` has more than one -1");
        if (*d == -1)
            *unknown = i;
        else if (*d == 0 && i < x->rank)
            *d = x->dim[i];
    }
    return true;
}

static bool same_count(ShapeCtx *c, const Shape *x, const Shape *y)
{
    Shape a = *x, b = *y;
    if (has_zero(x) || has_zero(y))
        return has_zero(x) && has_zero(y);
    cancel(&a, &b);
    return product(c->g->dims, a.dim, a.rank) == product(c->g->dims, b.dim, b.rank);
}

// An operand without elements may also be reshaped to the literal entries: a 0 then is a size and copies
// nothing.
static bool literal_fits(ShapeCtx *c, Shape *out)
{
    const AttrVal *a = shape_attr(c, A_reshape_shape);
    const Shape literal = shape_of((uint32_t)a->len, a->u.ints);
    if (!has_zero(&c->in[0].shape) || !has_zero(&literal))
        return false;
    *out = literal;
    return true;
}

bool shape_reshape(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    Shape out = {.rank = 0};
    uint32_t unknown = 0;
    if (!read_shape(c, &out, &unknown))
        return false;
    if (unknown < out.rank) {
        Shape known = {.rank = 0};
        for (uint32_t i = 0; i < out.rank; i++)
            if (i != unknown)
                known.dim[known.rank++] = out.dim[i];
        if (!is_small(&known))
            return shape_fail(c, E0004, "%s has too many elements", rule_shape_text(c, &known));
        if (!work_out(c, x, &known, &out.dim[unknown]))
            return false;
    } else {
        if (!is_small(&out))
            return shape_fail(c, E0004, "%s has too many elements", rule_shape_text(c, &out));
        if (!same_count(c, x, &out) && !literal_fits(c, &out))
            return shape_fail(c, E0204, "%s has another number of elements", rule_shape_text(c, &out));
    }
    // With a 0 inside, the entries would be read as copies the next time. A worked-out size such as floor(n /
    // 4) has as many elements only if n is a multiple of 4: then -1 must stay to say that it was worked out.
    if (!has_zero(&out) && same_count(c, x, &out))
        rule_set_ints(c, A_reshape_shape, out.dim, out.rank);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// Axis may be the rank: then the second dim is 1.
bool shape_flatten(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    AttrVal *a = shape_attr(c, A_flatten_axis);
    if (a->u.i < -(int64_t)x->rank || a->u.i > (int64_t)x->rank)
        return shape_fail(c, E0203, "`axis` has the axis %lld, but the rank is %u", (long long)a->u.i,
                          x->rank);
    a->u.i = a->u.i < 0 ? a->u.i + (int64_t)x->rank : a->u.i;
    const uint32_t axis = (uint32_t)a->u.i;
    const Dim dims[2] = {product(c->g->dims, x->dim, axis),
                         product(c->g->dims, x->dim + axis, x->rank - axis)};
    const Shape out = shape_of(2, dims);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// A symbolic size that can be 1 is taken to be 1; binding its symbols and evaluating check that.
bool shape_squeeze(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    uint32_t mask = 0;
    if (!rule_axes(c, A_squeeze_axes, x->rank, &mask))
        return false;
    if (shape_attr(c, A_squeeze_axes)->len == 0) {
        int64_t ones[SHAPE_MAX_RANK];
        uint32_t n = 0;
        for (uint32_t i = 0; i < x->rank; i++)
            if (x->dim[i] == 1)
                ones[n++] = i;
        rule_set_ints(c, A_squeeze_axes, ones, n);
        for (uint32_t i = 0; i < n; i++)
            mask |= 1u << ones[i];
    }
    Shape out = {.rank = 0};
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t lo, hi;
        dim_range(c->g->dims, x->dim[i], &lo, &hi);
        if (!(mask >> i & 1))
            out.dim[out.rank++] = x->dim[i];
        else if (lo > 1 || hi < 1)
            return shape_fail(c, E0204, "axis %u has the size %s, not 1", i, rule_dim_text(c, x->dim[i]));
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_unsqueeze(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    const AttrVal *axes = shape_attr(c, A_unsqueeze_axes);
    if (axes->len > SHAPE_MAX_RANK - x->rank)
        return shape_fail(c, E0203, "the result would have more than %d axes", SHAPE_MAX_RANK);
    Shape out = {.rank = x->rank + (uint32_t)axes->len};
    uint32_t mask = 0, next = 0;
    if (!rule_axes(c, A_unsqueeze_axes, out.rank, &mask))
        return false;
    for (uint32_t i = 0; i < out.rank; i++)
        out.dim[i] = mask >> i & 1 ? 1 : x->dim[next++];
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}
