// SPDX-License-Identifier: Apache-2.0
// Copies of bytes and of 16-bit elements across the order in which they write, as words of 32 bits; see
// turn_words.c. Apart from turn.h, which callers include, since only the schedule of turns needs this.
#ifndef PASSES_LOWER_TURN_WORDS_H
#define PASSES_LOWER_TURN_WORDS_H

#include "passes/lower/lower.h"

// What is moved (to 0: to the destination of a copy), with the axes along which the elements of both are
// neighbours.
typedef struct TurnedWords {
    const Domain *d;
    NodeId from, to;
    uint32_t from_axis, to_axis;
} TurnedWords;

// A whole kernel, which only moves elements. False: nothing was emitted, because rows do not begin with
// words.
bool turn_words(Lower *l, const TurnedWords *t);

#endif
