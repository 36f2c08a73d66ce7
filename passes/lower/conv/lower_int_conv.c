// SPDX-License-Identifier: Apache-2.0
// int_conv. Where the pass `bytes` left dot products (u8 times constant i8): tiles of pixels x vectors of
// output channels in named accumulators, four input channels a step. What an input must be for that (four
// channels to a word, words next to each other, its padding in memory as the zero point) is made by a copy
// where it is not so already. The zero point then is a constant of each output channel, which the sums begin
// with. Matrix registers, where they are faster, see the same input. Targets that prefer integers have
// int_conv_bytes.c, matrix units of GPUs gpu_int_conv.c. All else: plain loops. Sums are exact, so their
// order does not matter.
#include "passes/lower/border.h"
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
    const bool rows = spatial >= 2;
    const Loc *at = lower_loc(l, n->src[0]);
    IntConv c = {.l = l,
                 .x = n->src[0],
                 .w = n->src[1],
                 .bias = n->n_src > 2 ? n->src[2] : 0,
                 .x_zero = n->n_src > 3 ? n->src[3] : 0,
                 .w_zero = n->n_src > 4 ? n->src[4] : 0,
                 .group = node_get_int(n, A_int_conv_group),
                 .n = x->dim[0],
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
    c.stride_h = rows ? at->stride[last - 1] : 0;
    c.stride_w = at->stride[last];
    return c;
}

static int64_t reach(int64_t out, int64_t stride, int64_t kernel, int64_t dilation)
{
    return (out - 1) * stride + (kernel - 1) * dilation + 1;
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
    const int64_t taps = c->kh * c->kw;
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
    c->group_words = c->kh * c->kw * c->words * c->padded;
    BytePacking *p = ARENA_NEW(l->pass->perm, BytePacking);
    *p = (BytePacking){.c = *c, .data = const_bytes(l, c->w)};
    const uint64_t bytes = (uint64_t)c->group * (uint64_t)c->group_words * 4;
    c->weights = lower_param_filled(l, node_name(l->g, c->w), DTYPE_i32, pack, p, bytes);
}

// What sums begin with: bias - zero point * sum of the weights, as far as it is known now; and the sums of
// the weights when the zero point is not.
static void begin_params(IntConv *c)
{
    Lower *l = c->l;
    const int64_t each = c->ic * c->kh * c->kw;
    const int8_t *w = const_bytes(l, c->w);
    const bool has_zero = c->x_zero != 0 && node_is_const(l->g, c->x_zero);
    const uint8_t *zero = has_zero ? const_bytes(l, c->x_zero) : NULL;
    const int32_t *bias = node_is_const(l->g, c->bias) ? const_bytes(l, c->bias) : NULL;
    const size_t n = (size_t)(c->group * c->padded);
    int32_t *begin = ARENA_ARRAY(l->pass->perm, int32_t, n), *sums = ARENA_ARRAY(l->pass->perm, int32_t, n);
    for (int64_t o = 0; o < c->group * c->oc; o++) {
        const int64_t to = o / c->oc * c->padded + o % c->oc;
        int64_t sum = 0; // what does not fit i32 wraps, as sums do
        for (int64_t i = 0; i < each; i++)
            sum += w[o * each + i];
        sums[to] = (int32_t)(uint32_t)(uint64_t)sum;
        begin[to] = (int32_t)(uint32_t)(uint64_t)((bias ? bias[o] : 0) - (zero ? *zero * sum : 0));
    }
    c->begin = lower_param_data(l, "begin", DTYPE_i32, begin, n * 4);
    c->has_sums = c->x_zero != 0 && zero == NULL;
    if (c->has_sums)
        c->sums = lower_param_data(l, "sums", DTYPE_i32, sums, n * 4);
    if (c->bias != 0 && bias == NULL)
        c->bias_param = 1 + lower_param(l, c->bias, PARAM_READ);
}

// --- the input in words --------------------------------------------------------------------------

// The zero point as i32.
static KRef zero_point(const IntConv *c)
{
    Lower *l = c->l;
    if (c->x_zero == 0)
        return k_integer(l->k, DTYPE_i32, 0);
    if (node_is_const(l->g, c->x_zero))
        return k_integer(l->k, DTYPE_i32, *(const uint8_t *)const_bytes(l, c->x_zero));
    const KRef v = k_load(l->k, lower_param(l, c->x_zero, PARAM_READ), k_index(l->k, 0), 1, 1);
    return k_cast(l->k, v, DTYPE_i32);
}

static bool is_whole(int64_t v)
{
    return v % 4 == 0;
}

// Can the words of channels be read where they are?
static bool has_words(const IntConv *c)
{
    const Loc *at = lower_loc(c->l, c->x);
    return (c->stride_c == 1 || c->group * c->ic == 1) && is_whole(c->ic) && is_whole(at->offset) &&
           is_whole(c->stride_n) && is_whole(c->stride_h) && is_whole(c->stride_w);
}

static bool has_padding(const IntConv *c)
{
    return c->pad_h != 0 || c->pad_w != 0 || reach(c->h, c->sh, c->kh, c->dh) > c->in_h ||
           reach(c->w_out, c->sw, c->kw, c->dw) > c->in_w;
}

// The input as i32, four channels to an element.
uint32_t int_conv_words(const IntConv *c)
{
    const Node *n = lower_node(c->l, c->x);
    const int64_t each = 4 / dtype_info[n->dtype].bytes;
    TensorType t = {DTYPE_i32, *n->shape};
    Loc at = *lower_loc(c->l, c->x);
    at.offset /= each;
    for (uint32_t i = 0; i < n->shape->rank; i++)
        at.stride[i] = i == 1 ? 1 : at.stride[i] / each;
    t.shape.dim[1] /= each;
    return lower_param_typed(c->l, &t, &at, "x", PARAM_READ);
}

// One word of channels at index `at` of the input's first channel, byte by byte.
static KRef gather_word(const IntConv *c, KRef at, int64_t first, int64_t count)
{
    Kernel *k = c->l->k;
    const uint32_t x = lower_param(c->l, c->x, PARAM_READ);
    KRef word = k_integer(k, DTYPE_i32, 0);
    for (int64_t i = 0; i < count; i++) {
        const KRef index = k_expr(k, "$ + #", at, (first + i) * c->stride_c);
        const KRef byte = k_cast(k, k_load(k, x, index, 1, 1), DTYPE_i32);
        const KRef moved = i == 0 ? byte : k_shl(k, byte, k_integer(k, DTYPE_i32, 8 * i));
        word = i == 0 ? moved : k_or(k, word, moved);
    }
    return word;
}

// Fills words [from, to) of the copy at `at` with one value.
static void fill_words(const IntConv *c, KRef at, KRef count, KRef value)
{
    Kernel *k = c->l->k;
    const KRef i = k_for(k, k_index(k, 0), count, 1, KFOR_SERIAL, "i");
    k_store(k, c->copy, k_add(k, at, i), value, 1);
    k_end(k);
}

// The words of one pixel: at `from` (bytes, or words when has_words) to `to`.
static void copy_pixel(const IntConv *c, KRef from, KRef to)
{
    Kernel *k = c->l->k;
    if (has_words(c)) {
        const int64_t n = c->group * c->words;
        const KRef i = k_loop(k, n, KFOR_SERIAL, "i");
        k_store(k, c->copy, k_add(k, to, i), k_load(k, c->source, k_add(k, from, i), 1, 1), 1);
        k_end(k);
        return;
    }
    const int64_t whole = c->ic / 4, rest = c->ic % 4;
    const KRef g = c->group == 1 ? k_index(k, 0) : k_loop(k, c->group, KFOR_SERIAL, "g");
    from = k_expr(k, "$ * # + $", g, c->ic * c->stride_c, from);
    to = k_expr(k, "$ * # + $", g, c->words, to);
    if (whole > 0) {
        const KRef i = k_loop(k, whole, KFOR_SERIAL, "i");
        const KRef word = gather_word(c, k_expr(k, "$ * # + $", i, 4 * c->stride_c, from), 0, 4);
        k_store(k, c->copy, k_add(k, to, i), word, 1);
        k_end(k);
    }
    if (rest > 0)
        k_store(k, c->copy, k_expr(k, "$ + #", to, whole), gather_word(c, from, whole * 4, rest), 1);
    if (c->group > 1)
        k_end(k);
}

// A row of pixels that is inside the input, between its paddings.
static void copy_row(const IntConv *c, KRef from, KRef to, int64_t columns, KRef zero)
{
    Kernel *k = c->l->k;
    const int64_t pixel = c->group * c->words, left = c->pad_w < columns ? c->pad_w : columns;
    const int64_t room = columns - left, inside = c->in_w < room ? c->in_w : room;
    if (left > 0)
        fill_words(c, to, k_index(k, left * pixel), zero);
    if (columns - left - inside > 0)
        fill_words(c, k_expr(k, "$ + #", to, (left + inside) * pixel),
                   k_index(k, (columns - left - inside) * pixel), zero);
    to = k_expr(k, "$ + #", to, left * pixel);
    if (inside > 0 && has_words(c) && c->stride_w == 4 * pixel) { // all words of the row follow each other
        const KRef i = k_loop(k, inside * pixel, KFOR_SERIAL, "i");
        k_store(k, c->copy, k_add(k, to, i), k_load(k, c->source, k_add(k, from, i), 1, 1), 1);
        k_end(k);
        return;
    }
    if (inside > 0) {
        const KRef x = k_loop(k, inside, KFOR_SERIAL, "x");
        const int64_t step = has_words(c) ? c->stride_w / 4 : c->stride_w;
        copy_pixel(c, k_expr(k, "$ * # + $", x, step, from), k_expr(k, "$ * # + $", x, pixel, to));
        k_end(k);
    }
}

// Makes the copy: [image][row][column][group][word], padding included.
static void copy_input(const IntConv *c, int64_t rows, int64_t columns)
{
    Kernel *k = c->l->k;
    const int64_t unit = has_words(c) ? 4 : 1;
    const KRef zero = k_mul(k, zero_point(c), k_integer(k, DTYPE_i32, 0x01010101));
    const KRef n = k_loop(k, c->n, KFOR_PARALLEL, "n");
    const KRef y = k_loop(k, rows, KFOR_PARALLEL, "y");
    const KRef to = k_expr(k, "$ * # + $ * #", n, rows * c->in.row, y, c->in.row);
    const KRef row = k_expr(k, "$ + #", y, -c->pad_h);
    const KRef is_inside = k_expr(k, "0 <= $ & $ < #", row, row, c->in_h);
    const bool may_leave = c->pad_h != 0 || rows > c->in_h;
    if (may_leave)
        k_if(k, is_inside);
    const KRef image = k_expr(k, "$ * #", n, c->stride_n / unit);
    copy_row(c, k_expr(k, "$ * # + $", row, c->stride_h / unit, image), to, columns, zero);
    if (may_leave) {
        k_else(k);
        fill_words(c, to, k_index(k, c->in.row), zero);
        k_end(k);
    }
    k_ends(k, 2);
    k_barrier(k);
}

// Where tiles read, if the input lies in a frame of zero points (which is as wide as any reader needs).
static bool has_border(IntConv *c, int64_t rows, int64_t columns)
{
    const PlanBorder *b = border_find(c->l->plan, c->x);
    if (b == NULL)
        return false;
    Loc at = *lower_loc(c->l, c->x);
    at.offset = ((b->before[0] - c->pad_h) * c->stride_h + (b->before[1] - c->pad_w) * c->stride_w) / 4;
    rlx_assert(at.offset >= 0 && rows - c->pad_h <= c->in_h + b->after[0]);
    c->in = (IntInput){.image = c->stride_n / 4, .row = c->stride_h / 4, .column = c->stride_w / 4};
    const TensorType t = {DTYPE_i32, {.rank = 4, .dim = {c->n, c->in.column, rows, columns}}};
    memcpy(at.stride, (int64_t[]){c->in.image, 1, c->in.row, c->in.column}, 4 * sizeof *at.stride);
    c->in.param = lower_param_typed(c->l, &t, &at, "x", PARAM_READ);
    return true;
}

// Where tiles read: the input itself, or a copy that this makes.
static void prepare_input(IntConv *c)
{
    const int64_t rows = reach(c->h, c->sh, c->kh, c->dh), columns = reach(c->w_out, c->sw, c->kw, c->dw);
    if (has_border(c, rows, columns))
        return;
    if (has_words(c))
        c->source = int_conv_words(c);
    if (has_words(c) && !has_padding(c)) {
        c->in = (IntInput){
            .param = c->source, .image = c->stride_n / 4, .row = c->stride_h / 4, .column = c->stride_w / 4};
        return;
    }
    c->in.column = c->group * c->words;
    c->in.row = columns * c->in.column;
    c->in.image = rows * c->in.row;
    c->copy = lower_param_scratch(c->l, "padded", DTYPE_i32, (uint64_t)(c->n * c->in.image));
    c->in.param = c->copy;
    copy_input(c, rows, columns);
}

// --- which form ----------------------------------------------------------------------------------

static bool can_dot(const IntConv *c, const Domain *d)
{
    const Lower *l = c->l;
    const bool has_dot8 = l->caps->has_dot8 || l->caps->has_dot8_parts;
    if (!has_dot8 || l->caps->is_gpu || d->rank > 4 || !node_is_const(l->g, c->w) || c->w_zero != 0)
        return false;
    if (lower_node(l, c->x)->dtype != DTYPE_u8 || lower_node(l, c->w)->dtype != DTYPE_i8 ||
        lower_fit_lanes(l, c->oc) == 1 || domain_lanes(l, d, 1) == 1)
        return false;
    if (c->bias != 0 && lower_loc(l, c->bias)->buf != 0 && lower_loc(l, c->bias)->stride[0] != 1 && c->oc > 1)
        return false;
    const double copy = (double)c->n * (double)reach(c->h, c->sh, c->kh, c->dh) *
                        (double)reach(c->w_out, c->sw, c->kw, c->dw) * (double)(c->group * c->words * 4);
    return copy <=
           (double)COPY_SPARE + 8.0 * (double)c->n * (double)(c->group * c->words * 4) *
                                    ((double)c->in_h * (double)c->in_w + (double)c->h * (double)c->w_out);
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
    prepare_input(&c);
    c.padded = ceil_div(c.oc, c.lanes) * c.lanes;
    const bool has_matrix = int_conv_choose_matrix(&c);
    if (has_matrix)
        int_conv_pack_matrix(&c, const_bytes(l, c.w));
    else
        pack_params(&c);
    begin_params(&c);
    const KRef zero = c.has_sums ? zero_point(&c) : 0;
    if (has_matrix)
        int_conv_matrix(&c, &d, zero);
    else
        int_conv_tiles(&c, &d, zero);
}
