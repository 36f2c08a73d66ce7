// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools: ONNX's automatic padding becomes explicit pads.
#include "compiler/import/onnx/onnx_quant.h"

enum { MAX_SPATIAL = SHAPE_MAX_RANK - 2 };

// The window attributes of a node on `n` spatial axes.
typedef struct Window {
    uint32_t n;
    int64_t kernel[MAX_SPATIAL], strides[MAX_SPATIAL], dilations[MAX_SPATIAL], pads[2 * MAX_SPATIAL];
    bool is_same,
        at_begin; // pads so that the output is input / stride; the odd one goes to the begin (SAME_LOWER)
} Window;

static void read_list(OnnxNode *n, const char *name, int64_t *out, uint32_t count, int64_t dflt)
{
    OnnxInts given;
    const bool is_given = onnx_ints(n, name, &given);
    if (is_given && given.n != count)
        onnx_fail(n, E0203, "attribute '%s' has %u entries, expected %u", name, given.n, count);
    for (uint32_t i = 0; i < count; i++)
        out[i] = is_given && i < given.n ? given.v[i] : dflt;
}

void onnx_steps(OnnxNode *n, const char *name, int64_t *out, uint32_t count, int64_t dflt)
{
    read_list(n, name, out, count, dflt);
    for (uint32_t i = 0; i < count && !n->failed; i++)
        if (out[i] < dflt || out[i] > ONNX_MAX_STEP)
            onnx_fail(n, E0203, "attribute '%s' has the entry %lld", name, (long long)out[i]);
}

static void read_auto_pad(OnnxNode *n, Window *w)
{
    enum { NOTSET, VALID, SAME_UPPER, SAME_LOWER };
    const uint32_t mode = ONNX_WORD(n, "auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER");
    w->is_same = mode >= SAME_UPPER;
    w->at_begin = mode == SAME_LOWER;
    read_list(n, "pads", w->pads, 2 * w->n, 0);
    for (uint32_t i = 0; i < 2 * w->n && mode != NOTSET; i++)
        w->pads[i] = 0;
}

// Without kernel_shape the kernel is that of the weight.
static bool read_window(OnnxNode *n, NodeId x, NodeId weight, Window *w)
{
    const uint32_t rank = onnx_shape(n, x)->rank;
    *w = (Window){0};
    if (n->failed)
        return false;
    if (rank < 3 || (weight && onnx_shape(n, weight)->rank != rank))
        return onnx_fail(n, E0204, "needs an input [N, C, spatial ...]%s",
                         weight ? " and a weight of the same rank" : "");
    w->n = rank - 2;
    for (uint32_t i = 0; weight && i < w->n; i++)
        w->kernel[i] = onnx_const_dim(n, weight, 2 + i);
    if (!weight && !onnx_need_attr(n, "kernel_shape"))
        return false;
    if (onnx_has_attr(n, "kernel_shape"))
        read_list(n, "kernel_shape", w->kernel, w->n, 1);
    for (uint32_t i = 0; weight && i < w->n; i++)
        if (!n->failed && w->kernel[i] != onnx_shape(n, weight)->dim[2 + i])
            onnx_fail(n, E0204, "attribute 'kernel_shape' differs from the shape of the weight");
    read_list(n, "strides", w->strides, w->n, 1);
    read_list(n, "dilations", w->dilations, w->n, 1);
    read_auto_pad(n, w);
    for (uint32_t i = 0; i < w->n && !n->failed; i++)
        if (w->kernel[i] < 1 || w->kernel[i] > ONNX_MAX_STEP || w->strides[i] < 1 ||
            w->strides[i] > ONNX_MAX_STEP || w->dilations[i] < 1 || w->dilations[i] > ONNX_MAX_STEP)
            onnx_fail(n, E0203, "kernel sizes, strides and dilations must be from 1 to %d", ONNX_MAX_STEP);
    return !n->failed;
}

static void put_pads(Window *w, uint32_t i, int64_t total)
{
    const int64_t less = total / 2, more = total - less;
    w->pads[i] = w->at_begin ? more : less;
    w->pads[w->n + i] = w->at_begin ? less : more;
}

static int64_t extent(const Window *w, uint32_t i)
{
    return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

// SAME: the output has ceil(input / stride) elements. With stride 1 that needs no sizes.
static void resolve_same(OnnxNode *n, NodeId x, Window *w)
{
    for (uint32_t i = 0; w->is_same && i < w->n; i++) {
        int64_t total = extent(w, i) - 1;
        if (w->strides[i] != 1) {
            const int64_t in = onnx_const_dim(n, x, 2 + i);
            const int64_t out = in / w->strides[i] + (in % w->strides[i] != 0);
            total = (out - 1) * w->strides[i] + extent(w, i) - in;
        }
        put_pads(w, i, total > 0 ? total : 0);
    }
}

static void set_window(NodeBuild *b, const Window *w)
{
    node_ints(b, attr_find(b->op, "strides"), w->strides, w->n);
    node_ints(b, attr_find(b->op, "pads"), w->pads, 2 * w->n);
    node_ints(b, attr_find(b->op, "dilations"), w->dilations, w->n);
}

static NodeId conv(OnnxNode *n, OpId op, const NodeId *src, uint32_t count)
{
    const int64_t group = onnx_int(n, "group", 1);
    Window w;
    if (!read_window(n, src[0], src[1], &w))
        return 0;
    resolve_same(n, src[0], &w);
    if (n->failed)
        return 0;
    NodeBuild b = onnx_begin(n, op, src, count);
    set_window(&b, &w);
    node_int(&b, attr_find(op, "group"), group);
    return onnx_end(n, &b);
}

NodeId onnx_conv(OnnxNode *n, NodeId x, NodeId weight, NodeId bias)
{
    return conv(n, OP_conv, (const NodeId[]){x, weight, bias}, 3);
}

NodeId onnx_int_conv(OnnxNode *n, const NodeId *src)
{
    return conv(n, OP_int_conv, src, 5);
}

void onnx_import_conv(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), weight = onnx_src(n, 1), bias = onnx_opt(n, 2);
    const NodeId whole = qdq_conv(n, x, weight, bias);
    onnx_out(n, 0, whole ? whole : onnx_conv(n, x, weight, bias));
}

// Pads of a transposed convolution from the wanted output size: they are what is too much. What is missing is
// padded.
static void pads_for_size(OnnxNode *n, NodeId x, Window *w, int64_t *output_padding, const OnnxInts *size)
{
    for (uint32_t i = 0; i < w->n && !n->failed; i++) {
        const int64_t in = onnx_const_dim(n, x, 2 + i);
        const int64_t out = size->n ? size->v[size->n - w->n + i] : in * w->strides[i];
        if (!n->failed && (out < 0 || out > DIM_MAX_VALUE))
            onnx_fail(n, E0204, "the output cannot have %lld elements at spatial axis %u", (long long)out, i);
        if (n->failed)
            return;
        const int64_t total = (in - 1) * w->strides[i] + output_padding[i] + extent(w, i) - out;
        put_pads(w, i, total > 0 ? total : 0);
        output_padding[i] -= total < 0 ? total : 0;
    }
}

void onnx_import_conv_transpose(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), weight = onnx_src(n, 1), bias = onnx_opt(n, 2);
    const int64_t group = onnx_int(n, "group", 1);
    int64_t output_padding[MAX_SPATIAL];
    OnnxInts size;
    Window w;
    if (!read_window(n, x, weight, &w))
        return;
    read_list(n, "output_padding", output_padding, w.n, 0);
    const bool has_size = onnx_ints(n, "output_shape", &size);
    if (has_size && size.n != w.n && size.n != w.n + 2)
        onnx_fail(n, E0203, "attribute 'output_shape' has %u entries, expected %u", size.n, w.n);
    for (uint32_t i = 0; i < w.n; i++)
        if (!n->failed && (output_padding[i] < 0 || output_padding[i] > ONNX_MAX_STEP))
            onnx_fail(n, E0203, "attribute 'output_padding' has the entry %lld",
                      (long long)output_padding[i]);
    // With explicit sizes the odd element goes to the begin, unless the mode is SAME_UPPER.
    if (has_size && !w.is_same)
        w.at_begin = true;
    if (has_size || w.is_same)
        pads_for_size(n, x, &w, output_padding, &size);
    const OnnxTransposed window = {w.n, group, w.strides, w.dilations, w.pads, output_padding};
    const NodeId whole = qdq_conv_transpose(n, x, weight, bias, &window);
    if (whole)
        onnx_out(n, 0, whole);
    if (whole || n->failed)
        return;
    NodeBuild b = ONNX_BEGIN(n, OP_conv_transpose, x, weight, bias);
    set_window(&b, &w);
    node_ints(&b, A_conv_transpose_output_padding, output_padding, w.n);
    node_int(&b, A_conv_transpose_group, group);
    onnx_out(n, 0, onnx_end(n, &b));
}

// --- pools ---

// The result goes out, but that of argmax_pool is returned.
static NodeId import_pool(OnnxNode *n, OpId op, AttrId kernel, AttrId ceil_mode)
{
    NodeId x = onnx_src(n, 0);
    const DType type = onnx_dtype(n, x);
    const bool ceils = onnx_flag(n, "ceil_mode", 0);
    const bool counts_pad = op == OP_avg_pool && onnx_flag(n, "count_include_pad", 0);
    Window w;
    if (!read_window(n, x, 0, &w))
        return 0;
    resolve_same(n, x, &w);
    if (dtype_info[type].bytes == 1 && op != OP_max_pool) // floats hold these integers exactly
        x = onnx_cast(n, x, DTYPE_f32);
    if (n->failed)
        return 0;
    NodeBuild b = ONNX_BEGIN(n, op, x);
    node_ints(&b, kernel, w.kernel, w.n);
    set_window(&b, &w);
    node_int(&b, ceil_mode, ceils);
    if (op == OP_avg_pool)
        node_int(&b, A_avg_pool_count_include_pad, counts_pad);
    if (op == OP_argmax_pool)
        return onnx_end(n, &b);
    onnx_out(n, 0, onnx_cast(n, onnx_end(n, &b), type));
    return 0;
}

// Places in the planes as indices into the whole tensor; the planes themselves may be numbered by columns.
static NodeId flat_places(OnnxNode *n, NodeId place, NodeId x, bool by_columns)
{
    const Shape s = *onnx_shape(n, x);
    NodeId flat = place;
    int64_t plane = 1;
    for (uint32_t i = 2; i < s.rank && !n->failed; i++)
        plane *= onnx_const_dim(n, x, i);
    if (n->failed)
        return 0;
    int64_t rest = plane, step = 1;
    for (uint32_t i = 2; i < s.rank && by_columns; i++) {
        rest /= s.dim[i] > 0 ? s.dim[i] : 1;
        NodeId at = onnx_op2(n, OP_div, place, onnx_scalar(n, DTYPE_i64, (double)rest));
        at = onnx_op2(n, OP_rem, at, onnx_scalar(n, DTYPE_i64, (double)s.dim[i]));
        at = onnx_op2(n, OP_mul, at, onnx_scalar(n, DTYPE_i64, (double)step));
        flat = i == 2 ? at : onnx_op2(n, OP_add, flat, at);
        step *= s.dim[i];
    }
    const Shape planes = {.rank = s.rank, .dim = {s.dim[0], s.dim[1], 1, 1, 1, 1, 1, 1}};
    const NodeId first = onnx_op2(n, OP_mul, onnx_iota(n, dim_mul(n->graph->dims, s.dim[0], s.dim[1])),
                                  onnx_scalar(n, DTYPE_i64, (double)plane));
    return onnx_op2(n, OP_add, flat, onnx_reshape(n, first, &planes));
}

void onnx_import_max_pool(OnnxNode *n)
{
    const bool by_columns = onnx_flag(n, "storage_order", 0);
    import_pool(n, OP_max_pool, A_max_pool_kernel, A_max_pool_ceil_mode);
    if (n->failed || !onnx_wants(n, 1))
        return;
    const NodeId place = import_pool(n, OP_argmax_pool, A_argmax_pool_kernel, A_argmax_pool_ceil_mode);
    onnx_out(n, 1, flat_places(n, place, onnx_src(n, 0), by_columns));
}

// Elements go back to where they were the largest. With a size the result is that of the windows, at the
// begin of a larger one.
void onnx_import_max_unpool(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), places = onnx_src(n, 1);
    OnnxInts size = {0};
    Window w;
    if (!read_window(n, x, 0, &w) || (onnx_has(n, 2) && !onnx_src_ints(n, 2, &size)))
        return;
    Shape out = *onnx_shape(n, x);
    const bool has_size = onnx_has(n, 2);
    if (!shape_equal(&out, onnx_shape(n, places)) || (has_size && size.n != out.rank))
        onnx_fail(n, E0204, "needs indices with the shape of the input, and a size for each axis");
    int64_t count = 1, pads[2 * SHAPE_MAX_RANK] = {0};
    for (uint32_t i = 0; i < out.rank && !n->failed; i++) {
        out.dim[i] = onnx_const_dim(n, x, i);
        if (i >= 2)
            out.dim[i] =
                (out.dim[i] - 1) * w.strides[i - 2] + w.kernel[i - 2] - w.pads[i - 2] - w.pads[w.n + i - 2];
        pads[out.rank + i] = has_size ? size.v[i] - out.dim[i] : 0;
        if (!n->failed && (out.dim[i] < 0 || out.dim[i] > INT32_MAX ||
                           (has_size && (size.v[i] < 0 || size.v[i] > INT32_MAX))))
            onnx_fail(n, E0204, "the result has no possible size at axis %u", i);
        count = n->failed || count > INT32_MAX ? count : count * out.dim[i];
    }
    if (!n->failed && count > INT32_MAX)
        onnx_fail(n, E0004, "the result is too large");
    if (n->failed)
        return;
    const NodeId zeros = onnx_expand(n, onnx_scalar(n, onnx_dtype(n, x), 0), (const Dim[]){count}, 1);
    const NodeId flat = onnx_op3(n, OP_scatter, zeros, onnx_reshape_to(n, places, (const Dim[]){-1}, 1),
                                 onnx_reshape_to(n, x, (const Dim[]){-1}, 1));
    const NodeId y = onnx_reshape(n, flat, &out);
    if (n->failed)
        return;
    onnx_out(n, 0, has_size ? onnx_op_ints(n, OP_pad, y, A_pad_pads, pads, 2 * out.rank) : y);
}

void onnx_import_average_pool(OnnxNode *n)
{
    import_pool(n, OP_avg_pool, A_avg_pool_kernel, A_avg_pool_ceil_mode);
}

// --- norms of windows: (sum of |x|^p)^(1/p) ---

static NodeId power_of(OnnxNode *n, NodeId x, double p)
{
    const NodeId size = onnx_op1(n, OP_abs, x);
    return p >= 1 && p <= 1   ? size
           : p >= 2 && p <= 2 ? onnx_op1(n, OP_square, x)
                              : onnx_op2(n, OP_pow, size, onnx_scalar(n, onnx_dtype(n, x), p));
}

static NodeId root_of(OnnxNode *n, NodeId x, double p)
{
    return p >= 1 && p <= 1   ? x
           : p >= 2 && p <= 2 ? onnx_op1(n, OP_sqrt, x)
                              : onnx_op2(n, OP_pow, x, onnx_scalar(n, onnx_dtype(n, x), 1 / p));
}

// p was a fraction in opset 1.
static double read_p(OnnxNode *n)
{
    const double p = n->opset < 2 ? onnx_float(n, "p", 2) : (double)onnx_int(n, "p", 2);
    if (!(p > 0))
        onnx_fail(n, E0203, "attribute 'p' is %g, expected more than 0", p);
    return p;
}

// Windows that hang over the end are sums over more padding. The last one begins inside the input or the
// padding before it.
static void pad_for_ceil(OnnxNode *n, NodeId x, Window *w)
{
    for (uint32_t i = 0; i < w->n && !n->failed; i++) {
        const int64_t in = onnx_const_dim(n, x, 2 + i), last = in + w->pads[i] - 1;
        const int64_t room = in + w->pads[i] + w->pads[w->n + i] - extent(w, i);
        int64_t steps = room < 0 ? 0 : room / w->strides[i] + (room % w->strides[i] != 0);
        if (steps * w->strides[i] > last)
            steps--;
        if (room >= 0 && steps * w->strides[i] > room)
            w->pads[w->n + i] += steps * w->strides[i] - room;
    }
}

// The sums are a convolution of every plane with ones.
void onnx_import_lp_pool(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const double p = read_p(n);
    const bool ceils = onnx_flag(n, "ceil_mode", 0);
    Window w;
    if (!read_window(n, x, 0, &w))
        return;
    resolve_same(n, x, &w);
    if (ceils)
        pad_for_ceil(n, x, &w);
    const Shape s = *onnx_shape(n, x);
    Dim planes[SHAPE_MAX_RANK] = {dim_mul(n->graph->dims, s.dim[0], s.dim[1]), 1},
        ones[SHAPE_MAX_RANK] = {1, 1};
    int64_t taps = 1;
    for (uint32_t i = 0; i < w.n; i++) {
        planes[2 + i] = s.dim[2 + i];
        ones[2 + i] = w.kernel[i];
        taps = taps > ONNX_MAX_STEP ? taps : taps * w.kernel[i];
    }
    if (!n->failed && (taps > ONNX_MAX_STEP || !onnx_spend(n, taps)))
        onnx_fail(n, E0203, "the window has too many elements");
    const NodeId flat = onnx_reshape_to(n, power_of(n, x, p), planes, s.rank);
    if (n->failed)
        return;
    Tensor kernel = tensor_new(n->model->arena, onnx_dtype(n, x), s.rank, ones);
    for (int64_t i = 0; i < kernel.numel; i++)
        tensor_set_f64(&kernel, i, 1);
    const Shape kernel_shape = shape_of(s.rank, ones);
    NodeBuild b = ONNX_BEGIN(n, OP_conv, flat,
                             onnx_const(n, kernel.dtype, &kernel_shape, kernel.data,
                                        (uint64_t)kernel.numel * dtype_info[kernel.dtype].bytes));
    set_window(&b, &w);
    const NodeId sums = onnx_end(n, &b);
    Shape out = *onnx_shape(n, sums);
    out.dim[0] = s.dim[0];
    out.dim[1] = s.dim[1];
    onnx_out(n, 0, onnx_reshape(n, root_of(n, sums, p), &out));
}

void onnx_import_global_lp_pool(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const double p = read_p(n);
    int64_t axes[SHAPE_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 2; i < onnx_shape(n, x)->rank; i++)
        axes[count++] = i;
    if (!n->failed && count == 0)
        onnx_fail(n, E0204, "needs an input [N, C, spatial ...]");
    onnx_out(n, 0, root_of(n, onnx_reduce(n, OP_reduce_sum, power_of(n, x, p), axes, count), p));
}
