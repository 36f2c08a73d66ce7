// SPDX-License-Identifier: Apache-2.0
// See plan_run.h. Loops do what codegen/host/host_loop.c prints.
#include "plan_run.h"

#include <string.h>

enum { MAX_ARGS = 64 };

typedef struct Runner {
    PlanLaunch launch;
    void *ctx;
} Runner;

static bool run_kernel(const Runner *r, const PlanKernel *k, void **args);

// Where the buffers of a loop's body are in iteration i; `i` itself is one of them.
static void place_body(const PlanLoop *loop, void **args, int64_t *i, char **buffer)
{
    const Plan *body = loop->body;
    char *const arena = loop->arena != PLAN_NO_ARG ? args[loop->arena] : NULL;
    char *const weights = loop->weights != PLAN_NO_ARG ? args[loop->weights] : NULL;
    for (BufId b = 1; b < body->buffers.len; b++) {
        const PlanBuffer *buf = &body->buffers.data[b];
        if (buf->region != REGION_OUTER) {
            char *const base = buf->region == REGION_WEIGHTS ? weights : arena;
            buffer[b] = base != NULL ? base + buf->offset : NULL;
            continue;
        }
        const PlanSlot *s = &body->slots.data[buf->slot];
        buffer[b] = s->arg == PLAN_NO_ARG ? (char *)i : (char *)args[s->arg] + s->start + *i * s->step;
        buffer[b] += buf->offset;
    }
}

static bool read_flag(const void *at)
{
    unsigned char flag = 0;
    memcpy(&flag, at, 1);
    return flag != 0;
}

static bool run_loop(const Runner *r, const PlanKernel *k, void **args)
{
    const PlanLoop *loop = k->loop;
    char **buffer = ARENA_ARRAY(loop->body->arena, char *, loop->body->buffers.len);
    int64_t n = loop->max_trips, i = 0;
    if (loop->trips != PLAN_NO_ARG) {
        memcpy(&n, args[loop->trips], sizeof n);
        n = n < loop->max_trips ? n : loop->max_trips;
    }
    bool go = loop->cond == PLAN_NO_ARG || read_flag(args[loop->cond]), ok = true;
    for (uint32_t c = 0; c < loop->cleared.len; c++) {
        const PlanArg *arg = &k->args.data[loop->cleared.data[c]];
        memset(args[loop->cleared.data[c]], 0, arg->end - arg->begin);
    }
    for (; i < n && go && ok; i++) {
        place_body(loop, args, &i, buffer);
        ok = plan_run(loop->body, buffer, r->launch, r->ctx);
        if (loop->has_cond) {
            const PlanIo *cond = &loop->body->outputs.data[0];
            go = read_flag(buffer[cond->buf] + cond->byte_offset);
        }
    }
    if (loop->count != PLAN_NO_ARG)
        memcpy(args[loop->count], &i, sizeof i);
    return ok;
}

static bool run_kernel(const Runner *r, const PlanKernel *k, void **args)
{
    return k->loop != NULL ? run_loop(r, k, args) : r->launch(r->ctx, k, args);
}

bool plan_run(const Plan *p, char *const *buffer, PlanLaunch launch, void *ctx)
{
    const Runner r = {launch, ctx};
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        void *args[MAX_ARGS];
        rlx_assert(k->args.len <= MAX_ARGS);
        for (uint32_t a = 0; a < k->args.len; a++)
            args[a] = buffer[k->args.data[a].buf] + k->args.data[a].byte_offset -
                      (k->loop != NULL ? 0 : k->args.data[a].below);
        if (!run_kernel(&r, k, args))
            return false;
    }
    return true;
}
