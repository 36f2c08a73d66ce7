// SPDX-License-Identifier: Apache-2.0
// The rule of the extent pass for resize: where each element of the result reads must not depend on the size,
// and beyond the live elements the last one repeats, as it does at the end of an axis.
#include "passes/extent.h"
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
    node_src(&b, x);
    node_src(&b, graph_op2(g, OP_min, extent_iota(g, d), last));
    node_int(&b, A_gather_axis, axis);
    return node_end(&b);
}

NodeId extent_resize(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    NodeId x = n.src[0];
    const Shape in = *graph_node(g, x)->shape, out = *n.shape;
    const bool has_scales = node_get_str(&n, A_resize_scales)[0] != '\0';
    for (uint32_t i = 0; i < in.rank; i++) {
        if (in.dim[i] == out.dim[i] ||
            (!graph_dim_is_computed(g, in.dim[i]) && !graph_dim_is_computed(g, out.dim[i])))
            continue;
        if (!is_free_of_sizes(node_get_str(&n, A_resize_coord)))
            return extent_refuse(g, id, "where it reads would depend on the size");
        if (!has_scales && !is_in_proportion(g, in.dim[i], out.dim[i]))
            return extent_refuse(g, id, "sizes without scales must be in one proportion");
        if (node_get_int(&n, A_resize_antialias) || node_get_int(&n, A_resize_exclude_outside))
            return extent_refuse(g, id, "its filter looks at the end of the axis");
        if (!stays_inside(&n, in.dim[i], out.dim[i], g->dims))
            x = repeat_last(g, x, i);
    }
    return x == n.src[0] ? id : extent_with(g, id, 0, x);
}
