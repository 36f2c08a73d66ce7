// SPDX-License-Identifier: Apache-2.0
// The walk over the roots of a graph, and copies of nodes, which lose no attribute.
#include "graph_fixture.h"

static const Dim two_three[] = {2, 3};

// Every kind of root once, each of another node; states without a next value and graphs without a page have
// none.
static void test_roots(void **state)
{
    Fixture *f = *state;
    Graph *g = f->g;
    const Shape s = shape_of(2, two_three), one = {0};
    const NodeId x = input(f, "x", DTYPE_f32, 2, two_three), n = input(f, "n", DTYPE_i64, 0, NULL);
    const NodeId k = graph_state(g, "k", DTYPE_f32, &s, NULL, 0, (Span){0});
    graph_state(g, "unset", DTYPE_f32, &s, NULL, 0, (Span){0});
    const NodeId next = graph_op1(g, OP_neg, x), y = graph_op1(g, OP_exp, x), dead = graph_op1(g, OP_abs, x);
    const NodeId cond = graph_op2(g, OP_lt, n, graph_scalar(g, DTYPE_i64, 3, (Span){0}));
    const NodeId size = graph_op1(g, OP_neg, n);
    g->page = graph_param(g, "page", DTYPE_i64, &one, NULL, 0, (Span){0});
    graph_output(g, "y", y);
    g->states.data[0].next = next;
    assert_true(graph_check(g, cond, "n is small"));
    graph_extent(g, "hits", n, 4);
    graph_add_live(g, y, 0, size);
    const struct {
        uint32_t kinds;
        NodeId first, last;
        uint32_t n;
    } cases[] = {{ROOT_OUTPUT, y, y, 1},    {ROOT_NEXT, next, next, 1},       {ROOT_CHECK, cond, cond, 1},
                 {ROOT_EXTENT, n, n, 1},    {ROOT_SIZE, size, size, 1},       {ROOT_STATE, k, k + 1, 2},
                 {ROOT_INPUT, x, n, 2},     {ROOT_PAGE, g->page, g->page, 1}, {ROOT_RESULTS, y, cond, 3},
                 {ROOT_ALL, y, g->page, 10}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        NodeId first = 0, last = 0;
        uint32_t count = 0;
        for (RootWalk w = {0}; graph_next_root(g, cases[i].kinds, &w); count++) {
            first = count == 0 ? w.id : first;
            last = w.id;
        }
        assert_int_equal(count, cases[i].n);
        assert_int_equal(first, cases[i].first);
        assert_int_equal(last, cases[i].last);
    }
    const bool *needed = graph_mark_needed(g, ROOT_CHECK, &f->arena);
    assert_true(needed[cond] && needed[n] && !needed[x] && !needed[0]);
    assert_false(graph_mark_needed(g, ROOT_ALL, &f->arena)[dead]);
}

// A value of an attribute that no op has as its default.
static AttrVal odd_value(Fixture *f, AttrId id)
{
    const AttrType t = attr_info[id].type;
    const double number = 0.625 + (double)id;
    AttrVal v = {.id = id, .len = t == ATTR_INTS || t == ATTR_DIMS || t == ATTR_BLOB ? 1 : 0};
    if (t == ATTR_FLOAT)
        memcpy(&v.u.f64_bits, &number, sizeof number);
    else if (t == ATTR_STR)
        v.u.str = arena_printf(&f->arena, "text %u", (unsigned)id);
    else if (v.len != 0)
        v.u.ints = ARENA_NEW(&f->arena, int64_t);
    else if (t == ATTR_GRAPH)
        v.u.graph = f->g;
    else
        v.u.i = t == ATTR_INT    ? 1000 + (int64_t)id
                : t == ATTR_BOOL ? attr_info[id].dflt[0] != 't'
                                 : DTYPE_u16;
    return v;
}

// Whatever attributes an op has, or will have, a copy of a node has all of them.
static void test_copies_keep_all_attributes(void **state)
{
    Fixture *f = *state;
    for (uint32_t op = 0; op < OP_COUNT; op++) {
        AttrId first = ATTR_COUNT;
        uint32_t count = 0;
        attr_range((OpId)op, &first, &count);
        if (op_info[op].kind == OPKIND_LEAF)
            continue;
        AttrVal *attr = ARENA_ARRAY(&f->arena, AttrVal, count + 1u);
        for (uint32_t i = 0; i < count; i++)
            attr[i] = odd_value(f, (AttrId)(first + i));
        const Node n = {.op = (uint16_t)op, .n_attr = (uint16_t)count, .attr = attr};
        NodeBuild b = node_begin(f->g, (OpId)op, (Span){0}, NULL);
        node_copy_attrs(&b, &n);
        assert_int_equal(b.n_attr, count);
        assert_memory_equal(b.attr, attr, count * sizeof *attr);
    }
}

static void test_attributes_go_to_another_op_by_name(void **state)
{
    Fixture *f = *state;
    const AttrVal attr = {.id = A_linear_transpose_b, .u.i = 1};
    const Node linear = {.op = OP_linear, .n_attr = 1, .attr = &attr};
    const Dim square[] = {2, 2};
    const NodeId x = input(f, "x", DTYPE_f32, 2, square);
    NodeBuild b = node_begin(f->g, OP_matmul, (Span){0}, NULL);
    node_copy_attrs(&b, &linear);
    node_src(&b, x);
    node_src(&b, x);
    const NodeId product = node_end(&b), pair[] = {x, product};
    assert_int_equal(node_get_int(graph_node(f->g, product), A_matmul_transpose_b), 1);
    const Node *copy = graph_node(f->g, graph_clone_with(f->g, product, pair, 2));
    assert_int_equal(copy->src[1], product);
    assert_int_equal(node_get_int(copy, A_matmul_transpose_b), 1);
    assert_no_error(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_roots),
        TEST(test_copies_keep_all_attributes),
        TEST(test_attributes_go_to_another_op_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
