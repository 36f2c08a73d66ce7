// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: models on Apple GPUs, through Metal, which is C here: the Objective-C runtime and the
// framework are looked for when a context is made, nothing is linked. Pasted after rlx_gpu.h for --target
// metal.
//
// A context has a queue, the compiled kernels and one buffer of its own, which the host sees as well, on the
// system's default device. Launches go into one list of commands (a command buffer with one encoder), which
// is submitted where the host has to read; nothing has ended before rlx_metal_wait.
#ifndef RLX_METAL_H
#define RLX_METAL_H

#include "rlx_gpu.h"
#include "rlx_metal_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_METAL_GROUP    128u // threads of a group of the kernels that are made here
#define RLX_METAL_MAX_ARGS 31u  // buffers that a kernel can have
#define RLX_METAL_FILL     16u  // bytes that one thread clears

#define RLX_METAL_COMPLETED 4u // MTLCommandBufferStatusCompleted; beyond it: an error

// Kinds of images: the text of the kernels, which ends with a zero, and what Apple's compiler made of it.
#define RLX_METAL_TEXT     0u
#define RLX_METAL_COMPILED 1u

// --- the device ----------------------------------------------------------------------------------

// The record in the state block; after it the kernels: compute pipelines.
typedef struct rlx_metal {
    rlx_metal_objc objc;
    void *framework, *device, *queue, *buffer;
    void *write_kernel, *clear_kernel; // where there are loops
    void *commands;                    // NULL: all of them have ended
    void *encoder;                     // NULL: nothing is recorded
    unsigned char *host;               // where the host sees the buffer
    int is_fetching;                   // outputs of the run before have not come yet
    int waits;                         // the next command, for those before it
    double seconds;                    // that the device has computed in the last run
    double last;                       // and in the last part of it that was waited for
    const rlx_gpu_program *program;
} rlx_metal;

// The record must fit: an array of -1 elements does not compile.
typedef char rlx_metal_fits[sizeof(rlx_metal) <= RLX_GPU_RECORD ? 1 : -1];

static inline void **rlx_metal_kernels(unsigned char *record)
{
    return (void **)(void *)(record + RLX_GPU_RECORD);
}

// Everything recorded so far begins to run.
static inline void rlx_metal_submit(rlx_metal *r)
{
    if (r->encoder == NULL)
        return;
    rlx_metal_do(&r->objc, r->encoder, RLX_METAL_END);
    rlx_metal_do(&r->objc, r->commands, RLX_METAL_COMMIT);
    rlx_metal_release(&r->objc, r->encoder);
    r->encoder = NULL;
}

// Everything recorded so far has run on return.
static inline rlx_status rlx_metal_wait(void *self)
{
    rlx_metal *const r = (rlx_metal *)self;
    unsigned long status;
    if (r->commands == NULL)
        return RLX_OK;
    rlx_metal_submit(r);
    rlx_metal_do(&r->objc, r->commands, RLX_METAL_WAIT);
    status = rlx_metal_count(&r->objc, r->commands, RLX_METAL_STATUS);
    r->last = rlx_metal_time(&r->objc, r->commands, RLX_METAL_END_TIME) -
              rlx_metal_time(&r->objc, r->commands, RLX_METAL_BEGIN_TIME);
    r->seconds += r->last;
    rlx_metal_release(&r->objc, r->commands);
    r->commands = NULL;
    return status == RLX_METAL_COMPLETED ? RLX_OK : RLX_ERR_DEVICE;
}

// Where a run is timed, each launch is waited for.
static inline double rlx_metal_spent(void *self)
{
    return ((const rlx_metal *)self)->last * 1e9;
}

// What comes next waits for all before.
static inline void rlx_metal_barrier(void *self)
{
    ((rlx_metal *)self)->waits = 1;
}

// Of the next command. What is recorded outlives the pool of the call.
static inline rlx_status rlx_metal_next(rlx_metal *r, void *kernel)
{
    const rlx_metal_objc *const o = &r->objc;
    if (r->encoder != NULL && r->waits)
        rlx_metal_set_number(o, r->encoder, RLX_METAL_BARRIER, 1u); // MTLBarrierScopeBuffers
    r->waits = 0;
    if (r->encoder == NULL) {
        void *const commands = rlx_metal_ask(o, r->queue, RLX_METAL_COMMANDS);
        void *const encoder =
            commands != NULL ? rlx_metal_ask_number(o, commands, RLX_METAL_ENCODER, 1u) : NULL; // concurrent
        if (encoder == NULL)
            return RLX_ERR_DEVICE;
        r->commands = rlx_metal_ask(o, commands, RLX_METAL_RETAIN);
        r->encoder = rlx_metal_ask(o, encoder, RLX_METAL_RETAIN);
    }
    rlx_metal_set_object(o, r->encoder, RLX_METAL_USE, kernel);
    return RLX_OK;
}

static inline void rlx_metal_set_buffer(rlx_metal *r, uint64_t offset, uint32_t index)
{
    ((void (*)(void *, void *, void *, unsigned long, unsigned long))r->objc.send)(
        r->encoder, r->objc.selector[RLX_METAL_SET_BUFFER], r->buffer, (unsigned long)offset, index);
}

static inline void rlx_metal_set_bytes(rlx_metal *r, const void *data, size_t bytes, uint32_t index)
{
    ((void (*)(void *, void *, const void *, unsigned long, unsigned long))r->objc.send)(
        r->encoder, r->objc.selector[RLX_METAL_SET_BYTES], data, (unsigned long)bytes, index);
}

static inline void rlx_metal_dispatch(rlx_metal *r, uint64_t groups, uint32_t threads)
{
    rlx_metal_size grid, group;
    grid.width = (unsigned long)groups;
    group.width = threads;
    grid.height = grid.depth = group.height = group.depth = 1;
    ((void (*)(void *, void *, rlx_metal_size, rlx_metal_size))r->objc.send)(
        r->encoder, r->objc.selector[RLX_METAL_DISPATCH], grid, group);
}

// --- rlx_gpu_driver ------------------------------------------------------------------------------

// Addresses are offsets in the buffer.
static inline rlx_status rlx_metal_launch(void *self, const rlx_gpu_step *step, const uint64_t *args)
{
    rlx_metal *const r = (rlx_metal *)self;
    void *const kernel = rlx_metal_kernels((unsigned char *)self)[step->function];
    uint32_t i;
    if (step->groups > 0x7fffffffu || rlx_metal_next(r, kernel) != RLX_OK)
        return RLX_ERR_DEVICE;
    for (i = 0; i < step->n_args; i++)
        rlx_metal_set_buffer(r, args[i], i);
    if (step->n_args == 0) // kernels have one at least
        rlx_metal_set_buffer(r, 0, 0);
    rlx_metal_dispatch(r, step->groups, step->group);
    return RLX_OK;
}

// Numbers of iterations take their turn among the launches; before other bytes all of these end.
static inline rlx_status rlx_metal_write(void *self, uint64_t address, const void *data, size_t bytes)
{
    rlx_metal *const r = (rlx_metal *)self;
    rlx_status status;
    if (bytes == 0)
        return RLX_OK;
    if (r->encoder != NULL && r->write_kernel != NULL && bytes == sizeof(int64_t)) {
        rlx_metal_barrier(r);
        status = rlx_metal_next(r, r->write_kernel);
        if (status == RLX_OK) {
            rlx_metal_set_buffer(r, address, 0);
            rlx_metal_set_bytes(r, data, bytes, 1);
            rlx_metal_dispatch(r, 1, 1);
            rlx_metal_barrier(r);
        }
        return status;
    }
    status = rlx_metal_wait(r);
    if (status == RLX_OK)
        memcpy(r->host + address, data, bytes);
    return status;
}

static inline rlx_status rlx_metal_clear(void *self, uint64_t address, uint64_t bytes)
{
    rlx_metal *const r = (rlx_metal *)self;
    const uint64_t groups = (bytes / RLX_METAL_FILL + RLX_METAL_GROUP) / RLX_METAL_GROUP;
    if (bytes == 0)
        return RLX_OK;
    rlx_metal_barrier(r);
    if (groups > 0x7fffffffu || rlx_metal_next(r, r->clear_kernel) != RLX_OK)
        return RLX_ERR_DEVICE;
    rlx_metal_set_buffer(r, address, 0);
    rlx_metal_set_bytes(r, &bytes, sizeof bytes, 1);
    rlx_metal_dispatch(r, groups, RLX_METAL_GROUP);
    rlx_metal_barrier(r);
    return RLX_OK;
}

static inline rlx_status rlx_metal_read(void *self, void *data, uint64_t address, size_t bytes)
{
    rlx_metal *const r = (rlx_metal *)self;
    const rlx_status status = rlx_metal_wait(r);
    if (status == RLX_OK && bytes != 0)
        memcpy(data, r->host + address, bytes);
    return status;
}

// --- contexts ------------------------------------------------------------------------------------

static inline void rlx_metal_end(rlx_metal *r, void **kernels, uint32_t n_kernels)
{
    uint32_t i;
    for (i = 0; i < n_kernels; i++)
        rlx_metal_release(&r->objc, kernels[i]);
    rlx_metal_release(&r->objc, r->write_kernel);
    rlx_metal_release(&r->objc, r->clear_kernel);
    rlx_metal_release(&r->objc, r->buffer);
    rlx_metal_release(&r->objc, r->queue);
    rlx_metal_release(&r->objc, r->device);
}

// A library of a text; NULL: the device does not take it. Mathematics are as they are written: NaN and
// infinities carry meaning.
static inline void *rlx_metal_compile(const rlx_metal *r, const char *text)
{
    const rlx_metal_objc *const o = &r->objc;
    void *const string = rlx_metal_ask_for(o, o->get_class("NSString"), RLX_METAL_STRING, text);
    void *const options = rlx_metal_ask(o, o->get_class("MTLCompileOptions"), RLX_METAL_NEW);
    void *library = NULL;
    if (string == NULL || options == NULL)
        return NULL;
    if (rlx_metal_responds(o, options, RLX_METAL_MATH_MODE)) {
        rlx_metal_set_number(o, options, RLX_METAL_MATH_MODE, 0u);      // MTLMathModeSafe
        rlx_metal_set_number(o, options, RLX_METAL_MATH_FUNCTIONS, 1u); // ...FloatingPointFunctionsPrecise
    } else {
        rlx_metal_set_flag(o, options, RLX_METAL_FAST_MATH, 0);
    }
    library = ((void *(*)(void *, void *, void *, void *, void **))o->send)(
        r->device, o->selector[RLX_METAL_LIBRARY_OF_TEXT], string, options, NULL);
    rlx_metal_release(o, options);
    return library;
}

// The kernels' library: the compiled one where the device takes it.
static inline void *rlx_metal_take_library(const rlx_metal *r)
{
    const rlx_metal_objc *const o = &r->objc;
    const rlx_gpu_program *const p = r->program;
    void *(*make_data)(const void *bytes, size_t n, void *queue, void *destroy); // a copy
    void *library = NULL;
    uint32_t i;
    for (i = 0; i < p->n_images && library == NULL; i++) {
        void *data;
        if (p->images[i].kind != RLX_METAL_COMPILED ||
            !rlx_metal_find(r->framework, "dispatch_data_create", &make_data))
            continue;
        data = make_data(p->images[i].data, p->images[i].bytes, NULL, NULL);
        library = ((void *(*)(void *, void *, void *, void **))o->send)(
            r->device, o->selector[RLX_METAL_LIBRARY_OF_DATA], data, NULL);
        rlx_metal_release(o, data);
    }
    for (i = 0; i < p->n_images && library == NULL; i++)
        if (p->images[i].kind == RLX_METAL_TEXT)
            library = rlx_metal_compile(r, (const char *)p->images[i].data);
    return library;
}

// A kernel of a library, or NULL.
static inline void *rlx_metal_make_kernel(const rlx_metal *r, void *library, const char *name)
{
    const rlx_metal_objc *const o = &r->objc;
    void *const string = rlx_metal_ask_for(o, o->get_class("NSString"), RLX_METAL_STRING, name);
    void *const function =
        string != NULL ? rlx_metal_ask_for(o, library, RLX_METAL_FUNCTION, string) : NULL;
    void *kernel;
    if (function == NULL)
        return NULL;
    kernel = ((void *(*)(void *, void *, void *, void **))o->send)(
        r->device, o->selector[RLX_METAL_PIPELINE], function, NULL);
    rlx_metal_release(o, function);
    return kernel;
}

// What the host does in loops, in the row of launches: numbers of iterations, and memory that begins as
// zeros.
static inline rlx_status rlx_metal_make_own(rlx_metal *r)
{
    static const char text[] =
        "#include <metal_stdlib>\n"
        "using namespace metal;\n"
        "kernel void rlx_write(device ulong *to [[buffer(0)]], constant ulong *value [[buffer(1)]])\n"
        "{\n"
        "    *to = *value;\n"
        "}\n"
        "kernel void rlx_clear(device uchar *p [[buffer(0)]], constant ulong *bytes [[buffer(1)]],\n"
        "                      uint3 id [[thread_position_in_grid]])\n"
        "{\n"
        "    const ulong begin = ulong(id.x) * 16;\n"
        "    for (ulong i = begin; i < begin + 16 && i < *bytes; i++)\n"
        "        p[i] = 0;\n"
        "}\n";
    void *const library = rlx_metal_compile(r, text);
    if (library == NULL)
        return RLX_ERR_NO_DEVICE;
    r->write_kernel = rlx_metal_make_kernel(r, library, "rlx_write");
    r->clear_kernel = rlx_metal_make_kernel(r, library, "rlx_clear");
    rlx_metal_release(&r->objc, library);
    return r->write_kernel != NULL && r->clear_kernel != NULL ? RLX_OK : RLX_ERR_NO_DEVICE;
}

// The kernels are stored one by one: *n says how many there are.
static inline rlx_status rlx_metal_make_kernels(rlx_metal *r, void **kernels, uint32_t *n)
{
    const rlx_gpu_program *const p = r->program;
    void *const library = p->n_functions != 0 ? rlx_metal_take_library(r) : NULL;
    uint32_t i;
    if (p->n_functions != 0 && library == NULL)
        return RLX_ERR_NO_DEVICE;
    for (i = 0; i < p->n_functions; i++) {
        kernels[i] = rlx_metal_make_kernel(r, library, p->functions[i]);
        if (kernels[i] == NULL)
            break;
    }
    *n = i;
    rlx_metal_release(&r->objc, library);
    return i == p->n_functions ? RLX_OK : RLX_ERR_NO_DEVICE;
}

// Can the kernels have the groups that steps [begin, end) and the loops among them want?
static inline int rlx_metal_can_launch(const rlx_metal *r, const rlx_gpu_program *p, void *const *kernels,
                                       uint32_t begin, uint32_t end)
{
    uint32_t i;
    for (i = begin; i < end; i++) {
        const rlx_gpu_step *const s = &p->steps[i];
        const rlx_gpu_loop *const l = s->loop != RLX_GPU_NONE ? &p->loops[s->loop] : NULL;
        if (l != NULL ? !rlx_metal_can_launch(r, p, kernels, l->steps, l->steps + l->n_steps)
                      : s->n_args > RLX_METAL_MAX_ARGS ||
                            rlx_metal_count(&r->objc, kernels[s->function], RLX_METAL_MAX_THREADS) < s->group)
            return 0;
    }
    return 1;
}

static inline rlx_status rlx_metal_check(const rlx_metal *r, const rlx_model *model, void *const *kernels)
{
    const uint32_t n = model->buckets != NULL ? model->buckets->n : 1u;
    uint32_t i;
    for (i = 0; i < n; i++) {
        const rlx_model *const m = model->buckets != NULL ? model->buckets->models[i] : model;
        const rlx_gpu_program *const p = rlx_gpu_program_of(m);
        if (!rlx_metal_can_launch(r, p, kernels, 0, p->n_steps))
            return RLX_ERR_NO_DEVICE;
    }
    return RLX_OK;
}

static inline rlx_status rlx_metal_find_device(rlx_metal *r)
{
    void *(*create)(void);
#ifndef RLX_METAL_LIBRARY
    (void)dlopen(RLX_METAL_GRAPHICS, RTLD_NOW | RTLD_LOCAL);
#endif
    r->framework = dlopen(RLX_METAL_FRAMEWORK, RTLD_NOW | RTLD_LOCAL);
    if (!rlx_metal_find(r->framework, "MTLCreateSystemDefaultDevice", &create))
        return RLX_ERR_NO_DEVICE;
    r->device = create();
    return r->device != NULL ? RLX_OK : RLX_ERR_NO_DEVICE;
}

// The system's default device is the only one.
static inline void rlx_metal_list(const rlx_model *model, rlx_device_info *list, uint32_t n, uint32_t *count)
{
    rlx_metal r;
    void *pool, *name;
    const char *text = "";
    size_t i;
    (void)model;
    *count = 0;
    memset(&r, 0, sizeof r);
    if (rlx_metal_load(&r.objc) != RLX_OK)
        return;
    pool = r.objc.push();
    *count = rlx_metal_find_device(&r) == RLX_OK;
    if (*count != 0 && n != 0) {
        memset(list, 0, sizeof *list);
        name = rlx_metal_ask(&r.objc, r.device, RLX_METAL_NAME);
        if (name != NULL)
            text = (const char *)rlx_metal_ask(&r.objc, name, RLX_METAL_TEXT_OF);
        for (i = 0; i + 1u < sizeof list->name && text[i] != '\0'; i++)
            list->name[i] = text[i];
        list->kind = RLX_DEVICE_INTEGRATED;
        list->memory = rlx_metal_count(&r.objc, r.device, RLX_METAL_MAX_BYTES);
        list->can_run = 1;
    }
    rlx_metal_release(&r.objc, r.device);
    r.objc.pop(pool);
}

static inline rlx_status rlx_metal_begin(rlx_metal *r)
{
    const rlx_metal_objc *const o = &r->objc;
    const rlx_status status = rlx_metal_find_device(r);
    if (status != RLX_OK)
        return status;
    r->queue = rlx_metal_ask(o, r->device, RLX_METAL_QUEUE);
    if (r->queue == NULL || rlx_metal_count(o, r->device, RLX_METAL_MAX_BYTES) < r->program->bytes)
        return RLX_ERR_DEVICE;
    r->buffer = ((void *(*)(void *, void *, unsigned long, unsigned long))o->send)(
        r->device, o->selector[RLX_METAL_BUFFER], (unsigned long)r->program->bytes, 0u); // shared, tracked
    if (r->buffer == NULL)
        return RLX_ERR_DEVICE;
    r->host = (unsigned char *)rlx_metal_ask(o, r->buffer, RLX_METAL_CONTENTS);
    return r->host != NULL ? RLX_OK : RLX_ERR_DEVICE;
}

// The record is written when nothing can fail any more; the kernels stand after it already.
static inline rlx_status rlx_metal_open(const rlx_model *model, unsigned char *arena, unsigned char *record,
                                        const void *weights, uint32_t ordinal)
{
    rlx_metal r;
    void *pool;
    uint32_t n = 0;
    rlx_status status;
    (void)arena;
    (void)ordinal;
    memset(&r, 0, sizeof r);
    r.program = rlx_gpu_program_of(model);
    status = rlx_metal_load(&r.objc);
    if (status != RLX_OK)
        return status;
    pool = r.objc.push();
    status = rlx_metal_begin(&r);
    if (status == RLX_OK)
        status = rlx_metal_make_kernels(&r, rlx_metal_kernels(record), &n);
    if (status == RLX_OK)
        status = rlx_metal_check(&r, model, rlx_metal_kernels(record));
    if (status == RLX_OK && r.program->loops != NULL)
        status = rlx_metal_make_own(&r);
    if (status != RLX_OK)
        rlx_metal_end(&r, rlx_metal_kernels(record), n);
    r.objc.pop(pool);
    if (status != RLX_OK)
        return status;
    if (model->weight_bytes != 0)
        memcpy(r.host + r.program->weights, weights, model->weight_bytes - model->weights_seal);
    memcpy(record, &r, sizeof r);
    return RLX_OK;
}

static inline rlx_metal *rlx_metal_of(const rlx_ctx *ctx)
{
    return (rlx_metal *)(void *)(ctx->state + ctx->model->device->record);
}

static inline void rlx_metal_close(const rlx_ctx *ctx)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *const pool = r->objc.push();
    (void)rlx_metal_wait(r);
    rlx_metal_end(r, rlx_metal_kernels((unsigned char *)r), r->program->n_functions);
    r->objc.pop(pool);
}

static inline rlx_status rlx_metal_bring(const rlx_ctx *ctx, uint64_t to, const void *data, size_t bytes)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *const pool = r->objc.push();
    const rlx_status status = rlx_metal_write(r, to, data, bytes);
    r->objc.pop(pool);
    return status;
}

static inline rlx_status rlx_metal_read_now(const rlx_ctx *ctx, void *data, uint64_t from, size_t bytes)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *const pool = r->objc.push();
    const rlx_status status = rlx_metal_read(r, data, from, bytes);
    r->objc.pop(pool);
    return status;
}

static inline rlx_status rlx_metal_get(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    return rlx_metal_read_now(ctx, ctx->state + offset, rlx_metal_of(ctx)->program->state + offset, bytes);
}

static inline rlx_status rlx_metal_fetch_part(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    return rlx_metal_read_now(ctx, ctx->arena + offset, rlx_gpu_program_of(ctx->model)->block + offset,
                              bytes);
}

// In memory that host and device share: nothing is under way then.
static inline rlx_status rlx_metal_move(const rlx_ctx *ctx, const rlx_pieces *p)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *const pool = r->objc.push();
    const rlx_status status = rlx_metal_wait(r);
    r->objc.pop(pool);
    if (status == RLX_OK)
        rlx_copy_pieces(r->host + r->program->state, r->host + rlx_gpu_program_of(ctx->model)->block, p);
    return status;
}

// --- runs ----------------------------------------------------------------------------------------

static inline rlx_gpu_frame rlx_metal_frame(rlx_ctx *ctx, rlx_metal *r)
{
    static const rlx_gpu_driver driver = {rlx_metal_launch,
                                          rlx_metal_clear,
                                          rlx_metal_write,
                                          rlx_metal_read,
                                          rlx_metal_wait,
                                          rlx_metal_barrier,
                                          NULL,
                                          rlx_metal_spent,
                                          NULL};
    void **const behind = rlx_metal_kernels((unsigned char *)r) + r->program->n_functions;
    return rlx_gpu_begin(ctx, &driver, r, 0, (uint64_t *)(void *)behind);
}

// What was fetched comes when it is there.
static inline rlx_status rlx_metal_take(rlx_ctx *ctx, rlx_metal *r)
{
    const rlx_gpu_frame f = rlx_metal_frame(ctx, r);
    rlx_status status = rlx_metal_wait(r);
    if (status == RLX_OK && r->is_fetching)
        status = rlx_gpu_take_outputs(&f);
    r->is_fetching = 0;
    return status;
}

// Inputs are taken before it returns, as the outputs of the run before.
static inline rlx_status rlx_metal_start(rlx_ctx *ctx, rlx_turn turn)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *const pool = r->objc.push();
    const rlx_gpu_frame f = rlx_metal_frame(ctx, r);
    rlx_status status = rlx_metal_take(ctx, r);
    (void)turn;
    r->seconds = 0;
    if (status == RLX_OK)
        status = rlx_gpu_give_inputs(&f);
    if (status == RLX_OK)
        status = rlx_gpu_compute(&f, NULL);
    if (status == RLX_OK)
        rlx_metal_submit(r);
    else
        (void)rlx_metal_wait(r);
    r->objc.pop(pool);
    return status;
}

static inline rlx_status rlx_metal_fetch(rlx_ctx *ctx)
{
    rlx_metal_of(ctx)->is_fetching = 1;
    return RLX_OK;
}

static inline rlx_status rlx_metal_wait_for(rlx_ctx *ctx, rlx_awaited what, int *is_done)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *pool;
    rlx_status status = RLX_OK;
    if (is_done != NULL)
        *is_done = 1;
    if (what == RLX_WAIT_INPUTS)
        return RLX_OK;
    pool = r->objc.push();
    if (is_done == NULL)
        status = rlx_metal_take(ctx, r);
    else if (r->commands != NULL)
        *is_done = rlx_metal_count(&r->objc, r->commands, RLX_METAL_STATUS) >= RLX_METAL_COMPLETED;
    r->objc.pop(pool);
    return status;
}

// What the last run took on the device, by its own clock, without what the host does before and after.
static inline double rlx_metal_seconds(const rlx_ctx *ctx)
{
    return ctx != NULL && ctx->model != NULL && ctx->model->device != NULL ? rlx_metal_of(ctx)->seconds : 0;
}

#ifdef __cplusplus
}
#endif

#endif
