// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: LSTM is an op of ours, GRU is unrolled over its steps.
#include "compiler/import/onnx_import.h"

#include <strings.h>

enum { GRU_MAX_STEPS = 1024 }; // unrolled steps, each about a dozen nodes
enum { MAX_ACTIVATIONS = 6 };

static const char *direction_of(OnnxNode *n)
{
    const char *v = onnx_str(n, "direction", "forward");
    if (!str_equal(v, "forward") && !str_equal(v, "reverse") && !str_equal(v, "bidirectional"))
        onnx_fail(n, E0203, "attribute 'direction' is '%s', expected forward, reverse or bidirectional", v);
    return v;
}

// Only the default activations, which `wanted` lists for one direction.
static void check_activations(OnnxNode *n, const char *const *wanted, uint32_t per_direction)
{
    const char *names[MAX_ACTIVATIONS];
    uint32_t count = 0;
    onnx_strs(n, "activations", &count, names, MAX_ACTIVATIONS);
    for (uint32_t i = 0; i < count && !n->failed; i++)
        if (strcasecmp(names[i], wanted[i % per_direction]) != 0)
            onnx_fail(n, E0206, "activation '%s' is not supported in place of %s", names[i],
                      wanted[i % per_direction]);
    onnx_ignore_attr(n, "activation_alpha"); // the default activations have no parameters
    onnx_ignore_attr(n, "activation_beta");
    onnx_ignore_attr(n, "hidden_size"); // the weights say it
    onnx_ignore_attr(n, "output_sequence");
    if (onnx_float(n, "clip", 0) > 0)
        onnx_fail(n, E0206, "attribute 'clip' is not supported");
}

// Sequences of different lengths are not supported: the operand must repeat the length of x.
static void check_lengths(OnnxNode *n, Dim steps)
{
    OnnxInts lengths;
    if (!onnx_has(n, 4) || !onnx_src_ints(n, 4, &lengths))
        return;
    for (uint32_t i = 0; i < lengths.n; i++)
        if (lengths.v[i] != steps)
            onnx_fail(
                n, E0206,
                "input 4 ('sequence_lens') is not supported, unless all are the length of the sequence");
}

void onnx_import_lstm(OnnxNode *n)
{
    static const char *const activations[] = {"Sigmoid", "Tanh", "Tanh"};
    static const uint32_t operands[] = {0, 1, 2, 3, 5, 6, 7};
    NodeId src[7];
    for (uint32_t i = 0; i < 7; i++)
        src[i] = i < 3 ? onnx_src(n, operands[i]) : onnx_opt(n, operands[i]);
    const char *direction = direction_of(n);
    const bool batch_major = onnx_int(n, "layout", 0) != 0;
    check_activations(n, activations, 3);
    if (onnx_int(n, "input_forget", 0) != 0)
        onnx_fail(n, E0206, "attribute 'input_forget' is not supported");
    if (onnx_shape(n, src[0])->rank == 3)
        check_lengths(n, onnx_shape(n, src[0])->dim[batch_major ? 1 : 0]);
    if (n->failed)
        return;
    NodeBuild b = onnx_begin(n, OP_lstm);
    for (uint32_t i = 0; i < 7; i++)
        node_src(&b, src[i]);
    node_str(&b, A_lstm_direction, direction);
    node_int(&b, A_lstm_batch_major, batch_major);
    const NodeId id = onnx_end(n, &b);
    for (uint32_t i = 0; i < 3 && i < n->n_out; i++)
        onnx_out(n, i, onnx_result(n, id, i));
}

// --- GRU ---

typedef struct Gru {
    NodeId x;          // [steps, batch, inputs]
    NodeId w, r, b, h; // all directions: [dirs, 3h, inputs], [dirs, 3h, h], [dirs, 6h], [dirs, batch, h]; b
                       // and h may be 0
    uint32_t dirs;
    int64_t steps, hidden;
    Dim batch;
    bool resets_after; // linear_before_reset: the reset gate acts on the product, not on the state
} Gru;

// One direction, cut from the arrays of all; without its leading axis.
typedef struct GruDir {
    NodeId x, r,
        b; // x: products with the input weights for all steps, [steps, batch, 3h]; b: of the state, [3h] or 0
    NodeId h; // [batch, h]
} GruDir;

static NodeId cut(OnnxNode *n, NodeId all, uint32_t dir)
{
    return onnx_squeeze(n, onnx_slice(n, all, 0, dir, dir + 1, 1), (const int64_t[]){0}, 1);
}

// Gate g (update, reset, new) of the last axis.
static NodeId gate(OnnxNode *n, NodeId all, int64_t g, int64_t hidden)
{
    const int64_t last = (int64_t)onnx_shape(n, all)->rank - 1;
    return onnx_slice(n, all, last, g * hidden, (g + 1) * hidden, 1);
}

static GruDir begin_direction(OnnxNode *n, const Gru *g, uint32_t dir)
{
    GruDir d = {.r = cut(n, g->r, dir)};
    d.x = onnx_matmul(n, g->x, cut(n, g->w, dir), false, true);
    if (g->b) {
        const NodeId b = cut(n, g->b, dir);
        d.x = onnx_op2(n, OP_add, d.x, onnx_slice(n, b, 0, 0, 3 * g->hidden, 1));
        d.b = onnx_slice(n, b, 0, 3 * g->hidden, 6 * g->hidden, 1);
    }
    const Dim state[] = {g->batch, g->hidden};
    d.h = g->h ? cut(n, g->h, dir) : onnx_expand(n, onnx_scalar(n, onnx_dtype(n, g->x), 0), state, 2);
    return d;
}

// The new-gate's product with the state that the reset gate has passed.
static NodeId reset_product(OnnxNode *n, const Gru *g, const GruDir *d, NodeId reset)
{
    const NodeId weight = onnx_slice(n, d->r, 0, 2 * g->hidden, 3 * g->hidden, 1);
    const NodeId product = onnx_matmul(n, onnx_op2(n, OP_mul, reset, d->h), weight, false, true);
    return d->b ? onnx_op2(n, OP_add, product, gate(n, d->b, 2, g->hidden)) : product;
}

static NodeId gru_step(OnnxNode *n, const Gru *g, const GruDir *d, int64_t step)
{
    const NodeId x = onnx_squeeze(n, onnx_slice(n, d->x, 0, step, step + 1, 1), (const int64_t[]){0}, 1);
    NodeId h = onnx_matmul(n, d->h, d->r, false, true);
    if (d->b)
        h = onnx_op2(n, OP_add, h, d->b);
    NodeId gates[2];
    for (int64_t i = 0; i < 2; i++)
        gates[i] =
            onnx_op1(n, OP_sigmoid, onnx_op2(n, OP_add, gate(n, x, i, g->hidden), gate(n, h, i, g->hidden)));
    const NodeId product = g->resets_after ? onnx_op2(n, OP_mul, gates[1], gate(n, h, 2, g->hidden))
                                           : reset_product(n, g, d, gates[1]);
    const NodeId fresh = onnx_op1(n, OP_tanh, onnx_op2(n, OP_add, gate(n, x, 2, g->hidden), product));
    // (1 - z) * fresh + z * h
    const NodeId change = onnx_op2(n, OP_mul, gates[0], onnx_op2(n, OP_sub, d->h, fresh));
    return onnx_op2(n, OP_add, fresh, change);
}

// All states of one direction, [steps, 1, batch, h], and the last one, [1, batch, h].
static NodeId run_direction(OnnxNode *n, const Gru *g, uint32_t dir, bool is_reverse, NodeId *last)
{
    GruDir d = begin_direction(n, g, dir);
    NodeId *states = ARENA_ARRAY(n->model->arena, NodeId, g->steps);
    for (int64_t i = 0; i < g->steps && !n->failed; i++) {
        const int64_t step = is_reverse ? g->steps - 1 - i : i;
        d.h = gru_step(n, g, &d, step);
        states[step] = onnx_unsqueeze(n, d.h, (const int64_t[]){0, 1}, 2);
    }
    *last = onnx_unsqueeze(n, d.h, (const int64_t[]){0}, 1);
    NodeId all = 0;
    for (int64_t i = 0; i < g->steps && !n->failed; i += 128) { // our concat takes 255 operands
        const uint32_t count = (uint32_t)(g->steps - i < 128 ? g->steps - i : 128);
        const NodeId part = onnx_concat(n, states + i, count, 0);
        all = all ? onnx_concat(n, (const NodeId[]){all, part}, 2, 0) : part;
    }
    return all;
}

static bool read_gru(OnnxNode *n, Gru *g, bool batch_major, uint32_t dirs)
{
    static const int64_t swapped[] = {1, 0, 2};
    *g = (Gru){.x = onnx_src(n, 0),
               .w = onnx_src(n, 1),
               .r = onnx_src(n, 2),
               .b = onnx_opt(n, 3),
               .h = onnx_opt(n, 5)};
    g->resets_after = onnx_int(n, "linear_before_reset", 0) != 0;
    g->dirs = dirs;
    if (!n->failed &&
        (onnx_shape(n, g->x)->rank != 3 || onnx_shape(n, g->w)->rank != 3 || onnx_shape(n, g->r)->rank != 3 ||
         (g->b && onnx_shape(n, g->b)->rank != 2) || (g->h && onnx_shape(n, g->h)->rank != 3)))
        return onnx_fail(n, E0204, "x, w, r and the initial state must have rank 3, the bias rank 2");
    if (batch_major) {
        g->x = onnx_transpose(n, g->x, swapped);
        g->h = g->h ? onnx_transpose(n, g->h, swapped) : 0;
    }
    g->steps = onnx_const_dim(n, g->x, 0);
    g->hidden = onnx_const_dim(n, g->r, 2);
    g->batch = onnx_shape(n, g->x)->rank == 3 ? onnx_shape(n, g->x)->dim[1] : 1;
    if (!n->failed && (g->steps < 1 || g->steps > GRU_MAX_STEPS))
        return onnx_fail(n, E0206, "a sequence of %lld steps is not supported, only 1 to %d",
                         (long long)g->steps, GRU_MAX_STEPS);
    check_lengths(n, g->steps);
    return !n->failed;
}

void onnx_import_gru(OnnxNode *n)
{
    static const char *const activations[] = {"Sigmoid", "Tanh"};
    const char *direction = direction_of(n);
    const bool batch_major = onnx_int(n, "layout", 0) != 0;
    const uint32_t dirs = str_equal(direction, "bidirectional") ? 2 : 1;
    Gru g;
    NodeId all[2] = {0}, last[2] = {0};
    check_activations(n, activations, 2);
    if (!read_gru(n, &g, batch_major, dirs))
        return;
    for (uint32_t i = 0; i < dirs && !n->failed; i++)
        all[i] = run_direction(n, &g, i, i == 1 || str_equal(direction, "reverse"), &last[i]);
    NodeId y = onnx_concat(n, all, dirs, 1), y_h = onnx_concat(n, last, dirs, 0);
    if (batch_major) {
        y = onnx_transpose(n, y, (const int64_t[]){2, 0, 1, 3});
        y_h = onnx_transpose(n, y_h, (const int64_t[]){1, 0, 2});
    }
    onnx_out(n, 0, y);
    onnx_out(n, 1, y_h);
}
