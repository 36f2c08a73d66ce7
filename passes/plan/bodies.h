// SPDX-License-Identifier: Apache-2.0
// Kernels of GPUs as parts of others: what a kernel does in one iteration of its grid, copied into a kernel
// that does more than that (beside.c, behind.c). It works on kernel IR, whatever the kernel computes.
#ifndef PASSES_PLAN_BODIES_H
#define PASSES_PLAN_BODIES_H

#include "passes/pass.h"

enum { BODY_MAX_LOOPS = 8, BODY_MAX_SHARED = 16, BODY_RAW_UNIT = 1024 };

// The loops around all that a kernel does.
typedef struct BodyGrid {
    bool is_possible;
    uint32_t n_loops; // outermost first
    KRef loop[BODY_MAX_LOOPS];
    int64_t trips[BODY_MAX_LOOPS];
    int64_t n; // threads or groups
} BodyGrid;

// most: threads that leave room on the device.
BodyGrid body_grid(const Kernel *k, int64_t most);
// Is it a kernel among others, whose grid is known? What runs once (prepare.h) stays where it is.
bool body_is_plain(const Plan *p, uint32_t kernel, const BodyGrid *g);

// Memory that groups share: bodies of which one runs after the other use the same.
typedef struct BodyShared {
    uint32_t n;
    struct {
        uint8_t type;
        int64_t len;
        KRef array;
    } of[BODY_MAX_SHARED];
} BodyShared;

bool body_has_shared(const Kernel *k);
// What a kernel uses without an array, of each of several parts of a group.
int64_t body_raw_bytes(const Kernel *k);
// Makes room for the arrays of a kernel, `parts` times each. False: that is too much.
bool body_share(BodyShared *all, const Kernel *k, int64_t parts, int64_t room);
// The arrays, in the kernel that has the bodies. Memory without an array (Kernel.shared_bytes) comes after
// them, where a unit of it begins.
void body_make_shared(BodyShared *all, Kernel *to);

// One iteration of a kernel's grid.
typedef struct BodyCopy {
    const Kernel *from;
    const BodyGrid *grid;
    const BodyShared *shared;
    const uint32_t *param; // by parameter: which one of the kernel that gets the body
    KRef at;               // the iteration
    bool waits;            // its statements `wait` are copied
    KRef part; // where several groups of `from` are part of one: which this is; 0: a group has one
} BodyCopy;

void body_copy(Arena *scratch, Kernel *to, const BodyCopy *c);
// Nodes and operations of a kernel become those of the one that gets its body.
void body_take_over(Arena *a, PlanKernel *to, const PlanKernel *from);
// May a body be copied with `part`: into groups of other threads than its own?
bool body_can_be_part(const Kernel *k);

#endif
