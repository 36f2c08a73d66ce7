// SPDX-License-Identifier: Apache-2.0
// Does every loop end? A loop is proven when some part of its condition compares a number, which only moves
// one way and does so in every iteration, with a bound that stays as it is. See rules.h.
#include "compiler/validate/rules.h"
#include <string.h>

typedef struct Loop {
    Rules *r;
    Function *f;
    Node *all, *init, *cond, *step, *body;
} Loop;

// Parts of `for`, where all may be missing but the body: by the places of the semicolons.
static bool split_for(Loop *l)
{
    rlx_assert(l->all->file < l->r->tree->files.len);
    const TreeFile *file = &l->r->tree->files.data[l->all->file];
    size_t semicolon[2] = {0}, n = 0;
    int depth = 0;
    size_t at = l->all->begin;
    if (at + 3 > file->len || strncmp(file->text + at, "for", 3) != 0)
        return false; // comes from a macro
    for (at += 3; at < file->len && at < l->all->end; at++) {
        const char c = file->text[at];
        depth += (c == '(') - (c == ')');
        if (c == ';' && depth == 1 && n < 2)
            semicolon[n++] = at;
        if (depth == 0 && c == ')')
            break;
    }
    if (n != 2)
        return false;
    for (Node *c = l->all->child; c != NULL; c = c->next)
        if (c->begin > at)
            l->body = c;
        else if (c->begin > semicolon[1])
            l->step = c;
        else if (c->begin > semicolon[0])
            l->cond = c;
        else
            l->init = c;
    return true;
}

static bool split(Loop *l)
{
    Node *first = l->all->child, *second = first != NULL ? first->next : NULL;
    if (l->all->kind == CLANG_FOR)
        return split_for(l);
    if (second == NULL)
        return false;
    l->cond = l->all->kind == CLANG_WHILE ? first : second;
    l->body = l->all->kind == CLANG_WHILE ? second : first;
    return true;
}

// do { } while (0) in a macro: by the macro's own text.
static bool is_block_of_macro(const Loop *l)
{
    const Tree *t = l->r->tree;
    if (l->all->kind != CLANG_DO)
        return false;
    const char *line = tree_macro(t, &t->files.data[l->all->file], l->all->begin);
    while (line != NULL && *line != '\0') {
        const char *end = strchr(line, '\n');
        if (end == NULL || end[-1] != '\\')
            return end != NULL && end - line > 10 && strncmp(end - 10, " while (0)", 10) == 0;
        line = end + 1;
    }
    return false;
}

// --- what changes --------------------------------------------------------------------------------

// The variable or field that a change is to; NULL: memory behind a pointer.
static const Decl *changed_by(const Node *change)
{
    const Node *to = node_plain(change->child);
    while (to != NULL && to->kind == CLANG_INDEX && to->child != NULL)
        to = node_plain(to->child);
    return to != NULL ? to->decl : NULL;
}

static bool asm_names(const Node *n, const Decl *d)
{
    for (const Node *c = n->child; c != NULL; c = c->next)
        if (c->decl == d || asm_names(c, d))
            return true;
    return false;
}

static bool changes_it(const Node *change, const Decl *d)
{
    if (change->kind == CLANG_UNARY && strcmp(change->op, "&") == 0)
        return false; // see is_known_elsewhere
    return change->kind == CLANG_ASM ? asm_names(change, d) : changed_by(change) == d;
}

// Does a function, or what it calls, store to a field?
static bool stores(Rules *r, Function *f, const Decl *field, uint32_t mark)
{
    if (f->mark == mark)
        return false;
    f->mark = mark;
    for (uint32_t i = 0; i < f->changes.len; i++)
        if (changes_it(f->changes.data[i], field))
            return true;
    for (uint32_t i = 0; i < f->calls.len; i++) {
        const Call *call = &f->calls.data[i];
        Functions targets = {0};
        rules_find_callees(r, call, &targets);
        for (uint32_t k = 0; k < targets.len; k++)
            if (stores(r, targets.data[k], field, mark))
                return true;
    }
    return false;
}

static uint32_t next_mark(const Rules *r)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < r->tree->functions.len; i++)
        most = r->tree->functions.data[i]->mark > most ? r->tree->functions.data[i]->mark : most;
    return most + 1;
}

// By what the loop calls.
static bool is_stored_elsewhere(const Loop *l, const Decl *field)
{
    const uint32_t mark = next_mark(l->r);
    for (uint32_t i = 0; i < l->f->calls.len; i++) {
        const Call *call = &l->f->calls.data[i];
        Functions targets = {0};
        if (!node_is_inside(call->node, l->all))
            continue;
        rules_find_callees(l->r, call, &targets);
        for (uint32_t k = 0; k < targets.len; k++)
            if (stores(l->r, targets.data[k], field, mark))
                return true;
    }
    return false;
}

// &v, other than handed to a call outside of the loop: what is called there does not keep it.
static bool is_known_elsewhere(const Loop *l, const Node *change, const Decl *d)
{
    const Node *up = change->parent;
    if (change->kind != CLANG_UNARY || strcmp(change->op, "&") != 0 || changed_by(change) != d)
        return false;
    while (up != NULL && up->kind == CLANG_CAST)
        up = up->parent;
    return node_is_inside(change, l->all) || up == NULL || up->kind != CLANG_CALL;
}

static bool is_shared(const Loop *l, const Decl *d)
{
    for (uint32_t i = 0; i < l->f->changes.len; i++)
        if (is_known_elsewhere(l, l->f->changes.data[i], d))
            return true;
    return d->kind == DECL_FIELD && is_stored_elsewhere(l, d);
}

static bool is_changed(const Loop *l, const Decl *d)
{
    for (uint32_t i = 0; i < l->f->changes.len; i++)
        if (changes_it(l->f->changes.data[i], d) && node_is_inside(l->f->changes.data[i], l->all))
            return true;
    return is_shared(l, d);
}

// --- what stays ----------------------------------------------------------------------------------

static bool reads_only_constants(const Node *n)
{
    const bool is_read = n->kind == CLANG_MEMBER || n->kind == CLANG_INDEX ||
                         (n->kind == CLANG_UNARY && strcmp(n->op, "*") == 0);
    if (is_read && !n->is_const)
        return false;
    for (const Node *c = n->child; c != NULL; c = c->next)
        if (!reads_only_constants(c))
            return false;
    return true;
}

// A function without effect, of its operands and constants alone.
static bool is_pure(const Decl *d)
{
    return d->function != NULL && d->function->body != NULL && d->function->changes.len == 0 &&
           d->function->calls.len == 0 && d->function->loops.len == 0 &&
           reads_only_constants(d->function->body);
}

static bool stays(const Loop *l, Node *n);

static bool all_stay(const Loop *l, Node *n)
{
    for (Node *c = n->child; c != NULL; c = c->next)
        if (!stays(l, c))
            return false;
    return true;
}

static bool is_stable_variable(const Loop *l, const Decl *d)
{
    return d != NULL && (d->is_enum_constant || d->kind == DECL_FUNCTION || d->is_const || !is_changed(l, d));
}

static bool is_plain_operator(const Node *n)
{
    static const char *const others[] = {"", "=", ",", "++", "--"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(n->op, others[i]) == 0)
            return false;
    return true;
}

static bool stays(const Loop *l, Node *n)
{
    n = node_plain(n);
    switch (n->kind) {
    case CLANG_INTEGER:
    case CLANG_CHARACTER:
    case CLANG_SIZEOF:
        return true;
    case CLANG_REF:
        return is_stable_variable(l, n->decl);
    case CLANG_MEMBER:
        return n->decl != NULL && all_stay(l, n) && (n->is_const || !is_changed(l, n->decl));
    case CLANG_INDEX:
        return n->is_const && all_stay(l, n);
    case CLANG_UNARY:
        return is_plain_operator(n) && (strcmp(n->op, "*") != 0 || n->is_const) && all_stay(l, n);
    case CLANG_BINARY:
        return is_plain_operator(n) && all_stay(l, n);
    case CLANG_CONDITIONAL:
        return all_stay(l, n);
    case CLANG_CALL:
        return n->child != NULL && n->child->decl != NULL && is_pure(n->child->decl) && all_stay(l, n);
    default:
        return false;
    }
}

static bool is_constant(Node *n)
{
    n = node_plain(n);
    if (n->kind == CLANG_INTEGER || n->kind == CLANG_SIZEOF || n->kind == CLANG_CHARACTER)
        return true;
    if (n->kind == CLANG_REF)
        return n->decl != NULL && n->decl->is_enum_constant;
    if (n->kind != CLANG_UNARY && n->kind != CLANG_BINARY && n->kind != CLANG_CONDITIONAL)
        return false;
    for (Node *c = n->child; c != NULL; c = c->next)
        if (!is_constant(c))
            return false;
    return is_plain_operator(n) || n->kind == CLANG_CONDITIONAL;
}

static bool is_zero(Node *n)
{
    n = node_plain(n);
    return n->kind == CLANG_INTEGER && n->value == 0;
}

// --- what moves ----------------------------------------------------------------------------------

typedef enum Way { WAY_UP, WAY_DOWN } Way;

// A comparison with the number on its left.
typedef struct Test {
    Node *moving, *bound; // bound NULL: with 0
    char op[4];           // "<", "<=", ">", ">=", "!="
    const Decl *number;
} Test;

static int64_t step_of(Node *n)
{
    Node *by = n->child != NULL ? node_plain(n->child->next) : NULL;
    return by != NULL && by->kind == CLANG_INTEGER ? by->value : -1;
}

// for (v = 1; ...): factors move only what is not 0.
static bool begins_positive(const Loop *l, const Decl *number)
{
    Node *n = l->init;
    if (n != NULL && n->kind == CLANG_BINARY && strcmp(n->op, "=") == 0 && changed_by(n) == number)
        return step_of(n) > 0;
    for (n = n != NULL ? n->child : NULL; n != NULL; n = n->next)
        if (n->kind == CLANG_VAR && n->decl == number && n->child != NULL && n->child->next == NULL)
            return node_plain(n->child)->kind == CLANG_INTEGER && node_plain(n->child)->value > 0;
    return false;
}

// Is a change a step of the way that ends the test?
static bool is_step(const Loop *l, const Test *t, Node *change)
{
    const char *op = change->op;
    rlx_assert(t->number != NULL && strchr("<>!", t->op[0]) != NULL);
    const Way way = t->op[0] == '<' ? WAY_UP : WAY_DOWN;
    const bool is_to_zero = t->bound == NULL || is_zero(t->bound);
    if (change->kind == CLANG_UNARY)
        return strcmp(op, way == WAY_UP ? "++" : "--") == 0;
    if (change->kind != CLANG_COMPOUND_ASSIGN)
        return false;
    const int64_t by = step_of(change);
    if (way == WAY_UP)
        return (strcmp(op, "+=") == 0 && by > 0) ||
               (strcmp(op, "*=") == 0 && by > 1 && begins_positive(l, t->number));
    if (strcmp(op, "-=") == 0)
        return by == 1 || (by > 0 && !t->number->is_unsigned && t->op[0] == '>');
    return is_to_zero && strcmp(t->op, ">=") != 0 &&
           ((strcmp(op, "/=") == 0 && by > 1) ||
            (strcmp(op, ">>=") == 0 && by > 0 && t->number->is_unsigned));
}

static bool has_continue(const Node *n)
{
    for (const Node *c = n->child; c != NULL; c = c->next) {
        const bool is_loop = c->kind == CLANG_FOR || c->kind == CLANG_WHILE || c->kind == CLANG_DO;
        if (c->kind == CLANG_CONTINUE || (!is_loop && has_continue(c)))
            return true;
    }
    return false;
}

// Happens in every iteration that is followed by another one.
static bool is_always(const Loop *l, const Test *t, const Node *change)
{
    const Node *at = change;
    if (l->step != NULL && node_is_inside(change, l->step)) {
        while (at != l->step && at->parent->kind == CLANG_BINARY && strcmp(at->parent->op, ",") == 0)
            at = at->parent;
        return at == l->step;
    }
    if (node_is_inside(change, l->cond))
        return node_plain(t->moving) == change;
    return (change == l->body || change->parent == l->body) && !has_continue(l->body);
}

// The number in `v`, `v + constant`, `++v` and `v--`.
static const Decl *number_in(const Loop *l, Node *n)
{
    n = node_plain(n);
    const bool is_sum = n->kind == CLANG_BINARY && (strcmp(n->op, "+") == 0 || strcmp(n->op, "-") == 0);
    if (is_sum && stays(l, n->child->next))
        n = node_plain(n->child);
    if (n->kind == CLANG_UNARY && (strcmp(n->op, "++") == 0 || strcmp(n->op, "--") == 0))
        n = node_plain(n->child);
    if (n->kind == CLANG_MEMBER && !all_stay(l, n))
        return NULL;
    const bool is_place = n->kind == CLANG_REF || n->kind == CLANG_MEMBER;
    return is_place && n->decl != NULL && n->decl->is_integer ? n->decl : NULL;
}

// i <= bound is true of any i where the bound is the largest number of its type. Those of descriptors are
// counts of what is in memory.
static bool is_below_largest(const Test *t)
{
    const Node *bound = node_plain(t->bound);
    return is_constant(t->bound) || (bound->kind == CLANG_MEMBER && bound->is_const) ||
           (bound->kind == CLANG_REF && bound->decl != NULL && t->number->bytes > bound->decl->bytes);
}

static bool ends_at(const Loop *l, Test *t)
{
    bool has_step = false;
    t->number = number_in(l, t->moving);
    if (t->number == NULL || is_shared(l, t->number) || (t->bound != NULL && !stays(l, t->bound)))
        return false;
    if (strcmp(t->op, "!=") == 0 && t->bound != NULL && !is_zero(t->bound))
        return false;
    if (strcmp(t->op, ">=") == 0 && t->number->is_unsigned) // true of any, where the bound is 0
        return false;
    if (strcmp(t->op, "<=") == 0 && !is_below_largest(t))
        return false;
    for (uint32_t i = 0; i < l->f->changes.len; i++) {
        Node *change = l->f->changes.data[i];
        if (!changes_it(change, t->number) || !node_is_inside(change, l->all) ||
            (l->init != NULL && node_is_inside(change, l->init)))
            continue;
        if (!is_step(l, t, change))
            return false;
        has_step = has_step || is_always(l, t, change);
    }
    return has_step;
}

static const char *mirror(const char *op)
{
    return op[0] == '<' ? (op[1] ? ">=" : ">") : op[0] == '>' ? (op[1] ? "<=" : "<") : op;
}

// The proof by a condition, each part of which must be true.
static LoopProof prove(const Loop *l, Node *cond)
{
    static const char *const comparisons[] = {"<", "<=", ">", ">=", "!="};
    cond = node_plain(cond);
    Node *first = cond->child, *second = first != NULL ? first->next : NULL;
    Test t = {.moving = cond, .op = "!="};
    if (cond->kind == CLANG_BINARY && strcmp(cond->op, "&&") == 0) {
        const LoopProof p = prove(l, first);
        return p != LOOP_NONE ? p : prove(l, second);
    }
    if (l->all->kind == CLANG_DO && is_zero(cond))
        return LOOP_CONSTANT;
    if (cond->kind != CLANG_BINARY)
        return ends_at(l, &t) ? LOOP_VALUE : LOOP_NONE;
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
        if (strcmp(cond->op, comparisons[i]) != 0)
            continue;
        rlx_assert(second != NULL); // tree.c reads an operator between two operands
        t = (Test){.moving = first, .bound = second};
        memcpy(t.op, cond->op, sizeof t.op);
        if (ends_at(l, &t))
            return is_constant(second) ? LOOP_CONSTANT : LOOP_VALUE;
        t = (Test){.moving = second, .bound = first};
        memcpy(t.op, mirror(cond->op), strlen(mirror(cond->op)) + 1);
        if (ends_at(l, &t))
            return is_constant(first) ? LOOP_CONSTANT : LOOP_VALUE;
    }
    return LOOP_NONE;
}

static void note_wait(Rules *r, const Function *f, const char *what)
{
    for (uint32_t i = 0; i < r->report->waits.len; i++)
        if (strcmp(r->report->waits.data[i].name, f->decl->name) == 0)
            return;
    const ValidateNote note = {f->decl->name, what};
    vec_push(r->arena, &r->report->waits, note);
}

static void check_loop(Rules *r, Function *f, Node *n)
{
    Loop l = {.r = r, .f = f, .all = n};
    rlx_assert(n->kind == CLANG_FOR || n->kind == CLANG_WHILE || n->kind == CLANG_DO);
    LoopProof proof = is_block_of_macro(&l)            ? LOOP_CONSTANT
                      : split(&l) && l.cond != NULL ? prove(&l, l.cond)
                                                    : LOOP_NONE;
    const char *wait = rules_find_wait(f->decl->name);
    if (proof == LOOP_NONE && wait != NULL) {
        proof = LOOP_WAIT;
        note_wait(r, f, wait);
    }
    if (proof == LOOP_NONE)
        validate_find(r, RULE_LOOPS, f, n, "no bound of this loop was found");
    rlx_assert(proof < LOOP_PROOFS);
    r->report->n_loops[proof]++;
}

void rules_check_loops(Rules *r)
{
    for (uint32_t i = 0; i < r->tree->functions.len; i++) {
        Function *f = r->tree->functions.data[i];
        for (uint32_t k = 0; k < f->loops.len; k++)
            check_loop(r, f, f->loops.data[k]);
    }
}
