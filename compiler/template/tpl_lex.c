// SPDX-License-Identifier: Apache-2.0
// Text of a template to tokens. White space goes as with trim_blocks and lstrip_blocks: the line break behind
// a block, and what stands before a block that begins its line; `-` takes all of it, `+` keeps it.
#include "compiler/template/tpl_node.h"
#include <string.h>

typedef struct Lexer {
    TplParser *p;
    const char *text, *at, *end;
    VEC(uint32_t) open; // brackets of the tag, and where they are
    VEC(uint32_t) open_at;
} Lexer;

static uint32_t place(const Lexer *l, const char *at)
{
    return (uint32_t)(at - l->text);
}

static bool starts(const Lexer *l, const char *at, const char *with)
{
    const size_t n = strlen(with);
    return (size_t)(l->end - at) >= n && memcmp(at, with, n) == 0;
}

static TplToken *add(Lexer *l, TplTokenKind kind, const char *begin, const char *end)
{
    rlx_assert(l->text <= begin && begin <= end && end <= l->end);
    const TplToken token = {.kind = kind, .at = place(l, begin), .end = place(l, end)};
    vec_push(l->p->arena, &l->p->tokens, token);
    return &l->p->tokens.data[l->p->tokens.len - 1];
}

// --- white space ---------------------------------------------------------------------------------

static bool is_space_code(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

size_t tpl_space(const char *p, const char *end)
{
    uint32_t code = 0;
    const size_t n = str_utf8(p, end, &code);
    return n != 0 && is_space_code(code) ? n : 0;
}

size_t tpl_space_before(const char *begin, const char *end)
{
    const char *p = end - 1;
    while (p > begin && ((unsigned char)*p & 0xc0) == 0x80 && end - p < 4)
        p--;
    const size_t n = tpl_space(p, end);
    return n == (size_t)(end - p) ? n : 0;
}

static const char *skip_space(const Lexer *l, const char *at)
{
    for (size_t n; at < l->end && (n = tpl_space(at, l->end)) != 0;)
        at += n;
    return at;
}

static const char *strip_end(const char *begin, const char *end)
{
    for (size_t n; end > begin && (n = tpl_space_before(begin, end)) != 0;)
        end -= n;
    return end;
}

// The text before a tag: [begin, end), with what the sign of the tag, or the begin of a line, takes away.
static void add_data(Lexer *l, const char *begin, const char *end, char sign, bool is_print)
{
    if (sign == '-') {
        end = strip_end(begin, end);
    } else if (sign != '+' && !is_print) {
        const char *line = end;
        while (line > begin && line[-1] != '\n')
            line--;
        const bool is_line = line > begin || begin == l->text || begin[-1] == '\n';
        if (is_line && strip_end(line, end) == line)
            end = line;
    }
    if (end > begin)
        add(l, TOKEN_DATA, begin, end)->value = tpl_text_n(begin, (size_t)(end - begin));
}

// --- tags ----------------------------------------------------------------------------------------

// Behind the end of a block at `at`: %} with its sign and the white space that goes with it. NULL: there is
// none.
static const char *block_end(const Lexer *l, const char *at)
{
    if (starts(l, at, "-%}"))
        return skip_space(l, at + 3);
    if (starts(l, at, "+%}"))
        return at + 3;
    return !starts(l, at, "%}") ? NULL : at + 2 < l->end && at[2] == '\n' ? at + 3 : at + 2;
}

static const char *print_end(const Lexer *l, const char *at)
{
    return starts(l, at, "-}}") ? skip_space(l, at + 3) : starts(l, at, "}}") ? at + 2 : NULL;
}

static bool is_sign(const Lexer *l, const char *at)
{
    return at < l->end && (*at == '-' || *at == '+');
}

// {% word %} at a {%: where its end is. NULL: it is another block.
static const char *word_block(const Lexer *l, const char *at, const char *word)
{
    const char *p = at + 2;
    p = skip_space(l, is_sign(l, p) ? p + 1 : p);
    return starts(l, p, word) ? skip_space(l, p + strlen(word)) : NULL;
}

static bool lex_raw(Lexer *l, const char *begin, const char *from)
{
    for (const char *p = from; p + 1 < l->end; p++) {
        const char *inner = starts(l, p, "{%") ? word_block(l, p, "endraw") : NULL;
        const char *after = inner == NULL ? NULL : block_end(l, inner);
        if (after == NULL)
            continue;
        add_data(l, from, p, is_sign(l, p + 2) ? p[2] : ' ', false);
        l->at = after;
        return true;
    }
    return tpl_wrong(l->p, place(l, begin), place(l, begin) + 2, "a raw block without {%% endraw %%}");
}

static bool lex_comment(Lexer *l, const char *begin)
{
    const char *from = begin + 2 + is_sign(l, begin + 2);
    for (const char *p = from; p + 1 < l->end; p++) {
        if (p[0] != '#' || p[1] != '}')
            continue;
        const char sign = p > from ? p[-1] : ' ';
        l->at = p + 2;
        if (sign == '-')
            l->at = skip_space(l, l->at);
        else if (sign != '+' && l->at < l->end && *l->at == '\n')
            l->at++;
        return true;
    }
    return tpl_wrong(l->p, place(l, begin), place(l, begin) + 2, "a comment without its end #}");
}

// --- what stands in tags -------------------------------------------------------------------------

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static int digit_value(char c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

// Up to n digits of a base at *p; as many as are there.
static uint32_t read_digits(const char **p, const char *end, int n, int base, int *read)
{
    uint32_t v = 0;
    for (*read = 0; *read < n && *p < end && digit_value(**p) < base; ++*read)
        v = v * (uint32_t)base + (uint32_t)digit_value(*(*p)++);
    return v;
}

// Behind a backslash; false: what is there is no character.
static bool read_escape(const char **p, const char *end, Str *out)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = *(*p)++;
    const char *simple = strchr(from, c);
    int n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, read;
    if (c == '\n')
        return true;
    if (simple != NULL && c != '\0') {
        str_char(out, to[simple - from]);
    } else if (n != 0 || (c >= '0' && c <= '7')) {
        *p -= n == 0;
        const uint32_t code = read_digits(p, end, n == 0 ? 3 : n, n == 0 ? 8 : 16, &read);
        if ((n != 0 && read != n) || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return false;
        str_code_point(out, code);
    } else {
        str_char(out, '\\');
        --*p;
        const size_t bytes = str_utf8(*p, end, NULL);
        str_add_n(out, *p, bytes == 0 ? 1 : bytes);
        *p += bytes == 0 ? 1 : bytes;
    }
    return true;
}

static bool lex_text(Lexer *l)
{
    const char *begin = l->at, *p = begin + 1;
    Str text = str_new(l->p->arena);
    while (p < l->end && *p != *begin) {
        if (*p != '\\') {
            str_char(&text, *p++);
            continue;
        }
        const char *escape = p++;
        if (p < l->end && !read_escape(&p, l->end, &text))
            return tpl_wrong(l->p, place(l, escape), place(l, p), "an escape that is no character");
    }
    if (p >= l->end)
        return tpl_wrong(l->p, place(l, begin), place(l, begin) + 1, "a string without its end");
    add(l, TOKEN_TEXT, begin, p + 1)->value = tpl_text_n(str_text(&text), text.len);
    l->at = p + 1;
    return true;
}

// Digits with single underscores between them, into `out`.
static const char *take_digits(const Lexer *l, const char *p, Str *out)
{
    while (p < l->end && (is_digit(*p) || (*p == '_' && p + 1 < l->end && is_digit(p[1])))) {
        if (*p != '_')
            str_char(out, *p);
        p++;
    }
    return p;
}

static bool lex_based(Lexer *l, int base)
{
    const char *begin = l->at, *p = begin + 2;
    uint64_t v = 0;
    for (; p < l->end && (*p == '_' || digit_value(*p) < base); p++) {
        if (*p == '_')
            continue;
        if (v > (INT64_MAX - 15) / (uint64_t)base)
            return tpl_wrong(l->p, place(l, begin), place(l, p), "a number beyond 64 bits");
        v = v * (uint64_t)base + (uint64_t)digit_value(*p);
    }
    add(l, TOKEN_INT, begin, p)->value = tpl_int((int64_t)v);
    l->at = p;
    return true;
}

static bool lex_number(Lexer *l)
{
    const char *begin = l->at;
    const char second = begin + 1 < l->end && *begin == '0' ? begin[1] : ' ';
    const int base = strchr("xX", second) ? 16 : strchr("oO", second) ? 8 : strchr("bB", second) ? 2 : 10;
    if (base != 10)
        return lex_based(l, base);
    Str digits = str_new(l->p->arena);
    const char *p = take_digits(l, begin, &digits);
    const bool may_be_float = begin == l->text || begin[-1] != '.';
    TplValue v = {.kind = TPL_INT};
    if (may_be_float && p + 1 < l->end && *p == '.' && is_digit(p[1])) {
        v.kind = TPL_FLOAT;
        str_char(&digits, '.');
        p = take_digits(l, p + 1, &digits);
    }
    const char *e = p + 1 < l->end && (p[1] == '-' || p[1] == '+') ? p + 2 : p + 1;
    if (may_be_float && e < l->end && (*p == 'e' || *p == 'E') && is_digit(*e)) {
        v.kind = TPL_FLOAT;
        str_add_n(&digits, p, (size_t)(e - p));
        p = take_digits(l, e, &digits);
    }
    const bool ok = v.kind == TPL_INT ? str_parse_i64(digits.data, digits.len, &v.u.i)
                                      : str_parse_f64(digits.data, digits.len, &v.u.f);
    if (!ok)
        return tpl_wrong(l->p, place(l, begin), place(l, p), "a number beyond 64 bits");
    add(l, v.kind == TPL_INT ? TOKEN_INT : TOKEN_FLOAT, begin, p)->value = v;
    l->at = p;
    return true;
}

static bool close_bracket(Lexer *l, char close)
{
    const char open = close == ')' ? '(' : close == ']' ? '[' : '{';
    if (l->open.len == 0 || l->open.data[l->open.len - 1] != (uint32_t)open)
        return tpl_wrong(l->p, place(l, l->at), place(l, l->at) + 1, "'%c' without its '%c'", close, open);
    rlx_assert(l->open.len == l->open_at.len);
    l->open.len--;
    l->open_at.len--;
    return true;
}

static bool lex_operator(Lexer *l)
{
    static const char *const twos[] = {"//", "**", "==", "!=", ">=", "<="};
    const char c = *l->at;
    size_t n = 0;
    for (size_t i = 0; i < sizeof twos / sizeof *twos && n == 0; i++)
        n = starts(l, l->at, twos[i]) ? 2 : 0;
    if (n == 0 && (c == '\0' || strchr("+-/*%~[](){}<>=.:|,;", c) == NULL))
        return tpl_wrong(l->p, place(l, l->at), place(l, l->at) + 1, "unexpected character");
    if (n == 0 && strchr(")]}", c) != NULL && !close_bracket(l, c))
        return false;
    if (n == 0 && strchr("([{", c) != NULL) {
        const uint32_t open = (uint32_t)c;
        vec_push(l->p->arena, &l->open, open);
        vec_push(l->p->arena, &l->open_at, place(l, l->at));
    }
    n = n == 0 ? 1 : n;
    add(l, TOKEN_OPERATOR, l->at, l->at + n)->op = TPL_OP(c, n == 2 ? l->at[1] : 0);
    l->at += n;
    return true;
}

static void lex_name(Lexer *l)
{
    const char *begin = l->at;
    while (l->at < l->end && is_word(*l->at))
        l->at++;
    add(l, TOKEN_NAME, begin, l->at)->value = tpl_text_n(begin, (size_t)(l->at - begin));
}

static bool lex_tag(Lexer *l, const char *begin, bool is_print)
{
    add(l, is_print ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, begin, begin + 2);
    l->at = begin + 2 + is_sign(l, begin + 2);
    l->open.len = l->open_at.len = 0;
    for (;;) {
        l->at = skip_space(l, l->at);
        if (l->at >= l->end)
            return tpl_wrong(l->p, place(l, begin), place(l, begin) + 2, "a tag without its end %s",
                             is_print ? "}}" : "%}");
        const char *after = l->open.len != 0 ? NULL : is_print ? print_end(l, l->at) : block_end(l, l->at);
        if (after != NULL) {
            add(l, is_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, l->at, l->at + 2);
            l->at = after;
            return true;
        }
        const char c = *l->at;
        bool ok = true;
        if (is_digit(c))
            ok = lex_number(l);
        else if (is_word(c))
            lex_name(l);
        else
            ok = c == '"' || c == '\'' ? lex_text(l) : lex_operator(l);
        if (!ok)
            return false;
    }
}

static const char *find_tag(const Lexer *l)
{
    for (const char *p = l->at; p + 1 < l->end; p++)
        if (p[0] == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
    return l->end;
}

bool tpl_lex(TplParser *p)
{
    const TplText *t = &p->t->text;
    Lexer l = {.p = p, .text = t->data, .at = t->data, .end = t->data + t->len};
    while (l.at < l.end) {
        const char *tag = find_tag(&l), *begin = l.at;
        if (tag == l.end) {
            add_data(&l, begin, tag, '+', true);
            break;
        }
        const bool is_print = tag[1] == '{';
        add_data(&l, begin, tag, is_sign(&l, tag + 2) ? tag[2] : ' ', is_print);
        const char *raw = tag[1] == '%' ? word_block(&l, tag, "raw") : NULL;
        if (raw != NULL && (starts(&l, raw, "-%}") || starts(&l, raw, "%}"))) {
            if (!lex_raw(&l, tag, *raw == '-' ? skip_space(&l, raw + 3) : raw + 2))
                return false;
        } else if (!(tag[1] == '#' ? lex_comment(&l, tag) : lex_tag(&l, tag, is_print))) {
            return false;
        }
    }
    add(&l, TOKEN_END, l.end, l.end);
    return true;
}
