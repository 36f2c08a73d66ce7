// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: shapes and bytes of inputs and outputs.
#ifndef RLX_SHAPES_H
#define RLX_SHAPES_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

// An output, also one that a handle holds: its slot is after those of the others. NULL: there is none.
static inline const rlx_tensor *rlx_output_tensor(const rlx_model *m, uint32_t slot)
{
#if RLX_HAS_HELD
    if (slot >= m->n_outputs)
        return slot - m->n_outputs < m->n_held ? &m->held[slot - m->n_outputs] : NULL;
#endif
    return slot < m->n_outputs ? &m->outputs[slot] : NULL;
}

// How many there are.
static inline uint32_t rlx_count_outputs(const rlx_model *m)
{
#if RLX_HAS_HELD
    return m->n_outputs + m->n_held;
#else
    return m->n_outputs;
#endif
}

// The shape of an input or output by what the symbols are now; without symbols, that of its rlx_tensor.
static inline void rlx_shape_now(const rlx_ctx *ctx, int is_output, uint32_t slot, int64_t *shape)
{
    const rlx_model *m = ctx->model;
    memcpy(shape, (is_output ? rlx_output_tensor(m, slot) : &m->inputs[slot])->shape,
           RLX_MAX_RANK * sizeof *shape);
#if RLX_HAS_SYMBOLS
    if (m->symbols != NULL)
        m->symbols->shape(ctx, is_output, slot, shape);
#endif
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
#if RLX_HAS_SYMBOLS
    int64_t shape[RLX_MAX_RANK];
    if (ctx != NULL && ctx->model != NULL && ctx->model->symbols != NULL)
        return rlx_input_shape(ctx, slot, shape) == RLX_OK
                   ? rlx_shape_bytes(&ctx->model->inputs[slot], shape)
                   : 0;
#endif
    return ctx != NULL && ctx->model != NULL && slot < ctx->model->n_inputs ? ctx->model->inputs[slot].bytes
                                                                            : 0;
}

// The bytes that an output can have in the next run: what its shape has by the symbols, and of sizes that the
// model computes the largest.
static inline size_t rlx_output_room(const rlx_ctx *ctx, uint32_t slot)
{
    const rlx_tensor *const t =
        ctx == NULL || ctx->model == NULL ? NULL : rlx_output_tensor(ctx->model, slot);
#if RLX_HAS_SYMBOLS
    int64_t shape[RLX_MAX_RANK];
    if (t != NULL && ctx->model->symbols != NULL) {
        rlx_shape_now(ctx, 1, slot, shape);
        return rlx_shape_bytes(t, shape);
    }
#endif
    return t == NULL ? 0 : t->bytes;
}

// The shape that an output has after a run, in which its elements are dense. That of its rlx_tensor has room
// for the largest; only the sizes of some models depend on symbols, or on the values that they compute.
static inline rlx_status rlx_output_shape(const rlx_ctx *ctx, uint32_t slot, int64_t *shape)
{
    if (ctx == NULL || ctx->model == NULL || shape == NULL)
        return rlx_fail_null(ctx);
    if (slot >= rlx_count_outputs(ctx->model))
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_OUTPUT, NULL, (int64_t)rlx_count_outputs(ctx->model),
                        (int64_t)slot);
    rlx_shape_now(ctx, 1, slot, shape);
#if RLX_HAS_SIZES
    if (slot < ctx->model->n_outputs && ctx->model->output_sizes != NULL &&
        ctx->model->output_sizes[slot] != (size_t)-1)
        memcpy(shape, ctx->arena + ctx->model->output_sizes[slot],
               (size_t)ctx->model->outputs[slot].rank * sizeof *shape);
#endif
    return RLX_OK;
}

// The bytes of that shape.
static inline size_t rlx_output_bytes(const rlx_ctx *ctx, uint32_t slot)
{
#if RLX_HAS_SIZES
    int64_t shape[RLX_MAX_RANK];
    if (ctx != NULL && ctx->model != NULL && ctx->model->output_sizes != NULL)
        return rlx_output_shape(ctx, slot, shape) == RLX_OK
                   ? rlx_shape_bytes(rlx_output_tensor(ctx->model, slot), shape)
                   : 0;
#endif
    return rlx_output_room(ctx, slot);
}

#ifdef __cplusplus
}
#endif

#endif
