// SPDX-License-Identifier: Apache-2.0
// What gpu_matmul_wgmma.c and the stores of its tiles share (gpu_matmul_store.c).
#ifndef PASSES_LOWER_GPU_GPU_MATMUL_WGMMA_H
#define PASSES_LOWER_GPU_GPU_MATMUL_WGMMA_H

#include "passes/lower/gpu/gpu_matmul.h"

enum {
    GPU_BLOCK_ROWS = 64, // of A that a warpgroup multiplies, and of what is stored at once
    GPU_BLOCK_BYTES = GPU_BLOCK_ROWS * GPU_ROW_BYTES
};

enum { GPU_PIECE = 8 }; // elements of 16 bytes

// What the root is made of beside the sums, by at most n neighbours of a row. False: not so, or nothing.
struct Wide;
bool gpu_has_wide(const GpuEmit *e, int64_t n, struct Wide *w);
// Where the result has the root at a row and a column of the product.
KRef gpu_root_index(const GpuEmit *e, const GpuPlace *at, KRef row, KRef column);

// Where the sums of a thread are: row of the first, column of the first; of four, two are 8 rows below.
typedef struct GpuFragment {
    KRef row, column, lane, warp;
} GpuFragment;

// Of thread `own` of a warpgroup that has block `block` of 64 rows.
GpuFragment gpu_fragment_of(const GpuEmit *e, KRef own, KRef block);
// A box of an operand or of the result: at[0]: address, at[1], at[2]: place along the inner and the outer
// axis of the matrix of a batch entry, at[3]: barrier of what is loaded, 0: it is stored. What is loaded of B
// goes to both groups of a pair.
void gpu_tile_move(const GpuEmit *e, const GpuMatrix *x, uint32_t map, const KRef *at, const GpuPlace *place);
// What the lists say of the rows that a thread stores by pieces, read before the sums are there: an array.
KRef gpu_piece_entries(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef block);
// Stores the root of a tile's sums. thread: its number in the warpgroup, and the number of that.
void gpu_store_sums(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, const KRef *thread,
                    KRef sums);

// Are there blocks of shared memory through which results leave?
static inline bool gpu_has_blocks(const GpuEmit *e)
{
    return e->stores_boxes || e->stores_lines || e->stores_pieces;
}

#endif
