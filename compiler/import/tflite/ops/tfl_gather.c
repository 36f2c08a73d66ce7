// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements by index, and those that make indices.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

// The m leading axes of both are the same, and each entry has indices of its own along axis m: rows of one
// long list, [batch * size], are chosen by indices with the entry's start added.
static NodeId gather_entries(TflNode *n, NodeId x, NodeId index, uint32_t m)
{
    const Shape s = *tfl_shape(n, x), t = *tfl_shape(n, index);
    Shape rows = {.rank = s.rank - m}, out = {.rank = s.rank - m - 1 + t.rank};
    int64_t batch = 1;
    for (uint32_t i = 0; i < m; i++)
        batch *= tfl_size(n, x, i);
    const int64_t size = tfl_size(n, x, m);
    if (n->failed || batch > INT32_MAX || size > INT32_MAX || out.rank > SHAPE_MAX_RANK || batch < 1)
        return tfl_fail(n, E0204, "too many elements or axes");
    rows.dim[0] = batch * size;
    memcpy(rows.dim + 1, s.dim + m + 1, (rows.rank - 1) * sizeof *rows.dim);
    memcpy(out.dim, t.dim, t.rank * sizeof *t.dim);
    memcpy(out.dim + t.rank, s.dim + m + 1, (s.rank - m - 1) * sizeof *s.dim);
    int64_t *start = ARENA_ARRAY(n->model->arena, int64_t, (uint64_t)batch);
    if (!tfl_spend(n, (uint64_t)batch))
        return 0;
    for (int64_t i = 0; i < batch; i++)
        start[i] = i * size;
    index = tfl_reshape(n, tfl_cast(n, index, DTYPE_i64), (const Dim[]){batch, -1}, 2);
    const NodeId first =
        tfl_reshape(n, tfl_ints(n, DTYPE_i64, start, (uint32_t)batch), (const Dim[]){batch, 1}, 2);
    const NodeId y = tfl_gather(n, tfl_reshape_like(n, x, &rows), tfl_op2(n, OP_add, index, first), 0);
    return tfl_reshape_like(n, y, &out);
}

// Moves `count` axes that begin at `from` so that they begin at `to`, which is less.
static NodeId move_axes(TflNode *n, NodeId x, uint32_t from, uint32_t count, uint32_t to)
{
    int64_t perm[SHAPE_MAX_RANK];
    const uint32_t rank = tfl_rank(n, x);
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i < to || i >= from + count ? i : i < to + count ? i - to + from : i - count;
    return n->failed ? 0 : tfl_transpose(n, x, perm);
}

void tfl_import_gather(TflNode *n)
{
    const int64_t at = tfl_option(n, 0, FLAT_I32, 0), batch_dims = tfl_option(n, 1, FLAT_I32, 0);
    const NodeId x = tfl_src(n, 0), index = tfl_src(n, 1);
    tfl_same_scale(n, 0);
    const uint32_t rank = tfl_rank(n, index), axis = tfl_axis(n, at, tfl_rank(n, x));
    const int64_t m = batch_dims < 0 ? batch_dims + rank : batch_dims;
    if (m == 0 || n->failed) {
        tfl_out(n, 0, tfl_gather(n, x, index, axis));
        return;
    }
    if (m < 0 || m > rank || axis < m) {
        tfl_fail(n, E0206, "%lld batch axes before axis %u are not supported", (long long)m, axis);
        return;
    }
    const NodeId y = gather_entries(n, move_axes(n, x, axis, 1, (uint32_t)m), index, (uint32_t)m);
    tfl_out(n, 0, move_axes(n, y, rank, axis - (uint32_t)m, (uint32_t)m));
}

// The first lengths[i] elements along the axis of time in the opposite order, for each i of the batch.
void tfl_import_reverse_sequence(TflNode *n)
{
    const int64_t time_at = tfl_option(n, 0, FLAT_I32, 0), batch_at = tfl_option(n, 1, FLAT_I32, 0);
    const NodeId x = tfl_src(n, 0), lengths = tfl_src(n, 1);
    tfl_same_scale(n, 0);
    const uint32_t rank = tfl_rank(n, x);
    const uint32_t time = tfl_axis(n, time_at, rank), batch = tfl_axis(n, batch_at, rank);
    if (!n->failed && time == batch)
        tfl_fail(n, E0203, "time and batch are the same axis, %u", time);
    const int64_t steps = n->failed ? 0 : tfl_size(n, x, time);
    const NodeId at = tfl_counted(n, steps);
    if (n->failed)
        return;
    const NodeId size = tfl_reshape(n, tfl_cast(n, lengths, DTYPE_i64), (const Dim[]){-1, 1}, 2);
    const NodeId from_end = tfl_op2(n, OP_sub, tfl_op_number(n, OP_sub, size, 1), at);
    const NodeId index = tfl_op3(n, OP_where, tfl_op2(n, OP_lt, at, size), from_end, at); // [batch, time]
    const uint32_t after = time + (time < batch); // where time is once the batch comes first
    rlx_assert(after >= 1 && after < rank);
    const NodeId rows = move_axes(n, move_axes(n, x, batch, 1, 0), after, 1, 1);
    const NodeId y = gather_entries(n, rows, index, 1);
    tfl_out(n, 0, move_axes(n, move_axes(n, y, 2, after - 1, 1), 1, batch, 0));
}

void tfl_import_embedding_lookup(TflNode *n)
{
    const NodeId index = tfl_src(n, 0), x = tfl_src(n, 1);
    const NodeId rows = tfl_gather(n, x, index, 0);
    const bool is_real = !tfl_is_quantised(tfl_of_out(n, 0)) && tfl_is_quantised(tfl_in(n, 1));
    tfl_out(n, 0, is_real ? tfl_dequantise(n, rows, tfl_in(n, 1)) : rows);
}

NodeId tfl_flat_places(TflNode *n, NodeId index, const Shape *s, uint32_t k)
{
    const int64_t last = (int64_t)tfl_rank(n, index) - 1;
    int64_t step[SHAPE_MAX_RANK] = {0}, count = 1;
    for (uint32_t i = k; i-- > 0 && !n->failed;) {
        step[i] = count;
        if (!dim_is_const(s->dim[i]) || __builtin_mul_overflow(count, s->dim[i], &count) || count > INT32_MAX)
            tfl_fail(n, E0207, "the size of axis %u must be a number", i);
    }
    const NodeId by = tfl_op2(n, OP_mul, tfl_cast(n, index, DTYPE_i64), tfl_ints(n, DTYPE_i64, step, k));
    return tfl_reduce(n, OP_reduce_sum, by, &last, 1, false);
}

void tfl_import_gather_nd(TflNode *n)
{
    const NodeId x = tfl_src(n, 0), index = tfl_src(n, 1);
    tfl_same_scale(n, 0);
    const Shape s = *tfl_shape(n, x), t = *tfl_shape(n, index);
    const int64_t k = t.rank ? tfl_size(n, index, t.rank - 1) : 0;
    if (!n->failed && (k < 1 || k > s.rank))
        tfl_fail(n, E0204, "indices of %lld axes for rank %u", (long long)k, s.rank);
    if (n->failed)
        return;
    Shape rows = {.rank = s.rank - (uint32_t)k + 1, .dim = {-1}};
    memcpy(rows.dim + 1, s.dim + k, (rows.rank - 1) * sizeof *rows.dim);
    const NodeId list = tfl_reshape(n, x, rows.dim, rows.rank);
    tfl_out(n, 0, tfl_gather(n, list, tfl_flat_places(n, index, &s, (uint32_t)k), 0));
}

void tfl_import_scatter_nd(TflNode *n)
{
    int64_t shape[TFL_MAX_LIST];
    uint32_t count = 0;
    const NodeId index = tfl_src(n, 0), updates = tfl_src(n, 1);
    if (tfl_src_ints(n, 2, shape, &count) && (count < 1 || count > SHAPE_MAX_RANK))
        tfl_fail(n, E0204, "a result of %u axes", count);
    const Shape t = *tfl_shape(n, index), out = shape_of(n->failed ? 0 : count, shape);
    const int64_t k = t.rank ? tfl_size(n, index, t.rank - 1) : 0;
    for (uint32_t i = 0; i < count && !n->failed; i++)
        if (shape[i] < 0 || shape[i] > INT32_MAX)
            tfl_fail(n, E0204, "a size of %lld", (long long)shape[i]);
    if (!n->failed && (k < 1 || k > count))
        tfl_fail(n, E0204, "indices of %lld axes for rank %u", (long long)k, count);
    if (n->failed)
        return;
    Shape rows = {.rank = count - (uint32_t)k + 1, .dim = {1}};
    for (int64_t i = 0; i < k; i++)
        rows.dim[0] = dim_mul(n->graph->dims, rows.dim[0], shape[i]);
    memcpy(rows.dim + 1, shape + k, (rows.rank - 1) * sizeof *rows.dim);
    const NodeId base = tfl_expand(n, tfl_number(n, tfl_type(n, updates), 0), rows.dim, rows.rank);
    const NodeId places = tfl_reshape(n, tfl_flat_places(n, index, &out, (uint32_t)k), (const Dim[]){-1}, 1);
    rows.dim[0] = -1;
    const NodeId parts = tfl_reshape(n, updates, rows.dim, rows.rank);
    if (n->failed)
        return;
    NodeBuild b = tfl_begin(n, OP_scatter);
    node_src(&b, base);
    node_src(&b, places);
    node_src(&b, parts);
    node_str(&b, A_scatter_reduction, "add");
    tfl_out(n, 0, tfl_reshape_like(n, tfl_end(n, &b), &out));
}

void tfl_import_update_slice(TflNode *n)
{
    const NodeId x = tfl_src(n, 0), patch = tfl_src(n, 1), start = tfl_src(n, 2);
    tfl_same_scale(n, 0);
    tfl_same_scale(n, 1);
    tfl_out(n, 0, tfl_op3(n, OP_update_slice, x, patch, start));
}

// --- indices ---

void tfl_import_one_hot(TflNode *n)
{
    const int64_t at = tfl_option(n, 0, FLAT_I32, 0);
    NodeId index = tfl_src(n, 0);
    const int64_t depth = tfl_src_int(n, 1);
    const NodeId on = tfl_src(n, 2), off = tfl_src(n, 3);
    Shape s = *tfl_shape(n, index), k = {.rank = s.rank + 1};
    const uint32_t axis = at == -1 ? s.rank : tfl_axis(n, at, s.rank + 1);
    if (!n->failed && (depth < 0 || depth > 1 << 20 || s.rank == SHAPE_MAX_RANK))
        tfl_fail(n, E0203, "a depth of %lld for rank %u", (long long)depth, s.rank);
    const NodeId numbers = tfl_counted(n, depth);
    if (n->failed)
        return;
    for (uint32_t i = 0; i < k.rank; i++)
        k.dim[i] = i == axis ? depth : 1;
    s = shape_insert(&s, axis, 1);
    const NodeId places = tfl_reshape_like(n, numbers, &k);
    index = tfl_reshape_like(n, tfl_cast(n, index, DTYPE_i64), &s);
    tfl_out(n, 0, tfl_op3(n, OP_where, tfl_op2(n, OP_eq, index, places), on, off));
}

// Numbers from a start in steps: known at import.
void tfl_import_range(TflNode *n)
{
    double v[3];
    for (uint32_t i = 0; i < 3; i++) {
        const NodeId id = tfl_src(n, i);
        if (!n->failed && !node_is_scalar_const(n->graph, id, &v[i]))
            tfl_fail(n, E0206, "operand %u must be known when the model is compiled", i);
    }
    if (n->failed)
        return;
    const double count = v[2] > 0 || v[2] < 0 ? (v[1] - v[0]) / v[2] : -1;
    const int64_t whole =
        count > 0 && count <= 1 << 22 ? (int64_t)count + ((double)(int64_t)count < count) : 0;
    if (!(count <= 1 << 22) || !(v[2] < 0 || v[2] > 0) || !tfl_spend(n, (uint64_t)whole)) {
        tfl_fail(n, E0004, "from %g to %g in steps of %g", v[0], v[1], v[2]);
        return;
    }
    Tensor t = tensor_new(n->model->arena, tfl_of_out(n, 0)->dtype, 1, &whole);
    for (int64_t i = 0; i < whole; i++)
        tensor_set_f64(&t, i, v[0] + (double)i * v[2]);
    const Shape s = shape_of(1, &whole);
    tfl_out(n, 0, tfl_const(n, t.dtype, &s, t.data));
}
