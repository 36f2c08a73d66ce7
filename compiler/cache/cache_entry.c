// SPDX-License-Identifier: Apache-2.0
// See cache_entry.h:
//   rlxc-compile 1
//   HASH                  of the lines that follow, up to the empty one
//   LENGTH HASH NAME      of each part: what is printed before the files, behind them, and the files
//   (empty line)
//   the parts
#include "compiler/cache/cache_entry.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/rawfile.h"
#include <string.h>

static const char first_line[] = "rlxc-compile 1\n";
enum { HASH_DIGITS = 32, TEXTS = 2 }; // parts that are no files

// --- writing -------------------------------------------------------------------------------------

static void add_line(Str *lines, const void *data, size_t n, const char *name)
{
    rlx_assert(strchr(name, '\n') == NULL);
    str_printf(lines, "%zu %s %s\n", n, content_hash_of(lines->arena, data, n), name);
}

bool cache_entry_write(Arena *a, Diag *d, const char *path, const CacheParts *parts)
{
    const CompileReport *r = &parts->report;
    const uint32_t n = r->files.len;
    rlx_assert(parts->data.len == n && r->head != NULL && r->tail != NULL);
    FilePart *out = ARENA_ARRAY(a, FilePart, n + 1 + TEXTS);
    Str lines = str_new(a), head = str_new(a);
    out[1] = (FilePart){r->head, strlen(r->head)};
    out[2] = (FilePart){r->tail, strlen(r->tail)};
    add_line(&lines, out[1].data, out[1].len, "head");
    add_line(&lines, out[2].data, out[2].len, "tail");
    for (uint32_t i = 0; i < n; i++) {
        out[1 + TEXTS + i] = (FilePart){parts->data.data[i], r->files.data[i].len};
        add_line(&lines, parts->data.data[i], r->files.data[i].len, r->files.data[i].name);
    }
    str_char(&lines, '\n');
    str_printf(&head, "%s%s\n%s", first_line, content_hash_of(a, str_text(&lines), lines.len),
               str_text(&lines));
    out[0] = (FilePart){str_text(&head), head.len};
    return rawfile_write(d, path, out, n + 1 + TEXTS);
}

// --- reading -------------------------------------------------------------------------------------

typedef struct Reader {
    Arena *arena;
    const char *at, *end;  // of the lines
    const char *data, *stop; // of the parts
} Reader;

// "LENGTH HASH NAME\n", and the part that it tells of. The lines themselves are known to be whole.
static bool read_part(Reader *r, const char **name, const char **data, size_t *len)
{
    rlx_assert(r->at <= r->end && r->data <= r->stop);
    const char *line_end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *space = line_end != NULL ? memchr(r->at, ' ', (size_t)(line_end - r->at)) : NULL;
    int64_t n = 0;
    if (space == NULL || line_end - space < HASH_DIGITS + 3 || space[HASH_DIGITS + 1] != ' ' ||
        !str_parse_i64(r->at, (size_t)(space - r->at), &n) || n < 0 || n > r->stop - r->data)
        return false;
    const char *hash = space + 1, *is = content_hash_of(r->arena, r->data, (size_t)n);
    *name = arena_strndup(r->arena, hash + HASH_DIGITS + 1, (size_t)(line_end - hash - HASH_DIGITS - 1));
    *data = r->data;
    *len = (size_t)n;
    r->data += n;
    r->at = line_end + 1;
    return memcmp(hash, is, HASH_DIGITS) == 0 && strchr(*name, '/') == NULL;
}

// Where an empty line begins, or NULL.
static const char *find_empty_line(const char *at, const char *end)
{
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL && ++at < end)
        if (*at == '\n')
            return at;
    return NULL;
}

// Finds the lines and checks their hash.
static bool begin(Reader *r, const RawFile *f)
{
    const size_t first = sizeof first_line - 1, start = first + HASH_DIGITS + 1;
    if (f->len < start || memcmp(f->data, first_line, first) != 0 || f->data[start - 1] != '\n')
        return false;
    const char *lines = f->data + start, *end = find_empty_line(lines, f->data + f->len);
    if (end == NULL)
        return false;
    r->at = lines;
    r->end = end;
    r->data = end + 1;
    r->stop = f->data + f->len;
    const char *is = content_hash_of(r->arena, lines, (size_t)(r->data - lines));
    return memcmp(f->data + first, is, HASH_DIGITS) == 0;
}

EntryState cache_entry_read(Arena *a, const char *path, CacheParts *out)
{
    RawFile f;
    Reader r = {.arena = a};
    const char *name, *data;
    size_t len;
    *out = (CacheParts){0};
    if (!rawfile_peek(a, path, &f))
        return ENTRY_MISSING;
    if (!begin(&r, &f))
        return ENTRY_DAMAGED;
    for (uint32_t i = 0; r.at < r.end; i++) {
        if (!read_part(&r, &name, &data, &len))
            return ENTRY_DAMAGED;
        if (i >= TEXTS) {
            vec_push(a, &out->report.files, ((ReportFile){name, len}));
            vec_push(a, &out->data, data);
        } else {
            *(i == 0 ? &out->report.head : &out->report.tail) = arena_strndup(a, data, len);
        }
    }
    return r.data == r.stop && out->report.files.len != 0 ? ENTRY_WHOLE : ENTRY_DAMAGED;
}
