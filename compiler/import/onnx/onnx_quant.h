// SPDX-License-Identifier: Apache-2.0
// Quantisation, for the importers of quantised operators: ONNX's own and those of com.microsoft.
#ifndef COMPILER_IMPORT_ONNX_ONNX_QUANT_H
#define COMPILER_IMPORT_ONNX_ONNX_QUANT_H

#include "compiler/import/onnx/onnx_import.h"

// A parameter of one axis, [n], in a shape that broadcasts to a tensor of that rank; [1] becomes a scalar,
// others stay as they are. 0 stays 0.
NodeId quant_along(OnnxNode *n, NodeId v, uint32_t rank, uint32_t axis);
// x - zero (0: none): as i32, or as f32 for 8-bit floats.
NodeId quant_centred(OnnxNode *n, NodeId x, NodeId zero);
// x, which is in steps, to a quantised type: integers as round(x) + zero within the range of the type, floats
// as x + zero, where `saturate` concerns those of 8 bits.
NodeId quant_saturate(OnnxNode *n, NodeId x, NodeId zero, DType type, bool saturate);
// y is x dequantised along an axis in blocks (0: none): kept in mind where products can read x packed.
void quant_remember(OnnxNode *n, NodeId y, NodeId x, NodeId scale, NodeId zero, uint32_t axis, int64_t block);
// a times b, read packed. 0: b is not such a matrix.
NodeId quant_product(OnnxNode *n, NodeId a, NodeId b);
// y is x dequantised: kept in mind for convolutions and products of y.
void qdq_remember(OnnxNode *n, NodeId y, const OnnxDequantised *from);
// With the window attributes of the node: exact sums of the bytes that x and weight were dequantised from,
// times their scales, plus the bias (0: none). 0: they were not.
NodeId qdq_conv(OnnxNode *n, NodeId x, NodeId weight, NodeId bias);
// The window of a ConvTranspose: pads are what is cut, at the begin of each axis and then at the end of each.
typedef struct OnnxTransposed {
    uint32_t axes;
    int64_t group;
    const int64_t *strides, *dilations, *pads, *output_padding;
} OnnxTransposed;

// Like qdq_conv, for a ConvTranspose whose strides divide its kernel.
NodeId qdq_conv_transpose(OnnxNode *n, NodeId x, NodeId weight, NodeId bias, const OnnxTransposed *of);
// Like qdq_conv, for a product with a matrix [K, N], or [N, K] when is_transposed.
NodeId qdq_matmul(OnnxNode *n, NodeId a, NodeId b, bool is_transposed);
// x / scale as quant_saturate gives it. Softmax of dequantised bytes is computed in integers; where x is made
// of integers times constants, the scale goes into these.
NodeId qdq_quantised(OnnxNode *n, NodeId x, NodeId scale, NodeId zero, DType type, bool saturate);
// Is it a constant of nothing but zeros?
bool quant_is_zero(OnnxNode *n, NodeId zero);
// Sums of the products of bytes, less their zero points (0, or of one element; that of w also [N]), as i32; w
// is a constant matrix as in qdq_matmul. 0: another kind of operands.
NodeId quant_rows(OnnxNode *n, NodeId x, NodeId x_zero, NodeId w, NodeId w_zero, bool is_transposed);
// (x - zero) * scale as f32, and back: all scalars, or in shapes that broadcast.
NodeId quant_to_f32(OnnxNode *n, NodeId x, NodeId scale, NodeId zero);
NodeId quant_from_f32(OnnxNode *n, NodeId x, NodeId scale, NodeId zero, DType type);
// (x - zero) * scale in the scale's type; an entry of scale and zero serves `block` elements of an axis, a
// zero
// that is a scalar serves all.
NodeId quant_blocks_to_float(OnnxNode *n, NodeId x, NodeId scale, NodeId zero, uint32_t axis, int64_t block);
// The numbers of 2, 4 or 8 bits in the bytes of the last axis, the first one in the lowest bits.
NodeId quant_unpacked(OnnxNode *n, NodeId x, int64_t bits);
// The product of integer matrices or 8-bit floats, less their zero points: of a per row, of b per column.
NodeId quant_matmul(OnnxNode *n, NodeId a, NodeId a_zero, NodeId b, NodeId b_zero);
// The quantisation of a whole tensor to u8 by its own range.
NodeId quant_dynamic(OnnxNode *n, NodeId x, NodeId *scale, NodeId *zero);

#endif
