// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: times of the kernels of a model (--profile).
#ifndef RLX_PROFILE_H
#define RLX_PROFILE_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
