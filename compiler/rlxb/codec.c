// SPDX-License-Identifier: Apache-2.0
// See codec.h. Every count, index and size that is read is compared with the file before it is used.
#include "compiler/rlxb/codec.h"

#include <string.h>

uint64_t rlxb_get(const unsigned char *p, uint32_t n_bytes)
{
    rlx_assert(n_bytes <= sizeof(uint64_t));
    uint64_t v = 0;
    for (uint32_t i = 0; i < n_bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

void rlxb_put(Str *out, uint64_t v, uint32_t n_bytes)
{
    rlx_assert(n_bytes <= sizeof(uint64_t));
    char bytes[8];
    for (uint32_t i = 0; i < n_bytes; i++)
        bytes[i] = (char)(unsigned char)(v >> 8 * i);
    str_add_n(out, bytes, n_bytes);
}

bool codec_fail(Codec *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *why = arena_vprintf(c->arena, fmt, args);
    va_end(args);
    rlx_assert(!c->is_writing);
    if (!c->has_failed)
        diag_error(c->diag, (Span){.file = c->file}, E0110, "byte %zu: %s", c->at, why);
    c->has_failed = true;
    return false;
}

// --- numbers --------------------------------------------------

static uint64_t number(Codec *c, uint64_t v, uint32_t n_bytes)
{
    rlx_assert(c->is_writing || c->at <= c->end);
    if (c->is_writing) {
        rlxb_put(&c->out, v, n_bytes);
        return v;
    }
    if (c->has_failed)
        return 0;
    if (n_bytes > c->end - c->at) {
        codec_fail(c, "expected %u more bytes, but the graph section ends in %zu", n_bytes, c->end - c->at);
        return 0;
    }
    v = rlxb_get(c->data + c->at, n_bytes);
    c->at += n_bytes;
    return v;
}

uint32_t codec_u32(Codec *c, uint32_t v)
{
    return (uint32_t)number(c, v, 4);
}

int64_t codec_i64(Codec *c, int64_t v)
{
    return (int64_t)number(c, (uint64_t)v, 8);
}

uint32_t codec_enum(Codec *c, uint32_t v, uint32_t limit, const char *what)
{
    v = codec_u32(c, v);
    if (v < limit)
        return v;
    codec_fail(c, "%s: expected a number below %u, found %u", what, limit, v);
    return 0;
}

uint32_t codec_count(Codec *c, uint32_t n, uint32_t least)
{
    rlx_assert(least != 0);
    n = codec_u32(c, n);
    if (c->is_writing || n <= (c->end - c->at) / least)
        return n;
    codec_fail(c, "%u entries of at least %u bytes do not fit into the %zu that are left", n, least,
               c->end - c->at);
    return 0;
}

// --- texts --------------------------------------------------

static uint32_t index_of(Codec *c, const char *s)
{
    uint64_t i = c->strings.len;
    if (!map_get_str(&c->string_index, s, &i)) {
        map_put_str(c->arena, &c->string_index, s, i);
        vec_push(c->arena, &c->strings, s);
    }
    return (uint32_t)i;
}

const char *codec_str(Codec *c, const char *s)
{
    if (c->is_writing) {
        codec_u32(c, index_of(c, s));
        return s;
    }
    const uint32_t i = codec_enum(c, 0, c->strings.len, "a text");
    return c->has_failed ? "" : c->strings.data[i];
}

const char *codec_optional(Codec *c, const char *s)
{
    if (c->is_writing) {
        codec_u32(c, s ? index_of(c, s) + 1 : 0);
        return s;
    }
    const uint32_t i = codec_enum(c, 0, c->strings.len + 1, "a text");
    return i ? c->strings.data[i - 1] : NULL;
}

static const char *read_text(Codec *c, uint32_t n)
{
    const char *text = (const char *)c->data + c->at;
    if (n >= c->end - c->at || text[n] || memchr(text, 0, n)) {
        codec_fail(c, "expected a text of %u bytes that ends with a zero and has none before it", n);
        return "";
    }
    c->at += n + 1u;
    return arena_strndup(c->arena, text, n);
}

void codec_strings(Codec *c)
{
    const uint32_t n = codec_count(c, c->strings.len, 5);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        const char *s = c->is_writing ? c->strings.data[i] : NULL;
        const uint32_t len = codec_u32(c, s ? (uint32_t)strlen(s) : 0);
        if (s) {
            str_add_n(&c->out, s, len + 1);
        } else if (!c->has_failed) {
            s = read_text(c, len);
            vec_push(c->arena, &c->strings, s);
        }
    }
}

// --- sizes --------------------------------------------------

static int64_t dim_index(Codec *c, Dim d)
{
    uint64_t i = c->dims.len;
    if (!map_get(&c->dim_index, &d, sizeof d, &i)) {
        map_put(c->arena, &c->dim_index, &d, sizeof d, i);
        vec_push(c->arena, &c->dims, d);
    }
    return INT64_MIN + (int64_t)i;
}

Dim codec_dim(Codec *c, Dim d)
{
    if (c->is_writing) {
        codec_i64(c, dim_is_const(d) ? d : dim_index(c, d));
        return d;
    }
    const int64_t v = codec_i64(c, 0);
    if (v >= -DIM_MAX_VALUE && v <= DIM_MAX_VALUE)
        return dim_from_entry(v);
    const uint64_t i = (uint64_t)v - (uint64_t)INT64_MIN;
    if (v < 0 && i < c->dims.len)
        return c->dims.data[i];
    codec_fail(c, "%lld is neither a size nor one of the %u size expressions", (long long)v, c->dims.len);
    return 0;
}

static void read_expression(Codec *c, const char *text)
{
    size_t at = 0;
    Dim d = 0;
    if (dim_find_symbol(c->table, text) >= 0) // whatever it is spelt like
        d = dim_symbol(c->dim_table, text, 1, 1, 1);
    else if (!dim_parse(c->dim_table, text, strlen(text), DIM_KNOWN_ONLY, &d, &at))
        codec_fail(c, "\"%s\" is not a size expression of known symbols", text);
    vec_push(c->arena, &c->dims, d);
}

void codec_dims(Codec *c)
{
    const uint32_t n = codec_count(c, c->dims.len, 4);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        Str text = str_new(c->arena);
        if (c->is_writing)
            dim_print(c->table, c->dims.data[i], &text);
        const char *s = codec_str(c, str_text(&text));
        if (!c->is_writing && !c->has_failed)
            read_expression(c, s);
    }
}

static bool add_symbol(Codec *c, const Symbol *s)
{
    const int64_t max = DIM_MAX_VALUE;
    if (dim_find_symbol(c->table, s->name) >= 0)
        return codec_fail(c, "there are two symbols '%s'", s->name);
    if (!*s->name || s->min < 0 || s->max < s->min || s->max > max || s->multiple < 1 || s->multiple > max ||
        s->max / s->multiple * s->multiple < s->min)
        return codec_fail(c, "symbol '%s': no size is from %lld to %lld and a multiple of %lld", s->name,
                          (long long)s->min, (long long)s->max, (long long)s->multiple);
    if (s->has_dflt && (s->dflt < s->min || s->dflt > s->max || s->dflt % s->multiple != 0))
        return codec_fail(c, "symbol '%s': its default %lld is not in its range", s->name,
                          (long long)s->dflt);
    dim_symbol(c->dim_table, s->name, s->min, s->max, s->multiple);
    if (s->has_dflt)
        dim_set_default(c->dim_table, s->name, s->dflt);
    return true;
}

// 0: none; -1: 0.
static void codec_default(Codec *c, Symbol *s)
{
    const int64_t v = codec_i64(c, !s->has_dflt ? 0 : s->dflt == 0 ? -1 : s->dflt);
    s->has_dflt = v != 0;
    s->dflt = v == -1 ? 0 : v;
}

void codec_symbols(Codec *c)
{
    const uint32_t n = codec_count(c, c->is_writing ? c->table->symbols.len : 0, 36);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        Symbol s = c->is_writing ? c->table->symbols.data[i] : (Symbol){0};
        s.name = codec_str(c, s.name);
        s.min = codec_i64(c, s.min);
        s.max = codec_i64(c, s.max);
        s.multiple = codec_i64(c, s.multiple);
        codec_default(c, &s);
        if (!c->is_writing && !c->has_failed)
            add_symbol(c, &s);
    }
}

// --- tensors --------------------------------------------------

DType codec_dtype(Codec *c, DType t)
{
    const char *name = codec_str(c, c->is_writing ? dtype_info[t].name : NULL);
    if (!c->is_writing && !c->has_failed && !dtype_parse(name, &t)) {
        codec_fail(c, "there is no element type '%s'", name);
        return DTYPE_f32;
    }
    return t;
}

static uint32_t tensor_index(Codec *c, const void *data, uint64_t len)
{
    const uint64_t key[2] = {(uint64_t)(uintptr_t)data, len};
    uint64_t i = c->tensors.len;
    if (!map_get(&c->tensor_index, key, sizeof key, &i)) {
        map_put(c->arena, &c->tensor_index, key, sizeof key, i);
        const RlxbTensor t = {.bytes = len, .hash = hash_bytes64(data, (size_t)len, 0), .data = data};
        vec_push(c->arena, &c->tensors, t);
    }
    return (uint32_t)i + 1;
}

void codec_tensor(Codec *c, const void **data, uint64_t *len)
{
    if (c->is_writing) {
        codec_u32(c, *len ? tensor_index(c, *data, *len) : 0);
        return;
    }
    const uint32_t i = codec_enum(c, 0, c->tensors.len + 1, "a tensor");
    *data = i ? c->tensors.data[i - 1].data : NULL;
    *len = i ? c->tensors.data[i - 1].bytes : 0;
}

const RlxbTensor *codec_find_tensor(const Codec *c, const void *data)
{
    rlx_assert(c->tensors.len != 0);
    uint32_t low = 0, high = c->tensors.len; // they lie in order
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if ((const char *)c->tensors.data[middle].data <= (const char *)data)
            low = middle;
        else
            high = middle;
    }
    return &c->tensors.data[low];
}

// Tensors lie one behind the other, so no two share bytes.
static bool place_tensor(Codec *c, RlxbTensor *t, uint64_t *end)
{
    if (t->offset % RLXB_ALIGN != 0 || t->offset < *end || t->offset > c->len ||
        t->bytes > c->len - t->offset || t->bytes == 0)
        return codec_fail(c,
                          "a tensor of %llu bytes at %llu: expected a multiple of %d from %llu on, and an "
                          "end within the %zu bytes of the file",
                          (unsigned long long)t->bytes, (unsigned long long)t->offset, RLXB_ALIGN,
                          (unsigned long long)*end, c->len);
    rlx_assert(!c->is_writing);
    *end = t->offset + t->bytes;
    t->data = c->data + t->offset;
    return true;
}

void codec_tensors(Codec *c)
{
    uint64_t end = c->end;
    const uint32_t n = codec_count(c, c->tensors.len, 24);
    for (uint32_t i = 0; i < n && !c->has_failed; i++) {
        RlxbTensor t = c->is_writing ? c->tensors.data[i] : (RlxbTensor){0};
        t.offset = (uint64_t)codec_i64(c, (int64_t)t.offset);
        t.bytes = (uint64_t)codec_i64(c, (int64_t)t.bytes);
        t.hash = (uint64_t)codec_i64(c, (int64_t)t.hash);
        if (!c->is_writing && !c->has_failed && place_tensor(c, &t, &end))
            vec_push(c->arena, &c->tensors, t);
    }
}
