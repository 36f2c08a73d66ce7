// SPDX-License-Identifier: Apache-2.0
// Models that hear: the encoder, which makes rows of sound, and the branch by which the layers of the decoder
// attend to them. Separate because nothing else has a second part or takes anything but tokens.
#include "compiler/import/llm/llm_build.h"

// --- the encoder ---

// A convolution of three steps of time, of x [1, channels, time], and the activation.
static NodeId convolve(LlmBuild *b, NodeId x, LlmRole role, int64_t stride)
{
    static const int64_t pads[] = {1, 1};
    const int64_t width = llm_count(b, LLM_KEY_width);
    const int64_t dim[] = {width, llm_dim(b, x, 1), 3};
    NodeBuild n = llm_begin(b, OP_conv, llm_roles[role].name);
    node_src(&n, x);
    node_src(&n, llm_filter(b, role, dim));
    node_src(&n, llm_bias(b, role, width));
    node_ints(&n, A_conv_strides, &stride, 1);
    node_ints(&n, A_conv_pads, pads, 2);
    return llm_op1(b, b->arch->activation, llm_end(b, &n));
}

// f32[rows, width] of the input `mel`, f32[bins, 2 rows].
static NodeId embed_sound(LlmBuild *b)
{
    static const int64_t perm[] = {1, 0};
    const int64_t bins = llm_count(b, LLM_KEY_mel_bins), width = llm_count(b, LLM_KEY_width);
    const Shape s = shape_of(2, (const int64_t[]){bins, 2 * b->t});
    const NodeId mel = graph_input(b->graph, "mel", DTYPE_f32, &s, b->source->span);
    NodeId x = llm_reshape(b, mel, 3, (const int64_t[]){1, bins, 2 * b->t});
    x = convolve(b, convolve(b, x, LLM_conv1, 1), LLM_conv2, 2);
    x = llm_turn(b, llm_reshape(b, x, 2, (const int64_t[]){width, b->t}), perm);
    return llm_op2(b, OP_add, x, llm_table(b, LLM_position_embd, b->t, width));
}

static NodeId add_layer(LlmBuild *b, NodeId x)
{
    const NodeId y = llm_attention(b, llm_norm(b, x, LLM_attn_norm));
    x = llm_op2(b, OP_add, x, llm_product(b, y, LLM_attn_output, llm_count(b, LLM_KEY_width)));
    return llm_op2(b, OP_add, x, llm_ffn(b, llm_norm(b, x, LLM_ffn_norm)));
}

bool llm_make_speech_encoder(LlmBuild *b)
{
    b->t = llm_count(b, LLM_KEY_sound_rows);
    NodeId x = embed_sound(b);
    for (uint32_t i = 0; !b->failed && i < (uint32_t)llm_count(b, LLM_KEY_layers); i++)
        x = llm_read_layer(b, i) ? add_layer(b, x) : 0;
    x = llm_norm(b, b->failed ? 0 : x, LLM_output_norm);
    if (!b->failed)
        graph_output(b->graph, LLM_ENCODED, x);
    return llm_check_all_used(b);
}

// --- the decoder ---

void llm_make_encoded(LlmBuild *b)
{
    const int64_t dim[] = {llm_count(b, LLM_KEY_sound_rows), llm_count(b, LLM_KEY_width)};
    const Shape s = shape_of(2, dim);
    b->encoded = graph_param(b->graph, LLM_ENCODED, DTYPE_f32, &s, NULL, 0, b->source->span);
    b->failed = b->encoded == 0;
}

// [rows, heads * size] to [heads, rows, size]
static NodeId split_heads(LlmBuild *b, NodeId x)
{
    static const int64_t perm[] = {1, 0, 2};
    const Dim dim[] = {llm_dim(b, x, 0), llm_count(b, LLM_KEY_heads), llm_count(b, LLM_KEY_head_size)};
    return llm_turn(b, llm_reshape(b, x, 3, dim), perm);
}

// Keys and values depend on the parameter only, so that they are computed when it was set and not again.
NodeId llm_hear(LlmBuild *b, NodeId x)
{
    static const int64_t perm[] = {1, 0, 2};
    const int64_t n = llm_count(b, LLM_KEY_heads) * llm_count(b, LLM_KEY_head_size);
    const Dim dim[] = {llm_dim(b, x, 0), n};
    const NodeId q = split_heads(b, llm_product(b, x, LLM_cross_q, n));
    const NodeId k = split_heads(b, llm_product(b, b->encoded, LLM_cross_k, n));
    const NodeId v = split_heads(b, llm_product(b, b->encoded, LLM_cross_v, n));
    NodeBuild attend = llm_begin(b, OP_attention, llm_label(b, "cross_attention"));
    node_src(&attend, q);
    node_src(&attend, k);
    node_src(&attend, v);
    const NodeId mixed = llm_turn(b, llm_end(b, &attend), perm);
    return llm_product(b, llm_reshape(b, mixed, 2, dim), LLM_cross_output, llm_count(b, LLM_KEY_width));
}
