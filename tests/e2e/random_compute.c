// SPDX-License-Identifier: Apache-2.0
// Generators of ops that sum, search or normalise: reductions, products, convolutions, pools, norms,
// attention, recurrent layers. See random_graph.h.
#include "random_ops.h"

enum { MAX_SPATIAL = 3 };

// --- along axes ----------------------------------------------------------------------------------

static NodeId make_reduction(Gen *e, OpId op, AttrId axes, unsigned classes)
{
    NodeBuild b = gen_begin(e, op);
    const NodeId x = gen_pick(e, classes, 0, SHAPE_MAX_RANK);
    const uint32_t rank = gen_shape_of(e, x)->rank;
    int64_t list[SHAPE_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++) // parts of a long product overflow where the whole does not
        if (op == OP_reduce_prod ? n == 0 && gen_shape_of(e, x)->dim[i] <= 9 : gen_chance(e, 45))
            list[n++] = i;
    if (op == OP_reduce_prod && n == 0)
        return 0;
    node_src(&b, x);
    node_ints(&b, axes, list, n);
    node_int(&b, (AttrId)(axes + 1), gen_chance(e, 50)); // keepdims follows
    return node_end(&b);
}

#define REDUCTION(name, classes)                                                                             \
    static NodeId make_##name(Gen *e)                                                                        \
    {                                                                                                        \
        return make_reduction(e, OP_##name, A_##name##_axes, classes);                                       \
    }
REDUCTION(reduce_sum, GEN_NUMBER)
REDUCTION(reduce_mean, GEN_NUMBER)
REDUCTION(reduce_max, GEN_NUMBER)
REDUCTION(reduce_min, GEN_NUMBER)
REDUCTION(reduce_prod, GEN_NUMBER)
REDUCTION(reduce_l1, GEN_FLOAT)
REDUCTION(reduce_l2, GEN_FLOAT)
REDUCTION(reduce_logsumexp, GEN_FLOAT)
#undef REDUCTION

// An op with an axis and perhaps a flag.
static NodeId make_axis(Gen *e, OpId op, AttrId axis, AttrId flag, unsigned classes)
{
    NodeBuild b = gen_begin(e, op);
    const NodeId x = gen_pick(e, classes, 1, SHAPE_MAX_RANK);
    node_src(&b, x);
    node_int(&b, axis, gen_below(e, gen_shape_of(e, x)->rank));
    if (flag != ATTR_COUNT)
        node_int(&b, flag, gen_chance(e, 50));
    return node_end(&b);
}

static NodeId make_argmax(Gen *e)
{
    return make_axis(e, OP_argmax, A_argmax_axis, A_argmax_keepdims, GEN_NUMBER);
}

static NodeId make_argmin(Gen *e)
{
    return make_axis(e, OP_argmin, A_argmin_axis, A_argmin_keepdims, GEN_NUMBER);
}

static NodeId make_cumsum(Gen *e)
{
    return make_axis(e, OP_cumsum, A_cumsum_axis, gen_chance(e, 50) ? A_cumsum_exclusive : A_cumsum_reverse,
                     GEN_NUMBER);
}

static NodeId make_cummax(Gen *e)
{
    return make_axis(e, OP_cummax, A_cummax_axis, gen_chance(e, 50) ? A_cummax_exclusive : A_cummax_reverse,
                     GEN_NUMBER);
}

// The product is of few elements, as that of reduce_prod.
static NodeId make_cumprod(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_cumprod);
    const NodeId x = gen_pick(e, GEN_NUMBER, 1, SHAPE_MAX_RANK);
    const uint32_t axis = gen_below(e, gen_shape_of(e, x)->rank);
    if (gen_shape_of(e, x)->dim[axis] > 9)
        return 0;
    node_src(&b, x);
    node_int(&b, A_cumprod_axis, axis);
    node_int(&b, A_cumprod_exclusive, gen_chance(e, 50));
    node_int(&b, A_cumprod_reverse, gen_chance(e, 50));
    return node_end(&b);
}

static NodeId make_softmax(Gen *e)
{
    return make_axis(e, OP_softmax, A_softmax_axis, ATTR_COUNT, GEN_FLOAT);
}

static NodeId make_log_softmax(Gen *e)
{
    return make_axis(e, OP_log_softmax, A_log_softmax_axis, ATTR_COUNT, GEN_FLOAT);
}

static NodeId make_norm(Gen *e, OpId op, AttrId axis_id, AttrId epsilon, uint32_t max_operands)
{
    NodeBuild b = gen_begin(e, op);
    const NodeId x = gen_pick(e, GEN_FLOAT, 1, 5);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    const uint32_t axis = gen_chance(e, 60) ? s.rank - 1 : gen_below(e, s.rank);
    node_src(&b, x);
    for (uint32_t i = 1; i < max_operands; i++)
        node_src(&b, gen_chance(e, 30) ? 0 : gen_value(e, t, s.rank - axis, s.dim + axis));
    node_int(&b, axis_id, axis);
    node_float(&b, epsilon, 0.01); // a line of equal numbers, divided by sqrt(epsilon), magnifies rounding
    return node_end(&b);
}

static NodeId make_layer_norm(Gen *e)
{
    return make_norm(e, OP_layer_norm, A_layer_norm_axis, A_layer_norm_epsilon, 3);
}

static NodeId make_rms_norm(Gen *e)
{
    return make_norm(e, OP_rms_norm, A_rms_norm_axis, A_rms_norm_epsilon, 2);
}

static NodeId make_batch_norm(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_batch_norm);
    const NodeId x = gen_pick(e, GEN_FLOAT, 2, 5);
    const DType t = gen_type_of(e, x);
    const int64_t channels[1] = {gen_shape_of(e, x)->dim[1]};
    const bool is_special = e->is_special;
    e->is_special = false; // it becomes x * k + c, which infinite statistics tell from (x - mean) * k
    node_src(&b, x);
    for (uint32_t i = 1; i < 5; i++) {
        const NodeId v = gen_chance(e, 70) ? gen_const(e, t, 1, channels) : gen_leaf(e, t, 1, channels);
        node_src(&b, i == 4 ? graph_op1(e->g, OP_square, v) : v);
    }
    e->is_special = is_special;
    node_float(&b, A_batch_norm_epsilon, 0.01);
    return node_end(&b);
}

// --- products ------------------------------------------------------------------------------------

static NodeId make_matmul(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_matmul);
    const NodeId x = gen_pick(e, GEN_NUMBER, 1, 4);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    const bool swap_a = s.rank >= 2 && gen_chance(e, 20), swap_b = gen_chance(e, 30),
               is_first = gen_chance(e, 70);
    const int64_t inner = s.dim[is_first != swap_a || s.rank == 1 ? s.rank - 1 : s.rank - 2],
                  outer = gen_size(e);
    int64_t dim[SHAPE_MAX_RANK];
    uint32_t rank = 0;
    if (s.rank > 2 && gen_chance(e, 50))
        for (uint32_t i = 0; i + 2 < s.rank; i++)
            dim[rank++] = gen_chance(e, 20) ? 1 : s.dim[i];
    const bool inner_first = is_first != swap_b;
    if (rank == 0 && gen_chance(e, 15)) {
        dim[rank++] = inner;
    } else {
        dim[rank++] = inner_first ? inner : outer;
        dim[rank++] = inner_first ? outer : inner;
    }
    const NodeId y = gen_value(e, t, rank, dim);
    node_src(&b, is_first ? x : y);
    node_src(&b, is_first ? y : x);
    node_int(&b, A_matmul_transpose_a, is_first ? swap_a : swap_b && rank > 1);
    node_int(&b, A_matmul_transpose_b, is_first ? swap_b && rank > 1 : swap_a);
    return node_end(&b);
}

static NodeId make_linear(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_linear);
    const NodeId x = gen_pick(e, GEN_FLOAT, 1, 4);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    const int64_t inner = s.dim[s.rank - 1], outer = gen_size(e);
    const bool swap = gen_chance(e, 50);
    node_src(&b, x);
    node_src(&b,
             gen_value(e, t, 2, swap ? (const int64_t[]){outer, inner} : (const int64_t[]){inner, outer}));
    if (gen_chance(e, 60))
        node_src(&b, gen_value(e, t, 1, &outer));
    node_int(&b, A_linear_transpose_b, swap);
    return node_end(&b);
}

// The matrices are tanh(x) + 4 * permutation, up to 4 x 4: elimination needs swaps, and nothing cancels.
static NodeId make_det(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_det);
    const DType t = gen_dtype(e, GEN_FLOAT);
    const int64_t n = gen_range(e, !gen_chance(e, 10), 4), shift = gen_range(e, 0, n - 1);
    const int64_t dim[] = {gen_range(e, 1, 3), n, n};
    const uint32_t drop = gen_below(e, 2);
    Tensor large = tensor_new(e->arena, t, 2, dim + 1);
    for (int64_t i = 0; i < n; i++)
        tensor_set_f64(&large, i * n + (i + shift) % n, 4);
    const NodeId small = graph_op1(e->g, OP_tanh, gen_value(e, t, 3 - drop, dim + drop));
    node_src(&b, graph_op2(e->g, OP_add, small, gen_given(e, large)));
    return node_end(&b);
}

// --- windows -------------------------------------------------------------------------------------

typedef struct Windows {
    int64_t kernel[MAX_SPATIAL], strides[MAX_SPATIAL], pads[2 * MAX_SPATIAL], dilations[MAX_SPATIAL];
} Windows;

// Windows that fit into the sizes with their padding. max_pad: of a pool, what its window allows.
static Windows make_windows(Gen *e, const Shape *x, bool is_pool)
{
    Windows w;
    const uint32_t n = x->rank - 2;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t size = x->dim[i + 2];
        w.kernel[i] = gen_range(e, 1, gen_chance(e, 80) ? 3 : 5);
        w.strides[i] = gen_chance(e, 60) ? 1 : gen_range(e, 2, 3);
        w.dilations[i] = gen_chance(e, 80) ? 1 : 2;
        const int64_t extent = w.dilations[i] * (w.kernel[i] - 1) + 1, most = is_pool ? extent - 1 : extent;
        w.pads[i] = gen_chance(e, 40) ? 0 : gen_range(e, 0, most < 3 ? most : 3);
        w.pads[i + n] = gen_chance(e, 60) ? w.pads[i] : gen_range(e, 0, most < 3 ? most : 3);
        if (size + w.pads[i] + w.pads[i + n] < extent)
            w.kernel[i] = 1, w.pads[i] = 0, w.pads[i + n] = 0;
    }
    return w;
}

// 1, all, or a number between that divides.
static int64_t pick_group(Gen *e, int64_t channels)
{
    int64_t g = gen_chance(e, 50) ? 1 : gen_chance(e, 50) ? channels : gen_range(e, 1, channels);
    while (g > 1 && channels % g != 0)
        g--;
    return g < 1 ? 1 : g;
}

// What Winograd's schedule takes: 3x3, stride 1, constant weights, channels that fill vectors and that are
// next to each other, as between the layers of a network.
static NodeId make_wide_conv(Gen *e)
{
    const int64_t x_dim[] = {gen_range(e, 1, 2), gen_range(e, 3, 9), gen_range(e, 3, 9),
                             gen_range(e, 16, 20)};
    const int64_t w_dim[] = {gen_range(e, 16, 20), x_dim[3], 3, 3};
    const int64_t perm[] = {0, 3, 1, 2};
    int64_t pads[4];
    for (uint32_t i = 0; i < 4; i++)
        pads[i] = gen_range(e, 0, 1);
    NodeBuild t = gen_begin(e, OP_transpose);
    node_src(&t, gen_value(e, DTYPE_f32, 4, x_dim));
    node_ints(&t, A_transpose_perm, perm, 4);
    const NodeId x = node_end(&t);
    NodeBuild b = gen_begin(e, OP_conv);
    node_src(&b, x);
    node_src(&b, gen_const(e, DTYPE_f32, 4, w_dim));
    if (gen_chance(e, 60))
        node_src(&b, gen_value(e, DTYPE_f32, 1, w_dim));
    node_ints(&b, A_conv_pads, pads, 4);
    return node_end(&b);
}

static NodeId make_conv(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_conv);
    const NodeId x = gen_pick(e, GEN_FLOAT, 3, 5);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    const Windows w = make_windows(e, &s, false);
    const uint32_t n = s.rank - 2;
    const int64_t group = pick_group(e, s.dim[1]), per_group = s.dim[1] / group;
    const int64_t out = group * gen_range(e, 1, group == 1 ? 20 : 3);
    int64_t dim[SHAPE_MAX_RANK] = {out, per_group};
    for (uint32_t i = 0; i < n; i++)
        dim[2 + i] = w.kernel[i];
    node_src(&b, x);
    node_src(&b, gen_chance(e, 80) ? gen_const(e, t, s.rank, dim) : gen_value(e, t, s.rank, dim));
    if (gen_chance(e, 60))
        node_src(&b, gen_value(e, t, 1, &out));
    node_ints(&b, A_conv_strides, w.strides, n);
    node_ints(&b, A_conv_pads, w.pads, 2 * n);
    node_ints(&b, A_conv_dilations, w.dilations, n);
    node_int(&b, A_conv_group, group);
    node_int(&b, A_conv_shuffle, gen_range(e, 0, 3) == 0 ? pick_group(e, s.dim[1]) : 1);
    return node_end(&b);
}

// Weights of the whole range; zero points of the input, known or not, and of the weights.
static NodeId make_int_conv(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_int_conv);
    const NodeId like = gen_pick(e, GEN_FLOAT, 3, 5);
    const Shape s = *gen_shape_of(e, like);
    const Windows w = make_windows(e, &s, false);
    const uint32_t n = s.rank - 2;
    const DType xt = gen_chance(e, 70) ? DTYPE_u8 : DTYPE_i8, wt = gen_chance(e, 70) ? DTYPE_i8 : DTYPE_u8;
    const int64_t group = pick_group(e, s.dim[1]), out = group * gen_range(e, 1, group == 1 ? 40 : 6);
    int64_t dim[SHAPE_MAX_RANK] = {out, s.dim[1] / group};
    for (uint32_t i = 0; i < n; i++)
        dim[2 + i] = w.kernel[i];
    const int64_t x_low = xt == DTYPE_u8 ? 0 : -128, w_low = wt == DTYPE_u8 ? 0 : -128;
    node_src(&b, gen_value(e, xt, s.rank, s.dim));
    node_src(&b, gen_chance(e, 85) ? gen_table(e, wt, s.rank, dim, w_low, w_low + 255)
                                   : gen_value(e, wt, s.rank, dim));
    node_src(&b, gen_chance(e, 50) ? gen_value(e, DTYPE_i32, 1, &out) : 0);
    node_src(&b, gen_chance(e, 30)   ? 0
                 : gen_chance(e, 80) ? gen_table(e, xt, 0, NULL, x_low, x_low + 255)
                                     : gen_value(e, xt, 0, NULL));
    if (gen_chance(e, 20))
        node_src(&b, gen_table(e, wt, 1, &out, w_low, w_low + 255));
    node_ints(&b, A_int_conv_strides, w.strides, n);
    node_ints(&b, A_int_conv_pads, w.pads, 2 * n);
    node_ints(&b, A_int_conv_dilations, w.dilations, n);
    node_int(&b, A_int_conv_group, group);
    return node_end(&b);
}

static NodeId make_conv_transpose(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_conv_transpose);
    const NodeId x = gen_pick(e, GEN_FLOAT, 3, 5);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    Windows w = make_windows(e, &s, true);
    const uint32_t n = s.rank - 2;
    const int64_t group = pick_group(e, s.dim[1]), per_group = gen_range(e, 1, 5), out = group * per_group;
    int64_t dim[SHAPE_MAX_RANK] = {s.dim[1], per_group}, extra[MAX_SPATIAL];
    for (uint32_t i = 0; i < n; i++) {
        dim[2 + i] = w.kernel[i];
        extra[i] = gen_range(e, 0, w.strides[i] - 1);
    }
    node_src(&b, x);
    node_src(&b, gen_chance(e, 80) ? gen_const(e, t, s.rank, dim) : gen_value(e, t, s.rank, dim));
    if (gen_chance(e, 60))
        node_src(&b, gen_value(e, t, 1, &out));
    node_ints(&b, A_conv_transpose_strides, w.strides, n);
    node_ints(&b, A_conv_transpose_pads, w.pads, 2 * n);
    node_ints(&b, A_conv_transpose_dilations, w.dilations, n);
    node_ints(&b, A_conv_transpose_output_padding, extra, n);
    node_int(&b, A_conv_transpose_group, group);
    return node_end(&b);
}

// The attributes of all pools stand in one order: kernel, strides, pads, dilations, ceil_mode.
static NodeBuild begin_pool(Gen *e, OpId op, AttrId kernel, NodeId x)
{
    NodeBuild b = gen_begin(e, op);
    const Shape s = *gen_shape_of(e, x);
    const Windows w = make_windows(e, &s, true);
    const uint32_t n = s.rank - 2;
    node_src(&b, x);
    node_ints(&b, kernel, w.kernel, n);
    node_ints(&b, (AttrId)(kernel + 1), w.strides, n);
    node_ints(&b, (AttrId)(kernel + 2), w.pads, 2 * n);
    node_ints(&b, (AttrId)(kernel + 3), w.dilations, n);
    node_int(&b, (AttrId)(kernel + 4), gen_chance(e, 30));
    return b;
}

static NodeId make_max_pool(Gen *e)
{
    NodeBuild b = begin_pool(e, OP_max_pool, A_max_pool_kernel, gen_pick(e, GEN_FLOAT, 3, 5));
    return node_end(&b);
}

// On a leaf: which of elements that nearly tie is found would depend on rounding.
static NodeId make_argmax_pool(Gen *e)
{
    int64_t dim[2 + MAX_SPATIAL] = {gen_range(e, 1, 2), gen_range(e, 1, 4)};
    const uint32_t rank = 3 + gen_below(e, MAX_SPATIAL);
    for (uint32_t i = 2; i < rank; i++)
        dim[i] = gen_range(e, 1, rank == 5 ? 5 : 9);
    const NodeId x = gen_leaf(e, gen_dtype(e, GEN_FLOAT), rank, dim);
    NodeBuild b = begin_pool(e, OP_argmax_pool, A_argmax_pool_kernel, x);
    return node_end(&b);
}

static NodeId make_avg_pool(Gen *e)
{
    NodeBuild b = begin_pool(e, OP_avg_pool, A_avg_pool_kernel, gen_pick(e, GEN_FLOAT, 3, 5));
    node_int(&b, A_avg_pool_count_include_pad, gen_chance(e, 50));
    return node_end(&b);
}

static NodeId make_global_avg_pool(Gen *e)
{
    return graph_op1(e->g, OP_global_avg_pool, gen_pick(e, GEN_FLOAT, 3, 5));
}

static NodeId make_global_max_pool(Gen *e)
{
    return graph_op1(e->g, OP_global_max_pool, gen_pick(e, GEN_FLOAT, 3, 5));
}

// --- sequences -----------------------------------------------------------------------------------

static NodeId make_attention(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_attention);
    const NodeId q = gen_pick(e, GEN_FLOAT, 3, 4);
    const DType t = gen_type_of(e, q);
    Shape s = *gen_shape_of(e, q);
    const uint32_t n = s.rank;
    const int64_t queries = s.dim[n - 2], keys = gen_chance(e, 30) ? queries : gen_size(e);
    s.dim[n - 3] = gen_chance(e, 20) ? 1 : s.dim[n - 3];
    s.dim[n - 2] = keys;
    node_src(&b, q);
    const DType cache = t == DTYPE_f32 && gen_chance(e, 30) ? gen_chance(e, 50) ? DTYPE_f16 : DTYPE_bf16 : t;
    node_src(&b, gen_value(e, cache, n, s.dim));
    s.dim[n - 1] = gen_chance(e, 50) ? s.dim[n - 1] : gen_range(e, 1, 20);
    const bool is_special = e->is_special;
    e->is_special = false; // a weight below what f32 holds makes 0 of an infinite value, or hides it
    node_src(&b, is_special ? gen_leaf(e, cache, n, s.dim) : gen_value(e, cache, n, s.dim));
    e->is_special = is_special;
    if (gen_chance(e, 40))
        node_src(&b, gen_value(e, gen_chance(e, 50) ? DTYPE_bool : t, 2, (const int64_t[]){queries, keys}));
    node_int(&b, A_attention_causal, gen_chance(e, 40));
    node_int(&b, A_attention_left, gen_chance(e, 30) ? gen_range(e, 0, 9) : -1);
    node_int(&b, A_attention_right, gen_chance(e, 20) ? gen_range(e, 0, 9) : -1);
    node_float(&b, A_attention_softcap, gen_chance(e, 20) ? 2 : 0);
    node_int(&b, A_attention_guard, gen_chance(e, 20));
    return node_end(&b);
}

static NodeId make_rope(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_rope);
    NodeId x = gen_pick(e, GEN_FLOAT, 2, 4);
    const DType t = gen_type_of(e, x);
    Shape s = *gen_shape_of(e, x);
    if (s.dim[s.rank - 1] % 2 != 0) {
        s.dim[s.rank - 1] = gen_range(e, 1, 9) * 2;
        x = gen_value(e, t, s.rank, s.dim);
    }
    const int64_t size = s.dim[s.rank - 1], dims = gen_chance(e, 50) ? 2 * gen_range(e, 1, size / 2) : size;
    const bool is_interleaved = gen_chance(e, 50), has_theta = gen_chance(e, 40);
    const bool has_places = has_theta || gen_chance(e, 40);
    s.dim[s.rank - 1] = dims / 2;
    const int64_t table[2] = {has_places ? gen_range(e, 1, 9) : s.dim[s.rank - 2], dims / 2};
    node_src(&b, x);
    for (uint32_t i = 0; i < 2; i++)
        node_src(&b, has_theta ? 0 : gen_value(e, t, 2, table));
    node_src(&b, has_places ? gen_leaf(e, DTYPE_i32, 1, s.dim + s.rank - 2) : 0);
    node_int(&b, A_rope_interleaved, is_interleaved);
    node_float(&b, A_rope_theta, has_theta ? 100 : 0);
    node_int(&b, A_rope_dims, dims < size ? dims : 0);
    if (!is_interleaved && gen_chance(e, 30))
        node_int(&b, A_rope_distance, gen_range(e, dims / 2, size - dims / 2));
    return node_end(&b);
}

// An op of recurrent layers: gates of its weights, and its attributes.
typedef struct Recurrent {
    OpId op;
    int64_t gates;
    AttrId direction, batch_major, clip;
} Recurrent;

static void set_recurrent(Gen *e, NodeBuild *b, const Recurrent *r, uint32_t direction, bool batch_major)
{
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    node_str(b, r->direction, directions[direction]);
    node_int(b, r->batch_major, batch_major);
    node_float(b, r->clip, gen_chance(e, 80) ? 0 : 0.5);
    if (r->op == OP_gru)
        node_int(b, A_gru_reset_after, gen_chance(e, 50));
    else if (r->op == OP_rnn)
        node_str(b, A_rnn_activation, gen_chance(e, 50) ? "tanh" : "relu");
}

static NodeId make_recurrent(Gen *e, const Recurrent *r)
{
    NodeBuild b = gen_begin(e, r->op);
    const NodeId x = gen_pick(e, GEN_FLOAT, 3, 3);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    const uint32_t direction = gen_below(e, 3);
    const bool batch_major = gen_chance(e, 30);
    const int64_t d = direction == 2 ? 2 : 1, h = gen_range(e, 1, 6), batch = s.dim[batch_major ? 0 : 1];
    const int64_t state[3] = {batch_major ? batch : d, batch_major ? d : batch, h}, gates = r->gates * h;
    node_src(&b, x);
    node_src(&b, gen_const(e, t, 3, (const int64_t[]){d, gates, s.dim[2]}));
    node_src(&b, gen_const(e, t, 3, (const int64_t[]){d, gates, h}));
    node_src(&b, gen_chance(e, 40) ? 0 : gen_const(e, t, 2, (const int64_t[]){d, 2 * gates}));
    node_src(&b, gen_chance(e, 50) ? 0 : gen_value(e, t, 3, state));
    if (r->op == OP_lstm) {
        node_src(&b, gen_chance(e, 50) ? 0 : gen_value(e, t, 3, state));
        node_src(&b, gen_chance(e, 70) ? 0 : gen_value(e, t, 2, (const int64_t[]){d, 3 * h}));
    }
    set_recurrent(e, &b, r, direction, batch_major);
    return node_end(&b);
}

static NodeId make_lstm(Gen *e)
{
    return make_recurrent(e, &(Recurrent){OP_lstm, 4, A_lstm_direction, A_lstm_batch_major, A_lstm_clip});
}

static NodeId make_gru(Gen *e)
{
    return make_recurrent(e, &(Recurrent){OP_gru, 3, A_gru_direction, A_gru_batch_major, A_gru_clip});
}

static NodeId make_rnn(Gen *e)
{
    return make_recurrent(e, &(Recurrent){OP_rnn, 1, A_rnn_direction, A_rnn_batch_major, A_rnn_clip});
}

const GenOp gen_compute_ops[] = {
    {OP_reduce_sum, 4, make_reduce_sum},
    {OP_reduce_mean, 4, make_reduce_mean},
    {OP_reduce_max, 3, make_reduce_max},
    {OP_reduce_min, 3, make_reduce_min},
    {OP_reduce_prod, 2, make_reduce_prod},
    {OP_reduce_l1, 1, make_reduce_l1},
    {OP_reduce_l2, 1, make_reduce_l2},
    {OP_reduce_logsumexp, 1, make_reduce_logsumexp},
    {OP_argmax, 2, make_argmax},
    {OP_argmin, 2, make_argmin},
    {OP_cumsum, 3, make_cumsum},
    {OP_cumprod, 3, make_cumprod},
    {OP_cummax, 3, make_cummax},
    {OP_softmax, 4, make_softmax},
    {OP_log_softmax, 2, make_log_softmax},
    {OP_layer_norm, 4, make_layer_norm},
    {OP_rms_norm, 3, make_rms_norm},
    {OP_batch_norm, 3, make_batch_norm},
    {OP_matmul, 8, make_matmul},
    {OP_linear, 3, make_linear},
    {OP_det, 2, make_det},
    {OP_conv, 9, make_conv},
    {OP_conv, 25, make_wide_conv},
    {OP_conv_transpose, 3, make_conv_transpose},
    {OP_int_conv, 6, make_int_conv},
    {OP_max_pool, 4, make_max_pool},
    {OP_argmax_pool, 2, make_argmax_pool},
    {OP_avg_pool, 4, make_avg_pool},
    {OP_global_avg_pool, 1, make_global_avg_pool},
    {OP_global_max_pool, 1, make_global_max_pool},
    {OP_attention, 3, make_attention},
    {OP_rope, 2, make_rope},
    {OP_lstm, 3, make_lstm},
    {OP_gru, 2, make_gru},
    {OP_rnn, 1, make_rnn},
};
const uint32_t gen_n_compute_ops = sizeof gen_compute_ops / sizeof *gen_compute_ops;
