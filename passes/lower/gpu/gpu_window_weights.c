// SPDX-License-Identifier: Apache-2.0
// Constant weights of products of windows (GpuWindow), arranged at compile time so that neighbouring threads
// read neighbours: [products, steps / pair, pitch, pair], whose pitch is the columns and zeros up to a whole
// access. Separate because convolutions and transposed ones differ only in where an element comes from.
#include "passes/lower/gpu/gpu_simt.h"

#include <string.h>

static int64_t pitch_of(const GpuWindowWeights *t)
{
    return ceil_div(t->columns, GPU_SIMT_VECTOR) * GPU_SIMT_VECTOR;
}

static void fill(const void *ctx, void *out)
{
    const GpuWindowWeights *t = ctx;
    const size_t bytes = dtype_info[t->dtype].bytes;
    const int64_t pitch = pitch_of(t);
    unsigned char *to = out;
    for (int64_t i = 0; i < t->products; i++)
        for (int64_t step = 0; step < t->steps; step += t->pair)
            for (int64_t column = 0; column < pitch; column++)
                for (int64_t h = 0; h < t->pair; h++, to += bytes) {
                    const bool is_in = step + h < t->steps && column < t->columns;
                    const unsigned char *from = is_in ? t->at(t->ctx, i, step + h, column) : NULL;
                    if (from != NULL)
                        memcpy(to, from, bytes);
                }
}

GpuMatrix gpu_window_weights(Lower *l, NodeId id, const GpuWindowWeights *from, const char *name)
{
    GpuWindowWeights *t = ARENA_NEW(l->pass->perm, GpuWindowWeights);
    *t = *from;
    const int64_t line = pitch_of(t) * t->pair, product = ceil_div(t->steps, t->pair) * line;
    const uint64_t bytes = (uint64_t)(t->products * product) * dtype_info[t->dtype].bytes;
    GpuMatrix m = {.id = id, .outer = t->pair, .k = line, .pair = t->pair > 1 ? t->pair : 0};
    m.packed = 1 + lower_param_filled(l, name, t->dtype, fill, t, bytes);
    Loc *loc = ARENA_NEW(l->pass->perm, Loc);
    *loc = (Loc){.buf = l->pk->args.data[m.packed - 1].buf};
    m.loc = loc;
    m.batch[0] = t->products > 1 ? product : 0;
    return m;
}
