// SPDX-License-Identifier: Apache-2.0
// Times a model on an NVIDIA GPU by the device's own clock (events), without the copies of a run: compiled
// together with the model's text (-include MODEL.c), because it launches what a run would launch.
#include "harness_api.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef struct Events {
    int (*create)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*elapsed)(float *ms, void *from, void *to);
    int (*destroy)(void *event);
} Events;

static int find_events(Events *e)
{
    static const char *const names[] = {"cuEventCreate", "cuEventRecord", "cuEventElapsedTime",
                                        "cuEventDestroy_v2"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *const found = library != NULL ? dlsym(library, names[i]) : NULL;
        if (found == NULL)
            return -1;
        memcpy((unsigned char *)e + i * sizeof found, &found, sizeof found);
    }
    return 0;
}

static void *chained; // bench_chain: what a run is instead

// All launches of a run as the driver's graph, without the copies between host and device; NULL where the
// model is launched one by one. The context is current.
static void *launches(rlx_ctx *ctx)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    rlx_gpu_span nothing;
    if (chained != NULL)
        return chained;
    c->launched = rlx_cuda_graph_of(ctx, c);
    nothing.begin = nothing.end = 0;
    if (c->launched == NULL || rlx_cuda_aim(c, c->program, 0, nothing, NULL) != RLX_OK ||
        rlx_cuda_aim(c, c->program, 1, nothing, NULL) != RLX_OK)
        return NULL;
    return c->launched->exec;
}

// Starts n runs one behind the other, and waits.
int bench_runs(rlx_ctx *ctx, int n)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void *before;
    c->api.push(c->context);
    int failed = launches(ctx) == NULL;
    for (int i = 0; i < n && !failed; i++)
        failed = c->api.graph_launch(launches(ctx), c->stream);
    failed = failed || c->api.stream_wait(c->stream);
    c->api.pop(&before);
    return failed;
}

// Threads of a group of launch number `step`.
unsigned bench_threads(rlx_ctx *ctx, unsigned step)
{
    const rlx_gpu_program *p = rlx_cuda_of(ctx)->program;
    return step < p->n_steps ? p->steps[step].group : 0;
}

// From now on a run is these launches only, one behind the other as often as wanted: those that have
// `threads` in a group (0: all).
int bench_chain(rlx_ctx *ctx, unsigned threads, int times)
{
    static const unsigned char programmatic[8] = {1, 0, 1};
    rlx_cuda *const c = rlx_cuda_of(ctx);
    const rlx_gpu_program *p = c->program;
    void *exec = NULL, *before, *last = NULL;
    rlx_gpu_frame f;
    int failed, i;
    unsigned s;
    c->api.push(c->context);
    failed = c->api.graph_create(&c->graph, 0) != 0;
    f = rlx_gpu_begin(ctx, rlx_cuda_driver(), c, c->memory, rlx_cuda_args((unsigned char *)c));
    for (i = 0; i < times; i++)
        for (s = 0; s < p->n_steps && !failed; s++) {
            if (threads != 0 && p->steps[s].group != threads)
                continue;
            failed = rlx_gpu_steps(&f, s, s + 1u) != RLX_OK;
            if (last != NULL && c->is_programmatic)
                failed = failed || c->api.graph_programmatic(c->graph, &last, &c->node, programmatic, 1) != 0;
            else if (last != NULL)
                failed = failed || c->api.graph_edge(c->graph, &last, &c->node, 1) != 0;
            last = c->node;
        }
    failed = failed || c->api.graph_make(&exec, c->graph, 0) != 0;
    c->api.graph_destroy(c->graph);
    c->graph = NULL;
    if (!failed)
        chained = exec;
    c->api.pop(&before);
    return failed;
}

// Microseconds of n launches of `runs` runs each. flush: bytes that are written before each, so that nothing
// is left in the cache; 0: none.
int bench_times(rlx_ctx *ctx, int n, int runs, size_t flush, float *us)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void **events = malloc(2 * (size_t)n * sizeof *events), *before;
    unsigned long long memory = 0;
    Events e;
    c->api.push(c->context);
    int failed = find_events(&e) != 0 || launches(ctx) == NULL || events == NULL;
    failed = failed || (flush != 0 && c->api.alloc(&memory, flush) != 0);
    for (int i = 0; i < 2 * n && !failed; i++)
        failed = e.create(&events[i], 0);
    for (int i = 0; i < n && !failed; i++) {
        failed = flush != 0 && c->api.fill(memory, (unsigned char)i, flush, c->stream) != 0;
        failed = failed || e.record(events[2 * i], c->stream);
        for (int j = 0; j < runs && !failed; j++)
            failed = c->api.graph_launch(launches(ctx), c->stream);
        failed = failed || e.record(events[2 * i + 1], c->stream);
    }
    failed = failed || c->api.stream_wait(c->stream);
    for (int i = 0; i < n && !failed; i++) {
        failed = e.elapsed(&us[i], events[2 * i], events[2 * i + 1]);
        us[i] *= 1000 / (float)runs;
    }
    for (int i = 0; i < 2 * n && !failed; i++)
        e.destroy(events[i]);
    if (memory != 0)
        c->api.release_memory(memory);
    c->api.pop(&before);
    free(events);
    return failed;
}

// Microseconds of each kernel, launched n times by itself: without what graphs gain, and with a warm cache.
int bench_kernels(rlx_ctx *ctx, int n, float *us)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void *first = NULL, *last = NULL, *before;
    Events e;
    int failed = find_events(&e);
    c->api.push(c->context);
    failed = failed || e.create(&first, 0) != 0 || e.create(&last, 0) != 0;
    const rlx_gpu_frame f =
        rlx_gpu_begin(ctx, rlx_cuda_driver(), c, c->memory, rlx_cuda_args((unsigned char *)c));
    for (uint32_t s = 0; s < f.program->n_steps && !failed; s++) {
        failed = rlx_gpu_steps(&f, s, s + 1u) != RLX_OK || e.record(first, c->stream);
        for (int i = 0; i < n && !failed; i++)
            failed = rlx_gpu_steps(&f, s, s + 1u) != RLX_OK;
        failed = failed || e.record(last, c->stream) || c->api.stream_wait(c->stream) ||
                 e.elapsed(&us[s], first, last);
        us[s] *= 1000 / (float)n;
    }
    c->api.pop(&before);
    return failed;
}
