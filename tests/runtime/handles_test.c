// SPDX-License-Identifier: Apache-2.0
// Persistent handles (handles.json with --handle table --handle bias --handle cache=grown): what lives across
// runs, feeds from outputs, and every way to use them wrongly. The cache is appended to in place.
#include "check.h"
#include "handles.h"

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[HANDLES_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[HANDLES_STATE_BYTES];
} Blocks;

static Blocks one, before;

static const float table[8] = {1, 0, 1, 0, 1, 0, 1, 2}, bias[2] = {100, 200};

static void fill(const rlx_ctx *ctx, float v, int64_t row)
{
    const float x[4] = {v, v, v, v};
    const int64_t position[2] = {row, 0};
    memcpy(rlx_input(ctx, HANDLES_INPUT_x), x, sizeof x);
    memcpy(rlx_input(ctx, HANDLES_INPUT_position), position, sizeof position);
}

static const float *output(const rlx_ctx *ctx)
{
    return (const float *)rlx_output(ctx, HANDLES_OUTPUT_y);
}

static void test_bind(rlx_ctx *ctx)
{
    float got[8];
    REFUSES(rlx_run(ctx), RLX_ERR_PARAM);
    CHECK(!rlx_has_handle(ctx, "table") && rlx_has_handle(ctx, "cache") && !rlx_has_handle(ctx, "x"));
    CHECK(!rlx_has_handle(NULL, "table") && !rlx_has_handle(ctx, NULL) && rlx_handle_data(ctx, "y") == NULL);
    REFUSES(rlx_bind_handle(ctx, "x", table, sizeof table), RLX_ERR_HANDLE);
    REFUSES(rlx_bind_handle(ctx, "table", table, 4), RLX_ERR_SIZE);
    REFUSES(rlx_bind_handle(ctx, "table", NULL, sizeof table), RLX_ERR_NULL);
    REFUSES(rlx_bind_handle(ctx, NULL, table, sizeof table), RLX_ERR_NULL);
    REFUSES(rlx_bind_handle(NULL, "table", table, sizeof table), RLX_ERR_NULL);
    REFUSES(rlx_read_handle(ctx, "table", got, sizeof got), RLX_ERR_HANDLE); // never bound
    CHECK(rlx_bind_handle(ctx, "table", table, sizeof table) == RLX_OK);
    CHECK(strcmp(rlx_missing_param(ctx), "bias") == 0);
    CHECK(rlx_bind_handle(ctx, "bias", bias, sizeof bias) == RLX_OK && rlx_missing_param(ctx) == NULL);
    CHECK(rlx_read_handle(ctx, "table", got, sizeof got) == RLX_OK && memcmp(got, table, sizeof got) == 0);
    REFUSES(rlx_read_handle(ctx, "table", got, 4), RLX_ERR_SIZE);
    REFUSES(rlx_read_handle(ctx, "table", NULL, sizeof got), RLX_ERR_NULL);
}

// Runs find what they left, and the cache never moves.
static void test_cache(rlx_ctx *ctx)
{
    const float *cache = (const float *)rlx_handle_data(ctx, "cache");
    uint32_t i;
    fill(ctx, 1, 0);
    CHECK(rlx_run(ctx) == RLX_OK && output(ctx)[0] == 104 && output(ctx)[1] == 202);
    fill(ctx, 2, 5);
    CHECK(rlx_run(ctx) == RLX_OK && output(ctx)[0] == 112 && output(ctx)[1] == 206);
    CHECK(cache == (const float *)rlx_handle_data(ctx, "cache") && cache[0] == 1 && cache[20] == 2);
    CHECK(handles_model.n_outputs == 3); // the cache is none of them
    for (i = 0; i < handles_model.n_kernels; i++)
        CHECK(strstr(handles_model.kernels[i].name, "copy") == NULL);
}

static void test_feeds(rlx_ctx *ctx)
{
    float got[2], cache[32];
    rlx_feed feeds[2];
    feeds[0].handle = "bias", feeds[0].output = HANDLES_OUTPUT_next_bias;
    feeds[1].handle = "table", feeds[1].output = HANDLES_OUTPUT_y;
    REFUSES(rlx_run_feed(ctx, feeds, 2), RLX_ERR_SIZE);
    REFUSES(rlx_run_feed(ctx, NULL, 1), RLX_ERR_NULL);
    REFUSES(rlx_run_feed(NULL, feeds, 1), RLX_ERR_NULL);
    feeds[1].handle = "x";
    REFUSES(rlx_run_feed(ctx, feeds, 2), RLX_ERR_HANDLE);
    feeds[1].handle = NULL;
    REFUSES(rlx_run_feed(ctx, feeds, 2), RLX_ERR_NULL);
    REFUSES(rlx_feed_handle(ctx, "bias", 3), RLX_ERR_SLOT);
    REFUSES(rlx_feed_handle(ctx, "bias", HANDLES_OUTPUT_whole), RLX_ERR_DTYPE);
    REFUSES(rlx_feed_handle(NULL, "bias", 0), RLX_ERR_NULL);
    CHECK(rlx_reset(ctx) == RLX_OK);
    fill(ctx, 1, 0);
    CHECK(rlx_run_feed(ctx, feeds, 1) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "bias", got, sizeof got) == RLX_OK && got[0] == 52 && got[1] == 101);
    fill(ctx, 1, 0);
    CHECK(rlx_run(ctx) == RLX_OK && output(ctx)[0] == 56);
    CHECK(rlx_clear_handle(ctx, "cache") == RLX_OK && rlx_clear_handle(ctx, "bias") == RLX_OK);
    CHECK(rlx_read_handle(ctx, "cache", cache, sizeof cache) == RLX_OK && cache[0] == 0);
    REFUSES(rlx_clear_handle(ctx, "y"), RLX_ERR_HANDLE);
    REFUSES(rlx_clear_handle(ctx, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run(ctx), RLX_ERR_PARAM);
}

int main(void)
{
    rlx_ctx ctx;
    memset(&one, 0xFF, sizeof one);
    CHECK(handles_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    test_bind(&ctx);
    test_cache(&ctx);
    test_feeds(&ctx);
    return failed;
}
