// SPDX-License-Identifier: Apache-2.0
// Sizes that the model computes, compiled for less than they can be (--dim hits=3 --dim steps=4): the bound
// is no size. What fits has the size and the values of the run; what does not gives RLX_ERR_RANGE and a
// message, and leaves the state as it is.
#include "bounds.h"
#include "check.h"
#include <math.h>

enum { ELEMENTS = 8, MOST_HITS = 3, MOST_STEPS = 4 };

static RLX_ALIGNED unsigned char arena[BOUNDS_ARENA_BYTES], state[BOUNDS_STATE_BYTES];

static int64_t size_of(const rlx_ctx *ctx, uint32_t slot)
{
    int64_t shape[RLX_MAX_RANK];
    return rlx_output_shape(ctx, slot, shape) == RLX_OK ? shape[0] : -1;
}

// The first `hits` elements that are above 0 are 1, 2, 3 ...
static rlx_status run(rlx_ctx *ctx, int hits, int64_t n, float *y, float *mean, float *range, int64_t *runs)
{
    float x[ELEMENTS];
    int i;
    for (i = 0; i < ELEMENTS; i++)
        x[i] = i < ELEMENTS - hits ? -1.0f : (float)(i - (ELEMENTS - hits) + 1);
    return bounds(ctx, x, &n, y, mean, range, runs);
}

static void expect(rlx_ctx *ctx, int hits, int64_t n, int64_t number)
{
    float y[ELEMENTS], mean, range[100], sum = 0;
    int64_t runs = 0, i;
    CHECK(run(ctx, hits, n, y, &mean, range, &runs) == RLX_OK);
    CHECK(runs == number && size_of(ctx, BOUNDS_OUTPUT_y) == hits && size_of(ctx, BOUNDS_OUTPUT_range) == n);
    CHECK(fabsf(mean - (float)(hits + 1) / 2) < 1e-6f);
    for (i = 0; i < n; i++)
        CHECK(range[i] == (float)(i + 1));
    for (i = 0; i < hits; i++)
        sum += y[i];
    CHECK(fabsf(sum - 1) < 1e-6f && (hits < 2 || fabsf(y[1] / y[0] - expf(1)) < 1e-4f));
}

static void check_text(const rlx_ctx *ctx, const char *message)
{
    static const char before[] = "a condition of the model does not hold: ";
    const char *const text = rlx_error_text(ctx);
    CHECK(strncmp(text, before, sizeof before - 1) == 0 && strcmp(text + sizeof before - 1, message) == 0);
}

// The run after it is number `number`.
static void refuse(rlx_ctx *ctx, int hits, int64_t n, const char *message, int64_t number)
{
    float y[ELEMENTS], mean, range[100];
    int64_t runs = -7;
    CHECK(run(ctx, hits, n, y, &mean, range, &runs) == RLX_ERR_RANGE && runs == -7);
    CHECK(rlx_failed_check(ctx) != NULL && strcmp(rlx_failed_check(ctx), message) == 0);
    check_text(ctx, message);
    expect(ctx, 1, 0, number); // which has no conditions that fail
    check_text(ctx, message);
}

// The first error of queued runs counts, and the runs behind it change nothing.
static void test_queue(rlx_ctx *ctx, int64_t number)
{
    static const int hits[6] = {2, 1, ELEMENTS, 1, MOST_HITS + 1, 2};
    static int64_t memory[1];
    rlx_handle last;
    const int64_t n = 1;
    int64_t runs = 0;
    float x[ELEMENTS];
    int run, i, first;
    CHECK(rlx_make_handle(ctx, &last, "last", "runs_next", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_output(ctx, BOUNDS_OUTPUT_runs_next, "last") == RLX_OK);
    for (first = 0; first < 6; first += 3) { // 2 of 6 runs, then 1 of 3, then none
        for (run = first; run < 6; run++) {
            for (i = 0; i < ELEMENTS; i++)
                x[i] = i < hits[run] ? 1.0f : -1.0f;
            memcpy(rlx_input(ctx, BOUNDS_INPUT_x), x, sizeof x);
            memcpy(rlx_input(ctx, BOUNDS_INPUT_n), &n, sizeof n);
            CHECK(rlx_commit(ctx) == RLX_OK);
        }
        CHECK(rlx_read_state(ctx, "none", &runs, sizeof runs) == RLX_ERR_NAME); // rlx_sync is not about this
        CHECK(rlx_sync(ctx) == RLX_ERR_RANGE && rlx_failed_run(ctx) == (first == 0 ? 2 : 1));
        check_text(ctx, "range: the size 'hits' is over 3");
        number += first == 0 ? 2 : 1;
        CHECK(rlx_read_state(ctx, "runs", &runs, sizeof runs) == RLX_OK && runs == number);
        CHECK(memory[0] == number); // what the last one that ended well has left
    }
    CHECK(rlx_drop_handle(ctx, "last") == RLX_OK);
    CHECK(rlx_sync(ctx) == RLX_OK && rlx_failed_run(ctx) == -1);
    expect(ctx, 2, 3, number + 1);
}

int main(void)
{
    const char *const too_many = "range: the size 'hits' is over 3";
    const char *const too_far = "range: the size 'steps' is over 4";
    rlx_ctx ctx;
    rlx_error error;
    CHECK(bounds_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    CHECK(rlx_set_error(&ctx, &error) == RLX_OK);
    expect(&ctx, 1, 0, 1);
    expect(&ctx, MOST_HITS, MOST_STEPS, 2);
    refuse(&ctx, MOST_HITS + 1, 2, too_many, 3);
    refuse(&ctx, ELEMENTS, 2, too_many, 4);
    refuse(&ctx, 2, MOST_STEPS + 1, too_far, 5);
    refuse(&ctx, 2, 100000, too_far, 6);
    expect(&ctx, 2, 3, 7);
    test_queue(&ctx, 7);
    return failed;
}
