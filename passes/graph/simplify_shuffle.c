// SPDX-License-Identifier: Apache-2.0
// Channel shuffles (a reshape of the channels to two axes, their exchange, and back) cost a pass over memory.
// A convolution reads its input channels in any order: a dense one takes other weights, a depthwise one
// shuffles its results instead (so that the next convolution can take the shuffle in), a grouped one keeps
// the order as an attribute.
#include "passes/graph/fold.h"
#include "passes/graph/simplify.h"

// Channel p of a shuffle is channel p % rows * columns + p / rows of x.
typedef struct Shuffle {
    NodeId x;
    int64_t rows, columns;
} Shuffle;

static bool is_split(const Shape *whole, const Shape *split)
{
    bool is_same = split->rank == whole->rank + 1 && split->dim[0] == whole->dim[0] &&
                   split->dim[1] * split->dim[2] == whole->dim[1];
    for (uint32_t i = 2; i < whole->rank && is_same; i++)
        is_same = split->dim[i + 1] == whole->dim[i];
    return is_same;
}

static bool read_shuffle(const Graph *g, NodeId id, Shuffle *out)
{
    const Node *last = graph_node(g, id);
    if (last->op != OP_reshape || graph_node(g, last->src[0])->op != OP_transpose)
        return false;
    const Node *swap = graph_node(g, last->src[0]), *first = graph_node(g, swap->src[0]);
    if (first->op != OP_reshape)
        return false;
    const Shape *shape = graph_node(g, first->src[0])->shape;
    if (!shape_is_const(shape) || !shape_is_const(first->shape) || shape->rank < 3 ||
        shape_numel(shape) == 0 || !shape_equal(shape, last->shape) || !is_split(shape, first->shape))
        return false;
    for (uint32_t i = 0; i < swap->shape->rank; i++)
        if (node_get_at(swap, A_transpose_perm, i, 0) != (i == 1 ? 2 : i == 2 ? 1 : i))
            return false;
    *out = (Shuffle){first->src[0], first->shape->dim[1], first->shape->dim[2]};
    return true;
}

// Axis `axis` of a value taken as [rows, columns], and these exchanged.
static NodeId exchange(const Simplify *s, NodeId id, uint32_t axis, int64_t rows, int64_t columns)
{
    const Shape shape = *graph_node(s->g, id)->shape;
    Shape split = {.rank = shape.rank + 1};
    int64_t perm[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < split.rank; i++) {
        split.dim[i] = i == axis ? rows : i == axis + 1 ? columns : shape.dim[i > axis ? i - 1 : i];
        perm[i] = i == axis ? i + 1 : i == axis + 1 ? i - 1 : i;
    }
    return graph_reshape(s->g, graph_transpose(s->g, graph_reshape(s->g, id, &split), perm), &shape);
}

// The constant with the entries along the axis where the shuffle took them from. 0: there is none, or it
// cannot be folded.
static NodeId unshuffled(const Simplify *s, const Shuffle *f, NodeId constant, uint32_t axis)
{
    const Graph *g = s->g;
    if (constant == 0)
        return 0;
    const NodeId swapped = exchange(s, constant, axis, f->columns, f->rows);
    // Folded step by step: the innermost view first.
    const NodeId transpose = graph_node(g, swapped)->src[0], split = graph_node(g, transpose)->src[0];
    NodeId at = fold_node(s->g, split);
    at = fold_node(s->g, graph_clone_node(s->g, s->g, transpose, &at));
    at = fold_node(s->g, graph_clone_node(s->g, s->g, swapped, &at));
    return node_is_const(g, at) ? at : 0;
}

static NodeId rebuilt(const Simplify *s, NodeId conv, NodeId x, NodeId w, NodeId bias, int64_t shuffle)
{
    NodeBuild b = node_copy_begin(s->g, s->g, conv);
    node_src(&b, x);
    node_src(&b, w);
    if (bias != 0)
        node_src(&b, bias);
    node_int(&b, A_conv_shuffle, shuffle);
    return node_end(&b);
}

NodeId simplify_shuffle(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const NodeId bias = n.n_src > 2 ? n.src[2] : 0;
    const int64_t group = node_get_int(&n, A_conv_group), channels = n.shape->dim[1];
    rlx_assert(group >= 1 && channels % group == 0);
    Shuffle f;
    if (node_get_int(&n, A_conv_shuffle) != 1 || !node_is_const(s->g, n.src[1]) || !shape_is_const(n.shape) ||
        shape_numel(n.shape) == 0 || !read_shuffle(s->g, n.src[0], &f) ||
        graph_node(s->g, n.src[1])->shape->rank >= SHAPE_MAX_RANK)
        return id;
    if (group != 1 && group != f.rows * f.columns)
        return rebuilt(s, id, f.x, n.src[1], bias, f.rows);
    if (group != 1 && (group != channels || (bias != 0 && !node_is_const(s->g, bias))))
        return id;
    const NodeId w = unshuffled(s, &f, n.src[1], group == 1 ? 1 : 0);
    if (w == 0 || group == 1)
        return w == 0 ? id : rebuilt(s, id, f.x, w, bias, 1);
    const NodeId new_bias = unshuffled(s, &f, bias, 0);
    if (bias != 0 && new_bias == 0)
        return id;
    return exchange(s, rebuilt(s, id, f.x, w, new_bias, 1), 1, f.rows, f.columns);
}

// The operand as it meets values in the order before the shuffle; 0: it is no constant.
static NodeId before_shuffle(const Simplify *s, const Shuffle *f, NodeId id, uint32_t rank)
{
    const Shape *shape = graph_node(s->g, id)->shape;
    if (!node_is_const(s->g, id))
        return 0;
    if (shape->rank + 1 < rank || shape->dim[shape->rank + 1 - rank] == 1)
        return id;
    return unshuffled(s, f, id, shape->rank + 1 - rank);
}

NodeId simplify_shuffled(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    rlx_assert(n.n_src <= 3);
    Shuffle f = {0};
    uint32_t at = 0;
    while (at < n.n_src && !read_shuffle(s->g, n.src[at], &f))
        at++;
    if (at == n.n_src || s->uses[n.src[at]] != 1 || n.shape->rank >= SHAPE_MAX_RANK ||
        !shape_equal(graph_node(s->g, f.x)->shape, n.shape))
        return id;
    NodeId src[3] = {0};
    for (uint32_t i = 0; i < n.n_src; i++) {
        src[i] = i == at ? f.x : before_shuffle(s, &f, n.src[i], n.shape->rank);
        if (src[i] == 0)
            return id;
    }
    return exchange(s, graph_clone_node(s->g, s->g, id, src), 1, f.rows, f.columns);
}
