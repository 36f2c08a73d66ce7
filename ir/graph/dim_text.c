// SPDX-License-Identifier: Apache-2.0
// Dims as text: "2*seq + 1", "floor(seq / 2)", "mod(a, 4)", and back.
#include "ir/graph/dim_expr.h"
#include "base/quote.h"

// --- printing ---

static void print_symbol(const char *name, Str *out)
{
    if (quote_is_plain(name))
        str_add(out, name);
    else
        quote_print(out, name);
}

static const char *const function_names[DIM_KIND_COUNT] = {
    [DIM_FLOOR_DIV] = "floor", [DIM_MOD] = "mod", [DIM_MIN] = "min", [DIM_MAX] = "max"};

static void print_term(const DimTable *t, const DimTerm *term, bool is_first, Str *out)
{
    bool is_negative = term->coef < 0;
    int64_t magnitude = is_negative ? -term->coef : term->coef;
    str_add(out, is_first ? (is_negative ? "-" : "") : is_negative ? " - " : " + ");
    if (magnitude != 1)
        str_printf(out, "%lld*", (long long)magnitude);
    for (uint32_t i = 0; i < term->n; i++) {
        if (i)
            str_char(out, '*');
        dim_print(t, term->atom[i], out);
    }
}

static void print_sum(const DimTable *t, const DimExpr *e, Str *out)
{
    for (uint32_t i = 0; i < e->n_terms; i++)
        print_term(t, &e->terms[i], i == 0, out);
    if (e->constant > 0)
        str_printf(out, " + %lld", (long long)e->constant);
    else if (e->constant < 0)
        str_printf(out, " - %lld", -(long long)e->constant);
}

// An operand of '/': sums and negative numbers in parentheses.
static void print_operand(const DimTable *t, Dim d, Str *out)
{
    bool is_single = dim_is_const(d) ? d >= 0 : dim_expr(t, d)->kind != DIM_SUM;
    str_add(out, is_single ? "" : "(");
    dim_print(t, d, out);
    str_add(out, is_single ? "" : ")");
}

void dim_print(const DimTable *t, Dim d, Str *out)
{
    if (dim_is_const(d)) {
        str_printf(out, "%lld", (long long)d);
        return;
    }
    const DimExpr *e = dim_expr(t, d);
    if (e->kind == DIM_SYMBOL) {
        print_symbol(t->symbols.data[e->symbol].name, out);
    } else if (e->kind == DIM_SUM) {
        print_sum(t, e, out);
    } else if (e->kind == DIM_UNKNOWN) {
        str_char(out, '?');
    } else if (e->kind == DIM_FLOOR_DIV) {
        str_add(out, "floor(");
        print_operand(t, e->a, out);
        str_add(out, " / ");
        print_operand(t, e->b, out);
        str_char(out, ')');
    } else {
        str_printf(out, "%s(", function_names[e->kind]);
        dim_print(t, e->a, out);
        str_add(out, ", ");
        dim_print(t, e->b, out);
        str_char(out, ')');
    }
}

// --- parsing ---

enum { MAX_DEPTH = 64 };

typedef struct Parser {
    DimTable *table;
    const char *text;
    size_t len, at;
    DimParse mode;
    uint32_t depth;
    Arena scratch; // names
} Parser;

static bool parse_sum(Parser *p, Dim *out);
static bool parse_product(Parser *p, Dim *out);
static bool parse_factor(Parser *p, Dim *out);

static void skip_space(Parser *p)
{
    while (p->at < p->len && (p->text[p->at] == ' ' || p->text[p->at] == '\t'))
        p->at++;
}

static bool take(Parser *p, char c)
{
    skip_space(p);
    if (p->at == p->len || p->text[p->at] != c)
        return false;
    p->at++;
    return true;
}

static bool parse_number(Parser *p, Dim *out)
{
    size_t begin = p->at, end = begin;
    while (end < p->len && p->text[end] >= '0' && p->text[end] <= '9')
        end++;
    if (!str_parse_i64(p->text + begin, end - begin, out) || !dim_fits(*out))
        return false;
    p->at = end;
    return true;
}

typedef struct Function {
    const char *name;
    char separator;
    Dim (*make)(DimTable *, Dim, Dim);
} Function;

static const Function functions[] = {
    {"floor", '/', dim_floor_div}, {"ceil", '/', dim_ceil_div}, {"mod", ',', dim_mod},
    {"min", ',', dim_min},         {"max", ',', dim_max},
};

static const Function *find_function(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (str_equal(functions[i].name, name))
            return &functions[i];
    return NULL;
}

static bool parse_call(Parser *p, const Function *f, Dim *out)
{
    Dim a = 0, b = 0;
    bool is_division = f->separator == '/'; // binds tighter than + and -
    if (!(is_division ? parse_product : parse_sum)(p, &a) || !take(p, f->separator) ||
        !(is_division ? parse_factor : parse_sum)(p, &b) || !take(p, ')'))
        return false;
    *out = f->make(p->table, a, b);
    return true;
}

static bool parse_symbol(Parser *p, const char *name, size_t begin, Dim *out)
{
    int32_t found = dim_find_symbol(p->table, name);
    if (found < 0 && p->mode == DIM_KNOWN_ONLY) {
        p->at = begin;
        return false;
    }
    *out = dim_symbol(p->table, name, 1, DIM_MAX_VALUE, 1);
    return true;
}

static bool parse_name(Parser *p, Dim *out)
{
    size_t begin = p->at;
    const char *name = NULL;
    if (p->text[begin] == '"') {
        if (!quote_parse(&p->scratch, p->text, p->len, &p->at, &name))
            return false;
        return parse_symbol(p, name, begin, out);
    }
    while (p->at < p->len && quote_is_name_char(p->text[p->at]))
        p->at++;
    name = arena_strndup(&p->scratch, p->text + begin, p->at - begin);
    const Function *f = find_function(name);
    if (f && take(p, '('))
        return parse_call(p, f, out);
    return parse_symbol(p, name, begin, out);
}

static bool parse_primary(Parser *p, Dim *out)
{
    skip_space(p);
    if (p->at == p->len)
        return false;
    char c = p->text[p->at];
    if (c >= '0' && c <= '9')
        return parse_number(p, out);
    if (c == '"' || quote_is_name_start(c))
        return parse_name(p, out);
    return take(p, '(') && parse_sum(p, out) && take(p, ')');
}

// Every recursion of the parser comes through here.
static bool parse_factor(Parser *p, Dim *out)
{
    if (p->depth == MAX_DEPTH)
        return false;
    p->depth++;
    bool ok = parse_primary(p, out);
    p->depth--;
    return ok;
}

static bool parse_product(Parser *p, Dim *out)
{
    if (!parse_factor(p, out))
        return false;
    while (take(p, '*')) {
        Dim factor = 0;
        if (!parse_factor(p, &factor))
            return false;
        *out = dim_mul(p->table, *out, factor);
    }
    return true;
}

static bool parse_sum(Parser *p, Dim *out)
{
    Dim term = 0;
    bool is_negative = take(p, '-');
    if (!parse_product(p, out))
        return false;
    if (is_negative)
        *out = dim_sub(p->table, 0, *out);
    for (;;) {
        bool is_plus = take(p, '+');
        if (!is_plus && !take(p, '-'))
            return true;
        if (!parse_product(p, &term))
            return false;
        *out = is_plus ? dim_add(p->table, *out, term) : dim_sub(p->table, *out, term);
    }
}

bool dim_parse(DimTable *t, const char *text, size_t len, DimParse mode, Dim *out, size_t *error_at)
{
    Parser p = {.table = t, .text = text, .len = len, .mode = mode};
    Dim d = 0;
    bool ok = parse_sum(&p, &d);
    skip_space(&p);
    ok = ok && p.at == len;
    if (ok && dim_is_unknown(t, d)) {
        ok = false;
        p.at = 0;
    }
    if (ok)
        *out = d;
    else if (error_at)
        *error_at = p.at;
    arena_free(&p.scratch);
    return ok;
}
