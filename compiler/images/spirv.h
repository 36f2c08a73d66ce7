// SPDX-License-Identifier: Apache-2.0
// Compiles GLSL compute shaders to SPIR-V with glslang, and validates that with SPIRV-Tools. Both are linked
// in where they were there when rlxc was built.
#ifndef COMPILER_IMAGES_SPIRV_H
#define COMPILER_IMAGES_SPIRV_H

#include "codegen/host/host.h"

typedef struct Spirv {
    const uint32_t *words; // in the arena
    size_t len;
    const char *wrong; // NULL, or why there are no words
} Spirv;

// Can it compile at all?
bool spirv_is_here(void);
// One kernel of a text for Vulkan 1.2, entry point "main". has_coop: its way for devices with cooperative
// matrices, by VK_KHR_cooperative_matrix.
Spirv spirv_compile(Arena *a, const char *glsl, const char *kernel, bool has_coop);
// Does the kernel of the text have such a way?
bool spirv_has_coop(const char *glsl, const char *kernel);
// spirv_exact.c: products by several constants are computed one after the other.
void spirv_keep_products(Arena *a, Spirv *s);
// spirv_matrix.c: a module with SPV_NV_cooperative_matrix becomes one with SPV_KHR_cooperative_matrix.
void spirv_use_khr_matrices(Arena *a, Spirv *s);

typedef struct SpirvJob {
    Arena *arena;
    Diag *diag;
} SpirvJob;

// A GpuCompile, ctx: a SpirvJob: one image for every function, in order; behind them those with cooperative
// matrices, whose kind is the number of the function.
bool spirv_compile_all(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out);

#endif
