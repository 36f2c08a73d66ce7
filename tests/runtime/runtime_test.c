// SPDX-License-Identifier: Apache-2.0
// Every call of runtime-lite on a generated model (mission.json), with every way to use it wrongly: a call
// that fails has changed nothing. The model is the mission's example: x[2,4] . w[4,3] + b, then gelu, with w
// as a parameter.
#include "check.h"
#include "mission.h"
#include <math.h>

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[MISSION_ARENA_BYTES + 64];
    RLX_ALIGNED unsigned char state[MISSION_STATE_BYTES + 64];
} Blocks;

static Blocks one, two, before;

static double gelu(double v)
{
    return 0.5 * v * erfc(-v * 0.70710678118654752);
}

static const float x[8] = {1, 0, 0, 0, 0, 1, 0, 0}; // rows e0 and e1
static const float w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
static const double sums[6] = {1.5, -0.5, 0, 0.5, 0.5, 0};

static int is_expected(const float *y, double scale)
{
    int i, ok = 1;
    for (i = 0; i < 6; i++) {
        const double bias = i % 3 == 0 ? 0.5 : i % 3 == 1 ? -0.5 : 0;
        ok = ok && fabs(y[i] - gelu((sums[i] - bias) * scale + bias)) < 1e-6;
    }
    return ok;
}

static void test_init(rlx_ctx *ctx)
{
    const size_t a = MISSION_ARENA_BYTES, s = MISSION_STATE_BYTES;
    REFUSES(mission_init(NULL, one.arena, a, one.state, s), RLX_ERR_NULL);
    REFUSES(mission_init(ctx, NULL, a, one.state, s), RLX_ERR_NULL);
    REFUSES(mission_init(ctx, one.arena, a, NULL, s), RLX_ERR_NULL);
    REFUSES(mission_init(ctx, one.arena, a - 1, one.state, s), RLX_ERR_ARENA);
    REFUSES(mission_init(ctx, one.arena, a, one.state, s - 1), RLX_ERR_ARENA);
    REFUSES(mission_init(ctx, one.arena + 4, a, one.state, s), RLX_ERR_ALIGNMENT);
    REFUSES(mission_init(ctx, one.arena, a, one.state + 8, s), RLX_ERR_ALIGNMENT);
    REFUSES(rlx_init(ctx, NULL, one.arena, a, one.state, s, NULL, 0), RLX_ERR_NULL);
    REFUSES(rlx_init(ctx, &mission_model, one.arena, a, one.state, s, one.arena, 1), RLX_ERR_WEIGHTS);
    CHECK(mission_init(ctx, one.arena, a, one.state, s) == RLX_OK);
}

static void test_params(rlx_ctx *ctx)
{
    float y[6], seen[1], doubled[12];
    int i;
    REFUSES(mission(ctx, x, y, seen), RLX_ERR_PARAM);
    REFUSES(rlx_run(ctx), RLX_ERR_PARAM);
    CHECK(rlx_missing_param(ctx) != NULL && strcmp(rlx_missing_param(ctx), "w") == 0);
    REFUSES(rlx_set_param(ctx, "v", w, 12), RLX_ERR_NAME);
    REFUSES(rlx_set_param(ctx, "w", w, 11), RLX_ERR_SIZE);
    REFUSES(rlx_set_param(ctx, "w", NULL, 12), RLX_ERR_NULL);
    REFUSES(rlx_set_param(ctx, NULL, w, 12), RLX_ERR_NULL);
    REFUSES(rlx_set_param(NULL, "w", w, 12), RLX_ERR_NULL);
    REFUSES(rlx_set_param_typed(ctx, "w", w, sizeof w, RLX_I32), RLX_ERR_DTYPE);
    CHECK(rlx_set_param(ctx, "w", w, 12) == RLX_OK);
    CHECK(rlx_missing_param(ctx) == NULL);
    CHECK(mission(ctx, x, y, seen) == RLX_OK && is_expected(y, 1));
    for (i = 0; i < 12; i++)
        doubled[i] = 2 * w[i];
    CHECK(rlx_set_param_typed(ctx, "w", doubled, sizeof doubled, RLX_F32) == RLX_OK);
    CHECK(mission(ctx, x, y, seen) == RLX_OK && is_expected(y, 2));
    CHECK(rlx_set_param(ctx, "w", w, 12) == RLX_OK);
}

static void test_runs(rlx_ctx *ctx)
{
    float y[6], seen[1];
    rlx_slot slots[2];
    const void *inputs[1] = {x}, *missing[1] = {NULL};
    rlx_named in = {"x", x, sizeof x}, wrong_name = {"z", x, sizeof x}, wrong_size = {"x", x, 4},
              no_data = {"x", NULL, sizeof x};
    rlx_named_out out = {"y", y, sizeof y}, bad_out = {"yy", y, sizeof y}, short_out = {"y", y, 4},
                  null_out = {"y", NULL, sizeof y};
    REFUSES(mission(ctx, NULL, y, seen), RLX_ERR_NULL);
    REFUSES(mission(ctx, x, NULL, seen), RLX_ERR_NULL);
    REFUSES(mission(NULL, x, y, seen), RLX_ERR_NULL);
    REFUSES(rlx_run(NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_slots(ctx, NULL, slots), RLX_ERR_NULL);
    REFUSES(rlx_run_slots(ctx, missing, slots), RLX_ERR_NULL);
    REFUSES(rlx_run_named(ctx, &in, 0, &out, 1), RLX_ERR_INPUT);
    REFUSES(rlx_run_named(ctx, &wrong_name, 1, &out, 1), RLX_ERR_NAME);
    REFUSES(rlx_run_named(ctx, &wrong_size, 1, &out, 1), RLX_ERR_SIZE);
    REFUSES(rlx_run_named(ctx, &no_data, 1, &out, 1), RLX_ERR_NULL);
    REFUSES(rlx_run_named(ctx, &in, 1, &bad_out, 1), RLX_ERR_NAME);
    REFUSES(rlx_run_named(ctx, &in, 1, &short_out, 1), RLX_ERR_SIZE);
    REFUSES(rlx_run_named(ctx, &in, 1, &null_out, 1), RLX_ERR_NULL);
    CHECK(rlx_input(ctx, 1) == NULL && rlx_output(ctx, 2) == NULL && rlx_input(NULL, 0) == NULL);
    memset(y, 0, sizeof y);
    CHECK(rlx_run_named(ctx, &in, 1, &out, 1) == RLX_OK && is_expected(y, 1));
    CHECK(rlx_run_slots(ctx, inputs, slots) == RLX_OK && slots[0].bytes == sizeof y);
    CHECK(is_expected((const float *)(const void *)(ctx->arena + slots[0].offset), 1));
    memcpy(rlx_input(ctx, MISSION_INPUT_x), x, sizeof x);
    CHECK(rlx_run(ctx) == RLX_OK && is_expected((const float *)rlx_output(ctx, MISSION_OUTPUT_y), 1));
}

static void test_states(rlx_ctx *ctx)
{
    float y[6], seen[1], count = 0;
    CHECK(rlx_reset(ctx) == RLX_OK && rlx_reset(NULL) == RLX_ERR_NULL);
    CHECK(mission(ctx, x, y, seen) == RLX_OK && seen[0] == 20);
    CHECK(mission(ctx, x, y, seen) == RLX_OK && seen[0] == 22);
    REFUSES(rlx_read_state(ctx, "counter", &count, 4), RLX_ERR_NAME);
    REFUSES(rlx_read_state(ctx, "count", &count, 8), RLX_ERR_SIZE);
    REFUSES(rlx_write_state(ctx, "count", NULL, 4), RLX_ERR_NULL);
    CHECK(rlx_read_state(ctx, "count", &count, 4) == RLX_OK && count == 12);
    count = 100;
    CHECK(rlx_write_state(ctx, "count", &count, 4) == RLX_OK);
    CHECK(mission(ctx, x, y, seen) == RLX_OK && seen[0] == 200);
    CHECK(rlx_reset(ctx) == RLX_OK);
    CHECK(mission(ctx, x, y, seen) == RLX_OK && seen[0] == 20 && is_expected(y, 1));
}

// Runs of one context do not show in another.
static void test_two_contexts(rlx_ctx *ctx)
{
    rlx_ctx other;
    float y[6], seen[1], zeros[12] = {0};
    CHECK(mission_init(&other, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(rlx_set_param(&other, "w", zeros, 12) == RLX_OK);
    CHECK(rlx_reset(ctx) == RLX_OK);
    CHECK(mission(&other, x, y, seen) == RLX_OK && seen[0] == 20 && is_expected(y, 0));
    CHECK(mission(&other, x, y, seen) == RLX_OK && seen[0] == 22);
    CHECK(mission(ctx, x, y, seen) == RLX_OK && seen[0] == 20 && is_expected(y, 1));
}

int main(void)
{
    rlx_ctx ctx;
    size_t i;
    memset(&one, 0xFF, sizeof one); // NaNs: nothing may depend on what was there
    memset(&two, 0xFF, sizeof two);
    test_init(&ctx);
    test_params(&ctx);
    test_runs(&ctx);
    test_states(&ctx);
    test_two_contexts(&ctx);
    for (i = 0; i < 64; i++)
        check(one.arena[MISSION_ARENA_BYTES + i] == 0xFF && one.state[MISSION_STATE_BYTES + i] == 0xFF,
              "bytes behind a block", __LINE__);
    CHECK(rlx_missing_param(NULL) == NULL && rlx_failed_check(NULL) == NULL);
    for (i = 0; i < RLX_STATUS_COUNT; i++)
        CHECK(rlx_status_text((rlx_status)i)[0] != '\0');
    CHECK(mission_model.n_params == 1 && mission_model.n_states == 1 && mission_model.n_kernels > 0);
    return failed;
}
