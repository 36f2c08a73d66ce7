// SPDX-License-Identifier: Apache-2.0
// Writes the bytes of GGUF files for tests, piece by piece, right or wrong.
#ifndef TESTS_UNIT_GGUF_BYTES_H
#define TESTS_UNIT_GGUF_BYTES_H

#include "base/str.h"

#include <string.h>

static inline void gguf_put(Str *s, uint64_t v, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        str_char(s, (char)(v >> 8 * i));
}

static inline void gguf_put_text(Str *s, const char *text)
{
    gguf_put(s, strlen(text), 8);
    str_add(s, text);
}

static inline void gguf_put_header(Str *s, uint64_t tensors, uint64_t entries)
{
    str_add(s, "GGUF");
    gguf_put(s, 3, 4);
    gguf_put(s, tensors, 8);
    gguf_put(s, entries, 8);
}

// A scalar of so many bytes. type: the number of the file.
static inline void gguf_put_entry(Str *s, const char *key, uint32_t type, uint64_t v, uint32_t bytes)
{
    gguf_put_text(s, key);
    gguf_put(s, type, 4);
    gguf_put(s, v, bytes);
}

static inline void gguf_put_string(Str *s, const char *key, const char *text)
{
    gguf_put_text(s, key);
    gguf_put(s, 8, 4);
    gguf_put_text(s, text);
}

// The key of an array, its type and count; the elements follow.
static inline void gguf_put_array(Str *s, const char *key, uint32_t type, uint64_t n)
{
    gguf_put_entry(s, key, 9, type, 4);
    gguf_put(s, n, 8);
}

// A tensor of two sizes, innermost first.
static inline void gguf_put_tensor(Str *s, const char *name, const uint64_t *dim, uint32_t type,
                                   uint64_t offset)
{
    gguf_put_text(s, name);
    gguf_put(s, 2, 4);
    gguf_put(s, dim[0], 8);
    gguf_put(s, dim[1], 8);
    gguf_put(s, type, 4);
    gguf_put(s, offset, 8);
}

// Zeros up to a multiple of the alignment, and n bytes that count.
static inline void gguf_put_data(Str *s, uint32_t alignment, size_t n)
{
    while (s->len % alignment != 0)
        str_char(s, 0);
    for (size_t i = 0; i < n; i++)
        str_char(s, (char)i);
}

#endif
