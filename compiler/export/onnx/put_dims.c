// SPDX-License-Identifier: Apache-2.0
// Sizes as values of ONNX: i64[1] and lists of them. A symbol is the size of an axis of an input, or the
// value of a node where the model computes it; sums, products and the like are nodes of their own.
#include "compiler/export/onnx/put.h"
#include "ir/graph/dim_expr.h"

// The first of these values that has the symbol as a size; NULL: none.
static Value axis_of(const Put *w, Dim d, uint32_t *axis)
{
    for (RootWalk r = {0}; graph_next_root(w->g, ROOT_INPUT | ROOT_STATE, &r);) {
        const Shape *s = graph_node(w->g, r.id)->shape;
        for (*axis = 0; *axis < s->rank; ++*axis)
            if (s->dim[*axis] == d && w->value[r.id] != NULL)
                return w->value[r.id];
    }
    return NULL;
}

static Value symbol(Put *w, Dim d)
{
    static const int64_t one[] = {1};
    uint32_t axis = 0;
    for (const Put *p = w; p != NULL; p = p->outer) {
        const Value x = axis_of(p, d, &axis);
        const GraphExtent *e = graph_find_extent(p->g, (uint32_t)dim_as_symbol(p->g->dims, d));
        if (x != NULL) {
            Onnx__NodeProto *n = put_begin(w, "Shape", &x, 1);
            put_int(w, n, "start", axis);
            put_int(w, n, "end", axis + 1);
            return put_result(w, n);
        }
        if (e != NULL && p->value[e->value] != NULL)
            return put_reshape(w, p->value[e->value], one, 1);
    }
    put_fail(w, "the size '%s' is no size of an input",
             w->g->dims->symbols.data[dim_as_symbol(w->g->dims, d)].name);
    return "";
}

static Value sum(Put *w, const DimExpr *e)
{
    Value all = NULL;
    for (uint32_t i = 0; i < e->n_terms; i++) {
        Value term = put_dim(w, e->terms[i].atom[0]);
        for (uint32_t k = 1; k < e->terms[i].n; k++)
            term = put_op2(w, "Mul", term, put_dim(w, e->terms[i].atom[k]));
        if (e->terms[i].coef != 1)
            term = put_op2(w, "Mul", term, put_list(w, &e->terms[i].coef, 1));
        all = all != NULL ? put_op2(w, "Add", all, term) : term;
    }
    rlx_assert(all != NULL);
    return e->constant != 0 ? put_op2(w, "Add", all, put_list(w, &e->constant, 1)) : all;
}

static Value expression(Put *w, Dim d)
{
    const DimExpr *e = dim_expr(w->g->dims, d);
    if (e->kind == DIM_SYMBOL)
        return symbol(w, d);
    if (e->kind == DIM_SUM)
        return sum(w, e);
    if (e->kind == DIM_UNKNOWN) {
        put_fail(w, "a size is unknown");
        return "";
    }
    const Value a = put_dim(w, e->a), b = put_dim(w, e->b);
    const Value rest = e->kind == DIM_FLOOR_DIV || e->kind == DIM_MOD ? put_op2(w, "Mod", a, b) : "";
    if (e->kind == DIM_FLOOR_DIV) // Div cuts: less the remainder, which has the divisor's sign, it is exact
        return put_op2(w, "Div", put_op2(w, "Sub", a, rest), b);
    return e->kind == DIM_MOD ? rest : put_op2(w, e->kind == DIM_MIN ? "Min" : "Max", a, b);
}

Value put_dim(Put *w, Dim d)
{
    uint64_t known = 0;
    if (dim_is_const(d))
        return put_list(w, &d, 1);
    for (const Put *p = w; p != NULL; p = p->outer)
        if (map_get(&p->made, &d, sizeof d, &known))
            return (Value)(uintptr_t)known;
    const Value v = expression(w, d);
    map_put(&w->file->scratch, &w->made, &d, sizeof d, (uint64_t)(uintptr_t)v);
    return v;
}

Value put_dims(Put *w, const Dim *d, uint64_t n)
{
    Value part[SHAPE_MAX_RANK];
    bool is_const = true;
    rlx_assert(n <= SHAPE_MAX_RANK);
    for (uint64_t i = 0; i < n; i++)
        is_const = is_const && dim_is_const(d[i]);
    if (is_const)
        return put_list(w, d, n);
    for (uint64_t i = 0; i < n; i++)
        part[i] = put_dim(w, d[i]);
    return put_concat(w, part, (uint32_t)n, 0);
}

Value put_range(Put *w, Dim size)
{
    const Value end = put_reshape(w, put_dim(w, size), NULL, 0);
    return put_op3(w, "Range", put_number(w, DTYPE_i64, 0), end, put_number(w, DTYPE_i64, 1));
}
