// SPDX-License-Identifier: Apache-2.0
// Operators with a memory: SVDF, UNIDIRECTIONAL_SEQUENCE_LSTM and RNN. What they remember are variable
// tensors, which are states of the graph: zeros at first, and kept between runs, as TensorFlow Lite does.
#include "compiler/import/tflite/tfl_import.h"

// --- SVDF ---

typedef struct Svdf {
    NodeId x, feature, time, bias, state;
    int64_t filters, steps, units, rank, batch;
    int64_t activation;
} Svdf;

static bool read_svdf(TflNode *n, Svdf *s)
{
    s->rank = tfl_option(n, 0, FLAT_I32, 0);
    s->activation = tfl_option(n, 1, FLAT_I8, 0);
    tfl_ignore(n, 2); // how reals are rounded to bytes
    s->x = tfl_src(n, 0);
    s->feature = tfl_src(n, 1);
    s->time = tfl_src(n, 2);
    s->bias = tfl_opt(n, 3);
    s->state = tfl_src(n, 4);
    s->filters = tfl_size(n, s->time, 0);
    s->steps = tfl_size(n, s->time, 1);
    s->batch = tfl_size(n, s->x, 0);
    if (n->failed)
        return false;
    if (s->rank < 1 || s->filters % s->rank != 0 || s->steps < 1 || tfl_rank(n, s->x) != 2)
        return tfl_fail(n, E0204, "%lld filters of rank %lld", (long long)s->filters, (long long)s->rank);
    s->units = s->filters / s->rank;
    return true;
}

// The memory of each filter, moved on by one, with the newest value at its end. It stays as the state.
static NodeId remember(TflNode *n, const Svdf *s, NodeId newest)
{
    const NodeId old = tfl_reshape(n, s->state, (const Dim[]){s->batch, s->filters, s->steps}, 3);
    const NodeId part[] = {tfl_slice(n, old, 2, 1, s->steps, 1),
                           tfl_reshape(n, newest, (const Dim[]){s->batch, s->filters, 1}, 3)};
    const NodeId memory = tfl_concat(n, part, 2, 2);
    tfl_write(n, 4, tfl_reshape(n, memory, (const Dim[]){s->batch, s->filters * s->steps}, 2));
    return memory;
}

// Products with the memory, summed over it and over the filters of a unit, [batch, units].
static NodeId weigh(TflNode *n, const Svdf *s, NodeId memory, NodeId time)
{
    static const int64_t axes[] = {2, 3};
    const Dim split[] = {s->batch, s->units, s->rank, s->steps};
    const NodeId y = tfl_reduce(n, OP_reduce_sum, tfl_reshape(n, tfl_op2(n, OP_mul, memory, time), split, 4),
                                axes, 2, false);
    return s->bias ? tfl_op2(n, OP_add, y, s->bias) : y;
}

// The kernels take the ReLU that they ask for as what the range of the result does.
static NodeId integer_svdf(TflNode *n, const Svdf *s)
{
    const TflTensor *out = tfl_of_out(n, 0), *state = tfl_in(n, 4);
    const TflQuant x = tfl_quant(n, tfl_in(n, 0)), feature = tfl_quant(n, tfl_in(n, 1));
    const TflQuant time = tfl_quant(n, tfl_in(n, 2)), memory = tfl_quant(n, state), y = tfl_quant(n, out);
    NodeId v = tfl_cast(n, s->x, DTYPE_i32);
    if (x.zero != 0)
        v = tfl_op_number(n, OP_sub, v, (double)x.zero);
    v = tfl_matmul(n, v, tfl_cast(n, s->feature, DTYPE_i32), false, true);
    v = tfl_scaled(n, v, tfl_factor(x.scale * feature.scale / memory.scale));
    v = tfl_clamp(n, v, (double)tensor_saturate(state->dtype, -1e9),
                  (double)tensor_saturate(state->dtype, 1e9));
    const NodeId all = remember(n, s, tfl_cast(n, v, state->dtype));
    const NodeId sum = weigh(n, s, tfl_cast(n, all, DTYPE_i32), tfl_cast(n, s->time, DTYPE_i32));
    return tfl_finish(n, tfl_scaled(n, sum, tfl_factor(memory.scale * time.scale / y.scale)), out, 0);
}

void tfl_import_svdf(TflNode *n)
{
    Svdf s = {0};
    if (!read_svdf(n, &s))
        return;
    if (tfl_is_quantised(tfl_in(n, 0))) {
        if (s.activation != 0 && s.activation != 1)
            tfl_fail(n, E0206, "the activation %lld of integers is not supported", (long long)s.activation);
        tfl_out(n, 0, integer_svdf(n, &s));
        return;
    }
    if (tfl_is_quantised(tfl_in(n, 1)))
        tfl_fail(n, E0206, "quantised weights with reals are not supported");
    const NodeId memory = remember(n, &s, tfl_matmul(n, s.x, s.feature, false, true));
    tfl_out(n, 0, tfl_activate(n, weigh(n, &s, memory, s.time), s.activation));
}

// --- RNN ---

// One step: the activation of x * w + state * r + bias, which is also the next state.
void tfl_import_rnn(TflNode *n)
{
    const int64_t activation = tfl_option(n, 0, FLAT_I8, 0);
    tfl_ignore(n, 1);
    const NodeId x = tfl_matmul(n, tfl_src(n, 0), tfl_src(n, 1), false, true);
    const NodeId h = tfl_matmul(n, tfl_src(n, 4), tfl_src(n, 2), false, true);
    const NodeId y = tfl_op2(n, OP_add, tfl_op2(n, OP_add, x, h), tfl_src(n, 3));
    const NodeId out = tfl_activate(n, y, activation);
    tfl_write(n, 4, out);
    tfl_out(n, 0, out);
}

// --- LSTM ---

enum { LSTM_BIAS = 12, LSTM_STATE = 18, LSTM_CELL = 19, GATES = 4 };

// Operands `at` to `at` + 3 are those of the input, forget, cell and output gate; the graph's op wants them
// as input, output, forget, cell.
static NodeId gates(TflNode *n, uint32_t at, int64_t axis)
{
    static const uint32_t order[GATES] = {0, 3, 1, 2};
    NodeId v[GATES];
    for (uint32_t i = 0; i < GATES; i++)
        v[i] = tfl_src(n, at + order[i]);
    return tfl_concat(n, v, GATES, axis);
}

static NodeId with_axis(TflNode *n, NodeId x)
{
    const Shape s = *tfl_shape(n, x);
    Shape out = {.rank = s.rank + 1, .dim = {1}};
    for (uint32_t i = 0; i < s.rank; i++)
        out.dim[i + 1] = s.dim[i];
    return tfl_reshape_like(n, x, &out);
}

static bool check_lstm(TflNode *n, bool *is_time_major, double *clip)
{
    const int64_t activation = tfl_option(n, 0, FLAT_I8, 0);
    *clip = tfl_option_f32(n, 1, 0);
    tfl_ignore(n, 2); // of projections, of which there are none
    *is_time_major = tfl_option(n, 3, FLAT_U8, 0) != 0;
    tfl_ignore(n, 4); // how reals are rounded to bytes
    if (tfl_option(n, 5, FLAT_U8, 0) != 0 || activation != 4)
        tfl_fail(n, E0206, "only tanh, without diagonal matrices, is supported");
    for (uint32_t i = 0; i < n->n_in && !n->failed; i++) {
        const bool is_needed = (i >= 1 && i <= 8) || (i >= LSTM_BIAS && i < LSTM_BIAS + GATES);
        if (is_needed && !tfl_has(n, i))
            tfl_fail(n, E0206, "operand %u is missing: coupled gates are not supported", i);
        if (tfl_has(n, i) && !is_needed && i != 0 && i != LSTM_STATE && i != LSTM_CELL)
            tfl_fail(n, E0206, "operand %u is not supported (peepholes, projections, normalised gates)", i);
        if (i >= 1 && i <= 8 && tfl_is_quantised(tfl_in(n, i)) != tfl_is_quantised(tfl_in(n, 0)))
            tfl_fail(n, E0206, "quantised weights with reals are not supported");
    }
    if (!n->failed && n->n_in <= LSTM_CELL)
        tfl_fail(n, E0202, "the state is missing");
    return !n->failed;
}

void tfl_import_sequence_lstm(TflNode *n)
{
    bool is_time_major = false;
    double clip = 0;
    if (!check_lstm(n, &is_time_major, &clip))
        return;
    if (clip > 0 || tfl_is_quantised(tfl_in(n, 0))) {
        tfl_lstm_steps(n, is_time_major, clip);
        return;
    }
    const NodeId x = tfl_src(n, 0), w = with_axis(n, gates(n, 1, 0)), r = with_axis(n, gates(n, 5, 0));
    const NodeId bias = gates(n, LSTM_BIAS, 0);
    const NodeId both[] = {bias, tfl_op_number(n, OP_mul, bias, 0)}; // of the input, and of the state: none
    const NodeId b = with_axis(n, tfl_concat(n, both, 2, 0));
    const NodeId h = tfl_src(n, LSTM_STATE), c = tfl_src(n, LSTM_CELL);
    if (!n->failed && tfl_rank(n, x) != 3)
        tfl_fail(n, E0204, "expected a sequence of rank 3");
    const NodeId h0 = with_axis(n, h), c0 = with_axis(n, c);
    if (n->failed)
        return;
    NodeBuild build = tfl_begin(n, OP_lstm);
    const NodeId src[] = {x, w, r, b, h0, c0}, swapped = tfl_transpose(n, x, (const int64_t[]){1, 0, 2});
    for (uint32_t i = 0; i < 6; i++)
        node_src(&build, i == 0 && !is_time_major ? swapped : src[i]);
    const NodeId y = tfl_end(n, &build);
    const Shape state = *tfl_shape(n, h), cell = *tfl_shape(n, c);
    tfl_write(n, LSTM_STATE, tfl_reshape_like(n, tfl_result(n, y, 1), &state));
    tfl_write(n, LSTM_CELL, tfl_reshape_like(n, tfl_result(n, y, 2), &cell));
    const Shape s = *tfl_shape(n, y); // [time, 1, batch, units]
    const NodeId rows = tfl_reshape(n, y, (const Dim[]){s.dim[0], s.dim[2], s.dim[3]}, 3);
    tfl_out(n, 0, is_time_major ? rows : tfl_transpose(n, rows, (const int64_t[]){1, 0, 2}));
}
