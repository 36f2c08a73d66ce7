// SPDX-License-Identifier: Apache-2.0
// rlx_moe.h where weights are in blocks (GGML's, and quantised in groups), beside floats, and layers have
// different numbers of experts: captures, masks, statistics (tokens by residency among them), sources and
// slots. The model (moe_rows_model.py) takes the experts of each row as inputs, so that all is known here;
// rows.h has what it must compute, as the decoded weights give it.
#include "check.h"
#include "moe.h"
#include "rows.h"
#include <math.h>
#include <stdio.h>

enum { ROWS = 4, EACH = 2, LAYERS = 4, OUTPUTS = 7, MOST = ROWS * EACH * 16 };
enum { OF3, OF12, OF5, OF2 }; // what layers are called here

typedef struct Output {
    uint32_t slot;
    int layer, columns;
    const double *want;
} Output;

static const Output outputs[OUTPUTS] = {
    {MOE_OUTPUT_y, OF3, 4, want_y},  {MOE_OUTPUT_u, OF3, 5, want_u},  {MOE_OUTPUT_v, OF3, 6, want_v},
    {MOE_OUTPUT_z, OF12, 4, want_z}, {MOE_OUTPUT_s, OF5, 16, want_s}, {MOE_OUTPUT_t, OF5, 8, want_t},
    {MOE_OUTPUT_p, OF2, 4, want_p}};
static const int32_t *const chosen[LAYERS] = {chosen_of3, chosen_of12, chosen_of5, chosen_of2};
static const uint32_t n_experts[LAYERS] = {3, 12, 5, 2};

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[MOE_ARENA_BYTES + 64];
    RLX_ALIGNED unsigned char state[MOE_STATE_BYTES + 64];
#ifdef MOE_MOE_SLOTS
    RLX_ALIGNED unsigned char pool[MOE_MOE_POOL_BYTES + 64];
#endif
} Blocks;

static Blocks one, two, before;
static RLX_ALIGNED unsigned char experts[MOE_MOE_BYTES + 65536];
static size_t experts_bytes;
static uint32_t number[LAYERS]; // of the layers, by their numbers of experts
static float first[OUTPUTS][MOST]; // of the first run
static int rows = ROWS;

static void run(rlx_ctx *ctx)
{
    float *x = (float *)rlx_input(ctx, MOE_INPUT_x), *xw = (float *)rlx_input(ctx, MOE_INPUT_xw);
    const size_t bytes = (size_t)(rows * EACH) * sizeof(int32_t);
    int i;
    for (i = 0; i < rows * 32; i++)
        x[i] = (float)(i % 7 - 3);
    for (i = 0; i < rows * 256; i++)
        xw[i] = (float)(i % 11 - 5) / 4;
    memcpy(rlx_input(ctx, MOE_INPUT_of3), chosen_of3, bytes);
    memcpy(rlx_input(ctx, MOE_INPUT_of12), chosen_of12, bytes);
    memcpy(rlx_input(ctx, MOE_INPUT_of5), chosen_of5, bytes);
    memcpy(rlx_input(ctx, MOE_INPUT_of2), chosen_of2, bytes);
    memcpy(rlx_input(ctx, MOE_INPUT_own), own_weights, sizeof own_weights);
    CHECK(rlx_run(ctx) == RLX_OK);
}

static const float *output(const rlx_ctx *ctx, int o)
{
    return (const float *)rlx_output(ctx, outputs[o].slot);
}

// All outputs are what the decoded weights give.
static void has_values(const rlx_ctx *ctx)
{
    int o, i;
    for (o = 0; o < OUTPUTS; o++)
        for (i = 0; i < rows * EACH * outputs[o].columns; i++)
            CHECK(fabs(output(ctx, o)[i] - outputs[o].want[i]) <= 1e-4 * (1 + fabs(outputs[o].want[i])));
}

static void keep(const rlx_ctx *ctx)
{
    int o;
    for (o = 0; o < OUTPUTS; o++)
        memcpy(first[o], output(ctx, o), (size_t)(ROWS * EACH * outputs[o].columns) * sizeof(float));
}

// What the runs before gave, to the bit.
static void has_bits(const rlx_ctx *ctx)
{
    int o;
    for (o = 0; o < OUTPUTS; o++)
        CHECK(memcmp(output(ctx, o), first[o], (size_t)(rows * EACH * outputs[o].columns) *
                                                    sizeof(float)) == 0);
}

// Rows whose expert is in a layer's bits are as before, all others of layers with weights of their own are 0.
static void has_only(const rlx_ctx *ctx, const unsigned *kept)
{
    int o, r, i;
    for (o = 0; o < OUTPUTS; o++)
        for (r = 0; r < ROWS * EACH; r++) {
            const int32_t e = chosen[outputs[o].layer][r];
            const int n = outputs[o].columns, has = outputs[o].layer == OF2 ||
                                                    (e >= 0 && (kept[outputs[o].layer] >> e & 1) != 0);
            for (i = 0; i < n; i++)
                CHECK(output(ctx, o)[r * n + i] == (has ? first[o][r * n + i] : 0));
        }
}

static void has_stats(const rlx_ctx *ctx, int layer, const uint64_t *want)
{
    rlx_moe_stats s;
    memset(&s, 0xff, sizeof s);
    CHECK(rlx_moe_get_stats(ctx, number[layer], &s) == RLX_OK);
    CHECK(s.runs == want[0] && s.tokens == want[1] && s.rows == want[2]);
    CHECK(s.resident == want[3] && s.away == want[4] && s.rows_away == want[5] && s.tokens_away == want[6]);
}

// --- slots and sources -----------------------------------------------------------------------------

// As a program that maps the file has them, or the end of the weights.
static void read_experts(const rlx_ctx *ctx)
{
#ifdef MOE_MOE_SLOTS
    FILE *f = fopen("moe.experts", "rb");
    experts_bytes = f != NULL ? fread(experts, 1, sizeof experts, f) : 0;
    if (f != NULL)
        fclose(f);
    CHECK(experts_bytes == MOE_MOE_BYTES);
    CHECK(rlx_check_moe_source(ctx->model, experts, experts_bytes) == RLX_OK);
#else
    experts_bytes = ctx->model->moe->bytes;
    CHECK(experts_bytes <= sizeof experts);
    memcpy(experts, ctx->weights + ctx->model->moe->begin, experts_bytes);
    CHECK(rlx_check_moe_source(ctx->model, experts, experts_bytes) == RLX_ERR_WEIGHTS);
#endif
}

static void set_source(rlx_ctx *ctx)
{
    REFUSES(rlx_set_moe_source(ctx, experts, experts_bytes - 64), RLX_ERR_WEIGHTS);
    REFUSES(rlx_set_moe_source(ctx, experts, 0), RLX_ERR_WEIGHTS);
    REFUSES(rlx_set_moe_source(ctx, experts + 4, experts_bytes), RLX_ERR_ALIGNMENT);
#ifdef MOE_MOE_SLOTS
    experts[experts_bytes - 1] ^= 1; // of another compile
    REFUSES(rlx_set_moe_source(ctx, experts, experts_bytes), RLX_ERR_WEIGHTS);
    experts[experts_bytes - 1] ^= 1;
    experts[0] ^= 1; // found by the call that reads everything
    CHECK(rlx_check_moe_source(ctx->model, experts, experts_bytes) == RLX_ERR_WEIGHTS);
    experts[0] ^= 1;
#endif
    CHECK(rlx_set_moe_source(ctx, experts, experts_bytes) == RLX_OK);
}

#ifdef MOE_MOE_SLOTS
// Every expert goes through a slot once, among them those of other layers and kinds: no bit changes.
static void test_turns(rlx_ctx *ctx)
{
    uint32_t layer, e, slot = 0;
    for (layer = 0; layer < 3; layer++)
        for (e = 0; e < n_experts[layer]; e++, slot++) {
            CHECK(rlx_moe_load(ctx, number[layer], e, slot % MOE_MOE_SLOTS) == RLX_OK);
            run(ctx);
            has_bits(ctx);
        }
}

static void test_sentences(rlx_ctx *ctx)
{
    static const char own_weights_text[] =
        "layer of experts 'p' takes no slots: its weights are no constants";
    rlx_error error;
    CHECK(rlx_set_error(ctx, &error) == RLX_OK);
    CHECK(rlx_moe_load(ctx, number[OF2], 0, 0) == RLX_ERR_SLOT); // weights that are an input
    CHECK(strcmp(rlx_error_text(ctx), own_weights_text) == 0);
    CHECK(rlx_moe_load(ctx, number[OF3], 3, 0) == RLX_ERR_RANGE);
    CHECK(strcmp(rlx_error_text(ctx), "expert: 3 is out of range, the limit is 2") == 0);
    CHECK(rlx_set_error(ctx, NULL) == RLX_OK);
}

static void test_slots(rlx_ctx *ctx)
{
    static const uint64_t loaded[LAYERS][7] = {
        {1, 4, 7, 1, 2, 3, 3}, {1, 3, 6, 1, 5, 5, 3}, {1, 4, 7, 1, 3, 4, 4}, {1, 4, 7, 2, 0, 0, 0}};
    static const unsigned kept[LAYERS] = {1u << 2, 1u << 11, 1u << 1, 3};
    int layer;
    REFUSES(rlx_moe_load(ctx, number[OF3], 0, 0), RLX_ERR_WEIGHTS); // no pool
    REFUSES(rlx_set_moe_pool(ctx, one.pool, MOE_MOE_POOL_BYTES - 1), RLX_ERR_SIZE);
    REFUSES(rlx_set_moe_pool(ctx, one.pool + 4, MOE_MOE_POOL_BYTES), RLX_ERR_ALIGNMENT);
    CHECK(rlx_set_moe_pool(ctx, one.pool, MOE_MOE_POOL_BYTES) == RLX_OK);
    REFUSES(rlx_moe_load(ctx, LAYERS, 0, 0), RLX_ERR_RANGE);
    for (layer = 0; layer < 3; layer++) {
        REFUSES(rlx_moe_load(ctx, number[layer], n_experts[layer], 0), RLX_ERR_RANGE);
        REFUSES(rlx_moe_load(ctx, number[layer], UINT32_MAX, 0), RLX_ERR_RANGE);
        REFUSES(rlx_moe_load(ctx, number[layer], 0, MOE_MOE_SLOTS), RLX_ERR_SLOT);
        REFUSES(rlx_moe_load(ctx, number[layer], 0, UINT32_MAX), RLX_ERR_SLOT);
    }
    REFUSES(rlx_moe_load(ctx, number[OF2], 0, 0), RLX_ERR_SLOT); // weights that are an input
    test_sentences(ctx);
    test_turns(ctx);
    CHECK(rlx_set_moe_pool(ctx, one.pool, MOE_MOE_POOL_BYTES) == RLX_OK);
    CHECK(rlx_moe_reset_stats(ctx) == RLX_OK);
    CHECK(rlx_moe_load(ctx, number[OF3], 2, 0) == RLX_OK && rlx_moe_load(ctx, number[OF5], 1, 2) == RLX_OK);
    CHECK(rlx_moe_load(ctx, number[OF12], 11, 1) == RLX_OK);
    run(ctx);
    has_bits(ctx);
    for (layer = 0; layer < LAYERS; layer++)
        has_stats(ctx, layer, loaded[layer]);
    memset(experts, 0, experts_bytes); // slots have all parts of their experts
    run(ctx);
    has_only(ctx, kept);
}
#else
static void test_slots(rlx_ctx *ctx)
{
    static const unsigned kept[LAYERS] = {1u << 2, 1u << 11 | 1u, 1u << 1, 3};
    REFUSES(rlx_set_moe_pool(ctx, two.state, sizeof two.state), RLX_ERR_SLOT);
    REFUSES(rlx_moe_load(ctx, number[OF3], 0, 0), RLX_ERR_SLOT);
    run(ctx);
    has_bits(ctx);
    memset(experts, 0, experts_bytes);
    CHECK(rlx_set_moe_resident_layer(ctx, number[OF3], (const unsigned char *)"\x04", 1) == RLX_OK);
    CHECK(rlx_set_moe_resident_layer(ctx, number[OF12], (const unsigned char *)"\x01\x08", 2) == RLX_OK);
    CHECK(rlx_set_moe_resident_layer(ctx, number[OF5], (const unsigned char *)"\x02", 1) == RLX_OK);
    run(ctx);
    if (ctx->model->device == NULL)
        has_only(ctx, kept); // read in the weights, the others in the source
    else
        has_bits(ctx); // a device has all of them
}
#endif

static void test_clone(const rlx_ctx *ctx)
{
    rlx_ctx copy;
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    run(&copy);
    has_bits(&copy);
    CHECK(rlx_close(&copy) == RLX_OK);
}

// --- masks and statistics ----------------------------------------------------------------------------

static void test_choices(const rlx_ctx *ctx)
{
    int layer;
    for (layer = 0; layer < LAYERS; layer++) {
        size_t count = 0, i;
        const int32_t *choice = rlx_moe_choices(ctx, number[layer], &count);
        CHECK(choice != NULL && count == ROWS * EACH);
        for (i = 0; choice != NULL && i < count; i++)
            CHECK(choice[i] == (chosen[layer][i] == (int32_t)n_experts[layer] ? -1 : chosen[layer][i]));
    }
}

// Resident: 0 and 2 of 3; 0, 2, 8, 9 and 11 of 12; 0 and 2 of 5; 0 of 2. With slots, none that weights have.
static void test_masks(rlx_ctx *ctx)
{
    static const unsigned char mask[2] = {0x05, 0x0b};
    static const uint64_t all[LAYERS][7] = {
        {1, 4, 7, 3, 0, 0, 0}, {1, 3, 6, 6, 0, 0, 0}, {1, 4, 7, 4, 0, 0, 0}, {1, 4, 7, 2, 0, 0, 0}};
    static const uint64_t some[LAYERS][7] = {
        {1, 4, 7, 2, 1, 1, 1}, {1, 3, 6, 4, 2, 2, 2}, {1, 4, 7, 1, 3, 5, 3}, {1, 4, 7, 1, 1, 3, 2}};
#ifdef MOE_MOE_SLOTS
    static const uint64_t none[LAYERS][7] = {
        {1, 4, 7, 0, 3, 7, 4}, {1, 3, 6, 0, 6, 6, 3}, {1, 4, 7, 0, 4, 7, 4}, {1, 4, 7, 2, 0, 0, 0}};
#endif
    int layer, i;
    REFUSES(rlx_set_moe_resident(ctx, mask, 1), RLX_ERR_SIZE); // the bits of the layer with the most experts
    REFUSES(rlx_set_moe_resident(ctx, mask, 3), RLX_ERR_SIZE);
    for (i = 0; i < 3; i++) {
        CHECK(rlx_moe_reset_stats(ctx) == RLX_OK);
        CHECK(rlx_set_moe_resident(ctx, i == 1 ? mask : NULL, i == 1 ? 2 : 0) == RLX_OK);
        run(ctx);
        has_bits(ctx);
        for (layer = 0; layer < LAYERS; layer++) {
            const uint64_t *want = i == 1 ? some[layer] : all[layer];
#ifdef MOE_MOE_SLOTS
            want = layer != OF2 ? none[layer] : want;
#endif
            has_stats(ctx, layer, want);
        }
    }
}

#ifdef MOE_SYM_rows
static void test_sizes(rlx_ctx *ctx)
{
    for (rows = 1; rows <= ROWS; rows++) {
        CHECK(moe_set_symbol(ctx, MOE_SYM_rows, rows) == RLX_OK);
        memset(one.arena, 0xff, sizeof one.arena);
        run(ctx);
        has_values(ctx);
    }
    rows = ROWS;
}
#else
static void test_sizes(rlx_ctx *ctx)
{
    (void)ctx;
}
#endif

static void find_layers(const rlx_ctx *ctx)
{
    uint32_t layer, i;
    for (layer = 0; layer < LAYERS; layer++)
        for (number[layer] = LAYERS, i = 0; i < LAYERS; i++)
            if (ctx->model->moe->layers[i].n_experts == n_experts[layer])
                number[layer] = i;
}

int main(void)
{
    rlx_ctx own, *const ctx = &own;
    CHECK(moe_init(ctx, one.arena, MOE_ARENA_BYTES, one.state, MOE_STATE_BYTES) == RLX_OK);
    CHECK(ctx->model->moe != NULL && ctx->model->moe->n_layers == LAYERS && MOE_MOE_LAYERS == LAYERS);
    find_layers(ctx);
    read_experts(ctx);
#ifdef MOE_MOE_SLOTS
    CHECK(rlx_run(ctx) == RLX_ERR_WEIGHTS);
    set_source(ctx);
#endif
    CHECK(rlx_moe_capture(ctx, 1) == RLX_OK);
    run(ctx);
    has_values(ctx);
    keep(ctx);
    test_choices(ctx);
    test_sizes(ctx);
    test_masks(ctx);
    set_source(ctx);
    test_masks(ctx);
    test_clone(ctx);
    test_slots(ctx);
    CHECK(rlx_close(ctx) == RLX_OK);
    return failed;
}
