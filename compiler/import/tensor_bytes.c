// SPDX-License-Identifier: Apache-2.0
// Alignment and the values of bools: the two things that a file may get wrong and generated code relies on.
#include "compiler/import/tensor_bytes.h"

#include <string.h>

enum { BLOB_ALIGN = 16 };

bool tensor_set_bytes(Arena *a, Tensor *t, const void *bytes)
{
    size_t n = (size_t)t->numel * dtype_info[t->dtype].bytes;
    const unsigned char *p = bytes;
    for (size_t i = 0; t->dtype == DTYPE_bool && i < n; i++)
        if (p[i] > 1)
            return false;
    if (n == 0)
        t->data = arena_alloc(a, 0);
    else if ((uintptr_t)p % BLOB_ALIGN == 0)
        memcpy(&t->data, &bytes, sizeof bytes); // Tensor.data is not const; files are mapped read-only
    else
        t->data = arena_copy(a, bytes, n);
    return true;
}
