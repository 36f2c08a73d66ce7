// SPDX-License-Identifier: Apache-2.0
// Reads back what kernel_print writes, so that print(parse(text)) is the text. The text may hold anything.
#ifndef IR_KERNEL_KERNEL_PARSE_H
#define IR_KERNEL_KERNEL_PARSE_H

#include "ir/kernel/kernel.h"

// The kernel in a file of the diagnostics, verified; NULL when the text is wrong, which is reported with its
// line and column.
Kernel *kernel_parse(Arena *a, Diag *d, uint32_t file);

#endif
