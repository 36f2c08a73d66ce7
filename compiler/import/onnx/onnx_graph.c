// SPDX-License-Identifier: Apache-2.0
// Graphs of a model, whole or nested: initializers, types of inputs, and the loop over nodes that calls the
// import functions and checks that they looked at everything.
#include "compiler/import/onnx/onnx_order.h"
#include "compiler/import/onnx/onnx_text.h"
#include "base/quote.h"

#include <string.h>

// --- types of inputs ---

static bool is_function_name(const char *s, size_t len)
{
    static const char *const names[] = {"floor", "min", "max", "mod"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && memcmp(names[i], s, len) == 0)
            return true;
    return false;
}

static Dim open_symbol(OnnxModel *m, DimTable *t, const char *name)
{
    const uint32_t before = t->symbols.len;
    const Dim d = dim_symbol(t, name, onnx_least_size(m, name), IMPORT_OPEN_MAX, 1);
    if (t->symbols.len > before)
        onnx_narrow(m, &t->symbols.data[before]);
    return d;
}

// Makes a symbol of every name in an expression such as "past + 1".
static void add_symbols(OnnxModel *m, DimTable *t, const char *text)
{
    while (*text) {
        const char *end = text;
        if (!quote_is_name_start(*text)) {
            text++;
            continue;
        }
        while (quote_is_name_char(*end))
            end++;
        if (!is_function_name(text, (size_t)(end - text)))
            open_symbol(m, t, arena_strndup(m->arena, text, (size_t)(end - text)));
        text = end;
    }
}

// What the caller says that the size is in terms of others, whose own names then mean symbols.
static Dim related_dim(OnnxModel *m, DimTable *t, const char *name)
{
    const ImportSize *size = onnx_find_size(m, name);
    Dim d = 0;
    size_t error_at = 0;
    if (!size || !size->is)
        return open_symbol(m, t, name);
    map_put_str(m->arena, &m->related, name, 1);
    add_symbols(m, t, size->is);
    return dim_parse(t, size->is, strlen(size->is), DIM_KNOWN_ONLY, &d, &error_at) ? d
                                                                                   : open_symbol(m, t, name);
}

// With numbers where the caller gave some.
static Dim put_sizes(OnnxModel *m, DimTable *t, Dim d)
{
    while (m->sizes.len < t->symbols.len) {
        const int64_t size = onnx_given_size(m, t->symbols.data[m->sizes.len].name);
        vec_push(m->arena, &m->sizes, size);
    }
    return dim_substitute(t, d, (DimValues){m->sizes.data, m->sizes.len});
}

// As JSON may name it: no control characters, at most 255 bytes.
static Dim new_symbol(OnnxModel *m, DimTable *t, const char *name)
{
    const size_t n = strlen(name);
    char *clean = arena_strndup(m->arena, name, n < 255 ? n : 255);
    for (char *c = clean; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '_';
    return related_dim(m, t, clean);
}

// A named size: a symbol, or an expression over symbols as some exporters write them, or a symbol with an odd
// name.
static Dim named_dim(OnnxModel *m, DimTable *t, const char *name)
{
    Dim d = 0;
    size_t error_at = 0;
    if (quote_is_plain(name))
        return related_dim(m, t, name);
    DimTable trial = {.arena = m->arena};
    if (strlen(name) <= 256 && dim_parse(&trial, name, strlen(name), DIM_ADD_SYMBOLS, &d, &error_at)) {
        add_symbols(m, t, name);
        if (dim_parse(t, name, strlen(name), DIM_KNOWN_ONLY, &d, &error_at) && !dim_is_unknown(t, d))
            return d;
    }
    return new_symbol(m, t, name);
}

static bool read_dim(OnnxModel *m, DimTable *t, const Onnx__TensorShapeProto__Dimension *p, const char *name,
                     Dim *out)
{
    if (p->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && onnx_text(p->dim_param)[0]) {
        *out = named_dim(m, t, p->dim_param);
        return true;
    }
    const bool has_value = p->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (has_value && p->dim_value != -1) // as some exporters write for a size that is not known
        return dim_from_size(p->dim_value, out);
    *out = new_symbol(m, t, name);
    return true;
}

static const Onnx__TypeProto__Tensor *tensor_type(const Onnx__ValueInfoProto *v)
{
    return v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? v->type->tensor_type
                                                                                 : NULL;
}

bool onnx_declared_shape(OnnxModel *m, Graph *g, const Onnx__ValueInfoProto *v, Shape *out)
{
    const Onnx__TypeProto__Tensor *t = tensor_type(v);
    bool ok = t && t->shape && t->shape->n_dim <= SHAPE_MAX_RANK;
    out->rank = ok ? (uint32_t)t->shape->n_dim : 0;
    for (uint32_t i = 0; i < out->rank; i++)
        ok = read_dim(m, g->dims, t->shape->dim[i], arena_printf(m->arena, "%s_dim%u", onnx_text(v->name), i),
                      &out->dim[i]) &&
             ok;
    return ok;
}

// Sizes that the model leaves open are what the caller says.
static void put_given(OnnxModel *m, Graph *g, const char *name, Shape *s)
{
    const ImportShape *given = onnx_given_shape(m, name);
    for (uint32_t i = 0; i < s->rank; i++) {
        s->dim[i] = put_sizes(m, g->dims, s->dim[i]);
        if (given && given->rank == s->rank && !dim_is_const(s->dim[i]) &&
            !onnx_stays_open(m, g->dims, s->dim[i]))
            s->dim[i] = given->dim[i];
    }
}

static bool wrong_size(OnnxModel *m, const Onnx__ValueInfoProto *v, Span span)
{
    const Onnx__TensorShapeProto *s = v->type->tensor_type->shape;
    uint32_t axis = 0;
    Dim ignored = 0;
    rlx_assert(s->n_dim > 0);
    while (s->dim[axis]->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ||
           s->dim[axis]->dim_value == -1 || dim_from_size(s->dim[axis]->dim_value, &ignored))
        axis++;
    return diag_error(m->diag, span, E0106,
                      "input '%s': axis %u has the size %lld; expected a size from 0 to %lld, or -1 for one "
                      "that is open",
                      onnx_text(v->name), axis, (long long)s->dim[axis]->dim_value, (long long)DIM_MAX_VALUE);
}

static bool input_shape(OnnxModel *m, Graph *g, const Onnx__ValueInfoProto *v, Shape *out, Span span)
{
    const Onnx__TypeProto__Tensor *t = v->type->tensor_type;
    const char *name = onnx_text(v->name);
    const ImportShape *given = onnx_given_shape(m, name);
    if (!t->shape && !given)
        return diag_error(m->diag, span, E0207, "input '%s' has no shape: give one with --shape %s=2,3", name,
                          name);
    if (t->shape && t->shape->n_dim > SHAPE_MAX_RANK)
        return diag_error(m->diag, span, E0206,
                          "input '%s' has %zu axes, more than the %d that are supported", name,
                          t->shape->n_dim, SHAPE_MAX_RANK);
    if (!t->shape)
        *out = shape_of(given->rank, given->dim);
    else if (!onnx_declared_shape(m, g, v, out))
        return wrong_size(m, v, span);
    if (given && given->is_firm && given->rank != out->rank)
        return diag_error(m->diag, span, E0204, "%s has %u sizes, but the input has %u axes", given->origin,
                          given->rank, out->rank);
    rlx_assert(out->rank <= SHAPE_MAX_RANK);
    put_given(m, g, name, out);
    return true;
}

bool onnx_input_type(OnnxModel *m, Graph *g, const Onnx__ValueInfoProto *v, TensorType *out, Span span)
{
    const char *name = onnx_text(v->name);
    const Onnx__TypeProto__Tensor *t = tensor_type(v);
    if (!t)
        return diag_error(m->diag, span, E0206, "input '%s' is not a tensor", name);
    if (!onnx_dtype_of(t->elem_type, &out->dtype))
        return diag_error(m->diag, span, E0206, "input '%s': element type %s (%d) is not supported", name,
                          onnx_dtype_text(t->elem_type), t->elem_type);
    return input_shape(m, g, v, &out->shape, span);
}

// --- nodes ---

static bool read_operands(OnnxNode *n)
{
    bool ok = true;
    const char *user = arena_printf(n->model->arena, "node '%s'", n->label);
    for (uint32_t i = 0; i < n->n_in; i++) {
        n->in[i] = onnx_get(n->scope, onnx_text(n->proto->input[i]), n->span, user);
        ok = ok && n->in[i].kind != ONNX_BROKEN;
    }
    return ok;
}

// What the import function did not ask for would be lost.
static void check_used(OnnxNode *n)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (onnx_has(n, i) && !n->in_used[i])
            onnx_fail(n, E0206, "input %u ('%s') is not supported", i, n->proto->input[i]);
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (!n->attr_used[i])
            onnx_fail(n, E0206, "attribute '%s' is not supported", onnx_text(n->proto->attribute[i]->name));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (onnx_wants(n, i) && n->out[i].kind == ONNX_ABSENT)
            onnx_fail(n, E0206, "output %u ('%s') is not supported", i, n->proto->output[i]);
}

static bool put_results(OnnxNode *n)
{
    bool ok = !n->failed;
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (onnx_wants(n, i) && !onnx_put(n->scope, n->proto->output[i],
                                          n->failed ? (OnnxValue){.kind = ONNX_BROKEN} : n->out[i], n->span))
            ok = false;
    }
    return ok;
}

static bool check_counts(OnnxNode *n)
{
    if (n->proto->n_input > NODE_MAX_SRC || n->proto->n_output > NODE_MAX_SRC)
        return onnx_fail(n, E0004, "there are more than %d inputs or outputs", NODE_MAX_SRC);
    n->n_in = (uint32_t)n->proto->n_input;
    n->n_out = (uint32_t)n->proto->n_output;
    n->in = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_in);
    n->out = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_out);
    n->in_used = ARENA_ARRAY(n->model->arena, bool, n->n_in);
    n->attr_used = ARENA_ARRAY(n->model->arena, bool, n->proto->n_attribute);
    return true;
}

// In the body of a function after the node that calls it.
static const char *node_label(const OnnxScope *s, const Onnx__NodeProto *p)
{
    const OnnxCall *call = onnx_scope_call(s);
    const char *label = onnx_node_label(p);
    return call ? arena_printf(s->model->arena, "%s/%s", call->node->label, label) : label;
}

static void import_operator(OnnxNode *n)
{
    const OnnxOp *row = onnx_node_op(n->scope, n->proto);
    if (!row) { // was reported
        n->failed = true;
        onnx_check_graphs(n->scope, n->proto, n->scope->depth);
        return;
    }
    rlx_assert(row->import != NULL && row->op < OP_COUNT);
    n->row_op = row->op;
    onnx_ignore_attr(n, "consumed_inputs"); // a hint of the first opsets
    if (!onnx_import_text_variant(n) && !onnx_import_moved_text(n, row) && !onnx_import_dims(n))
        row->import(n);
}

static bool import_node(OnnxScope *s, const Onnx__NodeProto *p)
{
    OnnxModel *m = s->model;
    OnnxNode n = {
        .model = m,
        .scope = s,
        .graph = s->graph,
        .proto = p,
        .op = onnx_text(p->op_type),
        .label = node_label(s, p),
        .opset = onnx_node_opset(s, p),
    };
    n.span = (Span){.file = m->file, .path = n.label};
    if (!check_counts(&n))
        return false;
    n.failed = !read_operands(&n);
    if (n.failed) {
        if (!onnx_find_function(m, p))
            onnx_node_op(s, p);
        onnx_check_graphs(s, p, s->depth);
    } else {
        if (!onnx_import_call(&n))
            import_operator(&n);
        check_used(&n);
        onnx_check_declared(&n);
    }
    return put_results(&n);
}

// --- graphs ---

static bool import_initializer(OnnxScope *s, const Onnx__TensorProto *t)
{
    const char *name = onnx_text(t->name);
    const Span span = {.file = s->model->file, .path = name};
    const char *what = arena_printf(s->model->arena, "initializer '%s'", name);
    if (name[0] == '\0')
        return diag_error(s->model->diag, span, E0106, "an initializer has no name");
    const OnnxValue v = onnx_tensor_value(s->model, s->graph, t, what, span);
    if (v.kind == ONNX_NODE)
        graph_label(s->graph, v.node, name);
    return onnx_put(s, name, v, span) && v.kind != ONNX_BROKEN;
}

bool onnx_import_initializers(OnnxScope *s, const Onnx__GraphProto *g)
{
    bool ok = true;
    if (g->n_sparse_initializer)
        ok = diag_error(s->model->diag, (Span){.file = s->model->file, .path = onnx_text(g->name)}, E0206,
                        "sparse initializers are not supported");
    for (size_t i = 0; i < g->n_initializer; i++)
        ok = import_initializer(s, g->initializer[i]) && ok;
    return ok;
}

// The results of a node that was reported, so that what uses them says nothing more.
static bool put_broken(OnnxScope *s, const Onnx__NodeProto *p)
{
    const Span span = {.file = s->model->file, .path = node_label(s, p)};
    for (size_t i = 0; i < p->n_output; i++)
        if (onnx_text(p->output[i])[0])
            onnx_put(s, p->output[i], (OnnxValue){.kind = ONNX_BROKEN}, span);
    return false;
}

bool onnx_import_nodes(OnnxScope *s, const Onnx__GraphProto *g)
{
    bool ok = true;
    const OnnxPlace *order = onnx_node_order(s, g);
    s->proto = g;
    for (size_t i = 0; i < g->n_node && s->model->diag->n_errors < DIAG_MAX_ERRORS; i++) {
        rlx_assert(order[i].node < g->n_node);
        const Onnx__NodeProto *p = g->node[order[i].node];
        ok = (order[i].is_in_cycle ? put_broken(s, p) : import_node(s, p)) && ok;
    }
    return ok;
}
