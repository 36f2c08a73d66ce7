// SPDX-License-Identifier: Apache-2.0
// See tfl_file.h. The numbers of fields are those of TensorFlow Lite's schema, version 3.
#include "compiler/import/tflite/tfl_file.h"
#include "base/diag.h"

enum { MODEL_CODES = 1, MODEL_GRAPHS = 2, MODEL_BUFFERS = 4, MODEL_METADATA = 6, MODEL_SIGNATURES = 7 };
enum { CODE_OLD = 0, CODE_CUSTOM = 1, CODE_NEW = 3 };
enum { GRAPH_TENSORS = 0, GRAPH_INPUTS = 1, GRAPH_OUTPUTS = 2, GRAPH_OPERATORS = 3, GRAPH_NAME = 4 };
enum {
    TENSOR_SHAPE = 0,
    TENSOR_TYPE = 1,
    TENSOR_BUFFER = 2,
    TENSOR_NAME = 3,
    TENSOR_QUANTISATION = 4,
    TENSOR_IS_VARIABLE = 5,
    TENSOR_SPARSITY = 6,
    TENSOR_SIGNATURE = 7
};
enum { QUANT_SCALE = 2, QUANT_ZERO = 3, QUANT_AXIS = 6 };
enum { BUFFER_DATA = 0, BUFFER_OFFSET = 1, BUFFER_SIZE = 2 };
enum { SIGNATURE_INPUTS = 0, SIGNATURE_OUTPUTS = 1, SIGNATURE_KEY = 2, SIGNATURE_GRAPH = 4 };

static const struct {
    const char *name;
    int dtype; // -1: none of ours
} types[] = {
    {"FLOAT32", DTYPE_f32}, {"FLOAT16", DTYPE_f16}, {"INT32", DTYPE_i32},     {"UINT8", DTYPE_u8},
    {"INT64", DTYPE_i64},   {"STRING", -1},         {"BOOL", DTYPE_bool},     {"INT16", DTYPE_i16},
    {"COMPLEX64", -1},      {"INT8", DTYPE_i8},     {"FLOAT64", DTYPE_f64},   {"COMPLEX128", -1},
    {"UINT64", DTYPE_u64},  {"RESOURCE", -1},       {"VARIANT", -1},          {"UINT32", DTYPE_u32},
    {"UINT16", DTYPE_u16},  {"INT4", DTYPE_i8},     {"BFLOAT16", DTYPE_bf16},
};

const char *tfl_type_name(int32_t type)
{
    return type >= 0 && (size_t)type < sizeof types / sizeof *types ? types[type].name
                                                                    : "of an unknown number";
}

static bool tfl_dtype(int32_t type, DType *out)
{
    if (type < 0 || (size_t)type >= sizeof types / sizeof *types || types[type].dtype < 0)
        return false;
    *out = (DType)types[type].dtype;
    return true;
}

static bool broken(TflFile *f, const char *what)
{
    if (!f->flat.broken)
        f->flat.broken = what;
    return false;
}

bool tfl_file_open(TflFile *f, Arena *a, const void *data, size_t len)
{
    *f = (TflFile){.arena = a, .flat = {.data = data, .len = len}};
    f->root = flat_root(&f->flat);
    f->codes = flat_list(f->root, MODEL_CODES, 4);
    f->graphs = flat_list(f->root, MODEL_GRAPHS, 4);
    f->buffers = flat_list(f->root, MODEL_BUFFERS, 4);
    f->metadata = flat_list(f->root, MODEL_METADATA, 4);
    f->signatures = flat_list(f->root, MODEL_SIGNATURES, 4);
    f->read = ARENA_ARRAY(a, TflGraph *, f->graphs.n + 1);
    return !f->flat.broken;
}

// --- tensors ---

// Shapes are lists of i32; one that is open has -1 in the signature beside it.
static bool read_shape(TflFile *f, FlatTable t, TflTensor *out)
{
    const FlatList shape = flat_list(t, TENSOR_SHAPE, 4), open = flat_list(t, TENSOR_SIGNATURE, 4);
    if (shape.n > SHAPE_MAX_RANK)
        return broken(f, "a tensor has more than 8 axes");
    out->shape.rank = shape.n;
    for (uint32_t i = 0; i < shape.n; i++) {
        out->shape.dim[i] = flat_list_int(shape, i, FLAT_I32);
        if (out->shape.dim[i] < 0 && !f->flat.broken)
            return broken(f, "a tensor has a negative size");
        if (open.n == shape.n && flat_list_int(open, i, FLAT_I32) == -1)
            out->open |= 1u << i;
    }
    return !f->flat.broken;
}

// The bytes of a buffer: in it, or beyond the flatbuffer for files of more than 2 GB.
static bool read_buffer(TflFile *f, FlatTable t, TflTensor *out)
{
    const int64_t index = flat_int(t, TENSOR_BUFFER, FLAT_U32, 0);
    if (index >= f->buffers.n)
        return index == 0 || broken(f, "a tensor names a buffer that does not exist");
    const FlatTable buffer = flat_list_table(f->buffers, (uint32_t)index);
    const FlatList data = flat_list(buffer, BUFFER_DATA, 1);
    const uint64_t at = (uint64_t)flat_int(buffer, BUFFER_OFFSET, FLAT_U64, 0);
    const uint64_t n = (uint64_t)flat_int(buffer, BUFFER_SIZE, FLAT_U64, 0);
    out->data = flat_list_bytes(data);
    out->bytes = data.n;
    if (at <= 1 || f->flat.broken)
        return !f->flat.broken;
    if (at > f->flat.len || n > f->flat.len - at)
        return broken(f, "a buffer is outside of it");
    out->data = n ? f->flat.data + at : NULL;
    out->bytes = n;
    return true;
}

static bool read_tensor(TflFile *f, FlatTable t, TflTensor *out)
{
    const FlatTable quant = flat_table(t, TENSOR_QUANTISATION);
    out->name = flat_text(f->arena, t, TENSOR_NAME);
    out->type = (int32_t)flat_int(t, TENSOR_TYPE, FLAT_I8, 0);
    out->has_dtype = tfl_dtype(out->type, &out->dtype);
    out->is_variable = flat_int(t, TENSOR_IS_VARIABLE, FLAT_U8, 0) != 0;
    out->sparse = flat_table(t, TENSOR_SPARSITY);
    out->scale = flat_list(quant, QUANT_SCALE, 4);
    out->zero = flat_list(quant, QUANT_ZERO, 8);
    const int64_t axis = flat_int(quant, QUANT_AXIS, FLAT_I32, 0);
    if (axis < 0 || axis >= SHAPE_MAX_RANK)
        return broken(f, "a tensor is quantised along an axis that does not exist");
    out->axis = (uint32_t)axis;
    return read_shape(f, t, out) && read_buffer(f, t, out);
}

const TflGraph *tfl_file_graph(TflFile *f, int64_t index)
{
    if (index < 0 || index >= f->graphs.n)
        return NULL;
    if (f->read[index])
        return f->read[index];
    TflGraph *g = ARENA_NEW(f->arena, TflGraph);
    g->table = flat_list_table(f->graphs, (uint32_t)index);
    const FlatList tensors = flat_list(g->table, GRAPH_TENSORS, 4);
    g->name = flat_text(f->arena, g->table, GRAPH_NAME);
    g->inputs = flat_list(g->table, GRAPH_INPUTS, 4);
    g->outputs = flat_list(g->table, GRAPH_OUTPUTS, 4);
    g->operators = flat_list(g->table, GRAPH_OPERATORS, 4);
    g->n_tensors = tensors.n;
    g->tensors = ARENA_ARRAY(f->arena, TflTensor, tensors.n + 1);
    for (uint32_t i = 0; i < tensors.n && !f->flat.broken; i++)
        if (!read_tensor(f, flat_list_table(tensors, i), &g->tensors[i]))
            return NULL;
    f->read[index] = f->flat.broken ? NULL : g;
    return f->read[index];
}

// Codes above 127 have their number in a field that was added later; older files do not have it.
bool tfl_file_code(TflFile *f, int64_t index, int32_t *code, const char **custom)
{
    if (index < 0 || index >= f->codes.n)
        return false;
    const FlatTable t = flat_list_table(f->codes, (uint32_t)index);
    const int64_t a = flat_int(t, CODE_OLD, FLAT_I8, 0), b = flat_int(t, CODE_NEW, FLAT_I32, 0);
    *code = (int32_t)(a > b ? a : b);
    *custom = flat_text(f->arena, t, CODE_CUSTOM);
    return !f->flat.broken;
}

// --- signatures ---

static TflName *read_names(TflFile *f, FlatTable t, uint32_t field, uint32_t *n)
{
    const FlatList list = flat_list(t, field, 4);
    TflName *names = ARENA_ARRAY(f->arena, TflName, list.n + 1);
    for (uint32_t i = 0; i < list.n; i++) {
        const FlatTable entry = flat_list_table(list, i);
        names[i].name = flat_text(f->arena, entry, 0);
        names[i].tensor = (uint32_t)flat_int(entry, 1, FLAT_U32, 0);
    }
    *n = list.n;
    return names;
}

TflSignature tfl_file_signature(TflFile *f, uint32_t index)
{
    TflSignature s = {.key = ""};
    rlx_assert(index < f->signatures.n);
    const FlatTable t = flat_list_table(f->signatures, index);
    s.key = flat_text(f->arena, t, SIGNATURE_KEY);
    s.graph = (uint32_t)flat_int(t, SIGNATURE_GRAPH, FLAT_U32, 0);
    s.inputs = read_names(f, t, SIGNATURE_INPUTS, &s.n_inputs);
    s.outputs = read_names(f, t, SIGNATURE_OUTPUTS, &s.n_outputs);
    return s;
}
