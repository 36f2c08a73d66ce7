// SPDX-License-Identifier: Apache-2.0
// A serialized ONNX model to a graph: opset, inputs, initializers, nodes, outputs. The rules of operators are
// in the files that onnx_ops.def names.
//
// Sizes of inputs that the model leaves open become symbols in [1, 2^20], by their names in the model or as
// INPUT_dimN. Initializers are constants, also those that old models list as inputs.
#include "compiler/import/import.h"
#include "compiler/import/onnx_import.h"
#include "compiler/import/onnx_proto.h"

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
    ok = onnx_read_values(m, graph) && ok;
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

// An import that failed because sizes are open names all of them.
static void note_open_sizes(const OnnxModel *m, const Graph *g, uint32_t from)
{
    Str text = str_new(m->arena);
    for (uint32_t i = 0; i < g->dims->symbols.len; i++)
        if (i >= m->sizes.len || m->sizes.data[i] < 0)
            str_printf(&text, " --dim %s=VALUE", g->dims->symbols.data[i].name);
    if (text.len && (has_error(m->diag, from, E0207) || has_error(m->diag, from, E0204)))
        diag_note(m->diag, (Span){.file = m->file}, "the model leaves sizes open; give them with%s",
                  str_text(&text));
}

bool import_onnx_source(Arena *a, Diag *d, const OnnxSource *source, Graph **out)
{
    OnnxModel m = {.arena = a, .diag = d, .source = source, .external_path = ""};
    const uint32_t errors = d->n_errors, items = d->items.len;
    m.file = diag_add_file(d, source->name, NULL, 0);
    const Span span = {.file = m.file};
    m.proto = onnx_proto_read(a, d, span, source->data, source->len);
    if (!m.proto)
        return false;
    if (!m.proto->graph)
        return diag_error(d, span, E0106, "there is no graph in it");
    if (!read_opset(&m, span) || !check_sizes(&m, span))
        return false;
    const char *graph_name = onnx_text(m.proto->graph->name);
    Graph *g = graph_new(a, d, graph_name[0] ? graph_name : source->name);
    if (!import_main(&m, g, span) || d->n_errors != errors) {
        note_open_sizes(&m, g, items);
        return false;
    }
    *out = g;
    return true;
}

bool import_onnx(Arena *a, Diag *d, const char *name, const void *data, size_t len, const char *dir,
                 Graph **out)
{
    return import_onnx_source(a, d, &(OnnxSource){.name = name, .data = data, .len = len, .dir = dir}, out);
}
