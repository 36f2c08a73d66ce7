// SPDX-License-Identifier: Apache-2.0
// Many rows by products of bytes (blocks_dot.c), where the CPU has dot products of them. The columns of a
// record are unpacked once, into a panel in scratch memory of the thread: a byte for each element, and f32
// scales. Tiles of rows in registers read it, quad by quad, so that a quad that is loaded meets all rows. Two
// digits of a row are joined as integers. Where bytes only have a bias, sums begin with that of the row
// (block_digits_round), and stay exact. Accumulation: as in blocks_dot.c.
#include "passes/lower/blocks/blocks_product.h"

enum {
    QUAD = 4,
    QUADS = BLOCK_UNIT / QUAD,
    MOST_ROWS = 6,
    MOST_SUMS = MOST_ROWS * BLOCK_VECTORS,
    MOST_DIGITS = 2,
    OTHERS = 4 // registers for weights and an element of a row
};

// The columns of a record, unpacked, by units of all blocks.
typedef struct Panel {
    const BlockProduct *p;
    int64_t n, groups;            // vectors; groups of a unit
    uint32_t bytes, scales, adds; // params: vectors, [unit][quad or group][vector]
    KRef bytes_base, scales_base, adds_base;
} Panel;

bool block_rows_fit(const Lower *l, const BlockProduct *p)
{
    return p->n_digits >= 1 && p->n_digits <= MOST_DIGITS && l->caps->has_dot8 && p->rows > BLOCK_MAX_ROWS;
}

static int64_t units_of(const BlockProduct *p)
{
    return p->packed.blocks * p->packed.units;
}

static uint32_t take(Lower *l, const char *name, DType t, int64_t vectors, const BlockProduct *p, KRef *base)
{
    return lower_param_thread_scratch(l, name, t, (uint64_t)(vectors * p->packed.lanes), base);
}

// --- the panel -----------------------------------------------------------------------------------

// Number `i` of `each` of vector v for a unit.
static KRef place(Lower *l, const Panel *s, KRef base, KRef unit, int64_t each, int64_t i, int64_t v)
{
    const int64_t lanes = s->p->packed.lanes;
    return k_expr(l->k, "$ * # + ($ + #)", unit, each * s->n * lanes, base, (i * s->n + v) * lanes);
}

static void unpack_unit(Lower *l, const Panel *s, const PackedNumbers *numbers, const PackedUnit *u,
                        KRef unit, int64_t v)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &s->p->packed;
    KRef words[BLOCK_MAX_WORDS];
    blocks_packed_words(k, b, u, words);
    for (int64_t t = 0; t < QUADS; t++)
        k_store(k, s->bytes, place(l, s, s->bytes_base, unit, QUADS, t, v),
                blocks_packed_quad(k, b, words, t), b->lanes);
    for (int64_t i = 0; i < BLOCK_UNIT; i += b->step) {
        const PackedGroup g = blocks_packed_group(k, b, numbers, u, i);
        const int64_t group = i / b->step;
        k_store(k, s->scales, place(l, s, s->scales_base, unit, s->groups, group, v), g.scale, b->lanes);
        if (s->adds != 0)
            k_store(k, s->adds, place(l, s, s->adds_base, unit, s->groups, group, v), g.add, b->lanes);
    }
}

static void unpack(Lower *l, const Panel *s, KRef record)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &s->p->packed;
    const KRef block = k_loop(k, b->blocks, KFOR_SERIAL, "b");
    const KRef at = k_expr(k, "$ * # + $", record, b->blocks, block);
    PackedNumbers numbers[BLOCK_VECTORS];
    for (int64_t v = 0; v < s->n; v++)
        numbers[v] = blocks_packed_numbers(k, b, &(PackedPlace){.record = at, .vector = k_index(k, v)});
    for (int64_t turn = 0; turn < blocks_packed_turns(b); turn++) {
        const KRef unit = blocks_packed_open(k, b, turn);
        const KRef of_all = k_expr(k, "$ * # + $", block, b->units, unit);
        for (int64_t v = 0; v < s->n; v++) {
            const PackedUnit u = {.at = {at, k_index(k, v)}, .unit = unit, .turn = turn};
            unpack_unit(l, s, &numbers[v], &u, of_all, v);
        }
        blocks_packed_close(k, b);
    }
    k_end(k);
}

// --- tiles ---------------------------------------------------------------------------------------

// Rows of a tile: their sums of all digits stay in registers, beside what a unit adds to them.
static int64_t rows_of_tile(const Lower *l, const BlockProduct *p, int64_t n)
{
    const int64_t most = (l->caps->vector_regs - OTHERS) / (n * (1 + p->n_digits));
    const int64_t rows = most < MOST_ROWS ? most : MOST_ROWS;
    return p->rows < rows ? p->rows : rows;
}

typedef struct Tile {
    const Panel *s;
    int64_t rows;
    KRef first;          // its first row
    KRef acc[MOST_SUMS]; // f32, by row and vector
} Tile;

// Number `unit` among the units of all rows, of row r of the tile.
static KRef unit_of_row(Lower *l, const Tile *t, KRef unit, int64_t r)
{
    const int64_t units = units_of(t->s->p);
    return k_expr(l->k, "$ * # + ($ + #)", t->first, units, unit, r * units);
}

// The sums of a group of a unit, by digit, row and vector. Variables, so that quads come one after the other.
static void sum_group(Lower *l, const Tile *t, KRef unit, int64_t group, KRef *sum)
{
    Kernel *k = l->k;
    const Panel *s = t->s;
    const BlockProduct *p = s->p;
    const uint8_t lanes = p->packed.lanes;
    const KRef zero = k_splat(k, k_integer(k, DTYPE_i32, 0), lanes);
    const int64_t each = t->rows * s->n, quads = QUADS / s->groups, last = p->n_digits - 1;
    for (int64_t i = 0; i < each * p->n_digits; i++) {
        KRef start = zero;
        if (p->has_starts && i / each == last) {
            const KRef of_row = unit_of_row(l, t, unit, i % each / s->n);
            const KRef at = k_expr(k, "$ * # + #", of_row, s->groups, group);
            start = k_splat(k, k_load(k, p->sums, at, 1, 1), lanes);
        }
        sum[i] = k_var(k, start, "s");
    }
    for (int64_t q = group * quads; q < (group + 1) * quads; q++) {
        KRef w[BLOCK_VECTORS];
        for (int64_t v = 0; v < s->n; v++)
            w[v] = k_load(k, s->bytes, place(l, s, s->bytes_base, unit, QUADS, q, v), lanes, lanes);
        for (int64_t i = 0; i < each * p->n_digits; i += s->n) {
            const KRef of_row = unit_of_row(l, t, unit, i % each / s->n);
            const KRef at = k_expr(k, "$ * # + #", of_row, p->n_digits * QUADS, i / each * QUADS + q);
            const KRef x = k_splat(k, k_load(k, p->digits, at, 1, 1), lanes);
            for (int64_t v = 0; v < s->n; v++)
                k_set(k, sum[i + v], k_dot8(k, w[v], x, k_get(k, sum[i + v])));
        }
    }
}

static void add_group(Lower *l, const Tile *t, KRef unit, int64_t group)
{
    Kernel *k = l->k;
    const Panel *s = t->s;
    const BlockProduct *p = s->p;
    const uint8_t lanes = p->packed.lanes;
    const int64_t each = t->rows * s->n;
    KRef sum[MOST_SUMS * MOST_DIGITS], scale[BLOCK_VECTORS], add[BLOCK_VECTORS] = {0};
    sum_group(l, t, unit, group, sum);
    for (int64_t v = 0; v < s->n; v++) {
        scale[v] = k_load(k, s->scales, place(l, s, s->scales_base, unit, s->groups, group, v), lanes, lanes);
        if (s->adds != 0)
            add[v] = k_load(k, s->adds, place(l, s, s->adds_base, unit, s->groups, group, v), lanes, lanes);
    }
    for (int64_t i = 0; i < each; i++) {
        const KRef of_row = unit_of_row(l, t, unit, i / s->n);
        KRef whole = k_get(k, sum[i]);
        for (int64_t digit = 1; digit < p->n_digits; digit++)
            whole = k_add(k, k_shl(k, whole, k_splat(k, k_integer(k, DTYPE_i32, p->digit_bits), lanes)),
                          k_get(k, sum[digit * each + i]));
        const KRef step = k_splat(k, k_load(k, p->steps, of_row, 1, 1), lanes);
        KRef all = k_fma(k, k_cast(k, whole, DTYPE_f32), k_mul(k, scale[i % s->n], step),
                         k_get(k, t->acc[i]));
        if (s->adds != 0) {
            const KRef at = k_expr(k, "$ * # + #", of_row, s->groups, group);
            all = k_fma(k, k_splat(k, k_load(k, p->sums, at, 1, 1), lanes), add[i % s->n], all);
        }
        k_set(k, t->acc[i], all);
    }
}

static void emit_tile(Lower *l, const Tile *tile, KRef record, int64_t real)
{
    Kernel *k = l->k;
    const BlockProduct *p = tile->s->p;
    const int64_t lanes = p->packed.lanes, n = tile->s->n;
    const KRef unit = k_loop(k, units_of(p), KFOR_SERIAL, "u");
    for (int64_t group = 0; group < tile->s->groups; group++)
        add_group(l, tile, unit, group);
    k_end(k);
    for (int64_t i = 0; i < tile->rows * n; i++) {
        const int64_t v = i % n, left = real - v * lanes;
        const KRef column = k_expr(k, "$ * # + #", record, p->packed.beside * lanes, v * lanes);
        block_product_store(l, p, k_expr(k, "$ + #", tile->first, i / n), column,
                            (uint8_t)(left < lanes ? left : lanes), k_get(k, tile->acc[i]));
    }
}

void block_rows_emit(Lower *l, const BlockProduct *p, KRef record, int64_t real)
{
    rlx_assert(block_rows_fit(l, p) && real >= 1);
    Kernel *k = l->k;
    const PackedBlocks *b = &p->packed;
    const int64_t units = units_of(p);
    BlockProduct own = *p;
    Panel s = {.p = &own, .n = ceil_div(real, b->lanes), .groups = BLOCK_UNIT / b->step};
    s.bytes = take(l, "panel", DTYPE_i32, units * QUADS * s.n, p, &s.bytes_base);
    s.scales = take(l, "scales", DTYPE_f32, units * s.groups * s.n, p, &s.scales_base);
    if (p->f->min.sign)
        s.adds = take(l, "adds", DTYPE_f32, units * s.groups * s.n, p, &s.adds_base);
    unpack(l, &s, record);
    Tile tile = {.s = &s, .rows = rows_of_tile(l, p, s.n)};
    const KRef live = block_product_live(l, p), rows = live ? live : k_index(k, p->rows);
    const KRef end = k_expr(k, "($ + #) / #", rows, tile.rows - 1, tile.rows);
    const KRef number = k_for(k, k_index(k, 0), end, 1, KFOR_SERIAL, "t");
    tile.first = block_product_tile(l, &own, number, tile.rows);
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), b->lanes);
    for (int64_t i = 0; i < tile.rows * s.n; i++)
        tile.acc[i] = k_var(k, zero, "acc");
    emit_tile(l, &tile, record, real);
    k_end(k);
}
