// SPDX-License-Identifier: Apache-2.0
// Attention reads keys and values of 16 bits as they are: a cache that a graph widens first, also in front of
// views, is read without the copy that this would be.
#include "passes/graph/simplify.h"

enum { MAX_VIEWS = 8 };

static bool is_half(DType t)
{
    return t == DTYPE_f16 || t == DTYPE_bf16;
}

static bool is_view(OpId op)
{
    return op == OP_transpose || op == OP_reshape || op == OP_expand || op == OP_slice;
}

// The value before it became f32, behind the same views. 0: it has not been widened.
static NodeId narrow_source(const Simplify *s, NodeId id)
{
    NodeId view[MAX_VIEWS];
    uint32_t n = 0;
    while (n < MAX_VIEWS && is_view((OpId)graph_node(s->g, id)->op)) {
        view[n++] = id;
        id = graph_node(s->g, id)->src[0];
    }
    const Node *cast = graph_node(s->g, id);
    if (cast->op != OP_cast || cast->dtype != DTYPE_f32 ||
        !is_half((DType)graph_node(s->g, cast->src[0])->dtype))
        return 0;
    id = cast->src[0];
    while (n > 0)
        id = graph_clone_node(s->g, s->g, view[--n], &id);
    return id;
}

NodeId simplify_cached_attention(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    rlx_assert(n.n_src >= 3 && n.n_src <= 8);
    NodeId src[8] = {0};
    bool is_changed = false;
    if (n.dtype != DTYPE_f32)
        return id;
    for (uint32_t i = 0; i < n.n_src; i++) {
        const NodeId narrow = i == 1 || i == 2 ? narrow_source(s, n.src[i]) : 0;
        is_changed |= narrow != 0;
        src[i] = narrow != 0 ? narrow : n.src[i];
    }
    return is_changed ? graph_clone_node(s->g, s->g, id, src) : id;
}
