// SPDX-License-Identifier: Apache-2.0
// int_conv of one input channel a group for microcontrollers: depthwise convolutions, with any multiplier.
// The rows that some output rows need are gathered, channel by channel, into planes in scratch memory with
// their borders, where windows are read without a test, two outputs of a row at a time. With the DSP
// extension planes are halfwords less the zero point, of four channels at once where these are words of the
// input; neighbouring taps are multiplied in pairs. Elsewhere they are bytes, and the zero point is a part
// of what sums begin with. Rows and columns change places where that leaves fewer outputs
// without a partner.
#include "ir/graph/tensor.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_planes.h"
#include "passes/lower/operand.h"

enum { OUTPUTS = 2, MAX_TAPS = 64, MAX_BYTES = 4096, UNROLLED_TAPS = 30, MIN_OUTPUTS = 4 };

// --- taps of a row -------------------------------------------------------------------------------

// One instruction: the product of a word (or element) of the plane and one of weights.
typedef struct Step {
    int64_t output; // 0 or 1
    int64_t at;     // of the word in the row of the plane, from the first output's on
    int64_t first;  // the word of weights has taps first and first + 1
    bool is_pair;   // both taps
    bool is_upper;  // else: the half of the plane's word,
    bool is_next;   // and the tap first + 1
} Step;

// A word of weights that tap j is a half of: with a pair of taps, if a row has two.
static void choose_half(const IntConv *c, int64_t j, Step *s)
{
    s->is_next = j > 0 && j == c->kw - 1;
    s->first = s->is_next ? j - 1 : j;
}

static uint32_t steps_of(const IntPlanes *p, int64_t outputs, Step *step)
{
    const IntConv *c = &p->c;
    uint32_t n = 0;
    const bool joins = p->has_pairs && c->dw == 1;
    for (int64_t j = 0; j < c->kw; j++)
        for (int64_t o = 0; o < outputs; o++) {
            const int64_t at = o * c->sw + j * c->dw;
            const bool is_even = at % 2 == 0;
            if (joins && j > 0 && !is_even)
                continue; // it is the second one of a pair
            Step s = {.output = o, .at = p->has_pairs ? at / 2 : at, .first = j, .is_upper = !is_even};
            s.is_pair = joins && is_even && j + 1 < c->kw;
            if (p->has_pairs && !s.is_pair)
                choose_half(c, j, &s);
            step[n++] = s;
        }
    return n;
}

// Instructions for a row of outputs.
static int64_t cost_of(const IntPlanes *p)
{
    Step step[2 * MAX_TAPS];
    const int64_t pairs = p->c.w_out / OUTPUTS, rest = p->c.w_out % OUTPUTS, fixed = 10;
    return p->c.h * (pairs * ((int64_t)steps_of(p, OUTPUTS, step) * p->c.kh + fixed) +
                     rest * ((int64_t)steps_of(p, 1, step) * p->c.kh + fixed));
}

static KRef multiply(const IntPlanes *p, const Step *s, KRef x, KRef w, KRef sum)
{
    Kernel *k = p->c.l->k;
    if (!p->has_pairs)
        return k_fma(k, x, w, sum);
    if (s->is_pair)
        return k_dot16(k, x, w, sum);
    if (s->is_upper == s->is_next)
        return k_op(k, s->is_upper ? KOP_mad_tt : KOP_mad_bb, x, w, sum);
    return s->is_next ? k_mad_bt(k, x, w, sum) : k_mad_bt(k, w, x, sum);
}

// --- weights -------------------------------------------------------------------------------------

// [channel][row][column]
static void pack(const void *ctx, void *bytes)
{
    const IntPlanes *p = ctx;
    const IntConv *c = &p->c;
    const int64_t taps = c->kh * c->kw, channels = c->group * c->oc;
    Tensor out = {.dtype = p->type, .data = bytes, .numel = channels * taps};
    for (int64_t o = 0; o < channels; o++)
        for (int64_t i = 0; i < taps; i++) {
            const int64_t from = p->is_turned ? i % c->kw * c->kh + i / c->kw : i;
            tensor_set_i64(&out, o * taps + i, p->values[o * taps + from]);
        }
}

// Tap j, with the next one in the upper half where has_pairs.
static KRef weight_word(const IntPlanes *p, KRef row, int64_t j)
{
    Kernel *k = p->c.l->k;
    const KRef low = k_cast(k, k_load(k, p->weights, k_expr(k, "$ + #", row, j), 1, 1), DTYPE_i32);
    if (!p->has_pairs || j + 1 >= p->c.kw)
        return low;
    return k_pack_b(k, low,
                    k_cast(k, k_load(k, p->weights, k_expr(k, "$ + #", row, j + 1), 1, 1), DTYPE_i32));
}

// --- outputs -------------------------------------------------------------------------------------

typedef struct Channel {
    KRef image, channel, plane; // plane: index of its first word (or element)
    KRef first, left;           // output row of the strip, and column of the part
    KRef weights;               // index of the first tap
    KRef begin;
    IntScale scale;
    KRef word[UNROLLED_TAPS]; // by tap, where all rows stand in the text; 0: not used
} Channel;

static bool is_unrolled(const IntPlanes *p)
{
    return p->c.kh * p->c.kw <= UNROLLED_TAPS;
}

static void load_words(const IntPlanes *p, Channel *at)
{
    Step step[2 * MAX_TAPS];
    const IntConv *c = &p->c;
    if (!is_unrolled(p))
        return;
    for (int64_t i = 0; i < c->kh * c->kw; i++)
        at->word[i] = 0;
    for (int64_t outputs = 1; outputs <= OUTPUTS; outputs++) {
        const bool is_used = outputs == 1 ? c->w_out % OUTPUTS != 0 : c->w_out >= OUTPUTS;
        const uint32_t n = is_used ? steps_of(p, outputs, step) : 0;
        for (int64_t r = 0; r < c->kh; r++)
            for (uint32_t i = 0; i < n; i++) {
                KRef *word = &at->word[r * c->kw + step[i].first];
                const KRef row = k_expr(c->l->k, "$ + #", at->weights, r * c->kw);
                *word = *word != 0 ? *word : weight_word(p, row, step[i].first);
            }
    }
}

// A row of the window: x is the index of its first word.
static void add_row(const IntPlanes *p, const KRef *word, KRef weights, KRef x, int64_t outputs, KRef *sum)
{
    Step step[2 * MAX_TAPS];
    Kernel *k = p->c.l->k;
    const uint32_t n = steps_of(p, outputs, step);
    for (uint32_t i = 0; i < n; i++) {
        const Step *s = &step[i];
        const KRef v = k_cast(k, k_load(k, p->planes, k_expr(k, "$ + #", x, s->at), 1, 1), DTYPE_i32);
        const KRef w = word != NULL ? word[s->first] : weight_word(p, weights, s->first);
        sum[s->output] = multiply(p, s, v, w, sum[s->output]);
    }
}

// The same for all rows, in the text or in a loop.
static void add_rows(const IntPlanes *p, const Channel *at, KRef x, int64_t outputs, KRef *sum)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    const int64_t step = c->dh * p->pitch / int_planes_unit(p);
    if (is_unrolled(p)) {
        for (int64_t r = 0; r < c->kh; r++)
            add_row(p, at->word + r * c->kw, 0, k_expr(k, "$ + #", x, r * step), outputs, sum);
        return;
    }
    KRef var[OUTPUTS];
    for (int64_t o = 0; o < outputs; o++)
        var[o] = k_var(k, sum[o], o == 0 ? "a0" : "a1");
    const KRef r = k_loop(k, c->kh, KFOR_SERIAL, "k0");
    for (int64_t o = 0; o < outputs; o++)
        sum[o] = k_get(k, var[o]);
    add_row(p, NULL, k_expr(k, "$ + $ * #", at->weights, r, c->kw), k_expr(k, "$ + $ * #", x, r, step),
            outputs, sum);
    for (int64_t o = 0; o < outputs; o++)
        k_set(k, var[o], sum[o]);
    k_end(k);
    for (int64_t o = 0; o < outputs; o++)
        sum[o] = k_get(k, var[o]);
}

// Outputs from `column` on of row y of the strip.
static void emit_outputs(const IntPlanes *p, const Channel *at, KRef y, KRef column, int64_t outputs)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    KRef sum[OUTPUTS] = {at->begin, at->begin};
    const KRef row = k_expr(k, "$ + $ * #", at->plane, y, c->sh * p->pitch / int_planes_unit(p));
    const KRef x = k_expr(k, "$ + $ * # / #", row, column, c->sw, int_planes_unit(p));
    add_rows(p, at, x, outputs, sum);
    // Both are summed before one is stored, which might change the planes for all that compilers know.
    for (int64_t o = 0; o < outputs; o++)
        sum[o] = k_var(k, sum[o], o == 0 ? "a0" : "a1");
    for (int64_t o = 0; o < outputs; o++) {
        const KRef v = k_expr(k, "$ + $", at->first, y), u = k_expr(k, "$ + $ + #", at->left, column, o);
        const Point to = conv_point(p->d, at->image, at->channel, p->is_turned ? u : v, p->is_turned ? v : u);
        if (p->scales != NULL)
            int_scales_store(c, p->d, p->scales, &at->scale, &to, k_get(k, sum[o]));
        else
            pull_store_root(c->l, p->d, to, k_get(k, sum[o]));
    }
}

static KRef begin_of(const IntPlanes *p, KRef channel)
{
    const IntConv *c = &p->c;
    Lower *l = c->l;
    if (p->begin != 0)
        return k_load(l->k, p->begin - 1, channel, 1, 1);
    return c->bias == 0 ? k_integer(l->k, DTYPE_i32, 0)
                        : operand_scalar(l, c->bias, operand_index(l, c->bias, &channel), DTYPE_i32);
}

static void emit_rows(const IntPlanes *p, Channel *at, KRef n_rows, KRef own)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    if (p->scales != NULL)
        at->scale = int_scales_load(c, p->scales, at->channel, own);
    const KRef y = p->strip == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), n_rows, 1, KFOR_SERIAL, "y");
    const int64_t whole = c->w_out / OUTPUTS * OUTPUTS;
    if (whole > 0) {
        const KRef i = lower_open_count(k, c->w_out / OUTPUTS, KFOR_SERIAL, "i", &opened);
        emit_outputs(p, at, y, k_expr(k, "$ * #", i, OUTPUTS), OUTPUTS);
        lower_close(c->l, opened);
    }
    if (whole < c->w_out)
        emit_outputs(p, at, y, k_index(k, whole), 1);
    lower_close(c->l, p->strip > 1);
}

// All outputs of a strip for one channel of the result.
static void emit_channel(const IntPlanes *p, Channel *at, KRef n_rows)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    at->weights = k_expr(k, "$ * #", at->channel, c->kh * c->kw);
    at->begin = begin_of(p, at->channel);
    load_words(p, at);
    const KRef own = p->scales != NULL ? int_scales_own(c, p->scales, at->channel) : 0;
    const bool is_mixed = own != 0 && p->scales->n_own < p->scales->n;
    if (is_mixed)
        k_if(k, k_expr(k, "0 < $", own));
    emit_rows(p, at, n_rows, own);
    if (!is_mixed)
        return;
    k_else(k);
    emit_rows(p, at, n_rows, 0);
    k_end(k);
}

// --- loops ---------------------------------------------------------------------------------------

// A strip of a block of channels of one image.
static void emit_strip(const IntPlanes *p, KRef image, KRef strip, KRef block)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    Channel at = {.image = image, .first = k_expr(k, "$ * #", strip, p->strip), .left = k_index(k, 0)};
    KRef part = 0;
    if (p->parts > 1) {
        at.first = k_expr(k, "$ / #", strip, p->parts);
        part = k_expr(k, "$ - $ * #", strip, at.first, p->parts);
        at.left = k_expr(k, "$ * #", part, c->w_out);
    }
    const KRef n_rows =
        c->h % p->strip == 0 ? k_index(k, p->strip) : k_expr(k, "min(#, # - $)", p->strip, c->h, at.first);
    int_planes_gather(p, image, block,
           &(IntPlaneRows){k_expr(k, "$ * # - #", at.first, c->sh, c->pad_h),
                   k_expr(k, "($ - 1) * # + #", n_rows, c->sh, (c->kh - 1) * c->dh + 1), part});
    const KRef i = lower_open_count(k, p->width, KFOR_SERIAL, "c", &opened);
    const KRef j = lower_open_count(k, c->oc, KFOR_SERIAL, "m", &opened);
    at.plane = k_expr(k, "$ * #", i, p->rows * p->pitch / int_planes_unit(p));
    at.channel = k_expr(k, "($ * # + $) * # + $", block, p->width, i, c->oc, j);
    emit_channel(p, &at, n_rows);
    lower_close(c->l, opened);
}

// All channels of a strip before the next one: so results may lie over what was read
// (passes/plan/ram/lead.h).
static void emit_planes(const IntPlanes *p)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    if (!p->is_by_rows)
        int_planes_clear(p, k_index(k, 0), p->width * p->rows * p->pitch);
    const KRef n = lower_open_count(k, c->n, KFOR_TURNS, "n", &opened);
    const KRef s = lower_open_count(k, ceil_div(c->h, p->strip) * p->parts, KFOR_TURNS, "s", &opened);
    const KRef o = lower_open_count(k, c->group / p->width, KFOR_TURNS, "o", &opened);
    emit_strip(p, n, s, o);
    lower_close(c->l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

static void turn(IntPlanes *p)
{
    p->is_turned = !p->is_turned;
    int_conv_turn(&p->c);
}

static bool fits(const IntPlanes *p)
{
    const IntConv *c = &p->c;
    const bool is_reused = c->kh > c->sh || c->kw > c->sw;
    const bool is_known = int_conv_knows_bias(c) && int_conv_knows_zero(c);
    const bool is_fit = c->group > 1 || int_conv_is_wide(c); // bytes of one channel have faster ways
    return !int_conv_has_live_axes(c, p->d) && c->ic == 1 && is_fit && c->h * c->w_out >= MIN_OUTPUTS &&
           is_reused && c->kh <= MAX_TAPS && c->kw <= MAX_TAPS && int_planes_columns(p) > 0 && c->in_h > 0 &&
           (p->has_pairs || is_known);
}

static int64_t bytes_of_rows(const IntPlanes *p, int64_t n)
{
    const int64_t bytes = p->has_pairs || int_conv_is_wide(&p->c) ? 2 : 1;
    return p->width * int_conv_reach(n, p->c.sh, p->c.kh, p->c.dh) * p->pitch * bytes;
}

static void measure(IntPlanes *p)
{
    const IntConv *c = &p->c;
    const int64_t columns = int_conv_reach(c->w_out, c->sw, c->kw, c->dw);
    const int64_t inside = c->pad_w + int_planes_columns(p), needed = columns > inside ? columns : inside;
    p->pitch = ceil_div(needed, int_planes_unit(p)) * int_planes_unit(p);
    int64_t most = 1;
    while (most < c->h && !p->is_by_rows && bytes_of_rows(p, most + 1) <= MAX_BYTES)
        most++;
    p->strip = ceil_div(c->h, ceil_div(c->h, most));
    p->rows = int_conv_reach(p->strip, c->sh, c->kh, c->dh);
}

// Rows that are made where they are gathered.
static void add_made(IntPlanes *p)
{
    int_made_params(p->made, p->whole, (IntMadeCut){p->strip, p->parts});
    p->x = p->made->row;
    p->c.stride_w = p->width; // in a row of these channels
}

static void add_params(IntPlanes *p)
{
    const IntConv *c = &p->c;
    Lower *l = c->l;
    const int64_t channels = c->group * c->oc, taps = c->kh * c->kw;
    if (p->made != NULL)
        add_made(p);
    else
        p->x = p->width == 1 ? lower_param(l, c->x, PARAM_READ) : int_conv_words(c);
    IntPlanes *packing = ARENA_NEW(l->pass->perm, IntPlanes);
    p->type = tensor_byte_type(p->values, channels * taps);
    *packing = *p;
    p->weights = lower_param_filled(l, node_name(l->g, c->w), p->type, pack, packing,
                                    (uint64_t)(channels * taps) * dtype_info[p->type].bytes);
    p->planes = lower_param_scratch(l, "planes", int_planes_type(p),
                                    (uint64_t)(p->width * p->rows * p->pitch / int_planes_unit(p)));
    const int64_t zero = int_conv_zero_value(c) + (int_planes_is_raised(p) ? INT_PLANES_SIGN : 0);
    if (!p->has_pairs)
        p->begin = 1 + int_conv_begin_param(c, p->values, zero, 0);
}

// What load_column adds.
static KRef offset_of(const IntPlanes *p)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    const int64_t moved = p->width > 1 && !int_conv_is_signed(c) ? INT_PLANES_SIGN : 0;
    if (!int_conv_knows_zero(c)) {
        const KRef offset = k_sub(k, k_integer(k, DTYPE_i32, moved), int_conv_zero(c));
        return p->width > 1 ? k_pack_b(k, offset, offset) : offset;
    }
    const int64_t offset = moved - int_conv_zero_value(c);
    const uint32_t half = (uint32_t)offset & 65535;
    return k_integer(k, DTYPE_i32, p->width > 1 ? (int32_t)(half << 16 | half) : offset);
}

// Parts of a row, which read columns of their own.
static bool choose_parts(IntPlanes *p)
{
    if (p->is_turned || !int_conv_knows_zero(&p->c))
        return false;
    p->is_by_rows = true;
    p->c.pad_w = 0;
    for (p->parts = 2; p->parts <= INT_MOST_PARTS; p->parts *= 2) {
        p->c.w_out = int_conv_part(p->whole, p->parts);
        if (p->c.w_out == 0)
            continue;
        p->c.in_w = int_made_reach(p->whole, p->parts);
        measure(p);
        if (lower_take(p->c.l))
            return true;
    }
    return false;
}

// Four channels at a time, or one; many rows, or those for one row of the result, or, where the input is
// made, parts of it. False: none of these.
static bool choose_way(IntPlanes *p)
{
    const int64_t least = p->made != NULL ? 4 : 1;
    IntPlanes by_parts = *p;
    for (; p->width >= least; p->width -= 3) {
        IntPlanes by_rows = *p;
        measure(p);
        if (lower_take(p->c.l))
            return true;
        if (by_rows.is_turned)
            turn(&by_rows);
        by_rows.is_by_rows = true;
        measure(&by_rows);
        if (by_rows.c.h > 1 && fits(&by_rows) && lower_take(p->c.l)) {
            *p = by_rows;
            return true;
        }
    }
    if (by_parts.made == NULL || !choose_parts(&by_parts))
        return false;
    *p = by_parts;
    return true;
}

bool int_conv_planes(const IntConv *c, const Domain *d, const int32_t *values)
{
    IntPlanes p = {.c = *c, .whole = c, .parts = 1, .d = d, .values = values};
    p.has_pairs = c->l->caps->has_dsp;
    if (!fits(&p))
        return false;
    const int64_t cost = cost_of(&p);
    turn(&p);
    if (d->rank < 4 || c->l->maker != NULL || !fits(&p) || cost_of(&p) >= cost)
        turn(&p);
    const bool is_byte = k_is_byte(lower_node(c->l, c->x)->dtype);
    p.width = p.has_pairs && is_byte && int_conv_has_words(c) ? 4 : 1;
    if (c->l->maker != NULL) {
        p.made = ARENA_NEW(c->l->pass->perm, IntMade);
        if (p.width == 1 || c->n != 1 || !int_made_find(p.made, c))
            return false;
    }
    if (!choose_way(&p))
        return false;
    add_params(&p);
    IntScales scales;
    p.scales = int_scales_find(c, &scales) ? &scales : NULL;
    if (p.has_pairs)
        p.offset = offset_of(&p);
    emit_planes(&p);
    return true;
}
