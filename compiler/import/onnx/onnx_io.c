// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of a model. A sequence NAME becomes the tensors NAME_0, NAME_1 ..., an optional the
// value that it has or nothing: how long and whether must be known, because the graph has tensors only.
// Graph.io keeps what the model calls them.
#include "compiler/import/onnx/onnx_text.h"

// Elements of sequences that are inputs.
enum { MAX_LENGTH = 4096 };

// --- names ---

// A name that no other input or output of the model or the graph has.
static const char *new_name(OnnxModel *m, const char *base, uint32_t index)
{
    uint64_t ignored = 0;
    const char *name = arena_printf(m->arena, "%s_%u", base, index);
    while (map_get_str(&m->io_names, name, &ignored))
        name = arena_printf(m->arena, "%s_", name);
    map_put_str(m->arena, &m->io_names, name, 1);
    return name;
}

static void take_names(OnnxModel *m, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_input; i++)
        map_put_str(m->arena, &m->io_names, onnx_text(g->input[i]->name), 1);
    for (size_t i = 0; i < g->n_output; i++)
        map_put_str(m->arena, &m->io_names, onnx_text(g->output[i]->name), 1);
}

// --- inputs ---

typedef struct Input {
    OnnxScope *scope;
    const char *name;
    Span span;
    const Onnx__TypeProto *type; // without the optional around it
    bool is_optional;
} Input;

// How many tensors an input consists of that may have any number. False: reported.
static bool read_length(const Input *in, bool is_sequence, uint32_t *out)
{
    OnnxModel *m = in->scope->model;
    const uint32_t max = is_sequence ? MAX_LENGTH : 1;
    int64_t length = onnx_given_size(m, in->name);
    dim_symbol(in->scope->graph->dims, in->name, 0, max, 1); // so that --dim may name it
    *out = 0;
    if (length < 0)
        length = onnx_given_parts(m, in->name, is_sequence);
    if (length < 0)
        return diag_error(m->diag, in->span, E0207,
                          is_sequence
                              ? "input '%s' is a sequence: give its length with --dim %s=VALUE"
                              : "input '%s' is optional: say with --dim %s=1 or 0 whether it is given",
                          in->name, in->name);
    if (length > max)
        return diag_error(m->diag, in->span, E0208, "input '%s' has %lld parts; at most %u are possible",
                          in->name, (long long)length, max);
    rlx_assert(length >= 0);
    *out = (uint32_t)length;
    return true;
}

static const Onnx__TypeProto__Tensor *tensor_type(const Onnx__TypeProto *t)
{
    return t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? t->tensor_type : NULL;
}

static const Onnx__TypeProto *sequence_of(const Onnx__TypeProto *t)
{
    const bool is_sequence = t && t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE && t->sequence_type;
    return is_sequence ? t->sequence_type->elem_type : NULL;
}

// Strings are declared as bytes, with one axis more.
static OnnxValue import_tensor(const Input *in, const char *name, const Onnx__TypeProto *type)
{
    rlx_assert(tensor_type(type) != NULL);
    OnnxScope *s = in->scope;
    OnnxModel *m = s->model;
    TensorType t = {0};
    Onnx__TypeProto__Tensor tensor = *type->tensor_type;
    Onnx__TypeProto copy = *type;
    Onnx__ValueInfoProto v = ONNX__VALUE_INFO_PROTO__INIT;
    const bool is_text = tensor.elem_type == ONNX_STRING;
    tensor.elem_type = is_text ? dtype_info[DTYPE_u8].onnx : tensor.elem_type;
    copy.tensor_type = &tensor;
    v.name = arena_strdup(m->arena, name);
    v.type = &copy;
    if (!onnx_input_type(m, s->graph, &v, &t, in->span))
        return (OnnxValue){.kind = ONNX_BROKEN};
    const uint32_t capacity = m->source->options.string_bytes;
    if (is_text && t.shape.rank == SHAPE_MAX_RANK) {
        diag_error(m->diag, in->span, E0206, "input '%s': strings of rank %u are not supported", name,
                   t.shape.rank);
        return (OnnxValue){.kind = ONNX_BROKEN};
    }
    if (is_text)
        t.shape.dim[t.shape.rank++] = capacity ? capacity : ONNX_TEXT_CAPACITY;
    OnnxValue value = onnx_value(graph_input(s->graph, name, t.dtype, &t.shape, in->span));
    value.is_text = is_text;
    return value;
}

static OnnxValue import_list(const Input *in, GraphIo *io, const Onnx__TypeProto *element)
{
    OnnxModel *m = in->scope->model;
    const Onnx__TypeProto__Tensor *t = tensor_type(element);
    OnnxList list = {.n = io->n_parts};
    list.is_text = t && t->elem_type == ONNX_STRING;
    list.dtype = DTYPE_u8;
    if (!t || (!list.is_text && !onnx_dtype_of(t->elem_type, &list.dtype))) {
        diag_error(m->diag, in->span, E0206, "input '%s': a sequence of %s is not supported", in->name,
                   t ? onnx_dtype_text(t->elem_type) : "values that are not tensors");
        return (OnnxValue){.kind = ONNX_BROKEN};
    }
    const char **names = ARENA_ARRAY(m->arena, const char *, list.n);
    OnnxValue *v = ARENA_ARRAY(m->arena, OnnxValue, list.n);
    bool ok = true;
    for (uint32_t i = 0; i < list.n && ok; i++) {
        names[i] = new_name(m, in->name, i);
        v[i] = import_tensor(in, names[i], element);
        ok = v[i].kind != ONNX_BROKEN;
    }
    io->dtype = list.dtype;
    io->is_text = list.is_text;
    io->parts = names;
    list.v = v;
    return (OnnxValue){.kind = ok ? ONNX_LIST : ONNX_BROKEN,
                       .list = arena_copy(m->arena, &list, sizeof list)};
}

static OnnxValue import_value(const Input *in, GraphIo *io)
{
    OnnxModel *m = in->scope->model;
    const Onnx__TypeProto *element = sequence_of(in->type);
    const Onnx__TypeProto__Tensor *t = tensor_type(in->type);
    io->is_text = t && t->elem_type == ONNX_STRING;
    io->dtype = DTYPE_u8;
    if (t && !io->is_text)
        onnx_dtype_of(t->elem_type, &io->dtype);
    io->kind = io->of = element ? IO_SEQUENCE : io->is_text ? IO_STRING : IO_TENSOR;
    io->n_parts = 1;
    if ((in->is_optional || element) && !read_length(in, element != NULL, &io->n_parts))
        return (OnnxValue){.kind = ONNX_BROKEN};
    if (in->is_optional) {
        io->kind = IO_OPTIONAL;
        io->has_value = io->n_parts > 0;
        if (!io->has_value)
            return (OnnxValue){.kind = ONNX_NONE};
    }
    if (element)
        return import_list(in, io, element);
    if (!t) {
        diag_error(m->diag, in->span, E0206, "input '%s' is not a tensor", in->name);
        return (OnnxValue){.kind = ONNX_BROKEN};
    }
    io->parts = arena_copy(m->arena, &in->name, sizeof in->name);
    return import_tensor(in, in->name, in->type);
}

static bool import_input(OnnxScope *s, const Onnx__ValueInfoProto *v)
{
    OnnxModel *m = s->model;
    Input in = {.scope = s, .name = onnx_text(v->name), .type = v->type};
    in.span = (Span){.file = m->file, .path = in.name};
    if (in.name[0] == '\0')
        return diag_error(m->diag, in.span, E0106, "an input has no name");
    if (in.type && in.type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE && in.type->optional_type) {
        in.is_optional = true;
        in.type = in.type->optional_type->elem_type;
    }
    GraphIo io = {.name = in.name};
    OnnxValue value = {.kind = ONNX_BROKEN};
    if (in.type)
        value = import_value(&in, &io);
    else
        diag_error(m->diag, in.span, E0106, "input '%s' has no type", in.name);
    if (value.kind != ONNX_BROKEN)
        vec_push(m->arena, &s->graph->io, io);
    return onnx_put(s, in.name, value, in.span) && value.kind != ONNX_BROKEN;
}

bool onnx_import_inputs(OnnxScope *s, const Onnx__GraphProto *g)
{
    bool ok = true;
    Map constants = {0};
    take_names(s->model, g);
    for (size_t i = 0; i < g->n_initializer; i++)
        map_put_str(s->model->arena, &constants, onnx_text(g->initializer[i]->name), 1);
    for (size_t i = 0; i < g->n_input; i++) {
        uint64_t ignored = 0;
        if (!map_get_str(&constants, onnx_text(g->input[i]->name), &ignored))
            ok = import_input(s, g->input[i]) && ok;
    }
    return ok;
}

// --- outputs ---

static bool output_part(OnnxScope *s, const char *name, OnnxValue v, Span at)
{
    const NodeId id = onnx_value_node(s, &v, at);
    graph_output(s->graph, name, id);
    return id != 0;
}

static bool output_list(OnnxScope *s, GraphIo *io, const OnnxList *list, Span at)
{
    OnnxModel *m = s->model;
    const char **names = ARENA_ARRAY(m->arena, const char *, list->n);
    bool ok = true;
    for (uint32_t i = 0; i < list->n && ok; i++) {
        names[i] = new_name(m, io->name, i);
        ok = output_part(s, names[i], list->v[i], at);
    }
    io->dtype = list->dtype;
    io->is_text = list->is_text;
    io->parts = names;
    io->n_parts = list->n;
    return ok;
}

static void put_keys(Arena *a, GraphIo *io, const Onnx__AttributeProto *keys)
{
    if (!keys)
        return;
    rlx_assert(keys->n_strings <= UINT32_MAX && keys->n_ints <= UINT32_MAX);
    io->n_keys = (uint32_t)(keys->n_strings ? keys->n_strings : keys->n_ints);
    if (!keys->n_strings) {
        io->keys = arena_copy(a, keys->ints, io->n_keys * sizeof *keys->ints);
        return;
    }
    const char **texts = ARENA_ARRAY(a, const char *, io->n_keys);
    for (uint32_t i = 0; i < io->n_keys; i++)
        texts[i] = arena_strndup(a, (const char *)keys->strings[i].data, keys->strings[i].len);
    io->text_keys = texts;
}

static bool output_tensor(OnnxScope *s, GraphIo *io, OnnxValue v, Span at)
{
    put_keys(s->model->arena, io, v.keys);
    io->is_text = v.is_text;
    io->of = io->kind = v.is_text ? IO_STRING : IO_TENSOR;
    io->parts = arena_copy(s->model->arena, &io->name, sizeof io->name);
    io->n_parts = 1;
    if (!output_part(s, io->name, v, at))
        return false;
    const GraphOutput *out = &s->graph->outputs.data[s->graph->outputs.len - 1];
    io->dtype = (DType)graph_node(s->graph, out->node)->dtype;
    return true;
}

static bool import_output(OnnxScope *s, const Onnx__ValueInfoProto *p)
{
    OnnxModel *m = s->model;
    const Onnx__TypeProto *type = p->type;
    const char *name = onnx_text(p->name);
    const Span at = {.file = m->file, .path = name};
    const OnnxValue v = onnx_get(s, name, at, "the list of outputs");
    const bool is_optional = type && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    GraphIo io = {.name = name, .is_output = true};
    bool ok = v.kind != ONNX_BROKEN;
    if (v.kind == ONNX_ABSENT)
        return diag_error(m->diag, at, E0106, "an output has no name");
    if (is_optional && type->optional_type && sequence_of(type->optional_type->elem_type))
        io.of = IO_SEQUENCE;
    if (v.kind == ONNX_LIST) {
        io.of = io.kind = IO_SEQUENCE;
        ok = output_list(s, &io, v.list, at);
    } else if (v.kind != ONNX_NONE) {
        ok = ok && output_tensor(s, &io, v, at);
    }
    if (is_optional || v.kind == ONNX_NONE) {
        io.kind = IO_OPTIONAL;
        io.has_value = v.kind != ONNX_NONE;
    }
    vec_push(m->arena, &s->graph->io, io);
    return ok;
}

bool onnx_import_outputs(OnnxScope *s, const Onnx__GraphProto *g, Span span)
{
    bool ok = true;
    if (g->n_output == 0)
        return diag_error(s->model->diag, span, E0106, "the model has no outputs");
    for (size_t i = 0; i < g->n_output; i++)
        ok = import_output(s, g->output[i]) && ok;
    if (ok && s->graph->outputs.len == 0)
        return diag_error(
            s->model->diag, span, E0206,
            "all outputs are empty sequences or optionals without a value: nothing is computed");
    return ok;
}
