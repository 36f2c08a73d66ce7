// SPDX-License-Identifier: Apache-2.0
// Rebuilds the body of a loop for planning. See loop_body.h. What a gather takes out of a captured value by
// the number of the iteration becomes an input of its own: then it is only a matter of where to read.
#include "passes/graph/loop_body.h"
#include "ir/eval/eval.h"
#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"

typedef struct Builder {
    const Graph *outer, *from;
    const Node *loop;
    LoopBody *out;
    NodeId *map; // by node of the body; 0: not made yet
    uint32_t n_carried;
} Builder;

static NodeId add_input(Builder *b, const TensorType *t, Arena *a, BodyInput in, Span span)
{
    static const char *const names[] = {"i", "x", "row"};
    const char *name = arena_printf(a, "%s%u", names[in.kind], b->out->inputs.len);
    vec_push(a, &b->out->inputs, in);
    return graph_input(b->out->graph, name, t->dtype, &t->shape, span);
}

// --- rows ----------------------------------------------------------------------------------------

typedef struct Affine {
    int64_t base, sign; // base + sign * i
} Affine;

// A number of the graph as a whole number.
static bool is_whole_const(const Graph *g, NodeId id, int64_t *v)
{
    if (!node_is_const(g, id) || shape_numel(graph_node(g, id)->shape) != 1)
        return false;
    const Tensor t = tensor_of_const(g, id);
    *v = tensor_get_i64(&t, 0);
    return true;
}

// The same, of moderate size.
static bool is_small_const(const Graph *g, NodeId id, int64_t *v)
{
    return is_whole_const(g, id, v) && *v > -DIM_MAX_VALUE && *v < DIM_MAX_VALUE;
}

// Is the only element of n an operand's, perhaps negated and with a constant added?
static bool is_affine_step(const Graph *g, const Node *n, NodeId *from, Affine *at)
{
    const OpId op = (OpId)n->op;
    int64_t v[2] = {0};
    *at = (Affine){0, 1};
    if ((op_info[op].flags & OPFLAG_LINEAR) == 0) {
        *from = n->src[0];
        return (op_info[op].flags & OPFLAG_VIEW) != 0 && node_result(n) == 0 &&
               shape_numel(graph_node(g, n->src[0])->shape) == 1;
    }
    const uint32_t open = n->n_src > 1 && !is_small_const(g, n->src[1], &v[1]) ? 1 : 0;
    if (open == 1 && !is_small_const(g, n->src[0], &v[0]))
        return false;
    at->base = eval_ew_i64(op, v[0], v[1], 0);
    v[open] = 1;
    at->sign = eval_ew_i64(op, v[0], v[1], 0) - at->base;
    *from = n->src[open];
    return true;
}

// Goes down from an index to the number of the iteration, through sums with constants and changes of shape.
static bool is_affine(const Graph *g, NodeId id, Affine *out)
{
    *out = (Affine){0, 1};
    for (uint32_t steps = 0; steps < 16; steps++) {
        const Node *n = graph_node(g, id);
        Affine at;
        if (id == g->inputs.data[0])
            return true;
        if (n->dtype != DTYPE_i64 || shape_numel(n->shape) != 1 || n->n_src == 0 ||
            !is_affine_step(g, n, &id, &at))
            return false;
        out->base += out->sign * at.base;
        out->sign *= at.sign;
    }
    return false;
}

static uint32_t input_index(const Graph *g, NodeId id)
{
    for (uint32_t i = 0; i < g->inputs.len; i++)
        if (g->inputs.data[i] == id)
            return i;
    return UINT32_MAX;
}

// Is the node an entry of a captured value that never lies outside?
static bool is_row(const Builder *b, const Node *n, BodyInput *out)
{
    Affine at;
    const int64_t axis = gather_axis(n);
    if (axis < 0 || graph_node(b->from, n->src[0])->op != OP_input || !is_affine(b->from, n->src[1], &at))
        return false;
    *out = (BodyInput){.kind = BODY_ROW,
                       .operand = input_index(b->from, n->src[0]),
                       .axis = (uint32_t)axis,
                       .base = at.base,
                       .sign = at.sign,
                       .rank = graph_node(b->from, n->src[1])->shape->rank};
    const int64_t size = graph_node(b->from, n->src[0])->shape->dim[out->axis], trips = b->out->max_trips;
    if (out->operand < 2 + b->n_carried || trips > size)
        return false;
    const int64_t last = at.base + at.sign * (trips > 0 ? trips - 1 : 0);
    return at.base >= 0 && at.base < size && last >= 0 && last < size;
}

// --- the graph -----------------------------------------------------------------------------------

static NodeId make_leaf(Builder *b, NodeId id, Arena *a)
{
    const Node *n = graph_node(b->from, id);
    const TensorType t = {(DType)n->dtype, *n->shape};
    const Span span = node_span(b->from, id);
    const uint32_t index = n->op == OP_input ? input_index(b->from, id) : UINT32_MAX;
    if (n->op != OP_input)
        return graph_clone_node(b->out->graph, b->from, id, NULL);
    if (index == 1)
        return graph_scalar(b->out->graph, DTYPE_bool, 1, span);
    return add_input(b, &t, a,
                     (BodyInput){.kind = index == 0 ? BODY_COUNTER : BODY_CAPTURE, .operand = index}, span);
}

static NodeId make_node(Builder *b, NodeId id, Arena *a)
{
    const Node *n = graph_node(b->from, id);
    NodeId *src = ARENA_ARRAY(a, NodeId, n->n_src + 1u);
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = b->map[n->src[i]];
    return graph_clone_node(b->out->graph, b->from, id, src);
}

static void add_states(Builder *b, Arena *a)
{
    for (uint32_t i = 0; i < b->n_carried; i++) {
        const NodeId id = b->from->inputs.data[2 + i];
        const Node *n = graph_node(b->from, id);
        b->map[id] = graph_state(b->out->graph, arena_printf(a, "carried%u", i), (DType)n->dtype, n->shape,
                                 NULL, 0, node_span(b->from, id));
    }
}

// Marks what the outputs need, with rows in place of gathers.
static BodyInput *mark_needed(Builder *b, bool *is_needed, Arena *a)
{
    BodyInput *row = ARENA_ARRAY(a, BodyInput, b->from->nodes.len);
    for (uint32_t i = 0; i < b->from->outputs.len; i++)
        is_needed[b->from->outputs.data[i].node] = true;
    for (NodeId id = b->from->nodes.len; id-- > 1;) {
        const Node *n = graph_node(b->from, id);
        if (!is_needed[id] || is_row(b, n, &row[id]))
            continue;
        row[id] = (BodyInput){0};
        for (uint32_t i = 0; i < n->n_src; i++)
            is_needed[n->src[i]] = true;
    }
    is_needed[0] = false;
    return row;
}

static void add_nodes(Builder *b, Arena *a)
{
    bool *is_needed = ARENA_ARRAY(a, bool, b->from->nodes.len);
    const BodyInput *row = mark_needed(b, is_needed, a);
    for (NodeId id = 1; id < b->from->nodes.len; id++) {
        const Node *n = graph_node(b->from, id);
        if (!is_needed[id] || b->map[id] != 0)
            continue;
        if (row[id].kind == BODY_ROW)
            b->map[id] =
                add_input(b, &(TensorType){(DType)n->dtype, *n->shape}, a, row[id], node_span(b->from, id));
        else
            b->map[id] = op_info[n->op].kind == OPKIND_LEAF ? make_leaf(b, id, a) : make_node(b, id, a);
    }
}

static void add_outputs(Builder *b)
{
    LoopBody *out = b->out;
    double goes_on = 0;
    const NodeId cond = b->map[b->from->outputs.data[0].node];
    const bool is_const = node_is_scalar_const(out->graph, cond, &goes_on);
    out->has_cond = !is_const;
    if (is_const && goes_on == 0)
        out->max_trips = out->max_trips < 1 ? out->max_trips : 1;
    if (out->has_cond)
        graph_output(out->graph, "goes_on", cond);
    for (uint32_t i = 0; i < b->n_carried; i++)
        out->graph->states.data[i].next = b->map[b->from->outputs.data[1 + i].node];
    for (uint32_t i = 1 + b->n_carried; i < b->from->outputs.len; i++)
        graph_output(out->graph, arena_printf(out->graph->arena, "scan%u", i),
                     b->map[b->from->outputs.data[i].node]);
}

LoopBody loop_body(Graph *g, NodeId id, Arena *a)
{
    rlx_assert(graph_node(g, id)->n_src >= 2);
    LoopBody out = {.graph = graph_new_like(g, "body"), .max_trips = INT64_MAX};
    const Node *n = graph_node(g, id);
    const LoopForm form = loop_form(n);
    int64_t trips = 0;
    rlx_assert(form.body != NULL);
    Builder b = {.outer = g, .from = form.body, .loop = n, .out = &out, .n_carried = form.n_carried};
    if (form.max_trips != NULL)
        out.max_trips = *form.max_trips;
    if (is_whole_const(g, n->src[0], &trips) && trips < out.max_trips)
        out.max_trips = trips < 0 ? 0 : trips;
    b.map = ARENA_ARRAY(a, NodeId, b.from->nodes.len);
    add_states(&b, a);
    add_nodes(&b, a);
    add_outputs(&b);
    return out;
}
