// SPDX-License-Identifier: Apache-2.0
// Products with group-affine weights as products with blocks (blocks.h): scales and biases of the groups
// of a block go before their bits, and elements of 4 and 6 bits are put into planes as GGML has them. Of
// constants all of this is folded, of parameters it is computed once after they were set.
#include "ir/graph/blocks.h"
#include "passes/graph/expand.h"

enum { UNIT = 32 };

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
    node_concat(&b, part, n, -1);
    return node_end(&b);
}

// Elements [start, end) of the last axis, one of `step`.
static NodeId sliced(Graph *g, NodeId a, int64_t start, int64_t end, int64_t step)
{
    const int64_t axis = graph_node(g, a)->shape->rank - 1;
    NodeBuild b = expand_begin(g, OP_slice, a);
    node_slice(&b, a, axis, start, end, step);
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

typedef struct Groups {
    int64_t bits, per_word, inner; // inner: elements of a row
    int64_t group, parts, part;    // elements of a group, in so many parts of so many, filled up
    int64_t block, row;            // elements of a block, and of a row of blocks
} Groups;

// The last axis without what lies behind `size`.
static NodeId shortened(Graph *g, NodeId a, int64_t size)
{
    const Shape *s = graph_node(g, a)->shape;
    return s->dim[s->rank - 1] == size ? a : sliced(g, a, 0, size, 1);
}

// The last two axes as one.
static NodeId flat(Graph *g, NodeId a)
{
    Shape s = *graph_node(g, a)->shape;
    s.dim[s.rank - 2] *= s.dim[s.rank - 1];
    s.rank--;
    return graph_reshape(g, a, &s);
}

// n values of equal shapes in turns along the last axis.
static NodeId in_turns(Graph *g, NodeId *part, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        part[i] = cut(g, part[i], 1);
    return flat(g, joined(g, part, n));
}

// Elements of 4 bits, two in a byte, or of 6, four in three bytes.
static NodeId of_bytes(Graph *g, NodeId w, int64_t bits)
{
    const int64_t bytes = graph_node(g, w)->shape->dim[graph_node(g, w)->shape->rank - 1];
    if (bits == 8)
        return w;
    NodeId q[4] = {bits_of(g, w, 0, 15), bits_of(g, w, 4, 15), 0, 0};
    if (bits == 6) {
        const NodeId a = sliced(g, w, 0, bytes, 3), b = sliced(g, w, 1, bytes, 3);
        const NodeId c = sliced(g, w, 2, bytes, 3);
        q[0] = bits_of(g, a, 0, 63);
        q[1] = graph_op2(g, OP_bit_or, bits_of(g, a, 6, 3), placed(g, bits_of(g, b, 0, 15), 2));
        q[2] = graph_op2(g, OP_bit_or, bits_of(g, b, 4, 15), placed(g, bits_of(g, c, 0, 3), 4));
        q[3] = bits_of(g, c, 2, 63);
    }
    return in_turns(g, q, bits == 6 ? 4 : 2);
}

// All elements of the rows, u8 [.., columns, inner].
static NodeId elements_of(Graph *g, NodeId w, const Groups *of)
{
    NodeId q[8] = {0};
    if (graph_node(g, w)->dtype != DTYPE_u32)
        return of_bytes(g, flat(g, w), of->bits);
    if (of->per_word == 0)
        return of_bytes(g, shortened(g, flat(g, bytes_of(g, w)), of->inner * of->bits / 8), of->bits);
    for (int64_t i = 0; i < of->per_word; i++)
        q[i] = graph_cast(g, bits_of(g, w, i * of->bits, (1 << of->bits) - 1), DTYPE_u8);
    return shortened(g, in_turns(g, q, (uint32_t)of->per_word), of->inner);
}

// The last axis with zeros behind it, `size` elements in all.
static NodeId lengthened(Graph *g, NodeId a, int64_t size)
{
    const Shape *s = graph_node(g, a)->shape;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    pads[2 * s->rank - 1] = size - s->dim[s->rank - 1];
    if (pads[2 * s->rank - 1] == 0)
        return a;
    const uint32_t rank = s->rank;
    NodeBuild b = expand_begin(g, OP_pad, a);
    node_src(&b, a);
    node_ints(&b, A_pad_pads, pads, 2 * rank);
    return node_end(&b);
}

// Rows with zeros behind each group, and behind the last one, as far as blocks need them.
static NodeId filled(Graph *g, NodeId a, const Groups *of)
{
    if (of->parts * of->part != of->group)
        a = flat(g, lengthened(g, cut(g, a, of->group), of->parts * of->part));
    return lengthened(g, a, of->row);
}

// Blocks as planes: 4 bits of elements i and 16 + i in byte i of 16; of 6-bit ones then 2 bits of i, 8 + i,
// 16 + i and 24 + i in byte i of 8.
static NodeId planes_of(Graph *g, NodeId blocks, const Groups *of)
{
    const NodeId all = cut(g, blocks, UNIT);
    NodeId plane[2] = {0};
    const uint32_t n = of->bits == 6 ? 2 : 1;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t run = i == 0 ? 16 : 8, width = i == 0 ? 4 : 2;
        NodeId sum = 0;
        for (int64_t p = 0; p < UNIT / run; p++) {
            const NodeId part =
                bits_of(g, sliced(g, all, p * run, (p + 1) * run, 1), i == 0 ? 0 : 4, (1 << width) - 1);
            sum = p == 0 ? part : graph_op2(g, OP_bit_or, sum, placed(g, part, p * width));
        }
        plane[i] = flat(g, sum);
    }
    return joined(g, plane, n);
}

// A number of each group, for each of its parts.
static NodeId repeated(Graph *g, NodeId a, int64_t n)
{
    if (n == 1)
        return a;
    a = cut(g, a, 1);
    Shape s = *graph_node(g, a)->shape;
    s.dim[s.rank - 1] = n;
    NodeBuild b = expand_begin(g, OP_expand, a);
    node_src(&b, a);
    node_ints(&b, A_expand_shape, s.dim, s.rank);
    return flat(g, node_end(&b));
}

// Parts as short as blocks allow, filled up as far as makes rows the shortest.
static void choose_blocks(Groups *of)
{
    of->parts = (of->group + BLOCK_GROUP_MOST - 1) / BLOCK_GROUP_MOST;
    const int64_t first = (of->group + of->parts - 1) / of->parts, parts = of->inner / of->group * of->parts;
    of->row = INT64_MAX;
    for (int64_t part = first; part < first + UNIT; part++) {
        const int64_t block = block_group_elements(part);
        const int64_t row = block > 0 ? (parts * part + block - 1) / block * block : INT64_MAX;
        if (row < of->row) {
            of->part = part;
            of->block = block;
            of->row = row;
        }
    }
}

static Groups groups_of(const Graph *g, const Node *n, AttrId bits)
{
    const Shape *x = graph_node(g, n->src[0])->shape, *scale = graph_node(g, n->src[n->n_src - 1])->shape;
    Groups of = {.bits = node_get_int(n, bits),
                 .per_word = node_get_int(n, bits + 1), // the attribute behind it
                 .inner = x->dim[x->rank - 1]};
    of.group = of.inner / scale->dim[scale->rank - 1];
    choose_blocks(&of);
    return of;
}

// The bytes of the scale and the bias of each group, by blocks.
static NodeId pairs_of(Graph *g, const Node *n, const Groups *of)
{
    NodeId pair[2];
    for (uint32_t i = 0; i < 2; i++) {
        const NodeId each = repeated(g, n->src[n->n_src - 2 + i], of->parts);
        pair[i] = bytes_of(g, lengthened(g, each, of->row / of->part));
    }
    const NodeId all = joined(g, pair, 2);
    const Shape *s = graph_node(g, all)->shape;
    return cut(g, flat(g, all), of->block / of->part * s->dim[s->rank - 1]);
}

// The weights as blocks.
static NodeId blocks_of(Graph *g, const Node *n, const Groups *of)
{
    const NodeId blocks = cut(g, filled(g, elements_of(g, n->src[1], of), of), of->block);
    const NodeId part[2] = {pairs_of(g, n, of), of->bits == 8 ? blocks : planes_of(g, blocks, of)};
    return joined(g, part, 2);
}

// x with zeros where the weights are filled up.
static NodeId filled_rows(Graph *g, NodeId x, const Groups *of)
{
    Shape s = *graph_node(g, x)->shape;
    if (of->inner == of->row)
        return x;
    const Shape rows = {.rank = 2, .dim = {dim_product(g->dims, s.dim, s.rank - 1), of->inner}};
    s.dim[s.rank - 1] = of->row;
    return graph_reshape(g, filled(g, graph_reshape(g, x, &rows), of), &s);
}

// The op on blocks, with the operands but scale and bias.
static NodeId on_blocks(Graph *g, NodeId id, OpId op, AttrId bits, AttrId format)
{
    const Node n = *graph_node(g, id);
    const Groups of = groups_of(g, &n, bits);
    const NodeId w = blocks_of(g, &n, &of), x = filled_rows(g, n.src[0], &of);
    const DType type = (DType)graph_node(g, n.src[n.n_src - 1])->dtype;
    NodeBuild b = expand_begin(g, op, id);
    for (uint32_t i = 0; i + 2 < n.n_src; i++)
        node_src(&b, i == 0 ? x : i == 1 ? w : n.src[i]);
    node_str(&b, format, block_group_name(g->arena, of.bits, of.part, type));
    return node_end(&b);
}

NodeId expand_affine_matmul(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return on_blocks(g, id, OP_block_matmul, A_affine_matmul_bits, A_block_matmul_format);
}

NodeId expand_affine_grouped_matmul(Graph *g, NodeId id, uint32_t result)
{
    (void)result;
    return on_blocks(g, id, OP_block_grouped_matmul, A_affine_grouped_matmul_bits,
                     A_block_grouped_matmul_format);
}
