// SPDX-License-Identifier: Apache-2.0
// See gpu_split.h.
#include "passes/lower/gpu/gpu_split.h"
#include "ir/kernel/device.h"

enum { SUMS = 4 }; // of a product, in a thread

// What --accuracy must allow for f32 of which units sum three products of parts: less than 2^-19 of each
// product is lost, where the sum of f32 rounds by 2^-24 at every step.
static const double split_error = 2e-6;
// Where elements have eleven bits.
static const double round_error = 1e-3;
// Of an element, what is added before the other bits are cut off: half of the last that stays, on average.
static const double round_share = 0x1.6a09e6p-12;

bool gpu_split_pays(const Lower *l)
{
    const GpuMachine *m = l->caps->gpu;
    return l->caps->has_mma && m != NULL && m->tf32_rate / 3 > m->f32_rate &&
           l->pass->options->accuracy >= split_error;
}

int64_t gpu_split_products(const Lower *l)
{
    return l->pass->options->accuracy >= round_error ? 1 : 3;
}

static KRef first_bits(Kernel *k, KRef x)
{
    return k_and(k, k_bitcast(k, x, DTYPE_u32), k_integer(k, DTYPE_u32, 0xffffe000u));
}

GpuSplit gpu_split_words(Kernel *k, KRef from, int64_t n)
{
    const GpuSplit to = {k_array(k, DTYPE_u32, n), k_array(k, DTYPE_u32, n)};
    const KRef i = k_loop(k, n, KFOR_UNROLL, "i");
    const KRef value = k_aload(k, from, i, 1), high = first_bits(k, value);
    k_astore(k, to.high, i, high);
    k_astore(k, to.low, i, first_bits(k, k_sub(k, value, k_bitcast(k, high, DTYPE_f32))));
    k_end(k);
    return to;
}

// By a multiply-add, which keeps NaN, as adding to the bits would not.
KRef gpu_split_round(Kernel *k, KRef from, int64_t n)
{
    const KRef to = k_array(k, DTYPE_u32, n), i = k_loop(k, n, KFOR_UNROLL, "i");
    const KRef value = k_aload(k, from, i, 1);
    k_astore(k, to, i, first_bits(k, k_fma(k, value, k_number(k, DTYPE_f32, round_share), value)));
    k_end(k);
    return to;
}

// The small parts come first.
void gpu_split_multiply(Kernel *k, KRef sums, KRef at, const GpuSplit *a, const GpuSplit *b, KRef of_b)
{
    const KRef part = k_array(k, DTYPE_f32, SUMS), zero = k_index(k, 0);
    for (int64_t i = 0; i < SUMS; i++)
        k_astore(k, part, k_index(k, i), k_number(k, DTYPE_f32, 0));
    k_device(k, KDEV_mma_tf32, part, zero, a->low, zero, b->high, of_b);
    k_device(k, KDEV_mma_tf32, part, zero, a->high, zero, b->low, of_b);
    k_device(k, KDEV_mma_tf32, part, zero, a->high, zero, b->high, of_b);
    for (int64_t i = 0; i < SUMS; i++) {
        const KRef to = k_expr(k, "$ + #", at, i);
        k_astore(k, sums, to, k_add(k, k_aload(k, sums, to, 1), k_aload(k, part, k_index(k, i), 1)));
    }
}
