// SPDX-License-Identifier: Apache-2.0
// Rules of the extent pass for ops that move elements: positions that count from the end of an axis are
// worked out at run time.
#include "ir/shape/shape.h"
#include "passes/graph/extent.h"

static NodeId number(Graph *g, int64_t v)
{
    return graph_scalar(g, DTYPE_i64, (double)v, (Span){0});
}

static NodeId take(Graph *g, NodeId x, NodeId index, int64_t axis, NodeId like)
{
    NodeBuild b = node_begin(g, OP_gather, node_span(g, like), g->labels.data[like]);
    node_gather(&b, x, index, axis);
    return node_end(&b);
}

// Unsigned 64-bit numbers beyond i64 are large, not negative.
static NodeId as_index(Graph *g, NodeId index)
{
    if (graph_node(g, index)->dtype == DTYPE_u64)
        index = graph_op2(g, OP_min, index, extent_scalar(g, index, 4611686018427387904.0));
    return graph_cast(g, index, DTYPE_i64);
}

// An index into an axis of `size` elements, clamped to [-size, size) and counted from the front.
NodeId extent_gather(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const int64_t axis = node_get_int(&n, A_gather_axis);
    rlx_assert(axis >= 0 && axis < graph_node(g, n.src[0])->shape->rank);
    if (!extent_is_live(g, n.src[0], (uint32_t)axis))
        return id;
    const NodeId size = extent_size(g, graph_node(g, n.src[0])->shape->dim[axis]);
    NodeId at = as_index(g, n.src[1]);
    at = graph_op2(g, OP_max, at, graph_op1(g, OP_neg, size));
    at = graph_op2(g, OP_min, at, graph_op2(g, OP_sub, size, number(g, 1)));
    const NodeId is_negative = graph_op2(g, OP_lt, at, number(g, 0));
    at = graph_op3(g, OP_where, is_negative, graph_op2(g, OP_add, at, size), at);
    return extent_with(g, id, 1, at);
}

// --- slice ---

static NodeId slice_axis(Graph *g, NodeId x, const SliceAxis *s, int64_t axis, NodeId like)
{
    NodeBuild b = node_begin(g, OP_slice, node_span(g, like), g->labels.data[like]);
    node_slice(&b, x, axis, s->start, s->end, s->step);
    return node_end(&b);
}

NodeId extent_slice(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    NodeId x = n.src[0];
    for (uint32_t i = 0; i < node_attr(&n, A_slice_axes)->len; i++) {
        const int64_t axis = node_get_at(&n, A_slice_axes, i, 0);
        const SliceAxis s = {.start = node_get_at(&n, A_slice_starts, i, 0),
                             .end = node_get_at(&n, A_slice_ends, i, 0),
                             .step = node_get_at(&n, A_slice_steps, i, 1)};
        if (!extent_is_live(g, x, (uint32_t)axis) || (s.start >= 0 && s.step > 0)) {
            x = slice_axis(g, x, &s, axis, id);
            continue;
        }
        Dim first = 0, count = 0;
        shape_slice_range(g->dims, graph_node(g, x)->shape->dim[axis], s, &first, &count);
        const NodeId steps = graph_op2(g, OP_mul, extent_iota(g, count), number(g, s.step));
        x = take(g, x, graph_op2(g, OP_add, steps, extent_size(g, first)), axis, id);
    }
    return x;
}

// --- pad ---

// What lies behind the live elements becomes padding.
static NodeId pad_end(Graph *g, NodeId y, NodeId x, uint32_t axis, int64_t begin, NodeId value)
{
    const Shape s = *graph_node(g, y)->shape;
    const NodeId end =
        graph_op2(g, OP_add, extent_size(g, graph_node(g, x)->shape->dim[axis]), number(g, begin));
    const Shape along = {.rank = s.rank - axis, .dim = {s.dim[axis], 1, 1, 1, 1, 1, 1, 1}};
    const NodeId inside = graph_op2(g, OP_lt, extent_iota(g, s.dim[axis]), end);
    return graph_op3(g, OP_where, graph_reshape(g, inside, &along), y, value);
}

typedef struct PadAxis {
    uint32_t axis;
    int64_t begin, end;
} PadAxis;

// Where a result of a pad that repeats elements comes from: `at` counts from the first element of the axis.
static NodeId repeated(Graph *g, const char *mode, NodeId at, NodeId size)
{
    const NodeId some = graph_op2(g, OP_max, size, number(g, 1));
    const NodeId last = graph_op2(g, OP_sub, some, number(g, 1));
    if (str_equal(mode, "edge"))
        return graph_op2(g, OP_min, graph_op2(g, OP_max, at, number(g, 0)), last);
    if (str_equal(mode, "wrap"))
        return graph_op2(g, OP_mod, at, some);
    rlx_assert(str_equal(mode, "reflect"));
    const NodeId way = graph_op2(g, OP_max, graph_op2(g, OP_mul, last, number(g, 2)), number(g, 1));
    const NodeId turn = graph_op2(g, OP_mod, at, way);
    return graph_op2(g, OP_min, turn, graph_op2(g, OP_sub, way, turn));
}

// A run with fewer elements than the mode needs fails, as a model of that size is refused.
static bool check_reach(Graph *g, Dim d, const char *mode, const PadAxis *a)
{
    int64_t least = 0, most = 0;
    const int64_t more = a->begin > a->end ? a->begin : a->end;
    const int64_t need = more <= 0                 ? 0
                         : str_equal(mode, "edge") ? 1
                         : str_equal(mode, "wrap") ? more
                                                   : more + 1;
    dim_range(g->dims, d, &least, &most);
    Str name = str_new(g->arena);
    dim_print(g->dims, d, &name);
    return least >= need || graph_check_least(g, extent_size(g, d), str_text(&name), need);
}

// Pads that repeat elements: those of axes that are not live stay, the others become gathers.
static NodeId pad_repeating(Graph *g, NodeId id, const PadAxis *list, uint32_t count)
{
    const Node n = *graph_node(g, id);
    const uint32_t rank = n.shape->rank;
    const char *mode = node_get_str(&n, A_pad_mode);
    int64_t rest[2 * SHAPE_MAX_RANK];
    bool has_rest = false;
    for (uint32_t i = 0; i < 2 * rank; i++)
        rest[i] = node_get_at(&n, A_pad_pads, i, 0);
    for (uint32_t i = 0; i < count; i++)
        rest[list[i].axis] = rest[rank + list[i].axis] = 0;
    for (uint32_t i = 0; i < 2 * rank; i++)
        has_rest = has_rest || rest[i] != 0;
    NodeId y = n.src[0];
    if (has_rest) {
        NodeBuild b = node_begin(g, OP_pad, node_span(g, id), g->labels.data[id]);
        node_src(&b, y);
        node_ints(&b, A_pad_pads, rest, 2 * rank);
        node_str(&b, A_pad_mode, mode);
        y = node_end(&b);
    }
    for (uint32_t i = 0; i < count; i++) {
        const Dim d = graph_node(g, n.src[0])->shape->dim[list[i].axis];
        if (!check_reach(g, d, mode, &list[i]))
            return 0;
        const NodeId all = extent_iota(g, n.shape->dim[list[i].axis]);
        const NodeId at = graph_op2(g, OP_sub, all, number(g, list[i].begin));
        y = take(g, y, repeated(g, mode, at, extent_size(g, d)), list[i].axis, id);
    }
    return y;
}

NodeId extent_pad(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const uint32_t rank = n.shape->rank;
    rlx_assert(node_attr(&n, A_pad_pads)->len == 2 * rank);
    const bool is_constant = str_equal(node_get_str(&n, A_pad_mode), "constant");
    const NodeId value =
        n.n_src > 1 && n.src[1] ? graph_reshape(g, n.src[1], &(Shape){0}) : extent_scalar(g, id, 0);
    PadAxis list[SHAPE_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < rank; i++) {
        const PadAxis a = {i, node_get_at(&n, A_pad_pads, i, 0), node_get_at(&n, A_pad_pads, rank + i, 0)};
        if (extent_is_live(g, n.src[0], i) && (a.begin != 0 || a.end != 0))
            list[count++] = a;
    }
    if (!is_constant && count > 0)
        return pad_repeating(g, id, list, count);
    NodeId y = id;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].end > 0)
            y = pad_end(g, y, n.src[0], list[i].axis, list[i].begin, value);
    return y;
}

// --- concat ---

static NodeId start_at(Graph *g, NodeId first, uint32_t axis, uint32_t rank)
{
    NodeId entry[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        entry[i] = i == axis ? first : number(g, 0);
    return extent_list(g, entry, rank);
}

// Parts behind one with a computed size are written over what is beyond its live elements.
NodeId extent_concat(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const uint32_t axis = (uint32_t)node_get_int(&n, A_concat_axis), rank = n.shape->rank;
    rlx_assert(axis < rank);
    bool is_last = true;
    for (uint32_t i = 0; i + 1 < n.n_src; i++)
        is_last = is_last && !extent_is_live(g, n.src[i], axis);
    if (is_last)
        return id;
    NodeBuild b = node_begin(g, OP_expand, node_span(g, id), NULL);
    node_src(&b, extent_scalar(g, id, 0));
    node_ints(&b, A_expand_shape, n.shape->dim, rank);
    NodeId y = node_end(&b);
    Dim first = 0;
    for (uint32_t i = 0; i < n.n_src; i++) {
        NodeBuild put = node_begin(g, OP_update_slice, node_span(g, id), g->labels.data[id]);
        node_src(&put, y);
        node_src(&put, n.src[i]);
        node_src(&put, start_at(g, extent_size(g, first), axis, rank));
        y = node_end(&put);
        first = dim_add(g->dims, first, graph_node(g, n.src[i])->shape->dim[axis]);
    }
    return y;
}

// --- reshape ---

typedef struct Walk {
    const Shape *s;
    uint32_t at;
    Dim product;
    bool is_fixed; // all sizes of the group but the first that is not 1
} Walk;

static bool extend(Graph *g, Walk *w, bool is_first)
{
    if (w->at == w->s->rank)
        return false;
    const Dim d = w->s->dim[w->at++];
    if (is_first) {
        w->product = d;
        w->is_fixed = true;
    } else {
        w->is_fixed = w->is_fixed && (w->product == 1 || !graph_dim_is_computed(g, d));
        w->product = dim_mul(g->dims, w->product, d);
    }
    return true;
}

static int64_t largest(const Graph *g, Dim d)
{
    int64_t low = 0, high = 0;
    dim_range(g->dims, d, &low, &high);
    return high;
}

// Axes fall into groups with equal products. The order in memory is the same for all sizes if only the
// outermost axis of a group has a computed one.
static bool keeps_order(Graph *g, const Shape *from, const Shape *to)
{
    Walk a = {.s = from}, b = {.s = to};
    while (a.at < from->rank && b.at < to->rank) {
        extend(g, &a, true);
        extend(g, &b, true);
        while (a.product != b.product) {
            const bool first_is_less = largest(g, a.product) < largest(g, b.product);
            if (!extend(g, first_is_less ? &a : &b, false))
                return false;
        }
        if (!a.is_fixed || !b.is_fixed)
            return false;
    }
    bool is_done = true;
    for (; a.at < from->rank; a.at++)
        is_done = is_done && from->dim[a.at] == 1;
    for (; b.at < to->rank; b.at++)
        is_done = is_done && to->dim[b.at] == 1;
    return is_done;
}

static NodeId repack(Graph *g, NodeId like, NodeId x, const Shape *to)
{
    const Shape from = *graph_node(g, x)->shape;
    NodeBuild b = node_begin(g, OP_repack, node_span(g, like), g->labels.data[like]);
    node_src(&b, x);
    node_src(&b, extent_sizes(g, &from));
    node_src(&b, extent_sizes(g, to));
    node_ints(&b, A_repack_shape, to->dim, to->rank);
    return node_end(&b);
}

// Rows into a list, and from there into the other rows: no element has to look for its place.
static NodeId through_list(Graph *g, NodeId id, const Shape *from, const Shape *to)
{
    const Shape rows_from = extent_rows(g, from), rows_to = extent_rows(g, to);
    const Shape list = {.rank = 1, .dim = {dim_product(g->dims, from->dim, from->rank)}};
    NodeId x = graph_reshape(g, graph_node(g, id)->src[0], &rows_from);
    x = keeps_order(g, &rows_from, &list) ? graph_reshape(g, x, &list) : repack(g, id, x, &list);
    x = keeps_order(g, &list, &rows_to) ? graph_reshape(g, x, &rows_to) : repack(g, id, x, &rows_to);
    return graph_reshape(g, x, to);
}

NodeId extent_reshape(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const Shape from = *graph_node(g, n.src[0])->shape, to = *n.shape;
    rlx_assert(from.rank <= SHAPE_MAX_RANK && to.rank <= SHAPE_MAX_RANK);
    if (keeps_order(g, &from, &to))
        return id;
    if (from.rank == 0 || to.rank == 0)
        return extent_refuse(g, id, "a single element");
    return through_list(g, id, &from, &to);
}

// --- update_slice, scatter ---

// Only the live elements of the patch are written, and none beyond the live ones of operand 0, where a patch
// of its largest size has no room in it.
static NodeId cut_patch(Graph *g, NodeId id, NodeId start)
{
    const Node n = *graph_node(g, id);
    const Shape x = *graph_node(g, n.src[0])->shape, patch = *graph_node(g, n.src[1])->shape;
    NodeId size[SHAPE_MAX_RANK];
    int64_t axis[SHAPE_MAX_RANK];
    uint32_t cut = 0;
    for (uint32_t i = 0; i < patch.rank; i++) {
        int64_t least = 0, most = 0;
        dim_range(g->dims, dim_sub(g->dims, x.dim[i], patch.dim[i]), &least, &most);
        const Dim fits = least < 0 ? dim_min(g->dims, x.dim[i], patch.dim[i]) : patch.dim[i];
        if (!graph_dim_is_computed(g, fits))
            continue;
        axis[cut] = i;
        size[cut++] = extent_size(g, fits);
    }
    if (cut == 0)
        return extent_with(g, id, 2, start);
    NodeBuild b = node_begin(g, OP_update_slice, node_span(g, id), g->labels.data[id]);
    node_src(&b, n.src[0]);
    node_src(&b, n.src[1]);
    node_src(&b, start);
    node_src(&b, extent_list(g, size, cut));
    node_ints(&b, A_update_slice_axes, axis, cut);
    return node_end(&b);
}

// The start is clamped so that the patch fits into what is live.
NodeId extent_update_slice(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const Shape x = *graph_node(g, n.src[0])->shape, patch = *graph_node(g, n.src[1])->shape;
    rlx_assert(x.rank == patch.rank);
    const bool is_list = graph_node(g, n.src[2])->shape->rank == 1;
    NodeId entry[SHAPE_MAX_RANK];
    if (n.n_src > 3)
        return extent_refuse(g, id, "it has sizes of its own");
    const NodeId given = as_index(g, n.src[2]);
    for (uint32_t i = 0; i < x.rank; i++) {
        const bool is_whole = x.dim[i] == patch.dim[i];
        const NodeId at = is_list  ? graph_reshape(g, take(g, given, number(g, i), 0, id), &(Shape){0})
                          : i == 0 ? given
                                   : number(g, 0);
        const NodeId room = extent_size(g, dim_sub(g->dims, x.dim[i], patch.dim[i]));
        entry[i] =
            is_whole ? number(g, 0) : graph_op2(g, OP_max, graph_op2(g, OP_min, at, room), number(g, 0));
    }
    return cut_patch(g, id, extent_list(g, entry, x.rank));
}

// Updates that are not live, and rows beyond the live ones, are out of range.
NodeId extent_scatter(Graph *g, NodeId id)
{
    rlx_assert(graph_node(g, id)->n_src >= 3);
    const Node n = *graph_node(g, id);
    const NodeId none = number(g, DIM_MAX_VALUE);
    NodeId at = as_index(g, n.src[1]);
    if (extent_is_live(g, n.src[0], 0)) {
        const NodeId size = extent_size(g, graph_node(g, n.src[0])->shape->dim[0]);
        const NodeId is_negative = graph_op2(g, OP_lt, at, number(g, 0));
        at = graph_op3(g, OP_where, is_negative, graph_op2(g, OP_add, at, size), at);
        const NodeId inside = graph_op2(g, OP_logical_and, graph_op2(g, OP_ge, at, number(g, 0)),
                                        graph_op2(g, OP_lt, at, size));
        at = graph_op3(g, OP_where, inside, at, none);
    }
    return extent_with(g, id, 1, extent_mask(g, at, 1, (double)DIM_MAX_VALUE));
}
