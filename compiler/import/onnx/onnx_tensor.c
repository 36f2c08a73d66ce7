// SPDX-License-Identifier: Apache-2.0
// Tensors of a model: from any of the ways in which ONNX stores their elements to the bytes of a constant
// node.
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

enum { LARGE_TENSOR = 1 << 20 };

// By number, for messages: also those types that rlxc does not have.
static const char *const type_names[] = {
    "undefined", "float",      "uint8",      "int8",         "uint16",         "int16",      "int32",
    "int64",     "string",     "bool",       "float16",      "double",         "uint32",     "uint64",
    "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2",
};

bool onnx_dtype_of(int32_t onnx, DType *out)
{
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        if (dtype_info[i].onnx == onnx) {
            rlx_assert((size_t)onnx < sizeof type_names / sizeof *type_names);
            *out = (DType)i;
            return true;
        }
    }
    return false;
}

const char *onnx_dtype_text(int32_t onnx)
{
    return onnx >= 0 && (size_t)onnx < sizeof type_names / sizeof *type_names ? type_names[onnx] : "unknown";
}

// A tensor while it is read.
typedef struct Reader {
    OnnxModel *model;
    const Onnx__TensorProto *t;
    const char *what;
    Span span;
    DType dtype;
    Shape shape;
    uint64_t numel, bytes; // of ours
    uint64_t packing;      // elements in a byte of the model
} Reader;

__attribute__((format(printf, 3, 4))) static bool fail(Reader *r, DiagCode code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(r->model->arena, fmt, args);
    va_end(args);
    return diag_error(r->model->diag, r->span, code, "%s: %s", r->what, text);
}

static bool read_type(Reader *r)
{
    const Onnx__TensorProto *t = r->t;
    if (!onnx_dtype_of(t->data_type, &r->dtype))
        return fail(r, E0206, "element type %s (%d) is not supported", onnx_dtype_text(t->data_type),
                    t->data_type);
    if (t->segment)
        return fail(r, E0206, "a tensor in segments is not supported");
    if (t->n_dims > SHAPE_MAX_RANK)
        return fail(r, E0206, "%zu axes are more than the %d that are supported", t->n_dims, SHAPE_MAX_RANK);
    r->shape.rank = (uint32_t)t->n_dims;
    r->numel = 1;
    for (uint32_t i = 0; i < r->shape.rank; i++) {
        if (t->dims[i] < 0)
            return fail(r, E0106, "axis %u has the negative size %lld", i, (long long)t->dims[i]);
        if (!dim_from_size(t->dims[i], &r->shape.dim[i]) ||
            __builtin_mul_overflow(r->numel, (uint64_t)t->dims[i], &r->numel) ||
            r->numel > (uint64_t)DIM_MAX_VALUE)
            return fail(r, E0004, "the tensor has more than %lld elements", (long long)DIM_MAX_VALUE);
    }
    r->bytes = r->numel * dtype_info[r->dtype].bytes;
    r->packing = dtype_info[r->dtype].bits < 8 && r->dtype != DTYPE_bool ? 8 / dtype_info[r->dtype].bits : 1;
    rlx_assert(r->packing >= 1 && r->packing <= 4);
    return true;
}

// Bytes other than 0 and 1 are no bool.
static const void *clean_bools(Reader *r, const void *data)
{
    rlx_assert(r->dtype == DTYPE_bool);
    uint8_t *copy = arena_copy(r->model->arena, data, (size_t)r->bytes);
    for (uint64_t i = 0; i < r->bytes; i++)
        copy[i] = copy[i] != 0;
    return copy;
}

static uint64_t raw_bytes(const Reader *r)
{
    return r->packing == 1 ? r->bytes : (r->numel + r->packing - 1) / r->packing;
}

// Elements of 4 or 2 bits: the first one in the lowest bits. `stride` bytes hold one packed byte.
static const void *unpack(Reader *r, const uint8_t *data, uint32_t stride)
{
    rlx_assert(r->packing > 1);
    Tensor out = {.dtype = r->dtype, .numel = (int64_t)r->numel};
    out.data = arena_alloc_array(r->model->arena, (size_t)r->numel, 1);
    for (uint64_t i = 0; i < r->numel; i++) {
        const uint32_t byte = data[i / r->packing * stride];
        tensor_set_bits(&out, (int64_t)i, byte >> (i % r->packing * dtype_info[r->dtype].bits));
    }
    return out.data;
}

static bool use_raw(Reader *r, const void *data, uint64_t len, const void **out)
{
    const uint64_t wanted = raw_bytes(r);
    if (len != wanted)
        return fail(r, E0106, "has %llu bytes of data, but its type needs %llu", (unsigned long long)len,
                    (unsigned long long)wanted);
    if (r->packing > 1 && r->numel > 0) {
        *out = unpack(r, data, 1);
        return true;
    }
    *out = r->dtype == DTYPE_bool ? clean_bools(r, data) : data;
    return true;
}

// int32_data holds every type of up to 32 bits but f32 and u32, one element an entry (of the types of 4 and 2
// bits one byte of them); floats of 16 and 8 bits as their bits.
static const void *pack_ints(Reader *r)
{
    const uint32_t size = dtype_info[r->dtype].bytes;
    rlx_assert(size <= sizeof *r->t->int32_data);
    uint8_t *out = ARENA_ARRAY(r->model->arena, uint8_t, r->bytes);
    for (uint64_t i = 0; i < r->numel; i++) {
        const uint32_t v = (uint32_t)r->t->int32_data[i];
        memcpy(out + i * size, &v, size);
    }
    return out;
}

static const void *pack_u32(Reader *r)
{
    uint32_t *out = ARENA_ARRAY(r->model->arena, uint32_t, r->numel);
    for (uint64_t i = 0; i < r->numel; i++)
        out[i] = (uint32_t)r->t->uint64_data[i];
    return out;
}

// The typed field that holds elements of this type, and how many it has.
static const void *typed_field(const Reader *r, size_t *count)
{
    const Onnx__TensorProto *t = r->t;
    switch (r->dtype) {
    case DTYPE_f32:
        *count = t->n_float_data;
        return t->float_data;
    case DTYPE_f64:
        *count = t->n_double_data;
        return t->double_data;
    case DTYPE_i64:
        *count = t->n_int64_data;
        return t->int64_data;
    case DTYPE_u64:
    case DTYPE_u32:
        *count = t->n_uint64_data;
        return t->uint64_data;
    default:
        *count = t->n_int32_data;
        return t->int32_data;
    }
}

static bool read_typed(Reader *r, const void **out)
{
    size_t count = 0;
    *out = typed_field(r, &count);
    const uint64_t wanted = r->packing > 1 ? raw_bytes(r) : r->numel;
    if (count != wanted)
        return fail(r, E0106, "has %zu elements of data, but its shape needs %llu", count,
                    (unsigned long long)wanted);
    if (r->numel == 0)
        return true;
    if (r->packing > 1)
        *out = unpack(r, *out, sizeof *r->t->int32_data);
    else if (r->dtype == DTYPE_u32)
        *out = pack_u32(r);
    else if (*out == r->t->int32_data && r->dtype != DTYPE_i32)
        *out = pack_ints(r);
    if (r->dtype == DTYPE_bool)
        *out = clean_bools(r, *out);
    return true;
}

// --- external data ---

typedef struct External {
    const char *location;
    int64_t offset, length; // length -1: as the type says
} External;

static bool read_external_entry(Reader *r, const Onnx__StringStringEntryProto *e, External *x)
{
    const char *key = onnx_text(e->key), *value = onnx_text(e->value);
    int64_t *number = strcmp(key, "offset") == 0   ? &x->offset
                      : strcmp(key, "length") == 0 ? &x->length
                                                   : NULL;
    if (strcmp(key, "location") == 0)
        x->location = value;
    if (number && (!str_parse_i64(value, strlen(value), number) || *number < 0))
        return fail(r, E0106, "the %s '%s' of its external data is not a number", key, value);
    return true;
}

// Bytes that lie at odd places of their file; the same ones for all tensors that name them.
static const void *copy_once(OnnxModel *m, const void *data, uint64_t n)
{
    const struct {
        const void *data;
        uint64_t n;
    } key = {data, n};
    uint64_t known = 0;
    if (!map_get(&m->odd_bytes, &key, sizeof key, &known)) {
        known = (uint64_t)(uintptr_t)arena_copy(m->arena, data, (size_t)n);
        map_put(m->arena, &m->odd_bytes, &key, sizeof key, known);
    }
    return (const void *)(uintptr_t)known;
}

static bool read_external(Reader *r, const void **out)
{
    External x = {.location = "", .length = -1};
    OnnxModel *m = r->model;
    for (size_t i = 0; i < r->t->n_external_data; i++)
        if (!read_external_entry(r, r->t->external_data[i], &x))
            return false;
    const char *path = x.location[0] == '/' ? NULL : rawfile_resolve(m->arena, m->source->dir, x.location);
    if (!path)
        return fail(r, E0106, "the file '%s' of its external data is not in the folder of the model",
                    x.location);
    RawFile file;
    if (!rawfile_open_once(m->diag, r->span, path, &file))
        return false;
    rlx_assert(x.offset >= 0 && x.length >= -1);
    const uint64_t offset = (uint64_t)x.offset, length = x.length < 0 ? raw_bytes(r) : (uint64_t)x.length;
    if (offset > file.len || length > file.len - offset)
        return fail(r, E0106, "its external data is bytes %llu to %llu of '%s', which has %zu",
                    (unsigned long long)offset, (unsigned long long)(offset + length), path, file.len);
    const void *data = file.data + offset;
    if (offset % dtype_info[r->dtype].bytes != 0)
        data = copy_once(m, data, length);
    return use_raw(r, data, length, out);
}

NodeId onnx_tensor_const(OnnxModel *m, Graph *g, const Onnx__TensorProto *t, const char *what, Span span)
{
    Reader r = {.model = m, .t = t, .what = what, .span = span};
    const void *data = NULL;
    bool ok = read_type(&r);
    if (ok && t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        ok = read_external(&r, &data);
    else if (ok && t->has_raw_data && (t->raw_data.len || r.numel == 0))
        ok = use_raw(&r, t->raw_data.data, t->raw_data.len, &data);
    else if (ok)
        ok = read_typed(&r, &data);
    rlx_assert(!ok || data != NULL || r.bytes == 0);
    const NodeId id = ok ? graph_const(g, r.dtype, &r.shape, data, r.bytes, span) : 0;
    if (r.bytes >= LARGE_TENSOR) // looking for an equal constant has read all of it
        rawfile_release_pages();
    return id;
}
