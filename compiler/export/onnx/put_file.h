// SPDX-License-Identifier: Apache-2.0
// Writes a graph as an ONNX model: the one header of this room that others need.
#ifndef COMPILER_EXPORT_ONNX_PUT_FILE_H
#define COMPILER_EXPORT_ONNX_PUT_FILE_H

#include "ir/graph/graph.h"

// The file, and NAME.onnx.data beside it, appear complete or not at all. False: reported, with the names of
// all nodes that ONNX has nothing for.
bool export_onnx(const Graph *g, const char *path, Diag *d);
// The same; if the tensors have more bytes than this, those of 1 KiB and more are in NAME.onnx.data. path:
// NULL for a model that is made, but not written.
bool export_onnx_with(const Graph *g, const char *path, Diag *d, uint64_t most_inside);

#endif
