// SPDX-License-Identifier: Apache-2.0
// rlxc inspect: what a model costs, before it is flashed.
#include "compiler/inspect_dispatch.h"
#include "compiler/interface.h"
#include "compiler/job.h"
#include "compiler/json_text.h"
#include <string.h>

typedef struct Totals {
    uint64_t macs, flops, parameters, moved_bytes;
    uint32_t ops[OP_COUNT];
    uint32_t n_ops;
} Totals;

// A loop moves what the kernels of its body do.
static uint64_t kernel_bytes(const PlanKernel *k)
{
    uint64_t bytes = 0;
    for (uint32_t a = 0; a < k->args.len && k->loop == NULL; a++)
        bytes += k->args.data[a].end - k->args.data[a].begin;
    return bytes;
}

static void count_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Totals *t = ctx;
    (void)p;
    t->macs += k->macs * times;
    t->flops += k->flops * times;
    t->moved_bytes += kernel_bytes(k) * times;
}

static void count_ops(const Plan *p, Totals *t)
{
    const Graph *g = p->graph;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (n->op == OP_const || n->op == OP_param)
            t->parameters += (uint64_t)shape_numel(n->shape);
        if (op_info[n->op].kind == OPKIND_LEAF)
            continue;
        t->ops[n->op]++;
        t->n_ops++;
    }
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            count_ops(p->kernels.data[i].loop->body, t);
}

static Totals count(const Job *j)
{
    Totals t = {0};
    plan_walk(j->plan, count_kernel, &t);
    count_ops(j->plan, &t);
    return t;
}

// Of the kernels of one bucket's plan.
static Totals count_bucket(const PlanBuckets *b, uint32_t i)
{
    Totals t = {0};
    plan_walk(b->plan[i], count_kernel, &t);
    return t;
}

// --- memory --------------------------------------------------------------------------------------

// The step at which the arena holds the most.
static uint32_t peak_step(const Plan *p)
{
    uint64_t most = 0;
    uint32_t at = 0;
    for (uint32_t step = 0; step < p->kernels.len; step++) {
        uint64_t live = 0;
        for (BufId b = 1; b < p->buffers.len; b++) {
            const PlanBuffer *buf = &p->buffers.data[b];
            if (buf->region == REGION_ARENA && buf->shares == 0 && buf->first <= step && step <= buf->last)
                live += buf->bytes;
        }
        if (live > most) {
            most = live;
            at = step;
        }
    }
    return at;
}

static void print_peak(const Plan *p)
{
    const uint32_t at = peak_step(p);
    if (p->kernels.len == 0)
        return;
    printf("  at the peak (%s):\n", p->kernels.data[at].kernel->name);
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (buf->region == REGION_ARENA && buf->shares == 0 && buf->first <= at && at <= buf->last)
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

static void print_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)ctx;
    printf("  %-44s %12llu MACs %12llu bytes", k->kernel->name, (unsigned long long)(k->macs * times),
           (unsigned long long)(kernel_bytes(k) * times));
    if (p->caps->threads > 1 && k->is_shared)
        printf("  split%s", k->waits ? " after a barrier" : "");
    else if (p->caps->threads > 1)
        printf("  thread %d%s", k->thread, k->waits ? " after a barrier" : "");
    if (p->caps->is_gpu)
        printf("  group %u", k->group);
    printf("\n");
}

static void count_shared(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p;
    (void)times;
    *(uint32_t *)ctx += k->is_shared;
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
    printf("buckets %u, the largest last:\n ", b->n);
    for (uint32_t k = 0; k < b->n_symbols; k++)
        printf(" %10s", j->buckets.name[k]);
    printf(" %12s %8s %14s %14s %14s\n", "arena bytes", "kernels", "multiply-adds", "flops", "bytes moved");
    for (uint32_t i = 0; i < b->n; i++) {
        const Totals t = count_bucket(b, i);
        printf(" ");
        for (uint32_t k = 0; k < b->n_symbols; k++)
            printf(" %10lld", (long long)b->size[i][k]);
        printf(" %12llu %8u %14llu %14llu %14llu\n", (unsigned long long)b->arena_bytes[i],
               plan_count_kernels(b->plan[i]), (unsigned long long)t.macs, (unsigned long long)t.flops,
               (unsigned long long)t.moved_bytes);
    }
}

static void print_text(const Job *j, const Totals *t)
{
    const Plan *p = j->plan;
    printf("model   %s (%s), cpu %s\n", j->host.name, j->model, j->cpu.name);
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
    printf("RAM     arena %llu bytes, lower bound %llu, optimal: %s; state %llu\n",
           (unsigned long long)p->region_bytes[REGION_ARENA], (unsigned long long)p->arena_lower_bound,
           p->arena_optimal ? "yes" : "no", (unsigned long long)j->emitted.state_bytes);
    print_peak(p);
    printf("flash   weights %zu bytes, C text %zu bytes\n", j->emitted.weight_bytes, j->emitted.code_bytes);
    printf("kernels %u, %u with text of their own\n", plan_count_kernels(p), j->emitted.n_functions);
    if (p->caps->threads > 1)
        printf("threads %d, %u kernels split, %u barriers\n", p->caps->threads, shared_kernels(p),
               plan_count_barriers(p));
    if (p->caps->is_gpu)
        inspect_dispatch_print(p);
    print_buckets(j);
    plan_walk(p, print_kernel, NULL);
}

// --- JSON ----------------------------------------------------------------------------------------

static void print_json_ios(const Job *j, const char *kind, const PlanIo *io, uint32_t n)
{
    printf("  \"%s\": [", kind);
    for (uint32_t i = 0; i < n; i++) {
        printf("%s{\"name\": \"%s\", \"dtype\": \"%s\", \"shape\": [", i == 0 ? "" : ", ",
               json_text(j->cli->arena, io[i].name), dtype_info[io[i].dtype].name);
        for (uint32_t k = 0; k < io[i].rank; k++)
            printf("%s%lld", k == 0 ? "" : ", ", (long long)io[i].dim[k]);
        printf("]}");
    }
    printf("],\n");
}

typedef struct JsonKernels {
    Arena *arena;
    const char *comma;
} JsonKernels;

static void print_json_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    JsonKernels *j = ctx;
    printf("%s\n    {\"name\": \"%s\", \"nodes\": \"%s\", \"macs\": %llu, \"bytes\": %llu", j->comma,
           json_text(j->arena, k->kernel->name), json_text(j->arena, k->kernel->comment),
           (unsigned long long)(k->macs * times), (unsigned long long)(kernel_bytes(k) * times));
    if (p->caps->threads > 1)
        printf(", \"split\": %s, \"thread\": %d, \"waits\": %s", k->is_shared ? "true" : "false", k->thread,
               k->waits ? "true" : "false");
    if (p->caps->is_gpu)
        printf(", \"group\": %u, \"level\": %u", k->group, k->level);
    printf("}");
    j->comma = ",";
}

static void print_json_buckets(const Job *j)
{
    const PlanBuckets *b = j->plan->buckets;
    for (uint32_t i = 0; b != NULL && i < b->n; i++) {
        const Totals t = count_bucket(b, i);
        printf("%s\n    {\"sizes\": {", i == 0 ? "  \"buckets\": [" : ",");
        for (uint32_t k = 0; k < b->n_symbols; k++)
            printf("%s\"%s\": %lld", k == 0 ? "" : ", ", json_text(j->cli->arena, j->buckets.name[k]),
                   (long long)b->size[i][k]);
        printf("}, \"arena_bytes\": %llu, \"kernels\": %u, \"macs\": %llu, \"flops\": %llu, \"bytes\": %llu}",
               (unsigned long long)b->arena_bytes[i], plan_count_kernels(b->plan[i]),
               (unsigned long long)t.macs, (unsigned long long)t.flops, (unsigned long long)t.moved_bytes);
    }
    if (b != NULL)
        printf("\n  ],\n");
}

static void print_json(const Job *j, const Totals *t)
{
    const Plan *p = j->plan;
    Arena *a = j->cli->arena;
    printf("{\n  \"name\": \"%s\",\n  \"cpu\": \"%s\",\n", j->host.name, j->cpu.name);
    print_json_ios(j, "inputs", p->inputs.data, p->inputs.len);
    print_json_ios(j, "outputs", p->outputs.data, p->outputs.len);
    print_json_ios(j, "params", p->params.data, p->params.len);
    print_json_ios(j, "states", p->states.data, p->states.len);
    printf("  ");
    interface_print_json(j);
    printf(",\n  \"ops\": {");
    const char *comma = "";
    for (OpId op = 1; op < OP_COUNT; op++)
        if (t->ops[op] != 0) {
            printf("%s\"%s\": %u", comma, op_info[op].name, t->ops[op]);
            comma = ", ";
        }
    printf("},\n  \"parameters\": %llu,\n  \"macs\": %llu,\n", (unsigned long long)t->parameters,
           (unsigned long long)t->macs);
    printf("  \"arena_bytes\": %llu,\n  \"arena_lower_bound_bytes\": %llu,\n  \"arena_optimal\": %s,\n",
           (unsigned long long)p->region_bytes[REGION_ARENA], (unsigned long long)p->arena_lower_bound,
           p->arena_optimal ? "true" : "false");
    printf(
        "  \"state_bytes\": %llu,\n  \"weight_bytes\": %zu,\n  \"code_bytes\": %zu,\n  \"functions\": %u,\n",
        (unsigned long long)j->emitted.state_bytes, j->emitted.weight_bytes, j->emitted.code_bytes,
        j->emitted.n_functions);
    if (j->emitted.device_bytes != 0)
        printf("  \"device_bytes\": %zu,\n", j->emitted.device_bytes);
    if (p->caps->is_gpu)
        inspect_dispatch_print_json(p);
    else
        printf("  \"threads\": %d,\n  \"barriers\": %u,\n", p->caps->threads, plan_count_barriers(p));
    print_json_buckets(j);
    printf("  \"kernels\": [");
    JsonKernels k = {a, ""};
    plan_walk(p, print_json_kernel, &k);
    printf("\n  ]\n}\n");
}

ExitCode cmd_inspect(Cli *c)
{
    Job j;
    if (!job_begin(&j, c, "generic", false) || !job_plan(&j))
        return cli_fail(c);
    if (c->options.stop_after != NULL) {
        cli_progress_end();
        return EXIT_OK;
    }
    j.host.compile_gpu = NULL; // slow, and nothing of it is printed
    if (!job_emit(&j))
        return cli_fail(c);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    const Totals t = count(&j);
    if (c->options.json != NULL)
        print_json(&j, &t);
    else
        print_text(&j, &t);
    return EXIT_OK;
}
