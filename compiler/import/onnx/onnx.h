// SPDX-License-Identifier: Apache-2.0
// ONNX import with numbers for symbolic sizes and values for inputs. Binding a size later (graph_bind) is
// enough for most models; those that compute with sizes as data, or choose an If branch by them, import only
// when the numbers are known from the start.
#ifndef COMPILER_IMPORT_ONNX_ONNX_H
#define COMPILER_IMPORT_ONNX_ONNX_H

#include "compiler/import/import.h"

typedef struct OnnxSource {
    const char *name; // for messages
    const void *data; // must live as long as the graph
    size_t len;
    const char *dir; // folder of external tensor data
    ImportOptions options;
} OnnxSource;

// The symbols of the sizes are in the graph's table all the same, but no shape uses them.
bool import_onnx_source(Arena *a, Diag *d, const OnnxSource *source, Graph **out);

#endif
