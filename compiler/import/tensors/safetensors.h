// SPDX-License-Identifier: Apache-2.0
// Files in the safetensors format: a JSON header with names, types, shapes and byte ranges, then the bytes.
#ifndef COMPILER_IMPORT_TENSORS_SAFETENSORS_H
#define COMPILER_IMPORT_TENSORS_SAFETENSORS_H

#include "compiler/system/output_files.h"
#include "ir/graph/graph.h"
#include "ir/graph/tensor.h"

typedef struct SafeTensor {
    const char *name;
    Tensor tensor; // data points into the file, at any alignment
} SafeTensor;

typedef struct SafeTensors {
    const char *path;
    VEC(SafeTensor)
    tensors;          // in the order of the header
    Map index;        // by name, into tensors
    GraphNotes notes; // the texts of "__metadata__"
} SafeTensors;

// Maps the file and checks its whole header: every tensor lies in the file and has the size that type and
// shape say. False: reported at `where`. Tensors of types that rlxc lacks are left out.
bool safetensors_open(Arena *a, Diag *d, Span where, const char *path, SafeTensors *out);
// Like safetensors_open, for bytes in memory.
bool safetensors_read(Arena *a, Diag *d, Span where, const char *path, const void *data, size_t len,
                      SafeTensors *out);
// NULL when there is none of that name.
const SafeTensor *safetensors_find(const SafeTensors *s, const char *name);
// Tensors and notes of a file to be, beside others that belong to it; its index is not used. False: it is not
// complete; output_end says why.
bool safetensors_write(OutputFiles *f, const char *name, const SafeTensors *file);

#endif
