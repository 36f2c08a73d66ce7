// SPDX-License-Identifier: Apache-2.0
// lstm, gru and rnn of several entries of the batch, on GPUs with matrix units. All groups of the device walk
// the steps together, each for some units. In a step, a group multiplies its rows of weights (gates of
// units), which stay in registers where there is room, by the hidden values of all entries: warps share k,
// and their sums come together in shared memory, where a thread makes the next values of a unit of an
// entry. These go to all groups through memory, after which all wait for each other (grid_sync). Sums over
// inputs are made ahead for a chunk of steps in the same way, with the steps as further columns. Beside
// 16-bit weights, hidden values are two 16-bit numbers, the second of which is what the first one lacks;
// where --accuracy allows 1e-3, the first is all.
#include "ir/kernel/device.h"
#include "passes/lower/ops/lstm_tiles.h"

// --- places --------------------------------------------------------------------------------------

static KRef is_real(const Tiles *n, KRef entry, KRef unit)
{
    return k_expr(n->k, "$ % # * # + $ < # & $ * # + $ < #", n->cluster, n->s.of_batch, n->s.entries, entry,
                  n->m->batch, n->block, n->s.units, unit, n->m->hidden);
}

// Where the cell of an lstm, or the hidden value of a gru, is, by the numbers of entry and unit.
static KRef state_index(const Tiles *n, KRef entry, KRef unit)
{
    const KRef block = k_expr(n->k, "$ * # + $", n->of_sets, rnn_blocks(n), n->block);
    const KRef row = k_expr(n->k, "$ * # + $", block, n->s.entries, entry);
    return k_expr(n->k, "$ * # + $", row, n->s.units, unit);
}

static KRef ahead_index(const Tiles *n, KRef step, KRef entry, KRef unit)
{
    const KRef block = k_expr(n->k, "$ * # + $", n->of_sets, rnn_blocks(n), n->block);
    const KRef row = k_expr(n->k, "$ * # + $", block, n->chunk, step);
    return k_expr(n->k, "(($ * # + $) * # + $) * #", row, n->s.entries, entry, n->s.units, unit,
                  n->m->cell->sums);
}

// --- turns of a group ----------------------------------------------------------------------------

// What a thread makes of a turn: number `turn` of its values, of a unit and a column.
typedef struct Spot {
    KRef unit, column, is_in;
} Spot;

static int64_t spots_of(const Tiles *n, const TileFactor *f)
{
    return ceil_div(f->cut.columns * n->s.units, TILE_THREADS);
}

static Spot spot_of(const Tiles *n, const TileFactor *f, KRef first, KRef turn)
{
    Kernel *k = n->k;
    const KRef i = k_expr(k, "$ * # + $", turn, TILE_THREADS, n->thread);
    Spot s = {.unit = k_expr(k, "$ % #", i, n->s.units), .column = k_expr(k, "$ / #", i, n->s.units)};
    const KRef entry = k_expr(k, "($ + $) % #", first, s.column, n->s.entries);
    const KRef is_of_turn = k_expr(k, "$ < #", i, f->cut.columns * n->s.units);
    s.is_in = k_and(k, k_and(k, is_of_turn, k_expr(k, "$ + $ < $", first, s.column, f->end)),
                    is_real(n, entry, s.unit));
    return s;
}

static Units units_at(const Tiles *n, KRef unit)
{
    return (Units){.first = rnn_unit(n, unit), .vectors = 1, .last_count = 1};
}

// Sums over inputs, with the bias, for columns from `first` on.
static void store_ahead(const Tiles *n, const TileFactor *f, KRef first)
{
    Kernel *k = n->k;
    const KRef turn = k_loop(k, spots_of(n, f), KFOR_SERIAL, "turn");
    const Spot s = spot_of(n, f, first, turn);
    k_if(k, s.is_in);
    const Units u = units_at(n, s.unit);
    const KRef column = k_add(k, first, s.column), sums = k_array(k, DTYPE_f32, n->m->cell->sums);
    for (uint32_t g = 0; g < n->m->cell->sums; g++) {
        const KRef sum = rnn_sum(n, f, g, s.unit, s.column, first);
        k_astore(k, sums, k_index(k, g),
                 n->m->b != 0 ? k_add(k, sum, lstm_row(n->l, &n->at, &u, n->m->b, g, 0)) : sum);
    }
    const KRef step = k_expr(k, "$ / #", column, n->s.entries);
    const KRef entry = k_expr(k, "$ % #", column, n->s.entries);
    k_put(k, n->ahead, ahead_index(n, step, entry, s.unit), sums, k_index(k, 0),
          n->m->cell->sums);
    k_end(k);
    k_end(k);
}

// What a value needs beside the sums over hidden values, on its way while these are made.
typedef struct Early {
    KRef sums, states, waiting; // by turn
} Early;

static LstmStep step_of(const Tiles *n, KRef entry, KRef t)
{
    LstmStep at = n->at;
    at.entry = rnn_entry(n, entry);
    at.time = lstm_time_of(n->l, &n->at, t);
    return at;
}

// Sums over inputs of step t.
static void fetch_sums(const Tiles *n, const Spot *s, KRef entry, KRef t, KRef to, KRef from)
{
    Kernel *k = n->k;
    const uint8_t count = n->m->cell->sums;
    if (n->m->sums == 0) {
        const KRef step = k_sub(k, t, n->at.chunk);
        k_fetch(k, n->ahead, ahead_index(n, step, entry, s->unit), to, from, count);
        return;
    }
    const LstmStep at = step_of(n, entry, t);
    const Units u = units_at(n, s->unit);
    for (int64_t g = 0; g < count; g++)
        if (lstm_in_phase(n->m, g, n->at.phase))
            k_astore(k, to, k_expr(k, "$ + #", from, g), lstm_sum_before(n->l, &at, &u, g));
}

static Early fetch_early(const Tiles *n, const TileFactor *f, KRef first, KRef t)
{
    Kernel *k = n->k;
    const int64_t turns = spots_of(n, f);
    const uint8_t count = n->m->cell->sums;
    const bool has_waiting = n->at.phase > 0;
    const Early e = {k_array(k, DTYPE_f32, turns * count), k_array(k, DTYPE_f32, turns),
                     has_waiting ? k_array(k, DTYPE_f32, turns) : 0};
    const KRef turn = k_loop(k, turns, KFOR_UNROLL, "turn");
    const Spot s = spot_of(n, f, first, turn);
    k_if(k, s.is_in);
    const KRef entry = k_add(k, first, s.column);
    fetch_sums(n, &s, entry, t, e.sums, k_expr(k, "$ * #", turn, count));
    const KRef state = state_index(n, entry, s.unit);
    k_astore(k, e.states, turn, k_load(k, n->states, state, 1, 1));
    if (has_waiting)
        k_astore(k, e.waiting, turn, k_load(k, n->waiting, state, 1, 1));
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

// The next values of a unit of an entry at step t.
static void make_value(const Tiles *n, const TileFactor *f, const Spot *s, KRef entry, KRef t, KRef *sum,
                       KRef state)
{
    Kernel *k = n->k;
    const Lstm *m = n->m;
    Tiles at = *n;
    at.at.entry = rnn_entry(n, entry);
    const Units u = units_at(n, s->unit);
    const KRef next = k_expr(k, "1 - $", f->which);
    if (!lstm_is_last(m, n->at.phase)) {
        KRef z;
        rnn_store_hidden(n, next, entry, u.first, lstm_reset(n->l, m, sum, state, &z));
        k_store(k, n->waiting, state_index(n, entry, s->unit), z, 1);
        return;
    }
    const KRef hidden = lstm_hidden(n->l, &at.at, &u, 0, sum, &state);
    rnn_store_hidden(n, next, entry, u.first, hidden);
    k_store(k, n->states, state_index(n, entry, s->unit), state, 1);
    lstm_store_value(at.l, &at.at, lstm_time_of(n->l, &n->at, t), u.first, hidden);
    if (m->y_h == 0 && m->y_c == 0)
        return;
    k_if(k, k_expr(k, "$ + 1 == $", t, n->at.steps));
    store_result(&at, m->y_h, u.first, hidden);
    store_result(&at, m->y_c, u.first, state);
    k_end(k);
}

static void step_turn(const Tiles *n, const TileFactor *f, KRef first, KRef t)
{
    Kernel *k = n->k;
    const int64_t count = n->m->cell->sums;
    const Early e = fetch_early(n, f, first, t);
    rnn_multiply(n, f, first);
    k_barrier(k);
    const KRef turn = k_loop(k, spots_of(n, f), KFOR_UNROLL, "turn");
    const Spot s = spot_of(n, f, first, turn);
    k_if(k, s.is_in);
    KRef sum[GATES] = {0};
    for (int64_t g = 0; g < count; g++)
        if (lstm_in_phase(n->m, g, n->at.phase))
            sum[g] = k_aload(k, e.sums, k_expr(k, "$ * # + #", turn, count, g), 1);
    if (n->m->sums != 0) {
        const LstmStep at = step_of(n, k_add(k, first, s.column), t);
        const Units u = units_at(n, s.unit);
        lstm_mend_sums(n->l, &at, &u, sum);
    }
    for (int64_t g = 0; g < count; g++)
        sum[g] = sum[g] == 0 ? 0 : k_add(k, rnn_sum(n, f, g, s.unit, s.column, first), sum[g]);
    if (n->at.phase > 0)
        sum[GATE_Z] = k_aload(k, e.waiting, turn, 1);
    make_value(n, f, &s, k_add(k, first, s.column), t, sum, k_aload(k, e.states, turn, 1));
    k_end(k);
    k_end(k);
    k_barrier(k);
}

// --- the kernel ----------------------------------------------------------------------------------

static KRef open_blocks(Tiles *n)
{
    const int64_t count = n->is_grid ? n->s.blocks : rnn_blocks(n);
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
    const KRef which = k_expr(k, "$ / #", row, n->s.entries), entry = k_expr(k, "$ % #", row, n->s.entries);
    const KRef unit = k_expr(k, "$ % # + #", i, beyond, n->m->hidden);
    rnn_store_hidden(n, which, entry, unit, k_number(k, DTYPE_f32, 0));
    k_end(k);
    k_end(k);
}

// The first hidden values and cells of a block, and zeros of entries that there are not; the results where
// no step is made.
static void begin_states(const Tiles *n)
{
    Kernel *k = n->k;
    const Lstm *m = n->m;
    const KRef i = k_for(k, n->thread, k_index(k, n->s.entries * n->s.units), k->group, KFOR_SERIAL, "i");
    const KRef unit = k_expr(k, "$ % #", i, n->s.units), entry = k_expr(k, "$ / #", i, n->s.units);
    k_if(k, k_expr(k, "$ * # + $ < #", n->block, n->s.units, unit, m->hidden));
    Tiles at = *n;
    at.at.entry = rnn_entry(n, entry);
    const KRef real = rnn_unit(n, unit), hidden = first_value(n, m->h0, &at.at, real);
    const KRef state = m->is_lstm ? first_value(n, m->c0, &at.at, real) : hidden;
    rnn_store_hidden(n, k_index(k, 0), entry, real, hidden);
    rnn_store_hidden(n, k_index(k, 1), entry, real, k_number(k, DTYPE_f32, 0));
    k_store(k, n->states, state_index(n, entry, unit), state, 1);
    if (m->steps != 0) {
        k_if(k, is_real(n, entry, unit));
        store_result(&at, m->y_h, real, hidden);
        store_result(&at, m->y_c, real, state);
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
    at.at.entry = rnn_entry(n, entry);
    k_if(k, is_real(n, entry, unit));
    lstm_store_value(at.l, &at.at, time, rnn_unit(n, unit), k_number(k, DTYPE_f32, 0));
    k_end(k);
    k_end(k);
    k_end(k);
}

static void sum_ahead(Tiles *n)
{
    Kernel *k = n->k;
    if (n->m->sums != 0)
        return;
    open_blocks(n);
    TileFactor f = {.cut = rnn_cut(n->l, &n->s, n->m->input, n->chunk * n->s.entries),
                .end = k_expr(k, "$ * #", n->at.end, n->s.entries),
                .end_tile = n->s.tiles};
    rnn_keep_weights(n, &f);
    const KRef first = k_for(k, k_index(k, 0), f.end, f.cut.columns, KFOR_SERIAL, "column");
    rnn_multiply(n, &f, first);
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
    TileFactor f = {.cut = rnn_cut(n->l, &n->s, n->m->hidden, n->s.entries),
                .is_hidden = true,
                .end = k_index(k, n->s.entries),
                .end_tile = n->s.tiles};
    n->block = n->rank;
    rnn_keep_weights(n, &f);
    const KRef t = k_for(k, n->at.chunk, k_add(k, n->at.chunk, n->at.end), 1, KFOR_SERIAL, "t");
    for (n->at.phase = 0; n->at.phase < n->m->cell->phases; n->at.phase++) {
        f.which = lstm_row_read(k, n->m, n->at.phase, t);
        rnn_tiles_of_phase(n->m, &n->s, n->at.phase, &f.first_tile, &f.end_tile);
        open_blocks(n);
        step_turn(n, &f, k_for(k, k_index(k, 0), f.end, f.cut.columns, KFOR_SERIAL, "column"), t);
        k_end(k);
        k_end(k);
        sync(n);
    }
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
    const int64_t sets = s->clusters / s->sets, own = sets * rnn_blocks(n) * s->entries * s->units;
    n->counter = lower_param_counter(l, "steps", 1);
    n->hidden = lower_param_scratch(l, "hidden", (DType)n->type,
                                    (uint64_t)(sets * 2 * s->entries * n->planes * n->padded));
    if (s->is_split)
        n->exact = lower_param_scratch(l, "exact", DTYPE_f32, (uint64_t)(sets * 2 * s->entries * n->padded));
    n->words = n->s.pair > 1 ? lower_param_view(l, n->hidden, DTYPE_u32) : 0;
    n->states = lower_param_scratch(l, "states", DTYPE_f32, (uint64_t)own);
    if (n->m->cell->phases > 1)
        n->waiting = lower_param_scratch(l, "waiting", DTYPE_f32, (uint64_t)own);
    n->chunk = n->m->seq;
    if (n->m->sums != 0)
        return;
    const int64_t step = own * n->m->cell->sums;
    const int64_t room = l->caps->gpu->l2_bytes / 4 / (step * (int64_t)sizeof(float));
    const int64_t chunks = ceil_div(n->m->seq, room < 1 ? 1 : room);
    n->chunk = ceil_div(n->m->seq, chunks);
    n->ahead = lower_param_scratch(l, "sums ahead", DTYPE_f32, (uint64_t)(step * n->chunk));
}

// GPUs without wgmma may have less shared memory.
static void emit_grid(Tiles *n, int64_t most)
{
    Kernel *k = n->k;
    if (most > TILE_STAGED) {
        k_if(k, k_call(k, KDEV_has_wgmma, 0, 0, 0));
        n->staged = most;
        emit_way(n);
        k_else(k);
    }
    n->staged = TILE_STAGED;
    emit_way(n);
    if (most > TILE_STAGED)
        k_end(k);
}

bool lstm_tiles(Lower *l, const Lstm *m)
{
    Tiles n = {.m = m, .l = l, .k = l->k};
    if (l->caps->shared_bytes == 0 || !lstm_tiles_choose(l, m, &n.s))
        return false;
    Kernel *k = l->k;
    n.type = n.s.is_split ? DTYPE_f16 : lower_node(l, m->x)->dtype;
    const TileCut cut = rnn_cut(l, &n.s, m->hidden, n.s.entries);
    n.padded = cut.split * cut.each * TILE_BLOCK * n.s.pair;
    n.planes = rnn_planes(l, &n.s);
    make_memory(&n);
    const int64_t groups = n.s.clusters / n.s.sets * n.s.ranks;
    rlx_assert(groups >= 1 && groups <= UINT16_MAX);
    k->resident = (uint16_t)groups;
    k_set_group(k, TILE_THREADS);
    const int64_t most = rnn_most_staged(l, &n.s, &cut);
    k_use_shared(k, (uint32_t)(most * TILE_THREADS * TILE_BYTES));
    n.parts = k_shared(k, DTYPE_f32, rnn_shared_sums(&n.s));
    const KRef group = k_for_group(k, groups, "group");
    n.thread = k_thread(k);
    n.shared = k_call(k, KDEV_shared_begin, 0, 0, 0);
    n.lane = k_expr(k, "$ % #", n.thread, TILE_LANES);
    n.warp = k_expr(k, "$ / #", n.thread, TILE_LANES);
    n.of_sets = k_expr(k, "$ / #", group, n.s.ranks);
    n.rank = k_expr(k, "$ % #", group, n.s.ranks);
    n.phase = k_var(k, k_index(k, -1), "phase");
    n.is_grid = true;
    k_if(k, k_call(k, KDEV_has_grid, k_index(k, groups), 0, 0));
    emit_grid(&n, most);
    k_else(k);
    k_if(k, k_expr(k, "$ == 0", n.rank));
    n.is_grid = false;
    emit_way(&n);
    k_end(k);
    k_end(k);
    k_end(k);
    return true;
}
