// SPDX-License-Identifier: Apache-2.0
// The graph of calls: that it has no cycle, and how much stack its paths need. See rules.h.
#include "compiler/validate/rules.h"
#include <string.h>

// What a function needs beside its variables: the return address, saved registers, room for alignment and for
// numbers that do not fit in registers.
enum { FRAME_BYTES = 128, ROUND = 8, ALIGN_FROM = 32, ALIGN = 64 };

typedef struct Edge {
    Function *to;
    bool is_inlined; // may be
} Edge;
typedef VEC(Edge) Edges;

static void add_edge(Rules *r, Edges *out, Function *to, bool is_direct)
{
    const Edge e = {to, is_direct && to->inlining != INLINE_NEVER && !to->is_external};
    vec_push(r->arena, out, e);
}

// Functions that are handed over may be called by whom they are given to; what begins a thread has a stack of
// its own.
static void add_arguments(Rules *r, const Call *call, Edges *out)
{
    if (!call->is_pointer && strcmp(call->to->name, "pthread_create") == 0)
        return;
    for (Node *n = call->node->child != NULL ? call->node->child->next : NULL; n != NULL; n = n->next) {
        const Node *arg = node_plain(n);
        if (arg->kind == CLANG_REF && arg->decl != NULL && arg->decl->function != NULL)
            add_edge(r, out, arg->decl->function, false);
    }
}

static void find_edges(Rules *r, const Function *f, Edges *out)
{
    for (uint32_t i = 0; i < f->calls.len; i++) {
        const Call *call = &f->calls.data[i];
        Functions targets = {0};
        rules_find_callees(r, call, &targets);
        for (uint32_t k = 0; k < targets.len; k++)
            add_edge(r, out, targets.data[k], !call->is_pointer);
        add_arguments(r, call, out);
    }
}

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

// All variables side by side, and intermediate vectors, although those of different blocks could share their
// place, and most are in registers: what a compiler does that does not optimise.
static uint64_t locals_of(const Function *f)
{
    uint64_t bytes = f->vector_bytes;
    for (uint32_t i = 0; i < f->locals.len; i++) {
        const uint64_t size = f->locals.data[i]->bytes;
        bytes += round_up(size, size >= ALIGN_FROM ? ALIGN : ROUND);
    }
    return bytes;
}

static void report_cycle(Rules *r, const Function *from, const Function *to)
{
    const Function *named = rules_find_nested(to->decl->name) != NULL ? to : from;
    const char *what = rules_find_nested(named->decl->name);
    if (what == NULL) {
        const char *text = arena_printf(r->arena, "calls %s, which leads back to it", to->decl->name);
        validate_find(r, RULE_RECURSION, from, NULL, from == to ? "calls itself" : text);
        return;
    }
    const ValidateNote note = {named->decl->name, what};
    for (uint32_t i = 0; i < r->report->waits.len; i++)
        if (strcmp(r->report->waits.data[i].name, note.name) == 0)
            return;
    vec_push(r->arena, &r->report->waits, note);
}

// Depth first. The graph is that of a program which people write by hand but for its kernels, so that its
// depth is small; MAX_DEPTH guards against others.
enum { MAX_DEPTH = 1000 };

static void visit(Rules *r, Function *f, uint32_t depth)
{
    Edges edges = {0};
    if (depth > MAX_DEPTH) {
        validate_find(r, RULE_RECURSION, f, NULL, "calls are nested too deeply");
        return;
    }
    if (depth > r->report->max_depth)
        r->report->max_depth = depth;
    rlx_assert(f->state == 0);
    f->state = 1;
    f->merged = locals_of(f);
    f->rest = FRAME_BYTES;
    find_edges(r, f, &edges);
    for (uint32_t i = 0; i < edges.len; i++) {
        Function *to = edges.data[i].to;
        if (to->state == 1) {
            report_cycle(r, f, to);
            continue;
        }
        if (to->state == 0)
            visit(r, to, depth + 1);
        rlx_assert(to->state == 2 || depth >= MAX_DEPTH);
        const bool is_inlined = edges.data[i].is_inlined;
        const uint64_t rest = is_inlined ? to->rest : to->merged + to->rest;
        if (is_inlined)
            f->merged += to->merged;
        if (FRAME_BYTES + rest > f->rest) {
            f->rest = FRAME_BYTES + rest;
            f->deepest = to;
        }
    }
    f->state = 2;
}

static const char *path_of(Rules *r, const Function *f)
{
    Str path = str_new(r->arena);
    for (; f != NULL; f = f->deepest)
        str_printf(&path, "%s%s", path.len != 0 ? " > " : "", f->decl->name);
    return str_text(&path);
}

// Does it lead into the model's own file?
static bool leads_to_model(const Function *f)
{
    for (; f != NULL; f = f->deepest)
        if (!f->is_in_header)
            return true;
    return false;
}

static void add_entry(Rules *r, const Function *f)
{
    const uint64_t need = f->merged + f->rest;
    rlx_assert(f->state == 2); // what it needs is known
    if (f->is_external || (f->is_in_header && f->decl->n_calls == 0 && leads_to_model(f))) {
        const ValidateEntry e = {f->decl->name, need, path_of(r, f)};
        vec_push(r->arena, &r->report->entries, e);
    } else if (f->is_in_header && !leads_to_model(f) && need > r->report->helper_stack) {
        r->report->helper_stack = need;
        r->report->helper = f->decl->name;
    }
}

void rules_check_calls(Rules *r)
{
    const Tree *t = r->tree;
    for (uint32_t i = 0; i < t->functions.len; i++)
        if (t->functions.data[i]->state == 0)
            visit(r, t->functions.data[i], 1);
    for (uint32_t i = 0; i < t->functions.len; i++)
        add_entry(r, t->functions.data[i]);
}
