// SPDX-License-Identifier: Apache-2.0
// Products on GPUs with mma.sync and asynchronous copies (sm_80 and later), for images without wgmma: the
// tiles and the threads of gpu_matmul_wgmma.c, so that one table of launches serves both. All threads copy;
// those that multiply there do so here, each warp 16 rows. Two or more slots of shared memory, of which the
// next is filled while one is multiplied. A cluster's first group does all parts of k. 8-bit floats become
// f16, which holds them exactly.
#include "ir/kernel/device.h"
#include "passes/graph/simplify_eighths.h"
#include "passes/lower/gpu/gpu_matmul.h"

enum { ROW_BYTES = GPU_ROW_BYTES, BLOCK_BYTES = 64 * ROW_BYTES, FRAGMENT = 4 /* words */ };

static int64_t slot_bytes(const GpuEmit *e)
{
    return (e->rows + e->tile.columns) * ROW_BYTES;
}

static int64_t slots_of(const GpuEmit *e)
{
    const int64_t n = GPU_LEAST_SHARED / slot_bytes(e), least = e->tile.kept != 0 ? 2 : e->tile.stages;
    return n > least ? least : n;
}

// Byte address of 16 bytes of an operand in a slot: of the row or column i, and of step j of k; one of the
// two is a multiple of gpu_chunk, the one that is dense.
static KRef chunk_address(const GpuEmit *e, const GpuMatrix *x, KRef base, KRef i, KRef j)
{
    Kernel *k = e->k;
    const KRef line = x->k == 1 ? i : j, along = x->k == 1 ? j : i;
    const KRef block = x->k == 1 ? base : k_expr(k, "$ / 64 * # + $", along, BLOCK_BYTES, base);
    const KRef chunk = k_expr(k, "$ / # % 8", along, gpu_chunk(e->p));
    return k_expr(k, "$ * # + $ + $ * 16", line, ROW_BYTES, block, k_xor(k, chunk, k_expr(k, "$ % 8", line)));
}

typedef struct Operand {
    const GpuMatrix *x;
    uint32_t param;
    int64_t tile, size; // rows of the tile, of all
    KRef first;         // row of the tile
    KRef base;          // index of the batch entry's first element
    const KRef *batch;
} Operand;

static Operand operand_of(const GpuEmit *e, const GpuMatrix *x, const GpuPlace *at)
{
    const bool is_a = x == &e->p->a;
    Operand o = {.x = x,
                 .param = gpu_matrix_param(e->l, x),
                 .tile = is_a ? e->rows : e->columns,
                 .size = is_a ? e->p->m : gpu_b_columns(e->p),
                 .first = is_a ? at->m : at->n,
                 .base = k_index(e->k, 0),
                 .batch = at->batch};
    for (uint32_t i = 0; i < e->p->n_batch; i++)
        if (x->batch[i] != 0)
            o.base = k_expr(e->k, "$ * # + $", at->batch[i], x->batch[i], o.base);
    return o;
}

// One tile of an operand from step `from` of k on; what is beyond the end is 0.
static void copy_operand(const GpuEmit *e, const Operand *o, KRef from, KRef to)
{
    Kernel *k = e->k;
    const bool is_k_dense = o->x->k == 1;
    const int64_t length = gpu_chunk(e->p), across = (is_k_dense ? gpu_tile_k(e->p) : o->tile) / length;
    const int64_t chunks = o->tile * gpu_tile_k(e->p) / length;
    const KRef c = k_for(k, e->thread, k_index(k, chunks), k->group, KFOR_SERIAL, "chunk");
    const KRef line = k_expr(k, "$ / #", c, across), along = k_expr(k, "$ % # * #", c, across, length);
    const KRef i = is_k_dense ? line : along, j = is_k_dense ? along : line;
    const KRef row = k_add(k, o->first, i), step = k_add(k, from, j), zero = k_index(k, 0);
    const KRef lines = k_index(k, is_k_dense ? o->size : e->p->k);
    const int64_t end = is_k_dense ? e->p->k : o->size;
    const KRef left = k_expr(k, "# - $", end, is_k_dense ? step : row);
    KRef is_in = k_expr(k, "$ < $ & $ < $", is_k_dense ? row : step, lines, zero, left);
    const bool is_image = e->p->image != NULL && o->x == &e->p->a;
    const KRef index = is_image ? gpu_image_index(e, o->batch, row, step, &is_in)
                                : k_expr(k, "$ * # + ($ * # + $)", row, o->x->outer, step, o->x->k, o->base);
    const KRef bytes = k_expr(k, "min($, #) * #", left, length, gpu_element_bytes(e->p));
    k_device(k, KDEV_cp_async16, chunk_address(e, o->x, to, i, j),
             k_address(k, o->param, k_select(k, is_in, index, zero)), k_select(k, is_in, bytes, zero));
    k_end(k);
}

typedef struct Copies {
    Operand a, b, second;
} Copies;

// Step number `step`, unless there are no more; a group of copies in any case.
static void copy_step(const GpuEmit *e, const Copies *c, KRef step)
{
    Kernel *k = e->k;
    const KRef to = k_expr(k, "$ % # * # + $", step, slots_of(e), slot_bytes(e), e->shared);
    const KRef from = k_expr(k, "$ * #", step, gpu_tile_k(e->p));
    k_if(k, k_expr(k, "$ < #", step, e->steps));
    copy_operand(e, &c->a, from, to);
    copy_operand(e, &c->b, from, k_expr(k, "$ + #", to, e->rows * ROW_BYTES));
    if (e->p->second != NULL)
        copy_operand(e, &c->second, from, k_expr(k, "$ + #", to, (e->rows + e->columns) * ROW_BYTES));
    k_end(k);
    k_device_with(k, KDEV_cp_async_commit, 0);
}

// Four matrices of 8 rows of 16 bytes: 16 rows (or columns) from i on, 32 bytes of steps from j on, in the
// order in which mma wants them: of a by rows first, of b by steps first.
static void load_fragment(const GpuEmit *e, const GpuMatrix *x, KRef words, KRef base, KRef i, KRef j)
{
    Kernel *k = e->k;
    const bool is_a = x == &e->p->a;
    const KRef lane = k_expr(k, "$ % 32", e->thread), low = k_expr(k, "$ % 8", lane);
    const KRef odd = k_expr(k, "$ / 8 % 2 * 8", lane);
    const KRef high = k_expr(k, "$ / 16 * 8", lane);
    const KRef by_row = is_a ? odd : high;
    const KRef by_step = k_expr(k, "$ * #", is_a ? high : odd, gpu_chunk(e->p) / GPU_CHUNK);
    const KRef row = k_add(k, i, x->k == 1 ? k_add(k, by_row, low) : by_row);
    const KRef step = k_add(k, j, x->k == 1 ? by_step : k_add(k, by_step, low));
    k_device(k, x->k == 1 ? KDEV_ldmatrix4 : KDEV_ldmatrix4_t, words, k_index(k, 0),
             chunk_address(e, x, base, row, step));
}

// What multiplies, and its constant.
typedef struct Unit {
    KDevice function;
    int64_t kind;
} Unit;

static Unit unit_of(const GpuEmit *e)
{
    const DType type = gpu_matmul_type(e->p), b_type = gpu_matmul_b_type(e->p);
    if (e->p->bytes != NULL)
        return (Unit){KDEV_mma_bytes, (type == DTYPE_i8) | (b_type == DTYPE_i8) << 1};
    return (Unit){type == DTYPE_bf16 ? KDEV_mma_bf16 : KDEV_mma_f16, 0};
}

// Four words of 8-bit floats as eight of f16. Both operands take the first two numbers of each word as steps
// of k 0 to 7 of a fragment, and the other two as 8 to 15, so that words of 32 steps are two fragments.
static KRef spread_words(const GpuEmit *e, KRef words, DType type, bool is_a)
{
    Kernel *k = e->k;
    const KRef to = k_array(k, DTYPE_u32, 2 * FRAGMENT), two = k_array(k, DTYPE_u32, 2);
    for (int64_t i = 0; i < FRAGMENT; i++) {
        k_device(k, type == DTYPE_f8e4m3fn ? KDEV_spread_e4m3 : KDEV_spread_e5m2, two, k_index(k, 0), words,
                 k_index(k, i));
        for (int64_t high = 0; high < 2; high++) {
            const int64_t at = is_a ? i / 2 * 4 + high * 2 + i % 2 : i * 2 + high;
            k_astore(k, to, k_index(k, at), k_aload(k, two, k_index(k, high), 1));
        }
    }
    return to;
}

// 16 rows by 16 columns, 32 bytes of k: words of both as load_fragment gives them.
static void multiply_words(const GpuEmit *e, KRef sums, KRef to, KRef a, KRef b)
{
    Kernel *k = e->k;
    const Unit unit = unit_of(e);
    const bool is_spread = is_eighth(gpu_matmul_type(e->p));
    const int64_t parts = is_spread ? 2 : 1; // of k
    if (is_spread) {
        a = spread_words(e, a, gpu_matmul_type(e->p), true);
        b = spread_words(e, b, gpu_matmul_b_type(e->p), false);
    }
    for (int64_t i = 0; i < 2; i++)
        for (int64_t part = 0; part < parts; part++)
            k_device_list(k, unit.function, unit.kind,
                          (const KRef[KDEV_MAX_OPERANDS + 1]){sums, k_expr(k, "$ + #", to, i * 4), a,
                                                              k_index(k, part * FRAGMENT), b,
                                                              k_index(k, (i * parts + part) * 2)});
}

static void multiply_step(const GpuEmit *e, KRef sums, KRef step, KRef warp)
{
    Kernel *k = e->k;
    const KRef slot = k_expr(k, "$ % # * # + $", step, slots_of(e), slot_bytes(e), e->shared);
    const KRef a = k_array(k, DTYPE_u32, FRAGMENT), b = k_array(k, DTYPE_u32, FRAGMENT), zero = k_index(k, 0);
    const KRef part = k_for(k, zero, k_index(k, gpu_tile_k(e->p)), gpu_unit_k(e->p), KFOR_SERIAL, "part");
    load_fragment(e, &e->p->a, a, slot, k_expr(k, "$ * 16", warp), part);
    const KRef column = k_for(k, zero, k_index(k, e->tile.columns), 16, KFOR_UNROLL, "column");
    load_fragment(e, &e->p->b, b, k_expr(k, "$ + #", slot, e->rows * ROW_BYTES), column, part);
    multiply_words(e, sums, k_expr(k, "$ / 8 * 4", column), a, b);
    k_ends(k, 2);
}

// The step has sums of its own, which are added to the others.
static void add_step(const GpuEmit *e, KRef sums, KRef step, KRef warp)
{
    Kernel *k = e->k;
    const KRef own = k_array(k, e->sum, e->tile.columns / 2);
    gpu_tile_clear(e, own);
    multiply_step(e, own, step, warp);
    gpu_tile_add(e, sums, own);
}

static void store_sums(const GpuEmit *e, const GpuPlace *at, KRef sums, KRef warp)
{
    Kernel *k = e->k;
    const KRef lane = k_expr(k, "$ % 32", e->thread);
    const KRef row = k_expr(k, "$ * 16 + $ / 4", warp, lane);
    const KRef column = k_expr(k, "$ % 4 * 2", lane);
    const KRef zero = k_index(k, 0);
    const GpuFours all = {row, zero, column, sums, zero, e->columns / 8};
    gpu_store_fours(e, at, &all);
}

static void multiply_tile(const GpuEmit *e, KRef sums, KRef is_consumer, KRef warp, KRef tile)
{
    Kernel *k = e->k;
    const GpuPlace at = gpu_tile_place(e, tile);
    Copies c = {.a = operand_of(e, &e->p->a, &at), .b = operand_of(e, &e->p->b, &at)};
    if (e->p->second != NULL)
        c.second = operand_of(e, &e->p->second->b, &at);
    const int64_t ahead = slots_of(e) - 1;
    gpu_tile_clear(e, sums);
    for (int64_t i = 0; i < ahead; i++)
        copy_step(e, &c, k_index(k, i));
    const KRef step = k_loop(k, e->steps, KFOR_SERIAL, "step");
    k_device_with(k, KDEV_cp_async_wait, ahead - 1);
    k_barrier(k);
    copy_step(e, &c, k_expr(k, "$ + #", step, ahead));
    k_if(k, is_consumer);
    if (e->p->by_slots)
        add_step(e, sums, step, warp);
    else
        multiply_step(e, sums, step, warp);
    k_ends(k, 2);
    k_barrier(k);
    k_if(k, is_consumer);
    store_sums(e, &at, sums, warp);
    k_end(k);
}

void gpu_matmul_mma(GpuEmit *e)
{
    rlx_assert(e->tile.splits >= 1 && e->slots >= 1);
    Kernel *k = e->k;
    k_wait(k);
    gpu_tile_begin(e);
    e->shared = k_call(k, KDEV_shared_begin, 0, 0, 0);
    const KRef is_consumer = k_expr(k, "# <= $", GPU_WARPGROUP, e->thread);
    const KRef warp = k_expr(k, "$ / 32 + #", e->thread, -GPU_WARPGROUP / 32);
    if (e->tile.splits > 1)
        k_if(k, k_expr(k, "$ == 0", e->rank));
    const KRef sums = k_array(k, e->sum, e->tile.columns / 2);
    multiply_tile(e, sums, is_consumer, warp, gpu_tile_open(e));
    gpu_tile_close(e);
    if (e->tile.splits > 1)
        k_end(k);
}
