// SPDX-License-Identifier: Apache-2.0
// Matrix products on the matrix registers of CPUs (amx/matrix.h): of a constant b, and of a b of bf16 that a
// run makes, whose columns are laid out in panels of pairs first: for each entry of a batch in turn, or,
// where threads share the work, for all of them before a barrier. Apart from lower_matmul.c, whose schedules
// have tiles of vectors.
#include "passes/lower/amx/matrix.h"
#include "passes/lower/product/gemm_parts.h"
#include "passes/lower/product/matmul.h"

// Rows from which panels are worth making, and cycles that each vector of pairs takes.
enum { MIN_PANEL_ROWS = 32, PAIR_CYCLES = 8 };

typedef struct MatrixStore {
    const Matmul *x;
    const Point *batch;
} MatrixStore;

static void store_pixel(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const MatrixStore *s = ctx;
    Point at = matmul_point(s->x, s->batch, out->column, out->channel);
    at.lanes = out->lanes;
    at.count = out->count;
    pull_store_root(l, &s->x->d, at, k_cast(l->k, value, lower_node(l, l->anchor)->dtype));
}

// As a convolution of a row of pixels.
static TileShape shape_of_pixels(const Lower *l, const Matmul *x)
{
    return (TileShape){.is_bf16 = lower_node(l, x->a)->dtype == DTYPE_bf16,
                       .n = 1, .h = 1, .w = x->m, .in_h = 1, .in_w = x->m, .ic = x->k, .oc = x->n,
                       .kh = 1, .kw = 1, .sh = 1, .sw = 1, .dh = 1, .dw = 1};
}

static Tile tile_of(Lower *l, const Matmul *x, MatrixStore *store)
{
    Tile t = tile_new(l, shape_of_pixels(l, x));
    t.in = (TileInput){.param = lower_param(l, x->a, PARAM_READ), .stride_c = x->a_k, .stride_w = x->a_row,
                       .base = matmul_base(l, x, x->a, &x->a_loc, store->batch)};
    t.store = store_pixel;
    t.ctx = store;
    return t;
}

bool matmul_fits_matrix(const Lower *l, const Matmul *joined)
{
    const int type = lower_node(l, joined->a)->dtype;
    const TileShape pixels = shape_of_pixels(l, joined);
    return (type == DTYPE_f32 || type == DTYPE_bf16) && type == lower_node(l, joined->b)->dtype &&
           matrix_is_worthwhile(l, &pixels, 0);
}

bool matmul_fits_panels(const Lower *l, const Matmul *joined)
{
    const TileShape pixels = shape_of_pixels(l, joined);
    const double vectors = (double)joined->k / 2 * (double)ceil_div(joined->n, MATRIX_LANES);
    return lower_node(l, joined->a)->dtype == DTYPE_bf16 && lower_node(l, joined->b)->dtype == DTYPE_bf16 &&
           joined->m >= MIN_PANEL_ROWS && joined->k > 1 && joined->k_live == 0 &&
           !domain_has_live(&joined->d) && joined->a_k == 1 && (joined->b_k == 1 || joined->b_col == 1) &&
           joined->scale == 1 && matrix_is_worthwhile(l, &pixels, vectors * PAIR_CYCLES);
}

void matmul_on_matrix(Lower *l, const Matmul *x)
{
    rlx_assert(node_is_const(l->g, x->b) && l->caps->has_matrix);
    Point batch = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &x->d, x->batch, &batch);
    MatrixStore store = {.x = x, .batch = &batch};
    const Tile t = tile_of(l, x, &store);
    const TileSource weights = {.data = node_attr(lower_node(l, x->b), A_const_data)->u.blob,
                                .stride_oc = x->b_col, .stride_ic = x->b_k};
    matrix_emit(&t, &weights, node_name(l->g, x->b));
    lower_close(l, opened);
}

// --- panels --------------------------------------------------------------------------------------

typedef struct Panels {
    Lower *l;
    const Matmul *x;
    uint32_t words, halves; // the parameter of the panels, as pairs and as bf16
    int64_t each;           // pairs of an entry of the batch
    int64_t rows;           // pairs along k, with those that are 0
    KRef base;
} Panels;

// The first pair of an entry.
static KRef place_of(const Panels *p, const Point *batch)
{
    Kernel *k = p->l->k;
    KRef number = k_index(k, 0);
    if (p->l->caps->threads <= 1)
        return p->base;
    for (uint32_t i = 0; i < p->x->batch; i++)
        number = k_expr(k, "$ * # + $", number, p->x->d.extent[i], batch->idx[i]);
    return k_expr(k, "$ * #", number, p->each);
}

// The columns from `column` on.
static void make_panel(const Panels *p, const Gemm *g, GemmTileAt at)
{
    Kernel *k = p->l->k;
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), g->lanes);
    gemm_copy_panel(g, &at);
    if (g->k == p->rows)
        return;
    const KRef i = k_for(k, k_index(k, g->k), k_index(k, p->rows), 1, KFOR_SERIAL, "z");
    for (int64_t v = 0; v < at.nv; v++)
        k_store(k, g->panel, k_expr(k, "$ * # + ($ + #)", i, at.nv * g->lanes, at.b, v * g->lanes), zero,
                g->lanes);
    k_end(k);
}

static void make_panels(const Panels *p, const Point *batch)
{
    Kernel *k = p->l->k;
    const Matmul *x = p->x;
    const KRef place = place_of(p, batch);
    const Gemm g = {.l = p->l, .n = x->n, .k = ceil_div(x->k, 2), .b_rows = x->k, .has_pairs = true,
                    .b = lower_param(p->l, x->b, PARAM_READ), .b_k = x->b_k, .b_col = x->b_col,
                    .b_base = matmul_base(p->l, x, x->b, lower_loc(p->l, x->b), batch),
                    .b_type = DTYPE_bf16, .source = GEMM_COPIED, .lanes = MATRIX_LANES, .panel = p->words};
    const int64_t width = 2 * MATRIX_LANES, full = x->n / width, rest = x->n % width;
    uint32_t opened = 0;
    if (full > 0) {
        const KRef block =
            lower_open_count(k, full, p->l->caps->threads > 1 ? KFOR_PARALLEL : KFOR_SERIAL, "ob", &opened);
        make_panel(p, &g, (GemmTileAt){.column = k_expr(k, "$ * #", block, width), .real = width, .nv = 2,
                                       .b = k_expr(k, "$ * # + $", block, width * p->rows, place)});
        k_ends(k, opened);
    }
    if (rest > 0)
        make_panel(p, &g, (GemmTileAt){.column = k_index(k, full * width), .real = rest,
                                       .nv = ceil_div(rest, MATRIX_LANES),
                                       .b = k_expr(k, "$ + #", place, full * width * p->rows)});
}

static Panels panels_new(Lower *l, const Matmul *x)
{
    Panels p = {.l = l, .x = x, .rows = ceil_div(x->k, MATRIX_BLOCK) * (MATRIX_BLOCK / 2),
                .base = k_index(l->k, 0)};
    const bool is_shared = l->caps->threads > 1;
    int64_t entries = 1;
    p.each = p.rows * ceil_div(x->n, MATRIX_LANES) * MATRIX_LANES;
    for (uint32_t i = 0; i < x->batch && is_shared; i++)
        entries *= x->d.extent[i];
    p.words = lower_param_scratch(l, "columns", DTYPE_f32, (uint64_t)(p.each * entries));
    p.halves = lower_param_view(l, p.words, DTYPE_bf16);
    return p;
}

void matmul_on_panels(Lower *l, const Matmul *x)
{
    rlx_assert(l->caps->has_matrix && x->k_live == 0);
    Kernel *k = l->k;
    const Panels p = panels_new(l, x);
    Point batch = {.lanes = 1, .count = 1};
    uint32_t opened = lower_open(l, &x->d, x->batch, &batch);
    make_panels(&p, &batch);
    if (l->caps->threads > 1) {
        lower_close(l, opened);
        k_barrier(k);
        opened = lower_open(l, &x->d, x->batch, &batch);
    }
    MatrixStore store = {.x = x, .batch = &batch};
    const Tile t = tile_of(l, x, &store);
    matrix_emit_panels(&t, p.halves, k_expr(k, "$ * 2", place_of(&p, &batch)));
    lower_close(l, opened);
}
