// SPDX-License-Identifier: Apache-2.0
// Convolutions of all floats on every GPU, where gpu_conv.c does not take them, and of bytes on matrix units
// (gpu_int_conv.c), as products of windows (gpu_matmul.h, GpuWindow): any order of the input, one to three
// spatial axes, groups. Constant weights are arranged by steps of k at compile time, so that neighbouring
// threads read neighbours. Groups of few channels are joined until they fill a tile; between them, weights
// are zeros.
#include "passes/lower/conv/conv.h"
#include "ir/shape/forms.h"
#include "passes/lower/gpu/gpu_simt.h"

enum { FULL_COLUMNS = 32, FEW_OF_GROUP = 2 };

typedef struct Windows {
    GpuWindow w;
    const Domain *d;
    bool is_joined;               // pixels are one axis of d
    int64_t products, columns;    // groups that are left, channels of each
    int64_t joined, taps;         // groups of one product
} Windows;

// --- weights -------------------------------------------------------------------------------------

typedef struct WindowWeights {
    const unsigned char *from; // [products * columns, own channels, taps]
    Windows c;
    int64_t own_channels, own_columns, bytes;
} WindowWeights;

// The element at a step of k and a column; NULL: zero.
static const unsigned char *weight_at(const void *ctx, int64_t product, int64_t step, int64_t column)
{
    const WindowWeights *t = ctx;
    const GpuWindow *w = &t->c.w;
    const int64_t channel = w->is_tap_inner ? step / t->c.taps : step % w->channels;
    const int64_t tap = w->is_tap_inner ? step % t->c.taps : step / w->channels;
    if (channel / t->own_channels != column / t->own_columns)
        return NULL;
    const int64_t row = product * t->c.columns + column;
    return t->from + ((row * t->own_channels + channel % t->own_channels) * t->c.taps + tap) * t->bytes;
}

// Steps of k whose weights are neighbours: those of a word, where units take words.
static int64_t word_steps(const Lower *l, const Conv *c)
{
    if (c->bytes != NULL)
        return gpu_unit_pair(GPU_UNIT_BYTES);
    return k_is_half(lower_node(l, c->w)->dtype) && l->caps->has_mma ? gpu_unit_pair(GPU_UNIT_HALF) : 1;
}

static GpuMatrix packed_weights(Lower *l, const Conv *c, const Windows *windows, int64_t steps)
{
    const Node *node = lower_node(l, c->w);
    WindowWeights *t = ARENA_NEW(l->pass->perm, WindowWeights);
    *t = (WindowWeights){.from = c->bytes != NULL ? c->bytes->weights
                                                  : node_attr(node, A_const_data)->u.blob,
                         .c = *windows,
                         .own_channels = windows->w.channels / windows->joined,
                         .own_columns = windows->columns / windows->joined,
                         .bytes = dtype_info[node->dtype].bytes};
    return gpu_window_weights(l, c->w,
                              &(GpuWindowWeights){.dtype = (DType)node->dtype,
                                                  .products = windows->products,
                                                  .steps = steps,
                                                  .columns = windows->columns,
                                                  .pair = word_steps(l, c),
                                                  .at = weight_at,
                                                  .ctx = t},
                              "taps");
}

static bool packs(const Lower *l, NodeId w)
{
    return node_is_const(l->g, w) && !lower_is_in_file(l, w);
}

// Weights as they are: their taps follow each other.
static bool has_plain_weights(const Lower *l, NodeId id)
{
    const Shape *s = lower_node(l, id)->shape;
    const Loc *loc = lower_loc(l, id);
    int64_t step = 1;
    for (uint32_t i = s->rank; i-- > 1; step *= s->dim[i])
        if (s->dim[i] != 1 && loc->stride[i] != step)
            return false;
    return loc->buf != 0;
}

static GpuMatrix weights_of(Lower *l, const Conv *c, const Windows *windows, int64_t steps)
{
    if (packs(l, c->w))
        return packed_weights(l, c, windows, steps);
    const Loc *loc = lower_loc(l, c->w);
    return (GpuMatrix){.id = c->w,
                       .loc = loc,
                       .outer = loc->stride[0],
                       .k = 1,
                       .batch = {windows->products > 1 ? windows->columns * loc->stride[0] : 0}};
}

// --- the product ---------------------------------------------------------------------------------

static GpuWindow window_of(const Lower *l, const Conv *c)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *x = lower_node(l, c->x)->shape, *w = lower_node(l, c->w)->shape;
    const Loc *loc = lower_loc(l, c->x);
    const WindowForm form = window_form(n);
    GpuWindow out = {.axes = x->rank - 2,
                     .channels = w->dim[1],
                     .stride_c = loc->stride[1],
                     .stride_n = loc->stride[0],
                     .is_tap_inner = loc->stride[1] != 1 || !packs(l, c->w)};
    for (uint32_t i = 0; i < out.axes; i++) {
        out.in[i] = x->dim[i + 2];
        out.out[i] = n->shape->dim[i + 2];
        out.taps[i] = w->dim[i + 2];
        out.stride[i] = loc->stride[i + 2];
        out.step[i] = form.stride[i];
        out.dilation[i] = form.dilation[i];
        out.pad[i] = form.pad[i];
    }
    return out;
}

// Joins as many groups as fill the columns of a tile, where they have a divisor for it: what is between them
// takes memory and time.
static void join_groups(const Lower *l, const Conv *c, Windows *windows)
{
    const int64_t columns = lower_node(l, l->anchor)->shape->dim[1] / c->group;
    windows->joined = 1;
    const bool has_few = packs(l, c->w) && columns < FULL_COLUMNS;
    for (int64_t n = 2; has_few && n * columns < 2 * FULL_COLUMNS; n++)
        if (c->group % n == 0 && windows->joined * columns < FULL_COLUMNS)
            windows->joined = n;
    windows->products = c->group / windows->joined;
    windows->columns = columns * windows->joined;
    if (windows->joined > 1) {
        windows->w.own_channels = windows->w.channels;
        windows->w.own_columns = columns;
        windows->w.channels *= windows->joined;
    }
}

static Point point_of(const GpuMatmul *p, const KRef *batch, KRef row, KRef column)
{
    const Windows *c = p->ctx;
    Kernel *k = p->l->k;
    const KRef channel = c->products > 1 ? k_expr(k, "$ * # + $", batch[0], c->columns, column) : column;
    Point at = {.lanes = 1, .count = 1};
    at.idx[1] = channel;
    if (!c->is_joined)
        for (uint32_t i = c->w.axes; i-- > 0; row = k_expr(k, "$ / #", row, c->w.out[i]))
            at.idx[i + 2] = k_expr(k, "$ % #", row, c->w.out[i]);
    at.idx[0] = row;
    return at;
}

// Strides of the result. Rows of the product are neighbours within a row of the image.
static GpuMatrix result_of(const Lower *l, const Windows *c)
{
    GpuMatrix m = {.id = l->root, .loc = lower_loc(l, l->root)};
    const Access *a = domain_access(c->d, l->root, SPACE_IN);
    rlx_assert(a != NULL);
    const uint32_t last = c->d->rank - 1;
    bool is_even = true;
    for (uint32_t i = 0; i < c->d->rank; i++)
        is_even = is_even && (i == 1 || i == last || a->stride[i] % GPU_SIMT_VECTOR == 0);
    m.k = a->stride[1];
    m.batch[0] = c->products > 1 ? c->columns * m.k : 0;
    if (c->is_joined)
        m.outer = a->stride[0];
    else if (m.k == 1)
        m.outer = is_even && a->stride[last] % GPU_SIMT_VECTOR == 0 ? GPU_SIMT_VECTOR : 1;
    else
        m.outer = is_even && a->stride[last] == 1 && c->w.out[c->w.axes - 1] % GPU_SIMT_VECTOR == 0 ? 1 : 0;
    return m;
}

static bool has_operands(const Lower *l, const Conv *c)
{
    if (c->bytes != NULL)
        return packs(l, c->w);
    return lower_is_float(lower_node(l, l->anchor)->dtype) && lower_is_float(lower_node(l, c->x)->dtype) &&
           lower_is_float(lower_node(l, c->w)->dtype) && (packs(l, c->w) || has_plain_weights(l, c->w));
}

static bool has_form(const Lower *l, const Conv *c)
{
    const Node *n = lower_node(l, l->anchor);
    const int64_t columns = n->shape->dim[1] / c->group;
    return l->caps->is_gpu && l->caps->shared_bytes != 0 && c->shuffle == 1 && l->strip.window == NULL &&
           n->shape->rank <= 2 + GPU_WINDOW_AXES && has_operands(l, c) &&
           (columns > FEW_OF_GROUP || c->group == 1);
}

// Only the number of images may depend on the run.
static bool has_live_pixels(const Domain *d)
{
    for (uint32_t i = 1; i < d->rank; i++)
        if (d->live[i].size != 0)
            return true;
    return d->is_exact;
}

bool gpu_window_conv_lower(Lower *l, const Conv *c, const Domain *given)
{
    rlx_assert(c->group >= 1 && given->rank >= 3);
    if (!has_form(l, c) || has_live_pixels(given))
        return false;
    Domain d = domain_of_root(l);
    Windows windows = {.w = window_of(l, c), .taps = 1};
    windows.is_joined = c->images == 0 && conv_joins_pixels(l, &d);
    windows.d = windows.is_joined ? &d : given;
    join_groups(l, c, &windows);
    GpuMatmul p = {.l = l,
                   .m = lower_node(l, c->x)->shape->dim[0],
                   .n = windows.columns,
                   .n_batch = windows.products > 1,
                   .batch = {windows.products},
                   .d = windows.d,
                   .point = point_of,
                   .ctx = &windows,
                   .window = &windows.w,
                   .bias = c->bias,
                   .bytes = c->bytes};
    for (uint32_t i = 0; i < windows.w.axes; i++) {
        p.m *= windows.w.out[i];
        windows.taps *= windows.w.taps[i];
    }
    p.k = windows.w.channels * windows.taps;
    if (!gpu_simt_fits(&p))
        return false;
    if (c->images != 0)
        p.rows = k_expr(l->k, "$ * #", c->images, p.m / c->s.n);
    p.a = (GpuMatrix){.id = c->x, .loc = lower_loc(l, c->x)};
    p.a.batch[0] = windows.products > 1 ? windows.w.channels * windows.w.stride_c : 0;
    p.b = weights_of(l, c, &windows, p.k);
    p.c = result_of(l, &windows);
    gpu_matmul_simt(&p);
    return true;
}
