// SPDX-License-Identifier: Apache-2.0
// lstm. Per time step: all four gates of a block of hidden units in accumulators (bias + x W + h R), then the
// new cell and hidden values of these units. Constant weights are packed so that the units of a block are
// lanes: [direction][block][step: inputs, then hidden][gate][vector][lane]; other weights are read one by
// one. Entries of a batch are taken several at a time, so that each weight that is read serves all of them.
// Hidden values alternate between two rows of scratch memory. Accumulation: f32 fused multiply-adds from the
// bias, inputs first.
#include "passes/lower/operand.h"

enum { GATES = 4, GATE_I = 0, GATE_O, GATE_F, GATE_C, BLOCK_VECTORS = 2, MOST_ENTRIES = 6 };

typedef struct Lstm {
    NodeId x, w, r, b, h0, c0, p, steps; // the last five may be 0
    NodeId y_h, y_c; // `result` nodes of the final hidden and cell values, 0 = nobody asks
    int64_t seq, batch, dirs, input, hidden;
    bool batch_major, reverse_only, is_packed;
    int type; // of state and sums
    uint8_t lanes;
    uint8_t block;           // vectors of a block: fewer where each weight serves several entries
    uint32_t entries;        // of the batch that are computed together
    int64_t vectors, padded; // hidden / lanes, rounded up; vectors * lanes
    Domain d;
    uint32_t scratch, weights, bias, peephole; // parameters
} Lstm;

// One direction of some entries of the batch at one time step.
typedef struct LstmStep {
    const Lstm *m;
    uint32_t entries;
    KRef dir, entry, time;    // entry: the first
    KRef steps;               // that are made
    KRef h_now, h_next, cell; // where those of the first entry begin in scratch
    KRef x;                   // index of its first input of the step
} LstmStep;

// A run of hidden units: `vectors` vectors (of one lane in plain code), beginning with vector `first`.
typedef struct Units {
    KRef first;
    uint8_t vectors, last_count; // lanes of the last vector that are real
} Units;

static bool is_const_or_absent(const Lower *l, NodeId id)
{
    return id == 0 || node_is_const(l->g, id);
}

// As many entries as vector registers have sums, inputs and a weight for; all groups alike where that costs
// half of them at most.
static uint32_t count_entries(const Lower *l, const Lstm *m)
{
    const int64_t fit = (l->caps->vector_regs - 1) / (GATES + 1);
    const int64_t most = fit < MOST_ENTRIES ? fit : MOST_ENTRIES;
    if (m->lanes == 1 || m->batch <= 1 || most <= 1)
        return 1;
    for (int64_t n = most; 2 * n > most; n--)
        if (m->batch % n == 0)
            return (uint32_t)n;
    return (uint32_t)(m->batch < most ? m->batch : most);
}

static Lstm lstm_of(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    NodeId src[8] = {0};
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = n->src[i];
    const Shape *x = lower_node(l, src[0])->shape;
    Lstm m = {.x = src[0],
              .w = src[1],
              .r = src[2],
              .b = src[3],
              .h0 = src[4],
              .c0 = src[5],
              .p = src[6],
              .steps = src[7],
              .y_h = lower_find_result(l, 1),
              .y_c = lower_find_result(l, 2),
              .batch_major = node_get_int(n, A_lstm_batch_major) != 0,
              .reverse_only = str_equal(node_get_str(n, A_lstm_direction), "reverse"),
              .type = operand_sum_type(n->dtype)};
    m.seq = x->dim[m.batch_major ? 1 : 0];
    m.batch = x->dim[m.batch_major ? 0 : 1];
    m.input = x->dim[2];
    m.dirs = lower_node(l, m.w)->shape->dim[0];
    m.hidden = lower_node(l, m.r)->shape->dim[2];
    m.d = domain_of(lower_node(l, l->root)->shape);
    domain_add(l, &m.d, l->root);
    domain_add_operands(l, &m.d, l->root);
    m.is_packed = l->caps->packs_weights && n->dtype == DTYPE_f32 && node_is_const(l->g, m.w) &&
                  node_is_const(l->g, m.r) && is_const_or_absent(l, m.b) && is_const_or_absent(l, m.p);
    m.lanes = m.is_packed && !l->caps->is_gpu ? domain_lanes(l, &m.d, 3) : 1;
    m.vectors = (m.hidden + m.lanes - 1) / m.lanes;
    m.padded = m.vectors * m.lanes;
    m.entries = count_entries(l, &m);
    m.block = m.entries > 1 ? 1 : BLOCK_VECTORS;
    return m;
}

// --- packing ---

static const float *const_data(const Lower *l, NodeId id)
{
    return id == 0 ? NULL : node_attr(lower_node(l, id), A_const_data)->u.blob;
}

static int64_t steps_of(const Lstm *m)
{
    return m->input + m->hidden;
}

// The weights of one block: all steps, then gates, vectors and lanes.
static void pack_block(const Lower *l, const Lstm *m, int64_t dir, int64_t first, int64_t vectors, float *out)
{
    const float *w = const_data(l, m->w) + dir * GATES * m->hidden * m->input,
                *r = const_data(l, m->r) + dir * GATES * m->hidden * m->hidden;
    for (int64_t step = 0; step < steps_of(m); step++)
        for (int64_t gate = 0; gate < GATES; gate++)
            for (int64_t i = 0; i < vectors * m->lanes; i++, out++) {
                const int64_t unit = first * m->lanes + i, row = gate * m->hidden + unit;
                if (unit < m->hidden)
                    *out = step < m->input ? w[row * m->input + step] : r[row * m->hidden + step - m->input];
            }
}

static void pack_weights(Lower *l, Lstm *m)
{
    const int64_t each = steps_of(m) * GATES * m->lanes, total = m->dirs * m->vectors * each;
    float *packed = ARENA_ARRAY(l->pass->perm, float, total);
    for (int64_t dir = 0; dir < m->dirs; dir++)
        for (int64_t v = 0; v < m->vectors; v += m->block) {
            const int64_t left = m->vectors - v;
            pack_block(l, m, dir, v, left < m->block ? left : m->block,
                       packed + (dir * m->vectors + v) * each);
        }
    m->weights =
        lower_param_data(l, node_name(l->g, m->w), DTYPE_f32, packed, (uint64_t)total * sizeof *packed);
}

// Rows of one number per hidden unit as [direction][vector][row][lane]. add: also the row that many numbers
// further, or 0.
static uint32_t pack_rows(Lower *l, const Lstm *m, NodeId id, int64_t rows, int64_t add)
{
    const float *data = const_data(l, id);
    const int64_t per_dir = rows * m->hidden + add, total = m->dirs * m->vectors * rows * m->lanes;
    float *packed = ARENA_ARRAY(l->pass->perm, float, total);
    for (int64_t dir = 0; dir < m->dirs; dir++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t unit = 0; unit < m->hidden; unit++) {
                const float *from = data + dir * per_dir + row * m->hidden + unit;
                float *to =
                    packed + ((dir * m->vectors + unit / m->lanes) * rows + row) * m->lanes + unit % m->lanes;
                *to = add != 0 ? from[0] + from[add] : from[0];
            }
    return lower_param_data(l, node_name(l->g, id), DTYPE_f32, packed, (uint64_t)total * sizeof *packed);
}

static void pack_all(Lower *l, Lstm *m)
{
    pack_weights(l, m);
    if (m->b != 0)
        m->bias = pack_rows(l, m, m->b, GATES, GATES * m->hidden);
    if (m->p != 0)
        m->peephole = pack_rows(l, m, m->p, GATES - 1, 0);
}

// --- reading weights ---

// Vector v of the block, of weight `step` (inputs first, then hidden values), for a gate.
static KRef weight_at(Lower *l, const LstmStep *s, const Units *u, KRef step, int64_t is_hidden,
                      const uint32_t *gate_vector)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t gate = gate_vector[0], v = gate_vector[1], width = (int64_t)u->vectors * m->lanes;
    if (m->is_packed) {
        const KRef block = k_expr(k, "$ * # + $", s->dir, m->vectors, u->first);
        const KRef base = k_expr(k, "$ * #", block, steps_of(m) * GATES * m->lanes);
        const KRef row = k_expr(k, "$ + #", step, is_hidden ? m->input : 0);
        const KRef index = k_expr(k, "$ * # + $ + #", row, GATES * width, base, gate * width + v * m->lanes);
        return k_load(k, m->weights, index, m->lanes, m->lanes);
    }
    const NodeId id = is_hidden ? m->r : m->w;
    const KRef row = k_expr(k, "$ + #", u->first, gate * m->hidden + v), idx[3] = {s->dir, row, step};
    return operand_scalar(l, id, operand_index(l, id, idx), m->type);
}

// Row `row` of the packed or plain bias or peephole weights, for vector v.
static KRef row_at(Lower *l, const LstmStep *s, const Units *u, NodeId id, uint32_t row, uint32_t v)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    if (m->is_packed) {
        const int64_t rows = id == m->b ? GATES : GATES - 1;
        const KRef vector = k_expr(k, "$ * # + $ + #", s->dir, m->vectors, u->first, v);
        const KRef index = k_expr(k, "$ * # + #", vector, rows * m->lanes, (int64_t)row * m->lanes);
        return k_load(k, id == m->b ? m->bias : m->peephole, index, m->lanes, m->lanes);
    }
    const KRef unit = k_expr(k, "$ + #", u->first, (int64_t)row * m->hidden + v), idx[2] = {s->dir, unit};
    const KRef value = operand_scalar(l, id, operand_index(l, id, idx), m->type);
    if (id != m->b)
        return value;
    const KRef second[2] = {s->dir, k_expr(k, "$ + #", unit, GATES * m->hidden)};
    return k_add(k, value, operand_scalar(l, id, operand_index(l, id, second), m->type));
}

// --- one block of units ---

typedef struct GateSums {
    KRef var[MOST_ENTRIES][GATES][BLOCK_VECTORS];
} GateSums;

// Where what is at `first` for the first entry is for the e-th.
static KRef of_entry(Lower *l, const LstmStep *s, KRef first, uint32_t e)
{
    return k_expr(l->k, "$ + #", first, e * 3 * s->m->padded);
}

static void begin_sums(Lower *l, const LstmStep *s, const Units *u, GateSums *sums)
{
    static const char *const names[GATES] = {"i", "o", "f", "c"};
    Kernel *k = l->k;
    for (uint32_t g = 0; g < GATES; g++)
        for (uint32_t v = 0; v < u->vectors; v++) {
            const KRef init = s->m->b != 0 ? row_at(l, s, u, s->m->b, g, v)
                                           : k_splat(k, k_number(k, s->m->type, 0), s->m->lanes);
            for (uint32_t e = 0; e < s->entries; e++)
                sums->var[e][g][v] = k_var(k, init, arena_printf(k->arena, "gate_%s%u", names[g], v));
        }
}

// Input or hidden value `step` of an entry.
static KRef value_at(Lower *l, const LstmStep *s, uint32_t e, KRef step, bool is_hidden)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t *stride = lower_loc(l, m->x)->stride;
    if (is_hidden)
        return k_load(k, m->scratch, k_add(k, of_entry(l, s, s->h_now, e), step), 1, 1);
    const KRef first = k_expr(k, "$ + #", s->x, e * stride[m->batch_major ? 0 : 1]);
    return operand_scalar(l, m->x, k_expr(k, "$ * # + $", step, stride[2], first), m->type);
}

// Adds value * weights to all sums, for every input or every hidden value.
static void add_products(Lower *l, const LstmStep *s, const Units *u, const GateSums *sums, bool is_hidden)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    KRef value[MOST_ENTRIES];
    const KRef step = k_loop(k, is_hidden ? m->hidden : m->input, KFOR_SERIAL, is_hidden ? "j" : "c");
    for (uint32_t e = 0; e < s->entries; e++)
        value[e] = value_at(l, s, e, step, is_hidden);
    for (uint32_t g = 0; g < GATES; g++)
        for (uint32_t v = 0; v < u->vectors; v++) {
            const uint32_t gate_vector[2] = {g, v};
            const KRef weight = weight_at(l, s, u, step, is_hidden, gate_vector);
            for (uint32_t e = 0; e < s->entries; e++) {
                const KRef sum = sums->var[e][g][v];
                k_set(k, sum, k_fma(k, value[e], weight, k_get(k, sum)));
            }
        }
    k_end(k);
}

static KRef sigmoid(Kernel *k, KRef v)
{
    return k_form(k, "(gate 1 a)", &v, k_inst(k, v)->dtype);
}

// Gate sum plus peephole weight * cell.
static KRef peep(Lower *l, const LstmStep *s, const Units *u, KRef sum, uint32_t gate, uint32_t v, KRef cell)
{
    return s->m->p == 0 ? sum : k_fma(l->k, row_at(l, s, u, s->m->p, gate, v), cell, sum);
}

// Vector v of the row of Y of an entry.
static void store_unit(Lower *l, const LstmStep *s, const Units *u, uint32_t e, uint32_t v, KRef value)
{
    const Lstm *m = s->m;
    const KRef unit = k_expr(l->k, "($ + #) * #", u->first, v, m->lanes);
    const KRef entry = k_expr(l->k, "$ + #", s->entry, e);
    Point at = {.lanes = m->lanes, .count = v + 1u == u->vectors ? u->last_count : m->lanes, .vec_axis = 3};
    at.idx[0] = m->batch_major ? entry : s->time;
    at.idx[1] = m->batch_major ? s->time : s->dir;
    at.idx[2] = m->batch_major ? s->dir : entry;
    at.idx[3] = unit;
    pull_store_root(l, &m->d, at, k_cast(l->k, value, lower_node(l, l->anchor)->dtype));
}

static void update_vector(Lower *l, const LstmStep *s, const Units *u, const GateSums *all, uint32_t e,
                          uint32_t v)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef unit = k_expr(k, "($ + #) * #", u->first, v, m->lanes);
    const KRef place = k_add(k, of_entry(l, s, s->cell, e), unit);
    KRef sum[GATES];
    for (uint32_t g = 0; g < GATES; g++)
        sum[g] = k_get(k, all->var[e][g][v]);
    const KRef old = k_load(k, m->scratch, place, m->lanes, m->lanes);
    const KRef i = sigmoid(k, peep(l, s, u, sum[GATE_I], GATE_I, v, old));
    const KRef f = sigmoid(k, peep(l, s, u, sum[GATE_F], GATE_F, v, old));
    const KRef g = k_tanh(k, sum[GATE_C]);
    const KRef cell = k_fma(k, f, old, k_mul(k, i, g));
    const KRef o = sigmoid(k, peep(l, s, u, sum[GATE_O], GATE_O, v, cell));
    const KRef hidden = k_mul(k, o, k_tanh(k, cell));
    k_store(k, m->scratch, place, cell, m->lanes);
    k_store(k, m->scratch, k_add(k, of_entry(l, s, s->h_next, e), unit), hidden, m->lanes);
    store_unit(l, s, u, e, v, hidden);
}

static void emit_units(Lower *l, const LstmStep *s, const Units *u, bool is_made)
{
    GateSums sums;
    const KRef zero = k_splat(l->k, k_number(l->k, s->m->type, 0), s->m->lanes);
    if (is_made) {
        begin_sums(l, s, u, &sums);
        add_products(l, s, u, &sums, false);
        add_products(l, s, u, &sums, true);
    }
    for (uint32_t e = 0; e < s->entries; e++)
        for (uint32_t v = 0; v < u->vectors; v++)
            if (is_made)
                update_vector(l, s, u, &sums, e, v);
            else
                store_unit(l, s, u, e, v, zero);
}

// Whole blocks in a loop, then what is left: fewer vectors, or a last one that is not full. A step that is
// not made leaves zeros.
static void emit_step(Lower *l, const LstmStep *s, bool is_made)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t full = m->hidden / m->lanes, whole = full - full % m->block;
    const uint8_t count = (uint8_t)(m->hidden - (m->vectors - 1) * m->lanes);
    Units u = {.vectors = m->block, .last_count = m->lanes};
    if (whole > 0) {
        u.first = k_for(k, k_index(k, 0), k_index(k, whole), m->block, KFOR_PARALLEL, "u");
        emit_units(l, s, &u, is_made);
        k_end(k);
    }
    u = (Units){.first = k_index(k, whole), .vectors = (uint8_t)(m->vectors - whole), .last_count = count};
    if (u.vectors > 0)
        emit_units(l, s, &u, is_made);
}

// --- time ---

static KRef state_index(Lower *l, const LstmStep *s, NodeId id, uint32_t e, KRef unit)
{
    const bool batch_major = s->m->batch_major;
    const KRef entry = k_expr(l->k, "$ + #", s->entry, e);
    const KRef idx[3] = {batch_major ? entry : s->dir, batch_major ? s->dir : entry, unit};
    return operand_index(l, id, idx);
}

static void begin_state(Lower *l, const LstmStep *s, NodeId id, uint32_t e, KRef first)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef to = of_entry(l, s, first, e);
    const KRef zero = k_number(k, m->type, 0);
    const KRef unit = k_loop(k, m->hidden, KFOR_SERIAL, "u");
    k_store(k, m->scratch, k_add(k, to, unit),
            id == 0 ? zero : operand_scalar(l, id, state_index(l, s, id, e, unit), m->type), 1);
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
    k_store(k, lower_param(l, id, PARAM_WRITE), state_index(l, s, id, e, unit),
            k_cast(k, value, lower_node(l, id)->dtype), 1);
    k_end(k);
}

static void emit_entries(Lower *l, LstmStep *s)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef base = k_expr(k, "($ * # + $) * #", s->dir, m->batch, s->entry, 3 * m->padded);
    s->cell = k_expr(k, "$ + #", base, 2 * m->padded);
    for (uint32_t e = 0; e < s->entries; e++) {
        begin_state(l, s, m->h0, e, base);
        begin_state(l, s, m->c0, e, s->cell);
    }
    const KRef i = k_for(k, k_index(k, 0), s->steps, 1, KFOR_SERIAL, "t");
    const KRef odd = k_expr(k, "$ % 2", i), even = k_expr(k, "1 - $", odd);
    const KRef last = k_expr(k, "$ - 1", s->steps);
    const KRef backwards = k_sub(k, last, i);
    const KRef is_second = k_expr(k, "$ == 1", s->dir);
    s->time = m->reverse_only ? backwards : k_select(k, is_second, backwards, i);
    s->h_now = k_expr(k, "$ * # + $", odd, m->padded, base);
    s->h_next = k_expr(k, "$ * # + $", even, m->padded, base);
    const KRef x[3] = {m->batch_major ? s->entry : s->time, m->batch_major ? s->time : s->entry,
                       k_index(k, 0)};
    s->x = operand_index(l, m->x, x);
    emit_step(l, s, true);
    k_end(k);
    if (m->steps != 0) {
        s->time = k_for(k, s->steps, k_index(k, m->seq), 1, KFOR_SERIAL, "t");
        emit_step(l, s, false);
        k_end(k);
    }
    const KRef is_odd = k_expr(k, "$ % 2", s->steps);
    for (uint32_t e = 0; e < s->entries; e++) {
        end_state(l, s, m->y_h, e, k_expr(k, "$ * # + $", is_odd, m->padded, base));
        end_state(l, s, m->y_c, e, s->cell);
    }
}

// `groups` groups of entries of the batch, from `first` on, of both directions.
static void emit_groups(Lower *l, const Lstm *m, int64_t first, int64_t groups, uint32_t entries)
{
    if (groups == 0 || entries == 0)
        return;
    const Domain all = {.rank = 2, .extent = {m->dirs, groups}};
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &all, 2, &at);
    LstmStep s = {.m = m, .entries = entries, .dir = at.idx[0]};
    s.entry = k_expr(l->k, "$ * # + #", at.idx[1], entries, first);
    s.steps =
        m->steps != 0 ? operand_clamped(l, m->steps, k_index(l->k, 0), 0, m->seq) : k_index(l->k, m->seq);
    emit_entries(l, &s);
    lower_close(l, opened);
}

void lower_lstm(Lower *l)
{
    Lstm m = lstm_of(l);
    rlx_assert(m.padded >= m.hidden && m.dirs >= 1 && m.dirs <= 2);
    l->pk->macs = (uint64_t)(m.dirs * m.batch * m.seq * GATES * m.hidden) * (uint64_t)steps_of(&m);
    m.scratch =
        lower_param_scratch(l, "lstm state", (DType)m.type, (uint64_t)(m.dirs * m.batch * 3 * m.padded));
    if (m.is_packed)
        pack_all(l, &m);
    const int64_t groups = m.batch / m.entries;
    emit_groups(l, &m, 0, groups, m.entries);
    emit_groups(l, &m, groups * m.entries, 1, (uint32_t)(m.batch % m.entries));
}
