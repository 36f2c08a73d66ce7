// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// The memory of a session: how its block is divided, and how a session opens on it. The compiler uses the
// sizes too, for what it prints and for NAME_SESSION_BYTES.
#ifndef RLX_SESSION_OPEN_H
#define RLX_SESSION_OPEN_H

#include <stddef.h>
#include <stdint.h>

// What lies in a block, in bytes: arena and state of the model; tokens, `rows` rows of logits and text of
// each of n sessions; work memory of sampling and tokenizing; and what says which session has which pages.
typedef struct rlx_session_sizes {
    size_t arena, state, tokens, logits, out, work, pages, n, rows;
} rlx_session_sizes;

static inline size_t rlx_session_room(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static inline size_t rlx_session_bytes(const rlx_session_sizes *s)
{
    const size_t each =
        rlx_session_room(s->tokens) + rlx_session_room(s->rows * s->logits) + rlx_session_room(s->out);
    return rlx_session_room(s->arena) + rlx_session_room(s->state) + s->n * each +
           rlx_session_room(s->work) + rlx_session_room(s->pages);
}

#ifdef RLX_SESSION_H // programs, not the compiler

// Where the keys and values of a session lie, and how its tokens are run: in caches of its own, or in pages
// that slots have together.
typedef struct rlx_session_form {
    // Runs tokens that wait, so that there are logits behind the last one. RLX_SESSION_WAIT: call again.
    int (*run)(rlx_session *s);
    // Takes care that the rows of the first n tokens that were not run yet can be written.
    int (*reserve)(rlx_session *s, int64_t n);
    // Gives back what was taken for tokens that are gone.
    void (*trim)(rlx_session *s);
    // The row of a head's cache that token number i has, and how many follow it in order.
    int64_t (*place)(const rlx_session *s, int64_t i, int64_t *n);
    // Gives an empty session the keys and values of the first n tokens of another one.
    rlx_status (*copy)(rlx_session *to, rlx_session *from, int64_t n);
    // Another session that begins with more of these n tokens than `same`, and with how many. NULL: none.
    rlx_session *(*find)(rlx_session *s, const int32_t *tokens, size_t n, int64_t *same);
    int runs_later; // what is fed waits for the next run
} rlx_session_form;

// What all sessions of a model share.
typedef struct rlx_session_model {
    const rlx_model *model;
    const rlx_vocab *vocab;
    const rlx_session_form *form;
    rlx_fragment fragment;
    uint64_t fingerprint;     // of the weights and the vocabulary
    uint32_t rows, past;      // slots of the sizes T and P
    int64_t most_rows, context;
    int64_t cache_rows;       // of each head, in the states; 0: these have a fixed size
    size_t text_bytes;        // of the longest text that is tokenized in the session's memory
    uint32_t logit_rows;      // slot of the size L, where there are drafts
    int64_t drafts;           // of a session at most
    uint32_t best;            // the output with the most likely token by each row; 0: there is none
    uint32_t top;             // that with the best logits, before that with their tokens; 0: there is none
    uint32_t plain;           // rlx_ctx.outputs of runs that do not compute them
    rlx_status (*fetch)(const rlx_ctx *ctx, uint32_t slot, size_t first, size_t bytes); // rlx_fetch_output
    rlx_session_sizes sizes;
} rlx_session_model;

static inline int rlx_session_is_open(const rlx_session *s)
{
    return s != NULL && s->kind != NULL;
}

static inline char *rlx_session_take(char **memory, size_t bytes)
{
    char *begin = *memory;
    *memory += rlx_session_room(bytes);
    return begin;
}

// The rows that states have of the first n tokens that were run. One of a fixed size is a row, which has all
// of them.
static inline int64_t rlx_session_rows_of(const rlx_session *s, int64_t n)
{
    return s->kind->cache_rows == 0 ? n > 0 : n;
}

// Only the first n tokens count as run. States of fixed size know no earlier token: all are run again then.
static inline void rlx_session_go_back(rlx_session *s, int64_t n)
{
    if (s->n_run > n)
        s->n_run = s->kind->cache_rows == 0 ? 0 : n;
}

static inline int rlx_session_fail(rlx_session *s, rlx_status status)
{
    s->run_status = status;
    return RLX_SESSION_MODEL;
}

// Text begins anew: nothing of a character or of a stop string is held back.
static inline void rlx_session_clear_text(rlx_session *s)
{
    s->stream.n = 0;
    s->n_text = 0;
    s->n_sure = s->n_tokens;
    (void)rlx_stops_start(&s->stops);
}

static inline int rlx_session_check_block(const rlx_session_model *kind, const void *memory, size_t bytes)
{
    const int is_wrong = (uintptr_t)memory % RLX_ALIGNMENT != 0 || bytes < rlx_session_bytes(&kind->sizes);
    return is_wrong ? RLX_SESSION_MEMORY : 0;
}

// Where the device has found the most likely token, logits may stay there until the host asks for them.
static inline int rlx_session_can_leave(const rlx_session_model *kind, const rlx_ctx *ctx)
{
    return kind->best != 0 && kind->fetch != NULL && ctx->model->device != NULL;
}

// Brings the logits that the last run has left on the device.
static inline int rlx_session_fetch(rlx_session *s)
{
    const size_t row = s->kind->sizes.logits, at = (size_t)s->away * row, bytes = (size_t)s->n_away * row;
    rlx_status status;
    if (s->n_away == 0)
        return 0;
    status = s->kind->fetch(s->runs_on, 0, at, bytes);
    if (status != RLX_OK)
        return rlx_session_fail(s, status);
    memcpy(s->first_logits, (const char *)rlx_output(s->runs_on, 0) + at, bytes);
    s->n_away = 0;
    return 0;
}

// Forgets them: a run writes to their place.
static inline void rlx_session_lose_logits(rlx_session *s)
{
    if (s->n_away == 0)
        return;
    s->n_away = 0;
    s->has_logits = 0;
    s->chosen = -1;
}

// Makes a session without tokens; it is open once `kind` is set.
static inline void rlx_session_begin(rlx_session *s, const rlx_session_model *kind, char **memory)
{
    s->kind = NULL;
    s->tokens = (const int32_t *)(void *)rlx_session_take(memory, kind->sizes.tokens);
    s->logits = (float *)(void *)rlx_session_take(memory, kind->sizes.rows * kind->sizes.logits);
    s->first_logits = s->logits;
    s->n_drafts = s->n_ahead = 0;
    s->text = s->out = rlx_session_take(memory, kind->sizes.out);
    s->n_tokens = s->n_run = s->n_pages = s->n_now = 0;
    s->has_logits = 0;
    s->best = -1;
    s->away = s->n_away = 0;
    s->draws = 0;
    s->has_top = 0;
    s->chosen = -1;
    s->runs_on = &s->ctx;
    s->slots = NULL;
    s->slot = 0;
    s->run_status = RLX_OK;
    s->stops.stop = s->stop;
    s->stops.n = 0;
    rlx_session_clear_text(s);
}

static inline rlx_status rlx_session_init(rlx_ctx *ctx, const rlx_session_model *kind, char **memory,
                                          const void *mapped, size_t n_mapped)
{
    const rlx_model *model = kind->model;
    char *arena = rlx_session_take(memory, kind->sizes.arena);
    char *state = rlx_session_take(memory, kind->sizes.state);
#ifdef __GNUC__
    __asm__("" : "+r"(model)); // large weights are out of reach for what compilers know of it
#endif
    return rlx_init(ctx, model, arena, kind->sizes.arena, state, kind->sizes.state, mapped, n_mapped);
}

#endif

#endif
