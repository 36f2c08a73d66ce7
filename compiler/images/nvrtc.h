// SPDX-License-Identifier: Apache-2.0
// Compiles CUDA text with NVRTC, which is loaded when it is needed: from the CUDA toolkit, or from the Python
// wheel nvidia-cuda-nvrtc. No GPU has to be there.
#ifndef COMPILER_IMAGES_NVRTC_H
#define COMPILER_IMAGES_NVRTC_H

#include "codegen/host/host.h"

enum { NVRTC_MAX_GPUS = 8 };

// What --gpu names: nothing (text only), or compute capabilities.
typedef struct NvrtcGpus {
    uint32_t n;
    const char *name[NVRTC_MAX_GPUS]; // "sm_90a"
    uint32_t kind[NVRTC_MAX_GPUS];    // of the image, see runtime-lite/rlx_cuda.h
} NvrtcGpus;

typedef struct Nvrtc {
    Arena *arena;
    Diag *diag;
    NvrtcGpus gpus;
} Nvrtc;

// "sm_80,sm_90a", or "text": none. False: it is no such list.
bool nvrtc_read_gpus(Arena *a, const char *list, NvrtcGpus *out);
// The largest compute capability of those named, 90 for sm_90a.
uint32_t nvrtc_newest(const NvrtcGpus *gpus);
// A GpuCompile, ctx: a Nvrtc: one cubin for every GPU, then PTX that later ones can run.
bool nvrtc_compile(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out);

#endif
