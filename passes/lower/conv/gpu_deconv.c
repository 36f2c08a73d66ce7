// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions of floats on GPUs, as products of windows (gpu_matmul.h, GpuWindow). Along an axis
// with stride s and padding p, position o + p = q * s + r of the result is the sum over j of x[q - j] * w[r +
// s * j]: all r (phases) read the same window of x, so that they are columns of one product, beside the
// channels. Weights behind the kernel's end are zeros. A kernel that is as long as the stride has windows of
// one element; then weights that are no constants are read as they are.
#include "passes/lower/conv/conv.h"
#include "passes/lower/gpu/gpu_simt.h"

enum {
    MOST_PHASES = 1 << 14,
    MANY_PHASES = 64, // beyond these, at most so much of the weights may be zeros behind the kernel's end:
    MOST_ZEROS = 2    // times the kernel
};

typedef struct Deconv {
    const Transposed *t;
    GpuWindow w;
    int64_t phases, taps;             // of all axes together
    int64_t columns;                  // of a group: phases times channels
    bool is_channel_inner;            // column: phase * channels + channel; else channel * phases + phase
    bool has_edges;                   // some points of the product are outside of the result
} Deconv;

// --- weights -------------------------------------------------------------------------------------

typedef struct PhaseWeights {
    const unsigned char *from; // [group * ic, oc, kernel ...]
    Deconv c;
    int64_t ic, oc, kernel[GPU_WINDOW_AXES], stride[GPU_WINDOW_AXES];
    int64_t bytes;
} PhaseWeights;

// The element at a step of k and a column; NULL: zero.
static const unsigned char *weight_at(const void *ctx, int64_t product, int64_t step, int64_t column)
{
    const PhaseWeights *t = ctx;
    const GpuWindow *w = &t->c.w;
    const int64_t channel = w->is_tap_inner ? step / t->c.taps : step % t->ic;
    int64_t tap = w->is_tap_inner ? step % t->c.taps : step / t->ic;
    int64_t phase = t->c.is_channel_inner ? column / t->oc : column % t->c.phases;
    const int64_t to = t->c.is_channel_inner ? column % t->oc : column / t->c.phases;
    int64_t place = 0, size = 1;
    for (uint32_t i = w->axes; i-- > 0; size *= t->kernel[i]) {
        const int64_t j = w->taps[i] - 1 - tap % w->taps[i], at = phase % t->stride[i] + t->stride[i] * j;
        if (at >= t->kernel[i])
            return NULL;
        place += at * size;
        tap /= w->taps[i];
        phase /= t->stride[i];
    }
    return t->from + (((product * t->ic + channel) * t->oc + to) * size + place) * t->bytes;
}

static GpuMatrix packed_weights(Lower *l, const Deconv *c, int64_t steps)
{
    const Transposed *t = c->t;
    const Node *node = lower_node(l, t->w);
    PhaseWeights *w = ARENA_NEW(l->pass->perm, PhaseWeights);
    *w = (PhaseWeights){.from = node_attr(node, A_const_data)->u.blob,
                        .c = *c,
                        .ic = t->ic,
                        .oc = t->oc,
                        .bytes = dtype_info[node->dtype].bytes};
    for (uint32_t i = 0; i < t->spatial; i++) {
        w->kernel[i] = node->shape->dim[i + 2];
        w->stride[i] = t->form.stride[i];
    }
    return gpu_window_weights(l, t->w,
                              &(GpuWindowWeights){.dtype = (DType)node->dtype,
                                                  .products = t->form.group,
                                                  .steps = steps,
                                                  .columns = c->columns,
                                                  .pair = k_is_half(node->dtype) && l->caps->has_mma ? 2 : 1,
                                                  .at = weight_at,
                                                  .ctx = w},
                              "phases");
}

static bool packs(const Lower *l, NodeId w)
{
    return node_is_const(l->g, w) && !lower_is_in_file(l, w);
}

// Weights as they are: the columns of a group, of one tap each, follow each other.
static bool has_plain_weights(const Lower *l, const Transposed *t)
{
    const Shape *s = lower_node(l, t->w)->shape;
    const Loc *loc = lower_loc(l, t->w);
    int64_t step = 1;
    for (uint32_t i = s->rank; i-- > 1; step *= s->dim[i])
        if ((s->dim[i] != 1 && loc->stride[i] != step) || (i > 1 && s->dim[i] != t->form.stride[i - 2]))
            return false;
    return loc->buf != 0;
}

static GpuMatrix weights_of(Lower *l, const Deconv *c, int64_t steps)
{
    const Transposed *t = c->t;
    if (packs(l, t->w))
        return packed_weights(l, c, steps);
    const Loc *loc = lower_loc(l, t->w);
    return (GpuMatrix){.id = t->w,
                       .loc = loc,
                       .outer = 1,
                       .k = loc->stride[0],
                       .batch = {t->form.group > 1 ? t->ic * loc->stride[0] : 0}};
}

// --- the product ---------------------------------------------------------------------------------

static void describe_window(const Lower *l, Deconv *c)
{
    const Transposed *t = c->t;
    const Shape *x = lower_node(l, t->x)->shape, *w = lower_node(l, t->w)->shape;
    const Loc *loc = lower_loc(l, t->x);
    const Access *root = domain_access(&t->d, l->root, SPACE_IN);
    c->w = (GpuWindow){.axes = t->spatial,
                       .channels = t->ic,
                       .stride_c = loc->stride[1],
                       .stride_n = loc->stride[0],
                       .is_tap_inner = loc->stride[1] != 1};
    c->phases = c->taps = 1;
    c->is_channel_inner = root->stride[1] == 1 && packs(l, t->w);
    for (uint32_t i = 0; i < t->spatial; i++) {
        const int64_t s = t->form.stride[i], pad = t->form.pad[i], out = t->d.extent[i + 2];
        c->w.in[i] = x->dim[i + 2];
        c->w.out[i] = ceil_div(out + pad, s);
        c->w.taps[i] = ceil_div(w->dim[i + 2], s);
        c->w.stride[i] = loc->stride[i + 2];
        c->w.step[i] = c->w.dilation[i] = 1;
        c->w.pad[i] = c->w.taps[i] - 1;
        c->phases *= s;
        c->taps *= c->w.taps[i];
        c->has_edges = c->has_edges || pad != 0 || out % s != 0;
    }
    c->columns = c->phases * t->oc;
}

static Point point_of(const GpuMatmul *p, const KRef *batch, KRef row, KRef column)
{
    const Deconv *c = p->ctx;
    const Transposed *t = c->t;
    Kernel *k = p->l->k;
    Point at = {.lanes = 1, .count = 1};
    const int64_t inner = c->is_channel_inner ? t->oc : c->phases;
    const KRef slow = k_expr(k, "$ / #", column, inner), fast = k_expr(k, "$ % #", column, inner);
    const KRef channel = c->is_channel_inner ? fast : slow;
    KRef phase = c->is_channel_inner ? slow : fast;
    at.idx[1] = t->form.group > 1 ? k_expr(k, "$ * # + $", batch[0], t->oc, channel) : channel;
    for (uint32_t i = t->spatial; i-- > 0;) {
        const int64_t s = t->form.stride[i];
        const KRef q = k_expr(k, "$ % #", row, c->w.out[i]), r = k_expr(k, "$ % #", phase, s);
        at.idx[i + 2] = k_expr(k, "$ * # + $ + #", q, s, r, -t->form.pad[i]);
        row = k_expr(k, "$ / #", row, c->w.out[i]);
        phase = k_expr(k, "$ / #", phase, s);
    }
    at.idx[0] = row;
    return at;
}

static KRef is_in_result(const GpuMatmul *p, const Point *at)
{
    const Deconv *c = p->ctx;
    Kernel *k = p->l->k;
    KRef inside = k_integer(k, DTYPE_bool, 1);
    for (uint32_t i = 0; i < c->t->spatial; i++)
        inside = k_expr(k, "$ & 0 <= $ & $ < #", inside, at->idx[i + 2], at->idx[i + 2],
                        c->t->d.extent[i + 2]);
    return inside;
}

static bool has_whole_phases(const Deconv *c, const Shape *w)
{
    for (uint32_t i = 0; i < c->t->spatial; i++)
        if (w->dim[i + 2] % c->t->form.stride[i] != 0)
            return false;
    return true;
}

// Is the tap of the column's phase inside of the kernel?
static KRef has_weight(const GpuMatmul *p, KRef column, KRef step)
{
    const Deconv *c = p->ctx;
    const Transposed *t = c->t;
    Kernel *k = p->l->k;
    KRef tap = c->w.is_tap_inner ? k_expr(k, "$ % #", step, c->taps) : k_expr(k, "$ / #", step, t->ic);
    KRef phase = c->is_channel_inner ? k_expr(k, "$ / #", column, t->oc)
                                     : k_expr(k, "$ % #", column, c->phases);
    KRef inside = k_integer(k, DTYPE_bool, 1);
    for (uint32_t i = t->spatial; i-- > 0;) {
        const int64_t s = t->form.stride[i], taps = c->w.taps[i];
        const int64_t size = lower_node(p->l, t->w)->shape->dim[i + 2];
        const KRef from_end = k_expr(k, "$ % #", tap, taps), r = k_expr(k, "$ % #", phase, s);
        inside = k_expr(k, "$ & $ - $ * # < #", inside, r, from_end, s, size - s * (taps - 1));
        tap = k_expr(k, "$ / #", tap, taps);
        phase = k_expr(k, "$ / #", phase, s);
    }
    return inside;
}

// Columns are neighbours in memory: channels, or the phases along the last axis.
static GpuMatrix result_of(const Lower *l, const Deconv *c)
{
    const Transposed *t = c->t;
    GpuMatrix m = {.id = l->root, .loc = lower_loc(l, l->root)};
    const Access *a = domain_access(&t->d, l->root, SPACE_IN);
    const uint32_t last = t->d.rank - 1;
    int64_t run = c->is_channel_inner ? t->oc : a->stride[last] == 1 ? t->form.stride[last - 2] : 1;
    for (uint32_t i = 0; i < t->d.rank; i++)
        if (i != (c->is_channel_inner ? 1 : last) && t->d.extent[i] > 1)
            run |= a->stride[i];
    run = run & -run;
    if (c->has_edges || run <= 1)
        return m;
    m.k = 1;
    m.outer = run < GPU_SIMT_VECTOR ? run : GPU_SIMT_VECTOR;
    m.batch[0] = t->form.group > 1 ? m.outer : 0;
    return m;
}

// Are phases few, or mostly all of them in the kernel?
static bool has_phases(const Lower *l, const Transposed *t)
{
    const Shape *w = lower_node(l, t->w)->shape;
    int64_t phases = 1;
    double padded = 1, kernel = 1;
    for (uint32_t i = 0; i < t->spatial && phases <= MOST_PHASES; i++) {
        phases *= t->form.stride[i];
        padded *= (double)(ceil_div(w->dim[i + 2], t->form.stride[i]) * t->form.stride[i]);
        kernel *= (double)w->dim[i + 2];
    }
    return phases <= MANY_PHASES || (phases <= MOST_PHASES && padded <= MOST_ZEROS * kernel);
}

static bool has_form(const Lower *l, const Transposed *t)
{
    const Node *n = lower_node(l, l->anchor);
    for (uint32_t i = 0; i < t->spatial; i++)
        if (t->form.dilation[i] != 1 || t->form.pad[i] < 0)
            return false;
    return l->caps->is_gpu && l->caps->shared_bytes != 0 && t->spatial <= GPU_WINDOW_AXES &&
           t->ic > 0 && has_phases(l, t) && t->oc > 0 && lower_is_float(n->dtype) &&
           lower_is_float(lower_node(l, t->x)->dtype) && lower_is_float(lower_node(l, t->w)->dtype) &&
           (packs(l, t->w) || has_plain_weights(l, t)) && lower_loc(l, t->x)->buf != 0 &&
           shape_numel(n->shape) > 0;
}

bool gpu_deconv_lower(Lower *l, const Transposed *t)
{
    if (!has_form(l, t))
        return false;
    Deconv c = {.t = t};
    describe_window(l, &c);
    GpuMatmul p = {.l = l,
                   .m = lower_node(l, t->x)->shape->dim[0],
                   .n = c.columns,
                   .k = t->ic * c.taps,
                   .n_batch = t->form.group > 1,
                   .batch = {t->form.group},
                   .d = &t->d,
                   .point = point_of,
                   .is_in_root = c.has_edges ? is_in_result : NULL,
                   .has_weight = has_whole_phases(&c, lower_node(l, t->w)->shape) ? NULL : has_weight,
                   .ctx = &c,
                   .window = &c.w,
                   .bias = t->bias};
    for (uint32_t i = 0; i < t->spatial; i++)
        p.m *= c.w.out[i];
    if (!gpu_simt_fits(&p))
        return false;
    p.a = (GpuMatrix){.id = t->x, .loc = lower_loc(l, t->x)};
    p.a.batch[0] = t->form.group > 1 ? t->ic * c.w.stride_c : 0;
    p.b = weights_of(l, &c, p.k);
    p.c = result_of(l, &c);
    gpu_matmul_simt(&p);
    return true;
}
