// SPDX-License-Identifier: Apache-2.0
// Every op through the whole compiler and the interpreter of kernels (ir/interp): in every configuration of
// ops_configs.def, whatever CPU this machine has, and for every generation of GPUs. Results are compared with
// the reference evaluator; races, deadlocks and uses of what nobody wrote are found on the way. No C compiler
// is needed.
//
//   test_interp FILE.rlx...             all cases of the files
//   TEST_OPS=name test_interp FILE...   only cases whose name contains the text
//   TEST_CONFIG=name test_interp ...    only this row of ops_configs.def, or of the GPUs below; with
//   TEST_OPS,
//                                       its kernels are listed
//   TEST_SHARD=i/n test_interp ...      every n-th case, from the i-th on (from 0)
//   TEST_FAULTS=1 test_interp ...       GPUs only: runs each kernel of a group again without each of its
//                                       barriers, waits and fences in turn; says which of them nobody misses
//
// Kernels that two configurations have in common run once. A case that is long takes turns: after so many
// steps it runs in another part of the remaining configurations each day (ops_is_sampled).
#include "../common/kept.h"
#include "base/map.h"
#include "interp_run.h"
#include "ir/kernel/device.h"
#include "ops_hash.h"
#include "ops_plan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t place_budget = 20000;

// A kind of GPU. gpu: as target_set_..._gpu knows it.
typedef struct GpuConfig {
    const char *name, *target, *gpu;
    bool has_mma, has_wgmma, has_coop;
} GpuConfig;

static const GpuConfig gpus[] = {
    {"sm_90a", "cuda", NULL, true, true, false},
    {"sm_80", "cuda", NULL, true, false, false},
    {"sm_70", "cuda", NULL, false, false, false},
    {"vulkan", "vulkan", NULL, false, false, false},
    {"coopmat", "vulkan", "coopmat", false, false, true},
    {"no coopmat", "vulkan", "coopmat", false, false, false},
    {"metal", "metal", NULL, false, false, false},
    {"apple7", "metal", "apple7", false, false, false},
};
enum { N_GPUS = sizeof gpus / sizeof *gpus, SLOWEST = 8, MOST_STEPS = 100000000, TURNS = 4 };

typedef struct Job {
    Arena perm, scratch; // end with the job
    const OpsCase *c;
    const char *config;
    const Target *target;
    const char *lacks; // why the target cannot run it, or NULL
    Plan *plan;        // NULL: a pass failed
    uint64_t key[2];   // in kept
    OpsTolerance tolerance;
    InterpRun run;
    bool has_wgmma, has_coop, has_strips;
    uint64_t steps;       // of its runs
    uint64_t planted, found; // faults
    uint32_t number;      // for turns
    uint64_t begin_steps; // before the case
    uint32_t threads;
    const Kernel *watched; // as in InterpRun
    bool *reached;
} Job;

typedef struct Slow {
    double seconds;
    const char *what;
} Slow;

static Arena perm;
static OpsCases cases;
static Map seen;  // {case, hash of its kernels}
static Kept kept; // of earlier runs of this program: {hash of the case, hash of the job}, and its steps
static uint32_t n_failed, n_jobs, n_run, n_custom, n_lacking, n_kept, n_later;
static uint64_t n_steps, n_run_steps; // n_steps: with those of what passed before
static double run_seconds, plan_seconds;
static Slow slowest[SLOWEST];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void note_time(const Job *j, double seconds)
{
    Slow s = {seconds, NULL};
    for (uint32_t i = 0; i < SLOWEST; i++)
        if (s.seconds > slowest[i].seconds) {
            const Slow other = slowest[i];
            s.what = s.what != NULL ? s.what : arena_printf(&perm, "%s [%s]", j->c->name, j->config);
            slowest[i] = s;
            s = other;
        }
}

static void fail_job(const Job *j, const char *what)
{
    n_failed++;
    printf("# %s [%s]: %s\n", j->c->name, j->config, what);
}

// --- plans ---------------------------------------------------------------------------------------

static void find_lack(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Job *j = ctx;
    (void)p, (void)times;
    if (k->loop == NULL && j->lacks == NULL)
        j->lacks = target_lacks(target_find(p->caps->name), k->kernel);
}

static void plan_gpu(Job *j, const GpuConfig *g, Graph *graph)
{
    CpuInfo cpu;
    TargetCaps *caps = ARENA_NEW(&j->perm, TargetCaps);
    PassOptions *o = ARENA_NEW(&j->perm, PassOptions);
    const bool is_known = cpu_find("generic", &cpu);
    rlx_assert(is_known);
    j->target = target_find(g->target);
    *caps = target_caps(j->target, &cpu);
    caps->has_mma = caps->has_mma && g->has_mma;
    if (g->gpu != NULL) {
        const bool is_set = j->target->set_gpu(g->gpu, caps);
        rlx_assert(is_set);
    }
    *o = (PassOptions){.opt_level = 1, .caps = caps, .place_budget = place_budget};
    o->accuracy = g->has_mma ? ops_unit_accuracy(j->c) : 0;
    j->plan = ops_plan_with(&j->scratch, graph, o);
    j->has_wgmma = g->has_wgmma;
    j->has_coop = g->has_coop;
    j->tolerance = (OpsTolerance){.f32 = o->accuracy > 0 ? ops_unit_tolerance(j->c) : 1e-5};
    if (j->plan != NULL)
        plan_walk(j->plan, find_lack, j);
}

// --- runs ----------------------------------------------------------------------------------------

// In one arena, where a buffer lies decides what overwrites it.
static OpsPlaces places_of(const Plan *p)
{
    return p->caps->prefers_ints ? OPS_PLANNED : OPS_APART;
}

static void list_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Str text = str_new(ctx);
    (void)p, (void)times;
    kernel_print(k->kernel, &text);
    printf("%s", str_text(&text));
}

// Does a kernel ask what the GPU has?
static void find_question(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    for (KRef r = 1; r < k->kernel->insts.len; r++) {
        const KInst *n = k_inst(k->kernel, r);
        const bool asks_gpu =
            n->kind == KI_call && (kdev_of(n) == KDEV_has_wgmma || kdev_of(n) == KDEV_has_coop);
        *(bool *)ctx = *(bool *)ctx || asks_gpu;
    }
}

static bool is_new(Job *j)
{
    bool has_question = false;
    const OpsPlaces places = places_of(j->plan);
    uint64_t hash = ops_hash_facts(j->plan, places, 0);
    hash = ops_hash_kernels(&j->scratch, j->plan, places, hash);
    hash = ops_hash_constants(&j->scratch, j->plan, hash);
    if (getenv("TEST_OPS") != NULL && getenv("TEST_CONFIG") != NULL)
        plan_walk(j->plan, list_kernel, &j->scratch);
    plan_walk(j->plan, find_question, &has_question);
    const uint64_t key[] = {(uint64_t)(j->c - cases.data), hash, j->threads,
                            has_question ? 1 + j->has_wgmma + 2 * (uint64_t)j->has_coop : 0};
    uint64_t unused = 0;
    if (map_get(&seen, key, sizeof key, &unused))
        return false;
    map_put(&perm, &seen, key, sizeof key, 1);
    j->key[0] = hash_bytes64(j->c->source, strlen(j->c->source), 0);
    j->key[1] =
        hash_bytes64(j->config, strlen(j->config), hash_bytes64(key + 1, sizeof key - sizeof *key, 0));
    return true;
}

// Another run is for what lives across runs.
static uint32_t count_runs(const Plan *p)
{
    return p->states.len != 0 || p->prepare.n_kernels != 0 ? OPS_RUNS : 1;
}

static const char *run_job(Job *j, const Reference *ref)
{
    j->run = interp_make(&j->perm, j->plan);
    j->run.has_wgmma = j->has_wgmma;
    j->run.has_coop = j->has_coop;
    j->run.parts = j->threads;
    j->run.watched = j->watched;
    j->run.reached = j->reached;
    const char *wrong = NULL;
    for (uint32_t run = 0; run < count_runs(j->plan) && wrong == NULL; run++) {
        ops_set_inputs(j->plan, &j->run.memory, ref, run);
        wrong = interp_run(&j->scratch, &j->run, run == 0);
        if (wrong == NULL)
            wrong = ops_check_results(&j->scratch, j->plan, &j->run.memory, ref, run, j->tolerance);
    }
    j->steps += j->run.steps;
    n_run_steps += j->run.steps;
    return wrong;
}

// --- planted faults ------------------------------------------------------------------------------

typedef struct Faults {
    Job *job;
    const Reference *ref;
    uint32_t planted, found;
} Faults;

static Faults all_faults;

static bool is_planting(void)
{
    return getenv("TEST_FAULTS") != NULL;
}

// Runs as small as these do not need all: loops go around once, so that nothing waits for the end of a turn,
// and slots of a queue are free.
enum { FOUND_PERCENT = 75 };

static bool orders(const KInst *n)
{
    static const KDevice calls[] = {KDEV_cluster_sync, KDEV_named_sync,     KDEV_warp_sync,
                                    KDEV_bar_wait,     KDEV_bulk_wait_read, KDEV_proxy_fence,
                                    KDEV_wgmma_wait,   KDEV_cp_async_wait};
    for (uint32_t i = 0; n->kind == KI_device && i < sizeof calls / sizeof *calls; i++)
        if (kdev_of(n) == calls[i])
            return true;
    return n->kind == KI_barrier;
}

static bool misses(const Faults *f, Kernel *k, KRef r)
{
    const KInst was = *k_inst(k, r);
    k->insts.data[r] = (KInst){.kind = KI_comment, .lanes = 1, .text = "left out"};
    const bool is_found = run_job(f->job, f->ref) != NULL;
    k->insts.data[r] = was;
    if (!is_found)
        printf("# %s [%s]: nobody misses %s at instruction %u of %s\n", f->job->c->name, f->job->config,
               was.kind == KI_barrier ? "the barrier" : device_info[kdev_of(&was)].name, r, k->name);
    return is_found;
}

// Only what is reached can be missed.
static void plant(const Plan *p, PlanKernel *of, uint64_t times, void *ctx)
{
    Faults *f = ctx;
    Kernel *k = of->kernel;
    (void)p, (void)times;
    if (of->loop != NULL || k->group == 0)
        return;
    f->job->watched = k;
    f->job->reached = ARENA_ARRAY(&f->job->perm, bool, k->insts.len);
    run_job(f->job, f->ref);
    f->job->watched = NULL;
    for (KRef r = 1; r < k->insts.len; r++)
        if (f->job->reached[r] && orders(k_inst(k, r))) {
            f->planted++;
            f->found += misses(f, k, r);
        }
}

// --- jobs ----------------------------------------------------------------------------------------

static void find_custom(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p, (void)times;
    *(bool *)ctx = *(bool *)ctx || k->kernel->custom != NULL;
}

// The kernels are those of no job before. Text of custom ops is for C compilers alone.
static const char *check_new(Job *j, Reference *ref)
{
    bool has_custom = false;
    plan_walk(j->plan, find_custom, &has_custom);
    n_custom += has_custom;
    n_lacking += j->lacks != NULL;
    const char *wrong = ops_check_plan(&j->scratch, j->plan, j->target);
    if (wrong != NULL || has_custom || j->lacks != NULL)
        return wrong;
    ops_complete(ref, count_runs(j->plan));
    const double begin = now();
    n_run++;
    wrong = run_job(j, ref);
    run_seconds += now() - begin;
    note_time(j, now() - begin);
    if (wrong == NULL && is_planting()) {
        Faults f = {j, ref, 0, 0};
        plan_walk(j->plan, plant, &f);
        j->planted = f.planted;
        j->found = f.found;
    }
    return wrong;
}

// What is kept of a job: its steps, and the faults in it.
enum { FAULT_BITS = 12 };

static void keep(const Job *j)
{
    if (j->steps >> (64 - 2 * FAULT_BITS) == 0 && j->planted >> FAULT_BITS == 0)
        kept_put(&kept, j->key, j->steps << (2 * FAULT_BITS) | j->planted << FAULT_BITS | j->found);
}

static bool is_known(Job *j)
{
    uint64_t value = 0;
    const bool is = kept_get(&kept, j->key, &value);
    const uint64_t mask = (1 << FAULT_BITS) - 1;
    j->steps = value >> (2 * FAULT_BITS);
    j->planted = value >> FAULT_BITS & mask;
    j->found = value & mask;
    return is;
}

static bool has_turn(const Job *j)
{
    return n_steps - j->begin_steps < MOST_STEPS || ops_is_sampled(j->number, TURNS, 0);
}

// j is planned by now.
static bool finish_job(Job *j, Reference *ref)
{
    const char *wrong = j->plan != NULL ? plan_verify(j->plan) : "a pass failed";
    n_jobs++;
    if (wrong == NULL && j->has_strips && !ops_has_stages(j->plan))
        wrong = "no kernel has stages";
    if (wrong == NULL && is_new(j)) {
        const bool is_later = !has_turn(j), is_kept = !is_later && is_known(j);
        n_kept += is_kept;
        n_later += is_later;
        wrong = is_kept || is_later ? NULL : check_new(j, ref);
        if (wrong == NULL && !is_kept && !is_later)
            keep(j);
        n_steps += j->steps; // where it is kept, too: others have their turns as if it had run
        all_faults.planted += (uint32_t)j->planted;
        all_faults.found += (uint32_t)j->found;
    }
    if (wrong != NULL)
        fail_job(j, wrong);
    arena_free(&j->perm);
    arena_free(&j->scratch);
    return wrong == NULL;
}

static bool is_wanted(const char *config)
{
    const char *only = getenv("TEST_CONFIG");
    return only == NULL || strcmp(only, config) == 0;
}

static bool run_case(uint32_t i)
{
    Arena a = {0};
    const OpsCase *c = &cases.data[i];
    Reference ref = ops_begin(&a, c);
    const uint64_t begin_steps = n_steps;
    bool is_right = true;
    for (uint32_t k = 0; k < ops_n_configs + N_GPUS; k++) {
        const OpsConfig *config = k < ops_n_configs ? &ops_configs[k] : NULL;
        const GpuConfig *gpu = config == NULL ? &gpus[k - ops_n_configs] : NULL;
        Job j = {.c = c, .config = config != NULL ? config->name : gpu->name, .number = i + k,
                 .begin_steps = begin_steps, .threads = 1};
        CpuInfo cpu;
        if (!is_wanted(j.config) || (config != NULL && is_planting()) ||
            (config != NULL && (!ops_config_takes(config, i, c->name) || !cpu_find(config->cpu, &cpu))))
            continue;
        ops_running = arena_printf(&a, "%s [%s]", c->name, j.config);
        const double begin = now();
        if (config != NULL) {
            j.plan = ops_plan(&j.scratch, ref.g, config);
            j.target = target_find("c");
            j.has_strips = config->strips == 2;
            j.threads = config->threads != 0 ? config->threads : 1;
            j.tolerance = ops_config_tolerance(config);
        } else {
            plan_gpu(&j, gpu, ref.g);
        }
        plan_seconds += now() - begin;
        is_right = finish_job(&j, &ref) && is_right;
    }
    arena_free(&a);
    return is_right;
}

static bool end_faults(uint32_t number)
{
    const Faults *f = &all_faults;
    const bool finds = f->planted != 0 && f->found * 100 >= f->planted * FOUND_PERCENT;
    printf("# %u barriers, waits and fences left out, %u of them found\n%s %u - planted faults\n", f->planted,
           f->found, finds ? "ok" : "not ok", number);
    return finds;
}

int main(int argc, char **argv)
{
    const char *shard = getenv("TEST_SHARD");
    unsigned first = 0, every = 1, number = 0;
    if (shard != NULL && (sscanf(shard, "%u/%u", &first, &every) != 2 || first >= every))
        return 2;
    for (int i = 1; i < argc; i++)
        ops_read_cases(&perm, argv[i], getenv("TEST_OPS"), &cases);
    ops_name_crashes();
    kept_open(&kept, arena_printf(&perm, "interp%s_%u_%u", is_planting() ? "_faults" : "", first, every),
              "UNCHANGED_CORE");
    const uint32_t n = cases.len > first ? (cases.len - first - 1) / every + 1 : 0;
    printf("1..%u\n", n + is_planting());
    for (uint32_t i = first; i < cases.len; i += every) {
        const bool is_right = run_case(i);
        printf("%s %u - %s\n", is_right ? "ok" : "not ok", ++number, cases.data[i].name);
        fflush(stdout);
    }
    for (uint32_t i = 0; i < SLOWEST && slowest[i].what != NULL; i++)
        printf("# %.2f s: %s\n", slowest[i].seconds, slowest[i].what);
    printf("# %u programs planned in %.1f s, %u of them passed before\n", n_jobs, plan_seconds, n_kept);
    printf("# %u of them run in %.1f s: %llu steps, %.2f ns each\n", n_run, run_seconds,
           (unsigned long long)n_run_steps,
           n_run_steps != 0 ? run_seconds * 1e9 / (double)n_run_steps : 0);
    if (n_later != 0) {
        ops_say_sample(TURNS);
        printf("# %u of long cases have their turn another day\n", n_later);
    }
    const bool finds = !is_planting() || end_faults(number + 1);
    printf("# %u cases, %u programs with text that only a compiler can run, %u that targets cannot run, "
           "%u failures\n",
           number, n_custom, n_lacking, n_failed);
    kept_say(n_kept);
    return n_failed == 0 && finds && number > 0 ? 0 : 1;
}
