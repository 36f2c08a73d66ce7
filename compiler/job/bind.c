// SPDX-License-Identifier: Apache-2.0
// What the symbols of a graph become before it is planned: numbers, or sizes that are set between runs. See
// pipeline.h.
#include "compiler/import/sizes.h"
#include "compiler/job/pipeline.h"
#include "ir/shape/forms.h"
#include <inttypes.h>
#include <string.h>

typedef struct Binder {
    Graph *g;
    const PipelineOptions *o;
    int64_t *value; // by symbol
    bool *is_known; // by symbol: --dim gives its value
    bool *is_open;  // by symbol: it is set between runs
    bool *has_max;  // by symbol: --dim gives its largest value
} Binder;

// A size whose name is that of an axis, or an expression: its symbol, or none where the import has used it.
static bool is_bound(Graph *g, const ImportSize *b, int32_t *index)
{
    uint32_t input = 0, axis = 0;
    Dim d = 0;
    size_t error_at = 0;
    const bool is_axis = sizes_parse_axis(b->name, &input, &axis) && input < g->inputs.len &&
                         axis < graph_node(g, g->inputs.data[input])->shape->rank;
    if (is_axis)
        d = graph_node(g, g->inputs.data[input])->shape->dim[axis];
    else if (!dim_parse(g->dims, b->name, strlen(b->name), DIM_KNOWN_ONLY, &d, &error_at) || dim_is_const(d))
        return false;
    *index = dim_as_symbol(g->dims, d);
    return *index < 0 && (!is_axis || d == b->value);
}

// " (axis 1 of input 'x')": symbols of exporters have names that say nothing. Empty: no input has that size.
static const char *where_symbol(const Graph *g, uint32_t index)
{
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Node *n = graph_node(g, g->inputs.data[i]);
        for (uint32_t axis = 0; axis < n->shape->rank; axis++)
            if (dim_as_symbol(g->dims, n->shape->dim[axis]) == (int32_t)index)
                return arena_printf(g->arena, " (axis %u of input '%s')", axis,
                                    node_name(g, g->inputs.data[i]));
    }
    return "";
}

// The symbol that an option names; -1: none, which is reported, but for what the import has used already.
static int32_t find_symbol(Graph *g, const char *option, const ImportSize *b, bool *ok)
{
    int32_t index = dim_find_symbol(g->dims, b->name);
    if (index >= 0 || is_bound(g, b, &index))
        return index;
    *ok = diag_error(g->diag, (Span){0}, E0207, "%s %s: the graph has no symbolic dimension '%s'", option,
                     b->name, b->name);
    const uint32_t n = g->dims->symbols.len;
    const char **names = ARENA_ARRAY(g->arena, const char *, n + 1);
    const char **shown = ARENA_ARRAY(g->arena, const char *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        names[i] = g->dims->symbols.data[i].name;
        shown[i] = arena_printf(g->arena, "%s%s", names[i], where_symbol(g, i));
    }
    if (n != 0)
        diag_note_names(g->diag, (Span){0}, b->name, names, shown, n);
    return index;
}

static bool is_in_range(Graph *g, const char *option, const ImportSize *b, const Symbol *s)
{
    if (b->value < s->min || b->value > s->max)
        return diag_error(g->diag, (Span){0}, E0208,
                          "%s %s=%" PRId64 ": the size must be from %" PRId64 " to %" PRId64, option, b->name,
                          b->value, s->min, s->max);
    if (s->multiple > 1 && b->value % s->multiple != 0)
        return diag_error(g->diag, (Span){0}, E0208,
                          "%s %s=%" PRId64 ": the size must be a multiple of %" PRId64, option, b->name,
                          b->value, s->multiple);
    return true;
}

// A size that the model computes has its value from there: what is given is how large (and small) it can be.
static bool limit_computed(Binder *b, const char *option, uint32_t index, const ImportSize *size)
{
    rlx_assert(graph_computes(b->g, index));
    const char *name = b->g->dims->symbols.data[index].name;
    if (size->is_open || size->keeps_min)
        return diag_error(b->g->diag, (Span){0}, E0208,
                          "%s %s: the model computes this size, so it cannot be set between runs; say how "
                          "large it can be with --dim %s=VALUE",
                          option, name, name);
    return graph_limit_extent(b->g, index, size->is_range ? size->min : 0, size->value);
}

static bool bind_one(Binder *b, const ImportSize *size)
{
    bool ok = true;
    const char *option = size->keeps_min ? "--bucket" : "--dim";
    const int32_t index = find_symbol(b->g, option, size, &ok);
    if (index < 0)
        return ok;
    rlx_assert((uint32_t)index < b->g->dims->symbols.len);
    if (graph_computes(b->g, (uint32_t)index))
        return limit_computed(b, option, (uint32_t)index, size);
    Symbol *s = &b->g->dims->symbols.data[index];
    if (size->is_range) {
        b->is_open[index] = true;
        b->has_max[index] = !size->is_open;
        return sizes_narrow(b->g->diag, (Span){0}, s, size);
    }
    b->value[index] = size->value;
    b->is_known[index] = true;
    return is_in_range(b->g, option, size, s);
}

static bool limit_one(Binder *b, const ImportSize *size)
{
    bool ok = true;
    const int32_t index = find_symbol(b->g, "--arena-at", size, &ok);
    if (index < 0)
        return ok;
    Symbol *s = &b->g->dims->symbols.data[index];
    if (!b->is_open[index])
        return diag_error(b->g->diag, (Span){0}, E0208,
                          "--arena-at %s=%" PRId64 ": the size is not set between runs (--dim %s=dynamic)",
                          size->name, size->value, s->name);
    if (!is_in_range(b->g, "--arena-at", size, s))
        return false;
    s->max = size->value;
    return true;
}

static bool is_symbol_used(const Graph *g, int32_t index);

// As the bound of a loop, or inside one. Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
static bool is_symbol_in_loop(const Graph *g, const Node *n, int32_t index)
{
    const LoopForm loop = loop_form(n);
    return loop.body != NULL &&
           ((loop.max_trips != NULL && dim_as_symbol(g->dims, *loop.max_trips) == index) ||
            is_symbol_used(loop.body, index));
}

// Does any input, param or state still have the symbol?
static bool is_symbol_used(const Graph *g, int32_t index)
{
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->shape->rank; i++)
            if (dim_as_symbol(g->dims, n->shape->dim[i]) == index)
                return true;
        if (is_symbol_in_loop(g, n, index))
            return true;
    }
    return false;
}

// Does any size have the symbol in it?
static bool has_symbol(const Graph *g, uint32_t symbol)
{
    const uint32_t n = g->dims->symbols.len;
    int64_t *value = ARENA_ARRAY(g->arena, int64_t, n), size = 0;
    for (uint32_t i = 0; i < n; i++)
        value[i] = i == symbol ? -1 : g->dims->symbols.data[i].min;
    for (NodeId id = 1; id < g->nodes.len; id++)
        for (uint32_t i = 0; i < graph_node(g, id)->shape->rank; i++)
            if (!dim_eval(g->dims, graph_node(g, id)->shape->dim[i], (DimValues){value, n}, &size))
                return true;
    return false;
}

// Room for the largest: the symbol ends at a multiple of what it must be one of.
static bool check_open(Graph *g, Symbol *s, bool has_max)
{
    rlx_assert(s->multiple >= 1);
    if (!has_max && s->max >= IMPORT_OPEN_MAX)
        return diag_error(g->diag, (Span){0}, E0207,
                          "dimension '%s' has no largest size: give it with --dim %s=1..VALUE", s->name,
                          s->name);
    s->max = s->max / s->multiple * s->multiple;
    return s->max >= s->min || diag_error(g->diag, (Span){0}, E0208,
                                          "dimension '%s': there is no multiple of %" PRId64 " from %" PRId64
                                          " on that it could be",
                                          s->name, s->multiple, s->min);
}

// What the options say, by symbol.
static bool read_options(Binder *b)
{
    Graph *g = b->g;
    bool ok = true;
    for (uint32_t i = 0; i < b->o->dims.len; i++)
        ok = bind_one(b, &b->o->dims.data[i]) && ok;
    for (uint32_t i = 0; ok && i < g->dims->symbols.len; i++) {
        Symbol *s = &g->dims->symbols.data[i];
        if (b->o->is_dynamic && !b->is_known[i] && s->max < IMPORT_OPEN_MAX && !graph_computes(g, i))
            b->is_open[i] = b->is_open[i] || has_symbol(g, i);
        ok = !b->is_open[i] || check_open(g, s, b->has_max[i]);
    }
    for (uint32_t i = 0; ok && i < b->o->largest.len; i++)
        ok = limit_one(b, &b->o->largest.data[i]);
    return ok;
}

// A size that no option gives. False: it is needed, which is reported.
static bool take_default(Binder *b, uint32_t i)
{
    rlx_assert(i < b->g->dims->symbols.len && !b->is_known[i]);
    Graph *g = b->g;
    const Symbol *s = &g->dims->symbols.data[i];
    if (graph_computes(g, i) || b->is_open[i]) // the extent pass
        b->value[i] = -1;
    else if (s->has_dflt)
        b->value[i] = s->dflt;
    else if (!is_symbol_used(g, (int32_t)i))
        b->value[i] = s->min;
    else
        return diag_error(g->diag, (Span){0}, E0207,
                          "dimension '%s'%s needs a size: give it with --dim %s=%sVALUE", s->name,
                          where_symbol(g, i), s->name, b->o->is_dynamic ? "1.." : "");
    return true;
}

static bool bind_open(Binder *b, DimValues v, Graph **out)
{
    uint32_t *open = ARENA_ARRAY(b->g->arena, uint32_t, v.n), n = 0;
    int64_t *first = ARENA_ARRAY(b->g->arena, int64_t, v.n);
    for (uint32_t i = 0; i < v.n; i++) {
        const Symbol *s = &b->g->dims->symbols.data[i];
        if (!b->is_open[i])
            continue;
        rlx_assert(s->min <= s->max && s->multiple >= 1);
        open[n] = i;
        first[n++] = s->has_dflt && s->dflt >= s->min && s->dflt <= s->max ? s->dflt : s->max;
    }
    return n != 0 ? graph_bind_open(b->g, v, open, first, n, out) : graph_bind(b->g, v, out);
}

static Binder begin(Graph *g, const PipelineOptions *o)
{
    const uint32_t n = g->dims->symbols.len;
    return (Binder){.g = g,
                    .o = o,
                    .value = ARENA_ARRAY(g->arena, int64_t, n),
                    .is_known = ARENA_ARRAY(g->arena, bool, n),
                    .is_open = ARENA_ARRAY(g->arena, bool, n),
                    .has_max = ARENA_ARRAY(g->arena, bool, n)};
}

bool pipeline_bind(Graph *g, const PipelineOptions *o, Graph **out)
{
    const uint32_t n = g->dims->symbols.len;
    Binder b = begin(g, o);
    bool ok = read_options(&b);
    *out = g;
    if (!ok)
        return false;
    for (uint32_t i = 0; i < n; i++)
        ok = (b.is_known[i] || take_default(&b, i)) && ok;
    return ok && (n == 0 || bind_open(&b, (DimValues){b.value, n}, out));
}

bool pipeline_bind_some(Graph *g, const PipelineOptions *o, Graph **out)
{
    const uint32_t n = g->dims->symbols.len;
    Binder b = begin(g, o);
    *out = g;
    if (!read_options(&b))
        return false;
    for (uint32_t i = 0; i < n; i++)
        b.value[i] = b.is_known[i] ? b.value[i] : -1;
    return n == 0 || graph_bind(g, (DimValues){b.value, n}, out);
}
