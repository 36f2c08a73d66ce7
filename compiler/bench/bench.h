// SPDX-License-Identifier: Apache-2.0
// Times of a model that runs again and again in this process: of whole runs, and of every kernel.
#ifndef COMPILER_BENCH_BENCH_H
#define COMPILER_BENCH_BENCH_H

#include "compiler/bench/machine.h"
#include "compiler/native/native.h"

typedef struct BenchSpread {
    double best, p10, median, p90; // microseconds
} BenchSpread;

typedef struct BenchRow {
    const rlx_kernel *kernel;
    BenchSpread us;
    uint64_t macs, flops, bytes; // of a loop with its body
} BenchRow;

typedef struct Bench {
    double seconds; // that runs are timed for
    uint32_t runs;  // 0: as many as fit in; else this many, however long they take
    BenchSpread us;
    uint32_t n_runs, n_profiled;    // without and with the clock between the kernels
    VEC(BenchRow) rows;             // kernels that ran, in order
    uint64_t macs, flops, bytes;    // of those
    double clock_us;                // that reading the clock takes: part of the time of every kernel
    double sum_us;                  // of the medians of the kernels
    double encoding_us, waiting_us; // on a device: until the host had given all commands, and from then on
    bool has_costs;   // false: sizes are set between runs, and those of this run are not what was planned for
    bool has_machine; // of a target that runs on the CPU itself
    Machine machine;
} Bench;

// inputs: by slot. False: reported.
bool bench_measure(Job *j, Native *n, const Tensor *inputs, Bench *b);

#endif
