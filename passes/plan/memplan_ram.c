// SPDX-License-Identifier: Apache-2.0
// A limit on memory (--ram). See memplan.h.
#include "passes/plan/memplan.h"
#include "ir/plan/estimate.h"
#include "passes/plan/ram/rows_input.h"

#include <string.h>

// Estimates of rows.h may be wrong by some alignments: so often a lower limit is tried.
enum { ATTEMPTS = 4 };

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
    plan->schedule_cost = (PlanBound){0};
    plan->kernels.len = s->n_kernels;
    plan->buffers.len = s->n_buffers;
    for (uint32_t i = 0; i < s->n_kernels; i++)
        plan->kernels.data[i].kernel->may_alias = s->may_alias[i];
}

// --- the limit -----------------------------------------------------------------------------------

static uint64_t ram_of(const Plan *p)
{
    return p->region_bytes[REGION_ARENA] + plan_state_bytes(p);
}

// Bytes by which the plan exceeds --ram, or the banks what they have.
static uint64_t excess(const Pass *p)
{
    const uint64_t lacking = memplan_lacking(p->plan, BANKS_OF_RAM), ram = ram_of(p->plan),
                   most = p->options->ram;
    return most != 0 && ram > most && ram - most > lacking ? ram - most : lacking;
}

void memplan_name_buffer(const Pass *p, BufId b, uint32_t step)
{
    const Plan *plan = p->plan;
    const PlanBuffer *buf = &plan->buffers.data[b];
    diag_note(p->diag, (Span){0}, "in %s: %llu bytes of %s",
              buf->region == REGION_ARENA ? plan->kernels.data[step].kernel->name : "the weights",
              (unsigned long long)buf->bytes, buf->name);
}

// The largest buffer at a step that is smaller than one, or follows it among those of its size; 0: none.
// after 0: the largest of all.
static BufId next_largest(const Plan *p, uint32_t step, BufId after)
{
    const PlanBuffer *buf = p->buffers.data;
    BufId best = 0;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const bool is_behind = after == 0 || buf[b].bytes < buf[after].bytes ||
                               (buf[b].bytes == buf[after].bytes && b > after);
        if (plan_buffer_is_live(&buf[b], step) && buf[b].bytes != 0 && is_behind &&
            (best == 0 || buf[b].bytes > buf[best].bytes))
            best = b;
    }
    return best;
}

static void report(const Pass *p)
{
    const Plan *plan = p->plan;
    const uint32_t step = plan_peak_step(plan);
    uint32_t named = 0;
    if (memplan_lacking(plan, BANKS_OF_RAM) != 0 || memplan_lacking(plan, BANKS_OF_WEIGHTS) != 0) {
        memplan_report_banks(p);
        return;
    }
    diag_error(p->diag, (Span){0}, E0405, "%llu bytes of RAM are needed at least, and --ram allows %llu",
               (unsigned long long)ram_of(plan), (unsigned long long)p->options->ram);
    if (plan_state_bytes(plan) != 0)
        diag_note(p->diag, (Span){0}, "state: %llu bytes", (unsigned long long)plan_state_bytes(plan));
    for (BufId b = next_largest(plan, step, 0); b != 0 && named < MEMPLAN_NAMED; named++) {
        memplan_name_buffer(p, b, step);
        b = next_largest(plan, step, b);
    }
}

static void run_rows(Pass *p, const Saved *saved, const Rows *rows, uint64_t limit)
{
    restore(p->plan, saved);
    const PlanBound cost = plan_bound(rows_insns(rows, limit), rows_least_insns(rows));
    const bool is_cut = rows_cut(rows, limit);
    rlx_assert(is_cut); // whether it can be does not depend on the limit
    p->plan->schedule_cost = cost;
    memplan_run(p, rows->known);
}

static bool try_rows(Pass *p, const Saved *saved, const Rows *rows, uint64_t limit)
{
    run_rows(p, saved, rows, limit);
    return excess(p) == 0;
}

// Limits that lead to all cuts with few instructions for their peak, by estimate: from the lowest one on.
// They do not depend on --ram. Two limits a cut: what is chosen within a group may differ between them.
static uint32_t limits_of(const Rows *rows, uint64_t *limits, uint32_t most)
{
    uint32_t n = 0;
    uint64_t limit = UINT64_MAX;
    limits[n++] = 0; // where there are more than that, the lowest is among them
    for (bool is_last = false; n + 2 <= most && !is_last;) {
        const uint64_t peak = rows_peak(rows, limit);
        is_last = peak > limit || peak == 0;
        limits[n++] = limit;
        limits[n++] = peak;
        limit = peak - 1;
    }
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && limits[j - 1] > limits[j]; j--) {
            const uint64_t lower = limits[j];
            limits[j] = limits[j - 1];
            limits[j - 1] = lower;
        }
    return n;
}

// Without a limit: kernels run one after the other, but for those that must run row by row. False: these
// cannot, which was reported.
static bool run_plainly(Pass *p, LeadMemo *known)
{
    const bool has_rows = p->options->strips >= 2 && pass_is_serial(p), is_given = p->plan->rows.input != 0;
    if (!has_rows && !is_given) {
        memplan_run(p, known);
        return true;
    }
    const Rows rows = rows_facts(p, known);
    if (!rows_cut(&rows, has_rows ? 0 : UINT64_MAX)) {
        rows_input_report(p, &rows);
        return false;
    }
    memplan_run(p, known);
    return true;
}

// Which cut has the lowest peak is an estimate. Tries all whose estimates are near that, and ends with the
// plan that takes the least. So any limit is kept to from what is said to be the least on.
// plain: by how much the plan exceeds the limit that has no cuts.
static bool fit_lowest(Pass *p, const Saved *saved, const Rows *rows, uint64_t plain)
{
    enum { MAX_LIMITS = 512, MAX_TRIED = 40, PERCENT_OFF = 25 };
    uint64_t *limits = ARENA_ARRAY(p->scratch, uint64_t, MAX_LIMITS), best = 0, least = UINT64_MAX, bytes = 0;
    restore(p->plan, saved);
    const uint32_t n = limits_of(rows, limits, MAX_LIMITS);
    for (uint32_t i = 0; i < n && i < MAX_TRIED; i++) {
        if (i != 0 && limits[i] > bytes + bytes * PERCENT_OFF / 100)
            break;
        if (i != 0 && limits[i] == limits[i - 1])
            continue;
        if (try_rows(p, saved, rows, limits[i]))
            return true;
        if (excess(p) < least) {
            best = limits[i];
            least = excess(p);
            bytes = p->plan->region_bytes[REGION_ARENA];
        }
    }
    if (least <= plain)
        return try_rows(p, saved, rows, best);
    restore(p->plan, saved);
    return run_plainly(p, rows->known) && excess(p) == 0;
}

// Rows in turns and less scratch memory, with limits that fall until the plan keeps to the one that was
// given. False: none does; the plan is that with the least.
static bool fit_rows(Pass *p, const Saved *saved, LeadMemo *known)
{
    const uint64_t state = plan_state_bytes(p->plan), ram = pass_ram(p->options), plain = excess(p);
    uint64_t wanted = ram > state ? ram - state : 0;
    restore(p->plan, saved);
    const Rows rows = rows_facts(p, known);
    for (uint32_t i = 0; i < ATTEMPTS && wanted != 0; i++) {
        if (try_rows(p, saved, &rows, wanted))
            return true;
        const uint64_t over = excess(p);
        wanted = wanted > over ? wanted - over : 0;
    }
    return fit_lowest(p, saved, &rows, plain);
}

static uint64_t macs_of(const Plan *p)
{
    uint64_t macs = 0;
    for (uint32_t i = 0; i < p->kernels.len; i++)
        macs += p->kernels.data[i].macs;
    return macs;
}

// Without --ram: the plan with the least memory whose time grows by a few per cent, by estimate, if that
// saves much. Estimates must be good for that: where device functions do nearly all, or as measured.
static bool is_estimate_good(const TargetCaps *caps)
{
    enum { PERCENT = 10 };
    const double error = caps->prefers_ints ? estimate_error(caps->cpu_name) : -1;
    return caps->has_dsp || caps->byte_vectors != BYTE_VECTORS_NONE || (error >= 0 && error <= PERCENT);
}

static bool may_spare(const Pass *p)
{
    return pass_is_serial(p) && p->options->strips == 0 && is_estimate_good(p->options->caps);
}

static void spare(Pass *p, const Saved *saved, LeadMemo *known)
{
    enum { MEMORY_PERCENT = 10, MAX_MACS = 1 << 28 };
    const uint64_t had = p->plan->region_bytes[REGION_ARENA], enough = had - had * MEMORY_PERCENT / 100;
    if (had == 0 || macs_of(p->plan) > MAX_MACS)
        return;
    restore(p->plan, saved);
    const Rows rows = rows_facts(p, known);
    const double most = rows_insns(&rows, UINT64_MAX) * (1 + p->options->spare_ram / 100);
    uint64_t low = 0, high = enough + 1;
    while (low + had / 2048 < high) {
        const uint64_t limit = low + (high - low) / 2;
        if (rows_insns(&rows, limit) <= most)
            high = limit;
        else
            low = limit + 1;
    }
    if (high <= enough) {
        run_rows(p, saved, &rows, high);
        if (p->plan->region_bytes[REGION_ARENA] <= enough && excess(p) == 0)
            return;
        restore(p->plan, saved);
    }
    if (p->plan->rows.input != 0)
        run_rows(p, saved, &rows, UINT64_MAX);
    else
        memplan_run(p, known);
}

bool memplan_fit(Pass *p)
{
    const bool is_limited = (pass_ram(p->options) != 0 || p->options->n_banks != 0) && p->frame == NULL;
    LeadMemo known = {0};
    const bool may_choose = pass_is_serial(p);
    const Saved saved = may_choose ? save(p) : (Saved){0};
    if (!rows_input_check(p) || !run_plainly(p, &known))
        return false;
    if (may_spare(p) && (!is_limited || p->options->ram == 0))
        spare(p, &saved, &known);
    const bool fits = !is_limited || excess(p) == 0 || (may_choose && fit_rows(p, &saved, &known));
    rows_input_end(p->plan);
    if (fits && memplan_lacking(p->plan, BANKS_OF_WEIGHTS) == 0)
        return true;
    report(p);
    return false;
}
