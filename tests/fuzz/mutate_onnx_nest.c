// SPDX-License-Identifier: Apache-2.0
// Changes of nesting: nodes move into sub-graphs and functions, and out of them. See mutate_onnx.h.
#include "tests/fuzz/mutate_onnx.h"

#include <string.h>

enum { MOST_LEVELS = 8 };

// --- parts ---------------------------------------------------------------------------------------------

static Onnx__NodeProto *make_node(Edit *e, const char *op, const char *domain)
{
    Onnx__NodeProto *n = ARENA_NEW(e->arena, Onnx__NodeProto);
    onnx__node_proto__init(n);
    n->op_type = arena_strdup(e->arena, op);
    n->domain = arena_strdup(e->arena, domain);
    return n;
}

static Onnx__GraphProto *make_graph(Edit *e)
{
    Onnx__GraphProto *g = ARENA_NEW(e->arena, Onnx__GraphProto);
    onnx__graph_proto__init(g);
    g->name = edit_new_name(e, "graph");
    return g;
}

static void add_graph(Edit *e, Onnx__NodeProto *n, const char *name, Onnx__GraphProto *g)
{
    Onnx__AttributeProto *a = ARENA_NEW(e->arena, Onnx__AttributeProto);
    onnx__attribute_proto__init(a);
    a->name = arena_strdup(e->arena, name);
    a->has_type = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    a->g = g;
    LIST_PUT(e, n->attribute, n->n_attribute, a);
}

// A constant of the model, or at times a value that is known only when it runs.
static char *make_scalar(Edit *e, int32_t type)
{
    if (!pick(3))
        return edit_name(e);
    Onnx__TensorProto *t = edit_make_tensor(e, type, 0, NULL);
    t->name = edit_new_name(e, "scalar");
    LIST_PUT(e, e->model->graph->initializer, e->model->graph->n_initializer, t);
    return t->name;
}

// Another name, in a sub-graph, for a value outside of it.
static Onnx__NodeProto *make_identity(Edit *e, char *from, char *to)
{
    Onnx__NodeProto *n = make_node(e, "Identity", "");
    LIST_PUT(e, n->input, n->n_input, from);
    LIST_PUT(e, n->output, n->n_output, to);
    return n;
}

// A random node that has results, or NULL.
static Onnx__NodeProto **find_node(Edit *e)
{
    if (!e->graph->n_node)
        return NULL;
    Onnx__NodeProto **n = &e->graph->node[pick(e->graph->n_node)];
    return (*n)->n_output ? n : NULL;
}

// --- steps ---------------------------------------------------------------------------------------------

static Onnx__NodeProto *wrap_if(Edit *e, Onnx__NodeProto *inner)
{
    Onnx__NodeProto *n = make_node(e, "If", "");
    Onnx__GraphProto *branch[2] = {make_graph(e)};
    branch[1] = make_graph(e);
    char *other = inner->n_input ? inner->input[0] : edit_name(e);
    LIST_PUT(e, n->input, n->n_input, make_scalar(e, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL));
    LIST_PUT(e, branch[0]->node, branch[0]->n_node, inner);
    for (size_t i = 0; i < inner->n_output; i++) {
        char *then_name = edit_new_name(e, "then"), *else_name = edit_new_name(e, "else");
        LIST_PUT(e, n->output, n->n_output, inner->output[i]);
        inner->output[i] = then_name;
        LIST_PUT(e, branch[0]->output, branch[0]->n_output, edit_make_value(e, then_name, 1));
        LIST_PUT(e, branch[1]->node, branch[1]->n_node, make_identity(e, other, else_name));
        LIST_PUT(e, branch[1]->output, branch[1]->n_output, edit_make_value(e, else_name, 1));
    }
    const size_t swapped = pick(2);
    add_graph(e, n, "then_branch", branch[swapped]);
    add_graph(e, n, "else_branch", branch[!swapped]);
    return n;
}

void edit_wrap_if(Edit *e)
{
    Onnx__NodeProto **n = find_node(e);
    for (size_t levels = pick(6) ? 1 : pick(MOST_LEVELS) + 1; n && levels > 0; levels--)
        *n = wrap_if(e, *n);
}

// The first operand is carried, or every result is stacked.
static Onnx__NodeProto *wrap_loop(Edit *e, Onnx__NodeProto *inner)
{
    Onnx__NodeProto *n = make_node(e, "Loop", "");
    Onnx__GraphProto *body = make_graph(e);
    char *trip = edit_new_name(e, "trip"), *cond = edit_new_name(e, "cond"), *next = edit_new_name(e, "next");
    const bool carries = inner->n_input && pick(2);
    LIST_PUT(e, n->input, n->n_input, make_scalar(e, ONNX__TENSOR_PROTO__DATA_TYPE__INT64));
    LIST_PUT(e, n->input, n->n_input,
             pick(2) ? arena_strdup(e->arena, "") : make_scalar(e, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL));
    LIST_PUT(e, body->input, body->n_input, edit_make_value(e, trip, ONNX__TENSOR_PROTO__DATA_TYPE__INT64));
    LIST_PUT(e, body->input, body->n_input, edit_make_value(e, cond, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL));
    if (carries) {
        char *carried = edit_new_name(e, "carried");
        LIST_PUT(e, n->input, n->n_input, inner->input[0]);
        LIST_PUT(e, body->input, body->n_input,
                 edit_make_value(e, carried, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT));
        inner->input[0] = carried;
    } else if (inner->n_input && !pick(3)) {
        inner->input[pick(inner->n_input)] = trip;
    }
    LIST_PUT(e, body->node, body->n_node, inner);
    LIST_PUT(e, body->node, body->n_node, make_identity(e, pick(6) ? cond : edit_name(e), next));
    LIST_PUT(e, body->output, body->n_output, edit_make_value(e, next, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL));
    for (size_t i = 0; i < inner->n_output; i++) {
        char *inside = edit_new_name(e, "inside");
        LIST_PUT(e, n->output, n->n_output, inner->output[i]);
        inner->output[i] = inside;
        LIST_PUT(e, body->output, body->n_output,
                 edit_make_value(e, inside, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT));
    }
    add_graph(e, n, "body", body);
    return n;
}

void edit_wrap_loop(Edit *e)
{
    Onnx__NodeProto **n = find_node(e);
    for (size_t levels = pick(6) ? 1 : pick(MOST_LEVELS) + 1; n && levels > 0; levels--)
        *n = wrap_loop(e, *n);
}

// The node becomes a call of a function, which may call itself.
void edit_wrap_function(Edit *e)
{
    static const char domain[] = "fuzz.local";
    Onnx__NodeProto **n = find_node(e);
    if (!n)
        return;
    Onnx__FunctionProto *f = ARENA_NEW(e->arena, Onnx__FunctionProto);
    onnx__function_proto__init(f);
    f->name = edit_new_name(e, "Function");
    f->domain = arena_strdup(e->arena, domain);
    f->opset_import = e->model->opset_import;
    f->n_opset_import = e->model->n_opset_import;
    Onnx__NodeProto *call = make_node(e, f->name, domain), *inner = *n;
    for (size_t i = 0; i < inner->n_input; i++)
        LIST_PUT(e, call->input, call->n_input, inner->input[i]);
    for (size_t i = 0; i < inner->n_output; i++)
        LIST_PUT(e, call->output, call->n_output, inner->output[i]);
    f->input = call->input;
    f->n_input = call->n_input;
    f->output = call->output;
    f->n_output = call->n_output;
    LIST_PUT(e, f->node, f->n_node, inner);
    if (!pick(4))
        LIST_PUT(e, f->node, f->n_node, call);
    LIST_PUT(e, e->model->functions, e->model->n_functions, f);
    Onnx__OperatorSetIdProto *set = ARENA_NEW(e->arena, Onnx__OperatorSetIdProto);
    onnx__operator_set_id_proto__init(set);
    set->domain = f->domain;
    set->has_version = 1;
    set->version = 1;
    LIST_PUT(e, e->model->opset_import, e->model->n_opset_import, set);
    *n = call;
}

// The nodes of a sub-graph stand in front of the node that had it, whose results are those of the graph.
void edit_inline(Edit *e)
{
    Onnx__GraphProto *g = e->graph;
    for (size_t at = 0; at < g->n_node; at++) {
        const Onnx__NodeProto *outer = g->node[at];
        const Onnx__AttributeProto *a = NULL;
        if (outer->n_attribute)
            a = outer->attribute[pick(outer->n_attribute)];
        if (!a || !a->g || pick(2))
            continue;
        LIST_CUT(g->node, g->n_node, at);
        for (size_t i = 0; i < outer->n_output && i < a->g->n_output; i++) {
            g->node = list_open(e->arena, g->node, g->n_node++, sizeof *g->node, at);
            g->node[at] = make_identity(e, a->g->output[i]->name, outer->output[i]);
        }
        for (size_t i = a->g->n_node; i-- > 0;) {
            g->node = list_open(e->arena, g->node, g->n_node++, sizeof *g->node, at);
            g->node[at] = a->g->node[i];
        }
        return;
    }
}
