// SPDX-License-Identifier: Apache-2.0
// Models for Metal on machines without it: a library in the place of Apple's (compiler/metal) executes the
// text of the kernels on the CPU. rlxc carries it as text; it is compiled when it is needed first.
#ifndef COMPILER_NATIVE_METAL_CPU_H
#define COMPILER_NATIVE_METAL_CPU_H

#include "compiler/job/job.h"

// If there is no Metal, makes the library, and sets j->cc_more so that the model will look for it there,
// not for Apple's. False: reported.
bool metal_cpu_prepare(Job *j);

#endif
