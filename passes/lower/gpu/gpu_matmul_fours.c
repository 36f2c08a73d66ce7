// SPDX-License-Identifier: Apache-2.0
// The end of a tile whose threads store the sums that they have: runs of neighbours of a row.
#include "passes/lower/gpu/gpu_matmul.h"
#include "passes/lower/gpu/gpu_matmul_wgmma.h"
#include "passes/lower/wide.h"

enum { BATCH = GPU_BYTE_FOURS }; // fours whose operands are under way at once

// Some fours, of which `first` is the number of the first one. The thread has runs of neighbours in each of
// two rows: of floats the two of each four, of bytes those of several (gpu_byte_column). What the root is
// made of beside the sums is read first, so that it is under way at once.
typedef struct Batch {
    const GpuEmit *e;
    const GpuPlace *at;
    const GpuFours *all;
    KRef first, begins;    // begins: of sums of bytes, 0: there are none, or they are read one by one
    int64_t count, fours;  // fours of the batch, and of a run
    int64_t length;        // elements of a run
    int64_t width, piece;  // elements of it that are there or not; that are stored at once
    Wide wide;
    bool has_wide;
} Batch;

// `width` elements of a run: row and column of the product, number of the first one in the run and among the
// batch's registers.
typedef struct Part {
    KRef row, column, four, slot;
    uint32_t h;
    int64_t at;
} Part;

static int64_t width_of(const GpuMatmul *p, int64_t length)
{
    while (p->n % length != 0)
        length /= 2;
    return length;
}

static int64_t piece_of(const GpuMatmul *p, int64_t width, int type)
{
    if (p->c.k != 1)
        return 1;
    const int64_t aligned = lower_alignment(p->l, p->c.loc, (DType)type) / dtype_info[type].bytes;
    int64_t steps = p->c.outer | aligned | width | k_fetch_width(type);
    for (uint32_t i = 0; i < p->n_batch; i++)
        steps |= p->c.batch[i];
    return steps & -steps;
}

// Number of a thread's sum: of element `n` of a part.
static KRef sum_of(const Batch *b, const Part *t, int64_t n)
{
    Kernel *k = b->e->k;
    const int64_t i = t->at + n, own = i / 2 * 4 + i % 2 + 2 * t->h;
    return k_expr(k, "($ + $) * 4 + ($ + #)", b->first, t->four, b->all->from, own);
}

// Opens a block for what is not beyond the end, unless tiles of that size end there: blocks keep the
// assembler from doing several parts at once. Returns whether it did.
static bool open_within(Kernel *k, KRef at, int64_t n, int64_t tile)
{
    if (n % tile != 0)
        k_if(k, k_expr(k, "$ < #", at, n));
    return n % tile != 0;
}

// Calls fn for each part of `width` of a run that is not beyond the end.
static void each_of_run(const Batch *b, Part *t, void (*fn)(const Batch *b, const Part *t))
{
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    const KRef lane = k_expr(k, "$ * #", b->all->lane, b->fours);
    const KRef begin = k_expr(k, "($ + $) * 8 + $", b->first, t->four, b->all->column);
    for (t->at = 0; t->at < b->length; t->at += b->width) {
        t->column = k_add(k, b->at->n, k_expr(k, "$ + $ + #", begin, lane, t->at));
        t->slot = k_expr(k, "$ * 4 + #", t->four, t->h * b->length + t->at);
        const bool has_end = open_within(k, t->column, e->p->n, e->columns);
        fn(b, t);
        if (has_end)
            k_end(k);
    }
}

// The same for a row, which experts may also lack.
static bool open_row(const Batch *b, KRef row)
{
    const GpuEmit *e = b->e;
    if (e->p->groups == NULL)
        return open_within(e->k, row, e->p->m, e->rows * e->tile.pair);
    k_if(e->k, gpu_group_is_in(e->p, row, k_expr(e->k, "$ < #", row, e->p->m)));
    return true;
}

static void each_part(const Batch *b, void (*fn)(const Batch *b, const Part *t))
{
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    const int64_t runs = b->count / b->fours;
    Part t = {0};
    for (t.h = 0; t.h < 2; t.h++) {
        t.row = k_add(k, b->at->m, k_expr(k, "$ + #", b->all->row, 8 * t.h));
        const bool has_end = open_row(b, t.row);
        t.four = runs > 1 ? k_expr(k, "$ * #", k_loop(k, runs, KFOR_UNROLL, "run"), b->fours) : k_index(k, 0);
        each_of_run(b, &t, fn);
        if (runs > 1)
            k_end(k);
        if (has_end)
            k_end(k);
    }
}

static Point part_point(const Batch *b, const Part *t, int64_t n)
{
    return b->e->p->point(b->e->p, b->at->batch, t->row, k_expr(b->e->k, "$ + #", t->column, n));
}

static void fetch_part(const Batch *b, const Part *t)
{
    const GpuEmit *e = b->e;
    const int64_t most = k_fetch_width(DTYPE_i32), n = b->width;
    for (int64_t i = 0; b->has_wide && i < n; i += b->wide.n)
        wide_fetch(e->l, &b->wide, part_point(b, t, i), k_expr(e->k, "$ + #", t->slot, i));
    if (b->begins == 0)
        return;
    const Point at = part_point(b, t, 0);
    for (int64_t i = 0; i < n; i += most)
        k_fetch(e->k, e->p->bytes->begin - 1, k_expr(e->k, "$ + #", at.idx[1], i), b->begins,
                k_expr(e->k, "$ + #", t->slot, i), (uint8_t)(n < most ? n : most));
}

static KRef root_of(const Batch *b, const Part *t, int64_t n)
{
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    const KRef slot = k_expr(k, "$ + #", t->slot, n);
    Point at = part_point(b, t, n);
    const KRef place = sum_of(b, t, n), column = k_expr(k, "$ + #", t->column, n);
    KRef sum = k_aload(k, b->all->sums, place, 1), second = 0;
    if (e->p->bytes != NULL) {
        const KRef begin = b->begins != 0 ? k_aload(k, b->begins, slot, 1) : 0;
        sum = gpu_byte_sum(k, e->p->bytes, (GpuByteSum){sum, begin, e->zero, at.idx[1]});
    }
    at.slot = b->has_wide ? slot : 0;
    if (e->p->second != NULL) {
        const KRef other = k_aload(k, b->all->sums, k_expr(k, "$ + #", place, e->columns / 2), 1);
        second = gpu_group_sum(e->p, t->row, column, other);
    }
    return gpu_tile_root(e, at, gpu_group_sum(e->p, t->row, column, sum), second);
}

static void store_part(const Batch *b, const Part *t)
{
    const GpuEmit *e = b->e;
    Kernel *k = e->k;
    const uint32_t param = gpu_result_param(e);
    const int type = (int)k->params.data[param].dtype;
    const KRef values = k_array(k, type, b->width);
    for (int64_t n = 0; n < b->width; n++)
        k_astore(k, values, k_index(k, n), k_cast(k, root_of(b, t, n), type));
    for (int64_t n = 0; n < b->width; n += b->piece) {
        const KRef index = gpu_root_index(e, b->at, t->row, k_expr(k, "$ + #", t->column, n));
        if (b->piece > 1)
            k_put(k, param, index, values, k_index(k, n), (uint8_t)b->piece);
        else
            k_store(k, param, index, k_aload(k, values, k_index(k, n), 1), 1);
    }
}

static void store_batch(Batch b)
{
    const GpuEmit *e = b.e;
    Kernel *k = e->k;
    const uint32_t param = gpu_result_param(e);
    b.fours = gpu_run_fours(e->l, e->p->bytes != NULL);
    rlx_assert(b.count % b.fours == 0);
    b.length = 2 * b.fours;
    b.width = width_of(e->p, b.length);
    b.piece = piece_of(e->p, b.width, (int)k->params.data[param].dtype);
    b.has_wide = b.width > 1 && gpu_has_wide(e, b.width, &b.wide);
    if (e->p->bytes != NULL && e->p->bytes->begin != 0)
        b.begins = k_array(k, DTYPE_i32, 4 * b.count);
    if (b.has_wide)
        wide_declare(e->l, &b.wide, 4 * b.count / b.wide.n);
    if (b.has_wide || b.begins != 0)
        each_part(&b, fetch_part);
    each_part(&b, store_part);
    if (b.has_wide)
        wide_end(e->l);
}

void gpu_store_fours(const GpuEmit *e, const GpuPlace *at, const GpuFours *f)
{
    rlx_assert(f->n >= 1 && f->sums != 0 && e->columns > 0 && e->rows > 0);
    Kernel *k = e->k;
    Batch b = {.e = e, .at = at, .all = f, .count = BATCH};
    if (f->n >= BATCH) {
        b.first = k_expr(k, "$ * #", k_loop(k, f->n / BATCH, KFOR_UNROLL, "batch"), BATCH);
        store_batch(b);
        k_end(k);
    }
    b.first = k_index(k, f->n / BATCH * BATCH);
    b.count = f->n % BATCH;
    if (b.count != 0)
        store_batch(b);
}

bool gpu_stores_pairs(const GpuMatmul *p)
{
    rlx_assert(p->bytes == NULL);
    return piece_of(p, width_of(p, 2), lower_node(p->l, p->l->root)->dtype) > 1;
}

bool gpu_stores_pieces(const GpuMatmul *p)
{
    rlx_assert(p->bytes == NULL && p->groups != NULL);
    return p->n % GPU_PIECE == 0 && p->scale == 0 && p->bias == 0 && p->groups->bias == 0 &&
           k_is_half(lower_node(p->l, p->l->anchor)->dtype) &&
           piece_of(p, GPU_PIECE, lower_node(p->l, p->l->root)->dtype) == GPU_PIECE;
}
