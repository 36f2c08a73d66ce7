// SPDX-License-Identifier: Apache-2.0
// What a pass is. passes.def lists them in the order in which they run.
#ifndef PASSES_PASS_H
#define PASSES_PASS_H

#include "ir/plan/plan.h"
#include "ir/shape/verify.h"

// Latency: on GPUs memory is not used again where a launch would have to wait for that.
typedef enum PlanGoal { PLAN_MEMORY, PLAN_LATENCY } PlanGoal;

typedef struct PassOptions {
    int opt_level; // 0..3
    // Bound on the error of a convolution against exact sums, relative to the largest magnitude of its
    // output, for schedules that round more than direct sums do; 0: none of them.
    double accuracy;
    // Cycles that each byte of scratch memory and of larger weights must save in a run, where a schedule
    // trades memory for time; 0: any memory for any time.
    double memory_price;
    uint8_t winograd; // for tests: m of all convolutions that Winograd's schedule can do, 10 + m: with
                      // weights transformed in the
    // kernel; 0: it is chosen
    // For tests: 1: stages never share a kernel, 2: they do wherever they can, and rows run in turns where
    // that takes the least memory; 3: only the latter; 0: it is chosen.
    uint8_t strips;
    bool allow_fast; // FAST algebra (reassociation, approximate) as well as EXACT
    const TargetCaps *caps;
    uint64_t ram;          // the most bytes of arena and state; 0: any
    double spare_ram;      // without that: the per cent of time that may be spent to save memory
    const PlanBank *banks; // that memory is divided into (--bank); none: it is all alike
    uint32_t n_banks;
    uint64_t place_budget; // search nodes of the exact placement
    PlanGoal goal;
    bool no_fuse;            // every node is a kernel of its own
    bool no_prune;           // channels that are constant or unread stay
    bool no_reorder;         // kernels stay in the order in which they were placed
    const PlanChoice *tuned; // choices that a measurement made; they win over the cost model
    uint32_t n_tuned;
    bool has_buckets; // several plans share constants, and one layout of states
    uint32_t moe_slots;   // Plan.experts.slots
    uint32_t rows_input;  // 0, or 1 + the input that the program gives row by row
    uint32_t rows_axis;   // along which of its axes these rows are, where kernels read it without a view
    uint32_t rows_origin; // along which axis of the model's input, before rows were moved to the front
    const PlanFile *file; // constants in it are read where they are, not packed; NULL: none
    const Plan *largest;  // the plan whose params and states this one shares, at larger sizes; NULL: none
} PassOptions;

// The most bytes that the arena and the state may take together; 0: any.
static inline uint64_t pass_ram(const PassOptions *o)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < o->n_banks; i++)
        all += o->banks[i].is_weights ? 0 : o->banks[i].size;
    return o->ram != 0 && (all == 0 || o->ram < all) ? o->ram : all;
}

// What the body of a loop reads and writes in the plan around it, by its inputs, states (the carried values)
// and outputs: slots of its plan, PLAN_NO_ARG where a value stays in the body's own memory.
typedef struct BodyFrame {
    VEC(PlanSlot) slots;
    VEC(uint32_t) inputs, states, outputs;
    VEC(Loc) input_locs; // strides and offset, on the input's axes
    const char *prefix;  // of kernel names
} BodyFrame;

typedef struct Pass {
    Arena *perm;    // lives as long as the result
    Arena *scratch; // reset after each pass
    Diag *diag;
    const PassOptions *options;
    Graph *graph;           // a pass that rebuilds puts the new graph here
    Plan *plan;             // made by pass_layout
    PlanPruned pruned;      // by pass_prune; the plan gets it
    const BodyFrame *frame; // NULL: the graph is a whole model, not the body of a loop
    bool failed;            // a diagnostic was reported
} Pass;

// One thread of a microcontroller: memory counts more than what parallel loops promise, and the memory plan
// chooses how much scratch memory kernels get.
static inline bool pass_is_serial(const Pass *p)
{
    const PassOptions *o = p->options;
    return o->caps->prefers_ints && !o->caps->is_gpu && o->caps->threads <= 1 && p->frame == NULL &&
           o->opt_level >= 1;
}

// True = something changed. On wrong input: reports, sets p->failed. It leaves the bodies of loops alone.
typedef bool (*PassFn)(Pass *p);

typedef enum PassWhere { PASS_EVERYWHERE, PASS_IF_SIZED } PassWhere;
typedef enum PassBodies { BODIES_NOTHING, BODIES_REWRITE, BODIES_PLAN } PassBodies;

typedef struct PassInfo {
    const char *name;
    PassFn run;
    int min_level;   // runs at -O<min_level> and above
    PassWhere where;
    PassBodies bodies; // what the bodies of loops get
    Stage stage;     // what the graph satisfies afterwards
    bool makes_plan; // the dump shows the plan (kernels, buffers) rather than the graph
    const char *text;
} PassInfo;

extern const PassInfo pass_info[];
extern const uint32_t pass_count;

#define PASS(name, level, where, bodies, stage, plan, text) bool pass_##name(Pass *p);
#include "passes/passes.def"
#undef PASS

// Text of the plan: kernels with their IR, buffers with offsets. For --dump and tests.
void plan_print(const Plan *plan, Str *out);

#endif
