// SPDX-License-Identifier: Apache-2.0
// Norms of few long rows on GPUs (GroupNorm and InstanceNorm of images), where a group of threads has a row,
// or a few that lie side by side. If that takes longer than the launches of a norm in steps, rows are cut
// into parts: means of parts and of these, the same for the squared differences, and then all elements by
// themselves. Nothing is lost to cancellation, as the mean is there before the differences are made.
#include "passes/graph/long_norms.h"
#include "ir/shape/forms.h"
#include "passes/pass.h"

enum {
    FULL_GROUPS = 2, // of each processor, that keep it busy
    SECTOR = 32,     // bytes that neighbours of a group read together
    LEAST_PART = 32, // elements of a part
    PASSES = 3,      // over a row
    LAUNCHES = 4,    // that steps have beyond that of whole rows
    AROUND = 8       // parts may be so many times as many or as few as are wanted
};
// A launch; what a group reads of its rate where neighbours in memory belong to different rows, what all
// groups read of theirs in pieces of some channels, and how much longer whole rows must take than steps.
static const double launch_us = 2, apart_share = 0.1, pieces_share = 0.25, gain = 1.3;

// By op: rules of its shape and of what is beyond the live elements, and the order of axes that it gives.
static const struct {
    const char *shape, *beyond, *layout;
} row_of[OP_COUNT] = {
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = {#shape, #beyond, #layout},
#include "ir/graph/ops.def"
};

// A norm over the axes from `axis` on, of `rows` rows.
typedef struct Norm {
    NodeId x;
    uint32_t axis;
    double epsilon;
    bool has_mean;
    int64_t rows, count;
    bool is_apart;   // neighbours in memory belong to different channels
    uint32_t first;  // axis from which on all is one axis in memory, which is cut
    int64_t columns; // rows that a group has
    int64_t channels; // of a row, where each of them has parts of its own; else 1
    int64_t parts;
} Norm;

bool op_is_norm(OpId op)
{
    const char *shape = row_of[op].shape;
    return shape != NULL && str_equal(shape, "norm");
}

static bool is_norm(const Node *n, const char *beyond)
{
    return op_is_norm((OpId)n->op) && (beyond == NULL || str_equal(row_of[n->op].beyond, beyond));
}

// Does the value come from an image with channels last, as far as reshapes and operations on elements show?
// is_split: its channels have become two axes.
static bool is_channels_last(const Graph *g, NodeId x, bool *is_split)
{
    enum { FAR = 64 };
    for (uint32_t step = 0; step < FAR; step++) {
        const Node *n = graph_node(g, x);
        const char *layout = row_of[n->op].layout;
        const AttrVal *perm = node_find_attr(n, "perm");
        if (perm != NULL)
            return perm->len >= 3 && perm->u.ints[perm->len - 1] != (int64_t)perm->len - 1;
        if (layout != NULL && str_equal(layout, "IMAGE"))
            return true;
        if (n->n_src == 0 || n->src[0] == 0)
            return false;
        const Shape *of = graph_node(g, n->src[0])->shape;
        if (!shape_is_const(of) || shape_numel(of) != shape_numel(n->shape))
            return false;
        *is_split = *is_split || of->rank != n->shape->rank;
        x = n->src[0];
    }
    return false;
}

// Few channels of a row are short pieces of memory, while those of all rows side by side are whole sectors.
static int64_t own_channels(const Shape *s, uint32_t axis, int64_t bytes)
{
    enum { LEAST_PIECE = 2 * SECTOR };
    const int64_t channels = s->dim[axis], all = axis > 0 ? s->dim[axis - 1] * channels : channels;
    return channels * bytes < LEAST_PIECE && all * bytes % SECTOR == 0 ? channels : 1;
}

static bool read_norm(const Graph *g, const Node *n, Norm *out)
{
    if (!is_norm(n, NULL))
        return false;
    const Shape *s = graph_node(g, n->src[0])->shape;
    bool is_split = false;
    if (!shape_is_const(s) || shape_numel(s) == 0 ||
        (n->dtype != DTYPE_f32 && !k_is_half(n->dtype)))
        return false;
    *out = (Norm){.x = n->src[0], .has_mean = is_norm(n, "norm")};
    out->axis = (uint32_t)node_find_attr(n, "axis")->u.i;
    out->epsilon = node_get_float(n, attr_find((OpId)n->op, "epsilon"));
    out->count = 1;
    for (uint32_t i = out->axis; i < s->rank; i++)
        out->count *= s->dim[i];
    out->rows = shape_numel(s) / out->count;
    out->is_apart = is_channels_last(g, n->src[0], &is_split);
    const bool has_channels = out->is_apart && is_split && out->axis + 1 < s->rank;
    out->first = out->axis + has_channels;
    out->channels = has_channels ? own_channels(s, out->axis, dtype_info[n->dtype].bytes) : 1;
    out->columns = out->is_apart && !is_split ? SECTOR / dtype_info[n->dtype].bytes : 1;
    return true;
}

// The divisor of the cut axis that is next to the wanted number of parts; 1: there is none near it.
static int64_t count_parts(const Graph *g, const Norm *n, const GpuMachine *m)
{
    const Shape *s = graph_node(g, n->x)->shape;
    int64_t size = 1, best = 1;
    for (uint32_t i = n->first; i < s->rank; i++)
        size *= s->dim[i];
    const int64_t bytes = dtype_info[graph_node(g, n->x)->dtype].bytes;
    const int64_t columns = n->channels > 1 ? SECTOR / bytes : n->columns;
    const int64_t most = size / LEAST_PART, results = FULL_GROUPS * m->processors * columns;
    const int64_t full = 1 + (results - 1) / (n->rows * n->channels), wanted = full < most ? full : most;
    for (int64_t d = 2; d <= most && d <= wanted * AROUND; d++) {
        const bool is_near = size % d == 0 && d * AROUND >= wanted;
        best = is_near && (best == 1 || d <= wanted || d - wanted < wanted - best) ? d : best;
    }
    return best;
}

static bool is_worth_it(const Norm *n, int dtype, const GpuMachine *m)
{
    const double kilobytes = (double)n->count * dtype_info[dtype].bytes / 1000;
    const double rate = m->copy_rate * (n->is_apart ? apart_share : 1);
    const double whole = PASSES * kilobytes * (double)n->columns / rate;
    const double all_rate = m->memory_rate * (n->first != n->axis && n->channels == 1 ? pieces_share : 1);
    const double steps = LAUNCHES * launch_us + PASSES * kilobytes * (double)n->rows / all_rate;
    return n->rows < FULL_GROUPS * m->processors * n->columns && whole > gain * steps;
}

static NodeId mean_along(Graph *g, NodeId x, const int64_t *axes, uint32_t count)
{
    NodeBuild b = node_begin(g, OP_reduce_mean, node_span(g, x), g->labels.data[x]);
    node_reduce(&b, x, axes, count, false);
    return node_end(&b);
}

// x with its rows in parts, behind some axes of one element: values of other shapes are other values, so that
// none is kept for several passes, which read x as it lies and convert it.
static NodeId in_parts(Graph *g, const Norm *n, uint32_t ahead)
{
    const Shape all = *graph_node(g, n->x)->shape;
    Shape s = {.rank = ahead};
    for (uint32_t i = 0; i < ahead; i++)
        s.dim[i] = 1;
    for (uint32_t i = 0; i < n->first; i++)
        s.dim[s.rank++] = all.dim[i];
    s.dim[s.rank++] = n->parts;
    s.dim[s.rank] = 1;
    for (uint32_t i = n->first; i < all.rank; i++)
        s.dim[s.rank] *= all.dim[i];
    s.dim[s.rank++] /= n->parts;
    return graph_cast(g, graph_reshape(g, n->x, &s), DTYPE_f32);
}

// A number of each row, in a shape of `rank` axes, of which the first `ahead` are none of the row's.
static NodeId along_rows(Graph *g, const Norm *n, NodeId of, uint32_t ahead, uint32_t rank)
{
    const Shape all = *graph_node(g, n->x)->shape;
    Shape s = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        s.dim[i] = i < ahead || i - ahead >= n->axis ? 1 : all.dim[i - ahead];
    return graph_reshape(g, of, &s);
}

// The mean of each row of what has the shape of in_parts.
static NodeId mean_of_rows(Graph *g, const Norm *n, NodeId x, uint32_t ahead)
{
    const int64_t axis = n->axis + ahead, within[] = {graph_node(g, x)->shape->rank - 1, axis};
    const int64_t behind[] = {axis, axis + 1}; // channels and their parts, or parts
    const bool has_channels = n->first != n->axis, has_own = n->channels > 1;
    return mean_along(g, mean_along(g, x, within, has_channels && !has_own ? 2 : 1), behind, has_own ? 2 : 1);
}

static NodeId mean_of_squares(Graph *g, const Norm *n, NodeId mean)
{
    enum { AHEAD = 2 };
    NodeId x = in_parts(g, n, AHEAD);
    if (mean != 0)
        x = graph_op2(g, OP_sub, x, along_rows(g, n, mean, AHEAD, graph_node(g, x)->shape->rank));
    return mean_of_rows(g, n, graph_op1(g, OP_square, x), AHEAD);
}

static NodeId cut_norm(Graph *g, const Node *node, const Norm *n)
{
    const uint32_t rank = node->shape->rank;
    const NodeId mean = n->has_mean ? mean_of_rows(g, n, in_parts(g, n, 1), 1) : 0;
    const NodeId epsilon = graph_scalar(g, DTYPE_f32, n->epsilon, node_span(g, n->x));
    const NodeId power = graph_op2(g, OP_add, mean_of_squares(g, n, mean), epsilon);
    const NodeId factor = graph_op1(g, OP_reciprocal, graph_op1(g, OP_sqrt, power));
    NodeId y = graph_cast(g, n->x, DTYPE_f32);
    if (mean != 0)
        y = graph_op2(g, OP_sub, y, along_rows(g, n, mean, 0, rank));
    y = graph_op2(g, OP_mul, y, along_rows(g, n, factor, 0, rank));
    if (node->n_src > 1 && node->src[1] != 0)
        y = graph_op2(g, OP_mul, y, graph_cast(g, node->src[1], DTYPE_f32));
    if (node->n_src > 2 && node->src[2] != 0)
        y = graph_op2(g, OP_add, y, graph_cast(g, node->src[2], DTYPE_f32));
    return graph_cast(g, y, (DType)node->dtype);
}

NodeId long_norms_cut(Graph *g, NodeId id, const GpuMachine *m)
{
    const Node node = *graph_node(g, id);
    Norm n;
    if (!read_norm(g, &node, &n) || !is_worth_it(&n, node.dtype, m))
        return id;
    n.parts = count_parts(g, &n, m);
    return n.parts == 1 || n.first + 4 > SHAPE_MAX_RANK ? id : cut_norm(g, &node, &n);
}
