// SPDX-License-Identifier: Apache-2.0
// Questions about a finished plan: hazards between kernels as overlapping byte ranges, and an independent
// check of the memory plan that shares no code with the pass that made it.
#include "ir/plan.h"

typedef struct Range {
    Region region;
    uint64_t begin, end;
} Range;

static Range range_of(const Plan *p, const PlanArg *a)
{
    const PlanBuffer *b = &p->buffers.data[a->buf];
    return (Range){b->region, b->offset + a->begin, b->offset + a->end};
}

static bool ranges_overlap(Range a, Range b)
{
    return a.region == b.region && a.begin < b.end && b.begin < a.end;
}

const void *plan_buffer_bytes(const PlanBuffer *b, Arena *a)
{
    if (b->fill == NULL)
        return b->data;
    void *bytes = arena_alloc(a, b->bytes);
    b->fill(b->fill_ctx, bytes);
    return bytes;
}

bool plan_has_hazard(const Plan *p, uint32_t kernel_a, uint32_t kernel_b)
{
    const PlanKernel *a = &p->kernels.data[kernel_a], *b = &p->kernels.data[kernel_b];
    for (uint32_t i = 0; i < a->args.len; i++)
        for (uint32_t j = 0; j < b->args.len; j++) {
            if (!a->args.data[i].is_written && !b->args.data[j].is_written)
                continue;
            if (ranges_overlap(range_of(p, &a->args.data[i]), range_of(p, &b->args.data[j])))
                return true;
        }
    return false;
}

// --- walking --------------------------------------------------------------------------------------

static void walk(const Plan *p, uint64_t times, PlanVisit fn, void *ctx)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        PlanKernel *k = &p->kernels.data[i];
        fn(p, k, times, ctx);
        if (k->loop == NULL)
            continue;
        const uint64_t trips = k->loop->max_trips == INT64_MAX ? 1 : (uint64_t)k->loop->max_trips;
        walk(k->loop->body, trips != 0 && times > UINT64_MAX / trips ? UINT64_MAX : times * trips, fn, ctx);
    }
}

void plan_walk(const Plan *p, PlanVisit fn, void *ctx)
{
    walk(p, 1, fn, ctx);
}

static void count_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p;
    (void)k;
    (void)times;
    ++*(uint32_t *)ctx;
}

uint32_t plan_count_kernels(const Plan *p)
{
    uint32_t n = 0;
    plan_walk(p, count_kernel, &n);
    return n;
}

static void count_barrier(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p;
    (void)times;
    *(uint32_t *)ctx += k->waits + (k->phases.len != 0 ? k->phases.len - 1u : 0u);
}

uint32_t plan_count_barriers(const Plan *p)
{
    uint32_t n = 0;
    plan_walk(p, count_barrier, &n);
    return n;
}

uint64_t plan_weight_bytes(const Plan *p)
{
    return p->region_bytes[REGION_WEIGHTS] + (p->moe_slots == 0 ? p->region_bytes[REGION_EXPERTS] : 0);
}

// --- verification --------------------------------------------------------------------------------

static const char *check_arg(const Plan *p, const PlanKernel *k, uint32_t i)
{
    const PlanArg *a = &k->args.data[i];
    const PlanBuffer *b = a->buf < p->buffers.len ? &p->buffers.data[a->buf] : NULL;
    const char *name = k->kernel->name;
    if (a->buf == 0 || b == NULL)
        return arena_printf(p->arena, "%s: argument %u has no buffer", name, i);
    if (a->begin > a->end || a->end > b->bytes)
        return arena_printf(p->arena, "%s: argument %u reaches outside buffer %s", name, i, b->name);
    if (b->region == REGION_OUTER)
        return a->is_written && !p->slots.data[b->slot].is_written
                   ? arena_printf(p->arena, "%s: writes to %s, which is not the body's", name, b->name)
                   : NULL;
    if (b->offset % b->align != 0 || b->offset + b->bytes > p->region_bytes[b->region])
        return arena_printf(p->arena, "%s: buffer %s lies outside its region", name, b->name);
    if (a->is_written && (b->region == REGION_WEIGHTS || b->region == REGION_EXPERTS))
        return arena_printf(p->arena, "%s: writes to the weights", name);
    if (b->region == REGION_MAPS && (a->is_written || b->bytes != PLAN_MAP_BYTES || b->map == NULL))
        return arena_printf(p->arena, "%s: argument %u is no map", name, i);
    if (b->region == REGION_PREPARED && a->is_written && (uint32_t)(k - p->kernels.data) >= p->n_prepare)
        return arena_printf(p->arena, "%s: writes to what only the preparation makes", name);
    return NULL;
}

// The preparation reads what lasts, or what it has made itself: nothing that a run may change.
static const char *check_preparation(const Plan *p)
{
    Arena scratch = {0};
    bool *is_made = ARENA_ARRAY(&scratch, bool, p->buffers.len);
    const char *wrong = NULL;
    for (uint32_t i = 0; i < p->n_prepare && wrong == NULL; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++) {
            const PlanArg *a = &p->kernels.data[i].args.data[j];
            const Region r = p->buffers.data[a->buf].region;
            is_made[a->buf] |= a->is_written;
            if (a->is_written ? r != REGION_ARENA && r != REGION_PREPARED
                              : a->buf == p->page || r == REGION_STATE || r == REGION_OUTER ||
                                    ((r == REGION_ARENA || r == REGION_PREPARED) && !is_made[a->buf]))
                wrong = arena_printf(p->arena, "%s: does not depend on parameters only",
                                     p->kernels.data[i].kernel->name);
        }
    arena_free(&scratch);
    return wrong;
}

typedef struct Live {
    BufId buf;
    uint64_t begin, end;
} Live;

// Replays the kernels: what a kernel reads from the arena must still be what was last written there. Every
// byte range that holds a buffer's data is kept in a list; a write to a buffer ends all others that overlap
// it.
typedef struct Replay {
    const Plan *p;
    VEC(Live) live;
    Arena *arena;
} Replay;

static bool holds(const Replay *r, BufId buf)
{
    for (uint32_t i = 0; i < r->live.len; i++)
        if (r->live.data[i].buf == buf)
            return true;
    return false;
}

static void write_buffer(Replay *r, BufId buf)
{
    const PlanBuffer *b = &r->p->buffers.data[buf];
    const Live now = {buf, b->offset, b->offset + b->bytes};
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->live.len; i++) {
        const Live l = r->live.data[i];
        const bool ended = l.buf == buf || (l.begin < now.end && now.begin < l.end);
        if (!ended)
            r->live.data[n++] = l;
    }
    r->live.len = n;
    vec_push(r->arena, &r->live, now);
}

static const char *replay_kernel(Replay *r, const PlanKernel *k)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        const bool is_scratch = a->is_written && a->is_read, is_empty = a->begin == a->end;
        if (!is_empty && p->buffers.data[a->buf].region == REGION_ARENA && a->is_read && !is_scratch &&
            !holds(r, a->buf))
            return arena_printf(p->arena, "%s: buffer %s was overwritten before it is read", k->kernel->name,
                                p->buffers.data[a->buf].name);
    }
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].is_written && p->buffers.data[k->args.data[i].buf].region == REGION_ARENA)
            write_buffer(r, k->args.data[i].buf);
    return NULL;
}

static bool writes_state(const Plan *p, const PlanKernel *k)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].is_written && p->buffers.data[k->args.data[i].buf].region == REGION_STATE)
            return true;
    return false;
}

// When the checks are tested, their values are there, and no state has changed.
static const char *check_checks(const Replay *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->checks.len; i++) {
        const PlanBuffer *b = &p->buffers.data[p->checks.data[i].buf];
        if (p->checks.data[i].byte_offset >= b->bytes ||
            (b->region == REGION_ARENA && !holds(r, p->checks.data[i].buf)))
            return arena_printf(p->arena, "the condition of check %u is not there when it is tested", i);
    }
    for (uint32_t i = 0; p->checks.len > 0 && i < p->n_check_kernels; i++)
        if (writes_state(p, &p->kernels.data[i]))
            return arena_printf(p->arena, "%s: writes a state before the checks",
                                p->kernels.data[i].kernel->name);
    return NULL;
}

static bool is_arena(const Plan *p, BufId buf)
{
    return p->buffers.data[buf].region == REGION_ARENA;
}

// Nesting of sub-graphs is bounded, so the recursion is.
const char *plan_verify(const Plan *p)
{
    Arena scratch = {0};
    Replay r = {.p = p, .arena = &scratch};
    const char *wrong = check_preparation(p);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        if (p->inputs.data[i].bytes > 0 && is_arena(p, p->inputs.data[i].buf))
            write_buffer(&r, p->inputs.data[i].buf);
    for (uint32_t i = 0; i < p->kernels.len && wrong == NULL; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        if (i == p->n_check_kernels)
            wrong = check_checks(&r);
        for (uint32_t j = 0; j < k->args.len && wrong == NULL; j++)
            wrong = check_arg(p, k, j);
        if (wrong == NULL)
            wrong = replay_kernel(&r, k);
        if (wrong == NULL && k->loop != NULL)
            wrong = plan_verify(k->loop->body);
    }
    if (wrong == NULL && p->n_check_kernels == p->kernels.len)
        wrong = check_checks(&r);
    for (uint32_t i = 0; i < p->outputs.len && wrong == NULL; i++)
        if (p->outputs.data[i].bytes > 0 && is_arena(p, p->outputs.data[i].buf) &&
            !holds(&r, p->outputs.data[i].buf))
            wrong =
                arena_printf(p->arena, "output %s was overwritten before the end", p->outputs.data[i].name);
    for (uint32_t i = 0; i < p->sizes.len && wrong == NULL; i++)
        if (p->sizes.data[i].bytes > 0 && !holds(&r, p->sizes.data[i].buf))
            wrong = arena_printf(p->arena, "%s were overwritten before the end", p->sizes.data[i].name);
    arena_free(&scratch);
    return wrong;
}
