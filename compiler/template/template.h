// SPDX-License-Identifier: Apache-2.0
// Chat templates: Jinja templates over messages. Separate from where templates come from (chat_source.h) and
// from what their text is used for.
#ifndef COMPILER_TEMPLATE_TEMPLATE_H
#define COMPILER_TEMPLATE_TEMPLATE_H

#include "base/diag.h"
#include "compiler/template/tpl_value.h"
#include <time.h>

// Limits of one template: bytes of its text, nested parts of it, and, of one rendering, steps and bytes.
enum { TPL_MAX_SOURCE = 4 << 20, TPL_MAX_NESTING = 120, TPL_MAX_DEPTH = 400 };
#define TPL_MAX_STEPS 10000000u
#define TPL_MAX_BYTES ((size_t)256 << 20)

typedef struct Template Template;

// Reads a template, which is called `name` in messages. The text must live as long as the result and the
// messages. NULL: reported.
Template *template_read(Arena *a, Diag *d, const char *name, TplText text);
// The text, with line breaks \n.
TplText template_text(const Template *t);
// What the template says with these variables. `now` is for strftime_now. False: reported; `said`, where it
// is not NULL, is then what the template gave to raise_exception, or NULL.
typedef struct TemplateRun {
    const TplDict *variables;
    time_t now;
    const char *said;
} TemplateRun;
bool template_render(const Template *t, Arena *a, Diag *d, TemplateRun *run, TplText *out);

// --- variables -----------------------------------------------------------------------------------

TplValue tpl_text(Arena *a, const char *text);
TplValue tpl_text_n(const char *text, size_t n); // not copied
TplValue tpl_bool(bool v);
TplValue tpl_int(int64_t v);
TplValue tpl_list(Arena *a);
TplValue tpl_dict(Arena *a);
void tpl_list_add(Arena *a, TplValue list, TplValue item);
// Replaces the value of a key that is there.
void tpl_dict_set(Arena *a, TplValue dict, const char *key, TplValue value);
// A JSON text that json_check accepts.
TplValue tpl_of_json(Arena *a, const char *text, size_t len);

#endif
