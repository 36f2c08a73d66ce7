// SPDX-License-Identifier: Apache-2.0
// Convolutions of GPUs to up to three channels, of images with their channels last: a product would have a
// tile of which most columns are empty. Neighbouring threads, a team, have neighbouring vectors of channels
// of a few neighbouring pixels of a row, and add up what they have at the end. Inputs beyond the border are
// zeros in registers, so that all fetches are under way at once. Accumulation: f32 fused multiply-adds by
// channel vector, then tap, of each thread, joined by halves of the team; the bias is added last.
#include "ir/graph/tensor.h"
#include "ir/machine/machine.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/wide.h"
#include <math.h>

enum {
    MOST_OUTPUTS = 3,
    LEAST_CHANNELS = 8,
    LEAST_STEPS = 32, // of k
    MOST_PIXELS = 4,
    MOST_TEAM = 32,
    UNROLLED_TAPS = 9 // of a row
};

typedef struct FewConv {
    Lower *l;
    const Conv *c;
    const Domain *d;
    uint32_t n;             // channels of a vector
    int64_t pixels, team;   // of a run; threads of it
    uint32_t x, weights;
    KRef of_x, of_w, acc;   // arrays: n, n, pixels * outputs
    KRef lane, image, frame, row, column;
} FewConv;

// A tap of the kernel: where it is, in whole or in part a constant.
typedef struct FewTap {
    KRef frame, row, column; // frame: 0: there is one
    int64_t first, last;     // kernel columns that `column` is one of
} FewTap;

// A row of the input, or a plane of rows: the index of its first element, and whether it is there (0: it
// always is).
typedef struct FewRow {
    KRef first, inside;
} FewRow;

static bool is_finite(const Lower *l, NodeId id)
{
    const Tensor t = tensor_of_const(l->g, id);
    for (int64_t i = 0; i < t.numel; i++)
        if (!isfinite(tensor_get_f64(&t, i)))
            return false;
    return true;
}

static bool has_form(const Lower *l, const Conv *c, const Domain *d)
{
    const Node *x = lower_node(l, c->x), *w = lower_node(l, c->w);
    bool is_live = c->images != 0 || d->is_exact;
    for (uint32_t i = 0; i < d->rank; i++)
        is_live = is_live || d->live[i].size != 0;
    return l->caps->is_gpu && l->caps->shared_bytes != 0 && !is_live && l->strip.window == NULL &&
           c->bytes == NULL && c->group == 1 && c->shuffle == 1 && c->s.n_outer <= 1 && d->rank >= 3 &&
           c->s.oc <= MOST_OUTPUTS && c->s.ic >= LEAST_CHANNELS && c->stride_c == 1 &&
           shape_numel(w->shape) >= LEAST_STEPS * c->s.oc && dtype_info[x->dtype].cls == DCLASS_FLOAT &&
           x->dtype != DTYPE_f64 && w->dtype == x->dtype && node_is_const(l->g, c->w) &&
           !lower_is_in_file(l, c->w) && is_finite(l, c->w);
}

static int64_t runs_of(const FewConv *s)
{
    const TileShape *t = &s->c->s;
    return t->n * (t->n_outer != 0 ? t->outer[0].out : 1) * t->h * ceil_div(t->w, s->pixels);
}

static void choose(FewConv *s)
{
    enum { THREADS_OF_PROCESSOR = 512 };
    const int64_t wanted = (int64_t)s->l->caps->gpu->processors * THREADS_OF_PROCESSOR;
    s->team = 1;
    while (s->team < MOST_TEAM && s->team * s->n < s->c->s.ic)
        s->team *= 2;
    s->pixels = MOST_PIXELS;
    while (s->pixels > 1 && runs_of(s) * s->team < wanted)
        s->pixels /= 2;
}

// --- weights ---------------------------------------------------------------------------------------

static uint32_t packed_weights(const FewConv *s)
{
    const Node *w = lower_node(s->l, s->c->w);
    const TileShape *t = &s->c->s;
    const TapWeights taps = {node_attr(w, A_const_data)->u.blob, t->oc, t->ic,
                             shape_numel(w->shape) / (t->oc * t->ic), (DType)w->dtype};
    return conv_param_by_tap(s->l, &taps);
}

// --- one thread ------------------------------------------------------------------------------------

// Opens nothing where the place is always inside.
static KRef and_inside(Kernel *k, KRef so_far, KRef at, int64_t lowest, int64_t highest, int64_t size)
{
    if (lowest >= 0 && highest < size)
        return so_far;
    const KRef inside = k_expr(k, "0 <= $ & $ < #", at, at, size);
    return so_far == 0 ? inside : k_and(k, so_far, inside);
}

// The input of a pixel at a tap: its vector of channels, zeros beyond the border.
static void fetch_x(const FewConv *s, const FewTap *tap, int64_t pixel, KRef channel, FewRow row)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    const KRef at = k_expr(k, "$ * # + ($ * # + #)", s->column, t->sw, tap->column, t->dw,
                           pixel * t->sw - t->pad_w);
    const int64_t last = (t->w + s->pixels - 1) / s->pixels * s->pixels - s->pixels + pixel;
    const KRef inside = and_inside(k, row.inside, at, tap->first * t->dw + pixel * t->sw - t->pad_w,
                                   last * t->sw + tap->last * t->dw - t->pad_w, t->in_w);
    if (inside != 0) {
        const KRef j = k_loop(k, s->n, KFOR_UNROLL, "j");
        k_astore(k, s->of_x, j, k_number(k, k_inst(k, s->of_x)->dtype, 0));
        k_end(k);
        k_if(k, inside);
    }
    const KRef index = k_expr(k, "$ + ($ * # + $)", row.first, at, s->c->stride_w, channel);
    wide_load(s->l, s->x, index, s->of_x, 0, (WideSpan){.n = s->n, .piece = s->n});
    lower_close(s->l, inside != 0);
}

static void add_product(const FewConv *s, int64_t place)
{
    Kernel *k = s->l->k;
    const KRef j = k_loop(k, s->n, KFOR_UNROLL, "j"), at = k_index(k, place);
    const KRef x = k_cast(k, k_aload(k, s->of_x, j, 1), DTYPE_f32);
    const KRef of_output = k_expr(k, "$ + #", j, place % s->c->s.oc * s->n);
    const KRef w = k_cast(k, k_aload(k, s->of_w, of_output, 1), DTYPE_f32);
    k_astore(k, s->acc, at, k_fma(k, x, w, k_aload(k, s->acc, at, 1)));
    k_end(k);
}

static void add_tap(const FewConv *s, const FewTap *tap, KRef channel, FewRow row)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    KRef number = tap->frame == 0 ? tap->row : k_expr(k, "$ * # + $", tap->frame, t->kh, tap->row);
    number = k_expr(k, "$ * # + $", number, t->kw, tap->column);
    for (int64_t o = 0; o < t->oc; o++) {
        const KRef index = k_expr(k, "$ * # + ($ + #)", number, t->oc * t->ic, channel, o * t->ic);
        wide_load(s->l, s->weights, index, s->of_w, o * s->n, (WideSpan){.n = s->n, .piece = s->n});
    }
    for (int64_t p = 0; p < s->pixels; p++) {
        fetch_x(s, tap, p, channel, row);
        for (int64_t o = 0; o < t->oc; o++)
            add_product(s, p * t->oc + o);
    }
}

static void add_row(const FewConv *s, KRef frame, KRef kernel_row, KRef channel, FewRow plane)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    const KRef at = k_expr(k, "$ * # + ($ * # + #)", s->row, t->sh, kernel_row, t->dh, -t->pad_h);
    const int64_t last = (t->h - 1) * t->sh + (t->kh - 1) * t->dh - t->pad_h;
    const FewRow row = {k_expr(k, "$ * # + $", at, s->c->stride_h, plane.first),
                        and_inside(k, plane.inside, at, -t->pad_h, last, t->in_h)};
    if (t->kw > UNROLLED_TAPS) {
        const KRef i = k_loop(k, t->kw, KFOR_SERIAL, "tap");
        add_tap(s, &(FewTap){frame, kernel_row, i, 0, t->kw - 1}, channel, row);
        k_end(k);
        return;
    }
    for (int64_t i = 0; i < t->kw; i++)
        add_tap(s, &(FewTap){frame, kernel_row, k_index(k, i), i, i}, channel, row);
}

// All taps of a vector of channels.
static void add_vector(const FewConv *s, KRef channel)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    FewRow plane = {k_expr(k, "$ * # + $", s->image, s->c->stride_n, lower_base(s->l, s->c->x)), 0};
    KRef frame = 0;
    if (t->n_outer != 0) {
        const TileAxis *x = &t->outer[0];
        frame = k_loop(k, x->kernel, KFOR_SERIAL, "frame");
        const KRef at = k_expr(k, "$ * # + ($ * # + #)", s->frame, x->stride, frame, x->dilation, -x->pad);
        const int64_t last = (x->out - 1) * x->stride + (x->kernel - 1) * x->dilation - x->pad;
        plane.inside = and_inside(k, 0, at, -x->pad, last, x->in);
        plane.first = k_expr(k, "$ * # + $", at, s->c->stride_outer[0], plane.first);
    }
    const KRef row = t->kh > 1 ? k_loop(k, t->kh, KFOR_SERIAL, "row") : k_index(k, 0);
    add_row(s, frame, row, channel, plane);
    lower_close(s->l, (t->kh > 1 ? 1u : 0u) + (t->n_outer != 0 ? 1u : 0u));
}

// --- the kernel ------------------------------------------------------------------------------------

static void place_run(FewConv *s, KRef run)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    const int64_t of_row = ceil_div(t->w, s->pixels);
    s->column = k_expr(k, "$ % # * #", run, of_row, s->pixels);
    KRef rest = k_expr(k, "$ / #", run, of_row);
    s->row = k_expr(k, "$ % #", rest, t->h);
    rest = k_expr(k, "$ / #", rest, t->h);
    if (t->n_outer != 0) {
        s->frame = k_expr(k, "$ % #", rest, t->outer[0].out);
        rest = k_expr(k, "$ / #", rest, t->outer[0].out);
    }
    s->image = rest;
}

// A sum of the run, by one thread of the team.
static void store_sum(const FewConv *s, int64_t place, KRef is_run)
{
    Kernel *k = s->l->k;
    const int64_t pixel = place / s->c->s.oc, output = place % s->c->s.oc;
    KRef sum = k_team(k, KOP_add, k_aload(k, s->acc, k_index(k, place), 1), (uint32_t)s->team);
    const KRef column = k_expr(k, "$ + #", s->column, pixel);
    const KRef is_own = k_expr(k, "$ == #", s->lane, place % s->team);
    k_if(k, k_and(k, k_and(k, is_run, is_own), k_expr(k, "$ < #", column, s->c->s.w)));
    Point at = conv_point(s->d, s->image, k_index(k, output), s->row, column);
    if (s->c->s.n_outer != 0)
        at.idx[2] = s->frame;
    if (s->c->bias != 0) {
        const KRef index = k_index(k, output * lower_loc(s->l, s->c->bias)->stride[0]);
        const KRef bias = k_load(k, lower_param(s->l, s->c->bias, PARAM_READ), index, 1, 1);
        sum = k_add(k, sum, k_cast(k, bias, DTYPE_f32));
    }
    pull_store_root(s->l, s->d, at, k_cast(k, sum, lower_node(s->l, s->l->anchor)->dtype));
    k_end(k);
}

bool gpu_few_conv_lower(Lower *l, const Conv *c, const Domain *d)
{
    FewConv s = {.l = l, .c = c, .d = d};
    Domain in = domain_of(lower_node(l, c->x)->shape);
    if (!has_form(l, c, d))
        return false;
    domain_add(l, &in, c->x);
    s.n = wide_piece(l, &in, c->x, 1);
    if (s.n == 0 || c->s.ic % s.n != 0)
        return false;
    choose(&s);
    Kernel *k = l->k;
    const int type = lower_node(l, c->x)->dtype;
    const int64_t of_group = WIDE_GROUP / s.team, runs = runs_of(&s), sums = s.pixels * c->s.oc;
    s.x = lower_param(l, c->x, PARAM_READ);
    s.weights = packed_weights(&s);
    k_set_group(k, WIDE_GROUP);
    const KRef group = k_for_group(k, ceil_div(runs, of_group), "group"), thread = k_thread(k);
    const KRef run = k_expr(k, "$ * # + $ / #", group, of_group, thread, s.team);
    s.lane = k_expr(k, "$ % #", thread, s.team);
    place_run(&s, k_expr(k, "min($, #)", run, runs - 1));
    s.of_x = k_array(k, type, s.n);
    s.of_w = k_array(k, type, c->s.oc * s.n);
    s.acc = k_array(k, DTYPE_f32, sums);
    k_astore(k, s.acc, k_loop(k, sums, KFOR_UNROLL, "j"), k_number(k, DTYPE_f32, 0));
    k_end(k);
    const KRef vector = k_for(k, s.lane, k_index(k, c->s.ic / s.n), s.team, KFOR_SERIAL, "vector");
    add_vector(&s, k_expr(k, "$ * #", vector, s.n));
    k_end(k);
    for (int64_t i = 0; i < sums; i++)
        store_sum(&s, i, k_expr(k, "$ < #", run, runs));
    k_end(k);
    return true;
}
