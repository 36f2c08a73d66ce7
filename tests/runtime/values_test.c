// SPDX-License-Identifier: Apache-2.0
// Symbols whose values are computed with (values.json with --dynamic --profile), and the times of runs, by
// each call that runs: which run they belong to, with those of kernels.
#include "check.h"
#include "values.h"

enum { N = 8 };

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[VALUES_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[VALUES_STATE_BYTES];
} Blocks;

static Blocks one, before;
static RLX_ALIGNED unsigned char snapshots[2 * VALUES_SNAPSHOT_BYTES];
static const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const unsigned char yes[1] = {1}, no[1] = {0};

static void fill(rlx_ctx *ctx, const unsigned char *ok)
{
    memcpy(rlx_input(ctx, VALUES_INPUT_x), x, rlx_input_bytes(ctx, VALUES_INPUT_x));
    memcpy(rlx_input(ctx, VALUES_INPUT_ok), ok, 1);
}

static float last_of(const rlx_ctx *ctx)
{
    return ((const float *)rlx_output(ctx, VALUES_OUTPUT_y))[1];
}

static void test_values(rlx_ctx *ctx)
{
    static const int64_t list[] = {0, 2, 1000, 4};
    int64_t value = -1;
    int i;
    fill(ctx, yes);
    CHECK(rlx_run(ctx) == RLX_OK && last_of(ctx) == 8); // first: the default
    for (i = 0; i < 4; i++) {
        CHECK(rlx_set_symbol(ctx, VALUES_SYM_k, list[i]) == RLX_OK);
        CHECK(rlx_get_symbol(ctx, VALUES_SYM_k, &value) == RLX_OK && value == list[i]);
        fill(ctx, yes);
        CHECK(rlx_run(ctx) == RLX_OK && last_of(ctx) == 2 * (float)list[i]);
    }
    REFUSES(values_set_symbol(ctx, VALUES_SYM_k, -2), RLX_ERR_RANGE);
    REFUSES(values_set_symbol(ctx, VALUES_SYM_k, 1002), RLX_ERR_RANGE);
    REFUSES(values_set_symbol(ctx, VALUES_SYM_k, 3), RLX_ERR_RANGE);
    CHECK(values_model.weight_bytes == 0); // no table of as many ones as k can say
}

// --- times ---------------------------------------------------------------------------------------

static uint64_t now;

static uint64_t tick(void *user)
{
    (void)user;
    return ++now;
}

static void check_times(const rlx_run_times *times, uint32_t n, int line)
{
    uint32_t i;
    check(times->begun == n && times->ended == n, "number of runs", line);
    for (i = 0; i < n && i < N; i++) {
        const rlx_run_time *const t = &times->list[i];
        check(t->begin != 0 && t->begin < t->given && t->given < t->end, "times of a run", line);
        check(i == 0 || t->begin > times->list[i - 1u].begin, "order of runs", line);
    }
}

static void commit(rlx_ctx *ctx, const unsigned char *ok)
{
    fill(ctx, ok);
    CHECK(rlx_commit(ctx) == RLX_OK);
}

static void test_times(rlx_ctx *ctx)
{
    static rlx_run_time list[N];
    rlx_run_times times;
    const void *in[4];
    uint32_t i, done = 0;
    memset(&times, 0, sizeof times);
    times.list = list, times.n = N;
    REFUSES(rlx_set_run_times(ctx, &times), RLX_ERR_NULL); // no clock
    times.clock = tick;
    CHECK(rlx_set_run_times(NULL, &times) == RLX_ERR_NULL);
    CHECK(rlx_set_run_times(ctx, &times) == RLX_OK);
    fill(ctx, yes);
    CHECK(rlx_run(ctx) == RLX_OK);
    for (i = 0; i < 3; i++)
        commit(ctx, yes);
    CHECK(rlx_sync(ctx) == RLX_OK);
    check_times(&times, 4, __LINE__);
    in[VALUES_INPUT_x] = in[2 + VALUES_INPUT_x] = x;
    in[VALUES_INPUT_ok] = in[2 + VALUES_INPUT_ok] = yes;
    CHECK(rlx_run_pipelined(ctx, in, 2, snapshots, sizeof snapshots, &done) == RLX_OK && done == 2);
    check_times(&times, 6, __LINE__);
    CHECK(rlx_set_run_times(ctx, &times) == RLX_OK); // from 0 again
    commit(ctx, yes);
    commit(ctx, no);
    commit(ctx, yes); // left out
    CHECK(rlx_sync(ctx) == RLX_ERR_VALUE && rlx_failed_run(ctx) == 1);
    check_times(&times, 3, __LINE__);
    CHECK(list[0].status == RLX_OK && list[1].status == RLX_ERR_VALUE && list[2].status == RLX_ERR_VALUE);
    times.n = 1; // room for the first one alone
    CHECK(rlx_set_run_times(ctx, &times) == RLX_OK);
    list[1].begin = 77;
    commit(ctx, yes);
    commit(ctx, yes);
    CHECK(rlx_sync(ctx) == RLX_OK && times.ended == 2 && list[1].begin == 77);
    CHECK(rlx_set_run_times(ctx, NULL) == RLX_OK);
}

// With the device's clock: those of the run's own kernels.
static void test_kernels(rlx_ctx *ctx)
{
    static rlx_run_time list[2];
    static uint64_t ticks[VALUES_KERNELS];
    double ns[VALUES_KERNELS], sum = 0;
    rlx_run_times times;
    rlx_profile profile;
    uint32_t i;
    memset(&profile, 0, sizeof profile);
    memset(&times, 0, sizeof times);
    profile.clock = times.clock = tick, profile.ticks = ticks;
    times.list = list, times.n = 2;
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK && rlx_set_run_times(ctx, &times) == RLX_OK);
    CHECK(rlx_set_device_times(ctx, ns, VALUES_KERNELS) == RLX_OK);
    commit(ctx, yes);
    commit(ctx, yes);
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_set_profile(ctx, NULL) == RLX_OK);
    for (i = 0; i < ctx->model->n_kernels; i++)
        sum += ns[i];
    sum -= list[0].kernel_ns + list[1].kernel_ns;
    CHECK(sum < 1 && sum > -1);
    CHECK(ctx->model->device != NULL ? list[0].kernel_ns > 0 && list[1].kernel_ns > 0
                                     : list[1].kernel_ns == 0);
    CHECK(rlx_set_device_times(ctx, NULL, 0) == RLX_OK && rlx_set_run_times(ctx, NULL) == RLX_OK);
}

int main(void)
{
    rlx_ctx ctx;
    memset(&one, 0xFF, sizeof one);
    CHECK(values_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    test_values(&ctx);
    test_times(&ctx);
    test_kernels(&ctx);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
