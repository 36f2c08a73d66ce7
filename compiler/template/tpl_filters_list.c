// SPDX-License-Identifier: Apache-2.0
// Filters on lists.
#include "compiler/template/tpl_run.h"
#include <string.h>

static bool items_of(Tpl *t, TplCall *c, const TplList **items)
{
    return tpl_iterate(t, c->self, items);
}

// The part of an item that a path such as a.0.b names; by a number: the item of that number.
static bool part_of(Tpl *t, TplValue v, TplValue path, TplValue *out)
{
    *out = v;
    if (path.kind == TPL_INT)
        return tpl_item(t, v, path, out);
    if (path.kind != TPL_TEXT)
        return tpl_fail(t, "attribute: expected a string or a number");
    const char *p = path.u.text.data, *end = p + path.u.text.len;
    while (p <= end) {
        const char *dot = memchr(p, '.', (size_t)(end - p)), *stop = dot == NULL ? end : dot;
        const TplText name = {p, (size_t)(stop - p)};
        TplValue key = tpl_of_text(name);
        bool is_index = name.len != 0 && name.len < 10;
        int64_t index = 0;
        for (size_t i = 0; i < name.len && is_index; i++) {
            is_index = name.data[i] >= '0' && name.data[i] <= '9';
            index = index * 10 + (name.data[i] - '0');
        }
        key = is_index ? tpl_int(index) : key;
        if (!tpl_item(t, *out, key, out))
            return false;
        p = stop + 1;
    }
    return true;
}

// The value of an item that a filter looks at: a part of it, small letters where the case does not count.
static bool key_of(Tpl *t, TplValue v, TplValue path, TplValue is_sensitive, TplValue *out)
{
    *out = v;
    if (tpl_is_given(path) && path.kind != TPL_NONE && !part_of(t, v, path, out))
        return false;
    const bool has_case = tpl_is_given(is_sensitive) && tpl_is_true(is_sensitive);
    return has_case || out->kind != TPL_TEXT || tpl_change_case(t, out->u.text, CASE_LOWER, &out->u.text);
}

// --- one of them, or how many --------------------------------------------------------------------

bool tpl_filter_length(Tpl *t, TplCall *c, TplValue *out)
{
    const TplValue v = c->self;
    if (v.kind == TPL_TEXT)
        *out = tpl_int((int64_t)tpl_characters(v.u.text));
    else if (v.kind == TPL_LIST && v.u.list->form != TPL_GENERATOR)
        *out = tpl_int(v.u.list->items.len);
    else if (v.kind == TPL_DICT)
        *out = tpl_int(v.u.dict->items.len);
    else if (v.kind == TPL_UNDEFINED)
        *out = tpl_int(0);
    else
        return tpl_fail(t, "a value of type '%s' has no length", tpl_type_name(v));
    return tpl_spend(t, v.kind == TPL_TEXT ? v.u.text.len / 16 : 0);
}

bool tpl_filter_first(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    if (!items_of(t, c, &items))
        return false;
    *out = items->items.len != 0 ? items->items.data[0] : tpl_undefined(t, "there is no first item");
    return true;
}

bool tpl_filter_last(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    if (c->self.kind == TPL_LIST && c->self.u.list->form == TPL_GENERATOR)
        return tpl_fail(t, "last: a generator has no last item; put |list before it");
    if (!items_of(t, c, &items))
        return false;
    *out = items->items.len != 0 ? items->items.data[items->items.len - 1]
                                 : tpl_undefined(t, "there is no last item");
    return true;
}

static bool extreme(Tpl *t, TplCall *c, int sign, TplValue *out)
{
    const TplList *items;
    TplValue best = {0}, key;
    int order;
    if (!items_of(t, c, &items))
        return false;
    *out = tpl_undefined(t, "there is no item");
    for (uint32_t i = 0; i < items->items.len; i++) {
        if (!key_of(t, items->items.data[i], c->arg[1], c->arg[0], &key))
            return false;
        if (i != 0 && !tpl_order(t, key, best, &order))
            return false;
        if (i == 0 || (order != 2 && order * sign > 0)) {
            best = key;
            *out = items->items.data[i];
        }
    }
    return true;
}

TPL_CALL(filter_max, extreme(t, c, 1, out))
TPL_CALL(filter_min, extreme(t, c, -1, out))

bool tpl_filter_sum(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    TplNode parts[3] = {
        {.kind = NODE_BINARY, .op = TPL_OP('+', 0)}, {.kind = NODE_CONST}, {.kind = NODE_CONST}};
    parts[0].a = &parts[1];
    parts[0].b = &parts[2];
    parts[0].at = t->node->at;
    parts[0].end = t->node->end;
    *out = tpl_is_given(c->arg[1]) ? c->arg[1] : tpl_int(0);
    if (!items_of(t, c, &items))
        return false;
    for (uint32_t i = 0; i < items->items.len; i++) {
        parts[1].value = *out;
        parts[2].value = items->items.data[i];
        if (tpl_is_given(c->arg[0]) && c->arg[0].kind != TPL_NONE &&
            !part_of(t, items->items.data[i], c->arg[0], &parts[2].value))
            return false;
        if (!tpl_eval(t, &parts[0], out))
            return false;
    }
    return true;
}

bool tpl_filter_join(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    TplText between = {"", 0};
    Str text = str_new(t->arena);
    if ((tpl_is_given(c->arg[0]) && !tpl_string(t, c->arg[0], &between)) || !items_of(t, c, &items))
        return false;
    for (uint32_t i = 0; i < items->items.len; i++) {
        TplValue v = items->items.data[i];
        if (tpl_is_given(c->arg[1]) && c->arg[1].kind != TPL_NONE && !part_of(t, v, c->arg[1], &v))
            return false;
        if (!tpl_may_make(t, (text.len + between.len) * 2))
            return false;
        if (i != 0)
            str_add_n(&text, between.data, between.len);
        if (!tpl_print(t, v, false, &text))
            return false;
    }
    *out = tpl_text_n(str_text(&text), text.len);
    return true;
}

// --- lists of them -------------------------------------------------------------------------------

static TplList *copy(Tpl *t, const TplList *from, TplForm form)
{
    TplList *list = tpl_new_list(t, form);
    for (uint32_t i = 0; i < from->items.len; i++)
        vec_push(t->arena, &list->items, from->items.data[i]);
    return list;
}

bool tpl_filter_list(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    if (!items_of(t, c, &items) || !tpl_spend(t, items->items.len))
        return false;
    *out = tpl_of_list(copy(t, items, TPL_PLAIN));
    return true;
}

bool tpl_filter_reverse(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    if (!items_of(t, c, &items) || !tpl_spend(t, items->items.len))
        return false;
    TplList *list = copy(t, items, TPL_GENERATOR);
    Str text = str_new(t->arena);
    for (uint32_t i = 0, n = items->items.len; i < n; i++) {
        list->items.data[i] = items->items.data[n - 1 - i];
        if (c->self.kind == TPL_TEXT)
            str_add_n(&text, list->items.data[i].u.text.data, list->items.data[i].u.text.len);
    }
    *out = c->self.kind == TPL_TEXT ? tpl_text_n(str_text(&text), text.len) : tpl_of_list(list);
    return true;
}

bool tpl_filter_items(Tpl *t, TplCall *c, TplValue *out)
{
    TplList *list = tpl_new_list(t, TPL_GENERATOR);
    *out = tpl_of_list(list);
    if (c->self.kind == TPL_UNDEFINED)
        return true;
    if (c->self.kind != TPL_DICT)
        return tpl_fail(t, "items: a value of type '%s' is no mapping", tpl_type_name(c->self));
    for (uint32_t i = 0; i < c->self.u.dict->items.len; i++) {
        TplList *pair = tpl_new_list(t, TPL_TUPLE);
        vec_push(t->arena, &pair->items, c->self.u.dict->items.data[i].key);
        vec_push(t->arena, &pair->items, c->self.u.dict->items.data[i].value);
        vec_push(t->arena, &list->items, tpl_of_list(pair));
    }
    return tpl_spend(t, c->self.u.dict->items.len);
}

typedef struct Sorted {
    TplValue key, item;
} Sorted;

// Merges two sorted halves; equal ones keep their order.
static bool merge(Tpl *t, Sorted *at, Sorted *spare, uint32_t n, int sign)
{
    const uint32_t half = n / 2;
    if (n < 2)
        return true;
    if (!merge(t, at, spare, half, sign) || !merge(t, at + half, spare, n - half, sign))
        return false;
    memcpy(spare, at, n * sizeof *at);
    for (uint32_t i = 0, k = half, to = 0; to < n; to++) {
        int order = -1;
        if (i < half && k < n && !tpl_order(t, spare[i].key, spare[k].key, &order))
            return false;
        const bool is_left = k == n || (i < half && (order == 2 || order * sign <= 0));
        at[to] = is_left ? spare[i++] : spare[k++];
    }
    return true;
}

// Python takes no other values for it.
static bool check_reverse(Tpl *t, TplValue v)
{
    return !tpl_is_given(v) || v.kind == TPL_BOOL || v.kind == TPL_INT ||
           tpl_fail(t, "reverse: expected true or false, found a value of type '%s'", tpl_type_name(v));
}

static bool sort(Tpl *t, Sorted *at, uint32_t n, bool is_reversed, TplList *list)
{
    if (!tpl_may_make(t, (uint64_t)n * sizeof *at) ||
        !merge(t, at, ARENA_ARRAY(t->arena, Sorted, n), n, is_reversed ? -1 : 1))
        return false;
    for (uint32_t i = 0; i < n; i++)
        vec_push(t->arena, &list->items, at[i].item);
    return true;
}

// Items by the part that `part` names, whose case counts where `has_case` is true.
static bool sort_by(Tpl *t, const TplList *items, TplValue part, TplValue has_case, TplValue is_reversed,
                    TplValue *out)
{
    TplList *list = tpl_new_list(t, TPL_PLAIN);
    if (!tpl_may_make(t, items->items.len * sizeof(Sorted)))
        return false;
    Sorted *at = ARENA_ARRAY(t->arena, Sorted, items->items.len);
    for (uint32_t i = 0; i < items->items.len; i++) {
        at[i].item = items->items.data[i];
        if (!key_of(t, at[i].item, part, has_case, &at[i].key))
            return false;
    }
    *out = tpl_of_list(list);
    return sort(t, at, items->items.len, tpl_is_given(is_reversed) && tpl_is_true(is_reversed), list);
}

bool tpl_filter_sort(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    return items_of(t, c, &items) && check_reverse(t, c->arg[0]) &&
           sort_by(t, items, c->arg[2], c->arg[1], c->arg[0], out);
}

bool tpl_filter_dictsort(Tpl *t, TplCall *c, TplValue *out)
{
    const bool is_by_value = c->arg[1].kind == TPL_TEXT && tpl_text_is(c->arg[1].u.text, "value");
    TplCall pairs = *c;
    const TplList *items;
    if (c->self.kind != TPL_DICT)
        return tpl_fail(t, "dictsort: a value of type '%s' is no mapping", tpl_type_name(c->self));
    return check_reverse(t, c->arg[2]) && tpl_filter_items(t, &pairs, out) && tpl_iterate(t, *out, &items) &&
           sort_by(t, items, tpl_int(is_by_value), c->arg[0], c->arg[2], out);
}

bool tpl_filter_unique(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    TplList *list = tpl_new_list(t, TPL_GENERATOR), *keys = tpl_new_list(t, TPL_PLAIN);
    if (!items_of(t, c, &items))
        return false;
    for (uint32_t i = 0; i < items->items.len; i++) {
        TplValue key;
        bool is_known;
        if (!key_of(t, items->items.data[i], c->arg[1], c->arg[0], &key) ||
            !tpl_contains(t, key, tpl_of_list(keys), &is_known))
            return false;
        if (is_known)
            continue;
        vec_push(t->arena, &keys->items, key);
        vec_push(t->arena, &list->items, items->items.data[i]);
    }
    *out = tpl_of_list(list);
    return true;
}

bool tpl_filter_batch(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    TplList *list = tpl_new_list(t, TPL_GENERATOR), *row = NULL;
    const int64_t n = c->arg[0].kind == TPL_INT ? c->arg[0].u.i : 0;
    if (n < 1 || n > 1000000)
        return tpl_fail(t, "batch: expected a number from 1 to 1000000");
    if (!items_of(t, c, &items))
        return false;
    for (uint32_t i = 0; i < items->items.len; i++) {
        if (i % n == 0) {
            row = tpl_new_list(t, TPL_PLAIN);
            vec_push(t->arena, &list->items, tpl_of_list(row));
        }
        vec_push(t->arena, &row->items, items->items.data[i]);
    }
    const bool is_filled = tpl_is_given(c->arg[1]) && c->arg[1].kind != TPL_NONE;
    for (; is_filled && row != NULL && row->items.len < n;)
        vec_push(t->arena, &row->items, c->arg[1]);
    *out = tpl_of_list(list);
    return tpl_spend(t, items->items.len + (uint64_t)n);
}

// --- map, select and their like ------------------------------------------------------------------

// The call of a filter or test that the arguments from `from` on name, on one item.
static bool call_named(Tpl *t, const TplFunction *table, const TplCall *c, uint32_t from, TplValue *v)
{
    rlx_assert(from < c->n); // whoever calls has seen that there is a name
    TplCall inner = {.self = *v, .names = c->names, .n_names = c->n_names};
    const TplValue name = c->value[from];
    inner.value = c->value + from + 1;
    inner.n = c->n - from - 1;
    if (name.kind != TPL_TEXT)
        return tpl_fail(t, "%s: expected the name of a filter or test", c->function->name);
    const char *text = arena_strndup(t->arena, name.u.text.data, name.u.text.len);
    return tpl_call(t, tpl_find_function(table, name.u.text),
                    arena_printf(t->arena, "filter or test '%s'", text), &inner, v);
}

static bool map_one(Tpl *t, TplCall *c, const TplValue *path, const TplValue *otherwise, TplValue *v)
{
    if (path == NULL)
        return call_named(t, tpl_filters, c, 0, v);
    if (!part_of(t, *v, *path, v))
        return false;
    if (v->kind == TPL_UNDEFINED && otherwise != NULL)
        *v = *otherwise;
    return true;
}

bool tpl_filter_map(Tpl *t, TplCall *c, TplValue *out)
{
    const TplList *items;
    TplList *list = tpl_new_list(t, TPL_GENERATOR);
    const TplValue *path = c->n == 0 ? tpl_named(t, c, "attribute") : NULL;
    if (path == NULL && c->n == 0)
        return tpl_fail(t, "map: expected attribute=, or the name of a filter");
    *out = tpl_of_list(list);
    if (!tpl_is_true(c->self))
        return true; // as Python has it, also for what has no items
    if (!items_of(t, c, &items))
        return false;
    for (uint32_t i = 0; i < items->items.len; i++) {
        TplValue v = items->items.data[i];
        if (!tpl_spend(t, 1) || !map_one(t, c, path, tpl_named(t, c, "default"), &v))
            return false;
        vec_push(t->arena, &list->items, v);
    }
    return true;
}

// The items whose test gives `wanted`; has_path: of the part that the first argument names.
static bool choose(Tpl *t, TplCall *c, bool has_path, bool wanted, TplValue *out)
{
    const TplList *items;
    TplList *list = tpl_new_list(t, TPL_GENERATOR);
    if (has_path && c->n == 0)
        return tpl_fail(t, "%s: expected the name of an attribute", c->function->name);
    *out = tpl_of_list(list);
    if (!tpl_is_true(c->self))
        return true; // as Python has it, also for what has no items
    if (!items_of(t, c, &items))
        return false;
    for (uint32_t i = 0; i < items->items.len; i++) {
        TplValue v = items->items.data[i];
        if (!tpl_spend(t, 1) || (has_path && !part_of(t, v, c->value[0], &v)) ||
            (c->n > has_path && !call_named(t, tpl_tests, c, has_path, &v)))
            return false;
        if (tpl_is_true(v) == wanted)
            vec_push(t->arena, &list->items, items->items.data[i]);
    }
    return true;
}

TPL_CALL(filter_select, choose(t, c, false, true, out))
TPL_CALL(filter_reject, choose(t, c, false, false, out))
TPL_CALL(filter_selectattr, choose(t, c, true, true, out))
TPL_CALL(filter_rejectattr, choose(t, c, true, false, out))
