// SPDX-License-Identifier: Apache-2.0
// Operators that make values: constants, ranges, and masks by position. Positions come from onnx_iota, so
// that sizes may be symbolic.
#include "compiler/import/onnx/onnx_text.h"

#include <math.h>

// --- constants ---

static NodeId const_floats(OnnxNode *n, const float *v, size_t count, uint32_t rank)
{
    rlx_assert(rank == 1 || (rank == 0 && count == 1));
    Shape s = {.rank = rank, .dim = {(Dim)count}};
    const float *data = arena_copy(n->model->arena, v, count * sizeof *v);
    return onnx_const(n, DTYPE_f32, &s, data, count * sizeof *v);
}

static NodeId const_ints(OnnxNode *n, const int64_t *v, size_t count, uint32_t rank)
{
    rlx_assert(rank == 1 || (rank == 0 && count == 1));
    Shape s = {.rank = rank, .dim = {(Dim)count}};
    const int64_t *data = arena_copy(n->model->arena, v, count * sizeof *v);
    return onnx_const(n, DTYPE_i64, &s, data, count * sizeof *v);
}

static NodeId const_tensor(OnnxNode *n, const Onnx__TensorProto *t)
{
    if (n->failed || !t)
        return 0;
    const char *what = arena_printf(n->model->arena, "node '%s': %s", n->label, n->op);
    const NodeId id = onnx_tensor_const(n->model, n->graph, t, what, n->span);
    n->failed = id == 0;
    return id;
}

static void const_value(OnnxNode *n, const Onnx__TensorProto *t)
{
    if (t && t->data_type == ONNX_STRING) {
        const char *what = arena_printf(n->model->arena, "node '%s': %s", n->label, n->op);
        const OnnxValue v = onnx_tensor_value(n->model, n->graph, t, what, n->span);
        n->failed = n->failed || v.kind == ONNX_BROKEN;
        onnx_out_any(n, 0, v);
    } else {
        onnx_out(n, 0, const_tensor(n, t));
    }
}

static void const_strings(OnnxNode *n, const ProtobufCBinaryData *v, size_t count, uint32_t rank)
{
    rlx_assert(rank == 1 || (rank == 0 && count == 1));
    const NodeId list = onnx_text_const(n, v, count);
    const Dim capacity = onnx_text_capacity(n, list);
    onnx_out_text(n, 0, rank ? list : onnx_reshape_to(n, list, &capacity, 1));
}

void onnx_import_constant(OnnxNode *n)
{
    const Onnx__AttributeProto *a = NULL;
    if (onnx_has_attr(n, "value"))
        const_value(n, onnx_tensor(n, "value"));
    else if ((a = onnx_attr(n, "value_string")))
        const_strings(n, &a->s, 1, 0);
    else if ((a = onnx_attr(n, "value_strings")))
        const_strings(n, a->strings, a->n_strings, 1);
    else if ((a = onnx_attr(n, "value_int")))
        onnx_out(n, 0, const_ints(n, &a->i, 1, 0));
    else if ((a = onnx_attr(n, "value_ints")))
        onnx_out(n, 0, const_ints(n, a->ints, a->n_ints, 1));
    else if ((a = onnx_attr(n, "value_float")))
        onnx_out(n, 0, const_floats(n, &a->f, 1, 0));
    else if ((a = onnx_attr(n, "value_floats")))
        onnx_out(n, 0, const_floats(n, a->floats, a->n_floats, 1));
    else
        onnx_fail(n, E0206, "only tensors and numbers are supported");
}

// Sizes that the model computes may turn out to be wrong in a run.
static void require_sizes(OnnxNode *n)
{
    OnnxDims known;
    if (n->failed || onnx_peek_dims(n, 0, &known))
        return;
    const NodeId sizes = onnx_src(n, 0);
    const NodeId is_right = onnx_op2(n, OP_ge, sizes, onnx_scalar(n, onnx_dtype(n, sizes), 0));
    onnx_require(n, onnx_all(n, is_right),
                 arena_printf(n->model->arena, GRAPH_RANGE "node '%s': ConstantOfShape: a size is negative",
                              n->label));
}

void onnx_import_constant_of_shape(OnnxNode *n)
{
    OnnxDims shape;
    NodeId value = 0;
    if (onnx_has_attr(n, "value"))
        value = const_tensor(n, onnx_tensor(n, "value"));
    else
        value = onnx_scalar(n, DTYPE_f32, 0);
    onnx_promise_shape(n, 0);
    if (!onnx_src_sizes(n, 0, &shape))
        return;
    if (shape.n > SHAPE_MAX_RANK)
        onnx_fail(n, E0206, "%u axes are more than the %d that are supported", shape.n, SHAPE_MAX_RANK);
    require_sizes(n);
    value = onnx_reshape(n, value, &(Shape){0});
    onnx_out(n, 0, onnx_expand(n, value, shape.dim, shape.n));
}

// --- ranges ---

// The number of steps when start and limit are sizes and the step is a constant.
static bool symbolic_count(OnnxNode *n, Dim *out)
{
    OnnxDims start, limit, step;
    int64_t lo = 0, hi = 0;
    if (!onnx_peek_dims(n, 0, &start) || !onnx_peek_dims(n, 1, &limit) || !onnx_peek_dims(n, 2, &step) ||
        start.n != 1 || limit.n != 1 || step.n != 1 || !dim_is_const(step.dim[0]) || step.dim[0] < 1)
        return false;
    DimTable *t = n->graph->dims;
    *out = dim_ceil_div(t, dim_sub(t, limit.dim[0], start.dim[0]), step.dim[0]);
    dim_range(t, *out, &lo, &hi);
    *out = lo >= 0 ? *out : hi <= 0 ? 0 : dim_max(t, *out, 0);
    return true;
}

void onnx_import_range(OnnxNode *n)
{
    Dim count = 0;
    double from = 0, to = 0, by = 0;
    const bool is_symbolic = symbolic_count(n, &count);
    const bool is_const = !is_symbolic && !onnx_has_bound(n) && onnx_number(n, 0, &from) &&
                          onnx_number(n, 1, &to) && onnx_number(n, 2, &by);
    onnx_ignore_attr(n, "stash_type");
    const bool is_promised = !is_const && !is_symbolic && onnx_promise_range(n, &count);
    const NodeId start = onnx_src(n, 0), step = onnx_src(n, 2);
    onnx_skip(n, 1);
    if (!is_const && !is_symbolic && !is_promised)
        count = onnx_range_extent(n, start, onnx_src(n, 1), step);
    if (n->failed)
        return;
    if (is_const) {
        const double steps = ceil((to - from) / by);
        if (!(by != 0 && steps <= (double)DIM_MAX_VALUE)) {
            onnx_fail(n, E0203, "there is no range from %g to %g in steps of %g", from, to, by);
            return;
        }
        count = steps > 0 ? (Dim)steps : 0;
    }
    rlx_assert(!dim_is_const(count) || count >= 0);
    const DType type = onnx_dtype(n, start);
    const Shape scalar = {0};
    const NodeId index = onnx_cast(n, onnx_iota(n, count), type);
    const NodeId offset = onnx_op2(n, OP_mul, index, onnx_reshape(n, step, &scalar));
    onnx_out(n, 0, onnx_op2(n, OP_add, offset, onnx_reshape(n, start, &scalar)));
}

// --- by position ---

// Whether `op` holds between column - row and k, in a matrix [rows, columns]. Positions that 32 bits hold are
// compared as such: it is computed where it is used, in twice as many lanes.
static NodeId by_diagonal(OnnxNode *n, OpId op, Dim rows, Dim columns, NodeId k)
{
    enum { FAR = 1 << 30 };
    double known = 0;
    if (n->failed)
        return 0;
    const bool is_near = node_is_scalar_const(n->graph, onnx_number_of(n->graph, k), &known) &&
                         known > -FAR && known < FAR && dim_is_const(rows) && rows < FAR &&
                         dim_is_const(columns) && columns < FAR;
    const DType type = is_near ? DTYPE_i32 : DTYPE_i64;
    const NodeId row = onnx_unsqueeze(n, onnx_iota(n, rows), (const int64_t[]){1}, 1);
    const NodeId diagonal =
        onnx_op2(n, OP_sub, onnx_cast(n, onnx_iota(n, columns), type), onnx_cast(n, row, type));
    return onnx_op2(n, op, diagonal, onnx_cast(n, k, type));
}

void onnx_import_eye_like(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const DType type = onnx_type_attr(n, "dtype", onnx_dtype(n, x));
    const int64_t k = onnx_int(n, "k", 0);
    const Shape s = *onnx_shape(n, x);
    if (!n->failed && s.rank != 2)
        onnx_fail(n, E0204, "needs a matrix, found rank %u", s.rank);
    const NodeId is_one =
        by_diagonal(n, OP_eq, s.dim[0], s.dim[1], onnx_scalar(n, DTYPE_i64, (double)k));
    onnx_out(n, 0, onnx_cast(n, is_one, type));
}

void onnx_import_trilu(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const bool is_upper = onnx_flag(n, "upper", 1);
    const Shape s = *onnx_shape(n, x);
    const NodeId given = onnx_opt(n, 1);
    if (!n->failed && s.rank < 2)
        onnx_fail(n, E0204, "needs matrices, found rank %u", s.rank);
    if (n->failed)
        return;
    const NodeId k =
        given ? onnx_cast(n, onnx_reshape(n, given, &(Shape){0}), DTYPE_i64) : onnx_scalar(n, DTYPE_i64, 0);
    const NodeId keeps =
        by_diagonal(n, is_upper ? OP_ge : OP_le, s.dim[s.rank - 2], s.dim[s.rank - 1], k);
    onnx_out(n, 0, onnx_op3(n, OP_where, keeps, x, onnx_scalar(n, onnx_dtype(n, x), 0)));
}

// Indices count from the back when they are negative; out of range gives no 1.
void onnx_import_one_hot(OnnxNode *n)
{
    const NodeId indices = onnx_src(n, 0), values = onnx_src(n, 2);
    const int64_t given = onnx_int(n, "axis", -1);
    uint32_t axis = 0;
    OnnxDims depth;
    const Shape s = *onnx_shape(n, indices);
    onnx_promise_size(n, 1, given);
    if (!onnx_src_dims(n, 1, &depth) || !onnx_axis(n, given, s.rank + 1, &axis))
        return;
    if (depth.n != 1)
        onnx_fail(n, E0203, "the depth must be one number");
    const NodeId size = onnx_cast(n, onnx_reshape(n, onnx_src(n, 1), &(Shape){0}), DTYPE_i64);
    const NodeId index = onnx_unsqueeze(n, onnx_cast(n, indices, DTYPE_i64), (const int64_t[]){axis}, 1);
    const NodeId is_negative = onnx_op2(n, OP_lt, index, onnx_scalar(n, DTYPE_i64, 0));
    const NodeId wrapped = onnx_op3(n, OP_where, is_negative, onnx_op2(n, OP_add, index, size), index);
    Shape along = {.rank = s.rank + 1 - axis, .dim = {depth.dim[0], 1, 1, 1, 1, 1, 1, 1}};
    const NodeId hot = onnx_op2(n, OP_eq, wrapped, onnx_reshape(n, onnx_iota(n, depth.dim[0]), &along));
    const NodeId off = onnx_slice(n, values, 0, 0, 1, 1), on = onnx_slice(n, values, 0, 1, 2, 1);
    const Shape scalar = {0};
    onnx_out(n, 0, onnx_op3(n, OP_where, hot, onnx_reshape(n, on, &scalar), onnx_reshape(n, off, &scalar)));
}
