// SPDX-License-Identifier: Apache-2.0
// The register-tiled core of matrix products on CPUs: tiles of rows x vectors of columns in named
// accumulators, elements of a broadcast one at a time, b in panels [columns / width][k][width]. Constant
// panels are packed at compile time. The tiles, and the order in which they follow each other, are a choice
// (choice.h). Accumulation: f32 fused multiply-adds in rising k, so every choice gives the same bits: sums
// that are cut along k go through memory and on from there.
#ifndef PASSES_LOWER_PRODUCT_GEMM_H
#define PASSES_LOWER_PRODUCT_GEMM_H

#include "passes/lower/lower.h"
#include "passes/lower/product/gemm_packed.h"

// How a product is cut. Blocks of rows are outermost, then panels, then the tiles of a block: one block reads
// every panel once, and a block of one tile keeps its rows in the first-level cache.
typedef struct GemmTiles {
    int64_t rows;  // of a tile, at most
    uint8_t nv;    // vectors of a panel
    int64_t block; // rows of a block, at least `rows`
    int64_t steps; // of k at a time: k, or (PACKED, or with `widen`) a divisor of it
} GemmTiles;

typedef enum GemmSource {
    GEMM_PACKED,  // b is constant, or a parameter: panels, by gemm_pack_constant or gemm_pack_lasting
    GEMM_ROWS,    // b is read where it is, its columns next to each other
    GEMM_COPIED,  // panels are made at run time, in scratch memory of the thread
    GEMM_WIDENED, // the same from packed panels of 16-bit floats, for tiles that read them often
} GemmSource;

// Stores `lanes` columns of a row from `column` on, `count` of them real.
typedef void (*GemmStore)(Lower *l, KRef row, KRef column, uint8_t lanes, uint8_t count, KRef value,
                          void *ctx);
// Fetches what will be stored at a row from `column` on.
typedef void (*GemmFetch)(Lower *l, KRef row, KRef column, void *ctx);

// Writes steps [first, first + g->t.steps) of the panel of b that begins at `column`, `vectors` wide, to
// g->panel from g->panel_base on.
typedef struct Gemm Gemm;
typedef void (*GemmWiden)(const Gemm *g, KRef column, int64_t vectors, KRef first, void *ctx);

struct Gemm {
    Lower *l;
    int64_t m, n, k;
    uint32_t a, b; // params; element (row, i) of a is at a_base + row * a_row + i * a_k
    KRef a_base, b_base;
    int64_t a_row, a_k, b_k, b_col; // strides; those of b when it is not packed
    GemmSource source;
    DType b_type; // of the elements of b: f32, f16 or bf16; those of a are f32
    // PACKED or COPIED: what are called elements of a and b are pairs of bf16 that follow each other along k,
    // in the bits of an f32 (the first below); k counts pairs. The order of the sum: that of KOP_dot_bf16.
    bool has_pairs;
    int64_t b_rows; // with pairs, of a b that is packed at run time: its rows of bf16, b_k apart
    uint8_t lanes;
    GemmTiles t;
    KRef m_live, n_live; // rows and columns that count in this run; 0: all. Others may be computed or not
    KRef k_live;         // steps that count (not PACKED); 0: all
    uint32_t panel;      // COPIED, WIDENED: param of the panel, from panel_base on; set by gemm_emit
    KRef panel_base;
    uint32_t partial; // param of the sums so far, from partial_base on, when steps < k; set by gemm_emit
    KRef partial_base;
    bool is_packing; // panels are written, and nothing is multiplied: set by gemm_pack_lasting
    GemmStore store;
    GemmFetch fetch;    // NULL: none
    GemmWiden widen;    // WIDENED: NULL, or what makes panels of something else than 16-bit floats
    int64_t widen_unit; // steps that it makes at a time are a multiple of this
    void *ctx;          // of these three
};

// The lanes for n columns, 1 where the target has no vectors.
uint8_t gemm_lanes(const Lower *l, int64_t n);
// Sets lanes and tiles from the sizes, strides and source, which are set.
void gemm_choose(Gemm *g);
// Where panels and tiles begin.
GemmRuns gemm_panels(const Gemm *g);
GemmRuns gemm_blocks(const Gemm *g);
GemmRuns gemm_tiles(const Gemm *g, int64_t rows);
// How many panels of `count` are summed up together when steps < k, so that their sums stay in the cache.
int64_t gemm_group(const Gemm *g, int64_t count);
// Sets b to panels of b_type, packed in the order in which they are read, of a constant whose element (i,
// column) is at i * b_k + column * b_col of `data`, which lives in the graph; b_type comes from halves_type,
// or is f32 for pairs. rows: of the constant.
void gemm_pack_constant(Gemm *g, const void *data, DType type, int64_t rows, const char *name);
// Like gemm_pack_constant, for a value of type b_type that depends on parameters only; a separate kernel
// packs it (prepare.h). Call this before the loops around the product are opened, or within.
void gemm_pack_lasting(Gemm *g, NodeId b);
// How n matrices, `matrix` elements of data apart, are packed like that one after the other.
typedef struct GemmPack {
    PlanFill fill;
    const void *ctx;
    uint64_t stride, bytes; // of one, a multiple of 64 where there are several; of all
} GemmPack;
GemmPack gemm_pack(const Gemm *g, const void *data, DType type, int64_t rows, int64_t n, int64_t matrix);
// Where the program packs: lets plans know panels by what they are made of, without making them.
void gemm_note_source(Lower *l, uint32_t param);
static inline bool gemm_makes_panels(const Gemm *g)
{
    return g->source == GEMM_COPIED || g->source == GEMM_WIDENED;
}
// Emits the loops.
void gemm_emit(Gemm *g);

#endif
