// SPDX-License-Identifier: Apache-2.0
// See open_sizes.h.
#include "compiler/job/open_sizes.h"
#include "compiler/import/sizes.h"

static const GraphSymbols *symbols_of(const Job *j)
{
    rlx_assert(j->plan != NULL);
    return j->plan->graph->symbols;
}

uint32_t open_sizes_count(const Job *j)
{
    return symbols_of(j) != NULL ? symbols_of(j)->n : 0;
}

static DimValues by_symbol(const Job *j, const int64_t *values)
{
    const DimTable *t = j->plan->graph->dims;
    int64_t *value = ARENA_ARRAY(j->cli->arena, int64_t, t->symbols.len);
    for (uint32_t i = 0; i < t->symbols.len; i++)
        value[i] = -1;
    for (uint32_t i = 0; i < open_sizes_count(j); i++) {
        const int32_t symbol = dim_as_symbol(t, symbols_of(j)->dim[i]);
        rlx_assert(symbol >= 0 && (uint32_t)symbol < t->symbols.len);
        value[symbol] = values[i];
    }
    return (DimValues){value, t->symbols.len};
}

void open_sizes_shape(const Job *j, bool is_output, uint32_t slot, const int64_t *values, int64_t *dim)
{
    rlx_assert(slot < (is_output ? j->plan->outputs.len : j->plan->inputs.len));
    const PlanIo *io = is_output ? &j->plan->outputs.data[slot] : &j->plan->inputs.data[slot];
    const GraphSymbols *s = symbols_of(j);
    const Shape *open = s == NULL ? NULL : is_output ? s->outputs[slot] : s->inputs[slot];
    for (uint32_t i = 0; i < io->rank; i++)
        dim[i] = io->dim[i];
    for (uint32_t i = 0; open != NULL && i < io->rank; i++)
        dim_eval(j->plan->graph->dims, open->dim[i], by_symbol(j, values), &dim[i]);
}

// --- from inputs ---------------------------------------------------------------------------------

static void add_facts(Job *j, const ImportShape *shape, SizeFact *facts, uint32_t *n)
{
    const GraphSymbols *s = symbols_of(j);
    for (uint32_t i = 0; i < j->plan->inputs.len; i++) {
        const Shape *open = s->inputs[i];
        if (open == NULL || open->rank != shape->rank ||
            !str_equal(j->plan->inputs.data[i].name, shape->name))
            continue;
        for (uint32_t k = 0; k < open->rank; k++)
            facts[(*n)++] = (SizeFact){
                open->dim[k], shape->dim[k],
                arena_printf(j->cli->arena, "axis %u of input '%s' (%s)", k, shape->name, shape->origin),
                shape->is_firm};
    }
}

bool open_sizes_given(Job *j, int64_t *values)
{
    const GraphSymbols *s = symbols_of(j);
    if (s == NULL)
        return true;
    Arena *a = j->cli->arena;
    SizeFact *facts = ARENA_ARRAY(a, SizeFact, (uint64_t)j->given.shapes.len * SHAPE_MAX_RANK + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        values[i] = -1;
    const DimValues solved = by_symbol(j, values);
    int64_t *value = ARENA_ARRAY(a, int64_t, solved.n);
    for (uint32_t i = 0; i < solved.n; i++)
        value[i] = -1;
    for (uint32_t i = 0; i < j->given.shapes.len; i++)
        add_facts(j, &j->given.shapes.data[i], facts, &n);
    if (!sizes_solve(a, j->cli->diag, (Span){0}, j->plan->graph->dims, facts, n, value))
        return false;
    for (uint32_t i = 0; i < s->n; i++) {
        const int64_t found = value[dim_as_symbol(j->plan->graph->dims, s->dim[i])];
        values[i] = found >= 0 ? found : s->symbol[i].dflt;
    }
    return true;
}

// --- several sizes -------------------------------------------------------------------------------

// Value number `at` (mod their count) of a symbol.
static int64_t nth_value(const Symbol *s, uint64_t at)
{
    rlx_assert(s->multiple >= 1 && s->min <= s->max);
    const int64_t first = (s->min + s->multiple - 1) / s->multiple;
    const uint64_t count = (uint64_t)(s->max / s->multiple - first) + 1;
    return (first + (int64_t)(at % count)) * s->multiple;
}

bool open_sizes_try(const Job *j, uint32_t round, int64_t *values)
{
    enum { LEAST, LARGEST, SECOND, MIXED, ROUNDS = 6 };
    const GraphSymbols *s = symbols_of(j);
    for (uint32_t i = 0; s != NULL && i < s->n; i++) {
        const Symbol *x = &s->symbol[i];
        const uint64_t last = (uint64_t)((x->max - x->min) / x->multiple);
        if (round == LEAST || round == SECOND)
            values[i] = nth_value(x, round == LEAST || last == 0 ? 0 : 1);
        else if (round == LARGEST)
            values[i] = x->max;
        else // fractions of the range that differ from symbol to symbol
            values[i] = nth_value(x, last * ((round - MIXED + i) % 3 * 5 + 4) / 16);
    }
    return round < (s != NULL ? ROUNDS : 1);
}

PipelineOptions open_sizes_fixed(Job *j, const int64_t *values)
{
    PipelineOptions o = j->pipeline;
    const GraphSymbols *s = symbols_of(j);
    if (s == NULL)
        return o;
    o.dims.len = o.dims.cap = o.largest.len = 0;
    o.dims.data = NULL;
    o.is_dynamic = false;
    for (uint32_t i = 0; i < j->pipeline.dims.len; i++)
        if (!j->pipeline.dims.data[i].is_range)
            vec_push(j->cli->arena, &o.dims, j->pipeline.dims.data[i]);
    for (uint32_t i = 0; i < s->n; i++) {
        const ImportSize size = {.name = s->symbol[i].name, .value = values[i]};
        vec_push(j->cli->arena, &o.dims, size);
    }
    return o;
}

const char *open_sizes_text(const Job *j, const int64_t *values)
{
    Str text = str_new(j->cli->arena);
    for (uint32_t i = 0; i < open_sizes_count(j); i++)
        str_printf(&text, "%s%s=%lld", i == 0 ? " (" : ", ", symbols_of(j)->symbol[i].name,
                   (long long)values[i]);
    str_add(&text, open_sizes_count(j) != 0 ? ")" : "");
    return str_text(&text);
}
