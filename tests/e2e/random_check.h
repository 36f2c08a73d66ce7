// SPDX-License-Identifier: Apache-2.0
// Compiles samples with rlxc in process, many of them into one C file, runs them and compares with the
// reference evaluator. For test_random.
#ifndef TESTS_E2E_RANDOM_CHECK_H
#define TESTS_E2E_RANDOM_CHECK_H

#include "random_graph.h"
#include "runtime-lite/rlx_calls.h"
#include "runtime-lite/rlx_threads.h"
#include "runtime-lite/rlx_states.h"
#include "runtime-lite/rlx_values.h"

// --- what is right (random_compare.c) --------------------------------------------------------------

typedef struct Reference {
    const Sample *sample;
    EvalRun run[SAMPLE_RUNS];
} Reference;

Reference reference_make(Arena *a, const Sample *s);

// One tensor of one run that came out otherwise.
typedef struct Outcome {
    const char *message; // NULL: right
    bool needed_allowance;
} Outcome;

// Compares `bytes` with the value of a node after a run; name for the message.
Outcome reference_compare(Arena *a, const Reference *r, uint32_t run, NodeId id, const void *bytes);

// --- what is generated (random_unit.c) -------------------------------------------------------------

typedef struct Config {
    int opt_level;
    bool allow_fast;
    const char *cpu;
    uint8_t threads;  // more than 1: all kernels are split that can be
    double accuracy;  // what convolutions may be off by
    uint8_t winograd; // tile of all convolutions that Winograd's schedule can do; 0: where it is faster
} Config;

typedef struct Program {
    const Sample *sample;
    Config config;
    const char *name;
} Program;

// Programs for one CPU: one C file, one library.
typedef struct Unit {
    Arena *arena;
    const char *cpu, *level, *cc_flags; // level: of the C compiler
    VEC(Program) programs;
    Str text;
    void *library;
} Unit;

// Runs passes and code generation. NULL, or why it failed.
const char *unit_add(Unit *u, const Sample *s, Config c);
// Compiles and loads what was added. False: the C compiler failed.
bool unit_build(Unit *u);
void unit_close(Unit *u);
// Runs a model and compares all outputs and states; threads 0: of a model without any.
Outcome model_check(const rlx_model *m, uint8_t threads, const Reference *r);
// Runs a program of a built unit and compares all outputs and states.
Outcome program_check(const Unit *u, const Program *p, const Reference *r);

#endif
