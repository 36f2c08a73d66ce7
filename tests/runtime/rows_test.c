// SPDX-License-Identifier: Apache-2.0
// An input that comes row by row (rows.json with --stream-input x), and handles of the program beside it.
// These give their inputs with the first row, as a program would, and not when the run ends.
#include "check.h"
#include "rows.h"

enum { ROWS = ROWS_ROWS_x, WIDTH = ROWS_ROW_x, OUTPUTS = 2 * ROWS * WIDTH };

static struct {
    RLX_ALIGNED unsigned char arena[ROWS_ARENA_BYTES];
} one, before;

static float x[ROWS * WIDTH], want[OUTPUTS];
static const float gain[1] = {2}, other[1] = {5};

static void feed(rlx_ctx *ctx, int from, int to)
{
    for (; from < to; from++)
        CHECK(rlx_feed_rows(ctx, x + from * WIDTH, 1) == RLX_OK);
}

static int is_right(rlx_ctx *ctx)
{
    return rlx_run(ctx) == RLX_OK && memcmp(rlx_output(ctx, ROWS_OUTPUT_y), want, sizeof want) == 0;
}

static void set_gain(rlx_ctx *ctx, const float *value)
{
    memcpy(rlx_input(ctx, ROWS_INPUT_gain), value, sizeof gain);
}

// The program gives all: row by row, some rows of another image before, one row too many.
static void test_rows(rlx_ctx *ctx)
{
    set_gain(ctx, gain);
    feed(ctx, 0, ROWS);
    CHECK(rlx_rows_left(ctx) == 0 && is_right(ctx));
    set_gain(ctx, other);
    feed(ctx, 2, 5);
    CHECK(rlx_rows_left(ctx) == ROWS - 3 && rlx_input(ctx, ROWS_INPUT_gain) == NULL);
    REFUSES(rlx_feed_rows(ctx, x, ROWS), RLX_ERR_SIZE);
    REFUSES(rlx_run(ctx), RLX_ERR_INPUT);
    CHECK(rlx_restart_rows(ctx) == RLX_OK);
    set_gain(ctx, gain);
    feed(ctx, 0, ROWS);
    CHECK(is_right(ctx));
}

// A handle gives the other input; after a run by slot, which consumes inputs, too.
static void test_handle(rlx_ctx *ctx)
{
    static float memory[1];
    const void *in[2] = {x, NULL};
    rlx_handle h;
    int i;
    set_gain(ctx, other);
    CHECK(rlx_make_handle(ctx, &h, "h", "gain", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_input(ctx, ROWS_INPUT_gain, "h") == RLX_OK);
    REFUSES(rlx_feed_rows(ctx, x, 1), RLX_ERR_HANDLE); // it has no value
    CHECK(rlx_rows_left(ctx) == ROWS);
    CHECK(rlx_bind_handle(ctx, "h", gain, sizeof gain) == RLX_OK);
    for (i = 0; i < 2; i++) {
        feed(ctx, 0, ROWS);
        CHECK(is_right(ctx));
        CHECK(rlx_run_slots(ctx, in, NULL) == RLX_OK);
    }
    feed(ctx, 0, 4);
    CHECK(rlx_bind_handle(ctx, "h", other, sizeof other) == RLX_OK); // for the run after this one
    feed(ctx, 4, ROWS);
    CHECK(is_right(ctx) && rlx_drop_handle(ctx, "h") == RLX_OK);
}

// A handle gives the image: no rows are taken.
static void test_image(rlx_ctx *ctx)
{
    static float memory[ROWS * WIDTH];
    rlx_handle h;
    set_gain(ctx, gain);
    CHECK(rlx_make_handle(ctx, &h, "h", "x", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "h", x, sizeof x) == RLX_OK);
    CHECK(rlx_link_input(ctx, ROWS_INPUT_x, "h") == RLX_OK);
    REFUSES(rlx_feed_rows(ctx, x, 1), RLX_ERR_HANDLE);
    CHECK(is_right(ctx) && rlx_drop_handle(ctx, "h") == RLX_OK);
}

int main(void)
{
    rlx_ctx ctx;
    int i;
    for (i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i % 7);
    memset(&one, 0xFF, sizeof one);
    CHECK(rows_init(&ctx, one.arena, sizeof one.arena, NULL, 0) == RLX_OK);
    CHECK(rows(&ctx, x, gain, want) == RLX_OK && want[0] != 0);
    test_rows(&ctx);
    test_handle(&ctx);
    test_image(&ctx);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
