// SPDX-License-Identifier: Apache-2.0
// rlxc bench: how fast a model runs here, whole and by kernel, beside what the machine can do.
#include "compiler/bench/bench.h"
#include "compiler/job/feeds.h"
#include "compiler/system/json_text.h"
#include "compiler/job/open_sizes.h"
#include <string.h>

// --- figures -------------------------------------------------------------------------------------

static double rate(uint64_t amount, double us) // in 1e9 a second
{
    return us > 0 ? (double)amount * 1e-3 / us : 0;
}

// What the machine needs at least, by its peak and by its bandwidth, as a share of the time.
static double roofline(const Machine *m, uint64_t flops, uint64_t bytes, double us)
{
    const double compute = m->peak_gflops > 0 ? (double)flops * 1e-3 / m->peak_gflops : 0;
    const double move = m->read_gbs > 0 ? (double)bytes * 1e-3 / m->read_gbs : 0;
    return us > 0 ? (compute > move ? compute : move) / us : 0;
}

static const char *place(const Job *j, const Native *n)
{
    if (j->is_on_cpu)
        return "the CPU, which executes Metal text";
    return n->ctx.model->device != NULL ? j->target->name : j->cpu.name;
}

// --- text ----------------------------------------------------------------------------------------

static void print_machine(const Bench *b)
{
    const Machine *m = &b->machine;
    if (!b->has_machine)
        return;
    printf("machine %.1f GFLOP/s of f32 multiply-adds; reads %.1f GB/s of the %.2f MB that the model has, "
           "%.1f GB/s of %.0f MB\n",
           m->peak_gflops, m->read_gbs, (double)m->working_bytes * 1e-6, m->memory_gbs,
           (double)m->memory_bytes * 1e-6);
}

// Does a line say more than 100 %?
static bool is_above_measured(const Bench *b)
{
    const double peak = b->machine.peak_gflops;
    bool is_above = rate(b->flops, b->us.median) > peak ||
                    roofline(&b->machine, b->flops, b->bytes, b->us.median) > 1;
    for (uint32_t i = 0; !is_above && i < b->rows.len; i++) {
        const BenchRow *r = &b->rows.data[i];
        is_above = roofline(&b->machine, r->flops, r->bytes, r->us.median) > 1;
    }
    return is_above;
}

static void print_speed(const Bench *b)
{
    if (!b->has_costs) {
        printf("speed   not known for sizes that are set between runs: give them with --dim\n");
        return;
    }
    printf("speed   %.2f GFLOP/s, %.2f GB/s", rate(b->flops, b->us.median), rate(b->bytes, b->us.median));
    if (b->has_machine)
        printf("; %.1f %% of the peak, %.1f %% of the roofline",
               100 * rate(b->flops, b->us.median) / b->machine.peak_gflops,
               100 * roofline(&b->machine, b->flops, b->bytes, b->us.median));
    printf("\n");
    if (b->has_machine && is_above_measured(b))
        printf("note    shares above 100 %%: the machine was measured by f32 multiply-adds and by reads of "
               "memory; narrower numbers, convolutions that multiply less and values in caches are faster\n");
}

static void print_row(const Bench *b, const BenchRow *r)
{
    printf("%12.2f %6.1f %%", r->us.median, b->sum_us > 0 ? 100 * r->us.median / b->sum_us : 0);
    if (b->has_costs)
        printf(" %9.2f %9.2f", rate(r->flops, r->us.median), rate(r->bytes, r->us.median));
    if (b->has_costs && b->has_machine)
        printf(" %8.1f %%", 100 * roofline(&b->machine, r->flops, r->bytes, r->us.median));
    printf("  %s", r->kernel->name);
    if (*r->kernel->nodes != '\0')
        printf(" (%s)", r->kernel->nodes);
    printf("\n");
}

static void print_text(const Job *j, const Native *n, const Bench *b, const char *sizes)
{
    printf("%s%s on %s, %d thread%s\n", j->host.name, sizes, place(j, n), j->caps.threads,
           j->caps.threads == 1 ? "" : "s");
    printf("time    median %.2f us; p10 %.2f, p90 %.2f, best %.2f (%u runs)\n", b->us.median, b->us.p10,
           b->us.p90, b->us.best, b->n_runs);
    if (b->encoding_us > 0)
        printf("device  %.2f us until the host has given all commands, then %.2f us\n", b->encoding_us,
               b->waiting_us);
    print_speed(b);
    print_machine(b);
    if (b->has_machine)
        printf("kernels %u, %.2f us with a clock between them, which takes %.3f us each time (%u runs)\n",
               b->rows.len, b->sum_us, b->clock_us, b->n_profiled);
    else
        printf("kernels %u, %.2f us one after the other (%u runs)\n", b->rows.len, b->sum_us, b->n_profiled);
    printf("%12s %8s", "us", "share");
    if (b->has_costs)
        printf(" %9s %9s", "GFLOP/s", "GB/s");
    if (b->has_costs && b->has_machine)
        printf(" %10s", "roofline");
    printf("  kernel (nodes)\n");
    for (uint32_t i = 0; i < b->rows.len; i++)
        print_row(b, &b->rows.data[i]);
}

// --- JSON ----------------------------------------------------------------------------------------

static void print_spread(const BenchSpread *s)
{
    printf("\"us\": %.4f, \"us_best\": %.4f, \"us_p10\": %.4f, \"us_p90\": %.4f", s->median, s->best, s->p10,
           s->p90);
}

// Members after a time: nothing where it is not known what was computed in it.
static void print_rates(const Bench *b, uint64_t flops, uint64_t bytes, double us)
{
    if (!b->has_costs)
        return;
    printf(", \"gflops\": %.4f, \"gbs\": %.4f", rate(flops, us), rate(bytes, us));
    if (b->has_machine)
        printf(", \"peak_share\": %.5f, \"roofline_share\": %.5f", rate(flops, us) / b->machine.peak_gflops,
               roofline(&b->machine, flops, bytes, us));
}

static void print_json_row(const Job *j, const Bench *b, const BenchRow *r)
{
    Arena *a = j->cli->arena;
    printf("    {\"name\": \"%s\", \"nodes\": \"%s\", ", json_text(a, r->kernel->name),
           json_text(a, r->kernel->nodes));
    print_spread(&r->us);
    printf(", \"share\": %.5f", b->sum_us > 0 ? r->us.median / b->sum_us : 0);
    if (b->has_costs)
        printf(", \"macs\": %llu, \"flops\": %llu, \"bytes\": %llu", (unsigned long long)r->macs,
               (unsigned long long)r->flops, (unsigned long long)r->bytes);
    print_rates(b, r->flops, r->bytes, r->us.median);
    printf("}");
}

static void print_json(const Job *j, const Native *n, const Bench *b)
{
    const Machine *m = &b->machine;
    printf("{\n  \"name\": \"%s\",\n  \"compiler\": \"rlxc %s\",\n  \"target\": \"%s\",\n  \"cpu\": \"%s\",\n"
           "  \"place\": \"%s\",\n  \"threads\": %d,\n  \"runs\": %u,\n  ",
           j->host.name, RLXC_VERSION, j->target->name, j->cpu.name, place(j, n), j->caps.threads, b->n_runs);
    print_spread(&b->us);
    if (b->encoding_us > 0)
        printf(",\n  \"encoding_us\": %.4f, \"waiting_us\": %.4f", b->encoding_us, b->waiting_us);
    if (b->has_costs)
        printf(",\n  \"macs\": %llu, \"flops\": %llu, \"bytes\": %llu", (unsigned long long)b->macs,
               (unsigned long long)b->flops, (unsigned long long)b->bytes);
    print_rates(b, b->flops, b->bytes, b->us.median);
    if (b->has_machine)
        printf(",\n  \"machine\": {\"peak_gflops\": %.3f, \"read_gbs\": %.3f, \"read_bytes\": %llu, "
               "\"memory_gbs\": %.3f, \"memory_bytes\": %llu}",
               m->peak_gflops, m->read_gbs, (unsigned long long)m->working_bytes, m->memory_gbs,
               (unsigned long long)m->memory_bytes);
    printf(",\n  \"profiled_runs\": %u,\n  \"kernels_us\": %.4f,\n  \"clock_us\": %.4f,\n  \"kernels\": [",
           b->n_profiled, b->sum_us, b->clock_us);
    for (uint32_t i = 0; i < b->rows.len; i++) {
        printf("%s\n", i == 0 ? "" : ",");
        print_json_row(j, b, &b->rows.data[i]);
    }
    printf("\n  ]\n}\n");
}

// --- the command ---------------------------------------------------------------------------------

static bool read_options(Cli *c, Bench *b)
{
    enum { MAX_RUNS = 1000000 };
    const char *seconds = c->options.seconds, *runs = c->options.runs;
    int64_t n = 0;
    *b = (Bench){.seconds = 2};
    if (seconds != NULL &&
        (!str_parse_f64(seconds, strlen(seconds), &b->seconds) || !(b->seconds > 0) || !(b->seconds <= 3600)))
        return diag_error(c->diag, (Span){0}, E0003, "--seconds %s: expected a number above 0, at most 3600",
                          seconds);
    if (runs != NULL && (!str_parse_i64(runs, strlen(runs), &n) || n < 1 || n > MAX_RUNS))
        return diag_error(c->diag, (Span){0}, E0003, "--runs %s: expected a whole number from 1 to 1000000",
                          runs);
    b->runs = (uint32_t)n;
    return true;
}

// Up to a loaded library that has run once, which reports what is wrong with the inputs.
static bool prepare(Job *j, Cli *c, Native *n, Tensor **inputs, int64_t **sizes)
{
    const char *seed = c->options.random != NULL ? c->options.random : "1";
    if (!job_begin(j, c, "native", false) || !native_check_cpu(j) || !job_plan(j))
        return false;
    *sizes = ARENA_ARRAY(c->arena, int64_t, open_sizes_count(j) + 1);
    Tensor *outputs = ARENA_ARRAY(c->arena, Tensor, j->plan->outputs.len + 1);
    j->host.has_profile = true;
    return open_sizes_given(j, *sizes) && feeds_read(j, seed, *sizes, inputs) && native_emit(j, NULL) &&
           native_open(j, NULL, n) && native_set_sizes(j, n, *sizes) && native_run(j, n, *inputs, outputs);
}

ExitCode cmd_bench(Cli *c)
{
    Job j;
    Bench b;
    Native n = {0};
    Tensor *inputs = NULL;
    int64_t *sizes = NULL;
    if (!read_options(c, &b) || !prepare(&j, c, &n, &inputs, &sizes))
        return cli_fail(c);
    b.has_costs = open_sizes_count(&j) == 0;
    if (!bench_measure(&j, &n, inputs, &b))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL)
        print_json(&j, &n, &b);
    else
        print_text(&j, &n, &b, open_sizes_text(&j, sizes));
    native_close(&n);
    return EXIT_OK;
}
