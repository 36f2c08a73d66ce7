// SPDX-License-Identifier: Apache-2.0
// Compares results with the reference evaluator. See random_check.h.
//
// Integers and bools must be equal, floats within a part of the largest magnitude of their tensor (of 0.01 if
// that is more: tails such as gelu(-10) are the rest of a difference), NaN where NaN. Only where that fails
// the graph is evaluated again, several times, each time with the results of its inexact nodes moved by a few
// units in the last place of their type: what this changes, rounding may change, and no exact value can be
// demanded. Elements that differ without such an excuse are wrong. So steps (floor, comparisons, arg max) at
// values that are not exact, cancellation, and f16 chains that are fused are told from errors without a list
// of them. The test counts the graphs that need this, and fails when they are many.
#include "random_check.h"

#include <math.h>
#include <string.h>

enum { N_NOISY = 24 };

Reference reference_make(Arena *a, const Sample *s)
{
    Reference r = {.sample = s};
    const Graph *g = s->g;
    for (uint32_t i = 0; i < SAMPLE_RUNS; i++) {
        r.run[i] = eval_begin(g, a, (DimValues){0});
        for (uint32_t k = 0; k < g->inputs.len; k++) {
            uint64_t v = 0;
            const bool is_known = map_get_str(&s->values, node_name(g, g->inputs.data[k]), &v);
            rlx_assert(is_known);
            r.run[i].value[g->inputs.data[k]] = ((const Tensor *)(uintptr_t)v)[i];
        }
        for (uint32_t k = 0; i > 0 && k < g->states.len; k++)
            r.run[i].value[g->states.data[k].node] = r.run[i - 1].value[g->states.data[k].next];
        const bool ok = eval_graph(&r.run[i]);
        rlx_assert(ok);
    }
    return r;
}

// --- noise ---------------------------------------------------------------------------------------

typedef enum Noise {
    NOISE_ELEMENT, // relative to the element
    NOISE_NONE,    // the op moves or selects what it is given, or has one right result
    NOISE_SUM,     // relative to the largest element of the tensor: sums cancel
    NOISE_EXACT,   // as the element, but values of few bits were computed exactly
} Noise;

static const uint8_t noise_of[OP_COUNT] = {
    [OP_cast] = NOISE_NONE,
    [OP_bitcast] = NOISE_NONE,
    [OP_copy] = NOISE_NONE,
    [OP_gather] = NOISE_NONE,
    [OP_concat] = NOISE_NONE,
    [OP_slice] = NOISE_NONE,
    [OP_pad] = NOISE_NONE,
    [OP_reshape] = NOISE_NONE,
    [OP_transpose] = NOISE_NONE,
    [OP_expand] = NOISE_NONE,
    [OP_result] = NOISE_NONE,
    [OP_update_slice] = NOISE_NONE,
    [OP_scatter] = NOISE_NONE,
    [OP_dfa] = NOISE_NONE,
    [OP_top_k] = NOISE_NONE,
    [OP_repack] = NOISE_NONE,
    [OP_nms] = NOISE_NONE,
    [OP_unique] = NOISE_NONE,
    [OP_nonzero] = NOISE_NONE,
    [OP_seen_blocks] = NOISE_NONE,
    [OP_split] = NOISE_NONE,
    [OP_squeeze] = NOISE_NONE,
    [OP_unsqueeze] = NOISE_NONE,
    [OP_flatten] = NOISE_NONE,
    [OP_reduce_max] = NOISE_NONE,
    [OP_cummax] = NOISE_NONE,
    [OP_reduce_min] = NOISE_NONE,
    [OP_max_pool] = NOISE_NONE,
    [OP_neg] = NOISE_NONE,
    [OP_abs] = NOISE_NONE,
    [OP_sign] = NOISE_NONE,
    [OP_min] = NOISE_NONE,
    [OP_max] = NOISE_NONE,
    [OP_relu] = NOISE_NONE,
    [OP_relu6] = NOISE_NONE,
    [OP_clamp] = NOISE_NONE,
    [OP_where] = NOISE_NONE,
    [OP_floor] = NOISE_NONE,
    [OP_ceil] = NOISE_NONE,
    [OP_trunc] = NOISE_NONE,
    [OP_round] = NOISE_NONE,
    [OP_global_max_pool] = NOISE_NONE,
    [OP_thresholded_relu] = NOISE_NONE,
    [OP_add] = NOISE_EXACT,
    [OP_sub] = NOISE_EXACT,
    [OP_mul] = NOISE_EXACT,
    [OP_square] = NOISE_EXACT,
    [OP_reduce_sum] = NOISE_SUM,
    [OP_reduce_mean] = NOISE_SUM,
    [OP_cumsum] = NOISE_SUM,
    [OP_det] = NOISE_SUM,
    [OP_matmul] = NOISE_SUM,
    [OP_qmatmul] = NOISE_SUM,
    [OP_block_decode] = NOISE_NONE,
    [OP_block_matmul] = NOISE_SUM,
    [OP_grouped_matmul] = NOISE_SUM,
    [OP_block_grouped_matmul] = NOISE_SUM,
    [OP_affine_matmul] = NOISE_SUM,
    [OP_affine_grouped_matmul] = NOISE_SUM,
    [OP_moe] = NOISE_SUM,
    [OP_linear] = NOISE_SUM,
    [OP_conv] = NOISE_SUM,
    [OP_conv_transpose] = NOISE_SUM,
    [OP_avg_pool] = NOISE_SUM,
    [OP_layer_norm] = NOISE_SUM,
    [OP_batch_norm] = NOISE_SUM,
    [OP_attention] = NOISE_SUM,
    [OP_rope] = NOISE_SUM,
    [OP_roi_pool] = NOISE_SUM,
    [OP_lstm] = NOISE_SUM,
    [OP_gru] = NOISE_SUM,
    [OP_rnn] = NOISE_SUM,
    [OP_resize] = NOISE_SUM,
    [OP_gelu_erf] = NOISE_SUM,
    [OP_gelu_tanh] = NOISE_SUM,
    [OP_global_avg_pool] = NOISE_SUM,
    [OP_log_softmax] = NOISE_SUM,
    [OP_reduce_logsumexp] = NOISE_SUM,
};

static double epsilon_of(DType t)
{
    return t == DTYPE_f64 ? 0x1p-52 : t == DTYPE_f16 ? 0x1p-10 : t == DTYPE_bf16 ? 0x1p-7 : 0x1p-23;
}

static double smallest_of(DType t)
{
    return t == DTYPE_f64 ? 0x1p-1074 : t == DTYPE_f16 ? 0x1p-24 : t == DTYPE_bf16 ? 0x1p-133 : 0x1p-149;
}

static double largest_of(const Tensor *t)
{
    double largest = 0;
    for (int64_t i = 0; i < t->numel; i++) {
        const double v = fabs(tensor_get_f64(t, i));
        largest = isfinite(v) && v > largest ? v : largest;
    }
    return largest;
}

// Exact results of small dyadic numbers.
static bool has_few_bits(double v)
{
    return v * 256 == rint(v * 256) && fabs(v) < 4096;
}

// May it be done by Winograd's schedule? That rounds by up to the accuracy of Config, and what direct sums
// have exactly it does not.
static bool is_wide_conv(const Graph *g, const Node *n)
{
    if (n->op != OP_conv || n->dtype != DTYPE_f32)
        return false;
    const Shape *w = graph_node(g, n->src[1])->shape;
    return w->rank == 4 && w->dim[0] >= 4 && w->dim[1] >= 8 && w->dim[2] == 3 && w->dim[3] == 3;
}

static void add_wide_noise(Tensor *t, uint64_t *rng)
{
    const double size = SAMPLE_ACCURACY * largest_of(t);
    for (int64_t i = 0; i < t->numel; i++) {
        const double v = tensor_get_f64(t, i), u = (double)(rng_u64(rng) >> 11) * 0x1p-52 - 1;
        if (isfinite(v))
            tensor_set_f64(t, i, v + u * size);
    }
}

// Weights of affine products are decoded in the type of their scales, whatever the type of the sum is.
static double epsilon_in(const Graph *g, const Node *n, DType t)
{
    const double own = epsilon_of(t);
    return n->op == OP_affine_matmul || n->op == OP_affine_grouped_matmul
               ? fmax(own, epsilon_of(graph_node(g, n->src[2])->dtype))
               : own;
}

static void add_noise(Tensor *t, Noise kind, double epsilon, uint64_t *rng)
{
    const double largest = largest_of(t);
    const double absolute = smallest_of(t->dtype); // what underflows is rounded to a multiple of it
    const bool is_half =
        t->dtype == DTYPE_f16 || t->dtype == DTYPE_bf16; // few bits by rounding, not exactness
    bool is_exact = kind == NOISE_SUM && !is_half;
    for (int64_t i = 0; i < t->numel && is_exact; i++)
        is_exact = has_few_bits(tensor_get_f64(t, i));
    if (dtype_info[t->dtype].cls != DCLASS_FLOAT || kind == NOISE_NONE || is_exact)
        return;
    for (int64_t i = 0; i < t->numel; i++) {
        const double v = tensor_get_f64(t, i), u = (double)(rng_u64(rng) >> 11) * 0x1p-52 - 1;
        const double size = 4 * (epsilon * (kind == NOISE_SUM ? largest : fabs(v)) + absolute);
        if (!isfinite(v) || (kind == NOISE_EXACT && !is_half && has_few_bits(v)))
            continue;
        tensor_set_f64(t, i, fabs(v) < size && u > 0.5 ? 0 : v + u * size); // what cancels may be exactly 0
    }
}

typedef struct Noisy {
    Tensor *value[SAMPLE_RUNS]; // by NodeId
} Noisy;

// What a leaf holds: a state what the noisy run before left.
static Tensor leaf_value(const Reference *r, uint32_t run, const Noisy *n, NodeId id)
{
    const Graph *g = r->sample->g;
    for (uint32_t k = 0; run > 0 && k < g->states.len; k++)
        if (g->states.data[k].node == id)
            return n->value[run - 1][g->states.data[k].next];
    return r->run[run].value[id];
}

static void run_noisy(Arena *a, const Reference *r, uint32_t run, Noisy *out, uint64_t *rng)
{
    const Graph *g = r->sample->g;
    Tensor *value = ARENA_ARRAY(a, Tensor, g->nodes.len), **results = ARENA_ARRAY(a, Tensor *, g->nodes.len);
    out->value[run] = value;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (op_info[n->op].kind == OPKIND_LEAF)
            value[id] = leaf_value(r, run, out, id);
        if (op_info[n->op].kind == OPKIND_LEAF || r->run[run].value[id].data == NULL)
            continue;
        const bool ok = node_evaluate(a, g, id, value, results);
        rlx_assert(ok);
        if (is_wide_conv(g, n))
            add_wide_noise(&results[id][0], rng);
        for (uint32_t i = 0; i < n->n_results; i++)
            add_noise(&results[id][i], noise_of[n->op], epsilon_in(g, n, results[id][i].dtype), rng);
        value[id] = results[id][0];
    }
}

// Values of a node after `run`, N_NOISY times.
static Tensor *noisy_values(Arena *a, const Reference *r, uint32_t run, NodeId id)
{
    Tensor *out = ARENA_ARRAY(a, Tensor, N_NOISY);
    uint64_t rng = r->sample->seed;
    for (uint32_t k = 0; k < N_NOISY; k++) {
        Noisy n;
        for (uint32_t i = 0; i <= run; i++)
            run_noisy(a, r, i, &n, &rng);
        out[k] = n.value[run][id];
    }
    return out;
}

// --- comparing -----------------------------------------------------------------------------------

static bool is_near(const Tensor *want, int64_t i, const Tensor *got, double allowed)
{
    if (dtype_info[want->dtype].cls != DCLASS_FLOAT)
        return tensor_get_i64(got, i) == tensor_get_i64(want, i);
    const double a = tensor_get_f64(got, i), b = tensor_get_f64(want, i);
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= allowed;
}

// What noise can do to element i: infinite when it decides about an integer, NaN or infinity.
static double spread_of(const Tensor *want, int64_t i, const Tensor *noisy)
{
    double spread = 0;
    for (uint32_t k = 0; k < N_NOISY; k++) {
        if (!is_near(want, i, &noisy[k], (double)INFINITY))
            return (double)INFINITY;
        if (dtype_info[want->dtype].cls != DCLASS_FLOAT)
            continue;
        const double d = fabs(tensor_get_f64(&noisy[k], i) - tensor_get_f64(want, i));
        spread = d > spread ? d : spread;
    }
    return spread;
}

// Noise decides about the element, or makes another number of it (a pole of tan), or as much as that: then
// NaN and infinity may come out too. So they may where intermediate results overflow.
static bool is_excused(const Tensor *want, int64_t i, double spread, double allowed)
{
    if (spread == (double)INFINITY || dtype_info[want->dtype].cls != DCLASS_FLOAT)
        return spread == (double)INFINITY;
    const double largest = largest_of(want), v = fabs(tensor_get_f64(want, i));
    return 8 * spread > largest || (spread > v && spread > 0.2 * allowed) || v > 1e30;
}

static const char *describe(Arena *a, const Tensor *want, int64_t i, const Tensor *got)
{
    Str s = str_new(a);
    str_printf(&s, "[%lld] of %lld is ", (long long)i, (long long)want->numel);
    if (dtype_info[want->dtype].cls != DCLASS_FLOAT) {
        str_printf(&s, "%lld, expected %lld", (long long)tensor_get_i64(got, i),
                   (long long)tensor_get_i64(want, i));
        return str_text(&s);
    }
    str_f64(&s, tensor_get_f64(got, i));
    str_add(&s, ", expected ");
    str_f64(&s, tensor_get_f64(want, i));
    str_add(&s, ", largest ");
    str_f64(&s, largest_of(want));
    return str_text(&s);
}

Outcome reference_compare(Arena *a, const Reference *r, uint32_t run, NodeId id, const void *bytes)
{
    const Tensor *want = &r->run[run].value[id], *noisy = NULL;
    Tensor got = *want;
    Outcome o = {0};
    memcpy(&got.data, &bytes, sizeof bytes);
    const double relative = fmax(want->dtype == DTYPE_f64 ? 1e-9 : 1e-4, 4 * epsilon_of(want->dtype));
    const double allowed = relative * fmax(largest_of(want), 0.01);
    for (int64_t i = 0; i < want->numel && o.message == NULL; i++) {
        if (is_near(want, i, &got, allowed))
            continue;
        o.needed_allowance = true;
        noisy = noisy != NULL ? noisy : noisy_values(a, r, run, id);
        const double spread = spread_of(want, i, noisy);
        if (!is_excused(want, i, spread, allowed) && !is_near(want, i, &got, allowed + 8 * spread))
            o.message = describe(a, want, i, &got);
    }
    return o;
}
