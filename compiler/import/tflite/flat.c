// SPDX-License-Identifier: Apache-2.0
// See flat.h. A table begins with the distance back to the list of its fields: its size, the size of the
// table, and where each field stands in the table (0: it has its default).
#include "compiler/import/tflite/flat.h"
#include "base/bytes.h"
#include "base/diag.h"

#include <string.h>

enum { ENTRIES_PER_BYTE = 64, ENTRIES_FREE = 4096 };

static void fail(FlatFile *f, size_t at, const char *what)
{
    if (f->broken)
        return;
    f->broken = what;
    f->broken_at = at;
}

// n bytes at `at`; NULL: they are not in the file.
static const uint8_t *get(FlatFile *f, size_t at, size_t n)
{
    if (f->broken)
        return NULL;
    if (at <= f->len && n <= f->len - at)
        return f->data + at;
    fail(f, at, "it ends within something");
    return NULL;
}

static uint64_t read_bits(FlatFile *f, size_t at, uint32_t bytes)
{
    const uint8_t *p = get(f, at, bytes);
    return p != NULL ? load_le(p, bytes) : 0;
}

static const struct {
    uint32_t bytes;
    bool is_signed;
} ints[] = {{1, true}, {1, false}, {2, true}, {2, false}, {4, true}, {4, false}, {8, true}, {8, false}};

static int64_t read_int(FlatFile *f, size_t at, FlatInt type)
{
    const uint32_t gap = 64 - 8 * ints[type].bytes;
    const uint64_t v = read_bits(f, at, ints[type].bytes) << gap;
    return ints[type].is_signed ? (int64_t)v >> gap : (int64_t)(v >> gap);
}

static double read_f32(FlatFile *f, size_t at)
{
    const uint32_t bits = (uint32_t)read_bits(f, at, 4);
    float v = 0;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

// Where the offset at `at` leads: forwards, from its own place.
static size_t follow(FlatFile *f, size_t at)
{
    const uint64_t by = read_bits(f, at, 4);
    if (!f->broken && (by == 0 || by >= f->len - at))
        fail(f, at, "an offset leads out of it");
    return f->broken ? 0 : at + (size_t)by;
}

static FlatTable table_at(FlatFile *f, size_t at)
{
    const FlatTable none = {.file = f};
    if (at == 0)
        return none;
    const int64_t fields = (int64_t)at - read_int(f, at, FLAT_I32);
    if (f->broken || fields < 0 || (uint64_t)fields >= f->len) {
        fail(f, at, "a table's list of fields is outside of it");
        return none;
    }
    FlatTable t = {.file = f, .at = at, .fields = (size_t)fields};
    const uint64_t bytes = read_bits(f, t.fields, 2);
    t.bytes = (uint32_t)read_bits(f, t.fields + 2, 2);
    if (bytes < 4 || bytes % 2 != 0 || t.bytes < 4 || !get(f, t.fields, bytes) || !get(f, at, t.bytes)) {
        fail(f, t.fields, "a table's list of fields is no such list");
        return none;
    }
    t.count = (uint32_t)(bytes - 4) / 2;
    return t;
}

FlatTable flat_root(FlatFile *f)
{
    return table_at(f, follow(f, 0));
}

// 0: the field has its default.
static size_t field_at(FlatTable t, uint32_t field, uint32_t bytes)
{
    if (!flat_is(t) || field >= t.count)
        return 0;
    const uint32_t at = (uint32_t)read_bits(t.file, t.fields + 4 + 2 * (size_t)field, 2);
    if (at == 0)
        return 0;
    if (at < 4 || at > t.bytes || bytes > t.bytes - at) {
        fail(t.file, t.at, "a field is outside of its table");
        return 0;
    }
    return t.at + at;
}

bool flat_has(FlatTable t, uint32_t field)
{
    return field_at(t, field, 1) != 0;
}

int64_t flat_int(FlatTable t, uint32_t field, FlatInt type, int64_t dflt)
{
    const size_t at = field_at(t, field, ints[type].bytes);
    return at ? read_int(t.file, at, type) : dflt;
}

double flat_f32(FlatTable t, uint32_t field, double dflt)
{
    const size_t at = field_at(t, field, 4);
    return at ? read_f32(t.file, at) : dflt;
}

FlatTable flat_table(FlatTable t, uint32_t field)
{
    const size_t at = field_at(t, field, 4);
    return at ? table_at(t.file, follow(t.file, at)) : (FlatTable){.file = t.file};
}

FlatList flat_list(FlatTable t, uint32_t field, uint32_t size)
{
    FlatList l = {.file = t.file, .size = size};
    const size_t at = field_at(t, field, 4), start = at ? follow(t.file, at) : 0;
    if (start == 0)
        return l;
    const uint32_t n = (uint32_t)read_bits(t.file, start, 4);
    if (t.file->broken || n > (t.file->len - start - 4) / size) {
        fail(t.file, start, "a list does not end in it");
        return l;
    }
    t.file->entries += size == 1 ? 1 : n;
    if (t.file->entries > ENTRIES_FREE + ENTRIES_PER_BYTE * (uint64_t)t.file->len) {
        fail(t.file, start, "its lists share too many bytes");
        return l;
    }
    l.at = start + 4;
    l.n = n;
    return l;
}

const char *flat_text(Arena *a, FlatTable t, uint32_t field)
{
    const FlatList l = flat_list(t, field, 1);
    return l.n ? arena_strndup(a, flat_list_bytes(l), l.n) : "";
}

int64_t flat_list_int(FlatList l, uint32_t i, FlatInt type)
{
    rlx_assert(i < l.n && l.size == ints[type].bytes);
    return read_int(l.file, l.at + (size_t)i * l.size, type);
}

double flat_list_f32(FlatList l, uint32_t i)
{
    rlx_assert(i < l.n && l.size == 4);
    return read_f32(l.file, l.at + (size_t)i * l.size);
}

FlatTable flat_list_table(FlatList l, uint32_t i)
{
    rlx_assert(i < l.n && l.size == 4);
    return table_at(l.file, follow(l.file, l.at + (size_t)i * l.size));
}

const void *flat_list_bytes(FlatList l)
{
    return l.n ? l.file->data + l.at : NULL;
}
