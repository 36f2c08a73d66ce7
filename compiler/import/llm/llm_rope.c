// SPDX-License-Identifier: Apache-2.0
// Angles by which positions turn heads, once for all layers: position * base^(-2i / dims), divided by the
// factor of linear scaling and by the tables that some models have.
#include "compiler/import/llm/llm_build.h"
#include "ir/graph/tensor.h"

#include <math.h>

#define YARN_GROWTH 0.1 // of cosines and sines, with the logarithm of the factor

static const double turn = 2 * 3.14159265358979323846;

// --- frequencies ---

// How far the model's own tokens turn decides: a wave that is long against them is stretched.
static double llama3(const LlmBuild *b, double f)
{
    const double low = b->number[LLM_KEY_rope_low], high = b->number[LLM_KEY_rope_high];
    const double turns = b->number[LLM_KEY_rope_original] * f / turn, factor = b->number[LLM_KEY_rope_factor];
    const double share = turns <= low ? 0 : turns >= high ? 1 : (turns - low) / (high - low);
    return f * ((1 - share) / factor + share);
}

// The place among the frequencies of the one that turns so often within the model's own tokens.
static double yarn_place(const LlmBuild *b, double base, double turns)
{
    const double dims = b->number[LLM_KEY_rope_dims], own = b->number[LLM_KEY_rope_original];
    return dims * log(own / (turns * turn)) / (2 * log(base));
}

static double yarn(const LlmBuild *b, double base, double f, double at)
{
    double first = yarn_place(b, base, b->number[LLM_KEY_yarn_fast]);
    double last = yarn_place(b, base, b->number[LLM_KEY_yarn_slow]);
    if (b->number[LLM_KEY_yarn_whole] != 0) {
        first = floor(first);
        last = ceil(last);
    }
    first = fmax(first, 0);
    last = fmin(last, b->number[LLM_KEY_rope_dims] - 1);
    const double way = (at - first) / fmax(last - first, 1e-3);
    const double kept = (1 - fmin(fmax(way, 0), 1)) * b->number[LLM_KEY_yarn_share];
    return f * (kept + (1 - kept) / b->number[LLM_KEY_rope_factor]);
}

static double scaled(const LlmBuild *b, double base, double f, double at)
{
    if (b->rope == LLM_ROPE_llama3)
        return llama3(b, f);
    return b->rope == LLM_ROPE_yarn ? yarn(b, base, f, at) : f / b->number[LLM_KEY_rope_factor];
}

// f32[dims / 2]. Those of windows are not scaled.
static NodeId frequencies(LlmBuild *b, LlmKey base_key)
{
    const int64_t dims = llm_count(b, LLM_KEY_rope_dims), half = dims / 2;
    const double base = b->number[base_key];
    Tensor t = tensor_new(b->arena, DTYPE_f32, 1, &half);
    for (int64_t i = 0; i < half; i++) {
        const double f = pow(base, -2.0 * (double)i / (double)dims);
        tensor_set_f64(&t, i, base_key == LLM_KEY_rope_base ? scaled(b, base, f, (double)i) : f);
    }
    return llm_const(b, DTYPE_f32, 1, &half, t.data);
}

// The table by which the model divides its angles; 0: none.
static NodeId factors(LlmBuild *b)
{
    const int64_t half = llm_count(b, LLM_KEY_rope_dims) / 2;
    const int64_t context = b->slots != 0 ? llm_count(b, LLM_KEY_context) : b->context; // of one sequence
    const bool is_long = context > llm_count(b, LLM_KEY_rope_original);
    const NodeId freqs = llm_has_weight(b, LLM_rope_freqs) ? llm_vector(b, LLM_rope_freqs, half) : 0;
    if (!llm_has(b, LLM_LONG_FACTORS) || !llm_has_weight(b, LLM_factors_long))
        return freqs;
    const NodeId by_long = llm_vector(b, LLM_factors_long, half);
    const NodeId by_short = llm_vector(b, LLM_factors_short, half);
    return is_long ? by_long : by_short;
}

// Of cosines and sines.
static double scale_of(const LlmBuild *b)
{
    const double scale = b->number[LLM_KEY_rope_attention], factor = b->number[LLM_KEY_rope_factor];
    const bool grows = b->rope == LLM_ROPE_yarn && factor > 1 && b->number[LLM_KEY_yarn_share] != 0;
    return grows ? scale * (1 + b->number[LLM_KEY_yarn_growth] * YARN_GROWTH * log(factor)) : scale;
}

static LlmAngles make(LlmBuild *b, NodeId frequency, double scale)
{
    const Dim column[] = {b->t, 1};
    const NodeId rows = llm_reshape(b, llm_f32(b, b->positions), 2, column);
    const NodeId angle = llm_op2(b, OP_mul, rows, frequency);
    return (LlmAngles){llm_times(b, llm_op1(b, OP_cos, angle), scale),
                       llm_times(b, llm_op1(b, OP_sin, angle), scale)};
}

void llm_make_angles(LlmBuild *b)
{
    if (llm_has(b, LLM_LEARNED))
        return;
    const NodeId by = factors(b);
    NodeId frequency = frequencies(b, LLM_KEY_rope_base);
    if (by != 0)
        frequency = llm_op2(b, OP_div, frequency, by);
    b->angles = b->window_angles = make(b, frequency, scale_of(b));
    if (llm_has(b, LLM_WINDOW_BASE))
        b->window_angles = make(b, frequencies(b, LLM_KEY_window_base), 1);
}

static NodeId turn_pairs(LlmBuild *b, NodeId x, LlmAngles angles)
{
    NodeBuild n = llm_begin(b, OP_rope, NULL);
    node_src(&n, x);
    node_src(&n, angles.cos);
    node_src(&n, angles.sin);
    node_int(&n, A_rope_interleaved, llm_has(b, LLM_PAIRS));
    node_int(&n, A_rope_dims, llm_count(b, LLM_KEY_rope_dims));
    return llm_end(b, &n);
}

static LlmAngles angles_of(const LlmBuild *b)
{
    return llm_is_window(b) ? b->window_angles : b->angles;
}

NodeId llm_rope(LlmBuild *b, NodeId x)
{
    return llm_has(b, LLM_LEARNED) ? x : turn_pairs(b, x, angles_of(b));
}

NodeId llm_rope_tokens(LlmBuild *b, NodeId x)
{
    if (llm_has(b, LLM_LEARNED))
        return x;
    const LlmAngles angles = angles_of(b);
    const Dim dim[] = {b->t, 1, llm_dim(b, angles.cos, UINT32_MAX)};
    const NodeId cos = llm_reshape(b, angles.cos, 3, dim), sin = llm_reshape(b, angles.sin, 3, dim);
    return turn_pairs(b, x, (LlmAngles){cos, sin});
}
