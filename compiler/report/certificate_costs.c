// SPDX-License-Identifier: Apache-2.0
// See certificate_costs.h.
#include "compiler/report/certificate_costs.h"
#include "compiler/report/facts.h"
#include "compiler/system/json_text.h"

CertificateCosts certificate_costs(const Job *j)
{
    CertificateCosts c = {.is_board =
                              (j->cpu.features & CPU_INTEGERS) != 0 && j->target->device == DEVICE_HOST};
    if (!c.is_board)
        return c;
    c.code = machine_code_count(j, board_cc_options(j->cpu.name));
    c.run = board_count(j);
    c.estimate = c.run.unknown != NULL ? inspect_estimate(j) : (Estimate){0};
    return c;
}

// Instructions and cycles of a kernel as they were counted, or instructions as they are estimated (cycles 0).
static bool find_kernel(const Job *j, const CertificateCosts *c, const PlanKernel *k, uint64_t *insns,
                        uint64_t *cycles)
{
    const Measures m = {&c->code, &c->run};
    rlx_assert(k->loop != NULL || k->kernel != NULL);
    *insns = *cycles = 0;
    if (!c->is_board || k->loop != NULL)
        return false;
    if (c->run.unknown == NULL)
        return measures_kernel(&m, k, insns, cycles);
    const Estimate e = estimate_time(j->cpu.name, k->kernel);
    *insns = (uint64_t)e.insns;
    return e.error > 0;
}

// --- JSON ----------------------------------------------------------------------------------------

static void run_json(const CertificateCosts *c, Str *out)
{
    Arena *a = out->arena;
    const BoardCounts *run = &c->run;
    if (run->unknown == NULL) {
        str_printf(out,
                   "  \"run\": {\"instructions\": %llu, \"cycles\": %llu, \"stack_bytes\": %llu, "
                   "\"counted_by\": \"%s\", \"versions\": \"%s\"},\n",
                   (unsigned long long)run->insns, (unsigned long long)run->cycles,
                   (unsigned long long)run->stack_bytes, json_text(a, run->how), json_text(a, run->versions));
        return;
    }
    str_printf(out, "  \"run\": {\"counted_by\": null, \"why\": \"%s\"", json_text(a, run->unknown));
    if (c->estimate.error > 0)
        str_printf(out, ", \"estimated_instructions\": %llu, \"estimate_error_percent\": %llu",
                   (unsigned long long)c->estimate.insns, (unsigned long long)c->estimate.error);
    str_add(out, "},\n");
}

static void code_json(const Job *j, const CertificateCosts *c, Str *out)
{
    Arena *a = out->arena;
    if (c->code.unknown != NULL) {
        str_printf(out, "  \"machine_code\": {\"compiler\": null, \"why\": \"%s\"},\n",
                   json_text(a, c->code.unknown));
        return;
    }
    str_printf(out, "  \"machine_code\": {\"compiler\": \"%s\", \"version\": \"%s\", ",
               json_text(a, c->code.compiler), json_text(a, c->code.version));
    machine_code_sections_json(&c->code, j->emitted.weight_bytes, out);
    str_add(out, ", ");
    machine_code_stack_json(&c->code, out);
    str_add(out, "},\n");
}

void certificate_costs_json(const Job *j, const CertificateCosts *c, Str *out)
{
    const Plan *p = j->plan;
    const uint64_t arena = p->region_bytes[REGION_ARENA], bound = p->arena_lower_bound;
    rlx_assert(bound <= arena);
    str_printf(out,
               "  \"placement\": {\"arena_bytes\": %llu, \"lower_bound_bytes\": %llu, \"is_optimal\": %s, "
               "\"gap_bytes\": %llu, \"any_schedule_bytes\": %llu},\n",
               (unsigned long long)arena, (unsigned long long)bound, p->arena_optimal ? "true" : "false",
               (unsigned long long)(p->arena_optimal ? 0 : arena - bound),
               (unsigned long long)facts_least_arena(p));
    if (!c->is_board)
        return;
    code_json(j, c, out);
    run_json(c, out);
}

void certificate_kernel_json(const Job *j, const CertificateCosts *c, const PlanKernel *k, Str *out)
{
    uint64_t insns = 0, cycles = 0;
    if (!find_kernel(j, c, k, &insns, &cycles))
        return;
    str_printf(out, ", \"%s\": %llu", c->run.unknown == NULL ? "instructions" : "estimated_instructions",
               (unsigned long long)insns);
    if (c->run.unknown == NULL)
        str_printf(out, ", \"cycles\": %llu", (unsigned long long)cycles);
}

// --- text ----------------------------------------------------------------------------------------

static void stack_text(const CertificateCosts *c, Str *out)
{
    const CallGraph *g = &c->code.stack;
    if (c->code.unknown != NULL || g->unknown != NULL) {
        str_printf(out, "\nstack by the graph of calls: unknown, %s\n",
                   c->code.unknown != NULL ? c->code.unknown : g->unknown);
        return;
    }
    str_add(out, "\nstack by the graph of calls (bytes, with these options; `run` calls rlx_run)\n");
    for (uint32_t i = 0; i < g->entries.len; i++) {
        const StackEntry *e = &g->entries.data[i];
        str_printf(out, "  %10llu  %s", (unsigned long long)e->bytes, e->path);
        for (uint32_t k = 0; k < e->libraries.len; k++)
            str_printf(out, "%s %s", k == 0 ? "; and what these take:" : ",", e->libraries.data[k]);
        str_add(out, "\n");
    }
}

static void run_text(const CertificateCosts *c, Str *out)
{
    const BoardCounts *run = &c->run;
    if (run->unknown == NULL)
        str_printf(out,
                   "\na run on zeros: %llu instructions, %llu cycles by the model, %llu bytes of stack\n"
                   "  counted by %s (%s)\n",
                   (unsigned long long)run->insns, (unsigned long long)run->cycles,
                   (unsigned long long)run->stack_bytes, run->how, run->versions);
    else if (c->estimate.error > 0)
        str_printf(
            out, "\na run: an estimated %llu instructions, which can be off by %llu %%; not counted: %s\n",
            (unsigned long long)c->estimate.insns, (unsigned long long)c->estimate.error, run->unknown);
    else
        str_printf(out, "\na run: not counted: %s\n", run->unknown);
}

void certificate_costs_text(const Job *j, const CertificateCosts *c, Str *out)
{
    const Plan *p = j->plan;
    const uint64_t arena = p->region_bytes[REGION_ARENA], bound = p->arena_lower_bound;
    if (p->arena_optimal)
        str_add(out, "placement: optimal; no other places of these buffers take less\n");
    else
        str_printf(out, "placement: at most %llu bytes above the least that these buffers need (%llu)\n",
                   (unsigned long long)(arena - bound), (unsigned long long)bound);
    str_printf(out, "any schedule: at least %llu bytes of arena, for inputs or outputs\n",
               (unsigned long long)facts_least_arena(p));
    if (!c->is_board)
        return;
    if (c->code.unknown != NULL)
        str_printf(out, "machine code: unknown, %s\n", c->code.unknown);
    else
        str_printf(
            out,
            "sections: .text %llu, .rodata %llu of weights and %llu of constants, .data %llu, .bss %llu "
            "bytes\n  compiled by %s (%s)\n",
            (unsigned long long)c->code.code_bytes, (unsigned long long)j->emitted.weight_bytes,
            (unsigned long long)(c->code.const_bytes - c->code.data_bytes),
            (unsigned long long)c->code.data_bytes, (unsigned long long)c->code.bss_bytes, c->code.compiler,
            c->code.version);
    stack_text(c, out);
    run_text(c, out);
}

void certificate_kernel_text(const Job *j, const CertificateCosts *c, const PlanKernel *k, Str *out)
{
    uint64_t insns = 0, cycles = 0;
    if (!c->is_board)
        return;
    if (find_kernel(j, c, k, &insns, &cycles))
        str_printf(out, " %12llu %12llu", (unsigned long long)insns, (unsigned long long)cycles);
    else
        str_add(out, "            -            -");
}
