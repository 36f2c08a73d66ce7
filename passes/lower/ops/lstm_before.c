// SPDX-License-Identifier: Apache-2.0
// Sums over inputs that a product made before (passes/graph/ahead.c), on GPUs. Those of f32 are NaN where
// inputs or weights are infinite, and then made one by one.
#include "passes/lower/ops/lstm.h"

KRef lstm_sum_before(Lower *l, const LstmStep *s, const Units *u, int64_t sum)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const int64_t gate = lstm_gate(m, sum, false);
    if (gate < 0)
        return m->b != 0 ? lstm_row(l, s, u, m->b, (uint32_t)sum, 0) : k_number(k, m->type, 0);
    const KRef row = k_expr(k, "($ * # + #) * # + $", s->dir, lstm_gates(m), gate, m->hidden, u->first);
    const KRef idx[3] = {m->batch_major ? s->entry : s->time, m->batch_major ? s->time : s->entry, row};
    return operand_scalar(l, m->sums, operand_index(l, m->sums, idx), m->type);
}

// A sum over inputs, one by one, with the bias.
static KRef sum_inputs(Lower *l, const LstmStep *s, const Units *u, uint32_t sum)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    const uint32_t gate_vector[2] = {sum, 0};
    const KRef first = lstm_input_at(l, s, s->time), all = k_var(k, k_number(k, m->type, 0), "sum");
    const KRef i = k_loop(k, m->input, KFOR_ROLL, "i");
    const KRef at = k_expr(k, "$ * # + $", i, lower_loc(l, m->x)->stride[2], first);
    k_set(k, all, k_fma(k, operand_scalar(l, m->x, at, m->type), lstm_weight(l, s, u, i, false, gate_vector),
                        k_get(k, all)));
    k_end(k);
    return m->b != 0 ? k_add(k, k_get(k, all), lstm_row(l, s, u, m->b, sum, 0)) : k_get(k, all);
}

// Where one of the sums is NaN, all of them, one by one.
void lstm_mend_sums(Lower *l, const LstmStep *s, const Units *u, KRef *sums)
{
    Kernel *k = l->k;
    const Lstm *m = s->m;
    KRef all = 0;
    if (lower_node(l, m->x)->dtype != DTYPE_f32)
        return;
    for (uint32_t g = 0; g < m->cell->sums; g++)
        if (sums[g] != 0 && lstm_gate(m, g, false) >= 0) {
            all = all == 0 ? sums[g] : k_add(k, all, sums[g]);
            sums[g] = k_var(k, sums[g], "sum");
        }
    k_if(k, k_ne(k, all, all));
    for (uint32_t g = 0; g < m->cell->sums; g++)
        if (sums[g] != 0 && lstm_gate(m, g, false) >= 0)
            k_set(k, sums[g], sum_inputs(l, s, u, g));
    k_end(k);
    for (uint32_t g = 0; g < m->cell->sums; g++)
        if (sums[g] != 0 && lstm_gate(m, g, false) >= 0)
            sums[g] = k_get(k, sums[g]);
}
