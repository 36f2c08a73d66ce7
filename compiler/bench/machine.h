// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most: measured in the process of `rlxc bench`, between the runs of a model.
#ifndef COMPILER_BENCH_MACHINE_H
#define COMPILER_BENCH_MACHINE_H

#include "compiler/job/job.h"

typedef struct Machine {
    void *library;
    double (*peak)(int threads);
    double (*read)(size_t bytes, int threads);
    int threads;
    uint64_t working_bytes; // what a run of the model has to do with, and more than the first cache holds
    double peak_gflops;     // the best of all measurements: of f32 multiply-adds
    double read_gbs;        // reading working_bytes again and again
    uint64_t memory_bytes;  // more than caches hold
    double memory_gbs;      // reading those
} Machine;

// Builds what measures, with the compiler and the options of the job, into the cache. False: reported.
bool machine_open(Job *j, uint64_t working_bytes, Machine *out);
// Measures peak and bandwidth of the working set again, and keeps what is better.
void machine_measure(Machine *m);
// Once: memory beyond the caches.
void machine_measure_memory(Machine *m);

#endif
