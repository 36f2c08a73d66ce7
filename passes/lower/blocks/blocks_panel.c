// SPDX-License-Identifier: Apache-2.0
// See blocks_panel.h.
#include "passes/lower/blocks/blocks_panel.h"

bool block_panel_has_sums(const BlockGrid *g)
{
    return g->is_whole && g->p->f->min.sign != 0;
}

int64_t block_panel_words(const BlockGrid *g)
{
    return g->weight_parts * 2 * TILE_WORDS;
}

KRef block_panel_scales(const BlockGrid *g, KRef i, KRef unit)
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

KRef block_panel_number(Kernel *k, double v)
{
    return k_splat(k, k_number(k, DTYPE_f32, v), SIDE);
}

// A NaN whose bits do not overflow when they are rounded.
static KRef plain_nan(Kernel *k, KRef value)
{
    const KRef nan = k_bitcast(k, whole(k, 0x7fc00000), DTYPE_f32);
    return k_select(k, k_op(k, KOP_ne, value, value, 0), nan, value);
}

static void open_group(const BlockGrid *g, const PackedGroup *group, Decoding *d)
{
    Kernel *k = g->l->k;
    const PackedBlocks *b = &g->p->packed;
    // Cut off instead of rounded, numbers are too small by half of what the last bit counts, about so much.
    const double more = g->parts == 1 ? 1 + 0.7 / 256 : 1;
    if (g->is_whole) {
        const int one = 1 << (b->low + b->high);
        d->scale = block_panel_number(k, one);
        d->add = block_panel_number(k, (b->f->min.sign ? 0 : b->bias) - one);
        return;
    }
    d->scale = k_mul(k, group->scale, block_panel_number(k, more * (1 << (b->low + b->high))));
    const KRef zero = k_neg(k, d->scale);
    d->add = group->add ? k_fma(k, group->add, block_panel_number(k, more), zero) : zero;
    if (g->parts > 1) {
        d->scale = plain_nan(k, d->scale);
        d->add = plain_nan(k, d->add);
    }
}

static KRef decoded(const BlockGrid *g, const Decoding *d, int64_t e)
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

static void store_words(const BlockGrid *g, KRef to, int64_t part, KRef low, KRef high)
{
    Kernel *k = g->l->k;
    k_store(k, g->panel, k_expr(k, "$ + #", to, part * 2 * TILE_WORDS),
            k_bitcast(k, k_pair_bf16(k, low, high), DTYPE_i32), SIDE);
}

// Two elements of the columns of a vector. What is left of them at last is cut off: with one part, see
// open_group; with two it is rounded first; three leave nothing.
static void store_pair(const BlockGrid *g, KRef to, KRef low, KRef high)
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

// scales: where those of whole numbers go, see block_panel_scales.
static void decode_unit(const BlockGrid *g, const PackedNumbers *numbers, const PackedUnit *u, KRef to,
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
            if (block_panel_has_sums(g))
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
static void fetch_ahead(const BlockGrid *g, KRef turn, KRef block, KRef unit)
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

void block_panel_decode(const BlockGrid *g, KRef record, KRef i, KRef turn)
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
        const KRef words = k_expr(k, "$ * # + $ * #", of_turn, block_panel_words(g), v, TILE_WORDS);
        decode_unit(g, &numbers, &u, k_add(k, words, g->panel_base),
                    g->is_whole ? k_expr(k, "$ + $ * #", block_panel_scales(g, i, own), v, SIDE) : 0);
        blocks_packed_close(k, b);
    }
    k_ends(k, 2);
}
