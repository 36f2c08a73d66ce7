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
    return s->kh * s->kw * s->ic;
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

static float *pack_block(const TilePacking *p, int64_t first, int64_t width, float *out)
{
    const TileSource *src = &p->src;
    for (int64_t kh = 0; kh < p->s.kh; kh++)
        for (int64_t kw = 0; kw < p->s.kw; kw++)
            for (int64_t c = 0; c < p->s.ic; c++, out += width) {
                const float *at =
                    (const float *)src->data + kh * src->stride_kh + kw * src->stride_kw + c * src->stride_ic;
                for (int64_t o = 0; o < width && first + o < p->s.oc; o++)
                    memcpy(out + o, at + (first + o) * src->stride_oc, sizeof *out);
            }
    return out;
}

static void pack(const void *ctx, void *bytes)
{
    const TilePacking *p = ctx;
    float *out = bytes;
    for (uint32_t i = 0; i < p->blocks.n; i++)
        for (int64_t j = 0; j < p->blocks.block[i].count; j++)
            out = pack_block(p, p->blocks.block[i].first + j * p->blocks.block[i].channels,
                             p->blocks.block[i].width, out);
}

static int64_t packed_elements(const TileBlocks *b, const TileShape *s)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        n += b->block[i].count * b->block[i].width * tile_steps(s);
    return n;
}

TileWeights tile_pack(const Tile *t, const TileSource *src, const char *name)
{
    TilePacking *p = ARENA_NEW(t->l->pass->perm, TilePacking);
    *p = (TilePacking){.s = t->s, .blocks = tile_blocks(t), .src = *src};
    const uint64_t bytes = (uint64_t)packed_elements(&p->blocks, &t->s) * sizeof(float);
    return (TileWeights){.param = lower_param_filled(t->l, name, DTYPE_f32, pack, p, bytes),
                         .is_packed = true,
                         .base = k_index(t->l->k, 0)};
}

// The weights of equal blocks of channels from index `base` on, as pack_block does; channels that do not
// exist are zeros.
static void emit_blocks(const Packer *p, const TileShape *s, const TileSource *src, const TileBlocks *b,
                        uint32_t i, KRef base, int64_t from)
{
    Kernel *k = p->l.k;
    const int64_t width = b->block[i].width, channels = b->block[i].channels;
    const KRef block = k_loop(k, b->block[i].count, KFOR_PARALLEL, "ob");
    const KRef kh = k_loop(k, s->kh, KFOR_SERIAL, "kh");
    const KRef kw = k_loop(k, s->kw, KFOR_SERIAL, "kw");
    const KRef c = k_loop(k, s->ic, KFOR_SERIAL, "c");
    const KRef step = k_expr(k, "($ * # + $) * # + $", kh, s->kw, kw, s->ic, c);
    const KRef to = k_expr(k, "$ * # + ($ * # + $)", block, width * tile_steps(s), step, width, base);
    KRef at =
        k_expr(k, "$ * # + #", block, channels * src->stride_oc, from + b->block[i].first * src->stride_oc);
    at = k_expr(k, "$ * # + $", kh, src->stride_kh,
                k_expr(k, "$ * # + ($ * # + $)", kw, src->stride_kw, c, src->stride_ic, at));
    const KRef o = k_loop(k, channels, KFOR_SERIAL, "o");
    k_store(k, p->to, k_add(k, to, o),
            k_load(k, p->from, k_expr(k, "$ * # + $", o, src->stride_oc, at), 1, 1), 1);
    k_end(k);
    for (int64_t z = channels; z < width; z++)
        k_store(k, p->to, k_expr(k, "$ + #", to, z), k_number(k, DTYPE_f32, 0), 1);
    for (uint32_t n = 0; n < 4; n++)
        k_end(k);
}

TileWeights tile_pack_lasting(const Tile *t, const TileSource *src, NodeId id, int64_t first)
{
    rlx_assert(id != 0 && first >= 0);
    const TileBlocks b = tile_blocks(t);
    Packer p;
    int64_t base = 0;
    packer_open(t->l, id, DTYPE_f32, (uint64_t)packed_elements(&b, &t->s), &p);
    for (uint32_t i = 0; i < b.n; i++) {
        emit_blocks(&p, &t->s, src, &b, i, k_index(p.l.k, base), first);
        base += b.block[i].count * b.block[i].width * tile_steps(&t->s);
    }
    packer_close(t->l, &p);
    return (TileWeights){.param = p.reader, .is_packed = true, .base = k_index(t->l->k, 0)};
}
