// SPDX-License-Identifier: Apache-2.0
// Operators over windows of images: convolutions and pools. Images are [N, H, W, C] in the file and stay so
// in memory; the transpositions around the graph's own operators only say in which order their axes are
// named.
//
// Quantised convolutions are exact sums in i32, times f32(scale_x * scale_w) / scale_y, rounded to the
// nearest integer (halves to even): the definition of XNNPACK, LiteRT's default path. Operands of 16 bits
// have sums in i64 and the integer factors of the built-in kernels.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

enum { SPATIAL = 2, MOST_SPATIAL = 3, TFL_DEPTHWISE = 4 };

typedef struct Window {
    int64_t strides[MOST_SPATIAL], dilations[MOST_SPATIAL], kernel[MOST_SPATIAL], group;
    int64_t pads[2 * MOST_SPATIAL]; // those before, then, from `axes` on, those behind
    int64_t padding, activation, sums;
    uint32_t axes;
} Window;

// The options that all of them begin with.
static Window read_window(TflNode *n)
{
    Window w = {.padding = tfl_option(n, 0, FLAT_I8, 0), .dilations = {1, 1}, .group = 1, .axes = SPATIAL};
    w.strides[1] = tfl_option(n, 1, FLAT_I32, 0);
    w.strides[0] = tfl_option(n, 2, FLAT_I32, 0);
    return w;
}

// Padding SAME: as many results as strides fit in, with what is missing before and, if it is odd, more
// behind.
static void set_pads(TflNode *n, Window *w, NodeId x)
{
    for (uint32_t i = 0; i < w->axes; i++) {
        if (w->strides[i] < 1 || w->dilations[i] < 1 || w->kernel[i] < 1 || w->strides[i] > INT32_MAX ||
            w->dilations[i] > INT32_MAX || w->kernel[i] > INT32_MAX)
            tfl_fail(n, E0203, "strides, dilations and kernels must be at least 1");
        if (n->failed || w->padding == TFL_VALID)
            continue;
        const int64_t size = tfl_size(n, x, i + 1), reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
        const int64_t count = size / w->strides[i] + (size % w->strides[i] != 0);
        const int64_t missing = n->failed || count == 0 ? 0 : (count - 1) * w->strides[i] + reach - size;
        w->pads[i] = missing > 0 ? missing / 2 : 0;
        w->pads[w->axes + i] = missing > 0 ? missing - missing / 2 : 0;
    }
    if (w->padding != 0 && w->padding != TFL_VALID)
        tfl_fail(n, E0203, "the padding %lld does not exist", (long long)w->padding);
}

static void set_window(NodeBuild *b, OpId op, const Window *w)
{
    node_ints(b, attr_find(op, "strides"), w->strides, w->axes);
    node_ints(b, attr_find(op, "pads"), w->pads, 2 * w->axes);
    node_ints(b, attr_find(op, "dilations"), w->dilations, w->axes);
}

static NodeId convolve(TflNode *n, OpId op, const Window *w, const NodeId *src, uint32_t n_src)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, op);
    for (uint32_t i = 0; i < n_src; i++)
        node_src(&b, src[i]);
    set_window(&b, op, w);
    node_int(&b, attr_find(op, "group"), w->group);
    return tfl_end(n, &b);
}

// --- convolutions ---

// y [N, C, H, W] with its bias, which has a number for each channel.
static NodeId add_bias(TflNode *n, NodeId y, NodeId bias, int64_t channels)
{
    if (!bias)
        return y;
    const NodeId more = tfl_reshape(n, tfl_cast(n, bias, tfl_type(n, y)), (const Dim[]){channels, 1, 1}, 3);
    return tfl_op2(n, OP_add, y, more);
}

// Products of i16 by i8: the upper and the lower bytes of the image are summed up by themselves, in i32.
static NodeId wide_conv(TflNode *n, const Window *w, NodeId x, NodeId weight, NodeId bias)
{
    enum { BITS = 8, MOST = 65536 }; // products of a byte without a sign whose sum is sure to fit
    // Kernels of bytes want the channels of a pixel together; depthwise ones read the 16 bits themselves.
    const bool is_depthwise = w->group == tfl_size(n, x, 1);
    const NodeId image = is_depthwise ? x : tfl_from_channels(n, x);
    NodeId high_bytes = tfl_cast(n, tfl_op_number(n, OP_shift_right, image, BITS), DTYPE_i8);
    NodeId low_bytes = tfl_cast(n, tfl_op_number(n, OP_bit_and, image, UINT8_MAX), DTYPE_u8);
    high_bytes = is_depthwise ? high_bytes : tfl_to_channels(n, high_bytes);
    low_bytes = is_depthwise ? low_bytes : tfl_to_channels(n, low_bytes);
    const NodeId upper[] = {high_bytes, weight}, lower[] = {low_bytes, weight};
    const int64_t channels = tfl_size(n, weight, 1);
    if (!n->failed && channels * w->kernel[0] > MOST / w->kernel[1])
        tfl_fail(n, E0206, "windows of more than 65536 elements of 16 bits are not supported");
    const NodeId high = tfl_cast(n, convolve(n, OP_int_conv, w, upper, 2), DTYPE_i64);
    const NodeId low = tfl_cast(n, convolve(n, OP_int_conv, w, lower, 2), DTYPE_i64);
    const NodeId sum = tfl_op2(n, OP_add, tfl_op_number(n, OP_shift_left, high, BITS), low);
    return add_bias(n, sum, bias, tfl_size(n, weight, 0));
}

// Reals by quantised weights. Convolutions over one pixel are products of matrices to XNNPACK, whose rows are
// pixels.
static NodeId hybrid_conv(TflNode *n, const Window *w, NodeId x, NodeId weight, NodeId bias)
{
    static const int64_t image[] = {1, 2, 3}; // 1 alone: channels of a pixel
    const TflTensor *t = tfl_in(n, 1);
    const bool is_rows = w->kernel[0] == 1 && w->kernel[1] == 1 && w->strides[0] == 1 && w->strides[1] == 1;
    const int64_t channels = tfl_size(n, weight, 0);
    const int64_t taps = tfl_size(n, weight, 1) * w->kernel[0] * w->kernel[1];
    const DType sums = tfl_exact_type(taps);
    NodeId step = 0;
    const NodeId steps = tfl_dynamic(n, x, image, is_rows ? 1 : 3, &step);
    const NodeId src[] = {tfl_cast(n, steps, sums), tfl_centred(n, weight, t, sums)};
    const NodeId sum = tfl_cast(n, convolve(n, OP_conv, w, src, 2), DTYPE_f32);
    const NodeId y =
        tfl_op2(n, OP_mul, sum, tfl_op2(n, OP_mul, step, tfl_weight_scale(n, t, channels, SPATIAL)));
    return add_bias(n, y, bias, channels);
}

// XNNPACK has no convolutions with weights of 4 bits. The built-in ones are products of matrices, which round
// halves up; depthwise ones round eight channels at once, and those with groups one by one.
static TflRounding rounding_of_conv(TflNode *n, const Window *w)
{
    if (tfl_in(n, 1)->type != TFL_I4)
        return ROUND_BY_TYPE;
    if (n->op->code == TFL_DEPTHWISE)
        return ROUND_EIGHTS;
    return w->group == 1 ? ROUND_UP : ROUND_TWICE;
}

// x [N, C, H, W], weight [O, C / group, kh, kw] of the file's tensor t, in which they have another order.
static NodeId conv_of(TflNode *n, const Window *w, NodeId x, NodeId weight, NodeId bias)
{
    const TflTensor *t = tfl_in(n, 1);
    const DType type = tfl_type(n, x);
    if (n->failed)
        return 0;
    const TflProduct p = {.x = tfl_in(n, 0),
                          .w = t,
                          .channels = tfl_size(n, weight, 0),
                          .ones = SPATIAL,
                          .activation = w->activation,
                          .is_narrow = tfl_is_narrow(n, tfl_in(n, 0), 2, w->sums),
                          .rounding = rounding_of_conv(n, w)};
    if (type == DTYPE_i16)
        return tfl_rescale(n, wide_conv(n, w, x, weight, bias), &p);
    if (tfl_is_byte(type)) {
        const NodeId src[] = {x, weight, bias, tfl_zero_point(n, p.x), tfl_zero_point(n, t)};
        return tfl_rescale(n, convolve(n, OP_int_conv, w, src, 5), &p);
    }
    if (tfl_is_quantised(t))
        return tfl_activate(n, hybrid_conv(n, w, x, weight, bias), w->activation);
    const NodeId src[] = {x, tfl_float_weight(n, weight, t, x), bias};
    return tfl_activate(n, convolve(n, OP_conv, w, src, 3), w->activation);
}

// The window options of CONV_2D and DEPTHWISE_CONV_2D, whose fields from `at` on are activation and
// dilations.
static Window read_conv(TflNode *n, uint32_t at)
{
    Window w = read_window(n);
    w.activation = tfl_option(n, at, FLAT_I8, 0);
    w.dilations[1] = tfl_option(n, at + 1, FLAT_I32, 1);
    w.dilations[0] = tfl_option(n, at + 2, FLAT_I32, 1);
    return w;
}

static void import_conv(TflNode *n, Window *w, const int64_t *perm)
{
    const NodeId x = tfl_src(n, 0), filter = tfl_src(n, 1);
    const NodeId bias = tfl_has(n, 2) ? tfl_reshape(n, tfl_src(n, 2), (const Dim[]){-1}, 1) : 0;
    if (!n->failed && (tfl_rank(n, x) != 4 || tfl_rank(n, filter) != 4))
        tfl_fail(n, E0204, "expected images and weights of rank 4");
    for (uint32_t i = 0; i < SPATIAL; i++)
        w->kernel[i] = tfl_size(n, filter, i + 1);
    set_pads(n, w, x);
    const NodeId weight = tfl_transpose(n, filter, perm);
    tfl_out(n, 0, tfl_from_channels(n, conv_of(n, w, tfl_to_channels(n, x), weight, bias)));
}

void tfl_import_conv(TflNode *n)
{
    static const int64_t perm[] = {0, 3, 1, 2};
    Window w = read_conv(n, 3);
    w.sums = tfl_option(n, 6, FLAT_I8, 0);
    const int64_t channels = tfl_size(n, tfl_src(n, 0), 3), depth = tfl_size(n, tfl_src(n, 1), 3);
    if (!n->failed && (depth < 1 || channels % depth != 0))
        tfl_fail(n, E0204, "the weights have %lld channels, the image %lld", (long long)depth,
                 (long long)channels);
    w.group = n->failed ? 1 : channels / depth;
    import_conv(n, &w, perm);
}

void tfl_import_depthwise(TflNode *n)
{
    static const int64_t perm[] = {3, 0, 1, 2};
    Window w = read_conv(n, 4);
    tfl_ignore(n, 3); // the multiplier follows from the weights
    w.group = tfl_size(n, tfl_src(n, 0), 3);
    if (!n->failed && tfl_size(n, tfl_src(n, 1), 0) != 1)
        tfl_fail(n, E0204, "expected weights [1, h, w, channels]");
    import_conv(n, &w, perm);
}

// --- transposed convolutions ---

// The part of the whole result that is cut, or what is missing, so that it has the wanted size.
static void set_result(TflNode *n, Window *w, NodeId x, const int64_t *shape, int64_t *more)
{
    for (uint32_t i = 0; i < w->axes && !n->failed; i++) {
        const int64_t size = tfl_size(n, x, i + 1);
        if (w->strides[i] < 1 || w->kernel[i] < 1 || w->strides[i] > INT32_MAX || shape[i + 1] < 1 ||
            size < 1)
            tfl_fail(n, E0203, "strides, kernels and sizes must be at least 1");
        const int64_t whole = (size - 1) * w->strides[i] + w->kernel[i];
        const int64_t cut = whole > shape[i + 1] ? whole - shape[i + 1] : 0;
        w->pads[i] = w->padding == TFL_VALID ? 0 : cut / 2;
        w->pads[w->axes + i] = cut - w->pads[i];
        more[i] = shape[i + 1] > whole ? shape[i + 1] - whole : 0;
        if (!n->failed && more[i] >= w->strides[i])
            tfl_fail(n, E0204, "the size %lld of the result is more than the image gives",
                     (long long)shape[i + 1]);
    }
}

// Integers: result q * stride + p - pad is the sum of x[q - t] * w[t * stride + p] over t. So each phase p is
// a convolution with some of the taps in the opposite order, and the channels of all phases are one
// convolution that makes bytes, which are put in their places at the end.
typedef struct Phases {
    int64_t stride[SPATIAL], taps[SPATIAL], size[SPATIAL]; // size: of the result of a phase
} Phases;

// Weights [O, h, w, I] as [phase, O, I, taps], with zeros where a phase has fewer taps.
static NodeId weights_of_phases(TflNode *n, NodeId filter, const Window *w, const Phases *p)
{
    static const int64_t perm[] = {2, 4, 0, 5, 1, 3};
    const int64_t out = tfl_size(n, filter, 0), in = tfl_size(n, filter, 3);
    const int64_t pads[] = {
        0, 0, 0, 0, 0, p->taps[0] * p->stride[0] - w->kernel[0], p->taps[1] * p->stride[1] - w->kernel[1], 0};
    const Dim split[] = {out, p->taps[0], p->stride[0], p->taps[1], p->stride[1], in};
    NodeId y = tfl_pad(n, filter, pads, "constant", tfl_zero_point(n, tfl_in(n, 1)));
    y = tfl_reshape(n, y, split, 6);
    for (uint32_t i = 0; i < SPATIAL; i++)
        y = tfl_slice(n, y, 1 + 2 * i, -1, INT64_MIN, -1);
    const Dim joined[] = {-1, in, p->taps[0], p->taps[1]};
    return tfl_reshape(n, tfl_transpose(n, y, perm), joined, 4);
}

// [N, h, w, phase, O] as images, of which the result is a part.
static NodeId place_phases(TflNode *n, NodeId y, const Window *w, const Phases *p, const int64_t *shape)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    const int64_t channels = tfl_size(n, tfl_src(n, 1), 0);
    const Dim split[] = {-1, p->size[1], p->stride[0], p->stride[1] * channels};
    const Dim joined[] = {-1, p->size[0] * p->stride[0], p->size[1] * p->stride[1], channels};
    y = tfl_reshape(n, tfl_transpose(n, tfl_reshape(n, y, split, 4), perm), joined, 4);
    for (uint32_t i = 0; i < SPATIAL && !n->failed; i++)
        y = tfl_slice(n, y, 1 + i, w->pads[i], w->pads[i] + shape[i + 1], 1);
    return y;
}

// XNNPACK does not take bytes with padding SAME and fewer taps than a stride has; the built-in kernel rounds
// eight channels at once, and the rest one by one.
static TflRounding rounding_of_transposed(TflNode *n, const Window *w)
{
    const bool is_sparse = w->kernel[0] < w->strides[0] || w->kernel[1] < w->strides[1];
    const bool is_built_in = is_sparse && w->padding != TFL_VALID && tfl_is_byte(tfl_in(n, 2)->dtype);
    return is_built_in ? ROUND_EIGHTS : ROUND_BY_TYPE;
}

static NodeId integer_transposed(TflNode *n, const Window *w, NodeId x, NodeId bias, const int64_t *shape)
{
    enum { MOST = 1024, MOST_PER_TAP = 16 }; // phases: weights grow by as much
    const NodeId filter = tfl_src(n, 1);
    const int64_t channels = tfl_size(n, filter, 0), copies = w->strides[0] * w->strides[1];
    if (!n->failed && (copies > MOST || copies / MOST_PER_TAP > w->kernel[0] * w->kernel[1]))
        tfl_fail(n, E0206, "strides of %lld by %lld are not supported", (long long)w->strides[0],
                 (long long)w->strides[1]);
    const TflProduct product = {.x = tfl_in(n, 2),
                                .w = tfl_in(n, 1),
                                .channels = channels,
                                .ones = SPATIAL,
                                .activation = w->activation,
                                .copies = copies,
                                .rounding = rounding_of_transposed(n, w)};
    Window conv = {.strides = {1, 1}, .dilations = {1, 1}, .group = 1, .axes = SPATIAL};
    Phases p;
    for (uint32_t i = 0; i < SPATIAL; i++) {
        const int64_t in = tfl_size(n, x, i + 1);
        p.stride[i] = w->strides[i];
        p.taps[i] = (w->kernel[i] + p.stride[i] - 1) / p.stride[i];
        p.size[i] = (shape[i + 1] + w->pads[i] + p.stride[i] - 1) / p.stride[i];
        p.size[i] = p.size[i] > in ? p.size[i] : in;
        conv.kernel[i] = p.taps[i];
        conv.pads[i] = p.taps[i] - 1;
        conv.pads[SPATIAL + i] = p.size[i] - in;
    }
    const Dim all[] = {copies, channels}, list[] = {copies * channels};
    bias = bias ? tfl_reshape(n, tfl_expand(n, bias, all, 2), list, 1) : 0;
    const NodeId src[] = {tfl_to_channels(n, x), weights_of_phases(n, filter, w, &p), bias,
                          tfl_zero_point(n, product.x), tfl_zero_point(n, product.w)};
    const NodeId sum = tfl_is_byte(tfl_type(n, x)) ? convolve(n, OP_int_conv, &conv, src, 5)
                                                   : wide_conv(n, &conv, src[0], src[1], bias);
    return place_phases(n, tfl_from_channels(n, tfl_rescale(n, sum, &product)), w, &p, shape);
}

static NodeId transposed(TflNode *n, const Window *w, const NodeId *src, const int64_t *more)
{
    rlx_assert(w->axes >= 1 && w->axes <= MOST_SPATIAL);
    NodeBuild b = tfl_begin(n, OP_conv_transpose);
    node_src(&b, src[0]);
    node_src(&b, src[1]);
    set_window(&b, OP_conv_transpose, w);
    node_ints(&b, A_conv_transpose_output_padding, more, w->axes);
    return tfl_end(n, &b);
}

static NodeId float_transposed(TflNode *n, const Window *w, NodeId x, NodeId bias, const int64_t *more)
{
    static const int64_t perm[] = {3, 0, 1, 2};
    const NodeId filter = tfl_src(n, 1);
    const NodeId src[] = {tfl_to_channels(n, x),
                          tfl_transpose(n, tfl_float_weight(n, filter, tfl_in(n, 1), x), perm)};
    if (n->failed)
        return 0;
    const NodeId y = add_bias(n, transposed(n, w, src, more), bias, tfl_size(n, filter, 0));
    return tfl_from_channels(n, tfl_activate(n, y, w->activation));
}

// Operands: the shape of the result, weights [O, h, w, I], the image, perhaps a bias.
void tfl_import_transpose_conv(TflNode *n)
{
    int64_t shape[TFL_MAX_LIST], more[SPATIAL] = {0};
    uint32_t rank = 0;
    Window w = read_window(n);
    w.activation = tfl_option(n, 3, FLAT_I8, 0);
    tfl_ignore(n, 4); // the type of sums
    const NodeId filter = tfl_src(n, 1), x = tfl_src(n, 2), bias = tfl_opt(n, 3);
    if (tfl_src_shape(n, 0, shape, &rank) && (rank != 4 || tfl_rank(n, filter) != 4 || tfl_rank(n, x) != 4))
        tfl_fail(n, E0204, "expected images, weights and a result of rank 4");
    for (uint32_t i = 0; i < SPATIAL; i++)
        w.kernel[i] = tfl_size(n, filter, i + 1);
    set_result(n, &w, x, shape, more);
    if (n->failed)
        return;
    const bool is_float = dtype_info[tfl_type(n, x)].cls == DCLASS_FLOAT;
    tfl_out(n, 0,
            is_float ? float_transposed(n, &w, x, bias, more) : integer_transposed(n, &w, x, bias, shape));
}

// --- convolutions of volumes, [N, D, H, W, C], of floats ---

enum { VOLUME_RANK = MOST_SPATIAL + 2 };

static Window read_volume(TflNode *n, uint32_t image)
{
    static const uint32_t stride[] = {1, 3, 2}, dilation[] = {5, 7, 6}; // the options' order is D, W, H
    Window w = {.padding = tfl_option(n, 0, FLAT_I8, 0), .group = 1, .axes = MOST_SPATIAL};
    w.activation = tfl_option(n, 4, FLAT_I8, 0);
    const NodeId x = tfl_src(n, image), filter = tfl_src(n, 1);
    if (!n->failed && (tfl_rank(n, x) != VOLUME_RANK || tfl_rank(n, filter) != VOLUME_RANK))
        tfl_fail(n, E0204, "expected volumes and weights of rank %d", VOLUME_RANK);
    if (!n->failed && dtype_info[tfl_type(n, x)].cls != DCLASS_FLOAT)
        tfl_fail(n, E0206, "volumes of integers are not supported");
    for (uint32_t i = 0; i < MOST_SPATIAL; i++) {
        w.strides[i] = tfl_option(n, stride[i], FLAT_I32, 0);
        w.dilations[i] = tfl_option(n, dilation[i], FLAT_I32, 1);
        w.kernel[i] = n->failed ? 1 : tfl_size(n, filter, i);
    }
    return w;
}

// y [N, C, D, H, W] with the bias of operand 2 or 3 and the activation, as the file has it.
static void finish_volume(TflNode *n, const Window *w, NodeId y, uint32_t bias, int64_t channels)
{
    const Dim side[] = {channels, 1, 1, 1};
    if (tfl_has(n, bias))
        y = tfl_op2(n, OP_add, y, tfl_reshape(n, tfl_src(n, bias), side, 4));
    tfl_out(n, 0, tfl_from_channels(n, tfl_activate(n, y, w->activation)));
}

// Weights [d, h, w, I / group, O].
void tfl_import_conv_3d(TflNode *n)
{
    static const int64_t perm[] = {4, 3, 0, 1, 2};
    Window w = read_volume(n, 0);
    const NodeId x = tfl_src(n, 0), filter = tfl_src(n, 1);
    set_pads(n, &w, x);
    const int64_t channels = n->failed ? 1 : tfl_size(n, x, 4);
    const int64_t depth = n->failed ? 1 : tfl_size(n, filter, 3);
    if (!n->failed && (depth < 1 || channels % depth != 0))
        tfl_fail(n, E0204, "the weights have %lld channels, the volume %lld", (long long)depth,
                 (long long)channels);
    w.group = n->failed ? 1 : channels / depth;
    const NodeId src[] = {tfl_to_channels(n, x), tfl_transpose(n, filter, perm)};
    const NodeId y = convolve(n, OP_conv, &w, src, 2);
    finish_volume(n, &w, y, 2, n->failed ? 1 : tfl_size(n, filter, 4));
}

// Operands: the shape of the result, weights [d, h, w, O, I], the volume, perhaps a bias.
void tfl_import_conv_3d_transpose(TflNode *n)
{
    static const int64_t perm[] = {4, 3, 0, 1, 2};
    int64_t shape[TFL_MAX_LIST], more[MOST_SPATIAL] = {0};
    uint32_t rank = 0;
    Window w = read_volume(n, 2);
    const NodeId x = tfl_src(n, 2), filter = tfl_src(n, 1);
    if (tfl_src_shape(n, 0, shape, &rank) && rank != VOLUME_RANK)
        tfl_fail(n, E0204, "expected a result of rank %d", VOLUME_RANK);
    if (!n->failed)
        set_result(n, &w, x, shape, more);
    const NodeId src[] = {tfl_to_channels(n, x), tfl_transpose(n, filter, perm)};
    if (n->failed)
        return;
    finish_volume(n, &w, transposed(n, &w, src, more), 3, tfl_size(n, filter, 3));
}

// --- pools ---

static NodeId pool(TflNode *n, OpId op, const Window *w, NodeId x)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, op);
    node_src(&b, x);
    node_ints(&b, attr_find(op, "kernel"), w->kernel, SPATIAL);
    set_window(&b, op, w);
    return tfl_end(n, &b);
}

static Window read_pool(TflNode *n)
{
    Window w = read_window(n);
    w.kernel[1] = tfl_option(n, 3, FLAT_I32, 0);
    w.kernel[0] = tfl_option(n, 4, FLAT_I32, 0);
    w.activation = tfl_option(n, 5, FLAT_I8, 0);
    const NodeId x = tfl_src(n, 0);
    if (!n->failed && tfl_rank(n, x) != 4)
        tfl_fail(n, E0204, "expected an image of rank 4");
    set_pads(n, &w, x);
    return w;
}

// Integers between the limits of the activation.
static NodeId limited(TflNode *n, NodeId y, int64_t activation)
{
    const TflTensor *t = tfl_of_out(n, 0);
    const TflRange full = tfl_range(n, t, 0), r = tfl_range(n, t, activation);
    return r.lo == full.lo && r.hi == full.hi ? y : tfl_clamp(n, y, (double)r.lo, (double)r.hi);
}

void tfl_import_max_pool(TflNode *n)
{
    const Window w = read_pool(n);
    const NodeId x = tfl_src(n, 0);
    const bool is_float = dtype_info[tfl_type(n, x)].cls == DCLASS_FLOAT;
    const NodeId y = tfl_from_channels(n, pool(n, OP_max_pool, &w, tfl_to_channels(n, x)));
    if (!is_float)
        tfl_same_scale(n, 0);
    tfl_out(n, 0, is_float ? tfl_activate(n, y, w.activation) : limited(n, y, w.activation));
}

// Mean of integers: the sum, divided by the count of elements that exist, halves away from zero. Sums of a
// window and counts are averages of floats that are exact: a sum of up to 2^24 steps in f32.
static NodeId integer_mean(TflNode *n, const Window *w, NodeId x)
{
    const TflTensor *t = tfl_in(n, 0);
    Window ones = *w;
    ones.group = tfl_size(n, x, 1);
    const int64_t taps = w->kernel[0] * w->kernel[1];
    const Dim side[] = {ones.group, 1, w->kernel[0], w->kernel[1]};
    if (!n->failed && (taps > UINT16_MAX || !tfl_spend(n, (uint64_t)taps)))
        return tfl_fail(n, E0004, "the window is too large");
    const NodeId src[] = {x, tfl_expand(n, tfl_number(n, DTYPE_i8, 1), side, 4)};
    NodeId sum = convolve(n, OP_int_conv, &ones, src, 2);
    const Shape s = *tfl_shape(n, x);
    ones.group = 1;
    const NodeId unit[] = {
        tfl_expand(n, tfl_number(n, DTYPE_f32, 1), (const Dim[]){1, 1, s.dim[2], s.dim[3]}, 4),
        tfl_expand(n, tfl_number(n, DTYPE_f32, 1), (const Dim[]){1, 1, side[2], side[3]}, 4)};
    const NodeId count = tfl_cast(n, convolve(n, OP_conv, &ones, unit, 2), DTYPE_i32);
    sum = tfl_cast(n, sum, DTYPE_i32);
    const NodeId half = tfl_op_number(n, OP_div, count, 2);
    const NodeId is_negative = tfl_op2(n, OP_lt, sum, tfl_number(n, DTYPE_i32, 0));
    const NodeId away = tfl_op3(n, OP_where, is_negative, tfl_op1(n, OP_neg, half), half);
    return tfl_cast(n, tfl_op2(n, OP_div, tfl_op2(n, OP_add, sum, away), count), t->dtype);
}

void tfl_import_average_pool(TflNode *n)
{
    const Window w = read_pool(n);
    const NodeId x = tfl_to_channels(n, tfl_src(n, 0));
    if (!n->failed && dtype_info[tfl_type(n, x)].cls != DCLASS_FLOAT) {
        if (!tfl_same_quant(tfl_in(n, 0), tfl_of_out(n, 0)))
            tfl_fail(n, E0206, "operand and result must have the same scale and zero point");
        tfl_out(n, 0, limited(n, tfl_from_channels(n, integer_mean(n, &w, x)), w.activation));
        return;
    }
    tfl_out(n, 0, tfl_activate(n, tfl_from_channels(n, pool(n, OP_avg_pool, &w, x)), w.activation));
}

void tfl_import_l2_pool(TflNode *n)
{
    const Window w = read_pool(n);
    const NodeId x = tfl_to_channels(n, tfl_src(n, 0));
    const NodeId y = tfl_op1(n, OP_sqrt, pool(n, OP_avg_pool, &w, tfl_op1(n, OP_square, x)));
    tfl_out(n, 0, tfl_activate(n, tfl_from_channels(n, y), w.activation));
}
