// SPDX-License-Identifier: Apache-2.0
// See inspect_dispatch.h. All of it is known at compile time: kernels of the bodies of loops count once.
#include "compiler/inspect_dispatch.h"

#include <stdio.h>

enum { HISTOGRAM = 8 }; // the last one: so many and more

typedef struct Dispatch {
    uint32_t launches, barriers, placed, moved, groups;
    uint32_t nodes, kernels_of_nodes;
    uint32_t largest;          // group
    uint32_t sizes[HISTOGRAM]; // groups by their sizes, from 1 on
} Dispatch;

static void end_group(Dispatch *d, uint32_t size)
{
    if (size == 0)
        return;
    d->groups++;
    d->largest = size > d->largest ? size : d->largest;
    d->sizes[(size < HISTOGRAM ? size : HISTOGRAM) - 1]++;
}

// Recursion: as deep as loops nest.
static void count(const Plan *p, Dispatch *d)
{
    uint32_t size = 0; // of the group so far; loops are none
    d->placed += p->n_barriers_placed;
    d->moved += p->n_moved;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        if (plan_opens_group(p, i)) {
            d->barriers++;
            end_group(d, size);
            size = 0;
        }
        if (k->loop != NULL) {
            count(k->loop->body, d);
            continue;
        }
        size++;
        d->launches++;
        d->nodes += k->body.len;
        d->kernels_of_nodes += k->body.len != 0;
    }
    end_group(d, size);
}

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

void inspect_dispatch_print(const Plan *p)
{
    Dispatch d = {0};
    count(p, &d);
    printf("launches %u in %u groups, %u barriers (%u before %u kernels were brought forward)\n", d.launches,
           d.groups, d.barriers, d.placed, d.moved);
    printf("groups  ");
    const char *comma = "";
    for (uint32_t i = 0; i < HISTOGRAM; i++)
        if (d.sizes[i] != 0) {
            printf("%s%u of %u%s", comma, d.sizes[i], i + 1, i + 1 == HISTOGRAM ? " and more" : "");
            comma = ", ";
        }
    printf("; the largest has %u\nfused   %u nodes are computed in kernels of others\n", d.largest,
           d.nodes - d.kernels_of_nodes);
    if (p->split != 0)
        printf("submits %u launches first, then the others\n", p->split);
    print_loops(p);
}

void inspect_dispatch_json(const Plan *p, Str *out)
{
    Dispatch d = {0};
    count(p, &d);
    str_printf(out,
               "  \"launches\": %u,\n  \"barriers\": %u,\n  \"barriers_placed\": %u,\n  \"moved\": %u,\n",
               d.launches, d.barriers, d.placed, d.moved);
    str_printf(out, "  \"groups\": %u,\n  \"largest_group\": %u,\n  \"groups_by_size\": [", d.groups,
               d.largest);
    for (uint32_t i = 0; i < HISTOGRAM; i++)
        str_printf(out, "%s%u", i == 0 ? "" : ", ", d.sizes[i]);
    str_printf(out, "],\n  \"loops\": [");
    const char *comma = "";
    add_loops(p, &comma, out);
    str_printf(out, "],\n  \"fused_nodes\": %u,\n  \"split\": %u,\n", d.nodes - d.kernels_of_nodes, p->split);
}
