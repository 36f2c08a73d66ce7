// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of 3 x 3 for microcontrollers with the DSP extension: the whole loop over the
// windows of four channels is a device function (ir/kernel/dsp.h), which all such layers of a network share.
// Sizes are its arguments. Other depthwise convolutions are loops of their own (int_conv_planes.c).
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv.h"

enum { MAX_BYTES = 4096, MAX_PAD = 2, MIN_COLUMNS = 3 };

typedef struct Taps {
    IntConv c; // rows and columns as they are walked
    const Domain *d;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *bias;   // by channel
    const RequantScale *scale;
    RequantEnds ends;
    int64_t high;
    bool is_turned;       // they have changed places
    int64_t y_row, y_col; // strides of the result
    int64_t strip;        // output rows at a time
    int64_t parts;        // of such a row, one after the other,
    int64_t columns;      // of so many columns
    int64_t pitch;        // words of a row of a plane
    uint32_t x, y, weights, planes;
} Taps;

static int64_t channels_of(const Taps *p)
{
    return p->c.group;
}

// What stands behind the records for a channel.
static int64_t own_bytes(const Taps *p, int64_t channel)
{
    const RequantScale *s = &p->scale[channel];
    return int_scale_is_own(s, p->high) ? DSP_TAPS_OWN + 8 * (int64_t)s->n_exceptions : 0;
}

static void put_word(uint8_t **out, int64_t v)
{
    for (uint32_t i = 0; i < 4; i++)
        *(*out)++ = (uint8_t)((uint64_t)v >> 8 * i);
}

static void put_own(const RequantScale *s, uint8_t **out)
{
    put_word(out, s->n_exceptions);
    put_word(out, s->factor);
    put_word(out, s->start);
    put_word(out, (int64_t)((uint64_t)s->start >> 32));
    for (uint32_t i = 0; i < s->n_exceptions; i++) {
        put_word(out, s->exception[i]);
        put_word(out, int_scale_instead(s, i));
    }
}

static void pack(const void *ctx, void *bytes)
{
    const Taps *p = ctx;
    uint8_t *out = bytes, *own = out + channels_of(p) * DSP_TAPS_BYTES;
    for (int64_t o = 0; o < channels_of(p); o++) {
        const RequantScale *s = &p->scale[o];
        const uint8_t *const record = out;
        for (int64_t i = 0; i < DSP_TAPS; i++)
            *out++ = (uint8_t)p->values[o * DSP_TAPS + (p->is_turned ? i % 3 * 3 + i / 3 : i)];
        put_word(&out, p->bias[o]);
        put_word(&out, int_scale_is_own(s, p->high) ? INT32_MIN + (own - record) : s->factor);
        if (int_scale_is_own(s, p->high))
            put_own(s, &own);
    }
}

// --- loops ---------------------------------------------------------------------------------------

// Rows of the result, and the columns of a part of them.
typedef struct Strip {
    KRef image, row, rows;
    KRef column;
} Strip;

static KRef result_at(const Taps *p, const Strip *s, KRef row, KRef channel)
{
    Lower *l = p->c.l;
    const KRef v = p->is_turned ? s->column : row, u = p->is_turned ? row : s->column;
    Pull pull = pull_at(l, p->d, conv_point(p->d, s->image, channel, v, u));
    pull.space = p->d->has_out_space ? SPACE_OUT : SPACE_IN;
    return k_address(l->k, p->y, pull_index(&pull, l->root));
}

static IntColumns columns_of(const Taps *p, const Strip *s)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    const int64_t end = int_conv_reach(p->columns, c->sw, c->kw, c->dw) - c->pad_w;
    if (p->parts > 1)
        return int_conv_columns(c, s->column, p->columns);
    return (IntColumns){k_index(k, 0), k_index(k, end < c->in_w ? end : c->in_w), k_index(k, c->pad_w)};
}

static void gather(const Taps *p, const Strip *s, KRef block)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    const IntColumns columns = columns_of(p, s);
    const KRef from = k_expr(k, "$ * # - #", s->row, c->sh, c->pad_h);
    const KRef n = k_expr(k, "($ - 1) * # + 3", s->rows, c->sh);
    const KRef lo = k_expr(k, "max(0, 0 - $)", from), hi = k_expr(k, "min($, # - $)", n, c->in_h, from);
    const KRef row = k_expr(k, "$ * # + ($ + $) * #", s->image, c->stride_n, from, lo, c->stride_h);
    const KRef x = k_expr(k, "$ + $ * # + $ * #", row, block, DSP_BLOCK, columns.first, c->stride_w);
    const int64_t shape = dsp_shape(0, p->pitch, int_conv_zero_value(c));
    k_device(k, int_conv_is_signed(c) ? KDEV_dsp_planes_i8 : KDEV_dsp_planes_u8,
             k_address(k, p->planes, k_index(k, 0)), k_address(k, p->x, x), lo, k_sub(k, hi, lo), n,
             columns.n, k_index(k, c->stride_h), k_index(k, c->stride_w),
             k_expr(k, "$ + #", columns.before, shape));
}

static void emit_block(const Taps *p, const Strip *s, KRef block)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    gather(p, s, block);
    const KRef channel = k_expr(k, "$ * #", block, DSP_BLOCK);
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        result_at(p, s, s->row, channel),
        k_address(k, p->planes, k_index(k, 0)),
        k_address(k, p->weights, k_expr(k, "$ * #", block, DSP_BLOCK * DSP_TAPS_BYTES)),
        s->rows,
        k_index(k, p->columns),
        k_index(k, p->y_row),
        k_index(k, p->y_col),
        k_index(k, p->high)};
    k_device_list(k, c->sw == 1 ? KDEV_dsp_taps1 : KDEV_dsp_taps2, p->scale[0].shift, operands);
}

// Of all channels of a strip.
static void emit_ends(const Taps *p, const Strip *s)
{
    Kernel *k = p->c.l->k;
    if (requant_ends_are_plain(&p->ends))
        return;
    const KRef zero = k_index(k, 0), row = k_for(k, zero, s->rows, 1, KFOR_SERIAL, "row");
    int_ends_emit(&p->c, &p->ends,
                  &(IntBytes){result_at(p, s, k_add(k, s->row, row), zero), k_index(k, channels_of(p)),
                              k_index(k, p->columns), p->y_col});
    k_end(k);
}

// Strip `number` of an image, or a part of one, of which all come one after the other.
static Strip strip_at(const Taps *p, KRef image, KRef number)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    Strip s = {.image = image, .column = k_index(k, 0)};
    if (p->parts > 1) {
        s.row = k_expr(k, "$ / #", number, p->parts);
        s.rows = k_index(k, p->strip);
        s.column = k_expr(k, "($ - $ * #) * #", number, s.row, p->parts, p->columns);
        return s;
    }
    s.row = k_expr(k, "$ * #", number, p->strip);
    s.rows = c->h % p->strip == 0 ? k_index(k, p->strip) : k_expr(k, "min(#, # - $)", p->strip, c->h, s.row);
    return s;
}

// All channels of a strip before the next one: so results may lie over what was read
// (passes/plan/ram/lead.h).
static void emit(const Taps *p)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0, inner = 0;
    const KRef n = lower_open_count(k, c->n, KFOR_TURNS, "n", &opened);
    rlx_assert(p->parts == 1 || (p->strip == 1 && !p->is_turned));
    const KRef number = lower_open_count(k, ceil_div(c->h, p->strip) * p->parts, KFOR_TURNS, "s", &opened);
    const Strip s = strip_at(p, n, number);
    const KRef o = lower_open_count(k, channels_of(p) / DSP_BLOCK, KFOR_TURNS, "o", &inner);
    emit_block(p, &s, o);
    lower_close(c->l, inner);
    emit_ends(p, &s);
    lower_close(c->l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

static void turn(Taps *p)
{
    const int64_t row = p->y_row;
    p->is_turned = !p->is_turned;
    int_conv_turn(&p->c);
    p->y_row = p->y_col;
    p->y_col = row;
}

// Instructions, but for what both orders need.
static int64_t cost_of(const IntConv *c)
{
    return c->w_out < MIN_COLUMNS ? INT64_MAX : c->h * dsp_taps_insns(c->w_out);
}

static bool has_scales(const Taps *p)
{
    const int64_t shift = p->scale[0].shift;
    for (int64_t o = 0; o < channels_of(p); o++)
        if (!int_scale_fits(&p->scale[o], shift, INT64_MAX))
            return false;
    return shift >= 1 && shift <= DSP_MAX_SHIFT && p->high >= INT32_MIN && p->high <= INT32_MAX;
}

static bool is_near(int64_t out, int64_t stride, int64_t pad, int64_t in)
{
    const int64_t behind = (out - 1) * stride + 3 - pad - in;
    return pad >= 0 && pad <= MAX_PAD && behind <= MAX_PAD;
}

static bool fits(const Taps *p)
{
    const IntConv *c = &p->c;
    const TargetCaps *caps = c->l->caps;
    if (!caps->has_dsp || caps->threads > 1 || c->ic != 1 || c->oc != 1 || c->kh != 3 || c->kw != 3 ||
        c->dh != 1 || c->dw != 1 || c->sh != c->sw || c->sw > 2 || p->d->rank != 4)
        return false;
    return int_conv_knows_bias(c) && int_conv_knows_zero(c) && int_conv_has_words(c) &&
           !int_conv_has_live_axes(c, p->d) && int_conv_has_byte_weights(c, p->values) &&
           is_near(c->h, c->sh, c->pad_h, c->in_h) && is_near(c->w_out, c->sw, c->pad_w, c->in_w);
}

static int64_t words_of(const Taps *p, int64_t strip)
{
    return ((strip - 1) * p->c.sh + 3) * DSP_BLOCK * p->pitch;
}

static int64_t largest_strip(const Taps *p)
{
    int64_t most = 1;
    while (most < p->c.h && 4 * words_of(p, most + 1) <= MAX_BYTES)
        most++;
    return most;
}

// The most rows up to `most` that all strips can have.
static int64_t even_strip(const Taps *p, int64_t most)
{
    while (most > 1 && p->c.h % most != 0)
        most--;
    return most;
}

static void divide(Taps *p, int64_t parts, int64_t columns)
{
    p->parts = parts;
    p->columns = columns;
    p->pitch = dsp_taps_pitch(columns, p->c.sw);
}

static void measure(Taps *p)
{
    divide(p, 1, p->c.w_out);
    p->strip = ceil_div(p->c.h, ceil_div(p->c.h, largest_strip(p)));
}

static bool choose_parts(Taps *p)
{
    p->strip = 1;
    for (int64_t parts = 2; parts <= INT_MOST_PARTS; parts *= 2) {
        const int64_t columns = int_conv_part(&p->c, parts);
        divide(p, parts, columns);
        if (columns != 0 && lower_take(p->c.l))
            return true;
    }
    return false;
}

// The largest strips, or strips of some rows of the result, which need less memory and can be made in turns
// with those of other kernels (passes/plan/ram/rows.h), or parts of a row. False: none of these.
static bool choose_way(Taps *p)
{
    measure(p);
    if (lower_take(p->c.l))
        return true;
    const bool is_known = !p->is_turned && p->c.h % p->strip == 0;
    int64_t most = is_known ? p->strip / 2 : INT64_MAX;
    if (p->is_turned)
        turn(p);
    divide(p, 1, p->c.w_out);
    most = most < largest_strip(p) ? most : largest_strip(p);
    for (; most > 0 && p->c.w_out >= MIN_COLUMNS; most = p->strip / 2) {
        p->strip = even_strip(p, most);
        if (lower_take(p->c.l))
            return true;
    }
    return choose_parts(p);
}

static void add_params(Taps *p)
{
    Lower *l = p->c.l;
    int64_t bytes = channels_of(p) * DSP_TAPS_BYTES;
    for (int64_t o = 0; o < channels_of(p); o++)
        bytes += own_bytes(p, o);
    p->bias = int_conv_begins(&p->c, p->values, 0);
    p->x = lower_param(l, p->c.x, PARAM_READ);
    p->y = int_result_bytes(&p->c);
    Taps *packing = ARENA_NEW(l->pass->perm, Taps);
    *packing = *p;
    p->weights = lower_param_filled(l, node_name(l->g, p->c.w), DTYPE_u8, pack, packing, (uint64_t)bytes);
    p->planes = lower_param_scratch(l, "planes", DTYPE_i32,
                                    (uint64_t)(words_of(p, p->strip) + dsp_taps_spare(p->columns, p->c.sw)));
}

bool int_conv_taps(const IntConv *c, const Domain *d, const int32_t *values)
{
    Lower *l = c->l;
    Taps p = {.c = *c, .d = d, .values = values};
    if (!fits(&p))
        return false;
    p.scale = requantise_match(l->pass->perm, l->g, l->root, l->anchor, &p.ends);
    const Access *y = int_conv_result(c, d);
    if (p.scale == NULL || y->stride[1] != 1)
        return false;
    p.high = int_scales_high(p.scale, channels_of(&p));
    if (!has_scales(&p))
        return false;
    p.y_row = y->stride[2];
    p.y_col = y->stride[3];
    const int64_t cost = cost_of(&p.c);
    turn(&p);
    if (cost_of(&p.c) >= cost)
        turn(&p);
    if (p.c.w_out < MIN_COLUMNS || !choose_way(&p))
        return false;
    add_params(&p);
    emit(&p);
    return true;
}
