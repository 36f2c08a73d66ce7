// SPDX-License-Identifier: Apache-2.0
// Leaves (inputs, params, states, constants), outputs, and the shorthands with which importers and passes
// build the common nodes. A shorthand takes span and label of its first operand, unless that is a leaf
// without one.
#include "ir/graph/intern.h"
#include "ir/graph/tensor.h"

static bool check_leaf(Graph *g, const char *what, const TensorType *t, uint64_t bytes, Span span)
{
    if (!type_check(g, span, what, t))
        return false;
    if (!bytes)
        return true;
    if (!shape_is_const(&t->shape))
        return diag_error(g->diag, span, E0207, "%s: has values, so its shape must be constant", what);
    uint64_t wanted = type_bytes(t->dtype, &t->shape);
    if (bytes == wanted)
        return true;
    Str text = str_new(g->arena);
    shape_print(g->dims, t->dtype, &t->shape, &text);
    return diag_error(g->diag, span, E0204, "%s: %s has %llu bytes, but %llu are given", what,
                      str_text(&text), (unsigned long long)wanted, (unsigned long long)bytes);
}

static NodeId add_node(Graph *g, OpId op, const TensorType *t, AttrVal *attr, uint32_t n_attr, Span span)
{
    for (uint32_t i = 0; i < n_attr; i++)
        intern_attr(g, &attr[i]);
    Node n = {
        .op = (uint16_t)op,
        .dtype = (uint8_t)t->dtype,
        .n_results = 1,
        .n_attr = (uint16_t)n_attr,
        .shape = graph_intern_shape(g, &t->shape),
        .attr = attr,
    };
    return intern_node(g, &n, span, NULL);
}

// attr[0] is the name.
static NodeId add_named(Graph *g, OpId op, const TensorType *t, AttrVal *attr, uint32_t n_attr, Span span)
{
    const char *name = attr[0].u.str;
    NodeId owner = intern_find_name(g, NAME_LEAF, name);
    const char *what = arena_printf(g->arena, "%s '%s'", op_info[op].name, name);
    if (!check_leaf(g, what, t, n_attr > 1 ? attr[1].len : 0, span))
        return 0;
    if (!owner) {
        NodeId id = add_node(g, op, t, attr, n_attr, span);
        intern_put_name(g, NAME_LEAF, name, id);
        return id;
    }
    diag_error(g->diag, span, E0104, "%s: there is already a leaf with the name '%s'", what, name);
    diag_note(g->diag, node_span(g, owner), "the first one is here");
    return 0;
}

NodeId graph_input(Graph *g, const char *name, DType t, const Shape *s, Span span)
{
    rlx_assert(name != NULL && s->rank <= SHAPE_MAX_RANK);
    AttrVal attr = {.id = A_input_name, .u.str = name};
    NodeId id = add_named(g, OP_input, &(TensorType){t, *s}, &attr, 1, span);
    if (id)
        vec_push(g->arena, &g->inputs, id);
    return id;
}

NodeId graph_input_again(Graph *g, uint32_t slot, const Shape *s)
{
    const Node n = *graph_node(g, g->inputs.data[slot]);
    const Span span = node_span(g, g->inputs.data[slot]);
    AttrVal attr = {.id = A_input_name, .u.str = node_name(g, g->inputs.data[slot])};
    rlx_assert(n.op == OP_input && slot < g->inputs.len);
    const NodeId id = add_node(g, OP_input, &(TensorType){(DType)n.dtype, *s}, &attr, 1, span);
    intern_put_name(g, NAME_LEAF, attr.u.str, id);
    return g->inputs.data[slot] = id;
}

NodeId graph_param(Graph *g, const char *name, DType t, const Shape *s, const void *init, uint64_t bytes,
                   Span span)
{
    rlx_assert(name != NULL && s->rank <= SHAPE_MAX_RANK);
    AttrVal attr[2] = {{.id = A_param_name, .u.str = name},
                       {.id = A_param_init, .len = bytes, .u.blob = init}};
    NodeId id = add_named(g, OP_param, &(TensorType){t, *s}, attr, 2, span);
    if (id)
        vec_push(g->arena, &g->params, id);
    return id;
}

NodeId graph_state(Graph *g, const char *name, DType t, const Shape *s, const void *init, uint64_t bytes,
                   Span span)
{
    rlx_assert(name != NULL && s->rank <= SHAPE_MAX_RANK);
    AttrVal attr[2] = {{.id = A_state_name, .u.str = name},
                       {.id = A_state_init, .len = bytes, .u.blob = init}};
    NodeId id = add_named(g, OP_state, &(TensorType){t, *s}, attr, 2, span);
    if (id)
        vec_push(g->arena, &g->states, ((GraphState){.node = id}));
    return id;
}

NodeId graph_const(Graph *g, DType t, const Shape *s, const void *data, uint64_t bytes, Span span)
{
    rlx_assert(t < DTYPE_COUNT && s->rank <= SHAPE_MAX_RANK);
    TensorType type = {t, *s};
    AttrVal attr = {.id = A_const_data, .len = bytes, .u.blob = data};
    if (!check_leaf(g, "const", &type, bytes, span))
        return 0;
    if (!shape_is_const(s) || type_bytes(t, s) != bytes) {
        diag_error(g->diag, span, E0204, "const: %llu bytes do not fit its shape", (unsigned long long)bytes);
        return 0;
    }
    return add_node(g, OP_const, &type, &attr, 1, span);
}

NodeId graph_scalar(Graph *g, DType t, double v, Span span)
{
    Tensor value = tensor_new(g->arena, t, 0, NULL);
    tensor_set_f64(&value, 0, v);
    Shape scalar = {0};
    return graph_const(g, t, &scalar, value.data, dtype_info[t].bytes, span);
}

// --- shorthands ---

// Names of constants say nothing about what is computed with them.
static bool has_place(const Graph *g, NodeId id)
{
    return g->labels.data[id] && graph_node(g, id)->op != OP_const;
}

static NodeBuild begin_like(Graph *g, OpId op, NodeId a)
{
    return node_begin(g, op, g->spans.data[a], g->labels.data[a]);
}

NodeId graph_op1(Graph *g, OpId op, NodeId a)
{
    rlx_assert(a != 0);
    NodeBuild b = begin_like(g, op, a);
    node_src(&b, a);
    return node_end(&b);
}

NodeId graph_op2(Graph *g, OpId op, NodeId a, NodeId b)
{
    NodeBuild build = begin_like(g, op, has_place(g, a) || !b ? a : b);
    node_src(&build, a);
    node_src(&build, b);
    return node_end(&build);
}

NodeId graph_op3(Graph *g, OpId op, NodeId a, NodeId b, NodeId c)
{
    NodeBuild build = begin_like(g, op, has_place(g, a) || !b ? a : b);
    node_src(&build, a);
    node_src(&build, b);
    node_src(&build, c);
    return node_end(&build);
}

NodeId graph_cast(Graph *g, NodeId a, DType to)
{
    rlx_assert(a != 0 && to < DTYPE_COUNT);
    if (graph_node(g, a)->dtype == to)
        return a;
    NodeBuild b = begin_like(g, OP_cast, a);
    node_src(&b, a);
    node_int(&b, A_cast_to, to);
    return node_end(&b);
}

static NodeId reshape_by(Graph *g, NodeId a, const Shape *s)
{
    NodeBuild b = begin_like(g, OP_reshape, a);
    node_src(&b, a);
    node_ints(&b, A_reshape_shape, s->dim, s->rank);
    return node_end(&b);
}

NodeId graph_reshape(Graph *g, NodeId a, const Shape *s)
{
    rlx_assert(a != 0 && s->rank <= SHAPE_MAX_RANK);
    const Shape *from = graph_node(g, a)->shape, empty = {.rank = 1};
    bool is_copied = false; // a 0 stands for the size that the operand has there
    if (shape_equal(from, s))
        return a;
    for (uint32_t i = 0; i < s->rank && i < from->rank; i++)
        is_copied |= s->dim[i] == 0 && from->dim[i] != 0;
    return reshape_by(g, is_copied ? reshape_by(g, a, &empty) : a, s);
}

NodeId graph_expand(Graph *g, NodeId a, const Shape *s)
{
    rlx_assert(a != 0 && s->rank <= SHAPE_MAX_RANK);
    if (shape_equal(graph_node(g, a)->shape, s))
        return a;
    NodeBuild b = begin_like(g, OP_expand, a);
    node_src(&b, a);
    node_ints(&b, A_expand_shape, s->dim, s->rank);
    return node_end(&b);
}

NodeId graph_transpose(Graph *g, NodeId a, const int64_t *perm)
{
    uint32_t rank = graph_node(g, a)->shape->rank;
    bool is_identity = true;
    for (uint32_t i = 0; i < rank; i++) {
        rlx_assert(perm[i] >= 0 && perm[i] < rank);
        is_identity &= perm[i] == i;
    }
    if (is_identity)
        return a;
    NodeBuild b = begin_like(g, OP_transpose, a);
    node_src(&b, a);
    node_ints(&b, A_transpose_perm, perm, rank);
    return node_end(&b);
}

void order_of_channels(uint32_t rank, bool to_front, int64_t *perm)
{
    rlx_assert(rank <= SHAPE_MAX_RANK);
    perm[0] = 0;
    for (uint32_t i = 1; i < rank; i++)
        perm[i] = to_front ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
}

NodeId graph_slice(Graph *g, NodeId a, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    rlx_assert(axis >= 0 && axis < graph_node(g, a)->shape->rank && step >= 1);
    if (start == 0 && step == 1 && end == graph_node(g, a)->shape->dim[axis])
        return a;
    NodeBuild b = begin_like(g, OP_slice, a);
    node_slice(&b, a, axis, start, end, step);
    return node_end(&b);
}

NodeId graph_result(Graph *g, NodeId a, uint32_t index)
{
    rlx_assert(index < graph_node(g, a)->n_results);
    if (index == 0)
        return a;
    NodeBuild b = begin_like(g, OP_result, a);
    node_src(&b, a);
    node_int(&b, A_result_index, index);
    return node_end(&b);
}

void node_slice(NodeBuild *b, NodeId x, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    node_src(b, x);
    node_ints(b, A_slice_starts, &start, 1);
    node_ints(b, A_slice_ends, &end, 1);
    node_ints(b, A_slice_axes, &axis, 1);
    node_ints(b, A_slice_steps, &step, 1);
}

void node_reduce(NodeBuild *b, NodeId x, const int64_t *axes, uint32_t n, bool keeps)
{
    node_src(b, x);
    node_ints(b, attr_find(b->op, "axes"), axes, n);
    node_int(b, attr_find(b->op, "keepdims"), keeps);
}

void node_gather(NodeBuild *b, NodeId x, NodeId index, int64_t axis)
{
    node_src(b, x);
    node_src(b, index);
    node_int(b, A_gather_axis, axis);
}

void node_concat(NodeBuild *b, const NodeId *src, uint32_t n, int64_t axis)
{
    for (uint32_t i = 0; i < n; i++)
        node_src(b, src[i]);
    node_int(b, A_concat_axis, axis);
}

void node_matmul(NodeBuild *b, NodeId x, NodeId y, bool transpose_x, bool transpose_y)
{
    node_src(b, x);
    node_src(b, y);
    node_int(b, A_matmul_transpose_a, transpose_x);
    node_int(b, A_matmul_transpose_b, transpose_y);
}

void graph_output(Graph *g, const char *name, NodeId node)
{
    rlx_assert(node < g->nodes.len);
    if (!node)
        return; // its own failure was reported
    if (intern_find_name(g, NAME_OUTPUT, name)) {
        diag_error(g->diag, node_span(g, node), E0104, "there are two outputs with the name '%s'", name);
        return;
    }
    intern_put_name(g, NAME_OUTPUT, name, node);
    GraphOutput out = {intern_str(g, name), node, 0};
    vec_push(g->arena, &g->outputs, out);
}

bool graph_output_sizes(Graph *g, uint32_t index, NodeId sizes)
{
    rlx_assert(index < g->outputs.len);
    const Node *n = graph_node(g, sizes);
    const GraphOutput *of = &g->outputs.data[index];
    const uint32_t rank = graph_node(g, of->node)->shape->rank;
    if (of->shape_of || n->dtype != DTYPE_i64 || n->shape->rank != 1 || n->shape->dim[0] != rank)
        return diag_error(g->diag, node_span(g, sizes), E0209, "the sizes of output '%s' must be i64[%u]",
                          of->name, rank);
    const uint32_t before = g->outputs.len;
    graph_output(g, arena_printf(g->arena, "sizes of %s", of->name), sizes);
    if (g->outputs.len != before)
        g->outputs.data[before].shape_of = index + 1;
    return g->outputs.len != before;
}

// --- checks ---

typedef enum CheckState { CHECK_OPEN, CHECK_HOLDS, CHECK_FAILED } CheckState;

static CheckState check_state(Graph *g, const GraphCheck *c)
{
    double value = 0;
    if (!node_is_scalar_const(g, c->cond, &value))
        return CHECK_OPEN;
    if (value != 0)
        return CHECK_HOLDS;
    diag_error(g->diag, node_span(g, c->cond), E0403, "%s", c->message);
    return CHECK_FAILED;
}

static bool is_check_type(const Graph *g, NodeId cond)
{
    const Node *n = graph_node(g, cond);
    return n->dtype == DTYPE_bool && shape_is_const(n->shape) && shape_numel(n->shape) == 1;
}

bool graph_check(Graph *g, NodeId cond, const char *message)
{
    if (!cond)
        return false; // its own failure was reported
    if (!is_check_type(g, cond))
        return diag_error(g->diag, node_span(g, cond), E0209, "a check needs a bool with one element");
    const GraphCheck check = {cond, intern_str(g, message)};
    const CheckState state = check_state(g, &check);
    for (uint32_t i = 0; state == CHECK_OPEN && i < g->checks.len; i++)
        if (g->checks.data[i].cond == cond)
            return true;
    if (state == CHECK_OPEN)
        vec_push(g->arena, &g->checks, check);
    return state != CHECK_FAILED;
}

bool graph_settle_checks(Graph *g)
{
    uint32_t n = 0;
    bool ok = true;
    for (uint32_t i = 0; i < g->checks.len; i++) {
        const CheckState state = check_state(g, &g->checks.data[i]);
        if (state == CHECK_OPEN)
            g->checks.data[n++] = g->checks.data[i];
        ok = ok && state != CHECK_FAILED;
    }
    g->checks.len = n;
    return ok;
}
