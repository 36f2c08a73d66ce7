// SPDX-License-Identifier: Apache-2.0
// lstm, gru and rnn on GPUs whose groups share memory. One cluster of groups walks the steps of some entries
// of the batch in one direction, each group for some hidden units; a group alone does all. A team of threads
// has a unit: each of them sums its part of the hidden values for all gates, with weights that stay in its
// registers where these are few enough. The hidden values of a step lie in the shared memory of every group,
// and the next ones go to all of them. Sums over inputs are made ahead for a chunk of steps, in scratch
// memory. Of a step with two phases (lstm.h), the second one has hidden values of its own, in the other of
// two rows of that memory. Accumulation: f32, each thread in rising k, then the threads of a team.
#include "ir/kernel/device.h"
#include "passes/lower/ops/lstm_group.h"

// --- hidden values -------------------------------------------------------------------------------

// Number of the value at a place of an entry; which: of the two rows.
static KRef hidden_index(const Net *n, KRef which, KRef entry, KRef place)
{
    return k_expr(n->k, "($ * # + $) * # + $", which, n->slots, entry, n->row, place);
}

static void get_hidden(const Net *n, KRef which, int64_t entry, KRef place, KRef to)
{
    Kernel *k = n->k;
    const KRef i = hidden_index(n, which, k_index(k, entry), place);
    if (n->is_raw) {
        k_device(k, KDEV_shared_get4, to, k_index(k, 0), k_expr(k, "$ * 4 + $", i, n->shared));
        return;
    }
    for (int64_t j = 0; j < PIECE; j++)
        k_astore(k, to, k_index(k, j), k_aload(k, n->memory, k_expr(k, "$ + #", i, j), 1));
}

static void put_hidden(const Net *n, KRef rank, KRef i, KRef value)
{
    Kernel *k = n->k;
    const bool is_own = n->is_raw && (n->of_grid || n->is_apart);
    const KRef own = is_own ? k_call(k, KDEV_cluster_rank, 0, 0, 0) : rank;
    if (n->is_raw)
        k_device(k, KDEV_cluster_put, k_expr(k, "$ * 4 + $", i, n->shared), own, value);
    else
        k_astore(k, n->memory, i, value);
}

// Where a hidden value is in the memory by which all groups hand them to each other.
static KRef exchange_index(const Net *n, KRef which, KRef entry, KRef unit)
{
    const KRef row = k_expr(n->k, "($ * 2 + $) * # + $", n->group_of_sets, which, n->slots, entry);
    return k_expr(n->k, "$ * # + $", row, n->units, unit);
}

// The hidden values of all groups, into the memory of this one.
static void fetch_hidden(const Net *n, KRef which)
{
    Kernel *k = n->k;
    const int64_t pieces = n->units / PIECE;
    const KRef values = k_array(k, n->m->type, PIECE), zero = k_index(k, 0);
    const KRef i = k_for(k, n->thread, k_index(k, n->slots * pieces), k->group, KFOR_SERIAL, "i");
    const KRef entry = k_expr(k, "$ / #", i, pieces), place = k_expr(k, "$ % # * #", i, pieces, PIECE);
    k_fetch(k, n->exchange, exchange_index(n, which, entry, place), values, zero, PIECE);
    const KRef to = k_expr(k, "$ * 4 + $", hidden_index(n, which, entry, place), n->shared);
    k_device(k, KDEV_shared_put4, to, values, zero);
    k_end(k);
    k_barrier(k);
}

// All groups have made their hidden values. which: their row, or 0 where there are none yet.
static void sync(const Net *n, KRef which)
{
    if (n->is_grid) {
        k_device(n->k, KDEV_grid_sync, n->phase, k_address(n->k, n->counter, k_index(n->k, 0)));
        if (which != 0)
            fetch_hidden(n, which);
    } else if (n->s.ranks > 1 && !n->is_apart)
        k_device_with(n->k, KDEV_cluster_sync, 0);
    else
        k_barrier(n->k);
}

// An entry of the batch, of a number within the cluster; the last one for those beyond it.
static KRef entry_of(const Net *n, KRef number)
{
    const KRef e = k_expr(n->k, "$ % # * # + $", n->cluster, n->of_batch, n->entries, number);
    return n->m->batch % n->entries == 0 && n->slots == n->entries
               ? e
               : k_expr(n->k, "min($, #)", e, n->m->batch - 1);
}

static KRef begin_value(const Net *n, NodeId id, KRef entry, KRef unit)
{
    LstmStep at = n->at;
    at.entry = entry;
    if (id == 0)
        return k_number(n->k, n->m->type, 0);
    return operand_scalar(n->l, id, lstm_state_index(n->l, &at, id, 0, unit), n->m->type);
}

// The first hidden values, in the memory of each group: zeros in the other row and behind the last unit.
static void begin_hidden(const Net *n)
{
    Kernel *k = n->k;
    const KRef zero = k_number(k, n->m->type, 0);
    const KRef i = k_for(k, n->thread, k_index(k, 2 * n->slots * n->row), k->group, KFOR_SERIAL, "i");
    const KRef unit = k_expr(k, "$ % #", i, n->row), entry = k_expr(k, "$ / # % #", i, n->row, n->slots);
    const KRef is_first = k_expr(k, "$ < # & $ < #", i, n->slots * n->row, unit, n->m->hidden);
    const KRef value = k_var(k, zero, "first");
    k_if(k, is_first);
    k_set(k, value, begin_value(n, n->m->h0, entry_of(n, entry), unit));
    k_end(k);
    put_hidden(n, n->rank, i, k_get(k, value));
    k_end(k);
}

// --- sums ----------------------------------------------------------------------------------------

static KRef team_sum(const Net *n, KRef v)
{
    return n->s.lanes == 1 ? v : k_team(n->k, KOP_add, v, (uint32_t)n->s.lanes);
}

// Values of a piece, weights[from ...] for them, and which row of how many they are for.
typedef struct Factors {
    KRef values, weights, from;
    int64_t row, rows;
    bool is_hidden;
} Factors;

// sums[sum * rows + row] += weights * values.
static void add_piece(const Net *n, KRef sums, const Factors *f)
{
    Kernel *k = n->k;
    for (int64_t s = 0; s < n->m->cell->sums; s++) {
        const int64_t gate = lstm_gate(n->m, s, f->is_hidden);
        if (gate < 0 || (f->is_hidden && !lstm_in_phase(n->m, s, n->at.phase)))
            continue;
        const KRef at = k_index(k, s * f->rows + f->row);
        KRef sum = k_aload(k, sums, at, 1);
        for (int64_t i = 0; i < PIECE; i++)
            sum = k_fma(k, k_aload(k, f->weights, k_expr(k, "$ + #", f->from, gate * PIECE + i), 1),
                        k_aload(k, f->values, k_index(k, i), 1), sum);
        k_astore(k, sums, at, sum);
    }
}

static KRef clear_sums(const Net *n, int64_t rows)
{
    Kernel *k = n->k;
    const int64_t count = n->m->cell->sums * rows;
    const KRef sums = k_array(k, n->m->type, count);
    for (int64_t i = 0; i < count; i++)
        k_astore(k, sums, k_index(k, i), k_number(k, n->m->type, 0));
    return sums;
}

// Where the sums over inputs of a unit are: of a step of the chunk and an entry.
static KRef ahead_index(const Net *n, KRef step, KRef entry, KRef unit)
{
    const KRef row = k_expr(n->k, "($ * # + $) * # + $", n->cluster, n->chunk, step, n->entries, entry);
    return k_expr(n->k, "($ * # + $) * #", row, units_of(&n->s), unit, n->m->cell->sums);
}

// `count` pieces of rows of inputs from `first` on; the weights of all are under way before one is used.
static void add_inputs(const Net *n, const KRef *base, int64_t rows, KRef unit, KRef first, int64_t count,
                       KRef sums)
{
    Kernel *k = n->k;
    const int64_t each = lstm_gates(n->m) * PIECE;
    const KRef values = k_array(k, n->m->type, PIECE), weights = k_array(k, n->m->type, count * each);
    for (int64_t i = 0; i < count; i++)
        net_fetch_weights(n, n->m->w, unit, k_expr(k, "$ + #", first, i), weights, k_index(k, i * each));
    for (int64_t i = 0; i < count; i++)
        for (int64_t row = 0; row < rows; row++) {
            const KRef place = net_piece_place(n, k_expr(k, "$ + #", first, i));
            net_fetch_piece(n, n->m->x, base[row], place, values, k_index(k, 0));
            add_piece(n, sums, &(Factors){values, weights, k_index(k, i * each), row, rows, false});
        }
}

// Sums over inputs of `rows` rows (steps of entries) of the chunk from `first` on, of one block of units.
static void sum_rows(const Net *n, KRef first, int64_t rows, KRef block)
{
    Kernel *k = n->k;
    const Lstm *m = n->m;
    KRef base[ROW_SUMS], row[ROW_SUMS], step[ROW_SUMS];
    const KRef unit = net_unit_of(n, block);
    for (int64_t i = 0; i < rows; i++) {
        LstmStep at = n->at;
        row[i] = k_expr(k, "min($ + #, $ * # - 1)", first, i, at.end, n->entries);
        step[i] = k_expr(k, "$ / #", row[i], n->entries);
        at.entry = entry_of(n, k_expr(k, "$ % #", row[i], n->entries));
        base[i] = lstm_input_at(n->l, &at, lstm_time_of(n->l, &at, k_add(k, at.chunk, step[i])));
    }
    const KRef sums = clear_sums(n, rows);
    const int64_t pieces = pieces_of(&n->s, m->input), rest = pieces % ROW_FLIGHT;
    if (pieces > rest) {
        const KRef piece = k_for(k, k_index(k, 0), k_index(k, pieces - rest), ROW_FLIGHT, KFOR_SERIAL,
                                 "piece");
        add_inputs(n, base, rows, unit, piece, ROW_FLIGHT, sums);
        k_end(k);
    }
    if (rest > 0)
        add_inputs(n, base, rows, unit, k_index(k, pieces - rest), rest, sums);
    for (int64_t i = 0; i < rows; i++) {
        const KRef to = ahead_index(n, step[i], k_expr(k, "$ % #", row[i], n->entries), unit);
        KRef sum[GATES];
        for (int64_t g = 0; g < m->cell->sums; g++)
            sum[g] = team_sum(n, k_aload(k, sums, k_index(k, g * rows + i), 1));
        k_if(k, k_expr(k, "$ == # & $ + # < $ * #", n->lane, i % n->s.lanes, first, i, n->at.end,
                       n->entries));
        const Units u = {.first = net_real_unit(n, unit), .vectors = 1, .last_count = 1};
        for (uint32_t g = 0; g < m->cell->sums; g++)
            k_store(k, n->ahead, k_expr(k, "$ + #", to, g),
                    m->b != 0 ? k_add(k, sum[g], lstm_row(n->l, &n->at, &u, m->b, g, 0)) : sum[g], 1);
        k_end(k);
    }
}

// The sums over inputs of a chunk.
static void sum_ahead(const Net *n)
{
    Kernel *k = n->k;
    if (n->m->sums != 0)
        return;
    const int64_t all = n->chunk * n->entries, most = ROW_SUMS / n->m->cell->sums;
    const int64_t rows = all < most ? all : most;
    const KRef end = k_expr(k, "$ * #", n->at.end, n->entries);
    const KRef first = k_for(k, k_index(k, 0), end, rows, KFOR_SERIAL, "row");
    const KRef block = k_loop(k, n->s.blocks, KFOR_SERIAL, "block");
    sum_rows(n, first, rows, block);
    k_end(k);
    k_end(k);
    k_barrier(k);
}

// --- a step --------------------------------------------------------------------------------------

// `count` pieces of the hidden values from `first` on, with weights that are in an array.
static void add_hidden(const Net *n, KRef which, KRef first, int64_t count, KRef weights, KRef sums)
{
    Kernel *k = n->k;
    const KRef values = k_array(k, n->m->type, PIECE);
    const KRef i = k_loop(k, count, KFOR_UNROLL, "i");
    for (int64_t e = 0; e < n->entries; e++) {
        get_hidden(n, which, e, net_piece_place(n, k_add(k, first, i)), values);
        add_piece(n, sums, &(Factors){values, weights, k_expr(k, "$ * #", i, lstm_gates(n->m) * PIECE), e,
                                      n->entries, true});
    }
    k_end(k);
}

// Weights that are not kept: all of some pieces are under way before the first is used.
static void add_flight(const Net *n, KRef which, KRef first, int64_t count, KRef unit, KRef sums)
{
    Kernel *k = n->k;
    const int64_t each = lstm_gates(n->m) * PIECE;
    const KRef weights = k_array(k, n->m->type, count * each), i = k_loop(k, count, KFOR_UNROLL, "i");
    net_fetch_weights(n, n->m->r, unit, k_add(k, first, i), weights, k_expr(k, "$ * #", i, each));
    k_end(k);
    add_hidden(n, which, first, count, weights, sums);
}

static void sum_hidden(const Net *n, KRef which, KRef unit, KRef sums)
{
    Kernel *k = n->k;
    const int64_t pieces = pieces_of(&n->s, n->m->hidden), rest = pieces % FLIGHT;
    if (n->kept != 0) {
        add_hidden(n, which, k_index(k, 0), pieces, n->kept, sums);
        return;
    }
    if (pieces > rest) {
        const KRef first = k_for(k, k_index(k, 0), k_index(k, pieces - rest), FLIGHT, KFOR_SERIAL, "piece");
        add_flight(n, which, first, FLIGHT, unit, sums);
        k_end(k);
    }
    if (rest > 0)
        add_flight(n, which, k_index(k, pieces - rest), rest, unit, sums);
}

// Is the lane the first of those that have its entry, and is that one of the batch? (Of units: one of H.)
static KRef is_writer(const Net *n, KRef unit)
{
    const KRef number = k_expr(n->k, "$ % # * # + $", n->cluster, n->of_batch, n->entries, n->own);
    const KRef is_real = k_expr(n->k, "$ < # & $ < # & $ < #", n->lane, n->entries, number, n->m->batch, unit,
                                n->m->hidden);
    return is_real;
}

// A value of Y.
static void store_value(const Net *n, KRef time, KRef unit, KRef value)
{
    k_if(n->k, is_writer(n, unit));
    lstm_store_value(n->l, &n->at, time, unit, value);
    k_end(n->k);
}

// A hidden value goes to all groups, each of which gets it from one of the lanes that have it.
static void share_value(const Net *n, KRef which, KRef unit, KRef value)
{
    Kernel *k = n->k;
    const int64_t copies = n->s.lanes / n->slots;
    if (n->is_apart) // there is no next step
        return;
    if (n->is_grid) {
        k_if(k, k_expr(k, "$ < #", n->lane, n->slots));
        k_store(k, n->exchange, exchange_index(n, which, n->own, unit), value, 1);
        k_end(k);
        return;
    }
    const KRef copy = k_expr(k, "$ / #", n->lane, n->slots), i = hidden_index(n, which, n->own, unit);
    for (int64_t first = 0; first < n->s.ranks; first += copies) {
        const KRef rank = k_expr(k, "$ + #", copy, first);
        if (first + copies > n->s.ranks)
            k_if(k, k_expr(k, "$ < #", rank, n->s.ranks));
        put_hidden(n, rank, i, value);
        if (first + copies > n->s.ranks)
            k_end(k);
    }
}

// A step of the chunk, for the lane's entry.
static LstmStep step_at(const Net *n, KRef step)
{
    LstmStep at = n->at;
    at.time = lstm_time_of(n->l, &n->at, k_add(n->k, n->at.chunk, step));
    return at;
}

// The sums over inputs of a step of the chunk: on their way while the step before ends.
static void fetch_ahead(const Net *n, KRef block, KRef step)
{
    Kernel *k = n->k;
    const uint8_t count = n->m->cell->sums;
    const KRef to = k_expr(k, "$ * #", block, count);
    if (n->m->sums != 0) {
        const LstmStep at = step_at(n, step);
        const Units u = {.first = net_real_unit(n, net_unit_of(n, block)), .vectors = 1, .last_count = 1};
        for (int64_t g = 0; g < count; g++)
            k_astore(k, n->sums, k_expr(k, "$ + #", to, g), lstm_sum_before(n->l, &at, &u, g));
        return;
    }
    const KRef own = k_expr(k, "min($, #)", n->own, n->entries - 1);
    const KRef from = ahead_index(n, step, own, net_unit_of(n, block));
    k_fetch(k, n->ahead, from, n->sums, to, count);
}

// The sums of the phase over inputs.
static void take_sums(const Net *n, KRef block, KRef step, const Units *u, KRef *sum)
{
    Kernel *k = n->k;
    const int64_t count = n->m->cell->sums;
    for (int64_t g = 0; g < count; g++)
        sum[g] = !lstm_in_phase(n->m, g, n->at.phase)
                     ? 0
                     : k_aload(k, n->sums, k_expr(k, "$ * # + #", block, count, g), 1);
    if (n->m->sums == 0)
        return;
    const LstmStep at = step_at(n, step);
    lstm_mend_sums(n->l, &at, u, sum);
}

// Those over hidden values are added.
static void make_sums(const Net *n, KRef which, KRef unit, KRef *sum)
{
    Kernel *k = n->k;
    const int64_t count = n->m->cell->sums;
    const KRef sums = clear_sums(n, n->entries);
    sum_hidden(n, which, unit, sums);
    for (int64_t g = 0; g < count; g++) {
        KRef own = 0;
        if (!lstm_in_phase(n->m, g, n->at.phase))
            continue;
        for (int64_t e = 0; e < n->entries; e++) {
            const KRef all = team_sum(n, k_aload(k, sums, k_index(k, g * n->entries + e), 1));
            own = e == 0 ? all : k_select(k, k_expr(k, "$ == #", n->own, e), all, own);
        }
        sum[g] = k_add(k, own, sum[g]);
    }
}

// A phase of step t of a block; which: the row of hidden values that it reads.
static void step_block(const Net *n, KRef block, KRef t, KRef which)
{
    Kernel *k = n->k;
    const Lstm *m = n->m;
    const KRef unit = net_unit_of(n, block), next = k_expr(k, "1 - $", which);
    const KRef is_real = k_expr(k, "$ < #", unit, m->hidden), zero = k_number(k, m->type, 0);
    const Units u = {.first = net_real_unit(n, unit), .vectors = 1, .last_count = 1};
    KRef sum[GATES];
    take_sums(n, block, k_sub(k, t, n->at.chunk), &u, sum);
    make_sums(n, which, unit, sum);
    if (!lstm_is_last(m, n->at.phase)) {
        KRef z;
        const KRef reset = lstm_reset(n->l, m, sum, k_aload(k, n->hiddens, block, 1), &z);
        k_astore(k, n->waiting, block, z);
        share_value(n, next, unit, k_select(k, is_real, reset, zero));
        return;
    }
    fetch_ahead(n, block, k_expr(k, "min($ + 1, $ - 1)", k_sub(k, t, n->at.chunk), n->at.end));
    if (n->at.phase > 0)
        sum[GATE_Z] = k_aload(k, n->waiting, block, 1);
    const KRef states = m->is_lstm ? n->cells : n->hiddens;
    KRef state = k_aload(k, states, block, 1);
    const KRef hidden = lstm_hidden(n->l, &n->at, &u, 0, sum, &state);
    k_astore(k, states, block, state);
    if (m->is_lstm)
        k_astore(k, n->hiddens, block, hidden);
    share_value(n, next, unit, k_select(k, is_real, hidden, zero));
    store_value(n, lstm_time_of(n->l, &n->at, t), unit, hidden);
}

// --- the kernel ----------------------------------------------------------------------------------

static void keep_weights(Net *n)
{
    Kernel *k = n->k;
    const int64_t all = weights_of(n->m, &n->s);
    n->kept = n->s.blocks == 1 && all <= KEPT ? k_array(k, n->m->type, all) : 0;
    if (n->kept == 0)
        return;
    const KRef piece = k_loop(k, pieces_of(&n->s, n->m->hidden), KFOR_UNROLL, "piece");
    net_fetch_weights(n, n->m->r, net_unit_of(n, k_index(k, 0)), piece, n->kept,
                  k_expr(k, "$ * #", piece, lstm_gates(n->m) * PIECE));
    k_end(k);
}

static void begin_states(Net *n)
{
    Kernel *k = n->k;
    const int64_t flags = n->s.blocks == 1 ? KFOR_UNROLL : KFOR_SERIAL;
    n->cells = k_array(k, n->m->type, n->s.blocks);
    n->hiddens = k_array(k, n->m->type, n->s.blocks);
    n->sums = k_array(k, n->m->type, n->s.blocks * n->m->cell->sums);
    n->waiting = n->m->cell->phases > 1 ? k_array(k, n->m->type, n->s.blocks) : 0;
    const KRef block = k_loop(k, n->s.blocks, (uint8_t)flags, "block");
    const KRef unit = net_real_unit(n, net_unit_of(n, block));
    k_astore(k, n->cells, block, begin_value(n, n->m->c0, n->at.entry, unit));
    k_astore(k, n->hiddens, block, begin_value(n, n->m->h0, n->at.entry, unit));
    k_end(k);
    begin_hidden(n);
    sync(n, 0);
}

static void end_state(const Net *n, NodeId id, KRef values)
{
    Kernel *k = n->k;
    if (id == 0)
        return;
    const KRef block = k_loop(k, n->s.blocks, n->s.blocks == 1 ? KFOR_UNROLL : KFOR_SERIAL, "block");
    const KRef unit = net_unit_of(n, block);
    k_if(k, is_writer(n, unit));
    k_store(k, lower_param(n->l, id, PARAM_WRITE), lstm_state_index(n->l, &n->at, id, 0, unit),
            k_cast(k, k_aload(k, values, block, 1), lower_node(n->l, id)->dtype), 1);
    k_end(k);
    k_end(k);
}

// Steps that are not made leave zeros.
static void clear_rest(const Net *n)
{
    Kernel *k = n->k;
    if (n->m->steps == 0)
        return;
    const KRef time = k_for(k, n->at.steps, k_index(k, n->m->seq), 1, KFOR_SERIAL, "t");
    const KRef block = k_loop(k, n->s.blocks, KFOR_SERIAL, "block");
    store_value(n, time, net_unit_of(n, block), k_number(k, n->m->type, 0));
    k_end(k);
    k_end(k);
}

static void walk_steps(Net *n)
{
    Kernel *k = n->k;
    LstmStep *at = &n->at;
    at->chunk = k_for(k, k_index(k, 0), at->steps, n->chunk, KFOR_SERIAL, "chunk");
    at->end = k_expr(k, "min($ - $, #)", at->steps, at->chunk, n->chunk);
    sum_ahead(n);
    const uint8_t flags = n->s.blocks == 1 ? KFOR_UNROLL : KFOR_SERIAL;
    fetch_ahead(n, k_loop(k, n->s.blocks, flags, "block"), k_index(k, 0));
    k_end(k);
    const KRef t = k_for(k, at->chunk, k_add(k, at->chunk, at->end), 1, KFOR_SERIAL, "t");
    for (at->phase = 0; at->phase < n->m->cell->phases; at->phase++) {
        const KRef which = lstm_row_read(k, n->m, at->phase, t);
        step_block(n, k_loop(k, n->s.blocks, flags, "block"), t, which);
        k_end(k);
        sync(n, k_expr(k, "1 - $", which));
    }
    k_end(k);
    k_end(k);
}

// What the groups do that are at work.
static void emit_way(Net *n)
{
    Kernel *k = n->k;
    n->lane = k_expr(k, "$ % #", n->thread, n->s.lanes);
    n->team = k_expr(k, "$ / #", n->thread, n->s.lanes);
    n->own = k_expr(k, "$ % #", n->lane, n->slots);
    n->at = (LstmStep){.m = n->m, .entries = 1, .phase = NO_PHASE};
    n->at.dir = k_expr(k, "$ / #", n->cluster, n->of_batch);
    const OpId op = (OpId)lower_node(n->l, n->m->r)->op;
    const bool is_known = op == OP_const || op == OP_param;
    if (!is_known)
        k_wait(k);
    keep_weights(n);
    if (is_known)
        k_wait(k);
    const KRef first = n->cluster;
    if (n->sets > 1)
        n->cluster = k_add(k, first, k_loop(k, n->sets, KFOR_SERIAL, "set"));
    n->at.entry = entry_of(n, n->own);
    n->at.steps = lstm_steps_made(n->l, n->m);
    begin_states(n);
    walk_steps(n);
    clear_rest(n);
    end_state(n, n->m->y_h, n->hiddens);
    end_state(n, n->m->y_c, n->cells);
    if (n->sets > 1)
        k_end(k);
    n->cluster = first;
}

// By what all groups wait for each other and hand over hidden values.
static void make_exchange(Net *n, int64_t groups)
{
    rlx_assert(groups >= 1 && groups <= UINT16_MAX && n->units % PIECE == 0);
    const int64_t values = n->clusters / n->sets * 2 * n->slots * n->units;
    n->k->resident = (uint16_t)groups;
    n->counter = lower_param_counter(n->l, "steps", 1);
    n->exchange = lower_param_scratch(n->l, "hidden", (DType)n->m->type, (uint64_t)values);
}

// Which entries, and which units of a layer, a group is for.
static void place_groups(Net *n, KRef group)
{
    Kernel *k = n->k;
    n->thread = k_thread(k);
    n->group_of_sets = k_expr(k, "$ / #", group, n->s.ranks);
    n->cluster = k_expr(k, "$ * #", n->group_of_sets, n->sets);
    n->rank = k_expr(k, "$ % #", group, n->s.ranks);
    n->shared = n->is_raw ? k_call(k, KDEV_shared_begin, 0, 0, 0) : 0;
    n->phase = n->is_grid ? k_var(k, k_index(k, -1), "phase") : 0;
}

bool lstm_group(Lower *l, const Lstm *m)
{
    Kernel *k = l->k;
    if (l->caps->shared_bytes == 0 || m->type != DTYPE_f32 || m->batch < 1 || m->hidden < 1 || m->seq < 1)
        return false;
    const int64_t most = l->caps->group_threads < THREADS ? l->caps->group_threads : THREADS;
    Net n = {.m = m, .l = l, .k = k, .is_raw = l->caps->has_mma, .s = lstm_shares_choose(l, m, most)};
    n.sets = 1;
    if (!lstm_choose_apart(&n) && !lstm_choose_grid(&n))
        lstm_choose_entries(&n);
    n.of_grid = n.is_grid;
    const int64_t threads = n.s.lanes * n.s.teams, ranks = n.s.ranks;
    Shares alone = lstm_shares_of(m, 1, threads);
    while (alone.lanes < n.entries && alone.lanes < MOST_LANES)
        alone = (Shares){1, 2 * alone.lanes, threads / (2 * alone.lanes), 0};
    alone.blocks = ceil_div(m->hidden, alone.teams);
    const int64_t sums = units_of(&n.s) > units_of(&alone) ? units_of(&n.s) : units_of(&alone);
    const int64_t step = sums * n.entries * m->cell->sums * n.clusters;
    const int64_t fit = AHEAD_BYTES / (step * (int64_t)sizeof(float));
    const int64_t row = row_of(m, &n.s), row_alone = row_of(m, &alone);
    n.chunk = m->sums != 0 || fit >= m->seq ? m->seq : fit < 1 ? 1 : fit;
    n.row = row > row_alone ? row : row_alone;
    n.row = n.row > sums ? n.row : ceil_div(sums, PIECE) * PIECE;
    const int64_t bytes = hidden_bytes(n.slots, n.row);
    if (bytes > (n.is_grid ? GRID_BYTES : (int64_t)l->caps->shared_bytes))
        return false;
    if (m->sums == 0)
        n.ahead = lower_param_scratch(l, "sums ahead", (DType)m->type, (uint64_t)(step * n.chunk));
    const int64_t groups = n.clusters / n.sets * ranks;
    k_set_group(k, (uint32_t)threads);
    k->cluster = (uint8_t)(ranks > 1 && !n.is_grid && !n.is_apart ? ranks : 0);
    if (n.is_grid)
        make_exchange(&n, groups);
    if (n.is_raw)
        k_use_shared(k, (uint32_t)bytes);
    else
        n.memory = k_shared(k, m->type, 2 * n.slots * n.row);
    place_groups(&n, k_for_group(k, groups, "group"));
    if (ranks > 1 && !n.is_apart) {
        k_if(k, n.is_grid ? k_call(k, KDEV_has_grid, k_index(k, groups), 0, 0)
                          : k_call(k, KDEV_has_wgmma, 0, 0, 0));
        emit_way(&n);
        k_else(k);
        k_if(k, k_expr(k, "$ == 0", n.rank));
        n.s = alone;
        n.is_grid = false;
        n.rank = k_index(k, 0);
        emit_way(&n);
        k_end(k);
        k_end(k);
    } else {
        emit_way(&n);
    }
    k_end(k);
    return true;
}
