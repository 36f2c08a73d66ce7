// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution: a vector of channels, a run of output pixels of one row in accumulators, every input
// vector of a kernel row loaded once and used for all the outputs that it touches. Border runs leave out what
// falls outside.
#include "passes/conv.h"
#include <string.h>

enum { DW_MAX_PIXELS = 8, DW_MAX_KERNEL = 7 };

typedef struct Depthwise {
    Lower *l;
    const Conv *c;
    const Domain *d;
    uint8_t lanes;
    uint32_t x, w, bias;
    KRef image, row, channel; // channel: first of the vector
    uint8_t count;            // real channels
} Depthwise;

static float *pack_depthwise(const Depthwise *s, int64_t channels, uint64_t *bytes)
{
    const int64_t taps = s->c->s.kh * s->c->s.kw, blocks = (channels + s->lanes - 1) / s->lanes;
    const float *src = node_attr(lower_node(s->l, s->c->w), A_const_data)->u.blob;
    float *out = ARENA_ARRAY(s->l->pass->perm, float, blocks *taps * s->lanes);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < taps; t++)
            memcpy(&out[((c / s->lanes) * taps + t) * s->lanes + c % s->lanes], &src[c * taps + t],
                   sizeof *out);
    *bytes = (uint64_t)(blocks * taps * s->lanes) * sizeof *out;
    return out;
}

// One kernel row for a run of pixels. column: constant first column (edge runs), or -1: all taps inside.
static void emit_taps(const Depthwise *s, const KRef *acc, int64_t pixels, int64_t column, KRef x, KRef w)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    KRef weight[DW_MAX_KERNEL];
    for (int64_t kw = 0; kw < t->kw; kw++)
        weight[kw] = k_load(k, s->w, k_add(k, w, k_index(k, kw * s->lanes)), s->lanes, s->lanes);
    const int64_t reach = (pixels - 1) * t->sw + (t->kw - 1) * t->dw;
    for (int64_t j = 0; j <= reach; j++) {
        const int64_t in = column * t->sw - t->pad_w + j;
        if (column >= 0 && (in < 0 || in >= t->in_w))
            continue;
        KRef value = 0;
        for (int64_t kw = 0; kw < t->kw; kw++) {
            const int64_t from = j - kw * t->dw, p = from / t->sw;
            if (from < 0 || from % t->sw != 0 || p >= pixels)
                continue;
            if (value == 0)
                value = k_load(k, s->x, k_add(k, x, k_index(k, j * s->c->stride_w)), s->lanes, s->count);
            k_set(k, acc[p], k_op(k, KOP_fma, value, weight[kw], k_get(k, acc[p])));
        }
    }
}

static void kernel_rows(const Depthwise *s, KRef *lo, KRef *hi)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    const KRef top = k_add(k, k_mul(k, s->row, k_index(k, t->sh)), k_index(k, -t->pad_h));
    tile_kernel_rows(k, t, top, lo, hi);
}

static void emit_run(const Depthwise *s, KRef column, int64_t column_value, int64_t pixels)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    KRef acc[DW_MAX_PIXELS], lo, hi;
    const KRef init = s->c->bias != 0 ? k_load(k, s->bias, s->channel, s->lanes, s->count)
                                      : k_splat(k, k_number(k, DTYPE_f32, 0), s->lanes);
    for (int64_t p = 0; p < pixels; p++)
        acc[p] = k_var(k, init, arena_printf(k->arena, "a%d", (int)p));
    KRef x = k_add(k, k_mul(k, s->image, k_index(k, s->c->stride_n)),
                   k_mul(k, s->channel, k_index(k, s->c->stride_c)));
    x = k_add(k, x,
              k_mul(k, k_add(k, k_mul(k, s->row, k_index(k, t->sh)), k_index(k, -t->pad_h)),
                    k_index(k, s->c->stride_h)));
    x = k_add(k, x,
              k_mul(k, k_add(k, k_mul(k, column, k_index(k, t->sw)), k_index(k, -t->pad_w)),
                    k_index(k, s->c->stride_w)));
    const KRef w = k_mul(k, s->channel, k_index(k, t->kh * t->kw)); // channel is a multiple of lanes
    kernel_rows(s, &lo, &hi);
    const KRef kh = k_for(k, lo, hi, 1, KFOR_SERIAL, "kh");
    emit_taps(s, acc, pixels, column_value, k_mul_add(k, kh, t->dh * s->c->stride_h, x),
              k_mul_add(k, kh, t->kw * s->lanes, w));
    k_end(k);
    for (int64_t p = 0; p < pixels; p++) {
        Point at = conv_point(s->d, s->image, s->channel, s->row, k_add(k, column, k_index(k, p)));
        at.lanes = s->lanes;
        at.count = s->count;
        pull_store_root(s->l, s->d, at, k_get(k, acc[p]));
    }
}

static void emit_row(const Depthwise *s)
{
    Kernel *k = s->l->k;
    const TileRuns runs = tile_runs(s->l, &s->c->s, DW_MAX_PIXELS);
    for (uint32_t i = 0; i < runs.len; i++) {
        const TileRun *run = &runs.data[i];
        const KRef column = tile_open_run(k, run);
        emit_run(s, column, run->is_edge ? run->column : -1, run->pixels);
        tile_close_run(k, run);
    }
}

static void emit_rows(Depthwise *s)
{
    Kernel *k = s->l->k;
    if (s->c->s.n > 1)
        s->image = k_for(k, k_index(k, 0), k_index(k, s->c->s.n), 1, KFOR_PARALLEL, "n");
    else
        s->image = k_index(k, 0);
    s->row = k_for(k, k_index(k, 0), k_index(k, s->c->s.h), 1, KFOR_PARALLEL, "oh");
    emit_row(s);
    lower_close(s->l, s->c->s.n > 1 ? 2 : 1);
}

static bool fits(const Lower *l, const Conv *c, const Domain *d)
{
    const Node *n = lower_node(l, l->anchor);
    if (l->caps->is_gpu || !c->is_planar || c->s.ic != 1 || c->s.oc != 1 || c->group < 4 ||
        n->dtype != DTYPE_f32)
        return false;
    if (c->s.kw > DW_MAX_KERNEL || c->s.sw > 4 || c->s.dw > 4 || !node_is_const(l->g, c->w) ||
        c->stride_c != 1)
        return false;
    return tile_is_worthwhile(&c->s) && domain_lanes(l, d, 1) > 1;
}

bool depthwise_lower(Lower *l, const Conv *c, const Domain *d)
{
    if (!fits(l, c, d))
        return false;
    const int64_t channels = c->group;
    Kernel *k = l->k;
    uint64_t bytes = 0;
    Depthwise s = {
        .l = l, .c = c, .d = d, .lanes = lower_fit_lanes(l, channels), .x = lower_param(l, c->x, PARAM_READ)};
    const float *packed = pack_depthwise(&s, channels, &bytes);
    s.w = lower_param_data(l, node_name(l->g, c->w), DTYPE_f32, packed, bytes);
    s.bias = c->bias != 0 ? lower_param(l, c->bias, PARAM_READ) : 0;
    const int64_t whole = channels - channels % s.lanes;
    s.count = s.lanes;
    if (whole > 0) {
        s.channel = k_for(k, k_index(k, 0), k_index(k, whole), s.lanes, KFOR_PARALLEL, "c");
        emit_rows(&s);
        k_end(k);
    }
    if (whole < channels) {
        s.channel = k_index(k, whole);
        s.count = (uint8_t)(channels - whole);
        emit_rows(&s);
    }
    return true;
}
