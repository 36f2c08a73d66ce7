// SPDX-License-Identifier: Apache-2.0
// See eval_work.h.
#include "ir/eval/eval_work.h"
#include "ir/eval/eval_ops.h"
#include "ir/shape/forms.h"

// Units. An element that is read or written goes through conversions to and from double.
enum { ELEMENT = 16, MULTIPLY_ADD = 2 };

// The budget of any model (at most two seconds of one processor, with packing and writing what is new),
// and more for each element of its constants: a chain of casts and scales of every weight.
#define BASE_WORK  (UINT64_C(1) << 31)
#define BASE_BYTES (UINT64_C(1) << 26)
enum { WORK_PER_ELEMENT = 512, BYTES_PER_BYTE = 32 };

static uint64_t add(uint64_t a, uint64_t b)
{
    return __builtin_add_overflow(a, b, &a) ? EVAL_WORK_ENDLESS : a;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return __builtin_mul_overflow(a, b, &a) ? EVAL_WORK_ENDLESS : a;
}

static uint64_t count(const Shape *s)
{
    return shape_is_const(s) ? (uint64_t)shape_numel(s) : EVAL_WORK_ENDLESS;
}

static uint64_t count_operands(const Graph *g, const Node *n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i])
            sum = add(sum, count(graph_node(g, n->src[i])->shape));
    return sum;
}

static uint64_t count_results(const Node *n)
{
    uint64_t sum = count(n->shape);
    for (uint32_t i = 1; i < n->n_results; i++)
        sum = add(sum, count(&n->results[i].shape));
    return sum;
}

// --- by kind of op ---

// An axis of operand 0, counted from the end; 1 where it has none.
static uint64_t axis_size(const Graph *g, const Node *n, uint32_t from_end)
{
    const Shape *s = graph_node(g, n->src[0])->shape;
    const Dim d = s->rank >= from_end ? s->dim[s->rank - from_end] : 1;
    return dim_is_const(d) ? (uint64_t)d : EVAL_WORK_ENDLESS;
}

// The axis that a product sums.
static uint64_t work_inner(const Graph *g, const Node *n)
{
    const AttrVal *is_transposed = node_find_attr(n, "transpose_a");
    return times(count(n->shape), axis_size(g, n, is_transposed != NULL && is_transposed->u.i ? 2 : 1));
}

// Every element of the result, or of a transposed convolution's operand, meets one filter.
static uint64_t work_filter(const Graph *g, const Node *n)
{
    const Shape *w = graph_node(g, n->src[1])->shape;
    const uint64_t filters = dim_is_const(w->dim[0]) && w->dim[0] > 0 ? (uint64_t)w->dim[0] : 1;
    return times(add(count(n->shape), count(graph_node(g, n->src[0])->shape)), count(w) / filters + 1);
}

// The taps of a window.
static uint64_t work_kernel(const Graph *g, const Node *n)
{
    const AttrVal *k = node_find_attr(n, "kernel");
    uint64_t taps = 1;
    (void)g;
    for (uint64_t i = 0; i < k->len; i++)
        taps = times(taps, k->u.ints[i] > 0 ? (uint64_t)k->u.ints[i] : 1);
    return times(count(n->shape), taps);
}

// The side of square matrices.
static uint64_t work_side(const Graph *g, const Node *n)
{
    return times(count_operands(g, n), axis_size(g, n, 1));
}

static uint64_t work_depth(const Graph *g, const Node *n)
{
    (void)g;
    const int64_t depth = node_find_attr(n, "depth")->u.i;
    return times(count(n->shape), depth > 0 ? (uint64_t)depth : 1);
}

// Every query meets every key and its value.
static uint64_t work_keys(const Graph *g, const Node *n)
{
    const Shape *q = graph_node(g, n->src[0])->shape, *k = graph_node(g, n->src[1])->shape;
    rlx_assert(q->rank >= 2 && k->rank >= 2);
    const Dim keys = k->dim[k->rank - 2];
    return times(add(count(q), count(n->shape)), dim_is_const(keys) ? (uint64_t)keys : EVAL_WORK_ENDLESS);
}

static uint64_t work_all(const Graph *g, const Node *n)
{
    return times(add(count_operands(g, n), 1), add(count_results(n), 1));
}

// By OpSteps; ELEMENTS takes none, and BODY is work_loop.
static uint64_t (*const steps_of[OPSTEPS_COUNT])(const Graph *g, const Node *n) = {
    [OPSTEPS_ALL] = work_all,       [OPSTEPS_INNER] = work_inner, [OPSTEPS_FILTER] = work_filter,
    [OPSTEPS_KERNEL] = work_kernel, [OPSTEPS_SIDE] = work_side,   [OPSTEPS_DEPTH] = work_depth,
    [OPSTEPS_KEYS] = work_keys,
};

static uint64_t work_body(const Graph *body)
{
    uint64_t sum = ELEMENT;
    for (NodeId id = 1; id < body->nodes.len; id++)
        sum = add(sum, eval_work(body, id, INT64_MAX));
    return sum;
}

// The work of the branch that takes longer.
static uint64_t work_if(const Node *n)
{
    const uint64_t a = work_body(node_attr(n, A_if_then)->u.graph);
    const uint64_t b = work_body(node_attr(n, A_if_else)->u.graph);
    return a > b ? a : b;
}

static uint64_t work_loop(const Graph *g, const Node *n, int64_t trips)
{
    const LoopForm loop = loop_form(n);
    if (node_is_const(g, n->src[0])) {
        const Tensor t = tensor_of_const(g, n->src[0]);
        trips = tensor_get_i64(&t, 0);
    }
    if (loop.max_trips != NULL && dim_is_const(*loop.max_trips) && *loop.max_trips < trips)
        trips = *loop.max_trips;
    return times(trips > 0 ? (uint64_t)trips : 0, work_body(loop.body));
}

uint64_t eval_work(const Graph *g, NodeId id, int64_t trips)
{
    const Node *n = graph_node(g, id);
    if (op_info[n->op].kind == OPKIND_LEAF)
        return 0;
    const uint64_t in = count_operands(g, n), out = count_results(n);
    const OpSteps kind = op_info[n->op].steps;
    if (kind == OPSTEPS_BODY)
        return add(times(ELEMENT, add(in, out)), work_loop(g, n, trips));
    if (n->op == OP_if)
        return add(times(ELEMENT, add(in, out)), work_if(n));
    const uint64_t steps = steps_of[kind] != NULL ? steps_of[kind](g, n) : 0;
    return add(times(ELEMENT, add(in, out)), times(MULTIPLY_ADD, steps));
}

// --- budget ---

static void set_budget(Graph *g)
{
    uint64_t elements = 0, bytes = 0;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (op_info[n->op].kind != OPKIND_LEAF || !shape_is_const(n->shape) || n->op == OP_input)
            continue;
        const uint64_t size = type_bytes((DType)n->dtype, n->shape);
        // A byte may hold two weights, in groups that are filled up.
        const bool is_packed = dtype_info[n->dtype].cls != DCLASS_FLOAT;
        elements = add(elements, is_packed ? times(size, 4) : count(n->shape));
        bytes = add(bytes, size);
    }
    g->budget->is_set = true;
    g->budget->work = add(BASE_WORK, times(elements, WORK_PER_ELEMENT));
    g->budget->bytes = add(BASE_BYTES, times(bytes, BYTES_PER_BYTE));
}

bool eval_spend(Graph *g, NodeId id)
{
    if (!g->budget->is_set)
        set_budget(g);
    const uint64_t work = eval_work(g, id, INT64_MAX);
    const uint64_t bytes = type_bytes((DType)graph_node(g, id)->dtype, graph_node(g, id)->shape);
    if (work > g->budget->work || bytes > g->budget->bytes)
        return false;
    g->budget->work -= work;
    g->budget->bytes -= bytes;
    return true;
}
