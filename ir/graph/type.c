// SPDX-License-Identifier: Apache-2.0
// Shapes and types: comparing, counting, printing, and the limits that every type in a graph keeps.
#include "ir/graph/intern.h"

#include <string.h>

bool shape_equal(const Shape *a, const Shape *b)
{
    return a == b || (a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0);
}

bool shape_is_const(const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (!dim_is_const(s->dim[i]))
            return false;
    return true;
}

int64_t shape_numel(const Shape *s)
{
    rlx_assert(shape_is_const(s));
    int64_t n = 1;
    bool is_over = false;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] == 0)
            return 0;
        is_over |= __builtin_mul_overflow(n, s->dim[i], &n);
    }
    return is_over ? INT64_MAX : n;
}

uint64_t type_bytes(DType t, const Shape *s)
{
    int64_t n = shape_numel(s);
    uint64_t bytes = 0;
    rlx_assert(n >= 0);
    if (n == INT64_MAX || __builtin_mul_overflow((uint64_t)n, dtype_info[t].bytes, &bytes))
        return UINT64_MAX;
    return bytes;
}

Shape shape_of(uint32_t rank, const Dim *dims)
{
    rlx_assert(rank <= SHAPE_MAX_RANK);
    Shape s = {.rank = rank};
    if (rank)
        memcpy(s.dim, dims, rank * sizeof *dims);
    return s;
}

Shape shape_insert(const Shape *s, uint32_t axis, Dim size)
{
    rlx_assert(s->rank < SHAPE_MAX_RANK && axis <= s->rank);
    Shape out = {.rank = s->rank + 1};
    for (uint32_t i = 0; i < out.rank; i++)
        out.dim[i] = i < axis ? s->dim[i] : i == axis ? size : s->dim[i - 1];
    return out;
}

void shape_print(const DimTable *t, DType dtype, const Shape *s, Str *out)
{
    str_add(out, dtype_info[dtype].name);
    str_char(out, '[');
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i)
            str_add(out, ", ");
        dim_print(t, s->dim[i], out);
    }
    str_char(out, ']');
}

// The limit holds for the constant part of a shape too: symbols are at least 0, and 0 is not yet known.
static bool is_too_large(const Shape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!dim_is_const(s->dim[i]) || s->dim[i] == 0)
            continue;
        if (__builtin_mul_overflow(n, s->dim[i], &n) || n > DIM_MAX_VALUE)
            return true;
    }
    return false;
}

bool type_check(Graph *g, Span span, const char *what, const TensorType *t)
{
    const Shape *s = &t->shape;
    rlx_assert(t->dtype < DTYPE_COUNT && s->rank <= SHAPE_MAX_RANK);
    for (uint32_t i = 0; i < s->rank; i++) {
        if (dim_is_unknown(g->dims, s->dim[i]))
            return diag_error(g->diag, span, E0004,
                              "%s: the size of axis %u is too large or too complex to work out", what, i);
        if (dim_is_const(s->dim[i]) && s->dim[i] < 0) {
            return diag_error(g->diag, span, E0204, "%s: axis %u would have the negative size %lld", what, i,
                              (long long)s->dim[i]);
        }
    }
    if (!is_too_large(s))
        return true;
    Str text = str_new(g->arena);
    shape_print(g->dims, t->dtype, s, &text);
    return diag_error(g->diag, span, E0004, "%s: a tensor of type %s is too large: at most %lld elements",
                      what, str_text(&text), (long long)DIM_MAX_VALUE);
}
