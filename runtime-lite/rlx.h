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
                                                       "the device failed, or has too little memory",
                                                       "an input is missing, or was consumed by a run",
                                                       "nothing has run yet",
                                                       "blocks overlap others that are in use",
                                                       "the model was compiled without this"};
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
    const rlx_device *d = ctx->model->device;
    const rlx_status status =
        d == NULL ? RLX_OK : d->bring(ctx, d->state + offset, ctx->state + offset, bytes);
    return status == RLX_OK ? status : rlx_fail(ctx, status, RLX_ABOUT_CALL, NULL, 0, 0);
}

static inline rlx_status rlx_get_state(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    const rlx_device *d = ctx->model->device;
    const rlx_status status = d == NULL ? RLX_OK : d->get(ctx, offset, bytes);
    return status == RLX_OK ? status : rlx_fail(ctx, status, RLX_ABOUT_CALL, NULL, 0, 0);
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

// The checksum of weights and of .rlxb files (docs/FORMAT.md), seed 0.
static inline uint64_t rlx_hash(const void *bytes, uint64_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t h = rlx_hash_word(0, n), word, i;
    for (i = 0; i < n / 8u; i++) {
        memcpy(&word, p + 8u * i, sizeof word);
        h = rlx_hash_word(h, word);
    }
    if (n % 8u != 0) {
        word = 0;
        memcpy(&word, p + n / 8u * 8u, (size_t)(n % 8u));
        h = rlx_hash_word(h, word);
    }
    h = rlx_hash_word(h, h >> 32);
    return h ^ (h >> 32);
}

// Have n bytes at a and m bytes at b a byte in common?
static inline int rlx_overlap(const void *a, size_t n, const void *b, size_t m)
{
    const uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return n != 0 && m != 0 && (p < q ? q - p < n : p - q < m);
}

// What the caller brings who brings the weights.
static inline size_t rlx_weight_bytes(const rlx_model *m)
{
    return m->fallback == NULL ? m->weight_bytes : m->fallback_weights + m->fallback->weight_bytes;
}

static inline int rlx_is_seal(const void *seal, uint64_t hash)
{
    return memcmp(seal, &hash, RLX_SEAL_BYTES) == 0;
}

// Are files in the program, and the weights that the caller brings (NULL: none), of this compile? Compares
// seals only. is_whole: all of their bytes as well.
static inline int rlx_is_own_block(const rlx_model *m, const unsigned char *weights, int is_whole)
{
    const size_t bytes = m->weight_bytes - m->weights_seal;
    uint32_t i;
    for (i = 0; i < m->n_taken; i++) {
        const rlx_taken *t = &m->taken[i];
        if (!rlx_is_seal((const unsigned char *)t->data + t->bytes, t->hash) ||
            (is_whole && rlx_hash(t->data, t->bytes) != t->hash))
            return 0;
    }
    if (weights == NULL || m->file != NULL || bytes == 0)
        return 1;
    return (m->weights_seal == 0 || rlx_is_seal(weights + bytes, m->weights_hash)) &&
           (!is_whole || rlx_hash(weights, bytes) == m->weights_hash);
}

static inline int rlx_is_own(const rlx_model *m, const unsigned char *weights, int is_whole)
{
    return rlx_is_own_block(m, weights, is_whole) &&
           (m->fallback == NULL ||
            rlx_is_own_block(m->fallback, weights != NULL ? weights + m->fallback_weights : NULL, is_whole));
}

// Are all weights those that the model was compiled with? NULL and 0 bytes: those in the program, else what
// rlx_init is given. This reads all of them, and the other files that are in the program (initial states,
// code of a GPU); rlx_init compares sizes and seals only, or all of it where the program is compiled with
// RLX_CHECK_WEIGHTS defined. The file of experts: rlx_check_moe_source.
static inline rlx_status rlx_check_weights(const rlx_model *model, const void *weights, size_t weight_bytes)
{
    uint32_t i;
    if (model == NULL || (weights == NULL && (model->weights == NULL || weight_bytes != 0) &&
                          rlx_weight_bytes(model) != 0))
        return RLX_ERR_NULL;
    if (weights != NULL && weight_bytes != rlx_weight_bytes(model))
        return RLX_ERR_WEIGHTS;
    for (i = 0; model->file != NULL && i < model->file->n_parts; i++) {
        const rlx_weight_part *p = &model->file->parts[i];
        if (rlx_hash((const unsigned char *)weights + p->offset, p->bytes) != p->hash)
            return RLX_ERR_WEIGHTS;
    }
    if (weights != NULL)
        return rlx_is_own(model, (const unsigned char *)weights, 1) ? RLX_OK : RLX_ERR_WEIGHTS;
    if (!rlx_is_own_block(model, (const unsigned char *)model->weights, 1))
        return RLX_ERR_WEIGHTS;
    return model->fallback == NULL ||
                   rlx_is_own_block(model->fallback, (const unsigned char *)model->fallback->weights, 1)
               ? RLX_OK
               : RLX_ERR_WEIGHTS;
}

// What a new context has in its state block.
static inline void rlx_fill_state(rlx_ctx *ctx, const rlx_model *model, size_t bytes)
{
    uint32_t i;
    if (bytes != 0) {
        memset(ctx->state, 0, bytes);
        if (model->state_init != NULL)
            memcpy(ctx->state, model->state_init, model->flags_offset);
        if (model->n_params != 0)
            memcpy(ctx->state + model->flags_offset, model->param_has_init, model->n_params);
    }
    for (i = 0; model->symbols != NULL && i < model->symbols->n; i++)
        memcpy(ctx->state + model->symbols->offset + i * sizeof(int64_t), &model->symbols->list[i].first,
               sizeof(int64_t));
}

// Nothing has run yet, and nobody has asked for errors.
static inline void rlx_forget_runs(rlx_ctx *ctx)
{
    ctx->committed = 0;
    ctx->failed_run = 0;
    ctx->has_run = 0;
    ctx->inputs = 0;
    ctx->error = NULL;
    ctx->times = NULL;
    ctx->handles = NULL;
    ctx->n_handles = 0;
    ctx->links = NULL;
    ctx->is_under_way = 0;
}

// The blocks that rlx_init_on gets; e (may be NULL) gets what is wrong about them.
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

static inline rlx_status rlx_check_block_of_weights(const rlx_model *model, const void *weights,
                                                    size_t weight_bytes, rlx_error *e)
{
    const size_t expected = rlx_weight_bytes(model);
    if (weights != NULL ? weight_bytes != expected : (model->weights == NULL && expected != 0))
        return rlx_tell(e, RLX_ERR_WEIGHTS, RLX_ABOUT_WEIGHTS, NULL, (int64_t)expected,
                        weights != NULL ? (int64_t)weight_bytes : 0);
    if ((model->file != NULL && rlx_hash(weights, model->file->header) != model->file->hash) ||
        !rlx_is_own(model, (const unsigned char *)weights, 0))
        return rlx_tell(e, RLX_ERR_WEIGHTS, RLX_ABOUT_WEIGHTS, NULL, 0, 0);
#ifdef RLX_CHECK_WEIGHTS
    return rlx_check_weights(model, weights, weight_bytes);
#else
    return RLX_OK;
#endif
}

// What rlx_init_on can say before it asks for a device.
static inline rlx_status rlx_check_init(const rlx_model *model, const void *arena, size_t arena_bytes,
                                        const void *state, size_t state_bytes, const void *weights,
                                        size_t weight_bytes, rlx_error *e)
{
    rlx_status status;
    if (model == NULL)
        return rlx_tell(e, RLX_ERR_NULL, RLX_ABOUT_CALL, NULL, 0, 0);
    status = rlx_check_blocks(model, arena, arena_bytes, state, state_bytes, weights, e);
    return status == RLX_OK ? rlx_check_block_of_weights(model, weights, weight_bytes, e) : status;
}

// Opens the device. RLX_ERR_NO_DEVICE: the fallback, if there is one, takes its place; so it does for the
// number behind those of the devices.
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

// As rlx_init, on the device of that number (rlx_devices); RLX_ANY_DEVICE: as rlx_init does, on the first one
// that can run the model, or in its place on the host's processor (--target cuda,c). RLX_ERR_RANGE: there is
// no device of that number. RLX_ERR_NO_DEVICE: it cannot run the model; of models with a fallback, which
// does not take the place of a device that was asked for, RLX_ERR_DEVICE.
static inline rlx_status rlx_init_on(rlx_ctx *ctx, const rlx_model *model, uint32_t ordinal, void *arena,
                                     size_t arena_bytes, void *state, size_t state_bytes,
                                     const void *weights, size_t weight_bytes)
{
    const unsigned char *own;
    size_t state_size;
    rlx_status status;
    if (ctx == NULL)
        return RLX_ERR_NULL;
    status = rlx_check_init(model, arena, arena_bytes, state, state_bytes, weights, weight_bytes, NULL);
    if (status != RLX_OK)
        return status;
    own = (const unsigned char *)(weights != NULL ? weights : model->weights);
    status = rlx_open_device(model, ordinal, arena, state, own);
    if (status == RLX_ERR_NO_DEVICE && model->fallback != NULL) {
        own = weights != NULL ? own + model->fallback_weights
                              : (const unsigned char *)model->fallback->weights;
        model = model->fallback;
        ordinal = RLX_ANY_DEVICE;
    } else if (status != RLX_OK) {
        return status;
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
    ctx->ordinal = ordinal;
    rlx_forget_runs(ctx);
    ctx->weights = own;
    rlx_fill_state(ctx, model, state_size);
    return rlx_put_state(ctx, 0, state_size);
}

// Binds a context to its blocks. state may be NULL when the model has no state; weights NULL = those in the
// program. RLX_ERR_WEIGHTS: they have another size or another seal than those that the model was compiled
// with, or a file that the program has taken in is of another compile. A context on a device ends with
// rlx_close. rlx_init_text says in a sentence what is wrong.
static inline rlx_status rlx_init(rlx_ctx *ctx, const rlx_model *model, void *arena, size_t arena_bytes,
                                  void *state, size_t state_bytes, const void *weights, size_t weight_bytes)
{
    return rlx_init_on(ctx, model, RLX_ANY_DEVICE, arena, arena_bytes, state, state_bytes, weights,
                       weight_bytes);
}

// Ends a context: gives back what it has on a device, behind what was committed, whose outputs handles of the
// program take. Its blocks, and the memory of these handles, stay the caller's.
static inline rlx_status rlx_close(rlx_ctx *ctx)
{
    const rlx_device *d;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    d = ctx->model->device;
    if (d != NULL && ctx->is_under_way != 0 && ctx->links != NULL &&
        d->wait(ctx, RLX_WAIT_OUTPUTS, NULL) == RLX_OK)
        (void)ctx->links->take(ctx);
    if (d != NULL)
        d->close(ctx);
    ctx->model = NULL;
    rlx_forget_runs(ctx);
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
// Inputs are consumed by a run: their memory is reused, so all of them are written before the next one. An
// output is valid until the next run.
static inline void *rlx_input(const rlx_ctx *ctx, uint32_t slot)
{
    if (ctx == NULL || ctx->model == NULL || slot >= ctx->model->n_inputs)
        return NULL;
    if ((ctx->inputs & ((uint32_t)RLX_INPUTS_HELD | (uint32_t)RLX_INPUTS_CONSUMED)) !=
        (uint32_t)RLX_INPUTS_HELD)
        ((rlx_ctx *)(uintptr_t)ctx)->inputs =
            (ctx->inputs & (uint32_t)RLX_INPUTS_STRICT) | (uint32_t)RLX_INPUTS_HELD;
    return ctx->arena + ctx->model->inputs[slot].offset;
}

static inline const void *rlx_output(const rlx_ctx *ctx, uint32_t slot)
{
    return ctx != NULL && ctx->model != NULL && slot < ctx->model->n_outputs
               ? ctx->arena + ctx->model->outputs[slot].offset
               : NULL;
}

// An output, also one that a handle holds: its slot is behind those of the others. NULL: there is none.
static inline const rlx_tensor *rlx_output_tensor(const rlx_model *m, uint32_t slot)
{
    if (slot < m->n_outputs)
        return &m->outputs[slot];
    return slot - m->n_outputs < m->n_held ? &m->held[slot - m->n_outputs] : NULL;
}

// The shape of an input or output by what the symbols are now; without symbols, that of its rlx_tensor.
static inline void rlx_shape_now(const rlx_ctx *ctx, int is_output, uint32_t slot, int64_t *shape)
{
    const rlx_model *m = ctx->model;
    memcpy(shape, (is_output ? rlx_output_tensor(m, slot) : &m->inputs[slot])->shape,
           RLX_MAX_RANK * sizeof *shape);
    if (m->symbols != NULL)
        m->symbols->shape(ctx, is_output, slot, shape);
}

static inline size_t rlx_dense_bytes(rlx_dtype dtype, int rank, const int64_t *shape)
{
    size_t bytes = rlx_dtype_bytes(dtype);
    int i;
    for (i = 0; i < rank; i++)
        bytes *= (size_t)shape[i];
    return bytes;
}

static inline size_t rlx_shape_bytes(const rlx_tensor *t, const int64_t *shape)
{
    return rlx_dense_bytes(t->dtype, t->rank, shape);
}

// The shape in which a run takes an input, and its bytes. 0 bytes also where the slot is out of range.
static inline rlx_status rlx_input_shape(const rlx_ctx *ctx, uint32_t slot, int64_t *shape)
{
    if (ctx == NULL || ctx->model == NULL || shape == NULL)
        return rlx_fail_null(ctx);
    if (slot >= ctx->model->n_inputs)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_INPUT, NULL, (int64_t)ctx->model->n_inputs,
                        (int64_t)slot);
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
    const rlx_tensor *const t =
        ctx == NULL || ctx->model == NULL ? NULL : rlx_output_tensor(ctx->model, slot);
    if (t == NULL || ctx->model->symbols == NULL)
        return t == NULL ? 0 : t->bytes;
    rlx_shape_now(ctx, 1, slot, shape);
    return rlx_shape_bytes(t, shape);
}

// The shape that an output has after a run, in which its elements are dense. That of its rlx_tensor has room
// for the largest; only the sizes of some models depend on symbols, or on the values that they compute.
static inline rlx_status rlx_output_shape(const rlx_ctx *ctx, uint32_t slot, int64_t *shape)
{
    const rlx_tensor *t;
    if (ctx == NULL || ctx->model == NULL || shape == NULL)
        return rlx_fail_null(ctx);
    t = rlx_output_tensor(ctx->model, slot);
    if (t == NULL)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_OUTPUT, NULL,
                        (int64_t)ctx->model->n_outputs + (int64_t)ctx->model->n_held, (int64_t)slot);
    rlx_shape_now(ctx, 1, slot, shape);
    if (slot < ctx->model->n_outputs && ctx->model->output_sizes != NULL &&
        ctx->model->output_sizes[slot] != (size_t)-1)
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
    return rlx_shape_bytes(rlx_output_tensor(ctx->model, slot), shape);
}

#ifdef __cplusplus
}
#endif

#endif
