// SPDX-License-Identifier: Apache-2.0
// A graph as the pages draw it. See pages.h.
#include "compiler/system/json_text.h"
#include "compiler/pages/pages.h"
#include <string.h>

enum { SHOWN = 32 }; // entries of a list

static void print_text(const char *text, Str *out)
{
    str_printf(out, "\"%s\"", json_text(out->arena, text));
}

// --- attributes ----------------------------------------------------------------------------------

static void print_list(const Graph *g, const AttrVal *v, Str *out)
{
    for (uint64_t i = 0; i < v->len && i < SHOWN; i++) {
        str_add(out, i == 0 ? "" : ", ");
        if (attr_info[v->id].type == ATTR_DIMS)
            dim_print(g->dims, v->u.ints[i], out);
        else
            str_printf(out, "%lld", (long long)v->u.ints[i]);
    }
    if (v->len > SHOWN)
        str_printf(out, ", ... (%llu in all)", (unsigned long long)v->len);
}

// As one reads it, not as JSON.
static const char *attr_text(const Graph *g, const AttrVal *v, Arena *a)
{
    Str text = str_new(a);
    double f = 0;
    switch (attr_info[v->id].type) {
    case ATTR_INT:
        str_printf(&text, "%lld", (long long)v->u.i);
        break;
    case ATTR_BOOL:
        str_add(&text, v->u.i ? "true" : "false");
        break;
    case ATTR_DTYPE:
        str_add(&text, dtype_info[v->u.i].name);
        break;
    case ATTR_FLOAT:
        memcpy(&f, &v->u.f64_bits, sizeof f);
        str_f64(&text, f);
        break;
    case ATTR_STR:
        str_add(&text, v->u.str);
        break;
    case ATTR_INTS:
    case ATTR_DIMS:
        print_list(g, v, &text);
        break;
    case ATTR_GRAPH:
        str_printf(&text, "graph of %u nodes", v->u.graph->nodes.len - 1);
        break;
    case ATTR_BLOB:
        str_printf(&text, "%llu bytes", (unsigned long long)v->len);
        break;
    }
    return str_text(&text);
}

// Leaves have their name and bytes as attributes, which say nothing more.
static void print_attrs(const Graph *g, const Node *n, Str *out)
{
    const bool is_leaf = op_info[n->op].kind == OPKIND_LEAF;
    str_add(out, ", \"attrs\": [");
    for (uint32_t i = 0; i < n->n_attr && !is_leaf; i++) {
        str_printf(out, "%s[\"%s\", ", i == 0 ? "" : ", ", attr_info[n->attr[i].id].name);
        print_text(attr_text(g, &n->attr[i], out->arena), out);
        str_add(out, "]");
    }
    str_add(out, "]");
}

// --- nodes ---------------------------------------------------------------------------------------

static void print_type(const Graph *g, const Node *n, Str *out)
{
    Str type = str_new(out->arena);
    shape_print(g->dims, (DType)n->dtype, n->shape, &type);
    print_text(str_text(&type), out);
}

static bool is_hidden(const Graph *g, NodeId id)
{
    return graph_node(g, id)->op == OP_const;
}

// Constants are no nodes of the drawing: they would be more than half of it.
static void print_operands(const Graph *g, const Node *n, Str *out)
{
    const char *comma = "";
    str_add(out, ", \"in\": [");
    for (uint32_t i = 0; i < n->n_src; i++) {
        const NodeId id = n->src[i];
        if (id == 0)
            continue;
        str_add(out, comma);
        comma = ", ";
        if (!is_hidden(g, id)) {
            str_printf(out, "%u", id);
            continue;
        }
        str_add(out, "{\"name\": ");
        print_text(node_name(g, id), out);
        str_add(out, ", \"type\": ");
        print_type(g, graph_node(g, id), out);
        str_add(out, "}");
    }
    str_add(out, "]");
}

static const char *kind_of(OpId op)
{
    if (op_info[op].kind == OPKIND_LEAF)
        return "leaf";
    if (op_is_pointwise(op))
        return "point";
    return (op_info[op].flags & OPFLAG_VIEW) != 0 ? "view" : "other";
}

static void print_node(const Graph *g, NodeId id, Str *out)
{
    const Node *n = graph_node(g, id);
    str_printf(out, "{\"id\": %u, \"op\": \"%s\", \"kind\": \"%s\", \"name\": ", id, op_info[n->op].name,
               kind_of((OpId)n->op));
    print_text(node_name(g, id), out);
    str_add(out, ", \"type\": ");
    print_type(g, n, out);
    print_attrs(g, n, out);
    print_operands(g, n, out);
    str_add(out, "}");
}

bool *pages_needed(const Graph *g, Arena *a)
{
    return graph_mark_needed(g, ROOT_RESULTS | ROOT_STATE | ROOT_INPUT, a);
}

const char *pages_graph(Arena *a, const Graph *g)
{
    Str text = str_new(a), *out = &text;
    const bool *needed = pages_needed(g, a);
    const char *comma = "";
    str_add(out, "{\"nodes\": [");
    for (NodeId id = 1; id < g->nodes.len; id++) {
        if (!needed[id] || is_hidden(g, id))
            continue;
        str_printf(out, "%s\n", comma);
        print_node(g, id, out);
        comma = ",";
    }
    str_add(out, "],\n\"outputs\": [");
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        str_printf(out, "%s{\"node\": %u, \"name\": ", i == 0 ? "" : ", ", g->outputs.data[i].node);
        print_text(g->outputs.data[i].name, out);
        str_add(out, ", \"type\": ");
        print_type(g, graph_node(g, g->outputs.data[i].node), out);
        str_add(out, "}");
    }
    str_add(out, "],\n\"states\": [");
    for (uint32_t i = 0; i < g->states.len; i++)
        str_printf(out, "%s{\"node\": %u, \"next\": %u}", i == 0 ? "" : ", ", g->states.data[i].node,
                   g->states.data[i].next);
    str_add(out, "]}");
    return str_text(out);
}
