// SPDX-License-Identifier: Apache-2.0
// Meanings of conv, int_conv and conv_transpose. All are sums over pairs (input position, tap) that meet at
// an output position; they differ mostly in which side the strides and pads belong to, so one loop nest
// serves both.
#include "ir/eval/eval_ops.h"
#include "ir/shape/forms.h"

enum { SPATIAL = 3 }; // axes, filled up with size 1 from the front

// Input and output positions along one axis that meet at a tap: in = first_in + k * in_step, out = first_out
// + k * out_step for k < count.
typedef struct Meeting {
    int64_t in, out, in_step, out_step, count;
} Meeting;

typedef struct Conv {
    int64_t batch, group, in_channels, out_channels; // channels of one group
    int64_t shuffle;                                 // of the input channels; 1 = none
    int64_t in[SPATIAL], out[SPATIAL], kernel[SPATIAL];
    int64_t stride[SPATIAL], dilation[SPATIAL], pad[SPATIAL];
    bool is_transpose;
    const Meeting *meetings[SPATIAL]; // of each tap of an axis
    const double *x, *w, *bias;
    double *y;
} Conv;

static int64_t volume(const int64_t *d)
{
    return d[0] * d[1] * d[2];
}

static void fill_axes(const EvalCtx *c, const WindowForm *form, Conv *v)
{
    const uint32_t n = c->in[0].rank - 2;
    for (uint32_t i = 0; i < SPATIAL; i++)
        v->in[i] = v->out[i] = v->kernel[i] = v->stride[i] = v->dilation[i] = 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t to = SPATIAL - n + i;
        v->in[to] = c->in[0].dim[2 + i];
        v->out[to] = c->out[0].dim[2 + i];
        v->kernel[to] = c->in[1].dim[2 + i];
        v->stride[to] = form->stride[i];
        v->dilation[to] = form->dilation[i];
        v->pad[to] = form->pad[i];
    }
}

// A conv reads at out * stride + tap * dilation - pad; a transposed one writes there from `in`.
static Meeting meet(const Conv *v, uint32_t axis, int64_t tap)
{
    const int64_t offset = tap * v->dilation[axis] - v->pad[axis], stride = v->stride[axis];
    const int64_t far = v->is_transpose ? v->out[axis] : v->in[axis],
                  near = v->is_transpose ? v->in[axis] : v->out[axis];
    // The first and the last `near` with 0 <= near * stride + offset < far.
    const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const int64_t last = far - 1 - offset < 0 ? -1 : (far - 1 - offset) / stride;
    const int64_t end = last + 1 < near ? last + 1 : near;
    Meeting m = {.count = end > first ? end - first : 0};
    m.in = v->is_transpose ? first : first * stride + offset;
    m.out = v->is_transpose ? first * stride + offset : first;
    m.in_step = v->is_transpose ? 1 : stride;
    m.out_step = v->is_transpose ? stride : 1;
    return m;
}

// Adds weight * x to y at all positions where they meet.
static void add_tap(const Conv *v, const Meeting m[SPATIAL], double weight, const double *x, double *y)
{
    for (int64_t a = 0; a < m[0].count; a++)
        for (int64_t b = 0; b < m[1].count; b++) {
            const int64_t in_row = (m[0].in + a * m[0].in_step) * v->in[1] + m[1].in + b * m[1].in_step;
            const int64_t out_row = (m[0].out + a * m[0].out_step) * v->out[1] + m[1].out + b * m[1].out_step;
            const double *from = x + in_row * v->in[2] + m[2].in;
            double *to = y + out_row * v->out[2] + m[2].out;
            for (int64_t k = 0; k < m[2].count; k++)
                to[k * m[2].out_step] += weight * from[k * m[2].in_step];
        }
}

// One input channel's share of one output channel.
static void add_plane(const Conv *v, const double *w, const double *x, double *y)
{
    for (int64_t a = 0; a < v->kernel[0]; a++)
        for (int64_t b = 0; b < v->kernel[1]; b++)
            for (int64_t c = 0; c < v->kernel[2]; c++, w++) {
                const Meeting m[SPATIAL] = {v->meetings[0][a], v->meetings[1][b], v->meetings[2][c]};
                if (m[0].count > 0 && m[1].count > 0 && m[2].count > 0)
                    add_tap(v, m, *w, x, y);
            }
}

// Output channel o of group g of batch entry n.
static void run_channel(const Conv *v, int64_t n, int64_t g, int64_t o)
{
    const int64_t out_channel = g * v->out_channels + o, taps = volume(v->kernel);
    double *y = v->y + (n * v->group * v->out_channels + out_channel) * volume(v->out);
    for (int64_t i = 0; v->bias != NULL && i < volume(v->out); i++)
        y[i] = v->bias[out_channel];
    for (int64_t i = 0; i < v->in_channels; i++) {
        const int64_t in_channel = g * v->in_channels + i;
        const int64_t weight =
            v->is_transpose ? in_channel * v->out_channels + o : out_channel * v->in_channels + i;
        const int64_t channels = v->group * v->in_channels;
        const int64_t from = in_channel % v->shuffle * (channels / v->shuffle) + in_channel / v->shuffle;
        add_plane(v, v->w + weight * taps, v->x + (n * channels + from) * volume(v->in), y);
    }
}

static void find_meetings(const EvalCtx *c, Conv *v)
{
    for (uint32_t axis = 0; axis < SPATIAL; axis++) {
        Meeting *m = ARENA_ARRAY(c->arena, Meeting, v->kernel[axis]);
        for (int64_t tap = 0; tap < v->kernel[axis]; tap++)
            m[tap] = meet(v, axis, tap);
        v->meetings[axis] = m;
    }
}

static Conv conv_of(const EvalCtx *c, bool is_transpose)
{
    rlx_assert(c->in[0].rank >= 3 && c->in[1].rank == c->in[0].rank && c->out[0].rank == c->in[0].rank);
    const WindowForm form = window_form(c->node);
    rlx_assert(form.group > 0 && form.shuffle > 0);
    Conv v = {.is_transpose = is_transpose,
              .batch = c->in[0].dim[0],
              .group = form.group,
              .shuffle = form.shuffle};
    fill_axes(c, &form, &v);
    v.in_channels = c->in[0].dim[1] / v.group;
    v.out_channels = c->out[0].dim[1] / v.group;
    find_meetings(c, &v);
    return v;
}

static bool check_conv_work(const EvalCtx *c, const Conv *v)
{
    const int64_t outer = v->batch * v->group * v->out_channels,
                  near = v->is_transpose ? volume(v->in) : volume(v->out);
    return eval_check_work(c, outer, near) &&
           (outer == 0 || eval_check_work(c, outer * near, v->in_channels * volume(v->kernel)));
}

static void run_channels(const Conv *v)
{
    const int64_t outer = v->batch * v->group * v->out_channels;
    for (int64_t i = 0; i < outer; i++)
        run_channel(v, i / v->out_channels / v->group, i / v->out_channels % v->group, i % v->out_channels);
}

static bool run_conv(EvalCtx *c, bool is_transpose)
{
    Conv v = conv_of(c, is_transpose);
    if (!check_conv_work(c, &v))
        return false;
    v.x = eval_doubles(c, 0);
    v.w = eval_doubles(c, 1);
    v.bias = eval_doubles(c, 2);
    v.y = eval_scratch(c, c->out[0].numel);
    run_channels(&v);
    eval_store(c, 0, v.y);
    return true;
}

// Elements of operand i less its zero points, of which there is one, or one per entry of axis 0.
static double *centred(EvalCtx *c, uint32_t i, uint32_t zero)
{
    double *v = eval_doubles(c, i);
    const double *z = eval_doubles(c, zero);
    const int64_t each = c->in[i].dim[0] > 0 ? c->in[i].numel / c->in[i].dim[0] : 1;
    for (int64_t k = 0; z != NULL && k < c->in[i].numel; k++)
        v[k] -= z[c->in[zero].numel == 1 ? 0 : k / each];
    return v;
}

// The sums are exact in double: at most 2^37 products of 17 bits.
bool eval_int_conv(EvalCtx *c)
{
    Conv v = conv_of(c, false);
    if (!check_conv_work(c, &v))
        return false;
    v.x = centred(c, 0, 3);
    v.w = centred(c, 1, 4);
    v.bias = eval_doubles(c, 2);
    v.y = eval_scratch(c, c->out[0].numel);
    run_channels(&v);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        tensor_set_i64(&c->out[0], i, (int64_t)v.y[i]);
    return true;
}

bool eval_conv(EvalCtx *c)
{
    return run_conv(c, false);
}

bool eval_conv_transpose(EvalCtx *c)
{
    return run_conv(c, true);
}
