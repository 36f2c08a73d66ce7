// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: arenas in several blocks, one for each bank of RAM (--bank). Of models with several of them.
#ifndef RLX_BANKS_H
#define RLX_BANKS_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

// A block of the caller: the part of the arena that lies in one bank.
typedef struct rlx_bank {
    void *data; // NULL: the model needs nothing of this bank
    size_t bytes;
} rlx_bank;

// What a model needs of them, and which one inputs and outputs are in.
typedef struct rlx_bank_table {
    uint32_t n, first;
    const size_t *bytes;
} rlx_bank_table;

static inline rlx_status rlx_check_bank(const rlx_bank_table *t, const rlx_bank *banks, uint32_t i,
                                        const void *state, size_t state_bytes)
{
    uint32_t k;
    if (t->bytes[i] == 0)
        return RLX_OK;
    if (banks[i].data == NULL)
        return RLX_ERR_NULL;
    if (banks[i].bytes < t->bytes[i])
        return RLX_ERR_ARENA;
    if ((uintptr_t)banks[i].data % RLX_ALIGNMENT != 0)
        return RLX_ERR_ALIGNMENT;
    if (rlx_overlap(banks[i].data, t->bytes[i], state, state_bytes))
        return RLX_ERR_OVERLAP;
    for (k = 0; k < i; k++)
        if (rlx_overlap(banks[i].data, t->bytes[i], banks[k].data, t->bytes[k]))
            return RLX_ERR_OVERLAP;
    return RLX_OK;
}

// rlx_init with a block for each bank. NAME_init_banks calls it.
static inline rlx_status rlx_init_banks(rlx_ctx *ctx, const rlx_model *model, const rlx_bank_table *t,
                                        const rlx_bank *banks, void *state, size_t state_bytes)
{
    rlx_status status = RLX_OK;
    uint32_t i;
    if (ctx == NULL || model == NULL || banks == NULL || (state == NULL && model->state_bytes != 0))
        return RLX_ERR_NULL;
    if (state_bytes < model->state_bytes)
        return RLX_ERR_ARENA;
    if ((uintptr_t)state % RLX_ALIGNMENT != 0)
        return RLX_ERR_ALIGNMENT;
    for (i = 0; i < t->n && status == RLX_OK; i++)
        status = rlx_check_bank(t, banks, i, state, model->state_bytes);
    if (status != RLX_OK)
        return status;
    if (model->weights == NULL && model->weight_bytes != 0)
        return RLX_ERR_WEIGHTS;
#if RLX_HAS_FILES
    if (!rlx_has_own_weights(model, NULL, 0))
        return RLX_ERR_WEIGHTS;
#endif
    memset(ctx, 0, sizeof *ctx);
    ctx->model = model;
    ctx->weights = (const unsigned char *)model->weights;
    ctx->arena = (unsigned char *)banks[t->first].data;
    ctx->state = (unsigned char *)state;
    for (i = 0; i < t->n; i++)
        ctx->bank[i] = (unsigned char *)banks[i].data;
#if RLX_HAS_STATE
    rlx_fill_state(ctx, model->state_bytes);
#endif
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
