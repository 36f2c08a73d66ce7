// SPDX-License-Identifier: Apache-2.0
// The input of int_conv as dot products want it: four channels to a word, the words of a pixel next to each
// other, rows and columns of padding in memory as the zero point (slices of padding are left out of the sums
// instead). It is read where it lies if it lies so, and else copied. Where channels are far apart and pixels
// are neighbours, vectors of pixels are joined to words and turned in registers. Where products have 16 bits,
// the copy has two words of halves for each word of bytes.
#include "passes/lower/border.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv.h"

#include <string.h>

enum { WORD = 4, WORD_BITS = 8, MAX_LANES = 64, BYTES_OF_HALVES = 0x00ff00ff };

int64_t int_conv_reach(int64_t out, int64_t stride, int64_t kernel, int64_t dilation)
{
    rlx_assert(stride >= 1 && dilation >= 1);
    return (out - 1) * stride + (kernel - 1) * dilation + 1;
}

static bool is_whole(int64_t v)
{
    return v % WORD == 0;
}

// Can the words of channels be read where they are?
static bool has_words(const IntConv *c)
{
    const Loc *at = lower_loc(c->l, c->x);
    return (c->stride_c == 1 || c->group * c->ic == 1) && is_whole(c->ic) && is_whole(at->offset) &&
           is_whole(c->stride_n) && is_whole(c->stride_d) && is_whole(c->stride_h) && is_whole(c->stride_w);
}

static bool has_padding(const IntConv *c)
{
    return c->pad_h != 0 || c->pad_w != 0 || int_conv_reach(c->h, c->sh, c->kh, c->dh) > c->in_h ||
           int_conv_reach(c->w_out, c->sw, c->kw, c->dw) > c->in_w;
}

// The input as i32, four channels (or two of 16 bits) to an element.
uint32_t int_conv_words(const IntConv *c)
{
    const Node *n = lower_node(c->l, c->x);
    const int64_t each = WORD / dtype_info[n->dtype].bytes;
    TensorType t = {DTYPE_i32, *n->shape};
    Loc at = *lower_loc(c->l, c->x);
    at.offset /= each;
    for (uint32_t i = 0; i < n->shape->rank; i++)
        at.stride[i] = i == 1 ? 1 : at.stride[i] / each;
    t.shape.dim[1] /= each;
    return lower_param_typed(c->l, &t, &at, "x", PARAM_READ);
}

// --- byte by byte --------------------------------------------------------------------------------

// Words of `count` channels at index `at` of the input's first channel, of as many pixels as there are lanes.
static KRef gather_words(const IntConv *c, KRef at, int64_t count, uint8_t lanes, int64_t pixels)
{
    Kernel *k = c->l->k;
    const uint32_t x = lower_param(c->l, c->x, PARAM_READ);
    KRef word = 0;
    for (int64_t i = 0; i < count; i++) {
        const KRef index = k_expr(k, "$ + #", at, i * c->stride_c);
        const KRef byte = k_cast(k, k_load(k, x, index, lanes, (uint8_t)pixels), DTYPE_i32);
        const KRef moved = i == 0 ? byte : k_shl(k, byte, k_integer(k, DTYPE_i32, WORD_BITS * i));
        word = i == 0 ? moved : k_or(k, word, moved);
    }
    return word;
}

bool int_conv_has_odd(const IntConv *c)
{
    return c->in.odd != 0 && c->ic > 1;
}

// Words for the copy, as they are or in halves: the even bytes, and apart from them the odd ones.
static void put_words(const IntConv *c, KRef at, KRef words, uint8_t count)
{
    Kernel *k = c->l->k;
    if (c->in.odd == 0) {
        k_store(k, c->copy, at, words, count);
        return;
    }
    const KRef mask = k_integer(k, DTYPE_i32, BYTES_OF_HALVES);
    const KRef moved = k_shr(k, words, k_integer(k, DTYPE_i32, WORD_BITS));
    k_store(k, c->copy, at, k_and(k, words, mask), count);
    if (int_conv_has_odd(c))
        k_store(k, c->copy, k_expr(k, "$ + #", at, c->in.odd), k_and(k, moved, mask), count);
}

// Words that follow each other in the input and in the copy.
static void copy_words(const IntConv *c, KRef from, KRef to, int64_t n)
{
    Kernel *k = c->l->k;
    const uint8_t lanes = c->in.odd != 0 ? c->l->caps->f32_lanes : 1;
    const int64_t rest = n % lanes, whole = n - rest;
    if (whole > 0) {
        const KRef i = k_for(k, k_index(k, 0), k_index(k, whole), lanes, KFOR_SERIAL, "i");
        put_words(c, k_add(k, to, i), k_load(k, c->source, k_add(k, from, i), lanes, lanes), lanes);
        k_end(k);
    }
    if (rest > 0)
        put_words(c, k_expr(k, "$ + #", to, whole),
                  k_load(k, c->source, k_expr(k, "$ + #", from, whole), lanes, (uint8_t)rest), (uint8_t)rest);
}

// Fills words of the copy with one value.
static void fill_words(const IntConv *c, KRef at, int64_t count, KRef value)
{
    Kernel *k = c->l->k;
    const KRef i = k_loop(k, count, KFOR_SERIAL, "i");
    k_store(k, c->copy, k_add(k, at, i), value, 1);
    k_end(k);
}

// The same for pixels of a row.
static void fill_pixels(const IntConv *c, KRef at, int64_t pixels, KRef value)
{
    const int64_t words = pixels * c->in.column;
    if (words == 0)
        return;
    fill_words(c, at, words, value);
    if (int_conv_has_odd(c))
        fill_words(c, k_expr(c->l->k, "$ + #", at, c->in.odd), words, value);
}

// The words of one pixel: at `from` (bytes, or words when has_words) to `to`.
static void copy_pixel(const IntConv *c, KRef from, KRef to)
{
    Kernel *k = c->l->k;
    if (has_words(c)) {
        copy_words(c, from, to, c->group * c->words);
        return;
    }
    const int64_t whole = c->ic / WORD, rest = c->ic % WORD;
    const KRef g = c->group == 1 ? k_index(k, 0) : k_loop(k, c->group, KFOR_SERIAL, "g");
    from = k_expr(k, "$ * # + $", g, c->ic * c->stride_c, from);
    to = k_expr(k, "$ * # + $", g, c->words, to);
    if (whole > 0) {
        const KRef i = k_loop(k, whole, KFOR_SERIAL, "i");
        const KRef word = gather_words(c, k_expr(k, "$ * # + $", i, WORD * c->stride_c, from), WORD, 1, 1);
        put_words(c, k_add(k, to, i), word, 1);
        k_end(k);
    }
    if (rest > 0)
        put_words(c, k_expr(k, "$ + #", to, whole),
                  gather_words(c, k_expr(k, "$ + #", from, whole * WORD * c->stride_c), rest, 1, 1), 1);
    if (c->group > 1)
        k_end(k);
}

// --- turned in registers -------------------------------------------------------------------------

// Lanes of blocks of pixels x words; 1: byte by byte.
static uint8_t turned_lanes(const IntConv *c, int64_t pixels)
{
    const uint8_t lanes = lower_fit_lanes(c->l, pixels);
    return c->stride_w == 1 && c->stride_c != 1 && !has_words(c) && c->words > 1 ? lanes : 1;
}

// A block of pixels by words, from channel 0 of the first word on. Channels at the end may be missing.
typedef struct TurnBlock {
    KRef from, to;
    int64_t pixels, channels;
    uint8_t lanes;
} TurnBlock;

static void turn_block(const IntConv *c, const TurnBlock *b)
{
    Kernel *k = c->l->k;
    const int64_t words = ceil_div(b->channels, WORD);
    KRef v[MAX_LANES];
    rlx_assert(b->lanes <= MAX_LANES && words <= b->lanes && b->pixels <= b->lanes);
    for (int64_t i = 0; i < b->lanes; i++) {
        const int64_t left = b->channels - i * WORD;
        const KRef from = k_expr(k, "$ + #", b->from, i * WORD * c->stride_c);
        v[i] = i < words ? gather_words(c, from, left < WORD ? left : WORD, b->lanes, b->pixels)
                         : k_splat(k, k_integer(k, DTYPE_i32, 0), b->lanes);
    }
    k_transpose(k, v);
    for (int64_t i = 0; i < b->pixels; i++)
        put_words(c, k_expr(k, "$ + #", b->to, i * c->in.column), v[i], (uint8_t)words);
}

// All pixels of some words: whole blocks, then what is left.
static void turn_pixels(const IntConv *c, TurnBlock b, int64_t pixels)
{
    Kernel *k = c->l->k;
    const int64_t whole = pixels - pixels % b.lanes;
    const KRef from = b.from, to = b.to;
    b.pixels = b.lanes;
    if (whole > 0) {
        const KRef x = k_for(k, k_index(k, 0), k_index(k, whole), b.lanes, KFOR_SERIAL, "x");
        b.from = k_add(k, from, x);
        b.to = k_expr(k, "$ * # + $", x, c->in.column, to);
        turn_block(c, &b);
        k_end(k);
    }
    b.pixels = pixels - whole;
    b.from = k_expr(k, "$ + #", from, whole);
    b.to = k_expr(k, "$ + #", to, whole * c->in.column);
    if (b.pixels > 0)
        turn_block(c, &b);
}

static void turn_row(const IntConv *c, KRef from, KRef to, int64_t pixels, uint8_t lanes)
{
    Kernel *k = c->l->k;
    const int64_t all = (int64_t)lanes * WORD, whole = c->ic / all;
    const KRef g = c->group == 1 ? k_index(k, 0) : k_loop(k, c->group, KFOR_SERIAL, "g");
    from = k_expr(k, "$ * # + $", g, c->ic * c->stride_c, from);
    to = k_expr(k, "$ * # + $", g, c->words, to);
    if (whole > 0) {
        const KRef w = k_loop(k, whole, KFOR_SERIAL, "w");
        turn_pixels(c,
                    (TurnBlock){.from = k_expr(k, "$ * # + $", w, all * c->stride_c, from),
                                .to = k_expr(k, "$ * # + $", w, lanes, to),
                                .channels = all,
                                .lanes = lanes},
                    pixels);
        k_end(k);
    }
    if (c->ic % all != 0)
        turn_pixels(c,
                    (TurnBlock){.from = k_expr(k, "$ + #", from, whole * all * c->stride_c),
                                .to = k_expr(k, "$ + #", to, whole * lanes),
                                .channels = c->ic % all,
                                .lanes = lanes},
                    pixels);
    if (c->group > 1)
        k_end(k);
}

// Pixels of one word each: a vector of them at a time, of which nothing has to be turned.
static void join_row(const IntConv *c, KRef from, KRef to, int64_t pixels)
{
    Kernel *k = c->l->k;
    const uint8_t lanes = lower_fit_lanes(c->l, pixels);
    const int64_t rest = pixels % lanes, whole = pixels - rest;
    if (whole > 0) {
        const KRef x = k_for(k, k_index(k, 0), k_index(k, whole), lanes, KFOR_SERIAL, "x");
        put_words(c, k_add(k, to, x), gather_words(c, k_add(k, from, x), c->ic, lanes, lanes), lanes);
        k_end(k);
    }
    if (rest > 0)
        put_words(c, k_expr(k, "$ + #", to, whole),
                  gather_words(c, k_expr(k, "$ + #", from, whole), c->ic, lanes, rest), (uint8_t)rest);
}

// --- rows ----------------------------------------------------------------------------------------

static void copy_pixels(const IntConv *c, KRef from, KRef to, int64_t inside)
{
    Kernel *k = c->l->k;
    const int64_t pixel = c->group * c->words;
    const uint8_t lanes = turned_lanes(c, inside);
    if (lanes > 1) {
        turn_row(c, from, to, inside, lanes);
        return;
    }
    if (has_words(c) && c->stride_w == WORD * pixel) { // all words of the row follow each other
        copy_words(c, from, to, inside * pixel);
        return;
    }
    if (c->stride_w == 1 && !has_words(c) && pixel == 1) {
        join_row(c, from, to, inside);
        return;
    }
    const KRef x = k_loop(k, inside, KFOR_SERIAL, "x");
    const int64_t step = has_words(c) ? c->stride_w / WORD : c->stride_w;
    copy_pixel(c, k_expr(k, "$ * # + $", x, step, from), k_expr(k, "$ * # + $", x, pixel, to));
    k_end(k);
}

// A row of pixels that is inside the input, between its paddings.
static void copy_row(const IntConv *c, KRef from, KRef to, int64_t columns, KRef zero)
{
    Kernel *k = c->l->k;
    const int64_t pixel = c->group * c->words, left = c->pad_w < columns ? c->pad_w : columns;
    const int64_t room = columns - left, inside = c->in_w < room ? c->in_w : room;
    fill_pixels(c, to, left, zero);
    fill_pixels(c, k_expr(k, "$ + #", to, (left + inside) * pixel), columns - left - inside, zero);
    if (inside > 0)
        copy_pixels(c, from, k_expr(k, "$ + #", to, left * pixel), inside);
}

static KRef zero_word(const IntConv *c)
{
    const int32_t each = c->in.odd != 0 ? 0x00010001 : 0x01010101;
    return k_mul(c->l->k, int_conv_zero(c), k_integer(c->l->k, DTYPE_i32, each));
}

// A row of the copy, at `to`, of the input's row `row`, which may be outside of it. image: where that begins.
static void copy_any_row(const IntConv *c, KRef image, KRef row, KRef to, KRef zero)
{
    Kernel *k = c->l->k;
    const int64_t unit = has_words(c) ? WORD : 1;
    const int64_t columns = int_conv_reach(c->w_out, c->sw, c->kw, c->dw);
    const bool may_leave = c->pad_h != 0 || int_conv_reach(c->h, c->sh, c->kh, c->dh) > c->in_h;
    const KRef is_inside = k_expr(k, "0 <= $ & $ < #", row, row, c->in_h);
    if (may_leave)
        k_if(k, is_inside);
    copy_row(c, k_expr(k, "$ * # + $", row, c->stride_h / unit, image), to, columns, zero);
    if (may_leave) {
        k_else(k);
        fill_words(c, to, c->in.row, zero);
        k_end(k);
    }
}

// Makes the copy: [image][slice][row][column][group][word], padding of rows and columns included.
static void copy_input(const IntConv *c, int64_t rows)
{
    Kernel *k = c->l->k;
    const int64_t unit = has_words(c) ? WORD : 1;
    const KRef zero = zero_word(c);
    const KRef n = k_loop(k, c->n, KFOR_PARALLEL, "n");
    const KRef z = c->in_d > 1 ? k_loop(k, c->in_d, KFOR_PARALLEL, "z") : k_index(k, 0);
    const KRef y = k_loop(k, rows, KFOR_PARALLEL, "y");
    const KRef slice = k_expr(k, "$ * # + $ * #", n, c->in.image, z, c->in.slice);
    const KRef image = k_expr(k, "$ * # + $ * #", n, c->stride_n / unit, z, c->stride_d / unit);
    copy_any_row(c, image, k_expr(k, "$ + #", y, -c->pad_h), k_expr(k, "$ * # + $", y, c->in.row, slice),
                 zero);
    k_ends(k, c->in_d > 1 ? 3 : 2);
    k_barrier(k);
}

void int_conv_copy_rows(const IntConv *c, KRef image, KRef row, int64_t rows)
{
    Kernel *k = c->l->k;
    rlx_assert(c->copies == INT_COPY_ROWS && has_words(c));
    uint32_t opened = 0;
    const int64_t read = int_conv_reach(rows, c->sh, c->kh, c->dh);
    const KRef zero = zero_word(c);
    const KRef y = lower_open_count(k, read, KFOR_SERIAL, "y", &opened);
    copy_any_row(c, k_expr(k, "$ * #", image, c->stride_n / WORD),
                 k_expr(k, "$ * # + $ + #", row, c->sh, y, -c->pad_h),
                 k_expr(k, "$ * # + $", y, c->in.row, c->copy_at), zero);
    k_ends(k, opened);
}

void int_conv_copy_tile(const IntTile *t)
{
    const IntConv *c = t->c;
    Kernel *k = c->l->k;
    rlx_assert(c->copies == INT_COPY_TILE && has_words(c));
    uint32_t opened = 0;
    const KRef y = lower_open_count(k, t->rows, KFOR_SERIAL, "y", &opened);
    const int64_t n = c->stride_n / WORD, h = c->stride_h / WORD, w = c->stride_w / WORD;
    const KRef first = k_expr(k, "$ * # + $ * #", t->image, n, t->column, w);
    const KRef row = k_expr(k, "($ + $) * # + $", t->row, y, h, first);
    copy_pixels(c, row, k_expr(k, "$ * # + $", y, c->in.row, c->copy_at), t->columns);
    k_ends(k, opened);
}

// Where tiles read, if the input lies in a frame of zero points (which is as wide as any reader needs).
static bool has_border(IntConv *c, int64_t rows, int64_t columns)
{
    const PlanBorder *b = border_find(c->l->plan, c->x);
    if (b == NULL)
        return false;
    Loc at = *lower_loc(c->l, c->x);
    at.offset =
        ((b->before[0] - c->pad_h) * c->stride_h + (b->before[1] - c->pad_w) * c->stride_w) / WORD;
    rlx_assert(at.offset >= 0 && rows - c->pad_h <= c->in_h + b->after[0]);
    c->in = (IntInput){
        .image = c->stride_n / WORD, .row = c->stride_h / WORD, .column = c->stride_w / WORD};
    const TensorType t = {DTYPE_i32, {.rank = 4, .dim = {c->n, c->in.column, rows, columns}}};
    memcpy(at.stride, (int64_t[]){c->in.image, 1, c->in.row, c->in.column}, 4 * sizeof *at.stride);
    c->in.param = lower_param_typed(c->l, &t, &at, "x", PARAM_READ);
    return true;
}

// Windows of one pixel read what they need only, whatever their stride.
static void leave_out_pixels(IntConv *c)
{
    if (c->kh * c->kw != 1 || has_padding(c))
        return;
    c->stride_h *= c->sh;
    c->stride_w *= c->sw;
    c->sh = c->sw = 1;
    c->in_h = c->h;
    c->in_w = c->w_out;
}

// Of halves: a copy of all is read from afar if it is large, but rows of several windows are copied again and
// again otherwise. rows: of the copy.
static IntCopy choose_copy(const IntConv *c, int64_t rows)
{
    enum { LOOPS_FOR_THREAD = 4 };
    const int64_t least = LOOPS_FOR_THREAD * (c->l->caps->threads > 1 ? (int64_t)c->l->caps->threads : 1);
    const int64_t groups = c->n * ceil_div(c->h, c->rows), tiles = groups * ceil_div(c->w_out, c->columns);
    if (!has_words(c) || c->depth * c->in_d * c->kd != 1 || c->group > 1 || int_conv_goes_by_blocks(c))
        return INT_COPY_ALL;
    if (c->kh * c->kw == 1 && !has_padding(c))
        return tiles >= least ? INT_COPY_TILE : INT_COPY_ALL;
    const int64_t bytes = c->n * rows * c->in.row * WORD;
    return groups >= least && bytes > c->l->caps->cpu.l2_bytes / 2 ? INT_COPY_ROWS : INT_COPY_ALL;
}

// The input in halves, in the copy of which the tiles read.
static void prepare_halves(IntConv *c)
{
    leave_out_pixels(c);
    const int64_t rows = int_conv_reach(c->h, c->sh, c->kh, c->dh);
    const int64_t columns = int_conv_reach(c->w_out, c->sw, c->kw, c->dw);
    c->in.column = c->group * c->words;
    c->in.odd = columns * c->in.column;
    const int64_t halves = int_conv_has_odd(c) ? 2 : 1;
    c->in.row = halves * c->in.odd;
    c->copies = choose_copy(c, rows);
    if (c->copies == INT_COPY_TILE) {
        c->in.odd = c->columns * c->in.column;
        c->in.row = halves * c->in.odd;
    }
    c->in.slice = rows * c->in.row;
    c->in.image = c->in_d * c->in.slice;
    if (c->copies == INT_COPY_ALL) {
        c->copy = lower_param_scratch(c->l, "halves", DTYPE_i32, (uint64_t)(c->n * c->in.image));
        copy_input(c, rows);
    } else {
        const uint64_t words = (uint64_t)(int_conv_reach(c->rows, c->sh, c->kh, c->dh) * c->in.row);
        c->copy = lower_param_thread_scratch(c->l, "halves", DTYPE_i32, words, &c->copy_at);
    }
    c->in.param = c->copy;
}

void int_conv_prepare_input(IntConv *c)
{
    const int64_t rows = int_conv_reach(c->h, c->sh, c->kh, c->dh);
    const int64_t columns = int_conv_reach(c->w_out, c->sw, c->kw, c->dw);
    if (has_border(c, rows, columns))
        return;
    if (has_words(c))
        c->source = int_conv_words(c);
    if (!c->l->caps->has_dot8) {
        prepare_halves(c);
        return;
    }
    if (has_words(c) && !has_padding(c)) {
        c->in = (IntInput){.param = c->source,
                           .image = c->stride_n / WORD,
                           .slice = c->stride_d / WORD,
                           .row = c->stride_h / WORD,
                           .column = c->stride_w / WORD};
        return;
    }
    c->in.column = c->group * c->words;
    c->in.row = columns * c->in.column;
    c->in.slice = rows * c->in.row;
    c->in.image = c->in_d * c->in.slice;
    c->copy = lower_param_scratch(c->l, "padded", DTYPE_i32, (uint64_t)(c->n * c->in.image));
    c->in.param = c->copy;
    copy_input(c, rows);
}
