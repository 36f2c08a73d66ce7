// SPDX-License-Identifier: Apache-2.0
// Printing and reading of quoted names. Separate, because dims and graphs share it.
#include "base/quote.h"
#include "base/diag.h"

static bool is_control(unsigned char c)
{
    return c < 0x20 || c == 0x7f;
}

void quote_print(Str *out, const char *s)
{
    str_char(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            str_char(out, '\\');
            str_char(out, *s);
        } else if (c == '\n') {
            str_add(out, "\\n");
        } else if (c == '\t') {
            str_add(out, "\\t");
        } else if (is_control(c)) {
            str_printf(out, "\\x%02x", c);
        } else {
            str_char(out, *s);
        }
    }
    str_char(out, '"');
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The character behind a backslash; 0 when it is none.
static char parse_escape(const char *text, size_t len, size_t *pos)
{
    char c = *pos < len ? text[*pos] : 0;
    if (c == 'x') {
        int high = *pos + 1 < len ? hex_digit(text[*pos + 1]) : -1;
        int low = *pos + 2 < len ? hex_digit(text[*pos + 2]) : -1;
        if (high < 0 || low < 0)
            return 0;
        *pos += 3;
        return (char)(high * 16 + low);
    }
    *pos += 1;
    return c == 'n' ? '\n' : c == 't' ? '\t' : c == '"' || c == '\\' ? c : 0;
}

bool quote_parse(Arena *a, const char *text, size_t len, size_t *pos, const char **out)
{
    rlx_assert(*pos <= len);
    Str s = str_new(a);
    size_t at = *pos;
    if (at >= len || text[at] != '"')
        return false;
    for (at++; at < len && text[at] != '"';) {
        char c = text[at];
        *pos = at;
        if (is_control((unsigned char)c))
            return false;
        at++;
        if (c == '\\' && !(c = parse_escape(text, len, &at)))
            return false;
        str_char(&s, c);
    }
    *pos = at;
    if (at == len)
        return false;
    *pos = at + 1;
    *out = s.data ? s.data : arena_strdup(a, "");
    return true;
}

bool quote_is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool quote_is_name_char(char c)
{
    return quote_is_name_start(c) || (c >= '0' && c <= '9') || c == '.';
}

bool quote_is_plain(const char *s)
{
    if (!quote_is_name_start(*s))
        return false;
    while (quote_is_name_char(*s))
        s++;
    return *s == 0;
}
