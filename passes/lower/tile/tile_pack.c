// SPDX-License-Identifier: Apache-2.0
// Blocks of output channels, and the packing of weights in the order in which the tiles of a block read them.
#include "passes/lower/packer.h"
#include "passes/lower/tile/tile_part.h"
#include <string.h>

// What is needed to pack later.
typedef struct TilePacking {
    TileShape s;
    TileBlocks blocks;
    TileSource src;
} TilePacking;

int64_t tile_steps(const TileShape *s)
{
    rlx_assert(s->kh >= 0 && s->kw >= 0 && s->ic >= 0);
    return tile_outer_taps(s) * s->kh * s->kw * s->ic;
}

int64_t tile_pixels(const Tile *t, int64_t nv)
{
    rlx_assert(nv >= 1 && nv <= t->max_acc + 3);
    int64_t most = t->max_acc / nv;
    if (t->lanes > 1 && nv > 2) // every vector of weights needs a register of its own as well
        most = (t->max_acc + 3 - nv) / nv;
    return most < 1 ? 1 : most;
}

static int64_t block_width(const Tile *t, int64_t nv, int64_t channels)
{
    return (nv - 1) * t->lanes + tile_vector_lanes(t, channels, nv - 1);
}

// Vectors are shared out evenly; the last block stands alone when it is padded.
TileBlocks tile_blocks(const Tile *t)
{
    rlx_assert(t->lanes >= 1 && t->plan.nv >= 1);
    TileBlocks b = {0};
    const int64_t vectors = (t->s.oc + t->lanes - 1) / t->lanes, n = (vectors + t->plan.nv - 1) / t->plan.nv;
    int64_t channel = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t nv = vectors / n + (i < vectors % n ? 1 : 0), whole = nv * t->lanes;
        const int64_t channels = t->s.oc - channel < whole ? t->s.oc - channel : whole;
        if (b.n == 0 || b.block[b.n - 1].nv != nv || b.block[b.n - 1].channels != channels) {
            rlx_assert(b.n < 4);
            b.block[b.n].first = channel;
            b.block[b.n].nv = nv;
            b.block[b.n].channels = channels;
            b.block[b.n++].width = block_width(t, nv, channels);
        }
        b.block[b.n - 1].count++;
        channel += channels;
    }
    rlx_assert(channel >= t->s.oc);
    return b;
}

// Where the weights of a tap of the axes before rows begin, counted with the last axis running fastest.
static int64_t outer_offset(const TilePacking *p, int64_t tap)
{
    int64_t offset = 0;
    for (uint32_t i = p->s.n_outer; i-- > 0; tap /= p->s.outer[i].kernel)
        offset += tap % p->s.outer[i].kernel * p->src.stride_outer[i];
    return offset;
}

// Two weights of an output channel, from the first on, as a pair.
static float pair_of(const TilePacking *p, const float *from, int64_t c)
{
    uint32_t lower, upper = 0;
    float pair;
    memcpy(&lower, from, sizeof lower);
    if (2 * c + 1 < p->s.paired)
        memcpy(&upper, from + p->src.stride_ic, sizeof upper);
    upper = (upper & 0xffff0000u) | lower >> 16;
    memcpy(&pair, &upper, sizeof pair);
    return pair;
}

static float *pack_plane(const TilePacking *p, const float *from, int64_t first, int64_t width, float *out)
{
    const TileSource *src = &p->src;
    for (int64_t kh = 0; kh < p->s.kh; kh++)
        for (int64_t kw = 0; kw < p->s.kw; kw++)
            for (int64_t c = 0; c < p->s.ic; c++, out += width) {
                const int64_t channel = p->s.paired > 0 ? 2 * c : c;
                const float *at = from + kh * src->stride_kh + kw * src->stride_kw + channel * src->stride_ic;
                for (int64_t o = 0; o < width && first + o < p->s.oc; o++) {
                    const float *w = at + (first + o) * src->stride_oc;
                    out[o] = p->s.paired > 0 ? pair_of(p, w, c) : *w;
                }
            }
    return out;
}

static float *pack_block(const TilePacking *p, const float *from, int64_t first, int64_t width, float *out)
{
    const int64_t taps = tile_outer_taps(&p->s);
    for (int64_t tap = 0; tap < taps; tap++)
        out = pack_plane(p, from + outer_offset(p, tap), first, width, out);
    return out;
}

static int64_t groups_of(const TileSource *src)
{
    return src->groups > 1 ? src->groups : 1;
}

enum { VERSION_AXES = SHAPE_MAX_RANK - 2 };

static int64_t versions_of(const TileSource *src)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < VERSION_AXES; i++)
        n *= src->versions[i] > 1 ? src->versions[i] : 1;
    return n;
}

static int64_t version_offset(const TileSource *src, int64_t version)
{
    int64_t offset = 0;
    for (uint32_t i = VERSION_AXES; i-- > 0;)
        if (src->versions[i] > 1) {
            offset += version % src->versions[i] * src->stride_version[i];
            version /= src->versions[i];
        }
    return offset;
}

static void pack(const void *ctx, void *bytes)
{
    const TilePacking *p = ctx;
    const int64_t groups = groups_of(&p->src), n = versions_of(&p->src) * groups;
    float *out = bytes;
    for (int64_t g = 0; g < n; g++) {
        const int64_t from = version_offset(&p->src, g / groups) + g % groups * p->src.stride_group;
        for (uint32_t i = 0; i < p->blocks.n; i++)
            for (int64_t j = 0; j < p->blocks.block[i].count; j++)
                out = pack_block(p, (const float *)p->src.data + from,
                                 p->blocks.block[i].first + j * p->blocks.block[i].channels,
                                 p->blocks.block[i].width, out);
    }
}

int64_t tile_packed_elements(const Tile *t)
{
    const TileBlocks b = tile_blocks(t);
    int64_t n = 0;
    for (uint32_t i = 0; i < b.n; i++)
        n += b.block[i].count * b.block[i].width * tile_steps(&t->s);
    return n;
}

TileWeights tile_pack(const Tile *t, const TileSource *src, const char *name)
{
    TilePacking *p = ARENA_NEW(t->l->pass->perm, TilePacking);
    *p = (TilePacking){.s = t->s, .blocks = tile_blocks(t), .src = *src};
    const uint64_t bytes = (uint64_t)(versions_of(src) * groups_of(src) * tile_packed_elements(t)) *
                           sizeof(float);
    return (TileWeights){.param = lower_param_filled(t->l, name, DTYPE_f32, pack, p, bytes),
                         .is_packed = true,
                         .base = k_index(t->l->k, 0)};
}

// The weights of equal blocks of channels from index `base` on, as pack_block does; channels that do not
// exist are zeros. from: index of the first block's first weight.
static void emit_blocks(const Packer *p, const TilePacking *packing, uint32_t i, KRef base, KRef from)
{
    Kernel *k = p->l.k;
    const TileShape *s = &packing->s;
    const TileSource *src = &packing->src;
    const int64_t width = packing->blocks.block[i].width, channels = packing->blocks.block[i].channels;
    const KRef block = k_loop(k, packing->blocks.block[i].count, KFOR_PARALLEL, "ob");
    KRef at = k_expr(k, "$ * # + $", block, channels * src->stride_oc, from);
    KRef tap = k_index(k, 0);
    for (uint32_t j = 0; j < s->n_outer; j++) {
        const KRef kd = k_loop(k, s->outer[j].kernel, KFOR_SERIAL, "kd");
        tap = k_expr(k, "$ * # + $", tap, s->outer[j].kernel, kd);
        at = k_expr(k, "$ * # + $", kd, src->stride_outer[j], at);
    }
    const KRef kh = k_loop(k, s->kh, KFOR_SERIAL, "kh");
    const KRef kw = k_loop(k, s->kw, KFOR_SERIAL, "kw");
    const KRef c = k_loop(k, s->ic, KFOR_SERIAL, "c");
    const KRef row = k_expr(k, "$ * # + $", tap, s->kh, kh);
    const KRef step = k_expr(k, "($ * # + $) * # + $", row, s->kw, kw, s->ic, c);
    const KRef to = k_expr(k, "$ * # + ($ * # + $)", block, width * tile_steps(s), step, width, base);
    at = k_expr(k, "$ * # + $", kh, src->stride_kh,
                k_expr(k, "$ * # + ($ * # + $)", kw, src->stride_kw, c, src->stride_ic, at));
    const KRef o = k_loop(k, channels, KFOR_SERIAL, "o");
    k_store(k, p->to, k_add(k, to, o),
            k_load(k, p->from, k_expr(k, "$ * # + $", o, src->stride_oc, at), 1, 1), 1);
    k_end(k);
    for (int64_t z = channels; z < width; z++)
        k_store(k, p->to, k_expr(k, "$ + #", to, z), k_number(k, DTYPE_f32, 0), 1);
    for (uint32_t n = 0; n < 4 + s->n_outer; n++)
        k_end(k);
}

// Opens a loop over n weights that follow each other; to: their number, at: where they are read.
static void open_copies(Kernel *k, int64_t n, int64_t stride, KRef *to, KRef *at, uint32_t *opened)
{
    const KRef i = k_loop(k, n, KFOR_PARALLEL, "g");
    *to = k_expr(k, "$ * # + $", *to, n, i);
    *at = k_expr(k, "$ * # + $", i, stride, *at);
    ++*opened;
}

TileWeights tile_pack_stored(const Tile *t, const TileSource *src, NodeId id)
{
    rlx_assert(id != 0 && src->first >= 0);
    const TilePacking packing = {.s = t->s, .blocks = tile_blocks(t), .src = *src};
    const int64_t groups = groups_of(src), elements = tile_packed_elements(t);
    Packer p;
    int64_t base = 0;
    packer_open(t->l, id, DTYPE_f32, (uint64_t)(versions_of(src) * groups * elements), &p);
    Kernel *k = p.l.k;
    uint32_t opened = 0;
    KRef to = k_index(k, 0), at = k_index(k, src->first);
    for (uint32_t i = 0; i < VERSION_AXES; i++)
        if (src->versions[i] > 1)
            open_copies(k, src->versions[i], src->stride_version[i], &to, &at, &opened);
    if (groups > 1)
        open_copies(k, groups, src->stride_group, &to, &at, &opened);
    for (uint32_t i = 0; i < packing.blocks.n; i++) {
        const int64_t from = packing.blocks.block[i].first * src->stride_oc;
        emit_blocks(&p, &packing, i, k_expr(k, "$ * # + #", to, elements, base),
                    k_expr(k, "$ + #", at, from));
        base += packing.blocks.block[i].count * packing.blocks.block[i].width * tile_steps(&t->s);
    }
    k_ends(k, opened);
    packer_close(t->l, &p);
    return (TileWeights){.param = p.reader, .is_packed = true, .base = k_index(t->l->k, 0)};
}
