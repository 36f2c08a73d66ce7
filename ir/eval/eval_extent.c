// SPDX-License-Identifier: Apache-2.0
// Sizes that the model computes, in the evaluator: a symbol is known once its node is evaluated. A node that
// computes the size of its own result is evaluated at the largest size, and its results are cut afterwards.
#include "ir/eval/eval_extent.h"

#include <string.h>

int64_t *eval_extents_begin(EvalRun *run)
{
    const Graph *g = run->g;
    const uint32_t n = g->dims->symbols.len;
    if (g->extents.len == 0)
        return NULL;
    int64_t *value = ARENA_ARRAY(run->arena, int64_t, n);
    for (uint32_t i = 0; i < n; i++)
        value[i] = i < run->symbols.n ? run->symbols.value[i] : -1;
    for (uint32_t i = 0; i < g->extents.len; i++)
        value[dim_as_symbol(g->dims, g->extents.data[i].dim)] = -1;
    run->symbols = (DimValues){value, n};
    return value;
}

static int64_t *value_of(const EvalRun *run, const GraphExtent *e, int64_t *value)
{
    return &value[dim_as_symbol(run->g->dims, e->dim)];
}

// Which result of the node an extent is, or -1.
static int64_t result_index(const Graph *g, const GraphExtent *e, NodeId id)
{
    const Node *n = graph_node(g, e->value);
    if (e->value == id)
        return 0;
    return node_result(n) != 0 && n->src[0] == id ? (int64_t)node_result(n) : -1;
}

void eval_extents_assume(const EvalRun *run, NodeId id, int64_t *value)
{
    for (uint32_t i = 0; value && i < run->g->extents.len; i++) {
        const GraphExtent *e = &run->g->extents.data[i];
        int64_t *v = value_of(run, e, value);
        if (*v < 0 && result_index(run->g, e, id) >= 0 && !dim_eval(run->g->dims, e->max, run->symbols, v))
            *v = -1; // reported where the size is needed
    }
}

static bool is_over(const EvalRun *run, const GraphExtent *e, int64_t v, int64_t max)
{
    const Graph *g = run->g;
    const char *name = g->dims->symbols.data[dim_as_symbol(g->dims, e->dim)].name;
    return v > max &&
           !diag_error(g->diag, node_span(g, e->value), E0403,
                       GRAPH_RANGE "the size '%s' is %lld, over %lld", name, (long long)v, (long long)max);
}

// False: a size is over its largest, which is reported.
static bool read_extents(const EvalRun *run, NodeId id, const Tensor *results, int64_t *value, bool *any)
{
    for (uint32_t i = 0; i < run->g->extents.len; i++) {
        const GraphExtent *e = &run->g->extents.data[i];
        const int64_t index = result_index(run->g, e, id);
        int64_t max = 0;
        if (index < 0 || !dim_eval(run->g->dims, e->max, run->symbols, &max))
            continue;
        const int64_t v = tensor_get_i64(&results[index], 0);
        if (is_over(run, e, v, max))
            return false;
        *value_of(run, e, value) = v < 0 ? 0 : v;
        *any = true;
    }
    return true;
}

// The box of t that has the sizes of `to`.
static void cut(const Tensor *t, Tensor *to)
{
    int64_t at[SHAPE_MAX_RANK] = {0}, stride[SHAPE_MAX_RANK], from = 0;
    eval_strides(t, stride);
    for (int64_t i = 0; i < to->numel; i++) {
        eval_copy_element(to, i, t, from);
        for (uint32_t d = to->rank; d-- > 0;) {
            from += stride[d];
            if (++at[d] < to->dim[d])
                break;
            from -= at[d] * stride[d];
            at[d] = 0;
        }
    }
}

bool eval_extents_end(const EvalRun *run, NodeId id, const Node *n, Tensor *results, int64_t *value)
{
    bool any = false;
    if (value && !read_extents(run, id, results, value, &any))
        return false;
    if (!any)
        return true;
    for (uint32_t i = 0; i < n->n_results; i++) {
        const Shape *s = n->n_results > 1 ? &n->results[i].shape : n->shape;
        int64_t dim[SHAPE_MAX_RANK];
        for (uint32_t d = 0; d < s->rank; d++)
            if (!dim_eval(run->g->dims, s->dim[d], run->symbols, &dim[d]))
                return diag_error(run->g->diag, node_span(run->g, id), E0207,
                                  "a size depends on a dimension without a value");
        if (s->rank == 0 || memcmp(dim, results[i].dim, s->rank * sizeof *dim) == 0)
            continue;
        Tensor t = tensor_new(run->arena, results[i].dtype, s->rank, dim);
        cut(&results[i], &t);
        results[i] = t;
    }
    return true;
}
