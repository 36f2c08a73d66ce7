// SPDX-License-Identifier: Apache-2.0
// See simplify_shifts.h.
#include "passes/graph/simplify_shifts.h"

#include "ir/graph/tensor.h"

#include <string.h>

enum { WORD = 32, MOST_HALF = 61 };

// --- one shift for all channels ------------------------------------------------------------------

// An operation with a constant: the other operand; 0: it is none.
static NodeId operand_beside(const Graph *g, NodeId id, OpId op, Tensor *number)
{
    const Node *n = graph_node(g, id);
    if (n->op != op || n->dtype != DTYPE_i64)
        return 0;
    const uint32_t at = node_is_const(g, n->src[1]) ? 1 : 0;
    if (!node_is_const(g, n->src[at]) || (at == 0 && op == OP_shift_right))
        return 0;
    *number = tensor_of_const(g, n->src[at]);
    return n->src[1 - at];
}

typedef struct Scaled {
    NodeId sum; // i32
    Tensor factor, half, shift;
} Scaled;

static bool find(const Graph *g, NodeId id, Scaled *s)
{
    const NodeId moved = operand_beside(g, id, OP_shift_right, &s->shift);
    const NodeId product = moved != 0 ? operand_beside(g, moved, OP_add, &s->half) : 0;
    const NodeId wide = product != 0 ? operand_beside(g, product, OP_mul, &s->factor) : 0;
    const Node *cast = wide != 0 ? graph_node(g, wide) : NULL;
    if (cast == NULL || cast->op != OP_cast || graph_node(g, cast->src[0])->dtype != DTYPE_i32)
        return false;
    s->sum = cast->src[0];
    const int64_t n = s->shift.numel;
    return n > 0 && s->factor.numel == n && s->half.numel == n && s->factor.rank == s->shift.rank &&
           s->half.rank == s->shift.rank &&
           memcmp(s->factor.dim, s->shift.dim, s->shift.rank * sizeof *s->shift.dim) == 0 &&
           memcmp(s->half.dim, s->shift.dim, s->shift.rank * sizeof *s->shift.dim) == 0;
}

// The shift that all can have: at least a word. 0: factors become too large.
static int64_t common_shift(const Scaled *s)
{
    int64_t most = WORD;
    for (int64_t i = 0; i < s->shift.numel; i++) {
        const int64_t here = tensor_get_i64(&s->shift, i);
        if (here < 0 || here > MOST_HALF)
            return 0;
        most = here > most ? here : most;
    }
    for (int64_t i = 0; i < s->shift.numel; i++) {
        const int64_t up = most - tensor_get_i64(&s->shift, i);
        const int64_t factor = tensor_get_i64(&s->factor, i), half = tensor_get_i64(&s->half, i);
        if (up >= WORD || factor < 0 || factor > INT32_MAX >> up || half < 0 ||
            half > INT64_C(1) << MOST_HALF >> up)
            return 0;
    }
    return most;
}

// `from` times the powers of two that its shifts are below the common one; a scalar where all are equal.
static NodeId raised(Graph *g, const Scaled *s, const Tensor *from, int64_t common, Span at)
{
    int64_t *v = ARENA_ARRAY(g->arena, int64_t, from->numel);
    bool is_one = true;
    for (int64_t i = 0; i < from->numel; i++) {
        v[i] = tensor_get_i64(from, i) * (INT64_C(1) << (common - tensor_get_i64(&s->shift, i)));
        is_one = is_one && v[i] == v[0];
    }
    Shape shape = {.rank = is_one ? 0 : from->rank};
    memcpy(shape.dim, from->dim, shape.rank * sizeof *shape.dim);
    return graph_const(g, DTYPE_i64, &shape, v, type_bytes(DTYPE_i64, &shape), at);
}

static NodeId with_common_shift(Graph *g, NodeId id)
{
    const Span at = node_span(g, id);
    Scaled s;
    if (!find(g, id, &s))
        return id;
    const int64_t common = common_shift(&s);
    if (common == 0 || (s.shift.numel == 1 && tensor_get_i64(&s.shift, 0) == common))
        return id;
    const NodeId product =
        graph_op2(g, OP_mul, graph_cast(g, s.sum, DTYPE_i64), raised(g, &s, &s.factor, common, at));
    const NodeId moved = graph_op2(g, OP_add, product, raised(g, &s, &s.half, common, at));
    return graph_op2(g, OP_shift_right, moved, graph_scalar(g, DTYPE_i64, (double)common, at));
}

// --- the clamp behind it -------------------------------------------------------------------------

// cast(clamp(x >> 32 or more, a, b)): what is left of x is an i32.
static NodeId clamped_narrow(Graph *g, NodeId id)
{
    const Node cast = *graph_node(g, id);
    const Node clamp = *graph_node(g, cast.src[0]);
    double shift = 0, least = 0, most = 0;
    if (cast.op != OP_cast || clamp.op != OP_clamp || clamp.dtype != DTYPE_i64)
        return id;
    const Node *shifted = graph_node(g, clamp.src[0]);
    if (shifted->op != OP_shift_right || !node_is_scalar_const(g, shifted->src[1], &shift) || shift < WORD ||
        !node_is_scalar_const(g, clamp.src[1], &least) || !node_is_scalar_const(g, clamp.src[2], &most) ||
        least < (double)INT32_MIN || most > (double)INT32_MAX || least > most)
        return id;
    const Span at = node_span(g, id);
    const NodeId v = graph_op3(g, OP_clamp, graph_cast(g, clamp.src[0], DTYPE_i32),
                               graph_scalar(g, DTYPE_i32, least, at), graph_scalar(g, DTYPE_i32, most, at));
    return graph_cast(g, v, (DType)cast.dtype);
}

NodeId simplify_shifts(Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    if (!shape_is_const(n->shape))
        return id;
    if (n->op == OP_shift_right && n->dtype == DTYPE_i64)
        return with_common_shift(g, id);
    return n->op == OP_cast ? clamped_narrow(g, id) : id;
}
