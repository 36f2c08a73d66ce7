// SPDX-License-Identifier: Apache-2.0
// Runs in a queue (queue.json, compiled with --bucket n=2,40): of inputs that have 64 KB together at most,
// side by side or far from each other, and of larger ones. The state has a digit for each of them, in their
// order. On the libcuda of tests, what commits wait for is counted.
#include "check.h"
#include "queue.h"

#include "../gpu/fake_count.h"

enum { WIDTH = 4096, SMALL = 2, APART = 3, MOST = 40 };

static RLX_ALIGNED unsigned char arena[QUEUE_ARENA_BYTES], state[QUEUE_STATE_BYTES];

// A run that appends a digit, which is in x but for 1.
static void write_inputs(rlx_ctx *ctx, int64_t n, int digit)
{
    const float shift = 1;
    int64_t i;
    float *x;
    if (rlx_input_bytes(ctx, QUEUE_INPUT_x) != (size_t)n * WIDTH * sizeof *x)
        CHECK(queue_set_symbol(ctx, QUEUE_SYM_n, n) == RLX_OK);
    x = (float *)rlx_input(ctx, QUEUE_INPUT_x);
    for (i = 0; i < n * WIDTH; i++)
        x[i] = (float)digit - shift;
    memcpy(rlx_input(ctx, QUEUE_INPUT_shift), &shift, sizeof shift);
}

static void commit(rlx_ctx *ctx, int64_t n, int digit)
{
    write_inputs(ctx, n, digit);
    CHECK(rlx_commit(ctx) == RLX_OK);
}

static float digits_of(rlx_ctx *ctx)
{
    float digits = -1;
    CHECK(rlx_read_state(ctx, "digits", &digits, sizeof digits) == RLX_OK);
    return digits;
}

// The outputs are those of the last run.
static int has_outputs(const rlx_ctx *ctx, int64_t n, int digit, float before)
{
    const float *const twice = (const float *)rlx_output(ctx, QUEUE_OUTPUT_twice);
    int64_t i;
    int ok = *(const float *)rlx_output(ctx, QUEUE_OUTPUT_seen) == before;
    for (i = 0; i < n * WIDTH; i++)
        ok = ok && twice[i] == 2.0f * (float)(digit - 1);
    return ok;
}

// Commits runs of any sizes, in any mixture.
static void test_order(rlx_ctx *ctx, const int64_t *sizes)
{
    int run;
    CHECK(rlx_reset(ctx) == RLX_OK);
    for (run = 0; run < 6; run++)
        commit(ctx, sizes[run], run + 1);
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_failed_run(ctx) == -1);
    CHECK(has_outputs(ctx, sizes[5], 6, 12345) && digits_of(ctx) == 123456);
}

// After runs that were committed, one by itself, and others in their turn.
static void test_others(rlx_ctx *ctx)
{
    static RLX_ALIGNED unsigned char snapshots[2 * QUEUE_SNAPSHOT_BYTES];
    static float ones[SMALL * WIDTH];
    const float shift = 1;
    const void *inputs[4];
    uint32_t done = 0;
    CHECK(rlx_reset(ctx) == RLX_OK);
    commit(ctx, SMALL, 1);
    commit(ctx, SMALL, 2);
    write_inputs(ctx, SMALL, 3);
    CHECK(rlx_run(ctx) == RLX_OK && has_outputs(ctx, SMALL, 3, 12));
    commit(ctx, SMALL, 4);
    CHECK(rlx_sync(ctx) == RLX_OK && has_outputs(ctx, SMALL, 4, 123));
    inputs[0] = inputs[2] = ones;
    inputs[1] = inputs[3] = &shift;
    CHECK(rlx_run_pipelined(ctx, inputs, 2, snapshots, sizeof snapshots, &done) == RLX_OK && done == 2);
    commit(ctx, SMALL, 5);
    while (!rlx_is_done(ctx))
        continue;
    CHECK(rlx_sync(ctx) == RLX_OK && digits_of(ctx) == 1234115);
}

// Calls that wait, or ask whether there is something to wait for.
static long count_waits(void)
{
    return fake_count_of("cuStreamSynchronize") + fake_count_of("cuEventSynchronize") +
           fake_count_of("cuStreamQuery") + fake_count_of("cuEventQuery") + fake_count_of("pageable");
}

// Nothing runs on the driver of tests before somebody waits.
static void test_waits(rlx_ctx *ctx, int64_t n)
{
    long waits, launches, of_one, events;
    write_inputs(ctx, n, 1);
    launches = fake_count_of("launch");
    CHECK(rlx_run(ctx) == RLX_OK);
    of_one = fake_count_of("launch") - launches;
    CHECK(rlx_reset(ctx) == RLX_OK && rlx_sync(ctx) == RLX_OK);
    waits = count_waits();
    launches = fake_count_of("launch");
    events = fake_count_of("cuEventSynchronize");
    commit(ctx, n, 1);
    commit(ctx, n, 2);
    CHECK(count_waits() == waits && fake_count_of("launch") == launches);
    commit(ctx, n, 3); // waits for the set of the first run, which has ended then, and no other
    CHECK(fake_count_of("cuEventSynchronize") == events + 1 && count_waits() == waits + 1);
    CHECK(fake_count_of("launch") == launches + of_one);
    commit(ctx, n, 4);
    CHECK(fake_count_of("cuEventSynchronize") == events + 2 && count_waits() == waits + 2);
    CHECK(fake_count_of("launch") == launches + 2 * of_one);
    CHECK(rlx_sync(ctx) == RLX_OK && digits_of(ctx) == 1234);
}

// One by one: neither an event, nor another set of inputs.
static void test_single(rlx_ctx *ctx)
{
    long waits, calls = 0;
    int i;
    CHECK(rlx_reset(ctx) == RLX_OK);
    for (i = 1; i <= 3; i++) {
        write_inputs(ctx, SMALL, i);
        waits = count_waits();
        CHECK(rlx_commit(ctx) == RLX_OK && count_waits() == waits);
        CHECK(rlx_sync(ctx) == RLX_OK && count_waits() == waits + 1);
        if (i == 1)
            calls = fake_count_of("cuEventRecord") + fake_count_of("cuGraphExecKernelNodeSetParams_v2");
    }
    CHECK(fake_count_of("cuEventRecord") + fake_count_of("cuGraphExecKernelNodeSetParams_v2") == calls);
    CHECK(digits_of(ctx) == 123);
}

// --- handles of the program -----------------------------------------------------------------------

typedef struct Linked { // what a run of a linked model has and leaves
    float x, shift, seen, digits;
} Linked;

static void step(Linked *l)
{
    const float digit = l->x + l->shift;
    l->seen = l->shift = l->digits;
    l->digits = l->digits * 10 + digit;
    l->x *= 2;
}

// All inputs come from handles, which take outputs: x doubles, and shift is the state before. Runs take them
// from each other while they are under way.
static void test_linked(rlx_ctx *ctx, int64_t n, int waits_for_inputs)
{
    static float memory[MOST * WIDTH], got[MOST * WIDTH];
    const size_t bytes = (size_t)n * WIDTH * sizeof *memory;
    Linked want = {1, 1, 0, 0};
    float shift[1] = {1}, seen = -1;
    rlx_handle x, s;
    long waits = 0;
    int i, run;
    CHECK(rlx_reset(ctx) == RLX_OK && queue_set_symbol(ctx, QUEUE_SYM_n, n) == RLX_OK);
    CHECK(rlx_make_handle(ctx, &x, "x", "x", memory, MOST * WIDTH * sizeof *memory) == RLX_OK);
    CHECK(rlx_make_handle(ctx, &s, "s", "shift", shift, sizeof shift) == RLX_OK);
    for (i = 0; i < MOST * WIDTH; i++)
        got[i] = 1;
    CHECK(rlx_bind_handle(ctx, "x", got, bytes) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "s", got, sizeof shift) == RLX_OK);
    CHECK(rlx_link_input(ctx, QUEUE_INPUT_x, "x") == RLX_OK);
    CHECK(rlx_link_output(ctx, QUEUE_OUTPUT_twice, "x") == RLX_OK);
    CHECK(rlx_link_input(ctx, QUEUE_INPUT_shift, "s") == RLX_OK);
    CHECK(rlx_link_output(ctx, QUEUE_OUTPUT_seen, "s") == RLX_OK);
    CHECK(rlx_sync(ctx) == RLX_OK);
    waits = count_waits();
    for (run = 0; run < 4; run++) {
        CHECK(rlx_commit(ctx) == RLX_OK);
        CHECK(fake_count_of("launch") < 0 || waits_for_inputs ||
              count_waits() == waits + (run < 2 ? 0 : run - 1));
        step(&want);
    }
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_read_handle(ctx, "x", got, bytes) == RLX_OK);
    for (i = 0; i < (int)n * WIDTH; i++)
        CHECK(got[i] == want.x);
    CHECK(shift[0] == want.shift && digits_of(ctx) == want.digits);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_commit(ctx) == RLX_OK); // and what reads them, waits
    step(&want), step(&want);
    CHECK(rlx_read_output(ctx, QUEUE_OUTPUT_seen, &seen, sizeof seen) == RLX_OK && seen == want.seen);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_run(ctx) == RLX_OK);
    step(&want), step(&want);
    CHECK(memory[0] == want.x && shift[0] == want.shift);
    CHECK(rlx_commit(ctx) == RLX_OK && queue_set_symbol(ctx, QUEUE_SYM_n, n) == RLX_OK);
    step(&want);
    CHECK(memory[0] == want.x && rlx_commit(ctx) == RLX_OK);
    step(&want);
    CHECK(rlx_drop_handle(ctx, "s") == RLX_OK && shift[0] == want.shift);
    CHECK(rlx_drop_handle(ctx, "x") == RLX_OK && memory[0] == want.x && rlx_sync(ctx) == RLX_OK);
}

// --- times of runs --------------------------------------------------------------------------------

static uint64_t ticks;

static uint64_t tick(void *user)
{
    (void)user;
    return ++ticks;
}

static void check_times(const rlx_run_time *list, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        CHECK(list[i].status == RLX_OK && list[i].begin < list[i].given && list[i].given < list[i].end);
        CHECK(i == 0 || (list[i].begin > list[i - 1].begin && list[i].end > list[i - 1].end));
    }
}

// Times are noted, and commits wait for no more than without.
static void test_times(rlx_ctx *ctx, int64_t n)
{
    const int is_queued = fake_count_of("launch") >= 0 && n <= SMALL;
    rlx_run_time list[6];
    rlx_run_times times;
    long events, streams;
    int run;
    memset(&times, 0, sizeof times);
    memset(list, 0, sizeof list);
    times.clock = tick, times.list = list, times.n = 6;
    CHECK(rlx_reset(ctx) == RLX_OK && rlx_sync(ctx) == RLX_OK);
    CHECK(rlx_set_run_times(ctx, &times) == RLX_OK);
    events = fake_count_of("cuEventSynchronize"), streams = fake_count_of("cuStreamSynchronize");
    for (run = 0; run < 4; run++) {
        commit(ctx, n, run + 1);
        CHECK(times.begun == (uint64_t)run + 1 && times.ended <= times.begun);
        CHECK(!is_queued || run < 2 || times.ended >= (uint64_t)run - 1); // the first of three was waited for
    }
    CHECK(!is_queued || fake_count_of("cuEventSynchronize") == events + 2);
    CHECK(!is_queued || fake_count_of("cuStreamSynchronize") == streams);
    CHECK(rlx_sync(ctx) == RLX_OK && digits_of(ctx) == 1234 && times.ended == 4);
    check_times(list, 4);
    commit(ctx, n, 5);
    while (!rlx_is_done(ctx))
        continue;
    CHECK(times.ended == 5); // it was seen
    write_inputs(ctx, n, 6);
    CHECK(rlx_run(ctx) == RLX_OK && rlx_sync(ctx) == RLX_OK && digits_of(ctx) == 123456 && times.ended == 6);
    check_times(list, 6);
    commit(ctx, n, 7);
    CHECK(rlx_set_run_times(ctx, NULL) == RLX_OK && rlx_sync(ctx) == RLX_OK);
    CHECK(times.ended == (ctx->model->device == NULL ? 7 : 6)); // the last one was under way
}

int main(void)
{
    const int64_t small[6] = {1, 2, 1, 1, 2, 2}, apart[6] = {3, 3, 3, 3, 3, 3}, mixed[6] = {1, 8, 2, 3, 8, 1};
    rlx_ctx ctx;
    memset(arena, 0xFF, sizeof arena);
    CHECK(queue_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    test_order(&ctx, small);
    test_order(&ctx, apart);
    test_order(&ctx, mixed);
    test_others(&ctx);
    test_linked(&ctx, 1, 0);
    test_linked(&ctx, SMALL, 0);
    test_linked(&ctx, APART, 0);
    test_linked(&ctx, 8, 1);
    test_times(&ctx, SMALL);
    test_times(&ctx, 8);
    if (fake_count_of("launch") >= 0) {
        test_waits(&ctx, SMALL);
        test_waits(&ctx, APART);
        test_single(&ctx);
    }
    commit(&ctx, SMALL, 1); // a run that is under way does not outlive its context
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
