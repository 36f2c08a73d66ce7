// SPDX-License-Identifier: Apache-2.0
// Transposed convolution. A result position o gets x[i] * w[k] wherever i * stride + k * dilation = o + pad.
// All positions with the same remainder by the stride (a phase) meet the same taps, in falling order of i:
// each phase is a plain convolution with stride 1 over some of the taps, so the register-tiled core does one
// per phase, or the depthwise schedule where each group has one channel. Neighbouring phases whose taps
// differ by one position only are one text: a loop over them, or, along the last axis of an image in rows
// whose groups have one output channel, the channels of the tiles. GPUs have all phases in one product
// (gpu_deconv.c), and matrix registers of CPUs all phases that are alike, as channels. Everything else takes
// plain loops that test every tap. Accumulation: f32 fused multiply-adds from the bias, by tap and channel;
// the bias comes last where phases are channels.
#include "passes/lower/amx/matrix.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/halves.h"
#include "passes/lower/operand.h"
#include "passes/lower/tile/tile.h"
#include <string.h>

enum {
    MAX_PHASES = 64, // that have text of their own
    FEW_PHASES = 4,  // so many have it in any case
    MAX_SPATIAL = SHAPE_MAX_RANK - 2,
    LEAST_BESIDE = 4, // steps of the stride that make vectors
};

// --- phases ---

// One remainder along one spatial axis: result positions first, first + stride ...; taps tap, tap - tap_step
// ... (falling), of which the first reads the input at (position in the phase) - pad, the next ones
// `dilation` further each.
typedef struct Phase {
    int64_t first, stride, count;
    int64_t taps, tap, tap_step, dilation, pad;
    int64_t in; // size of the input axis
    int64_t alike; // so many phases from this one on: the next one has tap + 1 and first + 1
} Phase;

static Phase phase_of(const Lower *l, const Transposed *t, uint32_t a, int64_t remainder)
{
    const int64_t s = t->form.stride[a], d = t->form.dilation[a];
    const int64_t pad = t->form.pad[a], out = lower_node(l, l->anchor)->shape->dim[a + 2];
    const int64_t kernel = lower_node(l, t->w)->shape->dim[a + 2];
    Phase p = {.first = remainder, .stride = s, .alike = 1, .in = lower_node(l, t->x)->shape->dim[a + 2]};
    p.count = remainder < out ? (out - remainder + s - 1) / s : 0;
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

static bool is_next(const Phase *p, const Phase *next)
{
    return next->count == p->count && next->taps == p->taps && next->pad == p->pad &&
           (p->taps == 0 || next->tap == p->tap + p->alike) && next->tap_step == p->tap_step &&
           next->dilation == p->dilation;
}

typedef struct Phases {
    uint32_t n; // MAX_PHASES + 1: too many
    Phase of[MAX_PHASES];
} Phases;

// The phases of an axis, neighbours that are alike as one if they may be joined.
static void find_phases(const Lower *l, const Transposed *t, uint32_t axis, bool may_join, Phases *out)
{
    out->n = 0;
    for (int64_t i = 0; i < t->form.stride[axis]; i++) {
        const Phase p = phase_of(l, t, axis, i);
        if (may_join && out->n > 0 && is_next(&out->of[out->n - 1], &p)) {
            out->of[out->n - 1].alike++;
            continue;
        }
        if (out->n == MAX_PHASES) {
            out->n++;
            return;
        }
        out->of[out->n++] = p;
    }
}

typedef struct PhaseStore {
    const Transposed *t;
    bool is_beside;           // the phases of the last axis are channels
    Phase phase[MAX_SPATIAL]; // by spatial axis
    KRef later[MAX_SPATIAL];  // so many phases behind that one
    uint32_t opened;          // loops over phases
    uint32_t bias;            // parameter
    KRef image;               // 0: the loops over images are inside
    KRef first_channel;
} PhaseStore;

// The phases that are alike and not channels; the result counts them together.
static KRef open_phases(Kernel *k, PhaseStore *s)
{
    KRef version = k_index(k, 0);
    s->opened = 0;
    for (uint32_t i = 0; i < s->t->spatial; i++) {
        const int64_t n = s->is_beside && i + 1 == s->t->spatial ? 1 : s->phase[i].alike;
        s->later[i] = lower_open_count(k, n, KFOR_PARALLEL, "later", &s->opened);
        version = k_expr(k, "$ * # + $", version, n, s->later[i]);
    }
    return version;
}

static void set_place(Kernel *k, const PhaseStore *s, uint32_t axis, KRef place, Point *at)
{
    at->idx[axis + 2] =
        k_expr(k, "$ * # + ($ + #)", place, s->phase[axis].stride, s->later[axis], s->phase[axis].first);
}

// The channel of a phase is how far it is from the first one.
static void set_beside(Kernel *k, const PhaseStore *s, KRef channel, Point *at)
{
    at->vec_axis = s->t->spatial + 1;
    at->idx[at->vec_axis] = k_add(k, at->idx[at->vec_axis], channel);
}

static KRef bias_of(Lower *l, const PhaseStore *s, KRef channel, uint8_t lanes)
{
    const KRef index = k_expr(l->k, "$ * #", channel, lower_loc(l, s->t->bias)->stride[0]);
    return k_splat(l->k, k_load(l->k, s->bias, index, 1, 1), lanes);
}

static void store_phase(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const PhaseStore *s = ctx;
    const uint32_t spatial = s->t->spatial;
    Point at = {.lanes = out->lanes, .count = out->count, .vec_axis = 1};
    at.idx[0] = s->image != 0 ? s->image : out->image;
    at.idx[1] = s->is_beside ? s->first_channel : k_add(l->k, s->first_channel, out->channel);
    for (uint32_t i = 0; i + 2 < spatial; i++)
        set_place(l->k, s, i, out->outer[i], &at);
    if (spatial > 1)
        set_place(l->k, s, spatial - 2, out->row, &at);
    set_place(l->k, s, spatial - 1, out->column, &at);
    if (s->is_beside)
        set_beside(l->k, s, out->channel, &at);
    if (s->is_beside && s->t->bias != 0)
        value = k_add(l->k, value, bias_of(l, s, s->first_channel, at.lanes));
    pull_store_root(l, &s->t->d, at, value);
}

static TileAxis axis_of(const Phase *p)
{
    return (TileAxis){.out = p->count,
                      .in = p->in,
                      .kernel = p->taps,
                      .stride = 1,
                      .dilation = p->dilation,
                      .pad = p->pad};
}

// A phase as a convolution.
static Conv phase_conv(const Lower *l, const Transposed *t, const PhaseStore *s)
{
    TileAxis axis[MAX_SPATIAL];
    Conv c = {.x = t->x, .w = t->w, .bias = t->bias, .group = t->form.group, .shuffle = 1,
              .has_pairs = t->has_pairs};
    for (uint32_t i = 0; i < t->spatial; i++)
        axis[i] = axis_of(&s->phase[i]);
    conv_set_axes(&c, lower_loc(l, t->x), axis, t->spatial);
    c.s.n = s->image != 0 ? 1 : lower_node(l, t->x)->shape->dim[0];
    c.s.ic = t->ic;
    c.s.oc = s->is_beside ? s->phase[t->spatial - 1].alike : t->oc;
    return c;
}

// A phase without taps: the bias, or 0.
static void fill_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const PhaseStore *s = ctx;
    Kernel *k = l->k;
    Point to = {.lanes = at.lanes, .count = at.count, .vec_axis = 1};
    to.idx[0] = at.idx[0];
    to.idx[1] = at.idx[1];
    for (uint32_t i = 0; i < s->t->spatial; i++)
        set_place(k, s, i, at.idx[i + 2], &to);
    if (s->is_beside)
        set_beside(k, s, at.idx[d->rank - 1], &to);
    const KRef value = s->t->bias == 0 ? k_splat(k, k_number(k, DTYPE_f32, 0), at.lanes)
                       : s->is_beside  ? bias_of(l, s, to.idx[1], at.lanes)
                                       : operand_load(l, s->t->bias, to.idx[1], &at, 1);
    pull_store_root(l, &s->t->d, to, value);
}

static void emit_empty_phase(Lower *l, PhaseStore *s)
{
    const uint32_t last = s->t->spatial + 2, inner = s->is_beside ? last : 1;
    Domain d = {.rank = last + s->is_beside, .extent = {s->t->d.extent[0], s->t->d.extent[1]}};
    Point at = {.lanes = 1, .count = 1};
    for (uint32_t i = 0; i < s->t->spatial; i++)
        d.extent[i + 2] = s->phase[i].count;
    if (s->is_beside)
        d.extent[last] = s->phase[s->t->spatial - 1].alike;
    open_phases(l->k, s);
    uint32_t opened = 0;
    for (uint32_t i = 0; i < d.rank; i++)
        opened += i == inner ? 0 : lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    const bool has_vectors = s->is_beside || domain_lanes(l, &s->t->d, 1) > 1;
    lower_along(l, &d, inner, has_vectors ? lower_fit_lanes(l, d.extent[inner]) : 1, at, fill_point, s);
    lower_close(l, opened);
    k_ends(l->k, s->opened);
}

// The weights of a phase: element (ic, oc, k ...) of the operand, with channels of a group.
static TileSource phase_weights(const Lower *l, const Transposed *t, const PhaseStore *s)
{
    const Shape *shape = lower_node(l, t->w)->shape;
    const bool is_const = node_is_const(l->g, t->w);
    int64_t stride[SHAPE_MAX_RANK] = {0}, dense = 1;
    for (uint32_t i = shape->rank; i-- > 0; dense *= shape->dim[i])
        stride[i] = is_const ? dense : lower_loc(l, t->w)->stride[i];
    TileSource src = {.stride_oc = stride[1],
                      .stride_ic = stride[0],
                      .groups = t->form.group,
                      .stride_group = t->ic * stride[0]};
    for (uint32_t i = 0; i < t->spatial; i++) {
        int64_t *to = &src.stride_outer[i < TILE_MAX_OUTER ? i : 0];
        to = i + 1 == t->spatial ? &src.stride_kw : i + 2 == t->spatial ? &src.stride_kh : to;
        *to = -s->phase[i].tap_step * stride[i + 2];
        src.first += s->phase[i].tap * stride[i + 2];
        src.versions[i] = s->phase[i].alike;
        src.stride_version[i] = stride[i + 2];
    }
    if (s->is_beside) {
        src.versions[t->spatial - 1] = 1;
        src.stride_oc = stride[t->spatial + 1];
    }
    if (is_const)
        src.data = (const float *)node_attr(lower_node(l, t->w), A_const_data)->u.blob + src.first;
    return src;
}

static void emit_tiles(Lower *l, const Conv *conv, const TileSource *src, PhaseStore *s)
{
    Kernel *k = l->k;
    Conv own = *conv;
    const Conv *c = &own;
    if (c->has_pairs)
        conv_read_pairs(l, &own);
    Tile tile = tile_new(l, c->s);
    tile.in = conv_tile_input(l, c);
    tile.in.param = c->has_pairs ? s->t->pairs : tile.in.param;
    tile_take_dots(&tile);
    tile.w = node_is_const(l->g, c->w) ? tile_pack(&tile, src, node_name(l->g, c->w))
                                       : tile_pack_stored(&tile, src, c->w);
    tile.has_bias = c->bias != 0 && !s->is_beside;
    tile.bias = s->bias;
    const KRef version = open_phases(k, s);
    const KRef group = c->group == 1 ? k_index(k, 0) : k_loop(k, c->group, KFOR_PARALLEL, "g");
    tile.in.base = k_expr(k, "$ * #", group, c->s.ic * c->stride_c);
    if (s->image != 0)
        tile.in.base = k_expr(k, "$ * # + $", s->image, tile.in.stride_n, tile.in.base);
    tile.w.base = k_expr(k, "($ * # + $) * #", version, c->group, group, tile_packed_elements(&tile));
    tile.bias_base = s->first_channel = k_expr(k, "$ * #", group, s->t->oc);
    tile.store = store_phase;
    tile.ctx = s;
    tile_emit(&tile);
    k_ends(k, s->opened + (c->group > 1));
}

static void emit_phase(Lower *l, PhaseStore *s)
{
    int64_t taps = 1, alike = 1;
    for (uint32_t i = 0; i < s->t->spatial; i++) {
        taps *= s->phase[i].taps;
        alike *= s->phase[i].alike;
        s->later[i] = k_index(l->k, 0);
        if (s->phase[i].count == 0)
            return;
    }
    s->first_channel = k_index(l->k, 0);
    s->bias = s->t->bias != 0 ? lower_param(l, s->t->bias, PARAM_READ) : 0;
    if (taps == 0) {
        emit_empty_phase(l, s);
        return;
    }
    const Conv c = phase_conv(l, s->t, s);
    const TileSource src = phase_weights(l, s->t, s);
    if (alike == 1 && !s->is_beside && depthwise_fits(l, &c) && domain_lanes(l, &s->t->d, 1) > 1)
        depthwise_emit(l, &c, &src, store_phase, s);
    else
        emit_tiles(l, &c, &src, s);
}

// --- on matrix registers -------------------------------------------------------------------------

static int64_t count_alike(const PhaseStore *s)
{
    int64_t all = 1;
    for (uint32_t i = 0; i < s->t->spatial; i++)
        all *= s->phase[i].alike;
    return all;
}

// Channels are those of one phase after the other.
static void store_alike(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    Kernel *k = l->k;
    PhaseStore s = *(const PhaseStore *)ctx;
    KRef version = k_expr(k, "$ / #", out->channel, s.t->oc);
    TileOut own = *out;
    own.channel = k_expr(k, "$ % #", out->channel, s.t->oc);
    for (uint32_t i = s.t->spatial; i-- > 0;) {
        s.later[i] = k_expr(k, "$ % #", version, s.phase[i].alike);
        version = k_expr(k, "$ / #", version, s.phase[i].alike);
    }
    const Point at = {.lanes = out->lanes, .count = out->count, .vec_axis = 1};
    if (s.t->bias != 0)
        value = k_add(k, value, operand_load(l, s.t->bias, own.channel, &at, 1));
    store_phase(l, &own, value, &s);
}

// The weights of all phases that are alike, as bf16: [phase and channel][taps][channel of the input].
static TileSource weights_of_alike(const Lower *l, const Conv *c, const PhaseStore *s)
{
    const TileSource from = phase_weights(l, s->t, s);
    const bool has_slices = c->s.n_outer > 0;
    const int64_t slices = has_slices ? c->s.outer[0].kernel : 1, taps = slices * c->s.kh * c->s.kw;
    const float *first = from.data;
    uint16_t *to = ARENA_ARRAY(l->pass->perm, uint16_t, c->s.oc * taps * c->s.ic), *next = to;
    for (int64_t o = 0; o < c->s.oc; o++) {
        const float *own = first + o % s->t->oc * from.stride_oc;
        for (int64_t i = s->t->spatial, left = o / s->t->oc; i-- > 0; left /= s->phase[i].alike)
            own += left % s->phase[i].alike * from.stride_version[i];
        for (int64_t t = 0; t < taps; t++) {
            const int64_t kw = t % c->s.kw, kh = t / c->s.kw % c->s.kh, kd = t / c->s.kw / c->s.kh;
            const float *tap = own + kw * from.stride_kw + kh * from.stride_kh + kd * from.stride_outer[0];
            for (int64_t i = 0; i < c->s.ic; i++, next++)
                halves_copy(next, DTYPE_bf16, tap + i * from.stride_ic, DTYPE_f32, 0);
        }
    }
    return (TileSource){.data = to, .stride_oc = taps * c->s.ic, .stride_ic = 1, .stride_kw = c->s.ic,
                        .stride_kh = c->s.kw * c->s.ic, .stride_outer = {c->s.kh * c->s.kw * c->s.ic}};
}

static Conv conv_of_alike(const Lower *l, const PhaseStore *s)
{
    Conv c = phase_conv(l, s->t, s);
    c.s.is_bf16 = true;
    c.s.oc = count_alike(s) * s->t->oc;
    return c;
}

static void emit_alike(Lower *l, PhaseStore *s)
{
    const Conv c = conv_of_alike(l, s);
    Tile tile = tile_new(l, c.s);
    const TileSource weights = weights_of_alike(l, &c, s);
    tile.in = conv_tile_input(l, &c);
    tile.in.base = s->first_channel = k_index(l->k, 0);
    tile.store = store_alike;
    tile.ctx = s;
    matrix_emit(&tile, &weights, node_name(l->g, c.w));
}

// The first phase as a convolution.
static Conv first_conv(const Lower *l, const Transposed *t)
{
    PhaseStore s = {.t = t};
    for (uint32_t i = 0; i < t->spatial; i++)
        s.phase[i] = phase_of(l, t, i, 0);
    return phase_conv(l, t, &s);
}

bool conv_goes_to_matrix(const Graph *g, const PassOptions *o, const Node *n)
{
    return n->op == OP_conv_transpose && o->caps->has_matrix && window_form(n).group == 1 &&
           conv_is_of_bf16(g, n);
}

bool conv_can_make_steps(const Graph *g, const Node *n)
{
    const uint32_t last = n->shape->rank - 3;
    if (n->op != OP_conv_transpose || n->dtype != DTYPE_f32)
        return false;
    const WindowForm form = window_form(n);
    return graph_node(g, n->src[1])->shape->dim[1] == 1 && form.dilation[last] == 1 &&
           form.stride[last] >= LEAST_BESIDE;
}

// How the phases are lowered.
typedef struct PhasePlan {
    bool is_beside;
    int64_t phases; // that have text of their own
    Phases axis[MAX_SPATIAL];
} PhasePlan;

static PhasePlan *plan_phases(Lower *l, const Transposed *t, bool joins)
{
    PhasePlan *p = ARENA_NEW(l->pass->scratch, PhasePlan);
    const Conv first = first_conv(l, t);
    int64_t all = 1;
    for (uint32_t i = 0; i < t->spatial && all <= FEW_PHASES; i++)
        all *= t->form.stride[i];
    p->is_beside = conv_can_make_steps(l->g, lower_node(l, l->anchor)) &&
                   domain_lanes(l, &t->d, t->spatial + 1) > 1;
    const bool may_join = joins || p->is_beside || (all > FEW_PHASES && !depthwise_fits(l, &first));
    p->phases = 1;
    for (uint32_t i = 0; i < t->spatial && p->phases <= MAX_PHASES; i++) {
        find_phases(l, t, i, may_join, &p->axis[i]);
        p->phases *= p->axis[i].n;
    }
    return p;
}

static bool can_tile(Lower *l, const Transposed *t, const PhasePlan *p)
{
    if (!conv_can_pack(l, t->w) || p->phases > MAX_PHASES || conv_has_many_groups(l, t->form.group) ||
        t->ic == 0)
        return false;
    if (p->is_beside)
        return true;
    return (t->bias == 0 || operand_has_vectors(l, t->bias, 0)) &&
           (lower_fit_lanes(l, t->oc) == 1 || domain_lanes(l, &t->d, 1) > 1);
}

// The n-th of the phases that have text of their own, the last axis running fastest.
static PhaseStore phase_number(const Transposed *t, const PhasePlan *p, int64_t n)
{
    PhaseStore s = {.t = t, .is_beside = p->is_beside};
    for (uint32_t i = t->spatial; i-- > 0; n /= p->axis[i].n)
        s.phase[i] = p->axis[i].of[n % p->axis[i].n];
    return s;
}

static bool has_taps(const PhaseStore *s)
{
    bool all = true;
    for (uint32_t i = 0; i < s->t->spatial; i++)
        all = all && s->phase[i].taps > 0 && s->phase[i].count > 0;
    return all;
}

// Are all phases products for matrix registers?
static bool lower_on_matrix(Lower *l, const Transposed *t)
{
    if (!conv_goes_to_matrix(l->g, l->pass->options, lower_node(l, l->anchor)) ||
        t->oc % MATRIX_LANES != 0 || t->ic == 0 || t->spatial > 3 ||
        domain_lanes(l, &t->d, 1) != MATRIX_LANES || (t->bias != 0 && !operand_has_vectors(l, t->bias, 0)))
        return false;
    const PhasePlan *p = plan_phases(l, t, true);
    bool fits = !p->is_beside && p->phases <= FEW_PHASES * 2;
    for (int64_t i = 0; i < p->phases && fits; i++) {
        const PhaseStore s = phase_number(t, p, i);
        fits = has_taps(&s);
        if (!fits)
            break;
        const Conv c = conv_of_alike(l, &s);
        fits = matrix_is_worthwhile(l, &c.s, 0);
    }
    for (int64_t i = 0; i < p->phases && fits; i++) {
        PhaseStore s = phase_number(t, p, i);
        emit_alike(l, &s);
    }
    return fits;
}

// Does one image stay in a cache beside the weights, where all of them do not? From the third level on, what
// becomes of it counts as well: that is where results wait for the copy behind them.
static bool image_stays(const Lower *l, const Transposed *t)
{
    const Shape *x = lower_node(l, t->x)->shape;
    const int64_t l2 = (int64_t)l->caps->cpu.l2_bytes, l3 = (int64_t)l->caps->cpu.l3_bytes;
    const int64_t images = x->dim[0], read = shape_numel(x) * (int64_t)sizeof(float);
    const int64_t all = read + shape_numel(lower_node(l, l->anchor)->shape) * (int64_t)sizeof(float);
    const int64_t weights = shape_numel(lower_node(l, t->w)->shape) * (int64_t)sizeof(float);
    return images > 1 && ((read > l2 && read / images + weights <= l2 * 3 / 4) ||
                          (all > l3 && all / images + weights <= l3 / 2));
}

// Do all phases of an image follow each other? Then it comes from memory once.
static bool has_images_outside(const Lower *l, const Transposed *t, const PhasePlan *p)
{
    const Conv first = first_conv(l, t);
    bool fits = p->phases > 1 && !p->is_beside && image_stays(l, t) && !depthwise_fits(l, &first);
    for (int64_t n = 0; n < p->phases && fits; n++) {
        const PhaseStore s = phase_number(t, p, n);
        fits = has_taps(&s);
    }
    return fits;
}

// Phases in the order of their remainders, the last axis running fastest.
static void lower_phases(Lower *l, Transposed *t, const PhasePlan *p)
{
    Conv first = first_conv(l, t);
    first.has_pairs = t->has_pairs = !p->is_beside && conv_takes_pairs(l, &first);
    t->pairs = t->has_pairs ? conv_pair_image(l, &first) : 0;
    const bool is_outside = has_images_outside(l, t, p);
    const KRef image =
        is_outside ? k_loop(l->k, lower_node(l, t->x)->shape->dim[0], KFOR_PARALLEL, "image") : 0;
    for (int64_t n = 0; n < p->phases; n++) {
        PhaseStore s = phase_number(t, p, n);
        s.image = image;
        emit_phase(l, &s);
    }
    k_ends(l->k, is_outside);
}

static bool lower_in_tiles(Lower *l, Transposed *t)
{
    if (l->caps->is_gpu || lower_node(l, l->anchor)->dtype != DTYPE_f32)
        return false;
    if (lower_on_matrix(l, t))
        return true;
    const PhasePlan *p = plan_phases(l, t, false);
    if (!can_tile(l, t, p))
        return false;
    lower_phases(l, t, p);
    return true;
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
    if (!gpu_deconv_lower(l, &t) && !lower_in_tiles(l, &t))
        lower_map(l, plain_point, &t, MAP_SCALAR);
}
