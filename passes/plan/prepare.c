// SPDX-License-Identifier: Apache-2.0
// Which kernels run only after a parameter was set. Decided by buffers, not by nodes: a kernel
// is moved when all that it reads lasts from run to run, and a buffer lasts when all kernels that write it
// are such. So whatever a kernel reads beside (sizes that are set between runs, states) keeps it in every
// run.
#include "passes/lower/packer.h"

#include <string.h>

typedef struct Prepare {
    Plan *plan;
    Arena *arena;
    const uint32_t *place; // by kernel before packings were added: where it is now
    bool *lasts;     // by buffer: its bytes depend on parameters and constants only
    bool *is_param;  // by buffer: a parameter, or made of one by a moved kernel
    bool *can_move;  // by kernel
    bool *is_moved;
} Prepare;

static void mark_written(const Plan *p, bool *is_written)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++)
            is_written[p->kernels.data[i].args.data[j].buf] |= p->kernels.data[i].args.data[j].is_written;
}

// What the caller writes, or may read after a run, is in the arena.
static void keep_arena(const Plan *p, bool *lasts)
{
    for (uint32_t i = 0; i < p->inputs.len; i++)
        lasts[p->inputs.data[i].buf] = false;
    for (uint32_t i = 0; i < p->outputs.len; i++)
        lasts[p->outputs.data[i].buf] = false;
    for (uint32_t i = 0; i < p->kept.len; i++)
        lasts[p->kept.data[i].buf] = false;
    for (uint32_t i = 0; i < p->sizes.len; i++)
        lasts[p->sizes.data[i].buf] = false;
    for (uint32_t i = 0; i < p->checks.len; i++)
        lasts[p->checks.data[i].buf] = false;
    for (uint32_t i = 0; i < p->experts.layers.len; i++) // what a router chose is counted after every run
        lasts[p->experts.layers.data[i].choice] = false;
}

static void begin_buffers(Prepare *s)
{
    const Plan *p = s->plan;
    bool *is_written = ARENA_ARRAY(s->arena, bool, p->buffers.len);
    mark_written(p, is_written);
    for (BufId b = 1; b < p->buffers.len; b++) {
        const Region r = p->buffers.data[b].region;
        s->is_param[b] = r == REGION_PARAM && b != p->page && !is_written[b];
        s->lasts[b] = s->is_param[b] || r == REGION_WEIGHTS || r == REGION_MAPS ||
                      (r == REGION_ARENA && is_written[b]);
    }
    keep_arena(p, s->lasts);
}

static bool touches_only(const PlanKernel *k, const bool *which)
{
    for (uint32_t j = 0; j < k->args.len; j++)
        if (!which[k->args.data[j].buf])
            return false;
    return true;
}

static bool touches_any(const PlanKernel *k, const bool *which)
{
    for (uint32_t j = 0; j < k->args.len; j++)
        if (which[k->args.data[j].buf])
            return true;
    return false;
}

static void mark_results(const PlanKernel *k, bool *which, bool value)
{
    for (uint32_t j = 0; j < k->args.len; j++)
        if (k->args.data[j].is_written)
            which[k->args.data[j].buf] = value;
}

// From all that might: what one kernel denies takes more with it.
static void find_movable(Prepare *s)
{
    const Plan *p = s->plan;
    for (uint32_t i = 0; i < p->kernels.len; i++)
        s->can_move[i] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < p->kernels.len; i++) {
            const PlanKernel *k = &p->kernels.data[i];
            if (!s->can_move[i] || touches_only(k, s->lasts))
                continue;
            s->can_move[i] = false;
            mark_results(k, s->lasts, false);
            changed = true;
        }
    }
}

// Finds which of those depend on a parameter, and what they need.
static void find_moved(Prepare *s)
{
    const Plan *p = s->plan;
    bool *needed = ARENA_ARRAY(s->arena, bool, p->buffers.len);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < p->kernels.len; i++) {
            const PlanKernel *k = &p->kernels.data[i];
            if (!s->can_move[i] || s->is_moved[i] ||
                (!touches_any(k, s->is_param) && !touches_any(k, needed)))
                continue;
            s->is_moved[i] = changed = true;
            mark_results(k, s->is_param, true);
            for (uint32_t j = 0; j < k->args.len; j++)
                needed[k->args.data[j].buf] |= p->buffers.data[k->args.data[j].buf].region == REGION_ARENA;
        }
    }
}

// Moved kernels come first, in their order, then the others in theirs.
static void move_kernels(Prepare *s)
{
    Plan *p = s->plan;
    const uint32_t n = p->kernels.len;
    PlanKernel *sorted = ARENA_ARRAY(s->arena, PlanKernel, n + 1);
    uint32_t *to = ARENA_ARRAY(s->arena, uint32_t, n + 1), at = 0, n_checks = 0;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < n; i++)
            if (s->is_moved[i] == (round == 0)) {
                n_checks += round == 1 && i < p->n_check_kernels;
                sorted[at] = p->kernels.data[i];
                to[i] = at++;
            }
        p->prepare.n_kernels = round == 0 ? at : p->prepare.n_kernels;
    }
    memcpy(p->kernels.data, sorted, n * sizeof *sorted);
    p->n_check_kernels = p->checks.len != 0 ? p->prepare.n_kernels + n_checks : 0;
    for (uint32_t i = 0; i < p->choices.len; i++)
        p->choices.data[i].kernel = to[s->place[p->choices.data[i].kernel]];
}

// What runs read of that lives as long as the parameters.
static void keep_results(const Prepare *s)
{
    Plan *p = s->plan;
    bool *is_made = ARENA_ARRAY(s->arena, bool, p->buffers.len);
    for (uint32_t i = 0; i < p->prepare.n_kernels; i++)
        mark_results(&p->kernels.data[i], is_made, true);
    for (uint32_t i = p->prepare.n_kernels; i < p->kernels.len; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++)
            if (is_made[p->kernels.data[i].args.data[j].buf])
                p->buffers.data[p->kernels.data[i].args.data[j].buf].region = REGION_PREPARED;
}

bool pass_prepare(Pass *p)
{
    rlx_assert(p->plan->prepare.n_kernels == 0);
    Plan *plan = p->plan;
    Prepare s = {.plan = plan, .arena = p->scratch};
    if (plan->params.len == 0) {
        rlx_assert(plan->prepare.packings.len == 0);
        return false;
    }
    s.place = packer_add_kernels(plan, s.arena);
    const uint32_t n = plan->kernels.len;
    s.lasts = ARENA_ARRAY(p->scratch, bool, plan->buffers.len);
    s.is_param = ARENA_ARRAY(p->scratch, bool, plan->buffers.len);
    s.can_move = ARENA_ARRAY(p->scratch, bool, n + 1);
    s.is_moved = ARENA_ARRAY(p->scratch, bool, n + 1);
    begin_buffers(&s);
    find_movable(&s);
    find_moved(&s);
    if (n != 0)
        move_kernels(&s);
    keep_results(&s);
    rlx_assert(plan->prepare.n_kernels <= plan->kernels.len);
    return plan->prepare.n_kernels != 0;
}
