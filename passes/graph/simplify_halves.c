// SPDX-License-Identifier: Apache-2.0
// See simplify_halves.h.
#include "passes/graph/simplify_halves.h"

#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"

#include <string.h>

enum { BITS = 8, LOW = 255, MAGNITUDE = 32768, WORD = 32, MOST_HALF = 61 };

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

static bool is_view(const Graph *g, NodeId id)
{
    return graph_node(g, id)->op == OP_transpose || graph_node(g, id)->op == OP_reshape;
}

// x of cast(op(x, v), t), the upper or the lower byte of 16-bit values, behind which there may be a view.
static NodeId byte_of(const Graph *g, NodeId id, OpId op, double v, DType t)
{
    if (is_view(g, id))
        id = graph_node(g, id)->src[0];
    const Node *cast = computed(g, id, OP_cast);
    const Node *part = cast != NULL ? computed(g, cast->src[0], op) : NULL;
    if (part == NULL || cast->dtype != t || !is_number(g, part->src[1], v))
        return 0;
    const Node *wide = part->dtype == DTYPE_i32 ? computed(g, part->src[0], OP_cast) : NULL;
    const NodeId x = wide != NULL ? wide->src[0] : part->src[0];
    return graph_node(g, x)->dtype == DTYPE_i16 ? x : 0;
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
    return is_view(g, id) ? graph_clone_node(g, g, id, &x) : x;
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

// Are two sums of bytes faster? Their vectors need some channels and some products for each of them, more
// where the other way multiplies pairs.
static bool has_fast_bytes(const Node *conv, const Tensor *w, const TargetCaps *caps)
{
    enum { CHANNELS = 4, PRODUCTS = 12, BESIDE_PAIRS = 20 };
    const int64_t products = w->dim[0] > 0 ? w->numel / w->dim[0] : 0;
    return caps->byte_vectors != BYTE_VECTORS_NONE && node_get_int(conv, A_int_conv_group) == 1 &&
           w->dim[1] > 1 && w->dim[0] >= CHANNELS &&
           products >= (caps->has_dsp ? BESIDE_PAIRS : PRODUCTS);
}

static NodeId join_bytes(Graph *g, const HalfSums *s, const TargetCaps *caps)
{
    const Node conv = *graph_node(g, s->high);
    const Tensor w = tensor_of_const(g, conv.src[1]);
    if (!fits_i32(&w, NULL))
        return 0;
    if (!has_fast_bytes(&conv, &w, caps))
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

// Is a constant one number for each channel of a convolution, behind which there may be a reshape that leaves
// its channels the last axis?
static bool is_by_channel(const Node *conv, const Node *reshape, const Tensor *b)
{
    const int64_t n = conv->shape->dim[1];
    if (reshape != NULL) {
        const Shape *to = reshape->shape;
        return b->numel == n && b->rank > 0 && b->rank <= to->rank && b->dim[b->rank - 1] == n &&
               to->rank > 0 && to->dim[to->rank - 1] == n &&
               shape_numel(conv->shape) == conv->shape->dim[0] * n;
    }
    const uint32_t from = b->rank + 1 - conv->shape->rank; // of the channels among its axes
    return b->rank + 1 >= conv->shape->rank && b->rank <= conv->shape->rank && b->numel == n &&
           b->dim[from] == n;
}

// A bias for a sum of 16-bit values that has none yet, if i32 holds both.
static NodeId with_bias(Graph *g, NodeId sum, NodeId bias)
{
    const Node *reshape = computed(g, sum, OP_reshape);
    const Node *cast = computed(g, reshape != NULL ? reshape->src[0] : sum, OP_cast);
    const NodeId whole = cast != NULL ? cast->src[0] : 0, conv = whole != 0 ? conv_of_sum(g, whole) : 0;
    if (conv == 0 || !node_is_const(g, bias))
        return 0;
    const bool is_reshaped = reshape != NULL;
    const Node found = *graph_node(g, conv);
    const Tensor w = tensor_of_const(g, found.src[1]), b = tensor_of_const(g, bias);
    if (found.n_src > 2 || !is_by_channel(&found, reshape, &b) || !fits_i32(&w, &b))
        return 0;
    int32_t *v = ARENA_ARRAY(g->arena, int32_t, b.numel + 1);
    for (int64_t o = 0; o < b.numel; o++)
        v[o] = (int32_t)tensor_get_i64(&b, o);
    const Shape s = {.rank = 1, .dim = {b.numel}};
    const NodeId narrow = graph_const(g, DTYPE_i32, &s, v, type_bytes(DTYPE_i32, &s), node_span(g, bias));
    const NodeId more = graph_clone_with(g, conv, (const NodeId[]){found.src[0], found.src[1], narrow}, 3);
    const NodeId made = conv == whole ? more : graph_op2(g, OP_add, graph_node(g, whole)->src[0], more);
    return is_reshaped ? graph_clone_node(g, g, sum, &made) : made;
}

NodeId simplify_halves(Graph *g, NodeId id, const TargetCaps *caps)
{
    const Node n = *graph_node(g, id);
    HalfSums s;
    if (n.op != OP_add || n.dtype != DTYPE_i64 || !shape_is_const(n.shape))
        return id;
    NodeId sum = 0;
    if (find_bytes(g, n.src[0], n.src[1], &s) || find_bytes(g, n.src[1], n.src[0], &s))
        sum = join_bytes(g, &s, caps);
    else
        for (uint32_t i = 0; i < 2 && sum == 0; i++)
            sum = with_bias(g, n.src[i], n.src[1 - i]);
    return sum != 0 ? graph_cast(g, sum, DTYPE_i64) : id;
}

// --- one shift for all channels ------------------------------------------------------------------

// An operation with a constant: the other operand; 0: it is none.
static NodeId operand_beside(const Graph *g, NodeId id, OpId op, Tensor *number)
{
    const Node *n = graph_node(g, id);
    if (n->op != op || n->dtype != DTYPE_i64)
        return 0;
    const uint32_t at = node_is_const(g, n->src[1]) ? 1 : 0;
    if (!node_is_const(g, n->src[at]) || (at == 0 && op == OP_shift_right))
        return 0;
    *number = tensor_of_const(g, n->src[at]);
    return n->src[1 - at];
}

typedef struct Scaled {
    NodeId sum; // i32
    Tensor factor, half, shift;
} Scaled;

static bool find_scaled(const Graph *g, NodeId id, Scaled *s)
{
    const NodeId moved = operand_beside(g, id, OP_shift_right, &s->shift);
    const NodeId product = moved != 0 ? operand_beside(g, moved, OP_add, &s->half) : 0;
    const NodeId wide = product != 0 ? operand_beside(g, product, OP_mul, &s->factor) : 0;
    const Node *cast = wide != 0 ? graph_node(g, wide) : NULL;
    if (cast == NULL || cast->op != OP_cast || graph_node(g, cast->src[0])->dtype != DTYPE_i32)
        return false;
    s->sum = cast->src[0];
    const int64_t n = s->shift.numel;
    return n > 0 && s->factor.numel == n && s->half.numel == n && s->factor.rank == s->shift.rank &&
           s->half.rank == s->shift.rank &&
           memcmp(s->factor.dim, s->shift.dim, s->shift.rank * sizeof *s->shift.dim) == 0 &&
           memcmp(s->half.dim, s->shift.dim, s->shift.rank * sizeof *s->shift.dim) == 0;
}

// How many bits the shift of element i is below one that is a word at least.
static int64_t bits_up(const Scaled *s, int64_t i, int64_t common)
{
    const int64_t here = tensor_get_i64(&s->shift, i);
    return here < common ? common - here : 0;
}

// Can shifts be raised to that?
static bool can_raise(const Scaled *s, int64_t common)
{
    for (int64_t i = 0; i < s->shift.numel; i++) {
        const int64_t up = bits_up(s, i, common);
        const int64_t factor = tensor_get_i64(&s->factor, i), half = tensor_get_i64(&s->half, i);
        if (up >= WORD || factor < 0 || factor > INT32_MAX >> up || half < 0 ||
            half > INT64_C(1) << MOST_HALF >> up)
            return false;
    }
    return true;
}

// The shift that all can have, at least a word; or a word, where larger shifts stay. 0: neither.
static int64_t common_shift(const Scaled *s)
{
    int64_t most = WORD;
    for (int64_t i = 0; i < s->shift.numel; i++) {
        const int64_t here = tensor_get_i64(&s->shift, i);
        if (here < 0 || here > MOST_HALF)
            return 0;
        most = here > most ? here : most;
    }
    return can_raise(s, most) ? most : can_raise(s, WORD) ? WORD : 0;
}

// Numbers in the shape of a constant, or a scalar where all are equal.
static NodeId numbers(Graph *g, DType t, const Tensor *like, const int64_t *v, Span at)
{
    bool is_one = true;
    for (int64_t i = 0; i < like->numel; i++)
        is_one = is_one && v[i] == v[0];
    Shape shape = {.rank = is_one ? 0 : like->rank};
    memcpy(shape.dim, like->dim, shape.rank * sizeof *shape.dim);
    Tensor made = tensor_new(g->arena, t, shape.rank, shape.dim);
    for (int64_t i = 0; i < made.numel; i++)
        tensor_set_i64(&made, i, v[i]);
    return graph_const(g, t, &shape, made.data, type_bytes(t, &shape), at);
}

// `from` times the powers of two that its shifts are raised by.
static NodeId raised(Graph *g, const Scaled *s, const Tensor *from, int64_t common, Span at)
{
    int64_t *v = ARENA_ARRAY(g->arena, int64_t, from->numel);
    for (int64_t i = 0; i < from->numel; i++)
        v[i] = tensor_get_i64(from, i) * (INT64_C(1) << bits_up(s, i, common));
    return numbers(g, DTYPE_i64, from, v, at);
}

// What the shifts leave: they are `common` at least. Where the upper words of halves are all that matters,
// they are added behind the first word that is shifted.
static NodeId shifted(Graph *g, const Scaled *s, NodeId product, int64_t common, Span at)
{
    int64_t *rest = ARENA_ARRAY(g->arena, int64_t, s->shift.numel);
    int64_t *high = ARENA_ARRAY(g->arena, int64_t, s->shift.numel), any = 0;
    bool is_high = true;
    for (int64_t i = 0; i < s->shift.numel; i++) {
        const int64_t up = bits_up(s, i, common);
        const int64_t half = tensor_get_i64(&s->half, i) * (INT64_C(1) << up);
        any |= rest[i] = tensor_get_i64(&s->shift, i) + up - WORD;
        high[i] = half / (INT64_C(1) << WORD);
        is_high = is_high && half % (INT64_C(1) << WORD) == 0;
    }
    if (!is_high)
        product = graph_op2(g, OP_add, product, raised(g, s, &s->half, common, at));
    const NodeId by = graph_scalar(g, DTYPE_i64, WORD, at);
    NodeId v = graph_cast(g, graph_op2(g, OP_shift_right, product, by), DTYPE_i32);
    if (is_high)
        v = graph_op2(g, OP_add, v, numbers(g, DTYPE_i32, &s->half, high, at));
    if (any != 0)
        v = graph_op2(g, OP_shift_right, v, numbers(g, DTYPE_i32, &s->shift, rest, at));
    return graph_cast(g, v, DTYPE_i64);
}

static NodeId with_common_shift(Graph *g, NodeId id)
{
    const Span at = node_span(g, id);
    Scaled s;
    if (!find_scaled(g, id, &s))
        return id;
    const int64_t common = common_shift(&s);
    if (common == 0 || (s.shift.numel == 1 && tensor_get_i64(&s.shift, 0) == WORD))
        return id;
    const NodeId product =
        graph_op2(g, OP_mul, graph_cast(g, s.sum, DTYPE_i64), raised(g, &s, &s.factor, common, at));
    return shifted(g, &s, product, common, at);
}

// --- the clamp behind it -------------------------------------------------------------------------

// An i64 that holds an i32: x >> 32 or more, or a cast of one.
static bool holds_i32(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    double shift = 0;
    if (n->op == OP_cast)
        return graph_node(g, n->src[0])->dtype == DTYPE_i32;
    return n->op == OP_shift_right && node_is_scalar_const(g, n->src[1], &shift) && shift >= WORD;
}

// cast(clamp(x, a, b)) of such a value.
static NodeId clamped_narrow(Graph *g, NodeId id)
{
    const Node cast = *graph_node(g, id);
    const Node clamp = *graph_node(g, cast.src[0]);
    double least = 0, most = 0;
    if (cast.op != OP_cast || clamp.op != OP_clamp || clamp.dtype != DTYPE_i64)
        return id;
    if (!holds_i32(g, clamp.src[0]) || !node_is_scalar_const(g, clamp.src[1], &least) ||
        !node_is_scalar_const(g, clamp.src[2], &most) || least < (double)INT32_MIN ||
        most > (double)INT32_MAX || least > most)
        return id;
    const Span at = node_span(g, id);
    const Node *of = graph_node(g, clamp.src[0]);
    const NodeId word = of->op == OP_cast ? of->src[0] : graph_cast(g, clamp.src[0], DTYPE_i32);
    const NodeId v = graph_op3(g, OP_clamp, word,
                               graph_scalar(g, DTYPE_i32, least, at), graph_scalar(g, DTYPE_i32, most, at));
    return graph_cast(g, v, (DType)cast.dtype);
}

NodeId simplify_shifts(Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    if (!shape_is_const(n->shape))
        return id;
    if (n->op == OP_shift_right && n->dtype == DTYPE_i64)
        return with_common_shift(g, id);
    return n->op == OP_cast ? clamped_narrow(g, id) : id;
}
