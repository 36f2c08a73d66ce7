// SPDX-License-Identifier: Apache-2.0
// Kernels that read one value across the order in which they write; see turn.h. A strip is as wide as a line
// of the cache where the value is read, or as some lines if what it becomes stays near, and as long as the
// axis along which the kernel writes: so every line is read once, and lines are written in order. Types that
// vectors do not move take the same strips, element by element, or, of up to 32 bits, square blocks through a
// small array: so many lines that are a power of two apart would drive each other out. Where one of the axes
// has few elements (the channels of a picture), a move is a plain loop over the other one, of which compilers
// make vectors.
#include "passes/lower/operand.h"
#include "passes/lower/turn_gpu.h"
#include "passes/lower/turn_words.h"

enum { LINE_BYTES = 64, MIN_LANES = 4, MIN_SCALARS = 8, MAX_LANES = 64, MAX_COST = 8, FEW = 4, MANY = 32 };
enum { MAX_LINES = 8 }; // of the cache, that a strip is wide

typedef struct Turn {
    Lower *l;
    const Domain *d;
    NodeId from;
    TurnStore store;
    uint32_t row, column; // the axes along which it writes, and reads
    uint8_t lanes;
    int64_t width;        // of a strip
    Point at;
} Turn;

// The axis along which an access has its elements next to each other; the rank: there is none.
static uint32_t axis_of_neighbours(const Domain *d, const Access *a)
{
    uint32_t axis = 0;
    while (axis < d->rank && (a->stride[axis] != 1 || d->extent[axis] == 1))
        axis++;
    return axis;
}

// The one access that is across the axis of rows; NULL: there is none, or there are more.
static const Access *find_across(const Domain *d, uint32_t row, NodeId to)
{
    const Access *found = NULL;
    for (uint32_t i = 0; i < d->access.len; i++) {
        const Access *a = &d->access.data[i];
        if (a->node == to || a->stride[row] == 0 || a->stride[row] == 1)
            continue;
        if (found != NULL)
            return NULL;
        found = a;
    }
    return found;
}

static bool moves_in_vectors(int type)
{
    return type == DTYPE_f32 || type == DTYPE_i32 || k_is_byte(type) || k_is_half(type);
}

// A copy moves bools as bytes.
static int moved_type(const Turn *t)
{
    return t->l->pk->copy.src != 0 ? (int)operand_moved_type(t->l, t->from)
                                   : (int)lower_node(t->l, t->from)->dtype;
}

// Lanes of blocks; 1: elements.
static uint8_t choose_lanes(const Turn *t)
{
    const uint8_t columns = lower_fit_lanes(t->l, t->d->extent[t->column]);
    Domain others = *t->d;
    others.access.len = 0;
    others.access.data = ARENA_ARRAY(t->l->pass->scratch, Access, t->d->access.len);
    for (uint32_t i = 0; i < t->d->access.len; i++)
        if (t->d->access.data[i].node != t->from)
            others.access.data[others.access.len++] = t->d->access.data[i];
    const uint8_t rows = domain_lanes(t->l, &others, t->row), lanes = rows < columns ? rows : columns;
    return lanes >= MIN_LANES && moves_in_vectors(moved_type(t)) ? lanes : 1;
}

static KRef load_row(const Turn *t, Point at, int64_t row, int64_t count)
{
    Kernel *k = t->l->k;
    at.idx[t->row] = k_expr(k, "$ + #", at.idx[t->row], row);
    Pull p = pull_at(t->l, t->d, at);
    const KRef index = pull_index(&p, t->from);
    return t->l->pk->copy.src != 0
               ? operand_load_moved(t->l, t->from, index, t->lanes, (uint8_t)count)
               : k_load(k, lower_param(t->l, t->from, PARAM_READ), index, t->lanes, (uint8_t)count);
}

// As the registers are turned, so is their type: one of 32 bits.
static void emit_block(const Turn *t, KRef column, int64_t rows, int64_t columns)
{
    Kernel *k = t->l->k;
    const int type = moved_type(t);
    const int wide = dtype_info[type].cls == DCLASS_FLOAT ? DTYPE_f32 : DTYPE_i32;
    Point at = t->at;
    KRef v[MAX_LANES];
    rlx_assert(t->lanes <= MAX_LANES && rows <= t->lanes && columns <= t->lanes);
    at.idx[t->column] = column;
    if (t->lanes == 1) {
        t->store(t->l, t->d, at, t->from, load_row(t, at, 0, 1));
        return;
    }
    for (int64_t i = 0; i < t->lanes; i++)
        v[i] = i < rows ? k_cast(k, load_row(t, at, i, columns), wide)
                        : k_splat(k, k_number(k, wide, 0), t->lanes);
    k_transpose(k, v);
    at.vec_axis = t->row;
    at.lanes = t->lanes;
    at.count = (uint8_t)rows;
    for (int64_t i = 0; i < columns; i++) {
        at.idx[t->column] = k_expr(k, "$ + #", column, i);
        t->store(t->l, t->d, at, t->from, k_cast(k, v[i], type));
    }
}

// A block of elements, through an array.
static void emit_square(const Turn *t, KRef row, KRef column, int64_t rows, int64_t columns)
{
    Kernel *k = t->l->k;
    Point at = t->at;
    const KRef block = k_array(k, moved_type(t), rows * columns);
    KRef r = k_loop(k, rows, KFOR_SERIAL, "i"), c = k_loop(k, columns, KFOR_SERIAL, "j");
    at.idx[t->row] = k_add(k, row, r);
    at.idx[t->column] = k_add(k, column, c);
    k_astore(k, block, k_expr(k, "$ * # + $", c, rows, r), load_row(t, at, 0, 1));
    k_end(k);
    k_end(k);
    c = k_loop(k, columns, KFOR_SERIAL, "j");
    r = k_loop(k, rows, KFOR_SERIAL, "i");
    at.idx[t->row] = k_add(k, row, r);
    at.idx[t->column] = k_add(k, column, c);
    t->store(t->l, t->d, at, t->from, k_aload(k, block, k_expr(k, "$ * # + $", c, rows, r), 1));
    k_end(k);
    k_end(k);
}

static void emit_square_columns(const Turn *t, KRef row, int64_t rows)
{
    Kernel *k = t->l->k;
    const int64_t all = t->d->extent[t->column], rest = all % MIN_SCALARS, whole = all - rest;
    if (whole > 0) {
        const KRef c = k_for(k, k_index(k, 0), k_index(k, whole), MIN_SCALARS, KFOR_PARALLEL, "s");
        emit_square(t, row, c, rows, MIN_SCALARS);
        k_end(k);
    }
    if (rest > 0)
        emit_square(t, row, k_index(k, whole), rows, rest);
}

static void emit_squares(const Turn *t)
{
    Kernel *k = t->l->k;
    const int64_t all = t->d->extent[t->row], rest = all % MIN_SCALARS, whole = all - rest;
    if (whole > 0) {
        const KRef r = k_for(k, k_index(k, 0), k_index(k, whole), MIN_SCALARS, KFOR_PARALLEL, "r");
        emit_square_columns(t, r, MIN_SCALARS);
        k_end(k);
    }
    if (rest > 0)
        emit_square_columns(t, k_index(k, whole), rest);
}

// Is it no more than the same elements in another order?
static bool is_move(const Lower *l, NodeId to)
{
    return to == 0 ||
           (l->pk->body.len == 1 && op_info[lower_node(l, l->anchor)->op].types == OPTYPES_MOVE);
}

// The same, a few elements in one of the directions?
static bool is_narrow_move(const Turn *t, NodeId to)
{
    const int64_t rows = t->d->extent[t->row], columns = t->d->extent[t->column];
    const int64_t few = rows < columns ? rows : columns, many = rows < columns ? columns : rows;
    return is_move(t->l, to) && few <= FEW && many >= MANY;
}

static void emit_narrow(const Turn *t)
{
    Kernel *k = t->l->k;
    const bool is_row = t->d->extent[t->row] < t->d->extent[t->column];
    const uint32_t few = is_row ? t->row : t->column, many = is_row ? t->column : t->row;
    Point at = t->at;
    at.idx[many] = k_loop(k, t->d->extent[many], KFOR_PARALLEL, "i");
    for (int64_t i = 0; i < t->d->extent[few]; i++) {
        at.idx[few] = k_index(k, i);
        t->store(t->l, t->d, at, t->from, load_row(t, at, 0, 1));
    }
    k_end(k);
}

// Some rows of a strip.
static void emit_rows(const Turn *t, KRef first, int64_t rows, int64_t columns)
{
    Kernel *k = t->l->k;
    const int64_t rest = columns % t->lanes, whole = columns - rest;
    if (whole == t->lanes)
        emit_block(t, first, rows, t->lanes);
    else if (whole > 0) {
        const KRef c = k_for(k, k_index(k, 0), k_index(k, whole), t->lanes, KFOR_SERIAL, "c");
        emit_block(t, k_add(k, first, c), rows, t->lanes);
        k_end(k);
    }
    if (rest > 0)
        emit_block(t, k_expr(k, "$ + #", first, whole), rows, rest);
}

static void emit_strip(Turn *t, KRef first, int64_t columns)
{
    Kernel *k = t->l->k;
    const int64_t rows = t->d->extent[t->row], rest = rows % t->lanes, whole = rows - rest;
    if (whole > 0) {
        t->at.idx[t->row] = k_for(k, k_index(k, 0), k_index(k, whole), t->lanes, KFOR_PARALLEL, "r");
        emit_rows(t, first, t->lanes, columns);
        k_end(k);
    }
    if (rest > 0) {
        t->at.idx[t->row] = k_index(k, whole);
        emit_rows(t, first, rest, columns);
    }
}

static void emit_strips(Turn *t)
{
    Kernel *k = t->l->k;
    const int64_t columns = t->d->extent[t->column], rest = columns % t->width, whole = columns - rest;
    if (whole > 0) {
        const KRef first = k_for(k, k_index(k, 0), k_index(k, whole), t->width, KFOR_PARALLEL, "s");
        emit_strip(t, first, t->width);
        k_end(k);
    }
    if (rest > 0)
        emit_strip(t, k_index(k, whole), rest);
}

// Finds the two axes and the value. False: this is no case for strips.
static bool find_turn(Lower *l, const Domain *d, NodeId to, Turn *t)
{
    const Access *out = domain_access(d, to, SPACE_IN);
    *t = (Turn){.l = l, .d = d, .row = out == NULL ? d->rank : axis_of_neighbours(d, out)};
    const bool has_way = l->caps->is_gpu || l->caps->f32_lanes >= MIN_LANES;
    if (!has_way || l->strip.window != NULL || d->has_out_space || t->row == d->rank)
        return false;
    const Access *in = find_across(d, t->row, to);
    if (in == NULL || in->node == 0 || lower_loc(l, in->node)->buf == 0 ||
        (!l->caps->is_gpu && lower_epilogue_cost(l) > MAX_COST))
        return false;
    t->from = in->node;
    t->column = axis_of_neighbours(d, in);
    return t->column != d->rank && d->live[t->row].size == 0 && d->live[t->column].size == 0;
}

// A line, or so many of them that what a strip writes stays in the first-level cache: rows are then read in
// longer runs, from fewer pages at a time.
static int64_t strip_width(const Turn *t)
{
    const int64_t bytes = dtype_info[lower_node(t->l, t->from)->dtype].bytes, line = LINE_BYTES / bytes;
    const int64_t own = dtype_info[lower_node(t->l, t->l->root)->dtype].bytes;
    const int64_t rows = t->d->extent[t->row] < 1 ? 1 : t->d->extent[t->row];
    const int64_t fits = (int64_t)t->l->caps->cpu.l1_bytes * 3 / 4 / ((own > bytes ? own : bytes) * rows);
    const int64_t share = t->d->extent[t->column] / t->l->caps->threads; // all threads have a strip
    const int64_t most = fits < share ? fits : share;
    int64_t lines = 1;
    while (lines < MAX_LINES && lines * 2 * line <= most)
        lines *= 2;
    return lines * line > t->lanes ? lines * line : t->lanes;
}

bool turn_map(Lower *l, const Domain *d, NodeId to, TurnStore store)
{
    rlx_assert(store != NULL);
    Turn t;
    uint32_t opened = 0;
    if (!find_turn(l, d, to, &t))
        return false;
    if (l->caps->is_gpu) {
        const Turned turned = {d, t.from, to, t.column, t.row, store};
        return turn_on_gpu(l, &turned);
    }
    if (is_move(l, to) && turn_words(l, &(TurnedWords){d, t.from, to, t.column, t.row}))
        return true;
    t.store = store;
    t.lanes = choose_lanes(&t);
    const bool is_narrow = is_narrow_move(&t, to);
    if (!is_narrow && t.lanes == 1 &&
        (d->extent[t.row] < MIN_SCALARS || d->extent[t.column] < MIN_SCALARS))
        return false;
    t.width = strip_width(&t);
    t.at = (Point){.lanes = 1, .count = 1};
    for (uint32_t i = 0; i < d->rank; i++)
        if (i != t.row && i != t.column)
            opened += lower_open_axis(l, d, i, KFOR_PARALLEL, &t.at);
    if (is_narrow)
        emit_narrow(&t);
    else if (t.lanes == 1 && dtype_info[lower_node(l, t.from)->dtype].bytes < 8)
        emit_squares(&t);
    else
        emit_strips(&t);
    lower_close(l, opened);
    return true;
}
