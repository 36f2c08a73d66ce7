// SPDX-License-Identifier: Apache-2.0
// Blocks of output channels, and the packing of weights in the order in which the tiles of a block read them.
#include "passes/tile_part.h"
#include <string.h>

// What is needed to pack later.
typedef struct Packing {
    TileShape s;
    TileBlocks blocks;
    TileSource src;
} Packing;

int64_t tile_steps(const TileShape *s)
{
    return s->kh * s->kw * s->ic;
}

int64_t tile_pixels(const Tile *t, int64_t nv)
{
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
    return b;
}

static float *pack_block(const Packing *p, int64_t first, int64_t width, float *out)
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
    const Packing *p = ctx;
    float *out = bytes;
    for (uint32_t i = 0; i < p->blocks.n; i++)
        for (int64_t j = 0; j < p->blocks.block[i].count; j++)
            out = pack_block(p, p->blocks.block[i].first + j * p->blocks.block[i].channels,
                             p->blocks.block[i].width, out);
}

TileWeights tile_pack(const Tile *t, const TileSource *src, const char *name)
{
    Packing *p = ARENA_NEW(t->l->pass->perm, Packing);
    *p = (Packing){.s = t->s, .blocks = tile_blocks(t), .src = *src};
    uint64_t total = 0;
    for (uint32_t i = 0; i < p->blocks.n; i++)
        total += (uint64_t)(p->blocks.block[i].count * p->blocks.block[i].width * tile_steps(&t->s));
    return (TileWeights){.param = lower_param_filled(t->l, name, DTYPE_f32, pack, p, total * sizeof(float)),
                         .is_packed = true,
                         .base = k_index(t->l->k, 0)};
}
