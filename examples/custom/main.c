// SPDX-License-Identifier: Apache-2.0
// Runs the model of this folder once: rows of x, turned, times sigmoid(w) = 1/2, times alpha = 1/4; sorted
// sums of the rows, plus 1.
#include "ops.h"
#include <stdio.h>

static RLX_ALIGNED unsigned char arena[OPS_ARENA_BYTES];

int main(void)
{
    static const float w[4] = {0, 0, 0, 0};
    static const int32_t ids[7] = {10, 11, 12, 13, 14, 15, 16};
    float x[24] = {0}, both[48], last[4];
    int32_t thin[3];
    rlx_ctx ctx;
    x[0] = 14, x[1] = -14, x[2] = 2, x[3] = -6;
    if (ops_init(&ctx, arena, sizeof arena, NULL, 0) != RLX_OK ||
        ops(&ctx, x, w, ids, both, last, thin) != RLX_OK)
        return 1;
    printf("%g %g %g %g\n", (double)last[0], (double)last[1], (double)last[2], (double)last[3]);
    return thin[0] == 10 && thin[1] == 13 && thin[2] == 16 ? 0 : 1;
}
