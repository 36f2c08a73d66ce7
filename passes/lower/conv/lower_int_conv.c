// SPDX-License-Identifier: Apache-2.0
// int_conv. Where the pass `bytes` left dot products (u8 times constant i8): tiles of pixels x vectors of
// output channels in named accumulators, four input channels a step. What an input must be for that (four
// channels to a word, words next to each other, its padding in memory as the zero point) is made by a copy
// where it is not so already. The zero point then is a constant of each output channel, which the sums begin
// with. Matrix registers, where they are faster, see the same input. Targets that prefer integers have
// int_conv_bytes.c, matrix units of GPUs gpu_int_conv.c. All else: plain loops. Sums are exact, so their
// order does not matter.
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv.h"
#include "passes/lower/operand.h"

#include <string.h>

enum { MAX_VECTORS = 8, COPY_SPARE = 16 << 20 };

// --- numbers of the convolution ------------------------------------------------------------------

IntConv int_conv_of(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *x = lower_node(l, n->src[0])->shape, *w = lower_node(l, n->src[1])->shape;
    const uint32_t spatial = x->rank - 2, last = x->rank - 1;
    const bool rows = spatial >= 2, slices = spatial == 3;
    const Loc *at = lower_loc(l, n->src[0]);
    IntConv c = {.l = l,
                 .x = n->src[0],
                 .w = n->src[1],
                 .bias = n->n_src > 2 ? n->src[2] : 0,
                 .x_zero = n->n_src > 3 ? n->src[3] : 0,
                 .w_zero = n->n_src > 4 ? n->src[4] : 0,
                 .group = node_get_int(n, A_int_conv_group),
                 .n = x->dim[0],
                 .depth = slices ? n->shape->dim[2] : 1,
                 .in_d = slices ? x->dim[2] : 1,
                 .kd = slices ? w->dim[2] : 1,
                 .sd = slices ? node_get_at(n, A_int_conv_strides, 0, 1) : 1,
                 .dd = slices ? node_get_at(n, A_int_conv_dilations, 0, 1) : 1,
                 .pad_d = slices ? node_get_at(n, A_int_conv_pads, 0, 0) : 0,
                 .h = rows ? n->shape->dim[last - 1] : 1,
                 .w_out = n->shape->dim[last],
                 .in_h = rows ? x->dim[last - 1] : 1,
                 .in_w = x->dim[last],
                 .ic = w->dim[1],
                 .kh = rows ? w->dim[last - 1] : 1,
                 .kw = w->dim[last],
                 .sh = conv_at_or(n, A_int_conv_strides, 0, spatial, 1),
                 .sw = conv_at_or(n, A_int_conv_strides, 1, spatial, 1),
                 .dh = conv_at_or(n, A_int_conv_dilations, 0, spatial, 1),
                 .dw = conv_at_or(n, A_int_conv_dilations, 1, spatial, 1),
                 .pad_h = conv_at_or(n, A_int_conv_pads, 0, spatial, 0),
                 .pad_w = conv_at_or(n, A_int_conv_pads, 1, spatial, 0)};
    c.oc = w->dim[0] / c.group;
    c.words = (c.ic + 3) / 4;
    c.stride_n = at->stride[0];
    c.stride_c = at->stride[1];
    c.stride_d = slices ? at->stride[2] : 0;
    c.stride_h = rows ? at->stride[last - 1] : 0;
    c.stride_w = at->stride[last];
    return c;
}

static int64_t first_tap(const IntConv *c, int64_t slice)
{
    const int64_t missing = c->pad_d - slice * c->sd;
    const int64_t first = missing > 0 ? ceil_div(missing, c->dd) : 0;
    return first < c->kd ? first : c->kd;
}

static int64_t count_taps(const IntConv *c, int64_t slice)
{
    const int64_t room = c->in_d - 1 + c->pad_d - slice * c->sd, first = first_tap(c, slice);
    const int64_t end = room < 0 ? 0 : room / c->dd + 1 < c->kd ? room / c->dd + 1 : c->kd;
    return end > first ? end - first : 0;
}

IntTaps int_conv_first_taps(const IntConv *c)
{
    return int_conv_next_taps(c, &(IntTaps){.number = -1});
}

IntTaps int_conv_next_taps(const IntConv *c, const IntTaps *before)
{
    const int64_t slice = before->slice + before->slices;
    IntTaps taps = {.number = before->number + 1, .slice = slice};
    if (slice >= c->depth)
        return taps;
    taps.first = first_tap(c, slice);
    taps.n = count_taps(c, slice);
    for (taps.slices = 1; slice + taps.slices < c->depth; taps.slices++)
        if (first_tap(c, slice + taps.slices) != taps.first || count_taps(c, slice + taps.slices) != taps.n)
            break;
    return taps;
}

// --- packing -------------------------------------------------------------------------------------

// What is needed to make the packed weights later.
typedef struct BytePacking {
    IntConv c;
    const int8_t *data;
} BytePacking;

static void pack_block(const BytePacking *p, int64_t first, int64_t width, int64_t end, unsigned char **out)
{
    const IntConv *c = &p->c;
    const int64_t taps = c->kd * c->kh * c->kw;
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t word = 0; word < c->words; word++)
            for (int64_t o = first; o < first + width; o++)
                for (int64_t i = word * 4; i < word * 4 + 4; i++) {
                    const bool is_real = o < end && i < c->ic;
                    const int8_t v = is_real ? p->data[(o * c->ic + i) * taps + tap] : 0;
                    memcpy((*out)++, &v, 1);
                }
}

// [group][block][tap][word][output channel of the block][4]
static void pack(const void *ctx, void *bytes)
{
    const BytePacking *p = ctx;
    unsigned char *out = bytes;
    for (int64_t g = 0; g < p->c.group; g++)
        for (int64_t o = 0; o < p->c.oc; o += p->c.nv * p->c.lanes) {
            const int64_t width = int_conv_width(&p->c, o);
            pack_block(p, g * p->c.oc + o, width, (g + 1) * p->c.oc, &out);
        }
}

// Channels of the block that begins at channel `first` of a group, padding included.
int64_t int_conv_width(const IntConv *c, int64_t first)
{
    rlx_assert(first >= 0 && first < c->oc && c->lanes > 0);
    const int64_t vectors = (c->oc - first + c->lanes - 1) / c->lanes;
    return (vectors < c->nv ? vectors : c->nv) * c->lanes;
}

static const void *const_bytes(const Lower *l, NodeId id)
{
    return node_attr(lower_node(l, id), A_const_data)->u.blob;
}

static void pack_params(IntConv *c)
{
    Lower *l = c->l;
    c->group_words = c->kd * c->kh * c->kw * c->words * c->padded;
    BytePacking *p = ARENA_NEW(l->pass->perm, BytePacking);
    *p = (BytePacking){.c = *c, .data = const_bytes(l, c->w)};
    const uint64_t bytes = (uint64_t)c->group * (uint64_t)c->group_words * 4;
    c->weights = lower_param_filled(l, node_name(l->g, c->w), DTYPE_i32, pack, p, bytes);
}

// The sum of the weights of an output channel at some taps of the depth.
static int64_t weight_sum(const IntConv *c, const int8_t *w, int64_t channel, const IntTaps *taps)
{
    const int64_t slice = c->kh * c->kw;
    int64_t sum = 0; // what does not fit i32 wraps, as sums do
    for (int64_t i = 0; i < c->ic; i++)
        for (int64_t t = taps->first * slice; t < (taps->first + taps->n) * slice; t++)
            sum += w[(channel * c->ic + i) * c->kd * slice + t];
    return sum;
}

// What sums begin with: bias - zero point * sum of the weights, as far as it is known now; and the sums of
// the weights when the zero point is not. For each set of taps: [group][channel].
static void begin_params(IntConv *c)
{
    Lower *l = c->l;
    const int8_t *w = const_bytes(l, c->w);
    const bool has_zero = c->x_zero != 0 && node_is_const(l->g, c->x_zero);
    const uint8_t *zero = has_zero ? const_bytes(l, c->x_zero) : NULL;
    const int32_t *bias = node_is_const(l->g, c->bias) ? const_bytes(l, c->bias) : NULL;
    const int64_t row = c->group * c->padded;
    IntTaps taps = int_conv_first_taps(c), last = taps;
    while (last.slices > 0)
        last = int_conv_next_taps(c, &last);
    const size_t n = (size_t)(row * last.number);
    int32_t *begin = ARENA_ARRAY(l->pass->perm, int32_t, n), *sums = ARENA_ARRAY(l->pass->perm, int32_t, n);
    for (; taps.slices > 0; taps = int_conv_next_taps(c, &taps)) {
        for (int64_t o = 0; o < c->group * c->oc; o++) {
            const int64_t to = taps.number * row + o / c->oc * c->padded + o % c->oc;
            const int64_t sum = weight_sum(c, w, o, &taps);
            sums[to] = (int32_t)(uint32_t)(uint64_t)sum;
            begin[to] = (int32_t)(uint32_t)(uint64_t)((bias ? bias[o] : 0) - (zero ? *zero * sum : 0));
        }
    }
    c->begin = lower_param_data(l, "begin", DTYPE_i32, begin, n * 4);
    c->has_sums = c->x_zero != 0 && zero == NULL;
    if (c->has_sums)
        c->sums = lower_param_data(l, "sums", DTYPE_i32, sums, n * 4);
    if (c->bias != 0 && bias == NULL)
        c->bias_param = 1 + lower_param(l, c->bias, PARAM_READ);
}

// --- which form ----------------------------------------------------------------------------------

static bool can_dot(const IntConv *c, const Domain *d)
{
    const Lower *l = c->l;
    const bool has_dot8 = l->caps->has_dot8 || l->caps->has_dot16;
    const uint32_t most_axes = l->caps->has_matrix ? 4 : 5;
    if (!has_dot8 || l->caps->is_gpu || d->rank > most_axes || !node_is_const(l->g, c->w) || c->w_zero != 0)
        return false;
    if (lower_node(l, c->x)->dtype != DTYPE_u8 || lower_node(l, c->w)->dtype != DTYPE_i8 ||
        lower_fit_lanes(l, c->oc) == 1 || domain_lanes(l, d, 1) == 1)
        return false;
    if (c->bias != 0 && lower_loc(l, c->bias)->buf != 0 && lower_loc(l, c->bias)->stride[0] != 1 && c->oc > 1)
        return false;
    const double pixel = (double)c->n * (double)(c->group * c->words * 4);
    const double copied = (double)c->in_d * (double)int_conv_reach(c->h, c->sh, c->kh, c->dh) *
                          (double)int_conv_reach(c->w_out, c->sw, c->kw, c->dw);
    const double input = (double)c->in_d * (double)c->in_h * (double)c->in_w;
    const double result = (double)c->depth * (double)c->h * (double)c->w_out;
    return pixel * copied <= (double)COPY_SPARE + 8.0 * pixel * (input + result);
}

// --- plain loops ---------------------------------------------------------------------------------

static KRef less_zero(Lower *l, KRef v, NodeId zero, KRef index)
{
    const KRef wide = k_cast(l->k, v, DTYPE_i32);
    if (zero == 0)
        return wide;
    if (shape_numel(lower_node(l, zero)->shape) == 1)
        index = k_index(l->k, 0);
    else
        index = k_expr(l->k, "$ * #", index, lower_loc(l, zero)->stride[0]);
    return k_sub(l->k, wide, operand_scalar(l, zero, index, DTYPE_i32));
}

static KRef plain_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const IntConv *c = ctx;
    Kernel *k = l->k;
    const Node *n = lower_node(l, l->anchor);
    const Shape *xs = lower_node(l, c->x)->shape;
    const Loc *xl = lower_loc(l, c->x), *wl = lower_loc(l, c->w);
    const uint32_t spatial = xs->rank - 2;
    (void)d;
    const KRef o = at.idx[1], group = k_expr(k, "$ / #", o, c->oc);
    const KRef bias = c->bias == 0 ? k_integer(k, DTYPE_i32, 0)
                                   : operand_scalar(l, c->bias, operand_index(l, c->bias, &o), DTYPE_i32);
    const KRef acc = k_var(k, bias, "acc");
    KRef x = k_expr(k, "$ * #", at.idx[0], xl->stride[0]), w = k_expr(k, "$ * #", o, wl->stride[0]);
    const KRef i = k_loop(k, c->ic, KFOR_SERIAL, "c");
    x = k_expr(k, "($ * # + $) * # + $", group, c->ic, i, xl->stride[1], x);
    w = k_expr(k, "$ * # + $", i, wl->stride[1], w);
    static const char *const names[] = {"k0", "k1", "k2"};
    for (uint32_t a = 0; a < spatial; a++) {
        const int64_t size = lower_node(l, c->w)->shape->dim[a + 2];
        const KRef t = k_loop(k, size, KFOR_SERIAL, names[a]);
        const KRef start = k_expr(k, "$ * # + #", at.idx[a + 2], node_get_at(n, A_int_conv_strides, a, 1),
                                  -node_get_at(n, A_int_conv_pads, a, 0));
        const KRef pos = k_expr(k, "$ * # + $", t, node_get_at(n, A_int_conv_dilations, a, 1), start);
        k_if(k, k_expr(k, "0 <= $ & $ < #", pos, pos, xs->dim[a + 2]));
        x = k_expr(k, "$ * # + $", pos, xl->stride[a + 2], x);
        w = k_expr(k, "$ * # + $", t, wl->stride[a + 2], w);
    }
    const KRef xv = less_zero(l, k_load(k, lower_param(l, c->x, PARAM_READ), x, 1, 1), c->x_zero, o);
    const KRef wv = less_zero(l, k_load(k, lower_param(l, c->w, PARAM_READ), w, 1, 1), c->w_zero, o);
    k_set(k, acc, k_fma(k, xv, wv, k_get(k, acc)));
    k_ends(k, 2 * spatial + 1);
    return k_get(k, acc);
}

void lower_int_conv(Lower *l)
{
    IntConv c = int_conv_of(l);
    rlx_assert(c.group >= 1 && c.kh >= 1 && c.kw >= 1);
    Domain d = domain_of(lower_node(l, l->root)->shape);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    const Shape *ws = lower_node(l, c.w)->shape;
    l->pk->macs = (uint64_t)shape_numel(lower_node(l, l->anchor)->shape) *
                  (uint64_t)(ws->dim[0] > 0 ? shape_numel(ws) / ws->dim[0] : 0);
    if (int_conv_bytes(&c, &d))
        return;
    const bool is_empty = shape_numel(lower_node(l, l->root)->shape) == 0;
    if (!is_empty && gpu_int_conv_lower(l))
        return;
    if (is_empty || !can_dot(&c, &d)) {
        lower_map(l, plain_point, &c, MAP_SCALAR);
        return;
    }
    int_conv_shape(&c, &d);
    int_conv_prepare_input(&c);
    c.padded = ceil_div(c.oc, c.lanes) * c.lanes;
    const bool has_matrix = int_conv_choose_matrix(&c);
    if (has_matrix)
        int_conv_pack_matrix(&c, const_bytes(l, c.w));
    else
        pack_params(&c);
    begin_params(&c);
    const KRef zero = c.has_sums ? int_conv_zero(&c) : 0;
    if (has_matrix)
        int_conv_matrix(&c, &d, zero);
    else
        int_conv_tiles(&c, &d, zero);
}
