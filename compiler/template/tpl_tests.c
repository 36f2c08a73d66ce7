// SPDX-License-Identifier: Apache-2.0
// Tests of templates: what stands behind `is`.
#include "compiler/template/tpl_run.h"
#include <math.h>

static bool give(TplValue *out, bool v)
{
    *out = tpl_bool(v);
    return true;
}

#define KIND_TEST(name, condition)                                                                           \
    bool tpl_test_##name(Tpl *t, TplCall *c, TplValue *out)                                                  \
    {                                                                                                        \
        (void)t;                                                                                             \
        const TplValue v = c->self;                                                                          \
        return give(out, condition);                                                                         \
    }

KIND_TEST(defined, v.kind != TPL_UNDEFINED)
KIND_TEST(undefined, v.kind == TPL_UNDEFINED)
KIND_TEST(none, v.kind == TPL_NONE)
KIND_TEST(boolean, v.kind == TPL_BOOL)
KIND_TEST(true, v.kind == TPL_BOOL && v.u.truth)
KIND_TEST(false, v.kind == TPL_BOOL && !v.u.truth)
KIND_TEST(integer, v.kind == TPL_INT)
KIND_TEST(float, v.kind == TPL_FLOAT)
KIND_TEST(number, tpl_is_number(v))
KIND_TEST(string, v.kind == TPL_TEXT)
KIND_TEST(mapping, v.kind == TPL_DICT)
KIND_TEST(callable,
          v.kind == TPL_UNDEFINED || v.kind == TPL_MACRO || v.kind == TPL_FUNCTION ||
              v.kind == TPL_METHOD || v.kind == TPL_LOOP)
KIND_TEST(iterable, v.kind == TPL_TEXT || v.kind == TPL_LIST || v.kind == TPL_DICT || v.kind == TPL_UNDEFINED)
KIND_TEST(sequence, v.kind == TPL_TEXT || v.kind == TPL_DICT || v.kind == TPL_UNDEFINED ||
                        (v.kind == TPL_LIST && v.u.list->form != TPL_GENERATOR && v.u.list->form != TPL_VIEW))
KIND_TEST(filter, v.kind == TPL_TEXT && tpl_find_function(tpl_filters, v.u.text) != NULL)
KIND_TEST(test, v.kind == TPL_TEXT && tpl_find_function(tpl_tests, v.u.text) != NULL)

// --- numbers -------------------------------------------------------------------------------------

static bool rest(Tpl *t, TplCall *c, TplValue by, double *out)
{
    if (c->self.kind == TPL_UNDEFINED)
        return tpl_fail_undefined(t, c->self);
    if (!tpl_is_number(c->self) || !tpl_is_number(by) || tpl_number(by) == 0)
        return tpl_fail(t, "%s: expected numbers, and not 0 to divide by", c->function->name);
    *out = c->self.kind == TPL_INT && by.kind == TPL_INT ? (double)(by.u.i == -1 ? 0 : c->self.u.i % by.u.i)
                                                         : fmod(tpl_number(c->self), tpl_number(by));
    return true;
}

bool tpl_test_divisibleby(Tpl *t, TplCall *c, TplValue *out)
{
    double r = 0;
    return rest(t, c, c->arg[0], &r) && give(out, r == 0);
}

bool tpl_test_even(Tpl *t, TplCall *c, TplValue *out)
{
    double r = 0;
    return rest(t, c, tpl_int(2), &r) && give(out, r == 0);
}

bool tpl_test_odd(Tpl *t, TplCall *c, TplValue *out)
{
    double r = 0;
    return rest(t, c, tpl_int(2), &r) && give(out, r == 1 || r == -1);
}

// --- comparisons ---------------------------------------------------------------------------------

static bool equals(Tpl *t, TplCall *c, bool want, TplValue *out)
{
    bool is_equal;
    return tpl_equal(t, c->self, c->arg[0], &is_equal) && give(out, is_equal == want);
}

TPL_CALL(test_eq, equals(t, c, true, out))
TPL_CALL(test_ne, equals(t, c, false, out))

// Is the order (-1, 0, 1, or 2 where NaN has none) one of these two?
static bool is_ordered(Tpl *t, TplCall *c, int one, int other, TplValue *out)
{
    int order;
    return tpl_order(t, c->self, c->arg[0], &order) && give(out, order == one || order == other);
}

TPL_CALL(test_lt, is_ordered(t, c, -1, -1, out))
TPL_CALL(test_le, is_ordered(t, c, -1, 0, out))
TPL_CALL(test_gt, is_ordered(t, c, 1, 1, out))
TPL_CALL(test_ge, is_ordered(t, c, 0, 1, out))

bool tpl_test_in(Tpl *t, TplCall *c, TplValue *out)
{
    bool is_in;
    return tpl_contains(t, c->self, c->arg[0], &is_in) && give(out, is_in);
}

bool tpl_test_sameas(Tpl *t, TplCall *c, TplValue *out)
{
    bool is_equal = false;
    const TplValue a = c->self, b = c->arg[0];
    if (a.kind == b.kind && (a.kind == TPL_LIST || a.kind == TPL_DICT))
        return give(out, a.u.dict == b.u.dict);
    return (a.kind != b.kind || tpl_equal(t, a, b, &is_equal)) && give(out, is_equal);
}

static bool has_case(Tpl *t, TplCall *c, TplCase how, TplValue *out)
{
    TplText s, changed, other;
    bool is_same, is_other;
    if (!tpl_string(t, c->self, &s) || !tpl_change_case(t, s, how, &changed) ||
        !tpl_change_case(t, s, how == CASE_UPPER ? CASE_LOWER : CASE_UPPER, &other) ||
        !tpl_equal(t, tpl_of_text(s), tpl_of_text(changed), &is_same) ||
        !tpl_equal(t, tpl_of_text(s), tpl_of_text(other), &is_other))
        return false;
    return give(out, is_same && !is_other);
}

TPL_CALL(test_lower, has_case(t, c, CASE_LOWER, out))
TPL_CALL(test_upper, has_case(t, c, CASE_UPPER, out))
