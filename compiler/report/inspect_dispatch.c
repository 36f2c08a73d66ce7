// SPDX-License-Identifier: Apache-2.0
// See inspect_dispatch.h. All of it is known at compile time: kernels of the bodies of loops count once.
#include "compiler/report/inspect_dispatch.h"
#include "ir/plan/plan_table.h"
#include <stdio.h>

// Does whoever goes around the loop need something that the model computes?
static bool is_computed(const PlanLoop *l)
{
    return l->trips != PLAN_NO_ARG || l->cond != PLAN_NO_ARG || l->has_cond;
}

static const char *launcher_of(const PlanLoop *l)
{
    if (l->is_on_device)
        return l->is_unrolled ? "all iterations recorded" : "launched by the device";
    return is_computed(l) ? "launched by the host, which reads whether it goes on" : "launched by the host";
}

// Recursion: as deep as loops nest.
static void print_loops(const Plan *p)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        if (k->loop == NULL)
            continue;
        printf("loop    %s: %u kernels, %s\n", k->kernel->name, k->loop->body->kernels.len,
               launcher_of(k->loop));
        print_loops(k->loop->body);
    }
}

static void add_loops(const Plan *p, const char **comma, Str *out)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        if (k->loop == NULL)
            continue;
        str_printf(out, "%s{\"name\": \"%s\", \"kernels\": %u, \"computed\": %s, ", *comma, k->kernel->name,
                   k->loop->body->kernels.len, is_computed(k->loop) ? "true" : "false");
        str_printf(out, "\"on_device\": %s, \"unrolled\": %s}", k->loop->is_on_device ? "true" : "false",
                   k->loop->is_unrolled ? "true" : "false");
        *comma = ", ";
        add_loops(k->loop->body, comma, out);
    }
}

static void print_groups(const PlanCounts *c)
{
    const char *comma = "";
    printf("groups  ");
    for (uint32_t i = 0; i < PLAN_GROUP_SIZES; i++)
        if (c->groups_by_size[i] != 0) {
            printf("%s%u of %u%s", comma, c->groups_by_size[i], i + 1,
                   i + 1 == PLAN_GROUP_SIZES ? " and more" : "");
            comma = ", ";
        }
    printf("; the largest has %u\n", c->largest_group);
}

void inspect_dispatch_print(const Plan *p)
{
    const PlanCounts c = plan_counts(p);
    printf("launches %u in %u groups, %u barriers", c.launches, c.groups, c.barriers);
    if (p->caps->is_gpu)
        printf(" (%u before %u kernels were brought forward)", c.barriers_placed, c.moved);
    printf("\n");
    if (p->caps->is_gpu)
        print_groups(&c);
    printf("fused   %u nodes are computed in kernels of others\n", c.fused);
    if (c.split != 0)
        printf("submits %u launches first, then the others\n", c.split);
    if (p->caps->is_gpu)
        print_loops(p);
}

void inspect_dispatch_json(const Plan *p, Str *out)
{
    const PlanCounts c = plan_counts(p);
    str_printf(out,
               "  \"launches\": %u,\n  \"barriers\": %u,\n  \"barriers_placed\": %u,\n  \"moved\": %u,\n",
               c.launches, c.barriers, c.barriers_placed, c.moved);
    str_printf(out, "  \"groups\": %u,\n  \"largest_group\": %u,\n  \"groups_by_size\": [", c.groups,
               c.largest_group);
    for (uint32_t i = 0; i < PLAN_GROUP_SIZES; i++)
        str_printf(out, "%s%u", i == 0 ? "" : ", ", c.groups_by_size[i]);
    str_add(out, "],\n");
    str_printf(out, "  \"fused_nodes\": %u,\n  \"split\": %u,\n", c.fused, c.split);
    if (!p->caps->is_gpu)
        return;
    const char *comma = "";
    str_add(out, "  \"loops\": [");
    add_loops(p, &comma, out);
    str_add(out, "],\n");
}
