// SPDX-License-Identifier: Apache-2.0
// The functions of device.def by number.
#include "ir/interp/state.h"

const DeviceFn interp_functions[KDEV_COUNT] = {
#define DEVICE(name, ...) interp_##name,
#include "ir/kernel/device.def"
#undef DEVICE
};
