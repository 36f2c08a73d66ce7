// SPDX-License-Identifier: Apache-2.0
// Recurrent layers. Those with the usual activations and without lengths are ops of ours; all others are
// loops over the steps, with the products of the inputs computed for all steps before.
#include "compiler/import/onnx/onnx_quant.h"
#include "compiler/import/onnx/ops/onnx_rnn.h"

#include <string.h>

// --- attributes ---

static void read_direction(OnnxNode *n, Rnn *r)
{
    const uint32_t v = ONNX_WORD(n, "direction", "forward", "reverse", "bidirectional");
    r->is_backward = v == 1;
    r->dirs = v == 2 ? 2 : 1;
}

// The next entry of a list of parameters, which only functions that have one take from.
static void take_parameter(const Onnx__AttributeProto *list, size_t *at, double *out)
{
    if (list && *at < list->n_floats)
        *out = (double)list->floats[(*at)++];
}

static void read_activations(OnnxNode *n, Rnn *r)
{
    const char *names[2 * RNN_MAX_ACTIVATIONS];
    const RnnCell *cell = r->cell;
    rlx_assert(cell->n_act <= RNN_MAX_ACTIVATIONS && r->dirs <= 2);
    const Onnx__AttributeProto *alpha = onnx_attr(n, "activation_alpha"),
                               *beta = onnx_attr(n, "activation_beta");
    const double clip = onnx_float(n, "clip", 0);
    uint32_t count = 0, uses = 0;
    size_t at[2] = {0};
    onnx_strs(n, "activations", &count, names, 2 * RNN_MAX_ACTIVATIONS);
    if (count != 0 && count != cell->n_act && count != cell->n_act * r->dirs)
        onnx_fail(n, E0203, "%u activations, expected %u", count, cell->n_act * r->dirs);
    for (uint32_t i = 0; i < cell->n_act * r->dirs && !n->failed; i++) {
        RnnActivation *act = &r->act[i / cell->n_act][i % cell->n_act];
        const char *name = count ? names[i % count] : cell->act[i % cell->n_act];
        act->clip = clip;
        act->fn = rnn_function(name, act, &uses);
        if (!act->fn)
            onnx_fail(n, E0206, "activation '%s' is not supported", name);
        if (uses >= 1)
            take_parameter(alpha, &at[0], &act->a);
        if (uses == 2)
            take_parameter(beta, &at[1], &act->b);
    }
    onnx_ignore_attr(n, "hidden_size"); // the weights say it
    onnx_ignore_attr(n, "output_sequence");
}

// --- operands ---

static void check_shape(OnnxNode *n, NodeId id, const char *what, const Dim *dims, uint32_t rank)
{
    const Shape want = shape_of(rank, dims);
    if (!n->failed && id && !shape_equal(onnx_shape(n, id), &want))
        onnx_fail(n, E0204, "the shape of %s does not fit the weights and the input", what);
}

static void check_operands(OnnxNode *n, const Rnn *r)
{
    const int64_t h = r->hidden, gates = (int64_t)r->cell->gates * h;
    const Dim x = onnx_shape(n, r->x)->dim[2];
    check_shape(n, r->w, "w", (const Dim[]){r->dirs, gates, x}, 3);
    check_shape(n, r->r, "r", (const Dim[]){r->dirs, gates, h}, 3);
    check_shape(n, r->b, "the bias", (const Dim[]){r->dirs, 2 * gates}, 2);
    for (uint32_t i = 0; i < r->cell->states; i++)
        check_shape(n, r->state[i], "an initial state", (const Dim[]){r->dirs, r->batch, h}, 3);
    check_shape(n, r->p, "the peephole weights", (const Dim[]){r->dirs, 3 * h}, 2);
    check_shape(n, r->lengths, "sequence_lens", &r->batch, 1);
}

// Lengths that are all those of x say nothing.
static void read_lengths(OnnxNode *n, Rnn *r)
{
    OnnxDims known;
    bool is_full = onnx_peek_dims(n, 4, &known);
    onnx_skip(n, 4);
    for (uint32_t i = 0; is_full && i < known.n; i++)
        is_full = known.dim[i] == r->steps;
    if (onnx_has(n, 4) && !is_full)
        r->lengths = onnx_cast(n, onnx_src(n, 4), DTYPE_i64);
}

// w, r: the weights, in the shapes of LSTM and its like.
static bool read_rnn_of(OnnxNode *n, Rnn *r, const RnnCell *cell, NodeId w, NodeId recurrent)
{
    static const int64_t swapped[] = {1, 0, 2};
    *r = (Rnn){.cell = cell, .x = onnx_src(n, 0), .w = w, .r = recurrent, .b = onnx_opt(n, 3)};
    for (uint32_t i = 0; i < cell->states; i++)
        r->state[i] = onnx_opt(n, 5 + i);
    r->is_batch_major = onnx_int(n, "layout", 0) != 0;
    read_direction(n, r);
    read_activations(n, r);
    if (n->failed)
        return false;
    if (onnx_shape(n, r->x)->rank != 3 || onnx_shape(n, r->r)->rank != 3)
        return onnx_fail(n, E0204, "inputs 0 and 2 must have rank 3");
    for (uint32_t i = 0; i < cell->states && r->is_batch_major; i++)
        if (r->state[i] && onnx_shape(n, r->state[i])->rank == 3)
            r->state[i] = onnx_transpose(n, r->state[i], swapped);
    if (r->is_batch_major)
        r->x = onnx_transpose(n, r->x, swapped);
    r->steps = onnx_shape(n, r->x)->dim[0];
    r->batch = onnx_shape(n, r->x)->dim[1];
    r->hidden = onnx_const_dim(n, r->r, 2);
    read_lengths(n, r);
    return !n->failed;
}

static bool read_rnn(OnnxNode *n, Rnn *r, const RnnCell *cell)
{
    return read_rnn_of(n, r, cell, onnx_src(n, 1), onnx_src(n, 2));
}

// --- one direction ---

typedef struct Direction {
    const Rnn *net;
    const RnnActivation *act;
    bool is_backward;
} Direction;

enum { IN_R, IN_B, IN_P, IN_LENGTHS, N_CAPTURED }; // what a step reads of outside

// Which step an iteration is, for sequences that may have ended.
static NodeId is_inside(OnnxNode *n, const Direction *d, NodeId i, NodeId lengths)
{
    OnnxDims last = {.dtype = DTYPE_i64, .n = 1};
    const Dim column[] = {d->net->batch, 1};
    if (n->failed)
        return 0;
    if (d->is_backward) {
        last.dim[0] = dim_sub(n->graph->dims, d->net->steps, 1);
        OnnxValue v = {.kind = ONNX_DIMS, .dims = &last};
        i = onnx_op2(n, OP_sub, onnx_value_node(n->scope, &v, n->span), i);
    }
    const Shape s = shape_of(2, column);
    return onnx_reshape(n, onnx_op2(n, OP_lt, i, lengths), &s);
}

static void make_step(OnnxNode *n, const OnnxBody *b, NodeId i, const NodeId *in, NodeId *out)
{
    const Direction *d = b->ctx;
    const uint32_t n_states = d->net->cell->states;
    rlx_assert(n_states == b->n_carried && b->n_captured == N_CAPTURED);
    const NodeId *captured = in + n_states + 1;
    RnnStep s = {.net = d->net, .act = d->act, .x = in[n_states], .state = {in[0], n_states > 1 ? in[1] : 0}};
    s.r = captured[IN_R];
    s.b = captured[IN_B];
    s.p = captured[IN_P];
    d->net->cell->step(n, &s, out);
    NodeId y = out[0];
    if (captured[IN_LENGTHS]) {
        const NodeId inside = is_inside(n, d, i, captured[IN_LENGTHS]);
        y = onnx_op3(n, OP_where, inside, y, onnx_scalar(n, onnx_dtype(n, y), 0));
        for (uint32_t k = 0; k < n_states; k++)
            out[k] = onnx_op3(n, OP_where, inside, out[k], in[k]);
    }
    if (b->n_scan)
        out[n_states] = y;
}

static NodeId cut(OnnxNode *n, NodeId all, uint32_t dir)
{
    return all ? onnx_squeeze(n, onnx_slice(n, all, 0, dir, dir + 1, 1), (const int64_t[]){0}, 1) : 0;
}

// All hidden values of one direction, [steps, 1, batch, h], and the states at the end, [1, batch, h].
static NodeId run_direction(OnnxNode *n, const Rnn *r, uint32_t dir, NodeId *last)
{
    rlx_assert(dir < r->dirs && r->cell->states <= 2);
    const Direction d = {.net = r, .act = r->act[dir], .is_backward = dir == 1 || r->is_backward};
    const int64_t gates = (int64_t)r->cell->gates * r->hidden;
    const Dim size[] = {r->batch, r->hidden};
    NodeId state[2] = {0}, out[3] = {0}, captured[N_CAPTURED] = {0};
    OnnxRow row = {.x = onnx_matmul(n, r->x, cut(n, r->w, dir), false, true), .is_backward = d.is_backward};
    const NodeId b = cut(n, r->b, dir);
    captured[IN_R] = cut(n, r->r, dir);
    captured[IN_P] = cut(n, r->p, dir);
    captured[IN_LENGTHS] = r->lengths;
    if (b) {
        row.x = onnx_op2(n, OP_add, row.x, onnx_slice(n, b, 0, 0, gates, 1));
        captured[IN_B] = onnx_slice(n, b, 0, gates, 2 * gates, 1);
    }
    for (uint32_t i = 0; i < r->cell->states; i++)
        state[i] = r->state[i] ? cut(n, r->state[i], dir)
                               : onnx_expand(n, onnx_scalar(n, onnx_dtype(n, r->x), 0), size, 2);
    const OnnxBody body = {.n_carried = r->cell->states,
                           .n_rows = 1,
                           .n_captured = N_CAPTURED,
                           .n_scan = onnx_wants(n, 0),
                           .carried = state,
                           .captured = captured,
                           .rows = &row,
                           .trips = r->steps,
                           .make = make_step,
                           .ctx = &d};
    onnx_loop_of(n, &body, out);
    for (uint32_t i = 0; i < r->cell->states; i++)
        last[i] = onnx_unsqueeze(n, out[i], (const int64_t[]){0}, 1);
    if (!body.n_scan)
        return 0;
    const NodeId y = out[r->cell->states];
    return onnx_unsqueeze(n, d.is_backward ? onnx_slice(n, y, 0, -1, -2 * DIM_MAX_VALUE, -1) : y,
                          (const int64_t[]){1}, 1);
}

static void run_rnn(OnnxNode *n, const Rnn *r)
{
    NodeId y[2] = {0}, last[2][2] = {{0}};
    check_operands(n, r);
    for (uint32_t i = 0; i < r->dirs && !n->failed; i++)
        y[i] = run_direction(n, r, i, last[i]);
    if (onnx_wants(n, 0)) {
        const NodeId all = onnx_concat(n, y, r->dirs, 1);
        onnx_out(n, 0, r->is_batch_major ? onnx_transpose(n, all, (const int64_t[]){2, 0, 1, 3}) : all);
    }
    for (uint32_t i = 0; i < r->cell->states && !n->failed; i++) {
        const NodeId both[] = {last[0][i], last[1][i]};
        const NodeId all = onnx_concat(n, both, r->dirs, 0);
        onnx_out(n, 1 + i, r->is_batch_major ? onnx_transpose(n, all, (const int64_t[]){1, 0, 2}) : all);
    }
}

// --- the operators ---

// The ops that compute what it is, with their attributes. NULL: none does.
typedef struct PlainOp {
    const RnnCell *cell;
    const char *activation; // the first one; NULL: that of the cell
    OpId op;
    AttrId direction, batch_major, clip;
} PlainOp;

static bool has_functions(const Rnn *r, const PlainOp *p)
{
    for (uint32_t i = 0; i < r->dirs * r->cell->n_act; i++) {
        const uint32_t number = i % r->cell->n_act;
        const char *name = p->activation != NULL ? p->activation : r->cell->act[number];
        RnnActivation usual;
        uint32_t uses = 0;
        if (r->act[i / r->cell->n_act][number].fn != rnn_function(name, &usual, &uses))
            return false;
    }
    return r->cell == p->cell;
}

static const PlainOp *plain_op(const Rnn *r)
{
    static const PlainOp ops[] = {
        {&rnn_cell_lstm, NULL, OP_lstm, A_lstm_direction, A_lstm_batch_major, A_lstm_clip},
        {&rnn_cell_gru, NULL, OP_gru, A_gru_direction, A_gru_batch_major, A_gru_clip},
        {&rnn_cell_rnn, NULL, OP_rnn, A_rnn_direction, A_rnn_batch_major, A_rnn_clip},
        {&rnn_cell_rnn, "relu", OP_rnn, A_rnn_direction, A_rnn_batch_major, A_rnn_clip},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!r->lengths && !r->couples && has_functions(r, &ops[i]))
            return &ops[i];
    return NULL;
}

static void import_plain(OnnxNode *n, const Rnn *r, const PlainOp *p)
{
    const bool is_lstm = p->op == OP_lstm;
    rlx_assert(r->dirs >= 1 && r->dirs <= 2 && r->cell->states == (is_lstm ? 2 : 1));
    const NodeId operands[] = {onnx_opt(n, 0), r->w, r->r, r->b, onnx_opt(n, 5), onnx_opt(n, 6), r->p};
    NodeBuild b = onnx_begin(n, p->op, NULL, 0);
    for (uint32_t i = 0; i < (is_lstm ? 7 : 5); i++)
        node_src(&b, operands[i]);
    node_str(&b, p->direction,
             r->dirs == 2     ? "bidirectional"
             : r->is_backward ? "reverse"
                              : "forward");
    node_int(&b, p->batch_major, r->is_batch_major);
    node_float(&b, p->clip, r->act[0][0].clip > 0 ? r->act[0][0].clip : 0);
    if (p->op == OP_gru)
        node_int(&b, A_gru_reset_after, r->resets_after);
    if (p->activation != NULL)
        node_str(&b, A_rnn_activation, p->activation);
    const NodeId id = onnx_end(n, &b);
    for (uint32_t i = 0; i < 1 + r->cell->states && i < n->n_out; i++)
        onnx_out(n, i, onnx_result(n, id, i));
}

// Products of whole matrices (on AMX of bf16) are faster on CPUs than what lower_lstm.c does with few sums.
static bool stays_loop(const OnnxNode *n, const Rnn *r)
{
    return n->model->source->options.has_cpu &&
           (r->cell == &rnn_cell_rnn || (r->cell == &rnn_cell_gru && !r->resets_after));
}

static void import_read(OnnxNode *n, const Rnn *r)
{
    const PlainOp *plain = stays_loop(n, r) ? NULL : plain_op(r);
    if (plain != NULL)
        import_plain(n, r, plain);
    else
        run_rnn(n, r);
}

void onnx_import_rnn(OnnxNode *n)
{
    Rnn r;
    if (read_rnn(n, &r, &rnn_cell_rnn))
        import_read(n, &r);
}

void onnx_import_gru(OnnxNode *n)
{
    Rnn r;
    const bool resets_after = onnx_flag(n, "linear_before_reset", 0);
    if (!read_rnn(n, &r, &rnn_cell_gru))
        return;
    r.resets_after = resets_after;
    import_read(n, &r);
}

static void import_lstm_of(OnnxNode *n, NodeId w, NodeId recurrent)
{
    Rnn r;
    const bool couples = onnx_flag(n, "input_forget", 0);
    const NodeId p = onnx_opt(n, 7);
    if (!read_rnn_of(n, &r, &rnn_cell_lstm, w, recurrent))
        return;
    r.couples = couples;
    for (uint32_t i = 0; i < r.dirs; i++)
        r.act[i][2].clip = 0; // as ONNX Runtime does: only what goes into the gates is clipped
    r.p = p;
    import_read(n, &r);
}

void onnx_import_lstm(OnnxNode *n)
{
    import_lstm_of(n, onnx_src(n, 1), onnx_src(n, 2));
}

// The scale or zero point of weights [directions, ., columns], of a direction or of each of its columns, in a
// shape that broadcasts to them. 0 stays 0.
static NodeId of_weights(OnnxNode *n, uint32_t operand, NodeId id, const Shape *w)
{
    const Shape *s = id != 0 && !n->failed ? onnx_shape(n, id) : NULL;
    if (s == NULL)
        return 0;
    if (s->rank < 1 || s->rank > 2 || s->dim[0] != w->dim[0] || (s->rank == 2 && s->dim[1] != w->dim[2])) {
        onnx_fail(n, E0204,
                  "input %u must have a number for each direction of the weights, or for each column",
                  operand);
        return 0;
    }
    static const int64_t behind[] = {1, 2};
    return onnx_unsqueeze(n, id, behind, s->rank == 2 ? 1 : 2);
}

// Weights of bytes, [directions, inputs, gates * hidden], as LSTM has them, in f32.
static NodeId bytes_as_weights(OnnxNode *n, uint32_t operand, uint32_t scale)
{
    static const int64_t turned[] = {0, 2, 1};
    const NodeId w = onnx_src(n, operand), by = onnx_src(n, scale), zero = onnx_opt(n, scale + 1);
    if (n->failed)
        return 0;
    if ((onnx_dtype(n, w) != DTYPE_i8 && onnx_dtype(n, w) != DTYPE_u8) || onnx_shape(n, w)->rank != 3) {
        onnx_fail(n, E0204, "input %u must be bytes of rank 3", operand);
        return 0;
    }
    const Shape s = *onnx_shape(n, w);
    const NodeId factor = of_weights(n, scale, by, &s), less = of_weights(n, scale + 1, zero, &s);
    return n->failed ? 0 : onnx_transpose(n, quant_to_f32(n, w, factor, less), turned);
}

// ONNX Runtime rounds the input and the hidden values to bytes before each product; here they stay f32, which
// is what that rounding approximates.
void onnx_import_ms_dynamic_quantize_lstm(OnnxNode *n)
{
    const NodeId w = bytes_as_weights(n, 1, 8), recurrent = bytes_as_weights(n, 2, 10);
    if (!n->failed)
        import_lstm_of(n, w, recurrent);
}
