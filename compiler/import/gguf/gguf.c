// SPDX-License-Identifier: Apache-2.0
// One part of a GGUF file: "GGUF", u32 version, u64 tensors, u64 entries, the entries, the descriptions of
// the tensors, and their data from the next multiple of the alignment on. Everything is little-endian.
#include "compiler/import/gguf/gguf_reader.h"
#include "base/bytes.h"
#include "compiler/system/rawfile.h"

#include <stdarg.h>
#include <string.h>

enum {
    VERSION_MIN = 2,
    VERSION_MAX = 3,
    BIG_ENDIAN_MASK = 0xffff, // versions are small: a number above is one whose bytes are swapped
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_ALIGNMENT = 1 << 20,
    MIN_ENTRY = 13,  // bytes of an entry, at least
    MIN_TENSOR = 24, // and of the description of a tensor
    MAX_COUNT = 1 << 20
};

static const char magic[] = "GGUF";

bool gguf_is(const void *data, size_t len)
{
    return len >= 4 && memcmp(data, magic, 4) == 0;
}

// --- reading ---

bool gguf_fail(GgufReader *r, size_t at, const char *fmt, ...)
{
    va_list args;
    if (r->failed)
        return false;
    r->failed = true;
    va_start(args, fmt);
    const char *why = arena_vprintf(r->file->arena, fmt, args);
    va_end(args);
    return diag_error(r->file->diag, r->part->span, E0114, "%s: %s (at byte %zu)", r->what, why, at);
}

const uint8_t *gguf_take(GgufReader *r, uint64_t n)
{
    if (r->failed)
        return NULL;
    if (n > gguf_left(r)) {
        gguf_fail(r, r->at, "it needs %llu more bytes, but the file has %zu", (unsigned long long)n,
                  gguf_left(r));
        return NULL;
    }
    const uint8_t *p = r->part->data + r->at;
    r->at += (size_t)n;
    return p;
}

static uint64_t take_bits(GgufReader *r, uint32_t bytes)
{
    const uint8_t *p = gguf_take(r, bytes);
    return p != NULL ? load_le(p, bytes) : 0;
}

uint32_t gguf_take_u32(GgufReader *r)
{
    return (uint32_t)take_bits(r, 4);
}

uint64_t gguf_take_u64(GgufReader *r)
{
    return take_bits(r, 8);
}

GgufText gguf_take_text(GgufReader *r)
{
    const uint64_t n = gguf_take_u64(r);
    const uint8_t *p = gguf_take(r, n);
    return p != NULL ? (GgufText){(const char *)p, (size_t)n} : (GgufText){"", 0};
}

const char *gguf_take_name(GgufReader *r, const char *of, size_t most)
{
    const size_t at = r->at;
    const GgufText t = gguf_take_text(r);
    if (r->failed)
        return NULL;
    if (t.len == 0 || t.len > most) {
        gguf_fail(r, at, "%s has %zu bytes; expected 1 to %zu", of, t.len, most);
        return NULL;
    }
    for (size_t i = 0; i < t.len; i++)
        if ((unsigned char)t.data[i] < ' ' || t.data[i] == 0x7f) {
            gguf_fail(r, at, "%s has a control character", of);
            return NULL;
        }
    return arena_strndup(r->file->arena, t.data, t.len);
}

// --- the header ---

static bool check_version(GgufReader *r, uint32_t version)
{
    if (version >= VERSION_MIN && version <= VERSION_MAX)
        return true;
    if (version > BIG_ENDIAN_MASK)
        return gguf_fail(r, 4, "the file is big-endian; rlxc reads little-endian files only");
    return gguf_fail(r, 4, "version %u is not supported; rlxc reads versions %d and %d", version, VERSION_MIN,
                     VERSION_MAX);
}

// A number of things of which each takes `least` bytes.
static bool take_count(GgufReader *r, const char *things, uint64_t least, uint64_t *n)
{
    const size_t at = r->at;
    *n = gguf_take_u64(r);
    if (!r->failed && (*n > MAX_COUNT || *n > gguf_left(r) / least))
        return gguf_fail(r, at, "%llu %s cannot be in a file of %zu bytes (and %d at most)",
                         (unsigned long long)*n, things, r->part->len, MAX_COUNT);
    return !r->failed;
}

static bool find_alignment(GgufReader *r, const GgufEntry *entries, const Map *index, uint32_t *out)
{
    uint64_t i = 0, v = DEFAULT_ALIGNMENT;
    *out = DEFAULT_ALIGNMENT;
    if (!map_get_str(index, "general.alignment", &i))
        return true;
    r->what = "entry 'general.alignment'";
    if (entries[i].type != GGUF_u32 || !gguf_entry_uint(&entries[i], &v))
        return gguf_fail(r, (size_t)(entries[i].data - r->part->data), "its type is %s; expected u32",
                         gguf_value_name(entries[i].type));
    if (v < MIN_ALIGNMENT || v > MAX_ALIGNMENT || (v & (v - 1)) != 0)
        return gguf_fail(r, (size_t)(entries[i].data - r->part->data),
                         "it is %llu; expected a power of two from %d to %d", (unsigned long long)v,
                         MIN_ALIGNMENT, MAX_ALIGNMENT);
    *out = (uint32_t)v;
    return true;
}

static bool align_data(GgufReader *r, uint32_t alignment)
{
    const size_t to = (r->at + alignment - 1) / alignment * alignment;
    r->at = to < r->part->len ? to : r->part->len;
    return true;
}

bool gguf_read_part(GgufFile *f, const GgufPart *part, GgufEntry **entries, Map *index)
{
    const uint32_t which = f->parts.len;
    vec_push(f->arena, &f->parts, *part);
    GgufPart *p = &f->parts.data[which];
    GgufReader r = {.file = f, .part = p, .what = "the header"};
    uint64_t n_tensors = 0, n_entries = 0;
    if (!gguf_is(part->data, part->len))
        return gguf_fail(&r, 0, "expected the bytes \"GGUF\"");
    r.at = 4;
    p->version = gguf_take_u32(&r);
    if (r.failed || !check_version(&r, p->version) || !take_count(&r, "tensors", MIN_TENSOR, &n_tensors) ||
        !take_count(&r, "entries", MIN_ENTRY, &n_entries))
        return false;
    *entries = ARENA_ARRAY(f->arena, GgufEntry, n_entries + 1);
    uint64_t *offset = ARENA_ARRAY(f->arena, uint64_t, n_tensors + 1);
    return gguf_read_entries(&r, n_entries, *entries, index) &&
           find_alignment(&r, *entries, index, &p->alignment) && gguf_read_tensors(&r, n_tensors, offset) &&
           align_data(&r, p->alignment) && gguf_place_tensors(&r, n_tensors, offset);
}

// --- whole files ---

bool gguf_read(Arena *a, Diag *d, const char *path, const void *data, size_t len, GgufFile *out)
{
    rlx_assert(data != NULL || len == 0);
    *out = (GgufFile){.arena = a, .diag = d};
    const Span span = {.file = diag_add_file(d, path, NULL, 0)};
    const GgufPart part = {.path = path, .data = data, .len = len, .span = span};
    GgufEntry *entries = NULL;
    if (!gguf_read_part(out, &part, &entries, &out->entry_index))
        return false;
    out->entries.data = entries;
    out->entries.len = out->entries.cap = out->entry_index.len;
    return gguf_read_parts(out);
}

bool gguf_open(Arena *a, Diag *d, const char *path, GgufFile *out)
{
    RawFile file;
    return rawfile_open_once(d, (Span){0}, path, &file) && gguf_read(a, d, path, file.data, file.len, out);
}
