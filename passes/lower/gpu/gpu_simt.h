// SPDX-License-Identifier: Apache-2.0
// What the files of gpu_matmul_simt.c share: a group of 256 threads computes a tile of a product from slices
// of both operands in shared memory. Slices count in words: elements as f32, or those that follow each other
// along k: pairs of 16-bit floats (GPU_UNIT_HALF), four bytes (GPU_UNIT_BYTES).
#ifndef PASSES_LOWER_GPU_GPU_SIMT_H
#define PASSES_LOWER_GPU_GPU_SIMT_H

#include "passes/lower/gpu/gpu_matmul.h"

enum {
    GPU_SIMT_THREADS = 256,
    GPU_SIMT_WORDS = 16, // of k, of a team in a slice; where one slice is all, see gpu_simt_words
    GPU_SIMT_PAD = 8,    // from line to line, so that fragments and whole vectors meet no bank twice
    GPU_SIMT_VECTOR = 4, // words of an access at most
    GPU_SIMT_SHIFTED = 32,
    GPU_SIMT_AHEAD = 2,  // slices on their way at most
    GPU_SIMT_BLOCK = 4,  // rows and columns of a thread that are neighbours
    GPU_COOP_RUN = 8,    // neighbours that a thread stores at once, of cooperative matrices
    GPU_LANES = 32,
    GPU_UNIT_ROWS = 16, // of mma.sync; each thread has so many sums, and four of them share a row
    GPU_UNIT_COLUMNS = 8,
    GPU_UNIT_SUMS = 4,
    GPU_UNIT_QUAD = 4
};

// What multiplies: a multiply-add of each thread; mma.sync of f32 that is split into two tf32 numbers; of
// 16-bit floats; of bytes; matrices of simdgroups; cooperative matrices, which are the other way of a kernel
// whose unit is FMA.
typedef enum GpuUnit {
    GPU_UNIT_FMA,
    GPU_UNIT_TF32,
    GPU_UNIT_HALF,
    GPU_UNIT_BYTES,
    GPU_UNIT_SIMD,
    GPU_UNIT_COOP
} GpuUnit;

// A tile, whose k is shared by teams of threads: each has every sum of the tile for its part of each slice.
// FMA: threads of a team are lines_m rows of threads; units: its warps are warps_m rows of warps. splits: 0,
// or so many groups of a cluster have a part of the slices each, and in the end a part of the tile's sums.
typedef struct GpuShape {
    int16_t rows, columns;
    uint8_t teams, threads_m, warps_m, splits;
    uint8_t parts; // of k, each of which a group has, and hands over through memory; 0: a group has all
} GpuShape;

// An operand: a matrix or a window. `vector` words are brought by an access, along k or along its lines
// (rows of a, columns of b).
typedef struct GpuSide {
    const GpuMatrix *x;
    const GpuWindow *window; // NULL: a matrix
    uint32_t param, words;   // its elements; the same memory as words, if that is how it is read, or as the
                             // bits of 16-bit floats
    int64_t lines, size;     // of the tile; of all
    int64_t pitch, vector;
    bool is_along_k, has_words;
    KRef first, base;        // line of the tile; index of the batch entry's first element
    KRef shared;             // slice
    int64_t offset;          // COOP: word of it where the side begins
    KRef next[GPU_SIMT_AHEAD]; // what this thread brings of those that are on their way
} GpuSide;

typedef struct GpuSimt {
    const GpuMatmul *p;
    Lower *l;
    Kernel *k;
    GpuUnit unit;
    GpuShape shape;
    int64_t words, depth, pair; // words of k in a slice, of a team and of all; elements of a word
    int64_t ahead;       // slices that are on their way while one is multiplied
    DType word, sum;     // types: of words; of sums, which wrap as u32 where they are of bytes
    KRef zero;           // of bytes: what is outside of the image, as i32
    KRef thread, team, member; // member: of the team
    KRef row, column;          // first line of the thread's, or its warp's, sums in the tile; COOP: of a run
    KRef m, n;                 // first row and column of the tile
    KRef batch[GPU_MATMUL_MAX_BATCH];
    GpuSide a, b;
    KRef parts, result;        // sums that teams hand over; the tile, of simdgroups
    KRef rank, shared;         // splits: number of the group in its cluster; where memory for parts begins
    KRef first, end;           // words of k of the group
    KRef part, tile;           // parts: that of the group; number of the tile
    uint32_t handed, counter;  // and memory: sums that they hand over; how many have
} GpuSimt;

static inline int64_t gpu_simt_members(const GpuSimt *s) // threads of a team
{
    return GPU_SIMT_THREADS / s->shape.teams;
}
static inline int64_t gpu_simt_sums(const GpuSimt *s) // of a thread
{
    return s->unit == GPU_UNIT_COOP ? GPU_COOP_RUN
                                    : (int64_t)s->shape.rows * s->shape.columns / gpu_simt_members(s);
}

// Sums of a thread that its group stores.
static inline int64_t gpu_simt_stored(const GpuSimt *s)
{
    return s->shape.splits > 1 ? gpu_simt_sums(s) / s->shape.splits : gpu_simt_sums(s);
}

static inline int64_t gpu_simt_threads_n(const GpuSimt *s) // of a team, along the columns
{
    return gpu_simt_members(s) / s->shape.threads_m;
}
static inline int64_t gpu_simt_warps_n(const GpuSimt *s)
{
    return gpu_simt_members(s) / GPU_LANES / s->shape.warps_m;
}
static inline int64_t gpu_unit_rows(const GpuSimt *s) // products of units along a warp's rows
{
    return s->shape.rows / s->shape.warps_m / GPU_UNIT_ROWS;
}
static inline int64_t gpu_unit_columns(const GpuSimt *s)
{
    return s->shape.columns / gpu_simt_warps_n(s) / GPU_UNIT_COLUMNS;
}

static inline int64_t gpu_unit_pair(GpuUnit unit) // elements of a word
{
    return unit == GPU_UNIT_HALF ? 2 : unit == GPU_UNIT_BYTES ? 4 : 1;
}

GpuUnit gpu_simt_unit(const GpuMatmul *p);
GpuShape gpu_simt_choose(const GpuMatmul *p, GpuUnit unit);
// Words of k of a team in a slice.
int64_t gpu_simt_words(const GpuMatmul *p, GpuUnit unit, GpuShape t);
// Groups that a processor holds at once; those of products that are over after few slices, most of whose time
// is waiting, are more.
uint8_t gpu_simt_places(GpuUnit unit, GpuShape t);
uint8_t gpu_simt_places_of(const GpuMatmul *p, GpuUnit unit, GpuShape t);
// Has each group a processor for itself? Then it waits for memory, and nobody else wants the registers.
bool gpu_simt_is_alone(const GpuMatmul *p, GpuUnit unit, GpuShape t);

// --- k that groups share (gpu_simt_parts.c) --------------------------------------------------------

// Memory for that, where the shape says so.
void gpu_parts_begin(GpuSimt *s);
// The group's words of k, from *from on, of all.
void gpu_parts_range(const GpuSimt *s, KRef *from, KRef *to);
// Four sums of an array, from number `i` on, as number `place` of what a group hands over of its tile.
void gpu_parts_put(const GpuSimt *s, KRef place, KRef sums, int64_t i);
// The same of all parts, added up in their order.
void gpu_parts_get(const GpuSimt *s, KRef place, KRef sums, int64_t i);
// Opens a condition: is the group the last one of its tile that has put its part?
void gpu_parts_open_last(const GpuSimt *s);
// All sums of a thread.
void gpu_parts_put_sums(const GpuSimt *s, KRef sums);
void gpu_parts_get_sums(const GpuSimt *s, KRef sums);

// --- cooperative matrices (gpu_matmul_coop.c) ------------------------------------------------------

// What a subgroup has of a tile: squares of 16 x 16 sums; subgroups of a team along its rows.
typedef struct GpuCoopBlock {
    int64_t rows, columns, down;
} GpuCoopBlock;
int64_t gpu_coop_depth(GpuShape t); // steps of k in a slice, of all teams
// Can the product have them?
bool gpu_coop_fits(const GpuMatmul *p);
// The other way of a kernel, whose sides have begun.
GpuSimt gpu_coop_begin(const GpuSimt *plain);
// The tile is where that of the plain way is.
void gpu_coop_place(GpuSimt *s, const GpuSimt *plain);
void gpu_coop_fetch(const GpuSimt *s, const GpuSide *x, KRef from, uint32_t which);
void gpu_coop_put(const GpuSimt *s, const GpuSide *x, uint32_t which);
void gpu_coop_clear(const GpuSimt *s);
void gpu_coop_multiply(const GpuSimt *s, KRef sums);
void gpu_coop_store(const GpuSimt *s);

// --- weights of windows --------------------------------------------------------------------------

// `pair` steps of k are neighbours. `at` gives the element of a product at a step of k and a column; NULL: it
// is zero.
typedef struct GpuWindowWeights {
    DType dtype;
    int64_t products, steps, columns, pair;
    const unsigned char *(*at)(const void *ctx, int64_t product, int64_t step, int64_t column);
    const void *ctx; // lives as long as the plan
} GpuWindowWeights;

// A parameter called `name` that has the elements in place of the constant node `id`, as operand b.
GpuMatrix gpu_window_weights(Lower *l, NodeId id, const GpuWindowWeights *from, const char *name);

// --- slices --------------------------------------------------------------------------------------

// What a side needs of shared memory: words.
int64_t gpu_side_words(const GpuSimt *s, int64_t lines);
void gpu_side_begin(GpuSimt *s, GpuSide *x);
// The parameter of the side's matrix, read by words of a type.
uint32_t gpu_side_param(const GpuSimt *s, const GpuSide *x, DType word);
// Brings the slice from word `from` of k on into registers of the thread; puts it from there into shared
// memory. which: of the slices on their way.
void gpu_side_fetch(const GpuSimt *s, const GpuSide *x, KRef from, uint32_t which);
void gpu_side_put(const GpuSimt *s, const GpuSide *x, uint32_t which);
// Are all places where a line, or a step of k, begins multiples of n elements?
bool gpu_side_is_even(const GpuSimt *s, const GpuSide *x, int64_t n);
// Line i of shared memory is at i ^ shift, which is less than GPU_SIMT_SHIFTED.
KRef gpu_side_shift(const GpuSimt *s, KRef word);
// The element at a line and a step of k of the operand; clears *is_in where there is none.
KRef gpu_side_index(const GpuSimt *s, const GpuSide *x, KRef line, KRef step, KRef *is_in);
// Does a column have a part in a step of k? For matrices: always.
KRef gpu_side_is_own(const GpuSimt *s, KRef column, KRef step);
// Are there zeros that stand for nothing?
bool gpu_side_has_gaps(const GpuSide *x);

// --- sums ----------------------------------------------------------------------------------------

// Multiplies the team's part of the slice.
void gpu_simt_multiply(const GpuSimt *s, KRef sums);
// Are the neighbours that a thread stores those of a column of the result?
bool gpu_simt_is_by_row(const GpuSimt *s);
// Computes the root of the thread's sums and stores it.
void gpu_simt_store(const GpuSimt *s, KRef sums);
// The same where groups of a cluster have parts of the sums: each adds up its share of them, in the order of
// the parts. Called by all threads; those that have sums are the ones of the first team.
void gpu_simt_store_split(const GpuSimt *s, KRef sums);

#endif
