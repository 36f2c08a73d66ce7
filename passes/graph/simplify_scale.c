// SPDX-License-Identifier: Apache-2.0
// See simplify_scale.h.
#include "passes/graph/simplify_scale.h"
#include "passes/graph/simplify.h"

#include <math.h>

NodeId scaled_value(const Graph *g, NodeId id, double *factor)
{
    const double least = 1.0 / 65536, most = 1; // by more, a 16-bit operand may become infinite
    const Node *n = graph_node(g, id);
    for (uint32_t i = 0; n->op == OP_mul && i < 2; i++) {
        const Node *of = graph_node(g, n->src[1 - i]);
        if (node_is_scalar_const(g, n->src[i], factor) && of->shape == n->shape && of->dtype == n->dtype &&
            fabs(*factor) >= least && fabs(*factor) <= most)
            return n->src[1 - i];
    }
    return 0;
}

// The operand of a product that is larger than its result and the other operand, only multiplied by a number,
// and has no other use: a pass over memory of its own, which takes longer than one over the other operand.
// The sums are none to be multiplied instead: they may be infinite where those of scaled operands are not.
// GPUs scale them nevertheless where types allow (group_products.c).
static uint32_t find_scaled(const Simplify *s, const Node *n, NodeId *of, double *factor)
{
    uint32_t i = 0;
    for (; i < 2; i++) {
        const Shape *shape = graph_node(s->g, n->src[i])->shape;
        *of = s->uses[n->src[i]] == 1 ? scaled_value(s->g, n->src[i], factor) : 0;
        const Shape *other = graph_node(s->g, n->src[1 - i])->shape;
        if (*of != 0 && shape_is_const(shape) && shape_is_const(other) &&
            shape_numel(shape) > shape_numel(n->shape) && shape_numel(shape) > shape_numel(other))
            break;
    }
    return i;
}

NodeId simplify_scaled_product(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    NodeId of = 0, src[3] = {n.src[0], n.src[1]};
    double factor = 1;
    rlx_assert(n.op == OP_matmul);
    if (s->caps->is_gpu || n.dtype != DTYPE_f32 || n.n_src != 2 || n.src[0] == n.src[1] ||
        !shape_is_const(n.shape))
        return id;
    const uint32_t at = find_scaled(s, &n, &of, &factor);
    if (at == 2)
        return id;
    NodeBuild b = simplify_begin(s, OP_mul, id);
    node_src(&b, n.src[1 - at]);
    node_src(&b, graph_scalar(s->g, DTYPE_f32, factor, node_span(s->g, id)));
    src[at] = of;
    src[1 - at] = node_end(&b);
    return graph_clone_node(s->g, s->g, id, src);
}
