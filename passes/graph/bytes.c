// SPDX-License-Identifier: Apache-2.0
// Brings convolutions of bytes (int_conv) into the form that the target computes fastest. They stay as they
// are where integers are cheap and floats are not (lower_int_conv). Elsewhere: where the target has dot
// products of bytes: u8 times constant i8 without zero points of their own, the form of lower_int_conv (of
// images, for matrix registers: bytes_volume.h). Where matrix units of GPUs multiply bytes, and depthwise
// ones of GPUs, as they are. Else f32 convolutions whose sums f32 holds exactly (up to 2^24), of as many
// groups of input channels as that takes; f64 where even one channel is too much. Windows with weights of 1
// are pools. All give the same integers. Sums of 16-bit operands are two of bytes, except where integers are
// cheap (simplify_halves.h). Sums of bytes along axes are f32 on other CPUs, where that is exact.
#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"
#include "passes/graph/bytes_volume.h"
#include "passes/graph/requantise.h"
#include "passes/graph/simplify_halves.h"
#include "passes/pass.h"
#include "passes/units.h"

#include <math.h>

static const double exact_f32 = 16777216;
enum { MAX_PARTS = 64, MOST_OF_WINDOW = 1 << 20, MOST_SLICES = 16 };

typedef struct IntConv {
    Graph *g;
    NodeId id, x, w, bias, x_zero, w_zero;
    Shape ws;          // of the weights
    const int32_t *wv; // weights less their zero points, when these are constants
    int64_t least, most; // of them and 0
    int64_t shift;       // what is taken off them besides, so that they may be bytes (with_shift)
    int64_t most_x;    // largest magnitude of an input less its zero point
    int64_t group;
} IntConv;

// Range of inputs: all bytes of the type, less a zero point that may be known.
static int64_t largest_input(const Graph *g, NodeId x, NodeId zero)
{
    const bool is_signed = graph_node(g, x)->dtype == DTYPE_i8;
    if (zero != 0 && !node_is_const(g, zero))
        return 255;
    const Tensor z = tensor_if_const(g, zero);
    const int64_t v = zero != 0 ? tensor_get_i64(&z, 0) : 0;
    const int64_t above = (is_signed ? 127 : 255) - v, below = v + (is_signed ? 128 : 0);
    return above > below ? above : below;
}

// The weights less their zero points, or NULL when they are not known.
static const int32_t *centred_weights(const IntConv *c)
{
    const Graph *g = c->g;
    if (!node_is_const(g, c->w) || (c->w_zero != 0 && !node_is_const(g, c->w_zero)))
        return NULL;
    const Tensor w = tensor_of_const(g, c->w), z = tensor_if_const(g, c->w_zero);
    return tensor_centred(g->arena, &w, &z);
}

// Weights less their zero points may be no bytes, though they are at most 255 apart: what they are less a
// number are bytes, and that number times the sum of the inputs is added (with_shift).
static void find_shift(IntConv *c)
{
    const int64_t n = c->wv != NULL ? shape_numel(&c->ws) : 0;
    for (int64_t i = 0; i < n; i++) {
        c->least = c->wv[i] < c->least ? c->wv[i] : c->least;
        c->most = c->wv[i] > c->most ? c->wv[i] : c->most;
    }
    c->shift = c->most > INT8_MAX ? c->most - INT8_MAX : c->least < INT8_MIN ? c->least - INT8_MIN : 0;
}

static IntConv int_conv_of(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    IntConv c = {.g = g,
                 .id = id,
                 .x = n.src[0],
                 .w = n.src[1],
                 .bias = n.n_src > 2 ? n.src[2] : 0,
                 .x_zero = n.n_src > 3 ? n.src[3] : 0,
                 .w_zero = n.n_src > 4 ? n.src[4] : 0,
                 .ws = *graph_node(g, n.src[1])->shape,
                 .group = node_get_int(&n, A_int_conv_group)};
    c.most_x = largest_input(g, c.x, c.x_zero);
    c.wv = shape_is_const(&c.ws) ? centred_weights(&c) : NULL;
    find_shift(&c);
    return c;
}

// --- sums that f32 holds -------------------------------------------------------------------------

static int64_t taps_of(const IntConv *c)
{
    int64_t taps = 1;
    for (uint32_t i = 2; i < c->ws.rank; i++)
        taps *= c->ws.dim[i];
    return taps;
}

// The largest magnitude that a sum over the input channels [from, to) can have.
static double largest_sum(const IntConv *c, int64_t from, int64_t to)
{
    const int64_t taps = taps_of(c);
    double most = 0;
    if (c->wv == NULL)
        return (double)(to - from) * (double)taps * 255 * (double)c->most_x;
    for (int64_t o = 0; o < c->ws.dim[0]; o++) {
        const int32_t *w = c->wv + (o * c->ws.dim[1] + from) * taps;
        double sum = 0;
        for (int64_t i = 0; i < (to - from) * taps; i++)
            sum += (double)(w[i] < 0 ? -w[i] : w[i]);
        most = sum > most ? sum : most;
    }
    return most * (double)c->most_x;
}

// First channel of part i of `parts`.
static int64_t part_begin(const IntConv *c, int64_t parts, int64_t i)
{
    return c->ws.dim[1] / parts * i + (c->ws.dim[1] % parts < i ? c->ws.dim[1] % parts : i);
}

// Into how many groups of channels the sum must be cut for f32 to hold each exactly; 0: none would do.
static int64_t count_parts(const IntConv *c)
{
    const int64_t most = c->group == 1 && c->ws.dim[1] < MAX_PARTS ? c->ws.dim[1] : MAX_PARTS;
    for (int64_t parts = 1; parts <= (c->group == 1 ? most : 1); parts++) {
        bool fits = true;
        for (int64_t i = 0; i < parts && fits; i++)
            fits = largest_sum(c, part_begin(c, parts, i), part_begin(c, parts, i + 1)) <= exact_f32;
        if (fits)
            return parts;
    }
    return 0;
}

// --- as dot products -----------------------------------------------------------------------------

static NodeId scalar_of(Graph *g, NodeId id)
{
    return graph_reshape(g, id, &(Shape){0});
}

// Bytes with another sign: v + 128 or v - 128.
static NodeId flipped(Graph *g, NodeId id, DType to)
{
    const NodeId wide = graph_cast(g, id, DTYPE_i32);
    const NodeId step = graph_scalar(g, DTYPE_i32, to == DTYPE_u8 ? 128 : -128, node_span(g, id));
    return graph_cast(g, graph_op2(g, OP_add, wide, step), to);
}

// With a shift, one more output channel sums the inputs.
static NodeId byte_weights(const IntConv *c)
{
    const uint64_t n = (uint64_t)shape_numel(&c->ws);
    const uint64_t sums = c->shift != 0 ? n / (uint64_t)c->ws.dim[0] : 0;
    int8_t *v = ARENA_ARRAY(c->g->arena, int8_t, n + sums + 1);
    Shape s = c->ws;
    s.dim[0] += c->shift != 0;
    for (uint64_t i = 0; i < n; i++)
        v[i] = (int8_t)(c->wv[i] - c->shift);
    for (uint64_t i = 0; i < sums; i++)
        v[n + i] = 1;
    return graph_const(c->g, DTYPE_i8, &s, v, n + sums, node_span(c->g, c->w));
}

// Can vectors of output channels take four input channels at a time?
static bool fits_dot(const IntConv *c, const TargetCaps *caps)
{
    const int64_t n = c->wv != NULL ? shape_numel(&c->ws) : 0;
    const bool has_dot = caps->has_dot8 || caps->has_dot16;
    if (c->ws.rank == 5 && (caps->has_matrix || c->ws.dim[2] > MOST_SLICES))
        return false;
    if (!has_dot || n == 0 || c->ws.rank > 5 || (c->ws.dim[1] < 4 && c->group > 1) ||
        c->ws.dim[0] / c->group < 4)
        return false;
    return c->most - c->shift <= INT8_MAX && c->least - c->shift >= INT8_MIN &&
           (c->shift == 0 || c->group == 1);
}

// Are they multiplied by units of a GPU, or as depthwise ones? Weights in a file are read where they are.
static bool fits_units(const IntConv *c, const PassOptions *o)
{
    return o->file == NULL && (c->bias == 0 || node_is_const(c->g, c->bias)) &&
           shape_numel(graph_node(c->g, c->id)->shape) > 0 &&
           (units_take_bytes(o->caps, &c->ws, c->group, c->wv) ||
            units_take_depthwise(o->caps, &c->ws, c->group, c->wv));
}

// The bias goes along the channels.
static NodeId add_bias(const IntConv *c, NodeId sum)
{
    if (c->bias == 0)
        return sum;
    Shape s = {.rank = c->ws.rank - 1, .dim = {c->ws.dim[0], 1, 1, 1}};
    return graph_op2(c->g, OP_add, sum, graph_reshape(c->g, c->bias, &s));
}

// The sums of shifted weights, and behind them that of the inputs, as the sums of the weights.
static NodeId with_shift(const IntConv *c, NodeId id)
{
    Graph *g = c->g;
    const int64_t n = c->ws.dim[0];
    const NodeId shift = graph_scalar(g, DTYPE_i32, (double)c->shift, node_span(g, c->id));
    const NodeId inputs = graph_op2(g, OP_mul, graph_slice(g, id, 1, n, n + 1, 1), shift);
    return add_bias(c, graph_op2(g, OP_add, graph_slice(g, id, 1, 0, n, 1), inputs));
}

static NodeId as_dot(const IntConv *c)
{
    Graph *g = c->g;
    NodeId src[5] = {c->x, c->w, c->shift != 0 ? 0 : c->bias, c->x_zero, 0};
    if (graph_node(g, c->w)->dtype != DTYPE_i8 || c->w_zero != 0)
        src[1] = byte_weights(c);
    if (graph_node(g, c->x)->dtype == DTYPE_i8) {
        src[0] = flipped(g, c->x, DTYPE_u8);
        src[3] = c->x_zero != 0 ? flipped(g, c->x_zero, DTYPE_u8)
                                : graph_scalar(g, DTYPE_u8, 128, node_span(g, c->id));
    }
    const Node n = *graph_node(g, c->id);
    bool is_same = n.n_src == 5;
    for (uint32_t i = 0; i < n.n_src; i++)
        is_same = is_same && src[i] == n.src[i];
    const NodeId id = is_same ? c->id : graph_clone_with(g, c->id, src, 5);
    return c->shift != 0 ? with_shift(c, id) : id;
}

// --- as floats -----------------------------------------------------------------------------------

static NodeId float_conv(const IntConv *c, NodeId x, NodeId w)
{
    Graph *g = c->g;
    NodeBuild b = node_begin(g, OP_conv, node_span(g, c->id), g->labels.data[c->id]);
    node_src(&b, x);
    node_src(&b, w);
    node_copy_attrs(&b, graph_node(g, c->id));
    return graph_cast(g, node_end(&b), DTYPE_i32);
}

// Operand less its zero point, in a float type; zeros of an axis 0 go along it.
static NodeId centred(const IntConv *c, NodeId id, NodeId zero, DType type)
{
    Graph *g = c->g;
    const NodeId wide = graph_cast(g, id, type);
    if (zero == 0)
        return wide;
    const int64_t count = shape_numel(graph_node(g, zero)->shape);
    Shape s = {.rank = c->ws.rank, .dim = {count, 1, 1, 1, 1}};
    NodeId z = graph_cast(g, zero, type);
    z = count == 1 ? scalar_of(g, z) : graph_reshape(g, z, &s);
    return graph_op2(g, OP_sub, wide, z);
}

// Are there windows in each channel, of which each element counts once (quantised means)? Pools add them up
// faster than depthwise convolutions, and without weights. Means are off by 2^-23 of themselves at most: an
// eighth of an integer, so that sums are exact again (window_sums).
static bool has_plain_windows(const IntConv *c)
{
    const Node *n = graph_node(c->g, c->id);
    const WindowForm form = window_form(n);
    const uint32_t spatial = c->ws.rank - 2;
    if (c->wv == NULL || c->ws.dim[1] != 1 || c->ws.dim[0] != c->group || !shape_is_const(n->shape) ||
        (double)taps_of(c) * (double)c->most_x > MOST_OF_WINDOW)
        return false;
    bool are_plain = true;
    for (uint32_t i = 0; i < spatial; i++) {
        const int64_t reach = (c->ws.dim[i + 2] - 1) * form.dilation[i];
        are_plain = are_plain && form.pad[i] <= reach && form.pad[spatial + i] <= reach;
    }
    for (int64_t i = 0; i < shape_numel(&c->ws) && are_plain; i++)
        are_plain = c->wv[i] == 1;
    return are_plain;
}

static NodeId window_sums(const IntConv *c, NodeId x)
{
    Graph *g = c->g;
    const WindowForm form = window_form(graph_node(g, c->id));
    const uint32_t spatial = c->ws.rank - 2;
    NodeBuild b = node_begin(g, OP_avg_pool, node_span(g, c->id), g->labels.data[c->id]);
    node_src(&b, x);
    node_ints(&b, A_avg_pool_kernel, c->ws.dim + 2, spatial);
    node_ints(&b, A_avg_pool_strides, form.stride, spatial);
    node_ints(&b, A_avg_pool_pads, form.pad, 2 * spatial);
    node_ints(&b, A_avg_pool_dilations, form.dilation, spatial);
    node_int(&b, A_avg_pool_count_include_pad, true);
    const Span at = node_span(g, c->id);
    const NodeId sum = graph_op2(g, OP_mul, node_end(&b), graph_scalar(g, DTYPE_f32, (double)taps_of(c), at));
    // Casts cut off: what is not below 0 is rounded so, without an instruction that some CPUs do not have.
    const NodeId above = graph_op2(g, OP_add, sum, graph_scalar(g, DTYPE_f32, MOST_OF_WINDOW + 0.5, at));
    const NodeId below = graph_scalar(g, DTYPE_i32, MOST_OF_WINDOW, at);
    return graph_op2(g, OP_sub, graph_cast(g, above, DTYPE_i32), below);
}

static NodeId float_sums(const IntConv *c)
{
    Graph *g = c->g;
    if (has_plain_windows(c))
        return window_sums(c, centred(c, c->x, c->x_zero, DTYPE_f32));
    const int64_t parts = count_parts(c);
    const DType type = parts > 0 ? DTYPE_f32 : DTYPE_f64;
    const NodeId x = centred(c, c->x, c->x_zero, type), w = centred(c, c->w, c->w_zero, type);
    NodeId sum = 0;
    for (int64_t i = 0; i < (parts > 0 ? parts : 1); i++) {
        const int64_t from = parts > 1 ? part_begin(c, parts, i) : 0;
        const int64_t to = parts > 1 ? part_begin(c, parts, i + 1) : c->ws.dim[1];
        const NodeId part =
            parts > 1 ? float_conv(c, graph_slice(g, x, 1, from, to, 1), graph_slice(g, w, 1, from, to, 1))
                      : float_conv(c, x, w);
        sum = sum != 0 ? graph_op2(g, OP_add, sum, part) : part;
    }
    return sum;
}

static NodeId as_floats(const IntConv *c)
{
    return add_bias(c, float_sums(c));
}

// --- rows of 8 bits ------------------------------------------------------------------------------

static bool multiplies_bytes(const Graph *g, const Node *n, const TargetCaps *caps)
{
    bool fits = caps->has_dot8 && !caps->is_gpu && caps->packs_weights;
    for (uint32_t i = 1; i < n->n_src; i++)
        fits = fits && (n->src[i] == 0 || node_is_const(g, n->src[i]));
    return fits;
}

// x with its elements in steps, as floats: padded to whole blocks, and cut again.
static NodeId rounded(Graph *g, NodeId id, int64_t block)
{
    const Shape s = *graph_node(g, id)->shape;
    const Span at = node_span(g, id);
    const uint32_t last = s.rank - 1;
    const int64_t blocks = (s.dim[last] + block - 1) / block, missing = blocks * block - s.dim[last];
    const Shape split = {.rank = 3, .dim = {-1, blocks, block}};
    Shape whole = s;
    whole.dim[last] = blocks * block;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    pads[s.rank + last] = missing;
    NodeBuild b = node_begin(g, OP_pad, at, g->labels.data[id]);
    node_src(&b, id);
    node_ints(&b, A_pad_pads, pads, 2 * s.rank);
    const NodeId x = graph_reshape(g, missing != 0 ? node_end(&b) : id, &split);
    const NodeId none = graph_scalar(g, DTYPE_f32, 0, at), full = graph_scalar(g, DTYPE_f32, 127, at);
    const NodeId size = graph_op1(g, OP_abs, graph_op3(g, OP_where, graph_op1(g, OP_is_nan, x), none, x));
    NodeBuild m = node_begin(g, OP_reduce_max, at, g->labels.data[id]);
    node_reduce(&m, size, (const int64_t[]){2}, 1, true);
    const NodeId most = node_end(&m);
    const NodeId scaled = graph_op2(g, OP_mul, x, graph_op2(g, OP_div, full, most));
    const NodeId q = graph_cast(g, graph_cast(g, graph_op1(g, OP_round, scaled), DTYPE_i8), DTYPE_f32);
    const NodeId y = graph_reshape(g, graph_op2(g, OP_mul, q, graph_op2(g, OP_div, most, full)), &whole);
    if (missing == 0)
        return y;
    NodeBuild c = node_begin(g, OP_slice, at, g->labels.data[id]);
    node_slice(&c, y, last, 0, s.dim[last], 1);
    return node_end(&c);
}

// A product of rows that are rounded, where the target has none of its own.
static NodeId step_product(Graph *g, NodeId id, const TargetCaps *caps)
{
    const Node n = *graph_node(g, id);
    const Shape *w = graph_node(g, n.src[1])->shape;
    const int64_t bits = node_get_int(&n, A_qmatmul_bits), block = w->dim[2] * (8 / bits);
    const bool is_empty = shape_numel(graph_node(g, n.src[0])->shape) == 0;
    if (node_get_int(&n, A_qmatmul_x_bits) != 8 || (!is_empty && multiplies_bytes(g, &n, caps)))
        return id;
    NodeBuild b = node_copy_begin(g, g, id);
    node_src(&b, is_empty ? n.src[0] : rounded(g, n.src[0], block));
    for (uint32_t i = 1; i < n.n_src; i++)
        node_src(&b, n.src[i]);
    node_int(&b, A_qmatmul_x_bits, 0);
    return node_end(&b);
}

// A convolution over a volume as one over images (bytes_volume.h).
static NodeId conv_of_images(Graph *g, NodeId id)
{
    enum { SPATIAL = 3, OF_IMAGE = 2 };
    const VolumeImages v = bytes_volume_images(g, id);
    const Node n = *graph_node(g, id);
    int64_t strides[OF_IMAGE], dilations[OF_IMAGE], pads[2 * OF_IMAGE];
    for (uint32_t i = 0; i < OF_IMAGE; i++) {
        strides[i] = node_get_at(&n, A_int_conv_strides, v.axes[i], 1);
        dilations[i] = node_get_at(&n, A_int_conv_dilations, v.axes[i], 1);
        pads[i] = node_get_at(&n, A_int_conv_pads, v.axes[i], 0);
        pads[OF_IMAGE + i] = node_get_at(&n, A_int_conv_pads, SPATIAL + v.axes[i], 0);
    }
    NodeBuild b = node_begin(g, OP_int_conv, node_span(g, id), g->labels.data[id]);
    node_src(&b, v.x);
    node_src(&b, v.w);
    for (uint32_t i = 2; i < n.n_src; i++)
        node_src(&b, n.src[i]);
    node_ints(&b, A_int_conv_strides, strides, OF_IMAGE);
    node_ints(&b, A_int_conv_pads, pads, 2 * OF_IMAGE);
    node_ints(&b, A_int_conv_dilations, dilations, OF_IMAGE);
    node_int(&b, A_int_conv_group, node_get_int(&n, A_int_conv_group));
    return node_end(&b);
}

// An int_conv of bytes in the form that the target wants.
static NodeId formed(Graph *g, NodeId id, const PassOptions *o)
{
    const IntConv c = int_conv_of(g, id);
    if (fits_units(&c, o))
        return id;
    if (o->caps->has_matrix && !o->caps->is_gpu && o->file == NULL && bytes_volume_fits(g, id)) {
        const IntConv as_images = int_conv_of(g, conv_of_images(g, id));
        if (fits_dot(&as_images, o->caps))
            return bytes_volume_of(g, id, as_dot(&as_images));
    }
    return fits_dot(&c, o->caps) ? as_dot(&c) : as_floats(&c);
}

// One of 16-bit values: 256 times the sum of their upper bytes, and that of the lower ones.
static NodeId of_halves(Graph *g, NodeId id, const PassOptions *o)
{
    enum { BITS = 8 };
    const IntConv c = int_conv_of(g, id);
    const Span at = node_span(g, id);
    const NodeId bits = graph_scalar(g, DTYPE_i16, BITS, at);
    const NodeId mask = graph_scalar(g, DTYPE_i16, UINT8_MAX, at);
    const NodeId upper = graph_cast(g, graph_op2(g, OP_shift_right, c.x, bits), DTYPE_i8);
    const NodeId lower = graph_cast(g, graph_op2(g, OP_bit_and, c.x, mask), DTYPE_u8);
    const NodeId high = graph_clone_with(g, id, (const NodeId[]){upper, c.w, 0, 0, c.w_zero}, 5);
    const NodeId low = graph_clone_with(g, id, (const NodeId[]){lower, c.w, c.bias, 0, c.w_zero}, 5);
    const NodeId by = graph_scalar(g, DTYPE_i32, BITS, at);
    return graph_op2(g, OP_add, graph_op2(g, OP_shift_left, formed(g, high, o), by), formed(g, low, o));
}

// A sum along axes of what bytes make: f32 holds it exactly, and is added up in vectors.
static NodeId step_sum(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const Shape *x = graph_node(g, n.src[0])->shape;
    int64_t least = 0, most = 0;
    if (n.dtype != DTYPE_i32 || !shape_is_const(x) || shape_numel(n.shape) < 1 ||
        !requantise_range(g, n.src[0], &least, &most))
        return id;
    const int64_t terms = shape_numel(x) / shape_numel(n.shape);
    if ((double)terms * fmax(fabs((double)least), fabs((double)most)) > exact_f32)
        return id;
    const NodeId of = graph_cast(g, n.src[0], DTYPE_f32);
    return graph_cast(g, graph_clone_node(g, g, id, &of), DTYPE_i32);
}

static NodeId step_bytes(Graph *g, NodeId id, void *ctx)
{
    const PassOptions *o = ctx;
    const TargetCaps *caps = o->caps;
    if (graph_node(g, id)->op == OP_qmatmul)
        return step_product(g, id, caps);
    if (caps->prefers_ints) {
        const NodeId sum = simplify_halves(g, id, caps);
        return sum != id ? sum : simplify_shifts(g, id);
    }
    if (graph_node(g, id)->op == OP_reduce_sum)
        return caps->is_gpu ? id : step_sum(g, id);
    if (graph_node(g, id)->op != OP_int_conv)
        return id;
    const bool is_byte = k_is_byte(graph_node(g, graph_node(g, id)->src[0])->dtype);
    return is_byte ? formed(g, id, o) : of_halves(g, id, o);
}

static bool has_bytes(const Graph *g)
{
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (n->op == OP_int_conv || n->op == OP_qmatmul || (n->op == OP_reduce_sum && n->dtype == DTYPE_i32))
            return true;
    }
    return false;
}

bool pass_bytes(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    PassOptions options = *p->options;
    const uint32_t errors = p->diag->n_errors;
    const bool may_change = options.caps->prefers_ints || has_bytes(p->graph);
    const bool changed = may_change && graph_rewrite(p->graph, step_bytes, &options);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
