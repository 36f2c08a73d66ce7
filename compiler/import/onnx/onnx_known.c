// SPDX-License-Identifier: Apache-2.0
// Speculation with a check: an operand that shapes the result, but is computed from inputs whose values the
// user gave, is evaluated with these values and taken for a constant; a check makes sure that a run has the
// same. Only what is asked for is assumed, so that all else stays open. Nodes of constants that were not
// folded are known without any value.
#include "compiler/import/onnx/onnx_import.h"
#include "ir/eval/eval.h"

#include <math.h>

typedef enum KnownState { STATE_NEW, STATE_KNOWN, STATE_UNKNOWN } KnownState;

typedef struct KnownNode {
    KnownState state;
    Tensor *results;
} KnownNode;

// What is known of the nodes of one graph.
typedef struct Known {
    const Graph *graph, *outer;   // outer: where captured values come from; NULL for the model's graph
    const OnnxCaptures *captures; // its inputs that are values of outer, by name
    VEC(KnownNode) nodes;         // by NodeId, as far as asked
    VEC(NodeId) stack;
} Known;

static Known *find_known(OnnxModel *m, const Graph *g)
{
    uint64_t at = 0;
    return map_get(&m->known, &g, sizeof g, &at) ? (Known *)(uintptr_t)at : NULL;
}

static Known *add_known(OnnxModel *m, const Graph *g, const Graph *outer, const OnnxCaptures *captures)
{
    Known *k = ARENA_NEW(m->arena, Known);
    k->graph = g;
    k->outer = outer;
    k->captures = captures;
    map_put(m->arena, &m->known, &g, sizeof g, (uint64_t)(uintptr_t)k);
    return k;
}

void onnx_know_captures(OnnxModel *m, Graph *g, Graph *outer, const OnnxCaptures *captures)
{
    if (m->source->options.n_values)
        add_known(m, g, outer, captures);
}

static KnownNode *known_node(OnnxModel *m, Known *k, NodeId id)
{
    while (k->nodes.len <= id)
        vec_push(m->arena, &k->nodes, (KnownNode){0});
    return &k->nodes.data[id];
}

void onnx_know(OnnxModel *m, Graph *g, NodeId input, const Tensor *t)
{
    rlx_assert(t->data != NULL && graph_node(g, input)->op == OP_input);
    Known *k = find_known(m, g);
    if (!k)
        k = add_known(m, g, NULL, NULL);
    known_node(m, k, input)->state = STATE_KNOWN;
    known_node(m, k, input)->results = arena_copy(m->arena, t, sizeof *t);
}

// --- evaluation ---

static bool know_input(OnnxModel *m, const Known *k, NodeId id, Tensor *out)
{
    rlx_assert(graph_node(k->graph, id)->op == OP_input && (k->captures == NULL || k->outer != NULL));
    const char *name = node_name(k->graph, id);
    for (uint32_t i = 0; k->captures && i < k->captures->list.len; i++)
        if (str_equal(k->captures->list.data[i].name, name))
            return onnx_known(m, k->outer, k->captures->list.data[i].outer, out);
    return false;
}

static void settle_leaf(OnnxModel *m, Known *k, NodeId id)
{
    Tensor t = {0};
    bool is_known = false;
    if (node_is_const(k->graph, id)) {
        t = tensor_of_const(k->graph, id);
        is_known = true;
    } else if (graph_node(k->graph, id)->op == OP_input) {
        is_known = know_input(m, k, id, &t);
    }
    KnownNode *node = known_node(m, k, id);
    node->state = is_known ? STATE_KNOWN : STATE_UNKNOWN;
    node->results = is_known ? arena_copy(m->arena, &t, sizeof t) : NULL;
}

static bool has_const_types(const Node *n)
{
    bool ok = shape_is_const(n->shape);
    for (uint32_t i = 1; i < n->n_results; i++)
        ok = ok && shape_is_const(&n->results[i].shape);
    return ok;
}

// How often a loop runs at most, with its operands known; else anything.
static int64_t most_trips(OnnxModel *m, Known *k, const Node *n)
{
    return n->op == OP_loop ? tensor_get_i64(&known_node(m, k, n->src[0])->results[0], 0) : INT64_MAX;
}

// With all operands known. The work of roi_pool depends on the regions.
static bool evaluate(OnnxModel *m, Known *k, NodeId id)
{
    const Node *n = graph_node(k->graph, id);
    if (n->op == OP_roi_pool || !onnx_spend_fold(m, k->graph, id, most_trips(m, k, n)))
        return false;
    EvalCtx c = {.arena = m->arena, .g = k->graph, .node = n, .id = id};
    c.in = ARENA_ARRAY(m->arena, Tensor, n->n_src);
    c.out = ARENA_ARRAY(m->arena, Tensor, n->n_results);
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i])
            c.in[i] = known_node(m, k, n->src[i])
                          ->results[n->op == OP_result ? node_get_int(n, A_result_index) : 0];
    for (uint32_t i = 0; i < n->n_results; i++) {
        const Shape *s = i ? &n->results[i].shape : n->shape;
        c.out[i] = tensor_new(m->arena, i ? n->results[i].dtype : (DType)n->dtype, s->rank, s->dim);
    }
    if (!eval_node(&c))
        return false;
    known_node(m, k, id)->results = c.out;
    return true;
}

// Settles a node, or pushes the operands that must be settled before.
static void settle(OnnxModel *m, Known *k, NodeId id)
{
    const Node *n = graph_node(k->graph, id);
    const uint32_t before = k->stack.len;
    bool is_open = has_const_types(n);
    if (op_info[n->op].kind == OPKIND_LEAF) {
        settle_leaf(m, k, id);
        return;
    }
    for (uint32_t i = 0; i < n->n_src && is_open; i++) {
        const KnownState s = n->src[i] ? known_node(m, k, n->src[i])->state : STATE_KNOWN;
        is_open = s != STATE_UNKNOWN;
        if (s == STATE_NEW)
            vec_push(m->arena, &k->stack, n->src[i]);
    }
    if (!is_open)
        k->stack.len = before;
    else if (k->stack.len > before)
        return;
    const bool is_known = is_open && evaluate(m, k, id);
    known_node(m, k, id)->state = is_known ? STATE_KNOWN : STATE_UNKNOWN;
}

bool onnx_known(OnnxModel *m, const Graph *g, NodeId id, Tensor *out)
{
    Known *k = find_known(m, g);
    if (!k && !m->source->options.n_values)
        k = add_known(m, g, NULL, NULL); // what is made of constants, but stayed nodes
    if (!k || !id)
        return false;
    vec_push(m->arena, &k->stack, id);
    while (k->stack.len) {
        const NodeId top = k->stack.data[k->stack.len - 1];
        if (known_node(m, k, top)->state == STATE_NEW)
            settle(m, k, top);
        else
            k->stack.len--;
    }
    const KnownNode *node = known_node(m, k, id);
    rlx_assert(node->state != STATE_NEW);
    if (node->state == STATE_KNOWN)
        *out = node->results[0];
    return node->state == STATE_KNOWN;
}

// --- assumptions ---

NodeId onnx_all(OnnxNode *n, NodeId cond)
{
    int64_t axes[SHAPE_MAX_RANK];
    const Shape scalar = {0};
    const uint32_t rank = onnx_shape(n, cond)->rank;
    for (uint32_t i = 0; i < rank; i++)
        axes[i] = i;
    if (rank == 0)
        return cond;
    const NodeId least = onnx_reduce(n, OP_reduce_min, onnx_cast(n, cond, DTYPE_i32), axes, rank);
    return onnx_cast(n, onnx_reshape(n, least, &scalar), DTYPE_bool);
}

void onnx_require(OnnxNode *n, NodeId cond, const char *message)
{
    rlx_assert(n->failed || cond != 0);
    if (!n->failed && !graph_check(n->graph, cond, message))
        n->failed = true; // was reported
}

// The value is the constant from now on, also under its name.
static void replace(OnnxNode *n, OnnxValue *v, NodeId id)
{
    const OnnxValue old = *v;
    *v = onnx_value(id);
    for (OnnxScope *s = n->scope; s; s = s->captures ? NULL : s->parent)
        for (uint32_t i = 0; i < s->values.len; i++)
            if (s->values.data[i].kind == ONNX_NODE && s->values.data[i].node == old.node)
                s->values.data[i].node = id;
}

static bool has_nan(const Tensor *t)
{
    bool found = false;
    for (int64_t i = 0; dtype_info[t->dtype].cls == DCLASS_FLOAT && i < t->numel; i++)
        found = found || isnan(tensor_get_f64(t, i));
    return found;
}

static NodeId assume(OnnxNode *n, NodeId id, const char *name, const Tensor *t)
{
    const Shape s = shape_of(t->rank, t->dim);
    const NodeId value =
        onnx_const(n, t->dtype, &s, t->data, (uint64_t)t->numel * dtype_info[t->dtype].bytes);
    if (t->numel > 0 && n->model->source->options.n_values)
        onnx_require(n, onnx_all(n, onnx_op2(n, OP_eq, id, value)),
                     arena_printf(n->model->arena,
                                  "node '%s': '%s' must be %s, for which the model was compiled", n->label,
                                  name, onnx_tensor_text(n->model->arena, t)));
    return n->failed ? 0 : value;
}

bool onnx_assume_value(OnnxNode *n, OnnxValue *v, const char *name, Tensor *out)
{
    if (n->failed || v->is_text || v->kind != ONNX_NODE)
        return false;
    if (node_is_const(n->graph, v->node)) {
        *out = tensor_of_const(n->graph, v->node);
        return true;
    }
    if (!onnx_known(n->model, n->graph, v->node, out) || has_nan(out))
        return false;
    const NodeId value = assume(n, v->node, name, out);
    if (value)
        replace(n, v, value);
    return value != 0;
}

bool onnx_assume(OnnxNode *n, uint32_t i, Tensor *out)
{
    onnx_skip(n, i);
    return onnx_has(n, i) && onnx_assume_value(n, &n->in[i], onnx_text(n->proto->input[i]), out);
}

bool onnx_number(OnnxNode *n, uint32_t i, double *out)
{
    Tensor t;
    if (!onnx_assume(n, i, &t) || t.numel != 1)
        return false;
    *out = tensor_get_f64(&t, 0);
    return true;
}

// --- what an operand depends on ---

enum { MAX_NAMED = 4 };

typedef struct Causes {
    VEC(const char *) names;
    bool is_large; // some input has more elements than one would write down
    bool is_open;  // some size on the way is a symbol
} Causes;

static void add_cause(OnnxNode *n, Causes *c, const char *name, const Node *input)
{
    c->is_large = c->is_large || !shape_is_const(input->shape) || shape_numel(input->shape) > ONNX_MAX_LIST;
    for (uint32_t i = 0; i < c->names.len; i++)
        if (str_equal(c->names.data[i], name))
            return;
    vec_push(n->model->arena, &c->names, name);
}

static void collect_causes(OnnxNode *n, const OnnxScope *s, NodeId id, Causes *c);

// An input of the model, or of a sub-graph: then what it is outside.
static void follow_input(OnnxNode *n, const OnnxScope *s, NodeId id, Causes *c)
{
    const char *name = node_name(s->graph, id);
    const OnnxScope *at = s;
    while (!at->captures && at->parent)
        at = at->parent;
    for (uint32_t i = 0; at->captures && i < at->captures->list.len; i++)
        if (str_equal(at->captures->list.data[i].name, name)) {
            collect_causes(n, at->parent, at->captures->list.data[i].outer, c);
            return;
        }
    c->is_large = c->is_large || s->graph != n->model->graph; // not something that can be given
    add_cause(n, c, name, graph_node(s->graph, id));
}

// The inputs of the model that a node depends on. Recursion: as deep as graphs nest.
static void collect_causes(OnnxNode *n, const OnnxScope *s, NodeId id, Causes *c)
{
    Arena scratch = {0};
    bool *seen = ARENA_ARRAY(&scratch, bool, id + 1);
    seen[id] = true;
    for (NodeId at = id; at > 0; at--) {
        const Node *node = graph_node(s->graph, at);
        if (!seen[at])
            continue;
        c->is_open = c->is_open || !shape_is_const(node->shape);
        if (node->op == OP_input)
            follow_input(n, s, at, c);
        for (uint32_t i = 0; i < node->n_src; i++)
            seen[node->src[i]] = true;
    }
    arena_free(&scratch);
}

bool onnx_fail_unknown(OnnxNode *n, uint32_t i)
{
    Causes c = {0};
    Str text = str_new(n->model->arena);
    const NodeId id = onnx_src(n, i);
    if (n->failed)
        return false;
    collect_causes(n, n->scope, id, &c);
    for (uint32_t k = 0; k < c.names.len && k < MAX_NAMED; k++)
        str_printf(&text, "%s'%s'", k ? ", " : "", c.names.data[k]);
    const char *name = onnx_text(n->proto->input[i]);
    if (c.is_open && c.names.len == 0)
        return onnx_fail(n, E0207,
                         "input %u ('%s') is computed from open sizes in a way that needs their numbers", i,
                         name);
    if (c.names.len > MAX_NAMED || c.is_large || c.names.len == 0)
        return onnx_fail(
            n, E0206,
            "input %u ('%s') shapes the result, so it must not depend on what the model computes%s%s", i,
            name, c.names.len ? ", here from " : "", str_text(&text));
    return onnx_fail(
        n, E0206,
        "input %u ('%s') shapes the result, but is computed from %s: give the values with --value %s=...", i,
        name, str_text(&text), c.names.data[0]);
}
