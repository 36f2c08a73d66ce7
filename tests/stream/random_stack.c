// SPDX-License-Identifier: Apache-2.0
// Makes random networks of what streams: convolutions with all kinds of padding, strides and dilations,
// pools, transposed convolutions, LSTMs, sums of values that are late by different amounts.
#include "random_stack.h"

#include "ir/graph/tensor.h"

enum { TIME = 96, MAX_VALUES = 24, LAYERS = 9 };

// Elements along time for so many of the input.
typedef struct Rate {
    int64_t up, down;
} Rate;

typedef struct Stack {
    Graph *g;
    uint64_t seed;
    NodeId value[MAX_VALUES];
    Rate rate[MAX_VALUES]; // of the values
    Rate made;             // of what the layer at hand makes
    uint32_t n;
    bool is_padded, is_cut; // behind the end
} Stack;

static int64_t pick(Stack *r, int64_t n) // [0, n)
{
    r->seed = r->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((r->seed >> 33) % (uint64_t)n);
}

static int64_t size(const Stack *r, NodeId id, uint32_t axis)
{
    return graph_node(r->g, id)->shape->dim[axis];
}

static NodeId weights(Stack *r, uint32_t rank, const int64_t *dim)
{
    const Shape s = shape_of(rank, dim);
    Tensor v = tensor_new(r->g->arena, DTYPE_f32, rank, dim);
    for (int64_t i = 0; i < v.numel; i++)
        tensor_set_f64(&v, i, (double)(pick(r, 2001) - 1000) / 1500);
    return graph_const(r->g, DTYPE_f32, &s, v.data, type_bytes(DTYPE_f32, &s), (Span){0});
}

static NodeId pad(Stack *r, NodeId x, int64_t before, int64_t behind)
{
    NodeBuild b = node_begin(r->g, OP_pad, (Span){0}, NULL);
    node_src(&b, x);
    node_src(&b, graph_scalar(r->g, DTYPE_f32, (double)pick(r, 3) / 4, (Span){0}));
    node_ints(&b, A_pad_pads, (const int64_t[]){0, 0, before, 0, 0, behind}, 6);
    return node_end(&b);
}

static NodeId cut(Stack *r, NodeId x, int64_t from, int64_t to)
{
    NodeBuild b = node_begin(r->g, OP_slice, (Span){0}, NULL);
    node_slice(&b, x, 2, from, to, 1);
    return node_end(&b);
}

// A convolution whose padding is causal, central, or none; by its own pads, by a pad before it, or by a cut
// behind it.
static NodeId conv(Stack *r, NodeId x, int64_t channels, int64_t stride)
{
    const int64_t in = size(r, x, 1), group = pick(r, 3) == 0 && in == channels ? in : 1;
    const int64_t k = 1 + pick(r, 4), dilation = stride > 1 ? 1 : 1 + pick(r, 3), reach = (k - 1) * dilation;
    const int64_t style = pick(r, 5), before = style == 0 ? 0 : style == 1 ? reach / 2 : reach;
    const int64_t behind = style == 1 ? reach - before : style == 2 ? reach : 0;
    const int64_t time = size(r, x, 2);
    r->made.down *= stride;
    if (style == 3)
        x = pad(r, x, before, behind);
    NodeBuild b = node_begin(r->g, OP_conv, (Span){0}, NULL);
    node_src(&b, x);
    node_src(&b, weights(r, 3, (const int64_t[]){channels, in / group, k}));
    if (pick(r, 2))
        node_src(&b, weights(r, 1, &channels));
    node_int(&b, A_conv_group, group);
    node_ints(&b, A_conv_strides, &stride, 1);
    node_ints(&b, A_conv_dilations, &dilation, 1);
    node_ints(&b, A_conv_pads, (const int64_t[]){style == 3 ? 0 : before, style == 3 ? 0 : behind}, 2);
    NodeId y = node_end(&b);
    if (style == 2 && stride == 1 && behind > 0)
        return cut(r, y, 0, time);
    r->is_padded = r->is_padded || behind > 0;
    return y;
}

static NodeId spread(Stack *r, NodeId x, int64_t stride)
{
    const int64_t channels = size(r, x, 1), k = 1 + pick(r, 2 * stride + 1);
    const int64_t before = pick(r, k < 3 ? k : 3), behind = pick(r, 2) < k - before ? pick(r, 2) : 0;
    r->is_cut = r->is_cut || behind > 0 || k < stride;
    r->made.up *= stride;
    NodeBuild b = node_begin(r->g, OP_conv_transpose, (Span){0}, NULL);
    node_src(&b, x);
    node_src(&b, weights(r, 3, (const int64_t[]){channels, channels, k}));
    node_ints(&b, A_conv_transpose_strides, &stride, 1);
    node_ints(&b, A_conv_transpose_pads, (const int64_t[]){before, behind}, 2);
    return node_end(&b);
}

static NodeId pool(Stack *r, NodeId x, int64_t stride)
{
    const int64_t k = stride + pick(r, 3), before = pick(r, k);
    const bool is_max = pick(r, 2);
    r->made.down *= stride;
    NodeBuild b = node_begin(r->g, is_max ? OP_max_pool : OP_avg_pool, (Span){0}, NULL);
    const AttrId kernel = is_max ? A_max_pool_kernel : A_avg_pool_kernel;
    const AttrId strides = is_max ? A_max_pool_strides : A_avg_pool_strides;
    node_src(&b, x);
    node_ints(&b, kernel, &k, 1);
    node_ints(&b, strides, &stride, 1);
    node_ints(&b, is_max ? A_max_pool_pads : A_avg_pool_pads, (const int64_t[]){before, 0}, 2);
    if (!is_max)
        node_int(&b, A_avg_pool_count_include_pad, 1);
    return node_end(&b);
}

static NodeId lstm(Stack *r, NodeId x)
{
    const int64_t in = size(r, x, 1), h = 2 + pick(r, 3);
    static const int64_t first[] = {2, 0, 1}, back[] = {1, 2, 0};
    NodeBuild b = node_begin(r->g, OP_lstm, (Span){0}, NULL);
    node_src(&b, graph_transpose(r->g, x, first));
    node_src(&b, weights(r, 3, (const int64_t[]){1, 4 * h, in}));
    node_src(&b, weights(r, 3, (const int64_t[]){1, 4 * h, h}));
    node_src(&b, weights(r, 2, (const int64_t[]){1, 8 * h}));
    if (pick(r, 2))
        node_src(&b, weights(r, 3, (const int64_t[]){1, 1, h}));
    const NodeId y = node_end(&b);
    const Shape s = {.rank = 3, .dim = {size(r, x, 2), 1, h}};
    return graph_transpose(r->g, graph_reshape(r->g, y, &s), back);
}

// The norm of each frame.
static NodeId norm(Stack *r, NodeId x)
{
    static const int64_t turn[] = {0, 2, 1};
    NodeBuild b = node_begin(r->g, OP_layer_norm, (Span){0}, NULL);
    node_src(&b, graph_transpose(r->g, x, turn));
    return graph_transpose(r->g, node_end(&b), turn);
}

static NodeId gate(Stack *r, NodeId x)
{
    static const OpId ops[] = {OP_relu, OP_tanh, OP_neg, OP_square, OP_sigmoid};
    const NodeId y = graph_op1(r->g, ops[pick(r, 5)], x);
    return pick(r, 2) ? y : graph_op2(r->g, OP_mul, y, graph_op1(r->g, OP_sigmoid, x));
}

// With an earlier value of the same rate, cut to the same size and added or put beside it.
static NodeId join(Stack *r, NodeId x)
{
    for (int64_t tries = 0; tries < 6; tries++) {
        const int64_t which = pick(r, r->n);
        NodeId y = r->value[which];
        const Rate rate = r->rate[which];
        const int64_t more = size(r, y, 2) - size(r, x, 2);
        if (more < 0 || more > 8 || y == x || rate.up * r->made.down != r->made.up * rate.down)
            continue;
        const int64_t from = pick(r, more + 1);
        r->is_cut = r->is_cut || from < more;
        y = cut(r, y, from, from + size(r, x, 2));
        if (size(r, y, 1) == size(r, x, 1) && pick(r, 2))
            return graph_op2(r->g, OP_add, x, y);
        NodeBuild b = node_begin(r->g, OP_concat, (Span){0}, NULL);
        node_concat(&b, (const NodeId[]){x, y}, 2, 1);
        if (size(r, x, 1) + size(r, y, 1) < 12)
            return node_end(&b);
    }
    return x;
}

static NodeId layer(Stack *r, NodeId x)
{
    switch (pick(r, 12)) {
    case 0:
    case 1:
        return gate(r, x);
    case 2:
        return pool(r, x, size(r, x, 2) > 40 ? 1 + pick(r, 2) : 1);
    case 3:
        return size(r, x, 2) < 60 ? spread(r, x, 1 + pick(r, 3)) : gate(r, x);
    case 4:
        return lstm(r, x);
    case 5:
        return norm(r, x);
    case 6:
    case 7:
        return join(r, x);
    case 8:
        return conv(r, x, 1 + pick(r, 4), size(r, x, 2) > 40 ? 1 + pick(r, 3) : 1);
    default:
        return conv(r, x, 1 + pick(r, 4), 1);
    }
}

int64_t random_stack(Graph *g, uint64_t seed)
{
    Stack r = {.g = g, .seed = seed};
    pick(&r, 2);
    const Shape s = {.rank = 3, .dim = {1, 1 + pick(&r, 3), TIME}};
    const uint32_t layers = 2 + (uint32_t)pick(&r, LAYERS);
    NodeId x = r.value[r.n++] = graph_input(g, "x", DTYPE_f32, &s, (Span){0});
    r.rate[0] = (Rate){1, 1};
    for (uint32_t i = 0; i < layers; i++) {
        const Rate before = r.made = r.rate[r.n - 1];
        const NodeId y = layer(&r, x);
        const bool is_kept = y != 0 && size(&r, y, 2) >= 16;
        x = is_kept ? y : x;
        r.rate[r.n] = is_kept ? r.made : before;
        r.value[r.n++] = x;
    }
    graph_output(g, "y", x);
    if (pick(&r, 3) == 0 && r.value[r.n / 2] != x)
        graph_output(g, "inside", r.value[r.n / 2]);
    return r.is_cut && r.is_padded ? TIME / 2 : 0;
}
