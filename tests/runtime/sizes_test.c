// SPDX-License-Identifier: Apache-2.0
// Sizes that are set between runs (sizes.json with --dynamic --arena-at seq=20): every size of `seq` against
// sums made by hand, every way to set sizes, and every way to do so wrongly.
#include "check.h"
#include "sizes.h"
#include <math.h>

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[SIZES_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[SIZES_STATE_BYTES];
} Blocks;

static Blocks one, two, before;

enum { SEQ = 20, BLOCK = 16, PAST = 8 }; // the largest

static float x[2 * SEQ * 3], p[PAST * 3], gain[SEQ], total[SEQ];
static int32_t t[BLOCK];

typedef struct Results {
    float y[2 * SEQ * 3], mean[6], longer[2 * (2 * SEQ + 1) * 3], turned[3 * (PAST + SEQ)], sums[SEQ];
    int32_t even[BLOCK / 2];
} Results;

static Results got;

static void make_inputs(void)
{
    int i;
    for (i = 0; i < 2 * SEQ * 3; i++)
        x[i] = (float)(i * 7 % 11 - 5) * 0.25f;
    for (i = 0; i < PAST * 3; i++)
        p[i] = (float)(100 + i);
    for (i = 0; i < SEQ; i++)
        gain[i] = (float)(i + 1);
    for (i = 0; i < BLOCK; i++)
        t[i] = 1000 + i;
}

static int64_t value(const rlx_ctx *ctx, uint32_t symbol)
{
    int64_t v = -1;
    CHECK(rlx_get_symbol(ctx, symbol, &v) == RLX_OK);
    return v;
}

// Element (b, s, c) of x when it is dense for n.
static float at(int64_t n, int64_t b, int64_t s, int64_t c)
{
    return x[(b * n + s) * 3 + c];
}

static void check_products(int64_t n)
{
    int64_t b, s, c;
    int ok = 1;
    for (b = 0; b < 2; b++)
        for (c = 0; c < 3; c++) {
            double sum = 0;
            for (s = 0; s < n; s++) {
                ok = ok && got.y[(b * n + s) * 3 + c] == 2 * at(n, b, s, c);
                ok = ok && got.longer[(b * (2 * n + 1) + 1 + s) * 3 + c] == at(n, b, s, c);
                ok = ok && got.longer[(b * (2 * n + 1) + 1 + n + s) * 3 + c] == at(n, b, s, c);
                sum += at(n, b, s, c);
            }
            ok = ok && got.longer[b * (2 * n + 1) * 3 + c] == 0;
            ok = ok && fabs(got.mean[b * 3 + c] - sum / (double)n) < 1e-6;
        }
    CHECK(ok);
}

static void check_rest(int64_t n, int64_t block, int64_t past)
{
    int64_t s, c;
    int ok = 1;
    for (c = 0; c < 3; c++)
        for (s = 0; s < past + n; s++)
            ok = ok && got.turned[c * (past + n) + s] == (s < past ? p[s * 3 + c] : at(n, 0, s - past, c));
    for (s = 0; s < block / 2; s++)
        ok = ok && got.even[s] == t[2 * s];
    for (s = 0; s < n; s++) {
        for (c = 0; c < 6; c++)
            total[s] += at(n, c / 3, s, c % 3) * gain[s];
        ok = ok && fabsf(got.sums[s] - total[s]) < 1e-3f;
    }
    CHECK(ok);
}

static void run_at(rlx_ctx *ctx, int64_t n, int64_t block, int64_t past)
{
    const int64_t values[3] = {n, block, past};
    int64_t shape[RLX_MAX_RANK];
    CHECK(rlx_set_symbols(ctx, values, 3) == RLX_OK);
    CHECK(rlx_input_shape(ctx, SIZES_INPUT_x, shape) == RLX_OK && shape[0] == 2 && shape[1] == n);
    CHECK(rlx_input_bytes(ctx, SIZES_INPUT_x) == (size_t)(2 * n * 3) * sizeof(float));
    CHECK(rlx_output_shape(ctx, SIZES_OUTPUT_longer, shape) == RLX_OK && shape[1] == 2 * n + 1);
    CHECK(shape[1] == SIZES_OUTPUT_longer_DIM1(n));
    CHECK(rlx_output_shape(ctx, SIZES_OUTPUT_even, shape) == RLX_OK && shape[0] == block / 2);
    CHECK(rlx_output_bytes(ctx, SIZES_OUTPUT_turned) == (size_t)(3 * (past + n)) * sizeof(float));
    CHECK(SIZES_OUTPUT_turned_DIM1(n, past) == past + n && SIZES_INPUT_t_DIM0(block) == block);
    memset(&got, 0xff, sizeof got);
    CHECK(sizes(ctx, x, t, p, got.y, got.mean, got.longer, got.even, got.turned, got.sums) == RLX_OK);
    CHECK(n == SEQ || got.y[2 * n * 3] != got.y[2 * n * 3]); // nothing is written behind the end
    check_products(n);
    check_rest(n, block, past);
}

static void test_first_values(const rlx_ctx *ctx)
{
    CHECK(value(ctx, SIZES_SYM_seq) == 6 && value(ctx, SIZES_SYM_block) == 16);
    CHECK(value(ctx, SIZES_SYM_past) == 8 && sizes_model.symbols->n == 3);
    CHECK(rlx_find_symbol(&sizes_model, "block") == (int)SIZES_SYM_block);
    CHECK(rlx_find_symbol(&sizes_model, "x") < 0 && rlx_find_symbol(&sizes_model, NULL) < 0);
    CHECK(rlx_find_symbol(NULL, "seq") < 0 && sizes_model.symbols->list[0].max == SEQ);
}

static void test_refused(rlx_ctx *ctx)
{
    const int64_t wrong[3] = {5, 6, 1}, many[4] = {5, 4, 1, 1};
    int64_t v = 77, shape[RLX_MAX_RANK];
    REFUSES(sizes_set_symbol(ctx, SIZES_SYM_seq, 0), RLX_ERR_RANGE);
    REFUSES(sizes_set_symbol(ctx, SIZES_SYM_seq, SEQ + 1), RLX_ERR_RANGE);
    REFUSES(sizes_set_symbol(ctx, SIZES_SYM_seq, -1), RLX_ERR_RANGE);
    REFUSES(sizes_set_symbol(ctx, SIZES_SYM_block, 6), RLX_ERR_RANGE);
    REFUSES(sizes_set_symbol(ctx, 3, 4), RLX_ERR_SYMBOL);
    REFUSES(sizes_set_symbol(NULL, 0, 4), RLX_ERR_NULL);
    REFUSES(rlx_set_symbol(NULL, 0, 4), RLX_ERR_NULL);
    REFUSES(rlx_set_symbols(ctx, wrong, 3), RLX_ERR_RANGE);
    REFUSES(rlx_set_symbols(ctx, many, 4), RLX_ERR_SYMBOL);
    REFUSES(rlx_set_symbols(ctx, NULL, 3), RLX_ERR_NULL);
    REFUSES(rlx_set_symbols(NULL, wrong, 3), RLX_ERR_NULL);
    REFUSES(rlx_get_symbol(ctx, 3, &v), RLX_ERR_SYMBOL);
    REFUSES(rlx_get_symbol(ctx, 0, NULL), RLX_ERR_NULL);
    REFUSES(rlx_input_shape(ctx, 3, shape), RLX_ERR_SLOT);
    REFUSES(rlx_input_shape(NULL, 0, shape), RLX_ERR_NULL);
    CHECK(v == 77 && rlx_input_bytes(ctx, 3) == 0 && rlx_output_room(ctx, 6) == 0);
    CHECK(strcmp(rlx_status_text(RLX_ERR_SYMBOL), "unknown symbol") == 0);
}

// By name the sizes must be those of now.
static void test_named(rlx_ctx *ctx)
{
    const int64_t values[3] = {3, RLX_KEEP, 0};
    const rlx_named in[3] = {{"x", x, sizeof(float) * 18}, {"p", p, 0}, {"t", t, sizeof t}};
    const rlx_named late[3] = {{"x", x, sizeof(float) * 24}, {"p", p, 0}, {"t", t, sizeof t}};
    const rlx_named_out out[1] = {{"longer", got.longer, sizeof(float) * 42}};
    const rlx_named_out large[1] = {{"longer", got.longer, sizeof got.longer}};
    const void *const slots[3] = {x, t, p};
    rlx_slot place[6];
    CHECK(rlx_set_symbol(ctx, SIZES_SYM_block, 16) == RLX_OK);
    CHECK(rlx_set_symbols(ctx, values, 3) == RLX_OK && value(ctx, SIZES_SYM_block) == 16);
    REFUSES(rlx_run_named(ctx, late, 3, out, 1), RLX_ERR_SIZE);
    REFUSES(rlx_run_named(ctx, in, 3, large, 1), RLX_ERR_SIZE);
    CHECK(rlx_run_named(ctx, in, 3, out, 1) == RLX_OK && got.longer[3] == x[0] && got.longer[12] == x[0]);
    CHECK(rlx_run_slots(ctx, slots, place) == RLX_OK && place[SIZES_OUTPUT_y].bytes == sizeof(float) * 18);
    CHECK(place[SIZES_OUTPUT_turned].bytes == sizeof(float) * 9);
}

// States have room for the largest size; a smaller one leaves what is behind it.
static void test_states(rlx_ctx *ctx)
{
    rlx_ctx other;
    CHECK(rlx_reset(ctx) == RLX_OK && value(ctx, SIZES_SYM_seq) == 3);
    memset(total, 0, sizeof total);
    run_at(ctx, 20, 4, 0);
    run_at(ctx, 3, 4, 1);
    CHECK(rlx_clone(&other, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(value(&other, SIZES_SYM_seq) == 3 && sizes_set_symbol(&other, SIZES_SYM_seq, 9) == RLX_OK);
    CHECK(value(ctx, SIZES_SYM_seq) == 3);
    run_at(ctx, 20, 16, 8);
    CHECK(rlx_read_state(ctx, "total", got.sums, sizeof got.sums) == RLX_OK);
    CHECK(memcmp(got.sums, total, sizeof total) == 0 || fabsf(got.sums[19] - total[19]) < 1e-3f);
}

int main(void)
{
    rlx_ctx ctx;
    int64_t n;
    make_inputs();
    CHECK(sizes_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    test_first_values(&ctx);
    REFUSES(rlx_run(&ctx), RLX_ERR_PARAM);
    CHECK(rlx_set_param(&ctx, "gain", gain, SEQ) == RLX_OK); // as large as it can be
    test_refused(&ctx);
    for (n = 1; n <= SEQ; n++)
        run_at(&ctx, n, 4 + 4 * (n % 4), n % 9);
    test_named(&ctx);
    test_states(&ctx);
    return failed;
}
