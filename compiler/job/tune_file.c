// SPDX-License-Identifier: Apache-2.0
// See tune_file.h.
#include "compiler/job/tune_file.h"
#include "compiler/system/rawfile.h"
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "rlxc-tune 1", arrow[] = " -> ";

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    uint32_t file;
    TuneFile *out;
    bool has_first;
} Reader;

static int by_question(const void *a, const void *b)
{
    return strcmp(((const PlanChoice *)a)->question, ((const PlanChoice *)b)->question);
}

static void sort(TuneFile *file)
{
    if (file->choices.len != 0)
        qsort(file->choices.data, file->choices.len, sizeof *file->choices.data, by_question);
}

// --- reading -------------------------------------------------------------------------------------

static const char *last_arrow(const char *line)
{
    const char *found = NULL;
    for (const char *at = strstr(line, arrow); at != NULL; at = strstr(at + 1, arrow))
        found = at;
    return found;
}

static bool read_choice(Reader *r, const char *line, Span where)
{
    const char *at = last_arrow(line), *answer = at != NULL ? at + strlen(arrow) : NULL;
    if (at == NULL || at == line || answer[0] == '\0' || strchr(answer, ' ') != NULL)
        return diag_error(r->diag, where, E0006, "expected QUESTION -> ANSWER");
    const PlanChoice c = {.question = arena_strndup(r->arena, line, (size_t)(at - line)), .answer = answer};
    vec_push(r->arena, &r->out->choices, c);
    return true;
}

static bool read_line(Reader *r, const char *line, Span where)
{
    if (!r->has_first) {
        r->has_first = strcmp(line, first_line) == 0;
        return r->has_first || diag_error(r->diag, where, E0006, "expected the first line '%s'", first_line);
    }
    if (line[0] == '\0' || line[0] == '#')
        return true;
    const bool is_place = strncmp(line, "cpu ", 4) == 0 || strncmp(line, "gpu ", 4) == 0;
    if (!is_place || r->out->place != NULL)
        return read_choice(r, line, where);
    r->out->place = line;
    return true;
}

static bool check_whole(Reader *r, const char *path)
{
    const Span whole = {.file = r->file};
    if (!r->has_first)
        return diag_error(r->diag, whole, E0006, "expected the first line '%s'", first_line);
    if (r->out->place == NULL)
        return diag_error(r->diag, whole, E0006, "%s: no line 'cpu NAME' or 'gpu NAME'", path);
    sort(r->out);
    for (uint32_t i = 1; i < r->out->choices.len; i++)
        if (by_question(&r->out->choices.data[i - 1], &r->out->choices.data[i]) == 0)
            return diag_error(r->diag, whole, E0006, "there are two answers to '%s'",
                              r->out->choices.data[i].question);
    return true;
}

bool tune_file_read(Arena *a, Diag *d, const char *path, TuneFile *out)
{
    RawFile raw;
    *out = (TuneFile){0};
    if (!rawfile_open(a, d, (Span){0}, path, &raw))
        return false;
    Reader r = {.arena = a, .diag = d, .file = diag_add_file(d, path, raw.data, raw.len), .out = out};
    for (size_t at = 0; at < raw.len;) {
        const char *begin = raw.data + at, *newline = memchr(begin, '\n', raw.len - at);
        const size_t n = newline != NULL ? (size_t)(newline - begin) : raw.len - at;
        const Span where = {.file = r.file, .begin = (uint32_t)at, .end = (uint32_t)(at + n)};
        if (memchr(begin, '\0', n) != NULL || n > UINT16_MAX || raw.len > UINT32_MAX / 2)
            return diag_error(d, where, E0006, "this is not a line of text");
        if (!read_line(&r, arena_strndup(a, begin, n), where))
            return false;
        at += n + 1;
    }
    return check_whole(&r, path);
}

// --- writing -------------------------------------------------------------------------------------

bool tune_file_write(Diag *d, const char *path, TuneFile *file)
{
    rlx_assert(file->place != NULL);
    Str s = str_new(d->arena);
    str_printf(&s, "%s\n%s\n# measured by rlxc " RLXC_VERSION "\n", first_line, file->place);
    sort(file);
    for (uint32_t i = 0; i < file->choices.len; i++)
        str_printf(&s, "%s%s%s\n", file->choices.data[i].question, arrow, file->choices.data[i].answer);
    return rawfile_write_text(d, path, str_text(&s));
}
