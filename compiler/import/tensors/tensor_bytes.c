// SPDX-License-Identifier: Apache-2.0
// Alignment and the values of bools: the two things that a file may get wrong and generated code relies on.
#include "compiler/import/tensors/tensor_bytes.h"

#include <string.h>

enum { BLOB_ALIGN = 8 }; // of the largest elements

const char *tensor_dirt(DType t)
{
    return t == DTYPE_bool ? "a bool that is neither 0 nor 1"
                           : "a byte that is not an extended 4- or 2-bit number";
}

bool tensor_set_bytes(Arena *a, Tensor *t, const void *bytes)
{
    rlx_assert(t->numel >= 0 && (bytes != NULL || t->numel == 0));
    size_t n = (size_t)t->numel * dtype_info[t->dtype].bytes;
    const unsigned char *p = bytes;
    const Tensor view = {.dtype = t->dtype, .numel = t->numel, .data = (void *)(uintptr_t)bytes};
    const bool is_checked = dtype_info[t->dtype].bits < 8 * dtype_info[t->dtype].bytes;
    for (int64_t i = 0; is_checked && i < t->numel; i++)
        if (!tensor_is_clean(&view, i))
            return false;
    if (n == 0)
        t->data = arena_alloc(a, 0);
    else if ((uintptr_t)p % BLOB_ALIGN == 0)
        memcpy(&t->data, &bytes, sizeof bytes); // Tensor.data is not const; files are mapped read-only
    else
        t->data = arena_copy(a, bytes, n);
    return true;
}
