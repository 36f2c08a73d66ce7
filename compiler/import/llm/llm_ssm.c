// SPDX-License-Identifier: Apache-2.0
// Layers of one branch without attention: a convolution over the last tokens, and a state of fixed size that
// each token lets fade and adds to (Mamba). Separate from layers of two branches, whose caches have rows.
#include "compiler/import/llm/llm_build.h"

#include <math.h>

typedef struct Ssm {
    int64_t inner, state, kernel, rank, groups; // rank: of time steps; with heads, their number
    int64_t rows;                               // of a run at most
} Ssm;

static NodeId multiply(LlmBuild *b, NodeId x, NodeId y)
{
    NodeBuild n = llm_begin(b, OP_matmul, NULL);
    node_src(&n, x);
    node_src(&n, y);
    return llm_end(b, &n);
}

static Ssm read_ssm(LlmBuild *b)
{
    Ssm s = {.inner = llm_count(b, LLM_KEY_ssm_inner),
             .state = llm_count(b, LLM_KEY_ssm_state),
             .kernel = llm_count(b, LLM_KEY_ssm_kernel),
             .rank = llm_count(b, LLM_KEY_ssm_rank),
             .groups = llm_count(b, LLM_KEY_ssm_groups),
             .rows = llm_ssm_rows(b)};
    if (s.inner == 0 || (llm_has(b, LLM_SSM_HEADS) && b->number[LLM_KEY_head_size] != 0))
        s.inner = s.rank * llm_count(b, LLM_KEY_head_size);
    if (s.inner < 1 || (llm_has(b, LLM_SSM_HEADS) && (s.inner % s.rank != 0 || s.rank % s.groups != 0 ||
                                                      s.inner % s.groups != 0)))
        llm_fail(b, E0115, "entry '%s' is %lld, which does not fit '%s' or '%s'",
                 llm_key_name(b, LLM_KEY_ssm_inner), (long long)s.inner, llm_key_name(b, LLM_KEY_ssm_rank),
                 llm_key_name(b, LLM_KEY_ssm_groups));
    return s;
}

// A state as it is before the run. Before the first token it counts as zeros, whatever it holds.
static NodeId begin_state(LlmBuild *b, const char *name, uint32_t rank, const Dim *dim, uint32_t *index)
{
    const Shape s = shape_of(rank, dim);
    if (b->failed)
        return 0;
    const char *label = arena_printf(b->arena, "%s%u", name, b->layer);
    const NodeId held = graph_state(b->graph, label, DTYPE_f32, &s, NULL, 0, b->source->span);
    *index = b->graph->states.len - 1;
    const NodeId zero = llm_int(b, 0);
    return llm_op3(b, OP_where, llm_op2(b, OP_gt, b->past, zero), held, llm_number(b, 0));
}

static void end_state(LlmBuild *b, uint32_t index, NodeId next)
{
    rlx_assert(b->failed || index < b->graph->states.len);
    if (!b->failed)
        b->graph->states.data[index].next = next;
}

// Each column with its own filter over the last `kernel` rows: [T, columns].
static NodeId convolve(LlmBuild *b, const Ssm *s, NodeId x, int64_t columns)
{
    const Dim kept[] = {s->kernel - 1, columns};
    rlx_assert(s->kernel >= 1 && columns >= s->inner); // llm_keys.def has the limits
    uint32_t index = 0;
    const NodeId w = llm_table(b, LLM_ssm_conv, columns, s->kernel);
    const NodeId all = s->kernel == 1 ? x : llm_concat(b, begin_state(b, "conv", 2, kept, &index), x, 0);
    NodeId sum = 0;
    for (int64_t k = 0; k < s->kernel && !b->failed; k++) {
        const int64_t behind = s->kernel - 1 - k;
        const NodeId rows = llm_slice(b, all, 0, k, behind == 0 ? INT64_MAX : -behind);
        const NodeId column = llm_reshape(b, llm_slice(b, w, 1, k, k + 1), 1, &columns);
        const NodeId part = llm_op2(b, OP_mul, rows, column);
        sum = k == 0 ? part : llm_op2(b, OP_add, sum, part);
    }
    if (s->kernel > 1)
        end_state(b, index, llm_slice(b, all, 0, -(s->kernel - 1), INT64_MAX));
    return llm_op1(b, OP_silu, llm_add_bias(b, sum, LLM_ssm_conv, columns));
}

// How fast states fade, below zero.
static NodeId rates(LlmBuild *b, NodeId a)
{
    return llm_has(b, LLM_LOG_RATES) ? llm_op1(b, OP_neg, llm_op1(b, OP_exp, a)) : a;
}

// Rows `by` places further on, with `value` in the first ones.
static NodeId shift(LlmBuild *b, NodeId x, int64_t by, double value)
{
    const Shape *s = b->failed ? NULL : graph_node(b->graph, x)->shape;
    if (s == NULL)
        return 0;
    const Dim dim[] = {by, s->dim[1], s->dim[2]};
    return llm_slice(b, llm_concat(b, llm_expand(b, llm_number(b, value), 3, dim), x, 0), 0, 0, -by);
}

// --- a state for each column (Mamba) ---

// The states after each token, [T, inner, state]: fade[t] of that before, plus add[t]. Sums over 1, 2, 4 ...
// tokens, so that a run takes as many steps as its length has binary digits.
static NodeId scan(LlmBuild *b, const Ssm *s, NodeId fade, NodeId add)
{
    const Dim dim[] = {s->inner, s->state};
    uint32_t index = 0;
    rlx_assert(s->rows >= 1);
    const NodeId before = begin_state(b, "state", 2, dim, &index);
    for (int64_t by = 1; by < s->rows; by *= 2) {
        add = llm_op2(b, OP_add, add, llm_op2(b, OP_mul, fade, shift(b, add, by, 0)));
        fade = llm_op2(b, OP_mul, fade, shift(b, fade, by, 1));
    }
    const NodeId all = llm_op2(b, OP_add, add, llm_op2(b, OP_mul, fade, before));
    const NodeId last = b->failed ? 0 : llm_gather(b, all, b->last);
    end_state(b, index, llm_reshape(b, last, 2, dim));
    return all;
}

static NodeId norm_if(LlmBuild *b, NodeId x)
{
    return b->number[LLM_KEY_ssm_norms] == 0 ? x : llm_plain_norm(b, x);
}

// x, convolved: [T, inner]
static NodeId mix_columns(LlmBuild *b, const Ssm *s, NodeId x)
{
    const int64_t n = s->state, rank = s->rank;
    const NodeId all = llm_product(b, x, LLM_ssm_x, rank + 2 * n);
    const NodeId low = norm_if(b, llm_slice(b, all, 1, 0, rank));
    const NodeId step = llm_op1(b, OP_softplus, llm_product(b, low, LLM_ssm_dt, s->inner));
    const Dim columns[] = {b->t, s->inner, 1}, states[] = {b->t, 1, n};
    const NodeId in = llm_reshape(b, norm_if(b, llm_slice(b, all, 1, rank, rank + n)), 3, states);
    const NodeId out = llm_reshape(b, norm_if(b, llm_slice(b, all, 1, rank + n, rank + 2 * n)), 3, states);
    const NodeId rate = rates(b, llm_table(b, LLM_ssm_a, s->inner, n));
    const NodeId fade = llm_op1(b, OP_exp, llm_op2(b, OP_mul, llm_reshape(b, step, 3, columns), rate));
    const NodeId added = llm_reshape(b, llm_op2(b, OP_mul, step, x), 3, columns);
    const NodeId states_of = scan(b, s, fade, llm_op2(b, OP_mul, added, in));
    const NodeId y = llm_reduce(b, OP_reduce_sum, llm_op2(b, OP_mul, states_of, out), 2, false);
    return llm_op2(b, OP_add, y, llm_op2(b, OP_mul, x, llm_vector(b, LLM_ssm_d, s->inner)));
}

// --- heads whose states fade as one (Mamba 2) ---

// [T, groups * state] to [heads, T, state]: each group serves as many heads.
static NodeId by_heads(LlmBuild *b, const Ssm *s, NodeId x)
{
    static const int64_t perm[] = {1, 2, 0, 3};
    const Dim groups[] = {b->t, s->groups, 1, s->state};
    const Dim spread[] = {b->t, s->groups, s->rank / s->groups, s->state};
    const Dim heads[] = {s->rank, b->t, s->state};
    const NodeId all = llm_expand(b, llm_reshape(b, x, 4, groups), 4, spread);
    return llm_reshape(b, llm_turn(b, all, perm), 3, heads);
}

// exp(t - s) for s <= t of the summed rates [heads, T]: how much of token s is left at token t.
static NodeId decays(LlmBuild *b, const Ssm *s, NodeId sums)
{
    const Dim column[] = {s->rank, b->t, 1}, row[] = {s->rank, 1, b->t}, at[] = {b->t, 1};
    const NodeId apart = llm_op2(b, OP_sub, llm_reshape(b, sums, 3, column), llm_reshape(b, sums, 3, row));
    const NodeId place = llm_count_rows(b, b->t);
    const NodeId is_before = llm_op2(b, OP_le, place, llm_reshape(b, place, 2, at));
    return llm_op1(b, OP_exp, llm_op3(b, OP_where, is_before, apart, llm_number(b, -INFINITY)));
}

// x [heads, T, head], in and out [heads, T, state], step [T, heads] -> [heads, T, head]
static NodeId scan_heads(LlmBuild *b, const Ssm *s, NodeId x, const NodeId in_out[2], NodeId step)
{
    static const int64_t swap[] = {1, 0}, inner[] = {0, 2, 1};
    rlx_assert(s->inner % s->rank == 0 && s->rank % s->groups == 0); // read_ssm has checked it
    const int64_t head = s->inner / s->rank;
    const Dim dim[] = {s->rank, s->state, head}, column[] = {s->rank, b->t, 1}, one[] = {s->rank, 1, 1};
    uint32_t index = 0;
    const NodeId before = begin_state(b, "state", 3, dim, &index);
    const NodeId rate = rates(b, llm_vector(b, LLM_ssm_a, s->rank));
    NodeBuild total = llm_begin(b, OP_cumsum, NULL);
    node_src(&total, llm_op2(b, OP_mul, step, rate));
    node_int(&total, A_cumsum_axis, 0);
    const NodeId sums = llm_end(b, &total); // [T, heads]
    const NodeId last = llm_reshape(b, b->failed ? 0 : llm_gather(b, sums, b->last), 3, one);
    const NodeId by_head = llm_turn(b, sums, swap), at = llm_reshape(b, by_head, 3, column);
    const NodeId added = llm_op2(b, OP_mul, x, llm_reshape(b, llm_turn(b, step, swap), 3, column));
    const NodeId scores = llm_op2(b, OP_mul, multiply(b, in_out[1], llm_turn(b, in_out[0], inner)),
                                  decays(b, s, by_head));
    const NodeId old = llm_op2(b, OP_mul, multiply(b, in_out[1], before), llm_op1(b, OP_exp, at));
    const NodeId left = llm_op1(b, OP_exp, llm_op2(b, OP_sub, last, at));
    const NodeId new_state = multiply(b, llm_turn(b, in_out[0], inner), llm_op2(b, OP_mul, added, left));
    end_state(b, index,
              llm_op2(b, OP_add, new_state, llm_op2(b, OP_mul, before, llm_op1(b, OP_exp, last))));
    return llm_op2(b, OP_add, multiply(b, scores, added), old);
}

// x, in and out convolved, one behind the other; step before its bias: [T, heads]
static NodeId mix_heads(LlmBuild *b, const Ssm *s, NodeId x, NodeId step)
{
    static const int64_t perm[] = {1, 0, 2};
    const int64_t n = s->groups * s->state;
    const Dim split[] = {b->t, s->rank, s->inner / s->rank}, flat[] = {b->t, s->inner}, one[] = {s->rank, 1};
    const NodeId in = by_heads(b, s, llm_slice(b, x, 1, s->inner, s->inner + n));
    const NodeId out = by_heads(b, s, llm_slice(b, x, 1, s->inner + n, s->inner + 2 * n));
    const NodeId heads = llm_reshape(b, llm_slice(b, x, 1, 0, s->inner), 3, split);
    step = llm_op1(b, OP_softplus, llm_add_bias(b, step, LLM_ssm_dt, s->rank));
    const NodeId mixed = scan_heads(b, s, llm_turn(b, heads, perm), (const NodeId[]){in, out}, step);
    const NodeId share = llm_reshape(b, llm_vector(b, LLM_ssm_d, s->rank), 2, one);
    const NodeId skipped = llm_op2(b, OP_mul, heads, share);
    return llm_reshape(b, llm_op2(b, OP_add, llm_turn(b, mixed, perm), skipped), 2, flat);
}

// The norm behind the gate, of each group.
static NodeId norm_gated(LlmBuild *b, const Ssm *s, NodeId y)
{
    const Dim split[] = {b->t, s->groups, s->inner / s->groups}, flat[] = {b->t, s->inner};
    const bool is_list = llm_size(b, LLM_ssm_norm, 0) == s->inner; // else [groups, size]
    const NodeId w = is_list ? llm_vector(b, LLM_ssm_norm, s->inner)
                             : llm_table(b, LLM_ssm_norm, s->groups, s->inner / s->groups);
    const NodeId normed = llm_reshape(b, llm_plain_norm(b, llm_reshape(b, y, 3, split)), 2, flat);
    return llm_op2(b, OP_mul, normed, llm_reshape(b, w, 1, &s->inner));
}

NodeId llm_ssm(LlmBuild *b, NodeId x)
{
    const Ssm s = read_ssm(b);
    const bool has_heads = llm_has(b, LLM_SSM_HEADS);
    const int64_t mixed = has_heads ? s.inner + 2 * s.groups * s.state : s.inner;
    if (b->failed)
        return 0;
    const NodeId all = llm_product(b, x, LLM_ssm_in, s.inner + mixed + (has_heads ? s.rank : 0));
    const int64_t from = has_heads ? s.inner : 0, gate = has_heads ? 0 : s.inner;
    const NodeId z = llm_op1(b, OP_silu, llm_slice(b, all, 1, gate, gate + s.inner));
    const NodeId y = convolve(b, &s, llm_slice(b, all, 1, from, from + mixed), mixed);
    if (!has_heads)
        return llm_op2(b, OP_mul, mix_columns(b, &s, y), z);
    const NodeId step = llm_slice(b, all, 1, from + mixed, from + mixed + s.rank);
    return norm_gated(b, &s, llm_op2(b, OP_mul, mix_heads(b, &s, y, step), z));
}
