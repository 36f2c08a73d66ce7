// SPDX-License-Identifier: Apache-2.0
// Expressions of templates: a tree to a value.
#include "compiler/template/tpl_run.h"
#include <math.h>
#include <string.h>

#define OP(c) TPL_OP(c, 0)

static bool undefined_of(Tpl *t, TplValue a, TplValue b)
{
    return a.kind != TPL_UNDEFINED && b.kind != TPL_UNDEFINED
               ? true
               : tpl_fail_undefined(t, a.kind == TPL_UNDEFINED ? a : b);
}

// --- names and parts -----------------------------------------------------------------------------

static bool eval_name(Tpl *t, const TplNode *n, TplValue *out)
{
    rlx_assert(n->name < t->t->name_text.len);
    for (const TplScope *s = t->scope; s != NULL; s = s->above)
        for (uint32_t i = s->variables.len; i-- > 0;)
            if (s->variables.data[i].name == n->name) {
                *out = s->variables.data[i].value;
                return true;
            }
    const TplText name = t->t->name_text.data[n->name];
    const TplFunction *f = tpl_find_function(tpl_functions, name);
    if (f != NULL)
        *out = (TplValue){TPL_FUNCTION, {.function = f}};
    else
        *out = tpl_undefined(t, "'%.*s' is undefined", (int)name.len, name.data);
    return true;
}

static bool eval_list(Tpl *t, const TplNode *n, TplValue *out)
{
    TplList *list = tpl_new_list(t, n->kind == NODE_TUPLE ? TPL_TUPLE : TPL_PLAIN);
    for (uint32_t i = 0; i < n->list.len; i++) {
        TplValue item;
        if (!tpl_eval(t, n->list.data[i], &item))
            return false;
        vec_push(t->arena, &list->items, item);
    }
    *out = tpl_of_list(list);
    return true;
}

static bool eval_dict(Tpl *t, const TplNode *n, TplValue *out)
{
    TplDict *d = tpl_new_dict(t);
    rlx_assert(n->list.len % 2 == 0); // keys and values in turns
    for (uint32_t i = 0; i < n->list.len; i += 2) {
        TplValue key, value;
        if (!tpl_eval(t, n->list.data[i], &key) || !tpl_eval(t, n->list.data[i + 1], &value) ||
            !tpl_put(t, d, key, value))
            return false;
    }
    *out = tpl_of_dict(d);
    return true;
}

// The bound of a slice: *given says whether there is one that is not none.
static bool eval_bound(Tpl *t, const TplNode *n, int64_t *out, bool *is_given)
{
    TplValue v = {.kind = TPL_NONE};
    if (n != NULL && !tpl_eval(t, n, &v))
        return false;
    *is_given = v.kind == TPL_INT || v.kind == TPL_BOOL;
    *out = v.kind == TPL_INT ? v.u.i : v.kind == TPL_BOOL ? v.u.truth : 0;
    return *is_given || v.kind == TPL_NONE ||
           (v.kind == TPL_UNDEFINED
                ? tpl_fail_undefined(t, v)
                : tpl_fail(t, "a bound of a slice is a whole number, not %s", tpl_type_name(v)));
}

static int64_t bound_of(int64_t v, bool is_given, int64_t otherwise, const int64_t range[2], int64_t n)
{
    if (!is_given)
        return otherwise;
    v = v < 0 ? v + n : v;
    return v < range[0] ? range[0] : v > range[1] ? range[1] : v;
}

// The bounds of a part of a range, as Python has them. They wrap where Python has longer numbers.
static void slice_range(const TplList *of, int64_t begin, int64_t end, int64_t step, TplList *part)
{
    const uint64_t first = (uint64_t)of->range[0], each = (uint64_t)of->range[2];
    part->range[0] = (int64_t)(first + (uint64_t)begin * each);
    part->range[1] = (int64_t)(first + (uint64_t)end * each);
    part->range[2] = (int64_t)(each * (uint64_t)step);
}

static bool tpl_eval_slice(Tpl *t, const TplNode *n, TplValue of, TplValue *out)
{
    int64_t from, to, step;
    bool has_from, has_to, has_step;
    if (!eval_bound(t, n->b, &from, &has_from) || !eval_bound(t, n->c, &to, &has_to) ||
        !eval_bound(t, n->d, &step, &has_step))
        return false;
    step = has_step ? step : 1;
    const TplList *list;
    if (step == 0)
        return tpl_fail(t, "the step of a slice is 0");
    if (of.kind != TPL_TEXT &&
        (of.kind != TPL_LIST || of.u.list->form == TPL_GENERATOR || of.u.list->form == TPL_VIEW))
        return of.kind == TPL_UNDEFINED
                   ? tpl_fail_undefined(t, of)
                   : tpl_fail(t, "a value of type '%s' has no slices", tpl_type_name(of));
    if (!tpl_iterate(t, of, &list))
        return false;
    const int64_t size = list->items.len, range[2] = {step < 0 ? -1 : 0, step < 0 ? size - 1 : size};
    const int64_t begin = bound_of(from, has_from, step < 0 ? size - 1 : 0, range, size);
    const int64_t end = bound_of(to, has_to, step < 0 ? -1 : size, range, size);
    rlx_assert(step > 0 ? begin >= 0 && end <= size : begin < size && end >= -1);
    TplList *part = tpl_new_list(t, of.kind == TPL_TEXT ? TPL_PLAIN : of.u.list->form);
    Str text = str_new(t->arena);
    if (part->form == TPL_RANGE)
        slice_range(of.u.list, begin, end, step, part);
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
        const TplValue item = list->items.data[i];
        if (of.kind == TPL_TEXT)
            str_add_n(&text, item.u.text.data, item.u.text.len);
        else
            vec_push(t->arena, &part->items, item);
        if (step > 0 ? step > end - i : step < end - i)
            break;
        i += step;
    }
    *out = of.kind == TPL_TEXT ? tpl_text_n(str_text(&text), text.len) : tpl_of_list(part);
    return tpl_spend(t, (uint64_t)size);
}

// --- operators -----------------------------------------------------------------------------------

static bool fail_types(Tpl *t, const TplNode *n, TplValue a, TplValue b)
{
    return tpl_fail(t, "'%c%s' between '%s' and '%s'", (char)(n->op & 0xff), n->op > 0xff ? "*" : "",
                    tpl_type_name(a), tpl_type_name(b));
}

static int64_t whole(TplValue v)
{
    return v.kind == TPL_BOOL ? v.u.truth : v.u.i;
}

static bool repeat(Tpl *t, TplValue of, int64_t times, TplValue *out)
{
    rlx_assert(of.kind == TPL_TEXT || of.kind == TPL_LIST);
    times = times < 0 ? 0 : times;
    const uint64_t one = of.kind == TPL_TEXT ? of.u.text.len : of.u.list->items.len * sizeof(TplValue);
    if (one != 0 && (uint64_t)times > TPL_MAX_BYTES / one)
        return tpl_may_make(t, SIZE_MAX);
    if (!tpl_may_make(t, one * (uint64_t)times * 2) || !tpl_spend(t, one * (uint64_t)times / 16))
        return false;
    Str text = str_new(t->arena);
    TplList *list = of.kind == TPL_LIST ? tpl_new_list(t, of.u.list->form) : NULL;
    for (int64_t i = 0; i < times && one != 0; i++) {
        if (list == NULL)
            str_add_n(&text, of.u.text.data, of.u.text.len);
        for (uint32_t k = 0; list != NULL && k < of.u.list->items.len; k++)
            vec_push(t->arena, &list->items, of.u.list->items.data[k]);
    }
    *out = list == NULL ? tpl_text_n(str_text(&text), text.len) : tpl_of_list(list);
    return true;
}

static bool join_two(Tpl *t, TplValue a, TplValue b, TplValue *out)
{
    rlx_assert(a.kind == b.kind && (a.kind == TPL_TEXT || a.kind == TPL_LIST));
    if (a.kind == TPL_TEXT) {
        const size_t n = a.u.text.len + b.u.text.len;
        if (!tpl_may_make(t, n) || !tpl_spend(t, n / 64))
            return false;
        char *text = arena_alloc(t->arena, n + 1);
        memcpy(text, a.u.text.data, a.u.text.len);
        memcpy(text + a.u.text.len, b.u.text.data, b.u.text.len);
        *out = tpl_text_n(text, n);
        return true;
    }
    TplList *list = tpl_new_list(t, a.u.list->form);
    if (!tpl_may_make(t, ((uint64_t)a.u.list->items.len + b.u.list->items.len) * 2 * sizeof(TplValue)) ||
        !tpl_spend(t, (uint64_t)a.u.list->items.len + b.u.list->items.len))
        return false;
    for (uint32_t i = 0; i < a.u.list->items.len; i++)
        vec_push(t->arena, &list->items, a.u.list->items.data[i]);
    for (uint32_t i = 0; i < b.u.list->items.len; i++)
        vec_push(t->arena, &list->items, b.u.list->items.data[i]);
    *out = tpl_of_list(list);
    return true;
}

static bool is_sequence(TplValue v)
{
    return v.kind == TPL_TEXT || (v.kind == TPL_LIST && v.u.list->form <= TPL_TUPLE);
}

// %s, %d and %% in a text.
static bool format_text(Tpl *t, TplText s, TplValue with, TplValue *out)
{
    const bool is_tuple = with.kind == TPL_LIST && with.u.list->form == TPL_TUPLE;
    const uint32_t n = is_tuple ? with.u.list->items.len : 1;
    uint32_t used = 0;
    Str text = str_new(t->arena);
    for (size_t i = 0; i < s.len; i++) {
        const char kind = s.data[i] != '%' ? ' ' : i + 1 < s.len ? s.data[i + 1] : '\0';
        if (kind == ' ' || kind == '%') {
            str_char(&text, s.data[i]);
            i += kind == '%';
            continue;
        }
        if ((kind != 's' && kind != 'd') || used == n)
            return tpl_fail(t, "'%%': expected %%s, %%d or %%%% in the text, and a value for each");
        const TplValue v = is_tuple ? with.u.list->items.data[used] : with;
        if (kind == 'd' && v.kind != TPL_INT && v.kind != TPL_BOOL)
            return tpl_fail(t, "'%%': %%d with a value of type '%s'", tpl_type_name(v));
        if (!tpl_print(t, kind == 'd' ? tpl_int(whole(v)) : v, false, &text))
            return false;
        used++;
        i++;
    }
    if (used != n)
        return tpl_fail(t, "'%%': %u values for %u places", n, used);
    *out = tpl_text_n(str_text(&text), text.len);
    return true;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool power_whole(int64_t a, int64_t b, int64_t *out)
{
    rlx_assert(b >= 0); // a negative power is no whole number
    *out = 1;
    while (b != 0) {
        if ((b & 1) != 0 && __builtin_mul_overflow(*out, a, out))
            return false;
        b >>= 1;
        if (b != 0 && __builtin_mul_overflow(a, a, &a))
            return false;
    }
    return true;
}

static bool fail_range(Tpl *t)
{
    return tpl_fail(t, "a whole number beyond 64 bits");
}

static bool whole_numbers(Tpl *t, uint32_t op, int64_t a, int64_t b, TplValue *out)
{
    bool ok = true;
    rlx_assert(op != OP('/') && (b != 0 || (op != OP('%') && op != TPL_OP('/', '/'))));
    *out = tpl_int(0);
    if (op == OP('+'))
        ok = !__builtin_add_overflow(a, b, &out->u.i);
    else if (op == OP('-'))
        ok = !__builtin_sub_overflow(a, b, &out->u.i);
    else if (op == OP('*'))
        ok = !__builtin_mul_overflow(a, b, &out->u.i);
    else if (op == TPL_OP('*', '*'))
        ok = power_whole(a, b, &out->u.i);
    else if (b == -1)
        ok = op == OP('%') || !__builtin_sub_overflow(0, a, &out->u.i);
    else
        out->u.i = op == OP('%') ? a - floor_divide(a, b) * b : floor_divide(a, b);
    return ok || fail_range(t);
}

static bool numbers(Tpl *t, uint32_t op, TplValue a, TplValue b, TplValue *out)
{
    const double x = tpl_number(a), y = tpl_number(b);
    const bool is_division = op == OP('/') || op == OP('%') || op == TPL_OP('/', '/');
    const bool is_power = op == TPL_OP('*', '*');
    if ((is_division && y == 0) || (is_power && x == 0 && y < 0))
        return tpl_fail(t, "division by zero");
    if (a.kind != TPL_FLOAT && b.kind != TPL_FLOAT && op != OP('/') && !(is_power && y < 0))
        return whole_numbers(t, op, whole(a), whole(b), out);
    const double rest = op == OP('%') || op == TPL_OP('/', '/') ? fmod(x, y) : 0;
    const double modulo = rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest == 0 ? copysign(0, y) : rest;
    const double v = op == OP('+')   ? x + y
                     : op == OP('-') ? x - y
                     : op == OP('*') ? x * y
                     : op == OP('/') ? x / y
                     : is_power      ? pow(x, y)
                     : op == OP('%') ? modulo
                                     : floor((x - modulo) / y + 0.5);
    if (is_power && isnan(v) && !isnan(x) && !isnan(y))
        return tpl_fail(t, "a root of a negative number");
    *out = (TplValue){TPL_FLOAT, {.f = v}};
    return true;
}

static bool eval_binary(Tpl *t, const TplNode *n, TplValue *out)
{
    TplValue a, b;
    if (!tpl_eval(t, n->a, &a) || !tpl_eval(t, n->b, &b) || !undefined_of(t, a, b))
        return false;
    if (tpl_is_number(a) && tpl_is_number(b))
        return numbers(t, n->op, a, b, out);
    if (n->op == OP('+') && is_sequence(a) && a.kind == b.kind &&
        (a.kind == TPL_TEXT || a.u.list->form == b.u.list->form))
        return join_two(t, a, b, out);
    if (n->op == OP('*') && is_sequence(a) && (b.kind == TPL_INT || b.kind == TPL_BOOL))
        return repeat(t, a, whole(b), out);
    if (n->op == OP('*') && is_sequence(b) && (a.kind == TPL_INT || a.kind == TPL_BOOL))
        return repeat(t, b, whole(a), out);
    return n->op == OP('%') && a.kind == TPL_TEXT ? format_text(t, a.u.text, b, out) : fail_types(t, n, a, b);
}

static bool eval_negated(Tpl *t, const TplNode *n, TplValue *out)
{
    TplValue v;
    if (!tpl_eval(t, n->a, &v))
        return false;
    if (v.kind == TPL_UNDEFINED)
        return tpl_fail_undefined(t, v);
    if (!tpl_is_number(v))
        return tpl_fail(t, "a sign before a value of type '%s'", tpl_type_name(v));
    if (v.kind == TPL_FLOAT) {
        *out = (TplValue){TPL_FLOAT, {.f = n->op == OP('-') ? -v.u.f : v.u.f}};
        return true;
    }
    *out = tpl_int(whole(v));
    return n->op != OP('-') || !__builtin_sub_overflow(0, whole(v), &out->u.i) || fail_range(t);
}

static bool compare(Tpl *t, uint32_t op, TplValue a, TplValue b, bool *out)
{
    if (op == TPL_IN || op == TPL_NOT_IN || op == TPL_OP('=', '=') || op == TPL_OP('!', '=')) {
        const bool is_in = op == TPL_IN || op == TPL_NOT_IN;
        if (!(is_in ? tpl_contains(t, a, b, out) : tpl_equal(t, a, b, out)))
            return false;
        *out = *out != (op == TPL_NOT_IN || op == TPL_OP('!', '='));
        return true;
    }
    int order;
    if (!tpl_order(t, a, b, &order))
        return false;
    *out = order != 2 && (op == OP('<')            ? order < 0
                          : op == OP('>')          ? order > 0
                          : op == TPL_OP('<', '=') ? order <= 0
                                                   : order >= 0);
    return true;
}

static bool eval_compare(Tpl *t, const TplNode *n, TplValue *out)
{
    TplValue a, b;
    bool holds = true;
    rlx_assert(n->ops.len == n->list.len);
    if (!tpl_eval(t, n->a, &a))
        return false;
    for (uint32_t i = 0; i < n->list.len && holds; i++) {
        if (!tpl_eval(t, n->list.data[i], &b) || !compare(t, n->ops.data[i], a, b, &holds))
            return false;
        a = b;
    }
    *out = tpl_bool(holds);
    return true;
}

static bool eval_concat(Tpl *t, const TplNode *n, TplValue *out)
{
    Str s = str_new(t->arena);
    for (uint32_t i = 0; i < n->list.len; i++) {
        TplValue v;
        if (!tpl_eval(t, n->list.data[i], &v) || !tpl_may_make(t, s.len * 2) || !tpl_print(t, v, false, &s))
            return false;
    }
    *out = tpl_text_n(str_text(&s), s.len);
    return true;
}

static bool eval_logic(Tpl *t, const TplNode *n, TplValue *out)
{
    if (!tpl_eval(t, n->a, out))
        return false;
    if (n->kind == NODE_NOT) {
        *out = tpl_bool(!tpl_is_true(*out));
        return true;
    }
    return tpl_is_true(*out) == (n->kind == NODE_OR) || tpl_eval(t, n->b, out);
}

static bool eval_choice(Tpl *t, const TplNode *n, TplValue *out)
{
    TplValue v;
    if (!tpl_eval(t, n->a, &v))
        return false;
    if (tpl_is_true(v))
        return tpl_eval(t, n->b, out);
    if (n->c != NULL)
        return tpl_eval(t, n->c, out);
    *out = tpl_undefined(t, "the inline if was false and has no else");
    return true;
}

// --- calls and parts -----------------------------------------------------------------------------

static bool eval_call(Tpl *t, const TplNode *n, TplValue *out)
{
    TplCall c = {0};
    TplValue callee;
    return tpl_eval(t, n->a, &callee) && tpl_eval_arguments(t, n, &c) && tpl_call_value(t, callee, &c, out);
}

// A filter or a test.
static bool eval_filter(Tpl *t, const TplNode *n, TplValue *out)
{
    TplCall c = {0};
    if (!tpl_eval(t, n->a, &c.self) || !tpl_eval_arguments(t, n, &c))
        return false;
    return n->function != NULL
               ? tpl_call(t, n->function, NULL, &c, out)
               : tpl_fail(t, "there is no %s '%.*s'", n->kind == NODE_FILTER ? "filter" : "test",
                          (int)n->value.u.text.len, n->value.u.text.data);
}

static bool eval_part(Tpl *t, const TplNode *n, TplValue *out)
{
    TplValue of, key;
    if (!tpl_eval(t, n->a, &of))
        return false;
    if (n->kind == NODE_MEMBER)
        return tpl_member(t, of, n->value.u.text, out);
    return n->kind == NODE_SLICE ? tpl_eval_slice(t, n, of, out)
                                 : tpl_eval(t, n->b, &key) && tpl_item(t, of, key, out);
}

static bool eval_const(Tpl *t, const TplNode *n, TplValue *out)
{
    (void)t;
    *out = n->value;
    return true;
}

bool tpl_eval(Tpl *t, const TplNode *n, TplValue *out)
{
    static bool (*const by_kind[])(Tpl * t, const TplNode *n, TplValue *out) = {
        [NODE_CONST] = eval_const,   [NODE_NAME] = eval_name,     [NODE_LIST] = eval_list,
        [NODE_TUPLE] = eval_list,    [NODE_DICT] = eval_dict,     [NODE_MEMBER] = eval_part,
        [NODE_ITEM] = eval_part,     [NODE_SLICE] = eval_part,    [NODE_CALL] = eval_call,
        [NODE_FILTER] = eval_filter, [NODE_TEST] = eval_filter,   [NODE_NOT] = eval_logic,
        [NODE_SIGN] = eval_negated,     [NODE_AND] = eval_logic,     [NODE_OR] = eval_logic,
        [NODE_CHOICE] = eval_choice, [NODE_CONCAT] = eval_concat, [NODE_COMPARE] = eval_compare,
        [NODE_BINARY] = eval_binary};
    const TplNode *was = t->node;
    t->node = n;
    rlx_assert(n->kind < sizeof by_kind / sizeof *by_kind && by_kind[n->kind] != NULL);
    if (!tpl_spend(t, 1) || !tpl_enter(t) || !by_kind[n->kind](t, n, out))
        return false;
    tpl_leave(t);
    t->node = was;
    return true;
}
