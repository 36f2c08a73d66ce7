// SPDX-License-Identifier: Apache-2.0
// Many rows by products of integers (blocks_dot.c). The columns of a record are unpacked, into a panel in
// scratch memory of the thread: words with a byte or 16 bits for each element, and f32 scales. Tiles of rows
// in registers read it, word by word, so that a word that is loaded meets all rows. Two digits of a row are
// joined as integers. Where weights only have a bias, sums begin with that of the row (block_digits_round),
// and stay exact. With dot products of bytes, a panel has all of k. Without, tiles have few rows and read it
// often: it has as much of k as stays in the first-level cache, and sums so far wait in scratch memory.
// Accumulation: as in blocks_dot.c.
#include "passes/lower/blocks/blocks_product.h"

enum {
    QUAD = 4,
    QUADS = BLOCK_UNIT / QUAD,
    MOST_ROWS = 6,
    MOST_SUMS = MOST_ROWS * BLOCK_VECTORS,
    MOST_DIGITS = 2,
    OTHERS = 4,      // registers for weights and an element of a row
    LEAST_UNITS = 8, // of a part of k, else all of k is one
};
// Of the first-level cache, for a panel. The rest is for rows and sums.
#define PANEL_SHARE 0.6

// The columns of a record, unpacked, by units of `blocks` blocks.
typedef struct Panel {
    const BlockProduct *p;
    int64_t n, groups;            // vectors; groups of a unit
    int64_t words;                // of a unit
    int64_t blocks, parts;        // of a part of k; parts of k
    uint32_t bytes, scales, adds; // params: vectors, [unit][word or group][vector]
    KRef bytes_base, scales_base, adds_base;
    KRef part;                    // number of the part of k; 0: there is only one
    uint32_t partial;             // param: sums of the parts before, [row][vector]
    KRef partial_base;
} Panel;

// What multiplies a word of weights by one of a row.
static KOp product_op(const Lower *l, const BlockProduct *p)
{
    return p->digit_bits > 8 ? KOP_dot16 : l->caps->has_dot8 ? KOP_dot8 : KOP_pair8;
}

bool block_rows_fit(const Lower *l, const BlockProduct *p)
{
    const int most = l->caps->has_dot8 ? MOST_DIGITS : 1;
    return p->n_digits >= 1 && p->n_digits <= most && p->rows > BLOCK_MAX_ROWS;
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

// Word t of a unit: four bytes, or an element and the one half a group further on.
static KRef word_of(Lower *l, const Panel *s, const KRef *words, int64_t t)
{
    const PackedBlocks *b = &s->p->packed;
    if (s->words == QUADS)
        return blocks_packed_quad(l->k, b, words, t);
    const int64_t apart = b->step / 2, first = t / apart * b->step + t % apart;
    return k_or(l->k, blocks_packed_bits(l->k, b, words, first, 0),
                blocks_packed_bits(l->k, b, words, first + apart, 16));
}

static void unpack_unit(Lower *l, const Panel *s, const PackedNumbers *numbers, const PackedUnit *u,
                        KRef unit, int64_t v)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &s->p->packed;
    KRef words[BLOCK_MAX_WORDS];
    blocks_packed_words(k, b, u, words);
    for (int64_t t = 0; t < s->words; t++)
        k_store(k, s->bytes, place(l, s, s->bytes_base, unit, s->words, t, v), word_of(l, s, words, t),
                b->lanes);
    for (int64_t i = 0; i < BLOCK_UNIT; i += b->step) {
        const PackedGroup g = blocks_packed_group(k, b, numbers, u, i);
        const int64_t group = i / b->step;
        k_store(k, s->scales, place(l, s, s->scales_base, unit, s->groups, group, v), g.scale, b->lanes);
        if (s->adds != 0)
            k_store(k, s->adds, place(l, s, s->adds_base, unit, s->groups, group, v), g.add, b->lanes);
    }
}

// The first of so many of each part of k.
static KRef of_part(Lower *l, const Panel *s, int64_t each, KRef number)
{
    return s->part ? k_expr(l->k, "$ * # + $", s->part, each, number) : number;
}

static void unpack(Lower *l, const Panel *s, KRef record)
{
    Kernel *k = l->k;
    const PackedBlocks *b = &s->p->packed;
    const KRef block = k_loop(k, s->blocks, KFOR_SERIAL, "b");
    const KRef at = k_expr(k, "$ * # + $", record, b->blocks, of_part(l, s, s->blocks, block));
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

// Chooses how much of k a panel has.
static void choose_parts(const Lower *l, Panel *s)
{
    const PackedBlocks *b = &s->p->packed;
    const int64_t numbers = s->p->f->min.sign ? 2 : 1, all = b->blocks;
    const int64_t unit = s->n * b->lanes * 4 * (s->words + s->groups * numbers);
    const int64_t most = (int64_t)(PANEL_SHARE * l->caps->cpu.l1_bytes) / (unit * b->units);
    int64_t blocks = most < all ? most : all;
    for (; blocks > 1 && all % blocks != 0; blocks--)
        ;
    s->blocks = l->caps->has_dot8 || blocks * b->units < LEAST_UNITS ? all : blocks;
    s->parts = all / s->blocks;
    rlx_assert(s->blocks >= 1 && s->parts * s->blocks == all);
}

// --- tiles ---------------------------------------------------------------------------------------

// Words of a group, and those whose products are added up before they are joined.
static int64_t words_of_group(const Panel *s)
{
    return s->words / s->groups;
}

static int64_t words_together(const Lower *l, const Panel *s)
{
    const int64_t all = words_of_group(s), most = block_digits_together(l, s->p);
    return most < all ? most : all;
}

// Rows of a tile: their sums of all digits stay in registers, beside what a unit adds to them.
static int64_t rows_of_tile(const Lower *l, const Panel *s)
{
    const BlockProduct *p = s->p;
    const int64_t sums = 1 + p->n_digits + (words_together(l, s) < words_of_group(s));
    const int64_t most = (l->caps->vector_regs - OTHERS) / (s->n * sums);
    const int64_t rows = most < MOST_ROWS ? most : MOST_ROWS;
    rlx_assert(rows >= 1);
    return p->rows < rows ? p->rows : rows;
}

typedef struct Tile {
    const Panel *s;
    int64_t rows;
    KRef first;          // its first row
    KRef acc[MOST_SUMS]; // f32, by row and vector
} Tile;

// Sums of a group of a unit.
typedef struct Sums {
    KRef sum[MOST_SUMS * MOST_DIGITS]; // by digit, row and vector
    KRef before[MOST_SUMS];            // what the joined sums are added to; 0: nothing
} Sums;

// Number `unit` among the units of all rows, of row r of the tile.
static KRef unit_of_row(Lower *l, const Tile *t, KRef unit, int64_t r)
{
    const int64_t units = units_of(t->s->p);
    return k_expr(l->k, "$ * # + ($ + #)", t->first, units,
                  of_part(l, t->s, t->s->blocks * t->s->p->packed.units, unit), r * units);
}

// What the sums of row r begin with.
static KRef start_of(Lower *l, const Tile *t, KRef unit, int64_t group, int64_t r)
{
    Kernel *k = l->k;
    const BlockProduct *p = t->s->p;
    if (!p->has_starts)
        return k_splat(k, k_integer(k, DTYPE_i32, 0), p->packed.lanes);
    const KRef at = k_expr(k, "$ * # + #", unit_of_row(l, t, unit, r), t->s->groups, group);
    return k_splat(k, k_load(k, p->sums, at, 1, 1), p->packed.lanes);
}

// Adds the products of words [first, end) of a unit to the sums.
static void add_words(Lower *l, const Tile *t, KRef unit, int64_t first, int64_t end, const KRef *sum)
{
    Kernel *k = l->k;
    const Panel *s = t->s;
    const BlockProduct *p = s->p;
    const uint8_t lanes = p->packed.lanes;
    const int64_t each = t->rows * s->n;
    for (int64_t q = first; q < end; q++) {
        KRef w[BLOCK_VECTORS];
        for (int64_t v = 0; v < s->n; v++)
            w[v] = k_load(k, s->bytes, place(l, s, s->bytes_base, unit, s->words, q, v), lanes, lanes);
        for (int64_t i = 0; i < each * p->n_digits; i += s->n) {
            const KRef of_row = unit_of_row(l, t, unit, i % each / s->n);
            const KRef at =
                k_expr(k, "$ * # + #", of_row, p->n_digits * s->words, i / each * s->words + q);
            const KRef x = k_splat(k, k_load(k, p->digits, at, 1, 1), lanes);
            for (int64_t v = 0; v < s->n; v++)
                k_set(k, sum[i + v], k_op(k, product_op(l, p), w[v], x, k_get(k, sum[i + v])));
        }
    }
}

// The sums of a group of a unit. Variables, so that words come one after the other.
static void sum_group(Lower *l, const Tile *t, KRef unit, int64_t group, Sums *to)
{
    Kernel *k = l->k;
    const Panel *s = t->s;
    const BlockProduct *p = s->p;
    const int64_t each = t->rows * s->n, last = p->n_digits - 1, words = words_of_group(s),
                  together = words_together(l, s), end = (group + 1) * words;
    const KRef zero = k_splat(k, k_integer(k, DTYPE_i32, 0), p->packed.lanes);
    const bool is_joined = product_op(l, p) == KOP_pair8;
    for (int64_t q = group * words; q < end; q += together) {
        for (int64_t i = 0; i < each && is_joined; i++)
            to->before[i] = q == group * words ? start_of(l, t, unit, group, i / s->n)
                                               : k_join16(k, k_get(k, to->sum[i]), to->before[i]);
        for (int64_t i = 0; i < each * p->n_digits; i++) {
            const bool has_start = !is_joined && i / each == last;
            to->sum[i] =
                k_var(k, has_start ? start_of(l, t, unit, group, i % each / s->n) : zero, "s");
        }
        add_words(l, t, unit, q, q + together < end ? q + together : end, to->sum);
    }
}

// Sum number i of all digits.
static KRef whole_sum(Lower *l, const Tile *t, const Sums *sums, int64_t i)
{
    Kernel *k = l->k;
    const BlockProduct *p = t->s->p;
    const KRef bits = k_splat(k, k_integer(k, DTYPE_i32, p->digit_bits), p->packed.lanes);
    KRef whole = k_get(k, sums->sum[i]);
    if (sums->before[i] != 0)
        return k_join16(k, whole, sums->before[i]);
    for (int64_t digit = 1; digit < p->n_digits; digit++)
        whole = k_add(k, k_shl(k, whole, bits), k_get(k, sums->sum[digit * t->rows * t->s->n + i]));
    return whole;
}

static void add_group(Lower *l, const Tile *t, KRef unit, int64_t group)
{
    Kernel *k = l->k;
    const Panel *s = t->s;
    const BlockProduct *p = s->p;
    const uint8_t lanes = p->packed.lanes;
    const int64_t each = t->rows * s->n;
    Sums sums = {0};
    KRef scale[BLOCK_VECTORS], add[BLOCK_VECTORS] = {0};
    sum_group(l, t, unit, group, &sums);
    for (int64_t v = 0; v < s->n; v++) {
        scale[v] = k_load(k, s->scales, place(l, s, s->scales_base, unit, s->groups, group, v), lanes, lanes);
        if (s->adds != 0)
            add[v] = k_load(k, s->adds, place(l, s, s->adds_base, unit, s->groups, group, v), lanes, lanes);
    }
    for (int64_t i = 0; i < each; i++) {
        const KRef of_row = unit_of_row(l, t, unit, i / s->n), whole = whole_sum(l, t, &sums, i);
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

// --- parts of k ----------------------------------------------------------------------------------

// Where sum number i of a tile waits for the next part of k.
static KRef partial_place(Lower *l, const Tile *t, int64_t i)
{
    const int64_t lanes = t->s->p->packed.lanes;
    return k_expr(l->k, "$ * # + ($ + #)", t->first, t->s->n * lanes, t->s->partial_base, i * lanes);
}

static void load_partial(Lower *l, const Tile *t)
{
    Kernel *k = l->k;
    const uint8_t lanes = t->s->p->packed.lanes;
    k_if(k, k_expr(k, "0 < $", t->s->part));
    for (int64_t i = 0; i < t->rows * t->s->n; i++)
        k_set(k, t->acc[i], k_load(k, t->s->partial, partial_place(l, t, i), lanes, lanes));
    k_end(k);
}

// Rows that the tile before has as well are further than that already.
static void store_partial(Lower *l, const Tile *t)
{
    Kernel *k = l->k;
    const int64_t n = t->s->n;
    const KRef stored = t->s->p->stored;
    for (int64_t i = 0; i < t->rows * n; i++) {
        if (stored && i % n == 0)
            k_if(k, k_expr(k, "$ <= $", stored, k_expr(k, "$ + #", t->first, i / n)));
        k_store(k, t->s->partial, partial_place(l, t, i), k_get(k, t->acc[i]), t->s->p->packed.lanes);
        if (stored && i % n == n - 1)
            k_end(k);
    }
}

static void store_sums(Lower *l, const Tile *t, KRef record, int64_t real)
{
    Kernel *k = l->k;
    const BlockProduct *p = t->s->p;
    const int64_t lanes = p->packed.lanes, n = t->s->n;
    for (int64_t i = 0; i < t->rows * n; i++) {
        const int64_t v = i % n, left = real - v * lanes;
        const KRef column = k_expr(k, "$ * # + #", record, p->packed.beside * lanes, v * lanes);
        block_product_store(l, p, k_expr(k, "$ + #", t->first, i / n), column,
                            (uint8_t)(left < lanes ? left : lanes), k_get(k, t->acc[i]));
    }
}

static void emit_tile(Lower *l, const Tile *tile, KRef record, int64_t real)
{
    Kernel *k = l->k;
    const Panel *s = tile->s;
    if (s->part)
        load_partial(l, tile);
    const KRef unit = k_loop(k, s->blocks * s->p->packed.units, KFOR_SERIAL, "u");
    for (int64_t group = 0; group < s->groups; group++)
        add_group(l, tile, unit, group);
    k_end(k);
    if (s->part) {
        k_if(k, k_expr(k, "$ < #", s->part, s->parts - 1));
        store_partial(l, tile);
        k_else(k);
    }
    store_sums(l, tile, record, real);
    if (s->part)
        k_end(k);
}

static void take_panel(Lower *l, Panel *s)
{
    const BlockProduct *p = s->p;
    const int64_t units = s->blocks * p->packed.units;
    s->bytes = take(l, "panel", DTYPE_i32, units * s->words * s->n, p, &s->bytes_base);
    s->scales = take(l, "scales", DTYPE_f32, units * s->groups * s->n, p, &s->scales_base);
    if (p->f->min.sign)
        s->adds = take(l, "adds", DTYPE_f32, units * s->groups * s->n, p, &s->adds_base);
    if (s->parts > 1)
        s->partial = take(l, "partial", DTYPE_f32, p->rows * s->n, p, &s->partial_base);
}

void block_rows_emit(Lower *l, const BlockProduct *p, KRef record, int64_t real)
{
    rlx_assert(block_rows_fit(l, p) && real >= 1);
    Kernel *k = l->k;
    const PackedBlocks *b = &p->packed;
    BlockProduct own = *p;
    Panel s = {.p = &own, .n = ceil_div(real, b->lanes), .groups = BLOCK_UNIT / b->step};
    s.words = block_digits_words(p);
    choose_parts(l, &s);
    take_panel(l, &s);
    if (s.parts > 1)
        s.part = k_loop(k, s.parts, KFOR_SERIAL, "p");
    unpack(l, &s, record);
    Tile tile = {.s = &s, .rows = rows_of_tile(l, &s)};
    const KRef live = block_product_live(l, p), rows = live ? live : k_index(k, p->rows);
    const KRef end = k_expr(k, "($ + #) / #", rows, tile.rows - 1, tile.rows);
    const KRef number = k_for(k, k_index(k, 0), end, 1, KFOR_SERIAL, "t");
    tile.first = block_product_tile(l, &own, number, tile.rows);
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), b->lanes);
    for (int64_t i = 0; i < tile.rows * s.n; i++)
        tile.acc[i] = k_var(k, zero, "acc");
    emit_tile(l, &tile, record, real);
    k_ends(k, s.part ? 2 : 1);
}
