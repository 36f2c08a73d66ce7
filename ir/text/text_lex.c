// SPDX-License-Identifier: Apache-2.0
// Words and marks of the text form. The text need not end with a zero, and may hold anything.
#include "ir/text/text_lex.h"
#include "base/quote.h"

#include <string.h>

bool lex_fail(const Lexer *l, size_t at, DiagCode code, const char *fmt, ...)
{
    Span span = {.file = l->file, .begin = (uint32_t)at, .end = (uint32_t)(at < l->len ? at + 1 : at)};
    va_list args;
    va_start(args, fmt);
    const char *message = arena_vprintf(l->arena, fmt, args);
    va_end(args);
    return diag_error(l->diag, span, code, "%s", message);
}

Span lex_span(const Lexer *l, size_t begin)
{
    return (Span){.file = l->file, .begin = (uint32_t)begin, .end = (uint32_t)l->at};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t line_end(const Lexer *l, size_t from)
{
    while (from < l->len && l->text[from] != '\n')
        from++;
    return from;
}

void lex_skip(Lexer *l)
{
    while (l->at < l->len) {
        if (l->text[l->at] == '#')
            l->at = line_end(l, l->at);
        else if (is_space(l->text[l->at]))
            l->at++;
        else
            return;
    }
}

const char *lex_take_comment(Lexer *l)
{
    size_t begin = l->at;
    while (begin < l->len && (l->text[begin] == ' ' || l->text[begin] == '\t'))
        begin++;
    if (begin == l->len || l->text[begin] != '#')
        return NULL;
    size_t end = line_end(l, begin++);
    l->at = end;
    while (begin < end && is_space(l->text[begin]))
        begin++;
    while (end > begin && is_space(l->text[end - 1]))
        end--;
    const char *quoted = NULL;
    size_t at = begin;
    if (quote_parse(l->arena, l->text, end, &at, &quoted) && at == end)
        return quoted;
    return memchr(l->text + begin, 0, end - begin) ? NULL
                                                   : arena_strndup(l->arena, l->text + begin, end - begin);
}

bool lex_at(Lexer *l, char c)
{
    lex_skip(l);
    return l->at < l->len && l->text[l->at] == c;
}

bool lex_take(Lexer *l, const char *mark)
{
    size_t n = strlen(mark);
    lex_skip(l);
    if (l->len - l->at < n || memcmp(l->text + l->at, mark, n) != 0)
        return false;
    l->at += n;
    return true;
}

bool lex_expect(Lexer *l, const char *mark)
{
    return lex_take(l, mark) || lex_fail(l, l->at, E0107, "expected '%s'", mark);
}

const char *lex_take_word(Lexer *l)
{
    lex_skip(l);
    size_t begin = l->at;
    if (begin == l->len || !quote_is_name_start(l->text[begin]))
        return NULL;
    while (l->at < l->len && quote_is_name_char(l->text[l->at]))
        l->at++;
    return arena_strndup(l->arena, l->text + begin, l->at - begin);
}

bool lex_word(Lexer *l, const char *what, const char **out)
{
    *out = lex_take_word(l);
    return *out || lex_fail(l, l->at, E0107, "expected %s", what);
}

bool lex_string(Lexer *l, const char *what, const char **out)
{
    if (!lex_at(l, '"'))
        return lex_fail(l, l->at, E0107, "expected %s in quotes", what);
    return quote_parse(l->arena, l->text, l->len, &l->at, out) ||
           lex_fail(l, l->at, E0107, "a text in quotes ends on its line and has no such character or escape");
}

const char *lex_take_token(Lexer *l, size_t *n)
{
    lex_skip(l);
    size_t begin = l->at;
    while (l->at < l->len && !is_space(l->text[l->at]) && !strchr(",[]{}()\"", l->text[l->at]))
        l->at++;
    *n = l->at - begin;
    return l->text + begin;
}

bool lex_int(Lexer *l, const char *what, int64_t *out)
{
    size_t n = 0;
    const char *token = lex_take_token(l, &n);
    return str_parse_i64(token, n, out) ||
           lex_fail(l, l->at - n, E0107, "expected %s, an integer of 64 bits", what);
}
