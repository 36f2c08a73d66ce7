// SPDX-License-Identifier: Apache-2.0
// What the files of the pass `prune` share. Values have channels along one axis, which begins at convolutions
// and goes through what treats channels one by one. For each channel it is known between which two numbers
// its elements lie (prune_range.c) and what its readers want of it (prune.c). Channels that live and die
// together are one class.
#ifndef PASSES_GRAPH_PRUNE_H
#define PASSES_GRAPH_PRUNE_H

#include "ir/graph/tensor.h"

enum { AXIS_NONE = SHAPE_MAX_RANK };

// All elements are numbers from lo to hi, where -0.0 is below 0.0. Bounds that are not finite: nothing is
// known; floats may be NaN.
typedef struct Range {
    double lo, hi;
} Range;

// ANY: it must be there, but any value of its range gives the same results.
typedef enum Want { WANT_NONE, WANT_ANY, WANT_EXACT } Want;

// Of a node: entries [first, first + n) of the tables below. Without an axis it has one entry for all.
typedef struct Channels {
    uint32_t axis, n, first;
} Channels;

// A convolution whose weights are known.
typedef struct PruneConv {
    Tensor weight, bias, x_zero, weight_zero; // data NULL: there is none
    const int32_t *zeros;                     // of weights, by output; NULL: they are floats
    int64_t outputs, inputs, taps, group;     // inputs: of a group
    bool is_padded;
} PruneConv;

typedef struct Prune {
    Graph *g;
    Arena *arena;
    double room;         // a float sum is off by at most this part of the magnitudes of its terms
    uint32_t n_nodes, n; // n: entries
    const bool *is_live; // by NodeId, as the next two
    Channels *of;
    PruneConv **conv; // NULL: another op, or its weights are not known
    VEC(Range) range;
    VEC(uint32_t) parent;    // of classes
    uint8_t *want, *is_kept; // is_kept: by class
    NodeId *small; // by NodeId: the node with the channels that are kept, where some are not; else 0
    NodeId at;     // the node that is being rebuilt, as it was
} Prune;

// How channels of a result are those of an operand: channel j is (j / inner) % modulo + offset, or index[j].
typedef struct Link {
    int64_t inner, modulo, offset, n; // n: channels of the operand
    const int64_t *index;
} Link;

// --- prune_axis.c ---

// False: elements of a channel of the result depend on others of the operand than those of one channel.
bool prune_link(const Prune *p, NodeId id, uint32_t operand, uint32_t axis, uint32_t operand_axis, Link *out);
// The same for the axes that result and operand have; false also where one of them has none.
bool prune_link_of(const Prune *p, NodeId id, uint32_t operand, Link *out);
// The axis of an operand that stands at this one of the result where operands broadcast, or are joined;
// AXIS_NONE: it has none there, or only one element.
uint32_t prune_axis_at(const Graph *g, NodeId id, uint32_t operand, uint32_t axis);
// The channel of the operand for channel j of the result; -1: it comes from another operand.
int64_t link_channel(const Link *l, int64_t j);
// The result's axis that goes on with the axis of some operand; AXIS_NONE: none does.
uint32_t prune_axis_of(const Prune *p, NodeId id);
// Do operands have a part of each channel, or a value for all of them?
bool prune_is_spread(const Node *n);

// --- prune_range.c ---

Range range_unknown(DType t);
bool range_is_finite(Range r);
// One value, of which the bits are known.
bool range_is_value(Range r);
// Of all channels of a node, whose entries are there.
void prune_find_ranges(Prune *p, NodeId id);

// --- prune_conv.c ---

// The convolution, where all of it is known; NULL: another op, or it is not.
PruneConv *prune_conv_of(Prune *p, NodeId id);
void prune_conv_ranges(Prune *p, NodeId id, Range *out);
void prune_conv_wants(Prune *p, NodeId id);
// The node for channels that are kept, of these operands.
NodeId prune_conv_build(Prune *p, NodeId id, NodeId x);

// --- prune.c ---

// What is wanted of operands for channel j.
Want prune_want_below(const Prune *p, NodeId id, uint32_t j);
void prune_raise(Prune *p, NodeId id, uint32_t channel, Want want);
void prune_raise_all(Prune *p, NodeId id, Want want);
bool prune_keeps(const Prune *p, NodeId id, uint32_t channel);

// --- prune_build.c ---

// The channels that are kept; their number.
uint32_t prune_kept(const Prune *p, NodeId id, int64_t *list);
bool prune_is_cut(const Prune *p, NodeId id);
NodeId prune_step(Graph *g, NodeId id, void *prune);

#endif
