// SPDX-License-Identifier: Apache-2.0
// See inspect_json.h.
#include "compiler/report/inspect_json.h"
#include "compiler/report/inspect_language.h"
#include "compiler/job/interface.h"
#include "compiler/report/inspect_banks.h"
#include "compiler/report/inspect_dispatch.h"
#include "compiler/system/json_text.h"
#include "ir/plan/plan_table.h"

static void print_ios(const char *kind, const PlanIo *io, uint32_t n, Str *out)
{
    str_printf(out, "  \"%s\": [", kind);
    for (uint32_t i = 0; i < n; i++) {
        str_printf(out, "%s{\"name\": \"%s\", \"dtype\": \"%s\", \"shape\": [", i == 0 ? "" : ", ",
                   json_text(out->arena, io[i].name), dtype_info[io[i].dtype].name);
        for (uint32_t k = 0; k < io[i].rank; k++)
            str_printf(out, "%s%lld", k == 0 ? "" : ", ", (long long)io[i].dim[k]);
        str_add(out, "]}");
    }
    str_add(out, "],\n");
}

typedef struct Kernels {
    Str *out;
    const Job *job;
    const Measures *measures;
    const char *comma;
} Kernels;

// Prints a launch; for a loop, which is no launch, only where it stands.
static void print_launch(const PlanKernel *k, Str *out)
{
    str_printf(out, ", \"group\": %u, \"level\": %u", k->launch.group, k->launch.level);
    if (k->loop != NULL)
        return;
    const KernelGrid grid = kernel_grid(k->kernel);
    str_printf(out, ", \"grid\": {\"groups\": %llu, \"threads\": %u}", (unsigned long long)grid.groups,
               grid.group);
}

static void print_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Kernels *j = ctx;
    Str *out = j->out;
    str_printf(out, "%s\n    {\"name\": \"%s\", \"nodes\": \"%s\", \"macs\": %llu, \"flops\": %llu, ",
               j->comma, json_text(out->arena, k->kernel->name), json_text(out->arena, k->kernel->comment),
               (unsigned long long)(k->macs * times), (unsigned long long)(k->flops * times));
    str_printf(out, "\"bytes\": %llu", (unsigned long long)(plan_kernel_bytes(k) * times));
    if (p->caps->threads > 1)
        str_printf(out, ", \"split\": %s, \"thread\": %d, \"waits\": %s",
                   k->threads.is_shared ? "true" : "false", k->threads.thread,
                   k->threads.waits ? "true" : "false");
    if (p->caps->is_gpu)
        print_launch(k, out);
    if (k->trade.what != NULL)
        str_printf(out,
                   ", \"traded\": {\"what\": \"%s\", \"scratch_bytes\": %llu, \"weight_bytes\": %llu, "
                   "\"cycles\": %llu, \"plain_cycles\": %llu}",
                   k->trade.what, (unsigned long long)k->trade.scratch_bytes,
                   (unsigned long long)k->trade.weight_bytes, (unsigned long long)k->trade.cycles,
                   (unsigned long long)k->trade.plain_cycles);
    inspect_board_kernel_json(j->job, j->measures, k, times, out);
    str_add(out, "}");
    j->comma = ",";
}

static void print_buckets(const Job *j, Str *out)
{
    const PlanBuckets *b = j->plan->buckets;
    rlx_assert(b == NULL || b->n != 0);
    for (uint32_t i = 0; b != NULL && i < b->n; i++) {
        const Totals t = facts_kernels(b->plan[i]);
        str_printf(out, "%s\n    {\"sizes\": {", i == 0 ? "  \"buckets\": [" : ",");
        for (uint32_t k = 0; k < b->n_symbols; k++)
            str_printf(out, "%s\"%s\": %lld", k == 0 ? "" : ", ", json_text(out->arena, j->buckets.name[k]),
                       (long long)b->size[i][k]);
        str_printf(out,
                   "}, \"arena_bytes\": %llu, \"kernels\": %u, \"macs\": %llu, \"flops\": %llu, "
                   "\"bytes\": %llu}",
                   (unsigned long long)b->arena_bytes[i], plan_count_kernels(b->plan[i]),
                   (unsigned long long)t.macs, (unsigned long long)t.flops,
                   (unsigned long long)t.moved_bytes);
    }
    if (b != NULL)
        str_add(out, "\n  ],\n");
}

// Where and when buffers have bytes of their own. Steps are kernels of the plan, without bodies of loops.
static void print_memory(const Plan *p, Str *out)
{
    const uint32_t at = plan_peak_step(p);
    const PlanNodes nodes = plan_nodes(p, out->arena);
    const char *comma = "";
    str_printf(out, "  \"steps\": %u,\n  \"peak_step\": %u,\n  \"peak_bytes\": %llu,\n", p->kernels.len, at,
               (unsigned long long)plan_live_bytes(p, at));
    str_add(out, "  \"buffers\": [");
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (!facts_is_placed(buf))
            continue;
        rlx_assert(p->banks.len != 0 || buf->offset + buf->bytes <= p->region_bytes[REGION_ARENA]);
        str_printf(out, "%s\n    {\"id\": %u, \"name\": \"%s\", \"nodes\": \"%s\", ", comma, b,
                   json_text(out->arena, buf->name),
                   json_text(out->arena, plan_buffer_nodes(&nodes, b, out->arena)));
        str_printf(out, "\"offset\": %llu, \"bytes\": %llu, \"first\": %u, \"last\": %u}",
                   (unsigned long long)buf->offset, (unsigned long long)buf->bytes, buf->first, buf->last);
        comma = ",";
    }
    str_printf(out, "%s],\n", *comma != '\0' ? "\n  " : "");
}

static void print_pruned(const PlanPruned *p, Str *out)
{
    if (p->channels == 0)
        return;
    str_printf(
        out,
        "  \"pruned\": {\"channels\": %llu, \"constant\": %llu, \"unread\": %llu, \"macs_before\": %llu, "
        "\"macs\": %llu, \"weight_bytes_before\": %llu, \"weight_bytes\": %llu},\n",
        (unsigned long long)p->channels, (unsigned long long)p->constant, (unsigned long long)p->unread,
        (unsigned long long)p->macs[0], (unsigned long long)p->macs[1],
        (unsigned long long)p->weight_bytes[0], (unsigned long long)p->weight_bytes[1]);
}

static void print_totals(const Job *j, const Totals *t, Str *out)
{
    const Plan *p = j->plan;
    const char *comma = "";
    str_add(out, ",\n  \"ops\": {");
    for (OpId op = 1; op < OP_COUNT; op++)
        if (t->ops[op] != 0) {
            str_printf(out, "%s\"%s\": %u", comma, op_info[op].name, t->ops[op]);
            comma = ", ";
        }
    str_printf(out,
               "},\n  \"parameters\": %llu,\n  \"macs\": %llu,\n  \"flops\": %llu,\n  \"bytes\": %llu,\n",
               (unsigned long long)t->parameters, (unsigned long long)t->macs, (unsigned long long)t->flops,
               (unsigned long long)t->moved_bytes);
    str_printf(out,
               "  \"arena_bytes\": %llu,\n  \"arena_lower_bound_bytes\": %llu,\n  \"arena_optimal\": %s,\n",
               (unsigned long long)p->region_bytes[REGION_ARENA], (unsigned long long)p->arena_lower_bound,
               p->arena_optimal ? "true" : "false");
    str_printf(out, "  \"arena_any_schedule_bytes\": %llu,\n", (unsigned long long)facts_least_arena(p));
    str_printf(
        out,
        "  \"state_bytes\": %llu,\n  \"weight_bytes\": %zu,\n  \"text_bytes\": %zu,\n  \"functions\": %u,\n",
        (unsigned long long)j->emitted.state_bytes, j->emitted.weight_bytes, j->emitted.code_bytes,
        j->emitted.n_functions);
    inspect_adapters_json(j, out);
    if (j->session != NULL)
        str_printf(out, "  \"session_bytes\": %zu,\n", j->session_bytes);
    if (j->emitted.device_bytes != 0)
        str_printf(out, "  \"device_bytes\": %zu,\n", j->emitted.device_bytes);
}

// code_bytes null: it is not known, and code_unknown says why.
static void print_code(const Job *j, const MachineCode *code, Str *out)
{
    if (code == NULL)
        return;
    if (code->unknown != NULL) {
        str_printf(out, "  \"code_bytes\": null,\n  \"code_unknown\": \"%s\",\n",
                   json_text(out->arena, code->unknown));
        return;
    }
    str_printf(out, "  \"code_bytes\": %llu,\n  \"constant_bytes\": %llu,\n  \"code_compiler\": \"%s\",\n",
               (unsigned long long)code->code_bytes, (unsigned long long)code->const_bytes,
               json_text(out->arena, code->compiler));
    str_printf(out, "  \"code_compiler_version\": \"%s\",\n  ", json_text(out->arena, code->version));
    machine_code_sections_json(code, j->emitted.weight_bytes, out);
    str_add(out, ",\n  ");
    machine_code_stack_json(code, out);
    str_add(out, ",\n");
}

const char *inspect_json(const Job *j, const Totals *t, const Measures *m)
{
    const Plan *p = j->plan;
    Str text = str_new(j->cli->arena), *out = &text;
    str_printf(out, "{\n  \"name\": \"%s\",\n  \"cpu\": \"%s\",\n", j->host.name, j->cpu.name);
    print_ios("inputs", p->inputs.data, p->inputs.len, out);
    print_ios("outputs", p->outputs.data, p->outputs.len, out);
    print_ios("params", p->params.data, p->params.len, out);
    print_ios("states", p->states.data, p->states.len, out);
    str_add(out, "  ");
    streaming_print_json(&j->stream, p, out);
    rlx_assert(p->rows.input <= p->inputs.len);
    if (p->rows.input != 0)
        str_printf(out, "\"stream_input\": {\"input\": %u, \"rows\": %lld, \"axis\": %u},\n  ",
                   p->rows.input - 1, (long long)p->rows.n_rows, p->rows.axis);
    str_add(out, interface_json(j));
    print_totals(j, t, out);
    print_pruned(&p->pruned, out);
    print_code(j, m->code, out);
    inspect_board_json(j, m, out);
    if (!p->caps->is_gpu)
        str_printf(out, "  \"threads\": %d,\n", p->caps->threads);
    inspect_dispatch_json(p, out);
    print_buckets(j, out);
    facts_schedule_json(p, out);
    inspect_banks_json(p, out);
    print_memory(p, out);
    str_add(out, "  \"kernels\": [");
    Kernels k = {out, j, m, ""};
    plan_walk(j->plan, print_kernel, &k);
    str_add(out, "\n  ]\n}\n");
    return str_text(out);
}
