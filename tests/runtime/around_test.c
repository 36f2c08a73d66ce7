// SPDX-License-Identifier: Apache-2.0
// Loops whose trip counts and conditions the model computes, and constant ones, one in another (around.json),
// beside the same in C. On a GPU the device itself goes around them.
#include "check.h"
#include "around.h"

enum { ROWS = 6, N = 4, INNER = 3, FIXED = 3 };

static RLX_ALIGNED unsigned char arena[AROUND_ARENA_BYTES], state[AROUND_STATE_BYTES];
static float x[ROWS * N], sum[N], sums[ROWS * N], end[N], rows[ROWS * INNER * N],
    last[N], all[FIXED * N];
static int64_t done, counts[ROWS];

static float total_of(const float *v)
{
    float total = 0;
    int i;
    for (i = 0; i < N; i++)
        total += v[i];
    return total;
}

// Sums are of small multiples of 1/4, so that no order of additions matters.
static void make_wanted(int64_t n, float limit)
{
    int64_t i, j;
    int go = 0 < limit, k;
    memset(sum, 0, sizeof sum);
    memset(sums, 0, sizeof sums);
    memset(rows, 0, sizeof rows);
    memset(counts, 0, sizeof counts);
    for (done = 0; done < n && done < ROWS && go; done++) {
        for (k = 0; k < N; k++)
            sums[done * N + k] = sum[k] += x[done * N + k];
        go = total_of(sum) < limit;
    }
    memcpy(end, sum, sizeof end);
    for (i = 0; i < done; i++) {
        counts[i] = i;
        if (i > INNER)
            counts[i] = INNER;
        for (j = 0; j < counts[i]; j++)
            for (k = 0; k < N; k++)
                end[k] += rows[(i * INNER + j) * N + k] = sums[i * N + k] + (float)j;
        for (k = 0; k < N; k++)
            end[k] += 1; // 0 and 1, in a loop
    }
    memset(last, 0, sizeof last);
    for (i = 0; i < FIXED; i++)
        for (k = 0; k < N; k++) {
            all[i * N + k] = last[k] + x[i * N + k] + (x[i * N + k] + 1);
            last[k] = all[i * N + k] - (float)i;
        }
}

static void check_output(const rlx_ctx *ctx, uint32_t i, const void *want, size_t bytes)
{
    CHECK(rlx_output_bytes(ctx, i) == bytes);
    CHECK(memcmp(rlx_output(ctx, i), want, bytes) == 0);
}

static void run(rlx_ctx *ctx, int64_t n, float limit, int seed)
{
    int i;
    for (i = 0; i < ROWS * N; i++)
        x[i] = (float)((seed * 7 + i) % 13) * 0.25f;
    make_wanted(n, limit);
    memset(arena, 0xFF, sizeof arena);
    memcpy(rlx_input(ctx, AROUND_INPUT_x), x, sizeof x);
    memcpy(rlx_input(ctx, AROUND_INPUT_n), &n, sizeof n);
    memcpy(rlx_input(ctx, AROUND_INPUT_limit), &limit, sizeof limit);
    CHECK(rlx_run(ctx) == RLX_OK);
    check_output(ctx, 0, sum, sizeof sum);
    check_output(ctx, 1, sums, sizeof sums);
    check_output(ctx, 2, &done, sizeof done);
    check_output(ctx, 3, end, sizeof end);
    check_output(ctx, 4, rows, sizeof rows);
    check_output(ctx, 5, counts, sizeof counts);
    check_output(ctx, 6, last, sizeof last);
    check_output(ctx, 7, all, sizeof all);
}

static void run_all(rlx_ctx *ctx)
{
    run(ctx, 6, 1e9f, 1); // all rows
    run(ctx, 100, 1e9f, 2);
    run(ctx, 3, 1e9f, 3); // as the trip count says
    run(ctx, 6, 9.0f, 4); // as the condition says
    run(ctx, 6, 0.0f, 5); // no iteration: the first condition
    run(ctx, 0, 9.0f, 6); // the trip count
    run(ctx, -1, 9.0f, 7);
    run(ctx, 2, 9.0f, 8);
}

static uint64_t tick(void *user)
{
    return ++*(uint64_t *)user;
}

// With times of kernels, each is launched and waited for: the host goes around.
static void run_timed(rlx_ctx *ctx)
{
    uint64_t now = 0, ticks[AROUND_KERNELS], sum_of_ticks = 0;
    rlx_profile profile;
    uint32_t i;
    profile.clock = tick, profile.user = &now, profile.ticks = ticks;
    CHECK(ctx->model->n_kernels <= AROUND_KERNELS && rlx_set_profile(ctx, &profile) == RLX_OK);
    run(ctx, 6, 9.0f, 9);
    for (i = 0; i < ctx->model->n_kernels; i++)
        sum_of_ticks += ticks[i];
    CHECK(sum_of_ticks != 0 && rlx_set_profile(ctx, NULL) == RLX_OK);
}

int main(void)
{
    rlx_ctx ctx;
    CHECK(around_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    run_all(&ctx);
    run_timed(&ctx);
    run_all(&ctx); // as before
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
