// SPDX-License-Identifier: Apache-2.0
// See gpu_cases.h.
#include "gpu_cases.h"
#include "../e2e/ops_hash.h"
#include "passes/graph/driver.h"

#include <stdlib.h>

static const uint64_t place_budget = 20000;

void gpu_fail(GpuCases *g, const GpuJob *j, const char *what)
{
    g->n_failed++;
    printf("# %s: %s\n", j->c->name, what);
}

static Plan *plan_case(GpuCases *g, const OpsCase *c, const PassOptions *options)
{
    Graph *graph = ops_parse(&g->perm, c);
    Pass p = {
        .perm = &g->perm, .scratch = &g->scratch, .diag = graph->diag, .options = options, .graph = graph};
    pass_run_all(&p);
    if (!p.failed)
        return p.plan;
    diag_print(graph->diag, stderr, DIAG_PLAIN);
    return NULL;
}

typedef struct Namer {
    GpuCases *g;
    GpuJob *job;
} Namer;

static void name_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    const Namer *n = ctx;
    if (k->loop != NULL)
        return;
    if (n->job->lacks == NULL)
        n->job->lacks = target_lacks(n->g->target, k->kernel);
    k->function = k->kernel->name = arena_printf(&n->g->perm, "c%u_%s", n->g->n_kernels++, k->kernel->name);
}

int gpu_read_level(GpuCases *g, const char *text)
{
    if (text[1] == '/')
        g->every = (uint32_t)strtoul(text + 2, NULL, 10);
    ops_say_sample(g->every);
    return text[0] - '0';
}

void gpu_keep(GpuCases *g, const char *kind)
{
    kept_open(&g->kept, kind, "UNCHANGED_BUT_PASSES");
}

// Names of kernels are not set yet: they count the kernels of all cases.
static void find_kept(GpuCases *g, GpuJob *j)
{
    uint64_t hash = ops_hash_facts(j->plan, OPS_PLANNED, 0);
    if (g->kept.file == NULL)
        return;
    hash = ops_hash_kernels(&g->scratch, j->plan, OPS_PLANNED, hash);
    j->key[0] = hash_bytes64(j->c->source, strlen(j->c->source), 0);
    j->key[1] = ops_hash_constants(&g->scratch, j->plan, hash);
    j->is_kept = kept_has(&g->kept, j->key);
    g->n_kept += j->is_kept;
}

void gpu_plan(GpuCases *g, const char *target, int opt_level, char **files, int n)
{
    CpuInfo cpu;
    OpsCases cases = {0};
    TargetCaps *caps = ARENA_NEW(&g->perm, TargetCaps);
    PassOptions *options = ARENA_NEW(&g->perm, PassOptions);
    rlx_assert(cpu_find("generic", &cpu));
    g->target = target_find(target);
    *caps = target_caps(g->target, &cpu);
    if (getenv("TEST_GPU") != NULL)
        rlx_assert(g->target->set_gpu != NULL && g->target->set_gpu(getenv("TEST_GPU"), caps));
    *options = (PassOptions){.opt_level = opt_level, .caps = caps, .place_budget = place_budget};
    ops_name_crashes();
    for (int i = 0; i < n; i++)
        ops_read_cases(&g->perm, files[i], getenv("TEST_OPS"), &cases);
    for (uint32_t i = 0; i < cases.len; i++) {
        const OpsCase *c = &cases.data[i];
        if (!ops_is_sampled(i, g->every, 0))
            continue;
        ops_running = c->name;
        GpuJob j = {.c = c, .plan = plan_case(g, c, options)};
        const char *wrong = j.plan != NULL ? plan_verify(j.plan) : "a pass failed";
        Namer namer = {g, &j};
        if (wrong != NULL) {
            gpu_fail(g, &j, wrong);
            j.plan = NULL;
        } else {
            find_kept(g, &j);
            plan_walk(j.plan, name_kernel, &namer);
        }
        vec_push(&g->perm, &g->jobs, j);
    }
}

bool gpu_job_runs(const GpuJob *j)
{
    return j->plan != NULL && j->lacks == NULL && !j->is_kept;
}

typedef struct Each {
    PlanVisit fn;
    void *ctx;
} Each;

static void each_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const Each *e = ctx;
    if (k->loop == NULL)
        e->fn(p, k, times, e->ctx);
}

void gpu_each_kernel(const GpuJob *j, PlanVisit fn, void *ctx)
{
    Each e = {fn, ctx};
    if (gpu_job_runs(j))
        plan_walk(j->plan, each_kernel, &e);
}

static void find_ops(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)times;
    for (uint32_t i = 0; i < k->body.len; i++)
        ((bool *)ctx)[graph_node(p->graph, k->body.data[i])->op] = true;
}

static void count_ops(GpuCases *g, const GpuJob *j)
{
    bool has_op[OP_COUNT] = {false};
    plan_walk(j->plan, find_ops, has_op);
    for (uint32_t op = 0; op < OP_COUNT; op++)
        g->op_cases[op] += has_op[op];
}

void gpu_run(GpuCases *g, GpuRun run, void *ctx)
{
    for (uint32_t i = 0; i < g->jobs.len; i++) {
        const GpuJob *j = &g->jobs.data[i];
        Arena a = {0};
        ops_running = j->c->name;
        fflush(stdout);
        if (j->plan != NULL && j->lacks != NULL) {
            g->n_left_out++;
            printf("ok %u - %s # SKIP %s\n", i + 1, j->c->name, j->lacks);
            continue;
        }
        bool is_right = j->plan != NULL;
        if (is_right)
            count_ops(g, j);
        if (is_right && !j->is_kept) {
            const Reference ref = ops_evaluate(&a, j->c);
            is_right = run(ctx, j, &ref);
            if (is_right)
                kept_put(&g->kept, j->key, 1);
        }
        printf("%s %u - %s\n", is_right ? "ok" : "not ok", i + 1, j->c->name);
        arena_free(&a);
        arena_reset(&g->scratch);
    }
}

int gpu_end(GpuCases *g, const char *more)
{
    Str s = str_new(&g->perm);
    for (uint32_t op = 0; op < OP_COUNT; op++)
        if (g->op_cases[op] > 0)
            str_printf(&s, " %s %u", op_info[op].name, g->op_cases[op]);
    printf("# cases of each op:%s\n", str_text(&s));
    printf("# %u cases, %u left out, %u passed before, %u kernels, %s, %u failures\n", g->jobs.len,
           g->n_left_out, g->n_kept, g->n_kernels, more, g->n_failed);
    kept_say(g->n_kept);
    return g->n_failed == 0 && g->jobs.len > g->n_left_out ? 0 : 1;
}
