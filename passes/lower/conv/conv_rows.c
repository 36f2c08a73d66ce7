// SPDX-License-Identifier: Apache-2.0
// 1x1 convolutions of images in rows whose result is wanted in rows: products of the weights, as they are,
// and of the image as a matrix of channels and pixels, with vectors of neighbouring pixels. Convolutions of a
// row of one channel are the same, with taps for channels: the pixels of neighbouring results overlap.
// Accumulation: f32 fused multiply-adds in the order of channels or taps; the bias is added at the end.
#include "passes/lower/amx/matrix.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/operand.h"
#include "passes/lower/product/gemm.h"

// Channels from which vectors of pixels pay; rows of the product from which a panel of distant rows is worth
// copying, and elements between rows that are near.
enum { MIN_CHANNELS = 8, MIN_COPY_ROWS = 48, MAX_NEAR_PITCH = 256, MIN_LANES = 4, MIN_VECTORS = 2 };
enum { MIN_TURNS = 4 }; // rows of the result for each row of the image that is laid out

typedef struct ConvRows {
    const Conv *c;
    Domain d; // pixels are its last axis
    Point at; // the image
    uint32_t bias;
} ConvRows;

static bool is_pointwise(const Shape *w, const WindowForm *form)
{
    for (uint32_t i = 0; i + 2 < w->rank; i++)
        if (w->dim[i + 2] != 1 || form->stride[i] != 1 || form->pad[i] != 0 ||
            form->pad[w->rank - 2 + i] != 0)
            return false;
    return true;
}

// Are there vectors of pixels of enough channels?
static bool has_rows(const Graph *g, const PassOptions *o, const Node *n)
{
    const TargetCaps *caps = o->caps;
    int64_t pixels = 1;
    if (n->op != OP_conv || caps->is_gpu || caps->f32_lanes < MIN_LANES || n->dtype != DTYPE_f32 ||
        !node_is_const(g, n->src[1]) || matrix_takes_f32(o) || conv_comes_from_bf16(g, o, n))
        return false;
    const Shape *w = graph_node(g, n->src[1])->shape;
    const WindowForm form = conv_form(n);
    for (uint32_t i = 2; i < n->shape->rank; i++)
        pixels *= n->shape->dim[i];
    return form.group == 1 && form.shuffle == 1 && w->dim[0] >= MIN_CHANNELS && w->dim[1] > 0 &&
           pixels >= w->dim[1] && pixels >= MIN_VECTORS * (int64_t)caps->f32_lanes;
}

// Where channels outnumber pixels, the copies that this saves are short beside the sums, which tiles of
// pixels compute faster.
bool conv_can_keep_rows(const Graph *g, const PassOptions *o, const Node *n)
{
    if (!has_rows(g, o, n))
        return false;
    const WindowForm form = conv_form(n);
    return is_pointwise(graph_node(g, n->src[1])->shape, &form);
}

// Such a result has so many times the elements of the image that a copy of it takes longer than the sums.
bool conv_can_make_rows(const Graph *g, const PassOptions *o, const Node *n)
{
    if (!has_rows(g, o, n) || n->shape->rank != 3)
        return false;
    const Shape *w = graph_node(g, n->src[1])->shape;
    const WindowForm form = conv_form(n);
    return w->dim[1] == 1 && form.pad[0] == 0 && form.pad[1] == 0;
}

static void store_pixels(Lower *l, KRef row, KRef column, uint8_t lanes, uint8_t count, KRef value, void *ctx)
{
    const ConvRows *r = ctx;
    Kernel *k = l->k;
    Point at = r->at;
    at.idx[1] = row;
    at.idx[r->d.rank - 1] = column;
    at.vec_axis = r->d.rank - 1;
    at.lanes = lanes;
    at.count = count;
    if (r->c->bias != 0) {
        const KRef index = k_expr(k, "$ * #", row, lower_loc(l, r->c->bias)->stride[0]);
        value = k_add(k, value, k_splat(k, k_load(k, r->bias, index, 1, 1), lanes));
    }
    pull_store_root(l, &r->d, at, value);
}

// Joins rows, and the axes before them, with the columns, where all values have them one behind the other.
static void join_pixels(const Lower *l, const Conv *c, Domain *d)
{
    const uint32_t last = d->rank - 1;
    const int64_t *x = lower_loc(l, c->x)->stride;
    for (uint32_t axis = last; axis-- > 2;) {
        const int64_t n = d->extent[last];
        if (d->live[axis].size != 0 || x[axis] != x[last] * n)
            return;
        for (uint32_t i = 0; i < d->access.len; i++)
            if (d->access.data[i].stride[axis] != d->access.data[i].stride[last] * n)
                return;
        d->extent[last] *= d->extent[axis];
        d->extent[axis] = 1;
    }
}

// The image as a matrix of channels, or taps, and pixels of the result: strides in elements.
typedef struct Pixels {
    uint32_t param;
    KRef base;
    int64_t image, row, column;
} Pixels;

static Pixels pixels_in_place(Lower *l, const Conv *c)
{
    const bool has_taps = c->s.kw > 1;
    return (Pixels){.param = lower_param(l, c->x, PARAM_READ),
                    .base = lower_base(l, c->x),
                    .image = c->stride_n,
                    .row = has_taps ? c->stride_w * c->s.dw : c->stride_c,
                    .column = c->stride_w * c->s.sw};
}

// All images are laid out before the products: these go over them again for each few rows of the result, so
// that rows are written from begin to end.
static Pixels lay_out(Lower *l, const Conv *c, const Pixels *x)
{
    Kernel *k = l->k;
    const TileShape *s = &c->s;
    const uint8_t lanes = gemm_lanes(l, s->w);
    Pixels r = {.base = k_index(k, 0), .row = ceil_div(s->w, lanes) * lanes, .column = 1};
    r.image = s->kw * r.row;
    r.param = lower_param_scratch(l, "taps", DTYPE_f32, (uint64_t)(s->n * r.image));
    uint32_t opened = 0;
    const KRef image = lower_open_count(k, s->n, KFOR_PARALLEL, "n", &opened);
    const KRef tap = lower_open_count(k, s->kw, KFOR_PARALLEL, "t", &opened);
    const KRef column = lower_open_count(k, s->w, KFOR_SERIAL, "x", &opened);
    const KRef from = k_expr(k, "$ * # + ($ * # + ($ * # + $))", image, x->image, tap, x->row, column,
                             x->column, x->base);
    const KRef to = k_expr(k, "$ * # + ($ * # + $)", image, r.image, tap, r.row, column);
    k_store(k, r.param, to, k_load(k, x->param, from, 1, 1), 1);
    lower_close(l, opened);
    k_barrier(k);
    return r;
}

bool conv_rows(Lower *l, const Conv *c, const Domain *d)
{
    const Node *n = lower_node(l, l->anchor);
    ConvRows r = {.c = c, .d = *d, .at = {.lanes = 1, .count = 1}};
    const uint32_t last = d->rank - 1;
    const bool has_taps = conv_can_make_rows(l->g, l->pass->options, n);
    if ((!has_taps && !conv_can_keep_rows(l->g, l->pass->options, n)) || l->strip.window != NULL ||
        lower_goes_by_rows(l) || !operand_has_vectors(l, c->x, last) || lower_is_in_file(l, c->w) ||
        d->live[last].size != 0 || domain_lanes(l, d, last) == 1)
        return false;
    Pixels x = pixels_in_place(l, c);
    const bool is_laid_out = has_taps && c->s.oc >= MIN_TURNS * c->s.kw && lower_take(l);
    x = is_laid_out ? lay_out(l, c, &x) : x;
    join_pixels(l, c, &r.d);
    r.bias = c->bias != 0 ? lower_param(l, c->bias, PARAM_READ) : 0;
    const bool is_near =
        is_laid_out || (x.column == 1 && (x.row <= MAX_NEAR_PITCH || c->s.oc < MIN_COPY_ROWS));
    Gemm g = {.l = l,
              .m = c->s.oc,
              .n = r.d.extent[last],
              .k = c->s.ic * c->s.kw,
              .a = lower_param(l, c->w, PARAM_READ),
              .b = x.param,
              .a_base = k_index(l->k, 0),
              .a_row = c->s.ic * c->s.kw,
              .a_k = 1,
              .b_k = x.row,
              .b_col = x.column,
              .b_type = DTYPE_f32,
              .source = is_near ? GEMM_ROWS : GEMM_COPIED,
              .store = store_pixels,
              .ctx = &r};
    gemm_choose(&g);
    if (is_laid_out)
        g.t.block = g.t.rows;
    uint32_t opened = lower_open_axis(l, &r.d, 0, KFOR_PARALLEL, &r.at);
    g.b_base = k_expr(l->k, "$ * # + $", r.at.idx[0], x.image, x.base);
    for (uint32_t i = 2; i < last; i++) {
        opened += lower_open_axis(l, &r.d, i, KFOR_PARALLEL, &r.at);
        g.b_base = k_expr(l->k, "$ * # + $", r.at.idx[i], lower_loc(l, c->x)->stride[i], g.b_base);
    }
    gemm_emit(&g);
    lower_close(l, opened);
    return true;
}
