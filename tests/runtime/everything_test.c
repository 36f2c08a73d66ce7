// SPDX-License-Identifier: Apache-2.0
// Every function of a generated header works without memory of its own: the allocator aborts. The functions
// that ran are noted (built with -finstrument-functions) and printed as distances from main;
// check_everything.py knows all that there are, so a new one has to be called here. Only the system's
// pthread_create and pthread_join may allocate.
#include "check.h"
#include "everything.h"
#include <errno.h>
#include <stdio.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))

// --- the allocator --------------------------------------------------------------------------------

static int is_forbidden;

QUIET static void *give(size_t bytes)
{
    static RLX_ALIGNED unsigned char memory[1 << 20];
    static size_t used;
    void *p;
    bytes = (bytes + 63) / 64 * 64;
    if (__atomic_load_n(&is_forbidden, __ATOMIC_SEQ_CST) || bytes > sizeof memory)
        __builtin_trap();
    p = memory + __atomic_fetch_add(&used, bytes, __ATOMIC_SEQ_CST);
    if (used > sizeof memory)
        __builtin_trap();
    return p;
}

void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *p, size_t bytes);
void free(void *p);
void *aligned_alloc(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);
int posix_memalign(void **p, size_t alignment, size_t bytes);

QUIET void *malloc(size_t bytes)
{
    return give(bytes);
}

QUIET void *calloc(size_t n, size_t bytes)
{
    return give(n * bytes); // never given twice, so zeros
}

QUIET void *realloc(void *p, size_t bytes)
{
    if (p != NULL)
        __builtin_trap();
    return give(bytes);
}

QUIET void free(void *p)
{
    if (p != NULL && __atomic_load_n(&is_forbidden, __ATOMIC_SEQ_CST))
        __builtin_trap();
}

QUIET void *memalign(size_t alignment, size_t bytes)
{
    if (alignment > RLX_ALIGNMENT)
        __builtin_trap();
    return give(bytes);
}

QUIET void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

QUIET int posix_memalign(void **p, size_t alignment, size_t bytes)
{
    *p = memalign(alignment, bytes);
    return 0;
}

// --- functions that ran -----------------------------------------------------------------------------

enum { MAX_SEEN = 1 << 14 };
static void *seen[MAX_SEEN];

QUIET void __cyg_profile_func_enter(void *function, void *site);
QUIET void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
    size_t i = ((uintptr_t)function >> 2) % MAX_SEEN;
    (void)site;
    for (;; i = (i + 1) % MAX_SEEN) {
        void *there = __atomic_load_n(&seen[i], __ATOMIC_RELAXED);
        if (there == function)
            return;
        if (there == NULL &&
            __atomic_compare_exchange_n(&seen[i], &there, function, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
}

// --- the calls --------------------------------------------------------------------------------------

enum { ROWS = 64, WIDTH = 128, COLUMNS = 96 };

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[EVERYTHING_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[EVERYTHING_STATE_BYTES];
} Blocks;

static Blocks first, second;
static rlx_pool pool;
static float x[ROWS * WIDTH], w[WIDTH * COLUMNS], scale[COLUMNS], y[ROWS * COLUMNS], want[ROWS * COLUMNS],
    total[COLUMNS];
static const uint8_t yes[1] = {1}, no[1] = {0};
static RLX_ALIGNED unsigned char snapshots[2 * EVERYTHING_SNAPSHOT_BYTES];
static uint64_t ticks[EVERYTHING_KERNELS];
static RLX_ALIGNED unsigned char experts[EVERYTHING_MOE_BYTES], slots[EVERYTHING_MOE_POOL_BYTES];

static void fill(float *to, size_t n, float step)
{
    size_t i;
    for (i = 0; i < n; i++)
        to[i] = (float)(i % 23) * step - 0.1f;
}

static void fill_slots(const rlx_ctx *ctx, const uint8_t *flag)
{
    memcpy(rlx_input(ctx, EVERYTHING_INPUT_x), x, rlx_input_bytes(ctx, EVERYTHING_INPUT_x));
    memcpy(rlx_input(ctx, EVERYTHING_INPUT_flag), flag, 1);
}

// A param from other types than its own.
static void set_in_all_ways(rlx_ctx *ctx)
{
    static const int8_t bytes[WIDTH * COLUMNS];
    static const unsigned char blocks[WIDTH * COLUMNS / 32 * 18];
    static const uint16_t halves[WIDTH * COLUMNS];
    const float one = 1;
    CHECK(rlx_set_param_typed(ctx, "w", halves, sizeof halves, RLX_F16) == RLX_OK);
    CHECK(rlx_set_param_scaled(ctx, "w", bytes, WIDTH * COLUMNS, &one, 1, 0) == RLX_OK);
    CHECK(rlx_set_param_blocks(ctx, "w", blocks, sizeof blocks, RLX_Q4_0) == RLX_OK);
    CHECK(rlx_set_param_range(ctx, "w", 4, &one, sizeof one) == RLX_OK);
}

static void call_core(rlx_ctx *ctx)
{
    int64_t shape[RLX_MAX_RANK];
    float state[COLUMNS];
    CHECK(rlx_missing_param(ctx) != NULL);
    set_in_all_ways(ctx);
    CHECK(rlx_set_param_bytes(ctx, "w", w, sizeof w) == RLX_OK);
    CHECK(rlx_set_param(ctx, "w", w, WIDTH * COLUMNS) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "scale", scale, sizeof scale) == RLX_OK);
    CHECK(everything(ctx, x, yes, want, total) == RLX_OK);
    CHECK(everything(ctx, x, no, y, total) == RLX_ERR_VALUE);
    CHECK(rlx_failed_check(ctx) != NULL && rlx_status_text(RLX_ERR_VALUE) != NULL);
    CHECK(rlx_input_shape(ctx, 0, shape) == RLX_OK && shape[0] == ROWS);
    CHECK(rlx_output_shape(ctx, EVERYTHING_OUTPUT_y, shape) == RLX_OK && shape[1] == COLUMNS);
    CHECK(rlx_output_bytes(ctx, EVERYTHING_OUTPUT_y) == sizeof y && rlx_output_room(ctx, 0) == sizeof y);
    CHECK(rlx_read_state(ctx, "sum", state, sizeof state) == RLX_OK);
    CHECK(rlx_write_state(ctx, "sum", state, sizeof state) == RLX_OK);
    CHECK(rlx_reset(ctx) == RLX_OK);
}

static void call_errors(rlx_ctx *ctx)
{
    static rlx_error error;
    rlx_typed one;
    one.name = "x", one.data = x, one.bytes = sizeof x, one.dtype = RLX_I8;
    CHECK(rlx_set_error(ctx, &error) == RLX_OK && rlx_error_text(ctx)[0] == '\0');
    CHECK(rlx_set_symbol(ctx, 0, 1000000) == RLX_ERR_RANGE && strstr(rlx_error_text(ctx), "1000000") != NULL);
    CHECK(rlx_run_named(ctx, NULL, 1, NULL, 0) == RLX_ERR_NULL && rlx_error_text(ctx)[0] != '\0');
    CHECK(rlx_set_param_typed(ctx, "w", w, 1, RLX_I64) == RLX_ERR_DTYPE);
    CHECK(strstr(rlx_error_text(ctx), "i64") != NULL);
    CHECK(rlx_set_param(ctx, "w", w, 1) == RLX_ERR_SIZE && strstr(rlx_error_text(ctx), "'w'") != NULL);
    CHECK(rlx_set_active_extent(ctx, 0, 2, 1) == RLX_ERR_RANGE);
    CHECK(rlx_run_typed(ctx, &one, 1, NULL, 0) == RLX_ERR_INPUT);
    CHECK(strstr(rlx_error_text(ctx), "'flag'") != NULL);
    CHECK(rlx_set_error(ctx, NULL) == RLX_OK);
    CHECK(rlx_init_text(RLX_ERR_NULL, ctx->model, NULL, 0, NULL, 0, NULL, 0, &error)[0] != '\0');
}

static void call_runs(rlx_ctx *ctx)
{
    rlx_sized sized[2];
    const int64_t row[1] = {3};
    rlx_named in[2];
    rlx_named_out out;
    const void *inputs[4];
    rlx_slot slots[2];
    uint32_t done = 0;
    int64_t shape[RLX_MAX_RANK];
    inputs[0] = inputs[2] = x;
    inputs[1] = inputs[3] = yes;
    in[0].name = "flag", in[0].data = yes, in[0].bytes = 1; // not in the model's order
    in[1].name = "x", in[1].data = x, in[1].bytes = sizeof x;
    out.name = "y", out.data = y, out.bytes = sizeof y;
    CHECK(rlx_run_named(ctx, in, 2, &out, 1) == RLX_OK);
    CHECK(rlx_run_slots(ctx, inputs, slots) == RLX_OK && slots[0].bytes == sizeof y);
    CHECK(rlx_run_pipelined(ctx, inputs, 2, snapshots, sizeof snapshots, &done) == RLX_OK && done == 2);
    CHECK(rlx_snapshot_output(ctx->model, snapshots, 0, shape) != NULL && shape[0] == ROWS);
    CHECK(rlx_snapshot_bytes(ctx->model) == EVERYTHING_SNAPSHOT_BYTES);
    fill_slots(ctx, yes);
    CHECK(rlx_run(ctx) == RLX_OK && rlx_output(ctx, 0) != NULL);
    CHECK(rlx_read_output(ctx, 0, y, sizeof y) == RLX_OK);
    CHECK(rlx_read_output_row(ctx, 0, 3, y, COLUMNS * sizeof *y) == RLX_OK);
    CHECK(rlx_read_output_at(ctx, 0, row, 1, y, COLUMNS * sizeof *y) == RLX_OK);
    CHECK(rlx_fetch_output(ctx, 0, 0, sizeof *y) == RLX_OK);
    sized[0].data = x, sized[0].bytes = sizeof x, sized[1].data = yes, sized[1].bytes = 1;
    CHECK(rlx_run_sized(ctx, sized, 2, slots) == RLX_OK && rlx_expect_inputs(ctx, 0) == RLX_OK);
    fill_slots(ctx, yes);
    CHECK(rlx_find_set(ctx->model, "some") == 0 && rlx_run_set(ctx, EVERYTHING_SET_some) == RLX_OK);
    fill_slots(ctx, yes);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_is_done(ctx) && rlx_commit(ctx) == RLX_OK);
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_failed_run(ctx) == -1);
    CHECK(rlx_weight_bytes(ctx->model) == EVERYTHING_WEIGHT_BYTES);
}

static void call_typed(rlx_ctx *ctx)
{
    static double x64[ROWS * WIDTH], y64[ROWS * COLUMNS];
    static uint16_t y16[ROWS * COLUMNS];
    static int8_t y8[ROWS * COLUMNS];
    rlx_typed in[2];
    rlx_typed_out out;
    size_t i;
    for (i = 0; i < ROWS * WIDTH; i++)
        x64[i] = (double)x[i];
    in[0].name = "x", in[0].data = x64, in[0].bytes = sizeof x64, in[0].dtype = RLX_F64;
    in[1].name = "flag", in[1].data = yes, in[1].bytes = 1, in[1].dtype = RLX_BOOL;
    out.name = "y", out.data = y64, out.bytes = sizeof y64, out.dtype = RLX_F64;
    CHECK(rlx_run_typed(ctx, in, 2, &out, 1) == RLX_OK);
    out.data = y16, out.bytes = sizeof y16, out.dtype = RLX_F16;
    CHECK(rlx_run_typed(ctx, in, 2, &out, 1) == RLX_OK);
    out.data = y8, out.bytes = sizeof y8, out.dtype = RLX_I8;
    CHECK(rlx_run_typed(ctx, in, 2, &out, 1) == RLX_OK);
    out.name = "next_scale", out.data = y64, out.bytes = COLUMNS * sizeof *y64, out.dtype = RLX_F64;
    CHECK(rlx_run_typed(ctx, in, 2, &out, 1) == RLX_OK);
    CHECK(rlx_convert(y64, RLX_F64, y16, RLX_F16, COLUMNS) == RLX_OK);
}

static uint64_t count_up(void *user)
{
    return ++*(uint64_t *)user;
}

static void call_look(rlx_ctx *ctx)
{
    uint64_t clock = 0;
    size_t bytes = 0;
    int in_state = 0;
    rlx_profile profile;
    memset(&profile, 0, sizeof profile);
    profile.clock = count_up;
    profile.user = &clock;
    profile.ticks = ticks;
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK);
    CHECK(everything(ctx, x, yes, y, total) == RLX_OK && profile.runs == 1 && clock > 0);
    CHECK(rlx_set_profile(ctx, NULL) == RLX_OK && rlx_set_device_times(ctx, NULL, 0) == RLX_OK);
    CHECK(rlx_find_value(ctx->model, "inner", &in_state) != NULL && rlx_value_data(ctx, "inner") != NULL);
    (void)rlx_scratch(ctx, &bytes);
}

static void call_handles(rlx_ctx *ctx)
{
    rlx_feed feed;
    float got[COLUMNS];
    feed.handle = "sum";
    feed.output = EVERYTHING_OUTPUT_total;
    CHECK(rlx_has_handle(ctx, "scale") && rlx_handle_data(ctx, "scale") != NULL);
    CHECK(rlx_read_handle(ctx, "scale", got, sizeof got) == RLX_OK);
    CHECK(rlx_feed_handle(ctx, "sum", EVERYTHING_OUTPUT_total) == RLX_OK);
    fill_slots(ctx, yes);
    CHECK(rlx_run_feed(ctx, &feed, 1) == RLX_OK);
    CHECK(rlx_clear_handle(ctx, "scale") == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "scale", scale, sizeof scale) == RLX_OK);
}

static int is_as_alone(rlx_ctx *ctx)
{
    return rlx_bind_handle(ctx, "scale", scale, sizeof scale) == RLX_OK &&
           everything(ctx, x, yes, y, total) == RLX_OK && memcmp(y, want, sizeof y) == 0;
}

static void call_times(rlx_ctx *ctx)
{
    uint64_t clock = 0;
    rlx_run_time one;
    rlx_run_times times;
    memset(&times, 0, sizeof times);
    times.clock = count_up, times.user = &clock, times.list = &one, times.n = 1;
    CHECK(rlx_set_run_times(ctx, &times) == RLX_OK && is_as_alone(ctx) && times.ended == 1);
    CHECK(one.end > one.begin && rlx_set_run_times(ctx, NULL) == RLX_OK);
}

static void call_devices(rlx_ctx *ctx)
{
    rlx_device_info info;
    uint32_t n = 0;
    CHECK(rlx_devices(ctx->model, &info, 1, &n) == RLX_OK && n == 1 && rlx_is_available(ctx->model));
    CHECK(rlx_context_device(ctx, &info) == RLX_OK && info.kind == RLX_DEVICE_CPU);
}

static void call_links(rlx_ctx *ctx)
{
    static float memory[COLUMNS];
    static rlx_error error;
    rlx_handle h;
    int64_t shape[RLX_MAX_RANK];
    CHECK(rlx_read_output(ctx, EVERYTHING_OUTPUT_next_scale, memory, sizeof memory) == RLX_OK);
    CHECK(rlx_handle_room(ctx, "flag") == 1);
    CHECK(rlx_make_handle(ctx, &h, "t", "total", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_output(ctx, EVERYTHING_OUTPUT_total, "t") == RLX_OK && is_as_alone(ctx));
    CHECK(rlx_handle_shape(ctx, "t", shape) == RLX_OK && shape[0] == COLUMNS);
    CHECK(rlx_bind_handle(ctx, "t", total, sizeof total) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "t", total, sizeof total) == RLX_OK && rlx_unlink_output(ctx, "t") == RLX_OK);
    CHECK(rlx_drop_handle(ctx, "t") == RLX_OK);
    CHECK(rlx_make_handle(ctx, &h, "f", "flag", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "f", yes, 1) == RLX_OK && rlx_link_input(ctx, 1, "f") == RLX_OK);
    memcpy(rlx_input(ctx, 0), x, sizeof x);
    CHECK(rlx_run(ctx) == RLX_OK);
    CHECK(rlx_set_error(ctx, &error) == RLX_OK && rlx_clear_handle(ctx, "f") == RLX_OK);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_sync(ctx) == RLX_ERR_HANDLE);
    CHECK(strstr(rlx_error_text(ctx), "'f'") != NULL && rlx_set_error(ctx, NULL) == RLX_OK);
    CHECK(rlx_unlink_input(ctx, "f") == RLX_OK && rlx_drop_handle(ctx, "f") == RLX_OK);
}

static void call_symbols(rlx_ctx *ctx)
{
    const int64_t five = 5;
    int64_t got = 0;
    CHECK(rlx_find_symbol(ctx->model, "rows") == 0 && rlx_check_symbol(ctx, 0, five) == RLX_OK);
    CHECK(everything_set_symbol(ctx, EVERYTHING_SYM_rows, five) == RLX_OK);
    CHECK(everything(ctx, x, yes, y, total) == RLX_OK);
    CHECK(rlx_get_symbol(ctx, 0, &got) == RLX_OK && got == five);
    got = ROWS;
    CHECK(rlx_set_symbols(ctx, &got, 1) == RLX_OK);
    CHECK(rlx_dim_floor(-3, 2) == -2 && rlx_dim_mod(-3, 2) == 1);
    CHECK(rlx_dim_min(1, 2) == 1 && rlx_dim_max(1, 2) == 2);
}

static void call_buckets(rlx_ctx *ctx)
{
    const int64_t seven = 7, all = ROWS;
    const void *inputs[2];
    void *outputs[2];
    inputs[0] = x;
    inputs[1] = yes;
    outputs[0] = y;
    outputs[1] = NULL;
    CHECK(rlx_bucket(ctx) == 1);
    CHECK(rlx_run_padded(ctx, &seven, 1, inputs, outputs) == RLX_OK && rlx_bucket(ctx) == 0);
    CHECK(rlx_set_active_extent(ctx, EVERYTHING_SYM_rows, seven, ROWS) == RLX_OK && rlx_bucket(ctx) == 1);
    CHECK(everything(ctx, x, yes, y, total) == RLX_OK);
    CHECK(rlx_set_symbols(ctx, &all, 1) == RLX_OK && rlx_symbol_value(ctx, 0) == ROWS);
}

// Until the threads of the pool have fallen asleep; on a busy machine that takes a while.
static void let_sleep(void)
{
    int i;
    struct timespec rest;
    rest.tv_sec = 0;
    rest.tv_nsec = 20000000;
    for (i = 0; i < 500 && __atomic_load_n(&pool.n_sleeping, __ATOMIC_SEQ_CST) + 1 < pool.parts; i++)
        nanosleep(&rest, NULL);
}

static void allow(int is_allowed)
{
    __atomic_store_n(&is_forbidden, !is_allowed, __ATOMIC_SEQ_CST);
}

static void in_order(void *user, void (*task)(void *arg, size_t part), void *arg, size_t parts)
{
    size_t i;
    (void)user;
    for (i = 0; i < parts; i++)
        task(arg, i);
}

// Runs need the experts' weights; what is in memory changes nothing.
static void call_experts(rlx_ctx *ctx)
{
    static const unsigned char all[1] = {15};
    rlx_moe_stats stats;
    size_t n = 0;
    CHECK(rlx_set_moe_pool(ctx, slots, sizeof slots) == RLX_OK);
    CHECK(rlx_moe_load(ctx, 0, 2, 0) == RLX_OK && rlx_moe_load(ctx, 0, 0, 1) == RLX_OK);
    CHECK(rlx_set_moe_resident(ctx, NULL, 0) == RLX_OK);
    CHECK(rlx_set_moe_resident_layer(ctx, 0, all, sizeof all) == RLX_OK);
    CHECK(rlx_moe_capture(ctx, 1) == RLX_OK && rlx_moe_reset_stats(ctx) == RLX_OK);
    CHECK(is_as_alone(ctx));
    CHECK(rlx_moe_choices(ctx, 0, &n) != NULL && n == 2 * ROWS);
    CHECK(rlx_moe_get_stats(ctx, 0, &stats) == RLX_OK && stats.tokens == ROWS && stats.resident > 0);
}

static void call_threads(rlx_ctx *ctx)
{
    int i;
    CHECK(rlx_set_parallel_for(ctx, 2, in_order, NULL) == RLX_OK && is_as_alone(ctx));
    CHECK(rlx_set_parallel_for(ctx, 0, NULL, NULL) == RLX_OK && is_as_alone(ctx));
    for (i = 0; i < 2; i++) {
        allow(1);
        if (i == 0)
            CHECK(everything_threads_start(ctx, &pool) ==
                  RLX_OK); // of one thread where there is one processor
        else
            CHECK(rlx_threads_start(ctx, &pool, 2) == RLX_OK);
        let_sleep(); // until the new thread has made what it needs, too
        allow(0);
        CHECK(is_as_alone(ctx) && is_as_alone(ctx));
        let_sleep();
        CHECK(is_as_alone(ctx));
        allow(1);
        everything_threads_stop(ctx);
        allow(0);
    }
}

static int read_experts(void)
{
    FILE *f = fopen("everything.experts", "rb");
    const size_t n = f != NULL ? fread(experts, 1, sizeof experts, f) : 0;
    if (f != NULL)
        fclose(f);
    return n == sizeof experts;
}

static int counts_every_byte(void)
{
    unsigned char bytes[100] = {0};
    const uint64_t none = rlx_hash_loaded(bytes, sizeof bytes);
    int i, n = 0;
    for (i = 0; i < (int)sizeof bytes; i++) {
        bytes[i] = 1;
        n += rlx_hash_loaded(bytes, sizeof bytes) != none;
        bytes[i] = 0;
    }
    return n == (int)sizeof bytes;
}

int main(void)
{
    rlx_ctx ctx, copy;
    size_t i;
    CHECK(read_experts());
    fill(x, ROWS * WIDTH, 0.01f);
    fill(w, WIDTH * COLUMNS, 0.02f);
    fill(scale, COLUMNS, 0.5f);
    allow(0);
    CHECK(everything_init(&ctx, first.arena, sizeof first.arena, first.state, sizeof first.state) == RLX_OK);
    CHECK(rlx_check_moe_source(&everything_model, experts, sizeof experts) == RLX_OK);
    CHECK(rlx_set_moe_source(&ctx, experts, sizeof experts) == RLX_OK);
    call_core(&ctx);
    call_experts(&ctx);
    call_errors(&ctx);
    call_runs(&ctx);
    call_typed(&ctx);
    call_look(&ctx);
    call_handles(&ctx);
    call_links(&ctx);
    call_devices(&ctx);
    call_times(&ctx);
    call_symbols(&ctx);
    call_buckets(&ctx);
    call_threads(&ctx);
    CHECK(rlx_clone(&copy, &ctx, second.arena, sizeof second.arena, second.state, sizeof second.state) ==
              RLX_OK &&
          is_as_alone(&copy));
    CHECK(rlx_check_weights(&everything_model, everything_model.weights, 0) == RLX_ERR_WEIGHTS);
    CHECK(rlx_init_on(&copy, &everything_model, 7, second.arena, sizeof second.arena, second.state,
                      sizeof second.state, NULL, 0) == RLX_ERR_RANGE);
    CHECK(rlx_hash("ab", 1) != rlx_hash("ab", 2) && counts_every_byte());
    CHECK(rlx_close(&copy) == RLX_OK && copy.model == NULL && rlx_close(&copy) == RLX_ERR_NULL);
    CHECK(everything_static() != NULL);
    allow(1);
    for (i = 0; i < MAX_SEEN; i++)
        if (seen[i] != NULL)
            printf("%lld\n", (long long)((intptr_t)seen[i] - (intptr_t)main));
    return failed;
}
