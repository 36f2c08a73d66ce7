// SPDX-License-Identifier: Apache-2.0
// The end of a tile: which sums a thread has, and how what is made of them is stored. gpu_matmul_wgmma.c has
// blocks of shared memory through which 64 x 64 of 16-bit floats leave: in boxes of the copy engine, or by
// lines of a warp where the rows of the result are no steps of that (of 197 elements). Else the threads
// store what they have themselves, as for mma.sync.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul_wgmma.h"
#include "passes/lower/wide.h"

enum {
    WARP = 32,
    WARP_LINES = 16, // of a block
    LINES_AHEAD = 4,
    PIECE = GPU_PIECE,
    PIECES = 8, // of a line of a block
    TURNS = WARP_LINES * PIECES / WARP // of a warp, for its lines of a block
};

void gpu_tile_move(const GpuEmit *e, const GpuMatrix *x, uint32_t map, const KRef *at,
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

// --- sums ----------------------------------------------------------------------------------------

GpuFragment gpu_fragment_of(const GpuEmit *e, KRef own, KRef block)
{
    Kernel *k = e->k;
    GpuFragment f = {.lane = k_expr(k, "$ % 32", own), .warp = k_expr(k, "$ / 32", own)};
    const KRef quad = k_expr(k, "$ / 4", f.lane);
    f.row = k_expr(k, "$ * # + ($ * 16 + $)", block, GPU_BLOCK_ROWS, f.warp, quad);
    f.column = k_expr(k, "$ % 4 * 2", f.lane);
    return f;
}

// What the root is made of beside the sums, by at most n neighbours of a row. False: not so, or nothing.
bool gpu_has_wide(const GpuEmit *e, int64_t n, Wide *w)
{
    const KRef zero = k_index(e->k, 0), batch[GPU_MATMUL_MAX_BATCH] = {zero, zero, zero, zero};
    const Point at = e->p->point(e->p, batch, zero, zero);
    if (!wide_new(e->l, e->p->d, at.vec_axis, w) || w->n < 2 || w->n_values == 0)
        return false;
    w->n = w->n < n ? w->n : (uint8_t)n;
    for (uint32_t i = 0; i < w->n_values; i++)
        w->piece[i] = w->piece[i] > w->n ? w->n : w->piece[i];
    return true;
}

// One block of 64 columns of a thread's sums: 32 of them, in four parts of 16 columns.
typedef struct Block {
    const GpuEmit *e;
    const GpuPlace *at;
    const GpuFragment *f;
    KRef sums, chunk;
    Wide wide;
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

static void fetch_pairs(const Block *b)
{
    Kernel *k = b->e->k;
    const Wide *w = &b->wide;
    const KRef j = k_loop(k, 4, KFOR_UNROLL, "j");
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t h = 0; h < 2; h++) {
            Point at = pair_point(b, j, i, h, 0);
            if (b->e->p->n % b->e->columns != 0) // the last pair, where there are no more
                at.idx[w->axis] = k_expr(k, "min($, #)", at.idx[w->axis], b->e->p->n - 2);
            wide_fetch(b->e->l, w, at, pair_place(b, j, i, h));
        }
    k_end(k);
}

// The root at a pair, as a word of two numbers.
static KRef pack_pair(const Block *b, KRef j, uint32_t i, uint32_t h)
{
    Kernel *k = b->e->k;
    const Lower *l = b->e->l;
    const int type = lower_node(l, b->e->stores_pieces ? l->anchor : l->root)->dtype;
    const KDevice pack = type == DTYPE_f16 ? KDEV_pack_f16 : KDEV_pack_bf16;
    const KRef place = pair_place(b, j, i, h);
    const bool is_both = !b->e->stores_pieces && b->e->p->second != NULL;
    KRef v[2];
    for (uint32_t n = 0; n < 2; n++) {
        Point at = pair_point(b, j, i, h, n);
        at.slot = b->is_wide ? k_expr(k, "$ + #", place, n) : 0;
        const KRef sum = k_aload(k, b->sums, k_expr(k, "$ * 32 + $ + #", b->chunk, place, n), 1);
        const KRef other = k_expr(k, "$ * 32 + $ + #", b->chunk, place, b->e->columns / 2 + n);
        const KRef second = is_both ? k_aload(k, b->sums, other, 1) : 0;
        v[n] = b->e->stores_pieces ? sum : gpu_tile_root(b->e, at, sum, second);
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
                  gpu_tile_end(e->tile));
}

// What a block is made of beside the sums, into registers: until wide_end, if is_wide.
static void begin_block(Block *b)
{
    b->is_wide = gpu_has_wide(b->e, 2, &b->wide);
    if (b->is_wide) {
        wide_declare(b->e->l, &b->wide, 16);
        fetch_pairs(b);
    }
}

// 64 columns at a time, by boxes of the copy engine.
static void store_boxes(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, const KRef *thread,
                        KRef sums)
{
    Kernel *k = e->k;
    const KRef own = thread[0], block = thread[1], is_first = k_expr(k, "$ == 0", own);
    if (e->columns / 64 % 2 != 0) { // the tile before has ended with the block that this one begins with
        k_if(k, is_first);
        k_device_with(k, KDEV_bulk_wait_read, 0);
        k_end(k);
    }
    const KRef chunk = k_loop(k, e->columns / 64, KFOR_UNROLL, "chunk");
    const KRef buffer = buffer_of(e, block, chunk);
    const KRef barrier = k_expr(k, "$ + 1", block), threads = k_index(k, GPU_WARPGROUP);
    Block b = {.e = e, .at = at, .f = f, .sums = sums, .chunk = chunk};
    begin_block(&b);
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
    gpu_tile_move(e, &e->p->c, e->map_c, (const KRef[4]){buffer, column, row, 0}, at);
    k_device_with(k, KDEV_bulk_commit, 0);
    k_end(k);
    k_end(k);
}

// --- by lines of a warp --------------------------------------------------------------------------

uint32_t gpu_result_param(const GpuEmit *e)
{
    return e->p->c.packed != 0 ? e->p->c.packed - 1 : lower_param(e->l, e->l->root, PARAM_WRITE);
}

KRef gpu_root_index(const GpuEmit *e, const GpuPlace *at, KRef row, KRef column)
{
    if (e->p->c.packed != 0)
        return k_expr(e->k, "$ * # + $", row, e->p->c.outer, column);
    Pull pull = pull_at(e->l, e->p->d, e->p->point(e->p, at->batch, row, column));
    return pull_index(&pull, e->l->root);
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
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    const uint32_t param = gpu_result_param(e);
    const int type = (int)k->params.data[param].dtype;
    const KRef turn = k_loop(k, WARP_LINES / LINES_AHEAD, KFOR_SERIAL, "turn");
    const KRef i = k_loop(k, LINES_AHEAD, KFOR_UNROLL, "i");
    const KRef line = k_expr(k, "$ * # + ($ * # + $)", b->f->warp, WARP_LINES, turn, LINES_AHEAD, i);
    const KRef half = k_loop(k, GPU_TILE_K / WARP, KFOR_UNROLL, "half");
    const KRef column = k_expr(k, "$ * # + $", half, WARP, b->f->lane);
    const KRef r = k_expr(k, "$ + ($ * # + $)", b->at->m, block, GPU_BLOCK_ROWS, line);
    const KRef c = k_expr(k, "$ + ($ * 64 + $)", b->at->n, b->chunk, column);
    k_if(k, k_expr(k, "$ < # & $ < #", r, e->p->m, c, e->p->n));
    k_store(k, param, gpu_root_index(e, b->at, r, c), element_of(e, buffer, line, column, type), 1);
    k_end(k);
    k_end(k);
    k_end(k);
    k_end(k);
}

// Opens a loop over blocks of 64 columns. buffer: the place in shared memory where a warp puts such a block.
static Block open_columns(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef block, KRef sums,
                          KRef *buffer)
{
    Kernel *k = e->k;
    const bool is_both = e->p->second != NULL; // each block of columns takes both blocks of shared memory
    if (e->columns / 64 % 2 != 0 && !is_both) // the tile before has ended with the block that begins this
        k_device_with(k, KDEV_warp_sync, 0);
    const KRef chunk = k_loop(k, e->columns / 64, KFOR_UNROLL, "chunk");
    *buffer = buffer_of(e, block, is_both ? k_index(k, 0) : chunk);
    return (Block){.e = e, .at = at, .f = f, .sums = sums, .chunk = chunk};
}

// 64 columns at a time: each warp puts its lines into shared memory, and stores them from there.
static void store_lines(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef block, KRef sums)
{
    Kernel *k = e->k;
    KRef buffer = 0;
    Block b = open_columns(e, at, f, block, sums, &buffer);
    begin_block(&b);
    put_block(&b, buffer);
    if (b.is_wide)
        wide_end(e->l);
    k_device_with(k, KDEV_warp_sync, 0);
    store_lines_of(&b, buffer, block);
    k_end(k);
}

// --- by pieces -----------------------------------------------------------------------------------

// Eight columns of a line of a block, of which a thread has one in each turn.
typedef struct Piece {
    KRef line, part, row, column, slot; // slot: of the first of what it is made of beside the sums
    KRef entry;                         // of the row
} Piece;

// The line of a block that a thread has in a turn.
static KRef line_of_turn(const GpuEmit *e, const GpuFragment *f, KRef turn)
{
    const KRef own = k_expr(e->k, "$ * # + $ / #", turn, WARP / PIECES, f->lane, PIECES);
    return k_expr(e->k, "$ * # + $", f->warp, WARP_LINES, own);
}

KRef gpu_piece_entries(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef block)
{
    rlx_assert(e->stores_pieces && e->p->m % e->rows == 0);
    Kernel *k = e->k;
    const KRef entries = k_array(k, DTYPE_i32, TURNS), turn = k_loop(k, TURNS, KFOR_UNROLL, "turn");
    const KRef row = k_expr(k, "$ + ($ * # + $)", at->m, block, GPU_BLOCK_ROWS, line_of_turn(e, f, turn));
    k_astore(k, entries, turn, k_cast(k, gpu_group_entry(e->p, row), DTYPE_i32));
    k_end(k);
    return entries;
}

// The product, of which nothing is asked but what concerns the row of a piece.
static GpuMatmul product_of_piece(const GpuEmit *e, const Piece *x, GpuGroups *groups)
{
    GpuMatmul p = *e->p;
    *groups = *e->p->groups;
    groups->entry = x->entry;
    p.groups = groups;
    return p;
}

// Opens a block for what the thread has in a turn, if that is not beyond the end.
static Piece open_piece(const Block *b, KRef block, KRef turn)
{
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    GpuGroups groups;
    Piece x = {.part = k_expr(k, "$ % #", b->f->lane, PIECES), .slot = k_expr(k, "$ * #", turn, PIECE)};
    x.line = line_of_turn(e, b->f, turn);
    x.entry = k_cast(k, k_aload(k, e->entries, turn, 1), KT_INDEX);
    x.row = k_expr(k, "$ + ($ * # + $)", b->at->m, block, GPU_BLOCK_ROWS, x.line);
    x.column = k_expr(k, "$ + ($ * 64 + $ * #)", b->at->n, b->chunk, x.part, PIECE);
    KRef is_in = k_integer(k, DTYPE_bool, 1);
    if (e->p->n % e->columns != 0)
        is_in = k_expr(k, "$ < #", x.column, e->p->n);
    const GpuMatmul p = product_of_piece(e, &x, &groups);
    k_if(k, gpu_group_is_in(&p, x.row, is_in));
    return x;
}

static Point piece_point(const Block *b, const Piece *x, int64_t i)
{
    Kernel *k = b->e->k;
    GpuGroups groups;
    const GpuMatmul p = product_of_piece(b->e, x, &groups);
    Point at = p.point(&p, b->at->batch, x->row, k_expr(k, "$ + #", x->column, i));
    at.slot = b->is_wide ? k_expr(k, "$ + #", x->slot, i) : 0;
    return at;
}

// The words of a piece, two rounded sums each.
static KRef piece_words(const Block *b, const Piece *x, KRef buffer)
{
    Kernel *k = b->e->k;
    const KRef words = k_array(k, DTYPE_u32, PIECE / 2);
    const KRef swizzled = k_xor(k, x->part, k_expr(k, "$ % 8", x->line));
    k_device(k, KDEV_shared_get_words, words, k_index(k, 0),
             k_expr(k, "$ * # + ($ * 16 + $)", x->line, GPU_ROW_BYTES, swizzled, buffer));
    return words;
}

// Sum i of a piece, as it counts.
static KRef piece_sum(const Block *b, const Piece *x, KRef words, int64_t i)
{
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    GpuGroups groups;
    const GpuMatmul p = product_of_piece(e, x, &groups);
    const KRef word = k_aload(k, words, k_index(k, i / 2), 1);
    const KRef half = i % 2 == 0 ? word : k_shr(k, word, k_integer(k, DTYPE_u32, 16));
    const int type = lower_node(e->l, e->l->anchor)->dtype;
    const KRef sum = k_cast(k, k_bitcast(k, k_cast(k, half, DTYPE_u16), type), DTYPE_f32);
    return gpu_group_sum(&p, x->row, x->column, sum);
}

// The sums, rounded, from shared memory (buffer[1]: of the second product, or 0), and the root of each.
static void store_piece(const Block *b, const Piece *x, const KRef *buffer)
{
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    const uint32_t param = gpu_result_param(e);
    const int type = (int)k->params.data[param].dtype;
    const KRef values = k_array(k, type, PIECE), words = piece_words(b, x, buffer[0]);
    const KRef second = buffer[1] != 0 ? piece_words(b, x, buffer[1]) : 0;
    for (int64_t i = 0; i < PIECE; i++) {
        const KRef other = second != 0 ? piece_sum(b, x, second, i) : 0;
        const KRef root = gpu_tile_root(e, piece_point(b, x, i), piece_sum(b, x, words, i), other);
        k_astore(k, values, k_index(k, i), k_cast(k, root, type));
    }
    Pull pull = pull_at(e->l, e->p->d, piece_point(b, x, 0));
    k_put(k, param, pull_index(&pull, e->l->root), values, k_index(k, 0), PIECE);
}

// What the pieces are made of beside the sums is under way before these are there.
static void fetch_pieces(Block *b, KRef block)
{
    Kernel *k = b->e->k;
    b->is_wide = gpu_has_wide(b->e, PIECE, &b->wide);
    if (!b->is_wide)
        return;
    wide_declare(b->e->l, &b->wide, TURNS * PIECE / b->wide.n);
    const Piece x = open_piece(b, block, k_loop(k, TURNS, KFOR_UNROLL, "turn"));
    for (int64_t i = 0; i < PIECE; i += b->wide.n)
        wide_fetch(b->e->l, &b->wide, piece_point(b, &x, i), k_expr(k, "$ + #", x.slot, i));
    k_end(k);
    k_end(k);
}

// 64 columns at a time, as lines of a warp; eight threads have a line.
static void store_pieces(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, KRef block, KRef sums)
{
    Kernel *k = e->k;
    KRef buffer[2] = {0};
    Block b = open_columns(e, at, f, block, sums, &buffer[0]);
    fetch_pieces(&b, block);
    if (e->p->second != NULL) {
        k_device_with(k, KDEV_warp_sync, 0); // nobody reads what the block before has put there
        Block second = b;
        second.chunk = k_expr(k, "$ + #", b.chunk, e->columns / 64);
        buffer[1] = buffer_of(e, block, k_index(k, 1));
        put_block(&second, buffer[1]);
    }
    put_block(&b, buffer[0]);
    k_device_with(k, KDEV_warp_sync, 0);
    const Piece x = open_piece(&b, block, k_loop(k, TURNS, KFOR_UNROLL, "turn"));
    store_piece(&b, &x, buffer);
    k_end(k);
    k_end(k);
    if (b.is_wide)
        wide_end(e->l);
    k_end(k);
}

void gpu_store_sums(const GpuEmit *e, const GpuPlace *at, const GpuFragment *f, const KRef *thread, KRef sums)
{
    rlx_assert(sums != 0 && !(e->stores_boxes && e->stores_lines));
    rlx_assert(e->p->bytes == NULL || !gpu_has_blocks(e));
    const KRef none = k_index(e->k, 0);
    if (e->stores_boxes)
        store_boxes(e, at, f, thread, sums);
    else if (e->stores_pieces)
        store_pieces(e, at, f, thread[1], sums);
    else if (e->stores_lines)
        store_lines(e, at, f, thread[1], sums);
    else
        gpu_store_fours(e, at, &(GpuFours){f->row, none, f->column, sums, none, e->columns / 8});
}
