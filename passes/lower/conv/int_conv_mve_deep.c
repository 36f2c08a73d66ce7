// SPDX-License-Identifier: Apache-2.0
// int_conv of one input channel a group for microcontrollers with vectors of bytes (ir/kernel/mve.h):
// depthwise convolutions of any window and multiplier. Of 16 channels, the rows that some output rows need
// are interleaved, so that four rows of a column are one word, in a plane. A row that is left over has a
// plane of its own, where a word is four taps of it, if windows have fewer vectors of four words then. A
// window of one vector has its weights in registers.
#include "ir/kernel/mve.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_byte_scale.h"
#include "passes/lower/conv/int_conv_byte_windows.h"

enum { STRIP_BYTES = 512, MAX_BYTES = 8192, COLUMN_BYTES = MVE_CHANNELS * 4, MIN_PIXELS = 3 };

typedef struct Deep {
    IntConv c;
    const Domain *d;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *begin;  // what sums begin with, by channel
    ByteScales scales;     // of the channels in our order: first, all inputs' first ones
    int64_t zero;          // of the input, as a byte with a sign
    int64_t part, parts;   // outputs of a row at a time, and how often
    int64_t columns;       // that they read, with borders
    int64_t groups, flat;  // planes of four rows, and of one
    int64_t vectors;       // of a window
    int64_t strip;         // output rows at a time
    int64_t set_words;     // of the weights of 16 channels
    uint32_t x, weights, t, row;
} Deep;

static int64_t planes(const Deep *s)
{
    return s->groups + s->flat;
}

static int64_t row_bytes(const Deep *s)
{
    return planes(s) * s->columns * COLUMN_BYTES;
}

// Are weights in registers?
static bool is_narrow(const Deep *s)
{
    return s->vectors == 1;
}

// --- sets of channels ----------------------------------------------------------------------------

// The last one has what is left of a multiple of four, with channels of the one before.
static int64_t sets(const Deep *s)
{
    return ceil_div(s->c.group / MVE_BLOCK, MVE_CHANNELS / MVE_BLOCK) + (s->c.group % MVE_BLOCK != 0);
}

static int64_t whole(const Deep *s)
{
    return s->c.group / MVE_BLOCK * MVE_BLOCK;
}

static int64_t first_of(const Deep *s, int64_t set)
{
    const int64_t at = set * MVE_CHANNELS, last = s->c.group - MVE_BLOCK;
    return at < last ? at : last;
}

static int64_t channels_of(const Deep *s, int64_t set)
{
    const int64_t left = whole(s) - set * MVE_CHANNELS;
    return left > MVE_CHANNELS ? MVE_CHANNELS : left > 0 ? left : MVE_BLOCK;
}

// --- weights -------------------------------------------------------------------------------------

// Words of the taps that a plane has.
static int64_t words_of_plane(const Deep *s, bool is_flat)
{
    return is_flat ? ceil_div(s->c.kw, 4) : s->c.kw;
}

typedef struct Word {
    int64_t plane, at; // at: among those of the plane
    bool is_flat;
} Word;

static Word word_of(const Deep *s, int64_t i)
{
    const bool is_flat = i >= s->groups * s->c.kw;
    const int64_t n = words_of_plane(s, is_flat), from = is_flat ? i - s->groups * s->c.kw : i;
    return (Word){from / n + (is_flat ? s->groups : 0), from % n, is_flat};
}

// Byte i of the words of a window.
static int32_t weight(const Deep *s, int64_t channel, int64_t i)
{
    const IntConv *c = &s->c;
    const Word w = word_of(s, i / 4);
    const int64_t row = w.is_flat ? 4 * s->groups + w.plane - s->groups : 4 * w.plane + i % 4;
    const int64_t column = w.is_flat ? 4 * w.at + i % 4 : w.at;
    return row < c->kh && column < c->kw ? s->values[(channel * c->kh + row) * c->kw + column] : 0;
}

// Where a word is, in bytes from the first one on; 0 for words without weights.
static int64_t offset_of(const Deep *s, int64_t i)
{
    const Word w = word_of(s, i);
    const int64_t column = w.at * s->c.dw * (w.is_flat ? 4 : 1);
    return w.plane < planes(s) ? (w.plane * s->columns + column) * COLUMN_BYTES : 0;
}

// Channel `o` of those of an input, of the inputs from `first` on.
static void pack_block(const Deep *s, int64_t first, int64_t o, unsigned char **out)
{
    const int64_t shared = s->c.oc;
    if (!is_narrow(s))
        byte_put_word(out, 4 * (MVE_BLOCK + s->vectors * MVE_INPUTS + byte_tail_words(&s->scales, first)));
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        byte_put_word(out, s->begin[(first + j) * shared + o] + s->scales.moved);
    for (int64_t v = 0; v < s->vectors; v++)
        for (int64_t j = 0; j < MVE_BLOCK * MVE_INPUTS; j++) {
            const int64_t channel = (first + j / MVE_INPUTS) * shared + o;
            *(*out)++ = (unsigned char)weight(s, channel, v * MVE_INPUTS + j % MVE_INPUTS);
        }
    byte_pack_tail(&s->scales, o, first, out);
}

static void pack_head(const Deep *s, int64_t set, unsigned char **out)
{
    const IntConv *c = &s->c;
    const int64_t step = c->sw * COLUMN_BYTES;
    const int64_t head[MVE_WIDE_HEAD] = {channels_of(s, set) / MVE_BLOCK, c->oc, step, row_bytes(s),
                                         byte_scales_high(&s->scales)};
    for (int64_t i = 0; i < MVE_WIDE_HEAD && !is_narrow(s); i++)
        byte_put_word(out, head[i]);
    for (int64_t i = 0; i < s->vectors * 4; i++)
        byte_put_word(out, offset_of(s, i));
    if (is_narrow(s)) {
        byte_put_word(out, step);
        byte_put_word(out, row_bytes(s) - s->part * step);
        byte_put_word(out, head[0]);
        byte_put_word(out, c->oc);
    }
}

// [set][channel of an input][block]
static void pack(const void *ctx, void *bytes)
{
    const Deep *s = ctx;
    for (int64_t i = 0; i < sets(s) * s->c.oc; i++) {
        unsigned char *out = (unsigned char *)bytes + i * s->set_words * 4;
        const int64_t set = i / s->c.oc;
        pack_head(s, set, &out);
        for (int64_t j = 0; j < channels_of(s, set); j += MVE_BLOCK)
            pack_block(s, first_of(s, set) + j, i % s->c.oc, &out);
    }
}

static int64_t words_of_set(const Deep *s, int64_t set)
{
    int64_t words = is_narrow(s) ? MVE_DEEP_HEAD : MVE_WIDE_HEAD + s->vectors * 4;
    for (int64_t i = 0; i < channels_of(s, set); i += MVE_BLOCK)
        words += !is_narrow(s) + MVE_BLOCK + s->vectors * MVE_INPUTS +
                 byte_tail_words(&s->scales, first_of(s, set) + i);
    return words;
}

// --- planes --------------------------------------------------------------------------------------

// `count` columns to index `to` on of the rows of which `rows` exist from row lo on. x: the address of the
// first.
typedef struct Columns {
    KDevice function;
    KRef to, x, n, count, step, lo, rows, pitch;
} Columns;

static void emit_columns(const Deep *s, const Columns *v)
{
    Kernel *k = s->c.l->k;
    k_device(k, v->function, k_address(k, s->t, v->to), v->x, v->n, v->count, v->step, v->lo, v->rows,
             v->pitch, k_index(k, s->zero));
}

// For columns of the input.
static KDevice of_input(const Deep *s)
{
    return int_conv_is_signed(&s->c) ? KDEV_mve_columns_i8 : KDEV_mve_columns_u8;
}

// Of a row of outputs, whose planes begin at plane `to`; x: index of its first channel in the input's row 0;
// top, left: the input's row and column of its first tap. Of the columns, first .. last - 1 exist.
typedef struct Row {
    KRef to, x, n, top, left, first, last;
} Row;

static KRef index_of(const Deep *s, const Row *r, KRef plane, KRef column)
{
    return k_expr(s->c.l->k, "(($ + $) * # + $) * #", r->to, plane, s->columns, column, MVE_CHANNELS);
}

// Columns that do not exist.
static void emit_zeros(const Deep *s, KRef to, KRef count)
{
    Kernel *k = s->c.l->k;
    const KRef zero = k_index(k, 0);
    int64_t n = -1;
    if (k_is_const(k, count, &n) && n == 0)
        return;
    emit_columns(s, &(Columns){.function = of_input(s),
                               .to = to,
                               .x = k_address(k, s->x, zero),
                               .n = k_index(k, MVE_CHANNELS),
                               .count = count,
                               .step = zero,
                               .lo = zero,
                               .rows = zero,
                               .pitch = zero});
}

static void emit_group(const Deep *s, const Row *r, KRef group)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const int64_t rows = s->groups == 1 && c->kh < MVE_ROWS ? c->kh : MVE_ROWS;
    const KRef top = k_expr(k, "$ + $ * #", r->top, group, MVE_ROWS * c->dh);
    const ByteTaps taps = byte_taps_inside(k, top, rows, c->dh, c->in_h);
    const KRef from = k_expr(k, "$ + ($ + $ * #) * # + ($ + $) * #", r->x, top, taps.lo, c->dh, c->stride_h,
                             r->left, r->first, c->stride_w);
    const KRef x = k_select(k, k_expr(k, "0 < $", taps.n), from, k_index(k, 0));
    const KRef left = k_expr(k, "max(0, # - $ * # - $)", c->kh, group, MVE_ROWS, taps.lo);
    const KRef there =
        s->groups == 1 || c->kh % MVE_ROWS == 0 ? taps.n : k_expr(k, "min($, $)", taps.n, left);
    if (s->parts > 1) {
        emit_zeros(s, index_of(s, r, group, k_index(k, 0)), r->first);
        emit_zeros(s, index_of(s, r, group, r->last), k_expr(k, "# - $", s->columns, r->last));
    }
    emit_columns(s, &(Columns){.function = of_input(s),
                               .to = index_of(s, r, group, r->first),
                               .x = k_address(k, s->x, x),
                               .n = r->n,
                               .count = k_sub(k, r->last, r->first),
                               .step = k_index(k, c->stride_w),
                               .lo = taps.lo,
                               .rows = there,
                               .pitch = k_index(k, c->dh * c->stride_h)});
}

static void emit_zero_row(const Deep *s)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    k_device(k, KDEV_byte_fill, k_address(k, s->row, k_index(k, 0)),
             k_index(k, (s->columns + (MVE_ROWS - 1) * c->dw) * MVE_CHANNELS), k_index(k, s->zero));
}

// A row is copied with its borders; then four columns of it, dw apart, are interleaved.
static void emit_flat(const Deep *s, const Row *r, KRef plane)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const KRef zero = k_index(k, 0);
    const KRef at = k_expr(k, "$ + ($ + #) * #", r->top, plane, MVE_ROWS * s->groups, c->dh);
    const KRef is_there = k_expr(k, "0 <= $ & $ < #", at, at, c->in_h);
    const KRef from =
        k_expr(k, "$ + $ * # + ($ + $) * #", r->x, at, c->stride_h, r->left, r->first, c->stride_w);
    const bool is_full = c->group % MVE_CHANNELS == 0; // a run for each column, else a pixel
    const KRef n = k_sub(k, r->last, r->first), one = k_index(k, 1), step = k_index(k, c->stride_w);
    if (s->parts > 1)
        emit_zero_row(s);
    k_if(k, is_there);
    k_device(k, int_conv_is_signed(c) ? KDEV_byte_window_i8 : KDEV_byte_window_u8,
             k_address(k, s->row, k_expr(k, "$ * #", r->first, MVE_CHANNELS)), k_address(k, s->x, from), r->n,
             is_full ? n : one, step, is_full ? one : n, step, k_index(k, MVE_CHANNELS));
    k_end(k);
    emit_columns(s, &(Columns){.function = KDEV_mve_columns_i8,
                               .to = index_of(s, r, k_expr(k, "$ + #", plane, s->groups), zero),
                               .x = k_address(k, s->row, zero),
                               .n = k_index(k, MVE_CHANNELS),
                               .count = k_index(k, s->columns),
                               .step = k_index(k, MVE_CHANNELS),
                               .lo = zero,
                               .rows = k_select(k, is_there, k_index(k, MVE_ROWS), zero),
                               .pitch = k_index(k, c->dw * MVE_CHANNELS)});
}

// Outputs from (y, column) on, in `rows` rows of an image.
typedef struct Part {
    KRef image, y, column, rows;
} Part;

// The planes of row `row` of outputs. x: index of its first channel.
static void emit_row(const Deep *s, const Part *p, KRef row, KRef x, KRef n)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    Row r = {.to = k_expr(k, "$ * #", row, planes(s)),
             .x = x,
             .n = n,
             .top = k_expr(k, "($ + $) * # + #", p->y, row, c->sh, -c->pad_h),
             .left = k_expr(k, "$ * # + #", p->column, c->sw, -c->pad_w)};
    r.last = k_expr(k, "max(0, min(#, # - $))", s->columns, c->in_w, r.left);
    r.first = k_expr(k, "min($, max(0, 0 - $))", r.last, r.left);
    uint32_t opened = 0;
    if (s->groups > 0)
        emit_group(s, &r, lower_open_count(k, s->groups, KFOR_SERIAL, "group", &opened));
    lower_close(c->l, opened);
    opened = 0;
    if (s->flat > 0)
        emit_flat(s, &r, lower_open_count(k, s->flat, KFOR_SERIAL, "plane", &opened));
    lower_close(c->l, opened);
}

// Where rows are computed as a whole, borders stay.
static void emit_borders(const Deep *s)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    if (s->parts == 1 && (c->pad_w > 0 || c->pad_w + c->in_w < s->columns) && s->groups > 0)
        emit_zeros(s, k_index(k, 0), k_index(k, s->strip * planes(s) * s->columns));
    if (s->parts == 1 && s->flat > 0)
        emit_zero_row(s);
}

// --- loops ---------------------------------------------------------------------------------------

// The outputs of n inputs' channels from `first` on.
static void emit_outputs(const Deep *s, const Part *part, KRef set, KRef first, KRef n)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const int64_t pitch = int_conv_result(c, s->d)->stride[s->d->rank - 1];
    IntConv one = *c; // channels of the result are counted one by one
    one.oc = 1;
    const IntPixel at = {.at = conv_point(s->d, part->image, first, part->y, part->column)}, *p = &at;
    uint32_t opened = 0;
    const KRef begin = k_expr(k, "$ * #", first, c->oc);
    const KRef o = lower_open_count(k, c->oc, KFOR_SERIAL, "o", &opened);
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(&one, s->d, p, k_add(k, begin, o), 0),
        k_address(k, s->t, k_index(k, 0)),
        k_address(k, s->weights, k_expr(k, "($ * # + $) * #", set, c->oc, o, s->set_words)),
        k_expr(k, "($ - 1) * # + 1", n, c->oc),
        k_index(k, s->part),
        part->rows,
        k_index(k, pitch),
        k_index(k, c->w_out * pitch),
        k_index(k, is_narrow(s) ? byte_scales_high(&s->scales) : s->vectors * MVE_INPUTS)};
    const KDevice function = !is_narrow(s) ? KDEV_mve_wide : c->oc == 1 ? KDEV_mve_deep : KDEV_mve_apart;
    k_device_list(k, function, s->scales.shift, operands);
    lower_close(c->l, opened);
    int_ends_emit(c, &s->scales.ends,
                  &(IntBytes){int_result_at(&one, s->d, p, begin, 0), k_expr(k, "$ * #", n, c->oc),
                              k_expr(k, "$ * #", part->rows, s->part), pitch});
}

// 16 channels, or what is left of them.
static void emit_set(const Deep *s, const Part *p, KRef set)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const KRef n = c->group % MVE_CHANNELS == 0
                       ? k_index(k, MVE_CHANNELS)
                       : k_expr(k, "max(#, min(#, # - $ * #))", MVE_BLOCK, MVE_CHANNELS, whole(s), set,
                                MVE_CHANNELS);
    const KRef at = k_expr(k, "$ * #", set, MVE_CHANNELS);
    const KRef first = c->group % MVE_BLOCK == 0 ? at : k_expr(k, "min($, #)", at, c->group - MVE_BLOCK);
    const KRef x = k_expr(k, "$ * # + $", p->image, c->stride_n, first);
    const KRef row = s->strip == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), p->rows, 1, KFOR_SERIAL, "i");
    emit_row(s, p, row, x, n);
    lower_close(c->l, s->strip > 1);
    emit_outputs(s, p, set, first, n);
}

static void emit(const Deep *s)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    emit_borders(s);
    Part p = {.image = lower_open_count(k, c->n, KFOR_PARALLEL, "image", &opened)};
    const KRef strip = lower_open_count(k, ceil_div(c->h, s->strip), KFOR_PARALLEL, "strip", &opened);
    p.y = k_expr(k, "$ * #", strip, s->strip);
    p.rows = c->h % s->strip == 0 ? k_index(k, s->strip) : k_expr(k, "min(#, # - $)", s->strip, c->h, p.y);
    const KRef part = lower_open_count(k, s->parts, KFOR_SERIAL, "part", &opened);
    p.column = k_expr(k, "min($ * #, #)", part, s->part, c->w_out - s->part); // some twice
    const KRef set = lower_open_count(k, sets(s), KFOR_SERIAL, "set", &opened);
    emit_set(s, &p, set);
    lower_close(c->l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

// Results of mve_wide are written to places that halves of words say.
static bool are_near(const Deep *s)
{
    const int64_t pitch = int_conv_result(&s->c, s->d)->stride[s->d->rank - 1];
    return is_narrow(s) || pitch + MVE_BLOCK * s->c.oc <= UINT16_MAX;
}

static bool fits(const Deep *s)
{
    const IntConv *c = &s->c;
    const TargetCaps *caps = c->l->caps;
    return caps->byte_vectors == BYTE_VECTORS_MVE && caps->threads <= 1 && int_conv_knows_bias(c) &&
           int_conv_knows_zero(c) && c->ic == 1 && c->oc > 0 && c->group >= MVE_BLOCK && c->stride_c == 1 &&
           c->w_out >= MIN_PIXELS && !int_conv_has_live_axes(c, s->d) &&
           int_conv_has_byte_weights(c, s->values);
}

// Which planes windows have.
static void choose_planes(Deep *s)
{
    const IntConv *c = &s->c;
    const int64_t whole_groups = c->kh / MVE_ROWS, rest = c->kh % MVE_ROWS;
    const int64_t joined = ceil_div(ceil_div(c->kh, MVE_ROWS) * c->kw, MVE_WORDS);
    const int64_t apart = ceil_div(whole_groups * c->kw + rest * ceil_div(c->kw, 4), MVE_WORDS);
    s->flat = apart < joined ? rest : 0;
    s->groups = s->flat > 0 ? whole_groups : ceil_div(c->kh, MVE_ROWS);
    s->vectors = s->flat > 0 ? apart : joined;
}

// False: windows are too long.
static bool measure(Deep *s)
{
    const IntConv *c = &s->c;
    choose_planes(s);
    const int64_t more = (c->kw - 1) * c->dw + 1, room = MAX_BYTES / (planes(s) * COLUMN_BYTES) - more;
    if (room < 0)
        return false;
    s->parts = ceil_div(c->w_out, room / c->sw + 1);
    s->part = ceil_div(c->w_out, s->parts);
    s->columns = (s->part - 1) * c->sw + more;
    const int64_t most = STRIP_BYTES / row_bytes(s);
    s->strip = s->parts > 1 || most < 1 ? 1 : most < c->h ? most : c->h;
    return s->part >= MIN_PIXELS && c->in_w > 0;
}

// The scales of the channels in the order in which sets have them.
static RequantScale *in_our_order(const Deep *s, const RequantScale *of)
{
    const int64_t inputs = s->c.group, shared = s->c.oc;
    RequantScale *sorted = ARENA_ARRAY(s->c.l->pass->perm, RequantScale, (size_t)(inputs * shared));
    for (int64_t i = 0; i < inputs * shared; i++)
        sorted[i] = of[i % inputs * shared + i / inputs];
    return sorted;
}

static void add_params(Deep *s)
{
    const IntConv *c = &s->c;
    Lower *l = c->l;
    s->begin = int_conv_begins(c, s->values, s->zero);
    s->scales.of = in_our_order(s, s->scales.of);
    for (int64_t i = 0; i < sets(s); i++)
        s->set_words = words_of_set(s, i) > s->set_words ? words_of_set(s, i) : s->set_words;
    s->x = lower_param(l, c->x, PARAM_READ);
    Deep *packing = ARENA_NEW(l->pass->perm, Deep);
    *packing = *s;
    s->weights = lower_param_filled(l, node_name(l->g, c->w), DTYPE_i32, pack, packing,
                                    (uint64_t)(sets(s) * c->oc * s->set_words) * 4);
    s->t = lower_param_scratch(l, "columns", DTYPE_i32, (uint64_t)(s->strip * row_bytes(s) / 4));
    if (s->flat > 0)
        s->row = lower_param_scratch(l, "row", DTYPE_i8,
                                     (uint64_t)(s->columns + (MVE_ROWS - 1) * c->dw) * MVE_CHANNELS);
}

bool int_conv_mve_deep(const IntConv *c, const Domain *d, const int32_t *values)
{
    Lower *l = c->l;
    Deep s = {.c = *c, .d = d, .values = values};
    s.scales = (ByteScales){.groups = c->oc, .channels = c->group, .block = MVE_BLOCK};
    if (!fits(&s) || !measure(&s) || !are_near(&s) || !byte_scales_find(c, d, &s.scales) ||
        !lower_take(l))
        return false;
    s.zero = int_conv_zero_value(c) - (int_conv_is_signed(c) ? 0 : 128);
    add_params(&s);
    emit(&s);
    return true;
}
