// SPDX-License-Identifier: Apache-2.0
// int_conv on GPUs: on matrix units as a product of images that the copy engine reads (gpu_conv.c), or of
// windows of bytes (gpu_window_conv.c); depthwise ones as those of floats (gpu_depthwise.c). Constant weights
// lose their zero points at compile time. The zero point of the input stays in it, and is what windows read
// outside of the image: it times the sum of a channel's weights is taken from that channel's sums, at compile
// time if it is constant.
#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include "passes/units.h"

static const unsigned char *as_bytes(const Lower *l, const int32_t *v, int64_t n)
{
    unsigned char *to = ARENA_ARRAY(l->pass->perm, unsigned char, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        to[i] = (unsigned char)v[i];
    return to;
}

// What the sums begin with, and, if the zero point is known at run time only, what it takes from them.
static void add_begins(Lower *l, const Node *n, const int32_t *weights, GpuBytes *bytes)
{
    const Shape *w = lower_node(l, n->src[1])->shape;
    const NodeId bias_id = n->n_src > 2 ? n->src[2] : 0;
    const Tensor bias = tensor_if_const(l->g, bias_id), zero = tensor_if_const(l->g, bytes->zero);
    const int64_t channels = w->dim[0], each = shape_numel(w) / channels;
    const bool is_known = bytes->zero == 0 || node_is_const(l->g, bytes->zero);
    int32_t *begin = ARENA_ARRAY(l->pass->perm, int32_t, (size_t)channels);
    int32_t *sums = ARENA_ARRAY(l->pass->perm, int32_t, (size_t)channels);
    bool has_begins = false;
    for (int64_t o = 0; o < channels; o++) {
        int64_t sum = 0; // what does not fit i32 wraps, as sums do
        for (int64_t i = 0; i < each; i++)
            sum += weights[o * each + i];
        const int64_t taken = bytes->zero != 0 && is_known ? tensor_get_i64(&zero, 0) * sum : 0;
        sums[o] = (int32_t)(uint32_t)(uint64_t)sum;
        has_begins = has_begins || bias_id != 0 || taken != 0;
        begin[o] = (int32_t)(uint32_t)(uint64_t)((bias_id != 0 ? tensor_get_i64(&bias, o) : 0) - taken);
    }
    if (has_begins)
        bytes->begin =
            1 + lower_param_data(l, "begin", DTYPE_i32, begin, (uint64_t)channels * sizeof *begin);
    if (!is_known)
        bytes->sums = 1 + lower_param_data(l, "sums", DTYPE_i32, sums, (uint64_t)channels * sizeof *sums);
}

// One spatial axis is w.
static void add_shape(const Lower *l, const Node *n, Conv *c)
{
    const Shape *x = lower_node(l, c->x)->shape, *w = lower_node(l, c->w)->shape;
    const Loc *loc = lower_loc(l, c->x);
    const WindowForm form = window_form(n);
    const uint32_t spatial = x->rank - 2, last = spatial - 1;
    c->s = (TileShape){.n_outer = spatial > 2 ? spatial - 2 : 0,
                       .n = x->dim[0],
                       .ic = w->dim[1],
                       .oc = w->dim[0] / c->group,
                       .w = n->shape->dim[last + 2],
                       .in_w = x->dim[last + 2],
                       .kw = w->dim[last + 2],
                       .sw = form.stride[last],
                       .dw = form.dilation[last],
                       .pad_w = form.pad[last],
                       .h = 1, .in_h = 1, .kh = 1, .sh = 1, .dh = 1};
    for (uint32_t i = 0; i < c->s.n_outer; i++) {
        c->s.outer[i] = (TileAxis){.out = n->shape->dim[i + 2],
                                   .in = x->dim[i + 2],
                                   .kernel = w->dim[i + 2],
                                   .stride = form.stride[i],
                                   .dilation = form.dilation[i],
                                   .pad = form.pad[i]};
        c->stride_outer[i] = loc->stride[i + 2];
    }
    c->stride_n = loc->stride[0];
    c->stride_c = loc->stride[1];
    c->stride_w = loc->stride[last + 2];
    if (spatial < 2)
        return;
    c->s.h = n->shape->dim[last + 1];
    c->s.in_h = x->dim[last + 1];
    c->s.kh = w->dim[last + 1];
    c->s.sh = form.stride[last - 1];
    c->s.dh = form.dilation[last - 1];
    c->s.pad_h = form.pad[last - 1];
    c->stride_h = loc->stride[last + 1];
}

bool gpu_int_conv_lower(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *w = lower_node(l, n->src[1])->shape;
    const NodeId bias = n->n_src > 2 ? n->src[2] : 0, w_zero = n->n_src > 4 ? n->src[4] : 0;
    const int64_t group = window_form(n).group;
    if (!l->caps->is_gpu || !node_is_const(l->g, n->src[1]) || lower_is_in_file(l, n->src[1]) ||
        (w_zero != 0 && !node_is_const(l->g, w_zero)) || (bias != 0 && !node_is_const(l->g, bias)))
        return false;
    const Tensor values = tensor_of_const(l->g, n->src[1]), w_zeros = tensor_if_const(l->g, w_zero);
    const int32_t *weights = tensor_centred(l->pass->perm, &values, &w_zeros);
    const bool is_depthwise = units_take_depthwise(l->caps, w, group, weights);
    if (!is_depthwise && !units_take_bytes(l->caps, w, group, weights))
        return false;
    GpuBytes bytes = {.weights = as_bytes(l, weights, values.numel),
                      .zero = n->n_src > 3 ? n->src[3] : 0,
                      .has_signed_weights = tensor_byte_type(weights, values.numel) == DTYPE_i8};
    Conv c = {.x = n->src[0], .w = n->src[1], .group = group, .shuffle = 1, .bytes = &bytes};
    add_shape(l, n, &c);
    add_begins(l, n, weights, &bytes);
    const Domain d = domain_of_root(l);
    if (gpu_conv_lower(l, &c) || (is_depthwise && gpu_depthwise_lower(l, &c, &d)))
        return true;
    if (d.live[0].size != 0 && c.s.n > 1)
        c.images = lower_live(l, &d.live[0], c.s.n);
    return !is_depthwise && gpu_window_conv_lower(l, &c, &d);
}
