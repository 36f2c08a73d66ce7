// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with a matrix whose rows lie along k, on GPUs: what bounds them is reading the
// matrix once. A team of warps sums a few rows of it; each thread has several wide loads of the matrix in
// flight before it waits for the kernels before (k_wait), so that the matrix is on its way while these still
// run. Sums are f32: those of each thread in rising k, then pairwise.
#ifndef PASSES_LOWER_PRODUCT_MATVEC_H
#define PASSES_LOWER_PRODUCT_MATVEC_H

#include "passes/lower/lower.h"

// How a team of 32 * warps threads, which is a group of its own, sums `rows` rows of each matrix: a thread
// reads `vectors` loads of 16 bytes of each row, and the next ones as it uses them, `chunks` times.
typedef struct MatVecShape {
    uint8_t rows, warps, vectors, chunks;
} MatVecShape;

// Stores element `column` of row `row` of the product; values: one for each matrix.
typedef void (*MatVecStore)(Lower *l, KRef row, KRef column, const KRef *values, void *ctx);

enum { MATVEC_MAX_ROWS = 8, MATVEC_MAX_MATRICES = 2 };

typedef struct MatVec {
    Lower *l;
    int64_t m, n, k; // rows of a; rows of each matrix, which are columns of the product; inner
    NodeId a;        // element (row, i) is at a_base + row * a_row + i * a_k
    KRef a_base;
    int64_t a_row, a_k;
    NodeId norm; // 0, or a is multiplied as this rms_norm of its rows, which the kernel computes on the way
    uint32_t n_b;
    NodeId b[MATVEC_MAX_MATRICES]; // element (i, row) is at row * b_pitch + i
    int64_t b_pitch;
    bool is_turned; // b are constants [k, n], turned at compile time
    // Several products, each by groups of its own: `begin` sets a_base and b_base of one of them behind the
    // wait for other kernels, since what it reads says where they are. 0: there is one, whose matrices begin
    // where their nodes do.
    int64_t products;
    void (*begin)(struct MatVec *v, KRef product);
    uint32_t packed;      // 0, or 1 + the parameter of words that has the only matrix in place of the node
    bool is_base_aligned; // a_base is a multiple of 16 bytes, although it is no constant
    KRef b_base;          // in elements, a multiple of 16 bytes; 0: none
    MatVecShape shape;
    MatVecStore store;
    void *ctx;
} MatVec;

// The shape for a product of such sizes of elements of type t; false: there is none.
bool matvec_choose(const GpuMachine *gpu, const MatVec *v, DType t, MatVecShape *out);
// Emits the kernel. b_pitch and the offsets of b are multiples of 16 bytes.
void matvec_emit(const MatVec *v);

// Will the product be computed like that, whatever the places of its operands turn out to be? Then it can
// take in the norm of its rows.
bool matvec_takes(const Plan *p, NodeId matmul);

#endif
