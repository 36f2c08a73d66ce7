// SPDX-License-Identifier: Apache-2.0
// The interpreter of templates while it runs: what statements, expressions, filters and methods share.
#ifndef COMPILER_TEMPLATE_TPL_RUN_H
#define COMPILER_TEMPLATE_TPL_RUN_H

#include "compiler/template/tpl_node.h"

typedef struct TplVariable {
    uint32_t name;
    TplValue value;
} TplVariable;

typedef struct TplScope {
    struct TplScope *above;
    VEC(TplVariable) variables;
    bool is_kept; // a macro that was made here refers to it
} TplScope;

typedef struct TplMacro {
    const TplNode *node;
    TplScope *scope; // where it was made
} TplMacro;

typedef struct TplLoop {
    const TplList *items;
    uint32_t at;
    TplValue changed; // the last argument of loop.changed()
    bool has_changed;
} TplLoop;

typedef struct Tpl {
    Arena *arena; // of this rendering
    Diag *diag;
    const Template *t;
    const TplNode *node; // that is evaluated, for messages
    TplScope *scope;
    Str *out;
    time_t now;
    uint64_t steps; // that are left
    uint32_t depth;
    const char *said; // by raise_exception
} Tpl;

enum { TPL_MOST_PARAMETERS = 6 };

// A call of a filter, test, function or method. With parameters in its row: arg has one of each, undefined
// without text where it was not given.
typedef struct TplCall {
    TplValue self; // what is filtered or tested, or whose method it is
    const TplFunction *function;
    const TplValue *value; // arguments without a name, then those with one
    const uint32_t *names;
    uint32_t n, n_names;
    TplValue arg[TPL_MOST_PARAMETERS];
} TplCall;

// A filter, test or method that is a function with one more argument.
#define TPL_CALL(name, call)                                                                                 \
    bool tpl_##name(Tpl *t, TplCall *c, TplValue *out)                                                       \
    {                                                                                                        \
        return call;                                                                                         \
    }

// Reports what is wrong with the node that is evaluated. False.
bool tpl_fail(Tpl *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Counts steps; false: there were too many, or too much memory (reported).
bool tpl_spend(Tpl *t, uint64_t steps);
// May so many bytes be made? False: reported.
bool tpl_may_make(Tpl *t, uint64_t bytes);
// One level deeper; false: it is too deep (reported). tpl_leave goes back.
bool tpl_enter(Tpl *t);
static inline void tpl_leave(Tpl *t)
{
    rlx_assert(t->depth > 0);
    t->depth--;
}

// --- statements and expressions --------------------------------------------------------------------

typedef enum TplFlow { FLOW_FAIL, FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } TplFlow;
TplFlow tpl_exec(Tpl *t, const TplNode *n);
TplFlow tpl_exec_for(Tpl *t, const TplNode *n);
bool tpl_eval(Tpl *t, const TplNode *n, TplValue *out);
// Assigns to a name, or to each of several.
bool tpl_assign(Tpl *t, const TplNode *target, TplValue value);
void tpl_set_variable(Tpl *t, uint32_t name, TplValue value);
TplScope *tpl_open_scope(Tpl *t, TplScope *above);

// Calls a macro, function or method; c has the arguments.
bool tpl_call_value(Tpl *t, TplValue callee, TplCall *c, TplValue *out);
// Calls a row of a table; NULL: there is none of this name.
bool tpl_call(Tpl *t, const TplFunction *f, const char *what, TplCall *c, TplValue *out);
bool tpl_call_macro(Tpl *t, const TplMacro *m, const TplCall *c, const TplMacro *caller, TplValue *out);
// The arguments of a node.
bool tpl_eval_arguments(Tpl *t, const TplNode *n, TplCall *c);
// The argument with this name. NULL: none.
const TplValue *tpl_named(const Tpl *t, const TplCall *c, const char *name);

// --- tables: each ends with a row without a name ---------------------------------------------------

extern const TplFunction tpl_filters[], tpl_tests[], tpl_functions[];
extern const TplFunction tpl_text_methods[], tpl_list_methods[], tpl_dict_methods[], tpl_loop_methods[];
const TplFunction *tpl_find_function(const TplFunction *table, TplText name);
#define FILTER(name, parameters, least, fn)     bool fn(struct Tpl *t, struct TplCall *c, TplValue *out);
#define TEST(name, parameters, least, fn)       bool fn(struct Tpl *t, struct TplCall *c, TplValue *out);
#define FUNCTION(name, parameters, least, fn)   bool fn(struct Tpl *t, struct TplCall *c, TplValue *out);
#define METHOD(of, name, parameters, least, fn) bool fn(struct Tpl *t, struct TplCall *c, TplValue *out);
#include "compiler/template/tpl_filters.def"
#include "compiler/template/tpl_functions.def"
#include "compiler/template/tpl_methods.def"
#include "compiler/template/tpl_tests.def"

// --- values --------------------------------------------------------------------------------------

const char *tpl_type_name(TplValue v); // as Python calls it
static inline bool tpl_is_given(TplValue v)
{
    return v.kind != TPL_UNDEFINED || v.u.text.data != NULL;
}
TplValue tpl_undefined(Tpl *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Reports that an undefined value was used. False.
bool tpl_fail_undefined(Tpl *t, TplValue v);
bool tpl_is_true(TplValue v);
bool tpl_is_number(TplValue v); // bool counts as one
double tpl_number(TplValue v);
bool tpl_equal(Tpl *t, TplValue a, TplValue b, bool *out);
// -1, 0 or 1; false: the two have no order (reported).
bool tpl_order(Tpl *t, TplValue a, TplValue b, int *out);
bool tpl_contains(Tpl *t, TplValue item, TplValue in, bool *out);
// The items of what loops may go over; false: reported.
bool tpl_iterate(Tpl *t, TplValue v, const TplList **out);
TplList *tpl_new_list(Tpl *t, TplForm form);
TplValue tpl_of_list(TplList *list);
TplDict *tpl_new_dict(Tpl *t);
TplValue tpl_of_dict(TplDict *dict);
// The value of a key; NULL: it is not there.
const TplValue *tpl_lookup(Tpl *t, const TplDict *d, TplValue key);
bool tpl_put(Tpl *t, TplDict *d, TplValue key, TplValue value);
// a.name and a[key]; undefined where it has none.
bool tpl_member(Tpl *t, TplValue of, TplText name, TplValue *out);
bool tpl_item(Tpl *t, TplValue of, TplValue key, TplValue *out);
// Adds a value as it is printed; is_quoted: as within lists.
bool tpl_print(Tpl *t, TplValue v, bool is_quoted, Str *out);
// str(v); false: reported.
bool tpl_string(Tpl *t, TplValue v, TplText *out);
typedef struct TplJson {
    const char *indent; // of a level; NULL: all in one line
    const char *comma, *colon;
    bool is_sorted, is_ascii;
} TplJson;
bool tpl_print_json(Tpl *t, TplValue v, const TplJson *form, uint32_t depth, Str *out);

// --- texts ---------------------------------------------------------------------------------------

size_t tpl_characters(TplText s);
// The text of characters [from, to).
TplText tpl_cut(TplText s, size_t from, size_t to);
// The place of `what` in s, in bytes; -1: it is not there.
int64_t tpl_find(TplText s, TplText what);
bool tpl_text_is(TplText s, const char *what);
enum { TPL_LEFT = 1, TPL_RIGHT = 2 };
// chars NULL: white space.
TplText tpl_strip(TplText s, const TplText *chars, unsigned sides);
// most below zero: all.
bool tpl_replace(Tpl *t, TplText s, const TplText fromto[2], int64_t most, TplText *out);
typedef enum TplCase { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_TITLE_WORDS } TplCase;
bool tpl_change_case(Tpl *t, TplText s, TplCase how, TplText *out);
static inline TplValue tpl_of_text(TplText s)
{
    return (TplValue){TPL_TEXT, {.text = s}};
}

#endif
