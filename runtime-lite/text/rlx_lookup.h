// SPDX-License-Identifier: Apache-2.0
// Guesses how a text goes on by what stood behind its last tokens when they came before. Separate from
// sampling, which decides whether a guess was right.
#ifndef RLX_LOOKUP_H
#define RLX_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

enum {
    RLX_LOOKUP_LEAST = 2, // tokens that must have come before
    RLX_LOOKUP_MOST = 8   // so many are as good as more
};

// How many tokens before place `at` are those at the end of the text?
static inline size_t rlx_lookup_same(const int32_t *tokens, size_t n, size_t at)
{
    size_t same = 0;
    while (same < RLX_LOOKUP_MOST && same < at && tokens[at - 1 - same] == tokens[n - 1 - same])
        same++;
    return same;
}

// Writes up to `most` tokens that may follow the n tokens: those behind the place with most of the last
// tokens, of equal ones the last place. A text that repeats itself goes on doing so. Returns how many.
static inline size_t rlx_lookup(const int32_t *tokens, size_t n, int32_t *out, size_t most)
{
    size_t best = RLX_LOOKUP_LEAST - 1, from = 0;
    for (size_t at = n; at-- > 1 && best < RLX_LOOKUP_MOST;) {
        const size_t same = rlx_lookup_same(tokens, n, at);
        if (same > best) {
            best = same;
            from = at;
        }
    }
    for (size_t i = 0; from != 0 && i < most; i++)
        out[i] = from + i < n ? tokens[from + i] : out[from + i - n];
    return from == 0 ? 0 : most;
}

#endif
