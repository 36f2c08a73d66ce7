// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: the values of states. Of models that have some.
#ifndef RLX_STATES_H
#define RLX_STATES_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

// Finds a state for the calls below: *t gets it.
static inline rlx_status rlx_find_state(const rlx_ctx *ctx, const char *name, const void *data,
                                        const rlx_tensor **t)
{
    int slot;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (data == NULL)
        return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_STATE, name, 0, 0);
    slot = rlx_find(ctx->model->states, ctx->model->n_states, name);
    if (slot < 0)
        return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_STATE, name, 0, 0);
    *t = &ctx->model->states[slot];
    return RLX_OK;
}

// Are bytes offset .. offset + bytes - 1 whole elements of it?
#if RLX_HAS_ERRORS
static inline rlx_status rlx_check_range(const rlx_ctx *ctx, rlx_subject about, const rlx_tensor *t,
                                         size_t offset, size_t bytes)
#else
static inline rlx_status rlx_check_range(const rlx_tensor *t, size_t offset, size_t bytes)
#endif
{
    const size_t one = rlx_dtype_bytes(t->dtype);
    if (offset % one != 0 || bytes % one != 0)
        return rlx_fail_size(ctx, about, t->name, one, offset % one != 0 ? offset : bytes);
    if (offset > t->bytes || bytes > t->bytes - offset)
        return rlx_fail(ctx, RLX_ERR_RANGE, about, t->name, (int64_t)t->bytes,
                        (int64_t)(offset > t->bytes ? offset : offset + bytes));
    return RLX_OK;
}

// Finds a state and checks a range of its bytes, for the two calls below.
static inline rlx_status rlx_find_state_range(const rlx_ctx *ctx, const char *name, const void *data,
                                              size_t offset, size_t bytes, const rlx_tensor **t)
{
    const rlx_status status = rlx_find_state(ctx, name, data, t);
    if (status != RLX_OK)
        return status;
#if RLX_HAS_ERRORS
    return rlx_check_range(ctx, RLX_ABOUT_STATE, *t, offset, bytes);
#else
    return rlx_check_range(*t, offset, bytes);
#endif
}

// Copies `bytes` bytes of a state out or in, in its own element type, from byte `offset` on. RLX_ERR_SIZE:
// offset or bytes is no multiple of an element. RLX_ERR_RANGE: it is not as long.
static inline rlx_status rlx_read_state_range(const rlx_ctx *ctx, const char *name, size_t offset, void *data,
                                              size_t bytes)
{
    const rlx_tensor *t = NULL;
    rlx_status status = rlx_find_state_range(ctx, name, data, offset, bytes, &t);
    if (status == RLX_OK)
        status = rlx_get_state(ctx, t->offset + offset, bytes);
    if (status == RLX_OK && bytes != 0)
        memcpy(data, ctx->state + t->offset + offset, bytes);
    return status;
}

static inline rlx_status rlx_write_state_range(rlx_ctx *ctx, const char *name, size_t offset,
                                               const void *data, size_t bytes)
{
    const rlx_tensor *t = NULL;
    const rlx_status status = rlx_find_state_range(ctx, name, data, offset, bytes, &t);
    if (status != RLX_OK || bytes == 0)
        return status;
#if RLX_HAS_QUEUE
    rlx_leave_held(ctx);
#endif
    memcpy(ctx->state + t->offset + offset, data, bytes);
    return rlx_put_state(ctx, t->offset + offset, bytes);
}

// Is there such a state, and has it so many bytes?
static inline rlx_status rlx_check_state(const rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    const rlx_tensor *t = NULL;
    const rlx_status status = rlx_find_state(ctx, name, data, &t);
    return status != RLX_OK || bytes == t->bytes
               ? status
               : rlx_fail_size(ctx, RLX_ABOUT_STATE, name, t->bytes, bytes);
}

// Copies a state out or in (save and restore).
static inline rlx_status rlx_read_state(const rlx_ctx *ctx, const char *name, void *data, size_t bytes)
{
    const rlx_status status = rlx_check_state(ctx, name, data, bytes);
    return status == RLX_OK ? rlx_read_state_range(ctx, name, 0, data, bytes) : status;
}

static inline rlx_status rlx_write_state(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    const rlx_status status = rlx_check_state(ctx, name, data, bytes);
    return status == RLX_OK ? rlx_write_state_range(ctx, name, 0, data, bytes) : status;
}

// Back to the initial states; parameters keep their values.
static inline rlx_status rlx_reset(rlx_ctx *ctx)
{
    uint32_t i;
    rlx_status status = RLX_OK;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
#if RLX_HAS_QUEUE
    rlx_leave_held(ctx);
#endif
    for (i = 0; i < ctx->model->n_states && status == RLX_OK; i++) {
        const rlx_tensor *t = &ctx->model->states[i];
        if (ctx->model->state_init != NULL)
            memcpy(ctx->state + t->offset, (const unsigned char *)ctx->model->state_init + t->offset,
                   t->bytes);
        else
            memset(ctx->state + t->offset, 0, t->bytes);
        status = rlx_put_state(ctx, t->offset, t->bytes);
    }
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
