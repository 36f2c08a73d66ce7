// SPDX-License-Identifier: Apache-2.0
// Products of lstm_tiles.c: fragments of weights and of hidden values, or inputs, from memory, and sums
// that the warps of a group hand to each other through shared memory.
//
// What a thread has of a product's factors are words that lie side by side in memory: the order of k within
// a block is that of the threads, the same for both factors.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_split.h"
#include "passes/lower/ops/lstm_tiles.h"

// --- places --------------------------------------------------------------------------------------

int64_t rnn_rows(const Tiles *n)
{
    return n->s.tiles * TILE_ROWS;
}

int64_t rnn_blocks(const Tiles *n)
{
    return n->s.ranks * n->s.blocks;
}

// An entry of the batch, by its number in the cluster; the last one for those beyond it.
KRef rnn_entry(const Tiles *n, KRef number)
{
    return k_expr(n->k, "min($ % # * # + $, #)", n->cluster, n->s.of_batch, n->s.entries, number,
                  n->m->batch - 1);
}

// A unit, by its number in the block; the last one for those beyond it.
KRef rnn_unit(const Tiles *n, KRef number)
{
    return k_expr(n->k, "min($ * # + $, #)", n->block, n->s.units, number, n->m->hidden - 1);
}

// Where the first number of a hidden value is in memory, `padded` before the second; which: of two rows.
KRef rnn_hidden_index(const Tiles *n, KRef which, KRef entry, KRef unit)
{
    const KRef row = k_expr(n->k, "($ * 2 + $) * # + $", n->of_sets, which, n->s.entries, entry);
    return k_expr(n->k, "$ * # + $", row, n->planes * n->padded, unit);
}

KRef rnn_exact_index(const Tiles *n, KRef which, KRef entry, KRef unit)
{
    const KRef row = k_expr(n->k, "($ * 2 + $) * # + $", n->of_sets, which, n->s.entries, entry);
    return k_expr(n->k, "$ * # + $", row, n->padded, unit);
}

static KRef input_row(const Tiles *n, KRef step, KRef entry)
{
    LstmStep at = n->at;
    at.entry = rnn_entry(n, entry);
    return lstm_input_at(n->l, &at, lstm_time_of(n->l, &at, k_add(n->k, at.chunk, step)));
}

static KRef weight_row(const Tiles *n, bool is_hidden, KRef gate, KRef unit)
{
    const KRef idx[3] = {n->at.dir, k_expr(n->k, "$ * # + $", gate, n->m->hidden, unit), k_index(n->k, 0)};
    return operand_index(n->l, is_hidden ? n->m->r : n->m->w, idx);
}

// --- factors -------------------------------------------------------------------------------------

static int word_type(const Tiles *n)
{
    return n->s.pair > 1 ? DTYPE_u32 : DTYPE_f32;
}

// Can a piece be read at once, wherever it begins?
static bool has_pieces(const Tiles *n, NodeId id)
{
    const Node *node = lower_node(n->l, id);
    const Loc *loc = lower_loc(n->l, id);
    const uint32_t last = node->shape->rank - 1;
    const int64_t piece = TILE_PIECE * n->s.pair;
    bool is_even = loc->stride[last] == 1 && node->shape->dim[last] % piece == 0 &&
                   lower_alignment(n->l, loc, (DType)node->dtype) >= TILE_PIECE * (int64_t)sizeof(float);
    for (uint32_t i = 0; i < last; i++)
        is_even = is_even && (node->shape->dim[i] == 1 || loc->stride[i] % piece == 0);
    return is_even;
}

// A word of elements from `from` on, one by one, of a row; zeros behind its end.
static KRef load_word(const Tiles *n, NodeId id, KRef base, KRef from)
{
    Kernel *k = n->k;
    const Node *node = lower_node(n->l, id);
    const uint32_t last = node->shape->rank - 1;
    KRef part[2] = {0};
    for (int64_t i = 0; i < n->s.pair; i++) {
        const KRef at = k_expr(k, "$ + #", from, i), is_in = k_expr(k, "$ < #", at, node->shape->dim[last]);
        const KRef index = k_expr(k, "$ + $ * #", base, k_select(k, is_in, at, k_index(k, 0)),
                                  lower_loc(n->l, id)->stride[last]);
        part[i] = k_select(k, is_in, operand_scalar(n->l, id, index, DTYPE_f32), k_number(k, DTYPE_f32, 0));
    }
    const KDevice pack = n->type == DTYPE_f16 ? KDEV_pack_f16 : KDEV_pack_bf16;
    return n->s.pair == 1 ? part[0] : k_call(k, pack, part[0], part[1], 0);
}

// TILE_PIECE words of a row that begins at `base`, from element `from` on, to[at ...].
static void fetch_piece(const Tiles *n, NodeId id, KRef base, KRef from, KRef to, KRef at)
{
    Kernel *k = n->k;
    const Node *node = lower_node(n->l, id);
    const int64_t size = node->shape->dim[node->shape->rank - 1], piece = TILE_PIECE * n->s.pair;
    if (!has_pieces(n, id)) {
        for (int64_t i = 0; i < TILE_PIECE; i++)
            k_astore(k, to, k_expr(k, "$ + #", at, i),
                     load_word(n, id, base, k_expr(k, "$ + #", from, i * n->s.pair)));
        return;
    }
    const uint32_t param =
        n->s.pair > 1 ? lower_param_words(n->l, id, DTYPE_u32) : lower_param(n->l, id, PARAM_READ);
    const bool may_end = size % (TILE_WARPS * TILE_QUAD * piece) != 0;
    const KRef is_in = k_expr(k, "$ < #", from, size);
    const KRef first = may_end ? k_select(k, is_in, from, k_index(k, 0)) : from;
    k_fetch(k, param, k_expr(k, "($ + $) / #", base, first, n->s.pair), to, at, TILE_PIECE);
    for (int64_t i = 0; i < TILE_PIECE && may_end; i++) {
        const KRef slot = k_expr(k, "$ + #", at, i);
        k_astore(k, to, slot, k_select(k, is_in, k_aload(k, to, slot, 1), k_number(k, word_type(n), 0)));
    }
}

// The first element of a thread's piece of block i of its warp.
static KRef piece_place(const Tiles *n, const TileCut *c, KRef i)
{
    const KRef block = k_expr(n->k, "$ % # * # + $", n->warp, c->split, c->each, i);
    return k_expr(n->k, "($ * # + $ % #) * #", block, TILE_QUAD, n->lane, TILE_QUAD, TILE_PIECE * n->s.pair);
}

// Where row `row` * TILE_COLUMNS + lane / TILE_QUAD of the weights begins.
static KRef row_base(const Tiles *n, const TileFactor *f, int64_t row)
{
    Kernel *k = n->k;
    const KRef number = k_expr(k, "$ / # + #", n->lane, TILE_QUAD, row * TILE_COLUMNS);
    const KRef gate = k_expr(k, "min($ / #, #)", number, n->s.units, lstm_gates(n->m) - 1);
    return weight_row(n, f->is_hidden, gate, rnn_unit(n, k_expr(k, "$ % #", number, n->s.units)));
}

// Words of weights of a block that a thread has, of one plane and of all.
static int64_t plane_of_weights(const Tiles *n)
{
    return 2 * n->s.tiles * TILE_PIECE;
}

static int64_t weights_of(const Tiles *n)
{
    return plane_of_weights(n) * rnn_weight_planes(n->l, &n->s);
}

// Weights of block i for the tiles of the factor, two rows of each.
static void fetch_weights(const Tiles *n, const TileFactor *f, KRef i, KRef to, KRef at)
{
    const KRef place = piece_place(n, &f->cut, i);
    const NodeId id = f->is_hidden ? n->m->r : n->m->w;
    for (int64_t row = 2 * f->first_tile; row < 2 * f->end_tile; row++) {
        const KRef base = row_base(n, f, row), own = k_expr(n->k, "$ + #", at, row * TILE_PIECE);
        if (n->s.is_split)
            rnn_fetch_split(n, id, (const KRef[]){base, place}, to, own, plane_of_weights(n));
        else
            fetch_piece(n, id, base, place, to, own);
    }
}

void rnn_keep_weights(const Tiles *n, TileFactor *f)
{
    Kernel *k = n->k;
    const int64_t each = weights_of(n);
    f->kept = f->cut.is_kept && n->is_grid ? k_array(k, word_type(n), f->cut.each * each) : 0;
    if (f->kept == 0)
        return;
    const KRef i = k_loop(k, f->cut.each, KFOR_UNROLL, "i");
    fetch_weights(n, f, i, f->kept, k_expr(k, "$ * #", i, each));
    k_end(k);
}

// Where a column's values begin; columns are entries, or entries of steps.
static KRef column_base(const Tiles *n, const TileFactor *f, KRef column)
{
    Kernel *k = n->k;
    const KRef real = k_expr(k, "min($, $ - 1)", column, f->end);
    if (f->is_hidden)
        return rnn_hidden_index(n, f->which, real, k_index(k, 0));
    return input_row(n, k_expr(k, "$ / #", real, n->s.entries), k_expr(k, "$ % #", real, n->s.entries));
}

static int64_t planes_of(const Tiles *n, const TileFactor *f)
{
    return f->is_hidden ? n->planes : 1;
}

// Pieces of all columns, of one plane after the other.
static void fetch_values(const Tiles *n, const TileFactor *f, KRef i, const KRef *base, KRef to)
{
    Kernel *k = n->k;
    const KRef place = piece_place(n, &f->cut, i);
    const int64_t wide = f->cut.wide;
    for (int64_t j = 0; j < planes_of(n, f) * wide; j++) {
        const KRef at = k_index(k, j * TILE_PIECE), from = base[j % wide];
        if (f->is_hidden)
            k_fetch(k, n->s.pair > 1 ? n->words : n->hidden,
                    k_expr(k, "($ + $ + #) / #", from, place, j / wide * n->padded, n->s.pair), to, at,
                    TILE_PIECE);
        else
            fetch_piece(n, n->m->x, from, place, to, at);
    }
}

// --- products ------------------------------------------------------------------------------------

static GpuSplit split(const Tiles *n, KRef words, int64_t count)
{
    if (n->s.pair > 1)
        return (GpuSplit){.high = words};
    return gpu_split_products(n->l) > 1 ? gpu_split_words(n->k, words, count)
                                        : (GpuSplit){.high = gpu_split_round(n->k, words, count)};
}

// A product of units: fragments, where that of columns begins, and the first of its sums.
typedef struct TilePair {
    GpuSplit a, b;
    int64_t of_b, of_sums;
} TilePair;

// Products of f32 that do not wait for each other are under way at once, of each of their three parts, small
// ones first. What they add up to is added by the threads, as units do not round to nearest.
static void multiply_split(const Tiles *n, KRef sums, const TilePair *pairs, int64_t count)
{
    Kernel *k = n->k;
    const KRef zero = k_index(k, 0), part = k_array(k, DTYPE_f32, count * TILE_SUMS);
    for (int64_t i = 0; i < count * TILE_SUMS; i++)
        k_astore(k, part, k_index(k, i), k_number(k, DTYPE_f32, 0));
    for (int64_t turn = 0; turn < 3; turn++)
        for (int64_t i = 0; i < count; i++) {
            const TilePair *p = &pairs[i];
            const KRef a = turn == 0 ? p->a.low : p->a.high, b = turn == 1 ? p->b.low : p->b.high;
            k_device(k, KDEV_mma_tf32, part, k_index(k, i * TILE_SUMS), a, zero, b, k_index(k, p->of_b));
        }
    for (int64_t i = 0; i < count * TILE_SUMS; i++) {
        const KRef to = k_index(k, pairs[i / TILE_SUMS].of_sums + i % TILE_SUMS);
        k_astore(k, sums, to, k_add(k, k_aload(k, sums, to, 1), k_aload(k, part, k_index(k, i), 1)));
    }
}

static void multiply_pairs(const Tiles *n, KRef sums, const TilePair *pairs, int64_t count)
{
    Kernel *k = n->k;
    const KDevice unit = n->s.pair == 1           ? KDEV_mma_tf32
                         : n->type == DTYPE_f16 ? KDEV_mma_f16
                                                : KDEV_mma_bf16;
    if (n->s.pair == 1 && pairs[0].a.low != 0) {
        multiply_split(n, sums, pairs, count);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        k_device(k, unit, sums, k_index(k, pairs[i].of_sums), pairs[i].a.high, k_index(k, 0), pairs[i].b.high,
                 k_index(k, pairs[i].of_b));
}

// Factors of a product: words 2 * half and the next one of each piece.
static GpuSplit columns_of(const Tiles *n, KRef values, int64_t first, int64_t wide, int64_t half)
{
    Kernel *k = n->k;
    const KRef words = k_array(k, word_type(n), wide * 2);
    for (int64_t i = 0; i < wide * 2; i++)
        k_astore(k, words, k_index(k, i),
                 k_aload(k, values, k_index(k, (first + i / 2) * TILE_PIECE + 2 * half + i % 2), 1));
    return split(n, words, wide * 2);
}

static GpuSplit rows_at(const Tiles *n, KRef weights, KRef from, int64_t tile, int64_t half)
{
    Kernel *k = n->k;
    const KRef words = k_array(k, word_type(n), 4);
    for (int64_t i = 0; i < 4; i++)
        k_astore(k, words, k_index(k, i),
                 k_aload(k, weights,
                         k_expr(k, "$ + #", from, (2 * tile + i % 2) * TILE_PIECE + 2 * half + i / 2), 1));
    return split(n, words, 4);
}

// Rows of weights that a thread has of the factor's tiles.
static int64_t rows_of(const TileFactor *f)
{
    return 2 * (f->end_tile - f->first_tile);
}

// What a thread has of both factors of a block.
typedef struct Block {
    KRef weights, from, values; // from: the first of the weights
} Block;

static int64_t values_of(const Tiles *n, const TileFactor *f)
{
    return planes_of(n, f) * f->cut.wide * TILE_PIECE;
}

static void fetch_block(const Tiles *n, const TileFactor *f, KRef i, const KRef *base, const Block *to)
{
    fetch_values(n, f, i, base, to->values);
    if (f->kept == 0)
        fetch_weights(n, f, i, to->weights, k_index(n->k, 0));
}

// Which of both numbers of weights and of hidden values are multiplied: small ones first.
typedef struct Combination {
    int64_t weight, value;
} Combination;

// Products of some pairs of split numbers, in sums of their own, as units do not round to nearest.
static void add_split_pairs(const Tiles *n, const TileFactor *f, const Block *of, KRef sums,
                            const int64_t range[2])
{
    static const Combination all[] = {{1, 0}, {0, 1}, {0, 0}};
    Kernel *k = n->k;
    const int64_t wide = f->cut.wide, count = range[1] - range[0];
    const KRef part = k_array(k, DTYPE_f32, count * TILE_SUMS);
    for (int64_t i = 0; i < count * TILE_SUMS; i++)
        k_astore(k, part, k_index(k, i), k_number(k, DTYPE_f32, 0));
    for (const Combination *c = n->planes > 1 ? all : all + 2; c < all + 3; c++)
        for (int64_t half = 0; half < TILE_PRODUCTS; half++) {
            const GpuSplit b = columns_of(n, of->values, c->value * wide, wide, half);
            const KRef from = k_expr(k, "$ + #", of->from, c->weight * plane_of_weights(n));
            for (int64_t i = 0; i < count; i++) {
                const int64_t pair = range[0] + i;
                const GpuSplit a = rows_at(n, of->weights, from, f->first_tile + pair / wide, half);
                k_device(k, KDEV_mma_f16, part, k_index(k, i * TILE_SUMS), a.high, k_index(k, 0), b.high,
                         k_index(k, 2 * (pair % wide)));
            }
        }
    for (int64_t i = 0; i < count * TILE_SUMS; i++) {
        const KRef to = k_index(k, range[0] * TILE_SUMS + i);
        k_astore(k, sums, to, k_add(k, k_aload(k, sums, to, 1), k_aload(k, part, k_index(k, i), 1)));
    }
}

static void add_split(const Tiles *n, const TileFactor *f, const Block *of, KRef sums)
{
    const int64_t all = rows_of(f) / 2 * f->cut.wide;
    for (int64_t first = 0; first < all; first += TILE_AT_ONCE) {
        const int64_t end = first + TILE_AT_ONCE < all ? first + TILE_AT_ONCE : all;
        add_split_pairs(n, f, of, sums, (const int64_t[]){first, end});
    }
}

static void add_block(const Tiles *n, const TileFactor *f, const Block *of, KRef sums)
{
    if (n->s.is_split) {
        add_split(n, f, of, sums);
        return;
    }
    const int64_t wide = f->cut.wide, planes = planes_of(n, f), all = rows_of(f) / 2 * wide;
    for (int64_t part = 0; part < TILE_PRODUCTS * planes; part++) {
        const int64_t half = part / planes;
        const GpuSplit b = columns_of(n, of->values, (planes - 1 - part % planes) * wide, wide, half);
        for (int64_t first = 0, count; first < all; first += count) {
            TilePair pairs[TILE_AT_ONCE];
            count = all - first < TILE_AT_ONCE ? all - first : TILE_AT_ONCE;
            for (int64_t i = 0; i < count; i++) {
                const int64_t j = (first + i) % wide, tile = f->first_tile + (first + i) / wide;
                pairs[i] = (TilePair){.b = b, .of_b = 2 * j, .of_sums = (first + i) * TILE_SUMS};
                pairs[i].a =
                    i > 0 && j > 0 ? pairs[i - 1].a : rows_at(n, of->weights, of->from, tile, half);
            }
            multiply_pairs(n, sums, pairs, count);
        }
    }
}

// --- pieces on their way -------------------------------------------------------------------------

// Rows of weights of a thread that are on their way: none of those that are kept.
static int64_t rows_staged(const TileFactor *f)
{
    return f->kept != 0 ? 0 : rows_of(f);
}

// Pieces that a thread has of a block: of the weights, if they are fetched, and of the values.
static int64_t pieces_of(const Tiles *n, const TileFactor *f)
{
    return rows_staged(f) + values_of(n, f) / TILE_PIECE;
}

// Blocks that are on their way at once: each thread's pieces, to places of its own in shared memory.
static int64_t stages_of(const Tiles *n, const TileFactor *f)
{
    const int64_t fit = n->staged / pieces_of(n, f);
    const bool has_all = (f->kept != 0 || !n->s.is_split) && (f->is_hidden || has_pieces(n, n->m->x)) &&
                         (f->kept != 0 || has_pieces(n, f->is_hidden ? n->m->r : n->m->w));
    return !has_all ? 0 : fit < f->cut.each ? fit : f->cut.each;
}

static KRef stage_address(const Tiles *n, const TileFactor *f, KRef stage, int64_t piece)
{
    const KRef number = k_expr(n->k, "$ * # + #", stage, pieces_of(n, f), piece);
    return k_expr(n->k, "($ * # + $) * # + $", number, TILE_THREADS, n->thread, TILE_BYTES, n->shared);
}

// A piece of a row of x, w or r; zeros behind its end.
static void stage_piece(const Tiles *n, NodeId id, KRef base, KRef from, KRef to)
{
    Kernel *k = n->k;
    const Node *node = lower_node(n->l, id);
    const int64_t size = node->shape->dim[node->shape->rank - 1];
    const KRef is_in = k_expr(k, "$ < #", from, size);
    const KRef index = k_add(k, base, k_select(k, is_in, from, k_index(k, 0)));
    k_device(k, KDEV_cp_async16, to, k_address(k, lower_param(n->l, id, PARAM_READ), index),
             k_select(k, is_in, k_index(k, TILE_BYTES), k_index(k, 0)));
}

static void stage_block(const Tiles *n, const TileFactor *f, KRef i, const KRef *base, KRef stage)
{
    Kernel *k = n->k;
    const KRef place = piece_place(n, &f->cut, i);
    const int64_t own = rows_staged(f), wide = f->cut.wide;
    for (int64_t row = 0; row < own; row++)
        stage_piece(n, f->is_hidden ? n->m->r : n->m->w, row_base(n, f, 2 * f->first_tile + row), place,
                    stage_address(n, f, stage, row));
    for (int64_t j = 0; j < planes_of(n, f) * wide; j++) {
        const KRef to = stage_address(n, f, stage, own + j);
        if (f->is_hidden) {
            const KRef at = k_expr(k, "$ + $ + #", base[j % wide], place, j / wide * n->padded);
            k_device(k, KDEV_cp_async16, to, k_address(k, n->hidden, at), k_index(k, TILE_BYTES));
        } else {
            stage_piece(n, n->m->x, base[j], place, to);
        }
    }
}

static void take_stage(const Tiles *n, const TileFactor *f, KRef stage, const Block *to)
{
    Kernel *k = n->k;
    const int64_t own = rows_staged(f);
    const KDevice get = n->s.pair > 1 ? KDEV_shared_get_words : KDEV_shared_get4;
    for (int64_t i = 0; i < pieces_of(n, f); i++) {
        const int64_t row = i < own ? 2 * f->first_tile + i : i - own;
        k_device(k, get, i < own ? to->weights : to->values, k_index(k, row * TILE_PIECE),
                 stage_address(n, f, stage, i));
    }
}

static void add_staged(const Tiles *n, const TileFactor *f, const KRef *base, KRef sums, int64_t stages)
{
    Kernel *k = n->k;
    const int64_t own = f->kept != 0 ? 0 : weights_of(n), each = f->cut.each;
    Block of = {own > 0 ? k_array(k, word_type(n), own) : f->kept, k_index(k, 0),
                k_array(k, word_type(n), values_of(n, f))};
    for (int64_t i = 0; i < stages; i++) {
        stage_block(n, f, k_index(k, i), base, k_index(k, i));
        k_device_with(k, KDEV_cp_async_commit, 0);
    }
    const KRef i = k_loop(k, each, f->kept != 0 ? KFOR_UNROLL : KFOR_SERIAL, "i");
    const KRef stage = k_expr(k, "$ % #", i, stages);
    k_device_with(k, KDEV_cp_async_wait, stages - 1);
    take_stage(n, f, stage, &of);
    if (stages < each) {
        k_if(k, k_expr(k, "$ + # < #", i, stages, each));
        stage_block(n, f, k_expr(k, "$ + #", i, stages), base, stage);
        k_end(k);
    }
    k_device_with(k, KDEV_cp_async_commit, 0);
    of.from = f->kept != 0 ? k_expr(k, "$ * #", i, weights_of(n)) : of.from;
    add_block(n, f, &of, sums);
    k_end(k);
}

// All blocks of a warp: where pieces cannot be staged, each is fetched before it is multiplied.
static void add_blocks(const Tiles *n, const TileFactor *f, const KRef *base, KRef sums)
{
    Kernel *k = n->k;
    const int64_t own = f->kept != 0 ? 0 : weights_of(n), stages = stages_of(n, f);
    if (stages > 0) {
        add_staged(n, f, base, sums, stages);
        return;
    }
    Block of = {own > 0 ? k_array(k, word_type(n), own) : f->kept, k_index(k, 0),
                k_array(k, word_type(n), values_of(n, f))};
    const KRef i = k_loop(k, f->cut.each, f->kept != 0 ? KFOR_UNROLL : KFOR_SERIAL, "i");
    fetch_block(n, f, i, base, &of);
    of.from = f->kept != 0 ? k_expr(k, "$ * #", i, weights_of(n)) : of.from;
    add_block(n, f, &of, sums);
    k_end(k);
}

static int64_t pitch_of(const TileFactor *f)
{
    return f->cut.wide * TILE_COLUMNS + TILE_PAD;
}

// The sums of a warp, for its columns from `first` on, into shared memory.
void rnn_multiply(const Tiles *n, const TileFactor *f, KRef first)
{
    Kernel *k = n->k;
    const int64_t wide = f->cut.wide, count = rows_of(f) / 2 * wide * TILE_SUMS;
    const KRef sums = k_array(k, DTYPE_f32, count), quad = k_expr(k, "$ / #", n->lane, TILE_QUAD);
    for (int64_t i = 0; i < count; i++)
        k_astore(k, sums, k_index(k, i), k_number(k, DTYPE_f32, 0));
    KRef base[TILE_MOST];
    for (int64_t j = 0; j < wide; j++)
        base[j] = column_base(n, f,
                              k_expr(k, "$ + $ / # * # + # + $", first, n->warp, f->cut.split,
                                     wide * TILE_COLUMNS, j * TILE_COLUMNS, quad));
    add_blocks(n, f, base, sums);
    const KRef row = k_expr(k, "$ * # + $", n->warp, rnn_rows(n), quad);
    for (int64_t e = 0; e < count; e++) {
        const int64_t tile = f->first_tile + e / TILE_SUMS / wide;
        const int64_t down = tile * TILE_ROWS + e % TILE_SUMS / 2 * TILE_COLUMNS;
        const int64_t along = e / TILE_SUMS % wide * TILE_COLUMNS + e % 2;
        const KRef column = k_expr(k, "$ % # * 2 + #", n->lane, TILE_QUAD, along);
        k_astore(k, n->parts, k_expr(k, "($ + #) * # + $", row, down, pitch_of(f), column),
                 k_aload(k, sums, k_index(k, e), 1));
    }
}

// A sum whose parts are in shared memory: of a gate of a unit, for a column of the turn.
static KRef join_parts(const Tiles *n, const TileFactor *f, int64_t gate, KRef unit, KRef column)
{
    Kernel *k = n->k;
    const int64_t own = f->cut.wide * TILE_COLUMNS;
    const KRef row = k_expr(k, "$ / # * # + # + $", column, own, f->cut.split * rnn_rows(n),
                            gate * n->s.units, unit);
    const KRef at = k_expr(k, "$ * # + $ % #", row, pitch_of(f), column, own);
    KRef sum = 0;
    for (int64_t i = 0; i < f->cut.split; i++) {
        const KRef part = k_aload(k, n->parts, k_expr(k, "$ + #", at, i * rnn_rows(n) * pitch_of(f)), 1);
        sum = i == 0 ? part : k_add(k, sum, part);
    }
    return sum;
}

// Number i of the values of a column.
static KRef value_at(const Tiles *n, const TileFactor *f, KRef values, KRef i)
{
    Kernel *k = n->k;
    const int64_t step = f->is_hidden ? 1 : lower_loc(n->l, n->m->x)->stride[2];
    const KRef at = k_expr(k, "$ * # + $", i, step, values);
    if (n->s.is_split)
        return k_load(k, n->exact, at, 1, 1);
    if (!f->is_hidden)
        return operand_scalar(n->l, n->m->x, at, DTYPE_f32);
    const KRef first = k_cast(k, k_load(k, n->hidden, at, 1, 1), DTYPE_f32);
    const KRef rest = k_expr(k, "$ + #", at, n->padded);
    return n->planes == 1 ? first
                          : k_add(k, first, k_cast(k, k_load(k, n->hidden, rest, 1, 1), DTYPE_f32));
}

// The sum, made one by one where it is NaN: that is what parts make of infinite numbers, their own or those
// of the other factor.
static KRef mend(const Tiles *n, const TileFactor *f, int64_t gate, KRef unit, KRef column, KRef sum)
{
    Kernel *k = n->k;
    if (n->s.pair > 1 && planes_of(n, f) == 1 && !n->s.is_split)
        return sum;
    const KRef all = k_var(k, sum, "sum");
    k_if(k, k_ne(k, sum, sum));
    k_set(k, all, k_number(k, DTYPE_f32, 0));
    const KRef values = n->s.is_split ? rnn_exact_index(n, f->which, column, k_index(k, 0))
                                      : column_base(n, f, column);
    const KRef weights = weight_row(n, f->is_hidden, k_index(k, gate), rnn_unit(n, unit));
    const KRef i = k_loop(k, f->cut.size, KFOR_ROLL, "i");
    const NodeId w = f->is_hidden ? n->m->r : n->m->w;
    const KRef value = value_at(n, f, values, i);
    const KRef weight =
        operand_scalar(n->l, w, k_expr(k, "$ * # + $", i, lower_loc(n->l, w)->stride[2], weights), DTYPE_f32);
    k_set(k, all, k_fma(k, value, weight, k_get(k, all)));
    k_end(k);
    k_end(k);
    return k_get(k, all);
}

KRef rnn_sum(const Tiles *n, const TileFactor *f, int64_t sum, KRef unit, KRef column, KRef first)
{
    const int64_t gate = lstm_gate(n->m, sum, f->is_hidden);
    if (gate < 0)
        return k_number(n->k, DTYPE_f32, 0);
    KRef all = join_parts(n, f, gate, unit, column);
    if (n->s.is_split)
        all = k_mul(n->k, all, k_number(n->k, DTYPE_f32, rnn_split_factor()));
    return mend(n, f, gate, unit, k_add(n->k, first, column), all);
}
