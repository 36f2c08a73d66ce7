// SPDX-License-Identifier: Apache-2.0
// A GPU on the CPU, for kernels that are compiled as C++ with -fsanitize=thread: all threads of a grid run
// one after the other in an order that a seed picks, those of a group from barrier to barrier, and every byte
// that two threads touch without a barrier between them is reported, unless both only read it.
//
// The compiler's calls for each access (__tsan_read4 ...) end here, not in its own runtime: link without
// -fsanitize=thread, into a program that exports its symbols.
#ifndef COMPILER_METAL_DEVICE_H
#define COMPILER_METAL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

// What one thread runs; id: its place in the grid (3), that of its group (3), its number in the group, and
// the threads of a simdgroup.
enum { DEVICE_IDS = 8 };
typedef void (*DeviceKernel)(void *const *args, const uint32_t id[DEVICE_IDS]);

typedef struct DeviceGrid {
    uint64_t threads[3]; // at least so many are wanted
    uint32_t group_x;    // threads of a group: so many along x, one along y and z
    bool has_barrier;    // or hands values from thread to thread
    uint32_t simd;       // threads of a simdgroup
    bool is_beside;      // may run at the same time as the launch before
    bool is_apart;       // simdgroups hand values whatever others of the group do, as those of CUDA
} DeviceGrid;

// Memory that a kernel may write.
typedef struct DeviceRange {
    const char *begin, *end;
} DeviceRange;
enum { DEVICE_MAX_RANGES = 64 };

// NULL, or what went wrong: a race, a write elsewhere, or a barrier that not all threads of a group have
// reached. Valid until the next launch.
const char *device_launch(DeviceKernel fn, void *const *args, const DeviceRange *written, uint32_t n_written,
                          DeviceGrid grid, uint64_t seed);

// The numbers of threads, and of accesses that were looked at, in all launches so far.
uint64_t device_threads(void);
uint64_t device_accesses(void);

// The thread that runs: its place in the grid, and how many threads its group has. Called by the shims.
const uint32_t *device_thread(void);
extern uint32_t device_group_x;

// Waits for the other threads of the group; called by the shims.
void device_barrier(void);
// Waits until `threads` threads of the group wait at barrier `number`.
void device_named_barrier(uint32_t number, uint32_t threads);
// Gets the value of another thread of the simdgroup, the one whose number differs by ^ mask. All threads of
// the group (is_apart: of the simdgroup) do this together, which orders nothing that they do in memory.
void device_swap(void *value, uint32_t bytes, uint32_t mask);
// The number of the thread in its simdgroup, which has DEVICE_MATRIX_SIMD of them for the next: what all of
// them bring, in the order of their numbers, `bytes` each.
enum { DEVICE_MATRIX_SIMD = 32 };
uint32_t device_lane(void);
void device_gather(const void *value, uint32_t bytes, void *all);

#endif
