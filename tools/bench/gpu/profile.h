// SPDX-License-Identifier: Apache-2.0
// Times of a model's kernels by their kinds, where it was compiled with --profile. Behind "m.c".
#ifndef BENCH_GPU_PROFILE_H
#define BENCH_GPU_PROFILE_H

#include <stdio.h>
#include <string.h>

enum { PROFILED = 5, SHOWN = 14 };
static uint64_t ticks[M_KERNELS];
static double device_ns[M_KERNELS];
static rlx_profile profile;

static uint64_t tick(void *user)
{
    (void)user;
    return 0;
}

static void begin_profile(rlx_ctx *ctx)
{
    profile.clock = tick;
    profile.ticks = ticks;
    rlx_set_profile(ctx, &profile);
    rlx_set_device_times(ctx, device_ns, ctx->model->n_kernels);
}

static void end_profile(rlx_ctx *ctx)
{
    rlx_set_device_times(ctx, NULL, 0);
    rlx_set_profile(ctx, NULL);
}

// What kernels do, by their names without the number.
static const char *kind_of(const rlx_ctx *ctx, uint32_t kernel)
{
    const char *name = ctx->model->kernels[kernel].name;
    const char *bar = strchr(name, '_');
    return bar != NULL ? bar + 1 : name;
}

// The kinds of kernels that take longest in a run, in microseconds, each alone on the device.
static void show_profile(const rlx_ctx *ctx, const char *what, int context)
{
    const uint32_t n = ctx->model->n_kernels;
    for (int shown = 0; shown < SHOWN; shown++) {
        double most = 0;
        uint32_t best = 0, count = 0;
        for (uint32_t i = 0; i < n; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < n; k++)
                sum += strcmp(kind_of(ctx, i), kind_of(ctx, k)) == 0 ? device_ns[k] : 0;
            if (sum > most) {
                most = sum;
                best = i;
            }
        }
        if (most == 0)
            return;
        const char *kind = kind_of(ctx, best);
        for (uint32_t k = 0; k < n; k++)
            if (strcmp(kind, kind_of(ctx, k)) == 0 && device_ns[k] != 0) {
                count++;
                device_ns[k] = 0;
            }
        printf("%s_of_%u_%s %d median %.1f best 0\n", what, count, kind, context, most / PROFILED / 1e3);
    }
}

#endif
