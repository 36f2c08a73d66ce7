// SPDX-License-Identifier: Apache-2.0
// What sessions in slots promise (check_slots.py makes the model m, with three slots): each of them is what
// it would be alone, whatever the others do, and pages are neither lost nor written while another session
// reads them. Exit status 1, with the place, where something is not as it must be. Anything that allocates
// between open and close ends the program.
#include "session_need.h"

#define ALLOWED     4e-6 // sums are added up in another order where runs are cut elsewhere
#define SAVED_BYTES (M_SESSION_BYTES + 1024)

enum { ROUNDS = 400, REQUESTS = 12 };

static RLX_ALIGNED unsigned char memory[M_SESSION_BYTES], other_memory[M_SESSION_BYTES];
static m_slots all, other; // other: for what a session is alone
static unsigned char saved[SAVED_BYTES], again[SAVED_BYTES];
static int32_t list[M_CONTEXT + 1];
static volatile int may_not_allocate;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    NEED(!may_not_allocate);
    return __real_malloc(n);
}

static void begin_anew(m_slots *slots)
{
    for (int i = 0; i < M_SLOTS; i++)
        NEED(m_rewind(&slots->slot[i], 0) == 0);
}

static void open_all(void)
{
    make_tokens(list, M_CONTEXT + 1);
    if (OPEN_ONCE && all.slot[0].kind != NULL) {
        begin_anew(&all);
        begin_anew(&other);
        return;
    }
    memset(memory, 0xff, sizeof memory); // NaN, where anything is read that nobody wrote
    memset(other_memory, 0xff, sizeof other_memory);
    NEED(m_open(&all, memory, sizeof memory, NULL, 0) == 0);
    NEED(m_open(&other, other_memory, sizeof other_memory, NULL, 0) == 0);
}

// The next token, in as many runs as it takes.
static int32_t next(rlx_session *s, rlx_sampling *sampling)
{
    int32_t token = RLX_SESSION_WAIT;
    for (int i = 0; i < 100 && token == RLX_SESSION_WAIT; i++)
        token = m_next(s, sampling);
    NEED(token != RLX_SESSION_WAIT);
    return token;
}

// The session has the logits of its tokens alone.
static void check_alone(rlx_session *s)
{
    rlx_session *alone = &other.slot[0];
    NEED(m_rewind(alone, 0) == 0 && m_feed(alone, s->tokens, (size_t)s->n_tokens) == 0);
    const float *x = m_logits(s), *y = m_logits(alone);
    NEED(apart(y, x) <= ALLOWED);
}

// Each page has as many users as sessions have it, and all tokens have a place.
static void check_pages(void)
{
    static int32_t users[M_CONTEXT];
    int64_t n_free = 0;
    memset(users, 0, sizeof users);
    for (int i = 0; i < M_SLOTS; i++) {
        NEED(all.slot[i].n_pages * RLX_SLOTS_PAGE >= all.slot[i].n_run);
        for (int64_t k = 0; k < all.slot[i].n_pages; k++)
            users[all.all.page[i * all.all.n_pages + k]]++;
    }
    for (int64_t p = 0; p < all.all.n_pages; p++) {
        NEED(users[p] == all.all.n_users[p]);
        n_free += users[p] == 0;
    }
    NEED(n_free == all.all.n_free);
}

static int same_tokens(const rlx_session *a, const rlx_session *b)
{
    return a->n_tokens == b->n_tokens &&
           memcmp(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof *a->tokens) == 0;
}

// --- what is checked -----------------------------------------------------------------------------

// Lengths that differ, prompts that come while others go on, and a run that serves all.
static void test_ragged(void)
{
    open_all();
    NEED(m_feed(&all.slot[0], list, 70) == 0 && m_feed(&all.slot[1], list + 3, 5) == 0);
    NEED(all.slot[0].n_run == 0 && m_next(&all.slot[1], NULL) == RLX_SESSION_WAIT);
    NEED(all.slot[0].n_run + all.slot[1].n_run == M_MOST_ROWS && next(&all.slot[1], NULL) >= 0);
    NEED(m_feed(&all.slot[2], list + 9, 110) == 0);
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < M_SLOTS; k++)
            NEED(next(&all.slot[k], NULL) >= RLX_END_CONTEXT);
    for (int k = 0; k < M_SLOTS; k++)
        check_alone(&all.slot[k]);
    check_pages();
}

// A prefix is stored once, and whoever goes on from it leaves it as it was.
static void test_prefix(void)
{
    rlx_session *a = &all.slot[0], *b = &all.slot[1], *c = &all.slot[2];
    open_all();
    NEED(m_feed(a, list, 100) == 0 && m_logits(a) != NULL && all.all.n_free == all.all.n_pages - 2);
    NEED(m_reuse(b, list, 90) == 90 && all.all.n_free == all.all.n_pages - 2);
    check_pages();
    check_alone(b); // its last row is made again, in a page of its own
    NEED(all.all.n_free == all.all.n_pages - 3);
    list[80] = (list[80] + 1) % M_TOKENS;
    NEED(m_reuse(c, list, 120) == 80 && m_feed(c, list + 80, 40) == 0);
    check_alone(c);
    NEED(m_feed(a, list, 9) == 0 && m_feed(b, list, 8) == 0);
    for (int k = 0; k < M_SLOTS; k++)
        check_alone(&all.slot[k]);
    NEED(m_fork(c, a) == 0 && same_tokens(a, c) && m_feed(c, list + 5, 7) == 0);
    NEED(m_rewind(a, 20) == 0 && m_feed(a, list + 40, 3) == 0);
    for (int k = 0; k < M_SLOTS; k++)
        check_alone(&all.slot[k]);
    check_pages();
    for (int k = 0; k < M_SLOTS; k++)
        NEED(m_rewind(&all.slot[k], 0) == 0);
    NEED(all.all.n_free == all.all.n_pages);
}

// Log-probabilities are those of each session, also where another one has made a run in between.
static void test_logprobs(void)
{
    rlx_session *a = &all.slot[0], *b = &all.slot[1];
    rlx_candidate one[4], two[4];
    open_all();
    NEED(m_feed(a, list, 20) == 0 && m_feed(b, list + 5, 9) == 0);
    const int32_t token = next(a, NULL);
    NEED(m_logprobs(a, one, 4) == 4 && one[0].token == token && one[1].token == token);
    NEED(one[0].logit == one[1].logit && one[1].logit >= one[2].logit);
    NEED(next(b, NULL) >= 0 && m_feed(b, list, 3) == 0 && b->chosen >= 0);
    NEED(m_logprobs(a, two, 4) == 4 && memcmp(one, two, sizeof one) == 0); // logits of b's token came
    NEED(next(b, NULL) >= 0 && a->chosen < 0 && m_logprobs(a, two, 4) == 0); // a's next logits are there
    NEED(next(a, NULL) >= 0 && m_logprobs(a, two, 4) == 4 && two[0].token == a->tokens[21]);
    NEED(next(a, NULL) >= 0 && m_rewind(a, a->n_tokens - 1) == 0); // a waits for nothing: runs leave it out
    for (int i = 0; i < 3; i++)
        NEED(next(b, NULL) >= 0);
    NEED(m_logprobs(a, two, 4) == 4 && two[0].token == a->chosen && two[1].token == a->chosen);
    rlx_sampling sampling = rlx_sampling_start(7);
    NEED(next(b, &sampling) >= 0 && next(b, NULL) >= 0 && m_logprobs(b, one, 2) == 2);
    NEED(one[0].token == b->chosen && one[1].token == b->chosen);
    check_alone(a);
    check_alone(b);
}

// What finds no pages is refused, and nothing has changed.
static void test_full(void)
{
    rlx_session *a = &all.slot[0], *b = &all.slot[1];
    open_all();
    NEED(m_feed(a, list, M_CONTEXT + 1) == RLX_SESSION_FULL && m_feed(b, list, 60) == 0);
    NEED(m_feed(a, list, M_CONTEXT - 64) == 0 && all.all.n_free == 0 && m_logits(a) != NULL);
    NEED(m_feed(b, list, 5) == RLX_SESSION_PAGES && b->n_tokens == 60);
    NEED(next(a, NULL) >= 0 && m_next(a, NULL) == RLX_SESSION_PAGES && a->n_tokens == M_CONTEXT - 63);
    for (int i = 0; i < 4; i++)
        NEED(next(b, NULL) >= 0);
    check_pages();
    NEED(next(b, NULL) >= 0 && m_next(b, NULL) == RLX_SESSION_PAGES && m_logits(b) == NULL);
    const int64_t n = m_save(b, saved, sizeof saved);
    NEED(n > 0 && m_restore(&all.slot[2], saved, (size_t)n) == RLX_SESSION_PAGES);
    NEED(all.slot[2].n_tokens == 0 && all.slot[2].n_pages == 0);
    NEED(m_rewind(a, 0) == 0); // a request is cancelled
    NEED(next(b, NULL) >= 0 && m_restore(&all.slot[2], saved, (size_t)n) == 0);
    check_alone(b);
    check_alone(&all.slot[2]);
    check_pages();
    NEED(m_rewind(b, 0) == 0 && m_feed(a, list, M_CONTEXT - 128) == 0);
    NEED(m_rewind(&all.slot[2], 0) == 0 && m_feed(a, list, 128) == 0);
    NEED(m_next(a, NULL) == RLX_END_CONTEXT && m_logits(a) != NULL);
}

static void test_save(void)
{
    rlx_session *a = &all.slot[0], *b = &all.slot[1];
    open_all();
    NEED(m_feed(&all.slot[2], list, 30) == 0 && m_feed(a, list, 75) == 0 && next(a, NULL) >= 0);
    NEED(m_logits(a) != NULL && m_feed(b, list, 3) == 0);
    const int64_t n = m_save(a, saved, sizeof saved);
    NEED(n > 0 && n <= SAVED_BYTES && m_restore(b, saved, (size_t)n) == 0 && same_tokens(a, b));
    NEED(m_save(b, again, sizeof again) == n && memcmp(saved, again, (size_t)n) == 0);
    NEED(m_fork(&all.slot[2], a) == 0 && m_save(&all.slot[2], again, sizeof again) == n);
    NEED(memcmp(saved, again, (size_t)n) == 0);
    NEED(m_restore(&other.slot[1], saved, (size_t)n) == 0 && next(&other.slot[1], NULL) == next(b, NULL));
    saved[n / 2] ^= 1;
    NEED(m_restore(b, saved, (size_t)n) == RLX_SESSION_SAVED && b->n_tokens == a->n_tokens + 1);
    NEED(m_fork(a, &other.slot[0]) == RLX_SESSION_OTHER);
    check_alone(b);
    check_pages();
}

// A text with sampling and a stop string of its own.
typedef struct Request {
    const char *prompt, *stop;
    uint64_t seed;
    rlx_sampling sampling;
    int n_tokens;
    char text[2048];
    size_t n;
    int32_t end;
} Request;

static void begin(rlx_session *s, Request *r, int i)
{
    static const char *const prompts[] = {"an old cat", "the", "in the ear of that other man, a year"};
    const char *const stops[] = {i % 2 == 0 ? "th" : "\x01never"};
    *r = (Request){.prompt = prompts[i % 3], .sampling = rlx_sampling_start((uint64_t)i)};
    NEED(m_rewind(s, 0) == 0 && m_stop_at(s, stops, 1) == 0);
    NEED(m_feed_text(s, r->prompt, strlen(r->prompt), RLX_TOKENS_FRAME) > 0);
}

// One step of a request. 0: it has ended.
static int go_on(rlx_session *s, Request *r)
{
#ifdef M_DRAFTS // alone without, and together with guesses
    NEED(s == &other.slot[0] || m_draft(s, NULL, M_DRAFTS) >= 0);
#endif
    const int32_t token = m_next(s, &r->sampling);
    NEED(token == RLX_SESSION_WAIT || token >= RLX_END_CONTEXT);
    memcpy(r->text + r->n, s->text, s->n_text);
    r->n += s->n_text;
    r->n_tokens += token >= 0;
    r->end = token;
    return (token >= 0 || token == RLX_SESSION_WAIT) && r->n_tokens < 25;
}

// Continuous batching: whenever a slot is free the next request takes it. The texts are those of each alone.
static void test_batches(void)
{
    static Request r[REQUESTS], alone;
    int of[M_SLOTS], n = 0, n_busy = 0;
    open_all();
    for (int k = 0; k < M_SLOTS; k++)
        of[k] = -1;
    do
        for (int k = 0; k < M_SLOTS; k++) {
            if (of[k] < 0 && n < REQUESTS) {
                begin(&all.slot[k], &r[of[k] = n], n);
                n_busy++;
                n++;
            }
            if (of[k] >= 0 && !go_on(&all.slot[k], &r[of[k]])) {
                of[k] = -1;
                n_busy--;
            }
        }
    while (n_busy != 0 || n < REQUESTS);
    for (int i = 0; i < REQUESTS; i++) {
        begin(&other.slot[0], &alone, i);
        while (go_on(&other.slot[0], &alone))
            ;
        NEED(alone.end == r[i].end && alone.n == r[i].n && memcmp(alone.text, r[i].text, alone.n) == 0);
    }
    check_pages();
}

// --- anything, in any order ----------------------------------------------------------------------

static uint32_t draw(uint32_t n)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

static int64_t feed_some(rlx_session *s, rlx_session *from)
{
    (void)from;
    return m_feed(s, list + draw(50), draw(40));
}

static int64_t next_one(rlx_session *s, rlx_session *from)
{
    (void)from;
    return m_next(s, NULL);
}

static int64_t rewind_some(rlx_session *s, rlx_session *from)
{
    (void)from;
    return m_rewind(s, draw((uint32_t)s->n_tokens + 1));
}

static int64_t shift_some(rlx_session *s, rlx_session *from)
{
    const uint32_t keep = draw((uint32_t)s->n_tokens + 1);
    (void)from;
    return m_shift(s, keep, draw((uint32_t)s->n_tokens - keep + 1));
}

static int64_t reuse_some(rlx_session *s, rlx_session *from)
{
    return from->n_tokens == 0 ? 0 : m_reuse(s, from->tokens, draw((uint32_t)from->n_tokens) + 1);
}

static int64_t fork_one(rlx_session *s, rlx_session *from)
{
    return m_fork(s, from);
}

// Guesses that are right, or of which some are.
static int64_t draft_some(rlx_session *s, rlx_session *from)
{
#ifdef M_DRAFTS
    int32_t drafts[M_DRAFTS];
    rlx_session *alone = &other.slot[1];
    if (s->n_tokens == 0 || draw(3) == 0)
        return m_draft(s, NULL, 1 + draw(M_DRAFTS));
    NEED(m_rewind(alone, 0) == 0 && m_feed(alone, s->tokens, (size_t)s->n_tokens) == 0);
    for (int i = 0; i < M_DRAFTS; i++) {
        const int32_t token = draw(4) == 0 ? RLX_END_CONTEXT : next(alone, NULL);
        drafts[i] = token < 0 ? 7 : token;
    }
    (void)from;
    return m_draft(s, drafts, M_DRAFTS);
#else
    return next_one(s, from);
#endif
}

// Pages that guesses have taken are there for tokens of other sessions.
static void test_drafts_give_way(void)
{
#ifdef M_DRAFTS
    const int32_t drafts[M_DRAFTS] = {0};
    rlx_session *a = &all.slot[0], *b = &all.slot[1], *c = &all.slot[2];
    open_all();
    NEED(m_feed(a, list, RLX_SLOTS_PAGE - 1) == 0 && m_draft(a, drafts, M_DRAFTS) == M_DRAFTS);
    NEED(m_logits(a) != NULL && a->n_pages == 2 && a->n_ahead != 0);
    NEED(m_feed(b, list, (size_t)(all.all.n_free - 1) * RLX_SLOTS_PAGE) == 0 && all.all.n_free == 1);
    NEED(m_feed(c, list, RLX_SLOTS_PAGE) == 0 && a->n_drafts != 0 && all.all.n_free == 0);
    NEED(m_feed(c, list, 1) == 0 && a->n_drafts == 0 && a->n_pages == 1);
    NEED(m_feed(b, list, 1) == RLX_SESSION_PAGES);
    check_pages();
    check_alone(a);
    check_alone(c);
#endif
}

static int64_t save_one(rlx_session *s, rlx_session *from)
{
    const int64_t n = m_save(from, saved, sizeof saved);
    NEED(n > 0 && n <= SAVED_BYTES);
    return m_restore(s, saved, (size_t)n);
}

static void test_random(void)
{
    static int64_t (*const calls[])(rlx_session *, rlx_session *) = {
        feed_some, feed_some, next_one, next_one,  next_one, rewind_some,
        shift_some, reuse_some, fork_one, save_one, draft_some, draft_some};
    open_all();
    for (int i = 0; i < ROUNDS; i++) {
        rlx_session *s = &all.slot[draw(M_SLOTS)];
        const int64_t status = calls[draw(sizeof calls / sizeof *calls)](s, &all.slot[draw(M_SLOTS)]);
        NEED(status >= RLX_END_CONTEXT || status == RLX_SESSION_PAGES || status == RLX_SESSION_WAIT ||
             status == RLX_SESSION_EMPTY || status == RLX_SESSION_FULL);
        check_pages();
        if (i % 8 == 0 && s->n_tokens != 0 && m_logits(s) != NULL)
            check_alone(s);
    }
}

static void test_arguments(void)
{
    static m_slots closed;
    open_all();
    NEED(m_open(NULL, memory, sizeof memory, NULL, 0) == RLX_SESSION_NULL);
    NEED(m_open(&closed, NULL, sizeof memory, NULL, 0) == RLX_SESSION_NULL);
    NEED(m_open(&closed, other_memory, sizeof memory - 1, NULL, 0) == RLX_SESSION_MEMORY);
    NEED(m_open(&closed, other_memory + 8, sizeof memory, NULL, 0) == RLX_SESSION_MEMORY);
    NEED(m_feed(&closed.slot[0], list, 1) == RLX_SESSION_NULL && m_next(NULL, NULL) == RLX_SESSION_NULL);
    NEED(m_next(&all.slot[1], NULL) == RLX_SESSION_EMPTY && m_logits(&all.slot[1]) == NULL);
    NEED(m_feed(&all.slot[1], list, 0) == 0 && m_feed(&all.slot[1], list, 4) == 0);
    NEED(strstr(rlx_session_text(RLX_SESSION_PAGES), "pages") != NULL);
    m_close(&closed);
    m_close(NULL);
    m_close(&all);
    m_close(&all);
    NEED(m_next(&all.slot[1], NULL) == RLX_SESSION_NULL);
}

int main(void)
{
    static void (*const tests[])(void) = {test_ragged,  test_prefix, test_logprobs, test_full,     test_save,
                                          test_batches, test_random, test_arguments, test_drafts_give_way};
    may_not_allocate = 1;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i]();
    may_not_allocate = 0;
    return 0;
}
