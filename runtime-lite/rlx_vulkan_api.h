// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: what rlx_vulkan.h uses of Vulkan 1.2: structures, with the names that say what the members
// are here, and functions.
#ifndef RLX_VULKAN_API_H
#define RLX_VULKAN_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Vulkan: structures --------------------------------------------------------------------------

// What begins every structure of parameters. Handles are pointers, or numbers of 64 bits.
typedef struct rlx_vk_head {
    uint32_t type;
    const void *next;
} rlx_vk_head;

typedef struct rlx_vk_app {
    rlx_vk_head head;
    const char *name;
    uint32_t version;
    const char *engine;
    uint32_t engine_version, api_version;
} rlx_vk_app;

typedef struct rlx_vk_instance_info {
    rlx_vk_head head;
    uint32_t flags;
    const rlx_vk_app *app;
    uint32_t n_layers;
    const char *const *layers;
    uint32_t n_extensions;
    const char *const *extensions;
} rlx_vk_instance_info;

// 1 for what a device can; those that matter have names.
typedef struct rlx_vk_features {
    rlx_vk_head head;
    uint32_t before[39], f64, i64, i16, behind[13];
} rlx_vk_features;

typedef struct rlx_vk_features11 {
    rlx_vk_head head;
    uint32_t storage16, behind[11];
} rlx_vk_features11;

typedef struct rlx_vk_features12 {
    rlx_vk_head head;
    uint32_t before[2], storage8, before_f16[4], f16, i8, before_timeline[28], timeline, address;
    uint32_t before_model[2], model, behind[5];
} rlx_vk_features12;

// VkPhysicalDeviceProperties, of which deviceType, deviceName, limits.maxComputeSharedMemorySize and
// limits.timestampPeriod, a float, are read, at these bytes.
#define RLX_VK_PROPERTIES       103u
#define RLX_VK_DEVICE_KIND      16u
#define RLX_VK_DEVICE_NAME      20u
#define RLX_VK_SHARED_MEMORY    512u
#define RLX_VK_TIMESTAMP_PERIOD 720u

typedef struct rlx_vk_features_coop {
    rlx_vk_head head;
    uint32_t matrices, robust;
} rlx_vk_features_coop;

// Behind head: m, n, k, types of a, b, c and result, saturating, scope.
typedef struct rlx_vk_features_bf16 {
    rlx_vk_head head;
    uint32_t types, dots, matrices;
} rlx_vk_features_bf16;

typedef struct rlx_vk_coop {
    rlx_vk_head head;
    uint32_t is[9];
} rlx_vk_coop;

typedef struct rlx_vk_subgroup {
    rlx_vk_head head;
    uint32_t size, stages, operations, has_quads;
} rlx_vk_subgroup;

// VkPhysicalDeviceProperties2.
typedef struct rlx_vk_properties2 {
    rlx_vk_head head;
    uint64_t properties[RLX_VK_PROPERTIES];
} rlx_vk_properties2;

typedef struct rlx_vk_queue_family {
    uint32_t flags, count, timestamp_bits, granularity[3];
} rlx_vk_queue_family;

// Of memory: the device's own; the host sees it, coherently; through its cache.
#define RLX_VK_NEAR    0x1u
#define RLX_VK_VISIBLE 0x6u
#define RLX_VK_CACHED  0x8u

typedef struct rlx_vk_query_info {
    rlx_vk_head head;
    uint32_t flags, kind, count, statistics;
} rlx_vk_query_info;

typedef struct rlx_vk_queue_info {
    rlx_vk_head head;
    uint32_t flags, family, count;
    const float *priorities;
} rlx_vk_queue_info;

typedef struct rlx_vk_device_info {
    rlx_vk_head head;
    uint32_t flags, n_queues;
    const rlx_vk_queue_info *queues;
    uint32_t n_layers;
    const char *const *layers;
    uint32_t n_extensions;
    const char *const *extensions;
    const void *features;
} rlx_vk_device_info;

typedef struct rlx_vk_buffer_info {
    rlx_vk_head head;
    uint32_t flags;
    uint64_t size;
    uint32_t usage, sharing, n_families;
    const uint32_t *families;
} rlx_vk_buffer_info;

typedef struct rlx_vk_requirements {
    uint64_t size, alignment;
    uint32_t types;
} rlx_vk_requirements;

typedef struct rlx_vk_memory_properties {
    uint32_t n_types;
    struct {
        uint32_t flags, heap;
    } types[32];
    uint32_t n_heaps;
    struct {
        uint64_t size;
        uint32_t flags;
    } heaps[16];
} rlx_vk_memory_properties;

typedef struct rlx_vk_memory_flags {
    rlx_vk_head head;
    uint32_t flags, device_mask;
} rlx_vk_memory_flags;

typedef struct rlx_vk_memory_info {
    rlx_vk_head head;
    uint64_t size;
    uint32_t type;
} rlx_vk_memory_info;

typedef struct rlx_vk_buffer_address {
    rlx_vk_head head;
    uint64_t buffer;
} rlx_vk_buffer_address;

typedef struct rlx_vk_module_info {
    rlx_vk_head head;
    uint32_t flags;
    size_t bytes;
    const uint32_t *code;
} rlx_vk_module_info;

typedef struct rlx_vk_push_range {
    uint32_t stages, offset, size;
} rlx_vk_push_range;

typedef struct rlx_vk_layout_info {
    rlx_vk_head head;
    uint32_t flags, n_sets;
    const uint64_t *sets;
    uint32_t n_ranges;
    const rlx_vk_push_range *ranges;
} rlx_vk_layout_info;

typedef struct rlx_vk_stage_info {
    rlx_vk_head head;
    uint32_t flags, stage;
    uint64_t module;
    const char *name;
    const void *specialization;
} rlx_vk_stage_info;

typedef struct rlx_vk_pipeline_info {
    rlx_vk_head head;
    uint32_t flags;
    rlx_vk_stage_info stage;
    uint64_t layout, base;
    int32_t base_index;
} rlx_vk_pipeline_info;

typedef struct rlx_vk_pool_info {
    rlx_vk_head head;
    uint32_t flags, family;
} rlx_vk_pool_info;

typedef struct rlx_vk_commands_info {
    rlx_vk_head head;
    uint64_t pool;
    uint32_t level, count;
} rlx_vk_commands_info;

typedef struct rlx_vk_begin_info {
    rlx_vk_head head;
    uint32_t flags;
    const void *inheritance;
} rlx_vk_begin_info;

typedef struct rlx_vk_barrier {
    rlx_vk_head head;
    uint32_t from, to;
} rlx_vk_barrier;

typedef struct rlx_vk_submit {
    rlx_vk_head head;
    uint32_t n_waits;
    const uint64_t *waits;
    const uint32_t *wait_stages;
    uint32_t n_commands;
    void *const *commands;
    uint32_t n_signals;
    const uint64_t *signals;
} rlx_vk_submit;

typedef struct rlx_vk_semaphore_info {
    rlx_vk_head head;
    uint32_t flags;
} rlx_vk_semaphore_info;

typedef struct rlx_vk_timeline_info {
    rlx_vk_head head;
    uint32_t kind;
    uint64_t begin;
} rlx_vk_timeline_info;

typedef struct rlx_vk_timeline_submit {
    rlx_vk_head head;
    uint32_t n_waits;
    const uint64_t *waits;
    uint32_t n_signals;
    const uint64_t *signals;
} rlx_vk_timeline_submit;

typedef struct rlx_vk_wait_info {
    rlx_vk_head head;
    uint32_t flags, n;
    const uint64_t *semaphores, *values;
} rlx_vk_wait_info;

typedef struct rlx_vk_copy {
    uint64_t from, to, bytes;
} rlx_vk_copy;

// --- Vulkan: functions; 0 is success -------------------------------------------------------------

// Of the instance, in the order of rlx_vulkan_instance_names.
typedef struct rlx_vk_instance_api {
    int (*list_devices)(void *instance, uint32_t *n, void **devices);
    void (*features)(void *physical, rlx_vk_features *out);
    void (*families)(void *physical, uint32_t *n, rlx_vk_queue_family *out);
    void (*memory)(void *physical, rlx_vk_memory_properties *out);
    int (*create_device)(void *physical, const rlx_vk_device_info *info, const void *allocator, void **out);
    void *(*device_function)(void *device, const char *name);
    void (*destroy)(void *instance, const void *allocator);
    void (*properties)(void *physical, uint64_t *out); // RLX_VK_PROPERTIES words
    void (*properties2)(void *physical, rlx_vk_properties2 *out);
    // Of an extension: NULL without it.
    int (*matrices)(void *physical, uint32_t *n, rlx_vk_coop *out);
} rlx_vk_instance_api;

// Of the device, in the order of rlx_vulkan_device_names.
typedef struct rlx_vk_device_api {
    void (*queue)(void *device, uint32_t family, uint32_t index, void **out);
    int (*create_buffer)(void *device, const rlx_vk_buffer_info *info, const void *allocator, uint64_t *out);
    void (*requirements)(void *device, uint64_t buffer, rlx_vk_requirements *out);
    int (*allocate)(void *device, const rlx_vk_memory_info *info, const void *allocator, uint64_t *out);
    int (*bind)(void *device, uint64_t buffer, uint64_t memory, uint64_t offset);
    int (*map)(void *device, uint64_t memory, uint64_t offset, uint64_t size, uint32_t flags, void **out);
    uint64_t (*address)(void *device, const rlx_vk_buffer_address *info);
    int (*create_layout)(void *device, const rlx_vk_layout_info *info, const void *allocator, uint64_t *out);
    int (*create_pool)(void *device, const rlx_vk_pool_info *info, const void *allocator, uint64_t *out);
    int (*create_commands)(void *device, const rlx_vk_commands_info *info, void **out);
    int (*create_semaphore)(void *device, const rlx_vk_semaphore_info *info, const void *allocator,
                            uint64_t *out);
    int (*create_module)(void *device, const rlx_vk_module_info *info, const void *allocator, uint64_t *out);
    int (*create_pipelines)(void *device, uint64_t cache, uint32_t n, const rlx_vk_pipeline_info *info,
                            const void *allocator, uint64_t *out);
    int (*begin)(void *commands, const rlx_vk_begin_info *info);
    int (*end)(void *commands);
    void (*use)(void *commands, uint32_t point, uint64_t pipeline);
    void (*push)(void *commands, uint64_t layout, uint32_t stages, uint32_t offset, uint32_t size,
                 const void *values);
    void (*dispatch)(void *commands, uint32_t x, uint32_t y, uint32_t z);
    void (*barrier)(void *commands, uint32_t from, uint32_t to, uint32_t flags, uint32_t n,
                    const rlx_vk_barrier *barriers, uint32_t n_buffers, const void *buffers,
                    uint32_t n_images, const void *images);
    void (*update)(void *commands, uint64_t buffer, uint64_t offset, uint64_t bytes, const void *data);
    void (*copy)(void *commands, uint64_t from, uint64_t to, uint32_t n, const rlx_vk_copy *copies);
    void (*fill)(void *commands, uint64_t buffer, uint64_t offset, uint64_t bytes, uint32_t value);
    int (*submit)(void *queue, uint32_t n, const rlx_vk_submit *submits, uint64_t fence);
    int (*wait)(void *device, const rlx_vk_wait_info *info, uint64_t ns);
    int (*count)(void *device, uint64_t semaphore, uint64_t *out);
    int (*wait_idle)(void *device);
    void (*destroy_module)(void *device, uint64_t module, const void *allocator);
    void (*destroy_pipeline)(void *device, uint64_t pipeline, const void *allocator);
    void (*destroy_layout)(void *device, uint64_t layout, const void *allocator);
    void (*destroy_pool)(void *device, uint64_t pool, const void *allocator);
    void (*destroy_semaphore)(void *device, uint64_t semaphore, const void *allocator);
    void (*destroy_buffer)(void *device, uint64_t buffer, const void *allocator);
    void (*free_memory)(void *device, uint64_t memory, const void *allocator);
    void (*destroy)(void *device, const void *allocator);
    int (*create_queries)(void *device, const rlx_vk_query_info *info, const void *allocator, uint64_t *out);
    void (*destroy_queries)(void *device, uint64_t queries, const void *allocator);
    void (*reset_queries)(void *commands, uint64_t queries, uint32_t first, uint32_t n);
    void (*stamp)(void *commands, uint32_t stage, uint64_t queries, uint32_t query);
    int (*query)(void *device, uint64_t queries, uint32_t first, uint32_t n, size_t bytes, void *out,
                 uint64_t stride, uint32_t flags);
} rlx_vk_device_api;

static const char *const rlx_vulkan_instance_names[] = {
    "vkEnumeratePhysicalDevices",
    "vkGetPhysicalDeviceFeatures2",
    "vkGetPhysicalDeviceQueueFamilyProperties",
    "vkGetPhysicalDeviceMemoryProperties",
    "vkCreateDevice",
    "vkGetDeviceProcAddr",
    "vkDestroyInstance",
    "vkGetPhysicalDeviceProperties",
    "vkGetPhysicalDeviceProperties2",
    "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
};
#define RLX_VULKAN_OPTIONAL "vkGetPhysicalDeviceCoop" // how names begin of what need not be there

static const char *const rlx_vulkan_device_names[] = {
    "vkGetDeviceQueue",
    "vkCreateBuffer",
    "vkGetBufferMemoryRequirements",
    "vkAllocateMemory",
    "vkBindBufferMemory",
    "vkMapMemory",
    "vkGetBufferDeviceAddress",
    "vkCreatePipelineLayout",
    "vkCreateCommandPool",
    "vkAllocateCommandBuffers",
    "vkCreateSemaphore",
    "vkCreateShaderModule",
    "vkCreateComputePipelines",
    "vkBeginCommandBuffer",
    "vkEndCommandBuffer",
    "vkCmdBindPipeline",
    "vkCmdPushConstants",
    "vkCmdDispatch",
    "vkCmdPipelineBarrier",
    "vkCmdUpdateBuffer",
    "vkCmdCopyBuffer",
    "vkCmdFillBuffer",
    "vkQueueSubmit",
    "vkWaitSemaphores",
    "vkGetSemaphoreCounterValue",
    "vkDeviceWaitIdle",
    "vkDestroyShaderModule",
    "vkDestroyPipeline",
    "vkDestroyPipelineLayout",
    "vkDestroyCommandPool",
    "vkDestroySemaphore",
    "vkDestroyBuffer",
    "vkFreeMemory",
    "vkDestroyDevice",
    "vkCreateQueryPool",
    "vkDestroyQueryPool",
    "vkCmdResetQueryPool",
    "vkCmdWriteTimestamp",
    "vkGetQueryPoolResults",
};

#ifdef __cplusplus
}
#endif

#endif
