// SPDX-License-Identifier: Apache-2.0
// Products of many rows with blocks on GPUs: a group of threads decodes tiles of the weights, some steps of k
// at a time, to shared memory, where the tile of x stands beside them, and each thread sums 4 x 4 elements of
// the result. Accumulation: fused multiply-adds of decoded elements in rising k, the sums of plain loops.
#include "passes/lower/blocks/blocks_team.h"
#include "passes/lower/operand.h"

// Each thread decodes `EACH` elements of a column of the tile and copies as many of a row of x; the tile's
// columns and rows are a little apart from a power of two, so that few threads meet at a bank.
enum { SIDE = 64, STEP = 32, THREADS = 256, OWN = 4, EACH = SIDE * STEP / THREADS, PITCH = SIDE + OWN };
enum { MIN_ROWS = 16 };

typedef struct BlockTile {
    Lower *l;
    const BlockProduct *p;
    BlockReader r;
    int64_t rows;
    KRef thread, row, column; // the first ones of the tile
    KRef ws, xs;              // shared, [STEP][PITCH]
    KRef acc[OWN * OWN];
} BlockTile;

static KRef least(Kernel *k, KRef a, int64_t b)
{
    return k_expr(k, "min($, #)", a, b);
}

// Steps [first, first + STEP) of both tiles. Beyond the last row or column the last one is repeated.
static void fill_tiles(const BlockTile *t, KRef first)
{
    Kernel *k = t->l->k;
    const BlockFormat *f = t->p->f;
    const uint32_t last = lower_node(t->l, t->p->x)->shape->rank - 1;
    const KRef line = k_expr(k, "$ / #", t->thread, STEP / EACH);
    const KRef part = k_expr(k, "$ % #", t->thread, STEP / EACH);
    const KRef step = k_expr(k, "$ * #", part, EACH), at = k_add(k, first, step);
    const KRef inside = k_expr(k, "$ % #", at, f->elements);
    const KRef w_idx[3] = {least(k, k_add(k, t->column, line), t->p->columns - 1),
                           k_expr(k, "$ / #", at, f->elements), k_index(k, 0)};
    const KRef block = operand_index(t->l, t->p->w, w_idx);
    const int64_t same = f->group % EACH == 0 ? EACH : 1; // elements of one group
    BlockGroup group = {0};
    KRef x_idx[SHAPE_MAX_RANK] = {0};
    block_product_row(t->l, t->p, least(k, k_add(k, t->row, line), t->rows - 1), x_idx);
    for (int64_t i = 0; i < EACH; i++) {
        const KRef to = k_expr(k, "($ + #) * # + $", step, i, PITCH, line);
        const KRef e = k_expr(k, "$ + #", inside, i);
        if (i % same == 0)
            group = blocks_group(k, &t->r, block, k_expr(k, "$ / #", e, f->group));
        k_astore(k, t->ws, to, blocks_value(k, &t->r, &group, block, e));
        x_idx[last] = k_expr(k, "$ + #", at, i);
        k_astore(k, t->xs, to, operand_scalar(t->l, t->p->x, operand_index(t->l, t->p->x, x_idx), DTYPE_f32));
    }
}

static void add_step(const BlockTile *t, KRef step, KRef own_row, KRef own_column)
{
    Kernel *k = t->l->k;
    KRef w[OWN], x[OWN];
    for (int64_t i = 0; i < OWN; i++) {
        w[i] = k_aload(k, t->ws, k_expr(k, "$ * # + ($ + #)", step, PITCH, own_column, i), 1);
        x[i] = k_aload(k, t->xs, k_expr(k, "$ * # + ($ + #)", step, PITCH, own_row, i), 1);
    }
    for (int64_t i = 0; i < OWN * OWN; i++)
        k_set(k, t->acc[i], k_fma(k, x[i / OWN], w[i % OWN], k_get(k, t->acc[i])));
}

static void store_own(const BlockTile *t, KRef own_row, KRef own_column)
{
    Kernel *k = t->l->k;
    for (int64_t i = 0; i < OWN * OWN; i++) {
        const KRef row = k_expr(k, "$ + ($ + #)", t->row, own_row, i / OWN);
        const KRef column = k_expr(k, "$ + ($ + #)", t->column, own_column, i % OWN);
        Point at = {.lanes = 1, .count = 1};
        block_product_row(t->l, t->p, row, at.idx);
        at.idx[t->p->d.rank - 1] = column;
        k_if(k, k_expr(k, "$ < # & $ < #", row, t->rows, column, t->p->columns));
        const KRef sum = k_get(k, t->acc[i]);
        pull_store_root(t->l, &t->p->d, at, k_cast(k, sum, lower_node(t->l, t->l->anchor)->dtype));
        k_end(k);
    }
}

bool block_tile_product(Lower *l, BlockProduct *p)
{
    rlx_assert(p->f != NULL && p->inner % p->f->elements == 0);
    const int type = lower_node(l, p->x)->dtype;
    Kernel *k = l->k;
    BlockTile t = {.l = l, .p = p, .rows = p->rows};
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || (type != DTYPE_f32 && !k_is_half(type)) ||
        p->d.is_exact || p->index != 0 || p->rows < MIN_ROWS || p->columns < OWN || p->inner == 0)
        return false;
    t.r = blocks_reader(l, p->f, p->w);
    k_set_group(k, THREADS);
    t.ws = k_shared(k, DTYPE_f32, STEP * PITCH);
    t.xs = k_shared(k, DTYPE_f32, STEP * PITCH);
    t.row = k_expr(k, "$ * #", k_for_group(k, ceil_div(p->rows, SIDE), "rows"), SIDE);
    t.column = k_expr(k, "$ * #", k_for_group(k, ceil_div(p->columns, SIDE), "columns"), SIDE);
    t.thread = k_thread(k);
    const KRef across = k_index(k, SIDE / OWN);
    const KRef own_column = k_expr(k, "$ % $ * #", t.thread, across, OWN);
    const KRef own_row = k_expr(k, "$ / $ * #", t.thread, across, OWN);
    for (int64_t i = 0; i < OWN * OWN; i++)
        t.acc[i] = k_var(k, k_number(k, DTYPE_f32, 0), "acc");
    const KRef first = k_for(k, k_index(k, 0), k_index(k, p->inner), STEP, KFOR_SERIAL, "k");
    k_barrier(k);
    fill_tiles(&t, first);
    k_barrier(k);
    const KRef step = k_loop(k, STEP, KFOR_SERIAL, "step");
    add_step(&t, step, own_row, own_column);
    k_ends(k, 2);
    store_own(&t, own_row, own_column);
    k_ends(k, 2);
    return true;
}
