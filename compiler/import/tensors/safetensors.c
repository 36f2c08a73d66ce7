// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length, a JSON object {"name": {"dtype", "shape", "data_offsets":
// [begin, end]}} (and "__metadata__"), then the data that the offsets count in.
#include "compiler/import/tensors/safetensors.h"
#include "base/bytes.h"
#include "compiler/system/json_scan.h"
#include "compiler/system/rawfile.h"

#include <math.h>
#include <string.h>

static const char metadata[] = "__metadata__"; // the entry that is no tensor

enum { PREFIX = 8, DATA_ALIGN = 64, EVEN_SIZE = 16 };

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    Span where;
    const char *path;
    const char *data; // after the header
    size_t data_len;
    SafeTensors *out;
} Reader;

__attribute__((format(printf, 2, 3))) static bool fail(const Reader *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *why = arena_vprintf(r->arena, fmt, args);
    va_end(args);
    return diag_error(r->diag, r->where, E0105, "'%s' is not a good .safetensors file: %s", r->path, why);
}

// A whole number from 0 that a double holds exactly.
static bool read_size(const cJSON *item, uint64_t *out)
{
    double v = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(v >= 0 && v < 9007199254740992.0) || v != floor(v))
        return false;
    *out = (uint64_t)v;
    return true;
}

static bool read_shape(const cJSON *item, Tensor *t)
{
    if (!cJSON_IsArray(item))
        return false;
    for (const cJSON *child = item->child; child; child = child->next) {
        uint64_t size = 0;
        if (t->rank == SHAPE_MAX_RANK || !read_size(child, &size) ||
            !dim_from_size((int64_t)size, &t->dim[t->rank++]))
            return false;
    }
    return true;
}

static bool find_dtype(const char *name, DType *out)
{
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        if (str_equal(dtype_info[i].safetensors, name)) {
            *out = (DType)i;
            return true;
        }
    }
    return false;
}

typedef struct Entry {
    const cJSON *dtype, *shape, *offsets;
} Entry;

static bool split_entry(const cJSON *item, Entry *e)
{
    if (!cJSON_IsObject(item))
        return false;
    for (const cJSON *m = item->child; m; m = m->next) {
        const cJSON **slot = strcmp(m->string, "dtype") == 0          ? &e->dtype
                             : strcmp(m->string, "shape") == 0        ? &e->shape
                             : strcmp(m->string, "data_offsets") == 0 ? &e->offsets
                                                                      : NULL;
        if (!slot || *slot)
            return false;
        *slot = m;
    }
    return cJSON_IsString(e->dtype) && cJSON_IsArray(e->shape) && cJSON_IsArray(e->offsets);
}

static bool read_entry(const Reader *r, const cJSON *item)
{
    Entry e = {0};
    SafeTensor st = {.name = arena_strdup(r->arena, item->string)};
    uint64_t begin = 0, end = 0;
    if (!split_entry(item, &e))
        return fail(r, "'%s' needs exactly the members dtype, shape and data_offsets", st.name);
    const cJSON *first = e.offsets->child, *second = first ? first->next : NULL;
    if (!read_size(first, &begin) || !read_size(second, &end) || second->next || begin > end ||
        end > r->data_len)
        return fail(r, "the data_offsets of '%s' do not lie within its %zu bytes of data", st.name,
                    r->data_len);
    if (!find_dtype(e.dtype->valuestring, &st.tensor.dtype))
        return true; // types that we lack; only an error when asked for
    if (!read_shape(e.shape, &st.tensor))
        return fail(r, "'%s' needs a shape of at most %d sizes", st.name, SHAPE_MAX_RANK);
    Shape shape = shape_of(st.tensor.rank, st.tensor.dim);
    uint64_t wanted = type_bytes(st.tensor.dtype, &shape);
    if (wanted != end - begin)
        return fail(r, "'%s' has %llu bytes, but its type needs %llu", st.name,
                    (unsigned long long)(end - begin), (unsigned long long)wanted);
    st.tensor.numel = shape_numel(&shape);
    const char *bytes = r->data + begin;
    memcpy(&st.tensor.data, &bytes, sizeof bytes); // Tensor.data is not const; the file is mapped read-only
    if (!map_put_str(r->arena, &r->out->index, st.name, r->out->tensors.len))
        return fail(r, "there are two tensors '%s'", st.name);
    vec_push(r->arena, &r->out->tensors, st);
    return true;
}

// The format has texts only there; other values mean nothing to anybody.
static void read_notes(const Reader *r, const cJSON *item)
{
    for (const cJSON *m = cJSON_IsObject(item) ? item->child : NULL; m; m = m->next)
        if (cJSON_IsString(m))
            vec_push(
                r->arena, &r->out->notes.list,
                ((GraphNote){arena_strdup(r->arena, m->string), arena_strdup(r->arena, m->valuestring)}));
}

static bool read_entries(const Reader *r, const cJSON *tree)
{
    if (!cJSON_IsObject(tree))
        return fail(r, "its header is not a JSON object");
    for (const cJSON *item = tree->child; item; item = item->next) {
        if (strcmp(item->string, metadata) == 0)
            read_notes(r, item);
        else if (!read_entry(r, item))
            return false;
    }
    return true;
}

bool safetensors_read(Arena *a, Diag *d, Span where, const char *path, const void *data, size_t len,
                      SafeTensors *out)
{
    Reader r = {.arena = a, .diag = d, .where = where, .path = path, .out = out};
    const uint64_t header_len = len >= PREFIX ? load_le(data, PREFIX) : 0;
    size_t at = 0;
    const char *why = NULL;
    *out = (SafeTensors){.path = arena_strdup(a, path)};
    if (len < PREFIX || header_len > len - PREFIX)
        return fail(&r, "it is cut off within its header");
    const char *header = (const char *)data + PREFIX;
    r.data = header + header_len;
    r.data_len = len - PREFIX - (size_t)header_len;
    if (json_check(header, (size_t)header_len, &at, &why) != JSON_FINE)
        return fail(&r, "its header is not JSON: byte %zu: %s", at, why);
    Arena scratch = {0};
    bool ok = read_entries(&r, json_parse(&scratch, header, (size_t)header_len, &at));
    arena_free(&scratch);
    return ok;
}

bool safetensors_open(Arena *a, Diag *d, Span where, const char *path, SafeTensors *out)
{
    RawFile file;
    return rawfile_open_once(d, where, path, &file) &&
           safetensors_read(a, d, where, path, file.data, file.len, out);
}

const SafeTensor *safetensors_find(const SafeTensors *s, const char *name)
{
    uint64_t i = 0;
    return map_get_str(&s->index, name, &i) ? &s->tensors.data[i] : NULL;
}

// --- writing --------------------------------------------------

static uint64_t tensor_bytes(const Tensor *t)
{
    Shape shape = shape_of(t->rank, t->dim);
    return type_bytes(t->dtype, &shape);
}

static void add_notes(Str *out, const GraphNotes *notes)
{
    str_printf(out, "\"%s\":{", metadata);
    for (uint32_t i = 0; i < notes->list.len; i++) {
        str_add(out, i ? "," : "");
        json_print_string(out, notes->list.data[i].name);
        str_char(out, ':');
        json_print_string(out, notes->list.data[i].text);
    }
    str_char(out, '}');
}

static void add_entry(Str *out, const SafeTensor *st, uint64_t begin)
{
    json_print_string(out, st->name);
    str_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", dtype_info[st->tensor.dtype].safetensors);
    for (uint32_t i = 0; i < st->tensor.rank; i++)
        str_printf(out, "%s%lld", i ? "," : "", (long long)st->tensor.dim[i]);
    str_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
               (unsigned long long)(begin + tensor_bytes(&st->tensor)));
}

// Where the bytes of each tensor begin; they become parts in that order. The format allows no holes: so that
// most tensors are aligned all the same, those whose size is a multiple of 16 come first.
static uint64_t *place(Arena *a, const SafeTensors *file, FilePart *parts)
{
    uint64_t *begin = ARENA_ARRAY(a, uint64_t, file->tensors.len), at = 0;
    for (uint32_t is_uneven = 0; is_uneven < 2; is_uneven++) {
        for (uint32_t i = 0; i < file->tensors.len; i++) {
            const Tensor *t = &file->tensors.data[i].tensor;
            const uint64_t bytes = tensor_bytes(t);
            if ((bytes % EVEN_SIZE != 0) != is_uneven)
                continue;
            begin[i] = at;
            *parts++ = (FilePart){t->data, bytes};
            at += bytes;
        }
    }
    return begin;
}

// Notes and tensors in the given order, padded so that the data are aligned.
static Str make_header(Arena *a, const SafeTensors *file, const uint64_t *begin)
{
    Str header = str_new(a);
    str_char(&header, '{');
    if (file->notes.list.len)
        add_notes(&header, &file->notes);
    for (uint32_t i = 0; i < file->tensors.len; i++) {
        str_add(&header, header.len > 1 ? ",\n" : "");
        add_entry(&header, &file->tensors.data[i], begin[i]);
    }
    str_char(&header, '}');
    while ((header.len + PREFIX) % DATA_ALIGN)
        str_char(&header, ' ');
    return header;
}

bool safetensors_write(OutputFiles *f, const char *name, const SafeTensors *file)
{
    Arena scratch = {0};
    FilePart *parts = ARENA_ARRAY(&scratch, FilePart, file->tensors.len + 2);
    const uint64_t *begin = place(&scratch, file, parts + 2);
    const Str header = make_header(&scratch, file, begin);
    unsigned char prefix[PREFIX];
    for (uint32_t i = 0; i < PREFIX; i++)
        prefix[i] = (unsigned char)((uint64_t)header.len >> 8 * i);
    parts[0] = (FilePart){prefix, PREFIX};
    parts[1] = (FilePart){header.data, header.len};
    const bool ok = output_add_parts(f, name, parts, file->tensors.len + 2);
    arena_free(&scratch);
    return ok;
}
