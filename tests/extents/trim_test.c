// SPDX-License-Identifier: Apache-2.0
// One graph compiled with an open size (open.h) and for exactly SIZE (exact.h). Memory is filled with NaN
// before the open one runs, and only the live part of its inputs is written: what lies beyond must not reach
// a result. Prints the largest error, relative to the largest magnitude, and how many words of the arena the
// run wrote.
#include "exact.h"
#include "open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *block(size_t bytes)
{
    unsigned char *p = calloc(1, bytes + 128);
    return p == NULL ? NULL : p + (64 - (uintptr_t)p % 64);
}

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t k = 0; k < n; k++) {
        seed = seed * 1664525u + 1013904223u;
        x[k] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

static size_t count_written(const unsigned char *arena, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i + 4 <= bytes; i += 4)
        n += arena[i] != 0xff || arena[i + 1] != 0xff || arena[i + 2] != 0xff || arena[i + 3] != 0xff;
    return n;
}

// Largest difference of live results over the largest magnitude; more than 1 where only one is NaN.
static double compare(const rlx_ctx *exact, const rlx_ctx *open)
{
    double most = 1e-30, error = 0;
    for (uint32_t i = 0; i < exact->model->n_outputs; i++) {
        const float *a = rlx_output(exact, i), *b = rlx_output(open, i);
        const size_t n = rlx_output_bytes(exact, i) / sizeof *a;
        if (rlx_output_bytes(open, i) != n * sizeof *a)
            return 3;
        for (size_t k = 0; k < n; k++) {
            if ((a[k] != a[k]) != (b[k] != b[k]))
                return 2;
            most = magnitude(a[k]) > most ? magnitude(a[k]) : most;
            error = magnitude((double)a[k] - b[k]) > error ? magnitude((double)a[k] - b[k]) : error;
        }
    }
    return error / most;
}

int main(void)
{
    rlx_ctx exact, open;
    unsigned char *arena = block(OPEN_ARENA_BYTES);
    if (exact_init(&exact, block(EXACT_ARENA_BYTES), EXACT_ARENA_BYTES, block(EXACT_STATE_BYTES),
                   EXACT_STATE_BYTES) ||
        open_init(&open, arena, OPEN_ARENA_BYTES, block(OPEN_STATE_BYTES), OPEN_STATE_BYTES) ||
        open_set_symbol(&open, OPEN_SYM_m, SIZE))
        return 4;
#ifdef OPEN_THREADS
    static rlx_pool pool;
    if (rlx_threads_start(&open, &pool, OPEN_THREADS) != RLX_OK)
        return 6;
#endif
    memset(arena, 0xff, OPEN_ARENA_BYTES);
    for (uint32_t i = 0; i < exact.model->n_inputs; i++) {
        const size_t bytes = exact.model->inputs[i].bytes;
        fill(rlx_input(&exact, i), bytes / sizeof(float), 7 + i);
        memcpy(rlx_input(&open, i), rlx_input(&exact, i), bytes);
    }
    const size_t before = count_written(arena, OPEN_ARENA_BYTES);
    if (rlx_run(&exact) != RLX_OK || rlx_run(&open) != RLX_OK)
        return 5;
    printf("%g %zu\n", compare(&exact, &open), count_written(arena, OPEN_ARENA_BYTES) - before);
#ifdef OPEN_THREADS
    rlx_threads_stop(&open);
#endif
    return 0;
}
