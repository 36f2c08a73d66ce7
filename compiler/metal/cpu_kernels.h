// SPDX-License-Identifier: Apache-2.0
// Metal text as functions of this process: what it declares is read, a C++ compiler makes a library of it
// (with the shim metal_stdlib beside this file), and that is loaded.
#ifndef COMPILER_METAL_CPU_KERNELS_H
#define COMPILER_METAL_CPU_KERNELS_H

#include "compiler/metal/device.h"

#include <stdbool.h>
#include <stddef.h>

enum { KERNEL_MAX_BUFFERS = 31 };

typedef struct MetalParam {
    bool is_given; // the kernel has a buffer of this number
    bool is_written;
    bool is_constant; // may be given by setBytes:
    unsigned bytes;   // of an element
} MetalParam;

typedef struct MetalKernel {
    const char *name;
    MetalParam param[KERNEL_MAX_BUFFERS];
    bool has_barrier;
    DeviceKernel fn;
} MetalKernel;

typedef struct MetalText {
    void *library;
    MetalKernel *kernels;
    size_t n;
} MetalText;

// Starts a program and waits for it; NULL: this library does so itself. rlxc sets it, to end compilers when a
// signal ends rlxc.
extern bool (*metal_run_program)(const char *const *words);

// NULL: reported on stderr.
MetalText *metal_text_load(const char *text);
void metal_text_close(MetalText *t);

#endif
