// SPDX-License-Identifier: Apache-2.0
// Leaves, operands, elementwise ops and whole random graphs. See random_graph.h.
//
// Nodes are evaluated as they are made, and results that are not useful are not built upon: of huge numbers
// (beyond them f32 overflows where the evaluator, in double, does not) and, in graphs without special values,
// of mostly NaN. This keeps nearly all graphs well-conditioned; random_check.c deals with the others.
#include "ir/shape/shape.h"
#include "random_ops.h"

#include <math.h>
#include <string.h>

uint64_t rng_u64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint64_t *rng, uint32_t n)
{
    return n == 0 ? 0 : (uint32_t)(rng_u64(rng) >> 32) % n;
}

uint32_t gen_below(Gen *e, uint32_t n)
{
    return below(&e->rng, n);
}

int64_t gen_range(Gen *e, int64_t low, int64_t high)
{
    return high <= low ? low : low + (int64_t)gen_below(e, (uint32_t)(high - low + 1));
}

bool gen_chance(Gen *e, uint32_t percent)
{
    return gen_below(e, 100) < percent;
}

int64_t gen_size(Gen *e)
{
    static const uint8_t sizes[] = {1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 15, 16, 17, 31, 33};
    return gen_chance(e, 1) ? 0 : sizes[gen_below(e, sizeof sizes)];
}

DType gen_dtype(Gen *e, unsigned classes)
{
    if ((classes & GEN_FLOAT) != 0 && (classes == GEN_FLOAT || gen_chance(e, 65)))
        return gen_chance(e, 75) ? DTYPE_f32 : (DType)gen_range(e, DTYPE_f16, DTYPE_f64);
    for (;;) {
        const DType t = (DType)gen_below(e, DTYPE_COUNT);
        // Narrow floats round so coarsely that noise says nothing about them: tests/unit/test_small_float has
        // them.
        const bool is_coarse = dtype_is_narrow(t) && dtype_info[t].cls == DCLASS_FLOAT;
        if (!is_coarse && (classes >> dtype_info[t].cls & 1) != 0)
            return t;
    }
}

DType gen_type_of(const Gen *e, NodeId id)
{
    return (DType)graph_node(e->g, id)->dtype;
}

const Shape *gen_shape_of(const Gen *e, NodeId id)
{
    return graph_node(e->g, id)->shape;
}

// --- values --------------------------------------------------------------------------------------

typedef enum Spread { SPREAD_SIGNED, SPREAD_POSITIVE } Spread;

static double random_float(uint64_t *rng, bool is_dyadic, bool is_special, Spread spread)
{
    static const double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, 0.0, 1e-40,
                                     -3e-42};
    if (is_special && below(rng, 100) < 12)
        return special[below(rng, sizeof special / sizeof *special)];
    const double v = is_dyadic ? (double)below(rng, 49) / 8 - 3 : (double)(rng_u64(rng) >> 11) * 0x1p-51 - 2;
    return spread == SPREAD_POSITIVE ? fabs(v) + 0.25 : v;
}

static int64_t random_int(uint64_t *rng, DType t, bool is_special)
{
    const uint32_t bits = 8 * dtype_info[t].bytes;
    const bool is_signed = dtype_info[t].cls == DCLASS_INT;
    if (t == DTYPE_bool)
        return below(rng, 10) < 6;
    if (is_special && below(rng, 100) < 12) // the lowest, the highest, and any
        return below(rng, 3) == 0 ? (int64_t)rng_u64(rng)
                                  : (int64_t)((UINT64_C(1) << (bits - 1)) - (below(rng, 2) == 0));
    return (int64_t)below(rng, 19) - (is_signed ? 9 : 0);
}

static Tensor random_tensor(Gen *e, uint64_t rng, DType t, uint32_t rank, const int64_t *dim)
{
    Tensor v = tensor_new(e->arena, t, rank, dim);
    const Spread spread = below(&rng, 10) < 3 ? SPREAD_POSITIVE : SPREAD_SIGNED;
    const bool is_special = e->is_special && below(&rng, 2) == 0;
    for (int64_t i = 0; i < v.numel; i++) {
        if (dtype_info[t].cls == DCLASS_FLOAT)
            tensor_set_f64(&v, i, random_float(&rng, e->is_dyadic, is_special, spread));
        else
            tensor_set_i64(&v, i, random_int(&rng, t, is_special));
    }
    return v;
}

bool node_evaluate(Arena *a, const Graph *g, NodeId id, Tensor *value, Tensor **results)
{
    const Node *n = graph_node(g, id);
    EvalCtx c = {.arena = a, .g = g, .node = n, .id = id};
    c.in = ARENA_ARRAY(a, Tensor, n->n_src);
    c.out = ARENA_ARRAY(a, Tensor, n->n_results);
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0)
            c.in[i] =
                n->op == OP_result ? results[n->src[i]][node_get_int(n, A_result_index)] : value[n->src[i]];
    for (uint32_t i = 0; i < n->n_results; i++) {
        const DType t = n->n_results > 1 ? n->results[i].dtype : (DType)n->dtype;
        const Shape *s = n->n_results > 1 ? &n->results[i].shape : n->shape;
        c.out[i] = tensor_new(a, t, s->rank, s->dim);
    }
    if (!eval_node(&c))
        return false;
    results[id] = c.out;
    value[id] = c.out[0];
    return true;
}

// --- leaves --------------------------------------------------------------------------------------

static void add_value(Gen *e, NodeId id, Tensor t)
{
    while (e->value.len <= id) {
        vec_push(e->arena, &e->value, (Tensor){0});
        vec_push(e->arena, &e->results, NULL);
    }
    e->value.data[id] = t;
}

NodeId gen_given(Gen *e, Tensor v)
{
    const Shape s = shape_of(v.rank, v.dim);
    const NodeId id = graph_const(e->g, v.dtype, &s, v.data, type_bytes(v.dtype, &s), (Span){0});
    add_value(e, id, v);
    return id;
}

NodeId gen_const(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    return gen_given(e, random_tensor(e, rng_u64(&e->rng), t, rank, dim));
}

NodeId gen_table(Gen *e, DType t, uint32_t rank, const int64_t *dim, int64_t low, int64_t high)
{
    Tensor v = tensor_new(e->arena, t, rank, dim);
    for (int64_t i = 0; i < v.numel; i++)
        tensor_set_i64(&v, i, gen_range(e, low, high));
    return gen_given(e, v);
}

static NodeId gen_input(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    const Shape s = shape_of(rank, dim);
    const char *name = arena_printf(e->arena, "x%u", e->n_leaves++);
    Tensor *runs = ARENA_ARRAY(e->arena, Tensor, SAMPLE_RUNS);
    for (uint32_t i = 0; i < SAMPLE_RUNS; i++)
        runs[i] = random_tensor(e, rng_u64(&e->rng), t, rank, dim);
    map_put_str(e->arena, &e->values, name, (uintptr_t)runs);
    const NodeId id = graph_input(e->g, name, t, &s, (Span){0});
    add_value(e, id, runs[0]);
    return id;
}

static NodeId gen_param(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    const Shape s = shape_of(rank, dim);
    const Tensor v = random_tensor(e, rng_u64(&e->rng), t, rank, dim);
    const char *name = arena_printf(e->arena, "p%u", e->n_leaves++);
    const NodeId id = graph_param(e->g, name, t, &s, v.data, type_bytes(t, &s), (Span){0});
    add_value(e, id, v);
    return id;
}

static NodeId gen_state(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    const Shape s = shape_of(rank, dim);
    const bool has_init = gen_chance(e, 50);
    const Tensor v =
        has_init ? random_tensor(e, rng_u64(&e->rng), t, rank, dim) : tensor_new(e->arena, t, rank, dim);
    const char *name = arena_printf(e->arena, "s%u", e->n_leaves++);
    const NodeId id =
        graph_state(e->g, name, t, &s, has_init ? v.data : NULL, has_init ? type_bytes(t, &s) : 0, (Span){0});
    add_value(e, id, v);
    return id;
}

NodeId gen_leaf(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    const uint32_t kind = gen_below(e, 20);
    const NodeId id = kind < 11   ? gen_input(e, t, rank, dim)
                      : kind < 17 ? gen_const(e, t, rank, dim)
                                  : gen_param(e, t, rank, dim);
    vec_push(e->arena, &e->live, id);
    return id;
}

NodeId gen_plain_leaf(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    const bool is_special = e->is_special;
    e->is_special = false;
    const NodeId id = gen_leaf(e, t, rank, dim);
    e->is_special = is_special;
    return id;
}

static void random_dims(Gen *e, uint32_t rank, int64_t *dim)
{
    int64_t numel = 1;
    for (uint32_t i = 0; i < rank; i++) {
        dim[i] = gen_size(e);
        if (numel * dim[i] > GEN_MAX_NUMEL)
            dim[i] = 1;
        numel *= dim[i];
    }
}

static NodeId new_leaf(Gen *e, unsigned classes, uint32_t min_rank, uint32_t max_rank)
{
    int64_t dim[SHAPE_MAX_RANK];
    const uint32_t rank = (uint32_t)gen_range(e, min_rank,
                                              max_rank < 4   ? max_rank
                                              : min_rank > 4 ? min_rank
                                                             : 4);
    random_dims(e, rank, dim);
    return gen_leaf(e, gen_dtype(e, classes), rank, dim);
}

// --- operands ------------------------------------------------------------------------------------

// Recent values are taken more often.
static NodeId any_live(Gen *e)
{
    const uint32_t n = e->live.len, a = gen_below(e, n), b = gen_below(e, n);
    return e->live.data[a > b ? a : b];
}

NodeId gen_pick(Gen *e, unsigned classes, uint32_t min_rank, uint32_t max_rank)
{
    for (uint32_t attempt = 0; attempt < 12 && e->live.len > 0 && !gen_chance(e, 3); attempt++) {
        const NodeId id = any_live(e);
        const uint32_t rank = gen_shape_of(e, id)->rank;
        if ((classes >> dtype_info[gen_type_of(e, id)].cls & 1) != 0 && rank >= min_rank && rank <= max_rank)
            return id;
    }
    return new_leaf(e, classes, min_rank, max_rank);
}

NodeId gen_value(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    const Shape s = shape_of(rank, dim);
    for (uint32_t attempt = 0; attempt < 8 && e->live.len > 0; attempt++) {
        const NodeId id = any_live(e);
        if (gen_type_of(e, id) != t || shape_numel(gen_shape_of(e, id)) != shape_numel(&s))
            continue;
        if (shape_equal(gen_shape_of(e, id), &s))
            return id;
        if (attempt >= 5 && shape_numel(&s) != 0) // sizes of 0 would be read as copies
            return graph_reshape(e->g, id, &s);
    }
    return gen_leaf(e, t, rank, dim);
}

// A value that broadcasts together with the shape.
static NodeId broadcast_operand(Gen *e, DType t, const Shape *s)
{
    for (uint32_t attempt = 0; attempt < 10; attempt++) {
        const NodeId id = any_live(e);
        Shape both;
        if (gen_type_of(e, id) == t && shape_broadcast(e->g->dims, gen_shape_of(e, id), s, &both) &&
            shape_numel(&both) <= GEN_MAX_NUMEL)
            return id;
    }
    int64_t dim[SHAPE_MAX_RANK];
    const uint32_t drop = gen_chance(e, 40) ? gen_below(e, s->rank + 1) : 0;
    for (uint32_t i = drop; i < s->rank; i++)
        dim[i - drop] = gen_chance(e, 20) ? 1 : s->dim[i];
    return gen_leaf(e, t, s->rank - drop, dim);
}

// --- elementwise ops -----------------------------------------------------------------------------

static NodeId make_elementwise(Gen *e, OpId op)
{
    static const unsigned classes[] = {
        [EW_ARITH] = GEN_NUMBER, [EW_FLOAT] = GEN_FLOAT, [EW_INTS] = GEN_INT | GEN_BOOL,
        [EW_LOGIC] = GEN_BOOL,   [EW_CMP] = GEN_ALL,     [EW_TEST] = GEN_FLOAT,
        [EW_SEL] = GEN_ALL,
    };
    const OpInfo *info = &op_info[op];
    NodeBuild b = node_begin(e->g, op, (Span){0}, NULL);
    const NodeId first = gen_pick(e, classes[info->ew], 0, SHAPE_MAX_RANK);
    const DType t = gen_type_of(e, first);
    const Shape s = *gen_shape_of(e, first);
    if (info->ew == EW_SEL)
        node_src(&b, broadcast_operand(e, DTYPE_bool, &s));
    const uint32_t n = info->max_src - (info->ew == EW_SEL ? 1U : 0U),
                   at = info->ew == EW_SEL ? 0 : gen_below(e, n);
    for (uint32_t i = 0; i < n; i++)
        node_src(&b, i == at ? first : broadcast_operand(e, t, &s));
    return node_end(&b);
}

static OpId random_elementwise(Gen *e)
{
    for (;;) {
        const OpId op = (OpId)gen_below(e, OP_COUNT);
        if (op_info[op].kind == OPKIND_EW)
            return op;
    }
}

// --- whole graphs --------------------------------------------------------------------------------

// Evaluates the nodes that are new.
static bool evaluate_new(Gen *e)
{
    for (NodeId id = 1; id < e->g->nodes.len; id++) {
        if (id < e->value.len &&
            (e->value.data[id].data != NULL || op_info[graph_node(e->g, id)->op].kind == OPKIND_LEAF))
            continue;
        add_value(e, id, (Tensor){0});
        if (op_info[graph_node(e->g, id)->op].kind == OPKIND_LEAF) // made by a shorthand of the graph builder
            e->value.data[id] = tensor_of_const(e->g, id);
        else if (!node_evaluate(e->arena, e->g, id, e->value.data, e->results.data))
            return false;
    }
    return true;
}

static bool is_useful(Gen *e, NodeId id)
{
    const Tensor *t = &e->value.data[id];
    const double limit = t->dtype == DTYPE_f16 ? 2e3 : 1e5;
    int64_t n_odd = 0;
    if (t->numel > 2 * GEN_MAX_NUMEL)
        return false;
    for (int64_t i = 0; i < t->numel && dtype_info[t->dtype].cls == DCLASS_FLOAT; i++) {
        const double v = tensor_get_f64(t, i);
        n_odd += !isfinite(v);
        if (isfinite(v) && fabs(v) > limit)
            return false;
    }
    return e->is_special || n_odd * 10 <= t->numel * 3 || gen_chance(e, 10);
}

static NodeId make_from(Gen *e, const GenOp *ops, uint32_t n)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += ops[i].weight;
    uint32_t at = gen_below(e, total), i = 0;
    for (; at >= ops[i].weight; i++)
        at -= ops[i].weight;
    return ops[i].make(e);
}

static NodeId make_any(Gen *e)
{
    const uint32_t kind = gen_below(e, 100);
    return kind < 55   ? make_elementwise(e, random_elementwise(e))
           : kind < 75 ? make_from(e, gen_move_ops, gen_n_move_ops)
           : kind < 79 ? make_from(e, gen_table_ops, gen_n_table_ops)
                       : make_from(e, gen_compute_ops, gen_n_compute_ops);
}

// One more node on top of what there is; false when the attempt was not valid or not useful.
static bool add_node(Gen *e)
{
    const NodeId id = make_any(e);
    e->g->diag->n_errors = 0;
    e->g->diag->items.len = 0;
    if (!evaluate_new(e) || id == 0 || !is_useful(e, id))
        return false;
    vec_push(e->arena, &e->live, id);
    const Node *n = graph_node(e->g, id);
    for (uint32_t i = 1; i < n->n_results; i++) {
        const NodeId result = graph_result(e->g, id, i);
        if (evaluate_new(e) && is_useful(e, result))
            vec_push(e->arena, &e->live, result);
        n = graph_node(e->g, id);
    }
    return true;
}

static void add_states(Gen *e)
{
    const uint32_t n = gen_chance(e, 20) ? 1 + gen_below(e, 2) : 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t dim[SHAPE_MAX_RANK];
        const uint32_t rank = gen_below(e, 4);
        random_dims(e, rank, dim);
        vec_push(e->arena, &e->live, gen_state(e, gen_dtype(e, GEN_ALL), rank, dim));
    }
}

// The last value of the state's type that is not a leaf; else the state itself with something added.
static void finish_states(Gen *e)
{
    for (uint32_t i = 0; i < e->g->states.len; i++) {
        const NodeId state = e->g->states.data[i].node;
        const TensorType t = {gen_type_of(e, state), *gen_shape_of(e, state)};
        NodeId next = 0;
        for (uint32_t k = 0; k < e->live.len; k++) {
            const NodeId id = e->live.data[k];
            if (op_info[graph_node(e->g, id)->op].kind != OPKIND_LEAF && gen_type_of(e, id) == t.dtype &&
                shape_equal(gen_shape_of(e, id), &t.shape))
                next = id;
        }
        if (next == 0)
            next = graph_op2(e->g, t.dtype == DTYPE_bool ? OP_logical_xor : OP_max, state,
                             gen_leaf(e, t.dtype, t.shape.rank, t.shape.dim));
        e->g->states.data[i].next = next;
    }
}

// The last value, and some others; a leaf sometimes.
static void add_outputs(Gen *e)
{
    const uint32_t n = 1 + (gen_chance(e, 50) ? gen_below(e, 4) : 0);
    for (uint32_t i = 0; i < n; i++) {
        NodeId id = i == 0 ? e->live.data[e->live.len - 1] : any_live(e);
        if (op_info[graph_node(e->g, id)->op].kind == OPKIND_LEAF && gen_chance(e, 80))
            id = e->live.data[e->live.len - 1];
        graph_output(e->g, arena_printf(e->arena, "y%u", i), id);
    }
}

Sample *sample_make(Arena *a, uint64_t seed)
{
    Gen e = {.arena = a, .rng = seed, .seed = seed};
    Diag *d = ARENA_NEW(a, Diag);
    *d = diag_new(a);
    e.g = graph_new(a, d, arena_printf(a, "seed %llu", (unsigned long long)seed));
    e.is_special = gen_chance(&e, 25);
    e.is_dyadic = gen_chance(&e, 50);
    const uint32_t n_nodes = (uint32_t)gen_range(&e, 3, gen_chance(&e, 50) ? 10 : 25);
    add_states(&e);
    new_leaf(&e, GEN_ALL, 0, 4);
    for (uint32_t n = 0, attempt = 0; n < n_nodes && attempt < 100; attempt++)
        n += add_node(&e);
    add_outputs(&e);
    finish_states(&e);
    Sample *s = ARENA_NEW(a, Sample);
    *s = (Sample){.arena = a,
                  .g = graph_compact(e.g, NULL),
                  .seed = seed,
                  .is_special = e.is_special,
                  .values = e.values};
    return s;
}

Graph *sample_copy(const Sample *s)
{
    Graph *copy = NULL;
    const bool ok = graph_bind(s->g, (DimValues){0}, &copy);
    rlx_assert(ok);
    return copy;
}
