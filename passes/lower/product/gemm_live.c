// SPDX-License-Identifier: Apache-2.0
// Matrix products whose number of rows only a run knows. The rows are cut as the nearest constant number
// would be: into tiles of equal height, of the smallest of some heights that is enough. The last tile may
// reach beyond the live rows, but not beyond the largest number of them; where equal tiles would, there are
// whole ones and one for the rest. There is one text of a tile for every height, in a loop over as many as
// there are. One to three rows take several panels at a time, to have enough independent sums.
#include "passes/lower/product/gemm_parts.h"

enum { MAX_HEIGHTS = 40, WIDE_ROWS = 3, SHARES = 4 };

// Tiles of each height, falling: `count` of them from row `first` on.
typedef struct Heights {
    uint32_t n;
    int64_t rows[MAX_HEIGHTS];
    KRef first[MAX_HEIGHTS], count[MAX_HEIGHTS];
} Heights;

// Steps of a fifth, and the height of what whole tiles leave of all rows. is_wide: few rows are taken
// otherwise.
static Heights heights_of(const Gemm *g, bool is_wide)
{
    const int64_t rest = g->m % g->t.rows, least = is_wide ? WIDE_ROWS + 1 : 1;
    Heights h = {0};
    for (int64_t rows = g->t.rows; rows >= 1; rows -= rows / 5 > 1 ? rows / 5 : 1) {
        const int64_t last = h.n > 0 ? h.rows[h.n - 1] : rows + 1;
        rlx_assert(h.n + 2 < MAX_HEIGHTS);
        if (rest > rows && rest < last)
            h.rows[h.n++] = rest;
        if (rows >= least || rows == rest)
            h.rows[h.n++] = rows;
    }
    return h;
}

// The smallest height that is at least n, which is at most that of a whole tile.
static KRef enough(Kernel *k, const Heights *h, KRef n)
{
    KRef rows = k_index(k, h->rows[0]);
    for (uint32_t i = 1; i < h->n; i++) {
        const KRef smaller = k_index(k, h->rows[i]);
        rows = k_select(k, k_le(k, n, smaller), smaller, rows);
    }
    return rows;
}

// Sets first and count for n rows, where `room` rows are there.
static void cut_rows(const Gemm *g, Heights *h, KRef n, KRef room)
{
    Kernel *k = g->l->k;
    const KRef most = k_index(k, g->t.rows), zero = k_index(k, 0), one = k_index(k, 1);
    const KRef whole = k_div(k, n, most), done = k_mul(k, whole, most);
    const KRef rest = k_sub(k, n, done);
    const KRef tiles = k_expr(k, "($ + #) / $", n, g->t.rows - 1, most);
    const KRef divisor = k_max(k, tiles, one);
    const KRef even = k_expr(k, "($ + ($ - $)) / $", n, divisor, one, divisor);
    const KRef height = enough(k, h, even);
    const KRef fits = k_expr(k, "$ * $ <= $", tiles, height, room);
    const KRef last = k_select(k, fits, height, enough(k, h, rest));
    const KRef count = k_select(k, fits, tiles, k_min(k, rest, one));
    const KRef first = k_select(k, fits, zero, done);
    for (uint32_t i = 0; i < h->n; i++) {
        const KRef is_this = k_expr(k, "$ == #", last, h->rows[i]);
        const KRef own = k_select(k, is_this, count, zero);
        h->count[i] = i > 0 ? own : k_add(k, own, k_select(k, fits, zero, whole));
        h->first[i] = i > 0 ? first : zero;
    }
}

// The tiles of a block, for one panel.
static void emit_tiles(const Gemm *g, GemmTileAt at, void *ctx)
{
    Kernel *k = g->l->k;
    const Heights *h = ctx;
    const KRef top = at.row;
    const int64_t block = g->t.block < g->m ? g->t.block : g->m, most = ceil_div(block, g->t.rows);
    for (uint32_t i = 0; i < h->n; i++) {
        const uint8_t flags = gemm_makes_panels(g) ? KFOR_SERIAL : KFOR_PARALLEL;
        const KRef t = k_for(k, k_index(k, 0), h->count[i], 1, flags, "t");
        at.rows = h->rows[i];
        at.row = k_expr(k, "$ * # + ($ + $)", t, at.rows, top, h->first[i]);
        at.n_tiles = at.rows * 2 <= g->t.rows ? 1 : most < SHARES ? most : SHARES;
        at.number = k_expr(k, "min($, #)", t, SHARES - 1);
        gemm_emit_tile(g, &at);
        k_end(k);
    }
}

static void emit_one(const Gemm *g, GemmTileAt at, void *rows)
{
    at.rows = *(const int64_t *)rows;
    at.n_tiles = 1;
    at.number = k_index(g->l->k, 0);
    gemm_emit_tile(g, &at);
}

// Tiles outside, panels inside.
static void emit_rows(const Gemm *g, Heights *h)
{
    Kernel *k = g->l->k;
    cut_rows(g, h, g->m_live, k_index(k, g->m));
    for (uint32_t i = 0; i < h->n; i++) {
        const KRef t = k_for(k, k_index(k, 0), h->count[i], 1, KFOR_PARALLEL, "rb");
        gemm_emit_panels(g, k_expr(k, "$ * # + $", t, h->rows[i], h->first[i]), emit_one, &h->rows[i]);
        k_end(k);
    }
}

static void emit_blocks(const Gemm *g, Heights *h)
{
    Kernel *k = g->l->k;
    KRef row = k_index(k, 0);
    const KRef block = k_index(k, g->t.block);
    const bool is_one = g->t.block >= g->m;
    if (!is_one) {
        const KRef n = k_expr(k, "($ + #) / $", g->m_live, g->t.block - 1, block);
        row = k_mul(k, k_for(k, k_index(k, 0), n, 1, KFOR_PARALLEL, "rb"), block);
    }
    const KRef left = k_sub(k, g->m_live, row), room = k_expr(k, "# - $", g->m, row);
    cut_rows(g, h, is_one ? left : k_min(k, left, block), room);
    gemm_emit_panels(g, row, emit_tiles, h);
    if (!is_one)
        k_end(k);
}

// --- few rows ------------------------------------------------------------------------------------

// Panels that a wide tile takes at once, at most.
static int64_t panels_at_once(const Gemm *g)
{
    return g->source == GEMM_PACKED ? GEMM_MAX_VECTORS / g->t.nv : 1;
}

// Tiles of `rows` rows over panels [0, n) of a run, `at_once` together.
static void emit_wide(const Gemm *g, const GemmRun *run, int64_t first, int64_t n, int64_t at_once,
                      int64_t rows)
{
    Kernel *k = g->l->k;
    const KRef is_it = k_expr(k, "$ == #", g->m_live, rows);
    const KRef count = k_select(k, is_it, k_index(k, n / at_once), k_index(k, 0));
    const KRef p = k_for(k, k_index(k, 0), count, 1, KFOR_PARALLEL, "p");
    GemmTileAt at = gemm_panel_at(g, run, k_expr(k, "$ * # + #", p, at_once, first), k_index(k, 0));
    at.nv *= at_once;
    at.real += (at_once - 1) * run->width;
    emit_one(g, at, &rows);
    k_end(k);
}

static void emit_few(const Gemm *g)
{
    const GemmRuns panels = gemm_panels(g);
    const int64_t at_once = panels_at_once(g);
    for (int64_t rows = 1; rows <= WIDE_ROWS; rows++)
        for (uint32_t p = 0; p < panels.n; p++) {
            const GemmRun *run = &panels.run[p];
            const int64_t together = run->count / at_once * at_once, left = run->count - together;
            if (together > 0)
                emit_wide(g, run, 0, together, at_once, rows);
            if (left > 0)
                emit_wide(g, run, together, left, left, rows);
        }
}

void gemm_emit_live(const Gemm *g)
{
    rlx_assert(g->m_live != 0 || g->n_live != 0);
    Kernel *k = g->l->k;
    Gemm rest = *g;
    const bool is_wide = g->t.rows > WIDE_ROWS && panels_at_once(g) > 1;
    if (is_wide) {
        emit_few(g);
        const KRef is_few = k_expr(k, "$ <= #", g->m_live, WIDE_ROWS);
        rest.m_live = k_select(k, is_few, k_index(k, 0), g->m_live);
        rest.n_live = k_select(k, is_few, k_index(k, 0), g->n_live != 0 ? g->n_live : k_index(k, g->n));
    }
    Heights h = heights_of(g, is_wide);
    if (g->t.block == g->t.rows && g->t.rows < g->m)
        emit_rows(&rest, &h);
    else
        emit_blocks(&rest, &h);
}
