// SPDX-License-Identifier: Apache-2.0
// What a recurrent layer is, and how lower_lstm.c cuts it for registers and caches.
#include "ir/shape/forms.h"
#include "passes/lower/ops/lstm.h"

static bool is_const_or_absent(const Lower *l, NodeId id)
{
    return id == 0 || node_is_const(l->g, id);
}

// As many steps as vector registers have sums, inputs and a weight for.
static int64_t most_together(const Lower *l)
{
    const int64_t fit = (l->caps->vector_regs - 1) / (GATES + 1);
    return fit < MOST_TOGETHER ? fit : MOST_TOGETHER;
}

static int64_t sums_of_phase(const RecurrentCell *cell, uint8_t phase)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < cell->sums; i++)
        count += cell->phase[i] == phase;
    return count;
}

// Vectors of a block: as many as keep BLOCK_SUMS sums under way. With several entries there are as many sums
// for each vector; those that fit into registers.
static uint8_t block_of(const Lower *l, const Lstm *m, uint8_t phase)
{
    const int64_t sums = sums_of_phase(m->cell, phase), n = m->entries, regs = l->caps->vector_regs;
    int64_t block = n > 1 ? 1 : BLOCK_SUMS / sums;
    while (n > 1 && sums < GATES && 2 * block * (n * sums + 1) + 1 <= regs && block < BLOCK_SUMS)
        block *= 2;
    while (block > 1 && block * sums > BLOCK_SUMS && block * (sums + 1) + 1 > regs)
        block /= 2;
    return (uint8_t)block;
}

// All groups alike where that costs half of the entries at most.
static uint32_t count_entries(const Lower *l, const Lstm *m)
{
    const int64_t most = most_together(l) * (m->cell->phase[GATE_OLD] == 0 ? 1 : 2);
    if (m->lanes == 1 || m->batch <= 1 || most <= 1)
        return 1;
    for (int64_t n = most; 2 * n > most; n--)
        if (m->batch % n == 0)
            return (uint32_t)n;
    return (uint32_t)(m->batch < most ? m->batch : most);
}

static int64_t steps_of_chunk(const Lstm *m, int64_t fit)
{
    const int64_t steps = fit < 1 ? 1 : fit < m->seq ? fit : m->seq;
    return steps < MOST_CHUNK ? steps : MOST_CHUNK;
}

// Chunks whose sums take a quarter of the second-level cache, or an eighth of the weights that are read once
// for each chunk.
static void choose_chunk(Lower *l, Lstm *m)
{
    const CpuMachine *cpu = &l->caps->cpu;
    const int64_t most = most_together(l), step = m->batch * lstm_sums(m) * (int64_t)sizeof(float);
    const int64_t inputs = m->input * lstm_sums(m) * (int64_t)sizeof(float);
    const int64_t cache = (int64_t)cpu->l2_bytes / 4;
    const int64_t room = inputs / 8 > cache ? inputs / 8 : cache, rows = m->seq * m->batch;
    if (!m->is_packed || m->lanes == 1 || (m->batch > 1 && !m->steps_outside) || most <= 1 ||
        rows < 2 * most || m->hidden * lstm_sums(m) * (int64_t)sizeof(float) + inputs <= cpu->l1_bytes ||
        !lower_take(l))
        return;
    m->together = most;
    m->chunk = steps_of_chunk(m, room / step);
}

// All entries make a step together, and chunks are alike.
static void choose_matrix(Lower *l, Lstm *m)
{
    const int64_t step = m->batch * lstm_sums(m) * (int64_t)sizeof(float);
    m->on_matrix = lstm_choose_matrix(l, m);
    if (!m->on_matrix)
        return;
    m->steps_outside = true;
    m->together = 1;
    m->chunk = steps_of_chunk(m, (int64_t)l->caps->cpu.l2_bytes / 4 / step);
    while (m->seq % m->chunk != 0)
        m->chunk--;
}

Lstm lstm_of(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const RecurrentForm form = recurrent_form(n);
    NodeId src[RECURRENT_MOST] = {0};
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = n->src[i];
    const Shape *x = lower_node(l, src[0])->shape;
    Lstm m = {.cell = lstm_cell(n->op, form.resets_after),
              .x = src[0],
              .w = src[1],
              .r = src[2],
              .b = src[3],
              .h0 = src[4],
              .c0 = form.n_states > 1 ? src[RECURRENT_H0 + 1] : 0,
              .p = form.peephole != 0 ? src[form.peephole] : 0,
              .steps = src[form.steps],
              .sums = src[form.sums],
              .y_h = lower_find_result(l, 1),
              .y_c = form.n_states > 1 ? lower_find_result(l, 2) : 0,
              .batch_major = form.is_batch_major,
              .reverse_only = str_equal(form.direction, "reverse"),
              .is_lstm = form.n_states > 1,
              .is_relu = form.is_relu,
              .clip = form.clip,
              .type = operand_sum_type(n->dtype)};
    m.seq = x->dim[m.batch_major ? 1 : 0];
    m.batch = x->dim[m.batch_major ? 0 : 1];
    m.input = x->dim[2];
    m.dirs = lower_node(l, m.w)->shape->dim[0];
    m.hidden = lower_node(l, m.r)->shape->dim[2];
    m.d = domain_of(lower_node(l, l->root)->shape);
    domain_add(l, &m.d, l->root);
    domain_add_operands(l, &m.d, l->root);
    m.is_packed = l->caps->packs_weights && !l->caps->is_gpu && n->dtype == DTYPE_f32 &&
                  node_is_const(l->g, m.w) && node_is_const(l->g, m.r) && is_const_or_absent(l, m.b) &&
                  is_const_or_absent(l, m.p);
    m.lanes = m.is_packed ? domain_lanes(l, &m.d, 3) : 1;
    m.vectors = (m.hidden + m.lanes - 1) / m.lanes;
    m.padded = m.vectors * m.lanes;
    m.entries = count_entries(l, &m);
    for (uint8_t phase = 0; phase < m.cell->phases; phase++)
        m.block[phase] = block_of(l, &m, phase);
    m.steps_outside = m.is_packed && m.lanes > 1 && m.batch > m.entries &&
                      lstm_steps(&m) * lstm_sums(&m) * (int64_t)sizeof(float) > l->caps->cpu.l2_bytes / 2;
    choose_matrix(l, &m);
    if (!m.on_matrix)
        choose_chunk(l, &m);
    return m;
}
