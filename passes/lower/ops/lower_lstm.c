// SPDX-License-Identifier: Apache-2.0
// lstm. Per time step: all four gates of a block of hidden units in accumulators (bias + x W + h R), then the
// new cell and hidden values of these units. Constant weights are packed so that the units of a block are
// lanes: [direction][block][step: inputs, then hidden][gate][vector][lane]; other weights are read one by
// one. Hidden values alternate between two rows of scratch memory. Accumulation: f32 fused multiply-adds from
// the bias, inputs first.
#include "passes/lower/operand.h"

enum { GATES = 4, GATE_I = 0, GATE_O, GATE_F, GATE_C, BLOCK_VECTORS = 2 };

typedef struct Lstm {
    NodeId x, w, r, b, h0, c0, p, steps; // the last five may be 0
    NodeId y_h, y_c; // `result` nodes of the final hidden and cell values, 0 = nobody asks
    int64_t seq, batch, dirs, input, hidden;
    bool batch_major, reverse_only, is_packed;
    int type; // of state and sums
    uint8_t lanes;
    int64_t vectors, padded; // hidden / lanes, rounded up; vectors * lanes
    Domain d;
    uint32_t scratch, weights, bias, peephole; // parameters
} Lstm;

// One direction of one batch entry at one time step.
typedef struct LstmStep {
    const Lstm *m;
    KRef dir, entry, time;
    KRef steps;               // that are made
    KRef h_now, h_next, cell; // where they begin in scratch
    KRef x;                   // index of the step's first input
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
        for (int64_t v = 0; v < m->vectors; v += BLOCK_VECTORS) {
            const int64_t left = m->vectors - v;
            pack_block(l, m, dir, v, left < BLOCK_VECTORS ? left : BLOCK_VECTORS,
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
    KRef var[GATES][BLOCK_VECTORS];
} GateSums;

static void begin_sums(Lower *l, const LstmStep *s, const Units *u, GateSums *sums)
{
    static const char *const names[GATES] = {"i", "o", "f", "c"};
    Kernel *k = l->k;
    for (uint32_t g = 0; g < GATES; g++)
        for (uint32_t v = 0; v < u->vectors; v++) {
            const KRef init = s->m->b != 0 ? row_at(l, s, u, s->m->b, g, v)
                                           : k_splat(k, k_number(k, s->m->type, 0), s->m->lanes);
            sums->var[g][v] = k_var(k, init, arena_printf(k->arena, "gate_%s%u", names[g], v));
        }
}

// Adds value * weights to all sums, for every input or every hidden value.
static void add_products(Lower *l, const LstmStep *s, const Units *u, const GateSums *sums, bool is_hidden)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t n = is_hidden ? m->hidden : m->input, stride = lower_loc(l, m->x)->stride[2];
    const KRef step = k_loop(k, n, KFOR_SERIAL, is_hidden ? "j" : "c");
    const KRef value = is_hidden
                           ? k_load(k, m->scratch, k_add(k, s->h_now, step), 1, 1)
                           : operand_scalar(l, m->x, k_expr(k, "$ * # + $", step, stride, s->x), m->type);
    for (uint32_t g = 0; g < GATES; g++)
        for (uint32_t v = 0; v < u->vectors; v++) {
            const uint32_t gate_vector[2] = {g, v};
            const KRef weight = weight_at(l, s, u, step, is_hidden, gate_vector),
                       sum = k_get(k, sums->var[g][v]);
            k_set(k, sums->var[g][v], k_fma(k, value, weight, sum));
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

// Vector v of the row of Y.
static void store_unit(Lower *l, const LstmStep *s, const Units *u, KRef unit, uint32_t v, KRef value)
{
    const Lstm *m = s->m;
    Point at = {.lanes = m->lanes, .count = v + 1u == u->vectors ? u->last_count : m->lanes, .vec_axis = 3};
    at.idx[0] = m->batch_major ? s->entry : s->time;
    at.idx[1] = m->batch_major ? s->time : s->dir;
    at.idx[2] = m->batch_major ? s->dir : s->entry;
    at.idx[3] = unit;
    pull_store_root(l, &m->d, at, k_cast(l->k, value, lower_node(l, l->anchor)->dtype));
}

static void update_vector(Lower *l, const LstmStep *s, const Units *u, const GateSums *sums, uint32_t v)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef unit = k_expr(k, "($ + #) * #", u->first, v, m->lanes), place = k_add(k, s->cell, unit);
    const KRef old = k_load(k, m->scratch, place, m->lanes, m->lanes);
    const KRef i = sigmoid(k, peep(l, s, u, k_get(k, sums->var[GATE_I][v]), GATE_I, v, old));
    const KRef f = sigmoid(k, peep(l, s, u, k_get(k, sums->var[GATE_F][v]), GATE_F, v, old));
    const KRef g = k_tanh(k, k_get(k, sums->var[GATE_C][v]));
    const KRef cell = k_fma(k, f, old, k_mul(k, i, g));
    const KRef o = sigmoid(k, peep(l, s, u, k_get(k, sums->var[GATE_O][v]), GATE_O, v, cell));
    const KRef hidden = k_mul(k, o, k_tanh(k, cell));
    k_store(k, m->scratch, place, cell, m->lanes);
    k_store(k, m->scratch, k_add(k, s->h_next, unit), hidden, m->lanes);
    store_unit(l, s, u, unit, v, hidden);
}

static void emit_units(Lower *l, const LstmStep *s, const Units *u, bool is_made)
{
    GateSums sums;
    for (uint32_t v = 0; v < u->vectors && !is_made; v++) {
        const KRef unit = k_expr(l->k, "($ + #) * #", u->first, v, s->m->lanes);
        store_unit(l, s, u, unit, v, k_splat(l->k, k_number(l->k, s->m->type, 0), s->m->lanes));
    }
    if (!is_made)
        return;
    begin_sums(l, s, u, &sums);
    add_products(l, s, u, &sums, false);
    add_products(l, s, u, &sums, true);
    for (uint32_t v = 0; v < u->vectors; v++)
        update_vector(l, s, u, &sums, v);
}

// Whole blocks in a loop, then what is left: fewer vectors, or a last one that is not full. A step that is
// not made leaves zeros.
static void emit_step(Lower *l, const LstmStep *s, bool is_made)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t full = m->hidden / m->lanes, whole = full - full % BLOCK_VECTORS;
    const uint8_t count = (uint8_t)(m->hidden - (m->vectors - 1) * m->lanes);
    Units u = {.vectors = BLOCK_VECTORS, .last_count = m->lanes};
    if (whole > 0) {
        u.first = k_for(k, k_index(k, 0), k_index(k, whole), BLOCK_VECTORS, KFOR_PARALLEL, "u");
        emit_units(l, s, &u, is_made);
        k_end(k);
    }
    u = (Units){.first = k_index(k, whole), .vectors = (uint8_t)(m->vectors - whole), .last_count = count};
    if (u.vectors > 0)
        emit_units(l, s, &u, is_made);
}

// --- time ---

static KRef state_index(Lower *l, const LstmStep *s, NodeId id, KRef unit)
{
    const bool batch_major = s->m->batch_major;
    const KRef idx[3] = {batch_major ? s->entry : s->dir, batch_major ? s->dir : s->entry, unit};
    return operand_index(l, id, idx);
}

static void begin_state(Lower *l, const LstmStep *s, NodeId id, KRef to)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef zero = k_number(k, m->type, 0);
    const KRef unit = k_loop(k, m->hidden, KFOR_SERIAL, "u");
    k_store(k, m->scratch, k_add(k, to, unit),
            id == 0 ? zero : operand_scalar(l, id, state_index(l, s, id, unit), m->type), 1);
    k_end(k);
    for (int64_t i = m->hidden; i < m->padded; i++)
        k_store(k, m->scratch, k_expr(k, "$ + #", to, i), zero, 1);
}

static void end_state(Lower *l, const LstmStep *s, NodeId id, KRef from)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    if (id == 0)
        return;
    const KRef unit = k_loop(k, m->hidden, KFOR_SERIAL, "u");
    const KRef value = k_load(k, m->scratch, k_add(k, from, unit), 1, 1);
    k_store(k, lower_param(l, id, PARAM_WRITE), state_index(l, s, id, unit),
            k_cast(k, value, lower_node(l, id)->dtype), 1);
    k_end(k);
}

static void emit_entry(Lower *l, LstmStep *s)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef base = k_expr(k, "($ * # + $) * #", s->dir, m->batch, s->entry, 3 * m->padded);
    s->cell = k_expr(k, "$ + #", base, 2 * m->padded);
    begin_state(l, s, m->h0, base);
    begin_state(l, s, m->c0, s->cell);
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
    end_state(l, s, m->y_h, k_expr(k, "$ * # + $", is_odd, m->padded, base));
    end_state(l, s, m->y_c, s->cell);
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
    const Domain entries = {.rank = 2, .extent = {m.dirs, m.batch}};
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &entries, 2, &at);
    LstmStep s = {.m = &m, .dir = at.idx[0], .entry = at.idx[1]};
    s.steps = m.steps != 0 ? operand_clamped(l, m.steps, k_index(l->k, 0), 0, m.seq) : k_index(l->k, m.seq);
    emit_entry(l, &s);
    lower_close(l, opened);
}
