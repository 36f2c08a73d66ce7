// SPDX-License-Identifier: Apache-2.0
// See simplify_halves.h.
#include "passes/graph/simplify_halves.h"

#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"

#include <string.h>

enum { BITS = 8, LOW = 255, MAGNITUDE = 32768 };

static const Node *computed(const Graph *g, NodeId id, OpId op)
{
    const Node *n = graph_node(g, id);
    return n->op == op ? n : NULL;
}

static bool is_number(const Graph *g, NodeId id, double v)
{
    double found = 0;
    return node_is_scalar_const(g, id, &found) && found == v;
}

// --- the sums of both bytes ----------------------------------------------------------------------

typedef struct HalfSums {
    NodeId x, high, low; // x: the 16-bit values, in the order that the convolutions read
} HalfSums;

// The convolution of bytes behind cast(..., i64); 0: there is none without bias and zero points.
static NodeId plain_sum(const Graph *g, NodeId id)
{
    const Node *cast = computed(g, id, OP_cast);
    const Node *conv = cast != NULL ? computed(g, cast->src[0], OP_int_conv) : NULL;
    if (conv == NULL || cast->dtype != DTYPE_i64 || !node_is_const(g, conv->src[1]))
        return 0;
    for (uint32_t i = 2; i < conv->n_src; i++)
        if (conv->src[i] != 0)
            return 0;
    return cast->src[0];
}

// x of cast(op(x, v), t), the upper or the lower byte of 16-bit values, which may be transposed.
static NodeId byte_of(const Graph *g, NodeId id, OpId op, double v, DType t)
{
    if (graph_node(g, id)->op == OP_transpose)
        id = graph_node(g, id)->src[0];
    const Node *cast = computed(g, id, OP_cast);
    const Node *part = cast != NULL ? computed(g, cast->src[0], op) : NULL;
    const bool fits = part != NULL && cast->dtype == t && part->dtype == DTYPE_i16;
    return fits && is_number(g, part->src[1], v) ? part->src[0] : 0;
}

static bool are_windows_equal(const Node *a, const Node *b, uint32_t spatial)
{
    const WindowForm x = window_form(a), y = window_form(b);
    const size_t bytes = spatial * sizeof *x.stride;
    return x.group == y.group && memcmp(x.stride, y.stride, bytes) == 0 &&
           memcmp(x.dilation, y.dilation, bytes) == 0 && memcmp(x.pad, y.pad, 2 * bytes) == 0;
}

// x in the order of a value.
static NodeId in_order_of(Graph *g, NodeId id, NodeId x)
{
    return graph_node(g, id)->op == OP_transpose ? graph_clone_node(g, g, id, &x) : x;
}

static bool find_bytes(Graph *g, NodeId upper, NodeId lower, HalfSums *s)
{
    const Node *moved = computed(g, upper, OP_shift_left);
    *s = (HalfSums){0};
    if (moved == NULL || !is_number(g, moved->src[1], BITS))
        return false;
    s->high = plain_sum(g, moved->src[0]);
    s->low = plain_sum(g, lower);
    if (s->high == 0 || s->low == 0)
        return false;
    const Node high = *graph_node(g, s->high), low = *graph_node(g, s->low);
    const NodeId x = byte_of(g, high.src[0], OP_shift_right, BITS, DTYPE_i8);
    if (x == 0 || x != byte_of(g, low.src[0], OP_bit_and, LOW, DTYPE_u8))
        return false;
    s->x = in_order_of(g, high.src[0], x);
    return s->x == in_order_of(g, low.src[0], x) && high.src[1] == low.src[1] &&
           are_windows_equal(&high, &low, high.shape->rank - 2);
}

// --- do they fit? --------------------------------------------------------------------------------

// The largest magnitude of output channel o.
static int64_t largest_sum(const Tensor *w, int64_t o)
{
    const int64_t each = w->dim[0] > 0 ? w->numel / w->dim[0] : 0;
    int64_t sum = 0;
    for (int64_t i = 0; i < each && sum <= INT32_MAX; i++) {
        const int64_t v = tensor_get_i64(w, o * each + i);
        sum += (v < 0 ? -v : v) * MAGNITUDE;
    }
    return sum;
}

// bias: NULL, or a number for each channel.
static bool fits_i32(const Tensor *w, const Tensor *bias)
{
    for (int64_t o = 0; o < w->dim[0]; o++) {
        const int64_t b = bias != NULL ? tensor_get_i64(bias, o) : 0;
        if (b < INT32_MIN || b > INT32_MAX || largest_sum(w, o) + (b < 0 ? -b : b) > INT32_MAX)
            return false;
    }
    return true;
}

// --- what they become ----------------------------------------------------------------------------

static NodeId join_bytes(Graph *g, const HalfSums *s)
{
    const Node conv = *graph_node(g, s->high);
    const Tensor w = tensor_of_const(g, conv.src[1]);
    const bool has_one_channel = w.dim[1] == 1; // of the input, in each group
    if (!fits_i32(&w, NULL))
        return 0;
    if (has_one_channel)
        return graph_clone_with(g, s->high, (const NodeId[]){s->x, conv.src[1]}, 2);
    const NodeId bits = graph_scalar(g, DTYPE_i32, BITS, node_span(g, s->high));
    return graph_op2(g, OP_add, graph_op2(g, OP_shift_left, s->high, bits), s->low);
}

// The convolution that a sum of 16-bit values is, or that of its lower bytes; 0: neither.
static NodeId conv_of_sum(const Graph *g, NodeId sum)
{
    const Node *conv = computed(g, sum, OP_int_conv), *both = computed(g, sum, OP_add);
    if (conv != NULL)
        return graph_node(g, conv->src[0])->dtype == DTYPE_i16 ? sum : 0;
    const Node *moved = both != NULL ? computed(g, both->src[0], OP_shift_left) : NULL;
    const Node *low = moved != NULL ? computed(g, both->src[1], OP_int_conv) : NULL;
    const Node *high = low != NULL ? computed(g, moved->src[0], OP_int_conv) : NULL;
    const bool is_one = high != NULL && high->src[1] == low->src[1] && is_number(g, moved->src[1], BITS);
    return is_one && node_is_const(g, low->src[1]) &&
                   byte_of(g, low->src[0], OP_bit_and, LOW, DTYPE_u8) != 0
               ? both->src[1]
               : 0;
}

// A bias for a sum of 16-bit values that has none yet, if i32 holds both.
static NodeId with_bias(Graph *g, NodeId sum, NodeId bias)
{
    const Node *cast = computed(g, sum, OP_cast);
    const NodeId whole = cast != NULL ? cast->src[0] : 0, conv = whole != 0 ? conv_of_sum(g, whole) : 0;
    if (conv == 0 || !node_is_const(g, bias))
        return 0;
    const Node found = *graph_node(g, conv);
    const Tensor w = tensor_of_const(g, found.src[1]), b = tensor_of_const(g, bias);
    const uint32_t from = b.rank + 1 - found.shape->rank; // of the channels among its axes
    if (found.n_src > 2 || b.rank + 1 < found.shape->rank || b.rank > found.shape->rank ||
        b.numel != w.dim[0] || b.dim[from] != w.dim[0] || !fits_i32(&w, &b))
        return 0;
    int32_t *v = ARENA_ARRAY(g->arena, int32_t, b.numel + 1);
    for (int64_t o = 0; o < b.numel; o++)
        v[o] = (int32_t)tensor_get_i64(&b, o);
    const Shape s = {.rank = 1, .dim = {b.numel}};
    const NodeId narrow = graph_const(g, DTYPE_i32, &s, v, type_bytes(DTYPE_i32, &s), node_span(g, bias));
    const NodeId more = graph_clone_with(g, conv, (const NodeId[]){found.src[0], found.src[1], narrow}, 3);
    return conv == whole ? more : graph_op2(g, OP_add, graph_node(g, whole)->src[0], more);
}

NodeId simplify_halves(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    HalfSums s;
    if (n.op != OP_add || n.dtype != DTYPE_i64 || !shape_is_const(n.shape))
        return id;
    NodeId sum = 0;
    if (find_bytes(g, n.src[0], n.src[1], &s) || find_bytes(g, n.src[1], n.src[0], &s))
        sum = join_bytes(g, &s);
    else
        for (uint32_t i = 0; i < 2 && sum == 0; i++)
            sum = with_bias(g, n.src[i], n.src[1 - i]);
    return sum != 0 ? graph_cast(g, sum, DTYPE_i64) : id;
}
