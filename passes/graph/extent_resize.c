// SPDX-License-Identifier: Apache-2.0
// The rule of the extent pass for resize. Where what each element of the result reads does not depend on the
// size, the last element repeats beyond the live ones, as it does at the end of an axis; elsewhere the
// positions are computed, and the elements gathered and blended.
#include "passes/graph/extent.h"
#include <string.h>

// Coordinates of which the attribute alone decides how far apart they are.
static bool is_free_of_sizes(const char *coord)
{
    return str_equal(coord, "half_pixel") || str_equal(coord, "asymmetric") ||
           str_equal(coord, "tf_half_pixel_for_nn");
}

// Do the sizes of the operand and the result have the same ratio whatever they are?
static bool is_in_proportion(Graph *g, Dim in, Dim out)
{
    int64_t low = 0, most_in = 0, most_out = 0;
    dim_range(g->dims, in, &low, &most_in);
    dim_range(g->dims, out, &low, &most_out);
    return dim_mul(g->dims, in, most_out) == dim_mul(g->dims, out, most_in);
}

// Nearest elements of an axis that grows are inside of what is live by themselves.
static bool stays_inside(const Node *n, Dim in, Dim out, const DimTable *t)
{
    const char *coord = node_get_str(n, A_resize_coord), *rounding = node_get_str(n, A_resize_nearest);
    int64_t low = 0, most_in = 0, most_out = 0;
    dim_range(t, in, &low, &most_in);
    dim_range(t, out, &low, &most_out);
    return str_equal(node_get_str(n, A_resize_mode), "nearest") && most_out >= most_in &&
           ((str_equal(coord, "half_pixel") && strncmp(rounding, "round", 5) == 0) ||
            (str_equal(coord, "asymmetric") && str_equal(rounding, "floor")));
}

static NodeId repeat_last(Graph *g, NodeId x, uint32_t axis)
{
    const Dim d = graph_node(g, x)->shape->dim[axis];
    const NodeId last =
        graph_op2(g, OP_sub, extent_size(g, d), graph_scalar(g, DTYPE_i64, 1, node_span(g, x)));
    NodeBuild b = node_begin(g, OP_gather, node_span(g, x), g->labels.data[x]);
    node_gather(&b, x, graph_op2(g, OP_min, extent_iota(g, d), last), axis);
    return node_end(&b);
}

// --- positions that depend on the size of the run ---
// The coordinate of element i is num / den: whole numbers, so that every target finds the same elements.

typedef struct Blend {
    const Node *node;
    uint32_t axis;
    Dim in, out;
    NodeId num, den;
} Blend;

static NodeId whole(Graph *g, double v)
{
    return graph_scalar(g, DTYPE_i64, v, (Span){0});
}

static NodeId plus(Graph *g, NodeId a, double v)
{
    return graph_op2(g, OP_add, a, whole(g, v));
}

static NodeId times(Graph *g, NodeId a, double v)
{
    return graph_op2(g, OP_mul, a, whole(g, v));
}

static bool is_coord(const Blend *b, const char *coord)
{
    return str_equal(node_get_str(b->node, A_resize_coord), coord);
}

// False: there is no rule for these coordinates.
static bool find_positions(Graph *g, Blend *b)
{
    const NodeId i = extent_iota(g, b->out), in = extent_size(g, b->in), out = extent_size(g, b->out);
    const NodeId most = graph_op2(g, OP_max, out, whole(g, 1));
    if (is_coord(b, "asymmetric")) {
        b->num = graph_op2(g, OP_mul, i, in);
        b->den = most;
        return true;
    }
    if (is_coord(b, "align_corners")) {
        b->num = graph_op2(g, OP_mul, i, plus(g, in, -1));
        b->den = graph_op2(g, OP_max, plus(g, out, -1), whole(g, 1));
        return true;
    }
    b->num = graph_op2(g, OP_mul, plus(g, times(g, i, 2), 1), in);
    b->den = times(g, most, 2);
    if (is_coord(b, "tf_half_pixel_for_nn"))
        return true;
    b->num = graph_op2(g, OP_sub, b->num, out);
    if (is_coord(b, "half_pixel") || is_coord(b, "half_pixel_symmetric"))
        return true;
    b->num = graph_op3(g, OP_where, graph_op2(g, OP_gt, out, whole(g, 1)), b->num, whole(g, 0));
    return is_coord(b, "pytorch_half_pixel");
}

// floor(num / den); no position is below -1.
static NodeId floor_of(Graph *g, NodeId num, NodeId den)
{
    return plus(g, graph_op2(g, OP_div, graph_op2(g, OP_add, num, den), den), -1);
}

// Elements of x by their positions, of which those outside are the first or the last one.
static NodeId pick(Graph *g, const Blend *b, NodeId x, NodeId at)
{
    const NodeId last = plus(g, extent_size(g, b->in), -1);
    NodeBuild build = node_begin(g, OP_gather, (Span){0}, NULL);
    node_gather(&build, x, graph_op2(g, OP_max, graph_op2(g, OP_min, at, last), whole(g, 0)), b->axis);
    return node_end(&build);
}

static NodeId pick_nearest(Graph *g, const Blend *b, NodeId x)
{
    const char *rounding = node_get_str(b->node, A_resize_nearest);
    const NodeId den = times(g, b->den, 2), num = times(g, b->num, 2);
    const NodeId half = graph_op2(g, OP_add, num, b->den);
    if (str_equal(rounding, "floor"))
        return pick(g, b, x, floor_of(g, b->num, b->den));
    if (str_equal(rounding, "ceil"))
        return pick(g, b, x, plus(g, floor_of(g, plus(g, b->num, -1), b->den), 1));
    const bool is_up = str_equal(rounding, "round_prefer_ceil");
    return pick(g, b, x, floor_of(g, is_up ? half : plus(g, half, -1), den));
}

static NodeId line(Graph *g, NodeId x, double factor, double offset)
{
    return graph_op2(g, OP_add, graph_op2(g, OP_mul, x, extent_scalar(g, x, factor)),
                     extent_scalar(g, x, offset));
}

// ((p * x + q) * x + r) * x + s
static NodeId polynomial(Graph *g, NodeId x, const double *c)
{
    NodeId y = line(g, x, c[0], c[1]);
    for (int i = 2; i < 4; i++)
        y = graph_op2(g, OP_add, graph_op2(g, OP_mul, y, x), extent_scalar(g, x, c[i]));
    return y;
}

// The weight of the element that is `tap` - 1 behind the one before the position, which is t behind that one.
static NodeId tap_weight(Graph *g, const Blend *b, NodeId t, int tap)
{
    const double a = node_get_float(b->node, A_resize_cubic_coeff);
    const double near[] = {a + 2, -(a + 3), 0, 1}, far[] = {a, -5 * a, 8 * a, -4 * a};
    if (str_equal(node_get_str(b->node, A_resize_mode), "linear"))
        return tap == 1 ? line(g, t, -1, 1) : t;
    const NodeId distance = tap < 2 ? line(g, t, 1, 1 - tap) : line(g, t, -1, tap - 1);
    return polynomial(g, distance, tap == 1 || tap == 2 ? near : far);
}

static NodeId blend(Graph *g, const Blend *b, NodeId x)
{
    const bool is_linear = str_equal(node_get_str(b->node, A_resize_mode), "linear");
    const DType type = (DType)graph_node(g, x)->dtype;
    const NodeId before = floor_of(g, b->num, b->den);
    const NodeId rest = graph_op2(g, OP_sub, b->num, graph_op2(g, OP_mul, before, b->den));
    const NodeId t = graph_op2(g, OP_div, graph_cast(g, rest, type), graph_cast(g, b->den, type));
    const Shape along = {.rank = b->node->shape->rank - b->axis, .dim = {b->out, 1, 1, 1, 1, 1, 1, 1}};
    NodeId sum = 0;
    for (int tap = is_linear ? 1 : 0; tap < (is_linear ? 3 : 4); tap++) {
        const NodeId weight = graph_reshape(g, tap_weight(g, b, t, tap), &along);
        const NodeId part = graph_op2(g, OP_mul, pick(g, b, x, plus(g, before, tap - 1)), weight);
        sum = sum ? graph_op2(g, OP_add, sum, part) : part;
    }
    return sum;
}

// One axis as a sum of elements that are gathered. 0: reported.
static NodeId resize_axis_by_data(Graph *g, NodeId id, NodeId x, uint32_t axis)
{
    const Node *n = arena_copy(g->arena, graph_node(g, id), sizeof *n);
    Blend b = {.node = n, .axis = axis, .in = graph_node(g, x)->shape->dim[axis], .out = n->shape->dim[axis]};
    if (node_get_int(n, A_resize_antialias) || node_get_int(n, A_resize_exclude_outside))
        return extent_refuse(g, id, "its filter looks at the end of the axis");
    if (!find_positions(g, &b))
        return extent_refuse(g, id, "where it reads would depend on the size");
    if (str_equal(node_get_str(n, A_resize_mode), "nearest"))
        return pick_nearest(g, &b, x);
    const DType type = (DType)n->dtype;
    if (type == DTYPE_f32 || type == DTYPE_f64)
        return blend(g, &b, x);
    return graph_cast(g, blend(g, &b, graph_cast(g, x, DTYPE_f32)), type);
}

// Does where an axis reads change with the sizes of the run?
static bool depends_on_sizes(Graph *g, const Node *n, Dim in, Dim out)
{
    return node_get_str(n, A_resize_scales)[0] == '\0' &&
           (!is_free_of_sizes(node_get_str(n, A_resize_coord)) || !is_in_proportion(g, in, out));
}

NodeId extent_resize(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    NodeId x = n.src[0];
    const Shape in = *graph_node(g, x)->shape, out = *n.shape;
    rlx_assert(in.rank == out.rank);
    bool is_done = true;
    for (uint32_t i = 0; i < in.rank && x; i++) {
        const bool is_live = graph_dim_is_computed(g, in.dim[i]) || graph_dim_is_computed(g, out.dim[i]);
        const bool by_data =
            in.dim[i] != out.dim[i] && is_live && depends_on_sizes(g, &n, in.dim[i], out.dim[i]);
        is_done = is_done && (in.dim[i] == out.dim[i] || by_data);
        if (by_data)
            x = resize_axis_by_data(g, id, x, i);
        if (by_data || in.dim[i] == out.dim[i] || !is_live)
            continue;
        if (!is_free_of_sizes(node_get_str(&n, A_resize_coord)))
            return extent_refuse(g, id, "where it reads would depend on the size");
        if (node_get_int(&n, A_resize_antialias) || node_get_int(&n, A_resize_exclude_outside))
            return extent_refuse(g, id, "its filter looks at the end of the axis");
        if (!stays_inside(&n, in.dim[i], out.dim[i], g->dims))
            x = repeat_last(g, x, i);
    }
    return is_done || x == 0 ? x : x == n.src[0] ? id : extent_with(g, id, 0, x);
}
