// SPDX-License-Identifier: Apache-2.0
// What import functions read of an operator: operands, options, and where results go. See tfl_import.h.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

bool tfl_fail(TflNode *n, DiagCode code, const char *fmt, ...)
{
    if (n->failed)
        return false;
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(n->model->arena, fmt, args);
    va_end(args);
    n->failed = true;
    return diag_error(n->model->diag, n->span, code, "operator '%s': %s: %s", n->label, n->op->name, text);
}

// --- operands ---

bool tfl_has(const TflNode *n, uint32_t i)
{
    return i < n->n_in && n->in[i] >= 0;
}

static const TflTensor *tensor_of(TflNode *n, int64_t index)
{
    static const TflTensor none = {.name = ""};
    return index >= 0 && index < n->scope->of->n_tensors ? &n->scope->of->tensors[index] : &none;
}

const TflTensor *tfl_in(TflNode *n, uint32_t i)
{
    return tensor_of(n, i < n->n_in ? n->in[i] : -1);
}

const TflTensor *tfl_of_out(TflNode *n, uint32_t i)
{
    return tensor_of(n, i < n->n_out ? n->out[i] : -1);
}

void tfl_skip(TflNode *n, uint32_t i)
{
    if (i < n->n_in)
        n->in_used[i] = true;
}

// Two values a byte, the first in the low bits, each a signed integer.
static const void *unpack_i4(TflNode *n, const TflTensor *t, uint64_t count)
{
    const uint8_t *from = t->data;
    int8_t *to = ARENA_ARRAY(n->model->arena, int8_t, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        const int v = i % 2 ? from[i / 2] >> 4 : from[i / 2] & 15;
        to[i] = (int8_t)(v > 7 ? v - 16 : v);
    }
    return to;
}

static NodeId import_const(TflNode *n, const TflTensor *t)
{
    const uint64_t count = (uint64_t)shape_numel(&t->shape);
    const bool is_packed = t->type == TFL_I4, is_sparse = flat_is(t->sparse);
    const uint64_t wanted = is_packed ? count / 2 + count % 2 : type_bytes(t->dtype, &t->shape);
    if (!is_sparse && wanted != t->bytes)
        return tfl_fail(n, E0113, "tensor '%s' has %llu bytes, expected %llu", t->name,
                        (unsigned long long)t->bytes, (unsigned long long)wanted);
    const void *data = is_sparse ? tfl_sparse_values(n, t) : is_packed ? unpack_i4(n, t, count) : t->data;
    if (n->failed)
        return 0;
    if (t->dtype == DTYPE_bool) { // any byte but 0 is true there
        uint8_t *bits = arena_copy(n->model->arena, data, count);
        for (uint64_t i = 0; i < count; i++)
            bits[i] = bits[i] != 0;
        data = bits;
    }
    const NodeId id = tfl_const(n, t->dtype, &t->shape, data);
    if (id && t->name[0])
        graph_label(n->graph, id, t->name);
    return id;
}

static uint32_t new_variable(TflNode *n, const char *name)
{
    const TflVariable v = {.name = name};
    vec_push(n->model->arena, &n->model->variables, v);
    return n->model->variables.len;
}

// Bytes of i8 with a zero point begin with it, all others with zeros, as interpreters reset them. NULL:
// zeros.
static const void *first_bytes(TflNode *n, const TflTensor *t)
{
    if (t->dtype != DTYPE_i8 || t->zero.n == 0 || flat_list_int(t->zero, 0, FLAT_I64) == 0)
        return NULL;
    const uint64_t bytes = type_bytes(t->dtype, &t->shape);
    if (!tfl_spend(n, bytes))
        return NULL;
    void *v = arena_alloc(n->model->arena, (size_t)bytes + 1);
    return memset(v, (int)(flat_list_int(t->zero, 0, FLAT_I64) & 255), (size_t)bytes);
}

// A variable tensor: a state.
static NodeId read_variable(TflNode *n, uint32_t index, const TflTensor *t)
{
    TflScope *s = n->scope;
    if (!s->has_states || s->is_first)
        return tfl_fail(n, E0206, "variable '%s' is in a sub-graph, where it is not supported", t->name);
    if (!s->handles[index])
        s->handles[index] = new_variable(n, t->name);
    TflVariable *v = &n->model->variables.data[s->handles[index] - 1];
    if (!v->leaf) {
        const void *first = first_bytes(n, t);
        v->leaf = graph_state(n->graph, t->name[0] ? t->name : "variable", t->dtype, &t->shape, first,
                              first ? type_bytes(t->dtype, &t->shape) : 0, n->span);
        v->now = v->leaf;
        n->failed = v->leaf == 0;
    }
    return v->now;
}

void tfl_write(TflNode *n, uint32_t i, NodeId id)
{
    if (n->failed || tfl_src(n, i) == 0)
        return;
    const uint32_t variable = n->scope->handles[n->in[i]];
    if (!variable) {
        tfl_fail(n, E0106, "operand %u is written, but is no variable", i);
        return;
    }
    n->model->variables.data[variable - 1].now = id;
}

static NodeId value_of(TflNode *n, uint32_t i)
{
    const TflTensor *t = tfl_in(n, i);
    const int64_t index = n->in[i];
    TflScope *s = n->scope;
    if (index >= s->of->n_tensors)
        return tfl_fail(n, E0113, "operand %u is tensor %lld, which does not exist", i, (long long)index);
    if (!t->has_dtype)
        return tfl_fail(n, E0206, "tensor '%s' of type %s is not supported", t->name, tfl_type_name(t->type));
    if (s->values[index])
        return s->values[index];
    if (t->is_variable)
        return read_variable(n, (uint32_t)index, t);
    if (!t->data && shape_numel(&t->shape) != 0)
        return tfl_fail(n, E0113, "tensor '%s' is read before anything writes it", t->name);
    s->values[index] = import_const(n, t);
    return s->values[index];
}

NodeId tfl_opt(TflNode *n, uint32_t i)
{
    tfl_skip(n, i);
    return n->failed || !tfl_has(n, i) ? 0 : value_of(n, i);
}

NodeId tfl_src(TflNode *n, uint32_t i)
{
    if (!tfl_has(n, i))
        tfl_fail(n, E0202, "operand %u is missing", i);
    return tfl_opt(n, i);
}

bool tfl_is_complex(TflNode *n, uint32_t i)
{
    return tfl_in(n, i)->type == TFL_COMPLEX64;
}

NodeId tfl_src_complex(TflNode *n, uint32_t i)
{
    const TflTensor *t = tfl_in(n, i);
    tfl_skip(n, i);
    if (!tfl_is_complex(n, i))
        return tfl_fail(n, E0205, "operand %u must be complex, found %s", i, tfl_type_name(t->type));
    const NodeId id = n->scope->values[n->in[i]];
    if (!id)
        tfl_fail(n, E0206, "tensor '%s' is a complex constant, which is not supported", t->name);
    return n->failed ? 0 : id;
}

bool tfl_src_dims(TflNode *n, uint32_t i, Dim *out, uint32_t *count)
{
    const NodeId id = tfl_src(n, i);
    *count = 0;
    return !n->failed && (tfl_known_dims(n, id, out, count) ||
                          tfl_fail(n, E0206,
                                   "operand %u ('%s') must be known when the model is compiled; the model "
                                   "computes it, or it has more than %d entries",
                                   i, tfl_in(n, i)->name, TFL_MAX_LIST));
}

// A run in which the operand is not this fails.
static void check_shape(TflNode *n, uint32_t i, NodeId id, const Shape *s)
{
    static const int64_t axis = 0;
    const Shape list = {.rank = 1, .dim = {s->rank}};
    Tensor v = tensor_new(n->model->arena, tfl_type(n, id), 1, list.dim);
    for (uint32_t k = 0; k < s->rank; k++)
        tensor_set_i64(&v, k, s->dim[k]);
    const NodeId same = tfl_op2(n, OP_eq, id, tfl_const(n, v.dtype, &list, v.data));
    const NodeId all = tfl_reduce(n, OP_reduce_min, tfl_cast(n, same, DTYPE_i32), &axis, 1, false);
    const NodeId is_good = tfl_cast(n, all, DTYPE_bool);
    if (!n->failed)
        n->failed = !graph_check(n->graph, is_good,
                                 arena_printf(n->model->arena,
                                              "operator '%s': operand %u is not the shape that the file says",
                                              n->label, i));
}

bool tfl_src_shape(TflNode *n, uint32_t i, Dim *out, uint32_t *count)
{
    const TflTensor *t = tfl_of_out(n, 0);
    const NodeId id = tfl_src(n, i);
    bool is_open =
        t->open != 0 || t->shape.rank == 0 || tfl_rank(n, id) != 1 || tfl_size(n, id, 0) != t->shape.rank;
    for (uint32_t k = 0; k < t->shape.rank; k++)
        is_open = is_open || t->shape.dim[k] < 1;
    if (n->failed || is_open || tfl_known_dims(n, id, out, count))
        return tfl_src_dims(n, i, out, count);
    *count = t->shape.rank;
    memcpy(out, t->shape.dim, t->shape.rank * sizeof *out);
    check_shape(n, i, id, &t->shape);
    return !n->failed;
}

bool tfl_src_ints(TflNode *n, uint32_t i, int64_t *out, uint32_t *count)
{
    if (!tfl_src_dims(n, i, out, count))
        return false;
    for (uint32_t k = 0; k < *count; k++)
        if (!dim_is_const(out[k]))
            return tfl_fail(n, E0207, "operand %u ('%s') depends on a size that is open", i,
                            tfl_in(n, i)->name);
    return true;
}

int64_t tfl_src_int(TflNode *n, uint32_t i)
{
    int64_t v[TFL_MAX_LIST];
    uint32_t count = 0;
    if (tfl_src_ints(n, i, v, &count) && count != 1)
        tfl_fail(n, E0204, "operand %u must have one element, found %u", i, count);
    return n->failed ? 0 : v[0];
}

uint32_t tfl_axis(TflNode *n, int64_t axis, uint32_t rank)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        tfl_fail(n, E0203, "axis %lld is out of range for rank %u", (long long)axis, rank);
    return n->failed ? 0 : (uint32_t)(axis < 0 ? axis + rank : axis);
}

const Shape *tfl_shape(const TflNode *n, NodeId id)
{
    static const Shape scalar = {0};
    return id ? graph_node(n->graph, id)->shape : &scalar;
}

DType tfl_type(const TflNode *n, NodeId id)
{
    return id ? (DType)graph_node(n->graph, id)->dtype : DTYPE_f32;
}

uint32_t tfl_rank(const TflNode *n, NodeId id)
{
    return tfl_shape(n, id)->rank;
}

int64_t tfl_size(TflNode *n, NodeId id, uint32_t axis)
{
    const Shape *s = tfl_shape(n, id);
    if (n->failed)
        return 0;
    if (axis >= s->rank)
        return tfl_fail(n, E0204, "expected an operand with at least %u axes, found %u", axis + 1, s->rank);
    if (!dim_is_const(s->dim[axis]))
        return tfl_fail(n, E0207, "the size of axis %u must be a number", axis);
    return s->dim[axis];
}

// --- options ---

static void use(TflNode *n, uint32_t field)
{
    rlx_assert(field < 64);
    n->options_used |= UINT64_C(1) << field;
}

int64_t tfl_option(TflNode *n, uint32_t field, FlatInt type, int64_t dflt)
{
    use(n, field);
    return flat_int(n->options, field, type, dflt);
}

double tfl_option_f32(TflNode *n, uint32_t field, double dflt)
{
    use(n, field);
    return flat_f32(n->options, field, dflt);
}

bool tfl_option_ints(TflNode *n, uint32_t field, int64_t *out, uint32_t *count)
{
    use(n, field);
    const FlatList l = flat_list(n->options, field, 4);
    *count = 0;
    if (l.n > TFL_MAX_LIST)
        return tfl_fail(n, E0004, "a list of options has %u entries; at most %d are possible", l.n,
                        TFL_MAX_LIST);
    for (; *count < l.n; ++*count)
        out[*count] = flat_list_int(l, *count, FLAT_I32);
    return !n->failed && l.n != 0;
}

const float *tfl_option_floats(TflNode *n, uint32_t field, uint32_t *count)
{
    use(n, field);
    const FlatList l = flat_list(n->options, field, 4);
    float *v = ARENA_ARRAY(n->model->arena, float, (uint64_t)l.n + 1);
    for (*count = 0; *count < l.n; ++*count)
        v[*count] = (float)flat_list_f32(l, *count);
    return v;
}

const char *tfl_option_text(TflNode *n, uint32_t field)
{
    use(n, field);
    return flat_text(n->model->arena, n->options, field);
}

void tfl_ignore(TflNode *n, uint32_t field)
{
    use(n, field);
}

// --- results ---

static void put_result(TflNode *n, uint32_t i, NodeId id, bool is_complex)
{
    const TflTensor *t = tfl_of_out(n, i);
    rlx_assert(n->failed || id < n->graph->nodes.len);
    const bool fits = is_complex ? t->type == TFL_COMPLEX64 : t->has_dtype && t->dtype == tfl_type(n, id);
    if (i >= n->n_out && !n->failed)
        tfl_fail(n, E0202, "result %u is missing", i);
    if (n->failed || n->out[i] < 0)
        return;
    rlx_assert(id != 0);
    if (!fits)
        tfl_fail(n, E0205, "result %u is of type %s, but the file says %s", i,
                 is_complex ? "COMPLEX64" : dtype_info[tfl_type(n, id)].name, tfl_type_name(t->type));
    else
        n->scope->values[n->out[i]] = id;
}

void tfl_out(TflNode *n, uint32_t i, NodeId id)
{
    put_result(n, i, id, false);
}

void tfl_out_complex(TflNode *n, uint32_t i, NodeId id)
{
    put_result(n, i, id, true);
}
