// SPDX-License-Identifier: Apache-2.0
// Products with group-affine weights as products with blocks: scale and bias of a group go before its bits,
// and elements of 4 and 6 bits are put into planes as GGML has them (ir/blocks.def, GROUPS). Of constants all
// of this is folded, of parameters it is computed once after they were set.
#include "ir/blocks.h"
#include "passes/expand.h"

static NodeId number(Graph *g, NodeId like, double v)
{
    return graph_scalar(g, (DType)graph_node(g, like)->dtype, v, node_span(g, like));
}

// (a >> by) & mask
static NodeId bits_of(Graph *g, NodeId a, int64_t by, int64_t mask)
{
    if (by > 0)
        a = graph_op2(g, OP_shift_right, a, number(g, a, (double)by));
    return graph_op2(g, OP_bit_and, a, number(g, a, (double)mask));
}

static NodeId placed(Graph *g, NodeId a, int64_t by)
{
    return by > 0 ? graph_op2(g, OP_shift_left, a, number(g, a, (double)by)) : a;
}

static NodeId joined(Graph *g, const NodeId *part, uint32_t n)
{
    NodeBuild b = expand_begin(g, OP_concat, part[0]);
    for (uint32_t i = 0; i < n; i++)
        node_src(&b, part[i]);
    node_int(&b, A_concat_axis, -1);
    return node_end(&b);
}

// Elements [start, end) of the last axis, one of `step`.
static NodeId sliced(Graph *g, NodeId a, int64_t start, int64_t end, int64_t step)
{
    const int64_t axis = graph_node(g, a)->shape->rank - 1;
    NodeBuild b = expand_begin(g, OP_slice, a);
    node_src(&b, a);
    node_ints(&b, A_slice_starts, &start, 1);
    node_ints(&b, A_slice_ends, &end, 1);
    node_ints(&b, A_slice_axes, &axis, 1);
    node_ints(&b, A_slice_steps, &step, 1);
    return node_end(&b);
}

// The last axis cut into two, of `last` elements each.
static NodeId cut(Graph *g, NodeId a, Dim last)
{
    Shape s = *graph_node(g, a)->shape;
    s.dim[s.rank - 1] /= last;
    s.dim[s.rank++] = last;
    return graph_reshape(g, a, &s);
}

// The bytes of elements as one more axis, the lowest first.
static NodeId bytes_of(Graph *g, NodeId a)
{
    static const DType unsigned_of[] = {[2] = DTYPE_u16, [4] = DTYPE_u32};
    const uint32_t n = dtype_info[graph_node(g, a)->dtype].bytes;
    NodeId part[4] = {0};
    NodeBuild b = expand_begin(g, OP_bitcast, a);
    node_src(&b, a);
    node_int(&b, A_bitcast_to, unsigned_of[n]);
    const NodeId whole = cut(g, node_end(&b), 1);
    for (uint32_t i = 0; i < n; i++)
        part[i] = graph_cast(g, bits_of(g, whole, 8 * i, 255), DTYPE_u8);
    return joined(g, part, n);
}

// Elements of 4 bits, two in a byte, or of 6, four in three bytes, with 32 of them as the last axis.
static NodeId elements_of(Graph *g, NodeId w, int64_t bits)
{
    const int64_t bytes = graph_node(g, w)->shape->dim[graph_node(g, w)->shape->rank - 1];
    NodeId q[4] = {bits_of(g, w, 0, 15), bits_of(g, w, 4, 15), 0, 0};
    if (bits == 6) {
        const NodeId a = sliced(g, w, 0, bytes, 3), b = sliced(g, w, 1, bytes, 3);
        const NodeId c = sliced(g, w, 2, bytes, 3);
        q[0] = bits_of(g, a, 0, 63);
        q[1] = graph_op2(g, OP_bit_or, bits_of(g, a, 6, 3), placed(g, bits_of(g, b, 0, 15), 2));
        q[2] = graph_op2(g, OP_bit_or, bits_of(g, b, 4, 15), placed(g, bits_of(g, c, 0, 3), 4));
        q[3] = bits_of(g, c, 2, 63);
    }
    const uint32_t n = bits == 6 ? 4 : 2;
    for (uint32_t i = 0; i < n; i++)
        q[i] = cut(g, q[i], 1);
    Shape s = *graph_node(g, w)->shape;
    s.dim[s.rank - 1] = bytes * 8 / bits / 32;
    s.dim[s.rank++] = 32;
    return graph_reshape(g, joined(g, q, n), &s);
}

// Groups as planes: 4 bits of elements i and 16 + i in byte i of 16; of 6-bit ones then 2 bits of i, 8 + i,
// 16 + i and 24 + i in byte i of 8.
static NodeId planes_of(Graph *g, NodeId w, int64_t bits)
{
    const int64_t bytes = graph_node(g, w)->shape->dim[graph_node(g, w)->shape->rank - 1];
    const NodeId all = elements_of(g, w, bits);
    NodeId plane[2] = {0};
    const uint32_t n = bits == 6 ? 2 : 1;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t run = i == 0 ? 16 : 8, width = i == 0 ? 4 : 2;
        NodeId sum = 0;
        for (int64_t p = 0; p < 32 / run; p++) {
            const NodeId part =
                bits_of(g, sliced(g, all, p * run, (p + 1) * run, 1), i == 0 ? 0 : 4, (1 << width) - 1);
            sum = p == 0 ? part : graph_op2(g, OP_bit_or, sum, placed(g, part, p * width));
        }
        Shape flat = *graph_node(g, w)->shape;
        flat.dim[flat.rank - 1] = bytes * 8 / bits / 32 * run;
        plane[i] = graph_reshape(g, sum, &flat);
    }
    return joined(g, plane, n);
}

// The weights as blocks, and the name of their format.
static NodeId blocks_of(Graph *g, NodeId w, NodeId scale, NodeId bias, int64_t bits, const char **name)
{
    static const char *const kinds[DTYPE_COUNT] = {
        [DTYPE_f16] = "f16", [DTYPE_bf16] = "bf16", [DTYPE_f32] = "f32"};
    const Shape groups = *graph_node(g, scale)->shape;
    if (graph_node(g, w)->dtype == DTYPE_u32)
        w = bytes_of(g, w);
    const int64_t count = groups.dim[groups.rank - 1];
    Shape s = groups;
    int64_t row = 1;
    for (uint32_t i = groups.rank - 1; i < graph_node(g, w)->shape->rank; i++)
        row *= graph_node(g, w)->shape->dim[i];
    s.dim[s.rank++] = row / count;
    w = graph_reshape(g, w, &s);
    Str text = str_new(g->arena);
    str_printf(&text, "affine%d_%d_%s", (int)bits, (int)(s.dim[s.rank - 1] * 8 / bits),
               kinds[graph_node(g, scale)->dtype]);
    *name = str_text(&text);
    const NodeId part[3] = {bytes_of(g, scale), bytes_of(g, bias), bits == 8 ? w : planes_of(g, w, bits)};
    return joined(g, part, 3);
}

// The op on blocks, with the operands but scale and bias.
static NodeId on_blocks(Graph *g, NodeId id, OpId op, int64_t bits, uint32_t format_attr)
{
    const Node n = *graph_node(g, id);
    const char *format = NULL;
    const NodeId w = blocks_of(g, n.src[1], n.src[n.n_src - 2], n.src[n.n_src - 1], bits, &format);
    NodeBuild b = expand_begin(g, op, id);
    for (uint32_t i = 0; i + 2 < n.n_src; i++)
        node_src(&b, i == 1 ? w : n.src[i]);
    node_str(&b, format_attr, format);
    return node_end(&b);
}

NodeId expand_affine_matmul(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return on_blocks(g, id, OP_block_matmul, node_get_int(graph_node(g, id), A_affine_matmul_bits),
                     A_block_matmul_format);
}

NodeId expand_affine_grouped_matmul(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return on_blocks(g, id, OP_block_grouped_matmul,
                     node_get_int(graph_node(g, id), A_affine_grouped_matmul_bits),
                     A_block_grouped_matmul_format);
}
