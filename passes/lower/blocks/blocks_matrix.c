// SPDX-License-Identifier: Apache-2.0
// Many rows by blocks on matrix registers (KMatrix). Rows of x become tiles of bf16 once, in scratch memory
// that all threads share. A thread takes a panel of columns, some steps of k at a time: weights are decoded
// to f32 and rounded to tiles of bf16, which all rows meet. Where --accuracy allows it, one bf16 stands for
// an element. Else it is the sum of two or three: the rounded element, and what is left of it, rounded. Of
// the products of parts those are added up that count, three or six: not those of two rests, or of a rest
// and a rest of the rest, which are less than what is rounded. Three hold all bits of an f32. Accumulation: as the registers do it within the steps of
// a turn, and turns are added in f32, in rising k. A row that is not finite gives nothing finite.
#include "passes/lower/blocks/blocks_product.h"

enum {
    SIDE = 16,                    // rows and columns of a register
    SUMS = 0, ROWS = 4, WEIGHTS = 6, // registers: four of sums, two of x, two of weights
    BLOCK = 2 * SIDE,             // rows of a tile, and columns of a record
    TILE_ELEMENTS = SIDE * BLOCK_UNIT,
    TILE_WORDS = TILE_ELEMENTS / 2,
    TILE_SUMS = BLOCK * BLOCK,
    PANEL_RECORDS = 8, // of a thread at a time, at most
    LEAST_ROWS = SIDE,
    MOST_PARTS = 3
};
// What --accuracy must allow for so many parts. Products of random numbers are off by 2.4e-3, 4.6e-6 and
// 4e-7 of their norm (f32: 1e-6), and logits of whole models by up to 4e-5 with two.
static const double error_of_parts[MOST_PARTS + 1] = {0, 4e-3, 2e-5, 1e-6};
// Units of a turn, at least: x and the sums stay in the first cache.
static const int64_t turn_units[MOST_PARTS + 1] = {0, 8, 8, 4};

typedef struct Grid {
    Lower *l;
    const BlockProduct *p;
    uint8_t parts, weight_parts; // of elements of x, and of weights
    bool is_whole;               // weights are whole numbers, whose sums of a unit are scaled
    int64_t records;      // of a panel, at most
    int64_t units, turns; // of a turn; of k
    int64_t row_tiles;            // 16 rows each
    int64_t next_tile, part_step; // elements of x from one to the next
    uint32_t rows, panel, partial; // params: x, weights as words, sums of turns
    uint32_t row_sums, scales;     // params: sums of x by unit and row; scales of weights, and what is added
    KRef panel_base, partial_base, scales_base;
    KRef live; // rows that exist in a run
    KRef begin, expert; // experts: the place of the first row, and whose it is
} Grid;

static uint8_t parts_for(double accuracy)
{
    for (uint8_t n = 1; n <= MOST_PARTS; n++)
        if (error_of_parts[n] <= accuracy)
            return n;
    return 0;
}

bool block_matrix_fit(const Lower *l, const BlockProduct *p)
{
    return l->caps->has_matrix && l->caps->f32_lanes == SIDE && p->packed.lanes == SIDE &&
           p->packed.beside * SIDE == BLOCK && p->rows >= LEAST_ROWS &&
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
static KRef row_place(const Grid *g, KRef tile, KRef unit)
{
    Kernel *k = g->l->k;
    if (g->p->index)
        return k_expr(k, "($ * # + ($ * # + $)) * #", unit, g->parts * g->row_tiles * SIDE, tile, SIDE,
                      g->begin, BLOCK_UNIT);
    const KRef turn = k_expr(k, "$ / #", unit, g->units), rest = k_expr(k, "$ % #", unit, g->units);
    const KRef of_tile = k_expr(k, "$ * # + $", turn, g->row_tiles, tile);
    return k_expr(k, "($ * # + $) * #", of_tile, g->units, rest, g->parts * TILE_ELEMENTS);
}

// Of the sum of a unit of x, see Grid.row_sums.
static KRef row_sum_place(const Grid *g, KRef unit, KRef row)
{
    return k_expr(g->l->k, "$ * # + $", unit, g->row_tiles * SIDE, row);
}

static bool has_row_sums(const Grid *g)
{
    return g->is_whole && g->p->f->min.sign != 0;
}

static void store_parts(const Grid *g, KRef to, KRef value)
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
static void split_row(const Grid *g, KRef from_row, KRef row, bool is_real)
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
    if (has_row_sums(g))
        k_store(k, g->row_sums, row_sum_place(g, unit, row), k_hreduce(k, KOP_add, sum), 1);
    k_end(k);
}

// Rows behind the last one are zeros, up to the end of a tile.
static void split_rows(const Grid *g)
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

// --- weights -------------------------------------------------------------------------------------

// Words of a unit of a record: [part][vector][pair][column].
static int64_t unit_words(const Grid *g)
{
    return g->weight_parts * 2 * TILE_WORDS;
}

// Of a unit of a record: [scale, what is added][vector][column].
enum { UNIT_SCALES = 2 * BLOCK };

static KRef scales_place(const Grid *g, KRef i, KRef unit)
{
    return k_expr(g->l->k, "($ * # + $) * # + $", i, g->units, unit, UNIT_SCALES, g->scales_base);
}

// Decodes the elements of a group in three instructions each: bits become a part of the mantissa of a number
// in [1, 2), which a multiply-add brings to its place, up to 2^-16 of the scale.
typedef struct Decoding {
    KRef words[BLOCK_MAX_WORDS], scale, add;
} Decoding;

enum { MANTISSA = 23, HALF = 1 << 15, ONE_BITS = 127 << MANTISSA };

static KRef whole(Kernel *k, int64_t v)
{
    return k_splat(k, k_integer(k, DTYPE_i32, v), SIDE);
}

static KRef number(Kernel *k, double v)
{
    return k_splat(k, k_number(k, DTYPE_f32, v), SIDE);
}

// A NaN whose bits do not overflow when they are rounded.
static KRef plain_nan(Kernel *k, KRef value)
{
    const KRef nan = k_bitcast(k, whole(k, 0x7fc00000), DTYPE_f32);
    return k_select(k, k_op(k, KOP_ne, value, value, 0), nan, value);
}

static void open_group(const Grid *g, const PackedGroup *group, Decoding *d)
{
    Kernel *k = g->l->k;
    const PackedBlocks *b = &g->p->packed;
    // Cut off instead of rounded, numbers are too small by half of what the last bit counts, about so much.
    const double more = g->parts == 1 ? 1 + 0.7 / 256 : 1;
    if (g->is_whole) {
        const int one = 1 << (b->low + b->high);
        d->scale = number(k, one);
        d->add = number(k, (b->f->min.sign ? 0 : b->bias) - one);
        return;
    }
    d->scale = k_mul(k, group->scale, number(k, more * (1 << (b->low + b->high))));
    const KRef zero = k_neg(k, d->scale);
    d->add = group->add ? k_fma(k, group->add, number(k, more), zero) : zero;
    if (g->parts > 1) {
        d->scale = plain_nan(k, d->scale);
        d->add = plain_nan(k, d->add);
    }
}

static KRef decoded(const Grid *g, const Decoding *d, int64_t e)
{
    Kernel *k = g->l->k;
    const PackedBlocks *b = &g->p->packed;
    const KRef bits = blocks_packed_bits(k, b, d->words, e, MANTISSA - (b->low + b->high));
    return k_fma(k, k_bitcast(k, k_or(k, bits, whole(k, ONE_BITS)), DTYPE_f32), d->scale, d->add);
}

// Numbers whose upper halves are those of the rounded ones; ties go away from zero.
static KRef rounded(Kernel *k, KRef value)
{
    return k_bitcast(k, k_add(k, k_bitcast(k, value, DTYPE_i32), whole(k, HALF)), DTYPE_f32);
}

static KRef cut(Kernel *k, KRef value)
{
    return k_bitcast(k, k_and(k, k_bitcast(k, value, DTYPE_i32), whole(k, -2 * HALF)), DTYPE_f32);
}

static void store_words(const Grid *g, KRef to, int64_t part, KRef low, KRef high)
{
    Kernel *k = g->l->k;
    k_store(k, g->panel, k_expr(k, "$ + #", to, part * 2 * TILE_WORDS),
            k_bitcast(k, k_pair_bf16(k, low, high), DTYPE_i32), SIDE);
}

// Two elements of the columns of a vector. What is left of them at last is cut off: with one part, see
// open_group; with two it is rounded first; three leave nothing.
static void store_pair(const Grid *g, KRef to, KRef low, KRef high)
{
    Kernel *k = g->l->k;
    for (uint8_t part = 0; part + 1 < g->weight_parts; part++) {
        const KRef a = cut(k, rounded(k, low)), b = cut(k, rounded(k, high));
        store_words(g, to, part, a, b);
        low = k_sub(k, low, a);
        high = k_sub(k, high, b);
    }
    const bool is_rounded = g->weight_parts == 2;
    store_words(g, to, g->weight_parts - 1, is_rounded ? rounded(k, low) : low,
                is_rounded ? rounded(k, high) : high);
}

// scales: where those of whole numbers go, see scales_place.
static void decode_unit(const Grid *g, const PackedNumbers *numbers, const PackedUnit *u, KRef to,
                        KRef scales)
{
    Kernel *k = g->l->k;
    const PackedBlocks *b = &g->p->packed;
    Decoding d = {0};
    PackedGroup group = {0};
    KRef low = 0;
    blocks_packed_words(k, b, u, d.words);
    for (int64_t e = 0; e < BLOCK_UNIT; e++) {
        if (e == group.end) {
            group = blocks_packed_group(k, b, numbers, u, e);
            open_group(g, &group, &d);
            if (g->is_whole)
                k_store(k, g->scales, scales, group.scale, SIDE);
            if (has_row_sums(g))
                k_store(k, g->scales, k_expr(k, "$ + #", scales, BLOCK), group.add, SIDE);
        }
        const KRef value = decoded(g, &d, e);
        if (e % 2 == 0)
            low = value;
        else
            store_pair(g, k_expr(k, "$ + #", to, e / 2 * SIDE), low, value);
    }
}

// Fetches a share of what the next turn reads of a record, or the first turn of the next panel.
static void fetch_ahead(const Grid *g, KRef turn, KRef block, KRef unit)
{
    Kernel *k = g->l->k;
    const PackedBlocks *b = &g->p->packed;
    const int64_t word = 4, share = b->record / b->units, here = g->units / b->units;
    if (g->l->caps->cpu.ahead_bytes == 0 || g->l->constant_bytes <= g->l->caps->cpu.l2_bytes)
        return;
    const KRef is_last = g->turns > 1 ? k_expr(k, "$ / #", turn, g->turns - 1) : k_index(k, 1);
    const KRef next = k_expr(k, "$ + ($ * # + #)", block, is_last, (g->records - 1) * b->blocks, here);
    const KRef first = k_expr(k, "$ * # + $ * #", next, b->record / word, unit, share / word);
    for (int64_t i = 0; i < share; i += CACHE_LINE)
        k_prefetch(k, b->param[BLOCK_WORDS], k_expr(k, "$ + #", first, i / word));
}

// The units of a turn of record `record`, number `i` of the panel.
static void decode_record(const Grid *g, KRef record, KRef i, KRef turn)
{
    Kernel *k = g->l->k;
    const PackedBlocks *b = &g->p->packed;
    const KRef v = k_loop(k, b->beside, KFOR_SERIAL, "v");
    const int64_t blocks = g->units / b->units;
    const KRef done = k_loop(k, blocks, KFOR_SERIAL, "b"), block = k_expr(k, "$ * # + $", turn, blocks, done);
    const PackedPlace at = blocks_packed_place(k, b, k_expr(k, "$ * # + $", record, b->beside, v), block);
    const PackedNumbers numbers = blocks_packed_numbers(k, b, &at);
    for (int64_t t = 0; t < blocks_packed_turns(b); t++) {
        const KRef unit = blocks_packed_open(k, b, t);
        const PackedUnit u = {.at = at, .unit = unit, .turn = t};
        fetch_ahead(g, turn, at.record, unit);
        const KRef own = k_expr(k, "$ * # + $", done, b->units, unit);
        const KRef of_turn = k_expr(k, "$ * # + $", i, g->units, own);
        decode_unit(g, &numbers, &u,
                    k_expr(k, "$ * # + ($ * # + $)", of_turn, unit_words(g), v, TILE_WORDS, g->panel_base),
                    g->is_whole ? k_expr(k, "$ + $ * #", scales_place(g, i, own), v, SIDE) : 0);
        blocks_packed_close(k, b);
    }
    k_ends(k, 2);
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
static void emit_phase(const Grid *g, Phase phase, uint8_t n, KRef x, KRef w)
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

static void zero_sums(const Grid *g, uint8_t n)
{
    for (uint8_t r = 0; r < 2 * n; r++)
        k_matrix_zero(g->l->k, SUMS + r);
}

static void store_sums(const Grid *g, uint8_t n, KRef sums)
{
    Kernel *k = g->l->k;
    for (uint8_t r = 0; r < 2 * n; r++)
        k_matrix_store(k, SUMS + r, sums, k_index(k, r / 2 * SIDE * BLOCK + r % 2 * SIDE), k_index(k, BLOCK));
}

// Sums of tiles: where those of a turn go, and those of a unit where they are scaled.
typedef struct TileSums {
    KRef all, unit;
} TileSums;

static void clear_sums(const Grid *g, uint8_t n, KRef sums)
{
    Kernel *k = g->l->k;
    const KRef at = k_for(k, k_index(k, 0), k_index(k, n * SIDE * BLOCK), SIDE, KFOR_SERIAL, "i");
    k_astore(k, sums, at, number(k, 0));
    k_end(k);
}

// Adds scaled sums of unit `unit` of x, number `own` of the turn, for n tiles of rows from row `row` on.
static void add_scaled(const Grid *g, KRef unit, KRef own, KRef row, uint8_t n, KRef i, const TileSums *sums)
{
    Kernel *k = g->l->k;
    const KRef scales = scales_place(g, i, own);
    KRef scale[2], add[2] = {0};
    for (int64_t v = 0; v < 2; v++) {
        scale[v] = k_load(k, g->scales, k_expr(k, "$ + #", scales, v * SIDE), SIDE, SIDE);
        if (has_row_sums(g))
            add[v] = k_load(k, g->scales, k_expr(k, "$ + #", scales, BLOCK + v * SIDE), SIDE, SIDE);
    }
    const KRef line = k_loop(k, n * SIDE, KFOR_SERIAL, "i");
    KRef of_row = 0;
    if (has_row_sums(g))
        of_row = k_splat(k, k_load(k, g->row_sums, row_sum_place(g, unit, k_add(k, row, line)), 1, 1), SIDE);
    for (int64_t v = 0; v < 2; v++) {
        const KRef at = k_expr(k, "$ * # + #", line, BLOCK, v * SIDE);
        const KRef sum = k_fma(k, k_aload(k, sums->unit, at, SIDE), scale[v], k_aload(k, sums->all, at, SIDE));
        k_astore(k, sums->all, at, add[v] ? k_fma(k, of_row, add[v], sum) : sum);
    }
    k_end(k);
}

// The sums of a turn for n tiles of rows, two at most, from number `first` on, and the columns of record
// number `i` of the panel.
static void multiply_tiles(const Grid *g, KRef turn, KRef first, uint8_t n, KRef i, const TileSums *sums)
{
    Kernel *k = g->l->k;
    const Phases *phases = g->is_whole ? &whole_phases : &phases_of_parts[g->parts];
    if (g->is_whole)
        clear_sums(g, n, sums->all);
    else
        zero_sums(g, n);
    const KRef unit = k_loop(k, g->units, KFOR_SERIAL, "u");
    const KRef of_x = k_expr(k, "$ * # + $", turn, g->units, unit), x = row_place(g, first, of_x);
    const KRef w = k_expr(k, "($ * # + $) * # + $", i, g->units, unit, unit_words(g), g->panel_base);
    if (g->is_whole)
        zero_sums(g, n);
    for (uint8_t phase = 0; phase < phases->n; phase++)
        emit_phase(g, phases->of[phase], n, x, w);
    if (g->is_whole) {
        store_sums(g, n, sums->unit);
        KRef row = k_expr(k, "$ * #", first, SIDE);
        if (g->p->index)
            row = k_add(k, row, g->begin);
        add_scaled(g, of_x, unit, row, n, i, sums);
    }
    k_end(k);
    if (!g->is_whole)
        store_sums(g, n, sums->all);
}

// Vector v of line `line` of a tile: what earlier turns have given, and this one's sums.
static KRef sum_so_far(const Grid *g, KRef turn, KRef sums, KRef line, KRef held, int64_t v)
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

static void store_line(const Grid *g, KRef row, KRef column, int64_t real, const KRef *sum)
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
static void emit_tile(const Grid *g, KRef turn, KRef tile, KRef i, KRef column, int64_t real,
                      const TileSums *sums)
{
    Kernel *k = g->l->k;
    KRef sum[2];
    const KRef first = k_expr(k, "$ * 2", tile), left = k_expr(k, "$ - $ * #", g->live, tile, BLOCK);
    k_if(k, k_lt(k, k_index(k, SIDE), left));
    multiply_tiles(g, turn, first, 2, i, sums);
    k_else(k);
    multiply_tiles(g, turn, first, 1, i, sums);
    k_end(k);
    const KRef line = k_for(k, k_index(k, 0), k_expr(k, "min($, #)", left, BLOCK), 1, KFOR_SERIAL, "i");
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
static void multiply_panel(const Grid *g, KRef first, KRef n, int64_t real, const TileSums *sums)
{
    Kernel *k = g->l->k;
    const int64_t records = g->p->columns / BLOCK;
    const bool is_far = g->p->index && !g->p->of.is_placed; // experts follow each other
    const KRef turn = k_loop(k, g->turns, KFOR_SERIAL, "turn");
    const KRef decoded = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "i"), record = k_add(k, first, decoded);
    decode_record(g, is_far ? k_expr(k, "$ * # + $", g->expert, records, record) : record, decoded, turn);
    k_end(k);
    const KRef tiles = k_expr(k, "($ + #) / #", g->live, BLOCK - 1, BLOCK);
    const KRef tile = k_for(k, k_index(k, 0), tiles, 1, KFOR_SERIAL, "t");
    const KRef i = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "i");
    emit_tile(g, turn, tile, i, k_expr(k, "($ + $) * #", first, i, BLOCK), real, sums);
    k_ends(k, 3);
}

static void emit_panel(const Grid *g, KRef first, KRef n, int64_t real)
{
    Kernel *k = g->l->k;
    Grid own = *g;
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

static void emit_panels(const Grid *g)
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

static Grid grid_of(Lower *l, const BlockProduct *p, int64_t rows)
{
    Grid g = {.l = l,
              .p = p,
              .parts = parts_for(l->pass->options->accuracy),
              .records = records_of_panel(l, p),
              .row_tiles = ceil_div(rows, BLOCK) * 2};
    g.units = units_of_turn(p, g.parts);
    g.turns = units_of(p) / g.units;
    g.is_whole = g.parts == MOST_PARTS && p->packed.step == BLOCK_UNIT;
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
    g.panel = lower_param_thread_scratch(l, "panel", DTYPE_i32,
                                         (uint64_t)(g.records * g.units * unit_words(&g)), &g.panel_base);
    if (g.is_whole)
        g.scales = lower_param_thread_scratch(l, "scales", DTYPE_f32,
                                              (uint64_t)(g.records * g.units * UNIT_SCALES), &g.scales_base);
    if (has_row_sums(&g))
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
    Grid g = grid_of(l, p, p->rows);
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
static void split_sorted(const Grid *g, int64_t rows)
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
static void clear_rows(const Grid *g)
{
    Kernel *k = g->l->k;
    const Experts *x = &g->p->of;
    const KRef from = experts_entry(g->l, x->bounds, k_index(k, x->n_experts)),
               end = experts_entry(g->l, x->bounds, k_index(k, x->n_experts + 1));
    const KRef row = experts_entry(g->l, x->order, k_for(k, from, end, 1, KFOR_PARALLEL, "r"));
    const KRef column = k_for(k, k_index(k, 0), k_index(k, g->p->columns), SIDE, KFOR_SERIAL, "c");
    block_product_store(g->l, g->p, row, column, SIDE, number(k, 0));
    k_ends(k, 2);
}

bool block_matrix_experts(Lower *l, const BlockProduct *p)
{
    const int64_t rows = rows_of_result(l, p);
    BlockProduct own = *p;
    if (!block_matrix_fit(l, p) || p->columns % BLOCK != 0 || rows < 2 * p->experts)
        return false;
    experts_sort(l, &own.of);
    Grid g = grid_of(l, &own, rows);
    g.begin = k_index(l->k, 0);
    split_sorted(&g, rows);
    clear_rows(&g);
    emit_panels(&g);
    return true;
}
