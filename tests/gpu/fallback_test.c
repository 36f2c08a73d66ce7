// SPDX-License-Identifier: Apache-2.0
// A model compiled for a GPU with C behind it (both_model), beside the same one compiled for C alone
// (alone_model): they must give the same bits on the CPU, and nearly the same numbers on a device.
// Usage: fallback_test cpu|device|fails [WEIGHTS_OF_BOTH WEIGHTS_OF_ALONE]
#include "../runtime/check.h"
#include "alone.h"
#include "both.h"

#include <math.h>
#include <stdlib.h>

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[BOTH_ARENA_BYTES + 1];
    RLX_ALIGNED unsigned char state[BOTH_STATE_BYTES + 1];
    RLX_ALIGNED unsigned char weights[BOTH_WEIGHT_BYTES + 1];
} Blocks;

static Blocks one, two;

static float number(unsigned i)
{
    return (float)((i * 2654435761u) >> 8) / 8388608.0f - 1.0f;
}

static void fill(rlx_ctx *ctx)
{
    uint32_t i, k;
    for (i = 0; i < ctx->model->n_inputs; i++)
        for (k = 0; k < rlx_input_bytes(ctx, i) / sizeof(float); k++) {
            const float value = number(i * 977u + k);
            memcpy((unsigned char *)rlx_input(ctx, i) + k * sizeof value, &value, sizeof value);
        }
}

static void set_params(rlx_ctx *ctx)
{
    static float values[4096];
    uint32_t i;
    for (i = 0; i < 4096; i++)
        values[i] = number(i + 5u);
    for (i = 0; i < ctx->model->n_params; i++)
        CHECK(rlx_set_param(ctx, ctx->model->params[i].name, values,
                            ctx->model->params[i].bytes / sizeof(float)) == RLX_OK);
}

static void compare(const rlx_ctx *a, const rlx_ctx *b, int is_exact)
{
    uint32_t i, k;
    for (i = 0; i < a->model->n_outputs; i++) {
        const unsigned char *x = (const unsigned char *)rlx_output(a, i);
        const unsigned char *y = (const unsigned char *)rlx_output(b, i);
        CHECK(rlx_output_bytes(a, i) == rlx_output_bytes(b, i));
        CHECK(!is_exact || memcmp(x, y, rlx_output_bytes(a, i)) == 0);
        for (k = 0; k < rlx_output_bytes(a, i) / sizeof(float); k++) {
            float v, w;
            memcpy(&v, x + k * sizeof v, sizeof v);
            memcpy(&w, y + k * sizeof w, sizeof w);
            CHECK(fabsf(v - w) <= 1e-5f * (1.0f + fabsf(w)));
        }
    }
}

static size_t read_weights(const char *path, unsigned char *to)
{
    FILE *f = fopen(path, "rb");
    const size_t n = f != NULL ? fread(to, 1, sizeof one.weights, f) : 0;
    if (f != NULL)
        fclose(f);
    return n;
}

static uint64_t tick(void *user)
{
    return ++*(uint64_t *)user;
}

// The clock moves by 1 with every look at it.
static void time_runs(rlx_ctx *ctx, int is_cpu)
{
    uint64_t now = 0, ticks[BOTH_KERNELS], sum = 0;
    rlx_profile profile;
    uint32_t i;
    profile.clock = tick, profile.user = &now, profile.ticks = NULL;
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && rlx_run(ctx) == RLX_OK && profile.runs == 2);
    CHECK(is_cpu ? profile.encoding + profile.waiting == 0 : profile.encoding >= 2 && profile.waiting == 2);
    profile.ticks = ticks;
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK && rlx_run(ctx) == RLX_OK && profile.runs == 1);
    for (i = 0; i < ctx->model->n_kernels; i++)
        sum += ticks[i];
    CHECK(sum >= (is_cpu ? 3 : 1) && sum <= 2 * BOTH_KERNELS); // a device may do all in one launch
    CHECK(rlx_set_profile(ctx, NULL) == RLX_OK);
}

static void run_both(rlx_ctx *both, rlx_ctx *alone, int is_exact)
{
    int run;
    set_params(both);
    set_params(alone);
    for (run = 0; run < 3; run++) {
        fill(both);
        fill(alone);
        CHECK(rlx_commit(both) == RLX_OK && rlx_sync(both) == RLX_OK && rlx_is_done(both));
        CHECK(rlx_run(alone) == RLX_OK);
        compare(both, alone, is_exact);
    }
}

int main(int argc, char **argv)
{
    const int is_cpu = argc > 1 && strcmp(argv[1], "cpu") == 0, has_file = argc > 3;
    const size_t bytes = has_file ? read_weights(argv[2], one.weights) : 0;
    const size_t alone_bytes = has_file ? read_weights(argv[3], two.weights) : 0;
    rlx_ctx both, alone;
    rlx_status status;
    memset(one.arena, 0xff, sizeof one.arena);
    memset(one.state, 0xff, sizeof one.state);
    CHECK(BOTH_ARENA_BYTES >= ALONE_ARENA_BYTES && BOTH_STATE_BYTES >= ALONE_STATE_BYTES);
    CHECK(rlx_init(&alone, &alone_model, two.arena, sizeof two.arena, two.state, sizeof two.state,
                   has_file ? two.weights : NULL, alone_bytes) == RLX_OK);
    if (has_file)
        CHECK(rlx_init(&both, &both_model, one.arena, sizeof one.arena, one.state, sizeof one.state,
                       one.weights, bytes - 1) == RLX_ERR_WEIGHTS);
    status = rlx_init(&both, &both_model, one.arena, sizeof one.arena, one.state, sizeof one.state,
                      has_file ? one.weights : NULL, bytes);
    if (argc > 1 && strcmp(argv[1], "fails") == 0) {
        CHECK(status == RLX_ERR_DEVICE);
        return failed;
    }
    CHECK(status == RLX_OK && both.model == (is_cpu ? &both_model_on_c : &both_model));
    if (status != RLX_OK)
        return 1;
    run_both(&both, &alone, is_cpu);
    time_runs(&both, is_cpu);
    rlx_close(&both);
    return failed;
}
