// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts in the API of a generated model: the tables of rlx_moe.h, and sizes of what the program
// brings. Nothing of it for models without grouped products.
#include "codegen/host/host_parts.h"

bool host_has_moe(const HostEmit *e)
{
    return e->plan->experts.layers.len > 0 ||
           (e->fallback != NULL && e->fallback->plan->experts.layers.len > 0);
}

// The file of experts has those of both sides, the fallback's behind the others.
uint64_t host_moe_bytes(const HostEmit *e)
{
    const uint64_t own = e->plan->region_bytes[REGION_EXPERTS];
    const HostEmit *other = e->fallback != NULL ? e->fallback : e->first;
    const uint64_t both = other == NULL ? own : own + other->plan->region_bytes[REGION_EXPERTS];
    return e->plan->experts.slots == 0 ? own : host_sealed_bytes(both);
}

static uint64_t experts_begin(const HostEmit *e)
{
    if (e->plan->experts.slots == 0)
        return host_region_base(e->plan, REGION_EXPERTS);
    return e->first != NULL ? e->first->plan->region_bytes[REGION_EXPERTS] : 0;
}

// The bytes of a slot: the weights of one expert of any layer.
static uint64_t slot_bytes(const Plan *p)
{
    uint64_t most = 64;
    for (uint32_t i = 0; i < p->experts.layers.len; i++) {
        uint64_t sum = 0;
        for (uint32_t j = 0; j < p->experts.layers.data[i].parts.len; j++)
            sum += (p->experts.layers.data[i].parts.data[j].stride + 63) / 64 * 64;
        most = sum > most ? sum : most;
    }
    return most;
}

uint64_t host_moe_device_bytes(const Plan *p)
{
    uint64_t fetched = 0;
    for (uint32_t i = 0; i < host_n_plans(p) && p->experts.slots > 0; i++) {
        const Plan *own = host_plan(p, i);
        for (uint32_t j = 0; j < own->experts.layers.len; j++) {
            const PlanMoe *m = &own->experts.layers.data[j];
            const uint64_t most = (uint64_t)(m->n_experts < m->rows ? m->n_experts : m->rows);
            fetched = most > fetched && m->parts.len > 0 ? most : fetched;
        }
    }
    return p->experts.slots > 0 ? (p->experts.slots + fetched) * slot_bytes(p) : 0;
}

uint32_t host_moe_layer_of(const Plan *p, const PlanKernel *k)
{
    for (uint32_t i = 0; i < p->experts.layers.len && p->experts.slots > 0; i++)
        for (uint32_t j = 0; j < p->experts.layers.data[i].parts.len; j++)
            for (uint32_t a = 0; a < k->args.len; a++)
                if (k->args.data[a].buf == p->experts.layers.data[i].parts.data[j].table)
                    return i + 1;
    return 0;
}

static uint64_t place_of(const Plan *p, BufId b)
{
    if (b == 0)
        return 0;
    rlx_assert(b < p->buffers.len);
    return host_region_base(p, p->buffers.data[b].region) + p->buffers.data[b].offset;
}

static void print_parts(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    bool any = false;
    for (uint32_t i = 0; i < p->experts.layers.len; i++) {
        uint64_t slot = 0;
        for (uint32_t j = 0; j < p->experts.layers.data[i].parts.len; j++) {
            const PlanMoePart *part = &p->experts.layers.data[i].parts.data[j];
            rlx_assert(part->weights != 0 && part->weights < p->buffers.len);
            if (!any)
                str_printf(out, "static const rlx_moe_part expert_parts%s[] = {\n", e->side);
            str_printf(out, "    {%llu, %llu, %llu, %llu, %uu},\n",
                       (unsigned long long)p->buffers.data[part->weights].offset,
                       (unsigned long long)part->stride, (unsigned long long)place_of(p, part->table),
                       (unsigned long long)slot, part->width);
            slot += (part->stride + 63) / 64 * 64;
            any = true;
        }
    }
    str_add(out, any ? "};\n\n" : "");
}

// Sets of outputs for whose runs the layer is left out: as its first kernel.
static uint32_t skipped_by(const Plan *p, const PlanMoe *m)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++)
            if (p->kernels.data[i].args.data[j].buf == m->choice)
                return p->kernels.data[i].skipped_by;
    return 0;
}

void host_emit_moe_parts(const HostEmit *e, Str *out)
{
    print_parts(e, out);
}

const char *host_emit_moe(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    uint32_t first = 0;
    if (p->experts.layers.len == 0)
        return "NULL";
    str_printf(out, "static const rlx_moe_layer expert_layers%s[] = {\n", e->suffix);
    for (uint32_t i = 0; i < p->experts.layers.len; i++) {
        const PlanMoe *m = &p->experts.layers.data[i];
        str_printf(out, "    {%s, %lldu, %lldu, %lldu, %uu, %uu, %llu, %llu, %uu},\n",
                   host_string_literal(e->arena, m->name), (long long)m->n_experts, (long long)m->rows,
                   (long long)m->per_row, first, m->parts.len, (unsigned long long)place_of(p, m->choice),
                   (unsigned long long)place_of(p, m->page), skipped_by(p, m));
        first += m->parts.len;
    }
    str_printf(out, "};\n\nstatic const rlx_moe experts%s = {%uu, expert_layers%s, %s%s, %llu, %llu, ",
               e->suffix, p->experts.layers.len, e->suffix, first > 0 ? "expert_parts" : "NULL",
               first > 0 ? e->side : "", (unsigned long long)host_moe_bytes(e),
               (unsigned long long)place_of(p, p->experts.head));
    str_printf(out, "%uu, %llu, %llu, %llu, ", p->experts.slots,
               (unsigned long long)(p->experts.slots > 0 ? slot_bytes(p) : 0),
               (unsigned long long)experts_begin(e),
               (unsigned long long)(e->gpu != NULL && p->experts.slots > 0 ? e->gpu->experts : 0));
    host_print_sum(e, e->experts_sum, out);
    str_add(out, "};\n\n");
    return arena_printf(e->arena, "&experts%s", e->suffix);
}

void host_emit_moe_header(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    const uint64_t own = slot_bytes(p) * p->experts.slots,
                   other = e->fallback != NULL ? slot_bytes(e->fallback->plan) * p->experts.slots : 0;
    if (p->experts.layers.len == 0)
        return;
    str_printf(out, "\n// Layers of experts (rlx_moe.h): how many, and the bytes of all experts%s.\n",
               p->experts.slots > 0 ? ", which are a file of their own"
                                    : " and where they begin in the weights");
    str_printf(out, "#define %s_MOE_LAYERS %uu\n#define %s_MOE_BYTES %lluu\n", e->upper,
               p->experts.layers.len, e->upper, (unsigned long long)host_moe_bytes(e));
    if (p->experts.slots == 0)
        str_printf(out, "#define %s_MOE_OFFSET %lluu\n", e->upper,
                   (unsigned long long)host_region_base(p, REGION_EXPERTS));
    else
        str_printf(
            out, "#define %s_MOE_SLOTS %uu\n#define %s_MOE_POOL_BYTES %lluu // memory for rlx_set_moe_pool\n",
            e->upper, p->experts.slots, e->upper, (unsigned long long)(own > other ? own : other));
}
