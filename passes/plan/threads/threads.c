// SPDX-License-Identifier: Apache-2.0
// Which threads run what, with --threads: large kernels are split (split.h), small ones go to one thread, and
// a barrier comes before a kernel that may touch what another thread has touched since the last one. All of
// that is decided here; a run only follows.
#include "passes/plan/threads/split.h"

// After so many kernels without a barrier one is set, so that not all pairs are compared.
enum { MAX_PENDING = 256 };

// Kernels of other threads since the last barrier.
typedef struct Pending {
    VEC(uint32_t) kernels;
    Arena *arena;
} Pending;

static bool is_same_thread(const PlanKernel *a, const PlanKernel *b)
{
    return !a->threads.is_shared && !b->threads.is_shared && a->threads.thread == b->threads.thread;
}

// Memory of the plan around a loop's body has no offsets here: any two of its places may be one.
static bool may_meet_outside(const Plan *p, const PlanKernel *a, const PlanKernel *b)
{
    bool reads[2] = {false, false}, writes[2] = {false, false};
    const PlanKernel *both[2] = {a, b};
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < both[k]->args.len; i++) {
            const PlanArg *arg = &both[k]->args.data[i];
            const bool is_outer = p->buffers.data[arg->buf].region == REGION_OUTER;
            reads[k] = reads[k] || is_outer;
            writes[k] = writes[k] || (is_outer && arg->is_written);
        }
    return (reads[0] && writes[1]) || (writes[0] && reads[1]);
}

static bool must_wait(const Plan *p, const Pending *since, uint32_t at)
{
    rlx_assert(at < p->kernels.len && since->kernels.len <= at + p->kernels.len);
    const PlanKernel *k = &p->kernels.data[at];
    if (since->kernels.len > MAX_PENDING)
        return true;
    for (uint32_t i = 0; i < since->kernels.len; i++) {
        const uint32_t other = since->kernels.data[i];
        const PlanKernel *o = &p->kernels.data[other];
        if (!is_same_thread(o, k) && (plan_has_hazard(p, other, at) || may_meet_outside(p, o, k)))
            return true;
    }
    return false;
}

static void place_barriers(Plan *p, Pending *since)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        PlanKernel *k = &p->kernels.data[i];
        k->threads.waits = k->threads.waits || must_wait(p, since, i);
        if (k->threads.waits)
            since->kernels.len = 0;
        // Every thread tests the checks, then memory is used again; a barrier ends the preparation.
        if (i + 1 == p->n_check_kernels || i + 1 == p->prepare.n_kernels)
            since->kernels.len = 0;
        else
            vec_push(since->arena, &since->kernels, i);
    }
}

// Threads must not be slower than one: in short runs, kernels of one thread have to fetch what others wrote.
// What is fetched is an upper bound: it decides only there.
static const double most_time = 1.1, short_run = 2e6;

static bool is_gain(const Plan *p, SplitCycles sum)
{
    uint32_t n_barriers = 2; // begin and end of a run
    for (uint32_t i = 0; i < p->kernels.len; i++)
        n_barriers += p->kernels.data[i].threads.waits;
    return p->caps->split_cycles == 0 || sum.alone > short_run ||
           sum.now + n_barriers * split_barrier_cycles(&p->caps->cpu) < most_time * sum.alone;
}

static void assign(Plan *p, bool is_body);

static SplitCycles split_all(Plan *p, Arena *a)
{
    SplitOwners owners = {0};
    SplitCycles sum = {0};
    for (BufId b = 0; b < p->buffers.len; b++)
        vec_push(a, &owners, (SplitOwner){.kind = OWNED_BY_ONE});
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        PlanKernel *k = &p->kernels.data[i];
        if (k->loop != NULL) {
            assign(k->loop->body, true);
            k->threads.is_shared = k->loop->body->is_shared;
        } else {
            const SplitCycles c = split_kernel(p, k, &owners);
            sum.alone += c.alone;
            sum.now += c.now;
        }
        p->is_shared = p->is_shared || k->threads.is_shared;
    }
    return sum;
}

// Leaves all to one thread, but for loops that have decided for themselves.
static void undo(Plan *p, Kernel **before)
{
    p->is_shared = false;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        PlanKernel *k = &p->kernels.data[i];
        if (k->loop == NULL && k->threads.is_shared)
            split_undo(p, k, before[i]);
        k->threads.waits = false;
        p->is_shared = p->is_shared || k->threads.is_shared;
    }
}

static void place_all_barriers(Plan *p, bool is_body)
{
    Arena scratch = {0};
    Pending since = {.arena = &scratch};
    for (uint32_t round = 0; round < 1u + is_body && p->is_shared; round++)
        place_barriers(p, &since); // an iteration follows another one
    arena_free(&scratch);
}

static void assign(Plan *p, bool is_body)
{
    Arena scratch = {0};
    Kernel **before = ARENA_ARRAY(&scratch, Kernel *, p->kernels.len + 1u);
    for (uint32_t i = 0; i < p->kernels.len; i++)
        before[i] = p->kernels.data[i].kernel;
    p->is_shared = false;
    const SplitCycles sum = split_all(p, &scratch);
    place_all_barriers(p, is_body);
    if (p->is_shared && !is_gain(p, sum)) {
        undo(p, before);
        place_all_barriers(p, is_body);
    }
    arena_free(&scratch);
}

bool pass_threads(Pass *p)
{
    rlx_assert(p->frame == NULL && p->options->caps == p->plan->caps);
    if (p->options->caps->threads <= 1 || p->options->caps->is_gpu)
        return false;
    assign(p->plan, false);
    for (uint32_t i = 0; i < p->plan->kernels.len; i++) {
        PlanKernel *k = &p->plan->kernels.data[i];
        if (k->threads.is_shared && k->loop == NULL)
            split_phases(p->plan, k);
    }
    return true;
}
