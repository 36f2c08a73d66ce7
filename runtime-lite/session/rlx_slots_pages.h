// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// The pages of sessions in slots: who has which, and that nobody writes into one that another one reads.
#ifndef RLX_SLOTS_PAGES_H
#define RLX_SLOTS_PAGES_H

#include "rlx_session_save.h"
#include "rlx_slots.h"

static inline int32_t *rlx_slots_pages(const rlx_session *s)
{
    return s->slots->page + (int64_t)s->slot * s->slots->n_pages;
}

static inline int64_t rlx_slots_pages_of(int64_t tokens)
{
    return (tokens + RLX_SLOTS_PAGE - 1) / RLX_SLOTS_PAGE;
}

// Takes a free page, of which there must be one.
static inline int32_t rlx_slots_take(rlx_slots *all)
{
    int32_t page = 0;
    while (all->n_users[page] != 0)
        page++;
    all->n_users[page] = 1;
    all->n_free--;
    return page;
}

static inline void rlx_slots_give(rlx_slots *all, int32_t page)
{
    all->n_users[page]--;
    all->n_free += all->n_users[page] == 0;
}

static inline void rlx_slots_trim(rlx_session *s)
{
    const int64_t needed = rlx_slots_pages_of(s->n_tokens);
    while (s->n_pages > needed)
        rlx_slots_give(s->slots, rlx_slots_pages(s)[--s->n_pages]);
}

static inline int64_t rlx_slots_row(const rlx_session *s, int64_t i)
{
    return (int64_t)rlx_slots_pages(s)[i / RLX_SLOTS_PAGE] * RLX_SLOTS_PAGE + i % RLX_SLOTS_PAGE;
}

static inline int64_t rlx_slots_place(const rlx_session *s, int64_t i, int64_t *n)
{
    *n = RLX_SLOTS_PAGE - i % RLX_SLOTS_PAGE;
    return rlx_slots_row(s, i);
}

// Copies the first n rows of a page to another one, in all heads of all states.
static inline rlx_status rlx_slots_copy_page(rlx_session *s, int32_t to, int32_t from, int64_t n)
{
    const rlx_model *m = s->kind->model;
    rlx_ctx *ctx = s->runs_on;
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; i < m->n_states && status == RLX_OK; i++) {
        const rlx_tensor *t = &m->states[i];
        const size_t row = rlx_session_row(s, t), bytes = (size_t)n * row;
        for (int64_t h = 0; h < rlx_session_heads(s, t) && status == RLX_OK; h++) {
            const int64_t head = h * s->kind->cache_rows;
            const size_t source = t->offset + (size_t)(head + (int64_t)from * RLX_SLOTS_PAGE) * row;
            const size_t target = (size_t)(head + (int64_t)to * RLX_SLOTS_PAGE) * row;
            status = rlx_get_state(ctx, source, bytes);
            if (status == RLX_OK)
                status = rlx_write_state_range(ctx, t->name, target, ctx->state + source, bytes);
        }
    }
    return status;
}

// Puts a page of its own in the place of one that others have too; its first n rows are kept.
static inline rlx_status rlx_slots_own(rlx_session *s, int64_t i, int64_t n)
{
    int32_t *const page = &rlx_slots_pages(s)[i];
    const int32_t own = rlx_slots_take(s->slots), shared = *page;
    const rlx_status status = n == 0 ? RLX_OK : rlx_slots_copy_page(s, own, shared, n);
    rlx_slots_give(s->slots, status == RLX_OK ? shared : own);
    if (status == RLX_OK)
        *page = own;
    return status;
}

static inline int rlx_slots_is_shared(const rlx_session *s, int64_t i)
{
    return s->slots->n_users[rlx_slots_pages(s)[i]] > 1;
}

// How many free pages it takes that no other session has those of the tokens from n_run up to n.
static inline int64_t rlx_slots_missing(const rlx_session *s, int64_t n)
{
    const int64_t needed = rlx_slots_pages_of(n);
    int64_t missing = needed > s->n_pages ? needed - s->n_pages : 0;
    for (int64_t i = s->n_run / RLX_SLOTS_PAGE; i < needed && i < s->n_pages; i++)
        missing += rlx_slots_is_shared(s, i);
    return n <= s->n_run ? 0 : missing;
}

// Pages for the rows of the tokens from n_run up to n, none of which another session has. Too few are free:
// nothing has changed.
static inline int rlx_slots_reserve_free(rlx_session *s, int64_t n)
{
    const int64_t needed = rlx_slots_pages_of(n), begin = s->n_run / RLX_SLOTS_PAGE;
    if (n <= s->n_run)
        return 0;
    if (rlx_slots_missing(s, n) > s->slots->n_free)
        return RLX_SESSION_PAGES;
    for (int64_t i = begin; i < needed && i < s->n_pages; i++) {
        const int64_t kept = i == begin ? s->n_run % RLX_SLOTS_PAGE : 0;
        const rlx_status status = rlx_slots_is_shared(s, i) ? rlx_slots_own(s, i, kept) : RLX_OK;
        if (status != RLX_OK)
            return rlx_session_fail(s, status);
    }
    while (s->n_pages < needed)
        rlx_slots_pages(s)[s->n_pages++] = rlx_slots_take(s->slots);
    return 0;
}

// The same between runs. Where too few pages are free, drafts of all sessions give theirs back: a guess must
// not take the place of a token.
static inline int rlx_slots_reserve(rlx_session *s, int64_t n)
{
    for (uint32_t i = 0; i < s->slots->n_slots && rlx_slots_missing(s, n) > s->slots->n_free; i++) {
        rlx_session *other = &s->slots->slot[i];
        if (other->n_pages <= rlx_slots_pages_of(other->n_tokens))
            continue;
        rlx_session_drop_drafts(other);
        rlx_slots_trim(other);
    }
    return rlx_slots_reserve_free(s, n);
}

// The pages with the first n tokens are those of both sessions from here on.
static inline rlx_status rlx_slots_copy(rlx_session *to, rlx_session *from, int64_t n)
{
    const int64_t n_pages = rlx_slots_pages_of(n);
    for (int64_t i = 0; i < n_pages; i++) {
        const int32_t page = rlx_slots_pages(from)[i];
        rlx_slots_pages(to)[i] = page;
        to->slots->n_users[page]++;
    }
    to->n_pages = n_pages;
    return RLX_OK;
}

static inline rlx_session *rlx_slots_find(rlx_session *s, const int32_t *tokens, size_t n, int64_t *same)
{
    rlx_session *best = NULL;
    for (uint32_t i = 0; i < s->slots->n_slots; i++) {
        rlx_session *other = &s->slots->slot[i];
        const int64_t all = rlx_session_same(other, tokens, n);
        const int64_t run = all < other->n_run ? all : other->n_run;
        if (other == s || run <= *same)
            continue;
        best = other;
        *same = run;
    }
    return best;
}

#endif
