// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: looking inside a model: times of its kernels, values by name, memory that may be lent out.
// Pasted behind rlx.h unless a model is compiled with --api core.
#ifndef RLX_LOOK_H
#define RLX_LOOK_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- times -------------------------------------------------------------------------------------

// Where a context's times go (models compiled with --profile). The memory is the caller's, and so is the
// clock: what it counts (nanoseconds, cycles) is what the ticks are.
typedef struct rlx_profile {
    uint64_t (*clock)(void *user);
    void *user;
    // By kernel of rlx_model.kernels, in order: summed over the runs; loops hold their bodies. Or NULL: on a
    // device runs then go on as without a profile, while for the times of kernels each is waited for.
    uint64_t *ticks;
    uint64_t runs; // that have ended
    // On a device, summed over the runs of rlx_run: until the host had given it all commands, and from then
    // until it was done.
    uint64_t encoding, waiting;
} rlx_profile;

// From now on runs add to the profile, which must stay where it is; NULL: no more. ticks are set to 0.
// RLX_ERR_VALUE: the model was compiled without --profile.
static inline rlx_status rlx_set_profile(rlx_ctx *ctx, rlx_profile *profile)
{
    uint32_t i;
    if (ctx == NULL || ctx->model == NULL ||
        (profile != NULL && profile->clock == NULL))
        return rlx_fail_null(ctx);
    if (!ctx->model->has_profile)
        return rlx_fail(ctx, RLX_ERR_VALUE, RLX_ABOUT_CALL, NULL, 0, 1);
    for (i = 0; profile != NULL && profile->ticks != NULL && i < ctx->model->n_kernels; i++)
        profile->ticks[i] = 0;
    if (profile != NULL)
        profile->runs = profile->encoding = profile->waiting = 0;
    ctx->profile = profile;
    return RLX_OK;
}

// On a device, while a profile with ticks is set: nanoseconds of its own clock, by kernel, summed over the
// runs from now on; without what launching and waiting take, which the ticks have. n: room for as many as
// the model has (NAME_KERNELS), else RLX_ERR_SIZE; NULL and 0: no more. Numbers stay 0 where a device does
// not say (loops, Vulkan devices without timestamps).
static inline rlx_status rlx_set_device_times(rlx_ctx *ctx, double *ns, uint32_t n)
{
    uint32_t i;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (!ctx->model->has_profile)
        return rlx_fail(ctx, RLX_ERR_VALUE, RLX_ABOUT_CALL, NULL, 0, 1);
    if (ns != NULL ? n < ctx->model->n_kernels : n != 0)
        return rlx_fail_size(ctx, RLX_ABOUT_CALL, NULL, ctx->model->n_kernels, n);
    for (i = 0; ns != NULL && i < n; i++)
        ns[i] = 0;
    ctx->device_ns = ns;
    return RLX_OK;
}

// The generated code and the files of devices call these.
static inline uint64_t rlx_lap_begin(const rlx_profile *p)
{
    return p != NULL ? p->clock(p->user) : 0;
}

static inline uint64_t rlx_lap(const rlx_profile *p, uint32_t kernel, uint64_t from)
{
    const uint64_t now = rlx_lap_begin(p);
    if (p != NULL && p->ticks != NULL)
        p->ticks[kernel] += now - from;
    return now;
}

// A run on a device began at `begin`, and had all its commands at `given`.
static inline void rlx_lap_run(rlx_profile *p, uint64_t begin, uint64_t given)
{
    if (p == NULL)
        return;
    p->encoding += given - begin;
    p->waiting += p->clock(p->user) - given;
    p->runs++;
}

static inline int rlx_times_kernels(const rlx_ctx *ctx)
{
    return ctx->profile != NULL && ctx->profile->ticks != NULL;
}

// --- values by name -----------------------------------------------------------------------------

// An input, output, state, parameter or kept value (--keep NAME) by its name. NULL: there is none.
static inline const rlx_tensor *rlx_find_value(const rlx_model *m, const char *name, int *in_state)
{
    int slot;
    if (m == NULL || name == NULL)
        return NULL;
    if (in_state != NULL)
        *in_state = 0;
    if ((slot = rlx_find(m->kept, m->n_kept, name)) >= 0)
        return &m->kept[slot];
    if ((slot = rlx_find(m->outputs, m->n_outputs, name)) >= 0)
        return &m->outputs[slot];
    if ((slot = rlx_find(m->inputs, m->n_inputs, name)) >= 0)
        return &m->inputs[slot];
    if (in_state != NULL)
        *in_state = 1;
    if ((slot = rlx_find(m->held, m->n_held, name)) >= 0)
        return &m->held[slot];
    if ((slot = rlx_find(m->states, m->n_states, name)) >= 0)
        return &m->states[slot];
    slot = rlx_find(m->params, m->n_params, name);
    return slot >= 0 ? &m->params[slot] : NULL;
}

// Its memory: of outputs and kept values after a run, of inputs before one. Of a state on a device a copy,
// as it is now.
static inline void *rlx_value_data(const rlx_ctx *ctx, const char *name)
{
    int in_state = 0;
    const rlx_tensor *t = rlx_find_value(ctx == NULL ? NULL : ctx->model, name, &in_state);
    if (t != NULL && in_state && rlx_get_state(ctx, t->offset, t->bytes) != RLX_OK)
        return NULL;
    return t == NULL ? NULL : (in_state ? ctx->state : ctx->arena) + t->offset;
}

// --- memory between runs ------------------------------------------------------------------------

// The part of the arena that nothing lasting is in between runs: inputs, outputs and kept values lie beside
// it. Other work may use it from the end of a run to the start of the next one; a run does not care what is
// there. *bytes gets its size.
static inline void *rlx_scratch(const rlx_ctx *ctx, size_t *bytes)
{
    if (ctx == NULL || ctx->model == NULL || bytes == NULL)
        return NULL;
    *bytes = ctx->model->scratch_bytes;
    return *bytes != 0 ? ctx->arena + ctx->model->scratch_offset : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
