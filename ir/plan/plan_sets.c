// SPDX-License-Identifier: Apache-2.0
// Sets of outputs: which kernels a run needs that is limited to one. Found backwards from the buffers that
// must hold something after the run, over the buffers that kernels read and write.
#include "ir/plan/plan.h"

// What every run keeps, whatever its outputs: states, conditions, sizes, kept values.
static void mark_lasting(const Plan *p, bool *needed)
{
    for (BufId b = 1; b < p->buffers.len; b++)
        needed[b] = p->buffers.data[b].region == REGION_STATE || p->buffers.data[b].region == REGION_PARAM;
    for (uint32_t i = 0; i < p->checks.len; i++)
        needed[p->checks.data[i].buf] = true;
    for (uint32_t i = 0; i < p->kept.len; i++)
        needed[p->kept.data[i].buf] = true;
    for (uint32_t i = 0; i < p->sizes.len; i++)
        needed[p->sizes.data[i].buf] = true;
}

static bool writes_needed(const PlanKernel *k, const bool *needed)
{
    for (uint32_t j = 0; j < k->args.len; j++)
        if (k->args.data[j].is_written && needed[k->args.data[j].buf])
            return true;
    return false;
}

static void mark_reads(const PlanKernel *k, bool *needed)
{
    for (uint32_t j = 0; j < k->args.len; j++)
        if (k->args.data[j].is_read)
            needed[k->args.data[j].buf] = true;
}

void plan_use_sets(Plan *p, Arena *scratch)
{
    rlx_assert(p->sets.len <= PLAN_MAX_SETS);
    for (uint32_t s = 0; s < p->sets.len; s++) {
        bool *needed = ARENA_ARRAY(scratch, bool, p->buffers.len);
        mark_lasting(p, needed);
        for (uint32_t i = 0; i < p->outputs.len; i++)
            needed[p->outputs.data[i].buf] |= p->sets.data[s].has[i] != 0;
        for (uint32_t i = p->kernels.len; i-- > 0;) {
            PlanKernel *k = &p->kernels.data[i];
            if (writes_needed(k, needed))
                mark_reads(k, needed);
            else if (i >= p->prepare.n_kernels) // what is prepared serves later runs too
                k->skipped_by |= 1u << s;
        }
    }
}
