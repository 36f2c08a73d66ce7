// SPDX-License-Identifier: Apache-2.0
// The table of dims: symbols, interning, and sums and products in canonical form. Division and the other
// functions are in dim_div.c, ranges and values in dim_eval.c, text in dim_text.c.
#include "ir/graph/dim_expr.h"

#include <string.h>

enum { TERM_WORDS = 2 + DIM_MAX_FACTORS };

// --- interning ---

static Dim append_expr(DimTable *t, const DimExpr *e)
{
    DimExpr *copy = arena_copy(t->arena, e, sizeof *e);
    vec_push(t->arena, &t->exprs, copy);
    return DIM_TAG + (Dim)t->exprs.len - 1;
}

static Dim intern_expr(DimTable *t, const void *key, size_t key_len, DimExpr *e)
{
    uint64_t found = 0;
    if (map_get(&t->interned, key, key_len, &found))
        return (Dim)found;
    if (e->size > DIM_MAX_SIZE)
        return dim_unknown(t);
    if (e->kind == DIM_SUM)
        e->terms = arena_copy(t->arena, e->terms, e->n_terms * sizeof *e->terms);
    Dim d = append_expr(t, e);
    map_put(t->arena, &t->interned, key, key_len, (uint64_t)d);
    return d;
}

Dim dim_unknown(DimTable *t)
{
    return append_expr(t, &(DimExpr){.kind = DIM_UNKNOWN, .size = 1});
}

bool dim_is_unknown(const DimTable *t, Dim d)
{
    return !dim_is_const(d) && dim_expr(t, d)->kind == DIM_UNKNOWN;
}

bool dim_is_valid(const DimTable *t, Dim d)
{
    return dim_is_const(d) || (d >= DIM_TAG && d - DIM_TAG < (int64_t)t->exprs.len);
}

Dim dim_constant(DimTable *t, int64_t v)
{
    return dim_fits(v) ? v : dim_unknown(t);
}

static uint32_t tree_size(const DimTable *t, Dim d)
{
    return dim_is_const(d) ? 1 : dim_expr(t, d)->size;
}

Dim dim_atom(DimTable *t, DimKind kind, Dim a, Dim b)
{
    uint64_t key[3] = {kind, (uint64_t)a, (uint64_t)b};
    DimExpr e = {.kind = kind, .size = 1 + tree_size(t, a) + tree_size(t, b), .a = a, .b = b};
    return intern_expr(t, key, sizeof key, &e);
}

// --- symbols ---

static Str symbol_key(Arena *scratch, const char *name)
{
    Str key = str_new(scratch);
    uint64_t kind = DIM_SYMBOL;
    char bytes[sizeof kind];
    memcpy(bytes, &kind, sizeof kind);
    str_add_n(&key, bytes, sizeof bytes);
    str_add(&key, name);
    return key;
}

Dim dim_symbol(DimTable *t, const char *name, int64_t min, int64_t max, int64_t multiple)
{
    rlx_assert(min >= 0 && min <= max && max <= DIM_MAX_VALUE && multiple >= 1);
    Arena scratch = {0};
    Str key = symbol_key(&scratch, name);
    uint64_t found = 0;
    Dim d = 0;
    if (map_get(&t->interned, key.data, key.len, &found)) {
        d = (Dim)found;
    } else {
        DimExpr e = {.kind = DIM_SYMBOL, .size = 1, .symbol = t->symbols.len};
        Symbol s = {.name = arena_strdup(t->arena, name), .min = min, .max = max, .multiple = multiple};
        vec_push(t->arena, &t->symbols, s);
        d = intern_expr(t, key.data, key.len, &e);
    }
    arena_free(&scratch);
    return d;
}

int32_t dim_find_symbol(const DimTable *t, const char *name)
{
    Arena scratch = {0};
    Str key = symbol_key(&scratch, name);
    uint64_t found = 0;
    bool ok = map_get(&t->interned, key.data, key.len, &found);
    arena_free(&scratch);
    return ok ? (int32_t)dim_expr(t, (Dim)found)->symbol : -1;
}

void dim_set_default(DimTable *t, const char *name, int64_t dflt)
{
    const int32_t i = dim_find_symbol(t, name);
    rlx_assert(i >= 0);
    t->symbols.data[i].has_dflt = true;
    t->symbols.data[i].dflt = dflt;
}

int32_t dim_as_symbol(const DimTable *t, Dim d)
{
    if (dim_is_const(d) || dim_expr(t, d)->kind != DIM_SYMBOL)
        return -1;
    return (int32_t)dim_expr(t, d)->symbol;
}

// --- order ---

static int compare_ints(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

// Higher degree first, then by factors: an order that products keep, which polynomial division needs.
static int compare_products(const DimTable *t, const DimTerm *a, const DimTerm *b)
{
    int order = compare_ints(b->n, a->n);
    for (uint32_t i = 0; order == 0 && i < a->n; i++)
        order = dim_compare(t, a->atom[i], b->atom[i]);
    return order;
}

static int compare_sums(const DimTable *t, const DimExpr *a, const DimExpr *b)
{
    int order = compare_ints(a->n_terms, b->n_terms);
    for (uint32_t i = 0; order == 0 && i < a->n_terms; i++) {
        order = compare_products(t, &a->terms[i], &b->terms[i]);
        if (order == 0)
            order = compare_ints(a->terms[i].coef, b->terms[i].coef);
    }
    return order ? order : compare_ints(a->constant, b->constant);
}

int dim_compare(const DimTable *t, Dim a, Dim b)
{
    if (dim_is_const(a) || dim_is_const(b))
        return dim_is_const(a) && dim_is_const(b) ? compare_ints(a, b) : dim_is_const(a) ? -1 : 1;
    const DimExpr *x = dim_expr(t, a), *y = dim_expr(t, b);
    if (x == y)
        return 0;
    if (x->kind != y->kind)
        return compare_ints(x->kind, y->kind);
    if (x->kind == DIM_SUM)
        return compare_sums(t, x, y);
    if (x->kind == DIM_SYMBOL)
        return compare_ints(x->symbol, y->symbol);
    if (x->kind == DIM_UNKNOWN)
        return compare_ints(a, b);
    int order = dim_compare(t, x->a, y->a);
    return order ? order : dim_compare(t, x->b, y->b);
}

// --- sums ---

void dim_sum_load(const DimTable *t, DimSum *s, Dim d)
{
    s->constant = 0;
    s->n = 0;
    s->is_over = false;
    if (dim_is_const(d)) {
        s->constant = d;
        return;
    }
    const DimExpr *e = dim_expr(t, d);
    if (e->kind == DIM_SUM) {
        s->constant = e->constant;
        s->n = e->n_terms;
        memcpy(s->term, e->terms, e->n_terms * sizeof *e->terms);
        return;
    }
    s->is_over = e->kind == DIM_UNKNOWN;
    s->n = 1;
    s->term[0] = (DimTerm){.coef = 1, .n = 1, .atom = {d}};
}

static void dim_sum_add_constant(DimSum *s, int64_t v)
{
    s->is_over |= __builtin_add_overflow(s->constant, v, &s->constant) || !dim_fits(s->constant);
}

static void remove_term(DimSum *s, uint32_t i)
{
    s->n--;
    memmove(&s->term[i], &s->term[i + 1], (s->n - i) * sizeof *s->term);
}

void dim_sum_add_term(const DimTable *t, DimSum *s, const DimTerm *term)
{
    uint32_t i = 0;
    int order = 1;
    while (i < s->n && (order = compare_products(t, &s->term[i], term)) < 0)
        i++;
    if (i < s->n && order == 0) {
        int64_t *coef = &s->term[i].coef;
        s->is_over |= __builtin_add_overflow(*coef, term->coef, coef) || !dim_fits(*coef);
        if (*coef == 0)
            remove_term(s, i);
        return;
    }
    if (s->n == DIM_MAX_TERMS) {
        s->is_over = true;
        return;
    }
    memmove(&s->term[i + 1], &s->term[i], (s->n - i) * sizeof *s->term);
    s->term[i] = *term;
    s->n++;
}

// s += sign * d
static void add_signed(const DimTable *t, DimSum *s, Dim d, int64_t sign)
{
    DimSum other;
    dim_sum_load(t, &other, d);
    s->is_over |= other.is_over;
    dim_sum_add_constant(s, sign * other.constant);
    for (uint32_t i = 0; i < other.n && !s->is_over; i++) {
        other.term[i].coef *= sign;
        dim_sum_add_term(t, s, &other.term[i]);
    }
}

// The sum with `operand` in place of the minimum or maximum that is its term i.
static DimSum put_operand(const DimTable *t, const DimSum *s, uint32_t i, Dim operand)
{
    DimSum out = *s;
    remove_term(&out, i);
    add_signed(t, &out, operand, s->term[i].coef);
    return out;
}

// A sum with a minimum or maximum is one itself, of sums. It is written so where one of them is a number and
// the rest is none: n - max(0, n - 1) is min(1, n), whose range is that of a size.
static bool spread_sum(DimTable *t, const DimSum *s, Dim *out)
{
    for (uint32_t i = 0; i < s->n && s->n > 1; i++) {
        const DimTerm *m = &s->term[i];
        const DimExpr *e = m->n == 1 && (m->coef == 1 || m->coef == -1) ? dim_expr(t, m->atom[0]) : NULL;
        if (!e || (e->kind != DIM_MIN && e->kind != DIM_MAX))
            continue;
        const DimSum a = put_operand(t, s, i, e->a), b = put_operand(t, s, i, e->b);
        if (a.is_over || b.is_over || (a.n && b.n))
            continue;
        const bool is_min = (e->kind == DIM_MIN) == (m->coef == 1);
        const Dim x = dim_sum_store(t, &a), y = dim_sum_store(t, &b);
        *out = is_min ? dim_min(t, x, y) : dim_max(t, x, y);
        return true;
    }
    return false;
}

Dim dim_sum_store(DimTable *t, const DimSum *s)
{
    Dim spread = 0;
    if (s->is_over)
        return dim_unknown(t);
    if (s->n == 0)
        return dim_constant(t, s->constant);
    if (s->n == 1 && s->constant == 0 && s->term[0].coef == 1 && s->term[0].n == 1)
        return s->term[0].atom[0];
    if (spread_sum(t, s, &spread))
        return spread;
    uint64_t key[2 + DIM_MAX_TERMS * TERM_WORDS];
    uint64_t *w = key;
    DimExpr e = {.kind = DIM_SUM, .size = 1, .constant = s->constant, .n_terms = s->n, .terms = s->term};
    *w++ = DIM_SUM;
    *w++ = (uint64_t)s->constant;
    for (uint32_t i = 0; i < s->n; i++) {
        *w++ = (uint64_t)s->term[i].coef;
        *w++ = s->term[i].n;
        for (uint32_t k = 0; k < s->term[i].n; k++) {
            *w++ = (uint64_t)s->term[i].atom[k];
            e.size += 1 + tree_size(t, s->term[i].atom[k]);
        }
    }
    return intern_expr(t, key, (size_t)(w - key) * sizeof *key, &e);
}

Dim dim_add(DimTable *t, Dim a, Dim b)
{
    if (dim_is_const(a) && dim_is_const(b))
        return dim_constant(t, a + b);
    DimSum s;
    dim_sum_load(t, &s, a);
    add_signed(t, &s, b, 1);
    return dim_sum_store(t, &s);
}

Dim dim_sub(DimTable *t, Dim a, Dim b)
{
    if (dim_is_const(a) && dim_is_const(b))
        return dim_constant(t, a - b);
    DimSum s;
    dim_sum_load(t, &s, a);
    add_signed(t, &s, b, -1);
    return dim_sum_store(t, &s);
}

// Term i of a sum; the one behind the last is the constant, a product of no factors.
static DimTerm sum_term(const DimSum *s, uint32_t i)
{
    return i < s->n ? s->term[i] : (DimTerm){.coef = s->constant};
}

// out += a * b, merging the sorted factors.
static void add_product(const DimTable *t, DimSum *out, const DimTerm *a, const DimTerm *b)
{
    DimTerm p = {0};
    uint32_t i = 0, k = 0;
    if (a->n + b->n > DIM_MAX_FACTORS || __builtin_mul_overflow(a->coef, b->coef, &p.coef) ||
        !dim_fits(p.coef)) {
        out->is_over = true;
        return;
    }
    for (; p.n < a->n + b->n; p.n++) {
        bool takes_a = k == b->n || (i < a->n && dim_compare(t, a->atom[i], b->atom[k]) <= 0);
        p.atom[p.n] = takes_a ? a->atom[i++] : b->atom[k++];
    }
    if (p.n)
        dim_sum_add_term(t, out, &p);
    else
        dim_sum_add_constant(out, p.coef);
}

Dim dim_mul(DimTable *t, Dim a, Dim b)
{
    int64_t product = 0;
    if (dim_is_const(a) && dim_is_const(b))
        return __builtin_mul_overflow(a, b, &product) ? dim_unknown(t) : dim_constant(t, product);
    DimSum x, y, out;
    dim_sum_load(t, &x, a);
    dim_sum_load(t, &y, b);
    dim_sum_load(t, &out, 0);
    out.is_over = x.is_over || y.is_over;
    for (uint32_t i = 0; i <= x.n; i++) {
        DimTerm p = sum_term(&x, i);
        for (uint32_t k = 0; k <= y.n && !out.is_over && p.coef; k++) {
            DimTerm q = sum_term(&y, k);
            if (q.coef)
                add_product(t, &out, &p, &q);
        }
    }
    return dim_sum_store(t, &out);
}

Dim dim_product(DimTable *t, const Dim *list, uint32_t n)
{
    Dim all = 1;
    for (uint32_t i = 0; i < n; i++)
        all = dim_mul(t, all, list[i]);
    return all;
}
