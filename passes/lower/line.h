// SPDX-License-Identifier: Apache-2.0
// Lines of scratch memory in which neighbours are columns of an image, for windows that move by one or two of
// them: a vector of results takes neighbours, or every second one.
#ifndef PASSES_LOWER_LINE_H
#define PASSES_LOWER_LINE_H

#include "passes/lower/lower.h"

enum { LINE_MAX_STRIDE = 2, LINE_MAX_PAIRS = 64 };

// The taps of one vector of results.
typedef struct LineTaps {
    uint32_t param;
    uint8_t lanes;
    int64_t stride; // 1 or 2
    KRef place;     // of the first tap of the first result
    uint32_t n_pairs;
    struct {
        int64_t by;
        KRef low, high;
    } pair[LINE_MAX_PAIRS]; // vectors that were loaded for a stride of 2
} LineTaps;

// Are so many results of a row enough? Of few, a large part is in vectors that are not full, but the other
// way is a copy to another order of the axes and one back. An image of one channel needs no copies.
bool line_is_worthwhile(const TargetCaps *caps, int64_t n, int64_t channels);
// The tap that is `by` elements behind the first one, for all lanes.
KRef line_tap(Kernel *k, LineTaps *t, int64_t by);
// Elements that the vectors for n results read in a line, with taps up to `reach` behind the first one.
int64_t line_length(int64_t n, int64_t stride, uint8_t lanes, int64_t reach);

#endif
