// SPDX-License-Identifier: Apache-2.0
// Runs of the model that check_prepare.py makes, on inputs from a fixed generator; writes the outputs of the
// last run to argv[1]. Of parameters (NAME.bin) it tests that what depends on them is made once after one was
// set, again after another, and not between.
#include "twin.h"

#include "params.h" // needs the model's header
#include <stdio.h>

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[TWIN_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[TWIN_STATE_BYTES + 64]; // none where weights are constants
} Blocks;

static Blocks one, two;
static RLX_ALIGNED unsigned char want[TWIN_SNAPSHOT_BYTES], got[TWIN_SNAPSHOT_BYTES];

static rlx_status run(rlx_ctx *ctx)
{
    fill_inputs(ctx);
    return rlx_run(ctx);
}

static int gives_wanted(rlx_ctx *ctx)
{
    memset(got, 0, sizeof got);
    return run(ctx) == RLX_OK && rlx_take_snapshot(ctx, got, sizeof got) == RLX_OK &&
           memcmp(got, want, sizeof got) == 0;
}

// What a run reads of a parameter that was packed is not the parameter.
static void test_once(rlx_ctx *ctx)
{
    const rlx_tensor *rows = &twin_model.params[rlx_find(twin_model.params, twin_model.n_params, "rows")];
    const uint32_t product = (uint32_t)rlx_find(twin_model.outputs, twin_model.n_outputs, "many_rows");
    float *memory = (float *)rlx_handle_data(ctx, "rows");
    const float first = memory[0];
    memory[0] = first + 1;
    CHECK(run(ctx) == RLX_OK);
    CHECK(rlx_take_snapshot(ctx, got, sizeof got) == RLX_OK);
    // Compiled with -O0, everything is computed in every run.
    CHECK((memcmp(rlx_snapshot_output(&twin_model, got, product, NULL),
                  rlx_snapshot_output(&twin_model, want, product, NULL),
                  twin_model.outputs[product].bytes) == 0) == (LEVEL > 0));
    CHECK(rlx_set_param(ctx, "scale", (const float *)rlx_handle_data(ctx, "scale"), 50) == RLX_OK);
    CHECK(!gives_wanted(ctx)); // another parameter was set: all are packed again
    CHECK(read_param(rows) == rows->bytes && rlx_bind_handle(ctx, "rows", value, rows->bytes) == RLX_OK);
    CHECK(gives_wanted(ctx));
    CHECK(gives_wanted(ctx));
}

static void test_params(rlx_ctx *ctx)
{
    rlx_ctx copy;
    CHECK(rlx_clear_handle(ctx, "half") == RLX_OK && run(ctx) == RLX_ERR_PARAM);
    CHECK(strcmp(rlx_missing_param(ctx), "half") == 0);
    set_all(ctx, 0);
    CHECK(gives_wanted(ctx));
    CHECK(rlx_reset(ctx) == RLX_OK && gives_wanted(ctx));
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(gives_wanted(&copy));
    memset(one.state, 0xFF, sizeof one.state);
    CHECK(gives_wanted(&copy)); // nothing of it is shared
    CHECK(twin_init(ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    set_all(ctx, 1);
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(gives_wanted(&copy)); // a clone that has to prepare by itself
    CHECK(gives_wanted(ctx));
}

int main(int argc, char **argv)
{
    rlx_ctx ctx;
    FILE *f;
    memset(&one, 0xFF, sizeof one);
    memset(&two, 0xFF, sizeof two);
    CHECK(twin_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    set_all(&ctx, 1);
    start_team(&ctx);
    CHECK(run(&ctx) == RLX_OK && rlx_take_snapshot(&ctx, want, sizeof want) == RLX_OK);
    if (twin_model.n_params != 0)
        test_once(&ctx);
    stop_team(&ctx);
    if (twin_model.n_params != 0)
        test_params(&ctx);
    f = argc > 1 ? fopen(argv[1], "wb") : NULL;
    CHECK(f != NULL && fwrite(want, 1, sizeof want, f) == sizeof want);
    if (f != NULL)
        fclose(f);
    return failed;
}
