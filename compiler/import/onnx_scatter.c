// SPDX-License-Identifier: Apache-2.0
// Gather and scatter by element. All become one gather along the flattened tensor: gathers compute the flat
// index, scatters (whose indices must be constants) choose for every element between the old value and an
// update.
#include "compiler/import/onnx_import.h"

// Elements of a tensor that is scattered into, and of the updates: the map has an entry for each.
#define SCATTER_MAX (INT64_C(1) << 22)

static const Dim flat_shape[1] = {-1};

static NodeId flatten(OnnxNode *n, NodeId x)
{
    return onnx_reshape_to(n, x, flat_shape, 1);
}

// Elements between neighbours of every axis. False: a size is symbolic (reported).
static bool read_strides(OnnxNode *n, NodeId x, int64_t *strides, int64_t *numel)
{
    *numel = 1;
    for (uint32_t i = onnx_shape(n, x)->rank; i-- > 0;) {
        strides[i] = *numel;
        *numel *= onnx_const_dim(n, x, i); // a tensor's element count fits
    }
    return !n->failed;
}

static NodeId int_scalar(OnnxNode *n, int64_t v)
{
    return onnx_scalar(n, DTYPE_i64, (double)v);
}

// Indices as i64, those below 0 counted from the back.
static NodeId wrap(OnnxNode *n, NodeId indices, int64_t size)
{
    const NodeId wide = onnx_cast(n, indices, DTYPE_i64);
    const NodeId is_negative = onnx_op2(n, OP_lt, wide, int_scalar(n, 0));
    return onnx_op3(n, OP_where, is_negative, onnx_op2(n, OP_add, wide, int_scalar(n, size)), wide);
}

// Flat offsets of positions along one axis, in a shape that broadcasts to `rank` axes.
static NodeId axis_offsets(OnnxNode *n, uint32_t rank, uint32_t axis, int64_t size, int64_t stride)
{
    Shape s = {.rank = rank - axis, .dim = {size, 1, 1, 1, 1, 1, 1, 1}};
    return onnx_reshape(n, onnx_op2(n, OP_mul, onnx_iota(n, size), int_scalar(n, stride)), &s);
}

void onnx_import_gather_elements(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), indices = onnx_src(n, 1);
    const Shape s = *onnx_shape(n, indices);
    int64_t strides[SHAPE_MAX_RANK], numel = 0;
    uint32_t axis = 0;
    if (!n->failed && s.rank != onnx_shape(n, x)->rank)
        onnx_fail(n, E0204, "the indices have rank %u, the data %u", s.rank, onnx_shape(n, x)->rank);
    if (!onnx_axis(n, onnx_int(n, "axis", 0), s.rank, &axis) || !read_strides(n, x, strides, &numel))
        return;
    NodeId flat =
        onnx_op2(n, OP_mul, wrap(n, indices, onnx_const_dim(n, x, axis)), int_scalar(n, strides[axis]));
    for (uint32_t i = 0; i < s.rank; i++)
        if (i != axis)
            flat = onnx_op2(n, OP_add, flat,
                            axis_offsets(n, s.rank, i, onnx_const_dim(n, indices, i), strides[i]));
    onnx_out(n, 0, onnx_gather(n, flatten(n, x), flat, 0));
}

// The last axis of the indices has `count` entries: positions on the axes of data from `batch` on.
static NodeId join_indices(OnnxNode *n, NodeId x, NodeId indices, uint32_t batch, uint32_t count)
{
    const uint32_t last = onnx_shape(n, indices)->rank - 1;
    NodeId flat = int_scalar(n, 0);
    for (uint32_t k = 0; k < count; k++) {
        const int64_t size = onnx_const_dim(n, x, batch + k);
        const NodeId part =
            onnx_squeeze(n, onnx_slice(n, indices, last, k, k + 1, 1), (const int64_t[]){last}, 1);
        const NodeId row = onnx_op2(n, OP_mul, flat, int_scalar(n, size));
        flat = onnx_op2(n, OP_add, row, wrap(n, part, size));
    }
    return flat;
}

void onnx_import_gather_nd(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), indices = onnx_src(n, 1);
    const int64_t given = onnx_int(n, "batch_dims", 0);
    const Shape s = *onnx_shape(n, x), at = *onnx_shape(n, indices);
    int64_t strides[SHAPE_MAX_RANK], numel = 0;
    if (!n->failed && (at.rank == 0 || given < 0 || given >= at.rank || given >= s.rank))
        onnx_fail(n, E0204, "indices of rank %u with %lld batch axes do not fit data of rank %u", at.rank,
                  (long long)given, s.rank);
    const int64_t count = n->failed ? 0 : onnx_const_dim(n, indices, at.rank - 1);
    if (!n->failed && (count < 1 || count > (int64_t)s.rank - given))
        onnx_fail(n, E0204, "%lld positions do not fit data of rank %u", (long long)count, s.rank);
    if (!read_strides(n, x, strides, &numel))
        return;
    const uint32_t batch = (uint32_t)given, used = batch + (uint32_t)count;
    NodeId flat = join_indices(n, x, indices, batch, (uint32_t)count);
    const int64_t rest = strides[used - 1];
    for (uint32_t i = 0; i < batch; i++)
        flat =
            onnx_op2(n, OP_add, flat,
                     axis_offsets(n, at.rank - 1, i, onnx_const_dim(n, x, i), rest ? strides[i] / rest : 0));
    Shape rows = {.rank = 1 + s.rank - used, .dim = {-1}};
    for (uint32_t i = used; i < s.rank; i++)
        rows.dim[1 + i - used] = s.dim[i];
    onnx_out(n, 0, onnx_gather(n, onnx_reshape_to(n, x, rows.dim, rows.rank), flat, 0));
}

// --- scatter ---

typedef struct Scatter {
    NodeId data, indices, updates;
    int64_t strides[SHAPE_MAX_RANK], numel, n_updates;
    int64_t *map; // by element of data: where its value is in data followed by updates
} Scatter;

static bool begin_scatter(OnnxNode *n, Scatter *s)
{
    int64_t ignored[SHAPE_MAX_RANK];
    *s = (Scatter){.data = onnx_src(n, 0), .indices = onnx_src(n, 1), .updates = onnx_src(n, 2)};
    const char *reduction = onnx_str(n, "reduction", "none");
    if (!str_equal(reduction, "none"))
        onnx_fail(n, E0206, "reduction '%s' is not supported", reduction);
    if (!n->failed && !node_is_const(n->graph, s->indices))
        onnx_fail(n, E0206, "indices that the model computes are not supported");
    if (!read_strides(n, s->data, s->strides, &s->numel) ||
        !read_strides(n, s->updates, ignored, &s->n_updates))
        return false;
    if (s->numel > SCATTER_MAX || s->n_updates > SCATTER_MAX)
        return onnx_fail(n, E0004, "more than %lld elements are not supported", (long long)SCATTER_MAX);
    if (!onnx_spend(n, s->numel))
        return false;
    s->map = ARENA_ARRAY(n->model->arena, int64_t, s->numel);
    for (int64_t i = 0; i < s->numel; i++)
        s->map[i] = i;
    return true;
}

static void end_scatter(OnnxNode *n, const Scatter *s)
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

// Position i of the indices writes at its own place, but on `axis` where the index says.
void onnx_import_scatter_elements(OnnxNode *n)
{
    Scatter s;
    uint32_t axis = 0;
    const int64_t given = onnx_int(n, "axis", 0);
    if (!begin_scatter(n, &s) || !onnx_axis(n, given, onnx_shape(n, s.data)->rank, &axis))
        return;
    const Shape data = *onnx_shape(n, s.data), at = *onnx_shape(n, s.indices);
    const Tensor t = tensor_of_const(n->graph, s.indices);
    bool fits = at.rank == data.rank && shape_equal(&at, onnx_shape(n, s.updates));
    for (uint32_t k = 0; fits && k < at.rank; k++)
        fits = k == axis || at.dim[k] <= data.dim[k];
    if (!fits)
        onnx_fail(n, E0204, "the shapes of data, indices and updates do not fit");
    for (int64_t i = 0; i < t.numel && !n->failed; i++) {
        int64_t rest = i, place = 0, index = 0;
        for (uint32_t k = at.rank; k-- > 0; rest /= at.dim[k])
            place += k == axis ? 0 : rest % at.dim[k] * s.strides[k];
        if (read_index(n, &t, i, data.dim[axis], &index))
            s.map[place + index * s.strides[axis]] = s.numel + i;
    }
    end_scatter(n, &s);
}

// The last axis of the indices names a row of data, which the update replaces.
void onnx_import_scatter_nd(OnnxNode *n)
{
    Scatter s;
    if (!begin_scatter(n, &s))
        return;
    const Shape data = *onnx_shape(n, s.data), at = *onnx_shape(n, s.indices);
    const Tensor t = tensor_of_const(n->graph, s.indices);
    const int64_t count = at.rank ? at.dim[at.rank - 1] : 0;
    if (count < 1 || count > data.rank) {
        onnx_fail(n, E0204, "%lld positions do not fit data of rank %u", (long long)count, data.rank);
        return;
    }
    const int64_t row = s.strides[count - 1], rows = t.numel / count;
    if (s.n_updates != rows * row)
        onnx_fail(n, E0204, "%lld rows of %lld elements need other updates", (long long)rows, (long long)row);
    for (int64_t i = 0; i < rows && !n->failed; i++) {
        int64_t place = 0, index = 0;
        for (uint32_t k = 0; k < count && read_index(n, &t, i * count + k, data.dim[k], &index); k++)
            place += index * s.strides[k];
        for (int64_t k = 0; k < row && !n->failed; k++)
            s.map[place + k] = s.numel + i * row + k;
    }
    end_scatter(n, &s);
}
