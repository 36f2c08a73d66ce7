// SPDX-License-Identifier: Apache-2.0
// What recurrent layers make of their sums (lstm.h), for all targets.
#include "passes/lower/ops/lstm.h"

const RecurrentCell *lstm_cell(OpId op, bool resets_after)
{
    static const RecurrentCell cells[] = {
        {OP_lstm, false, 4, 4, 1, {0, 1, 2, 3}, {0, 1, 2, 3}, {0}},
        {OP_gru, true, 3, 4, 1, {0, 1, 2, -1}, {0, 1, -1, 2}, {0}},
        {OP_gru, false, 3, 4, 2, {0, 1, 2, -1}, {0, 1, 2, -1}, {0, 0, 1, NO_PHASE}},
        {OP_rnn, false, 1, 1, 1, {0, -1, -1, -1}, {0, -1, -1, -1}, {0, NO_PHASE, NO_PHASE, NO_PHASE}},
    };
    const RecurrentCell *cell = cells;
    while (cell->op != op || cell->resets_after != resets_after)
        cell++;
    return cell;
}

static KRef clipped(Kernel *k, const Lstm *m, KRef v)
{
    if (m->clip <= 0)
        return v;
    const int type = k_inst(k, v)->dtype;
    const uint8_t lanes = k_inst(k, v)->lanes;
    const KRef ends[3] = {v, k_splat(k, k_number(k, type, m->clip), lanes),
                          k_splat(k, k_number(k, type, -m->clip), lanes)};
    return k_form(k, "(max c (min b a))", ends, type);
}

static KRef sigmoid(Kernel *k, const Lstm *m, KRef v)
{
    const KRef sum = clipped(k, m, v);
    return k_form(k, "(gate 1 a)", &sum, k_inst(k, v)->dtype);
}

static KRef activated(Kernel *k, const Lstm *m, KRef v)
{
    const KRef sum = clipped(k, m, v);
    return m->is_relu ? k_form(k, "(max 0 a)", &sum, k_inst(k, v)->dtype) : k_tanh(k, sum);
}

KRef lstm_reset(Lower *l, const Lstm *m, const KRef *sum, KRef old, KRef *z)
{
    *z = sigmoid(l->k, m, sum[GATE_Z]);
    return k_mul(l->k, sigmoid(l->k, m, sum[GATE_R]), old);
}

static KRef gru_hidden(Lower *l, const Lstm *m, const KRef *sum, KRef old)
{
    Kernel *k = l->k;
    KRef z = sum[GATE_Z], all = sum[GATE_NEW];
    if (m->cell->resets_after) {
        z = sigmoid(k, m, sum[GATE_Z]);
        all = k_fma(k, sigmoid(k, m, sum[GATE_R]), sum[GATE_OLD], all);
    }
    const KRef fresh = activated(k, m, all);
    return k_fma(k, z, k_sub(k, old, fresh), fresh);
}

// Gate sum plus peephole weight * cell.
static KRef peep(Lower *l, const LstmStep *s, const Units *u, KRef sum, uint32_t gate, uint32_t v, KRef cell)
{
    return s->m->p == 0 ? sum : k_fma(l->k, lstm_row(l, s, u, s->m->p, gate, v), cell, sum);
}

KRef lstm_hidden(Lower *l, const LstmStep *s, const Units *u, uint32_t v, const KRef *sum, KRef *state)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const KRef old = *state;
    if (!m->is_lstm) {
        *state = m->cell->gates == 1 ? activated(k, m, sum[0]) : gru_hidden(l, m, sum, old);
        return *state;
    }
    const KRef i = sigmoid(k, m, peep(l, s, u, sum[GATE_I], GATE_I, v, old));
    const KRef f = sigmoid(k, m, peep(l, s, u, sum[GATE_F], GATE_F, v, old));
    const KRef g = activated(k, m, sum[GATE_C]);
    *state = k_fma(k, f, old, k_mul(k, i, g));
    const KRef o = sigmoid(k, m, peep(l, s, u, sum[GATE_O], GATE_O, v, *state));
    return k_mul(k, o, k_tanh(k, *state));
}
