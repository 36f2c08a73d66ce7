// SPDX-License-Identifier: Apache-2.0
// Tests the pass `prune` on random networks, of bytes and of floats, with channels that are constant, zero
// weights, padding, residuals, concats, slices, several readers and outputs in between: with fewer channels
// they must be valid and give the same, integers and NaN to the bit. tests/ir has an example of each kind.
#include "graph_fixture.h"
#include "ir/eval/eval.h"
#include "ir/text/text.h"
#include "passes/pass.h"

#include <math.h>

// --- random networks ---

typedef struct Random {
    Fixture *f;
    Graph *g;
    uint64_t seed;
    DType type;       // of values: i8 or f32
    VEC(NodeId) pool; // values so far: [1, channels, height, width]
} Random;

static int64_t pick(Random *r, int64_t n) // [0, n)
{
    r->seed = r->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((r->seed >> 33) % (uint64_t)n);
}

static const Shape *shape(const Random *r, NodeId id)
{
    return graph_node(r->g, id)->shape;
}

// Mostly one of the last values, so that layers follow each other.
static NodeId pick_value(Random *r)
{
    const int64_t back = pick(r, 4) > 0 ? pick(r, 2) : pick(r, r->pool.len);
    return r->pool.data[r->pool.len - 1 - (uint32_t)(back < r->pool.len ? back : 0)];
}

// Integers from -most to most; one in `zeros` is 0.
static NodeId constant(Random *r, DType t, const Shape *s, int64_t most, int64_t zeros)
{
    Tensor v = tensor_new(r->g->arena, t, s->rank, s->dim);
    for (int64_t i = 0; i < v.numel; i++)
        tensor_set_i64(&v, i, pick(r, zeros) == 0 ? 0 : pick(r, 2 * most + 1) - most);
    return graph_const(r->g, t, s, v.data, type_bytes(t, s), (Span){0});
}

static NodeId number(Random *r, DType t, double v)
{
    return graph_scalar(r->g, t, v, (Span){0});
}

// A constant for each channel, along axis 1 of four, or one for all.
static NodeId by_channel(Random *r, DType t, int64_t channels, int64_t most)
{
    const Shape s = {3, {channels, 1, 1}}, one = {0};
    return constant(r, t, pick(r, 4) ? &s : &one, most, 9);
}

// A sum (i32) as bytes: through floats, or by a product and a shift.
static NodeId as_bytes(Random *r, NodeId sum)
{
    Graph *g = r->g;
    const int64_t channels = shape(r, sum)->dim[1];
    if (pick(r, 2)) {
        NodeId y = graph_cast(g, sum, DTYPE_f32);
        y = graph_op2(
            g, OP_mul, y,
            graph_op2(g, OP_mul, by_channel(r, DTYPE_f32, channels, 9), number(r, DTYPE_f32, 0.011)));
        y = graph_op2(g, OP_add, graph_op1(g, OP_round, y),
                      number(r, DTYPE_f32, (double)(pick(r, 256) - 128)));
        return graph_cast(g, y, DTYPE_i8);
    }
    NodeId y = graph_op2(g, OP_mul, sum, by_channel(r, DTYPE_i32, channels, 99));
    y = graph_op2(g, OP_shift_right, y, number(r, DTYPE_i32, 10));
    y = graph_op3(g, OP_clamp, y, number(r, DTYPE_i32, -128 + (double)pick(r, 120)),
                  number(r, DTYPE_i32, 127));
    return graph_cast(g, y, DTYPE_i8);
}

static NodeId activation(Random *r, NodeId x)
{
    if (pick(r, 2))
        return graph_op1(r->g, OP_relu, x);
    return graph_op3(r->g, OP_clamp, x, number(r, r->type, -3),
                     by_channel(r, r->type, shape(r, x)->dim[1], 20));
}

// Some biases are so large that a channel is constant; some weights are 0 for all that read a channel.
static NodeId conv(Random *r, NodeId x)
{
    static const int64_t kernels[] = {1, 1, 3};
    const int64_t kernel = kernels[pick(r, 3)], pad = pick(r, 2), in = shape(r, x)->dim[1];
    const int64_t kind = pick(r, 4), group = kind == 0 ? in : kind == 1 && in % 2 == 0 ? 2 : 1;
    const int64_t out = group * (1 + pick(r, group == 1 ? 7 : 2));
    const Shape w = {4, {out, in / group, kernel, kernel}}, bias = {1, {out}};
    const bool is_int = r->type == DTYPE_i8;
    const DType weights = is_int && pick(r, 3) == 0 ? DTYPE_u8 : r->type;
    NodeBuild b = node_begin(r->g, is_int ? OP_int_conv : OP_conv, (Span){0}, NULL);
    node_src(&b, x);
    node_src(&b, constant(r, weights, &w, is_int ? 120 : 3, 1 + pick(r, 4)));
    node_src(&b,
             pick(r, 4) ? constant(r, is_int ? DTYPE_i32 : r->type, &bias, is_int ? 200000 : 2000, 2) : 0);
    if (is_int && pick(r, 3)) {
        node_src(&b, number(r, DTYPE_i8, (double)(pick(r, 256) - 128)));
        if (pick(r, 3) == 0)
            node_src(&b, pick(r, 2) ? constant(r, weights, &bias, 5, 2) : number(r, weights, 1));
    }
    node_ints(&b, is_int ? A_int_conv_pads : A_conv_pads, (int64_t[]){pad, pad, pad, 0}, 4);
    node_int(&b, is_int ? A_int_conv_group : A_conv_group, group);
    const NodeId sum = node_end(&b);
    return sum == 0 ? 0 : is_int ? as_bytes(r, sum) : pick(r, 2) ? activation(r, sum) : sum;
}

static NodeId residual(Random *r, NodeId x)
{
    Graph *g = r->g;
    NodeId y = pick_value(r);
    for (uint32_t i = 0; i < r->pool.len && y == x; i++)
        y = shape_equal(shape(r, r->pool.data[i]), shape(r, x)) ? r->pool.data[i] : y;
    if (r->type == DTYPE_f32)
        return graph_op2(g, pick(r, 2) ? OP_add : OP_mul, x, y);
    const NodeId sum = graph_op2(g, OP_add, graph_cast(g, x, DTYPE_i32), graph_cast(g, y, DTYPE_i32));
    return sum == 0 ? 0 : graph_cast(g, graph_op2(g, OP_shift_right, sum, number(r, DTYPE_i32, 1)), DTYPE_i8);
}

static NodeId concat(Random *r, NodeId x)
{
    const int64_t axis = 1 + pick(r, 2);
    Shape s = *shape(r, x);
    s.dim[1] = axis == 1 ? 2 : s.dim[1];
    NodeBuild b = node_begin(r->g, OP_concat, (Span){0}, NULL);
    node_src(&b, x);
    node_src(&b, pick(r, 4) ? pick_value(r) : constant(r, r->type, &s, 100, 3));
    node_int(&b, A_concat_axis, axis);
    return node_end(&b);
}

static NodeId slice(Random *r, NodeId x)
{
    const int64_t axis = 1 + pick(r, 2), n = shape(r, x)->dim[axis], start = pick(r, n);
    NodeBuild b = node_begin(r->g, OP_slice, (Span){0}, NULL);
    node_slice(&b, x, axis, pick(r, 2) ? start : start - n, pick(r, 2) ? n : start + 1 + pick(r, n - start),
               pick(r, 4) ? 1 : 2);
    return node_end(&b);
}

// Channels in another order, or an entry of a table for each element.
static NodeId gather(Random *r, NodeId x)
{
    const bool is_table = pick(r, 2) && r->type == DTYPE_i8;
    const int64_t channels = shape(r, x)->dim[1];
    const Shape s = {1, {is_table ? 256 : 1 + pick(r, channels)}};
    NodeBuild b = node_begin(r->g, OP_gather, (Span){0}, NULL);
    const NodeId list = constant(r, is_table ? DTYPE_i8 : DTYPE_i64, &s, is_table ? 100 : channels, 9);
    node_gather(&b, is_table ? list : x, is_table ? x : list, is_table ? 0 : 1);
    return node_end(&b);
}

// A constant for each channel added with channels last.
static NodeId channels_last(Random *r, NodeId x)
{
    const Shape s = {1, {shape(r, x)->dim[1]}};
    NodeId y = graph_transpose(r->g, x, (int64_t[]){0, 2, 3, 1});
    y = graph_op2(r->g, pick(r, 2) ? OP_max : OP_min, y, constant(r, r->type, &s, 100, 3));
    return graph_transpose(r->g, y, (int64_t[]){0, 3, 1, 2});
}

static NodeId pool(Random *r, NodeId x)
{
    const bool is_max = pick(r, 2) || r->type == DTYPE_i8;
    NodeBuild b = node_begin(r->g, is_max ? OP_max_pool : OP_avg_pool, (Span){0}, NULL);
    node_src(&b, x);
    node_ints(&b, is_max ? A_max_pool_kernel : A_avg_pool_kernel, (int64_t[]){2, 2}, 2);
    node_ints(&b, is_max ? A_max_pool_pads : A_avg_pool_pads, (int64_t[]){pick(r, 2), 0, 0, 0}, 4);
    return node_end(&b);
}

static NodeId pad(Random *r, NodeId x)
{
    const int64_t pads[8] = {0, pick(r, 4) == 0, 1, 0, 0, 0, 0, pick(r, 2)};
    NodeBuild b = node_begin(r->g, OP_pad, (Span){0}, NULL);
    node_src(&b, x);
    if (pick(r, 2))
        node_src(&b, number(r, r->type, (double)(pick(r, 256) - 128)));
    node_ints(&b, A_pad_pads, pads, 8);
    return node_end(&b);
}

// Sums over space scale the channels, as a squeeze-and-excitation block does.
static NodeId squeeze(Random *r, NodeId x)
{
    Graph *g = r->g;
    const bool is_int = r->type == DTYPE_i8;
    NodeBuild b = node_begin(g, OP_reduce_sum, (Span){0}, NULL);
    node_src(&b, is_int ? graph_cast(g, x, DTYPE_i32) : x);
    node_ints(&b, A_reduce_sum_axes, (int64_t[]){2, 3}, 2);
    node_int(&b, A_reduce_sum_keepdims, 1);
    const NodeId sum = node_end(&b);
    if (!is_int)
        return graph_op2(g, OP_mul, x, sum);
    return as_bytes(r, graph_op2(g, OP_mul, graph_cast(g, x, DTYPE_i32), sum));
}

// All elements as channels: what stands in front of a dense layer.
static NodeId flatten(Random *r, NodeId x)
{
    const Shape flat = {4, {1, shape_numel(shape(r, x)), 1, 1}};
    return pick(r, 3) == 0 ? graph_reshape(r->g, x, &flat) : 0;
}

// An op that looks at all channels of each place.
static NodeId across(Random *r, NodeId x)
{
    NodeBuild b = node_begin(r->g, OP_reduce_max, (Span){0}, NULL);
    node_src(&b, x);
    node_ints(&b, A_reduce_max_axes, (int64_t[]){1}, 1);
    node_int(&b, A_reduce_max_keepdims, 1);
    return graph_op2(r->g, OP_min, x, node_end(&b));
}

typedef NodeId (*MakeFn)(Random *r, NodeId x);
static const MakeFn makers[] = {conv,       conv,     conv,     conv,    conv,   conv,
                                activation, residual, residual, concat,  slice,  gather,
                                pool,       pad,      squeeze,  flatten, across, channels_last};
enum { N_MAKERS = sizeof makers / sizeof *makers, N_GRAPHS = 4000, N_STEPS = 18, MAX_ELEMENTS = 1500 };

// What does not fit together makes an error, which is forgotten.
static void grow(Random *r)
{
    const NodeId made = makers[pick(r, N_MAKERS)](r, pick_value(r));
    r->f->diag.items.len = 0;
    r->f->diag.n_errors = 0;
    if (made && shape(r, made)->rank == 4 && shape_numel(shape(r, made)) <= MAX_ELEMENTS &&
        graph_node(r->g, made)->dtype == r->type)
        vec_push(r->g->arena, &r->pool, made);
}

// Floats come from bytes, which are numbers, and from floats, which may be anything.
static Graph *random_graph(Fixture *f, uint64_t seed)
{
    Random r = {.f = f, .g = graph_new(&f->arena, &f->diag, "random"), .seed = seed * 7919 + 1};
    r.type = pick(&r, 3) ? DTYPE_i8 : DTYPE_f32;
    const Shape s = {4, {1, 1 + pick(&r, 4), 4, 1 + pick(&r, 4)}};
    if (r.type == DTYPE_f32) {
        const NodeId x = graph_input(r.g, "bytes", DTYPE_u8, &s, (Span){0});
        vec_push(r.g->arena, &r.pool, graph_cast(r.g, x, DTYPE_f32));
    }
    if (r.type == DTYPE_i8 || pick(&r, 2))
        vec_push(r.g->arena, &r.pool, graph_input(r.g, "x", r.type, &s, (Span){0}));
    for (uint32_t i = 0; i < N_STEPS; i++)
        grow(&r);
    graph_output(r.g, "last", r.pool.data[r.pool.len - 1]);
    if (pick(&r, 2))
        graph_output(r.g, "some", pick_value(&r));
    return r.g;
}

// --- running ---

static uint64_t prune(Fixture *f, Graph **g, uint32_t lanes)
{
    Arena scratch = {0};
    const TargetCaps caps = {.f32_lanes = (uint8_t)lanes};
    const PassOptions options = {.opt_level = 3, .caps = &caps};
    Pass p = {.perm = &f->arena, .scratch = &scratch, .diag = &f->diag, .options = &options, .graph = *g};
    const bool changed = pass_prune(&p);
    assert_no_error(f);
    assert_false(p.failed);
    assert_int_equal(changed, p.pruned.channels != 0);
    assert_in_range(p.pruned.macs[1], 0, p.pruned.macs[0]);
    *g = p.graph;
    arena_free(&scratch);
    return p.pruned.constant + p.pruned.unread;
}

static EvalRun evaluate(Fixture *f, Graph *g, uint64_t seed)
{
    static const double hard[] = {(double)NAN, HUGE_VAL, -HUGE_VAL, -0.0, 1e30, -3};
    Random r = {.seed = seed};
    EvalRun run = eval_begin(g, &f->arena, (DimValues){NULL, 0});
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *n = graph_node(g, g->inputs.data[i]);
        Tensor t = tensor_new(&f->arena, (DType)n->dtype, n->shape->rank, n->shape->dim);
        for (int64_t k = 0; k < t.numel; k++)
            tensor_set_f64(&t, k,
                           n->dtype != DTYPE_f32 || pick(&r, 4)
                               ? (double)(pick(&r, 256) - (n->dtype == DTYPE_u8 ? 0 : 128))
                               : hard[pick(&r, 6)]);
        run.value[g->inputs.data[i]] = t;
    }
    if (!eval_graph(&run))
        assert_no_error(f);
    return run;
}

// To the bit, apart from the sign of zeros.
static bool same(const Tensor *a, const Tensor *b)
{
    if (a->dtype != b->dtype || a->numel != b->numel)
        return false;
    for (int64_t i = 0; i < a->numel; i++) {
        const double x = tensor_get_f64(a, i), y = tensor_get_f64(b, i);
        if (isnan(x) ? !isnan(y) : x != y)
            return false;
    }
    return true;
}

static void compare(Fixture *f, Graph *before, Graph *after)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        EvalRun a = evaluate(f, before, seed), b = evaluate(f, after, seed);
        for (uint32_t i = 0; i < after->outputs.len; i++)
            if (!same(&a.value[before->outputs.data[i].node], &b.value[after->outputs.data[i].node]))
                fail_graph(f, before, after, "the values differ");
    }
}

static void test_random_networks(void **state)
{
    Fixture *f = *state;
    uint32_t n_changed[2] = {0};
    uint64_t n_channels = 0;
    for (uint64_t seed = 0; seed < N_GRAPHS; seed++) {
        Graph *before = random_graph(f, seed);
        Graph *g = graph_compact(before, NULL);
        const bool is_float = graph_node(g, g->outputs.data[0].node)->dtype == DTYPE_f32;
        const uint64_t removed = prune(f, &g, seed % 2 ? 1 : 8);
        n_changed[is_float] += removed != 0;
        n_channels += removed;
        const char *wrong = graph_verify(g, STAGE_CORE);
        if (wrong)
            fail_graph(f, before, g, wrong);
        compare(f, before, g);
        arena_free(&f->arena);
        f->diag = diag_new(&f->arena);
    }
    print_message("# %u networks of bytes and %u of floats lost %llu channels\n", n_changed[0], n_changed[1],
                  (unsigned long long)n_channels);
    assert_in_range(n_changed[0], N_GRAPHS / 20, N_GRAPHS);
    assert_in_range(n_changed[1], N_GRAPHS / 50, N_GRAPHS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_random_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
