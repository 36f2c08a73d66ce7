// SPDX-License-Identifier: Apache-2.0
// What the schedules of block_matmul and block_grouped_matmul share.
#ifndef PASSES_LOWER_BLOCKS_BLOCKS_PRODUCT_H
#define PASSES_LOWER_BLOCKS_BLOCKS_PRODUCT_H

#include "passes/lower/blocks/blocks.h"
#include "passes/lower/product/experts.h"

// Rows that are computed in registers, and vectors of columns beside each other.
enum { BLOCK_MAX_ROWS = 4, BLOCK_VECTORS = 2 };

typedef struct BlockProduct {
    NodeId x, w, index; // index 0: there is one matrix, else one for each of `experts`
    NodeId other, other_w; // a second product of the same x that the epilogue reads, and its weights; 0: none
    const BlockFormat *f;
    int64_t rows, inner, columns, experts; // rows of x, columns of a matrix
    Domain d;        // of the root: the last axis has the columns, those before it the rows
    uint32_t x_rows; // param: rows of x as f32, `inner` apart
    KRef x_base;
    PackedBlocks packed;
    Experts of;       // experts: their layer, and where the host has put them
    KRef row, column; // experts: the row of the result that is computed, and what its matrix begins at (0: 0)
    // Rows are integers of digits, see blocks_dot.c: so many, of so many bits each; 0: they are not. A digit
    // of more than 8 bits has two bytes.
    uint8_t n_digits, digit_bits;
    uint32_t digits, steps, sums; // params of these
    bool has_starts;              // sums are those of integers, times the bias of bytes: i32
    KRef stored; // rows before it are stored already, so that what lies there may be a result; 0: none
} BlockProduct;

// Vectors of columns that are computed together, those of a record.
typedef struct BlockColumns {
    KRef records; // number of the first block's record
    int64_t n;
    KRef acc[BLOCK_VECTORS * BLOCK_MAX_ROWS]; // f32, by vector and row
    PackedNumbers numbers[BLOCK_VECTORS];     // of the block
} BlockColumns;

// The expert of a row of the result, -1 or `experts` where it has none; and whether it has one.
KRef block_expert(Lower *l, const BlockProduct *p, const KRef *idx);
KRef block_is_expert(Kernel *k, KRef e, int64_t experts);
// Coordinates of row `row` of the result, all but the column.
void block_product_row(Lower *l, const BlockProduct *p, KRef row, KRef *idx);
// What reads the weights byte by byte, and the index of the first byte of an expert's matrix in that.
BlockReader block_product_reader(Lower *l, BlockProduct *p);
KRef block_product_matrix(Lower *l, const BlockProduct *p, const BlockReader *r, KRef e);
// Makes experts whose weights are constants parts of their layer, as they were given: p->of.weights, elements
// of `type`.
void block_product_place(Lower *l, BlockProduct *p, DType type);
// Adds the products of a row of x with a row of the weights (of expert e) to acc, one by one. at: of the
// result, the column among its coordinates.
void block_product_plain(Lower *l, const BlockProduct *p, const BlockReader *r, Point at, KRef e, KRef acc);
// A unit of a block of vector number `v` of these.
PackedUnit block_product_unit(Lower *l, const BlockColumns *c, int64_t v, KRef block, KRef unit,
                              int64_t turn);
// Stores a vector of columns of row `row`.
void block_product_store(Lower *l, const BlockProduct *p, KRef row, KRef column, uint8_t count, KRef value);
// The first row of tile number `tile` of so many rows. The last tile may have rows of the one before, which
// are not stored again.
KRef block_product_tile(Lower *l, BlockProduct *p, KRef tile, int64_t rows);
// Is a product of one row, the second of which may be computed in the same kernel, as blocks_stream.c says? A
// plan asks before there are kernels; where it is wrong, plain sums do it.
bool block_stream_takes(Pass *pass, NodeId product);
// Lanes of a vector of columns, if weights for rows x are packed for that; 1: they are not.
uint8_t block_product_lanes(const Lower *l, NodeId x, NodeId weight);
// Vectors of columns with weights that can be packed. False: it does not apply.
bool block_product_vectors(Lower *l, BlockProduct *p);

// Chooses n_digits and digit_bits for what the CPU has and --accuracy allows. None where byte products do not
// pay: there are no instructions for them, or the rows are many and floats are faster.
void block_digits_choose(const Lower *l, BlockProduct *p);
// Words of a digit of a unit, and those whose products fit in what they are added up in.
int64_t block_digits_words(const BlockProduct *p);
int64_t block_digits_together(const Lower *l, const BlockProduct *p);
// Emits the loops that round rows, into scratch memory: `live` of them, or all of them where that is 0.
void block_digits_round(Lower *l, BlockProduct *p, KRef live);
// The rows that a run has, where they are those of a single axis; else 0.
KRef block_product_live(Lower *l, const BlockProduct *p);
// Many rows by weights that are unpacked once (blocks_rows.c): the columns of a record, of which `real` are
// there.
bool block_rows_fit(const Lower *l, const BlockProduct *p);
void block_rows_emit(Lower *l, const BlockProduct *p, KRef record, int64_t real);
// Many rows on matrix registers (blocks_matrix.c).
bool block_matrix_fit(const Lower *l, const BlockProduct *p);
void block_matrix_emit(Lower *l, const BlockProduct *p);
// The same for experts, where they have several rows each. False: it does not apply, and nothing was done.
bool block_matrix_experts(Lower *l, const BlockProduct *p);
// Adds a unit's products: number `unit` of block `block`, in a turn (blocks_packed_turns).
void block_digits_add(Lower *l, const BlockProduct *p, const BlockColumns *c, KRef block, KRef unit,
                      int64_t turn);

#endif
