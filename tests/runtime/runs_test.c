// SPDX-License-Identifier: Apache-2.0
// The calls of rlx_runs.h and rlx_typed.h on a generated model (runs.json, compiled with two sets of outputs:
// product = y, rest = z,total), with every way to use them wrongly.
#include "check.h"
#include "runs.h"

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[RUNS_ARENA_BYTES + 64];
    RLX_ALIGNED unsigned char state[RUNS_STATE_BYTES + 64];
    RLX_ALIGNED unsigned char snapshots[3 * RUNS_SNAPSHOT_BYTES + 64];
} Blocks;

static Blocks one, two, before;

static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
static const float y_want[6] = {1, 2, 3, 5, 6, 7};
static const int32_t n[3] = {1, -7, 2147483647};

static float value(const rlx_ctx *ctx, uint32_t slot, size_t i)
{
    float v;
    memcpy(&v, (const unsigned char *)rlx_output(ctx, slot) + i * sizeof v, sizeof v);
    return v;
}

static void fill_inputs(const rlx_ctx *ctx)
{
    memcpy(rlx_input(ctx, RUNS_INPUT_x), x, sizeof x);
    memcpy(rlx_input(ctx, RUNS_INPUT_n), n, sizeof n);
}

static void test_sets(rlx_ctx *ctx)
{
    CHECK(rlx_find_set(&runs_model, "product") == RUNS_SET_product);
    CHECK(rlx_find_set(&runs_model, "rest") == RUNS_SET_rest && rlx_find_set(&runs_model, "y") == -1);
    REFUSES(rlx_run_set(ctx, 2), RLX_ERR_SLOT);
    REFUSES(rlx_run_set(NULL, 0), RLX_ERR_NULL);
    fill_inputs(ctx);
    CHECK(rlx_run_set(ctx, RUNS_SET_rest) == RLX_OK && value(ctx, RUNS_OUTPUT_total, 0) == 72);
    fill_inputs(ctx);
    CHECK(rlx_run_set(ctx, RUNS_SET_product) == RLX_OK && value(ctx, RUNS_OUTPUT_y, 5) == 7);
    fill_inputs(ctx); // states go on in every set
    CHECK(rlx_run(ctx) == RLX_OK && value(ctx, RUNS_OUTPUT_seen, 0) == 12);
    CHECK(value(ctx, RUNS_OUTPUT_y, 5) == 7 && value(ctx, RUNS_OUTPUT_total, 0) == 72);
}

static void test_rows(rlx_ctx *ctx)
{
    float row[3], all[6], number;
    fill_inputs(ctx);
    CHECK(rlx_run(ctx) == RLX_OK);
    CHECK(rlx_read_output(ctx, RUNS_OUTPUT_y, all, sizeof all) == RLX_OK);
    CHECK(memcmp(all, y_want, sizeof all) == 0);
    CHECK(rlx_read_output_row(ctx, RUNS_OUTPUT_y, 1, row, sizeof row) == RLX_OK);
    CHECK(memcmp(row, y_want + 3, sizeof row) == 0);
    memset(row, 0, sizeof row);
    CHECK(rlx_read_output(ctx, RUNS_OUTPUT_y, all, 23) == RLX_ERR_SIZE);
    CHECK(rlx_read_output(ctx, 5, all, sizeof all) == RLX_ERR_SLOT);
    CHECK(rlx_read_output(ctx, RUNS_OUTPUT_y, NULL, sizeof all) == RLX_ERR_NULL);
    CHECK(rlx_read_output_row(ctx, RUNS_OUTPUT_y, 2, row, sizeof row) == RLX_ERR_RANGE);
    CHECK(rlx_read_output_row(ctx, RUNS_OUTPUT_y, -1, row, sizeof row) == RLX_ERR_RANGE);
    CHECK(rlx_read_output_row(ctx, RUNS_OUTPUT_total, 0, &number, 4) == RLX_ERR_RANGE); // no axis
    CHECK(rlx_read_output_row(ctx, RUNS_OUTPUT_y, 0, row, 8) == RLX_ERR_SIZE);
    CHECK(rlx_read_output_row(ctx, RUNS_OUTPUT_y, 0, NULL, 12) == RLX_ERR_NULL);
    CHECK(rlx_read_output_row(ctx, 9, 0, row, 12) == RLX_ERR_SLOT && row[0] == 0);
}

static void test_pipelined(rlx_ctx *ctx)
{
    static const float other[8] = {0}, third[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const void *inputs[6], *missing[2];
    const float *y;
    int64_t shape[RLX_MAX_RANK];
    uint32_t done = 9;
    inputs[0] = x, inputs[2] = other, inputs[4] = third;
    inputs[1] = inputs[3] = inputs[5] = n;
    missing[0] = x, missing[1] = NULL;
    CHECK(rlx_snapshot_bytes(&runs_model) == RUNS_SNAPSHOT_BYTES && rlx_snapshot_bytes(NULL) == 0);
    REFUSES(rlx_run_pipelined(ctx, missing, 1, one.snapshots, RUNS_SNAPSHOT_BYTES, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_pipelined(ctx, inputs, 3, NULL, 3 * RUNS_SNAPSHOT_BYTES, NULL), RLX_ERR_NULL);
    REFUSES(rlx_run_pipelined(ctx, inputs, 3, one.snapshots, 3 * RUNS_SNAPSHOT_BYTES - 1, NULL),
            RLX_ERR_SIZE);
    REFUSES(rlx_run_pipelined(ctx, inputs, 1, one.snapshots + 4, RUNS_SNAPSHOT_BYTES, NULL),
            RLX_ERR_ALIGNMENT);
    REFUSES(rlx_take_snapshot(ctx, one.snapshots, RUNS_SNAPSHOT_BYTES - 1), RLX_ERR_SIZE);
    REFUSES(rlx_take_snapshot(ctx, NULL, RUNS_SNAPSHOT_BYTES), RLX_ERR_NULL);
    REFUSES(rlx_take_snapshot(ctx, one.snapshots + 1, RUNS_SNAPSHOT_BYTES), RLX_ERR_ALIGNMENT);
    CHECK(rlx_run_pipelined(ctx, inputs, 3, one.snapshots, sizeof one.snapshots, &done) == RLX_OK &&
          done == 3);
    y = (const float *)rlx_snapshot_output(&runs_model, one.snapshots, RUNS_OUTPUT_y, shape);
    CHECK(y != NULL && memcmp(y, y_want, sizeof y_want) == 0 && shape[0] == 2 && shape[1] == 3);
    y = (const float *)rlx_snapshot_output(&runs_model, one.snapshots + RUNS_SNAPSHOT_BYTES,
                                           RUNS_OUTPUT_total, NULL);
    CHECK(y != NULL && *y == 0);
    y = (const float *)rlx_snapshot_output(&runs_model, one.snapshots + 2 * RUNS_SNAPSHOT_BYTES,
                                           RUNS_OUTPUT_total, NULL);
    CHECK(y != NULL && *y == 16);
    CHECK(rlx_snapshot_output(&runs_model, one.snapshots, 5, NULL) == NULL);
}

static void test_commit(rlx_ctx *ctx)
{
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_commit(NULL) == RLX_ERR_NULL && rlx_sync(NULL) == RLX_ERR_NULL);
    fill_inputs(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_sync(ctx) == RLX_OK && value(ctx, RUNS_OUTPUT_total, 0) == 72);
}

// Runs are queued, each with inputs of its own: the state has a digit for each of them, in their order.
static void test_queue(rlx_ctx *ctx)
{
    const float two_more[12] = {1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0};
    float all[8], digits = 0;
    int32_t all_n[3];
    rlx_ctx copy;
    int run, i;
    CHECK(rlx_reset(ctx) == RLX_OK && rlx_failed_run(NULL) == -1);
    for (run = 1; run <= 5; run++) {
        for (i = 0; i < 8; i++)
            all[i] = (float)run;
        for (i = 0; i < 3; i++)
            all_n[i] = run;
        memcpy(rlx_input(ctx, RUNS_INPUT_x), all, sizeof all);
        memcpy(rlx_input(ctx, RUNS_INPUT_n), all_n, sizeof all_n);
        CHECK(rlx_commit(ctx) == RLX_OK);
        if (run == 4)
            CHECK(rlx_set_param(ctx, "w", two_more, 12) == RLX_OK); // only the last run has it
    }
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_failed_run(ctx) == -1 && rlx_is_done(ctx));
    CHECK(value(ctx, RUNS_OUTPUT_total, 0) == 80 && value(ctx, RUNS_OUTPUT_seen, 0) == 14);
    CHECK(value(ctx, RUNS_OUTPUT_y, 1) == 5 && value(ctx, RUNS_OUTPUT_y, 2) == 10);
    CHECK(rlx_read_state(ctx, "digits", &digits, sizeof digits) == RLX_OK && digits == 12345);
    CHECK(rlx_read_state(&copy, "digits", &digits, sizeof digits) == RLX_OK && digits == 12345);
    fill_inputs(&copy); // what ends with a run under way gives everything back
    CHECK(rlx_commit(&copy) == RLX_OK && rlx_close(&copy) == RLX_OK);
    CHECK(rlx_set_param(ctx, "w", w, 12) == RLX_OK && rlx_reset(ctx) == RLX_OK);
}

static void test_clone(rlx_ctx *ctx)
{
    rlx_ctx copy;
    CHECK(rlx_clone(&copy, NULL, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_ERR_NULL);
    CHECK(rlx_clone(&copy, ctx, two.arena, 0, two.state, sizeof two.state) == RLX_ERR_ARENA);
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state + 4, sizeof two.state) ==
          RLX_ERR_ALIGNMENT);
    REFUSES(rlx_clone(ctx, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state), RLX_ERR_NULL);
    CHECK(rlx_reset(ctx) == RLX_OK);
    fill_inputs(ctx);
    CHECK(rlx_run(ctx) == RLX_OK);
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    fill_inputs(&copy); // the parameter and the state came along
    CHECK(rlx_run(&copy) == RLX_OK && value(&copy, RUNS_OUTPUT_seen, 0) == 11 && value(&copy, 0, 5) == 7);
    fill_inputs(ctx); // and are its own
    CHECK(rlx_run(ctx) == RLX_OK && value(ctx, RUNS_OUTPUT_seen, 0) == 11);
}

// --- element types -------------------------------------------------------------------------------

static void test_halves(void)
{
    static const struct {
        double v;
        uint32_t f16, bf16;
    } list[] = {{0, 0, 0},
                {-0.0, 0x8000, 0x8000},
                {1, 0x3c00, 0x3f80},
                {65504, 0x7bff, 0x4780},
                {65519.99, 0x7bff, 0x4780},
                {65520, 0x7c00, 0x4780},
                {5.9604644775390625e-8, 1, 0x3380},
                {2.98023223876953125e-8, 0, 0x3300},
                {2.9802322387695320e-8, 1, 0x3300},
                {8.94069671630859375e-8, 2, 0x33c0},
                {-1e300, 0xfc00, 0xff80},
                {1.00048828125, 0x3c00, 0x3f80},
                {1.00146484375, 0x3c02, 0x3f80},
                {1e-300, 0, 0},
                {1.00390625, 0x3c04, 0x3f80},
                {1.01171875, 0x3c0c, 0x3f82}};
    uint32_t i;
    for (i = 0; i < sizeof list / sizeof *list; i++)
        CHECK(rlx_narrow(list[i].v, 5, 10) == list[i].f16 && rlx_narrow(list[i].v, 8, 7) == list[i].bf16);
    for (i = 0; i < 65536; i++) { // all values go and come back
        const double half = rlx_widen(i, 5, 10), brain = rlx_widen(i, 8, 7);
        const float exact = (float)brain;
        uint32_t bits;
        memcpy(&bits, &exact, sizeof bits);
        if (half == half)
            CHECK(rlx_narrow(half, 5, 10) == i);
        if (brain == brain)
            CHECK(rlx_narrow(brain, 8, 7) == i && bits == i << 16);
    }
    CHECK(rlx_widen(0x3555, 5, 10) == 0.333251953125 && rlx_widen(0x0001, 5, 10) == 1.0 / 16777216);
}

static void test_conversions(void)
{
    static const double v[8] = {0, -1.9, 300.5, -129, 1e30, -1e30, 0.5, -0.0};
    static const int8_t i8[8] = {0, -1, 127, -128, 127, -128, 0, 0};
    static const uint8_t u8[8] = {0, 0, 255, 0, 255, 0, 0, 0}, truth[8] = {0, 1, 1, 1, 1, 1, 1, 0};
    static const int64_t whole[3] = {-1, 16777217, INT64_MAX};
    int8_t got8[8];
    uint8_t gotu[8];
    int64_t got64[8];
    float f[3];
    uint64_t u;
    double d, nan = v[4] * v[4] * 1e300 * 1e300;
    nan -= nan;
    CHECK(rlx_convert(got8, RLX_I8, v, RLX_F64, 8) == RLX_OK && memcmp(got8, i8, 8) == 0);
    CHECK(rlx_convert(gotu, RLX_U8, v, RLX_F64, 8) == RLX_OK && memcmp(gotu, u8, 8) == 0);
    CHECK(rlx_convert(gotu, RLX_BOOL, v, RLX_F64, 8) == RLX_OK && memcmp(gotu, truth, 8) == 0);
    CHECK(rlx_convert(got64, RLX_I64, v, RLX_F64, 8) == RLX_OK && got64[4] == INT64_MAX &&
          got64[5] == INT64_MIN);
    CHECK(rlx_convert(&u, RLX_U64, v + 4, RLX_F64, 1) == RLX_OK && u == UINT64_MAX);
    CHECK(rlx_convert(got64, RLX_I64, &nan, RLX_F64, 1) == RLX_OK && got64[0] == 0);
    CHECK(rlx_convert(gotu, RLX_BOOL, &nan, RLX_F64, 1) == RLX_OK && gotu[0] == 1);
    CHECK(rlx_convert(f, RLX_F32, whole, RLX_I64, 3) == RLX_OK && f[0] == -1 && f[1] == 16777216 &&
          f[2] == 9223372036854775808.0f);
    CHECK(rlx_convert(gotu, RLX_U8, whole, RLX_I64, 3) == RLX_OK && gotu[0] == 255 && gotu[1] == 1 &&
          gotu[2] == 255);
    u = UINT64_MAX;
    CHECK(rlx_convert(&d, RLX_F64, &u, RLX_U64, 1) == RLX_OK && d == 18446744073709551616.0);
    CHECK(rlx_convert(f, RLX_F32, got8, RLX_F8E4M3FN, 1) == RLX_ERR_DTYPE);
    CHECK(rlx_convert(got8, RLX_F8E4M3FN, i8, RLX_F8E4M3FN, 8) == RLX_OK && memcmp(got8, i8, 8) == 0);
    CHECK(rlx_convert(NULL, RLX_F32, x, RLX_F32, 1) == RLX_ERR_NULL);
}

static void test_typed(rlx_ctx *ctx)
{
    uint16_t half[8];
    int64_t wide[3] = {1, -7, 2147483647}, m[3];
    double y[6];
    rlx_typed in[2], bad;
    rlx_typed_out out[2], bad_out;
    rlx_convert(half, RLX_F16, x, RLX_F32, 8);
    in[0].name = "n", in[0].data = wide, in[0].bytes = sizeof wide, in[0].dtype = RLX_I64;
    in[1].name = "x", in[1].data = half, in[1].bytes = sizeof half, in[1].dtype = RLX_F16;
    out[0].name = "y", out[0].data = y, out[0].bytes = sizeof y, out[0].dtype = RLX_F64;
    out[1].name = "m", out[1].data = m, out[1].bytes = sizeof m, out[1].dtype = RLX_I64;
    CHECK(rlx_run_typed(ctx, in, 2, out, 2) == RLX_OK && y[0] == 1 && y[5] == 7 && m[1] == 7);
    bad = in[1], bad_out = out[0];
    REFUSES(rlx_run_typed(NULL, in, 2, out, 2), RLX_ERR_NULL);
    REFUSES(rlx_run_typed(ctx, NULL, 2, out, 2), RLX_ERR_NULL);
    REFUSES(rlx_run_typed(ctx, in, 1, out, 2), RLX_ERR_INPUT);
    in[1].name = "z";
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_NAME);
    in[1].name = "n";
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_NAME);
    in[1] = bad, in[1].data = NULL;
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_NULL);
    in[1] = bad, in[1].bytes = 15;
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_SIZE);
    in[1] = bad, in[1].dtype = RLX_F32; // as if the array were as long in bytes
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_SIZE);
    in[1] = bad, in[1].dtype = RLX_F8E5M2;
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_DTYPE);
    in[1] = bad, out[0].name = "n";
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_NAME);
    out[0] = bad_out, out[0].bytes = 24;
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_SIZE);
    out[0] = bad_out, out[0].dtype = RLX_U2;
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_DTYPE);
    out[0] = bad_out, out[0].data = NULL;
    REFUSES(rlx_run_typed(ctx, in, 2, out, 2), RLX_ERR_NULL);
}

static uint64_t tick(void *user)
{
    return ++*(uint64_t *)user;
}

// By the clock of a device; the host has none of its own.
static void test_times(rlx_ctx *ctx)
{
    uint64_t now = 0, ticks[RUNS_KERNELS];
    double ns[RUNS_KERNELS], sum = 0, same = 0;
    const uint32_t kernels = ctx->model->n_kernels;
    rlx_profile profile;
    uint32_t i;
    profile.clock = tick, profile.user = &now, profile.ticks = ticks;
    CHECK(rlx_set_device_times(NULL, ns, kernels) == RLX_ERR_NULL && kernels <= RUNS_KERNELS);
    CHECK(rlx_set_device_times(ctx, ns, kernels - 1u) == RLX_ERR_SIZE);
    CHECK(rlx_set_device_times(ctx, NULL, kernels) == RLX_ERR_SIZE);
    CHECK(rlx_set_device_times(ctx, ns, kernels) == RLX_OK && rlx_run(ctx) == RLX_OK);
    for (i = 0; i < kernels; i++)
        sum += ns[i];
    CHECK(sum == 0); // no kernel was timed
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK && rlx_run(ctx) == RLX_OK);
    test_queue(ctx);
    for (i = 0; i < kernels; i++)
        sum += ns[i];
    CHECK(ctx->model->device != NULL ? sum > 0 && sum < 60e9 : sum == 0);
    CHECK(rlx_set_device_times(ctx, NULL, 0) == RLX_OK && rlx_run(ctx) == RLX_OK);
    for (i = 0; i < kernels; i++)
        same += ns[i];
    CHECK(same == sum && rlx_set_profile(ctx, NULL) == RLX_OK);
}

int main(void)
{
    rlx_ctx ctx;
    memset(&one, 0xFF, sizeof one); // NaNs: nothing may depend on what was there
    memset(&two, 0xFF, sizeof two);
    CHECK(runs_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    REFUSES(rlx_commit(&ctx), RLX_ERR_PARAM);
    REFUSES(rlx_run_set(&ctx, 0), RLX_ERR_PARAM);
    CHECK(rlx_set_param(&ctx, "w", w, 12) == RLX_OK);
    test_sets(&ctx);
    test_rows(&ctx);
    test_pipelined(&ctx);
    test_commit(&ctx);
    test_queue(&ctx);
    test_times(&ctx);
    test_clone(&ctx);
    test_halves();
    test_conversions();
    test_typed(&ctx);
    return failed;
}
