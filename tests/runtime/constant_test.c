// SPDX-License-Identifier: Apache-2.0
// The mission's example with w as a constant: x[2,4] . w[4,3] + b, then gelu; and a second input of another
// type, for calls that name one input twice, or in another order.
#include "check.h"
#include "constant.h"
#include <math.h>

static RLX_ALIGNED unsigned char arena[CONSTANT_ARENA_BYTES], before[CONSTANT_ARENA_BYTES];
static const float x[8] = {1, 0, 0, 0, 0, 1, 0, 0}; // rows e0 and e1
static const int16_t z[3] = {1, -32768, 7};

static int is_expected(const float *y, const int16_t *negative)
{
    static const double sums[6] = {1.5, -0.5, 0, 0.5, 0.5, 0};
    int i, ok = negative[0] == -1 && negative[1] == -32768 && negative[2] == -7;
    for (i = 0; i < 6; i++)
        ok = ok && fabs(y[i] - 0.5 * sums[i] * erfc(-sums[i] * 0.70710678118654752)) < 1e-6;
    return ok;
}

int main(void)
{
    rlx_ctx ctx;
    float y[6];
    int16_t negative[3];
    const rlx_named twice[2] = {{"x", x, sizeof x}, {"x", x, sizeof x}};
    const rlx_named swapped[2] = {{"z", z, sizeof z}, {"x", x, sizeof x}};
    const rlx_named_out outputs[2] = {{"negative", negative, sizeof negative}, {"y", y, sizeof y}};
    memset(arena, 0xFF, sizeof arena);
    memset(before, 0xFF, sizeof before);
    CHECK(constant_init(&ctx, arena, sizeof arena, NULL, 0) == RLX_OK);
    CHECK(rlx_run_named(&ctx, twice, 2, outputs, 2) == RLX_ERR_NAME);
    CHECK(rlx_run_named(&ctx, NULL, 2, outputs, 2) == RLX_ERR_NULL);
    CHECK(rlx_run_named(&ctx, swapped, 2, NULL, 1) == RLX_ERR_NULL);
    CHECK(memcmp(arena, before, sizeof arena) == 0);
    CHECK(constant(&ctx, x, z, y, negative) == RLX_OK && is_expected(y, negative));
    memset(y, 0, sizeof y);
    memset(negative, 0, sizeof negative);
    CHECK(rlx_run_named(&ctx, swapped, 2, outputs, 2) == RLX_OK && is_expected(y, negative));
    CHECK(constant_model.n_params == 0 && constant_model.n_states == 0 && CONSTANT_STATE_BYTES == 0);
    return failed;
}
