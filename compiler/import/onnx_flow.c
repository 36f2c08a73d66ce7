// SPDX-License-Identifier: Apache-2.0
// Sub-graphs of If. A branch that is known to be taken becomes part of the graph around it; otherwise both
// branches become graphs of their own, and what they use from outside becomes operands. Also the operators
// that only pass a value on.
#include "compiler/import/onnx_import.h"

void onnx_import_identity(OnnxNode *n)
{
    onnx_out(n, 0, onnx_src(n, 0));
}

// In inference the result is the operand, and the mask keeps everything.
void onnx_import_dropout(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    double training = 0;
    onnx_ignore_attr(n, "ratio");
    onnx_ignore_attr(n, "seed");
    onnx_ignore_attr(n, "is_test");
    onnx_skip(n, 1);
    const NodeId mode = onnx_opt(n, 2);
    if (mode && (!node_is_scalar_const(n->graph, mode, &training) || training != 0))
        onnx_fail(n, E0206, "input 2 ('training_mode') must be false");
    onnx_out(n, 0, x);
    const Shape s = *onnx_shape(n, x);
    if (onnx_wants(n, 1))
        onnx_out(
            n, 1,
            onnx_expand(n, onnx_scalar(n, n->opset < 10 ? onnx_dtype(n, x) : DTYPE_bool, 1), s.dim, s.rank));
}

// --- if ---

static bool import_branch(OnnxNode *n, OnnxScope *s, const Onnx__GraphProto *g)
{
    if (s->depth > ONNX_MAX_DEPTH)
        return onnx_fail(n, E0004, "graphs are nested more than %d deep", ONNX_MAX_DEPTH);
    if (g->n_input)
        return onnx_fail(n, E0106, "a branch must not have inputs");
    const bool ok = onnx_import_initializers(s, g);
    return onnx_import_nodes(s, g) && ok;
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

static bool check_outputs(OnnxNode *n, const Onnx__GraphProto *g)
{
    if (g->n_output == n->n_out)
        return true;
    return onnx_fail(n, E0106, "a branch has %zu outputs, but the node has %u", g->n_output, n->n_out);
}

static void import_taken(OnnxNode *n, const Onnx__GraphProto *g)
{
    OnnxScope s = {.model = n->model, .parent = n->scope, .graph = n->graph, .depth = n->scope->depth + 1};
    if (!check_outputs(n, g) || !import_branch(n, &s, g)) {
        n->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        n->out[i] = branch_output(n, &s, g, i);
        n->failed = n->failed || n->out[i].kind == ONNX_BROKEN;
    }
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

// Names of captures that the scope has inputs for already.
static void put_inputs(OnnxNode *n, OnnxScope *s)
{
    for (uint32_t i = 0; i < s->captures->list.len; i++)
        onnx_put(s, s->captures->list.data[i].name, onnx_value(s->graph->inputs.data[i]), n->span);
}

static Graph *import_graph(OnnxNode *n, const Onnx__GraphProto *g, OnnxCaptures *captures, const char *name)
{
    OnnxScope s = {.model = n->model,
                   .parent = n->scope,
                   .graph = graph_new_like(n->graph, name),
                   .captures = captures,
                   .depth = n->scope->depth + 1};
    add_inputs(n, s.graph, captures, 0);
    put_inputs(n, &s);
    if (!check_outputs(n, g) || !import_branch(n, &s, g)) {
        n->failed = true;
        return NULL;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        OnnxValue v = branch_output(n, &s, g, i);
        const NodeId id = onnx_value_node(&s, &v, n->span);
        n->failed = n->failed || !id;
        // Results are told apart by their order; one value may be several of them.
        graph_output(s.graph, arena_printf(n->model->arena, "%s_%u", name, i), id);
    }
    return s.graph;
}

static void import_both(OnnxNode *n, NodeId cond, const Onnx__GraphProto *then_proto,
                        const Onnx__GraphProto *else_proto)
{
    OnnxCaptures captures = {0};
    Graph *then_graph = import_graph(n, then_proto, &captures, "then");
    const uint32_t n_then = captures.list.len;
    Graph *else_graph = import_graph(n, else_proto, &captures, "else");
    if (n->failed)
        return;
    add_inputs(n, then_graph, &captures, n_then);
    NodeBuild b = onnx_begin(n, OP_if);
    node_src(&b, cond);
    for (uint32_t i = 0; i < captures.list.len; i++)
        node_src(&b, captures.list.data[i].outer);
    node_graph(&b, A_if_then, then_graph);
    node_graph(&b, A_if_else, else_graph);
    const NodeId id = onnx_end(n, &b);
    for (uint32_t i = 0; i < n->n_out; i++)
        onnx_out(n, i, onnx_result(n, id, i));
}

void onnx_import_if(OnnxNode *n)
{
    const NodeId cond = onnx_src(n, 0);
    const Onnx__GraphProto *then_proto = onnx_graph(n, "then_branch"),
                           *else_proto = onnx_graph(n, "else_branch");
    double value = 0;
    if (n->failed)
        return;
    if (node_is_scalar_const(n->graph, cond, &value))
        import_taken(n, value != 0 ? then_proto : else_proto);
    else
        import_both(n, cond, then_proto, else_proto);
}
