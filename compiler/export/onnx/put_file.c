// SPDX-License-Identifier: Apache-2.0
// A graph as an ONNX file: inputs, params and states, nodes, outputs. Bytes of tensors are not copied: they
// go from the graph to the file. A model of more than 1 GiB has them in NAME.onnx.data beside it, because
// protobuf ends at 2 GiB.
#include "compiler/export/onnx/put_file.h"
#include "compiler/export/onnx/put.h"
#include "compiler/system/output_files.h"
#include "ir/graph/intern.h"

#include <string.h>

enum { ALIGN = 64, EXTERNAL = 1024, REFERRED = 4096 }; // bytes: of external tensors at least; not copied from

// --- inputs and outputs --------------------------------------------------------------------------

static void put_input(Put *w, NodeId id)
{
    const Node *n = graph_node(w->g, id);
    if (w->value[id] == NULL)
        w->value[id] = put_new_name(w->file, leaf_name(n));
    put_declare(w, w->value[id], (DType)n->dtype, n->shape, false);
}

// A param with a value is an input that need not be given.
static void put_param(Put *w, NodeId id)
{
    const Node *n = graph_node(w->g, id);
    const AttrVal *init = node_attr(n, A_param_init);
    if (init->len != 0) {
        Tensor t = {.dtype = (DType)n->dtype, .rank = n->shape->rank, .numel = shape_numel(n->shape)};
        memcpy(t.dim, n->shape->dim, sizeof t.dim);
        memcpy(&t.data, &init->u.blob, sizeof t.data); // Tensor.data is not const; it is only read here
        w->value[id] = put_tensor(w, &t, leaf_name(n));
    }
    put_input(w, id);
}

static bool is_zero(const AttrVal *init)
{
    const uint8_t *bytes = init->u.blob;
    for (uint64_t i = 0; i < init->len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

// A state is an input, whose next value is an output.
static void put_state(Put *w, const GraphState *s)
{
    const Node *n = graph_node(w->g, s->node);
    put_input(w, s->node);
    if (!is_zero(node_attr(n, A_state_init)))
        diag_warning(w->file->diag, node_span(w->g, s->node), E0206,
                     "state '%s' does not begin with zeros, but ONNX keeps no values between runs: the "
                     "program must give its first value",
                     leaf_name(n));
}

// An output whose value has another name, or is an input, is a copy.
static void put_output(Put *w, Value name, NodeId id)
{
    const Node *n = graph_node(w->g, id);
    const Value v = put_value(w, id);
    if (v != name) {
        Onnx__NodeProto *same = put_begin(w, "Identity", &v, 1);
        same->output[same->n_output++] = arena_strdup(&w->file->scratch, name);
    }
    put_declare(w, name, (DType)n->dtype, n->shape, true);
}

static Value output_name(Put *w, const char *wanted, NodeId id)
{
    const Value name = put_new_name(w->file, wanted);
    if (w->named[id] == NULL)
        w->named[id] = name;
    return name;
}

static void put_main(Put *w)
{
    const Graph *g = w->g;
    Arena *a = &w->file->scratch;
    Value *out = ARENA_ARRAY(a, Value, g->outputs.len + g->states.len + 1);
    for (uint32_t i = 0; i < g->inputs.len; i++)
        put_input(w, g->inputs.data[i]);
    for (uint32_t i = 0; i < g->params.len; i++)
        put_param(w, g->params.data[i]);
    for (uint32_t i = 0; i < g->states.len; i++)
        put_state(w, &g->states.data[i]);
    for (uint32_t i = 0; i < g->outputs.len; i++)
        out[i] = output_name(w, g->outputs.data[i].name, g->outputs.data[i].node);
    for (uint32_t i = 0; i < g->states.len; i++)
        out[g->outputs.len + i] =
            output_name(w, arena_printf(a, "%s_next", leaf_name(graph_node(g, g->states.data[i].node))),
                        g->states.data[i].next);
    put_nodes(w);
    for (uint32_t i = 0; i < g->outputs.len && !w->failed; i++)
        put_output(w, out[i], g->outputs.data[i].node);
    for (uint32_t i = 0; i < g->states.len && !w->failed; i++)
        put_output(w, out[g->outputs.len + i], g->states.data[i].next);
    if (g->checks.len != 0)
        diag_warning(w->file->diag, (Span){0}, E0206,
                     "the model checks its values when it runs (%s), which ONNX cannot express: the file "
                     "has no such checks",
                     g->checks.data[0].message);
    put_end_graph(w);
}

// --- the file ------------------------------------------------------------------------------------

typedef VEC(FilePart) Parts;

// A buffer of protobuf-c: short pieces are collected, long ones stay where they are.
typedef struct Pieces {
    ProtobufCBuffer base;
    Arena *arena;
    Str text;
    Parts parts;
} Pieces;

static void flush(Pieces *p)
{
    const FilePart part = {p->text.data, p->text.len};
    if (part.len != 0)
        vec_push(p->arena, &p->parts, part);
    p->text = str_new(p->arena);
}

static void append(ProtobufCBuffer *buffer, size_t len, const uint8_t *data)
{
    Pieces *p = (Pieces *)buffer;
    if (len < REFERRED) {
        str_add_n(&p->text, (const char *)data, len);
        return;
    }
    flush(p);
    const FilePart part = {data, len};
    vec_push(p->arena, &p->parts, part);
}

static void put_entry(PutFile *f, Onnx__TensorProto *t, const char *key, const char *value)
{
    Arena *a = &f->scratch;
    Onnx__StringStringEntryProto *e = ARENA_NEW(a, Onnx__StringStringEntryProto);
    onnx__string_string_entry_proto__init(e);
    e->key = arena_strdup(a, key);
    e->value = arena_strdup(a, value);
    t->external_data[t->n_external_data++] = e;
}

static void refer(PutFile *f, const PutTensor *t, const char *location, uint64_t offset)
{
    Onnx__TensorProto *p = t->proto;
    p->has_data_location = true;
    p->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    p->external_data = ARENA_ARRAY(&f->scratch, Onnx__StringStringEntryProto *, 3);
    put_entry(f, p, "location", location);
    put_entry(f, p, "offset", arena_printf(&f->scratch, "%llu", (unsigned long long)offset));
    put_entry(f, p, "length", arena_printf(&f->scratch, "%llu", (unsigned long long)t->bytes));
}

static void keep_inside(const PutTensor *t)
{
    Onnx__TensorProto *p = t->proto;
    p->has_raw_data = true;
    p->raw_data.len = (size_t)t->bytes;
    memcpy(&p->raw_data.data, &t->data, sizeof t->data); // it is only read
}

// Gives every tensor its bytes, or its place in the file of weights. outside: what that file has.
static void place_tensors(PutFile *f, const char *data_path, uint64_t most_inside, Parts *outside)
{
    static const char zeros[ALIGN];
    uint64_t all = 0, offset = 0;
    const char *slash = strrchr(data_path, '/');
    for (uint32_t i = 0; i < f->tensors.len; i++)
        all += f->tensors.data[i].bytes;
    for (uint32_t i = 0; i < f->tensors.len; i++) {
        const PutTensor *t = &f->tensors.data[i];
        if (all <= most_inside || t->bytes < EXTERNAL) {
            keep_inside(t);
            continue;
        }
        refer(f, t, slash != NULL ? slash + 1 : data_path, offset);
        const FilePart bytes = {t->data, (size_t)t->bytes}, gap = {zeros, (size_t)(-t->bytes % ALIGN)};
        vec_push(&f->scratch, outside, bytes);
        vec_push(&f->scratch, outside, gap);
        offset += t->bytes + gap.len;
    }
}

// Both files or none.
static bool write_files(Diag *d, const char *path, const Parts *model, const char *data_path,
                        const Parts *outside)
{
    OutputFiles files;
    bool ok = output_begin(&files, d, "", 2);
    if (outside->len != 0)
        ok = ok && output_add_parts(&files, data_path, outside->data, outside->len);
    ok = ok && output_add_parts(&files, path, model->data, model->len);
    return output_end(&files, ok);
}

static void put_domain(PutFile *f, Onnx__ModelProto *m, const char *domain, int64_t version)
{
    Onnx__OperatorSetIdProto *set = ARENA_NEW(&f->scratch, Onnx__OperatorSetIdProto);
    onnx__operator_set_id_proto__init(set);
    set->domain = arena_strdup(&f->scratch, domain);
    set->has_version = true;
    set->version = version;
    m->opset_import[m->n_opset_import++] = set;
}

static bool write_model(Put *w, const char *path, uint64_t most_inside)
{
    PutFile *f = w->file;
    Onnx__OperatorSetIdProto *sets[3];
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    m.has_ir_version = true;
    m.ir_version = PUT_IR_VERSION;
    m.producer_name = arena_strdup(&f->scratch, "rlxc");
    m.opset_import = sets;
    m.graph = &w->proto;
    put_domain(f, &m, "", f->opset);
    if (f->has_microsoft)
        put_domain(f, &m, "com.microsoft", 1);
    if (f->has_custom)
        put_domain(f, &m, PUT_CUSTOM_DOMAIN, 1);
    const char *data_path = arena_printf(&f->scratch, "%s.data", path != NULL ? path : "");
    Parts outside = {0};
    place_tensors(f, data_path, path != NULL ? most_inside : UINT64_MAX, &outside);
    Pieces p = {.base = {append}, .arena = &f->scratch, .text = str_new(&f->scratch)};
    onnx__model_proto__pack_to_buffer(&m, &p.base);
    flush(&p);
    return path == NULL || write_files(f->diag, path, &p.parts, data_path, &outside);
}

bool export_onnx_with(const Graph *g, const char *path, Diag *d, uint64_t most_inside)
{
    PutFile f = {.diag = d, .opset = PUT_OPSET};
    Put w;
    put_begin_graph(&w, &f, g, NULL);
    put_main(&w);
    const bool ok = !w.failed && write_model(&w, path, most_inside);
    arena_free(&f.scratch);
    return ok;
}

bool export_onnx(const Graph *g, const char *path, Diag *d)
{
    return export_onnx_with(g, path, d, UINT64_C(1) << 30);
}
