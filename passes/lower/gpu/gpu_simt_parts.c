// SPDX-License-Identifier: Apache-2.0
// Products whose tiles are too few for the device: several groups have a tile together, each a part of k.
// They hand over their sums through memory, and the one that comes last adds them up, in the order of the
// parts, so that results do not depend on who that is.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_simt.h"

enum { FOUR = 4 };

static int64_t tiles_of(const GpuSimt *s)
{
    const GpuMatmul *p = s->p;
    return gpu_matmul_count(p) * ceil_div(p->n, s->shape.columns) * ceil_div(p->m, s->shape.rows);
}

void gpu_parts_begin(GpuSimt *s)
{
    if (s->shape.parts == 0)
        return;
    const int64_t sums = (int64_t)s->shape.rows * s->shape.columns * s->shape.parts;
    s->handed = lower_param_scratch(s->l, "parts", DTYPE_f32, (uint64_t)(tiles_of(s) * sums));
    s->counter = lower_param_counter(s->l, "parts put", (uint64_t)tiles_of(s));
}

void gpu_parts_range(const GpuSimt *s, KRef *from, KRef *to)
{
    Kernel *k = s->k;
    const int64_t words = ceil_div(s->p->k, s->pair);
    *from = k_index(k, 0);
    *to = k_index(k, words);
    if (s->shape.parts == 0)
        return;
    const int64_t own = ceil_div(ceil_div(words, s->depth), s->shape.parts) * s->depth;
    *from = k_expr(k, "$ * #", s->part, own);
    *to = k_min(k, k_expr(k, "$ + #", *from, own), k_index(k, words));
}

static KRef place_of(const GpuSimt *s, KRef part, KRef place)
{
    Kernel *k = s->k;
    const int64_t sums = (int64_t)s->shape.rows * s->shape.columns;
    const KRef index =
        k_expr(k, "($ * # + $) * # + $ * #", s->tile, s->shape.parts, part, sums, place, FOUR);
    return k_address(k, s->handed, index);
}

void gpu_parts_put(const GpuSimt *s, KRef place, KRef sums, int64_t i)
{
    k_device(s->k, KDEV_part_put, place_of(s, s->part, place), sums, k_index(s->k, i));
}

void gpu_parts_get(const GpuSimt *s, KRef place, KRef sums, int64_t i)
{
    Kernel *k = s->k;
    const KRef part = k_array(k, DTYPE_f32, FOUR);
    for (int64_t p = 0; p < s->shape.parts; p++) {
        k_device(k, KDEV_part_get, p == 0 ? sums : part, k_index(k, p == 0 ? i : 0),
                 place_of(s, k_index(k, p), place));
        for (int64_t e = 0; p > 0 && e < FOUR; e++)
            k_astore(k, sums, k_index(k, i + e),
                     k_add(k, k_aload(k, sums, k_index(k, i + e), 1), k_aload(k, part, k_index(k, e), 1)));
    }
}

void gpu_parts_open_last(const GpuSimt *s)
{
    Kernel *k = s->k;
    const KRef is_last = k_var(k, k_index(k, 0), "is_last");
    k_device(k, KDEV_part_last, is_last, k_address(k, s->counter, s->tile), k_index(k, s->shape.parts));
    k_if(k, k_expr(k, "$ == 1", k_get(k, is_last)));
}

static KRef place_of_sums(const GpuSimt *s, int64_t i)
{
    return k_expr(s->k, "# + $", i / FOUR * gpu_simt_members(s), s->member);
}

void gpu_parts_put_sums(const GpuSimt *s, KRef sums)
{
    for (int64_t i = 0; i < gpu_simt_sums(s); i += FOUR)
        gpu_parts_put(s, place_of_sums(s, i), sums, i);
}

void gpu_parts_get_sums(const GpuSimt *s, KRef sums)
{
    for (int64_t i = 0; i < gpu_simt_sums(s); i += FOUR)
        gpu_parts_get(s, place_of_sums(s, i), sums, i);
}
