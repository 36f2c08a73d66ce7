// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: what runs on NVIDIA GPUs need that are queued after others: sets of inputs, what handles of
// the program give them, and when those before are seen to have ended. Pasted after rlx_cuda_nodes.h for
// --target cuda.
#ifndef RLX_CUDA_QUEUE_H
#define RLX_CUDA_QUEUE_H

#include "rlx_cuda_devices.h"
#include "rlx_cuda_nodes.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where the device fails while queued runs are under way, the first of them is the one.
static inline rlx_status rlx_cuda_blame(rlx_ctx *ctx, const rlx_cuda *c, int code)
{
    if (code != 0 && c->n_queued != 0 && ctx->pending == RLX_OK) {
        ctx->pending = RLX_ERR_DEVICE;
        ctx->failed_run = c->oldest;
    }
    return rlx_cuda_status(code);
}

// Bytes that a part has in a set.
static inline size_t rlx_cuda_rounded(rlx_gpu_span s)
{
    return (s.end - s.begin + 15u) / 16u * 16u;
}

static inline unsigned char *rlx_cuda_set(const rlx_cuda *c)
{
    return c->stage + (size_t)c->turn * c->stage_bytes;
}

// All parts of the inputs into the set, or from there to the device. Where much that is not live lies between
// them (is_waste) they lie in the set one behind the other, else as in the arena block from `begin` on.
static inline rlx_status rlx_cuda_move_parts(const rlx_gpu_frame *f, rlx_cuda *c, int is_waste, size_t begin,
                                             int is_there)
{
    const uint32_t n = rlx_gpu_parts(f->ctx->model, 0);
    rlx_status status = RLX_OK;
    size_t next = 0;
    uint32_t i;
    for (i = 0; i < n && status == RLX_OK; i++) {
        const rlx_gpu_span s = rlx_gpu_part(f->ctx, 0, i);
        unsigned char *const set = rlx_cuda_set(c) + (is_waste ? next : s.begin - begin);
        if (s.begin == s.end)
            continue;
        if (is_there)
            status = rlx_cuda_write(c, f->base[RLX_GPU_ARENA] + f->program->block + s.begin, set,
                                    s.end - s.begin);
        else
            memcpy(set, f->ctx->arena + s.begin, s.end - s.begin);
        next += rlx_cuda_rounded(s);
    }
    return status;
}

static inline int rlx_cuda_are_few(const rlx_gpu_frame *f, const rlx_cuda *c)
{
    const uint32_t n = rlx_gpu_parts(f->ctx->model, 0);
    size_t live = 0;
    uint32_t i;
    for (i = 0; i < n; i++)
        live += rlx_cuda_rounded(rlx_gpu_part(f->ctx, 0, i));
    return c->stage != NULL && live <= RLX_CUDA_STAGE;
}

// When runs of the queue are seen to have ended: the first of two by waiting for it, and the second, where
// times are noted, by asking.
static inline void rlx_cuda_see_ends(const rlx_ctx *ctx, const rlx_cuda *c)
{
    if (ctx->times == NULL || c->n_queued == 0)
        return;
    if (c->n_queued == 2)
        rlx_time_ends(ctx, 2, RLX_OK);
    if (c->api.event_ask(c->used[1 - c->turn]) == 0)
        rlx_time_ends(ctx, 1, RLX_OK);
}

// The inputs of a run that is queued go to a set which no run before needs any more: of two runs that may be
// under way, the first must have ended.
static inline rlx_status rlx_cuda_put_aside(const rlx_gpu_frame *f, rlx_cuda *c)
{
    int is_waste = 0, code = 0;
    size_t begin;
    if (!rlx_cuda_are_few(f, c))
        return RLX_OK;
    rlx_gpu_set_page(f->ctx);
    begin = rlx_gpu_whole(f->ctx, 0, &is_waste).begin;
    if (c->n_queued != 0) // what is behind the last run is known when the next one comes
        code = c->api.event_record(c->used[c->turn], c->stream);
    c->turn = c->n_queued != 0 ? 1 - c->turn : 0;
    if (code == 0 && c->n_queued == 2) {
        code = c->api.event_wait(c->used[c->turn]);
        c->oldest += code == 0;
    }
    if (code != 0)
        return rlx_cuda_blame(f->ctx, c, code);
    rlx_cuda_see_ends(f->ctx, c);
    c->is_staged = 1;
    return rlx_cuda_move_parts(f, c, is_waste, begin, 0);
}

// Where the run takes an input from: the arena block, or the set.
static inline unsigned char *rlx_cuda_place(const rlx_gpu_frame *f, const rlx_cuda *c, uint32_t input)
{
    int is_waste = 0;
    const size_t begin = rlx_gpu_whole(f->ctx, 0, &is_waste).begin;
    const uint32_t part = input + 1u;
    const size_t own = rlx_gpu_part(f->ctx, 0, part).begin;
    size_t at = 0;
    uint32_t i;
    if (!c->is_staged)
        return f->ctx->arena + own;
    for (i = 0; i < part; i++)
        at += rlx_cuda_rounded(rlx_gpu_part(f->ctx, 0, i));
    return rlx_cuda_set(c) + (is_waste ? at : own - begin);
}

// What handles give the run is on its way from the one before: it comes there behind that, in the order of
// the stream, and where this run takes it from.
static inline rlx_status rlx_cuda_follow(const rlx_gpu_frame *f, rlx_cuda *c)
{
    const rlx_ctx *const ctx = f->ctx;
    const rlx_handle *h = ctx->handles;
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = 0; i < ctx->n_handles && status == RLX_OK; i++, h = h->next)
        if (rlx_follows(ctx, h))
            status = rlx_cuda_read(c, rlx_cuda_place(f, c, h->input),
                                   f->base[RLX_GPU_ARENA] + f->program->block +
                                       ctx->model->outputs[h->output].offset,
                                   rlx_input_bytes(ctx, h->input));
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
