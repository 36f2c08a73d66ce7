// SPDX-License-Identifier: Apache-2.0
// Copies of bytes and of 16-bit elements across the order in which they write, in vectors of words of 32 bits
// that hold two or four of them. Apart from turn.c, whose blocks have an element in each lane. A block has as
// many words of rows and of columns as a vector has lanes: each word's worth of rows is first turned within
// the words, by shifts and masks, and goes to an array; then the words are turned as registers are.
#include "passes/lower/operand.h"
#include "passes/lower/turn_words.h"

enum { WORD_BYTES = 4, LEAST_LANES = 4, MOST_LANES = 16, MOST_UNIT = 4 };
enum { EVEN_BYTES = 0x00ff00ff, LOW_HALF = 0x0000ffff };

typedef struct Words {
    Lower *l;
    const Domain *d;
    const Access *from, *to;
    uint32_t row, column; // the axes along which it writes, and reads
    uint32_t in, out;     // parameters, of i32
    int64_t unit;         // elements of a word
    uint8_t lanes;
    Point at;             // on the other axes
} Words;

// --- is it possible ------------------------------------------------------------------------------

// Does every row begin with a word?
static bool has_whole_words(const Words *w, const Access *a, const Loc *loc, DType type)
{
    if (loc->buf == 0 || lower_alignment(w->l, loc, type) < WORD_BYTES)
        return false;
    for (uint32_t i = 0; i < w->d->rank; i++)
        if (w->d->extent[i] > 1 && a->stride[i] != 1 && a->stride[i] % w->unit != 0)
            return false;
    return true;
}

static uint8_t lanes_of(const Words *w)
{
    const int64_t rows = w->d->extent[w->row], columns = w->d->extent[w->column];
    uint8_t lanes = w->l->caps->f32_lanes < MOST_LANES ? w->l->caps->f32_lanes : MOST_LANES;
    while (lanes >= LEAST_LANES && (lanes * w->unit > rows || lanes * w->unit > columns))
        lanes /= 2;
    return rows % w->unit == 0 && columns % w->unit == 0 ? lanes : 0;
}

static const Loc *loc_of(const Lower *l, NodeId id)
{
    return id != 0 ? lower_loc(l, id) : &l->pk->copy.dst;
}

// --- a block -------------------------------------------------------------------------------------

static KRef all_lanes(const Words *w, int64_t v)
{
    return k_splat(w->l->k, k_integer(w->l->k, DTYPE_i32, v), w->lanes);
}

// The bits of a where the mask has them, below or beside those of b where it has none.
static KRef joined(const Words *w, KRef a, KRef b, int64_t mask)
{
    Kernel *k = w->l->k;
    return k_or(k, k_and(k, a, all_lanes(w, mask)), k_and(k, b, all_lanes(w, (int32_t)~(uint32_t)mask)));
}

// Turns words of 2 x 2 parts, of `bits` each or four times as far apart: a gets the lower ones of both.
static void turn_parts(const Words *w, KRef *a, KRef *b, int64_t bits, int64_t mask)
{
    Kernel *k = w->l->k;
    const KRef by = all_lanes(w, bits), lower = joined(w, *a, k_shl(k, *b, by), mask);
    *b = joined(w, k_shr(k, *a, by), *b, mask);
    *a = lower;
}

// Row i of v becomes what element i of the words was.
static void turn_within(const Words *w, KRef *v)
{
    if (w->unit == 2) {
        turn_parts(w, &v[0], &v[1], 16, LOW_HALF);
        return;
    }
    turn_parts(w, &v[0], &v[1], 8, EVEN_BYTES);
    turn_parts(w, &v[2], &v[3], 8, EVEN_BYTES);
    turn_parts(w, &v[0], &v[2], 16, LOW_HALF);
    turn_parts(w, &v[1], &v[3], 16, LOW_HALF);
}

// Words before the block on the axes of neither rows nor columns.
static KRef base_of(const Words *w, const Access *a)
{
    Kernel *k = w->l->k;
    KRef index = k_index(k, 0);
    for (uint32_t i = 0; i < w->d->rank; i++)
        if (i != w->row && i != w->column && a->stride[i] != 0)
            index = k_expr(k, "$ * # + $", w->at.idx[i], a->stride[i] / w->unit, index);
    return index;
}

// A square of words, from word `row` of rows and word `column` of columns on, of which some exist.
static void emit_block(const Words *w, KRef row, KRef column, int64_t rows, int64_t columns)
{
    Kernel *k = w->l->k;
    const int64_t lanes = w->lanes, across = w->from->stride[w->row] / w->unit,
                  along = w->to->stride[w->column] / w->unit;
    const KRef words = k_array(k, DTYPE_i32, w->unit * lanes * lanes);
    const KRef g = k_loop(k, rows, KFOR_SERIAL, "g");
    const KRef first = k_expr(k, "($ + $) * #", row, g, w->unit * across);
    const KRef from = k_expr(k, "$ + ($ + $)", first, column, base_of(w, w->from));
    KRef v[MOST_LANES];
    for (int64_t i = 0; i < w->unit; i++)
        v[i] = k_load(k, w->in, k_expr(k, "$ + #", from, i * across), w->lanes, (uint8_t)columns);
    turn_within(w, v);
    for (int64_t i = 0; i < w->unit; i++)
        k_astore(k, words, k_expr(k, "($ + #) * #", g, i * lanes, lanes), v[i]);
    k_end(k);
    const KRef c = k_loop(k, w->unit, KFOR_SERIAL, "c");
    for (int64_t j = 0; j < lanes; j++)
        v[j] = j < rows ? k_aload(k, words, k_expr(k, "($ * # + #) * #", c, lanes, j, lanes), w->lanes)
                        : all_lanes(w, 0);
    k_transpose(k, v);
    const KRef place = k_expr(k, "($ * # + $) * #", column, w->unit, c, along);
    const KRef to = k_expr(k, "$ + ($ + $)", place, row, base_of(w, w->to));
    for (int64_t j = 0; j < columns; j++)
        k_store(k, w->out, k_expr(k, "$ + #", to, j * w->unit * along), v[j], (uint8_t)rows);
    k_end(k);
}

static void emit_column(const Words *w, KRef column, int64_t columns)
{
    Kernel *k = w->l->k;
    const int64_t all = w->d->extent[w->row] / w->unit, rest = all % w->lanes, whole = all - rest;
    if (whole > 0) {
        const KRef r = k_for(k, k_index(k, 0), k_index(k, whole), w->lanes, KFOR_PARALLEL, "r");
        emit_block(w, r, column, w->lanes, columns);
        k_end(k);
    }
    if (rest > 0)
        emit_block(w, k_index(k, whole), column, rest, columns);
}

bool turn_words(Lower *l, const TurnedWords *t)
{
    const DType type = (DType)lower_node(l, t->from)->dtype;
    Words w = {.l = l, .d = t->d, .from = domain_access(t->d, t->from, SPACE_IN),
               .to = domain_access(t->d, t->to, SPACE_IN), .row = t->to_axis, .column = t->from_axis,
               .unit = WORD_BYTES / (int64_t)dtype_info[type].bytes, .at = {.lanes = 1, .count = 1}};
    if (l->caps->is_gpu || w.unit < 2 || w.unit > MOST_UNIT || w.from == NULL || w.to == NULL ||
        !has_whole_words(&w, w.from, loc_of(l, t->from), type) ||
        !has_whole_words(&w, w.to, loc_of(l, t->to), type))
        return false;
    w.lanes = lanes_of(&w);
    if (w.lanes < LEAST_LANES)
        return false;
    w.in = lower_param_words_at(l, t->from, loc_of(l, t->from), DTYPE_i32, PARAM_READ);
    w.out = lower_param_words_at(l, t->from, loc_of(l, t->to), DTYPE_i32, PARAM_WRITE);
    uint32_t opened = 0;
    for (uint32_t i = 0; i < w.d->rank; i++)
        if (i != w.row && i != w.column)
            opened += lower_open_axis(l, w.d, i, KFOR_PARALLEL, &w.at);
    Kernel *k = l->k;
    const int64_t all = w.d->extent[w.column] / w.unit, rest = all % w.lanes, whole = all - rest;
    if (whole > 0) {
        const KRef c = k_for(k, k_index(k, 0), k_index(k, whole), w.lanes, KFOR_PARALLEL, "s");
        emit_column(&w, c, w.lanes);
        k_end(k);
    }
    if (rest > 0)
        emit_column(&w, k_index(k, whole), rest);
    lower_close(l, opened);
    return true;
}
