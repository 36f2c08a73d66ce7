// SPDX-License-Identifier: Apache-2.0
// The parameters of a kernel. One that is moved (KParam.is_moved) is a pointer to the place of the address:
//     extern "C" __global__ void k0_0_add(const float *const *x_at, float *y)
//     {
//         const float *x = *x_at;
#include "codegen/walk/expand.h"
#include "codegen/walk/walk.h"

static void print_param(const Walk *w, uint32_t param, const char *name, const char *qualifier, Str *out)
{
    const KParam *p = &w->k->params.data[param];
    const ExpandArgs args = {.operand = {walk_type(w, (int)p->dtype)->storage, name,
                                         arena_printf(w->arena, "%u", param), qualifier},
                             .lanes = (int)dtype_info[p->dtype].bytes};
    expand_template(out, p->is_written ? w->t->param_written : w->t->param_read, &args);
}

static const char *restrict_word(const Walk *w)
{
    return w->k->may_alias ? "" : w->t->restrict_word;
}

const char *walk_params(Walk *w)
{
    Str s = str_new(w->arena);
    if (w->has_team)
        names_take(&w->names, "team");
    if (w->is_given) {
        names_take(&w->names, "since");
        names_take(&w->names, "until");
    }
    for (uint32_t i = 0; i < w->k->params.len; i++) {
        const KParam *p = &w->k->params.data[i];
        w->param[i] = w->base[i] =
            names_take(&w->names, arena_printf(w->arena, "%s%s", w->t->param_prefix, p->name));
        if (i > 0)
            str_add(&s, w->t->param_separator);
        if (p->is_moved) {
            w->place[i] = names_take(&w->names, arena_printf(w->arena, "%s_at", p->name));
            print_param(w, i, arena_printf(w->arena, "const *%s", w->place[i]), "", &s);
        } else {
            print_param(w, i, w->param[i], restrict_word(w), &s);
        }
    }
    if (w->is_given) {
        const char *type = walk_type(w, KT_INDEX)->value;
        str_printf(&s, "%s%s since, %s until", w->k->params.len ? w->t->param_separator : "", type, type);
    }
    if (w->has_team)
        str_printf(&s, "%s%s", w->k->params.len ? w->t->param_separator : "", w->t->team);
    return str_text(&s);
}

void walk_places(Walk *w)
{
    for (uint32_t i = 0; i < w->k->params.len; i++) {
        Str s = str_new(w->arena);
        if (!w->k->params.data[i].is_moved)
            continue;
        rlx_assert(w->place[i] != NULL);
        print_param(w, i, w->param[i], restrict_word(w), &s);
        walk_line(w, "%s = *%s;", str_text(&s), w->place[i]);
    }
}

const char *walk_address(Walk *w, const KInst *n)
{
    const char *index = walk_expr(w, n->a);
    if (w->t->address == NULL)
        return arena_printf(w->arena, "&%s[%s]", w->param[n->imm], index);
    const ExpandArgs args = {.operand = {index, arena_printf(w->arena, "%lld", (long long)n->imm)}};
    return expand_text(w->arena, w->t->address, &args);
}
