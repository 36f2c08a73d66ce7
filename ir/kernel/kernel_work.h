// SPDX-License-Identifier: Apache-2.0
// What one run of a kernel executes, counted in its IR without running it: for estimates of time on
// microcontrollers, and for where memory is best placed.
#ifndef IR_KERNEL_KERNEL_WORK_H
#define IR_KERNEL_KERNEL_WORK_H

#include "ir/kernel/kernel.h"

typedef enum WorkKind {
#define WORK(name, meaning) WORK_##name,
#include "ir/kernel/work.def"
#undef WORK
    WORK_KINDS
} WorkKind;

extern const char *const work_names[WORK_KINDS];

// What one run of a kernel executes, by kinds. Branches on data count half.
typedef struct Work {
    double n[WORK_KINDS];
} Work;

Work work_of_kernel(const Kernel *k);
// The same, and the bytes that it reads and writes through each parameter (KernelBytes, by parameter): those
// of instructions and of the functions of dsp.h, each time that they are read or written.
typedef struct KernelBytes {
    double read, written;
} KernelBytes;
Work work_and_bytes(const Kernel *k, KernelBytes *bytes);

#endif
