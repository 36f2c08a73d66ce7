// SPDX-License-Identifier: Apache-2.0
// Calls of device functions as text, and the text of those that a fixed prelude cannot hold.
#ifndef CODEGEN_TARGET_DEVICE_H
#define CODEGEN_TARGET_DEVICE_H

#include "ir/kernel/device.h"

// "rlx_bar_wait(part, 0)": the call that instruction n is, operands given as text, n_operands of them.
const char *device_call_text(Arena *a, const KInst *n, const char *const *operand, uint32_t n_operands);
// CUDA: the functions of matrix products (rlx_wgmma_...) that the text names.
void device_print_products(const char *text, Str *out);

#endif
