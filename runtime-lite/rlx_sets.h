// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: runs that compute some of the outputs (--output-set).
#ifndef RLX_SETS_H
#define RLX_SETS_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

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
        return rlx_fail(ctx, RLX_ERR_SLOT, RLX_ABOUT_SET, NULL, (int64_t)ctx->model->n_sets, (int64_t)set);
    ctx->outputs = set + 1u;
    status = rlx_run(ctx);
    ctx->outputs = 0;
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
