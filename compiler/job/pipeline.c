// SPDX-License-Identifier: Apache-2.0
// Runs the passes. See pipeline.h.
#include "compiler/job/pipeline.h"
#include "compiler/cli/cli.h"
#include "compiler/system/clock.h"
#include "ir/text/text.h"
#include "passes/graph/driver.h"
#include <string.h>

static const uint64_t place_budget =
    4000000; // search nodes: seconds at the worst, and only where greedy placement misses the bound

const PassInfo *pipeline_find_pass(const char *name)
{
    for (uint32_t i = 0; i < pass_count; i++)
        if (strcmp(pass_info[i].name, name) == 0)
            return &pass_info[i];
    return NULL;
}

// --- passes --------------------------------------------------------------------------------------

static void dump(const PipelineOptions *o, const PassInfo *info, const Pass *p)
{
    if (o->dump == NULL || (strcmp(o->dump, info->name) != 0 && strcmp(o->dump, "all") != 0))
        return;
    Arena a = {0};
    Str text = str_new(&a);
    cli_progress_end();
    if (info->makes_plan && p->plan != NULL)
        plan_print(p->plan, &text);
    else
        graph_print(p->graph, &text, TEXT_ELIDE);
    fprintf(o->report, "=== after %s ===\n%s", info->name, str_text(&text));
    arena_free(&a);
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
    const double start = clock_seconds();
    const bool changed = pass_run(p, info);
    if (p->failed)
        return false;
    if (o->time_passes)
        cli_progress_end();
    if (o->time_passes)
        fprintf(o->report, "%-10s %8.2f ms  %u nodes%s\n", info->name, (clock_seconds() - start) * 1e3,
                p->graph->nodes.len - 1, changed ? "" : "  (nothing to do)");
    verify(p, info);
    dump(o, info, p);
    arena_reset(p->scratch);
    return true;
}

bool pipeline_run(Arena *perm, Diag *d, Graph *graph, const PipelineOptions *o, Plan **plan)
{
    rlx_assert(o->report != NULL || (o->dump == NULL && !o->time_passes));
    rlx_assert(graph != NULL && o->caps != NULL);
    Arena scratch = {0};
    const PassOptions options = {.opt_level = o->opt_level,
                                 .allow_fast = o->allow_fast,
                                 .accuracy = o->accuracy,
                                 .memory_price = o->memory_price,
                                 .ram = o->ram,
                                 .spare_ram = o->spare_ram,
                                 .banks = o->banks.data,
                                 .n_banks = o->banks.len,
                                 .winograd = o->winograd,
                                 .strips = o->no_fuse,
                                 .goal = o->goal,
                                 .no_fuse = o->no_fuse,
                                 .no_prune = o->no_prune,
                                 .no_reorder = o->no_reorder,
                                 .caps = o->caps,
                                 .tuned = o->tuned,
                                 .n_tuned = o->n_tuned,
                                 .has_buckets = o->has_buckets,
                                 .moe_slots = o->moe_slots,
                                 .largest = o->bucket_of,
                                 .file = o->file,
                                 .rows_input = o->rows_input,
                                 .rows_axis = o->rows_axis,
                                 .rows_origin = o->rows_origin,
                                 .place_budget = o->place_budget ? o->place_budget : place_budget};
    Pass p = {.perm = perm, .scratch = &scratch, .diag = d, .options = &options, .graph = graph};
    bool ok = pipeline_bind(graph, o, &p.graph);
    *plan = NULL;
    for (uint32_t i = 0; i < pass_count && ok; i++) {
        cli_progress_step(arena_printf(&scratch, "pass %s", pass_info[i].name), i + 1, pass_count);
        if (pass_is_on(&pass_info[i], &options))
            ok = run_pass(&p, &pass_info[i], o);
        if (o->stop_after != NULL && strcmp(o->stop_after, pass_info[i].name) == 0)
            break;
    }
    if (ok && p.plan != NULL && p.plan->region_bytes[REGION_ARENA] != 0) {
        const char *wrong = plan_verify(p.plan);
        if (wrong != NULL)
            diag_bug("plan", 0, wrong);
    }
    rlx_assert(!ok || p.plan != NULL || o->stop_after != NULL);
    arena_free(&scratch);
    *plan = p.plan;
    return ok;
}
