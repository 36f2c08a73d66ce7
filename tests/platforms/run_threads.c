// SPDX-License-Identifier: Apache-2.0
// Runs the model `m` (--threads 2, weights of --weights object) three times and prints its outputs: what is
// printed must be the same on every system.
#include "m.h"
#include <stdio.h>

static rlx_ctx ctx;
static rlx_pool pool;
static unsigned char block[M_ARENA_BYTES + RLX_ALIGNMENT];

static int fails(const char *what, rlx_status status)
{
    if (status != RLX_OK)
        printf("%s: %s\n", what, rlx_status_text(status));
    return status != RLX_OK;
}

int main(void)
{
    unsigned char *arena = block + (RLX_ALIGNMENT - (uintptr_t)block % RLX_ALIGNMENT) % RLX_ALIGNMENT;
    const size_t n = m_model.inputs[0].bytes / sizeof(float);
    const size_t n_out = m_model.outputs[0].bytes / sizeof(float);
    size_t i, run;
    if (fails("init", m_init(&ctx, arena, M_ARENA_BYTES, NULL, 0)) ||
        fails("weights", rlx_check_weights(&m_model, NULL, 0)) ||
        fails("threads", m_threads_start(&ctx, &pool)))
        return 1;
    for (run = 0; run < 3; run++) {
        float *x = (float *)rlx_input(&ctx, 0);
        const float *y = (const float *)rlx_output(&ctx, 0);
        for (i = 0; i < n; i++)
            x[i] = (float)((i * 7 + run) % 17) / 16.0f;
        if (fails("run", rlx_run(&ctx)))
            return 1;
        for (i = 0; i < n_out; i++)
            printf("%.4f ", (double)y[i]);
        printf("\n");
    }
    m_threads_stop(&ctx);
    return 0;
}
