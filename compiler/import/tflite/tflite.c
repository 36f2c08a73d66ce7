// SPDX-License-Identifier: Apache-2.0
// A .tflite model to a graph: inputs, the operators of a sub-graph in their order, variables, outputs. The
// rules of operators are in the files of ops.
//
// Sizes that the file leaves open are the numbers that it has for them, as in an interpreter whose inputs are
// not resized, unless the user gives others (--dim, --shape, an input), or a range, in which they then stay
// open.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

enum {
    OPERATOR_CODE = 0,
    OPERATOR_INPUTS = 1,
    OPERATOR_OUTPUTS = 2,
    OPERATOR_TYPE = 3,
    OPERATOR_OPTIONS = 4,
    OPERATOR_CUSTOM = 5,
    OPERATOR_NEW_TYPE = 11,
    OPERATOR_NEW_OPTIONS = 12
};
enum { CUSTOM = 32 };

bool tflite_is(const void *data, size_t len)
{
    return len >= 8 && memcmp((const char *)data + 4, "TFL3", 4) == 0;
}

static bool broken(const TflModel *m)
{
    return diag_error(m->diag, (Span){.file = m->span_file}, E0113, "the file is damaged: %s (at byte %zu)",
                      m->file.flat.broken, m->file.flat.broken_at);
}

// --- operators ---

// Space and control characters of names would look odd in messages.
static const char *label_of(TflModel *m, const char *name, uint32_t index, const char *what)
{
    char *text = name[0] ? arena_strdup(m->arena, name) : arena_printf(m->arena, "%s_%u", what, index);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '_';
    return text;
}

static int64_t *read_tensors(TflModel *m, FlatTable t, uint32_t field, uint32_t *n)
{
    const FlatList l = flat_list(t, field, 4);
    int64_t *v = ARENA_ARRAY(m->arena, int64_t, l.n + 1);
    for (uint32_t i = 0; i < l.n; i++)
        v[i] = flat_list_int(l, i, FLAT_I32);
    *n = l.n;
    return v;
}

static void check_all_used(TflNode *n)
{
    for (uint32_t i = 0; i < n->n_in && !n->failed; i++)
        if (n->in[i] >= 0 && !n->in_used[i])
            tfl_fail(n, E0202, "operand %u is not supported", i);
    for (uint32_t i = 0; i < n->options.count && !n->failed; i++)
        if (flat_has(n->options, i) && !(i < 64 && n->options_used >> i & 1))
            tfl_fail(n, E0206, "option %u is not supported", i);
}

static bool import_operator(TflScope *s, FlatTable t, uint32_t index)
{
    TflModel *m = s->model;
    int32_t code = 0;
    const char *custom = "";
    TflNode n = {.model = m, .scope = s, .graph = s->graph};
    n.in = read_tensors(m, t, OPERATOR_INPUTS, &n.n_in);
    n.out = read_tensors(m, t, OPERATOR_OUTPUTS, &n.n_out);
    n.in_used = ARENA_ARRAY(m->arena, bool, n.n_in + 1);
    if (m->file.flat.broken)
        return false;
    const TflTensor *first =
        n.n_out && n.out[0] >= 0 && n.out[0] < s->of->n_tensors ? &s->of->tensors[n.out[0]] : NULL;
    n.label = label_of(m, first ? first->name : "", index, "operator");
    n.span = (Span){.file = m->span_file, .path = n.label};
    if (!tfl_file_code(&m->file, flat_int(t, OPERATOR_CODE, FLAT_U32, 0), &code, &custom))
        return m->file.flat.broken == NULL &&
               diag_error(m->diag, n.span, E0113, "operator '%s': its code does not exist", n.label);
    const TflOp own = {.name = custom, .import = tfl_import_custom};
    n.custom = flat_list(t, OPERATOR_CUSTOM, 1);
    n.op = code != CUSTOM ? tfl_op_find(code) : tfl_custom_find(m, custom) ? &own : tfl_op_named(custom);
    if (!n.op && code == CUSTOM)
        return diag_error(
            m->diag, n.span, E0206,
            "operator '%s': the custom operator '%s' is not supported, and no --custom file declares it",
            n.label, custom);
    if (!n.op)
        return diag_error(m->diag, n.span, E0206, "operator '%s': operator code %d is not supported", n.label,
                          code);
    for (uint32_t i = 0; i < n.n_out; i++)
        if (n.out[i] < -1 || n.out[i] >= s->of->n_tensors || (n.out[i] >= 0 && s->values[n.out[i]]))
            return tfl_fail(&n, E0113, "result %u is tensor %lld, which %s", i, (long long)n.out[i],
                            n.out[i] >= 0 && n.out[i] < s->of->n_tensors ? "is written already"
                                                                         : "does not exist");
    n.options = flat_table(t, n.op->is_new ? OPERATOR_NEW_OPTIONS : OPERATOR_OPTIONS);
    const int64_t type = flat_int(t, n.op->is_new ? OPERATOR_NEW_TYPE : OPERATOR_TYPE, FLAT_U8, 0);
    const int64_t other = flat_int(t, n.op->is_new ? OPERATOR_TYPE : OPERATOR_NEW_TYPE, FLAT_U8, 0);
    if (other != 0 || (type != 0 && type != n.op->options))
        return tfl_fail(&n, E0113, "its options are those of another operator (%lld)",
                        (long long)(other ? other : type));
    n.op->import(&n);
    check_all_used(&n);
    return !n.failed && !m->file.flat.broken;
}

bool tfl_scope(TflScope *s, TflScope *outer, Graph *graph, const TflGraph *of)
{
    *s = (TflScope){.model = outer->model, .graph = graph, .of = of, .depth = outer->depth + 1};
    s->values = ARENA_ARRAY(s->model->arena, NodeId, of->n_tensors + 1);
    s->handles = ARENA_ARRAY(s->model->arena, uint32_t, of->n_tensors + 1);
    s->has_states = outer->has_states && graph == outer->graph;
    s->is_first = outer->is_first;
    return s->depth <= TFL_MAX_DEPTH;
}

static bool import_operators(TflScope *s)
{
    TflModel *m = s->model;
    bool ok = true;
    m->n_imported += s->of->operators.n;
    if (m->n_imported > TFL_MAX_IMPORTED)
        return diag_error(m->diag, (Span){.file = m->span_file}, E0004,
                          "the sub-graphs have together more than %d operators", TFL_MAX_IMPORTED);
    for (uint32_t i = 0; i < s->of->operators.n; i++) {
        ok = import_operator(s, flat_list_table(s->of->operators, i), i) && ok;
        if (!ok && (m->file.flat.broken || m->diag->n_errors >= DIAG_MAX_ERRORS))
            return false;
        if (!ok) // what reads the results of one that failed would only say so again
            break;
    }
    return ok;
}

// Tensor i of a list of a sub-graph. -1: it does not exist (reported).
static int64_t listed(const TflScope *s, FlatList l, uint32_t i, const char *what)
{
    const int64_t t = flat_list_int(l, i, FLAT_I32);
    if (t >= 0 && t < s->of->n_tensors)
        return t;
    diag_error(s->model->diag, (Span){.file = s->model->span_file}, E0113,
               "%s %u is tensor %lld, which does not exist", what, i, (long long)t);
    return -1;
}

bool tfl_import_graph(TflScope *s, Span span, const NodeId *in, uint32_t n_in, NodeId *out, uint32_t n_out)
{
    TflModel *m = s->model;
    TflNode reader = {.model = m, .scope = s, .graph = s->graph, .label = s->of->name, .span = span};
    static const TflOp results = {.name = "results of a sub-graph"};
    reader.op = &results;
    if (s->of->inputs.n != n_in || s->of->outputs.n != n_out)
        return diag_error(m->diag, span, E0113,
                          "a sub-graph has %u inputs and %u outputs, expected %u and %u", s->of->inputs.n,
                          s->of->outputs.n, n_in, n_out);
    for (uint32_t i = 0; i < n_in; i++) {
        const int64_t t = listed(s, s->of->inputs, i, "input");
        if (t < 0)
            return false;
        s->values[t] = in[i];
    }
    if (!import_operators(s))
        return false;
    reader.in = read_tensors(m, s->of->table, 2, &reader.n_in);
    reader.in_used = ARENA_ARRAY(m->arena, bool, reader.n_in + 1);
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = tfl_src(&reader, i);
    return !reader.failed;
}

const TflGraph *tfl_subgraph(TflNode *n, int64_t index)
{
    const TflGraph *g = tfl_file_graph(&n->model->file, index);
    if (!g && !n->model->file.flat.broken)
        tfl_fail(n, E0113, "sub-graph %lld does not exist", (long long)index);
    n->failed = n->failed || !g;
    return g;
}

// --- inputs ---

static const ImportSize *find_size(const ImportOptions *o, const char *name, const char *number)
{
    for (uint32_t i = 0; i < o->n_sizes; i++)
        if (str_equal(o->sizes[i].name, name) || str_equal(o->sizes[i].name, number))
            return &o->sizes[i];
    return NULL;
}

static int64_t given_size(const ImportOptions *o, const char *input, uint32_t rank, uint32_t axis)
{
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (str_equal(o->shapes[i].name, input) && o->shapes[i].rank == rank)
            return o->shapes[i].dim[axis];
    return -1;
}

// The size of an axis that the file leaves open. A symbol is made in any case, so that --dim may name it.
static Dim open_size(TflModel *m, Graph *g, const char *input, uint32_t index, const TflTensor *t,
                     uint32_t axis)
{
    const ImportOptions *o = &m->source->options;
    const char *number = arena_printf(m->arena, "input%u_dim%u", index, axis);
    const char *name = arena_printf(m->arena, "%s_dim%u", input, axis);
    const ImportSize *size = find_size(o, name, number);
    const int64_t given = given_size(o, input, t->shape.rank, axis);
    const bool is_number = size && str_equal(size->name, number);
    const Dim d = dim_symbol(g->dims, is_number ? number : name, 0, IMPORT_OPEN_MAX, 1);
    const int32_t symbol = dim_as_symbol(g->dims, d);
    if (symbol < 0)
        return t->shape.dim[axis];
    const int64_t first = size && !size->is_range ? size->value : t->shape.dim[axis];
    if (first >= 1 && first <= IMPORT_OPEN_MAX)
        dim_set_default(g->dims, g->dims->symbols.data[symbol].name, first);
    if (size && size->is_range) {
        g->dims->symbols.data[symbol].min = size->min > 0 || size->is_open || size->keeps_min;
        return d;
    }
    return size ? size->value : given >= 0 ? given : t->shape.dim[axis];
}

static const char *signature_name(const TflName *names, uint32_t n, int64_t tensor)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i].tensor == (uint64_t)tensor && names[i].name[0])
            return names[i].name;
    return NULL;
}

static bool import_input(TflScope *s, uint32_t index)
{
    TflModel *m = s->model;
    const int64_t tensor = listed(s, s->of->inputs, index, "input");
    if (tensor < 0)
        return false;
    const TflTensor *t = &s->of->tensors[tensor];
    const char *given =
        m->signature ? signature_name(m->signature->inputs, m->signature->n_inputs, tensor) : NULL;
    const char *name = label_of(m, given ? given : t->name, index, "input");
    const Span span = {.file = m->span_file, .path = name};
    Shape shape = t->shape;
    if (!t->has_dtype || s->values[tensor])
        return diag_error(m->diag, span, t->has_dtype ? E0104 : E0206, "input '%s' %s", name,
                          t->has_dtype ? "is in the list twice" : "is of a type that is not supported");
    for (uint32_t i = 0; i < shape.rank; i++)
        if (t->open >> i & 1)
            shape.dim[i] = open_size(m, s->graph, name, index, t, i);
    s->values[tensor] = graph_input(s->graph, name, t->dtype, &shape, span);
    return s->values[tensor] != 0;
}

// --- outputs ---

static bool has_output(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (str_equal(g->outputs.data[i].name, name))
            return true;
    return false;
}

static bool import_outputs(TflScope *s)
{
    TflModel *m = s->model;
    TflNode reader = {.model = m, .scope = s, .graph = s->graph, .label = s->of->name};
    static const TflOp outputs = {.name = "outputs"};
    reader.op = &outputs;
    reader.span = (Span){.file = m->span_file};
    reader.in = read_tensors(m, s->of->table, 2, &reader.n_in);
    reader.in_used = ARENA_ARRAY(m->arena, bool, reader.n_in + 1);
    if (reader.n_in == 0)
        return diag_error(m->diag, reader.span, E0113, "the model has no outputs");
    for (uint32_t i = 0; i < reader.n_in && !m->file.flat.broken; i++) {
        const NodeId id = tfl_src(&reader, i);
        if (reader.failed)
            return false;
        const char *given = m->signature
                                ? signature_name(m->signature->outputs, m->signature->n_outputs, reader.in[i])
                                : NULL;
        const char *name = label_of(m, given ? given : tfl_in(&reader, i)->name, i, "output");
        while (has_output(s->graph, name))
            name = arena_printf(m->arena, "%s_%u", name, i);
        graph_output(s->graph, name, id);
    }
    return true;
}

static const char *type_text(Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    Str text = str_new(g->arena);
    shape_print(g->dims, (DType)n->dtype, n->shape, &text);
    return str_text(&text);
}

// What is written and never read is nothing that anybody sees.
static bool finish_variable(Graph *g, const TflVariable *v)
{
    const Node *leaf = graph_node(g, v->leaf), *now = graph_node(g, v->now);
    if (leaf->dtype != now->dtype || !shape_equal(leaf->shape, now->shape))
        return diag_error(g->diag, node_span(g, v->leaf), E0204, "variable '%s' is %s, but it becomes %s",
                          v->name, type_text(g, v->leaf), type_text(g, v->now));
    for (uint32_t i = 0; i < g->states.len; i++)
        if (g->states.data[i].node == v->leaf)
            g->states.data[i].next = v->now;
    return true;
}

// The signature that the user names, and its sub-graph; else the first one of sub-graph 0, if it has one.
// False: there is none of that name (reported).
static bool find_signature(TflModel *m, uint32_t *graph)
{
    const char *key = m->source->options.signature;
    const uint32_t n = m->file.signatures.n;
    const char **keys = ARENA_ARRAY(m->arena, const char *, n + 1);
    for (uint32_t i = 0; i < n && !m->file.flat.broken && !m->signature; i++) {
        const TflSignature s = tfl_file_signature(&m->file, i);
        keys[i] = s.key;
        if (key ? str_equal(s.key, key) : s.graph == 0)
            m->signature = arena_copy(m->arena, &s, sizeof s);
    }
    *graph = m->signature ? m->signature->graph : 0;
    if (!key || m->signature || m->file.flat.broken)
        return !m->file.flat.broken;
    diag_error(m->diag, (Span){.file = m->span_file}, E0003,
               "--signature %s: the model has no such signature", key);
    diag_note_names(m->diag, (Span){.file = m->span_file}, key, keys, NULL, n);
    return false;
}

static bool import_main(TflModel *m, Graph **out)
{
    uint32_t index = 0;
    if (!find_signature(m, &index))
        return false;
    const TflGraph *of = tfl_file_graph(&m->file, index);
    if (!of || m->file.flat.broken)
        return !m->file.flat.broken &&
               diag_error(m->diag, (Span){.file = m->span_file}, E0113, "the file has no graph");
    Graph *g = graph_new(m->arena, m->diag, of->name[0] ? of->name : m->source->name);
    TflScope top = {.model = m, .has_states = true}, s;
    top.graph = g;
    bool ok = tfl_scope(&s, &top, g, of);
    for (uint32_t i = 0; i < of->inputs.n && ok; i++)
        ok = import_input(&s, i);
    ok = ok && import_operators(&s) && import_outputs(&s);
    for (uint32_t i = 0; i < m->variables.len && ok; i++)
        ok = m->variables.data[i].leaf == 0 || finish_variable(g, &m->variables.data[i]);
    *out = g;
    return ok;
}

bool import_tflite(Arena *a, Diag *d, const TflSource *source, Graph **out)
{
    TflModel m = {.arena = a, .diag = d, .source = source};
    const uint32_t errors = d->n_errors;
    m.span_file = diag_add_file(d, source->name, NULL, 0);
    const bool ok = tfl_file_open(&m.file, a, source->data, source->len) && import_main(&m, out);
    if (m.file.flat.broken)
        return broken(&m);
    rlx_assert(ok || d->n_errors != errors);
    return ok && d->n_errors == errors;
}
