// SPDX-License-Identifier: Apache-2.0
// Values of templates, as Python has them. Lists and dictionaries do not change once a template sees them.
#ifndef COMPILER_TEMPLATE_TPL_VALUE_H
#define COMPILER_TEMPLATE_TPL_VALUE_H

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

typedef enum TplKind {
    TPL_UNDEFINED, // `text` says what is undefined, for messages; NULL: an argument that was not given
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_FLOAT,
    TPL_TEXT,
    TPL_LIST,
    TPL_DICT,
    TPL_SPACE, // namespace(): a dictionary whose members a template may set
    TPL_MACRO,
    TPL_FUNCTION,
    TPL_METHOD,
    TPL_LOOP,
    TPL_KINDS
} TplKind;

typedef struct TplText {
    const char *data; // UTF-8; nothing ends it
    size_t len;
} TplText;

// A list by what Python would have there. A generator gives its items once.
typedef enum TplForm { TPL_PLAIN, TPL_TUPLE, TPL_VIEW, TPL_GENERATOR, TPL_RANGE } TplForm;

typedef struct TplValue {
    TplKind kind;
    union {
        bool truth;
        int64_t i;
        double f;
        TplText text;
        struct TplList *list;
        struct TplDict *dict;
        struct TplMacro *macro;
        const struct TplFunction *function;
        struct TplMethod *method;
        struct TplLoop *loop;
    } u;
} TplValue;

typedef struct TplList {
    VEC(TplValue) items;
    TplForm form;
    const char *view; // of TPL_VIEW: "dict_items"
    bool is_spent;    // of TPL_GENERATOR
    int64_t range[3]; // of TPL_RANGE: where it begins and ends, and its step
} TplList;

typedef struct TplItem {
    TplValue key, value;
} TplItem;

typedef struct TplDict {
    VEC(TplItem) items;
    Map texts; // keys that are texts, to their place in items
} TplDict;

struct Tpl;
struct TplCall;

// A function, filter, test or method: a row of a .def file.
typedef struct TplFunction {
    const char *name;
    const char *parameters; // names between spaces; NULL: the function reads its arguments itself
    uint32_t least;         // so many have no default
    bool (*call)(struct Tpl *t, struct TplCall *c, TplValue *out);
} TplFunction;

typedef struct TplMethod {
    TplValue self;
    const TplFunction *function;
} TplMethod;

#endif
