// SPDX-License-Identifier: Apache-2.0
// One step of RNN, GRU and LSTM, and their activation functions.
#include "compiler/import/onnx/ops/onnx_rnn.h"

#include <strings.h>

// --- activations ---

static NodeId f_sigmoid(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    (void)act;
    return onnx_op1(n, OP_sigmoid, x);
}

static NodeId f_tanh(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    (void)act;
    return onnx_op1(n, OP_tanh, x);
}

static NodeId f_relu(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    (void)act;
    return onnx_op1(n, OP_relu, x);
}

static NodeId f_softplus(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    (void)act;
    return onnx_op1(n, OP_softplus, x);
}

static NodeId f_softsign(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    (void)act;
    return onnx_op1(n, OP_softsign, x);
}

static NodeId f_affine(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    return onnx_op_number(n, OP_add, onnx_op_number(n, OP_mul, x, act->a), act->b);
}

static NodeId f_scaled_tanh(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    return onnx_op_number(n, OP_mul, onnx_op1(n, OP_tanh, onnx_op_number(n, OP_mul, x, act->b)), act->a);
}

static NodeId f_hard_sigmoid(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    return onnx_op_number(n, OP_max, onnx_op_number(n, OP_min, f_affine(n, x, act), 1), 0);
}

static NodeId if_positive(OnnxNode *n, NodeId x, NodeId yes, NodeId no)
{
    return onnx_op3(n, OP_where, onnx_op_number(n, OP_gt, x, 0), yes, no);
}

static NodeId f_leaky_relu(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    return if_positive(n, x, x, onnx_op_number(n, OP_mul, x, act->a));
}

static NodeId f_elu(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    return if_positive(n, x, x, onnx_op_number(n, OP_mul, onnx_op1(n, OP_expm1, x), act->a));
}

static NodeId f_thresholded_relu(OnnxNode *n, NodeId x, const RnnActivation *act)
{
    return onnx_op3(n, OP_where, onnx_op_number(n, OP_gt, x, act->a), x, onnx_scalar_like(n, x, 0));
}

RnnFunction rnn_function(const char *name, RnnActivation *act, uint32_t *uses)
{
    static const struct {
        const char *name;
        RnnFunction fn;
        uint32_t uses;
        double a, b;
    } table[] = {
        {"Sigmoid", f_sigmoid, 0, 0, 0},
        {"Tanh", f_tanh, 0, 0, 0},
        {"Relu", f_relu, 0, 0, 0},
        {"Softplus", f_softplus, 0, 0, 0},
        {"Softsign", f_softsign, 0, 0, 0},
        {"Affine", f_affine, 2, 1, 0},
        {"ScaledTanh", f_scaled_tanh, 2, 1, 1},
        {"HardSigmoid", f_hard_sigmoid, 2, 0.2, 0.5},
        {"LeakyRelu", f_leaky_relu, 1, 0.01, 0},
        {"Elu", f_elu, 1, 1, 0},
        {"ThresholdedRelu", f_thresholded_relu, 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcasecmp(name, table[i].name) == 0) {
            act->a = table[i].a;
            act->b = table[i].b;
            *uses = table[i].uses;
            return table[i].fn;
        }
    return NULL;
}

static NodeId rnn_activate(OnnxNode *n, const RnnActivation *act, NodeId x)
{
    if (act->clip > 0)
        x = onnx_op_number(n, OP_max, onnx_op_number(n, OP_min, x, act->clip), -act->clip);
    return act->fn(n, x, act);
}

// --- steps ---

// Gate g of the last axis.
static NodeId gate(OnnxNode *n, const RnnStep *s, NodeId all, int64_t g)
{
    const int64_t last = (int64_t)onnx_shape(n, all)->rank - 1, h = s->net->hidden;
    return onnx_slice(n, all, last, g * h, (g + 1) * h, 1);
}

// What gates [from, to) get from the state: [batch, (to - from) * h].
static NodeId state_product(OnnxNode *n, const RnnStep *s, NodeId state, int64_t from, int64_t to)
{
    const int64_t h = s->net->hidden;
    const bool is_all = to - from == s->net->cell->gates;
    const NodeId r = is_all ? s->r : onnx_slice(n, s->r, 0, from * h, to * h, 1);
    const NodeId product = onnx_matmul(n, state, r, false, true);
    if (!s->b)
        return product;
    return onnx_op2(n, OP_add, product, is_all ? s->b : onnx_slice(n, s->b, 0, from * h, to * h, 1));
}

static void rnn_step(OnnxNode *n, const RnnStep *s, NodeId *next)
{
    next[0] = rnn_activate(n, &s->act[0], onnx_op2(n, OP_add, s->x, state_product(n, s, s->state[0], 0, 1)));
}

// Gates: update, reset, new.
static void gru_step(OnnxNode *n, const RnnStep *s, NodeId *next)
{
    const NodeId h = s->state[0];
    const NodeId of_h = state_product(n, s, h, 0, s->net->resets_after ? 3 : 2);
    NodeId gates[2];
    for (int64_t i = 0; i < 2; i++)
        gates[i] = rnn_activate(n, &s->act[0], onnx_op2(n, OP_add, gate(n, s, s->x, i), gate(n, s, of_h, i)));
    const NodeId product = s->net->resets_after ? onnx_op2(n, OP_mul, gates[1], gate(n, s, of_h, 2))
                                                : state_product(n, s, onnx_op2(n, OP_mul, gates[1], h), 2, 3);
    const NodeId fresh = rnn_activate(n, &s->act[1], onnx_op2(n, OP_add, gate(n, s, s->x, 2), product));
    // (1 - z) * fresh + z * h
    next[0] = onnx_op2(n, OP_add, fresh, onnx_op2(n, OP_mul, gates[0], onnx_op2(n, OP_sub, h, fresh)));
}

// What a gate gets from the cell: peephole weights i, o, f.
static NodeId look(OnnxNode *n, const RnnStep *s, NodeId sum, int64_t which, NodeId cell)
{
    return s->p ? onnx_op2(n, OP_add, sum, onnx_op2(n, OP_mul, gate(n, s, s->p, which), cell)) : sum;
}

// Gates: input, output, forget, cell.
static void lstm_step(OnnxNode *n, const RnnStep *s, NodeId *next)
{
    const NodeId c = s->state[1];
    const NodeId sum = onnx_op2(n, OP_add, s->x, state_product(n, s, s->state[0], 0, 4));
    const NodeId in = rnn_activate(n, &s->act[0], look(n, s, gate(n, s, sum, 0), 0, c));
    const NodeId forget = s->net->couples ? onnx_op2(n, OP_sub, onnx_scalar_like(n, in, 1), in)
                                          : rnn_activate(n, &s->act[0], look(n, s, gate(n, s, sum, 2), 2, c));
    const NodeId fresh = rnn_activate(n, &s->act[1], gate(n, s, sum, 3));
    next[1] = onnx_op2(n, OP_add, onnx_op2(n, OP_mul, forget, c), onnx_op2(n, OP_mul, in, fresh));
    const NodeId out = rnn_activate(n, &s->act[0], look(n, s, gate(n, s, sum, 1), 1, next[1]));
    next[0] = onnx_op2(n, OP_mul, out, rnn_activate(n, &s->act[2], next[1]));
}

const RnnCell rnn_cell_rnn = {1, 1, 1, {"Tanh"}, rnn_step};
const RnnCell rnn_cell_gru = {3, 1, 2, {"Sigmoid", "Tanh"}, gru_step};
const RnnCell rnn_cell_lstm = {4, 2, 3, {"Sigmoid", "Tanh", "Tanh"}, lstm_step};
