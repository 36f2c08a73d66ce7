// SPDX-License-Identifier: Apache-2.0
// The nodes of a plan's graph in boxes, one for each kernel, as Graphviz reads them. See pages.h.
#include "compiler/system/rawfile.h"
#include "compiler/pages/pages.h"
#include <string.h>

// Names are the model's: quotes would end the string, backslashes and line ends would mean something.
static void print_label(const char *text, Str *out)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
        if (*c == '"' || *c == '\\')
            str_printf(out, "\\%c", *c);
        else
            str_char(out, *c < 0x20 || *c == 0x7f ? ' ' : (char)*c);
}

static void print_node(const Graph *g, NodeId id, const char *indent, Str *out)
{
    const Node *n = graph_node(g, id);
    const bool is_leaf = op_info[n->op].kind == OPKIND_LEAF;
    Str type = str_new(out->arena);
    shape_print(g->dims, (DType)n->dtype, n->shape, &type);
    str_printf(out, "%sn%u [label=\"", indent, id);
    print_label(node_name(g, id), out);
    str_printf(out, "\\n%s %s\"%s];\n", op_info[n->op].name, str_text(&type),
               is_leaf ? ", shape=ellipse" : "");
}

// A node that several kernels compute is in the first of them.
static void print_kernel(const Plan *p, uint32_t i, bool *is_drawn, Str *out)
{
    const PlanKernel *k = &p->kernels.data[i];
    str_printf(out, "  subgraph cluster_%u {\n    label=\"", i);
    print_label(k->kernel->name, out);
    str_add(out, "\";\n");
    for (uint32_t b = 0; b < k->body.len; b++) {
        const NodeId id = k->body.data[b];
        if (!is_drawn[id])
            print_node(p->graph, id, "    ", out);
        is_drawn[id] = true;
    }
    str_add(out, "  }\n");
}

static void print_edges(const Graph *g, const bool *needed, Str *out)
{
    for (NodeId id = 1; id < g->nodes.len; id++)
        for (uint32_t i = 0; needed[id] && i < graph_node(g, id)->n_src; i++) {
            const NodeId src = graph_node(g, id)->src[i];
            if (src != 0 && !node_is_const(g, src))
                str_printf(out, "  n%u -> n%u;\n", src, id);
        }
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        str_printf(out, "  out%u [shape=ellipse, label=\"", i);
        print_label(g->outputs.data[i].name, out);
        str_printf(out, "\"];\n  n%u -> out%u;\n", g->outputs.data[i].node, i);
    }
    for (uint32_t i = 0; i < g->states.len; i++)
        str_printf(out, "  n%u -> n%u [style=dashed, constraint=false];\n", g->states.data[i].next,
                   g->states.data[i].node);
}

static const char *print_graph(const Job *j)
{
    const Plan *p = j->plan;
    const Graph *g = p->graph;
    Str text = str_new(j->cli->arena), *out = &text;
    const bool *needed = pages_needed(g, j->cli->arena);
    bool *is_drawn = ARENA_ARRAY(j->cli->arena, bool, g->nodes.len + 1u);
    str_add(out, "digraph \"");
    print_label(j->host.name, out);
    str_add(out, "\" {\n  node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=10];\n"
                 "  graph [fontname=\"sans-serif\", fontsize=10, style=rounded, color=gray];\n");
    for (uint32_t i = 0; i < p->kernels.len; i++)
        print_kernel(p, i, is_drawn, out);
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (needed[id] && !is_drawn[id] && !node_is_const(g, id))
            print_node(g, id, "  ", out);
    print_edges(g, needed, out);
    str_add(out, "}\n");
    return str_text(out);
}

bool pages_write_dot(Job *j, const char *path)
{
    rlx_assert(j->plan != NULL);
    const char *text = print_graph(j);
    return strcmp(path, "-") == 0 ? fputs(text, stdout) >= 0 : rawfile_write_text(j->cli->diag, path, text);
}
