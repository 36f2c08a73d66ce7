// SPDX-License-Identifier: Apache-2.0
// The op cases (tests/e2e/ops/*.rlx) planned for a GPU target, and their verdicts, as TAP. How kernels are
// compiled and launched is up to the test.
#ifndef TESTS_GPU_GPU_CASES_H
#define TESTS_GPU_GPU_CASES_H

#include "../common/kept.h"
#include "../e2e/ops_check.h"
#include "codegen/target/target.h"
#include "passes/pass.h"

enum { GPU_SKIPPED = 77 };

typedef struct GpuJob {
    const OpsCase *c;
    Plan *plan;        // NULL: a pass failed
    const char *lacks; // why the target cannot run it, or NULL
    uint32_t unit;     // the test's own
    uint64_t key[2];   // in what is kept
    bool is_kept;      // it passed before, and would again
} GpuJob;

typedef struct GpuCases {
    Arena perm, scratch; // the latter is empty again after each job
    const Target *target;
    OpsTolerance tolerance;
    VEC(GpuJob) jobs;
    uint32_t n_failed, n_left_out, n_kernels, op_cases[OP_COUNT];
    uint32_t every; // takes one of so many cases (ops_is_sampled)
    uint32_t n_kept;
    Kept kept;
} GpuCases;

// Reads "LEVEL" or "LEVEL/EVERY"; the level.
int gpu_read_level(GpuCases *g, const char *text);
// Before gpu_plan: leaves out what passed before, where nothing but passes has changed since and they make
// the same of a case. kind: all that tells this run from others of the same cases.
void gpu_keep(GpuCases *g, const char *kind);
// Plans the cases of the files whose name contains $TEST_OPS. Kernels of jobs that can run get names
// that are unique among all (PlanKernel.function).
void gpu_plan(GpuCases *g, const char *target, int opt_level, char **files, int n);
// It can, and has to.
bool gpu_job_runs(const GpuJob *j);
// All kernels of a job that runs, those in loops too.
void gpu_each_kernel(const GpuJob *j, PlanVisit fn, void *ctx);
// A problem of a job; it counts as failed.
void gpu_fail(GpuCases *g, const GpuJob *j, const char *what);
// Runs all jobs: `run` returns whether the job was right, and says otherwise what was wrong with gpu_fail.
typedef bool (*GpuRun)(void *ctx, const GpuJob *j, const Reference *ref);
void gpu_run(GpuCases *g, GpuRun run, void *ctx);
// Ends the TAP: what was run, how many cases each op was in; `more` stands in the last line. The exit status.
int gpu_end(GpuCases *g, const char *more);

#endif
