// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory (mbarriers), as the functions of threads and the copy engine use them.
#ifndef IR_INTERP_DEVICE_BAR_H
#define IR_INTERP_DEVICE_BAR_H

#include "ir/interp/state.h"

// A phase ends when all arrivals and all bytes that were announced have come. What was released to `now` is
// known behind the phase, as `done`.
typedef struct Bar {
    int64_t address; // 0: there is none
    uint32_t arrivals, pending;
    int64_t bytes; // announced, less those that came
    uint64_t phase;
    bool is_fenced; // the copy engine and other groups may use it
    uint32_t owner; // who made it
    Sync now, done;
} Bar;

// The barrier at an address of the memory of group `rank`, for thread t, which reads its bytes, so that it
// must know that it was made and that nobody else writes there. NULL with a message.
Bar *bar_used(const Call *c, uint32_t t, uint32_t rank, int64_t address);
// The same for who has used it before.
Bar *bar_at(const Call *c, uint32_t t, uint32_t rank, int64_t address);
// n bytes came by the agent `who`.
void bar_complete(const Call *c, Bar *b, uint32_t who, int64_t n);

#endif
