// SPDX-License-Identifier: Apache-2.0
// What runs of op cases have in common, whoever runs them: memory, inputs, what the evaluator computes, and
// the comparison with it.
#ifndef TESTS_E2E_OPS_CHECK_H
#define TESTS_E2E_OPS_CHECK_H

#include "ir/eval/eval.h"
#include "ops_cases.h"

enum { OPS_RUNS = 2 };

// Ends the program where the text is wrong.
Graph *ops_parse(Arena *a, const OpsCase *c);

// --- memory of a run -----------------------------------------------------------------------------

// Buffers lie as planned, or each one apart, so that its end is the end of what may be touched.
typedef enum Placing { PLACE_PLANNED, PLACE_GUARDED } Placing;

typedef struct Memory {
    char **buffer; // by BufId
    uint32_t n;
    void *block[1024]; // what to unmap
    size_t size[1024];
    uint32_t n_blocks;
} Memory;

// Full of NaN, but for what lives across runs.
Memory ops_make_memory(Arena *a, const Plan *p, Placing placing);
// Places buffers as planned, in memory that `give` hands out, at multiples of 64 bytes.
typedef char *(*OpsGive)(void *ctx, uint64_t bytes);
Memory ops_make_memory_in(Arena *a, const Plan *p, OpsGive give, void *ctx);
void ops_free_memory(Memory *m);

// --- values --------------------------------------------------------------------------------------

typedef struct Reference {
    Arena *arena;
    Graph *g;
    EvalRun run[OPS_RUNS];
    uint32_t n_runs; // that were evaluated
} Reference;

// The graph alone.
Reference ops_begin(Arena *a, const OpsCase *c);
// The first n runs, unless they were made before, with random inputs, states from run to run. Ends the
// program where that fails.
void ops_complete(Reference *ref, uint32_t n);
// Both, for all runs.
Reference ops_evaluate(Arena *a, const OpsCase *c);
void ops_set_inputs(const Plan *p, const Memory *m, const Reference *ref, uint32_t run);

typedef struct OpsTolerance {
    double f32;      // relative to the largest magnitude
    bool may_spread; // outputs named "special" may be infinite or NaN where the evaluator has a number
} OpsTolerance;

// Outputs and states; exact for integers. NULL or what is wrong.
const char *ops_check_results(Arena *a, const Plan *p, const Memory *m, const Reference *ref, uint32_t run,
                              OpsTolerance o);

// --- crashes -------------------------------------------------------------------------------------

// What runs at the moment. After ops_name_crashes, a program that crashes or is told to end prints it.
extern const char *ops_running;
void ops_name_crashes(void);

#endif
