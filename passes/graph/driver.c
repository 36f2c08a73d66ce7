// SPDX-License-Identifier: Apache-2.0
// The driver of passes. See driver.h.
#include "passes/graph/driver.h"
#include "passes/graph/bodies.h"
#include "passes/graph/extent.h"

bool pass_is_on(const PassInfo *info, const PassOptions *o)
{
    return info->min_level <= o->opt_level;
}

bool pass_run(Pass *p, const PassInfo *info)
{
    rlx_assert(p->graph != NULL && p->frame == NULL && !p->failed);
    rlx_assert(info->makes_plan == (p->plan != NULL)); // layout makes an empty one
    if (!pass_is_on(info, p->options) || (info->where == PASS_IF_SIZED && !extent_has_sizes(p->graph)))
        return false;
    bool changed = info->run(p);
    rlx_assert(!p->failed || p->diag->n_errors > 0);
    if (info->bodies == BODIES_REWRITE && !p->failed)
        changed |= bodies_run(p, info->run);
    rlx_assert(p->failed || (info->stage == STAGE_BOUND) == (p->plan != NULL));
    rlx_assert(p->plan == NULL || p->plan->graph == p->graph);
    return changed;
}

void pass_run_all(Pass *p)
{
    rlx_assert(p->perm != p->scratch && p->options->caps != NULL);
    for (uint32_t i = 0; i < pass_count && !p->failed; i++) {
        pass_run(p, &pass_info[i]);
        arena_reset(p->scratch);
    }
}

void pass_plan_body(Pass *p)
{
    rlx_assert(p->frame != NULL && p->plan == NULL);
    rlx_assert(p->graph->nodes.len > 0 && p->options->caps != NULL);
    for (uint32_t i = 0; i < pass_count; i++)
        if (pass_info[i].bodies == BODIES_PLAN && pass_is_on(&pass_info[i], p->options))
            pass_info[i].run(p);
}
