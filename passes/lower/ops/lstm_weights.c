// SPDX-License-Identifier: Apache-2.0
// The weights of an lstm: how they are packed, in the order that lower_lstm.c states, and how they are read.
#include "passes/lower/ops/lstm.h"

static const float *const_data(const Lower *l, NodeId id)
{
    return id == 0 ? NULL : node_attr(lower_node(l, id), A_const_data)->u.blob;
}

// The weights of one block: all steps, then gates, vectors and lanes.
static void pack_block(const Lower *l, const Lstm *m, int64_t dir, int64_t first, int64_t vectors, float *out)
{
    const int64_t gates = lstm_gates(m);
    const float *w = const_data(l, m->w) + dir * gates * m->hidden * m->input,
                *r = const_data(l, m->r) + dir * gates * m->hidden * m->hidden;
    for (int64_t step = 0; step < lstm_steps(m); step++)
        for (int64_t gate = 0; gate < gates; gate++)
            for (int64_t i = 0; i < vectors * m->lanes; i++, out++) {
                const int64_t unit = first * m->lanes + i, row = gate * m->hidden + unit;
                if (unit < m->hidden)
                    *out = step < m->input ? w[row * m->input + step] : r[row * m->hidden + step - m->input];
            }
}

static void pack_weights(Lower *l, Lstm *m)
{
    const int64_t each = lstm_steps(m) * lstm_gates(m) * m->lanes, total = m->dirs * m->vectors * each;
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

// Rows of the bias that a sum begins with, of the 2 * gates; -1: none.
static void bias_rows(const Lstm *m, int64_t sum, int64_t *rows)
{
    const int64_t of_input = lstm_gate(m, sum, false), of_hidden = lstm_gate(m, sum, true);
    rows[0] = of_input;
    rows[1] = of_hidden < 0 ? -1 : lstm_gates(m) + of_hidden;
}

// Rows of one number per hidden unit as [direction][vector][row][lane], of a constant that has `all` rows.
static uint32_t pack_rows(Lower *l, const Lstm *m, NodeId id, int64_t rows, int64_t all)
{
    const float *data = const_data(l, id);
    const int64_t total = m->dirs * m->vectors * rows * m->lanes;
    float *packed = ARENA_ARRAY(l->pass->perm, float, total);
    for (int64_t dir = 0; dir < m->dirs; dir++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t unit = 0; unit < m->hidden; unit++) {
                int64_t from[2] = {row, -1};
                float *to =
                    packed + ((dir * m->vectors + unit / m->lanes) * rows + row) * m->lanes + unit % m->lanes;
                if (id == m->b)
                    bias_rows(m, row, from);
                for (uint32_t i = 0; i < 2; i++)
                    *to += from[i] < 0 ? 0 : data[(dir * all + from[i]) * m->hidden + unit];
            }
    return lower_param_data(l, node_name(l->g, id), DTYPE_f32, packed, (uint64_t)total * sizeof *packed);
}

void lstm_pack(Lower *l, Lstm *m)
{
    pack_weights(l, m);
    if (m->b != 0)
        m->bias = pack_rows(l, m, m->b, m->cell->sums, 2 * lstm_gates(m));
    if (m->p != 0)
        m->peephole = pack_rows(l, m, m->p, GATES - 1, GATES - 1);
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
        const KRef block = k_expr(k, "$ * # + $", s->dir, m->vectors, u->first);
        const KRef base = k_expr(k, "$ * #", block, lstm_steps(m) * gates * m->lanes);
        const KRef row = k_expr(k, "$ + #", step, is_hidden ? m->input : 0);
        const KRef index = k_expr(k, "$ * # + $ + #", row, gates * width, base, gate * width + v * m->lanes);
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
