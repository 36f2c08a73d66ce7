// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Reads what a GGUF file says of itself. Files may be hostile: every count, length and offset is compared
// with what is left of the file before it is used. The compiler uses it too, for the sums that a program
// compares.
#ifndef RLX_LOAD_FILE_H
#define RLX_LOAD_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RLX_LOAD_RANK = 4, RLX_LOAD_NAME_BYTES = 64, RLX_LOAD_LEAST_ENTRY = 13, RLX_LOAD_LEAST_TENSOR = 24 };

typedef struct rlx_load_reader {
    const unsigned char *data;
    size_t n, at;
    int failed; // something was beyond the end, or cannot be
} rlx_load_reader;

// The next n bytes; NULL: there are not so many.
static inline const unsigned char *rlx_load_take(rlx_load_reader *r, uint64_t n)
{
    const unsigned char *begin = r->data + r->at;
    if (r->failed || n > r->n - r->at) {
        r->failed = 1;
        return NULL;
    }
    r->at += (size_t)n;
    return begin;
}

static inline uint32_t rlx_load_u32(rlx_load_reader *r)
{
    uint32_t v = 0;
    const unsigned char *p = rlx_load_take(r, sizeof v);
    if (p != NULL)
        memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t rlx_load_u64(rlx_load_reader *r)
{
    uint64_t v = 0;
    const unsigned char *p = rlx_load_take(r, sizeof v);
    if (p != NULL)
        memcpy(&v, p, sizeof v);
    return v;
}

typedef struct rlx_load_word {
    const unsigned char *data; // NULL: it could not be read
    size_t n;
} rlx_load_word;

static inline rlx_load_word rlx_load_string(rlx_load_reader *r)
{
    rlx_load_word w;
    const uint64_t n = rlx_load_u64(r);
    w.data = rlx_load_take(r, n);
    w.n = w.data != NULL ? (size_t)n : 0;
    return w;
}

static inline int rlx_load_begins(rlx_load_word w, const char *text)
{
    const size_t n = strlen(text);
    return w.data != NULL && w.n >= n && memcmp(w.data, text, n) == 0;
}

static inline int rlx_load_is(rlx_load_word w, const char *text)
{
    return w.n == strlen(text) && rlx_load_begins(w, text);
}

// Values are numbers of so many bytes; of strings and arrays 0.
enum { RLX_LOAD_TYPE_U32 = 4, RLX_LOAD_TYPE_STRING = 8, RLX_LOAD_TYPE_ARRAY = 9, RLX_LOAD_TYPES = 13 };
static inline uint32_t rlx_load_value_bytes(uint32_t type)
{
    static const unsigned char bytes[RLX_LOAD_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < RLX_LOAD_TYPES ? bytes[type] : 0;
}

// n values of a type that is no array.
static inline void rlx_load_skip(rlx_load_reader *r, uint32_t type, uint64_t n)
{
    const uint32_t bytes = rlx_load_value_bytes(type);
    uint64_t i;
    if (bytes != 0 && n <= (r->n - r->at) / bytes)
        (void)rlx_load_take(r, n * bytes);
    else if (type == RLX_LOAD_TYPE_STRING)
        for (i = 0; i < n && !r->failed; i++)
            (void)rlx_load_string(r);
    else
        r->failed = 1;
}

static inline void rlx_load_skip_value(rlx_load_reader *r, uint32_t type)
{
    uint64_t n = 1;
    if (type == RLX_LOAD_TYPE_ARRAY) { // never of arrays
        type = rlx_load_u32(r);
        n = rlx_load_u64(r);
    }
    rlx_load_skip(r, type, n);
}

static inline uint64_t rlx_load_sum(const unsigned char *bytes, uint64_t n)
{
    uint64_t h = 0xcbf29ce484222325u, i;
    for (i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h ^ (h >> 32);
}

// What a file says of its model, in any order.
typedef struct rlx_load_head {
    uint64_t n_tensors, n_entries;
    uint64_t settings, vocabulary; // sums over the entries of the architecture, and over those of tokens
    uint32_t alignment;
} rlx_load_head;

static inline void rlx_load_entry(rlx_load_reader *r, const char *arch, rlx_load_head *h)
{
    const size_t begin = r->at;
    const rlx_load_word key = rlx_load_string(r);
    const uint32_t type = rlx_load_u32(r);
    const size_t value = r->at, n = strlen(arch);
    const int is_of_arch = rlx_load_begins(key, arch) && key.n > n && key.data[n] == '.';
    rlx_load_skip_value(r, type);
    if (r->failed)
        return;
    if (is_of_arch || rlx_load_is(key, "general.architecture"))
        h->settings += rlx_load_sum(r->data + begin, r->at - begin);
    if (rlx_load_begins(key, "tokenizer.ggml."))
        h->vocabulary += rlx_load_sum(r->data + begin, r->at - begin);
    if (rlx_load_is(key, "general.alignment") && type == RLX_LOAD_TYPE_U32)
        memcpy(&h->alignment, r->data + value, sizeof h->alignment);
}

// Up to the tensors. 0: it is no GGUF file of a version that is read. Failed: it is damaged.
static inline int rlx_load_head_of(rlx_load_reader *r, const char *arch, rlx_load_head *h)
{
    const unsigned char *magic = rlx_load_take(r, 4);
    const uint32_t version = rlx_load_u32(r);
    uint64_t i;
    memset(h, 0, sizeof *h);
    h->alignment = 32;
    if (magic == NULL || memcmp(magic, "GGUF", 4) != 0 || version < 2 || version > 3)
        return 0;
    h->n_tensors = rlx_load_u64(r);
    h->n_entries = rlx_load_u64(r);
    r->failed = r->failed || h->n_tensors > (r->n - r->at) / RLX_LOAD_LEAST_TENSOR ||
                h->n_entries > (r->n - r->at) / RLX_LOAD_LEAST_ENTRY;
    for (i = 0; i < h->n_entries && !r->failed; i++)
        rlx_load_entry(r, arch, h);
    r->failed = r->failed || h->alignment < 8 || (h->alignment & (h->alignment - 1)) != 0;
    return 1;
}

// A tensor as the model was compiled with; sizes innermost first, 1 beyond the rank.
typedef struct rlx_load_tensor {
    const char *name;
    uint64_t dim[RLX_LOAD_RANK];
    uint32_t type;
    int is_fixed; // its values are a part of the code
    uint64_t bytes, sum; // sum: of those values
} rlx_load_tensor;

static inline int rlx_load_compare(rlx_load_word w, const char *name)
{
    const size_t n = strlen(name), least = n < w.n ? n : w.n;
    const int order = least != 0 ? memcmp(w.data, name, least) : 0;
    return order != 0 ? order : (w.n > n) - (w.n < n);
}

// The number of the tensor of that name in a sorted table; n: there is none.
static inline uint32_t rlx_load_find(const rlx_load_tensor *tensors, uint32_t n, rlx_load_word name)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = rlx_load_compare(name, tensors[middle].name);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return n;
}

// Has the next tensor of the file the shape and type of t? *offset: where it is in the data.
static inline int rlx_load_is_like(rlx_load_reader *r, const rlx_load_tensor *t, uint64_t *offset)
{
    const uint32_t rank = rlx_load_u32(r);
    int same = rank >= 1 && rank <= RLX_LOAD_RANK;
    uint32_t i;
    for (i = 0; i < RLX_LOAD_RANK && same; i++)
        same = (i < rank ? rlx_load_u64(r) : 1) == t->dim[i];
    same = same && rlx_load_u32(r) == t->type;
    *offset = same ? rlx_load_u64(r) : 0;
    return same;
}

#endif
