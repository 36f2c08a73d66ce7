// SPDX-License-Identifier: Apache-2.0
// Kernels that run row by row in turns: of a group of kernels that follow each other, each makes a row as
// soon as the rows that it reads are there. A value that only the group reads then is never there as a whole,
// but as a window of some rows. No row is made twice.
//
// Time is counted in ticks. A kernel has made (tick + 1 - delay) / every rows after a tick, between none and
// all of them; so the first kernel makes a row at each tick.
#ifndef PASSES_PLAN_RAM_ROWS_H
#define PASSES_PLAN_RAM_ROWS_H

#include "passes/pass.h"

enum { ROWS_MAX_STAGES = 24 };

// What a kernel reads of a buffer, by its rows: bytes [begin, end), none where they are equal. unread: the
// lowest byte that this row and all behind it read; INT64_MAX: none.
typedef struct RowUse {
    BufId buf;
    int64_t *begin, *end, *unread;
} RowUse;

// A kernel as a maker of rows.
typedef struct RowStage {
    BufId out;           // 0: it makes none
    int64_t rows, pitch; // of its result, in bytes from row to row
    KRef loop;           // around all that it does
    int64_t first, span; // row q is made by iterations [first + q * span, first + (q + 1) * span)
    uint64_t scratch;    // bytes
    VEC(RowUse) uses;    // of the arena, without scratch memory
} RowStage;

// What scratch memory of a stage takes, with what the next piece needs to begin at.
uint64_t rows_scratch_bytes(const Plan *p, const PlanArg *a);
// Finds out how the kernel makes rows.
RowStage rows_stage(const Plan *p, uint32_t kernel, Arena *scratch);

// Row q of stage `reader` reads rows [q * step - below, q * step + above) of the value, as far as they exist.
typedef struct RowLink {
    uint32_t maker, reader; // stages of the group
    int64_t step, below, above;
} RowLink;

// The value of a stage. Rows [first, made) are in the window at a tick, `first` from the lowest on.
typedef struct RowHeld {
    bool is_inner;  // only the group touches it: it has a window, else it is there as a whole
    int64_t rows;   // of the window
    bool has_moves; // rows that are needed again move to its begin
} RowHeld;

typedef struct RowGroup {
    uint32_t first, n; // kernels of the plan
    const RowStage *stage;
    int64_t every[ROWS_MAX_STAGES], delay[ROWS_MAX_STAGES], ticks;
    RowHeld held[ROWS_MAX_STAGES];
    VEC(RowLink) links;
    uint64_t window_bytes, scratch_bytes, moved_bytes;
} RowGroup;

// Facts about the plan that deciding about groups needs.
typedef struct Rows {
    const Plan *plan;
    Arena *scratch;
    RowStage *stage;        // by kernel
    uint32_t *first, *last; // by buffer: kernels that touch it; UINT32_MAX and 0: none
    bool *lasts;            // by buffer: needed from before the first kernel on, or behind the last one
} Rows;

// Can kernels [first, first + n) be a group? Fills it.
bool rows_group(const Rows *r, uint32_t first, uint32_t n, RowGroup *g);
// Rows that a stage has made after a tick, and the lowest row of its value that is needed at a tick.
int64_t rows_made(const RowGroup *g, uint32_t stage, int64_t tick);
int64_t rows_lowest(const RowGroup *g, uint32_t stage, int64_t tick);
// Makes one kernel of the group, in place of its first one; the others are gone.
void rows_join(Plan *p, const RowGroup *g, Arena *scratch);

// Cuts the kernels of a plan into groups, of which each takes at most `limit` bytes of the arena by estimate,
// so that as few bytes as possible are moved; where that cannot be, with the lowest peak. False: nothing
// changed.
bool rows_cut(Pass *p, uint64_t limit);

#endif
