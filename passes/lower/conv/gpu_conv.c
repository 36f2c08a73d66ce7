// SPDX-License-Identifier: Apache-2.0
// Convolutions of 16-bit floats and of bytes on the matrix units of a GPU: products of the input's pixels
// under each tap of the kernel, which the copy engine finds itself (gpu_matmul.h, GpuImage), with weights as
// [outputs, taps, channels]. Sums in f32, tap by tap, channels rising; the bias is added last. Sums of bytes
// are exact (gpu_int_conv.c). With three spatial axes, of both, each frame of the output is a product.
#include "passes/lower/conv/conv.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include <string.h>

enum {
    MIN_CORNER = -128,    // of tensor maps of rank 4
    MAX_CORNER = 127,
    MAX_STRIDE = 8,
    MIN_OUTPUTS = 16,
    MIN_FRAME = 32 // pixels
};

// Weights in the order in which k runs.
typedef struct TapOrder {
    const unsigned char *from; // [outputs, channels, taps]
    int64_t outputs, channels, taps;
    int64_t bytes; // of an element
    int64_t rows;  // outputs, and what is filled up with zeros
    int64_t fours; // of gpu_byte_column, which is their order
    int64_t pitch; // elements of an output, of which what is behind the last channel is 0
} TapOrder;

static void fill_taps(const void *ctx, void *out)
{
    const TapOrder *t = ctx;
    unsigned char *to = out;
    memset(to, 0, (size_t)(t->rows * t->pitch * t->bytes));
    for (int64_t row = 0; row < t->rows; row++, to += t->pitch * t->bytes) {
        const int64_t o = gpu_byte_column(row, t->fours);
        for (int64_t tap = 0; tap < t->taps && o < t->outputs; tap++)
            for (int64_t c = 0; c < t->channels; c++)
                memcpy(to + (tap * t->channels + c) * t->bytes,
                       t->from + ((o * t->channels + c) * t->taps + tap) * t->bytes, (size_t)t->bytes);
    }
}

static Point point_of(const GpuMatmul *p, const KRef *batch, KRef row, KRef column)
{
    if (p->n_batch != 0)
        row = k_expr(p->l->k, "$ * # + $", batch[0], p->m, row);
    return (Point){.idx = {row, column}, .vec_axis = 1, .lanes = 1, .count = 1};
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

static int64_t element_bytes(const Lower *l, const Conv *c)
{
    return dtype_info[lower_node(l, c->x)->dtype].bytes;
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
    const int64_t step = GPU_CHUNK_BYTES / element_bytes(l, c);
    return c->s.n_outer == 0 && c->group == 1 && c->shuffle == 1 && c->s.ic % step == 0 && c->stride_c == 1 &&
           c->stride_w % step == 0 && c->stride_h % step == 0 && c->stride_n % step == 0 &&
           x->offset % step == 0 && lower_can_map(l, x->buf) && fits_maps(&c->s);
}

// Bytes whose pixels are the rows of a matrix, if all of them lie in one row.
static bool is_matrix(const Conv *c)
{
    const TileShape *s = &c->s;
    const int64_t rows = c->stride_w * s->w;
    rlx_assert(s->n_outer == 0);
    return c->bytes != NULL && s->kh == 1 && s->kw == 1 && s->sh == 1 && s->sw == 1 &&
           s->pad_h == 0 && s->pad_w == 0 && s->h == s->in_h && s->w == s->in_w && c->stride_c == 1 &&
           c->group == 1 && (s->h == 1 || c->stride_h == rows) &&
           (s->n == 1 || c->stride_n == (s->w * s->h == 1 ? c->stride_n : rows * s->h));
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
    if (taps == 1 && c->bytes == NULL)
        return m;
    const Node *w = lower_node(l, c->w);
    TapOrder *order = ARENA_NEW(l->pass->perm, TapOrder);
    Loc *loc = ARENA_NEW(l->pass->perm, Loc);
    const int64_t bytes = dtype_info[w->dtype].bytes, step = GPU_CHUNK_BYTES / bytes;
    const int64_t rows =
        c->bytes != NULL ? ceil_div(c->s.oc, GPU_BYTE_COLUMNS) * GPU_BYTE_COLUMNS : c->s.oc;
    m.outer = ceil_div(m.outer, step) * step;
    *order = (TapOrder){.from = c->bytes != NULL ? c->bytes->weights
                                                 : node_attr(w, A_const_data)->u.blob,
                        .outputs = c->s.oc,
                        .rows = rows,
                        .fours = gpu_run_fours(l, c->bytes != NULL),
                        .channels = c->s.ic,
                        .taps = taps,
                        .bytes = bytes,
                        .pitch = m.outer};
    m.packed = 1 + lower_param_filled(l, "taps", (DType)w->dtype, fill_taps, order,
                                 (uint64_t)(rows * m.outer * bytes));
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
static Conv join_taps(const Lower *l, const Conv *c)
{
    Conv out = *c;
    TileShape *s = &out.s;
    if (s->ic * element_bytes(l, c) % GPU_ROW_BYTES == 0 || s->kw == 1 || s->dw != 1 || s->pad_w != 0 ||
        c->stride_c != 1 || c->stride_w != s->ic || (s->w - 1) * s->sw + s->kw > s->in_w)
        return out;
    out.stride_w *= s->sw;
    s->ic *= s->kw;
    s->in_w = s->w;
    s->kw = s->sw = 1;
    return out;
}

static bool is_axis_inside(TileAxis x)
{
    return x.pad == 0 && (x.out - 1) * x.stride + (x.kernel - 1) * x.dilation < x.in;
}

// Does no tap lie outside of the image?
static bool is_inside(const TileShape *s)
{
    return (s->n_outer == 0 || is_axis_inside(s->outer[0])) && is_axis_inside(tile_row_axis(s)) &&
           is_axis_inside(tile_column_axis(s));
}

static int64_t row_stride(const Conv *c)
{
    return c->s.w > 1 ? c->stride_w : c->s.h > 1 ? c->stride_h : c->stride_n;
}

static bool has_operands(const Lower *l, const Conv *c, int64_t taps)
{
    const int type = lower_node(l, l->anchor)->dtype;
    if (c->bytes != NULL) // weights were constants; images end with zeros
        return c->bytes->zero == 0 || is_inside(&c->s);
    return k_is_half(type) && lower_node(l, c->w)->dtype == type && lower_node(l, c->x)->dtype == type &&
           (taps == 1 || node_is_const(l->g, c->w));
}

bool gpu_conv_lower(Lower *l, const Conv *given)
{
    Conv frames_of = *given, *c = &frames_of;
    GpuFrames frames = {0};
    if (!take_frames(c, &frames))
        return false;
    const int64_t taps = (frames.out != 0 ? frames.taps : 1) * c->s.kh * c->s.kw;
    rlx_assert(taps >= 1 && c->group >= 1);
    const Conv joined = join_taps(l, c);
    const bool is_rows = frames.out == 0 && is_matrix(c);
    if (!l->caps->has_mma || !has_operands(l, given, taps) || c->s.oc < MIN_OUTPUTS ||
        !(is_rows || is_image(l, &joined)))
        return false;
    Domain d = domain_of_root(l);
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
                   .image = is_rows ? NULL : &image,
                   .bias = c->bias,
                   .bytes = c->bytes};
    p.a = (GpuMatrix){.id = c->x, .loc = lower_loc(l, c->x), .outer = is_rows ? row_stride(c) : 0, .k = 1};
    p.b = weights_of(l, c, taps);
    p.c = result_of(l, &d);
    p.c.batch[0] = frames.out != 0 ? p.m * p.c.outer : 0;
    if (!gpu_matmul_fits(&p))
        return false;
    gpu_matmul_emit(&p);
    return true;
}
