// SPDX-License-Identifier: Apache-2.0
// See gguf_out.h. Numbers are little-endian.
#include "compiler/quantize/gguf_out.h"

#include <string.h>

enum { VERSION = 3, MOST_ALIGNMENT = 1 << 20 };

static const uint32_t numbers[GGUF_VALUE_COUNT] = {
#define GGUF_VALUE(name, number, bytes, class) number,
#include "compiler/import/gguf/gguf_values.def"
};

static void put(Str *s, uint64_t v, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        str_char(s, (char)(v >> (8 * i) & 255));
}

static void put_text(Str *s, const char *text)
{
    put(s, strlen(text), 8);
    str_add(s, text);
}

GgufOut gguf_out_new(Arena *a)
{
    return (GgufOut){.entries = str_new(a), .tensors = str_new(a), .alignment = GGUF_OUT_ALIGNMENT};
}

// --- entries and tensors -------------------------------------------------------------------------

static void begin_entry(GgufOut *o, const char *key, GgufValue type)
{
    put_text(&o->entries, key);
    put(&o->entries, numbers[type], 4);
    o->n_entries++;
}

void gguf_out_copy(GgufOut *o, const GgufEntry *e)
{
    str_add_n(&o->entries, (const char *)e->raw, e->raw_len);
    o->n_entries++;
}

void gguf_out_u32(GgufOut *o, const char *key, uint32_t v)
{
    begin_entry(o, key, GGUF_u32);
    put(&o->entries, v, 4);
}

void gguf_out_text(GgufOut *o, const char *key, const char *text)
{
    begin_entry(o, key, GGUF_string);
    put_text(&o->entries, text);
}

void gguf_out_texts(GgufOut *o, const char *key, const char *const *text, uint32_t n)
{
    begin_entry(o, key, GGUF_array);
    put(&o->entries, numbers[GGUF_string], 4);
    put(&o->entries, n, 8);
    for (uint32_t i = 0; i < n; i++)
        put_text(&o->entries, text[i]);
}

uint64_t gguf_type_bytes(const GgufType *type, const uint64_t *dim, uint32_t rank)
{
    uint64_t bytes = dim[0] / type->elements * type->bytes;
    for (uint32_t i = 1; i < rank; i++)
        bytes *= dim[i];
    return bytes;
}

static uint64_t align(const GgufOut *o, uint64_t v)
{
    return (v + o->alignment - 1) / o->alignment * o->alignment;
}

void gguf_out_tensor(GgufOut *o, const char *name, uint32_t rank, const uint64_t *dim, const GgufType *type)
{
    put_text(&o->tensors, name);
    put(&o->tensors, rank, 4);
    for (uint32_t i = 0; i < rank; i++)
        put(&o->tensors, dim[i], 8);
    put(&o->tensors, type->number, 4);
    put(&o->tensors, o->end, 8);
    o->end = align(o, o->end + gguf_type_bytes(type, dim, rank));
    o->n_tensors++;
}

// --- the file ------------------------------------------------------------------------------------

bool gguf_out_begin(GgufOut *o, Diag *d, const char *path)
{
    Str head = str_new(o->entries.arena);
    str_add(&head, "GGUF");
    put(&head, VERSION, 4);
    put(&head, o->n_tensors, 8);
    put(&head, o->n_entries, 8);
    if (!rawfile_create(&o->file, d, path))
        return false;
    const FilePart parts[] = {{head.data, head.len},
                              {o->entries.data, o->entries.len},
                              {o->tensors.data, o->tensors.len}};
    (void)(rawfile_append_parts(&o->file, parts, 3) && // gguf_out_end reports what fails
           gguf_out_align(o, head.len + o->entries.len + o->tensors.len));
    return true;
}

bool gguf_out_data(GgufOut *o, const void *bytes, size_t n)
{
    return o->file.error == 0 && rawfile_append(&o->file, bytes, n);
}

bool gguf_out_align(GgufOut *o, uint64_t n)
{
    static const uint8_t zeros[MOST_ALIGNMENT];
    return gguf_out_data(o, zeros, (size_t)(align(o, n) - n));
}

bool gguf_out_end(GgufOut *o, bool is_complete)
{
    return rawfile_commit(&o->file, is_complete);
}
