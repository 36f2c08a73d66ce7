// SPDX-License-Identifier: Apache-2.0
// Models in several GGUF files, NAME-00001-of-00003.gguf and so on. The first has the metadata; each says
// which one it is. Separate because only this reads more than one file.
#include "compiler/import/gguf/gguf_reader.h"
#include "compiler/system/rawfile.h"

#include <string.h>

enum { MAX_PARTS = 4096 };

static bool fail_part(GgufFile *f, uint32_t part, const char *why)
{
    return diag_error(f->diag, f->parts.data[part].span, E0114, "%s", why);
}

static const char *suffix_of(Arena *a, uint64_t number, uint64_t count)
{
    return arena_printf(a, "-%05u-of-%05u.gguf", (unsigned)number, (unsigned)count);
}

// What an entry of a part says; 0: nothing.
static uint64_t get(const GgufEntry *entries, const Map *index, const char *key)
{
    uint64_t i = 0, v = 0;
    return map_get_str(index, key, &i) && gguf_entry_uint(&entries[i], &v) ? v : 0;
}

static bool read_next(GgufFile *f, const char *path, uint64_t number, uint64_t count)
{
    RawFile file;
    Map index = {0};
    GgufEntry *entries = NULL;
    if (!rawfile_open_once(f->diag, f->parts.data[0].span, path, &file))
        return false;
    const Span span = {.file = diag_add_file(f->diag, path, NULL, 0)};
    const GgufPart part = {.path = path, .data = (const uint8_t *)file.data, .len = file.len, .span = span};
    if (!gguf_read_part(f, &part, &entries, &index))
        return false;
    if (get(entries, &index, "split.no") != number || get(entries, &index, "split.count") != count)
        return fail_part(f, f->parts.len - 1,
                         arena_printf(f->arena,
                                      "its split.no and split.count are %llu and %llu; expected %llu and "
                                      "%llu, as in the name of the file",
                                      (unsigned long long)get(entries, &index, "split.no"),
                                      (unsigned long long)get(entries, &index, "split.count"),
                                      (unsigned long long)number, (unsigned long long)count));
    return true;
}

bool gguf_read_parts(GgufFile *f)
{
    uint64_t count = 0, number = 0, tensors = 0;
    const char *path = f->parts.data[0].path;
    if (!gguf_uint(f, "split.count", &count) || count <= 1)
        return true;
    if (count > MAX_PARTS)
        return fail_part(f, 0, arena_printf(f->arena, "split.count is %llu; expected at most %d",
                                            (unsigned long long)count, MAX_PARTS));
    if (gguf_uint(f, "split.no", &number) && number != 0)
        return fail_part(f, 0,
                         arena_printf(f->arena, "this is part %llu of %llu; give the first one, NAME%s",
                                      (unsigned long long)number + 1, (unsigned long long)count,
                                      suffix_of(f->arena, 1, count)));
    const char *suffix = suffix_of(f->arena, 1, count);
    if (!str_ends_with(path, suffix))
        return fail_part(f, 0, arena_printf(f->arena,
                                            "the model is in %llu files; expected the name of the first one "
                                            "to end in %s",
                                            (unsigned long long)count, suffix));
    const char *stem = arena_strndup(f->arena, path, strlen(path) - strlen(suffix));
    for (uint64_t i = 1; i < count; i++)
        if (!read_next(f, arena_printf(f->arena, "%s%s", stem, suffix_of(f->arena, i + 1, count)), i, count))
            return false;
    if (gguf_uint(f, "split.tensors.count", &tensors) && tensors != f->tensors.len)
        return fail_part(f, 0,
                         arena_printf(f->arena, "its files have %u tensors, but split.tensors.count is %llu",
                                      f->tensors.len, (unsigned long long)tensors));
    return true;
}
