// SPDX-License-Identifier: Apache-2.0
// See bench.h. Inputs are copied in before every run, outside of its time: they may share their memory with
// what is computed from them.
#define _GNU_SOURCE
#include "compiler/bench/bench.h"
#include "runtime-lite/rlx_profile.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RUNS = 1 << 20, MAX_PROFILED = 400, MIN_RUNS = 3, NO_PARENT = 0 };
static const double warm_up = 0.1;        // of the seconds, and at least that many runs
static const double between_probes = 0.2; // seconds
static const double profile_share = 0.5;  // of the seconds, for runs with clocks

static uint64_t clock_ns(void *user)
{
    struct timespec t;
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double seconds(void)
{
    return (double)clock_ns(NULL) * 1e-9;
}

// --- spread --------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double at_share(const uint64_t *sorted, uint32_t n, uint32_t percent)
{
    rlx_assert(n >= 1 && percent <= 100);
    return (double)sorted[(uint64_t)(n - 1) * percent / 100] * 1e-3;
}

// Sorts the n nanoseconds.
static BenchSpread spread(uint64_t *ns, uint32_t n)
{
    qsort(ns, n, sizeof *ns, by_value);
    return (BenchSpread){at_share(ns, n, 0), at_share(ns, n, 10), at_share(ns, n, 50), at_share(ns, n, 90)};
}

// --- runs ----------------------------------------------------------------------------------------

// One thread stays where it is; of several, each goes where it likes.
static void pin(const Job *j)
{
#if defined(__linux__)
    const int cpu = sched_getcpu();
    cpu_set_t one;
    if (j->caps.threads != 1 || j->target->caps.is_gpu || cpu < 0)
        return;
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    sched_setaffinity(0, sizeof one, &one); // a wish: times only spread more without it
#else
    (void)j;
#endif
}

static void put_inputs(Native *n, const Tensor *inputs)
{
    const rlx_model *m = n->ctx.model;
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (rlx_has_rows(&n->ctx, i)) { // the run takes them from there
            rlx_bring_input(&n->ctx, i, inputs[i].data, m->inputs[i].bytes);
            n->ctx.inputs &= ~RLX_INPUTS_CONSUMED;
        } else if (m->inputs[i].bytes != 0) {
            memcpy(rlx_input(&n->ctx, i), inputs[i].data, m->inputs[i].bytes);
        }
}

// A model that counts its runs in a state (a cache that is full, say) may refuse one: it begins anew.
static bool run_once(Job *j, Native *n, const Tensor *inputs, uint64_t *ns)
{
    for (int attempt = 0;; attempt++) {
        put_inputs(n, inputs);
        const uint64_t start = clock_ns(NULL);
        const rlx_status status = rlx_run(&n->ctx);
        *ns = clock_ns(NULL) - start;
        if (status == RLX_OK)
            return true;
        if (attempt != 0 || rlx_reset(&n->ctx) != RLX_OK)
            return diag_error(j->cli->diag, (Span){0}, E0402, "the generated code refused to run: %s",
                              rlx_status_text(status));
    }
}

static bool warm(Job *j, Native *n, const Tensor *inputs, double budget)
{
    const double start = seconds();
    uint64_t ns = 0;
    for (int i = 0; i < MIN_RUNS || seconds() - start < budget; i++)
        if (!run_once(j, n, inputs, &ns))
            return false;
    return true;
}

static bool is_done(const Bench *b, uint32_t n, double spent)
{
    return b->runs != 0 ? n >= b->runs : n == MAX_RUNS || (n >= MIN_RUNS && spent > b->seconds);
}

static bool time_runs(Job *j, Native *n, const Tensor *inputs, Bench *b)
{
    VEC(uint64_t) ns = {0};
    double spent = 0, probed = 0; // seconds in runs, and how many of them when the machine was measured last
    while (!is_done(b, ns.len, spent)) {
        uint64_t one = 0;
        if (b->has_machine && (ns.len == 0 || spent - probed > between_probes)) {
            machine_measure(&b->machine);
            probed = spent;
            if (!run_once(j, n, inputs, &one)) // what the probe has driven out of the caches comes back
                return false;
        }
        if (!run_once(j, n, inputs, &one))
            return false;
        spent += (double)one * 1e-9;
        vec_push(j->cli->arena, &ns, one);
    }
    b->n_runs = ns.len;
    b->us = spread(ns.data, ns.len);
    return true;
}

// --- kernels -------------------------------------------------------------------------------------

// By row of the table of kernels: 1 + the row of the loop around it. Recursion: as deep as loops nest.
static void find_parents(const Plan *p, uint32_t parent, uint32_t *row, uint32_t *out)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const uint32_t me = (*row)++;
        out[me] = parent;
        if (p->kernels.data[i].loop != NULL)
            find_parents(p->kernels.data[i].loop->body, 1 + me, row, out);
    }
}

static uint32_t *parents(Job *j, const Native *n)
{
    const bool is_fallback = j->fallback != NULL && n->ctx.model == n->model->fallback;
    const Plan *p = is_fallback ? j->fallback->plan : j->plan;
    uint32_t *out = ARENA_ARRAY(j->cli->arena, uint32_t, n->ctx.model->n_kernels + 1), row = 0;
    for (uint32_t i = 0; p->buckets != NULL && i < p->buckets->n; i++)
        find_parents(p->buckets->plan[i], NO_PARENT, &row, out);
    if (p->buckets == NULL)
        find_parents(p, NO_PARENT, &row, out);
    rlx_assert(row == n->ctx.model->n_kernels);
    return out;
}

// Kernels of a loop's body have no time of their own on CPUs: the loop has it, so it gets what they do.
static void add_rows(Job *j, const Native *n, const BenchSpread *us, Bench *b)
{
    const rlx_model *m = n->ctx.model;
    const uint32_t *parent = parents(j, n);
    BenchRow *row = ARENA_ARRAY(j->cli->arena, BenchRow, m->n_kernels + 1);
    for (uint32_t i = m->n_kernels; i-- > 0;) {
        const rlx_kernel *k = &m->kernels[i];
        row[i].kernel = k;
        row[i].us = us[i];
        row[i].macs += k->macs;
        row[i].flops += k->flops;
        row[i].bytes += k->bytes;
        if (us[i].best > 0 || parent[i] == NO_PARENT)
            continue;
        rlx_assert(parent[i] <= i);
        BenchRow *loop = &row[parent[i] - 1];
        loop->macs += row[i].macs;
        loop->flops += row[i].flops;
        loop->bytes += row[i].bytes;
    }
    for (uint32_t i = 0; i < m->n_kernels; i++) {
        if (us[i].p90 <= 0) // prepared once, in the body of a loop, or of another bucket
            continue;
        vec_push(j->cli->arena, &b->rows, row[i]);
        b->macs += row[i].macs;
        b->flops += row[i].flops;
        b->bytes += row[i].bytes;
        b->sum_us += row[i].us.median;
    }
}

// Between two readings.
static double cost_of_clock(void)
{
    enum { N = 1001 };
    uint64_t ns[N], before = clock_ns(NULL);
    for (int i = 0; i < N; i++) {
        const uint64_t now = clock_ns(NULL);
        ns[i] = now - before;
        before = now;
    }
    return spread(ns, N).median;
}

// By a device's own clock, where it says what it took for a kernel: the host's has waiting for each in it.
static bool time_kernels(Job *j, Native *n, const Tensor *inputs, Bench *b)
{
    Arena *a = j->cli->arena;
    const uint32_t n_kernels = n->ctx.model->n_kernels, most = b->runs != 0 ? b->runs : MAX_PROFILED;
    const uint32_t rounds = most < MAX_PROFILED ? most : MAX_PROFILED;
    uint64_t *ticks = ARENA_ARRAY(a, uint64_t, n_kernels + 1);
    double *device_ns = ARENA_ARRAY(a, double, n_kernels + 1);
    uint64_t *all = ARENA_ARRAY(a, uint64_t, (size_t)n_kernels * rounds + 1), ns = 0; // by kernel, then run
    BenchSpread *us = ARENA_ARRAY(a, BenchSpread, n_kernels + 1);
    rlx_profile profile = {.clock = clock_ns, .ticks = ticks};
    const double start = seconds();
    uint32_t run = 0;
    for (; run < rounds; run++) {
        if (run >= MIN_RUNS && b->runs == 0 && seconds() - start > b->seconds * profile_share)
            break;
        if (rlx_set_profile(&n->ctx, &profile) != RLX_OK ||
            rlx_set_device_times(&n->ctx, device_ns, n_kernels) != RLX_OK || !run_once(j, n, inputs, &ns))
            return false;
        for (uint32_t k = 0; k < n_kernels; k++)
            all[(size_t)k * rounds + run] = device_ns[k] > 0 ? (uint64_t)(device_ns[k] + 0.5) : ticks[k];
    }
    rlx_set_device_times(&n->ctx, NULL, 0);
    rlx_set_profile(&n->ctx, NULL);
    b->clock_us = cost_of_clock();
    b->n_profiled = run;
    for (uint32_t k = 0; k < n_kernels; k++)
        us[k] = spread(&all[(size_t)k * rounds], run);
    add_rows(j, n, us, b);
    return true;
}

// With no clock between the kernels, which would have to be waited for one by one.
static bool time_device(Job *j, Native *n, const Tensor *inputs, Bench *b)
{
    rlx_profile profile = {.clock = clock_ns};
    uint64_t ns = 0;
    if (n->ctx.model->device == NULL)
        return true;
    rlx_set_profile(&n->ctx, &profile);
    for (uint32_t i = 0; i < b->n_profiled; i++)
        if (!run_once(j, n, inputs, &ns))
            return false;
    rlx_set_profile(&n->ctx, NULL);
    if (profile.runs != 0) {
        b->encoding_us = (double)profile.encoding * 1e-3 / (double)profile.runs;
        b->waiting_us = (double)profile.waiting * 1e-3 / (double)profile.runs;
    }
    return true;
}

bool bench_measure(Job *j, Native *n, const Tensor *inputs, Bench *b)
{
    rlx_assert(n->ctx.model != NULL && b->seconds > 0);
    const rlx_model *m = n->ctx.model;
    pin(j);
    b->has_machine = m->device == NULL;
    if (b->has_machine &&
        !machine_open(j, (uint64_t)m->weight_bytes + m->arena_bytes + m->state_bytes, &b->machine))
        return false;
    cli_progress("measuring");
    if (b->has_machine)
        machine_measure_memory(&b->machine);
    return warm(j, n, inputs, b->seconds * warm_up) && time_runs(j, n, inputs, b) &&
           time_kernels(j, n, inputs, b) && time_device(j, n, inputs, b);
}
