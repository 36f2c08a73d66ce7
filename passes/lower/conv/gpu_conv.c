// SPDX-License-Identifier: Apache-2.0
// Convolutions of 16-bit floats on the matrix units of a GPU: products of the input's pixels under each tap
// of the kernel, which the copy engine finds itself (gpu_matmul.h, GpuImage), with weights as [outputs, taps,
// channels]. Sums in f32, tap by tap, channels rising; the bias is added last. With three spatial axes, each
// frame of the output is a product.
#include "passes/lower/conv/conv.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include <string.h>

enum {
    MAP_STEP = GPU_CHUNK, // elements of 16 bytes
    MIN_CORNER = -128,    // of tensor maps of rank 4
    MAX_CORNER = 127,
    MAX_STRIDE = 8,
    MIN_OUTPUTS = 16,
    MIN_FRAME = 32 // pixels
};

// Weights in the order in which k runs.
typedef struct TapOrder {
    const uint16_t *from; // [outputs, channels, taps]
    int64_t outputs, channels, taps;
} TapOrder;

static void fill_taps(const void *ctx, void *out)
{
    const TapOrder *t = ctx;
    uint16_t *to = out;
    for (int64_t o = 0; o < t->outputs; o++)
        for (int64_t tap = 0; tap < t->taps; tap++)
            for (int64_t c = 0; c < t->channels; c++)
                *to++ = t->from[(o * t->channels + c) * t->taps + tap];
}

static Point point_of(const GpuMatmul *p, const KRef *batch, KRef row, KRef column)
{
    if (p->n_batch != 0)
        row = k_expr(p->l->k, "$ * # + $", batch[0], p->m, row);
    return (Point){.idx = {row, column}, .lanes = 1, .count = 1};
}

// The place of the last output's first tap, counted from the last pixel.
static int64_t far_corner(int64_t out, int64_t in, int64_t stride, int64_t pad)
{
    return (out - 1) * stride - pad - (in - 1);
}

static bool is_corner(int64_t x)
{
    return x >= MIN_CORNER && x <= MAX_CORNER;
}

static bool fits_maps(const TileShape *s)
{
    return is_corner(-s->pad_w) && is_corner(-s->pad_h) &&
           is_corner(far_corner(s->w, s->in_w, s->sw, s->pad_w)) &&
           is_corner(far_corner(s->h, s->in_h, s->sh, s->pad_h)) && s->sw <= MAX_STRIDE &&
           s->sh <= MAX_STRIDE;
}

// Images become frames of the first of three spatial axes; false: they are not as far apart everywhere.
static bool take_frames(Conv *c, GpuFrames *frames)
{
    const TileAxis x = c->s.outer[0];
    if (c->s.n_outer == 0)
        return true;
    if (c->s.n_outer != 1 || (c->s.n > 1 && c->stride_n != x.in * c->stride_outer[0]))
        return false;
    c->s.n_outer = 0;
    c->s.n *= x.in;
    c->stride_n = c->stride_outer[0];
    if (x.kernel != 1 || x.stride != 1 || x.pad != 0 || x.out != x.in)
        *frames = (GpuFrames){x.in, x.out, x.kernel, x.stride, x.dilation, x.pad};
    return frames->out == 0 || c->s.h * c->s.w >= MIN_FRAME;
}

// Channels of a pixel next to each other, pixels and rows at whole steps of the copy engine.
static bool is_image(const Lower *l, const Conv *c)
{
    const Loc *x = lower_loc(l, c->x);
    return c->s.n_outer == 0 && c->group == 1 && c->shuffle == 1 && c->s.ic % GPU_CHUNK == 0 &&
           c->stride_c == 1 &&
           c->stride_w % MAP_STEP == 0 && c->stride_h % MAP_STEP == 0 && c->stride_n % MAP_STEP == 0 &&
           x->offset % MAP_STEP == 0 && lower_can_map(l, x->buf) && fits_maps(&c->s);
}

bool conv_joins_pixels(Lower *l, Domain *d)
{
    rlx_assert(d->rank >= 3);
    uint8_t class[SHAPE_MAX_RANK] = {[1] = 1};
    const int64_t channels = d->extent[1];
    for (uint32_t i = 0; i < d->rank; i++)
        if (d->live[i].size != 0)
            return false;
    domain_move_class(d, class);
    domain_simplify(l, d, l->root, class);
    return d->rank == 2 && d->extent[1] == channels && !d->is_exact;
}

static GpuMatrix weights_of(Lower *l, const Conv *c, int64_t taps)
{
    GpuMatrix m = {.id = c->w, .loc = lower_loc(l, c->w), .outer = taps * c->s.ic, .k = 1};
    if (taps == 1)
        return m;
    const Node *w = lower_node(l, c->w);
    TapOrder *order = ARENA_NEW(l->pass->perm, TapOrder);
    Loc *loc = ARENA_NEW(l->pass->perm, Loc);
    *order = (TapOrder){node_attr(w, A_const_data)->u.blob, c->s.oc, c->s.ic, taps};
    m.packed = 1 + lower_param_filled(l, "taps", (DType)w->dtype, fill_taps, order,
                                 (uint64_t)(c->s.oc * m.outer) * dtype_info[w->dtype].bytes);
    *loc = (Loc){.buf = l->pk->args.data[m.packed - 1].buf};
    m.loc = loc;
    return m;
}

static GpuMatrix result_of(const Lower *l, const Domain *d)
{
    GpuMatrix m = {.id = l->root, .loc = lower_loc(l, l->root)};
    for (uint32_t i = 0; i < d->access.len; i++)
        if (d->access.data[i].node == l->root) {
            m.outer = d->access.data[i].stride[0];
            m.k = d->access.data[i].stride[1];
        }
    return m;
}

static GpuImage image_of(const Conv *c, const GpuFrames *frames)
{
    const TileShape *s = &c->s;
    return (GpuImage){.channels = s->ic,
                      .in = {s->in_w, s->in_h, s->n},
                      .out = {s->w, s->h},
                      .stride = {c->stride_w, c->stride_h, c->stride_n},
                      .taps_w = s->kw,
                      .taps_h = s->kh,
                      .frames = *frames,
                      .step = {s->sw, s->sh},
                      .dilation = {s->dw, s->dh},
                      .pad = {s->pad_w, s->pad_h},
                      .high = {(int32_t)far_corner(s->w, s->in_w, s->sw, s->pad_w),
                               (int32_t)far_corner(s->h, s->in_h, s->sh, s->pad_h)}};
}

// Where a row of the kernel lies in the input as it is, its taps are channels of one tap: pixels that
// overlap, whose channels fill rows of shared memory.
static Conv join_taps(const Conv *c)
{
    Conv out = *c;
    TileShape *s = &out.s;
    if (s->ic % GPU_TILE_K == 0 || s->kw == 1 || s->dw != 1 || s->pad_w != 0 || c->stride_c != 1 ||
        c->stride_w != s->ic || (s->w - 1) * s->sw + s->kw > s->in_w)
        return out;
    out.stride_w *= s->sw;
    s->ic *= s->kw;
    s->in_w = s->w;
    s->kw = s->sw = 1;
    return out;
}

bool gpu_conv_lower(Lower *l, const Conv *given)
{
    const Node *node = lower_node(l, l->anchor), *w = lower_node(l, given->w);
    Conv frames_of = *given, *c = &frames_of;
    GpuFrames frames = {0};
    if (!take_frames(c, &frames))
        return false;
    const int64_t taps = (frames.out != 0 ? frames.taps : 1) * c->s.kh * c->s.kw;
    rlx_assert(taps >= 1 && c->group >= 1);
    const Conv joined = join_taps(c);
    if (!l->caps->has_mma || !k_is_half(node->dtype) || w->dtype != node->dtype ||
        lower_node(l, c->x)->dtype != node->dtype || c->s.oc < MIN_OUTPUTS || !is_image(l, &joined) ||
        (taps > 1 && !node_is_const(l->g, c->w)))
        return false;
    Domain d = conv_out_domain(l);
    if (!conv_joins_pixels(l, &d))
        return false;
    const GpuImage image = image_of(&joined, &frames);
    const int64_t products = frames.out != 0 ? c->s.n / frames.in * frames.out : 1;
    GpuMatmul p = {.l = l,
                   .m = (frames.out != 0 ? 1 : c->s.n) * c->s.h * c->s.w,
                   .n_batch = frames.out != 0,
                   .batch = {products},
                   .n = c->s.oc,
                   .k = taps * c->s.ic,
                   .d = &d,
                   .point = point_of,
                   .image = &image,
                   .bias = c->bias};
    p.a = (GpuMatrix){.id = c->x, .loc = lower_loc(l, c->x), .k = 1};
    p.b = weights_of(l, c, taps);
    p.c = result_of(l, &d);
    p.c.batch[0] = frames.out != 0 ? p.m * p.c.outer : 0;
    if (!gpu_matmul_fits(&p))
        return false;
    gpu_matmul_emit(&p);
    return true;
}
