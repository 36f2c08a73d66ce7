// SPDX-License-Identifier: Apache-2.0
// Parameters (setparam.json with an open size n): values of other types, scaled integers, blocks and parts,
// and every way to use them wrongly. A parameter with an initial value is one all the same: it is never
// folded.
#include "check.h"
#include "setparam.h"

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[SETPARAM_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[SETPARAM_STATE_BYTES];
} Blocks;

static Blocks one, before;

enum { N = 128 };
static const float some[4] = {1, -2.5f, 0.333333343f, 65520};

static const void *at(const rlx_ctx *ctx, const char *name)
{
    return rlx_handle_data(ctx, name);
}

// An f16 from a double, one that it holds exactly.
static uint16_t half_of(double v)
{
    uint16_t h = 0;
    CHECK(rlx_convert(&h, RLX_F16, &v, RLX_F64, 1) == RLX_OK);
    return h;
}

static void test_types(rlx_ctx *ctx)
{
    double d[4];
    float f[N], back[N];
    uint16_t h[N];
    int32_t whole[4] = {1, 2, 3, 1 << 30};
    int i;
    for (i = 0; i < 4; i++)
        d[i] = 1.0 + i * 0x1p-40;
    for (i = 0; i < N; i++)
        f[i] = (float)i * 0.3f - 7;
    REFUSES(rlx_set_param_typed(ctx, "single", f, sizeof f, RLX_I32), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_typed(ctx, "single", f, sizeof f, RLX_F8E5M2), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_typed(ctx, "whole", some, sizeof some, RLX_F32), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_typed(ctx, "single", f, sizeof f - 4, RLX_F32), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_typed(ctx, "single", f, sizeof f, RLX_F16), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_typed(ctx, "half", h, sizeof h - 1, RLX_F16), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_typed(ctx, "nobody", f, sizeof f, RLX_F32), RLX_ERR_NAME);
    REFUSES(rlx_set_param_typed(ctx, "x", f, sizeof f, RLX_F32), RLX_ERR_NAME);
    REFUSES(rlx_set_param_typed(ctx, NULL, f, sizeof f, RLX_F32), RLX_ERR_NULL);
    REFUSES(rlx_set_param_typed(ctx, "single", NULL, sizeof f, RLX_F32), RLX_ERR_NULL);
    REFUSES(rlx_set_param_typed(NULL, "single", f, sizeof f, RLX_F32), RLX_ERR_NULL);
    REFUSES(rlx_set_param(ctx, "whole", f, 4), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param(ctx, "packed", f, 360), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param(ctx, "half", f, N / 2), RLX_ERR_SIZE);
    REFUSES(rlx_set_param(ctx, "single", f, N + 1), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_bytes(ctx, "single", f, 3), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_bytes(ctx, "nobody", f, sizeof f), RLX_ERR_NAME);
    REFUSES(rlx_set_param_bytes(ctx, "single", NULL, sizeof f), RLX_ERR_NULL);
    CHECK(strcmp(rlx_missing_param(ctx), "single") == 0);
    CHECK(rlx_set_param_typed(ctx, "single", f, sizeof f, RLX_F32) == RLX_OK);
    CHECK(memcmp(at(ctx, "single"), f, sizeof f) == 0);
    CHECK(rlx_set_param_typed(ctx, "half", f, sizeof f, RLX_F32) == RLX_OK);
    CHECK(rlx_convert(back, RLX_F32, at(ctx, "half"), RLX_F16, N) == RLX_OK);
    for (i = 0; i < N; i++)
        CHECK(back[i] - f[i] < 0.02f && f[i] - back[i] < 0.02f);
    CHECK(strcmp(rlx_missing_param(ctx), "brain") == 0);
    CHECK(rlx_set_param_typed(ctx, "brain", some, sizeof some, RLX_F32) == RLX_OK);
    CHECK(rlx_convert(back, RLX_F32, at(ctx, "brain"), RLX_BF16, 4) == RLX_OK);
    CHECK(back[0] == 1 && back[1] == -2.5f && back[2] == 0.333984375f && back[3] == 65536);
    CHECK(rlx_set_param_typed(ctx, "double", some, sizeof some, RLX_F32) == RLX_OK);
    CHECK(memcmp(at(ctx, "double"), d, 8) == 0 && ((const double *)at(ctx, "double"))[2] == (double)some[2]);
    CHECK(rlx_set_param_typed(ctx, "double", d, sizeof d, RLX_F64) == RLX_OK);
    CHECK(memcmp(at(ctx, "double"), d, sizeof d) == 0);
    REFUSES(rlx_run(ctx), RLX_ERR_PARAM);
    CHECK(strcmp(rlx_missing_param(ctx), "whole") == 0);
    CHECK(rlx_set_param_typed(ctx, "whole", whole, sizeof whole, RLX_I32) == RLX_OK);
    CHECK(strcmp(rlx_missing_param(ctx), "packed") == 0);
}

// From f64, f16 and bf16; what is too large for f16 is infinite.
static void test_floats(rlx_ctx *ctx)
{
    double d[N];
    uint16_t h[N];
    float f[N];
    int i;
    for (i = 0; i < N; i++) {
        d[i] = i == 5 ? 1e300 : i * 0.25;
        h[i] = half_of(i * 0.25);
    }
    CHECK(rlx_set_param_typed(ctx, "half", d, sizeof d, RLX_F64) == RLX_OK);
    CHECK(((const uint16_t *)at(ctx, "half"))[4] == 0x3c00 &&
          ((const uint16_t *)at(ctx, "half"))[5] == 0x7c00);
    CHECK(rlx_set_param_typed(ctx, "half", h, sizeof h, RLX_F16) == RLX_OK);
    CHECK(memcmp(at(ctx, "half"), h, sizeof h) == 0);
    CHECK(rlx_set_param_typed(ctx, "single", h, sizeof h, RLX_F16) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK && f[4] == 1 && f[127] == 31.75f);
    CHECK(rlx_set_param_typed(ctx, "single", h, sizeof h, RLX_BF16) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK && f[4] == 0.0078125f);
}

static void test_scaled(rlx_ctx *ctx)
{
    static const float scale[2] = {0.5f, -3};
    float many[64], f[N];
    int8_t q[N];
    int i;
    for (i = 0; i < N; i++)
        q[i] = (int8_t)(i * 2 - 128);
    for (i = 0; i < 64; i++)
        many[i] = (float)i * 0.01f;
    REFUSES(rlx_set_param_scaled(ctx, "whole", q, 4, scale, 1, 0), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_scaled(ctx, "single", q, N - 1, scale, 1, 0), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_scaled(ctx, "single", q, N, scale, 0, 0), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_scaled(ctx, "single", q, N, scale, 2, 1), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_scaled(ctx, "single", q, N, scale, 2, 2), RLX_ERR_RANGE);
    REFUSES(rlx_set_param_scaled(ctx, "single", q, N, scale, 2, -3), RLX_ERR_RANGE);
    REFUSES(rlx_set_param_scaled(ctx, "nobody", q, N, scale, 1, 0), RLX_ERR_NAME);
    REFUSES(rlx_set_param_scaled(ctx, "single", NULL, N, scale, 1, 0), RLX_ERR_NULL);
    REFUSES(rlx_set_param_scaled(ctx, "single", q, N, NULL, 1, 0), RLX_ERR_NULL);
    CHECK(rlx_set_param_scaled(ctx, "single", q, N, scale, 1, 77) == RLX_OK); // one scale has no axis
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK && f[0] == -64 && f[127] == 63);
    CHECK(rlx_set_param_scaled(ctx, "single", q, N, scale, 2, 0) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK && f[63] == -1 && f[64] == 0 &&
          f[127] == -378);
    CHECK(rlx_set_param_scaled(ctx, "single", q, N, many, 64, -1) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK);
    for (i = 0; i < N; i++)
        CHECK(f[i] == (float)((double)q[i] * (double)many[i % 64]));
    CHECK(rlx_set_param_scaled(ctx, "half", q, N, scale, 1, 0) == RLX_OK);
    CHECK(((const uint16_t *)at(ctx, "half"))[0] == half_of(-64));
}

static void test_range(rlx_ctx *ctx)
{
    const float two[2] = {8, 9};
    float f[N];
    REFUSES(rlx_set_param_range(ctx, "single", 2, two, 4), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_range(ctx, "single", 4, two, 3), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_range(ctx, "single", N * 4 - 4, two, 8), RLX_ERR_RANGE);
    REFUSES(rlx_set_param_range(ctx, "single", (size_t)-4, two, 8), RLX_ERR_RANGE);
    REFUSES(rlx_set_param_range(ctx, "nobody", 0, two, 8), RLX_ERR_NAME);
    REFUSES(rlx_set_param_range(ctx, "single", 0, NULL, 8), RLX_ERR_NULL);
    REFUSES(rlx_set_param_range(NULL, "single", 0, two, 8), RLX_ERR_NULL);
    CHECK(rlx_set_param_range(ctx, "single", N * 4 - 8, two, 8) == RLX_OK);
    CHECK(rlx_set_param_range(ctx, "single", N * 4, two, 0) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK && f[126] == 8 && f[127] == 9 && f[125] != 8);
    CHECK(rlx_clear_handle(ctx, "single") == RLX_OK);
    REFUSES(rlx_set_param_range(ctx, "single", 0, two, 8), RLX_ERR_PARAM);
}

static void test_blocks(rlx_ctx *ctx)
{
    unsigned char q8[4 * 34], q4[4 * 18];
    float f[N];
    uint16_t d;
    int i;
    for (i = 0; i < 4; i++) {
        int j;
        d = half_of(0.5 + i);
        memcpy(q8 + i * 34, &d, 2);
        memcpy(q4 + i * 18, &d, 2);
        for (j = 0; j < 32; j++)
            q8[i * 34 + 2 + j] = (unsigned char)(j * 8 + i);
        for (j = 0; j < 16; j++)
            q4[i * 18 + 2 + j] = (unsigned char)(j << 4 | (15 - j));
    }
    REFUSES(rlx_set_param_blocks(ctx, "single", q8, sizeof q8 - 1, RLX_Q8_0), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_blocks(ctx, "single", q8, sizeof q8, RLX_Q4_0), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_blocks(ctx, "double", q8, 34, RLX_Q8_0), RLX_ERR_SIZE); // its last axis is 4
    REFUSES(rlx_set_param_blocks(ctx, "whole", q8, 34, RLX_Q8_0), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_blocks(ctx, "single", q8, sizeof q8, RLX_BLOCK_KINDS), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_blocks(ctx, "nobody", q8, sizeof q8, RLX_Q8_0), RLX_ERR_NAME);
    REFUSES(rlx_set_param_blocks(ctx, "single", NULL, sizeof q8, RLX_Q8_0), RLX_ERR_NULL);
    CHECK(rlx_set_param_blocks(ctx, "single", q8, sizeof q8, RLX_Q8_0) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK);
    for (i = 0; i < N; i++)
        CHECK(f[i] == (0.5f + (float)(i / 32)) * (float)(int8_t)(unsigned char)(i % 32 * 8 + i / 32));
    CHECK(rlx_set_param_blocks(ctx, "single", q4, sizeof q4, RLX_Q4_0) == RLX_OK);
    CHECK(rlx_read_handle(ctx, "single", f, sizeof f) == RLX_OK);
    for (i = 0; i < N; i++)
        CHECK(f[i] == (0.5f + (float)(i / 32)) * (float)(i % 32 < 16 ? 15 - i % 32 - 8 : i % 32 - 16 - 8));
    CHECK(rlx_set_param_blocks(ctx, "half", q4, sizeof q4, RLX_Q4_0) == RLX_OK);
    CHECK(((const uint16_t *)at(ctx, "half"))[127] == half_of(3.5 * 7));
}

// Blocks of a parameter that has blocks stay what they are. Column i of the product: d is i / 4, element j is
// (i + j) % 16 - 8, so that each setting gives other results.
static void set_packed(rlx_ctx *ctx, int shift, float *expected)
{
    unsigned char q4[20 * 18];
    int i, j;
    for (i = 0; i < 20; i++) {
        const uint16_t d = half_of(0.25 * i);
        memcpy(q4 + i * 18, &d, 2);
        expected[i] = 0;
        for (j = 0; j < 16; j++) {
            const int low = (i + j + shift) % 16, high = (i + j + 7) % 16;
            q4[i * 18 + 2 + j] = (unsigned char)(high << 4 | low);
            expected[i] += 0.25f * (float)i * (float)((low - 8) * (j - 3) + (high - 8) * (j + 13));
        }
    }
    REFUSES(rlx_set_param_blocks(ctx, "packed", q4, sizeof q4 - 18, RLX_Q4_0), RLX_ERR_SIZE);
    REFUSES(rlx_set_param_blocks(ctx, "packed", q4, sizeof q4, RLX_Q8_0), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_blocks(ctx, "packed", q4, sizeof q4, RLX_BLOCK_KINDS), RLX_ERR_DTYPE);
    REFUSES(rlx_set_param_typed(ctx, "packed", q4, sizeof q4, RLX_F16), RLX_ERR_DTYPE);
    CHECK(rlx_set_param_blocks(ctx, "packed", q4, sizeof q4, RLX_Q4_0) == RLX_OK);
    CHECK(memcmp(at(ctx, "packed"), q4, sizeof q4) == 0);
}

static int run(rlx_ctx *ctx, int64_t n)
{
    float *x = (float *)rlx_input(ctx, SETPARAM_INPUT_x);
    int64_t i;
    for (i = 0; i < n * 4; i++)
        x[i] = (float)(i + 1);
    return rlx_run(ctx) == RLX_OK;
}

// A product with blocks: exact, but for CPUs with dot products of bytes, where rows are rounded to whole
// numbers first: within 1e-6 of its largest magnitude.
static int is_product(const float *got, const float *want, int n)
{
    float largest = 0, bound;
    int i, ok = 1;
    for (i = 0; i < n; i++)
        largest = want[i] > largest ? want[i] : -want[i] > largest ? -want[i] : largest;
    bound = IS_NATIVE ? 1e-6f * largest : 0;
    for (i = 0; i < n; i++)
        ok = ok && got[i] - want[i] <= bound && want[i] - got[i] <= bound;
    return ok;
}

static const float *output(const rlx_ctx *ctx, uint32_t slot)
{
    return (const float *)rlx_output(ctx, slot);
}

// The initial value is a value like others; what is made of parameters follows them, and sizes that are set.
static void test_runs(rlx_ctx *ctx)
{
    static const double ones[4] = {1, 2, 3, 4};
    static const float four[4] = {1, -2.5f, 1.00390625f, 3.4e38f}; // bf16: exactly, a tie, beyond the largest
    float w[12] = {0}, f[N];
    int64_t n;
    int i;
    for (i = 0; i < N; i++)
        f[i] = i < 64 ? 1.0f : 2.0f;
    CHECK(rlx_set_param(ctx, "single", f, N) == RLX_OK);
    CHECK(rlx_set_param(ctx, "half", f, N) == RLX_OK && rlx_set_param(ctx, "brain", four, 4) == RLX_OK);
    CHECK(rlx_set_param(ctx, "double", four, 4) == RLX_OK);
    CHECK(((const double *)at(ctx, "double"))[2] == 1.00390625);
    CHECK(rlx_set_param_typed(ctx, "double", ones, sizeof ones, RLX_F64) == RLX_OK);
    set_packed(ctx, 9, f);
    CHECK(rlx_missing_param(ctx) == NULL);
    for (n = 1; n <= 8; n += 3) {
        CHECK(setparam_set_symbol(ctx, SETPARAM_SYM_n, n) == RLX_OK);
        CHECK(run(ctx, n) && output(ctx, SETPARAM_OUTPUT_y)[0] == 1 &&
              output(ctx, SETPARAM_OUTPUT_y)[1] == 2);
        CHECK(output(ctx, SETPARAM_OUTPUT_total)[0] == 128 && output(ctx, SETPARAM_OUTPUT_total)[1] == 256);
        CHECK(((const double *)rlx_output(ctx, SETPARAM_OUTPUT_times))[3] == (double)(4 * n));
        CHECK(output(ctx, SETPARAM_OUTPUT_seen_brain)[1] == -2.5f &&
              output(ctx, SETPARAM_OUTPUT_seen_brain)[2] == 1 &&
              output(ctx, SETPARAM_OUTPUT_seen_brain)[3] > 3.4e38f);
    }
    w[0] = w[3] = 5;
    CHECK(rlx_set_param(ctx, "w", w, 12) == RLX_OK);
    CHECK(run(ctx, n - 3) && output(ctx, SETPARAM_OUTPUT_y)[0] == 15 &&
          output(ctx, SETPARAM_OUTPUT_y)[1] == 0);
    CHECK(output(ctx, SETPARAM_OUTPUT_total)[1] == 256);
    f[0] = 11;
    CHECK(rlx_set_param_range(ctx, "single", 0, f, 4) == RLX_OK);
    CHECK(run(ctx, n - 3) && output(ctx, SETPARAM_OUTPUT_total)[0] == 138);
    CHECK(run(ctx, n - 3) && output(ctx, SETPARAM_OUTPUT_total)[0] == 138);
    CHECK(((const int32_t *)rlx_output(ctx, SETPARAM_OUTPUT_twice))[2] == 6);
    for (i = 0; i < 3; i++) {
        float expected[20];
        set_packed(ctx, i, expected);
        CHECK(run(ctx, n - 3) && is_product(output(ctx, SETPARAM_OUTPUT_product), expected, 20));
    }
}

int main(void)
{
    rlx_ctx ctx;
    memset(&one, 0xFF, sizeof one);
    CHECK(setparam_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    test_types(&ctx);
    test_floats(&ctx);
    test_scaled(&ctx);
    test_range(&ctx);
    test_blocks(&ctx);
    test_runs(&ctx);
    return failed;
}
