// SPDX-License-Identifier: Apache-2.0
// Looking inside a model (look.json with --keep inner --profile --embed-source): the table of kernels, times,
// values by name, and scratch memory that may be used between runs.
#include "check.h"
#include "look.h"

static RLX_ALIGNED unsigned char arena[LOOK_ARENA_BYTES], state[LOOK_STATE_BYTES];

static void fill(const rlx_ctx *ctx)
{
    float *x = (float *)rlx_input(ctx, LOOK_INPUT_x), *v = (float *)rlx_input(ctx, LOOK_INPUT_v);
    int i;
    for (i = 0; i < 256; i++)
        x[i] = (float)(i % 7) - 3;
    for (i = 0; i < 16; i++)
        v[i] = (float)i;
}

// Kernel r of the table, by what it computes.
static const rlx_kernel *find_kernel(const char *node)
{
    uint32_t i;
    for (i = 0; i < look_model.n_kernels; i++)
        if (strncmp(look_model.kernels[i].nodes, node, strlen(node)) == 0)
            return &look_model.kernels[i];
    return NULL;
}

static void test_table(void)
{
    const rlx_kernel *a = find_kernel("a = "), *b = find_kernel("b = "), *other = find_kernel("other = ");
    uint32_t i;
    CHECK(look_model.n_kernels == LOOK_KERNELS && a != NULL && b != NULL && other != NULL);
    if (a == NULL || b == NULL || other == NULL)
        return;
    CHECK(a->macs == 16 * 16 * 16 && a->flops >= 2 * a->macs && a->bytes >= 3 * 16 * 16 * 4);
    CHECK(b->level > a->level && other->macs == 0 && other->flops >= 16);
    for (i = 0; i < look_model.n_kernels; i++) {
        const rlx_kernel *k = &look_model.kernels[i];
        int has_name = 0;
        const char *const *line = k->source;
        for (; line != NULL && *line != NULL; line++)
            has_name = has_name || strstr(*line, "RLX_KERNEL void k") != NULL;
        CHECK(has_name && k->parts == 1);
    }
}

static uint64_t tick(void *user)
{
    return ++*(uint64_t *)user;
}

static void test_profile(rlx_ctx *ctx)
{
    uint64_t ticks[LOOK_KERNELS], now = 0, looks = 0;
    rlx_profile profile;
    uint32_t i;
    profile.clock = NULL, profile.user = &now, profile.ticks = ticks;
    CHECK(rlx_set_profile(ctx, &profile) == RLX_ERR_NULL && rlx_set_profile(NULL, NULL) == RLX_ERR_NULL);
    profile.clock = tick;
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK);
    for (i = 0; i < 3; i++) {
        fill(ctx);
        CHECK(rlx_run(ctx) == RLX_OK);
    }
    for (i = 0; i < LOOK_KERNELS; i++) { // the clock moves by 1 with every look at it
        const int is_packing = strstr(look_model.kernels[i].name, "_pack") != NULL; // only in the first run
        CHECK(is_packing ? ticks[i] == 1 : ticks[i] == 3);
        looks += ticks[i];
    }
    CHECK(profile.runs == 3 && now == looks + 3);
    CHECK(rlx_set_profile(ctx, NULL) == RLX_OK);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && profile.runs == 3);
    profile.ticks = NULL; // runs alone
    CHECK(rlx_set_profile(ctx, &profile) == RLX_OK && profile.runs == 0);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && profile.runs == 1 && profile.encoding == 0);
    CHECK(rlx_set_profile(ctx, NULL) == RLX_OK);
}

static void test_values(rlx_ctx *ctx)
{
    const float *inner = (const float *)rlx_value_data(ctx, "inner");
    int i, in_state = 0;
    float sum = 0;
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK && inner != NULL && look_model.n_kept == 1 && look_model.n_outputs == 2);
    for (i = 0; inner != NULL && i < 16; i++)
        sum += inner[i];
    CHECK(sum > 0.999f && sum < 1.001f); // a row of softmax, still there
    CHECK(rlx_find_value(&look_model, "sum", &in_state) == &look_model.states[0] && in_state == 1);
    CHECK(rlx_find_value(&look_model, "w", &in_state) == &look_model.params[0] && in_state == 1);
    CHECK(rlx_find_value(&look_model, "x", &in_state) == &look_model.inputs[0] && in_state == 0);
    CHECK(rlx_find_value(&look_model, "y", NULL) == &look_model.outputs[0]);
    CHECK(rlx_find_value(&look_model, "b", NULL) == NULL && rlx_find_value(NULL, "y", NULL) == NULL);
    CHECK(rlx_value_data(ctx, "a") == NULL && rlx_value_data(NULL, "y") == NULL);
}

// Whatever others write there between runs, it changes nothing.
static void test_scratch(rlx_ctx *ctx)
{
    size_t bytes = 0;
    float first[16], again[16];
    unsigned char *scratch = (unsigned char *)rlx_scratch(ctx, &bytes);
    CHECK(scratch != NULL && bytes > 0 && scratch + bytes <= arena + sizeof arena);
    CHECK(rlx_scratch(ctx, NULL) == NULL && rlx_scratch(NULL, &bytes) == NULL);
    fill(ctx);
    CHECK(rlx_run(ctx) == RLX_OK);
    memcpy(first, rlx_output(ctx, 0), sizeof first);
    memset(scratch, 0xFF, bytes);
    CHECK(memcmp(first, rlx_output(ctx, 0), sizeof first) == 0);
    fill(ctx);
    memset(scratch, 0xFF, bytes);
    CHECK(rlx_run(ctx) == RLX_OK);
    memcpy(again, rlx_output(ctx, 0), sizeof again);
    CHECK(memcmp(first, again, sizeof first) == 0);
}

int main(void)
{
    rlx_ctx ctx;
    float w[256];
    int i;
    for (i = 0; i < 256; i++)
        w[i] = (float)(i % 5) * 0.25f;
    CHECK(look_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    CHECK(rlx_set_param(&ctx, "w", w, 256) == RLX_OK);
    test_table();
    test_profile(&ctx);
    test_values(&ctx);
    test_scratch(&ctx);
    return failed;
}
