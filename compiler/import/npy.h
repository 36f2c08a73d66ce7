// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files: one tensor with its type and shape.
#ifndef COMPILER_IMPORT_NPY_H
#define COMPILER_IMPORT_NPY_H

#include "ir/tensor.h"

// Reads a file that is in memory (see rawfile.h). The result points into data where that is aligned to 16
// bytes, else into a copy. name is for messages, which are reported at `where`. Versions 1 to 3, C order,
// little-endian. bf16, which NumPy lacks, is `<V2`.
bool npy_read(Arena *a, Diag *d, Span where, const char *name, const void *data, size_t len, Tensor *out);
bool npy_write(Diag *d, const char *path, const Tensor *t);

#endif
