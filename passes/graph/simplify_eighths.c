// SPDX-License-Identifier: Apache-2.0
// See simplify_eighths.h.
#include "passes/graph/simplify_eighths.h"

#include "ir/kernel/kernel.h"
#include "ir/shape/forms.h"
#include "passes/graph/fold.h"

enum {
    MIN_ROWS = 16, // from where on the schedules of gpu_matmul.h take a product in any case
    MIN_DEPTH = 32,
    STEP = 16, // bytes of a step of the copy engine
    MAX_RANK = 4
};

static const Node *source(const Graph *g, NodeId id, uint32_t i)
{
    return graph_node(g, graph_node(g, id)->src[i]);
}

NodeId eighths_cast_of(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return n->op == OP_cast ? n->src[0] : 0;
}

// --- operands ------------------------------------------------------------------------------------

// cast(x, f32), or that times a scale; cast 0: neither.
typedef struct Operand {
    NodeId cast, scale;
} Operand;

static bool is_cast_of_eighth(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return n->op == OP_cast && n->dtype == DTYPE_f32 && is_eighth(source(g, id, 0)->dtype);
}

static Operand operand_of(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    if (is_cast_of_eighth(g, id))
        return (Operand){.cast = id};
    for (uint32_t i = 0; n->op == OP_mul && i < 2; i++)
        if (is_cast_of_eighth(g, n->src[i]) && graph_node(g, n->src[i])->shape == n->shape)
            return (Operand){.cast = n->src[i], .scale = n->src[1 - i]};
    return (Operand){0};
}

// Is a scale the same along axis `last` - 1 - of the operand? Then sums over that axis can have it.
static bool is_even_along(const Graph *g, NodeId scale, uint32_t from_end)
{
    if (scale == 0)
        return true;
    const Shape *s = graph_node(g, scale)->shape;
    return graph_node(g, scale)->dtype == DTYPE_f32 && shape_is_const(s) &&
           (s->rank < from_end || s->dim[s->rank - from_end] == 1);
}

// --- products that become some -------------------------------------------------------------------

// Through transposes and other forms of weights.
static NodeId below_views(const Graph *g, NodeId id)
{
    while ((op_info[graph_node(g, id)->op].flags & OPFLAG_VIEW) != 0 && graph_node(g, id)->n_src == 1)
        id = graph_node(g, id)->src[0];
    return id;
}

bool eighths_find_constants(const Graph *g, NodeId id, NodeId casts[2])
{
    const Node *n = graph_node(g, id);
    if ((n->op != OP_matmul && n->op != OP_linear) || n->dtype != DTYPE_f32)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const NodeId cast = operand_of(g, below_views(g, n->src[i])).cast;
        if (cast == 0)
            return false;
        casts[i] = node_is_const(g, graph_node(g, cast)->src[0]) ? cast : 0;
    }
    return true;
}

// --- scales --------------------------------------------------------------------------------------

// The scale of b, as the result has it: its columns are the last axis.
static NodeId scale_of_columns(Graph *g, NodeId scale, bool turns)
{
    const Shape *s = graph_node(g, scale)->shape;
    if (!turns || s->rank < 2)
        return scale;
    int64_t perm[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < s->rank; i++)
        perm[i] = i;
    perm[s->rank - 2] = s->rank - 1;
    perm[s->rank - 1] = s->rank - 2;
    return graph_transpose(g, scale, perm);
}

static NodeId multiply(Graph *g, NodeId a, NodeId b)
{
    return a == 0 ? b : b == 0 ? a : graph_op2(g, OP_mul, a, b);
}

static NodeId with_scales(Graph *g, NodeId product, NodeId rows, NodeId columns)
{
    const bool are_known = rows != 0 && columns != 0 && node_is_const(g, rows) && node_is_const(g, columns) &&
                           shape_numel(graph_node(g, rows)->shape) == 1;
    if (are_known)
        return multiply(g, product, multiply(g, rows, columns));
    return multiply(g, multiply(g, product, rows), columns);
}

// As f32, but read as what holds the numbers.
static NodeId cast_of(Graph *g, NodeId x, double accuracy)
{
    const NodeId own = accuracy >= EIGHTHS_ERROR ? x : fold_node(g, graph_cast(g, x, DTYPE_f16));
    return graph_cast(g, own, DTYPE_f32);
}

// Constant weights are read along k.
static NodeId product_of(Graph *g, NodeId id, NodeId a, NodeId b)
{
    const bool turns = matmul_form(graph_node(g, id)).turns_b;
    NodeBuild build = node_copy_begin(g, g, id);
    node_src(&build, a);
    node_src(&build, b);
    if (!turns)
        node_int(&build, A_matmul_transpose_b, true);
    return node_end(&build);
}

// The matrix with k as its last axis; 0: the copy engine cannot read it so.
static NodeId along_k(Graph *g, NodeId x, bool turns)
{
    if (turns)
        return x;
    return node_is_const(g, x) && graph_node(g, x)->shape->rank == 2
               ? fold_node(g, graph_transpose(g, x, (const int64_t[]){1, 0}))
               : 0;
}

static bool has_sizes(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const Shape *a = source(g, id, 0)->shape, *b = source(g, id, 1)->shape;
    if (!shape_is_const(a) || !shape_is_const(b) || a->rank < 2 || b->rank < 2 || n->shape->rank > MAX_RANK)
        return false;
    const int64_t k = a->dim[a->rank - 1];
    return n->shape->dim[n->shape->rank - 2] >= MIN_ROWS && n->shape->dim[n->shape->rank - 1] >= MIN_ROWS &&
           k >= MIN_DEPTH && k % STEP == 0 && shape_numel(n->shape) > 0;
}

// Is it a product of two values of f32 along the last axis of a?
static bool has_form(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const MatmulForm form = matmul_form(n);
    return form.is_there && !form.turns_a && n->dtype == DTYPE_f32 && (n->n_src < 3 || n->src[2] == 0) &&
           n->src[0] != n->src[1] && has_sizes(g, id);
}

NodeId eighths_scale_last(Graph *g, NodeId id, double accuracy)
{
    if (!has_form(g, id))
        return id;
    const Node n = *graph_node(g, id);
    const bool turns = matmul_form(&n).turns_b;
    const Operand a = operand_of(g, n.src[0]), b = operand_of(g, n.src[1]);
    if (a.cast == 0 || b.cast == 0 || !is_even_along(g, a.scale, 1) ||
        !is_even_along(g, b.scale, turns ? 1 : 2))
        return id;
    const NodeId rows = graph_node(g, a.cast)->src[0];
    const NodeId columns = along_k(g, graph_node(g, b.cast)->src[0], turns);
    if (columns == 0)
        return id;
    const NodeId y = product_of(g, id, cast_of(g, rows, accuracy), cast_of(g, columns, accuracy));
    if (a.scale == 0 && b.scale == 0)
        return y;
    return with_scales(g, y, a.scale, b.scale != 0 ? scale_of_columns(g, b.scale, turns) : 0);
}

// --- products that are some ----------------------------------------------------------------------

bool eighths_are_read(const Graph *g, NodeId id, NodeId casts[2])
{
    if (!has_form(g, id) || !matmul_form(graph_node(g, id)).turns_b)
        return false;
    int type[2];
    for (uint32_t i = 0; i < 2; i++) {
        casts[i] = graph_node(g, id)->src[i];
        if (graph_node(g, casts[i])->op != OP_cast)
            return false;
        type[i] = source(g, casts[i], 0)->dtype;
    }
    return (k_is_half(type[0]) && type[0] == type[1]) || (is_eighth(type[0]) && is_eighth(type[1]));
}
