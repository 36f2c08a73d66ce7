// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of GPUs, channels last, with one output or a few for each channel: a thread has
// neighbouring outputs of a few neighbouring pixels of a row. Their windows overlap: it fetches every input
// that they share once, and every weight once. Kernels of many taps loop over their rows, and those over
// three axes over their frames. Inputs beyond the border are zeros in
// registers, so that all fetches are under way at once; where weights may be infinite, such taps are left out
// instead. Accumulation: f32 fused multiply-adds in the order kernel row, kernel column, starting from the
// bias. Those of bytes are exact: f32 holds their weights and sums, in which inputs beyond the border are the
// zero point (gpu_int_conv.c).
#include "ir/graph/tensor.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include "passes/lower/operand.h"
#include "passes/units.h"
#include "passes/lower/wide.h"
#include <math.h>

enum { MOST_TAPS = UNITS_MOST_TAPS, MOST_PIXELS = 4, THREADS_OF_PROCESSOR = 512, LONG_THREADS = 128 };

typedef struct GpuDepthwise {
    Lower *l;
    const Conv *c;
    Wide w;
    int64_t n, pixels;       // output channels and pixels of a thread
    int64_t inputs;          // of its channels
    uint32_t x, weights;
    bool is_packed;          // the weights, by tap, then by channel
    bool is_finite;          // they all are
    uint32_t x_piece;        // elements of one access
    KRef of_x, of_weights;   // arrays: the channels of an input, and of a kernel row's weights
    KRef acc;                // array: pixels * n
    KRef zero, begins;       // of bytes: the zero point as i32, 0: none; array: what n channels begin with
    KRef channel, row, first; // of the thread's first output; first: the index of the image's first input
    KRef column, frame;      // frame: of the output, with three axes
    int64_t pixel;           // whose results are being stored
} GpuDepthwise;

// A row of the kernel: `at` is one of those from the first to the last.
typedef struct KernelRow {
    KRef at, frame; // frame: of the kernel, 0: it has none
    int64_t first, last;
} KernelRow;

// --- does it fit? ----------------------------------------------------------------------------------

static uint32_t access_of(int dtype, int64_t n)
{
    const uint32_t widest = k_fetch_width(dtype);
    return n < widest ? (uint32_t)n : widest;
}

// Can n elements from any multiple of n on be fetched?
static bool has_pieces(const Lower *l, NodeId bias, uint32_t n)
{
    const Loc *loc = lower_loc(l, bias);
    const int dtype = lower_node(l, bias)->dtype;
    return loc->stride[0] == 1 &&
           lower_alignment(l, loc, (DType)dtype) >= access_of(dtype, n) * dtype_info[dtype].bytes;
}

static int64_t frames_of(const Conv *c)
{
    return c->s.n_outer == 0 ? 1 : c->s.outer[0].kernel;
}

static bool has_types(const Lower *l, const Conv *c)
{
    const int type = lower_node(l, c->x)->dtype;
    if (c->bytes != NULL)
        return k_is_byte(type);
    return lower_node(l, l->anchor)->dtype == type && dtype_info[type].cls == DCLASS_FLOAT &&
           type != DTYPE_f64;
}

static bool is_depthwise(const Lower *l, const Conv *c)
{
    return c->s.ic == 1 && c->s.oc <= UNITS_MOST_OUTPUTS && c->group > 1 && c->shuffle == 1 &&
           c->s.n_outer <= 1 && c->s.kw <= MOST_TAPS && has_types(l, c) &&
           (c->bytes == NULL || frames_of(c) * c->s.kh * c->s.kw <= MOST_TAPS);
}

// As many as divide a row, as long as there are threads enough for the whole GPU: fewer of those that have
// many taps, whose sums wait for each other less than for what they read.
static int64_t pixels_of(const Lower *l, const Conv *c, uint32_t n)
{
    const int64_t vectors = c->s.n * c->s.h * c->s.w * c->group * c->s.oc / n;
    const int64_t of_one = c->s.kh * c->s.kw > MOST_TAPS ? LONG_THREADS : THREADS_OF_PROCESSOR;
    const int64_t wanted = l->caps->gpu->processors * of_one;
    int64_t pixels = MOST_PIXELS;
    while (pixels > 1 && (c->s.w % pixels != 0 || vectors / pixels < wanted))
        pixels /= 2;
    return pixels;
}

static bool fits(Lower *l, const Conv *c, const Domain *d, GpuDepthwise *out)
{
    Domain in = domain_of(lower_node(l, c->x)->shape);
    *out = (GpuDepthwise){.l = l, .c = c};
    if (!l->caps->is_gpu || !is_depthwise(l, c) || l->strip.window != NULL || !wide_fits(l, d, 1, &out->w))
        return false;
    domain_add(l, &in, c->x);
    out->n = out->w.n;
    out->inputs = out->n / c->s.oc;
    out->x_piece = wide_piece(l, &in, c->x, 1);
    out->pixels = d->live[d->rank - 1].size != 0 ? 1 : pixels_of(l, c, out->w.n);
    return out->x_piece > 0 && out->n % c->s.oc == 0 && (c->bias == 0 || has_pieces(l, c->bias, out->w.n));
}

// --- weights ---------------------------------------------------------------------------------------

// Bytes as floats: all threads would convert the same ones.
static const unsigned char *as_floats(const GpuDepthwise *s)
{
    const GpuBytes *bytes = s->c->bytes;
    const int64_t n = shape_numel(lower_node(s->l, s->c->w)->shape);
    float *to = ARENA_ARRAY(s->l->pass->perm, float, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        to[i] = bytes->has_signed_weights ? (float)(int8_t)bytes->weights[i] : (float)bytes->weights[i];
    return (const unsigned char *)to;
}

static DType weight_type(const GpuDepthwise *s)
{
    return s->c->bytes != NULL ? DTYPE_f32 : (DType)lower_node(s->l, s->c->w)->dtype;
}

// Constants are stored by tap, then by channel; others are read where they are.
static uint32_t weights_of(const GpuDepthwise *s)
{
    Lower *l = s->l;
    if (!s->is_packed)
        return lower_param(l, s->c->w, PARAM_READ);
    const TapWeights taps = {s->c->bytes != NULL ? as_floats(s)
                                                 : node_attr(lower_node(l, s->c->w), A_const_data)->u.blob,
                             1, s->c->group * s->c->s.oc, frames_of(s->c) * s->c->s.kh * s->c->s.kw,
                             weight_type(s)};
    return conv_param_by_tap(l, &taps);
}

static bool has_finite_weights(const Lower *l, NodeId id)
{
    if (!node_is_const(l->g, id))
        return false;
    const Tensor t = tensor_of_const(l->g, id);
    for (int64_t i = 0; i < t.numel; i++)
        if (!isfinite(tensor_get_f64(&t, i)))
            return false;
    return true;
}

// --- one thread ------------------------------------------------------------------------------------

static void begin_bytes(GpuDepthwise *s)
{
    Kernel *k = s->l->k;
    const GpuBytes *bytes = s->c->bytes;
    if (bytes != NULL && bytes->zero != 0)
        s->zero = operand_scalar(s->l, bytes->zero, k_index(k, 0), DTYPE_i32);
    if (bytes == NULL || bytes->begin == 0)
        return;
    s->begins = k_array(k, DTYPE_i32, s->n);
    wide_load(s->l, bytes->begin - 1, s->channel, s->begins, 0,
              (WideSpan){.n = (uint32_t)s->n, .piece = access_of(DTYPE_i32, s->n)});
}

static void begin_sums(GpuDepthwise *s)
{
    Kernel *k = s->l->k;
    const NodeId bias = s->c->bias;
    KRef of_bias = 0;
    if (bias != 0) {
        const int dtype = lower_node(s->l, bias)->dtype;
        of_bias = k_array(k, dtype, s->n);
        wide_load(s->l, lower_param(s->l, bias, PARAM_READ), s->channel, of_bias, 0,
                  (WideSpan){.n = (uint32_t)s->n, .piece = access_of(dtype, s->n)});
    }
    s->acc = k_array(k, DTYPE_f32, s->pixels * s->n);
    const KRef j = k_loop(k, s->pixels * s->n, KFOR_UNROLL, "j");
    k_astore(k, s->acc, j,
             of_bias == 0 ? k_number(k, DTYPE_f32, 0)
                          : k_cast(k, k_aload(k, of_bias, k_expr(k, "$ % #", j, s->n), 1), DTYPE_f32));
    k_end(k);
}

// Whether the input at `at` is there, where it need not be for all outputs; 0: it always is. lowest, highest:
// of at, over all outputs.
static KRef test_inside(Kernel *k, KRef at, int64_t lowest, int64_t highest, int64_t size)
{
    if (lowest >= 0 && highest < size)
        return 0;
    if (lowest >= 0)
        return k_expr(k, "$ < #", at, size);
    return highest < size ? k_expr(k, "0 <= $", at) : k_expr(k, "0 <= $ & $ < #", at, at, size);
}

// is_inside: whether there is such an input, 0: there always is. What the input adds goes behind; returns the
// blocks that are to be closed then.
static uint32_t fetch_x(const GpuDepthwise *s, KRef row, KRef column, KRef is_inside)
{
    Kernel *k = s->l->k;
    const WideSpan span = {.n = (uint32_t)s->inputs, .piece = s->x_piece};
    const int type = lower_node(s->l, s->c->x)->dtype;
    if (is_inside != 0 && s->is_finite) {
        const KRef j = k_loop(k, s->inputs, KFOR_UNROLL, "j");
        k_astore(k, s->of_x, j, s->zero != 0 ? k_cast(k, s->zero, type) : k_number(k, type, 0));
        k_end(k);
    }
    if (is_inside != 0)
        k_if(k, is_inside);
    const KRef at = k_expr(k, "$ * # + $ * #", row, s->c->stride_h, column, s->c->stride_w);
    const KRef index = k_add(k, at, s->first);
    wide_load(s->l, s->x, index, s->of_x, 0, span);
    if (is_inside == 0)
        return 0;
    if (s->is_finite)
        k_end(k);
    return !s->is_finite;
}

// What the input fetched last adds to a pixel by a column of the kernel.
static void add_tap(const GpuDepthwise *s, int64_t pixel, int64_t tap)
{
    Kernel *k = s->l->k;
    const KRef j = k_loop(k, s->n, KFOR_UNROLL, "j"), place = k_expr(k, "$ + #", j, pixel * s->n);
    const KRef x = k_cast(k, k_aload(k, s->of_x, k_expr(k, "$ / #", j, s->c->s.oc), 1), DTYPE_f32);
    const KRef w = k_cast(k, k_aload(k, s->of_weights, k_expr(k, "$ + #", j, tap * s->n), 1), DTYPE_f32);
    k_astore(k, s->acc, place, k_fma(k, x, w, k_aload(k, s->acc, place, 1)));
    k_end(k);
}

// The kernel column that takes column `at` of the thread's inputs to one of its pixels; -1: none does.
static int64_t tap_at(const TileShape *t, int64_t at, int64_t pixel)
{
    const int64_t from = at - pixel * t->sw;
    return from < 0 || from % t->dw != 0 || from / t->dw >= t->kw ? -1 : from / t->dw;
}

static bool is_used(const GpuDepthwise *s, int64_t at)
{
    for (int64_t p = 0; p < s->pixels; p++)
        if (tap_at(&s->c->s, at, p) >= 0)
            return true;
    return false;
}

// The index of a stored kernel row's first weight, from that of its channel.
static KRef row_index(const GpuDepthwise *s, const KernelRow *r, const Loc *loc, uint32_t last)
{
    Kernel *k = s->l->k;
    KRef index = last > 2 ? k_expr(k, "$ * #", r->at, loc->stride[last - 1]) : k_index(k, 0);
    if (r->frame != 0)
        index = k_expr(k, "$ * # + $", r->frame, loc->stride[last - 2], index);
    return index;
}

// The weights of a kernel row, for the thread's channels.
static void fetch_weights(const GpuDepthwise *s, const KernelRow *r)
{
    Kernel *k = s->l->k;
    const Loc *loc = lower_loc(s->l, s->c->w);
    const int dtype = weight_type(s);
    const uint32_t last = lower_node(s->l, s->c->w)->shape->rank - 1;
    const WideSpan span = {.n = (uint32_t)s->n, .piece = access_of(dtype, s->n)};
    const int64_t channels = s->c->group * s->c->s.oc, kw = s->c->s.kw;
    const KRef base = s->is_packed ? s->channel : lower_base(s->l, s->c->w);
    const KRef row = r->frame == 0 ? r->at : k_expr(k, "$ * # + $", r->frame, s->c->s.kh, r->at);
    const KRef of_row = s->is_packed ? k_expr(k, "$ * #", row, kw * channels) : row_index(s, r, loc, last);
    for (int64_t i = 0; i < kw; i++) {
        if (s->is_packed) {
            const KRef index = k_expr(k, "$ + ($ + #)", base, of_row, i * channels);
            wide_load(s->l, s->weights, index, s->of_weights, i * s->n, span);
            continue;
        }
        const KRef j = k_loop(k, s->n, KFOR_UNROLL, "j");
        const KRef index = k_expr(k, "($ + $) * # + ($ + ($ + #))", s->channel, j, loc->stride[0], base,
                                  of_row, i * loc->stride[last]);
        k_astore(k, s->of_weights, k_expr(k, "$ + #", j, i * s->n), k_load(k, s->weights, index, 1, 1));
        k_end(k);
    }
}

static void add_kernel_row(const GpuDepthwise *s, const KernelRow *r)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    const int64_t reach = (s->pixels - 1) * t->sw + (t->kw - 1) * t->dw;
    const KRef row = k_expr(k, "$ * # + ($ * # + #)", s->row, t->sh, r->at, t->dh, -t->pad_h);
    const KRef row_inside = test_inside(k, row, r->first * t->dh - t->pad_h,
                                        (t->h - 1) * t->sh + r->last * t->dh - t->pad_h, t->in_h);
    fetch_weights(s, r);
    for (int64_t at = 0; at <= reach; at++) {
        if (!is_used(s, at))
            continue;
        const KRef column = k_expr(k, "$ * # + #", s->column, t->sw, at - t->pad_w);
        const KRef inside =
            test_inside(k, column, at - t->pad_w, (t->w - s->pixels) * t->sw + at - t->pad_w, t->in_w);
        const KRef both = row_inside == 0 ? inside
                          : inside == 0   ? row_inside
                                          : k_and(k, row_inside, inside);
        const uint32_t opened = fetch_x(s, row, column, both);
        for (int64_t p = 0; p < s->pixels; p++)
            if (tap_at(t, at, p) >= 0)
                add_tap(s, p, tap_at(t, at, p));
        lower_close(s->l, opened);
    }
}

// All rows of the kernel, or of one of its frames; many taps in a loop.
static void add_kernel_rows(const GpuDepthwise *s, KRef frame)
{
    Kernel *k = s->l->k;
    const int64_t kh = s->c->s.kh;
    if (kh * s->c->s.kw > MOST_TAPS) {
        add_kernel_row(s, &(KernelRow){k_loop(k, kh, KFOR_SERIAL, "row"), frame, 0, kh - 1});
        k_end(k);
        return;
    }
    for (int64_t i = 0; i < kh; i++)
        add_kernel_row(s, &(KernelRow){k_index(k, i), frame, i, i});
}

static void add_kernel(GpuDepthwise *s)
{
    Kernel *k = s->l->k;
    const TileAxis *x = &s->c->s.outer[0];
    if (s->c->s.n_outer == 0) {
        add_kernel_rows(s, 0);
        return;
    }
    const KRef frame = k_loop(k, frames_of(s->c), KFOR_SERIAL, "frame"), first = s->first;
    const KRef at = k_expr(k, "$ * # + ($ * # + #)", s->frame, x->stride, frame, x->dilation, -x->pad);
    const KRef inside = test_inside(k, at, -x->pad,
                                    (x->out - 1) * x->stride + (x->kernel - 1) * x->dilation - x->pad, x->in);
    if (inside != 0)
        k_if(k, inside);
    s->first = k_expr(k, "$ * # + $", at, s->c->stride_outer[0], first);
    add_kernel_rows(s, frame);
    s->first = first;
    lower_close(s->l, 1 + (inside != 0));
}

static void store_sum(Lower *l, const Domain *d, Point at, void *ctx)
{
    const GpuDepthwise *s = ctx;
    KRef sum = k_aload(l->k, s->acc, k_expr(l->k, "$ + #", at.lane, s->pixel * s->n), 1);
    if (s->c->bytes != NULL) {
        const KRef begin = s->begins != 0 ? k_aload(l->k, s->begins, at.lane, 1) : 0;
        sum = gpu_byte_sum(l->k, s->c->bytes,
                           (GpuByteSum){k_cast(l->k, sum, DTYPE_i32), begin, s->zero, at.idx[1]});
    }
    pull_store_root(l, d, at, k_cast(l->k, sum, lower_node(l, l->anchor)->dtype));
}

static Point pixel_of(const GpuDepthwise *s, Point at, int64_t pixel)
{
    const uint32_t last = s->w.d->rank - 1;
    at.idx[last] = k_expr(s->l->k, "$ + #", s->column, pixel);
    return at;
}

static void place_thread(GpuDepthwise *s, const Point *at, uint32_t rank)
{
    Kernel *k = s->l->k;
    const KRef image = k_expr(k, "$ * # + $", at->idx[0], s->c->stride_n, lower_base(s->l, s->c->x));
    s->channel = at->idx[1];
    s->row = rank > 3 ? at->idx[rank - 2] : k_index(k, 0);
    s->frame = rank > 4 ? at->idx[2] : 0;
    s->column = k_expr(k, "$ * #", at->idx[rank - 1], s->pixels);
    s->first = k_add(k, image, k_expr(k, "$ / #", s->channel, s->c->s.oc));
}

bool gpu_depthwise_lower(Lower *l, const Conv *c, const Domain *d)
{
    GpuDepthwise s;
    Domain threads = *d;
    Point at = {.lanes = 1, .count = 1};
    if (!fits(l, c, d, &s))
        return false;
    threads.extent[d->rank - 1] /= s.pixels;
    s.x = lower_param(l, c->x, PARAM_READ);
    s.is_packed = node_is_const(l->g, c->w);
    s.is_finite = has_finite_weights(l, c->w);
    s.weights = weights_of(&s);
    const uint32_t opened = wide_open(l, &threads, 1, s.w.n, WIDE_GROUP, &at);
    place_thread(&s, &at, d->rank);
    wide_declare(l, &s.w, s.pixels);
    for (int64_t p = 0; p < s.pixels; p++)
        wide_fetch(l, &s.w, pixel_of(&s, at, p), k_index(l->k, p * s.n));
    s.of_x = k_array(l->k, lower_node(l, c->x)->dtype, s.inputs);
    s.of_weights = k_array(l->k, weight_type(&s), c->s.kw * s.n);
    begin_bytes(&s);
    begin_sums(&s);
    add_kernel(&s);
    for (s.pixel = 0; s.pixel < s.pixels; s.pixel++)
        wide_each(l, &s.w, pixel_of(&s, at, s.pixel), k_index(l->k, s.pixel * s.n), true, store_sum, &s);
    wide_end(l);
    lower_close(l, opened);
    return true;
}
