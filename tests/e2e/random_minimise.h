// SPDX-License-Identifier: Apache-2.0
// Makes a failing sample smaller. Separate because it only deals with graphs: whether one fails is asked.
#ifndef TESTS_E2E_RANDOM_MINIMISE_H
#define TESTS_E2E_RANDOM_MINIMISE_H

#include "random_graph.h"

typedef bool (*FailsFn)(const Sample *s, void *ctx);

// The smallest sample found that still fails, in the arena of s.
const Sample *sample_minimise(const Sample *s, FailsFn fails, void *ctx);

#endif
