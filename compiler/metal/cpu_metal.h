// SPDX-License-Identifier: Apache-2.0
// The classes of Metal that runtime-lite/rlx_metal.h uses, on the CPU (cpu_objc.h). What Apple's validation
// layer would stop ends the program. Launches run when somebody waits for them, not before: whoever forgets
// to wait reads what was there. Those with no barrier between them run in an order that changes from run to
// run, and where races are looked for as if they were one launch.
#ifndef COMPILER_METAL_CPU_METAL_H
#define COMPILER_METAL_CPU_METAL_H

#include "compiler/metal/cpu_kernels.h"
#include "compiler/metal/cpu_objc.h"

typedef unsigned long Number; // NSUInteger

typedef struct Library {
    ObjcObject object;
    MetalText *text;
} Library;

typedef struct Function {
    ObjcObject object;
    Library *library;
    const MetalKernel *kernel;
} Function;

typedef struct Pipeline {
    ObjcObject object;
    Function *function;
} Pipeline;

typedef struct Buffer {
    ObjcObject object;
    char *data;
    Number length;
} Buffer;

typedef struct Size {
    Number width, height, depth;
} Size;

extern const ObjcClass no_class_methods, pipeline_class, buffer_class;

// What devices have: cpu_commands.c.
void *metal_make_queue(void *self, void *selector);
// What pipelines have, as $RLX_METAL_CPU says.
Number metal_max_threads(void *self, void *selector);
Number metal_simd_width(void *self, void *selector);

// Tables of methods.
#define METHODS(name)    static const ObjcMethod name##_methods[]
#define IS(selector, fn) {selector, (ObjcFunction)fn}
#define END              {NULL, NULL}

#endif
