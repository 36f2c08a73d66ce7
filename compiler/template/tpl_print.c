// SPDX-License-Identifier: Apache-2.0
// Values of templates as text: as Python's str and repr print them, and as JSON.
#include "compiler/template/tpl_run.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// As Python prints it: an exponent below 1e-4 and from 1e16 on, of at least two digits.
static void tpl_print_float(Str *out, double v)
{
    Arena scratch = {0};
    Str plain = str_new(&scratch);
    str_f64(&plain, v);
    char digits[32];
    size_t n = 0;
    if (!isfinite(v) || v == 0) {
        str_add(out, plain.data);
        arena_free(&scratch);
        return;
    }
    const char *p = plain.data, *e = strchr(p, 'e');
    int point = -1, exponent = e != NULL ? (int)strtol(e + 1, NULL, 10) : 0, seen = 0;
    if (*p == '-')
        str_char(out, *p++);
    for (; *p != '\0' && *p != 'e'; p++) {
        if (*p == '.') {
            point = seen;
            continue;
        }
        seen++;
        rlx_assert(n < sizeof digits); // str_f64 prints 17 at most
        if (n != 0 || *p != '0')
            digits[n++] = *p;
    }
    point = point < 0 ? seen : point;
    exponent += point - 1 - (seen - (int)n); // of d.ddd
    while (n > 1 && digits[n - 1] == '0')
        n--;
    const bool has_exponent = exponent < -4 || exponent >= 16;
    if (!has_exponent && exponent < 0) {
        str_add(out, "0.");
        for (int i = exponent + 1; i < 0; i++)
            str_char(out, '0');
        str_add_n(out, digits, n);
    } else {
        const size_t before = has_exponent ? 1 : (size_t)exponent + 1;
        for (size_t i = 0; i < n || i < before; i++) {
            if (i == before)
                str_char(out, '.');
            str_char(out, i < n ? digits[i] : '0');
        }
        if (!has_exponent && n <= before)
            str_add(out, ".0");
        if (has_exponent)
            str_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    arena_free(&scratch);
}

static void print_quoted(TplText s, Str *out)
{
    const bool has_single = memchr(s.data, '\'', s.len) != NULL,
               has_double = memchr(s.data, '"', s.len) != NULL;
    const char quote = has_single && !has_double ? '"' : '\'';
    str_char(out, quote);
    for (const char *p = s.data, *end = s.data + s.len; p < end;) {
        uint32_t c = (unsigned char)*p;
        const size_t n = str_utf8(p, end, &c);
        const char *escape = c == '\n'   ? "\\n"
                             : c == '\r' ? "\\r"
                             : c == '\t' ? "\\t"
                             : c == '\\' ? "\\\\"
                                         : NULL;
        if (escape != NULL)
            str_add(out, escape);
        else if (c == (uint32_t)quote)
            str_printf(out, "\\%c", quote);
        else if (c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad || n == 0)
            str_printf(out, "\\x%02x", c);
        else
            str_add_n(out, p, n);
        p += n == 0 ? 1 : n;
    }
    str_char(out, quote);
}

static bool print_list(Tpl *t, const TplList *list, Str *out)
{
    const bool is_tuple = list->form == TPL_TUPLE;
    if (list->form == TPL_GENERATOR)
        return tpl_fail(t, "a generator is printed; put |list behind it");
    if (list->form == TPL_VIEW)
        str_printf(out, "%s(", list->view);
    str_char(out, is_tuple ? '(' : '[');
    for (uint32_t i = 0; i < list->items.len; i++) {
        if (i != 0)
            str_add(out, ", ");
        if (!tpl_print(t, list->items.data[i], true, out))
            return false;
    }
    str_add(out, is_tuple && list->items.len == 1 ? ",)" : is_tuple ? ")" : "]");
    if (list->form == TPL_VIEW)
        str_char(out, ')');
    return true;
}

static bool print_dict(Tpl *t, const TplDict *d, Str *out)
{
    str_char(out, '{');
    for (uint32_t i = 0; i < d->items.len; i++) {
        if (i != 0)
            str_add(out, ", ");
        if (!tpl_print(t, d->items.data[i].key, true, out))
            return false;
        str_add(out, ": ");
        if (!tpl_print(t, d->items.data[i].value, true, out))
            return false;
    }
    str_char(out, '}');
    return true;
}

static bool print_range(const TplList *list, Str *out)
{
    str_printf(out, "range(%lld, %lld", (long long)list->range[0], (long long)list->range[1]);
    if (list->range[2] != 1)
        str_printf(out, ", %lld", (long long)list->range[2]);
    str_char(out, ')');
    return true;
}

static bool print_value(Tpl *t, TplValue v, bool is_quoted, Str *out)
{
    switch (v.kind) {
    case TPL_UNDEFINED:
        str_add(out, is_quoted ? "Undefined" : "");
        return true;
    case TPL_NONE:
        str_add(out, "None");
        return true;
    case TPL_BOOL:
        str_add(out, v.u.truth ? "True" : "False");
        return true;
    case TPL_INT:
        str_printf(out, "%lld", (long long)v.u.i);
        return true;
    case TPL_FLOAT:
        tpl_print_float(out, v.u.f);
        return true;
    case TPL_TEXT:
        if (!tpl_may_make(t, v.u.text.len * 2) || !tpl_spend(t, v.u.text.len / 64))
            return false;
        if (is_quoted)
            print_quoted(v.u.text, out);
        else
            str_add_n(out, v.u.text.data, v.u.text.len);
        return true;
    case TPL_LIST:
        return v.u.list->form == TPL_RANGE ? print_range(v.u.list, out) : print_list(t, v.u.list, out);
    case TPL_DICT:
        return print_dict(t, v.u.dict, out);
    case TPL_SPACE:
        str_add(out, "<Namespace ");
        if (!print_dict(t, v.u.dict, out))
            return false;
        str_char(out, '>');
        return true;
    default:
        return tpl_fail(t, "a %s is printed", tpl_type_name(v));
    }
}

bool tpl_print(Tpl *t, TplValue v, bool is_quoted, Str *out)
{
    if (!tpl_spend(t, 1) || !tpl_enter(t) || !print_value(t, v, is_quoted, out))
        return false;
    tpl_leave(t);
    return true;
}

bool tpl_string(Tpl *t, TplValue v, TplText *out)
{
    Str s = str_new(t->arena);
    if (v.kind == TPL_TEXT) {
        *out = v.u.text;
        return true;
    }
    if (!tpl_print(t, v, false, &s))
        return false;
    *out = (TplText){str_text(&s), s.len};
    return true;
}

// --- JSON ----------------------------------------------------------------------------------------

static void json_code(Str *out, uint32_t c)
{
    if (c < 0x10000) {
        str_printf(out, "\\u%04x", c);
        return;
    }
    str_printf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
}

static void json_text_of(TplText s, bool is_ascii, Str *out)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    str_char(out, '"');
    for (const char *p = s.data, *end = s.data + s.len; p < end;) {
        uint32_t c = (unsigned char)*p;
        const size_t n = str_utf8(p, end, &c);
        const char *escape = c < 0x80 && c != 0 ? strchr(from, (int)c) : NULL;
        if (escape != NULL)
            str_printf(out, "\\%c", to[escape - from]);
        else if (c < 0x20 || (is_ascii && c >= 0x7f))
            json_code(out, c);
        else
            str_add_n(out, p, n == 0 ? 1 : n);
        p += n == 0 ? 1 : n;
    }
    str_char(out, '"');
}

static void json_line(const TplJson *form, uint32_t depth, Str *out)
{
    if (form->indent == NULL)
        return;
    str_char(out, '\n');
    for (uint32_t i = 0; i < depth; i++)
        str_add(out, form->indent);
}

static bool json_key(Tpl *t, TplValue key, const TplJson *form, Str *out)
{
    Str s = str_new(t->arena);
    if (key.kind == TPL_TEXT) {
        json_text_of(key.u.text, form->is_ascii, out);
        return true;
    }
    if (key.kind > TPL_FLOAT || key.kind == TPL_UNDEFINED)
        return tpl_fail(t, "tojson: a key of type %s", tpl_type_name(key));
    if (!tpl_print_json(t, key, form, 0, &s))
        return false;
    str_printf(out, "\"%s\"", str_text(&s));
    return true;
}

static bool json_dict(Tpl *t, const TplDict *d, const TplJson *form, uint32_t depth, Str *out)
{
    const TplItem *items = d->items.data;
    if (form->is_sorted) {
        TplItem *sorted = arena_copy(t->arena, items, d->items.len * sizeof *items);
        for (uint32_t i = 1; i < d->items.len; i++)
            for (uint32_t k = i; k > 0; k--) {
                int order;
                if (!tpl_order(t, sorted[k - 1].key, sorted[k].key, &order))
                    return false;
                if (order <= 0)
                    break;
                const TplItem swap = sorted[k];
                sorted[k] = sorted[k - 1];
                sorted[k - 1] = swap;
            }
        items = sorted;
    }
    str_char(out, '{');
    for (uint32_t i = 0; i < d->items.len; i++) {
        str_add(out, i != 0 ? form->comma : "");
        json_line(form, depth + 1, out);
        if (!json_key(t, items[i].key, form, out))
            return false;
        str_add(out, form->colon);
        if (!tpl_print_json(t, items[i].value, form, depth + 1, out))
            return false;
    }
    if (d->items.len != 0)
        json_line(form, depth, out);
    str_char(out, '}');
    return true;
}

static bool json_list(Tpl *t, const TplList *list, const TplJson *form, uint32_t depth, Str *out)
{
    if (list->form > TPL_TUPLE)
        return tpl_fail(t, "tojson: a list that is no list or tuple; put |list before it");
    str_char(out, '[');
    for (uint32_t i = 0; i < list->items.len; i++) {
        str_add(out, i != 0 ? form->comma : "");
        json_line(form, depth + 1, out);
        if (!tpl_print_json(t, list->items.data[i], form, depth + 1, out))
            return false;
    }
    if (list->items.len != 0)
        json_line(form, depth, out);
    str_char(out, ']');
    return true;
}

static bool json_value(Tpl *t, TplValue v, const TplJson *form, uint32_t depth, Str *out)
{
    switch (v.kind) {
    case TPL_UNDEFINED:
        return tpl_fail(t, "tojson: an undefined value: %.*s", (int)v.u.text.len,
                        v.u.text.data == NULL ? "" : v.u.text.data);
    case TPL_NONE:
        str_add(out, "null");
        return true;
    case TPL_BOOL:
        str_add(out, v.u.truth ? "true" : "false");
        return true;
    case TPL_FLOAT:
        if (!isfinite(v.u.f)) {
            str_add(out, isnan(v.u.f) ? "NaN" : v.u.f < 0 ? "-Infinity" : "Infinity");
            return true;
        }
        return tpl_print(t, v, false, out);
    case TPL_INT:
        return tpl_print(t, v, false, out);
    case TPL_TEXT:
        if (!tpl_may_make(t, v.u.text.len * 6) || !tpl_spend(t, v.u.text.len / 16))
            return false;
        json_text_of(v.u.text, form->is_ascii, out);
        return true;
    case TPL_LIST:
        return json_list(t, v.u.list, form, depth, out);
    case TPL_DICT:
        return json_dict(t, v.u.dict, form, depth, out);
    default:
        return tpl_fail(t, "tojson: a value of type %s", tpl_type_name(v));
    }
}

bool tpl_print_json(Tpl *t, TplValue v, const TplJson *form, uint32_t depth, Str *out)
{
    if (!tpl_spend(t, 1 + (form->indent == NULL ? 0 : depth)) || !tpl_enter(t) ||
        !json_value(t, v, form, depth, out))
        return false;
    tpl_leave(t);
    return true;
}
