// SPDX-License-Identifier: Apache-2.0
// Buckets (buckets.json with --bucket seq=4,8,16 --bucket batch=1,3): which one runs take, states that all of
// them share, active extents, runs at given sizes, and every way to ask for what does not fit. The arena is
// full of NaN before every run.
#include "buckets.h"
#include "check.h"

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[BUCKETS_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[BUCKETS_STATE_BYTES];
    rlx_ctx ctx;
} Blocks;

static Blocks one, before, other;

enum { MAX_SEQ = 16, MAX_BATCH = 3 };
static float x[MAX_BATCH * MAX_SEQ * 4], row[4], history[MAX_SEQ][4], cached[4];
static float gain[MAX_SEQ];
static int64_t position[2];
static const void *const inputs[3] = {x, row, position};
static float got_history[MAX_SEQ * 4], got_cached[4], got_average[MAX_BATCH * 4],
    got_scaled[MAX_BATCH * MAX_SEQ * 4];
static void *const outputs[4] = {got_history, got_cached, got_average, got_scaled};

static int near(float a, float b)
{
    return a - b < 1e-3f && b - a < 1e-3f;
}

// The sum of the cached rows that are live: rows are written by `start`, from 1 on.
static float cache[MAX_SEQ];

static void start(int64_t seq, int64_t batch, int64_t at)
{
    int64_t i;
    for (i = 0; i < batch * seq * 4; i++)
        x[i] = (float)(i % 11) - 3.0f;
    position[0] = at;
    for (i = 0; i < 4; i++)
        row[i] = (float)at + 1.0f;
    cache[at] = (float)at + 1.0f;
    cached[0] = 0;
    for (i = 0; i < seq; i++)
        cached[0] += cache[i];
    for (i = 0; i < batch * seq * 4; i++)
        history[i / 4 % seq][i % 4] += x[i];
    memset(one.arena, 0xFF, sizeof one.arena);
}

static void compare(int64_t seq, int64_t batch, int line)
{
    int64_t b, i, k;
    for (i = 0; i < seq; i++)
        for (k = 0; k < 4; k++)
            check(near(got_history[i * 4 + k], history[i][k]), "history", line);
    for (k = 0; k < 4; k++)
        check(near(got_cached[k], cached[0]), "cached", line);
    for (b = 0; b < batch; b++)
        for (k = 0; k < 4; k++) {
            float sum = 0;
            for (i = 0; i < seq; i++)
                sum += x[(b * seq + i) * 4 + k];
            check(near(got_average[b * 4 + k], sum / (float)seq), "average", line);
        }
    for (i = 0; i < batch * seq * 4; i++)
        check(near(got_scaled[i], x[i] * gain[i / 4 % seq]), "scaled", line);
}

static void fetch(const rlx_ctx *ctx)
{
    uint32_t i;
    for (i = 0; i < 4; i++)
        memcpy(outputs[i], rlx_output(ctx, i), rlx_output_bytes(ctx, i));
}

// Smaller and larger buckets in turn: states keep what others have written.
static void test_choice(rlx_ctx *ctx)
{
    static const int64_t sizes[][2] = {{5, 1}, {1, 1}, {16, 3}, {4, 2}, {8, 3}, {9, 1}, {4, 1}, {12, 2}};
    static const int bucket[] = {1, 0, 5, 2, 4, 3, 0, 5};
    uint32_t i;
    CHECK(rlx_bucket(NULL) == -1 && rlx_bucket(ctx) == 1 && BUCKETS_BUCKETS == 6);
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(buckets_set_symbol(ctx, BUCKETS_SYM_seq, sizes[i][0]) == RLX_OK);
        CHECK(buckets_set_symbol(ctx, BUCKETS_SYM_batch, sizes[i][1]) == RLX_OK);
        CHECK(rlx_bucket(ctx) == bucket[i]);
        start(sizes[i][0], sizes[i][1], (int64_t)i % sizes[i][0]);
        CHECK(rlx_run_slots(ctx, inputs, NULL) == RLX_OK);
        fetch(ctx);
        compare(sizes[i][0], sizes[i][1], __LINE__);
        start(sizes[i][0], sizes[i][1], 0);
        CHECK(buckets(ctx, x, row, position, got_history, got_cached, got_average, got_scaled) == RLX_OK);
        compare(sizes[i][0], sizes[i][1], __LINE__);
    }
}

// Queued runs of other sizes and buckets: inputs of one may be where the one before puts its outputs.
static void test_queue(rlx_ctx *ctx)
{
    static const int64_t sizes[][2] = {{3, 1}, {16, 3}, {4, 3}, {5, 2}, {16, 1}, {2, 2}, {13, 3}};
    uint32_t i, j;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(i % 2 != 0 ? rlx_set_symbols(ctx, sizes[i], 2) == RLX_OK
                         : rlx_set_symbol(ctx, BUCKETS_SYM_batch, sizes[i][1]) == RLX_OK &&
                               rlx_set_active_extent(ctx, BUCKETS_SYM_seq, sizes[i][0], 16) == RLX_OK);
        start(sizes[i][0], sizes[i][1], 1);
        for (j = 0; j < 3; j++)
            memcpy(rlx_input(ctx, j), inputs[j], rlx_input_bytes(ctx, j));
        CHECK(rlx_commit(ctx) == RLX_OK);
        if (i % 3 != 2)
            continue;
        CHECK(rlx_sync(ctx) == RLX_OK);
        fetch(ctx);
        compare(sizes[i][0], sizes[i][1], __LINE__);
    }
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_failed_run(ctx) == -1);
    fetch(ctx);
    compare(13, 3, __LINE__);
}

static void test_refusals(rlx_ctx *ctx)
{
    static const int64_t keep[3] = {RLX_KEEP, RLX_KEEP, 1}, far[2] = {17, 1}, none[2] = {3, 0};
    REFUSES(rlx_set_symbol(ctx, BUCKETS_SYM_seq, 17), RLX_ERR_RANGE);
    REFUSES(rlx_set_symbol(ctx, BUCKETS_SYM_seq, 0), RLX_ERR_RANGE);
    REFUSES(rlx_set_symbol(ctx, 2, 1), RLX_ERR_SYMBOL);
    REFUSES(rlx_set_symbols(ctx, far, 2), RLX_ERR_RANGE);
    REFUSES(rlx_set_symbols(ctx, none, 2), RLX_ERR_RANGE);
    REFUSES(rlx_set_symbols(ctx, keep, 3), RLX_ERR_SYMBOL);
    REFUSES(rlx_set_symbols(ctx, keep, 2), RLX_OK);
    REFUSES(rlx_set_active_extent(ctx, BUCKETS_SYM_seq, 5, 4), RLX_ERR_RANGE);
    REFUSES(rlx_set_active_extent(ctx, BUCKETS_SYM_seq, 5, 17), RLX_ERR_RANGE);
    REFUSES(rlx_set_active_extent(ctx, BUCKETS_SYM_seq, 0, 8), RLX_ERR_RANGE);
    REFUSES(rlx_set_active_extent(ctx, 2, 1, 1), RLX_ERR_SYMBOL);
    REFUSES(rlx_set_active_extent(NULL, 0, 1, 1), RLX_ERR_NULL);
    REFUSES(rlx_run_padded(ctx, far, 2, inputs, outputs), RLX_ERR_RANGE);
    REFUSES(rlx_run_padded(ctx, NULL, 2, inputs, outputs), RLX_ERR_NULL);
    REFUSES(rlx_run_padded(ctx, keep, 2, NULL, outputs), RLX_ERR_NULL);
    REFUSES(rlx_run_padded(ctx, keep, 2, inputs, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_padded(NULL, keep, 2, inputs, outputs), RLX_ERR_NULL);
    REFUSES(rlx_run_padded(ctx, keep, 3, inputs, outputs), RLX_ERR_SYMBOL);
    REFUSES(rlx_run_padded(ctx, keep, RLX_PADDED_SYMBOLS + 1, inputs, outputs), RLX_ERR_SYMBOL);
    REFUSES(buckets_set_symbol(NULL, 0, 1), RLX_ERR_NULL);
}

// The bucket of `upper`, whatever is live, until the symbol is set otherwise.
static void test_active(rlx_ctx *ctx)
{
    static const int64_t actual[] = {3, 16, 1, 7};
    uint32_t i;
    const void *place;
    CHECK(rlx_set_symbol(ctx, BUCKETS_SYM_batch, 1) == RLX_OK);
    CHECK(rlx_set_active_extent(ctx, BUCKETS_SYM_seq, 2, 16) == RLX_OK && rlx_bucket(ctx) == 3);
    place = rlx_output(ctx, BUCKETS_OUTPUT_scaled);
    for (i = 0; i < 4; i++) {
        CHECK(rlx_set_active_extent(ctx, BUCKETS_SYM_seq, actual[i], 16) == RLX_OK && rlx_bucket(ctx) == 3);
        start(actual[i], 1, 0);
        CHECK(rlx_run_slots(ctx, inputs, NULL) == RLX_OK && rlx_output(ctx, BUCKETS_OUTPUT_scaled) == place);
        fetch(ctx);
        compare(actual[i], 1, __LINE__);
    }
    CHECK(rlx_set_symbol(ctx, BUCKETS_SYM_batch, 3) == RLX_OK && rlx_bucket(ctx) == 5);
    CHECK(rlx_set_active_extent(ctx, BUCKETS_SYM_batch, 1, 2) == RLX_OK && rlx_bucket(ctx) == 5);
    CHECK(rlx_set_symbol(ctx, BUCKETS_SYM_seq, 7) == RLX_OK && rlx_bucket(ctx) == 4);
    CHECK(rlx_set_symbol(ctx, BUCKETS_SYM_batch, 1) == RLX_OK && rlx_bucket(ctx) == 1);
}

static void test_padded(rlx_ctx *ctx)
{
    int64_t sizes[2], seq = 0;
    for (sizes[0] = 1; sizes[0] <= MAX_SEQ; sizes[0]++)
        for (sizes[1] = 1; sizes[1] <= MAX_BATCH; sizes[1]++) {
            start(sizes[0], sizes[1], sizes[0] / 2);
            CHECK(rlx_run_padded(ctx, sizes, 2, inputs, outputs) == RLX_OK);
            compare(sizes[0], sizes[1], __LINE__);
        }
    CHECK(rlx_get_symbol(ctx, BUCKETS_SYM_seq, &seq) == RLX_OK && seq == MAX_SEQ);
}

// A copy is in the bucket of what it is a copy of.
static void test_copies(rlx_ctx *ctx)
{
    static RLX_ALIGNED unsigned char memory[BUCKETS_SNAPSHOT_BYTES];
    static const int64_t sizes[2] = {2, 1};
    int64_t shape[RLX_MAX_RANK];
    start(2, 1, 0);
    CHECK(rlx_run_padded(ctx, sizes, 2, inputs, outputs) == RLX_OK && rlx_bucket(ctx) == 0);
    CHECK(rlx_take_snapshot(ctx, memory, sizeof memory) == RLX_OK);
    CHECK(rlx_clone(&other.ctx, ctx, other.arena, sizeof other.arena, other.state, sizeof other.state) ==
          RLX_OK);
    CHECK(other.ctx.model == ctx->model && rlx_bucket(&other.ctx) == 0);
    CHECK(memcmp(rlx_snapshot_output(&buckets_model, memory, BUCKETS_OUTPUT_scaled, shape), got_scaled,
                 8 * sizeof(float)) == 0 &&
          shape[0] == 1 && shape[1] == 2 && shape[2] == 4);
}

// Handles have the room of the largest bucket, outputs that of the one that ran.
static void test_feeds(rlx_ctx *ctx)
{
    static const int64_t sizes[][2] = {{3, 2}, {16, 3}, {4, 3}};
    float whole[MAX_BATCH * MAX_SEQ * 4] = {0}, got[MAX_BATCH * MAX_SEQ * 4] = {0};
    uint32_t i;
    int64_t j;
    for (i = 0; i < 3; i++) {
        CHECK(rlx_set_symbols(ctx, sizes[i], 2) == RLX_OK);
        start(sizes[i][0], sizes[i][1], 0);
        CHECK(rlx_run_slots(ctx, inputs, NULL) == RLX_OK);
        fetch(ctx);
        CHECK(rlx_feed_handle(ctx, "whole", BUCKETS_OUTPUT_scaled) == RLX_OK);
        CHECK(rlx_feed_handle(ctx, "cache", BUCKETS_OUTPUT_history_next) == RLX_OK);
        REFUSES(rlx_feed_handle(ctx, "cache", BUCKETS_OUTPUT_scaled), RLX_ERR_SIZE);
        for (j = 0; j < sizes[i][0] * sizes[i][1] * 4; j++)
            whole[(j / (4 * sizes[i][0]) * MAX_SEQ + j / 4 % sizes[i][0]) * 4 + j % 4] = got_scaled[j];
        CHECK(rlx_read_state(ctx, "whole", got, sizeof got) == RLX_OK);
        CHECK(memcmp(got, whole, sizeof got) == 0);
        CHECK(rlx_read_state(ctx, "cache", got, MAX_SEQ * 4 * sizeof *got) == RLX_OK);
        CHECK(memcmp(got, got_history, (size_t)sizes[i][0] * 4 * sizeof *got) == 0);
    }
}

int main(void)
{
    uint32_t i;
    memset(&one, 0xFF, sizeof one);
    CHECK(buckets_init(&one.ctx, one.arena, sizeof one.arena - 1, one.state, sizeof one.state) ==
          RLX_ERR_ARENA);
    CHECK(buckets_init(&one.ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    REFUSES(rlx_run_padded(&one.ctx, NULL, 0, inputs, outputs), RLX_ERR_PARAM);
    for (i = 0; i < MAX_SEQ; i++)
        gain[i] = 0.5f * (float)i - 1.0f;
    CHECK(rlx_set_param(&one.ctx, "gain", gain, MAX_SEQ) == RLX_OK);
    test_refusals(&one.ctx);
    test_choice(&one.ctx);
    test_queue(&one.ctx);
    test_refusals(&one.ctx);
    test_active(&one.ctx);
    test_refusals(&one.ctx);
    test_padded(&one.ctx);
    test_copies(&one.ctx);
    test_feeds(&one.ctx);
    return failed;
}
