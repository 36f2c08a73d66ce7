// SPDX-License-Identifier: Apache-2.0
// Attention as exporters write it, in random variants of shapes, scales, masks, guards and views: they
// become the op (of one key or two, the cost of a guard for hidden rows may speak against it), except those
// with a choice among scores or shares, and compute what they computed before, NaN for rows that a mask hides
// included.
#include "graph_fixture.h"
#include "ir/eval/eval.h"
#include "passes/pass.h"

#include <math.h>

enum { N_VARIANTS = 600 };

typedef struct Variant {
    Graph *g;
    uint64_t seed;
    int64_t batch, heads, shared, queries, keys, size, columns; // shared: query heads of a key head
    bool is_windowed; // batch is the first axis of [2, batch / 2] where masks are added
    bool is_kept;     // it cannot be the op: a run decides where scores are a finite number, so that rows may
                      // be blind; or a choice is not the only mask
    bool has_nan;     // some queries and keys are NaN
} Variant;

static int64_t pick(Variant *r, int64_t n) // [0, n)
{
    r->seed = r->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((r->seed >> 33) % (uint64_t)n);
}

static NodeId leaf(Variant *r, const char *name, DType t, uint32_t rank, const int64_t *dim)
{
    Shape s = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        s.dim[i] = dim[i];
    return graph_input(r->g, name, t, &s, (Span){0});
}

static NodeId reshaped(Variant *r, NodeId x, uint32_t rank, const int64_t *dim)
{
    Shape s = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        s.dim[i] = dim[i];
    return graph_reshape(r->g, x, &s);
}

static NodeId number(Variant *r, double v)
{
    return graph_scalar(r->g, DTYPE_f32, v, (Span){0});
}

// [batch, heads, rows, size], from [batch, rows, heads, size] or as it is; of fewer heads, each repeated.
static NodeId operand(Variant *r, const char *name, int64_t heads, int64_t rows, int64_t size)
{
    const int64_t n = r->heads / heads;
    const int64_t turned[] = {r->batch, rows, heads, size}, plain[] = {r->batch, heads, rows, size};
    const bool is_turned = pick(r, 2);
    NodeId x = leaf(r, name, DTYPE_f32, 4, is_turned ? turned : plain);
    if (is_turned)
        x = graph_transpose(r->g, x, (int64_t[]){0, 2, 1, 3});
    if (n == 1)
        return x;
    const int64_t spread[] = {r->batch, heads, n, rows, size};
    NodeBuild b = node_begin(r->g, OP_expand, (Span){0}, NULL);
    node_src(&b, reshaped(r, x, 5, (int64_t[]){r->batch, heads, 1, rows, size}));
    node_ints(&b, A_expand_shape, spread, 5);
    return reshaped(r, node_end(&b), 4, (int64_t[]){r->batch, r->heads, rows, size});
}

static NodeId product(Variant *r, NodeId a, NodeId b, bool turns_b)
{
    NodeBuild m = node_begin(r->g, OP_matmul, (Span){0}, NULL);
    node_matmul(&m, a, b, false, turns_b);
    return node_end(&m);
}

// q k', with the scale before, on one or both, or behind.
static NodeId scores_of(Variant *r, NodeId q, NodeId k)
{
    const double scale = 0.3;
    const int64_t how = pick(r, 5);
    if (how == 1)
        q = graph_op2(r->g, OP_mul, q, number(r, scale));
    if (how == 2) {
        q = graph_op2(r->g, OP_mul, q, number(r, sqrt(scale)));
        k = graph_op2(r->g, OP_mul, k, number(r, sqrt(scale)));
    }
    const NodeId x = pick(r, 2) ? product(r, q, k, true)
                                : product(r, q, graph_transpose(r->g, k, (int64_t[]){0, 1, 3, 2}), false);
    if (how == 3)
        return graph_op2(r->g, OP_mul, number(r, scale), x);
    return how == 4 ? graph_op2(r->g, OP_div, x, number(r, 1 / scale)) : x;
}

// A mask of the scores [batch, heads, queries, keys], whose axes are there or one.
static NodeId mask_leaf(Variant *r, const char *name, DType t)
{
    const int64_t all[] = {r->batch, r->heads, r->queries, r->keys};
    int64_t dim[4];
    const uint32_t from = (uint32_t)pick(r, 3);
    for (uint32_t i = from; i < 4; i++)
        dim[i - from] = i < 3 && pick(r, 2) ? 1 : all[i];
    return leaf(r, name, t, 4 - from, dim);
}

// A query sees keys up to its own place.
static NodeId causal(Variant *r)
{
    const Shape s = shape_of(2, (Dim[]){r->queries, r->keys});
    const int64_t n = r->queries * r->keys;
    bool *seen = ARENA_ARRAY(r->g->arena, bool, n);
    for (int64_t i = 0; i < n; i++)
        seen[i] = i % r->keys <= i / r->keys;
    return graph_const(r->g, DTYPE_bool, &s, seen, (uint64_t)n * sizeof *seen, (Span){0});
}

static NodeId masked(Variant *r, NodeId x)
{
    const int64_t how = pick(r, 8);
    if (how == 1)
        return graph_op2(r->g, OP_add, mask_leaf(r, "added", DTYPE_f32), x);
    if (how == 2 || how == 3) {
        const bool is_known = pick(r, 2);
        const NodeId seen = is_known ? causal(r) : mask_leaf(r, "seen", DTYPE_bool);
        const NodeId fill = number(r, how == 2 ? -HUGE_VAL : -3e38);
        r->is_kept = is_known ? r->is_windowed && r->keys > 1 : r->is_windowed || how == 3;
        return pick(r, 2) ? graph_op3(r->g, OP_where, seen, x, fill)
                          : graph_op3(r->g, OP_where, graph_op1(r->g, OP_logical_not, seen), fill, x);
    }
    if (how == 4) {
        x = graph_op2(r->g, OP_add, x, mask_leaf(r, "bias", DTYPE_f32));
        x = graph_op2(r->g, OP_add, x, mask_leaf(r, "added", DTYPE_f32));
    }
    return x;
}

// A mask for each window, added where the axis of windows is split.
static NodeId with_windows(Variant *r, NodeId x)
{
    const int64_t whole[] = {r->batch, r->heads, r->queries, r->keys};
    const int64_t split[] = {2, r->batch / 2, r->heads, r->queries, r->keys};
    const int64_t mask[] = {1, r->batch / 2, 1, r->queries, r->keys};
    x = reshaped(r, x, 5, split);
    x = graph_op2(r->g, OP_add, x, leaf(r, "windows", DTYPE_f32, 5, mask));
    return reshaped(r, x, 4, whole);
}

static NodeId softmax(Variant *r, NodeId x)
{
    NodeBuild b = node_begin(r->g, OP_softmax, (Span){0}, NULL);
    node_src(&b, x);
    const NodeId p = node_end(&b);
    if (pick(r, 4))
        return p;
    return graph_op3(r->g, OP_where, graph_op1(r->g, OP_is_nan, p), number(r, 0), p);
}

static NodeId build(Variant *r)
{
    r->is_windowed = pick(r, 4) == 0;
    r->batch = r->is_windowed ? 4 : 1 + pick(r, 2);
    r->shared = 1 + pick(r, 2) * !r->is_windowed;
    r->heads = r->shared * (1 + pick(r, 2));
    r->queries = 1 + pick(r, 5);
    r->keys = 1 + pick(r, 6);
    r->size = 1 + pick(r, 5);
    r->columns = 1 + pick(r, 5);
    r->has_nan = pick(r, 3) == 0;
    const NodeId q = operand(r, "q", r->heads, r->queries, r->size);
    const NodeId k = operand(r, "k", r->heads / r->shared, r->keys, r->size);
    const NodeId v = operand(r, "v", r->heads / r->shared, r->keys, r->columns);
    NodeId x = masked(r, scores_of(r, q, k));
    if (r->is_windowed)
        x = with_windows(r, x);
    return product(r, softmax(r, x), v, false);
}

// Of masks, a third of the numbers is -inf, and about half of the bools is false.
static void fill(Tensor *t, const char *name, uint64_t seed, bool has_nan)
{
    const bool is_mask = strcmp(name, "added") == 0 || strcmp(name, "windows") == 0;
    const bool is_wrong = has_nan && (strcmp(name, "q") == 0 || strcmp(name, "k") == 0);
    for (int64_t i = 0; i < t->numel; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const double v = (double)(seed >> 33) / (double)(UINT64_C(1) << 31);
        if (t->dtype == DTYPE_bool)
            tensor_set_f64(t, i, v > 0.5);
        else
            tensor_set_f64(t, i, is_mask && v < 0.33 ? -HUGE_VAL : 4 * v - 2);
        if (is_wrong && v < 0.06)
            tensor_set_f64(t, i, (double)NAN);
    }
}

static Tensor evaluate(Fixture *f, Graph *g, uint64_t seed, bool has_nan)
{
    EvalRun run = eval_begin(g, &f->arena, (DimValues){NULL, 0});
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const NodeId id = g->inputs.data[i];
        const Node *n = graph_node(g, id);
        Tensor t = tensor_new(&f->arena, (DType)n->dtype, n->shape->rank, n->shape->dim);
        fill(&t, node_name(g, id), seed + i, has_nan);
        run.value[id] = t;
    }
    assert_true(eval_graph(&run));
    return run.value[g->outputs.data[0].node];
}

static uint32_t count_ops(const Graph *g, OpId op)
{
    uint32_t n = 0;
    for (NodeId id = 1; id < g->nodes.len; id++)
        n += graph_node(g, id)->op == op;
    return n;
}

static Graph *simplified(Fixture *f, Graph *g, const TargetCaps *caps)
{
    Arena scratch = {0};
    const PassOptions options = {.opt_level = 3, .caps = caps};
    Pass p = {.perm = &f->arena, .scratch = &scratch, .diag = &f->diag, .options = &options};
    p.graph = graph_compact(g, NULL);
    pass_simplify(&p);
    assert_no_error(f);
    arena_free(&scratch);
    return graph_compact(p.graph, NULL);
}

static void compare(Fixture *f, const Graph *before, const Graph *after, const Tensor *a, const Tensor *b)
{
    assert_int_equal(a->numel, b->numel);
    for (int64_t i = 0; i < a->numel; i++) {
        const double x = tensor_get_f64(a, i), y = tensor_get_f64(b, i);
        if (isnan(x) != isnan(y) || (!isnan(x) && !(fabs(x - y) <= 2e-6)))
            fail_graph(f, before, after, "the values differ");
    }
}

static const TargetCaps caps = {.name = "c", .f32_lanes = 1};

static void test_variants(void **state)
{
    Fixture *f = *state;
    uint32_t n_made = 0, n_kept = 0;
    for (uint64_t seed = 0; seed < N_VARIANTS; seed++) {
        Variant r = {.g = graph_new(&f->arena, &f->diag, "variant"), .seed = seed * 7919 + 1};
        graph_output(r.g, "y", build(&r));
        assert_no_error(f);
        Graph *g = simplified(f, r.g, &caps);
        const Tensor a = evaluate(f, r.g, seed, r.has_nan), b = evaluate(f, g, seed, r.has_nan);
        compare(f, r.g, g, &a, &b);
        n_made += !r.is_kept && count_ops(g, OP_attention) == 1 && count_ops(g, OP_softmax) == 0;
        n_kept += r.is_kept;
        if (r.is_kept && count_ops(g, OP_attention) > 0)
            fail_graph(f, r.g, g, "this must not be the op");
        const char *wrong = graph_verify(g, STAGE_CORE);
        if (wrong)
            fail_graph(f, r.g, g, wrong);
        arena_free(&f->arena);
        f->diag = diag_new(&f->arena);
    }
    const uint32_t n = N_VARIANTS - n_kept;
    print_message("# %u of %u became the op\n", n_made, n);
    assert_in_range(n_kept, N_VARIANTS / 30, N_VARIANTS / 2);
    assert_in_range(n_made, n * 9 / 10, n);
}

// Half precision comes with a softmax in f32.
static void test_half(void **state)
{
    Fixture *f = *state;
    const Dim dims[] = {2, 3, 4};
    const NodeId q = input(f, "q", DTYPE_f16, 3, dims), k = input(f, "k", DTYPE_f16, 3, dims);
    NodeBuild m = node_begin(f->g, OP_matmul, (Span){0}, NULL);
    node_matmul(&m, q, k, false, true);
    NodeBuild b = node_begin(f->g, OP_softmax, (Span){0}, NULL);
    node_src(&b, graph_cast(f->g, node_end(&m), DTYPE_f32));
    NodeBuild last = node_begin(f->g, OP_matmul, (Span){0}, NULL);
    node_matmul(&last, graph_cast(f->g, node_end(&b), DTYPE_f16), k, false, false);
    graph_output(f->g, "y", node_end(&last));
    assert_no_error(f);
    Graph *g = simplified(f, f->g, &caps);
    assert_int_equal(count_ops(g, OP_attention), 1);
    assert_int_equal(count_ops(g, OP_cast), 0);
}

// Open sizes are no hindrance.
static void test_symbols(void **state)
{
    Fixture *f = *state;
    Shape s = {.rank = 4, .dim = {1, 2, 0, 8}};
    s.dim[2] = dim_symbol(f->g->dims, "n", 1, 512, 1);
    const NodeId q = graph_input(f->g, "q", DTYPE_f32, &s, (Span){0});
    const NodeId k = graph_input(f->g, "k", DTYPE_f32, &s, (Span){0});
    NodeBuild m = node_begin(f->g, OP_matmul, (Span){0}, NULL);
    node_matmul(&m, q, k, false, true);
    NodeBuild b = node_begin(f->g, OP_softmax, (Span){0}, NULL);
    node_src(&b, node_end(&m));
    NodeBuild last = node_begin(f->g, OP_matmul, (Span){0}, NULL);
    node_matmul(&last, node_end(&b), k, false, false);
    graph_output(f->g, "y", node_end(&last));
    assert_no_error(f);
    assert_int_equal(count_ops(simplified(f, f->g, &caps), OP_attention), 1);
}

static NodeId scores_with(Fixture *f, NodeId q, NodeId k, NodeId mask)
{
    NodeBuild m = node_begin(f->g, OP_matmul, (Span){0}, NULL);
    node_matmul(&m, q, k, false, true);
    const NodeId x = node_end(&m);
    return mask != 0 ? graph_op2(f->g, OP_add, x, mask) : x;
}

static uint32_t made_of(Fixture *f, NodeId scores, NodeId v, const TargetCaps *on)
{
    NodeBuild b = node_begin(f->g, OP_softmax, (Span){0}, NULL);
    node_src(&b, scores);
    NodeBuild last = node_begin(f->g, OP_matmul, (Span){0}, NULL);
    node_matmul(&last, node_end(&b), v, false, false);
    graph_output(f->g, "y", node_end(&last));
    assert_no_error(f);
    return count_ops(simplified(f, f->g, on), OP_attention);
}

// 4 heads of 128 queries and keys: 256 KB of scores.
static uint32_t made_with_cache(Fixture *f, Shape mask, uint32_t l2_bytes, bool is_gpu)
{
    const Dim dims[] = {4, 128, 64};
    const TargetCaps on = {
        .name = "c", .f32_lanes = 1, .is_gpu = is_gpu, .cpu = {.l2_bytes = l2_bytes}};
    f->g = graph_new(&f->arena, &f->diag, "cache");
    const NodeId q = input(f, "q", DTYPE_f32, 3, dims);
    const NodeId m = mask.rank > 0 ? graph_input(f->g, "mask", DTYPE_f32, &mask, (Span){0}) : 0;
    return made_of(f, scores_with(f, q, q, m), q, &on);
}

// What a CPU holds in its second cache stays spelled out; with a matrix for a mask, up to four times as much.
static void test_caches(void **state)
{
    Fixture *f = *state;
    const Shape none = {0}, row = {.rank = 1, .dim = {128}}, matrix = {.rank = 2, .dim = {128, 128}};
    const uint32_t all = 256 << 10;
    assert_int_equal(made_with_cache(f, none, all, false), 0);
    assert_int_equal(made_with_cache(f, none, all - 1, false), 1);
    assert_int_equal(made_with_cache(f, row, all - 1, false), 1);
    assert_int_equal(made_with_cache(f, matrix, all / 4, false), 0);
    assert_int_equal(made_with_cache(f, matrix, all / 4 - 1, false), 1);
    assert_int_equal(made_with_cache(f, none, all, true), 1);
    assert_int_equal(made_with_cache(f, matrix, all, true), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_variants), TEST(test_half), TEST(test_symbols),
                                       TEST(test_caches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
