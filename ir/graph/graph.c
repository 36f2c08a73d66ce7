// SPDX-License-Identifier: Apache-2.0
// The graph object itself and what reads it. Building, rewriting and interning have files of their own.
#include "ir/graph/intern.h"
#include "ir/graph/tensor.h"

#include <string.h>

static Graph *new_graph(Arena *a, Diag *d, const char *name)
{
    Graph *g = ARENA_NEW(a, Graph);
    g->arena = a;
    g->diag = d;
    g->name = arena_strdup(a, name);
    vec_push(a, &g->nodes, (Node){0});
    vec_push(a, &g->spans, (Span){0});
    vec_push(a, &g->labels, NULL);
    return g;
}

Graph *graph_new(Arena *a, Diag *d, const char *name)
{
    Graph *g = new_graph(a, d, name);
    g->dims = ARENA_NEW(a, DimTable);
    g->dims->arena = a;
    g->payloads = ARENA_NEW(a, Map);
    g->budget = ARENA_NEW(a, EvalBudget);
    return g;
}

Graph *graph_new_like(Graph *parent, const char *name)
{
    Graph *g = new_graph(parent->arena, parent->diag, name);
    g->dims = parent->dims;
    g->payloads = parent->payloads;
    g->budget = parent->budget;
    g->reads = parent->reads;
    g->notes = parent->notes;
    return g;
}

const AttrVal *node_attr(const Node *n, AttrId id)
{
    const AttrVal *v = n->attr;
    for (uint32_t i = 0; i < n->n_attr; i++)
        if (v[i].id == id)
            return &v[i];
    diag_bug(__FILE__, __LINE__, "the attribute belongs to the op");
}

const AttrVal *node_find_attr(const Node *n, const char *name)
{
    for (uint32_t i = 0; i < n->n_attr; i++)
        if (strcmp(attr_info[n->attr[i].id].name, name) == 0)
            return &n->attr[i];
    return NULL;
}

uint32_t node_result(const Node *n)
{
    return n->op == OP_result ? (uint32_t)node_get_int(n, A_result_index) : 0;
}

double node_get_float(const Node *n, AttrId id)
{
    double v = 0;
    memcpy(&v, &node_attr(n, id)->u.f64_bits, sizeof v);
    return v;
}

int64_t node_get_at(const Node *n, AttrId id, uint32_t i, int64_t dflt)
{
    const AttrVal *v = node_attr(n, id);
    return i < v->len ? v->u.ints[i] : dflt;
}

const char *leaf_name(const Node *n)
{
    switch (n->op) {
    case OP_input:
        return node_get_str(n, A_input_name);
    case OP_param:
        return node_get_str(n, A_param_name);
    case OP_state:
        return node_get_str(n, A_state_name);
    default:
        return NULL;
    }
}

const char *node_name(const Graph *g, NodeId id)
{
    const char *name = leaf_name(graph_node(g, id));
    if (!name)
        name = g->labels.data[id];
    return name ? name : arena_printf(g->arena, "%%%u", id);
}

Span node_span(const Graph *g, NodeId id)
{
    return g->spans.data[id];
}

bool node_is_scalar_const(const Graph *g, NodeId id, double *value)
{
    if (!node_is_const(g, id) || shape_numel(graph_node(g, id)->shape) != 1)
        return false;
    Tensor t = tensor_of_const(g, id);
    if (value)
        *value = tensor_get_f64(&t, 0);
    return true;
}
