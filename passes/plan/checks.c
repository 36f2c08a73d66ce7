// SPDX-License-Identifier: Apache-2.0
// What the checks of a graph need runs before everything else, so that they are tested before a kernel can
// write a state, and a run that is refused costs little.
#include "passes/pass.h"
#include <string.h>

// Copies of a needed value into a state or an output can wait.
static bool is_needed(const Plan *p, const PlanKernel *k, const bool *needed)
{
    return needed[k->root] && !k->is_last &&
           (k->copy.src == 0 || k->is_start || k->copy.dst.buf == p->locs.data[k->root].buf);
}

bool pass_checks(Pass *p)
{
    Plan *plan = p->plan;
    const uint32_t n = plan->kernels.len;
    if (plan->checks.len == 0)
        return false;
    const bool *needed = graph_mark_needed(plan->graph, ROOT_CHECK, p->scratch);
    PlanKernel *sorted = ARENA_ARRAY(p->scratch, PlanKernel, n + 1);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_needed(plan, &plan->kernels.data[i], needed))
            sorted[at++] = plan->kernels.data[i];
    plan->n_check_kernels = at;
    for (uint32_t i = 0; i < n; i++)
        if (!is_needed(plan, &plan->kernels.data[i], needed))
            sorted[at++] = plan->kernels.data[i];
    rlx_assert(at == n && plan->n_check_kernels <= n);
    if (n != 0)
        memcpy(plan->kernels.data, sorted, n * sizeof *sorted);
    return true;
}
