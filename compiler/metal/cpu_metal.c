// SPDX-License-Identifier: Apache-2.0
// The classes of Metal that runtime-lite/rlx_metal.h uses, on the CPU (cpu_objc.h). What Apple's validation
// layer would stop ends the program. Launches run when somebody waits for them, not before: whoever forgets
// to wait reads what was there. Those with no barrier between them run in an order that changes from run to
// run, and where races are looked for as if they were one launch.
#include "compiler/metal/cpu_kernels.h"
#include "compiler/metal/cpu_objc.h"
#include "compiler/metal/device.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long Number; // NSUInteger

enum { MAX_OWN_BYTES = 4096, PAGE = 4096, NOT_COMMITTED = 0, COMMITTED = 2, COMPLETED = 4 };

typedef struct Text {
    ObjcObject object;
    char *bytes;
} Text;

typedef struct Options {
    ObjcObject object;
    bool is_safe, is_precise;
} Options;

typedef struct Device {
    ObjcObject object;
} Device;

typedef struct Library {
    ObjcObject object;
    MetalText *text;
} Library;

typedef struct Function {
    ObjcObject object;
    Library *library;
    const MetalKernel *kernel;
} Function;

typedef struct Pipeline {
    ObjcObject object;
    Function *function;
} Pipeline;

typedef struct Buffer {
    ObjcObject object;
    char *data;
    Number length;
} Buffer;

// What a kernel is given: a place in a buffer, or bytes of its own.
typedef struct Argument {
    Buffer *buffer;
    Number offset;
    void *own;
    Number own_bytes;
} Argument;

typedef struct Launch {
    Pipeline *pipeline;
    bool waits; // for the launches before it
    Number groups[3], threads;
    Argument arg[KERNEL_MAX_BUFFERS];
} Launch;

typedef struct Queue {
    ObjcObject object;
    struct Commands *first, *last; // committed, and not run yet
} Queue;

typedef struct Commands {
    ObjcObject object;
    Queue *queue;
    struct Commands *next;
    struct Encoder *encoder; // that has not ended
    Number status, n_asked;
    double begin, end;
    Launch *launch;
    size_t n, cap;
} Commands;

typedef struct Encoder {
    ObjcObject object;
    Commands *commands;
    bool is_concurrent, waits, has_ended;
    Pipeline *pipeline;
    Argument arg[KERNEL_MAX_BUFFERS];
} Encoder;

typedef struct Size {
    Number width, height, depth;
} Size;

static const ObjcMethod none[] = {{NULL, NULL}};
static const ObjcClass no_class_methods = {NULL, "a class", none, NULL};
static const ObjcClass string_class, options_class, device_class, library_class, function_class,
    pipeline_class, buffer_class, queue_class, commands_class, encoder_class;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of queues, and one run at a time

// --- texts and options ---------------------------------------------------------------------------

static void *make_string(void *self, void *selector, const char *bytes)
{
    (void)self, (void)selector;
    Text *t = objc_make(&string_class, sizeof *t);
    t->bytes = strdup(bytes);
    return objc_leave(t);
}

static const char *string_bytes(void *self, void *selector)
{
    (void)selector;
    return ((Text *)self)->bytes;
}

static void end_string(void *object)
{
    free(((Text *)object)->bytes);
}

static void *make_options(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_make(&options_class, sizeof(Options));
}

static void set_fast_math(void *self, void *selector, signed char flag)
{
    Options *o = self;
    (void)selector;
    o->is_safe = o->is_precise = flag == 0;
}

static void set_math_mode(void *self, void *selector, long mode)
{
    (void)selector;
    ((Options *)self)->is_safe = mode == 0;
}

static void set_math_functions(void *self, void *selector, long which)
{
    (void)selector;
    ((Options *)self)->is_precise = which == 1;
}

// --- the device ----------------------------------------------------------------------------------

void *MTLCreateSystemDefaultDevice(void);
void *MTLCreateSystemDefaultDevice(void)
{
    return objc_make(&device_class, sizeof(Device));
}

static void *device_name(void *self, void *selector)
{
    return make_string(self, selector, "this machine's CPU, by rlxc");
}

static Number max_bytes(void *self, void *selector)
{
    (void)self, (void)selector;
    return (Number)1 << 40;
}

static void *make_queue(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_make(&queue_class, sizeof(Queue));
}

// Full of NaN.
static void *make_buffer(void *self, void *selector, Number length, Number options)
{
    (void)self, (void)selector;
    if (length == 0 || options != 0)
        objc_fail("a buffer of %lu bytes with options %lu", length, options);
    Buffer *b = objc_make(&buffer_class, sizeof *b);
    b->length = length;
    b->data = aligned_alloc(PAGE, (length + PAGE - 1) / PAGE * PAGE);
    if (b->data == NULL)
        objc_fail("no memory");
    memset(b->data, 0xff, length);
    return b;
}

static void *buffer_contents(void *self, void *selector)
{
    (void)selector;
    return ((Buffer *)self)->data;
}

static void end_buffer(void *object)
{
    free(((Buffer *)object)->data);
}

// --- kernels -------------------------------------------------------------------------------------

static void *make_library(void *self, void *selector, void *source, void *options, void **error)
{
    (void)self, (void)selector;
    const Text *t = objc_expect(source, &string_class);
    const Options *o = objc_expect(options, &options_class);
    if (!o->is_safe || !o->is_precise)
        objc_fail("kernels are compiled with fast mathematics");
    MetalText *text = metal_text_load(t->bytes);
    if (error != NULL)
        *error = NULL;
    if (text == NULL)
        return NULL;
    Library *l = objc_make(&library_class, sizeof *l);
    l->text = text;
    return l;
}

static void end_library(void *object)
{
    metal_text_close(((Library *)object)->text);
}

static void *make_function(void *self, void *selector, void *name)
{
    Library *l = self;
    const Text *t = objc_expect(name, &string_class);
    (void)selector;
    for (size_t i = 0; i < l->text->n; i++)
        if (strcmp(l->text->kernels[i].name, t->bytes) == 0) {
            Function *f = objc_make(&function_class, sizeof *f);
            f->library = objc_keep(l);
            f->kernel = &l->text->kernels[i];
            return f;
        }
    return NULL;
}

static void end_function(void *object)
{
    objc_drop(((Function *)object)->library);
}

static void *make_pipeline(void *self, void *selector, void *function, void **error)
{
    (void)self, (void)selector;
    Function *f = objc_expect(function, &function_class);
    Pipeline *p = objc_make(&pipeline_class, sizeof *p);
    p->function = objc_keep(f);
    if (error != NULL)
        *error = NULL;
    return p;
}

static void end_pipeline(void *object)
{
    objc_drop(((Pipeline *)object)->function);
}

static Number max_threads(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_option("threads", 1024);
}

static Number simd_width(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_option("width", 32);
}

// --- recording -----------------------------------------------------------------------------------

static void *make_commands(void *self, void *selector)
{
    (void)selector;
    Commands *c = objc_make(&commands_class, sizeof *c);
    c->queue = objc_keep(self);
    return objc_leave(c);
}

static void end_commands(void *object)
{
    Commands *c = object;
    if (c->encoder != NULL)
        objc_fail("a command buffer ends before its encoder has");
    if (c->status == COMMITTED)
        objc_fail("a command buffer ends that nobody has waited for");
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < KERNEL_MAX_BUFFERS; k++)
            free(c->launch[i].arg[k].own);
    free(c->launch);
    objc_drop(c->queue);
}

static void *make_encoder(void *self, void *selector, Number type)
{
    Commands *c = self;
    (void)selector;
    if (c->status != NOT_COMMITTED || c->encoder != NULL)
        objc_fail("an encoder for a command buffer that %s",
                  c->encoder != NULL ? "has one" : "was committed");
    Encoder *e = objc_make(&encoder_class, sizeof *e);
    e->commands = objc_keep(c);
    e->is_concurrent = type == 1;
    e->waits = true; // encoders of one command buffer follow each other
    c->encoder = e;
    return objc_leave(e);
}

static void end_encoder(void *object)
{
    Encoder *e = object;
    if (!e->has_ended)
        objc_fail("an encoder is released before endEncoding");
    for (size_t i = 0; i < KERNEL_MAX_BUFFERS; i++)
        free(e->arg[i].own);
    objc_drop(e->commands);
}

static Encoder *open_encoder(void *self, const char *what)
{
    Encoder *e = self;
    if (e->has_ended)
        objc_fail("%s after endEncoding", what);
    return e;
}

static void set_pipeline(void *self, void *selector, void *pipeline)
{
    open_encoder(self, selector)->pipeline = objc_expect(pipeline, &pipeline_class);
}

static Argument *new_argument(void *self, const char *what, Number index)
{
    Encoder *e = open_encoder(self, what);
    if (index >= KERNEL_MAX_BUFFERS)
        objc_fail("%s: index %lu", what, index);
    free(e->arg[index].own);
    e->arg[index] = (Argument){0};
    return &e->arg[index];
}

static void set_buffer(void *self, void *selector, void *buffer, Number offset, Number index)
{
    Argument *a = new_argument(self, selector, index);
    Buffer *b = objc_expect(buffer, &buffer_class);
    if (offset >= b->length)
        objc_fail("offset %lu in a buffer of %lu bytes", offset, b->length);
    a->buffer = b;
    a->offset = offset;
}

static void set_bytes(void *self, void *selector, const void *bytes, Number length, Number index)
{
    Argument *a = new_argument(self, selector, index);
    if (length == 0 || length > MAX_OWN_BYTES)
        objc_fail("setBytes: of %lu bytes", length);
    a->own = malloc(length);
    if (a->own == NULL)
        objc_fail("no memory");
    memcpy(a->own, bytes, length);
    a->own_bytes = length;
}

static void check_argument(const MetalKernel *k, size_t i, const Argument *a)
{
    const MetalParam *p = &k->param[i];
    if (!p->is_given)
        return;
    if (a->buffer == NULL && a->own == NULL)
        objc_fail("%s: buffer %zu is not set", k->name, i);
    if (a->own != NULL && (!p->is_constant || a->own_bytes < p->bytes))
        objc_fail("%s: buffer %zu is %lu bytes of setBytes:", k->name, i, a->own_bytes);
    if (a->buffer != NULL && (a->offset % p->bytes != 0 || a->buffer->length - a->offset < p->bytes))
        objc_fail("%s: buffer %zu begins at %lu, its elements have %u bytes", k->name, i, a->offset,
                  p->bytes);
}

static Launch *new_launch(Commands *c)
{
    if (c->n == c->cap) {
        c->cap = c->cap * 2 + 16;
        c->launch = realloc(c->launch, c->cap * sizeof *c->launch);
        if (c->launch == NULL)
            objc_fail("no memory");
    }
    return &c->launch[c->n++];
}

static void dispatch(void *self, void *selector, Size groups, Size threads)
{
    Encoder *e = open_encoder(self, selector);
    if (e->pipeline == NULL)
        objc_fail("a launch without a pipeline");
    const MetalKernel *k = e->pipeline->function->kernel;
    if (threads.height != 1 || threads.depth != 1 || threads.width == 0 ||
        threads.width > max_threads(NULL, NULL))
        objc_fail("%s: groups of %lu x %lu x %lu threads", k->name, threads.width, threads.height,
                  threads.depth);
    Launch *l = new_launch(e->commands);
    *l = (Launch){.pipeline = e->pipeline,
                  .waits = e->waits || !e->is_concurrent,
                  .groups = {groups.width, groups.height, groups.depth},
                  .threads = threads.width};
    e->waits = false;
    for (size_t i = 0; i < KERNEL_MAX_BUFFERS; i++) {
        check_argument(k, i, &e->arg[i]);
        l->arg[i] = e->arg[i];
        if (l->arg[i].own != NULL) {
            l->arg[i].own = malloc(l->arg[i].own_bytes);
            memcpy(l->arg[i].own, e->arg[i].own, l->arg[i].own_bytes);
        }
    }
}

static void barrier(void *self, void *selector, Number scope)
{
    Encoder *e = open_encoder(self, selector);
    if (scope != 1 || !e->is_concurrent)
        objc_fail("memoryBarrierWithScope: %lu in an encoder that is %s", scope,
                  e->is_concurrent ? "concurrent" : "serial");
    e->waits = true;
}

static void end_encoding(void *self, void *selector)
{
    Encoder *e = open_encoder(self, selector);
    e->has_ended = true;
    e->commands->encoder = NULL;
}

// --- running -------------------------------------------------------------------------------------

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_launch(const Launch *l, bool is_beside, uint64_t seed)
{
    objc_expect(l->pipeline, &pipeline_class);
    const MetalKernel *k = l->pipeline->function->kernel;
    void *args[KERNEL_MAX_BUFFERS] = {0};
    DeviceRange written[KERNEL_MAX_BUFFERS];
    uint32_t n = 0;
    for (size_t i = 0; i < KERNEL_MAX_BUFFERS; i++) {
        const Argument *a = &l->arg[i];
        if (!k->param[i].is_given)
            continue;
        Buffer *const b = a->buffer != NULL ? objc_expect(a->buffer, &buffer_class) : NULL;
        args[i] = b != NULL ? b->data + a->offset : a->own;
        if (k->param[i].is_written)
            written[n++] = (DeviceRange){b->data, b->data + b->length};
    }
    const DeviceGrid grid = {.threads = {l->groups[0] * l->threads, l->groups[1], l->groups[2]},
                             .group_x = (uint32_t)l->threads,
                             .has_barrier = k->has_barrier,
                             .simd = (uint32_t)simd_width(NULL, NULL),
                             .is_beside = is_beside};
    const char *wrong = device_launch(k->fn, args, written, n, grid, seed);
    if (wrong != NULL)
        objc_fail("%s: %s", k->name, wrong);
}

// Launches up to the next one that waits, in an order of their own.
static void run_commands(Commands *c)
{
    static uint64_t seed;
    c->begin = now();
    for (size_t first = 0, end; first < c->n; first = end) {
        for (end = first + 1; end < c->n && !c->launch[end].waits; end++) {
        }
        const size_t n = end - first, start = (size_t)(seed % n);
        const bool is_reversed = seed / 2 % 2 != 0;
        for (size_t i = 0; i < n; i++) {
            const size_t at = (start + i) % n;
            run_launch(&c->launch[first + (is_reversed ? n - 1 - at : at)], i != 0, seed);
            seed++;
        }
    }
    c->end = now();
    c->status = COMPLETED;
}

static void commit(void *self, void *selector)
{
    Commands *c = self;
    (void)selector;
    if (c->status != NOT_COMMITTED || c->encoder != NULL)
        objc_fail("a command buffer is committed %s",
                  c->encoder != NULL ? "before its encoder has ended" : "twice");
    pthread_mutex_lock(&lock);
    c->status = COMMITTED;
    objc_keep(c);
    if (c->queue->first == NULL)
        c->queue->first = c;
    else
        c->queue->last->next = c;
    c->queue->last = c;
    pthread_mutex_unlock(&lock);
}

// All that was committed before runs first.
static void wait_for(void *self, void *selector)
{
    Commands *c = self;
    (void)selector;
    if (c->status == NOT_COMMITTED)
        objc_fail("waitUntilCompleted before commit");
    pthread_mutex_lock(&lock);
    while (c->status != COMPLETED) {
        Commands *next = c->queue->first;
        c->queue->first = next->next;
        run_commands(next);
        objc_drop(next);
    }
    pthread_mutex_unlock(&lock);
}

// Whoever asks often enough finds that they have ended.
static Number commands_status(void *self, void *selector)
{
    Commands *c = self;
    if (c->status == COMMITTED && ++c->n_asked > 2)
        wait_for(self, selector);
    return c->status;
}

static double begin_time(void *self, void *selector)
{
    (void)selector;
    return ((Commands *)self)->begin;
}

static double end_time(void *self, void *selector)
{
    (void)selector;
    return ((Commands *)self)->end;
}

// --- classes -------------------------------------------------------------------------------------

#define METHODS(name)    static const ObjcMethod name##_methods[]
#define IS(selector, fn) {selector, (ObjcFunction)fn}
#define END              {NULL, NULL}

METHODS(string_class) = {IS("stringWithUTF8String:", make_string), END};
METHODS(string) = {IS("UTF8String", string_bytes), END};
METHODS(options_class) = {IS("new", make_options), END};
METHODS(options) = {IS("setFastMathEnabled:", set_fast_math), IS("setMathMode:", set_math_mode),
                    IS("setMathFloatingPointFunctions:", set_math_functions), END};
METHODS(device) = {IS("name", device_name),
                   IS("maxBufferLength", max_bytes),
                   IS("newCommandQueue", make_queue),
                   IS("newBufferWithLength:options:", make_buffer),
                   IS("newLibraryWithSource:options:error:", make_library),
                   IS("newComputePipelineStateWithFunction:error:", make_pipeline),
                   END};
METHODS(library) = {IS("newFunctionWithName:", make_function), END};
METHODS(pipeline) = {IS("maxTotalThreadsPerThreadgroup", max_threads), IS("threadExecutionWidth", simd_width),
                     END};
METHODS(buffer) = {IS("contents", buffer_contents), END};
METHODS(queue) = {IS("commandBufferWithUnretainedReferences", make_commands), END};
METHODS(commands) = {IS("computeCommandEncoderWithDispatchType:", make_encoder),
                     IS("commit", commit),
                     IS("waitUntilCompleted", wait_for),
                     IS("status", commands_status),
                     IS("GPUStartTime", begin_time),
                     IS("GPUEndTime", end_time),
                     END};
METHODS(encoder) = {IS("setComputePipelineState:", set_pipeline),
                    IS("setBuffer:offset:atIndex:", set_buffer),
                    IS("setBytes:length:atIndex:", set_bytes),
                    IS("dispatchThreadgroups:threadsPerThreadgroup:", dispatch),
                    IS("memoryBarrierWithScope:", barrier),
                    IS("endEncoding", end_encoding),
                    END};

static const ObjcClass string_meta = {NULL, "NSString's class", string_class_methods, NULL},
                       options_meta = {NULL, "MTLCompileOptions' class", options_class_methods, NULL},
                       string_class = {&string_meta, "NSString", string_methods, end_string},
                       options_class = {&options_meta, "MTLCompileOptions", options_methods, NULL},
                       device_class = {&no_class_methods, "MTLDevice", device_methods, NULL},
                       library_class = {&no_class_methods, "MTLLibrary", library_methods, end_library},
                       function_class = {&no_class_methods, "MTLFunction", none, end_function},
                       pipeline_class = {&no_class_methods, "MTLComputePipelineState", pipeline_methods,
                                         end_pipeline},
                       buffer_class = {&no_class_methods, "MTLBuffer", buffer_methods, end_buffer},
                       queue_class = {&no_class_methods, "MTLCommandQueue", queue_methods, NULL},
                       commands_class = {&no_class_methods, "MTLCommandBuffer", commands_methods,
                                         end_commands},
                       encoder_class = {&no_class_methods, "MTLComputeCommandEncoder", encoder_methods,
                                        end_encoder};
const ObjcClass *const objc_classes[] = {&string_class, &options_class, NULL};
