// SPDX-License-Identifier: Apache-2.0
// Runs of the model that check_prepare_buckets.py makes, in every bucket and at sizes between; writes all
// outputs to argv[1]. Of parameters (NAME.bin) it tests that each bucket makes what depends on them once
// after one was set: what a run reads of a parameter that was packed is not the parameter.
#include "several.h"

#include "params.h" // needs the model's header
#include <stdio.h>

enum { SIZES = 6, MAX_OUTPUT = 1 << 16 };
static const int64_t sizes[SIZES] = {1, 2, 4, 5, 16, 16};

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[SEVERAL_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[SEVERAL_STATE_BYTES + 64]; // none where weights are constants
} Blocks;

typedef struct Results {
    size_t n;
    unsigned char bytes[MAX_OUTPUT];
} Results;

static Blocks one, two;
static Results want[SIZES], got;

// What a run leaves over is NaN to the next.
static rlx_status run(rlx_ctx *ctx, int64_t size)
{
    uint32_t i;
    rlx_status status = several_set_symbol(ctx, SEVERAL_SYM_m, size);
    if (status != RLX_OK)
        return status;
    memset(ctx->arena, 0xFF, SEVERAL_ARENA_BYTES);
    fill_inputs(ctx);
    status = rlx_run(ctx);
    got.n = 0;
    for (i = 0; i < ctx->model->n_outputs; i++) {
        const size_t n = rlx_output_bytes(ctx, i);
        CHECK(got.n + n <= sizeof got.bytes);
        memcpy(got.bytes + got.n, rlx_output(ctx, i), n);
        got.n += n;
    }
    return status;
}

static int gives(rlx_ctx *ctx, int i)
{
    return run(ctx, sizes[i]) == RLX_OK && got.n == want[i].n && memcmp(got.bytes, want[i].bytes, got.n) == 0;
}

static void test_params(rlx_ctx *ctx)
{
    int i, again;
    rlx_ctx copy;
    float *const memory = (float *)rlx_handle_data(ctx, "rows");
    const float first = memory[0];
    for (again = 0; again < 2; again++)
        for (i = 0; i < SIZES; i++)
            CHECK(gives(ctx, i));
    memory[0] = first + 1; // nobody reads it until one is set
    for (i = 0; i < SIZES; i++)
        CHECK(gives(ctx, i));
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    for (i = 0; i < SIZES; i++)
        CHECK(gives(&copy, i));
    CHECK(rlx_set_param(ctx, "bias", (const float *)rlx_handle_data(ctx, "bias"), 20) == RLX_OK);
    for (i = SIZES; i-- > 0;) // each bucket by itself, the largest first
        CHECK(run(ctx, sizes[i]) == RLX_OK && memcmp(got.bytes, want[i].bytes, got.n) != 0);
    memory[0] = first; // now what they have made is older
    for (i = 0; i < SIZES; i++)
        CHECK(!gives(ctx, i));
    CHECK(rlx_set_param_range(ctx, "bias", 0, rlx_handle_data(ctx, "bias"), sizeof(float)) == RLX_OK);
    for (i = 0; i < SIZES; i++)
        CHECK(gives(ctx, i));
    CHECK(rlx_clear_handle(ctx, "bias") == RLX_OK && run(ctx, 4) == RLX_ERR_PARAM);
    CHECK(rlx_reset(ctx) == RLX_OK && run(ctx, 4) == RLX_ERR_PARAM);
    for (i = 0; i < SIZES; i++)
        CHECK(gives(&copy, i));
}

int main(int argc, char **argv)
{
    int i;
    rlx_ctx ctx;
    FILE *f;
    memset(&one, 0xFF, sizeof one);
    memset(&two, 0xFF, sizeof two);
    CHECK(several_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    set_all(&ctx, 1);
    start_team(&ctx);
    f = argc > 1 ? fopen(argv[1], "wb") : NULL;
    CHECK(f != NULL);
    for (i = 0; i < SIZES && f != NULL; i++) {
        CHECK(run(&ctx, sizes[i]) == RLX_OK);
        want[i] = got;
        CHECK(fwrite(got.bytes, 1, got.n, f) == got.n);
    }
    if (f != NULL)
        fclose(f);
    if (several_model.n_params != 0)
        test_params(&ctx);
    stop_team(&ctx);
    return failed;
}
