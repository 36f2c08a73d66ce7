// SPDX-License-Identifier: Apache-2.0
// What kernel_verify asks of group kernels, beside operands.
#ifndef IR_KERNEL_KERNEL_GROUP_H
#define IR_KERNEL_KERNEL_GROUP_H

#include "ir/kernel/kernel_fold.h"

// What is wrong with an instruction of a group kernel, whose operands are defined, or NULL.
const char *kernel_wrong_group(const Kernel *k, const KInst *n);

#endif
