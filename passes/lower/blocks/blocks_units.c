// SPDX-License-Identifier: Apache-2.0
// Products of one row with blocks of 256 elements (Q4_K) on matrix units of bytes (mma.sync). Each processor
// has one group of threads, which takes about half of its shared memory, so that the groups of the next such
// kernel have the other half, one each, and fill it while this one still multiplies. A group has some tiles
// of 16 columns; a warp takes a tile of one matrix, or a part of its k, whose blocks come to a ring of its
// own by asynchronous copies. x is rounded to digits once (blocks_digits.c).
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
    WARPS = 16, // of a group
    MIN_SLOTS = 2,
    MAX_SLOTS = 6,
    MATRICES = 2,
    ALIGN = 1024,      // of shared_begin
    B_IS_SIGNED = 2    // kind of KDEV_mma_bytes
};

typedef struct Units {
    Team t;               // threads: of the group
    int64_t blocks, each; // of a row, of a warp and tile
    int64_t parts, sets, matrices; // warps by part of k, matrix, tile
    int64_t tiles, rounds;         // of a group; each warp has a tile of a round
    int64_t slots, block_words;
    uint32_t w[MATRICES];
    KRef part, matrix, set, tile; // of the warp; the first tile of the group
    KRef quad, line;              // number of the thread among those of its row, and of that row
    KRef shared, partial;
    KRef x, head[2], words[2], a, sums; // arrays of a thread
    KRef step[HALVES], sum[HALVES];     // of the groups of the thread
    KRef acc[2];
} Units;

static int64_t slot_bytes(const Units *u)
{
    return COLUMNS * u->block_words * WORD;
}

static KRef slot_of(const Units *u, KRef item)
{
    Kernel *k = u->t.l->k;
    const KRef slot = k_expr(k, "$ * # + $ % #", u->t.team, u->slots, item, u->slots);
    return k_expr(k, "$ * # + $", slot, slot_bytes(u), u->shared);
}

// Opens a block of the kernel: has the warp such a block of its tile of this round?
static void open_item(const Units *u, KRef round, KRef block)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const KRef own = k_expr(k, "$ * # + $", round, u->sets, u->set);
    const KRef tile = k_expr(k, "$ + $", u->tile, own);
    const int64_t all = ceil_div(t->p->columns, COLUMNS);
    const KRef is_tile = k_expr(k, "$ < # & $ < #", own, u->tiles, tile, all);
    const KRef number = k_expr(k, "$ * # + $", u->part, u->each, block);
    k_if(k, k_expr(k, "$ & $ < #", is_tile, number, u->blocks));
}

static KRef round_of(const Units *u, KRef item)
{
    return k_expr(u->t.l->k, "$ / #", item, u->each);
}

// --- copies --------------------------------------------------------------------------------------

// A warp's copies of a block of a tile; columns behind the last one are that one.
static void copy_lines(const Units *u, KRef item, KRef column, KRef first, uint32_t w)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const int64_t lines = u->block_words / LINE, all = COLUMNS * lines;
    const KRef to = slot_of(u, item);
    for (int64_t i = 0; i < all; i += TEAM) {
        const KRef line = k_expr(k, "$ + #", t->lane, i);
        KRef from = k_expr(k, "$ + $ / #", column, line, lines);
        if (t->p->columns % COLUMNS != 0)
            from = team_op(t, KOP_min, from, k_index(k, t->p->columns - 1));
        from = k_expr(k, "$ * # + $ % # * #", from, t->row_words, line, lines, LINE);
        const bool is_open = i + TEAM > all;
        if (is_open)
            k_if(k, team_op(t, KOP_lt, line, k_index(k, all)));
        k_device(k, KDEV_cp_async16, k_expr(k, "$ + $ * #", to, line, LINE * WORD),
                 k_address(k, w, k_add(k, first, from)), k_index(k, LINE * WORD));
        if (is_open)
            k_end(k);
    }
}

static void copy_item(const Units *u, KRef item)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const KRef round = round_of(u, item), block = k_expr(k, "$ % #", item, u->each);
    open_item(u, round, block);
    const KRef tile = k_expr(k, "$ * # + ($ + $)", round, u->sets, u->tile, u->set);
    const KRef column = k_expr(k, "$ * #", tile, COLUMNS);
    const KRef number = k_expr(k, "$ * # + $", u->part, u->each, block);
    const KRef first = k_expr(k, "$ * # + $", number, u->block_words, t->w_base);
    for (int64_t m = 0; m < u->matrices; m++) {
        if (u->matrices > 1)
            k_if(k, team_op(t, KOP_eq, u->matrix, k_index(k, m)));
        copy_lines(u, item, column, first, u->w[m]);
        if (u->matrices > 1)
            k_end(k);
    }
    k_end(k);
}

static int64_t items(const Units *u)
{
    return u->rounds * u->each;
}

static void copy_ahead(const Units *u)
{
    Kernel *k = u->t.l->k;
    for (int64_t i = 0; i < u->slots; i++) {
        if (i < items(u))
            copy_item(u, k_index(k, i));
        k_device_with(k, KDEV_cp_async_commit, 0);
    }
}

static void copy_next(const Units *u, KRef item)
{
    Kernel *k = u->t.l->k;
    if (items(u) > u->slots) {
        const KRef next = k_expr(k, "$ + #", item, u->slots);
        k_if(k, k_expr(k, "$ < #", next, items(u)));
        copy_item(u, next);
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
    const KRef number = k_expr(k, "$ * # + $", u->part, u->each, block);
    const KRef first = k_expr(k, "$ * #", number, QUAD * HALVES);
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
    const KRef begin = k_expr(k, "$ * # + $", u->line, u->block_words, at);
    for (int64_t n = 0; n < lines; n++) {
        const KRef word = k_expr(k, "$ + #", begin, i * COLUMNS / 2 * u->block_words + n * LINE);
        k_device(k, KDEV_shared_get_words, to, k_index(k, n * LINE), k_expr(k, "$ * # + $", word, WORD, slot));
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

static void multiply_block(Units *u, KRef item)
{
    Team *t = &u->t;
    Kernel *k = t->l->k;
    const int64_t head = t->f->q.low.at / WORD;
    const KRef slot = slot_of(u, item);
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

static void add_blocks(Units *u, KRef round)
{
    Kernel *k = u->t.l->k;
    const KRef block = k_loop(k, u->each, KFOR_SERIAL, "block");
    const KRef item = k_expr(k, "$ * # + $", round, u->each, block);
    k_device_with(k, KDEV_cp_async_wait, u->slots - 1);
    k_device_with(k, KDEV_warp_sync, 0);
    open_item(u, round, block);
    read_x(u, block);
    multiply_block(u, item);
    add_block(u);
    k_end(k);
    k_device_with(k, KDEV_warp_sync, 0);
    copy_next(u, item);
    k_end(k);
}

// The sums of a round lie in the half of `partial` that those of the round before do not.
static int64_t round_sums(const Units *u)
{
    return u->matrices * u->sets * COLUMNS * u->parts;
}

static KRef sums_begin(const Units *u, KRef round)
{
    return k_expr(u->t.l->k, "$ % 2 * #", round, round_sums(u));
}

// The first two of the threads of a row store the sums of a column each.
static void put_sums(const Units *u, KRef round)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const KRef low = k_team(k, KOP_add, k_get(k, u->acc[0]), QUAD);
    const KRef high = k_team(k, KOP_add, k_get(k, u->acc[1]), QUAD);
    k_if(k, team_op(t, KOP_lt, u->quad, k_index(k, 2)));
    const KRef sum = k_select(k, team_op(t, KOP_eq, u->quad, k_index(k, 0)), low, high);
    const KRef column = k_expr(k, "$ * # + ($ * # + ($ * # + $))", u->matrix, u->sets * COLUMNS, u->set, COLUMNS,
                               u->quad, COLUMNS / 2, u->line);
    const KRef at = k_expr(k, "$ * # + ($ + $)", column, u->parts, u->part, sums_begin(u, round));
    k_astore(k, u->partial, at, sum);
    k_end(k);
}

static void store_round(Units *u, KRef round, KRef row, KRef is_some)
{
    Team *t = &u->t;
    Kernel *k = t->l->k;
    const KRef end = k_expr(k, "($ + #) * #", u->tile, u->tiles, COLUMNS);
    const TeamParts parts = {.sums = u->partial,
                             .matrices = u->matrices,
                             .columns = u->sets * COLUMNS,
                             .parts = u->parts,
                             .begin = sums_begin(u, round),
                             .end = team_op(t, KOP_min, end, k_index(k, t->p->columns))};
    t->column = k_expr(k, "($ * # + $) * #", round, u->sets, u->tile, COLUMNS);
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
    u->part = team_rem(t, t->team, u->parts);
    const KRef unit = team_div(t, t->team, u->parts);
    u->matrix = team_rem(t, unit, u->matrices);
    u->set = team_div(t, unit, u->matrices);
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
    const KRef round = k_loop(k, u->rounds, KFOR_SERIAL, "round");
    for (int64_t i = 0; i < 2; i++)
        k_set(k, u->acc[i], team_number(t, 0));
    add_blocks(u, round);
    put_sums(u, round);
    k_barrier(k);
    store_round(u, round, row, is_some);
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

// Tiles of all products of the same row, which may stand beside each other (passes/plan/beside.c).
static int64_t tiles_of_row(const Team *t)
{
    const Graph *g = t->l->g;
    int64_t tiles = 0;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (n->op == OP_block_matmul && n->src[0] == t->p->x)
            tiles += ceil_div(n->shape->dim[n->shape->rank - 1], COLUMNS);
    }
    return tiles != 0 ? tiles : ceil_div(t->p->columns, COLUMNS);
}

// Warps of a group: by tile and matrix first, then by parts of k.
static void find_warps(Units *u)
{
    Team *t = &u->t;
    u->tiles = ceil_div(ceil_div(tiles_of_row(t), t->l->caps->gpu->processors), u->matrices);
    u->rounds = ceil_div(u->tiles, WARPS / u->matrices);
    u->sets = ceil_div(u->tiles, u->rounds);
    u->parts = WARPS / (u->sets * u->matrices);
    u->parts = u->parts > u->blocks ? u->blocks : u->parts;
    u->each = ceil_div(u->blocks, u->parts);
    u->parts = ceil_div(u->blocks, u->each);
    t->threads = u->sets * u->matrices * u->parts * TEAM;
}

// About half of a processor's shared memory, what arrays take included.
static bool find_slots(Units *u)
{
    const Team *t = &u->t;
    const GpuMachine *gpu = t->l->caps->gpu;
    const int64_t arrays = (team_x_words(t) + 2 * round_sums(u)) * WORD;
    const int64_t half = gpu->processor_shared / 2 - 2 * ALIGN, whole = gpu->group_shared - ALIGN;
    const int64_t most = half < whole ? half : whole;
    if (arrays > (int64_t)t->l->caps->shared_bytes)
        return false;
    u->slots = (most - arrays) / (t->threads / TEAM * slot_bytes(u));
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
    u->block_words = t->f->bytes / WORD;
    find_warps(u);
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
    k_use_shared(k, (uint32_t)(t->threads / TEAM * u.slots * slot_bytes(&u) + ALIGN));
    t->xs = k_shared(k, DTYPE_i32, team_x_words(t));
    u.partial = k_shared(k, DTYPE_f32, 2 * round_sums(&u));
    const KRef row = k_for_group(k, rows, "row");
    const int64_t groups = ceil_div(ceil_div(t->p->columns, COLUMNS), u.tiles);
    u.tile = k_expr(k, "$ * #", k_for_group(k, groups, "group"), u.tiles);
    t->column = k_expr(k, "$ * #", u.tile, COLUMNS);
    emit_group(&u, row);
    k_ends(k, 2);
    return true;
}
