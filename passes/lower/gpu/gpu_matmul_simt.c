// SPDX-License-Identifier: Apache-2.0
// Products of matrices, and of images as convolutions read them, on every GPU: a group of 256 threads
// computes a tile from slices of both operands in shared memory. The next slice is on its way while one is
// multiplied; two are where a group has a processor for itself. Small products have small tiles, whose k is
// shared by teams of threads: each team has all sums of the tile, for its part of every slice, and they are
// added up in the order of the teams. Without matrix units, sums are f32 fused multiply-adds in rising k (of
// a team). Where simdgroups multiply matrices (TargetCaps.has_simd_matrix), each has a block of the sums,
// eight steps of k are summed at a time in an order of the device, and the tile goes through shared memory
// to the threads that store it.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_simt.h"
#include "passes/lower/operand.h"

enum {
    MIN_ROWS = 8,
    MIN_NARROW = 4, // rows or columns, of a product that is so LONG
    LONG = 256,
    LONG_WINDOW = 32, // of a window, whose plain loops are slower
    DEEP_WINDOW = 64, // so long a sum of one thread takes longer than a tile of which little is used
    MIN_DEPTH = 3,
    MIN_RESULTS = 1024,
    MIN_OF_MATRIX = 256, // of each product, if there are many
    MATRIX_TILE = 64,
    MATRIX_ROWS = 16,
    MATRIX_COLUMNS = 32 // of a simdgroup (device.def)
};

// --- the tile ------------------------------------------------------------------------------------

static void place_batch(GpuSimt *s, KRef z)
{
    Kernel *k = s->k;
    const GpuMatmul *p = s->p;
    if (p->groups != NULL) {
        s->batch[0] = gpu_group_matrix(p, s->m);
        return;
    }
    for (uint32_t b = p->n_batch; b-- > 0; z = k_expr(k, "$ / #", z, p->batch[b]))
        s->batch[b] = b == 0 ? z : k_expr(k, "$ % #", z, p->batch[b]);
}

static void place_side(const GpuSimt *s, GpuSide *x, KRef first)
{
    x->first = first;
    x->base = k_index(s->k, 0);
    for (uint32_t i = 0; i < s->p->n_batch; i++)
        if (x->x->batch[i] != 0)
            x->base = k_expr(s->k, "$ * # + $", s->batch[i], x->x->batch[i], x->base);
}

// Where the thread's sums are: of threads alone, of warps, of simdgroups.
static void place_thread(GpuSimt *s)
{
    Kernel *k = s->k;
    const KRef warp = k_expr(k, "$ / #", s->member, GPU_LANES);
    if (s->unit == GPU_UNIT_FMA) {
        s->row = k_expr(k, "$ / # * #", s->member, gpu_simt_threads_n(s), GPU_SIMT_BLOCK);
        s->column = k_expr(k, "$ % # * #", s->member, gpu_simt_threads_n(s), GPU_SIMT_BLOCK);
    } else if (s->unit == GPU_UNIT_SIMD) {
        s->row = k_expr(k, "$ % # * #", warp, MATRIX_TILE / MATRIX_ROWS, MATRIX_ROWS);
        s->column = k_expr(k, "$ / # * #", warp, MATRIX_TILE / MATRIX_ROWS, MATRIX_COLUMNS);
    } else {
        const int64_t rows = gpu_unit_rows(s) * GPU_UNIT_ROWS;
        const int64_t columns = gpu_unit_columns(s) * GPU_UNIT_COLUMNS;
        s->row = k_expr(k, "$ / # * #", warp, gpu_simt_warps_n(s), rows);
        s->column = k_expr(k, "$ % # * #", warp, gpu_simt_warps_n(s), columns);
    }
}

static int64_t slices_of(const GpuSimt *s)
{
    return ceil_div(ceil_div(s->p->k, s->pair), s->depth);
}

// Slices of the last part of k, which has the fewest.
static int64_t least_slices(const GpuSimt *s)
{
    const int64_t n = slices_of(s), splits = s->shape.splits > 1 ? s->shape.splits : 1;
    return n - (splits - 1) * ceil_div(n, splits);
}

// The words of k of this group; GPUs without clusters leave all of them to the first group.
static void place_part(GpuSimt *s)
{
    Kernel *k = s->k;
    const int64_t words = ceil_div(s->p->k, s->pair);
    const int64_t part = ceil_div(slices_of(s), s->shape.splits) * s->depth;
    const KRef has_clusters = k_call(k, KDEV_has_wgmma, 0, 0, 0), all = k_index(k, words);
    s->first = k_select(k, has_clusters, k_expr(k, "$ * #", s->rank, part), k_index(k, 0));
    s->end = k_select(k, has_clusters, k_expr(k, "min($ * # + #, $)", s->rank, part, part, all), all);
    s->shared = k_call(k, KDEV_shared_begin, 0, 0, 0);
}

static void begin_tile(GpuSimt *s)
{
    Kernel *k = s->k;
    const GpuMatmul *p = s->p;
    const KRef z = k_for_group(k, gpu_matmul_count(p), "matrix");
    const KRef n_tile = k_for_group(k, ceil_div(p->n, s->shape.columns), "columns");
    const KRef m_tile = k_for_group(k, ceil_div(p->m, s->shape.rows), "rows");
    if (s->shape.splits > 1)
        s->rank = k_for_group(k, s->shape.splits, "part");
    if (s->shape.parts != 0) {
        s->tile = k_expr(k, "($ * # + $) * # + $", z, ceil_div(p->n, s->shape.columns), n_tile,
                         ceil_div(p->m, s->shape.rows), m_tile);
        s->part = k_for_group(k, s->shape.parts, "part");
    }
    s->m = k_expr(k, "$ * #", m_tile, s->shape.rows);
    place_batch(s, z);
    s->n = k_expr(k, "$ * #", n_tile, s->shape.columns);
    s->thread = k_thread(k);
    s->team = k_expr(k, "$ / #", s->thread, gpu_simt_members(s));
    s->member = s->shape.teams == 1 ? s->thread : k_expr(k, "$ % #", s->thread, gpu_simt_members(s));
    place_thread(s);
    place_side(s, &s->a, s->m);
    place_side(s, &s->b, s->n);
    if (s->shape.splits > 1)
        place_part(s);
    else
        gpu_parts_range(s, &s->first, &s->end);
    if (p->bytes != NULL && p->bytes->zero != 0)
        s->zero = operand_scalar(s->l, p->bytes->zero, k_index(k, 0), DTYPE_i32);
}

// --- sums ----------------------------------------------------------------------------------------

static void clear_sums(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    if (s->unit == GPU_UNIT_COOP) {
        gpu_coop_clear(s);
        return;
    }
    const KRef i = k_loop(k, gpu_simt_sums(s), KFOR_UNROLL, "i");
    k_astore(k, sums, i, k_number(k, s->sum, 0));
    k_end(k);
}

// The slice that was fetched as number `which`, in whose place the one from word `next` of k on comes, if
// that is before `end`.
static void multiply_slice(const GpuSimt *s, KRef sums, KRef next, uint32_t which)
{
    Kernel *k = s->k;
    k_barrier(k);
    gpu_side_put(s, &s->a, which);
    gpu_side_put(s, &s->b, which);
    k_barrier(k);
    k_if(k, k_lt(k, next, s->end));
    gpu_side_fetch(s, &s->a, next, which);
    gpu_side_fetch(s, &s->b, next, which);
    k_end(k);
    gpu_simt_multiply(s, sums);
}

static void multiply_slices(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const int64_t ahead = least_slices(s) > 1 ? s->ahead : 1;
    const bool has_parts = s->shape.parts != 0;
    for (int64_t i = 0; i < ahead; i++) {
        const KRef own = k_expr(k, "$ + #", s->first, i * s->depth);
        if (has_parts)
            k_if(k, k_lt(k, own, s->end));
        gpu_side_fetch(s, &s->a, own, (uint32_t)i);
        gpu_side_fetch(s, &s->b, own, (uint32_t)i);
        if (has_parts)
            k_end(k);
    }
    const KRef from = k_for(k, s->first, s->end, ahead * s->depth, KFOR_SERIAL, "from");
    for (int64_t i = 0; i < ahead; i++) {
        const KRef own = k_expr(k, "$ + #", from, i * s->depth);
        const bool may_end = i > 0 && (has_parts || s->shape.splits > 1 || slices_of(s) % ahead != 0);
        if (may_end)
            k_if(k, k_lt(k, own, s->end));
        multiply_slice(s, sums, k_expr(k, "$ + #", own, ahead * s->depth), (uint32_t)i);
        if (may_end)
            k_end(k);
    }
    k_end(k);
}

// The upper half of the teams hands its sums to the lower half, until one team is left.
static void join_teams(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const int64_t n = gpu_simt_sums(s), members = gpu_simt_members(s);
    for (int64_t half = s->shape.teams / 2; half >= 1; half /= 2) {
        const KRef place = k_expr(k, "$ % # * # + $", s->team, half, n * members, s->member);
        k_barrier(k);
        k_if(k, k_expr(k, "# <= $ & $ < #", half, s->team, s->team, 2 * half));
        KRef i = k_loop(k, n, KFOR_UNROLL, "i");
        k_astore(k, s->parts, k_expr(k, "$ * # + $", i, members, place), k_aload(k, sums, i, 1));
        k_ends(k, 2);
        k_barrier(k);
        k_if(k, k_expr(k, "$ < #", s->team, half));
        i = k_loop(k, n, KFOR_UNROLL, "i");
        const KRef part = k_aload(k, s->parts, k_expr(k, "$ * # + $", i, members, place), 1);
        k_astore(k, sums, i, k_add(k, k_aload(k, sums, i, 1), part));
        k_ends(k, 2);
    }
}

// What simdgroups have, for the threads that store it.
static GpuSimt share_sums(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    GpuSimt out = *s;
    const KRef at = k_expr(k, "$ * # + $", s->row, s->a.pitch, s->column);
    k_device_list(k, KDEV_simd_put, s->a.pitch, (const KRef[KDEV_MAX_OPERANDS + 1]){s->result, at, sums});
    k_barrier(k);
    out.unit = GPU_UNIT_FMA;
    place_thread(&out);
    return out;
}

static void multiply_tile(const GpuSimt *s)
{
    Kernel *k = s->k;
    const bool has_teams = s->shape.teams > 1;
    const KRef sums = k_array(k, s->sum, gpu_simt_sums(s));
    clear_sums(s, sums);
    multiply_slices(s, sums);
    const bool is_split = s->shape.splits > 1, has_parts = s->shape.parts != 0;
    if (has_teams)
        join_teams(s, sums);
    if (is_split) {
        k_if(k, k_call(k, KDEV_has_wgmma, 0, 0, 0));
        gpu_simt_store_split(s, sums);
        k_else(k);
        k_if(k, k_expr(k, "$ == 0", s->rank));
    }
    if (has_teams)
        k_if(k, k_expr(k, "$ == 0", s->team));
    if (has_parts) {
        gpu_parts_put_sums(s, sums);
        if (has_teams)
            k_end(k);
        gpu_parts_open_last(s);
        if (has_teams)
            k_if(k, k_expr(k, "$ == 0", s->team));
        gpu_parts_get_sums(s, sums);
    }
    GpuSimt stored = s->unit == GPU_UNIT_SIMD ? share_sums(s, sums) : *s;
    stored.shape.splits = 0;
    gpu_simt_store(&stored, sums);
    k_ends(k, (uint32_t)has_teams + (is_split ? 2u : 0u) + has_parts);
}

// With cooperative matrices where the device has them; else what follows.
static void begin_other_way(const GpuSimt *s, GpuSimt *coop)
{
    Kernel *k = s->k;
    const KRef has_coop = k_call(k, KDEV_has_coop, 0, 0, 0);
    gpu_coop_place(coop, s);
    k_if(k, has_coop);
    clear_sums(coop, 0);
    multiply_slices(coop, 0);
    gpu_coop_store(coop);
    k_end(k);
    k_if(k, k_not(k, has_coop));
}

// --- the kernel ----------------------------------------------------------------------------------

bool gpu_simt_fits(const GpuMatmul *p)
{
    rlx_assert(p->n_batch <= GPU_MATMUL_MAX_BATCH);
    for (uint32_t i = 0; i < p->n_batch; i++)
        if (p->batch[i] < 1)
            return false;
    if (p->bytes != NULL)
        return true; // units_take_bytes
    const int64_t least = p->m < p->n ? p->m : p->n;
    const int64_t long_k = p->window != NULL ? LONG_WINDOW : LONG;
    const bool is_wide = least >= MIN_ROWS || (least >= MIN_NARROW && p->k >= long_k);
    const bool is_large = p->m * p->n >= MIN_OF_MATRIX && p->m * p->n * gpu_matmul_count(p) >= MIN_RESULTS;
    const bool is_deep = p->window != NULL && p->k >= DEEP_WINDOW && (p->m >= MIN_ROWS || p->n >= MIN_ROWS) &&
                         p->m * p->n * gpu_matmul_count(p) < MIN_RESULTS;
    return p->l->caps->shared_bytes != 0 && ((is_wide && p->k >= MIN_DEPTH && is_large) || is_deep);
}

static void share_side(const GpuSimt *s, GpuSide *x)
{
    x->shared = k_shared(s->k, s->word, gpu_side_words(s, x->lines));
}

void gpu_matmul_simt(const GpuMatmul *p)
{
    rlx_assert(gpu_simt_fits(p));
    Kernel *k = p->l->k;
    const bool has_coop = gpu_coop_fits(p);
    GpuSimt s = {.p = p, .l = p->l, .k = k, .unit = gpu_simt_unit(p)};
    s.shape = gpu_simt_choose(p, s.unit);
    s.words = has_coop ? GPU_SIMT_WORDS : gpu_simt_words(p, s.unit, s.shape);
    s.depth = s.words * s.shape.teams;
    s.pair = gpu_unit_pair(s.unit);
    s.ahead = gpu_simt_is_alone(p, s.unit, s.shape) ? GPU_SIMT_AHEAD : 1;
    s.word = s.pair > 1 ? DTYPE_u32 : DTYPE_f32;
    s.sum = s.unit == GPU_UNIT_BYTES ? DTYPE_u32 : DTYPE_f32;
    s.a = (GpuSide){.x = &p->a, .window = p->window, .lines = s.shape.rows, .size = p->m};
    s.b = (GpuSide){.x = &p->b, .lines = s.shape.columns, .size = p->n};
    k_set_group(k, GPU_SIMT_THREADS);
    k->places = s.ahead > 1 ? 1 : gpu_simt_places_of(p, s.unit, s.shape);
    gpu_side_begin(&s, &s.a);
    gpu_side_begin(&s, &s.b);
    s.first = k_index(k, 0);
    s.end = k_index(k, ceil_div(p->k, s.pair));
    gpu_parts_begin(&s);
    GpuSimt coop = has_coop ? gpu_coop_begin(&s) : s;
    share_side(&s, &s.a);
    share_side(&s, &s.b);
    if (s.shape.teams > 1)
        s.parts = k_shared(k, s.sum, s.shape.teams / 2 * s.shape.rows * s.shape.columns);
    if (s.unit == GPU_UNIT_SIMD)
        s.result = k_shared(k, DTYPE_f32, s.shape.rows * s.a.pitch);
    if (s.shape.splits > 1) {
        k->cluster = s.shape.splits;
        k_use_shared(k, (uint32_t)(s.shape.rows * s.shape.columns * (int64_t)sizeof(float)));
    }
    begin_tile(&s);
    if (p->rows != 0)
        k_if(k, k_lt(k, s.m, p->rows));
    if (p->groups != NULL)
        k_if(k, k_expr(k, "0 <= $", s.batch[0]));
    if (has_coop)
        begin_other_way(&s, &coop);
    multiply_tile(&s);
    k_ends(k, 3u + (s.shape.splits > 1) + (s.shape.parts != 0) + has_coop + (p->rows != 0) +
                  (p->groups != NULL));
}
