// SPDX-License-Identifier: Apache-2.0
// Values of templates: making, comparing and looking into them.
#include "compiler/template/tpl_run.h"
#include <math.h>
#include <string.h>

// --- making --------------------------------------------------------------------------------------

TplValue tpl_text_n(const char *text, size_t n)
{
    return (TplValue){TPL_TEXT, {.text = {text, n}}};
}

TplValue tpl_text(Arena *a, const char *text)
{
    const size_t n = strlen(text);
    return tpl_text_n(arena_strndup(a, text, n), n);
}

TplValue tpl_bool(bool v)
{
    return (TplValue){TPL_BOOL, {.truth = v}};
}

TplValue tpl_int(int64_t v)
{
    return (TplValue){TPL_INT, {.i = v}};
}

TplValue tpl_list(Arena *a)
{
    return (TplValue){TPL_LIST, {.list = ARENA_NEW(a, TplList)}};
}

TplValue tpl_dict(Arena *a)
{
    return (TplValue){TPL_DICT, {.dict = ARENA_NEW(a, TplDict)}};
}

void tpl_list_add(Arena *a, TplValue list, TplValue item)
{
    rlx_assert(list.kind == TPL_LIST);
    vec_push(a, &list.u.list->items, item);
}

// Sets a key that is a text.
static void put_text(Arena *a, TplDict *d, TplText key, TplValue value)
{
    uint64_t at;
    if (map_get(&d->texts, key.data, key.len, &at)) {
        rlx_assert(at < d->items.len && d->items.data[at].key.kind == TPL_TEXT);
        d->items.data[at].value = value;
        return;
    }
    const TplItem item = {tpl_of_text(key), value};
    map_put(a, &d->texts, key.data, key.len, d->items.len);
    vec_push(a, &d->items, item);
}

void tpl_dict_set(Arena *a, TplValue dict, const char *key, TplValue value)
{
    rlx_assert(dict.kind == TPL_DICT);
    put_text(a, dict.u.dict, (TplText){key, strlen(key)}, value);
}

TplList *tpl_new_list(Tpl *t, TplForm form)
{
    TplList *list = ARENA_NEW(t->arena, TplList);
    list->form = form;
    return list;
}

TplValue tpl_of_list(TplList *list)
{
    return (TplValue){TPL_LIST, {.list = list}};
}

TplDict *tpl_new_dict(Tpl *t)
{
    return ARENA_NEW(t->arena, TplDict);
}

TplValue tpl_of_dict(TplDict *dict)
{
    return (TplValue){TPL_DICT, {.dict = dict}};
}

TplValue tpl_undefined(Tpl *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(t->arena, fmt, args);
    va_end(args);
    return (TplValue){TPL_UNDEFINED, {.text = {text, strlen(text)}}};
}

// --- asking --------------------------------------------------------------------------------------

const char *tpl_type_name(TplValue v)
{
    static const char *const names[TPL_KINDS] = {"Undefined", "NoneType", "bool",       "int",       "float",
                                                 "str",       "list",     "dict",       "Namespace", "Macro",
                                                 "function",  "method",   "LoopContext"};
    static const char *const forms[] = {"list", "tuple", "view", "generator", "range"};
    return v.kind == TPL_LIST ? forms[v.u.list->form] : names[v.kind];
}

bool tpl_fail_undefined(Tpl *t, TplValue v)
{
    return tpl_fail(t, "%.*s", (int)v.u.text.len, v.u.text.data);
}

bool tpl_is_true(TplValue v)
{
    switch (v.kind) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        return false;
    case TPL_BOOL:
        return v.u.truth;
    case TPL_INT:
        return v.u.i != 0;
    case TPL_FLOAT:
        return v.u.f != 0;
    case TPL_TEXT:
        return v.u.text.len != 0;
    case TPL_LIST:
        return v.u.list->items.len != 0 || v.u.list->form == TPL_GENERATOR;
    case TPL_DICT:
        return v.u.dict->items.len != 0;
    default:
        return true;
    }
}

bool tpl_is_number(TplValue v)
{
    return v.kind == TPL_BOOL || v.kind == TPL_INT || v.kind == TPL_FLOAT;
}

double tpl_number(TplValue v)
{
    return v.kind == TPL_FLOAT ? v.u.f : v.kind == TPL_BOOL ? (double)v.u.truth : (double)v.u.i;
}

static int64_t whole(TplValue v)
{
    return v.kind == TPL_BOOL ? v.u.truth : v.u.i;
}

static bool equal_dicts(Tpl *t, const TplDict *a, const TplDict *b, bool *out)
{
    *out = a->items.len == b->items.len;
    for (uint32_t i = 0; i < a->items.len && *out; i++) {
        const TplValue *other = tpl_lookup(t, b, a->items.data[i].key);
        *out = other != NULL;
        if (other != NULL && !tpl_equal(t, a->items.data[i].value, *other, out))
            return false;
    }
    return true;
}

static bool equal_lists(Tpl *t, const TplList *a, const TplList *b, bool *out)
{
    *out = a == b || (a->items.len == b->items.len && a->form == b->form && a->form != TPL_GENERATOR);
    for (uint32_t i = 0; a != b && i < a->items.len && *out; i++)
        if (!tpl_equal(t, a->items.data[i], b->items.data[i], out))
            return false;
    return true;
}

static bool equal(Tpl *t, TplValue a, TplValue b, bool *out)
{
    if (tpl_is_number(a) && tpl_is_number(b)) {
        *out = a.kind == TPL_FLOAT || b.kind == TPL_FLOAT ? tpl_number(a) == tpl_number(b)
                                                          : whole(a) == whole(b);
        return true;
    }
    if (a.kind != b.kind) {
        *out = false;
        return true;
    }
    switch (a.kind) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        *out = true;
        return true;
    case TPL_TEXT:
        *out = a.u.text.len == b.u.text.len &&
               (a.u.text.len == 0 || memcmp(a.u.text.data, b.u.text.data, a.u.text.len) == 0);
        return tpl_spend(t, a.u.text.len / 64);
    case TPL_LIST:
        return equal_lists(t, a.u.list, b.u.list, out);
    case TPL_DICT:
        return equal_dicts(t, a.u.dict, b.u.dict, out);
    default:
        *out = a.u.dict == b.u.dict; // the same object
        return true;
    }
}

bool tpl_equal(Tpl *t, TplValue a, TplValue b, bool *out)
{
    if (!tpl_spend(t, 1) || !tpl_enter(t) || !equal(t, a, b, out))
        return false;
    tpl_leave(t);
    return true;
}

static bool order_lists(Tpl *t, const TplList *a, const TplList *b, int *out)
{
    const uint32_t n = a->items.len < b->items.len ? a->items.len : b->items.len;
    *out = a->items.len < b->items.len ? -1 : a->items.len > b->items.len;
    for (uint32_t i = 0; i < n; i++) {
        bool is_equal;
        if (!tpl_equal(t, a->items.data[i], b->items.data[i], &is_equal))
            return false;
        if (!is_equal)
            return tpl_order(t, a->items.data[i], b->items.data[i], out);
    }
    return true;
}

static int order_texts(TplText a, TplText b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int order = n == 0 ? 0 : memcmp(a.data, b.data, n);
    return order != 0 ? (order < 0 ? -1 : 1) : a.len < b.len ? -1 : a.len > b.len;
}

bool tpl_order(Tpl *t, TplValue a, TplValue b, int *out)
{
    bool ok = tpl_spend(t, 1) && tpl_enter(t);
    if (!ok)
        return false;
    if (tpl_is_number(a) && tpl_is_number(b)) {
        const double x = tpl_number(a), y = tpl_number(b);
        if (a.kind != TPL_FLOAT && b.kind != TPL_FLOAT)
            *out = whole(a) < whole(b) ? -1 : whole(a) > whole(b);
        else
            *out = x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    } else if (a.kind == TPL_TEXT && b.kind == TPL_TEXT) {
        *out = order_texts(a.u.text, b.u.text);
    } else if (a.kind == TPL_LIST && b.kind == TPL_LIST && a.u.list->form == b.u.list->form &&
               a.u.list->form <= TPL_TUPLE) {
        ok = order_lists(t, a.u.list, b.u.list, out);
    } else if (a.kind == TPL_UNDEFINED || b.kind == TPL_UNDEFINED) {
        ok = tpl_fail_undefined(t, a.kind == TPL_UNDEFINED ? a : b);
    } else {
        ok = tpl_fail(t, "'%s' and '%s' have no order", tpl_type_name(a), tpl_type_name(b));
    }
    tpl_leave(t);
    return ok;
}

bool tpl_contains(Tpl *t, TplValue item, TplValue in, bool *out)
{
    const TplList *list;
    *out = false;
    if (in.kind == TPL_TEXT) {
        if (item.kind == TPL_TEXT) {
            *out = tpl_find(in.u.text, item.u.text) >= 0;
            return tpl_spend(t, in.u.text.len / 16);
        }
        return item.kind == TPL_UNDEFINED
                   ? tpl_fail_undefined(t, item)
                   : tpl_fail(t, "'in' with a string needs a string before it, not %s", tpl_type_name(item));
    }
    if (in.kind == TPL_DICT) {
        if (item.kind == TPL_DICT || (item.kind == TPL_LIST && item.u.list->form == TPL_PLAIN))
            return tpl_fail(t, "a %s cannot be a key", tpl_type_name(item));
        *out = tpl_lookup(t, in.u.dict, item) != NULL;
        return true;
    }
    if (!tpl_iterate(t, in, &list))
        return false;
    for (uint32_t i = 0; i < list->items.len && !*out; i++)
        if (!tpl_equal(t, item, list->items.data[i], out))
            return false;
    return true;
}

// --- looking into them ----------------------------------------------------------------------------

const TplValue *tpl_lookup(Tpl *t, const TplDict *d, TplValue key)
{
    uint64_t at;
    bool is_equal = false;
    if (key.kind == TPL_TEXT)
        return map_get(&d->texts, key.u.text.data, key.u.text.len, &at) ? &d->items.data[at].value : NULL;
    if (d->texts.len == d->items.len)
        return NULL;
    for (uint32_t i = 0; i < d->items.len; i++)
        if (d->items.data[i].key.kind != TPL_TEXT && tpl_equal(t, d->items.data[i].key, key, &is_equal) &&
            is_equal)
            return &d->items.data[i].value;
    return NULL;
}

bool tpl_put(Tpl *t, TplDict *d, TplValue key, TplValue value)
{
    if (key.kind == TPL_TEXT) {
        put_text(t->arena, d, key.u.text, value);
        return true;
    }
    if (key.kind == TPL_DICT || (key.kind == TPL_LIST && key.u.list->form != TPL_TUPLE))
        return tpl_fail(t, "a %s cannot be a key", tpl_type_name(key));
    if (!tpl_spend(t, d->items.len))
        return false;
    const TplValue *old = tpl_lookup(t, d, key);
    if (old != NULL) {
        d->items
            .data[(const TplItem *)(const void *)((const char *)old - offsetof(TplItem, value)) -
                  d->items.data]
            .value = value;
        return true;
    }
    const TplItem item = {key, value};
    vec_push(t->arena, &d->items, item);
    return true;
}

static const TplFunction *methods(TplValue of)
{
    return of.kind == TPL_TEXT   ? tpl_text_methods
           : of.kind == TPL_LIST ? tpl_list_methods
           : of.kind == TPL_DICT ? tpl_dict_methods
           : of.kind == TPL_LOOP ? tpl_loop_methods
                                 : NULL;
}

static bool find_method(Tpl *t, TplValue of, TplText name, TplValue *out)
{
    const TplFunction *table = methods(of), *f = table == NULL ? NULL : tpl_find_function(table, name);
    if (f == NULL || (of.kind == TPL_LIST && of.u.list->form > TPL_TUPLE))
        return false;
    TplMethod *m = ARENA_NEW(t->arena, TplMethod);
    *m = (TplMethod){of, f};
    *out = (TplValue){TPL_METHOD, {.method = m}};
    return true;
}

static bool loop_member(Tpl *t, const TplLoop *l, TplText name, TplValue *out)
{
    const int64_t n = l->items->items.len, at = l->at;
    rlx_assert(at <= n);
    const struct {
        const char *name;
        TplValue value;
    } members[] = {{"index", tpl_int(at + 1)},
                   {"index0", tpl_int(at)},
                   {"first", tpl_bool(at == 0)},
                   {"last", tpl_bool(at + 1 == n)},
                   {"length", tpl_int(n)},
                   {"revindex", tpl_int(n - at)},
                   {"revindex0", tpl_int(n - at - 1)},
                   {"depth", tpl_int(1)},
                   {"depth0", tpl_int(0)}}; // loops that are not recursive are at this depth
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (tpl_text_is(name, members[i].name)) {
            *out = members[i].value;
            return true;
        }
    const bool is_previous = tpl_text_is(name, "previtem");
    if (!is_previous && !tpl_text_is(name, "nextitem"))
        return false;
    const int64_t other = is_previous ? at - 1 : at + 1;
    *out = other >= 0 && other < n
               ? l->items->items.data[other]
               : tpl_undefined(t, "there is no %s item", is_previous ? "previous" : "next");
    return true;
}

static TplValue missing(Tpl *t, TplValue of, TplText name)
{
    return tpl_undefined(t, "'%s object' has no attribute '%.*s'", tpl_type_name(of), (int)name.len,
                         name.data);
}

bool tpl_member(Tpl *t, TplValue of, TplText name, TplValue *out)
{
    const TplValue *item;
    if (of.kind == TPL_UNDEFINED)
        return tpl_fail_undefined(t, of);
    if (name.len > 4 && memcmp(name.data, "__", 2) == 0 && memcmp(name.data + name.len - 2, "__", 2) == 0)
        return tpl_fail(t, "access to '%.*s' is not safe", (int)name.len, name.data);
    if (find_method(t, of, name, out) || (of.kind == TPL_LOOP && loop_member(t, of.u.loop, name, out)))
        return true;
    item = of.kind == TPL_DICT || of.kind == TPL_SPACE ? tpl_lookup(t, of.u.dict, tpl_of_text(name)) : NULL;
    *out = item != NULL ? *item : missing(t, of, name);
    return true;
}

// Where index i of n is; -1: nowhere.
static int64_t place(TplValue key, size_t n)
{
    const int64_t i = whole(key), at = i < 0 ? i + (int64_t)n : i;
    return at >= 0 && at < (int64_t)n ? at : -1;
}

bool tpl_item(Tpl *t, TplValue of, TplValue key, TplValue *out)
{
    const bool is_index = key.kind == TPL_INT || key.kind == TPL_BOOL;
    if (of.kind == TPL_UNDEFINED)
        return tpl_fail_undefined(t, of);
    if (of.kind == TPL_DICT) {
        const TplValue *item = tpl_lookup(t, of.u.dict, key);
        if (item != NULL) {
            *out = *item;
            return true;
        }
    }
    if (is_index && of.kind == TPL_LIST && of.u.list->form != TPL_GENERATOR && of.u.list->form != TPL_VIEW) {
        const int64_t at = place(key, of.u.list->items.len);
        *out = at < 0 ? tpl_undefined(t, "'%s object' has no element %lld", tpl_type_name(of),
                                      (long long)whole(key))
                      : of.u.list->items.data[at];
        return true;
    }
    if (is_index && of.kind == TPL_TEXT) {
        const size_t n = tpl_characters(of.u.text);
        const int64_t at = place(key, n);
        *out = at < 0 ? tpl_undefined(t, "'str object' has no element %lld", (long long)whole(key))
                      : tpl_of_text(tpl_cut(of.u.text, (size_t)at, (size_t)at + 1));
        return tpl_spend(t, of.u.text.len / 16);
    }
    if (key.kind == TPL_TEXT)
        return tpl_member(t, of, key.u.text, out);
    *out = tpl_undefined(t, "'%s object' has no element of this key", tpl_type_name(of));
    return true;
}

static const TplList *characters(Tpl *t, TplText s)
{
    TplList *list = tpl_new_list(t, TPL_PLAIN);
    for (const char *p = s.data, *end = s.data + s.len; p < end;) {
        const size_t n = str_utf8(p, end, NULL);
        const TplValue one = tpl_text_n(p, n == 0 ? 1 : n);
        vec_push(t->arena, &list->items, one);
        p += n == 0 ? 1 : n;
    }
    return list;
}

bool tpl_iterate(Tpl *t, TplValue v, const TplList **out)
{
    static const TplList empty;
    *out = &empty;
    if (v.kind == TPL_UNDEFINED)
        return true;
    if (v.kind == TPL_LIST) {
        if (v.u.list->form != TPL_GENERATOR || !v.u.list->is_spent)
            *out = v.u.list;
        v.u.list->is_spent = v.u.list->form == TPL_GENERATOR;
        return true;
    }
    if (v.kind == TPL_TEXT) {
        if (!tpl_may_make(t, v.u.text.len * 2 * sizeof(TplValue)))
            return false;
        *out = characters(t, v.u.text);
        return tpl_spend(t, v.u.text.len);
    }
    if (v.kind != TPL_DICT)
        return tpl_fail(t, "a value of type '%s' has no items to go over", tpl_type_name(v));
    TplList *keys = tpl_new_list(t, TPL_PLAIN);
    for (uint32_t i = 0; i < v.u.dict->items.len; i++)
        vec_push(t->arena, &keys->items, v.u.dict->items.data[i].key);
    *out = keys;
    return tpl_spend(t, keys->items.len);
}
