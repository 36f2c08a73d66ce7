// SPDX-License-Identifier: Apache-2.0
// See sizes.h.
#include "compiler/import/sizes.h"

#include <string.h>

typedef struct Solver {
    Arena *arena;
    Diag *diag;
    Span at;
    const DimTable *t;
    int64_t *values;   // by symbol
    const char **from; // by symbol: the fact that gave its value; NULL: the user, or none yet
    DimValues known;
} Solver;

bool sizes_parse_axis(const char *name, uint32_t *input, uint32_t *axis)
{
    int64_t i = 0, k = 0;
    const char *dim = strncmp(name, "input", 5) == 0 ? strstr(name, "_dim") : NULL;
    if (!dim || !str_parse_i64(name + 5, (size_t)(dim - name) - 5, &i) ||
        !str_parse_i64(dim + 4, strlen(dim + 4), &k) || i < 0 || i > UINT16_MAX || k < 0 ||
        k >= SHAPE_MAX_RANK)
        return false;
    *input = (uint32_t)i;
    *axis = (uint32_t)k;
    return true;
}

bool sizes_narrow(Diag *d, Span at, Symbol *s, const ImportSize *size)
{
    rlx_assert(s->multiple >= 1);
    if (size->is_open)
        return true;
    const int64_t min = size->keeps_min ? s->min : size->min;
    if (min < s->min || size->value > s->max || min > size->value)
        return diag_error(d, at, E0208, "--%s %s=%lld..%lld: the sizes must be from %lld to %lld",
                          size->keeps_min ? "bucket" : "dim", size->name, (long long)min,
                          (long long)size->value, (long long)s->min, (long long)s->max);
    s->min = min;
    s->max = size->value;
    if (!s->has_dflt || s->dflt < s->min || s->dflt > s->max) {
        s->has_dflt = true;
        s->dflt = size->value / s->multiple * s->multiple;
    }
    return true;
}

// --- one fact ---

// The value of d, if only symbol `index` were missing and had this one.
static bool eval_with(Solver *s, Dim d, uint32_t index, int64_t value, int64_t *out)
{
    rlx_assert(index < s->known.n && s->values[index] < 0);
    s->values[index] = value;
    const bool ok = dim_eval(s->t, d, s->known, out);
    s->values[index] = -1;
    return ok;
}

// Finds the symbol that is the only one missing, by trying; expressions that are not linear in it are left
// alone, as several values may fit.
static bool solve_one(Solver *s, const SizeFact *f)
{
    int64_t a = 0, b = 0, back = 0;
    for (uint32_t i = 0; i < s->t->symbols.len; i++) {
        const int64_t low = s->t->symbols.data[i].min;
        if (s->values[i] >= 0 || !eval_with(s, f->dim, i, low, &a))
            continue;
        if (!eval_with(s, f->dim, i, low + 1, &b) || a == b || (f->value - a) % (b - a) != 0)
            return false;
        const int64_t value = low + (f->value - a) / (b - a);
        if (value < 0 || !eval_with(s, f->dim, i, value, &back) || back != f->value)
            return false;
        s->values[i] = value;
        s->from[i] = f->what;
        return true;
    }
    return false;
}

// A fact about a size that is known from elsewhere. What the user says wins.
static bool check_fact(Solver *s, const SizeFact *f, int64_t known)
{
    const int32_t symbol = dim_as_symbol(s->t, f->dim);
    if (known == f->value)
        return true;
    if (symbol >= 0 && s->from[symbol])
        return diag_error(
            s->diag, s->at, E0208, "the size '%s' is %lld according to %s, but %lld according to %s",
            s->t->symbols.data[symbol].name, (long long)known, s->from[symbol], (long long)f->value, f->what);
    return !f->is_firm || diag_error(s->diag, s->at, E0208, "%s is %lld, but %lld according to the model",
                                     f->what, (long long)f->value, (long long)known);
}

static bool check_range(Solver *s, uint32_t i)
{
    const Symbol *symbol = &s->t->symbols.data[i];
    const int64_t v = s->values[i];
    const bool is_default = symbol->min == 1 && !symbol->has_dflt; // of a model that says nothing
    if (v < 0 || !s->from[i] || (v == 0 && is_default) ||
        (v >= symbol->min && v <= symbol->max && v % symbol->multiple == 0))
        return true;
    if (symbol->multiple > 1)
        return diag_error(
            s->diag, s->at, E0208,
            "the size '%s' is %lld according to %s; it must be from %lld to %lld, a multiple of %lld",
            symbol->name, (long long)v, s->from[i], (long long)symbol->min, (long long)symbol->max,
            (long long)symbol->multiple);
    return diag_error(s->diag, s->at, E0208,
                      "the size '%s' is %lld according to %s; it must be from %lld to %lld", symbol->name,
                      (long long)v, s->from[i], (long long)symbol->min, (long long)symbol->max);
}

bool sizes_solve(Arena *a, Diag *d, Span at, const DimTable *t, const SizeFact *facts, uint32_t n,
                 int64_t *values)
{
    rlx_assert(n == 0 || facts != NULL);
    Solver s = {.arena = a, .diag = d, .at = at, .t = t, .values = values};
    bool ok = true, changed = true;
    s.from = ARENA_ARRAY(a, const char *, t->symbols.len + 1);
    s.known = (DimValues){values, t->symbols.len};
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < n; i++)
            changed = solve_one(&s, &facts[i]) || changed;
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t known = 0;
        if (dim_eval(t, facts[i].dim, s.known, &known))
            ok = check_fact(&s, &facts[i], known) && ok;
    }
    for (uint32_t i = 0; i < t->symbols.len; i++)
        ok = check_range(&s, i) && ok;
    return ok;
}

// --- graphs that are complete ---

static const ImportSize *find_size(const ImportOptions *o, const char *name)
{
    for (uint32_t i = 0; i < o->n_sizes; i++)
        if (str_equal(o->sizes[i].name, name))
            return &o->sizes[i];
    return NULL;
}

static bool unknown_input(Graph *g, const ImportShape *shape)
{
    const char **names = ARENA_ARRAY(g->arena, const char *, g->inputs.len + 1u);
    Span at = {0};
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        names[i] = node_name(g, g->inputs.data[i]);
        at.file = node_span(g, g->inputs.data[i]).file;
    }
    diag_error(g->diag, at, E0402, "%s: the model has no such input", shape->origin);
    diag_note_names(g->diag, at, shape->name, names, NULL, g->inputs.len);
    return false;
}

// False: the user names an input that does not exist, or gives it another rank (reported).
static bool add_facts(Graph *g, const ImportShape *shape, SizeFact *facts, uint32_t *n)
{
    NodeId id = 0;
    for (uint32_t i = 0; i < g->inputs.len && !id; i++)
        if (str_equal(node_name(g, g->inputs.data[i]), shape->name))
            id = g->inputs.data[i];
    const Shape *s = id ? graph_node(g, id)->shape : NULL;
    if (!s)
        return !shape->is_firm || unknown_input(g, shape);
    if (s->rank != shape->rank)
        return !shape->is_firm ||
               diag_error(g->diag, node_span(g, id), E0204, "%s has %u sizes, but the input has %u axes",
                          shape->origin, shape->rank, s->rank);
    for (uint32_t k = 0; k < s->rank; k++)
        facts[(*n)++] =
            (SizeFact){s->dim[k], shape->dim[k],
                       arena_printf(g->arena, "axis %u of input '%s' (%s)", k, shape->name, shape->origin),
                       shape->is_firm};
    return true;
}

bool sizes_fit(Graph *g, const ImportOptions *o)
{
    DimTable *t = g->dims;
    int64_t *values = ARENA_ARRAY(g->arena, int64_t, t->symbols.len + 1);
    SizeFact *facts = ARENA_ARRAY(g->arena, SizeFact, (uint64_t)o->n_shapes * SHAPE_MAX_RANK + 1);
    uint32_t n = 0;
    bool ok = true;
    for (uint32_t i = 0; i < t->symbols.len; i++) {
        const ImportSize *size = find_size(o, t->symbols.data[i].name);
        if (size && size->is)
            return diag_error(g->diag, (Span){0}, E0208,
                              "--dim %s=%s: only for ONNX models; this one can say it itself", size->name,
                              size->is);
        values[i] = size && !size->is_range ? size->value : -1;
        if (size && size->is_range)
            ok = sizes_narrow(g->diag, (Span){0}, &t->symbols.data[i], size) && ok;
    }
    for (uint32_t i = 0; i < o->n_shapes; i++)
        ok = add_facts(g, &o->shapes[i], facts, &n) && ok;
    ok = sizes_solve(g->arena, g->diag, (Span){0}, t, facts, n, values) && ok;
    for (uint32_t i = 0; i < t->symbols.len && ok; i++)
        if (values[i] > 0 && !find_size(o, t->symbols.data[i].name))
            dim_set_default(t, t->symbols.data[i].name, values[i]);
    return ok;
}
