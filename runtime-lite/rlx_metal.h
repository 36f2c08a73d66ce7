// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: models on Apple GPUs, through Metal, which is C here: the Objective-C runtime and the
// framework are looked for when a context is made, nothing is linked. Pasted behind rlx_gpu.h for --target
// metal.
//
// A context has a queue, the compiled kernels and one buffer of its own, which the host sees as well, on the
// system's default device. Launches go into one list of commands (a command buffer with one encoder), which
// is submitted where the host has to read; nothing has ended before rlx_metal_wait.
#ifndef RLX_METAL_H
#define RLX_METAL_H

#include "rlx_gpu.h"

#include <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

// One library instead of Apple's: that of rlxc, which executes Metal text on CPUs.
#ifdef RLX_METAL_LIBRARY
#define RLX_METAL_OBJC      RLX_METAL_LIBRARY
#define RLX_METAL_FRAMEWORK RLX_METAL_LIBRARY
#else
#define RLX_METAL_OBJC      "/usr/lib/libobjc.A.dylib"
#define RLX_METAL_FRAMEWORK "/System/Library/Frameworks/Metal.framework/Metal"
#endif
// Has to be there before programs without windows have a default device.
#define RLX_METAL_GRAPHICS "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"

#define RLX_METAL_GROUP    128u // threads that the kernels are made for
#define RLX_METAL_MAX_ARGS 31u  // buffers that a kernel can have
#define RLX_METAL_FILL     16u  // bytes that one thread clears

// Kinds of images: the text of the kernels, which ends with a zero.
#define RLX_METAL_TEXT 0u

// --- Objective-C ---------------------------------------------------------------------------------

// What is sent to objects, in the order of rlx_metal_selectors.
enum {
    RLX_METAL_NEW,
    RLX_METAL_RETAIN,
    RLX_METAL_RELEASE,
    RLX_METAL_RESPONDS,
    RLX_METAL_STRING,
    RLX_METAL_FAST_MATH,
    RLX_METAL_MATH_MODE,
    RLX_METAL_MATH_FUNCTIONS,
    RLX_METAL_LIBRARY_OF_TEXT,
    RLX_METAL_FUNCTION,
    RLX_METAL_PIPELINE,
    RLX_METAL_MAX_THREADS,
    RLX_METAL_MAX_BYTES,
    RLX_METAL_BUFFER,
    RLX_METAL_CONTENTS,
    RLX_METAL_QUEUE,
    RLX_METAL_COMMANDS,
    RLX_METAL_ENCODER,
    RLX_METAL_USE,
    RLX_METAL_SET_BUFFER,
    RLX_METAL_SET_BYTES,
    RLX_METAL_DISPATCH,
    RLX_METAL_BARRIER,
    RLX_METAL_END,
    RLX_METAL_COMMIT,
    RLX_METAL_WAIT,
    RLX_METAL_STATUS,
    RLX_METAL_SELECTORS
};

// MTLSize
typedef struct rlx_metal_size {
    unsigned long width, height, depth;
} rlx_metal_size;

typedef void (*rlx_metal_function)(void);

typedef struct rlx_metal_objc {
    rlx_metal_function send; // objc_msgSend: cast to the type of each method
    void *(*get_class)(const char *name);
    void *(*get_selector)(const char *name);
    void *(*push)(void); // autorelease pools
    void (*pop)(void *pool);
    void *selector[RLX_METAL_SELECTORS];
} rlx_metal_objc;

// Methods by their types: what they give, then what they take besides the object and the selector.
static inline void rlx_metal_do(const rlx_metal_objc *o, void *object, int selector)
{
    ((void (*)(void *, void *))o->send)(object, o->selector[selector]);
}

static inline void *rlx_metal_ask(const rlx_metal_objc *o, void *object, int selector)
{
    return ((void *(*)(void *, void *))o->send)(object, o->selector[selector]);
}

static inline unsigned long rlx_metal_count(const rlx_metal_objc *o, void *object, int selector)
{
    return ((unsigned long (*)(void *, void *))o->send)(object, o->selector[selector]);
}

static inline void *rlx_metal_ask_for(const rlx_metal_objc *o, void *object, int selector, const void *with)
{
    return ((void *(*)(void *, void *, const void *))o->send)(object, o->selector[selector], with);
}

static inline void *rlx_metal_ask_number(const rlx_metal_objc *o, void *object, int selector,
                                         unsigned long number)
{
    return ((void *(*)(void *, void *, unsigned long))o->send)(object, o->selector[selector], number);
}

static inline void rlx_metal_set_object(const rlx_metal_objc *o, void *object, int selector, void *value)
{
    ((void (*)(void *, void *, void *))o->send)(object, o->selector[selector], value);
}

static inline void rlx_metal_set_number(const rlx_metal_objc *o, void *object, int selector,
                                        unsigned long number)
{
    ((void (*)(void *, void *, unsigned long))o->send)(object, o->selector[selector], number);
}

static inline void rlx_metal_set_flag(const rlx_metal_objc *o, void *object, int selector, signed char flag)
{
    ((void (*)(void *, void *, signed char))o->send)(object, o->selector[selector], flag);
}

static inline int rlx_metal_responds(const rlx_metal_objc *o, void *object, int selector)
{
    return ((signed char (*)(void *, void *, void *))o->send)(object, o->selector[RLX_METAL_RESPONDS],
                                                              o->selector[selector]) != 0;
}

static inline void rlx_metal_release(const rlx_metal_objc *o, void *object)
{
    if (object != NULL)
        rlx_metal_do(o, object, RLX_METAL_RELEASE);
}

// Of every table of function pointers: C99 has no cast to them from what dlsym gives, so bytes are copied.
static inline int rlx_metal_find(void *library, const char *name, void *function)
{
    void *const found = library != NULL ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static inline rlx_status rlx_metal_load(rlx_metal_objc *o)
{
    static const char *const rlx_metal_selectors[] = {"new",
                                                      "retain",
                                                      "release",
                                                      "respondsToSelector:",
                                                      "stringWithUTF8String:",
                                                      "setFastMathEnabled:",
                                                      "setMathMode:",
                                                      "setMathFloatingPointFunctions:",
                                                      "newLibraryWithSource:options:error:",
                                                      "newFunctionWithName:",
                                                      "newComputePipelineStateWithFunction:error:",
                                                      "maxTotalThreadsPerThreadgroup",
                                                      "maxBufferLength",
                                                      "newBufferWithLength:options:",
                                                      "contents",
                                                      "newCommandQueue",
                                                      "commandBufferWithUnretainedReferences",
                                                      "computeCommandEncoderWithDispatchType:",
                                                      "setComputePipelineState:",
                                                      "setBuffer:offset:atIndex:",
                                                      "setBytes:length:atIndex:",
                                                      "dispatchThreadgroups:threadsPerThreadgroup:",
                                                      "memoryBarrierWithScope:",
                                                      "endEncoding",
                                                      "commit",
                                                      "waitUntilCompleted",
                                                      "status"};
    void *const library = dlopen(RLX_METAL_OBJC, RTLD_NOW | RTLD_LOCAL);
    int i;
    if (!rlx_metal_find(library, "objc_msgSend", &o->send) ||
        !rlx_metal_find(library, "objc_getClass", &o->get_class) ||
        !rlx_metal_find(library, "sel_registerName", &o->get_selector) ||
        !rlx_metal_find(library, "objc_autoreleasePoolPush", &o->push) ||
        !rlx_metal_find(library, "objc_autoreleasePoolPop", &o->pop))
        return RLX_ERR_NO_DEVICE;
    for (i = 0; i < RLX_METAL_SELECTORS; i++)
        o->selector[i] = o->get_selector(rlx_metal_selectors[i]);
    return RLX_OK;
}

// --- the device ----------------------------------------------------------------------------------

// The record in the state block; behind it the kernels: compute pipelines.
typedef struct rlx_metal {
    rlx_metal_objc objc;
    void *device, *queue, *buffer;
    void *write_kernel, *clear_kernel; // where there are loops
    void *commands, *encoder;          // NULL: nothing is recorded
    unsigned char *host;               // where the host sees the buffer
    const rlx_gpu_program *program;
} rlx_metal;

// The record must fit: an array of -1 elements does not compile.
typedef char rlx_metal_fits[sizeof(rlx_metal) <= RLX_GPU_RECORD ? 1 : -1];

static inline void **rlx_metal_kernels(unsigned char *record)
{
    return (void **)(void *)(record + RLX_GPU_RECORD);
}

// Everything recorded so far runs, and has ended on return.
static inline rlx_status rlx_metal_wait(void *self)
{
    rlx_metal *const r = (rlx_metal *)self;
    const rlx_metal_objc *const o = &r->objc;
    unsigned long status;
    if (r->commands == NULL)
        return RLX_OK;
    rlx_metal_do(o, r->encoder, RLX_METAL_END);
    rlx_metal_do(o, r->commands, RLX_METAL_COMMIT);
    rlx_metal_do(o, r->commands, RLX_METAL_WAIT);
    status = rlx_metal_count(o, r->commands, RLX_METAL_STATUS);
    rlx_metal_release(o, r->encoder);
    rlx_metal_release(o, r->commands);
    r->encoder = r->commands = NULL;
    return status == 4u ? RLX_OK : RLX_ERR_DEVICE; // MTLCommandBufferStatusCompleted
}

// Of the next command: it waits for those before it. What is recorded outlives the pool of the call.
static inline rlx_status rlx_metal_next(rlx_metal *r, void *kernel)
{
    const rlx_metal_objc *const o = &r->objc;
    if (r->commands != NULL) {
        rlx_metal_set_number(o, r->encoder, RLX_METAL_BARRIER, 1u); // MTLBarrierScopeBuffers
    } else {
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
    if (step->group > RLX_METAL_GROUP &&
        rlx_metal_count(&r->objc, kernel, RLX_METAL_MAX_THREADS) < step->group)
        return RLX_ERR_DEVICE;
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
    if (r->commands != NULL && r->write_kernel != NULL && bytes == sizeof(int64_t)) {
        status = rlx_metal_next(r, r->write_kernel);
        if (status == RLX_OK) {
            rlx_metal_set_buffer(r, address, 0);
            rlx_metal_set_bytes(r, data, bytes, 1);
            rlx_metal_dispatch(r, 1, 1);
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
    if (groups > 0x7fffffffu || rlx_metal_next(r, r->clear_kernel) != RLX_OK)
        return RLX_ERR_DEVICE;
    rlx_metal_set_buffer(r, address, 0);
    rlx_metal_set_bytes(r, &bytes, sizeof bytes, 1);
    rlx_metal_dispatch(r, groups, RLX_METAL_GROUP);
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

// A kernel of a library that can have groups of so many threads, or NULL.
static inline void *rlx_metal_make_kernel(const rlx_metal *r, void *library, const char *name,
                                          uint32_t threads)
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
    if (kernel != NULL && rlx_metal_count(o, kernel, RLX_METAL_MAX_THREADS) < threads) {
        rlx_metal_release(o, kernel);
        return NULL;
    }
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
    r->write_kernel = rlx_metal_make_kernel(r, library, "rlx_write", 1);
    r->clear_kernel = rlx_metal_make_kernel(r, library, "rlx_clear", RLX_METAL_GROUP);
    rlx_metal_release(&r->objc, library);
    return r->write_kernel != NULL && r->clear_kernel != NULL ? RLX_OK : RLX_ERR_NO_DEVICE;
}

// The kernels are stored one by one: *n says how many there are.
static inline rlx_status rlx_metal_make_kernels(rlx_metal *r, void **kernels, uint32_t *n)
{
    const rlx_gpu_program *const p = r->program;
    void *const library =
        p->n_functions != 0 ? rlx_metal_compile(r, (const char *)p->images[0].data) : NULL;
    if (p->n_functions != 0 && library == NULL)
        return RLX_ERR_NO_DEVICE;
    while (*n < p->n_functions) {
        void *const kernel = rlx_metal_make_kernel(r, library, p->functions[*n], RLX_METAL_GROUP);
        if (kernel == NULL)
            break;
        kernels[(*n)++] = kernel;
    }
    rlx_metal_release(&r->objc, library);
    return *n == p->n_functions ? RLX_OK : RLX_ERR_NO_DEVICE;
}

static inline rlx_status rlx_metal_begin(rlx_metal *r)
{
    const rlx_metal_objc *const o = &r->objc;
    void *framework;
    void *(*create)(void);
#ifndef RLX_METAL_LIBRARY
    (void)dlopen(RLX_METAL_GRAPHICS, RTLD_NOW | RTLD_LOCAL);
#endif
    framework = dlopen(RLX_METAL_FRAMEWORK, RTLD_NOW | RTLD_LOCAL);
    if (r->program->max_args > RLX_METAL_MAX_ARGS ||
        !rlx_metal_find(framework, "MTLCreateSystemDefaultDevice", &create))
        return RLX_ERR_NO_DEVICE;
    r->device = create();
    if (r->device == NULL)
        return RLX_ERR_NO_DEVICE;
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

// The record is written when nothing can fail any more; the kernels stand behind it already.
static inline rlx_status rlx_metal_open(const rlx_model *model, unsigned char *arena, unsigned char *record,
                                        const void *weights)
{
    rlx_metal r;
    void *pool;
    uint32_t n = 0;
    rlx_status status;
    (void)arena;
    memset(&r, 0, sizeof r);
    r.program = (const rlx_gpu_program *)model->device->program;
    status = rlx_metal_load(&r.objc);
    if (status != RLX_OK)
        return status;
    pool = r.objc.push();
    status = rlx_metal_begin(&r);
    if (status == RLX_OK)
        status = rlx_metal_make_kernels(&r, rlx_metal_kernels(record), &n);
    if (status == RLX_OK && r.program->loops != NULL)
        status = rlx_metal_make_own(&r);
    if (status != RLX_OK)
        rlx_metal_end(&r, rlx_metal_kernels(record), n);
    r.objc.pop(pool);
    if (status != RLX_OK)
        return status;
    if (model->weight_bytes != 0)
        memcpy(r.host + r.program->weights, weights, model->weight_bytes);
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

static inline rlx_status rlx_metal_put(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *const pool = r->objc.push();
    const rlx_status status = rlx_metal_write(r, r->program->state + offset, ctx->state + offset, bytes);
    r->objc.pop(pool);
    return status;
}

static inline rlx_status rlx_metal_get(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    rlx_metal *const r = rlx_metal_of(ctx);
    void *const pool = r->objc.push();
    const rlx_status status = rlx_metal_read(r, ctx->state + offset, r->program->state + offset, bytes);
    r->objc.pop(pool);
    return status;
}

// The generated code calls this.
static inline rlx_status rlx_metal_run(rlx_ctx *ctx)
{
    static const rlx_gpu_driver driver = {rlx_metal_launch, rlx_metal_clear, rlx_metal_write,
                                          rlx_metal_read,   rlx_metal_wait,  NULL};
    rlx_metal *const r = rlx_metal_of(ctx);
    uint64_t *const args =
        (uint64_t *)(void *)(rlx_metal_kernels((unsigned char *)r) + r->program->n_functions);
    void *const pool = r->objc.push();
    const rlx_gpu_frame f = rlx_gpu_begin(ctx, &driver, r, 0, args);
    rlx_status status = rlx_gpu_run(&f, NULL);
    if (status != RLX_OK)
        (void)rlx_metal_wait(r);
    r->objc.pop(pool);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
