// SPDX-License-Identifier: Apache-2.0
// Every op through the whole compiler: graphs in IR text (tests/e2e/ops/*.rlx) are lowered for several
// targets, printed as C, compiled, run, and compared with the reference evaluator. Each case runs twice: with
// the planned offsets, in memory that is full of NaN before, and with every buffer ending at a page that may
// not be touched. With threads, parts run in several orders (ops_team.h) and must give the same bits.
//
// The C compiler gets all cases of one configuration, and of each other one a part that changes from day to
// day (ops_is_sampled). test_interp plans, checks and interprets all cases in all configurations.
//
//   test_ops FILE.rlx...             all cases of the files
//   TEST_ALL=1 test_ops FILE...      the C compiler gets all of them in all configurations
//   TEST_OPS=name test_ops FILE...   only cases whose name contains the text; prints their kernels
//   TEST_CONFIG=name test_ops ...    only this row of `configs`
//   TEST_VALIDATE=1 test_ops ...     nothing runs: the rules of docs/VALIDATION.md are proven about the text
//   TEST_EMIT=1 test_ops ...         nothing runs: prints a hash of each text, for tools/compare-emission
//
// In the files, `const : f32[2, 3] = random` stands for random values. Inputs are random: floats in [-2, 2]
// (with some NaN, infinities and zeros where the name contains "special"), integers in [-9, 9].
#include "../common/kept.h"
#include "base/map.h"
#include "codegen/host/host.h"
#include "codegen/target/target.h"
#include "compiler/validate/validate.h"
#include "ops_hash.h"
#include "ops_plan.h"
#include "ops_print.h"
#include "ops_team.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXTS_PER_UNIT = 100, MAX_UNITS = 512, COMPILERS = 2, ONE_OF = 36, IN_UNIT = 1 << 16 };
#define WARNINGS "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror "

typedef struct Job {
    const OpsCase *c;
    const OpsConfig *config;
    Plan *plan;
    uint32_t id;     // of its text, which other jobs may have as well: number of the unit, and in it
    uint64_t key[2]; // in kept
    bool is_kept;    // it passed before: neither compiled nor run
} Job;

typedef struct Unit {
    const char *path, *flags;
    void *lib;
} Unit;

static Arena perm, scratch;
static OpsCases cases;
static Graph **graphs; // of the cases, or NULL: not read yet
static VEC(Job) jobs;
static Map texts; // {hash, length} of the text to its id
static Kept kept; // of earlier runs: {hash of the case, hash of the job}; of TEST_VALIDATE, hashes of a unit,
                  // and its loops
static Unit units[MAX_UNITS];
static uint32_t n_units, n_failed, n_loops, n_kept;

static const char *filter(void)
{
    return getenv("TEST_OPS");
}

static void fail_job(const Job *j, const char *what)
{
    n_failed++;
    printf("# %s [%s]: %s\n", j->c->name, j->config->name, what);
}

// --- compiling ---

static bool is_emitting(void)
{
    return getenv("TEST_EMIT") != NULL;
}

static bool config_runs_here(const OpsConfig *c)
{
    CpuInfo cpu;
    const char *only = getenv("TEST_CONFIG");
    const bool is_known = cpu_find(c->cpu, &cpu);
    if (is_emitting())
        return is_known;
    // write_unit has plain C in place of matrix registers and of microcontrollers.
    return is_known && (only == NULL || strcmp(only, c->name) == 0) &&
           ((cpu.features & (CPU_MATRIX | CPU_INTEGERS)) != 0 || cpu_runs_here(&cpu));
}

static void print_job(const Job *j, Str *out)
{
    Str call = str_new(out->arena);
    str_add(&call, "void run@(char **b, rlx_team *team);\nvoid run@(char **b, rlx_team *team)\n{\n"
                   "    (void)b;\n    (void)team;\n");
    for (uint32_t i = 0; i < j->plan->kernels.len; i++) {
        PlanKernel *k = &j->plan->kernels.data[i];
        const char *lacks = ops_print_functions(k, out);
        if (lacks != NULL) {
            fail_job(j, lacks);
            continue;
        }
        if (k->threads.waits ||
            (i > 0 && i == j->plan->prepare.n_kernels)) // the preparation is a run of its own
            str_add(&call, "    rlx_barrier(team);\n");
        if (j->plan->is_shared && !k->threads.is_shared)
            str_printf(&call, "    if (team->part == %d %% team->parts)\n    ", k->threads.thread);
        ops_print_calls(k, &call);
    }
    str_add(&call, "}\n");
    str_add(out, str_text(&call));
}

static bool is_validating(void)
{
    return getenv("TEST_VALIDATE") != NULL;
}

static void validate_unit(Arena *a, const char *prelude, const char *body, const CpuInfo *cpu)
{
    static const char team[] = "typedef struct rlx_team {\n    ptrdiff_t part, parts;\n} rlx_team;\n"
                               "static inline __attribute__((unused)) void rlx_barrier(rlx_team *team)\n"
                               "{\n    (void)team;\n}\n";
    const char *text = arena_printf(a, "%s%s%s", prelude, team, body);
    const ValidateFile file = {"unit.c", text, strlen(text)};
    const ValidateInput in = {.files = &file,
                              .n = 1,
                              .cc_flags = cpu->cc_flags,
                              .triple = "x86_64-linux-gnu",
                              .is_quick = true}; // C alone: calls here convert void * as C++ does not
    const uint64_t key[] = {hash_bytes64(text, file.len, 0),
                            hash_bytes64(in.cc_flags, strlen(in.cc_flags), file.len)};
    ValidateReport report;
    uint64_t loops = 0;
    if (kept_get(&kept, key, &loops)) {
        n_kept++;
        n_loops += (uint32_t)loops;
        return;
    }
    const bool ok = validate_run(a, &in, &report);
    rlx_assert(ok);
    loops = report.n_loops[LOOP_CONSTANT] + report.n_loops[LOOP_VALUE];
    if (report.findings.len == 0)
        kept_put(&kept, key, loops);
    for (uint32_t i = 0; i < report.findings.len; i++) {
        const ValidateFinding *f = &report.findings.data[i];
        printf("# %s, unit %u, line %u, %s: %s\n", validate_rule_name(f->rule), n_units, f->line, f->function,
               f->text);
    }
    n_failed += report.findings.len;
    n_loops += (uint32_t)loops;
}

// body: of so many jobs of one config; is empty afterwards.
static void write_unit(Unit *u, const char *dir, const OpsConfig *config, Str *body)
{
    Arena a = {0};
    Str all = str_new(&a);
    CpuInfo cpu;
    target_print_prelude(target_find("c"), str_text(body), &all);
    if (filter() != NULL)
        printf("# --- %s ---\n%s", config->name, str_text(body));
    cpu_find(config->cpu, &cpu);
    if ((cpu.features & CPU_MATRIX) != 0 && !cpu_runs_here(&cpu))
        cpu_find("native", &cpu); // matrix registers are an array then
    if ((cpu.features & CPU_INTEGERS) != 0)
        cpu_find("generic", &cpu); // plain C as well
    if (strcmp(config->name, "matrix array") == 0)
        cpu_find("x86-64-v3", &cpu); // and here in any case, and vectors in parts
    if (is_validating()) {
        validate_unit(&a, str_text(&all), str_text(body), &cpu);
    } else {
        u->flags = cpu.cc_flags;
        u->path = arena_printf(&perm, "%s/unit%u", dir, (unsigned)(u - units));
        FILE *f = fopen(arena_printf(&perm, "%s.c", u->path), "w");
        rlx_assert(f != NULL);
        fputs(str_text(&all), f);
        fputs(TEAM_TEXT, f);
        fputs(str_text(body), f);
        fclose(f);
    }
    arena_free(&a);
    *body = str_new(body->arena);
}

// The configuration of which all cases are compiled has this machine's vectors, and parts. More of the cases
// is taken where a configuration is for a few of them.
static bool is_compiled(const OpsConfig *c, uint32_t number)
{
    return is_emitting() || c == ops_configs ||
           ops_is_sampled(number, c->only != NULL ? ONE_OF / 2 : ONE_OF, (uint32_t)(c - ops_configs));
}

static void plan_job(uint32_t number, const OpsConfig *config)
{
    const OpsCase *c = &cases.data[number];
    if (graphs[number] == NULL)
        graphs[number] = ops_parse(&perm, c);
    const Job j = {.c = c, .config = config, .plan = ops_plan(&scratch, graphs[number], config)};
    if (j.plan != NULL)
        vec_push(&perm, &jobs, j);
    else
        fail_job(&j, "a pass failed");
}

// What the outcome depends on: the case, the text and what the config makes of it, and the memory.
static void set_key(Job *j, const uint64_t text[2])
{
    const char *source = j->c->source, *config = j->config->name;
    uint64_t hash = ops_hash_numbers(hash_bytes64(config, strlen(config), 0), text, 2);
    hash = ops_hash_constants(&scratch, j->plan, ops_hash_facts(j->plan, OPS_PLANNED, hash));
    j->key[0] = hash_bytes64(source, strlen(source), 0);
    j->key[1] = hash;
}

// Adds the text of a job to the body of a unit, unless some job before has the same: half of them have, and C
// compilers take most of this test's time. number: of the text in the unit. Names count the texts of a unit,
// so that the compiler is given what it was given before where nothing in a unit has changed (kept_cc.c).
static bool add_text(Job *j, uint32_t number, Str *body)
{
    Str text = str_new(&scratch);
    print_job(j, &text);
    uint64_t id = (uint64_t)n_units * IN_UNIT + number;
    const uint64_t key[] = {hash_bytes64(str_text(&text), text.len, 0), text.len};
    if (is_emitting())
        printf("%016llx %s: %s\n", (unsigned long long)key[0], j->config->name, j->c->name);
    set_key(j, key);
    j->is_kept = kept_has(&kept, j->key);
    n_kept += j->is_kept;
    const bool is_new = !j->is_kept && !map_get(&texts, key, sizeof key, &id);
    j->id = (uint32_t)id;
    if (is_new) {
        map_put(&perm, &texts, key, sizeof key, id);
        ops_print_with_id(str_text(&text), j->id % IN_UNIT, body);
    }
    arena_reset(&scratch);
    return is_new;
}

static void write_config(const OpsConfig *config, uint32_t first_job, const char *dir)
{
    Arena a = {0};
    Str body = str_new(&a);
    uint32_t n_texts = 0;
    for (uint32_t i = first_job; i < jobs.len; i++) {
        n_texts += add_text(&jobs.data[i], n_texts, &body) && !is_emitting();
        if (n_texts != 0 && (n_texts == TEXTS_PER_UNIT || i + 1 == jobs.len)) {
            rlx_assert(n_units < MAX_UNITS);
            write_unit(&units[n_units++], dir, config, &body);
            n_texts = 0;
        }
    }
    arena_free(&a);
}

static void plan_jobs(const char *dir)
{
    for (uint32_t c = 0; c < ops_n_configs; c++) {
        const uint32_t first = jobs.len;
        if (!config_runs_here(&ops_configs[c]))
            continue;
        for (uint32_t i = 0; i < cases.len; i++) {
            ops_running = cases.data[i].name;
            if (ops_config_takes(&ops_configs[c], i, ops_running) && is_compiled(&ops_configs[c], i))
                plan_job(i, &ops_configs[c]);
        }
        write_config(&ops_configs[c], first, dir);
    }
}

static pid_t start_compiler(const Unit *u)
{
    const char *cc = getenv("CC");
    const pid_t pid = fork();
    if (pid == 0) {
        char command[512];
        snprintf(command, sizeof command, "%s -Og " WARNINGS "%s -shared -fPIC -o %s.so %s.c -lm",
                 cc != NULL ? cc : "cc", u->flags, u->path, u->path);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void compile_units(void)
{
    uint32_t started = 0, ended = 0;
    ops_running = "the C compiler";
    for (; ended < n_units; ended++) {
        while (started < n_units && started - ended < COMPILERS)
            start_compiler(&units[started++]);
        int status = 0;
        wait(&status);
        if (status != 0) {
            fprintf(stderr, "the C compiler failed\n");
            exit(1);
        }
    }
    for (uint32_t i = 0; i < n_units; i++) {
        units[i].lib = dlopen(arena_printf(&perm, "%s.so", units[i].path), RTLD_NOW | RTLD_LOCAL);
        rlx_assert(units[i].lib != NULL);
    }
}

static TeamFn find_run(uint32_t id)
{
    char name[32];
    TeamFn fn;
    snprintf(name, sizeof name, "run%u", id % IN_UNIT);
    void *found = dlsym(units[id / IN_UNIT].lib, name);
    memcpy(&fn, &found, sizeof fn);
    return fn;
}

// --- running ---

// Who runs a job: so many parts, in which order, in which memory.
typedef struct How {
    ptrdiff_t parts;
    TeamOrder order;
    Placing placing;
} How;

static uint64_t hash_ios(const Memory *m, const PlanIo *io, uint32_t n, uint64_t hash)
{
    for (uint32_t i = 0; i < n; i++)
        hash = hash_bytes64(m->buffer[io[i].buf] + io[i].byte_offset, io[i].bytes, hash);
    return hash;
}

// hash: of all results' bytes.
static bool run_job(const Job *j, TeamFn fn, const Reference *ref, How how, uint64_t *hash)
{
    Memory m = ops_make_memory(&scratch, j->plan, how.placing);
    const OpsTolerance o = ops_config_tolerance(j->config);
    const char *wrong = NULL;
    for (uint32_t run = 0; run < OPS_RUNS && wrong == NULL; run++) {
        ops_set_inputs(j->plan, &m, ref, run);
        wrong = team_run(fn, m.buffer, how.parts, how.order)
                    ? ops_check_results(&scratch, j->plan, &m, ref, run, o)
                    : "parts wait for each other for ever";
        *hash = hash_ios(&m, j->plan->outputs.data, j->plan->outputs.len, *hash);
        *hash = hash_ios(&m, j->plan->states.data, j->plan->states.len, *hash);
    }
    if (wrong != NULL)
        fail_job(j, arena_printf(&scratch, "%s (%s, %d parts)", wrong,
                                 how.placing == PLACE_GUARDED ? "guarded" : "planned", (int)how.parts));
    ops_free_memory(&m);
    return wrong == NULL;
}

static bool run_all_ways(const Job *j, TeamFn fn, const Reference *ref)
{
    const ptrdiff_t n = j->plan->is_shared ? j->config->threads : 1;
    const How how[] = {{1, TEAM_FIRST_TO_LAST, PLACE_PLANNED},
                       {1, TEAM_FIRST_TO_LAST, PLACE_GUARDED},
                       {n, TEAM_LAST_TO_FIRST, PLACE_PLANNED},
                       {n, TEAM_FIRST_TO_LAST, PLACE_GUARDED},
                       {n / 2 + 1, TEAM_LAST_TO_FIRST, PLACE_GUARDED}};
    uint64_t alone = 0;
    for (uint32_t i = 0; i < (n == 1 ? 2 : sizeof how / sizeof *how); i++) {
        uint64_t hash = 1;
        if (!run_job(j, fn, ref, how[i], &hash))
            return false;
        alone = i == 0 ? hash : alone;
        if (i > 1 && hash != alone) {
            fail_job(j, arena_printf(&scratch, "%d parts give other bits than one", (int)how[i].parts));
            return false;
        }
    }
    return true;
}

static bool run_one(const Job *j, const Reference *ref)
{
    ops_running = arena_printf(&scratch, "%s [%s]", j->c->name, j->config->name);
    fflush(stdout);
    const TeamFn fn = find_run(j->id);
    rlx_assert(fn != NULL);
    const bool is_right = run_all_ways(j, fn, ref);
    if (is_right)
        kept_put(&kept, j->key, 1);
    return is_right;
}

static void run_jobs(void)
{
    for (uint32_t c = 0; c < cases.len; c++) {
        Arena a = {0};
        Reference ref = ops_begin(&a, &cases.data[c]);
        bool is_right = true;
        for (uint32_t i = 0; i < jobs.len; i++) {
            const Job *j = &jobs.data[i];
            if (j->c != &cases.data[c] || j->is_kept)
                continue;
            ops_complete(&ref, OPS_RUNS);
            is_right = run_one(j, &ref) && is_right;
        }
        printf("%s %u - %s\n", is_right ? "ok" : "not ok", c + 1, cases.data[c].name);
        arena_free(&a);
        arena_reset(&scratch);
    }
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/rlxc_ops_XXXXXX", command[64];
    if (is_validating() && !validate_is_here(&perm)) {
        printf("1..0 # SKIP no libclang is installed\n");
        return 0;
    }
    for (int i = 1; i < argc; i++)
        ops_read_cases(&perm, argv[i], filter(), &cases);
    rlx_assert(mkdtemp(dir) != NULL);
    ops_name_crashes();
    if (!is_emitting()) {
        printf("1..%u\n", is_validating() ? 1 : cases.len);
        ops_say_sample(ONE_OF);
        // The rules are in compiler/.
        kept_open(&kept, is_validating() ? "ops_validate" : "ops",
                  is_validating() ? "UNCHANGED_BUT_PASSES" : "UNCHANGED_CORE");
    }
    graphs = ARENA_ARRAY(&perm, Graph *, cases.len + 1);
    plan_jobs(dir);
    if (is_validating()) {
        printf("%s 1 - %u loops in %u units\n", n_failed == 0 ? "ok" : "not ok", n_loops, n_units);
    } else if (!is_emitting()) {
        compile_units();
        run_jobs();
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        fprintf(stderr, "%s stays behind\n", dir);
    printf("# %u cases, %u programs, of which %u %spassed before, %u failures\n", cases.len, jobs.len, n_kept,
           is_validating() ? "units " : "", n_failed);
    if (!is_emitting())
        kept_say(n_kept);
    return n_failed == 0 && cases.len > 0 ? 0 : 1;
}
