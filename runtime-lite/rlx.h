// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: the part of the generated code that is the same for every model. It is pasted into each
// generated header (or included once with --link-runtime): no allocation, no I/O, no globals, C99 and C++.
//
// A context (rlx_ctx) is a model plus three memory blocks: the arena (scratch of one run; inputs and outputs
// are in it), the state (what lives across runs: states and settable parameters) and the weights (read-only).
// Any number of contexts of a model may run at the same time. Every call returns an rlx_status; a call that
// fails has changed no output, state or parameter.
#ifndef RLX_RUNTIME_LITE_H
#define RLX_RUNTIME_LITE_H

#include "rlx_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a status means, in a few words.
static inline const char *rlx_status_text(rlx_status s)
{
    static const char *const text[RLX_STATUS_COUNT] = {"ok",
                                                       "null pointer",
                                                       "arena or state block too short",
                                                       "misaligned block",
                                                       "wrong weights",
                                                       "unknown name",
                                                       "slot out of range",
                                                       "wrong size",
                                                       "wrong element type",
                                                       "parameter never set",
                                                       "a condition of the model does not hold",
                                                       "the CPU or the system lacks what is used",
                                                       "number out of range",
                                                       "unknown symbol",
                                                       "no such handle, or never bound",
                                                       "no driver, or no device that can run the code",
                                                       "the device failed, or has too little memory"};
    return (unsigned)s < (unsigned)RLX_STATUS_COUNT ? text[s] : "unknown status";
}

static inline size_t rlx_dtype_bytes(rlx_dtype t)
{
    static const unsigned char bytes[13] = {4, 2, 2, 8, 8, 4, 2, 1, 8, 4, 2, 1, 1};
    return (unsigned)t < 13u ? bytes[t] : (unsigned)t <= (unsigned)RLX_U2 ? 1u : 0u;
}

// After the host has written to the state block, and before it reads a state there.
static inline rlx_status rlx_put_state(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    const rlx_device *d = ctx->model->device;
    return d == NULL ? RLX_OK : d->bring(ctx, d->state + offset, ctx->state + offset, bytes);
}

static inline rlx_status rlx_get_state(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    return ctx->model->device == NULL ? RLX_OK : ctx->model->device->get(ctx, offset, bytes);
}

// Back to the initial states; parameters keep their values.
static inline rlx_status rlx_reset(rlx_ctx *ctx)
{
    uint32_t i;
    rlx_status status = RLX_OK;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
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

static inline uint64_t rlx_hash_word(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

// The checksum of .rlxb files (docs/FORMAT.md).
static inline uint64_t rlx_hash(const void *bytes, uint64_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t h = rlx_hash_word(0, n), word, i, k;
    for (i = 0; i < n; i += 8u) {
        word = 0;
        for (k = 0; k < 8u; k++)
            word |= i + k < n ? (uint64_t)p[i + k] << (8u * k) : 0;
        h = rlx_hash_word(h, word);
    }
    h = rlx_hash_word(h, h >> 32);
    return h ^ (h >> 32);
}

// Are all weights that the model reads in a file (--weights inplace) those that it was compiled with? This
// reads all of them; rlx_init only compares the size and the header of the file.
static inline rlx_status rlx_check_weights(const rlx_model *model, const void *weights, size_t weight_bytes)
{
    uint32_t i;
    if (model == NULL || weights == NULL)
        return RLX_ERR_NULL;
    if (model->file == NULL || weight_bytes != model->weight_bytes)
        return RLX_ERR_WEIGHTS;
    for (i = 0; i < model->file->n_parts; i++) {
        const rlx_weight_part *p = &model->file->parts[i];
        if (rlx_hash((const unsigned char *)weights + p->offset, p->bytes) != p->hash)
            return RLX_ERR_WEIGHTS;
    }
    return RLX_OK;
}

// What the caller brings who brings the weights.
static inline size_t rlx_weight_bytes(const rlx_model *m)
{
    return m->fallback == NULL ? m->weight_bytes : m->fallback_weights + m->fallback->weight_bytes;
}

// Binds a context to its blocks. state may be NULL when the model has no state; weights NULL = those in the
// program. A context on a device ends with rlx_close.
static inline rlx_status rlx_init(rlx_ctx *ctx, const rlx_model *model, void *arena, size_t arena_bytes,
                                  void *state, size_t state_bytes, const void *weights, size_t weight_bytes)
{
    const unsigned char *own;
    uint32_t i;
    size_t state_size;
    rlx_status status;
    if (ctx == NULL || model == NULL || (arena == NULL && model->arena_bytes != 0) ||
        (state == NULL && model->state_bytes != 0))
        return RLX_ERR_NULL;
    if (arena_bytes < model->arena_bytes || state_bytes < model->state_bytes)
        return RLX_ERR_ARENA;
    if ((uintptr_t)arena % RLX_ALIGNMENT != 0 || (uintptr_t)state % RLX_ALIGNMENT != 0 ||
        (uintptr_t)weights % RLX_ALIGNMENT != 0)
        return RLX_ERR_ALIGNMENT;
    if (weights != NULL ? weight_bytes != rlx_weight_bytes(model)
                        : (model->weights == NULL && rlx_weight_bytes(model) != 0))
        return RLX_ERR_WEIGHTS;
    if (model->file != NULL && rlx_hash(weights, model->file->header) != model->file->hash)
        return RLX_ERR_WEIGHTS;
    own = (const unsigned char *)(weights != NULL ? weights : model->weights);
    if (model->device != NULL) {
        status = model->device->open(model, (unsigned char *)arena,
                                     (unsigned char *)state + model->device->record, own);
        if (status == RLX_ERR_NO_DEVICE && model->fallback != NULL) {
            own = weights != NULL ? own + model->fallback_weights
                                  : (const unsigned char *)model->fallback->weights;
            model = model->fallback;
        } else if (status != RLX_OK) {
            return status;
        }
    }
    state_size = model->device != NULL ? model->device->record : model->state_bytes;
    ctx->model = model->buckets != NULL ? model->buckets->first : model;
    ctx->arena = (unsigned char *)arena;
    ctx->state = (unsigned char *)state;
    ctx->pool = NULL;
    ctx->outputs = 0;
    ctx->pending = RLX_OK;
    ctx->profile = NULL;
    ctx->device_ns = NULL;
    ctx->parallel_for = NULL;
    ctx->parallel_user = NULL;
    ctx->parallel_parts = 0;
    ctx->pinned = 0;
    ctx->is_allowed = 0;
    ctx->weights = own;
    if (state_size != 0) {
        memset(ctx->state, 0, state_size);
        if (model->state_init != NULL)
            memcpy(ctx->state, model->state_init, model->flags_offset);
        if (model->n_params != 0)
            memcpy(ctx->state + model->flags_offset, model->param_has_init, model->n_params);
    }
    for (i = 0; model->symbols != NULL && i < model->symbols->n; i++)
        memcpy(ctx->state + model->symbols->offset + i * sizeof(int64_t), &model->symbols->list[i].first,
               sizeof(int64_t));
    return rlx_put_state(ctx, 0, state_size);
}

// Ends a context: gives back what it has on a device. Its blocks stay the caller's.
static inline rlx_status rlx_close(rlx_ctx *ctx)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (ctx->model->device != NULL)
        ctx->model->device->close(ctx);
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

// The same, and quick where the name is that of slot `guess`: lists of names mostly come in the model's
// order.
static inline int rlx_find_at(const rlx_tensor *list, uint32_t n, const char *name, uint32_t guess)
{
    if (name != NULL && guess < n && strcmp(list[guess].name, name) == 0)
        return (int)guess;
    return rlx_find(list, n, name);
}

// Where an input is written before a run / an output is read after it. NULL when the slot is out of range.
// Inputs are consumed by a run: their memory is reused. An output is valid until the next run.
static inline void *rlx_input(const rlx_ctx *ctx, uint32_t slot)
{
    return ctx != NULL && slot < ctx->model->n_inputs ? ctx->arena + ctx->model->inputs[slot].offset : NULL;
}

static inline const void *rlx_output(const rlx_ctx *ctx, uint32_t slot)
{
    return ctx != NULL && slot < ctx->model->n_outputs ? ctx->arena + ctx->model->outputs[slot].offset : NULL;
}

// The shape of an input or output by what the symbols are now; without symbols, that of its rlx_tensor.
static inline void rlx_shape_now(const rlx_ctx *ctx, int is_output, uint32_t slot, int64_t *shape)
{
    const rlx_model *m = ctx->model;
    memcpy(shape, (is_output ? m->outputs : m->inputs)[slot].shape, RLX_MAX_RANK * sizeof *shape);
    if (m->symbols != NULL)
        m->symbols->shape(ctx, is_output, slot, shape);
}

static inline size_t rlx_shape_bytes(const rlx_tensor *t, const int64_t *shape)
{
    size_t bytes = rlx_dtype_bytes(t->dtype);
    int i;
    for (i = 0; i < t->rank; i++)
        bytes *= (size_t)shape[i];
    return bytes;
}

// The shape in which a run takes an input, and its bytes. 0 bytes also where the slot is out of range.
static inline rlx_status rlx_input_shape(const rlx_ctx *ctx, uint32_t slot, int64_t *shape)
{
    if (ctx == NULL || ctx->model == NULL || shape == NULL)
        return RLX_ERR_NULL;
    if (slot >= ctx->model->n_inputs)
        return RLX_ERR_SLOT;
    rlx_shape_now(ctx, 0, slot, shape);
    return RLX_OK;
}

static inline size_t rlx_input_bytes(const rlx_ctx *ctx, uint32_t slot)
{
    int64_t shape[RLX_MAX_RANK];
    if (ctx != NULL && ctx->model != NULL && ctx->model->symbols == NULL && slot < ctx->model->n_inputs)
        return ctx->model->inputs[slot].bytes;
    return rlx_input_shape(ctx, slot, shape) == RLX_OK ? rlx_shape_bytes(&ctx->model->inputs[slot], shape)
                                                       : 0;
}

// The bytes that an output can have in the next run: what its shape has by the symbols, and of sizes that the
// model computes the largest.
static inline size_t rlx_output_room(const rlx_ctx *ctx, uint32_t slot)
{
    int64_t shape[RLX_MAX_RANK];
    if (ctx == NULL || ctx->model == NULL || slot >= ctx->model->n_outputs)
        return 0;
    if (ctx->model->symbols == NULL)
        return ctx->model->outputs[slot].bytes;
    rlx_shape_now(ctx, 1, slot, shape);
    return rlx_shape_bytes(&ctx->model->outputs[slot], shape);
}

// The shape that an output has after a run, in which its elements are dense. That of its rlx_tensor has room
// for the largest; only the sizes of some models depend on symbols, or on the values that they compute.
static inline rlx_status rlx_output_shape(const rlx_ctx *ctx, uint32_t slot, int64_t *shape)
{
    const rlx_tensor *t;
    if (ctx == NULL || ctx->model == NULL || shape == NULL)
        return RLX_ERR_NULL;
    if (slot >= ctx->model->n_outputs)
        return RLX_ERR_SLOT;
    t = &ctx->model->outputs[slot];
    rlx_shape_now(ctx, 1, slot, shape);
    if (ctx->model->output_sizes != NULL && ctx->model->output_sizes[slot] != (size_t)-1)
        memcpy(shape, ctx->arena + ctx->model->output_sizes[slot], (size_t)t->rank * sizeof *shape);
    return RLX_OK;
}

// The bytes of that shape.
static inline size_t rlx_output_bytes(const rlx_ctx *ctx, uint32_t slot)
{
    int64_t shape[RLX_MAX_RANK];
    if (ctx != NULL && ctx->model != NULL && ctx->model->symbols == NULL && slot < ctx->model->n_outputs &&
        (ctx->model->output_sizes == NULL || ctx->model->output_sizes[slot] == (size_t)-1))
        return ctx->model->outputs[slot].bytes;
    if (rlx_output_shape(ctx, slot, shape) != RLX_OK)
        return 0;
    return rlx_shape_bytes(&ctx->model->outputs[slot], shape);
}

// The first parameter that has no value yet, or NULL.
static inline const char *rlx_missing_param(const rlx_ctx *ctx)
{
    const unsigned char *flags;
    uint64_t eight;
    uint32_t i = 0;
    if (ctx == NULL || ctx->model == NULL || ctx->model->n_params == 0)
        return NULL;
    flags = ctx->state + ctx->model->flags_offset;
    for (; i + 8u <= ctx->model->n_params; i += 8u) { // is a byte of the eight 0?
        memcpy(&eight, flags + i, sizeof eight);
        if (((eight - UINT64_C(0x0101010101010101)) & ~eight & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    for (; i < ctx->model->n_params; i++)
        if (flags[i] == 0)
            return ctx->model->params[i].name;
    return NULL;
}

// Right after a run that gave RLX_ERR_VALUE: the message of the first condition that does not hold. (The
// generated code asks this once it has computed them, before it writes any state.)
static inline const char *rlx_failed_check(const rlx_ctx *ctx)
{
    uint32_t i;
    for (i = 0; ctx != NULL && ctx->model != NULL && i < ctx->model->n_checks; i++) {
        const rlx_check *c = &ctx->model->checks[i];
        if ((c->in_state ? ctx->state : ctx->arena)[c->offset] == 0)
            return c->message;
    }
    return NULL;
}

// Runs on what is in the input slots. Where it fails, it has changed no state.
static inline rlx_status rlx_run(rlx_ctx *ctx)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (rlx_missing_param(ctx) != NULL)
        return RLX_ERR_PARAM;
    return ctx->model->dispatch(ctx);
}

// By slot: inputs[i] has the bytes of input i, in memory of the caller that does not overlap the context's
// blocks (so for all calls that copy inputs or outputs). slots (may be NULL) gets the place of every output.
static inline rlx_status rlx_run_slots(rlx_ctx *ctx, const void *const *inputs, rlx_slot *slots)
{
    const rlx_model *m;
    unsigned char *arena;
    uint32_t i;
    rlx_status status;
    if (ctx == NULL || ctx->model == NULL || (inputs == NULL && ctx->model->n_inputs != 0))
        return RLX_ERR_NULL;
    m = ctx->model;
    arena = ctx->arena;
    for (i = 0; i < m->n_inputs; i++)
        if (inputs[i] == NULL)
            return RLX_ERR_NULL;
    if (rlx_missing_param(ctx) != NULL)
        return RLX_ERR_PARAM;
    for (i = 0; i < m->n_inputs; i++) {
        const rlx_tensor *t = &m->inputs[i];
        memcpy(arena + t->offset, inputs[i], m->symbols == NULL ? t->bytes : rlx_input_bytes(ctx, i));
    }
    status = m->dispatch(ctx);
    for (i = 0; slots != NULL && i < m->n_outputs; i++) {
        slots[i].offset = m->outputs[i].offset;
        slots[i].bytes = rlx_output_bytes(ctx, i);
    }
    return status;
}

typedef struct rlx_named {
    const char *name;
    const void *data;
    size_t bytes;
} rlx_named;

typedef struct rlx_named_out {
    const char *name;
    void *data;
    size_t bytes;
} rlx_named_out;

// By name: every input exactly once; any of the outputs. All names and sizes are checked before anything is
// written.
static inline rlx_status rlx_run_named(rlx_ctx *ctx, const rlx_named *inputs, uint32_t n_inputs,
                                       const rlx_named_out *outputs, uint32_t n_outputs)
{
    uint32_t i, j;
    int slot, in_order = 1;
    rlx_status status;
    const rlx_model *m;
    if (ctx == NULL || ctx->model == NULL || (inputs == NULL && n_inputs != 0) ||
        (outputs == NULL && n_outputs != 0))
        return RLX_ERR_NULL;
    m = ctx->model;
    if (n_inputs != m->n_inputs)
        return RLX_ERR_NAME;
    for (i = 0; i < n_inputs; i++) {
        slot = rlx_find_at(m->inputs, m->n_inputs, inputs[i].name, i);
        if (slot < 0)
            return RLX_ERR_NAME;
        in_order = in_order && slot == (int)i; // then no name came before
        for (j = 0; j < i && !in_order; j++)
            if (strcmp(inputs[i].name, inputs[j].name) == 0)
                return RLX_ERR_NAME;
        if (inputs[i].data == NULL)
            return RLX_ERR_NULL;
        if (inputs[i].bytes != rlx_input_bytes(ctx, (uint32_t)slot))
            return RLX_ERR_SIZE;
    }
    for (i = 0; i < n_outputs; i++) {
        slot = rlx_find_at(m->outputs, m->n_outputs, outputs[i].name, i);
        if (slot < 0)
            return RLX_ERR_NAME;
        if (outputs[i].data == NULL)
            return RLX_ERR_NULL;
        if (outputs[i].bytes != rlx_output_room(ctx, (uint32_t)slot))
            return RLX_ERR_SIZE;
    }
    if (rlx_missing_param(ctx) != NULL)
        return RLX_ERR_PARAM;
    for (i = 0; i < n_inputs; i++) {
        slot = rlx_find_at(m->inputs, m->n_inputs, inputs[i].name, i);
        memcpy(ctx->arena + m->inputs[slot].offset, inputs[i].data, inputs[i].bytes);
    }
    status = m->dispatch(ctx);
    for (i = 0; i < n_outputs && status == RLX_OK; i++) {
        slot = rlx_find_at(m->outputs, m->n_outputs, outputs[i].name, i);
        memcpy(outputs[i].data, ctx->arena + m->outputs[slot].offset, outputs[i].bytes);
    }
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
