// SPDX-License-Identifier: Apache-2.0
// What the steps of an lstm and its weights share.
#ifndef PASSES_LOWER_OPS_LSTM_H
#define PASSES_LOWER_OPS_LSTM_H

#include "passes/lower/operand.h"

// Sums of a unit: of an lstm its gates; of a gru the first two gates, and what the third one gets of the
// inputs and of the hidden values, or all of the third one where r is a factor of the hidden values; of an
// rnn one.
enum { GATES = 4, GATE_I = 0, GATE_O, GATE_F, GATE_C, GATE_Z = 0, GATE_R, GATE_NEW, GATE_OLD };
enum { BLOCK_SUMS = 8, MOST_TOGETHER = 6, MOST_ENTRIES = 2 * MOST_TOGETHER };
enum { MOST_CHUNK = 96 };

// What makes a layer's sums: which gate of the weights a sum has for inputs and for hidden values (-1: none),
// and the phase of a step in which it is made. All units end a phase before the next one begins, whose hidden
// values are those that the first one made: r * h of a gru that resets before the product.
enum { NO_PHASE = 9 };
typedef struct RecurrentCell {
    OpId op;
    bool resets_after;
    uint8_t gates, sums, phases; // sums: a power of two
    int8_t of_input[GATES], of_hidden[GATES];
    uint8_t phase[GATES];
} RecurrentCell;

const RecurrentCell *lstm_cell(OpId op, bool resets_after);

typedef struct Lstm {
    const RecurrentCell *cell;
    NodeId x, w, r, b, h0, c0, p, steps, sums; // the last six may be 0
    NodeId y_h, y_c; // `result` nodes of the final hidden and cell values, 0 = nobody asks
    int64_t seq, batch, dirs, input, hidden;
    bool batch_major, reverse_only, is_packed, is_lstm, is_relu;
    double clip; // of what goes into activations; 0: none
    int type; // of state and sums
    uint8_t lanes;
    uint8_t block[2];        // vectors of a block, by phase
    uint32_t entries;        // of the batch that are computed together
    bool steps_outside;      // all entries make a step before the next one
    int64_t together, chunk; // sums over inputs that are computed together, and steps of a chunk; 0: none
    bool on_matrix; // sums are made by matrix registers (lstm_matrix.c)
    int64_t planes; // numbers of bf16 that a hidden value is there
    int64_t vectors, padded; // hidden / lanes, rounded up; vectors * lanes
    Domain d;
    uint32_t scratch, weights, bias, peephole, ahead; // parameters
    uint32_t halves, hidden_sums; // on matrix registers: hidden values, and sums over them
} Lstm;

// One direction of some entries of the batch at one time step.
typedef struct LstmStep {
    const Lstm *m;
    uint32_t entries;
    KRef dir, entry, time;    // entry: the first
    KRef steps;               // that are made
    KRef at;                  // the number of the step
    uint8_t phase;
    KRef h_now, h_next, cell; // where those of the first entry begin in scratch
    KRef x;                   // index of its first input of the step
    KRef chunk, end;          // the first step of the chunk, and how many it has
    KRef ahead;               // where the sums of the step (of the chunk, while these are made) begin
} LstmStep;

// A run of hidden units: `vectors` vectors (of one lane in plain code), beginning with vector `first`.
typedef struct Units {
    KRef first;
    uint8_t vectors, last_count; // lanes of the last vector that are real
} Units;

// Inputs and hidden values that a sum has.
static inline int64_t lstm_steps(const Lstm *m)
{
    return m->input + m->hidden;
}

static inline int64_t lstm_gates(const Lstm *m)
{
    return m->cell->gates;
}
// Which gate of the weights a sum has for inputs or for hidden values; -1: none.
static inline int64_t lstm_gate(const Lstm *m, int64_t sum, bool is_hidden)
{
    return is_hidden ? m->cell->of_hidden[sum] : m->cell->of_input[sum];
}
static inline bool lstm_in_phase(const Lstm *m, int64_t sum, uint8_t phase)
{
    return m->cell->phase[sum] == phase;
}
static inline bool lstm_is_last(const Lstm *m, uint8_t phase)
{
    return phase + 1 == m->cell->phases;
}

// What numbers of f32 have beyond the 16-bit ones that they were rounded to; 0 of an infinite one.
static inline KRef lstm_rest(Kernel *k, KRef value, KRef rounded, uint8_t lanes)
{
    const KRef rest = k_sub(k, value, k_cast(k, rounded, DTYPE_f32));
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), lanes);
    return k_select(k, k_eq(k, rest, rest), rest, zero);
}

// Elements of the sums of one step of an entry.
static inline int64_t lstm_sums(const Lstm *m)
{
    return m->cell->sums * m->padded;
}
// The gates of the weights that a phase has sums for, and the first of them.
static inline int64_t lstm_phase_gates(const Lstm *m, uint8_t phase, int64_t *first)
{
    int64_t count = 0;
    *first = GATES;
    for (int64_t i = 0; i < m->cell->sums; i++) {
        const int64_t gate = lstm_gate(m, i, true);
        if (gate < 0 || !lstm_in_phase(m, i, phase))
            continue;
        count++;
        *first = gate < *first ? gate : *first;
    }
    return count;
}

Lstm lstm_of(Lower *l);
// Constant weights, bias and peephole weights in the order in which steps read them.
void lstm_pack(Lower *l, Lstm *m);
// Vector v of the block, of weight `step` (of an input or a hidden value), for a sum that has one
// (lstm_gate). Packed or plain.
KRef lstm_weight(Lower *l, const LstmStep *s, const Units *u, KRef step, bool is_hidden,
                 const uint32_t *gate_vector);
// The bias of sum `row`, or that row of the peephole weights, for vector v.
KRef lstm_row(Lower *l, const LstmStep *s, const Units *u, NodeId id, uint32_t row, uint32_t v);
// Index of a hidden or cell value of entry s->entry + e in h0, c0, y_h or y_c.
KRef lstm_state_index(Lower *l, const LstmStep *s, NodeId id, uint32_t e, KRef unit);
// Stores a value of Y of s->entry as the kernel's result.
void lstm_store_value(Lower *l, const LstmStep *s, KRef time, KRef unit, KRef value);
// The time of the i-th step that is made, and the first input of s->entry there.
KRef lstm_time_of(Lower *l, const LstmStep *s, KRef i);
KRef lstm_input_at(Lower *l, const LstmStep *s, KRef time);
KRef lstm_steps_made(Lower *l, const Lstm *m);
// Sum `sum` over inputs of s->entry and a unit at s->time, which was made before (m->sums), or the bias of
// one that has no inputs; of f32, one that is NaN is still to be mended.
KRef lstm_sum_before(Lower *l, const LstmStep *s, const Units *u, int64_t sum);
void lstm_mend_sums(Lower *l, const LstmStep *s, const Units *u, KRef *sums);
// The next hidden value, for sums of vector v of the units; state: the cell of an lstm, else the hidden
// value, which becomes the next one. With two phases, sums of the last one, and z of lstm_reset.
KRef lstm_hidden(Lower *l, const LstmStep *s, const Units *u, uint32_t v, const KRef *sum, KRef *state);
// r * h, for sums of the first of two phases; z: that gate.
KRef lstm_reset(Lower *l, const Lstm *m, const KRef *sum, KRef old, KRef *z);
// Which of two rows of hidden values a phase of step t reads; what it makes goes to the other one.
static inline KRef lstm_row_read(Kernel *k, const Lstm *m, uint8_t phase, KRef t)
{
    return m->cell->phases > 1 ? k_index(k, phase) : k_expr(k, "$ % 2", t);
}
// The bias that a sum of a unit begins with, of constant data.
float lstm_bias_of(const Lstm *m, const float *data, int64_t dir, int64_t sum, int64_t unit);
// Are matrix registers of CPUs used? Sets `planes`.
bool lstm_choose_matrix(Lower *l, Lstm *m);
void lstm_matrix_params(Lower *l, Lstm *m);
// The sums of a direction over the inputs of a chunk, to `ahead`, and those over the hidden values of all
// entries.
void lstm_matrix_inputs(Lower *l, const LstmStep *s, int64_t dir);
void lstm_matrix_hidden(Lower *l, const LstmStep *s, int64_t dir);
// Keeps a vector of hidden values of entry s->entry + e from `unit` on for the next product.
void lstm_matrix_keep(Lower *l, const LstmStep *s, uint32_t e, KRef unit, KRef value);
// What was made ahead of a sum of that entry, with the sums over hidden values.
KRef lstm_matrix_sum(Lower *l, const LstmStep *s, uint32_t e, uint32_t sum, KRef unit, KRef ahead);
// On GPUs with matrix units, of several entries (lstm_tiles.c). False: nothing was done.
bool lstm_tiles(Lower *l, const Lstm *m);
// On GPUs whose groups share memory (lstm_group.c). False: it does not fit, and nothing was done.
bool lstm_group(Lower *l, const Lstm *m);

#endif
