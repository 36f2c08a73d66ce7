// SPDX-License-Identifier: Apache-2.0
// Loops as nodes of the graph: the body becomes a graph of its own, whose inputs are the number of the
// iteration, the condition, what is carried and what it uses from outside. See onnx_loop.h.
#include "compiler/import/onnx/onnx_loop.h"

typedef struct BodyGraph {
    OnnxNode *n; // outside
    OnnxNode in; // the same node, but it makes nodes of the body
    OnnxLoop *l;
    OnnxScope scope;
    OnnxCaptures captures;
    NodeId i;
    NodeId *src; // operands of the loop for the inputs of the body, without trip count and condition
    uint32_t n_src, n_carried;
    const char *message; // of the conditions in the body, NULL: there are none
    bool is_open;        // how often it runs is only known when the model runs
    bool is_refit;       // a carried value begins with another shape than the body found; try again
} BodyGraph;

static void set_diag(Graph *g, Diag *d)
{
    g->diag = d;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->n_attr; i++)
            if (attr_info[n->attr[i].id].type == ATTR_GRAPH)
                set_diag(n->attr[i].u.graph, d);
    }
}

// An input for a value of the graph outside.
static NodeId add_input(BodyGraph *b, const char *name, NodeId outer)
{
    rlx_assert(outer != 0 && b->n_src < b->l->u.n_carried + b->l->u.n_rows + 2);
    const Shape s = *onnx_shape(b->n, outer);
    b->src[b->n_src++] = outer;
    return graph_input(b->in.graph, name, onnx_dtype(b->n, outer), &s, b->n->span);
}

// --- rows ---

static NodeId entry_of(OnnxNode *n, NodeId i, const OnnxRow *row, NodeId x)
{
    OnnxDims last = {.dtype = DTYPE_i64, .n = 1};
    if (n->failed || !row->is_backward)
        return onnx_gather(n, x, i, row->axis);
    last.dim[0] = dim_sub(n->graph->dims, onnx_shape(n, x)->dim[row->axis], 1);
    OnnxValue v = {.kind = ONNX_DIMS, .dims = &last};
    const NodeId from = onnx_value_node(n->scope, &v, n->span);
    n->failed = n->failed || !from;
    return onnx_gather(n, x, onnx_op2(n, OP_sub, from, i), row->axis);
}

// --- inputs and outputs ---

static bool put_input(BodyGraph *b, uint32_t at, NodeId id)
{
    const Onnx__GraphProto *g = b->l->u.body;
    rlx_assert(at < g->n_input);
    return id && onnx_put(&b->scope, onnx_text(g->input[at]->name), onnx_value(id), b->n->span);
}

static bool add_inputs(BodyGraph *b)
{
    const OnnxUnroll *u = &b->l->u;
    const Shape scalar = {0};
    Arena *a = b->n->model->arena;
    uint32_t at = 0;
    b->i = graph_input(b->in.graph, "iteration", DTYPE_i64, &scalar, b->n->span);
    graph_input(b->in.graph, "condition", DTYPE_bool, &scalar, b->n->span);
    if (u->has_control &&
        (!put_input(b, at++, b->i) || !put_input(b, at++, onnx_scalar(&b->in, DTYPE_bool, 1))))
        return false;
    for (uint32_t i = 0; i < u->n_carried; i++) {
        OnnxValue v = u->carried[i];
        const NodeId outer = onnx_value_node(b->n->scope, &v, b->n->span);
        if (!outer || !put_input(b, at++, add_input(b, arena_printf(a, "carried %u", i), outer)))
            return false;
    }
    b->n_carried = u->n_carried;
    for (uint32_t i = 0; i < u->n_rows; i++) {
        const NodeId all = add_input(b, arena_printf(a, "rows %u", i), b->l->rows[i].x);
        if (!put_input(b, at++, entry_of(&b->in, b->i, &b->l->rows[i], all)))
            return false;
    }
    return true;
}

static NodeId body_output(BodyGraph *b, uint32_t i)
{
    rlx_assert(i < b->l->u.body->n_output);
    const char *user = arena_printf(b->n->model->arena, "the body of node '%s'", b->n->label);
    OnnxValue v = onnx_get(&b->scope, onnx_text(b->l->u.body->output[i]->name), b->n->span, user);
    if (v.is_text || (v.kind != ONNX_NODE && v.kind != ONNX_DIMS)) {
        onnx_fail(&b->in, E0206, "output %u of the body is not a tensor of numbers", i);
        return 0;
    }
    const NodeId id = onnx_value_node(&b->scope, &v, b->n->span);
    b->in.failed = b->in.failed || !id;
    return id;
}

static void add_output(BodyGraph *b, NodeId id)
{
    Graph *g = b->in.graph;
    if (!b->in.failed)
        graph_output(g, arena_printf(b->n->model->arena, "out %u", g->outputs.len), id);
}

static bool same_type(const OnnxNode *n, NodeId a, const OnnxNode *m, NodeId b)
{
    return onnx_dtype(n, a) == onnx_dtype(m, b) && shape_equal(onnx_shape(n, a), onnx_shape(m, b));
}

// By nodes of the body, or as another carried value or a row.
static bool is_read(BodyGraph *b, NodeId input)
{
    const OnnxUnroll *u = &b->l->u;
    const Graph *g = b->in.graph;
    for (uint32_t i = 0; i < u->n_carried + u->n_scan; i++)
        if ((i < u->n_carried || b->l->wants_scan[i - u->n_carried]) &&
            body_output(b, u->has_control + i) == input)
            return true;
    for (NodeId id = input + 1; id < g->nodes.len; id++)
        for (uint32_t i = 0; i < graph_node(g, id)->n_src; i++)
            if (graph_node(g, id)->src[i] == input)
                return true;
    return false;
}

// A carried value that begins with another shape than the body gives it: one number of another rank begins
// with the rank that it has later, and of a value that the body does not read only the later ones count.
static bool refit(BodyGraph *b, uint32_t i, NodeId id)
{
    OnnxNode *n = b->n;
    const Shape to = *onnx_shape(&b->in, id);
    const NodeId inside = b->in.graph->inputs.data[2 + i], outer = b->src[i];
    const Shape from = *onnx_shape(n, outer);
    const bool is_one = shape_is_const(&to) && shape_is_const(&from) && shape_numel(&to) == 1 &&
                        shape_numel(&from) == 1 && onnx_dtype(n, outer) == onnx_dtype(&b->in, id);
    NodeId first = 0;
    for (uint32_t k = 0; k < to.rank; k++)
        if (graph_dim_is_computed(b->in.graph, to.dim[k]))
            return false;
    if (is_one)
        first = onnx_reshape(n, outer, &to);
    else if (!is_read(b, inside) && b->l->count == 0)
        first = onnx_expand(n, onnx_scalar(n, onnx_dtype(&b->in, id), 0), to.dim, to.rank);
    if (first == 0 || n->failed)
        return false;
    if (!is_one) {
        OnnxValue cond = b->l->u.cond;
        const NodeId goes = cond.kind == ONNX_ABSENT ? onnx_scalar(n, DTYPE_bool, 1)
                                                     : onnx_value_node(n->scope, &cond, n->span);
        onnx_require(n, onnx_reshape(n, goes, &(Shape){0}),
                     arena_printf(n->model->arena,
                                  "node '%s': %s: there must be an iteration, as the carried value %u has "
                                  "another shape before",
                                  n->label, n->op, i));
    }
    b->l->u.carried[i] = onnx_value(first);
    b->is_refit = true;
    return !n->failed;
}

static void add_carried(BodyGraph *b, uint32_t at)
{
    rlx_assert(b->in.graph->inputs.len >= 2 + b->l->u.n_carried);
    const NodeId *inside = b->in.graph->inputs.data + 2;
    for (uint32_t i = 0; i < b->l->u.n_carried && !b->in.failed; i++) {
        const NodeId id = body_output(b, at + i);
        if (!b->in.failed && !same_type(&b->in, id, &b->in, inside[i]) && !refit(b, i, id))
            onnx_fail(&b->in, E0206, "the type or shape of the carried value %u changes in every iteration",
                      i);
        add_output(b, id);
    }
}

// Does the value have a size that is computed in the body?
static bool has_own_size(const Graph *g, NodeId id)
{
    const Shape *s = graph_node(g, id)->shape;
    for (uint32_t i = 0; i < s->rank; i++)
        if (graph_dim_is_computed(g, s->dim[i]))
            return true;
    return false;
}

// A row for a value outside whose sizes are known: those that the body computes must be the same.
static NodeId fit_row(BodyGraph *b, NodeId row, NodeId like)
{
    OnnxNode *n = &b->in;
    for (uint32_t i = 1; like && !n->failed && i < onnx_shape(n, row)->rank; i++) {
        const Dim size = onnx_shape(n, row)->dim[i], wanted = onnx_shape(b->n, like)->dim[i];
        if (size == wanted || !graph_dim_is_computed(n->graph, size) || !dim_is_const(wanted))
            continue;
        const NodeId found = onnx_dim_value(n, size);
        onnx_require(n, onnx_op2(n, OP_eq, found, onnx_scalar(n, DTYPE_i64, (double)wanted)),
                     arena_printf(n->model->arena, "node '%s': axis %u of a row must have the size %lld",
                                  n->label, i, (long long)wanted));
        const NodeId last = onnx_op2(n, OP_sub, found, onnx_scalar(n, DTYPE_i64, 1));
        row = onnx_gather(n, row, onnx_op2(n, OP_min, onnx_iota(n, wanted), last), i);
    }
    return row;
}

static void add_outputs(BodyGraph *b)
{
    const OnnxUnroll *u = &b->l->u;
    const Shape scalar = {0};
    uint32_t at = 0;
    add_output(b, u->has_control ? onnx_reshape(&b->in, body_output(b, at++), &scalar)
                                 : onnx_scalar(&b->in, DTYPE_bool, 1));
    add_carried(b, at);
    at += u->n_carried;
    for (uint32_t i = 0; i < u->n_scan && !b->in.failed; i++)
        if (b->l->wants_scan[i])
            add_output(b, fit_row(b, body_output(b, at + i), b->l->row_like ? b->l->row_like[i] : 0));
    for (uint32_t i = 0; i < b->in.graph->outputs.len && !b->in.failed; i++)
        if (has_own_size(b->in.graph, b->in.graph->outputs.data[i].node))
            onnx_fail(&b->in, E0206, "an output of the body has a size that the body computes");
}

// --- conditions that must hold ---

// Moves the last entry of a list to another place.
static void move_last(NodeId *list, uint32_t n, uint32_t to)
{
    rlx_assert(to < n);
    const NodeId last = list[n - 1];
    for (uint32_t i = n - 1; i > to; i--)
        list[i] = list[i - 1];
    list[to] = last;
}

// Conditions of the body become one more carried value, which must be true after the loop.
static void carry_checks(BodyGraph *b)
{
    rlx_assert(b->in.graph->checks.len != 0 && b->message == NULL);
    Graph *g = b->in.graph;
    const Shape scalar = {0};
    const uint32_t k = b->n_carried;
    Str message = str_new(b->n->model->arena);
    NodeId holds = graph_input(g, "conditions", DTYPE_bool, &scalar, b->n->span);
    move_last(g->inputs.data, g->inputs.len, 2 + k);
    b->src[b->n_src++] = onnx_scalar(b->n, DTYPE_bool, 1);
    move_last(b->src, b->n_src, k);
    for (uint32_t i = 0; i < g->checks.len; i++) {
        holds = onnx_op2(&b->in, OP_logical_and, holds, g->checks.data[i].cond);
        str_printf(&message, "%s%s", i ? "; or " : "", g->checks.data[i].message);
    }
    add_output(b, holds);
    if (b->in.failed)
        return;
    rlx_assert(g->outputs.len > 1 + k);
    const GraphOutput last = g->outputs.data[g->outputs.len - 1];
    for (uint32_t i = g->outputs.len - 1; i > 1 + k; i--)
        g->outputs.data[i] = g->outputs.data[i - 1];
    g->outputs.data[1 + k] = last;
    g->checks.len = 0;
    b->n_carried++;
    b->message = str_text(&message);
}

// --- the node ---

// Is the number of iterations known before the model runs?
static bool runs_to_bound(BodyGraph *b, NodeId cond)
{
    rlx_assert(b->in.graph->outputs.len != 0);
    double first = 0, each = 0;
    const GraphOutput *o = &b->in.graph->outputs.data[0];
    return b->l->has_bound && !b->l->count && node_is_scalar_const(b->n->graph, cond, &first) && first != 0 &&
           node_is_scalar_const(b->in.graph, o->node, &each) && each != 0;
}

// Scan outputs are as long as the loop runs: when that is not known, it has a bound at least.
static bool check_scans(BodyGraph *b)
{
    for (uint32_t i = 0; i < b->l->u.n_scan; i++)
        if (b->l->wants_scan[i] && !b->l->has_bound)
            return onnx_fail(&b->in, E0206,
                             "the length of a scan output depends on a condition that is computed when the "
                             "model runs");
    return true;
}

static NodeId trip_node(BodyGraph *b)
{
    OnnxDims d = {.dtype = DTYPE_i64, .n = 1};
    OnnxValue v = {.kind = ONNX_DIMS, .dims = &d};
    if (b->l->count)
        return b->l->count;
    d.dim[0] = b->l->has_bound && b->l->u.trips == INT64_MAX ? b->l->bound : b->l->u.trips;
    return onnx_value_node(b->n->scope, &v, b->n->span);
}

static NodeId cond_node(BodyGraph *b)
{
    OnnxValue v = b->l->u.cond;
    if (v.kind == ONNX_ABSENT)
        return onnx_scalar(b->n, DTYPE_bool, 1);
    return onnx_value_node(b->n->scope, &v, b->n->span);
}

// How often the loop runs, where its condition follows from constants or counts up to a size. 0: not known.
static Dim find_trips(BodyGraph *b)
{
    OnnxLoop *l = b->l;
    Dim size = 0;
    int64_t trips = l->has_bound ? l->bound : ONNX_MAX_COUNT;
    if (l->must_count && onnx_count_to_size(b->n, b->in.graph, &l->u, &size))
        return size;
    if (!dim_is_const(trips))
        return 0;
    NodeId *outer = ARENA_ARRAY(b->n->model->arena, NodeId, b->in.graph->inputs.len);
    for (uint32_t i = 0; i < b->n_src; i++)
        outer[i] = b->src[i];
    for (uint32_t i = 0; i < b->captures.list.len; i++)
        outer[b->n_src + i] = b->captures.list.data[i].outer;
    const bool is_known =
        onnx_count_trips(b->n->model, b->n->graph, b->in.graph, outer, l->u.n_carried, &trips);
    return is_known && (l->has_bound || trips < ONNX_MAX_COUNT) ? trips : 0;
}

// A condition that says only how often the loop runs is not computed.
static void count_trips(BodyGraph *b, NodeId cond)
{
    OnnxLoop *l = b->l;
    double first = 0;
    if (b->message || !(l->has_bound || l->must_count) || l->count ||
        !node_is_scalar_const(b->n->graph, cond, &first) || first == 0)
        return;
    const Dim trips = find_trips(b);
    if (trips == 0)
        return;
    l->has_bound = true;
    l->bound = trips;
    l->u.trips = dim_is_const(trips) ? trips : INT64_MAX;
    b->in.graph->outputs.data[0].node = onnx_scalar(&b->in, DTYPE_bool, 1);
}

static NodeId make_node(BodyGraph *b)
{
    const NodeId cond = cond_node(b);
    if (cond && !b->in.failed)
        count_trips(b, cond);
    const OnnxLoop *l = b->l;
    if (l->must_count && !l->has_bound)
        return 0;
    const NodeId trip = trip_node(b);
    b->in.failed = b->in.failed || !trip || !cond || !check_scans(b);
    if (b->in.failed)
        return 0;
    b->is_open = !runs_to_bound(b, cond);
    NodeBuild build = ONNX_BEGIN(b->n, OP_loop, trip, cond);
    for (uint32_t i = 0; i < b->n_src; i++)
        node_src(&build, b->src[i]);
    for (uint32_t i = 0; i < b->captures.list.len; i++)
        node_src(&build, b->captures.list.data[i].outer);
    // The one for the conditions came last, but stands before others.
    node_graph(&build, A_loop_body, b->message ? graph_sort_inputs(b->in.graph) : b->in.graph);
    node_int(&build, A_loop_carried, b->n_carried);
    if (l->has_bound)
        node_ints(&build, A_loop_max_trips, &l->bound, 1);
    return onnx_end(b->n, &build);
}

// The rows that iterations made.
static NodeId live_rows(BodyGraph *b, NodeId loop, NodeId all, uint32_t out)
{
    OnnxNode *n = b->n;
    if (n->failed || !b->is_open)
        return all;
    rlx_assert(b->l->has_bound);
    const NodeId count = onnx_result(n, loop, graph_node(n->graph, loop)->n_results - 1u);
    const Dim rows = onnx_extent(n, out, 0, count, b->l->bound);
    return onnx_gather(n, all, onnx_iota(n, rows), 0);
}

static void take_results(BodyGraph *b, NodeId id, OnnxValue *out)
{
    rlx_assert(id != 0);
    const OnnxUnroll *u = &b->l->u;
    uint32_t at = 0;
    for (uint32_t i = 0; i < u->n_carried; i++)
        out[i] = onnx_value(onnx_result(b->n, id, at++));
    if (b->message)
        onnx_require(b->n, onnx_result(b->n, id, at++), b->message);
    for (uint32_t i = u->n_carried; i < u->n_carried + u->n_scan; i++)
        out[i] = b->l->wants_scan[i - u->n_carried]
                     ? onnx_value(live_rows(b, id, onnx_result(b->n, id, at++), i))
                     : (OnnxValue){.kind = ONNX_BROKEN};
}

static bool begin_body(BodyGraph *b)
{
    OnnxNode *n = b->n;
    b->scope = (OnnxScope){.model = n->model,
                           .parent = n->scope,
                           .graph = graph_new_like(n->graph, "body"),
                           .captures = &b->captures,
                           .depth = n->scope->depth + 1};
    onnx_know_captures(n->model, b->scope.graph, n->graph, &b->captures);
    b->in = *n;
    b->in.graph = b->scope.graph;
    b->in.scope = &b->scope;
    b->src = ARENA_ARRAY(n->model->arena, NodeId, b->l->u.n_carried + b->l->u.n_rows + 2u);
    return b->scope.depth <= ONNX_MAX_DEPTH ||
           onnx_fail(&b->in, E0004, "graphs are nested more than %d deep", ONNX_MAX_DEPTH);
}

static bool build(BodyGraph *b, OnnxValue *out)
{
    const Onnx__GraphProto *g = b->l->u.body;
    if (!begin_body(b))
        return false;
    b->in.graph->diag = b->n->model->diag;
    onnx_know_captures(b->n->model, b->in.graph, b->n->graph, &b->captures);
    if (!add_inputs(b) || !onnx_import_initializers(&b->scope, g) || !onnx_import_nodes(&b->scope, g))
        return false;
    add_outputs(b);
    if (b->is_refit)
        return false;
    if (!b->in.failed && b->in.graph->checks.len)
        carry_checks(b);
    const NodeId id = b->in.failed ? 0 : make_node(b);
    if (id)
        take_results(b, id, out);
    return id && !b->n->failed;
}

// *again: the carried values have other first values now.
static bool try_graph(OnnxNode *n, OnnxLoop *l, OnnxValue *out, bool *again)
{
    BodyGraph *b = ARENA_NEW(n->model->arena, BodyGraph);
    Diag *own = n->model->diag;
    if (n->failed || !onnx_check_body(n, &l->u))
        return false;
    l->trial = ARENA_NEW(n->model->arena, Diag);
    *l->trial = diag_new(n->model->arena);
    *b = (BodyGraph){.n = n, .l = l};
    n->model->diag = n->graph->diag = l->trial;
    const bool ok = build(b, out);
    n->model->diag = n->graph->diag = own;
    if (b->scope.graph)
        set_diag(b->scope.graph, own);
    *again = b->is_refit && !b->in.failed && !n->failed;
    n->failed = false;
    return ok;
}

bool onnx_loop_graph(OnnxNode *n, OnnxLoop *l, OnnxValue *out)
{
    enum { MOST = 4 };
    OnnxValue *first = l->u.carried;
    const uint32_t before = n->graph->checks.len;
    bool again = true, ok = false;
    l->u.carried = arena_copy(n->model->arena, first, (l->u.n_carried + 1) * sizeof *first);
    for (uint32_t i = 0; i < MOST && again; i++)
        ok = try_graph(n, l, out, &again);
    if (!ok) { // as it came, for unrolling
        l->u.carried = first;
        n->graph->checks.len = before;
    }
    return ok;
}

void onnx_report_trial(OnnxNode *n, const OnnxLoop *l)
{
    if (l->trial)
        onnx_pass_on(n, l->trial);
    n->failed = true;
}

// --- bodies that import functions make ---

void onnx_loop_of(OnnxNode *n, const OnnxBody *body, NodeId *out)
{
    rlx_assert(body->make != NULL && body->n_carried + body->n_scan < NODE_MAX_RESULTS);
    Arena *a = n->model->arena;
    const uint32_t n_in = body->n_carried + body->n_rows + body->n_captured;
    OnnxLoop l = {.rows = body->rows, .has_bound = true, .bound = body->trips};
    BodyGraph *b = ARENA_NEW(a, BodyGraph);
    NodeId *in = ARENA_ARRAY(a, NodeId, n_in + 1), *next = ARENA_ARRAY(a, NodeId, NODE_MAX_RESULTS);
    l.u = (OnnxUnroll){.trips = INT64_MAX, .n_carried = body->n_carried, .n_rows = n_in - body->n_carried};
    *b = (BodyGraph){.n = n, .l = &l, .n_carried = body->n_carried};
    if (n->failed || !begin_body(b))
        return;
    const Shape scalar = {0};
    b->i = graph_input(b->in.graph, "iteration", DTYPE_i64, &scalar, n->span);
    graph_input(b->in.graph, "condition", DTYPE_bool, &scalar, n->span);
    for (uint32_t i = 0; i < n_in; i++) {
        const uint32_t row = i - body->n_carried, captured = row - body->n_rows;
        const bool is_row = i >= body->n_carried && row < body->n_rows;
        const NodeId outer = i < body->n_carried ? body->carried[i]
                             : is_row            ? body->rows[row].x
                                                 : body->captured[captured];
        in[i] = outer ? add_input(b, arena_printf(a, "x%u", i), outer) : 0;
        if (is_row)
            in[i] = entry_of(&b->in, b->i, &body->rows[row], in[i]);
    }
    body->make(&b->in, body, b->i, in, next);
    add_output(b, body->has_condition ? next[body->n_carried + body->n_scan]
                                      : onnx_scalar(&b->in, DTYPE_bool, 1));
    for (uint32_t i = 0; i < body->n_carried + body->n_scan; i++)
        add_output(b, next[i]);
    const NodeId id = b->in.failed ? 0 : make_node(b);
    n->failed = n->failed || b->in.failed;
    for (uint32_t i = 0; i < body->n_carried + body->n_scan; i++)
        out[i] = onnx_result(n, id, i);
}
