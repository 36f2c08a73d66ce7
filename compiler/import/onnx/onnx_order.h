// SPDX-License-Identifier: Apache-2.0
// In which order the nodes of a graph are imported: separate from what importing one means.
#ifndef COMPILER_IMPORT_ONNX_ONNX_ORDER_H
#define COMPILER_IMPORT_ONNX_ONNX_ORDER_H

#include "compiler/import/onnx/onnx_import.h"

typedef struct OnnxPlace {
    uint32_t node;    // its index in the file
    bool is_in_cycle; // it needs its own result (reported)
} OnnxPlace;

// One place for each node of a graph, what it needs before it. The graph counts by its list of nodes, which
// lives as long as the model; it is sorted once, however often it is imported.
const OnnxPlace *onnx_node_order(OnnxScope *s, const Onnx__GraphProto *g);

#endif
