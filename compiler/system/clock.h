// SPDX-License-Identifier: Apache-2.0
// The time that has passed, for measurements. Separate because every command that measures asks for it.
#ifndef COMPILER_SYSTEM_CLOCK_H
#define COMPILER_SYSTEM_CLOCK_H

#include <time.h>

// Seconds from a moment in the past, which never go back.
static inline double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
