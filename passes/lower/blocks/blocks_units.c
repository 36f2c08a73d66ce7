// SPDX-License-Identifier: Apache-2.0
// Products of one row with blocks of 256 elements (Q4_K) on matrix units of bytes (mma.sync). Each processor
// has one group of threads, which takes most of its shared memory: groups of the next kernel come when it has
// ended, one to each processor again. A group has some tiles of 16 columns, whose rows lie behind each
// other; 16 blocks of each row come at a time to a ring of shared memory, by asynchronous copies of all
// threads, and each warp has one of these blocks. x is rounded to digits once (blocks_digits.c).
//
// The rows of a product of units are the columns of a tile, and its columns are the groups of 32 elements
// of a block: the four threads that share a row give two groups each, in the low and in the high half of the
// same bytes, and x stands in the column of its group only, so that sums of groups stay apart. They are
// exact. The high halves are multiplied where they stand, 16 times as large.
// Accumulation: of each group the exact sum, times its step and scale, and the sum of x times its min, in
// f32, in rising k; the four threads of a column pairwise; then warps in rising k.
#include "ir/kernel/device.h"
#include "ir/machine/machine.h"
#include "passes/lower/blocks/blocks_team.h"
#include "passes/lower/gpu/gpu_matmul.h"

enum {
    COLUMNS = 16, // of a tile, rows of a product of units
    QUAD = 4,     // threads that share a row of it
    LINE = 4,     // words of a copy
    LINES = 2,    // of a thread and column
    HALVES = 2,   // of a byte
    HALF_BITS = 4,
    SUMS = 4, // words of a thread: rows and columns are two each
    STEPS = PIECE / WORD / 2,
    WARPS = 16, // of a group, along k
    MIN_SLOTS = 3,
    MAX_SLOTS = 6,
    PAD = 4, // words between rows, so that threads read without conflicts
    MATRICES = 2,
    ALIGN = 1024,      // of shared_begin
    B_IS_SIGNED = 2    // kind of KDEV_mma_bytes
};

typedef struct Units {
    Team t;               // threads: of the group
    int64_t blocks, parts, chunks; // of a row; that come at a time; how often they come
    int64_t tiles, matrices;       // of a group
    int64_t slots, block_words, pitch; // of the ring; from row to row
    uint32_t w[MATRICES];
    KRef tile;                    // the first one of the group
    KRef quad, line;              // number of the thread among those of its row, and of that row
    KRef shared, partial;
    KRef x, head[2], words[2], a, sums; // arrays of a thread
    KRef step[HALVES], sum[HALVES];     // of the groups of the thread
    KRef acc[2];
} Units;

static int64_t slot_bytes(const Units *u)
{
    return COLUMNS * u->pitch * WORD;
}

static KRef slot_of(const Units *u, KRef stage)
{
    return k_expr(u->t.l->k, "$ % # * # + $", stage, u->slots, slot_bytes(u), u->shared);
}

static int64_t stages(const Units *u)
{
    return u->tiles * u->matrices * u->chunks;
}

// The number of the warp's block of a row.
static KRef block_of(const Units *u, KRef chunk)
{
    return k_expr(u->t.l->k, "$ * # + $", chunk, u->parts, u->t.team);
}

// Is there such a tile? 0: always.
static KRef has_tile(const Units *u, KRef own)
{
    const int64_t all = ceil_div(u->t.p->columns, COLUMNS);
    return all % u->tiles == 0 ? 0 : k_expr(u->t.l->k, "$ + $ < #", u->tile, own, all);
}

// --- copies --------------------------------------------------------------------------------------

// Lines of a chunk of 16 rows from column `column` on; those behind the last column are that one.
static void copy_lines(const Units *u, KRef stage, KRef column, KRef chunk, uint32_t w)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const int64_t lines = u->parts * u->block_words / LINE, all = COLUMNS * lines;
    const KRef to = slot_of(u, stage);
    for (int64_t i = 0; i < all; i += t->threads) {
        const KRef line = k_expr(k, "$ + #", t->thread, i);
        const KRef row = k_expr(k, "$ / #", line, lines), place = k_expr(k, "$ % # * #", line, lines, LINE);
        KRef from = k_add(k, column, row);
        if (t->p->columns % COLUMNS != 0)
            from = team_op(t, KOP_min, from, k_index(k, t->p->columns - 1));
        const KRef at = k_expr(k, "$ * # + $", chunk, u->parts * u->block_words, place);
        KRef is_in = i + t->threads > all ? team_op(t, KOP_lt, line, k_index(k, all)) : 0;
        if (u->blocks % u->parts != 0) {
            const KRef in_row = team_op(t, KOP_lt, at, k_index(k, t->row_words));
            is_in = is_in ? team_op(t, KOP_and, is_in, in_row) : in_row;
        }
        if (is_in)
            k_if(k, is_in);
        k_device(k, KDEV_cp_async16, k_expr(k, "($ * # + $) * # + $", row, u->pitch, place, WORD, to),
                 k_address(k, w, k_expr(k, "$ * # + ($ + $)", from, t->row_words, at, t->w_base)),
                 k_index(k, LINE * WORD));
        if (is_in)
            k_end(k);
    }
}

static void copy_stage(const Units *u, KRef stage)
{
    Kernel *k = u->t.l->k;
    const KRef own = k_expr(k, "$ / #", stage, u->matrices * u->chunks), is_tile = has_tile(u, own);
    const KRef matrix = k_expr(k, "$ / # % #", stage, u->chunks, u->matrices);
    const KRef column = k_expr(k, "($ + $) * #", u->tile, own, COLUMNS);
    const KRef chunk = k_expr(k, "$ % #", stage, u->chunks);
    if (is_tile)
        k_if(k, is_tile);
    for (int64_t m = 0; m < u->matrices; m++) {
        if (u->matrices > 1)
            k_if(k, team_op(&u->t, KOP_eq, matrix, k_index(k, m)));
        copy_lines(u, stage, column, chunk, u->w[m]);
        if (u->matrices > 1)
            k_end(k);
    }
    if (is_tile)
        k_end(k);
}

static void copy_ahead(const Units *u)
{
    Kernel *k = u->t.l->k;
    for (int64_t i = 0; i + 1 < u->slots; i++) {
        if (i < stages(u))
            copy_stage(u, k_index(k, i));
        k_device_with(k, KDEV_cp_async_commit, 0);
    }
}

static void copy_next(const Units *u, KRef stage)
{
    Kernel *k = u->t.l->k;
    if (stages(u) >= u->slots) {
        const KRef next = k_expr(k, "$ + #", stage, u->slots - 1);
        k_if(k, k_expr(k, "$ < #", next, stages(u)));
        copy_stage(u, next);
        k_end(k);
    }
    k_device_with(k, KDEV_cp_async_commit, 0);
}

// --- products ------------------------------------------------------------------------------------

// Digits of the column of the thread in a product of units, 0 where its elements are of other groups.
static void read_x(Units *u, KRef block)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const int64_t n = t->digits * PIECE / WORD;
    const KRef first = k_expr(k, "$ * #", block, QUAD * HALVES);
    const KRef is_own = team_op(t, KOP_eq, team_div(t, u->line, HALVES), u->quad);
    const KRef from = team_unit(t, k_add(k, first, u->line));
    for (int64_t i = 0; i < n; i++) {
        const KRef word = k_aload(k, t->xs, k_expr(k, "$ + #", from, i), 1);
        k_astore(k, u->x, k_index(k, i),
                 k_bitcast(k, k_select(k, is_own, word, k_integer(k, DTYPE_i32, 0)), DTYPE_u32));
    }
    for (int64_t h = 0; h < HALVES; h++) {
        const KRef unit = team_unit(t, k_expr(k, "$ * # + ($ + #)", u->quad, HALVES, first, h));
        u->step[h] = k_bitcast(k, k_aload(k, t->xs, k_expr(k, "$ + #", unit, n), 1), DTYPE_f32);
        u->sum[h] = k_bitcast(k, k_aload(k, t->xs, k_expr(k, "$ + #", unit, n + 1), 1), DTYPE_f32);
    }
}

// Words of the block of column line (+ 8) from word `at` on.
static void read_lines(const Units *u, KRef slot, int64_t i, KRef at, int64_t lines, KRef to)
{
    Kernel *k = u->t.l->k;
    const KRef own = k_expr(k, "$ * # + $", u->t.team, u->block_words, at);
    const KRef begin = k_expr(k, "$ * # + $", u->line, u->pitch, own);
    for (int64_t n = 0; n < lines; n++) {
        const KRef word = k_expr(k, "$ + #", begin, i * COLUMNS / 2 * u->pitch + n * LINE);
        k_device(k, KDEV_shared_get_words, to, k_index(k, n * LINE),
                 k_expr(k, "$ * # + $", word, WORD, slot));
    }
}

static void multiply_step(const Units *u, int64_t step)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    for (int64_t h = 0; h < HALVES; h++) {
        const KRef mask = k_integer(k, DTYPE_u32, h == 0 ? 0x0f0f0f0f : 0xf0f0f0f0);
        for (int64_t i = 0; i < SUMS; i++) {
            const KRef word = k_aload(k, u->words[i % 2], k_index(k, step * 2 + i / 2), 1);
            k_astore(k, u->a, k_index(k, i), team_op(t, KOP_and, word, mask));
        }
        for (int64_t d = 0; d < t->digits; d++)
            k_device_list(k, KDEV_mma_bytes, B_IS_SIGNED,
                          (const KRef[KDEV_MAX_OPERANDS + 1]){
                              u->sums, k_index(k, (h * t->digits + d) * SUMS), u->a, k_index(k, 0), u->x,
                              k_index(k, d * PIECE / WORD + step * 2)});
    }
}

static void multiply_block(Units *u, KRef stage)
{
    Team *t = &u->t;
    Kernel *k = t->l->k;
    const int64_t head = t->f->q.low.at / WORD;
    const KRef slot = slot_of(u, stage);
    const KRef at = k_expr(k, "$ * # + #", u->quad, LINES * LINE, head);
    for (int64_t i = 0; i < 2; i++) {
        read_lines(u, slot, i, k_index(k, 0), head / LINE, u->head[i]);
        read_lines(u, slot, i, at, LINES, u->words[i]);
    }
    for (int64_t i = 0; i < HALVES * t->digits * SUMS; i++)
        k_astore(k, u->sums, k_index(k, i), k_integer(k, DTYPE_u32, 0));
    for (int64_t step = 0; step < STEPS; step++)
        multiply_step(u, step);
}

// The sum of half h of column i, of all digits.
static KRef whole_sum(const Units *u, int64_t i, int64_t h)
{
    Kernel *k = u->t.l->k;
    KRef all = 0;
    for (int64_t d = 0; d < u->t.digits; d++) {
        const KRef at = k_index(k, (h * u->t.digits + d) * SUMS + i * 2 + h);
        const KRef sum = k_cast(k, k_bitcast(k, k_aload(k, u->sums, at, 1), DTYPE_i32), DTYPE_f32);
        all = d == 0 ? sum : k_fma(k, all, team_number(&u->t, 256), sum);
    }
    return all;
}

static void add_block(Units *u)
{
    Kernel *k = u->t.l->k;
    const Piece piece = {.first = k_expr(k, "$ * #", u->quad, HALVES * PIECE)};
    for (int64_t i = 0; i < 2; i++) {
        Team head = u->t;
        head.tile = u->head[i];
        KRef acc = k_get(k, u->acc[i]);
        for (int64_t h = 0; h < HALVES; h++) {
            KRef scale = 0, min = 0;
            team_step_numbers(&head, &piece, k_index(k, 0), h * PIECE, &scale, &min);
            const KRef step = team_op(&head, KOP_mul, u->step[h], team_number(&head, h == 0 ? 1 : 0.0625));
            acc = k_fma(k, whole_sum(u, i, h), team_op(&head, KOP_mul, scale, step), acc);
            if (min)
                acc = k_fma(k, u->sum[h], min, acc);
        }
        k_set(k, u->acc[i], acc);
    }
}

static void add_stage(Units *u, KRef stage, KRef is_tile, KRef chunk)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const KRef block = block_of(u, chunk);
    KRef is_in = u->blocks % u->parts != 0 ? team_op(t, KOP_lt, block, k_index(k, u->blocks)) : 0;
    is_in = is_in && is_tile ? team_op(t, KOP_and, is_in, is_tile) : is_in ? is_in : is_tile;
    k_device_with(k, KDEV_cp_async_wait, u->slots - 2);
    k_barrier(k);
    copy_next(u, stage);
    if (is_in)
        k_if(k, is_in);
    read_x(u, block);
    multiply_block(u, stage);
    add_block(u);
    if (is_in)
        k_end(k);
}

// The first two of the threads of a row store the sums of a column each.
static void put_sums(const Units *u, int64_t matrix)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const KRef low = k_team(k, KOP_add, k_get(k, u->acc[0]), QUAD);
    const KRef high = k_team(k, KOP_add, k_get(k, u->acc[1]), QUAD);
    k_if(k, team_op(t, KOP_lt, u->quad, k_index(k, 2)));
    const KRef sum = k_select(k, team_op(t, KOP_eq, u->quad, k_index(k, 0)), low, high);
    const KRef column = k_expr(k, "$ * # + ($ + #)", u->quad, COLUMNS / 2, u->line, matrix * COLUMNS);
    k_astore(k, u->partial, k_expr(k, "$ * # + $", column, u->parts, t->team), sum);
    k_end(k);
}

// All matrices of a tile. The sums are read before the next ones are put: there is a barrier for each stage.
static void add_tile(Units *u, KRef own, KRef row, KRef is_some)
{
    Team *t = &u->t;
    Kernel *k = t->l->k;
    const KRef is_tile = has_tile(u, own);
    for (int64_t m = 0; m < u->matrices; m++) {
        for (int64_t i = 0; i < 2; i++)
            k_set(k, u->acc[i], team_number(t, 0));
        const KRef chunk = k_loop(k, u->chunks, KFOR_SERIAL, "chunk");
        const KRef first = k_expr(k, "($ * # + #) * #", own, u->matrices, m, u->chunks);
        add_stage(u, k_add(k, first, chunk), is_tile, chunk);
        k_end(k);
        put_sums(u, m);
    }
    k_barrier(k);
    t->column = k_expr(k, "($ + $) * #", u->tile, own, COLUMNS);
    const TeamParts parts = {.sums = u->partial,
                             .matrices = u->matrices,
                             .columns = COLUMNS,
                             .parts = u->parts};
    team_store_parts(t, &parts, row, is_some);
}

// --- the kernel ----------------------------------------------------------------------------------

static void declare(Units *u)
{
    Team *t = &u->t;
    Kernel *k = t->l->k;
    u->shared = k_call(k, KDEV_shared_begin, 0, 0, 0);
    u->quad = team_rem(t, t->lane, QUAD);
    u->line = team_div(t, t->lane, QUAD);
    t->held_x = k_array(k, (int)k->params.data[t->x].dtype, team_held_elements(t));
    u->x = k_array(k, DTYPE_u32, t->digits * PIECE / WORD);
    u->a = k_array(k, DTYPE_u32, SUMS);
    u->sums = k_array(k, DTYPE_u32, HALVES * t->digits * SUMS);
    for (int64_t i = 0; i < 2; i++) {
        u->head[i] = k_array(k, DTYPE_u32, t->f->q.low.at / WORD);
        u->words[i] = k_array(k, DTYPE_u32, LINES * LINE);
        u->acc[i] = k_var(k, team_number(t, 0), "acc");
    }
}

static void emit_group(Units *u, KRef row)
{
    Team *t = &u->t;
    Kernel *k = t->l->k;
    team_begin(t);
    if (!t->is_early)
        k_wait(k);
    const KRef is_some = team_find_operands(t, row);
    declare(u);
    copy_ahead(u);
    if (t->is_early)
        k_wait(k);
    team_fetch_digits(t, k_index(k, 0));
    team_store_digits(t, k_index(k, 0));
    k_barrier(k);
    add_tile(u, k_loop(k, u->tiles, KFOR_SERIAL, "tile"), row, is_some);
    k_end(k);
}

// Blocks whose groups are the halves of bytes, in 16 bytes each, and that a warp reads without conflicts.
static bool has_halves(const BlockFormat *f)
{
    return f->q.low.bits == HALF_BITS && f->q.high.bits == 0 && f->q.low.run == PIECE && f->group == PIECE &&
           f->elements == QUAD * HALVES * PIECE && f->q.bias == 0 && f->q.flip == 0 && f->pitch == 0 &&
           f->bytes % (LINE * WORD) == 0 && f->q.low.at % (LINE * WORD) == 0 &&
           f->bytes / (LINE * WORD) % 2 != 0;
}

// Most of a processor's shared memory, what arrays take included.
static bool find_slots(Units *u)
{
    const Team *t = &u->t;
    const int64_t arrays = (team_x_words(t) + u->matrices * COLUMNS * u->parts) * WORD;
    const int64_t most = (int64_t)t->l->caps->gpu->group_shared - 2 * ALIGN;
    if (arrays > (int64_t)t->l->caps->shared_bytes)
        return false;
    u->slots = (most - arrays) / slot_bytes(u);
    u->slots = u->slots > MAX_SLOTS ? MAX_SLOTS : u->slots;
    return u->slots >= MIN_SLOTS;
}

static bool find_units(Units *u)
{
    Team *t = &u->t;
    if (!t->l->caps->has_mma || !has_halves(t->f) || t->row_words % LINE != 0 || !team_can_digits(t))
        return false;
    t->has_digits = true;
    t->digits = team_digits(t);
    t->chunk = t->p->inner;
    u->blocks = t->p->inner / t->f->elements;
    if (u->blocks < 2) // there is nothing that warps could share
        return false;
    u->block_words = t->f->bytes / WORD;
    u->parts = u->blocks < WARPS ? u->blocks : WARPS;
    u->chunks = ceil_div(u->blocks, u->parts);
    u->pitch = u->parts * u->block_words + (u->parts % 2 == 0 ? PAD : 0);
    t->threads = u->parts * TEAM;
    u->tiles = ceil_div(ceil_div(block_row_tiles(t, COLUMNS), t->l->caps->gpu->processors), u->matrices);
    return find_slots(u);
}

bool block_units_take(Team *shape)
{
    rlx_assert(shape->p != NULL && shape->row_words > 0);
    Units u = {.t = *shape, .matrices = MATRICES};
    return find_units(&u);
}

bool block_units_product(const Team *shape)
{
    rlx_assert(shape->l->caps->is_gpu && shape->p != NULL);
    Units u = {.t = *shape, .matrices = shape->p->other != 0 ? MATRICES : 1};
    Team *t = &u.t;
    Lower *l = t->l;
    Kernel *k = l->k;
    if (!find_units(&u))
        return false;
    const int64_t rows = shape_numel(lower_node(l, l->anchor)->shape) / t->p->columns;
    team_add_params(t);
    u.w[0] = t->w;
    u.w[1] = u.matrices > 1 ? team_weight(t, t->p->other_w) : 0;
    k_set_group(k, (uint32_t)t->threads);
    k_use_shared(k, (uint32_t)(u.slots * slot_bytes(&u) + ALIGN));
    t->xs = k_shared(k, DTYPE_i32, team_x_words(t));
    u.partial = k_shared(k, DTYPE_f32, u.matrices * COLUMNS * u.parts);
    const KRef row = k_for_group(k, rows, "row");
    const int64_t groups = ceil_div(ceil_div(t->p->columns, COLUMNS), u.tiles);
    u.tile = k_expr(k, "$ * #", k_for_group(k, groups, "group"), u.tiles);
    t->column = k_expr(k, "$ * #", u.tile, COLUMNS);
    emit_group(&u, row);
    k_ends(k, 2);
    return true;
}
