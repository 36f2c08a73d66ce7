// SPDX-License-Identifier: Apache-2.0
// The verifier: sound graphs pass, and every rule is broken once on purpose.
#include "graph_fixture.h"
#include "ir/shape/verify.h"

static const Dim two_three[] = {2, 3};

// x -> relu -> y, with a param p, a constant, a state s fed by relu, and a split.
static Graph *sound_graph(Fixture *f)
{
    static const float ones[6] = {1, 1, 1, 1, 1, 1};
    Graph *g = f->g;
    Shape s = shape_of(2, two_three);
    NodeId x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeId p = graph_param(g, "p", DTYPE_f32, &s, ones, sizeof ones, (Span){0});
    NodeId c = graph_const(g, DTYPE_f32, &s, ones, sizeof ones, (Span){0});
    graph_state(g, "s", DTYPE_f32, &s, NULL, 0, (Span){0});
    NodeId sum = graph_op2(g, OP_add, graph_op2(g, OP_add, x, p), c);
    int64_t sizes[] = {1, 2};
    NodeBuild b = node_begin(g, OP_split, (Span){0}, NULL);
    node_src(&b, sum);
    node_int(&b, A_split_axis, 1);
    node_ints(&b, A_split_sizes, sizes, 2);
    NodeId parts = node_end(&b);
    graph_output(g, "y", graph_result(g, parts, 1));
    g->states.data[0].next = sum;
    assert_no_error(f);
    return g;
}

enum { X = 1, P, C, S, ADD_1, ADD_2, SPLIT, RESULT, N_NODES };

static Node *node(Graph *g, NodeId id)
{
    return &g->nodes.data[id];
}

static AttrVal *attr(Graph *g, NodeId id, uint32_t i)
{
    AttrVal *copy = arena_copy(g->arena, node(g, id)->attr, node(g, id)->n_attr * sizeof *copy);
    node(g, id)->attr = copy;
    return &copy[i];
}

static void assert_broken(const Graph *g, Stage stage, const char *part)
{
    const char *message = graph_verify(g, stage);
    assert_non_null(message);
    if (!strstr(message, part))
        fail_msg("'%s' is not in '%s'", part, message);
}

static void test_sound_graph(void **state)
{
    Fixture *f = *state;
    Graph *g = sound_graph(f);
    assert_int_equal(g->nodes.len, N_NODES);
    assert_null(graph_verify(g, STAGE_IMPORTED));
    assert_null(graph_verify(graph_compact(g, NULL), STAGE_IMPORTED));
    assert_broken(g, STAGE_CORE, "%7 = split: this stage has no convenience ops");
}

static void test_dead_nodes_need_not_be_core(void **state)
{
    Fixture *f = *state;
    Graph *g = sound_graph(f);
    g->outputs.data[0].node = ADD_1;
    assert_null(graph_verify(g, STAGE_CORE));
    assert_null(graph_verify(g, STAGE_BOUND));
}

static void test_stage_bound(void **state)
{
    Fixture *f = *state;
    Dim n = dim_symbol(f->g->dims, "n", 1, 8, 1);
    graph_output(f->g, "y", graph_op1(f->g, OP_exp, input(f, "x", DTYPE_f32, 1, &n)));
    assert_null(graph_verify(f->g, STAGE_CORE));
    assert_broken(f->g, STAGE_BOUND, "%1 = input: the shape is not constant");
}

// Each breaker damages a sound graph in one way.
static void break_op(Graph *g)
{
    node(g, ADD_1)->op = OP_COUNT;
}
static void break_order(Graph *g)
{
    static const NodeId src[] = {X, ADD_2};
    node(g, ADD_1)->src = src;
}
static void break_operand_count(Graph *g)
{
    node(g, ADD_1)->n_src = 1;
}
static void break_required_operand(Graph *g)
{
    static const NodeId src[] = {X, 0};
    node(g, ADD_1)->src = src;
}
static void break_dtype(Graph *g)
{
    node(g, ADD_1)->dtype = DTYPE_i32;
}
static void break_shape(Graph *g)
{
    Dim dims[] = {3, 2};
    Shape s = shape_of(2, dims);
    node(g, ADD_1)->shape = graph_intern_shape(g, &s);
}
static void break_interned_shape(Graph *g)
{
    node(g, ADD_1)->shape = arena_copy(g->arena, node(g, ADD_1)->shape, sizeof(Shape));
}
static void break_results(Graph *g)
{
    node(g, SPLIT)->results = NULL;
}
static void break_result_types(Graph *g)
{
    TensorType *copy = arena_copy(g->arena, node(g, SPLIT)->results, 2 * sizeof *copy);
    copy[1].dtype = DTYPE_f16;
    node(g, SPLIT)->results = copy;
}
static void break_attr_count(Graph *g)
{
    node(g, SPLIT)->n_attr = 1;
}
static void break_attr_order(Graph *g)
{
    attr(g, SPLIT, 0)->id = A_split_sizes;
}
static void break_attr_value(Graph *g)
{
    attr(g, SPLIT, 0)->u.i = 0;
}
static void break_interned_attr(Graph *g)
{
    AttrVal *v = attr(g, SPLIT, 1);
    v->u.ints = arena_copy(g->arena, v->u.ints, 2 * sizeof(int64_t));
}
static void break_const_bytes(Graph *g)
{
    attr(g, C, 0)->len = 20;
}
static void break_param_bytes(Graph *g)
{
    attr(g, P, 1)->len = 20;
}
static void break_size_limit(Graph *g)
{
    Dim dims[] = {DIM_MAX_VALUE, 2};
    Shape s = shape_of(2, dims);
    node(g, X)->shape = graph_intern_shape(g, &s);
}
static void break_input_list(Graph *g)
{
    g->inputs.len = 0;
}
static void break_param_list(Graph *g)
{
    g->params.data[0] = X;
}
static void break_double_listing(Graph *g)
{
    vec_push(g->arena, &g->inputs, X);
}
static void break_leaf_names(Graph *g)
{
    attr(g, P, 0)->u.str = node_get_str(node(g, X), A_input_name);
}
static void break_state(Graph *g)
{
    g->states.data[0].next = 0;
}
static void break_state_type(Graph *g)
{
    g->states.data[0].next = SPLIT;
}
static void break_output(Graph *g)
{
    g->outputs.data[0].node = N_NODES;
}
static void break_output_names(Graph *g)
{
    GraphOutput again = g->outputs.data[0];
    vec_push(g->arena, &g->outputs, again);
}
static void break_all_ends(Graph *g)
{
    g->outputs.len = 0;
    g->states.len = 0;
    node(g, S)->op = OP_param;
    attr(g, S, 0)->id = A_param_name;
    attr(g, S, 1)->id = A_param_init;
    vec_push(g->arena, &g->params, S);
}
static void break_consing(Graph *g)
{
    static const NodeId src[] = {X, P};
    node(g, ADD_2)->src = src;
}

static const struct {
    void (*damage)(Graph *g);
    const char *message;
} breakers[] = {
    {break_op, "does not exist"},
    {break_order, "operand 1 is %6, which does not come before"},
    {break_operand_count, "1 operands; expected 2 to 2"},
    {break_required_operand, "operand 1 is missing"},
    {break_dtype, "is i32[2, 3]; the shape rule makes f32[2, 3]"},
    {break_shape, "is f32[3, 2]; the shape rule makes f32[2, 3]"},
    {break_interned_shape, "the shape is not interned"},
    {break_results, "2 results and no list of types"},
    {break_result_types, "is f16[2, 2]; the shape rule makes f32[2, 2]"},
    {break_attr_count, "1 attributes; expected all 2"},
    {break_attr_order, "attribute 0 is not 'axis'"},
    {break_attr_value, "%7 = split: "},
    {break_interned_attr, "the value of 'sizes' is not interned"},
    {break_const_bytes, "20 bytes of values; the type has 24"},
    {break_param_bytes, "20 bytes of values; the type has 24"},
    {break_size_limit, "too large"},
    {break_input_list, "%1 = input: the leaf is not in its list"},
    {break_param_list, "entry 0 of the list of params is %1"},
    {break_double_listing, "listed twice"},
    {break_leaf_names, "has the name 'x' too"},
    {break_state, "no next value"},
    {break_state_type, "has another type"},
    {break_output, "the output 'y' is not a node"},
    {break_output_names, "two outputs 'y'"},
    {break_all_ends, "nothing to compute"},
    {break_consing, "equal to %5"},
};

static void test_every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof breakers / sizeof *breakers; i++) {
        Fixture fresh = {0};
        fresh.diag = diag_new(&fresh.arena);
        fresh.g = graph_new(&fresh.arena, &fresh.diag, "test");
        sound_graph(&fresh);
        breakers[i].damage(fresh.g);
        assert_broken(fresh.g, STAGE_IMPORTED, breakers[i].message);
        assert_int_equal(fresh.diag.n_errors, 0); // the user's diagnostics stay clean
        arena_free(&fresh.arena);
    }
}

static Graph *branch(Fixture *f, const char *name)
{
    Graph *sub = graph_new_like(f->g, name);
    Shape s = shape_of(2, two_three);
    graph_output(sub, "y", graph_op1(sub, OP_exp, graph_input(sub, "x", DTYPE_f32, &s, (Span){0})));
    return sub;
}

static void test_sub_graphs(void **state)
{
    Fixture *f = *state;
    NodeId cond = input(f, "c", DTYPE_bool, 0, NULL), x = input(f, "x", DTYPE_f32, 2, two_three);
    NodeBuild b = node_begin(f->g, OP_if, (Span){0}, NULL);
    node_src(&b, cond);
    node_src(&b, x);
    node_graph(&b, A_if_then, branch(f, "then"));
    node_graph(&b, A_if_else, branch(f, "else"));
    NodeId id = node_end(&b);
    graph_output(f->g, "y", id);
    assert_no_error(f);
    assert_null(graph_verify(f->g, STAGE_IMPORTED));
    node_attr(graph_node(f->g, id), A_if_else)->u.graph->inputs.len = 0;
    assert_broken(f->g, STAGE_IMPORTED, "in 'else': graph 'else': %1 = input: the leaf is not in its list");
}

// Linear, also on long chains.
static void test_long_chain(void **state)
{
    Fixture *f = *state;
    NodeId id = input(f, "x", DTYPE_f32, 2, two_three);
    for (int i = 0; i < 50000; i++)
        id = graph_op1(f->g, i % 2 ? OP_neg : OP_exp, id);
    graph_output(f->g, "y", id);
    assert_null(graph_verify(f->g, STAGE_BOUND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sound_graph), TEST(test_dead_nodes_need_not_be_core),
        TEST(test_stage_bound), TEST(test_every_rule),
        TEST(test_sub_graphs),  TEST(test_long_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
