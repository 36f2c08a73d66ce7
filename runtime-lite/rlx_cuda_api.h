// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: what of the CUDA driver (libcuda) models on NVIDIA GPUs call. Pasted after rlx_gpu.h for
// --target cuda; nothing is linked.
#ifndef RLX_CUDA_API_H
#define RLX_CUDA_API_H

#include "rlx_gpu.h"

#include <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

// Functions of the driver; 0 is success.
typedef struct rlx_cuda_api {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*attribute)(int *value, int attribute, int device);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*function)(void **function, void *module, const char *name);
    int (*function_set)(void *function, int attribute, int value);
    int (*alloc)(unsigned long long *address, size_t bytes);
    int (*release_memory)(unsigned long long address);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*write)(unsigned long long to, const void *from, size_t bytes, void *stream);
    int (*read)(void *to, unsigned long long from, size_t bytes, void *stream);
    int (*move)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
    int (*move_pieces)(const void *copy, void *stream);
    int (*fill)(unsigned long long address, unsigned char value, size_t bytes, void *stream);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
                  void **extra);
    int (*graph_create)(void **graph, unsigned flags);
    int (*graph_destroy)(void *graph);
    int (*graph_kernel)(void **node, void *graph, void *const *after, size_t n, const void *params);
    int (*graph_empty)(void **node, void *graph, void *const *after, size_t n);
    int (*graph_edge)(void *graph, void *const *from, void *const *to, size_t n);
    int (*graph_make)(void **exec, void *graph, unsigned long long flags);
    int (*graph_release)(void *exec);
    int (*graph_launch)(void *exec, void *stream);
    int (*pin)(void *memory, size_t bytes, unsigned flags);
    int (*unpin)(void *memory);
    int (*alloc_pinned)(void **memory, size_t bytes, unsigned flags);
    int (*release_pinned)(void *memory);
    int (*stream_ask)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*event_ask)(void *event);
    int (*event_between)(float *ms, void *begin, void *end);
    int (*graph_copy)(void **node, void *graph, void *const *after, size_t n, const void *copy,
                      void *context);
    int (*graph_set_copy)(void *exec, void *node, const void *copy, void *context);
    int (*graph_set_kernel)(void *exec, void *node, const void *params);
    int (*graph_enable)(void *exec, void *node, unsigned is_enabled);
    int (*device_count)(int *count);
    int (*device_name)(char *name, int bytes, int device);
    int (*device_memory)(size_t *bytes, int device);
    // The last ones drivers before 12.3 do not have: NULL.
    int (*graph_programmatic)(void *graph, void *const *from, void *const *to, const void *data, size_t n);
    int (*graph_condition)(unsigned long long *handle, void *graph, void *context, unsigned value,
                           unsigned flags);
    int (*graph_node)(void **node, void *graph, void *const *after, size_t n, void *params);
    int (*graph_attribute)(void *node, int attribute, const void *value);
    int (*launch_with)(const void *config, void *function, void **params, void **extra);
    int (*groups_at_once)(int *groups, void *function, int group, size_t shared_bytes); // on a processor
} rlx_cuda_api;

static inline rlx_status rlx_cuda_status(int result)
{
    return result == 0 ? RLX_OK : RLX_ERR_DEVICE;
}

// Their names, in that order.
static const char *const rlx_cuda_names[] = {
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncSetAttribute",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpy3DAsync_v2",
    "cuMemsetD8Async",
    "cuLaunchKernel",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphAddKernelNode_v2",
    "cuGraphAddEmptyNode",
    "cuGraphAddDependencies",
    "cuGraphInstantiateWithFlags",
    "cuGraphExecDestroy",
    "cuGraphLaunch",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuStreamQuery",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuGraphAddMemcpyNode",
    "cuGraphExecMemcpyNodeSetParams",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphNodeSetEnabled",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuGraphAddDependencies_v2",
    "cuGraphConditionalHandleCreate",
    "cuGraphAddNode",
    "cuGraphKernelNodeSetAttribute",
    "cuLaunchKernelEx",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor"};

// Fills the table. A function pointer cannot be cast from what dlsym gives in C99: its bytes are copied.
static inline rlx_status rlx_cuda_find(rlx_cuda_api *api, void *library)
{
    const size_t n = sizeof rlx_cuda_names / sizeof *rlx_cuda_names, needed = n - 6;
    unsigned char *const table = (unsigned char *)api;
    size_t i;
    for (i = 0; i < n; i++) {
        void *const found = dlsym(library, rlx_cuda_names[i]);
        if (found == NULL && i < needed)
            return RLX_ERR_NO_DEVICE;
        memcpy(table + i * sizeof found, &found, sizeof found);
    }
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
