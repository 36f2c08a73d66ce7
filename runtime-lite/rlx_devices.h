// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: which devices a model can run on, before a context is made. In the headers of
// models on devices, and of all with --api full. A device is known by its number: rlx_init_on takes it.
#ifndef RLX_DEVICES_H
#define RLX_DEVICES_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

// The host's processor, as far as the code knows it: no system is asked.
static inline void rlx_describe_host(rlx_device_info *info)
{
#if defined(__x86_64__) || defined(_M_X64)
    static const char name[] = "CPU, x86-64";
#elif defined(__aarch64__) || defined(_M_ARM64)
    static const char name[] = "CPU, AArch64";
#elif defined(__riscv)
    static const char name[] = "CPU, RISC-V";
#elif defined(__wasm__)
    static const char name[] = "CPU, WebAssembly";
#else
    static const char name[] = "CPU";
#endif
    memset(info, 0, sizeof *info);
    memcpy(info->name, name, sizeof name);
    info->kind = RLX_DEVICE_CPU;
    info->can_run = 1;
}

// The devices for which a model is compiled, in the order of their numbers: list (NULL, if n is 0) gets the
// first n of them, *count how many there are. They are those of CUDA, as CUDA_VISIBLE_DEVICES and the driver
// count them, of Vulkan, those that are wanted most first, or the default one of Metal; after them, for
// models with a fallback (--target cuda,c), the host's processor. A model for C has that alone. No driver and
// no device: RLX_OK, and 0. RLX_ERR_NULL: a pointer is missing.
static inline rlx_status rlx_devices(const rlx_model *model, rlx_device_info *list, uint32_t n,
                                     uint32_t *count)
{
    if (model == NULL || count == NULL || (list == NULL && n != 0))
        return RLX_ERR_NULL;
    *count = 0;
    if (model->device != NULL)
        model->device->list(model, list, n, count);
    if (model->device != NULL && model->fallback == NULL)
        return RLX_OK;
    if (*count < n)
        rlx_describe_host(&list[*count]);
    ++*count;
    return RLX_OK;
}

// As rlx_init, on the device of that number (rlx_devices); RLX_ANY_DEVICE: as rlx_init does, on the first one
// that can run the model, or in its place on the host's processor (--target cuda,c). RLX_ERR_RANGE: there is
// no device of that number. RLX_ERR_NO_DEVICE: it cannot run the model; of models with a fallback, which
// does not take the place of a device that was asked for, RLX_ERR_DEVICE.
static inline rlx_status rlx_init_on(rlx_ctx *ctx, const rlx_model *model, uint32_t ordinal, void *arena,
                                     size_t arena_bytes, void *state, size_t state_bytes,
                                     const void *weights, size_t weight_bytes)
{
    return rlx_bind(ctx, model, ordinal, arena, arena_bytes, state, state_bytes, weights, weight_bytes);
}

// Would rlx_init find a device? (Its memory may still be too small.)
static inline int rlx_is_available(const rlx_model *model)
{
    enum { MOST = 16 };
    rlx_device_info list[MOST];
    uint32_t n = 0, i;
    if (rlx_devices(model, list, MOST, &n) != RLX_OK)
        return 0;
    for (i = 0; i < n && i < MOST; i++)
        if (list[i].can_run)
            return 1;
    return 0;
}

// The device that a context is on. RLX_ERR_DEVICE: it is gone.
static inline rlx_status rlx_context_device(const rlx_ctx *ctx, rlx_device_info *info)
{
    enum { MOST = 16 };
    rlx_device_info list[MOST];
    uint32_t n = 0;
    const uint32_t number = ctx == NULL || ctx->ordinal == RLX_ANY_DEVICE ? 0 : ctx->ordinal;
    if (ctx == NULL || ctx->model == NULL || info == NULL)
        return RLX_ERR_NULL;
    if (ctx->model->device == NULL) {
        rlx_describe_host(info);
        return RLX_OK;
    }
    ctx->model->device->list(ctx->model, list, MOST, &n);
    if (number >= n || number >= (uint32_t)MOST)
        return rlx_fail(ctx, RLX_ERR_DEVICE, RLX_ABOUT_CALL, NULL, 0, 0);
    *info = list[number];
    return RLX_OK;
}

// Brings bytes first .. first + bytes - 1 of an output that the last run has left on the device, to where
// rlx_output is: bit `slot` of ctx->left, set before the run, has left it there.
static inline rlx_status rlx_fetch_output(const rlx_ctx *ctx, uint32_t slot, size_t first, size_t bytes)
{
    rlx_status status;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (slot >= ctx->model->n_outputs || first > ctx->model->outputs[slot].bytes ||
        bytes > ctx->model->outputs[slot].bytes - first)
        return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_CALL, NULL, 0, 0);
    if (ctx->model->device == NULL)
        return RLX_OK;
    status = ctx->model->device->fetch_part(ctx, ctx->model->outputs[slot].offset + first, bytes);
    return status == RLX_OK ? status : rlx_fail(ctx, status, RLX_ABOUT_CALL, NULL, 0, 0);
}

#ifdef __cplusplus
}
#endif

#endif
