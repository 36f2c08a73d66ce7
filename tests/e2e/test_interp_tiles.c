// SPDX-License-Identifier: Apache-2.0
// Tiles that products of GPUs may have, run by the interpreter of kernels: one that the cost model does not
// take for shapes as small as those of tests has clusters of groups, pairs that share what they copy, or
// parts of k. With wgmma and without. A tile is taken every other day (rotation.h).
//
//   test_interp_tiles FILE.rlx...
//
// Prints TAP. TEST_OPS=name: only cases whose name contains the text.
#include "../common/rotation.h"
#include "interp_run.h"
#include "ir/kernel/device.h"
#include "ops_plan.h"

#include <stdlib.h>
#include <string.h>

// Of the GPU of cases that say so: groups have several tiles, maybe fewer groups than there are columns.
enum { EVERY = 2, FEW_PROCESSORS = 3 };
static const uint64_t place_budget = 20000;
static const char *const questions[] = {"gpu_matmul ", "gpu_simt "};

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
        .opt_level = 1, .caps = &w->caps, .place_budget = place_budget, .tuned = tuned, .n_tuned = n,
        .accuracy = ops_unit_accuracy(w->c)};
    return ops_plan_with(&w->scratch, w->ref->g, o);
}

static const char *run_plan(Work *w, const Plan *p, bool has_wgmma)
{
    InterpRun run = interp_make(&w->scratch, p);
    run.has_wgmma = has_wgmma;
    run.parts = 1;
    ops_set_inputs(p, &run.memory, w->ref, 0);
    const char *wrong = interp_run(&w->scratch, &run, true);
    return wrong != NULL
               ? wrong
               : ops_check_results(&w->scratch, p, &run.memory, w->ref, 0,
                                   (OpsTolerance){.f32 = ops_unit_tolerance(w->c)});
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

// --- faults --------------------------------------------------------------------------------------

// Tiles of which every statement that orders something is left out in turn: a ring of slots that comes around
// with results that go out in four parts; pairs of groups that add up; a ring of a pair.
static const char *const faulty[] = {"64x256x1/5", "64x64x2/6+2", "64x64x1/6+2"};
enum { BARRIER = KDEV_COUNT, ORDERS };

// By function, or BARRIER: how many were left out, and of how many that was found.
typedef struct Faults {
    uint32_t n[ORDERS], found[ORDERS];
} Faults;

static bool orders(const KInst *n)
{
    static const KDevice functions[] = {
        KDEV_cluster_sync, KDEV_named_sync,    KDEV_bar_init,      KDEV_bar_init_done,  KDEV_bar_expect,
        KDEV_bar_arrive,   KDEV_bar_arrive_at, KDEV_bar_wait,      KDEV_bulk_commit,    KDEV_bulk_wait_read,
        KDEV_bulk_wait,    KDEV_proxy_fence,   KDEV_wgmma_fence,   KDEV_wgmma_commit,   KDEV_wgmma_wait,
        KDEV_warp_sync,    KDEV_named_arrive,  KDEV_cp_async_wait, KDEV_cp_async_commit};
    bool does = n->kind == KI_barrier;
    for (uint32_t i = 0; n->kind == KI_device && i < sizeof functions / sizeof *functions; i++)
        does = does || kdev_of(n) == functions[i];
    return does;
}

static void leave_out(Work *w, const Plan *p, Kernel *k, bool has_wgmma, Faults *f)
{
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst n = k->insts.data[r];
        if (!orders(&n))
            continue;
        const uint32_t what = n.kind == KI_barrier ? BARRIER : (uint32_t)kdev_of(&n);
        k->insts.data[r] = (KInst){.kind = KI_comment, .lanes = 1, .text = "left out"};
        f->n[what]++;
        f->found[what] += run_plan(w, p, has_wgmma) != NULL;
        k->insts.data[r] = n;
        arena_reset(&w->scratch);
    }
}

// Some statements are needed for other shapes only; but each function must be missed somewhere.
static bool run_faults(Work *w, const char *asked)
{
    Faults f = {0};
    bool is_right = true;
    for (uint32_t i = 0; i < sizeof faulty / sizeof *faulty; i++)
        for (int wgmma = 0; wgmma < 2; wgmma++) {
            const PlanChoice tuned = {.question = asked, .answer = faulty[i]};
            const Plan *p = plan_case(w, &tuned, 1);
            for (uint32_t k = 0; p != NULL && k < p->kernels.len; k++)
                leave_out(w, p, p->kernels.data[k].kernel, wgmma != 0, &f);
            arena_reset(&w->perm);
        }
    for (uint32_t i = 0; i < ORDERS; i++) {
        const char *name = i == BARRIER ? "barrier" : device_info[i].name;
        if (f.n[i] != 0)
            printf("# %s: %u of %u\n", name, f.found[i], f.n[i]);
        is_right = is_right && (f.n[i] == 0 || f.found[i] != 0);
    }
    return is_right && f.n[KDEV_bar_wait] != 0;
}

// --- cases ---------------------------------------------------------------------------------------

static bool is_of_product(const char *question)
{
    bool is_one = false;
    for (uint32_t i = 0; i < sizeof questions / sizeof *questions; i++)
        is_one = is_one || strncmp(question, questions[i], strlen(questions[i])) == 0;
    return is_one;
}

// The question about the product, and its candidates; false: there is none.
static bool find_tiles(Work *w, Arena *a, PlanChoice *out)
{
    const Plan *p = plan_case(w, NULL, 0);
    bool found = false;
    for (uint32_t i = 0; p != NULL && i < p->choices.len; i++) {
        const PlanChoice *c = &p->choices.data[i];
        if (!is_of_product(c->question))
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
    TargetCaps caps = target_caps(target_find("cuda"), &cpu);
    GpuMachine few = *caps.gpu;
    few.processors = FEW_PROCESSORS;
    if (strstr(c->name, "few processors") != NULL)
        caps.gpu = &few;
    const Reference ref = ops_evaluate(&a, c);
    Work w = {.c = c, .ref = &ref, .caps = caps};
    PlanChoice choice = {0};
    uint32_t n = 0, n_run = 0, n_right = 0;
    const bool has_tiles = find_tiles(&w, &a, &choice), has_faults = strstr(c->name, "faults") != NULL;
    if (has_tiles && has_faults)
        n_right = n_run = n += run_faults(&w, choice.question) ? 2 : 0;
    else if (has_tiles)
        for (const char *at = choice.others; *at != '\0'; n++) {
            const size_t len = strcspn(at, " ");
            const bool is_taken = getenv("TEST_ALL") != NULL || (n + test_rotation()) % EVERY == 0;
            n_run += is_taken;
            n_right += is_taken && run_tile(&w, choice.question, arena_strndup(&a, at, len));
            at += len + (at[len] == ' ');
        }
    printf("# %s: %u tiles, %u run, %u right\n", c->name, n, n_run, n_right);
    arena_free(&w.perm);
    arena_free(&w.scratch);
    arena_free(&a);
    return n > 1 && n_run > 0 && n_right == n_run;
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
