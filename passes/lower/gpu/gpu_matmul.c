// SPDX-License-Identifier: Apache-2.0
// What the schedules of gpu_matmul.h share: which operands fit, the order of tiles, the end of a tile. Groups
// are persistent: each takes every so many-th tile. One text serves all GPUs (device.def): those with wgmma
// run gpu_matmul_wgmma.c, others gpu_matmul_mma.c, in groups of the same size.
#include "passes/lower/gpu/gpu_matmul.h"
#include "ir/kernel/device.h"
#include "passes/graph/simplify_eighths.h"
#include "passes/lower/operand.h"

enum {
    MAP_ALIGN = 16,
    MIN_SIZE = 16,
    MOST_FOR_TWO = 128, // columns of floats, so that two groups have room for what else they need
    MIN_COLUMNS = 8
};

// --- what fits -----------------------------------------------------------------------------------

static bool is_map_step(int64_t bytes)
{
    return bytes > 0 && bytes % MAP_ALIGN == 0;
}

static DType type_of(const GpuMatmul *p, const GpuMatrix *x)
{
    return x == &p->a ? gpu_matmul_type(p)
           : x == &p->b || (p->second != NULL && x == &p->second->b)
               ? gpu_matmul_b_type(p)
                        : (DType)lower_node(p->l, p->l->root)->dtype;
}

// One axis is dense, the others are whole steps of the copy engine.
static bool is_mappable(const GpuMatmul *p, const GpuMatrix *x)
{
    const int64_t bytes = dtype_info[type_of(p, x)].bytes;
    uint32_t rank = 2;
    if ((x->k != 1 && x->outer != 1) || !is_map_step((x->k == 1 ? x->outer : x->k) * bytes) ||
        x->loc->offset * bytes % MAP_ALIGN != 0)
        return false;
    for (uint32_t i = 0; i < p->n_batch; i++) {
        rank += x->batch[i] != 0;
        if (x->batch[i] != 0 && !is_map_step(x->batch[i] * bytes))
            return false;
    }
    return rank <= 4 && lower_can_map(p->l, x->loc->buf);
}

bool gpu_result_has_boxes(const GpuMatmul *p)
{
    return p->bytes == NULL && p->c.k == 1 && k_is_half(lower_node(p->l, p->l->root)->dtype) &&
           is_mappable(p, &p->c);
}

DType gpu_matmul_type(const GpuMatmul *p)
{
    return (DType)lower_node(p->l, p->a.id)->dtype;
}

DType gpu_matmul_b_type(const GpuMatmul *p)
{
    if (p->bytes == NULL)
        return (DType)lower_node(p->l, p->b.id)->dtype;
    return p->bytes->has_signed_weights ? DTYPE_i8 : DTYPE_u8;
}

// Elements of 8 bits are next to each other along k on both sides.
static bool has_operands(const GpuMatmul *p)
{
    const int type = gpu_matmul_type(p), anchor = lower_node(p->l, p->l->anchor)->dtype;
    if (p->bytes != NULL)
        return (type == DTYPE_i8 || type == DTYPE_u8) && p->a.k == 1 && p->b.k == 1 && p->rows == 0;
    if (is_eighth(type))
        return is_eighth(gpu_matmul_b_type(p)) && p->a.k == 1 && p->b.k == 1 && anchor == DTYPE_f32;
    return k_is_half(type) && lower_node(p->l, p->b.id)->dtype == type &&
           (anchor == type || anchor == DTYPE_f32);
}

bool gpu_matmul_fits(const GpuMatmul *p)
{
    rlx_assert(p->n_batch <= GPU_MATMUL_MAX_BATCH);
    if (!p->l->caps->has_mma || !has_operands(p) || p->m < 2 || p->n < MIN_COLUMNS || p->k < MIN_SIZE)
        return false;
    for (uint32_t i = 0; i < p->n_batch; i++)
        if (p->batch[i] < 1)
            return false;
    return (p->image != NULL || is_mappable(p, &p->a)) && is_mappable(p, &p->b) &&
           (p->second == NULL || is_mappable(p, &p->second->b));
}

// --- tiles ---------------------------------------------------------------------------------------

// Blocks of one matrix are walked together, so that its columns are read once. Each column begins with the
// next one of them, since groups take tiles at a fixed distance and the last block may have less to do.
static void place_in_strip(const GpuEmit *e, KRef index, KRef *row, KRef *column)
{
    Kernel *k = e->k;
    const int64_t of_block = e->p->groups->rows / e->rows, each = of_block * e->n_tiles;
    const KRef block = k_expr(k, "$ / #", index, each);
    const GpuStrip s = gpu_group_strip(e->p, k_expr(k, "$ * #", block, e->p->groups->rows));
    const KRef count = k_expr(k, "$ * #", s.count, of_block);
    const KRef inner = k_expr(k, "$ - $ * #", index, s.first, each);
    *column = k_div(k, inner, count);
    *row = k_expr(k, "$ * # + ($ + $) % $", s.first, of_block, inner, *column, count);
}

GpuPlace gpu_tile_place(const GpuEmit *e, KRef index)
{
    rlx_assert(e->m_tiles >= 1 && e->n_tiles >= 1);
    Kernel *k = e->k;
    const GpuMatmul *p = e->p;
    const int64_t plane = e->m_tiles * e->n_tiles;
    GpuPlace at = {0};
    KRef z = k_expr(k, "$ / #", index, plane), i = k_expr(k, "$ % #", index, plane);
    for (uint32_t b = p->n_batch; p->groups == NULL && b-- > 0; z = k_expr(k, "$ / #", z, p->batch[b]))
        at.batch[b] = b == 0 ? z : k_expr(k, "$ % #", z, p->batch[b]);
    KRef row = 0, column = 0;
    const int64_t raster = GPU_RASTER_ROWS / e->tile.pair;
    if (p->groups != NULL) {
        place_in_strip(e, i, &row, &column);
    } else if (e->tile.kept != 0) { // groups are a multiple of the columns of tiles
        row = k_expr(k, "$ / #", i, e->n_tiles);
        column = k_expr(k, "$ % #", i, e->n_tiles);
    } else if (e->m_tiles <= raster) {
        row = k_expr(k, "$ % #", i, e->m_tiles);
        column = k_expr(k, "$ / #", i, e->m_tiles);
    } else {
        const KRef first = k_expr(k, "$ / # * #", i, raster * e->n_tiles, raster);
        const KRef left = k_expr(k, "# - $", e->m_tiles, first);
        const KRef height = k_expr(k, "min($, #)", left, raster);
        const KRef inner = k_expr(k, "$ % #", i, raster * e->n_tiles);
        row = k_expr(k, "$ + $ % $", first, inner, height);
        column = k_div(k, inner, height);
    }
    if (e->tile.pair > 1)
        row = k_expr(k, "$ * # + $", row, e->tile.pair, e->half);
    at.m = k_expr(k, "$ * #", row, e->rows);
    at.n = k_expr(k, "$ * #", column, e->columns);
    if (p->groups != NULL)
        at.batch[0] = gpu_group_matrix(p, at.m);
    return at;
}

KRef gpu_tile_open(const GpuEmit *e)
{
    Kernel *k = e->k;
    const KRef tile = k_for(k, e->group, k_index(k, e->tiles), e->slots, KFOR_SERIAL, "tile");
    if (e->p->groups != NULL)
        k_if(k, k_expr(k, "0 <= $", gpu_tile_place(e, tile).batch[0]));
    return tile;
}

void gpu_tile_close(const GpuEmit *e)
{
    if (e->p->groups != NULL)
        k_end(e->k);
    k_end(e->k);
}

// Beyond the end there is nothing to read: values there are those of the last row or column.
static KRef at_most(const GpuEmit *e, KRef i, int64_t n, int64_t tile)
{
    return n % tile == 0 ? i : k_expr(e->k, "min($, #)", i, n - 1);
}

Point gpu_tile_point(const GpuEmit *e, const GpuPlace *at, KRef row, KRef column)
{
    rlx_assert(row != 0 && column != 0);
    const GpuMatmul *p = e->p;
    const KRef r = at_most(e, k_add(e->k, at->m, row), p->m, e->rows * e->tile.pair);
    const KRef c = at_most(e, k_add(e->k, at->n, column), p->n, e->columns);
    return p->point(p, at->batch, r, c);
}

void gpu_tile_begin(GpuEmit *e)
{
    const GpuBytes *b = e->p->bytes;
    if (b != NULL && b->sums != 0)
        e->zero = operand_scalar(e->l, b->zero, k_index(e->k, 0), DTYPE_i32);
}

KRef gpu_byte_sum(Kernel *k, const GpuBytes *bytes, GpuByteSum s)
{
    KRef sum = k_bitcast(k, s.sum, DTYPE_i32);
    if (bytes->begin != 0)
        sum = k_add(k, sum, s.begin != 0 ? s.begin : k_load(k, bytes->begin - 1, s.column, 1, 1));
    if (bytes->sums == 0)
        return sum;
    return k_sub(k, sum, k_mul(k, s.zero, k_load(k, bytes->sums - 1, s.column, 1, 1)));
}

KRef gpu_with_bias(const GpuMatmul *p, KRef channel, KRef sum)
{
    if (p->bias == 0)
        return sum;
    Kernel *k = p->l->k;
    const uint32_t param = lower_param(p->l, p->bias, PARAM_READ);
    const KRef index = k_expr(k, "$ * #", channel, lower_loc(p->l, p->bias)->stride[0]);
    return k_add(k, sum, k_cast(k, k_load(k, param, index, 1, 1), DTYPE_f32));
}

KRef gpu_tile_root(const GpuEmit *e, Point at, KRef sum, KRef second)
{
    rlx_assert(sum != 0 && e->p->d != NULL && (second != 0) == (e->p->second != NULL));
    const Given other = {.id = second != 0 ? e->p->second->product : 0, .value = second};
    const KRef value = gpu_with_bias(e->p, at.idx[1], gpu_scaled(e->p, sum));
    return pull_root_given(e->l, e->p->d, at, value, &other);
}

void gpu_tile_clear(const GpuEmit *e, KRef sums)
{
    Kernel *k = e->k;
    const KRef i = k_loop(k, e->tile.columns / 2, KFOR_UNROLL, "i");
    k_astore(k, sums, i, k_number(k, e->sum, 0));
    k_end(k);
}

void gpu_tile_add(const GpuEmit *e, KRef sums, KRef own)
{
    Kernel *k = e->k;
    const KRef i = k_loop(k, e->tile.columns / 2, KFOR_UNROLL, "i");
    k_astore(k, sums, i, k_add(k, k_aload(k, sums, i, 1), k_aload(k, own, i, 1)));
    k_end(k);
}

// --- the kernel ----------------------------------------------------------------------------------

// n elements of k, or columns of the result, and `outer` of the other axis; boxes are rows of 128 bytes along
// the dense one.
static uint32_t map_of(const GpuEmit *e, const GpuMatrix *x, int64_t n, int64_t outer, int64_t box)
{
    const GpuMatmul *p = e->p;
    const bool is_dense = x->k == 1;
    const DType type = type_of(p, x);
    const uint64_t bytes = dtype_info[type].bytes;
    const uint32_t row = GPU_ROW_BYTES / (uint32_t)bytes;
    PlanTensorMap m = {.buf = x->loc->buf,
                       .byte_offset = (uint64_t)x->loc->offset * bytes,
                       .type = type,
                       .rank = 2,
                       .dim = {(uint64_t)(is_dense ? n : outer), (uint64_t)(is_dense ? outer : n)},
                       .stride = {0, (uint64_t)(is_dense ? x->outer : x->k) * bytes},
                       .box = {row, is_dense ? (uint32_t)box : row},
                       .swizzle = GPU_ROW_BYTES};
    for (uint32_t i = p->n_batch; i-- > 0;) {
        if (x->batch[i] == 0)
            continue;
        m.dim[m.rank] = (uint64_t)p->batch[i];
        m.stride[m.rank] = (uint64_t)x->batch[i] * bytes;
        m.box[m.rank++] = 1;
    }
    return lower_param_map(e->l, &m);
}

static void add_maps(GpuEmit *e)
{
    const GpuMatmul *p = e->p;
    const Lower *l = e->l;
    gpu_matrix_param(e->l, &p->a);
    gpu_matrix_param(e->l, &p->b);
    gpu_result_param(e);
    e->box_rows = p->image == NULL && p->a.k == 1 && p->m < e->rows ? ceil_div(p->m, 8) * 8 : e->rows;
    if (p->image != NULL) {
        const PlanTensorMap map = gpu_image_map(p, e->box_rows);
        e->map_a = lower_param_map(e->l, &map);
    } else {
        e->map_a = map_of(e, &p->a, p->k, p->m, e->box_rows);
    }
    const int64_t own = e->columns / e->tile.pair;
    e->map_b = map_of(e, &p->b, p->k, gpu_b_columns(p), own);
    if (p->second != NULL) {
        gpu_matrix_param(e->l, &p->second->b);
        e->map_second = map_of(e, &p->second->b, p->k, gpu_b_columns(p), own);
    }
    const bool fits_blocks = p->bytes == NULL && e->tile.splits == 1 && e->tile.columns % 64 == 0 &&
                             p->c.k == 1 && k_is_half(lower_node(l, l->root)->dtype);
    // Rows of the product are those of the result, and nothing is added that depends on their expert.
    const bool is_whole = p->groups == NULL || (p->c.packed != 0 && p->groups->bias == 0);
    e->stores_boxes = fits_blocks && is_whole && gpu_result_has_boxes(p);
    e->stores_pieces = fits_blocks && !is_whole && gpu_stores_pieces(p);
    e->stores_lines = fits_blocks && p->groups == NULL && !e->stores_boxes && !gpu_stores_pairs(p);
    if (e->stores_boxes)
        e->map_c = map_of(e, &p->c, p->n, p->m, 64);
}

void gpu_matmul_emit(const GpuMatmul *p)
{
    rlx_assert(p->m > 0 && p->n > 0 && p->k > 0);
    rlx_assert(gpu_matmul_fits(p) && p->point != NULL);
    Lower *l = p->l;
    Kernel *k = l->k;
    GpuEmit e = {.p = p, .l = l, .k = k, .tile = gpu_tile_choose(p)};
    e.sum = p->bytes != NULL ? DTYPE_u32 : DTYPE_f32;
    const int64_t cluster = e.tile.splits * e.tile.pair;
    e.rows = gpu_tile_rows(e.tile);
    e.columns = gpu_tile_own_columns(p, e.tile);
    e.m_tiles = ceil_div(p->m, e.rows * e.tile.pair);
    e.n_tiles = ceil_div(p->n, e.columns);
    e.steps = ceil_div(p->k, gpu_tile_k(p));
    rlx_assert(e.rows >= 1 && cluster >= 1);
    e.tiles = e.m_tiles * e.n_tiles * gpu_matmul_count(p);
    const GpuMachine *m = l->caps->gpu;
    const int64_t places = gpu_tile_places(m, e.tile);
    e.slots = e.tiles < places || e.tile.splits > 1 ? e.tiles
              : e.tile.kept != 0                    ? places / e.n_tiles * e.n_tiles
                                                    : places;
    k_set_group(k, (uint32_t)(GPU_WARPGROUP * (1 + e.tile.warpgroups)));
    k->cluster = (uint8_t)cluster;
    // What its threads store takes registers.
    if (gpu_tile_has_room(m, e.tile) && (p->bytes != NULL || e.tile.columns <= MOST_FOR_TWO))
        k->places = 2;
    add_maps(&e);
    if (p->groups != NULL && e.slots < e.tiles) // some have less to do than others
        e.counter = 1 + lower_param_counter(l, "taken", 2);
    k_use_shared(k, gpu_tile_bytes(e.tile, e.stores_boxes || e.stores_lines || e.stores_pieces) +
                        (e.counter != 0 ? GPU_NUMBER_BYTES : 0));
    const KRef group = k_for_group(k, e.slots * cluster, "group");
    e.thread = k_thread(k);
    e.group = k_expr(k, "$ / #", group, cluster);
    e.rank = k_expr(k, "$ % # / #", group, cluster, e.tile.pair);
    e.half = k_expr(k, "$ % #", group, e.tile.pair);
    k_if(k, k_call(k, KDEV_has_wgmma, 0, 0, 0));
    gpu_matmul_wgmma(&e);
    k_else(k);
    gpu_matmul_mma(&e);
    k_end(k);
    k_end(k);
}
