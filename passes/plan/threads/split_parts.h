// SPDX-License-Identifier: Apache-2.0
// What the files of splitting share: split.c rewrites kernels, split_cut.c picks the loops that are cut,
// split_cost.c knows what work and memory cost.
#ifndef PASSES_PLAN_THREADS_SPLIT_PARTS_H
#define PASSES_PLAN_THREADS_SPLIT_PARTS_H

#include "passes/plan/threads/split.h"

typedef enum StepKind {
    STEP_ALL,     // writes no memory: every thread runs it
    STEP_ONE,     // one thread runs it
    STEP_NEST,    // parallel loops, shared
    STEP_SERIAL,  // a loop whose body is shared; all threads wait at the end of each iteration
    STEP_BARRIER, // the schedule's own
} StepKind;

enum { SPLIT_MAX_LEVELS = 8, SPLIT_MAX_THREADS = 64 };

// One of the parts of a loop's body: a parallel loop, or statements that one thread runs.
typedef struct SplitChild {
    KRef begin, end; // instructions, inclusive
    bool is_loop;
    bool needs_barrier; // before it
} SplitChild;

// How a nest is cut. level: its loops, outermost first. Loops [first, first + n_joined) are cut as if they
// were one; or, with n_joined 0, the children of the body of loop `first` are. With a weight, the nest is one
// of several that are cut as one: an iteration weighs so much, those of nests before it `before`, all `all`.
typedef struct SplitCut {
    KRef level[SPLIT_MAX_LEVELS];
    uint32_t n_levels, first, n_joined;
    int64_t weight, before, all;
    VEC(SplitChild) children;
} SplitCut;

typedef struct SplitStep {
    StepKind kind;
    KRef begin, end; // instructions, inclusive
    SplitCut cut;    // NEST
    double cycles;   // NEST: of the busiest thread
    uint32_t thread; // ONE: which
    bool needs_barrier;
    bool *is_read, *is_written; // by parameter
    double *bytes;              // the same: loaded and stored, an element as often as that happens
    const double
        *joint_width; // NULL, or the same: bytes from the first to the last share of all joined nests
} SplitStep;

typedef struct Split {
    const Plan *plan;
    const PlanKernel *pk;
    const Kernel *k;
    Arena *arena;
    SplitOwners *owners;
    VEC(SplitStep) steps;
    bool is_possible;
} Split;

static inline bool split_is_parallel(const KInst *n)
{
    return n->kind == KI_for && n->flags == KFOR_PARALLEL;
}

// Iterations; a guess where only a run knows.
double split_trips(const Kernel *k, const KInst *loop);
// Cycles of the instructions, each as often as it runs.
double split_range_cycles(const Split *s, KRef begin, KRef end);
// Adds up by parameter what the instructions load and store.
void split_count_bytes(const Kernel *k, KRef begin, KRef end, double *bytes);
// Cycles that a nest's memory costs beside its work, when the loops are cut: what other threads wrote or have
// to read later has to travel, and what no cut divides every thread reads whole.
double split_memory_cycles(const Split *s, const SplitStep *t, const KRef *loops, uint32_t n_loops);
// For each parameter, the bytes from the first to the last iteration of a loop; 0: it does not divide the
// parameter.
double *split_widths(const Split *s, KRef loop);
// Cuts neighbouring nests as one where that takes less time than the cuts that were chosen for each.
void split_join_nests(const Split *s);
// Remembers how the buffers that the nest writes are divided.
void split_note_owners(const Split *s, const SplitStep *t, const KRef *loops, uint32_t n_loops);
// Marks the instructions of a child that belong under the condition that one thread runs it: statements, and
// what they change. The other values are used behind it too and stay outside.
void split_mark_inside(const Split *s, const SplitChild *c, bool *is_inside);
// May one thread run the child: no others need its variables or values?
bool split_is_closed(const Split *s, const SplitChild *c);
// What two children of a body have to do with each other.
typedef enum SplitMeeting {
    MEET_NOT,
    MEET_BARRIER, // all threads wait between them
    MEET_NEVER,   // what one leaves to the other is in every thread's own memory: they cannot be cut
} SplitMeeting;
SplitMeeting split_meeting(const Split *s, const SplitChild *a, const SplitChild *b);
// May two parameters be the same bytes?
bool split_args_overlap(const Split *s, uint32_t i, uint32_t j);
// Does the kernel write what is read through the parameter?
bool split_may_change(const Split *s, uint32_t param);
// Picks the cut of a nest, and its cost.
void split_choose_cut(const Split *s, SplitStep *t);
// Finds the children of a loop's body. False: something in it can be neither cut nor left to one thread.
bool split_find_children(const Split *s, KRef loop, SplitCut *c);
// Cycles of the busiest thread for the children, and for the loop as often as it runs.
double split_children_cycles(const Split *s, const SplitCut *c, double times);
// The loops that a cut divides; returns how many, at most n.
uint32_t split_cut_loops(const SplitCut *c, KRef *loops, uint32_t n);

#endif
