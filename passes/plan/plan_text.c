// SPDX-License-Identifier: Apache-2.0
// The text of a plan, for --dump and for tests: kernels in order with their arguments, then buffers with
// lifetime and place.
#include "passes/pass.h"

static const char *const region_name[REGION_COUNT] = {"arena",    "state",   "param", "weights",
                                                      "prepared", "experts", "outer", "maps",
                                                      "file"};

static void print_loop(const PlanLoop *loop, Str *out)
{
    str_add(out, "  body {\n");
    for (uint32_t i = 0; i < loop->body->slots.len; i++) {
        const PlanSlot *s = &loop->body->slots.data[i];
        if (s->arg == PLAN_NO_ARG)
            str_printf(out, "  slot %u: the iteration\n", i);
        else
            str_printf(out, "  slot %u: arg %u from %lld, %lld an iteration%s\n", i, s->arg,
                       (long long)s->start, (long long)s->step, s->is_written ? ", write" : "");
    }
    plan_print(loop->body, out);
    str_add(out, "  }\n");
}

// What the passes dispatch and threads found: whom a kernel waits for, and which threads run it.
static void print_order(const Plan *p, const PlanKernel *k, Str *out)
{
    for (uint32_t i = 0; i < k->launch.after.len; i++)
        str_printf(out, "%s %u", i == 0 ? "  after" : ",", k->launch.after.data[i]);
    if (k->launch.after.len != 0)
        str_printf(out, "; level %u, group %u\n", k->launch.level, k->launch.group);
    if (p->is_shared && k->threads.is_shared)
        str_printf(out, "  all threads%s\n", k->threads.waits ? ", after a barrier" : "");
    else if (p->is_shared)
        str_printf(out, "  thread %u%s\n", k->threads.thread, k->threads.waits ? ", after a barrier" : "");
}

static void print_kernel(const Plan *p, uint32_t index, Str *out)
{
    const PlanKernel *k = &p->kernels.data[index];
    str_printf(out, "kernel %u", index);
    if (k->copy.src != 0)
        str_printf(out, ": copy of %%%u into b%u at %lld", k->copy.src, k->copy.dst.buf,
                   (long long)k->copy.dst.offset);
    for (uint32_t i = 0; i < k->body.len; i++)
        str_printf(out, "%s %%%u = %s", i == 0 ? ":" : ",", k->body.data[i],
                   op_info[graph_node(p->graph, k->body.data[i])->op].name);
    const Loc *at = &p->locs.data[k->root];
    const bool is_packing = k->copy.src == 0 && k->body.len == 0;
    if (is_packing)
        str_printf(out, ": packs %%%u", k->root);
    if (k->copy.src == 0 && !is_packing)
        str_printf(out, " -> b%u at %lld", at->buf, (long long)at->offset);
    str_char(out, '\n');
    if (k->kernel == NULL)
        return;
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        str_printf(out, "  arg %u: b%u bytes [%llu, %llu) from %llu%s%s\n", i, a->buf,
                   (unsigned long long)a->begin, (unsigned long long)a->end,
                   (unsigned long long)a->byte_offset, a->is_read ? " read" : "",
                   a->is_written ? " write" : "");
    }
    print_order(p, k, out);
    kernel_print(k->kernel, out);
    if (k->loop != NULL)
        print_loop(k->loop, out);
}

static void print_buffer(const Plan *p, BufId id, Str *out)
{
    const PlanBuffer *b = &p->buffers.data[id];
    str_printf(out, "b%u %s \"%s\": %llu bytes", id, region_name[b->region], b->name,
               (unsigned long long)b->bytes);
    if (p->region_bytes[b->region] != 0) {
        const bool is_used = b->bytes != 0 && b->first != UINT32_MAX;
        const PlanBank *bank = is_used ? plan_bank_of(p, b) : NULL;
        str_printf(out, " at %llu", (unsigned long long)b->offset);
        if (bank != NULL)
            str_printf(out, " in bank %s", bank->name);
        if (b->region == REGION_ARENA && b->first != UINT32_MAX)
            str_printf(out, ", steps %u to %u", b->first, b->last);
        if (b->shares != 0)
            str_printf(out, ", in place of b%u", b->shares);
    }
    str_char(out, '\n');
}

void plan_print(const Plan *plan, Str *out)
{
    rlx_assert(plan->buffers.len > 0 && plan->prepare.n_kernels <= plan->kernels.len);
    for (uint32_t i = 0; i < plan->kernels.len; i++)
        print_kernel(plan, i, out);
    if (plan->prepare.n_kernels != 0)
        str_printf(out, "preparation: %u kernels\n", plan->prepare.n_kernels);
    for (uint32_t i = 0; i < plan->checks.len; i++)
        str_printf(out, "check b%u at %llu after %u kernels: %s\n", plan->checks.data[i].buf,
                   (unsigned long long)plan->checks.data[i].byte_offset, plan->n_check_kernels,
                   plan->checks.data[i].message);
    for (BufId b = 1; b < plan->buffers.len; b++)
        print_buffer(plan, b, out);
    if (plan->region_bytes[REGION_ARENA] != 0)
        str_printf(out, "arena %llu bytes, lower bound %llu, optimal: %s\n",
                   (unsigned long long)plan->region_bytes[REGION_ARENA],
                   (unsigned long long)plan->arena_lower_bound, plan->arena_optimal ? "yes" : "no");
}
