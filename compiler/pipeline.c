// SPDX-License-Identifier: Apache-2.0
// Runs the passes. See pipeline.h.
#include "compiler/pipeline.h"
#include "compiler/import/sizes.h"
#include "ir/text.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

static const uint64_t place_budget =
    4000000; // search nodes: seconds at the worst, and only where greedy placement misses the bound

const PassInfo *pipeline_find_pass(const char *name)
{
    for (uint32_t i = 0; i < pass_count; i++)
        if (strcmp(pass_info[i].name, name) == 0)
            return &pass_info[i];
    return NULL;
}

// --- symbols -------------------------------------------------------------------------------------

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

static bool bind_one(Graph *g, const ImportSize *b, int64_t *values, bool *known)
{
    int32_t index = dim_find_symbol(g->dims, b->name);
    if (index < 0 && is_bound(g, b, &index))
        return true;
    if (index < 0) {
        diag_error(g->diag, (Span){0}, E0207,
                   "--dim %s=%" PRId64 ": the graph has no symbolic dimension '%s'", b->name, b->value,
                   b->name);
        for (uint32_t i = 0; i < g->dims->symbols.len; i++)
            diag_note(g->diag, (Span){0}, "it has: %s", g->dims->symbols.data[i].name);
        return false;
    }
    const Symbol *s = &g->dims->symbols.data[index];
    if (b->value < s->min || b->value > s->max)
        return diag_error(g->diag, (Span){0}, E0208,
                          "--dim %s=%" PRId64 ": the size must be from %" PRId64 " to %" PRId64, b->name,
                          b->value, s->min, s->max);
    if (s->multiple > 1 && b->value % s->multiple != 0)
        return diag_error(g->diag, (Span){0}, E0208,
                          "--dim %s=%" PRId64 ": the size must be a multiple of %" PRId64, b->name, b->value,
                          s->multiple);
    values[index] = b->value;
    known[index] = true;
    return true;
}

static bool is_symbol_used(const Graph *g, int32_t index);

// As the bound of a loop, or inside one. Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
static bool is_symbol_in_loop(const Graph *g, const Node *n, int32_t index)
{
    if (n->op != OP_loop)
        return false;
    const AttrVal *max = node_attr(n, A_loop_max_trips);
    return (max->len && dim_as_symbol(g->dims, max->u.ints[0]) == index) ||
           is_symbol_used(node_attr(n, A_loop_body)->u.graph, index);
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

bool pipeline_bind(Graph *g, const PipelineOptions *o, Graph **out)
{
    const uint32_t n = g->dims->symbols.len;
    int64_t *values = ARENA_ARRAY(g->arena, int64_t, n);
    bool *known = ARENA_ARRAY(g->arena, bool, n), complete = true;
    *out = g;
    for (uint32_t i = 0; i < o->dims.len; i++)
        complete = bind_one(g, &o->dims.data[i], values, known) && complete;
    if (!complete)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const Symbol *s = &g->dims->symbols.data[i];
        if (graph_computes(g, i)) { // the extent pass
            values[i] = -1;
        } else if (!known[i] && s->dflt != 0) {
            values[i] = s->dflt;
        } else if (!known[i] && is_symbol_used(g, (int32_t)i)) {
            complete =
                diag_error(g->diag, (Span){0}, E0207,
                           "dimension '%s' needs a size: give it with --dim %s=VALUE", s->name, s->name);
        } else if (!known[i]) {
            values[i] = s->min;
        }
    }
    return complete && (n == 0 || graph_bind(g, (DimValues){values, n}, out));
}

// --- passes --------------------------------------------------------------------------------------

static void dump(const PipelineOptions *o, const PassInfo *info, const Pass *p)
{
    if (o->dump == NULL || (strcmp(o->dump, info->name) != 0 && strcmp(o->dump, "all") != 0))
        return;
    Arena a = {0};
    Str text = str_new(&a);
    if (info->makes_plan && p->plan != NULL)
        plan_print(p->plan, &text);
    else
        graph_print(p->graph, &text, TEXT_ELIDE);
    fprintf(o->report, "=== after %s ===\n%s", info->name, str_text(&text));
    arena_free(&a);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void verify(const Pass *p, const PassInfo *info)
{
#ifndef NDEBUG
    const char *wrong = info->makes_plan ? NULL : graph_verify(p->graph, info->stage);
    if (wrong != NULL)
        diag_bug(info->name, 0, wrong);
#else
    (void)p;
    (void)info;
#endif
}

static bool run_pass(Pass *p, const PassInfo *info, const PipelineOptions *o)
{
    const double start = now_ms();
    const bool changed = info->run(p);
    if (p->failed)
        return false;
    if (o->time_passes)
        fprintf(o->report, "%-10s %8.2f ms  %u nodes%s\n", info->name, now_ms() - start,
                p->graph->nodes.len - 1, changed ? "" : "  (nothing to do)");
    verify(p, info);
    dump(o, info, p);
    arena_reset(p->scratch);
    return true;
}

bool pipeline_run(Arena *perm, Diag *d, Graph *graph, const PipelineOptions *o, Plan **plan)
{
    Arena scratch = {0};
    const PassOptions options = {.opt_level = o->opt_level,
                                 .allow_fast = o->allow_fast,
                                 .accuracy = o->accuracy,
                                 .caps = o->caps,
                                 .tuned = o->tuned,
                                 .n_tuned = o->n_tuned,
                                 .place_budget = place_budget};
    Pass p = {.perm = perm, .scratch = &scratch, .diag = d, .options = &options, .graph = graph};
    bool ok = pipeline_bind(graph, o, &p.graph);
    *plan = NULL;
    for (uint32_t i = 0; i < pass_count && ok; i++) {
        if (pass_info[i].min_level <= o->opt_level)
            ok = run_pass(&p, &pass_info[i], o);
        if (o->stop_after != NULL && strcmp(o->stop_after, pass_info[i].name) == 0)
            break;
    }
    if (ok && p.plan != NULL && p.plan->region_bytes[REGION_ARENA] != 0) {
        const char *wrong = plan_verify(p.plan);
        if (wrong != NULL)
            diag_bug("plan", 0, wrong);
    }
    arena_free(&scratch);
    *plan = p.plan;
    return ok;
}
