// SPDX-License-Identifier: Apache-2.0
// A graph as a JSON model (docs/FORMAT.md): which nodes it needs, their names, and the sections. Constants
// that are too long for the text are collected for the .safetensors file beside it.
#include "compiler/export/json_write.h"
#include "compiler/import/import.h"
#include "compiler/import/tensors/safetensors.h"
#include "compiler/system/json_scan.h"
#include "ir/graph/intern.h"

#include <math.h>
#include <string.h>

enum { MAX_INLINE = 16 };

typedef struct Document {
    Arena scratch;
    Str out;
    const char *weights_file; // as the JSON names it; NULL: everything goes into the text
    SafeTensors weights;      // for that file
    Map tensor_names;
} Document;

typedef struct Writer {
    Document *doc;
    const Graph *g;
    const char **names; // by NodeId, of the nodes that are written; NULL: not needed by name
    bool *is_live;
    NodeId **results; // by NodeId, of live nodes with several results: the `result` nodes by index
    Map used;
    uint32_t n_named; // nodes without a name in the graph, which are numbered: not by id, so that nodes that
                      // nothing needs do not show
    const char
        *line; // what stands between the entries of a list: a new line in the model, a space in sub-graphs
    const char *indent; // of members
} Writer;

static void write_graph(Writer *w);

// --- what is needed --------------------------------------------------

// Constants that can be written as a number where they are used.
static bool is_number(const Writer *w, NodeId id)
{
    double v = 0;
    const Node *n = graph_node(w->g, id);
    if (n->op != OP_const || n->shape->rank != 0 || !node_is_scalar_const(w->g, id, &v))
        return false;
    return isfinite(v) && fabs(v) < 9007199254740992.0;
}

// The element type that the reader gives to numbers at operand `at` (docs/FORMAT.md). False: a number cannot
// stand there.
static bool number_type(const Writer *w, const Node *n, uint32_t at, DType *out)
{
    if (json_is_index((OpId)n->op, at)) {
        *out = DTYPE_i64;
        return true;
    }
    for (uint32_t i = op_info[n->op].ew == EW_SEL; i < n->n_src; i++) {
        if (n->src[i] && !is_number(w, n->src[i])) {
            *out = (DType)graph_node(w->g, n->src[i])->dtype;
            return true;
        }
    }
    return false;
}

static bool is_inline(const Writer *w, const Node *n, uint32_t at)
{
    DType dtype = DTYPE_f32;
    NodeId src = n->src[at];
    if (!src || !is_number(w, src))
        return false;
    if (graph_node(w->g, src)->dtype == DTYPE_bool)
        return true;
    return number_type(w, n, at, &dtype) && dtype == graph_node(w->g, src)->dtype;
}

static void need_name(Writer *w, NodeId id)
{
    rlx_assert(id < w->g->nodes.len);
    w->is_live[id] = true;
    if (!w->names[id])
        w->names[id] = ""; // given by name_nodes
}

static void mark_operands(Writer *w, NodeId id)
{
    const Node *n = graph_node(w->g, id);
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] && !is_inline(w, n, i))
            need_name(w, n->src[i]);
    if (node_result(n) == 0)
        return;
    rlx_assert(n->n_src >= 1 && node_result(n) < NODE_MAX_RESULTS);
    NodeId whole = n->src[0];
    if (!w->results[whole])
        w->results[whole] = ARENA_ARRAY(&w->doc->scratch, NodeId, NODE_MAX_RESULTS);
    w->results[whole][node_result(n)] = id;
}

// From the roots back; operands come before their users.
static void mark_live(Writer *w)
{
    const Graph *g = w->g;
    for (RootWalk r = {0}; graph_next_root(g, ROOT_ALL & ~(ROOT_SIZE | ROOT_PAGE), &r);)
        need_name(w, r.id);
    for (uint32_t i = 0; i < g->params.len; i++)
        need_name(w, g->params.data[i]);
    for (NodeId id = g->nodes.len - 1; id > 0; id--)
        if (w->is_live[id])
            mark_operands(w, id);
}

static void name_node(Writer *w, NodeId id)
{
    rlx_assert(w->is_live[id]);
    const Node *n = graph_node(w->g, id);
    const char *label = leaf_name(n) ? leaf_name(n) : w->g->labels.data[id];
    Arena *a = &w->doc->scratch;
    const char *kind = n->op == OP_const ? "const" : "v";
    const char *name = label ? json_clean_name(a, label) : arena_printf(a, "%s%u", kind, ++w->n_named);
    w->names[id] = json_unique_name(a, &w->used, name);
}

// Leaves first: theirs are the names that users of the model see.
static void name_nodes(Writer *w)
{
    for (uint32_t is_leaf = 2; is_leaf-- > 0;)
        for (NodeId id = 1; id < w->g->nodes.len; id++)
            if (w->is_live[id] && (leaf_name(graph_node(w->g, id)) != NULL) == is_leaf)
                name_node(w, id);
}

// --- sections --------------------------------------------------

// ,\n  "title": [
static void open_section(Writer *w, const char *title, char bracket)
{
    rlx_assert(w->doc->out.len != 0);
    Str *out = &w->doc->out;
    char last = out->data[out->len - 1];
    str_add(out, last == '{' ? "" : ",");
    str_add(out, last == '{' && !*w->indent ? "" : w->line);
    str_printf(out, "%s\"%s\": %c", w->indent, title, bracket);
}

// Before each entry of a section.
static void next_entry(Writer *w)
{
    Str *out = &w->doc->out;
    char last = out->data[out->len - 1];
    bool is_first = last == '{' || last == '[';
    str_add(out, is_first ? "" : ",");
    str_add(out, is_first && !*w->indent ? "" : w->line);
    str_add(out, *w->indent ? "    " : "");
}

static void close_section(Writer *w, char bracket)
{
    Str *out = &w->doc->out;
    char last = out->data[out->len - 1];
    if (*w->indent && last != '{' && last != '[')
        str_printf(out, "\n%s", w->indent);
    str_char(out, bracket);
}

static void write_symbols(Writer *w)
{
    Str *out = &w->doc->out;
    const DimTable *dims = w->g->dims;
    if (!dims->symbols.len)
        return;
    open_section(w, "symbols", '{');
    for (uint32_t i = 0; i < dims->symbols.len; i++) {
        const Symbol *s = &dims->symbols.data[i];
        next_entry(w);
        json_print_string(out, s->name);
        str_printf(out, ": {\"min\": %lld, \"max\": %lld", (long long)s->min, (long long)s->max);
        if (s->multiple != 1)
            str_printf(out, ", \"multiple\": %lld", (long long)s->multiple);
        if (s->has_dflt)
            str_printf(out, ", \"default\": %lld", (long long)s->dflt);
        str_char(out, '}');
    }
    close_section(w, '}');
}

static void write_type(Writer *w, const Node *n)
{
    str_printf(&w->doc->out, "\"dtype\": \"%s\", \"shape\": ", dtype_info[n->dtype].name);
    json_write_dims(&w->doc->out, w->g->dims, n->shape->dim, n->shape->rank);
}

static void write_values(Writer *w, const char *name, const Tensor *t)
{
    Str *out = &w->doc->out;
    if (w->doc->weights_file == NULL || (t->numel <= MAX_INLINE && json_keeps_bits(t))) {
        str_add(out, t->rank ? ", \"data\": [" : ", \"data\": ");
        for (int64_t i = 0; i < t->numel; i++) {
            str_add(out, i ? ", " : "");
            json_write_element(out, t, i);
        }
        str_add(out, t->rank ? "]" : "");
        return;
    }
    SafeTensor st = {json_unique_name(&w->doc->scratch, &w->doc->tensor_names, name), *t};
    vec_push(&w->doc->scratch, &w->doc->weights.tensors, st);
    str_add(out, ", \"file\": ");
    json_print_string(out, w->doc->weights_file);
    str_add(out, ", \"tensor\": ");
    json_print_string(out, st.name);
}

// One leaf as "name": {...}; blob: its values, NULL for none. next: of a state.
static void write_leaf(Writer *w, NodeId id, const AttrVal *blob, NodeId next)
{
    rlx_assert(w->names[id] != NULL);
    Str *out = &w->doc->out;
    const Node *n = graph_node(w->g, id);
    next_entry(w);
    json_print_string(out, w->names[id]);
    str_add(out, ": {");
    write_type(w, n);
    if (blob && (blob->len || n->op == OP_const)) {
        Tensor t = {.dtype = (DType)n->dtype, .rank = n->shape->rank, .numel = shape_numel(n->shape)};
        memcpy(t.dim, n->shape->dim, sizeof t.dim);
        memcpy(&t.data, &blob->u.blob, sizeof t.data); // Tensor.data is not const; it is only read here
        write_values(w, w->names[id], &t);
    }
    if (next) {
        str_add(out, ", \"next\": ");
        json_print_string(out, w->names[next]);
    }
    str_char(out, '}');
}

static void write_leaves(Writer *w)
{
    const Graph *g = w->g;
    open_section(w, "inputs", '{');
    for (uint32_t i = 0; i < g->inputs.len; i++)
        write_leaf(w, g->inputs.data[i], NULL, 0);
    close_section(w, '}');
    open_section(w, "weights", '{');
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (w->names[id] && node_is_const(g, id))
            write_leaf(w, id, node_attr(graph_node(g, id), A_const_data), 0);
    close_section(w, '}');
    if (g->params.len) {
        open_section(w, "params", '{');
        for (uint32_t i = 0; i < g->params.len; i++)
            write_leaf(w, g->params.data[i], node_attr(graph_node(g, g->params.data[i]), A_param_init), 0);
        close_section(w, '}');
    }
    if (!g->states.len)
        return;
    open_section(w, "states", '{');
    for (uint32_t i = 0; i < g->states.len; i++) {
        GraphState s = g->states.data[i];
        write_leaf(w, s.node, node_attr(graph_node(g, s.node), A_state_init), s.next);
    }
    close_section(w, '}');
}

// --- nodes --------------------------------------------------

static void write_subgraph(Writer *parent, const Graph *g)
{
    Writer w = {.doc = parent->doc, .g = g, .line = " ", .indent = ""};
    str_char(&w.doc->out, '{');
    write_graph(&w);
    str_char(&w.doc->out, '}');
}

static void write_attr(Writer *w, const AttrVal *v)
{
    Str *out = &w->doc->out;
    double f = 0;
    switch (attr_info[v->id].type) {
    case ATTR_INT:
        json_write_element(out, &(Tensor){.dtype = DTYPE_i64, .numel = 1, .data = &(int64_t){v->u.i}}, 0);
        break;
    case ATTR_BOOL:
        str_add(out, v->u.i ? "true" : "false");
        break;
    case ATTR_DTYPE:
        json_print_string(out, dtype_info[v->u.i].name);
        break;
    case ATTR_FLOAT:
        memcpy(&f, &v->u.f64_bits, sizeof f);
        json_write_float(out, f);
        break;
    case ATTR_STR:
        json_print_string(out, v->u.str);
        break;
    case ATTR_INTS:
        json_write_ints(out, v->u.ints, v->len);
        break;
    case ATTR_DIMS:
        json_write_dims(out, w->g->dims, v->u.ints, v->len);
        break;
    case ATTR_GRAPH:
        write_subgraph(w, v->u.graph);
        break;
    case ATTR_BLOB:
        rlx_assert(v->len == 0); // only leaves have bytes
        break;
    }
}

static void write_operands(Writer *w, const Node *n)
{
    Str *out = &w->doc->out;
    str_add(out, ", \"inputs\": [");
    for (uint32_t i = 0; i < n->n_src; i++) {
        str_add(out, i ? ", " : "");
        if (is_inline(w, n, i)) {
            Tensor t = tensor_of_const(w->g, n->src[i]);
            json_write_element(out, &t, 0);
        } else if (n->src[i]) {
            json_print_string(out, w->names[n->src[i]]);
        } else {
            str_add(out, "null");
        }
    }
    str_char(out, ']');
}

static void write_results(Writer *w, NodeId id)
{
    Str *out = &w->doc->out;
    const NodeId *results = w->results[id];
    uint32_t n = graph_node(w->g, id)->n_results;
    str_add(out, "\"outputs\": [");
    while (n > 1 && !results[n - 1])
        n--;
    for (uint32_t i = 0; i < n; i++) {
        NodeId result = i ? results[i] : id;
        str_add(out, i ? ", " : "");
        if (result)
            json_print_string(out, w->names[result]);
        else
            str_add(out, "null");
    }
    str_add(out, "], ");
}

static void write_node(Writer *w, NodeId id)
{
    Str *out = &w->doc->out;
    const Node *n = graph_node(w->g, id);
    next_entry(w);
    str_char(out, '{');
    if (w->results[id]) {
        write_results(w, id);
    } else {
        str_add(out, "\"name\": ");
        json_print_string(out, w->names[id]);
        str_add(out, ", ");
    }
    str_printf(out, "\"op\": \"%s\"", op_info[n->op].name);
    write_operands(w, n);
    for (uint32_t i = 0; i < n->n_attr; i++) {
        if (attr_info[n->attr[i].id].type == ATTR_BLOB)
            continue;
        str_printf(out, ", \"%s\": ", attr_info[n->attr[i].id].name);
        write_attr(w, &n->attr[i]);
    }
    str_char(out, '}');
}

static void write_outputs(Writer *w)
{
    Str *out = &w->doc->out;
    const Graph *g = w->g;
    Map used = {0};
    bool is_plain = true;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        is_plain &= str_equal(g->outputs.data[i].name, w->names[g->outputs.data[i].node]);
    open_section(w, "outputs", is_plain ? '[' : '{');
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        const char *label = json_clean_name(&w->doc->scratch, g->outputs.data[i].name);
        next_entry(w);
        if (!is_plain) {
            json_print_string(out, json_unique_name(&w->doc->scratch, &used, label));
            str_add(out, ": ");
        }
        json_print_string(out, w->names[g->outputs.data[i].node]);
    }
    close_section(w, is_plain ? ']' : '}');
}

static void write_extents(Writer *w)
{
    const Graph *g = w->g;
    Str *out = &w->doc->out;
    if (g->extents.len == 0)
        return;
    open_section(w, "extents", '[');
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const GraphExtent *e = &g->extents.data[i];
        next_entry(w);
        str_add(out, "{\"value\": ");
        json_print_string(out, w->names[e->value]);
        str_add(out, ", \"size\": ");
        json_write_dims(out, g->dims, (const Dim[]){e->dim, e->max}, 2);
        str_char(out, '}');
    }
    close_section(w, ']');
}

static void write_checks(Writer *w)
{
    Str *out = &w->doc->out;
    if (w->g->checks.len == 0)
        return;
    open_section(w, "checks", '[');
    for (uint32_t i = 0; i < w->g->checks.len; i++) {
        next_entry(w);
        str_add(out, "{\"cond\": ");
        json_print_string(out, w->names[w->g->checks.data[i].cond]);
        str_add(out, ", \"message\": ");
        json_print_string(out, w->g->checks.data[i].message);
        str_char(out, '}');
    }
    close_section(w, ']');
}

// The sections that models and sub-graphs have.
static void write_graph(Writer *w)
{
    uint32_t n = w->g->nodes.len;
    w->names = ARENA_ARRAY(&w->doc->scratch, const char *, n);
    w->is_live = ARENA_ARRAY(&w->doc->scratch, bool, n);
    w->results = ARENA_ARRAY(&w->doc->scratch, NodeId *, n);
    mark_live(w);
    name_nodes(w);
    write_leaves(w);
    open_section(w, "nodes", '[');
    for (NodeId id = 1; id < n; id++) {
        const Node *node = graph_node(w->g, id);
        if (w->is_live[id] && node->op != OP_const && node_result(node) == 0 && !leaf_name(node))
            write_node(w, id);
    }
    close_section(w, ']');
    write_outputs(w);
    write_checks(w);
    write_extents(w);
}

static void write_document(Document *doc, const Graph *g)
{
    Writer w = {.doc = doc, .g = g, .line = "\n", .indent = "  "};
    doc->out = str_new(&doc->scratch);
    str_add(&doc->out, "{\n  \"rlxc\": 1,\n  \"name\": ");
    json_print_string(&doc->out, json_clean_name(&doc->scratch, g->name));
    write_symbols(&w);
    write_graph(&w);
    str_add(&doc->out, "\n}\n");
}

bool import_export_json(const Graph *g, const char *json_path, Diag *d)
{
    Document doc = {0};
    bool has_suffix = str_ends_with(json_path, ".json");
    size_t stem = strlen(json_path) - (has_suffix ? strlen(".json") : 0);
    const char *weights_path = arena_printf(&doc.scratch, "%.*s.safetensors", (int)stem, json_path);
    const char *slash = strrchr(weights_path, '/');
    doc.weights_file = slash ? slash + 1 : weights_path;
    write_document(&doc, g);
    FilePart text = {doc.out.data, doc.out.len};
    if (g->notes != NULL)
        doc.weights.notes = *g->notes;
    OutputFiles files;
    bool ok = output_begin(&files, d, "", 2);
    if (doc.weights.tensors.len != 0)
        ok = ok && safetensors_write(&files, weights_path, &doc.weights);
    ok = ok && output_add_parts(&files, json_path, &text, 1);
    ok = output_end(&files, ok);
    arena_free(&doc.scratch);
    return ok;
}

void import_print_json(const Graph *g, Str *out)
{
    Document doc = {0};
    write_document(&doc, g);
    str_add_n(out, doc.out.data, doc.out.len);
    arena_free(&doc.scratch);
}
