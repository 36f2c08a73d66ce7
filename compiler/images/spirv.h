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
// For all devices; for those with cooperative matrices of f16 (VK_KHR_cooperative_matrix); of bf16
// (VK_KHR_shader_bfloat16).
typedef enum SpirvWay { SPIRV_PLAIN, SPIRV_COOP, SPIRV_COOP_BF16 } SpirvWay;
// One kernel of a text for Vulkan 1.2, entry point "main".
Spirv spirv_compile(Arena *a, const char *glsl, const char *kernel, SpirvWay way);
// Which way for such devices does the kernel of the text have? SPIRV_PLAIN: none.
SpirvWay spirv_coop_way(const char *glsl, const char *kernel);
// spirv_exact.c: products by several constants are computed one after the other.
void spirv_keep_products(Arena *a, Spirv *s);
// spirv_matrix.c: a module with SPV_NV_cooperative_matrix becomes one with SPV_KHR_cooperative_matrix.
// is_bf16: matrices of f16 become those of bf16.
void spirv_use_khr_matrices(Arena *a, Spirv *s, bool is_bf16);

enum { SPIRV_BF16 = 1 << 16 }; // RLX_VULKAN_BF16 of runtime-lite

typedef struct SpirvJob {
    Arena *arena;
    Diag *diag;
} SpirvJob;

// A GpuCompile, ctx: a SpirvJob: one image for every function, in order; behind them those with cooperative
// matrices, whose kind is the number of the function, of bf16 plus SPIRV_BF16.
bool spirv_compile_all(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out);

#endif
