// SPDX-License-Identifier: Apache-2.0
// Kernels that run row by row in turns: of a group of kernels that follow each other, each makes a row as
// soon as the rows that it reads are there. A value that only the group reads then is never there as a whole,
// but as a window of some rows. No row is made twice, but in kernels that are merged with the one before them
// (PlanKernel.merged).
//
// Where a kernel makes a row in parts, each of which only the next kernel reads, for the same part of its own
// row, both go part by part: only a part of that row is there at a time.
//
// Time is counted in ticks. A kernel has made (tick + 1 - delay) / every rows after a tick, between none and
// all of them; so the first kernel makes a row at each tick.
#ifndef PASSES_PLAN_RAM_ROWS_H
#define PASSES_PLAN_RAM_ROWS_H

#include "passes/pass.h"
#include "passes/plan/ram/lead.h"

enum { ROWS_MAX_STAGES = 24 };

// What a kernel reads of a buffer, by its rows: bytes [begin, end), none where they are equal. unread: the
// lowest byte that this row and all behind it read; INT64_MAX: none.
typedef struct RowUse {
    BufId buf;
    int64_t *begin, *end, *unread;
} RowUse;

// A kernel, in one of its ways, as a maker of rows.
typedef struct RowStage {
    const PlanKernel *kernel;
    double insns;        // of a run, by estimate
    uint64_t alone;      // what the arena holds while it runs, by estimate; 0: not known yet
    BufId result;        // the only buffer that it makes; 0: it does something else as well
    BufId out;           // the same, if it makes it row by row, else 0
    int64_t rows, pitch; // of its result, in bytes from row to row
    bool *loops;         // by instruction: those over rows, which no other one is in
    int64_t first, span; // row q is made by their iterations [first + q * span, first + (q + 1) * span)
    bool is_sum;         // its result is there after its last row, and has no rows (pitch 0)
    uint64_t scratch;    // bytes that it needs while it makes a row
    uint64_t kept;       // of a sum: what it keeps from row to row
    VEC(RowUse) uses;    // of the arena, without scratch memory
    struct RowStage *coarser; // the same with fewer rows of more bytes, as far as they were asked for
    struct RowStage *finer;   // the same with parts of rows as rows; `out` is 0 where it has no such parts
} RowStage;

// Is it scratch memory? What a kernel makes is not, though windows may lie in it for a while.
bool rows_is_scratch(const Plan *p, const PlanKernel *k, const PlanArg *a);
// What the scratch memory of a kernel's arguments before argument `n` takes, one piece behind the other.
uint64_t rows_scratch_bytes(const Plan *p, const PlanKernel *k, uint32_t n);
// Finds out how the kernel makes rows. way: it, or another way of it.
RowStage rows_stage(const Plan *p, uint32_t kernel, const PlanKernel *way, Arena *scratch);
// The stage that makes `factor` of its rows, which divides their number, as one.
const RowStage *rows_coarser(RowStage *s, int64_t factor, Arena *scratch);
// The stage that makes each of its rows in `parts` parts as if these were rows; NULL: it cannot.
const RowStage *rows_finer(const Plan *p, RowStage *s, int64_t parts, Arena *scratch);

// Row q of stage `reader` reads rows [q * step - below, q * step + above) of the value, as far as they exist.
typedef struct RowLink {
    uint32_t maker, reader; // stages of the group
    int64_t step, below, above;
} RowLink;

// The value of a stage. Rows [first, made) are in the window at a tick, `first` from the lowest on.
typedef struct RowHeld {
    bool is_inner;  // only the group touches it: it has a window, else it is there as a whole
    int64_t parts;  // in which the stage and the next one make a row, in turns; 1: a row at once
    int64_t rows;   // of the window
    bool has_moves; // rows that are needed again move to its begin
    bool is_lent;   // its rows lie where those of stage `lender` will, which is made of them in place
    uint32_t lender;
} RowHeld;

typedef struct RowGroup {
    uint32_t first, span; // kernels of the plan
    int64_t parts;        // rows may be made in so many parts
    bool merges;          // where two of them can be one (PlanKernel.merged), they are,
    BufId gone[ROWS_MAX_STAGES]; // and these values are never there
    uint32_t n, n_gone;
    const RowStage *stage[ROWS_MAX_STAGES];
    int64_t cut[ROWS_MAX_STAGES]; // by stage: parts of its rows that the next one can take; 0: none
    int64_t every[ROWS_MAX_STAGES], delay[ROWS_MAX_STAGES], ticks;
    RowHeld held[ROWS_MAX_STAGES];
    VEC(RowLink) links;
    uint64_t window_bytes, scratch_bytes, moved_bytes;
    bool is_given; // its first kernel takes rows of an input as the program gives them
} RowGroup;

// The ways in which a kernel can run, by instructions.
typedef struct RowWays {
    RowStage *way;
    uint32_t n;
} RowWays;

// Facts about the plan that deciding about groups needs.
typedef struct Rows {
    Plan *plan;
    Arena *scratch;
    RowWays *ways;              // by kernel
    RowWays *merged;            // the same, with the kernel before it
    uint32_t *first, *last;     // by buffer: kernels that touch it; UINT32_MAX and 0: none
    bool *lasts;                // by buffer: needed from before the first kernel on, or behind the last one
    bool *is_scratch;           // by buffer: of a kernel
    LeadMemo *known;            // leads of kernels alone
    struct RowChoices *choices; // what is known of groups, by first kernel and number of kernels
    uint32_t given, given_end;  // rows_input_span: these kernels are in one group, which begins with them
    bool is_serial;             // results may lie over what their kernels read
    bool keeps_fastest;         // groups have their fastest ways, whatever the limit
} Rows;

// Where neighbours among the stages of a group can make rows in parts, with at most so much scratch memory
// each, chooses the fastest ways that do. ways: of each stage; stage: the chosen ones. Sets g->cut.
void rows_choose_parts(const Rows *r, RowGroup *g, const RowWays *const *ways, RowStage **stage,
                       uint64_t scratch);
// Which of these parts are made in turns. The times of the group are known.
void rows_set_parts(RowGroup *g);
// How the result of a kernel alone may lie over a value that it reads.
LeadWays rows_lead(const Rows *r, const RowStage *s, BufId in);
// Can kernels [first, first + span), whose stages are there, be a group? Fills it.
bool rows_group(const Rows *r, RowGroup *g);
// Rows that a stage has made after a tick, and the lowest row of its value that is needed at a tick.
int64_t rows_made(const RowGroup *g, uint32_t stage, int64_t tick);
int64_t rows_lowest(const RowGroup *g, uint32_t stage, int64_t tick);
// Makes one kernel of the group, in place of its first one; the others are gone.
void rows_join(Plan *p, const RowGroup *g, Arena *scratch);

// What rows_cut needs to know of the plan as it is now.
Rows rows_facts(Pass *p, LeadMemo *known);
// Cuts the kernels of the plan into groups, and chooses ways for them, so that each group takes at most
// `limit` bytes of the arena and all together as few instructions as possible, by estimate; where that cannot
// be, with the lowest peak. False: no group can take the rows of an input as the program gives them.
bool rows_cut(const Rows *r, uint64_t limit);
// The instructions of that, by estimate.
double rows_insns(const Rows *r, uint64_t limit);
// The peak of that, by estimate.
uint64_t rows_peak(const Rows *r, uint64_t limit);
// What they take in the fastest ways that there are, whatever the memory.
double rows_least_insns(const Rows *r);

#endif
