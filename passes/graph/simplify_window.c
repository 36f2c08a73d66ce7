// SPDX-License-Identifier: Apache-2.0
// Takes wide maxima and convolutions of one tap apart, takes maxima of integers before these become floats,
// and moves a pad in front of a convolution or pool into the window's own pads, so that no padded copy of the
// value is made. The padding of a window is never read: it counts as 0 in a convolution, and as less than
// anything in a maximum.
#include "passes/graph/simplify.h"

#include <math.h>

// Values that are never below 0, so that a 0 beside them does not change their maximum.
static bool is_never_negative(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return (op_info[n->op].flags & (OPFLAG_PLUS | OPFLAG_POSITIVE)) != 0 &&
           dtype_info[n->dtype].cls == DCLASS_FLOAT;
}

static bool has_int(const Node *n, AttrId id, int64_t value)
{
    for (uint32_t i = 0; i < node_attr(n, id)->len; i++)
        if (node_get_at(n, id, i, value) != value)
            return false;
    return true;
}

// Is an element of the pad what stands for 0 in the operand of an int_conv? It is the padding of that.
static bool is_zero_point(const Graph *g, const Node *window, const Node *pad)
{
    double value = 0, zero = 0;
    const NodeId fill = pad->n_src > 1 ? pad->src[1] : 0, point = window->n_src > 3 ? window->src[3] : 0;
    return fill == point || ((fill == 0 || node_is_scalar_const(g, fill, &value)) &&
                             (point == 0 || node_is_scalar_const(g, point, &zero)) && value == zero);
}

// Would the window see the same without the elements that the pad adds?
static bool fits_window(const Graph *g, const Node *window, const Node *pad)
{
    double value = 0;
    if (window->op == OP_int_conv)
        return is_zero_point(g, window, pad);
    if (pad->n_src > 1 && pad->src[1] != 0 && !node_is_scalar_const(g, pad->src[1], &value))
        return false;
    if (window->op == OP_conv)
        return value == 0;
    if (window->op == OP_max_pool) {
        const bool is_lowest = isinf(value) && value < 0;
        const bool is_unseen = value == 0 && is_never_negative(g, pad->src[0]);
        return (is_lowest || is_unseen) && has_int(window, A_max_pool_dilations, 1) &&
               !node_get_int(window, A_max_pool_ceil_mode);
    }
    const bool counts =
        node_get_int(window, A_avg_pool_count_include_pad) || has_int(window, A_avg_pool_pads, 0);
    return value == 0 && counts && has_int(window, A_avg_pool_dilations, 1) &&
           !node_get_int(window, A_avg_pool_ceil_mode);
}

// The pads of both together, begins then ends of the spatial axes. False: the pad adds to other axes, cuts,
// or makes the padding as wide as a pool's window.
static bool add_pads(const Node *window, const Node *pad, AttrId pads, int64_t *out)
{
    const uint32_t rank = window->shape->rank, spatial = rank - 2;
    for (uint32_t i = 0; i < 2 * rank; i++) {
        const int64_t v = node_get_at(pad, A_pad_pads, i, 0);
        const uint32_t axis = i % rank, side = i / rank;
        if (axis < 2 ? v != 0 : v < 0 || v > INT32_MAX / 2)
            return false;
        if (axis >= 2)
            out[side * spatial + axis - 2] = v + node_get_at(window, pads, side * spatial + axis - 2, 0);
    }
    if (window->op == OP_conv || window->op == OP_int_conv)
        return true;
    const AttrId kernel = window->op == OP_max_pool ? A_max_pool_kernel : A_avg_pool_kernel;
    for (uint32_t i = 0; i < 2 * spatial; i++)
        if (out[i] >= node_get_at(window, kernel, i % spatial, 1))
            return false;
    return true;
}

static NodeId with_pads(const Simplify *s, NodeId id, NodeId x, AttrId pads, const int64_t *v)
{
    const Node n = *graph_node(s->g, id);
    NodeBuild b = node_copy_begin(s->g, s->g, id);
    for (uint32_t i = 0; i < n.n_src; i++)
        node_src(&b, i == 0 ? x : n.src[i]);
    node_ints(&b, pads, v, 2 * (n.shape->rank - 2));
    if (n.op == OP_avg_pool)
        node_int(&b, A_avg_pool_count_include_pad, 1);
    return node_end(&b);
}

NodeId simplify_window_pad(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Node pad = *graph_node(s->g, n.src[0]);
    rlx_assert(n.shape->rank >= 3);
    const AttrId ids = n.op == OP_conv       ? A_conv_pads
                       : n.op == OP_int_conv ? A_int_conv_pads
                       : n.op == OP_max_pool ? A_max_pool_pads
                                             : A_avg_pool_pads;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    if (pad.op != OP_pad || !str_equal(node_get_str(&pad, A_pad_mode), "constant") ||
        !shape_is_const(n.shape) || !fits_window(s->g, &n, &pad) || !add_pads(&n, &pad, ids, pads))
        return id;
    return with_pads(s, id, pad.src[0], ids, pads);
}

// --- one tap ---

// Has each channel a weight of its own, and no pixel any padding?
static bool scales_channels(const Graph *g, const Node *n)
{
    const Shape *x = graph_node(g, n->src[0])->shape, *w = graph_node(g, n->src[1])->shape;
    if (x->rank < 3 || !shape_is_const(x) || !shape_is_const(w) || !node_is_const(g, n->src[1]) ||
        shape_numel(w) != x->dim[1] || w->dim[0] != x->dim[1] ||
        node_get_int(n, A_conv_group) != x->dim[1] || node_get_int(n, A_conv_shuffle) != 1)
        return false;
    return has_int(n, A_conv_pads, 0);
}

static NodeId beside_channels(Graph *g, NodeId id, uint32_t rank)
{
    Shape s = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        s.dim[i] = i == 1 ? shape_numel(graph_node(g, id)->shape) : 1;
    return graph_reshape(g, id, &s);
}

NodeId simplify_scale_conv(const Simplify *s, NodeId id)
{
    Graph *g = s->g;
    const Node n = *graph_node(g, id);
    if (s->caps->is_gpu || s->caps->prefers_ints || n.dtype != DTYPE_f32 || !scales_channels(g, &n))
        return id;
    const Shape x = *graph_node(g, n.src[0])->shape;
    NodeId value = n.src[0];
    for (uint32_t i = 2; i < x.rank; i++) {
        const int64_t step = node_get_at(&n, A_conv_strides, i - 2, 1);
        if (step == 1)
            continue;
        NodeBuild b = node_begin(g, OP_slice, node_span(g, id), g->labels.data[id]);
        node_slice(&b, value, i, 0, x.dim[i], step);
        value = node_end(&b);
    }
    value = graph_op2(g, OP_mul, value, beside_channels(g, n.src[1], x.rank));
    const NodeId bias = n.n_src > 2 ? n.src[2] : 0;
    return bias != 0 ? graph_op2(g, OP_add, value, beside_channels(g, bias, x.rank)) : value;
}

// --- wide maxima ---

enum { POOL_PART = 5, POOL_MANY_TAPS = 25 };

typedef struct PoolParts {
    int64_t kernel[SHAPE_MAX_RANK], pads[2 * SHAPE_MAX_RANK], strides[SHAPE_MAX_RANK],
        dilations[SHAPE_MAX_RANK];
} PoolParts;

static NodeId max_pool(const Simplify *s, NodeId id, NodeId x, const PoolParts *p)
{
    const uint32_t spatial = graph_node(s->g, id)->shape->rank - 2;
    NodeBuild b = node_copy_begin(s->g, s->g, id);
    node_src(&b, x);
    node_ints(&b, A_max_pool_kernel, p->kernel, spatial);
    node_ints(&b, A_max_pool_strides, p->strides, spatial);
    node_ints(&b, A_max_pool_pads, p->pads, 2 * spatial);
    node_ints(&b, A_max_pool_dilations, p->dilations, spatial);
    return node_end(&b);
}

// Centred windows of step 1: a maximum over 5 of maxima over the rest. The parts of pools of 5, 9 and 13 over
// one value, as detectors have them, are the same nodes.
static NodeId nested_pool(const Simplify *s, NodeId id, const PoolParts *p)
{
    const Node n = *graph_node(s->g, id);
    const uint32_t spatial = n.shape->rank - 2;
    PoolParts first = *p, rest = *p;
    bool is_wide = false;
    for (uint32_t i = 0; i < spatial; i++) {
        const int64_t k = p->kernel[i];
        if (p->strides[i] != 1 || p->dilations[i] != 1 || k % 2 == 0 || p->pads[i] != k / 2 ||
            p->pads[spatial + i] != k / 2)
            return id;
        is_wide |= k > POOL_PART;
        first.kernel[i] = k > POOL_PART ? POOL_PART : k;
        rest.kernel[i] = k > POOL_PART ? k - POOL_PART + 1 : 1;
        first.pads[i] = first.pads[spatial + i] = first.kernel[i] / 2;
        rest.pads[i] = rest.pads[spatial + i] = rest.kernel[i] / 2;
    }
    return is_wide ? max_pool(s, id, max_pool(s, id, n.src[0], &rest), &first) : id;
}

// The maximum along the last axis of maxima along the others.
static NodeId separate_pool(const Simplify *s, NodeId id, const PoolParts *p)
{
    const Node n = *graph_node(s->g, id);
    const uint32_t spatial = n.shape->rank - 2, last = spatial - 1;
    PoolParts first = *p, rest = *p;
    int64_t others = 1;
    for (uint32_t i = 0; i < last; i++) {
        others *= p->kernel[i] < POOL_MANY_TAPS ? p->kernel[i] : POOL_MANY_TAPS;
        rest.kernel[i] = rest.strides[i] = rest.dilations[i] = 1;
        rest.pads[i] = rest.pads[spatial + i] = 0;
    }
    if (others == 1 || p->kernel[last] == 1 || others * p->kernel[last] < POOL_MANY_TAPS)
        return id;
    first.kernel[last] = first.strides[last] = first.dilations[last] = 1;
    first.pads[last] = first.pads[spatial + last] = 0;
    return max_pool(s, id, max_pool(s, id, n.src[0], &first), &rest);
}

// --- maxima of integers ---

static bool is_integer(DType t)
{
    return dtype_info[t].cls == DCLASS_INT || dtype_info[t].cls == DCLASS_UINT;
}

static bool has_all_values(DType wide, DType narrow)
{
    const bool has_sign = dtype_info[narrow].cls == DCLASS_INT,
               keeps_sign = dtype_info[wide].cls == DCLASS_INT;
    if (dtype_is_narrow(narrow)) // kernels only move and cast these
        return false;
    return dtype_info[wide].cls == DCLASS_FLOAT ||
           (is_integer(wide) && (keeps_sign || !has_sign) &&
            dtype_info[wide].bits >= dtype_info[narrow].bits + (keeps_sign && !has_sign));
}

// Bytes less a number in 32 bits, which cannot overflow.
static bool shifts_bytes(const Graph *g, const Node *n)
{
    double by = 0;
    if (n->op != OP_sub && n->op != OP_add)
        return false;
    const Node *x = graph_node(g, n->src[0]);
    return n->dtype == DTYPE_i32 && x->op == OP_cast && x->shape->rank == n->shape->rank &&
           dtype_info[graph_node(g, x->src[0])->dtype].bits <= 16 &&
           is_integer((DType)graph_node(g, x->src[0])->dtype) && node_is_scalar_const(g, n->src[1], &by) &&
           fabs(by) < 1 << 30;
}

// Every window has an element of the input: one without any has another result in another type.
static bool windows_have_elements(const Simplify *s, NodeId id, const PoolParts *p)
{
    const Node *n = graph_node(s->g, id);
    const Shape *in = graph_node(s->g, n->src[0])->shape;
    for (uint32_t i = 0; i + 2 < in->rank; i++) {
        const int64_t last = (n->shape->dim[i + 2] - 1) * p->strides[i] - p->pads[i];
        if (p->dilations[i] != 1 || p->pads[i] >= p->kernel[i] || last >= in->dim[i + 2])
            return false;
    }
    return true;
}

// Casts to a type that has more values, and sums with a number, keep the order of values: they come after the
// maximum, which then reads the smallest type. Rounding keeps the order as well.
static NodeId pool_of_integers(const Simplify *s, NodeId id, const PoolParts *p)
{
    const Node n = *graph_node(s->g, id), x = *graph_node(s->g, n.src[0]);
    const bool casts = x.op == OP_cast && is_integer((DType)graph_node(s->g, x.src[0])->dtype) &&
                       has_all_values((DType)x.dtype, (DType)graph_node(s->g, x.src[0])->dtype);
    if ((!casts && !shifts_bytes(s->g, &x)) || !windows_have_elements(s, id, p))
        return id;
    NodeId src[2] = {max_pool(s, id, x.src[0], p), x.n_src > 1 ? x.src[1] : 0};
    return graph_clone_node(s->g, s->g, n.src[0], src);
}

NodeId simplify_max_pool(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    rlx_assert(n.shape->rank >= 3 && n.shape->rank <= SHAPE_MAX_RANK);
    const uint32_t spatial = n.shape->rank - 2;
    PoolParts p;
    if (!shape_is_const(n.shape) || shape_numel(n.shape) == 0)
        return id;
    for (uint32_t i = 0; i < spatial; i++) {
        p.kernel[i] = node_get_at(&n, A_max_pool_kernel, i, 1);
        p.strides[i] = node_get_at(&n, A_max_pool_strides, i, 1);
        p.dilations[i] = node_get_at(&n, A_max_pool_dilations, i, 1);
        p.pads[i] = node_get_at(&n, A_max_pool_pads, i, 0);
        p.pads[spatial + i] = node_get_at(&n, A_max_pool_pads, spatial + i, 0);
    }
    const NodeId of_integers = pool_of_integers(s, id, &p);
    if (of_integers != id)
        return of_integers;
    const NodeId nested = nested_pool(s, id, &p);
    return nested != id ? nested : separate_pool(s, id, &p);
}
