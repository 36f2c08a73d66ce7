// SPDX-License-Identifier: Apache-2.0
// Tests the structural simplifications on random graphs of the ops that they look at: the simplified graph
// must be valid, compute the same, cost no more, and have nothing left to simplify. tests/ir has an example
// of each of them.
#include "graph_fixture.h"
#include "ir/eval/eval.h"
#include "ir/text/text.h"
#include "passes/graph/cost.h"
#include "passes/pass.h"

#include <math.h>
#include <time.h>

// --- random graphs ---

typedef struct Random {
    Fixture *f;
    Graph *g;
    uint64_t seed;
    VEC(NodeId) pool; // values so far
} Random;

static int64_t pick(Random *r, int64_t n) // [0, n)
{
    r->seed = r->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((r->seed >> 33) % (uint64_t)n);
}

// Mostly one of the last values, so that ops follow each other.
static NodeId pick_value(Random *r)
{
    const int64_t back = pick(r, 4) > 0 ? pick(r, 2) : pick(r, r->pool.len);
    return r->pool.data[r->pool.len - 1 - (uint32_t)(back < r->pool.len ? back : 0)];
}

static const Shape *shape(const Random *r, NodeId id)
{
    return graph_node(r->g, id)->shape;
}

static NodeId constant(Random *r, DType t, const Shape *s)
{
    Tensor v = tensor_new(r->g->arena, t, s->rank, s->dim);
    for (int64_t i = 0; i < v.numel; i++)
        tensor_set_f64(&v, i, t == DTYPE_f32 ? (double)(pick(r, 17) - 8) / 8 : (double)(pick(r, 7) - 3));
    return graph_const(r->g, t, s, v.data, type_bytes(t, s), (Span){0});
}

static NodeId unary(Random *r, NodeId x, NodeBuild *b)
{
    static const OpId ops[] = {OP_neg, OP_abs, OP_relu, OP_square, OP_relu6, OP_copy};
    *b = node_begin(r->g, ops[pick(r, 6)], (Span){0}, NULL);
    node_src(b, x);
    return node_end(b);
}

// With another value, or a constant that has the size of some of the axes.
static NodeId binary(Random *r, NodeId x, NodeBuild *b)
{
    static const OpId ops[] = {OP_add, OP_sub, OP_mul, OP_max, OP_min};
    Shape s = *shape(r, x);
    const int64_t only = pick(r, s.rank + 2);
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = only == i || only > s.rank ? s.dim[i] : 1;
    NodeId y = pick(r, 3) ? constant(r, (DType)graph_node(r->g, x)->dtype, &s) : pick_value(r);
    const bool is_swapped = pick(r, 2);
    *b = node_begin(r->g, ops[pick(r, 5)], (Span){0}, NULL);
    node_src(b, is_swapped ? y : x);
    node_src(b, is_swapped ? x : y);
    return node_end(b);
}

static NodeId reshape(Random *r, NodeId x, NodeBuild *b)
{
    Shape to = {.rank = 0};
    const Shape *s = shape(r, x);
    for (uint32_t i = 0; i < s->rank && to.rank < 5; i++) {
        if (pick(r, 4) == 0)
            to.dim[to.rank++] = 1;
        if (to.rank > 0 && pick(r, 3) == 0)
            to.dim[to.rank - 1] *= s->dim[i];
        else
            to.dim[to.rank++] = s->dim[i];
    }
    *b = node_begin(r->g, OP_reshape, (Span){0}, NULL);
    node_src(b, x);
    node_ints(b, A_reshape_shape, to.dim, to.rank);
    return node_end(b);
}

static NodeId transpose(Random *r, NodeId x, NodeBuild *b)
{
    const uint32_t rank = shape(r, x)->rank;
    int64_t perm[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (uint32_t i = rank; i-- > 1 && pick(r, 3);) {
        const uint32_t with = (uint32_t)pick(r, i + 1);
        const int64_t t = perm[i];
        perm[i] = perm[with];
        perm[with] = t;
    }
    *b = node_begin(r->g, OP_transpose, (Span){0}, NULL);
    node_src(b, x);
    node_ints(b, A_transpose_perm, perm, rank);
    return node_end(b);
}

static NodeId slice(Random *r, NodeId x, NodeBuild *b)
{
    const uint32_t rank = shape(r, x)->rank;
    const int64_t axis = rank ? pick(r, rank) : 0, n = rank ? shape(r, x)->dim[axis] : 0;
    const int64_t step = pick(r, 4) ? 1 : 1 + pick(r, 2), start = pick(r, 3) ? 0 : pick(r, n + 1);
    const int64_t end = pick(r, 2) ? INT64_MAX / 8 : start + 1 + pick(r, n + 1);
    *b = node_begin(r->g, OP_slice, (Span){0}, NULL);
    node_src(b, x);
    node_ints(b, A_slice_starts, &start, 1);
    node_ints(b, A_slice_ends, &end, 1);
    node_ints(b, A_slice_axes, &axis, 1);
    node_ints(b, A_slice_steps, &step, 1);
    return node_end(b);
}

static NodeId concat(Random *r, NodeId x, NodeBuild *b)
{
    const uint32_t rank = shape(r, x)->rank;
    *b = node_begin(r->g, OP_concat, (Span){0}, NULL);
    node_src(b, x);
    for (int64_t n = pick(r, 3); n > 0; n--)
        node_src(b, pick_value(r));
    node_int(b, A_concat_axis, rank ? pick(r, rank) : 0);
    return node_end(b);
}

static NodeId gather(Random *r, NodeId x, NodeBuild *b)
{
    const uint32_t rank = shape(r, x)->rank, axis = rank ? (uint32_t)pick(r, rank) : 0;
    const Shape s = {.rank = (uint32_t)pick(r, 3), .dim = {1 + pick(r, 2), 1 + pick(r, 3)}};
    Tensor v = tensor_new(r->g->arena, DTYPE_i64, s.rank, s.dim);
    const int64_t first = pick(r, 6) - 3, step = pick(r, 4) ? 1 : pick(r, 3);
    for (int64_t i = 0; i < v.numel; i++)
        tensor_set_i64(&v, i, first + i * step);
    *b = node_begin(r->g, OP_gather, (Span){0}, NULL);
    node_src(b, x);
    node_src(b, graph_const(r->g, DTYPE_i64, &s, v.data, type_bytes(DTYPE_i64, &s), (Span){0}));
    node_int(b, A_gather_axis, axis);
    return node_end(b);
}

static NodeId pad(Random *r, NodeId x, NodeBuild *b)
{
    const uint32_t rank = shape(r, x)->rank;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    const int64_t kind = pick(r, 4);
    for (uint32_t i = 0; i < 2 * rank; i++)
        if (kind == 1 ? i % rank >= 2 : kind > 1)
            pads[i] = kind == 2 ? -pick(r, 2) : pick(r, 2);
    *b = node_begin(r->g, OP_pad, (Span){0}, NULL);
    node_src(b, x);
    if (pick(r, 4) == 0)
        node_src(
            b, graph_scalar(r->g, (DType)graph_node(r->g, x)->dtype, pick(r, 2) ? 0 : -HUGE_VAL, (Span){0}));
    node_ints(b, A_pad_pads, pads, 2 * rank);
    return node_end(b);
}

static NodeId expand(Random *r, NodeId x, NodeBuild *b)
{
    Shape to = *shape(r, x);
    for (uint32_t i = 0; i < to.rank; i++)
        if (to.dim[i] == 1 && pick(r, 2))
            to.dim[i] = 2;
    *b = node_begin(r->g, OP_expand, (Span){0}, NULL);
    node_src(b, x);
    node_ints(b, A_expand_shape, to.dim, to.rank);
    return node_end(b);
}

static NodeId reduce(Random *r, NodeId x, NodeBuild *b)
{
    static const AttrId attrs[][2] = {{A_reduce_sum_axes, A_reduce_sum_keepdims},
                                      {A_reduce_max_axes, A_reduce_max_keepdims},
                                      {A_reduce_mean_axes, A_reduce_mean_keepdims}};
    const AttrId *a = attrs[pick(r, 3)];
    const uint32_t rank = shape(r, x)->rank;
    const int64_t axis = rank ? pick(r, rank) : 0;
    *b = node_begin(r->g, attr_info[a[0]].op, (Span){0}, NULL);
    node_src(b, x);
    node_ints(b, a[0], &axis, rank ? 1 : 0);
    node_int(b, a[1], pick(r, 2));
    return node_end(b);
}

static NodeId cast(Random *r, NodeId x, NodeBuild *b)
{
    static const DType ints[] = {DTYPE_i32, DTYPE_i64, DTYPE_i16, DTYPE_u8, DTYPE_f64};
    const bool is_float = graph_node(r->g, x)->dtype == DTYPE_f32;
    *b = node_begin(r->g, OP_cast, (Span){0}, NULL);
    node_src(b, x);
    node_int(b, A_cast_to, is_float ? DTYPE_f64 : ints[pick(r, 5)]);
    return node_end(b);
}

// Two axes of space around a value of rank 4; weights and sometimes the bias are constants.
static NodeId conv(Random *r, NodeId x, NodeBuild *b)
{
    const Shape *s = shape(r, x);
    const DType t = (DType)graph_node(r->g, x)->dtype;
    const bool is_transpose = pick(r, 3) == 0, is_depthwise = pick(r, 2);
    if (s->rank != 4 || s->dim[1] == 0)
        return 0;
    const int64_t group = is_depthwise ? s->dim[1] : 1, out = is_depthwise ? 1 : 1 + pick(r, 3);
    const int64_t pads[4] = {pick(r, 2), 0, 0, pick(r, 2)};
    const int64_t in = s->dim[1] / group;
    const Shape w = {4, {is_transpose ? s->dim[1] : out * group, is_transpose ? out : in, 2, 1 + pick(r, 2)}};
    const Shape bias = {1, {out * group}};
    *b = node_begin(r->g, is_transpose ? OP_conv_transpose : OP_conv, (Span){0}, NULL);
    node_src(b, x);
    node_src(b, constant(r, t, &w));
    if (pick(r, 2))
        node_src(b, constant(r, t, &bias));
    node_ints(b, is_transpose ? A_conv_transpose_pads : A_conv_pads, pads, 4);
    node_int(b, is_transpose ? A_conv_transpose_group : A_conv_group, group);
    return node_end(b);
}

static NodeId pool(Random *r, NodeId x, NodeBuild *b)
{
    static const int64_t kernel[2] = {2, 2};
    const bool is_max = pick(r, 2);
    const int64_t pads[4] = {pick(r, 2), 0, 0, 0};
    *b = node_begin(r->g, is_max ? OP_max_pool : OP_avg_pool, (Span){0}, NULL);
    node_src(b, x);
    node_ints(b, is_max ? A_max_pool_kernel : A_avg_pool_kernel, kernel, 2);
    if (pick(r, 2))
        node_ints(b, is_max ? A_max_pool_pads : A_avg_pool_pads, pads, 4);
    if (!is_max)
        node_int(b, A_avg_pool_count_include_pad, pick(r, 2));
    return node_end(b);
}

static NodeId matmul(Random *r, NodeId x, NodeBuild *b)
{
    const Shape *s = shape(r, x);
    const bool is_transposed = pick(r, 2);
    const int64_t k = s->rank ? s->dim[s->rank - 1] : 1, n = 1 + pick(r, 3);
    const Shape w = {2, {is_transposed ? n : k, is_transposed ? k : n}};
    *b = node_begin(r->g, OP_matmul, (Span){0}, NULL);
    node_src(b, x);
    node_src(b, pick(r, 4) ? constant(r, (DType)graph_node(r->g, x)->dtype, &w) : pick_value(r));
    node_int(b, A_matmul_transpose_b, is_transposed);
    return node_end(b);
}

typedef NodeId (*MakeFn)(Random *r, NodeId x, NodeBuild *b);
static const MakeFn makers[] = {unary, binary, binary, binary, reshape, transpose, transpose,
                                slice, concat, gather, pad,    pad,     expand,    reduce,
                                cast,  conv,   conv,   pool,   matmul};
enum { N_MAKERS = sizeof makers / sizeof *makers, N_GRAPHS = 4000, N_STEPS = 14, MAX_ELEMENTS = 2000 };

// What does not fit together makes an error, which is forgotten.
static void grow(Random *r)
{
    NodeBuild b;
    const NodeId made = makers[pick(r, N_MAKERS)](r, pick_value(r), &b);
    r->f->diag.items.len = 0;
    r->f->diag.n_errors = 0;
    if (made && shape_numel(shape(r, made)) <= MAX_ELEMENTS)
        vec_push(r->g->arena, &r->pool, made);
}

static Graph *random_graph(Fixture *f, uint64_t seed)
{
    Random r = {.f = f, .g = graph_new(&f->arena, &f->diag, "random"), .seed = seed * 7919 + 1};
    const DType t = pick(&r, 3) ? DTYPE_f32 : DTYPE_i32;
    const Shape s[2] = {{4, {1 + pick(&r, 2), 2, 3, 1 + pick(&r, 4)}}, {3, {1, 2, 3}}};
    vec_push(r.g->arena, &r.pool, graph_input(r.g, "x", t, &s[0], (Span){0}));
    vec_push(r.g->arena, &r.pool, graph_input(r.g, "y", t, &s[pick(&r, 2)], (Span){0}));
    for (uint32_t i = 0; i < N_STEPS; i++)
        grow(&r);
    graph_output(r.g, "last", r.pool.data[r.pool.len - 1]);
    graph_output(r.g, "some", pick_value(&r));
    return r.g;
}

// --- running ---

static bool simplify(Fixture *f, Graph **g)
{
    Arena scratch = {0};
    static const TargetCaps caps = {.name = "c", .f32_lanes = 1};
    const PassOptions options = {.opt_level = 3, .caps = &caps};
    Pass p = {.perm = &f->arena, .scratch = &scratch, .diag = &f->diag, .options = &options, .graph = *g};
    const bool changed = pass_simplify(&p);
    assert_no_error(f);
    assert_false(p.failed);
    *g = p.graph;
    arena_free(&scratch);
    return changed;
}

static EvalRun evaluate(Fixture *f, Graph *g)
{
    EvalRun run = eval_begin(g, &f->arena, (DimValues){NULL, 0});
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *n = graph_node(g, g->inputs.data[i]);
        Tensor t = tensor_new(&f->arena, (DType)n->dtype, n->shape->rank, n->shape->dim);
        for (int64_t k = 0; k < t.numel; k++)
            tensor_set_f64(&t, k, n->dtype == DTYPE_f32 ? sin(3.7 * (double)k + i) : (double)(k * 5 % 9 - 4));
        run.value[g->inputs.data[i]] = t;
    }
    if (!eval_graph(&run))
        assert_no_error(f);
    return run;
}

static bool same(const Tensor *a, const Tensor *b)
{
    double top = 1;
    if (a->dtype != b->dtype || a->numel != b->numel)
        return false;
    for (int64_t i = 0; i < a->numel; i++)
        if (isfinite(tensor_get_f64(a, i)))
            top = fmax(top, fabs(tensor_get_f64(a, i)));
    for (int64_t i = 0; i < a->numel; i++) {
        const double x = tensor_get_f64(a, i), y = tensor_get_f64(b, i);
        const bool is_float = dtype_info[a->dtype].cls == DCLASS_FLOAT;
        if (is_float && isfinite(x) ? !(fabs(x - y) <= 1e-5 * top) : is_float ? false : x != y)
            return false;
    }
    return true;
}

static void test_random_graphs(void **state)
{
    Fixture *f = *state;
    uint32_t n_changed = 0;
    for (uint64_t seed = 0; seed < N_GRAPHS; seed++) {
        Graph *before = random_graph(f, seed);
        Graph *g = graph_compact(before, NULL);
        const double cost = cost_graph(g);
        EvalRun a = evaluate(f, before);
        n_changed += simplify(f, &g);
        EvalRun b = evaluate(f, g);
        for (uint32_t i = 0; i < g->outputs.len; i++)
            if (!same(&a.value[before->outputs.data[i].node], &b.value[g->outputs.data[i].node]))
                fail_graph(f, before, g, "the values differ");
        const char *wrong = graph_verify(g, STAGE_CORE);
        if (wrong)
            fail_graph(f, before, g, wrong);
        if (cost_graph(g) > cost)
            fail_graph(f, before, g, "the cost rose");
        if (simplify(f, &g))
            fail_graph(f, before, g, "it was not simplified to the end");
        arena_free(&f->arena);
        f->diag = diag_new(&f->arena);
    }
    assert_in_range(n_changed, N_GRAPHS / 2, N_GRAPHS);
}

// --- size ---

// A long chain takes time in proportion: far below the limit, which only a slower than linear pass reaches.
static void test_long_chain(void **state)
{
    Fixture *f = *state;
    static const OpId ops[] = {OP_add, OP_mul, OP_neg, OP_max, OP_sub, OP_abs, OP_div};
    const NodeId x = input(f, "x", DTYPE_f32, 1, (Dim[]){4}), y = input(f, "y", DTYPE_f32, 1, (Dim[]){4});
    NodeId at = x;
    for (uint32_t i = 0; i < 100000; i++) {
        const OpId op = ops[i % 7];
        at = op_info[op].max_src == 1 ? graph_op1(f->g, op, at) : graph_op2(f->g, op, at, y);
    }
    graph_output(f->g, "z", at);
    const clock_t start = clock();
    simplify(f, &f->g);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > 5)
        fail_msg("%g s", seconds);
    print_message("# a chain of 100000 ops: %g ms\n", seconds * 1e3);
}

// All of a chain of ops that undo each other goes, in few rounds.
static void test_undoing_chain(void **state)
{
    Fixture *f = *state;
    const NodeId x = input(f, "x", DTYPE_f32, 2, (Dim[]){4, 3});
    NodeId at = x;
    for (uint32_t i = 0; i < 20000; i++)
        at = graph_transpose(f->g, graph_op1(f->g, OP_neg, at), (int64_t[]){1, 0});
    graph_output(f->g, "z", at);
    simplify(f, &f->g);
    assert_int_equal(f->g->outputs.data[0].node, f->g->inputs.data[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_random_graphs), TEST(test_long_chain),
                                       TEST(test_undoing_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
