// SPDX-License-Identifier: Apache-2.0
// The loops of matrix products; see gemm.h. While a tile is computed, its share of the next panel is fetched
// into the second-level cache: without that the first tile of every panel waits for memory. A tile that is
// alone with its panel fetches that some steps ahead, unless the weights of the whole network fit into that
// cache: then they are there, and fetching would only take its ports (1.8 times slower). Where the rows do
// not stay in that cache beside the panels, sums are cut along k: a group of panels is summed up over some
// steps of k for all tiles, then over the next ones; sums wait in scratch memory meanwhile.
#include "passes/lower/product/gemm_parts.h"
#include "passes/lower/packer.h"
#include "passes/lower/transpose.h"

enum { EPILOGUE_LOOP_COST = 8 };
// Fetching ahead: floats of a line; steps between fetches of the next panel; lines ahead in the same panel;
// steps from which results are fetched too.
enum { LINE = 16, FETCH_STEPS = 16, FETCH_AHEAD = 64, FETCHING_STEPS = 256 };

typedef struct Accs {
    KRef var[GEMM_MAX_ACCS];
} Accs;

static uint8_t real_lanes(const Gemm *g, const GemmTileAt *at, int64_t v)
{
    const int64_t left = at->real - v * g->lanes;
    return (uint8_t)(left > g->lanes ? g->lanes : left);
}

static bool is_cut(const Gemm *g)
{
    return g->t.steps < g->k;
}

// Elements from row to row of the sums so far: a line more than they are, see pitch.h.
static int64_t sums_pitch(const Gemm *g)
{
    const int64_t width = (int64_t)g->t.nv * g->lanes;
    return gemm_group(g, gemm_panels(g).run[0].count) * width + LINE;
}

static int64_t line_of_b(const Gemm *g)
{
    return 64 / dtype_info[g->b_type].bytes;
}

static KRef load_as(const Gemm *g, DType type, KRef index, uint8_t lanes, uint8_t count)
{
    Kernel *k = g->l->k;
    return k_cast(k, k_load(k, g->b, index, lanes, count), type);
}

static KRef load_b(const Gemm *g, KRef index, uint8_t lanes, uint8_t count)
{
    return load_as(g, DTYPE_f32, index, lanes, count);
}

static KRef steps_end(const Gemm *g, int64_t steps)
{
    return g->k_live != 0 ? g->k_live : k_index(g->l->k, steps);
}

// Loads the sums so far, or stores them.
static void move_sums(const Gemm *g, const GemmTileAt *at, const Accs *acc, bool is_store)
{
    Kernel *k = g->l->k;
    for (int64_t i = 0; i < at->rows * at->nv; i++) {
        const int64_t offset = i / at->nv * sums_pitch(g) + i % at->nv * g->lanes;
        const KRef place = k_expr(k, "$ + #", at->row_sums, offset);
        if (is_store)
            k_store(k, g->partial, place, k_get(k, acc->var[i]), g->lanes);
        else
            k_set(k, acc->var[i], k_load(k, g->partial, place, g->lanes, g->lanes));
    }
}

static void begin_accs(const Gemm *g, const GemmTileAt *at, Accs *acc)
{
    Kernel *k = g->l->k;
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), g->lanes);
    for (int64_t r = 0; r < at->rows; r++)
        for (int64_t v = 0; v < at->nv; v++)
            acc->var[r * at->nv + v] = k_var(k, zero, arena_printf(k->arena, "a%d_%d", (int)r, (int)v));
    if (!is_cut(g))
        return;
    k_if(k, k_expr(k, "$ != 0", at->cut));
    move_sums(g, at, acc, false);
    k_end(k);
}

// The offset of vector v of b in a step, from the first one.
static int64_t vector_offset(const Gemm *g, const GemmTileAt *at, int64_t v)
{
    return v / at->panel_nv * at->panel_step + v % at->panel_nv * g->lanes;
}

// Adds the products of step c.
static void emit_step(const Gemm *g, const GemmTileAt *at, const Accs *acc, KRef c)
{
    Kernel *k = g->l->k;
    const bool is_plain = g->source == GEMM_ROWS;
    const KRef from = k_expr(k, "$ * # + $", c, is_plain ? g->b_k : at->panel_nv * g->lanes, at->b);
    const KRef left = k_expr(k, "$ * # + ($ * # + $)", at->row, g->a_row, c, g->a_k, at->a);
    KRef b[GEMM_MAX_VECTORS];
    for (int64_t v = 0; v < at->nv; v++) {
        const KRef index = k_expr(k, "$ + #", from, vector_offset(g, at, v));
        b[v] = gemm_makes_panels(g) ? k_load(k, g->panel, index, g->lanes, g->lanes)
                                    : load_b(g, index, g->lanes, is_plain ? real_lanes(g, at, v) : g->lanes);
    }
    for (int64_t r = 0; r < at->rows; r++) {
        const KRef a = k_load(k, g->a, k_expr(k, "$ + #", left, r * g->a_row), 1, 1);
        for (int64_t v = 0; v < at->nv; v++) {
            const KRef sum = acc->var[r * at->nv + v];
            k_set(k, sum, k_op(k, g->has_pairs ? KOP_dot_bf16 : KOP_fma, a, b[v], k_get(k, sum)));
        }
    }
}

// Lines that a tile fetches in FETCH_STEPS steps, so that all tiles of the block fetch a panel.
static int64_t fetched_lines(const Gemm *g, const GemmTileAt *at)
{
    if (g->source != GEMM_PACKED || at->n_tiles < 2 || g->t.steps < FETCH_STEPS)
        return 0;
    const int64_t lines = ceil_div(at->nv * g->lanes * FETCH_STEPS, line_of_b(g));
    return (lines + at->n_tiles - 1) / at->n_tiles;
}

static void emit_sums(const Gemm *g, const GemmTileAt *at, const Accs *acc)
{
    Kernel *k = g->l->k;
    const int64_t line = line_of_b(g), lines = fetched_lines(g, at), steps = g->t.steps,
                  fetching = lines > 0 ? steps - steps % FETCH_STEPS : 0;
    if (fetching > 0) {
        const int64_t share = fetching / FETCH_STEPS * lines * line;
        const KRef next = k_expr(k, "$ + #", at->b, steps * at->nv * g->lanes);
        const KRef from = k_expr(k, "$ * # + $", at->number, share, next);
        const KRef first = k_for(k, k_index(k, 0), k_index(k, fetching), FETCH_STEPS, KFOR_SERIAL, "c");
        for (int64_t i = 0; i < lines; i++)
            k_prefetch(k, g->b,
                       k_expr(k, "$ * # + ($ + #)", first, lines * line / FETCH_STEPS, from, i * line));
        const KRef c = k_for(k, first, k_expr(k, "$ + #", first, FETCH_STEPS), 1, KFOR_SERIAL, "c");
        emit_step(g, at, acc, c);
        k_end(k);
        k_end(k);
    }
    if (fetching == steps)
        return;
    const KRef c = k_for(k, k_index(k, fetching), steps_end(g, steps), 1, KFOR_SERIAL, "c");
    const KRef ahead = k_expr(k, "$ * # + ($ + #)", c, at->panel_nv * g->lanes, at->b, FETCH_AHEAD * line);
    const bool is_far =
        at->n_tiles == 1 && g->source == GEMM_PACKED && g->l->constant_bytes > g->l->caps->cpu.l2_bytes;
    for (int64_t i = 0; i < at->nv * g->lanes && is_far; i += line)
        k_prefetch(k, g->b, k_expr(k, "$ + #", ahead, vector_offset(g, at, i / g->lanes) + i % g->lanes));
    emit_step(g, at, acc, c);
    k_end(k);
}

static void store_vector(const Gemm *g, const GemmTileAt *at, KRef r, int64_t v, KRef value)
{
    Kernel *k = g->l->k;
    g->store(g->l, k_add(k, at->row, r), k_expr(k, "$ + #", at->column, v * g->lanes), g->lanes,
             real_lanes(g, at, v), value, g->ctx);
}

// Costly epilogues go through a small buffer and a loop over the rows, so that their text appears once a
// vector.
static void emit_stores(const Gemm *g, const GemmTileAt *at, const Accs *acc)
{
    Kernel *k = g->l->k;
    if (at->rows < 2 || lower_epilogue_cost(g->l) < EPILOGUE_LOOP_COST) {
        for (int64_t r = 0; r < at->rows; r++)
            for (int64_t v = 0; v < at->nv; v++)
                store_vector(g, at, k_index(k, r), v, k_get(k, acc->var[r * at->nv + v]));
        return;
    }
    const KRef sums = k_array(k, DTYPE_f32, at->rows * at->nv * g->lanes);
    for (int64_t i = 0; i < at->rows * at->nv; i++)
        k_astore(k, sums, k_index(k, i * g->lanes), k_get(k, acc->var[i]));
    const KRef r = k_loop(k, at->rows, KFOR_SERIAL, "r");
    for (int64_t v = 0; v < at->nv; v++) {
        const KRef index = k_expr(k, "$ * # + #", r, at->nv * g->lanes, v * g->lanes);
        store_vector(g, at, r, v, k_aload(k, sums, index, g->lanes));
    }
    k_end(k);
}

// Results lie outside the caches when they are many, or others were there in between: stores that miss hold
// up those behind them. Sums of few steps do not make up for the fetches.
static void fetch_results(const Gemm *g, const GemmTileAt *at)
{
    Kernel *k = g->l->k;
    if (g->fetch == NULL || g->k < FETCHING_STEPS ||
        g->m * g->n * (int64_t)sizeof(float) < (int64_t)g->l->caps->cpu.l2_bytes / 4)
        return;
    const KRef r = k_loop(k, at->rows, KFOR_SERIAL, "r");
    for (int64_t i = 0; i < at->nv * g->lanes; i += LINE)
        g->fetch(g->l, k_add(k, at->row, r), k_expr(k, "$ + #", at->column, i), g->ctx);
    k_end(k);
}

void gemm_emit_tile(const Gemm *g, const GemmTileAt *at)
{
    Accs acc;
    Kernel *k = g->l->k;
    rlx_assert(at->rows * at->nv <= GEMM_MAX_ACCS && at->nv <= GEMM_MAX_VECTORS);
    if (!is_cut(g)) {
        fetch_results(g, at);
        begin_accs(g, at, &acc);
        emit_sums(g, at, &acc);
        emit_stores(g, at, &acc);
        return;
    }
    const KRef is_last = k_expr(k, "$ == #", at->cut, g->k / g->t.steps - 1);
    k_if(k, is_last);
    fetch_results(g, at);
    k_end(k);
    begin_accs(g, at, &acc);
    emit_sums(g, at, &acc);
    k_if(k, is_last);
    emit_stores(g, at, &acc);
    k_else(k);
    move_sums(g, at, &acc, true);
    k_end(k);
}

// --- the loops around it -------------------------------------------------------------------------

// Opens the loop over a run, none for one: returns the number of the tile, panel or block in it. Panels that
// are copied belong to a thread, so their loop is there even for one.
static KRef open_run(const Gemm *g, const GemmRun *run, bool always, const char *name)
{
    Kernel *k = g->l->k;
    if (run->count == 1 && !always)
        return k_index(k, 0);
    const bool is_inside = (gemm_makes_panels(g) || is_cut(g)) && !always;
    KRef end = k_index(k, run->count);
    if (always && g->n_live != 0) { // panels: those with live columns
        const KRef columns = k_expr(k, "$ + #", g->n_live, run->width - 1 - run->first);
        end = k_expr(k, "min($ / #, $)", columns, run->width, end);
    }
    return k_for(k, k_index(k, 0), end, 1, is_inside ? KFOR_SERIAL : KFOR_PARALLEL, name);
}

static void close_run(const Gemm *g, const GemmRun *run, bool always)
{
    if (run->count > 1 || always)
        k_end(g->l->k);
}

// Rows of b in `steps` pairs.
static int64_t pair_rows(const Gemm *g, int64_t steps)
{
    rlx_assert(g->b_rows % 2 == 0 || steps == g->k);
    return 2 * steps < g->b_rows ? 2 * steps : g->b_rows;
}

// Columns that lie along k, in blocks.
static void turn_steps(const Gemm *g, const GemmTileAt *at, KRef start, int64_t steps)
{
    transpose_emit(g->l, &(Transpose){.from = g->b,
                                      .to = g->panel,
                                      .from_at = start,
                                      .to_at = at->b,
                                      .rows = at->real,
                                      .columns = g->has_pairs ? pair_rows(g, steps) : steps,
                                      .from_row = g->b_col,
                                      .to_row = at->nv * g->lanes,
                                      .lanes = g->lanes,
                                      .in_pairs = g->has_pairs});
}

// Pairs of rows from c on into vector v of the panel; is_odd: the second one is missing.
static void copy_pairs(const Gemm *g, const GemmTileAt *at, KRef start, int64_t v, KRef c, bool is_odd)
{
    Kernel *k = g->l->k;
    const uint8_t real = real_lanes(g, at, v);
    const KRef from = k_expr(k, "$ * # + ($ + #)", c, 2 * g->b_k, start, v * g->lanes);
    const KRef to = k_expr(k, "$ * # + ($ + #)", c, at->nv * g->lanes, at->b, v * g->lanes);
    const KRef lower = load_b(g, from, g->lanes, real);
    const KRef upper = is_odd ? k_splat(k, k_number(k, DTYPE_f32, 0), g->lanes)
                              : load_b(g, k_expr(k, "$ + #", from, g->b_k), g->lanes, real);
    k_store(k, g->panel, to, k_pair_bf16(k, lower, upper), g->lanes);
}

static void pair_steps(const Gemm *g, const GemmTileAt *at, KRef start, int64_t steps)
{
    Kernel *k = g->l->k;
    const int64_t rows = pair_rows(g, steps);
    for (int64_t v = 0; v < at->nv; v++) {
        if (rows > 1) {
            copy_pairs(g, at, start, v, k_loop(k, rows / 2, KFOR_SERIAL, "c"), false);
            k_end(k);
        }
        if (rows % 2 != 0)
            copy_pairs(g, at, start, v, k_index(k, rows / 2), true);
    }
}

// Columns that lie along k are turned. Else vector by vector of the panel, so that no more rows of b are read
// at a time than stay in the first-level cache.
static void copy_steps(const Gemm *g, const GemmTileAt *at, KRef start, int64_t steps)
{
    Kernel *k = g->l->k;
    const DType type = g->is_packing ? g->b_type : DTYPE_f32;
    const KRef zero = k_number(k, type, 0);
    if (g->b_k == 1 && g->b_col != 1 && g->lanes > 1 && type == DTYPE_f32) {
        turn_steps(g, at, start, steps);
        return;
    }
    if (g->has_pairs) {
        pair_steps(g, at, start, steps);
        return;
    }
    for (int64_t v = 0; v < at->nv; v++) {
        const int64_t first = v * g->lanes, real = real_lanes(g, at, v);
        const KRef c = k_for(k, k_index(k, 0), steps_end(g, steps), 1, KFOR_SERIAL, "c");
        const KRef from = k_expr(k, "$ * # + ($ + #)", c, g->b_k, start, first * g->b_col);
        const KRef to = k_expr(k, "$ * # + ($ + #)", c, at->nv * g->lanes, at->b, first);
        if (g->b_col == 1) {
            k_store(k, g->panel, to, load_as(g, type, from, g->lanes, (uint8_t)real), g->lanes);
        } else {
            const KRef i = k_loop(k, real, KFOR_SERIAL, "i");
            k_store(k, g->panel, k_add(k, to, i),
                    load_as(g, type, k_expr(k, "$ * # + $", i, g->b_col, from), 1, 1), 1);
            k_end(k);
            for (int64_t i0 = real; i0 < g->lanes; i0++)
                k_store(k, g->panel, k_expr(k, "$ + #", to, i0), zero, 1);
        }
        k_end(k);
    }
}

void gemm_copy_panel(const Gemm *g, const GemmTileAt *at)
{
    copy_steps(g, at, k_expr(g->l->k, "$ * # + $", at->column, g->b_col, g->b_base), g->k);
}

// The steps of a panel that are next to each other, into where the product reads them.
static void pack_steps(const Gemm *g, const GemmTileAt *at)
{
    Kernel *k = g->l->k;
    const KRef start = k_expr(k, "$ * #", at->column, g->b_col);
    const int64_t step = g->has_pairs ? 2 * g->b_k : g->b_k;
    copy_steps(g, at, is_cut(g) ? k_expr(k, "$ * # + $", at->cut, g->t.steps * step, start) : start,
               g->t.steps);
}

static void widen_panel(const Gemm *g, const GemmTileAt *at)
{
    Kernel *k = g->l->k;
    const KRef c = k_for(k, k_index(k, 0), steps_end(g, g->k), 1, KFOR_SERIAL, "c");
    for (int64_t v = 0; v < at->nv; v++) {
        const KRef i = k_expr(k, "$ * # + #", c, at->nv * g->lanes, v * g->lanes);
        k_store(k, g->panel, k_add(k, at->b, i), load_b(g, k_add(k, at->packed, i), g->lanes, g->lanes),
                g->lanes);
    }
    k_end(k);
}

static void emit_tiles(const Gemm *g, GemmTileAt at, int64_t rows)
{
    Kernel *k = g->l->k;
    if (g->is_packing) {
        pack_steps(g, &at);
        return;
    }
    const GemmRuns tiles = gemm_tiles(g, rows);
    const KRef top = at.row;
    int64_t before = 0;
    for (uint32_t t = 0; t < tiles.n; t++)
        at.n_tiles += tiles.run[t].count;
    for (uint32_t t = 0; t < tiles.n; t++) {
        const GemmRun *run = &tiles.run[t];
        const KRef i = open_run(g, run, false, "t");
        at.rows = run->width;
        at.row = k_expr(k, "$ * # + ($ + #)", i, run->width, top, run->first);
        at.number = k_expr(k, "$ + #", i, before);
        if (is_cut(g))
            at.row_sums = k_expr(k, "$ * # + ($ + #)", i, run->width * sums_pitch(g), at.sums,
                                 run->first * sums_pitch(g));
        gemm_emit_tile(g, &at);
        close_run(g, run, false);
        before += run->count;
    }
}

// Groups of panels, each for all k, some steps at a time. A group belongs to a thread, like its sums.
static void emit_groups(const Gemm *g, const GemmRun *run, KRef row, int64_t rows)
{
    Kernel *k = g->l->k;
    const int64_t group = gemm_group(g, run->count), steps = g->t.steps;
    const KRef i = k_loop(k, ceil_div(run->count, group), KFOR_PARALLEL, "og");
    const KRef first = k_expr(k, "$ * #", i, group), behind = k_expr(k, "$ + #", first, group);
    const KRef end = run->count % group == 0 ? behind : k_expr(k, "min($, #)", behind, run->count);
    const KRef n = run->count % group == 0 ? k_index(k, group) : k_sub(k, end, first);
    const KRef from = k_expr(k, "$ * # + ($ + #)", first, g->k * run->width, g->b_base, g->k * run->first);
    const KRef cut = k_loop(k, g->k / steps, KFOR_SERIAL, "kb");
    const KRef p = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "ob");
    const KRef column = k_expr(k, "($ + $) * # + #", first, p, run->width, run->first);
    const KRef chunk = k_expr(k, "$ * $ + $", cut, n, p);
    const bool is_made = gemm_makes_panels(g);
    const GemmTileAt at = {.row = row,
                           .real = run->real,
                           .nv = run->width / g->lanes,
                           .panel_nv = run->width / g->lanes,
                           .column = column,
                           .a = k_expr(k, "$ * # + $", cut, steps * g->a_k, g->a_base),
                           .b = is_made ? g->panel_base
                                        : k_expr(k, "$ * # + $", chunk, steps * run->width, from),
                           .cut = cut,
                           .sums = k_expr(k, "$ * # + $", p, run->width, g->partial_base)};
    if (is_made)
        g->widen(g, column, at.nv, k_expr(k, "$ * #", cut, steps), g->ctx);
    emit_tiles(g, at, rows);
    k_end(k);
    k_end(k);
    k_end(k);
}

GemmTileAt gemm_panel_at(const Gemm *g, const GemmRun *run, KRef i, KRef row)
{
    rlx_assert(run->width % g->lanes == 0 && run->real <= run->width * run->count);
    Kernel *k = g->l->k;
    const bool is_made = gemm_makes_panels(g);
    GemmTileAt at = {.row = row,
                     .real = run->real,
                     .nv = run->width / g->lanes,
                     .panel_nv = run->width / g->lanes,
                     .panel_step = g->k * run->width,
                     .a = g->a_base,
                     .column = k_expr(k, "$ * # + #", i, run->width, run->first)};
    at.packed = k_expr(k, "$ * # + ($ + #)", i, g->k * run->width, g->b_base, g->k * run->first);
    at.b = is_made ? g->panel_base : g->source == GEMM_ROWS ? k_add(k, g->b_base, at.column) : at.packed;
    return at;
}

void gemm_emit_panels(const Gemm *g, KRef row, GemmPanelFn fn, void *ctx)
{
    rlx_assert(fn != NULL && g->t.nv >= 1);
    const GemmRuns panels = gemm_panels(g);
    for (uint32_t p = 0; p < panels.n; p++) {
        const GemmRun *run = &panels.run[p];
        const bool always = gemm_makes_panels(g) || g->n_live != 0;
        const KRef i = open_run(g, run, always, "ob");
        const GemmTileAt at = gemm_panel_at(g, run, i, row);
        if (g->source == GEMM_COPIED)
            gemm_copy_panel(g, &at);
        else if (g->source == GEMM_WIDENED && g->widen != NULL)
            g->widen(g, at.column, at.nv, k_index(g->l->k, 0), g->ctx);
        else if (g->source == GEMM_WIDENED)
            widen_panel(g, &at);
        fn(g, at, ctx);
        close_run(g, run, always);
    }
}

static void emit_block(const Gemm *g, GemmTileAt at, void *rows)
{
    emit_tiles(g, at, *(const int64_t *)rows);
}

// All panels for some rows.
static void emit_rows(const Gemm *g, KRef row, int64_t rows)
{
    const GemmRuns panels = gemm_panels(g);
    if (!is_cut(g)) {
        gemm_emit_panels(g, row, emit_block, &rows);
        return;
    }
    for (uint32_t p = 0; p < panels.n; p++)
        emit_groups(g, &panels.run[p], row, rows);
}

void gemm_emit(Gemm *g)
{
    rlx_assert(g->store != NULL && g->t.rows >= 1 && g->t.steps >= 0);
    Kernel *k = g->l->k;
    const GemmRuns blocks = gemm_blocks(g);
    rlx_assert(!g->has_pairs || g->source == GEMM_PACKED || g->source == GEMM_COPIED);
    if (gemm_makes_panels(g))
        g->panel = lower_param_thread_scratch(g->l, "panel", DTYPE_f32,
                                              (uint64_t)(g->t.steps * g->t.nv * g->lanes), &g->panel_base);
    if (is_cut(g))
        g->partial = lower_param_thread_scratch(
            g->l, "sums", DTYPE_f32, (uint64_t)(sums_pitch(g) * (g->t.block < g->m ? g->t.block : g->m)),
            &g->partial_base);
    if (g->m_live != 0) {
        gemm_emit_live(g);
        return;
    }
    for (uint32_t b = 0; b < blocks.n; b++) {
        const GemmRun *run = &blocks.run[b];
        const KRef i = open_run(g, run, false, "rb");
        emit_rows(g, k_expr(k, "$ * # + #", i, run->width, run->first), run->width);
        close_run(g, run, false);
    }
}

void gemm_pack_lasting(Gemm *g, NodeId b)
{
    rlx_assert(g->t.nv >= 1 && g->lanes >= 1);
    Packer packer;
    Gemm p = *g;
    const GemmRuns panels = gemm_panels(g);
    int64_t columns = 0;
    for (uint32_t i = 0; i < panels.n; i++)
        columns += panels.run[i].width * panels.run[i].count;
    packer_open(g->l, b, g->b_type, (uint64_t)(columns * g->k), &packer);
    p.l = &packer.l;
    p.source = GEMM_PACKED;
    p.is_packing = true;
    p.m_live = p.n_live = p.k_live = 0;
    p.b = packer.from;
    p.panel = packer.to;
    p.b_base = p.a_base = p.partial_base = k_index(p.l->k, 0);
    emit_rows(&p, k_index(p.l->k, 0), 1);
    packer_close(g->l, &packer);
    g->b = packer.reader;
    g->b_base = k_index(g->l->k, 0);
}
