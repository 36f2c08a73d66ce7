// SPDX-License-Identifier: Apache-2.0
// Compiles GLSL compute shaders to SPIR-V with glslang, and validates that with SPIRV-Tools. Both are linked
// in where they were there when rlxc was built.
#ifndef COMPILER_SPIRV_H
#define COMPILER_SPIRV_H

#include "codegen/host.h"

typedef struct Spirv {
    const uint32_t *words; // in the arena
    size_t len;
    const char *wrong; // NULL, or why there are no words
} Spirv;

// Can it compile at all?
bool spirv_is_here(void);
// One kernel of a text for Vulkan 1.2, entry point "main".
Spirv spirv_compile(Arena *a, const char *glsl, const char *kernel);

typedef struct SpirvJob {
    Arena *arena;
    Diag *diag;
} SpirvJob;

// A GpuCompile, ctx: a SpirvJob: one image for every function, in order.
bool spirv_compile_all(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out);

#endif
