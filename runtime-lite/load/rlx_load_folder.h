// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Reads what the files of a folder of Hugging Face say of themselves: .safetensors files, and config.json.
// They may be hostile, as in rlx_load_file.h. The compiler uses it too, for the sums that a program compares.
#ifndef RLX_LOAD_FOLDER_H
#define RLX_LOAD_FOLDER_H

#include "rlx_load_file.h"

// --- JSON ----------------------------------------------------------------------------------------

static inline int rlx_load_is_blank(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// The next character that is no blank, which is not taken; 0: there is none.
static inline unsigned char rlx_load_peek(rlx_load_reader *r)
{
    while (r->at < r->n && rlx_load_is_blank(r->data[r->at]))
        r->at++;
    r->failed = r->failed || r->at == r->n;
    return r->failed ? 0 : r->data[r->at];
}

static inline void rlx_load_sign(rlx_load_reader *r, unsigned char sign)
{
    if (rlx_load_peek(r) == sign && !r->failed)
        r->at++;
    else
        r->failed = 1;
}

// What is between quotes, with escapes as they are written.
static inline rlx_load_word rlx_load_quoted(rlx_load_reader *r)
{
    rlx_load_word w = {NULL, 0};
    size_t begin;
    rlx_load_sign(r, '"');
    begin = r->at;
    while (!r->failed && r->at < r->n && r->data[r->at] != '"')
        r->at += r->data[r->at] == '\\' && r->n - r->at > 1 ? 2 : 1;
    if (r->failed || r->at >= r->n) {
        r->failed = 1;
        return w;
    }
    w.data = r->data + begin;
    w.n = r->at - begin;
    r->at++;
    return w;
}

// A whole number from 0.
static inline uint64_t rlx_load_digits(rlx_load_reader *r)
{
    uint64_t v = 0;
    const unsigned char first = rlx_load_peek(r);
    r->failed = r->failed || first < '0' || first > '9';
    while (!r->failed && r->at < r->n && r->data[r->at] >= '0' && r->data[r->at] <= '9') {
        const uint64_t digit = (uint64_t)(r->data[r->at++] - '0');
        r->failed = v > (UINT64_MAX - digit) / 10;
        v = 10 * v + digit;
    }
    return v;
}

// Is there one more element, or member, of what ends so? *n: how many there were.
static inline int rlx_load_more(rlx_load_reader *r, unsigned char end, uint64_t *n)
{
    const unsigned char next = rlx_load_peek(r);
    if (r->failed)
        return 0;
    if (next == end) {
        r->at++;
        return 0;
    }
    if ((*n)++ != 0)
        rlx_load_sign(r, ',');
    return !r->failed;
}

// Any value; brackets need not fit each other.
static inline void rlx_load_skip_json(rlx_load_reader *r)
{
    uint64_t depth = 0;
    do {
        const unsigned char c = rlx_load_peek(r);
        if (r->failed)
            return;
        if (c == '"') {
            (void)rlx_load_quoted(r);
        } else {
            const int ends = c == '}' || c == ']';
            r->failed = depth == 0 && (ends || c == ',' || c == ':');
            depth += c == '{' || c == '[';
            depth -= ends && depth != 0;
            r->at++;
            while (depth == 0 && !ends && r->at < r->n && strchr(" \n\r\t,:]}", r->data[r->at]) == NULL)
                r->at++;
        }
    } while (depth != 0 && !r->failed);
}

// --- config.json ---------------------------------------------------------------------------------

// A file of tensors begins with the length of its head, in eight bytes.
static inline int rlx_load_is_config(const unsigned char *data, size_t n)
{
    return n >= 8 && rlx_load_is_blank(data[0]) + (data[0] == '{') != 0 && data[7] != 0;
}

// Blanks between words do not count.
static inline uint64_t rlx_load_json_sum(const unsigned char *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    size_t i;
    int is_text = 0;
    for (i = 0; i < n; i++) {
        if (bytes[i] == '"' && (i == 0 || bytes[i - 1] != '\\'))
            is_text = !is_text;
        if (is_text || !rlx_load_is_blank(bytes[i]))
            h = (h ^ bytes[i]) * 0x100000001b3u;
    }
    return h ^ (h >> 32);
}

// Does a member say nothing of what is computed?
static inline int rlx_load_is_remark(rlx_load_word key)
{
    static const char *const names[] = {"_name_or_path", "_commit_hash", "architectures", "dtype",
                                        "torch_dtype",   "transformers_version", "use_cache"};
    size_t i = 0;
    while (i < sizeof names / sizeof *names && !rlx_load_is(key, names[i]))
        i++;
    return i < sizeof names / sizeof *names;
}

// A sum over the members, in any order.
static inline uint64_t rlx_load_config_sum(rlx_load_reader *r)
{
    uint64_t sum = 0, n = 0;
    rlx_load_sign(r, '{');
    while (rlx_load_more(r, '}', &n)) {
        const size_t begin = r->at;
        const rlx_load_word key = rlx_load_quoted(r);
        rlx_load_sign(r, ':');
        rlx_load_skip_json(r);
        if (!r->failed && !rlx_load_is_remark(key))
            sum += rlx_load_json_sum(r->data + begin, r->at - begin);
    }
    return sum;
}

// --- tensors -------------------------------------------------------------------------------------

// Sizes as tables have them: outermost first, 1 beyond the rank; those beyond RLX_LOAD_RANK are one product.
static inline void rlx_load_add_size(uint64_t *dim, uint64_t i, uint64_t size)
{
    if (i < RLX_LOAD_RANK)
        dim[i] = size;
    else
        dim[RLX_LOAD_RANK - 1] *= size;
}

// Types are named; tables have this number.
static inline uint32_t rlx_load_type_number(const unsigned char *name, size_t n)
{
    return (uint32_t)rlx_load_sum(name, n);
}

// What the head of a file says of a tensor: its bytes are [begin, end) of the data.
typedef struct rlx_load_shard_tensor {
    uint64_t dim[RLX_LOAD_RANK], begin, end;
    uint32_t type, seen; // seen: a bit for each member
} rlx_load_shard_tensor;

static inline void rlx_load_shard_member(rlx_load_reader *r, rlx_load_shard_tensor *t)
{
    const rlx_load_word key = rlx_load_quoted(r);
    uint32_t bit = 0;
    uint64_t n = 0, i;
    rlx_load_sign(r, ':');
    if (rlx_load_is(key, "dtype")) {
        const rlx_load_word type = rlx_load_quoted(r);
        t->type = type.data != NULL ? rlx_load_type_number(type.data, type.n) : 0;
        bit = 1;
    } else if (rlx_load_is(key, "shape")) {
        rlx_load_sign(r, '[');
        for (i = 0; rlx_load_more(r, ']', &n); i++)
            rlx_load_add_size(t->dim, i, rlx_load_digits(r));
        bit = 2;
    } else if (rlx_load_is(key, "data_offsets")) {
        rlx_load_sign(r, '[');
        t->begin = rlx_load_digits(r);
        rlx_load_sign(r, ',');
        t->end = rlx_load_digits(r);
        rlx_load_sign(r, ']');
        bit = 4;
    }
    r->failed = r->failed || bit == 0 || (t->seen & bit) != 0;
    t->seen |= bit;
}

static inline rlx_load_shard_tensor rlx_load_shard_entry(rlx_load_reader *r)
{
    rlx_load_shard_tensor t = {{1, 1, 1, 1}, 0, 0, 0, 0};
    uint64_t n = 0;
    rlx_load_sign(r, '{');
    while (rlx_load_more(r, '}', &n))
        rlx_load_shard_member(r, &t);
    r->failed = r->failed || t.seen != 7 || t.begin > t.end;
    return t;
}

static inline int rlx_load_is_same(const rlx_load_shard_tensor *own, const rlx_load_tensor *t)
{
    return memcmp(own->dim, t->dim, sizeof own->dim) == 0 && own->type == t->type &&
           own->end - own->begin == t->bytes;
}

// The reader of the head of a file of tensors, whose data begin behind it. 0: it is no such file.
static inline int rlx_load_shard_head(rlx_load_reader *r)
{
    const uint64_t n = rlx_load_u64(r);
    if (r->failed || r->at == r->n || r->data[r->at] != '{')
        return 0;
    r->failed = n > r->n - r->at;
    r->n = r->failed ? r->n : r->at + (size_t)n;
    return 1;
}

#endif
