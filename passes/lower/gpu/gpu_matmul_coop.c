// SPDX-License-Identifier: Apache-2.0
// Products of f16 by cooperative matrices (Vulkan): the tiles, groups and threads of gpu_matmul_simt.c, so
// that one kernel has both ways and the driver is given the one that it can run. Slices of 32 steps of k lie
// in shared memory as words of two elements, rows (or columns) apart such that subgroups read them without
// conflicts; the next slice is on its way while one is multiplied. A subgroup has squares of 16 x 16 sums.
// At the end these go through shared memory, one at a time, to the threads that store them.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul.h"

enum {
    THREADS = 256,
    SUBGROUP = 32,
    DOWN = 4, // subgroups along the rows of a tile
    ACROSS = 2,
    SQUARE = 16,
    SLICE = 32, // of k
    CHUNK = 8,  // elements of a fetch, in four words
    CHUNK_WORDS = 4,
    PAD = 4,
    MIN_ROWS = 16,
    MIN_COLUMNS = 32
};

typedef struct Operand {
    const GpuMatrix *x;
    uint32_t param;
    int64_t size; // rows of all
    KRef first;   // of the tile
    KRef base;    // index of the batch entry's first element
    KRef shared, words;
    int64_t pitch; // words from line to line
    bool is_k_dense;
} Operand;

static int64_t pitch_of(int64_t tile, bool is_k_dense)
{
    return (is_k_dense ? SLICE : tile) / 2 + PAD;
}

int64_t gpu_coop_words(int64_t tile)
{
    rlx_assert(tile > 0);
    const int64_t slice = tile * pitch_of(tile, true), squares = THREADS / SUBGROUP * SQUARE * SQUARE;
    return slice > squares ? slice : squares;
}

static bool is_wide(const GpuMatmul *p, const GpuMatrix *x, int64_t size)
{
    const bool is_k_dense = x->k == 1;
    if ((!is_k_dense && x->outer != 1) || (is_k_dense ? x->outer : x->k) % CHUNK != 0 ||
        (is_k_dense ? p->k : size) % CHUNK != 0 ||
        lower_alignment(p->l, x->loc, DTYPE_f16) < CHUNK * dtype_info[DTYPE_f16].bytes)
        return false;
    for (uint32_t i = 0; i < p->n_batch; i++)
        if (x->batch[i] % CHUNK != 0)
            return false;
    return true;
}

bool gpu_coop_fits(const GpuMatmul *p)
{
    return p->l->caps->has_coop && lower_node(p->l, p->a.id)->dtype == DTYPE_f16 &&
           lower_node(p->l, p->b.id)->dtype == DTYPE_f16 && p->m >= MIN_ROWS && p->n >= MIN_COLUMNS &&
           p->k >= SLICE && is_wide(p, &p->a, p->m) && is_wide(p, &p->b, p->n);
}

static Operand operand_of(const GpuSquare *s, const GpuMatrix *x)
{
    Kernel *k = s->k;
    const bool is_a = x == &s->p->a;
    Operand o = {.x = x,
                 .param = lower_param_words(s->l, x->id, DTYPE_u32),
                 .size = is_a ? s->p->m : s->p->n,
                 .first = is_a ? s->m : s->n,
                 .base = k_index(k, 0),
                 .shared = is_a ? s->a : s->b,
                 .words = k_array(k, DTYPE_u32, s->tile * SLICE / 2 / THREADS),
                 .pitch = pitch_of(s->tile, x->k == 1),
                 .is_k_dense = x->k == 1};
    for (uint32_t i = 0; i < s->p->n_batch; i++)
        if (x->batch[i] != 0)
            o.base = k_expr(k, "$ * # + $", s->batch[i], x->batch[i], o.base);
    return o;
}

static int64_t n_chunks(const GpuSquare *s)
{
    return s->tile * SLICE / CHUNK / THREADS;
}

// Chunk number e of this thread: its line in shared memory, and the element there where it begins.
static void chunk_place(const GpuSquare *s, const Operand *o, int64_t e, KRef *line, KRef *along)
{
    Kernel *k = s->k;
    const int64_t across = (o->is_k_dense ? SLICE : s->tile) / CHUNK;
    const KRef c = k_expr(k, "$ + #", s->thread, e * THREADS);
    *line = k_expr(k, "$ / #", c, across);
    *along = k_expr(k, "$ % # * #", c, across, CHUNK);
}

// Beyond the ends of the operand there are zeros.
static void fetch_slice(const GpuSquare *s, const Operand *o, KRef from)
{
    Kernel *k = s->k;
    const KRef zero = k_index(k, 0);
    for (int64_t e = 0; e < n_chunks(s); e++) {
        KRef line = 0, along = 0;
        chunk_place(s, o, e, &line, &along);
        const KRef row = k_add(k, o->first, o->is_k_dense ? line : along);
        const KRef step = k_add(k, from, o->is_k_dense ? along : line);
        const KRef index = k_expr(k, "$ * # + ($ * # + $)", row, o->x->outer, step, o->x->k, o->base);
        const bool is_whole = o->size % s->tile == 0 && s->p->k % SLICE == 0;
        const KRef is_in = k_expr(k, "$ < # & $ < #", row, o->size, step, s->p->k);
        const KRef word = k_expr(k, "$ / 2", is_whole ? index : k_select(k, is_in, index, zero));
        k_fetch(k, o->param, word, o->words, k_index(k, e * CHUNK_WORDS), CHUNK_WORDS);
        for (int64_t i = e * CHUNK_WORDS; !is_whole && i < (e + 1) * CHUNK_WORDS; i++)
            k_astore(k, o->words, k_index(k, i),
                     k_select(k, is_in, k_aload(k, o->words, k_index(k, i), 1), k_number(k, DTYPE_u32, 0)));
    }
}

static void share_slice(const GpuSquare *s, const Operand *o)
{
    Kernel *k = s->k;
    for (int64_t e = 0; e < n_chunks(s); e++) {
        KRef line = 0, along = 0;
        chunk_place(s, o, e, &line, &along);
        k_device(k, KDEV_coop_share, o->shared, k_expr(k, "$ * # + $ / 2", line, o->pitch, along), o->words,
                 k_index(k, e * CHUNK_WORDS));
    }
}

// What a subgroup computes of the tile: squares, and where they begin.
typedef struct Block {
    int64_t rows, columns;
    KRef row, column, number; // of the subgroup
} Block;

static Block block_of(const GpuSquare *s)
{
    Kernel *k = s->k;
    Block b = {.rows = s->tile / SQUARE / DOWN, .columns = s->tile / SQUARE / ACROSS};
    b.number = k_expr(k, "$ / #", s->thread, SUBGROUP);
    b.row = k_expr(k, "$ % # * #", b.number, DOWN, b.rows * SQUARE);
    b.column = k_expr(k, "$ / # * #", b.number, DOWN, b.columns * SQUARE);
    return b;
}

// Word of shared memory where the subgroup's part of an operand begins, at a step of the slice.
static KRef word_at(const GpuSquare *s, const Operand *o, KRef first, int64_t step)
{
    Kernel *k = s->k;
    return o->is_k_dense ? k_expr(k, "$ * # + #", first, o->pitch, step / 2)
                         : k_expr(k, "$ / 2 + #", first, step * o->pitch);
}

static void multiply_slice(const GpuSquare *s, const Operand *a, const Operand *b, const Block *own)
{
    Kernel *k = s->k;
    const int64_t order = (a->is_k_dense ? 0 : 1) + (b->is_k_dense ? 0 : 2);
    for (int64_t step = 0; step < SLICE; step += SQUARE)
        k_device(k, KDEV_coop_product, a->shared, word_at(s, a, own->row, step), b->shared,
                 word_at(s, b, own->column, step), k_index(k, own->rows), k_index(k, own->columns),
                 k_index(k, a->pitch), k_index(k, b->pitch), k_index(k, order));
}

static void store_element(const GpuSquare *s, KRef row, KRef column, KRef sum)
{
    Kernel *k = s->k;
    const GpuMatmul *p = s->p;
    k_if(k, k_expr(k, "$ < # & $ < #", row, p->m, column, p->n));
    pull_store_root(s->l, p->d, p->point(p, s->batch, row, column),
                    k_cast(k, gpu_scaled(p, sum), lower_node(s->l, s->l->anchor)->dtype));
    k_end(k);
}

// Square i of every subgroup.
static void store_square(const GpuSquare *s, const Block *own, int64_t i)
{
    Kernel *k = s->k;
    const KRef place = k_expr(k, "$ * #", own->number, SQUARE * SQUARE);
    k_barrier(k);
    k_device(k, KDEV_coop_put, k_index(k, i), s->a, place);
    k_barrier(k);
    const KRef e = k_for(k, k_expr(k, "$ % #", s->thread, SUBGROUP), k_index(k, SQUARE * SQUARE), SUBGROUP,
                         KFOR_SERIAL, "e");
    const KRef row = k_expr(k, "$ + # + $ / #", own->row, i / own->columns * SQUARE, e, SQUARE);
    const KRef column = k_expr(k, "$ + # + $ % #", own->column, i % own->columns * SQUARE, e, SQUARE);
    store_element(s, k_add(k, s->m, row), k_add(k, s->n, column), k_aload(k, s->a, k_add(k, place, e), 1));
    k_end(k);
}

void gpu_coop_tile(const GpuSquare *s)
{
    rlx_assert(s->p->k >= 1);
    Kernel *k = s->k;
    const Operand a = operand_of(s, &s->p->a), b = operand_of(s, &s->p->b);
    const Block own = block_of(s);
    const KRef zero = k_index(k, 0);
    k_device(k, KDEV_coop_zero, k_index(k, own.rows * own.columns));
    fetch_slice(s, &a, zero);
    fetch_slice(s, &b, zero);
    const KRef from = k_for(k, zero, k_index(k, s->p->k), SLICE, KFOR_SERIAL, "from");
    k_barrier(k);
    share_slice(s, &a);
    share_slice(s, &b);
    k_barrier(k);
    const KRef next = k_expr(k, "$ + #", from, SLICE);
    k_if(k, k_expr(k, "$ < #", next, s->p->k));
    fetch_slice(s, &a, next);
    fetch_slice(s, &b, next);
    k_end(k);
    multiply_slice(s, &a, &b, &own);
    k_end(k);
    for (int64_t i = 0; i < own.rows * own.columns; i++)
        store_square(s, &own, i);
}
