// SPDX-License-Identifier: Apache-2.0
// Inputs from a fixed generator and parameters from files (NAME.bin), for programs that compare models with
// parameters to the same ones with constants. Behind the model's header.
#ifndef TESTS_RUNTIME_PARAMS_H
#define TESTS_RUNTIME_PARAMS_H

#include "check.h"

enum { MAX_PARAM = 1 << 18 };
static unsigned char value[MAX_PARAM];

// The same numbers for every run: inputs are consumed. All inputs are f32.
static void fill_inputs(const rlx_ctx *ctx)
{
    uint32_t i, seed = 1;
    size_t j;
    for (i = 0; i < ctx->model->n_inputs; i++) {
        float *x = (float *)rlx_input(ctx, i);
        for (j = 0; j < rlx_input_bytes(ctx, i) / sizeof(float); j++) {
            seed = seed * 1664525u + 1013904223u;
            x[j] = (float)(seed >> 8) / 8388608.0f - 1.0f;
        }
    }
}

// Into `value`; the number of bytes.
static size_t read_param(const rlx_tensor *t)
{
    char path[64];
    FILE *f;
    size_t n;
    snprintf(path, sizeof path, "%s.bin", t->name);
    f = fopen(path, "rb");
    if (f == NULL)
        return 0;
    n = fread(value, 1, sizeof value, f);
    fclose(f);
    return n;
}

// is_fresh: none was set before, so that they are missed in order.
static void set_all(rlx_ctx *ctx, int is_fresh)
{
    uint32_t i;
    for (i = 0; i < ctx->model->n_params; i++) {
        const rlx_tensor *t = &ctx->model->params[i];
        const char *missing = rlx_missing_param(ctx);
        CHECK(is_fresh ? missing != NULL && strcmp(missing, t->name) == 0 : missing != NULL || i > 0);
        CHECK(read_param(t) == t->bytes);
        CHECK(rlx_set_param_typed(ctx, t->name, value, t->bytes, t->dtype) == RLX_OK);
    }
}

// TEAM threads share the runs from start_team to stop_team.
static void start_team(rlx_ctx *ctx)
{
#if TEAM > 1
    static rlx_pool pool;
    CHECK(rlx_threads_start(ctx, &pool, TEAM) == RLX_OK);
#else
    (void)ctx;
#endif
}

static void stop_team(rlx_ctx *ctx)
{
#if TEAM > 1
    rlx_threads_stop(ctx);
#else
    (void)ctx;
#endif
}

#endif
