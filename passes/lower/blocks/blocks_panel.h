// SPDX-License-Identifier: Apache-2.0
// Panels of weights as tiles of bf16 for matrix registers (blocks_matrix.c).
#ifndef PASSES_LOWER_BLOCKS_BLOCKS_PANEL_H
#define PASSES_LOWER_BLOCKS_BLOCKS_PANEL_H

#include "passes/lower/blocks/blocks_product.h"

enum {
    SIDE = 16,        // rows and columns of a register
    BLOCK = 2 * SIDE, // rows of a tile, and columns of a record
    TILE_WORDS = SIDE * BLOCK_UNIT / 2,
    UNIT_SCALES = 2 * BLOCK // numbers of a unit of a record
};

typedef struct BlockGrid {
    Lower *l;
    const BlockProduct *p;
    uint8_t parts, weight_parts;  // of elements of x, and of weights
    bool is_whole;                // weights are whole numbers, whose sums of a unit are scaled
    int64_t records;              // of a panel, at most
    int64_t units, turns;         // of a turn; of k
    int64_t row_tiles;            // 16 rows each
    int64_t next_tile, part_step; // elements of x from one to the next
    // Params: x, weights as words, sums of turns; whole numbers: sums of x by unit and row, and numbers of
    // weights.
    uint32_t rows, panel, partial, row_sums, scales;
    KRef panel_base, partial_base, scales_base;
    KRef live;          // rows that exist in a run
    KRef begin, expert; // experts: the place of the first row, and whose it is
} BlockGrid;

// Is something added to all elements of a group of whole numbers? Then sums of x are needed.
bool block_panel_has_sums(const BlockGrid *g);
// Words of a unit of a record: [part][vector][pair][column].
int64_t block_panel_words(const BlockGrid *g);
// Where the numbers of a unit of record `i` of a panel are: [scale, what is added][vector][column].
KRef block_panel_scales(const BlockGrid *g, KRef i, KRef unit);
// The same number in all lanes.
KRef block_panel_number(Kernel *k, double v);
// Decodes the units of a turn of record `record`, number `i` of the panel.
void block_panel_decode(const BlockGrid *g, KRef record, KRef i, KRef turn);

#endif
