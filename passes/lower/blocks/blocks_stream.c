// SPDX-License-Identifier: Apache-2.0
// Products of one row with blocks on GPUs that copy to shared memory by themselves (cp.async). A group of
// threads takes some columns, whose rows of blocks lie behind each other: they stream through a ring of
// shared memory, some columns at a time. A warp has a part of k, and so the digits of x that it needs
// (blocks_digits.c), in registers from beginning to end: x is rounded once for all columns of the group.
// Accumulation: as in blocks_team.c for the part of a warp, whose threads are added pairwise; then these
// parts in rising k.
#include "ir/kernel/device.h"
#include "passes/lower/blocks/blocks_team.h"
#include "passes/lower/gpu/gpu_matmul.h"

// Measured on an H200, 4096x14336: columns of 4 pieces a thread, 4 warps, 3 groups for each processor.
enum {
    MAX_PARTS = 16,    // warps along k
    WARPS = 4,         // of a group
    MORE_WARPS = 6,
    PLACES = 3,        // groups for each processor
    MORE_PLACES = 6,
    PIECES = 4,        // of a thread between two barriers
    X_ELEMENTS = 2048, // of x in shared memory at a time
    LINE = 4,          // words of a copy
    MIN_SLOTS = 3,
    MAX_SLOTS = 8,
    MAX_HELD = 2,      // pieces of x that a thread has in registers
    PIECE_WORDS = MAX_DIGITS * PIECE / WORD,
    MATRICES = 2
};

// x of a piece, in variables: digits, steps and sums.
typedef struct Held {
    KRef x[PIECE_WORDS], step[MAX_SEGMENTS], sum[MAX_SEGMENTS];
} Held;

typedef struct Stream {
    Team t;
    int64_t chunks, chunk_words, per_turn; // of a row; words of a chunk; chunks of x rounded at a time
    int64_t parts, own, sets;              // warps along k, their chunks each; sets of such warps
    int64_t matrices;                      // with the same x; all below is of each
    int64_t slots, stage, columns;         // of the ring; columns of a slot, of the group
    uint32_t w[MATRICES];
    KRef part, set;
    KRef partial; // of TeamParts
    Held held[MAX_HELD];
} Stream;

static int64_t words_of_piece(const Stream *s)
{
    return s->t.digits * PIECE / WORD;
}

static int64_t row_blocks(const Stream *s)
{
    return s->t.p->inner / s->t.f->elements;
}

static KRef number_of_chunk(const Stream *s, int64_t o)
{
    return k_expr(s->t.l->k, "$ * # + #", s->part, s->own, o);
}

// The block of a row that a thread's piece is in.
static KRef block_of(const Stream *s, KRef chunk, int64_t step)
{
    const Team *t = &s->t;
    Kernel *k = t->l->k;
    const KRef block = k_expr(k, "$ * # + #", team_div(t, t->lane, t->per_block), t->period, step);
    return k_expr(k, "$ * # + $", chunk, t->blocks, block);
}

// Is there such a block, for this thread? 0: always.
static KRef has_block(const Stream *s, KRef chunk, int64_t step)
{
    const Team *t = &s->t;
    const KRef has_piece = team_has_piece(t);
    if (row_blocks(s) % (t->blocks * s->own * s->parts) == 0)
        return has_piece;
    const KRef is_in = team_op(t, KOP_lt, block_of(s, chunk, step), k_index(t->l->k, row_blocks(s)));
    return has_piece ? team_op(t, KOP_and, is_in, has_piece) : is_in;
}

// --- x -------------------------------------------------------------------------------------------

static void declare_held(Stream *s)
{
    Kernel *k = s->t.l->k;
    for (int64_t h = 0; h < s->own * s->t.period; h++) {
        for (int64_t i = 0; i < words_of_piece(s); i++)
            s->held[h].x[i] = k_var(k, k_integer(k, DTYPE_i32, 0), "x");
        for (int64_t i = 0; i < s->t.segments; i++) {
            s->held[h].step[i] = k_var(k, team_number(&s->t, 0), "step");
            s->held[h].sum[i] = k_var(k, team_number(&s->t, 0), "sum");
        }
    }
}

// Takes a piece from what is in shared memory in a turn, if it is there.
static void hold_piece(Stream *s, int64_t o, int64_t step, KRef turn)
{
    Team *t = &s->t;
    Kernel *k = t->l->k;
    Held *held = &s->held[o * t->period + step];
    const KRef chunk = number_of_chunk(s, o);
    const KRef own = k_expr(k, "$ - $ * #", chunk, turn, s->per_turn);
    const KRef is_here = team_op(t, KOP_and, team_op(t, KOP_le, k_index(k, 0), own),
                                 team_op(t, KOP_lt, own, k_index(k, s->per_turn)));
    const KRef is_in = has_block(s, chunk, step);
    k_if(k, is_in ? team_op(t, KOP_and, is_here, is_in) : is_here);
    const Piece piece = team_piece(t, step);
    team_read_x(t, &piece, block_of(s, own, step));
    for (int64_t i = 0; i < words_of_piece(s); i++)
        k_set(k, held->x[i], t->xr[i]);
    for (int64_t i = 0; i < t->segments; i++) {
        k_set(k, held->step[i], t->step[i]);
        k_set(k, held->sum[i], t->sum[i]);
    }
    k_end(k);
}

// t.chunk is what shared memory has of x at a time.
static void hold_x(Stream *s)
{
    Team *t = &s->t;
    Kernel *k = t->l->k;
    const int64_t turns = ceil_div(s->chunks, s->per_turn);
    const KRef turn = k_loop(k, turns, KFOR_SERIAL, "turn");
    team_fetch_digits(t, turn);
    team_store_digits(t, turn);
    k_barrier(k);
    for (int64_t o = 0; o < s->own; o++)
        for (int64_t step = 0; step < t->period; step++)
            hold_piece(s, o, step, turn);
    k_barrier(k);
    k_end(k);
}

// --- weights -------------------------------------------------------------------------------------

static KRef slot_of(const Stream *s, KRef stage, int64_t matrix)
{
    const int64_t words = s->stage * s->t.row_words;
    return k_expr(s->t.l->k, "$ % # * # + #", stage, s->slots, s->matrices * words, matrix * words);
}

// Begins to copy the columns of a slot; behind the last one there are zeros.
static void copy_columns(const Stream *s, KRef stage, int64_t matrix)
{
    const Team *t = &s->t;
    Kernel *k = t->l->k;
    const int64_t words = s->stage * t->row_words;
    const KRef to = slot_of(s, stage, matrix);
    const KRef column = k_expr(k, "$ * # + $", stage, s->stage, t->column);
    const KRef from = k_expr(k, "$ * #", column, t->row_words);
    const KRef end = k_index(k, t->p->columns * t->row_words);
    const bool is_ragged = t->p->columns % s->columns != 0;
    for (int64_t first = 0; first < words; first += t->threads * LINE) {
        const KRef at = k_expr(k, "$ * # + #", t->thread, LINE, first), place = k_add(k, from, at);
        KRef bytes = k_index(k, LINE * WORD), source = place;
        if (is_ragged) {
            const KRef is_in = team_op(t, KOP_lt, place, end);
            bytes = k_select(k, is_in, bytes, k_index(k, 0));
            source = k_select(k, is_in, place, k_index(k, 0));
        }
        const bool is_open = first + t->threads * LINE > words;
        if (is_open)
            k_if(k, team_op(t, KOP_lt, at, k_index(k, words)));
        k_device(k, KDEV_cp_async_words, t->tile, k_add(k, to, at),
                 k_address(k, s->w[matrix], k_add(k, t->w_base, source)), bytes);
        if (is_open)
            k_end(k);
    }
}

static void copy_stage(const Stream *s, KRef stage)
{
    for (int64_t i = 0; i < s->matrices; i++)
        copy_columns(s, stage, i);
}

static int64_t stages(const Stream *s)
{
    return s->columns / s->stage;
}

static void copy_ahead(const Stream *s)
{
    Kernel *k = s->t.l->k;
    for (int64_t i = 0; i + 1 < s->slots; i++) {
        if (i < stages(s))
            copy_stage(s, k_index(k, i));
        k_device_with(k, KDEV_cp_async_commit, 0);
    }
}

static void copy_next(const Stream *s, KRef stage)
{
    Kernel *k = s->t.l->k;
    const KRef next = k_expr(k, "$ + #", stage, s->slots - 1);
    k_if(k, k_expr(k, "$ < #", next, stages(s)));
    copy_stage(s, next);
    k_end(k);
    k_device_with(k, KDEV_cp_async_commit, 0);
}

// One piece of all columns of a team, in the slot of a stage.
static void add_held(Stream *s, int64_t o, int64_t step, KRef stage)
{
    Team *t = &s->t;
    Kernel *k = t->l->k;
    const Held *held = &s->held[o * t->period + step];
    const KRef chunk = number_of_chunk(s, o);
    const KRef is_in = has_block(s, chunk, step);
    const Piece first = team_piece(t, step);
    const KRef begin = k_expr(k, "$ * # + $", chunk, s->chunk_words, first.block);
    for (int64_t i = 0; i < words_of_piece(s); i++)
        t->xr[i] = k_get(k, held->x[i]);
    for (int64_t i = 0; i < t->segments; i++) {
        t->step[i] = k_get(k, held->step[i]);
        t->sum[i] = k_get(k, held->sum[i]);
    }
    if (is_in)
        k_if(k, is_in);
    for (int64_t i = 0; i < s->matrices; i++) {
        Piece piece = first;
        piece.block = k_add(k, begin, slot_of(s, stage, i));
        for (int64_t c = 0; c < t->columns; c++)
            team_add_piece(t, &piece, c, t->acc[i * t->columns + c]);
    }
    if (is_in)
        k_end(k);
}

static void add_stage(Stream *s, KRef stage)
{
    Team *t = &s->t;
    Kernel *k = t->l->k;
    const int64_t n = s->matrices * t->columns;
    for (int64_t c = 0; c < n; c++)
        k_set(k, t->acc[c], team_number(t, 0));
    for (int64_t o = 0; o < s->own; o++)
        for (int64_t step = 0; step < t->period; step++)
            add_held(s, o, step, stage);
    KRef sum = 0;
    for (int64_t c = 0; c < n; c++) {
        const KRef all = k_team(k, KOP_add, k_get(k, t->acc[c]), TEAM);
        sum = c == 0 ? all : k_select(k, team_op(t, KOP_eq, t->lane, k_index(k, c)), all, sum);
    }
    k_if(k, team_op(t, KOP_lt, t->lane, k_index(k, n)));
    const KRef matrix = k_expr(k, "$ / # * #", t->lane, t->columns, s->columns);
    const KRef own = k_expr(k, "$ * # + $ % #", s->set, t->columns, t->lane, t->columns);
    const KRef column = k_expr(k, "$ + ($ * # + $)", matrix, stage, s->stage, own);
    k_astore(k, s->partial, k_expr(k, "$ * # + $", column, s->parts, s->part), sum);
    k_end(k);
}

static void emit_group(Stream *s, KRef row)
{
    Team *t = &s->t;
    Kernel *k = t->l->k;
    team_begin(t);
    s->part = team_rem(t, t->team, s->parts);
    s->set = team_div(t, t->team, s->parts);
    t->team = s->set;
    if (!t->is_early)
        k_wait(k);
    const KRef is_some = team_find_operands(t, row);
    copy_ahead(s);
    if (t->is_early)
        k_wait(k);
    t->held_x = k_array(k, (int)k->params.data[t->x].dtype, team_held_elements(t));
    declare_held(s);
    hold_x(s);
    for (int64_t c = 0; c < s->matrices * t->columns; c++)
        t->acc[c] = k_var(k, team_number(t, 0), "acc");
    const KRef stage = k_loop(k, stages(s), KFOR_SERIAL, "stage");
    k_device_with(k, KDEV_cp_async_wait, s->slots - 2);
    k_barrier(k);
    copy_next(s, stage);
    add_stage(s, stage);
    k_end(k);
    k_barrier(k);
    const TeamParts parts = {.sums = s->partial,
                             .matrices = s->matrices,
                             .columns = s->columns,
                             .parts = s->parts};
    team_store_parts(t, &parts, row, is_some);
}

// --- the shape -----------------------------------------------------------------------------------

// A group of `warps`, or of more where a row takes more; `places` groups for each processor.
static bool find_ring(Stream *s, int64_t columns, int64_t warps, int64_t places)
{
    Team *t = &s->t;
    t->columns = columns;
    s->sets = ceil_div(warps, s->parts);
    s->stage = s->sets * columns;
    const int64_t groups = places * t->l->caps->gpu->processors;
    s->columns = ceil_div(ceil_div(t->p->columns, groups), s->stage) * s->stage;
    t->threads = s->sets * s->parts * TEAM;
    const int64_t taken = (team_x_words(t) + s->matrices * s->columns * s->parts) * WORD;
    s->slots = ((int64_t)t->l->caps->shared_bytes - taken) / (s->matrices * s->stage * t->row_words * WORD);
    if (s->slots > MAX_SLOTS)
        s->slots = MAX_SLOTS;
    return s->slots >= MIN_SLOTS;
}

// Warps that have little to do between two barriers lose to blocks_team.c. Where they have half as much, more
// of them make up for it, unless there is a min to be added.
static bool find_ring_for(Stream *s, int64_t held)
{
    const int64_t columns = PIECES / held / s->matrices;
    if (columns == 0)
        return false;
    return find_ring(s, columns, WARPS, PLACES) ||
           (held * 2 == PIECES && s->t.f->min.sign == 0 && find_ring(s, 1, MORE_WARPS, MORE_PLACES));
}

static bool find_stream(Stream *s)
{
    Team *t = &s->t;
    if (t->row_words % LINE != 0 || !team_can_digits(t))
        return false;
    t->has_digits = true;
    t->digits = team_digits(t);
    s->chunks = ceil_div(row_blocks(s), t->blocks);
    s->chunk_words = t->blocks * t->f->bytes / WORD;
    s->per_turn = X_ELEMENTS < t->chunk ? 1 : X_ELEMENTS / t->chunk;
    if (s->per_turn > s->chunks)
        s->per_turn = s->chunks;
    t->chunk *= s->per_turn;
    s->own = ceil_div(s->chunks, MAX_PARTS);
    s->parts = ceil_div(s->chunks, s->own);
    return s->own * t->period <= MAX_HELD && find_ring_for(s, s->own * t->period);
}

int64_t block_row_tiles(const Team *t, int64_t columns)
{
    rlx_assert(columns >= 1 && t->p->x != 0);
    const Graph *g = t->l->g;
    int64_t tiles = 0;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        if (n->op == OP_block_matmul && n->src[0] == t->p->x)
            tiles += ceil_div(n->shape->dim[n->shape->rank - 1], columns);
    }
    return tiles != 0 ? tiles : ceil_div(t->p->columns, columns);
}

bool block_stream_takes(Pass *pass, NodeId product)
{
    rlx_assert(pass->plan != NULL && product != 0);
    const Graph *g = pass->plan->graph;
    const Node *n = graph_node(g, product);
    const TargetCaps *caps = pass->plan->caps;
    if (n->op != OP_block_matmul || !caps->has_mma || caps->shared_bytes == 0)
        return false;
    const Node *x = graph_node(g, n->src[0]), *w = graph_node(g, n->src[1]);
    const int64_t inner = x->shape->dim[x->shape->rank - 1];
    if ((w->op != OP_const && w->op != OP_param) || w->shape->rank != 3 || shape_numel(w->shape) == 0 ||
        shape_numel(x->shape) != inner || !lower_is_float(x->dtype))
        return false;
    Lower l = {.pass = pass, .g = g, .caps = caps};
    BlockProduct p = {.x = n->src[0], .w = n->src[1], .inner = inner, .rows = 1, .columns = w->shape->dim[0]};
    p.f = block_format(pass->scratch, node_get_str(n, A_block_matmul_format));
    Stream s = {.t = {.l = &l, .p = &p, .f = p.f}, .matrices = MATRICES};
    if (inner / p.f->elements * p.f->bytes % WORD != 0)
        return false;
    team_find_shape(&s.t);
    return block_units_take(&s.t) || find_stream(&s);
}

bool block_stream_product(const Team *shape)
{
    rlx_assert(shape->l->caps->is_gpu && shape->p != NULL);
    Stream s = {.t = *shape, .matrices = shape->p->other != 0 ? MATRICES : 1};
    Team *t = &s.t;
    Lower *l = t->l;
    Kernel *k = l->k;
    if (!l->caps->has_mma || !find_stream(&s))
        return false;
    const int64_t rows = shape_numel(lower_node(l, l->anchor)->shape) / t->p->columns;
    team_add_params(t);
    s.w[0] = t->w;
    s.w[1] = s.matrices > 1 ? team_weight(t, t->p->other_w) : 0;
    k_set_group(k, (uint32_t)t->threads);
    t->tile = k_shared(k, DTYPE_u32, s.slots * s.matrices * s.stage * t->row_words);
    t->xs = k_shared(k, DTYPE_i32, team_x_words(t));
    s.partial = k_shared(k, DTYPE_f32, s.matrices * s.columns * s.parts);
    t->words = t->row_words;
    const KRef row = k_for_group(k, rows, "row");
    t->column = k_expr(k, "$ * #", k_for_group(k, ceil_div(t->p->columns, s.columns), "tile"), s.columns);
    emit_group(&s, row);
    k_ends(k, 2);
    return true;
}
