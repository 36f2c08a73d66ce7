// SPDX-License-Identifier: Apache-2.0
// Times a model on a Vulkan device by the device's own clock (timestamps), without the copies of a run:
// compiled together with the model's text (-include MODEL.c), because it submits the list of launches that a
// run would submit.
#include "harness_api.h"

#include <stdlib.h>

enum { STAMPS = 2, RUNS = 64 };

static void *stamps[STAMPS]; // lists that write a timestamp each
static uint64_t queries;

static int make_stamps(rlx_vulkan *v)
{
    rlx_vk_query_info info;
    int failed, i;
    memset(&info, 0, sizeof info);
    info.head.type = 11;
    info.kind = 2;
    info.count = STAMPS;
    failed = v->api.create_queries(v->device, &info, NULL, &queries) != 0;
    for (i = 0; i < STAMPS && !failed; i++) {
        failed = rlx_vulkan_make_list(v, &stamps[i]) != RLX_VULKAN_OK ||
                 rlx_vulkan_begin_list(v, stamps[i], 4) != RLX_VULKAN_OK;
        if (failed)
            break;
        v->api.reset_queries(v->commands, queries, (uint32_t)i, 1);
        v->api.stamp(v->commands, 0x2000u, queries, (uint32_t)i); // behind all before it
        failed = rlx_vulkan_end_list(v) != RLX_VULKAN_OK;
    }
    v->commands = v->lists[0];
    return failed;
}

// The launches of a run as the list that it submits; NULL where they are recorded anew each time.
static void **launches(rlx_ctx *ctx)
{
    void **const list = &rlx_vulkan_lists(rlx_vulkan_of(ctx))[ctx->model->bucket];
    return *list != NULL ? list : NULL;
}

// Starts n runs one behind the other, and waits.
int bench_runs(rlx_ctx *ctx, int n)
{
    rlx_vulkan *const v = &rlx_vulkan_of(ctx)->device;
    void **const list = launches(ctx);
    int failed = list == NULL, i;
    for (i = 0; i < n && !failed; i++)
        failed = rlx_vulkan_submit_list(v, list) != RLX_VULKAN_OK;
    return failed || rlx_vulkan_wait(v) != RLX_VULKAN_OK;
}

// One submission of `runs` runs between two timestamps, so that the host has no part in what is timed.
static int submit_timed(rlx_vulkan *v, void *run, int runs)
{
    void *lists[RUNS + STAMPS];
    const uint64_t count = v->submitted + 1u;
    rlx_vk_timeline_submit timeline;
    rlx_vk_submit submit;
    int i;
    memset(&timeline, 0, sizeof timeline);
    memset(&submit, 0, sizeof submit);
    lists[0] = stamps[0];
    for (i = 0; i < runs; i++)
        lists[i + 1] = run;
    lists[runs + 1] = stamps[1];
    timeline.head.type = 1000207003u;
    timeline.n_signals = 1;
    timeline.signals = &count;
    submit.head.type = 4;
    submit.head.next = &timeline;
    submit.n_commands = (uint32_t)runs + STAMPS;
    submit.commands = lists;
    submit.n_signals = 1;
    submit.signals = &v->semaphore;
    if (v->api.submit(v->queue, 1, &submit, 0) != 0)
        return 1;
    v->submitted = count;
    return rlx_vulkan_wait(v) != RLX_VULKAN_OK;
}

static double stamped_us(rlx_vulkan *v)
{
    uint64_t at[STAMPS] = {0, 0}, properties[RLX_VK_PROPERTIES];
    float period = 0;
    v->api.query(v->device, queries, 0, STAMPS, sizeof at, at, sizeof *at, 3);
    v->instance_api.properties(v->physical, properties);
    memcpy(&period, (const unsigned char *)properties + RLX_VK_TIMESTAMP_PERIOD, sizeof period);
    return (double)(at[1] - at[0]) * (double)period * 1e-3;
}

// Microseconds of a run, of n samples of `runs` (at most RUNS) runs each. flush: for CUDA only.
int bench_times(rlx_ctx *ctx, int n, int runs, size_t flush, float *us)
{
    rlx_vulkan *const v = &rlx_vulkan_of(ctx)->device;
    void **const list = launches(ctx);
    int failed = list == NULL || flush != 0 || runs > RUNS || (queries == 0 && make_stamps(v)), i;
    for (i = 0; i < n && !failed; i++) {
        failed = submit_timed(v, *list, runs);
        us[i] = (float)(stamped_us(v) / runs);
    }
    return failed;
}

// Microseconds of each launch, timed n times by itself, between its timestamps.
int bench_kernels(rlx_ctx *ctx, int n, float *us)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    rlx_vulkan *const v = &r->device;
    const rlx_gpu_frame f = rlx_vulkan_frame(ctx, r);
    int failed = rlx_vulkan_time(v, 1) != RLX_VULKAN_OK, i;
    uint32_t s;
    for (s = 0; s < f.program->n_steps && !failed; s++) {
        us[s] = 0;
        for (i = 0; i < n && !failed; i++) {
            failed = rlx_gpu_steps(&f, s, s + 1u) != RLX_OK || rlx_vulkan_wait(v) != RLX_VULKAN_OK;
            us[s] += (float)(rlx_vulkan_spent(v) * 1e-3 / n);
        }
    }
    return failed || rlx_vulkan_time(v, 0) != RLX_VULKAN_OK;
}
