// SPDX-License-Identifier: Apache-2.0
// Sizes that are set between runs, but to one value only: those of a bucket of one token. They become
// numbers, so that nothing of the model asks for them when it runs.
#include "passes/graph/extent.h"

// The value of a size that can have only one.
static NodeId step_known(Graph *g, NodeId id, void *ctx)
{
    const int64_t *value = ctx;
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const GraphExtent *e = &g->extents.data[i];
        const int64_t v = value[dim_as_symbol(g->dims, e->dim)];
        if (e->value == id && v >= 0)
            return graph_scalar(g, DTYPE_i64, (double)v, node_span(g, id));
    }
    return id;
}

// Sizes that are set between runs to one value only (a bucket of one token) are numbers.
bool extent_bind_single(Pass *p)
{
    rlx_assert(p->plan == NULL && p->graph != NULL);
    Graph *g = p->graph;
    const uint32_t n = g->dims->symbols.len;
    int64_t *value = ARENA_ARRAY(g->arena, int64_t, n + 1u);
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        value[i] = -1;
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const GraphExtent *e = &g->extents.data[i];
        const uint32_t symbol = (uint32_t)dim_as_symbol(g->dims, e->dim);
        const Symbol *s = &g->dims->symbols.data[symbol];
        if (!e->is_set || s->min != s->max || graph_node(g, e->value)->shape->rank != 0)
            continue;
        value[symbol] = s->max;
        any = true;
    }
    if (!any)
        return true;
    graph_rewrite(g, step_known, value);
    return graph_bind(g, (DimValues){value, n}, &p->graph);
}
