// SPDX-License-Identifier: Apache-2.0
// See inspect_banks.h.
#include "compiler/report/inspect_banks.h"
#include "compiler/report/facts.h"
#include "compiler/system/json_text.h"
#include "ir/plan/plan_table.h"

// Has it bytes of its own in bank `i`?
static bool is_in(const Plan *p, BufId b, uint32_t i)
{
    const PlanBuffer *buf = &p->buffers.data[b];
    const Region region = p->banks.data[i].is_weights ? REGION_WEIGHTS : REGION_ARENA;
    return buf->region == region && buf->bank == i && buf->shares == 0 && plan_has_bytes(buf);
}

static void text_of_bank(const PlanBank *b, Str *out)
{
    str_printf(out, "bank    %s%s: %llu of %llu bytes, ", b->name, b->is_weights ? " (weights)" : "",
               (unsigned long long)plan_bank_used(b), (unsigned long long)b->size);
    str_printf(out, "%llu bytes read and written in a run, at ", (unsigned long long)b->traffic);
    str_f64(out, b->cycles);
    str_add(out, " cycles a byte\n");
    if (b->state != 0)
        str_printf(out, "    %-32s %10llu bytes\n", "(state)", (unsigned long long)b->state);
}

static const char *const kinds[] = {"ram", "weights"};

static void text_of_cost(const Plan *p, uint32_t kind, Str *out)
{
    if (plan_count_banks(p, kind != 0) < 2)
        return;
    str_printf(out, "banks of %s: ", kinds[kind]);
    facts_bound_text(&p->bank_cost[kind], "cycles for reads and writes", "division of these buffers", out);
}

void inspect_banks_text(const Plan *p, Str *out)
{
    for (uint32_t kind = 0; kind < 2; kind++)
        text_of_cost(p, kind, out);
    for (uint32_t i = 0; i < p->banks.len; i++) {
        const PlanBank *bank = &p->banks.data[i];
        text_of_bank(bank, out);
        for (BufId b = 1; b < p->buffers.len; b++) {
            const PlanBuffer *buf = &p->buffers.data[b];
            rlx_assert(!is_in(p, b, i) || buf->offset >= bank->base);
            if (is_in(p, b, i))
                str_printf(out, "    %-32s %10llu bytes at %llu, %llu read and written\n", buf->name,
                           (unsigned long long)buf->bytes, (unsigned long long)(buf->offset - bank->base),
                           (unsigned long long)buf->traffic);
        }
    }
}

static void json_of_buffers(const Plan *p, uint32_t bank, Str *out)
{
    const char *comma = "";
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (!is_in(p, b, bank))
            continue;
        str_printf(out, "%s\n      {\"id\": %u, \"name\": \"%s\", ", comma, b,
                   json_text(out->arena, buf->name));
        str_printf(out, "\"offset\": %llu, \"bytes\": %llu, \"traffic\": %llu}",
                   (unsigned long long)(buf->offset - p->banks.data[bank].base),
                   (unsigned long long)buf->bytes, (unsigned long long)buf->traffic);
        comma = ",";
    }
}

static void json_of_costs(const Plan *p, Str *out)
{
    const char *comma = "";
    str_add(out, "  \"bank_cycles\": {");
    for (uint32_t kind = 0; kind < 2; kind++) {
        if (plan_count_banks(p, kind != 0) == 0)
            continue;
        str_printf(out, "%s\"%s\": ", comma, kinds[kind]);
        facts_bound_json(&p->bank_cost[kind], out);
        comma = ", ";
    }
    str_add(out, "},\n");
}

void inspect_banks_json(const Plan *p, Str *out)
{
    if (p->banks.len == 0)
        return;
    json_of_costs(p, out);
    str_add(out, "  \"banks\": [");
    for (uint32_t i = 0; i < p->banks.len; i++) {
        const PlanBank *b = &p->banks.data[i];
        str_printf(out, "%s\n    {\"name\": \"%s\", \"weights\": %s, \"size\": %llu, \"cycles\": ",
                   i == 0 ? "" : ",", b->name, b->is_weights ? "true" : "false", (unsigned long long)b->size);
        str_f64(out, b->cycles);
        str_printf(out,
                   ", \"used\": %llu, \"bytes\": %llu, \"state_bytes\": %llu, \"lower_bound\": %llu, "
                   "\"optimal\": %s, \"traffic\": %llu, \"buffers\": [",
                   (unsigned long long)plan_bank_used(b), (unsigned long long)b->bytes,
                   (unsigned long long)b->state, (unsigned long long)b->lower_bound,
                   b->is_optimal ? "true" : "false", (unsigned long long)b->traffic);
        json_of_buffers(p, i, out);
        str_add(out, "]}");
    }
    str_add(out, "\n  ],\n");
}
