// SPDX-License-Identifier: Apache-2.0
// Passes on the bodies of loops. See bodies.h. Graphs are shared by all that hold a loop with them, so a body
// is copied before it is changed.
#include "passes/graph/bodies.h"
#include "ir/shape/forms.h"

// --- passes --------------------------------------------------------------------------------------

typedef struct Run {
    Pass *pass;
    PassFn fn;
    bool is_changed;
} Run;

NodeId bodies_make_loop(Graph *g, NodeId id, Graph *body, const NodeId *src, uint32_t n_src)
{
    rlx_assert(n_src >= 2 && body->inputs.len == n_src);
    NodeBuild b = node_copy_begin(g, g, id);
    for (uint32_t i = 0; i < n_src; i++)
        node_src(&b, src[i]);
    node_graph(&b, A_loop_body, body);
    return node_end(&b);
}

static NodeId step_run(Graph *g, NodeId id, void *ctx)
{
    Run *r = ctx;
    const Node n = *graph_node(g, id);
    Arena scratch = {0};
    Graph *body = loop_form(&n).body;
    if (body == NULL || r->pass->failed)
        return id;
    Pass sub = *r->pass;
    sub.scratch = &scratch;
    sub.graph = graph_compact(body, NULL);
    bool is_changed = r->fn(&sub);
    is_changed |= bodies_run(&sub, r->fn);
    r->pass->failed = sub.failed;
    r->pass->pruned = sub.pruned;
    arena_free(&scratch);
    if (!is_changed || sub.failed)
        return id;
    r->is_changed = true;
    return bodies_make_loop(g, id, sub.graph, n.src, n.n_src);
}

static bool has_loop(const Graph *g)
{
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (loop_form(graph_node(g, id)).body != NULL)
            return true;
    return false;
}

// Recursion: loops nest at most GRAPH_MAX_DEPTH deep.
bool bodies_run(Pass *p, PassFn fn)
{
    rlx_assert(p->graph != NULL && p->plan == NULL && fn != NULL);
    Run r = {p, fn, false};
    if (has_loop(p->graph))
        graph_rewrite(p->graph, step_run, &r);
    if (r.is_changed)
        p->graph = graph_compact(p->graph, NULL);
    return r.is_changed;
}

// --- what is known outside -----------------------------------------------------------------------

typedef struct Tidy {
    Graph *outer;
    const Node *loop;
    const Graph *from;
    Graph *to;
    NodeId *map;
    VEC(NodeId) src; // operands of the new loop
    bool is_changed;
} Tidy;

// Does the carried value stay what it is?
static bool is_invariant(const Graph *body, uint32_t carried)
{
    return body->outputs.data[1 + carried].node == body->inputs.data[2 + carried];
}

static NodeId add_input(Tidy *t, uint32_t i, Arena *a)
{
    const NodeId id = t->from->inputs.data[i];
    const Node *n = graph_node(t->from, id);
    vec_push(a, &t->src, t->loop->src[i]);
    return graph_input(t->to, node_name(t->from, id), (DType)n->dtype, n->shape, node_span(t->from, id));
}

static void add_inputs(Tidy *t, Arena *a)
{
    const uint32_t *uses = graph_count_uses(t->from, a), n_carried = loop_form(t->loop).n_carried;
    for (uint32_t i = 0; i < t->from->inputs.len; i++) {
        const NodeId id = t->from->inputs.data[i], outside = t->loop->src[i];
        const bool is_captured = i >= 2 + n_carried;
        const bool is_fixed = is_captured || (i >= 2 && is_invariant(t->from, i - 2));
        const bool is_const = i == 1 || (is_fixed && node_is_const(t->outer, outside));
        const uint32_t own_uses = i >= 2 && !is_captured && is_fixed ? 1 : 0; // as the next value of itself
        if (is_captured && (uses[id] == 0 || is_const))
            t->is_changed = true;
        else
            t->map[id] = add_input(t, i, a);
        if (uses[id] <= own_uses || !is_const)
            continue;
        t->is_changed = true;
        t->map[id] = i == 1 ? graph_scalar(t->to, DTYPE_bool, 1, node_span(t->from, id))
                            : graph_clone_node(t->to, t->outer, outside, NULL);
    }
}

static void copy_nodes(Tidy *t, Arena *a)
{
    for (NodeId id = 1; id < t->from->nodes.len; id++) {
        const Node *n = graph_node(t->from, id);
        NodeId *src = ARENA_ARRAY(a, NodeId, n->n_src + 1u);
        if (t->map[id] != 0 || n->op == OP_input)
            continue;
        for (uint32_t i = 0; i < n->n_src; i++)
            src[i] = t->map[n->src[i]];
        t->map[id] = graph_clone_node(t->to, t->from, id, src);
    }
}

// An invariant value stays one: its input is its output.
static void add_outputs(Tidy *t)
{
    const uint32_t n_carried = loop_form(t->loop).n_carried;
    for (uint32_t i = 0; i < t->from->outputs.len; i++) {
        const GraphOutput *o = &t->from->outputs.data[i];
        const bool is_own = i > 0 && i <= n_carried && is_invariant(t->from, i - 1);
        graph_output(t->to, o->name, is_own ? t->to->inputs.data[1 + i] : t->map[o->node]);
    }
}

static NodeId tidy_loop(Graph *g, NodeId id, Arena *a)
{
    const Node n = *graph_node(g, id);
    Tidy t = {.outer = g, .loop = &n};
    t.from = graph_compact(loop_form(&n).body, NULL);
    t.to = graph_new_like(g, t.from->name);
    t.map = ARENA_ARRAY(a, NodeId, t.from->nodes.len);
    add_inputs(&t, a);
    if (!t.is_changed)
        return id;
    copy_nodes(&t, a);
    add_outputs(&t);
    return bodies_make_loop(g, id, t.to, t.src.data, t.src.len);
}

static NodeId step_tidy(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    if (node_result(&n) != 0) {
        const Node *loop = graph_node(g, n.src[0]);
        const LoopForm form = loop_form(loop);
        if (node_result(&n) < form.n_carried && is_invariant(form.body, node_result(&n)))
            return loop->src[2 + node_result(&n)];
    }
    return loop_form(&n).body != NULL ? tidy_loop(g, id, ctx) : id;
}

bool bodies_tidy(Pass *p)
{
    rlx_assert(p->graph != NULL && p->plan == NULL);
    return has_loop(p->graph) && graph_rewrite(p->graph, step_tidy, p->scratch);
}
