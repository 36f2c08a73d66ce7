// SPDX-License-Identifier: Apache-2.0
// Operators that put elements at places which another operand says: segments, sparse matrices, diagonals and
// buckets.
#include "compiler/import/tflite/tfl_import.h"

enum { MOST_SEGMENTS = 1 << 24, MOST_BUCKETS = 1 << 16 };

// Row places[i] of `base` [rows, ...] becomes `parts[i]`, or what `reduction` makes of the two.
static NodeId scatter_rows(TflNode *n, NodeId base, NodeId places, NodeId parts, const char *reduction)
{
    if (n->failed)
        return 0;
    rlx_assert(tfl_rank(n, base) >= 1 && tfl_rank(n, places) == 1);
    NodeBuild b = tfl_begin(n, OP_scatter);
    node_src(&b, base);
    node_src(&b, places);
    node_src(&b, parts);
    node_str(&b, A_scatter_reduction, reduction);
    return tfl_end(n, &b);
}

// --- segments ---

// Ids of segments: those below 0, whose rows are skipped, are that of one more segment.
static NodeId known_ids(TflNode *n, NodeId ids, int64_t count)
{
    const NodeId all = tfl_reshape(n, tfl_cast(n, ids, DTYPE_i64), (const Dim[]){-1}, 1);
    const NodeId is_none = tfl_op2(n, OP_lt, all, tfl_number(n, DTYPE_i64, 0));
    return tfl_op3(n, OP_where, is_none, tfl_number(n, DTYPE_i64, (double)count), all);
}

// x [ids..., row...] as rows of `count` results: those with the same id become one.
static void segments(TflNode *n, int64_t count, double start, const char *reduction)
{
    const NodeId x = tfl_src(n, 0), ids = tfl_src(n, 1);
    const uint32_t axes = tfl_rank(n, ids);
    if (!n->failed && (count < 0 || count > MOST_SEGMENTS))
        tfl_fail(n, E0203, "%lld segments", (long long)count);
    if (!n->failed && (axes < 1 || axes > tfl_rank(n, x)))
        tfl_fail(n, E0204, "ids of rank %u for rank %u", axes, tfl_rank(n, x));
    if (n->failed)
        return;
    const Shape s = *tfl_shape(n, x);
    Shape out = {.rank = s.rank - axes + 1, .dim = {-1}};
    for (uint32_t i = axes; i < s.rank; i++)
        out.dim[i - axes + 1] = s.dim[i];
    const NodeId parts = tfl_reshape(n, x, out.dim, out.rank);
    out.dim[0] = count + 1;
    const NodeId base = tfl_expand(n, tfl_number(n, tfl_type(n, x), start), out.dim, out.rank);
    const NodeId rows = scatter_rows(n, base, known_ids(n, ids, count), parts, reduction);
    tfl_out(n, 0, tfl_slice(n, rows, 0, 0, count, 1));
}

void tfl_import_segment_sum(TflNode *n)
{
    const NodeId ids = tfl_src(n, 1);
    const Tensor t = n->failed ? (Tensor){0} : tensor_if_const(n->graph, ids);
    if (!n->failed && (t.data == NULL || t.numel == 0))
        tfl_fail(n, E0206, "operand 1 ('%s') must have ids that are known when the model is compiled",
                 tfl_in(n, 1)->name);
    const int64_t last = n->failed ? 0 : tensor_get_i64(&t, t.numel - 1); // ids rise
    segments(n, last < MOST_SEGMENTS ? last + 1 : last, 0, "add");
}

void tfl_import_unsorted_sum(TflNode *n)
{
    segments(n, tfl_src_int(n, 2), 0, "add");
}

void tfl_import_unsorted_prod(TflNode *n)
{
    segments(n, tfl_src_int(n, 2), 1, "mul");
}

// The least or greatest finite number of a type: what a segment without rows is.
static double extreme(TflNode *n, double sign)
{
    const DType t = tfl_type(n, tfl_src(n, 0));
    const bool is_float = !n->failed && dtype_info[t].cls == DCLASS_FLOAT;
    return is_float ? sign * (double)3.40282347e+38f : (double)tensor_saturate(t, sign * 0x1p64);
}

void tfl_import_unsorted_max(TflNode *n)
{
    segments(n, tfl_src_int(n, 2), extreme(n, -1), "max");
}

void tfl_import_unsorted_min(TflNode *n)
{
    segments(n, tfl_src_int(n, 2), extreme(n, 1), "min");
}

// --- SPARSE_TO_DENSE ---

// Operands: places [n, axes], the shape, one value or n of them, and the rest's value.
void tfl_import_sparse_to_dense(TflNode *n)
{
    Dim shape[TFL_MAX_LIST];
    uint32_t rank = 0;
    tfl_ignore(n, 0); // that places are checked
    const NodeId at = tfl_src(n, 0), value = tfl_src(n, 2), rest = tfl_src(n, 3);
    if (!tfl_src_shape(n, 1, shape, &rank))
        return;
    int64_t total = 1;
    for (uint32_t i = 0; i < rank && rank <= SHAPE_MAX_RANK && !n->failed; i++)
        if (!dim_is_const(shape[i]) || shape[i] < 0 || __builtin_mul_overflow(total, shape[i], &total) ||
            total > INT32_MAX)
            tfl_fail(n, E0207, "the size of axis %u must be a number", i);
    if (!n->failed && (rank < 1 || rank > SHAPE_MAX_RANK || tfl_rank(n, at) > 2))
        tfl_fail(n, E0204, "a result of %u axes", rank);
    if (n->failed)
        return;
    const NodeId table = tfl_rank(n, at) == 2
                             ? at
                             : tfl_reshape(n, at, (const Dim[]){-1, rank}, 2); // one place, or one axis
    const int64_t entries = tfl_size(n, table, 0);
    const Shape out = shape_of(rank, shape);
    if (!n->failed && tfl_size(n, table, 1) != rank)
        tfl_fail(n, E0204, "places of %lld axes for a result of %u", (long long)tfl_size(n, table, 1), rank);
    if (n->failed)
        return;
    const NodeId places = tfl_flat_places(n, table, &out, rank);
    const NodeId list = tfl_reshape(n, value, (const Dim[]){-1}, 1);
    const NodeId parts = tfl_expand(n, list, (const Dim[]){entries}, 1);
    const NodeId base = tfl_expand(n, tfl_reshape(n, rest, NULL, 0), &total, 1);
    tfl_out(n, 0, tfl_reshape_like(n, scatter_rows(n, base, places, parts, "none"), &out));
}

// --- diagonals ---

// Is an element of [rows, columns] on the diagonal?
static NodeId diagonal(TflNode *n, int64_t rows, int64_t columns)
{
    if (n->failed || rows > INT32_MAX || columns > INT32_MAX || !tfl_spend(n, (uint64_t)(rows * columns)))
        return n->failed ? 0 : tfl_fail(n, E0004, "too many elements");
    Tensor t = tensor_new(n->model->arena, DTYPE_bool, 2, (const int64_t[]){rows, columns});
    for (int64_t i = 0; i < rows && i < columns; i++)
        tensor_set_i64(&t, i * columns + i, 1);
    const Shape s = shape_of(2, t.dim);
    return tfl_const(n, DTYPE_bool, &s, t.data);
}

void tfl_import_matrix_diag(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    const Shape s = *tfl_shape(n, x);
    if (!n->failed && (s.rank < 1 || s.rank == SHAPE_MAX_RANK))
        tfl_fail(n, E0204, "a diagonal of rank %u", s.rank);
    if (n->failed)
        return;
    const int64_t size = tfl_size(n, x, s.rank - 1);
    const Shape column = shape_insert(&s, s.rank, 1);
    tfl_out(n, 0,
            tfl_op3(n, OP_where, diagonal(n, size, size), tfl_reshape_like(n, x, &column),
                    tfl_number(n, tfl_type(n, x), 0)));
}

void tfl_import_matrix_set_diag(TflNode *n)
{
    const NodeId x = tfl_src(n, 0), d = tfl_src(n, 1);
    tfl_same_scale(n, 0);
    const uint32_t rank = tfl_rank(n, x);
    if (!n->failed && (rank < 2 || tfl_rank(n, d) != rank - 1))
        tfl_fail(n, E0204, "a diagonal of rank %u for rank %u", tfl_rank(n, d), rank);
    const int64_t rows = n->failed ? 1 : tfl_size(n, x, rank - 2);
    const int64_t columns = n->failed ? 1 : tfl_size(n, x, rank - 1);
    Shape s = *tfl_shape(n, x);
    if (!n->failed) {
        s.rank--;
        s.dim[s.rank - 1] = rows < columns ? rows : columns;
    }
    if (!n->failed && !shape_equal(&s, tfl_shape(n, d)))
        tfl_fail(n, E0204, "expected a diagonal of %lld elements for each matrix",
                 (long long)s.dim[s.rank - 1]);
    if (n->failed)
        return;
    const Shape side = shape_insert(&s, rows <= columns ? s.rank : s.rank - 1, 1);
    tfl_out(n, 0, tfl_op3(n, OP_where, diagonal(n, rows, columns), tfl_reshape_like(n, d, &side), x));
}

// --- BUCKETIZE ---

// The least number of an integer type that is not below a boundary, as floats compare them. False: all are.
static bool least_above(DType t, float boundary, int64_t *out)
{
    int64_t lo = tensor_saturate(t, -0x1p64), hi = tensor_saturate(t, 0x1p64);
    rlx_assert(dtype_info[t].cls == DCLASS_INT);
    while (lo < hi) {
        const int64_t middle = (int64_t)((uint64_t)lo + ((uint64_t)hi - (uint64_t)lo) / 2);
        if ((float)middle < boundary)
            lo = middle + 1;
        else
            hi = middle;
    }
    *out = lo;
    return (float)lo >= boundary;
}

// The boundaries that numbers of a type can reach.
static Tensor boundaries_of(TflNode *n, DType t, const float *v, uint32_t count)
{
    int64_t size = count, least = 0;
    Tensor list = tensor_new(n->model->arena, t, 1, &size);
    size = 0;
    for (uint32_t i = 0; i < count; i++)
        if (dtype_info[t].cls == DCLASS_FLOAT)
            tensor_set_f64(&list, size++, (double)v[i]);
        else if (least_above(t, v[i], &least))
            tensor_set_i64(&list, size++, least);
    list.dim[0] = list.numel = size;
    return list;
}

// How many of the boundaries, which rise, x is not below. A NaN is below none.
void tfl_import_bucketize(TflNode *n)
{
    uint32_t count = 0;
    const float *v = tfl_option_floats(n, 0, &count);
    NodeId x = tfl_src(n, 0);
    Shape s = *tfl_shape(n, x);
    const int64_t last = s.rank;
    if (!n->failed && (count > MOST_BUCKETS || s.rank == SHAPE_MAX_RANK))
        tfl_fail(n, E0203, "%u boundaries for rank %u", count, s.rank);
    if (n->failed || !tfl_spend(n, count))
        return;
    if (dtype_info[tfl_type(n, x)].cls != DCLASS_INT && tfl_type(n, x) != DTYPE_f64)
        x = tfl_cast(n, x, DTYPE_f32);
    const Tensor t = boundaries_of(n, tfl_type(n, x), v, count);
    const Shape list = shape_of(1, t.dim);
    s = shape_insert(&s, s.rank, 1);
    const NodeId is_below =
        tfl_op2(n, OP_lt, tfl_reshape_like(n, x, &s), tfl_const(n, t.dtype, &list, t.data));
    const NodeId below = tfl_reduce(n, OP_reduce_sum, tfl_cast(n, is_below, DTYPE_i32), &last, 1, false);
    tfl_out(n, 0, tfl_op2(n, OP_sub, tfl_number(n, DTYPE_i32, (double)t.numel), below));
}
