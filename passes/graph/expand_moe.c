// SPDX-License-Identifier: Apache-2.0
// moe in core ops: the router's product, softmax and top_k choose experts, three grouped products compute
// them, and a weighted sum joins them.
#include "passes/graph/expand.h"

static NodeId grouped(Graph *g, NodeId id, NodeId x, NodeId w, NodeId index)
{
    NodeBuild b = expand_begin(g, OP_grouped_matmul, id);
    node_src(&b, x);
    node_src(&b, w);
    node_src(&b, index);
    node_int(&b, A_grouped_matmul_transpose_b, node_get_int(graph_node(g, id), A_moe_transpose_b));
    return node_end(&b);
}

static NodeId sum_of(Graph *g, NodeId id, NodeId x, int64_t axis, bool keeps)
{
    NodeBuild b = expand_begin(g, OP_reduce_sum, id);
    node_reduce(&b, x, &axis, 1, keeps);
    return node_end(&b);
}

// The probabilities of the chosen experts, and which they are.
static NodeId route(Graph *g, NodeId id, NodeId *index)
{
    const Node n = *graph_node(g, id);
    const Dim k = node_get_int(&n, A_moe_k);
    NodeBuild logits = expand_begin(g, OP_matmul, id);
    node_src(&logits, n.src[0]);
    node_src(&logits, n.src[1]);
    node_int(&logits, A_matmul_transpose_b, node_get_int(&n, A_moe_transpose_b));
    NodeBuild p = expand_begin(g, OP_softmax, id);
    node_src(&p, node_end(&logits));
    NodeBuild best = expand_begin(g, OP_top_k, id);
    node_src(&best, node_end(&p));
    node_ints(&best, A_top_k_k, &k, 1);
    const NodeId values = node_end(&best);
    *index = values == 0 ? 0 : graph_result(g, values, 1);
    if (values == 0 || !node_get_int(&n, A_moe_renormalise))
        return values;
    return graph_op2(g, OP_div, values, sum_of(g, id, values, graph_node(g, values)->shape->rank - 1, true));
}

NodeId expand_moe(Graph *g, NodeId id, uint32_t result)
{
    rlx_assert(graph_node(g, id)->n_src >= 5 && graph_node(g, id)->shape->rank >= 1);
    const Node n = *graph_node(g, id);
    const uint32_t rank = n.shape->rank;
    NodeId index = 0;
    (void)result;
    const NodeId shares = route(g, id, &index);
    if (shares == 0 || index == 0)
        return 0;
    const NodeId gate = graph_op1(g, OP_silu, grouped(g, id, n.src[0], n.src[2], index));
    const NodeId h = graph_op2(g, OP_mul, gate, grouped(g, id, n.src[0], n.src[3], index));
    Shape column = *graph_node(g, shares)->shape;
    column.dim[column.rank++] = 1;
    const NodeId y =
        graph_op2(g, OP_mul, grouped(g, id, h, n.src[4], index), graph_reshape(g, shares, &column));
    return sum_of(g, id, y, rank - 1, false);
}
