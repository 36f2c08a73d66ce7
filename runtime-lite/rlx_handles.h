// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: persistent handles, values that live across runs under a name: the parameters and the states
// of a model, among them the inputs that --handle made so; and the handles that the program makes
// (rlx_links.h). Of models with --handle, and of all with --api full.
// A parameter has no value until it is bound (rlx_set_param is the same); a state begins with its initial
// value and is set by every run.
#ifndef RLX_HANDLES_H
#define RLX_HANDLES_H

#include "rlx_links.h"

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
#if RLX_HAS_QUEUE
    const rlx_handle *const own = rlx_own_handle(ctx, name);
    if (own != NULL) {
        rlx_settle(ctx);
        return own->has_value;
    }
#endif
    return rlx_find_handle(ctx, name, &flag) != NULL && (flag == NULL || *flag != 0);
}

// The memory of a handle, which never moves: dense, of its rlx_tensor's shape and type. NULL: no such handle.
// A parameter may not be written through it: runs read what was made of it when it was set. Of a model on a
// device it is a copy of the value, and writing there changes nothing. Of a handle that the program has made
// it is the program's memory.
static inline void *rlx_handle_data(const rlx_ctx *ctx, const char *name)
{
    const rlx_tensor *t = rlx_find_handle(ctx, name, NULL);
#if RLX_HAS_QUEUE
    const rlx_handle *const own = rlx_own_handle(ctx, name);
    if (own != NULL) {
        rlx_settle(ctx);
        return own->data;
    }
#endif
    if (t == NULL || rlx_get_state(ctx, t->offset, t->bytes) != RLX_OK)
        return NULL;
    return ctx->state + t->offset;
}

// Gives a handle a value. One that the program has made takes it in the shape that its input or output has by
// what the symbols are now.
static inline rlx_status rlx_bind_handle(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    unsigned char *flag = NULL;
    const rlx_tensor *t = rlx_find_handle(ctx, name, &flag);
    if (ctx == NULL || ctx->model == NULL || name == NULL || data == NULL)
        return rlx_fail_null(ctx);
#if RLX_HAS_QUEUE
    if (rlx_own_handle(ctx, name) != NULL)
        return rlx_bind_own(ctx, rlx_own_handle(ctx, name), data, bytes);
#endif
    if (t == NULL)
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, name, 0, 0);
    if (t->bytes != bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, name, t->bytes, bytes);
#if RLX_HAS_QUEUE
    rlx_leave_held(ctx);
#endif
    memmove(ctx->state + t->offset, data, bytes); // data may be what rlx_handle_data gave
    if (flag != NULL)
        *flag = 1;
    return rlx_put_state(ctx, t->offset, bytes);
}

// Copies the value of a handle. RLX_ERR_HANDLE: no such handle, or it was never bound.
static inline rlx_status rlx_read_handle(const rlx_ctx *ctx, const char *name, void *data, size_t bytes)
{
    const rlx_tensor *t = rlx_find_handle(ctx, name, NULL);
    if (ctx == NULL || ctx->model == NULL || name == NULL || data == NULL)
        return rlx_fail_null(ctx);
#if RLX_HAS_QUEUE
    if (rlx_own_handle(ctx, name) != NULL)
        return rlx_read_own(ctx, rlx_own_handle(ctx, name), data, bytes);
#endif
    if (t == NULL || !rlx_has_handle(ctx, name))
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, name, 0, t != NULL);
    if (t->bytes != bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, name, t->bytes, bytes);
    if (rlx_get_state(ctx, t->offset, bytes) != RLX_OK)
        return RLX_ERR_DEVICE; // which that has told
    memcpy(data, ctx->state + t->offset, bytes);
    return RLX_OK;
}

// A parameter and a handle that the program has made lose their value, a state goes back to the initial one.
static inline rlx_status rlx_clear_handle(rlx_ctx *ctx, const char *name)
{
    unsigned char *flag = NULL;
    const rlx_tensor *t = rlx_find_handle(ctx, name, &flag);
#if RLX_HAS_QUEUE
    rlx_handle *const own = rlx_own_handle(ctx, name);
#endif
    if (ctx == NULL || ctx->model == NULL || name == NULL)
        return rlx_fail_null(ctx);
#if RLX_HAS_QUEUE
    if (own != NULL) {
        rlx_settle(ctx);
        own->has_value = 0;
        return RLX_OK;
    }
#endif
    if (t == NULL)
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, name, 0, 0);
#if RLX_HAS_QUEUE
    rlx_leave_held(ctx);
#endif
    if (flag != NULL)
        *flag = 0;
    else if (ctx->model->state_init != NULL)
        memcpy(ctx->state + t->offset, (const unsigned char *)ctx->model->state_init + t->offset, t->bytes);
    else
        memset(ctx->state + t->offset, 0, t->bytes);
    return rlx_put_state(ctx, t->offset, t->bytes);
}

// After a run: the handle takes the value of an output (of its size and type). Where sizes are open, or the
// model computes one, the output is dense in the shape that it has now, and the handle has the largest one:
// the elements within the sizes of the run go to their places in it, the others stay as they were.
typedef struct rlx_feed {
    const char *handle;
    uint32_t output; // slot
} rlx_feed;

// An output as it is copied into a handle: `n` pieces of so many bytes, the axes before `inner` apart.
typedef struct rlx_cut {
    const rlx_tensor *to;
    size_t n, bytes;
    int inner;
    int is_all; // nothing of the handle stays
    int64_t shape[RLX_MAX_RANK];
} rlx_cut;

// An output with the room that it has in the largest variant.
static inline const rlx_tensor *rlx_largest_output(const rlx_model *m, uint32_t slot)
{
    return &rlx_largest_variant(m)->outputs[slot];
}

// Where the shape of p cuts more than the first axis of some rows, the handle must have the output's shape.
static inline rlx_status rlx_cut_output(const rlx_tensor *from, rlx_cut *p)
{
    const rlx_tensor *const to = p->to;
    const int has_shape = to->rank == from->rank && memcmp(to->shape, from->shape, sizeof to->shape) == 0;
    int i, is_apart = 0;
    p->n = 1;
    p->inner = 0;
    for (i = 0; i < from->rank; i++)
        if (p->shape[i] != from->shape[i])
            p->inner = i;
    p->is_all = rlx_shape_bytes(from, p->shape) == to->bytes;
    p->bytes = rlx_dtype_bytes(from->dtype);
    for (i = 0; i < from->rank; i++) {
        if (i < p->inner)
            p->n *= (size_t)p->shape[i];
        else
            p->bytes *= (size_t)p->shape[i];
        is_apart = is_apart || (i < p->inner && from->shape[i] > 1);
    }
    return is_apart && !has_shape ? RLX_ERR_SIZE : RLX_OK;
}

// Axes before `inner` whose places in the handle are a constant step apart: those of which all but the first
// are whole are one. steps, counts: by such an axis, the innermost one first. Returns how many there are.
static inline int rlx_find_steps(const rlx_cut *p, size_t *steps, size_t *counts)
{
    size_t step = rlx_dtype_bytes(p->to->dtype);
    int i, n = 0;
    for (i = p->to->rank - 1; p->n > 1u && i >= 0; i--) {
        if (i < p->inner && n != 0 && p->shape[i + 1] == p->to->shape[i + 1] && i + 1 < p->inner) {
            counts[n - 1] *= (size_t)p->shape[i];
        } else if (i < p->inner) {
            steps[n] = step;
            counts[n++] = (size_t)p->shape[i];
        }
        step *= (size_t)p->to->shape[i];
    }
    return n;
}

// Can the feed be done with the sizes of now? A size that the model computes is known after a run only: the
// handle then must have the output's shape, which is enough for any.
static inline rlx_status rlx_check_feed(const rlx_ctx *ctx, const rlx_feed *feed)
{
    const rlx_tensor *t = rlx_find_handle(ctx, feed->handle, NULL), *from;
#if RLX_HAS_QUEUE
    const rlx_handle *const own = rlx_own_handle(ctx, feed->handle);
#endif
    rlx_cut p;
    if (feed->handle == NULL)
        return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_HANDLE, NULL, 0, 0);
#if RLX_HAS_QUEUE
    if (t == NULL && own == NULL)
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, feed->handle, 0, 0);
#else
    if (t == NULL)
        return RLX_ERR_HANDLE;
#endif
    if (feed->output >= ctx->model->n_outputs)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_OUTPUT, NULL, (int64_t)ctx->model->n_outputs,
                        (int64_t)feed->output);
    from = rlx_largest_output(ctx->model, feed->output);
#if RLX_HAS_QUEUE
    if (own != NULL)
        return from->bytes <= own->room
                   ? rlx_check_link(ctx, own, from)
                   : rlx_fail_size(ctx, RLX_ABOUT_HANDLE, own->name, from->bytes, own->room);
#endif
    if (t->dtype != from->dtype)
        return rlx_fail(ctx, RLX_ERR_DTYPE, RLX_ABOUT_HANDLE, t->name, (int64_t)t->dtype,
                        (int64_t)from->dtype);
    if (t->bytes != from->bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, t->name, t->bytes, from->bytes);
    p.to = t;
    rlx_shape_now(ctx, 1, feed->output, p.shape);
#if RLX_HAS_SIZES
    if (ctx->model->output_sizes != NULL && ctx->model->output_sizes[feed->output] != (size_t)-1 &&
        from->rank > 1)
        p.shape[from->rank - 1] = -1; // any
#endif
    return rlx_cut_output(from, &p) == RLX_OK
               ? RLX_OK
               : rlx_fail(ctx, RLX_ERR_SIZE, RLX_ABOUT_HANDLE, t->name, 0, -1);
}

// Rows and layers of rows at once, whatever the rank.
static inline rlx_status rlx_copy_cut(rlx_ctx *ctx, const rlx_cut *c, uint32_t output)
{
#if RLX_HAS_DEVICE
    const rlx_device *const d = ctx->model->device;
#endif
    size_t steps[RLX_MAX_RANK], counts[RLX_MAX_RANK], n_blocks, block, rest;
    const int n = rlx_find_steps(c, steps, counts);
    rlx_status status = RLX_OK;
    rlx_pieces p;
    int i;
    p.bytes = c->bytes;
    p.from = ctx->model->outputs[output].offset;
    p.n_rows = n > 0 ? counts[0] : 1u;
    p.row = n > 0 ? steps[0] : 0u;
    p.n_layers = n > 1 ? counts[1] : 1u;
    p.layer = n > 1 ? steps[1] : 0u;
    n_blocks = c->bytes == 0 || c->n == 0 ? 0 : c->n / (p.n_rows * p.n_layers);
    for (block = 0; block < n_blocks && status == RLX_OK; block++) {
        p.to = c->to->offset;
        rest = block;
        for (i = 2; i < n; i++) {
            p.to += rest % counts[i] * steps[i];
            rest /= counts[i];
        }
#if RLX_HAS_DEVICE
        if (d != NULL)
            status = d->move(ctx, &p);
        else
            rlx_copy_pieces(ctx->state, ctx->arena, &p);
#else
        rlx_copy_pieces(ctx->state, ctx->arena, &p);
#endif
        p.from += p.n_rows * p.n_layers * p.bytes;
    }
    return status;
}

// The handle takes the value that the output has after a run: RLX_ERR_EARLY where none has ended well yet.
static inline rlx_status rlx_feed_handle(rlx_ctx *ctx, const char *handle, uint32_t output)
{
    rlx_feed feed;
    rlx_status status;
    rlx_cut p;
    unsigned char *flag = NULL;
    feed.handle = handle;
    feed.output = output;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    status = rlx_check_feed(ctx, &feed);
    if (status != RLX_OK)
        return status;
#if RLX_HAS_QUEUE
    rlx_settle(ctx);
#endif
    if (ctx->has_run == 0)
        return rlx_fail(ctx, RLX_ERR_EARLY, RLX_ABOUT_OUTPUT, ctx->model->outputs[output].name, 0, 0);
#if RLX_HAS_QUEUE
    if (rlx_own_handle(ctx, handle) != NULL)
        return rlx_take_output(ctx, rlx_own_handle(ctx, handle), output);
#endif
    p.to = rlx_find_handle(ctx, handle, &flag);
    rlx_output_shape(ctx, output, p.shape);
    status = rlx_cut_output(rlx_largest_output(ctx->model, output), &p);
    if (status == RLX_OK)
        status = rlx_copy_cut(ctx, &p, output);
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
        return rlx_fail_null(ctx);
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
