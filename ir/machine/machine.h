// SPDX-License-Identifier: Apache-2.0
// What machines can do: the figures that cost models ask for, one row of machines.def each. A cycle is one of
// the core's clock. Rates are what is sustained, not what data sheets promise.
#ifndef IR_MACHINE_MACHINE_H
#define IR_MACHINE_MACHINE_H

#include <stdint.h>

enum { CACHE_LINE = 64 };             // bytes, of every CPU in the table
enum { GPU_LEAST_SHARED = 96 << 10 }; // of a group, on every GPU in the table

typedef struct CpuMachine {
    const char *name;
    uint32_t l1_bytes, l2_bytes, l3_bytes; // of data; L1 and L2 of a core, L3 of all
    uint32_t way_bytes;    // addresses that differ by a multiple of this share a set of the first-level cache
    uint8_t fma_per_cycle; // vector multiply-adds that a core begins in a cycle
    uint8_t fma_latency;   // cycles until one can use the result of another
    double pairs_per_cycle; // vectors of sums of two products of bf16 that a core begins; 0: it has none
    double loads_per_cycle;               // of vectors, beside multiply-adds
    uint8_t matrix_cycles;                // of a multiply-add of matrix registers; 0: there are none
    uint8_t int_registers;                // for sums and addresses of integers
    double l2_rate, l3_rate, memory_rate; // bytes a cycle that a core reads alone
    double shared_rate;                   // from memory, when all cores read: bytes a cycle of each
    double line_cycles;                   // until a line is there that another core has written
    double barrier_cycles;                // until threads go on that have met
    // So far ahead programs fetch a stream from memory that they also compute with; 0: the core keeps up.
    uint32_t ahead_bytes;
} CpuMachine;

typedef struct GpuMachine {
    const char *name;
    uint16_t arch;                           // compute capability, 90 for sm_90a
    uint16_t processors, threads;            // threads that one processor holds at a time
    uint32_t processor_shared, group_shared; // bytes of shared memory of a processor; that one group can have
    uint32_t registers;                      // of a processor
    uint32_t l2_bytes;
    // Clusters of 1, 2, 4 and 8 groups, with most of a processor's memory each, that run at once; 0: none do.
    uint16_t clusters[4];
    // Kilobytes a microsecond: from memory; that one group copies; from the second-level cache to all groups
    // that read tiles with 128, 256, 384 and more rows in all.
    double memory_rate, copy_rate, cache_rate[4];
    double latency;       // microseconds until what a group asks for is there
    double products_rate; // multiply-adds of 16-bit floats that a processor does in a microsecond
    // The same of f32; of f32 whose first eleven bits matrix units take (mma.sync).
    double f32_rate, tf32_rate;
} GpuMachine;

typedef enum CpuMachineId {
#define CPU_MACHINE(name, ...) CPU_MACHINE_##name,
#define GPU_MACHINE(...)
#include "ir/machine/machines.def"
#undef CPU_MACHINE
#undef GPU_MACHINE
    CPU_MACHINE_COUNT
} CpuMachineId;

extern const CpuMachine cpu_machines[CPU_MACHINE_COUNT];

// The newest GPU of the table that is not newer than the compute capability; the oldest where all are.
const GpuMachine *gpu_machine(uint32_t arch);
// For programs that are not made for one GPU.
const GpuMachine *gpu_machine_default(void);
// Threads that a GPU holds, and bytes of its cache, as the power of two that is not larger: where it is only
// asked whether something is large.
uint64_t gpu_about_threads(const GpuMachine *m);
uint64_t gpu_about_l2(const GpuMachine *m);

#endif
