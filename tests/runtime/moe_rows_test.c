// SPDX-License-Identifier: Apache-2.0
// rlx_moe.h where weights are in blocks (GGML's, and quantised in groups) and layers have different numbers
// of experts: captures, masks and statistics, tokens by residency among them. The model (moe_rows_model.py)
// takes the experts of each row as inputs, so that all is known here.
#include "check.h"
#include "moe.h"
#include <stdio.h>

enum { ROWS = 4, EACH = 2, LAYERS = 2 };
static const int32_t chosen[LAYERS][ROWS * EACH] = {
    {0, 2, 1, 2, -1, 0, 2, 2}, // of 3
    {11, 0, 3, 8, 9, 10, -1, 12}, // of 12: the last row has none
};

static RLX_ALIGNED unsigned char arena[MOE_ARENA_BYTES + 64], state[MOE_STATE_BYTES + 64];

static void run(rlx_ctx *ctx)
{
    float *x = (float *)rlx_input(ctx, MOE_INPUT_x);
    int i;
    for (i = 0; i < ROWS * 32; i++)
        x[i] = (float)(i % 7 - 3);
    memcpy(rlx_input(ctx, MOE_INPUT_of3), chosen[0], sizeof chosen[0]);
    memcpy(rlx_input(ctx, MOE_INPUT_of12), chosen[1], sizeof chosen[1]);
    CHECK(rlx_run(ctx) == RLX_OK);
}

static void has_stats(const rlx_ctx *ctx, uint32_t layer, const uint64_t *want)
{
    rlx_moe_stats s;
    memset(&s, 0xff, sizeof s);
    CHECK(rlx_moe_get_stats(ctx, layer, &s) == RLX_OK);
    CHECK(s.runs == want[0] && s.tokens == want[1] && s.rows == want[2]);
    CHECK(s.resident == want[3] && s.away == want[4] && s.rows_away == want[5] && s.tokens_away == want[6]);
}

int main(void)
{
    // Resident: 0 and 2 of 3; 0, 2, 8, 9 and 11 of 12.
    static const unsigned char mask[2] = {0x05, 0x0b};
    static const uint64_t all[LAYERS][7] = {{1, 4, 7, 3, 0, 0, 0}, {1, 3, 6, 6, 0, 0, 0}};
    static const uint64_t some[LAYERS][7] = {{1, 4, 7, 2, 1, 1, 1}, {1, 3, 6, 4, 2, 2, 2}};
    static float want[ROWS * EACH * 4];
    rlx_ctx own, *const ctx = &own;
    uint32_t layer;
    CHECK(moe_init(ctx, arena, MOE_ARENA_BYTES, state, MOE_STATE_BYTES) == RLX_OK);
    CHECK(ctx->model->moe != NULL && ctx->model->moe->n_layers == LAYERS);
    CHECK(rlx_moe_capture(ctx, 1) == RLX_OK);
    run(ctx);
    memcpy(want, rlx_output(ctx, MOE_OUTPUT_z), sizeof want);
    for (layer = 0; layer < LAYERS; layer++) {
        size_t count = 0, i;
        const int32_t *choice = rlx_moe_choices(ctx, layer, &count);
        CHECK(choice != NULL && count == ROWS * EACH);
        for (i = 0; choice != NULL && i < count; i++)
            CHECK(choice[i] == (chosen[layer][i] == 12 ? -1 : chosen[layer][i]));
        has_stats(ctx, layer, all[layer]);
    }
    // One mask has the bits of the layer with the most experts.
    CHECK(rlx_set_moe_resident(ctx, mask, 1) == RLX_ERR_SIZE);
    CHECK(rlx_set_moe_resident(ctx, mask, 3) == RLX_ERR_SIZE);
    CHECK(rlx_set_moe_resident(ctx, mask, 2) == RLX_OK && rlx_moe_reset_stats(ctx) == RLX_OK);
    run(ctx);
    CHECK(memcmp(rlx_output(ctx, MOE_OUTPUT_z), want, sizeof want) == 0);
    for (layer = 0; layer < LAYERS; layer++)
        has_stats(ctx, layer, some[layer]);
    CHECK(rlx_set_moe_resident(ctx, NULL, 0) == RLX_OK && rlx_moe_reset_stats(ctx) == RLX_OK);
    run(ctx);
    for (layer = 0; layer < LAYERS; layer++)
        has_stats(ctx, layer, all[layer]);
    CHECK(rlx_moe_load(ctx, 0, 0, 0) == RLX_ERR_SLOT); // blocks stay in the weights
    CHECK(rlx_close(ctx) == RLX_OK);
    return failed;
}
