// SPDX-License-Identifier: Apache-2.0
// Outputs that a handle holds (links.json with --handle past=present), read as others are; and handles that
// the program makes: linked to inputs and outputs, with open sizes, and every way to use them wrongly.
#include "check.h"
#include "links.h"

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[LINKS_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[LINKS_STATE_BYTES];
} Blocks;

static Blocks one, before;
static RLX_ALIGNED unsigned char snapshots[2 * LINKS_SNAPSHOT_BYTES];
static const float v[4] = {1, 2, 3, 4}, step[4] = {1, 1, 1, 1};

static float x_at(int64_t b, int64_t row, int64_t k)
{
    return (float)(100 * b + 10 * row + k);
}

// x has rows past .. past + t - 1 of a table.
static void make_x(float *x, int64_t past, int64_t t)
{
    int64_t b, r, k;
    for (b = 0; b < 2; b++)
        for (r = 0; r < t; r++)
            for (k = 0; k < 2; k++)
                x[(b * t + r) * 2 + k] = x_at(b, past + r, k);
}

static void set_sizes(rlx_ctx *ctx, int64_t past, int64_t t)
{
    CHECK(rlx_set_symbol(ctx, LINKS_SYM_T, t) == RLX_OK && rlx_set_symbol(ctx, LINKS_SYM_P, past) == RLX_OK);
}

static void fill_x(rlx_ctx *ctx, int64_t past, int64_t t)
{
    float x[12];
    set_sizes(ctx, past, t);
    make_x(x, past, t);
    memcpy(rlx_input(ctx, LINKS_INPUT_x), x, rlx_input_bytes(ctx, LINKS_INPUT_x));
}

static void fill(rlx_ctx *ctx, int64_t past, int64_t t)
{
    fill_x(ctx, past, t);
    memcpy(rlx_input(ctx, LINKS_INPUT_v), v, sizeof v);
    memcpy(rlx_input(ctx, LINKS_INPUT_step), step, sizeof step);
}

// --- outputs that handles hold -------------------------------------------------------------------

static void check_present(const rlx_ctx *ctx, int64_t rows, int line)
{
    float want[32], got[32], row[2];
    int64_t index[2] = {1, 0}, shape[RLX_MAX_RANK];
    const size_t bytes = (size_t)rows * 4u * sizeof *want;
    make_x(want, 0, rows);
    CHECK(rlx_output_shape(ctx, LINKS_OUTPUT_present, shape) == RLX_OK && shape[1] == rows);
    CHECK(rlx_output_bytes(ctx, LINKS_OUTPUT_present) == bytes);
    check(rlx_read_output(ctx, LINKS_OUTPUT_present, got, bytes) == RLX_OK, "present", line);
    check(memcmp(got, want, bytes) == 0, "value of present", line);
    index[1] = rows - 1;
    check(rlx_read_output_at(ctx, LINKS_OUTPUT_present, index, 2, row, sizeof row) == RLX_OK, "at", line);
    check(row[0] == x_at(1, rows - 1, 0) && row[1] == x_at(1, rows - 1, 1), "last row", line);
    check(rlx_read_output_row(ctx, LINKS_OUTPUT_present, rows, row, sizeof row) == RLX_OK, "row", line);
    check(row[0] == x_at(1, 0, 0) && row[1] == x_at(1, 0, 1), "first row of the second", line);
    check(rlx_read_output_row(ctx, LINKS_OUTPUT_present, 1, got, bytes / 2) == RLX_OK, "half", line);
    check(memcmp(got, want + rows * 2, bytes / 2) == 0, "second half", line);
}

// In other types: as the same bytes, and converted, strip by strip.
static void test_held_typed(rlx_ctx *ctx)
{
    float x[4], same[24];
    double wide[24];
    int16_t narrow[16];
    rlx_typed in[3];
    rlx_typed_out out[2];
    int i;
    set_sizes(ctx, 3, 1); // back by two rows: 4 of 8 are live
    make_x(x, 3, 1);
    in[0].name = "x", in[0].data = x, in[0].bytes = sizeof x, in[0].dtype = RLX_F32;
    in[1].name = "v", in[1].data = v, in[1].bytes = sizeof v, in[1].dtype = RLX_F32;
    in[2].name = "step", in[2].data = step, in[2].bytes = sizeof step, in[2].dtype = RLX_F32;
    out[0].name = "present", out[0].data = narrow, out[0].bytes = sizeof narrow, out[0].dtype = RLX_I16;
    CHECK(rlx_run_typed(ctx, in, 3, out, 1) == RLX_OK);
    for (i = 0; i < 16; i++)
        CHECK(narrow[i] == (int16_t)x_at(i / 8, i / 2 % 4, i % 2));
    out[0].bytes = 30;
    REFUSES(rlx_run_typed(ctx, in, 3, out, 1), RLX_ERR_SIZE);
    set_sizes(ctx, 5, 1); // rows 4 and 5 of before are still there
    make_x(x, 5, 1);
    out[0].data = wide, out[0].bytes = sizeof wide, out[0].dtype = RLX_F64;
    out[1].name = "present", out[1].data = same, out[1].bytes = sizeof same, out[1].dtype = RLX_F32;
    CHECK(rlx_run_typed(ctx, in, 3, out, 2) == RLX_OK);
    for (i = 0; i < 24; i++)
        CHECK(same[i] == x_at(i / 12, i / 2 % 6, i % 2) && wide[i] == (double)same[i]);
    check_present(ctx, 6, __LINE__);
}

static void test_held(rlx_ctx *ctx)
{
    float got[32] = {0}, x[12], y[4];
    rlx_named in[3];
    rlx_named_out out[2];
    CHECK(links_model.n_outputs == 4 && links_model.n_held == 1 && LINKS_OUTPUT_present == 4);
    CHECK(rlx_output(ctx, LINKS_OUTPUT_present) == NULL); // its elements may lie apart
    fill(ctx, 0, 2);
    REFUSES(rlx_read_output(ctx, LINKS_OUTPUT_present, got, 32), RLX_ERR_EARLY);
    CHECK(rlx_run(ctx) == RLX_OK);
    check_present(ctx, 2, __LINE__);
    fill(ctx, 2, 1);
    CHECK(rlx_run(ctx) == RLX_OK);
    check_present(ctx, 3, __LINE__);
    set_sizes(ctx, 3, 3);
    make_x(x, 3, 3);
    in[0].name = "x", in[0].data = x, in[0].bytes = sizeof x;
    in[1].name = "v", in[1].data = v, in[1].bytes = sizeof v;
    in[2].name = "step", in[2].data = step, in[2].bytes = sizeof step;
    out[0].name = "present", out[0].data = got, out[0].bytes = 6 * 4 * sizeof *got;
    out[1].name = "sum", out[1].data = y, out[1].bytes = sizeof y;
    CHECK(rlx_run_named(ctx, in, 3, out, 2) == RLX_OK);
    make_x(x, 3, 3);
    CHECK(memcmp(got + 6, x, 6 * sizeof *x) == 0 && got[23] == x_at(1, 5, 1) && y[0] == 150);
    check_present(ctx, 6, __LINE__);
    test_held_typed(ctx);
    CHECK(rlx_find_value(&links_model, "present", NULL) != NULL);
    CHECK(rlx_value_data(ctx, "present") == rlx_handle_data(ctx, "past"));
    REFUSES(rlx_read_output(ctx, LINKS_OUTPUT_present, got, 4), RLX_ERR_SIZE);
    REFUSES(rlx_read_output(ctx, LINKS_OUTPUT_present, NULL, 96), RLX_ERR_NULL);
    REFUSES(rlx_read_output(ctx, 5, got, 96), RLX_ERR_SLOT);
    CHECK(rlx_reset(ctx) == RLX_OK); // what the handle holds now
    CHECK(rlx_read_output(ctx, LINKS_OUTPUT_present, got, 96) == RLX_OK && got[23] == 0);
}

// --- handles of the program ----------------------------------------------------------------------

static void test_wrong(rlx_ctx *ctx)
{
    static float memory[16];
    rlx_handle h, g;
    rlx_error error;
    int64_t shape[RLX_MAX_RANK];
    CHECK(rlx_set_error(ctx, &error) == RLX_OK);
    CHECK(rlx_handle_room(ctx, "v") == 16 && rlx_handle_room(ctx, "twice") == 48);
    CHECK(rlx_handle_room(ctx, "none") == 0 && rlx_handle_room(NULL, "v") == 0);
    REFUSES(rlx_make_handle(NULL, &h, "h", "v", memory, 16), RLX_ERR_NULL);
    REFUSES(rlx_make_handle(ctx, &h, "h", "v", NULL, 16), RLX_ERR_NULL);
    REFUSES(rlx_make_handle(ctx, &h, "h", "none", memory, 16), RLX_ERR_NAME);
    REFUSES(rlx_make_handle(ctx, &h, "past", "v", memory, 16), RLX_ERR_NAME); // a handle of the model
    REFUSES(rlx_make_handle(ctx, &h, "h", "v", memory, 15), RLX_ERR_SIZE);
    REFUSES(rlx_make_handle(ctx, &h, "h", "v", one.arena, 16), RLX_ERR_OVERLAP);
    REFUSES(rlx_link_input(ctx, LINKS_INPUT_v, "h"), RLX_ERR_HANDLE);
    CHECK(strcmp(rlx_error_text(ctx), "the model has no handle 'h'") == 0);
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof memory) == RLX_OK);
    REFUSES(rlx_make_handle(ctx, &g, "h", "v", memory, 16), RLX_ERR_NAME);
    REFUSES(rlx_link_input(ctx, 9, "h"), RLX_ERR_SLOT);
    REFUSES(rlx_link_input(ctx, LINKS_INPUT_x, "h"), RLX_ERR_SIZE); // another rank
    REFUSES(rlx_link_output(ctx, LINKS_OUTPUT_whole, "h"), RLX_ERR_DTYPE);
    REFUSES(rlx_link_output(ctx, 9, "h"), RLX_ERR_SLOT);
    REFUSES(rlx_link_output(ctx, LINKS_OUTPUT_next, "g"), RLX_ERR_HANDLE);
    REFUSES(rlx_unlink_input(ctx, "g"), RLX_ERR_HANDLE);
    REFUSES(rlx_drop_handle(ctx, "g"), RLX_ERR_HANDLE);
    REFUSES(rlx_bind_handle(ctx, "h", v, 12), RLX_ERR_SIZE);
    REFUSES(rlx_read_handle(ctx, "h", memory, 16), RLX_ERR_HANDLE);
    REFUSES(rlx_handle_shape(ctx, "h", shape), RLX_ERR_HANDLE);
    CHECK(!rlx_has_handle(ctx, "h") && rlx_handle_data(ctx, "h") == memory);
    CHECK(rlx_link_input(ctx, LINKS_INPUT_v, "h") == RLX_OK);
    fill(ctx, 0, 1);
    CHECK(rlx_run(ctx) == RLX_ERR_HANDLE); // no value yet
    CHECK(strcmp(rlx_error_text(ctx), "handle 'h' has no value yet: rlx_bind_handle") == 0);
    CHECK(rlx_bind_handle(ctx, "h", v, sizeof v) == RLX_OK && rlx_has_handle(ctx, "h"));
    CHECK(rlx_run(ctx) == RLX_OK && rlx_clear_handle(ctx, "h") == RLX_OK && !rlx_has_handle(ctx, "h"));
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK && rlx_set_error(ctx, NULL) == RLX_OK);
}

static float first_of(const rlx_ctx *ctx, uint32_t slot)
{
    float value = -1;
    memcpy(&value, rlx_output(ctx, slot), sizeof value);
    return value;
}

// v and step come from handles, and v takes `next`: v' = 2 v + 1. By every call that runs.
static void test_chain(rlx_ctx *ctx)
{
    static float memory[4], steps[4], seen[4];
    rlx_handle h, g, s;
    float x[4], y[20] = {7, 0, 0, 0, 7, 0, 0, 0, 7}, got[4];
    int32_t n[4] = {7};
    const void *in[3] = {NULL, NULL, NULL};
    rlx_sized sized[1];
    rlx_named named[2];
    rlx_named_out out;
    rlx_typed typed;
    rlx_typed_out typed_out;
    int32_t whole[4];
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_make_handle(ctx, &g, "g", "next", steps, sizeof steps) == RLX_OK);
    CHECK(rlx_make_handle(ctx, &s, "s", "next", seen, sizeof seen) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "h", v, sizeof v) == RLX_OK);
    CHECK(rlx_link_input(ctx, LINKS_INPUT_v, "h") == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "g", step, sizeof step) == RLX_OK);
    CHECK(rlx_link_input(ctx, LINKS_INPUT_step, "g") == RLX_OK);
    CHECK(rlx_link_output(ctx, LINKS_OUTPUT_next, "h") == RLX_OK);
    CHECK(rlx_link_output(ctx, LINKS_OUTPUT_next, "s") == RLX_OK);
    fill_x(ctx, 0, 1);
    CHECK(rlx_run(ctx) == RLX_OK && first_of(ctx, LINKS_OUTPUT_next) == 3);
    make_x(x, 0, 1);
    in[LINKS_INPUT_x] = x;
    CHECK(rlx_run_slots(ctx, in, NULL) == RLX_OK && first_of(ctx, LINKS_OUTPUT_next) == 7);
    in[LINKS_INPUT_v] = v; // the handle gives it
    REFUSES(rlx_run_slots(ctx, in, NULL), RLX_ERR_HANDLE);
    in[LINKS_INPUT_v] = NULL;
    sized[0].data = x, sized[0].bytes = sizeof x;
    CHECK(rlx_run_sized(ctx, sized, 1, NULL) == RLX_OK && first_of(ctx, LINKS_OUTPUT_next) == 15);
    named[0].name = "x", named[0].data = x, named[0].bytes = sizeof x;
    named[1].name = "v", named[1].data = v, named[1].bytes = sizeof v;
    out.name = "next", out.data = got, out.bytes = sizeof got;
    REFUSES(rlx_run_named(ctx, named, 2, &out, 1), RLX_ERR_HANDLE);
    CHECK(rlx_run_named(ctx, named, 1, &out, 1) == RLX_OK && got[0] == 31 && memory[0] == 31);
    CHECK(links(ctx, x, v, step, y, y + 4, y + 8, n) == RLX_ERR_HANDLE);
    CHECK(y[0] == 7 && y[4] == 7 && y[8] == 7 && n[0] == 7 && memory[0] == 31);
    CHECK(first_of(ctx, LINKS_OUTPUT_next) == 31); // what the last run left: v has not been copied there
    REFUSES(rlx_run_named(ctx, named, 0, &out, 1), RLX_ERR_INPUT);
    typed.name = "x", typed.data = x, typed.bytes = sizeof x, typed.dtype = RLX_F32;
    typed_out.name = "next", typed_out.data = whole, typed_out.bytes = sizeof whole;
    typed_out.dtype = RLX_I32;
    CHECK(rlx_run_typed(ctx, &typed, 1, &typed_out, 1) == RLX_OK && whole[0] == 63 && memory[0] == 63);
    CHECK(rlx_bind_handle(ctx, "h", got, sizeof got) == RLX_OK && rlx_unlink_output(ctx, "h") == RLX_OK);
    CHECK(rlx_run_slots(ctx, in, NULL) == RLX_OK && rlx_run_slots(ctx, in, NULL) == RLX_OK);
    CHECK(first_of(ctx, LINKS_OUTPUT_next) == 63 && seen[0] == 63 && memory[0] == 31);
    CHECK(rlx_link_input(ctx, LINKS_INPUT_v, "s") == RLX_OK); // in its place: 2 * 63 + 1
    CHECK(rlx_run_slots(ctx, in, NULL) == RLX_OK && seen[0] == 127);
    CHECK(rlx_feed_handle(ctx, "g", LINKS_OUTPUT_next) == RLX_OK && steps[0] == 127);
    CHECK(rlx_unlink_input(ctx, "s") == RLX_OK && rlx_unlink_input(ctx, "g") == RLX_OK);
    REFUSES(rlx_run_slots(ctx, in, NULL), RLX_ERR_NULL);
    CHECK(rlx_drop_handle(ctx, "g") == RLX_OK && rlx_drop_handle(ctx, "h") == RLX_OK);
    CHECK(rlx_drop_handle(ctx, "s") == RLX_OK && ctx->n_handles == 0);
}

// Runs that are committed, or pipelined: each takes what the one before has left.
static void test_queue(rlx_ctx *ctx)
{
    static float memory[4];
    rlx_handle h;
    float x[4], got[4];
    const void *in[6] = {NULL, NULL, NULL, NULL, NULL, NULL};
    const float *y;
    uint32_t i, done = 0;
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_bind_handle(ctx, "h", v, sizeof v) == RLX_OK);
    CHECK(rlx_link_input(ctx, LINKS_INPUT_v, "h") == RLX_OK);
    CHECK(rlx_link_output(ctx, LINKS_OUTPUT_next, "h") == RLX_OK);
    for (i = 0; i < 3; i++) {
        fill_x(ctx, 0, 1 + i);
        memcpy(rlx_input(ctx, LINKS_INPUT_step), step, sizeof step);
        CHECK(rlx_commit(ctx) == RLX_OK);
    }
    CHECK(rlx_read_handle(ctx, "h", got, sizeof got) == RLX_OK && got[0] == 15); // waits for the last one
    CHECK(rlx_sync(ctx) == RLX_OK && memory[0] == 15 && first_of(ctx, LINKS_OUTPUT_next) == 15);
    set_sizes(ctx, 0, 1);
    make_x(x, 0, 1);
    for (i = 0; i < 2; i++)
        in[3 * i + LINKS_INPUT_x] = x, in[3 * i + LINKS_INPUT_step] = step;
    CHECK(rlx_run_pipelined(ctx, in, 2, snapshots, sizeof snapshots, &done) == RLX_OK && done == 2);
    y = (const float *)rlx_snapshot_output(&links_model, snapshots, LINKS_OUTPUT_next, NULL);
    CHECK(y[0] == 31 && memory[0] == 63);
    in[LINKS_INPUT_v] = v;
    REFUSES(rlx_run_pipelined(ctx, in, 2, snapshots, sizeof snapshots, &done), RLX_ERR_HANDLE);
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK);
}

// What a call leaves as it is where the run itself fails, because of a handle without a value.
static void test_failed(rlx_ctx *ctx)
{
    static const char want[] = "handle 'h' has no value yet: rlx_bind_handle";
    static float memory[4], last[4];
    rlx_error error;
    rlx_handle h, g;
    float x[4], got[4] = {7};
    int32_t whole[4] = {7};
    const void *in[3] = {NULL, NULL, NULL};
    rlx_slot slots[4];
    rlx_named named[2];
    rlx_named_out out;
    rlx_typed typed[2];
    rlx_typed_out typed_out;
    uint32_t done = 9;
    set_sizes(ctx, 0, 1);
    make_x(x, 0, 1);
    memset(slots, 0xFF, sizeof slots);
    in[LINKS_INPUT_x] = x, in[LINKS_INPUT_step] = step;
    named[0].name = "x", named[0].data = x, named[0].bytes = sizeof x;
    named[1].name = "step", named[1].data = step, named[1].bytes = sizeof step;
    out.name = "next", out.data = got, out.bytes = sizeof got;
    typed[0].name = "x", typed[0].data = x, typed[0].bytes = sizeof x, typed[0].dtype = RLX_F32;
    typed[1].name = "step", typed[1].data = step, typed[1].bytes = sizeof step, typed[1].dtype = RLX_F32;
    typed_out.name = "next", typed_out.data = whole, typed_out.bytes = sizeof whole;
    typed_out.dtype = RLX_I32;
    CHECK(rlx_make_handle(ctx, &h, "h", "v", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_make_handle(ctx, &g, "g", "next", last, sizeof last) == RLX_OK);
    CHECK(rlx_link_input(ctx, LINKS_INPUT_v, "h") == RLX_OK);
    CHECK(rlx_link_output(ctx, LINKS_OUTPUT_next, "g") == RLX_OK);
#define SAYS_WHY(call)                                                                                       \
    do {                                                                                                     \
        CHECK(rlx_set_error(ctx, &error) == RLX_OK && (call) == RLX_ERR_HANDLE);                             \
        CHECK(strcmp(rlx_error_text(ctx), want) == 0 && !rlx_has_handle(ctx, "g"));                          \
    } while (0)
    SAYS_WHY(rlx_run_slots(ctx, in, slots));
    CHECK(slots[LINKS_OUTPUT_next].bytes == (size_t)-1);
    SAYS_WHY(rlx_run_named(ctx, named, 2, &out, 1));
    SAYS_WHY(rlx_run_typed(ctx, typed, 2, &typed_out, 1));
    SAYS_WHY(rlx_run_pipelined(ctx, in, 1, snapshots, sizeof snapshots, &done));
    CHECK(got[0] == 7 && whole[0] == 7 && done == 0);
    fill_x(ctx, 0, 1);
    CHECK(rlx_commit(ctx) == RLX_OK);
    REFUSES(rlx_read_handle(ctx, "none", got, 4), RLX_ERR_HANDLE); // rlx_sync is not about this
    CHECK(rlx_sync(ctx) == RLX_ERR_HANDLE && strcmp(rlx_error_text(ctx), want) == 0);
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK && rlx_drop_handle(ctx, "g") == RLX_OK);
    CHECK(rlx_set_error(ctx, NULL) == RLX_OK);
}

// What a state holds as an output is taken before it is written, also of a run that was only committed.
static void test_held_queue(rlx_ctx *ctx)
{
    static float memory[2 * 8 * 2], zeros[2 * 8 * 2], got[2 * 8 * 2];
    rlx_handle h;
    float x[12];
    int i;
    make_x(x, 0, 2);
    CHECK(rlx_make_handle(ctx, &h, "h", "present", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_output(ctx, LINKS_OUTPUT_present, "h") == RLX_OK);
    for (i = 0; i < 4; i++) {
        memset(memory, 0, sizeof memory);
        fill(ctx, 0, 2);
        CHECK(rlx_commit(ctx) == RLX_OK);
        CHECK((i == 0   ? rlx_write_state(ctx, "past", zeros, sizeof zeros)
               : i == 1 ? rlx_bind_handle(ctx, "past", zeros, sizeof zeros)
               : i == 2 ? rlx_clear_handle(ctx, "past")
                        : rlx_reset(ctx)) == RLX_OK);
        CHECK(rlx_sync(ctx) == RLX_OK && memcmp(memory, x, 32) == 0);
        CHECK(rlx_read_state(ctx, "past", got, sizeof got) == RLX_OK && got[1] == 0 && x[1] != 0);
    }
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK);
}

// Handles that give all inputs leave none to be given.
static void test_all(rlx_ctx *ctx)
{
    static const char *const names[] = {"x", "v", "step"};
    static const uint32_t slots[] = {LINKS_INPUT_x, LINKS_INPUT_v, LINKS_INPUT_step};
    static float memory[3][12];
    static rlx_handle h[3];
    uint32_t i, done = 9;
    set_sizes(ctx, 0, 2);
    for (i = 0; i < 3; i++) {
        const size_t bytes = rlx_input_bytes(ctx, slots[i]);
        CHECK(rlx_make_handle(ctx, &h[i], names[i], names[i], memory[i], sizeof memory[i]) == RLX_OK);
        CHECK(rlx_link_input(ctx, slots[i], names[i]) == RLX_OK);
        CHECK(rlx_bind_handle(ctx, names[i], memory[i], bytes) == RLX_OK);
    }
    CHECK(rlx_run_pipelined(ctx, NULL, 2, snapshots, sizeof snapshots, &done) == RLX_OK && done == 2);
    for (i = 0; i < 3; i++)
        CHECK(rlx_drop_handle(ctx, names[i]) == RLX_OK);
    REFUSES(rlx_run_pipelined(ctx, NULL, 2, snapshots, sizeof snapshots, &done), RLX_ERR_NULL);
}

// A value has the shape that it was taken with: the sizes of a run must be these.
static void test_sizes(rlx_ctx *ctx)
{
    static float memory[12];
    rlx_handle h;
    float x[12], got[12];
    int64_t shape[RLX_MAX_RANK];
    CHECK(rlx_make_handle(ctx, &h, "h", "x", memory, sizeof memory) == RLX_OK);
    CHECK(rlx_link_output(ctx, LINKS_OUTPUT_twice, "h") == RLX_OK);
    fill(ctx, 0, 2);
    CHECK(rlx_run(ctx) == RLX_OK && rlx_handle_shape(ctx, "h", shape) == RLX_OK && shape[1] == 2);
    make_x(x, 0, 2);
    CHECK(rlx_read_handle(ctx, "h", got, 32) == RLX_OK && got[7] == 2 * x[7]);
    REFUSES(rlx_read_handle(ctx, "h", got, 48), RLX_ERR_SIZE);
    CHECK(rlx_link_input(ctx, LINKS_INPUT_x, "h") == RLX_OK);
    fill(ctx, 0, 2); // x as it is written there does not count
    CHECK(rlx_run(ctx) == RLX_OK && rlx_read_handle(ctx, "h", got, 32) == RLX_OK && got[7] == 4 * x[7]);
    fill(ctx, 0, 3);
    CHECK(rlx_run(ctx) == RLX_ERR_SIZE && memory[7] == 4 * x[7]);
    make_x(x, 0, 3);
    CHECK(rlx_bind_handle(ctx, "h", x, sizeof x) == RLX_OK);
    fill(ctx, 0, 3);
    CHECK(rlx_run(ctx) == RLX_OK && memory[11] == 2 * x[11]);
    CHECK(rlx_link_output(ctx, LINKS_OUTPUT_present, "h") == RLX_ERR_SIZE); // no room for 8 rows
    CHECK(rlx_drop_handle(ctx, "h") == RLX_OK);
}

int main(void)
{
    rlx_ctx ctx;
    memset(&one, 0xFF, sizeof one);
    CHECK(links_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    test_held(&ctx);
    test_wrong(&ctx);
    test_chain(&ctx);
    test_queue(&ctx);
    test_failed(&ctx);
    test_held_queue(&ctx);
    test_sizes(&ctx);
    test_all(&ctx);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
