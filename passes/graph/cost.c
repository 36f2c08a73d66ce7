// SPDX-License-Identifier: Apache-2.0
// The cost model of rewriting; see cost.h. Ops have their cost in ops.def; structural ones are weighed only
// against the elementwise ops that they stand for.
#include "passes/graph/cost.h"

// Symbols count as their largest value, but at most this, so that products of them stay comparable.
static const int64_t symbol_max = 1 << 16;

static double size_of(const Graph *g, const Shape *s)
{
    double n = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t low = 0, high = 0;
        dim_range(g->dims, s->dim[i], &low, &high);
        n *= (double)(dim_is_const(s->dim[i]) || high < symbol_max ? high : symbol_max);
    }
    return n;
}

// Multiplications and additions of one element of the result of a product or a window.
static double inner_cost(const Graph *g, const Node *n)
{
    const Shape *a = graph_node(g, n->src[0])->shape;
    const AttrVal *transpose = node_find_attr(n, "transpose_a");
    const bool is_transposed = a->rank > 1 && transpose != NULL && transpose->u.i;
    return 2 * size_of(g, &(Shape){1, {a->dim[a->rank - (is_transposed ? 2 : 1)]}});
}

static double filter_cost(const Graph *g, const Node *n)
{
    const Shape *w = graph_node(g, n->src[1])->shape;
    return 2 * size_of(g, w) / size_of(g, &(Shape){1, {w->dim[0]}});
}

static double kernel_cost(const Graph *g, const Node *n)
{
    const AttrVal *kernel = node_find_attr(n, "kernel");
    double taps = 1;
    (void)g;
    for (uint64_t i = 0; i < kernel->len; i++)
        taps *= (double)kernel->u.ints[i];
    return taps;
}

// Of attention: each element of the result has its share of two products and of the softmax of all scores.
static double keys_cost(const Graph *g, const Node *n)
{
    enum { SOFTMAX = 10 }; // less than the op of that name: scores stay where they are
    const Shape *q = graph_node(g, n->src[0])->shape, *k = graph_node(g, n->src[1])->shape;
    const double size = size_of(g, &(Shape){1, {q->dim[q->rank - 1]}});
    const double columns = size_of(g, &(Shape){1, {n->shape->dim[n->shape->rank - 1]}});
    const double keys = size_of(g, &(Shape){1, {k->dim[k->rank - 2]}});
    return columns > 0 ? keys * (2 * size + 2 * columns + SOFTMAX) / columns : 0;
}

static double (*const step_cost[OPSTEPS_COUNT])(const Graph *g, const Node *n) = {
    [OPSTEPS_INNER] = inner_cost, [OPSTEPS_FILTER] = filter_cost, [OPSTEPS_KERNEL] = kernel_cost,
    [OPSTEPS_KEYS] = keys_cost};

// A scale and a bias of the rows that an op reads: elementwise ops.
static double weight_cost(const Node *n)
{
    double cost = 0;
    for (uint32_t i = 1; i < n->n_src && op_info[n->op].joins == OPJOINS_AGAIN; i++)
        cost += n->src[i] != 0;
    return cost;
}

static bool has_only_constants(const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 && !node_is_const(g, n->src[i]))
            return false;
    return true;
}

double cost_node(const Graph *g, NodeId id)
{
    rlx_assert(id != 0 && id < g->nodes.len);
    const Node *n = graph_node(g, id);
    if (n->n_src == 0 || has_only_constants(g, n))
        return 0;
    const double out = size_of(g, n->shape);
    const OpInfo *op = &op_info[n->op];
    if (op->kind == OPKIND_EW)
        return op->cost * out;
    if (op->cost_operand == 0 && op->cost_result == 0 && step_cost[op->steps] != NULL)
        return step_cost[op->steps](g, n) * out;
    const double in = op->cost_operand ? size_of(g, graph_node(g, n->src[0])->shape) : 0;
    return op->cost_operand * in + (op->cost_result + weight_cost(n)) * out;
}

double cost_graph(const Graph *g)
{
    Arena scratch = {0};
    const bool *is_needed = graph_mark_needed(g, ROOT_RESULTS, &scratch);
    double sum = 0;
    for (NodeId id = g->nodes.len; id-- > 1;)
        sum += is_needed[id] ? cost_node(g, id) : 0;
    rlx_assert(sum >= 0);
    arena_free(&scratch);
    return sum;
}
