// SPDX-License-Identifier: Apache-2.0
// Models that make one vector of a text: tokens that all see each other, norms behind the branches, and what
// becomes of the rows at the end. Separate from decoders, which go on from run to run.
#include "compiler/import/llm/llm_build.h"

// As files number them.
typedef enum Pooling { POOL_NONE, POOL_MEAN, POOL_FIRST, POOL_LAST } Pooling;

static NodeId embed(LlmBuild *b, NodeId tokens)
{
    static const int64_t one = 1, zero = 0;
    const int64_t width = llm_count(b, LLM_KEY_width);
    NodeId x = llm_rows(b, LLM_token_embd, width, tokens);
    if (llm_has_weight(b, LLM_token_types)) { // all tokens are of the first text
        const NodeId type = llm_const(b, DTYPE_i64, 1, &one, &zero);
        x = llm_op2(b, OP_add, x, llm_rows(b, LLM_token_types, width, type));
    }
    if (llm_has(b, LLM_LEARNED))
        x = llm_op2(b, OP_add, x, llm_rows(b, LLM_position_embd, width, b->positions));
    return llm_norm(b, x, LLM_embd_norm);
}

static NodeId add_layer(LlmBuild *b, NodeId x)
{
    const NodeId y = llm_product(b, llm_attention(b, x), LLM_attn_output, llm_count(b, LLM_KEY_width));
    x = llm_norm(b, llm_op2(b, OP_add, x, y), LLM_attn_out_norm);
    return llm_norm(b, llm_op2(b, OP_add, x, llm_ffn(b, x)), LLM_layer_out_norm);
}

static NodeId pool(LlmBuild *b, NodeId x)
{
    const Pooling how = (Pooling)llm_count(b, LLM_KEY_pooling);
    if (how == POOL_NONE)
        return x;
    if (how == POOL_FIRST)
        return llm_slice(b, x, 0, 0, 1);
    if (how == POOL_LAST)
        return llm_slice(b, x, 0, -1, INT64_MAX);
    return llm_reduce(b, OP_reduce_mean, x, 0, true);
}

bool llm_make_encoder(LlmBuild *b)
{
    DimTable *dims = b->graph->dims;
    if (llm_has(b, LLM_SPEECH))
        return llm_make_speech_encoder(b);
    b->t = dim_symbol(dims, "T", 1, b->context, 1);
    dim_set_default(dims, "T", b->context);
    const Shape rows = shape_of(1, &b->t);
    const NodeId tokens = graph_input(b->graph, "tokens", DTYPE_i64, &rows, b->source->span);
    b->positions = llm_count_rows(b, b->t);
    llm_make_angles(b);
    NodeId x = embed(b, tokens);
    for (uint32_t i = 0; !b->failed && i < (uint32_t)llm_count(b, LLM_KEY_layers); i++)
        x = llm_read_layer(b, i) ? add_layer(b, x) : 0;
    x = b->failed ? 0 : pool(b, x);
    if (!b->failed)
        graph_output(b->graph, "embedding", x);
    return llm_check_all_used(b);
}
