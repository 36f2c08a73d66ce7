// SPDX-License-Identifier: Apache-2.0
// The text of a custom op: a function of its own in front of the kernel, with the tensors as parameters (in
// GLSL, which has no pointers, as macros), and the call.
#include "codegen/walk/expand.h"
#include "codegen/walk/walk.h"

static const char *function_name(const Walk *w)
{
    return arena_printf(w->arena, "%s_text", w->k->name);
}

static void print_constants(const Walk *w)
{
    const KCustom *c = w->k->custom;
    for (uint32_t i = 0; i < c->constants.len; i++) {
        const KCustomConstant *v = &c->constants.data[i];
        Str number = str_new(w->arena);
        if (v->is_float)
            str_f32(&number, (float)v->number);
        else
            str_printf(&number, "%lld", (long long)v->size);
        str_printf(w->out, "    const %s %s = %s%s;\n",
                   walk_type(w, v->is_float ? (int)DTYPE_f32 : KT_INDEX)->value, v->name, str_text(&number),
                   v->is_float ? "f" : "");
    }
}

// What the text does not name must not be a warning.
static void print_unused(const Walk *w)
{
    const KCustom *c = w->k->custom;
    for (uint32_t i = 0; i < c->args.len; i++)
        str_printf(w->out, "    (void)%s;\n", c->args.data[i].name);
    for (uint32_t i = 0; i < c->constants.len; i++)
        str_printf(w->out, "    (void)%s;\n", c->constants.data[i].name);
    str_add(w->out, "    (void)i;\n");
}

static const char *parameters(const Walk *w)
{
    const KCustom *c = w->k->custom;
    Str s = str_new(w->arena);
    for (uint32_t i = 0; i < c->args.len && w->t->custom_written != NULL; i++) {
        const KCustomArg *a = &c->args.data[i];
        rlx_assert(a->param < w->k->params.len);
        const ExpandArgs args = {
            .operand = {walk_type(w, (int)w->k->params.data[a->param].dtype)->storage, a->name}};
        expand_template(&s, a->is_written ? w->t->custom_written : w->t->custom_read, &args);
        str_add(&s, ", ");
    }
    str_printf(&s, "%s i", walk_type(w, KT_INDEX)->value);
    return str_text(&s);
}

void walk_custom_function(Walk *w)
{
    const KCustom *c = w->k->custom;
    const bool has_macros = w->t->custom_written == NULL;
    if (c == NULL)
        return;
    str_printf(w->out, "// The model's text of '%s'.\n", c->function);
    for (uint32_t i = 0; i < c->args.len && has_macros; i++)
        str_printf(w->out, "#define %s %s\n", c->args.data[i].name, w->param[c->args.data[i].param]);
    const ExpandArgs args = {.operand = {function_name(w), parameters(w)}};
    expand_template(w->out, w->t->custom_function, &args);
    str_add(w->out, "\n{\n");
    print_constants(w);
    if (!has_macros)
        print_unused(w);
    str_printf(w->out, "%s\n}\n", c->text);
    for (uint32_t i = 0; i < c->args.len && has_macros; i++)
        str_printf(w->out, "#undef %s\n", c->args.data[i].name);
}

void walk_custom_call(Walk *w, const KInst *n)
{
    const KCustom *c = w->k->custom;
    rlx_assert(c != NULL && n->kind == KI_custom);
    Str s = str_new(w->arena);
    for (uint32_t i = 0; i < c->args.len && w->t->custom_written != NULL; i++)
        str_printf(&s, "%s, ", w->param[c->args.data[i].param]);
    walk_line(w, "%s(%s%s);", function_name(w), str_text(&s), walk_expr(w, n->a));
}
