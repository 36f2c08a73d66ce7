// SPDX-License-Identifier: Apache-2.0
// What the files of the memory plan share: which buffers have bytes of their own is decided first
// (memplan_share.c), then where these lie (memplan.c).
#ifndef PASSES_PLAN_MEMPLAN_H
#define PASSES_PLAN_MEMPLAN_H

#include "passes/pass.h"
#include "passes/plan/place/place.h"
#include "passes/plan/place/place_banks.h"
#include "passes/plan/ram/lead.h"

typedef struct Planner {
    Pass *pass;
    Plan *plan;
    BufId *owner;            // by buffer: the one whose bytes it uses (itself unless in place)
    bool *is_output;         // by buffer: holds an output of the graph or a condition
    bool *is_exchanged;      // by buffer, with banks: part of what the program reads or writes
    bool *is_staged;         // by buffer: part of what a GPU and its host exchange (Plan.gpu.staged)
    bool has_exchange;       // a GPU and its host exchange inputs, outputs and more
    bool is_latency;         // memory is not used again where that costs a barrier
    uint32_t *item;          // by buffer: 1 + its item for the placer, 0: none
    struct Overlap *overlap; // memplan_find_overlaps
    LeadMemo *known;         // what it found in plans before this one
} Planner;

static inline PlanBuffer *planner_buffer(const Planner *m, BufId b)
{
    return &m->plan->buffers.data[b];
}

static inline bool planner_is_arena(const Planner *m, BufId b)
{
    return b != 0 && planner_buffer(m, b)->region == REGION_ARENA;
}

// Places all buffers of the plan as its kernels are now. known: of all plans of these kernels.
void memplan_run(Pass *p, LeadMemo *known);
// The same, with kernels that run row by row in turns where the plan takes too much otherwise (--ram). False:
// it takes too much in any case, which it has reported.
bool memplan_fit(Pass *p);

// In the body of a loop: carried values change in place where all readers of the old value come before; the
// kernels that would copy them go away. Before lifetimes are known.
void memplan_carry(Planner *m);
// Roots of kernels that overwrite an operand which nothing needs any more share its bytes.
void memplan_share(Planner *m);
// Where results may lie over what their kernels read: one thread of a microcontroller. Finds the pairs of the
// n items that m->item names.
void memplan_find_overlaps(Planner *m, uint32_t n);
// Places items, which m->item names, closer than *result with the pairs that are among them (enough: see
// PlaceLeads).
void memplan_overlap(const Planner *m, Arena *scratch, uint64_t enough, PlaceItem *items, uint32_t n,
                     PlaceResult *result);
// Says of all items which may lie over another one, and which others may lie over.
void memplan_mark_overlaps(const Planner *m, BankItem *items, uint32_t n);
// Turns kernels around that have to run backwards for the places of these items.
void memplan_turn(Planner *m, const PlaceItem *items);

// Banks (--bank; memplan_banks.c). Copies those of the options to the plan.
void memplan_begin_banks(const Pass *p);
// Values that the program reads or writes: they lie in one bank.
void memplan_for_exchanged(Planner *m, void (*fn)(Planner *m, BufId b));
// Decides for each item in which bank it lies, and at which offset. ids: its buffers.
void memplan_place_banks(Planner *m, PlaceItem *items, const BufId *ids, uint32_t n);
void memplan_place_weights(Planner *m);
// Bytes that banks lack.
typedef enum BankKind { BANKS_OF_RAM, BANKS_OF_WEIGHTS } BankKind;
uint64_t memplan_lacking(const Plan *p, BankKind kind);
// Says which bank is too small, and what is in it.
void memplan_report_banks(const Pass *p);
// A note: the bytes of a buffer while kernel `step` runs.
enum { MEMPLAN_NAMED = 12 };
void memplan_name_buffer(const Pass *p, BufId b, uint32_t step);
// Fills PlanBuffer.traffic (memplan_traffic.c): bytes that a run reads and writes of what is not in place of
// others.
void memplan_count_traffic(const Planner *m);

#endif
