// SPDX-License-Identifier: Apache-2.0
// What sessions of a generated language model promise: session_test WHAT... The model is m (check_session.py
// makes it); what is compared is compared bit by bit. Exit status 1, with the place, where something is not
// as it must be. With -DNO_ALLOCATION, anything that allocates between open and close ends the program.
#include "session_need.h"

#include <pthread.h>

#ifndef ALLOWED // sums are added up in another order where runs are cut elsewhere
#define ALLOWED 1e-6
#endif
#ifndef FIXED // 1: states of a fixed size, which know no earlier token
#define FIXED 0
#endif

enum { N = 23, MORE = 17, THREADS = 10, SAVED = M_SESSION_BYTES + 1024 };

static RLX_ALIGNED unsigned char memory[3][M_SESSION_BYTES];
static rlx_session one, two, three;
static unsigned char saved[SAVED];
static int32_t list[M_CONTEXT + 1];

static void open_all(void)
{
    make_tokens(list, M_CONTEXT + 1);
    open_on(&one, memory[0]);
    open_on(&two, memory[1]);
    open_on(&three, memory[2]);
}

static int same_tokens(const rlx_session *a, const rlx_session *b)
{
    return a->n_tokens == b->n_tokens &&
           memcmp(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof *a->tokens) == 0;
}

// Both choose the same tokens and write the same text, with the same bits at the end.
static void go_on(rlx_session *a, rlx_session *b, int n)
{
    rlx_sampling x = rlx_sampling_start(5), y = rlx_sampling_start(5);
    x.repeat_penalty = y.repeat_penalty = 1.2f;
    for (int i = 0; i < n; i++) {
        const int32_t token = m_next(a, &x);
        NEED(token == m_next(b, &y));
        NEED(a->n_text == b->n_text && memcmp(a->text, b->text, a->n_text) == 0);
        NEED(token >= 0 || token == RLX_END_TOKEN || token == RLX_END_CONTEXT);
    }
    NEED(same_tokens(a, b) && same_logits(a, b));
}

// --- what is checked -----------------------------------------------------------------------------

// For the reference in Python: the logits behind the tokens of standard input, which come in pieces.
static void test_logits(void)
{
    long piece = 0;
    int32_t token;
    int64_t n = 0;
    open_on(&one, memory[0]);
    NEED(scanf("%ld", &piece) == 1);
    while (scanf("%d", &token) == 1) {
        list[n++] = token;
        if (n == piece) {
            NEED(m_feed(&one, list, (size_t)n) == 0);
            n = 0;
        }
    }
    NEED(m_feed(&one, list, (size_t)n) == 0);
    const float *logits = m_logits(&one);
    NEED(logits != NULL);
    for (unsigned i = 0; i < M_LOGITS; i++)
        printf("%.9g\n", (double)logits[i]);
}

// What follows the token that begins texts, the most likely token each time.
static void test_greedy(void)
{
    const int32_t begin = M_BOS;
    int32_t token = 0;
    open_on(&one, memory[0]);
    NEED(m_feed(&one, &begin, 1) == 0);
    for (int i = 0; i < 60 && token >= 0; i++) {
        token = m_next(&one, NULL);
        if (token >= 0)
            printf("%d ", token);
    }
}

// The same drawn, by settings for which a device finds the best tokens, and by others.
static void test_drawn(void)
{
    const int32_t begin = M_BOS;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        rlx_sampling s = rlx_sampling_start(seed);
        s.top_k = seed % 3 == 0 ? 64 : 40;
        NEED(m_rewind(&one, 0) == 0 && m_feed(&one, &begin, 1) == 0);
        for (int i = 0; i < 8; i++) {
            const int32_t token = m_next(&one, &s);
            printf("%d ", token);
            if (token < 0)
                break;
        }
    }
}

static void test_save(void)
{
    static unsigned char again[SAVED];
    open_all();
    NEED(m_feed(&one, list, N) == 0);
    rlx_sampling s = rlx_sampling_start(1);
    for (int i = 0; i < 5; i++)
        (void)m_next(&one, &s);
    for (int has_logits = 0; has_logits < 2; has_logits++) {
        NEED(!has_logits || m_logits(&one) != NULL);
        const int64_t n = m_save(&one, NULL, 0);
        NEED(n > 0 && n <= SAVED && m_save(&one, saved, (size_t)n - 1) == n);
        NEED(m_save(&one, saved, sizeof saved) == n);
        NEED(m_restore(&two, saved, (size_t)n) == 0 && two.n_run == one.n_run);
        NEED(same_tokens(&one, &two) && m_save(&two, again, sizeof again) == n);
        NEED(memcmp(saved, again, (size_t)n) == 0);
        NEED(m_fork(&three, &one) == 0);
        go_on(&three, &two, MORE);
    }
    NEED(m_rewind(&one, 0) == 0 && m_save(&one, saved, sizeof saved) == m_save(&one, NULL, 0));
    NEED(m_restore(&two, saved, (size_t)m_save(&one, NULL, 0)) == 0 && two.n_tokens == 0);
}

// Each byte of the head and samples of the rest, changed: refused, and the session stays what it was.
static void test_damaged(void)
{
    open_all();
    NEED(m_feed(&one, list, N) == 0 && m_feed(&two, list, 5) == 0 && m_feed(&three, list, 5) == 0);
    const int64_t n = m_save(&one, saved, sizeof saved);
    for (int64_t i = 0; i < n; i += i < 256 ? 1 : 997)
        for (int bit = 0; bit < 8; bit += 7) {
            saved[i] ^= (unsigned char)(1 << bit);
            const int status = m_restore(&two, saved, (size_t)n);
            NEED(status == RLX_SESSION_SAVED || status == RLX_SESSION_OTHER || status == RLX_SESSION_FULL);
            saved[i] ^= (unsigned char)(1 << bit);
        }
    for (int64_t i = 0; i < n; i += 61)
        NEED(m_restore(&two, saved, (size_t)i) == RLX_SESSION_SAVED);
    NEED(same_tokens(&two, &three) && same_logits(&two, &three));
    NEED(m_restore(&two, saved, (size_t)n) == 0 && same_logits(&one, &two));
}

static void test_fork(void)
{
    const char *const stops[] = {"never", "ev"};
    open_all();
    NEED(m_stop_at(&one, stops, 2) == 0 && m_feed(&one, list, N) == 0 && m_fork(&two, &one) == 0);
    NEED(two.stops.n == 2 && two.stop[1].text == two.stop_text + 5);
    NEED(m_stop_at(&one, NULL, 0) == 0 && m_stop_at(&two, NULL, 0) == 0 && m_feed(&three, list, N) == 0);
    go_on(&one, &two, MORE);
    NEED(m_feed(&two, list, 3) == 0); // and the first is not touched by what the second does
    NEED(m_next(&three, NULL) >= 0 && m_rewind(&one, N) == 0 && m_rewind(&three, N) == 0);
    go_on(&one, &three, MORE);
    NEED(m_fork(&one, &one) == 0);
}

// A list that begins like the session: only the rest is run, or all of it where states have a fixed size,
// and the result is that of a fresh run.
static void test_reuse(void)
{
    open_all();
    NEED(m_feed(&one, list, N) == 0);
    list[14] = (list[14] + 1) % M_TOKENS;
    NEED(m_reuse(&one, list, N + 4) == 14 && one.n_tokens == 14 && one.n_run == (FIXED ? 0 : 14));
    NEED(m_feed(&one, list + 14, N + 4 - 14) == 0);
    NEED(m_feed(&two, list, FIXED ? 0 : 14) == 0);
    NEED(m_feed(&two, list + two.n_tokens, (size_t)(N + 4 - two.n_tokens)) == 0);
    NEED(same_tokens(&one, &two) && same_logits(&one, &two));
    NEED(m_feed(&three, list, N + 4) == 0 && apart(m_logits(&one), m_logits(&three)) < ALLOWED);
    NEED(m_reuse(&one, list, N + 4) == N + 4 && same_logits(&one, &two));
    NEED(m_rewind(&one, 9) == 0 && m_rewind(&two, 9) == 0 && apart(m_logits(&one), m_logits(&two)) == 0);
    NEED(m_rewind(&three, 0) == 0 && m_feed(&three, list, 9) == 0);
    NEED(apart(m_logits(&one), m_logits(&three)) < ALLOWED);
}

static void test_shift(void)
{
    open_all();
    NEED(m_feed(&one, list, N) == 0 && m_shift(&one, 4, 6) == 0 && one.n_tokens == N - 6);
    NEED(m_feed(&two, list, N) == 0 && m_rewind(&two, 4) == 0 && m_feed(&two, list + 10, N - 10) == 0);
    NEED(m_feed(&three, list, 4) == 0 && m_feed(&three, list + 10, N - 10) == 0);
    NEED(same_tokens(&one, &three) && apart(m_logits(&one), m_logits(&three)) < ALLOWED);
    go_on(&one, &two, MORE);
    NEED(m_shift(&one, 0, one.n_tokens) == 0 && one.n_tokens == 0 && m_feed(&one, list, N) == 0);
    NEED(m_rewind(&three, 0) == 0 && m_feed(&three, list, N) == 0 && same_logits(&one, &three));
    NEED(m_shift(&one, -1, 1) == RLX_SESSION_RANGE && m_shift(&one, N, 1) == RLX_SESSION_RANGE);
    NEED(m_shift(&one, 3, 0) == 0 && same_logits(&one, &three));
}

// The text of a session: all that comes, at most `most` tokens.
static size_t write_on(rlx_session *s, char *text, int most, int32_t *end)
{
    rlx_sampling sampling = rlx_sampling_start(3);
    size_t n = 0;
    *end = 0;
    for (int i = 0; i < most && *end >= 0; i++) {
        *end = m_next(s, &sampling);
        memcpy(text + n, s->text, s->n_text);
        n += s->n_text;
    }
    return n;
}

// A program that ends the text earlier gets what was held back, and once.
static void check_end(int64_t n_prompt, const char *plain, size_t n)
{
    static char cut[4096];
    char stop[6] = {0};
    int32_t end = 0;
    size_t n_cut = 0, n_held = 0;
    memcpy(stop, plain, 4);
    stop[4] = '\x01';
    const char *const stops[] = {stop};
    for (int most = 1; most < 8; most++) {
        NEED(m_rewind(&two, n_prompt) == 0 && m_stop_at(&two, stops, 1) == 0);
        n_cut = write_on(&two, cut, most, &end);
        NEED(m_end_text(&two) == 0);
        memcpy(cut + n_cut, two.text, two.n_text);
        n_held = two.n_text > n_held ? two.n_text : n_held;
        NEED(n_cut + two.n_text <= n && memcmp(cut, plain, n_cut + two.n_text) == 0);
        NEED(m_end_text(&two) == 0 && two.n_text == 0);
    }
    NEED(n_held != 0 && m_end_text(NULL) == RLX_SESSION_NULL);
}

static void test_stops(void)
{
    static char plain[4096], cut[4096];
    int32_t end = 0;
    open_all();
    const int64_t n_prompt = m_feed_text(&one, "an old cat", 10, RLX_TOKENS_FRAME);
    NEED(n_prompt > 1 && m_fork(&two, &one) == 0);
    const size_t n = write_on(&one, plain, 30, &end);
    NEED(n > 16 && (end >= 0 || end == RLX_END_CONTEXT || end == RLX_END_TOKEN));
    for (size_t at = 1; at + 4 < n; at += 3) { // whatever stands there ends the text at its first place
        char stop[5] = {0};
        memcpy(stop, plain + at, 4);
        const char *const stops[] = {"\x01none", stop};
        if (strlen(stop) < 4)
            continue;
        const size_t first = (size_t)(strstr(plain, stop) - plain);
        NEED(m_rewind(&two, n_prompt) == 0 && m_stop_at(&two, stops, 2) == 0);
        const size_t n_cut = write_on(&two, cut, 30, &end);
        NEED(end == RLX_END_STOP && n_cut == first && memcmp(plain, cut, first) == 0);
        NEED(two.n_sure < two.n_tokens && two.n_sure >= n_prompt);
        NEED(m_next(&two, NULL) > RLX_SESSION_NULL); // a text can go on behind it
    }
    check_end(n_prompt, plain, n);
    const char *const wrong[] = {""};
    NEED(m_stop_at(&two, wrong, 1) == RLX_SESSION_STOPS && m_stop_at(&two, NULL, 1) == RLX_SESSION_NULL);
    NEED(m_stop_at(&two, wrong, RLX_SESSION_MOST_STOPS + 1) == RLX_SESSION_STOPS);
}

// What is given beside a token is the log softmax of the logits that it was chosen from.
static void check_logprobs(rlx_session *s, rlx_sampling *sampling)
{
    static float logits[M_LOGITS];
    rlx_candidate best[M_TOKENS + 2];
    double sum = 0;
    NEED(m_logits(s) != NULL);
    memcpy(logits, m_logits(s), sizeof logits);
    const int32_t token = m_next(s, sampling);
    NEED(s->chosen >= 0 && (token == s->chosen || token == RLX_END_TOKEN || token == RLX_END_STOP));
    NEED(m_logprobs(s, best, M_TOKENS + 2) == M_TOKENS + 1 && best[0].token == s->chosen);
    for (int i = 1; i <= M_TOKENS; i++) {
        NEED(i == 1 || best[i].logit <= best[i - 1].logit);
        NEED(best[i].token != s->chosen || best[i].logit == best[0].logit);
        NEED(fabs(best[i].logit - best[1].logit - logits[best[i].token] + logits[best[1].token]) < 1e-4);
        sum += exp((double)best[i].logit);
    }
    NEED(fabs(sum - 1) < 1e-5 && m_logprobs(s, best, 3) == 3 && m_logprobs(s, best, 0) == 0);
}

static void test_logprobs(void)
{
    rlx_sampling s = rlx_sampling_start(9);
    rlx_candidate some[2], same[2];
    s.temperature = 2; // which does not count
    open_all();
    NEED(m_logprobs(&one, some, 2) == 0 && m_feed(&one, list, N) == 0);
    NEED(m_logprobs(&one, some, 2) == 0 && m_logprobs(&one, NULL, 1) == RLX_SESSION_NULL);
    for (int i = 0; i < 12; i++)
        check_logprobs(&one, i % 3 == 0 ? NULL : &s);
    NEED(m_logprobs(&one, some, 2) == 2 && m_fork(&two, &one) == 0 && m_logprobs(&two, same, 2) == 0);
    NEED(m_logprobs(&one, same, 2) == 2 && memcmp(some, same, sizeof some) == 0);
    NEED(m_feed(&one, list, 1) == 0 && one.chosen < 0 && m_logprobs(&one, some, 2) == 0);
    NEED(m_feed(&one, list, (size_t)(M_CONTEXT - one.n_tokens)) == 0);
    NEED(m_next(&one, &s) == RLX_END_CONTEXT && m_logprobs(&one, some, 2) == 0);
    m_close(&one);
    NEED(m_logprobs(&one, some, 2) == RLX_SESSION_NULL);
}

static void test_context(void)
{
    rlx_sampling s = rlx_sampling_start(2);
    open_all();
    NEED(m_feed(&one, list, M_CONTEXT) == 0 && m_next(&one, &s) == RLX_END_CONTEXT);
    NEED(m_logits(&one) != NULL && m_feed(&one, list, 1) == RLX_SESSION_FULL);
    NEED(m_rewind(&one, M_CONTEXT - 1) == 0);
    int32_t token = m_next(&one, &s);
    NEED(token >= 0 || token == RLX_END_TOKEN);
    NEED(m_feed(&two, list, M_CONTEXT + 1) == RLX_SESSION_FULL && two.n_tokens == 0);
    NEED(m_feed(&two, list, M_CONTEXT - 1) == 0 && m_feed(&two, list + M_CONTEXT - 1, 1) == 0);
    NEED(m_feed(&three, list, M_CONTEXT) == 0 && apart(m_logits(&two), m_logits(&three)) < ALLOWED);
}

static void test_arguments(void)
{
    rlx_session closed = {.kind = NULL};
    const int32_t bad[] = {1, M_TOKENS}, less[] = {-1};
    rlx_sampling s = rlx_sampling_start(2);
    static char text[M_TEXT_BYTES + 1];
    open_all();
    NEED(m_open(NULL, memory[0], M_SESSION_BYTES, NULL, 0) == RLX_SESSION_NULL);
    NEED(m_open(&closed, NULL, M_SESSION_BYTES, NULL, 0) == RLX_SESSION_NULL);
    NEED(m_open(&closed, memory[0], M_SESSION_BYTES - 1, NULL, 0) == RLX_SESSION_MEMORY);
    NEED(m_open(&closed, memory[0] + 8, M_SESSION_BYTES, NULL, 0) == RLX_SESSION_MEMORY);
    NEED(m_open(&closed, memory[0], M_SESSION_BYTES, text, 1) == RLX_SESSION_MODEL);
    NEED(closed.run_status != RLX_OK);
    NEED(m_next(&closed, &s) == RLX_SESSION_NULL && m_next(NULL, &s) == RLX_SESSION_NULL);
    NEED(m_feed(&closed, list, 1) == RLX_SESSION_NULL && m_logits(&closed) == NULL);
    NEED(m_save(&closed, saved, SAVED) == RLX_SESSION_NULL && m_fork(&closed, &one) == RLX_SESSION_NULL);
    NEED(m_restore(&closed, saved, SAVED) == RLX_SESSION_NULL && m_rewind(&closed, 0) == RLX_SESSION_NULL);
    m_close(&one);
    open_all();
    NEED(m_next(&one, &s) == RLX_SESSION_EMPTY && m_logits(&one) == NULL);
    NEED(m_feed(&one, NULL, 0) == 0 && m_feed(&one, NULL, 1) == RLX_SESSION_NULL);
    NEED(m_feed(&one, bad, 2) == RLX_TEXT_TOKEN && m_feed(&one, less, 1) == RLX_TEXT_TOKEN);
    NEED(one.n_tokens == 0 && m_rewind(&one, 1) == RLX_SESSION_RANGE);
    NEED(m_rewind(&one, -1) == RLX_SESSION_RANGE);
    NEED(m_feed_text(&one, text, sizeof text, 0) == RLX_TEXT_LENGTH);
    memset(text, 'e', sizeof text);
    NEED(m_feed_text(&one, text, M_TEXT_BYTES, 0) == RLX_SESSION_FULL && one.n_tokens == 0);
    NEED(m_feed(&one, list, 3) == 0);
    s.temperature = -1;
    NEED(m_next(&one, &s) == RLX_TEXT_ARGUMENT && one.n_tokens == 3);
    for (int status = -40; status <= 0; status++)
        NEED(rlx_session_text(status) != NULL);
    m_close(&one);
    m_close(&one);
    NEED(m_feed(&one, list, 1) == RLX_SESSION_NULL);
}

// --- threads and memory --------------------------------------------------------------------------

typedef struct Talk {
    rlx_session s;
    void *block;
    char text[4096];
    size_t n;
    int number;
} Talk;

static void *talk(void *arg)
{
    Talk *t = (Talk *)arg;
    int32_t end;
    open_on(&t->s, t->block);
    NEED(m_feed(&t->s, list + t->number % 5, N) == 0);
    t->n = write_on(&t->s, t->text, MORE, &end);
    return NULL;
}

static void test_threads(void)
{
    static Talk talks[THREADS], alone[THREADS];
    pthread_t id[THREADS];
    open_all();
    for (int i = 0; i < THREADS; i++) {
        void *p = NULL;
        NEED(posix_memalign(&p, RLX_ALIGNMENT, M_SESSION_BYTES) == 0);
        talks[i].block = p;
        alone[i].block = memory[0];
        talks[i].number = alone[i].number = i;
    }
    for (int i = 0; i < THREADS; i++)
        NEED(pthread_create(&id[i], NULL, talk, &talks[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        NEED(pthread_join(id[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) {
        talk(&alone[i]);
        NEED(alone[i].n == talks[i].n && memcmp(alone[i].text, talks[i].text, alone[i].n) == 0);
        free(talks[i].block);
    }
}

static volatile int may_not_allocate;

#ifdef NO_ALLOCATION
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    NEED(!may_not_allocate);
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    NEED(!may_not_allocate);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    NEED(!may_not_allocate);
    return __real_realloc(p, n);
}
#endif

// One session through every call, with what the process has in memory at its end.
static void test_memory(void)
{
    char line[256];
    int32_t end;
    static char text[4096];
    may_not_allocate = 1;
    open_on(&one, memory[0]);
    NEED(m_feed_text(&one, "the cat", 7, RLX_TOKENS_FRAME) > 0 && m_feed(&one, list, N) == 0);
    (void)write_on(&one, text, MORE, &end);
    NEED(m_shift(&one, 2, 5) == 0 && m_logits(&one) != NULL && m_rewind(&one, 6) == 0);
    const int64_t n = m_save(&one, saved, sizeof saved);
    NEED(n > 0 && m_restore(&one, saved, (size_t)n) == 0);
    for (int i = 0; i < M_CONTEXT && end != RLX_END_CONTEXT; i++)
        end = m_next(&one, NULL) == RLX_END_CONTEXT ? RLX_END_CONTEXT : m_feed(&one, list, 1);
    m_close(&one);
    may_not_allocate = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            printf("%lld %s", (long long)n, line + 8);
    if (f != NULL)
        fclose(f);
}

// That the allocator ends the program: this test must fail.
static void test_allocator(void)
{
    may_not_allocate = 1;
    void *volatile p = malloc(1);
    free(p);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {{"logits", test_logits},   {"save", test_save},       {"damaged", test_damaged},
                 {"fork", test_fork},       {"reuse", test_reuse},     {"shift", test_shift},
                 {"stops", test_stops},     {"context", test_context}, {"arguments", test_arguments},
                 {"threads", test_threads}, {"memory", test_memory},
                 {"greedy", test_greedy},   {"drawn", test_drawn},
                 {"logprobs", test_logprobs},
                 {"allocator", test_allocator}};
    int n = 0;
    for (int k = 1; k < argc; k++)
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
            if (strcmp(argv[k], tests[i].name) == 0) {
                tests[i].test();
                n++;
            }
    if (n == argc - 1 && n > 0)
        return 0;
    fprintf(stderr, "usage: session_test WHAT...\n");
    return 2;
}
