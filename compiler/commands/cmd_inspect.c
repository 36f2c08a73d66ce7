// SPDX-License-Identifier: Apache-2.0
// rlxc inspect: what a model costs, before it is flashed.
#include "compiler/pages/pages.h"
#include "compiler/report/facts.h"
#include "compiler/report/inspect_banks.h"
#include "compiler/report/inspect_dispatch.h"
#include "compiler/report/inspect_json.h"
#include "compiler/report/inspect_language.h"
#include "compiler/report/validation.h"
#include "compiler/load/load.h"
#include "compiler/session/session.h"
#include <string.h>

// --- memory --------------------------------------------------------------------------------------

static void print_peak(const Plan *p)
{
    const uint32_t at = plan_peak_step(p);
    if (p->kernels.len == 0)
        return;
    rlx_assert(at < p->kernels.len);
    printf("  at the peak (%s):\n", p->kernels.data[at].kernel->name);
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (plan_buffer_is_live(buf, at))
            printf("    %-32s %10llu bytes at %llu, steps %u to %u\n", buf->name,
                   (unsigned long long)buf->bytes, (unsigned long long)buf->offset, buf->first, buf->last);
    }
}

// --- text ----------------------------------------------------------------------------------------

static void print_ios(const Job *j, const char *kind, const PlanIo *io, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        Str s = str_new(j->cli->arena);
        const Shape shape = shape_of(io[i].rank, io[i].dim);
        shape_print(j->graph->dims, io[i].dtype, &shape, &s);
        printf("%-7s %s: %s\n", kind, io[i].name, str_text(&s));
    }
}

static void print_launch(const PlanKernel *k)
{
    const KernelGrid grid = k->loop == NULL ? kernel_grid(k->kernel) : (KernelGrid){0};
    printf("  group %u", k->launch.group);
    if (k->loop == NULL)
        printf("  grid %llu of %u", (unsigned long long)grid.groups, grid.group);
}

static void print_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    uint64_t insns = 0, cycles = 0;
    printf("  %-44s %12llu MACs %12llu bytes", k->kernel->name, (unsigned long long)(k->macs * times),
           (unsigned long long)(plan_kernel_bytes(k) * times));
    if (measures_kernel(ctx, k, &insns, &cycles))
        printf(" %12llu instructions %12llu cycles", (unsigned long long)(insns * times),
               (unsigned long long)(cycles * times));
    if (p->caps->threads > 1 && k->threads.is_shared)
        printf("  split%s", k->threads.waits ? " after a barrier" : "");
    else if (p->caps->threads > 1)
        printf("  thread %d%s", k->threads.thread, k->threads.waits ? " after a barrier" : "");
    if (p->caps->is_gpu)
        print_launch(k);
    printf("\n");
}

static void print_trade(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const PlanTrade *t = &k->trade;
    (void)p, (void)times, (void)ctx;
    if (t->what != NULL)
        printf("traded  %s, %s: %llu bytes of scratch memory and %llu more of weights, for an estimated %llu "
               "instead of %llu cycles\n",
               k->kernel->name, t->what, (unsigned long long)t->scratch_bytes,
               (unsigned long long)t->weight_bytes, (unsigned long long)t->cycles,
               (unsigned long long)t->plain_cycles);
}

static void count_shared(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p;
    (void)times;
    *(uint32_t *)ctx += k->threads.is_shared;
}

static uint32_t shared_kernels(const Plan *p)
{
    uint32_t n = 0;
    plan_walk(p, count_shared, &n);
    return n;
}

// A row for each bucket; all else that is printed is about the largest one.
static void print_buckets(const Job *j)
{
    const PlanBuckets *b = j->plan->buckets;
    if (b == NULL)
        return;
    rlx_assert(b->n == j->buckets.n && b->n_symbols == j->buckets.n_symbols);
    printf("buckets %u, the largest last:\n ", b->n);
    for (uint32_t k = 0; k < b->n_symbols; k++)
        printf(" %10s", j->buckets.name[k]);
    printf(" %12s %8s %14s %14s %14s\n", "arena bytes", "kernels", "multiply-adds", "flops", "bytes moved");
    for (uint32_t i = 0; i < b->n; i++) {
        const Totals t = facts_kernels(b->plan[i]);
        printf(" ");
        for (uint32_t k = 0; k < b->n_symbols; k++)
            printf(" %10lld", (long long)b->size[i][k]);
        printf(" %12llu %8u %14llu %14llu %14llu\n", (unsigned long long)b->arena_bytes[i],
               plan_count_kernels(b->plan[i]), (unsigned long long)t.macs, (unsigned long long)t.flops,
               (unsigned long long)t.moved_bytes);
    }
}

// What pass_prune took out; nothing where it found nothing.
static void print_pruned(const PlanPruned *p)
{
    if (p->channels == 0)
        return;
    printf("pruned  %llu of %llu channels of convolutions: %llu constant, %llu unread\n",
           (unsigned long long)(p->constant + p->unread), (unsigned long long)p->channels,
           (unsigned long long)p->constant, (unsigned long long)p->unread);
    printf("  multiply-adds %.3f M to %.3f M, weights %llu to %llu bytes\n", (double)p->macs[0] * 1e-6,
           (double)p->macs[1] * 1e-6, (unsigned long long)p->weight_bytes[0],
           (unsigned long long)p->weight_bytes[1]);
}

static void print_flash(const Job *j, const MachineCode *code)
{
    printf("flash   weights %zu bytes, ", j->emitted.weight_bytes);
    if (code->unknown != NULL)
        printf("machine code unknown: %s\n", code->unknown);
    else
        printf("machine code %llu bytes, constants %llu bytes (%s, without libm)\n",
               (unsigned long long)code->code_bytes, (unsigned long long)code->const_bytes, code->compiler);
    const uint64_t constants = code->const_bytes - code->data_bytes;
    if (code->unknown == NULL)
        printf(
            "  .text %llu, .rodata %llu (weights %zu, constants %llu), .data %llu; .bss %llu bytes of RAM\n",
            (unsigned long long)code->code_bytes, (unsigned long long)(j->emitted.weight_bytes + constants),
            j->emitted.weight_bytes, (unsigned long long)constants, (unsigned long long)code->data_bytes,
            (unsigned long long)code->bss_bytes);
    printf("C text  %zu bytes\n", j->emitted.code_bytes);
}

static void print_streaming(const Job *j)
{
    Str text = str_new(j->cli->arena);
    streaming_print(&j->stream, j->plan, &text);
    fputs(str_text(&text), stdout);
}

static void print_division(const Job *j)
{
    Str text = str_new(j->cli->arena);
    facts_schedule_text(j->plan, &text);
    inspect_banks_text(j->plan, &text);
    fputs(str_text(&text), stdout);
}

static void print_ram(const Job *j)
{
    const Plan *p = j->plan;
    const uint64_t arena = p->region_bytes[REGION_ARENA], bound = p->arena_lower_bound;
    printf("RAM     arena %llu bytes, lower bound %llu, placement optimal: %s; state %llu\n",
           (unsigned long long)arena, (unsigned long long)bound, p->arena_optimal ? "yes" : "no",
           (unsigned long long)j->emitted.state_bytes);
    if (!p->arena_optimal)
        printf("  at most %llu bytes above the least that these buffers need\n",
               (unsigned long long)(arena - bound));
    printf("  any schedule takes at least %llu bytes of arena, for inputs or outputs\n",
           (unsigned long long)facts_least_arena(p));
    if (j->session != NULL)
        fputs(j->session, stdout);
    if (p->rows.input != 0)
        printf("  input %s comes in %lld rows along axis %u, and is not in the arena as a whole\n",
               p->inputs.data[p->rows.input - 1].name, (long long)p->rows.n_rows, p->rows.axis);
}

static void print_text(const Job *j, const Totals *t, Measures *m)
{
    const Plan *p = j->plan;
    printf("model   %s (%s), cpu %s\n", j->host.name, j->model, j->cpu.name);
    inspect_language_print(j);
    print_ios(j, "input", p->inputs.data, p->inputs.len);
    print_ios(j, "output", p->outputs.data, p->outputs.len);
    print_ios(j, "param", p->params.data, p->params.len);
    print_ios(j, "state", p->states.data, p->states.len);
    printf("ops     %u:", t->n_ops);
    for (OpId op = 1; op < OP_COUNT; op++)
        if (t->ops[op] != 0)
            printf(" %s %u", op_info[op].name, t->ops[op]);
    printf("\nnumbers %llu parameters, %.3f M multiply-adds, %.3f MB moved\n",
           (unsigned long long)t->parameters, (double)t->macs * 1e-6, (double)t->moved_bytes * 1e-6);
    print_pruned(&p->pruned);
    print_ram(j);
    print_streaming(j);
    print_peak(p);
    print_division(j);
    print_flash(j, m->code);
    inspect_board_print(j, m);
    printf("kernels %u, %u with text of their own\n", plan_count_kernels(p), j->emitted.n_functions);
    if (p->caps->threads > 1)
        printf("threads %d, %u kernels split\n", p->caps->threads, shared_kernels(p));
    inspect_dispatch_print(p);
    print_buckets(j);
    plan_walk(p, print_trade, NULL);
    plan_walk(p, print_kernel, m);
}

static bool is_dot_printed(const Options *o)
{
    return o->dot != NULL && strcmp(o->dot, "-") == 0;
}

static bool write_pages(Job *j, const char *before, const char *facts, const Times *times)
{
    const Options *o = &j->cli->options;
    return (times->path == NULL || times_check(j, times)) &&
           (o->html == NULL ||
            pages_write_html(j, o->html, before, facts, times->path != NULL ? times : NULL)) &&
           (o->dot == NULL || pages_write_dot(j, o->dot));
}

static void print_figures(const Job *j, const Totals *t, Measures *m, const char *facts)
{
    const Options *o = &j->cli->options;
    if (is_dot_printed(o)) // and nothing else
        return;
    if (o->json != NULL)
        fputs(facts, stdout);
    else if (o->html == NULL && o->dot == NULL)
        print_text(j, t, m);
    for (uint32_t i = 0; i < 2 && o->json == NULL; i++)
        if ((i == 0 ? o->html : o->dot) != NULL)
            printf("wrote %s\n", i == 0 ? o->html : o->dot);
}

// Times are those of a CPU: without --cpu that is meant.
static bool read_times(Cli *c, Times *t)
{
    const Options *o = &c->options;
    *t = (Times){0};
    if (o->json != NULL && is_dot_printed(o))
        return diag_error(c->diag, (Span){0}, E0003, "--dot -: with --json, expected the name of a file");
    if (o->times == NULL)
        return true;
    if (o->html == NULL)
        return diag_error(c->diag, (Span){0}, E0003, "--times %s: expected --html with it", o->times);
    return times_read(c, o->times, t);
}

ExitCode cmd_inspect(Cli *c)
{
    Job j;
    Session session;
    Load load;
    Times times;
    const char *before = NULL;
    c->trusts_data = true;
    if (!read_times(c, &times) || !job_begin(&j, c, times.path != NULL ? times.cpu : "generic", false))
        return cli_fail(c);
    if (c->options.html != NULL)
        before = pages_graph(c->arena, j.graph);
    if (!job_plan(&j))
        return cli_fail(c);
    if (c->options.stop_after != NULL)
        return job_end_early(&j);
    j.host.compile_gpu = NULL; // slow, and nothing of it is printed
    const bool is_validated = c->options.validate != NULL || c->options.certify != NULL;
    if (!load_find(&j, &load) || !job_emit(&j) || (is_validated && !validation_run(&j)))
        return cli_fail(c);
    if (!session_find(&j, &session))
        return cli_fail(c);
    if (!streaming_count_whole(&j.stream, c->diag, &j.pipeline))
        return cli_fail(c);
    const Totals t = facts_count(j.plan);
    const bool is_counted = c->options.no_code == NULL && !is_dot_printed(&c->options);
    const MachineCode code = is_counted ? machine_code_count(&j, board_cc_options(j.cpu.name))
                                        : (MachineCode){.unknown = "it was not asked for"};
    const bool is_run = is_counted && (j.cpu.features & CPU_INTEGERS) != 0 && j.target->device == DEVICE_HOST;
    const BoardCounts run = is_run ? board_count(&j) : (BoardCounts){0};
    Measures m = {&code, is_run ? &run : NULL};
    const char *facts = inspect_json(&j, &t, &m);
    if (!write_pages(&j, before, facts, &times))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    print_figures(&j, &t, &m, facts);
    return EXIT_OK;
}
