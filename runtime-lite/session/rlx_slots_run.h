// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Runs with tokens of many sessions, and how the memory of all of them opens.
#ifndef RLX_SLOTS_RUN_H
#define RLX_SLOTS_RUN_H

#include "../rlx_run.h"
#include "../rlx_symbols.h"
#include "rlx_slots_pages.h"

// The inputs of a model with slots, by their numbers.
enum {
    RLX_SLOTS_TOKENS,
    RLX_SLOTS_SLOT,
    RLX_SLOTS_POSITION,
    RLX_SLOTS_ROW,
    RLX_SLOTS_TABLE,
    RLX_SLOTS_WANTED,
    RLX_SLOTS_INPUTS
};

static inline rlx_session *rlx_slots_nth(rlx_slots *all, uint32_t i)
{
    return &all->slot[(all->first + i) % all->n_slots];
}

// Gives `most` more tokens of a session to the run, or as many as it has, and its drafts behind them. Returns
// how many. A session whose rows find no page is left out; its own NAME_next says so.
static inline int64_t rlx_slots_plan_one(rlx_session *s, int64_t most)
{
    const int64_t own = s->n_tokens - s->n_run;
    if (own != 0 && s->n_drafts != 0 && rlx_slots_reserve_free(s, s->n_tokens + s->n_drafts) < 0)
        rlx_session_drop_drafts(s);
    const int64_t left = own == 0 ? 0 : own + s->n_drafts - s->n_now, n = left < most ? left : most;
    if (n <= 0 || rlx_slots_reserve_free(s, s->n_run + s->n_now + n) < 0)
        return 0;
    s->n_now += n;
    return n;
}

// Divides a run: a token for each session that waits for one, and what is left for the longer ones. Returns
// the number of tokens.
static inline int64_t rlx_slots_plan(rlx_slots *all, int64_t most)
{
    int64_t n = 0;
    uint32_t behind = 0;
    for (uint32_t i = 0; i < all->n_slots; i++)
        all->slot[i].n_now = 0;
    for (uint32_t i = 0; i < all->n_slots && n < most; i++, behind = i)
        n += rlx_slots_plan_one(rlx_slots_nth(all, i), 1);
    for (uint32_t i = 0; i < all->n_slots && n < most; i++)
        if (rlx_slots_nth(all, i)->n_now != 0)
            n += rlx_slots_plan_one(rlx_slots_nth(all, i), most - n);
    all->first = (all->first + (behind < all->n_slots ? behind : 1)) % all->n_slots;
    return n;
}

// Writes the inputs for the tokens of a session, which begin at number `at` of the run.
static inline void rlx_slots_write(const rlx_session *s, int64_t *const *input, int64_t at)
{
    int32_t *const table = (int32_t *)(void *)input[RLX_SLOTS_TABLE] + (int64_t)s->slot * s->slots->n_pages;
    for (int64_t i = 0; i < s->n_now; i++) {
        const int64_t position = s->n_run + i;
        input[RLX_SLOTS_TOKENS][at + i] = s->tokens[position];
        input[RLX_SLOTS_SLOT][at + i] = s->slot;
        input[RLX_SLOTS_POSITION][at + i] = position;
        input[RLX_SLOTS_ROW][at + i] = rlx_slots_row(s, position);
    }
    for (int64_t i = 0; i < s->n_pages; i++)
        table[rlx_slots_pages(s)[i]] = (int32_t)(i * RLX_SLOTS_PAGE);
}

// Tokens of a session in this run whose logits are wanted: the last one, and the drafts behind it.
static inline int64_t rlx_slots_wanted(const rlx_session *s)
{
    const int64_t n = s->n_run + s->n_now - s->n_tokens;
    return s->n_now != 0 && n >= 0 ? 1 + n : 0;
}

// Sets the sizes of a run of n tokens.
static inline rlx_status rlx_slots_size(rlx_slots *all, int64_t n)
{
    const rlx_session_model *kind = all->slot[0].kind;
    const rlx_status status = rlx_set_symbol(&all->ctx, kind->rows, n);
    int64_t n_wanted = 0;
    if (status != RLX_OK || kind->drafts == 0)
        return status;
    for (uint32_t i = 0; i < all->n_slots; i++)
        n_wanted += rlx_slots_wanted(&all->slot[i]);
    return rlx_set_symbol(&all->ctx, kind->logit_rows, n_wanted == 0 ? 1 : n_wanted);
}

static inline rlx_status rlx_slots_fill(rlx_slots *all, int64_t n)
{
    int64_t *input[RLX_SLOTS_INPUTS], at = 0, n_wanted = 0;
    const size_t least = all->slot[0].kind->drafts == 0 ? all->n_slots : 1;
    const rlx_status status = rlx_slots_size(all, n);
    if (status != RLX_OK)
        return status;
    for (uint32_t i = 0; i < RLX_SLOTS_INPUTS; i++) {
        input[i] = (int64_t *)rlx_input(&all->ctx, i);
        if (input[i] == NULL)
            return RLX_ERR_NULL;
    }
    memset(input[RLX_SLOTS_TABLE], 0xff, all->n_slots * (size_t)all->n_pages * sizeof(int32_t)); // -1
    memset(input[RLX_SLOTS_WANTED], 0, least * sizeof(int64_t));
    for (uint32_t i = 0; i < all->n_slots; i++) {
        const rlx_session *s = &all->slot[i];
        if (s->n_now == 0)
            continue;
        rlx_slots_write(s, input, at);
        at += s->n_now;
        for (int64_t k = rlx_slots_wanted(s); k != 0; k--)
            input[RLX_SLOTS_WANTED][n_wanted++] = at - k;
    }
    return RLX_OK;
}

// A run writes to the place of logits that the last one has left on the device. Sessions that get no others
// have theirs first. Where all that get logits draw from them, they come with the run.
static inline int rlx_slots_leave(rlx_slots *all)
{
    int status = 0, is_left = 0;
    for (uint32_t i = 0; i < all->n_slots && status >= 0; i++) {
        rlx_session *s = &all->slot[i];
        if (rlx_slots_wanted(s) != 0)
            rlx_session_lose_logits(s);
        else if (s->has_logits || s->chosen >= 0)
            status = rlx_session_fetch(s);
        is_left |= rlx_slots_wanted(s) != 0 && !s->draws;
    }
    all->ctx.left = rlx_session_can_leave(all->slot[0].kind, &all->ctx) && is_left;
    return status;
}

// What the run has made of the sessions.
static inline void rlx_slots_collect(rlx_slots *all, const char *logits, const int64_t *best)
{
    int64_t row = 0;
    for (uint32_t i = 0; i < all->n_slots; i++) {
        rlx_session *s = &all->slot[i];
        const int64_t n = rlx_slots_wanted(s);
        if (n != 0) {
            s->n_ahead = n - 1;
            rlx_session_take_logits(s, logits, row, best);
            row += n;
            s->n_run -= s->n_ahead;
        }
        s->n_run += s->n_now;
        s->n_now = 0;
    }
}

static inline rlx_status rlx_slots_step(rlx_slots *all)
{
    const int64_t n = rlx_slots_plan(all, all->slot[0].kind->most_rows);
    const void *logits;
    rlx_status status = rlx_slots_leave(all) < 0 ? RLX_ERR_DEVICE : rlx_slots_fill(all, n);
    if (status == RLX_OK)
        status = rlx_run(&all->ctx);
    if (status != RLX_OK)
        return status;
    logits = rlx_output(&all->ctx, 0);
    if (logits == NULL)
        return RLX_ERR_DEVICE;
    rlx_slots_collect(all, (const char *)logits, rlx_session_best(all->slot[0].kind, &all->ctx));
    return RLX_OK;
}

// One run, of which the session gets its part.
static inline int rlx_slots_run(rlx_session *s)
{
    int status = rlx_slots_reserve(s, s->n_tokens);
    if (status < 0)
        return status;
    s->has_logits = 0;
    s->slots->run_status = rlx_slots_step(s->slots);
    if (s->slots->run_status != RLX_OK)
        return rlx_session_fail(s, s->slots->run_status);
    return s->n_run == s->n_tokens ? 0 : RLX_SESSION_WAIT;
}

static const rlx_session_form rlx_session_in_slots = {
    rlx_slots_run, rlx_slots_reserve, rlx_slots_trim, rlx_slots_place, rlx_slots_copy, rlx_slots_find, 1};

static inline void rlx_slots_begin(rlx_slots *all, const rlx_session_model *kind, char *memory)
{
    for (uint32_t i = 0; i < all->n_slots; i++) {
        rlx_session *s = &all->slot[i];
        rlx_session_begin(s, kind, &memory);
        s->slots = all;
        s->slot = i;
        s->runs_on = &all->ctx;
    }
    all->page = (int32_t *)(void *)rlx_session_take(&memory, kind->sizes.pages);
    all->n_users = all->page + all->n_slots * all->n_pages;
    memset(all->n_users, 0, (size_t)all->n_pages * sizeof *all->n_users);
    for (uint32_t i = 0; i < all->n_slots; i++) {
        all->slot[i].work.memory = memory;
        all->slot[i].work.bytes = kind->sizes.work;
        all->slot[i].kind = kind;
    }
}

// all->slot is set.
static inline int rlx_slots_open(rlx_slots *all, const rlx_session_model *kind, void *memory, size_t bytes,
                                 const void *mapped, size_t n_mapped)
{
    char *at = (char *)memory;
    const int status = memory == NULL ? RLX_SESSION_NULL : rlx_session_check_block(kind, memory, bytes);
    all->n_slots = (uint32_t)kind->sizes.n;
    all->n_pages = all->n_free = kind->cache_rows / RLX_SLOTS_PAGE;
    all->first = 0;
    for (uint32_t i = 0; i < all->n_slots; i++)
        all->slot[i].kind = NULL;
    if (status < 0)
        return status;
    all->run_status = rlx_session_init(&all->ctx, kind, &at, mapped, n_mapped);
    if (all->run_status != RLX_OK)
        return RLX_SESSION_MODEL;
    rlx_slots_begin(all, kind, at);
    return 0;
}

static inline void rlx_slots_close(rlx_slots *all)
{
    if (all == NULL || all->slot == NULL || all->slot[0].kind == NULL)
        return;
    rlx_close(&all->ctx);
    for (uint32_t i = 0; i < all->n_slots; i++)
        all->slot[i].kind = NULL;
}

#endif
