// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: the NVIDIA GPUs of a process, and which code suits them. Pasted after rlx_cuda_api.h for
// --target cuda.
#ifndef RLX_CUDA_DEVICES_H
#define RLX_CUDA_DEVICES_H

#include "rlx_cuda_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// Kinds of images: PTX, or a cubin for compute capability major * 10 + minor, RLX_CUDA_EXACT: for no other.
#define RLX_CUDA_PTX   0u
#define RLX_CUDA_LEAST 80u // what PTX is for: devices before it cannot take it
#define RLX_CUDA_EXACT 0x1000u
// RLX_CUDA_LOOPS more: kernels that go around loops, for drivers that know these (12.4).
#define RLX_CUDA_LOOPS 0x2000u

// Inputs of so many bytes together, and fewer, are copied aside when their run is queued.
#ifndef RLX_CUDA_STAGE
#define RLX_CUDA_STAGE 65536u
#endif

// The image that suits a device best: its own, then the newest of its generation, then PTX. NULL: none does.
// of: 0, or RLX_CUDA_LOOPS.
static inline const rlx_gpu_image *rlx_cuda_image(const rlx_gpu_program *p, uint32_t of, int major, int minor)
{
    const rlx_gpu_image *best = NULL;
    const uint32_t own = (uint32_t)(major * 10 + minor), ptx = RLX_CUDA_PTX | of;
    uint32_t i;
    for (i = 0; i < p->n_images; i++) {
        const rlx_gpu_image *const m = &p->images[i];
        const uint32_t arch = m->kind & (RLX_CUDA_EXACT - 1u);
        if ((m->kind & RLX_CUDA_LOOPS) != of)
            continue;
        if (m->kind == ptx) {
            best = best == NULL && own >= RLX_CUDA_LEAST ? m : best;
            continue;
        }
        if ((m->kind & RLX_CUDA_EXACT) != 0 ? arch != own : arch / 10u != own / 10u || arch > own)
            continue;
        if (best == NULL || best->kind == ptx || (best->kind & (RLX_CUDA_EXACT - 1u)) < arch ||
            (m->kind & RLX_CUDA_EXACT) != 0)
            best = m;
    }
    return best;
}

// The devices of the process.
static inline void rlx_cuda_list(const rlx_model *model, rlx_device_info *list, uint32_t n, uint32_t *count)
{
    enum { IS_INTEGRATED = 18 };
    const rlx_gpu_program *const p = rlx_gpu_program_of(model);
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    rlx_cuda_api api;
    int devices = 0, device = 0, major = 0, minor = 0, is_integrated = 0;
    uint32_t i;
    *count = 0;
    if (library == NULL || rlx_cuda_find(&api, library) != RLX_OK || api.init(0) != 0 ||
        api.device_count(&devices) != 0)
        return;
    *count = (uint32_t)devices;
    for (i = 0; i < *count && i < n; i++) {
        size_t bytes = 0;
        memset(&list[i], 0, sizeof list[i]);
        if (api.device_get(&device, (int)i) != 0 ||
            api.device_name(list[i].name, (int)sizeof list[i].name, device) != 0 ||
            api.device_memory(&bytes, device) != 0 || api.attribute(&major, 75, device) != 0 ||
            api.attribute(&minor, 76, device) != 0 ||
            api.attribute(&is_integrated, IS_INTEGRATED, device) != 0)
            continue;
        list[i].kind = is_integrated ? RLX_DEVICE_INTEGRATED : RLX_DEVICE_GPU;
        list[i].memory = bytes;
        list[i].can_run = p->n_functions == 0 || rlx_cuda_image(p, 0, major, minor) != NULL;
    }
}

#ifdef __cplusplus
}
#endif

#endif
