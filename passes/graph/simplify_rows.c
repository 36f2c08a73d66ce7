// SPDX-License-Identifier: Apache-2.0
// Products of rows of bytes are int_conv of images of one pixel, and what follows works on their rows behind
// a reshape, which would be the end of their kernel. Where kernels of the target compute what follows, it
// comes before the reshape. Apart from simplify_views.c because it is about what is joined, not about what
// goes.
#include "passes/graph/fold.h"
#include "passes/graph/simplify.h"

enum { MAX_VISITS = 64 };

// Do kernels of the target compute what follows these sums? What follows sums of bytes with a sign, where
// integers are cheap, is before the reshape already (requantise.c).
static bool is_joined(const Simplify *s, const Node *n)
{
    return n->op == OP_int_conv &&
           (!s->caps->prefers_ints || graph_node(s->g, n->src[0])->dtype != DTYPE_i8);
}

// Is it made of integer sums by pointwise ops, each in the shape of the sums? visits: that are left.
static bool follows_sums(const Simplify *s, NodeId id, const Shape *shape, uint32_t *visits)
{
    const Node *n = graph_node(s->g, id);
    if (*visits == 0 || !shape_equal(n->shape, shape))
        return false;
    --*visits;
    bool found = is_joined(s, n);
    for (uint32_t i = 0; !found && op_is_pointwise((OpId)n->op) && i < n->n_src; i++)
        found = follows_sums(s, n->src[i], shape, visits);
    return found;
}

// The images of one pixel whose rows the reshape has; 0: it is no such reshape.
static NodeId images_of(const Simplify *of, NodeId id)
{
    const Graph *g = of->g;
    const Node *n = graph_node(g, id);
    if (n->op != OP_reshape || !shape_is_const(n->shape) || n->shape->rank < 1)
        return 0;
    const Shape *s = graph_node(g, n->src[0])->shape;
    if (!shape_is_const(s) || s->rank < 3 || shape_numel(s) == 0 ||
        shape_numel(s) != s->dim[0] * s->dim[1] || n->shape->dim[n->shape->rank - 1] != s->dim[1])
        return 0;
    uint32_t visits = MAX_VISITS;
    return follows_sums(of, n->src[0], s, &visits) ? n->src[0] : 0;
}

// An operand of rows as one of images of one pixel; 0: it is none.
static NodeId as_images(const Simplify *s, NodeId id, const Shape *rows, const Shape *images)
{
    const Shape *own = graph_node(s->g, id)->shape;
    const int64_t n = shape_is_const(own) ? shape_numel(own) : 0;
    const int64_t last = own->rank > 0 ? own->dim[own->rank - 1] : 1;
    Shape to = {.rank = images->rank - 1};
    for (uint32_t i = 0; i < to.rank; i++)
        to.dim[i] = 1;
    if (shape_equal(own, rows)) {
        to = *images;
    } else if (n == 1) {
        to.rank = 0;
    } else if (n == images->dim[1] && last == n) {
        to.dim[0] = n;
    } else if (n == images->dim[0] && last == 1 && own->rank == rows->rank) {
        to = *images;
        to.dim[1] = 1;
    } else {
        return 0;
    }
    return fold_node(s->g, graph_reshape(s->g, id, &to));
}

NodeId simplify_rows(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    if ((!s->caps->has_mma && !s->caps->prefers_ints) || n.n_src < 1 || n.n_src > 3)
        return id;
    NodeId images = 0;
    for (uint32_t i = 0; i < n.n_src && images == 0; i++)
        if (shape_equal(graph_node(s->g, n.src[i])->shape, n.shape))
            images = images_of(s, n.src[i]);
    if (images == 0)
        return id;
    const Shape rows = *n.shape, shape = *graph_node(s->g, images)->shape;
    NodeId src[3] = {0};
    for (uint32_t i = 0; i < n.n_src; i++) {
        const Node *x = graph_node(s->g, n.src[i]);
        const bool is_reshape =
            x->op == OP_reshape && shape_equal(graph_node(s->g, x->src[0])->shape, &shape);
        src[i] = is_reshape ? x->src[0] : as_images(s, n.src[i], &rows, &shape);
        if (src[i] == 0)
            return id;
    }
    return graph_reshape(s->g, graph_clone_node(s->g, s->g, id, src), &rows);
}
