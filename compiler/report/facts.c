// SPDX-License-Identifier: Apache-2.0
// See facts.h.
#include "compiler/report/facts.h"
#include <math.h>

static void count_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    Totals *t = ctx;
    (void)p;
    t->macs += k->macs * times;
    t->flops += k->flops * times;
    t->moved_bytes += plan_kernel_bytes(k) * times;
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

Totals facts_kernels(Plan *p)
{
    Totals t = {0};
    plan_walk(p, count_kernel, &t);
    return t;
}

Totals facts_count(Plan *p)
{
    Totals t = facts_kernels(p);
    count_ops(p, &t);
    return t;
}

static BufId owner_of(const Plan *p, BufId b)
{
    rlx_assert(b != 0 && b < p->buffers.len);
    while (p->buffers.data[b].shares != 0)
        b = p->buffers.data[b].shares;
    return b;
}

// Bytes of those in the arena, each buffer once.
static uint64_t io_bytes(const Plan *p, const PlanIo *io, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        const PlanBuffer *b = &p->buffers.data[owner_of(p, io[i].buf)];
        bool is_new = b->region == REGION_ARENA;
        for (uint32_t k = 0; k < i; k++)
            is_new = is_new && owner_of(p, io[k].buf) != owner_of(p, io[i].buf);
        bytes += is_new ? io[i].bytes < b->bytes ? io[i].bytes : b->bytes : 0;
    }
    return bytes;
}

uint64_t facts_least_arena(const Plan *p)
{
    const uint64_t in = io_bytes(p, p->inputs.data, p->inputs.len);
    const uint64_t out = io_bytes(p, p->outputs.data, p->outputs.len);
    return in > out ? in : out;
}

static unsigned long long whole(double x)
{
    return x < 1e18 ? (unsigned long long)x : (unsigned long long)1e18;
}

// Of what is not proved to be the least, the gap is not rounded down.
static unsigned long long cost_of(const PlanBound *b)
{
    return whole(plan_bound_is_optimal(b) ? b->cost : ceil(b->cost));
}

void facts_bound_text(const PlanBound *b, const char *unit, const char *choice, Str *out)
{
    rlx_assert(whole(b->least) <= cost_of(b));
    if (plan_bound_is_optimal(b))
        str_printf(out, "%llu %s; no %s takes fewer, optimal: yes\n", cost_of(b), unit, choice);
    else
        str_printf(out, "%llu %s; any %s takes at least %llu, optimal: not proved (gap %llu)\n", cost_of(b),
                   unit, choice, whole(b->least), cost_of(b) - whole(b->least));
}

void facts_bound_json(const PlanBound *b, Str *out)
{
    str_printf(out, "{\"cost\": %llu, \"lower_bound\": %llu, \"optimal\": %s}", cost_of(b), whole(b->least),
               plan_bound_is_optimal(b) ? "true" : "false");
}

// Multiply-adds that are computed again, so that values need not be there as a whole.
static uint64_t macs_again(const Plan *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->kernels.len; i++)
        sum += p->kernels.data[i].again;
    return sum;
}

void facts_schedule_text(const Plan *p, Str *out)
{
    if (p->schedule_cost.cost == 0)
        return;
    str_add(out, "schedule chosen for its memory: ");
    facts_bound_text(&p->schedule_cost, "instructions by estimate", "schedule of these kernels", out);
    const unsigned long long again = macs_again(p);
    if (again != 0)
        str_printf(out, "  %llu multiply-adds are computed again, so that values need not be whole\n", again);
}

void facts_schedule_json(const Plan *p, Str *out)
{
    if (p->schedule_cost.cost == 0)
        return;
    str_add(out, "  \"schedule_instructions\": ");
    facts_bound_json(&p->schedule_cost, out);
    str_printf(out, ",\n  \"multiply_adds_again\": %llu,\n", (unsigned long long)macs_again(p));
}
