// SPDX-License-Identifier: Apache-2.0
// Cases of test_ops: graphs in IR text, several in a file, with random constants. Separate from test_ops.c,
// which compiles and runs them.
#ifndef TESTS_E2E_OPS_CASES_H
#define TESTS_E2E_OPS_CASES_H

#include "base/str.h"
#include "base/vec.h"
#include "ir/plan/plan.h"
#include "ir/graph/tensor.h"

typedef struct OpsCase {
    const char *name;
    const char *source; // as in the file
} OpsCase;

typedef VEC(OpsCase) OpsCases;

typedef struct Rng {
    uint64_t state;
} Rng;

double rng_next(Rng *r); // in [0, 1)
uint64_t hash_text(const char *s);

// Adds the cases of a file whose name contains `filter` (NULL: all), or with "=name" is that. A case begins
// at each line that begins with "graph "; `const : f32[2, 3] = random` in it stands for random values, which
// depend on the text only.
void ops_read_cases(Arena *a, const char *path, const char *filter, OpsCases *out);
// Its text, with values.
const char *ops_text(Arena *a, const OpsCase *c);

// --accuracy for matrix units of GPUs. Cases whose name says neither "digits", "streamed" nor "on units" have
// plain sums; of 8-bit floats ("eighths on units") and of f32 that is rounded for units ("rounded on units")
// more is lost.
double ops_unit_accuracy(const OpsCase *c);
// What results of f32 may differ by then, relative to the largest magnitude. Rows that are rounded have
// errors that add up at random: that of the worst of many sums is above the bound that holds for one.
// 8-bit floats are multiplied exactly; where units add them with fewer bits, --accuracy bounds what is lost.
double ops_unit_tolerance(const OpsCase *c);

// Whether a test that takes one of so many cases takes number i: another part each day, or as $TEST_ROTATE
// says. All where `every` is 0 or 1, where TEST_ALL is set, and where TEST_OPS or TEST_CONFIG chooses.
// shift: of parts that are to differ at the same time.
bool ops_is_sampled(uint32_t i, uint32_t every, uint32_t shift);
// Prints how to take the same cases again, as a comment of TAP.
void ops_say_sample(uint32_t every);

// A value for an input, by its name and the seed: floats in [-2, 2], with some NaN, infinities and zeros
// where the name contains "special"; integers in [-9, 9].
Tensor ops_random_tensor(Arena *a, const Graph *g, NodeId id, uint64_t seed);

// Does a kernel of the plan have several stages, as cases named "strips" must, or rows in turns ("turns")?
bool ops_has_stages(const Plan *p);

#endif
