// SPDX-License-Identifier: Apache-2.0
// Queues, command buffers and encoders of Metal on the CPU: see cpu_metal.h.
#include "compiler/metal/cpu_metal.h"
#include "compiler/metal/device.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_OWN_BYTES = 4096, NOT_COMMITTED = 0, COMMITTED = 2, COMPLETED = 4 };

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

static const ObjcClass queue_class, commands_class, encoder_class;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of queues, and one run at a time

void *metal_make_queue(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_make(&queue_class, sizeof(Queue));
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
        threads.width > metal_max_threads(NULL, NULL))
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
                             .simd = (uint32_t)metal_simd_width(NULL, NULL),
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

static const ObjcClass queue_class = {&no_class_methods, "MTLCommandQueue", queue_methods, NULL},
                       commands_class = {&no_class_methods, "MTLCommandBuffer", commands_methods,
                                         end_commands},
                       encoder_class = {&no_class_methods, "MTLComputeCommandEncoder", encoder_methods,
                                        end_encoder};
