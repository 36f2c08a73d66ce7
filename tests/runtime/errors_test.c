// SPDX-License-Identifier: Apache-2.0
// Calls that are refused, and change nothing (errors.json with --weights file and sizes that stay open):
// those of rlx.h in every form of the API, and those that no other program of this folder makes. The weights
// are the program's.
#include "check.h"
#include "errors.h"
#include <stdlib.h>

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[ERRORS_ARENA_BYTES + 64];
    RLX_ALIGNED unsigned char state[ERRORS_STATE_BYTES + 64];
    rlx_ctx ctx;
} Blocks;

static Blocks one, before;
#ifdef RLX_RUNS_H
static Blocks other;
#endif

static RLX_ALIGNED unsigned char weights[ERRORS_WEIGHT_BYTES + 64];
static float x[8 * 4], y[8 * 4], last[4];
static int32_t whole[4];
static const float gain[4] = {1, 1, 1, 1};

static rlx_status start(unsigned char *arena, size_t n, unsigned char *state, size_t m, const void *w,
                        size_t k)
{
    return rlx_init(&one.ctx, &errors_model, arena, n, state, m, w, k);
}

static void test_init(void)
{
    const size_t n = ERRORS_ARENA_BYTES, m = ERRORS_STATE_BYTES, k = ERRORS_WEIGHT_BYTES;
    REFUSES(rlx_init(NULL, &errors_model, one.arena, n, one.state, m, weights, k), RLX_ERR_NULL);
    REFUSES(rlx_init(&one.ctx, NULL, one.arena, n, one.state, m, weights, k), RLX_ERR_NULL);
    REFUSES(start(NULL, n, one.state, m, weights, k), RLX_ERR_NULL);
    REFUSES(start(one.arena, n, NULL, m, weights, k), RLX_ERR_NULL);
    REFUSES(start(one.arena, n - 1, one.state, m, weights, k), RLX_ERR_ARENA);
    REFUSES(start(one.arena, n, one.state, m - 1, weights, k), RLX_ERR_ARENA);
    REFUSES(start(one.arena + 32, n, one.state, m, weights, k), RLX_ERR_ALIGNMENT);
    REFUSES(start(one.arena, n, one.state + 8, m, weights, k), RLX_ERR_ALIGNMENT);
    REFUSES(start(one.arena, n, one.state, m, weights + 4, k), RLX_ERR_ALIGNMENT);
    REFUSES(start(one.arena, n, one.state, m, NULL, 0), RLX_ERR_WEIGHTS);
    REFUSES(start(one.arena, n, one.state, m, weights, k - 1), RLX_ERR_WEIGHTS);
    REFUSES(start(one.arena, n, one.state, m, weights, k + 64), RLX_ERR_WEIGHTS);
    REFUSES(errors_init(&one.ctx, one.arena, n, one.state, m), RLX_ERR_WEIGHTS);
    CHECK(start(one.arena, n, one.state, m, weights, k) == RLX_OK);
}

#ifdef RLX_CALLS_H
static void test_calls(rlx_ctx *ctx, rlx_status otherwise)
{
    const void *const inputs[1] = {x}, *const none[1] = {NULL};
    const size_t bytes = rlx_input_bytes(ctx, 0);
    rlx_named in = {"x", x, bytes}, twice[2] = {{"x", x, bytes}, {"x", x, bytes}};
    rlx_named_out out = {"last", last, sizeof last};
    REFUSES(rlx_run_slots(NULL, inputs, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_slots(ctx, NULL, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_slots(ctx, none, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_named(ctx, twice, 2, &out, 1), RLX_ERR_NAME);
    REFUSES(rlx_run_named(ctx, &in, 0, &out, 1), RLX_ERR_INPUT);
    REFUSES(rlx_run_named(ctx, NULL, 1, &out, 1), RLX_ERR_NULL);
    REFUSES(rlx_run_named(ctx, &in, 1, NULL, 1), RLX_ERR_NULL);
    in.bytes = bytes + 4;
    REFUSES(rlx_run_named(ctx, &in, 1, &out, 1), RLX_ERR_SIZE);
    in.bytes = bytes;
    out.name = "x";
    REFUSES(rlx_run_named(ctx, &in, 1, &out, 1), RLX_ERR_NAME);
    out.name = "last";
    out.bytes = 4;
    REFUSES(rlx_run_named(ctx, &in, 1, &out, 1), RLX_ERR_SIZE);
    out.bytes = sizeof last;
    out.data = NULL;
    REFUSES(rlx_run_named(ctx, &in, 1, &out, 1), RLX_ERR_NULL);
    out.data = last;
    if (otherwise != RLX_OK) {
        REFUSES(rlx_run_slots(ctx, inputs, NULL), otherwise);
        REFUSES(rlx_run_named(ctx, &in, 1, &out, 1), otherwise);
    }
}
#endif

static void test_runs(rlx_ctx *ctx, rlx_status otherwise)
{
    REFUSES(rlx_run(NULL), RLX_ERR_NULL);
    REFUSES(errors(NULL, x, y, last, whole), RLX_ERR_NULL);
    REFUSES(errors(ctx, NULL, y, last, whole), RLX_ERR_NULL);
    REFUSES(errors(ctx, x, y, NULL, whole), RLX_ERR_NULL);
    if (otherwise != RLX_OK) {
        REFUSES(rlx_run(ctx), otherwise);
        REFUSES(errors(ctx, x, y, last, whole), otherwise);
    }
#ifdef RLX_CALLS_H // not with --api core
    test_calls(ctx, otherwise);
#endif
}

static void test_values(rlx_ctx *ctx)
{
    int64_t shape[RLX_MAX_RANK], value = 0;
    float got[4];
    REFUSES(rlx_reset(NULL), RLX_ERR_NULL);
    REFUSES(rlx_input_shape(ctx, 1, shape), RLX_ERR_SLOT);
    REFUSES(rlx_input_shape(ctx, 0, NULL), RLX_ERR_NULL);
    REFUSES(rlx_output_shape(ctx, 3, shape), RLX_ERR_SLOT);
    REFUSES(rlx_output_shape(NULL, 0, shape), RLX_ERR_NULL);
    REFUSES(rlx_output_shape(ctx, 0, NULL), RLX_ERR_NULL);
    CHECK(rlx_input(ctx, 1) == NULL && rlx_output(ctx, 3) == NULL && rlx_input(NULL, 0) == NULL);
    CHECK(rlx_input_bytes(ctx, 1) == 0 && rlx_output_bytes(ctx, 3) == 0 && rlx_output_room(ctx, 3) == 0);
    REFUSES(rlx_set_param(ctx, "h", gain, 4), RLX_ERR_NAME);
    REFUSES(rlx_set_param(ctx, "gain", gain, 3), RLX_ERR_SIZE);
    REFUSES(rlx_set_param(ctx, "gain", NULL, 4), RLX_ERR_NULL);
    REFUSES(rlx_set_param(ctx, NULL, gain, 4), RLX_ERR_NULL);
    REFUSES(rlx_set_param(NULL, "gain", gain, 4), RLX_ERR_NULL);
    REFUSES(rlx_set_param_bytes(ctx, "gain", gain, 15), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_bytes(ctx, "y", gain, 16), RLX_ERR_NAME);
    REFUSES(rlx_read_state(NULL, "h", got, sizeof got), RLX_ERR_NULL);
    REFUSES(rlx_read_state(ctx, "h", NULL, sizeof got), RLX_ERR_NULL);
    REFUSES(rlx_read_state(ctx, "gain", got, sizeof got), RLX_ERR_NAME);
    REFUSES(rlx_read_state(ctx, NULL, got, sizeof got), RLX_ERR_NAME);
    REFUSES(rlx_read_state(ctx, "h", got, 8), RLX_ERR_SIZE);
    REFUSES(rlx_write_state(NULL, "h", gain, sizeof gain), RLX_ERR_NULL);
    REFUSES(rlx_write_state(ctx, "h", NULL, sizeof gain), RLX_ERR_NULL);
    REFUSES(rlx_write_state(ctx, "x", gain, sizeof gain), RLX_ERR_NAME);
    REFUSES(rlx_write_state(ctx, "h", gain, 8), RLX_ERR_SIZE);
    REFUSES(errors_set_symbol(ctx, ERRORS_SYM_seq, 3), RLX_ERR_RANGE); // no multiple
    REFUSES(errors_set_symbol(ctx, ERRORS_SYM_seq, 10), RLX_ERR_RANGE);
    REFUSES(errors_set_symbol(ctx, ERRORS_SYM_seq, 0), RLX_ERR_RANGE);
    REFUSES(errors_set_symbol(ctx, ERRORS_SYM_seq, -2), RLX_ERR_RANGE);
    REFUSES(errors_set_symbol(ctx, 1, 4), RLX_ERR_SYMBOL);
    REFUSES(rlx_get_symbol(ctx, 1, &value), RLX_ERR_SYMBOL);
    REFUSES(rlx_get_symbol(ctx, 0, NULL), RLX_ERR_NULL);
    CHECK(rlx_find_symbol(&errors_model, "batch") == -1 && rlx_find_symbol(NULL, "seq") == -1);
}

#ifdef RLX_RUNS_H
static void test_whole_api(rlx_ctx *ctx, rlx_status otherwise)
{
    static uint64_t ticks[ERRORS_KERNELS];
    static RLX_ALIGNED unsigned char memory[ERRORS_SNAPSHOT_BYTES];
    rlx_profile profile = {NULL, NULL, ticks, 0, 0, 0};
    rlx_typed in = {"x", x, 0, RLX_F32};
    rlx_typed_out out = {"last", last, sizeof last, RLX_F32};
    rlx_feed feed = {"h", 3};
    float got[8];
    in.bytes = rlx_input_bytes(ctx, 0);
    REFUSES(rlx_set_profile(NULL, NULL), RLX_ERR_NULL);
    REFUSES(rlx_set_profile(ctx, &profile), RLX_ERR_NULL);
    REFUSES(rlx_set_profile(ctx, NULL), RLX_ERR_VALUE); // compiled without --profile
    REFUSES(rlx_feed_handle(ctx, "none", ERRORS_OUTPUT_last), RLX_ERR_HANDLE);
    REFUSES(rlx_feed_handle(ctx, "h", ERRORS_OUTPUT_y), RLX_ERR_SIZE);
    REFUSES(rlx_feed_handle(ctx, NULL, 0), RLX_ERR_NULL);
    REFUSES(rlx_run_feed(ctx, &feed, 1), RLX_ERR_SLOT);
    feed.output = ERRORS_OUTPUT_whole;
    REFUSES(rlx_run_feed(ctx, &feed, 1), RLX_ERR_DTYPE);
    REFUSES(rlx_read_output(ctx, 3, got, 16), RLX_ERR_SLOT);
    REFUSES(rlx_read_output(ctx, ERRORS_OUTPUT_last, got, 12), RLX_ERR_SIZE);
    REFUSES(rlx_read_output(ctx, ERRORS_OUTPUT_last, NULL, 16), RLX_ERR_NULL);
    REFUSES(rlx_read_output_row(ctx, ERRORS_OUTPUT_y, 4, got, 16), RLX_ERR_RANGE); // seq is 4
    REFUSES(rlx_read_output_row(ctx, ERRORS_OUTPUT_y, -1, got, 16), RLX_ERR_RANGE);
    REFUSES(rlx_read_output_row(ctx, ERRORS_OUTPUT_y, 0, got, 12), RLX_ERR_SIZE);
    REFUSES(rlx_take_snapshot(ctx, memory + 8, sizeof memory), RLX_ERR_ALIGNMENT);
    REFUSES(rlx_take_snapshot(ctx, memory, sizeof memory - 1), RLX_ERR_SIZE);
    REFUSES(rlx_clone(&one.ctx, &one.ctx, other.arena, sizeof other.arena, other.state, sizeof other.state),
            RLX_ERR_NULL);
    REFUSES(rlx_clone(&other.ctx, ctx, other.arena, ERRORS_ARENA_BYTES - 1, other.state, sizeof other.state),
            RLX_ERR_ARENA);
    if (otherwise != RLX_OK)
        REFUSES(rlx_run_typed(ctx, &in, 1, &out, 1), otherwise);
    CHECK(rlx_clone(&other.ctx, ctx, other.arena, sizeof other.arena, other.state, sizeof other.state) ==
              RLX_OK &&
          other.ctx.weights == weights);
}
#else
static void test_whole_api(const rlx_ctx *ctx, rlx_status otherwise)
{
    (void)ctx;
    (void)otherwise;
}
#endif

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    int i;
    if (f == NULL || fread(weights, 1, ERRORS_WEIGHT_BYTES, f) != ERRORS_WEIGHT_BYTES)
        return 2;
    fclose(f);
    memset(&one, 0xFF, sizeof one);
    for (i = 0; i < 8 * 4; i++)
        x[i] = (float)i;
    test_init();
    test_runs(&one.ctx, RLX_ERR_PARAM);
    test_values(&one.ctx);
    test_whole_api(&one.ctx, RLX_ERR_PARAM);
    CHECK(rlx_set_param(&one.ctx, "gain", gain, 4) == RLX_OK);
    CHECK(errors(&one.ctx, x, y, last, whole) == RLX_OK && y[1] == 2 && last[0] == 24 && whole[3] == 144);
    test_runs(&one.ctx, RLX_OK);
    test_values(&one.ctx);
    test_whole_api(&one.ctx, RLX_OK);
    CHECK(errors(&one.ctx, x, y, last, whole) == RLX_OK && last[0] == 48);
    return failed;
}
