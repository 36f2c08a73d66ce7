// SPDX-License-Identifier: Apache-2.0
// Printing a graph in the text form (see text.h). What equals its default is not printed; all else is, so
// that text_parse.c builds the same nodes.
#include "ir/graph/intern.h"
#include "base/quote.h"
#include "ir/text/text.h"
#include "ir/text/text_element.h"

#include <string.h>

enum { LIST_MAX = 16, INDENT = 2 }; // constants with more elements print as hex

typedef struct Printer {
    const Graph *g;
    Str *out;
    TextStyle style;
    uint32_t indent; // of the lines inside the graph
} Printer;

static void print_graph(const Graph *g, Str *out, TextStyle style, uint32_t indent);

static void begin_line(const Printer *p)
{
    for (uint32_t i = 0; i < p->indent; i++)
        str_char(p->out, ' ');
}

// --- values ---

static bool print_list(const Tensor *t, Str *out)
{
    str_char(out, '{');
    for (int64_t i = 0; i < t->numel; i++) {
        str_add(out, i ? ", " : "");
        if (!element_print(t, i, out))
            return false;
    }
    str_char(out, '}');
    return true;
}

static void print_values(const Printer *p, const Tensor *t)
{
    Str list = str_new(p->g->arena);
    if (t->numel > LIST_MAX && p->style == TEXT_ELIDE) {
        str_add(p->out, " = ...");
    } else if (t->numel <= LIST_MAX && print_list(t, &list)) {
        str_printf(p->out, " = %s", str_text(&list));
    } else {
        str_add(p->out, " = hex\"");
        element_print_hex(t, p->out);
        str_char(p->out, '"');
    }
}

static void print_dims(const Printer *p, const AttrVal *v)
{
    bool is_dims = attr_info[v->id].type == ATTR_DIMS;
    str_char(p->out, '[');
    for (uint64_t i = 0; i < v->len; i++) {
        str_add(p->out, i ? ", " : "");
        if (is_dims)
            dim_print(p->g->dims, v->u.ints[i], p->out);
        else
            str_printf(p->out, "%lld", (long long)v->u.ints[i]);
    }
    str_char(p->out, ']');
}

static void print_attr(const Printer *p, const AttrVal *v)
{
    Str *out = p->out;
    double number = 0;
    switch (attr_info[v->id].type) {
    case ATTR_INT:
        str_printf(out, "%lld", (long long)v->u.i);
        break;
    case ATTR_BOOL:
        str_add(out, v->u.i ? "true" : "false");
        break;
    case ATTR_DTYPE:
        str_add(out, dtype_info[v->u.i].name);
        break;
    case ATTR_FLOAT:
        memcpy(&number, &v->u.f64_bits, sizeof number);
        str_f64(out, number);
        break;
    case ATTR_STR:
        quote_print(out, v->u.str);
        break;
    case ATTR_INTS:
    case ATTR_DIMS:
        print_dims(p, v);
        break;
    case ATTR_GRAPH:
        print_graph(v->u.graph, out, p->style, p->indent);
        break;
    case ATTR_BLOB:
        diag_bug(__FILE__, __LINE__, "only leaves have blobs");
    }
}

static bool is_default(const AttrVal *v)
{
    const AttrInfo *info = &attr_info[v->id];
    if (!info->dflt)
        return false;
    if (info->type == ATTR_STR)
        return str_equal(v->u.str, info->dflt);
    if (info->type == ATTR_INTS || info->type == ATTR_DIMS)
        return v->len == 0;
    if (info->type == ATTR_BOOL)
        return v->u.i == str_equal(info->dflt, "true");
    if (info->type == ATTR_INT) {
        int64_t dflt = 0;
        return str_parse_i64(info->dflt, strlen(info->dflt), &dflt) && dflt == v->u.i;
    }
    double dflt = 0, value = 0;
    memcpy(&value, &v->u.f64_bits, sizeof value);
    return info->type == ATTR_FLOAT && str_parse_f64(info->dflt, strlen(info->dflt), &dflt) &&
           memcmp(&dflt, &value, sizeof value) == 0;
}

static void print_attrs(const Printer *p, const Node *n)
{
    const char *before = " {";
    for (uint32_t i = 0; i < n->n_attr; i++) {
        if (is_default(&n->attr[i]))
            continue;
        str_printf(p->out, "%s%s = ", before, attr_info[n->attr[i].id].name);
        print_attr(p, &n->attr[i]);
        before = ", ";
    }
    if (*before == ',')
        str_char(p->out, '}');
}

// --- nodes ---

static void print_leaf(const Printer *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    const char *name = leaf_name(n);
    const AttrVal *data = n->op == OP_const ? &n->attr[0] : n->op == OP_input ? NULL : &n->attr[1];
    str_add(p->out, op_info[n->op].name);
    if (name) {
        str_char(p->out, ' ');
        quote_print(p->out, name);
    }
    str_add(p->out, " : ");
    shape_print(p->g->dims, (DType)n->dtype, n->shape, p->out);
    if (n->op != OP_const && (!data || !data->len))
        return;
    Tensor t = {.dtype = (DType)n->dtype, .numel = shape_numel(n->shape)};
    rlx_assert(data->len == type_bytes((DType)n->dtype, n->shape));
    memcpy(&t.data, &data->u.blob, sizeof t.data); // only read
    print_values(p, &t);
}

static void print_operands(const Printer *p, const Node *n)
{
    str_char(p->out, '(');
    for (uint32_t i = 0; i < n->n_src; i++) {
        str_add(p->out, i ? ", " : "");
        if (n->src[i])
            str_printf(p->out, "%%%u", n->src[i]);
        else
            str_char(p->out, '_');
    }
    str_char(p->out, ')');
}

static void print_types(const Printer *p, const Node *n)
{
    str_add(p->out, n->n_results > 1 ? " : (" : " : ");
    shape_print(p->g->dims, (DType)n->dtype, n->shape, p->out);
    for (uint32_t i = 1; i < n->n_results; i++) {
        str_add(p->out, ", ");
        shape_print(p->g->dims, n->results[i].dtype, &n->results[i].shape, p->out);
    }
    str_add(p->out, n->n_results > 1 ? ")" : "");
}

// A label is a comment; one that a comment would not keep as it is goes in quotes.
static void print_label(const Printer *p, const char *label)
{
    size_t n = strlen(label);
    bool is_plain = n > 0 && label[0] != '"' && label[0] != ' ' && label[n - 1] != ' ';
    for (size_t i = 0; i < n; i++)
        is_plain &= (unsigned char)label[i] >= 0x20 && label[i] != 0x7f;
    str_add(p->out, "   # ");
    if (is_plain)
        str_add(p->out, label);
    else
        quote_print(p->out, label);
}

static void print_node(const Printer *p, NodeId id)
{
    const Node *n = graph_node(p->g, id);
    begin_line(p);
    str_printf(p->out, "%%%u = ", id);
    if (op_info[n->op].kind == OPKIND_LEAF) {
        print_leaf(p, id);
    } else {
        str_add(p->out, op_info[n->op].name);
        print_operands(p, n);
        print_attrs(p, n);
        print_types(p, n);
    }
    if (p->g->labels.data[id])
        print_label(p, p->g->labels.data[id]);
    str_char(p->out, '\n');
}

// --- graphs ---

static void print_symbols(const Printer *p)
{
    for (uint32_t i = 0; i < p->g->dims->symbols.len; i++) {
        const Symbol *s = &p->g->dims->symbols.data[i];
        begin_line(p);
        str_add(p->out, "symbol ");
        if (quote_is_plain(s->name))
            str_add(p->out, s->name);
        else
            quote_print(p->out, s->name);
        str_printf(p->out, " [%lld, %lld] multiple %lld", (long long)s->min, (long long)s->max,
                   (long long)s->multiple);
        if (s->has_dflt)
            str_printf(p->out, " default %lld", (long long)s->dflt);
        str_char(p->out, '\n');
    }
}

static void print_ends(const Printer *p)
{
    const Graph *g = p->g;
    for (uint32_t i = 0; i < g->states.len; i++) {
        if (!g->states.data[i].next)
            continue;
        begin_line(p);
        str_printf(p->out, "state %%%u -> %%%u\n", g->states.data[i].node, g->states.data[i].next);
    }
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        const GraphOutput *o = &g->outputs.data[i];
        rlx_assert(o->shape_of <= g->outputs.len && o->node < g->nodes.len);
        begin_line(p);
        str_add(p->out, o->shape_of ? "sizes " : "output ");
        quote_print(p->out, o->shape_of ? g->outputs.data[o->shape_of - 1].name : o->name);
        str_printf(p->out, " = %%%u\n", o->node);
    }
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const GraphExtent *e = &g->extents.data[i];
        begin_line(p);
        str_printf(p->out, "extent %%%u [", e->value);
        dim_print(g->dims, e->dim, p->out);
        str_add(p->out, ", ");
        dim_print(g->dims, e->max, p->out);
        str_add(p->out, "]\n");
    }
    for (uint32_t i = 0; i < g->checks.len; i++) {
        begin_line(p);
        str_printf(p->out, "check %%%u ", g->checks.data[i].cond);
        quote_print(p->out, g->checks.data[i].message);
        str_char(p->out, '\n');
    }
}

// Recursion: as deep as `if` nests, which the importers limit.
static void print_graph(const Graph *g, Str *out, TextStyle style, uint32_t indent)
{
    Printer p = {.g = g, .out = out, .style = style, .indent = indent + INDENT};
    rlx_assert(g->labels.len == g->nodes.len);
    str_add(out, "graph ");
    quote_print(out, g->name);
    str_add(out, " {\n");
    if (indent == 0)
        print_symbols(&p);
    for (NodeId id = 1; id < g->nodes.len; id++)
        print_node(&p, id);
    print_ends(&p);
    p.indent = indent;
    begin_line(&p);
    str_char(out, '}');
}

void graph_print(const Graph *g, Str *out, TextStyle style)
{
    print_graph(g, out, style, 0);
    str_char(out, '\n');
}
