// SPDX-License-Identifier: Apache-2.0
// Gradient (ai.onnx.preview.training): derivatives of one value by others, in reverse mode over the nodes
// that were imported so far. Every op that lies between needs a rule below; the others are reported by name.
#include "compiler/import/onnx/onnx_import.h"

// One node on the way back: its value, the derivative of the result by it, and its operands.
typedef struct Tape {
    OnnxNode *n;
    NodeId *grad; // by NodeId of the nodes before Gradient; 0: none yet
    bool *depends;
    OpId op;
    NodeId y, g, src[3];
} Tape;

typedef void (*Backward)(Tape *t);

static NodeId number(const Tape *t, NodeId like, double v)
{
    return onnx_scalar(t->n, onnx_dtype(t->n, like), v);
}

static NodeId mul(const Tape *t, NodeId a, NodeId b)
{
    return onnx_op2(t->n, OP_mul, a, b);
}

// Sums over the axes along which a value of the shape of `like` was repeated.
static NodeId unbroadcast(const Tape *t, NodeId g, NodeId like)
{
    const Shape from = *onnx_shape(t->n, g), to = *onnx_shape(t->n, like);
    const uint32_t extra = from.rank > to.rank ? from.rank - to.rank : 0;
    int64_t axes[SHAPE_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < from.rank; i++)
        if (i < extra || (to.dim[i - extra] == 1 && from.dim[i] != 1))
            axes[count++] = i;
    if (count)
        g = onnx_reduce(t->n, OP_reduce_sum, g, axes, count);
    return onnx_reshape(t->n, g, &to);
}

// Adds to the derivative by operand i.
static void give(Tape *t, uint32_t i, NodeId g)
{
    const NodeId to = t->src[i];
    if (t->n->failed || !t->depends[to])
        return;
    g = unbroadcast(t, g, to);
    t->grad[to] = t->grad[to] ? onnx_op2(t->n, OP_add, t->grad[to], g) : g;
}

// --- arithmetic ---

static void back_add(Tape *t)
{
    give(t, 0, t->g);
    give(t, 1, t->g);
}

static void back_sub(Tape *t)
{
    give(t, 0, t->g);
    give(t, 1, onnx_op1(t->n, OP_neg, t->g));
}

static void back_mul(Tape *t)
{
    give(t, 0, mul(t, t->g, t->src[1]));
    give(t, 1, mul(t, t->g, t->src[0]));
}

static void back_div(Tape *t)
{
    const NodeId part = onnx_op2(t->n, OP_div, t->g, t->src[1]);
    give(t, 0, part);
    give(t, 1, onnx_op1(t->n, OP_neg, mul(t, part, t->y)));
}

static void back_pow(Tape *t)
{
    const NodeId a = t->src[0], b = t->src[1];
    const NodeId less = onnx_op2(t->n, OP_sub, b, number(t, b, 1));
    give(t, 0, mul(t, t->g, mul(t, b, onnx_op2(t->n, OP_pow, a, less))));
    if (t->depends[b])
        give(t, 1, mul(t, t->g, mul(t, t->y, onnx_op1(t->n, OP_log, a))));
}

static void choose(Tape *t, OpId op)
{
    const NodeId zero = number(t, t->g, 0), first = onnx_op2(t->n, op, t->src[0], t->src[1]);
    give(t, 0, onnx_op3(t->n, OP_where, first, t->g, zero));
    give(t, 1, onnx_op3(t->n, OP_where, first, zero, t->g));
}

static void back_max(Tape *t)
{
    choose(t, OP_ge);
}

static void back_min(Tape *t)
{
    choose(t, OP_le);
}

static void back_where(Tape *t)
{
    const NodeId zero = number(t, t->g, 0);
    give(t, 1, onnx_op3(t->n, OP_where, t->src[0], t->g, zero));
    give(t, 2, onnx_op3(t->n, OP_where, t->src[0], zero, t->g));
}

// --- functions of one number ---

// The derivative of an elementwise op of one operand.
static NodeId slope(const Tape *t)
{
    OnnxNode *n = t->n;
    const NodeId a = t->src[0], y = t->y, one = number(t, a, 1);
    switch (t->op) {
    case OP_neg:
        return number(t, a, -1);
    case OP_abs:
        return onnx_op1(n, OP_sign, a);
    case OP_exp:
        return y;
    case OP_log:
        return onnx_op1(n, OP_reciprocal, a);
    case OP_sqrt:
        return onnx_op2(n, OP_div, number(t, a, 0.5), y);
    case OP_square:
        return mul(t, a, number(t, a, 2));
    case OP_reciprocal:
        return onnx_op1(n, OP_neg, onnx_op1(n, OP_square, y));
    case OP_sin:
        return onnx_op1(n, OP_cos, a);
    case OP_cos:
        return onnx_op1(n, OP_neg, onnx_op1(n, OP_sin, a));
    case OP_tanh:
        return onnx_op2(n, OP_sub, one, onnx_op1(n, OP_square, y));
    case OP_sigmoid:
        return mul(t, y, onnx_op2(n, OP_sub, one, y));
    case OP_softplus:
        return onnx_op1(n, OP_sigmoid, a);
    case OP_erf: {
        const NodeId bell = onnx_op1(n, OP_exp, onnx_op1(n, OP_neg, onnx_op1(n, OP_square, a)));
        return mul(t, bell, number(t, a, 1.1283791670955126));
    }
    default:
        rlx_assert(t->op == OP_relu);
        return onnx_cast(n, onnx_op2(n, OP_gt, a, number(t, a, 0)), onnx_dtype(n, a)); // relu
    }
}

static void back_unary(Tape *t)
{
    give(t, 0, mul(t, t->g, slope(t)));
}

static void back_cast(Tape *t)
{
    give(t, 0, onnx_cast(t->n, t->g, onnx_dtype(t->n, t->src[0])));
}

// --- moves and sums ---

static void back_shape(Tape *t)
{
    const Shape s = *onnx_shape(t->n, t->src[0]);
    give(t, 0, onnx_reshape(t->n, t->g, &s));
}

static void back_expand(Tape *t)
{
    give(t, 0, t->g);
}

static void back_transpose(Tape *t)
{
    const AttrVal *perm = node_attr(graph_node(t->n->graph, t->y), A_transpose_perm);
    rlx_assert(perm != NULL && perm->len <= SHAPE_MAX_RANK);
    int64_t back[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < perm->len; i++)
        back[perm->u.ints[i]] = i;
    give(t, 0, onnx_transpose(t->n, t->g, back));
}

// The derivative spread over the reduced axes again.
static NodeId spread(Tape *t, AttrId axes)
{
    const Shape s = *onnx_shape(t->n, t->src[0]);
    const AttrVal *a = node_attr(graph_node(t->n->graph, t->y), axes);
    rlx_assert(a != NULL);
    Shape kept = s;
    for (uint32_t i = 0; i < s.rank; i++)
        for (uint64_t k = 0; k < a->len; k++)
            if (a->u.ints[k] == i)
                kept.dim[i] = 1;
    return onnx_expand(t->n, onnx_reshape(t->n, t->g, &kept), s.dim, s.rank);
}

static void back_reduce_sum(Tape *t)
{
    give(t, 0, spread(t, A_reduce_sum_axes));
}

static void back_reduce_mean(Tape *t)
{
    const NodeId each = spread(t, A_reduce_mean_axes);
    const Shape from = *onnx_shape(t->n, t->src[0]), to = *onnx_shape(t->n, t->y);
    if (!shape_is_const(&from)) {
        onnx_fail(t->n, E0207, "the sizes of a mean must be numbers");
        return;
    }
    const double count = (double)shape_numel(&from) / (double)shape_numel(&to);
    give(t, 0, onnx_op2(t->n, OP_div, each, number(t, each, count)));
}

static void back_matmul(Tape *t)
{
    const Node *node = graph_node(t->n->graph, t->y);
    const NodeId a = t->src[0], b = t->src[1];
    const bool flip_a = node_get_int(node, A_matmul_transpose_a) != 0,
               flip_b = node_get_int(node, A_matmul_transpose_b) != 0;
    if (onnx_shape(t->n, a)->rank < 2 || onnx_shape(t->n, b)->rank < 2) {
        onnx_fail(t->n, E0206, "the derivative of a product with a vector is not supported");
        return;
    }
    if (t->depends[a])
        give(t, 0,
             flip_a ? onnx_matmul(t->n, b, t->g, flip_b, true) : onnx_matmul(t->n, t->g, b, false, !flip_b));
    if (t->depends[b])
        give(t, 1,
             flip_b ? onnx_matmul(t->n, t->g, a, true, flip_a) : onnx_matmul(t->n, a, t->g, !flip_a, false));
}

static void back_softmax(Tape *t)
{
    const int64_t axis = node_get_int(graph_node(t->n->graph, t->y), A_softmax_axis);
    const NodeId sum = onnx_reduce(t->n, OP_reduce_sum, mul(t, t->g, t->y), &axis, 1);
    give(t, 0, mul(t, t->y, onnx_op2(t->n, OP_sub, t->g, sum)));
}

static void back_log_softmax(Tape *t)
{
    const int64_t axis = node_get_int(graph_node(t->n->graph, t->y), A_log_softmax_axis);
    const NodeId sum = onnx_reduce(t->n, OP_reduce_sum, t->g, &axis, 1);
    give(t, 0, onnx_op2(t->n, OP_sub, t->g, mul(t, onnx_op1(t->n, OP_exp, t->y), sum)));
}

static const Backward rules[OP_COUNT] = {
    [OP_add] = back_add,
    [OP_sub] = back_sub,
    [OP_mul] = back_mul,
    [OP_div] = back_div,
    [OP_pow] = back_pow,
    [OP_max] = back_max,
    [OP_min] = back_min,
    [OP_where] = back_where,
    [OP_neg] = back_unary,
    [OP_abs] = back_unary,
    [OP_exp] = back_unary,
    [OP_log] = back_unary,
    [OP_sqrt] = back_unary,
    [OP_square] = back_unary,
    [OP_reciprocal] = back_unary,
    [OP_sin] = back_unary,
    [OP_cos] = back_unary,
    [OP_tanh] = back_unary,
    [OP_sigmoid] = back_unary,
    [OP_softplus] = back_unary,
    [OP_erf] = back_unary,
    [OP_relu] = back_unary,
    [OP_cast] = back_cast,
    [OP_reshape] = back_shape,
    [OP_squeeze] = back_shape,
    [OP_unsqueeze] = back_shape,
    [OP_flatten] = back_shape,
    [OP_expand] = back_expand,
    [OP_transpose] = back_transpose,
    [OP_reduce_sum] = back_reduce_sum,
    [OP_reduce_mean] = back_reduce_mean,
    [OP_matmul] = back_matmul,
    [OP_softmax] = back_softmax,
    [OP_log_softmax] = back_log_softmax,
};

// --- the operator ---

static NodeId named_node(OnnxNode *n, const char *name)
{
    OnnxValue v = onnx_get(n->scope, name, n->span, "Gradient");
    if (!n->failed && v.kind != ONNX_NODE)
        onnx_fail(n, E0103, "the value '%s' is not a tensor that can be differentiated", name);
    return v.kind == ONNX_NODE ? v.node : 0;
}

// The operands are the values that the attribute names: elsewhere than there nothing is evaluated.
static uint32_t read_variables(OnnxNode *n, const char *attr, uint32_t first, NodeId *out)
{
    const Onnx__AttributeProto *a = onnx_attr(n, attr);
    const uint32_t count = a ? (uint32_t)a->n_strings : 0;
    if (first + count > n->n_in) {
        onnx_fail(n, E0202, "needs an input for each entry of '%s'", attr);
        return 0;
    }
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        const ProtobufCBinaryData *s = &a->strings[i];
        out[i] = named_node(n, arena_strndup(n->model->arena, (const char *)s->data, s->len));
        if (onnx_src(n, first + i) != out[i])
            onnx_fail(n, E0206, "input %u is another value than the one that '%s' names", first + i, attr);
    }
    return n->failed ? 0 : count;
}

// What depends on the variables, up to y.
static void mark(Tape *t, NodeId y)
{
    for (NodeId id = 1; id <= y; id++) {
        const Node *node = graph_node(t->n->graph, id);
        for (uint32_t i = 0; i < node->n_src; i++)
            t->depends[id] = t->depends[id] || (node->src[i] && t->depends[node->src[i]]);
        if (dtype_info[node->dtype].cls != DCLASS_FLOAT)
            t->depends[id] = false; // steps have no slope
    }
}

static void step_back(Tape *t, NodeId id)
{
    rlx_assert(id != 0 && t->grad[id] != 0);
    const Node *node = graph_node(t->n->graph, id);
    const char *name = op_info[node->op].name;
    t->op = (OpId)node->op;
    t->y = id;
    t->g = t->grad[id];
    for (uint32_t i = 0; i < 3; i++)
        t->src[i] = i < node->n_src ? node->src[i] : 0;
    if (!rules[t->op])
        onnx_fail(t->n, E0206, "the derivative of %s is not supported", name);
    else
        rules[t->op](t);
}

void onnx_import_gradient(OnnxNode *n)
{
    Arena *a = n->model->arena;
    NodeId *x = ARENA_ARRAY(a, NodeId, n->n_in + 1);
    const char *result = onnx_str(n, "y", "");
    const uint32_t count = read_variables(n, "xs", 0, x);
    read_variables(n, "zs", count, x + count);
    const NodeId y = n->failed ? 0 : named_node(n, result);
    if (!y || n->failed)
        return;
    const size_t nodes = n->graph->nodes.len;
    Tape t = {.n = n, .grad = ARENA_ARRAY(a, NodeId, nodes), .depends = ARENA_ARRAY(a, bool, nodes)};
    bool *is_variable = ARENA_ARRAY(a, bool, nodes);
    for (uint32_t i = 0; i < count; i++)
        is_variable[x[i]] = t.depends[x[i]] = true;
    mark(&t, y);
    for (uint32_t i = 0; i < count; i++)
        t.depends[x[i]] = true;
    const Shape whole = *onnx_shape(n, y);
    t.grad[y] = onnx_expand(n, number(&t, y, 1), whole.dim, whole.rank);
    for (NodeId id = y; id > 0 && !n->failed; id--)
        if (t.depends[id] && t.grad[id] && !is_variable[id])
            step_back(&t, id);
    for (uint32_t i = 0; i < count; i++) {
        const Shape s = *onnx_shape(n, x[i]);
        NodeId g = t.grad[x[i]];
        if (!g)
            g = onnx_expand(n, number(&t, x[i], 0), s.dim, s.rank);
        onnx_out(n, i, g);
    }
}
