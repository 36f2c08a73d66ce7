// SPDX-License-Identifier: Apache-2.0
// Sub-graphs of If. A branch that is known to be taken becomes part of the graph around it; otherwise both
// branches become graphs of their own, and what they use from outside becomes operands. Also the operators
// that only pass a value on.
#include "compiler/import/onnx/onnx_text.h"
#include "ir/eval/eval.h"

#include <string.h>

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
    return g->n_input ? onnx_fail(n, E0106, "a branch must not have inputs") : import_nodes(n, s, g);
}

static OnnxValue branch_output(OnnxNode *n, OnnxScope *s, const Onnx__GraphProto *g, uint32_t i)
{
    rlx_assert(i < g->n_output);
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
    rlx_assert(from <= c->list.len);
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
    Diag trial; // what was wrong with it; passed on unless the other branch is taken for that
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

// False: something is wrong with the branch, which is in its `trial`.
static bool try_graph(OnnxNode *n, Branch *b, OnnxCaptures *captures)
{
    Diag *own = n->model->diag;
    b->trial = diag_new(n->model->arena);
    n->model->diag = n->graph->diag = &b->trial;
    import_graph(n, b, captures);
    n->model->diag = n->graph->diag = b->scope.graph->diag = own;
    const bool ok = !n->failed;
    n->failed = false;
    return ok;
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
        rlx_assert(v.kind != ONNX_LIST || (w.kind == ONNX_LIST && w.list->n == v.list->n));
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
    return (a_tensor && b_tensor && a.is_text == b.is_text) || (a.kind == b.kind && a.kind != ONNX_ROWS);
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
    rlx_assert(then_branch->scope.graph->outputs.len == else_branch->scope.graph->outputs.len);
    rlx_assert(then_branch->scope.graph->inputs.len == captures->list.len);
    rlx_assert(else_branch->scope.graph->inputs.len == captures->list.len);
    NodeBuild b = ONNX_BEGIN(n, OP_if, cond);
    for (uint32_t i = 0; i < captures->list.len; i++)
        node_src(&b, captures->list.data[i].outer);
    node_graph(&b, A_if_then, then_branch->scope.graph);
    node_graph(&b, A_if_else, else_branch->scope.graph);
    put_results(n, onnx_end(n, &b), then_branch->out);
}

// --- branches whose results differ in size ---

static Shape result_shape(const Branch *b, OnnxValue v)
{
    if (v.kind == ONNX_NODE)
        return *graph_node(b->scope.graph, v.node)->shape;
    rlx_assert(v.kind == ONNX_DIMS);
    return (Shape){.rank = v.dims->rank, .dim = {v.dims->n}};
}

static bool is_tensor(OnnxValue v)
{
    return (v.kind == ONNX_NODE || v.kind == ONNX_DIMS) && !v.is_text;
}

// A number and a list of one number (exporters that give the one where the other was declared): both become
// lists, which broadcast in the same way.
static void list_numbers(OnnxNode *n, Branch *a, Branch *b)
{
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++) {
        if (a->out[i].kind != ONNX_NODE || b->out[i].kind != ONNX_NODE)
            continue;
        const Shape s = result_shape(a, a->out[i]), t = result_shape(b, b->out[i]);
        const Shape list = shape_of(1, (const Dim[]){1});
        if (s.rank + t.rank != 1 || !(s.rank == 0 ? shape_equal(&t, &list) : shape_equal(&s, &list)))
            continue;
        Branch *number = s.rank == 0 ? a : b;
        number->out[i].node = graph_reshape(number->scope.graph, number->out[i].node, &list);
    }
}

typedef enum Difference { DIFFER_NOT, DIFFER_SIZE, DIFFER_RANK } Difference;

static Difference compare_results(const OnnxNode *n, const Branch *a, const Branch *b)
{
    Difference d = DIFFER_NOT;
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (!is_tensor(a->out[i]) || !is_tensor(b->out[i]))
            return DIFFER_NOT; // those of other kinds stay as they are
        const Shape s = result_shape(a, a->out[i]), t = result_shape(b, b->out[i]);
        if (s.rank != t.rank)
            d = DIFFER_RANK;
        for (uint32_t k = 0; d == DIFFER_NOT && k < s.rank; k++)
            d = s.dim[k] != t.dim[k] ? DIFFER_SIZE : d;
    }
    return d;
}

// A branch as part of the graph around it, whether it is taken or not; its checks count where it is.
static bool import_beside(OnnxNode *n, const Onnx__GraphProto *g, NodeId is_left_out, OnnxValue *out)
{
    Graph *to = n->graph;
    const uint32_t before = to->checks.len;
    if (!onnx_inline_graph(n, g, NULL, 0, out, n->n_out))
        return false;
    for (uint32_t i = before; i < to->checks.len && !n->failed; i++) {
        const NodeId cond = onnx_reshape(n, to->checks.data[i].cond, &(Shape){0});
        to->checks.data[i].cond = onnx_op2(n, OP_logical_or, is_left_out, cond);
    }
    return !n->failed;
}

// The first element of each is in one list, the other's behind it: as many as the size says, from there on.
static NodeId select_rows(OnnxNode *n, NodeId cond, NodeId *x, uint32_t axis, Dim size)
{
    const Dim first = onnx_shape(n, x[0])->dim[axis];
    const NodeId start = onnx_op3(n, OP_where, cond, onnx_scalar(n, DTYPE_i64, 0), onnx_dim_value(n, first));
    const NodeId at = onnx_op2(n, OP_add, onnx_iota(n, size), start);
    return onnx_gather(n, onnx_concat_many(n, x, 2, axis), at, axis);
}

// One of two values of the same rank. Sizes that differ become sizes that the model computes.
static NodeId select_value(OnnxNode *n, NodeId cond, NodeId *x, uint32_t out)
{
    DimTable *t = n->graph->dims;
    const Shape a = *onnx_shape(n, x[0]), b = *onnx_shape(n, x[1]);
    Shape s = a;
    uint32_t n_differ = 0, axis = 0;
    if (!n->failed && onnx_dtype(n, x[0]) != onnx_dtype(n, x[1]))
        onnx_fail(n, E0205, "result %u has another type in each branch", out);
    for (uint32_t i = 0; i < s.rank && !n->failed; i++) {
        if (a.dim[i] == b.dim[i])
            continue;
        const NodeId value =
            onnx_op3(n, OP_where, cond, onnx_dim_value(n, a.dim[i]), onnx_dim_value(n, b.dim[i]));
        s.dim[i] = onnx_extent(n, out, i, value, dim_max(t, a.dim[i], b.dim[i]));
        axis = i;
        n_differ++;
    }
    if (n->failed || n_differ == 0)
        return onnx_op3(n, OP_where, cond, x[0], x[1]);
    if (n_differ == 1)
        return select_rows(n, cond, x, axis, s.dim[axis]);
    NodeId list[] = {onnx_reshape_to(n, x[0], (const Dim[]){-1}, 1),
                           onnx_reshape_to(n, x[1], (const Dim[]){-1}, 1)};
    const Dim count = dim_product(t, s.dim, s.rank);
    return onnx_reshape(n, select_rows(n, cond, list, 0, count), &s);
}

// Both branches are computed, and their results chosen from.
static void import_selected(OnnxNode *n, NodeId cond, const Onnx__GraphProto *then_proto,
                            const Onnx__GraphProto *else_proto)
{
    OnnxValue *a = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_out);
    OnnxValue *b = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_out);
    cond = onnx_reshape(n, cond, &(Shape){0});
    if (!import_beside(n, then_proto, onnx_op1(n, OP_logical_not, cond), a) ||
        !import_beside(n, else_proto, cond, b))
        return;
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++) {
        NodeId x[] = {onnx_value_node(n->scope, &a[i], n->span),
                            onnx_value_node(n->scope, &b[i], n->span)};
        n->failed = n->failed || !x[0] || !x[1];
        onnx_out(n, i, select_value(n, cond, x, i));
    }
}

// What a condition is computed from.
typedef struct CondFacts {
    bool needs_sizes;  // that the caller can give
    bool needs_values; // of inputs, or sizes that the model computes
} CondFacts;

static CondFacts find_facts(const OnnxNode *n, NodeId id)
{
    Arena scratch = {0};
    CondFacts f = {0};
    bool *seen = ARENA_ARRAY(&scratch, bool, id + 1);
    seen[id] = true;
    for (NodeId at = id; at > 0; at--) {
        const Node *node = graph_node(n->graph, at);
        if (!seen[at])
            continue;
        for (uint32_t i = 0; i < node->shape->rank; i++) {
            const bool is_computed = graph_dim_is_computed(n->graph, node->shape->dim[i]);
            f.needs_sizes = f.needs_sizes || !(dim_is_const(node->shape->dim[i]) || is_computed);
            f.needs_values = f.needs_values || is_computed;
        }
        f.needs_values = f.needs_values || (op_info[node->op].kind == OPKIND_LEAF && node->op != OP_const);
        for (uint32_t i = 0; i < node->n_src; i++)
            seen[node->src[i]] = true;
        seen[0] = false;
    }
    arena_free(&scratch);
    return f;
}

// The condition where all sizes are as small, or as large, as they can be. False: that cannot be told.
static bool condition_at(const OnnxNode *n, NodeId cond, const int64_t *sizes, bool *value)
{
    Arena scratch = {0};
    Diag quiet = diag_new(&scratch);
    Graph g = *n->graph;
    GraphOutput output = {.name = "", .node = cond};
    g.diag = &quiet;
    g.checks.len = g.states.len = 0;
    g.outputs.data = &output;
    g.outputs.len = 1;
    EvalRun run = eval_begin(&g, &scratch, (DimValues){sizes, g.dims->symbols.len});
    const bool ok = eval_graph(&run) && run.value[cond].numel == 1;
    *value = ok && tensor_get_i64(&run.value[cond], 0) != 0;
    arena_free(&scratch);
    return ok;
}

// The branch that both the smallest and the largest sizes take, of those for which the caller gives ranges.
static bool decide_by_sizes(const OnnxNode *n, NodeId cond, bool *takes_then)
{
    const DimTable *t = n->graph->dims;
    int64_t *least = ARENA_ARRAY(n->model->arena, int64_t, t->symbols.len + 1);
    int64_t *most = ARENA_ARRAY(n->model->arena, int64_t, t->symbols.len + 1);
    bool at_most = false;
    for (uint32_t i = 0; i < t->symbols.len; i++) {
        const Symbol *s = &t->symbols.data[i];
        const bool is_bounded = s->max < IMPORT_OPEN_MAX;
        least[i] = is_bounded ? s->min : -1;
        most[i] = is_bounded ? s->max : -1;
    }
    return condition_at(n, cond, least, takes_then) && condition_at(n, cond, most, &at_most) &&
           at_most == *takes_then;
}

// The branch that the model declares the rank of, or else the second one (of exporters that write `Squeeze it
// if this axis is 1`).
static bool declares_then(OnnxNode *n, const Branch *then_branch)
{
    bool takes_then = true, is_declared = false;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const int64_t rank = onnx_declared_rank(n, i);
        const uint32_t first = result_shape(then_branch, then_branch->out[i]).rank;
        is_declared = is_declared || rank >= 0;
        takes_then = takes_then && (rank < 0 || rank == first);
    }
    return takes_then && is_declared;
}

// Results of different rank: no run can have both. One branch, and a check that it is taken.
static void import_fitting(OnnxNode *n, NodeId cond, const Branch *then_branch, const Branch *else_branch)
{
    const CondFacts facts = find_facts(n, cond);
    bool takes_then = declares_then(n, then_branch);
    if (facts.needs_sizes && (facts.needs_values || !decide_by_sizes(n, cond, &takes_then))) {
        onnx_fail(n, E0204,
                  "the branches have results of different rank (%u and %u), and sizes that are open decide "
                  "which one is taken: they must be numbers, or ranges of which both ends take the same one",
                  result_shape(then_branch, then_branch->out[0]).rank,
                  result_shape(else_branch, else_branch->out[0]).rank);
        return;
    }
    const NodeId value = onnx_reshape(n, cond, &(Shape){0});
    onnx_require(n, takes_then ? value : onnx_op1(n, OP_logical_not, value),
                 arena_printf(n->model->arena,
                              "node '%s': If: the %s branch must be taken, as the other has results of "
                              "another rank",
                              n->label, takes_then ? "then" : "else"));
    import_taken(n, takes_then ? then_branch->proto : else_branch->proto);
}

// Shapes that no run can have.
static const char *find_misfit(const Branch *b)
{
    for (uint32_t i = 0; i < b->trial.items.len; i++)
        if (b->trial.items.data[i].level == DIAG_ERROR)
            return b->trial.items.data[i].code == E0204 ? b->trial.items.data[i].message : NULL;
    return NULL;
}

// A branch whose shapes do not fit is one that no run takes with these sizes (the other sampling rate, say).
// False: the other one cannot be taken for it; the node has failed.
static bool import_other(OnnxNode *n, NodeId cond, const Branch *bad, const Branch *good)
{
    const char *why = find_misfit(bad);
    if (why == NULL)
        return false;
    const bool takes_then = strcmp(good->name, "then") == 0;
    onnx_warn_once(n, E0204, "only the %s branch is compiled, and a run that takes the other one fails: %s",
                   good->name, why);
    const NodeId value = onnx_reshape(n, cond, &(Shape){0});
    onnx_require(n, takes_then ? value : onnx_op1(n, OP_logical_not, value),
                 arena_printf(n->model->arena,
                              "node '%s': If: the %s branch must be taken, as shapes do not fit in the other "
                              "one",
                              n->label, good->name));
    import_taken(n, good->proto);
    return true;
}

// False: the branches have results of different kinds.
static bool import_both(OnnxNode *n, NodeId cond, const Onnx__GraphProto *then_proto,
                        const Onnx__GraphProto *else_proto)
{
    OnnxCaptures captures = {0};
    Branch then_branch = {.proto = then_proto, .name = "then"},
           else_branch = {.proto = else_proto, .name = "else"};
    const bool fits[] = {try_graph(n, &then_branch, &captures), try_graph(n, &else_branch, &captures)};
    if (fits[0] != fits[1] && import_other(n, cond, fits[0] ? &else_branch : &then_branch,
                                           fits[0] ? &then_branch : &else_branch))
        return true;
    onnx_pass_on(n, &then_branch.trial);
    onnx_pass_on(n, &else_branch.trial);
    n->failed = !fits[0] || !fits[1];
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++)
        if (!is_alike(then_branch.out[i], else_branch.out[i]))
            return false;
    list_numbers(n, &then_branch, &else_branch);
    const Difference d = n->failed ? DIFFER_NOT : compare_results(n, &then_branch, &else_branch);
    if (d == DIFFER_RANK)
        import_fitting(n, cond, &then_branch, &else_branch);
    else if (d == DIFFER_SIZE)
        import_selected(n, cond, then_proto, else_proto);
    else if (!n->failed)
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
