// SPDX-License-Identifier: Apache-2.0
// Methods of texts, lists and dictionaries.
#include "compiler/import/onnx/text/onnx_case.h"
#include "compiler/template/tpl_run.h"
#include "runtime-lite/text/rlx_unicode.h"
#include <string.h>

// Argument i as a text. False: it is none (reported).
static bool text_argument(Tpl *t, const TplCall *c, uint32_t i, TplText *out)
{
    rlx_assert(i < TPL_MOST_PARAMETERS && c->self.kind == TPL_TEXT && c->function->parameters != NULL);
    if (c->arg[i].kind != TPL_TEXT)
        return tpl_fail(t, "%s(): expected a string, found a value of type '%s'", c->function->name,
                        tpl_type_name(c->arg[i]));
    *out = c->arg[i].u.text;
    return true;
}

static bool is_there(TplValue v)
{
    return tpl_is_given(v) && v.kind != TPL_NONE;
}

static bool give(TplValue *out, TplText s)
{
    *out = tpl_of_text(s);
    return true;
}

// --- stripping -----------------------------------------------------------------------------------

static bool strip(Tpl *t, TplCall *c, unsigned sides, TplValue *out)
{
    TplText chars;
    const bool has_chars = is_there(c->arg[0]);
    if ((has_chars && !text_argument(t, c, 0, &chars)) || !tpl_spend(t, c->self.u.text.len / 64))
        return false;
    return give(out, tpl_strip(c->self.u.text, has_chars ? &chars : NULL, sides));
}

TPL_CALL(method_strip, strip(t, c, TPL_LEFT | TPL_RIGHT, out))
TPL_CALL(method_lstrip, strip(t, c, TPL_LEFT, out))
TPL_CALL(method_rstrip, strip(t, c, TPL_RIGHT, out))

// --- begin and end -------------------------------------------------------------------------------

static bool has_end(TplText s, TplText end, bool is_suffix)
{
    return end.len <= s.len && memcmp(is_suffix ? s.data + s.len - end.len : s.data, end.data, end.len) == 0;
}

// Does the text have an end that is one text, or one of a tuple of them?
static bool has_ends(Tpl *t, TplCall *c, bool is_suffix, TplValue *out)
{
    const TplValue v = c->arg[0];
    const bool is_tuple = v.kind == TPL_LIST && v.u.list->form == TPL_TUPLE;
    bool has = false;
    for (uint32_t i = 0; i < (is_tuple ? v.u.list->items.len : 1); i++) {
        TplText end = {"", 0};
        c->arg[0] = is_tuple ? v.u.list->items.data[i] : v;
        if (!text_argument(t, c, 0, &end))
            return false;
        has = has || has_end(c->self.u.text, end, is_suffix);
    }
    *out = tpl_bool(has);
    return true;
}

TPL_CALL(method_startswith, has_ends(t, c, false, out))
TPL_CALL(method_endswith, has_ends(t, c, true, out))

bool tpl_method_removeprefix(Tpl *t, TplCall *c, TplValue *out)
{
    TplText end = {"", 0}, s = c->self.u.text;
    if (!text_argument(t, c, 0, &end))
        return false;
    const size_t n = has_end(s, end, false) ? end.len : 0;
    return give(out, (TplText){s.data + n, s.len - n});
}

bool tpl_method_removesuffix(Tpl *t, TplCall *c, TplValue *out)
{
    TplText end = {"", 0}, s = c->self.u.text;
    if (!text_argument(t, c, 0, &end))
        return false;
    return give(out, (TplText){s.data, s.len - (has_end(s, end, true) ? end.len : 0)});
}

// --- finding -------------------------------------------------------------------------------------

// What finding `what` from behind may cost.
static uint64_t cost_of_last(TplText s, TplText what)
{
    return (uint64_t)(s.len / 4 + 1) * (what.len / 64 + 1);
}

// The last place of `what`, in bytes; -1: none.
static int64_t find_last(TplText s, TplText what)
{
    for (size_t at = s.len + 1; at-- > 0;)
        if (s.len - at >= what.len && (what.len == 0 || memcmp(s.data + at, what.data, what.len) == 0))
            return (int64_t)at;
    return -1;
}

static bool find(Tpl *t, TplCall *c, bool is_last, TplValue *out)
{
    TplText what, s = c->self.u.text;
    if (!text_argument(t, c, 0, &what) || !tpl_spend(t, is_last ? cost_of_last(s, what) : s.len / 16))
        return false;
    const int64_t at = is_last ? find_last(s, what) : tpl_find(s, what);
    *out = tpl_int(at < 0 ? -1 : (int64_t)tpl_characters((TplText){s.data, (size_t)at}));
    return true;
}

TPL_CALL(method_find, find(t, c, false, out))
TPL_CALL(method_rfind, find(t, c, true, out))

bool tpl_method_index(Tpl *t, TplCall *c, TplValue *out)
{
    return find(t, c, false, out) && (out->u.i >= 0 || tpl_fail(t, "index(): the text is not there"));
}

bool tpl_method_count(Tpl *t, TplCall *c, TplValue *out)
{
    TplText what, s = c->self.u.text;
    int64_t n = 0;
    if (!text_argument(t, c, 0, &what) || !tpl_spend(t, s.len / 4))
        return false;
    if (what.len == 0) {
        *out = tpl_int((int64_t)tpl_characters(s) + 1);
        return true;
    }
    for (int64_t at; (at = tpl_find(s, what)) >= 0; n++)
        s = (TplText){s.data + at + what.len, s.len - (size_t)at - what.len};
    *out = tpl_int(n);
    return true;
}

bool tpl_method_replace(Tpl *t, TplCall *c, TplValue *out)
{
    TplText fromto[2];
    const int64_t most = c->arg[2].kind == TPL_INT ? c->arg[2].u.i : -1;
    give(out, c->self.u.text);
    return text_argument(t, c, 0, &fromto[0]) && text_argument(t, c, 1, &fromto[1]) &&
           tpl_replace(t, c->self.u.text, fromto, most, &out->u.text);
}

// --- splitting and joining -----------------------------------------------------------------------

static void add(Tpl *t, TplList *list, const char *begin, const char *end)
{
    rlx_assert(begin <= end);
    const TplValue v = tpl_text_n(begin, (size_t)(end - begin));
    vec_push(t->arena, &list->items, v);
}

static void split_space(Tpl *t, TplText s, int64_t most, TplList *list)
{
    const char *p = s.data, *end = s.data + s.len;
    for (;;) {
        for (size_t n; p < end && (n = tpl_space(p, end)) != 0;)
            p += n;
        if (p == end)
            return;
        const char *begin = p;
        if (most >= 0 && (int64_t)list->items.len == most) {
            const TplText rest = tpl_strip((TplText){p, (size_t)(end - p)}, NULL, TPL_RIGHT);
            add(t, list, rest.data, rest.data + rest.len);
            return;
        }
        for (size_t n; p < end && tpl_space(p, end) == 0; p += n == 0 ? 1 : n)
            n = str_utf8(p, end, NULL);
        add(t, list, begin, p);
    }
}

static void split_at(Tpl *t, TplText s, TplText what, int64_t most, TplList *list)
{
    for (int64_t at; most != 0 && (at = tpl_find(s, what)) >= 0; most--) {
        add(t, list, s.data, s.data + at);
        s = (TplText){s.data + at + what.len, s.len - (size_t)at - what.len};
    }
    add(t, list, s.data, s.data + s.len);
}

static void turn(TplList *list)
{
    for (uint32_t i = 0, n = list->items.len; i < n / 2; i++) {
        const TplValue v = list->items.data[i];
        list->items.data[i] = list->items.data[n - 1 - i];
        list->items.data[n - 1 - i] = v;
    }
}

static void split_at_last(Tpl *t, TplText s, TplText what, int64_t most, TplList *list)
{
    for (int64_t at; most != 0 && (at = find_last(s, what)) >= 0; most--) {
        add(t, list, s.data + (size_t)at + what.len, s.data + s.len);
        s.len = (size_t)at;
    }
    add(t, list, s.data, s.data + s.len);
    turn(list);
}

static void split_space_last(Tpl *t, TplText s, int64_t most, TplList *list)
{
    while (s.len != 0) {
        s = tpl_strip(s, NULL, TPL_RIGHT);
        if (s.len == 0)
            break;
        const char *end = s.data + s.len, *p = end;
        if (most >= 0 && (int64_t)list->items.len == most) {
            s = tpl_strip(s, NULL, TPL_LEFT);
            add(t, list, s.data, s.data + s.len);
            break;
        }
        while (p > s.data && tpl_space_before(s.data, p) == 0)
            p--;
        add(t, list, p, end);
        s.len = (size_t)(p - s.data);
    }
    turn(list);
}

static bool split(Tpl *t, TplCall *c, bool is_last, TplValue *out)
{
    TplList *list = tpl_new_list(t, TPL_PLAIN);
    TplText what, s = c->self.u.text;
    const int64_t most = c->arg[1].kind == TPL_INT ? c->arg[1].u.i : -1;
    *out = tpl_of_list(list);
    if (!tpl_spend(t, s.len / 2) || !tpl_may_make(t, s.len * 2 * sizeof(TplValue)))
        return false;
    if (!is_there(c->arg[0])) {
        (is_last ? split_space_last : split_space)(t, s, most, list);
        return true;
    }
    if (!text_argument(t, c, 0, &what) || !tpl_spend(t, is_last ? cost_of_last(s, what) : 0))
        return false;
    if (what.len == 0)
        return tpl_fail(t, "split(): the separator is empty");
    (is_last ? split_at_last : split_at)(t, s, what, most, list);
    return true;
}

TPL_CALL(method_split, split(t, c, false, out))
TPL_CALL(method_rsplit, split(t, c, true, out))

bool tpl_method_splitlines(Tpl *t, TplCall *c, TplValue *out)
{
    TplList *list = tpl_new_list(t, TPL_PLAIN);
    rlx_assert(c->self.kind == TPL_TEXT);
    const TplText s = c->self.u.text;
    const char *begin = s.data, *end = s.data + s.len;
    const bool keeps = is_there(c->arg[0]) && tpl_is_true(c->arg[0]);
    for (const char *p = begin; p < end;) {
        uint32_t code = 0;
        size_t n = str_utf8(p, end, &code);
        const bool is_break = (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 ||
                              code == 0x2028 || code == 0x2029;
        n = n == 0 ? 1 : n;
        n += code == 13 && p + 1 < end && p[1] == '\n';
        if (is_break) {
            add(t, list, begin, keeps ? p + n : p);
            begin = p + n;
        }
        p += n;
    }
    if (begin < end)
        add(t, list, begin, end);
    *out = tpl_of_list(list);
    return tpl_spend(t, s.len);
}

static bool partition(Tpl *t, TplCall *c, bool is_last, TplValue *out)
{
    TplList *list = tpl_new_list(t, TPL_TUPLE);
    TplText what, s = c->self.u.text;
    if (!text_argument(t, c, 0, &what) || !tpl_spend(t, cost_of_last(s, what)))
        return false;
    if (what.len == 0)
        return tpl_fail(t, "%s(): the separator is empty", c->function->name);
    const int64_t at = is_last ? find_last(s, what) : tpl_find(s, what);
    const char *end = s.data + s.len, *middle = at < 0 ? (is_last ? s.data : end) : s.data + at;
    const char *after = at < 0 ? middle : middle + what.len;
    add(t, list, s.data, middle);
    add(t, list, middle, after);
    add(t, list, after, end);
    *out = tpl_of_list(list);
    return true;
}

TPL_CALL(method_partition, partition(t, c, false, out))
TPL_CALL(method_rpartition, partition(t, c, true, out))

bool tpl_method_join(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    Str text = str_new(t->arena);
    if (!tpl_iterate(t, c->arg[0], &items))
        return false;
    for (uint32_t i = 0; i < items->items.len; i++) {
        const TplValue v = items->items.data[i];
        if (v.kind != TPL_TEXT)
            return tpl_fail(t, "join(): item %u is of type '%s', not a string", i, tpl_type_name(v));
        if (!tpl_spend(t, 1) || !tpl_may_make(t, (text.len + c->self.u.text.len + v.u.text.len) * 2))
            return false;
        if (i != 0)
            str_add_n(&text, c->self.u.text.data, c->self.u.text.len);
        str_add_n(&text, v.u.text.data, v.u.text.len);
    }
    *out = tpl_text_n(str_text(&text), text.len);
    return true;
}

// --- classes of characters -----------------------------------------------------------------------

// Are all characters of these classes, and is there one?
static bool all_are(Tpl *t, TplCall *c, uint32_t classes, TplValue *out)
{
    const TplText s = c->self.u.text;
    bool are = s.len != 0;
    for (const char *p = s.data, *end = s.data + s.len; p < end && are;) {
        uint32_t code = 0;
        const size_t n = str_utf8(p, end, &code);
        are = n != 0 && (rlx_char_class(code) & classes) != 0;
        p += n == 0 ? 1 : n;
    }
    *out = tpl_bool(are);
    return tpl_spend(t, s.len);
}

enum { LETTERS = RLX_CHAR_UPPER | RLX_CHAR_LOWER | RLX_CHAR_LETTER };

TPL_CALL(method_isalpha, all_are(t, c, LETTERS, out))
TPL_CALL(method_isalnum, all_are(t, c, LETTERS | RLX_CHAR_NUMBER, out))
TPL_CALL(method_isdigit, all_are(t, c, RLX_CHAR_NUMBER, out))

bool tpl_method_isspace(Tpl *t, TplCall *c, TplValue *out)
{
    const TplText s = c->self.u.text;
    *out = tpl_bool(s.len != 0 && tpl_strip(s, NULL, TPL_LEFT).len == 0);
    return tpl_spend(t, s.len / 16);
}

TPL_CALL(method_isupper, tpl_test_upper(t, c, out))
TPL_CALL(method_islower, tpl_test_lower(t, c, out))

// --- lists and dictionaries ----------------------------------------------------------------------

// How many items are equal to the argument, and where the first of them is.
static bool search(Tpl *t, TplCall *c, int64_t *n, int64_t *first)
{
    const TplList *list = c->self.u.list;
    rlx_assert(c->self.kind == TPL_LIST);
    *n = 0;
    for (uint32_t i = 0; i < list->items.len; i++) {
        bool is_equal;
        if (!tpl_equal(t, list->items.data[i], c->arg[0], &is_equal))
            return false;
        *first = is_equal && *n == 0 ? i : *first;
        *n += is_equal;
    }
    return true;
}

bool tpl_method_list_count(Tpl *t, TplCall *c, TplValue *out)
{
    int64_t first = 0;
    *out = tpl_int(0);
    return search(t, c, &out->u.i, &first);
}

bool tpl_method_list_index(Tpl *t, TplCall *c, TplValue *out)
{
    int64_t n;
    *out = tpl_int(0);
    return search(t, c, &n, &out->u.i) && (n != 0 || tpl_fail(t, "index(): the value is not in the list"));
}

bool tpl_method_get(Tpl *t, TplCall *c, TplValue *out)
{
    const TplValue *v = tpl_lookup(t, c->self.u.dict, c->arg[0]);
    *out = v != NULL ? *v : tpl_is_given(c->arg[1]) ? c->arg[1] : (TplValue){.kind = TPL_NONE};
    return true;
}

static bool view(Tpl *t, TplCall *c, const char *name, TplValue *out)
{
    TplList *list = tpl_new_list(t, TPL_VIEW);
    const TplDict *d = c->self.u.dict;
    rlx_assert(c->self.kind == TPL_DICT);
    list->view = name;
    for (uint32_t i = 0; i < d->items.len; i++) {
        const TplItem *item = &d->items.data[i];
        TplValue v = strcmp(name, "dict_keys") == 0 ? item->key : item->value;
        if (strcmp(name, "dict_items") == 0) {
            TplList *pair = tpl_new_list(t, TPL_TUPLE);
            vec_push(t->arena, &pair->items, item->key);
            vec_push(t->arena, &pair->items, item->value);
            v = tpl_of_list(pair);
        }
        vec_push(t->arena, &list->items, v);
    }
    *out = tpl_of_list(list);
    return tpl_spend(t, d->items.len);
}

TPL_CALL(method_items, view(t, c, "dict_items", out))
TPL_CALL(method_keys, view(t, c, "dict_keys", out))
TPL_CALL(method_values, view(t, c, "dict_values", out))

bool tpl_method_dict_copy(Tpl *t, TplCall *c, TplValue *out)
{
    (void)t;
    *out = c->self; // dictionaries do not change
    return true;
}
