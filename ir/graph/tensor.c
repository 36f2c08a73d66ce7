// SPDX-License-Identifier: Apache-2.0
// Concrete tensors, and the conversions between element types and numbers. Everything that reads or writes
// elements at compile time goes through here, so that rounding and saturation are the same everywhere.
#include "ir/graph/tensor.h"
#include "ir/graph/reads.h"
#include "ir/graph/small_float.h"

#include <math.h>
#include <string.h>

Tensor tensor_new(Arena *a, DType t, uint32_t rank, const int64_t *dim)
{
    rlx_assert(rank <= SHAPE_MAX_RANK);
    Shape s = shape_of(rank, dim);
    Tensor out = {.dtype = t, .rank = rank, .numel = shape_numel(&s)};
    if (rank)
        memcpy(out.dim, dim, rank * sizeof *dim);
    out.data = arena_alloc_array(a, (size_t)out.numel, dtype_info[t].bytes);
    return out;
}

Tensor tensor_of_unread(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    rlx_assert(n->op == OP_const);
    Tensor out = {.dtype = (DType)n->dtype, .rank = n->shape->rank, .numel = shape_numel(n->shape)};
    memcpy(out.dim, n->shape->dim, sizeof out.dim);
    // The one place where a constant's bytes become writable in type; nobody writes through it.
    memcpy(&out.data, &node_attr(n, A_const_data)->u.blob, sizeof out.data);
    return out;
}

Tensor tensor_of_const(const Graph *g, NodeId id)
{
    const Tensor t = tensor_of_unread(g, id);
    if (g->reads != NULL)
        reads_note(g->reads, t.data);
    return t;
}

Tensor tensor_if_const(const Graph *g, NodeId id)
{
    return node_is_const(g, id) ? tensor_of_const(g, id) : (Tensor){0};
}

// --- elements ---

// An element's bytes, which need not be aligned in a mapped file. Each size is its own copy: as one of a size
// that is not known, it would be a call for each element.
static void copy_bytes(void *to, const void *from, uint32_t bytes)
{
    switch (bytes) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
    }
}

// The bits of element i in the low bytes, zero-extended.
static uint64_t load_bits(const Tensor *t, int64_t i)
{
    const uint32_t bytes = dtype_info[t->dtype].bytes;
    uint64_t bits = 0;
    rlx_assert(i >= 0 && i < t->numel);
    copy_bytes(&bits, (const unsigned char *)t->data + (size_t)i * bytes, bytes);
    return bits;
}

static void store_bits(Tensor *t, int64_t i, uint64_t bits)
{
    const uint32_t bytes = dtype_info[t->dtype].bytes;
    rlx_assert(i >= 0 && i < t->numel);
    copy_bytes((unsigned char *)t->data + (size_t)i * bytes, &bits, bytes);
}

static double f64_of_bits(uint64_t bits)
{
    double v = 0;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t bits_of_f64(double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    return bits;
}

static double f32_of_bits(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float v = 0;
    memcpy(&v, &low, sizeof v);
    return (double)v;
}

static uint64_t bits_of_f32(double v)
{
    float narrow = (float)v;
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

static double float_of_bits(DType t, uint64_t bits)
{
    switch (t) {
    case DTYPE_f64:
        return f64_of_bits(bits);
    case DTYPE_f32:
        return f32_of_bits(bits);
    default:
        return small_float_widen(t, (uint32_t)bits);
    }
}

static uint64_t bits_of_float(DType t, double v)
{
    switch (t) {
    case DTYPE_f64:
        return bits_of_f64(v);
    case DTYPE_f32:
        return bits_of_f32(v);
    default:
        return small_float_narrow(t, v);
    }
}

// Widens the low bits of a signed type.
static int64_t extend_sign(uint64_t bits, uint32_t width)
{
    uint32_t unused = 64 - width;
    return (int64_t)(bits << unused) >> unused;
}

static const double TWO_63 = 9223372036854775808.0, TWO_64 = 18446744073709551616.0;

static int64_t saturate_i64(double v, int64_t min, int64_t max)
{
    if (isnan(v))
        return 0;
    if (v >= TWO_63)
        return max;
    if (v < -TWO_63)
        return min;
    int64_t whole = (int64_t)v;
    return whole < min ? min : whole > max ? max : whole;
}

static uint64_t saturate_u64(double v, uint64_t max)
{
    if (isnan(v) || v <= -1)
        return 0;
    if (v >= TWO_64)
        return max;
    uint64_t whole = v < 0 ? 0 : (uint64_t)v;
    return whole > max ? max : whole;
}

double tensor_get_f64(const Tensor *t, int64_t i)
{
    uint64_t bits = load_bits(t, i);
    switch (dtype_info[t->dtype].cls) {
    case DCLASS_FLOAT:
        return float_of_bits(t->dtype, bits);
    case DCLASS_INT:
        return (double)extend_sign(bits, dtype_info[t->dtype].bits);
    default:
        return (double)bits;
    }
}

int64_t tensor_get_i64(const Tensor *t, int64_t i)
{
    uint64_t bits = load_bits(t, i);
    switch (dtype_info[t->dtype].cls) {
    case DCLASS_FLOAT:
        return saturate_i64(float_of_bits(t->dtype, bits), INT64_MIN, INT64_MAX);
    case DCLASS_INT:
        return extend_sign(bits, dtype_info[t->dtype].bits);
    default:
        return (int64_t)bits;
    }
}

int64_t tensor_saturate(DType t, double v)
{
    const uint32_t unused = 64 - dtype_info[t].bits;
    return dtype_info[t].cls == DCLASS_UINT ? (int64_t)saturate_u64(v, UINT64_MAX >> unused)
                                            : saturate_i64(v, INT64_MIN >> unused, INT64_MAX >> unused);
}

void tensor_set_f64(Tensor *t, int64_t i, double v)
{
    switch (dtype_info[t->dtype].cls) {
    case DCLASS_FLOAT:
        store_bits(t, i, bits_of_float(t->dtype, v));
        break;
    case DCLASS_INT:
    case DCLASS_UINT:
        store_bits(t, i, (uint64_t)tensor_saturate(t->dtype, v));
        break;
    case DCLASS_BOOL:
        store_bits(t, i, v != 0);
        break;
    }
}

uint64_t tensor_get_bits(const Tensor *t, int64_t i)
{
    return load_bits(t, i) & UINT64_MAX >> (64 - dtype_info[t->dtype].bits);
}

void tensor_set_bits(Tensor *t, int64_t i, uint64_t bits)
{
    const DTypeInfo *info = &dtype_info[t->dtype];
    const uint64_t low = bits & UINT64_MAX >> (64 - info->bits);
    store_bits(t, i,
               info->cls == DCLASS_BOOL  ? bits != 0
               : info->cls == DCLASS_INT ? (uint64_t)extend_sign(low, info->bits)
                                         : low);
}

bool tensor_is_clean(const Tensor *t, int64_t i)
{
    const DTypeInfo *info = &dtype_info[t->dtype];
    const uint64_t bits = load_bits(t, i), low = bits & UINT64_MAX >> (64 - info->bits);
    if (info->bits == 8 * info->bytes)
        return true;
    return bits == (info->cls == DCLASS_INT ? (uint64_t)extend_sign(low, info->bits) & 0xff : low);
}

// An int64 as f32, rounded once: through double it could round twice. The odd bit below the double's last
// place keeps the tie from looking like one.
static double round_to_odd(int64_t v)
{
    uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (magnitude >> 53) {
        uint64_t lost = magnitude & 0xfff;
        magnitude = (magnitude & ~(uint64_t)0xfff) | (lost ? (uint64_t)1 << 12 : 0);
    }
    return v < 0 ? -(double)magnitude : (double)magnitude;
}

void tensor_set_i64(Tensor *t, int64_t i, int64_t v)
{
    switch (dtype_info[t->dtype].cls) {
    case DCLASS_FLOAT:
        store_bits(t, i, bits_of_float(t->dtype, t->dtype == DTYPE_f64 ? (double)v : round_to_odd(v)));
        break;
    case DCLASS_BOOL:
        store_bits(t, i, v != 0);
        break;
    case DCLASS_INT:
        store_bits(t, i, (uint64_t)extend_sign((uint64_t)v, dtype_info[t->dtype].bits));
        break;
    case DCLASS_UINT:
        store_bits(t, i, (uint64_t)v & UINT64_MAX >> (64 - dtype_info[t->dtype].bits));
        break;
    }
}

int32_t *tensor_centred(Arena *a, const Tensor *t, const Tensor *zero)
{
    rlx_assert(dtype_info[t->dtype].bytes == 1 && t->rank > 0);
    int32_t *v = ARENA_ARRAY(a, int32_t, (uint64_t)t->numel + 1);
    const int64_t each = t->dim[0] > 0 ? t->numel / t->dim[0] : 1;
    for (int64_t i = 0; i < t->numel; i++) {
        const int64_t z = zero->numel == 0 ? 0 : tensor_get_i64(zero, zero->numel == 1 ? 0 : i / each);
        v[i] = (int32_t)(tensor_get_i64(t, i) - z);
    }
    return v;
}

// --- half precision ---

uint16_t f16_from_f64(double v)
{
    return (uint16_t)small_float_narrow(DTYPE_f16, v);
}

double f16_to_f64(uint16_t v)
{
    return small_float_widen(DTYPE_f16, v);
}

uint16_t bf16_from_f64(double v)
{
    return (uint16_t)small_float_narrow(DTYPE_bf16, v);
}

double bf16_to_f64(uint16_t v)
{
    return small_float_widen(DTYPE_bf16, v);
}

DType tensor_byte_type(const int32_t *v, int64_t n)
{
    int32_t least = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    return least >= INT8_MIN && most <= INT8_MAX ? DTYPE_i8
           : least >= 0 && most <= UINT8_MAX     ? DTYPE_u8
                                                 : DTYPE_i16;
}

void tensor_set_from(Tensor *t, int64_t i, const Tensor *from)
{
    if (dtype_info[t->dtype].cls == DCLASS_FLOAT)
        tensor_set_f64(t, i, tensor_get_f64(from, i));
    else
        tensor_set_i64(t, i, tensor_get_i64(from, i));
}

bool tensor_is_alike(const Tensor *a, const Tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
}
