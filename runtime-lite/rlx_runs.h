// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: more ways to run: snapshots, pipelines, runs that are committed, copies of contexts. In the
// headers of models that are compiled with --api full. No allocation: memory for copies is the caller's.
#ifndef RLX_RUNS_H
#define RLX_RUNS_H

#include "rlx_calls.h"
#include "rlx_read.h"

#ifdef __cplusplus
extern "C" {
#endif

// is_strict 1: from now on rlx_input has to be called before each run in place, of any one input at least, or
// the run is RLX_ERR_INPUT; 0: back to what rlx_run says. In either case inputs count as written now.
static inline rlx_status rlx_expect_inputs(rlx_ctx *ctx, int is_strict)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    ctx->inputs = is_strict ? (uint32_t)RLX_INPUTS_STRICT : 0u;
    return RLX_OK;
}

// Are n bytes at p, or some of them, in a block of the context?
static inline int rlx_uses(const rlx_ctx *ctx, const void *p, size_t n)
{
    return rlx_overlap(ctx->arena, ctx->model->arena_bytes, p, n) ||
           rlx_overlap(ctx->state, ctx->model->state_bytes, p, n);
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

// Copies all outputs of the last run. memory: RLX_ALIGNMENT-aligned, and no block of the context
// (RLX_ERR_OVERLAP).
static inline rlx_status rlx_take_snapshot(const rlx_ctx *ctx, void *memory, size_t bytes)
{
    uint32_t i;
    if (ctx == NULL || ctx->model == NULL || (memory == NULL && ctx->model->n_outputs != 0))
        return rlx_fail_null(ctx);
    if (bytes < rlx_snapshot_bytes(ctx->model))
        return rlx_fail_size(ctx, RLX_ABOUT_CALL, NULL, rlx_snapshot_bytes(ctx->model), bytes);
    if ((uintptr_t)memory % RLX_ALIGNMENT != 0)
        return rlx_fail(ctx, RLX_ERR_ALIGNMENT, RLX_ABOUT_CALL, NULL, 0, 0);
    if (rlx_uses(ctx, memory, rlx_snapshot_bytes(ctx->model)))
        return rlx_fail(ctx, RLX_ERR_OVERLAP, RLX_ABOUT_CALL, NULL, 0, 0);
    if (rlx_check_run(ctx, 0) != RLX_OK)
        return RLX_ERR_EARLY;
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
    rlx_status status = rlx_check_params(ctx), before;
    uint64_t r; // goes one beyond n
    uint32_t i;
    for (r = 0; r <= n && status == RLX_OK; r++) {
        if (r != 0 && r < n)
            status = rlx_fail_run(ctx, d->wait(ctx, RLX_WAIT_INPUTS, NULL));
        for (i = 0; r < n && i < ctx->model->n_inputs && status == RLX_OK; i++)
            memcpy(ctx->arena + ctx->model->inputs[i].offset, inputs[(size_t)r * ctx->model->n_inputs + i],
                   rlx_input_bytes(ctx, i));
        if (r < n && status == RLX_OK) {
            rlx_consume(ctx, 1);
            rlx_time_begin(ctx);
            status = rlx_fail_run(ctx, d->start(ctx, RLX_IN_TURN));
            rlx_time_given(ctx);
        }
        if (r != 0) {
            before = rlx_end_run(ctx, d->wait(ctx, RLX_WAIT_OUTPUTS, NULL));
            rlx_time_end(ctx, before);
            if (before == RLX_OK)
                before = rlx_take_snapshot(ctx, snapshots + (size_t)(r - 1u) * one, one);
            *done += before == RLX_OK;
            status = before != RLX_OK ? before : status;
        }
        if (r < n && status == RLX_OK)
            status = rlx_fail_run(ctx, d->fetch(ctx));
        if (status != RLX_OK)
            rlx_time_end(ctx, status);
    }
    return status;
}

// What must not be missing for n runs, before the first.
static inline rlx_status rlx_check_pipelined(const rlx_ctx *ctx, const void *const *inputs, uint32_t n,
                                             const void *snapshots, size_t bytes)
{
    const uint32_t n_inputs = ctx->model->n_inputs;
    const size_t one = rlx_snapshot_bytes(ctx->model);
    size_t i;
    rlx_status status = RLX_OK;
    for (i = 0; i < (size_t)n * n_inputs && status == RLX_OK; i++)
        status = rlx_check_given(ctx, (uint32_t)(i % n_inputs), inputs == NULL ? NULL : inputs[i]);
    if (status != RLX_OK)
        return status;
    if (n != 0 && snapshots == NULL)
        return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_CALL, NULL, 0, 0);
    if (one != 0 && bytes / one < n)
        return rlx_fail_size(ctx, RLX_ABOUT_CALL, NULL, one * n, bytes);
    if ((uintptr_t)snapshots % RLX_ALIGNMENT != 0)
        return rlx_fail(ctx, RLX_ERR_ALIGNMENT, RLX_ABOUT_CALL, NULL, 0, 0);
    if (rlx_uses(ctx, snapshots, one * n))
        return rlx_fail(ctx, RLX_ERR_OVERLAP, RLX_ABOUT_CALL, NULL, 0, 0);
    return RLX_OK;
}

// n runs one after the other; run r takes inputs[r * n_inputs ..] (as rlx_run_slots; NULL: handles of the
// program give them all) and leaves its outputs in snapshot r, at r * rlx_snapshot_bytes. All pointers and
// sizes are checked before the first run. *done (may be NULL) is set in any case: runs that have ended well,
// 0 where none was begun; a status other than RLX_OK is that of the one after.
static inline rlx_status rlx_run_pipelined(rlx_ctx *ctx, const void *const *inputs, uint32_t n,
                                           void *snapshots, size_t bytes, uint32_t *done)
{
    size_t one;
    uint32_t r, ended = 0;
    rlx_status status;
    if (done != NULL)
        *done = 0;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    status = rlx_check_pipelined(ctx, inputs, n, snapshots, bytes);
    if (status != RLX_OK)
        return status;
    one = rlx_snapshot_bytes(ctx->model);
    rlx_settle(ctx);
    if (ctx->model->device != NULL && ctx->model->device->start != NULL && ctx->handles == NULL)
        status = rlx_run_overlapped(ctx, inputs, n, (unsigned char *)snapshots, &ended);
    for (r = ended; r < n && status == RLX_OK; r++) {
        status = rlx_run_slots(ctx, inputs == NULL ? NULL : inputs + (size_t)r * ctx->model->n_inputs, NULL);
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

// The run that was committed last, in the pieces of a device.
static inline rlx_status rlx_begin_run(rlx_ctx *ctx)
{
    const rlx_device *d = ctx->model->device;
    rlx_status status;
    if (d == NULL || d->start == NULL)
        return rlx_run(ctx);
    rlx_consume(ctx, 0);
    rlx_time_begin(ctx);
    status = ctx->links != NULL ? ctx->links->give(ctx) : RLX_OK;
    if (status == RLX_OK)
        status = rlx_fail_run(ctx, d->start(ctx, RLX_QUEUED));
    if (status == RLX_OK)
        status = rlx_fail_run(ctx, d->fetch(ctx));
    rlx_time_given(ctx);
    if (status != RLX_OK) {
        if (ctx->is_under_way != 0)
            rlx_await_runs(ctx, 1);
        rlx_time_end(ctx, status);
    }
    ctx->is_under_way = status == RLX_OK;
    return status == RLX_OK ? rlx_fail_run(ctx, d->wait(ctx, RLX_WAIT_INPUTS, NULL)) : status;
}

// Can a run be queued after those that are under way? The device must take what handles give it, which it
// can of outputs whose places and sizes are known before they are computed.
static inline int rlx_can_queue(const rlx_ctx *ctx)
{
    const rlx_model *const m = ctx->model;
    const rlx_handle *h = ctx->handles;
    int can = m->device == NULL || m->device->queues;
    uint32_t i;
    for (i = 0; i < ctx->n_handles && can; i++, h = h->next)
        if (rlx_follows(ctx, h))
            can = h->output < m->n_outputs &&
                  (m->output_sizes == NULL || m->output_sizes[h->output] == (size_t)-1);
    return can;
}

// Starts a run on what is in the input slots, takes them, and returns; on targets whose device is the CPU the
// run has ended by then. More runs may be committed before rlx_sync. They begin in this order, each on the
// inputs, parameters, symbols and states that there were at its commit. On CUDA, where the inputs of a run
// have 64 KB together at most, a commit copies them and waits for nothing but, where two runs are under way,
// for the end of the first; of larger inputs it waits until the device has them. Elsewhere a commit that
// finds a run under way waits for its end, as it does where a handle gives an input what it takes from an
// output that --handle holds, or whose size the model computes.
// Between a commit and rlx_sync inputs, parameters, symbols and states may be written, for the next run (all
// inputs: runs consume them), and rlx_is_done called; outputs are not read. After rlx_sync they are those of
// the last run. Once a run has failed, those after it are left out until rlx_sync: states are as they were
// before it, and outputs mean nothing. A status other than RLX_OK here: nothing was committed. What becomes
// of the runs is said by rlx_sync and rlx_failed_run.
static inline rlx_status rlx_commit(rlx_ctx *ctx)
{
    const rlx_status ready = rlx_check_ready(ctx);
    if (ready != RLX_OK)
        return ready;
    if (ctx->committed == 0)
        ctx->failed_run = 0;
    else if (!rlx_can_queue(ctx))
        rlx_await_run(ctx);
    else if (ctx->pending != RLX_OK)
        rlx_settle(ctx);
    ctx->committed++;
    if (ctx->pending == RLX_OK) {
        rlx_keep_status(ctx, rlx_begin_run(ctx));
    } else { // left out
        rlx_time_begin(ctx);
        rlx_time_given(ctx);
        rlx_time_end(ctx, ctx->pending);
    }
    return RLX_OK;
}

// Waits for what was committed: the first error of these runs, RLX_OK when there was none.
static inline rlx_status rlx_sync(rlx_ctx *ctx)
{
    rlx_status status;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (ctx->committed == 0)
        ctx->failed_run = 0;
    rlx_await_run(ctx);
    if (ctx->committed != 0)
        ctx->has_run = ctx->pending == RLX_OK;
    status = rlx_tell_kept(ctx, ctx->pending);
    ctx->pending = RLX_OK;
    ctx->committed = 0;
    return status;
}

// The run whose status the last rlx_sync gave: 0 the first one that was committed after the rlx_sync before
// it; -1: none has failed. Until the next rlx_commit or rlx_sync. Where a device as such fails, it is the
// first run that was under way.
static inline int64_t rlx_failed_run(const rlx_ctx *ctx)
{
    return ctx == NULL ? -1 : (int64_t)ctx->failed_run - 1;
}

// Would rlx_sync return at once?
static inline int rlx_is_done(rlx_ctx *ctx)
{
    const rlx_device *d = ctx == NULL || ctx->model == NULL ? NULL : ctx->model->device;
    int is_done = 1;
    if (d == NULL || d->start == NULL)
        return 1;
    if (d->wait(ctx, RLX_WAIT_OUTPUTS, &is_done) != RLX_OK)
        return 1;
    if (is_done)
        rlx_time_ends(ctx, 0, RLX_OK);
    return is_done;
}

// --- copies of contexts ---

// A context of its own on other blocks, with the parameters, states and handles that `from` has now. The
// weights are shared; a pool of threads, or a parallel_for, is not, nor what rlx_set_error has set.
// RLX_ERR_OVERLAP: a block overlaps one of `from`; both contexts are as they were.
static inline rlx_status rlx_clone(rlx_ctx *ctx, const rlx_ctx *from, void *arena, size_t arena_bytes,
                                   void *state, size_t state_bytes)
{
    rlx_status status;
    size_t bytes;
    uint32_t i;
    if (ctx == NULL || from == NULL || from->model == NULL || ctx == from)
        return RLX_ERR_NULL;
    if (rlx_uses(from, arena, from->model->arena_bytes) || rlx_uses(from, state, from->model->state_bytes))
        return rlx_fail(from, RLX_ERR_OVERLAP, RLX_ABOUT_CALL, NULL, 0, 0);
    status = rlx_bind(
        ctx, from->model, from->ordinal, arena, arena_bytes, state, state_bytes,
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
        if (from->model->device != NULL)
            status = rlx_get_state(from, from->model->params[i].offset, from->model->params[i].bytes);
    if (status != RLX_OK) {
        rlx_close(ctx);
        return status;
    }
    if (bytes != 0)
        memcpy(ctx->state, from->state, bytes);
    ctx->model = from->model;
    ctx->pinned = from->pinned;
    for (i = 0; i < from->model->n_params && from->model->device != NULL; i++) // the device prepares anew
        if (ctx->state[from->model->flags_offset + i] == 2)
            ctx->state[from->model->flags_offset + i] = 1;
    return rlx_put_state(ctx, 0, bytes);
}

#ifdef __cplusplus
}
#endif

#endif
