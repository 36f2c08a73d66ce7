// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft on weights of few bits in blocks: their packed bytes go to the op qmatmul as
// they are, and rows that are gathered from a table are unpacked after that.
#include "compiler/import/onnx/onnx_quant.h"

NodeId quant_unpacked(OnnxNode *n, NodeId x, int64_t bits)
{
    const Shape s = *onnx_shape(n, x);
    const int64_t count = 8 / bits;
    NodeId part[4];
    if (n->failed || count == 1)
        return x;
    if (s.rank == 0) {
        onnx_fail(n, E0204, "packed numbers need an axis");
        return 0;
    }
    for (int64_t i = 0; i < count; i++) {
        const NodeId moved = onnx_op2(n, OP_shift_right, x, onnx_scalar(n, DTYPE_u8, (double)(i * bits)));
        const NodeId low =
            onnx_op2(n, OP_bit_and, moved, onnx_scalar(n, DTYPE_u8, (double)((1 << bits) - 1)));
        part[i] = onnx_unsqueeze(n, low, (const int64_t[]){s.rank}, 1);
    }
    Shape wide = s;
    wide.dim[s.rank - 1] = dim_mul(n->graph->dims, s.dim[s.rank - 1], count);
    return onnx_reshape(n, onnx_concat(n, part, (uint32_t)count, s.rank), &wide);
}

static bool read_bits(OnnxNode *n, int64_t *bits)
{
    *bits = onnx_int(n, "bits", 4);
    return !n->failed &&
           (*bits == 2 || *bits == 4 || *bits == 8
                ? true
                : onnx_fail(n, E0206, "%lld bits are not supported, only 2, 4 and 8", (long long)*bits));
}

// Zero points [N, blocks], which are packed along their last axis when they are bytes.
static NodeId zero_points(OnnxNode *n, NodeId zero, int64_t columns, int64_t blocks, int64_t bits, DType type)
{
    if (!zero || n->failed)
        return 0;
    if (onnx_dtype(n, zero) == DTYPE_u8) {
        zero = quant_unpacked(n, onnx_reshape_to(n, zero, (const Dim[]){columns, -1}, 2), bits);
        zero = onnx_slice(n, zero, 1, 0, blocks, 1);
    }
    return onnx_cast(n, onnx_reshape_to(n, zero, (const Dim[]){columns, blocks}, 2), type);
}

void onnx_import_ms_matmul_nbits(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), w = onnx_src(n, 1), scale = onnx_src(n, 2), zero = onnx_opt(n, 3);
    const NodeId bias = onnx_opt(n, 5);
    const int64_t inner = onnx_int(n, "K", 0), columns = onnx_int(n, "N", 0),
                  block = onnx_int(n, "block_size", 0);
    int64_t bits = 0;
    const int64_t level = onnx_int(n, "accuracy_level", 0); // 4 asks for rows of 8 bits, others for floats
    if (!read_bits(n, &bits))
        return;
    if (onnx_flag(n, "weight_prepacked", 0))
        onnx_fail(n, E0206, "weights packed for a device are not supported");
    if (!n->failed && (inner < 1 || columns < 1 || block < 16 || block > 1 << 20 || block % 16 != 0))
        onnx_fail(n, E0203, "K, N and block_size are %lld, %lld and %lld", (long long)inner,
                  (long long)columns, (long long)block);
    if (n->failed)
        return;
    const DType type = onnx_dtype(n, x);
    const int64_t blocks = inner / block + (inner % block != 0);
    const NodeId packed = onnx_reshape_to(n, w, (const Dim[]){columns, blocks, block * bits / 8}, 3);
    const NodeId factors = onnx_cast(n, onnx_reshape_to(n, scale, (const Dim[]){columns, blocks}, 2), type);
    const NodeId zeros = zero_points(n, zero, columns, blocks, bits, type);
    NodeBuild b = ONNX_BEGIN(n, OP_qmatmul, x, packed, factors, zeros);
    node_int(&b, A_qmatmul_bits, bits);
    node_int(&b, A_qmatmul_x_bits, level == 4 && type == DTYPE_f32 ? 8 : 0);
    const NodeId y = onnx_end(n, &b);
    onnx_out(n, 0, bias ? onnx_op2(n, OP_add, y, bias) : y);
}

// Rows are gathered as they are stored, with their scales and zero points, and become numbers then.
void onnx_import_ms_gather_block_quantized(OnnxNode *n)
{
    const NodeId data = onnx_src(n, 0), indices = onnx_src(n, 1), scales = onnx_src(n, 2),
                 zeros = onnx_opt(n, 3);
    const int64_t block = onnx_int(n, "block_size", 128);
    const uint32_t rank = onnx_shape(n, data)->rank;
    uint32_t gather = 0, quantised = 0;
    int64_t bits = 0;
    if (!onnx_axis(n, onnx_int(n, "gather_axis", 0), rank, &gather) ||
        !onnx_axis(n, onnx_int(n, "quantize_axis", 1), rank, &quantised) || !read_bits(n, &bits))
        return;
    const bool is_packed = onnx_dtype(n, data) == DTYPE_u8;
    if (gather == quantised || (is_packed && bits < 8 && quantised + 1 != rank)) {
        onnx_fail(n, E0206,
                  "the blocks must lie along another axis than the rows, and packed ones along the last");
        return;
    }
    NodeId x = onnx_gather(n, data, indices, gather);
    NodeId zero = zeros ? onnx_gather(n, zeros, indices, gather) : 0;
    const NodeId scale = onnx_gather(n, scales, indices, gather);
    const uint32_t added = onnx_shape(n, indices)->rank;
    const uint32_t axis = quantised > gather ? quantised + added - 1 : quantised;
    if (is_packed) {
        x = quant_unpacked(n, x, bits);
        zero = zero ? quant_unpacked(n, zero, bits) : onnx_scalar(n, DTYPE_u8, (double)(1 << (bits - 1)));
    }
    if (n->failed)
        return;
    if (zeros && is_packed) // the last byte may hold more than there are blocks
        zero = onnx_slice(n, zero, axis, 0, onnx_const_dim(n, scale, axis), 1);
    onnx_out(n, 0, quant_blocks_to_float(n, x, scale, zero, axis, block));
}
