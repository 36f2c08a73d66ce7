// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: models on Vulkan devices. libvulkan is looked for when a context is made: nothing is linked,
// and no header of Vulkan's is needed. Names and numbers below are those of Vulkan 1.2. Pasted behind
// rlx_gpu.h for --target vulkan.
//
// A device has one block of memory, which the host sees as well, and one list of commands. Kernels wait for
// those before them where rlx_vulkan_barrier says so; nothing has ended before rlx_vulkan_wait.
#ifndef RLX_VULKAN_H
#define RLX_VULKAN_H

#include "rlx_gpu.h"
#include "rlx_vulkan_api.h"

#include <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_VULKAN_OWN_ARGS 15u  // addresses that are push constants; one more is that of the others
#define RLX_VULKAN_MAX_ARGS 128u

// --- the device ----------------------------------------------------------------------------------

typedef struct rlx_vulkan {
    rlx_vk_instance_api instance_api;
    rlx_vk_device_api api;
    void *instance, *physical, *device, *queue, *commands;
    uint64_t layout, pool, fence, buffer, memory, address, bytes; // behind the bytes: arguments
    unsigned char *host;                                          // where the host sees the memory
    uint32_t family;
    int is_recording; // there are commands that have not been submitted
    int must_wait;    // the next launch is for those before it; other commands always wait
} rlx_vulkan;

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
static inline int rlx_vulkan_family(const rlx_vulkan *v, void *physical)
{
    rlx_vk_queue_family families[16];
    uint32_t n = 16, i;
    v->instance_api.families(physical, &n, families);
    for (i = 0; i < n; i++)
        if ((families[i].flags & 2u) != 0 && families[i].count != 0)
            return (int)i;
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
    return has.v12.address != 0 && has.v12.storage8 != 0 && has.v11.storage16 != 0 && has.all.i64 != 0;
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

// The block of memory: best where the device has it nearest, and always where the host sees it.
static inline int rlx_vulkan_make_memory(rlx_vulkan *v, uint64_t bytes)
{
    rlx_vk_buffer_info buffer;
    rlx_vk_requirements needs;
    rlx_vk_memory_properties has;
    rlx_vk_memory_flags flags;
    rlx_vk_memory_info info;
    rlx_vk_buffer_address where;
    void *host = NULL;
    uint32_t i, best = 0xffffffffu;
    memset(&buffer, 0, sizeof buffer);
    buffer.head.type = 12;
    buffer.size = (bytes + 7u) / 8u * 8u + 8u * RLX_VULKAN_MAX_ARGS;
    buffer.usage = 0x20000u | 0x20u | 0x3u; // address, storage, copies
    if (v->api.create_buffer(v->device, &buffer, NULL, &v->buffer) != 0)
        return RLX_VULKAN_FAILED;
    v->api.requirements(v->device, v->buffer, &needs);
    v->instance_api.memory(v->physical, &has);
    for (i = 0; i < has.n_types; i++) {
        const uint32_t visible = 0x2u | 0x4u; // by the host, coherently
        if ((needs.types >> i & 1u) == 0 || (has.types[i].flags & visible) != visible)
            continue;
        if (best == 0xffffffffu || ((has.types[i].flags & 1u) != 0 && (has.types[best].flags & 1u) == 0))
            best = i;
    }
    if (best == 0xffffffffu)
        return RLX_VULKAN_NONE;
    memset(&flags, 0, sizeof flags);
    memset(&info, 0, sizeof info);
    memset(&where, 0, sizeof where);
    flags.head.type = 1000060000u;
    flags.flags = 2; // has an address
    info.head.type = 5;
    info.head.next = &flags;
    info.size = needs.size;
    info.type = best;
    where.head.type = 1000244001u;
    where.buffer = v->buffer;
    if (v->api.allocate(v->device, &info, NULL, &v->memory) != 0 ||
        v->api.bind(v->device, v->buffer, v->memory, 0) != 0 ||
        v->api.map(v->device, v->memory, 0, ~(uint64_t)0, 0, &host) != 0)
        return RLX_VULKAN_FAILED;
    v->host = (unsigned char *)host;
    v->bytes = (bytes + 7u) / 8u * 8u;
    v->address = v->api.address(v->device, &where);
    return v->address != 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

static inline int rlx_vulkan_make_commands(rlx_vulkan *v)
{
    static const rlx_vk_push_range range = {0x20u, 0, 8u * (RLX_VULKAN_OWN_ARGS + 1u)};
    rlx_vk_layout_info layout;
    rlx_vk_pool_info pool;
    rlx_vk_commands_info commands;
    rlx_vk_fence_info fence;
    memset(&layout, 0, sizeof layout);
    memset(&pool, 0, sizeof pool);
    memset(&commands, 0, sizeof commands);
    memset(&fence, 0, sizeof fence);
    layout.head.type = 30;
    layout.n_ranges = 1;
    layout.ranges = &range;
    pool.head.type = 39;
    pool.flags = 2; // commands can be written anew
    pool.family = v->family;
    commands.head.type = 40;
    commands.count = 1;
    fence.head.type = 8;
    if (v->api.create_layout(v->device, &layout, NULL, &v->layout) != 0 ||
        v->api.create_pool(v->device, &pool, NULL, &v->pool) != 0)
        return RLX_VULKAN_FAILED;
    commands.pool = v->pool;
    return v->api.create_commands(v->device, &commands, &v->commands) == 0 &&
                   v->api.create_fence(v->device, &fence, NULL, &v->fence) == 0
               ? RLX_VULKAN_OK
               : RLX_VULKAN_FAILED;
}

// Gives back what there is. The library stays loaded.
static inline void rlx_vulkan_end(rlx_vulkan *v)
{
    if (v->device != NULL && v->api.destroy != NULL) {
        v->api.wait_idle(v->device);
        v->api.destroy_fence(v->device, v->fence, NULL);
        v->api.destroy_pool(v->device, v->pool, NULL);
        v->api.destroy_layout(v->device, v->layout, NULL);
        v->api.destroy_buffer(v->device, v->buffer, NULL);
        v->api.free_memory(v->device, v->memory, NULL);
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

// A kernel of SPIR-V.
static inline int rlx_vulkan_make_kernel(rlx_vulkan *v, const uint32_t *code, size_t bytes, uint64_t *out)
{
    rlx_vk_module_info module;
    rlx_vk_pipeline_info info;
    uint64_t made = 0;
    int status;
    memset(&module, 0, sizeof module);
    memset(&info, 0, sizeof info);
    module.head.type = 16;
    module.bytes = bytes;
    module.code = code;
    if (v->api.create_module(v->device, &module, NULL, &made) != 0)
        return RLX_VULKAN_FAILED;
    info.head.type = 29;
    info.stage.head.type = 18;
    info.stage.stage = 0x20u;
    info.stage.module = made;
    info.stage.name = "main";
    info.layout = v->layout;
    status = v->api.create_pipelines(v->device, 0, 1, &info, NULL, out);
    v->api.destroy_module(v->device, made, NULL);
    return status == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

static inline void rlx_vulkan_free_kernel(rlx_vulkan *v, uint64_t kernel)
{
    v->api.destroy_pipeline(v->device, kernel, NULL);
}

// Everything recorded so far runs, and has ended on return.
static inline int rlx_vulkan_wait(rlx_vulkan *v)
{
    rlx_vk_submit submit;
    rlx_vk_barrier barrier;
    if (!v->is_recording)
        return RLX_VULKAN_OK;
    v->is_recording = 0;
    memset(&submit, 0, sizeof submit);
    memset(&barrier, 0, sizeof barrier);
    submit.head.type = 4;
    submit.n_commands = 1;
    submit.commands = &v->commands;
    barrier.head.type = 46;
    barrier.from = 0x40u | 0x1000u;
    barrier.to = 0x2000u; // the host reads
    v->api.barrier(v->commands, 0x800u | 0x1000u, 0x4000u, 0, 1, &barrier, 0, NULL, 0, NULL);
    if (v->api.end(v->commands) != 0 || v->api.submit(v->queue, 1, &submit, v->fence) != 0 ||
        v->api.wait(v->device, 1, &v->fence, 1, ~(uint64_t)0) != 0)
        return RLX_VULKAN_FAILED;
    return v->api.reset_fences(v->device, 1, &v->fence) == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

// The next launch waits for all commands before.
static inline void rlx_vulkan_barrier(rlx_vulkan *v)
{
    v->must_wait = 1;
}

// Of the next command.
static inline int rlx_vulkan_next(rlx_vulkan *v)
{
    rlx_vk_begin_info begin;
    rlx_vk_barrier barrier;
    memset(&begin, 0, sizeof begin);
    memset(&barrier, 0, sizeof barrier);
    begin.head.type = 42;
    begin.flags = 1; // submitted once
    barrier.head.type = 46;
    barrier.from = 0x40u | 0x1000u;                // what shaders and copies wrote
    barrier.to = 0x20u | 0x40u | 0x800u | 0x1000u; // is what those behind it read and write
    if (!v->is_recording && v->api.begin(v->commands, &begin) != 0)
        return RLX_VULKAN_FAILED;
    if (v->is_recording && v->must_wait)
        v->api.barrier(v->commands, 0x800u | 0x1000u, 0x800u | 0x1000u, 0, 1, &barrier, 0, NULL, 0, NULL);
    v->is_recording = 1;
    v->must_wait = 0;
    return RLX_VULKAN_OK;
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
    v->api.use(v->commands, 1, kernel);
    v->api.dispatch(v->commands, (uint32_t)((groups + rows - 1u) / rows), (uint32_t)rows, 1);
    return RLX_VULKAN_OK;
}

static inline unsigned char *rlx_vulkan_host(const rlx_vulkan *v, uint64_t address)
{
    return v->host + (address - v->address);
}

// Small writes take their turn among the commands; before others all of them end.
static inline int rlx_vulkan_write(rlx_vulkan *v, uint64_t address, const void *data, uint64_t bytes)
{
    int status;
    if (bytes == 0)
        return RLX_VULKAN_OK;
    if (v->is_recording && bytes <= 256u && bytes % 4u == 0 && (address - v->address) % 4u == 0) {
        rlx_vulkan_barrier(v);
        status = rlx_vulkan_next(v);
        if (status == RLX_VULKAN_OK)
            v->api.update(v->commands, v->buffer, address - v->address, bytes, data);
        rlx_vulkan_barrier(v);
        return status;
    }
    status = rlx_vulkan_wait(v);
    if (status == RLX_VULKAN_OK)
        memcpy(rlx_vulkan_host(v, address), data, (size_t)bytes);
    return status;
}

static inline int rlx_vulkan_clear(rlx_vulkan *v, uint64_t address, uint64_t bytes)
{
    int status;
    if (bytes == 0)
        return RLX_VULKAN_OK;
    if (v->is_recording && bytes % 4u == 0 && (address - v->address) % 4u == 0) {
        rlx_vulkan_barrier(v);
        status = rlx_vulkan_next(v);
        if (status == RLX_VULKAN_OK)
            v->api.fill(v->commands, v->buffer, address - v->address, bytes, 0);
        rlx_vulkan_barrier(v);
        return status;
    }
    status = rlx_vulkan_wait(v);
    if (status == RLX_VULKAN_OK)
        memset(rlx_vulkan_host(v, address), 0, (size_t)bytes);
    return status;
}

static inline int rlx_vulkan_read(rlx_vulkan *v, void *data, uint64_t address, uint64_t bytes)
{
    const int status = rlx_vulkan_wait(v);
    if (status == RLX_VULKAN_OK && bytes != 0)
        memcpy(data, rlx_vulkan_host(v, address), (size_t)bytes);
    return status;
}

// --- models --------------------------------------------------------------------------------------

// The record in the state block; behind it the functions: kernels, as numbers of 64 bits.
typedef struct rlx_vulkan_record {
    rlx_vulkan device;
    const rlx_gpu_program *program;
} rlx_vulkan_record;

// The record must fit: an array of -1 elements does not compile.
typedef char rlx_vulkan_fits[sizeof(rlx_vulkan_record) <= RLX_GPU_RECORD ? 1 : -1];

static inline uint64_t *rlx_vulkan_kernels(unsigned char *record)
{
    return (uint64_t *)(void *)(record + RLX_GPU_RECORD);
}

static inline rlx_status rlx_vulkan_status(int result)
{
    return result == RLX_VULKAN_OK ? RLX_OK : result == RLX_VULKAN_NONE ? RLX_ERR_NO_DEVICE : RLX_ERR_DEVICE;
}

static inline void rlx_vulkan_free_kernels(rlx_vulkan *v, const uint64_t *kernels, uint32_t n)
{
    uint32_t i;
    for (i = 0; i < n; i++)
        rlx_vulkan_free_kernel(v, kernels[i]);
}

// The record is written when nothing can fail any more; the kernels stand behind it already.
static inline rlx_status rlx_vulkan_open(const rlx_model *model, unsigned char *arena, unsigned char *record,
                                         const void *weights)
{
    const rlx_gpu_program *const p = (const rlx_gpu_program *)model->device->program;
    uint64_t *const kernels = rlx_vulkan_kernels(record);
    rlx_vulkan_record r;
    uint32_t n = 0;
    int status = rlx_vulkan_begin(&r.device, p->bytes);
    (void)arena;
    if (status != RLX_VULKAN_OK)
        return rlx_vulkan_status(status);
    r.program = p;
    while (n < p->n_functions && status == RLX_VULKAN_OK) {
        uint64_t kernel = 0;
        status = rlx_vulkan_make_kernel(&r.device, (const uint32_t *)p->images[n].data, p->images[n].bytes,
                                        &kernel);
        if (status == RLX_VULKAN_OK)
            kernels[n++] = kernel;
    }
    if (status != RLX_VULKAN_OK) {
        rlx_vulkan_free_kernels(&r.device, kernels, n);
        rlx_vulkan_end(&r.device);
        return RLX_ERR_NO_DEVICE; // it lacks what a kernel needs
    }
    if (model->weight_bytes != 0)
        memcpy(r.device.host + p->weights, weights, model->weight_bytes);
    memcpy(record, &r, sizeof r);
    return RLX_OK;
}

static inline rlx_vulkan_record *rlx_vulkan_of(const rlx_ctx *ctx)
{
    return (rlx_vulkan_record *)(void *)(ctx->state + ctx->model->device->record);
}

static inline void rlx_vulkan_close(const rlx_ctx *ctx)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    (void)rlx_vulkan_wait(&r->device);
    rlx_vulkan_free_kernels(&r->device, rlx_vulkan_kernels((unsigned char *)r), r->program->n_functions);
    rlx_vulkan_end(&r->device);
}

static inline rlx_status rlx_vulkan_put(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    return rlx_vulkan_status(rlx_vulkan_write(&r->device, r->device.address + r->program->state + offset,
                                              ctx->state + offset, bytes));
}

static inline rlx_status rlx_vulkan_get(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    return rlx_vulkan_status(rlx_vulkan_read(&r->device, ctx->state + offset,
                                             r->device.address + r->program->state + offset, bytes));
}

// As a rlx_gpu_driver; self: the record.
static inline rlx_status rlx_vulkan_do_launch(void *self, const rlx_gpu_step *step, const uint64_t *args)
{
    rlx_vulkan_record *const r = (rlx_vulkan_record *)self;
    const uint64_t kernel = rlx_vulkan_kernels((unsigned char *)self)[step->function];
    return rlx_vulkan_status(
        rlx_vulkan_launch(&r->device, kernel, step->groups, args, step->n_args));
}

static inline rlx_status rlx_vulkan_do_clear(void *self, uint64_t address, uint64_t bytes)
{
    return rlx_vulkan_status(rlx_vulkan_clear(&((rlx_vulkan_record *)self)->device, address, bytes));
}

static inline rlx_status rlx_vulkan_do_write(void *self, uint64_t address, const void *data, size_t bytes)
{
    return rlx_vulkan_status(rlx_vulkan_write(&((rlx_vulkan_record *)self)->device, address, data, bytes));
}

static inline rlx_status rlx_vulkan_do_read(void *self, void *data, uint64_t address, size_t bytes)
{
    return rlx_vulkan_status(rlx_vulkan_read(&((rlx_vulkan_record *)self)->device, data, address, bytes));
}

static inline rlx_status rlx_vulkan_do_wait(void *self)
{
    return rlx_vulkan_status(rlx_vulkan_wait(&((rlx_vulkan_record *)self)->device));
}

static inline void rlx_vulkan_do_barrier(void *self)
{
    rlx_vulkan_barrier(&((rlx_vulkan_record *)self)->device);
}

// The generated code calls this.
static inline rlx_status rlx_vulkan_run(rlx_ctx *ctx)
{
    static const rlx_gpu_driver driver = {rlx_vulkan_do_launch, rlx_vulkan_do_clear, rlx_vulkan_do_write,
                                          rlx_vulkan_do_read,   rlx_vulkan_do_wait,  rlx_vulkan_do_barrier};
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    uint64_t *const args = rlx_vulkan_kernels((unsigned char *)r) + r->program->n_functions;
    const rlx_gpu_frame f = rlx_gpu_begin(ctx, &driver, r, r->device.address, args);
    const rlx_status status = rlx_gpu_run(&f, NULL);
    if (status != RLX_OK)
        (void)rlx_vulkan_wait(&r->device);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
