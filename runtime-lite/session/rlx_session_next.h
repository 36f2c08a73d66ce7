// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// How a session goes on: tokens and text that are fed, tokens that are chosen, and the way back.
#ifndef RLX_SESSION_NEXT_H
#define RLX_SESSION_NEXT_H

#include "../text/rlx_sample.h"
#include "../text/rlx_tokens.h"
#include "rlx_session.h"
#include "rlx_session_draft.h"
#include "rlx_session_open.h"

// --- runs ----------------------------------------------------------------------------------------

// Runs the tokens that were not run yet: logits are then those behind the last one.
static inline int rlx_session_run(rlx_session *s)
{
    if (s->n_tokens == 0)
        return RLX_SESSION_EMPTY;
    if (!s->has_logits)
        rlx_session_go_back(s, s->n_tokens - 1);
    return s->n_run == s->n_tokens ? 0 : s->kind->form->run(s);
}

static inline int rlx_session_reserve(rlx_session *s, int64_t n)
{
    return s->kind->form->reserve == NULL ? 0 : s->kind->form->reserve(s, n);
}

static inline void rlx_session_trim(rlx_session *s)
{
    if (s->kind->form->trim != NULL)
        s->kind->form->trim(s);
}

// --- what goes in --------------------------------------------------------------------------------

// Takes the n tokens that stand behind its own, and runs them. If that fails they are gone again.
static inline int rlx_session_take_tokens(rlx_session *s, int64_t n, unsigned flags)
{
    const int is_later = (flags & RLX_SESSION_LATER) != 0 || s->kind->form->runs_later;
    int status = rlx_session_reserve(s, s->n_tokens + n);
    if (status < 0)
        return status;
    s->n_tokens += n;
    s->has_logits = s->has_logits && n == 0;
    rlx_session_clear_text(s);
    status = s->n_tokens == 0 || is_later ? 0 : rlx_session_run(s);
    if (status < 0) {
        s->n_tokens -= n;
        rlx_session_go_back(s, s->n_tokens);
        s->n_sure = s->n_tokens;
    }
    return status;
}

static inline int rlx_session_feed(rlx_session *s, const int32_t *tokens, size_t n)
{
    if (!rlx_session_is_open(s) || (tokens == NULL && n != 0))
        return RLX_SESSION_NULL;
    if (n > (size_t)(s->kind->context - s->n_tokens))
        return RLX_SESSION_FULL;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= s->kind->vocab->n_tokens)
            return RLX_TEXT_TOKEN;
    if (n != 0) {
        rlx_session_drop_drafts(s);
        memmove(rlx_session_free_tokens(s), tokens, n * sizeof *tokens);
    }
    return rlx_session_take_tokens(s, (int64_t)n, 0);
}

static inline int64_t rlx_session_feed_text(rlx_session *s, const char *text, size_t n, unsigned flags)
{
    rlx_token_list list;
    const rlx_vocab *v;
    int64_t status;
    if (!rlx_session_is_open(s) || (text == NULL && n != 0))
        return RLX_SESSION_NULL;
    if (n > s->kind->text_bytes)
        return RLX_TEXT_LENGTH;
    v = s->kind->vocab;
    rlx_session_drop_drafts(s);
    list.token = rlx_session_free_tokens(s);
    list.room = (size_t)(s->kind->context - s->n_tokens);
    list.n = 0;
    status = rlx_tokens_cut(v, s->kind->fragment, rlx_text_of(text, n),
                            flags & (RLX_TOKENS_FRAME | RLX_TOKENS_CONTROL), s->work, &list);
    if (status < 0)
        return status;
    if ((size_t)status > list.room)
        return RLX_SESSION_FULL;
    if (status > 0 && v->last >= 0 && (flags & RLX_TOKENS_FRAME) != 0 && list.token[status - 1] == v->last)
        status--; // a text that goes on has not ended
    list.n = (size_t)status;
    status = rlx_session_take_tokens(s, (int64_t)list.n, flags);
    return status < 0 ? status : (int64_t)list.n;
}

// --- what comes out ------------------------------------------------------------------------------

// Text that goes through the stop strings.
static inline void rlx_session_write(rlx_session *s, const char *text, size_t n)
{
    s->n_text += rlx_stops_feed(&s->stops, text, n, s->out + s->n_text);
}

// Ends the text: what was held back comes out, unless a stop string came.
static inline int32_t rlx_session_end(rlx_session *s, int32_t end)
{
    char rest[4];
    const int64_t n = rlx_stream_end(&s->stream, rest);
    rlx_session_write(s, rest, (size_t)n);
    s->n_text += rlx_stops_end(&s->stops, s->out + s->n_text);
    s->n_sure = s->stops.is_stopped ? s->n_sure : s->n_tokens;
    return end;
}

static inline int32_t rlx_session_add(rlx_session *s, int32_t token)
{
    char *piece = (char *)s->work.memory; // sampling is over
    const int64_t n = rlx_stream_token(s->kind->vocab, &s->stream, token, 0, piece, s->work.bytes);
    if (n < 0)
        return (int32_t)n;
    rlx_session_pass(s, token);
    if (s->n_ahead == 0)
        rlx_session_trim(s);
    rlx_session_write(s, piece, (size_t)n);
    if (s->stops.is_stopped)
        return RLX_END_STOP;
    if (s->stream.n == 0 && rlx_stops_held(&s->stops) == NULL)
        s->n_sure = s->n_tokens;
    return token;
}

// Has the device found the most likely token by these logits? It finds none where NaN is among them, or where
// no token can be chosen.
static inline int rlx_session_has_best(const rlx_session *s)
{
    return s->best >= 0 && (size_t)s->best < s->kind->vocab->n_tokens && s->logits == s->first_logits;
}

// Draws from the best tokens, which the device has found. RLX_TEXT_NONE: they do not say enough.
static inline int32_t rlx_session_choose_few(rlx_session *s, rlx_sampling *sampling)
{
    const float *logits;
    const int64_t *tokens;
    if (!s->has_top || s->logits != s->first_logits || !rlx_samples_few(sampling))
        return RLX_TEXT_NONE;
    logits = (const float *)rlx_output(s->runs_on, s->kind->top);
    tokens = (const int64_t *)rlx_output(s->runs_on, s->kind->top + 1);
    return logits == NULL || tokens == NULL ? RLX_TEXT_NONE : rlx_sample_few(sampling, logits, tokens);
}

static inline int32_t rlx_session_choose(rlx_session *s, rlx_sampling *sampling)
{
    const size_t most = RLX_SESSION_LAST, all = (size_t)s->n_tokens, n = all < most ? all : most;
    rlx_sampling best = rlx_sampling_start(0);
    best.temperature = 0.0f;
    if (sampling == NULL && rlx_session_has_best(s))
        return s->best;
    const int32_t token = sampling != NULL ? rlx_session_choose_few(s, sampling) : RLX_TEXT_NONE;
    if (token != RLX_TEXT_NONE)
        return token;
    const int status = rlx_session_fetch(s);
    if (status < 0)
        return status;
    if (sampling == NULL)
        return rlx_sample(&best, s->logits, s->kind->vocab->n_tokens, s->work);
    sampling->last = s->tokens + s->n_tokens - n;
    sampling->n_last = n;
    return rlx_sample(sampling, s->logits, s->kind->vocab->n_tokens, s->work);
}

static inline int32_t rlx_session_next(rlx_session *s, rlx_sampling *sampling)
{
    int32_t token;
    int status;
    if (!rlx_session_is_open(s))
        return RLX_SESSION_NULL;
    s->n_text = 0;
    s->chosen = -1;
    if (s->stops.is_stopped) // the text went on all the same
        rlx_session_clear_text(s);
    if (s->n_tokens >= s->kind->context)
        return rlx_session_end(s, RLX_END_CONTEXT);
    s->draws = sampling == NULL ? 0 : rlx_samples_few(sampling) ? RLX_SESSION_FEW : 1;
    status = rlx_session_run(s);
    if (status < 0)
        return status;
    token = rlx_session_choose(s, sampling);
    if (token < 0)
        return token;
    s->chosen = token;
    s->chosen_logits = s->logits;
    if (token == s->kind->vocab->eos || token == s->kind->vocab->eot)
        return rlx_session_end(s, RLX_END_TOKEN);
    return rlx_session_add(s, token);
}

// Log-probabilities in the place of the token that was chosen last: its own first, then those of the best
// n - 1 tokens.
static inline int64_t rlx_session_logprobs(const rlx_session *s, rlx_candidate *list, size_t n)
{
    int status;
    if (!rlx_session_is_open(s) || (list == NULL && n != 0))
        return RLX_SESSION_NULL;
    if (s->chosen < 0 || n == 0)
        return 0;
    status = rlx_session_fetch((rlx_session *)(uintptr_t)s); // the logits are the session's own
    if (status < 0)
        return status;
    return (int64_t)rlx_token_logprobs(s->chosen_logits, s->kind->vocab->n_tokens, s->chosen, list, n);
}

// A text that the program ends, after as many tokens as it wants.
static inline int rlx_session_end_text(rlx_session *s)
{
    if (!rlx_session_is_open(s))
        return RLX_SESSION_NULL;
    s->n_text = 0;
    if (!s->stops.is_stopped)
        rlx_session_end(s, 0);
    return 0;
}

static inline const float *rlx_session_logits(rlx_session *s)
{
    int status = rlx_session_is_open(s) ? RLX_SESSION_WAIT : RLX_SESSION_NULL;
    while (status == RLX_SESSION_WAIT)
        status = rlx_session_run(s);
    if (status >= 0)
        status = rlx_session_fetch(s);
    return status >= 0 ? s->logits : NULL;
}

static inline int rlx_session_stop_at(rlx_session *s, const char *const *strings, size_t n)
{
    size_t used = 0;
    if (!rlx_session_is_open(s) || (strings == NULL && n != 0))
        return RLX_SESSION_NULL;
    if (n > RLX_SESSION_MOST_STOPS)
        return RLX_SESSION_STOPS;
    for (size_t i = 0; i < n; i++) {
        const size_t length = strings[i] == NULL ? 0 : strlen(strings[i]);
        if (length == 0 || length > RLX_SESSION_STOP_BYTES - used)
            return RLX_SESSION_STOPS;
        used += length;
    }
    used = 0;
    for (size_t i = 0; i < n; i++) {
        s->stop[i].text = s->stop_text + used;
        s->stop[i].back = s->stop_back + used;
        s->stop[i].n = strlen(strings[i]);
        memcpy(s->stop_text + used, strings[i], s->stop[i].n);
        used += s->stop[i].n;
    }
    s->stops.n = n;
    rlx_session_clear_text(s);
    return 0;
}

// --- back ----------------------------------------------------------------------------------------

static inline int rlx_session_rewind(rlx_session *s, int64_t length)
{
    if (!rlx_session_is_open(s))
        return RLX_SESSION_NULL;
    if (length < 0 || length > s->n_tokens)
        return RLX_SESSION_RANGE;
    s->has_logits = s->has_logits && length == s->n_tokens;
    s->n_tokens = length;
    rlx_session_go_back(s, length);
    rlx_session_drop_drafts(s);
    rlx_session_trim(s);
    rlx_session_clear_text(s);
    return 0;
}

// With how many of the n tokens does a session begin?
static inline int64_t rlx_session_same(const rlx_session *s, const int32_t *tokens, size_t n)
{
    int64_t same = 0;
    while (same < s->n_tokens && (size_t)same < n && s->tokens[same] == tokens[same])
        same++;
    return same;
}

static inline int64_t rlx_session_reuse(rlx_session *s, const int32_t *tokens, size_t n)
{
    const rlx_session_form *form;
    rlx_session *from;
    rlx_status status;
    int64_t same;
    if (!rlx_session_is_open(s) || (tokens == NULL && n != 0))
        return RLX_SESSION_NULL;
    form = s->kind->form;
    same = rlx_session_same(s, tokens, n);
    from = form->find == NULL ? NULL : form->find(s, tokens, n, &same);
    (void)rlx_session_rewind(s, from == NULL ? same : 0);
    if (from == NULL)
        return same;
    status = form->copy(s, from, same);
    if (status != RLX_OK)
        return rlx_session_fail(s, status);
    memcpy(rlx_session_free_tokens(s), tokens, (size_t)same * sizeof *tokens);
    s->n_tokens = s->n_run = s->n_sure = same;
    return same;
}

#endif
