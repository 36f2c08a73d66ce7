// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: runs on inputs that are given, by slot or by name, which copy and check them. Pasted after
// rlx.h. No allocation, no libc but memcpy and strcmp.
#ifndef RLX_CALLS_H
#define RLX_CALLS_H

#include "rlx_held.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_slot {
    size_t offset; // bytes from ctx->arena
    size_t bytes;
} rlx_slot;

// The places and bytes of all outputs, unless slots is NULL.
static inline void rlx_tell_slots(const rlx_ctx *ctx, rlx_slot *slots)
{
    uint32_t i;
    for (i = 0; slots != NULL && i < ctx->model->n_outputs; i++) {
        slots[i].offset = ctx->model->outputs[i].offset;
#if RLX_HAS_SHAPES
        slots[i].bytes = rlx_output_bytes(ctx, i);
#else
        slots[i].bytes = ctx->model->outputs[i].bytes;
#endif
    }
}

// A run on inputs by slot: inputs[i] has the bytes of input i. It is memory of the caller that does not
// overlap the context's blocks (so for all calls that copy inputs or outputs). slots (may be NULL) gets the
// place of every output, after a run that ends well, as by all calls that run: where one fails, nothing of
// the caller is written. How long inputs are is not known here: rlx_run_sized is told. An input that a
// handle gives (rlx_link_input) is NULL, in all calls that take inputs.
static inline rlx_status rlx_run_slots(rlx_ctx *ctx, const void *const *inputs, rlx_slot *slots)
{
    const rlx_model *m;
    uint32_t i;
    rlx_status status;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    m = ctx->model;
#if RLX_HAS_QUEUE
    for (i = 0; i < m->n_inputs; i++) {
        status = rlx_check_given(ctx, i, inputs == NULL ? NULL : inputs[i]);
        if (status != RLX_OK)
            return status;
    }
#else
    for (i = 0; i < m->n_inputs; i++)
        if (inputs == NULL || inputs[i] == NULL)
            return RLX_ERR_NULL;
#endif
#if RLX_HAS_PARAMS
    status = rlx_check_params(ctx);
    if (status != RLX_OK)
        return status;
#endif
    for (i = 0; i < m->n_inputs; i++)
#if RLX_HAS_ROWS
        if (inputs != NULL && inputs[i] != NULL)
            rlx_bring_input(ctx, i, inputs[i], rlx_input_bytes(ctx, i));
#else
#if RLX_HAS_SHAPES
        if (inputs != NULL && inputs[i] != NULL)
            memcpy(ctx->arena + m->inputs[i].offset, inputs[i], rlx_input_bytes(ctx, i));
#else
        memcpy(ctx->arena + m->inputs[i].offset, inputs[i], m->inputs[i].bytes);
#endif
#endif
    status = rlx_run_given(ctx);
    if (status == RLX_OK)
        rlx_tell_slots(ctx, slots);
    return status;
}

typedef struct rlx_sized {
    const void *data;
    size_t bytes;
} rlx_sized;

// As rlx_run_slots, with the number of inputs and the bytes of each. All are checked before anything is
// written. RLX_ERR_INPUT: there are fewer than the model has; RLX_ERR_SLOT: more; RLX_ERR_SIZE: other bytes
// than rlx_input_bytes says.
static inline rlx_status rlx_run_sized(rlx_ctx *ctx, const rlx_sized *inputs, uint32_t n, rlx_slot *slots)
{
    const rlx_model *m;
    uint32_t i;
    rlx_status status;
    if (ctx == NULL || ctx->model == NULL || (inputs == NULL && n != 0))
        return rlx_fail_null(ctx);
    m = ctx->model;
    if (n > m->n_inputs)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_INPUT, NULL, (int64_t)m->n_inputs, (int64_t)n - 1);
    for (i = 0; i < m->n_inputs; i++) {
#if RLX_HAS_SHAPES
        const size_t bytes = rlx_input_bytes(ctx, i);
#endif
#if RLX_HAS_QUEUE
        if (i >= n && rlx_giver(ctx, i) == NULL)
            return rlx_fail(ctx, RLX_ERR_INPUT, RLX_ABOUT_INPUT, m->inputs[i].name, 0, 0);
        status = rlx_check_given(ctx, i, i < n ? inputs[i].data : NULL);
        if (status != RLX_OK)
            return status;
#else
        if (i >= n)
            return RLX_ERR_INPUT;
        if (inputs[i].data == NULL)
            return RLX_ERR_NULL;
#endif
#if RLX_HAS_SHAPES
        if (i < n && inputs[i].data != NULL && inputs[i].bytes != bytes)
#else
        if (inputs[i].bytes != m->inputs[i].bytes)
#endif
            return rlx_fail_size(ctx, RLX_ABOUT_INPUT, m->inputs[i].name, bytes, inputs[i].bytes);
    }
#if RLX_HAS_PARAMS
    status = rlx_check_params(ctx);
    if (status != RLX_OK)
        return status;
#endif
    for (i = 0; i < n; i++)
#if RLX_HAS_ROWS
        if (inputs[i].data != NULL)
            rlx_bring_input(ctx, i, inputs[i].data, inputs[i].bytes);
#else
        memcpy(ctx->arena + m->inputs[i].offset, inputs[i].data, inputs[i].bytes);
#endif
    status = rlx_run_given(ctx);
    if (status == RLX_OK)
        rlx_tell_slots(ctx, slots);
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

// Name i of a list whose elements, of `stride` bytes, begin with one.
static inline const char *rlx_name_at(const void *list, size_t stride, uint32_t i)
{
    const char *name;
    memcpy(&name, (const unsigned char *)list + i * stride, sizeof name);
    return name;
}

// Is each input of the model that no handle gives in such a list, once, and nothing else? RLX_ERR_NAME:
// unknown, or there before; RLX_ERR_INPUT: one is missing; RLX_ERR_HANDLE: a handle gives it.
static inline rlx_status rlx_check_names(const rlx_ctx *ctx, const void *list, size_t stride, uint32_t n)
{
    const rlx_model *m = ctx->model;
    uint32_t i, j;
    int in_order = 1;
    for (i = 0; i < n; i++) {
        const char *const name = rlx_name_at(list, stride, i);
        const int slot = rlx_find_at(m->inputs, m->n_inputs, name, i);
        if (slot < 0)
            return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_INPUT, name, 0, 0);
#if RLX_HAS_QUEUE
        if (rlx_giver(ctx, (uint32_t)slot) != NULL)
            return rlx_check_given(ctx, (uint32_t)slot, name);
#endif
        in_order = in_order && slot == (int)i; // then no name came before
        for (j = 0; j < i && !in_order; j++)
            if (strcmp(name, rlx_name_at(list, stride, j)) == 0)
                return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_INPUT, name, 1, 2);
    }
#if RLX_HAS_QUEUE
    for (i = 0; n < m->n_inputs && i < m->n_inputs; i++) { // one is missing: which
        for (j = 0; j < n && strcmp(m->inputs[i].name, rlx_name_at(list, stride, j)) != 0; j++)
            continue;
        if (j == n && rlx_giver(ctx, i) == NULL)
            return rlx_fail(ctx, RLX_ERR_INPUT, RLX_ABOUT_INPUT, m->inputs[i].name, 0, 0);
    }
    return RLX_OK;
#else
    return n < m->n_inputs ? RLX_ERR_INPUT : RLX_OK;
#endif
}

static inline rlx_status rlx_check_named(const rlx_ctx *ctx, const rlx_named *inputs, uint32_t n_inputs,
                                         const rlx_named_out *outputs, uint32_t n_outputs)
{
    const rlx_model *const m = ctx->model;
    uint32_t i;
    const rlx_status status = rlx_check_names(ctx, inputs, sizeof *inputs, n_inputs);
    if (status != RLX_OK)
        return status;
    for (i = 0; i < n_inputs; i++) {
        const int slot = rlx_find_at(m->inputs, m->n_inputs, inputs[i].name, i);
#if RLX_HAS_SHAPES
        const size_t bytes = rlx_input_bytes(ctx, (uint32_t)slot);
#endif
        if (inputs[i].data == NULL)
            return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_INPUT, inputs[i].name, 0, 0);
#if RLX_HAS_SHAPES
        if (inputs[i].bytes != bytes)
#else
        if (inputs[i].bytes != m->inputs[slot].bytes)
#endif
            return rlx_fail_size(ctx, RLX_ABOUT_INPUT, inputs[i].name, bytes, inputs[i].bytes);
    }
    for (i = 0; i < n_outputs; i++) {
#if RLX_HAS_SHAPES
        const int slot = rlx_find_output(m, outputs[i].name, i);
        const size_t bytes = slot < 0 ? 0 : rlx_output_room(ctx, (uint32_t)slot);
#else
        const int slot = rlx_find_at(m->outputs, m->n_outputs, outputs[i].name, i);
#endif
        if (slot < 0)
            return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_OUTPUT, outputs[i].name, 0, 0);
        if (outputs[i].data == NULL)
            return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_OUTPUT, outputs[i].name, 0, 0);
#if RLX_HAS_SHAPES
        if (outputs[i].bytes != bytes)
#else
        if (outputs[i].bytes != m->outputs[slot].bytes)
#endif
            return rlx_fail_size(ctx, RLX_ABOUT_OUTPUT, outputs[i].name, bytes, outputs[i].bytes);
    }
#if RLX_HAS_PARAMS
    return rlx_check_params(ctx);
#else
    return RLX_OK;
#endif
}

// A run by name: every input once (RLX_ERR_INPUT: one is missing), and any of the outputs. Inputs that
// handles give are not named; outputs that handles hold can be. All names and sizes are checked before
// anything is written.
static inline rlx_status rlx_run_named(rlx_ctx *ctx, const rlx_named *inputs, uint32_t n_inputs,
                                       const rlx_named_out *outputs, uint32_t n_outputs)
{
    uint32_t i;
    int slot;
    rlx_status status;
    const rlx_model *m;
    if (ctx == NULL || ctx->model == NULL || (inputs == NULL && n_inputs != 0) ||
        (outputs == NULL && n_outputs != 0))
        return rlx_fail_null(ctx);
    m = ctx->model;
    status = rlx_check_named(ctx, inputs, n_inputs, outputs, n_outputs);
    if (status != RLX_OK)
        return status;
    for (i = 0; i < n_inputs; i++) {
        slot = rlx_find_at(m->inputs, m->n_inputs, inputs[i].name, i);
#if RLX_HAS_ROWS
        rlx_bring_input(ctx, (uint32_t)slot, inputs[i].data, inputs[i].bytes);
#else
        memcpy(ctx->arena + m->inputs[slot].offset, inputs[i].data, inputs[i].bytes);
#endif
    }
    status = rlx_run_given(ctx);
    for (i = 0; i < n_outputs && status == RLX_OK; i++) {
#if RLX_HAS_SHAPES
        slot = rlx_find_output(m, outputs[i].name, i);
        status = rlx_copy_output(ctx, (uint32_t)slot, 0, outputs[i].data, outputs[i].bytes);
#else
        slot = rlx_find_at(m->outputs, m->n_outputs, outputs[i].name, i);
        memcpy(outputs[i].data, ctx->arena + m->outputs[slot].offset, outputs[i].bytes);
#endif
    }
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
