// SPDX-License-Identifier: Apache-2.0
// Products of many rows of f16 or bf16 with blocks on matrix units. A group of two warpgroups computes a tile
// of the result, 64 steps of k at a time: raw blocks of its columns come to shared memory by asynchronous
// copies, 256 elements of each at a time; every thread decodes some elements of one column to the tile of
// weights that is multiplied; rows of x are copied as they are. While the warpgroups multiply (wgmma), their
// threads decode the next steps. GPUs without wgmma multiply the same tiles with mma.sync.
// Accumulation: decoded elements are rounded once to the type of x; exact products are summed in f32, in the
// order of the hardware.
#include "ir/kernel/device.h"
#include "passes/lower/blocks/blocks_team.h"
#include "passes/lower/gpu/gpu_matmul.h"
#include "passes/lower/operand.h"

enum {
    THREADS = 2 * GPU_WARPGROUP,
    ROW_BYTES = GPU_TILE_K * 2,
    CHUNK = 8,      // elements of a copy of x
    OWN = 4,        // of weights that are decoded together
    LINE = 4,       // words of a copy of blocks
    RAW = 256,      // elements of a column that are copied at a time, and what that may be where
    MOST_RAW = 512, // blocks do not fit into it
    WARP_ROWS = 64, // of a warpgroup
    WIDE = 128,
    NARROW = 64, // columns of a tile
    ALIGN = 1024,
    MIN_ROWS = 16
};

typedef struct Mma {
    Team t;
    GpuMatmul product;
    GpuEmit e;                // of which the end of a tile is taken
    int64_t columns, rows;    // of a tile
    int64_t across, own;      // warpgroups beside each other; columns of each
    int64_t raw, turns;       // elements of a column that are copied at a time, steps of that
    int64_t period;           // those begin alike so many of them apart
    int64_t words, pitch;     // of a column that are copied at a time; from column to column
    int64_t slots;            // of decoded weights
    bool has_lines;           // blocks are copied 16 bytes at a time
    KRef x_row[WIDE * CHUNK / THREADS]; // variables: where the chunks of a thread begin
    GpuPlace at;
    KRef sums;
} Mma;

static KRef address(const Mma *m, int64_t bytes)
{
    return k_expr(m->t.l->k, "$ + #", m->e.shared, bytes);
}

static int64_t x_bytes(const Mma *m)
{
    return m->rows * ROW_BYTES;
}

static int64_t w_bytes(const Mma *m)
{
    return m->columns * ROW_BYTES;
}

static int64_t raw_bytes(const Mma *m)
{
    return m->columns * m->pitch * WORD;
}

static int64_t all_bytes(const Mma *m)
{
    return 2 * x_bytes(m) + m->slots * w_bytes(m) + 2 * raw_bytes(m);
}

static KRef w_slot(const Mma *m, int64_t turn)
{
    return address(m, 2 * x_bytes(m) + turn % m->slots * w_bytes(m));
}

static KRef raw_slot(const Mma *m, KRef raw)
{
    Kernel *k = m->t.l->k;
    const KRef first = address(m, 2 * x_bytes(m) + m->slots * w_bytes(m));
    return k_expr(k, "$ % 2 * # + $", raw, raw_bytes(m), first);
}

// 16 bytes of a row of a tile: swizzled as wgmma reads them.
static KRef chunk_address(const Mma *m, KRef base, KRef row, KRef chunk)
{
    Kernel *k = m->t.l->k;
    const KRef place = k_xor(k, chunk, k_expr(k, "$ % 8", row));
    return k_expr(k, "$ * # + ($ * 16 + $)", row, ROW_BYTES, place, base);
}

// --- copies --------------------------------------------------------------------------------------

static int64_t x_chunks(const Mma *m)
{
    return m->rows * (GPU_TILE_K / CHUNK) / THREADS;
}

// Rows behind the last one are that one: what they give is not stored.
static void find_rows(Mma *m)
{
    const Team *t = &m->t;
    Kernel *k = t->l->k;
    const uint32_t last = lower_node(t->l, t->p->x)->shape->rank - 1;
    for (int64_t i = 0; i < x_chunks(m); i++) {
        const KRef c = k_expr(k, "$ + #", t->thread, i * THREADS);
        const KRef row = k_expr(k, "$ + $ / #", m->at.m, c, GPU_TILE_K / CHUNK);
        KRef idx[SHAPE_MAX_RANK] = {0};
        block_product_row(t->l, t->p, team_op(t, KOP_min, row, k_index(k, t->p->rows - 1)), idx);
        idx[last] = k_expr(k, "$ % # * #", c, GPU_TILE_K / CHUNK, CHUNK);
        m->x_row[i] = k_var(k, operand_index(t->l, t->p->x, idx), "row");
    }
}

static void copy_x(const Mma *m, KRef step, int64_t slot)
{
    const Team *t = &m->t;
    Kernel *k = t->l->k;
    for (int64_t i = 0; i < x_chunks(m); i++) {
        const KRef c = k_expr(k, "$ + #", t->thread, i * THREADS);
        const KRef row = k_expr(k, "$ / #", c, GPU_TILE_K / CHUNK),
                   chunk = k_expr(k, "$ % #", c, GPU_TILE_K / CHUNK);
        k_device(k, KDEV_cp_async16, chunk_address(m, address(m, slot * x_bytes(m)), row, chunk),
                 k_address(k, t->x, k_expr(k, "$ * # + $", step, GPU_TILE_K, k_get(k, m->x_row[i]))),
                 k_index(k, 16));
    }
}

static int64_t raw_elements_bytes(const Mma *m)
{
    return m->raw / m->t.f->elements * m->t.f->bytes;
}

// Blocks number `turns` * period + part of `raw` elements.
static void copy_raw(const Mma *m, KRef turns, int64_t part)
{
    const Team *t = &m->t;
    Kernel *k = t->l->k;
    const int64_t bytes = raw_elements_bytes(m), each = m->words / (m->has_lines ? LINE : 1);
    const KRef slot = raw_slot(m, k_expr(k, "$ * # + #", turns, m->period, part));
    const KRef first = k_expr(k, "$ * # + #", turns, m->period * bytes / WORD, part * bytes / WORD);
    const KRef i = k_for(k, t->thread, k_index(k, m->columns * each), THREADS, KFOR_SERIAL, "i");
    const KRef column = k_expr(k, "$ / #", i, each);
    const KRef line = k_expr(k, "$ % # * #", i, each, m->words / each);
    const KRef from = team_op(t, KOP_min, k_add(k, m->at.n, column), k_index(k, t->p->columns - 1));
    const KRef to = k_expr(k, "($ * # + $) * # + $", column, m->pitch, line, WORD, slot);
    const KRef source = k_address(k, t->w, k_expr(k, "$ * # + ($ + $)", from, t->row_words, first, line));
    if (m->has_lines)
        k_device(k, KDEV_cp_async16, to, source, k_index(k, 16));
    else
        k_device(k, KDEV_cp_async4, to, source);
    k_end(k);
}

// --- weights -------------------------------------------------------------------------------------

// `n` elements of a column from element e of what is copied on, which begins `skew` bytes behind a word.
static void decode(const Mma *m, KRef raw, KRef column, int64_t skew, int64_t e, int64_t n, KRef to)
{
    Team t = m->t;
    Kernel *k = t.l->k;
    const bool is_f16 = lower_node(t.l, t.p->x)->dtype == DTYPE_f16;
    const int64_t at = skew + e / t.f->elements * t.f->bytes;
    const KRef words = k_array(k, DTYPE_u32, m->words);
    KRef packed[CHUNK / 2], v[4];
    k_device_list(
        k, m->has_lines ? KDEV_shared_lines : KDEV_shared_words, m->words,
        (const KRef[KDEV_MAX_OPERANDS + 1]){words, k_expr(k, "$ * # + $", column, m->pitch * WORD, raw)});
    t.tile = words;
    for (int64_t i = 0; i < n; i += CHUNK) {
        for (int64_t h = 0; h < CHUNK / 2; h++) {
            if (h % 2 == 0)
                team_decode_four(&t, k_index(k, at / WORD), at % WORD, (e + i + 2 * h) % t.f->elements, v);
            packed[h] = k_call(k, is_f16 ? KDEV_pack_f16 : KDEV_pack_bf16, v[h % 2 * 2], v[h % 2 * 2 + 1], 0);
        }
        k_device(k, KDEV_shared_put_words,
                 chunk_address(m, to, column, k_index(k, (e + i) % GPU_TILE_K / CHUNK)), packed[0], packed[1],
                 packed[2], packed[3]);
    }
}

// The steps of k of a turn: parts of them by different warps.
static void decode_turn(const Mma *m, KRef raw, int64_t part, int64_t turn)
{
    const Team *t = &m->t;
    Kernel *k = t->l->k;
    const int64_t parts = THREADS / m->columns, n = GPU_TILE_K / parts;
    const KRef own = k_expr(k, "$ / #", t->thread, m->columns),
               column = k_expr(k, "$ % #", t->thread, m->columns);
    for (int64_t i = 0; i < parts; i++) {
        k_if(k, team_op(t, KOP_eq, own, k_index(k, i)));
        decode(m, raw, column, part * raw_elements_bytes(m) % WORD, turn * GPU_TILE_K + i * n, n,
               w_slot(m, turn));
        k_end(k);
    }
}

// --- products ------------------------------------------------------------------------------------

// Where the rows of x of a warpgroup, and its columns, begin.
static KRef own_row(const Mma *m)
{
    Kernel *k = m->t.l->k;
    return k_expr(k, "$ / # / # * #", m->t.thread, GPU_WARPGROUP, m->across, WARP_ROWS);
}

static KRef own_column(const Mma *m)
{
    Kernel *k = m->t.l->k;
    return k_expr(k, "$ / # % # * #", m->t.thread, GPU_WARPGROUP, m->across, m->own);
}

static void multiply_wgmma(const Mma *m, KRef x, KRef w, KRef is_later)
{
    Kernel *k = m->t.l->k;
    const KWgmma product = {.type = lower_node(m->t.l, m->t.p->x)->dtype, .n = m->own};
    const KRef lead = k_index(k, 16), stride = k_index(k, 8 * ROW_BYTES);
    const KRef a = k_call(k, KDEV_wgmma_desc, k_expr(k, "$ * # + $", own_row(m), ROW_BYTES, x), lead, stride);
    const KRef b =
        k_call(k, KDEV_wgmma_desc, k_expr(k, "$ * # + $", own_column(m), ROW_BYTES, w), lead, stride);
    k_device_with(k, KDEV_wgmma_fence, 0);
    for (int64_t i = 0; i < GPU_TILE_K / 16; i++) {
        const KRef by = k_integer(k, DTYPE_u64, 2 * i);
        k_wgmma(k, product, m->sums, i ? k_add(k, a, by) : a, i ? k_add(k, b, by) : b,
                i ? k_integer(k, DTYPE_bool, 1) : is_later);
    }
    k_device_with(k, KDEV_wgmma_commit, 0);
}

// Four matrices of 8 x 8, in the order in which mma wants them: of x by rows first, of weights by steps.
static void load_fragment(const Mma *m, KRef words, KRef base, KRef row, KRef chunk, bool is_x)
{
    Kernel *k = m->t.l->k;
    const KRef low = k_expr(k, "$ % 8", m->t.lane), odd = k_expr(k, "$ / 8 % 2", m->t.lane);
    const KRef high = k_expr(k, "$ / 16", m->t.lane);
    row = k_expr(k, "$ + ($ * 8 + $)", row, is_x ? odd : high, low);
    k_device(k, KDEV_ldmatrix4, words, k_index(k, 0),
             chunk_address(m, base, row, k_add(k, chunk, is_x ? high : odd)));
}

static void multiply_mma(const Mma *m, KRef x, KRef w)
{
    Kernel *k = m->t.l->k;
    const KDevice mma = lower_node(m->t.l, m->t.p->x)->dtype == DTYPE_f16 ? KDEV_mma_f16 : KDEV_mma_bf16;
    const KRef a = k_array(k, DTYPE_u32, 4), b = k_array(k, DTYPE_u32, 4), zero = k_index(k, 0);
    const KRef warp = k_expr(k, "$ / 32 % 4", m->t.thread);
    const KRef chunk = k_for(k, zero, k_index(k, GPU_TILE_K / CHUNK), 2, KFOR_SERIAL, "chunk");
    load_fragment(m, a, x, k_expr(k, "$ * 16 + $", warp, own_row(m)), chunk, true);
    const KRef column = k_for(k, zero, k_index(k, m->own), 16, KFOR_UNROLL, "column");
    load_fragment(m, b, w, k_add(k, own_column(m), column), chunk, false);
    const KRef to = k_expr(k, "$ / 8 * 4", column);
    k_device(k, mma, m->sums, to, a, zero, b, zero);
    k_device(k, mma, m->sums, k_expr(k, "$ + 4", to), a, zero, b, k_index(k, 2));
    k_ends(k, 2);
}

static KRef has_wgmma(const Mma *m)
{
    return k_call(m->t.l->k, KDEV_has_wgmma, 0, 0, 0);
}

// Until the product before has ended.
static void finish(const Mma *m)
{
    Kernel *k = m->t.l->k;
    k_if(k, has_wgmma(m));
    k_device_with(k, KDEV_wgmma_wait, 0);
    k_end(k);
}

static void multiply_turn(const Mma *m, int64_t turn, KRef is_later)
{
    Kernel *k = m->t.l->k;
    const KRef x = address(m, turn % 2 * x_bytes(m)), w = w_slot(m, turn);
    k_if(k, has_wgmma(m));
    multiply_wgmma(m, x, w, is_later);
    k_else(k);
    multiply_mma(m, x, w);
    k_end(k);
}

// --- the kernel ----------------------------------------------------------------------------------

// Emits one turn for the blocks in turns * period + part, and the copies for the next ones.
static void emit_turn(const Mma *m, KRef turns, int64_t part, int64_t turn)
{
    Kernel *k = m->t.l->k;
    const int64_t steps = m->t.p->inner / GPU_TILE_K, raws = m->t.p->inner / m->raw;
    const KRef raw = k_expr(k, "$ * # + #", turns, m->period, part);
    const KRef next = k_expr(k, "$ * # + #", raw, m->turns, turn + 1);
    const bool is_first = part == 0 && turn == 0, has_two = m->slots > 1;
    if (!has_two) {
        finish(m);
        k_barrier(k);
    }
    decode_turn(m, raw_slot(m, raw), part, turn);
    if (has_two)
        finish(m);
    k_device_with(k, KDEV_cp_async_wait, turn == 1);
    k_device_with(k, KDEV_proxy_fence, 0);
    k_barrier(k);
    multiply_turn(m, turn, is_first ? k_expr(k, "0 < $", turns) : k_integer(k, DTYPE_bool, 1));
    k_if(k, k_expr(k, "$ < #", next, steps));
    copy_x(m, next, (turn + 1) % 2);
    k_end(k);
    k_device_with(k, KDEV_cp_async_commit, 0);
    if (turn == 0) { // these may take two turns
        const bool is_last = part + 1 == m->period;
        k_if(k, k_expr(k, "$ + 1 < #", raw, raws));
        copy_raw(m, is_last ? k_expr(k, "$ + 1", turns) : turns, is_last ? 0 : part + 1);
        k_end(k);
        k_device_with(k, KDEV_cp_async_commit, 0);
    }
}

static void clear_sums(const Mma *m)
{
    Kernel *k = m->t.l->k;
    const KRef i = k_loop(k, m->own / 2, KFOR_UNROLL, "i");
    k_astore(k, m->sums, i, k_number(k, DTYPE_f32, 0));
    k_end(k);
}

static void store_sums(const Mma *m)
{
    Kernel *k = m->t.l->k;
    const KRef warp = k_expr(k, "$ / 32 % 4", m->t.thread);
    const KRef row = k_expr(k, "$ + ($ * 16 + $ / 4)", own_row(m), warp, m->t.lane);
    const KRef lane = k_expr(k, "$ % 4 * 2", m->t.lane);
    gpu_store_fours(&m->e, &m->at, &(GpuFours){row, own_column(m), lane, m->sums, k_index(k, 0), m->own / 8});
}

static void emit_tile(Mma *m)
{
    Team *t = &m->t;
    Kernel *k = t->l->k;
    const int64_t raws = t->p->inner / m->raw;
    m->e.shared = k_call(k, KDEV_shared_begin, 0, 0, 0);
    team_begin(t);
    if (!t->is_early)
        k_wait(k);
    copy_raw(m, k_index(k, 0), 0);
    if (t->is_early)
        k_wait(k);
    team_load_values(t);
    find_rows(m);
    copy_x(m, k_index(k, 0), 0);
    m->sums = k_array(k, DTYPE_f32, m->own / 2);
    clear_sums(m);
    k_device_with(k, KDEV_cp_async_commit, 0);
    k_device_with(k, KDEV_cp_async_wait, 0);
    k_barrier(k);
    const KRef turns = k_loop(k, raws / m->period, KFOR_SERIAL, "turns");
    for (int64_t part = 0; part < m->period; part++)
        for (int64_t turn = 0; turn < m->turns; turn++)
            emit_turn(m, turns, part, turn);
    k_end(k);
    finish(m);
    store_sums(m);
}

// --- the shape -----------------------------------------------------------------------------------

static Point point_of(const GpuMatmul *p, const KRef *batch, KRef row, KRef column)
{
    const BlockProduct *b = p->ctx;
    Point at = {.lanes = 1, .count = 1};
    (void)batch;
    block_product_row(p->l, b, row, at.idx);
    at.idx[b->d.rank - 1] = column;
    return at;
}

// The result as a matrix, of which only the steps between columns count, and whether those between rows are
// even.
static GpuMatrix result_of(const Lower *l, const BlockProduct *p)
{
    GpuMatrix c = {.id = l->root, .loc = lower_loc(l, l->root), .outer = 2};
    const Access *a = domain_access(&p->d, l->root, SPACE_IN);
    rlx_assert(a != NULL);
    c.k = a->stride[p->d.rank - 1];
    for (uint32_t axis = 0; axis + 1 < p->d.rank; axis++)
        if (p->d.extent[axis] > 1 && a->stride[axis] % 2 != 0)
            c.outer = 1;
    return c;
}

static bool find_tile(Mma *m)
{
    const BlockProduct *p = m->t.p;
    const int64_t bytes = raw_elements_bytes(m), values = p->f->values ? ALIGN : 0;
    m->period = bytes % WORD == 0 ? 1 : 2;
    m->has_lines = bytes % (LINE * WORD) == 0 && m->t.row_words % LINE == 0;
    m->words = (bytes + WORD - 1) / WORD;
    m->pitch = m->words % 8 == 0 ? m->words + LINE : m->words;
    m->rows = p->rows > WARP_ROWS ? 2 * WARP_ROWS : WARP_ROWS;
    for (m->columns = WIDE; m->columns >= NARROW; m->columns /= 2) {
        m->across = m->rows > WARP_ROWS ? 1 : 2;
        m->own = m->columns / m->across;
        for (m->slots = 2; m->slots > 0; m->slots--)
            if (all_bytes(m) + values <= GPU_LEAST_SHARED)
                return bytes * m->period % WORD == 0;
    }
    return false;
}

// Elements of weights are rounded, which plain sums exclude.
static bool fits(Lower *l, BlockProduct *p)
{
    const Team t = {.l = l, .p = p};
    return l->caps->has_mma && l->pass->options->accuracy >= BLOCK_DIGITS_ERROR &&
           k_is_half(lower_node(l, p->x)->dtype) && !p->d.is_exact && p->index == 0 && p->rows >= MIN_ROWS &&
           p->columns >= NARROW && p->inner > 0 && team_x_width(l, p) == CHUNK && team_has_words(&t) &&
           p->f->group % OWN == 0;
}

// Whole blocks, of which every other step goes to the same slot.
static int64_t raw_elements(const BlockFormat *f)
{
    int64_t raw = RAW;
    while (raw <= MOST_RAW && raw % f->elements != 0)
        raw += 2 * GPU_TILE_K;
    return raw;
}

bool block_mma_product(Lower *l, BlockProduct *p)
{
    Kernel *k = l->k;
    const int64_t row_words = p->inner / p->f->elements * p->f->bytes / WORD;
    Mma m = {.t = {.l = l, .p = p, .f = p->f, .row_words = row_words}, .raw = raw_elements(p->f)};
    m.turns = m.raw / GPU_TILE_K;
    if (!fits(l, p) || m.raw > MOST_RAW || p->inner % m.raw != 0 || !find_tile(&m))
        return false;
    m.product = (GpuMatmul){.l = l,
                            .m = p->rows,
                            .n = p->columns,
                            .k = p->inner,
                            .a = {.id = p->x},
                            .c = result_of(l, p),
                            .d = &p->d,
                            .point = point_of,
                            .ctx = p};
    m.e = (GpuEmit){.p = &m.product,
                    .l = l,
                    .k = k,
                    .tile = {.columns = (int16_t)m.columns, .pair = 1},
                    .rows = m.rows,
                    .columns = m.columns};
    team_add_params(&m.t);
    k_set_group(k, THREADS);
    k_use_shared(k, (uint32_t)all_bytes(&m) + (p->f->values ? ALIGN : 0));
    m.t.values = p->f->values ? k_shared(k, DTYPE_f32, 16) : 0;
    const int64_t m_tiles = ceil_div(p->rows, m.rows), n_tiles = ceil_div(p->columns, m.columns);
    const KRef tile = k_for_group(k, m_tiles * n_tiles, "tile");
    m.at.m = k_expr(k, "$ % # * #", tile, m_tiles, m.rows);
    m.at.n = k_expr(k, "$ / # * #", tile, m_tiles, m.columns);
    emit_tile(&m);
    k_end(k);
    return true;
}
