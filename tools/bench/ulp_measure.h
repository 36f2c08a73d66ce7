// SPDX-License-Identifier: Apache-2.0
// References in double for the vector mathematics of emitted C, and the distance of a result from one.
#ifndef TOOLS_BENCH_ULP_MEASURE_H
#define TOOLS_BENCH_ULP_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

enum { ULP_BLOCK = 4096 };

typedef struct UlpWorst {
    double ulp;
    float at, got;
    uint64_t n_wrong; // NaN, infinity or the sign of zero where they should not be
    float wrong_at, wrong_got;
} UlpWorst;

// The exact values for a whole block, to much better than an f32 can tell.
typedef void (*UlpExact)(const float *x, double *y);
// NULL when there is no function of that name.
UlpExact ulp_exact(const char *name);
// The exponents of a block of bases: an eighth of any bits, some whole numbers and ends, and for the others a
// power that is no overflow.
void ulp_exponents(const float *x, float *e);
// Adds a block of results to the worst. A unit is the distance of two f32 at the exact value, or at `least`
// where that is larger (0: 2^-149 for all denormals).
void ulp_measure(const float *x, const float *got, const double *exact, double least, UlpWorst *w);
// Joins what two threads found; the smaller argument wins among equals, so that the order does not matter.
void ulp_join(UlpWorst *to, const UlpWorst *from);

#endif
