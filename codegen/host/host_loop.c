// SPDX-License-Identifier: Apache-2.0
// The function of a loop: it calls the kernels of the body in order, once an iteration. Its memory is what
// the plan around it hands in, so it needs neither recursion nor allocation.
#include "codegen/host/host_parts.h"

static const char *arg_name(const PlanKernel *k, uint32_t arg)
{
    return k->kernel->params.data[arg].name;
}

static void print_head(const PlanKernel *k, Str *out)
{
    if (k->kernel->comment[0] != '\0')
        str_printf(out, "// %s\n", host_comment_text(out->arena, k->kernel->comment));
    str_printf(out, "RLX_KERNEL void %s(", k->kernel->name);
    for (uint32_t i = 0; i < k->kernel->params.len; i++) {
        const KParam *p = &k->kernel->params.data[i];
        str_printf(out, "%s%srlx_%s *%s", i == 0 ? "" : ", ", p->is_written ? "" : "const ",
                   dtype_info[p->dtype].name, p->name);
    }
    if (k->threads.is_shared)
        str_printf(out, "%srlx_team *team", k->kernel->params.len ? ", " : "");
    str_add(out, k->kernel->params.len || k->threads.is_shared ? ")\n{\n" : "void)\n{\n");
}

static void mark_uses(const Plan *body, bool *slot_used, bool *region_used)
{
    for (uint32_t i = 0; i < body->kernels.len; i++)
        for (uint32_t j = 0; j < body->kernels.data[i].args.len; j++) {
            const PlanBuffer *b = &body->buffers.data[body->kernels.data[i].args.data[j].buf];
            region_used[b->region] = true;
            if (b->region == REGION_OUTER)
                slot_used[b->slot] = true;
        }
}

// Arguments that only some unused slot has.
static void print_unused(const PlanKernel *k, const bool *slot_used, const bool *region_used, Str *out)
{
    const PlanLoop *loop = k->loop;
    for (uint32_t i = 0; i < k->kernel->params.len; i++) {
        bool is_used = i == loop->trips || i == loop->cond || i == loop->count ||
                       (i == loop->weights && region_used[REGION_WEIGHTS]) ||
                       (i == loop->arena && (region_used[REGION_ARENA] || loop->has_cond));
        for (uint32_t s = 0; s < loop->body->slots.len; s++)
            is_used = is_used || (slot_used[s] && loop->body->slots.data[s].arg == i);
        for (uint32_t c = 0; c < loop->cleared.len; c++)
            is_used = is_used || loop->cleared.data[c] == i;
        if (!is_used)
            str_printf(out, "    (void)%s;\n", arg_name(k, i));
    }
}

static void print_begin(const PlanKernel *k, const bool *region_used, Str *out)
{
    const PlanLoop *loop = k->loop;
    if (region_used[REGION_ARENA] || loop->has_cond)
        str_printf(out, "    unsigned char *const a = (unsigned char *)%s;\n", arg_name(k, loop->arena));
    if (region_used[REGION_WEIGHTS])
        str_printf(out, "    const unsigned char *const w = (const unsigned char *)%s;\n",
                   arg_name(k, loop->weights));
    if (loop->trips == PLAN_NO_ARG)
        str_printf(out, "    const rlx_i64 n = %lld;\n", (long long)loop->max_trips);
    else if (loop->max_trips == INT64_MAX)
        str_printf(out, "    const rlx_i64 n = *%s;\n", arg_name(k, loop->trips));
    else
        str_printf(out, "    const rlx_i64 n = *%s < %lld ? *%s : %lld;\n", arg_name(k, loop->trips),
                   (long long)loop->max_trips, arg_name(k, loop->trips), (long long)loop->max_trips);
    str_add(out, "    rlx_i64 i = 0;\n");
    if (loop->cond != PLAN_NO_ARG)
        str_printf(out, "    int go = *%s != 0;\n", arg_name(k, loop->cond));
    else if (loop->has_cond)
        str_add(out, "    int go = 1;\n");
    for (uint32_t c = 0; c < loop->cleared.len; c++) {
        const PlanArg *arg = &k->args.data[loop->cleared.data[c]];
        if (arg->end > arg->begin)
            str_printf(out, "    %srlx_zero(%s, %llu);\n",
                       k->threads.is_shared ? "if (team->part == 0)\n        " : "",
                       arg_name(k, loop->cleared.data[c]), (unsigned long long)(arg->end - arg->begin));
    }
    if (k->threads.is_shared && loop->cleared.len > 0)
        str_add(out, "    rlx_barrier(team);\n");
}

static void print_slot(const PlanKernel *k, uint32_t index, Str *out)
{
    const PlanSlot *s = &k->loop->body->slots.data[index];
    const char *type = s->is_written ? "unsigned char *" : "const unsigned char *";
    if (s->arg == PLAN_NO_ARG) {
        str_printf(out, "        const rlx_i64 number%u = i;\n", index); // i itself stays out of reach
        str_printf(out, "        const unsigned char *const p%u = (const unsigned char *)&number%u;\n", index,
                   index);
        return;
    }
    str_printf(out, "        %sconst p%u = (%s)%s", type, index, type, arg_name(k, s->arg));
    if (s->start != 0)
        str_printf(out, " %c %llu", s->start < 0 ? '-' : '+',
                   (unsigned long long)(s->start < 0 ? -s->start : s->start));
    if (s->step != 0)
        str_printf(out, " %c i * %llu", s->step < 0 ? '-' : '+',
                   (unsigned long long)(s->step < 0 ? -s->step : s->step));
    str_add(out, ";\n");
}

static const char *base_text(const Plan *p, const PlanBuffer *b, Arena *a)
{
    static const char *const base[REGION_COUNT] = {"a", "s", "s", "w", "s", "w", [REGION_FILE] = "f",
                                                  [REGION_ROWS] = "rows"};
    const PlanBank *bank = host_bank_apart(p, b);
    if (bank != NULL)
        return host_bank_pointer(a, bank);
    if (b->region == REGION_EXPERTS && p->experts.slots > 0)
        return "x";
    return b->region == REGION_OUTER ? arena_printf(a, "p%u", b->slot) : base[b->region];
}

// "a + at_relu1".
static void print_place(const Plan *plan, const PlanArg *arg, const char *const *places, Str *out)
{
    const PlanBuffer *b = &plan->buffers.data[arg->buf];
    const unsigned long long at = host_place(plan, b);
    const char *base = base_text(plan, b, out->arena);
    if (places == NULL || places[arg->buf] == NULL)
        str_printf(out, "%s + %llu", base, at + arg->byte_offset);
    else if (arg->byte_offset == 0)
        str_printf(out, "%s + %s", base, places[arg->buf]);
    else
        str_printf(out, "%s + %s + %llu", base, places[arg->buf], (unsigned long long)arg->byte_offset);
}

static void print_call(const Plan *plan, const PlanKernel *k, const HostCalls *c, const char *indent,
                       Str *out)
{
    // Of a kernel that is cut, one phase is called.
    const PlanPhase *phase = k->threads.phases.len != 0 ? &k->threads.phases.data[c->phase] : NULL;
    const Kernel *kernel = phase != NULL ? phase->kernel : k->kernel;
    str_printf(out, "%s%s(", indent, phase != NULL ? phase->function : k->function);
    for (uint32_t j = 0; j < kernel->params.len; j++) {
        const PlanArg *arg = &k->args.data[phase != NULL ? phase->args[j] : j];
        const KParam *param = &kernel->params.data[j];
        str_printf(out, "%s(%srlx_%s *)(", j == 0 ? "" : ", ", param->is_written ? "" : "const ",
                   dtype_info[param->dtype].name);
        print_place(plan, arg, c->places, out);
        str_char(out, ')');
    }
    if (kernel_is_given(kernel))
        str_add(out, ", since, until");
    if (k->threads.is_shared)
        str_printf(out, "%steam", kernel->params.len ? ", " : "");
    str_add(out, ");\n");
}

// Calls of kernels that only some sets of outputs need are under a condition.
static const char *open_condition(const PlanKernel *k, const char *indent, Str *out)
{
    if (k->skipped_by == 0)
        return indent;
    str_printf(out, "%sif ((skipped & %uu) == 0) // not needed by all sets of outputs\n", indent,
               k->skipped_by);
    return arena_printf(out->arena, "%s    ", indent);
}

// Kernels in a row that one thread runs are in one block.
void host_print_calls(const Plan *plan, HostCalls c, const char *indent, Str *out)
{
    rlx_assert(c.begin <= c.end && c.end <= plan->kernels.len);
    const char *deeper = arena_printf(out->arena, "%s    ", indent);
    int open = -1; // thread of the open block
    for (uint32_t i = c.begin; i < c.end; i++) {
        const PlanKernel *k = &plan->kernels.data[i];
        const int thread = k->threads.is_shared || !plan->is_shared ? -1 : k->threads.thread;
        if (open >= 0 && (thread != open || k->threads.waits))
            str_printf(out, "%s}\n", indent);
        if (k->threads.waits && !c.is_segment)
            str_printf(out, "%srlx_barrier(team);\n", indent);
        if (thread >= 0 && (thread != open || k->threads.waits))
            str_printf(out,
                       thread == 0 ? "%sif (team->part == %d) {\n"
                                   : "%sif (team->part == %d %% team->parts) {\n",
                       indent, thread);
        const char *place = thread >= 0 ? deeper : indent;
        print_call(plan, k, &c, open_condition(k, place, out), out);
        if (plan->probe != 0 && c.phase + 1 >= k->threads.phases.len)
            str_printf(out, "%srlx_probe(%uu);\n", thread >= 0 ? deeper : indent, plan->probe + i);
        if (c.has_laps)
            str_printf(out, "%stime = rlx_lap(profile, %uu, time);\n", place, k->launch.row);
        open = thread;
    }
    if (open >= 0)
        str_printf(out, "%s}\n", indent);
}

void host_print_loop(const PlanKernel *k, Str *out)
{
    rlx_assert(k->loop != NULL && k->loop->body != NULL);
    const PlanLoop *loop = k->loop;
    const Plan *body = loop->body;
    bool *slot_used = ARENA_ARRAY(out->arena, bool, body->slots.len + 1u),
         region_used[REGION_COUNT] = {false};
    mark_uses(body, slot_used, region_used);
    print_head(k, out);
    print_begin(k, region_used, out);
    print_unused(k, slot_used, region_used, out);
    str_printf(out, "    for (; i < n%s; i++) {\n",
               loop->has_cond || loop->cond != PLAN_NO_ARG ? " && go" : "");
    for (uint32_t i = 0; i < body->slots.len; i++)
        if (slot_used[i])
            print_slot(k, i, out);
    host_print_calls(body, (HostCalls){.end = body->kernels.len}, "        ", out);
    if (loop->has_cond) {
        if (k->threads.is_shared)
            str_add(out, "        rlx_barrier(team);\n");
        const PlanIo *cond = &body->outputs.data[0];
        str_printf(out, "        go = *(const rlx_bool *)(a + %llu) != 0;\n",
                   (unsigned long long)(body->buffers.data[cond->buf].offset + cond->byte_offset));
        if (k->threads.is_shared)
            str_add(out, "        rlx_barrier(team);\n");
    }
    str_add(out, "    }\n");
    if (loop->count != PLAN_NO_ARG)
        str_printf(out, "    %s*%s = i;\n", k->threads.is_shared ? "if (team->part == 0)\n        " : "",
                   arg_name(k, loop->count));
    str_add(out, "}\n");
}
