// SPDX-License-Identifier: Apache-2.0
// Devices by their numbers (devices.json): what there is before a context is made, contexts on each of them,
// and on none.
#include "../gpu/fake_count.h"
#include "check.h"
#include "devices.h"

enum { MOST = 16 };

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[DEVICES_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[DEVICES_STATE_BYTES];
} Blocks;

static Blocks one, two;
static rlx_device_info list[MOST];
static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static rlx_status begin(rlx_ctx *ctx, uint32_t number)
{
    return rlx_init_on(ctx, &devices_model, number, one.arena, sizeof one.arena, one.state, sizeof one.state,
                       NULL, 0);
}

// The output of a second run stays on the device until it is fetched.
static void check_left(rlx_ctx *ctx)
{
    const void *in[1] = {x};
    const float *y = (const float *)rlx_output(ctx, DEVICES_OUTPUT_y);
    ctx->left = 1u << DEVICES_OUTPUT_y;
    CHECK(rlx_run_slots(ctx, in, NULL) == RLX_OK);
    CHECK(rlx_fetch_output(ctx, DEVICES_OUTPUT_y, 4, 28) == RLX_OK && y[1] == 4 && y[7] == 16);
    CHECK(rlx_fetch_output(ctx, DEVICES_OUTPUT_y, 0, 4) == RLX_OK && y[0] == 2);
    CHECK(rlx_fetch_output(ctx, DEVICES_OUTPUT_y, 32, 0) == RLX_OK);
    CHECK(rlx_fetch_output(ctx, DEVICES_OUTPUT_y, 4, 32) == RLX_ERR_RANGE);
    CHECK(rlx_fetch_output(ctx, DEVICES_OUTPUT_y, 33, 0) == RLX_ERR_RANGE);
    CHECK(rlx_fetch_output(ctx, 1, 0, 0) == RLX_ERR_RANGE && rlx_fetch_output(NULL, 0, 0, 0) == RLX_ERR_NULL);
    ctx->left = 0;
}

static void check_context(rlx_ctx *ctx, const rlx_device_info *wanted)
{
    rlx_device_info info;
    rlx_ctx copy;
    float y[8] = {0};
    CHECK(rlx_context_device(ctx, &info) == RLX_OK && memcmp(&info, wanted, sizeof info) == 0);
    CHECK(devices(ctx, x, y) == RLX_OK && y[7] == 8);
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    CHECK(rlx_context_device(&copy, &info) == RLX_OK && memcmp(&info, wanted, sizeof info) == 0);
    CHECK(devices(&copy, x, y) == RLX_OK && y[7] == 16 && rlx_close(&copy) == RLX_OK);
    check_left(ctx);
    CHECK(rlx_close(ctx) == RLX_OK);
}

int main(void)
{
    rlx_ctx ctx;
    uint32_t n = 99, same = 99, i, able = 0;
    CHECK(rlx_devices(NULL, list, MOST, &n) == RLX_ERR_NULL);
    CHECK(rlx_devices(&devices_model, list, MOST, NULL) == RLX_ERR_NULL);
    CHECK(rlx_devices(&devices_model, NULL, 1, &n) == RLX_ERR_NULL);
    CHECK(rlx_devices(&devices_model, list, MOST, &n) == RLX_OK && n > 0 && n < MOST);
    CHECK(rlx_devices(&devices_model, NULL, 0, &same) == RLX_OK && same == n);
    CHECK(rlx_is_available(&devices_model) && !rlx_is_available(NULL));
    CHECK(rlx_context_device(NULL, list) == RLX_ERR_NULL);
    for (i = 0; i < n; i++) {
        const rlx_status status = begin(&ctx, i);
        CHECK(list[i].name[0] != '\0' && status == (list[i].can_run ? RLX_OK : RLX_ERR_NO_DEVICE));
        CHECK(list[i].memory != 0 || list[i].kind == RLX_DEVICE_CPU);
        able += (uint32_t)list[i].can_run;
        if (status == RLX_OK)
            check_context(&ctx, &list[i]);
    }
    CHECK(begin(&ctx, n) == RLX_ERR_RANGE && begin(&ctx, 1000000) == RLX_ERR_RANGE);
    CHECK(begin(&ctx, RLX_ANY_DEVICE) == RLX_OK && able > 0);
    check_context(&ctx, &list[0]);
    if (fake_count_of("launch") >= 0) { // fake_cuda.c as on_fake_cuda.py starts it
        CHECK(n == 3 && able == 2 && list[1].memory == (uint64_t)2 << 30 && list[1].kind == RLX_DEVICE_GPU);
        CHECK(strcmp(list[1].name, "no GPU, number 1") == 0);
    }
    if (devices_model.device == NULL)
        CHECK(n == 1 && list[0].kind == RLX_DEVICE_CPU);
    return failed;
}
