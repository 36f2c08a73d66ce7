// SPDX-License-Identifier: Apache-2.0
// The functions of device.def by number.
#include "ir/interp/state.h"

const DeviceFn interp_functions[KDEV_COUNT] = {
#define DEVICE(name, ...) interp_##name,
#include "ir/kernel/device.def"
#undef DEVICE
};

const char *device_left(Machine *m, uint32_t t)
{
    const char *wrong = stores_left(m, t);
    return wrong != NULL ? wrong : products_left(m, t);
}
