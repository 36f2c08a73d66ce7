// SPDX-License-Identifier: Apache-2.0
// The order in which the nodes of a graph are imported: that of the file, but every node after those whose
// results it or its sub-graphs use. The standard wants files to be sorted; ONNX Runtime, and so exporters and
// editors of models, do not.
#include "compiler/import/onnx/onnx_order.h"

#include <string.h>

// Names that a sub-graph defines itself, inside of those that the graphs around it define.
typedef struct Locals {
    const struct Locals *outer;
    Map names;
} Locals;

enum { FRESH, OPEN, PLACED };

typedef struct Sorter {
    OnnxScope *scope;
    const Onnx__GraphProto *g;
    Map makers; // names of results to indices of nodes
    VEC(uint32_t)
    needs;           // of all nodes, one behind the other
    uint32_t *first; // of a node in `needs`
    uint32_t *at;    // the next one to look at
    uint8_t *state;
    uint32_t *stack, depth;
    OnnxPlace *order;
    bool *is_in_cycle;
    uint32_t n_placed;
} Sorter;

// --- what nodes need ---

static void add_need(Sorter *s, const Locals *locals, const char *name)
{
    uint64_t maker = 0;
    for (const Locals *l = locals; l; l = l->outer)
        if (map_get_str(&l->names, name, &maker))
            return;
    if (name[0] && map_get_str(&s->makers, name, &maker))
        vec_push(s->scope->model->arena, &s->needs, (uint32_t)maker);
}

static void put_locals(Arena *a, Locals *l, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_input; i++)
        map_put_str(a, &l->names, onnx_text(g->input[i]->name), 1);
    for (size_t i = 0; i < g->n_initializer; i++)
        map_put_str(a, &l->names, onnx_text(g->initializer[i]->name), 1);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            map_put_str(a, &l->names, onnx_text(g->node[i]->output[k]), 1);
}

static void add_needs(Sorter *s, const Locals *locals, const Onnx__NodeProto *p, uint32_t depth);

// Deeper graphs than may be are reported where they are imported.
static void add_graph_needs(Sorter *s, const Locals *outer, const Onnx__GraphProto *g, uint32_t depth)
{
    Locals locals = {.outer = outer};
    if (depth > ONNX_MAX_DEPTH)
        return;
    put_locals(s->scope->model->arena, &locals, g);
    for (size_t i = 0; i < g->n_node; i++)
        add_needs(s, &locals, g->node[i], depth);
    for (size_t i = 0; i < g->n_output; i++)
        add_need(s, &locals, onnx_text(g->output[i]->name));
}

static void add_needs(Sorter *s, const Locals *locals, const Onnx__NodeProto *p, uint32_t depth)
{
    for (size_t i = 0; i < p->n_input; i++)
        add_need(s, locals, onnx_text(p->input[i]));
    for (size_t i = 0; i < p->n_attribute; i++) {
        if (p->attribute[i]->g)
            add_graph_needs(s, locals, p->attribute[i]->g, depth + 1);
        for (size_t k = 0; k < p->attribute[i]->n_graphs; k++)
            add_graph_needs(s, locals, p->attribute[i]->graphs[k], depth + 1);
    }
}

static Sorter new_sorter(OnnxScope *scope, const Onnx__GraphProto *g)
{
    rlx_assert(g->n_node < UINT32_MAX);
    Arena *a = scope->model->arena;
    Sorter s = {.scope = scope, .g = g};
    s.first = ARENA_ARRAY(a, uint32_t, g->n_node + 1);
    s.at = ARENA_ARRAY(a, uint32_t, g->n_node);
    s.state = ARENA_ARRAY(a, uint8_t, g->n_node);
    s.stack = ARENA_ARRAY(a, uint32_t, g->n_node);
    s.order = ARENA_ARRAY(a, OnnxPlace, g->n_node);
    s.is_in_cycle = ARENA_ARRAY(a, bool, g->n_node);
    uint64_t known = 0;
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) {
            const char *name = onnx_text(g->node[i]->output[k]);
            if (!map_get_str(&s.makers, name, &known))
                map_put_str(a, &s.makers, name, i);
        }
    for (size_t i = 0; i < g->n_node; i++) {
        s.at[i] = s.first[i] = s.needs.len;
        add_needs(&s, NULL, g->node[i], scope->depth);
    }
    s.first[g->n_node] = s.needs.len;
    return s;
}

// --- the order ---

// The nodes from place `from` of the stack on need each other in a ring.
static void report_cycle(Sorter *s, uint32_t from)
{
    rlx_assert(from < s->depth);
    OnnxModel *m = s->scope->model;
    Str ring = str_new(m->arena);
    bool is_known = false;
    for (uint32_t i = from; i < s->depth; i++) {
        is_known = is_known || s->is_in_cycle[s->stack[i]];
        s->is_in_cycle[s->stack[i]] = true;
        if (i - from < 6)
            str_printf(&ring, "%s'%s'", i > from ? " needs " : "", onnx_node_label(s->g->node[s->stack[i]]));
    }
    const char *first = onnx_node_label(s->g->node[s->stack[from]]);
    if (!is_known)
        diag_error(m->diag, (Span){.file = m->file, .path = first}, E0106,
                   "nodes need each other's results in a cycle: %s needs %s'%s'", str_text(&ring),
                   s->depth - from > 6 ? "... needs " : "", first);
}

static void open_node(Sorter *s, uint32_t node)
{
    rlx_assert(s->state[node] == FRESH && s->depth < s->g->n_node);
    s->state[node] = OPEN;
    s->stack[s->depth++] = node;
}

static void need_node(Sorter *s, uint32_t node)
{
    uint32_t from = s->depth;
    if (s->state[node] == FRESH)
        open_node(s, node);
    if (s->state[node] != OPEN || s->depth > from)
        return;
    while (s->stack[--from] != node)
        continue;
    report_cycle(s, from);
}

// The node, and before it what it needs and is not placed yet.
static void place_node(Sorter *s, uint32_t node)
{
    open_node(s, node);
    while (s->depth) {
        const uint32_t top = s->stack[s->depth - 1];
        if (s->at[top] < s->first[top + 1]) {
            need_node(s, s->needs.data[s->at[top]++]);
            continue;
        }
        s->state[top] = PLACED;
        s->order[s->n_placed++].node = top;
        s->depth--;
    }
}

const OnnxPlace *onnx_node_order(OnnxScope *scope, const Onnx__GraphProto *g)
{
    OnnxModel *m = scope->model;
    uint64_t known = 0;
    if (g->n_node == 0)
        return NULL;
    if (map_get(&m->orders, &g->node, sizeof g->node, &known))
        return (const OnnxPlace *)(uintptr_t)known;
    Sorter s = new_sorter(scope, g);
    for (uint32_t i = 0; i < g->n_node; i++)
        if (s.state[i] == FRESH)
            place_node(&s, i);
    bool has_cycle = false;
    rlx_assert(s.n_placed == g->n_node && s.depth == 0);
    for (uint32_t i = 0; i < g->n_node; i++) {
        s.order[i].is_in_cycle = s.is_in_cycle[s.order[i].node];
        has_cycle = has_cycle || s.order[i].is_in_cycle;
    }
    if (!has_cycle) // else it is reported again: what a loop is tried with first may be dropped
        map_put(m->arena, &m->orders, &g->node, sizeof g->node, (uint64_t)(uintptr_t)s.order);
    return s.order;
}
