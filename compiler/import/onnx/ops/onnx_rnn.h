// SPDX-License-Identifier: Apache-2.0
// What RNN, GRU and LSTM have in common, for the two files that import them.
#ifndef COMPILER_IMPORT_ONNX_OPS_ONNX_RNN_H
#define COMPILER_IMPORT_ONNX_OPS_ONNX_RNN_H

#include "compiler/import/onnx/onnx_loop.h"

enum { RNN_MAX_ACTIVATIONS = 3 }; // of one direction

typedef struct RnnActivation RnnActivation;
// The value of an activation function; a and b are its parameters.
typedef NodeId (*RnnFunction)(OnnxNode *n, NodeId x, const RnnActivation *act);
struct RnnActivation {
    RnnFunction fn;
    double a, b, clip; // clip: bound of what it is applied to; 0 = none
};

typedef struct RnnCell RnnCell;

// A whole operator.
typedef struct Rnn {
    const RnnCell *cell;
    NodeId x; // [steps, batch, inputs]
    NodeId w, r,
        b; // all directions: [dirs, gates * h, inputs], [dirs, gates * h, h], [dirs, 2 * gates * h] or 0
    NodeId state[2], p; // [dirs, batch, h], [dirs, 3 * h]; 0: none
    NodeId lengths;     // [batch]: steps of every sequence; 0: all of them
    Dim steps, batch;
    int64_t hidden;
    uint32_t dirs;
    bool is_batch_major, is_backward; // is_backward: the only direction
    bool resets_after;                // GRU: the reset gate acts on the product, not on the state
    bool couples;                     // LSTM: the forget gate is what the input gate leaves
    RnnActivation act[2][RNN_MAX_ACTIVATIONS];
} Rnn;

// One direction; nodes of the graph of the step.
typedef struct RnnStep {
    const Rnn *net;
    const RnnActivation *act;
    NodeId x;        // the products with the input weights, [batch, gates * h]
    NodeId state[2]; // [batch, h]
    NodeId r, b, p;  // weights of the state, [gates * h, h], their bias [gates * h] or 0, [3 * h] or 0
} RnnStep;

struct RnnCell {
    uint32_t gates, states, n_act;
    const char *act[RNN_MAX_ACTIVATIONS]; // defaults
    void (*step)(OnnxNode *n, const RnnStep *s, NodeId *next);
};

extern const RnnCell rnn_cell_rnn, rnn_cell_gru, rnn_cell_lstm;

// The function of a name, in any case of letters. NULL: unknown. uses: how many parameters it takes, a and b
// have their defaults.
RnnFunction rnn_function(const char *name, RnnActivation *act, uint32_t *uses);

#endif
