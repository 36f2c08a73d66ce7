// SPDX-License-Identifier: Apache-2.0
// From bytes to ONNX messages, for files that nobody has checked: protobuf-c alone recurses as deep as the
// file says and allocates what the file asks for.
#ifndef COMPILER_IMPORT_ONNX_PROTO_H
#define COMPILER_IMPORT_ONNX_PROTO_H

#include "base/diag.h"
#include "onnx.pb-c.h"

// The model, in the arena. NULL: reported at `span`.
Onnx__ModelProto *onnx_proto_read(Arena *a, Diag *d, Span span, const void *data, size_t len);

#endif
