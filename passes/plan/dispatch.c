// SPDX-License-Identifier: Apache-2.0
// What the table of launches of a GPU says beside the launches: which ones wait for which, where barriers
// stand, and where a run is cut so that the device begins while the host goes on. All from byte ranges after
// placing. Kernels change places where that saves barriers: a group is what a level of the dependencies is,
// so that there are as few as the longest chain has kernels.
#include "passes/plan/dispatch.h"
#include "passes/plan/device_loops.h"
#include <stdlib.h>
#include <string.h>

// A first part of fewer launches is not worth a submission of its own.
enum { SPLIT_LAUNCHES = 64, SPLIT_PART = 10 };

typedef struct Place {
    PlanKernel kernel;
    uint32_t segment, from;
} Place;

// What the host does in between stays where it is; loops, which stand alone, come behind the others of a
// level.
static int by_level(const void *pa, const void *pb)
{
    const Place *a = pa, *b = pb;
    const uint32_t x[] = {a->segment, a->kernel.launch.level, a->kernel.loop != NULL, a->from},
                   y[] = {b->segment, b->kernel.launch.level, b->kernel.loop != NULL, b->from};
    uint32_t i = 0;
    while (i < 3 && x[i] == y[i])
        i++;
    return (x[i] > y[i]) - (x[i] < y[i]);
}

static uint32_t count_barriers(const Plan *p)
{
    return p->kernels.len == 0 ? 0 : p->kernels.data[p->kernels.len - 1].launch.group;
}

// Kernels that one that was before them is behind now.
static uint32_t count_moved(const Place *place, uint32_t n)
{
    uint32_t moved = 0, lowest = UINT32_MAX; // of those behind
    for (uint32_t i = n; i-- > 0;) {
        moved += place[i].from > lowest;
        lowest = place[i].from < lowest ? place[i].from : lowest;
    }
    return moved;
}

static void put_kernels(Plan *p, const Place *place)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        p->kernels.data[i] = place[i].kernel;
    plan_find_edges(p);
    plan_find_groups(p);
}

static void reorder(Plan *p, Arena *scratch)
{
    const uint32_t n = p->kernels.len, before = count_barriers(p);
    Place *place = ARENA_ARRAY(scratch, Place, n + 1u), *old = ARENA_ARRAY(scratch, Place, n + 1u);
    for (uint32_t i = 0; i < n; i++)
        old[i] = (Place){p->kernels.data[i],
                         i < p->prepare.n_kernels ? 0u
                         : i < p->n_check_kernels ? 1u
                                                  : 2u,
                         i};
    memcpy(place, old, n * sizeof *place);
    qsort(place, n, sizeof *place, by_level);
    put_kernels(p, place);
    if (count_barriers(p) < before) {
        p->gpu.n_moved += count_moved(place, n);
        plan_find_lifetimes(p);
    } else {
        put_kernels(p, old);
    }
}

// The first part of what every run does ends where a barrier stands anyhow.
static uint32_t find_split(const Plan *p)
{
    const uint32_t end = p->kernels.len, n = end - p->prepare.n_kernels;
    uint32_t at = p->prepare.n_kernels + (n / SPLIT_PART > SPLIT_LAUNCHES ? n / SPLIT_PART : SPLIT_LAUNCHES);
    while (at < end && !plan_opens_group(p, at))
        at++;
    return at < end ? at : 0;
}

static bool are_groups_in_order(const Plan *p)
{
    for (uint32_t i = 1; i < p->kernels.len; i++)
        if (p->kernels.data[i].launch.group < p->kernels.data[i - 1].launch.group)
            return false;
    return true;
}

void dispatch_arrange(Plan *p, const PassOptions *o)
{
    rlx_assert(p->prepare.n_kernels <= p->kernels.len);
    Arena scratch = {0};
    plan_find_edges(p);
    plan_find_groups(p);
    if (p->gpu.n_barriers_placed == 0)
        p->gpu.n_barriers_placed = count_barriers(p);
    if (!o->no_reorder && p->kernels.len > 2)
        reorder(p, &scratch);
    p->gpu.split = find_split(p);
    rlx_assert(are_groups_in_order(p) && p->gpu.split <= p->kernels.len);
    arena_free(&scratch);
}

// Recursion: as deep as loops nest.
static void arrange_all(Plan *p, const PassOptions *o)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            arrange_all(p->kernels.data[i].loop->body, o);
    dispatch_arrange(p, o);
}

bool pass_dispatch(Pass *p)
{
    rlx_assert(p->plan != NULL && p->frame == NULL);
    if (!p->options->caps->is_gpu)
        return false;
    arrange_all(p->plan, p->options);
    if (p->options->caps->has_loops)
        device_loops_mark(p->plan);
    return true;
}
