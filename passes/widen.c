// SPDX-License-Identifier: Apache-2.0
// Takes the narrow element types (8-bit and 4-bit floats, 4-bit and 2-bit integers) out of computations: an
// op that does more than move elements gets its operands cast to a wide type, and its result is cast back.
// Kernels then only ever load, store, select and cast them, and each op rounds as it does in the evaluator.
#include "passes/bodies.h"

// Ops whose results are elements of their operands.
static const bool moves[OP_COUNT] = {
    [OP_cast] = true,    [OP_bitcast] = true, [OP_copy] = true,      [OP_gather] = true,
    [OP_concat] = true,  [OP_slice] = true,   [OP_pad] = true,       [OP_reshape] = true,
    [OP_expand] = true,  [OP_where] = true,   [OP_transpose] = true, [OP_update_slice] = true,
    [OP_scatter] = true, // casts each time that it joins
    [OP_loop] = true,    // its body is done by itself
};

static bool reads_narrow(const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 && dtype_is_narrow((DType)graph_node(g, n->src[i])->dtype))
            return true;
    return false;
}

// The node on wide operands.
static NodeId widen(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    NodeId *src = ARENA_ARRAY(g->arena, NodeId, n.n_src);
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] =
            n.src[i] == 0 ? 0 : graph_cast(g, n.src[i], dtype_wide((DType)graph_node(g, n.src[i])->dtype));
    return graph_clone_node(g, g, id, src);
}

static bool widens(const Graph *g, const Node *n)
{
    return n->n_src != 0 && n->op != OP_result && !moves[n->op] && reads_narrow(g, n);
}

// A `result` still reads the node as it was where that has been replaced by a cast (see graph_rewrite).
static NodeId step_widen(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    NodeId wide = 0;
    (void)ctx;
    if (n.op == OP_result && widens(g, graph_node(g, n.src[0]))) {
        wide = widen(g, n.src[0]);
        wide = wide == 0 ? 0 : graph_result(g, wide, (uint32_t)node_get_int(&n, A_result_index));
    } else if (widens(g, &n)) {
        wide = widen(g, id);
    } else {
        return id;
    }
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
