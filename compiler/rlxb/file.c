// SPDX-License-Identifier: Apache-2.0
// Files in the format .rlxb as a whole: header, checksums, where the tensors lie (docs/FORMAT.md).
#include "compiler/rlxb/rlxb.h"
#include "compiler/system/rawfile.h"
#include "compiler/rlxb/codec.h"
#include "ir/shape/verify.h"

#include <string.h>

// Byte 0x89 and the line ends show a file that went through a text mode.
static const unsigned char magic[8] = {0x89, 'R', 'L', 'X', 'B', '\r', '\n', 0x1a};

bool rlxb_is(const void *data, size_t len)
{
    return len >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

// --- reading --------------------------------------------------

static uint64_t round_up(uint64_t n)
{
    return (n + RLXB_ALIGN - 1) / RLXB_ALIGN * RLXB_ALIGN;
}

uint64_t rlxb_checksum(const void *data, size_t graph_bytes)
{
    const unsigned char *p = data;
    return hash_bytes64(p + RLXB_HEADER, graph_bytes, hash_bytes64(p, RLXB_HASHED, 0));
}

uint64_t rlxb_header_bytes(const void *data)
{
    const unsigned char *p = data;
    return RLXB_HEADER + rlxb_get(p + 24, 8);
}

static const char *hex(Arena *a, const unsigned char *bytes, size_t n)
{
    Str s = str_new(a);
    for (size_t i = 0; i < n; i++)
        str_printf(&s, "%s%02x", i == 0 ? "" : " ", bytes[i]);
    return str_text(&s);
}

static bool refuse_magic(Codec *c)
{
    enum { NAME = 5 }; // up to the line ends
    const bool is_text = c->len > NAME && memcmp(c->data, magic, NAME) == 0;
    return codec_fail(c, "expected %s, with which an .rlxb file begins; found %s%s",
                      hex(c->arena, magic, sizeof magic),
                      hex(c->arena, c->data, c->len < sizeof magic ? c->len : sizeof magic),
                      is_text ? ": its line ends were changed, as when text is copied" : "");
}

// Leaves c at the graph section.
static bool read_header(Codec *c)
{
    const unsigned char *p = c->data;
    if (!rlxb_is(p, c->len))
        return refuse_magic(c);
    if (c->len < RLXB_HEADER)
        return codec_fail(c, "the file has %zu bytes; the header alone has %d", c->len, RLXB_HEADER);
    const uint64_t version = rlxb_get(p + 8, 4), len = rlxb_get(p + 16, 8), graph = rlxb_get(p + 24, 8),
                   data = rlxb_get(p + 32, 8), sum = rlxb_get(p + RLXB_HASHED, 8);
    if (version != RLXB_VERSION)
        return codec_fail(c, "this is version %llu of the format; this rlxc reads version %d",
                          (unsigned long long)version, RLXB_VERSION);
    if (len != c->len)
        return codec_fail(c, "the file has %zu bytes, but its header says %llu", c->len,
                          (unsigned long long)len);
    if (graph > c->len - RLXB_HEADER || data != round_up(RLXB_HEADER + graph))
        return codec_fail(c, "a graph section of %llu bytes and data from byte %llu do not fit the file",
                          (unsigned long long)graph, (unsigned long long)data);
    const uint64_t found = rlxb_checksum(p, (size_t)graph);
    if (found != sum)
        return codec_fail(c, "the checksum of header and graph is %016llx; expected %016llx",
                          (unsigned long long)found, (unsigned long long)sum);
    for (uint32_t i = RLXB_HASHED + 8; i < RLXB_HEADER; i++)
        if (p[i])
            return codec_fail(c, "the end of the header is not zero");
    c->at = RLXB_HEADER;
    c->end = RLXB_HEADER + (size_t)graph;
    return true;
}

static bool check_data(Codec *c)
{
    for (uint32_t i = 0; i < c->tensors.len; i++) {
        const RlxbTensor *t = &c->tensors.data[i];
        const uint64_t found = hash_bytes64(t->data, (size_t)t->bytes, 0);
        if (found != t->hash)
            return diag_error(c->diag, (Span){.file = c->file}, E0111,
                              "the checksum of the %llu bytes from byte %llu on is %016llx; expected %016llx",
                              (unsigned long long)t->bytes, (unsigned long long)t->offset,
                              (unsigned long long)found, (unsigned long long)t->hash);
    }
    return true;
}

bool import_rlxb(Arena *a, Diag *d, const RlxbSource *source, Graph **out)
{
    Graph *g = graph_new(a, d, "");
    Codec c = {.arena = a,
               .diag = d,
               .table = g->dims,
               .dim_table = g->dims,
               .path = source->name,
               .file = diag_add_file(d, source->name, NULL, 0),
               .data = source->data,
               .len = source->len};
    if (!read_header(&c))
        return false;
    codec_strings(&c);
    codec_tensors(&c);
    codec_symbols(&c);
    codec_dims(&c);
    codec_model(&c, &g);
    if (c.has_failed || (source->has_checked_data && !check_data(&c)))
        return false;
    const char *broken = graph_verify(g, STAGE_IMPORTED);
    if (broken)
        return diag_error(d, (Span){.file = c.file}, E0209, "%s", broken);
    *out = g;
    return d->n_errors == 0;
}

// --- writing --------------------------------------------------

static void place_tensors(Codec *c, uint64_t graph_bytes)
{
    uint64_t at = round_up(RLXB_HEADER + graph_bytes);
    for (uint32_t i = 0; i < c->tensors.len; i++) {
        c->tensors.data[i].offset = at;
        at = round_up(at + c->tensors.data[i].bytes);
    }
}

// The graph section: what its parts name comes first, and is known last.
static Str write_graph(Codec *c, Graph *g)
{
    codec_model(c, &g);
    const Str model = c->out;
    c->out = str_new(c->arena);
    codec_symbols(c);
    codec_dims(c);
    const Str sizes = c->out;
    c->out = str_new(c->arena);
    codec_strings(c);
    const size_t strings = c->out.len;
    const uint64_t table = 4 + (uint64_t)c->tensors.len * 24;
    place_tensors(c, strings + table + sizes.len + model.len);
    codec_tensors(c);
    str_add_n(&c->out, sizes.data, sizes.len);
    str_add_n(&c->out, model.data, model.len);
    return c->out;
}

static Str make_header(Codec *c, const Str *graph)
{
    uint64_t len = RLXB_HEADER + graph->len;
    if (c->tensors.len) {
        const RlxbTensor *last = &c->tensors.data[c->tensors.len - 1];
        len = last->offset + last->bytes;
    }
    Str h = str_new(c->arena);
    str_add_n(&h, (const char *)magic, sizeof magic);
    rlxb_put(&h, RLXB_VERSION, 4);
    rlxb_put(&h, 0, 4);
    rlxb_put(&h, len, 8);
    rlxb_put(&h, graph->len, 8);
    rlxb_put(&h, round_up(RLXB_HEADER + graph->len), 8);
    rlxb_put(&h, 0, 8);
    rlxb_put(&h, hash_bytes64(graph->data, graph->len, hash_bytes64(h.data, RLXB_HASHED, 0)), 8);
    rlxb_put(&h, 0, 8);
    return h;
}

bool import_export_rlxb(const Graph *g, const char *path, Diag *d)
{
    static const char zeros[RLXB_ALIGN];
    Arena scratch = {0};
    Graph *model = NULL;
    memcpy(&model, &g, sizeof g); // it is only read
    Codec c = {.arena = &scratch, .diag = d, .is_writing = true, .table = g->dims, .out = str_new(&scratch)};
    const Str graph = write_graph(&c, model), header = make_header(&c, &graph);
    FilePart *parts = ARENA_ARRAY(&scratch, FilePart, 2 + (size_t)c.tensors.len * 2);
    uint32_t n = 2;
    uint64_t at = RLXB_HEADER + graph.len;
    parts[0] = (FilePart){header.data, header.len};
    parts[1] = (FilePart){graph.data, graph.len};
    for (uint32_t i = 0; i < c.tensors.len; i++) {
        const RlxbTensor *t = &c.tensors.data[i];
        parts[n++] = (FilePart){zeros, (size_t)(t->offset - at)};
        parts[n++] = (FilePart){t->data, (size_t)t->bytes};
        at = t->offset + t->bytes;
    }
    const bool ok = rawfile_write(d, path, parts, n);
    arena_free(&scratch);
    return ok;
}
