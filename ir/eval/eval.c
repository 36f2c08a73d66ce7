// SPDX-License-Identifier: Apache-2.0
// The driver of the reference evaluator: finds eval_NAME of every op, computes sizes, allocates results
// within the limits, and runs a graph in node order. The meanings of the ops are in eval_*.c, by kind of op.
#include "ir/eval/eval_extent.h"

#include <string.h>

typedef bool (*EvalFn)(EvalCtx *c);

static const EvalFn eval_fns[OP_COUNT] = {
#define EW(name, ...)    [OP_##name] = eval_elementwise,
#define OP(name, ...)    [OP_##name] = eval_##name,
#define SUGAR(name, ...) [OP_##name] = eval_##name,
#include "ir/graph/ops.def"
};

bool eval_node(EvalCtx *c)
{
    rlx_assert(c->node->op < OP_COUNT && eval_fns[c->node->op] != NULL);
    rlx_assert(c->in != NULL || c->node->n_src == 0);
    rlx_assert(c->out != NULL && c->out[0].rank == c->node->shape->rank);
    Arena scratch = {0};
    c->scratch = &scratch;
    const bool ok = eval_fns[c->node->op](c);
    c->scratch = NULL;
    arena_free(&scratch);
    return ok;
}

EvalRun eval_begin(const Graph *g, Arena *a, DimValues symbols)
{
    rlx_assert(g->nodes.len > 0);
    return (EvalRun){.g = g, .arena = a, .symbols = symbols, .value = ARENA_ARRAY(a, Tensor, g->nodes.len)};
}

// --- one graph ---

// The state of eval_graph that its caller does not see.
typedef struct Running {
    EvalRun *run;
    const Graph *g;
    Tensor **results; // by NodeId: all results of nodes with more than one
    int64_t *sizes;   // by symbol, when the graph computes some of them
} Running;

static bool fail(const Running *r, NodeId id, DiagCode code, const char *what)
{
    return diag_error(r->g->diag, node_span(r->g, id), code, "%s: %s", node_name(r->g, id), what);
}

// The concrete shape of a result, checked against the limits.
static bool size_tensor(Running *r, NodeId id, const TensorType *type, Tensor *t)
{
    uint64_t bytes = dtype_info[type->dtype].bytes, limit = EVAL_MAX_TENSOR;
    bool is_empty = false;
    *t = (Tensor){.dtype = type->dtype, .rank = type->shape.rank, .numel = 1};
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t *d = &t->dim[i];
        if (!dim_eval(r->g->dims, type->shape.dim[i], r->run->symbols, d))
            return fail(r, id, E0207, "a size depends on a dimension without a value");
        if (*d < 0)
            return fail(r, id, E0208, "a size is negative for these dimensions");
        is_empty = is_empty || *d == 0;
        if (*d > 1 && bytes > limit / (uint64_t)*d)
            return fail(r, id, E0004, "the tensor is over the 4 GiB that the reference evaluator accepts");
        bytes *= *d > 1 ? (uint64_t)*d : 1;
        t->numel *= *d;
    }
    r->run->bytes += is_empty ? 0 : bytes;
    return r->run->bytes <= EVAL_MAX_TOTAL ||
           fail(r, id, E0004, "all tensors are over the 16 GiB that the reference evaluator accepts");
}

static TensorType result_type(const Node *n, uint32_t i)
{
    if (n->n_results > 1)
        return n->results[i];
    return (TensorType){.dtype = (DType)n->dtype, .shape = *n->shape};
}

// The init bytes of a param or state, or the data of a constant; NULL when there are none.
static const AttrVal *leaf_bytes(const Node *n)
{
    static const AttrId blob[] = {
        [OP_param] = A_param_init, [OP_state] = A_state_init, [OP_const] = A_const_data};
    if (n->op != OP_param && n->op != OP_state && n->op != OP_const)
        return NULL;
    const AttrVal *v = node_attr(n, blob[n->op]);
    return v->len == 0 ? NULL : v;
}

static bool eval_leaf(Running *r, NodeId id)
{
    const Node *n = graph_node(r->g, id);
    const TensorType type = result_type(n, 0);
    Tensor *given = &r->run->value[id], t;
    if (!size_tensor(r, id, &type, &t))
        return false;
    if (given->data != NULL)
        return tensor_is_alike(given, &t) ||
               fail(r, id, E0402, "the value has another type or shape than the graph says");
    const AttrVal *init = leaf_bytes(n);
    if (init == NULL && t.numel > 0 && (n->op == OP_input || n->op == OP_param))
        return fail(r, id, E0402, "no value was given");
    *given = tensor_new(r->run->arena, t.dtype, t.rank, t.dim);
    const uint64_t bytes = (uint64_t)t.numel * dtype_info[t.dtype].bytes;
    if (init != NULL && init->len != bytes)
        return fail(r, id, E0105, "the initial bytes are not as many as the shape needs");
    if (init != NULL)
        memcpy(given->data, init->u.blob, bytes);
    return true;
}

// A size may be an input.
static bool eval_given(Running *r, NodeId id)
{
    return eval_leaf(r, id) &&
           eval_extents_end(r->run, id, graph_node(r->g, id), &r->run->value[id], r->sizes);
}

// The operand's value; of `result` the result that it names.
static Tensor operand(const Running *r, const Node *n, uint32_t i)
{
    const NodeId src = n->src[i];
    if (src == 0)
        return (Tensor){.rank = 0};
    if (node_result(n) != 0)
        return r->results[src][node_result(n)];
    return r->run->value[src];
}

static bool eval_inner(Running *r, NodeId id)
{
    const Node *n = graph_node(r->g, id);
    Arena *a = r->run->arena;
    EvalCtx c = {
        .arena = a, .g = r->g, .node = n, .id = id, .symbols = r->run->symbols, .depth = r->run->depth};
    c.steps = r->run->steps;
    c.in = ARENA_ARRAY(a, Tensor, n->n_src);
    c.out = ARENA_ARRAY(a, Tensor, n->n_results);
    for (uint32_t i = 0; i < n->n_src; i++)
        c.in[i] = operand(r, n, i);
    eval_extents_assume(r->run, id, r->sizes);
    for (uint32_t i = 0; i < n->n_results; i++) {
        const TensorType type = result_type(n, i);
        if (!size_tensor(r, id, &type, &c.out[i]))
            return false;
        c.out[i] = tensor_new(a, c.out[i].dtype, c.out[i].rank, c.out[i].dim);
    }
    c.bytes = r->run->bytes;
    if (!eval_node(&c))
        return false;
    r->run->bytes = c.bytes;
    r->run->steps = c.steps + 1;
    if (!eval_extents_end(r->run, id, n, c.out, r->sizes))
        return false;
    r->run->value[id] = c.out[0];
    r->results[id] = c.out;
    return true;
}

static bool test_checks(const Running *r)
{
    for (uint32_t i = 0; i < r->g->checks.len; i++) {
        const GraphCheck *c = &r->g->checks.data[i];
        if (tensor_get_i64(&r->run->value[c->cond], 0) == 0)
            return diag_error(r->g->diag, node_span(r->g, c->cond), E0403, "%s", c->message);
    }
    return true;
}

bool eval_graph(EvalRun *run)
{
    rlx_assert(run->g != NULL && run->arena != NULL && run->value != NULL);
    const Graph *g = run->g;
    if (run->depth > GRAPH_MAX_DEPTH)
        return diag_error(g->diag, (Span){0}, E0004, "sub-graphs are nested deeper than %d", GRAPH_MAX_DEPTH);
    Running r = {.run = run, .g = g, .results = ARENA_ARRAY(run->arena, Tensor *, g->nodes.len)};
    const bool *needed = graph_mark_needed(g, ROOT_RESULTS | ROOT_EXTENT, run->arena);
    r.sizes = eval_extents_begin(run);
    for (NodeId id = 1; id < g->nodes.len; id++) {
        if (!needed[id])
            continue;
        const bool is_leaf = op_info[graph_node(g, id)->op].kind == OPKIND_LEAF;
        if (!(is_leaf ? eval_given(&r, id) : eval_inner(&r, id)))
            return false;
    }
    return test_checks(&r);
}
