// SPDX-License-Identifier: Apache-2.0
// Simplifies what takes values apart and puts them together: slice, concat, gather (of blocks that are
// decoded, too), pad. All sizes must be constant.
#include "ir/shape/shape.h"
#include "ir/graph/tensor.h"
#include "passes/graph/simplify.h"

// --- what a slice selects ---

// first, first + step ... (count of them) along every axis.
typedef struct Part {
    int64_t first[SHAPE_MAX_RANK], count[SHAPE_MAX_RANK], step[SHAPE_MAX_RANK];
} Part;

static Part whole(const Shape *s)
{
    Part p = {{0}, {0}, {0}};
    for (uint32_t i = 0; i < s->rank; i++) {
        p.count[i] = s->dim[i];
        p.step[i] = 1;
    }
    return p;
}

// False when a size is not constant, or a step goes backwards.
static bool read_part(const Simplify *s, NodeId id, Part *out)
{
    const Node *n = graph_node(s->g, id);
    const Shape *x = graph_node(s->g, n->src[0])->shape;
    if (!shape_is_const(x) || !shape_is_const(n->shape))
        return false;
    *out = whole(x);
    for (uint32_t i = 0; i < node_attr(n, A_slice_axes)->len; i++) {
        const uint32_t axis = (uint32_t)node_get_at(n, A_slice_axes, i, 0);
        const SliceAxis a = {node_get_at(n, A_slice_starts, i, 0), node_get_at(n, A_slice_ends, i, 0),
                             node_get_at(n, A_slice_steps, i, 1)};
        if (a.step < 1)
            return false;
        shape_slice_range(s->g->dims, x->dim[axis], a, &out->first[axis], &out->count[axis]);
        out->step[axis] = out->count[axis] > 1 ? a.step : 1;
    }
    return true;
}

// The slice in its shortest form: only axes that it cuts, no end beyond the last element.
static NodeId build_part(const Simplify *s, NodeId x, const Part *p, NodeId like)
{
    const Shape *shape = graph_node(s->g, x)->shape;
    int64_t starts[SHAPE_MAX_RANK], ends[SHAPE_MAX_RANK], axes[SHAPE_MAX_RANK], steps[SHAPE_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (p->count[i] == shape->dim[i])
            continue;
        starts[n] = p->first[i];
        ends[n] = p->count[i] == 0 ? p->first[i] : p->first[i] + (p->count[i] - 1) * p->step[i] + 1;
        steps[n] = p->step[i];
        axes[n++] = i;
    }
    if (n == 0)
        return x;
    NodeBuild b = simplify_begin(s, OP_slice, like);
    node_src(&b, x);
    node_ints(&b, A_slice_starts, starts, n);
    node_ints(&b, A_slice_ends, ends, n);
    node_ints(&b, A_slice_axes, axes, n);
    node_ints(&b, A_slice_steps, steps, n);
    return node_end(&b);
}

static NodeId build_concat(const Simplify *s, const NodeId *src, uint32_t n, int64_t axis, NodeId like)
{
    if (n == 1)
        return src[0];
    NodeBuild b = simplify_begin(s, OP_concat, like);
    node_concat(&b, src, n, axis);
    return node_end(&b);
}

static bool cuts_only(const Part *p, const Shape *s, uint32_t axis)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (i != axis && p->count[i] != s->dim[i])
            return false;
    return p->step[axis] == 1;
}

// --- slice ---

// A slice of a concat that stays inside one of its operands, or takes several whole ones.
static NodeId slice_concat(const Simplify *s, NodeId id, Part p)
{
    const NodeId joined = graph_node(s->g, id)->src[0];
    const Node c = *graph_node(s->g, joined);
    const uint32_t axis = (uint32_t)node_get_int(&c, A_concat_axis);
    const int64_t first = p.first[axis], end = first + (p.count[axis] - 1) * p.step[axis] + 1;
    uint32_t from = c.n_src, n = 0;
    int64_t begin = 0, length = 0;
    for (uint32_t i = 0; i < c.n_src && p.count[axis] > 0; i++) {
        const int64_t size = graph_node(s->g, c.src[i])->shape->dim[axis];
        if (begin <= first && end <= begin + size) {
            p.first[axis] -= begin;
            return build_part(s, c.src[i], &p, id);
        }
        if (begin >= first && begin + size <= end && size > 0) {
            from = from == c.n_src ? i : from;
            n = i - from + 1;
            length += size;
        }
        begin += size;
    }
    if (n == 0 || length != p.count[axis] || !cuts_only(&p, c.shape, axis))
        return id;
    return build_concat(s, c.src + from, n, axis, id);
}

static NodeId slice_slice(const Simplify *s, NodeId id, Part p)
{
    const NodeId inner = graph_node(s->g, id)->src[0];
    Part q;
    if (!read_part(s, inner, &q))
        return id;
    for (uint32_t i = 0; i < graph_node(s->g, inner)->shape->rank; i++) {
        p.first[i] = q.first[i] + p.first[i] * q.step[i];
        p.step[i] *= q.step[i];
    }
    return build_part(s, graph_node(s->g, inner)->src[0], &p, id);
}

NodeId simplify_slice(const Simplify *s, NodeId id)
{
    Part p;
    if (!read_part(s, id, &p))
        return id;
    const NodeId x = graph_node(s->g, id)->src[0];
    NodeId made = id;
    if (graph_node(s->g, x)->op == OP_slice)
        made = slice_slice(s, id, p);
    else if (graph_node(s->g, x)->op == OP_concat)
        made = slice_concat(s, id, p);
    return made == id ? build_part(s, x, &p, id) : made;
}

// --- concat ---

enum { CONCAT_MAX = 255 };

typedef struct Operands {
    NodeId src[CONCAT_MAX];
    uint32_t n;
} Operands;

// Two slices of one value that follow each other along the axis are one slice.
static NodeId join_slices(const Simplify *s, NodeId a, NodeId b, uint32_t axis, NodeId like)
{
    const Node *na = graph_node(s->g, a), *nb = graph_node(s->g, b);
    Part p, q;
    if (na->op != OP_slice || nb->op != OP_slice || na->src[0] != nb->src[0] || !read_part(s, a, &p) ||
        !read_part(s, b, &q))
        return 0;
    for (uint32_t i = 0; i < na->shape->rank; i++)
        if (i != axis && (p.first[i] != q.first[i] || p.count[i] != q.count[i] || p.step[i] != q.step[i]))
            return 0;
    if (p.step[axis] != 1 || q.step[axis] != 1 || p.first[axis] + p.count[axis] != q.first[axis])
        return 0;
    p.count[axis] += q.count[axis];
    return build_part(s, na->src[0], &p, like);
}

static void push_operand(const Simplify *s, Operands *o, NodeId src, uint32_t axis, NodeId like)
{
    const NodeId joined = o->n > 0 ? join_slices(s, o->src[o->n - 1], src, axis, like) : 0;
    if (joined)
        o->src[o->n - 1] = joined;
    else
        o->src[o->n++] = src;
}

// The operands without empty ones; a concat that only this one reads is taken apart.
NodeId simplify_concat(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const uint32_t axis = (uint32_t)node_get_int(&n, A_concat_axis);
    rlx_assert(axis < n.shape->rank && n.n_src >= 1);
    Operands o = {.n = 0};
    uint32_t left = n.n_src;
    for (uint32_t i = 0; i < n.n_src; i++, left--) {
        const Node x = *graph_node(s->g, n.src[i]);
        const bool is_nested = x.op == OP_concat && s->uses[n.src[i]] == 1 &&
                               node_get_int(&x, A_concat_axis) == axis &&
                               o.n + x.n_src + left - 1 <= CONCAT_MAX;
        if (x.shape->dim[axis] == 0)
            continue;
        for (uint32_t k = 0; is_nested && k < x.n_src; k++)
            push_operand(s, &o, x.src[k], axis, id);
        if (!is_nested)
            push_operand(s, &o, n.src[i], axis, id);
    }
    return o.n == 0 ? id : build_concat(s, o.src, o.n, axis, id);
}

// --- gather ---

enum { GATHER_MAX = 1 << 16 };

// Constant indices that count up in equal steps. An index below 0 counts from the end; one outside is
// clamped.
static bool read_range(const Graph *g, NodeId indices, int64_t size, int64_t *first, int64_t *step)
{
    if (!node_is_const(g, indices) || size == 0)
        return false;
    const Tensor t = tensor_of_const(g, indices);
    if (t.numel == 0 || t.numel > GATHER_MAX)
        return false;
    int64_t last = 0;
    *step = 1;
    for (int64_t i = 0; i < t.numel; i++) {
        int64_t v = tensor_get_i64(&t, i);
        v = v < 0 ? v + size : v;
        v = v < 0 ? 0 : v >= size ? size - 1 : v;
        if (i == 0)
            *first = v;
        if (i == 1)
            *step = v - last;
        if (i > 0 && (v - last != *step || *step < 1))
            return false;
        last = v;
    }
    return true;
}

NodeId simplify_gather(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Shape x = *graph_node(s->g, n.src[0])->shape;
    const uint32_t axis = (uint32_t)node_get_int(&n, A_gather_axis);
    rlx_assert(axis < x.rank);
    int64_t first = 0, step = 0;
    if (!shape_is_const(&x) || !shape_is_const(n.shape) || shape_numel(n.shape) == 0 ||
        !read_range(s->g, n.src[1], x.dim[axis], &first, &step))
        return id;
    Part p = whole(&x);
    p.first[axis] = first;
    p.step[axis] = step;
    p.count[axis] = shape_numel(graph_node(s->g, n.src[1])->shape);
    const NodeId part = build_part(s, n.src[0], &p, id);
    return part ? graph_reshape(s->g, part, n.shape) : id;
}

// --- pad ---

// A pad that adds nothing is its operand, or the part of it that it leaves.
NodeId simplify_pad(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Shape *x = graph_node(s->g, n.src[0])->shape;
    rlx_assert(x->rank == n.shape->rank);
    if (!shape_is_const(x) || !shape_is_const(n.shape))
        return id;
    Part p = whole(x);
    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t before = node_get_at(&n, A_pad_pads, i, 0);
        if (before > 0 || node_get_at(&n, A_pad_pads, x->rank + i, 0) > 0)
            return id;
        p.first[i] = -before;
        p.count[i] = n.shape->dim[i];
    }
    return build_part(s, n.src[0], &p, id);
}

// --- blocks ---

NodeId simplify_block_decode(const Simplify *s, NodeId id)
{
    const Node *n = graph_node(s->g, id), *rows = graph_node(s->g, n->src[0]);
    if (rows->op != OP_gather || node_get_int(rows, A_gather_axis) != 0)
        return id;
    const Shape *x = graph_node(s->g, rows->src[0])->shape;
    if (x->rank != 3 || !shape_is_const(x) || x->dim[0] < 1)
        return id;
    NodeBuild b = simplify_begin(s, OP_block_gather, id);
    node_src(&b, rows->src[0]);
    node_src(&b, rows->src[1]);
    node_str(&b, A_block_gather_format, node_get_str(n, A_block_decode_format));
    return node_end(&b);
}
