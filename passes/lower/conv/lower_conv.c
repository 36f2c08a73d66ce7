// SPDX-License-Identifier: Apache-2.0
// Convolutions over any number of spatial axes (1-D as 2-D with one row): dense and grouped ones through
// the register-tiled core, depthwise ones with a vector of channels, those of GPUs as products
// (gpu_conv.c, gpu_window_conv.c; not those to few channels, gpu_few_conv.c), 1x1 ones between rows as
// products of CPUs (conv_rows.c), everything else as plain loops. Weights that are not constant are packed by
// a kernel of their own. Accumulation: f32 fused multiply-adds in the order of taps, then channels, starting
// from the bias; convolutions to few channels by lanes of input channels that are joined pairwise, then the
// bias. Products of GPUs have orders of their own.
#include "passes/lower/conv/conv.h"
#include "ir/shape/forms.h"
#include "passes/lower/amx/matrix.h"
#include "passes/lower/halves.h"
#include "passes/lower/packer.h"
#include "passes/lower/tile/tile.h"
#include "passes/lower/conv/winograd.h"
#include <string.h>

bool conv_can_pack(const Lower *l, NodeId w)
{
    return node_is_const(l->g, w) || packer_can_pack(l, w) ||
           (caps_have_vectors(l->caps) && lower_loc(l, w)->buf != 0);
}

static void fill_by_tap(const void *ctx, void *out)
{
    const TapWeights *w = ctx;
    const size_t bytes = dtype_info[w->type].bytes;
    unsigned char *to = out;
    for (int64_t t = 0; t < w->taps; t++)
        for (int64_t o = 0; o < w->outputs; o++)
            for (int64_t c = 0; c < w->channels; c++, to += bytes)
                memcpy(to, w->data + (size_t)((o * w->channels + c) * w->taps + t) * bytes, bytes);
}

uint32_t conv_param_by_tap(Lower *l, const TapWeights *w)
{
    rlx_assert(w->data != NULL && w->outputs >= 0 && w->channels >= 0 && w->taps >= 0);
    TapWeights *kept = ARENA_NEW(l->pass->perm, TapWeights);
    *kept = *w;
    return lower_param_filled(l, "taps", w->type, fill_by_tap, kept,
                              (uint64_t)(w->outputs * w->channels * w->taps) * dtype_info[w->type].bytes);
}

enum { MAX_SCALAR_GROUPS = 8 };

bool conv_has_many_groups(const Lower *l, int64_t groups)
{
    return l->caps->f32_lanes == 1 && groups > MAX_SCALAR_GROUPS;
}

int64_t conv_at_or(const Node *n, AttrId id, uint32_t axis, uint32_t n_spatial, int64_t dflt)
{
    rlx_assert(axis < 2 && n_spatial >= 1);
    return n_spatial == 1 && axis == 0 ? dflt : node_get_at(n, id, n_spatial + axis - 2, dflt);
}

void conv_set_axes(Conv *c, const Loc *x, const TileAxis *axis, uint32_t spatial)
{
    rlx_assert(spatial >= 1);
    const bool has_rows = spatial >= 2;
    const TileAxis one = {.out = 1, .in = 1, .kernel = 1, .stride = 1, .dilation = 1};
    const TileAxis row = has_rows ? axis[spatial - 2] : one, column = axis[spatial - 1];
    c->s = (TileShape){.n_outer = has_rows ? spatial - 2 : 0,
                       .h = row.out,
                       .w = column.out,
                       .in_h = row.in,
                       .in_w = column.in,
                       .kh = row.kernel,
                       .kw = column.kernel,
                       .sh = row.stride,
                       .sw = column.stride,
                       .dh = row.dilation,
                       .dw = column.dilation,
                       .pad_h = row.pad,
                       .pad_w = column.pad};
    for (uint32_t i = 0; i < c->s.n_outer; i++) {
        c->s.outer[i] = axis[i];
        c->stride_outer[i] = x->stride[i + 2];
    }
    c->stride_n = x->stride[0];
    c->stride_c = x->stride[1];
    c->stride_h = has_rows ? x->stride[spatial] : 0;
    c->stride_w = x->stride[spatial + 1];
}

Conv conv_of(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    const Shape *x = lower_node(l, n->src[0])->shape, *w = lower_node(l, n->src[1])->shape;
    rlx_assert(x->rank >= 3 && w->rank == x->rank);
    Conv c = {.x = n->src[0],
              .w = n->src[1],
              .bias = n->n_src > 2 ? n->src[2] : 0,
              .group = node_get_int(n, A_conv_group),
              .shuffle = node_get_int(n, A_conv_shuffle)};
    TileAxis axis[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i + 2 < x->rank; i++)
        axis[i] = conv_axis(l->g, n, i);
    conv_set_axes(&c, lower_loc(l, n->src[0]), axis, x->rank - 2);
    c.s.n = x->dim[0];
    c.s.ic = w->dim[1];
    c.s.oc = n->shape->dim[1] / c.group;
    rlx_assert(c.group >= 1 && c.s.oc * c.group == w->dim[0]);
    return c;
}

TileInput conv_tile_input(Lower *l, const Conv *c)
{
    TileInput in = {.param = lower_param(l, c->x, PARAM_READ),
                    .stride_n = c->stride_n,
                    .stride_c = c->stride_c,
                    .stride_h = c->stride_h,
                    .stride_w = c->stride_w};
    memcpy(in.stride_outer, c->stride_outer, sizeof in.stride_outer);
    return in;
}

// The point of an output domain [N, C, ..., (H,) W].
Point conv_point(const Domain *d, KRef image, KRef channel, KRef row, KRef column)
{
    rlx_assert(d->rank >= 3);
    rlx_assert(image != 0 && channel != 0 && column != 0);
    Point at = {.lanes = 1, .count = 1, .vec_axis = 1};
    at.idx[0] = image;
    at.idx[1] = channel;
    at.idx[d->rank - 1] = column;
    if (d->rank > 3)
        at.idx[d->rank - 2] = row;
    return at;
}

// --- tiles ---------------------------------------------------------------------------------------

typedef struct ConvStore {
    Domain d;
    KRef first_channel; // of the group
} ConvStore;

static void store_conv(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const ConvStore *c = ctx;
    Point at =
        conv_point(&c->d, out->image, k_add(l->k, c->first_channel, out->channel), out->row, out->column);
    at.lanes = out->lanes;
    at.count = out->count;
    for (uint32_t i = 4; i < c->d.rank; i++)
        at.idx[i - 2] = out->outer[i - 4];
    pull_store_root(l, &c->d, at, value);
}

static const float *const_f32(const Lower *l, NodeId id)
{
    return node_attr(lower_node(l, id), A_const_data)->u.blob;
}

// A long kernel over one channel (a transform of speech into bands, say) is a product with weights [oc, kw]:
// its taps become channels. Pixels then overlap in memory, which is of no matter to what only reads.
static void taps_to_channels(Conv *c)
{
    TileShape *s = &c->s;
    const bool is_row = s->n_outer == 0 && s->h == 1 && s->in_h == 1 && s->kh == 1 && s->pad_h == 0;
    const bool fits = s->pad_w == 0 && (s->w - 1) * s->sw + (s->kw - 1) * s->dw < s->in_w;
    if (!is_row || !fits || s->ic != 1 || c->group != 1 || s->kw <= CONV_MAX_TAPS)
        return;
    c->stride_c = c->stride_w * s->dw;
    c->stride_w *= s->sw;
    s->ic = s->kw;
    s->in_w = s->w;
    s->kw = s->sw = s->dw = 1;
}

// Does an output position of the axis read the input at the same one, and no other?
static bool is_pointwise(const TileAxis *x)
{
    return x->kernel == 1 && x->stride == 1 && x->pad == 0 && x->in == x->out;
}

// Joins a spatial axis before the columns with these. stride: of the input along it.
static bool join_axis(Conv *c, Domain *d, uint32_t axis, const TileAxis *x, int64_t stride)
{
    TileShape *s = &c->s;
    const uint32_t last = d->rank - 1;
    if (!is_pointwise(x) || x->out == 1 || s->w == 1 || stride != c->stride_w * s->w)
        return false;
    for (uint32_t i = 0; i < d->access.len; i++)
        if (d->access.data[i].stride[axis] != d->access.data[i].stride[last] * s->w)
            return false;
    s->w = s->in_w = s->w * x->out;
    d->extent[last] *= d->extent[axis];
    d->extent[axis] = 1;
    return true;
}

// Images of one pixel each are the pixels of one row, so that a tile has several of them.
static void join_images(Conv *c, Domain *d)
{
    const uint32_t last = d->rank - 1;
    TileShape *s = &c->s;
    const TileAxis row = tile_row_axis(s), column = tile_column_axis(s);
    bool is_pixel = is_pointwise(&row) && is_pointwise(&column) && s->h == 1 && s->w == 1;
    for (uint32_t i = 0; i < s->n_outer; i++)
        is_pixel = is_pixel && is_pointwise(&s->outer[i]) && s->outer[i].out == 1;
    if (!is_pixel || s->n == 1 || c->images != 0)
        return;
    s->w = s->in_w = d->extent[last] = s->n;
    s->n = d->extent[0] = 1;
    c->stride_w = c->stride_n;
    for (uint32_t i = 0; i < d->access.len; i++)
        d->access.data[i].stride[last] = d->access.data[i].stride[0];
}

// Pixels of a 1x1 convolution without padding form one run when rows follow each other evenly everywhere.
static void join_rows(Conv *c, Domain *d)
{
    TileShape *s = &c->s;
    const TileAxis row = tile_row_axis(s), column = tile_column_axis(s);
    if (d->rank < 4 || !is_pointwise(&column) || !join_axis(c, d, d->rank - 2, &row, c->stride_h))
        return;
    s->h = s->in_h = 1;
    for (uint32_t i = s->n_outer; i-- > 0; s->outer[i].out = s->outer[i].in = 1)
        if (!join_axis(c, d, i + 2, &s->outer[i], c->stride_outer[i]))
            return;
}

// Values at the output's pixels: the result, and what the epilogue reads.
static void add_streams(Lower *l, Tile *t, const Domain *d)
{
    const uint32_t last = d->rank - 1;
    for (uint32_t i = 0; i < d->access.len && t->n_streams < TILE_MAX_STREAMS; i++) {
        const Access *a = &d->access.data[i];
        if (a->stride[1] != 1 || a->stride[last] < t->s.oc || lower_node(l, a->node)->dtype != DTYPE_f32)
            continue;
        t->stream[t->n_streams++] =
            (TileStream){.param = lower_param(l, a->node, a->node == l->root ? PARAM_WRITE : PARAM_READ),
                         .stride_n = a->stride[0],
                         .stride_h = d->rank > 3 ? a->stride[last - 1] : 0,
                         .stride_w = a->stride[last]};
        for (uint32_t j = 0; j < t->s.n_outer; j++)
            t->stream[t->n_streams - 1].stride_outer[j] = a->stride[j + 2];
    }
}

// The input channel that takes the place of `channel`.
static int64_t unshuffled(const Conv *c, int64_t channel)
{
    return channel % c->shuffle * (c->group * c->s.ic / c->shuffle) + channel / c->shuffle;
}

// Tiles look up where a shuffled channel is: one scalar load beside the multiply-adds of a whole tile.
static void shuffle_input(Lower *l, const Conv *c, TileInput *in)
{
    const int64_t n = c->group * c->s.ic;
    int32_t *offset = ARENA_ARRAY(l->pass->perm, int32_t, n);
    for (int64_t i = 0; i < n; i++)
        offset[i] = (int32_t)(unshuffled(c, i) * c->stride_c);
    in->has_table = true;
    in->table = lower_param_data(l, "shuffle", DTYPE_i32, offset, (uint64_t)n * sizeof *offset);
}

static TileSource constant_weights(const Conv *c)
{
    int64_t taps = c->s.kh * c->s.kw;
    TileSource src = {.stride_kh = c->s.kw, .stride_kw = 1};
    for (uint32_t i = c->s.n_outer; i-- > 0; taps *= c->s.outer[i].kernel)
        src.stride_outer[i] = taps;
    src.stride_ic = taps;
    src.stride_oc = c->s.ic * taps;
    return src;
}

// Weights that are not constant, where they are before they are packed.
static TileSource stored_weights(const Lower *l, const Conv *c)
{
    const Shape *s = lower_node(l, c->w)->shape;
    const int64_t *stride = lower_loc(l, c->w)->stride;
    const uint32_t last = s->rank - 1;
    const bool is_turned = c->s.ic != s->dim[1]; // taps_to_channels
    TileSource src = {.stride_oc = stride[0],
                      .stride_ic = stride[is_turned ? last : 1],
                      .stride_kh = last > 2 ? stride[last - 1] : 0,
                      .stride_kw = stride[last]};
    for (uint32_t i = 0; i < c->s.n_outer; i++)
        src.stride_outer[i] = stride[i + 2];
    return src;
}

// What does not depend on the group.
static Tile conv_tile(Lower *l, const Conv *c, ConvStore *store)
{
    Tile t = tile_new(l, c->s);
    t.images = c->images;
    t.store = store_conv;
    t.ctx = store;
    if (c->group == 1 && l->strip.window == NULL)
        add_streams(l, &t, &store->d);
    t.in = conv_tile_input(l, c);
    if (c->shuffle != 1)
        shuffle_input(l, c, &t.in);
    tile_take_dots(&t);
    t.has_bias = c->bias != 0;
    if (t.has_bias)
        t.bias = lower_param(l, c->bias, PARAM_READ);
    return t;
}

static void set_group(Lower *l, const Conv *c, Tile *t, ConvStore *store, KRef group)
{
    Kernel *k = l->k;
    const int64_t step = c->shuffle != 1 ? 0 : c->s.ic * c->stride_c;
    t->in.first_channel = k_expr(k, "$ * #", group, c->s.ic);
    t->in.base = k_expr(k, "$ * # + $", group, step, lower_base(l, c->x));
    t->bias_base = store->first_channel = k_expr(k, "$ * #", group, c->s.oc);
}

// The weights as bf16, which all of them are.
static const void *const_bf16(const Lower *l, NodeId id)
{
    const int64_t n = shape_numel(lower_node(l, id)->shape);
    const float *from = const_f32(l, id);
    uint16_t *to = ARENA_ARRAY(l->pass->perm, uint16_t, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        halves_copy(to + i, DTYPE_bf16, from, DTYPE_f32, i);
    return to;
}

static void emit_matrix_groups(Lower *l, const Conv *c, ConvStore *store)
{
    Tile t = conv_tile(l, c, store);
    const void *weights = c->s.is_bf16 ? const_bf16(l, c->w) : const_f32(l, c->w);
    const int64_t bytes = c->s.is_bf16 ? sizeof(uint16_t) : sizeof(float);
    for (int64_t g = 0; g < c->group; g++) {
        TileSource src = constant_weights(c);
        src.data = (const void *)((const unsigned char *)weights + g * c->s.oc * src.stride_oc * bytes);
        set_group(l, c, &t, store, k_index(l->k, g));
        matrix_emit(&t, &src, node_name(l->g, c->w));
    }
}

static void emit_tiled_groups(Lower *l, const Conv *conv, ConvStore *store)
{
    Kernel *k = l->k;
    Conv own = *conv;
    const Conv *c = &own;
    const bool is_const = node_is_const(l->g, c->w);
    TileSource src = is_const ? constant_weights(c) : stored_weights(l, c);
    const uint32_t pairs = c->has_pairs ? conv_pair_image(l, c) : 0;
    if (c->has_pairs)
        conv_read_pairs(l, &own);
    Tile t = conv_tile(l, c, store);
    t.in.param = c->has_pairs ? pairs : t.in.param;
    src.data = is_const ? const_f32(l, c->w) : NULL;
    src.groups = c->group;
    src.stride_group = c->s.oc * src.stride_oc;
    t.w = is_const ? tile_pack(&t, &src, node_name(l->g, c->w)) : tile_pack_stored(&t, &src, c->w);
    const KRef group = c->group == 1 ? k_index(k, 0) : k_loop(k, c->group, KFOR_PARALLEL, "g");
    t.w.base = k_expr(k, "$ * #", group, tile_packed_elements(&t));
    set_group(l, c, &t, store, group);
    tile_emit(&t);
    if (c->group > 1)
        k_end(k);
}

static bool can_tile(const Lower *l, const Conv *c, const Domain *d)
{
    if (l->caps->is_gpu || !conv_can_pack(l, c->w) || lower_node(l, l->anchor)->dtype != DTYPE_f32)
        return false;
    if (c->shuffle != 1 && c->group * c->s.ic > INT32_MAX / (c->stride_c > 1 ? c->stride_c : 1))
        return false;
    if (conv_has_many_groups(l, c->group) || !tile_is_worthwhile(&c->s) ||
        (c->bias != 0 && lower_loc(l, c->bias)->stride[0] != 1))
        return false;
    return c->s.oc == 1 || lower_fit_lanes(l, c->s.oc) == 1 || domain_lanes(l, d, 1) > 1;
}

static void emit_depthwise(Lower *l, const Conv *c, const Domain *d)
{
    const bool is_const = node_is_const(l->g, c->w);
    TileSource src = is_const ? constant_weights(c) : stored_weights(l, c);
    src.data = is_const ? const_f32(l, c->w) : NULL;
    src.stride_group = c->s.oc * src.stride_oc;
    ConvStore store = {.d = *d, .first_channel = k_index(l->k, 0)};
    depthwise_emit(l, c, &src, store_conv, &store);
}

enum { MAX_MATRIX_GROUPS = 8 };

static bool has_matrix_groups(const Lower *l, const Conv *c)
{
    return node_is_const(l->g, c->w) && c->group <= MAX_MATRIX_GROUPS && matrix_is_worthwhile(l, &c->s, 0);
}

// --- plain loops ---------------------------------------------------------------------------------

typedef struct Plain {
    const Conv *c;
    uint32_t spatial;
} Plain;

// Is the input coordinate start + k * dilation inside [0, size)? As one comparison on each side that can
// fail.
static KRef inside(Kernel *k, KRef v, int64_t size)
{
    return k_expr(k, "0 <= $ & $ < #", v, v, size);
}

static KRef plain_conv(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Plain *p = ctx;
    Kernel *k = l->k;
    const Node *n = lower_node(l, l->anchor);
    const Shape *xs = lower_node(l, p->c->x)->shape, *ws = lower_node(l, p->c->w)->shape;
    const Loc *xl = lower_loc(l, p->c->x), *wl = lower_loc(l, p->c->w);
    (void)d;
    const KRef o = at.idx[1];
    const KRef group =
        p->c->group == 1 ? k_index(k, 0) : k_expr(k, "$ / #", o, n->shape->dim[1] / p->c->group);
    KRef init = k_number(k, n->dtype, 0);
    if (p->c->bias != 0)
        init = k_load(k, lower_param(l, p->c->bias, PARAM_READ),
                      k_expr(k, "$ * #", o, lower_loc(l, p->c->bias)->stride[0]), 1, 1);
    const KRef acc = k_var(k, init, "acc");
    KRef x = k_expr(k, "$ * # + $", at.idx[0], xl->stride[0], lower_base(l, p->c->x)),
         w = k_expr(k, "$ * #", o, wl->stride[0]);
    const KRef c = k_loop(k, ws->dim[1], KFOR_SERIAL, "c");
    KRef channel = k_expr(k, "$ * # + $", group, ws->dim[1], c);
    if (p->c->shuffle != 1) {
        const KRef s = k_index(k, p->c->shuffle);
        channel = k_expr(k, "$ % $ * # + $ / $", channel, s, xs->dim[1] / p->c->shuffle, channel, s);
    }
    x = k_expr(k, "$ * # + $", channel, xl->stride[1], x);
    w = k_expr(k, "$ * # + $", c, wl->stride[1], w);
    for (uint32_t i = 0; i < p->spatial; i++) {
        const uint32_t axis = i + 2;
        const int64_t stride = node_get_at(n, A_conv_strides, i, 1),
                      dilation = node_get_at(n, A_conv_dilations, i, 1);
        const KRef t = k_loop(k, ws->dim[axis], KFOR_SERIAL, i == 0 ? "k0" : i == 1 ? "k1" : "k2");
        const KRef pos = k_expr(k, "$ * # + ($ * # + #)", t, dilation, at.idx[axis], stride,
                                -node_get_at(n, A_conv_pads, i, 0));
        k_if(k, inside(k, pos, xs->dim[axis]));
        x = k_expr(k, "$ * # + $", pos, xl->stride[axis], x);
        w = k_expr(k, "$ * # + $", t, wl->stride[axis], w);
    }
    const KRef xv = k_load(k, lower_param(l, p->c->x, PARAM_READ), x, 1, 1);
    const KRef wv = k_load(k, lower_param(l, p->c->w, PARAM_READ), w, 1, 1);
    k_set(k, acc, k_fma(k, xv, wv, k_get(k, acc)));
    for (uint32_t i = 0; i < 2 * p->spatial + 1; i++)
        k_end(k);
    return k_get(k, acc);
}

bool conv_comes_from_bf16(const Graph *g, const PassOptions *o, const Node *n)
{
    return n->op == OP_conv && o->caps->has_matrix && conv_is_of_bf16(g, n);
}

void lower_conv(Lower *l)
{
    Conv c = conv_of(l, l->anchor);
    c.s.is_bf16 = conv_comes_from_bf16(l->g, l->pass->options, lower_node(l, l->anchor));
    Domain d = domain_of_root(l);
    rlx_assert(c.s.kh >= 1 && c.s.kw >= 1 && c.shuffle >= 1);
    l->pk->macs += (uint64_t)shape_numel(lower_node(l, l->anchor)->shape) *
                   (uint64_t)(shape_numel(lower_node(l, c.w)->shape) / lower_node(l, c.w)->shape->dim[0]);
    const bool in_order = c.shuffle == 1;
    if (d.live[0].size != 0 && c.s.n > 1)
        c.images = lower_live(l, &d.live[0], c.s.n);
    if (gpu_conv_lower(l, &c) || gpu_depthwise_lower(l, &c, &d) || gpu_few_conv_lower(l, &c, &d) ||
        gpu_window_conv_lower(l, &c, &d))
        return;
    if (conv_rows(l, &c, &d))
        return;
    if (in_order && depthwise_fits(l, &c) && domain_lanes(l, &d, 1) > 1) {
        emit_depthwise(l, &c, &d);
        return;
    }
    taps_to_channels(&c);
    c.has_pairs = conv_takes_pairs(l, &c);
    const bool is_whole = l->whole[l->anchor], has_tiles = can_tile(l, &c, &d);
    const bool has_matrix = has_tiles && !is_whole && has_matrix_groups(l, &c);
    const bool is_free = l->strip.window == NULL && !lower_goes_by_rows(l);
    if (is_free && in_order && !is_whole && !has_matrix && winograd_lower(l, &c, &d))
        return;
    if (!has_tiles) {
        Plain p = {&c, lower_node(l, c.x)->shape->rank - 2};
        lower_map(l, plain_conv, &p, MAP_SCALAR);
        return;
    }
    if (is_free) {
        join_rows(&c, &d);
        join_images(&c, &d);
    }
    ConvStore store = {.d = d};
    if (has_matrix && in_order && is_free)
        emit_matrix_groups(l, &c, &store);
    else
        emit_tiled_groups(l, &c, &store);
}
