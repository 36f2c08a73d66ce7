// SPDX-License-Identifier: Apache-2.0
// What kernels of GPUs take of convolutions of bytes, for the passes that leave it to them and the schedules
// that do it.
#ifndef PASSES_UNITS_H
#define PASSES_UNITS_H

#include "ir/kernel/kernel.h"

// Do matrix units multiply the bytes of an int_conv? weights: constant ones less their zero points, or NULL.
bool units_take_bytes(const TargetCaps *caps, const Shape *shape, int64_t group, const int32_t *weights);
// Is it a depthwise one whose sums f32 holds, for gpu_depthwise.c?
enum { UNITS_MOST_TAPS = 49, UNITS_MOST_OUTPUTS = 4 /* for a channel */ };
bool units_take_depthwise(const TargetCaps *caps, const Shape *shape, int64_t group, const int32_t *weights);

#endif
