// SPDX-License-Identifier: Apache-2.0
// One program for any model, without an #ifdef: rlx_stubs.h has what the header of a model lacks. Prints the
// parts of runtime-lite whose calls say RLX_ERR_ABSENT. MODEL and HEADER come with the command, all_calls.h
// from rlx_stubs.h: a statement for every call in it.
#include HEADER
#include "rlx_stubs.h"
#include <stdio.h>

static RLX_ALIGNED unsigned char arena[1 << 20], state[1 << 20];

static void run_task(void *user, void (*task)(void *arg, size_t part), void *arg, size_t parts)
{
    size_t i;
    (void)user;
    for (i = 0; i < parts; i++)
        task(arg, i);
}

static void use_all(void)
{
#include "all_calls.h"
}

static void say(const char *part, rlx_status status)
{
    if (status == RLX_ERR_ABSENT)
        printf("%s\n", part);
}

// What they return that have no status, and what they write, is that there is nothing.
static int has_nothing(rlx_ctx *ctx)
{
    size_t bytes = 1, count = 1;
    uint32_t done = 1;
    int wrong = rlx_buffer_at(ctx, 0) != NULL;
    if (rlx_set_error(ctx, NULL) != RLX_ERR_ABSENT) // --api full
        return wrong;
    if (rlx_find_value(&MODEL, "x", NULL) == NULL) // no --keep
        wrong += rlx_scratch(ctx, &bytes) != NULL || bytes != 0 || rlx_find_value(&MODEL, "x", NULL) != NULL;
    wrong += rlx_run_pipelined(ctx, NULL, 1, NULL, 0, &done) != RLX_ERR_ABSENT || done != 0;
    wrong += rlx_failed_run(ctx) != -1 || !rlx_is_done(ctx) || rlx_has_handle(ctx, "x");
    wrong += rlx_bucket(ctx) >= 0;
    wrong += rlx_moe_choices(ctx, 0, &count) != NULL || count != 0 || rlx_find_symbol(&MODEL, "x") >= 0;
    return wrong;
}

int main(void)
{
    static rlx_pool pool;
    rlx_ctx ctx;
    rlx_error error;
    int64_t shape[RLX_MAX_RANK];
    uint32_t count;
    rlx_status status = rlx_init(&ctx, &MODEL, arena, sizeof arena, state, sizeof state, NULL, 0);
    if (status != RLX_OK) {
        printf("rlx_init: %s\n", rlx_status_text(status));
        return 1;
    }
    use_all();
    say("errors", rlx_set_error(&ctx, &error));
    say("symbols", rlx_set_symbol(&ctx, 0, 1));
    say("buckets", rlx_set_active_extent(&ctx, 0, 1, 1));
    say("moe", rlx_moe_capture(&ctx, 1));
    say("parallel", rlx_set_parallel_for(&ctx, 1, run_task, NULL));
    status = rlx_threads_start(&ctx, &pool, 1);
    say("threads", status);
    if (status == RLX_OK)
        rlx_threads_stop(&ctx);
    say("tables", rlx_buffer_shape(&ctx, 1, shape));
    say("profile", rlx_set_profile(&ctx, NULL));
    say("devices", rlx_devices(&MODEL, NULL, 0, &count));
    say("weights", rlx_check_weights(&MODEL, NULL, 1));
    say("calls", rlx_run_sized(&ctx, NULL, 0, NULL));
    say("shapes", rlx_input_shape(&ctx, 0, shape));
    say("read", rlx_read_output(&ctx, 99, shape, 1));
    say("sets", rlx_run_set(&ctx, 99));
    say("states", rlx_reset(&ctx));
    say("times", rlx_set_run_times(&ctx, NULL));
    say("links", rlx_drop_handle(&ctx, "none"));
    say("runs", rlx_sync(&ctx));
    say("handles", rlx_clear_handle(&ctx, "none"));
    say("values", rlx_set_param_bytes(&ctx, "none", "", 1));
    say("params", rlx_set_param_range(&ctx, "none", 0, "", 1));
    say("typed", rlx_run_typed(&ctx, NULL, 0, NULL, 0));
    if (rlx_set_symbol(&ctx, 0, 1) == RLX_ERR_ABSENT && rlx_set_error(&ctx, &error) == RLX_OK) {
        rlx_set_symbol(&ctx, 0, 1);
        printf("%s\n", rlx_error_text(&ctx));
    }
    status = rlx_moe_capture(NULL, 1);
    return has_nothing(&ctx) != 0 || status != RLX_ERR_NULL || rlx_close(&ctx) != RLX_OK;
}
