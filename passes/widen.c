// SPDX-License-Identifier: Apache-2.0
// Takes the narrow element types (8-bit and 4-bit floats, 4-bit and 2-bit integers) out of computations: an
// op that does more than move elements gets its operands cast to a wide type, and its result is cast back.
// Kernels then only ever load, store, select and cast them, and each op rounds as it does in the evaluator.
#include "passes/bodies.h"

// Ops whose results are elements of their operands.
static const bool moves[OP_COUNT] = {
    [OP_cast] = true,   [OP_bitcast] = true, [OP_copy] = true,      [OP_gather] = true,
    [OP_concat] = true, [OP_slice] = true,   [OP_pad] = true,       [OP_reshape] = true,
    [OP_expand] = true, [OP_where] = true,   [OP_transpose] = true, [OP_update_slice] = true,
    [OP_result] = true, [OP_loop] = true, // its body is done by itself
};

static bool reads_narrow(const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 && dtype_is_narrow((DType)graph_node(g, n->src[i])->dtype))
            return true;
    return false;
}

static NodeId step_widen(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    (void)ctx;
    if (n.n_src == 0 || moves[n.op] || !reads_narrow(g, &n))
        return id;
    if (n.n_results > 1) {
        diag_error(g->diag, node_span(g, id), E0206, "%s is not supported for elements of 8 bits and fewer",
                   op_info[n.op].name);
        return 0;
    }
    NodeId *src = ARENA_ARRAY(g->arena, NodeId, n.n_src);
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] =
            n.src[i] == 0 ? 0 : graph_cast(g, n.src[i], dtype_wide((DType)graph_node(g, n.src[i])->dtype));
    const NodeId wide = graph_clone_node(g, g, id, src);
    return wide == 0 ? 0 : graph_cast(g, wide, (DType)n.dtype);
}

static bool has_narrow(const Graph *g)
{
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (dtype_is_narrow((DType)graph_node(g, id)->dtype))
            return true;
    return false;
}

bool pass_widen(Pass *p)
{
    const uint32_t errors = p->diag->n_errors;
    const bool changed = has_narrow(p->graph) && graph_rewrite(p->graph, step_widen, NULL);
    p->failed = p->diag->n_errors != errors;
    return bodies_run(p, pass_widen) || changed;
}
