// SPDX-License-Identifier: Apache-2.0
// The weights of an lstm: how they are packed, in the order that lower_lstm.c states, and how they are read.
#include "passes/lower/ops/lstm.h"

static const float *const_data(const Lower *l, NodeId id)
{
    return id == 0 ? NULL : node_attr(lower_node(l, id), A_const_data)->u.blob;
}

// Rows of one matrix of a block: its steps, then gates from `first` on, vectors and lanes. Returns where the
// next ones go.
static float *pack_steps(const Lstm *m, const float *from, int64_t size, int64_t first, int64_t gates,
                         const int64_t *units, float *out)
{
    for (int64_t step = 0; step < size; step++)
        for (int64_t gate = first; gate < first + gates; gate++)
            for (int64_t i = 0; i < units[1]; i++, out++)
                if (units[0] + i < m->hidden)
                    *out = from[(gate * m->hidden + units[0] + i) * size + step];
    return out;
}

// The weights of a phase, block after block. Returns where the next ones go.
static float *pack_phase(const Lower *l, const Lstm *m, int64_t dir, uint8_t phase, float *out)
{
    int64_t first = 0;
    const int64_t rows = dir * lstm_gates(m) * m->hidden, gates = lstm_phase_gates(m, phase, &first);
    const float *w = const_data(l, m->w) + rows * m->input, *r = const_data(l, m->r) + rows * m->hidden;
    for (int64_t v = 0, count; v < m->vectors; v += count) {
        count = m->vectors - v < m->block[phase] ? m->vectors - v : m->block[phase];
        const int64_t units[2] = {v * m->lanes, count * m->lanes};
        out = pack_steps(m, w, m->input, first, gates, units, out);
        out = pack_steps(m, r, m->hidden, first, gates, units, out);
    }
    return out;
}

static void pack_weights(Lower *l, Lstm *m)
{
    const int64_t total = m->dirs * m->padded * lstm_steps(m) * lstm_gates(m);
    float *packed = ARENA_ARRAY(l->pass->perm, float, total), *out = packed;
    for (int64_t dir = 0; dir < m->dirs; dir++)
        for (uint8_t phase = 0; phase < m->cell->phases; phase++)
            out = pack_phase(l, m, dir, phase, out);
    rlx_assert(out == packed + total);
    m->weights =
        lower_param_data(l, node_name(l->g, m->w), DTYPE_f32, packed, (uint64_t)total * sizeof *packed);
}

// Rows of the bias that a sum begins with, of the 2 * gates; -1: none.
static void bias_rows(const Lstm *m, int64_t sum, int64_t *rows)
{
    const int64_t of_input = lstm_gate(m, sum, false), of_hidden = lstm_gate(m, sum, true);
    rows[0] = of_input;
    rows[1] = of_hidden < 0 ? -1 : lstm_gates(m) + of_hidden;
}

float lstm_bias_of(const Lstm *m, const float *data, int64_t dir, int64_t sum, int64_t unit)
{
    int64_t rows[2];
    float bias = 0;
    bias_rows(m, sum, rows);
    for (uint32_t i = 0; i < 2; i++)
        bias += rows[i] < 0 ? 0 : data[(dir * 2 * lstm_gates(m) + rows[i]) * m->hidden + unit];
    return bias;
}

// Rows of one number per hidden unit as [direction][vector][row][lane].
static uint32_t pack_rows(Lower *l, const Lstm *m, NodeId id, int64_t rows)
{
    const float *data = const_data(l, id);
    const int64_t total = m->dirs * m->vectors * rows * m->lanes;
    float *packed = ARENA_ARRAY(l->pass->perm, float, total);
    for (int64_t dir = 0; dir < m->dirs; dir++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t unit = 0; unit < m->hidden; unit++) {
                float *to =
                    packed + ((dir * m->vectors + unit / m->lanes) * rows + row) * m->lanes + unit % m->lanes;
                *to = id == m->b ? lstm_bias_of(m, data, dir, row, unit)
                                 : data[(dir * rows + row) * m->hidden + unit];
            }
    return lower_param_data(l, node_name(l->g, id), DTYPE_f32, packed, (uint64_t)total * sizeof *packed);
}

void lstm_pack(Lower *l, Lstm *m)
{
    if (!m->on_matrix)
        pack_weights(l, m);
    if (m->b != 0 && !m->on_matrix)
        m->bias = pack_rows(l, m, m->b, m->cell->sums);
    if (m->p != 0)
        m->peephole = pack_rows(l, m, m->p, GATES - 1);
}

// --- reading them ---

KRef lstm_weight(Lower *l, const LstmStep *s, const Units *u, KRef step, bool is_hidden,
                 const uint32_t *gate_vector)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t gate = lstm_gate(m, gate_vector[0], is_hidden), gates = lstm_gates(m);
    const int64_t v = gate_vector[1], width = (int64_t)u->vectors * m->lanes;
    rlx_assert(gate >= 0);
    if (m->is_packed) {
        int64_t first = 0;
        const int64_t count = lstm_phase_gates(m, s->phase, &first), steps = lstm_steps(m) * m->lanes;
        const KRef dir = k_expr(k, "$ * # + #", s->dir, m->vectors * gates * steps,
                                m->vectors * first * steps);
        const KRef base = k_expr(k, "$ * # + $", u->first, count * steps, dir);
        const KRef row = k_expr(k, "$ + #", step, is_hidden ? m->input : 0);
        const KRef index = k_expr(k, "$ * # + $ + #", row, count * width, base,
                                  (gate - first) * width + v * m->lanes);
        return k_load(k, m->weights, index, m->lanes, m->lanes);
    }
    const NodeId id = is_hidden ? m->r : m->w;
    const KRef row = k_expr(k, "$ + #", u->first, gate * m->hidden + v), idx[3] = {s->dir, row, step};
    return operand_scalar(l, id, operand_index(l, id, idx), m->type);
}

KRef lstm_row(Lower *l, const LstmStep *s, const Units *u, NodeId id, uint32_t row, uint32_t v)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    if (m->is_packed) {
        const int64_t rows = id == m->b ? m->cell->sums : GATES - 1;
        const KRef vector = k_expr(k, "$ * # + $ + #", s->dir, m->vectors, u->first, v);
        const KRef index = k_expr(k, "$ * # + #", vector, rows * m->lanes, (int64_t)row * m->lanes);
        return k_load(k, id == m->b ? m->bias : m->peephole, index, m->lanes, m->lanes);
    }
    int64_t from[2] = {row, -1};
    KRef sum = 0;
    if (id == m->b)
        bias_rows(m, row, from);
    for (uint32_t i = 0; i < 2; i++) {
        if (from[i] < 0)
            continue;
        const KRef idx[2] = {s->dir, k_expr(k, "$ + #", u->first, from[i] * m->hidden + v)};
        const KRef value = operand_scalar(l, id, operand_index(l, id, idx), m->type);
        sum = sum == 0 ? value : k_add(k, sum, value);
    }
    return sum != 0 ? sum : k_number(k, m->type, 0);
}
