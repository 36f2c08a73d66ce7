// SPDX-License-Identifier: Apache-2.0
// Chains of elementwise nodes that never fall as their one operand rises: what exporters write behind an
// integer sum, in floats or in integers alone. All other operands are constants, with one element or one a
// channel; views may stand in between.
#ifndef PASSES_GRAPH_MONOTONE_H
#define PASSES_GRAPH_MONOTONE_H

#include "ir/graph/graph.h"

enum { CHAIN_MAX = 32 };

// x + half - (x < 0 ? more : 0) of i64, four or five nodes that count as one: what rounds halves away from
// zero in front of a shift. more is 0 or 1 for each channel (no node: always 1).
typedef struct AwayFromZero {
    NodeId x, half, more;
} AwayFromZero;

// What node id is the last node of; false: of nothing like this.
bool away_find(const Graph *g, NodeId id, AwayFromZero *out);
// The operand of a node of i64 that is no constant, and the one that is; false: there are not one of each.
bool chain_split_constant(const Graph *g, NodeId id, OpId op, NodeId *x, NodeId *constant);
// Are all elements of an integer constant between the two?
bool chain_constant_within(const Graph *g, NodeId constant, int64_t least, int64_t most);

typedef struct Chain {
    const Graph *g;
    NodeId source;            // what the chain begins with: the first node that cannot be a part of it
    NodeId node[CHAIN_MAX];   // from the source on
    uint8_t value[CHAIN_MAX]; // which operand continues the chain
    uint32_t axis[CHAIN_MAX]; // of the channels, by node
    AwayFromZero away[CHAIN_MAX]; // x != 0: the node is the last one of these
    uint32_t n;
    int64_t channels;
    bool has_floats, has_arithmetic; // never both: of integers
    uint32_t n_shifts;               // of i64
} Chain;

typedef struct Line {
    double slope, offset;
} Line;

// What an op makes of slope * x + offset that comes in as this operand, between its ends, with the constants
// k as its other operands. False: it may be no line.
bool line_behind(OpId op, uint32_t operand, const double *k, Line *l);

// The chain that ends with node `end`. Its source has its channels along `axis` (SHAPE_MAX_RANK: it has one
// for all). False: there is none.
bool chain_find(const Graph *g, NodeId end, Chain *out);
bool chain_set_axis(Chain *c, uint32_t axis);

// Is it sure not to fall for a channel? Also: what it is between its ends, about slope * x + offset.
bool chain_line(const Chain *c, uint32_t channel, double *slope, double *offset);

// y[i] of x[i], of a channel, by the evaluator.
void chain_eval(const Chain *c, uint32_t channel, const int64_t *x, uint32_t n, int64_t *y);
// Between the two, no integer wraps, and no float is NaN (as an infinity times 0 is): values that rise do
// either at an end, if at all.
bool chain_never_breaks(const Chain *c, uint32_t channel, int64_t lo, int64_t hi);

#endif
