// SPDX-License-Identifier: Apache-2.0
// Growable typed arrays in an arena: `VEC(NodeId) ids = {0}; vec_push(a, &ids, id);`.
// Pointers into data are valid until the next push.
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/arena.h"

#define VEC(T)                                                                                               \
    struct {                                                                                                 \
        T *data;                                                                                             \
        uint32_t len;                                                                                        \
        uint32_t cap;                                                                                        \
    }

#define vec_push(arena, v, value)                                                                            \
    do {                                                                                                     \
        if ((v)->len == (v)->cap)                                                                            \
            (v)->data = vec_grow((arena), (v)->data, (v)->len, &(v)->cap, sizeof *(v)->data);                \
        (v)->data[(v)->len++] = (value);                                                                     \
    } while (0)

// A block of at least twice the capacity with the first len elements of old.
void *vec_grow(Arena *a, const void *old, uint32_t len, uint32_t *cap, size_t elem_size);

#endif
