// SPDX-License-Identifier: Apache-2.0
// What the files of matrix products share: gemm.c emits tiles and panels, gemm_live.c chooses tiles for rows
// whose number only a run knows.
#ifndef PASSES_LOWER_PRODUCT_GEMM_PARTS_H
#define PASSES_LOWER_PRODUCT_GEMM_PARTS_H

#include "passes/lower/product/gemm.h"

enum { GEMM_MAX_VECTORS = 8, GEMM_MAX_ACCS = 32 };

// One tile: rows [row, row + rows) of a panel, or of several panels at once.
typedef struct GemmTileAt {
    KRef row, column;
    int64_t rows, real; // real columns of the panel
    int64_t nv;         // vectors, of which panel_nv are of one panel; panels are panel_step elements apart
    int64_t panel_nv, panel_step;
    KRef a;          // index of the first element of a's row 0
    KRef b;          // index of the panel's first element
    KRef packed;     // WIDENED: the same in b
    int64_t n_tiles; // of the block, which share the fetching of the next panel
    KRef number;     // of this one among them
    KRef cut;        // which steps of k, when they are cut
    KRef sums;       // index of the block's sums in this panel, when they are cut
    KRef row_sums;   // and of the tile's first row
} GemmTileAt;

void gemm_emit_tile(const Gemm *g, const GemmTileAt *at);
// Copies all steps of a panel of b into g->panel, from at->b on.
void gemm_copy_panel(const Gemm *g, const GemmTileAt *at);
// Calls fn for every panel, at row `row`.
typedef void (*GemmPanelFn)(const Gemm *g, GemmTileAt at, void *ctx);
void gemm_emit_panels(const Gemm *g, KRef row, GemmPanelFn fn, void *ctx);
// Panel `i` of a run.
GemmTileAt gemm_panel_at(const Gemm *g, const GemmRun *run, KRef i, KRef row);
// Tiles for [0, m_live) rows.
void gemm_emit_live(const Gemm *g);

#endif
