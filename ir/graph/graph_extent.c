// SPDX-License-Identifier: Apache-2.0
// Sizes that the model computes: symbols whose value is a node's, and sizes as nodes. See graph.h.
#include "ir/graph/dim_expr.h"
#include "ir/graph/intern.h"

static const char *free_name(const DimTable *t, Arena *a, const char *name)
{
    const char *taken = name;
    for (uint32_t i = 2; dim_find_symbol(t, taken) >= 0; i++)
        taken = arena_printf(a, "%s_%u", name, i);
    return taken;
}

Dim graph_extent(Graph *g, const char *name, NodeId value, Dim max)
{
    int64_t low = 0, high = 0;
    dim_range(g->dims, max, &low, &high);
    for (uint32_t i = 0; value && i < g->extents.len; i++)
        if (g->extents.data[i].value == value && g->extents.data[i].max == max)
            return g->extents.data[i].dim;
    high = high < 0 ? 0 : high > DIM_MAX_VALUE ? DIM_MAX_VALUE : high;
    const Dim d = dim_symbol(g->dims, intern_str(g, free_name(g->dims, g->arena, name)), 0, high, 1);
    const GraphExtent e = {.dim = d, .value = value, .max = max};
    vec_push(g->arena, &g->extents, e);
    return d;
}

bool graph_add_extent(Graph *g, Dim symbol, NodeId value, Dim max)
{
    const Node *n = graph_node(g, value);
    const int32_t index = dim_as_symbol(g->dims, symbol);
    const Span span = node_span(g, value);
    if (n->dtype != DTYPE_i64 || !shape_is_const(n->shape) || shape_numel(n->shape) != 1)
        return diag_error(g->diag, span, E0209, "an extent needs an i64 with one element");
    if (index < 0)
        return diag_error(g->diag, span, E0209, "an extent needs a symbol");
    const Symbol *s = &g->dims->symbols.data[index];
    int64_t low = 0, high = 0;
    dim_range(g->dims, max, &low, &high);
    if (graph_find_extent(g, (uint32_t)index))
        return diag_error(g->diag, span, E0209, "the size '%s' is computed twice", s->name);
    if (s->min > 0 || s->multiple != 1 || high < 0 || high > s->max)
        return diag_error(g->diag, span, E0208,
                          "the computed size '%s' must have a range from 0 to its largest value", s->name);
    const GraphExtent e = {.dim = symbol, .value = value, .max = max};
    vec_push(g->arena, &g->extents, e);
    return true;
}

// Does the node that computes the size have it itself? Then it writes as many elements as it finds.
static bool is_own_size(const Graph *g, const GraphExtent *e)
{
    const Node *n = graph_node(g, e->value);
    bool is_own = false;
    if (node_result(n) == 0)
        return false;
    const Node *of = graph_node(g, n->src[0]);
    for (uint32_t i = 0; i < of->shape->rank; i++)
        is_own = is_own || graph_dim_uses(g, of->shape->dim[i], e);
    return is_own;
}

static bool limit(Graph *g, GraphExtent *e, int64_t bound)
{
    Symbol *s = &g->dims->symbols.data[dim_as_symbol(g->dims, e->dim)];
    const Span span = node_span(g, e->value);
    int64_t low = 0, high = 0;
    dim_range(g->dims, e->max, &low, &high);
    if (high <= bound)
        return true;
    if (is_own_size(g, e))
        return diag_error(g->diag, span, E0206,
                          "the size '%s' cannot be limited to %lld: %s may find up to %lld", s->name,
                          (long long)bound, op_info[graph_node(g, graph_node(g, e->value)->src[0])->op].name,
                          (long long)high);
    const char *message =
        arena_printf(g->arena, GRAPH_RANGE "the size '%s' is over %lld", s->name, (long long)bound);
    const NodeId most = graph_scalar(g, DTYPE_i64, (double)bound, span);
    e->max = dim_min(g->dims, e->max, bound);
    s->max = s->max < bound ? s->max : bound;
    return graph_check(g, graph_op2(g, OP_le, e->value, most), message);
}

bool graph_check_least(Graph *g, NodeId value, const char *name, int64_t least)
{
    if (least <= 0)
        return true;
    const NodeId bound = graph_scalar(g, DTYPE_i64, (double)least, node_span(g, value));
    return graph_check(g, graph_op2(g, OP_ge, value, bound),
                       arena_printf(g->arena, GRAPH_RANGE "the size '%s' is below %lld", name,
                                    (long long)least));
}

// Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
bool graph_limit_extent(Graph *g, uint32_t symbol, int64_t least, int64_t bound)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < g->extents.len; i++)
        if (dim_as_symbol(g->dims, g->extents.data[i].dim) == (int32_t)symbol)
            ok = limit(g, &g->extents.data[i], bound) &&
                 graph_check_least(g, g->extents.data[i].value, g->dims->symbols.data[symbol].name, least);
    for (NodeId id = 1; ok && id < g->nodes.len; id++) {
        const Node n = *graph_node(g, id);
        for (uint32_t i = 0; ok && i < n.n_attr; i++)
            if (attr_info[n.attr[i].id].type == ATTR_GRAPH)
                ok = graph_limit_extent(n.attr[i].u.graph, symbol, least, bound);
    }
    return ok;
}

const GraphExtent *graph_find_extent(const Graph *g, uint32_t symbol)
{
    for (uint32_t i = 0; i < g->extents.len; i++)
        if (dim_as_symbol(g->dims, g->extents.data[i].dim) == (int32_t)symbol)
            return &g->extents.data[i];
    return NULL;
}

// Recursion: expressions are bounded by DIM_MAX_SIZE.
bool graph_dim_uses(const Graph *g, Dim d, const GraphExtent *of)
{
    if (g->extents.len == 0 || dim_is_const(d))
        return false;
    const DimExpr *e = dim_expr(g->dims, d);
    if (e->kind == DIM_SYMBOL)
        return of ? d == of->dim : graph_find_extent(g, e->symbol) != NULL;
    if (e->kind == DIM_UNKNOWN)
        return false;
    if (e->kind != DIM_SUM)
        return graph_dim_uses(g, e->a, of) || graph_dim_uses(g, e->b, of);
    for (uint32_t i = 0; i < e->n_terms; i++)
        for (uint32_t k = 0; k < e->terms[i].n; k++)
            if (graph_dim_uses(g, e->terms[i].atom[k], of))
                return true;
    return false;
}

bool graph_dim_is_set(const Graph *g, Dim d)
{
    bool any = false;
    for (uint32_t i = 0; i < g->extents.len; i++)
        if (graph_dim_uses(g, d, &g->extents.data[i])) {
            if (!g->extents.data[i].is_set)
                return false;
            any = true;
        }
    return any;
}

void graph_add_live(Graph *g, NodeId node, uint32_t axis, NodeId size)
{
    rlx_assert(axis < graph_node(g, node)->shape->rank);
    const GraphLive live = {node, axis, size};
    rlx_assert(graph_node(g, size)->dtype == DTYPE_i64);
    vec_push(g->arena, &g->lives, live);
}

bool graph_dim_is_computed(const Graph *g, Dim d)
{
    return graph_dim_uses(g, d, NULL);
}

// Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
bool graph_computes(const Graph *g, uint32_t symbol)
{
    bool does = graph_find_extent(g, symbol) != NULL;
    for (NodeId id = 1; !does && id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; !does && i < n->n_attr; i++)
            does = attr_info[n->attr[i].id].type == ATTR_GRAPH && graph_computes(n->attr[i].u.graph, symbol);
    }
    return does;
}

// A size that is known before the model runs, but not yet: as many ones, summed up.
static NodeId count_ones(Graph *g, Dim d, Span span)
{
    NodeBuild ones = node_begin(g, OP_expand, span, NULL);
    node_src(&ones, graph_scalar(g, DTYPE_i64, 1, span));
    node_ints(&ones, A_expand_shape, &d, 1);
    const NodeId id = node_end(&ones);
    return id ? graph_op1(g, OP_reduce_sum, id) : 0;
}

NodeId graph_first(Graph *g, NodeId id, uint32_t axis, Dim size, Span span)
{
    rlx_assert(axis < graph_node(g, id)->shape->rank);
    NodeBuild ones = node_begin(g, OP_expand, span, NULL);
    node_src(&ones, graph_scalar(g, DTYPE_i64, 1, span));
    node_ints(&ones, A_expand_shape, &size, 1);
    NodeBuild sum = node_begin(g, OP_cumsum, span, NULL);
    node_src(&sum, node_end(&ones));
    node_int(&sum, A_cumsum_axis, 0);
    node_int(&sum, A_cumsum_exclusive, 1);
    NodeBuild b = node_begin(g, OP_gather, span, NULL);
    node_gather(&b, id, node_end(&sum), axis);
    return node_end(&b);
}

static NodeId scalar_of(Graph *g, NodeId id)
{
    return id ? graph_reshape(g, id, &(Shape){0}) : 0;
}

static NodeId symbol_value(Graph *g, Dim d, Span span)
{
    const GraphExtent *e = graph_find_extent(g, (uint32_t)dim_as_symbol(g->dims, d));
    return e ? scalar_of(g, e->value) : count_ones(g, d, span);
}

static NodeId join(Graph *g, OpId op, NodeId a, NodeId b)
{
    return a && b ? graph_op2(g, op, a, b) : 0;
}

static NodeId sum_value(Graph *g, const DimExpr *e, Span span)
{
    NodeId sum = 0;
    for (uint32_t i = 0; i < e->n_terms; i++) {
        NodeId product = 0;
        for (uint32_t k = 0; k < e->terms[i].n; k++) {
            const NodeId factor = graph_dim_value(g, e->terms[i].atom[k], span);
            product = k ? join(g, OP_mul, product, factor) : factor;
        }
        if (e->terms[i].coef != 1)
            product = join(g, OP_mul, product, graph_scalar(g, DTYPE_i64, (double)e->terms[i].coef, span));
        sum = i ? join(g, OP_add, sum, product) : product;
        if (!sum)
            return 0;
    }
    return e->constant ? join(g, OP_add, sum, graph_scalar(g, DTYPE_i64, (double)e->constant, span)) : sum;
}

// Floor division of integers: ours truncates, so the remainder, which has the divisor's sign, goes first.
static NodeId floor_div(Graph *g, NodeId a, NodeId b)
{
    return join(g, OP_div, join(g, OP_sub, a, join(g, OP_mod, a, b)), b);
}

NodeId graph_dim_value(Graph *g, Dim d, Span span)
{
    if (dim_is_const(d))
        return graph_scalar(g, DTYPE_i64, (double)d, span);
    const DimExpr *e = dim_expr(g->dims, d);
    if (e->kind == DIM_UNKNOWN)
        return 0;
    if (e->kind == DIM_SYMBOL)
        return symbol_value(g, d, span);
    if (e->kind == DIM_SUM)
        return sum_value(g, e, span);
    const NodeId a = graph_dim_value(g, e->a, span), b = graph_dim_value(g, e->b, span);
    if (e->kind == DIM_FLOOR_DIV)
        return floor_div(g, a, b);
    return join(g, e->kind == DIM_MOD ? OP_mod : e->kind == DIM_MIN ? OP_min : OP_max, a, b);
}
