// SPDX-License-Identifier: Apache-2.0
// UNIDIRECTIONAL_SEQUENCE_LSTM on integers, and with clipped cells: a loop over the steps. Bytes have the
// arithmetic of TensorFlow Lite for microcontrollers: gates are 16-bit values of the scale 2^-12, the cell
// has 16 bits, and each product is rounded by the rule of gemmlowp. So have operands and hidden states of 16
// bits, whose sums are i64, times factors of 16 bits that round once. The products with the operand are
// computed for all steps before the loop.
#include "compiler/import/tflite/tfl_import.h"

#include <math.h>
#include <string.h>

enum { BIAS = 12, STATE = 18, CELL = 19, GATES = 4, INPUT_WEIGHTS = 1, STATE_WEIGHTS = 5 };
enum { INPUT_GATE, FORGET_GATE, CELL_GATE, OUTPUT_GATE }; // in the order of operands

typedef struct Lstm {
    int64_t steps, batch, units;
    bool is_integer, is_wide; // is_wide: of 16 bits
    double clip;      // of the cell; 0: none
    double cell;      // its scale
    TflQuant state;   // of the hidden state
    NodeId first[2];  // hidden state and cell
    NodeId of_inputs; // [steps, batch, 4 * units]
} Lstm;

// The constants of four operands, one below the other, in a graph.
static NodeId stacked(TflNode *n, TflNode *in, uint32_t at)
{
    Tensor part[GATES] = {{0}};
    for (uint32_t i = 0; i < GATES; i++) {
        const NodeId id = tfl_src(n, at + i);
        if (!n->failed && !node_is_const(n->graph, id))
            tfl_fail(n, E0206, "operand %u must be a constant", at + i);
        if (n->failed)
            return 0;
        part[i] = tensor_of_const(n->graph, id);
        if (part[i].rank == 0 || part[i].dtype != part[0].dtype || part[i].rank != part[0].rank ||
            memcmp(part[i].dim, part[0].dim, part[0].rank * sizeof *part[0].dim) != 0)
            return tfl_fail(n, E0204, "operands %u and %u differ in type or shape", at, at + i);
    }
    const size_t bytes = (size_t)part[0].numel * dtype_info[part[0].dtype].bytes;
    Shape s = shape_of(part[0].rank, part[0].dim);
    s.dim[0] *= GATES;
    char *data = arena_alloc(n->model->arena, GATES * bytes + 1);
    for (uint32_t i = 0; i < GATES; i++)
        memcpy(data + i * bytes, part[i].data, bytes);
    return tfl_const(in, part[0].dtype, &s, data);
}

// --- integers ------------------------------------------------------------------------------------

static NodeId limited(TflNode *n, NodeId x, double most)
{
    return tfl_clamp(n, x, most < 32767 ? -most : -32768, most);
}

// Sums of products with four weights, from operand `at` on, in steps of 2^-12.
static NodeId in_gates(TflNode *n, NodeId sum, uint32_t at, double scale, int64_t units)
{
    const bool is_wide = tfl_type(n, sum) == DTYPE_i64;
    const int64_t count = GATES * units;
    const Shape s = shape_of(1, &count);
    TflFactor *f = ARENA_ARRAY(n->model->arena, TflFactor, count + 1);
    for (int64_t i = 0; i < count; i++) {
        const TflTensor *w = tfl_in(n, at + (uint32_t)(i / units));
        if (w->scale.n != 1)
            return tfl_fail(n, E0206, "tensor '%s' has %u scales, expected one", w->name, w->scale.n);
        const float product = (float)scale * (float)tfl_scale_at(w, 0);
        f[i] = tfl_factor((double)product * 4096);
    }
    if (!is_wide)
        return limited(n, tfl_scaled_by(n, sum, f, &s), 32767);
    return tfl_cast(n, limited(n, tfl_scaled_wide(n, sum, f, &s, false), 32767), DTYPE_i32);
}

// Exact sums of rows times weights from operand `at` on, with their bias: i32, or of 16-bit rows i64.
static NodeId integer_sums(TflNode *n, TflNode *in, const Lstm *l, NodeId rows, NodeId weight, NodeId bias,
                           uint32_t at)
{
    const TflTensor *x = tfl_in(n, at == INPUT_WEIGHTS ? 0 : STATE), *w = tfl_in(n, at);
    if (!l->is_wide)
        return tfl_byte_rows(in, rows, weight, bias, x, w);
    if (tfl_zero_point(in, x) != 0 || tfl_zero_point(in, w) != 0)
        return tfl_fail(in, E0206, "zero points of tensors of 16 bits and their weights are not supported");
    if (tfl_size(in, weight, 1) > TFL_WIDE_MOST)
        return tfl_fail(in, E0206, "rows of more than %d elements of 16 bits are not supported",
                        TFL_WIDE_MOST);
    return tfl_wide_rows(in, rows, weight, bias);
}

// The product of two 16-bit values, times a factor.
static NodeId product(TflNode *n, NodeId a, NodeId b, double factor)
{
    const NodeId wide = tfl_op2(n, OP_mul, tfl_cast(n, a, DTYPE_i32), tfl_cast(n, b, DTYPE_i32));
    return tfl_scaled(n, wide, tfl_factor(factor));
}

static NodeId gate(TflNode *n, NodeId all, const Lstm *l, int64_t index)
{
    return tfl_slice(n, all, 1, index * l->units, (index + 1) * l->units, 1);
}

// One step: all gates before their curves, with the cell, to the cell and the state after it.
static void integer_step(TflNode *n, const Lstm *l, NodeId all, NodeId *cell, NodeId *state)
{
    NodeId g[GATES];
    for (uint32_t i = 0; i < GATES; i++)
        g[i] = tfl_squash_wide(n, gate(n, all, l, i), 1.0 / 4096, i == CELL_GATE);
    const NodeId kept = limited(n, product(n, g[FORGET_GATE], *cell, 1.0 / 32768), 32767);
    const NodeId new = limited(n, product(n, g[INPUT_GATE], g[CELL_GATE], ldexp(1, -30) / l->cell), 32767);
    NodeId c = limited(n, tfl_op2(n, OP_add, kept, new), 32767);
    if (l->clip > 0)
        c = limited(n, c, trunc(fmin(l->clip / l->cell, 32767)));
    const NodeId shown = tfl_squash_wide(n, c, exp2(round(log2(l->cell))), true); // whatever the cell's scale
    const NodeId y = product(n, shown, g[OUTPUT_GATE], ldexp(1, -30) / l->state.scale);
    *state = tfl_finish(n, y, tfl_in(n, STATE), 0);
    *cell = tfl_cast(n, c, DTYPE_i16);
}

// --- reals ---------------------------------------------------------------------------------------

static void real_step(TflNode *n, const Lstm *l, NodeId all, NodeId *cell, NodeId *state)
{
    NodeId g[GATES];
    for (uint32_t i = 0; i < GATES; i++)
        g[i] = tfl_op1(n, i == CELL_GATE ? OP_tanh : OP_sigmoid, gate(n, all, l, i));
    const NodeId kept = tfl_op2(n, OP_mul, g[FORGET_GATE], *cell);
    *cell = tfl_op2(n, OP_add, kept, tfl_op2(n, OP_mul, g[INPUT_GATE], g[CELL_GATE]));
    if (l->clip > 0)
        *cell = tfl_clamp(n, *cell, -l->clip, l->clip);
    *state = tfl_op2(n, OP_mul, tfl_op1(n, OP_tanh, *cell), g[OUTPUT_GATE]);
}

// --- the loop ------------------------------------------------------------------------------------

// Rows [N, K] times four weights from operand `at` on, in a graph: [N, 4 * units]. x: what the rows are of.
static NodeId in_products(TflNode *n, TflNode *in, const Lstm *l, NodeId rows, uint32_t at)
{
    const NodeId weight = stacked(n, in, at);
    const NodeId bias = at == INPUT_WEIGHTS ? stacked(n, in, BIAS) : 0;
    if (n->failed)
        return 0;
    if (l->is_integer) {
        const double scale = tfl_quant(n, tfl_in(n, at == INPUT_WEIGHTS ? 0 : STATE)).scale;
        return in_gates(in, integer_sums(n, in, l, rows, weight, bias, at), at, scale, l->units);
    }
    const NodeId y = tfl_matmul(in, rows, weight, false, true);
    return bias ? tfl_op2(in, OP_add, y, bias) : y;
}

static NodeId body_input(TflNode *n, Graph *g, const char *name, NodeId like)
{
    const Shape s = *tfl_shape(n, like);
    return graph_input(g, name, tfl_type(n, like), &s, n->span);
}

static Graph *lstm_body(TflNode *n, const Lstm *l)
{
    Graph *g = graph_new_like(n->graph, "body");
    TflNode in = *n;
    in.graph = g;
    const NodeId step = graph_input(g, "step", DTYPE_i64, &(Shape){0}, n->span);
    const NodeId go = graph_input(g, "go", DTYPE_bool, &(Shape){0}, n->span);
    NodeId state = body_input(n, g, "state", l->first[0]), cell = body_input(n, g, "cell", l->first[1]);
    const NodeId of_input = tfl_gather(&in, body_input(n, g, "inputs", l->of_inputs), step, 0);
    const NodeId of_state = in_products(n, &in, l, state, STATE_WEIGHTS);
    n->failed = n->failed || in.failed;
    if (n->failed)
        return g;
    NodeId all =
        tfl_op2(&in, OP_add, l->is_integer ? tfl_cast(&in, of_input, DTYPE_i32) : of_input, of_state);
    if (l->is_integer)
        all = limited(&in, all, 32767);
    (l->is_integer ? integer_step : real_step)(&in, l, all, &cell, &state);
    n->failed = n->failed || in.failed;
    if (n->failed)
        return g;
    graph_output(g, "go on", go);
    graph_output(g, "state", state);
    graph_output(g, "cell", cell);
    graph_output(g, "row", state);
    return g;
}

static NodeId lstm_loop(TflNode *n, const Lstm *l)
{
    Graph *body = lstm_body(n, l);
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, OP_loop);
    node_src(&b, tfl_number(n, DTYPE_i64, (double)l->steps));
    node_src(&b, tfl_number(n, DTYPE_bool, 1));
    node_src(&b, l->first[0]);
    node_src(&b, l->first[1]);
    node_src(&b, l->of_inputs);
    node_graph(&b, A_loop_body, body);
    node_int(&b, A_loop_carried, 2);
    node_ints(&b, A_loop_max_trips, &l->steps, 1);
    return tfl_end(n, &b);
}

static bool check_types(TflNode *n, const Lstm *l)
{
    const DType x = tfl_type(n, tfl_src(n, 0)), w = tfl_in(n, INPUT_WEIGHTS)->dtype,
                c = tfl_type(n, tfl_src(n, CELL));
    if (n->failed || !l->is_integer)
        return !n->failed;
    if ((x != DTYPE_i8 && x != DTYPE_i16) || w != DTYPE_i8 || c != DTYPE_i16 ||
        tfl_type(n, tfl_src(n, STATE)) != x)
        return tfl_fail(n, E0206,
                        "expected operand and state of 8 or 16 bits, weights of bytes, a cell of 16 bits");
    const double cell = tfl_quant(n, tfl_in(n, CELL)).scale;
    return (cell > 0 && cell < 1) || tfl_fail(n, E0206, "the scale of the cell must be between 0 and 1");
}

void tfl_lstm_steps(TflNode *n, bool is_time_major, double clip)
{
    static const int64_t swapped[] = {1, 0, 2};
    Lstm l = {.is_integer = tfl_is_quantised(tfl_in(n, 0)), .clip = clip};
    l.is_wide = l.is_integer && tfl_type(n, tfl_src(n, 0)) == DTYPE_i16;
    if (!check_types(n, &l) || (tfl_rank(n, tfl_src(n, 0)) != 3 && !tfl_fail(n, E0204, "expected rank 3")))
        return;
    const NodeId x = is_time_major ? tfl_src(n, 0) : tfl_transpose(n, tfl_src(n, 0), swapped);
    const int64_t inner = tfl_size(n, x, 2);
    l.steps = tfl_size(n, x, 0);
    l.batch = tfl_size(n, x, 1);
    l.units = tfl_size(n, tfl_src(n, BIAS), 0);
    for (uint32_t i = 0; i < 2; i++)
        l.first[i] = tfl_reshape(n, tfl_src(n, STATE + i), (const Dim[]){l.batch, l.units}, 2);
    if (l.is_integer) {
        l.state = tfl_quant(n, tfl_in(n, STATE));
        l.cell = tfl_quant(n, tfl_in(n, CELL)).scale;
    }
    const NodeId rows = tfl_reshape(n, x, (const Dim[]){-1, inner}, 2);
    NodeId all = in_products(n, n, &l, rows, INPUT_WEIGHTS);
    if (l.is_integer)
        all = tfl_cast(n, all, DTYPE_i16);
    l.of_inputs = tfl_reshape(n, all, (const Dim[]){l.steps, l.batch, GATES * l.units}, 3);
    const NodeId loop = n->failed ? 0 : lstm_loop(n, &l);
    for (uint32_t i = 0; i < 2 && !n->failed; i++) {
        const Shape s = *tfl_shape(n, tfl_src(n, STATE + i));
        tfl_write(n, STATE + i, tfl_reshape_like(n, tfl_result(n, loop, i), &s));
    }
    const NodeId y = tfl_result(n, loop, 2);
    tfl_out(n, 0, is_time_major || n->failed ? y : tfl_transpose(n, y, swapped));
}
