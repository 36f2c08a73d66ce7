// SPDX-License-Identifier: Apache-2.0
// Collecting and printing diagnostics. Line and column are computed only here and only when
// something is printed, so that spans stay two byte offsets. Whatever is printed may come from
// a hostile file: control bytes and broken UTF-8 never reach the terminal.
#include "base/diag.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_COLUMNS = 96, SHOWN_BEFORE = 48 }; // of an overlong source line, around the caret

typedef struct CodeRow {
    const char *text, *title, *explanation;
} CodeRow;

static const CodeRow code_rows[DIAG_CODE_COUNT] = {
#define ERROR(id, title, text) {#id, title, text},
#include "base/errors.def"
#undef ERROR
};

Diag diag_new(Arena *a)
{
    return (Diag){.arena = a};
}

uint32_t diag_add_file(Diag *d, const char *name, const char *text, size_t len)
{
    DiagFile file = {arena_strdup(d->arena, name), text, text ? len : 0};
    vec_push(d->arena, &d->files, file);
    return d->files.len;
}

__attribute__((format(printf, 3, 0))) static void add_item(Diag *d, DiagItem item, const char *fmt,
                                                           va_list args)
{
    item.message = arena_vprintf(d->arena, fmt, args);
    if (item.span.path)
        item.span.path = arena_strdup(d->arena, item.span.path);
    vec_push(d->arena, &d->items, item);
}

bool diag_error(Diag *d, Span span, DiagCode code, const char *fmt, ...)
{
    rlx_assert(code < DIAG_CODE_COUNT);
    if (d->n_errors < UINT32_MAX)
        d->n_errors++;
    d->is_muted = d->n_errors > DIAG_MAX_ERRORS;
    if (d->is_muted)
        return false;
    va_list args;
    va_start(args, fmt);
    add_item(d, (DiagItem){.code = code, .level = DIAG_ERROR, .span = span}, fmt, args);
    va_end(args);
    return false;
}

void diag_warning(Diag *d, Span span, DiagCode code, const char *fmt, ...)
{
    rlx_assert(code < DIAG_CODE_COUNT);
    d->is_muted = d->n_errors > DIAG_MAX_ERRORS || d->items.len >= DIAG_MAX_ITEMS;
    if (d->is_muted)
        return;
    va_list args;
    va_start(args, fmt);
    add_item(d, (DiagItem){.code = code, .level = DIAG_WARNING, .span = span}, fmt, args);
    va_end(args);
}

void diag_note(Diag *d, Span span, const char *fmt, ...)
{
    if (d->is_muted || !d->items.len || d->items.len >= 2 * DIAG_MAX_ITEMS)
        return;
    DiagCode code = d->items.data[d->items.len - 1].code;
    va_list args;
    va_start(args, fmt);
    add_item(d, (DiagItem){.code = code, .level = DIAG_NOTE, .span = span}, fmt, args);
    va_end(args);
}

void diag_note_names(Diag *d, Span span, const char *wanted, const char *const *names,
                     const char *const *shown, uint32_t n)
{
    enum { MOST = 3 };
    const char *close = str_closest(wanted, names, n);
    Str text = str_new(d->arena);
    uint32_t first = n, count = 0;
    for (uint32_t i = n; close && i-- > 0;)
        first = names[i] == close ? i : first;
    for (uint32_t k = 0; k <= n && count < MOST; k++) { // the close one, then the others in their order
        const uint32_t i = k == 0 ? first : k - 1;
        if (i < n && (k == 0 || i != first))
            str_printf(&text, "%s%s", count++ ? ", " : "", (shown ? shown : names)[i]);
    }
    if (n > count)
        str_printf(&text, " and %u more", n - count);
    diag_note(d, span, n ? "it has: %s" : "it has none%s", str_text(&text));
}

// ---- printing --------------------------------------------------------------

// Bytes of the valid, visible UTF-8 character at p, or 0.
static size_t char_len(const char *p, const char *end)
{
    uint32_t code = 0;
    const size_t n = str_utf8(p, end, &code);
    const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const bool turns_text = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return is_control || turns_text ? 0 : n;
}

// Bytes of the character or of the stray byte at p.
static size_t step(const char *p, const char *end)
{
    size_t n = char_len(p, end);
    return n ? n : 1;
}

// A message: what cannot be shown is spelt out.
static void print_clean(FILE *out, const char *s)
{
    const char *end = s + strlen(s);
    while (s < end) {
        size_t n = char_len(s, end);
        if (n)
            fwrite(s, 1, n, out);
        else if (*s == '\n')
            fputs("\n  ", out);
        else
            fprintf(out, "\\x%02x", (unsigned)(unsigned char)*s);
        s += n ? n : 1;
    }
}

typedef struct Place {
    const char *begin, *end;      // the span, cut to its first line
    const char *line, *line_end;  // that line
    uint32_t line_number, column; // from 1; columns count characters
} Place;

static Place find_place(const DiagFile *f, const Span *span)
{
    Place p = {.line = f->text, .line_number = 1, .column = 1};
    const char *text_end = f->text + f->len;
    p.begin = f->text + (span->begin < f->len ? span->begin : f->len);
    for (const char *q = f->text; (q = memchr(q, '\n', (size_t)(p.begin - q))); p.line_number++)
        p.line = ++q;
    p.line_end = memchr(p.begin, '\n', (size_t)(text_end - p.begin));
    if (!p.line_end)
        p.line_end = text_end;
    if (p.line_end > p.begin && p.line_end[-1] == '\r')
        p.line_end--;
    p.end = f->text + (span->end < f->len ? span->end : f->len);
    if (p.end > p.line_end)
        p.end = p.line_end;
    for (const char *q = p.line; q < p.begin; q += step(q, p.line_end))
        p.column++;
    return p;
}

// The first shown character of an overlong line: SHOWN_BEFORE before the caret.
static const char *window_begin(const Place *p)
{
    const char *q = p->line;
    for (uint32_t column = 1; column + SHOWN_BEFORE < p->column; column++)
        q += step(q, p->line_end);
    return q;
}

static const char *window_end(const Place *p, const char *from)
{
    for (uint32_t shown = 0; from < p->line_end && shown < SHOWN_COLUMNS; shown++)
        from += step(from, p->line_end);
    return from;
}

static const char *const level_names[] = {"error", "warning", "note"};

typedef struct Palette {
    const char *place, *level[3], *caret, *off;
} Palette;

static const Palette palettes[] = {
    [DIAG_PLAIN] = {"", {"", "", ""}, "", ""},
    [DIAG_COLOUR] = {"\033[1m", {"\033[1;31m", "\033[1;35m", "\033[1;36m"}, "\033[1;32m", "\033[0m"},
};

// Tabs are kept, in the caret line too, so that both lines align whatever a tab is worth.
static void print_source(FILE *out, const Place *p, const Palette *pal)
{
    bool is_long = (size_t)(p->line_end - p->line) > SHOWN_COLUMNS;
    const char *from = is_long ? window_begin(p) : p->line;
    const char *to = is_long ? window_end(p, from) : p->line_end;
    const char *dots_before = from > p->line ? "..." : "", *dots_after = to < p->line_end ? "..." : "";
    fprintf(out, "%5u | %s", p->line_number, dots_before);
    for (const char *q = from; q < to; q += step(q, to)) {
        if (*q == '\t')
            fputc('\t', out);
        else if (!char_len(q, to))
            fputc('?', out);
        else
            fwrite(q, 1, char_len(q, to), out);
    }
    fprintf(out, "%s\n      | %*s", dots_after, (int)strlen(dots_before), "");
    for (const char *q = from; q < p->begin && q < to; q += step(q, to))
        fputc(*q == '\t' ? '\t' : ' ', out);
    fprintf(out, "%s^", pal->caret);
    const char *q = p->begin;
    if (q < to)
        q += step(q, to);
    for (; q < p->end && q < to; q += step(q, to))
        fputc('~', out);
    fprintf(out, "%s\n", pal->off);
}

static void print_item(const Diag *d, const DiagItem *item, FILE *out, const Palette *pal)
{
    const Span *span = &item->span;
    const DiagFile *file = span->file && span->file <= d->files.len ? &d->files.data[span->file - 1] : NULL;
    Place place = {0};
    fputs(pal->place, out);
    print_clean(out, file ? file->name : "rlxc");
    if (file && file->text) {
        place = find_place(file, span);
        fprintf(out, ":%u:%u", place.line_number, place.column);
    }
    fprintf(out, ":%s %s%s", pal->off, pal->level[item->level], level_names[item->level]);
    if (item->level != DIAG_NOTE)
        fprintf(out, "[%s]", diag_code_text(item->code));
    fprintf(out, ":%s ", pal->off);
    print_clean(out, item->message);
    fputc('\n', out);
    if (span->path && *span->path) {
        fputs("  at ", out);
        print_clean(out, span->path);
        fputc('\n', out);
    }
    if (place.line)
        print_source(out, &place, pal);
}

// ---- JSON ----------------------------------------------------------------

// Characters that are no text, or could play tricks on a terminal, as in print_clean.
static void print_json_string(FILE *out, const char *text)
{
    const char *end = text + strlen(text);
    fputc('"', out);
    for (size_t n = 0; text < end; text += n ? n : 1) {
        n = char_len(text, end);
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (n)
            fwrite(text, 1, n, out);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", (unsigned)c);
        else
            fputs("\xef\xbf\xbd", out);
    }
    fputc('"', out);
}

// The members of an item without the braces around them.
static void print_json_members(const Diag *d, const DiagItem *item, FILE *out)
{
    const Span *span = &item->span;
    const DiagFile *file = span->file && span->file <= d->files.len ? &d->files.data[span->file - 1] : NULL;
    fputs("\"message\": ", out);
    print_json_string(out, item->message);
    if (file) {
        fputs(", \"file\": ", out);
        print_json_string(out, file->name);
    }
    if (file && file->text) {
        const Place place = find_place(file, span);
        fprintf(out, ", \"line\": %u, \"column\": %u", place.line_number, place.column);
    }
    if (span->path && *span->path) {
        fputs(", \"pointer\": ", out);
        print_json_string(out, span->path);
    }
}

static void print_json(const Diag *d, FILE *out)
{
    for (uint32_t i = 0, n = d->items.len; i < n;) {
        const DiagItem *item = &d->items.data[i];
        fprintf(out, "{\"level\": \"%s\", \"code\": \"%s\", ", level_names[item->level],
                diag_code_text(item->code));
        print_json_members(d, item, out);
        const uint32_t first = ++i;
        for (; i < n && d->items.data[i].level == DIAG_NOTE; i++) {
            fputs(i == first ? ", \"notes\": [{" : ", {", out);
            print_json_members(d, &d->items.data[i], out);
            fputc('}', out);
        }
        fputs(i > first ? "]}\n" : "}\n", out);
    }
    if (d->n_errors > DIAG_MAX_ERRORS)
        fprintf(out, "{\"level\": \"note\", \"message\": \"%u more errors are not shown\"}\n",
                d->n_errors - DIAG_MAX_ERRORS);
}

void diag_print(const Diag *d, FILE *out, DiagStyle style)
{
    if (style == DIAG_JSON) {
        print_json(d, out);
        return;
    }
    for (uint32_t i = 0; i < d->items.len; i++)
        print_item(d, &d->items.data[i], out, &palettes[style]);
    if (d->n_errors > DIAG_MAX_ERRORS)
        fprintf(out, "rlxc: %u more errors are not shown\n", d->n_errors - DIAG_MAX_ERRORS);
}

// ---- codes -----------------------------------------------------------------

const char *diag_code_text(DiagCode code)
{
    rlx_assert(code < DIAG_CODE_COUNT);
    return code_rows[code].text;
}

const char *diag_code_title(DiagCode code)
{
    rlx_assert(code < DIAG_CODE_COUNT);
    return code_rows[code].title;
}

const char *diag_code_explanation(DiagCode code)
{
    rlx_assert(code < DIAG_CODE_COUNT);
    return code_rows[code].explanation;
}

bool diag_code_parse(const char *text, DiagCode *out)
{
    if (*text != 'E' && *text != 'e')
        return false;
    for (uint32_t i = 0; i < DIAG_CODE_COUNT; i++) {
        if (str_equal(code_rows[i].text + 1, text + 1)) {
            *out = (DiagCode)i;
            return true;
        }
    }
    return false;
}

_Noreturn void diag_bug(const char *file, int line, const char *what)
{
    fflush(stdout);
    fprintf(stderr, "rlxc: bug at %s:%d: %s does not hold. Please report this with the input.\n", file, line,
            what);
    abort();
}
