// SPDX-License-Identifier: Apache-2.0
// Takes the narrow element types (8-bit and 4-bit floats, 4-bit and 2-bit integers) out of computations: an
// op that does more than move elements gets its operands cast to a wide type, and its result is cast back.
// Kernels then only ever load, store, select and cast them, and each op rounds as it does in the evaluator.
// The same is done to 16-bit floats where an op has vectors of f32 only, on targets with vectors; weights
// that have been cast are packed as what they were (halves.h).
#include "passes/graph/widen.h"
#include "passes/pass.h"

static DType operand_type(const Graph *g, const Node *n, uint32_t i)
{
    return (DType)graph_node(g, n->src[i])->dtype;
}

static bool is_half(DType t)
{
    return t == DTYPE_f16 || t == DTYPE_bf16;
}

// Keys and values of attention are read as 16-bit floats all the same: a cache is not copied.
static bool is_too_short(const Graph *g, const Node *n, uint32_t i)
{
    const OpTypes types = op_info[n->op].types;
    const bool wants_f32 = types == OPTYPES_F32 || (types == OPTYPES_F32_QUERY && i != 1 && i != 2);
    return wants_f32 && is_half(operand_type(g, n, i));
}

static bool reads_narrow(const Graph *g, const Node *n, bool has_vectors)
{
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 &&
            (dtype_is_narrow(operand_type(g, n, i)) || (has_vectors && is_too_short(g, n, i))))
            return true;
    return false;
}

static DType type_to_read(const Graph *g, const Node *n, uint32_t i)
{
    return is_too_short(g, n, i) ? DTYPE_f32 : dtype_wide(operand_type(g, n, i));
}

// The node on wide operands.
static NodeId widen(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    NodeId *src = ARENA_ARRAY(g->arena, NodeId, n.n_src);
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = n.src[i] == 0 ? 0 : graph_cast(g, n.src[i], type_to_read(g, &n, i));
    return graph_clone_node(g, g, id, src);
}

static bool widens(const Graph *g, const Node *n, bool has_vectors)
{
    return n->n_src != 0 && op_info[n->op].types != OPTYPES_MOVE && reads_narrow(g, n, has_vectors);
}

NodeId widen_node(Graph *g, const TargetCaps *caps, NodeId id)
{
    rlx_assert(id != 0 && caps != NULL);
    const Node n = *graph_node(g, id);
    if (!widens(g, &n, caps_have_vectors(caps)))
        return id;
    const NodeId wide = widen(g, id);
    return wide == 0 ? 0 : graph_cast(g, wide, (DType)n.dtype);
}

// A `result` still reads the node as it was where that has been replaced by a cast (see graph_rewrite).
static NodeId step_widen(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    NodeId wide = 0;
    const bool has_vectors = *(const bool *)ctx;
    if (node_result(&n) != 0 && widens(g, graph_node(g, n.src[0]), has_vectors)) {
        wide = widen(g, n.src[0]);
        wide = wide == 0 ? 0 : graph_result(g, wide, node_result(&n));
    } else if (widens(g, &n, has_vectors)) {
        wide = widen(g, id);
    } else {
        return id;
    }
    return wide == 0 ? 0 : graph_cast(g, wide, (DType)n.dtype);
}

static bool has_narrow(const Graph *g, bool has_vectors)
{
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (dtype_is_narrow((DType)graph_node(g, id)->dtype) ||
            (has_vectors && is_half((DType)graph_node(g, id)->dtype)))
            return true;
    return false;
}

bool pass_widen(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const uint32_t errors = p->diag->n_errors;
    bool has_vectors = caps_have_vectors(p->options->caps);
    const bool changed =
        has_narrow(p->graph, has_vectors) && graph_rewrite(p->graph, step_widen, &has_vectors);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
