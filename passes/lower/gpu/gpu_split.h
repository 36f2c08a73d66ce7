// SPDX-License-Identifier: Apache-2.0
// Products of f32 on matrix units of tf32 (mma.m16n8k8). An f32 is cut into its first eleven bits and the
// eleven that follow. Three of the four products are summed (the fourth is below 2^-20 of the product) for
// eight steps at a time, in sums of their own, because units do not round to nearest what they add. Infinite
// elements make NaN. Products of matrices round elements to eleven bits where --accuracy allows 1e-3, so that
// one product is all; attention does not, because exp makes errors of scores larger.
#ifndef PASSES_LOWER_GPU_GPU_SPLIT_H
#define PASSES_LOWER_GPU_GPU_SPLIT_H

#include "passes/lower/lower.h"

// Does --accuracy allow it, and is it faster than threads by themselves?
bool gpu_split_pays(const Lower *l);

// The first bits of n elements, and those that follow: arrays of u32.
typedef struct GpuSplit {
    KRef high, low;
} GpuSplit;
GpuSplit gpu_split_words(Kernel *k, KRef from, int64_t n);
// Adds a product of the fragment a and that of b which begins at of_b to the four sums from `at` on.
void gpu_split_multiply(Kernel *k, KRef sums, KRef at, const GpuSplit *a, const GpuSplit *b, KRef of_b);

// Products of units for each product of elements: three, or one of rounded ones.
int64_t gpu_split_products(const Lower *l);
// The words of n rounded elements.
KRef gpu_split_round(Kernel *k, KRef from, int64_t n);

#endif
