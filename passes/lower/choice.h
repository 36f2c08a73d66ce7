// SPDX-License-Identifier: Apache-2.0
// Choices between several ways to compute the same bits: tiles, loop orders, packings. The cost model
// estimates, `rlxc tune` measures; a measured answer wins. Ways that round differently are not choices of
// this kind.
#ifndef PASSES_LOWER_CHOICE_H
#define PASSES_LOWER_CHOICE_H

#include "passes/lower/lower.h"

typedef struct Candidate {
    const char *name; // without spaces, unique in its list; lives in pass->perm
    double cycles;    // estimated
} Candidate;

// The index of the candidate to take. question: without line breaks, lives in pass->perm; see PlanChoice.
uint32_t choice_pick(Lower *l, const char *question, const Candidate *list, uint32_t n);

#endif
