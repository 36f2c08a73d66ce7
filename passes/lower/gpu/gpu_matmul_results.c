// SPDX-License-Identifier: Apache-2.0
// What gpu_matmul_wgmma.c makes of the sums of a tile: the root, by boxes that the copy engine writes from
// shared memory, by lines of a warp where the rows of the result are no steps of that (of 197 elements), or
// by pairs of each thread.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul_wgmma.h"
#include "passes/lower/wide.h"

enum { WARP_LINES = 16, LINES_AHEAD = 4, WARP = 32 };

void gpu_move_box(const GpuEmit *e, const GpuMatrix *x, uint32_t map, const KRef *at,
                     const GpuPlace *place)
{
    static const KDevice own[] = {KDEV_tma_load_2d, KDEV_tma_load_3d, KDEV_tma_load_4d};
    static const KDevice both[] = {KDEV_tma_share_2d, KDEV_tma_share_3d, KDEV_tma_share_4d};
    const bool is_shared = x == &e->p->b && e->tile.pair > 1;
    const KDevice *loads = is_shared ? both : own;
    static const KDevice stores[] = {KDEV_tma_store_2d, KDEV_tma_store_3d, KDEV_tma_store_4d};
    const bool is_load = at[3] != 0;
    KRef src[KDEV_MAX_OPERANDS + 1] = {0};
    uint32_t n = 0, more = 0;
    const KRef address = k_address(e->k, map, k_index(e->k, 0));
    src[n++] = is_load ? at[0] : address;
    src[n++] = is_load ? address : at[0];
    src[n++] = at[1];
    src[n++] = at[2];
    for (uint32_t i = e->p->n_batch; i-- > 0;)
        if (x->batch[i] != 0) {
            src[n++] = place->batch[i];
            more++;
        }
    if (is_load)
        src[n++] = at[3];
    if (is_shared) // both groups of the pair, as bits of the cluster's groups
        src[n++] = k_shl(e->k, k_index(e->k, 3), k_expr(e->k, "$ * 2", e->rank));
    k_device_list(e->k, is_load ? loads[more] : stores[more], 0, src);
}

GpuFragment gpu_fragment_of(const GpuEmit *e, KRef own, KRef block)
{
    Kernel *k = e->k;
    GpuFragment f = {.lane = k_expr(k, "$ % 32", own), .warp = k_expr(k, "$ / 32", own)};
    const KRef quad = k_expr(k, "$ / 4", f.lane);
    f.row = k_expr(k, "$ * # + ($ * 16 + $)", block, GPU_BLOCK_ROWS, f.warp, quad);
    f.column = k_expr(k, "$ % 4 * 2", f.lane);
    return f;
}

// What the root is made of beside the sums, by pairs of neighbours. False: not by pairs, or nothing.
static bool has_pairs(const GpuEmit *e, Wide *w)
{
    const KRef zero = k_index(e->k, 0), batch[GPU_MATMUL_MAX_BATCH] = {zero, zero, zero, zero};
    const Point at = e->p->point(e->p, batch, zero, zero);
    if (!wide_new(e->l, e->p->d, at.vec_axis, w) || w->n < 2 || w->n_values == 0)
        return false;
    w->n = 2;
    for (uint32_t i = 0; i < w->n_values; i++)
        w->piece[i] = w->piece[i] > 2 ? 2 : w->piece[i];
    return true;
}

// One block of 64 columns of a thread's sums: 32 of them, in four parts of 16 columns.
typedef struct Block {
    const GpuEmit *e;
    const GpuPlace *at;
    const GpuFragment *f;
    KRef sums, chunk;
    bool is_wide; // pairs are in registers
} Block;

// The place of a pair: half i of part j, h: 8 rows below. The first of the 32 sums is at chunk * 32.
static KRef pair_place(const Block *b, KRef j, uint32_t i, uint32_t h)
{
    return k_expr(b->e->k, "$ * 8 + #", j, 4 * i + 2 * h);
}

static Point pair_point(const Block *b, KRef j, uint32_t i, uint32_t h, uint32_t n)
{
    Kernel *k = b->e->k;
    const KRef column = k_expr(k, "$ * 16 + ($ + #)", j, b->f->column, 8 * i + n);
    return gpu_tile_point(b->e, b->at, k_expr(k, "$ + #", b->f->row, 8 * h),
                          k_expr(k, "$ * 64 + $", b->chunk, column));
}

static void fetch_pairs(const Block *b, const Wide *w)
{
    Kernel *k = b->e->k;
    const KRef j = k_loop(k, 4, KFOR_UNROLL, "j");
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t h = 0; h < 2; h++) {
            Point at = pair_point(b, j, i, h, 0);
            if (b->e->p->n % b->e->tile.columns != 0) // the last pair, where there are no more
                at.idx[w->axis] = k_expr(k, "min($, #)", at.idx[w->axis], b->e->p->n - 2);
            wide_fetch(b->e->l, w, at, pair_place(b, j, i, h));
        }
    k_end(k);
}

// The root at a pair, as a word of two numbers.
static KRef pack_pair(const Block *b, KRef j, uint32_t i, uint32_t h)
{
    Kernel *k = b->e->k;
    const KDevice pack = gpu_matmul_type(b->e->p) == DTYPE_f16 ? KDEV_pack_f16 : KDEV_pack_bf16;
    const KRef place = pair_place(b, j, i, h);
    KRef v[2];
    for (uint32_t n = 0; n < 2; n++) {
        Point at = pair_point(b, j, i, h, n);
        at.slot = b->is_wide ? k_expr(k, "$ + #", place, n) : 0;
        const KRef sum = k_aload(k, b->sums, k_expr(k, "$ * 32 + $ + #", b->chunk, place, n), 1);
        v[n] = gpu_tile_root(b->e, at, sum);
    }
    return k_call(k, pack, v[0], v[1], 0);
}

// To shared memory, in the swizzled order that the copy engine reads.
static void put_block(const Block *b, KRef buffer)
{
    Kernel *k = b->e->k;
    const GpuFragment *f = b->f;
    const KRef low = k_expr(k, "$ % 8", f->lane);
    const KRef half = k_expr(k, "$ / 8 % 2", f->lane);
    const KRef line = k_expr(k, "$ * 16 + ($ * 8 + $)", f->warp, half, low);
    const KRef high = k_expr(k, "$ / 16", f->lane);
    const KRef j = k_loop(k, 4, KFOR_UNROLL, "j");
    KRef word[4];
    for (uint32_t i = 0; i < 4; i++)
        word[i] = pack_pair(b, j, i / 2, i % 2);
    const KRef part = k_xor(k, k_expr(k, "$ * 2 + $", j, high), low);
    const KRef to = k_expr(k, "$ * # + ($ * 16 + $)", line, GPU_ROW_BYTES, part, buffer);
    k_device(k, KDEV_stmatrix4, to, word[0], word[1], word[2], word[3]);
    k_end(k);
}

// One of the two blocks of shared memory of a warpgroup, in turn.
static KRef buffer_of(const GpuEmit *e, KRef block, KRef chunk)
{
    Kernel *k = e->k;
    const KRef number = k_expr(k, "$ * 2 + $ % 2", block, chunk);
    return k_expr(k, "$ * # + ($ + #)", number, GPU_BLOCK_BYTES, e->shared,
                  e->tile.stages * gpu_tile_slot(e->tile));
}

// 64 columns at a time, by boxes of the copy engine.
static void store_blocks(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, const KRef *thread,
                         KRef sums)
{
    Kernel *k = e->k;
    const KRef own = thread[0], block = thread[1], is_first = k_expr(k, "$ == 0", own);
    if (e->tile.columns / 64 % 2 != 0) { // the tile before has ended with the block that this one begins with
        k_if(k, is_first);
        k_device_with(k, KDEV_bulk_wait_read, 0);
        k_end(k);
    }
    const KRef chunk = k_loop(k, e->tile.columns / 64, KFOR_UNROLL, "chunk");
    const KRef buffer = buffer_of(e, block, chunk);
    const KRef barrier = k_expr(k, "$ + 1", block), threads = k_index(k, GPU_WARPGROUP);
    Wide w;
    const Block b = {.e = e, .at = at, .f = f, .sums = sums, .chunk = chunk, .is_wide = has_pairs(e, &w)};
    if (b.is_wide) {
        wide_declare(e->l, &w, 16);
        fetch_pairs(&b, &w);
    }
    k_if(k, is_first);
    k_device_with(k, KDEV_bulk_wait_read, 1); // the copy from this buffer two chunks ago
    k_end(k);
    k_device(k, KDEV_named_sync, barrier, threads);
    put_block(&b, buffer);
    if (b.is_wide)
        wide_end(e->l);
    k_device_with(k, KDEV_proxy_fence, 0);
    k_device(k, KDEV_named_sync, barrier, threads);
    k_if(k, is_first);
    const KRef column = k_expr(k, "$ * 64 + $", chunk, at->n),
               row = k_expr(k, "$ * # + $", block, GPU_BLOCK_ROWS, at->m);
    gpu_move_box(e, &e->p->c, e->map_c, (const KRef[4]){buffer, column, row, 0}, at);
    k_device_with(k, KDEV_bulk_commit, 0);
    k_end(k);
    k_end(k);
}

void gpu_store_four(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef sums, KRef from,
                       KRef column)
{
    Kernel *k = e->k;
    for (uint32_t h = 0; h < 2; h++) {
        KRef sum[2];
        for (uint32_t i = 0; i < 2; i++)
            sum[i] = k_aload(k, sums, k_expr(k, "$ + #", from, 2 * h + i), 1);
        gpu_tile_store(e, at, k_expr(k, "$ + #", f->row, 8 * h), column, sum);
    }
}

static void store_directly(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef sums)
{
    Kernel *k = e->k;
    const KRef j = k_loop(k, e->tile.columns / 8, KFOR_UNROLL, "j");
    gpu_store_four(e, at, f, sums, k_expr(k, "$ * 4", j), k_expr(k, "$ * 8 + $", j, f->column));
    k_end(k);
}

// The element of a line of a block that this lane stores: one of its 64 columns.
static KRef element_of(const GpuEmit *e, KRef buffer, KRef line, KRef column, int type)
{
    Kernel *k = e->k;
    const KRef word = k_var(k, k_index(k, 0), "word");
    const KRef part = k_xor(k, k_expr(k, "$ / 8", column), k_expr(k, "$ % 8", line));
    const KRef at = k_expr(k, "$ * 16 + $ % 8 / 2 * 4", part, column);
    k_device(k, KDEV_shared_get, word, k_expr(k, "$ * # + ($ + $)", line, GPU_ROW_BYTES, at, buffer));
    const KRef shift = k_cast(k, k_expr(k, "$ % 2 * 16", column), DTYPE_u32);
    const KRef bits = k_shr(k, k_cast(k, k_get(k, word), DTYPE_u32), shift);
    return k_bitcast(k, k_cast(k, bits, DTYPE_u16), type);
}

// The warp's lines of a block, each by all lanes.
static void store_lines_of(const Block *b, KRef buffer, KRef block)
{
    Kernel *k = b->e->k;
    const int type = lower_node(b->e->l, b->e->l->root)->dtype;
    const KRef turn = k_loop(k, WARP_LINES / LINES_AHEAD, KFOR_SERIAL, "turn");
    const KRef i = k_loop(k, LINES_AHEAD, KFOR_UNROLL, "i");
    const KRef line = k_expr(k, "$ * # + ($ * # + $)", b->f->warp, WARP_LINES, turn, LINES_AHEAD, i);
    const KRef half = k_loop(k, GPU_TILE_K / WARP, KFOR_UNROLL, "half");
    const KRef column = k_expr(k, "$ * # + $", half, WARP, b->f->lane);
    const KRef own_row = k_expr(k, "$ * # + $", block, GPU_BLOCK_ROWS, line);
    const KRef own_column = k_expr(k, "$ * 64 + $", b->chunk, column);
    k_if(k, k_expr(k, "$ + $ < # & $ + $ < #", b->at->m, own_row, b->e->p->m, b->at->n, own_column,
                   b->e->p->n));
    gpu_tile_put(b->e, b->at, own_row, own_column, element_of(b->e, buffer, line, column, type));
    k_end(k);
    k_end(k);
    k_end(k);
    k_end(k);
}

// 64 columns at a time: each warp puts its lines into shared memory, and stores them from there.
static void store_lines(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef block, KRef sums)
{
    Kernel *k = e->k;
    if (e->tile.columns / 64 % 2 != 0) // the tile before has ended with the block that this one begins with
        k_device_with(k, KDEV_warp_sync, 0);
    const KRef chunk = k_loop(k, e->tile.columns / 64, KFOR_UNROLL, "chunk");
    const KRef buffer = buffer_of(e, block, chunk);
    Wide w;
    const Block b = {.e = e, .at = at, .f = f, .sums = sums, .chunk = chunk, .is_wide = has_pairs(e, &w)};
    if (b.is_wide) {
        wide_declare(e->l, &w, 16);
        fetch_pairs(&b, &w);
    }
    put_block(&b, buffer);
    if (b.is_wide)
        wide_end(e->l);
    k_device_with(k, KDEV_warp_sync, 0);
    store_lines_of(&b, buffer, block);
    k_end(k);
}

void gpu_store_sums(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, const KRef *thread, KRef sums)
{
    rlx_assert(sums != 0 && !(e->stores_boxes && e->stores_lines));
    if (e->stores_boxes)
        store_blocks(e, at, f, thread, sums);
    else if (e->stores_lines)
        store_lines(e, at, f, thread[1], sums);
    else
        store_directly(e, at, f, sums);
}
