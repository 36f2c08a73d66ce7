// SPDX-License-Identifier: Apache-2.0
// Random networks over a last axis of time that can be streamed. See random_stack.c.
#ifndef TESTS_STREAM_RANDOM_STACK_H
#define TESTS_STREAM_RANDOM_STACK_H

#include "ir/graph/graph.h"

// One input "x", f32[1, channels, time], and one or two outputs. Returns how many elements at the end may
// depend on padding behind an axis that was cut before: a stream goes on there.
int64_t random_stack(Graph *g, uint64_t seed);

#endif
