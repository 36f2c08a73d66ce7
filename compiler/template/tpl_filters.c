// SPDX-License-Identifier: Apache-2.0
// Filters on single values: texts and numbers.
#include "compiler/template/tpl_run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool text_of(Tpl *t, TplCall *c, TplText *s)
{
    return tpl_string(t, c->self, s);
}

// --- texts ---------------------------------------------------------------------------------------

static bool change_case(Tpl *t, TplCall *c, TplCase how, TplValue *out)
{
    TplText s;
    *out = tpl_of_text((TplText){"", 0});
    return text_of(t, c, &s) && tpl_change_case(t, s, how, &out->u.text);
}

bool tpl_any_case(Tpl *t, TplCall *c, TplValue *out)
{
    static const struct {
        const char *name;
        TplCase how;
    } cases[] = {{"upper", CASE_UPPER}, {"lower", CASE_LOWER}, {"capitalize", CASE_CAPITAL}};
    size_t i = 0;
    while (i < sizeof cases / sizeof *cases && !str_equal(cases[i].name, c->function->name))
        i++;
    rlx_assert(i < sizeof cases / sizeof *cases); // a row of a table names this function by mistake
    return change_case(t, c, cases[i].how, out);
}

bool tpl_filter_title(Tpl *t, TplCall *c, TplValue *out)
{
    return change_case(t, c, CASE_TITLE_WORDS, out);
}

bool tpl_method_title(Tpl *t, TplCall *c, TplValue *out)
{
    return change_case(t, c, CASE_TITLE, out);
}

bool tpl_filter_string(Tpl *t, TplCall *c, TplValue *out)
{
    TplText s;
    if (!text_of(t, c, &s))
        return false;
    *out = tpl_of_text(s);
    return true;
}

bool tpl_filter_trim(Tpl *t, TplCall *c, TplValue *out)
{
    TplText s, chars;
    const bool has_chars = tpl_is_given(c->arg[0]) && c->arg[0].kind != TPL_NONE;
    if (!text_of(t, c, &s) || (has_chars && !tpl_string(t, c->arg[0], &chars)) || !tpl_spend(t, s.len / 64))
        return false;
    *out = tpl_of_text(tpl_strip(s, has_chars ? &chars : NULL, TPL_LEFT | TPL_RIGHT));
    return true;
}

bool tpl_filter_replace(Tpl *t, TplCall *c, TplValue *out)
{
    TplText s, fromto[2];
    const int64_t most = c->arg[2].kind == TPL_INT ? c->arg[2].u.i : -1;
    if (!text_of(t, c, &s) || !tpl_string(t, c->arg[0], &fromto[0]) || !tpl_string(t, c->arg[1], &fromto[1]))
        return false;
    *out = tpl_of_text(s);
    return tpl_replace(t, s, fromto, most, &out->u.text);
}

bool tpl_filter_escape(Tpl *t, TplCall *c, TplValue *out)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    TplText s;
    Str text = str_new(t->arena);
    if (!text_of(t, c, &s) || !tpl_may_make(t, s.len * 10))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        const char *special = s.data[i] == '\0' ? NULL : strchr(from, s.data[i]);
        if (special != NULL)
            str_add(&text, to[special - from]);
        else
            str_char(&text, s.data[i]);
    }
    *out = tpl_text_n(str_text(&text), text.len);
    return tpl_spend(t, s.len / 16);
}

static bool is_yes(TplValue v)
{
    return tpl_is_given(v) && tpl_is_true(v);
}

// The text that `width` stands for: that many spaces, or itself. NULL: reported.
static const char *indent_text(Tpl *t, TplValue width, int64_t otherwise, const char *what)
{
    if (width.kind == TPL_TEXT)
        return arena_strndup(t->arena, width.u.text.data, width.u.text.len);
    const int64_t n = width.kind == TPL_INT ? width.u.i : width.kind == TPL_BOOL ? width.u.truth : otherwise;
    if (n > 1000 || (tpl_is_given(width) && width.kind != TPL_INT && width.kind != TPL_BOOL)) {
        tpl_fail(t, "%s: expected up to 1000 spaces or a string", what);
        return NULL;
    }
    return arena_printf(t->arena, "%*s", n < 0 ? 0 : (int)n, "");
}

bool tpl_filter_indent(Tpl *t, TplCall *c, TplValue *out)
{
    TplText s;
    Str text = str_new(t->arena);
    const char *indent = indent_text(t, c->arg[0], 4, "indent");
    const bool has_first = is_yes(c->arg[1]), has_blank = is_yes(c->arg[2]);
    if (indent == NULL || !text_of(t, c, &s) || !tpl_spend(t, s.len))
        return false;
    // A line more, so that an empty last one counts, as in Python.
    TplValue lines;
    TplCall split = {0};
    Str more = str_new(t->arena);
    str_add_n(&more, s.data, s.len);
    str_char(&more, '\n');
    split.self = tpl_text_n(str_text(&more), more.len);
    if (!tpl_method_splitlines(t, &split, &lines))
        return false;
    for (uint32_t i = 0; i < lines.u.list->items.len; i++) {
        const TplText line = lines.u.list->items.data[i].u.text;
        if (!tpl_may_make(t, text.len * 2))
            return false;
        str_add(&text, i == 0 ? "" : "\n");
        if (i == 0 ? has_first : line.len != 0 || has_blank)
            str_add(&text, indent);
        str_add_n(&text, line.data, line.len);
    }
    *out = tpl_text_n(str_text(&text), text.len);
    return true;
}

// --- JSON ----------------------------------------------------------------------------------------

bool tpl_filter_tojson(Tpl *t, TplCall *c, TplValue *out)
{
    TplJson form = {
        .comma = ", ", .colon = ": ", .is_ascii = is_yes(c->arg[0]), .is_sorted = is_yes(c->arg[3])};
    Str text = str_new(t->arena);
    if (tpl_is_given(c->arg[1]) && c->arg[1].kind != TPL_NONE) {
        form.indent = indent_text(t, c->arg[1], 0, "tojson");
        form.comma = ",";
        if (form.indent == NULL)
            return false;
    }
    const TplValue s = c->arg[2];
    if (tpl_is_given(s) && s.kind != TPL_NONE) {
        if (s.kind != TPL_LIST || s.u.list->items.len != 2 || s.u.list->items.data[0].kind != TPL_TEXT ||
            s.u.list->items.data[1].kind != TPL_TEXT)
            return tpl_fail(t, "tojson: expected two strings as separators");
        const TplText comma = s.u.list->items.data[0].u.text, colon = s.u.list->items.data[1].u.text;
        form.comma = arena_strndup(t->arena, comma.data, comma.len);
        form.colon = arena_strndup(t->arena, colon.data, colon.len);
    }
    if (!tpl_print_json(t, c->self, &form, 0, &text))
        return false;
    *out = tpl_text_n(str_text(&text), text.len);
    return true;
}

// --- numbers -------------------------------------------------------------------------------------

// A text as Python's int and float read it: white space around, single underscores between digits.
static const char *plain_number(Tpl *t, TplText s, size_t *n)
{
    Str text = str_new(t->arena);
    const TplText inner = tpl_strip(s, NULL, TPL_LEFT | TPL_RIGHT);
    for (size_t i = 0; i < inner.len; i++) {
        const bool is_between =
            inner.data[i] == '_' && i > 0 && i + 1 < inner.len && inner.data[i + 1] != '_';
        if (!is_between)
            str_char(&text, inner.data[i]);
    }
    *n = text.len;
    return str_text(&text);
}

static bool read_whole(const char *s, size_t n, int64_t base, int64_t *out)
{
    const bool is_negative = n > 0 && s[0] == '-';
    size_t i = n > 0 && (s[0] == '-' || s[0] == '+');
    const bool has_mark = n > i + 2 && s[i] == '0' &&
                          (s[i + 1] | 32) == (base == 16  ? 'x'
                                              : base == 8 ? 'o'
                                                          : 'b');
    i += has_mark && base != 10 ? 2 : 0;
    *out = 0;
    if (i == n)
        return false;
    for (; i < n; i++) {
        const char ch = s[i] | 32;
        const int v = s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : ch >= 'a' && ch <= 'z' ? ch - 'a' + 10 : 99;
        if (v >= base || __builtin_mul_overflow(*out, base, out) || __builtin_add_overflow(*out, v, out))
            return false;
    }
    *out = is_negative ? -*out : *out;
    return true;
}

// What is no number, or has no end, leaves *out as it is.
static bool whole_of(Tpl *t, double v, TplValue *out)
{
    if (!isfinite(v))
        return true;
    if (!(fabs(v) < 9.2e18))
        return tpl_fail(t, "int: a whole number beyond 64 bits");
    *out = tpl_int((int64_t)v);
    return true;
}

bool tpl_filter_int(Tpl *t, TplCall *c, TplValue *out)
{
    const int64_t base = c->arg[1].kind == TPL_INT ? c->arg[1].u.i : 10;
    size_t n;
    double v;
    *out = tpl_is_given(c->arg[0]) ? c->arg[0] : tpl_int(0);
    if (base < 2 || base > 36)
        return tpl_fail(t, "int: a base from 2 to 36");
    if (tpl_is_number(c->self)) {
        *out = c->self.kind == TPL_INT ? c->self : *out;
        return c->self.kind == TPL_INT || whole_of(t, tpl_number(c->self), out);
    }
    if (c->self.kind != TPL_TEXT)
        return true;
    const char *s = plain_number(t, c->self.u.text, &n);
    int64_t whole;
    if (read_whole(s, n, base, &whole))
        *out = tpl_int(whole);
    else if (str_parse_f64(s, n, &v))
        return whole_of(t, v, out);
    return true;
}

bool tpl_filter_float(Tpl *t, TplCall *c, TplValue *out)
{
    size_t n;
    *out = tpl_is_given(c->arg[0]) ? c->arg[0] : (TplValue){TPL_FLOAT, {.f = 0}};
    if (tpl_is_number(c->self)) {
        *out = (TplValue){TPL_FLOAT, {.f = tpl_number(c->self)}};
        return true;
    }
    double v;
    if (c->self.kind != TPL_TEXT)
        return true;
    const char *s = plain_number(t, c->self.u.text, &n);
    if (str_parse_f64(s, n, &v))
        *out = (TplValue){TPL_FLOAT, {.f = v}};
    return true;
}

static bool need_number(Tpl *t, TplCall *c)
{
    if (c->self.kind == TPL_UNDEFINED)
        return tpl_fail_undefined(t, c->self);
    return tpl_is_number(c->self) ||
           tpl_fail(t, "%s: a value of type '%s' is no number", c->function->name, tpl_type_name(c->self));
}

bool tpl_filter_abs(Tpl *t, TplCall *c, TplValue *out)
{
    if (!need_number(t, c))
        return false;
    *out = c->self;
    if (c->self.kind == TPL_FLOAT)
        out->u.f = fabs(c->self.u.f);
    else if (c->self.kind == TPL_BOOL)
        *out = tpl_int(c->self.u.truth);
    else if (c->self.u.i < 0 && __builtin_sub_overflow(0, c->self.u.i, &out->u.i))
        return tpl_fail(t, "a whole number beyond 64 bits");
    return true;
}

bool tpl_filter_round(Tpl *t, TplCall *c, TplValue *out)
{
    const int64_t digits = c->arg[0].kind == TPL_INT ? c->arg[0].u.i : 0;
    const TplText method = c->arg[1].kind == TPL_TEXT ? c->arg[1].u.text : (TplText){"common", 6};
    const bool is_common = tpl_text_is(method, "common"), is_ceil = tpl_text_is(method, "ceil");
    if (!need_number(t, c))
        return false;
    if (digits < 0 || digits > 100 || (!is_common && !is_ceil && !tpl_text_is(method, "floor")))
        return tpl_fail(t, "round: expected 0 to 100 digits, and common, ceil or floor");
    *out = c->self.kind == TPL_BOOL ? tpl_int(c->self.u.truth) : c->self;
    if (is_common && c->self.kind != TPL_FLOAT)
        return true;
    double v = tpl_number(c->self);
    if (!isfinite(v))
        return is_common || tpl_fail(t, "round: a number that is not finite");
    if (is_common) {
        // The nearest decimal of this number, of two equally near ones the even one, as Python has it.
        const char *text = arena_printf(t->arena, "%.*f", (int)digits, v);
        if (!str_parse_f64(text, strlen(text), &v))
            return tpl_fail(t, "round: a number that cannot be rounded");
    } else {
        const double scale = pow(10, (double)digits);
        v = (is_ceil ? ceil(v * scale) : floor(v * scale)) / scale;
    }
    *out = (TplValue){TPL_FLOAT, {.f = v}};
    return true;
}

// --- any value -----------------------------------------------------------------------------------

bool tpl_filter_default(Tpl *t, TplCall *c, TplValue *out)
{
    (void)t;
    const bool is_missing = c->self.kind == TPL_UNDEFINED || (is_yes(c->arg[1]) && !tpl_is_true(c->self));
    *out = !is_missing ? c->self : tpl_is_given(c->arg[0]) ? c->arg[0] : tpl_of_text((TplText){"", 0});
    return true;
}

bool tpl_filter_attr(Tpl *t, TplCall *c, TplValue *out)
{
    TplText name;
    if (!tpl_string(t, c->arg[0], &name))
        return false;
    if (c->self.kind == TPL_DICT && tpl_find_function(tpl_dict_methods, name) == NULL) {
        *out = tpl_undefined(t, "'dict object' has no attribute '%.*s'", (int)name.len, name.data);
        return true; // members of dictionaries are no attributes
    }
    return tpl_member(t, c->self, name, out);
}
