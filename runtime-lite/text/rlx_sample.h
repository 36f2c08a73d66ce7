// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from logits, in this order: bias, penalties, what is allowed, top-k, top-p, min-p,
// temperature, one draw. Separate from the vocabulary, of which it needs nothing.
#ifndef RLX_SAMPLE_H
#define RLX_SAMPLE_H

#include "rlx_text.h"

#include <math.h>

// What is added to the logit of a token. Minus infinity forbids it.
typedef struct rlx_logit_bias {
    int32_t token;
    float bias;
} rlx_logit_bias;

typedef struct rlx_sampling {
    float temperature;       // 0: always the best token, of equal ones that of the lowest number
    uint32_t top_k;          // the k best tokens; 0: all
    float top_p;             // the fewest best tokens whose probabilities sum to this; 1: all
    float min_p;             // tokens at least so likely as the best one times this; 0: all
    float repeat_penalty;    // tokens of `last`: divides a positive logit, multiplies another; 1: off
    float frequency_penalty; // subtracted for each time that a token is in `last`; 0: off
    float presence_penalty;  // subtracted once if it is; 0: off
    const int32_t *last;     // the tokens before this one to which penalties apply
    size_t n_last;
    const rlx_logit_bias *bias;
    size_t n_bias;
    uint64_t random; // state of the generator (xorshift64*), not 0; each draw changes it
    // 0: this token must not come now. Only asked about tokens that could be chosen. NULL: any may come.
    int (*allows)(void *allows_with, int32_t token);
    void *allows_with; // NAME_allows: an rlx_parse
} rlx_sampling;

// A token and its logit, after bias and penalties where these apply.
typedef struct rlx_candidate {
    int32_t token;
    float logit;
} rlx_candidate;

// A token whose logit is changed.
typedef struct rlx_change {
    int32_t token;
    uint32_t n_last; // how often it is among the last ones
    float bias;
} rlx_change;

// Work memory of rlx_sample for n logits, and as many entries in `last` and `bias` together.
#define RLX_SAMPLE_BYTES(n, n_last_and_bias)                                                                 \
    (sizeof(rlx_candidate) * (size_t)(n) + sizeof(rlx_change) * (size_t)(n_last_and_bias) + 16)

// The settings that most programs begin with. The seed may be any number.
static inline rlx_sampling rlx_sampling_start(uint64_t seed)
{
    rlx_sampling s;
    s.temperature = 0.8f;
    s.top_k = 40;
    s.top_p = 0.95f;
    s.min_p = 0.05f;
    s.repeat_penalty = 1.0f;
    s.frequency_penalty = s.presence_penalty = 0.0f;
    s.last = NULL;
    s.bias = NULL;
    s.n_last = s.n_bias = 0;
    s.allows = NULL;
    s.allows_with = NULL;
    seed = (seed + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    seed ^= seed >> 31;
    s.random = seed == 0 ? 1 : seed;
    return s;
}

// A number from 0 to below 1.
static inline double rlx_sample_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * 0x2545f4914f6cdd1du) >> 11) / 9007199254740992.0;
}

static inline int rlx_is_better(rlx_candidate a, rlx_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Moves the first of n candidates down to where it belongs: the best one, or the worst one, comes first.
static inline void rlx_candidate_sink(rlx_candidate *heap, size_t n, size_t at, int is_best_first)
{
    const rlx_candidate moved = heap[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && rlx_is_better(heap[child + 1], heap[child]) == is_best_first)
            child++;
        if (rlx_is_better(heap[child], moved) != is_best_first)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static inline void rlx_candidate_heap(rlx_candidate *heap, size_t n, int is_best_first)
{
    for (size_t i = n / 2; i-- != 0;)
        rlx_candidate_sink(heap, n, i, is_best_first);
}

// Would a heap of the `most` best take this candidate?
static inline int rlx_candidate_fits(const rlx_candidate *heap, size_t n, size_t most, rlx_candidate c)
{
    return !isnan(c.logit) && c.logit != -HUGE_VALF && most != 0 && (n < most || rlx_is_better(c, heap[0]));
}

// Offers a candidate to a heap of the `most` best, whose worst comes first once it is full.
static inline void rlx_candidate_offer(rlx_candidate *heap, size_t *n, size_t most, rlx_candidate c)
{
    if (!rlx_candidate_fits(heap, *n, most, c))
        return;
    if (*n < most) {
        heap[(*n)++] = c;
        if (*n == most)
            rlx_candidate_heap(heap, *n, 0);
    } else {
        heap[0] = c;
        rlx_candidate_sink(heap, *n, 0, 0);
    }
}

// --- bias and penalties --------------------------------------------------------------------------

static inline void rlx_change_sink(rlx_change *heap, size_t n, size_t at)
{
    const rlx_change moved = heap[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && heap[child + 1].token > heap[child].token;
        if (heap[child].token <= moved.token)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static inline void rlx_change_sort(rlx_change *list, size_t n)
{
    for (size_t i = n / 2; i-- != 0;)
        rlx_change_sink(list, n, i);
    for (size_t i = n; i-- > 1;) {
        const rlx_change last = list[i];
        list[i] = list[0];
        list[0] = last;
        rlx_change_sink(list, i, 0);
    }
}

// The tokens with a bias or a penalty, each once and in order. Returns how many; below zero: a token is none.
static inline int64_t rlx_changes(const rlx_sampling *s, size_t n_logits, rlx_change *list)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < s->n_bias + s->n_last; i++, n++) {
        const int is_bias = i < s->n_bias;
        list[n].token = is_bias ? s->bias[i].token : s->last[i - s->n_bias];
        list[n].bias = is_bias ? s->bias[i].bias : 0.0f;
        list[n].n_last = is_bias ? 0 : 1;
        if (list[n].token < 0 || (size_t)list[n].token >= n_logits)
            return RLX_TEXT_TOKEN;
    }
    rlx_change_sort(list, n);
    for (size_t i = 0; i < n; i++) {
        if (kept != 0 && list[kept - 1].token == list[i].token) {
            list[kept - 1].n_last += list[i].n_last;
            list[kept - 1].bias += list[i].bias;
        } else {
            list[kept++] = list[i];
        }
    }
    return (int64_t)kept;
}

static inline float rlx_changed_logit(const rlx_sampling *s, const rlx_change *c, float logit)
{
    float x = logit + c->bias;
    if (c->n_last == 0)
        return x;
    x = x > 0.0f ? x / s->repeat_penalty : x * s->repeat_penalty;
    return x - s->frequency_penalty * (float)c->n_last - s->presence_penalty;
}

// --- filters and draw ----------------------------------------------------------------------------

// The probability of a logit, as a part of that of the best one.
static inline double rlx_weight(float logit, float best, double temperature)
{
    return logit == best ? 1.0 : exp(((double)logit - (double)best) / temperature);
}

// Keeps what top-p and min-p allow, at the end of the list with the best one last. Returns how many are kept.
static inline size_t rlx_keep_likely(const rlx_sampling *s, rlx_candidate *list, size_t *n, float best)
{
    double total = 0.0, sum = 0.0;
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        const double weight = rlx_weight(list[i].logit, best, 1.0);
        total += weight;
        if (weight >= (double)s->min_p)
            list[kept++] = list[i];
    }
    *n = kept;
    if (s->top_p >= 1.0f)
        return kept;
    rlx_candidate_heap(list, kept, 1);
    for (size_t left = kept; left != 0;) {
        const rlx_candidate first = list[0];
        list[0] = list[--left];
        list[left] = first;
        rlx_candidate_sink(list, left, 0, 1);
        sum += rlx_weight(first.logit, best, 1.0);
        if (sum >= (double)s->top_p * total)
            return kept - left;
    }
    return kept;
}

static inline int32_t rlx_draw(rlx_sampling *s, const rlx_candidate *list, size_t n, float best)
{
    double total = 0.0;
    size_t chosen = 0;
    for (size_t i = 0; i < n; i++)
        total += rlx_weight(list[i].logit, best, (double)s->temperature);
    double left = rlx_sample_random(&s->random) * total;
    for (size_t i = n; i-- != 0;) {
        const double weight = rlx_weight(list[i].logit, best, (double)s->temperature);
        chosen = weight > 0.0 ? i : chosen;
        left -= weight;
        if (left < 0.0)
            break;
    }
    return list[chosen].token;
}

static inline int rlx_sampling_is_valid(const rlx_sampling *s)
{
    return s->temperature >= 0.0f && s->temperature < HUGE_VALF && s->top_p >= 0.0f && s->min_p >= 0.0f &&
           s->min_p <= 1.0f && s->repeat_penalty > 0.0f && s->repeat_penalty < HUGE_VALF &&
           fabsf(s->frequency_penalty) < HUGE_VALF && fabsf(s->presence_penalty) < HUGE_VALF &&
           s->random != 0 && (s->bias != NULL || s->n_bias == 0) && (s->last != NULL || s->n_last == 0);
}

// Best first. So few that it does not matter how.
enum { RLX_SAMPLE_FEW = 64 };
static inline void rlx_candidate_sort(rlx_candidate *list, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const rlx_candidate moved = list[i];
        size_t at = i;
        for (; at != 0 && rlx_is_better(moved, list[at - 1]); at--)
            list[at] = list[at - 1];
        list[at] = moved;
    }
}

// The next token of the n best ones. Few come in their order first, so that draws do not depend on how they
// were found.
static inline int32_t rlx_sample_best(rlx_sampling *s, rlx_candidate *list, size_t n)
{
    if (n < RLX_SAMPLE_FEW)
        rlx_candidate_sort(list, n);
    rlx_candidate best = list[0];
    for (size_t i = 1; i < n; i++)
        best = rlx_is_better(list[i], best) ? list[i] : best;
    if (s->temperature == 0.0f)
        return best.token;
    const size_t kept = rlx_keep_likely(s, list, &n, best.logit);
    return rlx_draw(s, list + n - kept, kept, best.logit);
}

// Do these settings draw from fewer than RLX_SAMPLE_FEW logits, as they are?
static inline int rlx_samples_few(const rlx_sampling *s)
{
    return rlx_sampling_is_valid(s) && s->temperature > 0.0f && s->top_k != 0 && s->top_k < RLX_SAMPLE_FEW &&
           s->repeat_penalty == 1.0f && s->frequency_penalty == 0.0f && s->presence_penalty == 0.0f &&
           s->n_bias == 0 && s->allows == NULL;
}

// The same token that rlx_sample chooses, by the RLX_SAMPLE_FEW largest of the logits and their tokens.
// RLX_TEXT_NONE: they do not tell, because of NaN, or because it is open which of equal ones are among them.
static inline int32_t rlx_sample_few(rlx_sampling *s, const float *logits, const int64_t *tokens)
{
    rlx_candidate list[RLX_SAMPLE_FEW];
    if (!rlx_samples_few(s) || !(logits[s->top_k - 1] > logits[RLX_SAMPLE_FEW - 1]))
        return RLX_TEXT_NONE;
    for (size_t i = 0; i < RLX_SAMPLE_FEW; i++) {
        if (isnan(logits[i]))
            return RLX_TEXT_NONE;
        list[i].token = (int32_t)tokens[i];
        list[i].logit = logits[i];
    }
    rlx_candidate_sort(list, RLX_SAMPLE_FEW);
    return rlx_sample_best(s, list, s->top_k);
}

// The largest of a block of logits; NaN does not count. Lanes of their own, so that compilers take vectors.
enum { RLX_SAMPLE_BLOCK = 128, RLX_SAMPLE_LANES = 16 };
static inline float rlx_largest_logit(const float *logits)
{
    float most[RLX_SAMPLE_LANES], largest = -HUGE_VALF;
    for (int i = 0; i < RLX_SAMPLE_LANES; i++)
        most[i] = -HUGE_VALF;
    for (int at = 0; at < RLX_SAMPLE_BLOCK; at += RLX_SAMPLE_LANES)
        for (int i = 0; i < RLX_SAMPLE_LANES; i++)
            most[i] = logits[at + i] > most[i] ? logits[at + i] : most[i];
    for (int i = 0; i < RLX_SAMPLE_LANES; i++)
        largest = most[i] > largest ? most[i] : largest;
    return largest;
}

// The first token from i on that may be one of the best: blocks without any, which most are, are passed over.
// worst: the one that has to go for another; all before it have lower numbers. end: where the next block
// must stop, because its logits change.
static inline size_t rlx_sample_pass(const float *logits, size_t i, size_t end, float worst)
{
    while (end - i >= RLX_SAMPLE_BLOCK && rlx_largest_logit(logits + i) <= worst)
        i += RLX_SAMPLE_BLOCK;
    return i;
}

// The next token, or a status below zero. Logits that are NaN or minus infinity are never chosen.
static inline int32_t rlx_sample(rlx_sampling *s, const float *logits, size_t n, rlx_work work)
{
    const int is_greedy = s->temperature == 0.0f;
    const size_t most = is_greedy ? 1 : s->top_k == 0 || s->top_k > n ? n : s->top_k;
    size_t n_found = 0, next = 0;
    if (!rlx_sampling_is_valid(s) || n > INT32_MAX)
        return RLX_TEXT_ARGUMENT;
    if (n == 0)
        return RLX_TEXT_NONE;
    rlx_change *changes = (rlx_change *)rlx_work_take(&work, s->n_bias + s->n_last, sizeof *changes);
    rlx_candidate *list = (rlx_candidate *)rlx_work_take(&work, most, sizeof *list);
    if (changes == NULL || list == NULL)
        return RLX_TEXT_MEMORY;
    const int64_t n_changes = rlx_changes(s, n, changes);
    if (n_changes < 0)
        return (int32_t)n_changes;
    for (size_t i = 0; i < n; i++) {
        rlx_candidate c;
        if (n_found == most && i % RLX_SAMPLE_BLOCK == 0) {
            i = rlx_sample_pass(logits, i, (int64_t)next < n_changes ? (size_t)changes[next].token : n,
                                list[0].logit);
            if (i == n)
                break;
        }
        c.token = (int32_t)i;
        c.logit = logits[i];
        if ((int64_t)next < n_changes && (size_t)changes[next].token == i)
            c.logit = rlx_changed_logit(s, &changes[next++], c.logit);
        if (s->allows == NULL ||
            (rlx_candidate_fits(list, n_found, most, c) && s->allows(s->allows_with, c.token) != 0))
            rlx_candidate_offer(list, &n_found, most, c);
    }
    if (n_found == 0)
        return RLX_TEXT_NONE;
    return rlx_sample_best(s, list, n_found);
}

// --- probabilities -------------------------------------------------------------------------------

// The logarithm of the sum of exponentials of logits: what to subtract from a logit for a log-probability.
// Minus infinity where there is nothing to sum; NaN counts as nothing.
static inline double rlx_log_sum(const float *logits, size_t n)
{
    double sum = 0.0;
    float best = -HUGE_VALF;
    for (size_t i = 0; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    for (size_t i = 0; i < n && best > -HUGE_VALF; i++)
        sum += isnan(logits[i]) ? 0.0 : rlx_weight(logits[i], best, 1.0);
    return sum == 0.0 ? -HUGE_VAL : (double)best + log(sum);
}

// The best `most` tokens, best first, into `list`. Returns how many there are.
static inline size_t rlx_best_tokens(const float *logits, size_t n, rlx_candidate *list, size_t most)
{
    size_t found = 0;
    for (size_t i = 0; i < n && i <= INT32_MAX; i++) {
        rlx_candidate c;
        c.token = (int32_t)i;
        c.logit = logits[i];
        rlx_candidate_offer(list, &found, most, c);
    }
    rlx_candidate_heap(list, found, 0);
    for (size_t left = found; left > 1;) {
        const rlx_candidate worst = list[0];
        list[0] = list[--left];
        list[left] = worst;
        rlx_candidate_sink(list, left, 0, 0);
    }
    return found;
}

// The log-probability of a logit, where rlx_log_sum has given `sum`.
static inline double rlx_logprob_of(float logit, double sum)
{
    if (isnan(logit) || logit == -HUGE_VALF)
        return -HUGE_VAL;
    return sum == HUGE_VAL ? (logit == HUGE_VALF ? 0.0 : -HUGE_VAL) : (double)logit - sum;
}

// The log-probability of a token by these logits alone, without bias, penalties or filters. Minus infinity:
// it is no token, or never comes.
static inline double rlx_logprob(const float *logits, size_t n, int32_t token)
{
    if (token < 0 || (size_t)token >= n)
        return -HUGE_VAL;
    return rlx_logprob_of(logits[token], rlx_log_sum(logits, n));
}

// The same of a token, in list[0], and behind it of the best most - 1 tokens, best first, with the
// log-probabilities in place of logits. Returns how many these are. most: at least 1.
static inline size_t rlx_token_logprobs(const float *logits, size_t n, int32_t token, rlx_candidate *list,
                                        size_t most)
{
    const double sum = rlx_log_sum(logits, n);
    const size_t found = 1 + rlx_best_tokens(logits, n, list + 1, most - 1);
    list[0].token = token;
    list[0].logit = token < 0 || (size_t)token >= n ? -HUGE_VALF : logits[token];
    for (size_t i = 0; i < found; i++)
        list[i].logit = (float)rlx_logprob_of(list[i].logit, sum);
    return found;
}

// The best `most` tokens with their log-probabilities in place of logits, best first. Returns how many.
static inline size_t rlx_best_logprobs(const float *logits, size_t n, rlx_candidate *list, size_t most)
{
    const double sum = rlx_log_sum(logits, n);
    const size_t found = rlx_best_tokens(logits, n, list, most);
    for (size_t i = 0; i < found; i++)
        list[i].logit = (float)rlx_logprob_of(list[i].logit, sum);
    return found;
}

#endif
