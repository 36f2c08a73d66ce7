// SPDX-License-Identifier: Apache-2.0
// Gets rid of transposes that only lead to another axis order and back: a matmul reads its operands either
// way round, and a transpose behind elementwise ops moves in front of them when it meets other transposes
// there.
#include "passes/graph/fold.h"
#include "passes/graph/simplify.h"

// --- matmul ---

// Only the last two axes change places.
static bool swaps_last(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const uint32_t rank = n->shape->rank;
    if (n->op != OP_transpose || rank < 2)
        return false;
    for (uint32_t i = 0; i + 2 < rank; i++)
        if (node_get_at(n, A_transpose_perm, i, 0) != i)
            return false;
    return node_get_at(n, A_transpose_perm, rank - 1, 0) == rank - 2;
}

NodeId simplify_matmul(const Simplify *s, NodeId id)
{
    static const AttrId transpose[2] = {A_matmul_transpose_a, A_matmul_transpose_b};
    const Node n = *graph_node(s->g, id);
    rlx_assert(n.n_src >= 2 && n.n_src <= 3);
    NodeBuild b = node_copy_begin(s->g, s->g, id);
    bool is_changed = false;
    for (uint32_t i = 0; i < 2; i++) {
        const bool swaps = swaps_last(s->g, n.src[i]);
        node_src(&b, swaps ? graph_node(s->g, n.src[i])->src[0] : n.src[i]);
        node_int(&b, transpose[i], node_get_int(&n, transpose[i]) != swaps);
        is_changed |= swaps;
    }
    if (n.n_src > 2)
        node_src(&b, n.src[2]);
    return is_changed ? node_end(&b) : id;
}

// --- through elementwise ops ---

enum { MOVE_MAX_DEPTH = 6 };

// A tree of elementwise ops that only the transpose reads, whose leaves are transposes and constants.
static bool can_move(const Simplify *s, NodeId id, uint32_t rank, uint32_t depth)
{
    const Node *n = graph_node(s->g, id);
    if (node_is_const(s->g, id) || n->shape->rank == 0)
        return true;
    if (n->shape->rank != rank)
        return false;
    if (n->op == OP_transpose)
        return true;
    if (op_info[n->op].kind != OPKIND_EW || s->uses[id] != 1 || depth == MOVE_MAX_DEPTH)
        return false;
    for (uint32_t i = 0; i < n->n_src; i++)
        if (!can_move(s, n->src[i], rank, depth + 1))
            return false;
    return true;
}

static NodeId transposed_twice(const Simplify *s, const Node *first, const int64_t *perm, uint32_t rank)
{
    int64_t both[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        both[i] = node_get_at(first, A_transpose_perm, (uint32_t)perm[i], 0);
    return graph_transpose(s->g, first->src[0], both);
}

// The transpose of a leaf; constants get all axes first, so that there is something to transpose.
static NodeId transposed(const Simplify *s, NodeId id, const int64_t *perm, uint32_t rank)
{
    const Node n = *graph_node(s->g, id);
    const Shape *shape = n.shape;
    if (n.op == OP_transpose)
        return transposed_twice(s, &n, perm, rank);
    Shape full = {.rank = rank};
    if (shape->rank == 0)
        return id;
    for (uint32_t i = 0; i < rank; i++)
        full.dim[i] = i + shape->rank < rank ? 1 : shape->dim[i + shape->rank - rank];
    const NodeId spread = node_is_const(s->g, id) ? fold_node(s->g, graph_reshape(s->g, id, &full)) : id;
    return fold_node(s->g, graph_transpose(s->g, spread, perm));
}

static NodeId move(const Simplify *s, NodeId id, const int64_t *perm, uint32_t rank)
{
    const Node n = *graph_node(s->g, id);
    NodeId src[3] = {0};
    if (op_info[n.op].kind != OPKIND_EW || n.shape->rank == 0)
        return transposed(s, id, perm, rank);
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = move(s, n.src[i], perm, rank);
    return graph_clone_node(s->g, s->g, id, src);
}

// The pad of a transpose, so that a window behind it meets the pad.
static NodeId pad_behind(const Simplify *s, NodeId id, const int64_t *perm)
{
    const Node pad = *graph_node(s->g, id);
    const uint32_t rank = pad.shape->rank;
    int64_t pads[2 * SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < 2 * rank; i++)
        pads[i] = node_get_at(&pad, A_pad_pads, (uint32_t)perm[i % rank] + i / rank * rank, 0);
    const NodeId x = graph_transpose(s->g, pad.src[0], perm);
    NodeBuild b = node_copy_begin(s->g, s->g, id);
    node_src(&b, x);
    if (pad.n_src > 1)
        node_src(&b, pad.src[1]);
    node_ints(&b, A_pad_pads, pads, 2 * rank);
    return node_end(&b);
}

NodeId simplify_transposes(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Node x = *graph_node(s->g, n.src[0]);
    const uint32_t rank = n.shape->rank;
    rlx_assert(rank == x.shape->rank);
    int64_t perm[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = node_get_at(&n, A_transpose_perm, i, 0);
    if (x.op == OP_pad && s->uses[n.src[0]] == 1 && shape_is_const(n.shape))
        return pad_behind(s, n.src[0], perm);
    if (op_info[x.op].kind != OPKIND_EW || !shape_is_const(n.shape) || shape_numel(n.shape) == 0 ||
        !can_move(s, n.src[0], rank, 0))
        return id;
    return move(s, n.src[0], perm, rank);
}

// --- parts of attention ---

NodeId simplify_turned_merge(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const uint32_t rank = n.shape->rank;
    if (n.op != OP_transpose || rank < 1 || node_get_at(&n, A_transpose_perm, rank - 1, 0) != rank - 1)
        return id;
    const Node *behind = graph_node(g, n.src[0]);
    const bool is_behind = op_is_pointwise((OpId)behind->op) && behind->n_src == 1;
    const NodeId merged = is_behind ? behind->src[0] : n.src[0];
    const Node *merge = graph_node(g, merged);
    if (merge->op != OP_attention_merge)
        return id;
    int64_t perm[SHAPE_MAX_RANK];
    rlx_assert(rank < SHAPE_MAX_RANK);
    for (uint32_t i = 0; i <= rank; i++)
        perm[i] = i < rank ? node_get_at(&n, A_transpose_perm, i, 0) : i;
    const NodeId parts = graph_transpose(g, merge->src[0], perm);
    const NodeId turned = graph_clone_with(g, merged, &parts, 1);
    return is_behind ? graph_clone_with(g, n.src[0], &turned, 1) : turned;
}
