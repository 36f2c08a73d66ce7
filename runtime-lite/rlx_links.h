// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: handles that the program makes, in memory of its own, for any input or output: values that
// live across runs without --handle. Of models that are compiled with --api full.
//
// A handle has a name, which the calls of rlx_handles.h take (rlx_bind_handle, rlx_read_handle ...). Linked
// to an input, it gives every run that input, by any of the calls that run: the input is not given then.
// Linked to an output, it takes its value from every run that ends well. A value has the shape that it was
// bound or taken with, and is dense in it; a run whose input has another shape by then is RLX_ERR_SIZE. On a
// device values are in memory of the host; those of --handle stay on the device.
#ifndef RLX_LINKS_H
#define RLX_LINKS_H

#include "rlx_runs.h"

#ifdef __cplusplus
extern "C" {
#endif

// The handle that the program has made under that name, or NULL.
static inline rlx_handle *rlx_own_handle(const rlx_ctx *ctx, const char *name)
{
    const uint32_t n = ctx == NULL || name == NULL ? 0 : ctx->n_handles;
    rlx_handle *h = n == 0 ? NULL : ctx->handles;
    uint32_t i;
    for (i = 0; i < n; i++, h = h->next)
        if (strcmp(h->name, name) == 0)
            return h;
    return NULL;
}

static inline size_t rlx_own_bytes(const rlx_handle *h, const int64_t *shape)
{
    return rlx_dense_bytes(h->dtype, h->rank, shape);
}

// --- what runs do --------------------------------------------------------------------------------

// Has each handle that is linked to an input a value, of the input's shape? One that is under way will have
// the output's, as symbols stay until it has come.
static inline rlx_status rlx_check_links(const rlx_ctx *ctx)
{
    int64_t shape[RLX_MAX_RANK], own[RLX_MAX_RANK];
    const rlx_handle *h = ctx->handles;
    uint32_t i;
    for (i = 0; i < ctx->n_handles; i++, h = h->next) {
        if (h->input == RLX_NO_SLOT)
            continue;
        if (!h->has_value && !rlx_follows(ctx, h))
            return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, h->name, 0, 1);
        rlx_shape_now(ctx, 0, h->input, shape);
        memcpy(own, h->shape, sizeof own);
        if (rlx_follows(ctx, h))
            rlx_shape_now(ctx, 1, h->output, own);
        if (memcmp(shape, own, (size_t)h->rank * sizeof *shape) != 0)
            return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, h->name, rlx_own_bytes(h, shape),
                                 rlx_own_bytes(h, own));
    }
    return RLX_OK;
}

// What is under way the device copies itself. Once there are rows of an input, all has been given with the
// first one.
static inline rlx_status rlx_give_links(rlx_ctx *ctx)
{
    const rlx_handle *h = ctx->handles;
    rlx_status status;
    uint32_t i;
#if RLX_HAS_ROWS
    if (ctx->n_fed != 0)
        return RLX_OK;
#endif
    status = rlx_check_links(ctx);
    for (i = 0; i < ctx->n_handles && status == RLX_OK; i++, h = h->next)
        if (h->input != RLX_NO_SLOT && !rlx_follows(ctx, h) && rlx_own_bytes(h, h->shape) != 0)
            rlx_bring_input(ctx, h->input, h->data, rlx_own_bytes(h, h->shape));
    return status;
}

// The value that an output has after a run, in its shape.
static inline rlx_status rlx_take_output(const rlx_ctx *ctx, rlx_handle *h, uint32_t output)
{
    int64_t shape[RLX_MAX_RANK];
    rlx_status status = rlx_output_shape(ctx, output, shape);
    if (status == RLX_OK)
        status = rlx_copy_output(ctx, output, 0, h->data, rlx_own_bytes(h, shape));
    if (status != RLX_OK)
        return status;
    memcpy(h->shape, shape, sizeof shape);
    h->has_value = 1;
    return RLX_OK;
}

// A run that was limited to a set of outputs gives these alone.
static inline rlx_status rlx_take_links(rlx_ctx *ctx)
{
    const unsigned char *const has = ctx->outputs == 0 ? NULL : ctx->model->sets[ctx->outputs - 1u].has;
    rlx_handle *h = ctx->handles;
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = 0; i < ctx->n_handles && status == RLX_OK; i++, h = h->next)
        if (h->output != RLX_NO_SLOT && (has == NULL || h->output >= ctx->model->n_outputs || has[h->output]))
            status = rlx_take_output(ctx, h, h->output);
    return status;
}

// --- making and linking --------------------------------------------------------------------------

static inline const rlx_model *rlx_largest_variant(const rlx_model *m)
{
#if RLX_HAS_SYMBOLS
    if (m->buckets != NULL)
        return m->buckets->models[m->buckets->n - 1u];
#endif
    return m;
}

// The input or output `like` with the room that it has in the largest variant; *slot gets its slot.
static inline const rlx_tensor *rlx_find_like(const rlx_ctx *ctx, const char *like, int *is_output,
                                              uint32_t *slot)
{
    const rlx_model *const m = rlx_largest_variant(ctx->model);
    int at = rlx_find(m->inputs, m->n_inputs, like);
    *is_output = at < 0;
    if (at < 0)
        at = rlx_find_output(m, like, 0);
    *slot = at < 0 ? RLX_NO_SLOT : (uint32_t)at;
    return at < 0 ? NULL : *is_output ? rlx_output_tensor(m, *slot) : &m->inputs[at];
}

// Bytes that a handle for an input or output needs: those of its largest shape. 0: there is no such.
static inline size_t rlx_handle_room(const rlx_ctx *ctx, const char *like)
{
    int is_output;
    uint32_t slot;
    const rlx_tensor *t = NULL;
    if (ctx != NULL && ctx->model != NULL && like != NULL)
        t = rlx_find_like(ctx, like, &is_output, &slot);
    return t == NULL ? 0 : t->bytes;
}

// Is h, or any of the bytes, that of a handle that there is already?
static inline int rlx_is_taken(const rlx_ctx *ctx, const rlx_handle *h, const void *memory, size_t bytes)
{
    const rlx_handle *other = ctx->handles;
    uint32_t i;
    for (i = 0; i < ctx->n_handles; i++, other = other->next)
        if (other == h || rlx_overlap(other->data, other->room, memory, bytes))
            return 1;
    return 0;
}

// Makes a handle without a value, of the type and rank of the input or output `like` (an input, where both
// have the name). h, name and memory are the caller's, and stay where they are until rlx_drop_handle,
// rlx_close or another rlx_init; no other handle may use them. RLX_ERR_NAME: there is no such input or
// output, or a handle of that name already. RLX_ERR_SIZE: bytes is less than rlx_handle_room.
// RLX_ERR_OVERLAP: h is a handle already, or the memory overlaps that of another one or a block of the
// context. Clones do not have it.
static inline rlx_status rlx_make_handle(rlx_ctx *ctx, rlx_handle *h, const char *name, const char *like,
                                         void *memory, size_t bytes)
{
    static const rlx_links links = {rlx_give_links, rlx_take_links};
    const rlx_tensor *t;
    int is_output;
    uint32_t slot;
    if (ctx == NULL || ctx->model == NULL || h == NULL || name == NULL || like == NULL || memory == NULL)
        return rlx_fail_null(ctx);
    t = rlx_find_like(ctx, like, &is_output, &slot);
    if (t == NULL)
        return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_OUTPUT, like, 0, 0);
    if (rlx_own_handle(ctx, name) != NULL || rlx_find(ctx->model->states, ctx->model->n_states, name) >= 0 ||
        rlx_find(ctx->model->params, ctx->model->n_params, name) >= 0)
        return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_HANDLE, name, 1, 2);
    if (bytes < t->bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, name, t->bytes, bytes);
    if (rlx_uses(ctx, memory, bytes) || rlx_is_taken(ctx, h, memory, bytes))
        return rlx_fail(ctx, RLX_ERR_OVERLAP, RLX_ABOUT_HANDLE, name, 0, 0);
    memset(h, 0, sizeof *h);
    h->name = name;
    h->data = (unsigned char *)memory;
    h->room = bytes;
    h->dtype = t->dtype;
    h->rank = t->rank;
    h->is_output = is_output;
    h->like = slot;
    h->input = h->output = RLX_NO_SLOT;
    h->next = ctx->handles;
    ctx->handles = h;
    ctx->n_handles++;
    ctx->links = &links;
    return RLX_OK;
}

// Forgets a handle and its links. Its memory, which has its value still, is the caller's again.
static inline rlx_status rlx_drop_handle(rlx_ctx *ctx, const char *name)
{
    rlx_handle *const h = rlx_own_handle(ctx, name);
    rlx_handle **at;
    uint32_t i;
    if (ctx == NULL || ctx->model == NULL || name == NULL)
        return rlx_fail_null(ctx);
    if (h == NULL)
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, name, 0, 0);
    rlx_settle(ctx);
    at = &ctx->handles;
    for (i = 0; i < ctx->n_handles && *at != h; i++)
        at = &(*at)->next;
    *at = h->next;
    ctx->n_handles--;
    if (ctx->n_handles == 0)
        ctx->links = NULL;
    return RLX_OK;
}

// Can the value of a handle be that of a tensor? Of open sizes runs say, as they know them.
static inline rlx_status rlx_check_link(const rlx_ctx *ctx, const rlx_handle *h, const rlx_tensor *t)
{
    const rlx_model *const m = rlx_largest_variant(ctx->model);
    const rlx_tensor *const own = h->is_output ? rlx_output_tensor(m, h->like) : &m->inputs[h->like];
    const int is_fixed = m->symbols == NULL && m->output_sizes == NULL;
    if (t->dtype != h->dtype)
        return rlx_fail(ctx, RLX_ERR_DTYPE, RLX_ABOUT_HANDLE, h->name, (int64_t)t->dtype, (int64_t)h->dtype);
    if (t->rank != h->rank || (is_fixed && memcmp(t->shape, own->shape, sizeof t->shape) != 0))
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, h->name, t->bytes, own->bytes);
    return RLX_OK;
}

// The handle for a link, or why there is none.
static inline rlx_status rlx_find_link(rlx_ctx *ctx, const char *name, rlx_handle **h)
{
    if (ctx == NULL || ctx->model == NULL || name == NULL)
        return rlx_fail_null(ctx);
    *h = rlx_own_handle(ctx, name);
    if (*h == NULL)
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, name, 0, 0);
    rlx_settle(ctx);
    return RLX_OK;
}

// From now on runs take the input from the handle. A handle gives one input, and an input has one handle: the
// links of before end. RLX_ERR_HANDLE: rlx_make_handle has made no such handle. RLX_ERR_SLOT: there is no
// such input. RLX_ERR_DTYPE, RLX_ERR_SIZE: their types, their ranks or their shapes differ.
static inline rlx_status rlx_link_input(rlx_ctx *ctx, uint32_t input, const char *handle)
{
    rlx_handle *h = NULL, *other;
    uint32_t i;
    rlx_status status = rlx_find_link(ctx, handle, &h);
    if (status != RLX_OK)
        return status;
    other = ctx->handles;
    if (input >= ctx->model->n_inputs)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_INPUT, NULL, (int64_t)ctx->model->n_inputs,
                        (int64_t)input);
    status = rlx_check_link(ctx, h, &rlx_largest_variant(ctx->model)->inputs[input]);
    for (i = 0; i < ctx->n_handles && status == RLX_OK; i++, other = other->next)
        if (other->input == input)
            other->input = RLX_NO_SLOT;
    if (status == RLX_OK)
        h->input = input;
    return status;
}

// From now on the handle takes the value of the output at the end of every run that ends well (and of those
// that compute it: rlx_run_set). A handle takes one output, its link of before ends; several may take the
// same. RLX_ERR_SIZE also where the handle's memory has no room for the largest shape of the output.
static inline rlx_status rlx_link_output(rlx_ctx *ctx, uint32_t output, const char *handle)
{
    rlx_handle *h = NULL;
    const rlx_tensor *t;
    rlx_status status = rlx_find_link(ctx, handle, &h);
    if (status != RLX_OK)
        return status;
    t = rlx_output_tensor(rlx_largest_variant(ctx->model), output);
    if (t == NULL)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_OUTPUT, NULL,
                        (int64_t)ctx->model->n_outputs + (int64_t)ctx->model->n_held, (int64_t)output);
    status = rlx_check_link(ctx, h, t);
    if (status == RLX_OK && t->bytes > h->room)
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, h->name, t->bytes, h->room);
    if (status == RLX_OK)
        h->output = output;
    return status;
}

// Runs no longer take an input from the handle, or give it an output: the value stays. A handle that was not
// linked stays as it is.
static inline rlx_status rlx_unlink_input(rlx_ctx *ctx, const char *handle)
{
    rlx_handle *h = NULL;
    const rlx_status status = rlx_find_link(ctx, handle, &h);
    if (status == RLX_OK)
        h->input = RLX_NO_SLOT;
    return status;
}

static inline rlx_status rlx_unlink_output(rlx_ctx *ctx, const char *handle)
{
    rlx_handle *h = NULL;
    const rlx_status status = rlx_find_link(ctx, handle, &h);
    if (status == RLX_OK)
        h->output = RLX_NO_SLOT;
    return status;
}

// --- for the calls of rlx_handles.h --------------------------------------------------------------

// Gives it a value, in the shape that its input or output has by what the symbols are now.
static inline rlx_status rlx_bind_own(const rlx_ctx *ctx, rlx_handle *h, const void *data, size_t bytes)
{
    int64_t shape[RLX_MAX_RANK];
    rlx_settle(ctx);
    rlx_shape_now(ctx, h->is_output, h->like, shape);
    if (rlx_own_bytes(h, shape) != bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, h->name, rlx_own_bytes(h, shape), bytes);
    memcpy(h->shape, shape, sizeof shape);
    if (bytes != 0) // from its own memory, it may be
        memmove(h->data, data, bytes);
    h->has_value = 1;
    return RLX_OK;
}

static inline rlx_status rlx_read_own(const rlx_ctx *ctx, const rlx_handle *h, void *data, size_t bytes)
{
    rlx_settle(ctx);
    if (!h->has_value)
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, h->name, 0, 1);
    if (rlx_own_bytes(h, h->shape) != bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_HANDLE, h->name, rlx_own_bytes(h, h->shape), bytes);
    if (bytes != 0)
        memmove(data, h->data, bytes);
    return RLX_OK;
}

// The shape of the value of a handle that the program has made.
static inline rlx_status rlx_handle_shape(const rlx_ctx *ctx, const char *name, int64_t *shape)
{
    const rlx_handle *const h = rlx_own_handle(ctx, name);
    if (ctx == NULL || ctx->model == NULL || name == NULL || shape == NULL)
        return rlx_fail_null(ctx);
    if (h != NULL)
        rlx_settle(ctx);
    if (h == NULL || !h->has_value)
        return rlx_fail(ctx, RLX_ERR_HANDLE, RLX_ABOUT_HANDLE, name, 0, h != NULL);
    memcpy(shape, h->shape, sizeof h->shape);
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
