// SPDX-License-Identifier: Apache-2.0
// From an imported graph to a finished plan: binds symbols, runs the passes of passes.def in order, with
// dumps, timings and verification.
#ifndef COMPILER_JOB_PIPELINE_H
#define COMPILER_JOB_PIPELINE_H

#include "codegen/target/target.h"
#include "compiler/import/import.h"
#include "passes/pass.h"

typedef struct PipelineOptions {
    int opt_level;
    bool allow_fast;
    double accuracy;  // see PassOptions
    double memory_price; // the same
    uint64_t ram;     // the same
    double spare_ram; // the same
    VEC(PlanBank) banks; // the same
    uint8_t winograd; // the same
    PlanGoal goal;
    bool no_fuse, no_prune, no_reorder;
    const TargetCaps *caps;
    const PlanChoice *tuned; // measured choices (--tune)
    uint32_t n_tuned;
    VEC(ImportSize) dims;    // --dim name=value
    VEC(ImportSize) largest; // --arena-at name=value
    bool is_dynamic;         // --dynamic: symbols that are not in `dims` are set between runs
    const char *dump;        // pass name or "all"; NULL = none
    const char *stop_after;  // pass name; NULL = run all
    bool time_passes;
    const Plan *bucket_of; // of a smaller bucket: the plan that it shares params and states with
    bool has_buckets;      // there is more than one plan
    uint32_t moe_slots;    // Plan.experts.slots
    uint64_t place_budget; // see PassOptions; 0: some seconds
    const PlanFile *file;  // see PassOptions
    uint32_t rows_input;   // the same
    uint32_t rows_axis;    // the same
    uint32_t rows_origin;  // the same
    FILE *report;          // dumps and times
} PipelineOptions;

// Binds the symbols of the graph: given values, else their defaults; some may stay open (Graph.symbols).
// False: all symbols without a value were reported.
bool pipeline_bind(Graph *g, const PipelineOptions *o, Graph **out);
// Like pipeline_bind, but symbols without a given value stay symbols.
bool pipeline_bind_some(Graph *g, const PipelineOptions *o, Graph **out);
// graph: as imported. *plan is NULL when stop_after ended before a plan existed.
bool pipeline_run(Arena *perm, Diag *d, Graph *graph, const PipelineOptions *o, Plan **plan);
// NULL when there is no pass of that name.
const PassInfo *pipeline_find_pass(const char *name);

#endif
