// SPDX-License-Identifier: Apache-2.0
// How the files of this room make nodes: the shorthands of graph.h with the span of the file, labels of
// layers, and an error state in place of checks.
#include "compiler/import/llm/llm_build.h"

#include <stdarg.h>

bool llm_fail(LlmBuild *b, DiagCode code, const char *fmt, ...)
{
    va_list args;
    if (b->failed)
        return false;
    b->failed = true;
    va_start(args, fmt);
    const char *why = arena_vprintf(b->arena, fmt, args);
    va_end(args);
    return diag_error(b->diag, b->source->span, code, "%s", why);
}

const char *llm_label(LlmBuild *b, const char *name)
{
    return arena_printf(b->arena, "blk.%u.%s", b->layer, name);
}

Dim llm_dim(const LlmBuild *b, NodeId x, uint32_t axis)
{
    if (b->failed)
        return 0;
    const Shape *s = graph_node(b->graph, x)->shape;
    rlx_assert(s->rank != 0 && (axis < s->rank || axis == UINT32_MAX));
    return s->dim[axis < s->rank ? axis : s->rank - 1];
}

NodeBuild llm_begin(LlmBuild *b, OpId op, const char *label)
{
    return node_begin(b->graph, op, b->source->span, label);
}

NodeId llm_end(LlmBuild *b, NodeBuild *n)
{
    const NodeId id = b->failed ? 0 : node_end(n);
    b->failed = id == 0; // node_end has reported it
    return id;
}

NodeId llm_op1(LlmBuild *b, OpId op, NodeId x)
{
    NodeBuild n = llm_begin(b, op, NULL);
    node_src(&n, x);
    return llm_end(b, &n);
}

NodeId llm_op2(LlmBuild *b, OpId op, NodeId x, NodeId y)
{
    NodeBuild n = llm_begin(b, op, NULL);
    node_src(&n, x);
    node_src(&n, y);
    return llm_end(b, &n);
}

NodeId llm_op3(LlmBuild *b, OpId op, NodeId x, NodeId y, NodeId z)
{
    NodeBuild n = llm_begin(b, op, NULL);
    node_src(&n, x);
    node_src(&n, y);
    node_src(&n, z);
    return llm_end(b, &n);
}

NodeId llm_scalar(LlmBuild *b, DType type, double v)
{
    return b->failed ? 0 : graph_scalar(b->graph, type, v, b->source->span);
}

NodeId llm_int(LlmBuild *b, int64_t v)
{
    return llm_scalar(b, DTYPE_i64, (double)v);
}

NodeId llm_number(LlmBuild *b, double v)
{
    return llm_scalar(b, DTYPE_f32, v);
}

NodeId llm_reduce(LlmBuild *b, OpId op, NodeId x, int64_t axis, bool keeps)
{
    NodeBuild n = llm_begin(b, op, NULL);
    node_reduce(&n, x, &axis, 1, keeps);
    return llm_end(b, &n);
}

NodeId llm_times(LlmBuild *b, NodeId x, double factor)
{
    if (factor == 1 || b->failed)
        return x;
    return llm_op2(b, OP_mul, x, llm_number(b, factor));
}

NodeId llm_turn(LlmBuild *b, NodeId x, const int64_t *perm)
{
    const NodeId id = b->failed ? 0 : graph_transpose(b->graph, x, perm);
    b->failed = id == 0;
    return id;
}

NodeId llm_reshape(LlmBuild *b, NodeId x, uint32_t rank, const Dim *dim)
{
    const Shape s = shape_of(rank, dim);
    const NodeId id = b->failed ? 0 : graph_reshape(b->graph, x, &s);
    b->failed = id == 0;
    return id;
}

NodeId llm_gather(LlmBuild *b, NodeId x, NodeId index)
{
    NodeBuild n = llm_begin(b, OP_gather, NULL);
    node_gather(&n, x, index, 0);
    return llm_end(b, &n);
}

NodeId llm_slice(LlmBuild *b, NodeId x, int64_t axis, int64_t from, int64_t to)
{
    NodeBuild n = llm_begin(b, OP_slice, NULL);
    node_slice(&n, x, axis, from, to, 1);
    return llm_end(b, &n);
}

NodeId llm_expand(LlmBuild *b, NodeId x, uint32_t rank, const Dim *dim)
{
    NodeBuild n = llm_begin(b, OP_expand, NULL);
    node_src(&n, x);
    node_ints(&n, A_expand_shape, dim, rank);
    return llm_end(b, &n);
}

NodeId llm_concat(LlmBuild *b, NodeId x, NodeId y, int64_t axis)
{
    NodeBuild n = llm_begin(b, OP_concat, NULL);
    node_concat(&n, (const NodeId[]){x, y}, 2, axis);
    return llm_end(b, &n);
}

NodeId llm_cast(LlmBuild *b, NodeId x, DType type)
{
    const NodeId id = b->failed ? 0 : graph_cast(b->graph, x, type);
    b->failed = id == 0;
    return id;
}

NodeId llm_f32(LlmBuild *b, NodeId x)
{
    return llm_cast(b, x, DTYPE_f32);
}

NodeId llm_input(LlmBuild *b, const char *name, uint32_t rank, const Dim *dim)
{
    const Shape s = shape_of(rank, dim);
    return graph_input(b->graph, name, DTYPE_i64, &s, b->source->span);
}

NodeId llm_cache(LlmBuild *b, const char *name, const Shape *s)
{
    const char *full = arena_printf(b->arena, "%s%u", name, b->layer);
    return b->failed ? 0 : graph_state(b->graph, full, b->cache, s, NULL, 0, b->source->span);
}

NodeId llm_cache_put(LlmBuild *b, OpId op, NodeId cache, NodeId x, NodeId y)
{
    const NodeId next = llm_op3(b, op, cache, x, y);
    if (!b->failed)
        b->graph->states.data[b->graph->states.len - 1].next = next;
    return next;
}

NodeId llm_const(LlmBuild *b, DType t, uint32_t rank, const Dim *dim, const void *data)
{
    const Shape s = shape_of(rank, dim);
    const NodeId id =
        b->failed ? 0 : graph_const(b->graph, t, &s, data, type_bytes(t, &s), b->source->span);
    b->failed = id == 0;
    return id;
}

NodeId llm_int1(LlmBuild *b, int64_t v)
{
    static const int64_t one = 1;
    return llm_const(b, DTYPE_i64, 1, &one, arena_copy(b->arena, &v, sizeof v));
}
