// SPDX-License-Identifier: Apache-2.0
// Strings. A tensor of strings of shape S is a node u8[S..., capacity] with the bytes of every string (UTF-8
// in ONNX), filled up with zeros: no string has a zero byte. Inputs have the capacity that the caller chose,
// constants that of their longest string, results what they need in the worst case; so nothing is ever cut
// off. OnnxValue.is_text marks such values: operators that read nodes refuse them.
#ifndef COMPILER_IMPORT_ONNX_ONNX_TEXT_H
#define COMPILER_IMPORT_ONNX_ONNX_TEXT_H

#include "compiler/import/onnx/onnx_import.h"

// Element type of strings in ONNX, and the capacity of inputs unless the caller says more.
enum { ONNX_STRING = 8, ONNX_TEXT_CAPACITY = 64 };
// Room for one string, at most.
enum { ONNX_MAX_TEXT = 1 << 20 };

static inline OnnxValue onnx_text_value(NodeId id)
{
    return (OnnxValue){.kind = id ? ONNX_NODE : ONNX_BROKEN, .is_text = true, .node = id};
}
// An operand that must be strings. 0: it is not (reported).
NodeId onnx_text_src(OnnxNode *n, uint32_t i);
void onnx_out_text(OnnxNode *n, uint32_t i, NodeId id);
// Shape without the bytes, and their number.
Shape onnx_text_shape(const OnnxNode *n, NodeId text);
int64_t onnx_text_capacity(const OnnxNode *n, NodeId text);
// The strings with room for more bytes each.
NodeId onnx_text_widen(OnnxNode *n, NodeId text, int64_t capacity);
// Strings in a list [count].
NodeId onnx_text_const(OnnxNode *n, const ProtobufCBinaryData *v, size_t count);
// Bytes `at` of every string, 0 where there are none: at broadcasts against the strings, with one axis for
// the positions at its end.
NodeId onnx_text_take(OnnxNode *n, NodeId text, NodeId at);
// Bytes of every string, i64, with an axis of size 1 in place of the bytes.
NodeId onnx_text_lengths(OnnxNode *n, NodeId text);

// Every byte moved `by` places to the back (by < 0: to the front); zeros come in. Also of other types.
NodeId onnx_text_shift(OnnxNode *n, NodeId text, int64_t by);
// Letters in lower or upper case (onnx_case.h).
NodeId onnx_text_change_case(OnnxNode *n, NodeId text, bool to_upper);
// Cast to and from strings.
NodeId onnx_text_number(OnnxNode *n, NodeId text, DType to);
NodeId onnx_text_of_numbers(OnnxNode *n, NodeId x);
// The first `count` (i64, a scalar that is computed) strings along an axis of result 0, which is sized by it.
NodeId onnx_text_first(OnnxNode *n, NodeId text, uint32_t axis, NodeId count);
// Parts of all strings by number: [..., parts, room]. less: bytes at the ends of parts that are not theirs;
// 0: none. (onnx_text_split.c)
typedef struct OnnxTextParts {
    NodeId text, part, is_inside; // of every byte: the number of its part, i64, and whether it belongs to it
    int64_t axis;                 // of the bytes
} OnnxTextParts;
NodeId onnx_text_parts(OnnxNode *n, const OnnxTextParts *p, NodeId index, NodeId less);
// The index of the last key that each string equals, i32, or -1.
NodeId onnx_text_find(OnnxNode *n, NodeId text, const ProtobufCBinaryData *keys, size_t count);

// Operators on strings that have no import function of their own for them: what moves elements moves
// positions, by which strings are then gathered. False: the operator is none of these.
bool onnx_import_moved_text(OnnxNode *n, const OnnxOp *row);
// Equal, Cast ... when they read or make strings. False: they do not.
bool onnx_import_text_variant(OnnxNode *n);

#endif
