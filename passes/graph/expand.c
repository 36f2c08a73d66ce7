// SPDX-License-Identifier: Apache-2.0
// Rewrites convenience ops into core ops: expand_NAME for every SUGAR row of ops.def, found by name.
#include "passes/graph/expand.h"
#include "passes/graph/bodies.h"

typedef NodeId (*ExpandFn)(Graph *g, NodeId id, uint32_t result);

static const ExpandFn expand_fns[OP_COUNT] = {
#define SUGAR(name, ...) [OP_##name] = expand_##name,
#include "ir/graph/ops.def"
};

NodeBuild expand_begin(Graph *g, OpId op, NodeId like)
{
    return node_begin(g, op, node_span(g, like), g->labels.data[like]);
}

// --- shapes --------------------------------------------------------------------------------------

static NodeId reshaped(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    return graph_reshape(g, n.src[0], n.shape);
}

NodeId expand_squeeze(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return reshaped(g, id);
}

NodeId expand_unsqueeze(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return reshaped(g, id);
}

NodeId expand_flatten(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return reshaped(g, id);
}

NodeId expand_split(Graph *g, NodeId id, uint32_t result)
{
    rlx_assert(result < node_attr(graph_node(g, id), A_split_sizes)->len);
    const Node n = *graph_node(g, id);
    const int64_t axis = node_get_int(&n, A_split_axis);
    int64_t start = 0;
    for (uint32_t i = 0; i < result; i++)
        start += node_get_at(&n, A_split_sizes, i, 0);
    const int64_t end = start + node_get_at(&n, A_split_sizes, result, 0);
    rlx_assert(start >= 0 && start <= end);
    NodeBuild b = expand_begin(g, OP_slice, id);
    node_slice(&b, n.src[0], axis, start, end, 1);
    return node_end(&b);
}

// --- arithmetic ----------------------------------------------------------------------------------

// A per-channel vector [C] as [C, 1, 1 ...], so that it broadcasts along axis 1 of a value of that rank.
static NodeId as_channels(Graph *g, NodeId id, uint32_t rank)
{
    Shape s = {.rank = rank > 2 ? rank - 1 : 1};
    s.dim[0] = graph_node(g, id)->shape->dim[0];
    for (uint32_t i = 1; i < s.rank; i++)
        s.dim[i] = 1;
    return graph_reshape(g, id, &s);
}

// x * k + (bias - mean * k) with k = scale / sqrt(variance + epsilon); k and the offset fold when the
// statistics are constant.
NodeId expand_batch_norm(Graph *g, NodeId id, uint32_t result)
{
    rlx_assert(graph_node(g, id)->n_src == 5 && graph_node(g, id)->shape->rank >= 2);
    const Node n = *graph_node(g, id);
    (void)result;
    const NodeId x = n.src[0], scale = n.src[1], bias = n.src[2], mean = n.src[3], variance = n.src[4];
    const DType t = (DType)graph_node(g, variance)->dtype;
    const NodeId eps = graph_scalar(g, t, node_get_float(&n, A_batch_norm_epsilon), node_span(g, id));
    const NodeId root = graph_op1(g, OP_sqrt, graph_op2(g, OP_add, variance, eps));
    const NodeId k = graph_op2(g, OP_div, scale, root);
    const NodeId offset = graph_op2(g, OP_sub, bias, graph_op2(g, OP_mul, mean, k));
    const NodeId scaled = graph_op2(g, OP_mul, x, as_channels(g, k, n.shape->rank));
    return graph_op2(g, OP_add, scaled, as_channels(g, offset, n.shape->rank));
}

NodeId expand_linear(Graph *g, NodeId id, uint32_t result)
{
    rlx_assert(graph_node(g, id)->n_src >= 2);
    const Node n = *graph_node(g, id);
    (void)result;
    NodeBuild b = expand_begin(g, OP_matmul, id);
    node_src(&b, n.src[0]);
    node_src(&b, n.src[1]);
    node_copy_attrs(&b, &n);
    const NodeId product = node_end(&b);
    return n.n_src > 2 && n.src[2] != 0 && product != 0 ? graph_op2(g, OP_add, product, n.src[2]) : product;
}

// --- reductions ----------------------------------------------------------------------------------

static NodeId reduce(Graph *g, OpId op, NodeId x, const int64_t *axes, uint32_t n, bool keep)
{
    NodeBuild b = expand_begin(g, op, x);
    node_reduce(&b, x, axes, n, keep);
    return node_end(&b);
}

static NodeId reduce_spatial(Graph *g, NodeId id, OpId op)
{
    static const int64_t spatial[SHAPE_MAX_RANK] = {2, 3, 4, 5, 6, 7};
    const NodeId x = graph_node(g, id)->src[0];
    const uint32_t rank = graph_node(g, x)->shape->rank;
    return rank <= 2 ? x : reduce(g, op, x, spatial, rank - 2, true);
}

NodeId expand_global_avg_pool(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return reduce_spatial(g, id, OP_reduce_mean);
}

NodeId expand_global_max_pool(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return reduce_spatial(g, id, OP_reduce_max);
}

static NodeId sum_like(Graph *g, const Node *n, AttrId axes, AttrId keepdims, NodeId x)
{
    const AttrVal *v = node_attr(n, axes);
    return reduce(g, OP_reduce_sum, x, v->u.ints, (uint32_t)v->len, node_get_int(n, keepdims) != 0);
}

NodeId expand_reduce_l1(Graph *g, NodeId id, uint32_t result)
{
    const Node n = *graph_node(g, id);
    (void)result;
    return sum_like(g, &n, A_reduce_l1_axes, A_reduce_l1_keepdims, graph_op1(g, OP_abs, n.src[0]));
}

// Integers go through f64: their square root is not defined.
NodeId expand_reduce_l2(Graph *g, NodeId id, uint32_t result)
{
    const Node n = *graph_node(g, id);
    (void)result;
    const bool is_float = dtype_info[n.dtype].cls == DCLASS_FLOAT;
    const NodeId x = is_float ? n.src[0] : graph_cast(g, n.src[0], DTYPE_f64);
    const NodeId sum = sum_like(g, &n, A_reduce_l2_axes, A_reduce_l2_keepdims, graph_op1(g, OP_square, x));
    return graph_cast(g, graph_op1(g, OP_sqrt, sum), (DType)n.dtype);
}

// log(sum(exp(x - m))) + m with m the largest finite element, so that nothing overflows.
NodeId expand_reduce_logsumexp(Graph *g, NodeId id, uint32_t result)
{
    const Node n = *graph_node(g, id);
    (void)result;
    const AttrVal *v = node_attr(&n, A_reduce_logsumexp_axes);
    const bool keep = node_get_int(&n, A_reduce_logsumexp_keepdims) != 0;
    const NodeId m = reduce(g, OP_reduce_max, n.src[0], v->u.ints, (uint32_t)v->len, true);
    const NodeId zero = graph_scalar(g, (DType)n.dtype, 0, node_span(g, id));
    const NodeId safe = graph_op3(g, OP_where, graph_op1(g, OP_is_inf, m), zero, m);
    const NodeId e = graph_op1(g, OP_exp, graph_op2(g, OP_sub, n.src[0], safe));
    const NodeId sum = reduce(g, OP_reduce_sum, e, v->u.ints, (uint32_t)v->len, keep);
    return graph_op2(g, OP_add, graph_op1(g, OP_log, sum), keep ? safe : graph_reshape(g, safe, n.shape));
}

// --- sub-graphs ----------------------------------------------------------------------------------

// A check of a branch says something only when the branch is taken. taken 0: it is.
static void inline_checks(Graph *g, const Graph *sub, const NodeId *map, NodeId taken)
{
    const Shape scalar = {.rank = 0};
    for (uint32_t i = 0; i < sub->checks.len; i++) {
        const GraphCheck *c = &sub->checks.data[i];
        NodeId holds = graph_reshape(g, map[c->cond], &scalar);
        if (holds && taken)
            holds = graph_op2(g, OP_logical_or, graph_op1(g, OP_logical_not, taken), holds);
        graph_check(g, holds, c->message);
    }
}

// Sizes that a branch computes are the graph's from now on, once.
static void inline_extents(Graph *g, const Graph *sub, const NodeId *map)
{
    for (uint32_t i = 0; i < sub->extents.len; i++) {
        GraphExtent e = sub->extents.data[i];
        e.value = map[e.value];
        if (graph_find_extent(g, (uint32_t)dim_as_symbol(g->dims, e.dim)) == NULL)
            vec_push(g->arena, &g->extents, e);
    }
}

// Copies a sub-graph into g with its inputs bound to operands 1.. of the `if`; returns its output. taken: the
// condition under which the branch counts, 0 = always.
static NodeId inline_branch(Graph *g, const Node *n, const Graph *sub, uint32_t output, NodeId taken)
{
    NodeId *map = ARENA_ARRAY(g->arena, NodeId, sub->nodes.len);
    for (uint32_t i = 0; i < sub->inputs.len; i++)
        map[sub->inputs.data[i]] = n->src[i + 1];
    for (NodeId id = 1; id < sub->nodes.len; id++) {
        const Node *s = graph_node(sub, id);
        NodeId *src = ARENA_ARRAY(g->arena, NodeId, s->n_src + 1u);
        if (map[id] != 0)
            continue;
        for (uint32_t i = 0; i < s->n_src; i++)
            src[i] = s->src[i] == 0 ? 0 : map[s->src[i]];
        map[id] = graph_clone_node(g, sub, id, src);
    }
    inline_checks(g, sub, map, taken);
    inline_extents(g, sub, map);
    return map[sub->outputs.data[output].node];
}

// Values have no side effects, so both branches are computed and one is chosen; a constant condition takes
// just its branch.
NodeId expand_if(Graph *g, NodeId id, uint32_t result)
{
    const Node n = *graph_node(g, id);
    const Graph *then_graph = node_attr(&n, A_if_then)->u.graph,
                *else_graph = node_attr(&n, A_if_else)->u.graph;
    double chosen = 0;
    rlx_assert(result < then_graph->outputs.len && result < else_graph->outputs.len);
    if (node_is_scalar_const(g, n.src[0], &chosen))
        return inline_branch(g, &n, chosen != 0 ? then_graph : else_graph, result, 0);
    const Shape scalar = {.rank = 0};
    const NodeId cond = graph_reshape(g, n.src[0], &scalar);
    const NodeId a = inline_branch(g, &n, then_graph, result, cond);
    const NodeId otherwise = else_graph->checks.len ? graph_op1(g, OP_logical_not, cond) : cond;
    const NodeId b = inline_branch(g, &n, else_graph, result, otherwise);
    return graph_op3(g, OP_where, cond, a, b);
}

// --- the pass ------------------------------------------------------------------------------------

static NodeId step_expand(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    (void)ctx;
    if (node_result(&n) != 0 && op_info[graph_node(g, n.src[0])->op].kind == OPKIND_SUGAR)
        return expand_fns[graph_node(g, n.src[0])->op](g, n.src[0], node_result(&n));
    return id;
}

// Result 0 of a sugar node, once the `result` nodes of the others have taken theirs.
static NodeId step_expand_first(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    const Node *n = graph_node(g, id);
    return op_info[n->op].kind == OPKIND_SUGAR ? expand_fns[n->op](g, id, 0) : id;
}

static bool has_sugar(const Graph *g)
{
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (op_info[graph_node(g, id)->op].kind == OPKIND_SUGAR)
            return true;
    return false;
}

// Are there checks in the branches of branches? Recursion: as deep as `if` nests, which is limited.
static bool has_deep_checks(const Graph *g, uint32_t level)
{
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; n->op == OP_if && i < n->n_attr; i++) {
            const Graph *branch = n->attr[i].u.graph;
            if ((level > 0 && branch->checks.len > 0) || has_deep_checks(branch, level + 1))
                return true;
        }
    }
    return false;
}

static Graph *expand_graph(Graph *g, bool *changed);

// A branch without `if` in it, so that all its checks are its own: they depend on every condition around
// them.
static NodeId step_flatten(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    bool changed = false;
    (void)ctx;
    if (n.op != OP_if)
        return id;
    NodeBuild b = node_copy_begin(g, g, id);
    for (uint32_t i = 0; i < n.n_src; i++)
        node_src(&b, n.src[i]);
    for (uint32_t i = 0; i < n.n_attr; i++)
        node_graph(&b, n.attr[i].id, expand_graph(graph_compact(n.attr[i].u.graph, NULL), &changed));
    return node_end(&b);
}

// Sub-graphs may hold sugar themselves: repeat until none is left (each round removes one level of nesting).
static Graph *expand_graph(Graph *g, bool *changed)
{
    const uint32_t errors = g->diag->n_errors;
    if (has_sugar(g)) // dead sugar need not be expanded
        g = graph_compact(g, NULL);
    if (has_deep_checks(g, 0))
        graph_rewrite(g, step_flatten, NULL);
    while (has_sugar(g) && g->diag->n_errors == errors) {
        graph_rewrite(g, step_expand, NULL);
        graph_rewrite(g, step_expand_first, NULL);
        g = graph_compact(g, NULL);
        *changed = true;
    }
    return g;
}

bool pass_preexpand(Pass *p)
{
    return pass_expand(p);
}

bool pass_expand(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    bool changed = false;
    const uint32_t errors = p->diag->n_errors;
    p->graph = expand_graph(p->graph, &changed);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
