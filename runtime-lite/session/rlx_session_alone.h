// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// A session with a context and caches of its own: token i has row i.
#ifndef RLX_SESSION_ALONE_H
#define RLX_SESSION_ALONE_H

#include "../rlx_run.h"
#include "../rlx_symbols.h"
#include "rlx_session_save.h"

// Runs the next n tokens, of which the last ones are drafts.
static inline rlx_status rlx_session_step(rlx_session *s, int64_t n, int64_t n_drafts)
{
    rlx_status status = rlx_set_symbol(&s->ctx, s->kind->rows, n);
    if (status == RLX_OK && s->kind->drafts != 0)
        status = rlx_set_symbol(&s->ctx, s->kind->logit_rows, 1 + n_drafts);
    int64_t *input;
    if (status == RLX_OK)
        status = rlx_set_symbol(&s->ctx, s->kind->past, s->n_run);
    input = status == RLX_OK ? (int64_t *)rlx_input(&s->ctx, 0) : NULL;
    if (input == NULL)
        return status == RLX_OK ? RLX_ERR_NULL : status;
    for (int64_t i = 0; i < n; i++)
        input[i] = s->tokens[s->n_run + i];
    s->ctx.outputs = s->has_top ? 0 : s->kind->plain;
    status = rlx_run(&s->ctx);
    s->ctx.outputs = 0;
    return status;
}

static inline int rlx_session_run_alone(rlx_session *s)
{
    const char *logits;
    s->has_logits = 0;
    rlx_session_lose_logits(s);
    s->has_top = s->draws == RLX_SESSION_FEW && s->kind->top != 0 && rlx_session_can_leave(s->kind, &s->ctx);
    s->ctx.left = rlx_session_can_leave(s->kind, &s->ctx) && (!s->draws || s->has_top);
    while (s->n_run < s->n_tokens) {
        const int64_t left = s->n_tokens - s->n_run, most = s->kind->most_rows, n = left < most ? left : most;
        const int64_t drafts = n == left ? rlx_session_drafts_of_run(s, most - n) : 0;
        const rlx_status status = rlx_session_step(s, n + drafts, drafts);
        if (status != RLX_OK)
            return rlx_session_fail(s, status);
        s->n_run += n;
        s->n_ahead = drafts;
    }
    logits = (const char *)rlx_output(&s->ctx, 0);
    if (logits == NULL) {
        s->n_ahead = 0;
        return rlx_session_fail(s, RLX_ERR_DEVICE);
    }
    rlx_session_take_logits(s, logits, 0, rlx_session_best(s->kind, &s->ctx));
    return 0;
}

static inline int64_t rlx_session_place_alone(const rlx_session *s, int64_t i, int64_t *n)
{
    *n = s->kind->cache_rows == 0 ? 1 : s->kind->cache_rows - i;
    return i;
}

static inline rlx_status rlx_session_copy_alone(rlx_session *to, rlx_session *from, int64_t n)
{
    const rlx_model *m = from->ctx.model;
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < m->n_states && status == RLX_OK; i++) {
        const rlx_tensor *t = &m->states[i];
        const size_t row = rlx_session_row(from, t), bytes = (size_t)n * row;
        for (int64_t h = 0; h < rlx_session_heads(from, t) && status == RLX_OK; h++) {
            const size_t at = t->offset + (size_t)(h * from->kind->cache_rows) * row;
            status = rlx_get_state(&from->ctx, at, bytes);
            if (status == RLX_OK)
                status = rlx_write_state_range(&to->ctx, t->name, at - t->offset, from->ctx.state + at,
                                               bytes);
        }
    }
    return status;
}

static const rlx_session_form rlx_session_alone = {
    rlx_session_run_alone, NULL, NULL, rlx_session_place_alone, rlx_session_copy_alone, NULL, 0};

static inline int rlx_session_open(rlx_session *s, const rlx_session_model *kind, void *memory, size_t bytes,
                                   const void *mapped, size_t n_mapped)
{
    char *at = (char *)memory;
    int status;
    if (s == NULL || memory == NULL)
        return RLX_SESSION_NULL;
    s->kind = NULL;
    status = rlx_session_check_block(kind, memory, bytes);
    if (status < 0)
        return status;
    s->run_status = rlx_session_init(&s->ctx, kind, &at, mapped, n_mapped);
    if (s->run_status != RLX_OK)
        return RLX_SESSION_MODEL;
    rlx_session_begin(s, kind, &at);
    s->work.memory = at;
    s->work.bytes = kind->sizes.work;
    s->kind = kind;
    return 0;
}

static inline void rlx_session_close(rlx_session *s)
{
    if (!rlx_session_is_open(s))
        return;
    rlx_close(&s->ctx);
    s->kind = NULL;
}

#endif
