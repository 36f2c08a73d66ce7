// SPDX-License-Identifier: Apache-2.0
// A limit on memory (--ram). See memplan.h.
#include "passes/plan/memplan.h"
#include "passes/plan/ram/rows.h"

#include <string.h>

// Estimates of rows.h may be wrong by some alignments: so often a lower limit is tried.
enum { ATTEMPTS = 4, MAX_NAMED = 12 };

bool memplan_is_serial(const Pass *p)
{
    const PassOptions *o = p->options;
    return o->caps->prefers_ints && !o->caps->is_gpu && o->caps->threads <= 1 && p->frame == NULL &&
           o->opt_level >= 1;
}

// --- the plan before memory was planned ----------------------------------------------------------

typedef struct Saved {
    const PlanKernel *kernels;
    const PlanBuffer *buffers;
    const bool *may_alias; // by kernel
    uint32_t n_kernels, n_buffers;
} Saved;

static Saved save(const Pass *p)
{
    const Plan *plan = p->plan;
    bool *may_alias = ARENA_ARRAY(p->scratch, bool, plan->kernels.len + 1u);
    for (uint32_t i = 0; i < plan->kernels.len; i++)
        may_alias[i] = plan->kernels.data[i].kernel->may_alias;
    return (Saved){
        .kernels = arena_copy(p->scratch, plan->kernels.data, plan->kernels.len * sizeof *plan->kernels.data),
        .buffers = arena_copy(p->scratch, plan->buffers.data, plan->buffers.len * sizeof *plan->buffers.data),
        .may_alias = may_alias,
        .n_kernels = plan->kernels.len,
        .n_buffers = plan->buffers.len};
}

static void restore(Plan *plan, const Saved *s)
{
    if (s->n_kernels != 0)
        memcpy(plan->kernels.data, s->kernels, s->n_kernels * sizeof *s->kernels);
    memcpy(plan->buffers.data, s->buffers, s->n_buffers * sizeof *s->buffers);
    plan->kernels.len = s->n_kernels;
    plan->buffers.len = s->n_buffers;
    for (uint32_t i = 0; i < s->n_kernels; i++)
        plan->kernels.data[i].kernel->may_alias = s->may_alias[i];
}

// --- the limit -----------------------------------------------------------------------------------

// Bytes besides the arena: states, parameters with a byte each that says whether it was set, and what is made
// of them.
static uint64_t state_bytes(const Plan *p)
{
    const uint64_t flags = (p->params.len + p->prepare.n_marks + 63u) / 64u * 64u;
    const uint64_t initial = p->region_bytes[REGION_STATE] + p->region_bytes[REGION_PARAM] + flags;
    return (initial + 63) / 64 * 64 + p->region_bytes[REGION_PREPARED];
}

static uint64_t ram_of(const Plan *p)
{
    return p->region_bytes[REGION_ARENA] + state_bytes(p);
}

static void report(const Pass *p)
{
    const Plan *plan = p->plan;
    const uint32_t step = plan_peak_step(plan);
    uint32_t named = 0;
    diag_error(p->diag, (Span){0}, E0405, "%llu bytes of RAM are needed at least, and --ram allows %llu",
               (unsigned long long)ram_of(plan), (unsigned long long)p->options->ram);
    if (state_bytes(plan) != 0)
        diag_note(p->diag, (Span){0}, "state: %llu bytes", (unsigned long long)state_bytes(plan));
    for (BufId b = 1; b < plan->buffers.len && named < MAX_NAMED; b++) {
        const PlanBuffer *buf = &plan->buffers.data[b];
        if (!plan_buffer_is_live(buf, step) || buf->bytes == 0)
            continue;
        diag_note(p->diag, (Span){0}, "in %s: %llu bytes of %s", plan->kernels.data[step].kernel->name,
                  (unsigned long long)buf->bytes, buf->name);
        named++;
    }
}

static bool try_rows(Pass *p, const Saved *saved, uint64_t limit)
{
    restore(p->plan, saved);
    rows_cut(p, limit);
    memplan_run(p);
    return ram_of(p->plan) <= p->options->ram;
}

// Rows in turns, with limits that fall until the plan keeps to the one that was given. False: none does; the
// plan is that with the least.
static bool fit_rows(Pass *p, const Saved *saved)
{
    const uint64_t state = state_bytes(p->plan),
                   limit = p->options->ram > state ? p->options->ram - state : 0;
    uint64_t wanted = limit, best = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        const uint64_t at = i + 1 < ATTEMPTS ? wanted : 0; // at last the lowest peak
        if (try_rows(p, saved, at))
            return true;
        const uint64_t arena = p->plan->region_bytes[REGION_ARENA], over = arena - limit;
        best = arena < least ? at : best;
        least = arena < least ? arena : least;
        wanted = wanted > over ? wanted - over : 0;
    }
    return try_rows(p, saved, best);
}

bool memplan_fit(Pass *p)
{
    const bool is_limited = p->options->ram != 0 && p->frame == NULL, is_test = p->options->strips >= 2;
    const bool may_join = (is_limited || is_test) && memplan_is_serial(p);
    const Saved saved = may_join ? save(p) : (Saved){0};
    if (may_join && is_test)
        rows_cut(p, 0);
    memplan_run(p);
    if (!is_limited || ram_of(p->plan) <= p->options->ram || (may_join && fit_rows(p, &saved)))
        return true;
    report(p);
    return false;
}
