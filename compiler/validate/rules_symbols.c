// SPDX-License-Identifier: Apache-2.0
// Rules that are lists: symbols of others, variables, pointers that are called, jumps. See rules.h.
#include "compiler/validate/rules.h"
#include <stdlib.h>
#include <string.h>

typedef struct Row {
    const char *owner, *name, *what;
} Row;

static const Row builtins[] = {
#define BUILTIN(name) {"", name, ""},
#include "compiler/validate/symbols.def"
};
static const Row pointers[] = {
#define POINTER(owner, name, what) {owner, name, what},
#include "compiler/validate/symbols.def"
};
static const Row waits[] = {
#define WAIT(function, what) {"", function, what},
#include "compiler/validate/symbols.def"
};
static const Row nested[] = {
#define NESTED(function, what) {"", function, what},
#include "compiler/validate/symbols.def"
};

static bool matches(const char *name, const char *pattern)
{
    const size_t n = strlen(pattern);
    return n != 0 && pattern[n - 1] == '*' ? strncmp(name, pattern, n - 1) == 0 : strcmp(name, pattern) == 0;
}

static const Row *find_row(const Row *rows, size_t n, const char *owner, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].owner, owner) == 0 && matches(name, rows[i].name))
            return &rows[i];
    return NULL;
}
#define FIND_ROW(rows, owner, name) find_row(rows, sizeof rows / sizeof *rows, owner, name)

const char *rules_find_wait(const char *function)
{
    const Row *row = FIND_ROW(waits, "", function);
    return row != NULL ? row->what : NULL;
}

const char *rules_find_nested(const char *function)
{
    const Row *row = FIND_ROW(nested, "", function);
    return row != NULL ? row->what : NULL;
}

// --- symbols -------------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_symbol(Rules *r, const Decl *d, const Function *f, const Node *at)
{
    if (d->function != NULL)
        return;
    if (d->is_builtin) {
        if (FIND_ROW(builtins, "", d->name) == NULL)
            validate_find(r, RULE_SYMBOLS, f, at,
                          arena_printf(r->arena, "%s is no builtin of the list", d->name));
        return;
    }
    if (!d->is_standard) {
        validate_find(r, RULE_SYMBOLS, f, at,
                      arena_printf(r->arena, "nothing here defines %s, and it is not on the list", d->name));
        return;
    }
    for (uint32_t i = 0; i < r->report->externals.len; i++)
        if (strcmp(r->report->externals.data[i], d->name) == 0)
            return;
    vec_push(r->arena, &r->report->externals, d->name);
}

void rules_check_symbols(Rules *r)
{
    const Tree *t = r->tree;
    for (uint32_t i = 0; i < t->functions.len; i++) {
        const Function *f = t->functions.data[i];
        r->report->n_asm += f->n_asm;
        for (uint32_t k = 0; k < f->calls.len; k++)
            if (!f->calls.data[k].is_pointer)
                check_symbol(r, f->calls.data[k].to, f, f->calls.data[k].node);
        for (uint32_t k = 0; k < f->jumps.len; k++)
            validate_find(r, RULE_JUMPS, f, f->jumps.data[k], "goto, or a label of one");
    }
    for (uint32_t i = 0; i < t->decls.len; i++) { // those that are only named, as to take their address
        const Decl *d = (const Decl *)(uintptr_t)t->decls.entries[i].value;
        if (d->kind == DECL_FUNCTION && d->n_refs > d->n_calls)
            check_symbol(r, d, NULL, NULL);
    }
    r->report->n_functions = t->functions.len;
    r->report->n_asm += t->n_global_asm;
    if (r->report->externals.len > 1)
        qsort(r->report->externals.data, r->report->externals.len, sizeof *r->report->externals.data,
              compare_names);
}

// --- variables -----------------------------------------------------------------------------------

// Behind NAME_static(). Of several banks, arena_block_dtcm is one.
static bool is_static_arena(const Rules *r, const Decl *d)
{
    static const char *const names[] = {"arena_block", "state_block", "static_ctx"};
    bool is_one = strncmp(d->name, "arena_block_", strlen("arena_block_")) == 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_one = is_one || strcmp(d->name, names[i]) == 0;
    return r->in->has_static_arena && is_one && d->owner[0] == '\0';
}

void rules_check_state(Rules *r)
{
    for (uint32_t i = 0; i < r->tree->globals.len; i++) {
        const Decl *d = r->tree->globals.data[i];
        if (d->is_const || is_static_arena(r, d))
            continue;
        ValidateFinding found = {RULE_STATE, d->file, d->line, d->owner, NULL};
        found.text = arena_printf(r->arena, "the variable %s is not const", d->name);
        vec_push(r->arena, &r->report->findings, found);
    }
}

// --- pointers ------------------------------------------------------------------------------------

static void note_pointer(Rules *r, const Row *row, const Decl *d)
{
    const char *name = arena_printf(r->arena, "%s.%s", row->owner, d->name);
    for (uint32_t i = 0; i < r->report->pointers.len; i++)
        if (strcmp(r->report->pointers.data[i].name, name) == 0)
            return;
    const ValidateNote note = {name, row->what};
    vec_push(r->arena, &r->report->pointers, note);
}

void rules_check_pointers(Rules *r)
{
    for (uint32_t i = 0; i < r->tree->functions.len; i++) {
        const Function *f = r->tree->functions.data[i];
        for (uint32_t k = 0; k < f->calls.len; k++) {
            const Call *call = &f->calls.data[k];
            if (!call->is_pointer)
                continue;
            const Decl *d = call->to;
            const char *owner = d == NULL ? "" : d->kind == DECL_FIELD ? d->owner : f->decl->name;
            const Row *row = d != NULL ? FIND_ROW(pointers, owner, d->name) : NULL;
            if (row != NULL)
                note_pointer(r, row, d);
            else
                validate_find(r, RULE_POINTERS, f, call->node,
                              d == NULL ? "a call through an expression"
                                        : arena_printf(r->arena, "a call through %s.%s", owner, d->name));
        }
    }
}

static void find_by_type(const Rules *r, const Decl *pointer, Functions *out)
{
    for (uint32_t i = 0; i < r->tree->functions.len; i++) {
        Function *f = r->tree->functions.data[i];
        if (f->decl->n_refs > f->decl->n_calls && strcmp(f->decl->type, pointer->type) == 0)
            vec_push(r->arena, out, f);
    }
}

// Whose parameter it is.
static const Function *find_owner(const Rules *r, const Decl *pointer)
{
    for (uint32_t i = 0; i < r->tree->functions.len; i++) {
        const Function *f = r->tree->functions.data[i];
        for (uint32_t k = 0; k < f->locals.len; k++)
            if (f->locals.data[k] == pointer)
                return f;
    }
    return NULL;
}

enum { MAX_HANDED = 8 };

static void find_handed(const Rules *r, const Decl *pointer, uint32_t depth, Functions *out);

static void find_in_argument(const Rules *r, const Node *n, const Decl *pointer, uint32_t depth,
                             Functions *out)
{
    const Decl *d = n->decl;
    if (d != NULL && d->type != NULL && strcmp(d->type, pointer->type) == 0) {
        if (d->function != NULL)
            vec_push(r->arena, out, d->function);
        else
            find_handed(r, d, depth + 1, out);
    }
    for (const Node *c = n->child; c != NULL; c = c->next)
        find_in_argument(r, c, pointer, depth, out);
}

// Finds what callers hand over for a parameter, where they can be known.
static void find_handed(const Rules *r, const Decl *pointer, uint32_t depth, Functions *out)
{
    const Function *owner = pointer->kind == DECL_PARM ? find_owner(r, pointer) : NULL;
    if (owner == NULL || owner->is_external || owner->decl->n_refs > owner->decl->n_calls ||
        depth > MAX_HANDED) {
        find_by_type(r, pointer, out);
        return;
    }
    for (uint32_t i = 0; i < r->tree->functions.len; i++) {
        const Function *f = r->tree->functions.data[i];
        for (uint32_t k = 0; k < f->calls.len; k++)
            if (f->calls.data[k].to == owner->decl)
                for (Node *n = f->calls.data[k].node->child->next; n != NULL; n = n->next)
                    find_in_argument(r, n, pointer, depth, out);
    }
}

void rules_find_callees(const Rules *r, const Call *call, Functions *out)
{
    if (call->is_pointer && call->to != NULL)
        find_handed(r, call->to, 0, out);
    else if (!call->is_pointer && call->to->function != NULL)
        vec_push(r->arena, out, call->to->function);
}
