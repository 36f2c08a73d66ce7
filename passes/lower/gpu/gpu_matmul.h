// SPDX-License-Identifier: Apache-2.0
// Products of matrices on GPUs, for whatever has the form C[batch, m, n] = A[batch, m, k] * B[batch, n, k]
// with sums in f32, or i32 of bytes. The one who asks says where the operands
// are and what is stored where.
#ifndef PASSES_LOWER_GPU_GPU_MATMUL_H
#define PASSES_LOWER_GPU_GPU_MATMUL_H

#include "passes/lower/lower.h"

enum { GPU_MATMUL_MAX_BATCH = 4 };

// Strides in elements. outer: between rows of A and C, between columns of B; k: along k, of C between
// columns; batch: 0 where it is the same matrix.
typedef struct GpuMatrix {
    NodeId id;
    uint32_t packed; // 0, or 1 + the parameter that has the elements in place of the node
    const Loc *loc;
    int64_t outer, k;
    int64_t batch[GPU_MATMUL_MAX_BATCH];
    int64_t pair; // 0, or so many steps of k of less than 32 bits are neighbours, and k is from pair to pair
} GpuMatrix;

// Products of bytes: what makes sums of numbers less their zero points of their sums. Columns of b have no
// zero points; that of a is `zero` (0: none), and the sums get begin - zero * sums.
typedef struct GpuBytes {
    const unsigned char *weights; // of b, less their zero points, in the order of the node
    NodeId zero;                  // one element
    bool has_signed_weights;      // i8, else u8
    uint32_t begin, sums;         // 1 + parameters of i32 by index 1 of a point, or 0
} GpuBytes;

// A third axis of images, along which a convolution takes `taps`: images are its frames, each product of the
// batch is one of the output, and what it reads of frames that there are not is zero.
typedef struct GpuFrames {
    int64_t in, out, taps, step, dilation, pad; // out 0: there is no such axis
} GpuFrames;

// A left operand that is an image [N, H, W, channels] as a convolution reads it: row i of the product is
// output pixel i; k counts the channels of the kernel's first tap, then those of the next one. Pairs are by
// axis W, H.
typedef struct GpuImage {
    int64_t channels; // a multiple of gpu_chunk; gpu_row_width: of a row of shared memory
    int64_t in[3], stride[3]; // W, H, N; in elements
    int64_t out[2];
    int64_t taps_w, taps_h; // of a row of the kernel; rows of a frame
    GpuFrames frames;
    int64_t step[2], dilation[2], pad[2];
    int32_t high[2]; // PlanTensorMap.high
} GpuImage;

// A left operand that is an image as a convolution reads it, with any strides and one to three spatial axes
// (the last one is the fastest). Row i of the product is output pixel i. A step of k is a channel at a tap of
// the kernel: of the first tap all channels, then of the next one; or (is_tap_inner) of the first channel all
// taps. There are zeros where a tap lies outside of the image.
enum { GPU_WINDOW_AXES = 3 };
typedef struct GpuWindow {
    uint32_t axes;
    bool is_tap_inner;
    int64_t channels, stride_c, stride_n;
    int64_t in[GPU_WINDOW_AXES], out[GPU_WINDOW_AXES], taps[GPU_WINDOW_AXES], stride[GPU_WINDOW_AXES];
    int64_t step[GPU_WINDOW_AXES], dilation[GPU_WINDOW_AXES], pad[GPU_WINDOW_AXES];
    // Of several groups that make one product, a column has the channels of its own only; for the others its
    // weights are zeros. Channels and columns of a group; 0: there is one group.
    int64_t own_channels, own_columns;
} GpuWindow;

// Rows that come in groups, of which each has a matrix b of its own (axis 0 of the batch): blocks of rows of
// the product, in each of which all are of one group.
typedef struct GpuGroups {
    int64_t rows;     // of a block: a multiple of those of a tile
    int64_t matrices; // that are read at most
    int64_t likely;   // rows of blocks that are likely to have any
    // Parameter of i32. By row of the product: its row in the root, -2 - that if its sums are 0, or -1 for
    // none, behind all others of the block. Behind these, by block: the matrix, or -1 if the block has no
    // rows; then the first of the blocks of that matrix which are walked together, and then their number.
    uint32_t lists;
    NodeId bias;        // [matrices, n], added to the sums of rows; 0: none
    // 0, or 1 + the parameter that has the element with which each matrix begins, a multiple of `table_step`:
    // matrices are this many elements apart then, and there are as many as fit.
    uint32_t table;
    int64_t table_step;
    KRef entry; // 0, or what the lists say of every row that is asked for
} GpuGroups;

// A second product of the same rows, with a matrix of the same form, which the root is made of as well.
typedef struct GpuSecond {
    NodeId product;
    GpuMatrix b;
} GpuSecond;

typedef struct GpuMatmul {
    Lower *l;
    int64_t m, n, k;
    uint32_t n_batch;
    int64_t batch[GPU_MATMUL_MAX_BATCH];
    // c: the root of the kernel. packed: it is stored by rows and columns of the product, whatever its axes.
    GpuMatrix a, b, c;
    const Domain *d; // of the root
    // The point of the domain for a row and a column.
    Point (*point)(const struct GpuMatmul *p, const KRef *batch, KRef row, KRef column);
    KRef (*is_in_root)(const struct GpuMatmul *p, const Point *at); // NULL: every point is
    // Of a window, does a column have a weight at a step of k, or a zero that stands for none? NULL: it has.
    KRef (*has_weight)(const struct GpuMatmul *p, KRef column, KRef step);
    const void *ctx;
    const GpuImage *image; // a is one; NULL: it is a matrix
    const GpuWindow *window; // the same, for gpu_matmul_simt
    KRef rows;             // that count in this run; 0: all
    NodeId bias;           // [n], added to the sums at index 1 of a point; 0: none
    double scale;          // of sums of floats; 0: none
    const GpuBytes *bytes; // NULL: operands are floats
    const GpuGroups *groups; // NULL: all rows have the same matrices
    const GpuSecond *second; // NULL: there is one product
    bool by_slots;         // the sums of a slot are added to the others in f32, as units do not round them
} GpuMatmul;

enum { GPU_RASTER_ROWS = 8 }; // rows of tiles that are walked together: their operands stay in the cache

// What one group of threads computes: 64 rows for each of `warpgroups`, `columns`; k in `splits` parts, each
// by a group of its own in a cluster. Of two products each has half of the columns. Two groups of a pair
// (pair: 2, else 1) have rows behind each other and the same columns: each copies half of what both need of
// B. kept: 0, or all steps of k: the tiles of a group have the same columns, of which all of B stays in
// shared memory, and slots have rows of A only.
typedef struct GpuTile {
    uint8_t warpgroups, stages, splits, pair, kept;
    int16_t columns;
} GpuTile;

// Operands of floats of 16 or 8 bits or of bytes on matrix units: can the copy engine read them?
bool gpu_matmul_fits(const GpuMatmul *p);
void gpu_matmul_emit(const GpuMatmul *p);
// The product for all floats, on GPUs whose groups share memory. gpu_simt_fits: is there enough to do for
// that?
bool gpu_simt_fits(const GpuMatmul *p);
void gpu_matmul_simt(const GpuMatmul *p);
// The kernel of a matmul. False: it does not fit, and nothing was done.

// --- between the files of the schedule -----------------------------------------------------------

// A step of a tile is rows of 128 bytes, which the copy engine swizzles by 16.
enum {
    GPU_ROW_BYTES = 128,
    GPU_CHUNK_BYTES = 16,
    GPU_UNIT_BYTES_K = 32, // of k in a product of wgmma
    GPU_TILE_K = 64,       // elements of 16 bits
    GPU_CHUNK = 8,
    GPU_WARPGROUP = 128
};

typedef struct GpuPlace {
    KRef m, n; // first row and column of a tile
    KRef batch[GPU_MATMUL_MAX_BATCH];
} GpuPlace;

typedef struct GpuEmit {
    const GpuMatmul *p;
    Lower *l;
    Kernel *k;
    GpuTile tile;
    int64_t rows, m_tiles, n_tiles, tiles, steps; // of a group; of pairs; steps: of k, in all parts
    int64_t columns; // of the root that a tile has
    int64_t box_rows; // of A that are copied: there may be fewer than a tile has, and others do not matter
    int64_t slots;                                // groups or clusters that share the tiles
    KRef thread, group;                           // group: number of the cluster
    KRef rank, half;                              // part of k, number in the pair
    bool stores_boxes;                            // the copy engine writes the result
    bool stores_lines;                            // warps write rows of it
    bool stores_pieces;                           // the same by 16 bytes, the root being made then
    uint32_t map_a, map_b, map_c, map_second;
    uint32_t counter; // 0, or 1 + the parameter from which groups with wgmma take the numbers of tiles
    KRef entries; // array: of the rows that a thread stores by pieces, what the lists say of them; 0: unknown
    KRef shared;                                  // where the group's memory begins
    DType sum;                                    // of sums: f32, or u32 where they are of bytes
    KRef zero;                                    // of bytes: the zero point of a, as i32
} GpuEmit;

GpuTile gpu_tile_choose(const GpuMatmul *p);
// Can the copy engine store the result?
bool gpu_result_has_boxes(const GpuMatmul *p);
bool gpu_tile_has_room(const GpuMachine *m, GpuTile t); // for two groups on a processor
int64_t gpu_tile_places(const GpuMachine *m, GpuTile t); // groups, or pairs, that all processors have at once
uint32_t gpu_tile_bytes(GpuTile t, bool has_blocks); // of shared memory; with blocks of results
enum { GPU_NUMBER_BYTES = 48 }; // more, where groups take numbers
GpuPlace gpu_tile_place(const GpuEmit *e, KRef index);
// Opens the loop over the tiles of this group that have rows, and closes it: the number of a tile.
KRef gpu_tile_open(const GpuEmit *e);
void gpu_tile_close(const GpuEmit *e);
// A sum with the bias of its channel, where the product has one.
KRef gpu_with_bias(const GpuMatmul *p, KRef channel, KRef sum);
// The root at a point of the domain where a thread's sum is known, and (or 0) that of the second product.
KRef gpu_tile_root(const GpuEmit *e, Point at, KRef sum, KRef second);
// The point of the domain for a row and column of a tile; those beyond the end are the last ones.
Point gpu_tile_point(const GpuEmit *e, const GpuPlace *at, KRef row, KRef column);
DType gpu_matmul_type(const GpuMatmul *p); // of both operands; of 8 bits: of a
DType gpu_matmul_b_type(const GpuMatmul *p);
// Behind the wait for other kernels: what is read for all tiles.
void gpu_tile_begin(GpuEmit *e);
// The sums of a thread become 0; those of a slot are added to them.
void gpu_tile_clear(const GpuEmit *e, KRef sums);
void gpu_tile_add(const GpuEmit *e, KRef sums, KRef own);
// The sum of numbers less their zero points, of that of bytes.
typedef struct GpuByteSum {
    KRef sum, begin; // begin: what it begins with, if that has been read; else 0
    KRef zero;       // of a, as i32
    KRef column;     // index 1 of its point
} GpuByteSum;
KRef gpu_byte_sum(Kernel *k, const GpuBytes *bytes, GpuByteSum s);

// Columns of b that the tiles read: of bytes, whole blocks of those that gpu_byte_column moves.
enum { GPU_BYTE_FOURS = 4, GPU_BYTE_COLUMNS = 8 * GPU_BYTE_FOURS };
static inline int64_t gpu_b_columns(const GpuMatmul *p)
{
    return p->bytes == NULL ? p->n : ceil_div(p->n, GPU_BYTE_COLUMNS) * GPU_BYTE_COLUMNS;
}
static inline int64_t gpu_element_bytes(const GpuMatmul *p)
{
    return dtype_info[gpu_matmul_type(p)].bytes;
}
static inline int64_t gpu_tile_k(const GpuMatmul *p) // steps of k of a slot
{
    return GPU_ROW_BYTES / gpu_element_bytes(p);
}
static inline int64_t gpu_chunk(const GpuMatmul *p)
{
    return GPU_CHUNK_BYTES / gpu_element_bytes(p);
}
static inline int64_t gpu_unit_k(const GpuMatmul *p)
{
    return GPU_UNIT_BYTES_K / gpu_element_bytes(p);
}

// A sum of floats as it counts.
static inline KRef gpu_scaled(const GpuMatmul *p, KRef sum)
{
    Kernel *k = p->l->k;
    rlx_assert(p->scale == 0 || p->bytes == NULL);
    return p->scale == 0 ? sum : k_mul(k, sum, k_number(k, k_inst(k, sum)->dtype, p->scale));
}

// Products of the batch.
static inline int64_t gpu_matmul_count(const GpuMatmul *p)
{
    int64_t n = 1;
    if (p->groups != NULL)
        return n;
    for (uint32_t i = 0; i < p->n_batch; i++)
        n *= p->batch[i];
    return n;
}

// Columns of the root that a tile has.
static inline int64_t gpu_tile_own_columns(const GpuMatmul *p, GpuTile t)
{
    return p->second != NULL ? t.columns / 2 : t.columns;
}

// --- rows in groups ---

// What the lists say about a row, and the matrix of the block that begins with one.
KRef gpu_group_entry(const GpuMatmul *p, KRef row);
KRef gpu_group_matrix(const GpuMatmul *p, KRef first);
// Blocks that are walked together with that of a row: the first one, and their number.
typedef struct GpuStrip {
    KRef first, count;
} GpuStrip;
GpuStrip gpu_group_strip(const GpuMatmul *p, KRef row);
// Are there rows from this one on, in its block?
KRef gpu_group_has_rows(const GpuMatmul *p, KRef row);
// `in`, and there is such a row.
KRef gpu_group_is_in(const GpuMatmul *p, KRef row, KRef in);
// The sum as it counts, with the bias of the column.
KRef gpu_group_sum(const GpuMatmul *p, KRef row, KRef column, KRef sum);

// The input pixel of an output pixel's first tap.
typedef struct GpuPixel {
    KRef at[2], image; // along W and H, from -pad on
    KRef frame;        // from -pad on, of those of an image, of which `image` is the first; 0: no frames
} GpuPixel;
static inline int64_t gpu_tile_rows(GpuTile t)
{
    return 64 * t.warpgroups;
}
static inline int64_t gpu_tile_slot(GpuTile t) // bytes of a slot of shared memory
{
    return (gpu_tile_rows(t) + (t.kept != 0 ? 0 : t.columns)) * GPU_ROW_BYTES;
}
static inline int64_t gpu_tile_first_slot(GpuTile t) // where slots begin, behind what is kept of B
{
    return (int64_t)t.kept * t.columns * GPU_ROW_BYTES;
}
static inline int64_t gpu_tile_end(GpuTile t) // where they end
{
    return gpu_tile_first_slot(t) + t.stages * gpu_tile_slot(t);
}
static inline uint32_t gpu_matrix_param(Lower *l, const GpuMatrix *x)
{
    return x->packed != 0 ? x->packed - 1 : lower_param(l, x->id, PARAM_READ);
}
// Elements of k in a row of a slot of shared memory: rows of gpu_tile_k, half or a quarter of it are
// swizzled. Of an image whose channels fill none of these there are columns of chunks. The slot has as many
// such parts as fill gpu_tile_k.
static inline int64_t gpu_row_width(const GpuMatmul *p)
{
    const int64_t whole = gpu_tile_k(p);
    return p->image == NULL || p->image->channels % whole == 0 ? whole
           : p->image->channels % (whole / 2) == 0             ? whole / 2
           : p->image->channels % (whole / 4) == 0             ? whole / 4
                                                               : gpu_chunk(p);
}
PlanTensorMap gpu_image_map(const GpuMatmul *p, int64_t rows);
// batch: of the product.
GpuPixel gpu_image_pixel(const GpuEmit *e, const KRef *batch, KRef row);
// Copies the tile's rows from `pixel` on, gpu_tile_k steps of k from `from` on, to shared memory.
void gpu_image_load(const GpuEmit *e, const GpuPixel *pixel, KRef to, KRef from, KRef bar);
// What wgmma reads of it, where rows are shorter than gpu_tile_k: 64 rows from `block` on; i products on.
KRef gpu_image_desc(const GpuEmit *e, KRef slot, KRef block);
KRef gpu_image_step(const GpuEmit *e, KRef desc, int64_t i);
// The element at a row and a step of k; clears *is_in where there is none.
KRef gpu_image_index(const GpuEmit *e, const KRef *batch, KRef row, KRef from, KRef *is_in);

// Sums of a thread by fours: two neighbours of a row, and those 8 rows below; the next four are 8 columns on.
// Of bytes, whose weights are laid out for that, gpu_run_fours of them are neighbours of a row, and those
// below.
typedef struct GpuFours {
    KRef row, column; // of the first one of the tile: row of the thread, column of all threads of a row
    KRef lane;        // the thread's first column of a four
    KRef sums, from;  // array, and number of the first sum in it
    int64_t n;        // of bytes a multiple of GPU_BYTE_FOURS
} GpuFours;
// Fours that are a run: four threads write whole sectors of 32 bytes at once.
static inline int64_t gpu_run_fours(const Lower *l, bool is_of_bytes)
{
    return !is_of_bytes ? 1 : dtype_info[lower_node(l, l->root)->dtype].bytes >= 4 ? 2 : GPU_BYTE_FOURS;
}
// The column of the result that is column `column` of b.
static inline int64_t gpu_byte_column(int64_t column, int64_t fours)
{
    const int64_t four = column / 8 % fours, lane = column % 8 / 2, block = 8 * fours;
    return column / block * block + lane * 2 * fours + four * 2 + column % 2;
}
// Computes the root of them and stores it, unless it is beyond the end.
void gpu_store_fours(const GpuEmit *e, const GpuPlace *at, const GpuFours *f);
// Of floats, are two neighbours of a row stored at once?
bool gpu_stores_pairs(const GpuMatmul *p);
// The parameter for the result.
uint32_t gpu_result_param(const GpuEmit *e);
// Are there whole pieces of 16 bytes of rows, for which the sums may be rounded first?
bool gpu_stores_pieces(const GpuMatmul *p);

void gpu_matmul_wgmma(GpuEmit *e);
void gpu_matmul_mma(GpuEmit *e);

#endif
