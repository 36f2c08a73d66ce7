// SPDX-License-Identifier: Apache-2.0
// The weights of a Winograd convolution that depend on parameters: a kernel that makes of them, once after a
// parameter was set, what winograd_pack makes of constants, bit for bit.
#include "passes/lower/packer.h"
#include "passes/lower/conv/winograd.h"

typedef struct Weights {
    const Winograd *w;
    const Packer *p;
    int64_t stride_oc, stride_ic, stride_kh, stride_kw;
    int64_t width; // of the block at hand
} Weights;

// As combine in winograd.c, of f64.
static KRef combine(Kernel *k, const double *g, uint32_t r, const KRef *x)
{
    KRef sum = 0;
    for (uint32_t a = 0; a < r; a++) {
        const WinogradFactor f = winograd_factor(g[a]);
        KRef term = 0;
        for (uint32_t i = 0; i < f.n; i++) {
            const KRef part = f.part[i] == 1 ? x[a] : k_mul(k, x[a], k_number(k, DTYPE_f64, f.part[i]));
            term = i == 0 ? part : k_add(k, term, part);
        }
        if (f.n != 0)
            sum = sum == 0 ? term : k_add(k, sum, term);
    }
    return sum;
}

// g w g^T of one pair of channels, or the weights themselves. from: of the first one, to: its first place.
static void emit_pair(const Weights *s, KRef from, KRef to)
{
    Kernel *k = s->p->l.k;
    const WinogradForm *f = &s->w->form;
    KRef x[WINOGRAD_MAX_R], t[WINOGRAD_MAX_R][WINOGRAD_MAX_N], row[WINOGRAD_MAX_R];
    for (int64_t j = 0; j < f->r; j++) {
        for (int64_t i = 0; i < f->r; i++) {
            const KRef at = k_expr(k, "$ + #", from, i * s->stride_kh + j * s->stride_kw);
            x[i] = k_load(k, s->p->from, at, 1, 1);
            if (s->w->transforms_weights)
                k_store(k, s->p->to, k_expr(k, "$ + #", to, (i * f->r + j) * s->width), x[i], 1);
            x[i] = k_cast(k, x[i], DTYPE_f64);
        }
        for (int64_t i = 0; i < f->n && !s->w->transforms_weights; i++)
            t[j][i] = combine(k, f->g[i], f->r, x);
    }
    for (int64_t i = 0; i < f->n && !s->w->transforms_weights; i++) {
        for (int64_t j = 0; j < f->r; j++)
            row[j] = t[j][i];
        for (int64_t j = 0; j < f->n; j++)
            k_store(k, s->p->to, k_expr(k, "$ + #", to, (i * f->n + j) * s->w->c->s.ic * s->width),
                    k_cast(k, combine(k, f->g[j], f->r, row), DTYPE_f32), 1);
    }
}

// Channels that only fill a vector up.
static void emit_zeros(const Weights *s, int64_t channels, KRef to)
{
    Kernel *k = s->p->l.k;
    const int64_t step = s->w->transforms_weights ? s->width : s->w->c->s.ic * s->width;
    if (channels == s->width)
        return;
    const KRef i = k_loop(k, winograd_taps(s->w), KFOR_SERIAL, "i");
    const KRef o = k_for(k, k_index(k, channels), k_index(k, s->width), 1, KFOR_SERIAL, "o");
    k_store(k, s->p->to, k_expr(k, "$ * # + ($ + $)", i, step, to, o), k_number(k, DTYPE_f32, 0), 1);
    k_ends(k, 2);
}

// Equal blocks of output channels of group g, the first one's weights at `base`.
static void emit_blocks(Weights *s, uint32_t kind, KRef g, KRef base)
{
    Kernel *k = s->p->l.k;
    const Winograd *w = s->w;
    const int64_t ic = w->c->s.ic, channels = w->oc.kind[kind].channels;
    s->width = (int64_t)w->oc.kind[kind].nv * w->lanes;
    const KRef block = k_loop(k, w->oc.kind[kind].count, KFOR_PARALLEL, "ob");
    const KRef first =
        k_expr(k, "$ * # + ($ * # + #)", g, w->c->s.oc, block, s->width, w->oc.kind[kind].first);
    const KRef c = k_loop(k, ic, KFOR_SERIAL, "c");
    const int64_t places = w->transforms_weights ? winograd_taps(w) : 1; // of a channel, side by side
    const KRef to =
        k_expr(k, "$ * # + ($ * # + $)", block, winograd_taps(w) * ic * s->width, c, places * s->width, base);
    const KRef o = k_loop(k, channels, KFOR_SERIAL, "o");
    emit_pair(s, k_expr(k, "($ + $) * # + $ * #", first, o, s->stride_oc, c, s->stride_ic), k_add(k, to, o));
    k_end(k);
    emit_zeros(s, channels, to);
    k_ends(k, 2);
}

uint32_t winograd_pack_lasting(const Winograd *w)
{
    rlx_assert(packer_can_pack(w->l, w->c->w));
    const int64_t *stride = lower_loc(w->l, w->c->w)->stride;
    const int64_t group_size = winograd_weights(w) / w->c->group;
    const bool is_row = lower_node(w->l, w->c->w)->shape->rank == 3;
    Packer p;
    int64_t first = 0;
    packer_open(w->l, w->c->w, DTYPE_f32, (uint64_t)winograd_weights(w), &p);
    Weights s = {.w = w,
                 .p = &p,
                 .stride_oc = stride[0],
                 .stride_ic = stride[1],
                 .stride_kh = is_row ? 0 : stride[2],
                 .stride_kw = stride[is_row ? 2 : 3]};
    Kernel *k = p.l.k;
    for (uint32_t i = 0; i < w->oc.n; i++) {
        const KRef g = w->c->group == 1 ? k_index(k, 0) : k_loop(k, w->c->group, KFOR_PARALLEL, "g");
        emit_blocks(&s, i, g, k_expr(k, "$ * # + #", g, group_size, first));
        if (w->c->group > 1)
            k_end(k);
        first += w->oc.kind[i].count * winograd_taps(w) * w->c->s.ic * s.width;
    }
    packer_close(w->l, &p);
    return p.reader;
}
