// SPDX-License-Identifier: Apache-2.0
// The scores of attention that is spelled out, found upwards from its second product: softmax, masks, scales,
// and the product of queries and keys. Separate from simplify_attention.c, which makes the op of them.
#ifndef PASSES_GRAPH_SIMPLIFY_SCORES_H
#define PASSES_GRAPH_SIMPLIFY_SCORES_H

#include "passes/graph/simplify.h"

enum { SCORES_MAX_MASKS = 4, SCORES_MAX_STEPS = 16 };

// What is added to the scores, times `factor`, where they have the shape `at`. Or (is_choice) bools, of which
// false puts `factor` in place of the score: -inf, or a number so low that nothing is left of its weight
// beside any other.
typedef struct ScoresMask {
    NodeId id;
    double factor;
    bool is_choice;
    const Shape *at;
} ScoresMask;

typedef struct Scores {
    NodeId product;          // of queries and keys
    NodeId q, k;             // without factors
    bool q_turned, k_turned; // the last two axes have to change places
    double scale, softcap;   // softcap 0: none
    ScoresMask mask[SCORES_MAX_MASKS];
    uint32_t n_masks;   // a choice is the only one
    bool is_guarded;    // weights that are NaN are 0
    NodeId live; // keys that count; 0: all
    Shape work;  // of the scores, with at least three axes, in which all masks can be said
} Scores;

// Do the last two axes agree?
bool scores_same_matrices(const Shape *a, const Shape *b);
// What stands in front of the product `id`. False: no attention.
bool scores_read(const Simplify *s, NodeId id, Scores *x);
// A mask of scores in the shape `at` as one of scores in the shape of the work. 0: it does not fit.
NodeId scores_split_mask(Graph *g, const ScoresMask *m, const Shape *work);

#endif
