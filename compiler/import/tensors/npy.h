// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files: one tensor with its type and shape.
#ifndef COMPILER_IMPORT_TENSORS_NPY_H
#define COMPILER_IMPORT_TENSORS_NPY_H

#include "ir/graph/tensor.h"

// Reads a file that is in memory (see rawfile.h). The result points into data where that is aligned to 16
// bytes, else into a copy. name is for messages, which are reported at `where`. Versions 1 to 3, C order,
// little-endian. bf16, which NumPy lacks, is `<V2`.
bool npy_read(Arena *a, Diag *d, Span where, const char *name, const void *data, size_t len, Tensor *out);
// Reads the bytes of a tensor as a narrow type (f8e4m3fn, i4 ...), of which files do not say which one it is:
// as bytes of any kind, or as integers. False: it has another type than `wanted`, which is none of these.
bool npy_retype(Arena *a, Tensor *t, DType wanted);
// Narrow floats as bytes (|V1), narrow integers as |i1 and |u1.
bool npy_write(Diag *d, const char *path, const Tensor *t);
// Any elements, under the name that NumPy has for their type.
bool npy_write_raw(Diag *d, const char *path, const char *descr, uint32_t rank, const int64_t *dim,
                   const void *data, uint64_t bytes);

// --- strings (npy_text.c) ---
// A file of strings as it is: `<U` or `|S`, each of `length` characters.
typedef struct NpyText {
    uint32_t length, rank;
    bool is_wide; // `<U`: UCS-4; else bytes
    int64_t dim[SHAPE_MAX_RANK], numel;
    const uint8_t *data;
} NpyText;

// False: the file holds no strings, or is none; nothing is reported then.
bool npy_find_text(const void *data, size_t len, NpyText *out);
// Converts text to UTF-8: u8 with `capacity` bytes as one more axis, filled up with zeros.
bool npy_convert_text(Arena *a, Diag *d, Span where, const char *name, const NpyText *t, int64_t capacity,
                      Tensor *out);
// Writes such a tensor as `<U`; what is not UTF-8 becomes U+FFFD.
bool npy_write_text(Diag *d, const char *path, const Tensor *t);

#endif
