// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: looking inside a model: values by name, memory that may be lent out. Of models with --keep,
// and of all with --api full.
#ifndef RLX_LOOK_H
#define RLX_LOOK_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- values by name -----------------------------------------------------------------------------

// An input, output, state, parameter or kept value (--keep NAME) by its name. NULL: there is none.
static inline const rlx_tensor *rlx_find_value(const rlx_model *m, const char *name, int *in_state)
{
    int slot;
    if (m == NULL || name == NULL)
        return NULL;
    if (in_state != NULL)
        *in_state = 0;
    if ((slot = rlx_find(m->kept, m->n_kept, name)) >= 0)
        return &m->kept[slot];
    if ((slot = rlx_find(m->outputs, m->n_outputs, name)) >= 0)
        return &m->outputs[slot];
    if ((slot = rlx_find(m->inputs, m->n_inputs, name)) >= 0)
        return &m->inputs[slot];
    if (in_state != NULL)
        *in_state = 1;
    if ((slot = rlx_find(m->held, m->n_held, name)) >= 0)
        return &m->held[slot];
    if ((slot = rlx_find(m->states, m->n_states, name)) >= 0)
        return &m->states[slot];
    slot = rlx_find(m->params, m->n_params, name);
    return slot >= 0 ? &m->params[slot] : NULL;
}

// Its memory: of outputs and kept values after a run, of inputs before one. Of a state on a device a copy,
// as it is now.
static inline void *rlx_value_data(const rlx_ctx *ctx, const char *name)
{
    int in_state = 0;
    const rlx_tensor *t = rlx_find_value(ctx == NULL ? NULL : ctx->model, name, &in_state);
    if (t != NULL && in_state && rlx_get_state(ctx, t->offset, t->bytes) != RLX_OK)
        return NULL;
    return t == NULL ? NULL : (in_state ? ctx->state : ctx->arena) + t->offset;
}

// --- memory between runs ------------------------------------------------------------------------

// The part of the arena that nothing lasting is in between runs: inputs, outputs and kept values lie beside
// it. Other work may use it from the end of a run to the start of the next one, or to the first row of its
// input; a run does not care what is there. *bytes gets its size.
static inline void *rlx_scratch(const rlx_ctx *ctx, size_t *bytes)
{
    if (ctx == NULL || ctx->model == NULL || bytes == NULL)
        return NULL;
    *bytes = ctx->model->scratch_bytes;
#if RLX_HAS_ROWS
    if (ctx->n_fed != 0)
        *bytes = 0;
#endif
    return *bytes != 0 ? ctx->arena + ctx->model->scratch_offset : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
