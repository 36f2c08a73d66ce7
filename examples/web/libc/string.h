// SPDX-License-Identifier: Apache-2.0
// What the generated code takes from <string.h>. With -mbulk-memory, memcpy and memmove are instructions of
// WebAssembly, or plain loads and stores where the size is a small constant.
#ifndef STRING_H
#define STRING_H
#include <stddef.h>
#define memcpy __builtin_memcpy
#define memmove __builtin_memmove
#define memset __builtin_memset

// Only calls by name need it; this page makes none.
static inline int strcmp(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

static inline int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *p = a, *q = b;
    size_t i = 0;
    while (i < n && p[i] == q[i])
        i++;
    return i < n ? p[i] - q[i] : 0;
}

#endif
