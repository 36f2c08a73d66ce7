// SPDX-License-Identifier: Apache-2.0
// lstm, gru and rnn. Per time step: all sums (lstm.h) of a block of hidden units in accumulators (bias + x W
// + h R), then the new cell and hidden values of these units. Constant weights are packed so that the units
// of a block are lanes: [direction][block][step: inputs, then hidden][gate][vector][lane]; other weights are
// read one by one. Entries of a batch are taken several at a time, so that each weight that is read serves
// all of them. Of one entry whose weights exceed the first-level cache, those of the inputs serve several
// steps instead: sums over inputs are made ahead for a chunk of steps, in scratch memory. Where many entries
// have weights that exceed the second-level cache, they make each step together, block by block of units.
// Hidden values alternate between two rows of scratch memory. Accumulation: f32 fused multiply-adds from the
// bias, inputs first. Where both come from bf16, matrix registers make the sums (lstm_matrix.c).
#include "passes/lower/ops/lstm.h"

// --- one block of units ---

typedef struct GateSums {
    KRef var[MOST_ENTRIES][GATES][BLOCK_SUMS];
} GateSums;

// Where what is at `first` for the first entry is for the e-th.
static KRef of_entry(Lower *l, const LstmStep *s, KRef first, uint32_t e)
{
    return k_expr(l->k, "$ + #", first, e * 3 * s->m->padded);
}

// The first unit of vector v of the block.
static KRef vector_unit(Lower *l, const Lstm *m, const Units *u, uint32_t v)
{
    return k_expr(l->k, "($ + #) * #", u->first, v, m->lanes);
}

static KRef bias_of(Lower *l, const LstmStep *s, const Units *u, uint32_t gate, uint32_t v)
{
    return s->m->b != 0 ? lstm_row(l, s, u, s->m->b, gate, v)
                        : k_splat(l->k, k_number(l->k, s->m->type, 0), s->m->lanes);
}

// Where the sum of a gate that was made ahead is, of vector v of the block; row: of sums, from s->ahead on.
static KRef sum_ahead(Lower *l, const LstmStep *s, const Units *u, const uint32_t *gate_vector, int64_t row)
{
    const Lstm *m = s->m;
    const KRef unit = vector_unit(l, m, u, gate_vector[1]);
    return k_expr(l->k, "$ + ($ + #)", unit, s->ahead, row * lstm_sums(m) + gate_vector[0] * m->padded);
}

static void begin_sums(Lower *l, const LstmStep *s, const Units *u, GateSums *sums)
{
    static const char *const names[GATES] = {"i", "o", "f", "c"};
    Kernel *k = l->k;
    const Lstm *m = s->m;
    for (uint32_t g = 0; g < GATES; g++)
        for (uint32_t v = 0; v < u->vectors && lstm_in_phase(m, g, s->phase); v++) {
            const uint32_t gate_vector[2] = {g, v};
            const KRef bias = m->chunk == 0 ? bias_of(l, s, u, g, v) : 0;
            for (uint32_t e = 0; e < s->entries; e++) {
                KRef init = m->chunk == 0 ? bias
                                          : k_load(k, m->ahead, sum_ahead(l, s, u, gate_vector, e), m->lanes,
                                                   m->lanes);
                if (m->on_matrix)
                    init = lstm_matrix_sum(l, s, e, g, vector_unit(l, m, u, v), init);
                sums->var[e][g][v] = k_var(k, init, arena_printf(k->arena, "gate_%s%u", names[g], v));
            }
        }
}

// Input or hidden value `step` of an entry.
static KRef value_at(Lower *l, const LstmStep *s, uint32_t e, KRef step, bool is_hidden)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t *stride = lower_loc(l, m->x)->stride;
    if (is_hidden)
        return k_load(k, m->scratch,
                      k_add(k, of_entry(l, s, s->phase == 0 ? s->h_now : s->cell, e), step), 1, 1);
    const KRef first = k_expr(k, "$ + #", s->x, e * stride[m->batch_major ? 0 : 1]);
    return operand_scalar(l, m->x, k_expr(k, "$ * # + $", step, stride[2], first), m->type);
}

static bool has_products(const LstmStep *s, uint32_t sum, bool is_hidden)
{
    return lstm_in_phase(s->m, sum, s->phase) && lstm_gate(s->m, sum, is_hidden) >= 0;
}

// Adds value * weights to all sums of the phase, for every input or every hidden value.
static void add_products(Lower *l, const LstmStep *s, const Units *u, const GateSums *sums, bool is_hidden)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    KRef value[MOST_ENTRIES];
    const KRef step = k_loop(k, is_hidden ? m->hidden : m->input, KFOR_SERIAL, is_hidden ? "j" : "c");
    for (uint32_t e = 0; e < s->entries; e++)
        value[e] = value_at(l, s, e, step, is_hidden);
    for (uint32_t g = 0; g < GATES; g++)
        for (uint32_t v = 0; v < u->vectors && has_products(s, g, is_hidden); v++) {
            const uint32_t gate_vector[2] = {g, v};
            const KRef weight = lstm_weight(l, s, u, step, is_hidden, gate_vector);
            for (uint32_t e = 0; e < s->entries; e++) {
                const KRef sum = sums->var[e][g][v];
                k_set(k, sum, k_fma(k, value[e], weight, k_get(k, sum)));
            }
        }
    k_end(k);
}

// Vector v of the row of Y of an entry.
static void store_unit(Lower *l, const LstmStep *s, const Units *u, uint32_t e, uint32_t v, KRef value)
{
    const Lstm *m = s->m;
    const KRef unit = vector_unit(l, m, u, v);
    const KRef entry = k_expr(l->k, "$ + #", s->entry, e);
    Point at = {.lanes = m->lanes, .count = v + 1u == u->vectors ? u->last_count : m->lanes, .vec_axis = 3};
    at.idx[0] = m->batch_major ? entry : s->time;
    at.idx[1] = m->batch_major ? s->time : s->dir;
    at.idx[2] = m->batch_major ? s->dir : entry;
    at.idx[3] = unit;
    pull_store_root(l, &m->d, at, k_cast(l->k, value, lower_node(l, l->anchor)->dtype));
}

// With two phases, z waits where the next hidden value will be, and r * h where an lstm has its cell.
static void update_vector(Lower *l, const LstmStep *s, const Units *u, const GateSums *all, uint32_t e,
                          uint32_t v)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef unit = vector_unit(l, m, u, v);
    const KRef place = k_add(k, of_entry(l, s, m->is_lstm ? s->cell : s->h_now, e), unit);
    const KRef next = k_add(k, of_entry(l, s, s->h_next, e), unit);
    KRef sum[GATES] = {0}, state = k_load(k, m->scratch, place, m->lanes, m->lanes);
    for (uint32_t g = 0; g < GATES; g++)
        if (lstm_in_phase(m, g, s->phase))
            sum[g] = k_get(k, all->var[e][g][v]);
    if (!lstm_is_last(m, s->phase)) {
        KRef z;
        const KRef reset = lstm_reset(l, m, sum, state, &z);
        k_store(k, m->scratch, k_add(k, of_entry(l, s, s->cell, e), unit), reset, m->lanes);
        k_store(k, m->scratch, next, z, m->lanes);
        return;
    }
    if (s->phase > 0)
        sum[GATE_Z] = k_load(k, m->scratch, next, m->lanes, m->lanes);
    const KRef hidden = lstm_hidden(l, s, u, v, sum, &state);
    if (m->is_lstm)
        k_store(k, m->scratch, place, state, m->lanes);
    k_store(k, m->scratch, next, hidden, m->lanes);
    if (m->on_matrix)
        lstm_matrix_keep(l, s, e, unit, hidden);
    store_unit(l, s, u, e, v, hidden);
}

typedef void (*UnitsFn)(Lower *l, const LstmStep *s, const Units *u);

static void emit_units(Lower *l, const LstmStep *s, const Units *u)
{
    GateSums sums;
    begin_sums(l, s, u, &sums);
    if (s->m->chunk == 0)
        add_products(l, s, u, &sums, false);
    if (!s->m->on_matrix)
        add_products(l, s, u, &sums, true);
    for (uint32_t e = 0; e < s->entries; e++)
        for (uint32_t v = 0; v < u->vectors; v++)
            update_vector(l, s, u, &sums, e, v);
}

// A step that is not made leaves zeros.
static void emit_zeros(Lower *l, const LstmStep *s, const Units *u)
{
    const KRef zero = k_splat(l->k, k_number(l->k, s->m->type, 0), s->m->lanes);
    for (uint32_t e = 0; e < s->entries; e++)
        for (uint32_t v = 0; v < u->vectors; v++)
            store_unit(l, s, u, e, v, zero);
}

// Whole blocks in a loop, then what is left: fewer vectors, or a last one that is not full.
static void each_block(Lower *l, const LstmStep *s, UnitsFn fn)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t full = m->hidden / m->lanes, block = m->block[s->phase], whole = full - full % block;
    const uint8_t count = (uint8_t)(m->hidden - (m->vectors - 1) * m->lanes);
    Units u = {.vectors = (uint8_t)block, .last_count = m->lanes};
    if (whole > 0) {
        u.first = k_for(k, k_index(k, 0), k_index(k, whole), block, KFOR_PARALLEL, "u");
        fn(l, s, &u);
        k_end(k);
    }
    u = (Units){.first = k_index(k, whole), .vectors = (uint8_t)(m->vectors - whole), .last_count = count};
    if (u.vectors > 0)
        fn(l, s, &u);
}

static void each_phase(Lower *l, const LstmStep *s, UnitsFn fn)
{
    LstmStep at = *s;
    for (at.phase = 0; at.phase < s->m->cell->phases; at.phase++)
        each_block(l, &at, fn);
}

// --- time ---

KRef lstm_state_index(Lower *l, const LstmStep *s, NodeId id, uint32_t e, KRef unit)
{
    const bool batch_major = s->m->batch_major;
    const KRef entry = k_expr(l->k, "$ + #", s->entry, e);
    const KRef idx[3] = {batch_major ? entry : s->dir, batch_major ? s->dir : entry, unit};
    return operand_index(l, id, idx);
}

void lstm_store_value(Lower *l, const LstmStep *s, KRef time, KRef unit, KRef value)
{
    const Lstm *m = s->m;
    Point at = {.lanes = 1, .count = 1, .vec_axis = 3};
    at.idx[0] = m->batch_major ? s->entry : time;
    at.idx[1] = m->batch_major ? time : s->dir;
    at.idx[2] = m->batch_major ? s->dir : s->entry;
    at.idx[3] = unit;
    pull_store_root(l, &m->d, at, k_cast(l->k, value, lower_node(l, l->anchor)->dtype));
}

static void begin_state(Lower *l, const LstmStep *s, NodeId id, uint32_t e, KRef first)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef to = of_entry(l, s, first, e);
    const KRef zero = k_number(k, m->type, 0);
    const KRef unit = k_loop(k, m->hidden, KFOR_SERIAL, "u");
    k_store(k, m->scratch, k_add(k, to, unit),
            id == 0 ? zero : operand_scalar(l, id, lstm_state_index(l, s, id, e, unit), m->type), 1);
    k_end(k);
    for (int64_t i = m->hidden; i < m->padded; i++)
        k_store(k, m->scratch, k_expr(k, "$ + #", to, i), zero, 1);
}

static void end_state(Lower *l, const LstmStep *s, NodeId id, uint32_t e, KRef first)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    if (id == 0)
        return;
    const KRef unit = k_loop(k, m->hidden, KFOR_SERIAL, "u");
    const KRef value = k_load(k, m->scratch, k_add(k, of_entry(l, s, first, e), unit), 1, 1);
    k_store(k, lower_param(l, id, PARAM_WRITE), lstm_state_index(l, s, id, e, unit),
            k_cast(k, value, lower_node(l, id)->dtype), 1);
    k_end(k);
}

// The time of the i-th step that is made.
KRef lstm_time_of(Lower *l, const LstmStep *s, KRef i)
{
    Kernel *k = l->k;
    const KRef backwards = k_expr(k, "$ - 1 - $", s->steps, i);
    return s->m->reverse_only ? backwards : k_select(k, k_expr(k, "$ == 1", s->dir), backwards, i);
}

KRef lstm_input_at(Lower *l, const LstmStep *s, KRef time)
{
    const Lstm *m = s->m;
    const KRef x[3] = {m->batch_major ? s->entry : time, m->batch_major ? time : s->entry,
                       k_index(l->k, 0)};
    return operand_index(l, m->x, x);
}

// --- sums over inputs, ahead of their steps ---

// Rows of sums of a chunk, for one direction: one for each step and entry.
static int64_t rows_ahead(const Lstm *m)
{
    const int64_t rows = m->chunk * m->batch;
    return (rows + m->together - 1) / m->together * m->together;
}

// Some vectors of a block from `from` on, for rows of the chunk from `first` on. Those behind the last one
// get its sums, which nobody reads.
static void sum_inputs(Lower *l, const LstmStep *s, const Units *u, uint32_t from, uint32_t end, KRef first)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t stride = lower_loc(l, m->x)->stride[2];
    KRef sum[MOST_TOGETHER][GATES][GATES], x[MOST_TOGETHER], value[MOST_TOGETHER];
    LstmStep of_row = *s;
    for (uint32_t i = 0; i < m->together; i++) {
        const KRef row = k_expr(k, "min($ + #, $ * # - 1)", first, i, s->end, m->batch);
        of_row.entry = k_expr(k, "$ % #", row, m->batch);
        x[i] = lstm_input_at(l, &of_row, lstm_time_of(l, s, k_expr(k, "$ + $ / #", s->chunk, row, m->batch)));
        for (uint32_t g = 0; g < m->cell->sums; g++)
            for (uint32_t v = from; v < end && lstm_in_phase(m, g, s->phase); v++)
                sum[i][g][v - from] = k_var(k, bias_of(l, s, u, g, v), "sum");
    }
    const KRef c = k_loop(k, m->input, KFOR_SERIAL, "c");
    for (uint32_t i = 0; i < m->together; i++)
        value[i] = operand_scalar(l, m->x, k_expr(k, "$ * # + $", c, stride, x[i]), m->type);
    for (uint32_t g = 0; g < m->cell->sums; g++)
        for (uint32_t v = from; v < end && has_products(s, g, false); v++) {
            const uint32_t gate_vector[2] = {g, v};
            const KRef weight = lstm_weight(l, s, u, c, false, gate_vector);
            for (uint32_t i = 0; i < m->together; i++) {
                const KRef to = sum[i][g][v - from];
                k_set(k, to, k_fma(k, value[i], weight, k_get(k, to)));
            }
        }
    k_end(k);
    of_row.ahead = k_expr(k, "$ * # + $", first, lstm_sums(m), s->ahead);
    for (uint32_t i = 0; i < m->together; i++)
        for (uint32_t g = 0; g < m->cell->sums; g++)
            for (uint32_t v = from; v < end && lstm_in_phase(m, g, s->phase); v++) {
                const uint32_t gate_vector[2] = {g, v};
                k_store(k, m->ahead, sum_ahead(l, &of_row, u, gate_vector, i), k_get(k, sum[i][g][v - from]),
                        m->lanes);
            }
}

static void emit_ahead(Lower *l, const LstmStep *s, const Units *u)
{
    Kernel *k = l->k;
    const KRef rows = k_expr(k, "$ * #", s->end, s->m->batch);
    int64_t gate = 0;
    const uint32_t wide = (uint32_t)(GATES / lstm_phase_gates(s->m, s->phase, &gate));
    for (uint32_t v = 0; v < u->vectors; v += wide) {
        const KRef first = k_for(k, k_index(k, 0), rows, s->m->together, KFOR_PARALLEL, "g");
        sum_inputs(l, s, u, v, v + wide < u->vectors ? v + wide : u->vectors, first);
        k_end(k);
    }
}

// On matrix registers, whose weights are those of one direction.
static int64_t dir_of(const Lower *l, const LstmStep *s)
{
    int64_t dir = 0;
    const bool is_known = k_is_const(l->k, s->dir, &dir);
    rlx_assert(is_known);
    return dir;
}

// Opens the loops over chunks, of which it makes the sums, and steps. Close with close_steps.
static void open_steps(Lower *l, LstmStep *s)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    if (m->chunk == 0) {
        s->at = k_for(k, k_index(k, 0), s->steps, 1, KFOR_SERIAL, "t");
        return;
    }
    s->chunk = k_for(k, k_index(k, 0), s->steps, m->chunk, KFOR_SERIAL, "chunk");
    s->end = k_expr(k, "min($ - $, #)", s->steps, s->chunk, m->chunk);
    s->ahead = k_expr(k, "$ * #", s->dir, rows_ahead(m) * lstm_sums(m));
    if (m->on_matrix)
        lstm_matrix_inputs(l, s, dir_of(l, s));
    else
        each_phase(l, s, emit_ahead);
    s->at = k_for(k, s->chunk, k_add(k, s->chunk, s->end), 1, KFOR_SERIAL, "t");
}

static void close_steps(Lower *l, const LstmStep *s)
{
    k_end(l->k);
    if (s->m->chunk != 0)
        k_end(l->k);
}

// Where the state of the entries is, and their inputs at the step, or the sums over these.
static void find_step(Lower *l, LstmStep *s)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef base = k_expr(k, "($ * # + $) * #", s->dir, m->batch, s->entry, 3 * m->padded);
    const KRef odd = k_expr(k, "$ % 2", s->at), even = k_expr(k, "1 - $", odd);
    s->time = lstm_time_of(l, s, s->at);
    s->cell = k_expr(k, "$ + #", base, 2 * m->padded);
    s->h_now = k_expr(k, "$ * # + $", odd, m->padded, base);
    s->h_next = k_expr(k, "$ * # + $", even, m->padded, base);
    if (m->chunk == 0)
        s->x = lstm_input_at(l, s, s->time);
    else if (s->chunk != 0)
        s->ahead = k_expr(k, "(($ - $) * # + $) * # + $", s->at, s->chunk, m->batch, s->entry, lstm_sums(m),
                          s->ahead);
}

// --- entries ---

static void keep_hidden(Lower *l, const LstmStep *s, uint32_t e)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef v = k_loop(k, m->vectors, KFOR_SERIAL, "v"), unit = k_expr(k, "$ * #", v, m->lanes);
    const KRef from = k_add(k, of_entry(l, s, s->h_now, e), unit);
    lstm_matrix_keep(l, s, e, unit, k_load(k, m->scratch, from, m->lanes, m->lanes));
    k_end(k);
}

static void begin_entries(Lower *l, const LstmStep *s, const Units *u)
{
    LstmStep first = *s;
    (void)u;
    first.at = k_index(l->k, 0);
    find_step(l, &first);
    for (uint32_t e = 0; e < s->entries; e++) {
        begin_state(l, &first, s->m->h0, e, first.h_now);
        begin_state(l, &first, s->m->c0, e, first.cell);
        if (s->m->on_matrix)
            keep_hidden(l, &first, e);
    }
}

static void end_entries(Lower *l, const LstmStep *s, const Units *u)
{
    LstmStep last = *s;
    (void)u;
    last.at = s->steps;
    find_step(l, &last);
    for (uint32_t e = 0; e < s->entries; e++) {
        end_state(l, &last, s->m->y_h, e, last.h_now);
        end_state(l, &last, s->m->y_c, e, last.cell);
    }
}

// Steps that are not made.
static void emit_rest(Lower *l, const LstmStep *s, UnitsFn fn)
{
    LstmStep rest = *s;
    if (s->m->steps == 0)
        return;
    rest.time = k_for(l->k, s->steps, k_index(l->k, s->m->seq), 1, KFOR_SERIAL, "t");
    each_block(l, &rest, fn);
    k_end(l->k);
}

KRef lstm_steps_made(Lower *l, const Lstm *m)
{
    return m->steps != 0 ? operand_clamped(l, m->steps, k_index(l->k, 0), 0, m->seq)
                         : k_index(l->k, m->seq);
}

// `groups` groups of entries of the batch, from `first` on, of both directions, one after the other.
static void emit_groups(Lower *l, const Lstm *m, int64_t first, int64_t groups, uint32_t entries)
{
    if (groups == 0 || entries == 0)
        return;
    const Domain all = {.rank = 2, .extent = {m->dirs, groups}};
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &all, 2, &at);
    LstmStep s = {.m = m, .entries = entries, .dir = at.idx[0]};
    s.entry = k_expr(l->k, "$ * # + #", at.idx[1], entries, first);
    s.steps = lstm_steps_made(l, m);
    begin_entries(l, &s, NULL);
    LstmStep in = s;
    open_steps(l, &in);
    find_step(l, &in);
    each_phase(l, &in, emit_units);
    close_steps(l, &in);
    emit_rest(l, &s, emit_zeros);
    end_entries(l, &s, NULL);
    lower_close(l, opened);
}

// --- steps of all entries together ---

// Calls fn for groups of entries, and for what is left of the batch.
static void each_group(Lower *l, const LstmStep *s, const Units *u, UnitsFn fn)
{
    const Lstm *m = s->m;
    const int64_t groups = m->batch / m->entries, rest = m->batch % m->entries;
    LstmStep some = *s;
    uint32_t opened = 0;
    some.entries = m->entries;
    some.entry =
        k_expr(l->k, "$ * #", lower_open_count(l->k, groups, KFOR_PARALLEL, "b", &opened), m->entries);
    fn(l, &some, u);
    lower_close(l, opened);
    if (rest == 0)
        return;
    some.entries = (uint32_t)rest;
    some.entry = k_index(l->k, groups * m->entries);
    fn(l, &some, u);
}

static void make_units(Lower *l, const LstmStep *s, const Units *u)
{
    LstmStep at = *s;
    find_step(l, &at);
    emit_units(l, &at, u);
}

static void make_all(Lower *l, const LstmStep *s, const Units *u)
{
    each_group(l, s, u, make_units);
}

static void clear_all(Lower *l, const LstmStep *s, const Units *u)
{
    each_group(l, s, u, emit_zeros);
}

static void emit_direction(Lower *l, const Lstm *m, KRef dir)
{
    LstmStep s = {.m = m, .dir = dir};
    s.steps = lstm_steps_made(l, m);
    each_group(l, &s, NULL, begin_entries);
    LstmStep in = s;
    open_steps(l, &in);
    if (m->on_matrix)
        lstm_matrix_hidden(l, &in, dir_of(l, &in));
    each_phase(l, &in, make_all);
    close_steps(l, &in);
    emit_rest(l, &s, clear_all);
    each_group(l, &s, NULL, end_entries);
}

static void emit_together(Lower *l, const Lstm *m)
{
    uint32_t opened = 0;
    for (int64_t dir = 0; dir < m->dirs && m->on_matrix; dir++)
        emit_direction(l, m, k_index(l->k, dir));
    if (m->on_matrix)
        return;
    emit_direction(l, m, lower_open_count(l->k, m->dirs, KFOR_PARALLEL, "d", &opened));
    lower_close(l, opened);
}

static void lower_recurrent(Lower *l)
{
    Lstm m = lstm_of(l);
    rlx_assert(m.padded >= m.hidden && m.dirs >= 1 && m.dirs <= 2);
    l->pk->macs = (uint64_t)(m.dirs * m.batch * m.seq * m.cell->gates * m.hidden) * (uint64_t)lstm_steps(&m);
    if (lstm_tiles(l, &m) || lstm_group(l, &m))
        return;
    m.scratch =
        lower_param_scratch(l, "lstm state", (DType)m.type, (uint64_t)(m.dirs * m.batch * 3 * m.padded));
    if (m.chunk != 0)
        m.ahead = lower_param_scratch(l, "sums ahead", (DType)m.type,
                                      (uint64_t)(m.dirs * rows_ahead(&m) * lstm_sums(&m)));
    if (m.is_packed)
        lstm_pack(l, &m);
    if (m.on_matrix)
        lstm_matrix_params(l, &m);
    if (m.steps_outside) {
        emit_together(l, &m);
        return;
    }
    const int64_t groups = m.batch / m.entries;
    emit_groups(l, &m, 0, groups, m.entries);
    emit_groups(l, &m, groups * m.entries, 1, (uint32_t)(m.batch % m.entries));
}

void lower_lstm(Lower *l)
{
    lower_recurrent(l);
}

void lower_gru(Lower *l)
{
    lower_recurrent(l);
}

void lower_rnn(Lower *l)
{
    lower_recurrent(l);
}
