// SPDX-License-Identifier: Apache-2.0
// What the outcome of a run depends on beside the code of its kernels, as a hash, for tests that keep what
// passed (kept.h). Separate, since runs that are interpreted and runs that are compiled both ask.
#ifndef TESTS_E2E_OPS_HASH_H
#define TESTS_E2E_OPS_HASH_H

#include "base/map.h"
#include "ir/plan/plan.h"

// Does it matter where buffers lie?
typedef enum OpsPlaces { OPS_APART, OPS_PLANNED } OpsPlaces;

uint64_t ops_hash_numbers(uint64_t hash, const uint64_t *v, size_t n);
// Of a plan, or of the body of a loop: buffers, inputs, outputs and states. Not the bodies of its loops.
uint64_t ops_hash_facts(const Plan *p, OpsPlaces places, uint64_t hash);
// All kernels of a plan: their text, what they are called with, and the loops around them.
uint64_t ops_hash_kernels(Arena *scratch, const Plan *p, OpsPlaces places, uint64_t hash);
// Constants as the kernels read them.
uint64_t ops_hash_constants(Arena *scratch, const Plan *p, uint64_t hash);

#endif
