// SPDX-License-Identifier: Apache-2.0
// Many rows by blocks on matrix registers (KMatrix). Rows of x become tiles of bf16 once, in scratch memory
// that all threads share. A thread takes a panel of columns, some steps of k at a time: weights are decoded
// to tiles of bf16 (blocks_panel.c), which all rows meet. Where --accuracy allows it, one bf16 stands for an
// element. Else it is the sum of two or three: the rounded element, and what is left of it, rounded; three
// hold all bits of an f32. Of the products of parts those are added up that count, three or six: the others
// are less than what is rounded. With three, weights whose group has a scale for all elements of a unit stay
// whole numbers of one part, so that three products are all: their sums of a unit are scaled, in f32.
// Accumulation: as the registers do it within the steps of a turn, or of a unit if its sums are scaled, and
// those are added in f32, in rising k. A row that is not finite gives nothing finite.
#include "passes/lower/blocks/blocks_panel.h"

enum {
    SUMS = 0, ROWS = 4, WEIGHTS = 6, // registers: four of sums, two of x, two of weights
    TILE_ELEMENTS = SIDE * BLOCK_UNIT,
    TILE_SUMS = BLOCK * BLOCK,
    PANEL_RECORDS = 8, // of a thread at a time, at most
    MOST_PARTS = 3
};
// What --accuracy must allow for so many parts. Products of random numbers are off by 2.4e-3, 4.6e-6 and
// 4e-7 of their norm (f32: 1e-6), and logits of whole models by up to 4e-5 with two.
static const double error_of_parts[MOST_PARTS + 1] = {0, 4e-3, 2e-5, 1e-6};
// Units of a turn, at least: x and the sums stay in the first cache.
static const int64_t turn_units[MOST_PARTS + 1] = {0, 8, 8, 4};

static uint8_t parts_for(double accuracy)
{
    for (uint8_t n = 1; n <= MOST_PARTS; n++)
        if (error_of_parts[n] <= accuracy)
            return n;
    return 0;
}

// Do weights stay whole numbers? A scale must be that of a unit, at least.
static bool is_whole(const Lower *l, const BlockProduct *p)
{
    return parts_for(l->pass->options->accuracy) == MOST_PARTS && p->packed.step == BLOCK_UNIT;
}

// These are decoded so cheaply that fewer rows pay, but not those that f32 vectors have in registers.
static int64_t least_rows(const Lower *l, const BlockProduct *p)
{
    return is_whole(l, p) ? BLOCK_MAX_ROWS + 1 : SIDE;
}

bool block_matrix_fit(const Lower *l, const BlockProduct *p)
{
    return l->caps->has_matrix && l->caps->f32_lanes == SIDE && p->packed.lanes == SIDE &&
           p->packed.beside * SIDE == BLOCK && p->rows >= least_rows(l, p) &&
           parts_for(l->pass->options->accuracy) > 0;
}

static int64_t units_of(const BlockProduct *p)
{
    return p->packed.blocks * p->packed.units;
}

// Whole blocks, of equal turns.
static int64_t units_of_turn(const BlockProduct *p, uint8_t parts)
{
    const int64_t all = units_of(p);
    for (int64_t n = p->packed.units; n < all; n += p->packed.units)
        if (n >= turn_units[parts] && all % n == 0)
            return n;
    return all;
}

// As many records as share a pass over x, but two panels for each thread.
static int64_t records_of_panel(const Lower *l, const BlockProduct *p)
{
    const int64_t all = ceil_div(p->columns, BLOCK), share = all / (2 * (int64_t)l->caps->threads);
    return share >= PANEL_RECORDS ? PANEL_RECORDS : share >= 1 ? share : 1;
}

// --- rows of x -----------------------------------------------------------------------------------

// Index of an element of the first part: tiles of a turn follow each other, with all parts of a unit. Tiles
// of experts begin at any row, so that rows of a part of a unit follow each other.
static KRef row_place(const BlockGrid *g, KRef tile, KRef unit)
{
    Kernel *k = g->l->k;
    if (g->p->index)
        return k_expr(k, "($ * # + ($ * # + $)) * #", unit, g->parts * g->row_tiles * SIDE, tile, SIDE,
                      g->begin, BLOCK_UNIT);
    const KRef turn = k_expr(k, "$ / #", unit, g->units), rest = k_expr(k, "$ % #", unit, g->units);
    const KRef of_tile = k_expr(k, "$ * # + $", turn, g->row_tiles, tile);
    return k_expr(k, "($ * # + $) * #", of_tile, g->units, rest, g->parts * TILE_ELEMENTS);
}

// Of the sum of a unit of x, see BlockGrid.row_sums.
static KRef row_sum_place(const BlockGrid *g, KRef unit, KRef row)
{
    return k_expr(g->l->k, "$ * # + $", unit, g->row_tiles * SIDE, row);
}

static void store_parts(const BlockGrid *g, KRef to, KRef value)
{
    Kernel *k = g->l->k;
    const KRef step = k_index(k, g->part_step);
    if (g->parts == 2) {
        k_matrix_split(k, g->rows, to, step, value);
        return;
    }
    const KRef first = k_cast(k, value, DTYPE_bf16);
    k_store(k, g->rows, to, first, SIDE);
    if (g->parts == 3)
        k_matrix_split(k, g->rows, k_add(k, to, step), step, k_sub(k, value, k_cast(k, first, DTYPE_f32)));
}

// Row `from` of x, to number `row`.
static void split_row(const BlockGrid *g, KRef from_row, KRef row, bool is_real)
{
    Kernel *k = g->l->k;
    const KRef tile = k_expr(k, "$ / #", row, SIDE), line = k_expr(k, "$ % # * #", row, SIDE, BLOCK_UNIT);
    const KRef unit = k_loop(k, units_of(g->p), KFOR_SERIAL, "u");
    const KRef to = k_add(k, row_place(g, tile, unit), line);
    const KRef from = k_expr(k, "$ * # + $ * # + $", from_row, g->p->inner, unit, BLOCK_UNIT, g->p->x_base);
    KRef sum = 0;
    for (int64_t i = 0; i < BLOCK_UNIT; i += SIDE) {
        const KRef value = is_real ? k_load(k, g->p->x_rows, k_expr(k, "$ + #", from, i), SIDE, SIDE)
                                   : k_splat(k, k_number(k, DTYPE_f32, 0), SIDE);
        store_parts(g, k_expr(k, "$ + #", to, i), value);
        sum = i == 0 ? value : k_add(k, sum, value);
    }
    if (block_panel_has_sums(g))
        k_store(k, g->row_sums, row_sum_place(g, unit, row), k_hreduce(k, KOP_add, sum), 1);
    k_end(k);
}

// Rows behind the last one are zeros, up to the end of a tile.
static void split_rows(const BlockGrid *g)
{
    Kernel *k = g->l->k;
    const KRef end = k_expr(k, "($ + #) / # * #", g->live, SIDE - 1, SIDE, SIDE);
    const KRef row = k_for(k, k_index(k, 0), end, 1, KFOR_PARALLEL, "r");
    k_if(k, k_lt(k, row, g->live));
    split_row(g, row, row, true);
    k_else(k);
    split_row(g, row, row, false);
    k_ends(k, 2);
    k_barrier(k);
}

// --- products ------------------------------------------------------------------------------------

enum { KEPT = 255, MOST_PHASES = 6 };
typedef struct Phase {
    uint8_t rows, weights; // part that is loaded, or KEPT: what is there already
} Phase;
typedef struct Phases {
    uint8_t n;
    Phase of[MOST_PHASES];
} Phases;
// By whole numbers, which have one part; else by as many parts as x has.
static const Phases whole_phases = {3, {{2, 0}, {1, KEPT}, {0, KEPT}}};
static const Phases phases_of_parts[MOST_PARTS + 1] = {
    [1] = {1, {{0, 0}}},
    [2] = {3, {{0, 1}, {KEPT, 0}, {1, KEPT}}},
    [3] = {6, {{0, 2}, {KEPT, 1}, {1, KEPT}, {KEPT, 0}, {2, KEPT}, {0, KEPT}}}};

// Products of n tiles of x by two of weights, which are loaded right before their first use.
static void emit_phase(const BlockGrid *g, Phase phase, uint8_t n, KRef x, KRef w)
{
    Kernel *k = g->l->k;
    for (uint8_t i = 0; i < n; i++) {
        if (phase.rows != KEPT)
            k_matrix_load(k, ROWS + i, g->rows,
                          k_expr(k, "$ + #", x, i * g->next_tile + phase.rows * g->part_step),
                          k_index(k, BLOCK_UNIT));
        for (uint8_t j = 0; j < 2; j++) {
            if (i == 0 && phase.weights != KEPT)
                k_matrix_load(k, WEIGHTS + j, g->panel,
                              k_expr(k, "$ + #", w, (2 * phase.weights + j) * TILE_WORDS), k_index(k, SIDE));
            k_matrix_mac(k, DTYPE_f32, (uint8_t)(SUMS + 2 * i + j), ROWS + i, WEIGHTS + j);
        }
    }
}

static void zero_sums(const BlockGrid *g, uint8_t n)
{
    for (uint8_t r = 0; r < 2 * n; r++)
        k_matrix_zero(g->l->k, SUMS + r);
}

static void store_sums(const BlockGrid *g, uint8_t n, KRef sums)
{
    Kernel *k = g->l->k;
    for (uint8_t r = 0; r < 2 * n; r++)
        k_matrix_store(k, SUMS + r, sums, k_index(k, r / 2 * SIDE * BLOCK + r % 2 * SIDE), k_index(k, BLOCK));
}

// Sums of tiles: where those of a turn go, and those of a unit where they are scaled.
typedef struct TileSums {
    KRef all, unit;
} TileSums;

static void clear_sums(const BlockGrid *g, KRef lines, KRef sums)
{
    Kernel *k = g->l->k;
    const KRef line = k_for(k, k_index(k, 0), lines, 1, KFOR_SERIAL, "i");
    for (int64_t v = 0; v < 2; v++)
        k_astore(k, sums, k_expr(k, "$ * # + #", line, BLOCK, v * SIDE), block_panel_number(k, 0));
    k_end(k);
}

// Adds scaled sums of unit `unit` of x, number `own` of the turn, to those of the lines from row `row` on.
static void add_scaled(const BlockGrid *g, KRef unit, KRef own, KRef row, KRef lines, KRef i,
                       const TileSums *sums)
{
    Kernel *k = g->l->k;
    const KRef scales = block_panel_scales(g, i, own);
    KRef scale[2], add[2] = {0};
    for (int64_t v = 0; v < 2; v++) {
        scale[v] = k_load(k, g->scales, k_expr(k, "$ + #", scales, v * SIDE), SIDE, SIDE);
        if (block_panel_has_sums(g))
            add[v] = k_load(k, g->scales, k_expr(k, "$ + #", scales, BLOCK + v * SIDE), SIDE, SIDE);
    }
    const KRef line = k_for(k, k_index(k, 0), lines, 1, KFOR_SERIAL, "i");
    KRef of_row = 0;
    if (block_panel_has_sums(g))
        of_row = k_splat(k, k_load(k, g->row_sums, row_sum_place(g, unit, k_add(k, row, line)), 1, 1), SIDE);
    for (int64_t v = 0; v < 2; v++) {
        const KRef at = k_expr(k, "$ * # + #", line, BLOCK, v * SIDE);
        const KRef so_far = k_aload(k, sums->all, at, SIDE);
        const KRef sum = k_fma(k, k_aload(k, sums->unit, at, SIDE), scale[v], so_far);
        k_astore(k, sums->all, at, add[v] ? k_fma(k, of_row, add[v], sum) : sum);
    }
    k_end(k);
}

// The sums of a turn for n tiles of rows, two at most, from number `first` on, of whose lines so many exist,
// and the columns of record number `i` of the panel.
static void multiply_tiles(const BlockGrid *g, KRef turn, KRef first, uint8_t n, KRef lines, KRef i,
                           const TileSums *sums)
{
    Kernel *k = g->l->k;
    const Phases *phases = g->is_whole ? &whole_phases : &phases_of_parts[g->parts];
    if (g->is_whole)
        clear_sums(g, lines, sums->all);
    else
        zero_sums(g, n);
    const KRef unit = k_loop(k, g->units, KFOR_SERIAL, "u");
    const KRef of_x = k_expr(k, "$ * # + $", turn, g->units, unit), x = row_place(g, first, of_x);
    const KRef w = k_expr(k, "($ * # + $) * # + $", i, g->units, unit, block_panel_words(g), g->panel_base);
    if (g->is_whole)
        zero_sums(g, n);
    for (uint8_t phase = 0; phase < phases->n; phase++)
        emit_phase(g, phases->of[phase], n, x, w);
    if (g->is_whole) {
        store_sums(g, n, sums->unit);
        KRef row = k_expr(k, "$ * #", first, SIDE);
        if (g->p->index)
            row = k_add(k, row, g->begin);
        add_scaled(g, of_x, unit, row, lines, i, sums);
    }
    k_end(k);
    if (!g->is_whole)
        store_sums(g, n, sums->all);
}

// Vector v of line `line` of a tile: what earlier turns have given, and this one's sums.
static KRef sum_so_far(const BlockGrid *g, KRef turn, KRef sums, KRef line, KRef held, int64_t v)
{
    Kernel *k = g->l->k;
    const KRef sum = k_aload(k, sums, k_expr(k, "$ * # + #", line, BLOCK, v * SIDE), SIDE);
    if (g->turns == 1)
        return sum;
    const KRef all = k_var(k, sum, "sum");
    k_if(k, k_lt(k, k_index(k, 0), turn));
    k_set(k, all, k_add(k, sum, k_load(k, g->partial, k_expr(k, "$ + #", held, v * SIDE), SIDE, SIDE)));
    k_end(k);
    return k_get(k, all);
}

static void store_line(const BlockGrid *g, KRef row, KRef column, int64_t real, const KRef *sum)
{
    Kernel *k = g->l->k;
    for (int64_t v = 0; v * SIDE < real; v++) {
        const int64_t left = real - v * SIDE;
        block_product_store(g->l, g->p, row, k_expr(k, "$ + #", column, v * SIDE),
                            (uint8_t)(left < SIDE ? left : SIDE), sum[v]);
    }
}

// Rows [32 tile, 32 tile + 32), as far as they exist, by record number `i` of a panel, which has `real`
// columns from `column` on.
static void emit_tile(const BlockGrid *g, KRef turn, KRef tile, KRef i, KRef column, int64_t real,
                      const TileSums *sums)
{
    Kernel *k = g->l->k;
    KRef sum[2];
    const KRef first = k_expr(k, "$ * 2", tile), left = k_expr(k, "$ - $ * #", g->live, tile, BLOCK);
    const KRef lines = k_expr(k, "min($, #)", left, BLOCK);
    k_if(k, k_lt(k, k_index(k, SIDE), left));
    multiply_tiles(g, turn, first, 2, lines, i, sums);
    k_else(k);
    multiply_tiles(g, turn, first, 1, lines, i, sums);
    k_end(k);
    const KRef line = k_for(k, k_index(k, 0), lines, 1, KFOR_SERIAL, "i");
    const KRef place = k_expr(k, "($ * # + $) * #", tile, g->records, i, TILE_SUMS);
    const KRef held = g->turns == 1 ? 0 : k_expr(k, "$ + $ * # + $", place, line, BLOCK, g->partial_base);
    for (int64_t v = 0; v < 2; v++)
        sum[v] = sum_so_far(g, turn, sums->all, line, held, v);
    KRef row = k_expr(k, "$ * # + $", tile, BLOCK, line);
    if (g->p->index)
        row = experts_entry(g->l, g->p->of.order, k_add(k, g->begin, row));
    if (g->turns == 1) {
        store_line(g, row, column, real, sum);
    } else {
        k_if(k, k_expr(k, "$ + 1 < #", turn, g->turns));
        for (int64_t v = 0; v < 2; v++)
            k_store(k, g->partial, k_expr(k, "$ + #", held, v * SIDE), sum[v], SIDE);
        k_else(k);
        store_line(g, row, column, real, sum);
        k_end(k);
    }
    k_end(k);
}

// All rows by a panel of n records, each of `real` columns, from number `first` on.
static void multiply_panel(const BlockGrid *g, KRef first, KRef n, int64_t real, const TileSums *sums)
{
    Kernel *k = g->l->k;
    const int64_t records = g->p->columns / BLOCK;
    const bool is_far = g->p->index && !g->p->of.is_placed; // experts follow each other
    const KRef turn = k_loop(k, g->turns, KFOR_SERIAL, "turn");
    const KRef decoded = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "i"), record = k_add(k, first, decoded);
    const KRef stored = is_far ? k_expr(k, "$ * # + $", g->expert, records, record) : record;
    block_panel_decode(g, stored, decoded, turn);
    k_end(k);
    const KRef tiles = k_expr(k, "($ + #) / #", g->live, BLOCK - 1, BLOCK);
    const KRef tile = k_for(k, k_index(k, 0), tiles, 1, KFOR_SERIAL, "t");
    const KRef i = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "i");
    emit_tile(g, turn, tile, i, k_expr(k, "($ + $) * #", first, i, BLOCK), real, sums);
    k_ends(k, 3);
}

static void emit_panel(const BlockGrid *g, KRef first, KRef n, int64_t real)
{
    Kernel *k = g->l->k;
    BlockGrid own = *g;
    k_matrix_begin(k, SIDE, SIDE);
    const TileSums sums = {k_array(k, DTYPE_f32, TILE_SUMS),
                           g->is_whole ? k_array(k, DTYPE_f32, TILE_SUMS) : 0};
    if (g->p->index) { // of each that has rows
        const Experts *x = &g->p->of;
        const KRef groups = experts_entry(g->l, x->groups, k_index(k, x->n_experts));
        own.expert = experts_entry(g->l, x->groups, k_for(k, k_index(k, 0), groups, 1, KFOR_SERIAL, "g"));
        own.begin = experts_entry(g->l, x->bounds, own.expert);
        own.live = k_sub(k, experts_entry(g->l, x->bounds, k_expr(k, "$ + 1", own.expert)), own.begin);
        if (x->is_placed)
            blocks_packed_point(k, &g->p->packed, own.expert);
    }
    multiply_panel(&own, first, n, real, &sums);
    if (g->p->index)
        k_end(k);
    k_matrix_end(k);
}

// --- the whole -----------------------------------------------------------------------------------

static void emit_panels(const BlockGrid *g)
{
    Kernel *k = g->l->k;
    const int64_t whole = g->p->columns / BLOCK;
    if (whole > 0) {
        const KRef panel = k_loop(k, ceil_div(whole, g->records), KFOR_PARALLEL, "p");
        const KRef first = k_expr(k, "$ * #", panel, g->records);
        emit_panel(g, first, k_expr(k, "min(#, # - $)", g->records, whole, first), BLOCK);
        k_end(k);
    }
    if (g->p->columns % BLOCK)
        emit_panel(g, k_index(k, whole), k_index(k, 1), g->p->columns % BLOCK);
}

static BlockGrid grid_of(Lower *l, const BlockProduct *p, int64_t rows)
{
    BlockGrid g = {.l = l,
              .p = p,
              .parts = parts_for(l->pass->options->accuracy),
              .is_whole = is_whole(l, p),
              .records = records_of_panel(l, p),
              .row_tiles = ceil_div(rows, BLOCK) * 2};
    g.units = units_of_turn(p, g.parts);
    g.turns = units_of(p) / g.units;
    g.weight_parts = g.is_whole ? 1 : g.parts;
    g.next_tile = g.units * g.parts * TILE_ELEMENTS;
    g.part_step = TILE_ELEMENTS;
    if (p->index) { // a tile that begins at the last row reads so far
        g.row_tiles += 2;
        g.next_tile = TILE_ELEMENTS;
        g.part_step = g.row_tiles * TILE_ELEMENTS;
    }
    g.rows = lower_param_scratch(l, "rows of parts", DTYPE_bf16,
                                 (uint64_t)(g.row_tiles * units_of(p) * g.parts * TILE_ELEMENTS));
    const int64_t units = g.records * g.units; // of a panel
    g.panel = lower_param_thread_scratch(l, "panel", DTYPE_i32, (uint64_t)(units * block_panel_words(&g)),
                                         &g.panel_base);
    if (g.is_whole)
        g.scales = lower_param_thread_scratch(l, "scales", DTYPE_f32, (uint64_t)(units * UNIT_SCALES),
                                              &g.scales_base);
    if (block_panel_has_sums(&g))
        g.row_sums = lower_param_scratch(l, "sums of rows", DTYPE_f32,
                                         (uint64_t)(g.row_tiles * SIDE * units_of(p)));
    if (g.turns > 1)
        g.partial = lower_param_thread_scratch(l, "sums", DTYPE_f32,
                                               (uint64_t)(g.row_tiles / 2 * g.records * TILE_SUMS),
                                               &g.partial_base);
    return g;
}

void block_matrix_emit(Lower *l, const BlockProduct *p)
{
    rlx_assert(block_matrix_fit(l, p) && !p->index);
    const KRef live = block_product_live(l, p);
    BlockGrid g = grid_of(l, p, p->rows);
    g.live = live ? live : k_index(l->k, p->rows);
    split_rows(&g);
    emit_panels(&g);
}

// --- experts -------------------------------------------------------------------------------------

static int64_t rows_of_result(const Lower *l, const BlockProduct *p)
{
    return p->columns > 0 ? shape_numel(lower_node(l, l->anchor)->shape) / p->columns : 0;
}

// Rows of the experts that have some, by place.
static void split_sorted(const BlockGrid *g, int64_t rows)
{
    Kernel *k = g->l->k;
    const Experts *x = &g->p->of;
    const KRef end = experts_entry(g->l, x->bounds, k_index(k, x->n_experts));
    const KRef place = k_for(k, k_index(k, 0), end, 1, KFOR_PARALLEL, "r");
    const KRef row = experts_entry(g->l, x->order, place);
    split_row(g, k_expr(k, "$ / #", row, rows / g->p->rows), place, true);
    k_end(k);
    k_barrier(k);
}

// Rows that have no expert.
static void clear_rows(const BlockGrid *g)
{
    Kernel *k = g->l->k;
    const Experts *x = &g->p->of;
    const KRef from = experts_entry(g->l, x->bounds, k_index(k, x->n_experts)),
               end = experts_entry(g->l, x->bounds, k_index(k, x->n_experts + 1));
    const KRef row = experts_entry(g->l, x->order, k_for(k, from, end, 1, KFOR_PARALLEL, "r"));
    const KRef column = k_for(k, k_index(k, 0), k_index(k, g->p->columns), SIDE, KFOR_SERIAL, "c");
    block_product_store(g->l, g->p, row, column, SIDE, block_panel_number(k, 0));
    k_ends(k, 2);
}

bool block_matrix_experts(Lower *l, const BlockProduct *p)
{
    const int64_t rows = rows_of_result(l, p);
    BlockProduct own = *p;
    if (!block_matrix_fit(l, p) || p->columns % BLOCK != 0 || rows < 2 * p->experts)
        return false;
    experts_sort(l, &own.of);
    BlockGrid g = grid_of(l, &own, rows);
    g.begin = k_index(l->k, 0);
    split_sorted(&g, rows);
    clear_rows(&g);
    emit_panels(&g);
    return true;
}
