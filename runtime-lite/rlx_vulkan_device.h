// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: a Vulkan device. libvulkan is looked for when a context is made: nothing is linked, and no
// header of Vulkan's is needed. Names and numbers below are those of Vulkan 1.2. Pasted after rlx_gpu.h for
// --target vulkan.
//
// A device has one block of memory. Where the host does not see the device's own, bytes go through a small
// block that both see; where it sees it, but not through its cache, it reads through that block too, because
// it would have to fetch word by word.
#ifndef RLX_VULKAN_DEVICE_H
#define RLX_VULKAN_DEVICE_H

#include "rlx_gpu.h"
#include "rlx_vulkan_api.h"

#include <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_VULKAN_OWN_ARGS 15u // addresses that are push constants; one more is that of the others
#define RLX_VULKAN_MAX_ARGS 128u

// --- the device ----------------------------------------------------------------------------------

typedef struct rlx_vulkan {
    rlx_vk_instance_api instance_api;
    rlx_vk_device_api api;
    void *instance, *physical, *device, *queue;
    void *commands;                              // the list that is recorded
    void *lists[2];                              // of them one is
    uint64_t ends[2];                            // what the semaphore counts up to then
    uint64_t layout, pool, semaphore, submitted; // up to there it will count
    uint64_t buffer, memory, address, bytes;     // behind the bytes: arguments
    unsigned char *host;                         // where the host sees the memory, or NULL
    uint64_t stage_buffer, stage_memory;         // what both see, and the host through its cache
    unsigned char *stage;                        // NULL: that is the device's memory
    uint64_t staged, staged_bytes;               // what of the memory a run has copied there, from where on
    uint32_t family;
    int is_recording; // there are commands that have not been submitted
    int has_coop;     // it runs kernels with cooperative matrices
    int has_bf16;     // and those of bf16
    int must_wait;    // the next launch is for those before it; other commands always wait
    int has_copied;   // there was a copy since a barrier that named copies
    // Of a launch, where its run is timed: two timestamps, made for the first one that is. bits 0: none.
    int is_timed;
    uint32_t timestamp_bits;
    uint64_t queries;
} rlx_vulkan;

#define RLX_VULKAN_STAGE 4194304u // bytes that both see

enum { RLX_VULKAN_OK, RLX_VULKAN_NONE, RLX_VULKAN_FAILED }; // NONE: no library, or no device that suits

// A table of function pointers: C99 has no cast to them from what dlsym gives, so bytes are copied.
static inline int rlx_vulkan_take(void *table, size_t i, void *found)
{
    memcpy((unsigned char *)table + i * sizeof found, &found, sizeof found);
    return found != NULL;
}

static inline int rlx_vulkan_load(rlx_vulkan *v)
{
    static const rlx_vk_app app = {{0, NULL}, "rlxc", 1, "rlxc", 1, 0x402000u}; // Vulkan 1.2
    void *const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    void *(*instance_function)(void *instance, const char *name);
    int (*create)(const rlx_vk_instance_info *info, const void *allocator, void **out);
    rlx_vk_instance_info info;
    size_t i;
    if (found == NULL)
        return RLX_VULKAN_NONE;
    memcpy(&instance_function, &found, sizeof found);
    found = instance_function(NULL, "vkCreateInstance");
    if (found == NULL)
        return RLX_VULKAN_NONE;
    memcpy(&create, &found, sizeof found);
    memset(&info, 0, sizeof info);
    info.head.type = 1;
    info.app = &app;
    if (create(&info, NULL, &v->instance) != 0) {
        v->instance = NULL;
        return RLX_VULKAN_NONE;
    }
    for (i = 0; i < sizeof rlx_vulkan_instance_names / sizeof *rlx_vulkan_instance_names; i++)
        if (!rlx_vulkan_take(&v->instance_api, i,
                             instance_function(v->instance, rlx_vulkan_instance_names[i])) &&
            strncmp(rlx_vulkan_instance_names[i], RLX_VULKAN_OPTIONAL, sizeof RLX_VULKAN_OPTIONAL - 1u) != 0)
            return RLX_VULKAN_NONE;
    return RLX_VULKAN_OK;
}

// A family of queues that compute, best one that does not draw: its lists begin faster. -1: there is none.
static inline int rlx_vulkan_family(rlx_vulkan *v, void *physical)
{
    rlx_vk_queue_family families[16];
    uint32_t n = 16, i;
    int best = -1;
    v->instance_api.families(physical, &n, families);
    for (i = 0; i < n; i++)
        if ((families[i].flags & 2u) != 0 && families[i].count != 0 &&
            (best < 0 || (families[i].flags & 1u) < (families[best].flags & 1u)))
            best = (int)i;
    if (best >= 0)
        v->timestamp_bits = families[best].timestamp_bits;
    return best;
}

typedef struct rlx_vulkan_features {
    rlx_vk_features all;
    rlx_vk_features11 v11;
    rlx_vk_features12 v12;
    rlx_vk_features_coop coop;
    rlx_vk_features_bf16 bf16;
} rlx_vulkan_features;

static inline void rlx_vulkan_link(rlx_vulkan_features *f)
{
    memset(f, 0, sizeof *f);
    f->all.head.type = 1000059000u;
    f->all.head.next = &f->v11;
    f->v11.head.type = 49u;
    f->v11.head.next = &f->v12;
    f->v12.head.type = 51u;
    f->coop.head.type = 1000506000u;
    f->bf16.head.type = 1000141000u;
}

// --- cooperative matrices ------------------------------------------------------------------------

#define RLX_VULKAN_COOP "VK_KHR_cooperative_matrix"
#define RLX_VULKAN_BF16_NAME "VK_KHR_shader_bfloat16"

// Sums of f32 of products of a type (f16, bf16), in squares of 16 x 16, by subgroups of 32, and the memory of
// a group (codegen/prelude/glsl.inc), which is more than every device has: what kernels are made for.
#define RLX_VULKAN_F16_TYPE   0u
#define RLX_VULKAN_BF16_TYPE  1000141000u
#define RLX_VULKAN_COOP_BYTES 49152u
static inline int rlx_vulkan_has_squares(const rlx_vulkan *v, uint32_t type_of_factors)
{
    const uint32_t wanted[9] = {16, 16, 16, type_of_factors, type_of_factors, 1,
                                1,  0,  3}; // saturating, scope
    rlx_vk_coop list[64];
    rlx_vk_subgroup subgroup;
    rlx_vk_properties2 all;
    uint32_t n = 64, shared = 0, i;
    memset(list, 0, sizeof list);
    memset(&subgroup, 0, sizeof subgroup);
    memset(&all, 0, sizeof all);
    for (i = 0; i < n; i++)
        list[i].head.type = 1000506001u;
    subgroup.head.type = 1000094000u;
    all.head.type = 1000059001u;
    all.head.next = &subgroup;
    v->instance_api.properties2(v->physical, &all);
    memcpy(&shared, (const unsigned char *)all.properties + RLX_VK_SHARED_MEMORY, sizeof shared);
    if (shared < RLX_VULKAN_COOP_BYTES || subgroup.size != 32u ||
        v->instance_api.matrices(v->physical, &n, list) < 0)
        return 0;
    for (i = 0; i < n; i++)
        if (memcmp(list[i].is, wanted, sizeof wanted) == 0)
            return 1;
    return 0;
}

// Asks for cooperative matrices where the device has what kernels use of them. Drivers that do not know the
// extension leave its feature as it is, 0.
static inline void rlx_vulkan_ask_coop(rlx_vulkan *v, rlx_vulkan_features *wanted)
{
    rlx_vulkan_features has;
    if (v->instance_api.matrices == NULL)
        return;
    rlx_vulkan_link(&has);
    has.v12.head.next = &has.coop;
    has.coop.head.next = &has.bf16;
    v->instance_api.features(v->physical, &has.all);
    if (has.coop.matrices == 0 || has.v12.model == 0 || has.v12.f16 == 0 ||
        !rlx_vulkan_has_squares(v, RLX_VULKAN_F16_TYPE))
        return;
    v->has_coop = 1;
    v->has_bf16 = has.bf16.matrices != 0 && rlx_vulkan_has_squares(v, RLX_VULKAN_BF16_TYPE);
    wanted->v12.head.next = &wanted->coop;
    wanted->coop.head.next = v->has_bf16 ? &wanted->bf16 : NULL;
    wanted->bf16.types = wanted->bf16.matrices = 1;
    wanted->v12.model = wanted->v12.f16 = wanted->coop.matrices = 1;
}

// --- the device's choice -------------------------------------------------------------------------

// Of what a device can do, what kernels may use. 0: it lacks what all of them need.
static inline int rlx_vulkan_ask(const rlx_vulkan *v, void *physical, rlx_vulkan_features *wanted)
{
    rlx_vulkan_features has;
    rlx_vulkan_link(&has);
    rlx_vulkan_link(wanted);
    v->instance_api.features(physical, &has.all);
    wanted->all.f64 = has.all.f64;
    wanted->all.i64 = has.all.i64;
    wanted->all.i16 = has.all.i16;
    wanted->v11.storage16 = has.v11.storage16;
    wanted->v12.storage8 = has.v12.storage8;
    wanted->v12.i8 = has.v12.i8;
    wanted->v12.address = has.v12.address;
    wanted->v12.timeline = has.v12.timeline;
    return has.v12.address != 0 && has.v12.timeline != 0 && has.v12.storage8 != 0 && has.v11.storage16 != 0 &&
           has.all.i64 != 0;
}

static inline int rlx_vulkan_make_device(rlx_vulkan *v, const rlx_vulkan_features *features)
{
    static const float priority = 1;
    static const char *const extensions[] = {RLX_VULKAN_COOP, RLX_VULKAN_BF16_NAME};
    rlx_vk_queue_info queue;
    rlx_vk_device_info info;
    size_t i;
    memset(&queue, 0, sizeof queue);
    memset(&info, 0, sizeof info);
    queue.head.type = 2;
    queue.family = v->family;
    queue.count = 1;
    queue.priorities = &priority;
    info.head.type = 3;
    info.head.next = features;
    info.n_queues = 1;
    info.queues = &queue;
    info.n_extensions = v->has_bf16 ? 2u : v->has_coop ? 1u : 0u;
    info.extensions = extensions;
    if (v->instance_api.create_device(v->physical, &info, NULL, &v->device) != 0) {
        v->device = NULL;
        return RLX_VULKAN_FAILED;
    }
    for (i = 0; i < sizeof rlx_vulkan_device_names / sizeof *rlx_vulkan_device_names; i++)
        if (!rlx_vulkan_take(&v->api, i,
                             v->instance_api.device_function(v->device, rlx_vulkan_device_names[i])))
            return RLX_VULKAN_NONE;
    v->api.queue(v->device, v->family, 0, &v->queue);
    return RLX_VULKAN_OK;
}

#define RLX_VULKAN_PROCESSOR 0u

// How much a device is wanted: one with memory of its own before one that shares the processor's, a part of
// one, what else there is, and a processor.
static inline uint32_t rlx_vulkan_rank(const rlx_vulkan *v, void *physical)
{
    static const uint32_t ranks[] = {1, 3, 4, 2, RLX_VULKAN_PROCESSOR}; // of VkPhysicalDeviceType
    uint64_t properties[RLX_VK_PROPERTIES];
    uint32_t kind;
    v->instance_api.properties(physical, properties);
    memcpy(&kind, (const unsigned char *)properties + RLX_VK_DEVICE_KIND, sizeof kind);
    return kind < sizeof ranks / sizeof *ranks ? ranks[kind] : ranks[0];
}

// How much: 0, if it lacks what is needed.
static inline uint32_t rlx_vulkan_want(rlx_vulkan *v, void *physical)
{
    rlx_vulkan_features features;
    return rlx_vulkan_family(v, physical) >= 0 && rlx_vulkan_ask(v, physical, &features)
               ? 1u + rlx_vulkan_rank(v, physical)
               : 0u;
}

// The devices, those that are wanted most first: how many there are.
#define RLX_VULKAN_DEVICES 16u
static inline uint32_t rlx_vulkan_sort(rlx_vulkan *v, void **devices)
{
    uint32_t n = RLX_VULKAN_DEVICES, i, j;
    if (v->instance_api.list_devices(v->instance, &n, devices) < 0) // 5: there are more
        return 0;
    for (i = 1; i < n; i++) {
        void *const one = devices[i];
        const uint32_t want = rlx_vulkan_want(v, one);
        for (j = i; j > 0 && rlx_vulkan_want(v, devices[j - 1u]) < want; j--)
            devices[j] = devices[j - 1u];
        devices[j] = one;
    }
    return n;
}

static inline int rlx_vulkan_find_device(rlx_vulkan *v, uint32_t ordinal)
{
    void *devices[RLX_VULKAN_DEVICES];
    rlx_vulkan_features features;
    if (ordinal >= rlx_vulkan_sort(v, devices) || rlx_vulkan_want(v, devices[ordinal]) == 0)
        return RLX_VULKAN_NONE;
    v->physical = devices[ordinal];
    (void)rlx_vulkan_ask(v, v->physical, &features);
    v->family = (uint32_t)rlx_vulkan_family(v, v->physical);
    rlx_vulkan_ask_coop(v, &features);
    return rlx_vulkan_make_device(v, &features);
}

// A kind of memory of which there are so many bytes, with all the flags, best with the others as well; -1:
// there is none.
static inline int rlx_vulkan_memory_type(const rlx_vulkan *v, const rlx_vk_requirements *needs,
                                         uint32_t flags, uint32_t better)
{
    rlx_vk_memory_properties has;
    int best = -1;
    uint32_t i;
    v->instance_api.memory(v->physical, &has);
    for (i = 0; i < has.n_types; i++) {
        if ((needs->types >> i & 1u) == 0 || (has.types[i].flags & flags) != flags ||
            has.heaps[has.types[i].heap].size < needs->size)
            continue;
        if (best < 0 || ((has.types[i].flags & better) != 0 && (has.types[best].flags & better) == 0))
            best = (int)i;
    }
    return best;
}

// Memory that has these flags; *host where the host sees it.
static inline int rlx_vulkan_make_buffer(const rlx_vulkan *v, uint64_t bytes, uint32_t needed,
                                         uint32_t better, uint64_t *buffer, uint64_t *memory,
                                         unsigned char **host)
{
    rlx_vk_buffer_info buffer_info;
    rlx_vk_requirements needs;
    rlx_vk_memory_flags flags;
    rlx_vk_memory_info info;
    void *seen = NULL;
    int type;
    memset(&buffer_info, 0, sizeof buffer_info);
    memset(&flags, 0, sizeof flags);
    memset(&info, 0, sizeof info);
    buffer_info.head.type = 12;
    buffer_info.size = bytes;
    buffer_info.usage = 0x20000u | 0x20u | 0x3u; // address, storage, copies
    if (v->api.create_buffer(v->device, &buffer_info, NULL, buffer) != 0)
        return RLX_VULKAN_FAILED;
    v->api.requirements(v->device, *buffer, &needs);
    type = rlx_vulkan_memory_type(v, &needs, needed, better);
    if (type < 0)
        return RLX_VULKAN_NONE;
    flags.head.type = 1000060000u;
    flags.flags = 2; // has an address
    info.head.type = 5;
    info.head.next = &flags;
    info.size = needs.size;
    info.type = (uint32_t)type;
    if (v->api.allocate(v->device, &info, NULL, memory) != 0 ||
        v->api.bind(v->device, *buffer, *memory, 0) != 0)
        return RLX_VULKAN_FAILED;
    if ((needed & RLX_VK_VISIBLE) != 0 && v->api.map(v->device, *memory, 0, ~(uint64_t)0, 0, &seen) != 0)
        return RLX_VULKAN_FAILED;
    *host = (unsigned char *)seen;
    return RLX_VULKAN_OK;
}

// Of the memory that the device has nearest, what the host sees of so many bytes: all, through its cache or
// not, or nothing; last the host's own, for what is larger. RLX_VULKAN_STAGED: less than there is, for tests.
static inline uint32_t rlx_vulkan_memory_kind(const rlx_vulkan *v, uint64_t bytes)
{
    static const uint32_t kinds[] = {RLX_VK_NEAR | RLX_VK_VISIBLE | RLX_VK_CACHED,
                                     RLX_VK_NEAR | RLX_VK_VISIBLE, RLX_VK_NEAR, RLX_VK_VISIBLE};
#ifdef RLX_VULKAN_STAGED
    uint32_t i = RLX_VULKAN_STAGED;
#else
    uint32_t i = 0;
#endif
    rlx_vk_requirements needs;
    needs.size = bytes;
    needs.types = ~0u;
    while (i < 3u && rlx_vulkan_memory_type(v, &needs, kinds[i], 0) < 0)
        i++;
    return kinds[i];
}

static inline int rlx_vulkan_make_memory(rlx_vulkan *v, uint64_t bytes)
{
    const uint64_t size = (bytes + 7u) / 8u * 8u + 8u * RLX_VULKAN_MAX_ARGS;
    const uint32_t kind = rlx_vulkan_memory_kind(v, size);
    rlx_vk_buffer_address where;
    int status = rlx_vulkan_make_buffer(v, size, kind, 0, &v->buffer, &v->memory, &v->host);
    if (status == RLX_VULKAN_OK && (kind & RLX_VK_CACHED) == 0)
        status = rlx_vulkan_make_buffer(v, RLX_VULKAN_STAGE, RLX_VK_VISIBLE, RLX_VK_CACHED, &v->stage_buffer,
                                        &v->stage_memory, &v->stage);
    if (status != RLX_VULKAN_OK)
        return status;
    memset(&where, 0, sizeof where);
    where.head.type = 1000244001u;
    where.buffer = v->buffer;
    v->bytes = (bytes + 7u) / 8u * 8u;
    v->address = v->api.address(v->device, &where);
    return v->address != 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

static inline int rlx_vulkan_make_list(const rlx_vulkan *v, void **list)
{
    rlx_vk_commands_info info;
    memset(&info, 0, sizeof info);
    info.head.type = 40;
    info.pool = v->pool;
    info.count = 1;
    return v->api.create_commands(v->device, &info, list) == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

static inline int rlx_vulkan_make_commands(rlx_vulkan *v)
{
    static const rlx_vk_push_range range = {0x20u, 0, 8u * (RLX_VULKAN_OWN_ARGS + 1u)};
    rlx_vk_layout_info layout;
    rlx_vk_pool_info pool;
    rlx_vk_timeline_info timeline;
    rlx_vk_semaphore_info semaphore;
    memset(&layout, 0, sizeof layout);
    memset(&pool, 0, sizeof pool);
    memset(&timeline, 0, sizeof timeline);
    memset(&semaphore, 0, sizeof semaphore);
    layout.head.type = 30;
    layout.n_ranges = 1;
    layout.ranges = &range;
    pool.head.type = 39;
    pool.flags = 2; // commands can be written anew
    pool.family = v->family;
    timeline.head.type = 1000207002u;
    timeline.kind = 1; // counts
    semaphore.head.type = 9;
    semaphore.head.next = &timeline;
    if (v->api.create_layout(v->device, &layout, NULL, &v->layout) != 0 ||
        v->api.create_pool(v->device, &pool, NULL, &v->pool) != 0 ||
        v->api.create_semaphore(v->device, &semaphore, NULL, &v->semaphore) != 0 ||
        rlx_vulkan_make_list(v, &v->lists[0]) != RLX_VULKAN_OK)
        return RLX_VULKAN_FAILED;
    return rlx_vulkan_make_list(v, &v->lists[1]);
}

// Gives back what there is. The library stays loaded.
static inline void rlx_vulkan_end(rlx_vulkan *v)
{
    if (v->device != NULL && v->api.destroy != NULL) {
        v->api.wait_idle(v->device);
        v->api.destroy_semaphore(v->device, v->semaphore, NULL);
        v->api.destroy_pool(v->device, v->pool, NULL);
        v->api.destroy_layout(v->device, v->layout, NULL);
        v->api.destroy_queries(v->device, v->queries, NULL);
        v->api.destroy_buffer(v->device, v->buffer, NULL);
        v->api.free_memory(v->device, v->memory, NULL);
        v->api.destroy_buffer(v->device, v->stage_buffer, NULL);
        v->api.free_memory(v->device, v->stage_memory, NULL);
        v->api.destroy(v->device, NULL);
    }
    if (v->instance != NULL && v->instance_api.destroy != NULL)
        v->instance_api.destroy(v->instance, NULL);
    memset(v, 0, sizeof *v);
}

// The device of that number, with so many bytes of memory. Otherwise nothing is left behind.
static inline int rlx_vulkan_begin(rlx_vulkan *v, uint32_t ordinal, uint64_t bytes)
{
    int status;
    memset(v, 0, sizeof *v);
    status = rlx_vulkan_load(v);
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_find_device(v, ordinal);
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_make_memory(v, bytes);
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_make_commands(v);
    if (status != RLX_VULKAN_OK)
        rlx_vulkan_end(v);
    return status;
}

static inline void rlx_vulkan_describe(rlx_vulkan *v, void *physical, rlx_device_info *info)
{
    static const rlx_device_kind kinds[] = {RLX_DEVICE_OTHER, RLX_DEVICE_INTEGRATED, RLX_DEVICE_GPU,
                                            RLX_DEVICE_VIRTUAL, RLX_DEVICE_CPU};
    uint64_t properties[RLX_VK_PROPERTIES];
    const unsigned char *const bytes = (const unsigned char *)properties;
    rlx_vk_memory_properties has;
    uint32_t kind, i;
    memset(info, 0, sizeof *info);
    v->instance_api.properties(physical, properties);
    v->instance_api.memory(physical, &has);
    memcpy(&kind, bytes + RLX_VK_DEVICE_KIND, sizeof kind);
    memcpy(info->name, bytes + RLX_VK_DEVICE_NAME, sizeof info->name - 1u);
    info->kind = kind < sizeof kinds / sizeof *kinds ? kinds[kind] : RLX_DEVICE_OTHER;
    for (i = 0; i < has.n_heaps; i++)
        if ((has.heaps[i].flags & 1u) != 0) // the device's own
            info->memory += has.heaps[i].size;
    info->can_run = rlx_vulkan_want(v, physical) != 0;
}

static inline void rlx_vulkan_list(const rlx_model *model, rlx_device_info *list, uint32_t n, uint32_t *count)
{
    void *devices[RLX_VULKAN_DEVICES];
    rlx_vulkan v;
    uint32_t i;
    (void)model;
    *count = 0;
    memset(&v, 0, sizeof v);
    if (rlx_vulkan_load(&v) == RLX_VULKAN_OK)
        *count = rlx_vulkan_sort(&v, devices);
    for (i = 0; i < *count && i < n; i++)
        rlx_vulkan_describe(&v, devices[i], &list[i]);
    rlx_vulkan_end(&v);
}

#ifdef __cplusplus
}
#endif

#endif
