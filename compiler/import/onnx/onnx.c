// SPDX-License-Identifier: Apache-2.0
// A serialized ONNX model to a graph: opset, inputs, initializers, nodes, outputs. The rules of operators are
// in the files that onnx_ops.def names.
//
// Sizes of inputs that the model leaves open become symbols in [1, 2^20], by their names in the model or as
// INPUT_dimN. Initializers are constants, also those that old models list as inputs.
#include "compiler/import/import.h"
#include "compiler/import/onnx/onnx_import.h"
#include "compiler/import/onnx/onnx_proto.h"
#include "ir/shape/verify.h"

#include <string.h>

// The newest opset that onnx_ops.def was written for.
enum { NEWEST_OPSET = 28 };

static bool read_opset(OnnxModel *m, Span span)
{
    for (size_t i = 0; i < m->proto->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *o = m->proto->opset_import[i];
        const char *domain = onnx_text(o->domain);
        if (domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
            m->opset = o->version;
    }
    // Before IR version 3 there was no list of opsets.
    if (m->opset == 0 && m->proto->n_opset_import == 0 && m->proto->ir_version < 3)
        m->opset = 1;
    if (m->opset < 0 || m->opset > INT32_MAX)
        return diag_error(m->diag, span, E0106, "opset %lld does not exist", (long long)m->opset);
    if (m->opset > NEWEST_OPSET)
        diag_warning(m->diag, span, E0206,
                     "opset %lld is newer than %d, the newest that is known; operators may have changed",
                     (long long)m->opset, NEWEST_OPSET);
    return true;
}

// What the caller says of sizes in terms of others must be of some use.
static bool check_relations(OnnxModel *m, Span span)
{
    for (uint32_t i = 0; i < m->source->options.n_sizes; i++) {
        const ImportSize *size = &m->source->options.sizes[i];
        uint64_t ignored = 0;
        if (size->is && !map_get_str(&m->related, size->name, &ignored))
            return diag_error(m->diag, span, E0207, "--dim %s=%s: no input has a symbolic dimension '%s'",
                              size->name, size->is, size->name);
    }
    return true;
}

static bool import_main(OnnxModel *m, Graph *graph, Span span)
{
    const Onnx__GraphProto *g = m->proto->graph;
    OnnxScope s = {.model = m, .graph = graph};
    m->graph = graph;
    bool ok = onnx_read_sizes(m, graph, g, span) && check_relations(m, span);
    ok = onnx_import_initializers(&s, g) && ok;
    ok = onnx_import_inputs(&s, g) && ok;
    if (!onnx_read_values(m, graph)) // what follows from a wrong name or value says nothing more
        return false;
    ok = onnx_import_nodes(&s, g) && ok;
    return onnx_import_outputs(&s, g, span) && ok;
}

static bool check_sizes(OnnxModel *m, Span span)
{
    for (uint32_t i = 0; i < m->source->options.n_sizes; i++) {
        const ImportSize *size = &m->source->options.sizes[i];
        if (size->value < 0 || size->value > DIM_MAX_VALUE)
            return diag_error(m->diag, span, E0208, "size %lld for '%s' is not between 0 and %lld",
                              (long long)size->value, size->name, (long long)DIM_MAX_VALUE);
    }
    return true;
}

static bool has_error(const Diag *d, uint32_t from, DiagCode code)
{
    for (uint32_t i = from; i < d->items.len; i++)
        if (d->items.data[i].level == DIAG_ERROR && d->items.data[i].code == code)
            return true;
    return false;
}

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// Is the symbol a word of an error?
static bool is_mentioned(const Diag *d, uint32_t from, const char *name)
{
    const size_t len = strlen(name);
    for (uint32_t i = from; i < d->items.len; i++) {
        const char *text = d->items.data[i].message;
        for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
            if ((at == text || !strchr(WORD, at[-1])) && (at[len] == '\0' || !strchr(WORD, at[len])))
                return true;
    }
    return false;
}

static bool is_open(const OnnxModel *m, const Graph *g, uint32_t symbol)
{
    for (uint32_t i = 0; i < g->extents.len; i++)
        if (dim_as_symbol(g->dims, g->extents.data[i].dim) == (int32_t)symbol)
            return false;
    return symbol >= m->sizes.len || m->sizes.data[symbol] < 0;
}

// An import that failed because sizes are open names them: those that the errors are about first.
static void note_open_sizes(const OnnxModel *m, const Graph *g, uint32_t from)
{
    enum { MOST = 3 };
    Str text = str_new(m->arena);
    const uint32_t n = g->dims->symbols.len;
    uint32_t count = 0;
    for (uint32_t k = 0; k < 2 * n; k++) {
        const char *name = g->dims->symbols.data[k % n].name;
        if (!is_open(m, g, k % n) || is_mentioned(m->diag, from, name) != (k < n))
            continue;
        if (count++ < MOST)
            str_printf(&text, " --dim %s=VALUE", name);
    }
    if (count > MOST)
        str_printf(&text, " and %u more", count - MOST);
    if (count && (has_error(m->diag, from, E0207) || has_error(m->diag, from, E0204)))
        diag_note(m->diag, (Span){.file = m->file}, "the model leaves sizes open; give them with%s",
                  str_text(&text));
}

// Sizes may be 0 (a cache that is empty), but a model that computes nothing is seldom meant.
static void warn_empty(const OnnxModel *m, const Graph *g)
{
    const ImportOptions *o = &m->source->options;
    for (uint32_t i = 0; i < g->outputs.len; i++) {
        const Shape *s = graph_node(g, g->outputs.data[i].node)->shape;
        if (!shape_is_const(s) || shape_numel(s) != 0)
            return;
    }
    for (uint32_t i = 0; i < o->n_sizes; i++)
        if (o->sizes[i].value == 0 && !o->sizes[i].is_range)
            diag_warning(m->diag, (Span){.file = m->file}, E0208,
                         "--dim %s=0: no output has an element, so nothing is computed", o->sizes[i].name);
}

bool import_onnx_source(Arena *a, Diag *d, const OnnxSource *source, Graph **out)
{
    rlx_assert(source->name != NULL && (source->data != NULL || source->len == 0));
    OnnxModel m = {.arena = a, .diag = d, .source = source};
    const uint32_t errors = d->n_errors, items = d->items.len;
    m.file = diag_add_file(d, source->name, NULL, 0);
    const Span span = {.file = m.file};
    m.proto = onnx_proto_read(a, d, span, source->data, source->len);
    if (!m.proto)
        return false;
    if (!m.proto->graph)
        return diag_error(d, span, E0106, "the file has no graph");
    if (!read_opset(&m, span) || !check_sizes(&m, span))
        return false;
    const char *graph_name = onnx_text(m.proto->graph->name);
    Graph *g = graph_new(a, d, graph_name[0] ? graph_name : source->name);
    if (!import_main(&m, g, span) || d->n_errors != errors) {
        rlx_assert(d->n_errors != errors);
        note_open_sizes(&m, g, items);
        return false;
    }
    warn_empty(&m, g);
    rlx_assert(graph_verify(g, STAGE_IMPORTED) == NULL);
    *out = g;
    return true;
}

bool import_onnx(Arena *a, Diag *d, const char *name, const void *data, size_t len, const char *dir,
                 Graph **out)
{
    return import_onnx_source(a, d, &(OnnxSource){.name = name, .data = data, .len = len, .dir = dir}, out);
}
