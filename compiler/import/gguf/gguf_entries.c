// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file: a key, a u32 type and a value each; arrays have a u32 type of their elements,
// a u64 count and the elements. Separate because what follows reads them by key only.
#include "compiler/import/gguf/gguf_reader.h"
#include "base/bytes.h"
#include "ir/graph/tensor.h"

#include <string.h>

enum { MAX_KEY = 65535, MAX_DEPTH = 4 };
typedef enum ValueClass { CLASS_UINT, CLASS_INT, CLASS_FLOAT, CLASS_BOOL, CLASS_OTHER } ValueClass;

static const struct {
    const char *name;
    uint32_t number, bytes;
    ValueClass class;
} values[GGUF_VALUE_COUNT] = {
#define GGUF_VALUE(name, number, bytes, class) {#name, number, bytes, CLASS_##class},
#include "compiler/import/gguf/gguf_values.def"
};

const char *gguf_value_name(GgufValue type)
{
    rlx_assert(type < GGUF_VALUE_COUNT);
    return values[type].name;
}

// --- reading ---

static bool take_type(GgufReader *r, GgufValue *out)
{
    const size_t at = r->at;
    const uint32_t number = gguf_take_u32(r);
    for (uint32_t i = 0; i < GGUF_VALUE_COUNT; i++)
        if (values[i].number == number) {
            *out = (GgufValue)i;
            return !r->failed;
        }
    return gguf_fail(r, at, "there is no type %u of values", number);
}

static bool check_bools(GgufReader *r, GgufValue type, const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; values[type].class == CLASS_BOOL && i < n; i++)
        if (p[i] > 1)
            return gguf_fail(r, (size_t)(p + i - r->part->data), "a bool is %u; expected 0 or 1", p[i]);
    return true;
}

static bool take_array(GgufReader *r, GgufArray *out, uint32_t depth);

// Strings and arrays have 8 bytes at least, which bounds what is allocated for them.
static bool take_elements(GgufReader *r, GgufArray *out, uint32_t depth)
{
    GgufText *text = out->type == GGUF_string ? ARENA_ARRAY(r->file->arena, GgufText, out->n + 1) : NULL;
    GgufArray inner;
    for (uint64_t i = 0; i < out->n; i++) {
        if (text != NULL)
            text[i] = gguf_take_text(r);
        else
            take_array(r, &inner, depth + 1);
        if (r->failed)
            return false;
    }
    out->text = text;
    return true;
}

// Recursion: at most MAX_DEPTH.
static bool take_array(GgufReader *r, GgufArray *out, uint32_t depth)
{
    const size_t at = r->at;
    *out = (GgufArray){0};
    if (depth >= MAX_DEPTH)
        return gguf_fail(r, at, "arrays are nested more than %d deep", MAX_DEPTH);
    if (!take_type(r, &out->type))
        return false;
    out->n = gguf_take_u64(r);
    const uint32_t least = values[out->type].bytes != 0 ? values[out->type].bytes : 8;
    if (r->failed || out->n > gguf_left(r) / least)
        return gguf_fail(r, at, "an array of %llu elements is longer than the file",
                         (unsigned long long)out->n);
    out->data = r->part->data + r->at;
    if (values[out->type].bytes == 0)
        return take_elements(r, out, depth);
    return gguf_take(r, out->n * values[out->type].bytes) != NULL &&
           check_bools(r, out->type, out->data, out->n);
}

static bool take_value(GgufReader *r, GgufEntry *e)
{
    if (!take_type(r, &e->type))
        return false;
    e->data = r->part->data + r->at;
    if (e->type == GGUF_string)
        e->text = gguf_take_text(r);
    else if (e->type == GGUF_array)
        take_array(r, &e->array, 0);
    else if (gguf_take(r, values[e->type].bytes) != NULL)
        check_bools(r, e->type, e->data, 1);
    return !r->failed;
}

bool gguf_read_entries(GgufReader *r, uint64_t n, GgufEntry *entries, Map *index)
{
    for (uint64_t i = 0; i < n; i++) {
        const size_t at = r->at;
        r->what = arena_printf(r->file->arena, "entry %llu", (unsigned long long)i);
        entries[i].key = gguf_take_name(r, "its key", MAX_KEY);
        if (entries[i].key == NULL)
            return false;
        r->what = arena_printf(r->file->arena, "entry '%.80s'", entries[i].key);
        if (!take_value(r, &entries[i]))
            return false;
        entries[i].raw = r->part->data + at;
        entries[i].raw_len = r->at - at;
        if (!map_put_str(r->file->arena, index, entries[i].key, i))
            return gguf_fail(r, at, "there are two entries with this key");
    }
    return true;
}

// --- values by key ---

static int64_t get_signed(GgufValue type, const uint8_t *p)
{
    const uint32_t gap = 64 - 8 * values[type].bytes;
    return (int64_t)(load_le(p, values[type].bytes) << gap) >> gap;
}

static double get_f64(GgufValue type, const uint8_t *p)
{
    const uint64_t bits = load_le(p, values[type].bytes);
    const uint32_t low = (uint32_t)bits;
    float f = 0;
    double v = 0;
    if (values[type].class == CLASS_INT)
        return (double)get_signed(type, p);
    if (values[type].class != CLASS_FLOAT)
        return (double)bits;
    memcpy(&f, &low, sizeof f);
    memcpy(&v, &bits, sizeof v);
    return type == GGUF_f32 ? (double)f : v;
}

static bool is_int(GgufValue type)
{
    return values[type].class == CLASS_UINT || values[type].class == CLASS_INT;
}

const GgufEntry *gguf_find(const GgufFile *f, const char *key)
{
    uint64_t i = 0;
    return map_get_str(&f->entry_index, key, &i) ? &f->entries.data[i] : NULL;
}

bool gguf_entry_uint(const GgufEntry *e, uint64_t *out)
{
    if (!is_int(e->type) || (values[e->type].class == CLASS_INT && get_signed(e->type, e->data) < 0))
        return false;
    *out = load_le(e->data, values[e->type].bytes);
    return true;
}

bool gguf_uint(const GgufFile *f, const char *key, uint64_t *out)
{
    const GgufEntry *e = gguf_find(f, key);
    return e != NULL && gguf_entry_uint(e, out);
}

bool gguf_float(const GgufFile *f, const char *key, double *out)
{
    const GgufEntry *e = gguf_find(f, key);
    if (e == NULL || !(is_int(e->type) || values[e->type].class == CLASS_FLOAT))
        return false;
    *out = get_f64(e->type, e->data);
    return true;
}

bool gguf_bool(const GgufFile *f, const char *key, bool *out)
{
    const GgufEntry *e = gguf_find(f, key);
    if (e == NULL || e->type != GGUF_bool)
        return false;
    *out = e->data[0] != 0;
    return true;
}

bool gguf_text(const GgufFile *f, const char *key, GgufText *out)
{
    const GgufEntry *e = gguf_find(f, key);
    if (e == NULL || e->type != GGUF_string)
        return false;
    *out = e->text;
    return true;
}

const char *gguf_string(const GgufFile *f, const char *key)
{
    GgufText t;
    if (!gguf_text(f, key, &t) || memchr(t.data, 0, t.len) != NULL)
        return NULL;
    return arena_strndup(f->arena, t.data, t.len);
}

bool gguf_array(const GgufFile *f, const char *key, GgufArray *out)
{
    const GgufEntry *e = gguf_find(f, key);
    if (e == NULL || e->type != GGUF_array || e->array.type == GGUF_array)
        return false;
    *out = e->array;
    return true;
}

static const uint8_t *element(const GgufArray *a, uint64_t i)
{
    rlx_assert(i < a->n && values[a->type].bytes != 0);
    return a->data + i * values[a->type].bytes;
}

int64_t gguf_array_int(const GgufArray *a, uint64_t i)
{
    const uint8_t *p = element(a, i);
    if (values[a->type].class == CLASS_INT)
        return get_signed(a->type, p);
    if (values[a->type].class == CLASS_FLOAT)
        return tensor_saturate(DTYPE_i64, get_f64(a->type, p));
    const uint64_t v = load_le(p, values[a->type].bytes);
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

double gguf_array_float(const GgufArray *a, uint64_t i)
{
    return get_f64(a->type, element(a, i));
}
