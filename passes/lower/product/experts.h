// SPDX-License-Identifier: Apache-2.0
// Products of rows with the matrix of their expert: what the lowering of grouped_matmul is made of,
// and what puts experts in a place of their own.
#ifndef PASSES_LOWER_PRODUCT_EXPERTS_H
#define PASSES_LOWER_PRODUCT_EXPERTS_H

#include "passes/lower/product/gemm.h"

typedef struct Experts {
    NodeId product, x, w, index, bias; // bias 0: none
    const struct Experts *second;      // another product of the same rows that the root is made of, or NULL
    int64_t n_experts, rows, n, k;
    int64_t w_expert, w_k, w_col; // strides of the weights
    bool is_shared;               // the last axis of the index has the experts of one row of x
    Domain d;                     // axes of the result
    // Scratch memory, all i32: by row its expert or -1; bounds[e] .. bounds[e + 1]: places in `order` of the
    // rows of expert e, the last ones those of none; rows by place; experts that have rows, and behind them
    // (at n_experts) how many these are. Rows beyond the live ones have no place, and no expert.
    uint32_t choice, bounds, order, groups;
    uint32_t sorted; // the rows of x, in f32, by place, `pitch` elements apart
    int64_t pitch;
    // On GPUs `choice` is made by a launch before; without a layer there is none.
    bool is_layer, is_placed, has_table;
    uint32_t weights, table; // where is_placed; with a table of where experts are, see PlanMoePart
    uint64_t stride;         // elements of `weights` from expert to expert
} Experts;

// The coordinates of a row of the result on its axes but the last.
void experts_row(Lower *l, const Experts *x, KRef row, KRef *idx);
// Index of the first element of the row of x that belongs to a row of the result; the step along it.
KRef experts_row_base(Lower *l, const Experts *x, const KRef *idx);
int64_t experts_row_step(const Lower *l, const Experts *x);
// Entry i of one of the lists, as an index.
KRef experts_entry(Lower *l, uint32_t param, KRef i);
// Fills the scratch memory, by counting: rows of one expert keep their order.
void experts_sort(Lower *l, Experts *x);
// Makes the product one of a layer (PlanMoe), unless it is in the body of a loop.
void experts_note(Lower *l, const Experts *x);
// Makes the weights of each expert a part of the layer that its index belongs to, which the runtime can place
// elsewhere (PlanMoe): the parameter of the packed weights.
uint32_t experts_place(Lower *l, const Experts *x, DType type, const GemmPack *pack);
// Notes a product that finds each row's expert by itself: a kernel before it keeps what the index has.
// GPUs read that (x->choice), since the host places what it names.
void experts_note_rows(Lower *l, Experts *x);
// Constant weights as they were given, k * n elements for each expert, as experts_place: x->weights, whose
// elements the kernel takes for `type`. Only behind experts_note_rows, of a layer (x->is_layer).
void experts_place_given(Lower *l, Experts *x, DType type);
// How rows are cut into blocks, each of rows of one expert.
typedef struct ExpertBlocks {
    int64_t rows, n, matrices; // of a block; blocks at most; experts that have rows at most
    int64_t likely;            // blocks, where the last one of an expert is half full
    // The last block of an expert comes behind those of all, if it is at most half full: groups that have had
    // fewer tiles take it, for which the matrix is read again.
    bool has_tails;
} ExpertBlocks;
// What the lists say of a row: its number, this less it where it has no expert, or that there is none.
enum { EXPERT_NO_ROW = -1, EXPERT_NO_EXPERT = -2 };
enum { EXPERTS_MOST = 512, EXPERTS_FEW_ROWS = 64, EXPERTS_MANY_ROWS = 128 }; // the latter: of a block
ExpertBlocks experts_blocks(const Experts *x);
// The kernel that fills the lists of GpuGroups (experts_lists.c).
void experts_list_rows(Lower *l, const Experts *x, BufId lists);
// The product as tiles, on GPUs that share memory (experts_units.c). False: it does not fit, and nothing was
// done.
bool experts_units(Lower *l, Experts *x);
// The same for so few rows that most of them have an expert to themselves (experts_few.c).
bool experts_few(Lower *l, Experts *x);
// Has a product of experts left these rows in the order of the lists, and nowhere else?
bool experts_are_sorted(const Lower *l, NodeId x);
bool experts_are_product(const Node *n);
// Have two products of the same form the same choice of experts, and weights of the same kind?
bool experts_are_alike(const Graph *g, const Node *one, const Node *other);
// Can another product of the same rows be computed in the same kernel, whatever the places of its operands
// turn out to be?
bool experts_take_second(const Plan *p, NodeId product);
// On GPUs: index of the first element of an expert's matrix in x->weights.
KRef experts_begin(Lower *l, const Experts *x, KRef e);

#endif
