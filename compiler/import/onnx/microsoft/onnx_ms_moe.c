// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts of com.microsoft: MoE with weights of floats, QMoE with weights of few bits in blocks,
// which become floats here. The router's probabilities are operands; what an expert computes is made of
// grouped_matmul, one for each product. Weights are [experts, out, in].
#include "compiler/import/onnx/onnx_quant.h"

#include <math.h>

typedef struct Product {
    NodeId w, bias; // bias 0: none; w 0: there is no such product
} Product;

typedef struct Mixture {
    NodeId x, index, share; // [tokens, in], [tokens, k], [tokens, k]
    Product fc[3];
} Mixture;

// --- the router ---

static NodeId sum_of_last(OnnxNode *n, NodeId x)
{
    const int64_t last = (int64_t)onnx_shape(n, x)->rank - 1;
    return onnx_reduce(n, OP_reduce_sum, x, &last, 1);
}

// Values [tokens, experts] at the chosen experts.
static NodeId at_chosen(OnnxNode *n, NodeId values, NodeId index)
{
    const Shape s = *onnx_shape(n, values);
    if (!n->failed && s.rank != 2)
        onnx_fail(n, E0204, "the router's weights must be [tokens, experts]");
    if (n->failed)
        return 0;
    const NodeId column = onnx_unsqueeze(n, index, (const int64_t[]){2}, 1),
                 all = onnx_unsqueeze(n, values, (const int64_t[]){1}, 1);
    const NodeId is_it = onnx_op2(n, OP_eq, column, onnx_iota(n, s.dim[s.rank - 1]));
    const NodeId picked = onnx_op3(n, OP_where, is_it, all, onnx_scalar_like(n, values, 0));
    return onnx_squeeze(n, sum_of_last(n, picked), (const int64_t[]){2}, 1);
}

// MoE: the largest probabilities; QMoE: the softmax of the largest logits, or weights that stand elsewhere.
static void route(OnnxNode *n, NodeId router, NodeId weights, bool is_quantised, Mixture *m)
{
    const Dim k = onnx_int(n, "k", 1);
    const bool normalises = onnx_flag(n, "normalize_routing_weights", 0);
    if (onnx_flag(n, "use_sparse_mixer", 0))
        onnx_fail(n, E0206, "the sparse mixer is not supported");
    if (!n->failed && k < 1)
        onnx_fail(n, E0203, "k is %lld", (long long)k);
    if (!n->failed && onnx_shape(n, router)->rank != 2)
        onnx_fail(n, E0204, "the router's probabilities must be [tokens, experts]");
    const NodeId p = is_quantised ? router : onnx_softmax(n, router, -1);
    if (n->failed)
        return;
    m->share = onnx_op_ints(n, OP_top_k, p, A_top_k_k, &k, 1);
    m->index = onnx_result(n, m->share, 1);
    if (weights)
        m->share = at_chosen(n, weights, m->index);
    else if (is_quantised)
        m->share = onnx_softmax(n, m->share, -1);
    if (normalises && !n->failed)
        m->share = onnx_op2(n, OP_div, m->share, sum_of_last(n, m->share));
}

// --- experts ---

static NodeId multiply(OnnxNode *n, const Mixture *m, NodeId x, Product p)
{
    NodeBuild b = ONNX_BEGIN(n, OP_grouped_matmul, x, p.w, m->index);
    if (p.bias)
        node_src(&b, p.bias);
    node_int(&b, A_grouped_matmul_transpose_b, 1);
    return onnx_end(n, &b);
}

static Product part_of(OnnxNode *n, Product p, int64_t from, int64_t to, int64_t step)
{
    p.w = onnx_slice(n, p.w, 1, from, to, step);
    p.bias = p.bias ? onnx_slice(n, p.bias, 1, from, to, step) : 0;
    return p;
}

// gate * sigmoid(alpha * gate) * (linear + beta), both within the limit. Of fused weights gate and linear
// take turns, or are halves.
static NodeId swiglu(OnnxNode *n, const Mixture *m)
{
    const double alpha = onnx_float(n, "activation_alpha", 1), beta = onnx_float(n, "activation_beta", 0),
                 limit = onnx_float(n, "swiglu_limit", (double)INFINITY);
    const int64_t fusion = onnx_int(n, "swiglu_fusion", 0);
    const int64_t all = fusion != 0 ? onnx_const_dim(n, m->fc[0].w, 1) : 0;
    Product gate = m->fc[0], linear = m->fc[2];
    if (!n->failed && (fusion < 0 || fusion > 2 || (fusion == 0) != (linear.w != 0) || all % 2 != 0))
        onnx_fail(n, E0206, "swiglu needs fc3, or swiglu_fusion of 1 or 2 and an even number of rows in fc1");
    if (!n->failed && fusion != 0) {
        linear = fusion == 1 ? part_of(n, gate, 1, all, 2) : part_of(n, gate, all / 2, all, 1);
        gate = fusion == 1 ? part_of(n, gate, 0, all, 2) : part_of(n, gate, 0, all / 2, 1);
    }
    NodeId g = multiply(n, m, m->x, gate), l = multiply(n, m, m->x, linear);
    if (isfinite(limit)) {
        g = onnx_op_number(n, OP_min, g, limit);
        l = onnx_op_number(n, OP_max, onnx_op_number(n, OP_min, l, limit), -limit);
    }
    const NodeId swish = onnx_op2(n, OP_mul, g, onnx_op1(n, OP_sigmoid, onnx_op_number(n, OP_mul, g, alpha)));
    return onnx_op2(n, OP_mul, swish, onnx_op_number(n, OP_add, l, beta));
}

static NodeId activated(OnnxNode *n, const Mixture *m)
{
    static const struct {
        const char *name;
        OpId op; // 0: none
    } ops[] = {{"relu", OP_relu}, {"gelu", OP_gelu_tanh}, {"silu", OP_silu}, {"identity", 0}};
    const char *name = onnx_str(n, "activation_type", "relu");
    if (str_equal(name, "swiglu"))
        return swiglu(n, m);
    static const char *const unused[] = {"activation_alpha", "activation_beta", "swiglu_limit",
                                         "swiglu_fusion"};
    for (uint32_t i = 0; i < sizeof unused / sizeof *unused; i++)
        onnx_ignore_attr(n, unused[i]);
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!str_equal(name, ops[i].name))
            continue;
        NodeId h = multiply(n, m, m->x, m->fc[0]);
        h = ops[i].op != 0 ? onnx_op1(n, ops[i].op, h) : h;
        return m->fc[2].w ? onnx_op2(n, OP_mul, h, multiply(n, m, m->x, m->fc[2])) : h;
    }
    onnx_fail(n, E0206, "the activation '%s' is not supported", name);
    return 0;
}

static void mix(OnnxNode *n, Mixture *m)
{
    const NodeId x = onnx_src(n, 0);
    const Shape s = *onnx_shape(n, x);
    if (!n->failed && s.rank != 2 && s.rank != 3)
        onnx_fail(n, E0204, "needs an input [tokens, in] or [batch, tokens, in]");
    if (n->failed)
        return;
    m->x = s.rank == 2 ? x : onnx_reshape_to(n, x, (const Dim[]){-1, s.dim[2]}, 2);
    const NodeId y = multiply(n, m, activated(n, m), m->fc[1]);
    const NodeId shares =
        onnx_cast(n, onnx_unsqueeze(n, m->share, (const int64_t[]){2}, 1), onnx_dtype(n, x));
    const NodeId sum = onnx_reduce(n, OP_reduce_sum, onnx_op2(n, OP_mul, y, shares), (const int64_t[]){1}, 1);
    onnx_out(n, 0, n->failed ? 0 : onnx_reshape(n, sum, &s));
}

void onnx_import_ms_moe(OnnxNode *n)
{
    Mixture m = {0};
    m.fc[0] = (Product){onnx_src(n, 2), onnx_opt(n, 3)};
    m.fc[1] = (Product){onnx_src(n, 4), onnx_opt(n, 5)};
    m.fc[2] = (Product){onnx_opt(n, 6), onnx_opt(n, 7)};
    route(n, onnx_src(n, 1), 0, false, &m);
    mix(n, &m);
}

// --- weights of few bits ---

// Zero points in the shape of the scales: packed along their last axis, which is that of the blocks, or of
// the rows where each is one block.
static NodeId zero_points(OnnxNode *n, NodeId zero, NodeId scale, int64_t bits)
{
    const Shape s = *onnx_shape(n, scale);
    if (n->failed || !zero)
        return n->failed ? 0 : onnx_scalar(n, DTYPE_u8, (double)(INT64_C(1) << (bits - 1)));
    const NodeId all = quant_unpacked(n, zero, bits);
    return onnx_slice(n, all, (int64_t)s.rank - 1, 0, onnx_const_dim(n, scale, s.rank - 1), 1);
}

static Product dequantised(OnnxNode *n, uint32_t at, const char *bits_name, uint32_t zero_at)
{
    const NodeId packed = onnx_opt(n, at), scales = packed ? onnx_src(n, at + 1) : onnx_opt(n, at + 1);
    const NodeId zeros = onnx_opt(n, zero_at), bias = onnx_opt(n, at + 2);
    const int64_t dflt = onnx_int(n, "expert_weight_bits", 4), bits = onnx_int(n, bits_name, dflt),
                  given = onnx_int(n, "block_size", 0);
    if (!n->failed && packed &&
        (onnx_shape(n, packed)->rank != 3 || onnx_shape(n, scales)->rank < 2 ||
         onnx_shape(n, scales)->rank > 3 ||
         (zeros && onnx_shape(n, zeros)->rank != onnx_shape(n, scales)->rank)))
        onnx_fail(
            n, E0204,
            "needs weights with 3 axes, scales with 2 or 3, and zero points with as many as the scales");
    if (!packed || n->failed)
        return (Product){0};
    if (bits != 2 && bits != 4 && bits != 8) {
        onnx_fail(n, E0206, "%lld bits are not supported, only 2, 4 and 8", (long long)bits);
        return (Product){0};
    }
    const NodeId w = quant_unpacked(n, packed, bits);
    const int64_t inner = onnx_const_dim(n, w, 2), block = given > 0 ? given : inner;
    NodeId zero = zero_points(n, zeros, scales, bits);
    if (n->failed)
        return (Product){0};
    const bool is_flat = onnx_shape(n, scales)->rank == 2;
    const NodeId scale = is_flat ? onnx_unsqueeze(n, scales, (const int64_t[]){2}, 1) : scales;
    zero = is_flat && zeros ? onnx_unsqueeze(n, zero, (const int64_t[]){2}, 1) : zero;
    const NodeId floats = quant_blocks_to_float(n, w, scale, zero, 2, is_flat ? inner : block);
    return (Product){onnx_cast(n, floats, onnx_dtype(n, onnx_src(n, 0))), bias};
}

void onnx_import_ms_qmoe(OnnxNode *n)
{
    enum { ROUTER_WEIGHTS = 14 };
    Mixture m = {0};
    if (!str_equal(onnx_str(n, "quant_type", "int"), "int"))
        onnx_fail(n, E0206, "only weights of integers are supported");
    if (onnx_int(n, "weights_prepacked", 0) > 0)
        onnx_fail(n, E0206, "weights packed for a device are not supported");
    onnx_ignore_attr(n, "accuracy_level"); // rows stay floats
    m.fc[0] = dequantised(n, 2, "fc1_expert_weight_bits", 11);
    m.fc[1] = dequantised(n, 5, "fc2_expert_weight_bits", 12);
    m.fc[2] = dequantised(n, 8, "fc3_expert_weight_bits", 13);
    route(n, onnx_src(n, 1), onnx_opt(n, ROUTER_WEIGHTS), true, &m);
    mix(n, &m);
}
