// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that compute, of `if` and of results: what fits (constant and symbolic), and each way
// not to fit.
#include "shape_cases.h"

static const Good elementwise_broadcasts_good[] = {
    {OP_add, "f32[2, 3]; f32[3]", {{0}}, "f32[2, 3]"},
    {OP_add, "f32[2, 1]; f32[1, 3]", {{0}}, "f32[2, 3]"},
    {OP_add, "i8[seq, 4]; i8[4]", {{0}}, "i8[seq, 4]"},
    {OP_add, "f32[seq, 1]; f32[1, seq]", {{0}}, "f32[seq, seq]"},
    {OP_add, "f32[0, 3]; f32[1, 3]", {{0}}, "f32[0, 3]"},
    {OP_add, "f32[]; f32[]", {{0}}, "f32[]"},
    {OP_lt, "u8[2]; u8[2]", {{0}}, "bool[2]"},
    {OP_eq, "bool[2]; bool[]", {{0}}, "bool[2]"},
    {OP_is_nan, "bf16[2]", {{0}}, "bool[2]"},
    {OP_where, "bool[3, 1]; i64[]; i64[4]", {{0}}, "i64[3, 4]"},
    {OP_clamp, "f16[5]; f16[]; f16[]", {{0}}, "f16[5]"},
    {OP_bit_and, "bool[5]; bool[5]", {{0}}, "bool[5]"},
};

static void elementwise_broadcasts(void **state)
{
    CHECK_GOOD(*state, elementwise_broadcasts_good);
}

static const Bad elementwise_failures_bad[] = {
    {OP_add, "f32[2, 3]; f32[2]", {{0}}, E0204, "add: f32[2, 3] x f32[2]: the shapes do not broadcast"},
    {OP_add, "f32[seq]; f32[other]", {{0}}, E0204, "do not broadcast"},
    {OP_add, "f32[seq]; f32[4]", {{0}}, E0204, "do not broadcast"},
    {OP_add, "f32[2]; f16[2]", {{0}}, E0205, "f32[2] x f16[2]: operands 0 and 1 have different"},
    {OP_add, "bool[2]; bool[2]", {{0}}, E0205, "must be a float or integer type"},
    {OP_exp, "i32[2]", {{0}}, E0205, "must be a float type"},
    {OP_bit_not, "f32[2]", {{0}}, E0205, "must be an integer type or bool"},
    {OP_logical_and, "i8[2]; i8[2]", {{0}}, E0205, "must be bool"},
    {OP_where, "i8[2]; f32[2]; f32[2]", {{0}}, E0205, "operand 0 must be bool"},
    {OP_where, "bool[2]; f32[2]; f64[2]", {{0}}, E0205, "operands 1 and 2"},
    {OP_add, "f32[1048576, 1, 1]; f32[1, 1048576, 2]", {{0}}, E0004, "too large"},
};

static void elementwise_failures(void **state)
{
    CHECK_BAD(*state, elementwise_failures_bad);
}

static const Good reductions_good[] = {
    {OP_reduce_sum, "f32[2, 3, 4]", {{0}}, "f32[]"},
    {OP_reduce_sum, "f32[2, 3, 4]", {LIST(A_reduce_sum_axes, -1, 0)}, "f32[3]"},
    {OP_reduce_max,
     "i32[2, seq]",
     {LIST(A_reduce_max_axes, 0), INT(A_reduce_max_keepdims, 1)},
     "i32[1, seq]"},
    {OP_reduce_mean, "f32[2, seq]", {LIST(A_reduce_mean_axes, 1)}, "f32[2]"},
    {OP_reduce_prod, "f32[0, 2]", {LIST(A_reduce_prod_axes, 0)}, "f32[2]"},
    {OP_reduce_min, "f32[]", {{0}}, "f32[]"},
    {OP_reduce_l1, "f32[2, 3]", {INT(A_reduce_l1_keepdims, 1)}, "f32[1, 1]"},
    {OP_reduce_l2, "f16[2, 3]", {LIST(A_reduce_l2_axes, 1)}, "f16[2]"},
    {OP_reduce_logsumexp, "f32[2, 3]", {LIST(A_reduce_logsumexp_axes, 0)}, "f32[3]"},
    {OP_argmax, "f32[2, 3]", {{0}}, "i64[2]"},
    {OP_argmin, "u8[2, seq]", {INT(A_argmin_axis, 0), INT(A_argmin_keepdims, 1)}, "i64[1, seq]"},
    {OP_cumsum, "i64[2, 0]", {{0}}, "i64[2, 0]"},
    {OP_cumprod, "i64[2, 0]", {{0}}, "i64[2, 0]"},
    {OP_det, "f32[b, 4, 4]", {{0}}, "f32[b]"},
    {OP_det, "f64[0, 0]", {{0}}, "f64[]"},
    {OP_tree_walk, "f32[n, 3]; i32[7, 4]; f32[7]; i32[2]", {INT(A_tree_walk_depth, 3)}, "i32[n, 2]"},
    {OP_softmax, "f32[seq, 5]", {{0}}, "f32[seq, 5]"},
    {OP_log_softmax, "f64[2]", {INT(A_log_softmax_axis, 0)}, "f64[2]"},
};

static const Bad reductions_bad[] = {
    {OP_reduce_sum, "f32[2, 3]", {LIST(A_reduce_sum_axes, 2)}, E0203, "axes 2 is out of range"},
    {OP_reduce_sum, "f32[2, 3]", {LIST(A_reduce_sum_axes, 1, -1)}, E0203, "axis 1 twice"},
    {OP_reduce_sum, "bool[2, 3]", {{0}}, E0205, "must be a float or integer type"},
    {OP_reduce_l2, "i32[2, 3]", {{0}}, E0205, "must be a float type"},
    {OP_argmax, "f32[2, 0]", {{0}}, E0204, "argmax: f32[2, 0]: axis 1 has no element"},
    {OP_argmax, "f32[]", {{0}}, E0203, "axis -1 is out of range"},
    {OP_softmax, "i32[2]", {{0}}, E0205, "softmax: i32[2]"},
    {OP_cumsum, "bool[2]", {{0}}, E0205, "must be a float or integer type"},
    {OP_cumprod, "bool[2]", {{0}}, E0205, "must be a float or integer type"},
    {OP_det, "f32[2, 3]", {{0}}, E0204, "rows and columns"},
    {OP_det, "i32[2, 2]", {{0}}, E0205, "must be a float type"},
    {OP_det, "f32[2]", {{0}}, E0204, "must have a rank of 2 to 8"},
    {OP_tree_walk,
     "f32[n, 3]; i32[7, 4]; f32[6]; i32[2]",
     {INT(A_tree_walk_depth, 3)},
     E0204,
     "nodes and thresholds"},
    {OP_tree_walk,
     "f32[n, 3]; i32[7, 3]; f32[7]; i32[2]",
     {INT(A_tree_walk_depth, 3)},
     E0204,
     "the entries of a node"},
    {OP_tree_walk,
     "f32[n, 0]; i32[7, 4]; f32[7]; i32[2]",
     {INT(A_tree_walk_depth, 3)},
     E0204,
     "at least one feature"},
    {OP_tree_walk,
     "f32[n, 3]; i64[7, 4]; f32[7]; i32[2]",
     {INT(A_tree_walk_depth, 3)},
     E0205,
     "needs nodes and roots of i32"},
    {OP_tree_walk,
     "f32[n, 3]; i32[7, 4]; f32[7]; i32[2]",
     {INT(A_tree_walk_depth, -1)},
     E0203,
     "`depth` is -1"},
    {OP_mt19937, "u32[624]", {LIST(A_mt19937_shape, 3)}, E0204, "the words of the state"},
    {OP_mt19937, "i32[625]", {LIST(A_mt19937_shape, 3)}, E0205, "the state must be u32"},
};

static void reductions(void **state)
{
    CHECK_GOOD(*state, reductions_good);
    CHECK_BAD(*state, reductions_bad);
}

// Axes that are not given are filled in, so that equal reductions are one node.
static void equal_reductions_are_one_node(void **state)
{
    Fixture *f = *state;
    const NodeId x = input(f, "x", DTYPE_f32, 2, (const Dim[]){2, 3});
    NodeBuild a = node_begin(f->g, OP_reduce_sum, (Span){0}, NULL), b = a;
    node_src(&a, x);
    node_src(&b, x);
    node_ints(&b, A_reduce_sum_axes, (const int64_t[]){-1, 0}, 2);
    assert_int_equal(node_end(&a), node_end(&b));
}

static const Good norms_good[] = {
    {OP_layer_norm, "f32[2, seq, 8]; f32[8]; f32[8]", {{0}}, "f32[2, seq, 8]"},
    {OP_layer_norm, "f32[2, 3, 4]; f32[3, 4]; f32[4]", {INT(A_layer_norm_axis, 1)}, "f32[2, 3, 4]"},
    {OP_layer_norm, "f32[2, 8]; -; f32[8]", {{0}}, "f32[2, 8]"},
    {OP_layer_norm, "f32[2, 8]", {{0}}, "f32[2, 8]"},
    {OP_rms_norm, "bf16[2, 8]; bf16[1]", {{0}}, "bf16[2, 8]"},
    {OP_batch_norm, "f32[n, 3, 4]; f32[3]; f32[3]; f32[3]; f32[3]", {{0}}, "f32[n, 3, 4]"},
    {OP_global_avg_pool, "f32[2, 3, h, w]", {{0}}, "f32[2, 3, 1, 1]"},
    {OP_global_max_pool, "f32[2, 3, 5]", {{0}}, "f32[2, 3, 1]"},
};

static const Bad norms_bad[] = {
    {OP_layer_norm, "f32[2, 8]; f32[4]", {{0}}, E0204, "operand 1 does not broadcast to [8]"},
    {OP_layer_norm, "f32[2, 8]; f32[2, 8]", {{0}}, E0204, "operand 1 does not broadcast to [8]"},
    {OP_layer_norm, "f32[2, 8]; f16[8]", {{0}}, E0205, "operands 0 and 1"},
    {OP_layer_norm, "f32[2, 8]", {REAL(A_layer_norm_epsilon, -1.0)}, E0203, "`epsilon` must be"},
    {OP_rms_norm, "i32[2, 8]", {{0}}, E0205, "must be a float type"},
    {OP_batch_norm, "f32[1, 3]; f32[3]; f32[3]; f32[4]; f32[3]", {{0}}, E0204, "channels 4 and 3 differ"},
    {OP_batch_norm, "f32[3]; f32[3]; f32[3]; f32[3]; f32[3]", {{0}}, E0204, "operand 0 must have a rank"},
    {OP_global_avg_pool, "f32[2, 3]", {{0}}, E0204, "operand 0 must have a rank of 3 to 8, not 2"},
};

static void norms(void **state)
{
    CHECK_GOOD(*state, norms_good);
    CHECK_BAD(*state, norms_bad);
}

static const Good matmuls_good[] = {
    {OP_matmul, "f32[2, 4]; f32[4, 3]", {{0}}, "f32[2, 3]"},
    {OP_matmul, "f32[4]; f32[4, 3]", {{0}}, "f32[3]"},
    {OP_matmul, "f32[2, 4]; f32[4]", {{0}}, "f32[2]"},
    {OP_matmul, "i32[4]; i32[4]", {{0}}, "i32[]"},
    {OP_matmul, "f32[5, 1, 2, 4]; f32[7, 4, 3]", {{0}}, "f32[5, 7, 2, 3]"},
    {OP_matmul, "f32[4]; f32[7, 4, 3]", {{0}}, "f32[7, 3]"},
    {OP_matmul, "f32[b, seq, 8]; f32[8, 16]", {{0}}, "f32[b, seq, 16]"},
    {OP_matmul, "f32[2, 0]; f32[0, 3]", {{0}}, "f32[2, 3]"},
    {OP_matmul,
     "f32[4, 2]; f32[3, 4]",
     {INT(A_matmul_transpose_a, 1), INT(A_matmul_transpose_b, 1)},
     "f32[2, 3]"},
    {OP_linear, "f32[2, seq, 4]; f32[3, 4]; f32[3]", {INT(A_linear_transpose_b, 1)}, "f32[2, seq, 3]"},
    {OP_linear, "f32[4]; f32[4, 3]", {{0}}, "f32[3]"},
};

static const Bad matmuls_bad[] = {
    {OP_matmul,
     "f32[2, 4]; f32[5, 3]",
     {{0}},
     E0204,
     "matmul: f32[2, 4] x f32[5, 3]: inner dims 4 and 5 differ"},
    {OP_matmul, "f32[2, seq]; f32[4, 3]", {{0}}, E0204, "inner dims seq and 4 differ"},
    {OP_matmul, "f32[2, 3, 4]; f32[3, 4, 5]", {{0}}, E0204, "before the last two do not broadcast"},
    {OP_matmul, "f32[]; f32[4]", {{0}}, E0204, "operand 0 must have a rank of 1 to 8, not 0"},
    {OP_matmul, "f32[4]; f32[4]", {INT(A_matmul_transpose_a, 1)}, E0204, "operand 0 must have a rank of 2"},
    {OP_matmul, "bool[2, 2]; bool[2, 2]", {{0}}, E0205, "must be a float or integer type"},
    {OP_matmul, "f32[1048576, 1]; f32[1, 2097152]", {{0}}, E0004, "too large"},
    {OP_linear, "f32[2, 4]; f32[4, 3]; f32[2]", {{0}}, E0204, "operand 2 does not broadcast to [2, 3]"},
    {OP_linear, "f32[2, 4]; f32[4]", {{0}}, E0204, "operand 1 must have rank 2"},
};

static void matmuls(void **state)
{
    CHECK_GOOD(*state, matmuls_good);
    CHECK_BAD(*state, matmuls_bad);
}

static const Good attention_and_rope_good[] = {
    {OP_attention, "f32[2, 8, 5, 16]; f32[2, 2, 7, 16]; f32[2, 2, 7, 4]", {{0}}, "f32[2, 8, 5, 4]"},
    {OP_attention, "f32[4, q, 16]; f32[4, kv, 16]; f32[4, kv, 16]; bool[q, kv]", {{0}}, "f32[4, q, 16]"},
    {OP_attention, "f32[1, 4, q, 8]; f32[1, 4, 3, 8]; f32[1, 4, 3, 8]; f32[3]", {{0}}, "f32[1, 4, q, 8]"},
    {OP_attention, "f32[4, 2, 16]; f32[4, 0, 16]; f32[4, 0, 16]", {{0}}, "f32[4, 2, 16]"},
    {OP_rope, "f32[2, 4, seq, 8]; f32[seq, 4]; f32[seq, 4]", {{0}}, "f32[2, 4, seq, 8]"},
    {OP_rope, "f32[8]; f32[4]; f32[1]", {{0}}, "f32[8]"},
};

static const Bad attention_and_rope_bad[] = {
    {OP_attention,
     "f32[8, 5, 16]; f32[3, 7, 16]; f32[3, 7, 4]",
     {{0}},
     E0204,
     "8 query heads are not a multiple of 3"},
    {OP_attention, "f32[8, 5, 16]; f32[0, 7, 16]; f32[0, 7, 4]", {{0}}, E0204, "8 query heads"},
    {OP_attention,
     "f32[2, 5, 16]; f32[2, 7, 8]; f32[2, 7, 4]",
     {{0}},
     E0204,
     "head sizes of query and key 16 and 8"},
    {OP_attention, "f32[2, 5, 8]; f32[2, 7, 8]; f32[2, 6, 4]", {{0}}, E0204, "key and value 7 and 6 differ"},
    {OP_attention,
     "f32[1, 2, 5, 8]; f32[3, 2, 7, 8]; f32[3, 2, 7, 8]",
     {{0}},
     E0204,
     "batch sizes of query and key"},
    {OP_attention, "f32[5, 8]; f32[7, 8]; f32[7, 8]", {{0}}, E0204, "operand 0 must have a rank of 3 to 8"},
    {OP_attention, "f32[2, 5, 0]; f32[2, 7, 0]; f32[2, 7, 8]", {{0}}, E0204, "head size must not be 0"},
    {OP_attention,
     "f32[2, 5, 8]; f32[2, 7, 8]; f32[2, 7, 8]; bool[5, 6]",
     {{0}},
     E0204,
     "operand 3 does not broadcast"},
    {OP_attention,
     "f32[2, 5, 8]; f32[2, 7, 8]; f32[2, 7, 8]; i32[5, 7]",
     {{0}},
     E0205,
     "the mask must be bool"},
    {OP_attention,
     "f32[2, 5, 8]; f32[2, 7, 8]; f32[2, 7, 8]",
     {INT(A_attention_left, -2)},
     E0203,
     "a window of -2 keys"},
    {OP_rope, "f32[2, 8]", {{0}}, E0202, "operand 1 is missing: without `theta` rope needs cos and sin"},
    {OP_rope, "f32[2, 7]; f32[3]; f32[3]", {{0}}, E0204, "must have an even size, not 7"},
    {OP_rope, "f32[2, d]; f32[3]; f32[3]", {{0}}, E0204, "must have an even size, not d"},
    {OP_rope, "f32[2, 8]; f32[3]; f32[4]", {{0}}, E0204, "operand 1 does not broadcast to [2, 4]"},
};

static void attention_and_rope(void **state)
{
    CHECK_GOOD(*state, attention_and_rope_good);
    CHECK_BAD(*state, attention_and_rope_bad);
}

static const Good lstms_good[] = {
    {OP_lstm,
     "f32[t, 2, 3]; f32[1, 16, 3]; f32[1, 16, 4]",
     {{0}},
     "f32[t, 1, 2, 4]; f32[1, 2, 4]; f32[1, 2, 4]"},
    {OP_lstm,
     "f32[5, 2, 3]; f32[2, 16, 3]; f32[2, 16, 4]; f32[2, 32]; f32[2, 2, 4]; -; f32[2, 12]",
     {TEXT(A_lstm_direction, "bidirectional")},
     "f32[5, 2, 2, 4]; f32[2, 2, 4]; f32[2, 2, 4]"},
    {OP_lstm,
     "f32[2, 5, 3]; f32[1, 16, 3]; f32[1, 16, 4]; -; f32[2, 1, 4]",
     {INT(A_lstm_batch_major, 1)},
     "f32[2, 5, 1, 4]; f32[2, 1, 4]; f32[2, 1, 4]"},
    {OP_gru,
     "f32[t, 2, 3]; f32[2, 12, 3]; f32[2, 12, 4]; f32[2, 24]; f32[2, 2, 4]; i64[]",
     {TEXT(A_gru_direction, "bidirectional")},
     "f32[t, 2, 2, 4]; f32[2, 2, 4]"},
    {OP_rnn,
     "f32[2, t, 3]; f32[1, 4, 3]; f32[1, 4, 4]; f32[1, 8]; f32[2, 1, 4]; i64[]",
     {INT(A_rnn_batch_major, 1), TEXT(A_rnn_activation, "relu")},
     "f32[2, t, 1, 4]; f32[2, 1, 4]"},
};

static const Bad lstms_bad[] = {
    {OP_lstm,
     "f32[5, 2, 3]; f32[1, 15, 3]; f32[1, 16, 4]",
     {{0}},
     E0204,
     "operand 1 must have the shape [1, 16, 3]"},
    {OP_lstm,
     "f32[5, 2, 3]; f32[1, 16, 3]; f32[2, 16, 4]",
     {{0}},
     E0204,
     "operand 2 must have the shape [1, 16, 4]"},
    {OP_lstm,
     "f32[5, 2, 3]; f32[1, 16, 3]; f32[1, 16, 4]; f32[1, 16]",
     {{0}},
     E0204,
     "operand 3 must have the shape [1, 32]"},
    {OP_lstm,
     "f32[5, 2, 3]; f32[1, 16, 3]; f32[1, 16, 4]; -; f32[2, 1, 4]",
     {{0}},
     E0204,
     "operand 4 must have the shape [1, 2, 4]"},
    {OP_lstm,
     "f32[5, 2, 3]; f32[1, 16, 3]; f32[1, 16, 4]",
     {TEXT(A_lstm_direction, "up")},
     E0203,
     "`direction` is \"up\""},
    {OP_lstm, "f32[5, 2]; f32[1, 16, 3]; f32[1, 16, 4]", {{0}}, E0204, "operand 0 must have rank 3"},
    {OP_gru,
     "f32[5, 2, 3]; f32[1, 16, 3]; f32[1, 12, 4]",
     {{0}},
     E0204,
     "operand 1 must have the shape [1, 12, 3]"},
    {OP_gru,
     "f32[5, 2, 3]; f32[1, 12, 3]; f32[1, 12, 4]; -; -; i32[]",
     {{0}},
     E0204,
     "operand 5 must be i64[]"},
    {OP_rnn,
     "f32[5, 2, 3]; f32[1, 4, 3]; f32[1, 4, 4]",
     {TEXT(A_rnn_activation, "sigmoid")},
     E0203,
     "`activation` is \"sigmoid\", expected tanh or relu"},
    {OP_rnn,
     "f32[5, 2, 3]; f32[1, 4, 3]; f32[1, 4, 4]",
     {REAL(A_rnn_clip, -1.0)},
     E0203,
     "`clip` must not be negative"},
};

static void lstms(void **state)
{
    CHECK_GOOD(*state, lstms_good);
    CHECK_BAD(*state, lstms_bad);
}

static void results_by_index(void **state)
{
    Fixture *f = *state;
    const Arg args[CASE_ARGS] = {LIST(A_split_sizes, 1, 2)};
    const NodeId split = build_case(f, OP_split, "f32[3]", args);
    assert_string_equal(result_types(f, graph_result(f->g, split, 1)), "f32[2]");
    NodeBuild b = node_begin(f->g, OP_result, (Span){0}, NULL);
    node_src(&b, split);
    node_int(&b, A_result_index, 2);
    assert_int_equal(node_end(&b), 0);
    assert_error(f, E0203, "`index` is 2, but split has 2 results");
}

// A branch with one input of the type and, as outputs, the input `copies` times.
static Graph *branch(Fixture *f, const char *type, uint32_t copies)
{
    Graph *g = graph_new_like(f->g, "branch");
    TensorType t;
    read_type(f, type, &t);
    const NodeId x = graph_input(g, "x", t.dtype, &t.shape, (Span){0});
    for (uint32_t i = 0; i < copies; i++)
        graph_output(g, arena_printf(&f->arena, "y%u", i), x);
    return g;
}

static NodeId build_if(Fixture *f, const char *types, Graph *yes, Graph *no)
{
    NodeBuild b = node_begin(f->g, OP_if, (Span){0}, NULL);
    for (const char *s = types; *s != '\0';) {
        TensorType t;
        s = read_type(f, s, &t);
        node_src(&b, graph_input(f->g, arena_printf(&f->arena, "in%u", f->g->nodes.len), t.dtype, &t.shape,
                                 (Span){0}));
        s += *s == ';' ? 1 + skip_spaces(s + 1) : 0;
    }
    node_graph(&b, A_if_then, yes);
    node_graph(&b, A_if_else, no);
    return node_end(&b);
}

static void ifs(void **state)
{
    Fixture *f = *state;
    Graph *one = branch(f, "f32[s]", 1), *two = branch(f, "f32[s]", 2), *other = branch(f, "f32[4]", 1);
    assert_string_equal(result_types(f, build_if(f, "bool[1]; f32[s]", one, one)), "f32[s]");
    assert_string_equal(result_types(f, build_if(f, "bool[]; f32[s]", two, two)), "f32[s]; f32[s]");
    assert_int_equal(build_if(f, "bool[]; f32[s]", one, two), 0);
    assert_error(f, E0204, "the graphs have 1 and 2 outputs");
    assert_int_equal(build_if(f, "bool[]; f32[s]", one, other), 0);
    assert_error(f, E0204, "input 0 of the graph `else` is f32[4], but operand 1 is f32[s]");
    assert_int_equal(build_if(f, "bool[]", one, one), 0);
    assert_error(f, E0202, "the graph `then` has 1 inputs");
    assert_int_equal(build_if(f, "bool[2]; f32[s]", one, one), 0);
    assert_error(f, E0204, "operand 0 must have one element");
    assert_int_equal(build_if(f, "i32[]; f32[s]", one, one), 0);
    assert_error(f, E0205, "operand 0 must be bool");
    Graph *none = graph_new_like(f->g, "none");
    assert_int_equal(build_if(f, "bool[]", none, none), 0);
    assert_error(f, E0204, "expected the same number, 1 to");
}

// Values of the symbols find what a symbolic rule had to leave open.
static void binding_checks_again(void **state)
{
    Fixture *f = *state;
    const Arg args[CASE_ARGS] = {{0}};
    const NodeId y = build_case(f, OP_conv, "f32[1, 1, t]; f32[1, 1, 4]", args);
    graph_output(f->g, "y", y);
    Graph *bound = NULL;
    assert_true(graph_bind(f->g, (DimValues){(const int64_t[]){6}, 1}, &bound));
    assert_false(graph_bind(f->g, (DimValues){(const int64_t[]){3}, 1}, &bound));
    assert_error(f, E0204, "the kernel spans 4 positions, but the padded input has 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(elementwise_broadcasts),
        TEST(elementwise_failures),
        TEST(reductions),
        TEST(equal_reductions_are_one_node),
        TEST(norms),
        TEST(matmuls),
        TEST(attention_and_rope),
        TEST(lstms),
        TEST(results_by_index),
        TEST(ifs),
        TEST(binding_checks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
