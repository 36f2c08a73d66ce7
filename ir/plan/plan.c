// SPDX-License-Identifier: Apache-2.0
// Questions about a finished plan: hazards between kernels as overlapping byte ranges, and an independent
// check of the memory plan that shares no code with the pass that made it.
#include "ir/plan/plan_check.h"

#include <stdlib.h>

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
    rlx_assert(b->fill == NULL || b->data == NULL);
    if (b->fill == NULL)
        return b->data;
    void *bytes = arena_alloc(a, b->bytes);
    b->fill(b->fill_ctx, bytes);
    return bytes;
}

bool plan_has_hazard(const Plan *p, uint32_t kernel_a, uint32_t kernel_b)
{
    rlx_assert(kernel_a < p->kernels.len && kernel_b < p->kernels.len);
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

static void extend_lifetime(Plan *p, BufId b, uint32_t first, uint32_t last)
{
    rlx_assert(b < p->buffers.len);
    PlanBuffer *buf = &p->buffers.data[b];
    buf->first = first < buf->first ? first : buf->first;
    buf->last = last > buf->last ? last : buf->last;
}

void plan_find_lifetimes(Plan *p)
{
    rlx_assert(p->buffers.len > 0);
    const uint32_t n = p->kernels.len, end = n == 0 ? 0 : n - 1;
    for (BufId b = 1; b < p->buffers.len; b++) {
        p->buffers.data[b].first = UINT32_MAX;
        p->buffers.data[b].last = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++)
            extend_lifetime(p, p->kernels.data[i].args.data[j].buf, i, i);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        extend_lifetime(p, p->inputs.data[i].buf, 0, 0);
    for (uint32_t i = 0; i < p->outputs.len; i++)
        extend_lifetime(p, p->outputs.data[i].buf, UINT32_MAX, end);
    for (uint32_t i = 0; i < p->sizes.len; i++)
        extend_lifetime(p, p->sizes.data[i].buf, UINT32_MAX, end);
    for (uint32_t i = 0; i < p->experts.layers.len; i++) // read after a run
        extend_lifetime(p, p->experts.layers.data[i].choice, UINT32_MAX, end);
    for (uint32_t i = 0; i < p->checks.len; i++)
        extend_lifetime(p, p->checks.data[i].buf, UINT32_MAX,
                        p->n_check_kernels == 0 ? 0 : p->n_check_kernels - 1);
    for (BufId b = 1; b < p->buffers.len; b++)
        if (p->buffers.data[b].shares != 0)
            extend_lifetime(p, p->buffers.data[b].shares, p->buffers.data[b].first, p->buffers.data[b].last);
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
    rlx_assert(p != NULL && fn != NULL);
    walk(p, 1, fn, ctx);
}

uint64_t plan_kernel_bytes(const PlanKernel *k)
{
    uint64_t bytes = 0;
    for (uint32_t a = 0; a < k->args.len && k->loop == NULL; a++)
        bytes += k->args.data[a].end - k->args.data[a].begin;
    return bytes;
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

bool plan_file_has(const PlanFile *f, const void *bytes, uint64_t n)
{
    const uint64_t at = f != NULL ? (uint64_t)(uintptr_t)bytes - (uint64_t)(uintptr_t)f->data : 0;
    return f != NULL && bytes != NULL && n >= PLAN_FILE_LEAST && n <= f->len && at <= f->len - n &&
           at % PLAN_FILE_ALIGN == 0;
}

uint64_t plan_weight_bytes(const Plan *p)
{
    return p->region_bytes[REGION_WEIGHTS] + (p->experts.slots == 0 ? p->region_bytes[REGION_EXPERTS] : 0);
}

uint64_t plan_state_bytes(const Plan *p)
{
    const uint64_t block = p->caps->is_gpu ? 256 : 64; // lines of GPUs: what is prepared begins with one
    const uint64_t flags = (p->params.len + p->prepare.n_marks + 63u) / 64u * 64u;
    const uint64_t initial = p->region_bytes[REGION_STATE] + p->region_bytes[REGION_PARAM] + flags;
    return (initial + block - 1) / block * block + p->region_bytes[REGION_PREPARED];
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
    if (a->is_written &&
        (b->region == REGION_WEIGHTS || b->region == REGION_EXPERTS || b->region == REGION_FILE))
        return arena_printf(p->arena, "%s: writes to the weights", name);
    if (b->region == REGION_ROWS && (a->is_written || (uint32_t)(k - p->kernels.data) != p->rows.kernel))
        return arena_printf(p->arena, "%s: touches rows of %s that only one kernel is given", name, b->name);
    if (b->region == REGION_MAPS && (a->is_written || b->bytes != PLAN_MAP_BYTES || b->map == NULL))
        return arena_printf(p->arena, "%s: argument %u is no map", name, i);
    if (b->region == REGION_PREPARED && a->is_written &&
        (uint32_t)(k - p->kernels.data) >= p->prepare.n_kernels)
        return arena_printf(p->arena, "%s: writes to what only the preparation makes", name);
    return NULL;
}

// The preparation reads what lasts, or what it has made itself: nothing that a run may change.
static const char *check_preparation(const Plan *p)
{
    Arena scratch = {0};
    bool *is_made = ARENA_ARRAY(&scratch, bool, p->buffers.len);
    const char *wrong = NULL;
    for (uint32_t i = 0; i < p->prepare.n_kernels && wrong == NULL; i++)
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

typedef struct Bytes {
    uint64_t begin, end;
} Bytes;

// A buffer that has been written, and what of its bytes in the arena others have written since.
typedef struct Live {
    BufId buf;
    Bytes all;
    VEC(Bytes) lost; // disjoint
} Live;

// Replays the kernels: what a kernel reads from the arena must still be what was last written there.
typedef struct Replay {
    const Plan *p;
    VEC(Live) live;
    Arena *arena;
} Replay;

static Bytes common_bytes(Bytes a, Bytes b)
{
    const Bytes both = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    return both.begin < both.end ? both : (Bytes){0};
}

static Bytes arg_bytes(const Plan *p, const PlanArg *a)
{
    const uint64_t at = p->buffers.data[a->buf].offset;
    return (Bytes){at + a->begin, at + a->end};
}

static Bytes all_bytes(const Plan *p, BufId buf)
{
    const PlanBuffer *b = &p->buffers.data[buf];
    return (Bytes){b->offset, b->offset + b->bytes};
}

static bool holds(const Replay *r, BufId buf, Bytes wanted)
{
    for (uint32_t i = 0; i < r->live.len; i++) {
        const Live *l = &r->live.data[i];
        if (l->buf != buf)
            continue;
        for (uint32_t k = 0; k < l->lost.len; k++)
            if (common_bytes(l->lost.data[k], wanted).end != 0)
                return false;
        return true;
    }
    return false;
}

// Takes bytes out of what is lost.
static void find_again(Replay *r, Live *l, Bytes found)
{
    const uint32_t n = l->lost.len;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const Bytes old = l->lost.data[i], both = common_bytes(old, found);
        if (both.end == 0 || old.begin < both.begin)
            l->lost.data[kept++] = (Bytes){old.begin, both.end == 0 ? old.end : both.begin};
        if (both.end != 0 && both.end < old.end)
            vec_push(r->arena, &l->lost, ((Bytes){both.end, old.end}));
    }
    for (uint32_t i = n; i < l->lost.len; i++)
        l->lost.data[kept++] = l->lost.data[i];
    l->lost.len = kept;
}

static void lose(Replay *r, Live *l, Bytes written)
{
    const Bytes both = common_bytes(l->all, written);
    if (both.end == 0)
        return;
    find_again(r, l, both);
    vec_push(r->arena, &l->lost, both);
}

static bool is_all_lost(const Live *l)
{
    uint64_t left = l->all.end - l->all.begin;
    for (uint32_t i = 0; i < l->lost.len; i++)
        left -= l->lost.data[i].end - l->lost.data[i].begin;
    return left == 0;
}

// What is not written of a buffer that begins to live means nothing, and is as good as there.
static void write_buffer(Replay *r, BufId buf, Bytes written)
{
    uint32_t n = 0;
    bool is_new = true;
    for (uint32_t i = 0; i < r->live.len; i++) {
        Live l = r->live.data[i];
        if (l.buf == buf)
            find_again(r, &l, written);
        else
            lose(r, &l, written);
        is_new = is_new && l.buf != buf;
        if (l.buf == buf || !is_all_lost(&l))
            r->live.data[n++] = l;
    }
    r->live.len = n;
    if (is_new)
        vec_push(r->arena, &r->live, ((Live){.buf = buf, .all = all_bytes(r->p, buf)}));
}

// Does a kernel of several make itself what it reads through an argument?
static bool is_made_inside(const PlanKernel *k, const PlanArg *a)
{
    for (uint32_t i = 0; k->is_joined && i < k->args.len; i++) {
        const PlanArg *b = &k->args.data[i];
        if (b->is_written && b->buf == a->buf && b->begin < a->end && a->begin < b->end)
            return true;
    }
    return false;
}

static const char *replay_kernel(Replay *r, const PlanKernel *k)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        const bool is_scratch = a->is_written && a->is_read, is_empty = a->begin == a->end;
        if (!is_empty && p->buffers.data[a->buf].region == REGION_ARENA && a->is_read && !is_scratch &&
            !is_made_inside(k, a) && !holds(r, a->buf, arg_bytes(p, a)))
            return arena_printf(p->arena, "%s: buffer %s was overwritten before it is read", k->kernel->name,
                                p->buffers.data[a->buf].name);
    }
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].is_written && p->buffers.data[k->args.data[i].buf].region == REGION_ARENA)
            write_buffer(r, k->args.data[i].buf, arg_bytes(p, &k->args.data[i]));
    return NULL;
}

static bool writes_state(const Plan *p, const PlanKernel *k)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].is_written && p->buffers.data[k->args.data[i].buf].region == REGION_STATE)
            return true;
    return false;
}

// A state moves (PlanKernel.is_first) before something else may write into its buffer.
static const char *check_moves(const Plan *p)
{
    for (uint32_t i = 1; i < p->kernels.len; i++)
        if (p->kernels.data[i].is_first && !p->kernels.data[i - 1].is_first)
            return arena_printf(p->arena, "%s: does not run before all others",
                                p->kernels.data[i].kernel->name);
    return NULL;
}

// When the checks are tested, their values are there, and no state has changed.
static const char *check_checks(const Replay *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->checks.len; i++) {
        const PlanBuffer *b = &p->buffers.data[p->checks.data[i].buf];
        if (p->checks.data[i].byte_offset >= b->bytes ||
            (b->region == REGION_ARENA &&
             !holds(r, p->checks.data[i].buf, all_bytes(p, p->checks.data[i].buf))))
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
    if (wrong == NULL)
        wrong = check_moves(p);
    if (wrong == NULL)
        wrong = plan_check_banks(p);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        if (p->inputs.data[i].bytes > 0 && is_arena(p, p->inputs.data[i].buf))
            write_buffer(&r, p->inputs.data[i].buf, all_bytes(p, p->inputs.data[i].buf));
    for (uint32_t i = 0; i < p->kernels.len && wrong == NULL; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        if (i == p->n_check_kernels)
            wrong = check_checks(&r);
        for (uint32_t j = 0; j < k->args.len && wrong == NULL; j++)
            wrong = check_arg(p, k, j);
        if (wrong == NULL)
            wrong = replay_kernel(&r, k);
        if (wrong == NULL)
            wrong = plan_replay_kernel(p, k);
        if (wrong == NULL && k->loop != NULL)
            wrong = plan_verify(k->loop->body);
    }
    if (wrong == NULL && p->n_check_kernels == p->kernels.len)
        wrong = check_checks(&r);
    for (uint32_t i = 0; i < p->outputs.len && wrong == NULL; i++)
        if (p->outputs.data[i].bytes > 0 && is_arena(p, p->outputs.data[i].buf) &&
            !holds(&r, p->outputs.data[i].buf, all_bytes(p, p->outputs.data[i].buf)))
            wrong =
                arena_printf(p->arena, "output %s was overwritten before the end", p->outputs.data[i].name);
    for (uint32_t i = 0; i < p->sizes.len && wrong == NULL; i++)
        if (p->sizes.data[i].bytes > 0 &&
            !holds(&r, p->sizes.data[i].buf, all_bytes(p, p->sizes.data[i].buf)))
            wrong = arena_printf(p->arena, "%s were overwritten before the end", p->sizes.data[i].name);
    arena_free(&scratch);
    return wrong;
}

static int by_place(const void *a, const void *b)
{
    const PlanBuffer *x = *(const PlanBuffer *const *)a, *y = *(const PlanBuffer *const *)b;
    if (x->bank != y->bank)
        return x->bank < y->bank ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

// live: room for all buffers.
static uint64_t taken_bytes(const Plan *p, uint32_t step, const PlanBuffer **live)
{
    uint64_t bytes = 0, end = 0;
    uint32_t n = 0;
    for (BufId b = 1; b < p->buffers.len; b++)
        if (plan_buffer_is_live(&p->buffers.data[b], step))
            live[n++] = &p->buffers.data[b];
    qsort(live, n, sizeof *live, by_place);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || live[i]->bank != live[i - 1]->bank)
            end = 0;
        const uint64_t from = live[i]->offset > end ? live[i]->offset : end,
                       to = live[i]->offset + live[i]->bytes;
        bytes += to > from ? to - from : 0;
        end = to > end ? to : end;
    }
    return bytes;
}

uint64_t plan_live_bytes(const Plan *p, uint32_t step)
{
    Arena scratch = {0};
    const PlanBuffer **live = arena_alloc_array(&scratch, p->buffers.len + 1u, sizeof *live);
    const uint64_t bytes = taken_bytes(p, step, live);
    arena_free(&scratch);
    return bytes;
}

uint32_t plan_peak_step(const Plan *p)
{
    Arena scratch = {0};
    const PlanBuffer **live = arena_alloc_array(&scratch, p->buffers.len + 1u, sizeof *live);
    uint64_t most = 0;
    uint32_t at = 0;
    for (uint32_t step = 0; step < p->kernels.len; step++) {
        const uint64_t bytes = taken_bytes(p, step, live);
        at = bytes > most ? step : at;
        most = bytes > most ? bytes : most;
    }
    arena_free(&scratch);
    return at;
}

const PlanIo *plan_io(const Plan *p, uint32_t i)
{
    const struct {
        const PlanIo *io;
        uint32_t n;
    } lists[] = {{p->inputs.data, p->inputs.len},
                 {p->outputs.data, p->outputs.len},
                 {p->kept.data, p->kept.len},
                 {p->sizes.data, p->sizes.len}};
    for (uint32_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        if (i < lists[l].n)
            return &lists[l].io[i];
        i -= lists[l].n;
    }
    return NULL;
}
