// SPDX-License-Identifier: Apache-2.0
// See check_order.h.
#include "check_order.h"

// Two ranges of a region overlap, or both are memory around a loop, any two places of which may be one.
static bool meet(const Plan *p, const PlanArg *a, const PlanArg *b)
{
    const PlanBuffer *x = &p->buffers.data[a->buf], *y = &p->buffers.data[b->buf];
    if (a->begin >= a->end || b->begin >= b->end || x->region != y->region ||
        (!a->is_written && !b->is_written))
        return false;
    return x->region == REGION_OUTER ||
           (x->offset + a->begin < y->offset + b->end && y->offset + b->begin < x->offset + a->end);
}

// The preparation has ended before a run begins.
static bool has_hazard(const Plan *p, uint32_t first, uint32_t second)
{
    if (first < p->prepare.n_kernels && second >= p->prepare.n_kernels)
        return false;
    const PlanKernel *a = &p->kernels.data[first], *b = &p->kernels.data[second];
    for (uint32_t i = 0; i < a->args.len; i++)
        for (uint32_t j = 0; j < b->args.len; j++)
            if (meet(p, &a->args.data[i], &b->args.data[j]))
                return true;
    return false;
}

// Which kernels come before one by edges: a path of them.
static bool *find_before(Arena *a, const Plan *p)
{
    const uint32_t n = p->kernels.len;
    bool *before = ARENA_ARRAY(a, bool, (size_t)n *n + 1);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].launch.after.len; j++) {
            const uint32_t from = p->kernels.data[i].launch.after.data[j];
            for (uint32_t k = 0; k < from; k++)
                before[i * n + k] |= before[from * n + k];
            before[i * n + from] = true;
        }
    return before;
}

// Edges are hazards that no path of others replaces.
static const char *check_edges(const Plan *p, uint32_t at, const bool *before)
{
    const PlanKernel *k = &p->kernels.data[at];
    for (uint32_t i = 0; i < k->launch.after.len; i++) {
        if (k->launch.after.data[i] >= at || !has_hazard(p, k->launch.after.data[i], at))
            return "a kernel waits for one that it does not depend on";
        for (uint32_t j = 0; j < k->launch.after.len; j++)
            if (before[k->launch.after.data[j] * p->kernels.len + k->launch.after.data[i]])
                return "an edge is replaced by others";
    }
    return NULL;
}

static const char *check_hazards(const Plan *p, uint32_t at, const bool *before)
{
    const PlanKernel *k = &p->kernels.data[at];
    bool waits = k->launch.level == 0;
    for (uint32_t i = 0; i < at; i++) {
        const PlanKernel *o = &p->kernels.data[i];
        if (!has_hazard(p, i, at))
            continue;
        if (o->launch.level >= k->launch.level)
            return "kernels of one level depend on each other";
        if (o->launch.group >= k->launch.group)
            return "kernels of one group depend on each other";
        if (!before[at * p->kernels.len + i])
            return "a kernel does not wait for one that it depends on";
        waits = waits || o->launch.level + 1 == k->launch.level;
    }
    return waits ? NULL : "the level of a kernel is too high";
}

// A loop stands alone: the host may do something between its launches.
static const char *check_loops(const Plan *p)
{
    for (uint32_t i = 1; i < p->kernels.len; i++)
        if ((p->kernels.data[i].loop != NULL || p->kernels.data[i - 1].loop != NULL) &&
            p->kernels.data[i].launch.group == p->kernels.data[i - 1].launch.group)
            return "a loop is in a group with others";
    return NULL;
}

// Recursion: as deep as loops nest.
const char *check_order(const Plan *p)
{
    Arena scratch = {0};
    const bool *before = find_before(&scratch, p);
    const char *wrong = check_loops(p);
    for (uint32_t i = 0; i < p->kernels.len && wrong == NULL; i++) {
        wrong = check_hazards(p, i, before);
        wrong = wrong == NULL ? check_edges(p, i, before) : wrong;
        if (wrong == NULL && p->kernels.data[i].loop != NULL)
            wrong = check_order(p->kernels.data[i].loop->body);
    }
    arena_free(&scratch);
    return wrong;
}
