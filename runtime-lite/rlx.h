// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: the part of the generated code that is the same for every model. It is in the
// NAME_rlx.h of each (or included once with --link-runtime): no allocation, no I/O, no globals, C99 and C++.
//
// A context (rlx_ctx) is a model plus three memory blocks: the arena (scratch of one run; inputs and outputs
// are in it), the state (what lives across runs: states and settable parameters) and the weights (read-only).
// Any number of contexts of a model may run at the same time. Every call returns an rlx_status; a call that
// fails has changed no output, state or parameter.
#ifndef RLX_RUNTIME_LITE_H
#define RLX_RUNTIME_LITE_H

#include "rlx_weights.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a status means, in a few words.
static inline const char *rlx_status_text(rlx_status s)
{
    static const char *const text[RLX_STATUS_COUNT] = {
        "ok", "null pointer", "arena or state block too short", "misaligned block", "wrong weights",
        "unknown name", "slot out of range", "wrong size", "wrong element type", "parameter never set",
        "a condition of the model does not hold", "the CPU or the system lacks what is used",
        "number out of range", "unknown symbol", "no such handle, or never bound",
        "no driver, or no device that can run the code", "the device failed, or has too little memory",
        "an input is missing, or was consumed by a run", "nothing has run yet",
        "blocks overlap others that are in use", "the model was compiled without this"};
    return (unsigned)s < (unsigned)RLX_STATUS_COUNT ? text[s] : "unknown status";
}

// What a call that fails is about goes to e, unless that is NULL. Returns the status.
static inline rlx_status rlx_tell(rlx_error *e, rlx_status status, rlx_subject about, const char *name,
                                  int64_t expected, int64_t found)
{
    size_t i = 0;
    if (e == NULL)
        return status;
    for (; name != NULL && name[i] != '\0' && i + 1u < sizeof e->name; i++)
        e->name[i] = name[i];
    e->name[i] = '\0';
    e->status = status;
    e->about = about;
    e->expected = expected;
    e->found = found;
    e->message = NULL;
    return status;
}

// Calls that fail return this: the status, and what it is about where the program wants to know.
static inline rlx_status rlx_fail(const rlx_ctx *ctx, rlx_status status, rlx_subject about, const char *name,
                                  int64_t expected, int64_t found)
{
    return rlx_tell(ctx->error, status, about, name, expected, found);
}

// A pointer is missing: of the call, or the context itself.
static inline rlx_status rlx_fail_null(const rlx_ctx *ctx)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_CALL, NULL, 0, 0);
}

// As many bytes (or elements) are expected, and others were given.
static inline rlx_status rlx_fail_size(const rlx_ctx *ctx, rlx_subject about, const char *name,
                                       size_t expected, size_t found)
{
    return rlx_fail(ctx, RLX_ERR_SIZE, about, name, (int64_t)expected, (int64_t)found);
}

static inline size_t rlx_dtype_bytes(rlx_dtype t)
{
    static const unsigned char bytes[13] = {4, 2, 2, 8, 8, 4, 2, 1, 8, 4, 2, 1, 1};
    return (unsigned)t < 13u ? bytes[t] : (unsigned)t <= (unsigned)RLX_U2 ? 1u : 0u;
}

// After the host has written to the state block, and before it reads a state there.
static inline rlx_status rlx_put_state(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
#if RLX_HAS_DEVICE
    const rlx_device *d = ctx->model->device;
    const rlx_status status =
        d == NULL ? RLX_OK : d->bring(ctx, d->state + offset, ctx->state + offset, bytes);
    return status == RLX_OK ? status : rlx_fail(ctx, status, RLX_ABOUT_CALL, NULL, 0, 0);
#else
    (void)ctx, (void)offset, (void)bytes;
    return RLX_OK;
#endif
}

static inline rlx_status rlx_get_state(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
#if RLX_HAS_DEVICE
    const rlx_device *d = ctx->model->device;
    const rlx_status status = d == NULL ? RLX_OK : d->get(ctx, offset, bytes);
    return status == RLX_OK ? status : rlx_fail(ctx, status, RLX_ABOUT_CALL, NULL, 0, 0);
#else
    (void)ctx, (void)offset, (void)bytes;
    return RLX_OK;
#endif
}

// The host's own copy of pieces, where it sees both blocks.
static inline void rlx_copy_pieces(unsigned char *state, const unsigned char *arena, const rlx_pieces *p)
{
    size_t row, layer;
    for (layer = 0; layer < p->n_layers; layer++)
        for (row = 0; row < p->n_rows; row++)
            memcpy(state + p->to + layer * p->layer + row * p->row,
                   arena + p->from + (layer * p->n_rows + row) * p->bytes, p->bytes);
}

// Have n bytes at a and m bytes at b a byte in common?
static inline int rlx_overlap(const void *a, size_t n, const void *b, size_t m)
{
    const uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return n != 0 && m != 0 && (p < q ? q - p < n : p - q < m);
}

// What a new context has in its state block.
static inline void rlx_fill_state(const rlx_ctx *ctx, size_t bytes)
{
    const rlx_model *const model = ctx->model;
#if RLX_HAS_SYMBOLS
    uint32_t i;
#endif
    if (bytes == 0)
        return;
    memset(ctx->state, 0, bytes);
    if (model->state_init != NULL)
        memcpy(ctx->state, model->state_init, model->flags_offset);
#if RLX_HAS_PARAMS
    if (model->n_params != 0)
        memcpy(ctx->state + model->flags_offset, model->param_has_init, model->n_params);
#endif
#if RLX_HAS_SYMBOLS
    for (i = 0; model->symbols != NULL && i < model->symbols->n; i++)
        memcpy(ctx->state + model->symbols->offset + i * sizeof(int64_t), &model->symbols->list[i].first,
               sizeof(int64_t));
#endif
}

#if RLX_HAS_FILES
// Are all weights of this compile? Their seals say so, or all of their bytes.
static inline int rlx_has_own_weights(const rlx_model *m, const void *weights, size_t bytes)
{
#ifdef RLX_CHECK_WEIGHTS
    if (rlx_check_weights(m, weights, bytes) != RLX_OK)
        return 0;
#endif
    (void)bytes;
    return (m->file == NULL || rlx_hash(weights, m->file->header) == m->file->hash) &&
           rlx_is_own(m, (const unsigned char *)weights, 0);
}
#endif

#if RLX_HAS_ERRORS
// What rlx_init can say before it asks for a device; e (may be NULL) gets what is wrong.
static inline rlx_status rlx_check_blocks(const rlx_model *m, const void *arena, size_t arena_bytes,
                                          const void *state, size_t state_bytes, const void *weights,
                                          rlx_error *e)
{
    if (arena == NULL && m->arena_bytes != 0)
        return rlx_tell(e, RLX_ERR_NULL, RLX_ABOUT_ARENA, NULL, 0, 0);
    if (state == NULL && m->state_bytes != 0)
        return rlx_tell(e, RLX_ERR_NULL, RLX_ABOUT_BLOCK, NULL, 0, 0);
    if (arena_bytes < m->arena_bytes)
        return rlx_tell(e, RLX_ERR_ARENA, RLX_ABOUT_ARENA, NULL, (int64_t)m->arena_bytes,
                        (int64_t)arena_bytes);
    if (state_bytes < m->state_bytes)
        return rlx_tell(e, RLX_ERR_ARENA, RLX_ABOUT_BLOCK, NULL, (int64_t)m->state_bytes,
                        (int64_t)state_bytes);
    if ((uintptr_t)arena % RLX_ALIGNMENT != 0)
        return rlx_tell(e, RLX_ERR_ALIGNMENT, RLX_ABOUT_ARENA, NULL, 0, 0);
    if ((uintptr_t)state % RLX_ALIGNMENT != 0)
        return rlx_tell(e, RLX_ERR_ALIGNMENT, RLX_ABOUT_BLOCK, NULL, 0, 0);
    if ((uintptr_t)weights % RLX_ALIGNMENT != 0)
        return rlx_tell(e, RLX_ERR_ALIGNMENT, RLX_ABOUT_WEIGHTS, NULL, 0, 0);
    if (rlx_overlap(arena, m->arena_bytes, state, m->state_bytes))
        return rlx_tell(e, RLX_ERR_OVERLAP, RLX_ABOUT_BLOCK, NULL, 0, 0);
    return RLX_OK;
}

static inline rlx_status rlx_check_init(const rlx_model *m, const void *arena, size_t arena_bytes,
                                        const void *state, size_t state_bytes, const void *weights,
                                        size_t weight_bytes, rlx_error *e)
{
    rlx_status status;
    size_t expected;
    if (m == NULL)
        return rlx_tell(e, RLX_ERR_NULL, RLX_ABOUT_CALL, NULL, 0, 0);
    status = rlx_check_blocks(m, arena, arena_bytes, state, state_bytes, weights, e);
    if (status != RLX_OK)
        return status;
    expected = rlx_weight_bytes(m);
    if (weights != NULL ? weight_bytes != expected : m->weights == NULL && expected != 0)
        return rlx_tell(e, RLX_ERR_WEIGHTS, RLX_ABOUT_WEIGHTS, NULL, (int64_t)expected,
                        weights != NULL ? (int64_t)weight_bytes : 0);
    if (!rlx_has_own_weights(m, weights, weight_bytes))
        return rlx_tell(e, RLX_ERR_WEIGHTS, RLX_ABOUT_WEIGHTS, NULL, 0, 0);
    return RLX_OK;
}
#endif

#if RLX_HAS_DEVICE
// Opens the device. RLX_ERR_NO_DEVICE: the fallback, if there is one, takes its place; so it does for the
// number after those of the devices.
static inline rlx_status rlx_open_device(const rlx_model *model, uint32_t ordinal, void *arena, void *state,
                                         const void *weights)
{
    uint32_t n = 0;
    rlx_status status;
    if (model->device == NULL)
        return ordinal == 0 || ordinal == RLX_ANY_DEVICE ? RLX_OK : RLX_ERR_RANGE;
    if (ordinal != RLX_ANY_DEVICE) {
        model->device->list(model, NULL, 0, &n);
        if (ordinal == n && model->fallback != NULL)
            return RLX_ERR_NO_DEVICE;
        if (ordinal >= n)
            return RLX_ERR_RANGE;
    }
    status = model->device->open(model, (unsigned char *)arena,
                                 (unsigned char *)state + model->device->record, weights,
                                 ordinal == RLX_ANY_DEVICE ? 0 : ordinal);
    return status == RLX_ERR_NO_DEVICE && ordinal != RLX_ANY_DEVICE && model->fallback != NULL
               ? RLX_ERR_DEVICE // what was asked for by its number is not taken elsewhere
               : status;
}

// The same for the model or, where no device can run it, for what takes its place: *model and *weights are
// then those of that.
static inline rlx_status rlx_open_side(const rlx_model **model, uint32_t *ordinal, void *arena, void *state,
                                       const unsigned char **weights)
{
    const rlx_model *const m = *model;
    const int is_given = *weights != NULL;
    rlx_status status;
    if (!is_given)
        *weights = (const unsigned char *)m->weights;
    status = rlx_open_device(m, *ordinal, arena, state, *weights);
    if (status != RLX_ERR_NO_DEVICE || m->fallback == NULL)
        return status;
    *model = m->fallback;
    *weights = is_given ? *weights + m->fallback_weights : (const unsigned char *)m->fallback->weights;
    *ordinal = RLX_ANY_DEVICE;
    return RLX_OK;
}

// The bytes of the state block that the host and the device both have.
static inline size_t rlx_shared_state(const rlx_model *m)
{
    return m->device != NULL ? m->device->record : m->state_bytes;
}
#endif

// Binds a context to its blocks (state: NULL if there is none; weights: NULL for those in the program).
// RLX_ERR_WEIGHTS: they have another size or another seal than those that the model was compiled with, or a
// file that the program has taken in is of another compile. A context on a device ends with rlx_close.
// rlx_init_text says in a sentence what is wrong.
#if RLX_HAS_DEVICE
static inline rlx_status rlx_bind(rlx_ctx *ctx, const rlx_model *model, uint32_t ordinal, void *arena,
                                  size_t arena_bytes, void *state, size_t state_bytes, const void *weights,
                                  size_t weight_bytes)
#else
static inline rlx_status rlx_init(rlx_ctx *ctx, const rlx_model *model, void *arena, size_t arena_bytes,
                                  void *state, size_t state_bytes, const void *weights, size_t weight_bytes)
#endif
{
#if RLX_HAS_DEVICE
    const unsigned char *own = (const unsigned char *)weights;
    rlx_status status;
    if (ctx == NULL)
        return RLX_ERR_NULL;
    status = rlx_check_init(model, arena, arena_bytes, state, state_bytes, weights, weight_bytes, NULL);
    if (status != RLX_OK)
        return status;
    status = rlx_open_side(&model, &ordinal, arena, state, &own);
    if (status != RLX_OK)
        return status;
    memset(ctx, 0, sizeof *ctx);
    ctx->ordinal = ordinal;
    ctx->weights = own;
#else
    if (ctx == NULL || model == NULL || (arena == NULL && model->arena_bytes != 0) ||
        (state == NULL && model->state_bytes != 0))
        return RLX_ERR_NULL;
    if (arena_bytes < model->arena_bytes || state_bytes < model->state_bytes)
        return RLX_ERR_ARENA;
    if (((uintptr_t)arena | (uintptr_t)state | (uintptr_t)weights) % RLX_ALIGNMENT != 0)
        return RLX_ERR_ALIGNMENT;
#if RLX_HAS_STATE
    if (rlx_overlap(arena, model->arena_bytes, state, model->state_bytes))
        return RLX_ERR_OVERLAP;
#endif
    if (weights != NULL ? weight_bytes != model->weight_bytes
                        : model->weights == NULL && model->weight_bytes != 0)
        return RLX_ERR_WEIGHTS;
#if RLX_HAS_FILES
    if (!rlx_has_own_weights(model, weights, weight_bytes))
        return RLX_ERR_WEIGHTS;
#endif
    memset(ctx, 0, sizeof *ctx);
    ctx->weights = (const unsigned char *)(weights != NULL ? weights : model->weights);
#endif
    ctx->arena = (unsigned char *)arena;
    ctx->state = (unsigned char *)state;
#if RLX_HAS_SYMBOLS
    ctx->model = model->buckets != NULL ? model->buckets->first : model;
#else
    ctx->model = model;
#endif
#if RLX_HAS_DEVICE
    rlx_fill_state(ctx, rlx_shared_state(model));
    return rlx_put_state(ctx, 0, rlx_shared_state(model));
#else
#if RLX_HAS_STATE
    rlx_fill_state(ctx, model->state_bytes);
#endif
    return RLX_OK;
#endif
}

#if RLX_HAS_DEVICE
static inline rlx_status rlx_init(rlx_ctx *ctx, const rlx_model *model, void *arena, size_t arena_bytes,
                                  void *state, size_t state_bytes, const void *weights, size_t weight_bytes)
{
    return rlx_bind(ctx, model, RLX_ANY_DEVICE, arena, arena_bytes, state, state_bytes, weights,
                    weight_bytes);
}
#endif

// Ends a context, and gives back what it has on a device. That comes after what was committed, whose outputs
// handles of the program take. Its blocks, and the memory of these handles, stay the caller's.
static inline rlx_status rlx_close(rlx_ctx *ctx)
{
#if RLX_HAS_DEVICE
    const rlx_device *d;
#endif
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
#if RLX_HAS_DEVICE
    d = ctx->model->device;
    if (d != NULL && ctx->is_under_way != 0 && ctx->links != NULL &&
        d->wait(ctx, RLX_WAIT_OUTPUTS, NULL) == RLX_OK)
        (void)ctx->links->take(ctx);
    if (d != NULL)
        d->close(ctx);
#endif
#if RLX_HAS_QUEUE
    ctx->handles = NULL;
    ctx->n_handles = 0;
    ctx->links = NULL;
    ctx->is_under_way = 0;
    ctx->committed = 0;
#endif
    ctx->model = NULL;
    return RLX_OK;
}

// Slot of a name in a list of n tensors, or -1.
static inline int rlx_find(const rlx_tensor *list, uint32_t n, const char *name)
{
    uint32_t i;
    for (i = 0; name != NULL && i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return (int)i;
    return -1;
}

// The same, and quick where the name is that of slot `guess`. Lists of names mostly come in the model's
// order.
static inline int rlx_find_at(const rlx_tensor *list, uint32_t n, const char *name, uint32_t guess)
{
    if (name != NULL && guess < n && strcmp(list[guess].name, name) == 0)
        return (int)guess;
    return rlx_find(list, n, name);
}

// Where an input is written before a run / an output is read after it. NULL when the slot is out of range. An
// input that comes row by row (rlx_feed_rows) has no place, and while its rows come, others have none either.
// Inputs are consumed by a run: their memory is reused, so all of them are written before the next one. An
// output is valid until the next run.
static inline void *rlx_input(const rlx_ctx *ctx, uint32_t slot)
{
    if (ctx == NULL || ctx->model == NULL || slot >= ctx->model->n_inputs)
        return NULL;
#if RLX_HAS_ROWS
    if (ctx->model->rows != NULL && (ctx->n_fed != 0 || ctx->model->rows->input == slot))
        return NULL;
#endif
    if ((ctx->inputs & (RLX_INPUTS_HELD | RLX_INPUTS_CONSUMED)) != RLX_INPUTS_HELD)
#if RLX_HAS_QUEUE
        ((rlx_ctx *)(uintptr_t)ctx)->inputs = (ctx->inputs & RLX_INPUTS_STRICT) | RLX_INPUTS_HELD;
#else
        ((rlx_ctx *)(uintptr_t)ctx)->inputs = RLX_INPUTS_HELD;
#endif
    return ctx->arena + ctx->model->inputs[slot].offset;
}

static inline const void *rlx_output(const rlx_ctx *ctx, uint32_t slot)
{
    return ctx != NULL && ctx->model != NULL && slot < ctx->model->n_outputs
               ? ctx->arena + ctx->model->outputs[slot].offset
               : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
