// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Mixtures of experts: where the weights of experts are read, which experts the router chose, and how often.
// Only models with grouped products have this.
//
// A layer is all products whose rows go to experts by the same index. The packed weights of experts are one
// block of NAME_MOE_BYTES bytes, in one of two places (--moe-resident):
//   all   They are the end of the weights, from byte NAME_MOE_OFFSET on, where resident experts are read.
//         All are resident at first. One that is not is read at the same place of the source
//         (rlx_set_moe_source): the same bytes in other memory, such as a mapping of the weights' file;
//         without a source there is only one place.
//   N     They are the file NAME.experts, which the program maps: the source, without which nothing runs. The
//         program also has memory for N slots, the pool, and copies experts there (rlx_moe_load). An expert
//         is resident when it has a slot and its mask says so.
// A device (--target cuda ...) has the weights and the slots in its own memory. It reads resident experts
// there, and with --moe-resident N the host copies the others to it, from the source, in the middle of each
// run. Without, all are there: masks and sources count, and are not read.
// An expert has as many parts as its products read arrays: weights in blocks and in quantised groups
// (block_grouped_matmul, affine_grouped_matmul) are one on a device, and on the CPU may be several (bits,
// scales, minimums ...). A slot holds all parts of one expert of any layer. Layers whose weights are no
// constants have masks, captures and statistics, in which experts are resident as the mask says; no slots.
// Masks, sources, slots and captures change no result by a single bit, only statistics and where weights are
// read. Calls check everything; runs check nothing. All of this is kept in the state block: rlx_clone copies
// it, so that a clone reads the same source and pool (give it a pool of its own before loading into it), and
// all buckets of a model have it in common. Rows beyond the sizes of a run count as rows without an expert.
#ifndef RLX_MOE_H
#define RLX_MOE_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

// An array of weights that one product reads.
typedef struct rlx_moe_part {
    size_t offset, stride; // bytes: of expert 0 from the beginning of the source; from expert to expert
    size_t table;          // in the state block: by expert the address of another copy (uint64_t), or 0
    size_t slot;           // in a slot: where the expert's weights are
    uint32_t width;        // bytes of an element
} rlx_moe_part;

typedef struct rlx_moe_layer {
    const char *name;
    uint32_t n_experts, rows; // rows: choices of a run, at its largest sizes
    uint32_t per_token;       // of one token: neighbours
    uint32_t first_part, n_parts;
    size_t choices;   // in the arena, at the end of a run: int32_t by row, -1: no expert
    size_t page;      // in the state block, see rlx_moe_page
    uint32_t skipped; // bit s: runs of output set s do not compute it
} rlx_moe_layer;

typedef struct rlx_moe {
    uint32_t n_layers;
    const rlx_moe_layer *layers;
    const rlx_moe_part *parts;
    size_t bytes;      // of all experts
    size_t head;       // in the state block, see rlx_moe_head
    uint32_t slots;    // 0: experts are in the weights
    size_t slot_bytes; // a multiple of RLX_ALIGNMENT
    size_t begin;      // of this model's experts, in the weights or in the source
    size_t pool;       // on a device with slots: where they are in its memory
    uint64_t hash;     // with slots: the seal of the file of experts; `bytes` counts it
} rlx_moe;

typedef struct rlx_moe_stats {
    uint64_t runs;
    uint64_t tokens;   // that went to at least one expert
    uint64_t rows;     // choices: tokens times experts per token, where all are valid
    uint64_t resident; // groups (experts with rows, in each run) that were read as resident
    uint64_t away;     // and the others
    // The same by residency, of what was away: rows whose expert was, and tokens that went to one such
    // expert at least. `rows - rows_away` choices, `tokens - tokens_away` tokens needed resident ones only.
    uint64_t rows_away, tokens_away;
} rlx_moe_stats;

// What the state block has for all layers, and at the begin of a layer's page (64 bytes). After that come
// the bits of
// experts that are masked out, as many bits of scratch, the slots of experts (uint32_t, 1 + slot or 0), and
// the captured choices (int32_t).
typedef struct rlx_moe_head {
    uint64_t source, pool; // addresses, 0: none
    uint64_t captures;
    // On a device: runs that have started and not been counted; 1 + the layer whose experts it has beside the
    // slots; the state block of the context whose slots are filled (a clone's are not, until its first run).
    uint64_t running, held, filled;
} rlx_moe_head;

typedef struct rlx_moe_page {
    rlx_moe_stats stats;
    uint64_t captured; // rows
} rlx_moe_page;

static inline size_t rlx_moe_mask_bytes(const rlx_moe_layer *l)
{
    return ((size_t)l->n_experts + 7u) / 8u;
}

static inline unsigned char *rlx_moe_masked(const rlx_ctx *ctx, const rlx_moe_layer *l)
{
    return ctx->state + l->page + 64;
}

static inline unsigned char *rlx_moe_slots(const rlx_ctx *ctx, const rlx_moe_layer *l)
{
    return ctx->state + l->page + 64 + (2 * rlx_moe_mask_bytes(l) + 3u) / 4u * 4u;
}

static inline unsigned char *rlx_moe_captured(const rlx_ctx *ctx, const rlx_moe_layer *l)
{
    return rlx_moe_slots(ctx, l) + (size_t)l->n_experts * sizeof(uint32_t);
}

static inline rlx_moe_head rlx_moe_get_head(const rlx_ctx *ctx)
{
    rlx_moe_head head;
    memcpy(&head, ctx->state + ctx->model->moe->head, sizeof head);
    return head;
}

static inline void rlx_moe_set_head(const rlx_ctx *ctx, const rlx_moe_head *head)
{
    memcpy(ctx->state + ctx->model->moe->head, head, sizeof *head);
}

static inline rlx_moe_page rlx_moe_get_page(const rlx_ctx *ctx, const rlx_moe_layer *l)
{
    rlx_moe_page page;
    memcpy(&page, ctx->state + l->page, sizeof page);
    return page;
}

static inline void rlx_moe_set_page(const rlx_ctx *ctx, const rlx_moe_layer *l, const rlx_moe_page *page)
{
    memcpy(ctx->state + l->page, page, sizeof *page);
}

static inline uint32_t rlx_moe_slot_of(const rlx_ctx *ctx, const rlx_moe_layer *l, uint32_t expert)
{
    uint32_t slot;
    memcpy(&slot, rlx_moe_slots(ctx, l) + (size_t)expert * sizeof slot, sizeof slot);
    return slot;
}

static inline int rlx_moe_is_resident(const rlx_ctx *ctx, const rlx_moe_layer *l, uint32_t expert)
{
    if ((rlx_moe_masked(ctx, l)[expert / 8u] >> (expert % 8u) & 1) != 0)
        return 0;
    return ctx->model->moe->slots == 0 || l->n_parts == 0 || rlx_moe_slot_of(ctx, l, expert) != 0;
}

// Writes the tables of a layer: where its products read each expert. A device reads none of the host's memory
// (rlx_moe_gpu.h).
static inline void rlx_moe_write_tables(const rlx_ctx *ctx, const rlx_moe_layer *l)
{
    const rlx_moe *m = ctx->model->moe;
    const rlx_moe_head head = rlx_moe_get_head(ctx);
    uint32_t i, e;
#if RLX_HAS_DEVICE
    if (ctx->model->device != NULL)
        return;
#endif
    for (i = 0; i < l->n_parts; i++)
        for (e = 0; e < l->n_experts; e++) {
            const rlx_moe_part *p = &m->parts[l->first_part + i];
            const int is_resident = rlx_moe_is_resident(ctx, l, e);
            uint64_t at = 0;
            if (m->slots != 0 && is_resident)
                at = head.pool + (uint64_t)(rlx_moe_slot_of(ctx, l, e) - 1u) * m->slot_bytes + p->slot;
            else if (m->slots == 0 && !is_resident && head.source != 0)
                at = head.source + p->offset + (uint64_t)e * p->stride;
            memcpy(ctx->state + p->table + (size_t)e * sizeof at, &at, sizeof at);
        }
}

static inline void rlx_moe_write_all_tables(const rlx_ctx *ctx)
{
    uint32_t i;
    for (i = 0; i < ctx->model->moe->n_layers; i++)
        rlx_moe_write_tables(ctx, &ctx->model->moe->layers[i]);
}

// The experts of a model with slots in its source, for the generated code. NULL: there is none, and nothing
// can run.
static inline const unsigned char *rlx_moe_source(const rlx_ctx *ctx)
{
    const uint64_t source = rlx_moe_get_head(ctx).source;
    return source == 0 ? NULL : (const unsigned char *)(uintptr_t)source + ctx->model->moe->begin;
}

// The weights of an expert that a product reads.
static inline const unsigned char *rlx_moe_expert(const rlx_ctx *ctx, const rlx_moe_part *p, uint32_t expert)
{
    return rlx_moe_source(ctx) + p->offset + (size_t)expert * p->stride;
}

// RLX_ERR_NULL: no context, or a model without experts; RLX_ERR_RANGE: no such layer. Runs that were
// committed have ended when it returns: they count, with the masks of their commit.
static inline rlx_status rlx_moe_find(const rlx_ctx *ctx, uint32_t layer)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (ctx->model->moe == NULL)
        return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_CALL, NULL, 0, 1);
#if RLX_HAS_QUEUE
    rlx_settle(ctx);
#endif
    return layer < ctx->model->moe->n_layers
               ? RLX_OK
               : rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_LAYER, NULL, (int64_t)ctx->model->moe->n_layers - 1,
                          (int64_t)layer);
}

// The experts' bytes in memory of the caller, which must stay there and hold exactly them: RLX_ERR_WEIGHTS
// for another size, and for a file of experts with the seal of another compile. NULL and 0 bytes: no source
// any more.
static inline rlx_status rlx_set_moe_source(rlx_ctx *ctx, const void *data, size_t bytes)
{
    rlx_moe_head head;
    if (rlx_moe_find(ctx, 0) != RLX_OK)
        return RLX_ERR_NULL;
    if (bytes != (data != NULL ? ctx->model->moe->bytes : 0))
        return rlx_fail(ctx, RLX_ERR_WEIGHTS, RLX_ABOUT_EXPERTS, NULL,
                        data != NULL ? (int64_t)ctx->model->moe->bytes : 0, (int64_t)bytes);
    if ((uintptr_t)data % RLX_ALIGNMENT != 0)
        return rlx_fail(ctx, RLX_ERR_ALIGNMENT, RLX_ABOUT_EXPERTS, NULL, 0, 0);
    if (data != NULL && ctx->model->moe->slots != 0 &&
        !rlx_is_seal((const unsigned char *)data + bytes - RLX_SEAL_BYTES, ctx->model->moe->hash))
        return rlx_fail(ctx, RLX_ERR_WEIGHTS, RLX_ABOUT_EXPERTS, NULL, 0, 0);
    head = rlx_moe_get_head(ctx);
    head.source = (uint64_t)(uintptr_t)data;
    rlx_moe_set_head(ctx, &head);
    rlx_moe_write_all_tables(ctx);
    return RLX_OK;
}

// Are all bytes of a file of experts (--moe-resident N) those that the model was compiled with? This reads
// all of them; rlx_set_moe_source compares the seal only. Where experts are weights: RLX_ERR_WEIGHTS.
static inline rlx_status rlx_check_moe_source(const rlx_model *model, const void *data, size_t bytes)
{
    if (model == NULL || model->moe == NULL || data == NULL)
        return RLX_ERR_NULL;
    if (model->moe->slots == 0 || bytes != model->moe->bytes ||
        rlx_hash(data, bytes - RLX_SEAL_BYTES) != model->moe->hash)
        return RLX_ERR_WEIGHTS;
    return RLX_OK;
}

// Bit e % 8 of byte e / 8 of the mask: is expert e of the layer resident? As many bytes as hold the experts
// of the layer, else RLX_ERR_SIZE; NULL and 0 bytes: all.
static inline rlx_status rlx_set_moe_resident_layer(rlx_ctx *ctx, uint32_t layer, const unsigned char *mask,
                                                    size_t bytes)
{
    const rlx_status status = rlx_moe_find(ctx, layer);
    const rlx_moe_layer *l;
    size_t i;
    if (status != RLX_OK)
        return status;
    l = &ctx->model->moe->layers[layer];
    if (bytes != (mask != NULL ? rlx_moe_mask_bytes(l) : 0))
        return rlx_fail_size(ctx, RLX_ABOUT_MASK, NULL, mask != NULL ? rlx_moe_mask_bytes(l) : 0, bytes);
    for (i = 0; i < rlx_moe_mask_bytes(l); i++)
        rlx_moe_masked(ctx, l)[i] = mask != NULL ? (unsigned char)~mask[i] : (unsigned char)0;
    rlx_moe_write_tables(ctx, l);
    return RLX_OK;
}

// One mask for all layers: as many bytes as hold the experts of the layer with the most (else RLX_ERR_SIZE),
// of which a layer with fewer takes the first ones. NULL and 0 bytes: all.
static inline rlx_status rlx_set_moe_resident(rlx_ctx *ctx, const unsigned char *mask, size_t bytes)
{
    const rlx_moe *m;
    size_t most = 0;
    uint32_t i;
    if (rlx_moe_find(ctx, 0) != RLX_OK)
        return RLX_ERR_NULL;
    m = ctx->model->moe;
    for (i = 0; i < m->n_layers; i++)
        if (rlx_moe_mask_bytes(&m->layers[i]) > most)
            most = rlx_moe_mask_bytes(&m->layers[i]);
    if (bytes != (mask != NULL ? most : 0))
        return rlx_fail_size(ctx, RLX_ABOUT_MASK, NULL, mask != NULL ? most : 0, bytes);
    for (i = 0; i < m->n_layers; i++)
        (void)rlx_set_moe_resident_layer(ctx, i, mask, mask != NULL ? rlx_moe_mask_bytes(&m->layers[i]) : 0);
    return RLX_OK;
}

// --- slots (--moe-resident N) --------------------------------------------------------------------

// Memory for the slots, NAME_MOE_POOL_BYTES at least; all slots are empty then. NULL and 0 bytes: none. A
// device has memory of its own for them, and leaves this alone.
static inline rlx_status rlx_set_moe_pool(rlx_ctx *ctx, void *memory, size_t bytes)
{
    const rlx_moe *m;
    rlx_moe_head head;
    uint32_t i;
    if (rlx_moe_find(ctx, 0) != RLX_OK)
        return RLX_ERR_NULL;
    m = ctx->model->moe;
    if (m->slots == 0)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_EXPERT_SLOT, NULL, 0, 0);
    if (memory == NULL ? bytes != 0 : bytes / m->slots < m->slot_bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_POOL, NULL, memory == NULL ? 0 : m->slots * m->slot_bytes, bytes);
    if ((uintptr_t)memory % RLX_ALIGNMENT != 0)
        return rlx_fail(ctx, RLX_ERR_ALIGNMENT, RLX_ABOUT_POOL, NULL, 0, 0);
    head = rlx_moe_get_head(ctx);
    head.pool = (uint64_t)(uintptr_t)memory;
    head.filled = (uint64_t)(uintptr_t)ctx->state;
    rlx_moe_set_head(ctx, &head);
    for (i = 0; i < m->n_layers; i++)
        memset(rlx_moe_slots(ctx, &m->layers[i]), 0, (size_t)m->layers[i].n_experts * sizeof(uint32_t));
    rlx_moe_write_all_tables(ctx);
    return RLX_OK;
}

// Takes a slot from whoever has it.
static inline void rlx_moe_empty_slot(const rlx_ctx *ctx, uint32_t slot)
{
    const rlx_moe *m = ctx->model->moe;
    const uint32_t none = 0;
    uint32_t i, e;
    for (i = 0; i < m->n_layers; i++)
        for (e = 0; e < m->layers[i].n_experts; e++)
            if (rlx_moe_slot_of(ctx, &m->layers[i], e) == slot + 1u) {
                memcpy(rlx_moe_slots(ctx, &m->layers[i]) + (size_t)e * sizeof none, &none, sizeof none);
                rlx_moe_write_tables(ctx, &m->layers[i]);
            }
}

// Copies an expert's weights from the source into a slot of the pool, which another one loses. RLX_ERR_SLOT:
// no such slot, or a layer whose weights are no constants; RLX_ERR_RANGE: no such layer or expert;
// RLX_ERR_WEIGHTS: no source or no pool.
static inline rlx_status rlx_moe_load(rlx_ctx *ctx, uint32_t layer, uint32_t expert, uint32_t slot)
{
    rlx_status status = rlx_moe_find(ctx, layer);
    const rlx_moe *m;
    const rlx_moe_layer *l;
    rlx_moe_head head;
    uint32_t i;
    if (status != RLX_OK)
        return status;
    m = ctx->model->moe;
    l = &m->layers[layer];
    if (slot >= m->slots)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_EXPERT_SLOT, NULL, (int64_t)m->slots, (int64_t)slot);
    if (l->n_parts == 0)
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_LAYER, l->name, 0, 0);
    if (expert >= l->n_experts)
        return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_EXPERT, NULL, (int64_t)l->n_experts - 1,
                        (int64_t)expert);
    head = rlx_moe_get_head(ctx);
    if (head.source == 0 || head.pool == 0)
        return rlx_fail(ctx, RLX_ERR_WEIGHTS, RLX_ABOUT_CALL, NULL, 0, 0);
    rlx_moe_empty_slot(ctx, slot);
    for (i = 0; i < l->n_parts && status == RLX_OK; i++) {
        const rlx_moe_part *p = &m->parts[l->first_part + i];
        const size_t at = (size_t)slot * m->slot_bytes + p->slot;
#if RLX_HAS_DEVICE
        if (ctx->model->device != NULL)
            status = ctx->model->device->bring(ctx, m->pool + at, rlx_moe_expert(ctx, p, expert), p->stride);
        else
            memcpy((unsigned char *)(uintptr_t)head.pool + at, rlx_moe_expert(ctx, p, expert), p->stride);
#else
        memcpy((unsigned char *)(uintptr_t)head.pool + at, rlx_moe_expert(ctx, p, expert), p->stride);
#endif
    }
    if (status != RLX_OK)
        return status;
    slot++;
    memcpy(rlx_moe_slots(ctx, l) + (size_t)expert * sizeof slot, &slot, sizeof slot);
    rlx_moe_write_tables(ctx, l);
    return RLX_OK;
}

// --- the router ----------------------------------------------------------------------------------

// on: from now on, each run keeps what its routers chose. off: what was kept is forgotten.
static inline rlx_status rlx_moe_capture(rlx_ctx *ctx, int on)
{
    rlx_moe_head head;
    uint32_t i;
    if (rlx_moe_find(ctx, 0) != RLX_OK)
        return RLX_ERR_NULL;
    head = rlx_moe_get_head(ctx);
    head.captures = on != 0;
    rlx_moe_set_head(ctx, &head);
    for (i = 0; i < ctx->model->moe->n_layers && !on; i++) {
        rlx_moe_page page = rlx_moe_get_page(ctx, &ctx->model->moe->layers[i]);
        page.captured = 0;
        rlx_moe_set_page(ctx, &ctx->model->moe->layers[i], &page);
    }
    return RLX_OK;
}

// The choices of the last run that computed the layer and kept them: `count` experts, -1 for none, those of a
// token next to each other; in the state block, until the next run. They are as many as at the largest sizes
// (of the bucket), and those beyond the sizes of the run are -1. NULL: no such layer, or nothing kept.
static inline const int32_t *rlx_moe_choices(const rlx_ctx *ctx, uint32_t layer, size_t *count)
{
    const rlx_moe_layer *l;
    uint64_t captured;
    if (rlx_moe_find(ctx, layer) != RLX_OK)
        return NULL;
    l = &ctx->model->moe->layers[layer];
    captured = rlx_moe_get_page(ctx, l).captured;
    if (captured == 0)
        return NULL;
    if (count != NULL)
        *count = (size_t)captured;
    return (const int32_t *)(const void *)rlx_moe_captured(ctx, l);
}

// Sums over all runs since rlx_init or rlx_moe_reset_stats that gave RLX_OK and computed the layer.
static inline rlx_status rlx_moe_get_stats(const rlx_ctx *ctx, uint32_t layer, rlx_moe_stats *stats)
{
    const rlx_status status = rlx_moe_find(ctx, layer);
    if (status != RLX_OK)
        return status;
    if (stats == NULL)
        return rlx_fail_null(ctx);
    *stats = rlx_moe_get_page(ctx, &ctx->model->moe->layers[layer]).stats;
    return RLX_OK;
}

static inline rlx_status rlx_moe_reset_stats(rlx_ctx *ctx)
{
    uint32_t i;
    if (rlx_moe_find(ctx, 0) != RLX_OK)
        return RLX_ERR_NULL;
    for (i = 0; i < ctx->model->moe->n_layers; i++)
        memset(ctx->state + ctx->model->moe->layers[i].page, 0, sizeof(rlx_moe_stats));
    return RLX_OK;
}

static inline void rlx_moe_count(const rlx_ctx *ctx, const rlx_moe_layer *l, rlx_moe_stats *s)
{
    unsigned char *const seen = rlx_moe_masked(ctx, l) + rlx_moe_mask_bytes(l);
    uint32_t r, token = 0, token_away = 0;
    memset(seen, 0, rlx_moe_mask_bytes(l));
    for (r = 0; r < l->rows; r++) {
        const uint32_t own = r / l->per_token + 1u;
        int is_away, is_first;
        int32_t e;
        memcpy(&e, ctx->arena + l->choices + (size_t)r * sizeof e, sizeof e);
        if (e < 0)
            continue;
        is_away = !rlx_moe_is_resident(ctx, l, (uint32_t)e);
        is_first = (seen[e / 8] >> (e % 8) & 1) == 0;
        seen[e / 8] = (unsigned char)(seen[e / 8] | 1u << (e % 8));
        s->rows++;
        s->tokens += token != own;
        s->rows_away += is_away ? 1u : 0u;
        s->tokens_away += is_away && token_away != own;
        s->resident += is_first && !is_away;
        s->away += is_first && is_away;
        token = own;
        token_away = is_away ? own : token_away;
    }
}

// For the generated code, at the end of a run.
static inline void rlx_moe_note(const rlx_ctx *ctx)
{
    const rlx_moe *m = ctx->model->moe;
    const uint64_t captures = rlx_moe_get_head(ctx).captures;
    uint32_t i;
    for (i = 0; i < m->n_layers; i++) {
        const rlx_moe_layer *l = &m->layers[i];
        rlx_moe_page page = rlx_moe_get_page(ctx, l);
        if (ctx->outputs != 0 && (l->skipped >> (ctx->outputs - 1u) & 1) != 0)
            continue;
        page.stats.runs++;
        rlx_moe_count(ctx, l, &page.stats);
        if (captures != 0)
            memcpy(rlx_moe_captured(ctx, l), ctx->arena + l->choices, (size_t)l->rows * sizeof(int32_t));
        page.captured = captures != 0 ? l->rows : 0u;
        rlx_moe_set_page(ctx, l, &page);
    }
}

#ifdef __cplusplus
}
#endif

#endif
