// SPDX-License-Identifier: Apache-2.0
// Calls in wrong orders (orders.json): on no context, one that was never made and one that was closed; before
// the first run, after one that failed, twice, while runs are in a queue, and with memory that is the
// context's own or another handle's. Each is refused by its status, or means what the manual says.
#include "check.h"
#include "orders.h"

enum { T = 2, N = 4 };

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[ORDERS_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[ORDERS_STATE_BYTES];
} Blocks;

static Blocks one, other, before;
static RLX_ALIGNED unsigned char snapshots[2 * ORDERS_SNAPSHOT_BYTES];
static const float x[2 * T] = {1, 2, 3, 4}, ones[N] = {1, 1, 1, 1}, twos[N] = {2, 2, 2, 2};

// --- no context -----------------------------------------------------------------------------------

#define NOTHING(call) CHECK((call) == RLX_ERR_NULL)

static void test_runs_of_none(rlx_ctx *ctx)
{
    const void *const in[4] = {x, ones, ones, ones};
    int64_t sizes[2] = {1, 1};
    void *out[2] = {snapshots, snapshots};
    rlx_slot slots[4];
    uint32_t done = 7;
    float y[8];
    NOTHING(rlx_run(ctx));
    NOTHING(rlx_run_set(ctx, 0));
    NOTHING(rlx_run_slots(ctx, in, slots));
    NOTHING(rlx_run_sized(ctx, NULL, 0, slots));
    NOTHING(rlx_run_named(ctx, NULL, 0, NULL, 0));
    NOTHING(rlx_run_typed(ctx, NULL, 0, NULL, 0));
    NOTHING(rlx_run_feed(ctx, NULL, 0));
    NOTHING(rlx_run_pipelined(ctx, in, 1, snapshots, sizeof snapshots, &done));
    CHECK(done == 0);
    NOTHING(orders(ctx, x, ones, ones, y, y));
    NOTHING(rlx_commit(ctx));
    NOTHING(rlx_sync(ctx));
    CHECK(rlx_is_done(ctx) == 1);
    NOTHING(rlx_expect_inputs(ctx, 1));
    NOTHING(rlx_reset(ctx));
    NOTHING(rlx_set_symbol(ctx, 0, 1));
    NOTHING(rlx_set_symbols(ctx, sizes, 2));
    NOTHING(rlx_get_symbol(ctx, 0, sizes));
    NOTHING(orders_set_symbol(ctx, 0, 1));
    (void)out;
}

static void test_values_of_none(rlx_ctx *ctx)
{
    int64_t shape[RLX_MAX_RANK], index = 0;
    float y[N] = {0};
    const int8_t small[N] = {0};
    CHECK(rlx_input(ctx, 0) == NULL && rlx_output(ctx, 0) == NULL);
    CHECK(rlx_input_bytes(ctx, 0) == 0 && rlx_output_bytes(ctx, 0) == 0 && rlx_output_room(ctx, 0) == 0);
    NOTHING(rlx_input_shape(ctx, 0, shape));
    NOTHING(rlx_output_shape(ctx, 0, shape));
    NOTHING(rlx_read_output(ctx, 0, y, sizeof y));
    NOTHING(rlx_read_output_row(ctx, 0, 0, y, sizeof y));
    NOTHING(rlx_read_output_at(ctx, 0, &index, 1, y, sizeof y));
    NOTHING(rlx_take_snapshot(ctx, snapshots, sizeof snapshots));
    NOTHING(rlx_set_param(ctx, "w", y, N));
    NOTHING(rlx_set_param_bytes(ctx, "w", y, sizeof y));
    NOTHING(rlx_set_param_typed(ctx, "w", y, sizeof y, RLX_F32));
    NOTHING(rlx_set_param_scaled(ctx, "w", small, N, y, 1, 0));
    NOTHING(rlx_set_param_blocks(ctx, "w", y, sizeof y, RLX_Q4_0));
    NOTHING(rlx_set_param_range(ctx, "w", 0, y, 4));
    NOTHING(rlx_read_state(ctx, "acc", y, sizeof y));
    NOTHING(rlx_write_state(ctx, "acc", y, sizeof y));
    NOTHING(rlx_read_state_range(ctx, "acc", 0, y, 4));
    NOTHING(rlx_write_state_range(ctx, "acc", 0, y, 4));
    CHECK(rlx_missing_param(ctx) == NULL && rlx_failed_check(ctx) == NULL);
    CHECK(rlx_value_data(ctx, "inner") == NULL && rlx_bucket(ctx) == -1);
    CHECK(rlx_tables_of(ctx) == NULL && rlx_buffer_at(ctx, 0) == NULL && rlx_find_buffer(ctx, "v") == NULL);
    CHECK(rlx_buffer_data(ctx, 0) == NULL);
    NOTHING(rlx_buffer_shape(ctx, 0, shape));
}

static void test_handles_of_none(rlx_ctx *ctx)
{
    static float memory[N];
    int64_t shape[RLX_MAX_RANK];
    rlx_run_times times;
    rlx_device_info info;
    rlx_error error;
    rlx_profile profile;
    rlx_handle h;
    rlx_ctx copy;
    size_t bytes;
    float y[N] = {0};
    NOTHING(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof memory));
    NOTHING(rlx_drop_handle(ctx, "mine"));
    NOTHING(rlx_link_input(ctx, 0, "mine"));
    NOTHING(rlx_link_output(ctx, 0, "mine"));
    NOTHING(rlx_unlink_input(ctx, "mine"));
    NOTHING(rlx_unlink_output(ctx, "mine"));
    NOTHING(rlx_handle_shape(ctx, "mine", shape));
    NOTHING(rlx_bind_handle(ctx, "mine", y, sizeof y));
    NOTHING(rlx_read_handle(ctx, "mine", y, sizeof y));
    NOTHING(rlx_clear_handle(ctx, "mine"));
    NOTHING(rlx_feed_handle(ctx, "mine", 0));
    CHECK(rlx_handle_room(ctx, "v") == 0 && rlx_handle_data(ctx, "mine") == NULL);
    CHECK(!rlx_has_handle(ctx, "mine"));
    memset(&times, 0, sizeof times);
    memset(&profile, 0, sizeof profile);
    NOTHING(rlx_set_run_times(ctx, &times));
    NOTHING(rlx_set_profile(ctx, &profile));
    NOTHING(rlx_set_device_times(ctx, NULL, 0));
    NOTHING(rlx_set_error(ctx, &error));
    NOTHING(rlx_context_device(ctx, &info));
    NOTHING(rlx_clone(&copy, ctx, other.arena, sizeof other.arena, other.state, sizeof other.state));
    CHECK(rlx_error_text(ctx)[0] == '\0' && rlx_scratch(ctx, &bytes) == NULL);
#ifdef RLX_METAL_H
    CHECK(rlx_metal_seconds(ctx) == 0);
#endif
    NOTHING(rlx_close(ctx));
}

static void test_none(rlx_ctx *ctx)
{
    test_runs_of_none(ctx);
    test_values_of_none(ctx);
    test_handles_of_none(ctx);
}

// --- a context ------------------------------------------------------------------------------------

static void fill(rlx_ctx *ctx)
{
    memcpy(rlx_input(ctx, ORDERS_INPUT_x), x, sizeof x);
    memcpy(rlx_input(ctx, ORDERS_INPUT_v), twos, sizeof twos);
    memcpy(rlx_input(ctx, ORDERS_INPUT_u), ones, sizeof ones);
}

static float first_of(rlx_ctx *ctx)
{
    float y[N] = {0};
    CHECK(rlx_read_output(ctx, ORDERS_OUTPUT_next, y, sizeof y) == RLX_OK);
    return y[0];
}

static float sum_of(rlx_ctx *ctx)
{
    float y[N] = {0};
    CHECK(rlx_read_state(ctx, "acc", y, sizeof y) == RLX_OK);
    return y[0];
}

// Before the first run, and before there is what a run needs.
static void test_early(rlx_ctx *ctx)
{
    float y[N];
    int64_t index = 0;
    rlx_feed feed;
    feed.handle = "w", feed.output = ORDERS_OUTPUT_next;
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_is_done(ctx) && rlx_failed_run(ctx) == -1);
    REFUSES(rlx_read_output(ctx, ORDERS_OUTPUT_next, y, sizeof y), RLX_ERR_EARLY);
    REFUSES(rlx_read_output_at(ctx, ORDERS_OUTPUT_next, &index, 1, y, 4), RLX_ERR_EARLY);
    REFUSES(rlx_read_output_row(ctx, ORDERS_OUTPUT_next, 0, y, 4), RLX_ERR_EARLY);
    REFUSES(rlx_take_snapshot(ctx, snapshots, sizeof snapshots), RLX_ERR_EARLY);
    REFUSES(rlx_feed_handle(ctx, "w", ORDERS_OUTPUT_next), RLX_ERR_EARLY);
    REFUSES(rlx_set_param_range(ctx, "w", 0, y, 4), RLX_ERR_PARAM);
    REFUSES(rlx_read_handle(ctx, "w", y, sizeof y), RLX_ERR_HANDLE);
    fill(ctx);
    REFUSES(rlx_run(ctx), RLX_ERR_PARAM);
    REFUSES(rlx_commit(ctx), RLX_ERR_PARAM);
    REFUSES(rlx_run_feed(ctx, &feed, 1), RLX_ERR_PARAM);
    CHECK(rlx_sync(ctx) == RLX_OK); // nothing was committed
    REFUSES(rlx_failed_check(ctx) == NULL ? RLX_OK : RLX_ERR_VALUE, RLX_OK);
}

// After a run that has failed there are no outputs; states and handles are as before it.
static void test_failed(rlx_ctx *ctx)
{
    static float memory[N];
    rlx_handle h;
    float y[N];
    CHECK(rlx_set_param(ctx, "w", ones, N) == RLX_OK);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && first_of(ctx) == 3 && sum_of(ctx) == 3);
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_input(ctx, ORDERS_INPUT_v, "h") == RLX_OK);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_ERR_HANDLE && sum_of(ctx) == 3); // it has no value
    REFUSES(rlx_read_output(ctx, ORDERS_OUTPUT_next, y, sizeof y), RLX_ERR_EARLY);
    REFUSES(rlx_take_snapshot(ctx, snapshots, sizeof snapshots), RLX_ERR_EARLY);
    REFUSES(rlx_feed_handle(ctx, "w", ORDERS_OUTPUT_next), RLX_ERR_EARLY);
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_commit(ctx) == RLX_OK);
    CHECK(rlx_sync(ctx) == RLX_ERR_HANDLE && rlx_failed_run(ctx) == 0 && sum_of(ctx) == 3);
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_failed_run(ctx) == -1);
    CHECK(rlx_bind_handle(ctx, "h", ones, sizeof ones) == RLX_OK);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && first_of(ctx) == 2 && sum_of(ctx) == 5);
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK && rlx_reset(ctx) == RLX_OK);
}

// The size that is given for one run, with an input that a handle gives.
static void test_padded(rlx_ctx *ctx)
{
    const int64_t sizes[2] = {1, 1};
    const void *in[3] = {NULL, NULL, NULL};
    void *out[2] = {NULL, NULL};
    float y[N] = {0};
    in[ORDERS_INPUT_x] = x, in[ORDERS_INPUT_u] = ones;
    out[ORDERS_OUTPUT_next] = y;
    CHECK(rlx_run_padded(ctx, sizes, 2, in, out) == RLX_OK && y[0] == 3);
    in[ORDERS_INPUT_v] = ones;
    REFUSES(rlx_run_padded(ctx, sizes, 2, in, out), RLX_ERR_HANDLE);
    in[ORDERS_INPUT_u] = NULL;
    REFUSES(rlx_run_padded(ctx, sizes, 2, in, out), RLX_ERR_HANDLE);
    in[ORDERS_INPUT_v] = NULL;
    REFUSES(rlx_run_padded(ctx, sizes, 2, in, out), RLX_ERR_NULL);
    CHECK(rlx_set_symbol(ctx, ORDERS_SYM_T, T) == RLX_OK);
}

// What is called twice, and handles for two inputs, two outputs and of one memory.
static void test_twice(rlx_ctx *ctx)
{
    static float memory[2 * N], more[N];
    rlx_handle h, g;
    float y[N];
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof more) == RLX_OK);
    REFUSES(rlx_make_handle(ctx, &h, "again", "v", more, sizeof more), RLX_ERR_OVERLAP); // it is in use
    REFUSES(rlx_make_handle(ctx, &g, "g", "v", memory + 1, sizeof more), RLX_ERR_OVERLAP);
    REFUSES(rlx_make_handle(ctx, &g, "h", "v", more, sizeof more), RLX_ERR_NAME);
    CHECK(rlx_make_handle(ctx, &g, "g", "next", more, sizeof more) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "h", twos, sizeof twos) == RLX_OK);
    CHECK(rlx_link_input(ctx, ORDERS_INPUT_v, "h") == RLX_OK);
    CHECK(rlx_link_input(ctx, ORDERS_INPUT_v, "h") == RLX_OK);
    test_padded(ctx);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && first_of(ctx) == 3);
    CHECK(rlx_link_input(ctx, ORDERS_INPUT_u, "h") == RLX_OK); // no longer to v
    memcpy(rlx_input(ctx, ORDERS_INPUT_x), x, sizeof x);
    memcpy(rlx_input(ctx, ORDERS_INPUT_v), ones, sizeof ones);
    CHECK(rlx_run(ctx) == RLX_OK && first_of(ctx) == 3);
    CHECK(rlx_link_output(ctx, ORDERS_OUTPUT_next, "g") == RLX_OK);
    CHECK(rlx_link_output(ctx, ORDERS_OUTPUT_next, "g") == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "h", memory, sizeof more) == RLX_OK); // of itself
    CHECK(rlx_read_handle(ctx, "h", memory, sizeof more) == RLX_OK && memory[0] == 2);
    CHECK(rlx_unlink_input(ctx, "h") == RLX_OK && rlx_unlink_input(ctx, "h") == RLX_OK);
    CHECK(rlx_unlink_output(ctx, "h") == RLX_OK); // it never was
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && more[0] == 3);
    CHECK(rlx_unlink_output(ctx, "g") == RLX_OK && rlx_unlink_output(ctx, "g") == RLX_OK);
    CHECK(rlx_clear_handle(ctx, "g") == RLX_OK && rlx_clear_handle(ctx, "g") == RLX_OK);
    REFUSES(rlx_read_handle(ctx, "g", y, sizeof y), RLX_ERR_HANDLE);
    CHECK(rlx_feed_handle(ctx, "g", ORDERS_OUTPUT_next) == RLX_OK && more[0] == 3);
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK && rlx_drop_handle(ctx, "g") == RLX_OK);
    REFUSES(rlx_drop_handle(ctx, "h"), RLX_ERR_HANDLE);
    REFUSES(rlx_unlink_input(ctx, "h"), RLX_ERR_HANDLE);
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof more) == RLX_OK); // it is free again
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK);
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_sync(ctx) == RLX_OK);
    CHECK(rlx_reset(ctx) == RLX_OK && rlx_reset(ctx) == RLX_OK);
}

static uint64_t ticks;

static uint64_t tick(void *user)
{
    (void)user;
    return ++ticks;
}

// While runs are in a queue: what is written counts for the next ones, what is read waits.
static void test_queue(rlx_ctx *ctx)
{
    static rlx_run_time first[4], second[4];
    static float memory[N];
    rlx_run_times times, again;
    rlx_handle h;
    rlx_ctx copy;
    float y[N];
    memset(&times, 0, sizeof times);
    times.clock = tick, times.list = first, times.n = 4;
    again = times;
    again.list = second;
    CHECK(rlx_reset(ctx) == RLX_OK && rlx_set_run_times(ctx, &times) == RLX_OK);
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_set_param(ctx, "w", twos, N) == RLX_OK); // 3, then 5
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK);
    CHECK(rlx_clone(&copy, ctx, other.arena, sizeof other.arena, other.state, sizeof other.state) == RLX_OK);
    CHECK(rlx_set_run_times(ctx, &again) == RLX_OK && rlx_set_run_times(ctx, &again) == RLX_OK);
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && sum_of(ctx) == 13 && first_of(ctx) == 5);
    CHECK(rlx_take_snapshot(ctx, snapshots, sizeof snapshots) == RLX_OK);
    CHECK(again.begun == 1 && again.ended == 1 && rlx_sync(ctx) == RLX_OK && again.ended == 1);
    CHECK(second[0].end > second[0].given && rlx_set_run_times(ctx, NULL) == RLX_OK);
    CHECK(rlx_set_run_times(ctx, NULL) == RLX_OK);
    CHECK(sum_of(&copy) == 8);
    fill(&copy);
    CHECK(rlx_run(&copy) == RLX_OK && first_of(&copy) == 5 && sum_of(&copy) == 13 && sum_of(ctx) == 13);
    CHECK(rlx_close(&copy) == RLX_OK && rlx_close(&copy) == RLX_ERR_NULL);
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_reset(ctx) == RLX_OK && sum_of(ctx) == 0);
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_set_param(ctx, "w", ones, N) == RLX_OK);
    CHECK(rlx_feed_handle(ctx, "w", ORDERS_OUTPUT_next) == RLX_OK); // 5, and not what was set
    CHECK(rlx_read_handle(ctx, "w", y, sizeof y) == RLX_OK && y[0] == 5);
    CHECK(rlx_set_param(ctx, "w", ones, N) == RLX_OK && rlx_sync(ctx) == RLX_OK);
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_output(ctx, ORDERS_OUTPUT_next, "h") == RLX_OK);
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_drop_handle(ctx, "h") == RLX_OK && memory[0] == 3);
    CHECK(rlx_drop_handle(ctx, "h") == RLX_ERR_HANDLE && rlx_sync(ctx) == RLX_OK);
}

// Memory that is the context's own.
static void test_overlap(rlx_ctx *ctx)
{
    rlx_handle h;
    rlx_ctx copy;
    uint32_t done = 3;
    const void *in[4] = {NULL};
    in[ORDERS_INPUT_x] = x, in[ORDERS_INPUT_v] = twos, in[ORDERS_INPUT_u] = ones;
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK);
    REFUSES(rlx_make_handle(ctx, &h, "h", "v", one.state, 16), RLX_ERR_OVERLAP);
    REFUSES(rlx_take_snapshot(ctx, one.arena, sizeof one.arena), RLX_ERR_OVERLAP);
    REFUSES(rlx_run_pipelined(ctx, in, 1, one.arena, sizeof one.arena, &done), RLX_ERR_OVERLAP);
    CHECK(done == 0);
    REFUSES(rlx_clone(&copy, ctx, one.arena, sizeof one.arena, other.state, sizeof other.state),
            RLX_ERR_OVERLAP);
    REFUSES(rlx_clone(ctx, ctx, other.arena, sizeof other.arena, other.state, sizeof other.state),
            RLX_ERR_NULL);
    // A parameter that is set from itself, and an output that is read from where it is.
    CHECK(rlx_bind_handle(ctx, "w", rlx_handle_data(ctx, "w"), sizeof ones) == RLX_OK);
    CHECK(first_of(ctx) == 3);
}

// A context that ends while runs are in its queue: what they leave is where it was to be.
static void test_close(rlx_ctx *ctx)
{
    static float memory[N];
    rlx_handle h;
    rlx_error error;
    CHECK(rlx_set_error(ctx, &error) == RLX_OK);
    CHECK(rlx_make_handle(ctx, &h, "mine", "v", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_output(ctx, ORDERS_OUTPUT_next, "mine") == RLX_OK);
    fill(ctx);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_close(ctx) == RLX_OK && memory[0] == 3);
    test_none(ctx);
}

int main(void)
{
    static rlx_ctx none;
    rlx_ctx ctx;
    test_none(NULL);
    test_none(&none);
    memset(&one, 0xFF, sizeof one);
    CHECK(orders_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    test_early(&ctx);
    test_failed(&ctx);
    test_twice(&ctx);
    test_queue(&ctx);
    test_overlap(&ctx);
    test_close(&ctx);
    return failed;
}
