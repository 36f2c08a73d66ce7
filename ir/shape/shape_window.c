// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops with windows over spatial axes: convolutions and pools. Operands are [N, C, spatial ...]
// with 1 to 3 spatial axes.
#include "ir/shape/forms.h"
#include "ir/shape/shape_rules.h"

#include <math.h>
#include <string.h>

enum { MAX_SPATIAL = 3 };

// One spatial axis of a window.
typedef struct Window {
    int64_t stride, pad_begin, pad_end;
    int64_t extent; // input positions from the first to the last tap
} Window;

// The windowed ops have these attributes in common.
static bool fill_windows(ShapeCtx *c, uint32_t n, const int64_t *kernel, Window *w)
{
    const AttrId stride = attr_find(c->op, "strides"), pad = attr_find(c->op, "pads"),
                 dilation = attr_find(c->op, "dilations");
    if (!rule_ints(c, stride, n, 1, 1) || !rule_ints(c, pad, 2 * n, 0, 0) || !rule_ints(c, dilation, n, 1, 1))
        return false;
    const int64_t *strides = shape_attr(c, stride)->u.ints, *pads = shape_attr(c, pad)->u.ints;
    const int64_t *dilations = shape_attr(c, dilation)->u.ints;
    for (uint32_t i = 0; i < n; i++) {
        if (kernel[i] < 1 || kernel[i] > SHAPE_MAX_STEP)
            return shape_fail(c, E0204, "the kernel has the size %lld at spatial axis %u",
                              (long long)kernel[i], i);
        w[i] = (Window){.stride = strides[i],
                        .pad_begin = pads[i],
                        .pad_end = pads[n + i],
                        .extent = dilations[i] * (kernel[i] - 1) + 1};
        if (w[i].extent > DIM_MAX_VALUE)
            return shape_fail(c, E0004, "the dilated kernel spans %lld positions", (long long)w[i].extent);
    }
    return true;
}

// The spatial sizes of a weight [O, C / group, kernel ...], which must be constants.
static bool weight_kernel(ShapeCtx *c, uint32_t n, int64_t *kernel)
{
    const Shape *w = &c->in[1].shape;
    for (uint32_t i = 0; i < n; i++) {
        if (!dim_is_const(w->dim[2 + i]))
            return shape_fail(c, E0204, "the kernel size %s must be a constant",
                              rule_dim_text(c, w->dim[2 + i]));
        kernel[i] = w->dim[2 + i];
    }
    return true;
}

// The result size of a window that must lie inside the padded input.
static bool slide(ShapeCtx *c, const Window *w, Dim in, Dim *out)
{
    DimTable *t = c->g->dims;
    const Dim padded = dim_add(t, in, w->pad_begin + w->pad_end);
    int64_t lo, hi;
    dim_range(t, padded, &lo, &hi);
    if (hi < w->extent)
        return shape_fail(c, E0204, "the kernel spans %lld positions, but the padded input has %s",
                          (long long)w->extent, rule_dim_text(c, padded));
    *out = dim_add(t, dim_floor_div(t, dim_sub(t, padded, w->extent), w->stride), 1);
    return true;
}

static bool check_group(ShapeCtx *c, AttrId id, Dim channels, const char *what)
{
    const int64_t group = shape_attr(c, id)->u.i;
    if (group < 1 || group > SHAPE_MAX_STEP)
        return shape_fail(c, E0203, "`%s` is %lld, expected at least 1", attr_info[id].name,
                          (long long)group);
    if (dim_mod(c->g->dims, channels, group) != 0)
        return shape_fail(c, E0204, "%s %s are not a multiple of `%s` %lld", what, rule_dim_text(c, channels),
                          attr_info[id].name, (long long)group);
    return true;
}

// The part that all convolutions share: ranks, bias [channels].
static bool check_conv_operands(ShapeCtx *c)
{
    return rule_rank(c, 0, 3, 2 + MAX_SPATIAL) && rule_rank(c, 1, c->in[0].shape.rank, c->in[0].shape.rank) &&
           (!rule_has(c, 2) || rule_rank(c, 2, 1, 1));
}

static bool conv(ShapeCtx *c, DType result)
{
    const AttrId group = attr_find(c->op, "group");
    const Shape *x = &c->in[0].shape, *w = &c->in[1].shape;
    int64_t kernel[MAX_SPATIAL];
    Window window[MAX_SPATIAL] = {{0}};
    if (!check_conv_operands(c) || !weight_kernel(c, x->rank - 2, kernel) ||
        !fill_windows(c, x->rank - 2, kernel, window) ||
        !check_group(c, group, x->dim[1], "input channels") ||
        !check_group(c, group, w->dim[0], "output channels"))
        return false;
    const Dim per_group = dim_floor_div(c->g->dims, x->dim[1], shape_attr(c, group)->u.i);
    if (!rule_dims_equal(c, per_group, w->dim[1], "input channels of a group and of the weight,") ||
        (rule_has(c, 2) &&
         !rule_dims_equal(c, w->dim[0], c->in[2].shape.dim[0], "output channels and bias size")))
        return false;
    Shape out = *x;
    out.dim[1] = w->dim[0];
    for (uint32_t i = 2; i < x->rank; i++)
        if (!slide(c, &window[i - 2], x->dim[i], &out.dim[i]))
            return false;
    rule_out(c, 0, result, &out);
    return true;
}

bool shape_conv(ShapeCtx *c)
{
    return rule_dtypes(c, CLS_FLOAT, 3) && conv(c, c->in[0].dtype) &&
           check_group(c, A_conv_shuffle, c->in[0].shape.dim[1], "input channels");
}

// A zero point: one element of operand i's type, or one per output channel.
static bool check_zero(ShapeCtx *c, uint32_t zero, uint32_t of)
{
    const Shape *s = &c->in[zero].shape, *w = &c->in[1].shape;
    if (!rule_has(c, zero))
        return true;
    if (c->in[zero].dtype != c->in[of].dtype)
        return shape_fail(c, E0205, "operands %u and %u have different element types", of, zero);
    if (!rule_rank(c, zero, 0, 1))
        return false;
    if (s->rank == 0 || (dim_is_const(s->dim[0]) && s->dim[0] == 1))
        return true;
    return of == 1 ? rule_dims_equal(c, s->dim[0], w->dim[0], "zero points and output channels,")
                   : shape_fail(c, E0204, "operand %u must have one element", zero);
}

static bool is_byte(DType t)
{
    return t == DTYPE_i8 || t == DTYPE_u8;
}

bool shape_int_conv(ShapeCtx *c)
{
    const bool is_wide = c->in[0].dtype == DTYPE_i16;
    if ((!is_wide && !is_byte(c->in[0].dtype)) || !is_byte(c->in[1].dtype))
        return shape_fail(c, E0205, "operand 0 must be of i8, u8 or i16, operand 1 of i8 or u8");
    if (is_wide && rule_has(c, 3))
        return shape_fail(c, E0205, "an operand of i16 has no zero point");
    if (rule_has(c, 2) && c->in[2].dtype != DTYPE_i32)
        return shape_fail(c, E0205, "operand 2 must be of i32");
    return rule_rank(c, 0, 3, 2 + MAX_SPATIAL) && conv(c, DTYPE_i32) && check_zero(c, 3, 0) &&
           check_zero(c, 4, 1);
}

// Weight [C, O / group, kernel ...]; output = (in - 1) * stride + output_padding + extent - pads.
bool shape_conv_transpose(ShapeCtx *c)
{
    DimTable *t = c->g->dims;
    const Shape *x = &c->in[0].shape, *w = &c->in[1].shape;
    int64_t kernel[MAX_SPATIAL];
    Window window[MAX_SPATIAL] = {{0}};
    if (!rule_dtypes(c, CLS_FLOAT, 3) || !check_conv_operands(c) || !weight_kernel(c, x->rank - 2, kernel) ||
        !fill_windows(c, x->rank - 2, kernel, window) ||
        !rule_ints(c, A_conv_transpose_output_padding, x->rank - 2, 0, 0) ||
        !check_group(c, A_conv_transpose_group, x->dim[1], "input channels") ||
        !rule_dims_equal(c, x->dim[1], w->dim[0], "channels of the input and of the weight,"))
        return false;
    Shape out = *x;
    out.dim[1] = dim_mul(t, w->dim[1], shape_attr(c, A_conv_transpose_group)->u.i);
    if (rule_has(c, 2) &&
        !rule_dims_equal(c, out.dim[1], c->in[2].shape.dim[0], "output channels and bias size"))
        return false;
    const int64_t *extra = shape_attr(c, A_conv_transpose_output_padding)->u.ints;
    for (uint32_t i = 2; i < x->rank; i++) {
        const Window *v = &window[i - 2];
        const Dim spread = dim_mul(t, dim_sub(t, x->dim[i], 1), v->stride);
        out.dim[i] = dim_add(t, spread, extra[i - 2] + v->extent - v->pad_begin - v->pad_end);
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// With ceil_mode the last window may hang over the end, but starts inside the input or the padding before it.
static bool pool_size(ShapeCtx *c, const Window *w, Dim in, bool ceil_mode, Dim *out)
{
    DimTable *t = c->g->dims;
    if (w->pad_begin >= w->extent || w->pad_end >= w->extent)
        return shape_fail(c, E0203,
                          "`pads` %lld and %lld must be smaller than the %lld positions of the kernel",
                          (long long)w->pad_begin, (long long)w->pad_end, (long long)w->extent);
    if (!ceil_mode)
        return slide(c, w, in, out);
    const Dim begun = dim_add(t, in, w->pad_begin);
    const Dim over = dim_sub(t, dim_add(t, begun, w->pad_end), w->extent);
    *out = rule_min(t, dim_add(t, dim_ceil_div(t, over, w->stride), 1), dim_ceil_div(t, begun, w->stride));
    int64_t lo, hi;
    dim_range(t, *out, &lo, &hi);
    return hi >= 1 || shape_fail(c, E0204, "the kernel spans %lld positions, but the input has %s",
                                 (long long)w->extent, rule_dim_text(c, in));
}

static bool pool_of_types(ShapeCtx *c, uint32_t classes)
{
    const AttrId kernel = attr_find(c->op, "kernel"), ceil_mode = attr_find(c->op, "ceil_mode");
    const Shape *x = &c->in[0].shape;
    Window window[MAX_SPATIAL] = {{0}};
    if (!rule_dtypes(c, classes, 1) || !rule_rank(c, 0, 3, 2 + MAX_SPATIAL) ||
        !rule_ints(c, kernel, x->rank - 2, 1, 1) ||
        !fill_windows(c, x->rank - 2, shape_attr(c, kernel)->u.ints, window))
        return false;
    Shape out = *x;
    for (uint32_t i = 2; i < x->rank; i++)
        if (!pool_size(c, &window[i - 2], x->dim[i], shape_attr(c, ceil_mode)->u.i != 0, &out.dim[i]))
            return false;
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_pool(ShapeCtx *c)
{
    return pool_of_types(c, CLS_FLOAT);
}

bool shape_max_pool(ShapeCtx *c)
{
    return pool_of_types(c, CLS_FLOAT | CLS_INT);
}

bool shape_argmax_pool(ShapeCtx *c)
{
    const bool ok = shape_pool(c);
    c->out[0].dtype = DTYPE_i64;
    return ok;
}

// --- forms ---

WindowForm window_form(const Node *n)
{
    const AttrVal *group = node_find_attr(n, "group"), *shuffle = node_find_attr(n, "shuffle");
    return (WindowForm){.stride = node_find_attr(n, "strides")->u.ints,
                        .dilation = node_find_attr(n, "dilations")->u.ints,
                        .pad = node_find_attr(n, "pads")->u.ints,
                        .group = group != NULL ? group->u.i : 0,
                        .shuffle = shuffle != NULL ? shuffle->u.i : group != NULL};
}

bool conv_is_of_bytes(const Node *n)
{
    return n->op == OP_int_conv;
}

WindowForm conv_form(const Node *n)
{
    return n->op == OP_conv ? window_form(n) : (WindowForm){0};
}

bool window_is_three(const WindowForm *form, const Shape *weights)
{
    enum { AXES = 2, TAPS = 3 };
    bool is_three = weights->rank == AXES + 2 && form->group == 1;
    for (uint32_t i = 0; i < AXES && is_three; i++)
        is_three = weights->dim[i + 2] == TAPS && form->stride[i] == 1 && form->dilation[i] == 1;
    return is_three;
}

WindowAxis conv_axis(const Graph *g, const Node *n, uint32_t axis)
{
    const WindowForm form = conv_form(n);
    rlx_assert(n->op == OP_conv && axis + 2 < n->shape->rank);
    return (WindowAxis){.out = n->shape->dim[axis + 2],
                        .in = graph_node(g, n->src[0])->shape->dim[axis + 2],
                        .kernel = graph_node(g, n->src[1])->shape->dim[axis + 2],
                        .stride = form.stride[axis],
                        .dilation = form.dilation[axis],
                        .pad = form.pad[axis]};
}

int64_t window_low_edge(const WindowAxis *x)
{
    const int64_t outputs = (x->pad + x->stride - 1) / x->stride;
    return outputs > 0 ? outputs : 0;
}

int64_t window_last_inside(const WindowAxis *x)
{
    const int64_t reach = x->in - 1 - (x->kernel - 1) * x->dilation + x->pad;
    return reach < 0 ? -1 : reach / x->stride;
}

int64_t window_high_edge(const WindowAxis *x)
{
    const int64_t outputs = x->out - 1 - window_last_inside(x);
    return outputs > 0 ? outputs : 0;
}

NodeId conv_rebuild(Graph *g, NodeId id, const NodeId *src, const int64_t *pads)
{
    const Node n = *graph_node(g, id);
    rlx_assert(n.op == OP_conv);
    NodeBuild b = node_copy_begin(g, g, id);
    for (uint32_t i = 0; i < n.n_src; i++)
        node_src(&b, src[i]);
    node_ints(&b, A_conv_pads, pads, 2 * (n.shape->rank - 2));
    return node_end(&b);
}

bool conv_is_depthwise(const Graph *g, const Node *n)
{
    return n->op == OP_conv && conv_form(n).group > 1 && graph_node(g, n->src[1])->shape->dim[1] == 1;
}
