// SPDX-License-Identifier: Apache-2.0
// How often a loop runs whose condition follows from constants, the number of the iteration and what it
// carries of both, as exporters of Keras write counters: found by running just that.
#include "compiler/import/onnx/onnx_loop.h"
#include "ir/eval/eval.h"
#include "ir/eval/eval_work.h"

// NODE_WORK: units of eval_work that a node takes whatever its size.
enum { MAX_ELEMENTS = 64, NODE_WORK = 1 << 10 };

typedef struct Counter {
    const Graph *outside;
    Graph *body;
    const NodeId *outer; // by input of the body from the third one on
    uint32_t n_carried;
    bool *needed; // by node of the body
} Counter;

static bool is_small(const Node *n)
{
    return shape_is_const(n->shape) && shape_numel(n->shape) <= MAX_ELEMENTS;
}

static void mark(Counter *c, NodeId id)
{
    rlx_assert(id != 0 && id < c->body->nodes.len);
    c->needed[id] = true;
    for (NodeId at = id; at > 0; at--)
        for (uint32_t i = 0; c->needed[at] && i < graph_node(c->body, at)->n_src; i++)
            c->needed[graph_node(c->body, at)->src[i]] = true;
}

// What the condition needs, in all iterations.
static void mark_needed(Counter *c)
{
    bool changed = true;
    mark(c, c->body->outputs.data[0].node);
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < c->n_carried; i++) {
            const NodeId next = c->body->outputs.data[1 + i].node;
            if (!c->needed[c->body->inputs.data[2 + i]] || c->needed[next])
                continue;
            mark(c, next);
            changed = true;
        }
    }
    c->needed[0] = false;
}

static bool is_known(const Counter *c)
{
    for (uint32_t i = 1; i < c->body->inputs.len; i++)
        if (c->needed[c->body->inputs.data[i]] && (i == 1 || !node_is_const(c->outside, c->outer[i - 2])))
            return false;
    for (NodeId id = 1; id < c->body->nodes.len; id++) {
        const Node *n = graph_node(c->body, id);
        const bool is_given = n->op == OP_const || n->op == OP_input;
        bool ok = !c->needed[id] || (is_small(n) && (op_info[n->op].kind != OPKIND_LEAF || is_given));
        for (uint32_t i = 0; c->needed[id] && i < n->n_attr; i++)
            ok = ok && attr_info[n->attr[i].id].type != ATTR_GRAPH;
        if (!ok)
            return false;
    }
    return true;
}

static uint64_t work_once(const Counter *c)
{
    uint64_t work = 0;
    for (NodeId id = 1; id < c->body->nodes.len; id++) {
        const uint64_t one = c->needed[id] ? eval_work(c->body, id, 0) : 0;
        work = one < EVAL_WORK_ENDLESS - NODE_WORK - work ? work + one + NODE_WORK : EVAL_WORK_ENDLESS;
    }
    return work;
}

// One iteration. values: by input of the body; those that are carried become the next ones. False: it
// failed.
static bool run_once(const Counter *c, Arena *a, int64_t iteration, Tensor *values, bool *goes_on)
{
    rlx_assert(iteration >= 0);
    Diag quiet = diag_new(a);
    Graph g = *c->body;
    GraphOutput *outputs = ARENA_ARRAY(a, GraphOutput, 1 + c->n_carried);
    g.diag = &quiet;
    g.checks.len = g.states.len = g.outputs.len = 0;
    g.outputs.data = outputs;
    outputs[g.outputs.len++] = c->body->outputs.data[0];
    for (uint32_t i = 0; i < c->n_carried; i++)
        if (c->needed[g.inputs.data[2 + i]])
            outputs[g.outputs.len++] = c->body->outputs.data[1 + i];
    EvalRun run = eval_begin(&g, a, (DimValues){0});
    values[0] = tensor_new(a, DTYPE_i64, 0, NULL);
    tensor_set_i64(&values[0], 0, iteration);
    for (uint32_t i = 0; i < g.inputs.len; i++)
        if (c->needed[g.inputs.data[i]])
            run.value[g.inputs.data[i]] = values[i];
    if (!eval_graph(&run))
        return false;
    *goes_on = tensor_get_i64(&run.value[outputs[0].node], 0) != 0;
    for (uint32_t i = 0; i < c->n_carried; i++)
        if (c->needed[g.inputs.data[2 + i]])
            values[2 + i] = run.value[c->body->outputs.data[1 + i].node];
    return true;
}

bool onnx_count_trips(OnnxModel *m, const Graph *outside, Graph *body, const NodeId *outer,
                      uint32_t n_carried, int64_t *trips)
{
    rlx_assert(body->inputs.len >= 2 + n_carried && body->outputs.len >= 1 + n_carried);
    Arena scratch = {0};
    Counter c = {outside, body, outer, n_carried, ARENA_ARRAY(&scratch, bool, body->nodes.len)};
    mark_needed(&c);
    bool ok = is_known(&c) && *trips <= ONNX_MAX_COUNT, goes_on = ok;
    const uint64_t work = ok ? work_once(&c) : 0;
    Tensor *values = ARENA_ARRAY(&scratch, Tensor, body->inputs.len);
    for (uint32_t i = 2; ok && i < body->inputs.len; i++)
        if (c.needed[body->inputs.data[i]])
            values[i] = tensor_of_const(outside, outer[i - 2]);
    int64_t at = 0;
    for (; ok && goes_on && at < *trips; at++)
        ok = onnx_spend_work(m, work) && run_once(&c, &scratch, at, values, &goes_on);
    if (ok)
        *trips = at;
    arena_free(&scratch);
    return ok;
}

// --- counters that end at a size ---

// Which carried value an input is; -1: none.
static int64_t find_carried(const Graph *body, NodeId id, uint32_t n_carried)
{
    for (uint32_t i = 0; i < n_carried; i++)
        if (body->inputs.data[2 + i] == id)
            return i;
    return -1;
}

static bool is_zero(OnnxNode *n, const OnnxValue *v)
{
    OnnxDims d;
    return onnx_value_dims(n->scope, v, &d) && d.n == 1 && d.dim[0] == 0;
}

// Floats count exactly up to here.
enum { MAX_COUNTED = 1 << 24 };

bool onnx_count_to_size(OnnxNode *outside, const Graph *body, const OnnxUnroll *u, Dim *trips)
{
    rlx_assert(body->outputs.len > u->n_carried && body->inputs.len >= 2 + u->n_carried);
    const Node *less = graph_node(body, onnx_number_of(body, body->outputs.data[0].node));
    if (less->op != OP_lt && less->op != OP_gt)
        return false;
    const bool is_lt = less->op == OP_lt;
    const NodeId next = onnx_number_of(body, less->src[is_lt ? 0 : 1]);
    const NodeId limit = onnx_number_of(body, less->src[is_lt ? 1 : 0]);
    NodeId counter = 0;
    OnnxDims size;
    int64_t least = 0, most = 0;
    if (!onnx_is_one_more(body, next, &counter))
        return false;
    const int64_t at = find_carried(body, counter, u->n_carried);
    const int64_t to = find_carried(body, limit, u->n_carried);
    if (at < 0 || to < 0 || !is_zero(outside, &u->carried[at]) ||
        onnx_number_of(body, body->outputs.data[1 + at].node) != next ||
        onnx_number_of(body, body->outputs.data[1 + to].node) != limit ||
        !onnx_value_dims(outside->scope, &u->carried[to], &size) || size.n != 1)
        return false;
    dim_range(outside->graph->dims, size.dim[0], &least, &most);
    *trips = size.dim[0];
    return least >= 1 && most <= MAX_COUNTED;
}
