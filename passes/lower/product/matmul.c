// SPDX-License-Identifier: Apache-2.0
// What a matrix product is made of. See matmul.h.
#include "passes/lower/product/matmul.h"
#include "ir/shape/forms.h"
#include "passes/graph/simplify_eighths.h"
#include "passes/graph/simplify_scale.h"
#include "passes/lower/operand.h"

#include <string.h>

void matmul_set_rows(Lower *l, Matmul *x)
{
    const bool ta = matmul_form(lower_node(l, l->anchor)).turns_a;
    const Shape *as = lower_node(l, x->a)->shape;
    const uint32_t last = as->rank - 1;
    x->a_k = x->a_loc.stride[x->a_is_vector || !ta ? last : last - 1];
    x->a_row = x->a_is_vector ? 0 : x->a_loc.stride[ta ? last : last - 1];
}

// What multiplies an operand in place of a mul that is nowhere (group_join_products).
static NodeId take_scale(const Lower *l, NodeId id, double *scale)
{
    double factor = 1;
    const NodeId of = lower_is_in_body(l, id) ? scaled_value(l->g, id, &factor) : 0;
    *scale *= of != 0 ? factor : 1;
    return of != 0 ? of : id;
}

// What is read in place of a cast that is nowhere (group_join_products).
static NodeId take_cast(const Lower *l, NodeId id)
{
    const NodeId of = lower_is_in_body(l, id) ? eighths_cast_of(l->g, id) : 0;
    return of != 0 ? of : id;
}

Matmul matmul_of(Lower *l)
{
    const Node *node = lower_node(l, l->anchor);
    const bool ta = matmul_form(node).turns_a, tb = matmul_form(node).turns_b;
    Matmul x = {.a = node->src[0], .b = node->src[1], .m = 1, .n = 1, .scale = 1};
    x.a = take_cast(l, take_scale(l, x.a, &x.scale));
    x.b = take_cast(l, take_scale(l, x.b, &x.scale));
    if (lower_is_in_body(l, x.a)) { // the norm of the rows (group_join_products)
        x.norm = lower_node(l, x.a)->op == OP_rms_norm ? x.a : lower_node(l, x.a)->src[0];
        x.a = lower_node(l, x.norm)->src[0];
    }
    const Shape *as = lower_node(l, x.a)->shape, *bs = lower_node(l, x.b)->shape;
    rlx_assert(as->rank >= 1 && bs->rank >= 1);
    const Loc *bl = lower_loc(l, x.b);
    x.a_is_vector = as->rank == 1;
    x.b_is_vector = bs->rank == 1;
    const uint32_t a_k = x.a_is_vector ? 0 : ta ? as->rank - 2 : as->rank - 1;
    const uint32_t b_k = x.b_is_vector ? 0 : tb ? bs->rank - 1 : bs->rank - 2;
    x.k = as->dim[a_k];
    x.b_k = bl->stride[b_k];
    x.a_loc = *lower_loc(l, x.a);
    matmul_set_rows(l, &x);
    if (!x.a_is_vector)
        x.m = as->dim[ta ? as->rank - 1 : as->rank - 2];
    if (!x.b_is_vector) {
        const uint32_t col = tb ? bs->rank - 2 : bs->rank - 1;
        x.n = bs->dim[col];
        x.b_col = bl->stride[col];
    }
    x.batch = node->shape->rank - (x.a_is_vector ? 0u : 1u) - (x.b_is_vector ? 0u : 1u);
    rlx_assert(x.batch <= SHAPE_MAX_RANK - 2 && x.k == bs->dim[b_k]);
    x.all_batch = x.batch;
    if (node->n_src > 2 && node->src[2] != 0)
        x.k_live = operand_clamped(l, node->src[2], k_index(l->k, 0), 0, x.k);
    return x;
}

NodeId matmul_other(const Lower *l)
{
    for (uint32_t i = 0; i < l->pk->body.len; i++) {
        const NodeId id = l->pk->body.data[i];
        if (id != l->anchor && matmul_form(lower_node(l, id)).is_there)
            return id;
    }
    return 0;
}

KRef matmul_base(Lower *l, const Matmul *x, NodeId id, const Loc *loc, const Point *at)
{
    const Shape *s = lower_node(l, id)->shape;
    const uint32_t inner = s->rank == 1 ? 1 : 2;
    KRef base = k_index(l->k, 0);
    if (s->rank <= inner)
        return base;
    const uint32_t own = s->rank - inner, lead = x->all_batch - own;
    for (uint32_t i = 0; i < own && lead + i < x->batch; i++)
        if (s->dim[i] != 1)
            base = k_expr(l->k, "$ * # + $", at->idx[lead + i], loc->stride[i], base);
    return base;
}

Point matmul_point(const Matmul *x, const Point *batch, KRef row, KRef column)
{
    rlx_assert(x->batch + 2 <= SHAPE_MAX_RANK);
    Point at = *batch;
    uint32_t axis = x->batch;
    if (!x->a_is_vector)
        at.idx[axis++] = row;
    if (!x->b_is_vector)
        at.idx[axis] = column;
    at.vec_axis = axis;
    return at;
}

static void remove_axis(Domain *d, uint32_t axis)
{
    rlx_assert(axis < d->rank);
    d->rank--;
    for (uint32_t i = axis; i < d->rank; i++) {
        d->extent[i] = d->extent[i + 1];
        d->live[i] = d->live[i + 1];
    }
    for (uint32_t i = 0; i < d->access.len; i++) {
        int64_t *stride = d->access.data[i].stride;
        memmove(stride + axis, stride + axis + 1, (d->rank - axis) * sizeof *stride);
    }
}

// The last batch axis and the rows are one axis in everything that is read and written beside b.
static bool can_join_rows(const Lower *l, const Matmul *x, int64_t a_batch)
{
    const int64_t m = x->m;
    const Shape *b = lower_node(l, x->b)->shape;
    if (b->rank > 2 && shape_numel(b) != x->k * x->n)
        return false;
    if (m == 1)
        return true;
    const LiveRef *outer = &x->d.live[x->batch - 1];
    if (x->d.live[x->batch].size != 0 || (outer->size != 0 && live_times(*outer, m).size == 0))
        return false;
    for (uint32_t i = 0; i < x->d.access.len; i++) {
        const int64_t *stride = x->d.access.data[i].stride;
        if (stride[x->batch - 1] != stride[x->batch] * m)
            return false;
    }
    return a_batch == x->a_row * m;
}

// With accesses of its own: their strides change.
static Matmul copy_of(const Lower *l, const Matmul *product)
{
    Matmul x = *product;
    x.d.access.data = NULL;
    x.d.access.len = x.d.access.cap = 0;
    for (uint32_t i = 0; i < product->d.access.len; i++)
        vec_push(l->pass->scratch, &x.d.access, product->d.access.data[i]);
    return x;
}

Matmul matmul_join_rows(const Lower *l, const Matmul *product)
{
    rlx_assert(product->d.rank >= product->batch && product->batch == product->all_batch);
    const Shape *s = lower_node(l, product->a)->shape;
    Matmul own = copy_of(l, product), *x = &own;
    while (x->batch > 0 && !x->a_is_vector && !x->b_is_vector) {
        const uint32_t axis = x->batch - 1, missing = x->all_batch + 2 - s->rank;
        const int64_t extent = x->d.extent[axis];
        const int64_t a_batch =
            axis < missing || s->dim[axis - missing] == 1 ? 0 : x->a_loc.stride[axis - missing];
        if (extent > 1 && !can_join_rows(l, x, a_batch))
            break;
        if (extent > 1 && x->m == 1) {
            x->a_row = a_batch;
            remove_axis(&x->d, axis + 1);
        } else if (extent > 1) {
            x->d.live[axis + 1] = live_times(x->d.live[axis], x->m);
            remove_axis(&x->d, axis);
        } else {
            remove_axis(&x->d, axis);
        }
        x->m *= extent;
        x->d.extent[axis] = x->m;
        x->batch--;
    }
    return own;
}
