// SPDX-License-Identifier: Apache-2.0
// Operators that put elements in other places: crops and borders, reversed sequences, and blocks that are
// summed up into an image.
#include "compiler/import/onnx/onnx_import.h"

// --- CenterCropPad ---

static NodeId pad_axis(OnnxNode *n, NodeId x, uint32_t axis, int64_t begin, int64_t end)
{
    const uint32_t rank = onnx_shape(n, x)->rank;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    if (n->failed)
        return 0;
    rlx_assert(axis < rank);
    pads[axis] = begin;
    pads[rank + axis] = end;
    return onnx_op_ints(n, OP_pad, x, A_pad_pads, pads, 2 * rank);
}

void onnx_import_center_crop_pad(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    const uint32_t rank = onnx_shape(n, x)->rank;
    OnnxInts shape, axes;
    const bool has_axes = onnx_ints(n, "axes", &axes);
    if (!onnx_src_ints(n, 1, &shape))
        return;
    if (shape.n != (has_axes ? axes.n : rank))
        onnx_fail(n, E0203, "%u sizes are given for %u axes", shape.n, has_axes ? axes.n : rank);
    for (uint32_t i = 0; i < shape.n && !n->failed; i++) {
        uint32_t axis = 0;
        if (!onnx_axis(n, has_axes ? axes.v[i] : i, rank, &axis))
            return;
        const int64_t size = onnx_const_dim(n, x, axis), to = shape.v[i];
        if (!n->failed && (to < 0 || to > DIM_MAX_VALUE))
            onnx_fail(n, E0203, "axis %u cannot have the size %lld", axis, (long long)to);
        if (n->failed)
            return;
        const int64_t cut = (size - to) / 2, room = (to - size) / 2;
        if (to < size)
            x = onnx_slice(n, x, axis, cut, cut + to, 1);
        else if (to > size)
            x = pad_axis(n, x, axis, room, to - size - room);
    }
    onnx_out(n, 0, x);
}

// --- ReverseSequence ---

// Where element t of a sequence comes from: length - 1 - t as long as that is inside.
static NodeId reversed(OnnxNode *n, NodeId t, NodeId length)
{
    const NodeId back = onnx_op2(n, OP_sub, onnx_op_number(n, OP_sub, length, 1), t);
    return onnx_op3(n, OP_where, onnx_op2(n, OP_lt, t, length), back, t);
}

// One number that all sequences have as their length; 0: they may differ.
static NodeId common_length(OnnxNode *n, NodeId lengths)
{
    if (n->failed)
        return 0;
    const Node *node = graph_node(n->graph, lengths);
    const Shape *s = node->op == OP_expand ? onnx_shape(n, node->src[0]) : onnx_shape(n, lengths);
    const bool is_one = shape_is_const(s) && shape_numel(s) == 1;
    return is_one ? onnx_reshape(n, node->op == OP_expand ? node->src[0] : lengths, &(Shape){0}) : 0;
}

// Both axes become one, on which element (t, b) reads (length[b] - 1 - t, b) as long as t is inside.
static NodeId reverse_each(OnnxNode *n, NodeId x, NodeId lengths, uint32_t time_axis)
{
    const Shape s = *onnx_shape(n, x);
    const int64_t to_column = 1, to_row = 0;
    const bool is_time_first = time_axis == 0;
    const NodeId inner = onnx_dim_value(n, s.dim[1]);
    const NodeId t =
        onnx_unsqueeze(n, onnx_iota(n, s.dim[time_axis]), is_time_first ? &to_column : &to_row, 1);
    const NodeId b =
        onnx_unsqueeze(n, onnx_iota(n, s.dim[1 - time_axis]), is_time_first ? &to_row : &to_column, 1);
    const NodeId from = reversed(n, t, onnx_unsqueeze(n, lengths, is_time_first ? &to_row : &to_column, 1));
    const NodeId index = onnx_op2(n, OP_add, onnx_op2(n, OP_mul, is_time_first ? from : b, inner),
                                  is_time_first ? b : from);
    Dim flat[SHAPE_MAX_RANK] = {-1};
    for (uint32_t i = 2; i < s.rank; i++)
        flat[i - 1] = s.dim[i];
    const NodeId rows = onnx_reshape_to(n, x, flat, s.rank - 1);
    return onnx_reshape(n, onnx_gather(n, rows, onnx_reshape_to(n, index, (const Dim[]){-1}, 1), 0), &s);
}

void onnx_import_reverse_sequence(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), lengths = onnx_cast(n, onnx_src(n, 1), DTYPE_i64);
    const int64_t time_axis = onnx_int(n, "time_axis", 0), batch_axis = onnx_int(n, "batch_axis", 1);
    const Shape s = *onnx_shape(n, x);
    if (!n->failed && (s.rank < 2 || time_axis + batch_axis != 1 || time_axis < 0 || time_axis > 1))
        onnx_fail(n, E0203, "needs an input with at least 2 axes, of which the first two are time and batch");
    const NodeId length = common_length(n, lengths);
    if (n->failed)
        return;
    const NodeId y = length ? onnx_gather(n, x, reversed(n, onnx_iota(n, s.dim[time_axis]), length),
                                          (uint32_t)time_axis)
                            : reverse_each(n, x, lengths, (uint32_t)time_axis);
    onnx_out(n, 0, y);
}

// --- Col2Im ---

enum { MAX_SPATIAL = 3, MAX_PIECES = 64 };

typedef struct Columns {
    uint32_t n;
    int64_t image[MAX_SPATIAL], kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL],
        pads[2 * MAX_SPATIAL];
    int64_t blocks[MAX_SPATIAL], rest[MAX_SPATIAL], taps;
} Columns;

static bool read_columns(OnnxNode *n, Columns *c)
{
    OnnxInts image, kernel;
    if (!onnx_src_ints(n, 1, &image) || !onnx_src_ints(n, 2, &kernel))
        return false;
    if (image.n < 1 || image.n > MAX_SPATIAL || kernel.n != image.n)
        return onnx_fail(n, E0206,
                         "only images with 1 to 3 spatial axes are supported, and blocks with as many axes");
    *c = (Columns){.n = image.n, .taps = 1};
    onnx_steps(n, "strides", c->stride, c->n, 1);
    onnx_steps(n, "dilations", c->dilation, c->n, 1);
    onnx_steps(n, "pads", c->pads, 2 * c->n, 0);
    for (uint32_t i = 0; i < c->n && !n->failed; i++) {
        c->image[i] = image.v[i];
        c->kernel[i] = kernel.v[i];
        if (image.v[i] < 1 || image.v[i] > INT32_MAX || kernel.v[i] < 1 || kernel.v[i] > ONNX_MAX_STEP)
            return onnx_fail(n, E0203,
                             "the sizes %lld of the image and %lld of the block at axis %u are not possible",
                             (long long)image.v[i], (long long)kernel.v[i], i);
        const int64_t room =
            image.v[i] + c->pads[i] + c->pads[c->n + i] - c->dilation[i] * (kernel.v[i] - 1) - 1;
        if (room < 0)
            return onnx_fail(n, E0204, "the block does not fit into the image at axis %u", i);
        c->blocks[i] = room / c->stride[i] + 1;
        c->rest[i] = room % c->stride[i];
        c->taps *= c->kernel[i];
        if (c->taps > 4096)
            return onnx_fail(n, E0004, "a block has more than 4096 elements");
    }
    return !n->failed;
}

// Element (i, 0, position) is 1 where tap i is at that position: [taps, 1, kernel ...].
static NodeId tap_weights(OnnxNode *n, const Columns *c, DType type)
{
    rlx_assert(c->taps >= 1 && c->n + 2 <= SHAPE_MAX_RANK);
    Shape s = {.rank = c->n + 2, .dim = {c->taps, 1}};
    for (uint32_t i = 0; i < c->n; i++)
        s.dim[i + 2] = c->kernel[i];
    const uint64_t count = (uint64_t)c->taps * (uint64_t)c->taps;
    if (!onnx_spend(n, (int64_t)count))
        return 0;
    float *v = ARENA_ARRAY(n->model->arena, float, count);
    for (int64_t i = 0; i < c->taps; i++)
        v[i * c->taps + i] = 1;
    return onnx_cast(n, onnx_const(n, DTYPE_f32, &s, v, count * sizeof *v), type);
}

// Pieces of a block along an axis, each as long as blocks are apart; the last one may be shorter.
static int64_t pieces_of(const Columns *c, uint32_t axis)
{
    return (c->kernel[axis] + c->stride[axis] - 1) / c->stride[axis];
}

// Is the sum of pieces shorter than a transposed convolution?
static bool are_pieces(const Columns *c)
{
    int64_t pieces = 0;
    bool are_dense = true;
    for (uint32_t i = 0; i < c->n; i++) {
        pieces += pieces_of(c, i);
        are_dense = are_dense && c->dilation[i] == 1;
    }
    return are_dense && pieces <= MAX_PIECES;
}

// Blocks are cut into pieces as long as they are apart, so that all pieces of one number lie side by side:
// they are a transpose, and the image along this axis is a sum of these, each further along than the last.
// x [N, C, block of axes 0 to `axis`, number of blocks of the same, image of the axes behind]: the same
// without the axis of the block, and with the image in the place of the number.
static NodeId join_blocks(OnnxNode *n, const Columns *c, NodeId x, uint32_t axis)
{
    const uint32_t tap = 2 + axis, block = 3 + 2 * axis, rank = 3 + axis + c->n;
    const int64_t step = c->stride[axis], pieces = pieces_of(c, axis), end = c->pads[axis] + c->image[axis];
    const int64_t whole = (c->blocks[axis] + pieces - 1) * step, most = whole > end ? whole : end;
    NodeId sum = 0;
    x = pad_axis(n, x, tap, 0, pieces * step - c->kernel[axis]);
    for (int64_t i = 0; i < pieces && !n->failed; i++) {
        int64_t perm[SHAPE_MAX_RANK];
        Shape s = *onnx_shape(n, x);
        for (uint32_t k = 0; k < rank; k++)
            perm[k] = k < tap || k > block ? k : k < block ? k + 1 : tap;
        for (uint32_t k = tap; k + 1 < rank; k++)
            s.dim[k] = s.dim[k + 1];
        s.rank = rank - 1;
        s.dim[block - 1] = c->blocks[axis] * step;
        const NodeId piece = onnx_transpose(n, onnx_slice(n, x, tap, i * step, (i + 1) * step, 1), perm);
        const int64_t before = i * step, behind = most - before - c->blocks[axis] * step;
        const NodeId placed = pad_axis(n, onnx_reshape(n, piece, &s), block - 1, before, behind);
        sum = sum ? onnx_op2(n, OP_add, sum, placed) : placed;
    }
    return onnx_slice(n, sum, block - 1, c->pads[axis], end, 1);
}

// A transposed convolution in which every tap has a channel of its own. x [N, C * taps, blocks].
static NodeId convolve_blocks(OnnxNode *n, const Columns *c, NodeId x)
{
    Dim to[SHAPE_MAX_RANK] = {-1, c->taps};
    for (uint32_t i = 0; i < c->n; i++)
        to[i + 2] = c->blocks[i];
    x = onnx_reshape_to(n, x, to, c->n + 2);
    const NodeId weight = tap_weights(n, c, onnx_dtype(n, x));
    if (n->failed)
        return 0;
    NodeBuild b = ONNX_BEGIN(n, OP_conv_transpose, x, weight);
    node_ints(&b, A_conv_transpose_strides, c->stride, c->n);
    node_ints(&b, A_conv_transpose_pads, c->pads, 2 * c->n);
    node_ints(&b, A_conv_transpose_dilations, c->dilation, c->n);
    node_ints(&b, A_conv_transpose_output_padding, c->rest, c->n);
    return onnx_end(n, &b);
}

static NodeId add_blocks(OnnxNode *n, const Columns *c, NodeId x, const Dim *out)
{
    Dim apart[SHAPE_MAX_RANK] = {out[0], out[1]};
    for (uint32_t i = 0; i < c->n; i++) {
        apart[2 + i] = c->kernel[i];
        apart[2 + c->n + i] = c->blocks[i];
    }
    x = onnx_reshape_to(n, x, apart, 2 + 2 * c->n);
    for (uint32_t i = c->n; i-- > 0 && !n->failed;)
        x = join_blocks(n, c, x, i);
    return x;
}

void onnx_import_col2im(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const DType type = onnx_dtype(n, x);
    const bool is_wide = type == DTYPE_f64 || dtype_info[type].cls != DCLASS_FLOAT;
    const Shape s = *onnx_shape(n, x);
    Columns c;
    if (!read_columns(n, &c))
        return;
    if (s.rank != 3)
        onnx_fail(n, E0204, "needs an input [N, C * block, blocks]");
    const int64_t rows = onnx_const_dim(n, x, 1);
    if (!n->failed && rows % c.taps != 0)
        onnx_fail(n, E0204, "%lld channels are not a multiple of the %lld elements of a block",
                  (long long)rows, (long long)c.taps);
    Dim out[SHAPE_MAX_RANK] = {s.dim[0], n->failed ? 1 : rows / c.taps};
    for (uint32_t i = 0; i < c.n; i++)
        out[i + 2] = c.image[i];
    if (n->failed)
        return;
    const NodeId wide = onnx_cast(n, x, is_wide ? DTYPE_f64 : DTYPE_f32);
    const NodeId y = are_pieces(&c) ? add_blocks(n, &c, wide, out) : convolve_blocks(n, &c, wide);
    onnx_out(n, 0, onnx_cast(n, onnx_reshape_to(n, y, out, c.n + 2), type));
}
