// SPDX-License-Identifier: Apache-2.0
// What the attributes of some ops say, for passes that look for these ops: each is made beside its shape
// rule, which has checked them. A node of another op has the form that `none` says.
#ifndef IR_SHAPE_FORMS_H
#define IR_SHAPE_FORMS_H

#include "ir/graph/graph.h"

typedef struct LoopForm {
    Graph *body; // none: NULL
    uint32_t n_carried;
    const Dim *max_trips; // NULL: without a bound
} LoopForm;
LoopForm loop_form(const Node *n);

typedef struct MatmulForm {
    bool is_there; // none: false
    bool turns_a, turns_b;
} MatmulForm;
MatmulForm matmul_form(const Node *n);

// Of ops with windows; lists by spatial axis, pad: at the begin, then at the end.
typedef struct WindowForm {
    const int64_t *stride, *dilation, *pad;
    int64_t group, shuffle; // of convolutions; none, and pools: 0
} WindowForm;
WindowForm window_form(const Node *n); // a convolution of any kind, or a pool
WindowForm conv_form(const Node *n);   // a conv
bool conv_is_of_bytes(const Node *n);  // an int_conv
// Are these weights of 3x3 taps, one beside the other, of steps of 1 and in one group?
bool window_is_three(const WindowForm *form, const Shape *weights);
// Of one spatial axis of a convolution.
typedef struct WindowAxis {
    int64_t out, in, kernel, stride, dilation, pad; // pad: at the begin
} WindowAxis;
WindowAxis conv_axis(const Graph *g, const Node *n, uint32_t axis); // axis: 0 is the first spatial one
// The largest output whose last tap is inside of the input; -1: none is.
int64_t window_last_inside(const WindowAxis *x);
// Outputs that some tap reads outside of the input for, at the begin and at the end of the axis.
int64_t window_low_edge(const WindowAxis *x);
int64_t window_high_edge(const WindowAxis *x);
// The conv `id` of its own graph with other operands (as many as it has) and other pads.
NodeId conv_rebuild(Graph *g, NodeId id, const NodeId *src, const int64_t *pads);
// Does each channel of the input have weights of its own?
bool conv_is_depthwise(const Graph *g, const Node *n);
// Kernels with more taps along the last axis, or whose taps lie further apart, have loops over them.
enum { CONV_MAX_TAPS = 32, CONV_MAX_EDGES = 64 };
enum { DEPTHWISE_MAX_TAPS = 7, DEPTHWISE_MAX_DILATION = 24, DEPTHWISE_MAX_STRIDE = 4 };

// Of attention and attention_part.
typedef struct AttentionForm {
    bool is_there; // none: false
    bool is_causal, is_guarded, is_sparse;
    int64_t left, right, splits; // splits: 0 for attention
    double scale, softcap;
} AttentionForm;
AttentionForm attention_form(const Node *n);

// Of lstm, gru and rnn. Operands 0 to 4 are x, w, r, b, h0; numbers of others are 0 where there are none, as
// are those of states (results from 1 on, whose first values are operands from 4 on).
enum { RECURRENT_H0 = 4, RECURRENT_MOST = 9 };
typedef struct RecurrentForm {
    uint32_t gates, n_states, peephole, steps, sums; // none: 0
    bool is_batch_major;
    bool resets_after, is_relu; // of gru, of rnn
    double clip;                // 0: none
    const char *direction;
} RecurrentForm;
RecurrentForm recurrent_form(const Node *n);

// The axis along which a gather or a concat works; none: -1.
int64_t gather_axis(const Node *n);
int64_t concat_axis(const Node *n);
// What a slice takes of an axis, as its attributes say; all of it: 0, step 1.
typedef struct SliceForm {
    int64_t start, step;
} SliceForm;
SliceForm slice_form(const Node *n, uint32_t axis);
// What a pad adds at the begin of every axis, then at the end; none: NULL.
const int64_t *pad_amounts(const Node *n);
// Does an update_slice write its whole patch? none: no.
bool update_is_whole(const Node *n);

#endif
