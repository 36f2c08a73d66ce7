// SPDX-License-Identifier: Apache-2.0
// The graph: hash-consing, what the builder completes and refuses, leaves, rewriting, compaction, binding.
#include "graph_fixture.h"

#include <time.h>

static const Dim two_three[] = {2, 3};
static const Span at_node_1 = {.path = "/nodes/1"}, at_node_2 = {.path = "/nodes/2"};

// --- hash-consing ---

static void test_equal_nodes_are_one(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three), y = input(f, "y", DTYPE_f32, 2, two_three);
    assert_int_not_equal(x, y);
    NodeId sum = graph_op2(f->g, OP_add, x, y);
    assert_int_equal(graph_op2(f->g, OP_add, x, y), sum);
    assert_int_not_equal(graph_op2(f->g, OP_add, y, x), sum);
    assert_int_not_equal(graph_op2(f->g, OP_sub, x, y), sum);
    assert_ptr_equal(graph_node(f->g, x)->shape, graph_node(f->g, sum)->shape);
}

static NodeId softmax(Fixture *f, NodeId x, int64_t axis)
{
    NodeBuild b = node_begin(f->g, OP_softmax, (Span){0}, NULL);
    node_src(&b, x);
    node_int(&b, A_softmax_axis, axis);
    return node_end(&b);
}

static NodeId reduce_sum(Fixture *f, NodeId x, const int64_t *axes, uint32_t n)
{
    NodeBuild b = node_begin(f->g, OP_reduce_sum, (Span){0}, NULL);
    node_src(&b, x);
    node_ints(&b, A_reduce_sum_axes, axes, n);
    return node_end(&b);
}

static void test_attributes_compare_by_content(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    int64_t first[] = {0}, again[] = {0}, negative[] = {-2}, other[] = {1};
    NodeId a = reduce_sum(f, x, first, 1);
    assert_int_equal(reduce_sum(f, x, again, 1), a);
    assert_int_equal(reduce_sum(f, x, negative, 1), a);
    assert_int_not_equal(reduce_sum(f, x, other, 1), a);
    assert_int_equal(softmax(f, x, -1), softmax(f, x, 1));
    assert_int_equal(graph_op1(f->g, OP_softmax, x), softmax(f, x, 1)); // the default is -1
    assert_int_not_equal(softmax(f, x, 0), softmax(f, x, 1));
}

static void test_constants_merge_by_type_and_bytes(void **state)
{
    Fixture *f = *state;
    float a[] = {1, 2}, b[] = {1, 2}, c[] = {1, -0.0f}, d[] = {1, 0.0f};
    Dim two[] = {2}, one_two[] = {1, 2};
    Shape vec = shape_of(1, two), row = shape_of(2, one_two);
    NodeId id = graph_const(f->g, DTYPE_f32, &vec, a, sizeof a, (Span){0});
    assert_int_equal(graph_const(f->g, DTYPE_f32, &vec, b, sizeof b, (Span){0}), id);
    assert_int_not_equal(graph_const(f->g, DTYPE_i32, &vec, b, sizeof b, (Span){0}), id);
    assert_int_not_equal(graph_const(f->g, DTYPE_f32, &row, b, sizeof b, (Span){0}), id);
    assert_int_not_equal(graph_const(f->g, DTYPE_f32, &vec, c, sizeof c, (Span){0}),
                         graph_const(f->g, DTYPE_f32, &vec, d, sizeof d, (Span){0}));
    assert_int_equal(graph_scalar(f->g, DTYPE_f32, 0.1, (Span){0}),
                     graph_scalar(f->g, DTYPE_f32, (double)0.1f, (Span){0}));
    double v = 0;
    assert_true(node_is_scalar_const(f->g, graph_scalar(f->g, DTYPE_i32, -7.9, (Span){0}), &v));
    assert_true(v == -7);
    assert_false(node_is_scalar_const(f->g, id, &v));
    assert_no_error(f);
}

static void test_first_span_and_label_win(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeBuild b = node_begin(f->g, OP_exp, (Span){0}, NULL);
    node_src(&b, x);
    NodeId id = node_end(&b);
    assert_string_equal(node_name(f->g, id), "%2");
    b = node_begin(f->g, OP_exp, at_node_1, "first");
    node_src(&b, x);
    assert_int_equal(node_end(&b), id);
    b = node_begin(f->g, OP_exp, at_node_2, "second");
    node_src(&b, x);
    assert_int_equal(node_end(&b), id);
    assert_string_equal(node_name(f->g, id), "first");
    assert_string_equal(node_span(f->g, id).path, "/nodes/1");
    NodeId user = graph_op1(f->g, OP_neg, id);
    assert_string_equal(node_name(f->g, user), "first");
    assert_string_equal(node_span(f->g, user).path, "/nodes/1");
    assert_string_equal(node_name(f->g, x), "x");
}

// --- what the builder refuses ---

static void test_operand_counts(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeBuild b = node_begin(f->g, OP_add, at_node_1, "sum");
    node_src(&b, x);
    assert_int_equal(node_end(&b), 0);
    assert_error(f, E0202, "add 'sum': needs 2 inputs, got 1");
    b = node_begin(f->g, OP_conv, at_node_1, NULL);
    for (int i = 0; i < 4; i++)
        node_src(&b, x);
    assert_int_equal(node_end(&b), 0);
    assert_error(f, E0202, "conv: needs 2 to 3 inputs, got 4");
    assert_int_equal(graph_op2(f->g, OP_add, x, 0), 0);
    assert_error(f, E0202, "input 1 is missing");
    b = node_begin(f->g, OP_add, at_node_1, NULL);
    node_src(&b, 0);
    node_src(&b, x);
    assert_int_equal(node_end(&b), 0);
    assert_error(f, E0202, "input 0 is missing");
}

static void test_absent_trailing_operands_are_dropped(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeId a = graph_op1(f->g, OP_rms_norm, x);
    assert_int_not_equal(a, 0);
    assert_int_equal(graph_op2(f->g, OP_rms_norm, x, 0), a);
    assert_int_equal(graph_node(f->g, a)->n_src, 1);
}

static void test_missing_attribute(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    assert_int_equal(graph_op1(f->g, OP_cast, x), 0);
    assert_error(f, E0203, "needs the attribute 'to'");
}

static void test_axes_are_checked(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    int64_t twice[] = {1, -1}, far[] = {2}, min[] = {INT64_MIN}, many[9] = {0};
    assert_int_equal(softmax(f, x, 2), 0);
    assert_error(f, E0203, "axis 2 is out of range for an input of rank 2");
    assert_int_equal(softmax(f, x, INT64_MIN), 0);
    assert_error(f, E0203, "out of range");
    assert_int_equal(reduce_sum(f, x, far, 1), 0);
    assert_error(f, E0203, "axes 2 is out of range");
    assert_int_equal(reduce_sum(f, x, min, 1), 0);
    assert_error(f, E0203, "out of range");
    assert_int_equal(reduce_sum(f, x, twice, 2), 0);
    assert_error(f, E0203, "lists axis 1 twice");
    assert_int_equal(reduce_sum(f, x, many, 9), 0);
    assert_error(f, E0203, "lists 9 axes");
}

static void test_unsqueeze_counts_axes_in_the_result(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    int64_t axes[] = {-1, 0};
    NodeBuild b = node_begin(f->g, OP_unsqueeze, (Span){0}, NULL);
    node_src(&b, x);
    node_ints(&b, A_unsqueeze_axes, axes, 2);
    NodeId id = node_end(&b);
    assert_no_error(f);
    assert_int_equal(node_get_at(graph_node(f->g, id), A_unsqueeze_axes, 0, -9), 3);
    assert_int_equal(node_get_at(graph_node(f->g, id), A_unsqueeze_axes, 2, -9), -9);
    Dim expected[] = {1, 2, 3, 1};
    Shape s = shape_of(4, expected);
    assert_true(shape_equal(graph_node(f->g, id)->shape, &s));
}

static void test_wrong_types_are_reported_with_the_node(void **state)
{
    Fixture *f = *state;
    Dim three_two[] = {3, 2};
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three), y = input(f, "y", DTYPE_f32, 2, three_two);
    NodeBuild b = node_begin(f->g, OP_add, at_node_1, "sum");
    node_src(&b, x);
    node_src(&b, y);
    assert_int_equal(node_end(&b), 0);
    assert_string_equal(f->diag.items.data[0].span.path, "/nodes/1");
    assert_string_equal(f->diag.items.data[1].message, "in the node 'sum'");
    assert_error(f, E0204, "f32[2, 3]");
}

static void test_sizes_are_limited(void **state)
{
    Fixture *f = *state;
    Dim large[] = {INT64_C(1) << 30, INT64_C(1) << 30}, huge[] = {DIM_MAX_VALUE + 1}, negative[] = {-1};
    Dim empty[] = {0, DIM_MAX_VALUE};
    Shape s = shape_of(2, large), t = shape_of(1, huge), n = shape_of(1, negative), e = shape_of(2, empty);
    assert_int_equal(graph_input(f->g, "a", DTYPE_f32, &s, at_node_1), 0);
    assert_error(f, E0004, "too large");
    assert_int_equal(graph_input(f->g, "a", DTYPE_f32, &t, at_node_1), 0);
    assert_error(f, E0004, "too large");
    assert_int_equal(graph_input(f->g, "a", DTYPE_f32, &n, at_node_1), 0);
    assert_error(f, E0204, "negative");
    assert_int_not_equal(graph_input(f->g, "a", DTYPE_f32, &e, at_node_1), 0);
    Dim half[] = {INT64_C(1) << 20, 1}, other[] = {1, INT64_C(1) << 21};
    NodeId x = input(f, "x", DTYPE_f32, 2, half), y = input(f, "y", DTYPE_f32, 2, other);
    assert_int_equal(graph_op2(f->g, OP_add, x, y), 0);
    assert_error(f, E0004, "too large");
    Dim unknown[] = {dim_floor_div(f->g->dims, dim_symbol(f->g->dims, "s", 1, 4, 1), 0)};
    Shape u = shape_of(1, unknown);
    assert_int_equal(graph_input(f->g, "u", DTYPE_f32, &u, at_node_1), 0);
    assert_error(f, E0004, "too complex");
}

static void test_constants_check_their_bytes(void **state)
{
    Fixture *f = *state;
    float data[6] = {0};
    Shape s = shape_of(2, two_three);
    assert_int_equal(graph_const(f->g, DTYPE_f32, &s, data, 20, at_node_1), 0);
    assert_error(f, E0204, "f32[2, 3] has 24 bytes, but 20 are given");
    assert_int_equal(graph_const(f->g, DTYPE_f32, &s, NULL, 0, at_node_1), 0);
    assert_error(f, E0204, "0 bytes");
    assert_int_equal(graph_param(f->g, "p", DTYPE_f16, &s, data, 24, at_node_1), 0);
    assert_error(f, E0204, "param 'p'");
    s.dim[0] = dim_symbol(f->g->dims, "n", 1, 8, 1);
    assert_int_equal(graph_const(f->g, DTYPE_f32, &s, data, 24, at_node_1), 0);
    assert_error(f, E0207, "must be constant");
}

static void test_names_are_unique(void **state)
{
    Fixture *f = *state;
    Shape s = shape_of(2, two_three);
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    assert_int_equal(graph_input(f->g, "x", DTYPE_f32, &s, at_node_1), 0);
    assert_error(f, E0104, "input 'x'");
    assert_int_equal(graph_state(f->g, "x", DTYPE_f32, &s, NULL, 0, at_node_1), 0);
    assert_error(f, E0104, "state 'x'");
    assert_int_not_equal(graph_param(f->g, "y", DTYPE_f32, &s, NULL, 0, at_node_1), 0);
    assert_int_equal(f->g->inputs.len, 1);
    assert_int_equal(f->g->params.len, 1);
    assert_int_equal(f->g->states.len, 0);
    graph_output(f->g, "x", x); // outputs have names of their own
    assert_no_error(f);
    graph_output(f->g, "x", x);
    assert_error(f, E0104, "two outputs");
    assert_int_equal(f->g->outputs.len, 1);
}

// --- shorthands ---

static void test_shorthands_skip_what_changes_nothing(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    int64_t same[] = {0, 1}, swapped[] = {1, 0};
    Dim six[] = {6};
    Shape s = shape_of(2, two_three), flat = shape_of(1, six);
    assert_int_equal(graph_cast(f->g, x, DTYPE_f32), x);
    assert_int_equal(graph_node(f->g, graph_cast(f->g, x, DTYPE_f16))->dtype, DTYPE_f16);
    assert_int_equal(graph_reshape(f->g, x, &s), x);
    assert_true(shape_equal(graph_node(f->g, graph_reshape(f->g, x, &flat))->shape, &flat));
    assert_int_equal(graph_transpose(f->g, x, same), x);
    assert_int_not_equal(graph_transpose(f->g, x, swapped), x);
    assert_int_equal(graph_result(f->g, x, 0), x);
    NodeId c = graph_op3(f->g, OP_where, graph_op2(f->g, OP_lt, x, x), x, x);
    assert_int_equal(graph_node(f->g, c)->n_src, 3);
    assert_no_error(f);
}

// A 0 in the attribute of reshape copies the operand's size; a shape has sizes, whatever the operand's are.
static void test_reshape_takes_zeros_as_sizes(void **state)
{
    Fixture *f = *state;
    Dim empty[] = {0, 1, 2, 0}, wanted[][3] = {{0, 0}, {5, 0, 3}, {0, 1, 0}, {7, 0}};
    const uint32_t rank[] = {2, 3, 3, 2};
    NodeId x = input(f, "x", DTYPE_f32, 4, empty);
    for (uint32_t i = 0; i < 4; i++) {
        const Shape s = shape_of(rank[i], wanted[i]);
        assert_true(shape_equal(graph_node(f->g, graph_reshape(f->g, x, &s))->shape, &s));
    }
    assert_no_error(f);
}

static void test_count_uses(void **state)
{
    Fixture *f = *state;
    Shape s = shape_of(2, two_three);
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeId k = graph_state(f->g, "k", DTYPE_f32, &s, NULL, 0, (Span){0});
    NodeId sum = graph_op2(f->g, OP_add, x, x);
    graph_output(f->g, "y", sum);
    f->g->states.data[0].next = sum;
    const uint32_t *uses = graph_count_uses(f->g, &f->arena);
    assert_int_equal(uses[x], 2);
    assert_int_equal(uses[k], 0);
    assert_int_equal(uses[sum], 2);
    assert_int_equal(uses[0], 0);
}

// --- rewriting ---

static NodeId drop_double_neg(Graph *g, NodeId id, void *ctx)
{
    const Node *n = graph_node(g, id);
    *(uint32_t *)ctx += 1;
    if (n->op == OP_neg && graph_node(g, n->src[0])->op == OP_neg)
        return graph_node(g, n->src[0])->src[0];
    return id;
}

static NodeId square_as_mul(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    const Node *n = graph_node(g, id);
    return n->op == OP_square ? graph_op2(g, OP_mul, n->src[0], n->src[0]) : id;
}

static void test_rewrite_redirects_users(void **state)
{
    Fixture *f = *state;
    uint32_t steps = 0;
    Shape s = shape_of(2, two_three);
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    graph_state(f->g, "k", DTYPE_f32, &s, NULL, 0, (Span){0});
    NodeId twice = graph_op1(f->g, OP_neg, graph_op1(f->g, OP_neg, x));
    graph_op1(f->g, OP_exp, twice); // dead: must not be visited
    graph_output(f->g, "y", graph_op2(f->g, OP_add, twice, x));
    f->g->states.data[0].next = twice;
    assert_true(graph_rewrite(f->g, drop_double_neg, &steps));
    assert_int_equal(steps, 5); // x, k, neg, neg, add
    const Node *y = graph_node(f->g, f->g->outputs.data[0].node);
    assert_int_equal(y->src[0], x);
    assert_int_equal(y->src[1], x);
    assert_int_equal(f->g->states.data[0].next, x);
    assert_false(graph_rewrite(f->g, drop_double_neg, &steps));
}

static void test_rewrite_hands_on_span_and_label(void **state)
{
    Fixture *f = *state;
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeBuild b = node_begin(f->g, OP_square, at_node_1, "sq");
    node_src(&b, x);
    graph_output(f->g, "y", node_end(&b));
    assert_true(graph_rewrite(f->g, square_as_mul, NULL));
    NodeId y = f->g->outputs.data[0].node;
    assert_int_equal(graph_node(f->g, y)->op, OP_mul);
    assert_string_equal(node_name(f->g, y), "sq");
    assert_string_equal(node_span(f->g, y).path, "/nodes/1");
    assert_null(f->g->labels.data[x]);
}

static NodeId split_in_two(Fixture *f, NodeId x)
{
    int64_t sizes[] = {1, 2};
    NodeBuild b = node_begin(f->g, OP_split, (Span){0}, NULL);
    node_src(&b, x);
    node_int(&b, A_split_axis, 1);
    node_ints(&b, A_split_sizes, sizes, 2);
    return node_end(&b);
}

static NodeId slice(Graph *g, NodeId x, int64_t start, int64_t end)
{
    int64_t axis = 1;
    NodeBuild b = node_begin(g, OP_slice, (Span){0}, NULL);
    node_src(&b, x);
    node_ints(&b, A_slice_starts, &start, 1);
    node_ints(&b, A_slice_ends, &end, 1);
    node_ints(&b, A_slice_axes, &axis, 1);
    return node_end(&b);
}

static NodeId split_as_slices(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    Node n = *graph_node(g, id);
    if (n.op == OP_split)
        return slice(g, n.src[0], 0, 1);
    if (n.op == OP_result && graph_node(g, n.src[0])->op == OP_split)
        return slice(g, graph_node(g, n.src[0])->src[0], 1, 3);
    return id;
}

static void test_rewrite_of_several_results(void **state)
{
    Fixture *f = *state;
    NodeId x = graph_op1(f->g, OP_square, input(f, "x", DTYPE_f32, 2, two_three));
    NodeId parts = split_in_two(f, x);
    assert_int_equal(graph_node(f->g, parts)->n_results, 2);
    graph_output(f->g, "a", parts);
    graph_output(f->g, "b", graph_result(f->g, parts, 1));
    assert_true(graph_rewrite(f->g, square_as_mul, NULL)); // the split itself is rebuilt
    assert_true(graph_rewrite(f->g, split_as_slices, NULL));
    assert_no_error(f);
    for (uint32_t i = 0; i < 2; i++) {
        const Node *n = graph_node(f->g, f->g->outputs.data[i].node);
        assert_int_equal(n->op, OP_slice);
        assert_int_equal(n->shape->dim[1], i + 1);
        assert_int_equal(graph_node(f->g, n->src[0])->op, OP_mul);
    }
}

static NodeId fail_always(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    return graph_node(g, id)->op == OP_neg ? graph_op1(g, OP_cast, id) : id; // cast needs a type
}

static void test_rewrite_keeps_what_fails(void **state)
{
    Fixture *f = *state;
    NodeId y = graph_op1(f->g, OP_neg, input(f, "x", DTYPE_f32, 2, two_three));
    graph_output(f->g, "y", y);
    assert_false(graph_rewrite(f->g, fail_always, NULL));
    assert_int_equal(f->g->outputs.data[0].node, y);
    assert_error(f, E0203, "needs the attribute 'to'");
}

// --- copies ---

static void test_compact(void **state)
{
    Fixture *f = *state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    Shape s = shape_of(2, two_three);
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeId unused = input(f, "unused", DTYPE_i32, 2, two_three);
    NodeId p = graph_param(f->g, "p", DTYPE_f32, &s, data, sizeof data, (Span){0});
    graph_param(f->g, "q", DTYPE_f32, &s, NULL, 0, (Span){0});
    NodeId k = graph_state(f->g, "k", DTYPE_f32, &s, data, sizeof data, (Span){0});
    NodeId dead = graph_op1(f->g, OP_exp, x);
    NodeBuild b = node_begin(f->g, OP_add, at_node_1, "sum");
    node_src(&b, x);
    node_src(&b, p);
    NodeId sum = node_end(&b);
    graph_output(f->g, "y", sum);
    f->g->states.data[0].next = sum;
    NodeId *map = NULL;
    Graph *c = graph_compact(f->g, &map);
    assert_int_equal(c->nodes.len, 6);
    assert_int_equal(map[dead], 0);
    assert_int_not_equal(map[unused], 0);
    assert_int_equal(c->inputs.len, 2);
    assert_int_equal(c->params.len, 1);
    assert_int_equal(c->states.data[0].node, map[k]);
    assert_int_equal(c->states.data[0].next, map[sum]);
    assert_int_equal(c->outputs.data[0].node, map[sum]);
    assert_string_equal(c->outputs.data[0].name, "y");
    assert_string_equal(node_name(c, map[sum]), "sum");
    assert_string_equal(node_span(c, map[sum]).path, "/nodes/1");
    assert_ptr_equal(node_attr(graph_node(c, map[p]), A_param_init)->u.blob, data);
    assert_int_equal(graph_op2(c, OP_add, map[x], map[p]), map[sum]); // the copy is hash-consed too
    assert_no_error(f);
}

static Graph *symbolic_graph(Fixture *f)
{
    Dim n = dim_symbol(f->g->dims, "n", 1, 64, 4), dims[] = {n, 6};
    NodeId x = input(f, "x", DTYPE_f32, 2, dims);
    Dim flat[] = {dim_mul(f->g->dims, n, 6)};
    Shape s = shape_of(1, flat);
    graph_output(f->g, "y", graph_reshape(f->g, graph_op1(f->g, OP_exp, x), &s));
    return f->g;
}

static void test_bind(void **state)
{
    Fixture *f = *state;
    Graph *g = symbolic_graph(f), *out = NULL;
    int64_t four = 4, five = 5, hundred = 100, none = -1;
    assert_true(graph_bind(g, (DimValues){&four, 1}, &out));
    const Node *y = graph_node(out, out->outputs.data[0].node);
    assert_int_equal(y->shape->dim[0], 24);
    assert_int_equal(node_get_at(y, A_reshape_shape, 0, 0), 24);
    assert_int_equal(graph_node(out, out->inputs.data[0])->shape->dim[0], 4);
    assert_true(graph_bind(g, (DimValues){&none, 1}, &out));
    assert_false(dim_is_const(graph_node(out, out->outputs.data[0].node)->shape->dim[0]));
    assert_true(graph_bind(g, (DimValues){NULL, 0}, &out));
    assert_no_error(f);
    assert_false(graph_bind(g, (DimValues){&hundred, 1}, &out));
    assert_error(f, E0208, "n = 100 is outside [1, 64]");
    assert_false(graph_bind(g, (DimValues){&five, 1}, &out));
    assert_error(f, E0208, "not a multiple of 4");
}

static Graph *branch(Fixture *f, const char *name, Dim n, OpId op)
{
    Graph *sub = graph_new_like(f->g, name);
    Shape s = shape_of(1, &n);
    graph_output(sub, "y", graph_op1(sub, op, graph_input(sub, "x", DTYPE_f32, &s, (Span){0})));
    return sub;
}

static void test_bind_goes_into_sub_graphs(void **state)
{
    Fixture *f = *state;
    Dim n = dim_symbol(f->g->dims, "n", 1, 64, 1);
    NodeId cond = input(f, "c", DTYPE_bool, 0, NULL), x = input(f, "x", DTYPE_f32, 1, &n);
    NodeBuild b = node_begin(f->g, OP_if, (Span){0}, NULL);
    node_src(&b, cond);
    node_src(&b, x);
    node_graph(&b, A_if_then, branch(f, "then", n, OP_exp));
    node_graph(&b, A_if_else, branch(f, "else", n, OP_neg));
    graph_output(f->g, "y", node_end(&b));
    assert_no_error(f);
    Graph *out = NULL;
    int64_t seven = 7;
    assert_true(graph_bind(f->g, (DimValues){&seven, 1}, &out));
    const Node *y = graph_node(out, out->outputs.data[0].node);
    assert_int_equal(y->shape->dim[0], 7);
    const Graph *then = node_attr(y, A_if_then)->u.graph;
    assert_int_equal(graph_node(then, then->outputs.data[0].node)->shape->dim[0], 7);
    assert_int_equal(graph_node(then, then->outputs.data[0].node)->op, OP_exp);
}

static void test_bind_reports_shapes_that_stop_fitting(void **state)
{
    Fixture *f = *state;
    Dim n = dim_symbol(f->g->dims, "n", 1, 64, 1), window[] = {1, 1, 5};
    Dim dims[] = {1, 1, n};
    NodeId x = input(f, "x", DTYPE_f32, 3, dims), w = input(f, "w", DTYPE_f32, 3, window);
    graph_output(f->g, "y", graph_op2(f->g, OP_conv, x, w));
    assert_no_error(f);
    int64_t two = 2, eight = 8;
    Graph *out = NULL;
    assert_true(graph_bind(f->g, (DimValues){&eight, 1}, &out));
    assert_int_equal(graph_node(out, out->outputs.data[0].node)->shape->dim[2], 4);
    assert_false(graph_bind(f->g, (DimValues){&two, 1}, &out));
    assert_true(f->diag.n_errors > 0);
}

// --- size ---

enum { CHAIN = 100000 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static NodeId keep(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    return graph_node(g, id)->op == OP_neg ? graph_op1(g, OP_abs, graph_node(g, id)->src[0]) : id;
}

// Depth must cost neither stack nor more than linear time.
static void test_long_chains(void **state)
{
    Fixture *f = *state;
    double t0 = seconds();
    NodeId id = input(f, "x", DTYPE_f32, 2, two_three);
    for (int i = 0; i < CHAIN; i++)
        id = graph_op1(f->g, i % 2 ? OP_neg : OP_exp, id);
    double t1 = seconds();
    graph_output(f->g, "y", id);
    assert_true(graph_rewrite(f->g, keep, NULL));
    double t2 = seconds();
    Graph *c = graph_compact(f->g, NULL);
    double t3 = seconds();
    print_message("100000 nodes: build %.0f ms, rewrite %.0f ms, compact %.0f ms\n", (t1 - t0) * 1e3,
                  (t2 - t1) * 1e3, (t3 - t2) * 1e3);
    assert_int_equal(c->nodes.len, CHAIN + 2);
    assert_true(t3 - t0 < 20); // generous, for sanitizers and loaded machines; quadratic would take hours
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_equal_nodes_are_one),
        TEST(test_attributes_compare_by_content),
        TEST(test_constants_merge_by_type_and_bytes),
        TEST(test_first_span_and_label_win),
        TEST(test_operand_counts),
        TEST(test_absent_trailing_operands_are_dropped),
        TEST(test_missing_attribute),
        TEST(test_axes_are_checked),
        TEST(test_unsqueeze_counts_axes_in_the_result),
        TEST(test_wrong_types_are_reported_with_the_node),
        TEST(test_sizes_are_limited),
        TEST(test_constants_check_their_bytes),
        TEST(test_names_are_unique),
        TEST(test_shorthands_skip_what_changes_nothing),
        TEST(test_reshape_takes_zeros_as_sizes),
        TEST(test_count_uses),
        TEST(test_rewrite_redirects_users),
        TEST(test_rewrite_hands_on_span_and_label),
        TEST(test_rewrite_of_several_results),
        TEST(test_rewrite_keeps_what_fails),
        TEST(test_compact),
        TEST(test_bind),
        TEST(test_bind_goes_into_sub_graphs),
        TEST(test_bind_reports_shapes_that_stop_fitting),
        TEST(test_long_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
