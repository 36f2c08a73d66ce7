// SPDX-License-Identifier: Apache-2.0
// Every tile that products of GPUs may have, run by the interpreter of kernels: one that the cost model does
// not take for shapes as small as those of tests has clusters of groups, pairs that share what they copy, or
// parts of k. With wgmma and without.
//
//   test_interp_tiles FILE.rlx...
//
// Prints TAP. TEST_OPS=name: only cases whose name contains the text.
#include "interp_run.h"
#include "ops_plan.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t place_budget = 20000;
static const char question[] = "gpu_matmul ";

typedef struct Work {
    Arena perm, scratch; // end with the plan
    const OpsCase *c;
    const Reference *ref;
    TargetCaps caps;
} Work;

static Plan *plan_case(Work *w, const PlanChoice *tuned, uint32_t n)
{
    PassOptions *o = ARENA_NEW(&w->perm, PassOptions);
    *o = (PassOptions){
        .opt_level = 1, .caps = &w->caps, .place_budget = place_budget, .tuned = tuned, .n_tuned = n};
    return ops_plan_with(&w->perm, &w->scratch, w->c, o);
}

static const char *run_plan(Work *w, const Plan *p, bool has_wgmma)
{
    InterpRun run = interp_make(&w->perm, p);
    run.has_wgmma = has_wgmma;
    run.parts = 1;
    ops_set_inputs(p, &run.memory, w->ref, 0);
    const char *wrong = interp_run(&w->scratch, &run, true);
    return wrong != NULL
               ? wrong
               : ops_check_results(&w->scratch, p, &run.memory, w->ref, 0, (OpsTolerance){.f32 = 1e-5});
}

// The product with one of its tiles.
static bool run_tile(Work *w, const char *asked, const char *tile)
{
    const PlanChoice tuned = {.question = asked, .answer = tile};
    bool is_right = true;
    for (int wgmma = 0; wgmma < 2 && is_right; wgmma++) {
        const Plan *p = plan_case(w, &tuned, 1);
        const char *wrong = p == NULL ? "a pass failed" : run_plan(w, p, wgmma != 0);
        is_right = wrong == NULL;
        if (wrong != NULL)
            printf("# %s, %s%s: %s\n", w->c->name, tile, wgmma ? "" : " without wgmma", wrong);
        arena_reset(&w->perm);
        arena_reset(&w->scratch);
    }
    return is_right;
}

// The question about the product, and its candidates; false: there is none.
static bool find_tiles(Work *w, Arena *a, PlanChoice *out)
{
    const Plan *p = plan_case(w, NULL, 0);
    bool found = false;
    for (uint32_t i = 0; p != NULL && i < p->choices.len; i++) {
        const PlanChoice *c = &p->choices.data[i];
        if (strncmp(c->question, question, sizeof question - 1) != 0)
            continue;
        *out = (PlanChoice){.question = arena_strdup(a, c->question), .others = arena_strdup(a, c->others)};
        found = true;
    }
    arena_reset(&w->perm);
    return found;
}

static bool run_case(const OpsCase *c)
{
    Arena a = {0};
    CpuInfo cpu;
    const bool is_known = cpu_find("generic", &cpu);
    rlx_assert(is_known);
    const TargetCaps caps = target_caps(target_find("cuda"), &cpu);
    const Reference ref = ops_evaluate(&a, c);
    Work w = {.c = c, .ref = &ref, .caps = caps};
    PlanChoice choice = {0};
    uint32_t n = 0, n_right = 0;
    if (find_tiles(&w, &a, &choice))
        for (const char *at = choice.others; *at != '\0'; n++) {
            const size_t len = strcspn(at, " ");
            n_right += run_tile(&w, choice.question, arena_strndup(&a, at, len));
            at += len + (at[len] == ' ');
        }
    printf("# %s: %u of %u tiles\n", c->name, n_right, n);
    arena_free(&w.perm);
    arena_free(&w.scratch);
    arena_free(&a);
    return n > 1 && n_right == n;
}

int main(int argc, char **argv)
{
    Arena perm = {0};
    OpsCases cases = {0};
    uint32_t n_failed = 0;
    for (int i = 1; i < argc; i++)
        ops_read_cases(&perm, argv[i], getenv("TEST_OPS"), &cases);
    ops_name_crashes();
    printf("1..%u\n", cases.len);
    for (uint32_t i = 0; i < cases.len; i++) {
        ops_running = cases.data[i].name;
        const bool is_right = run_case(&cases.data[i]);
        n_failed += !is_right;
        printf("%s %u - %s\n", is_right ? "ok" : "not ok", i + 1, cases.data[i].name);
        fflush(stdout);
    }
    return n_failed != 0 || cases.len == 0;
}
