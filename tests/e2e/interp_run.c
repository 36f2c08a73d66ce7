// SPDX-License-Identifier: Apache-2.0
// See interp_run.h.
#include "interp_run.h"

#include <string.h>

// --- memory --------------------------------------------------------------------------------------

static EvalMemory *memory_new(Arena *a, uint64_t bytes)
{
    enum { ALIGN = 64 };
    EvalMemory *m = ARENA_NEW(a, EvalMemory);
    unsigned char *data = ARENA_ARRAY(a, unsigned char, bytes + ALIGN);
    data += (ALIGN - (uintptr_t)data % ALIGN) % ALIGN;
    *m = (EvalMemory){.data = data, .bytes = bytes, .written = ARENA_ARRAY(a, unsigned char, bytes + 1)};
    memset(data, 0xff, bytes);
    return m;
}

static void fill(const Plan *p, BufId b, EvalMemory *m)
{
    const PlanBuffer *buf = &p->buffers.data[b];
    const void *bytes = plan_buffer_bytes(buf, p->arena);
    if (bytes != NULL)
        memcpy(m->data, bytes, buf->bytes);
    else if (buf->region == REGION_STATE || buf->region == REGION_PARAM)
        memset(m->data, 0, buf->bytes);
    else
        return;
    memset(m->written, 1, buf->bytes);
}

// The arena of a plan that lets buffers overlap while both are in use: one memory, with the planned offsets.
static void share_arena(Arena *a, InterpRun *r)
{
    const Plan *p = r->plan;
    EvalMemory *arena =
        p->caps->prefers_ints && p->caps->threads <= 1 ? memory_new(a, p->region_bytes[REGION_ARENA]) : NULL;
    for (BufId b = 1; b < p->buffers.len && arena != NULL; b++)
        if (p->buffers.data[b].region == REGION_ARENA)
            r->place[b] = (InterpPlace){arena, p->buffers.data[b].offset};
}

InterpRun interp_make(Arena *a, const Plan *p)
{
    InterpRun r = {.plan = p, .place = ARENA_ARRAY(a, InterpPlace, p->buffers.len)};
    r.memory = (Memory){.n = p->buffers.len, .buffer = ARENA_ARRAY(a, char *, p->buffers.len)};
    share_arena(a, &r);
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        const bool is_unused = buf->region == REGION_WEIGHTS && buf->first == UINT32_MAX;
        if (is_unused || buf->shares != 0 || r.place[b].memory != NULL)
            continue;
        r.place[b].memory = memory_new(a, buf->bytes);
        fill(p, b, r.place[b].memory);
    }
    for (BufId b = 1; b < p->buffers.len; b++) {
        BufId own = b;
        while (p->buffers.data[own].shares != 0)
            own = p->buffers.data[own].shares;
        r.place[b] = r.place[own];
        r.memory.buffer[b] =
            r.place[b].memory != NULL ? (char *)r.place[b].memory->data + r.place[b].at : NULL;
    }
    return r;
}

// --- launches ------------------------------------------------------------------------------------

// Of a tensor map: memory of the tensor, from its begin on.
static const char *map_arg(Arena *a, const Plan *p, const InterpPlace *place, const PlanTensorMap *map,
                           EvalArg *out)
{
    const InterpPlace tensor = place[map->buf];
    uint64_t bytes = dtype_info[map->type].bytes * map->dim[0];
    for (uint32_t i = 1; i < map->rank; i++)
        bytes += (map->dim[i] - 1) * map->stride[i];
    const uint64_t at = tensor.at + map->byte_offset;
    if (tensor.memory == NULL || map->byte_offset + bytes > p->buffers.data[map->buf].bytes)
        return arena_printf(a, "a tensor map of %llu bytes, beyond its buffer", (unsigned long long)bytes);
    *out = (EvalArg){.memory = tensor.memory, .at = at, .begin = at, .end = at + bytes, .map = map};
    return NULL;
}

static const char *make_arg(Arena *a, const Plan *p, const InterpPlace *place, const PlanArg *arg,
                            EvalArg *out)
{
    const PlanBuffer *buf = &p->buffers.data[arg->buf];
    const InterpPlace at = place[arg->buf];
    if (buf->map != NULL)
        return map_arg(a, p, place, buf->map, out);
    *out = (EvalArg){.memory = at.memory,
                     .at = at.at + arg->byte_offset - arg->below,
                     .begin = at.at + arg->begin,
                     .end = at.at + arg->end};
    return at.memory != NULL && out->end <= at.memory->bytes ? NULL : "an argument without memory";
}

static const char *launch(Arena *a, InterpRun *r, const PlanKernel *k, const PlanPhase *phase,
                          const EvalArg *args)
{
    EvalLaunch l = {.kernel = phase != NULL ? phase->kernel : k->kernel,
                    .args = args,
                    .parts = k->threads.is_shared ? r->parts : 1,
                    .has_wgmma = r->has_wgmma,
                    .has_coop = r->has_coop,
                    .steps = &r->steps};
    EvalArg *own = ARENA_ARRAY(a, EvalArg, l.kernel->params.len + 1);
    for (uint32_t i = 0; phase != NULL && i < l.kernel->params.len; i++)
        own[i] = args[phase->args[i]];
    l.args = phase != NULL ? own : args;
    l.reached = r->watched == l.kernel ? r->reached : NULL;
    r->launches++;
    return kernel_eval(a, &l);
}

static const char *run_plan(Arena *a, InterpRun *r, const Plan *p, const InterpPlace *place, uint32_t first);

// Buffers of a loop's body in iteration i, which is itself one of them.
static void place_body(const PlanLoop *loop, const EvalArg *args, EvalMemory *i, int64_t number,
                       InterpPlace *place)
{
    const Plan *body = loop->body;
    for (BufId b = 1; b < body->buffers.len; b++) {
        const PlanBuffer *buf = &body->buffers.data[b];
        uint32_t arg = buf->region == REGION_WEIGHTS ? loop->weights : loop->arena;
        int64_t offset = 0;
        if (buf->region == REGION_OUTER) {
            const PlanSlot *s = &body->slots.data[buf->slot];
            arg = s->arg;
            offset = s->start + number * s->step;
            if (arg == PLAN_NO_ARG) {
                place[b] = (InterpPlace){i, buf->offset};
                continue;
            }
        }
        place[b] = (InterpPlace){0};
        if (arg != PLAN_NO_ARG)
            place[b] = (InterpPlace){args[arg].memory, args[arg].at + (uint64_t)offset + buf->offset};
    }
}

static bool read_flag(const EvalMemory *m, uint64_t at)
{
    return m->data[at] != 0;
}

static int64_t count_trips(const PlanLoop *loop, const EvalArg *args)
{
    int64_t n = loop->max_trips;
    if (loop->trips != PLAN_NO_ARG) {
        memcpy(&n, args[loop->trips].memory->data + args[loop->trips].at, sizeof n);
        n = n < loop->max_trips ? n : loop->max_trips;
    }
    return n;
}

static const char *run_loop(Arena *a, InterpRun *r, const PlanKernel *k, const EvalArg *args)
{
    const PlanLoop *loop = k->loop;
    const char *wrong = NULL;
    const int64_t n = count_trips(loop, args);
    int64_t i = 0;
    InterpPlace *place = ARENA_ARRAY(a, InterpPlace, loop->body->buffers.len);
    EvalMemory *number = memory_new(a, sizeof i);
    bool goes = loop->cond == PLAN_NO_ARG || read_flag(args[loop->cond].memory, args[loop->cond].at);
    memset(number->written, 1, sizeof i);
    for (uint32_t c = 0; c < loop->cleared.len; c++) {
        const EvalArg *arg = &args[loop->cleared.data[c]];
        memset(arg->memory->data + arg->begin, 0, arg->end - arg->begin);
        memset(arg->memory->written + arg->begin, 1, arg->end - arg->begin);
    }
    for (; i < n && goes && wrong == NULL; i++) {
        memcpy(number->data, &i, sizeof i);
        place_body(loop, args, number, i, place);
        wrong = run_plan(a, r, loop->body, place, 0);
        if (loop->has_cond) {
            const PlanIo *cond = &loop->body->outputs.data[0];
            goes = read_flag(place[cond->buf].memory, place[cond->buf].at + cond->byte_offset);
        }
    }
    if (loop->count != PLAN_NO_ARG) {
        const EvalArg *count = &args[loop->count];
        memcpy(count->memory->data + count->at, &i, sizeof i);
        memset(count->memory->written + count->at, 1, sizeof i);
    }
    return wrong;
}

static const char *run_kernel(Arena *a, InterpRun *r, const Plan *p, const InterpPlace *place,
                              const PlanKernel *k)
{
    EvalArg *args = ARENA_ARRAY(a, EvalArg, k->args.len + 1);
    const char *wrong = NULL;
    for (uint32_t i = 0; i < k->args.len && wrong == NULL; i++) {
        PlanArg arg = k->args.data[i];
        arg.below = k->loop != NULL ? 0 : arg.below;
        wrong = make_arg(a, p, place, &arg, &args[i]);
        if (wrong != NULL)
            wrong = arena_printf(a, "%s: argument %u: %s", k->kernel->name, i, wrong);
    }
    if (wrong != NULL)
        return wrong;
    if (k->loop != NULL)
        return run_loop(a, r, k, args);
    if (k->threads.phases.len == 0)
        return launch(a, r, k, NULL, args);
    for (uint32_t i = 0; i < k->threads.phases.len && wrong == NULL; i++)
        wrong = launch(a, r, k, &k->threads.phases.data[i], args);
    return wrong;
}

static const char *run_plan(Arena *a, InterpRun *r, const Plan *p, const InterpPlace *place, uint32_t first)
{
    const char *wrong = NULL;
    for (uint32_t i = first; i < p->kernels.len && wrong == NULL; i++)
        wrong = run_kernel(a, r, p, place, &p->kernels.data[i]);
    return wrong;
}

// --- runs ----------------------------------------------------------------------------------------

// The host writes inputs; nothing else of the arena is there from the run before.
static void begin_run(InterpRun *r)
{
    const Plan *p = r->plan;
    for (BufId b = 1; b < p->buffers.len; b++)
        if (p->buffers.data[b].region == REGION_ARENA && r->place[b].memory != NULL)
            memset(r->place[b].memory->written, 0, r->place[b].memory->bytes);
    for (uint32_t i = 0; i < p->inputs.len; i++) {
        const PlanIo *io = &p->inputs.data[i];
        const InterpPlace at = r->place[io->buf];
        memset(at.memory->written + at.at + io->byte_offset, 1, io->bytes);
    }
}

static const char *check_written(Arena *a, const InterpRun *r, const PlanIo *io)
{
    const InterpPlace at = r->place[io->buf];
    const unsigned char *begin = at.memory->written + at.at + io->byte_offset;
    const unsigned char *missing = memchr(begin, 0, io->bytes);
    return missing == NULL
               ? NULL
               : arena_printf(a, "nobody wrote byte %llu of output %s, or made it of what is not there",
                              (unsigned long long)(missing - begin), io->name);
}

const char *interp_run(Arena *a, InterpRun *r, bool is_first)
{
    begin_run(r);
    const char *wrong = run_plan(a, r, r->plan, r->place, is_first ? 0 : r->plan->prepare.n_kernels);
    for (uint32_t i = 0; i < r->plan->outputs.len && wrong == NULL; i++)
        wrong = check_written(a, r, &r->plan->outputs.data[i]);
    return wrong;
}
