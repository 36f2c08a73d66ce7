// SPDX-License-Identifier: Apache-2.0
// From bytes to ONNX messages, for files that nobody has checked: protobuf-c alone recurses as deep as the
// file says and allocates what the file asks for.
#ifndef COMPILER_IMPORT_ONNX_ONNX_PROTO_H
#define COMPILER_IMPORT_ONNX_ONNX_PROTO_H

#include "base/diag.h"
#include "onnx.pb-c.h"

// The model, in the arena. NULL: reported at `span`.
Onnx__ModelProto *onnx_proto_read(Arena *a, Diag *d, Span span, const void *data, size_t len);

// Entry `index` of a field of messages or strings that the schema which rlxc was built with does not have
// yet, serialized. NULL: there is none.
const uint8_t *onnx_proto_extra(const ProtobufCMessage *m, uint32_t tag, uint32_t index, size_t *len);
// NULL: it is malformed.
const Onnx__AttributeProto *onnx_proto_attribute(Arena *a, const uint8_t *data, size_t len);

#endif
