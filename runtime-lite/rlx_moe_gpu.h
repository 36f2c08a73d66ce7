// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Mixtures of experts on a device: runs are counted when they have ended, and with --moe-resident N the host
// brings what the router chose. Pasted after rlx_gpu.h for models with grouped products.
//
// The device has memory for N slots, and after them for as many experts as one layer can choose in a run.
// Before the first product of a layer a run waits for its router; the host reads the choices, copies the
// chosen experts that have no slot behind the slots, and writes the layer's tables: where each of them
// begins, in elements.
#ifndef RLX_MOE_GPU_H
#define RLX_MOE_GPU_H

#include "rlx_gpu.h"
#include "rlx_moe.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- counting ------------------------------------------------------------------------------------

// Before a run. RLX_ERR_WEIGHTS: it would find no experts.
static inline rlx_status rlx_moe_begin(const rlx_ctx *ctx)
{
    rlx_moe_head head = rlx_moe_get_head(ctx);
    if (ctx->model->moe->slots != 0 && head.source == 0)
        return RLX_ERR_WEIGHTS;
    head.held = 0;
    rlx_moe_set_head(ctx, &head);
    return RLX_OK;
}

// Runs may end long after they have started: what rlx_device.start has returned, and wait.
static inline rlx_status rlx_moe_started(const rlx_ctx *ctx, rlx_status status)
{
    rlx_moe_head head = rlx_moe_get_head(ctx);
    head.running += status == RLX_OK;
    rlx_moe_set_head(ctx, &head);
    return status;
}

static inline rlx_status rlx_moe_ended(const rlx_ctx *ctx, rlx_status status)
{
    rlx_moe_head head = rlx_moe_get_head(ctx);
    if (head.running == 0)
        return status;
    head.running--;
    rlx_moe_set_head(ctx, &head);
    if (status == RLX_OK)
        rlx_moe_note(ctx);
    return status;
}

// --- fetching ------------------------------------------------------------------------------------

// Copies an expert to a place: a slot, or one behind them.
static inline rlx_status rlx_moe_put(const rlx_gpu_frame *f, const rlx_moe_layer *l, uint32_t expert,
                                     uint32_t place)
{
    const rlx_moe *m = f->ctx->model->moe;
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = 0; i < l->n_parts && status == RLX_OK; i++) {
        const rlx_moe_part *p = &m->parts[l->first_part + i];
        status = f->driver->write(f->self, f->memory + m->pool + (uint64_t)place * m->slot_bytes + p->slot,
                                  rlx_moe_expert(f->ctx, p, expert), p->stride);
    }
    return status;
}

// The slots of a clone get what those of the other context have.
static inline rlx_status rlx_moe_fill(const rlx_gpu_frame *f)
{
    const rlx_moe *m = f->ctx->model->moe;
    rlx_moe_head head = rlx_moe_get_head(f->ctx);
    rlx_status status = RLX_OK;
    uint32_t i, e;
    if (head.filled == (uint64_t)(uintptr_t)f->ctx->state)
        return RLX_OK;
    for (i = 0; i < m->n_layers; i++)
        for (e = 0; e < m->layers[i].n_experts && status == RLX_OK; e++) {
            const uint32_t slot = rlx_moe_slot_of(f->ctx, &m->layers[i], e);
            if (slot != 0)
                status = rlx_moe_put(f, &m->layers[i], e, slot - 1u);
        }
    head.filled = (uint64_t)(uintptr_t)f->ctx->state;
    if (status == RLX_OK)
        rlx_moe_set_head(f->ctx, &head);
    return status;
}

static inline void rlx_moe_set_place(const rlx_gpu_frame *f, const rlx_moe_layer *l, uint32_t expert,
                                     uint32_t place)
{
    const rlx_moe *m = f->ctx->model->moe;
    uint32_t i;
    for (i = 0; i < l->n_parts; i++) {
        const rlx_moe_part *p = &m->parts[l->first_part + i];
        const uint64_t at = ((uint64_t)place * m->slot_bytes + p->slot) / p->width;
        memcpy(f->ctx->state + p->table + (size_t)expert * sizeof at, &at, sizeof at);
    }
}

// Brings what the choices in the arena block name, each once.
static inline rlx_status rlx_moe_bring(const rlx_gpu_frame *f, const rlx_moe_layer *l)
{
    const rlx_moe *m = f->ctx->model->moe;
    unsigned char *const seen = rlx_moe_masked(f->ctx, l) + rlx_moe_mask_bytes(l);
    rlx_status status = RLX_OK;
    uint32_t r, next = m->slots;
    memset(seen, 0, rlx_moe_mask_bytes(l));
    for (r = 0; r < l->rows && status == RLX_OK; r++) {
        int32_t e;
        memcpy(&e, f->ctx->arena + l->choices + (size_t)r * sizeof e, sizeof e);
        if (e < 0 || (uint32_t)e >= l->n_experts || (seen[e / 8] >> (e % 8) & 1) != 0)
            continue;
        seen[e / 8] = (unsigned char)(seen[e / 8] | 1u << (e % 8));
        if (rlx_moe_is_resident(f->ctx, l, (uint32_t)e)) {
            rlx_moe_set_place(f, l, (uint32_t)e, rlx_moe_slot_of(f->ctx, l, (uint32_t)e) - 1u);
            continue;
        }
        status = rlx_moe_put(f, l, (uint32_t)e, next);
        rlx_moe_set_place(f, l, (uint32_t)e, next++);
    }
    return status;
}

// rlx_gpu_program.experts: before each product of a layer.
static inline rlx_status rlx_moe_fetch(const rlx_gpu_frame *f, uint32_t layer)
{
    const rlx_moe *m = f->ctx->model->moe;
    const rlx_moe_layer *l = &m->layers[layer];
    rlx_moe_head head = rlx_moe_get_head(f->ctx);
    rlx_status status;
    uint32_t i;
    if (head.held == layer + 1u)
        return RLX_OK;
    status = f->driver->read(f->self, f->ctx->arena + l->choices,
                             f->base[RLX_GPU_ARENA] + f->program->block + l->choices,
                             (size_t)l->rows * sizeof(int32_t));
    if (status == RLX_OK)
        status = f->driver->wait(f->self);
    if (status == RLX_OK)
        status = rlx_moe_fill(f);
    if (status == RLX_OK)
        status = rlx_moe_bring(f, l);
    for (i = 0; i < l->n_parts && status == RLX_OK; i++) {
        const size_t table = m->parts[l->first_part + i].table;
        status = f->driver->write(f->self, f->base[RLX_GPU_STATE] + table, f->ctx->state + table,
                                  (size_t)l->n_experts * sizeof(uint64_t));
    }
    head = rlx_moe_get_head(f->ctx);
    head.held = layer + 1u;
    if (status == RLX_OK)
        rlx_moe_set_head(f->ctx, &head);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
