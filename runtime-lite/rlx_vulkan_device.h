// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: a Vulkan device. libvulkan is looked for when a context is made: nothing is linked, and no
// header of Vulkan's is needed. Names and numbers below are those of Vulkan 1.2. Pasted behind rlx_gpu.h for
// --target vulkan.
//
// A device has one block of memory. Where the host does not see the device's own, bytes go through a small
// block that both see. Commands are recorded in one of two lists, in turns, so that one can be recorded while
// the other runs; lists that are made once and submitted often are beside them. Kernels wait for those before
// them where rlx_vulkan_barrier says so; every submission counts a semaphore up, and nothing has ended before
// that is seen.
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
    uint64_t stage_buffer, stage_memory;         // then these are what both see
    unsigned char *stage;
    uint32_t family;
    int is_recording; // there are commands that have not been submitted
    int must_wait;    // the next launch is for those before it; other commands always wait
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
                             instance_function(v->instance, rlx_vulkan_instance_names[i])))
            return RLX_VULKAN_NONE;
    return RLX_VULKAN_OK;
}

// A family of queues that compute; -1: there is none.
static inline int rlx_vulkan_family(rlx_vulkan *v, void *physical)
{
    rlx_vk_queue_family families[16];
    uint32_t n = 16, i;
    v->instance_api.families(physical, &n, families);
    for (i = 0; i < n; i++)
        if ((families[i].flags & 2u) != 0 && families[i].count != 0) {
            v->timestamp_bits = families[i].timestamp_bits;
            return (int)i;
        }
    return -1;
}

typedef struct rlx_vulkan_features {
    rlx_vk_features all;
    rlx_vk_features11 v11;
    rlx_vk_features12 v12;
} rlx_vulkan_features;

static inline void rlx_vulkan_link(rlx_vulkan_features *f)
{
    memset(f, 0, sizeof *f);
    f->all.head.type = 1000059000u;
    f->all.head.next = &f->v11;
    f->v11.head.type = 49u;
    f->v11.head.next = &f->v12;
    f->v12.head.type = 51u;
}

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

// The first device that has all that is needed.
static inline int rlx_vulkan_find_device(rlx_vulkan *v)
{
    void *devices[16];
    rlx_vulkan_features features;
    uint32_t n = 16, i;
    if (v->instance_api.list_devices(v->instance, &n, devices) < 0) // 5: there are more
        return RLX_VULKAN_NONE;
    for (i = 0; i < n; i++) {
        const int family = rlx_vulkan_family(v, devices[i]);
        if (family < 0 || !rlx_vulkan_ask(v, devices[i], &features))
            continue;
        v->physical = devices[i];
        v->family = (uint32_t)family;
        return rlx_vulkan_make_device(v, &features);
    }
    return RLX_VULKAN_NONE;
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

// host NULL: memory that the device has nearest, else memory that the host sees there.
static inline int rlx_vulkan_make_buffer(const rlx_vulkan *v, uint64_t bytes, uint64_t *buffer,
                                         uint64_t *memory, void **host)
{
    const uint32_t near_device = 0x1u, visible = 0x2u | 0x4u; // by the host, coherently
    rlx_vk_buffer_info buffer_info;
    rlx_vk_requirements needs;
    rlx_vk_memory_flags flags;
    rlx_vk_memory_info info;
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
    type = rlx_vulkan_memory_type(v, &needs, host != NULL ? visible : near_device, near_device);
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
    return host == NULL || v->api.map(v->device, *memory, 0, ~(uint64_t)0, 0, host) == 0 ? RLX_VULKAN_OK
                                                                                         : RLX_VULKAN_FAILED;
}

// Does the host see the memory that the device has nearest? RLX_VULKAN_STAGED: as if it did not, for tests.
static inline int rlx_vulkan_is_shared(const rlx_vulkan *v, uint64_t bytes)
{
#ifdef RLX_VULKAN_STAGED
    return v == NULL || bytes == 0;
#else
    rlx_vk_requirements needs;
    needs.size = bytes;
    needs.types = ~0u;
    return rlx_vulkan_memory_type(v, &needs, 0x1u, 0) < 0 ||
           rlx_vulkan_memory_type(v, &needs, 0x1u | 0x2u | 0x4u, 0) >= 0;
#endif
}

static inline int rlx_vulkan_make_memory(rlx_vulkan *v, uint64_t bytes)
{
    const uint64_t size = (bytes + 7u) / 8u * 8u + 8u * RLX_VULKAN_MAX_ARGS;
    const int is_shared = rlx_vulkan_is_shared(v, size);
    rlx_vk_buffer_address where;
    void *host = NULL;
    int status = rlx_vulkan_make_buffer(v, size, &v->buffer, &v->memory, is_shared ? &host : NULL);
    v->host = (unsigned char *)host;
    if (status == RLX_VULKAN_OK && !is_shared) {
        status = rlx_vulkan_make_buffer(v, RLX_VULKAN_STAGE, &v->stage_buffer, &v->stage_memory, &host);
        v->stage = (unsigned char *)host;
    }
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

// A device with so many bytes of memory. Otherwise nothing is left behind.
static inline int rlx_vulkan_begin(rlx_vulkan *v, uint64_t bytes)
{
    int status;
    memset(v, 0, sizeof *v);
    status = rlx_vulkan_load(v);
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_find_device(v);
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_make_memory(v, bytes);
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_make_commands(v);
    if (status != RLX_VULKAN_OK)
        rlx_vulkan_end(v);
    return status;
}

// Has the semaphore come so far?
static inline int rlx_vulkan_has_ended(const rlx_vulkan *v, uint64_t count)
{
    uint64_t now = 0;
    return v->api.count(v->device, v->semaphore, &now) != 0 || now >= count;
}

static inline int rlx_vulkan_await(const rlx_vulkan *v, uint64_t count)
{
    rlx_vk_wait_info info;
    memset(&info, 0, sizeof info);
    info.head.type = 1000207004u;
    info.n = 1;
    info.semaphores = &v->semaphore;
    info.values = &count;
    return v->api.wait(v->device, &info, ~(uint64_t)0) == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

// What is recorded in a list runs behind all that was submitted before.
static inline int rlx_vulkan_submit_list(rlx_vulkan *v, void *const *list)
{
    const uint64_t count = v->submitted + 1u;
    rlx_vk_timeline_submit timeline;
    rlx_vk_submit submit;
    memset(&timeline, 0, sizeof timeline);
    memset(&submit, 0, sizeof submit);
    timeline.head.type = 1000207003u;
    timeline.n_signals = 1;
    timeline.signals = &count;
    submit.head.type = 4;
    submit.head.next = &timeline;
    submit.n_commands = 1;
    submit.commands = list;
    submit.n_signals = 1;
    submit.signals = &v->semaphore;
    if (v->api.submit(v->queue, 1, &submit, 0) != 0)
        return RLX_VULKAN_FAILED;
    v->submitted = count;
    return RLX_VULKAN_OK;
}

// The end of a list: the host sees what was written.
static inline int rlx_vulkan_end_list(rlx_vulkan *v)
{
    rlx_vk_barrier barrier;
    memset(&barrier, 0, sizeof barrier);
    barrier.head.type = 46;
    barrier.from = 0x40u | 0x1000u;
    barrier.to = 0x2000u; // the host reads
    v->is_recording = 0;
    v->api.barrier(v->commands, 0x800u | 0x1000u, 0x4000u, 0, 1, &barrier, 0, NULL, 0, NULL);
    return v->api.end(v->commands) == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

// Everything recorded so far runs.
static inline int rlx_vulkan_submit(rlx_vulkan *v)
{
    const int at = v->commands == v->lists[1];
    if (!v->is_recording)
        return RLX_VULKAN_OK;
    if (rlx_vulkan_end_list(v) != RLX_VULKAN_OK || rlx_vulkan_submit_list(v, &v->commands) != RLX_VULKAN_OK)
        return RLX_VULKAN_FAILED;
    v->ends[at] = v->submitted;
    return RLX_VULKAN_OK;
}

// The same, and all has ended on return.
static inline int rlx_vulkan_wait(rlx_vulkan *v)
{
    const int status = rlx_vulkan_submit(v);
    return status == RLX_VULKAN_OK ? rlx_vulkan_await(v, v->submitted) : status;
}

// flags: 1 for a list that is submitted once, 4 for one that may be while it still runs.
static inline int rlx_vulkan_begin_list(rlx_vulkan *v, void *list, uint32_t flags)
{
    rlx_vk_begin_info begin;
    memset(&begin, 0, sizeof begin);
    begin.head.type = 42;
    begin.flags = flags;
    v->commands = list;
    v->must_wait = 1; // for what was submitted before
    v->is_recording = v->api.begin(list, &begin) == 0;
    return v->is_recording ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

// The next launch waits for all commands before.
static inline void rlx_vulkan_barrier(rlx_vulkan *v)
{
    v->must_wait = 1;
}

// Of the next command. The list that is recorded anew is the one that was not last, and has ended most
// likely.
static inline int rlx_vulkan_next(rlx_vulkan *v)
{
    const int at = v->commands == v->lists[0];
    rlx_vk_barrier barrier;
    if (!v->is_recording && (rlx_vulkan_await(v, v->ends[at]) != RLX_VULKAN_OK ||
                             rlx_vulkan_begin_list(v, v->lists[at], 1) != RLX_VULKAN_OK))
        return RLX_VULKAN_FAILED;
    memset(&barrier, 0, sizeof barrier);
    barrier.head.type = 46;
    barrier.from = 0x40u | 0x1000u;                // what shaders and copies wrote
    barrier.to = 0x20u | 0x40u | 0x800u | 0x1000u; // is what those behind it read and write
    if (v->must_wait)
        v->api.barrier(v->commands, 0x800u | 0x1000u, 0x800u | 0x1000u, 0, 1, &barrier, 0, NULL, 0, NULL);
    v->must_wait = 0;
    return RLX_VULKAN_OK;
}

// A launch between its timestamps, each written when all before has ended.
static inline void rlx_vulkan_dispatch(rlx_vulkan *v, uint64_t kernel, uint64_t groups, uint64_t rows)
{
    v->api.use(v->commands, 1, kernel);
    if (v->is_timed) {
        v->api.reset_queries(v->commands, v->queries, 0, 2);
        v->api.stamp(v->commands, 0x2000u, v->queries, 0);
    }
    v->api.dispatch(v->commands, (uint32_t)((groups + rows - 1u) / rows), (uint32_t)rows, 1);
    if (v->is_timed)
        v->api.stamp(v->commands, 0x2000u, v->queries, 1);
}

// args: addresses; groups of as many threads as the kernel is made for, along one row. They are laid out in
// rows that every device can have.
static inline int rlx_vulkan_launch(rlx_vulkan *v, uint64_t kernel, uint64_t groups, const uint64_t *args,
                                    uint32_t n_args)
{
    const uint64_t rows = (groups + 65534u) / 65535u;
    v->must_wait |= n_args > RLX_VULKAN_OWN_ARGS; // the others have one place, which launches before may read
    if (n_args > RLX_VULKAN_MAX_ARGS || rows > 65535u || rlx_vulkan_next(v) != RLX_VULKAN_OK)
        return RLX_VULKAN_FAILED;
    if (rows == 0)
        return RLX_VULKAN_OK;
    if (n_args > RLX_VULKAN_OWN_ARGS) {
        const uint64_t more = v->address + v->bytes;
        v->api.update(v->commands, v->buffer, v->bytes, (n_args - RLX_VULKAN_OWN_ARGS) * 8u,
                      args + RLX_VULKAN_OWN_ARGS);
        v->api.push(v->commands, v->layout, 0x20u, RLX_VULKAN_OWN_ARGS * 8u, 8u, &more);
        n_args = RLX_VULKAN_OWN_ARGS;
        rlx_vulkan_barrier(v);
        if (rlx_vulkan_next(v) != RLX_VULKAN_OK)
            return RLX_VULKAN_FAILED;
    }
    if (n_args != 0)
        v->api.push(v->commands, v->layout, 0x20u, 0, n_args * 8u, args);
    rlx_vulkan_dispatch(v, kernel, groups, rows);
    return RLX_VULKAN_OK;
}

// Another command than a launch: it stands between two barriers.
static inline int rlx_vulkan_apart(rlx_vulkan *v)
{
    int status;
    rlx_vulkan_barrier(v);
    status = rlx_vulkan_next(v);
    rlx_vulkan_barrier(v);
    return status;
}

// Between the host and memory that it does not see, piece by piece; all commands before have ended.
static inline int rlx_vulkan_stage(rlx_vulkan *v, unsigned char *in, const unsigned char *out,
                                   uint64_t offset, uint64_t bytes)
{
    int status = RLX_VULKAN_OK;
    uint64_t at;
    for (at = 0; at < bytes && status == RLX_VULKAN_OK; at += RLX_VULKAN_STAGE) {
        const uint64_t n = bytes - at < RLX_VULKAN_STAGE ? bytes - at : RLX_VULKAN_STAGE;
        rlx_vk_copy copy = {0, 0, 0};
        copy.bytes = n;
        if (out != NULL) {
            copy.to = offset + at;
            memcpy(v->stage, out + at, (size_t)n);
        } else {
            copy.from = offset + at;
        }
        status = rlx_vulkan_apart(v);
        if (status != RLX_VULKAN_OK)
            break;
        v->api.copy(v->commands, out != NULL ? v->stage_buffer : v->buffer,
                    out != NULL ? v->buffer : v->stage_buffer, 1, &copy);
        status = rlx_vulkan_wait(v);
        if (status == RLX_VULKAN_OK && in != NULL)
            memcpy(in + at, v->stage, (size_t)n);
    }
    return status;
}

// Small writes take their turn among the commands; before others all of them end.
static inline int rlx_vulkan_write(rlx_vulkan *v, uint64_t address, const void *data, uint64_t bytes)
{
    const uint64_t offset = address - v->address;
    int status;
    if (bytes == 0)
        return RLX_VULKAN_OK;
    if (v->is_recording && bytes <= 256u && bytes % 4u == 0 && offset % 4u == 0) {
        status = rlx_vulkan_apart(v);
        if (status == RLX_VULKAN_OK)
            v->api.update(v->commands, v->buffer, offset, bytes, data);
        return status;
    }
    status = rlx_vulkan_wait(v);
    if (status != RLX_VULKAN_OK || v->host == NULL)
        return status != RLX_VULKAN_OK
                   ? status
                   : rlx_vulkan_stage(v, NULL, (const unsigned char *)data, offset, bytes);
    memcpy(v->host + offset, data, (size_t)bytes);
    return RLX_VULKAN_OK;
}

// The bytes of whole words in one command, the others by themselves.
static inline int rlx_vulkan_clear(rlx_vulkan *v, uint64_t address, uint64_t bytes)
{
    static const unsigned char zeros[4] = {0, 0, 0, 0};
    const uint64_t offset = address - v->address, head = (4u - offset % 4u) % 4u;
    const uint64_t before = head < bytes ? head : bytes, words = (bytes - before) / 4u * 4u;
    const uint64_t behind = bytes - before - words;
    int status = before != 0 ? rlx_vulkan_write(v, address, zeros, before) : RLX_VULKAN_OK;
    if (status == RLX_VULKAN_OK && words != 0) {
        status = rlx_vulkan_apart(v);
        if (status == RLX_VULKAN_OK)
            v->api.fill(v->commands, v->buffer, offset + before, words, 0);
    }
    return status == RLX_VULKAN_OK && behind != 0
               ? rlx_vulkan_write(v, address + before + words, zeros, behind)
               : status;
}

static inline int rlx_vulkan_read(rlx_vulkan *v, void *data, uint64_t address, uint64_t bytes)
{
    const int status = rlx_vulkan_wait(v);
    if (status != RLX_VULKAN_OK || bytes == 0)
        return status;
    if (v->host == NULL)
        return rlx_vulkan_stage(v, (unsigned char *)data, NULL, address - v->address, bytes);
    memcpy(data, v->host + (address - v->address), (size_t)bytes);
    return RLX_VULKAN_OK;
}

#ifdef __cplusplus
}
#endif

#endif
