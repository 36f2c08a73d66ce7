// SPDX-License-Identifier: Apache-2.0
// Control flow and variables. A branch that is known to be taken becomes part of the graph around it;
// otherwise both become graphs of their own. Variables are states, which keep their values between runs; the
// sub-graph of CALL_ONCE gives them their first ones.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

enum { MAX_WHILE = 1 << 20 }; // iterations of a loop for which nobody gives a bound

// --- sub-graphs ---

static NodeId *operands(TflNode *n, uint32_t from, uint32_t *count)
{
    NodeId *v = ARENA_ARRAY(n->model->arena, NodeId, n->n_in + 1);
    *count = 0;
    for (uint32_t i = from; i < n->n_in; i++)
        v[(*count)++] = tfl_src(n, i);
    return v;
}

// Imports a sub-graph into a graph, which may be that of the operator. False: it failed (reported).
static bool import_into(TflNode *n, Graph *g, int64_t index, const NodeId *in, uint32_t n_in, NodeId *out)
{
    TflScope s;
    const TflGraph *of = n->failed ? NULL : tfl_subgraph(n, index);
    if (!of)
        return false;
    if (!tfl_scope(&s, n->scope, g, of))
        return tfl_fail(n, E0004, "sub-graphs are nested more than %d deep", TFL_MAX_DEPTH);
    n->failed = !tfl_import_graph(&s, n->span, in, n_in, out, of->outputs.n);
    return !n->failed;
}

static uint32_t count_outputs(TflNode *n, int64_t index)
{
    const TflGraph *of = n->failed ? NULL : tfl_subgraph(n, index);
    return of ? of->outputs.n : 0;
}

// Gives a new graph inputs like these values of the operator's graph.
static NodeId *add_inputs(TflNode *n, Graph *g, const char *name, const NodeId *like, uint32_t count)
{
    NodeId *in = ARENA_ARRAY(n->model->arena, NodeId, count + 1);
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        const Shape s = *tfl_shape(n, like[i]);
        in[i] = graph_input(g, arena_printf(n->model->arena, "%s %u", name, i), tfl_type(n, like[i]), &s,
                            n->span);
        n->failed = in[i] == 0;
    }
    return in;
}

static Graph *branch(TflNode *n, const char *name, int64_t index, const NodeId *like, uint32_t count)
{
    Graph *g = graph_new_like(n->graph, name);
    const NodeId *in = add_inputs(n, g, "in", like, count);
    const uint32_t n_out = count_outputs(n, index);
    NodeId *out = ARENA_ARRAY(n->model->arena, NodeId, n_out + 1);
    if (!import_into(n, g, index, in, count, out))
        return g;
    for (uint32_t i = 0; i < n_out; i++)
        graph_output(g, arena_printf(n->model->arena, "%s_%u", name, i), out[i]);
    return g;
}

static void put_results(TflNode *n, const NodeId *out, uint32_t count)
{
    if (!n->failed && count != n->n_out)
        tfl_fail(n, E0202, "the sub-graph has %u results, the operator %u", count, n->n_out);
    for (uint32_t i = 0; i < count; i++)
        tfl_out(n, i, out[i]);
}

static void inline_graph(TflNode *n, int64_t index, const NodeId *in, uint32_t n_in)
{
    const uint32_t count = count_outputs(n, index);
    NodeId *out = ARENA_ARRAY(n->model->arena, NodeId, count + 1);
    import_into(n, n->graph, index, in, n_in, out);
    put_results(n, out, count);
}

void tfl_import_call(TflNode *n)
{
    const int64_t index = tfl_option(n, 0, FLAT_U32, 0);
    uint32_t count = 0;
    const NodeId *in = operands(n, 0, &count);
    inline_graph(n, index, in, count);
}

// An operator of another dialect, of which the file has a sub-graph that says what it computes.
void tfl_import_composite(TflNode *n)
{
    const int64_t index = tfl_option(n, 1, FLAT_I32, 0);
    for (uint32_t i = 0; i < 5; i++)
        tfl_ignore(n, i); // its name, attributes and version
    uint32_t count = 0;
    const NodeId *in = operands(n, 0, &count);
    inline_graph(n, index, in, count);
}

void tfl_import_if(TflNode *n)
{
    const int64_t then_index = tfl_option(n, 0, FLAT_I32, 0), else_index = tfl_option(n, 1, FLAT_I32, 0);
    const NodeId cond = tfl_src(n, 0);
    uint32_t count = 0;
    double known = 0;
    const NodeId *in = operands(n, 1, &count);
    if (n->failed)
        return;
    if (node_is_scalar_const(n->graph, cond, &known)) {
        inline_graph(n, known > 0 || known < 0 ? then_index : else_index, in, count);
        return;
    }
    Graph *a = branch(n, "then", then_index, in, count), *b = branch(n, "else", else_index, in, count);
    if (n->failed)
        return;
    NodeBuild build = tfl_begin(n, OP_if);
    node_src(&build, cond);
    for (uint32_t i = 0; i < count; i++)
        node_src(&build, in[i]);
    node_graph(&build, A_if_then, a);
    node_graph(&build, A_if_else, b);
    const NodeId id = tfl_end(n, &build);
    const uint32_t n_out = a->outputs.len;
    NodeId *out = ARENA_ARRAY(n->model->arena, NodeId, n_out + 1);
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = tfl_result(n, id, i);
    put_results(n, out, n_out);
}

// --- while ---

// The condition on these values, as a bool without axes, in a graph.
static NodeId condition(TflNode *n, Graph *g, int64_t index, const NodeId *in, uint32_t count)
{
    NodeId out[1] = {0};
    if (count_outputs(n, index) != 1)
        return n->failed ? 0 : tfl_fail(n, E0113, "a condition must have one result");
    if (!import_into(n, g, index, in, count, out))
        return 0;
    TflNode inside = *n;
    inside.graph = g;
    const NodeId id = tfl_reshape(&inside, out[0], NULL, 0);
    n->failed = n->failed || inside.failed;
    return id;
}

// One iteration: inputs are its number, true, and what is carried; outputs whether to go on, and the same
// values anew.
static Graph *loop_body(TflNode *n, int64_t cond, int64_t body, const NodeId *first, uint32_t count)
{
    Arena *a = n->model->arena;
    Graph *g = graph_new_like(n->graph, "body");
    NodeId *out = ARENA_ARRAY(a, NodeId, count + 1);
    graph_input(g, "iteration", DTYPE_i64, &(Shape){0}, n->span);
    graph_input(g, "condition", DTYPE_bool, &(Shape){0}, n->span);
    const NodeId *in = add_inputs(n, g, "carried", first, count);
    if (!n->failed && count_outputs(n, body) != count)
        tfl_fail(n, E0113, "the body has another number of results than of inputs");
    if (!import_into(n, g, body, in, count, out))
        return g;
    const NodeId go = condition(n, g, cond, out, count);
    if (n->failed)
        return g;
    graph_output(g, "go on", go);
    for (uint32_t i = 0; i < count; i++)
        graph_output(g, arena_printf(a, "next %u", i), out[i]);
    return g;
}

// The most iterations: what the user gives with --dim LABEL_trips=N.
static Dim most_trips(TflNode *n)
{
    const ImportOptions *o = &n->model->source->options;
    const char *name = arena_printf(n->model->arena, "%s_trips", n->label);
    const Dim d = dim_symbol(n->graph->dims, name, 1, MAX_WHILE, 1);
    const int32_t symbol = dim_as_symbol(n->graph->dims, d);
    int64_t most = MAX_WHILE;
    for (uint32_t i = 0; i < o->n_sizes; i++)
        if (str_equal(o->sizes[i].name, name))
            most = o->sizes[i].value < 1 || o->sizes[i].value > MAX_WHILE ? MAX_WHILE : o->sizes[i].value;
    if (symbol >= 0)
        dim_set_default(n->graph->dims, n->graph->dims->symbols.data[symbol].name, most);
    return most;
}

void tfl_import_while(TflNode *n)
{
    const int64_t cond = tfl_option(n, 0, FLAT_I32, 0), body = tfl_option(n, 1, FLAT_I32, 0);
    uint32_t count = 0;
    const NodeId *in = operands(n, 0, &count);
    const NodeId first = condition(n, n->graph, cond, in, count);
    Graph *g = loop_body(n, cond, body, in, count);
    if (n->failed)
        return;
    const Dim most = most_trips(n);
    NodeBuild b = tfl_begin(n, OP_loop);
    node_src(&b, tfl_number(n, DTYPE_i64, (double)most));
    node_src(&b, first);
    for (uint32_t i = 0; i < count; i++)
        node_src(&b, in[i]);
    node_graph(&b, A_loop_body, g);
    node_int(&b, A_loop_carried, count);
    const NodeId id = tfl_end(n, &b);
    NodeId *out = ARENA_ARRAY(n->model->arena, NodeId, count + 1);
    for (uint32_t i = 0; i < count; i++)
        out[i] = tfl_result(n, id, i);
    const NodeId is_over =
        tfl_op2(n, OP_lt, tfl_result(n, id, count), tfl_number(n, DTYPE_i64, (double)most));
    if (!n->failed)
        n->failed =
            !graph_check(n->graph, is_over,
                         arena_printf(n->model->arena,
                                      GRAPH_RANGE "operator '%s': needs more iterations than its bound "
                                                  "'%s_trips' allows",
                                      n->label, n->label));
    put_results(n, out, count);
}

// --- variables ---

// Its results are nothing: what counts is what the sub-graph assigns.
void tfl_import_call_once(TflNode *n)
{
    const int64_t index = tfl_option(n, 0, FLAT_I32, 0);
    TflScope s;
    const TflGraph *of = tfl_subgraph(n, index);
    if (!of || (of->inputs.n != 0 && !tfl_fail(n, E0113, "a sub-graph that runs once must not have inputs")))
        return;
    if (!tfl_scope(&s, n->scope, n->graph, of)) {
        tfl_fail(n, E0004, "sub-graphs are nested more than %d deep", TFL_MAX_DEPTH);
        return;
    }
    s.is_first = true;
    NodeId *out = ARENA_ARRAY(n->model->arena, NodeId, of->outputs.n + 1);
    n->failed = !tfl_import_graph(&s, n->span, NULL, 0, out, of->outputs.n);
}

static uint32_t find_variable(TflModel *m, const char *name)
{
    for (uint32_t i = 0; i < m->variables.len; i++)
        if (m->variables.data[i].is_handle && str_equal(m->variables.data[i].name, name))
            return i + 1;
    const TflVariable v = {.name = name, .is_handle = true};
    vec_push(m->arena, &m->variables, v);
    return m->variables.len;
}

void tfl_import_var_handle(TflNode *n)
{
    const char *container = tfl_option_text(n, 0), *shared = tfl_option_text(n, 1);
    const char *name = container[0] ? arena_printf(n->model->arena, "%s/%s", container, shared)
                       : shared[0]  ? shared
                                    : "variable";
    if (n->n_out != 1 || n->out[0] < 0 || tfl_of_out(n, 0)->type != TFL_RESOURCE) {
        tfl_fail(n, E0113, "expected one result of type RESOURCE");
        return;
    }
    n->scope->handles[n->out[0]] = find_variable(n->model, name);
}

static TflVariable *variable(TflNode *n)
{
    tfl_skip(n, 0);
    if (!n->failed && !n->scope->has_states)
        tfl_fail(n, E0206, "variables are not supported in branches and loops");
    const int64_t t = tfl_has(n, 0) ? n->in[0] : -1;
    if (!n->failed && (t < 0 || t >= n->scope->of->n_tensors || !n->scope->handles[t]))
        tfl_fail(n, E0113, "operand 0 is no variable");
    return n->failed ? NULL : &n->model->variables.data[n->scope->handles[t] - 1];
}

void tfl_import_read_variable(TflNode *n)
{
    TflVariable *v = variable(n);
    const TflTensor *t = tfl_of_out(n, 0);
    if (!v || n->n_out != 1 || !t->has_dtype) {
        tfl_fail(n, E0206, "a result of type %s is not supported", tfl_type_name(t->type));
        return;
    }
    if (n->scope->is_first) {
        if (!v->first)
            tfl_fail(n, E0113, "variable '%s' is read before it has a value", v->name);
        tfl_out(n, 0, v->first);
        return;
    }
    if (v->first && tfl_type(n, v->first) != t->dtype) {
        tfl_fail(n, E0205, "variable '%s' begins as %s, but is read as %s", v->name,
                 dtype_info[tfl_type(n, v->first)].name, tfl_type_name(t->type));
        return;
    }
    if (!v->leaf) {
        const Shape s = v->first ? *tfl_shape(n, v->first) : t->shape;
        const void *data = v->first ? tensor_of_const(n->graph, v->first).data : NULL;
        v->leaf =
            graph_state(n->graph, v->name, t->dtype, &s, data, data ? type_bytes(t->dtype, &s) : 0, n->span);
        n->failed = v->leaf == 0;
        v->now = v->assigned ? v->assigned : v->leaf;
    }
    tfl_out(n, 0, v->now);
}

void tfl_import_assign_variable(TflNode *n)
{
    TflVariable *v = variable(n);
    const NodeId x = tfl_src(n, 1);
    if (!v || n->failed)
        return;
    if (!n->scope->is_first) {
        v->now = v->assigned = x;
        return;
    }
    if (!node_is_const(n->graph, x))
        tfl_fail(n, E0206, "the first value of variable '%s' must be known when the model is compiled",
                 v->name);
    v->first = x;
}
