// SPDX-License-Identifier: Apache-2.0
// lstm and gru of several entries of the batch, on GPUs with matrix units. All groups of the device walk the
// steps together, each for some units. In a step, a group multiplies its rows of weights (gates of units), which
// stay in registers where there is room, by the hidden values of all entries: warps share k, and their sums come
// together in shared memory, where a thread makes the next values of a unit of an entry. These go to all groups
// through memory, after which all wait for each other (grid_sync). Sums over inputs are made ahead for a chunk of
// steps in the same way, with the steps as further columns. Beside 16-bit weights, hidden values are two 16-bit
// numbers, the second of which is what the first one lacks; where --accuracy allows 1e-3, the first is all.
//
// What a thread has of a product's factors are words that lie side by side in memory: the order of k within a
// block is that of the threads, the same for both factors.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_split.h"
#include "passes/lower/ops/lstm_tiles.h"

typedef struct Tiles {
    const Lstm *m;
    Lower *l;
    Kernel *k;
    TileShape s;
    int type;            // of x, and of hidden values on their way
    int64_t pair, chunk; // elements of a word; steps
    int64_t padded;      // hidden values of an entry, with zeros behind them
    int64_t planes;      // numbers that a hidden value is
    bool is_grid;        // all groups are at work: else one of each set, for all units
    uint32_t hidden, words, ahead, states, counter;
    KRef parts;          // of sums, in shared memory
    KRef phase, thread, lane, warp, of_sets, cluster, rank;
    KRef block;          // of units, of all
    LstmStep at;
} Tiles;

// A factor: hidden values, or inputs.
typedef struct Factor {
    TileCut cut;
    bool is_hidden;
    KRef kept;  // weights, or 0
    KRef which; // row of hidden values
    KRef end;   // columns
} Factor;

// --- places --------------------------------------------------------------------------------------

static int64_t rows_of(const Tiles *n)
{
    return n->s.tiles * TILE_ROWS;
}

static int64_t blocks_of(const Tiles *n)
{
    return n->s.ranks * n->s.blocks;
}

// An entry of the batch, by its number in the cluster; the last one for those beyond it.
static KRef entry_of(const Tiles *n, KRef number)
{
    return k_expr(n->k, "min($ % # * # + $, #)", n->cluster, n->s.of_batch, n->s.entries, number,
                  n->m->batch - 1);
}

// A unit, by its number in the block; the last one for those beyond it.
static KRef unit_of(const Tiles *n, KRef number)
{
    return k_expr(n->k, "min($ * # + $, #)", n->block, n->s.units, number, n->m->hidden - 1);
}

static KRef is_real(const Tiles *n, KRef entry, KRef unit)
{
    return k_expr(n->k, "$ % # * # + $ < # & $ * # + $ < #", n->cluster, n->s.of_batch, n->s.entries, entry,
                  n->m->batch, n->block, n->s.units, unit, n->m->hidden);
}

// Where the first number of a hidden value is in memory, `padded` before the second; which: of two rows.
static KRef hidden_index(const Tiles *n, KRef which, KRef entry, KRef unit)
{
    const KRef row = k_expr(n->k, "($ * 2 + $) * # + $", n->of_sets, which, n->s.entries, entry);
    return k_expr(n->k, "$ * # + $", row, n->planes * n->padded, unit);
}

// The second number of an infinite value is 0.
static void store_hidden(const Tiles *n, KRef index, KRef value)
{
    Kernel *k = n->k;
    const KRef first = k_cast(k, value, n->type);
    k_store(k, n->hidden, index, first, 1);
    if (n->planes == 1)
        return;
    const KRef rest = k_sub(k, value, k_cast(k, first, DTYPE_f32));
    const KRef second = k_select(k, k_eq(k, rest, rest), rest, k_number(k, DTYPE_f32, 0));
    k_store(k, n->hidden, k_expr(k, "$ + #", index, n->padded), k_cast(k, second, n->type), 1);
}

// Where the cell of an lstm, or the hidden value of a gru, is, by the numbers of entry and unit.
static KRef state_index(const Tiles *n, KRef entry, KRef unit)
{
    const KRef row = k_expr(n->k, "($ * # + $) * # + $", n->of_sets, blocks_of(n), n->block, n->s.entries, entry);
    return k_expr(n->k, "$ * # + $", row, n->s.units, unit);
}

static KRef ahead_index(const Tiles *n, KRef step, KRef entry, KRef unit)
{
    const KRef row = k_expr(n->k, "($ * # + $) * # + $", n->of_sets, blocks_of(n), n->block, n->chunk, step);
    return k_expr(n->k, "(($ * # + $) * # + $) * #", row, n->s.entries, entry, n->s.units, unit, GATES);
}

static KRef input_row(const Tiles *n, KRef step, KRef entry)
{
    LstmStep at = n->at;
    at.entry = entry_of(n, entry);
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
    return n->pair > 1 ? DTYPE_u32 : DTYPE_f32;
}

// Can a piece be read at once, wherever it begins?
static bool has_pieces(const Tiles *n, NodeId id)
{
    const Node *node = lower_node(n->l, id);
    const Loc *loc = lower_loc(n->l, id);
    const uint32_t last = node->shape->rank - 1;
    const int64_t piece = TILE_PIECE * n->pair;
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
    for (int64_t i = 0; i < n->pair; i++) {
        const KRef at = k_expr(k, "$ + #", from, i), is_in = k_expr(k, "$ < #", at, node->shape->dim[last]);
        const KRef index = k_expr(k, "$ + $ * #", base, k_select(k, is_in, at, k_index(k, 0)),
                                  lower_loc(n->l, id)->stride[last]);
        part[i] = k_select(k, is_in, operand_scalar(n->l, id, index, DTYPE_f32), k_number(k, DTYPE_f32, 0));
    }
    return n->pair == 1 ? part[0]
                        : k_call(k, n->type == DTYPE_f16 ? KDEV_pack_f16 : KDEV_pack_bf16, part[0], part[1], 0);
}

// TILE_PIECE words of a row that begins at `base`, from element `from` on, to[at ...].
static void fetch_piece(const Tiles *n, NodeId id, KRef base, KRef from, KRef to, KRef at)
{
    Kernel *k = n->k;
    const Node *node = lower_node(n->l, id);
    const int64_t size = node->shape->dim[node->shape->rank - 1], piece = TILE_PIECE * n->pair;
    if (!has_pieces(n, id)) {
        for (int64_t i = 0; i < TILE_PIECE; i++)
            k_astore(k, to, k_expr(k, "$ + #", at, i),
                     load_word(n, id, base, k_expr(k, "$ + #", from, i * n->pair)));
        return;
    }
    const uint32_t param = n->pair > 1 ? lower_param_words(n->l, id, DTYPE_u32) : lower_param(n->l, id, PARAM_READ);
    const bool may_end = size % (TILE_WARPS * TILE_QUAD * piece) != 0;
    const KRef is_in = k_expr(k, "$ < #", from, size);
    const KRef first = may_end ? k_select(k, is_in, from, k_index(k, 0)) : from;
    k_fetch(k, param, k_expr(k, "($ + $) / #", base, first, n->pair), to, at, TILE_PIECE);
    for (int64_t i = 0; i < TILE_PIECE && may_end; i++) {
        const KRef slot = k_expr(k, "$ + #", at, i);
        k_astore(k, to, slot, k_select(k, is_in, k_aload(k, to, slot, 1), k_number(k, word_type(n), 0)));
    }
}

// The first element of a thread's piece of block i of its warp.
static KRef piece_place(const Tiles *n, const TileCut *c, KRef i)
{
    const KRef block = k_expr(n->k, "$ % # * # + $", n->warp, c->split, c->each, i);
    return k_expr(n->k, "($ * # + $ % #) * #", block, TILE_QUAD, n->lane, TILE_QUAD, TILE_PIECE * n->pair);
}

// Weights of block i for all tiles, two rows of each.
static void fetch_weights(const Tiles *n, const Factor *f, KRef i, KRef to, KRef at)
{
    Kernel *k = n->k;
    const KRef place = piece_place(n, &f->cut, i), last = k_index(k, lstm_gates(n->m) - 1);
    for (int64_t row = 0; row < 2 * n->s.tiles; row++) {
        const KRef number = k_expr(k, "$ / # + #", n->lane, TILE_QUAD, row * TILE_COLUMNS);
        const KRef gate = k_expr(k, "min($ / #, $)", number, n->s.units, last);
        const KRef unit = unit_of(n, k_expr(k, "$ % #", number, n->s.units));
        fetch_piece(n, f->is_hidden ? n->m->r : n->m->w, weight_row(n, f->is_hidden, gate, unit), place, to,
                    k_expr(k, "$ + #", at, row * TILE_PIECE));
    }
}

static void keep_weights(const Tiles *n, Factor *f)
{
    Kernel *k = n->k;
    const int64_t each = 2 * n->s.tiles * TILE_PIECE;
    f->kept = f->cut.is_kept && n->is_grid ? k_array(k, word_type(n), f->cut.each * each) : 0;
    if (f->kept == 0)
        return;
    const KRef i = k_loop(k, f->cut.each, KFOR_UNROLL, "i");
    fetch_weights(n, f, i, f->kept, k_expr(k, "$ * #", i, each));
    k_end(k);
}

// Where a column's values begin; columns are entries, or entries of steps.
static KRef column_base(const Tiles *n, const Factor *f, KRef column)
{
    Kernel *k = n->k;
    const KRef real = k_expr(k, "min($, $ - 1)", column, f->end);
    if (f->is_hidden)
        return hidden_index(n, f->which, real, k_index(k, 0));
    return input_row(n, k_expr(k, "$ / #", real, n->s.entries), k_expr(k, "$ % #", real, n->s.entries));
}

static int64_t planes_of(const Tiles *n, const Factor *f)
{
    return f->is_hidden ? n->planes : 1;
}

// Pieces of all columns, of one plane after the other.
static void fetch_values(const Tiles *n, const Factor *f, KRef i, const KRef *base, KRef to)
{
    Kernel *k = n->k;
    const KRef place = piece_place(n, &f->cut, i);
    const int64_t wide = f->cut.wide;
    for (int64_t j = 0; j < planes_of(n, f) * wide; j++) {
        const KRef at = k_index(k, j * TILE_PIECE), from = base[j % wide];
        if (f->is_hidden)
            k_fetch(k, n->pair > 1 ? n->words : n->hidden,
                    k_expr(k, "($ + $ + #) / #", from, place, j / wide * n->padded, n->pair), to, at, TILE_PIECE);
        else
            fetch_piece(n, n->m->x, from, place, to, at);
    }
}

// --- products ------------------------------------------------------------------------------------

static GpuSplit split(const Tiles *n, KRef words, int64_t count)
{
    if (n->pair > 1)
        return (GpuSplit){.high = words};
    return gpu_split_products(n->l) > 1 ? gpu_split_words(n->k, words, count)
                                        : (GpuSplit){.high = gpu_split_round(n->k, words, count)};
}

static void multiply_words(const Tiles *n, KRef sums, KRef at, const GpuSplit *a, const GpuSplit *b, KRef of_b)
{
    Kernel *k = n->k;
    if (a->low != 0)
        gpu_split_multiply(k, sums, at, a, b, of_b);
    else
        k_device(k,
                 n->pair == 1         ? KDEV_mma_tf32
                 : n->type == DTYPE_f16 ? KDEV_mma_f16
                                        : KDEV_mma_bf16,
                 sums, at, a->high, k_index(k, 0), b->high, of_b);
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

static void add_block(const Tiles *n, const Factor *f, KRef i, const KRef *base, KRef sums)
{
    Kernel *k = n->k;
    const int64_t each = 2 * n->s.tiles * TILE_PIECE, wide = f->cut.wide;
    const int64_t planes = planes_of(n, f);
    const KRef values = k_array(k, word_type(n), planes * wide * TILE_PIECE);
    fetch_values(n, f, i, base, values);
    const KRef weights = f->kept != 0 ? f->kept : k_array(k, word_type(n), each);
    const KRef from = f->kept != 0 ? k_expr(k, "$ * #", i, each) : k_index(k, 0);
    if (f->kept == 0)
        fetch_weights(n, f, i, weights, from);
    for (int64_t part = 0; part < TILE_PRODUCTS * planes; part++) {
        const int64_t half = part / planes;
        const GpuSplit b = columns_of(n, values, (planes - 1 - part % planes) * wide, wide, half);
        for (int64_t tile = 0; tile < n->s.tiles; tile++) {
            const GpuSplit a = rows_at(n, weights, from, tile, half);
            for (int64_t j = 0; j < wide; j++)
                multiply_words(n, sums, k_index(k, (tile * wide + j) * TILE_SUMS), &a, &b, k_index(k, 2 * j));
        }
    }
}

static int64_t pitch_of(const Factor *f)
{
    return f->cut.wide * TILE_COLUMNS + TILE_PAD;
}

// The sums of a warp, for its columns from `first` on, into shared memory.
static void multiply(const Tiles *n, const Factor *f, KRef first)
{
    Kernel *k = n->k;
    const int64_t wide = f->cut.wide, count = n->s.tiles * wide * TILE_SUMS;
    const KRef sums = k_array(k, DTYPE_f32, count), quad = k_expr(k, "$ / #", n->lane, TILE_QUAD);
    for (int64_t i = 0; i < count; i++)
        k_astore(k, sums, k_index(k, i), k_number(k, DTYPE_f32, 0));
    KRef base[TILE_MOST];
    for (int64_t j = 0; j < wide; j++)
        base[j] = column_base(n, f,
                              k_expr(k, "$ + $ / # * # + # + $", first, n->warp, f->cut.split,
                                     wide * TILE_COLUMNS, j * TILE_COLUMNS, quad));
    const KRef i = k_loop(k, f->cut.each, f->kept != 0 ? KFOR_UNROLL : KFOR_SERIAL, "i");
    add_block(n, f, i, base, sums);
    k_end(k);
    const KRef row = k_expr(k, "$ * # + $", n->warp, rows_of(n), quad);
    for (int64_t e = 0; e < count; e++) {
        const int64_t down = e / TILE_SUMS / wide * TILE_ROWS + e % TILE_SUMS / 2 * TILE_COLUMNS;
        const int64_t along = e / TILE_SUMS % wide * TILE_COLUMNS + e % 2;
        const KRef column = k_expr(k, "$ % # * 2 + #", n->lane, TILE_QUAD, along);
        k_astore(k, n->parts, k_expr(k, "($ + #) * # + $", row, down, pitch_of(f), column),
                 k_aload(k, sums, k_index(k, e), 1));
    }
}

// A sum whose parts are in shared memory: of a gate of a unit, for a column of the turn.
static KRef join_parts(const Tiles *n, const Factor *f, int64_t gate, KRef unit, KRef column)
{
    Kernel *k = n->k;
    const int64_t own = f->cut.wide * TILE_COLUMNS;
    const KRef row = k_expr(k, "$ / # * # + # + $", column, own, f->cut.split * rows_of(n), gate * n->s.units, unit);
    const KRef at = k_expr(k, "$ * # + $ % #", row, pitch_of(f), column, own);
    KRef sum = 0;
    for (int64_t i = 0; i < f->cut.split; i++) {
        const KRef part = k_aload(k, n->parts, k_expr(k, "$ + #", at, i * rows_of(n) * pitch_of(f)), 1);
        sum = i == 0 ? part : k_add(k, sum, part);
    }
    return sum;
}

// The sum, made one by one where it is NaN: that is what parts of infinite numbers make.
static KRef mend(const Tiles *n, const Factor *f, int64_t gate, KRef unit, KRef column, KRef sum)
{
    Kernel *k = n->k;
    if (n->pair > 1)
        return sum;
    const KRef all = k_var(k, sum, "sum");
    k_if(k, k_ne(k, sum, sum));
    k_set(k, all, k_number(k, DTYPE_f32, 0));
    const KRef values = column_base(n, f, column);
    const KRef weights = weight_row(n, f->is_hidden, k_index(k, gate), unit_of(n, unit));
    const KRef i = k_loop(k, f->cut.size, KFOR_ROLL, "i");
    const NodeId w = f->is_hidden ? n->m->r : n->m->w;
    const int64_t step = f->is_hidden ? 1 : lower_loc(n->l, n->m->x)->stride[2];
    const KRef at = k_expr(k, "$ * # + $", i, step, values);
    const KRef value = f->is_hidden ? k_load(k, n->hidden, at, 1, 1) : operand_scalar(n->l, n->m->x, at, DTYPE_f32);
    const KRef weight =
        operand_scalar(n->l, w, k_expr(k, "$ * # + $", i, lower_loc(n->l, w)->stride[2], weights), DTYPE_f32);
    k_set(k, all, k_fma(k, value, weight, k_get(k, all)));
    k_end(k);
    k_end(k);
    return k_get(k, all);
}

static KRef sum_of(const Tiles *n, const Factor *f, int64_t sum, KRef unit, KRef column, KRef first)
{
    const int64_t gate = lstm_gate(n->m, sum, f->is_hidden);
    if (gate < 0)
        return k_number(n->k, DTYPE_f32, 0);
    const KRef all = join_parts(n, f, gate, unit, column);
    return mend(n, f, gate, unit, k_add(n->k, first, column), all);
}

// --- turns of a group ----------------------------------------------------------------------------

// What a thread makes of a turn: number `turn` of its values, of a unit and a column.
typedef struct Spot {
    KRef unit, column, is_in;
} Spot;

static int64_t spots_of(const Tiles *n, const Factor *f)
{
    return ceil_div(f->cut.columns * n->s.units, TILE_THREADS);
}

static Spot spot_of(const Tiles *n, const Factor *f, KRef first, KRef turn)
{
    Kernel *k = n->k;
    const KRef i = k_expr(k, "$ * # + $", turn, TILE_THREADS, n->thread);
    Spot s = {.unit = k_expr(k, "$ % #", i, n->s.units), .column = k_expr(k, "$ / #", i, n->s.units)};
    const KRef entry = k_expr(k, "($ + $) % #", first, s.column, n->s.entries);
    s.is_in = k_and(k, k_expr(k, "$ < # & $ + $ < $", i, f->cut.columns * n->s.units, first, s.column, f->end),
                    is_real(n, entry, s.unit));
    return s;
}

static Units units_at(const Tiles *n, KRef unit)
{
    return (Units){.first = unit_of(n, unit), .vectors = 1, .last_count = 1};
}

// Sums over inputs, with the bias, for columns from `first` on.
static void store_ahead(const Tiles *n, const Factor *f, KRef first)
{
    Kernel *k = n->k;
    const KRef turn = k_loop(k, spots_of(n, f), KFOR_SERIAL, "turn");
    const Spot s = spot_of(n, f, first, turn);
    k_if(k, s.is_in);
    const Units u = units_at(n, s.unit);
    const KRef column = k_add(k, first, s.column), sums = k_array(k, DTYPE_f32, GATES);
    for (uint32_t g = 0; g < GATES; g++) {
        const KRef sum = sum_of(n, f, g, s.unit, s.column, first);
        k_astore(k, sums, k_index(k, g),
                 n->m->b != 0 ? k_add(k, sum, lstm_row(n->l, &n->at, &u, n->m->b, g, 0)) : sum);
    }
    k_put(k, n->ahead,
          ahead_index(n, k_expr(k, "$ / #", column, n->s.entries), k_expr(k, "$ % #", column, n->s.entries), s.unit),
          sums, k_index(k, 0), GATES);
    k_end(k);
    k_end(k);
}

// What a value needs beside the sums over hidden values, on its way while these are made.
typedef struct Early {
    KRef sums, states; // by turn
} Early;

static Early fetch_early(const Tiles *n, const Factor *f, KRef first, KRef step)
{
    Kernel *k = n->k;
    const int64_t turns = spots_of(n, f);
    const Early e = {k_array(k, DTYPE_f32, turns * GATES), k_array(k, DTYPE_f32, turns)};
    const KRef turn = k_loop(k, turns, KFOR_UNROLL, "turn");
    const Spot s = spot_of(n, f, first, turn);
    k_if(k, s.is_in);
    const KRef entry = k_add(k, first, s.column);
    k_fetch(k, n->ahead, ahead_index(n, step, entry, s.unit), e.sums, k_expr(k, "$ * #", turn, GATES), GATES);
    k_astore(k, e.states, turn, k_load(k, n->states, state_index(n, entry, s.unit), 1, 1));
    k_end(k);
    k_end(k);
    return e;
}

static void store_result(const Tiles *n, NodeId id, KRef unit, KRef value)
{
    if (id == 0)
        return;
    k_store(n->k, lower_param(n->l, id, PARAM_WRITE), lstm_state_index(n->l, &n->at, id, 0, unit),
            k_cast(n->k, value, lower_node(n->l, id)->dtype), 1);
}

static void store_value(const Tiles *n, KRef time, KRef unit, KRef value)
{
    const Lstm *m = n->m;
    Point at = {.lanes = 1, .count = 1, .vec_axis = 3};
    at.idx[0] = m->batch_major ? n->at.entry : time;
    at.idx[1] = m->batch_major ? time : n->at.dir;
    at.idx[2] = m->batch_major ? n->at.dir : n->at.entry;
    at.idx[3] = unit;
    pull_store_root(n->l, &m->d, at, k_cast(n->k, value, lower_node(n->l, n->l->anchor)->dtype));
}

// The next values of a unit of an entry at step t.
static void make_value(const Tiles *n, const Spot *s, KRef entry, KRef t, KRef *sum, KRef old)
{
    Kernel *k = n->k;
    const Lstm *m = n->m;
    Tiles at = *n;
    at.at.entry = entry_of(n, entry);
    const Units u = units_at(n, s->unit);
    const KRef hidden = m->is_gru ? gru_hidden(k, sum, old) : lstm_hidden(n->l, &at.at, &u, 0, sum, &old);
    const KRef next = k_expr(k, "1 - $ % 2", t);
    store_hidden(n, hidden_index(n, next, entry, u.first), hidden);
    k_store(k, n->states, state_index(n, entry, s->unit), m->is_gru ? hidden : old, 1);
    store_value(&at, lstm_time_of(n->l, &n->at, t), u.first, hidden);
    if (m->y_h == 0 && m->y_c == 0)
        return;
    k_if(k, k_expr(k, "$ + 1 == $", t, n->at.steps));
    store_result(&at, m->y_h, u.first, hidden);
    store_result(&at, m->y_c, u.first, old);
    k_end(k);
}

static void step_turn(const Tiles *n, const Factor *f, KRef first, KRef t)
{
    Kernel *k = n->k;
    const Early e = fetch_early(n, f, first, k_sub(k, t, n->at.chunk));
    multiply(n, f, first);
    k_barrier(k);
    const KRef turn = k_loop(k, spots_of(n, f), KFOR_UNROLL, "turn");
    const Spot s = spot_of(n, f, first, turn);
    k_if(k, s.is_in);
    KRef sum[GATES];
    for (int64_t g = 0; g < GATES; g++)
        sum[g] = k_add(k, sum_of(n, f, g, s.unit, s.column, first),
                       k_aload(k, e.sums, k_expr(k, "$ * # + #", turn, GATES, g), 1));
    make_value(n, &s, k_add(k, first, s.column), t, sum, k_aload(k, e.states, turn, 1));
    k_end(k);
    k_end(k);
    k_barrier(k);
}

// --- the kernel ----------------------------------------------------------------------------------

static KRef open_blocks(Tiles *n)
{
    const int64_t count = n->is_grid ? n->s.blocks : blocks_of(n);
    const KRef i = k_loop(n->k, count, KFOR_SERIAL, "block");
    n->block = n->is_grid ? k_expr(n->k, "$ * # + $", n->rank, n->s.blocks, i) : i;
    return i;
}

static void sync(const Tiles *n)
{
    if (n->is_grid)
        k_device(n->k, KDEV_grid_sync, n->phase, k_address(n->k, n->counter, k_index(n->k, 0)));
    else
        k_barrier(n->k);
}

static KRef first_value(const Tiles *n, NodeId id, const LstmStep *at, KRef unit)
{
    if (id == 0)
        return k_number(n->k, DTYPE_f32, 0);
    return operand_scalar(n->l, id, lstm_state_index(n->l, at, id, 0, unit), DTYPE_f32);
}

// Zeros behind the last unit, in both rows.
static void clear_ends(const Tiles *n)
{
    Kernel *k = n->k;
    const int64_t beyond = n->padded - n->m->hidden;
    if (beyond == 0)
        return;
    k_if(k, k_expr(k, "$ == 0", n->rank));
    const KRef i = k_for(k, n->thread, k_index(k, 2 * n->s.entries * beyond), k->group, KFOR_SERIAL, "i");
    const KRef row = k_expr(k, "$ / #", i, beyond);
    const KRef at = hidden_index(n, k_expr(k, "$ / #", row, n->s.entries), k_expr(k, "$ % #", row, n->s.entries),
                                 k_expr(k, "$ % # + #", i, beyond, n->m->hidden));
    store_hidden(n, at, k_number(k, DTYPE_f32, 0));
    k_end(k);
    k_end(k);
}

// The first hidden values and cells of a block, and zeros of entries that there are not; the results where no
// step is made.
static void begin_states(const Tiles *n)
{
    Kernel *k = n->k;
    const Lstm *m = n->m;
    const KRef i = k_for(k, n->thread, k_index(k, n->s.entries * n->s.units), k->group, KFOR_SERIAL, "i");
    const KRef unit = k_expr(k, "$ % #", i, n->s.units), entry = k_expr(k, "$ / #", i, n->s.units);
    k_if(k, k_expr(k, "$ * # + $ < #", n->block, n->s.units, unit, m->hidden));
    Tiles at = *n;
    at.at.entry = entry_of(n, entry);
    const KRef real = unit_of(n, unit), hidden = first_value(n, m->h0, &at.at, real);
    const KRef cell = m->is_gru ? hidden : first_value(n, m->c0, &at.at, real);
    store_hidden(n, hidden_index(n, k_index(k, 0), entry, real), hidden);
    store_hidden(n, hidden_index(n, k_index(k, 1), entry, real), k_number(k, DTYPE_f32, 0));
    k_store(k, n->states, state_index(n, entry, unit), cell, 1);
    if (m->steps != 0) {
        k_if(k, is_real(n, entry, unit));
        store_result(&at, m->y_h, real, hidden);
        store_result(&at, m->y_c, real, cell);
        k_end(k);
    }
    k_end(k);
    k_end(k);
}

// Steps that are not made leave zeros.
static void clear_rest(const Tiles *n)
{
    Kernel *k = n->k;
    const KRef time = k_for(k, n->at.steps, k_index(k, n->m->seq), 1, KFOR_SERIAL, "t");
    const KRef i = k_for(k, n->thread, k_index(k, n->s.entries * n->s.units), k->group, KFOR_SERIAL, "i");
    const KRef unit = k_expr(k, "$ % #", i, n->s.units), entry = k_expr(k, "$ / #", i, n->s.units);
    Tiles at = *n;
    at.at.entry = entry_of(n, entry);
    k_if(k, is_real(n, entry, unit));
    store_value(&at, time, unit_of(n, unit), k_number(k, DTYPE_f32, 0));
    k_end(k);
    k_end(k);
    k_end(k);
}

static void sum_ahead(Tiles *n)
{
    Kernel *k = n->k;
    open_blocks(n);
    Factor f = {.cut = tile_cut(n->l, n->m, &n->s, n->m->input, n->chunk * n->s.entries),
                .end = k_expr(k, "$ * #", n->at.end, n->s.entries)};
    keep_weights(n, &f);
    const KRef first = k_for(k, k_index(k, 0), f.end, f.cut.columns, KFOR_SERIAL, "column");
    multiply(n, &f, first);
    k_barrier(k);
    store_ahead(n, &f, first);
    k_barrier(k);
    k_end(k);
    k_end(k);
}

static void walk_steps(Tiles *n)
{
    Kernel *k = n->k;
    n->at.chunk = k_for(k, k_index(k, 0), n->at.steps, n->chunk, KFOR_SERIAL, "chunk");
    n->at.end = k_expr(k, "min($ - $, #)", n->at.steps, n->at.chunk, n->chunk);
    sum_ahead(n);
    Factor f = {.cut = tile_cut(n->l, n->m, &n->s, n->m->hidden, n->s.entries),
                .is_hidden = true,
                .end = k_index(k, n->s.entries)};
    n->block = n->rank;
    keep_weights(n, &f);
    const KRef t = k_for(k, n->at.chunk, k_add(k, n->at.chunk, n->at.end), 1, KFOR_SERIAL, "t");
    f.which = k_expr(k, "$ % 2", t);
    open_blocks(n);
    const KRef first = k_for(k, k_index(k, 0), f.end, f.cut.columns, KFOR_SERIAL, "column");
    step_turn(n, &f, first, t);
    k_end(k);
    k_end(k);
    sync(n);
    k_end(k);
    k_end(k);
}

// What the groups do that are at work.
static void emit_way(Tiles *n)
{
    Kernel *k = n->k;
    k_wait(k);
    const KRef set = k_loop(k, n->s.sets, KFOR_SERIAL, "set");
    n->cluster = k_expr(k, "$ * # + $", n->of_sets, n->s.sets, set);
    n->at = (LstmStep){.m = n->m, .entries = 1, .dir = k_expr(k, "$ / #", n->cluster, n->s.of_batch)};
    n->at.steps = lstm_steps_made(n->l, n->m);
    clear_ends(n);
    open_blocks(n);
    begin_states(n);
    k_end(k);
    sync(n);
    walk_steps(n);
    if (n->m->steps != 0) {
        open_blocks(n);
        clear_rest(n);
        k_end(k);
    }
    k_end(k);
}

// Memory through which groups hand over hidden values, and what each has to itself.
static void make_memory(Tiles *n)
{
    Lower *l = n->l;
    const TileShape *s = &n->s;
    const int64_t sets = s->clusters / s->sets, own = sets * blocks_of(n) * s->entries * s->units;
    n->counter = lower_param_counter(l, "steps", 1);
    n->hidden = lower_param_scratch(l, "hidden", (DType)n->type, 
                                    (uint64_t)(sets * 2 * s->entries * n->planes * n->padded));
    n->words = n->pair > 1 ? lower_param_view(l, n->hidden, DTYPE_u32) : 0;
    n->states = lower_param_scratch(l, "states", DTYPE_f32, (uint64_t)own);
    const int64_t step = own * GATES, room = l->caps->gpu->l2_bytes / 4 / (step * (int64_t)sizeof(float));
    const int64_t chunks = ceil_div(n->m->seq, room < 1 ? 1 : room);
    n->chunk = ceil_div(n->m->seq, chunks);
    n->ahead = lower_param_scratch(l, "sums ahead", DTYPE_f32, (uint64_t)(step * n->chunk));
}

bool lstm_tiles(Lower *l, const Lstm *m)
{
    Tiles n = {.m = m, .l = l, .k = l->k, .type = lower_node(l, m->x)->dtype, .pair = tile_pair(l, m)};
    if (l->caps->shared_bytes == 0 || !lstm_tiles_choose(l, m, &n.s))
        return false;
    Kernel *k = l->k;
    const TileCut cut = tile_cut(l, m, &n.s, m->hidden, n.s.entries);
    n.padded = cut.split * cut.each * TILE_BLOCK * n.pair;
    n.planes = tile_planes(l, m);
    make_memory(&n);
    const int64_t groups = n.s.clusters / n.s.sets * n.s.ranks;
    const int64_t pitch = tile_most_wide(&n.s) * TILE_COLUMNS + TILE_PAD;
    rlx_assert(groups >= 1 && groups <= UINT16_MAX);
    k->resident = (uint16_t)groups;
    k_set_group(k, TILE_THREADS);
    n.parts = k_shared(k, DTYPE_f32, TILE_WARPS * rows_of(&n) * pitch);
    const KRef group = k_for_group(k, groups, "group");
    n.thread = k_thread(k);
    n.lane = k_expr(k, "$ % #", n.thread, TILE_LANES);
    n.warp = k_expr(k, "$ / #", n.thread, TILE_LANES);
    n.of_sets = k_expr(k, "$ / #", group, n.s.ranks);
    n.rank = k_expr(k, "$ % #", group, n.s.ranks);
    n.phase = k_var(k, k_index(k, -1), "phase");
    n.is_grid = true;
    k_if(k, k_call(k, KDEV_has_grid, k_index(k, groups), 0, 0));
    emit_way(&n);
    k_else(k);
    k_if(k, k_expr(k, "$ == 0", n.rank));
    n.is_grid = false;
    emit_way(&n);
    k_end(k);
    k_end(k);
    k_end(k);
    return true;
}
