// SPDX-License-Identifier: Apache-2.0
// Gather and scatter by element. All work along the flattened tensor: the flat index is computed from the
// positions on every axis. Gathers become one gather. Scatters whose indices are constants choose for every
// element between the old value and an update; others become one scatter, which applies the updates in order.
#include "compiler/import/onnx/onnx_import.h"

// Elements of a tensor that is scattered into, and of the updates: the map has an entry for each.
#define SCATTER_MAX (INT64_C(1) << 22)

static const Dim flat_shape[1] = {-1};

static NodeId flatten(OnnxNode *n, NodeId x)
{
    return onnx_reshape_to(n, x, flat_shape, 1);
}

// Elements between neighbours of every axis.
static Dim read_strides(OnnxNode *n, NodeId x, Dim *strides)
{
    Dim numel = 1;
    for (uint32_t i = onnx_shape(n, x)->rank; i-- > 0;) {
        strides[i] = numel;
        numel = dim_mul(n->graph->dims, numel, onnx_shape(n, x)->dim[i]);
    }
    return numel;
}

// The product of dims [from, to).
static Dim count_of(OnnxNode *n, const Shape *s, uint32_t from, uint32_t to)
{
    return dim_product(n->graph->dims, s->dim + from, to - from);
}

static NodeId int_scalar(OnnxNode *n, int64_t v)
{
    return onnx_scalar(n, DTYPE_i64, (double)v);
}

// A size as a number, also one that is known only at run time.
static NodeId size_scalar(OnnxNode *n, Dim d)
{
    if (dim_is_const(d) || n->failed)
        return int_scalar(n, dim_is_const(d) ? d : 0);
    const OnnxDims dims = {.dtype = DTYPE_i64, .n = 1, .dim = {d}};
    OnnxValue v = {.kind = ONNX_DIMS, .dims = &dims};
    const NodeId id = onnx_value_node(n->scope, &v, n->span);
    n->failed = id == 0; // reported
    return id;
}

// Indices as i64, those below 0 counted from the back.
static NodeId wrap(OnnxNode *n, NodeId indices, Dim size)
{
    const NodeId wide = onnx_cast(n, indices, DTYPE_i64);
    const NodeId is_negative = onnx_op2(n, OP_lt, wide, int_scalar(n, 0));
    return onnx_op3(n, OP_where, is_negative, onnx_op2(n, OP_add, wide, size_scalar(n, size)), wide);
}

// Flat offsets of positions along one axis, in a shape that broadcasts to `rank` axes.
static NodeId axis_offsets(OnnxNode *n, uint32_t rank, uint32_t axis, Dim size, Dim stride)
{
    Shape s = {.rank = rank - axis, .dim = {size, 1, 1, 1, 1, 1, 1, 1}};
    return onnx_reshape(n, onnx_op2(n, OP_mul, onnx_iota(n, size), size_scalar(n, stride)), &s);
}

// Adds the offsets of the axes of `at` other than `axis`.
static NodeId add_other_axes(OnnxNode *n, NodeId flat, const Shape *at, uint32_t axis, const Dim *strides)
{
    for (uint32_t i = 0; i < at->rank; i++)
        if (i != axis)
            flat = onnx_op2(n, OP_add, flat, axis_offsets(n, at->rank, i, at->dim[i], strides[i]));
    return flat;
}

// Indices up to `rows`: half as many bytes where 31 bits count them.
static NodeId as_small(OnnxNode *n, NodeId flat, Dim rows)
{
    return dim_is_const(rows) && rows <= INT32_MAX ? onnx_cast(n, flat, DTYPE_i32) : flat;
}

// The rows of x at `flat`, which are in range.
static NodeId gather_flat(OnnxNode *n, NodeId x, NodeId flat)
{
    return onnx_gather(n, x, as_small(n, flat, n->failed ? 0 : onnx_shape(n, x)->dim[0]), 0);
}

NodeId onnx_gather_along(OnnxNode *n, NodeId x, NodeId indices, uint32_t axis)
{
    const Shape s = *onnx_shape(n, indices);
    Dim strides[SHAPE_MAX_RANK];
    rlx_assert(n->failed || s.rank == onnx_shape(n, x)->rank);
    read_strides(n, x, strides);
    const NodeId flat =
        onnx_op2(n, OP_mul, wrap(n, indices, onnx_shape(n, x)->dim[axis]), size_scalar(n, strides[axis]));
    return gather_flat(n, flatten(n, x), add_other_axes(n, flat, &s, axis, strides));
}

void onnx_import_gather_elements(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), indices = onnx_src(n, 1);
    const Shape s = *onnx_shape(n, indices);
    uint32_t axis = 0;
    if (!n->failed && s.rank != onnx_shape(n, x)->rank)
        onnx_fail(n, E0204, "the indices have rank %u, but the data has rank %u", s.rank,
                  onnx_shape(n, x)->rank);
    if (!onnx_axis(n, onnx_int(n, "axis", 0), s.rank, &axis))
        return;
    onnx_out(n, 0, onnx_gather_along(n, x, indices, axis));
}

// Position k of the last axis of the indices.
static NodeId index_part(OnnxNode *n, NodeId indices, uint32_t k)
{
    const uint32_t last = onnx_shape(n, indices)->rank - 1;
    return onnx_squeeze(n, onnx_slice(n, indices, last, k, k + 1, 1), (const int64_t[]){last}, 1);
}

// The last axis of the indices has `count` entries: positions on the axes of data from `batch` on.
static NodeId join_indices(OnnxNode *n, NodeId x, NodeId indices, uint32_t batch, uint32_t count)
{
    NodeId flat = int_scalar(n, 0);
    for (uint32_t k = 0; k < count && !n->failed; k++) {
        const Dim size = onnx_shape(n, x)->dim[batch + k];
        const NodeId part = index_part(n, indices, k);
        const NodeId row = onnx_op2(n, OP_mul, flat, size_scalar(n, size));
        flat = onnx_op2(n, OP_add, row, wrap(n, part, size));
    }
    return flat;
}

void onnx_import_gather_nd(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), indices = onnx_src(n, 1);
    const int64_t given = onnx_int(n, "batch_dims", 0);
    const Shape s = *onnx_shape(n, x), at = *onnx_shape(n, indices);
    if (!n->failed && (at.rank == 0 || given < 0 || given >= at.rank || given >= s.rank))
        onnx_fail(n, E0204, "indices of rank %u with %lld batch axes do not fit data of rank %u", at.rank,
                  (long long)given, s.rank);
    const int64_t count = n->failed ? 0 : onnx_const_dim(n, indices, at.rank - 1);
    if (!n->failed && (count < 1 || count > (int64_t)s.rank - given))
        onnx_fail(n, E0204, "%lld positions do not fit data of rank %u", (long long)count, s.rank);
    if (n->failed)
        return;
    const uint32_t batch = (uint32_t)given, used = batch + (uint32_t)count;
    NodeId flat = join_indices(n, x, indices, batch, (uint32_t)count);
    for (uint32_t i = 0; i < batch; i++)
        flat = onnx_op2(n, OP_add, flat,
                        axis_offsets(n, at.rank - 1, i, s.dim[i], count_of(n, &s, i + 1, used)));
    Shape rows = {.rank = 1 + s.rank - used, .dim = {-1}};
    for (uint32_t i = used; i < s.rank; i++)
        rows.dim[1 + i - used] = s.dim[i];
    onnx_out(n, 0, gather_flat(n, onnx_reshape_to(n, x, rows.dim, rows.rank), flat));
}

// --- scatter ---

typedef struct Scatter {
    NodeId data, indices, updates;
    const char *reduction;
    Dim strides[SHAPE_MAX_RANK], numel;
    int64_t n_updates;
    int64_t
        *map; // by element of data: where its value is in data followed by updates; NULL: found at run time
} Scatter;

static bool begin_scatter(OnnxNode *n, Scatter *s)
{
    *s = (Scatter){.data = onnx_src(n, 0), .indices = onnx_src(n, 1), .updates = onnx_src(n, 2)};
    s->reduction = onnx_str(n, "reduction", "none");
    if (n->failed)
        return false;
    if (onnx_dtype(n, s->data) != onnx_dtype(n, s->updates))
        return onnx_fail(n, E0205, "data and updates have different types");
    s->numel = read_strides(n, s->data, s->strides);
    const Dim count = count_of(n, onnx_shape(n, s->updates), 0, onnx_shape(n, s->updates)->rank);
    if (!node_is_const(n->graph, s->indices) || !str_equal(s->reduction, "none") || !dim_is_const(s->numel) ||
        !dim_is_const(count) || s->numel > SCATTER_MAX || count > SCATTER_MAX)
        return true;
    if (!onnx_spend(n, s->numel))
        return false;
    s->n_updates = count;
    s->map = ARENA_ARRAY(n->model->arena, int64_t, s->numel + 1);
    for (int64_t i = 0; i < s->numel; i++)
        s->map[i] = i;
    return true;
}

static void end_map(OnnxNode *n, const Scatter *s)
{
    const Shape shape = *onnx_shape(n, s->data), flat = shape_of(1, &s->numel);
    const NodeId map = onnx_const(n, DTYPE_i64, &flat, s->map, (uint64_t)s->numel * sizeof *s->map);
    const NodeId both = onnx_concat(n, (const NodeId[]){flatten(n, s->data), flatten(n, s->updates)}, 2, 0);
    onnx_out(n, 0, onnx_reshape(n, onnx_gather(n, both, map, 0), &shape));
}

// An index in [0, size). False: reported.
static bool read_index(OnnxNode *n, const Tensor *t, int64_t at, int64_t size, int64_t *out)
{
    const int64_t v = tensor_get_i64(t, at);
    *out = v < 0 ? v + size : v;
    return (v >= -size && v < size) ||
           onnx_fail(n, E0204, "index %lld is out of range for an axis of size %lld", (long long)v,
                     (long long)size);
}

// Rows of data, [rows of data, row...] with `row` axes in front of which the indices choose.
static void end_scatter(OnnxNode *n, const Scatter *s, NodeId flat, uint32_t row_axis)
{
    const Shape data = *onnx_shape(n, s->data);
    Shape rows = {.rank = 1 + data.rank - row_axis, .dim = {-1}};
    for (uint32_t i = row_axis; i < data.rank; i++)
        rows.dim[1 + i - row_axis] = data.dim[i];
    rows.dim[0] = count_of(n, &data, 0, row_axis);
    const NodeId table = onnx_reshape(n, s->data, &rows), index = flatten(n, flat);
    if (n->failed)
        return;
    rows.dim[0] = onnx_shape(n, index)->dim[0];
    const NodeId updates = onnx_reshape(n, s->updates, &rows);
    NodeBuild b = ONNX_BEGIN(n, OP_scatter, table, index, updates);
    node_str(&b, A_scatter_reduction, s->reduction);
    onnx_out(n, 0, onnx_reshape(n, onnx_end(n, &b), &data));
}

// The flat index where `valid`, else one outside of the `count` rows, which is skipped.
static NodeId skip_invalid(OnnxNode *n, NodeId flat, NodeId valid, Dim count)
{
    return as_small(n, onnx_op3(n, OP_where, valid, flat, size_scalar(n, count)), count);
}

static NodeId is_valid(OnnxNode *n, NodeId indices, Dim size)
{
    const NodeId wide = onnx_cast(n, indices, DTYPE_i64), limit = size_scalar(n, size);
    return onnx_op2(n, OP_logical_and, onnx_op2(n, OP_ge, wide, onnx_op1(n, OP_neg, limit)),
                    onnx_op2(n, OP_lt, wide, limit));
}

// Is b never larger than a?
static bool is_within(const OnnxNode *n, Dim a, Dim b)
{
    int64_t lo = 0, hi = 0;
    dim_range(n->graph->dims, dim_sub(n->graph->dims, a, b), &lo, &hi);
    return lo >= 0;
}

static void map_elements(OnnxNode *n, const Scatter *s, uint32_t axis)
{
    const Shape data = *onnx_shape(n, s->data), at = *onnx_shape(n, s->indices);
    const Tensor t = tensor_of_const(n->graph, s->indices);
    for (int64_t i = 0; i < t.numel && !n->failed; i++) {
        int64_t rest = i, place = 0, index = 0;
        for (uint32_t k = at.rank; k-- > 0; rest /= at.dim[k])
            place += k == axis ? 0 : rest % at.dim[k] * s->strides[k];
        if (read_index(n, &t, i, data.dim[axis], &index))
            s->map[place + index * s->strides[axis]] = s->numel + i;
    }
    end_map(n, s);
}

// Position i of the indices writes at its own place, but on `axis` where the index says.
void onnx_import_scatter_elements(OnnxNode *n)
{
    Scatter s;
    uint32_t axis = 0;
    const int64_t given = onnx_int(n, "axis", 0);
    if (!begin_scatter(n, &s) || !onnx_axis(n, given, onnx_shape(n, s.data)->rank, &axis))
        return;
    const Shape data = *onnx_shape(n, s.data), at = *onnx_shape(n, s.indices);
    bool fits = at.rank == data.rank && shape_equal(&at, onnx_shape(n, s.updates));
    for (uint32_t k = 0; fits && k < at.rank; k++)
        fits = k == axis || is_within(n, data.dim[k], at.dim[k]);
    if (!fits)
        onnx_fail(n, E0204, "the shapes of data, indices and updates do not fit");
    if (n->failed)
        return;
    if (s.map) {
        map_elements(n, &s, axis);
        return;
    }
    if (data.dim[axis] == s.numel) { // as scatter's own index
        end_scatter(n, &s, s.indices, data.rank);
        return;
    }
    const NodeId along =
        onnx_op2(n, OP_mul, wrap(n, s.indices, data.dim[axis]), size_scalar(n, s.strides[axis]));
    const NodeId flat = add_other_axes(n, along, &at, axis, s.strides);
    end_scatter(n, &s, skip_invalid(n, flat, is_valid(n, s.indices, data.dim[axis]), s.numel), data.rank);
}

static void map_rows(OnnxNode *n, const Scatter *s, int64_t count)
{
    const Shape data = *onnx_shape(n, s->data);
    const Tensor t = tensor_of_const(n->graph, s->indices);
    const int64_t row = s->strides[count - 1], rows = t.numel / count;
    for (int64_t i = 0; i < rows && !n->failed; i++) {
        int64_t place = 0, index = 0;
        for (uint32_t k = 0; k < count && read_index(n, &t, i * count + k, data.dim[k], &index); k++)
            place += index * s->strides[k];
        for (int64_t k = 0; k < row && !n->failed; k++)
            s->map[place + k] = s->numel + i * row + k;
    }
    end_map(n, s);
}

// The updates have the shape of the indices without the last axis, then that of a row.
static bool check_rows(OnnxNode *n, const Scatter *s, int64_t count)
{
    const Shape data = *onnx_shape(n, s->data), at = *onnx_shape(n, s->indices);
    if (count < 1 || count > data.rank)
        return onnx_fail(n, E0204, "%lld positions do not fit data of rank %u", (long long)count, data.rank);
    Shape want = at;
    want.rank--;
    for (uint32_t k = (uint32_t)count; k < data.rank && want.rank < SHAPE_MAX_RANK; k++)
        want.dim[want.rank++] = data.dim[k];
    return shape_equal(&want, onnx_shape(n, s->updates)) ||
           onnx_fail(n, E0204, "the shape of the updates does not fit that of data and indices");
}

// The last axis of the indices names a row of data, which the update replaces.
void onnx_import_scatter_nd(OnnxNode *n)
{
    Scatter s;
    if (!begin_scatter(n, &s))
        return;
    const Shape data = *onnx_shape(n, s.data);
    const uint32_t rank = onnx_shape(n, s.indices)->rank;
    const int64_t count = rank ? onnx_const_dim(n, s.indices, rank - 1) : 0;
    if (n->failed || !check_rows(n, &s, count))
        return;
    if (s.map) {
        map_rows(n, &s, count);
        return;
    }
    if (count == 1) { // scatter counts from the back and skips by itself
        end_scatter(n, &s, s.indices, 1);
        return;
    }
    NodeId valid = 0;
    for (uint32_t k = 0; k < count; k++) {
        const NodeId one = is_valid(n, index_part(n, s.indices, k), data.dim[k]);
        valid = k ? onnx_op2(n, OP_logical_and, valid, one) : one;
    }
    const NodeId flat = join_indices(n, s.data, s.indices, 0, (uint32_t)count);
    end_scatter(n, &s, skip_invalid(n, flat, valid, count_of(n, &data, 0, (uint32_t)count)), (uint32_t)count);
}

// Where a tensor's entry [batch, ..., position along axis] goes: the position plus the batch entry's start.
static NodeId cache_positions(OnnxNode *n, const Shape *update, uint32_t axis, Dim size, bool is_circular)
{
    NodeId at = axis_offsets(n, axis + 1, axis, update->dim[axis], 1);
    const NodeId starts = onnx_opt(n, 2);
    if (starts) {
        Shape s = {.rank = axis + 1, .dim = {update->dim[0], 1, 1, 1, 1, 1, 1, 1}};
        at = onnx_op2(n, OP_add, at, onnx_reshape(n, onnx_cast(n, starts, DTYPE_i64), &s));
    }
    return is_circular ? onnx_op2(n, OP_mod, at, size_scalar(n, size)) : at;
}

// Rows along an axis of a cache, from a position on that is given by batch entry.
void onnx_import_tensor_scatter(OnnxNode *n)
{
    Scatter s = {.data = onnx_src(n, 0), .updates = onnx_src(n, 1), .reduction = "none"};
    const bool is_circular = ONNX_WORD(n, "mode", "linear", "circular") == 1;
    const Shape data = *onnx_shape(n, s.data), update = *onnx_shape(n, s.updates);
    uint32_t axis = 0;
    if (!onnx_axis(n, onnx_int(n, "axis", -2), data.rank, &axis))
        return;
    bool fits = axis > 0 && update.rank == data.rank;
    for (uint32_t i = 0; fits && i < data.rank; i++)
        fits = i == axis ? is_within(n, data.dim[i], update.dim[i]) : data.dim[i] == update.dim[i];
    if (!fits)
        onnx_fail(n, E0204, "the update does not fit into the cache along axis %u", axis);
    if (n->failed)
        return;
    const NodeId at = cache_positions(n, &update, axis, data.dim[axis], is_circular);
    NodeId flat = at;
    for (uint32_t i = 0; i < axis; i++)
        flat = onnx_op2(n, OP_add, flat,
                        axis_offsets(n, axis + 1, i, data.dim[i], count_of(n, &data, i + 1, axis + 1)));
    const NodeId valid = onnx_op2(n, OP_logical_and, onnx_op2(n, OP_ge, at, int_scalar(n, 0)),
                                  onnx_op2(n, OP_lt, at, size_scalar(n, data.dim[axis])));
    end_scatter(n, &s, skip_invalid(n, flat, valid, count_of(n, &data, 0, axis + 1)), axis + 1);
}
