// SPDX-License-Identifier: Apache-2.0
// What calls say of themselves (asked.json with --dynamic): sentences for those that are refused, inputs that
// a run has consumed, parts of outputs by leading indices, ranges of states, contexts on blocks in use.
#include "asked.h"
#include "check.h"

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[ASKED_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[ASKED_STATE_BYTES];
} Blocks;

static Blocks one, before, other;
static rlx_error error;
static const float gain[4] = {1, 2, 3, 4};
static float x[6 * 4];
#define NOT_GIVEN " was not given: a run needs every input"
static const int32_t k[2] = {7, -7};

// The call must be refused, and say why.
#define SAYS(call, wanted, sentence)                                                                         \
    do {                                                                                                     \
        memset(&error, 0, sizeof error);                                                                     \
        REFUSES(call, wanted);                                                                               \
        CHECK(error.status == (wanted));                                                                     \
        if (strcmp(rlx_error_text(ctx), (sentence)) != 0)                                                    \
            fprintf(stderr, "%s\n", rlx_error_text(ctx));                                                    \
        CHECK(strcmp(rlx_error_text(ctx), (sentence)) == 0);                                                 \
    } while (0)

static void test_names(rlx_ctx *ctx)
{
    rlx_named in[2] = {{"x", x, 4 * 16}, {"k", k, sizeof k}};
    rlx_typed typed[2] = {{"x", x, 4 * 16, RLX_F32}, {"k", k, sizeof k, RLX_I32}};
    rlx_sized sized[3] = {{x, 4 * 16}, {k, sizeof k}, {k, sizeof k}};
    const void *slots[2] = {x, NULL};
    float y[4];
    int32_t twice[2];
    rlx_named_out out = {"total", y, sizeof y};
    SAYS(rlx_run_named(ctx, in, 1, NULL, 0), RLX_ERR_INPUT, "input 'k'" NOT_GIVEN);
    SAYS(rlx_run_typed(ctx, typed + 1, 1, NULL, 0), RLX_ERR_INPUT,
         "input 'x'" NOT_GIVEN);
    SAYS(rlx_run_sized(ctx, sized, 1, NULL), RLX_ERR_INPUT, "input 'k'" NOT_GIVEN);
    SAYS(rlx_run_sized(ctx, NULL, 0, NULL), RLX_ERR_INPUT, "input 'x'" NOT_GIVEN);
    SAYS(rlx_run_sized(ctx, sized, 3, NULL), RLX_ERR_SLOT, "input: number 2, but the model has 2");
    sized[0].bytes -= 4;
    SAYS(rlx_run_sized(ctx, sized, 2, NULL), RLX_ERR_SIZE,
         "input 'x': 64 bytes or elements were expected, 60 given");
    sized[1].data = NULL, sized[0].bytes += 4;
    SAYS(rlx_run_sized(ctx, sized, 2, NULL), RLX_ERR_NULL, "input 'k': a null pointer");
    SAYS(rlx_run_slots(ctx, slots, NULL), RLX_ERR_NULL, "input 'k': a null pointer");
    SAYS(rlx_run_slots(ctx, NULL, NULL), RLX_ERR_NULL, "input 'x': a null pointer");
    SAYS(asked(ctx, NULL, k, y, y, twice), RLX_ERR_NULL, "input 'x': a null pointer");
    SAYS(asked(ctx, x, k, y, NULL, twice), RLX_ERR_NULL, "output 'total': a null pointer");
    SAYS(asked(ctx, x, k, y, y, twice), RLX_ERR_PARAM, "parameter 'gain' was never set: rlx_set_param");
    in[1].name = "x";
    SAYS(rlx_run_named(ctx, in, 2, NULL, 0), RLX_ERR_NAME, "input 'x' was given more than once");
    in[1].name = "kk";
    SAYS(rlx_run_named(ctx, in, 2, NULL, 0), RLX_ERR_NAME, "the model has no input 'kk'");
    in[1].name = "k", in[1].bytes = 4;
    SAYS(rlx_run_named(ctx, in, 2, NULL, 0), RLX_ERR_SIZE,
         "input 'k': 8 bytes or elements were expected, 4 given");
    in[1].bytes = sizeof k, out.name = "k";
    SAYS(rlx_run_named(ctx, in, 2, &out, 1), RLX_ERR_NAME, "the model has no output 'k'");
    typed[1].dtype = RLX_F8E5M2;
    SAYS(rlx_run_typed(ctx, typed, 2, NULL, 0), RLX_ERR_DTYPE,
         "input 'k': element type i32 was expected, f8e5m2 given");
    SAYS(rlx_run_named(ctx, in, 2, NULL, 0), RLX_ERR_PARAM, "parameter 'gain' was never set: rlx_set_param");
    SAYS(rlx_run(ctx), RLX_ERR_PARAM, "parameter 'gain' was never set: rlx_set_param");
    SAYS(rlx_set_param(ctx, "bias", gain, 4), RLX_ERR_NAME, "the model has no parameter 'bias'");
    SAYS(rlx_set_param(ctx, "gain", gain, 3), RLX_ERR_SIZE,
         "parameter 'gain': 4 bytes or elements were expected, 3 given");
    SAYS(rlx_set_symbol(ctx, ASKED_SYM_T, 5), RLX_ERR_RANGE,
         "symbol 'T': 5 is out of range, the limit is 6 (it goes from 2 to 6 in steps of 2)");
    SAYS(rlx_set_symbol(ctx, 1, 4), RLX_ERR_SYMBOL, "symbol: number 1, but the model has 1");
    SAYS(rlx_read_handle(ctx, "gain", y, sizeof y), RLX_ERR_HANDLE,
         "handle 'gain' has no value yet: rlx_bind_handle");
    SAYS(rlx_bind_handle(ctx, "y", y, sizeof y), RLX_ERR_HANDLE, "the model has no handle 'y'");
    SAYS(rlx_set_profile(ctx, NULL), RLX_ERR_VALUE,
         "the call needs a model that was compiled with --profile");
    SAYS(rlx_read_state(ctx, "c", y, sizeof y), RLX_ERR_NAME, "the model has no state 'c'");
}

// What is of a run, before there was one.
static void test_early(rlx_ctx *ctx)
{
    static RLX_ALIGNED unsigned char kept[ASKED_SNAPSHOT_BYTES];
    float y[4];
    const int64_t zero[1] = {0};
    SAYS(rlx_read_output(ctx, ASKED_OUTPUT_total, y, sizeof y), RLX_ERR_EARLY,
         "output 'total': no run has ended well, or the last one failed");
    SAYS(rlx_read_output_row(ctx, ASKED_OUTPUT_logits, 0, y, sizeof y), RLX_ERR_EARLY,
         "output 'logits': no run has ended well, or the last one failed");
    SAYS(rlx_read_output_at(ctx, ASKED_OUTPUT_total, zero, 1, y, 4), RLX_ERR_EARLY,
         "output 'total': no run has ended well, or the last one failed");
    SAYS(rlx_feed_handle(ctx, "h", ASKED_OUTPUT_total), RLX_ERR_EARLY,
         "output 'total': no run has ended well, or the last one failed");
    REFUSES(rlx_take_snapshot(ctx, kept, sizeof kept), RLX_ERR_EARLY);
}

static void run(rlx_ctx *ctx, int64_t tokens)
{
    rlx_slot slots[3];
    rlx_sized in[2] = {{x, 0}, {k, sizeof k}};
    in[0].bytes = (size_t)tokens * 16;
    CHECK(rlx_set_symbol(ctx, ASKED_SYM_T, tokens) == RLX_OK);
    CHECK(rlx_run_sized(ctx, in, 2, slots) == RLX_OK && slots[0].bytes == in[0].bytes && slots[2].bytes == 8);
}

// At the live shape: row T - 1 of [1, T, 4].
static void test_parts(rlx_ctx *ctx, int64_t tokens)
{
    float row[4] = {0}, all[6 * 4], e[1] = {0};
    const int64_t last[3] = {0, tokens - 1, 3}, beyond[2] = {0, tokens};
    const size_t bytes = (size_t)tokens * 16;
    const uint32_t slot = ASKED_OUTPUT_logits;
    int i, ok;
    run(ctx, tokens);
    CHECK(rlx_read_output_at(ctx, slot, last, 2, row, sizeof row) == RLX_OK);
    for (i = 0, ok = 1; i < 4; i++)
        ok = ok && row[i] == x[(tokens - 1) * 4 + i] * gain[i];
    CHECK(ok);
    memset(row, 0, sizeof row);
    CHECK(rlx_read_output_row(ctx, slot, tokens - 1, row, sizeof row) == RLX_OK);
    CHECK(row[3] == x[tokens * 4 - 1] * 4);
    CHECK(rlx_read_output_at(ctx, slot, last, 3, e, sizeof e) == RLX_OK && e[0] == row[3]);
    CHECK(rlx_read_output_row(ctx, slot, tokens * 4 - 1, e, sizeof e) == RLX_OK && e[0] == row[3]);
    CHECK(rlx_read_output_at(ctx, slot, last, 1, all, bytes) == RLX_OK && all[tokens * 4 - 1] == row[3]);
    CHECK(rlx_read_output_at(ctx, slot, NULL, 0, all, bytes) == RLX_OK && all[0] == x[0]);
    CHECK(rlx_read_output_row(ctx, slot, 0, all, bytes) == RLX_OK && all[1] == x[1] * 2);
    SAYS(rlx_read_output_at(ctx, slot, beyond, 2, row, sizeof row), RLX_ERR_RANGE,
         tokens == 2 ? "output 'logits': 2 is out of range, the limit is 1"
                     : "output 'logits': 6 is out of range, the limit is 5");
    REFUSES(rlx_read_output_at(ctx, slot, last, 4, row, sizeof row), RLX_ERR_RANGE);
    REFUSES(rlx_read_output_at(ctx, slot, last, 2, row, 12), RLX_ERR_SIZE);
    REFUSES(rlx_read_output_at(ctx, slot, NULL, 2, row, sizeof row), RLX_ERR_NULL);
    REFUSES(rlx_read_output_at(ctx, 3, last, 2, row, sizeof row), RLX_ERR_SLOT);
    REFUSES(rlx_read_output_row(ctx, slot, tokens, row, sizeof row), RLX_ERR_RANGE);
    REFUSES(rlx_read_output_row(ctx, slot, 0, row, 12), RLX_ERR_SIZE);
}

// A run takes its inputs: calls that copy them know, and so does who asks for strictness.
static void test_consumed(rlx_ctx *ctx)
{
    const char *said = "input 'x' was consumed by the run before: write all inputs again";
    float *in;
    int i;
    run(ctx, 2);
    SAYS(rlx_run(ctx), RLX_ERR_INPUT, said);
    SAYS(rlx_commit(ctx), RLX_ERR_INPUT, said);
    SAYS(rlx_run_feed(ctx, NULL, 0), RLX_ERR_INPUT, said);
    run(ctx, 2); // copies again
    in = (float *)rlx_input(ctx, ASKED_INPUT_x);
    for (i = 0; i < 3; i++) { // the program has a pointer, and may have written
        memcpy(in, x, 32);
        CHECK(rlx_run(ctx) == RLX_OK);
    }
    CHECK(rlx_expect_inputs(ctx, 1) == RLX_OK && rlx_run(ctx) == RLX_OK);
    SAYS(rlx_run(ctx), RLX_ERR_INPUT, said);
    memcpy(rlx_input(ctx, ASKED_INPUT_x), x, 32);
    CHECK(rlx_run(ctx) == RLX_OK);
    SAYS(rlx_run(ctx), RLX_ERR_INPUT, said);
    CHECK(rlx_expect_inputs(ctx, 0) == RLX_OK && rlx_run(ctx) == RLX_OK);
    REFUSES(rlx_expect_inputs(NULL, 1), RLX_ERR_NULL);
}

static void test_ranges(rlx_ctx *ctx)
{
    const float h[4] = {1, 2, 3, 4}, two[2] = {20, 30};
    float got[4] = {0};
    CHECK(rlx_write_state(ctx, "h", h, sizeof h) == RLX_OK);
    CHECK(rlx_write_state_range(ctx, "h", 4, two, sizeof two) == RLX_OK);
    CHECK(rlx_read_state_range(ctx, "h", 8, got, 8) == RLX_OK && got[0] == 30 && got[1] == 4);
    run(ctx, 2);
    CHECK(rlx_read_state_range(ctx, "h", 4, got, 4) == RLX_OK && got[0] == 20 + 2 * (x[1] + x[5]));
    CHECK(rlx_read_state(ctx, "h", got, sizeof got) == RLX_OK && got[3] == 4 + 4 * (x[3] + x[7]));
    CHECK(rlx_read_state_range(ctx, "h", 16, got, 0) == RLX_OK);
    SAYS(rlx_write_state_range(ctx, "h", 12, two, 8), RLX_ERR_RANGE,
         "state 'h': 20 is out of range, the limit is 16");
    SAYS(rlx_write_state_range(ctx, "h", 2, two, 4), RLX_ERR_SIZE,
         "state 'h': 4 bytes or elements were expected, 2 given");
    REFUSES(rlx_write_state_range(ctx, "h", 20, two, 0), RLX_ERR_RANGE);
    REFUSES(rlx_read_state_range(ctx, "h", 0, got, 6), RLX_ERR_SIZE);
    REFUSES(rlx_read_state_range(ctx, "h", (size_t)-4, got, 8), RLX_ERR_RANGE);
    REFUSES(rlx_read_state_range(ctx, "c", 0, got, 4), RLX_ERR_NAME);
    REFUSES(rlx_read_state_range(ctx, "h", 0, NULL, 4), RLX_ERR_NULL);
    REFUSES(rlx_write_state_range(NULL, "h", 0, two, 4), RLX_ERR_NULL);
}

// Blocks of another context, or of the other kind.
static void test_blocks(rlx_ctx *ctx)
{
    rlx_ctx copy;
    float got[4], h[4];
    const size_t n = sizeof one.arena, m = sizeof one.state;
    CHECK(rlx_read_state(ctx, "h", h, sizeof h) == RLX_OK);
    REFUSES(rlx_clone(&copy, ctx, one.arena, n, one.state, m), RLX_ERR_OVERLAP);
    REFUSES(rlx_clone(&copy, ctx, other.arena, n, one.state, m), RLX_ERR_OVERLAP);
    SAYS(rlx_clone(&copy, ctx, one.arena, n, other.state, m), RLX_ERR_OVERLAP,
         "the call: the blocks overlap others that are in use");
    REFUSES(asked_init(&copy, one.arena, n, one.arena, m), RLX_ERR_OVERLAP);
    CHECK(rlx_read_state(ctx, "h", got, sizeof got) == RLX_OK && memcmp(got, h, sizeof h) == 0);
    CHECK(rlx_clone(&copy, ctx, other.arena, n, other.state, m) == RLX_OK && copy.error == NULL);
    REFUSES(rlx_read_output(&copy, ASKED_OUTPUT_total, got, sizeof got), RLX_ERR_EARLY);
    CHECK(rlx_error_text(&copy)[0] == '\0' && rlx_error_text(NULL)[0] == '\0');
    CHECK(rlx_close(&copy) == RLX_OK);
}

static void test_done(rlx_ctx *ctx)
{
    static RLX_ALIGNED unsigned char kept[2 * ASKED_SNAPSHOT_BYTES];
    const void *in[4] = {x, k, x, NULL};
    char too_short[80];
    uint32_t done = 9;
    snprintf(too_short, sizeof too_short, "the call: %u bytes or elements were expected, %u given",
             2 * (unsigned)ASKED_SNAPSHOT_BYTES, (unsigned)ASKED_SNAPSHOT_BYTES);
    REFUSES(rlx_run_pipelined(ctx, in, 2, kept, sizeof kept, &done), RLX_ERR_NULL);
    CHECK(done == 0);
    in[3] = k, done = 9;
    SAYS(rlx_run_pipelined(ctx, in, 2, kept + 64, ASKED_SNAPSHOT_BYTES, &done), RLX_ERR_SIZE, too_short);
    CHECK(done == 0);
    done = 9;
    REFUSES(rlx_run_pipelined(NULL, in, 2, kept, sizeof kept, &done), RLX_ERR_NULL);
    CHECK(done == 0);
    done = 9;
    CHECK(rlx_run_pipelined(ctx, in, 2, kept, sizeof kept, &done) == RLX_OK && done == 2);
    CHECK(rlx_run_pipelined(ctx, NULL, 0, NULL, 0, &done) == RLX_OK && done == 0);
}

// If an init fails, there is no context that could say why.
static void test_init(void)
{
    const size_t n = ASKED_ARENA_BYTES, m = ASKED_STATE_BYTES;
    unsigned char *const a = one.arena, *const s = one.state;
    char want[80];
    rlx_ctx ctx;
    rlx_status status = asked_init(&ctx, a, n - 1, s, m);
    snprintf(want, sizeof want, "the arena block: %u bytes are needed, %u given", (unsigned)n,
             (unsigned)n - 1);
    CHECK(strcmp(rlx_init_text(status, &asked_model, a, n - 1, s, m, NULL, 0, &error), want) == 0);
    CHECK(error.status == RLX_ERR_ARENA && error.about == RLX_ABOUT_ARENA);
    status = asked_init(&ctx, a, n, s + 8, m);
    CHECK(strcmp(rlx_init_text(status, &asked_model, a, n, s + 8, m, NULL, 0, &error),
                 "the state block: memory that does not start at a multiple of 64 bytes") == 0);
    status = asked_init(&ctx, NULL, n, s, m);
    CHECK(strcmp(rlx_init_text(status, &asked_model, NULL, n, s, m, NULL, 0, &error),
                 "the arena block: a null pointer") == 0);
    CHECK(strcmp(rlx_init_text(RLX_ERR_NO_DEVICE, &asked_model, a, n, s, m, NULL, 0, &error),
                 "no driver, or no device that can run the code") == 0);
    CHECK(rlx_init_text(RLX_OK, &asked_model, a, n, s, m, NULL, 0, &error)[0] == '\0');
    CHECK(rlx_init_text(status, &asked_model, NULL, n, s, m, NULL, 0, NULL)[0] == '\0');
}

int main(void)
{
    rlx_ctx ctx;
    int i;
    for (i = 0; i < 24; i++)
        x[i] = (float)(i % 7 - 3);
    memset(&one, 0xFF, sizeof one);
    test_init();
    CHECK(asked_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    CHECK(rlx_error_text(&ctx)[0] == '\0');
    CHECK(rlx_set_error(&ctx, &error) == RLX_OK && rlx_error_text(&ctx)[0] == '\0');
    CHECK(rlx_set_error(NULL, &error) == RLX_ERR_NULL);
    test_names(&ctx);
    test_early(&ctx);
    CHECK(rlx_set_param(&ctx, "gain", gain, 4) == RLX_OK);
    test_parts(&ctx, 2);
    test_parts(&ctx, 6);
    test_ranges(&ctx);
    test_done(&ctx);
    test_blocks(&ctx);
    test_consumed(&ctx);
    CHECK(rlx_set_error(&ctx, NULL) == RLX_OK);
    REFUSES(rlx_set_param(&ctx, "gain", gain, 3), RLX_ERR_SIZE);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
