// SPDX-License-Identifier: Apache-2.0
// Built by tools/bench/dispatch with the m.h and m.c of a model: prints the nanoseconds of its kernels alone,
// of runs in place, by slot, by name, by name with conversions that are none, and of the yardstick: a call
// through a pointer for each input and output, which copies its few bytes. Each is the best of many rounds,
// which take turns.
#define _POSIX_C_SOURCE 199309L
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAYS = 6, ROUNDS = 300, RUNS = 200, MAX_TENSORS = 64, MAX_BYTES = 8192 };

static RLX_ALIGNED unsigned char arena[M_ARENA_BYTES + 64], state[M_STATE_BYTES + 64];
static RLX_ALIGNED unsigned char data[MAX_TENSORS][64], result[MAX_TENSORS][MAX_BYTES];
static const void *slot_inputs[MAX_TENSORS];
static rlx_slot slots[MAX_TENSORS];
static rlx_named named[MAX_TENSORS];
static rlx_named_out named_out[MAX_TENSORS];
static rlx_typed typed[MAX_TENSORS];
static rlx_typed_out typed_out[MAX_TENSORS];
static rlx_ctx ctx;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static rlx_status run_kernels(void)
{
    return m_model.dispatch(&ctx);
}

static rlx_status run_in_place(void)
{
    return rlx_run(&ctx);
}

static rlx_status run_slots(void)
{
    return rlx_run_slots(&ctx, slot_inputs, slots);
}

static rlx_status run_named(void)
{
    return rlx_run_named(&ctx, named, m_model.n_inputs, named_out, m_model.n_outputs);
}

static rlx_status run_typed(void)
{
    return rlx_run_typed(&ctx, typed, m_model.n_inputs, typed_out, m_model.n_outputs);
}

static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

static rlx_status run_yardstick(void)
{
    uint32_t i;
    for (i = 0; i < m_model.n_inputs; i++)
        copy(result[i], data[i], sizeof(float));
    for (i = 0; i < m_model.n_outputs; i++)
        copy(result[i], data[i], sizeof(float));
    return RLX_OK;
}

static rlx_status (*const ways[WAYS])(void) = {run_kernels, run_in_place, run_slots,
                                               run_named,   run_typed,    run_yardstick};

static void prepare(void)
{
    uint32_t i;
    if (m_model.n_inputs > MAX_TENSORS || m_model.n_outputs > MAX_TENSORS ||
        m_init(&ctx, arena, sizeof arena, state, sizeof state) != RLX_OK)
        exit(1);
    for (i = 0; i < m_model.n_params; i++)
        if (rlx_set_param(&ctx, m_model.params[i].name, (const float *)(const void *)data[0], 1) != RLX_OK)
            exit(1);
    for (i = 0; i < m_model.n_inputs; i++) {
        const size_t bytes = rlx_input_bytes(&ctx, i);
        if (rlx_input(&ctx, i) == NULL) // with a pointer, runs in place need not be told of new inputs
            exit(1);
        slot_inputs[i] = data[i];
        named[i].name = typed[i].name = m_model.inputs[i].name;
        named[i].data = typed[i].data = data[i];
        named[i].bytes = typed[i].bytes = bytes;
        typed[i].dtype = m_model.inputs[i].dtype;
    }
    for (i = 0; i < m_model.n_outputs; i++) {
        const size_t bytes = rlx_output_room(&ctx, i);
        named_out[i].name = typed_out[i].name = m_model.outputs[i].name;
        named_out[i].data = typed_out[i].data = result[i];
        named_out[i].bytes = typed_out[i].bytes = bytes;
        typed_out[i].dtype = m_model.outputs[i].dtype;
        if (bytes > MAX_BYTES)
            exit(1);
    }
}

int main(void)
{
    double best[WAYS];
    int round, way, i;
    prepare();
    for (round = 0; round < ROUNDS; round++)
        for (way = 0; way < WAYS; way++) {
            const double begin = now();
            double each;
            for (i = 0; i < RUNS; i++)
                if (ways[way]() != RLX_OK)
                    return 1;
            each = (now() - begin) / RUNS;
            if (round == 0 || each < best[way])
                best[way] = each;
        }
    for (way = 0; way < WAYS; way++)
        printf("%.2f\n", best[way]);
    return 0;
}
