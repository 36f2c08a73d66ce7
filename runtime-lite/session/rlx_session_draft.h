// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Drafts: guesses how a session goes on. They stand behind its tokens, the next run takes them along, and
// each is passed when the token that NAME_next chooses is the same. So they change how many runs a text
// takes, and not how it is chosen.
#ifndef RLX_SESSION_DRAFT_H
#define RLX_SESSION_DRAFT_H

#include "../text/rlx_lookup.h"
#include "../text/rlx_tokens.h"
#include "rlx_session.h"
#include "rlx_session_open.h"

static inline int32_t *rlx_session_free_tokens(rlx_session *s)
{
    return (int32_t *)(uintptr_t)s->tokens + s->n_tokens; // they are the session's own
}

static inline void rlx_session_drop_drafts(rlx_session *s)
{
    s->n_drafts = s->n_ahead = 0;
}

// Adds a token that was chosen. Where it is the first draft, and was run as such, the next logits are there.
static inline void rlx_session_pass(rlx_session *s, int32_t token)
{
    int32_t *const place = rlx_session_free_tokens(s);
    const int is_draft = s->n_drafts != 0 && *place == token, is_run = is_draft && s->n_ahead != 0;
    s->n_drafts = is_draft ? s->n_drafts - 1 : 0;
    s->n_ahead = is_run ? s->n_ahead - 1 : 0;
    *place = token;
    s->n_tokens++;
    s->n_run += is_run;
    s->has_logits = is_run;
    s->logits += is_run ? s->kind->sizes.logits / sizeof *s->logits : 0;
}

// Drafts that a run takes along where it ends with the last token and has room for `most` more.
static inline int64_t rlx_session_drafts_of_run(const rlx_session *s, int64_t most)
{
    return s->n_drafts < most ? s->n_drafts : most;
}

// The most likely tokens that a run has found; NULL: it has not.
static inline const int64_t *rlx_session_best(const rlx_session_model *kind, rlx_ctx *ctx)
{
    return kind->best != 0 ? (const int64_t *)rlx_output(ctx, kind->best) : NULL;
}

// Takes the logits behind the last token and behind n_ahead drafts from a run: its rows of them from number
// `row` on. best: NULL, or the most likely token by each of all rows.
static inline void rlx_session_take_logits(rlx_session *s, const char *logits, int64_t row,
                                           const int64_t *best)
{
    const size_t bytes = s->kind->sizes.logits;
    const int is_left = rlx_session_can_leave(s->kind, s->runs_on) && s->runs_on->left != 0;
    s->best = best != NULL ? (int32_t)best[row] : -1;
    s->logits = s->first_logits;
    s->away = row;
    s->n_away = is_left ? 1 + s->n_ahead : 0;
    if (!is_left)
        memcpy(s->logits, logits + (size_t)row * bytes, (size_t)(1 + s->n_ahead) * bytes);
    s->has_logits = 1;
    s->chosen = -1;
}

// tokens NULL: they are looked for in the text of the session.
static inline int64_t rlx_session_draft(rlx_session *s, const int32_t *tokens, size_t n)
{
    size_t most, of_run;
    if (!rlx_session_is_open(s))
        return RLX_SESSION_NULL;
    if (s->n_drafts != 0)
        return s->n_drafts;
    most = (size_t)(s->kind->context - s->n_tokens);
    of_run = (size_t)s->kind->drafts + (s->has_logits != 0); // which the first one does not need to be in
    most = most < of_run ? most : of_run;
    most = most < n ? most : n;
    for (size_t i = 0; tokens != NULL && i < most; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= s->kind->vocab->n_tokens)
            return RLX_TEXT_TOKEN;
    if (tokens == NULL)
        most = rlx_lookup(s->tokens, (size_t)s->n_tokens, rlx_session_free_tokens(s), most);
    else if (most != 0)
        memmove(rlx_session_free_tokens(s), tokens, most * sizeof *tokens);
    s->n_drafts = (int64_t)most;
    return s->n_drafts;
}

#endif
