// SPDX-License-Identifier: Apache-2.0
// Products of matrices without tensor cores, in every GPU language: a group of 256 threads computes a square
// tile from slices of both operands in shared memory, each thread a square of sums in registers. The next
// slice is on its way while one is multiplied. Sums are f32 fused multiply-adds in rising k. Where simdgroups
// multiply matrices (TargetCaps.has_simd_matrix), each has a block of the sums, eight steps of k are summed
// at a time in an order of the device, and the tile goes through shared memory to the threads that store it.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_matmul.h"

#include <string.h>

enum {
    THREADS = 256,
    SIDE = 16,  // threads along rows and columns of a tile
    SLICE = 16, // of k
    PAD = 1,
    SIMD = 32,
    MATRIX = 8,
    BLOCK_ROWS = 16,
    BLOCK_COLUMNS = 32, // of a simdgroup (device.def)
    MATRIX_TILE = 64,
    MATRIX_PITCH = MATRIX_TILE + 4,
    MIN_ROWS = 8,
    MIN_RESULTS = 1024,
    FEW_TILES = 2 // of each processor: fewer of them leave much of a GPU without work
};

typedef struct Simt {
    const GpuMatmul *p;
    Lower *l;
    Kernel *k;
    int64_t own, tile; // rows, and columns, of a thread, of the group
    KRef thread, row, column; // of the thread in the square of threads
    KRef a, b;                // slices in shared memory, [SLICE][pitch]
    int64_t pitch;
    bool has_matrices;
    KRef block_row, block_column; // of the simdgroup in the tile
    KRef result;                  // the tile, [tile][pitch]
    KRef next_a, next_b;      // what this thread brings of the next ones
    KRef m, n;                // first row and column of the tile
    KRef batch[GPU_MATMUL_MAX_BATCH];
} Simt;

// Element e of those that this thread brings: its row (or column) of the tile and its step. Neighbours in
// memory are brought by neighbours.
static void element_of(const Simt *s, const GpuMatrix *x, KRef e, KRef *outer, KRef *step)
{
    Kernel *k = s->k;
    const KRef i = k_expr(k, "$ * # + $", e, THREADS, s->thread);
    const bool is_k_dense = x->k == 1;
    *outer = is_k_dense ? k_expr(k, "$ / #", i, SLICE) : k_expr(k, "$ % #", i, s->tile);
    *step = is_k_dense ? k_expr(k, "$ % #", i, SLICE) : k_expr(k, "$ / #", i, s->tile);
}

// Beyond the ends of the operand there are zeros.
static void fetch_slice(const Simt *s, const GpuMatrix *x, KRef from, KRef to)
{
    Kernel *k = s->k;
    const GpuMatmul *p = s->p;
    const bool is_a = x == &p->a;
    const int64_t size = is_a ? p->m : p->n;
    const uint32_t param = lower_param(s->l, x->id, PARAM_READ);
    KRef outer = 0, step = 0, base = k_index(k, 0);
    for (uint32_t i = 0; i < p->n_batch; i++)
        if (x->batch[i] != 0)
            base = k_expr(k, "$ * # + $", s->batch[i], x->batch[i], base);
    const KRef e = k_loop(k, s->tile * SLICE / THREADS, KFOR_UNROLL, "e");
    element_of(s, x, e, &outer, &step);
    const KRef row = k_add(k, is_a ? s->m : s->n, outer), at = k_add(k, from, step);
    const KRef is_in = k_expr(k, "$ < # & $ < #", row, size, at, p->k);
    const KRef index = k_expr(k, "$ * # + ($ * # + $)", row, x->outer, at, x->k, base);
    const KRef value = k_load(k, param, k_select(k, is_in, index, k_index(k, 0)), 1, 1);
    k_astore(k, to, e, k_select(k, is_in, k_cast(k, value, DTYPE_f32), k_number(k, DTYPE_f32, 0)));
    k_end(k);
}

static void put_slice(const Simt *s, const GpuMatrix *x, KRef from, KRef to)
{
    Kernel *k = s->k;
    KRef outer = 0, step = 0;
    const KRef e = k_loop(k, s->tile * SLICE / THREADS, KFOR_UNROLL, "e");
    element_of(s, x, e, &outer, &step);
    k_astore(k, to, k_expr(k, "$ * # + $", step, s->pitch, outer), k_aload(k, from, e, 1));
    k_end(k);
}

static void load_line(const Simt *s, KRef slice, KRef step, KRef first, KRef to)
{
    Kernel *k = s->k;
    const KRef i = k_loop(k, s->own, KFOR_UNROLL, "i");
    const KRef at = k_expr(k, "$ * # + ($ * # + $)", step, s->pitch, i, SIDE, first);
    k_astore(k, to, i, k_aload(k, slice, at, 1));
    k_end(k);
}

static void multiply_matrices(const Simt *s, KRef sums)
{
    Kernel *k = s->k;
    const KRef step = k_for(k, k_index(k, 0), k_index(k, SLICE), MATRIX, KFOR_UNROLL, "step");
    const KRef a = k_expr(k, "$ * # + $", step, s->pitch, s->block_row);
    const KRef b = k_expr(k, "$ * # + $", step, s->pitch, s->block_column);
    k_device_list(k, KDEV_simd_product, s->pitch,
                  (const KRef[KDEV_MAX_OPERANDS + 1]){sums, s->a, a, s->b, b});
    k_end(k);
}

// What simdgroups have, for the threads that store it.
static void share_sums(const Simt *s, KRef sums)
{
    Kernel *k = s->k;
    const KRef at = k_expr(k, "$ * # + $", s->block_row, s->pitch, s->block_column);
    k_device_list(k, KDEV_simd_put, s->pitch, (const KRef[KDEV_MAX_OPERANDS + 1]){s->result, at, sums});
    k_barrier(k);
}

static KRef sum_at(const Simt *s, KRef sums, KRef i, KRef j)
{
    Kernel *k = s->k;
    if (!s->has_matrices)
        return k_aload(k, sums, k_expr(k, "$ * # + $", i, s->own, j), 1);
    const KRef row = k_expr(k, "$ * # + $", i, SIDE, s->row),
               column = k_expr(k, "$ * # + $", j, SIDE, s->column);
    return k_aload(k, s->result, k_expr(k, "$ * # + $", row, s->pitch, column), 1);
}

static void multiply_slice(const Simt *s, KRef sums)
{
    Kernel *k = s->k;
    const KRef a = k_array(k, DTYPE_f32, s->own), b = k_array(k, DTYPE_f32, s->own), zero = k_index(k, 0);
    const KRef step = k_for(k, zero, k_index(k, SLICE), 1, KFOR_UNROLL, "step");
    load_line(s, s->a, step, s->row, a);
    load_line(s, s->b, step, s->column, b);
    const KRef i = k_for(k, zero, k_index(k, s->own), 1, KFOR_UNROLL, "i");
    const KRef j = k_for(k, zero, k_index(k, s->own), 1, KFOR_UNROLL, "j");
    const KRef at = k_expr(k, "$ * # + $", i, s->own, j);
    const KRef x = k_aload(k, a, i, 1), y = k_aload(k, b, j, 1);
    k_astore(k, sums, at, k_fma(k, x, y, k_aload(k, sums, at, 1)));
    k_end(k);
    k_end(k);
    k_end(k);
}

static void store_tile(const Simt *s, KRef sums)
{
    Kernel *k = s->k;
    const GpuMatmul *p = s->p;
    const KRef i = k_loop(k, s->own, KFOR_UNROLL, "i");
    const KRef row = k_expr(k, "$ + ($ * # + $)", s->m, i, SIDE, s->row);
    k_if(k, k_expr(k, "$ < #", row, p->m));
    const KRef j = k_loop(k, s->own, KFOR_UNROLL, "j");
    const KRef column = k_expr(k, "$ + ($ * # + $)", s->n, j, SIDE, s->column);
    k_if(k, k_expr(k, "$ < #", column, p->n));
    const KRef sum = sum_at(s, sums, i, j);
    pull_store_root(s->l, p->d, p->point(p, s->batch, row, column),
                    k_cast(k, sum, lower_node(s->l, s->l->anchor)->dtype));
    k_end(k);
    k_end(k);
    k_end(k);
    k_end(k);
}

static void begin_tile(Simt *s, int64_t m_tiles, int64_t n_tiles, int64_t matrices)
{
    Kernel *k = s->k;
    const GpuMatmul *p = s->p;
    KRef z = k_for_group(k, matrices, "matrix");
    const KRef n_tile = k_for_group(k, n_tiles, "columns"), m_tile = k_for_group(k, m_tiles, "rows");
    for (uint32_t b = p->n_batch; b-- > 0; z = k_expr(k, "$ / #", z, p->batch[b]))
        s->batch[b] = b == 0 ? z : k_expr(k, "$ % #", z, p->batch[b]);
    s->m = k_expr(k, "$ * #", m_tile, s->tile);
    s->n = k_expr(k, "$ * #", n_tile, s->tile);
    s->thread = k_thread(k);
    s->row = k_expr(k, "$ / #", s->thread, SIDE);
    s->column = k_expr(k, "$ % #", s->thread, SIDE);
    const KRef block = k_expr(k, "$ / #", s->thread, SIMD);
    s->block_row = k_expr(k, "$ % # * #", block, MATRIX_TILE / BLOCK_ROWS, BLOCK_ROWS);
    s->block_column = k_expr(k, "$ / # * #", block, MATRIX_TILE / BLOCK_ROWS, BLOCK_COLUMNS);
}

static void multiply_tile(const Simt *s)
{
    Kernel *k = s->k;
    const GpuMatmul *p = s->p;
    const KRef sums = k_array(k, DTYPE_f32, s->own * s->own), zero = k_index(k, 0);
    const KRef i = k_for(k, zero, k_index(k, s->own * s->own), 1, KFOR_UNROLL, "i");
    k_astore(k, sums, i, k_number(k, DTYPE_f32, 0));
    k_end(k);
    fetch_slice(s, &p->a, zero, s->next_a);
    fetch_slice(s, &p->b, zero, s->next_b);
    const KRef from = k_for(k, zero, k_index(k, p->k), SLICE, KFOR_SERIAL, "from");
    k_barrier(k);
    put_slice(s, &p->a, s->next_a, s->a);
    put_slice(s, &p->b, s->next_b, s->b);
    k_barrier(k);
    const KRef next = k_expr(k, "$ + #", from, SLICE);
    k_if(k, k_expr(k, "$ < #", next, p->k));
    fetch_slice(s, &p->a, next, s->next_a);
    fetch_slice(s, &p->b, next, s->next_b);
    k_end(k);
    (s->has_matrices ? multiply_matrices : multiply_slice)(s, sums);
    k_end(k);
    if (s->has_matrices)
        share_sums(s, sums);
    store_tile(s, sums);
}

// With cooperative matrices where the device has them; else what follows.
static void begin_other_way(const Simt *s)
{
    Kernel *k = s->k;
    const KRef has_coop = k_call(k, KDEV_has_coop, 0, 0, 0);
    GpuSquare square = {.p = s->p,
                        .l = s->l,
                        .k = k,
                        .tile = s->tile,
                        .thread = s->thread,
                        .m = s->m,
                        .n = s->n,
                        .a = s->a,
                        .b = s->b};
    memcpy(square.batch, s->batch, sizeof square.batch);
    k_if(k, has_coop);
    gpu_coop_tile(&square);
    k_end(k);
    k_if(k, k_not(k, has_coop));
}

bool gpu_simt_fits(const GpuMatmul *p)
{
    rlx_assert(p->n_batch <= GPU_MATMUL_MAX_BATCH);
    for (uint32_t i = 0; i < p->n_batch; i++)
        if (p->batch[i] < 1)
            return false;
    return p->l->caps->shared_bytes >= 2 * SLICE * (8 * SIDE + PAD) * 4 && p->m >= MIN_ROWS &&
           p->n >= MIN_ROWS && p->k >= SLICE && p->m * p->n >= MIN_RESULTS;
}

void gpu_matmul_simt(const GpuMatmul *p)
{
    rlx_assert(gpu_simt_fits(p));
    Kernel *k = p->l->k;
    Simt s = {.p = p, .l = p->l, .k = k, .own = 8};
    int64_t matrices = 1;
    for (uint32_t i = 0; i < p->n_batch; i++)
        matrices *= p->batch[i];
    const int64_t enough = (int64_t)FEW_TILES * p->l->caps->gpu->processors;
    for (; s.own > 2; s.own /= 2) {
        s.tile = s.own * SIDE;
        if (matrices * ceil_div(p->m, s.tile) * ceil_div(p->n, s.tile) >= enough)
            break;
    }
    const bool has_coop = gpu_coop_fits(p);
    if (has_coop && s.own < MATRIX_TILE / SIDE)
        s.own = MATRIX_TILE / SIDE;
    s.has_matrices = p->l->caps->has_simd_matrix && p->m >= MATRIX_TILE / 2 && p->n >= MATRIX_TILE / 2;
    if (s.has_matrices)
        s.own = MATRIX_TILE / SIDE;
    s.tile = s.own * SIDE;
    s.pitch = s.has_matrices ? MATRIX_PITCH : s.tile + PAD;
    k_set_group(k, THREADS);
    const int64_t slice = SLICE * s.pitch, words = has_coop ? gpu_coop_words(s.tile) : 0;
    s.a = k_shared(k, DTYPE_f32, slice > words ? slice : words);
    s.b = k_shared(k, DTYPE_f32, slice > words ? slice : words);
    s.result = s.has_matrices ? k_shared(k, DTYPE_f32, s.tile * s.pitch) : 0;
    s.next_a = k_array(k, DTYPE_f32, s.tile * SLICE / THREADS);
    s.next_b = k_array(k, DTYPE_f32, s.tile * SLICE / THREADS);
    begin_tile(&s, ceil_div(p->m, s.tile), ceil_div(p->n, s.tile), matrices);
    if (has_coop)
        begin_other_way(&s);
    multiply_tile(&s);
    for (uint32_t i = 0; i < 3u + has_coop; i++)
        k_end(k);
}
