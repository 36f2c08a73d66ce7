// SPDX-License-Identifier: Apache-2.0
// JSON texts as values of templates. Separate from cJSON's trees, in which 1 and 1.0 are the same.
#include "compiler/template/template.h"
#include <string.h>

typedef struct Reader {
    Arena *arena;
    const char *at, *end;
} Reader;

static void skip(Reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static uint32_t read_unit(const char *p)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v = v * 16 + (uint32_t)(p[i] <= '9' ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
    return v;
}

// At an escape: the character that it stands for.
static void read_escape(Reader *r, Str *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = r->at[1];
    r->at += 2;
    if (c != 'u') {
        const char *sign = strchr(from, c);
        rlx_assert(c != '\0' && sign != NULL); // json_check knows the escapes
        str_char(s, to[sign - from]);
        return;
    }
    uint32_t code = read_unit(r->at);
    r->at += 4;
    if (code >= 0xd800 && code < 0xdc00) {
        rlx_assert(r->end - r->at > 6 && r->at[1] == 'u'); // json_check has seen the other half
        code = 0x10000 + ((code - 0xd800) << 10) + (read_unit(r->at + 2) - 0xdc00);
        r->at += 6;
    }
    str_code_point(s, code);
}

static TplValue read_text(Reader *r)
{
    Str s = str_new(r->arena);
    for (r->at++; *r->at != '"';) {
        const char *begin = r->at;
        while (*r->at != '"' && *r->at != '\\')
            r->at++;
        str_add_n(&s, begin, (size_t)(r->at - begin));
        if (*r->at == '\\')
            read_escape(r, &s);
    }
    r->at++;
    return tpl_text_n(str_text(&s), s.len);
}

static TplValue read_number(Reader *r)
{
    const char *begin = r->at;
    TplValue v = {.kind = TPL_INT};
    while (r->at < r->end && strchr("+-.0123456789eE", *r->at) != NULL && *r->at != '\0')
        r->at++;
    const size_t n = (size_t)(r->at - begin);
    if (str_parse_i64(begin, n, &v.u.i))
        return v;
    v.kind = TPL_FLOAT;
    if (!str_parse_f64(begin, n, &v.u.f))
        v.u.f = 0;
    return v;
}

static TplValue read_value(Reader *r);

// Depth is limited by json_check.
static TplValue read_list(Reader *r)
{
    const TplValue list = tpl_list(r->arena);
    for (r->at++, skip(r); *r->at != ']'; skip(r)) {
        r->at += *r->at == ',';
        tpl_list_add(r->arena, list, read_value(r));
    }
    r->at++;
    return list;
}

static TplValue read_dict(Reader *r)
{
    const TplValue dict = tpl_dict(r->arena);
    for (r->at++, skip(r); *r->at != '}'; skip(r)) {
        r->at += *r->at == ',';
        skip(r);
        const TplText key = read_text(r).u.text;
        skip(r);
        rlx_assert(*r->at == ':');
        r->at++;
        tpl_dict_set(r->arena, dict, arena_strndup(r->arena, key.data, key.len), read_value(r));
    }
    r->at++;
    return dict;
}

static TplValue read_value(Reader *r)
{
    skip(r);
    if (*r->at == '{')
        return read_dict(r);
    if (*r->at == '[')
        return read_list(r);
    if (*r->at == '"')
        return read_text(r);
    if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9'))
        return read_number(r);
    const char word = *r->at;
    rlx_assert(word == 't' || word == 'f' || word == 'n');
    r->at += word == 'f' ? 5 : 4;
    return word == 'n' ? (TplValue){.kind = TPL_NONE} : tpl_bool(word == 't');
}

TplValue tpl_of_json(Arena *a, const char *text, size_t len)
{
    Reader r = {a, text, text + len};
    const TplValue v = read_value(&r);
    skip(&r);
    rlx_assert(r.at == r.end); // the text is one value
    return v;
}
