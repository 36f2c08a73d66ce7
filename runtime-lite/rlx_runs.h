// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: more ways to run, and to read what came out. Pasted behind rlx.h unless a model is compiled
// with --api core. No allocation: memory for copies is the caller's.
#ifndef RLX_RUNS_H
#define RLX_RUNS_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- some of the outputs ---

// Set of outputs by name (--output-set NAME=a,b), or -1.
static inline int rlx_find_set(const rlx_model *m, const char *name)
{
    uint32_t i;
    for (i = 0; m != NULL && name != NULL && i < m->n_sets; i++)
        if (strcmp(m->sets[i].name, name) == 0)
            return (int)i;
    return -1;
}

// A run that computes only what the outputs of a set need, and the states. The other outputs mean nothing
// after it.
static inline rlx_status rlx_run_set(rlx_ctx *ctx, uint32_t set)
{
    rlx_status status;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (set >= ctx->model->n_sets)
        return RLX_ERR_SLOT;
    ctx->outputs = set + 1u;
    status = rlx_run(ctx);
    ctx->outputs = 0;
    return status;
}

// Copies an output as it is, in the shape that rlx_output_shape says.
static inline rlx_status rlx_read_output(const rlx_ctx *ctx, uint32_t slot, void *data, size_t bytes)
{
    if (ctx == NULL || ctx->model == NULL || data == NULL)
        return RLX_ERR_NULL;
    if (slot >= ctx->model->n_outputs)
        return RLX_ERR_SLOT;
    if (bytes != rlx_output_bytes(ctx, slot))
        return RLX_ERR_SIZE;
    if (bytes != 0)
        memcpy(data, ctx->arena + ctx->model->outputs[slot].offset, bytes);
    return RLX_OK;
}

// Copies row `row`: all elements at that index of the first axis. RLX_ERR_RANGE: there is no such row.
static inline rlx_status rlx_read_output_row(const rlx_ctx *ctx, uint32_t slot, int64_t row, void *data,
                                             size_t bytes)
{
    int64_t shape[RLX_MAX_RANK];
    size_t all;
    rlx_status status = rlx_output_shape(ctx, slot, shape);
    if (status != RLX_OK)
        return status;
    if (data == NULL)
        return RLX_ERR_NULL;
    if (ctx->model->outputs[slot].rank == 0 || row < 0 || row >= shape[0])
        return RLX_ERR_RANGE;
    all = rlx_output_bytes(ctx, slot);
    if (bytes != all / (size_t)shape[0])
        return RLX_ERR_SIZE;
    if (bytes != 0)
        memcpy(data, ctx->arena + ctx->model->outputs[slot].offset + (size_t)row * bytes, bytes);
    return RLX_OK;
}

// --- snapshots: the outputs of a run, kept while the next ones go on ---

static inline size_t rlx_round_up(size_t bytes)
{
    return (bytes + RLX_ALIGNMENT - 1u) / RLX_ALIGNMENT * RLX_ALIGNMENT;
}

// First byte of an output in a snapshot: its shape (RLX_MAX_RANK sizes), then its elements. For n_outputs:
// the end.
static inline size_t rlx_snapshot_offset(const rlx_model *m, uint32_t slot)
{
    size_t at = 0;
    uint32_t i;
    if (m->buckets != NULL) // one layout, whatever the bucket
        m = m->buckets->models[m->buckets->n - 1u];
    for (i = 0; i < slot; i++)
        at += rlx_round_up(RLX_MAX_RANK * sizeof(int64_t)) + rlx_round_up(m->outputs[i].bytes);
    return at;
}

// Bytes of one snapshot; NAME_SNAPSHOT_BYTES is the same as a constant.
static inline size_t rlx_snapshot_bytes(const rlx_model *m)
{
    return m == NULL ? 0 : rlx_snapshot_offset(m, m->n_outputs);
}

// Copies all outputs of the last run. memory: RLX_ALIGNMENT-aligned.
static inline rlx_status rlx_take_snapshot(const rlx_ctx *ctx, void *memory, size_t bytes)
{
    uint32_t i;
    if (ctx == NULL || ctx->model == NULL || (memory == NULL && ctx->model->n_outputs != 0))
        return RLX_ERR_NULL;
    if (bytes < rlx_snapshot_bytes(ctx->model))
        return RLX_ERR_SIZE;
    if ((uintptr_t)memory % RLX_ALIGNMENT != 0)
        return RLX_ERR_ALIGNMENT;
    for (i = 0; i < ctx->model->n_outputs; i++) {
        unsigned char *to = (unsigned char *)memory + rlx_snapshot_offset(ctx->model, i);
        int64_t shape[RLX_MAX_RANK];
        rlx_output_shape(ctx, i, shape);
        memcpy(to, shape, sizeof shape);
        memcpy(to + rlx_round_up(sizeof shape), ctx->arena + ctx->model->outputs[i].offset,
               rlx_output_bytes(ctx, i));
    }
    return RLX_OK;
}

// An output in a snapshot: its elements (NULL: no such slot), and its shape there unless shape is NULL.
static inline const void *rlx_snapshot_output(const rlx_model *m, const void *memory, uint32_t slot,
                                              int64_t *shape)
{
    const unsigned char *at;
    if (m == NULL || memory == NULL || slot >= m->n_outputs)
        return NULL;
    at = (const unsigned char *)memory + rlx_snapshot_offset(m, slot);
    if (shape != NULL)
        memcpy(shape, at, RLX_MAX_RANK * sizeof *shape);
    return at + rlx_round_up(RLX_MAX_RANK * sizeof(int64_t));
}

// On a device that goes on by itself: while run r computes, the host brings the inputs of the next one and
// keeps the outputs of the one before. *done: as below.
static inline rlx_status rlx_run_overlapped(rlx_ctx *ctx, const void *const *inputs, uint32_t n,
                                            unsigned char *snapshots, uint32_t *done)
{
    const rlx_device *d = ctx->model->device;
    const size_t one = rlx_snapshot_bytes(ctx->model);
    rlx_status status = rlx_missing_param(ctx) != NULL ? RLX_ERR_PARAM : RLX_OK, before;
    uint64_t r; // goes one beyond n
    uint32_t i;
    for (r = 0; r <= n && status == RLX_OK; r++) {
        if (r != 0 && r < n)
            status = d->wait(ctx, RLX_WAIT_INPUTS, NULL);
        for (i = 0; r < n && i < ctx->model->n_inputs && status == RLX_OK; i++)
            memcpy(ctx->arena + ctx->model->inputs[i].offset, inputs[(size_t)r * ctx->model->n_inputs + i],
                   rlx_input_bytes(ctx, i));
        if (r < n && status == RLX_OK)
            status = d->start(ctx, 1);
        if (r != 0) {
            before = d->wait(ctx, RLX_WAIT_OUTPUTS, NULL);
            if (before == RLX_OK)
                before = rlx_take_snapshot(ctx, snapshots + (size_t)(r - 1u) * one, one);
            *done += before == RLX_OK;
            status = before != RLX_OK ? before : status;
        }
        if (r < n && status == RLX_OK)
            status = d->fetch(ctx);
    }
    return status;
}

// n runs one after the other; run r takes inputs[r * n_inputs ..] (as rlx_run_slots) and leaves its outputs
// in snapshot r, at r * rlx_snapshot_bytes. All pointers and sizes are checked before the first run. *done
// (may be NULL): runs that have ended well; a status other than RLX_OK is that of the one after.
static inline rlx_status rlx_run_pipelined(rlx_ctx *ctx, const void *const *inputs, uint32_t n,
                                           void *snapshots, size_t bytes, uint32_t *done)
{
    size_t i, one;
    uint32_t r, ended = 0;
    rlx_status status = RLX_OK;
    if (ctx == NULL || ctx->model == NULL || (n != 0 && snapshots == NULL))
        return RLX_ERR_NULL;
    one = rlx_snapshot_bytes(ctx->model);
    for (i = 0; i < (size_t)n * ctx->model->n_inputs; i++)
        if (inputs == NULL || inputs[i] == NULL)
            return RLX_ERR_NULL;
    if (one != 0 && bytes / one < n)
        return RLX_ERR_SIZE;
    if ((uintptr_t)snapshots % RLX_ALIGNMENT != 0)
        return RLX_ERR_ALIGNMENT;
    if (ctx->model->device != NULL && ctx->model->device->start != NULL)
        status = rlx_run_overlapped(ctx, inputs, n, (unsigned char *)snapshots, &ended);
    for (r = ended; r < n && status == RLX_OK; r++) {
        status = rlx_run_slots(ctx, inputs + (size_t)r * ctx->model->n_inputs, NULL);
        if (status == RLX_OK)
            status = rlx_take_snapshot(ctx, (unsigned char *)snapshots + r * one, one);
        if (status != RLX_OK)
            break;
    }
    if (done != NULL)
        *done = r;
    return status;
}

// --- without waiting ---

// Starts a run on what is in the input slots, and returns; on targets whose device is the CPU the run has
// ended by then. Before rlx_sync no other call on the context but rlx_is_done, and neither inputs are written
// nor outputs read. The status of the run is that of rlx_sync in any case. A status other than RLX_OK here:
// nothing was started.
static inline rlx_status rlx_commit(rlx_ctx *ctx)
{
    const rlx_device *d;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (rlx_missing_param(ctx) != NULL)
        return RLX_ERR_PARAM;
    d = ctx->model->device;
    if (d == NULL || d->start == NULL) {
        ctx->pending = rlx_run(ctx);
        return RLX_OK;
    }
    ctx->pending = d->start(ctx, 0);
    if (ctx->pending == RLX_OK)
        ctx->pending = d->fetch(ctx);
    return RLX_OK;
}

// Waits for what was committed: the status of the run, RLX_OK when there was none.
static inline rlx_status rlx_sync(rlx_ctx *ctx)
{
    const rlx_device *d;
    rlx_status status;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    d = ctx->model->device;
    status = d == NULL || d->start == NULL ? RLX_OK : d->wait(ctx, RLX_WAIT_OUTPUTS, NULL);
    if (ctx->pending != RLX_OK)
        status = ctx->pending;
    ctx->pending = RLX_OK;
    return status;
}

// Would rlx_sync return at once?
static inline int rlx_is_done(rlx_ctx *ctx)
{
    const rlx_device *d = ctx == NULL || ctx->model == NULL ? NULL : ctx->model->device;
    int is_done = 1;
    if (d != NULL && d->start != NULL && d->wait(ctx, RLX_WAIT_OUTPUTS, &is_done) != RLX_OK)
        is_done = 1;
    return is_done;
}

// --- copies of contexts ---

// A context of its own on other blocks, with the parameters, states and handles that `from` has now. The
// weights are shared; a pool of threads, or a parallel_for, is not.
static inline rlx_status rlx_clone(rlx_ctx *ctx, const rlx_ctx *from, void *arena, size_t arena_bytes,
                                   void *state, size_t state_bytes)
{
    rlx_status status;
    size_t bytes;
    uint32_t i;
    if (ctx == NULL || from == NULL || from->model == NULL || ctx == from)
        return RLX_ERR_NULL;
    status = rlx_init(
        ctx, from->model, arena, arena_bytes, state, state_bytes,
        from->weights == (const unsigned char *)from->model->weights ? NULL : from->weights,
        from->weights == (const unsigned char *)from->model->weights ? 0 : rlx_weight_bytes(from->model));
    if (status == RLX_OK && (ctx->model->device == NULL) != (from->model->device == NULL))
        status = RLX_ERR_NO_DEVICE; // it is gone
    if (status != RLX_OK)
        return status;
    bytes = from->model->device != NULL ? from->model->device->record : from->model->state_bytes;
    for (i = 0; i < from->model->n_states && status == RLX_OK; i++) // all else is the host's,
        status = rlx_get_state(from, from->model->states[i].offset, from->model->states[i].bytes);
    for (i = 0; i < from->model->n_params && status == RLX_OK; i++) // and what handles were not fed
        if (from->model->device != NULL && from->model->device->move != NULL)
            status = rlx_get_state(from, from->model->params[i].offset, from->model->params[i].bytes);
    if (status != RLX_OK) {
        rlx_close(ctx);
        return status;
    }
    if (bytes != 0)
        memcpy(ctx->state, from->state, bytes);
    ctx->model = from->model;
    ctx->pinned = from->pinned;
    return rlx_put_state(ctx, 0, bytes);
}

#ifdef __cplusplus
}
#endif

#endif
