// SPDX-License-Identifier: Apache-2.0
// The one function behind the VEC macro. Separate so that the growth policy has one home.
#include "base/vec.h"
#include "base/diag.h"

#include <string.h>

enum { FIRST_CAP = 8 };

void *vec_grow(Arena *a, const void *old, uint32_t len, uint32_t *cap, size_t elem_size)
{
    rlx_assert(elem_size != 0 && len <= *cap);
    if (*cap > UINT32_MAX / 2)
        arena_give_up("elements", (size_t)*cap * 2);
    *cap = *cap ? *cap * 2 : FIRST_CAP;
    void *data = arena_alloc_array(a, *cap, elem_size);
    if (len)
        memcpy(data, old, len * elem_size);
    return data;
}
