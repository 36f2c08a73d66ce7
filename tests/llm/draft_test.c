// SPDX-License-Identifier: Apache-2.0
// What drafts promise (check_drafts.py makes the model m, with --drafts 4): a session with guesses, right or
// wrong, writes what it writes without them, in fewer runs where they are right. Exit status 1, with the
// place, where something is not as it must be.
#include "session_need.h"

#define ALLOWED 8e-6 // runs of several rows add up in another order than those of one

enum { N = 9, MORE = 30, SEEDS = 12000, SAVED = M_SESSION_BYTES + 1024 };

static RLX_ALIGNED unsigned char memory[3][M_SESSION_BYTES];
static rlx_session plain, drafted, third;
static unsigned char saved[SAVED];
static int32_t prompt[M_CONTEXT + 1];

static void open_all(void)
{
    rlx_session *const all[] = {&plain, &drafted, &third};
    make_tokens(prompt, M_CONTEXT + 1);
    for (int i = 0; i < 3; i++)
        open_on(all[i], memory[i]);
}

static rlx_sampling sampling_of(uint64_t seed)
{
    rlx_sampling s = rlx_sampling_start(seed);
    s.repeat_penalty = 1.1f;
    s.temperature = seed == 0 ? 0 : 1;
    return s;
}

// --- the same text, in fewer runs ----------------------------------------------------------------

// Gives guesses of what comes, of which number `wrong` and those behind it are wrong.
static void guess(const int32_t *truth, int wrong)
{
    int32_t drafts[M_DRAFTS + 1];
    if (drafted.n_drafts != 0)
        return;
    for (int i = 0; i <= M_DRAFTS; i++)
        drafts[i] = i < wrong ? truth[i] : (truth[i] + 1) % M_TOKENS;
    NEED(m_draft(&drafted, drafts, M_DRAFTS + 1) == M_DRAFTS + (drafted.has_logits != 0));
}

// Returns how many runs it took.
static int check_same(uint64_t seed, int wrong)
{
    rlx_sampling a = sampling_of(seed), b = sampling_of(seed);
    rlx_candidate x[5], y[5];
    int32_t truth[MORE + M_DRAFTS + 1] = {0};
    int runs = 0, n = 0;
    NEED(m_rewind(&plain, 0) == 0 && m_feed(&plain, prompt, N) == 0 && m_rewind(&drafted, 0) == 0);
    while (n < MORE && (truth[n] = m_next(&plain, &a)) >= 0)
        n++;
    truth[n] = truth[n] < 0 ? 0 : truth[n]; // the text has ended
    NEED(m_rewind(&plain, 0) == 0 && m_feed(&plain, prompt, N) == 0 && m_feed(&drafted, prompt, N) == 0);
    a = sampling_of(seed);
    for (int i = 0; i < n; i++) {
        if (wrong >= 0)
            guess(truth + i, wrong);
        else
            NEED(m_draft(&drafted, NULL, M_DRAFTS) >= 0);
        runs += !drafted.has_logits;
        NEED(m_next(&plain, &a) == truth[i] && m_next(&drafted, &b) == truth[i]);
        NEED(plain.n_text == drafted.n_text && memcmp(plain.text, drafted.text, plain.n_text) == 0);
        NEED(m_logprobs(&plain, x, 5) == 5 && m_logprobs(&drafted, y, 5) == 5);
        for (int k = 0; k < 5; k++)
            NEED(x[k].token == y[k].token && fabs(x[k].logit - y[k].logit) < 1e-4);
        NEED(drafted.n_tokens == plain.n_tokens && a.random == b.random);
    }
    NEED(apart(m_logits(&plain), m_logits(&drafted)) < ALLOWED);
    return n < MORE ? 0 : runs;
}

static void test_same(void)
{
    int n_whole = 0, plainest = 0;
    open_all();
    for (uint64_t seed = 0; seed < 12; seed++) {
        (void)check_same(seed, -1);
        const int slow = check_same(seed, 0), some = check_same(seed, 2);
        const int fast = check_same(seed, M_DRAFTS + 1);
        if (slow == 0) // the text has ended early
            continue;
        n_whole++;
        plainest = slow;
        NEED(slow == MORE - 1 && some <= (MORE + 2) / 3 && fast <= MORE / (M_DRAFTS + 1) + 1);
    }
    NEED(n_whole >= 3 && plainest != 0);
}

// --- the same distribution -----------------------------------------------------------------------

// What is not explained by chance once in 100 000 times (Wilson and Hilferty). Rare tokens count as one.
static void check_counts(const int *count, const float *logits, double temperature)
{
    double sum = 0, value = 0, rare[2] = {0, 0};
    int n = 0, cells = 0;
    for (int i = 0; i < M_TOKENS; i++) {
        sum += exp(logits[i] / temperature);
        n += count[i];
    }
    for (int i = 0; i < M_TOKENS; i++) {
        const double expected = n * exp(logits[i] / temperature) / sum;
        const int is_rare = expected < 5;
        rare[0] += is_rare ? count[i] : 0;
        rare[1] += is_rare ? expected : 0;
        value += is_rare ? 0 : (count[i] - expected) * (count[i] - expected) / expected;
        cells += !is_rare;
    }
    value += rare[1] < 1 ? 0 : (rare[0] - rare[1]) * (rare[0] - rare[1]) / rare[1];
    const double degrees = rare[1] < 1 ? cells - 1 : cells, part = 2 / (9 * degrees);
    NEED(n > 500 && cells > 8 && value < degrees * pow(1 - part + 4.265 * sqrt(part), 3));
}

// The logits behind the tokens of `plain`, and the likeliest token that does not end the text.
static int32_t likeliest(float *logits)
{
    int32_t best = -1;
    NEED(m_logits(&plain) != NULL);
    memcpy(logits, m_logits(&plain), M_LOGITS * sizeof *logits);
    for (int i = 0; i < M_TOKENS; i++)
        if (i != M_EOS && i != M_EOT && (best < 0 || logits[i] > logits[best]))
            best = i;
    return best;
}

// The token at the place of a draft, and the one behind it where the draft was right. Both come from rows of
// one run.
static void test_distribution(void)
{
    static int first[M_TOKENS], second[M_TOKENS];
    static float logits[2][M_LOGITS];
    int32_t drafts[2];
    int n_rows = 0;
    open_all();
    NEED(m_feed(&plain, prompt, N) == 0);
    drafts[0] = likeliest(logits[0]);
    NEED(m_feed(&plain, drafts, 1) == 0);
    drafts[1] = likeliest(logits[1]);
    NEED(m_feed(&drafted, prompt, N + 1) == 0);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        rlx_sampling s = rlx_sampling_start(seed);
        s.temperature = 1.5f;
        s.top_k = 0;
        s.top_p = 1;
        s.min_p = 0;
        NEED(m_rewind(&drafted, N) == 0 && m_draft(&drafted, drafts, 2) == 2);
        (void)m_next(&drafted, &s);
        first[drafted.chosen]++;
        if (drafted.chosen != drafts[0])
            continue;
        NEED(drafted.n_drafts == 1);
        n_rows += drafted.has_logits;
        (void)m_next(&drafted, &s);
        second[drafted.chosen]++;
    }
    NEED(n_rows > 500);
    check_counts(first, logits[0], 1.5);
    check_counts(second, logits[1], 1.5);
}

// --- drafts and the other calls ------------------------------------------------------------------

// A session in which drafts wait whose logits are there.
static void run_ahead(void)
{
    int32_t drafts[M_DRAFTS];
    NEED(m_rewind(&plain, 0) == 0 && m_feed(&plain, prompt, N) == 0);
    for (int i = 0; i < M_DRAFTS; i++)
        NEED((drafts[i] = m_next(&plain, NULL)) >= 0);
    NEED(m_rewind(&drafted, 0) == 0 && m_feed(&drafted, prompt, N + 1) == 0);
    NEED(m_rewind(&drafted, N) == 0 && m_draft(&drafted, drafts, M_DRAFTS) == M_DRAFTS);
    NEED(m_next(&drafted, NULL) == drafts[0] && drafted.n_drafts == M_DRAFTS - 1 && drafted.has_logits);
    NEED(m_rewind(&plain, N + 1) == 0 && drafted.n_run == N + 1);
}

static void check_rest(rlx_session *s)
{
    for (int i = 0; i < 6; i++)
        NEED(m_next(s, NULL) == m_next(&plain, NULL));
    NEED(apart(m_logits(s), m_logits(&plain)) < ALLOWED);
}

static void test_calls(void)
{
    open_all();
    run_ahead();
    int64_t n = m_save(&drafted, saved, sizeof saved);
    NEED(n > 0 && n <= SAVED && m_restore(&third, saved, (size_t)n) == 0 && third.n_drafts == 0);
    check_rest(&third);
    run_ahead();
    NEED(m_fork(&third, &drafted) == 0 && third.n_drafts == 0 && drafted.n_drafts != 0);
    check_rest(&third);
    run_ahead();
    n = m_save(&plain, saved, sizeof saved);
    NEED(m_restore(&drafted, saved, (size_t)n) == 0 && drafted.n_drafts == 0);
    check_rest(&drafted);
    run_ahead();
    NEED(m_feed(&drafted, prompt, 3) == 0 && drafted.n_drafts == 0 && m_feed(&plain, prompt, 3) == 0);
    check_rest(&drafted);
    run_ahead();
    NEED(m_shift(&drafted, 2, 3) == 0 && drafted.n_drafts == 0 && m_shift(&plain, 2, 3) == 0);
    check_rest(&drafted);
    run_ahead();
    NEED(m_rewind(&drafted, N - 2) == 0 && drafted.n_drafts == 0 && m_rewind(&plain, N - 2) == 0);
    check_rest(&drafted);
    run_ahead();
    NEED(m_reuse(&drafted, prompt, N) == N && m_reuse(&plain, prompt, N) == N && drafted.n_drafts == 0);
    check_rest(&drafted);
    run_ahead();
    NEED(m_feed_text(&drafted, "the", 3, 0) > 0 && m_feed_text(&plain, "the", 3, 0) > 0);
    check_rest(&drafted);
}

static void test_bounds(void)
{
    const int32_t bad[] = {1, M_TOKENS}, good[M_DRAFTS + 3] = {5, 6, 5, 6};
    rlx_session closed = {.kind = NULL};
    open_all();
    NEED(m_draft(&closed, good, 1) == RLX_SESSION_NULL && m_draft(NULL, good, 1) == RLX_SESSION_NULL);
    NEED(m_draft(&drafted, NULL, 4) == 0 && m_draft(&drafted, bad, 2) == RLX_TEXT_TOKEN);
    NEED(drafted.n_drafts == 0 && m_draft(&drafted, good, M_DRAFTS + 3) == M_DRAFTS);
    NEED(m_next(&drafted, NULL) == RLX_SESSION_EMPTY && m_draft(&drafted, bad, 2) == M_DRAFTS);
    NEED(m_feed(&drafted, prompt, M_CONTEXT - 2) == 0 && m_draft(&drafted, good, M_DRAFTS) == 2);
    NEED(m_feed(&plain, prompt, M_CONTEXT - 2) == 0);
    for (int i = 0; i < 4; i++) {
        const int32_t token = m_next(&drafted, NULL);
        NEED(token == m_next(&plain, NULL) && (i < 2 || token == RLX_END_CONTEXT));
    }
    NEED(m_draft(&drafted, good, M_DRAFTS) == 0 && m_logits(&drafted) != NULL);
}

static void test_lookup(void)
{
    const int32_t text[] = {4, 5, 6, 7, 1, 5, 6, 8, 9, 4, 5, 6};
    const int32_t twice[] = {1, 2, 3, 2, 3}, once[] = {1, 2, 3};
    int32_t out[6];
    NEED(rlx_lookup(text, 12, out, 3) == 3 && out[0] == 7 && out[1] == 1 && out[2] == 5);
    NEED(rlx_lookup(text + 4, 3, out, 3) == 0 && rlx_lookup(once, 3, out, 3) == 0);
    NEED(rlx_lookup(twice, 5, out, 6) == 6 && out[0] == 2 && out[1] == 3 && out[4] == 2 && out[5] == 3);
    NEED(rlx_lookup(text, 12, out, 0) == 0 && rlx_lookup(text, 0, out, 3) == 0);
    NEED(rlx_lookup(text, 1, out, 3) == 0);
}

int main(void)
{
    static void (*const tests[])(void) = {test_lookup, test_same, test_distribution, test_calls, test_bounds};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i]();
    return 0;
}
