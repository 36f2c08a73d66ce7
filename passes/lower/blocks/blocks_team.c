// SPDX-License-Identifier: Apache-2.0
// Products of one row with blocks on GPUs, straight from the blocks as they are stored. A group of threads
// takes some columns: it copies what they have along some steps of k to shared memory, in the widest accesses
// that their alignment allows, while it computes the steps before. A team of 32 threads decodes some columns;
// each thread has the same 32 elements of a block of each, so that it holds x in registers. Which bytes are
// words there is known when the kernel is made: threads of a team have blocks that begin alike (`period`).
// Accumulation: of each group of a block (or the part of it that a thread has) the products x * q in rising
// k; scale times that, and min times the sum of x, are added in f32; threads of a team pairwise.
#include "passes/lower/blocks/blocks_team.h"
#include "passes/lower/operand.h"

enum {
    MAX_TEAMS = 4,
    DIGIT_TEAMS = 8,       // where x is rounded, which every group does
    MANY_COLUMNS = 8192,   // enough groups for a large device even then
    SMALL_SHARED = 32 << 10, // floats need no more
    ROOM_BESIDE = 5 << 10  // bytes of shared memory for what teams exchange
};

// Elements of x are shifted so that few threads of a team read from the same bank at a time.
static KRef padded(const Team *t, KRef e)
{
    return k_expr(t->l->k, "$ * # + $", team_div(t, e, t->pad), t->pad + WORD, team_rem(t, e, t->pad));
}

Piece team_piece(const Team *t, int64_t step)
{
    rlx_assert(t->per_block >= 1 && step >= 0);
    Kernel *k = t->l->k;
    const BlockPlane *low = &t->f->q.low;
    const int64_t bytes = step * t->f->bytes, pieces = low->run / t->length;
    Piece piece = {.skew = bytes % WORD, .number = team_rem(t, t->lane, t->per_block)};
    piece.block = k_expr(k, "$ * # + #", team_div(t, t->lane, t->per_block), t->period * t->f->bytes / WORD,
                         bytes / WORD);
    piece.first = k_expr(k, "$ * #", piece.number, PIECE);
    if (t->segments > 1)
        piece.first = k_expr(k, "$ * # + $ * #", team_div(t, piece.number, pieces), t->span,
                             team_rem(t, piece.number, pieces), t->length);
    return piece;
}

KRef team_has_piece(const Team *t)
{
    rlx_assert(t->per_block >= 1 && t->per_block <= TEAM);
    const int64_t pieces = TEAM / t->per_block * t->per_block;
    return pieces == TEAM ? 0 : team_op(t, KOP_lt, t->lane, k_index(t->l->k, pieces));
}

void team_read_x(Team *t, const Piece *piece, KRef block)
{
    rlx_assert(t->segments >= 1 && block != 0);
    Kernel *k = t->l->k;
    for (int64_t s = 0; s < t->segments; s++) {
        const KRef e = k_expr(k, "$ * # + $ + #", block, t->f->elements, piece->first, s * t->f->q.low.run);
        if (t->has_digits) {
            team_read_digits(t, s, e);
            continue;
        }
        const KRef from = padded(t, e);
        for (int64_t i = 0; i < t->length; i++) {
            const KRef x = k_aload(k, t->xs, k_expr(k, "$ + #", from, i), 1);
            KRef *sum = &t->sum[team_sum(t, s, i)];
            const bool is_first = team_is_joined(t) ? s + i == 0 : i % t->same == 0;
            t->xr[s * t->length + i] = k_get(k, k_var(k, x, "x"));
            *sum = team_op(t, KOP_add, is_first ? team_number(t, 0) : *sum, t->xr[s * t->length + i]);
        }
    }
}

// The blocks of one step of the chunk, of which there are `blocks`.
static void add_step(Team *t, int64_t step, int64_t blocks)
{
    Kernel *k = t->l->k;
    const Piece piece = team_piece(t, step);
    const KRef block = k_expr(k, "$ * # + #", team_div(t, t->lane, t->per_block), t->period, step);
    const bool is_whole = blocks == t->blocks && TEAM % t->per_block == 0;
    if (!is_whole)
        k_if(k, team_op(t, KOP_lt, block, k_index(k, blocks)));
    team_read_x(t, &piece, block);
    for (int64_t c = 0; c < t->columns; c++)
        team_add_piece(t, &piece, c, t->acc[c]);
    if (!is_whole)
        k_end(k);
}

// --- copies --------------------------------------------------------------------------------------

static int64_t group_columns(const Team *t)
{
    return t->teams * t->columns;
}

// Access i of a thread: the column and the word of a chunk that it begins at; a block is opened where there
// may be none.
static bool open_access(const Team *t, int64_t i, KRef *column, KRef *word)
{
    Kernel *k = t->l->k;
    const int64_t each = t->words / t->vector, all = group_columns(t) * each;
    const KRef v = k_expr(k, "$ + #", t->thread, i * t->threads);
    *column = team_div(t, v, each);
    *word = k_expr(k, "$ * #", team_rem(t, v, each), t->vector);
    if ((i + 1) * t->threads <= all)
        return false;
    k_if(k, team_op(t, KOP_lt, v, k_index(k, all)));
    return true;
}

static int64_t accesses(const Team *t)
{
    return ceil_div(group_columns(t) * t->words / t->vector, t->threads);
}

// Begins to read chunk number `chunk`.
static void fetch_chunk(const Team *t, KRef chunk)
{
    Kernel *k = t->l->k;
    for (int64_t i = 0; i < accesses(t); i++) {
        KRef column = 0, word = 0;
        const bool is_open = open_access(t, i, &column, &word);
        column = team_op(t, KOP_min, k_add(k, t->column, column), k_index(k, t->p->columns - 1));
        const KRef place = k_expr(k, "$ * # + $", chunk, t->words, word);
        if (t->row_words % t->words)
            k_if(k, team_op(t, KOP_lt, place, k_index(k, t->row_words)));
        k_fetch(k, t->w, k_expr(k, "$ + ($ * # + $)", t->w_base, column, t->row_words, place), t->held,
                k_index(k, i * t->vector), (uint8_t)t->vector);
        if (t->row_words % t->words)
            k_end(k);
        if (is_open)
            k_end(k);
    }
}

static void store_chunk(const Team *t)
{
    Kernel *k = t->l->k;
    for (int64_t i = 0; i < accesses(t); i++) {
        KRef column = 0, word = 0;
        const bool is_open = open_access(t, i, &column, &word);
        const KRef place = k_expr(k, "$ * # + $", column, t->words, word);
        for (int64_t j = 0; j < t->vector; j++)
            k_astore(k, t->tile, k_expr(k, "$ + #", place, j),
                     k_aload(k, t->held, k_index(k, i * t->vector + j), 1));
        if (is_open)
            k_end(k);
    }
}

// Elements of x that one access reads.
int64_t team_x_width(const Lower *l, const BlockProduct *p)
{
    const Shape *s = lower_node(l, p->x)->shape;
    const Loc *loc = lower_loc(l, p->x);
    const DType type = (DType)lower_node(l, p->x)->dtype;
    const int64_t wide = k_fetch_width(type);
    rlx_assert(wide >= 1);
    bool fits = p->inner % wide == 0 && lower_alignment(l, loc, type) >= wide * dtype_info[type].bytes &&
                loc->stride[s->rank - 1] == 1;
    for (uint32_t i = 0; i + 1 < s->rank; i++)
        fits = fits && (s->dim[i] == 1 || loc->stride[i] % wide == 0);
    return fits ? wide : 1;
}

// `n` elements of x from those of the chunk on.
static void store_x(const Team *t, KRef chunk, int64_t n)
{
    Kernel *k = t->l->k;
    const int type = (int)k->params.data[t->x].dtype;
    const int64_t wide = team_x_width(t->l, t->p);
    const KRef x = wide > 1 ? k_array(k, type, wide) : 0;
    for (int64_t first = 0; first < n; first += t->threads * wide) {
        const KRef e = k_expr(k, "$ * # + #", t->thread, wide, first);
        const bool is_open = first + t->threads * wide > n;
        if (is_open)
            k_if(k, team_op(t, KOP_lt, e, k_index(k, n)));
        const KRef from = k_expr(k, "$ + ($ * # + $)", t->x_base, chunk, t->chunk, e), to = padded(t, e);
        if (wide > 1)
            k_fetch(k, t->x, from, x, k_index(k, 0), (uint8_t)wide);
        for (int64_t j = 0; j < wide; j++) {
            const KRef v = wide > 1 ? k_aload(k, x, k_index(k, j), 1) : k_load(k, t->x, from, 1, 1);
            k_astore(k, t->xs, k_expr(k, "$ + #", to, j), k_cast(k, v, DTYPE_f32));
        }
        if (is_open)
            k_end(k);
    }
}

// --- the kernel ----------------------------------------------------------------------------------

// Begins to read the next chunk, if there is one: the weights, or x where it becomes digits.
static void fetch_next(const Team *t, KRef chunk, bool is_last, bool is_weights)
{
    Kernel *k = t->l->k;
    const int64_t n = ceil_div(t->p->inner / t->f->elements, t->blocks);
    if (is_last)
        return;
    const KRef next = k_expr(k, "$ + 1", chunk);
    k_if(k, team_op(t, KOP_lt, next, k_index(k, n)));
    if (is_weights)
        fetch_chunk(t, next);
    else
        team_fetch_digits(t, next);
    k_end(k);
}

static void emit_chunk(Team *t, KRef chunk, int64_t blocks, bool is_last)
{
    Kernel *k = t->l->k;
    k_barrier(k);
    store_chunk(t);
    if (t->has_digits) {
        fetch_next(t, chunk, is_last, true);
        team_store_digits(t, chunk);
    } else {
        store_x(t, chunk, blocks * t->f->elements);
    }
    k_barrier(k);
    fetch_next(t, chunk, is_last, !t->has_digits);
    for (int64_t step = 0; step < t->period && step < blocks; step++)
        add_step(t, step, blocks);
}

// An infinity times a q of 0 is NaN, as the sum of an infinite one and min is where their signs differ: such
// sums are made again of whole elements.
static KRef without_infinities(const Team *t, KRef sum, Point at, NodeId w)
{
    Kernel *k = t->l->k;
    BlockProduct p = *t->p;
    const KRef all = k_var(k, sum, "all");
    p.w = w;
    k_if(k, team_op(t, KOP_ne, sum, sum));
    const BlockReader r = block_product_reader(t->l, &p);
    k_set(k, all, team_number(t, 0));
    block_product_plain(t->l, &p, &r, at, t->expert, all);
    k_end(k);
    return k_get(k, all);
}

void team_store(const Team *t, KRef row, KRef column, const KRef *sums, KRef is_some)
{
    rlx_assert(row != 0 && column != 0 && sums[0] != 0);
    Kernel *k = t->l->k;
    Lower *l = t->l;
    const int type = lower_node(l, l->anchor)->dtype;
    Point at = {.lanes = 1, .count = 1};
    Given other = {.id = t->p->other};
    block_product_row(l, t->p, row, at.idx);
    at.idx[t->p->d.rank - 1] = column;
    KRef sum[2] = {sums[0], other.id != 0 ? sums[1] : 0};
    for (uint32_t i = 0; i < (other.id != 0 ? 2 : 1); i++) {
        if (t->f->min.sign || t->has_digits)
            sum[i] = without_infinities(t, sum[i], at, i == 0 ? t->p->w : t->p->other_w);
        if (is_some)
            sum[i] = k_select(k, is_some, sum[i], team_number(t, 0));
        sum[i] = k_cast(k, sum[i], type);
    }
    other.value = sum[1];
    pull_store_given(l, &t->p->d, at, sum[0], &other);
}

static KRef joined_parts(const Team *t, const TeamParts *p, KRef column, int64_t matrix)
{
    Kernel *k = t->l->k;
    const KRef from = k_expr(k, "($ + #) * #", column, matrix * p->columns, p->parts);
    KRef sum = k_aload(k, p->sums, from, 1);
    for (int64_t part = 1; part < p->parts; part++)
        sum = team_op(t, KOP_add, sum, k_aload(k, p->sums, k_expr(k, "$ + #", from, part), 1));
    return sum;
}

void team_store_parts(const Team *t, const TeamParts *p, KRef row, KRef is_some)
{
    rlx_assert(p->matrices <= 2 && p->parts >= 1);
    Kernel *k = t->l->k;
    const KRef i = k_for(k, t->thread, k_index(k, p->columns), t->threads, KFOR_SERIAL, "i");
    const KRef column = k_add(k, t->column, i);
    k_if(k, team_op(t, KOP_lt, column, k_index(k, t->p->columns)));
    KRef sum[2] = {0};
    for (int64_t m = 0; m < p->matrices; m++)
        sum[m] = joined_parts(t, p, i, m);
    team_store(t, row, column, sum, is_some);
    k_ends(k, 2);
}

// The threads of a team each store a column.
static void store_columns(const Team *t, KRef row, KRef is_some)
{
    Kernel *k = t->l->k;
    KRef sum = 0;
    for (int64_t c = 0; c < t->columns; c++) {
        const KRef all = k_team(k, KOP_add, k_get(k, t->acc[c]), TEAM);
        sum = c == 0 ? all : k_select(k, team_op(t, KOP_eq, t->lane, k_index(k, c)), all, sum);
    }
    const KRef column = k_expr(k, "$ + ($ * # + $)", t->column, t->team, t->columns, t->lane);
    k_if(k, team_op(t, KOP_and, team_op(t, KOP_lt, t->lane, k_index(k, t->columns)),
                team_op(t, KOP_lt, column, k_index(k, t->p->columns))));
    team_store(t, row, column, &sum, is_some);
    k_end(k);
}

KRef team_find_operands(Team *t, KRef row)
{
    rlx_assert(row != 0 && t->p->w != 0);
    Lower *l = t->l;
    Kernel *k = l->k;
    const uint32_t last = lower_node(l, t->p->x)->shape->rank - 1;
    KRef idx[SHAPE_MAX_RANK] = {0}, is_some = 0;
    block_product_row(l, t->p, row, idx);
    t->w_base = k_index(k, 0);
    if (t->p->index) {
        const KRef e = block_expert(l, t->p, idx);
        is_some = block_is_expert(k, e, t->p->experts);
        const KRef kept =
            team_op(t, KOP_max, k_index(k, 0), team_op(t, KOP_min, e, k_index(k, t->p->experts - 1)));
        t->expert = kept;
        t->w_base = t->p->of.is_placed ? experts_begin(l, &t->p->of, kept)
                                       : k_expr(k, "$ * #", kept, t->p->columns * t->row_words);
    }
    idx[last] = k_index(k, 0);
    t->x_base = operand_index(l, t->p->x, idx);
    return is_some;
}

void team_begin(Team *t)
{
    Kernel *k = t->l->k;
    static const uint32_t magic = 0x4b000000;
    t->thread = k_thread(k);
    t->lane = team_rem(t, t->thread, TEAM);
    t->team = team_div(t, t->thread, TEAM);
    t->magic = k_get(k, k_var(k, k_load(k, lower_param_data(t->l, "magic", DTYPE_u32, &magic, sizeof magic),
                                        k_index(k, 0), 1, 1), "magic"));
}

void team_load_values(const Team *t)
{
    rlx_assert(t->values == 0 || t->thread != 0);
    Kernel *k = t->l->k;
    if (t->values == 0)
        return;
    const BlockReader r = block_product_reader(t->l, t->p);
    k_if(k, team_op(t, KOP_lt, t->thread, k_index(k, 16)));
    k_astore(k, t->values, t->thread, k_cast(k, k_load(k, r.values, t->thread, 1, 1), DTYPE_f32));
    k_end(k);
}

static void emit_group(Team *t, KRef row)
{
    Kernel *k = t->l->k;
    const int64_t all = t->p->inner / t->f->elements, n = all / t->blocks, rest = all % t->blocks;
    team_begin(t);
    t->held = k_array(k, DTYPE_u32, accesses(t) * t->vector);
    if (!t->is_early)
        k_wait(k);
    const KRef is_some = team_find_operands(t, row);
    fetch_chunk(t, k_index(k, 0));
    if (t->is_early)
        k_wait(k);
    if (t->has_digits) {
        t->held_x = k_array(k, (int)k->params.data[t->x].dtype, team_held_elements(t));
        team_fetch_digits(t, k_index(k, 0));
    }
    team_load_values(t);
    for (int64_t c = 0; c < t->columns; c++)
        t->acc[c] = k_var(k, team_number(t, 0), "acc");
    if (n > 0) {
        const KRef chunk = k_loop(k, n, KFOR_SERIAL, "chunk");
        emit_chunk(t, chunk, t->blocks, rest == 0 && n == 1);
        k_end(k);
    }
    if (rest > 0)
        emit_chunk(t, k_index(k, n), rest, true);
    store_columns(t, row, is_some);
}

static bool is_dense_value(const Lower *l, NodeId id)
{
    const Shape *s = lower_node(l, id)->shape;
    int64_t stride = 1;
    for (uint32_t i = s->rank; i-- > 0; stride *= s->dim[i])
        if (s->dim[i] > 1 && lower_loc(l, id)->stride[i] != stride)
            return false;
    return true;
}

bool team_has_words(const Team *t)
{
    const BlockProduct *p = t->p;
    return p->inner / p->f->elements * p->f->bytes % WORD == 0 && is_dense_value(t->l, p->w) &&
           lower_loc(t->l, p->w)->offset % (4 * WORD) == 0;
}

void team_find_shape(Team *t)
{
    rlx_assert(t->f != NULL && t->p != NULL);
    const BlockPlane *low = &t->f->q.low;
    const int64_t bytes = t->f->bytes;
    t->per_block = t->f->elements / PIECE;
    for (t->period = 1; t->period * bytes % WORD != 0;)
        t->period *= 2;
    t->span = team_span(low);
    t->is_part = low->run == PIECE && low->bits < 8 && t->f->group == PIECE;
    t->segments = low->run < WORD * low->bits || t->is_part ? 1 : 8 / low->bits;
    t->length = PIECE / t->segments;
    for (t->same = t->length; t->f->group % t->same != 0;)
        t->same /= 2;
    t->blocks = t->period * (TEAM / t->per_block);
    t->chunk = t->blocks * t->f->elements;
    t->words = t->blocks * bytes / WORD;
    t->row_words = t->p->inner / t->f->elements * bytes / WORD;
    t->pad = t->span <= PIECE || t->is_part ? (t->per_block == 1 ? PIECE * t->period : PIECE)
             : t->length * 2 * t->segments > PIECE * 2 ? PIECE : t->span;
    if (t->row_words < t->words)
        t->words = t->row_words; // one chunk, not a whole one
}

int64_t team_x_words(const Team *t)
{
    return t->has_digits ? t->chunk / PIECE * team_unit_words(t)
                         : t->chunk + ceil_div(t->chunk, t->pad) * WORD;
}

// Columns and threads of a group: as many as its shared memory has room for.
static bool find_group(Team *t)
{
    const int64_t for_x = team_x_words(t) * WORD, shared = (int64_t)t->l->caps->shared_bytes;
    const int64_t most = t->has_digits || shared < SMALL_SHARED ? shared : SMALL_SHARED;
    const int64_t room = most - ROOM_BESIDE - for_x;
    const bool is_large = t->has_digits && t->period == 1 && t->p->columns >= MANY_COLUMNS;
    for (t->teams = is_large ? DIGIT_TEAMS : MAX_TEAMS; t->teams > 0; t->teams /= 2)
        for (t->columns = MAX_COLUMNS; t->columns > 0; t->columns /= 2)
            if (group_columns(t) * t->words * WORD <= room) {
                t->threads = t->teams * TEAM;
                return true;
            }
    return false;
}

uint32_t team_weight(const Team *t, NodeId w)
{
    rlx_assert(w != 0 && t->row_words > 0);
    const Loc *at = lower_loc(t->l, w), words = {.buf = at->buf, .offset = at->offset / WORD, .stride = {1}};
    const TensorType type = {DTYPE_u32, {.rank = 1, .dim = {t->p->experts * t->p->columns * t->row_words}}};
    return lower_param_typed(t->l, &type, &words, "w", PARAM_READ);
}

void team_add_params(Team *t)
{
    rlx_assert(team_has_words(t));
    Lower *l = t->l;
    BlockProduct *p = t->p;
    const OpId op = (OpId)lower_node(l, p->w)->op;
    block_product_place(l, p, DTYPE_u32);
    t->w = p->of.is_placed ? p->of.weights : team_weight(t, p->w);
    t->x = lower_param(l, p->x, PARAM_READ);
    t->is_early = p->index == 0 && (op == OP_const || op == OP_param);
}

bool block_team_product(Lower *l, BlockProduct *p)
{
    rlx_assert(p->f != NULL && p->rows >= 0);
    const int type = lower_node(l, p->x)->dtype;
    const Shape *x = lower_node(l, p->x)->shape;
    Team t = {.l = l, .p = p, .f = p->f};
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || (type != DTYPE_f32 && !k_is_half(type)) ||
        p->d.is_exact || l->strip.window != NULL || l->strip.n_held > 0)
        return false;
    if (p->rows * p->inner * p->columns == 0 || !team_has_words(&t) ||
        lower_loc(l, p->x)->stride[x->rank - 1] != 1)
        return false;
    team_find_shape(&t);
    if (block_units_product(&t) || block_stream_product(&t))
        return true;
    if (p->other != 0)
        return false;
    t.has_digits = team_wants_digits(&t);
    t.digits = t.has_digits ? team_digits(&t) : 0;
    if (!find_group(&t))
        return false;
    for (t.vector = 4; t.row_words % t.vector != 0 || t.words % t.vector != 0;)
        t.vector /= 2;
    const int64_t rows = shape_numel(lower_node(l, l->anchor)->shape) / p->columns;
    Kernel *k = l->k;
    team_add_params(&t);
    k_set_group(k, (uint32_t)t.threads);
    t.tile = k_shared(k, DTYPE_u32, group_columns(&t) * t.words);
    t.xs = k_shared(k, t.has_digits ? DTYPE_i32 : DTYPE_f32, team_x_words(&t));
    t.values = t.f->values ? k_shared(k, DTYPE_f32, 16) : 0;
    const KRef row = k_for_group(k, rows, "row");
    t.column = k_expr(k, "$ * #", k_for_group(k, ceil_div(p->columns, group_columns(&t)), "tile"),
                      group_columns(&t));
    emit_group(&t, row);
    k_ends(k, 2);
    return true;
}
