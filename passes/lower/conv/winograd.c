// SPDX-License-Identifier: Apache-2.0
// Winograd convolution: what it costs and how far it errs, which m a layer takes, and its weights. See
// winograd.h.
#include "passes/lower/conv/winograd.h"
#include "passes/lower/packer.h"
#include <math.h>

// Of what the second-level cache gives, and of the peak, what products reach; of what memory gives to each
// core when all read, what comes while one multiplies.
static const double l2_share = 2.0 / 3, product_share = 0.93, memory_share = 0.75;

// --- weights --------------------------------------------------------------------------------------

typedef struct WinogradPacking {
    WinogradForm form;
    WinogradBlocks blocks;
    const float *weights; // [group * oc][ic][r][r]
    int64_t groups, oc, ic;
    uint8_t lanes;
    bool is_raw;
} WinogradPacking;

typedef struct Factors {
    WinogradFactor g[WINOGRAD_MAX_N][WINOGRAD_MAX_R];
} Factors;

// The sum of entries of g times x, x + step ...; the terms of zeros are left out. winograd_pack.c emits the
// same additions.
static double combine(const WinogradFactor *g, uint32_t r, const double *x, uint32_t step)
{
    double sum = 0;
    bool is_first = true;
    for (uint32_t a = 0; a < r; a++) {
        double term = 0;
        for (uint32_t i = 0; i < g[a].n; i++)
            term = i == 0 ? x[a * step] * g[a].part[0] : term + x[a * step] * g[a].part[i];
        if (g[a].n != 0)
            sum = is_first ? term : sum + term;
        is_first = is_first && g[a].n == 0;
    }
    return sum;
}

// g w g^T of one r x r kernel.
static void transform_weights(const WinogradForm *f, const Factors *all, const float *w,
                              double u[WINOGRAD_MAX_N][WINOGRAD_MAX_N])
{
    double x[WINOGRAD_MAX_R * WINOGRAD_MAX_R], t[WINOGRAD_MAX_N][WINOGRAD_MAX_R];
    for (uint32_t i = 0; i < f->r * (uint32_t)f->r; i++)
        x[i] = w[i];
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t j = 0; j < f->r; j++)
            t[i][j] = combine(all->g[i], f->r, x + j, f->r);
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t j = 0; j < f->n; j++)
            u[i][j] = combine(all->g[j], f->r, t[i], 1);
}

// out: [n * n][ic][width].
static void pack_block(const WinogradPacking *p, const float *weights, int64_t channels, int64_t width,
                       float *out)
{
    const int64_t n = p->form.n, r2 = (int64_t)p->form.r * p->form.r;
    Factors factors;
    for (uint32_t i = 0; i < p->form.n * (uint32_t)p->form.r; i++)
        factors.g[i / p->form.r][i % p->form.r] = winograd_factor(p->form.g[i / p->form.r][i % p->form.r]);
    for (int64_t c = 0; c < p->ic; c++)
        for (int64_t o = 0; o < width; o++) {
            double u[WINOGRAD_MAX_N][WINOGRAD_MAX_N] = {{0}};
            if (o < channels)
                transform_weights(&p->form, &factors, weights + (o * p->ic + c) * r2, u);
            for (int64_t i = 0; i < n * n; i++)
                out[(i * p->ic + c) * width + o] = (float)u[i / n][i % n];
        }
}

// The weights themselves: [ic][r * r][width].
static void pack_raw_block(const WinogradPacking *p, const float *weights, int64_t channels, int64_t width,
                           float *out)
{
    const int64_t r2 = (int64_t)p->form.r * p->form.r;
    for (int64_t c = 0; c < p->ic; c++)
        for (int64_t i = 0; i < r2; i++)
            for (int64_t o = 0; o < width; o++)
                *out++ = o < channels ? weights[(o * p->ic + c) * r2 + i] : 0;
}

static void pack(const void *ctx, void *bytes)
{
    const WinogradPacking *p = ctx;
    float *out = bytes;
    const int64_t r2 = (int64_t)p->form.r * p->form.r, taps = p->is_raw ? r2 : (int64_t)p->form.n * p->form.n;
    for (int64_t g = 0; g < p->groups; g++)
        for (uint32_t i = 0; i < p->blocks.n; i++) {
            const int64_t width = (int64_t)p->blocks.kind[i].nv * p->lanes;
            for (int64_t j = 0; j < p->blocks.kind[i].count; j++, out += taps * p->ic * width)
                (p->is_raw ? pack_raw_block : pack_block)(
                    p, p->weights + (g * p->oc + p->blocks.kind[i].first + j * width) * p->ic * r2,
                    p->blocks.kind[i].channels, width, out);
        }
}

uint32_t winograd_pack(const Winograd *w)
{
    rlx_assert(node_is_const(w->l->g, w->c->w));
    rlx_assert(!w->transforms_weights || w->form.r >= 1);
    WinogradPacking *p = ARENA_NEW(w->l->pass->perm, WinogradPacking);
    *p = (WinogradPacking){.form = w->form,
                           .blocks = w->oc,
                           .weights = node_attr(lower_node(w->l, w->c->w), A_const_data)->u.blob,
                           .groups = w->c->group,
                           .oc = w->c->s.oc,
                           .ic = w->c->s.ic,
                           .lanes = w->lanes,
                           .is_raw = w->transforms_weights};
    return lower_param_filled(w->l, node_name(w->l->g, w->c->w), DTYPE_f32, pack, p,
                              (uint64_t)winograd_weights(w) * sizeof(float));
}

// --- sizes ----------------------------------------------------------------------------------------

// Two vectors a block, three in the last one when their number is odd; the last block may be partly padding.
static WinogradBlocks split_channels(int64_t oc, uint8_t lanes)
{
    WinogradBlocks b = {0};
    const int64_t vectors = ceil_div(oc, lanes), last = vectors == 1 ? 1 : 2 + vectors % 2;
    const int64_t pairs = (vectors - last) / 2, first = pairs * 2 * lanes;
    const bool joins = last == 2 && oc % lanes == 0;
    if (pairs > 0 || joins) {
        b.kind[b.n].count = pairs + joins;
        b.kind[b.n].channels = 2 * (int64_t)lanes;
        b.kind[b.n++].nv = 2;
    }
    if (!joins) {
        b.kind[b.n].first = first;
        b.kind[b.n].count = 1;
        b.kind[b.n].channels = oc - first;
        b.kind[b.n++].nv = (uint8_t)last;
    }
    return b;
}

static int64_t padded_channels(const Winograd *w)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < w->oc.n; i++)
        n += w->oc.kind[i].count * w->oc.kind[i].nv * w->lanes;
    return n;
}

int64_t winograd_taps(const Winograd *w)
{
    rlx_assert(w->form.n >= w->form.r);
    return w->transforms_weights ? (int64_t)w->form.r * w->form.r : (int64_t)w->form.n * w->form.n;
}

int64_t winograd_panel(const Winograd *w)
{
    rlx_assert(w->chunk >= 1 && w->lanes >= 1);
    return w->chunk * winograd_width(w) + 16;
}

int64_t winograd_weights(const Winograd *w)
{
    rlx_assert(w->c->group >= 1);
    return winograd_taps(w) * w->c->s.ic * padded_channels(w) * w->c->group;
}

int64_t winograd_width(const Winograd *w)
{
    int64_t nv = 0;
    for (uint32_t i = 0; i < w->oc.n; i++)
        nv = w->oc.kind[i].nv > nv ? w->oc.kind[i].nv : nv;
    return nv * w->lanes;
}

int64_t winograd_v_size(const Winograd *w)
{
    rlx_assert(w->block >= 1 && w->pitch >= 1);
    return (int64_t)w->form.n * w->form.n * w->block * w->pitch;
}

// Never a multiple of 2 KB: the transforms read n * n rows at this distance.
int64_t winograd_s_stride(const Winograd *w)
{
    rlx_assert(w->block >= 1);
    return w->block * winograd_width(w) + 16;
}

// --- cost -----------------------------------------------------------------------------------------

static double scratch_bytes(const Winograd *w)
{
    const int64_t weights = w->transforms_weights ? winograd_panel(w) : 0;
    return 4.0 *
           (double)(winograd_v_size(w) + (int64_t)w->form.n * w->form.n * (winograd_s_stride(w) + weights));
}

// Beyond the weights that direct sums read.
static double more_weight_bytes(const Winograd *w)
{
    const TileShape *s = &w->c->s;
    const double more = (double)winograd_weights(w) - (double)(s->kh * s->kw * s->ic * s->oc * w->c->group);
    return more > 0 ? 4 * more : 0;
}

// Cycles, and what its memory is worth. Of one thread, so that what rounds differently is the same for all.
static double price(const Winograd *w)
{
    return w->cycles + w->l->pass->options->memory_price * (scratch_bytes(w) + more_weight_bytes(w));
}

// A transform loads and stores all of its tile and computes on it: `passes` 1-D transforms of `ops`
// operations.
static double tile_cycles(const Winograd *w, uint32_t passes, uint32_t ops, double moves)
{
    return (double)passes * ops / w->l->caps->cpu.fma_per_cycle + moves;
}

static double weight_cycles(const Winograd *w)
{
    const WinogradForm *f = &w->form;
    const double n2 = (double)f->n * f->n,
                 pairs = (double)winograd_weights(w) / (double)winograd_taps(w) / w->lanes;
    return w->transforms_weights
               ? pairs * (double)w->blocks * tile_cycles(w, f->r + f->n, winograd_weight_ops(f), 4 * n2)
               : 0;
}

// Cycles to read weights that the rest of the network has driven out of all caches, while other cores read
// too: what rounds differently must not depend on the number of threads.
static double memory_cycles(const Lower *l, double bytes)
{
    return bytes / (memory_share * l->caps->cpu.shared_rate);
}

// Cycles of the products: multiplications, or reading the weights once for every block of tiles, whichever
// takes longer. A sum is stored and set to zero, or added to what is there, once for every chunk; a call of
// the inner loop costs call_cycles.
static double product_cycles(const Winograd *w)
{
    static const double call_cycles = 30;
    const TargetCaps *caps = w->l->caps;
    const double n2 = (double)w->form.n * w->form.n, tiles = (double)(w->blocks * w->block * w->c->group);
    const double pairs = (double)w->c->s.ic * (double)padded_channels(w), chunk = (double)w->chunk;
    const double sums = (w->c->s.ic <= w->chunk ? 1.5 : 3) / chunk;
    const double calls = n2 * tiles * pairs / (w->lanes * chunk * w->max_acc);
    const double compute =
        n2 * tiles * pairs * (1 / (caps->cpu.fma_per_cycle * product_share) + sums) / w->lanes +
        calls * call_cycles + weight_cycles(w);
    const double weights = 4.0 * (double)winograd_weights(w);
    const bool fits = weights + scratch_bytes(w) < 0.9 * caps->cpu.l2_bytes;
    const double again = weights * (double)(w->blocks - 1);
    const double stream = memory_cycles(w->l, weights) +
                          (fits ? again / (l2_share * caps->cpu.l2_rate) : memory_cycles(w->l, again));
    // V goes through the second-level cache once for every block of output channels, where it does not fit.
    const double rereads = (double)w->blocks * (double)ceil_div(padded_channels(w), winograd_width(w));
    const double v =
        scratch_bytes(w) > 0.8 * caps->cpu.l2_bytes
            ? 4.0 * (double)winograd_v_size(w) * rereads * (double)w->c->group / caps->cpu.l3_rate
            : 0;
    return (compute > stream ? compute + 0.15 * stream : stream + 0.15 * compute) + 0.6 * v;
}

// Tiles along one axis whose inputs lie all inside of `size`.
static int64_t count_inside(int64_t tiles, int64_t m, int64_t n, int64_t pad, int64_t size)
{
    const int64_t first = ceil_div(pad, m), room = size + pad - n;
    const int64_t last = room < 0 ? -1 : room / m < tiles - 1 ? room / m : tiles - 1;
    return last < first ? 0 : last - first + 1;
}

static double transform_cycles(const Winograd *w)
{
    const WinogradForm *f = &w->form;
    const double tiles = (double)(w->blocks * w->block) * (double)w->c->group, n2 = (double)f->n * f->n;
    const double input = tile_cycles(w, 2u * f->n, winograd_input_ops(f), 2 * n2);
    const TileShape *s = &w->c->s;
    const int64_t inside = count_inside(w->rows, f->m, f->n, s->pad_h, s->in_h) *
                           count_inside(w->columns, f->m, f->n, s->pad_w, s->in_w);
    const double border =
        1 - (double)inside / (double)(w->rows * w->columns); // their inputs are copied first
    const double output = tile_cycles(w, (uint32_t)f->n + f->m, winograd_output_ops(f), 1.5 * n2);
    return tiles * ((input + border * (2 * n2 + 60)) * (double)ceil_div(w->c->s.ic, w->in_lanes) +
                    output * (double)ceil_div(w->c->s.oc, w->lanes));
}

// Tiles read an element of the image for each vector of channels: with a single one, loads keep pace with
// multiply-adds at best.
static double direct_share(const Conv *c, uint8_t lanes)
{
    return c->s.oc > lanes ? 0.95 : 0.78;
}

static double direct_cycles(const Lower *l, const Conv *c, uint8_t lanes)
{
    const double weights = 4.0 * (double)(c->s.kh * c->s.kw * c->s.ic * c->s.oc * c->group);
    const double pixels = (double)(c->s.n * c->s.h * c->s.w);
    const double padded = (double)(ceil_div(c->s.oc, lanes) * lanes) / (double)c->s.oc;
    const CpuMachine *cpu = &l->caps->cpu;
    const double products = c->has_pairs ? 2 * cpu->pairs_per_cycle : cpu->fma_per_cycle;
    const double rate = lanes * products * direct_share(c, lanes);
    const double compute = pixels * weights * padded / 4 / rate;
    const double stream = memory_cycles(l, weights);
    return compute > stream ? compute : stream;
}

// Channels of a chunk: whole vectors, and as few as it takes to leave room for transformed weights.
static int64_t choose_chunk(const Winograd *w)
{
    int64_t chunk = w->form.chunk;
    const int64_t panel = 4 * (int64_t)w->form.n * w->form.n * winograd_width(w);
    while (w->transforms_weights && chunk > 32 && chunk * panel > w->l->caps->cpu.l2_bytes / 3)
        chunk /= 2;
    return chunk > w->c->s.ic ? w->c->s.ic : chunk;
}

// The cycles of all threads: if they share one block, each reads what the others have transformed, out of
// their caches, line by line (the average in split_cost.c, half as much, measures the same on ResNet-50).
static double exchange_cycles(const Winograd *w)
{
    const double threads = (double)w->threads;
    return w->blocks == 1 && threads > 1
               ? 4 * (double)winograd_v_size(w) * (threads - 1) * w->l->caps->cpu.line_cycles / CACHE_LINE
               : 0;
}

// Tiles of a block: equal blocks, a multiple of the threads; scratch memory takes at most a quarter of the
// third-level cache.
static bool choose_block(Winograd *w)
{
    const int64_t threads = w->threads;
    double best = INFINITY, cycles = 0;
    int64_t chosen = 0;
    for (int64_t blocks = 1; blocks <= w->tiles; blocks += 1 + blocks / 8) {
        const int64_t rounded = blocks == 1 && w->c->group == 1 ? 1 : ceil_div(blocks, threads) * threads;
        w->block = ceil_div(w->tiles, rounded);
        w->blocks = ceil_div(w->tiles, w->block);
        w->cycles = product_cycles(w) + transform_cycles(w) + exchange_cycles(w);
        if (scratch_bytes(w) > 0.25 * w->l->caps->cpu.l3_bytes || price(w) >= best)
            continue;
        best = price(w);
        cycles = w->cycles;
        chosen = w->block;
    }
    if (chosen == 0)
        return false;
    w->block = chosen;
    w->blocks = ceil_div(w->tiles, chosen);
    w->cycles = cycles;
    return true;
}

// With weights transformed beforehand, or in the kernel, whichever is faster.
static bool choose_weights(Winograd *w, WinogradWeights how)
{
    Winograd other = *w;
    bool found[2];
    w->chunk = choose_chunk(w);
    found[0] = how != WINOGRAD_RAW && choose_block(w);
    other.transforms_weights = true;
    other.chunk = choose_chunk(&other);
    found[1] = how != WINOGRAD_PACKED && choose_block(&other);
    if (found[1] && (!found[0] || price(&other) < price(w)))
        *w = other;
    return found[0] || found[1];
}

static uint8_t lanes_within(const Lower *l, int64_t channels)
{
    uint8_t lanes = l->caps->f32_lanes;
    while (lanes > channels)
        lanes /= 2;
    return lanes;
}

enum { MAX_SIZE = 1 << 28 }; // of any factor of the sizes below; their products stay far from overflow

static bool winograd_plan(Lower *l, const Conv *c, const Domain *d, uint8_t m, WinogradWeights how,
                          Winograd *w)
{
    rlx_assert(m >= WINOGRAD_MIN_M && c->s.kh == c->s.kw);
    const TileShape *s = &c->s;
    *w = (Winograd){.l = l, .c = c, .d = d, .form = winograd_form(m, (uint8_t)s->kh), .threads = 1};
    w->rows = ceil_div(s->h, m);
    w->columns = ceil_div(s->w, m);
    w->in_lanes = lanes_within(l, s->ic);
    w->lanes = lower_fit_lanes(l, s->oc);
    if (s->n > MAX_SIZE || w->rows * w->columns > MAX_SIZE / s->n || s->ic > MAX_SIZE / 64 ||
        s->oc * c->group > MAX_SIZE / s->ic || w->in_lanes < 4 || w->lanes < 4)
        return false;
    w->tiles = s->n * w->rows * w->columns;
    w->pitch = ceil_div(s->ic, 16) * 16 + 16;
    w->max_acc = (uint8_t)(l->caps->vector_regs - 4);
    w->oc = split_channels(s->oc, w->lanes);
    return choose_weights(w, how);
}

// --- choice ---------------------------------------------------------------------------------------

static bool is_candidate(const Lower *l, const Conv *c, const Domain *d)
{
    const TileShape *s = &c->s;
    return !l->caps->is_gpu && l->caps->f32_lanes >= 4 && l->caps->packs_weights && c->s.n_outer == 0 &&
           (node_is_const(l->g, c->w) || packer_can_pack(l, c->w)) &&
           lower_node(l, l->anchor)->dtype == DTYPE_f32 && s->kh == 3 && s->kw == 3 && s->sh == 1 &&
           s->sw == 1 && s->dh == 1 && s->dw == 1 && c->stride_c == 1 && s->ic >= 8 && s->oc >= 4 &&
           shape_numel(lower_node(l, l->anchor)->shape) > 0 &&
           (c->bias == 0 || lower_loc(l, c->bias)->stride[0] == 1) && domain_lanes(l, d, 1) > 1;
}

bool winograd_lower(Lower *l, const Conv *all, const Domain *d)
{
    rlx_assert(all->group >= 1 && d->rank >= 3);
    Winograd best, w;
    Conv one = *all; // image by image where only a run knows how many there are
    const Conv *c = &one;
    one.s.n = one.images != 0 ? 1 : one.s.n;
    const PassOptions *o = l->pass->options;
    if (!(o->accuracy > 0) || !is_candidate(l, c, d))
        return false;
    const double direct = direct_cycles(l, c, lower_fit_lanes(l, c->s.oc));
    double least = direct * 0.87; // to be sure of a gain
    bool found = false;
    if (o->winograd != 0) {
        found = winograd_plan(l, c, d, o->winograd % 10, o->winograd > 10 ? WINOGRAD_RAW : WINOGRAD_PACKED,
                              &best);
        least = 0;
    }
    for (uint8_t m = WINOGRAD_MIN_M; m <= WINOGRAD_MAX_M; m++) {
        const WinogradForm f = winograd_form(m, (uint8_t)c->s.kh);
        if (winograd_error(&f, c->s.ic) > o->accuracy || !winograd_plan(l, c, d, m, WINOGRAD_FASTER, &w) ||
            price(&w) >= least)
            continue;
        best = w;
        least = price(&w);
        found = true;
    }
    if (!found)
        return false;
    l->pk->trade = (PlanTrade){.what = "Winograd's convolution",
                               .scratch_bytes = (uint64_t)scratch_bytes(&best),
                               .weight_bytes = (uint64_t)more_weight_bytes(&best),
                               .cycles = (uint64_t)best.cycles,
                               .plain_cycles = (uint64_t)direct};
    w = best; // the same sums, in blocks that suit the threads
    w.threads = l->caps->threads > 1 ? l->caps->threads : 1;
    winograd_emit(choose_block(&w) ? &w : &best);
    return true;
}
