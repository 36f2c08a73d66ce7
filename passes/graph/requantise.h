// SPDX-License-Identifier: Apache-2.0
// How the pass `requantise` brings the sums of a channel back to bytes, for schedules that do it themselves.
#ifndef PASSES_GRAPH_REQUANTISE_H
#define PASSES_GRAPH_REQUANTISE_H

#include "ir/graph/graph.h"

enum { REQUANT_MOST = 16 }; // exceptions

// (sum * factor + start) >> 32 + shift, from -128 to 127; for the sums that are exceptions, `added` more
// before the clamp. even: not 0 where halves become the even number, which powers of two as factors need:
// then the sum counts less 1, and with bit `even` of that added.
typedef struct RequantScale {
    int64_t factor, start, shift, even;
    uint32_t n_exceptions;
    int64_t exception[REQUANT_MOST], added[REQUANT_MOST];
} RequantScale;

// What becomes of these bytes in the end: they are kept between `least` and `most`, and where the result has
// no sign it is 128 more than they are.
typedef struct RequantEnds {
    int64_t least, most;
    bool is_unsigned;
} RequantEnds;

// Of each channel (axis 1) of the node `sum`, if `root` is that; else NULL.
RequantScale *requantise_match(Arena *a, const Graph *g, NodeId root, NodeId sum, RequantEnds *ends);
// What decides between two values that differ by 1: the upper one counts if bit (value - least) of the
// channel's words is set, value being the lower one, kept between least and most; or, without words (NULL),
// if value + odd is odd.
typedef struct RequantChoice {
    int64_t width; // they differ where sum * factor + start leaves less than that, by 2^(32 + shift)
    int64_t odd, least, most;
    int32_t *upper; // of each channel as many words as choices.h says
} RequantChoice;

// The same where such a choice follows the sums: starts are those of the upper value, and there are no
// exceptions. All have the same start and width.
RequantScale *requantise_match_choice(Arena *a, const Graph *g, NodeId root, NodeId sum, RequantEnds *ends,
                                      RequantChoice *c);
// What an i32 can be that is made of bytes by casts, products, sums and differences. False: it is made of
// something else.
bool requantise_range(const Graph *g, NodeId id, int64_t *least, int64_t *most);
// Is it an i64 that a cast has made of integers of at most 16 bits with a sign?
bool requantise_is_widened(const Graph *g, NodeId id);
// Do bytes stay as they are?
bool requant_ends_are_plain(const RequantEnds *ends);

#endif
