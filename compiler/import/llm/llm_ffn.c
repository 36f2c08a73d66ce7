// SPDX-License-Identifier: Apache-2.0
// The second branch of a layer: two or three products with an activation, or the experts that a router
// chooses.
#include "compiler/import/llm/llm_build.h"

typedef struct FfnRoles {
    LlmRole gate, up, down;
} FfnRoles;

static NodeId activate(LlmBuild *b, NodeId x)
{
    return llm_op1(b, b->arch->activation, x);
}

static NodeId dense(LlmBuild *b, NodeId x, FfnRoles r)
{
    const int64_t width = llm_count(b, LLM_KEY_width), n = llm_size(b, r.up, 0), half = n / 2;
    NodeId up = llm_product(b, x, r.up, n), h = up;
    if (llm_has(b, LLM_FUSED_GATE)) {
        h = llm_slice(b, up, 1, 0, half);
        up = llm_slice(b, up, 1, half, n);
    } else if (!llm_has(b, LLM_NO_GATE)) {
        h = llm_product(b, x, r.gate, n);
    }
    h = activate(b, h);
    if (!llm_has(b, LLM_NO_GATE))
        h = llm_op2(b, OP_mul, h, up);
    return llm_product(b, h, r.down, width);
}

// The shares of the chosen experts [T, C], and which they are.
static NodeId route(LlmBuild *b, NodeId x, NodeId *index)
{
    const Dim k = llm_count(b, LLM_KEY_experts_used);
    const NodeId scores = llm_product(b, x, LLM_router, llm_count(b, LLM_KEY_experts));
    NodeBuild n = llm_begin(b, OP_top_k, llm_label(b, "chosen"));
    node_src(&n, llm_op1(b, OP_softmax, scores));
    node_ints(&n, A_top_k_k, &k, 1);
    const NodeId shares = llm_end(b, &n);
    *index = b->failed ? 0 : graph_result(b->graph, shares, 1);
    if (b->failed || !llm_has(b, LLM_RENORMALISED))
        return shares;
    return llm_op2(b, OP_div, shares, llm_reduce(b, OP_reduce_sum, shares, 1, 1));
}

// What the gate lets through of the values.
static NodeId gated(LlmBuild *b, NodeId gate, NodeId up)
{
    const double limit = b->number[LLM_KEY_gate_limit];
    if (!llm_has(b, LLM_LIMITED))
        return llm_op2(b, OP_mul, activate(b, gate), up);
    gate = llm_op2(b, OP_min, gate, llm_number(b, limit));
    up = llm_op2(b, OP_max, llm_op2(b, OP_min, up, llm_number(b, limit)), llm_number(b, -limit));
    const NodeId open = llm_op1(b, OP_sigmoid, llm_times(b, gate, b->number[LLM_KEY_gate_slope]));
    return llm_op2(b, OP_mul, llm_op2(b, OP_mul, gate, open), llm_op2(b, OP_add, up, llm_number(b, 1)));
}

static NodeId every_second(LlmBuild *b, NodeId x, int64_t from)
{
    NodeBuild n = llm_begin(b, OP_slice, NULL);
    node_slice(&n, x, 2, from, INT64_MAX, 2);
    return llm_end(b, &n);
}

// Gates and values of the experts: of two products, or of one in turns.
static NodeId expert_values(LlmBuild *b, NodeId x, NodeId index)
{
    if (llm_has_weight(b, LLM_both_experts)) {
        const int64_t pairs = llm_size(b, LLM_both_experts, 1);
        const NodeId both = llm_expert_product(b, x, LLM_both_experts, pairs, index);
        return gated(b, every_second(b, both, 0), every_second(b, both, 1));
    }
    const int64_t n = llm_size(b, LLM_up_experts, 1);
    const NodeId gate = llm_expert_product(b, x, LLM_gate_experts, n, index);
    return gated(b, gate, llm_expert_product(b, x, LLM_up_experts, n, index));
}

static NodeId routed(LlmBuild *b, NodeId x)
{
    const int64_t width = llm_count(b, LLM_KEY_width);
    const Dim column[] = {b->failed ? 0 : llm_dim(b, x, 0), llm_count(b, LLM_KEY_experts_used), 1};
    NodeId index = 0;
    const NodeId shares = route(b, x, &index);
    const NodeId y = llm_expert_product(b, expert_values(b, x, index), LLM_down_experts, width, index);
    return llm_reduce(b, OP_reduce_sum, llm_op2(b, OP_mul, y, llm_reshape(b, shares, 3, column)), 1, 0);
}

NodeId llm_ffn(LlmBuild *b, NodeId x)
{
    static const FfnRoles own = {LLM_ffn_gate, LLM_ffn_up, LLM_ffn_down};
    static const FfnRoles shared = {LLM_shared_gate, LLM_shared_up, LLM_shared_down};
    if (llm_count(b, LLM_KEY_experts) == 0)
        return dense(b, x, own);
    const NodeId y = routed(b, x);
    if (!llm_has(b, LLM_SHARED))
        return y;
    const NodeId share = llm_op1(b, OP_sigmoid, llm_product(b, x, LLM_shared_router, 1));
    return llm_op2(b, OP_add, y, llm_op2(b, OP_mul, dense(b, x, shared), share));
}
