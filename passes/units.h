// SPDX-License-Identifier: Apache-2.0
// What matrix units of GPUs take, for the passes that leave it to them and the schedules that do it.
#ifndef PASSES_UNITS_H
#define PASSES_UNITS_H

#include "ir/kernel/kernel.h"

// Do they multiply the bytes of an int_conv? weights: constant ones less their zero points, or NULL.
bool units_take_bytes(const TargetCaps *caps, const Shape *shape, int64_t group, const int32_t *weights);

#endif
