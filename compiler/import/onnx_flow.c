// SPDX-License-Identifier: Apache-2.0
// Sub-graphs of If. A branch that is known to be taken becomes part of the graph around it; otherwise both
// branches become graphs of their own, and what they use from outside becomes operands. Also the operators
// that only pass a value on.
#include "compiler/import/onnx_text.h"

void onnx_import_identity(OnnxNode *n)
{
    onnx_out_any(n, 0, onnx_any(n, 0));
}

// --- sub-graphs ---

bool onnx_count_inlined(OnnxNode *n, size_t count)
{
    n->model->inlined += count + 1;
    return n->model->inlined <= ONNX_MAX_INLINED ||
           onnx_fail(n, E0004, "the bodies of functions, loops and branches have together more than %d nodes",
                     ONNX_MAX_INLINED);
}

static bool import_nodes(OnnxNode *n, OnnxScope *s, const Onnx__GraphProto *g)
{
    if (s->depth > ONNX_MAX_DEPTH)
        return onnx_fail(n, E0004, "graphs are nested more than %d deep", ONNX_MAX_DEPTH);
    if (!onnx_count_inlined(n, g->n_node))
        return false;
    const bool ok = onnx_import_initializers(s, g);
    return onnx_import_nodes(s, g) && ok;
}

static bool import_branch(OnnxNode *n, OnnxScope *s, const Onnx__GraphProto *g)
{
    if (g->n_input)
        return onnx_fail(n, E0106, "a branch must not have inputs");
    return import_nodes(n, s, g);
}

static OnnxValue branch_output(OnnxNode *n, OnnxScope *s, const Onnx__GraphProto *g, uint32_t i)
{
    const char *name = onnx_text(g->output[i]->name);
    OnnxValue v =
        onnx_get(s, name, n->span, arena_printf(n->model->arena, "a branch of node '%s'", n->label));
    if (v.kind == ONNX_ABSENT)
        onnx_fail(n, E0106, "output %u of a branch has no name", i);
    return v;
}

bool onnx_inline_graph(OnnxNode *n, const Onnx__GraphProto *g, const OnnxValue *args, uint32_t n_args,
                       OnnxValue *out, uint32_t n_out)
{
    OnnxScope s = {.model = n->model, .parent = n->scope, .graph = n->graph, .depth = n->scope->depth + 1};
    if (g->n_input != n_args || g->n_output != n_out)
        return onnx_fail(n, E0106, "the body has %zu inputs and %zu outputs, expected %u and %u", g->n_input,
                         g->n_output, n_args, n_out);
    for (uint32_t i = 0; i < n_args; i++)
        n->failed = !onnx_put(&s, onnx_text(g->input[i]->name), args[i], n->span) || n->failed;
    n->failed = n->failed || !import_nodes(n, &s, g);
    for (uint32_t i = 0; i < n_out && !n->failed; i++) {
        out[i] = branch_output(n, &s, g, i);
        n->failed = n->failed || out[i].kind == ONNX_BROKEN;
    }
    return !n->failed;
}

// --- if ---

static bool check_outputs(OnnxNode *n, const Onnx__GraphProto *g)
{
    if (g->n_output == n->n_out)
        return true;
    return onnx_fail(n, E0106, "a branch has %zu outputs, but the node has %u", g->n_output, n->n_out);
}

static void import_taken(OnnxNode *n, const Onnx__GraphProto *g)
{
    if (g->n_input)
        onnx_fail(n, E0106, "a branch must not have inputs");
    else if (check_outputs(n, g))
        onnx_inline_graph(n, g, NULL, 0, n->out, n->n_out);
}

// Inputs for what the other branch captured, so that both have the same.
static void add_inputs(OnnxNode *n, Graph *g, const OnnxCaptures *c, uint32_t from)
{
    for (uint32_t i = from; i < c->list.len; i++) {
        const OnnxCapture *x = &c->list.data[i];
        const Shape s = *graph_node(n->graph, x->outer)->shape;
        graph_input(g, x->name, (DType)graph_node(n->graph, x->outer)->dtype, &s, n->span);
    }
}

// A branch as a graph of its own, while it is imported.
typedef struct Branch {
    const Onnx__GraphProto *proto;
    const char *name;
    OnnxScope scope;
    uint32_t n_captures; // what it and the branch before it captured
    OnnxValue *out;
} Branch;

static void import_graph(OnnxNode *n, Branch *b, OnnxCaptures *captures)
{
    b->scope = (OnnxScope){.model = n->model,
                           .parent = n->scope,
                           .graph = graph_new_like(n->graph, b->name),
                           .captures = captures,
                           .depth = n->scope->depth + 1};
    b->out = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_out);
    onnx_know_captures(n->model, b->scope.graph, n->graph, captures);
    add_inputs(n, b->scope.graph, captures, 0);
    n->failed = n->failed || !check_outputs(n, b->proto) || !import_branch(n, &b->scope, b->proto);
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++) {
        b->out[i] = branch_output(n, &b->scope, b->proto, i);
        n->failed = b->out[i].kind == ONNX_BROKEN;
    }
    b->n_captures = captures->list.len;
}

// Room for the strings of a result; 0: it has none.
static int64_t text_room(const Branch *b, OnnxValue v)
{
    if (!v.is_text || v.kind != ONNX_NODE)
        return 0;
    const Shape *s = graph_node(b->scope.graph, v.node)->shape;
    return s->rank ? s->dim[s->rank - 1] : 0;
}

// Results are told apart by their order; one value may be several of them. Strings get the room that they
// have in the other branch.
static void add_result(OnnxNode *n, Branch *b, OnnxValue v, int64_t room)
{
    NodeId id = n->failed ? 0 : onnx_value_node(&b->scope, &v, n->span);
    if (id && v.is_text) {
        OnnxNode inside = *n;
        inside.scope = &b->scope;
        inside.graph = b->scope.graph;
        id = onnx_text_widen(&inside, id, room);
    }
    n->failed = !id;
    if (id)
        graph_output(b->scope.graph,
                     arena_printf(n->model->arena, "%s_%u", b->name, b->scope.graph->outputs.len), id);
}

static void add_results(OnnxNode *n, Branch *b, const Branch *other)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        const OnnxValue v = b->out[i], w = other->out[i];
        if (v.kind == ONNX_LIST)
            for (uint32_t k = 0; k < v.list->n; k++)
                add_result(n, b, v.list->v[k], text_room(other, w.list->v[k]));
        else if (v.kind != ONNX_NONE)
            add_result(n, b, v, text_room(other, w));
    }
}

// Sequences and optionals are chosen at import, unless both branches have as many tensors.
static bool is_alike(OnnxValue a, OnnxValue b)
{
    const bool a_tensor = a.kind == ONNX_NODE || a.kind == ONNX_DIMS;
    const bool b_tensor = b.kind == ONNX_NODE || b.kind == ONNX_DIMS;
    if (a.kind == ONNX_LIST && b.kind == ONNX_LIST)
        return a.list->n == b.list->n && a.list->dtype == b.list->dtype && a.list->is_text == b.list->is_text;
    return (a_tensor && b_tensor && a.is_text == b.is_text) || a.kind == b.kind;
}

static OnnxValue result_value(OnnxNode *n, NodeId id, uint32_t *at, bool is_text)
{
    OnnxValue v = onnx_value(onnx_result(n, id, (*at)++));
    v.is_text = is_text;
    return v;
}

static void put_results(OnnxNode *n, NodeId id, const OnnxValue *like)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const OnnxList *list = like[i].list;
        if (like[i].kind == ONNX_NONE) {
            onnx_out_any(n, i, like[i]);
        } else if (like[i].kind != ONNX_LIST) {
            onnx_out_any(n, i, result_value(n, id, &at, like[i].is_text));
        } else {
            OnnxValue *v = ARENA_ARRAY(n->model->arena, OnnxValue, list->n);
            for (uint32_t k = 0; k < list->n; k++)
                v[k] = result_value(n, id, &at, list->is_text);
            onnx_out_list(n, i, list->dtype, list->is_text, v, list->n);
        }
    }
}

static void build_if(OnnxNode *n, NodeId cond, Branch *then_branch, Branch *else_branch,
                     const OnnxCaptures *captures)
{
    add_inputs(n, then_branch->scope.graph, captures, then_branch->n_captures);
    add_results(n, then_branch, else_branch);
    add_results(n, else_branch, then_branch);
    if (n->failed)
        return;
    if (then_branch->scope.graph->outputs.len == 0) { // nothing is computed
        put_results(n, 0, then_branch->out);
        return;
    }
    NodeBuild b = onnx_begin(n, OP_if);
    node_src(&b, cond);
    for (uint32_t i = 0; i < captures->list.len; i++)
        node_src(&b, captures->list.data[i].outer);
    node_graph(&b, A_if_then, then_branch->scope.graph);
    node_graph(&b, A_if_else, else_branch->scope.graph);
    put_results(n, onnx_end(n, &b), then_branch->out);
}

// False: the branches have results of different kinds.
static bool import_both(OnnxNode *n, NodeId cond, const Onnx__GraphProto *then_proto,
                        const Onnx__GraphProto *else_proto)
{
    OnnxCaptures captures = {0};
    Branch then_branch = {.proto = then_proto, .name = "then"},
           else_branch = {.proto = else_proto, .name = "else"};
    import_graph(n, &then_branch, &captures);
    if (!n->failed)
        import_graph(n, &else_branch, &captures);
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++)
        if (!is_alike(then_branch.out[i], else_branch.out[i]))
            return false;
    if (!n->failed)
        build_if(n, cond, &then_branch, &else_branch, &captures);
    return true;
}

void onnx_import_if(OnnxNode *n)
{
    const Onnx__GraphProto *then_proto = onnx_graph(n, "then_branch"),
                           *else_proto = onnx_graph(n, "else_branch");
    double value = 0;
    OnnxInts known;
    const bool is_known = onnx_number(n, 0, &value);
    const NodeId cond = onnx_src(n, 0);
    if (n->failed)
        return;
    if (is_known)
        import_taken(n, value != 0 ? then_proto : else_proto);
    else if (!import_both(n, cond, then_proto, else_proto) && onnx_src_ints(n, 0, &known) && known.n == 1)
        import_taken(n, known.v[0] ? then_proto : else_proto);
}
