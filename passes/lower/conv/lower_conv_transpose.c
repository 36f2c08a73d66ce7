// SPDX-License-Identifier: Apache-2.0
// Transposed convolution. A result position o gets x[i] * w[k] wherever i * stride + k * dilation = o + pad.
// All positions with the same remainder by the stride (a phase) meet the same taps, in falling order of i:
// each phase is a plain convolution with stride 1 over some of the taps, so with constant weights the
// register-tiled core does one per phase. Everything else takes plain loops that test every tap.
// Accumulation: f32 fused multiply-adds from the bias, by tap and channel.
#include "ir/shape/forms.h"
#include "passes/lower/operand.h"
#include "passes/lower/packer.h"
#include "passes/lower/tile/tile.h"

enum { MAX_TILED_GROUPS = 8, MAX_PHASES = 64 };

typedef struct Transposed {
    NodeId x, w, bias;     // bias 0 = none
    WindowForm form;
    int64_t ic, oc; // channels of one group
    uint32_t spatial;
    Domain d;
} Transposed;

// --- phases ---

// One remainder along one spatial axis: result positions first, first + stride ...; taps tap, tap - tap_step
// ... (falling), of which the first reads the input at (position in the phase) - pad, the next ones
// `dilation` further each.
typedef struct Phase {
    int64_t first, stride, count;
    int64_t taps, tap, tap_step, dilation, pad;
    int64_t in; // size of the input axis
} Phase;

// Axes that do not exist have one element and one tap.
static Phase phase_of(const Lower *l, const Transposed *t, int64_t axis, int64_t remainder)
{
    Phase p = {.first = remainder, .stride = 1, .count = 1, .taps = 1, .dilation = 1, .in = 1};
    if (axis < 0)
        return p;
    const uint32_t a = (uint32_t)axis;
    const int64_t s = t->form.stride[a], d = t->form.dilation[a];
    const int64_t pad = t->form.pad[a], out = lower_node(l, l->anchor)->shape->dim[a + 2];
    const int64_t kernel = lower_node(l, t->w)->shape->dim[a + 2];
    p.stride = s;
    p.count = remainder < out ? (out - remainder + s - 1) / s : 0;
    p.in = lower_node(l, t->x)->shape->dim[a + 2];
    p.taps = 0;
    int64_t first_tap = -1;
    for (int64_t k = 0; k < kernel; k++) {
        if ((remainder + pad - k * d) % s != 0)
            continue;
        if (p.taps == 1)
            p.tap_step = k - first_tap;
        first_tap = p.taps == 0 ? k : first_tap;
        p.tap = k;
        p.taps++;
    }
    p.dilation = p.taps > 1 ? p.tap_step * d / s : 1;
    p.pad = -((remainder + pad - p.tap * d) / s); // exact
    return p;
}

typedef struct PhaseStore {
    const Transposed *t;
    Phase h, w;
    KRef first_channel;
} PhaseStore;

static Point result_point(Kernel *k, const PhaseStore *s, KRef image, KRef channel, const KRef *place)
{
    Point at = {.lanes = 1, .count = 1, .vec_axis = 1};
    at.idx[0] = image;
    at.idx[1] = k_add(k, s->first_channel, channel);
    at.idx[s->t->d.rank - 1] = k_expr(k, "$ * # + #", place[1], s->w.stride, s->w.first);
    if (s->t->spatial == 2)
        at.idx[2] = k_expr(k, "$ * # + #", place[0], s->h.stride, s->h.first);
    return at;
}

static void store_phase(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const PhaseStore *s = ctx;
    const KRef place[2] = {out->row, out->column};
    Point at = result_point(l->k, s, out->image, out->channel, place);
    at.lanes = out->lanes;
    at.count = out->count;
    pull_store_root(l, &s->t->d, at, value);
}

static TileShape phase_shape(const Lower *l, const Transposed *t, const Phase *h, const Phase *w)
{
    return (TileShape){.n = lower_node(l, t->x)->shape->dim[0],
                       .h = h->count,
                       .w = w->count,
                       .in_h = h->in,
                       .in_w = w->in,
                       .ic = t->ic,
                       .oc = t->oc,
                       .kh = h->taps,
                       .kw = w->taps,
                       .sh = 1,
                       .sw = 1,
                       .dh = h->dilation,
                       .dw = w->dilation,
                       .pad_h = h->pad,
                       .pad_w = w->pad};
}

// A phase without taps: the bias, or 0.
static void fill_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const PhaseStore *s = ctx;
    Kernel *k = l->k;
    const KRef place[2] = {at.idx[2], at.idx[3]};
    Point to = result_point(k, s, at.idx[0], at.idx[1], place);
    to.lanes = at.lanes;
    to.count = at.count;
    (void)d;
    const KRef value = s->t->bias != 0 ? operand_load(l, s->t->bias, to.idx[1], &at, 1)
                                       : k_splat(k, k_number(k, DTYPE_f32, 0), at.lanes);
    pull_store_root(l, &s->t->d, to, value);
}

static void emit_empty_phase(Lower *l, PhaseStore *s, uint8_t lanes)
{
    const Domain d = {.rank = 4, .extent = {s->t->d.extent[0], s->t->oc, s->h.count, s->w.count}};
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    for (uint32_t i = 0; i < 4; i++)
        opened += i == 1 ? 0 : lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    lower_along(l, &d, 1, lanes, at, fill_point, s);
    lower_close(l, opened);
}

static TileWeights pack_phase(Lower *l, const Transposed *t, const Tile *tile, const PhaseStore *s,
                              int64_t group)
{
    const Shape *ws = lower_node(l, t->w)->shape;
    const bool is_const = node_is_const(l->g, t->w);
    const int64_t kw = ws->dim[ws->rank - 1], kh = t->spatial == 2 ? ws->dim[2] : 1, taps = kh * kw;
    const int64_t dense[] = {t->oc * taps, taps, t->spatial == 2 ? kw : 1, 1};
    const int64_t *stride = is_const ? dense : lower_loc(l, t->w)->stride;
    const int64_t row = t->spatial == 2 ? stride[2] : 0, column = stride[t->spatial + 1];
    const int64_t first = group * t->ic * stride[0] + s->h.tap * row + s->w.tap * column;
    TileSource src = {.stride_oc = stride[1],
                      .stride_ic = stride[0],
                      .stride_kh = -s->h.tap_step * row,
                      .stride_kw = -s->w.tap_step * column};
    if (!is_const)
        return tile_pack_lasting(tile, &src, t->w, first);
    src.data = (const float *)node_attr(lower_node(l, t->w), A_const_data)->u.blob + first;
    return tile_pack(tile, &src, node_name(l->g, t->w));
}

static void emit_phase(Lower *l, const Transposed *t, PhaseStore *s, int64_t group)
{
    Kernel *k = l->k;
    const Loc *x = lower_loc(l, t->x);
    const uint32_t last = t->spatial + 1;
    Tile tile = tile_new(l, phase_shape(l, t, &s->h, &s->w));
    s->first_channel = k_index(k, group * t->oc);
    if (s->h.count == 0 || s->w.count == 0)
        return;
    if (s->h.taps == 0 || s->w.taps == 0) {
        emit_empty_phase(l, s, tile.lanes);
        return;
    }
    tile.in = (TileInput){.param = lower_param(l, t->x, PARAM_READ),
                          .stride_n = x->stride[0],
                          .stride_c = x->stride[1],
                          .stride_h = t->spatial == 2 ? x->stride[2] : 0,
                          .stride_w = x->stride[last],
                          .base = k_index(k, group * t->ic * x->stride[1])};
    tile.w = pack_phase(l, t, &tile, s, group);
    tile.has_bias = t->bias != 0;
    if (tile.has_bias)
        tile.bias = lower_param(l, t->bias, PARAM_READ);
    tile.bias_base = s->first_channel;
    tile.store = store_phase;
    tile.ctx = s;
    tile_emit(&tile);
}

static bool can_tile(Lower *l, const Transposed *t)
{
    int64_t phases = 1;
    for (uint32_t i = 0; i < t->spatial; i++)
        phases *= t->form.stride[i] <= MAX_PHASES ? t->form.stride[i] : MAX_PHASES + 1;
    if (l->caps->is_gpu || t->spatial > 2 || (!node_is_const(l->g, t->w) && !packer_can_pack(l, t->w)) ||
        lower_node(l, l->anchor)->dtype != DTYPE_f32)
        return false;
    if (phases > MAX_PHASES || t->form.group > MAX_TILED_GROUPS || t->ic == 0 ||
        (t->bias != 0 && !operand_has_vectors(l, t->bias, 0)))
        return false;
    return lower_fit_lanes(l, t->oc) == 1 || domain_lanes(l, &t->d, 1) > 1;
}

static void lower_phases(Lower *l, const Transposed *t)
{
    const bool has_rows = t->spatial == 2;
    const int64_t sh = has_rows ? t->form.stride[0] : 1, sw = t->form.stride[has_rows ? 1 : 0];
    for (int64_t g = 0; g < t->form.group; g++)
        for (int64_t h = 0; h < sh; h++)
            for (int64_t w = 0; w < sw; w++) {
                PhaseStore s = {.t = t,
                                .h = phase_of(l, t, has_rows ? 0 : -1, h),
                                .w = phase_of(l, t, has_rows ? 1 : 0, w)};
                emit_phase(l, t, &s, g);
            }
}

// --- plain loops ---

// Opens a loop over the taps of one axis and a test that the tap meets an input position; returns that
// position.
static KRef open_taps(Lower *l, const Transposed *t, uint32_t axis, KRef out, KRef *tap)
{
    Kernel *k = l->k;
    const int64_t s = t->form.stride[axis], d = t->form.dilation[axis];
    const KRef zero = k_index(k, 0), kernel = k_index(k, lower_node(l, t->w)->shape->dim[axis + 2]);
    *tap = k_for(k, zero, kernel, 1, KFOR_SERIAL, axis == 0 ? "k0" : axis == 1 ? "k1" : "k2");
    const KRef base = k_expr(k, "$ + #", out, t->form.pad[axis]);
    const KRef v = k_expr(k, "$ - $ * #", base, *tap, d), stride = k_index(k, s);
    const KRef end = k_index(k, lower_node(l, t->x)->shape->dim[axis + 2] * s);
    const KRef is_inside = k_expr(k, "$ <= $ & $ < $", zero, v, v, end);
    k_if(k, k_expr(k, "$ & $ % $ == $", is_inside, v, stride, zero));
    return k_div(k, v, stride);
}

static KRef plain_point(Lower *l, const Domain *domain, Point at, void *ctx)
{
    const Transposed *t = ctx;
    Kernel *k = l->k;
    const int dtype = lower_node(l, l->anchor)->dtype;
    const KRef group = k_expr(k, "$ / #", at.idx[1], t->oc), channel = k_expr(k, "$ % #", at.idx[1], t->oc);
    KRef x[SHAPE_MAX_RANK] = {at.idx[0]}, w[SHAPE_MAX_RANK] = {0, channel};
    (void)domain;
    const KRef init = t->bias != 0 ? k_load(k, lower_param(l, t->bias, PARAM_READ),
                                            operand_index(l, t->bias, &at.idx[1]), 1, 1)
                                   : k_number(k, dtype, 0);
    const KRef acc = k_var(k, init, "acc");
    for (uint32_t i = 0; i < t->spatial; i++)
        x[i + 2] = open_taps(l, t, i, at.idx[i + 2], &w[i + 2]);
    const KRef c = k_loop(k, t->ic, KFOR_SERIAL, "c");
    x[1] = w[0] = k_expr(k, "$ * # + $", group, t->ic, c);
    const KRef xv = k_load(k, lower_param(l, t->x, PARAM_READ), operand_index(l, t->x, x), 1, 1);
    const KRef wv = k_load(k, lower_param(l, t->w, PARAM_READ), operand_index(l, t->w, w), 1, 1);
    k_set(k, acc, k_fma(k, xv, wv, k_get(k, acc)));
    for (uint32_t i = 0; i < 2 * t->spatial + 1; i++)
        k_end(k);
    return k_get(k, acc);
}

void lower_conv_transpose(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *x = lower_node(l, n->src[0])->shape, *w = lower_node(l, n->src[1])->shape;
    rlx_assert(x->rank >= 3 && w->rank == x->rank);
    rlx_assert(node_get_int(n, A_conv_transpose_group) >= 1);
    Transposed t = {.x = n->src[0],
                    .w = n->src[1],
                    .bias = n->n_src > 2 ? n->src[2] : 0,
                    .form = window_form(n),
                    .oc = w->dim[1],
                    .spatial = x->rank - 2,
                    .d = domain_of(lower_node(l, l->root)->shape)};
    t.ic = x->dim[1] / t.form.group;
    domain_add(l, &t.d, l->root);
    domain_add_operands(l, &t.d, l->root);
    l->pk->macs = (uint64_t)shape_numel(x) * (uint64_t)(w->dim[0] == 0 ? 0 : shape_numel(w) / w->dim[0]);
    if (can_tile(l, &t))
        lower_phases(l, &t);
    else
        lower_map(l, plain_point, &t, MAP_SCALAR);
}
