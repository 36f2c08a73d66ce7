// SPDX-License-Identifier: Apache-2.0
// Integers instead of floats behind a sum: finds, for a step function f of an integer, numbers with which
//     y = clamp(sum * factor + start >> 32 + shift, least, most)
// equals f for every sum that can occur. Both are monotone, so they are equal if they reach each value at the
// same sum and have the same values at both ends, which is what is compared.
//
// Where f rounds twice (a product of floats, then half to even), that cannot always be. Then the sum
// is taken with start - zone and with start + zone. If the two values differ, the even one counts (the odd
// one, if f adds an odd number behind), or a bit that is stored for each pair of values says which one. And a
// few sums may be off by one: these exceptions are named. A shift below 0 is that of factors of 0.5 and more.
#ifndef PASSES_GRAPH_REQUANTISER_H
#define PASSES_GRAPH_REQUANTISER_H

#include "base/arena.h"
#include "passes/graph/choices.h"

#include <stdbool.h>
#include <stdint.h>

// y[i] = f(sum[i]) of a channel; f never falls. least, most: what the type of the result can hold. A clamp
// there is one instruction of some machines, so it is preferred to a narrower one.
typedef struct Steps {
    void (*eval)(void *ctx, uint32_t channel, const int64_t *sum, uint32_t n, int64_t *y);
    void *ctx;
    int64_t least, most;
    uint32_t exceptions;  // of each kind that a channel may have, at most REQUANT_MAX_EXCEPTIONS
    int64_t max_shift;    // up to REQUANT_MAX_SHIFT, with which start and the steps of a byte stay below 2^62
    bool prefers_choices; // to exceptions beside a zone
} Steps;

enum {
    REQUANT_MAX_SHIFT = 20,
    REQUANT_MIN_SHIFT = -12,
    REQUANT_MAX_STEPS = 255,
    REQUANT_MAX_EXCEPTIONS = 8
};

typedef struct RequantChannel {
    int64_t lo, hi;               // the sums that can occur
    double slope, offset;         // f is about slope * sum + offset, rounded, between its ends
    int64_t first, last;          // f(lo), f(hi)
    int64_t factor, start, shift; // what was found
    int64_t zone, odd;            // 0: there is no zone; 1: the odd value counts
    int64_t above[REQUANT_MAX_EXCEPTIONS], below[REQUANT_MAX_EXCEPTIONS]; // f is one more, or less, for these
    uint32_t n_above, n_below;
    uint32_t upper[CHOICE_WORDS]; // see choices.h
    int64_t *at; // the least sums for which f is first + 1, first + 2 ...; NULL: not known yet
} RequantChannel;

typedef struct Requant {
    Arena *arena;
    int64_t least, most;
    int64_t shift, odd; // of all channels that have none of their own; of all channels
    bool has_zone, has_choices; // choices: `upper` says what counts in a zone
    uint32_t exceptions; // that a channel may have
    int64_t max_shift;
} Requant;
// False: none was found for some channel. Shifts are equal where possible.
bool requant_find(Arena *a, const Steps *f, RequantChannel *channel, uint32_t n, Requant *out);

#endif
