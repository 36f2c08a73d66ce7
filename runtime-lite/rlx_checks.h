// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: conditions that must hold for the results of a run to mean anything. Of models that have
// some.
#ifndef RLX_CHECKS_H
#define RLX_CHECKS_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline const rlx_check *rlx_find_failed(const rlx_ctx *ctx)
{
    uint32_t i;
    for (i = 0; ctx != NULL && ctx->model != NULL && i < ctx->model->n_checks; i++) {
        const rlx_check *c = &ctx->model->checks[i];
        if ((c->in_state ? ctx->state : ctx->arena)[c->offset] == 0)
            return c;
    }
    return NULL;
}

// Right after a run that gave RLX_ERR_VALUE or RLX_ERR_RANGE: the message of the first condition that does
// not hold.
static inline const char *rlx_failed_check(const rlx_ctx *ctx)
{
    const rlx_check *c = rlx_find_failed(ctx);
    return c != NULL ? c->message : NULL;
}

// What a run ends with where a condition does not hold; else RLX_OK. (The generated code asks this once it
// has computed them, before it writes any state.)
static inline rlx_status rlx_test_checks(const rlx_ctx *ctx)
{
    const rlx_check *c = rlx_find_failed(ctx);
    return c != NULL ? c->status : RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
