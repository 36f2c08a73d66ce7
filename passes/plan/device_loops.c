// SPDX-License-Identifier: Apache-2.0
// See device_loops.h.
#include "passes/plan/device_loops.h"

// A node of a graph costs microseconds when a context is made, and memory of the driver; an iteration of a
// node that goes around, microseconds of every run.
enum { UNROLLED_LAUNCHES = 512 };

// The number of the move, from 1 on.
static uint32_t add_move(Arena *a, PlanLoop *l, PlanMove m)
{
    vec_push(a, &l->moves, m);
    return l->moves.len;
}

static uint32_t find_move(Arena *a, PlanLoop *l, uint32_t begin, PlanMove m)
{
    for (uint32_t i = begin; i < l->moves.len; i++) {
        const PlanMove *o = &l->moves.data[i];
        if (o->arg == m.arg && o->start == m.start && o->step == m.step)
            return i + 1;
    }
    return add_move(a, l, m);
}

// What goes around needs the addresses of its own operands, which a loop around may move as well.
static void add_control(Arena *a, PlanLoop *l)
{
    const uint32_t control[] = {l->trips, l->cond, l->count};
    for (uint32_t i = 0; i < sizeof control / sizeof *control; i++)
        if (control[i] != PLAN_NO_ARG)
            add_move(a, l, (PlanMove){.arg = control[i]});
    for (uint32_t i = 0; i < l->cleared.len; i++)
        add_move(a, l, (PlanMove){.arg = l->cleared.data[i]});
}

static void mark_kernel(Arena *a, const PlanKernel *around, PlanKernel *k, uint32_t n_control)
{
    const Plan *body = around->loop->body;
    for (uint32_t i = 0; i < k->args.len; i++) {
        PlanArg *arg = &k->args.data[i];
        const PlanBuffer *b = &body->buffers.data[arg->buf];
        if (b->region != REGION_OUTER || body->slots.data[b->slot].arg == PLAN_NO_ARG)
            continue;
        const PlanSlot *s = &body->slots.data[b->slot];
        if (s->step == 0 && around->args.data[s->arg].move == 0)
            continue;
        const PlanMove m = {s->arg, s->start + (int64_t)(b->offset + arg->byte_offset), s->step};
        arg->move = find_move(a, around->loop, n_control, m);
        if (k->loop == NULL)
            k->kernel->params.data[i].is_moved = true;
    }
}

// Launches of all iterations of a loop that is the same in all runs; UNROLLED_LAUNCHES + 1: too many, or it
// is not. Recursion: as deep as loops nest.
static uint64_t count_launches(const PlanLoop *l)
{
    uint64_t n = 0;
    if (l->trips != PLAN_NO_ARG || l->cond != PLAN_NO_ARG || l->has_cond || l->count != PLAN_NO_ARG ||
        l->cleared.len != 0 || l->max_trips > UNROLLED_LAUNCHES)
        return UNROLLED_LAUNCHES + 1;
    for (uint32_t i = 0; i < l->body->kernels.len; i++) {
        const PlanLoop *inner = l->body->kernels.data[i].loop;
        n += inner != NULL ? count_launches(inner) : 1;
    }
    n *= (uint64_t)l->max_trips;
    return n <= UNROLLED_LAUNCHES ? n : UNROLLED_LAUNCHES + 1;
}

static bool is_moved(const PlanKernel *k)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].move != 0)
            return true;
    return false;
}

// From the outside inwards. Recursion: as deep as loops nest.
static void mark_loop(Arena *a, PlanKernel *k)
{
    PlanLoop *l = k->loop;
    l->is_on_device = true;
    l->is_unrolled = !is_moved(k) && count_launches(l) <= UNROLLED_LAUNCHES;
    for (uint32_t i = 0; l->is_unrolled && i < l->body->kernels.len; i++)
        if (l->body->kernels.data[i].loop != NULL)
            mark_loop(a, &l->body->kernels.data[i]);
    if (l->is_unrolled)
        return;
    add_control(a, l);
    const uint32_t n_control = l->moves.len;
    for (uint32_t i = 0; i < l->body->kernels.len; i++) {
        mark_kernel(a, k, &l->body->kernels.data[i], n_control);
        if (l->body->kernels.data[i].loop != NULL)
            mark_loop(a, &l->body->kernels.data[i]);
    }
}

void device_loops_mark(Plan *p)
{
    rlx_assert(p->caps->is_gpu);
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            mark_loop(p->arena, &p->kernels.data[i]);
}
