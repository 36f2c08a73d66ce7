// SPDX-License-Identifier: Apache-2.0
// Answers requests about sampling on standard input, one a line: `draw N SEED SETTINGS...` and the logits
// draw N tokens and print how often each came; other words are cases that check themselves. Memory has
// guards under sanitizers.
#include "runtime-lite/text/rlx_sample.h"
#include "runtime-lite/text/rlx_stops.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_failed;

static void expect(int ok, const char *what)
{
    printf("%s %s\n", ok ? "ok" : "not ok", what);
    n_failed += !ok;
}

static int32_t sample(rlx_sampling *s, const float *logits, size_t n)
{
    rlx_work work = {NULL, RLX_SAMPLE_BYTES(n, s->n_last + s->n_bias)};
    void *memory = work.memory = malloc(work.bytes);
    const int32_t token = rlx_sample(s, logits, n, work);
    free(memory);
    return token;
}

// --- draws ---------------------------------------------------------------------------------------

static void read_floats(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (scanf("%f", &x[i]) != 1)
            exit(1);
}

// draw N SEED n k top_p min_p temperature repeat frequency presence n_last n_bias, last, bias pairs, logits.
static int draw(void)
{
    enum { MOST = 2048 };
    unsigned long long seed;
    size_t n_draws, n;
    float f[6], logits[MOST], pair[2];
    int32_t last[MOST];
    rlx_logit_bias bias[MOST];
    unsigned k, count[MOST] = {0};
    if (scanf("%zu %llu %zu %u", &n_draws, &seed, &n, &k) != 4 || n > MOST)
        return 0;
    rlx_sampling s = rlx_sampling_start(seed);
    read_floats(f, 6);
    s.top_k = k;
    s.top_p = f[0];
    s.min_p = f[1];
    s.temperature = f[2];
    s.repeat_penalty = f[3];
    s.frequency_penalty = f[4];
    s.presence_penalty = f[5];
    if (scanf("%zu %zu", &s.n_last, &s.n_bias) != 2 || s.n_last > MOST || s.n_bias > MOST)
        exit(1);
    for (size_t i = 0; i < s.n_last; i++) {
        read_floats(pair, 1);
        last[i] = (int32_t)pair[0];
    }
    for (size_t i = 0; i < s.n_bias; i++) {
        read_floats(pair, 2);
        bias[i].token = (int32_t)pair[0];
        bias[i].bias = pair[1];
    }
    s.last = last;
    s.bias = bias;
    read_floats(logits, n);
    for (size_t i = 0; i < n_draws; i++) {
        const int32_t token = sample(&s, logits, n);
        if (token < 0)
            exit(1);
        count[token]++;
    }
    for (size_t i = 0; i < n; i++)
        printf("%u%c", count[i], i + 1 < n ? ' ' : '\n');
    return 1;
}

// --- cases that check themselves -----------------------------------------------------------------

static void check_edges(void)
{
    const float nan = NAN, inf = HUGE_VALF;
    const float nothing[3] = {nan, -inf, -inf}, one[3] = {nan, -inf, 2.0f}, equal[3] = {1.0f, 5.0f, 5.0f};
    const float huge[4] = {1.0f, inf, 3.0f, inf};
    rlx_sampling s = rlx_sampling_start(1);
    expect(sample(&s, nothing, 3) == RLX_TEXT_NONE, "only NaN and minus infinity");
    expect(sample(&s, nothing, 0) == RLX_TEXT_NONE, "no logits");
    expect(sample(&s, one, 3) == 2, "one that is a number");
    s.top_k = 1000;
    expect(sample(&s, one, 3) == 2, "more candidates than tokens");
    s.top_k = 1;
    expect(sample(&s, equal, 3) == 1, "the first of equal ones");
    s.temperature = 0.0f;
    expect(sample(&s, equal, 3) == 1, "temperature 0");
    expect(sample(&s, nothing, 3) == RLX_TEXT_NONE, "temperature 0 without a number");
    s.temperature = 1e-30f;
    s.top_k = 0;
    expect(sample(&s, equal, 3) != 0, "a temperature near 0");
    int seen = 0;
    for (int i = 0; i < 64; i++)
        seen |= 1 << sample(&s, huge, 4);
    expect(seen == (1 << 1 | 1 << 3), "infinities share");
    s.top_p = 0.0f;
    expect(sample(&s, equal, 3) == 1, "top-p 0 is the best one");
}

static void check_arguments(void)
{
    const float logits[2] = {0.0f, 1.0f};
    const int32_t bad = 2;
    const rlx_logit_bias forbid = {1, -HUGE_VALF};
    rlx_work none = {NULL, 0};
    rlx_sampling s = rlx_sampling_start(0);
    expect(rlx_sample(&s, logits, 2, none) == RLX_TEXT_MEMORY, "no memory");
    s.temperature = NAN;
    expect(sample(&s, logits, 2) == RLX_TEXT_ARGUMENT, "a temperature that is NaN");
    s.temperature = -1.0f;
    expect(sample(&s, logits, 2) == RLX_TEXT_ARGUMENT, "a negative temperature");
    s = rlx_sampling_start(0);
    s.repeat_penalty = 0.0f;
    expect(sample(&s, logits, 2) == RLX_TEXT_ARGUMENT, "a repeat penalty of 0");
    s = rlx_sampling_start(1);
    s.n_bias = 1;
    expect(sample(&s, logits, 2) == RLX_TEXT_ARGUMENT, "biases without a list");
    s = rlx_sampling_start(0);
    s.last = &bad;
    s.n_last = 1;
    expect(sample(&s, logits, 2) == RLX_TEXT_TOKEN, "a last token that there is not");
    s = rlx_sampling_start(0);
    s.bias = &forbid;
    s.n_bias = 1;
    int is_zero = 1;
    for (int i = 0; i < 50; i++)
        is_zero = is_zero && sample(&s, logits, 2) == 0;
    expect(is_zero, "a forbidden token never comes");
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// The largest logits, in the order in which a device may give them, and their tokens.
static void find_few(const float *logits, size_t n, float *few, int64_t *tokens)
{
    static unsigned char is_taken[1000];
    memset(is_taken, 0, n);
    for (size_t i = 0; i < RLX_SAMPLE_FEW; i++) {
        size_t best = n;
        for (size_t j = n; j-- != 0;) // of equal ones the last
            if (!is_taken[j] && (best == n || logits[j] > logits[best] || isnan(logits[j])))
                best = j;
        is_taken[best] = 1;
        few[i] = logits[best];
        tokens[i] = (int64_t)best;
    }
}

// Draws from the largest logits are those from all of them.
static void check_few(void)
{
    enum { N = 1000, ROUNDS = 300 };
    static float logits[N], few[RLX_SAMPLE_FEW];
    int64_t tokens[RLX_SAMPLE_FEW];
    uint32_t state = 5;
    int is_same = 1, n_open = 0;
    for (int round = 0; round < ROUNDS; round++) {
        rlx_sampling all = rlx_sampling_start((uint64_t)round), some = all;
        const uint32_t most = round % 2 ? 40 : 1000000; // in every other round many are equal
        for (size_t i = 0; i < N; i++)
            logits[i] = (float)(next_random(&state) % most) * 8.0f / (float)most;
        all.top_k = some.top_k = 1 + next_random(&state) % (RLX_SAMPLE_FEW - 1);
        find_few(logits, N, few, tokens);
        const int32_t token = rlx_sample_few(&some, few, tokens), wanted = sample(&all, logits, N);
        n_open += token == RLX_TEXT_NONE;
        is_same = is_same && (token == RLX_TEXT_NONE || (token == wanted && some.random == all.random));
    }
    expect(is_same, "draws from few are those from all");
    expect(n_open > 0 && n_open < ROUNDS / 2 + 10, "which of equal ones are among few may be open");
    rlx_sampling s = rlx_sampling_start(1);
    for (size_t i = 0; i < N; i++)
        logits[i] = (float)i;
    logits[3] = NAN;
    find_few(logits, N, few, tokens);
    expect(rlx_sample_few(&s, few, tokens) == RLX_TEXT_NONE, "few with NaN do not tell");
    logits[3] = 0.0f;
    find_few(logits, N, few, tokens);
    expect(rlx_sample_few(&s, few, tokens) >= N - 40, "few without");
    s.presence_penalty = 1.0f;
    expect(!rlx_samples_few(&s), "penalties need all logits");
    s = rlx_sampling_start(1);
    s.top_k = RLX_SAMPLE_FEW;
    expect(!rlx_samples_few(&s), "and so does a large top-k");
}

static void check_log(void)
{
    const float logits[5] = {0.5f, -HUGE_VALF, 2.0f, NAN, 2.0f}, nothing[2] = {NAN, -HUGE_VALF};
    const float huge[2] = {1.0f, HUGE_VALF};
    rlx_candidate best[5];
    const double sum = rlx_log_sum(logits, 5), wanted = log(exp(0.5) + 2.0 * exp(2.0));
    expect(fabs(sum - wanted) < 1e-12, "the logarithm of a sum");
    expect(rlx_log_sum(nothing, 2) == -HUGE_VAL && rlx_log_sum(nothing, 0) == -HUGE_VAL, "a sum of nothing");
    expect(rlx_best_tokens(logits, 5, best, 2) == 2 && best[0].token == 2 && best[1].token == 4,
           "the best two");
    expect(rlx_best_tokens(logits, 5, best, 5) == 3 && best[2].token == 0, "no more than there are");
    expect(rlx_best_tokens(logits, 5, best, 0) == 0, "none");
    expect(fabs(rlx_logprob(logits, 5, 0) - (0.5 - wanted)) < 1e-12, "a log-probability");
    expect(rlx_logprob(logits, 5, 1) == -HUGE_VAL && rlx_logprob(logits, 5, 3) == -HUGE_VAL &&
               rlx_logprob(logits, 5, 5) == -HUGE_VAL && rlx_logprob(logits, 5, -1) == -HUGE_VAL,
           "log-probabilities of what never comes");
    expect(rlx_best_logprobs(logits, 5, best, 3) == 3 && best[2].token == 0 &&
               fabs((double)best[1].logit - (2.0 - wanted)) < 1e-6,
           "the best log-probabilities");
    expect(rlx_token_logprobs(logits, 5, 0, best, 3) == 3 && best[0].token == 0 && best[1].token == 2 &&
               best[2].token == 4 && fabs((double)best[0].logit - (0.5 - wanted)) < 1e-6 &&
               fabs((double)best[1].logit - (2.0 - wanted)) < 1e-6,
           "those of a token and of the best ones");
    expect(rlx_token_logprobs(logits, 5, 3, best, 1) == 1 && best[0].logit == -HUGE_VALF &&
               rlx_token_logprobs(logits, 5, -1, best, 1) == 1 && best[0].logit == -HUGE_VALF,
           "a token that never comes");
    expect(rlx_best_logprobs(huge, 2, best, 2) == 2 && best[0].logit == 0.0f && best[1].logit == -HUGE_VALF &&
               rlx_logprob(huge, 2, 1) == 0.0 && rlx_logprob(huge, 2, 0) == -HUGE_VAL,
           "a logit of infinity is certain");
}

// Draws are those of the tokens that are allowed, as if the others had no logits.
static int is_even(void *with, int32_t token)
{
    ++*(int *)with;
    return token % 2 == 0;
}

static int is_none(void *with, int32_t token)
{
    ++*(int *)with;
    return token < 0;
}

static void check_allows(void)
{
    float logits[64], masked[64];
    int n_asked = 0, is_same = 1;
    rlx_sampling s = rlx_sampling_start(3), m = rlx_sampling_start(3);
    s.top_k = m.top_k = 7;
    s.allows = is_even;
    s.allows_with = &n_asked;
    for (int i = 0; i < 64; i++) {
        logits[i] = (float)rlx_sample_random(&s.random);
        masked[i] = i % 2 == 0 ? logits[i] : -HUGE_VALF;
    }
    m.random = s.random;
    for (int i = 0; i < 300; i++)
        is_same = is_same && sample(&s, logits, 64) == sample(&m, masked, 64);
    expect(is_same, "what is not allowed is as if it had no logit");
    expect(n_asked < 300 * 60, "only tokens that could be chosen are asked about");
    s.temperature = m.temperature = 0.0f;
    expect(sample(&s, logits, 64) == sample(&m, masked, 64), "the best one that is allowed");
    s.allows = is_none;
    expect(sample(&s, logits, 64) == RLX_TEXT_NONE, "nothing is allowed");
}

static void check_seeds(void)
{
    float logits[32] = {0};
    rlx_sampling a = rlx_sampling_start(7), b = rlx_sampling_start(7), c = rlx_sampling_start(8);
    int is_same = 1, differs = 0;
    for (int i = 0; i < 32; i++) {
        const int32_t token = sample(&a, logits, 32);
        is_same = is_same && token == sample(&b, logits, 32);
        differs = differs || token != sample(&c, logits, 32);
    }
    expect(is_same && differs, "a seed repeats, another one does not");
}

// --- stop strings --------------------------------------------------------------------------------

// Reads `stop n_stops stop... text part`: prints what comes out, with the text given in parts of that many
// bytes.
static int stop(void)
{
    enum { MOST = 8, ROOM = 256 };
    static char word[MOST + 1][ROOM];
    static uint32_t back[MOST][ROOM];
    rlx_stop stops[MOST];
    rlx_stops s = {stops, 0, 0};
    size_t part, used = 0;
    char out[2 * ROOM];
    if (scanf("%zu", &s.n) != 1 || s.n > MOST)
        return 0;
    for (size_t i = 0; i < s.n; i++) {
        if (scanf("%255s", word[i]) != 1)
            return 0;
        stops[i].text = word[i];
        stops[i].n = strlen(word[i]);
        stops[i].back = back[i];
    }
    if (scanf("%255s %zu", word[MOST], &part) != 2 || part == 0 || rlx_stops_start(&s) != 0)
        return 0;
    const size_t n = strlen(word[MOST]);
    for (size_t at = 0; at < n; at += part)
        used += rlx_stops_feed(&s, word[MOST] + at, n - at < part ? n - at : part, out + used);
    used += rlx_stops_end(&s, out + used);
    printf("%d [%.*s]\n", s.is_stopped, (int)used, out);
    return 1;
}

int main(void)
{
    char word[16];
    while (scanf("%15s", word) == 1) {
        if (strcmp(word, "cases") == 0) {
            check_edges();
            check_arguments();
            check_few();
            check_log();
            check_allows();
            check_seeds();
        } else if (!(strcmp(word, "draw") == 0 ? draw() : stop())) {
            return 2;
        }
    }
    return n_failed != 0;
}
