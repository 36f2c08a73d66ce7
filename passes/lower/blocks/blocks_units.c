// SPDX-License-Identifier: Apache-2.0
// Products of one row with blocks of 256 elements (Q4_K) on matrix units of bytes (mma.sync). A group has 16
// columns, whose rows of blocks come to shared memory by asynchronous copies, as many as fit before the
// kernel waits for those before it. Its warps share k: each takes some blocks of all columns, rounds the
// elements of x that it needs to digits (blocks_digits.c), and waits for no other warp until its sums are
// whole.
//
// The rows of a product of units are the columns of the group, and its columns are the groups of 32 elements
// of a block: the four threads that share a row give two groups each, in the low and in the high half of the
// same bytes, and x stands in the column of its group only, so that sums of groups stay apart. They are
// exact. The high halves are multiplied where they stand, 16 times as large.
// Accumulation: of each group the exact sum, times its step and scale, and the sum of x times its min, in
// f32, in rising k; the four threads of a column pairwise; then warps in rising k.
#include "ir/kernel/device.h"
#include "passes/lower/blocks/blocks_team.h"
#include "passes/lower/gpu/gpu_matmul.h"

enum {
    COLUMNS = 16, // of a group, rows of a product of units
    QUAD = 4,     // threads that share a row of it
    LINE = 4,     // words of a copy
    LINES = 2,    // of a thread and column
    HALVES = 2,   // of a byte
    HALF_BITS = 4,
    SUMS = 4, // words of a thread: rows and columns are two each
    STEPS = PIECE / WORD / 2,
    FEW_BLOCKS = 2, // of a warp
    MAX_PARTS = 8,
    MIN_SLOTS = 2,
    MAX_SLOTS = 4,
    MATRICES = 2,
    B_IS_SIGNED = 2 // kind of KDEV_mma_bytes
};

typedef struct Units {
    Team t;               // of the group
    Team own;             // of a warp, for its digits
    int64_t blocks, each; // of a row, of a warp
    int64_t parts, slots, matrices, block_words;
    uint32_t w[MATRICES];
    KRef quad, line; // number of the thread among those of its row, and of that row
    KRef partial;
    KRef x;                                     // words of digits
    KRef step[HALVES], sum[HALVES];             // of the groups of the thread
    KRef head[MATRICES][2], sums[MATRICES];     // of both columns
    KRef acc[MATRICES][2];
} Units;

static KRef slot_of(const Units *u, KRef block, int64_t matrix)
{
    const int64_t words = COLUMNS * u->block_words, all = u->matrices * words;
    const KRef slot = k_expr(u->t.l->k, "$ * # + $ % #", u->t.team, u->slots, block, u->slots);
    return k_expr(u->t.l->k, "$ * # + #", slot, all, matrix * words);
}

static KRef number_of_block(const Units *u, KRef block)
{
    return k_expr(u->t.l->k, "$ * # + $", u->t.team, u->each, block);
}

// Opens a block of the kernel where a warp may have fewer blocks than others.
static bool open_block(const Units *u, KRef block)
{
    if (u->blocks % u->each == 0)
        return false;
    k_if(u->t.l->k, team_op(&u->t, KOP_lt, number_of_block(u, block), k_index(u->t.l->k, u->blocks)));
    return true;
}

// --- copies --------------------------------------------------------------------------------------

// A warp's copies of block number `block` of all columns; columns behind the last one are that one.
static void copy_matrix(const Units *u, KRef block, int64_t matrix)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    const int64_t lines = u->block_words / LINE, all = COLUMNS * lines;
    const KRef to = slot_of(u, block, matrix);
    const KRef first = k_expr(k, "$ * # + $", number_of_block(u, block), u->block_words, t->w_base);
    for (int64_t i = 0; i < all; i += TEAM) {
        const KRef line = k_expr(k, "$ + #", t->lane, i);
        KRef column = k_expr(k, "$ + $ / #", t->column, line, lines);
        if (t->p->columns % COLUMNS != 0)
            column = team_op(t, KOP_min, column, k_index(k, t->p->columns - 1));
        const KRef at = k_expr(k, "$ * # + $ % # * #", column, t->row_words, line, lines, LINE);
        const bool is_open = i + TEAM > all;
        if (is_open)
            k_if(k, team_op(t, KOP_lt, line, k_index(k, all)));
        k_device(k, KDEV_cp_async_words, t->tile, k_expr(k, "$ + $ * #", to, line, LINE),
                 k_address(k, u->w[matrix], k_add(k, first, at)), k_index(k, LINE * WORD));
        if (is_open)
            k_end(k);
    }
}

static void copy_block(const Units *u, KRef block)
{
    const bool is_open = open_block(u, block);
    for (int64_t m = 0; m < u->matrices; m++)
        copy_matrix(u, block, m);
    if (is_open)
        k_end(u->t.l->k);
}

static void copy_ahead(const Units *u)
{
    Kernel *k = u->t.l->k;
    for (int64_t i = 0; i < u->slots; i++) {
        if (i < u->each)
            copy_block(u, k_index(k, i));
        k_device_with(k, KDEV_cp_async_commit, 0);
    }
}

static void copy_next(const Units *u, KRef block)
{
    Kernel *k = u->t.l->k;
    if (u->each > u->slots) {
        const KRef next = k_expr(k, "$ + #", block, u->slots);
        k_if(k, k_expr(k, "$ < #", next, u->each));
        copy_block(u, next);
        k_end(k);
    }
    k_device_with(k, KDEV_cp_async_commit, 0);
}

// --- products ------------------------------------------------------------------------------------

// Digits of the column of the thread in a product of units, 0 where its elements are of other groups.
static void read_x(Units *u)
{
    Team *own = &u->own;
    Kernel *k = own->l->k;
    const KRef is_own = team_op(own, KOP_eq, team_div(own, u->line, HALVES), u->quad);
    const KRef from = team_unit(own, u->line);
    const int64_t n = own->digits * PIECE / WORD;
    for (int64_t i = 0; i < n; i++) {
        const KRef word = k_aload(k, own->xs, k_expr(k, "$ + #", from, i), 1);
        k_astore(k, u->x, k_index(k, i),
                 k_bitcast(k, k_select(k, is_own, word, k_integer(k, DTYPE_i32, 0)), DTYPE_u32));
    }
    for (int64_t h = 0; h < HALVES; h++) {
        const KRef unit = team_unit(own, k_expr(k, "$ * # + #", u->quad, HALVES, h));
        u->step[h] = k_bitcast(k, k_aload(k, own->xs, k_expr(k, "$ + #", unit, n), 1), DTYPE_f32);
        u->sum[h] = k_bitcast(k, k_aload(k, own->xs, k_expr(k, "$ + #", unit, n + 1), 1), DTYPE_f32);
    }
}

// Words of the block of column line (+ 8) from word `at` on.
static void read_lines(const Units *u, KRef slot, int64_t i, KRef at, int64_t lines, KRef to)
{
    Kernel *k = u->t.l->k;
    const KRef begin = k_expr(k, "$ + ($ * # + $)", slot, u->line, u->block_words, at);
    for (int64_t n = 0; n < lines; n++)
        k_device(k, KDEV_line_words, to, k_index(k, n * LINE), u->t.tile,
                 k_expr(k, "$ + #", begin, i * COLUMNS / 2 * u->block_words + n * LINE));
}

static void multiply_step(const Units *u, const KRef *words, int64_t matrix, int64_t step, KRef a)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    for (int64_t h = 0; h < HALVES; h++) {
        const KRef mask = k_integer(k, DTYPE_u32, h == 0 ? 0x0f0f0f0f : 0xf0f0f0f0);
        for (int64_t i = 0; i < SUMS; i++) {
            const KRef word = k_aload(k, words[i % 2], k_index(k, step * 2 + i / 2), 1);
            k_astore(k, a, k_index(k, i), team_op(t, KOP_and, word, mask));
        }
        for (int64_t d = 0; d < t->digits; d++)
            k_device_list(k, KDEV_mma_bytes, B_IS_SIGNED,
                          (const KRef[KDEV_MAX_OPERANDS + 1]){
                              u->sums[matrix], k_index(k, (h * t->digits + d) * SUMS), a, k_index(k, 0), u->x,
                              k_index(k, d * PIECE / WORD + step * 2)});
    }
}

static void multiply_matrix(Units *u, KRef block, int64_t matrix)
{
    Team *t = &u->t;
    Kernel *k = t->l->k;
    const int64_t head = t->f->q.low.at / WORD;
    const KRef slot = slot_of(u, block, matrix);
    const KRef at = k_expr(k, "$ * # + #", u->quad, LINES * LINE, head);
    KRef words[2];
    for (int64_t i = 0; i < 2; i++) {
        read_lines(u, slot, i, k_index(k, 0), head / LINE, u->head[matrix][i]);
        words[i] = k_array(k, DTYPE_u32, LINES * LINE);
        read_lines(u, slot, i, at, LINES, words[i]);
    }
    for (int64_t i = 0; i < HALVES * t->digits * SUMS; i++)
        k_astore(k, u->sums[matrix], k_index(k, i), k_integer(k, DTYPE_u32, 0));
    const KRef a = k_array(k, DTYPE_u32, SUMS);
    for (int64_t step = 0; step < STEPS; step++)
        multiply_step(u, words, matrix, step, a);
}

// The sum of half h of column i, of all digits.
static KRef whole_sum(const Units *u, int64_t matrix, int64_t i, int64_t h)
{
    Kernel *k = u->t.l->k;
    KRef all = 0;
    for (int64_t d = 0; d < u->t.digits; d++) {
        const KRef at = k_index(k, (h * u->t.digits + d) * SUMS + i * 2 + h);
        const KRef sum = k_cast(k, k_bitcast(k, k_aload(k, u->sums[matrix], at, 1), DTYPE_i32), DTYPE_f32);
        all = d == 0 ? sum : k_fma(k, all, team_number(&u->t, 256), sum);
    }
    return all;
}

static void add_matrix(Units *u, int64_t matrix)
{
    Kernel *k = u->t.l->k;
    const Piece piece = {.first = k_expr(k, "$ * #", u->quad, HALVES * PIECE)};
    for (int64_t i = 0; i < 2; i++) {
        Team head = u->t;
        head.tile = u->head[matrix][i];
        KRef acc = k_get(k, u->acc[matrix][i]);
        for (int64_t h = 0; h < HALVES; h++) {
            KRef scale = 0, min = 0;
            team_step_numbers(&head, &piece, k_index(k, 0), h * PIECE, &scale, &min);
            const KRef step = team_op(&head, KOP_mul, u->step[h], team_number(&head, h == 0 ? 1 : 0.0625));
            acc = k_fma(k, whole_sum(u, matrix, i, h), team_op(&head, KOP_mul, scale, step), acc);
            if (min)
                acc = k_fma(k, u->sum[h], min, acc);
        }
        k_set(k, u->acc[matrix][i], acc);
    }
}

static void add_blocks(Units *u)
{
    Team *own = &u->own;
    Kernel *k = own->l->k;
    const KRef block = k_loop(k, u->each, KFOR_SERIAL, "block");
    const bool is_open = open_block(u, block);
    team_store_digits(own, block);
    k_device_with(k, KDEV_cp_async_wait, u->slots - 1);
    k_device_with(k, KDEV_warp_sync, 0);
    const KRef next = k_expr(k, "$ + 1", block);
    k_if(k, k_expr(k, "$ < #", next, u->each));
    const bool is_next = open_block(u, next);
    team_fetch_digits(own, number_of_block(u, next));
    k_ends(k, is_next ? 2 : 1);
    read_x(u);
    for (int64_t m = 0; m < u->matrices; m++)
        multiply_matrix(u, block, m);
    k_device_with(k, KDEV_warp_sync, 0);
    copy_next(u, block);
    for (int64_t m = 0; m < u->matrices; m++)
        add_matrix(u, m);
    k_ends(k, is_open ? 2 : 1);
}

// --- the kernel ----------------------------------------------------------------------------------

static void declare(Units *u)
{
    Team *own = &u->own, *t = &u->t;
    Kernel *k = t->l->k;
    u->quad = team_rem(t, t->lane, QUAD);
    u->line = team_div(t, t->lane, QUAD);
    *own = *t;
    own->threads = TEAM;
    own->thread = t->lane;
    own->chunk = t->f->elements;
    own->xs_begin = k_expr(k, "$ * #", t->team, team_x_words(own));
    own->held_x = k_array(k, (int)k->params.data[t->x].dtype, team_held_elements(own));
    u->x = k_array(k, DTYPE_u32, t->digits * PIECE / WORD);
    for (int64_t m = 0; m < u->matrices; m++) {
        u->sums[m] = k_array(k, DTYPE_u32, HALVES * t->digits * SUMS);
        for (int64_t i = 0; i < 2; i++) {
            u->head[m][i] = k_array(k, DTYPE_u32, t->f->q.low.at / WORD);
            u->acc[m][i] = k_var(k, team_number(t, 0), "acc");
        }
    }
}

// The first two of the threads of a row store the sums of a column each.
static void put_sums(const Units *u)
{
    const Team *t = &u->t;
    Kernel *k = t->l->k;
    for (int64_t m = 0; m < u->matrices; m++) {
        const KRef low = k_team(k, KOP_add, k_get(k, u->acc[m][0]), QUAD);
        const KRef high = k_team(k, KOP_add, k_get(k, u->acc[m][1]), QUAD);
        k_if(k, team_op(t, KOP_lt, u->quad, k_index(k, 2)));
        const KRef sum = k_select(k, team_op(t, KOP_eq, u->quad, k_index(k, 0)), low, high);
        const KRef column = k_expr(k, "$ * # + ($ + #)", u->quad, COLUMNS / 2, u->line, m * COLUMNS);
        k_astore(k, u->partial, k_expr(k, "$ * # + $", column, u->parts, t->team), sum);
        k_end(k);
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
    const bool is_open = open_block(u, k_index(k, 0));
    team_fetch_digits(&u->own, number_of_block(u, k_index(k, 0)));
    if (is_open)
        k_end(k);
    add_blocks(u);
    put_sums(u);
    k_barrier(k);
    const TeamParts parts = {u->partial, u->matrices, COLUMNS, u->parts};
    team_store_parts(t, &parts, row, is_some);
}

// Blocks whose groups are the halves of bytes, in 16 bytes each, and that a warp reads without conflicts.
static bool has_halves(const BlockFormat *f)
{
    return f->q.low.bits == HALF_BITS && f->q.high.bits == 0 && f->q.low.run == PIECE && f->group == PIECE &&
           f->elements == QUAD * HALVES * PIECE && f->q.bias == 0 && f->q.flip == 0 && f->pitch == 0 &&
           f->bytes % (LINE * WORD) == 0 && f->q.low.at % (LINE * WORD) == 0 &&
           f->bytes / (LINE * WORD) % 2 != 0;
}

static bool find_units(Units *u)
{
    Team *t = &u->t;
    if (!t->l->caps->has_mma || !has_halves(t->f) || t->row_words % LINE != 0 || !team_can_digits(t))
        return false;
    t->has_digits = true;
    t->digits = team_digits(t);
    u->blocks = t->p->inner / t->f->elements;
    u->block_words = t->f->bytes / WORD;
    u->parts = ceil_div(u->blocks, FEW_BLOCKS);
    if (u->parts > MAX_PARTS / u->matrices)
        u->parts = MAX_PARTS / u->matrices;
    u->each = ceil_div(u->blocks, u->parts);
    u->parts = ceil_div(u->blocks, u->each);
    t->threads = u->parts * TEAM;
    Team own = *t;
    own.chunk = t->f->elements;
    const int64_t taken = u->parts * (team_x_words(&own) + u->matrices * COLUMNS) * WORD;
    const int64_t slot = u->parts * u->matrices * COLUMNS * u->block_words * WORD;
    u->slots = ((int64_t)t->l->caps->shared_bytes - taken) / slot;
    u->slots = u->slots > MAX_SLOTS ? MAX_SLOTS : u->slots;
    u->slots = u->slots > u->each ? u->each : u->slots;
    return u->slots >= MIN_SLOTS || u->slots == u->each;
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
    Team own = *t;
    own.chunk = t->f->elements;
    t->tile = k_shared(k, DTYPE_u32, u.parts * u.slots * u.matrices * COLUMNS * u.block_words);
    t->xs = k_shared(k, DTYPE_i32, u.parts * team_x_words(&own));
    u.partial = k_shared(k, DTYPE_f32, u.matrices * COLUMNS * u.parts);
    const KRef row = k_for_group(k, rows, "row");
    t->column = k_expr(k, "$ * #", k_for_group(k, ceil_div(t->p->columns, COLUMNS), "tile"), COLUMNS);
    emit_group(&u, row);
    k_ends(k, 2);
    return true;
}
