// SPDX-License-Identifier: Apache-2.0
// Promises: where an operand that shapes a result is computed by the model, but the model declares the shape
// of the result (value_info, outputs), the graph is built for that shape, and a check makes sure that the
// operand leads to it. Each function here says whether it could; where not, the import function goes on and
// reports.
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

// The declared shape of result `i`, for an operand that is not known otherwise and has `count` elements in a
// list (0: any number, in any shape).
static bool promised(OnnxNode *n, uint32_t operand, uint32_t i, Shape *out)
{
    OnnxDims dims;
    Tensor known;
    if (n->failed || !onnx_has(n, operand) || n->in[operand].kind != ONNX_NODE || n->in[operand].is_text)
        return false;
    if (!onnx_wants(n, i) || !onnx_declared_numbers(onnx_find_declared(n->scope, n->proto->output[i]), out))
        return false; // without a given value too: the node may have a bound, which leaves the operand open
    return !onnx_peek_dims(n, operand, &dims) && !onnx_assume(n, operand, &known) && !n->failed;
}

static bool is_list(OnnxNode *n, uint32_t operand, uint32_t count)
{
    const Shape *s = onnx_shape(n, n->in[operand].node);
    return s->rank == 1 && s->dim[0] == count;
}

static NodeId operand_i64(OnnxNode *n, uint32_t i)
{
    return onnx_cast(n, onnx_src(n, i), DTYPE_i64);
}

static void require(OnnxNode *n, NodeId cond, uint32_t i)
{
    rlx_assert(i < n->n_in);
    onnx_require(n, onnx_all(n, cond),
                 arena_printf(n->model->arena,
                              "node '%s': '%s' must lead to the shape that the model declares", n->label,
                              n->proto->input[i]));
}

// From here on the operand is these numbers, for this node.
static void set_operand(OnnxNode *n, uint32_t i, const int64_t *v, uint32_t count, uint32_t rank)
{
    rlx_assert(i < n->n_in && rank <= 1);
    NodeId id = onnx_ints_const(n, v, count);
    if (rank == 0)
        id = onnx_reshape(n, id, &(Shape){0});
    id = onnx_cast(n, id, onnx_dtype(n, n->in[i].node));
    if (!n->failed)
        n->in[i] = onnx_value(id);
}

// The operand must be these numbers.
static void require_equal(OnnxNode *n, uint32_t i, const int64_t *v, uint32_t count)
{
    const NodeId old = operand_i64(n, i);
    const Shape s = *onnx_shape(n, old);
    const NodeId expected = onnx_reshape(n, onnx_ints_const(n, v, count), &s);
    require(n, onnx_op2(n, OP_eq, old, expected), i);
    set_operand(n, i, v, count, s.rank);
}

// --- shapes ---

void onnx_promise_shape(OnnxNode *n, uint32_t operand)
{
    Shape s;
    if (promised(n, operand, 0, &s) && is_list(n, operand, s.rank))
        require_equal(n, operand, s.dim, s.rank);
}

// -1 stands for what is left, 0 for the size that is there.
void onnx_promise_reshape(OnnxNode *n, bool allow_zero)
{
    Shape s;
    int64_t copied[SHAPE_MAX_RANK];
    if (!promised(n, 1, 0, &s) || !is_list(n, 1, s.rank))
        return;
    const NodeId v = operand_i64(n, 1);
    const Shape x = *onnx_shape(n, onnx_src(n, 0));
    for (uint32_t i = 0; i < s.rank; i++)
        copied[i] = !allow_zero && i < x.rank && x.dim[i] == s.dim[i] ? 0 : s.dim[i];
    const NodeId is_open = onnx_op2(n, OP_eq, v, onnx_scalar(n, DTYPE_i64, -1));
    const NodeId is_size = onnx_op2(n, OP_eq, v, onnx_ints_const(n, s.dim, s.rank));
    const NodeId is_copied = onnx_op2(n, OP_eq, v, onnx_ints_const(n, copied, s.rank));
    require(n, onnx_op2(n, OP_logical_or, is_open, onnx_op2(n, OP_logical_or, is_size, is_copied)), 1);
    const NodeId n_open =
        onnx_reduce(n, OP_reduce_sum, onnx_cast(n, is_open, DTYPE_i64), (const int64_t[]){0}, 1);
    require(n, onnx_op2(n, OP_le, n_open, onnx_scalar(n, DTYPE_i64, 1)), 1);
    set_operand(n, 1, s.dim, s.rank, 1);
}

// An entry may be 1 where the operand has the size already.
void onnx_promise_expand(OnnxNode *n)
{
    Shape s;
    int64_t other[SHAPE_MAX_RANK];
    const Shape x = *onnx_shape(n, onnx_src(n, 0));
    if (!promised(n, 1, 0, &s) || x.rank > s.rank)
        return;
    const Shape *list = onnx_shape(n, n->in[1].node);
    if (list->rank != 1 || !dim_is_const(list->dim[0]) || list->dim[0] > s.rank ||
        (list->dim[0] < s.rank && x.rank < s.rank))
        return;
    const uint32_t count = (uint32_t)list->dim[0], lead = s.rank - count;
    for (uint32_t i = 0; i < s.rank; i++) {
        const Dim d = i < s.rank - x.rank ? 1 : x.dim[i - (s.rank - x.rank)];
        if ((d != 1 || i < lead) && d != s.dim[i])
            return;
        other[i] = d == 1 ? s.dim[i] : 1;
    }
    const NodeId v = operand_i64(n, 1);
    const NodeId is_size = onnx_op2(n, OP_eq, v, onnx_ints_const(n, s.dim + lead, count));
    const NodeId is_one = onnx_op2(n, OP_eq, v, onnx_ints_const(n, other + lead, count));
    require(n, onnx_op2(n, OP_logical_or, is_size, is_one), 1);
    set_operand(n, 1, s.dim, s.rank, 1);
}

void onnx_promise_tile(OnnxNode *n)
{
    Shape s;
    int64_t times[SHAPE_MAX_RANK];
    const Shape x = *onnx_shape(n, onnx_src(n, 0));
    if (!promised(n, 1, 0, &s) || !is_list(n, 1, s.rank) || x.rank != s.rank)
        return;
    for (uint32_t i = 0; i < s.rank; i++) {
        if (!dim_is_const(x.dim[i]) || x.dim[i] == 0 || s.dim[i] % x.dim[i] != 0)
            return;
        times[i] = s.dim[i] / x.dim[i];
    }
    require_equal(n, 1, times, s.rank);
}

// The size of one axis of result 0, which the operand gives.
void onnx_promise_size(OnnxNode *n, uint32_t operand, int64_t axis)
{
    Shape s;
    if (!promised(n, operand, 0, &s) || axis < -(int64_t)s.rank || axis >= (int64_t)s.rank)
        return;
    const Shape *v = onnx_shape(n, n->in[operand].node);
    if (shape_is_const(v) && shape_numel(v) == 1)
        require_equal(n, operand, &s.dim[axis < 0 ? axis + (int64_t)s.rank : axis], 1);
}

// The sizes of an axis of all results.
void onnx_promise_split(OnnxNode *n, uint32_t axis)
{
    int64_t sizes[ONNX_MAX_LIST];
    Shape s;
    if (n->n_out > ONNX_MAX_LIST || !onnx_has(n, 1))
        return;
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (!promised(n, 1, i, &s) || axis >= s.rank)
            return;
        sizes[i] = s.dim[axis];
    }
    if (is_list(n, 1, n->n_out))
        require_equal(n, 1, sizes, n->n_out);
}

// --- axes ---

// Squeeze and Unsqueeze only regroup, so that any axes which lead to the shape give the same. The operand as
// one number: the sum of 2^axis.
static NodeId axes_mask(OnnxNode *n, uint32_t operand, uint32_t rank)
{
    static const int64_t powers[] = {1, 2, 4, 8, 16, 32, 64, 128};
    rlx_assert(rank >= 1 && rank <= sizeof powers / sizeof *powers);
    const NodeId v = operand_i64(n, operand);
    const NodeId is_negative = onnx_op2(n, OP_lt, v, onnx_scalar(n, DTYPE_i64, 0));
    const NodeId from_front = onnx_op2(n, OP_add, v, onnx_scalar(n, DTYPE_i64, rank));
    const NodeId axis = onnx_op3(n, OP_where, is_negative, from_front, v);
    const NodeId low = onnx_op2(n, OP_max, axis, onnx_scalar(n, DTYPE_i64, 0));
    const NodeId safe = onnx_op2(n, OP_min, low, onnx_scalar(n, DTYPE_i64, rank - 1));
    const NodeId bits = onnx_gather(n, onnx_ints_const(n, powers, rank), safe, 0);
    return onnx_shape(n, bits)->rank ? onnx_reduce(n, OP_reduce_sum, bits, (const int64_t[]){0}, 1) : bits;
}

// Is `narrow` what is left of `wide` without these axes, all of size 1?
static bool leads_to(const Shape *wide, const Shape *narrow, uint32_t mask)
{
    rlx_assert(wide->rank >= narrow->rank && mask < 1u << wide->rank);
    uint32_t at = 0;
    for (uint32_t i = 0; i < wide->rank; i++) {
        if (mask >> i & 1 ? wide->dim[i] != 1 : at >= narrow->rank || wide->dim[i] != narrow->dim[at])
            return false;
        at += !(mask >> i & 1);
    }
    return at == narrow->rank;
}

bool onnx_promise_axes(OnnxNode *n, bool inserts, NodeId *out)
{
    Shape s;
    const NodeId x = onnx_src(n, 0);
    const Shape from = *onnx_shape(n, x);
    if (!promised(n, 1, 0, &s) || !shape_is_const(&from))
        return false;
    const Shape *wide = inserts ? &s : &from, *narrow = inserts ? &from : &s;
    if (wide->rank <= narrow->rank || !is_list(n, 1, wide->rank - narrow->rank))
        return false;
    const NodeId mask = axes_mask(n, 1, wide->rank);
    NodeId any = 0;
    for (uint32_t m = 0; m < 1u << wide->rank; m++) {
        if (!leads_to(wide, narrow, m))
            continue;
        const NodeId is_this = onnx_op2(n, OP_eq, mask, onnx_scalar(n, DTYPE_i64, m));
        any = any ? onnx_op2(n, OP_logical_or, any, is_this) : is_this;
    }
    if (!any || n->failed)
        return false;
    require(n, any, 1);
    *out = onnx_reshape(n, x, &s);
    return true;
}

// --- ranges ---

// How many numbers there are from start to limit: max(0, ceil((limit - start) / step)), as f64.
static NodeId count_steps(OnnxNode *n, NodeId start, NodeId limit, NodeId step)
{
    const NodeId span = onnx_op2(n, OP_sub, onnx_cast(n, limit, DTYPE_f64), onnx_cast(n, start, DTYPE_f64));
    const NodeId steps = onnx_op1(n, OP_ceil, onnx_op2(n, OP_div, span, onnx_cast(n, step, DTYPE_f64)));
    return onnx_op2(n, OP_max, steps, onnx_scalar(n, DTYPE_f64, 0));
}

// The number of elements of a Range.
bool onnx_promise_range(OnnxNode *n, Dim *count)
{
    Shape s = {0};
    bool is_promised = false;
    bool is_whole = true;
    for (uint32_t i = 0; i < 3; i++) {
        is_whole = is_whole && onnx_has(n, i);
        is_promised = promised(n, i, 0, &s) || is_promised;
    }
    if (!is_whole || !is_promised || s.rank != 1 || n->failed)
        return false;
    const NodeId steps = count_steps(n, onnx_src(n, 0), onnx_src(n, 1), onnx_src(n, 2));
    require(n, onnx_op2(n, OP_eq, steps, onnx_scalar(n, DTYPE_f64, (double)s.dim[0])), 1);
    *count = s.dim[0];
    return !n->failed;
}

// --- slices and pads: gathers by positions that are computed ---

static NodeId clamp(OnnxNode *n, NodeId v, NodeId low, NodeId high)
{
    return onnx_op2(n, OP_min, onnx_op2(n, OP_max, v, low), high);
}

// Entry i of a list as a scalar i64.
static NodeId entry(OnnxNode *n, NodeId list, uint32_t i)
{
    return onnx_cast(n, onnx_reshape(n, onnx_slice(n, list, 0, i, (int64_t)i + 1, 1), &(Shape){0}),
                     DTYPE_i64);
}

static NodeId number(OnnxNode *n, int64_t v)
{
    return onnx_scalar(n, DTYPE_i64, (double)v);
}

typedef struct SliceAxis {
    uint32_t axis;
    int64_t size, count, step;
    NodeId start, end;
} SliceAxis;

// Positions count from the back when they are negative, and are clamped to what there is in the direction of
// the step.
static NodeId slice_position(OnnxNode *n, const SliceAxis *a, NodeId v, bool is_end)
{
    const NodeId from_front = onnx_op2(n, OP_add, v, number(n, a->size));
    const NodeId at = onnx_op3(n, OP_where, onnx_op2(n, OP_lt, v, number(n, 0)), from_front, v);
    const int64_t low = a->step < 0 && is_end ? -1 : 0, high = a->step < 0 ? a->size - 1 : a->size;
    return clamp(n, at, number(n, low), number(n, high));
}

static NodeId slice_axis(OnnxNode *n, NodeId x, const SliceAxis *a)
{
    rlx_assert(a->step != 0 && a->count >= 0);
    const NodeId first = slice_position(n, a, a->start, false), stop = slice_position(n, a, a->end, true);
    const NodeId steps = count_steps(n, first, stop, number(n, a->step));
    require(n, onnx_op2(n, OP_eq, steps, onnx_scalar(n, DTYPE_f64, (double)a->count)), 1);
    if (a->count == 0 || a->size == 0)
        return onnx_slice(n, x, a->axis, 0, 0, 1);
    const NodeId offset = onnx_op2(n, OP_mul, onnx_iota(n, a->count), number(n, a->step));
    const NodeId at = onnx_op2(n, OP_add, offset, first);
    return onnx_gather(n, x, clamp(n, at, number(n, 0), number(n, a->size - 1)), a->axis);
}

// The axes and steps of operands 3 and 4, which must be known.
static bool read_known(OnnxNode *n, uint32_t operand, uint32_t count, OnnxInts *out)
{
    OnnxDims d;
    out->n = count;
    for (uint32_t i = 0; i < count; i++)
        out->v[i] = operand == 4 ? 1 : i;
    if (!onnx_has(n, operand))
        return true;
    if (!onnx_peek_dims(n, operand, &d) || d.n != count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!dim_is_const(d.dim[i]))
            return false;
        out->v[i] = d.dim[i];
    }
    onnx_skip(n, operand);
    return true;
}

bool onnx_promise_slice(OnnxNode *n, NodeId *out)
{
    Shape s;
    OnnxInts axes, steps;
    const NodeId x = onnx_src(n, 0);
    const Shape from = *onnx_shape(n, x);
    if ((!promised(n, 1, 0, &s) && !promised(n, 2, 0, &s)) || s.rank != from.rank || !shape_is_const(&from))
        return false;
    const Shape *list = onnx_shape(n, n->in[1].node);
    const uint32_t count =
        list->rank == 1 && list->dim[0] >= 1 && list->dim[0] <= s.rank ? (uint32_t)list->dim[0] : 0;
    if (count == 0 || !onnx_has(n, 2) || !is_list(n, 2, count) || !read_known(n, 3, count, &axes) ||
        !read_known(n, 4, count, &steps))
        return false;
    const NodeId starts = onnx_src(n, 1), ends = onnx_src(n, 2);
    NodeId v = x;
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        SliceAxis a = {.step = steps.v[i], .start = entry(n, starts, i), .end = entry(n, ends, i)};
        if (!onnx_axis(n, axes.v[i], s.rank, &a.axis))
            return true;
        if (a.step == 0 || a.step < -DIM_MAX_VALUE || a.step > DIM_MAX_VALUE)
            return !onnx_fail(n, E0203, "a step of %lld is not possible", (long long)a.step);
        a.size = from.dim[a.axis];
        a.count = s.dim[a.axis];
        v = slice_axis(n, v, &a);
    }
    *out = v;
    return true;
}

typedef struct PadAxis {
    uint32_t axis;
    int64_t size, count;
    NodeId begin, end, value;
    const char *mode;
} PadAxis;

// Of the elements that pads leave, 1 or more: those that negative pads remove go before others come.
static NodeId wrapped_source(OnnxNode *n, NodeId at, const PadAxis *a)
{
    const NodeId zero = number(n, 0), begin = onnx_op2(n, OP_min, a->begin, zero),
                 left = onnx_op2(n, OP_add, onnx_op2(n, OP_add, begin, onnx_op2(n, OP_min, a->end, zero)),
                                 number(n, a->size));
    const NodeId turned = onnx_op2(n, OP_mod, onnx_op2(n, OP_add, at, begin),
                                   onnx_op2(n, OP_max, left, number(n, 1)));
    return onnx_op2(n, OP_sub, turned, begin);
}

// Where element `at` comes from on an axis, outside of which it may be.
static NodeId pad_source(OnnxNode *n, NodeId at, const PadAxis *a)
{
    const int64_t size = a->size;
    const NodeId low = number(n, 0), high = number(n, size - 1);
    if (str_equal(a->mode, "wrap"))
        return clamp(n, wrapped_source(n, at, a), low, high);
    if (!str_equal(a->mode, "reflect") || size == 1)
        return clamp(n, at, low, high);
    const NodeId phase = onnx_op2(n, OP_mod, at, number(n, 2 * size - 2));
    return onnx_op2(n, OP_min, phase, onnx_op2(n, OP_sub, number(n, 2 * size - 2), phase));
}

static NodeId pad_axis(OnnxNode *n, NodeId x, const PadAxis *a)
{
    const uint32_t rank = onnx_shape(n, x)->rank;
    rlx_assert(a->axis < rank && a->size >= 1);
    Shape along = {.rank = rank - a->axis};
    const NodeId sum = onnx_op2(n, OP_add, onnx_op2(n, OP_add, a->begin, a->end), number(n, a->size));
    require(n, onnx_op2(n, OP_eq, sum, number(n, a->count)), 1);
    const NodeId at = onnx_op2(n, OP_sub, onnx_iota(n, a->count), a->begin);
    const NodeId moved = onnx_gather(n, x, pad_source(n, at, a), a->axis);
    if (!str_equal(a->mode, "constant"))
        return moved;
    const NodeId is_after = onnx_op2(n, OP_ge, at, number(n, 0));
    const NodeId is_inside =
        onnx_op2(n, OP_logical_and, is_after, onnx_op2(n, OP_lt, at, number(n, a->size)));
    for (uint32_t i = 0; i < along.rank; i++)
        along.dim[i] = i ? 1 : a->count;
    return onnx_op3(n, OP_where, onnx_reshape(n, is_inside, &along), moved, a->value);
}

bool onnx_promise_pad(OnnxNode *n, const char *mode, NodeId value, NodeId *out)
{
    Shape s;
    OnnxInts axes;
    const NodeId x = onnx_src(n, 0);
    const Shape from = *onnx_shape(n, x);
    if (!promised(n, 1, 0, &s) || s.rank != from.rank || !shape_is_const(&from) || shape_numel(&from) == 0)
        return false;
    const Shape *list = onnx_shape(n, n->in[1].node);
    if (list->rank != 1 || list->dim[0] < 2 || list->dim[0] > 2 * (Dim)s.rank || list->dim[0] % 2 ||
        !read_known(n, 3, (uint32_t)list->dim[0] / 2, &axes))
        return false;
    const NodeId pads = onnx_src(n, 1);
    PadAxis a = {.mode = mode, .value = value ? onnx_reshape(n, value, &(Shape){0}) : 0};
    if (!value)
        a.value = onnx_scalar(n, onnx_dtype(n, x), 0);
    NodeId v = x;
    for (uint32_t i = 0; i < axes.n && !n->failed; i++) {
        if (!onnx_axis(n, axes.v[i], s.rank, &a.axis))
            return true;
        a.begin = entry(n, pads, i);
        a.end = entry(n, pads, axes.n + i);
        a.size = from.dim[a.axis];
        a.count = s.dim[a.axis];
        v = pad_axis(n, v, &a);
    }
    *out = v;
    return true;
}
