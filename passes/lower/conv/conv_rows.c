// SPDX-License-Identifier: Apache-2.0
// 1x1 convolutions of images in rows whose result is wanted in rows: products of the weights, as they are,
// and of the image as a matrix of channels and pixels, with vectors of neighbouring pixels. Accumulation: f32
// fused multiply-adds in the order of channels; the bias is added at the end.
#include "passes/lower/conv/conv.h"
#include "passes/lower/operand.h"
#include "passes/lower/product/gemm.h"

// Channels from which vectors of pixels pay; rows of the product from which a panel of distant rows is worth
// copying, and elements between rows that are near.
enum { MIN_CHANNELS = 8, MIN_COPY_ROWS = 48, MAX_NEAR_PITCH = 256, MIN_LANES = 4, MIN_VECTORS = 2 };

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

// Where channels outnumber pixels, the copies that this saves are short beside the sums, which tiles of
// pixels compute faster.
bool conv_can_keep_rows(const Graph *g, const TargetCaps *caps, const Node *n)
{
    int64_t pixels = 1;
    if (n->op != OP_conv || caps->is_gpu || caps->has_matrix || caps->f32_lanes < MIN_LANES ||
        n->dtype != DTYPE_f32 || !node_is_const(g, n->src[1]))
        return false;
    const Shape *w = graph_node(g, n->src[1])->shape;
    const WindowForm form = conv_form(n);
    for (uint32_t i = 2; i < n->shape->rank; i++)
        pixels *= n->shape->dim[i];
    return form.group == 1 && form.shuffle == 1 && w->dim[0] >= MIN_CHANNELS && w->dim[1] > 0 &&
           pixels >= w->dim[1] && pixels >= MIN_VECTORS * (int64_t)caps->f32_lanes && is_pointwise(w, &form);
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

bool conv_rows(Lower *l, const Conv *c, const Domain *d)
{
    ConvRows r = {.c = c, .d = *d, .at = {.lanes = 1, .count = 1}};
    const uint32_t last = d->rank - 1;
    if (!conv_can_keep_rows(l->g, l->caps, lower_node(l, l->anchor)) || l->strip.window != NULL ||
        lower_goes_by_rows(l) || !operand_has_vectors(l, c->x, last) || lower_is_in_file(l, c->w) ||
        d->live[last].size != 0 || domain_lanes(l, d, last) == 1)
        return false;
    join_pixels(l, c, &r.d);
    r.bias = c->bias != 0 ? lower_param(l, c->bias, PARAM_READ) : 0;
    const bool is_near = c->stride_c <= MAX_NEAR_PITCH || c->s.oc < MIN_COPY_ROWS;
    Gemm g = {.l = l,
              .m = c->s.oc,
              .n = r.d.extent[last],
              .k = c->s.ic,
              .a = lower_param(l, c->w, PARAM_READ),
              .b = lower_param(l, c->x, PARAM_READ),
              .a_base = k_index(l->k, 0),
              .a_row = c->s.ic,
              .a_k = 1,
              .b_k = c->stride_c,
              .b_col = 1,
              .b_type = DTYPE_f32,
              .source = is_near ? GEMM_ROWS : GEMM_COPIED,
              .store = store_pixels,
              .ctx = &r};
    gemm_choose(&g);
    uint32_t opened = lower_open_axis(l, &r.d, 0, KFOR_PARALLEL, &r.at);
    g.b_base = k_expr(l->k, "$ * # + $", r.at.idx[0], c->stride_n, lower_base(l, c->x));
    for (uint32_t i = 2; i < last; i++) {
        opened += lower_open_axis(l, &r.d, i, KFOR_PARALLEL, &r.at);
        g.b_base = k_expr(l->k, "$ * # + $", r.at.idx[i], lower_loc(l, c->x)->stride[i], g.b_base);
    }
    gemm_emit(&g);
    lower_close(l, opened);
    return true;
}
