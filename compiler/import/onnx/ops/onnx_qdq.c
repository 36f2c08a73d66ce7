// SPDX-License-Identifier: Apache-2.0
// Operators between DequantizeLinear and QuantizeLinear. Convolutions and products of dequantised bytes
// become exact sums of integers (int_conv) times one factor, the product of the scales. A QuantizeLinear
// behind them puts its scale into that factor. So it does with means of dequantised bytes. What such a chain
// computes are the real numbers that the graph describes, rounded where it quantises: between, there are at
// most two roundings of f32 where the operators one by one have three and more. A tie of the quantiser may
// therefore fall to the other side than with the operators one by one.
#include "compiler/import/onnx/onnx_quant.h"
#include "ir/graph/tensor.h"

#include <math.h>

enum { MAX_CHAIN = 12 };

static bool is_byte(DType t)
{
    return t == DTYPE_i8 || t == DTYPE_u8;
}

// --- what was dequantised ---

void qdq_remember(OnnxNode *n, NodeId y, const OnnxDequantised *from)
{
    const DType t = onnx_dtype(n, from->x);
    if (n->failed || onnx_dtype(n, y) != DTYPE_f32 || (!is_byte(t) && t != DTYPE_i32) || from->block != 0)
        return;
    if (!node_is_const(n->graph, from->scale) || (from->zero && !node_is_const(n->graph, from->zero)) ||
        onnx_dtype(n, from->scale) != DTYPE_f32)
        return;
    OnnxDequantised *kept = ARENA_NEW(n->model->arena, OnnxDequantised);
    *kept = *from;
    const uint64_t key[2] = {(uint64_t)(uintptr_t)n->graph, y};
    map_put(n->model->arena, &n->model->dequantised, key, sizeof key, (uint64_t)(uintptr_t)kept);
}

static const OnnxDequantised *find(OnnxNode *n, NodeId id)
{
    const uint64_t key[2] = {(uint64_t)(uintptr_t)n->graph, id};
    uint64_t v = 0;
    return id && map_get(&n->model->dequantised, key, sizeof key, &v) ? (const void *)(uintptr_t)v : NULL;
}

static int64_t count_of(OnnxNode *n, NodeId id)
{
    return shape_numel(onnx_shape(n, id));
}

static bool has_one_scale(OnnxNode *n, const OnnxDequantised *d)
{
    return d && is_byte(onnx_dtype(n, d->x)) && count_of(n, d->scale) == 1 &&
           (!d->zero || count_of(n, d->zero) == 1);
}

static bool is_view(const Node *v)
{
    return (op_info[v->op].flags & OPFLAG_VIEW) != 0;
}

// Bytes with one scale and one zero point, perhaps in another shape (Flatten, Transpose).
static const OnnxDequantised *find_input(OnnxNode *n, NodeId id)
{
    const OnnxDequantised *d = find(n, id);
    if (d || n->failed || !is_view(graph_node(n->graph, id)))
        return has_one_scale(n, d) ? d : NULL;
    d = find(n, graph_node(n->graph, id)->src[0]);
    if (!has_one_scale(n, d))
        return NULL;
    OnnxDequantised *shaped = ARENA_NEW(n->model->arena, OnnxDequantised);
    *shaped = *d;
    shaped->x = graph_clone_node(n->graph, n->graph, id, &d->x);
    n->failed = shaped->x == 0;
    return n->failed ? NULL : shaped;
}

// Constant bytes with scales and zero points of axis `axis`, or one for all.
static const OnnxDequantised *find_weight(OnnxNode *n, NodeId id, uint32_t axis)
{
    const OnnxDequantised *d = find(n, id);
    if (!d || !is_byte(onnx_dtype(n, d->x)) || !node_is_const(n->graph, d->x))
        return NULL;
    return has_one_scale(n, d) || d->axis == axis ? d : NULL;
}

// --- sums of integers ---

// The products of the scales of x and w, in f32, one per output channel or one for all.
static NodeId factors(OnnxNode *n, const OnnxDequantised *x, const OnnxDequantised *w, const Shape *s)
{
    const Tensor a = tensor_of_const(n->graph, x->scale), b = tensor_of_const(n->graph, w->scale);
    float *v = ARENA_ARRAY(n->model->arena, float, (uint64_t)b.numel + 1);
    for (int64_t i = 0; i < b.numel; i++)
        v[i] = (float)(tensor_get_f64(&a, 0) * tensor_get_f64(&b, i));
    const Shape one = {0};
    return onnx_const(n, DTYPE_f32, b.numel == 1 ? &one : s, v, (uint64_t)b.numel * sizeof *v);
}

// A zero point as int_conv takes it; none where all are 0.
static NodeId zero_of(OnnxNode *n, NodeId zero)
{
    return zero == 0 || quant_is_zero(n, zero) ? 0 : quant_along(n, zero, 1, 0);
}

// A bias in steps of the product of the scales, as QLinearConv has it; 0: it is none.
static NodeId integer_bias(OnnxNode *n, const OnnxDequantised *x, const OnnxDequantised *w, NodeId bias)
{
    const OnnxDequantised *d = find(n, bias);
    if (!d || zero_of(n, d->zero) || onnx_dtype(n, d->x) != DTYPE_i32 || onnx_shape(n, d->x)->rank != 1)
        return 0;
    const Tensor a = tensor_of_const(n->graph, x->scale), b = tensor_of_const(n->graph, w->scale);
    const Tensor s = tensor_of_const(n->graph, d->scale);
    for (int64_t i = 0; i < b.numel || i < s.numel; i++) {
        const double want = tensor_get_f64(&a, 0) * tensor_get_f64(&b, b.numel == 1 ? 0 : i);
        const double have = tensor_get_f64(&s, s.numel == 1 ? 0 : i);
        if ((b.numel != 1 && s.numel != 1 && b.numel != s.numel) || !(have >= want * (1 - 1e-6)) ||
            !(have <= want * (1 + 1e-6)))
            return 0;
    }
    return d->x;
}

NodeId qdq_conv(OnnxNode *n, NodeId x, NodeId weight, NodeId bias)
{
    const OnnxDequantised *a = find_input(n, x), *b = find_weight(n, weight, 0);
    if (n->failed || !a || !b)
        return 0;
    const uint32_t rank = onnx_shape(n, b->x)->rank;
    const Dim channels = onnx_shape(n, b->x)->dim[0];
    const NodeId whole = integer_bias(n, a, b, bias);
    const NodeId src[] = {a->x, b->x, whole, zero_of(n, a->zero), zero_of(n, b->zero)};
    const NodeId sum = onnx_int_conv(n, src);
    if (n->failed || rank < 3)
        return 0;
    const Shape s = {.rank = rank - 1, .dim = {channels, 1, 1, 1, 1, 1, 1}};
    const NodeId y = onnx_op2(n, OP_mul, onnx_cast(n, sum, DTYPE_f32), factors(n, a, b, &s));
    return bias && !whole ? onnx_op2(n, OP_add, y, onnx_reshape(n, bias, &s)) : y;
}

// Result q * stride + p of a transposed convolution, before its padding is cut, is the sum of x[q - t] *
// w[t * stride + p] over t. So the phases p are the channels of one convolution, which takes no more products
// where strides divide the kernel, and are put in their places at the end.
typedef struct QdqPhases {
    const OnnxTransposed *of;
    uint32_t rank; // of images
    int64_t taps[SHAPE_MAX_RANK], count, channels;
} QdqPhases;

static bool find_phases(OnnxNode *n, const OnnxTransposed *of, const Shape *w, QdqPhases *p)
{
    enum { MOST_AXES = 3, MOST = 1024 };
    *p = (QdqPhases){.of = of, .rank = of->axes + 2, .count = 1, .channels = w->dim[1]};
    if (n->failed || of->axes > MOST_AXES || of->group != 1 || !shape_is_const(w))
        return false;
    for (uint32_t i = 0; i < of->axes; i++) {
        const int64_t stride = of->strides[i], size = w->dim[i + 2];
        if (of->dilations[i] != 1 || stride < 1 || size % stride != 0 || stride > MOST / p->count ||
            of->pads[i] < 0 || of->pads[of->axes + i] < of->output_padding[i])
            return false;
        p->taps[i] = size / stride;
        p->count *= stride;
    }
    return true;
}

// Weights [C, O, kernel] as [phase and O, C, taps].
static NodeId weights_of_phases(OnnxNode *n, const QdqPhases *p, NodeId w)
{
    const uint32_t axes = p->of->axes;
    const Dim inputs = onnx_shape(n, w)->dim[0];
    Dim split[SHAPE_MAX_RANK] = {inputs, p->channels};
    Dim joined[SHAPE_MAX_RANK] = {p->count * p->channels, inputs};
    int64_t perm[SHAPE_MAX_RANK];
    perm[axes] = 1;
    perm[axes + 1] = 0;
    for (uint32_t i = 0; i < axes; i++) {
        split[2 + 2 * i] = joined[2 + i] = p->taps[i];
        split[3 + 2 * i] = p->of->strides[i];
        perm[i] = 3 + 2 * (int64_t)i;
        perm[axes + 2 + i] = 2 + 2 * (int64_t)i;
    }
    NodeId y = onnx_reshape_to(n, w, split, 2 + 2 * axes);
    for (uint32_t i = 0; i < axes; i++)
        y = onnx_slice(n, y, 2 + 2 * i, -1, INT64_MIN, -1);
    return onnx_reshape_to(n, onnx_transpose(n, y, perm), joined, p->rank);
}

// What each output channel has, once for all phases.
static NodeId along_phases(OnnxNode *n, const QdqPhases *p, NodeId v)
{
    if (!v || n->failed || count_of(n, v) != p->channels)
        return v; // one for all
    v = onnx_expand(n, v, (const Dim[]){p->count, p->channels}, 2);
    return onnx_reshape_to(n, v, (const Dim[]){p->count * p->channels}, 1);
}

// [N, phase and O, q ...] as images without their padding.
static NodeId place_phases(OnnxNode *n, const QdqPhases *p, NodeId y)
{
    const uint32_t axes = p->of->axes;
    const Shape from = *onnx_shape(n, y);
    DimTable *t = n->graph->dims;
    Dim split[SHAPE_MAX_RANK] = {from.dim[0]}, joined[SHAPE_MAX_RANK] = {from.dim[0], p->channels};
    int64_t perm[SHAPE_MAX_RANK] = {0, axes + 1};
    split[axes + 1] = p->channels;
    for (uint32_t i = 0; i < axes; i++) {
        split[1 + i] = p->of->strides[i];
        split[axes + 2 + i] = from.dim[2 + i];
        perm[2 + 2 * i] = axes + 2 + i;
        perm[3 + 2 * i] = 1 + i;
        joined[2 + i] = dim_mul(t, from.dim[2 + i], p->of->strides[i]);
    }
    y = onnx_transpose(n, onnx_reshape_to(n, y, split, p->rank + axes), perm);
    y = onnx_reshape_to(n, y, joined, p->rank);
    for (uint32_t i = 0; i < axes; i++) {
        const int64_t end = p->of->pads[axes + i] - p->of->output_padding[i];
        y = onnx_slice(n, y, 2 + i, p->of->pads[i], end == 0 ? INT64_MAX : -end, 1);
    }
    return y;
}

NodeId qdq_conv_transpose(OnnxNode *n, NodeId x, NodeId weight, NodeId bias, const OnnxTransposed *of)
{
    const OnnxDequantised *a = find_input(n, x), *b = find_weight(n, weight, 1);
    QdqPhases p;
    if (n->failed || !a || !b || !find_phases(n, of, onnx_shape(n, b->x), &p))
        return 0;
    const NodeId w = weights_of_phases(n, &p, b->x), w_zero = along_phases(n, &p, zero_of(n, b->zero));
    const NodeId sum_bias = along_phases(n, &p, integer_bias(n, a, b, bias));
    NodeBuild build = ONNX_BEGIN(n, OP_int_conv, a->x, w, sum_bias, zero_of(n, a->zero), w_zero);
    int64_t pads[2 * SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < 2 * of->axes; i++)
        pads[i] = p.taps[i % of->axes] - 1;
    node_ints(&build, A_int_conv_pads, pads, 2 * of->axes);
    const NodeId sum = onnx_cast(n, onnx_end(n, &build), DTYPE_f32);
    const Shape s = {.rank = p.rank - 1, .dim = {p.count * p.channels, 1, 1, 1}};
    const Shape one = {.rank = 1, .dim = {p.channels}};
    const NodeId factor = along_phases(n, &p, factors(n, a, b, &one));
    const bool is_one = n->failed || count_of(n, factor) != s.dim[0];
    NodeId y = onnx_op2(n, OP_mul, sum, is_one ? factor : onnx_reshape(n, factor, &s));
    if (bias && !sum_bias)
        y = onnx_op2(n, OP_add, y, onnx_reshape(n, along_phases(n, &p, bias), &s));
    return place_phases(n, &p, y);
}

NodeId quant_rows(OnnxNode *n, NodeId x, NodeId x_zero, NodeId w, NodeId w_zero, bool is_transposed)
{
    const Shape xs = *onnx_shape(n, x), ws = *onnx_shape(n, w);
    if (n->failed || !is_byte(onnx_dtype(n, x)) || !is_byte(onnx_dtype(n, w)) || ws.rank != 2 ||
        xs.rank < 1 || !node_is_const(n->graph, w))
        return 0;
    const Dim inner = ws.dim[is_transposed ? 1 : 0], columns = ws.dim[is_transposed ? 0 : 1];
    if (xs.dim[xs.rank - 1] != inner || !dim_is_const(inner) || inner < 1 || columns < 1)
        return 0;
    for (uint32_t i = 0; i + 1 < xs.rank; i++) // rows may not be none
        if (!dim_is_const(xs.dim[i]) || xs.dim[i] < 1)
            return 0;
    const NodeId rows = onnx_reshape_to(n, x, (const Dim[]){-1, inner, 1}, 3);
    const NodeId turned = is_transposed ? w : onnx_transpose(n, w, (const int64_t[]){1, 0});
    const NodeId weight = onnx_reshape_to(n, turned, (const Dim[]){columns, inner, 1}, 3);
    NodeBuild b = ONNX_BEGIN(n, OP_int_conv, rows, weight, 0, x_zero, w_zero);
    Shape out = xs;
    out.dim[out.rank - 1] = columns;
    return onnx_reshape(n, onnx_end(n, &b), &out);
}

NodeId qdq_matmul(OnnxNode *n, NodeId a, NodeId b, bool is_transposed)
{
    const OnnxDequantised *x = find_input(n, a), *w = find_weight(n, b, is_transposed ? 0 : 1);
    if (n->failed || !x || !w || onnx_shape(n, w->x)->rank != 2)
        return 0;
    const Dim columns = onnx_shape(n, w->x)->dim[is_transposed ? 0 : 1];
    const NodeId sum = quant_rows(n, x->x, zero_of(n, x->zero), w->x, zero_of(n, w->zero), is_transposed);
    if (n->failed || !sum)
        return 0;
    const Shape s = {.rank = 1, .dim = {columns}};
    return onnx_op2(n, OP_mul, onnx_cast(n, sum, DTYPE_f32), factors(n, x, w, &s));
}

// --- means ---

// A mean of dequantised bytes.
typedef struct QdqMean {
    Node node;
    const OnnxDequantised *from;
    int64_t terms;
} QdqMean;

static bool is_window_whole(const Node *v)
{
    bool is_padded = false;
    const AttrVal *pads = node_attr(v, A_avg_pool_pads);
    for (uint64_t i = 0; i < pads->len; i++)
        is_padded = is_padded || pads->u.ints[i] != 0;
    return node_get_int(v, A_avg_pool_ceil_mode) == 0 &&
           (!is_padded || node_get_int(v, A_avg_pool_count_include_pad) != 0);
}

// How many elements each mean is of; 0: they are not known, or not as many for all.
static int64_t terms_of(OnnxNode *n, const Node *v)
{
    const Shape *s = onnx_shape(n, v->src[0]);
    int64_t terms = 1;
    if (!shape_is_const(s) || shape_numel(v->shape) < 1)
        return 0;
    if (v->op != OP_avg_pool)
        return shape_numel(s) / shape_numel(v->shape);
    const AttrVal *kernel = node_attr(v, A_avg_pool_kernel);
    for (uint64_t i = 0; i < kernel->len; i++)
        if (__builtin_mul_overflow(terms, kernel->u.ints[i], &terms))
            return 0;
    return is_window_whole(v) ? terms : 0;
}

static bool is_mean(OnnxNode *n, const Node *v, QdqMean *m)
{
    if (v->op != OP_reduce_mean && v->op != OP_global_avg_pool && v->op != OP_avg_pool)
        return false;
    *m = (QdqMean){*v, find_input(n, v->src[0]), 0};
    m->terms = m->from ? terms_of(n, v) : 0;
    return 0 < m->terms && m->terms <= INT16_MAX;
}

// Windows with weights of 1.
static NodeId window_sums(OnnxNode *n, const QdqMean *m)
{
    static const AttrId from[] = {A_avg_pool_strides, A_avg_pool_pads, A_avg_pool_dilations};
    static const AttrId to[] = {A_int_conv_strides, A_int_conv_pads, A_int_conv_dilations};
    const AttrVal *kernel = node_attr(&m->node, A_avg_pool_kernel);
    Shape s = {.rank = onnx_shape(n, m->from->x)->rank, .dim = {onnx_shape(n, m->from->x)->dim[1], 1}};
    for (uint32_t i = 2; i < s.rank; i++)
        s.dim[i] = kernel->u.ints[i - 2];
    const NodeId one = onnx_scalar(n, DTYPE_i8, 1), ones = onnx_expand(n, one, s.dim, s.rank);
    NodeBuild b = ONNX_BEGIN(n, OP_int_conv, m->from->x, ones, 0, zero_of(n, m->from->zero));
    for (uint32_t i = 0; i < sizeof to / sizeof *to; i++) {
        const AttrVal *v = node_attr(&m->node, from[i]);
        node_ints(&b, to[i], v->u.ints, (uint32_t)v->len);
    }
    node_int(&b, A_int_conv_group, s.dim[0]);
    return onnx_end(n, &b);
}

static NodeId axis_sums(OnnxNode *n, const QdqMean *m)
{
    const bool is_pool = m->node.op == OP_global_avg_pool;
    int64_t spatial[SHAPE_MAX_RANK];
    const AttrVal *axes = is_pool ? NULL : node_attr(&m->node, A_reduce_mean_axes);
    const uint32_t rank = onnx_shape(n, m->from->x)->rank;
    for (uint32_t i = 2; i < rank; i++)
        spatial[i - 2] = i;
    const NodeId zero = quant_along(n, m->from->zero, 1, 0);
    NodeBuild b = ONNX_BEGIN(n, OP_reduce_sum, quant_centred(n, m->from->x, zero));
    if (is_pool)
        node_ints(&b, A_reduce_sum_axes, spatial, rank - 2);
    else
        node_ints(&b, A_reduce_sum_axes, axes->u.ints, (uint32_t)axes->len);
    node_int(&b, A_reduce_sum_keepdims, is_pool || node_get_int(&m->node, A_reduce_mean_keepdims));
    return onnx_end(n, &b);
}

// The mean divided by a scale: the sum of the bytes less their zero point, times one factor.
static NodeId mean_divided_by(OnnxNode *n, const QdqMean *m, double scale)
{
    const NodeId sum = m->node.op == OP_avg_pool ? window_sums(n, m) : axis_sums(n, m);
    const Tensor from = tensor_of_const(n->graph, m->from->scale);
    const double factor = tensor_get_f64(&from, 0) / ((double)m->terms * scale);
    return onnx_op2(n, OP_mul, onnx_cast(n, sum, DTYPE_f32), onnx_scalar(n, DTYPE_f32, factor));
}

// --- softmax ---

// Powers are in 1/2^POWER_BITS, shares of their sum in 1/2^SHARE_BITS.
enum { POWER_BITS = 30, SHARE_BITS = 31, SOFTMAX_MOST = 65536, BYTES = 256 };

static NodeId i64_number(OnnxNode *n, double v)
{
    return onnx_scalar(n, DTYPE_i64, v);
}

// Does the largest byte of a line stand for its largest number, and are all numbers finite?
static bool has_steps_up(OnnxNode *n, const OnnxDequantised *d)
{
    const Tensor scale = tensor_of_const(n->graph, d->scale);
    return tensor_get_f64(&scale, 0) >= 0 && isfinite(tensor_get_f64(&scale, 0));
}

// exp of the differences of bytes to the largest one of their line: -255 to 0, in steps of the scale.
static NodeId powers(OnnxNode *n, const OnnxDequantised *from, int64_t axis)
{
    const Tensor scale = tensor_of_const(n->graph, from->scale);
    int32_t *table = ARENA_ARRAY(n->model->arena, int32_t, BYTES);
    for (int64_t i = 0; i < BYTES; i++)
        table[i] = (int32_t)rint(exp((double)(i + 1 - BYTES) * tensor_get_f64(&scale, 0)) *
                                 (double)(1 << POWER_BITS));
    const Shape s = {.rank = 1, .dim = {BYTES}};
    const NodeId most = onnx_reduce(n, OP_reduce_max, from->x, &axis, 1);
    const NodeId step =
        onnx_op2(n, OP_sub, onnx_cast(n, from->x, DTYPE_i32), onnx_cast(n, most, DTYPE_i32));
    const NodeId index = onnx_op2(n, OP_add, step, onnx_scalar(n, DTYPE_i32, BYTES - 1));
    return onnx_gather(n, onnx_const(n, DTYPE_i32, &s, table, BYTES * sizeof *table), index, 0);
}

// The share of each, in steps of 1/factor, rounded. Divides once a line.
static NodeId shares(OnnxNode *n, NodeId power, int64_t axis, double factor)
{
    int more = 30;
    while (more > 0 && ldexp(factor, more) >= ldexp(1, 31))
        more--;
    const NodeId wide = onnx_cast(n, power, DTYPE_i64);
    const NodeId sum = onnx_reduce(n, OP_reduce_sum, wide, &axis, 1);
    const NodeId by = onnx_op2(n, OP_div, i64_number(n, ldexp(1, 2 * SHARE_BITS)), sum);
    const NodeId share =
        onnx_op2(n, OP_shift_right, onnx_op2(n, OP_mul, wide, by), i64_number(n, SHARE_BITS));
    const NodeId scaled = onnx_op2(n, OP_mul, share, i64_number(n, rint(ldexp(factor, more))));
    const NodeId moved = onnx_op2(n, OP_add, scaled, i64_number(n, ldexp(1, SHARE_BITS + more - 1)));
    const NodeId y = onnx_op2(n, OP_shift_right, moved, i64_number(n, SHARE_BITS + more));
    return onnx_cast(n, y, DTYPE_i32);
}

// Softmax of dequantised bytes, quantised as `type`: in integers, up to as many elements as microcontrollers
// have room for. 0: x is none, or its scale is below 0 or not finite.
static NodeId qdq_softmax(OnnxNode *n, NodeId x, NodeId scale, NodeId zero, DType type)
{
    double s = 0;
    if (n->failed || !is_byte(type) || !node_is_scalar_const(n->graph, scale, &s) || !(s >= 1e-6) || s > 1)
        return 0;
    const Node v = *graph_node(n->graph, x);
    if (is_view(&v)) {
        NodeId y = qdq_softmax(n, v.src[0], scale, zero, type);
        y = y ? graph_clone_node(n->graph, n->graph, x, &y) : 0;
        return y;
    }
    const OnnxDequantised *from = v.op == OP_softmax && v.dtype == DTYPE_f32 ? find_input(n, v.src[0]) : NULL;
    if (!from || !has_steps_up(n, from) || !shape_is_const(v.shape) || shape_numel(v.shape) > SOFTMAX_MOST)
        return 0;
    const int64_t axis = node_get_int(&v, A_softmax_axis);
    const NodeId y = shares(n, powers(n, from, axis), axis, 1 / s);
    const NodeId moved = zero ? onnx_op2(n, OP_add, y, onnx_cast(n, zero, DTYPE_i32)) : y;
    const NodeId least = onnx_scalar(n, DTYPE_i32, type == DTYPE_i8 ? INT8_MIN : 0);
    const NodeId most = onnx_scalar(n, DTYPE_i32, type == DTYPE_i8 ? INT8_MAX : UINT8_MAX);
    return onnx_cast(n, onnx_op3(n, OP_clamp, moved, least, most), type);
}

// --- what is quantised ---

// A value that comes to be divided by a scale: made of integers times constants, so that the division goes
// into these. divided_by below takes it apart in the same way.
static bool is_scaled(OnnxNode *n, NodeId id, uint32_t depth)
{
    const Node v = *graph_node(n->graph, id);
    QdqMean mean;
    if (depth == 0 || v.dtype != DTYPE_f32)
        return false;
    if (v.op == OP_const || is_mean(n, &v, &mean))
        return true;
    if (v.op == OP_relu || is_view(&v) || v.op == OP_max_pool)
        return is_scaled(n, v.src[0], depth - 1);
    if (v.op == OP_add)
        return is_scaled(n, v.src[0], depth - 1) && is_scaled(n, v.src[1], depth - 1);
    if (v.op == OP_clamp)
        return node_is_const(n->graph, v.src[1]) && node_is_const(n->graph, v.src[2]) &&
               is_scaled(n, v.src[0], depth - 1);
    if (v.op != OP_mul || !node_is_const(n->graph, v.src[1]))
        return false;
    const Node *cast = graph_node(n->graph, v.src[0]);
    return cast->op == OP_cast && dtype_info[graph_node(n->graph, cast->src[0])->dtype].cls == DCLASS_INT;
}

// A constant divided by the scale, rounded once.
static NodeId divided_const(OnnxNode *n, NodeId id, double scale)
{
    const Tensor t = tensor_of_const(n->graph, id);
    float *v = ARENA_ARRAY(n->model->arena, float, (uint64_t)t.numel + 1);
    for (int64_t i = 0; i < t.numel; i++)
        v[i] = (float)(tensor_get_f64(&t, i) / scale);
    const Shape s = *onnx_shape(n, id);
    return onnx_const(n, DTYPE_f32, &s, v, (uint64_t)t.numel * sizeof *v);
}

// Depth: that of is_scaled.
static NodeId divided_by(OnnxNode *n, NodeId id, double scale)
{
    const Node v = *graph_node(n->graph, id);
    NodeId src[3] = {0};
    QdqMean mean;
    double one = 0;
    if (n->failed)
        return 0;
    if (v.op == OP_const)
        return divided_const(n, id, scale);
    if (is_mean(n, &v, &mean))
        return mean_divided_by(n, &mean, scale);
    rlx_assert(v.n_src <= sizeof src / sizeof *src);
    for (uint32_t i = v.op == OP_mul; i < v.n_src; i++)
        src[i] = divided_by(n, v.src[i], scale);
    if (n->failed)
        return 0;
    if (v.op != OP_mul) {
        NodeId made = graph_clone_node(n->graph, n->graph, id, src);
        n->failed = made == 0;
        return made;
    }
    if (node_is_scalar_const(n->graph, src[1], &one) && one >= 1 && one <= 1)
        return v.src[0];
    return onnx_op2(n, OP_mul, v.src[0], src[1]);
}

// x / scale, where x is made of integers times constants: the scale goes into these. 0: it is not.
static NodeId qdq_steps(OnnxNode *n, NodeId x, NodeId scale)
{
    double s = 0;
    if (n->failed || onnx_dtype(n, x) != DTYPE_f32 || node_is_const(n->graph, x) ||
        !node_is_scalar_const(n->graph, scale, &s) || !(s > 0) || !(s < (double)INFINITY) ||
        !is_scaled(n, x, MAX_CHAIN))
        return 0;
    return divided_by(n, x, s);
}

// Steps as quant_saturate gives them, in front of views: what moves are bytes, and the kernel that makes the
// steps rounds them.
static NodeId saturated(OnnxNode *n, NodeId x, NodeId zero, DType type, bool saturate, uint32_t depth)
{
    if (n->failed || depth == 0 || !is_view(graph_node(n->graph, x)) || (zero && count_of(n, zero) != 1))
        return quant_saturate(n, x, zero, type, saturate);
    const NodeId y = saturated(n, graph_node(n->graph, x)->src[0], zero, type, saturate, depth - 1);
    const NodeId moved = n->failed ? 0 : graph_clone_node(n->graph, n->graph, x, &y);
    n->failed = moved == 0;
    return moved;
}

NodeId qdq_quantised(OnnxNode *n, NodeId x, NodeId scale, NodeId zero, DType type, bool saturate)
{
    const NodeId whole = qdq_softmax(n, x, scale, zero, type);
    if (whole || n->failed)
        return whole;
    const NodeId known = qdq_steps(n, x, scale);
    return known ? saturated(n, known, zero, type, saturate, MAX_CHAIN)
                 : quant_saturate(n, onnx_op2(n, OP_div, x, scale), zero, type, saturate);
}
