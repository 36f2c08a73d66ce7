// SPDX-License-Identifier: Apache-2.0
// Random operators. Each has a generator of its own: MT19937, seeded with one number as NumPy's RandomState
// is, and its state is a state of the graph, so that the next run goes on where this one ended. Uniform
// numbers are doubles of 53 bits of two words each, again as RandomState makes them; normal numbers of f32
// and narrower types are made of two words each. The seed is the attribute `seed`, truncated to a whole
// number modulo 2^32; generators without one are seeded with 5489, 5490 ... in the order of their nodes.
#include "compiler/import/onnx/onnx_import.h"

#include <math.h>

enum { WORDS = 624, DEFAULT_SEED = 5489 };

static NodeId f64(OnnxNode *n, double v)
{
    return onnx_scalar(n, DTYPE_f64, v);
}

static uint32_t read_seed(OnnxNode *n, bool is_float)
{
    if (!onnx_has_attr(n, "seed"))
        return DEFAULT_SEED + n->graph->states.len;
    if (!is_float)
        return (uint32_t)onnx_int(n, "seed", 0);
    const double seed = trunc(onnx_float(n, "seed", 0));
    if (!(fabs(seed) < 0x1p62)) {
        onnx_fail(n, E0203, "attribute 'seed' is %g", seed);
        return 0;
    }
    return (uint32_t)(int64_t)seed;
}

// A graph of its own runs as often as its branch or loop wants, and cannot have states.
static bool is_in_subgraph(const OnnxNode *n)
{
    for (const OnnxScope *s = n->scope; s; s = s->parent)
        if (s->captures)
            return true;
    return false;
}

static NodeId new_generator(OnnxNode *n, uint32_t seed)
{
    const Shape s = shape_of(1, &(Dim){WORDS + 1});
    uint32_t *state = ARENA_ARRAY(n->model->arena, uint32_t, WORDS + 1);
    state[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        state[i] = 1812433253u * (state[i - 1] ^ state[i - 1] >> 30) + i;
    state[WORDS] = WORDS;
    if (is_in_subgraph(n))
        onnx_fail(n, E0206, "random numbers inside a sub-graph are not supported");
    if (n->failed)
        return 0;
    const char *name = arena_printf(n->model->arena, "onnx_random_%u", n->graph->states.len);
    const NodeId id = graph_state(n->graph, name, DTYPE_u32, &s, state, (WORDS + 1) * sizeof *state, n->span);
    n->failed = id == 0;
    return id;
}

// `count` rows of words: u32[count, each]. Of a count that the model computes each run draws the largest.
static NodeId draw_words(OnnxNode *n, uint32_t seed, Dim count, Dim each)
{
    const NodeId state = new_generator(n, seed);
    int64_t low = 0, most = 0;
    if (n->failed)
        return 0;
    const bool is_computed = graph_dim_is_computed(n->graph, count);
    dim_range(n->graph->dims, count, &low, &most);
    rlx_assert(n->graph->states.len != 0);
    const uint32_t index = n->graph->states.len - 1;
    NodeId words = onnx_op_ints(n, OP_mt19937, state, A_mt19937_shape,
                                (const Dim[]){is_computed ? most : count, each}, 2);
    const NodeId next = onnx_result(n, words, 1);
    if (!n->failed)
        n->graph->states.data[index].next = next;
    if (!n->failed && is_computed)
        words = graph_first(n->graph, words, 0, count, n->span);
    n->failed = n->failed || !words;
    return words;
}

static NodeId high_bits(OnnxNode *n, NodeId words, int64_t which, double shift)
{
    const NodeId column = onnx_slice(n, words, 1, which, which + 1, 1);
    const NodeId bits = onnx_op2(n, OP_shift_right, column, onnx_scalar(n, DTYPE_u32, shift));
    return onnx_cast(n, onnx_cast(n, bits, DTYPE_i32), DTYPE_f64); // which CPUs convert as vectors
}

static NodeId mul_add(OnnxNode *n, NodeId x, double factor, double summand)
{
    return onnx_op2(n, OP_add, onnx_op2(n, OP_mul, x, f64(n, factor)), f64(n, summand));
}

// Numbers in [0, 1) of a shape, f64.
static NodeId uniform(OnnxNode *n, uint32_t seed, const Shape *s)
{
    const NodeId words = draw_words(n, seed, dim_product(n->graph->dims, s->dim, s->rank), 2);
    const NodeId high = onnx_op2(n, OP_mul, high_bits(n, words, 0, 5), f64(n, 0x1p26));
    const NodeId bits = onnx_op2(n, OP_add, high, high_bits(n, words, 1, 6));
    return onnx_reshape(n, onnx_op2(n, OP_mul, bits, f64(n, 0x1p-53)), s);
}

// The first half of x (0) or the second (1): x has an axis of 2 more than s, in front.
static NodeId half_of(OnnxNode *n, NodeId x, int64_t which, const Shape *s)
{
    return onnx_reshape(n, onnx_slice(n, x, 0, which, which + 1, 1), s);
}

// -2 log(u) for the uniform number u = (word + 1/2) / 2^32, roughly: x is the word as an i32 over 2^32, so
// that u is 1 + x where that is negative, and near 1 as exact as near 0.
static NodeId decay_of(OnnxNode *n, NodeId x)
{
    const NodeId is_high = onnx_op_number(n, OP_lt, x, 0);
    const NodeId high = onnx_op1(n, OP_log1p, x),
                 low = onnx_op1(n, OP_log, onnx_op_number(n, OP_max, x, 0x1p-33));
    return onnx_op_number(n, OP_mul, onnx_op3(n, OP_where, is_high, high, low), -2);
}

// Normal numbers of a shape, f32, by Box and Muller from two words each: the first half of the words, then
// the second. f32 cannot tell more bits of a uniform number.
static NodeId normal_f32(OnnxNode *n, uint32_t seed, const Shape *s, const Shape *both)
{
    const NodeId words = draw_words(n, seed, dim_product(n->graph->dims, both->dim, both->rank), 1);
    if (n->failed)
        return 0;
    NodeBuild b = ONNX_BEGIN(n, OP_bitcast, words);
    node_int(&b, A_bitcast_to, DTYPE_i32);
    const NodeId all = onnx_reshape(n, onnx_end(n, &b), both);
    const NodeId first = onnx_op_number(n, OP_mul, onnx_cast(n, half_of(n, all, 0, s), DTYPE_f32), 0x1p-32),
                 second = onnx_cast(n, half_of(n, all, 1, s), DTYPE_f32);
    const NodeId radius = onnx_op1(n, OP_sqrt, decay_of(n, first));
    const NodeId turn = onnx_op1(n, OP_cos, onnx_op_number(n, OP_mul, second, 6.283185307179586 * 0x1p-32));
    return onnx_op2(n, OP_mul, radius, turn);
}

// The same in f64, from two uniform numbers each.
static NodeId normal_f64(OnnxNode *n, uint32_t seed, const Shape *s, const Shape *both)
{
    const NodeId u = uniform(n, seed, both);
    const NodeId decay = onnx_op1(n, OP_log1p, onnx_op1(n, OP_neg, half_of(n, u, 0, s)));
    const NodeId radius = onnx_op1(n, OP_sqrt, onnx_op2(n, OP_mul, decay, f64(n, -2)));
    const NodeId turn =
        onnx_op1(n, OP_cos, onnx_op2(n, OP_mul, half_of(n, u, 1, s), f64(n, 6.283185307179586)));
    return onnx_op2(n, OP_mul, radius, turn);
}

// --- operators ---

static Shape attr_shape(OnnxNode *n)
{
    OnnxInts dims;
    if (!onnx_ints(n, "shape", &dims))
        onnx_fail(n, E0203, "needs the attribute 'shape'");
    if (dims.n > SHAPE_MAX_RANK)
        onnx_fail(n, E0206, "a shape with %u axes is not supported", dims.n);
    Shape s = {.rank = n->failed ? 0 : dims.n};
    for (uint32_t i = 0; i < s.rank; i++)
        if (!dim_from_size(dims.v[i], &s.dim[i]))
            onnx_fail(n, E0203, "attribute 'shape' has the entry %lld", (long long)dims.v[i]);
    return n->failed ? (Shape){0} : s;
}

static void import_uniform(OnnxNode *n, const Shape *s, DType dflt)
{
    const double low = onnx_float(n, "low", 0), high = onnx_float(n, "high", 1);
    const DType type = onnx_type_attr(n, "dtype", dflt);
    const NodeId u = uniform(n, read_seed(n, true), s);
    onnx_out(n, 0, onnx_cast(n, mul_add(n, u, high - low, low), type));
}

static void import_normal(OnnxNode *n, const Shape *s, DType dflt)
{
    const double mean = onnx_float(n, "mean", 0), scale = onnx_float(n, "scale", 1);
    const DType type = onnx_type_attr(n, "dtype", dflt);
    const uint32_t seed = read_seed(n, true);
    Shape both = {.rank = s->rank + 1, .dim = {2}};
    if (s->rank == SHAPE_MAX_RANK) {
        onnx_fail(n, E0206, "a shape with %d axes is not supported", SHAPE_MAX_RANK);
        return;
    }
    for (uint32_t i = 0; i < s->rank; i++)
        both.dim[i + 1] = s->dim[i];
    const NodeId z = type == DTYPE_f64 ? normal_f64(n, seed, s, &both) : normal_f32(n, seed, s, &both);
    const NodeId scaled = onnx_op_number(n, OP_mul, z, scale);
    onnx_out(n, 0, onnx_cast(n, onnx_op_number(n, OP_add, scaled, mean), type));
}

void onnx_import_random_uniform(OnnxNode *n)
{
    const Shape s = attr_shape(n);
    import_uniform(n, &s, DTYPE_f32);
}

void onnx_import_random_normal(OnnxNode *n)
{
    const Shape s = attr_shape(n);
    import_normal(n, &s, DTYPE_f32);
}

void onnx_import_random_uniform_like(OnnxNode *n)
{
    const NodeId like = onnx_src(n, 0);
    const Shape s = *onnx_shape(n, like);
    import_uniform(n, &s, onnx_dtype(n, like));
}

void onnx_import_random_normal_like(OnnxNode *n)
{
    const NodeId like = onnx_src(n, 0);
    const Shape s = *onnx_shape(n, like);
    import_normal(n, &s, onnx_dtype(n, like));
}

// As RandomState.binomial does for one trial: u > 1 - p up to a half, u <= p above.
void onnx_import_bernoulli(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), p = onnx_cast(n, x, DTYPE_f64);
    const DType type = onnx_type_attr(n, "dtype", onnx_dtype(n, x));
    const Shape s = *onnx_shape(n, x);
    const NodeId u = uniform(n, read_seed(n, true), &s);
    const NodeId is_rare = onnx_op2(n, OP_le, p, f64(n, 0.5));
    const NodeId more = onnx_op2(n, OP_max, p, onnx_op2(n, OP_sub, f64(n, 1), p)); // 1 - p where that is rare
    onnx_out(n, 0, onnx_cast(n, onnx_op2(n, OP_logical_xor, is_rare, onnx_op2(n, OP_le, u, more)), type));
}

// The class in whose part of [0, sum of probabilities) a uniform number falls. x: [rows, classes] logarithms.
void onnx_import_multinomial(OnnxNode *n)
{
    const NodeId x = onnx_cast(n, onnx_src(n, 0), DTYPE_f64);
    const int64_t samples = onnx_int(n, "sample_size", 1);
    const DType type = onnx_type_attr(n, "dtype", DTYPE_i32);
    const Shape s = *onnx_shape(n, x);
    if (!n->failed && (s.rank != 2 || samples < 0 || samples > DIM_MAX_VALUE))
        onnx_fail(n, E0204, "needs an input [rows, classes] and a 'sample_size' of at least 0");
    if (n->failed)
        return;
    const NodeId shares = onnx_cumsum(n, onnx_softmax(n, x, 1), 1, false);
    const NodeId upto = onnx_slice(n, shares, 1, 0, -1, 1); // the last class takes the rest
    const Shape drawn = {.rank = 2, .dim = {s.dim[0], samples}};
    const int64_t one = 1, two = 2;
    const NodeId u = onnx_unsqueeze(n, uniform(n, read_seed(n, true), &drawn), &two, 1);
    const NodeId is_past = onnx_op2(n, OP_le, onnx_unsqueeze(n, upto, &one, 1), u);
    const NodeId count = onnx_reduce(n, OP_reduce_sum, onnx_cast(n, is_past, DTYPE_i32), &two, 1);
    onnx_out(n, 0, onnx_cast(n, onnx_squeeze(n, count, &two, 1), type));
}

// In inference the result is the operand, and the mask keeps everything.
static void import_identity(OnnxNode *n, NodeId x)
{
    const DType type = n->opset < 10 ? onnx_dtype(n, x) : DTYPE_bool;
    const Shape s = *onnx_shape(n, x);
    onnx_ignore_attr(n, "seed");
    onnx_out(n, 0, x);
    if (onnx_wants(n, 1))
        onnx_out(n, 1, onnx_expand(n, onnx_scalar(n, type, 1), s.dim, s.rank));
}

// Training is an operand since opset 12, and may be known only at run time.
void onnx_import_dropout(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), given = onnx_opt(n, 1), mode = onnx_opt(n, 2);
    double training = 0;
    onnx_ignore_attr(n, "ratio");
    onnx_ignore_attr(n, "is_test");
    const bool is_known = !mode || node_is_scalar_const(n->graph, mode, &training);
    if (is_known && (training >= 0 && training <= 0)) {
        import_identity(n, x);
        return;
    }
    const Shape s = *onnx_shape(n, x), scalar = {0};
    const NodeId ratio = given ? onnx_reshape(n, onnx_cast(n, given, DTYPE_f64), &scalar) : f64(n, 0.5);
    NodeId keep = onnx_op2(n, OP_ge, uniform(n, read_seed(n, false), &s), ratio);
    NodeId scale = onnx_op1(n, OP_reciprocal, onnx_op2(n, OP_sub, f64(n, 1), ratio));
    if (!is_known) {
        const NodeId trains = onnx_reshape(n, mode, &scalar);
        keep = onnx_op2(n, OP_logical_or, onnx_op1(n, OP_logical_not, trains), keep);
        scale = onnx_op3(n, OP_where, trains, scale, f64(n, 1));
    }
    const NodeId scaled = onnx_op2(n, OP_mul, x, onnx_cast(n, scale, onnx_dtype(n, x)));
    onnx_out(n, 0, onnx_op3(n, OP_where, keep, scaled, onnx_scalar(n, onnx_dtype(n, x), 0)));
    onnx_out(n, 1, keep);
}
