// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: persistent handles, values that live across runs under a name: the parameters and the states
// of a model, among them the inputs that --handle made so. Pasted behind rlx.h unless a model is compiled
// with
// --api core.
// A parameter has no value until it is bound (rlx_set_param is the same); a state begins with its initial
// value and is set by every run.
#ifndef RLX_HANDLES_H
#define RLX_HANDLES_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

// The tensor of a handle; *flag (may be NULL): its byte in the state block that is 1 when it has a value, or
// NULL when it always has one. NULL: there is no such handle.
static inline const rlx_tensor *rlx_find_handle(const rlx_ctx *ctx, const char *name, unsigned char **flag)
{
    int slot;
    if (ctx == NULL || ctx->model == NULL || name == NULL)
        return NULL;
    slot = rlx_find(ctx->model->states, ctx->model->n_states, name);
    if (flag != NULL)
        *flag = NULL;
    if (slot >= 0)
        return &ctx->model->states[slot];
    slot = rlx_find(ctx->model->params, ctx->model->n_params, name);
    if (slot >= 0 && flag != NULL)
        *flag = ctx->state + ctx->model->flags_offset + slot;
    return slot >= 0 ? &ctx->model->params[slot] : NULL;
}

// Has the model a handle of that name, and has it a value?
static inline int rlx_has_handle(const rlx_ctx *ctx, const char *name)
{
    unsigned char *flag = NULL;
    return rlx_find_handle(ctx, name, &flag) != NULL && (flag == NULL || *flag != 0);
}

// The memory of a handle, which never moves: dense, of its rlx_tensor's shape and type. NULL: no such handle.
// A parameter may not be written through it: runs read what was made of it when it was set. Of a model on a
// device it is a copy of the value, and writing there changes nothing.
static inline void *rlx_handle_data(const rlx_ctx *ctx, const char *name)
{
    const rlx_tensor *t = rlx_find_handle(ctx, name, NULL);
    if (t == NULL || rlx_get_state(ctx, t->offset, t->bytes) != RLX_OK)
        return NULL;
    return ctx->state + t->offset;
}

// Gives a handle a value.
static inline rlx_status rlx_bind_handle(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    unsigned char *flag = NULL;
    const rlx_tensor *t = rlx_find_handle(ctx, name, &flag);
    if (ctx == NULL || name == NULL || data == NULL)
        return RLX_ERR_NULL;
    if (t == NULL)
        return RLX_ERR_HANDLE;
    if (t->bytes != bytes)
        return RLX_ERR_SIZE;
    memcpy(ctx->state + t->offset, data, bytes);
    if (flag != NULL)
        *flag = 1;
    return rlx_put_state(ctx, t->offset, bytes);
}

// Copies the value of a handle. RLX_ERR_HANDLE: no such handle, or it was never bound.
static inline rlx_status rlx_read_handle(const rlx_ctx *ctx, const char *name, void *data, size_t bytes)
{
    const rlx_tensor *t = rlx_find_handle(ctx, name, NULL);
    if (ctx == NULL || name == NULL || data == NULL)
        return RLX_ERR_NULL;
    if (t == NULL || !rlx_has_handle(ctx, name))
        return RLX_ERR_HANDLE;
    if (t->bytes != bytes)
        return RLX_ERR_SIZE;
    if (rlx_get_state(ctx, t->offset, bytes) != RLX_OK)
        return RLX_ERR_DEVICE;
    memcpy(data, ctx->state + t->offset, bytes);
    return RLX_OK;
}

// A parameter loses its value, a state goes back to the initial one.
static inline rlx_status rlx_clear_handle(rlx_ctx *ctx, const char *name)
{
    unsigned char *flag = NULL;
    const rlx_tensor *t = rlx_find_handle(ctx, name, &flag);
    if (ctx == NULL || name == NULL)
        return RLX_ERR_NULL;
    if (t == NULL)
        return RLX_ERR_HANDLE;
    if (flag != NULL)
        *flag = 0;
    else if (ctx->model->state_init != NULL)
        memcpy(ctx->state + t->offset, (const unsigned char *)ctx->model->state_init + t->offset, t->bytes);
    else
        memset(ctx->state + t->offset, 0, t->bytes);
    return rlx_put_state(ctx, t->offset, t->bytes);
}

// After a run: the handle takes the value of an output (of its size and type).
typedef struct rlx_feed {
    const char *handle;
    uint32_t output; // slot
} rlx_feed;

static inline rlx_status rlx_check_feed(const rlx_ctx *ctx, const rlx_feed *feed)
{
    const rlx_tensor *t = rlx_find_handle(ctx, feed->handle, NULL);
    if (feed->handle == NULL)
        return RLX_ERR_NULL;
    if (t == NULL)
        return RLX_ERR_HANDLE;
    if (feed->output >= ctx->model->n_outputs)
        return RLX_ERR_SLOT;
    if (t->dtype != ctx->model->outputs[feed->output].dtype)
        return RLX_ERR_DTYPE;
    return t->bytes == ctx->model->outputs[feed->output].bytes ? RLX_OK : RLX_ERR_SIZE;
}

static inline rlx_status rlx_feed_handle(rlx_ctx *ctx, const char *handle, uint32_t output)
{
    rlx_feed feed;
    rlx_status status;
    const rlx_tensor *t, *from;
    unsigned char *flag = NULL;
    feed.handle = handle;
    feed.output = output;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    status = rlx_check_feed(ctx, &feed);
    if (status != RLX_OK)
        return status;
    from = &ctx->model->outputs[output];
    if (ctx->model->device == NULL || ctx->model->device->move == NULL)
        return rlx_bind_handle(ctx, handle, ctx->arena + from->offset, from->bytes);
    t = rlx_find_handle(ctx, handle, &flag);
    status = ctx->model->device->move(ctx, t->offset, from->offset, from->bytes);
    if (flag != NULL && status == RLX_OK)
        *flag = 1;
    return status;
}

// A run on what is in the input slots, then the feeds in their order. They are checked before the run. (What
// --handle INPUT=OUTPUT feeds needs no such call, and no copy.)
static inline rlx_status rlx_run_feed(rlx_ctx *ctx, const rlx_feed *feeds, uint32_t n)
{
    uint32_t i;
    rlx_status status = RLX_OK;
    if (ctx == NULL || ctx->model == NULL || (feeds == NULL && n != 0))
        return RLX_ERR_NULL;
    for (i = 0; i < n && status == RLX_OK; i++)
        status = rlx_check_feed(ctx, &feeds[i]);
    if (status == RLX_OK)
        status = rlx_run(ctx);
    for (i = 0; i < n && status == RLX_OK; i++)
        status = rlx_feed_handle(ctx, feeds[i].handle, feeds[i].output);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
