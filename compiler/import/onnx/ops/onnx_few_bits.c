// SPDX-License-Identifier: Apache-2.0
// Constant matrices of 4 and 2 bits between DequantizeLinear and MatMul. As floats they would be eight times
// as large as in the file; instead they are packed for the op qmatmul, which takes them apart in registers.
#include "compiler/import/onnx/onnx_quant.h"

static bool is_few_bits(DType t)
{
    return t == DTYPE_i4 || t == DTYPE_u4 || t == DTYPE_i2 || t == DTYPE_u2;
}

void quant_remember(OnnxNode *n, NodeId y, NodeId x, NodeId scale, NodeId zero, uint32_t axis, int64_t block)
{
    OnnxModel *m = n->model;
    if (n->failed || node_is_const(n->graph, y) || !is_few_bits(onnx_dtype(n, x)) ||
        onnx_dtype(n, y) != DTYPE_f32)
        return;
    if (!node_is_const(n->graph, x) || !node_is_const(n->graph, scale) ||
        (zero && !node_is_const(n->graph, zero)))
        return;
    const Shape s = *onnx_shape(n, x);
    const uint32_t rank = onnx_shape(n, scale)->rank;
    const bool is_blocked = block > 0 && axis == 0, is_per_column = block == 0 && (rank == 0 || axis == 1);
    if (s.rank != 2 || (!is_blocked && !is_per_column) || onnx_dtype(n, scale) != DTYPE_f32)
        return;
    const int64_t size = is_blocked ? block : s.dim[0];
    if (size % 16 != 0 || size < 16 || size > INT32_MAX)
        return;
    const OnnxFewBits f = {n->graph, y, x, scale, zero, axis, size, {0}};
    vec_push(m->arena, &m->few_bits, f);
}

// [N, blocks, bytes], as numbers above the least of the type.
static NodeId pack_weights(OnnxNode *n, const OnnxFewBits *f)
{
    const Tensor x = tensor_of_const(n->graph, f->x);
    const DTypeInfo *info = &dtype_info[x.dtype];
    rlx_assert(x.rank == 2 && f->block > 0 && 8 % info->bits == 0);
    const int64_t inner = x.dim[0], columns = x.dim[1], bits = info->bits, per_byte = 8 / bits;
    const int64_t blocks = inner / f->block + (inner % f->block != 0), blob = f->block / per_byte;
    const int64_t least = info->cls == DCLASS_INT ? -((int64_t)1 << (bits - 1)) : 0;
    const Shape shape = {.rank = 3, .dim = {columns, blocks, blob}};
    const uint64_t bytes = (uint64_t)shape_numel(&shape);
    uint8_t *out = ARENA_ARRAY(n->model->arena, uint8_t, bytes);
    for (int64_t k = 0; k < inner; k++)
        for (int64_t c = 0; c < columns; c++) {
            const uint8_t q = (uint8_t)(tensor_get_i64(&x, k * columns + c) - least);
            const int64_t at = (c * blocks + k / f->block) * blob + k % f->block / per_byte;
            out[at] = (uint8_t)(out[at] | q << (k % per_byte * bits));
        }
    return onnx_const(n, DTYPE_u8, &shape, out, bytes);
}

// Parameters [blocks, N], [N] or of one element, as [N, blocks].
static NodeId per_column(OnnxNode *n, const OnnxFewBits *f, NodeId v)
{
    const Dim columns = onnx_shape(n, f->x)->dim[1];
    if (onnx_shape(n, v)->rank == 2)
        return onnx_transpose(n, v, (const int64_t[]){1, 0});
    v = onnx_reshape_to(n, v, (const Dim[]){-1, 1}, 2);
    return onnx_expand(n, v, (const Dim[]){columns, 1}, 2);
}

// Zero points in numbers above the least of the type; half of the range needs none.
static NodeId zero_points(OnnxNode *n, const OnnxFewBits *f)
{
    const DType t = onnx_dtype(n, f->x);
    const bool is_signed = dtype_info[t].cls == DCLASS_INT;
    if (!f->zero && is_signed)
        return 0;
    if (!f->zero) {
        const Shape s = *onnx_shape(n, f->packed[1]);
        return onnx_expand(n, onnx_scalar(n, DTYPE_f32, 0), s.dim, s.rank);
    }
    const double half = is_signed ? (double)(1 << (dtype_info[t].bits - 1)) : 0;
    const NodeId zero = onnx_cast(n, per_column(n, f, f->zero), DTYPE_f32);
    return onnx_op2(n, OP_add, zero, onnx_scalar(n, DTYPE_f32, half));
}

NodeId quant_product(OnnxNode *n, NodeId a, NodeId b)
{
    OnnxModel *m = n->model;
    OnnxFewBits *f = NULL;
    for (uint32_t i = 0; i < m->few_bits.len && !n->failed; i++)
        if (m->few_bits.data[i].graph == n->graph && m->few_bits.data[i].y == b)
            f = &m->few_bits.data[i];
    const Shape *s = onnx_shape(n, a);
    if (!f || n->failed || onnx_dtype(n, a) != DTYPE_f32 || s->rank < 1 ||
        s->dim[s->rank - 1] != onnx_shape(n, f->x)->dim[0])
        return 0;
    if (!f->packed[0]) {
        f->packed[0] = pack_weights(n, f);
        f->packed[1] = per_column(n, f, f->scale);
        f->packed[2] = zero_points(n, f);
    }
    NodeBuild build = ONNX_BEGIN(n, OP_qmatmul, a);
    for (uint32_t i = 0; i < 3; i++)
        node_src(&build, f->packed[i]);
    node_int(&build, A_qmatmul_bits, dtype_info[onnx_dtype(n, f->x)].bits);
    return onnx_end(n, &build);
}
