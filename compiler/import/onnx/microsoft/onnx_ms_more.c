// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft that fuse a convolution, product, bias or norm with what follows it.
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

// --- activations ---

typedef struct Activation {
    const char *name;
    OpId op;
    uint32_t n_params;
    double dflt[2];
} Activation;

static const Activation activations[] = {
    {"Relu", OP_relu, 0, {0}},
    {"Tanh", OP_tanh, 0, {0}},
    {"Sigmoid", OP_sigmoid, 0, {0}},
    {"Softsign", OP_softsign, 0, {0}},
    {"HardSwish", OP_hard_swish, 0, {0}},
    {"Gelu", OP_gelu_erf, 0, {0}},
    {"Elu", OP_elu, 1, {1}},
    {"LeakyRelu", OP_leaky_relu, 1, {(double)0.01f}},
    {"ThresholdedRelu", OP_thresholded_relu, 1, {1}},
    {"HardSigmoid", OP_hard_sigmoid, 2, {(double)0.2f, 0.5}},
    {"Clip", OP_clamp, 2, {-3.4028234663852886e38, 3.4028234663852886e38}},
};

static NodeId activate(OnnxNode *n, NodeId x, const char *name, const double *given, uint32_t n_given)
{
    rlx_assert(n_given <= 2);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        const Activation *a = &activations[i];
        double p[2];
        if (!str_equal(a->name, name))
            continue;
        for (uint32_t k = 0; k < 2; k++)
            p[k] = k < n_given ? given[k] : a->dflt[k];
        return a->n_params == 0 ? onnx_op1(n, a->op, x)
               : a->n_params == 1
                   ? onnx_op2(n, a->op, x, onnx_scalar_like(n, x, p[0]))
                   : onnx_op3(n, a->op, x, onnx_scalar_like(n, x, p[0]), onnx_scalar_like(n, x, p[1]));
    }
    if (*name)
        onnx_fail(n, E0206, "the activation '%s' is not supported", name);
    return x;
}

// --- products and convolutions ---

static NodeId made_by(OnnxNode *n, void (*import)(OnnxNode *n))
{
    if (n->n_out == 0)
        onnx_fail(n, E0202, "has no results");
    if (n->failed)
        return 0;
    import(n);
    return n->failed ? 0 : n->out[0].node;
}

void onnx_import_ms_fused_conv(OnnxNode *n)
{
    const char *name = onnx_str(n, "activation", "");
    const Onnx__AttributeProto *params = onnx_attr(n, "activation_params");
    const NodeId added = onnx_opt(n, 3);
    double p[2] = {0};
    const uint32_t count = !params ? 0 : params->n_floats < 2 ? (uint32_t)params->n_floats : 2;
    for (uint32_t i = 0; i < count; i++)
        p[i] = (double)params->floats[i];
    onnx_out(n, 0, activate(n, onnx_join(n, OP_add, made_by(n, onnx_import_conv), added), name, p, count));
}

void onnx_import_ms_fused_gemm(OnnxNode *n)
{
    const char *name = onnx_str(n, "activation", "");
    const double p[] = {onnx_float(n, "activation_alpha", 0), onnx_float(n, "activation_beta", 0)};
    const uint32_t count = onnx_has_attr(n, "activation_beta")    ? 2
                           : onnx_has_attr(n, "activation_alpha") ? 1
                                                                  : 0;
    onnx_ignore_attr(n, "activation_gamma"); // of activations that nobody fuses
    onnx_out(n, 0, activate(n, made_by(n, onnx_import_gemm), name, p, count));
}

// transBatch: the first axis stands behind the others of the batch, [M, batch..., K].
static NodeId batch_first(OnnxNode *n, NodeId x)
{
    const uint32_t rank = onnx_shape(n, x)->rank;
    int64_t perm[SHAPE_MAX_RANK] = {0};
    if (n->failed || rank < 3)
        return x;
    for (uint32_t i = 0; i + 2 < rank; i++)
        perm[i] = i + 1;
    perm[rank - 1] = rank - 1;
    return onnx_transpose(n, x, perm);
}

void onnx_import_ms_fused_matmul(OnnxNode *n)
{
    NodeId a = onnx_src(n, 0), b = onnx_src(n, 1);
    const bool trans_a = onnx_int(n, "transA", 0) != 0, trans_b = onnx_int(n, "transB", 0) != 0;
    const double alpha = onnx_float(n, "alpha", 1);
    if (onnx_int(n, "transBatchA", 0) != 0)
        a = batch_first(n, a);
    if (onnx_int(n, "transBatchB", 0) != 0)
        b = batch_first(n, b);
    // A vector has nothing to transpose.
    const NodeId y =
        onnx_matmul(n, a, b, trans_a && onnx_shape(n, a)->rank > 1, trans_b && onnx_shape(n, b)->rank > 1);
    onnx_out(n, 0, alpha >= 1 && alpha <= 1 ? y : onnx_op2(n, OP_mul, y, onnx_scalar_like(n, y, alpha)));
}

void onnx_import_ms_gemm_fast_gelu(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), w = onnx_src(n, 1);
    const NodeId y = onnx_join(n, OP_add, onnx_matmul(n, x, w, false, false), onnx_opt(n, 2));
    onnx_out(n, 0, onnx_op1(n, OP_gelu_tanh, y));
}

// --- bias ---

void onnx_import_ms_bias_add(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), bias = onnx_src(n, 1), skip = onnx_src(n, 2);
    onnx_out(n, 0, onnx_op2(n, OP_add, onnx_op2(n, OP_add, x, bias), skip));
}

// The first half of the last axis times gelu of the second.
void onnx_import_ms_bias_split_gelu(OnnxNode *n)
{
    const NodeId x = onnx_op2(n, OP_add, onnx_src(n, 0), onnx_src(n, 1));
    const uint32_t rank = onnx_shape(n, x)->rank;
    const int64_t width = rank ? onnx_const_dim(n, x, rank - 1) : 0;
    if (!n->failed && (rank == 0 || width % 2 != 0))
        onnx_fail(n, E0204, "needs an even last axis");
    if (n->failed)
        return;
    const NodeId left = onnx_slice(n, x, rank - 1, 0, width / 2, 1);
    const NodeId right = onnx_slice(n, x, rank - 1, width / 2, width, 1);
    onnx_out(n, 0, onnx_op2(n, OP_mul, left, onnx_op1(n, OP_gelu_erf, right)));
}

void onnx_import_ms_expand_dims(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    OnnxInts axis;
    uint32_t at = 0;
    if (!onnx_src_ints(n, 1, &axis))
        return;
    if (axis.n != 1)
        onnx_fail(n, E0203, "needs one axis, not %u", axis.n);
    else if (onnx_axis(n, axis.v[0], onnx_shape(n, x)->rank + 1, &at))
        onnx_out(n, 0, onnx_unsqueeze(n, x, (const int64_t[]){at}, 1));
}

// --- group norms ---

static NodeId per_channel(OnnxNode *n, NodeId v, uint32_t rank)
{
    rlx_assert(rank >= 3 && rank <= SHAPE_MAX_RANK);
    Shape s = {.rank = rank > 1 ? rank - 1 : 1, .dim = {-1, 1, 1, 1, 1, 1, 1, 1}};
    return onnx_reshape_to(n, v, s.dim, s.rank);
}

static NodeId group_norm(OnnxNode *n, NodeId x, NodeId scale, NodeId shift)
{
    const bool is_last = onnx_flag(n, "channels_last", 1), has_silu = onnx_int(n, "activation", 0) != 0;
    const int64_t groups = onnx_int(n, "groups", 0);
    const double epsilon = onnx_float(n, "epsilon", (double)1e-5f);
    if (is_last)
        x = onnx_move_channels(n, x, true);
    const Shape shape = *onnx_shape(n, x);
    if (!n->failed && (groups < 1 || shape.rank < 3))
        onnx_fail(n, E0203, "needs a positive 'groups' and an input [N, ..., C] or [N, C, ...]");
    const NodeId grouped = onnx_reshape_to(n, x, (const Dim[]){0, groups, -1}, 3);
    if (n->failed)
        return 0;
    NodeBuild b = ONNX_BEGIN(n, OP_layer_norm, grouped);
    node_int(&b, A_layer_norm_axis, 2);
    node_float(&b, A_layer_norm_epsilon, epsilon);
    NodeId y = onnx_reshape(n, onnx_end(n, &b), &shape);
    y = onnx_op2(n, OP_mul, y, onnx_cast(n, per_channel(n, scale, shape.rank), onnx_dtype(n, y)));
    y = onnx_op2(n, OP_add, y, onnx_cast(n, per_channel(n, shift, shape.rank), onnx_dtype(n, y)));
    y = has_silu ? onnx_op1(n, OP_silu, y) : y;
    return is_last ? onnx_move_channels(n, y, false) : y;
}

void onnx_import_ms_group_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), shift = onnx_src(n, 2);
    onnx_out(n, 0, group_norm(n, x, scale, shift));
}

// Result 1 is the sum that is normalised.
void onnx_import_ms_skip_group_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), shift = onnx_src(n, 2);
    NodeId skip = onnx_src(n, 3);
    const NodeId bias = onnx_opt(n, 4);
    const Shape s = *onnx_shape(n, skip);
    if (!n->failed && s.rank == 2) // [N, C]
        skip = onnx_reshape_to(n, skip, (const Dim[]){s.dim[0], 1, 1, s.dim[1]}, 4);
    const NodeId sum = onnx_join(n, OP_add, onnx_op2(n, OP_add, x, skip), bias);
    onnx_out(n, 0, group_norm(n, sum, scale, shift));
    onnx_out(n, 1, sum);
}
