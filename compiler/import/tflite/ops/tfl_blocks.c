// SPDX-License-Identifier: Apache-2.0
// Operators that move elements between space, depth and batch, a block at a time.
#include "compiler/import/tflite/tfl_import.h"

// An image [N, H, W, C]; false: reported.
static bool read_image(TflNode *n, NodeId x, int64_t *size)
{
    if (!n->failed && tfl_rank(n, x) != 4)
        tfl_fail(n, E0204, "expected an image of rank 4");
    for (uint32_t i = 0; i < 4; i++)
        size[i] = tfl_size(n, x, i);
    return !n->failed;
}

void tfl_import_space_to_depth(TflNode *n)
{
    int64_t s[4];
    const int64_t b = tfl_option(n, 0, FLAT_I32, 0);
    const NodeId x = tfl_src(n, 0);
    if (!read_image(n, x, s))
        return;
    if (b < 1 || s[1] % b != 0 || s[2] % b != 0) {
        tfl_fail(n, E0203, "blocks of %lld in an image of %lld x %lld", (long long)b, (long long)s[1],
                 (long long)s[2]);
        return;
    }
    NodeId y = tfl_reshape(n, x, (const Dim[]){s[0], s[1] / b, b, s[2] / b, b, s[3]}, 6);
    y = tfl_transpose(n, y, (const int64_t[]){0, 1, 3, 2, 4, 5});
    tfl_out(n, 0, tfl_reshape(n, y, (const Dim[]){s[0], s[1] / b, s[2] / b, b * b * s[3]}, 4));
}

void tfl_import_depth_to_space(TflNode *n)
{
    int64_t s[4];
    const int64_t b = tfl_option(n, 0, FLAT_I32, 0);
    const NodeId x = tfl_src(n, 0);
    if (!read_image(n, x, s))
        return;
    if (b < 1 || b > INT16_MAX || s[3] % (b * b) != 0) {
        tfl_fail(n, E0203, "blocks of %lld in %lld channels", (long long)b, (long long)s[3]);
        return;
    }
    NodeId y = tfl_reshape(n, x, (const Dim[]){s[0], s[1], s[2], b, b, s[3] / (b * b)}, 6);
    y = tfl_transpose(n, y, (const int64_t[]){0, 1, 3, 2, 4, 5});
    tfl_out(n, 0, tfl_reshape(n, y, (const Dim[]){s[0], s[1] * b, s[2] * b, s[3] / (b * b)}, 4));
}

// Blocks of the axes 1 to m, with what is padded before or cut after: SPACE_TO_BATCH_ND and
// BATCH_TO_SPACE_ND.
typedef struct Blocks {
    int64_t block[TFL_MAX_LIST], edge[TFL_MAX_LIST];
    uint32_t m;
    int64_t count; // of elements of a block
} Blocks;

static bool read_blocks(TflNode *n, NodeId x, Blocks *b)
{
    uint32_t n_edges = 0;
    if (!tfl_src_ints(n, 1, b->block, &b->m) || !tfl_src_ints(n, 2, b->edge, &n_edges))
        return false;
    b->count = 1;
    if (b->m < 1 || b->m > 3 || tfl_rank(n, x) < b->m + 1 || tfl_rank(n, x) + b->m > SHAPE_MAX_RANK ||
        n_edges != 2 * b->m)
        return tfl_fail(n, E0204, "%u blocks and %u edges for rank %u", b->m, n_edges, tfl_rank(n, x));
    for (uint32_t i = 0; i < b->m; i++) {
        if (b->block[i] < 1 || b->block[i] > INT16_MAX || b->edge[2 * i] < 0 || b->edge[2 * i + 1] < 0)
            return tfl_fail(n, E0203, "block %lld", (long long)b->block[i]);
        b->count *= b->block[i];
    }
    return true;
}

void tfl_import_space_to_batch(TflNode *n)
{
    Blocks b;
    NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    if (!read_blocks(n, x, &b))
        return;
    const uint32_t rank = tfl_rank(n, x);
    int64_t pads[2 * SHAPE_MAX_RANK] = {0}, perm[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < b.m; i++) {
        pads[i + 1] = b.edge[2 * i];
        pads[rank + i + 1] = b.edge[2 * i + 1];
    }
    x = tfl_pad(n, x, pads, "constant",
                tfl_is_quantised(tfl_of_out(n, 0)) ? tfl_zero_point(n, tfl_of_out(n, 0)) : 0);
    Shape wide = {.rank = rank + b.m}, out = *tfl_shape(n, x);
    wide.dim[0] = out.dim[0];
    perm[b.m] = 0;
    for (uint32_t i = 0; i < b.m; i++) {
        const int64_t size = tfl_size(n, x, i + 1);
        if (!n->failed && size % b.block[i] != 0)
            tfl_fail(n, E0204, "blocks of %lld do not divide %lld", (long long)b.block[i], (long long)size);
        wide.dim[1 + 2 * i] = out.dim[i + 1] = size / b.block[i];
        wide.dim[2 + 2 * i] = b.block[i];
        perm[i] = 2 + 2 * i;
        perm[b.m + 1 + i] = 1 + 2 * i;
    }
    for (uint32_t i = b.m + 1; i < rank; i++) {
        wide.dim[b.m + i] = out.dim[i];
        perm[b.m + i] = b.m + i;
    }
    out.dim[0] = dim_mul(n->graph->dims, out.dim[0], b.count);
    tfl_out(n, 0, tfl_reshape_like(n, tfl_transpose(n, tfl_reshape_like(n, x, &wide), perm), &out));
}

void tfl_import_batch_to_space(TflNode *n)
{
    Blocks b;
    const NodeId x = tfl_src(n, 0);
    tfl_same_scale(n, 0);
    if (!read_blocks(n, x, &b))
        return;
    const uint32_t rank = tfl_rank(n, x);
    const int64_t batch = tfl_size(n, x, 0);
    Shape wide = {.rank = rank + b.m}, out = *tfl_shape(n, x);
    int64_t perm[SHAPE_MAX_RANK];
    if (!n->failed && batch % b.count != 0)
        tfl_fail(n, E0204, "a batch of %lld in blocks of %lld", (long long)batch, (long long)b.count);
    wide.dim[b.m] = out.dim[0] = batch / b.count;
    perm[0] = b.m;
    for (uint32_t i = 0; i < b.m; i++) {
        wide.dim[i] = b.block[i];
        wide.dim[b.m + 1 + i] = out.dim[i + 1];
        out.dim[i + 1] = dim_mul(n->graph->dims, out.dim[i + 1], b.block[i]);
        perm[1 + 2 * i] = b.m + 1 + i;
        perm[2 + 2 * i] = i;
    }
    for (uint32_t i = b.m + 1; i < rank; i++) {
        wide.dim[b.m + i] = out.dim[i];
        perm[b.m + i] = b.m + i;
    }
    NodeId y = tfl_reshape_like(n, tfl_transpose(n, tfl_reshape_like(n, x, &wide), perm), &out);
    for (uint32_t i = 0; i < b.m; i++)
        y = tfl_slice(n, y, i + 1, b.edge[2 * i], tfl_size(n, y, i + 1) - b.edge[2 * i + 1], 1);
    tfl_out(n, 0, y);
}
