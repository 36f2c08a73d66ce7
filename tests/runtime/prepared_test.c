// SPDX-License-Identifier: Apache-2.0
// What depends on parameters only (prepared.json) is made once after one was set, on every target: shown by
// counting the kernels of runs, and by bytes that change where no call says so. Results follow right after a
// parameter was set, bound, fed or cleared, in runs that wait in a queue, and in clones.
#include "check.h"
#include "prepared.h"

#include "../gpu/fake_count.h"

#ifndef LEVEL
#define LEVEL 3
#endif

enum { M = 3, K = 4, N = 5, MOVED = 3 }; // kernels at least that are not in every run

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[PREPARED_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[PREPARED_STATE_BYTES];
} Blocks;

static Blocks one, two;
static float rows[K * N], scale[N], half[K * 2]; // as they were set
static const float unrounded[2] = {1.00390625f, -2.5f}, brain[2] = {1, -2.5f}; // of bf16
static int64_t trips;
static uint64_t ticks[PREPARED_KERNELS], now;

static uint64_t tick(void *user)
{
    (void)user;
    return ++now;
}

static void write_input(const rlx_ctx *ctx, int64_t m)
{
    float *const x = (float *)rlx_input(ctx, PREPARED_INPUT_x);
    int64_t i;
    for (i = 0; i < m * K; i++)
        x[i] = (float)(i % 3 - 1);
}

// Do the outputs say so? All numbers are small integers.
static int is_right(const rlx_ctx *ctx, int64_t m)
{
    const float *const shifted = (const float *)rlx_output(ctx, PREPARED_OUTPUT_shifted);
    const float *const z = (const float *)rlx_output(ctx, PREPARED_OUTPUT_z);
    const float *const next = (const float *)rlx_output(ctx, PREPARED_OUTPUT_next);
    int ok = 1, j, k;
    int64_t i;
    for (i = 0; i < m; i++)
        for (j = 0; j < N; j++) {
            float want = 0;
            for (k = 0; k < K; k++)
                want += ((float)((i * K + k) % 3 - 1) + (k < trips ? 1.0f : 0.0f)) *
                        (rows[k * N + j] * scale[j]);
            ok = ok && shifted[i * N + j] == want;
        }
    for (i = 0; i < m; i++)
        for (j = 0; j < 2; j++) {
            float want = brain[j];
            for (k = 0; k < K; k++)
                want += (float)((i * K + k) % 3 - 1) * half[k * 2 + j];
            ok = ok && z[i * 2 + j] == want;
        }
    for (i = 0; i < K * N; i++)
        ok = ok && next[i] == rows[i] + 1;
    return ok;
}

static int run(rlx_ctx *ctx, int64_t m)
{
    CHECK(prepared_set_symbol(ctx, PREPARED_SYM_m, m) == RLX_OK);
    write_input(ctx, m);
    return rlx_run(ctx) == RLX_OK && is_right(ctx, m);
}

static void set_all(rlx_ctx *ctx)
{
    int i;
    for (i = 0; i < K * N; i++)
        rows[i] = (float)(i - 7);
    for (i = 0; i < N; i++)
        scale[i] = (float)(2 - i);
    for (i = 0; i < K * 2; i++)
        half[i] = (float)i * 0.5f;
    trips = 3;
    CHECK(rlx_set_param(ctx, "rows", rows, K * N) == RLX_OK);
    CHECK(rlx_set_param(ctx, "scale", scale, N) == RLX_OK);
    CHECK(rlx_set_param(ctx, "half", half, K * 2) == RLX_OK);
    CHECK(rlx_set_param(ctx, "brain", unrounded, 2) == RLX_OK);
    CHECK(rlx_set_param(ctx, "n", half, 1) == RLX_ERR_DTYPE);
    CHECK(rlx_set_param_bytes(ctx, "n", &trips, sizeof trips) == RLX_OK);
}

// Kernels of a right run, timed one by one.
static int kernels_of(rlx_ctx *ctx, int64_t m)
{
    rlx_profile profile;
    uint32_t i;
    int n = 0;
    memset(&profile, 0, sizeof profile);
    profile.clock = tick;
    profile.ticks = ticks;
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK && run(ctx, m) && rlx_set_profile(ctx, NULL) == RLX_OK);
    for (i = 0; i < PREPARED_KERNELS; i++)
        n += ticks[i] != 0;
    return n;
}

static void test_counts(rlx_ctx *ctx)
{
    const int first = kernels_of(ctx, M), second = kernels_of(ctx, M);
    CHECK(LEVEL == 0 ? first == second : first >= second + MOVED);
    CHECK(rlx_set_param(ctx, "scale", scale, N) == RLX_OK);
    CHECK(kernels_of(ctx, M) == first && kernels_of(ctx, M) == second && kernels_of(ctx, M) == second);
    CHECK(kernels_of(ctx, 1) <= first && kernels_of(ctx, 1) <= second); // another bucket
    CHECK(kernels_of(ctx, M) == second);
}

// Tests runs that are not timed, where the driver counts.
static void test_launches(rlx_ctx *ctx)
{
    long at[5];
    int i;
    CHECK(run(ctx, M));
    for (i = 0; i < 5; i++) {
        if (i == 2)
            CHECK(rlx_set_param(ctx, "scale", scale, N) == RLX_OK);
        at[i] = fake_count_of("launch");
        CHECK(run(ctx, M));
    }
    CHECK(at[0] == -1 || (at[1] - at[0] == at[2] - at[1] && at[4] - at[3] == at[1] - at[0] &&
                          at[3] - at[2] >= at[1] - at[0] + MOVED));
}

// Bytes that change unseen are read when the next parameter is set.
static void test_unseen(rlx_ctx *ctx)
{
    const rlx_tensor *const t = rlx_find_handle(ctx, "scale", NULL);
    const float other[N] = {1, 1, 1, 1, 1};
    memcpy(ctx->state + t->offset, other, sizeof other);
    CHECK(rlx_put_state(ctx, t->offset, t->bytes) == RLX_OK);
    CHECK(run(ctx, M) == (LEVEL > 0));
    CHECK(rlx_set_param(ctx, "rows", rows, K * N) == RLX_OK);
    memcpy(scale, other, sizeof scale);
    CHECK(run(ctx, M) && run(ctx, 1));
}

static void test_changes(rlx_ctx *ctx)
{
    const uint16_t bits[K * 2] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800}; // 1 to 8
    int i;
    scale[2] = 5;
    CHECK(rlx_set_param_range(ctx, "scale", 8, scale + 2, 4) == RLX_OK && run(ctx, 1) && run(ctx, M));
    for (i = 0; i < K * 2; i++)
        half[i] = (float)(i + 1);
    CHECK(rlx_bind_handle(ctx, "half", bits, sizeof bits) == RLX_OK && run(ctx, M));
    CHECK(rlx_feed_handle(ctx, "rows", PREPARED_OUTPUT_next) == RLX_OK);
    for (i = 0; i < K * N; i++)
        rows[i] += 1;
    CHECK(run(ctx, M) && run(ctx, 1));
    CHECK(rlx_clear_handle(ctx, "n") == RLX_OK);
    write_input(ctx, 1);
    CHECK(rlx_run(ctx) == RLX_ERR_PARAM);
    trips = 4;
    CHECK(rlx_set_param_bytes(ctx, "n", &trips, sizeof trips) == RLX_OK && run(ctx, M));
    CHECK(rlx_reset(ctx) == RLX_OK && run(ctx, M));
}

// Each run has the parameters that there were at its commit.
static void test_queue(rlx_ctx *ctx)
{
    int i;
    for (i = 0; i < 4; i++) {
        scale[i] += 3;
        CHECK(rlx_set_param(ctx, "scale", scale, N) == RLX_OK);
        write_input(ctx, M);
        CHECK(rlx_commit(ctx) == RLX_OK);
    }
    CHECK(rlx_sync(ctx) == RLX_OK && is_right(ctx, M));
    write_input(ctx, M);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_sync(ctx) == RLX_OK && is_right(ctx, M));
}

static void test_clone(rlx_ctx *ctx)
{
    rlx_ctx copy;
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(run(&copy, M) && run(&copy, 1) && run(&copy, M));
    CHECK(rlx_close(&copy) == RLX_OK && run(ctx, M));
}

int main(void)
{
    rlx_ctx ctx;
    memset(&one, 0xFF, sizeof one);
    memset(&two, 0xFF, sizeof two);
    CHECK(prepared_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    CHECK(rlx_run(&ctx) == RLX_ERR_PARAM);
    set_all(&ctx);
    test_counts(&ctx);
    test_launches(&ctx);
    test_unseen(&ctx);
    test_changes(&ctx);
    test_queue(&ctx);
    test_clone(&ctx);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
