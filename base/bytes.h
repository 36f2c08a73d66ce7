// SPDX-License-Identifier: Apache-2.0
// Numbers as files have them.
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

// The little-endian number of n bytes, at most 8, on every machine.
static inline uint64_t load_le(const void *from, size_t n)
{
    const unsigned char *p = (const unsigned char *)from;
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

#endif
