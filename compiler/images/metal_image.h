// SPDX-License-Identifier: Apache-2.0
// What a model for Metal embeds: the text of its kernels, which Metal compiles where it runs, and with
// --metallib what Apple's compiler has made of that text.
#ifndef COMPILER_IMAGES_METAL_IMAGE_H
#define COMPILER_IMAGES_METAL_IMAGE_H

#include "codegen/host/host.h"

typedef struct MetalImages {
    Arena *arena;
    Diag *diag;
    const char *metallib; // path, or NULL
} MetalImages;

// A GpuCompile, ctx: a MetalImages.
bool metal_make_images(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out);

#endif
