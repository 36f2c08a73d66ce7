// SPDX-License-Identifier: Apache-2.0
// Products of matrices on GPUs, for whatever has the form C[batch, m, n] = A[batch, m, k] * B[batch, n, k]
// with sums in f32. The one who asks says where the operands
// are and what is stored where.
#ifndef PASSES_GPU_MATMUL_H
#define PASSES_GPU_MATMUL_H

#include "passes/lower.h"

enum { GPU_MATMUL_MAX_BATCH = 4 };

// Strides in elements. outer: between rows of A and C, between columns of B; k: along k, of C between
// columns; batch: 0 where it is the same matrix.
typedef struct GpuMatrix {
    NodeId id;
    const Loc *loc;
    int64_t outer, k;
    int64_t batch[GPU_MATMUL_MAX_BATCH];
} GpuMatrix;

typedef struct GpuMatmul {
    Lower *l;
    int64_t m, n, k;
    uint32_t n_batch;
    int64_t batch[GPU_MATMUL_MAX_BATCH];
    GpuMatrix a, b, c; // c: the root of the kernel
    const Domain *d; // of the root
    // The point of the domain for a row and a column.
    Point (*point)(const struct GpuMatmul *p, const KRef *batch, KRef row, KRef column);
    const void *ctx;
} GpuMatmul;

// What one group of threads computes: 64 rows for each of `warpgroups`, `columns`; k in `splits` parts, each
// by a group of its own in a cluster.
typedef struct GpuTile {
    uint8_t warpgroups, stages, splits;
    int16_t columns;
} GpuTile;

// Operands of 16-bit floats on matrix units: can the copy engine read them?
bool gpu_matmul_fits(const GpuMatmul *p);
void gpu_matmul_emit(const GpuMatmul *p);
// The same for all floats, on GPUs whose groups share memory; is there enough to do for that?
bool gpu_simt_fits(const GpuMatmul *p);
void gpu_matmul_simt(const GpuMatmul *p);
// The kernel of a matmul. False: it does not fit, and nothing was done.
bool gpu_matmul_lower(Lower *l);

// --- between the files of the schedule -----------------------------------------------------------

enum { GPU_TILE_K = 64, GPU_WARPGROUP = 128, GPU_SMS = 132 };

typedef struct GpuPlace {
    KRef m, n; // first row and column of a tile
    KRef batch[GPU_MATMUL_MAX_BATCH];
} GpuPlace;

typedef struct GpuEmit {
    const GpuMatmul *p;
    Lower *l;
    Kernel *k;
    GpuTile tile;
    int64_t rows, m_tiles, n_tiles, tiles, steps; // steps: of k, in all parts
    int64_t box_rows; // of A that are copied: there may be fewer than a tile has, and others do not matter
    int64_t slots;                                // groups or clusters that share the tiles
    KRef thread, group;                           // group: number of the cluster
    KRef rank;                                    // in the cluster
    bool stores_boxes;                            // the copy engine writes the result
    uint32_t map_a, map_b, map_c;
    KRef shared;                                  // where the group's memory begins
} GpuEmit;

GpuTile gpu_tile_choose(const GpuMatmul *p);
bool gpu_tile_has_room(GpuTile t); // for two groups on a processor
uint32_t gpu_tile_bytes(GpuTile t, bool stores_boxes); // of shared memory
GpuPlace gpu_tile_place(const GpuEmit *e, KRef index);
// The point of the domain for a row and column of a tile; those beyond the end are the last ones.
Point gpu_tile_point(const GpuEmit *e, const GpuPlace *at, KRef row, KRef column);
// Stores two neighbours of a row, unless they are beyond the end.
void gpu_tile_store(const GpuEmit *e, const GpuPlace *at, KRef row, KRef column, const KRef *sum);
DType gpu_matmul_type(const GpuMatmul *p); // of both operands
void gpu_matmul_wgmma(GpuEmit *e);
void gpu_matmul_mma(GpuEmit *e);

#endif
