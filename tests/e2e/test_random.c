// SPDX-License-Identifier: Apache-2.0
// Differential test: random graphs, each compiled at -O0 and -O3 for random CPUs, run and compared with the
// reference evaluator on the graph before any pass. Batches run in processes of their own, so that a crash or
// a hang of the compiler or of the generated code is a finding like others. A failing graph is made smaller
// and printed with its inputs.
//
//   test_random [COUNT [SEED [PROCESSES]]]    graphs SEED .. SEED + COUNT - 1; without a seed, or with 0,
//   others
//                                             each day, and the same again after seven days (rotation.h)
//   TEST_RANDOM_KEEP=1                        shows failing graphs as they are
//
// Prints TAP: a line for each batch, and one for what was covered.
#include "../common/rotation.h"
#include "codegen/target/target.h"
#include "ir/text/text.h"
#include "random_check.h"
#include "random_minimise.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BATCH = 50,
    MAX_FAILURES = 64,
    MAX_PROCESSES = 16,
    MAX_SHOWN = 8,
    TIME_LIMIT = 240,
    N_CONFIGS = 2,
    DAYS = 7,
    N_LEVELS = 2,
    ONE_OPTIMISED_OF = 4 // graphs: others at a level that takes half of the compiler's time
};

static const char *const levels[N_LEVELS] = {"-Og", "-O1"};

typedef struct Failure {
    uint64_t seed;
    uint32_t config;
    char message[300];
} Failure;

// What a batch process tells: in shared memory, so that it survives a crash.
typedef struct Report {
    uint64_t at_seed; // what is worked on
    uint32_t at_config;
    char doing[16];
    uint64_t n_ops[OP_COUNT];
    uint64_t n_programs, n_allowed; // allowed: where rounding had to be excused
    Failure failure[MAX_FAILURES];
    uint32_t n_failures;
} Report;

typedef struct Batch {
    uint64_t first;
    uint32_t n;
    pid_t pid;
    Report *report;
} Batch;

static const char *cpus[] = {"generic", "x86-64-v3", "x86-64-v4"};
static uint32_t n_cpus;

static void find_cpus(void)
{
    CpuInfo cpu, native;
    const bool is_known = cpu_find("native", &native);
    rlx_assert(is_known);
    for (n_cpus = 0; n_cpus < sizeof cpus / sizeof *cpus; n_cpus++)
        if (!cpu_find(cpus[n_cpus], &cpu) || cpu.f32_lanes > native.f32_lanes)
            break;
}

static const uint8_t threads[] = {1, 1, 2, 3, 4, 7};
static const uint8_t winograd[] = {0, 2, 3, 4, 12, 13, 14};

static Config config_of(uint64_t seed, uint32_t i, bool is_special)
{
    uint64_t rng = seed * N_CONFIGS + i;
    const uint64_t v = rng_u64(&rng);
    return (Config){.opt_level = i == 0 ? 0 : 3,
                    .cpu = cpus[(v >> 8) % n_cpus],
                    .threads = threads[(v >> 16) % (sizeof threads)],
                    .accuracy = is_special ? 0 : SAMPLE_ACCURACY, // NaN would reach all of a tile
                    .winograd = winograd[(v >> 24) % (sizeof winograd)],
                    .allow_fast = i > 0 && !is_special && v % 8 == 0};
}

// --- in the batch's process ----------------------------------------------------------------------

static void begin(Report *r, const char *doing, uint64_t seed, uint32_t config)
{
    r->at_seed = seed;
    r->at_config = config;
    snprintf(r->doing, sizeof r->doing, "%s", doing);
    alarm(TIME_LIMIT);
}

static void add_failure(Report *r, uint64_t seed, uint32_t config, const char *message)
{
    if (r->n_failures == MAX_FAILURES)
        return;
    Failure *f = &r->failure[r->n_failures++];
    *f = (Failure){.seed = seed, .config = config};
    snprintf(f->message, sizeof f->message, "%s", message);
}

static bool has_failed(const Report *r, uint64_t seed)
{
    for (uint32_t i = 0; i < r->n_failures; i++)
        if (r->failure[i].seed == seed)
            return true;
    return false;
}

// One unit for each CPU and level.
static Unit *unit_of(Unit *units, const char *cpu, uint64_t seed)
{
    const uint32_t level = seed % ONE_OPTIMISED_OF == 0;
    for (uint32_t i = 0; i < n_cpus; i++)
        if (strcmp(cpus[i], cpu) == 0)
            return &units[N_LEVELS * i + level];
    return NULL;
}

static void count_ops(Report *r, const Graph *g)
{
    for (NodeId id = 1; id < g->nodes.len; id++)
        r->n_ops[graph_node(g, id)->op]++;
}

static void check_unit(Report *r, Unit *u)
{
    Reference ref = {0};
    for (uint32_t i = 0; i < u->programs.len; i++) {
        const Program *p = &u->programs.data[i];
        const uint32_t config = p->config.opt_level > 0;
        begin(r, "evaluating", p->sample->seed, config);
        if (ref.sample != p->sample)
            ref = reference_make(u->arena, p->sample);
        begin(r, "running", p->sample->seed, config);
        const Outcome o = program_check(u, p, &ref);
        r->n_programs++;
        r->n_allowed += o.needed_allowance;
        if (o.message != NULL)
            add_failure(r, p->sample->seed, config, o.message);
    }
}

// Which program of a unit does not compile.
static void check_alone(Report *r, const Program *p)
{
    Unit u = {.arena = p->sample->arena, .cpu = p->config.cpu, .level = levels[0]};
    begin(r, "cc", p->sample->seed, p->config.opt_level > 0);
    if (unit_add(&u, p->sample, p->config) == NULL && !unit_build(&u))
        add_failure(r, p->sample->seed, p->config.opt_level > 0, "the C compiler failed");
    unit_close(&u);
}

static void run_samples(Report *r, Sample *const *samples, uint32_t n, uint32_t configs)
{
    Unit units[N_LEVELS * (sizeof cpus / sizeof *cpus)] = {{0}};
    const uint32_t n_units = N_LEVELS * n_cpus;
    for (uint32_t i = 0; i < n_units; i++)
        units[i] = (Unit){
            .arena = samples[0]->arena, .cpu = cpus[i / N_LEVELS], .level = levels[i % N_LEVELS]};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < N_CONFIGS; c++) {
            const Config config = config_of(samples[i]->seed, c, samples[i]->is_special);
            begin(r, "compiling", samples[i]->seed, c);
            if ((configs >> c & 1) == 0)
                continue;
            const char *wrong = unit_add(unit_of(units, config.cpu, samples[i]->seed), samples[i], config);
            if (wrong != NULL)
                add_failure(r, samples[i]->seed, c, wrong);
        }
    for (uint32_t i = 0; i < n_units; i++) {
        begin(r, "cc", samples[0]->seed, 0);
        alarm(10 * TIME_LIMIT);
        if (unit_build(&units[i]))
            check_unit(r, &units[i]);
        else
            for (uint32_t k = 0; k < units[i].programs.len; k++)
                check_alone(r, &units[i].programs.data[k]);
        unit_close(&units[i]);
    }
}

static void run_batch(const Batch *b)
{
    Arena a = {0};
    Sample *samples[BATCH];
    uint32_t n = 0;
    for (uint64_t seed = b->first; seed < b->first + b->n; seed++) {
        if (has_failed(b->report, seed))
            continue;
        begin(b->report, "generating", seed, 0);
        samples[n] = sample_make(&a, seed);
        count_ops(b->report, samples[n++]->g);
    }
    if (n > 0)
        run_samples(b->report, samples, n, (1u << N_CONFIGS) - 1);
    arena_free(&a);
}

// --- processes -----------------------------------------------------------------------------------

static Report *share_report(void)
{
    Report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    rlx_assert(r != MAP_FAILED);
    return r;
}

static void start_batch(Batch *b)
{
    fflush(stdout);
    b->pid = fork();
    rlx_assert(b->pid >= 0);
    if (b->pid != 0)
        return;
    run_batch(b);
    fflush(NULL);
    _exit(0);
}

// True when the process ended by itself; else what it was doing has become a failure.
static bool ended_well(Report *r, int status)
{
    char message[100];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    snprintf(message, sizeof message, "%s: %s %d", r->doing, WIFSIGNALED(status) ? "signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    add_failure(r, r->at_seed, r->at_config, message);
    return false;
}

typedef struct Attempt {
    uint32_t config;
    char message[300];
} Attempt;

// A sample in a process of its own: does it still fail?
static bool fails_alone(const Sample *s, void *ctx)
{
    Attempt *attempt = ctx;
    Report *r = share_report();
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        Sample copy = *s, *list[1] = {&copy};
        if (freopen("/dev/null", "w", stderr) != NULL)
            run_samples(r, list, 1, 1u << attempt->config);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    const bool failed = !ended_well(r, status) || r->n_failures > 0;
    if (failed)
        memcpy(attempt->message, r->failure[0].message, sizeof attempt->message);
    munmap(r, sizeof *r);
    return failed;
}

// --- what is printed -----------------------------------------------------------------------------

static void print_lines(const char *text)
{
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        printf("#   %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void print_inputs(const Sample *s)
{
    for (uint32_t i = 0; i < s->g->inputs.len; i++) {
        uint64_t v = 0;
        const char *name = node_name(s->g, s->g->inputs.data[i]);
        map_get_str(&s->values, name, &v);
        const Tensor *t = (const Tensor *)(uintptr_t)v;
        Str text = str_new(s->arena);
        str_printf(&text, "%s =", name);
        for (int64_t k = 0; k < t->numel && k < 40; k++) {
            str_char(&text, ' ');
            if (dtype_info[t->dtype].cls == DCLASS_FLOAT)
                str_f64(&text, tensor_get_f64(t, k));
            else
                str_printf(&text, "%lld", (long long)tensor_get_i64(t, k));
        }
        print_lines(str_text(&text));
    }
}

static void show_failure(const Failure *f, bool minimise)
{
    Arena a = {0};
    const Sample *s = sample_make(&a, f->seed);
    const Config c = config_of(f->seed, f->config, s->is_special);
    Attempt attempt = {.config = f->config};
    const bool is_repeatable = fails_alone(s, &attempt);
    if (minimise && is_repeatable)
        s = sample_minimise(s, fails_alone, &attempt);
    if (minimise && is_repeatable)
        fails_alone(s, &attempt);
    Str text = str_new(&a);
    graph_print(s->g, &text, TEXT_FULL);
    printf("# seed %llu, -O%d%s, %s: %s\n", (unsigned long long)f->seed, c.opt_level,
           c.allow_fast ? " --fast-math" : "", c.cpu, is_repeatable ? attempt.message : f->message);
    print_lines(str_text(&text));
    print_inputs(s);
    fflush(stdout);
    arena_free(&a);
}

// The two halves of an attention, which a pass for GPUs makes of one (tests/e2e/ops/attention.rlx has them),
// the blocks that a mask leaves for it (attention_blocks.rlx), and what comes with a text of its own
// (tests/custom).
static bool is_never_generated(OpId op)
{
    return op == OP_attention_part || op == OP_attention_merge || op == OP_seen_blocks || op == OP_custom;
}

// Every other op of the tables was in some graph, if there were enough graphs.
static bool check_coverage(const Report *all, uint64_t n_graphs)
{
    bool ok = true;
    for (OpId op = 1; op < OP_COUNT && n_graphs >= 500; op++)
        if (all->n_ops[op] == 0 && !is_never_generated(op)) {
            printf("# never generated: %s\n", op_info[op].name);
            ok = false;
        }
    printf("# %llu graphs, %llu programs, %llu with rounding excused\n", (unsigned long long)n_graphs,
           (unsigned long long)all->n_programs, (unsigned long long)all->n_allowed);
    return ok && all->n_allowed * 12 <= all->n_programs + 50;
}

typedef struct Run {
    Report *all;
    uint32_t n_done, n_failed;
} Run;

static int by_seed(const void *a, const void *b)
{
    const Failure *x = a, *y = b;
    return x->seed != y->seed ? (x->seed > y->seed) - (x->seed < y->seed) : (int)x->config - (int)y->config;
}

static void end_batch(Run *run, const Batch *b)
{
    Report *r = b->report;
    qsort(r->failure, r->n_failures, sizeof *r->failure, by_seed);
    for (OpId op = 0; op < OP_COUNT; op++)
        run->all->n_ops[op] += r->n_ops[op];
    run->all->n_programs += r->n_programs;
    run->all->n_allowed += r->n_allowed;
    printf("%sok %u - seeds %llu to %llu\n", r->n_failures > 0 ? "not " : "", ++run->n_done,
           (unsigned long long)b->first, (unsigned long long)(b->first + b->n - 1));
    for (uint32_t i = 0; i < r->n_failures; i++) {
        const bool is_again = i > 0 && r->failure[i].seed == r->failure[i - 1].seed;
        if (!is_again && run->n_failed++ < MAX_SHOWN)
            show_failure(&r->failure[i], getenv("TEST_RANDOM_KEEP") == NULL);
        else
            printf("# seed %llu, -O%s: %s\n", (unsigned long long)r->failure[i].seed,
                   r->failure[i].config == 0 ? "0" : "3", r->failure[i].message);
    }
    fflush(stdout);
}

// Keeps `n_slots` processes busy until all batches have ended.
static void run_all(Run *run, uint64_t seed, uint64_t count, uint32_t n_slots)
{
    Batch slot[MAX_PROCESSES] = {{0}};
    uint64_t next = seed;
    uint32_t n_busy = 0;
    while (next < seed + count || n_busy > 0) {
        for (uint32_t i = 0; i < n_slots && next < seed + count; i++) {
            if (slot[i].pid != 0)
                continue;
            const uint64_t left = seed + count - next;
            slot[i] =
                (Batch){.first = next, .n = left < BATCH ? (uint32_t)left : BATCH, .report = share_report()};
            next += slot[i].n;
            n_busy++;
            start_batch(&slot[i]);
        }
        int status = 0;
        const pid_t pid = wait(&status);
        for (uint32_t i = 0; i < n_slots; i++) {
            if (slot[i].pid != pid)
                continue;
            if (!ended_well(slot[i].report, status) && slot[i].report->n_failures < MAX_FAILURES) {
                start_batch(&slot[i]); // again, without what failed
                continue;
            }
            end_batch(run, &slot[i]);
            munmap(slot[i].report, sizeof *slot[i].report);
            slot[i].pid = 0;
            n_busy--;
        }
    }
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    const uint64_t given = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const uint64_t seed = given != 0 ? given : 1 + test_rotation() % DAYS * count;
    const uint32_t slots = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 2;
    Run run = {.all = share_report()};
    rlx_assert(slots >= 1 && slots <= MAX_PROCESSES);
    find_cpus();
    printf("1..%llu\n", (unsigned long long)((count + BATCH - 1) / BATCH + 1));
    run_all(&run, seed, count, slots);
    const bool is_covered = check_coverage(run.all, count);
    printf("%sok %u - every op was generated, rounding was rarely excused\n", is_covered ? "" : "not ",
           run.n_done + 1);
    return run.n_failed == 0 && is_covered ? 0 : 1;
}
