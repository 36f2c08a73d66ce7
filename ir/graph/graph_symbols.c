// SPDX-License-Identifier: Apache-2.0
// Symbols that stay open in what is planned: a graph in which they are sizes whose values are the entries of
// a page that is set between runs. See graph.h.
#include "ir/graph/intern.h"

// A name for the page that no leaf of the graph has.
static const char *page_name(Graph *from)
{
    const char *name = "symbols";
    for (uint32_t i = 2; intern_find_name(from, NAME_LEAF, name) != 0; i++)
        name = arena_printf(from->arena, "symbols_%u", i);
    return name;
}

static NodeId entry_of_page(Graph *g, uint32_t i)
{
    const int64_t start = i, end = i + 1;
    NodeBuild b = node_begin(g, OP_slice, (Span){0}, NULL);
    node_src(&b, g->page);
    node_ints(&b, A_slice_starts, &start, 1);
    node_ints(&b, A_slice_ends, &end, 1);
    const NodeId entry = node_end(&b);
    return entry ? graph_reshape(g, entry, &(Shape){0}) : 0;
}

// The first nodes: sizes must be there before what has them.
static bool add_page(Graph *from, const uint32_t *open, const int64_t *first, uint32_t n, Graph *to)
{
    GraphSymbols *s = ARENA_NEW(to->arena, GraphSymbols);
    Symbol *symbol = ARENA_ARRAY(to->arena, Symbol, n);
    Dim *dim = ARENA_ARRAY(to->arena, Dim, n);
    const Shape shape = {.rank = 1, .dim = {n}};
    const int64_t *init = arena_copy(to->arena, first, n * sizeof *first);
    to->page = graph_param(to, page_name(from), DTYPE_i64, &shape, init, n * sizeof *init, (Span){0});
    for (uint32_t i = 0; i < n && to->page != 0; i++) {
        symbol[i] = from->dims->symbols.data[open[i]];
        symbol[i].has_dflt = true;
        symbol[i].dflt = first[i];
        dim[i] = dim_symbol(to->dims, symbol[i].name, symbol[i].min, symbol[i].max, symbol[i].multiple);
        const NodeId value = entry_of_page(to, i);
        if (value == 0)
            return false;
        const GraphExtent e = {.dim = dim[i], .value = value, .max = symbol[i].max, .is_set = true};
        vec_push(to->arena, &to->extents, e);
    }
    *s = (GraphSymbols){.n = n, .symbol = symbol, .dim = dim};
    to->symbols = s;
    return to->page != 0;
}

// The shape of a value if all its open sizes are set between runs.
static const Shape *shape_in_symbols(const Graph *g, NodeId id)
{
    const Shape *s = graph_node(g, id)->shape;
    bool any = false;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!graph_dim_is_computed(g, s->dim[i]))
            continue;
        if (!graph_dim_is_set(g, s->dim[i]))
            return NULL;
        any = true;
    }
    return any ? s : NULL;
}

// The sum of as many ones as an open size says is the entry of the page: no ones are added up.
static NodeId step_count(Graph *g, NodeId id, void *ctx)
{
    const Node *n = graph_node(g, id);
    const Node *ones = n->op == OP_reduce_sum ? graph_node(g, n->src[0]) : NULL;
    double one = 0;
    (void)ctx;
    if (ones == NULL || ones->op != OP_expand || ones->shape->rank != 1 || n->shape->rank != 0 ||
        !node_is_scalar_const(g, ones->src[0], &one) || one != 1 ||
        !graph_dim_is_set(g, ones->shape->dim[0]))
        return id;
    return graph_cast(g, graph_dim_value(g, ones->shape->dim[0], node_span(g, id)), (DType)n->dtype);
}

bool graph_bind_open(Graph *g, DimValues v, const uint32_t *open, const int64_t *first, uint32_t n,
                     Graph **out)
{
    Graph *to = *out = graph_new_like(g, g->name);
    if (!add_page(g, open, first, n, to) || !graph_copy_bound(g, v, to))
        return false;
    graph_rewrite(to, step_count, NULL);
    GraphSymbols *s = arena_copy(to->arena, to->symbols, sizeof *s);
    s->n_inputs = to->inputs.len;
    s->n_outputs = to->outputs.len;
    s->inputs = ARENA_ARRAY(to->arena, const Shape *, s->n_inputs + 1);
    s->outputs = ARENA_ARRAY(to->arena, const Shape *, s->n_outputs + 1);
    s->states = ARENA_ARRAY(to->arena, const Shape *, to->states.len + 1);
    for (uint32_t i = 0; i < to->states.len; i++)
        s->states[i] = shape_in_symbols(to, to->states.data[i].node);
    for (uint32_t i = 0; i < s->n_inputs; i++)
        s->inputs[i] = shape_in_symbols(to, to->inputs.data[i]);
    for (uint32_t i = 0; i < s->n_outputs; i++)
        s->outputs[i] = shape_in_symbols(to, to->outputs.data[i].node);
    to->symbols = s;
    return true;
}
