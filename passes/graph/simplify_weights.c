// SPDX-License-Identifier: Apache-2.0
// Folds constants that scale or shift the channels behind a convolution or matmul (a batch norm is a scale
// and a shift) into its weights and bias: they then cost nothing at run time. The new weights are rounded
// once, where the result was rounded before; weights that would overflow are left alone.
#include "ir/graph/tensor.h"
#include "passes/graph/fold.h"
#include "passes/graph/simplify.h"

#include <math.h>

// --- constants ---

static NodeId binary(const Simplify *s, OpId op, NodeId a, NodeId b)
{
    const NodeId id = graph_op2(s->g, op, a, b);
    return id ? fold_node(s->g, id) : 0;
}

static NodeId reshaped(const Simplify *s, NodeId c, const Shape *to)
{
    const NodeId id = graph_reshape(s->g, c, to);
    return id ? fold_node(s->g, id) : 0;
}

// All elements are numbers with which `op` does not leave the finite ones by itself.
static bool all_finite(const Graph *g, NodeId id, OpId op)
{
    const Tensor t = tensor_of_const(g, id);
    for (int64_t i = 0; i < t.numel; i++) {
        const double v = tensor_get_f64(&t, i);
        if (!isfinite(v) || (v == 0 && op == OP_div))
            return false;
    }
    return true;
}

// A constant that changes along one axis of `like` at most, as a vector of that axis's length, or with one
// element. 0: it is something else, or no operand for `op`.
static NodeId as_vector(const Simplify *s, OpId op, NodeId c, const Shape *like, uint32_t axis)
{
    const Shape *shape = graph_node(s->g, c)->shape;
    Shape vector = {.rank = 1, .dim = {1}};
    if (!node_is_const(s->g, c) || shape->rank > like->rank)
        return 0;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const uint32_t at = like->rank - shape->rank + i;
        if (shape->dim[i] != 1 && at != axis)
            return 0;
        if (shape->dim[i] != 1)
            vector.dim[0] = shape->dim[i];
    }
    return all_finite(s->g, c, op) ? reshaped(s, c, &vector) : 0;
}

// The vector along `axis` of a value of that rank, so that it broadcasts.
static NodeId along_axis(const Simplify *s, NodeId vector, uint32_t rank, uint32_t axis)
{
    Shape to = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        to.dim[i] = i == axis ? graph_node(s->g, vector)->shape->dim[0] : 1;
    return reshaped(s, vector, &to);
}

// weights op factor, or 0 where one of them is not finite, or where the work of folding them is used up.
static NodeId scaled(const Simplify *s, OpId op, NodeId weights, NodeId factor)
{
    const NodeId made = binary(s, op, weights, factor);
    return made && node_is_const(s->g, made) && all_finite(s->g, made, OP_none) ? made : 0;
}

// --- the node in front ---

static bool is_conv(const Node *n)
{
    return n->op == OP_conv || n->op == OP_conv_transpose;
}

static NodeId bias_of(const Node *n)
{
    return n->n_src > 2 ? n->src[2] : 0;
}

static bool is_const_or_absent(const Graph *g, NodeId id)
{
    return id == 0 || node_is_const(g, id);
}

static NodeId with_weights(const Simplify *s, NodeId conv, NodeId w, NodeId bias)
{
    const Node n = *graph_node(s->g, conv);
    return graph_clone_with(s->g, conv, (const NodeId[]){n.src[0], w, bias}, 3);
}

// conv + c and conv - c: c joins the bias.
static NodeId shift_conv(const Simplify *s, OpId op, NodeId conv, NodeId c)
{
    const Node n = *graph_node(s->g, conv);
    const NodeId shift = as_vector(s, op, c, n.shape, 1);
    const Shape channels = {.rank = 1, .dim = {n.shape->dim[1]}};
    NodeId bias = bias_of(&n);
    if (!shift || !is_const_or_absent(s->g, bias))
        return 0;
    if (!bias) {
        NodeBuild b = simplify_begin(s, OP_expand, conv);
        node_src(&b, op == OP_sub ? fold_node(s->g, graph_op1(s->g, OP_neg, shift)) : shift);
        node_ints(&b, A_expand_shape, channels.dim, 1);
        bias = fold_node(s->g, node_end(&b));
    } else {
        bias = binary(s, op, bias, shift);
    }
    return with_weights(s, conv, n.src[1], bias);
}

// The factor of every output channel beside the weights of a transposed convolution, [C, O / group, kernel]:
// the input channels of a group make its own output channels.
static NodeId beside_transposed(const Simplify *s, const Node *conv, NodeId factor)
{
    const int64_t group = node_get_int(conv, A_conv_transpose_group);
    const Shape *w = graph_node(s->g, conv->src[1])->shape;
    const Shape own = {.rank = 3, .dim = {group, 1, w->dim[1]}};
    const Shape spread = {.rank = 3, .dim = {group, w->dim[0] / group, w->dim[1]}};
    Shape rows = {.rank = w->rank, .dim = {w->dim[0], w->dim[1], 1, 1, 1}};
    if (graph_node(s->g, factor)->shape->dim[0] == 1)
        return factor;
    NodeBuild b = node_begin(s->g, OP_expand, (Span){0}, NULL);
    node_src(&b, reshaped(s, factor, &own));
    node_ints(&b, A_expand_shape, spread.dim, spread.rank);
    return reshaped(s, fold_node(s->g, node_end(&b)), &rows);
}

// conv * c and conv / c: c scales the weights and the bias. The output channels are axis 0 of a convolution's
// weights.
static NodeId scale_conv(const Simplify *s, OpId op, NodeId conv, NodeId c)
{
    const Node n = *graph_node(s->g, conv);
    const NodeId factor = as_vector(s, op, c, n.shape, 1), bias = bias_of(&n);
    if (!factor || !node_is_const(s->g, n.src[1]) || !is_const_or_absent(s->g, bias))
        return 0;
    const NodeId spread =
        n.op == OP_conv ? along_axis(s, factor, n.shape->rank, 0) : beside_transposed(s, &n, factor);
    const NodeId w = scaled(s, op, n.src[1], spread), new_bias = bias ? scaled(s, op, bias, factor) : 0;
    return w && (new_bias || !bias) ? with_weights(s, conv, w, new_bias) : 0;
}

// matmul * c and matmul / c with constant weights on the right: c scales their columns.
static NodeId scale_matmul(const Simplify *s, OpId op, NodeId matmul, NodeId c)
{
    const Node n = *graph_node(s->g, matmul);
    const Node w = *graph_node(s->g, n.src[1]);
    const bool is_transposed = w.shape->rank > 1 && node_get_int(&n, A_matmul_transpose_b);
    if (!node_is_const(s->g, n.src[1]) || n.shape->rank == 0)
        return 0;
    NodeId factor = as_vector(s, op, c, n.shape, n.shape->rank - 1);
    if (!factor || (w.shape->rank < 2 && graph_node(s->g, factor)->shape->dim[0] != 1))
        return 0;
    if (w.shape->rank >= 2)
        factor = along_axis(s, factor, w.shape->rank, w.shape->rank - (is_transposed ? 2 : 1));
    const NodeId src[] = {n.src[0], scaled(s, op, n.src[1], factor), n.n_src > 2 ? n.src[2] : 0};
    return src[1] != 0 ? graph_clone_with(s->g, matmul, src, 3) : 0;
}

// (matmul + d) * c as matmul * c + d * c.
static NodeId scale_sum(const Simplify *s, OpId op, NodeId sum, NodeId c)
{
    const Node n = *graph_node(s->g, sum);
    const uint32_t at = node_is_const(s->g, n.src[0]) ? 1 : 0;
    const NodeId matmul = n.src[at], shift = n.src[1 - at];
    if (!node_is_const(s->g, shift) || graph_node(s->g, matmul)->op != OP_matmul || s->uses[matmul] != 1 ||
        !shape_equal(graph_node(s->g, matmul)->shape, n.shape))
        return 0;
    const NodeId made = scale_matmul(s, op, matmul, c), new_shift = made ? scaled(s, op, shift, c) : 0;
    return new_shift ? graph_op2(s->g, OP_add, made, new_shift) : 0;
}

// --- a scalar through what only moves numbers ---

enum { MAX_VIEWS = 8 };

// x * c and x / c, c one number, where x is some reshapes and transposes of a sum with constant weights.
static NodeId scale_below(const Simplify *s, OpId op, NodeId x, NodeId c)
{
    static const Shape scalar = {.rank = 0};
    NodeId view[MAX_VIEWS], made = 0;
    uint32_t n = 0;
    for (OpId at = (OpId)graph_node(s->g, x)->op; at == OP_reshape || at == OP_transpose;
         at = (OpId)graph_node(s->g, x)->op) {
        if (n == MAX_VIEWS || s->uses[x] != 1)
            return 0;
        view[n++] = x;
        x = graph_node(s->g, x)->src[0];
    }
    const Node *base = graph_node(s->g, x);
    if (s->uses[x] != 1 || shape_numel(graph_node(s->g, c)->shape) != 1)
        return 0;
    c = reshaped(s, c, &scalar);
    if (is_conv(base))
        made = scale_conv(s, op, x, c);
    else if (base->op == OP_matmul)
        made = scale_matmul(s, op, x, c);
    else if (base->op == OP_add)
        made = scale_sum(s, op, x, c);
    for (; made && n > 0; n--)
        made = graph_clone_node(s->g, s->g, view[n - 1], &made);
    return made;
}

// (a @ b) * c as (a * c) @ b: what makes a, or b, takes the factor into its weights. So does the scale of the
// scores of attention, a division for every one of them.
static NodeId scale_product(const Simplify *s, OpId op, NodeId matmul, NodeId c)
{
    const Node n = *graph_node(s->g, matmul);
    for (uint32_t i = 0; i < 2; i++) {
        NodeId src[3] = {n.src[0], n.src[1], n.n_src > 2 ? n.src[2] : 0};
        src[i] = scale_below(s, op, src[i], c);
        if (src[i] != 0)
            return graph_clone_node(s->g, s->g, matmul, src);
    }
    return 0;
}

// --- the step ---

static NodeId fold_into(const Simplify *s, OpId op, NodeId x, NodeId c)
{
    const Node *n = graph_node(s->g, x);
    const bool is_shift = op == OP_add || op == OP_sub;
    if (s->uses[x] != 1 || (op == OP_div && dtype_info[n->dtype].cls != DCLASS_FLOAT))
        return 0;
    if (is_conv(n))
        return is_shift ? shift_conv(s, op, x, c) : scale_conv(s, op, x, c);
    if (is_shift)
        return 0;
    if (n->op == OP_matmul)
        return node_is_const(s->g, n->src[1]) ? scale_matmul(s, op, x, c) : scale_product(s, op, x, c);
    return n->op == OP_add ? scale_sum(s, op, x, c) : scale_below(s, op, x, c);
}

static bool has_elements(const Shape *s)
{
    return shape_is_const(s) && shape_numel(s) > 0;
}

NodeId simplify_weights(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    NodeId made = 0;
    if (n.op != OP_add && n.op != OP_sub && n.op != OP_mul && n.op != OP_div)
        return id;
    rlx_assert(n.n_src == 2);
    const bool commutes = n.op == OP_add || n.op == OP_mul;
    for (uint32_t i = 0; i < (commutes ? 2 : 1) && !made; i++) {
        const NodeId x = n.src[i], c = n.src[1 - i];
        if (node_is_const(s->g, c) && has_elements(n.shape) &&
            shape_equal(graph_node(s->g, x)->shape, n.shape))
            made = fold_into(s, (OpId)n.op, x, c);
    }
    return made ? made : id;
}
