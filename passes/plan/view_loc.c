// SPDX-License-Identifier: Apache-2.0
// See view_loc.h.
#include "passes/plan/view_loc.h"

void dense_strides(const Shape *s, AxisOrder order, int64_t *stride)
{
    int64_t next = 1;
    for (uint32_t i = s->rank; i-- > 0;) {
        const uint32_t axis = order == ORDER_CHANNELS_LAST && s->rank >= 3 ? (i == s->rank - 1 ? 1
                                                                              : i == 0         ? 0
                                                                                               : i + 1)
                                                                           : i;
        stride[axis] = next;
        next *= s->dim[axis] > 0 ? s->dim[axis] : 1;
    }
}

bool same_strides(const Shape *s, const int64_t *a, const int64_t *b)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] > 1 && a[i] != b[i])
            return false;
    return true;
}

bool is_dense_rows(const Shape *s, const Loc *loc)
{
    int64_t dense[SHAPE_MAX_RANK];
    dense_strides(s, ORDER_ROW_MAJOR, dense);
    return same_strides(s, loc->stride, dense);
}

static void view_of_slice(const Node *n, const Loc *src, const Shape *from, Loc *out)
{
    const AttrVal *axes = node_attr(n, A_slice_axes);
    *out = *src;
    for (uint32_t i = 0; i < axes->len; i++) {
        const uint32_t axis = (uint32_t)axes->u.ints[i];
        const int64_t step = node_get_at(n, A_slice_steps, i, 1), size = from->dim[axis];
        int64_t start = node_get_at(n, A_slice_starts, i, 0);
        start += start < 0 ? size : 0;
        const int64_t top = step > 0 ? size : size - 1;
        start = start < 0 ? 0 : start > top ? top : start;
        out->offset += start * src->stride[axis];
        out->stride[axis] = src->stride[axis] * step;
    }
}

// NumPy's rule for reshaping without a copy: runs of axes that multiply to the same size must be evenly
// spaced.
static bool view_of_reshape(const Loc *src, const Shape *from, const Shape *to, Loc *out)
{
    uint32_t axis_from[SHAPE_MAX_RANK], n = 0;
    for (uint32_t i = 0; i < from->rank; i++)
        if (from->dim[i] != 1)
            axis_from[n++] = i;
    out->buf = src->buf;
    out->offset = src->offset;
    uint32_t i = 0, j = 0;
    while (i < n && j < to->rank) {
        int64_t size_from = from->dim[axis_from[i]], size_to = to->dim[j];
        uint32_t i_end = i + 1, j_end = j + 1;
        while (size_from != size_to) {
            if (size_from < size_to) {
                if (i_end == n)
                    return false;
                size_from *= from->dim[axis_from[i_end++]];
            } else {
                if (j_end == to->rank)
                    return false;
                size_to *= to->dim[j_end++];
            }
        }
        for (uint32_t k = i; k + 1 < i_end; k++)
            if (src->stride[axis_from[k]] != src->stride[axis_from[k + 1]] * from->dim[axis_from[k + 1]])
                return false;
        int64_t next = src->stride[axis_from[i_end - 1]];
        for (uint32_t k = j_end; k-- > j;) {
            out->stride[k] = next;
            next *= to->dim[k];
        }
        i = i_end;
        j = j_end;
    }
    return true;
}

bool view_source_loc(const Graph *g, const Node *n, const Loc *want, Loc *out)
{
    *out = (Loc){.buf = want->buf, .offset = want->offset};
    if (n->op == OP_reshape) {
        dense_strides(graph_node(g, n->src[0])->shape, ORDER_ROW_MAJOR, out->stride);
        return is_dense_rows(n->shape, want);
    }
    for (uint32_t i = 0; n->op == OP_transpose && i < n->shape->rank; i++)
        out->stride[node_get_at(n, A_transpose_perm, i, 0)] = want->stride[i];
    return n->op == OP_transpose;
}

bool view_loc(const Graph *g, const Node *n, const Loc *src, Loc *out)
{
    rlx_assert((op_info[n->op].flags & OPFLAG_VIEW) != 0 && n->n_src >= 1);
    rlx_assert(n->shape->rank <= SHAPE_MAX_RANK);
    const Shape *from = graph_node(g, n->src[0])->shape;
    *out = (Loc){.buf = src->buf, .offset = src->offset};
    if (shape_numel(n->shape) == 0)
        return true;
    if (n->op == OP_slice) {
        view_of_slice(n, src, from, out);
    } else if (n->op == OP_reshape) {
        return view_of_reshape(src, from, n->shape, out);
    } else if (n->op == OP_transpose) {
        for (uint32_t i = 0; i < n->shape->rank; i++)
            out->stride[i] = src->stride[node_get_at(n, A_transpose_perm, i, 0)];
    } else {
        rlx_assert(n->op == OP_expand);
        const uint32_t lead = n->shape->rank - from->rank;
        for (uint32_t i = 0; i < from->rank; i++)
            out->stride[lead + i] = from->dim[i] == 1 && n->shape->dim[lead + i] != 1 ? 0 : src->stride[i];
    }
    return true;
}

bool view_has_channels_last(const Node *n)
{
    const int64_t rank = n->shape->rank;
    if (n->op != OP_transpose || rank < 3)
        return false;
    for (int64_t i = 0; i < rank; i++)
        if (node_get_at(n, A_transpose_perm, (uint32_t)i, 0) != (i == 0 ? 0 : i == 1 ? rank - 1 : i - 1))
            return false;
    return true;
}
