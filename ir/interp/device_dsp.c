// SPDX-License-Identifier: Apache-2.0
// The device functions of microcontrollers (ir/kernel/dsp.h).
#include "ir/interp/device_words.h"
#include "ir/kernel/dsp.h"

// --- windows -------------------------------------------------------------------------------------

// n elements, of which those from lo to hi - 1 are at `from` of operand x.
typedef struct Run {
    DType type;
    uint32_t x, to; // operands: the input, and where words go
    int64_t from, lo, hi, n, zero;
} Run;

static int32_t halfword(Words *a, const Run *r, int64_t i)
{
    return i < r->lo || i >= r->hi
               ? 0
               : words_read_byte(a, r->x, r->from + i - r->lo, r->type) - (int32_t)r->zero;
}

// To words from `to` on of operand 0, every second one.
static void widen(Words *a, const Run *r, int64_t to)
{
    for (int64_t i = 0; i < dsp_words(r->n) && !a->is_wrong; i++) {
        const DspWord w = dsp_word(r->n, i);
        a->is_poison = false;
        const uint32_t lo = (uint32_t)halfword(a, r, w.lo) & 0xffff;
        const uint32_t hi = w.hi < 0 ? 0 : (uint32_t)halfword(a, r, w.hi);
        words_write(a, r->to, to + 2 * i, (int32_t)(lo | hi << 16));
    }
}

static CallResult pair(Call *c, DType type)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t rows = call_int(c, 3, t), n = call_int(c, 4, t), pitch = call_int(c, 5, t);
        Words a = {.c = c, .t = t};
        for (int64_t r = 0; r < rows; r++)
            for (uint32_t pixel = 0; pixel < 2; pixel++)
                widen(&a, &(Run){type, 1 + pixel, 0, r * pitch, 0, n, n, call_int(c, 6, t)},
                      r * dsp_words(n) * 2 + pixel);
    }
    return CALL_DONE;
}

static CallResult edge(Call *c, DType type)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        widen(
            &a,
            &(Run){type, 1, 0, 0, call_int(c, 2, t), call_int(c, 3, t), call_int(c, 4, t), call_int(c, 5, t)},
            0);
    }
    return CALL_DONE;
}

CallResult interp_dsp_pair_i8(Call *c)
{
    return pair(c, DTYPE_i8);
}

CallResult interp_dsp_pair_u8(Call *c)
{
    return pair(c, DTYPE_u8);
}

CallResult interp_dsp_edge_i8(Call *c)
{
    return edge(c, DTYPE_i8);
}

CallResult interp_dsp_edge_u8(Call *c)
{
    return edge(c, DTYPE_u8);
}

// --- sums ----------------------------------------------------------------------------------------

// The word of inputs at a step.
typedef int32_t (*InputFn)(Words *a, int64_t step, int64_t pixel);

static int32_t widened(Words *a, int64_t step, int64_t pixel)
{
    return words_read(a, 1, a->window + 2 * step + pixel);
}

// The same where words are operand 3.
static int32_t widened_apart(Words *a, int64_t step, int64_t pixel)
{
    return words_read(a, 3, 2 * step + pixel);
}

static int32_t in_place(Words *a, int64_t step, DType type)
{
    const DspWord w = dsp_word(INT64_MAX / 4 * 4, step);
    const uint32_t lo = (uint32_t)words_read_byte(a, 1, w.lo, type) & 0xffff;
    return (int32_t)(lo | (uint32_t)words_read_byte(a, 1, w.hi, type) << 16);
}

static int32_t in_place_i8(Words *a, int64_t step, int64_t pixel)
{
    (void)pixel;
    return in_place(a, step, DTYPE_i8);
}

static int32_t in_place_u8(Words *a, int64_t step, int64_t pixel)
{
    (void)pixel;
    return in_place(a, step, DTYPE_u8);
}

static uint32_t products(uint32_t sum, int32_t x, int32_t w)
{
    return sum + (uint32_t)((int16_t)x * (int16_t)w) + (uint32_t)((x >> 16) * (w >> 16));
}

// The first and third bytes of a word as halfwords.
static int32_t low_bytes(int32_t w)
{
    const uint32_t v = (uint32_t)w;
    return (int32_t)(((uint32_t)(int8_t)v & 0xffff) | (uint32_t)(int8_t)(v >> 16) << 16);
}

// Two channels of a pixel. at: of the words that the sums begin with; first, by: of the weights.
static void two_sums(Words *a, InputFn input, int64_t pixel, const int64_t at[3], int64_t steps,
                     uint32_t sum[2])
{
    uint32_t both = (uint32_t)words_read(a, 2, at[0]), low = (uint32_t)words_read(a, 2, at[0] + 1);
    for (int64_t i = 0; i < steps && !a->is_wrong; i++) {
        const int32_t x = input(a, i, pixel), w = words_read(a, 2, at[1] + i * at[2]);
        both = products(both, x, w);
        low = products(low, x, low_bytes(w));
    }
    sum[0] = low;
    sum[1] = (uint32_t)((int32_t)(both - low) >> 8);
}

typedef struct Sums {
    InputFn input;
    int64_t pixels, channels; // of a block
    int64_t words;            // to a step of the call
} Sums;

static CallResult sums(Call *c, Sums s)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t steps = call_int(c, 3, t) * s.words, blocks = call_int(c, 4, t), pairs = s.channels / 2;
        Words a = {.c = c, .t = t};
        for (int64_t i = 0; i < blocks * s.pixels * pairs && !a.is_wrong; i++) {
            const int64_t block = i / s.pixels / pairs, pixel = i / pairs % s.pixels, j = i % pairs;
            const int64_t w = block * (s.channels + steps * pairs);
            uint32_t sum[2];
            a.is_poison = false;
            two_sums(&a, s.input, pixel, (const int64_t[]){w + 2 * j, w + s.channels + j, pairs}, steps, sum);
            words_write(&a, 0, 2 * i, (int32_t)sum[0]);
            words_write(&a, 0, 2 * i + 1, (int32_t)sum[1]);
        }
    }
    return CALL_DONE;
}

CallResult interp_dsp_sums2(Call *c)
{
    return sums(c, (Sums){widened, 2, DSP_BLOCK, 1});
}

CallResult interp_dsp_sums1(Call *c)
{
    return sums(c, (Sums){widened, 1, DSP_BLOCK, 1});
}

CallResult interp_dsp_row_i8(Call *c)
{
    return sums(c, (Sums){in_place_i8, 1, DSP_ROW_BLOCK, 2});
}

CallResult interp_dsp_row_u8(Call *c)
{
    return sums(c, (Sums){in_place_u8, 1, DSP_ROW_BLOCK, 2});
}

static CallResult eight(Call *c, InputFn input)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Elements to;
        if (!call_elements(c, 0, t, 0, DSP_ROW_BLOCK, &to))
            break;
        for (int64_t j = 0; j < DSP_ROW_BLOCK / 2; j++) {
            Words a = {.c = c, .t = t};
            two_sums(&a, input, 0, (const int64_t[]){2 * j, DSP_ROW_BLOCK + j, DSP_ROW_BLOCK / 2},
                     2 * call_int(c, 3, t), &to.r[2 * j]);
            to.state[2 * j] = to.state[2 * j + 1] = a.is_poison ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN;
        }
    }
    return CALL_DONE;
}

CallResult interp_dsp_eight_i8(Call *c)
{
    return eight(c, in_place_i8);
}

CallResult interp_dsp_eight_u8(Call *c)
{
    return eight(c, in_place_u8);
}

// --- bytes ---------------------------------------------------------------------------------------

// The sum, or what counts in its stead; *tail: where the words behind the weights begin, then those behind
// the exceptions.
static int64_t without_exceptions(Words *a, int64_t *tail, int64_t j, int64_t scaled)
{
    for (; !a->is_wrong; *tail += DSP_EXCEPTION) {
        const int32_t first = words_read(a, 2, *tail);
        if (first >= 0 || first == DSP_OWN)
            break;
        if (first == -1 - j && words_read(a, 2, *tail + 1) == scaled)
            scaled = words_read(a, 2, *tail + 2);
    }
    return scaled;
}

// What a call of dsp_bytes2 or dsp_points does with the windows of two pixels.
typedef struct PairBytes {
    InputFn input;
    uint32_t y[2]; // operands: where the bytes go, and
    int64_t at[2]; // elements behind that
    int64_t high, steps, blocks;
} PairBytes;

// Channel j of a block, from its sum. *tail becomes the end of the block.
static int8_t byte_of(Words *a, const PairBytes *p, int64_t *tail, int64_t j, int32_t sum)
{
    static const int64_t plain_place[DSP_BLOCK] = {0, 2, 1, 3};
    const int64_t shift = a->c->constant + (j % 2 != 0 ? 8 : 0), by = j % 2 != 0 ? 256 : 1;
    const int64_t scaled = without_exceptions(a, tail, j, sum * by), from = *tail;
    if (words_read(a, 2, from) >= 0) {
        const int64_t product = scaled * words_read(a, 2, from + plain_place[j]);
        *tail += DSP_PLAIN_TAIL;
        return words_saturated(((product >> 32) + p->high * by) >> shift);
    }
    const int64_t at = from + 1 + j * 3;
    const uint64_t low = (uint32_t)words_read(a, 2, at + 1), high = (uint32_t)words_read(a, 2, at + 2);
    *tail += DSP_OWN_TAIL;
    return words_saturated(((scaled * words_read(a, 2, at) + (int64_t)(high << 32 | low)) >> 32) >> shift);
}

// A block of both pixels, whose words begin at w.
static int64_t bytes_of_block(Words *a, const PairBytes *p, int64_t block, int64_t w)
{
    int64_t tail = 0;
    for (int64_t i = 0; i < 2 * DSP_BLOCK && !a->is_wrong; i++) {
        const int64_t pixel = i / DSP_BLOCK, j = i % DSP_BLOCK;
        uint32_t sum[2];
        a->is_poison = false;
        two_sums(a, p->input, pixel, (const int64_t[]){w + j / 2 * 2, w + DSP_BLOCK + j / 2, 2}, p->steps,
                 sum);
        tail = w + DSP_BLOCK + 2 * p->steps;
        const int8_t y = byte_of(a, p, &tail, j, (int32_t)sum[j % 2]);
        words_write_byte(a, p->y[pixel], p->at[pixel] + block * DSP_BLOCK + j, y);
    }
    return tail;
}

static void bytes_of_pair(Words *a, const PairBytes *p)
{
    int64_t w = 0;
    for (int64_t i = 0; i < p->blocks && !a->is_wrong; i++)
        w = bytes_of_block(a, p, i, w);
}

CallResult interp_dsp_bytes2(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        PairBytes p = {.input = widened, .y = {0, 5}, .high = call_int(c, 6, t)};
        p.steps = call_int(c, 3, t);
        p.blocks = call_int(c, 4, t);
        bytes_of_pair(&a, &p);
    }
    return CALL_DONE;
}

CallResult interp_dsp_points(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t pixels = call_int(c, 4, t), n = call_int(c, 5, t), bytes = call_int(c, 6, t);
        Words a = {.c = c, .t = t};
        PairBytes p = {.input = widened_apart, .high = call_int(c, 7, t), .steps = n / 2};
        p.blocks = bytes / DSP_BLOCK;
        for (int64_t i = 0; i < pixels && !a.is_wrong; i += 2) {
            const int64_t pixel[2] = {i, i + 1 < pixels ? i + 1 : i};
            for (int64_t j = 0; j < 2; j++) {
                widen(&a, &(Run){DTYPE_i8, 1, 3, pixel[j] * n, 0, n, n, call_int(c, 8, t)}, j);
                p.at[j] = pixel[j] * bytes;
            }
            bytes_of_pair(&a, &p);
        }
    }
    return CALL_DONE;
}

// Pairs of pixels. apart: words from the windows of a pair to the next ones.
static void windows(Words *a, int64_t apart)
{
    const Call *c = a->c;
    const int64_t x_step = call_int(c, 5, a->t), y_step = call_int(c, 6, a->t), shape = call_int(c, 7, a->t);
    const int64_t n = dsp_window_run(shape), start = call_int(c, 8, a->t);
    PairBytes p = {.input = widened, .y = {0, 0}, .high = dsp_start_high(start), .blocks = y_step / 2};
    p.steps = dsp_window_words(shape);
    for (int64_t i = 0; i < call_int(c, 4, a->t) && !a->is_wrong; i++) {
        a->window = i * apart;
        for (int64_t j = 0; j < 2 * dsp_window_rows(shape) && x_step != 0; j++) {
            const int64_t row = j / 2, pixel = 2 * i + j % 2;
            const int64_t from = pixel * (x_step / 2) + row * dsp_window_pitch(shape);
            widen(a, &(Run){DTYPE_i8, 3, 1, from, 0, n, n, dsp_start_zero(start)},
                  i * apart + 2 * row * dsp_words(n) + j % 2);
        }
        p.at[0] = 4 * i * y_step;
        p.at[1] = p.at[0] + 2 * y_step;
        bytes_of_pair(a, &p);
    }
}

CallResult interp_dsp_windows(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        windows(&(Words){.c = c, .t = t}, 0);
    return CALL_DONE;
}

CallResult interp_dsp_ahead(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++)
        windows(&(Words){.c = c, .t = t}, call_int(c, 6, t));
    return CALL_DONE;
}

// --- windows of one channel ----------------------------------------------------------------------

static void planes_row(Words *a, int64_t r, DType type)
{
    const Call *c = a->c;
    const int64_t first = r - call_int(c, 2, a->t), shape = call_int(c, 8, a->t), pitch = dsp_pitch(shape);
    for (int64_t i = 0; i < 2 * pitch * DSP_BLOCK && !a->is_wrong; i += 2) {
        const int64_t channel = i / 2 / pitch, column = i % (2 * pitch) - dsp_before(shape);
        uint32_t half[2] = {0};
        a->is_poison = false;
        for (int64_t j = 0; j < 2; j++)
            if (first >= 0 && first < call_int(c, 3, a->t) && column + j >= 0 &&
                column + j < call_int(c, 5, a->t)) {
                const int64_t at = first * call_int(c, 6, a->t) + (column + j) * call_int(c, 7, a->t);
                half[j] =
                    (uint32_t)(words_read_byte(a, 1, at + channel, type) - (int32_t)dsp_zero(shape)) & 0xffff;
            }
        words_write(a, 0, r * pitch * DSP_BLOCK + i / 2, (int32_t)(half[0] | half[1] << 16));
    }
}

static CallResult planes(Call *c, DType type)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        for (int64_t r = 0; r < call_int(c, 4, t); r++)
            planes_row(&a, r, type);
    }
    return CALL_DONE;
}

CallResult interp_dsp_planes_i8(Call *c)
{
    return planes(c, DTYPE_i8);
}

CallResult interp_dsp_planes_u8(Call *c)
{
    return planes(c, DTYPE_u8);
}

static int32_t read_bytes(Words *a, int64_t at)
{
    uint32_t v = 0;
    for (int64_t i = 0; i < 4; i++)
        v |= (uint32_t)words_read_byte(a, 2, at + i, DTYPE_u8) << 8 * i;
    return (int32_t)v;
}

// The byte of a sum of the channel at w.
static int8_t byte_of_taps(Words *a, int64_t w, int64_t sum)
{
    int64_t factor = read_bytes(a, w + DSP_TAPS + 4);
    uint64_t start = (uint64_t)call_int(a->c, 7, a->t) << 32;
    if (factor < 0) {
        const int64_t own = w + factor - INT32_MIN, n = read_bytes(a, own), first = own + DSP_TAPS_OWN;
        factor = read_bytes(a, own + 4);
        start = (uint64_t)read_bytes(a, own + 12) << 32 | (uint32_t)read_bytes(a, own + 8);
        for (int64_t i = 0; i < n && !a->is_wrong; i++)
            if (read_bytes(a, first + 8 * i) == sum) {
                sum = read_bytes(a, first + 8 * i + 4);
                break;
            }
    }
    return words_saturated((sum * factor + (int64_t)start) >> (32 + a->c->constant));
}

static void window(Words *a, int64_t plane, int64_t w, int64_t to, int64_t pitch)
{
    uint32_t sum = (uint32_t)read_bytes(a, w + DSP_TAPS);
    for (int64_t i = 0; i < DSP_TAPS && !a->is_wrong; i++) {
        const int64_t at = plane + i % 3;
        const int32_t x = words_read(a, 1, i / 3 * DSP_BLOCK * pitch + at / 2) >> (at % 2 != 0 ? 16 : 0);
        sum += (uint32_t)((int16_t)x * words_read_byte(a, 2, w + i, DTYPE_i8));
    }
    const int8_t y = byte_of_taps(a, w, (int32_t)sum);
    words_write_byte(a, 0, to, y);
}

static CallResult taps(Call *c, int64_t stride)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const int64_t rows = call_int(c, 3, t), columns = call_int(c, 4, t);
        const int64_t pitch = dsp_taps_pitch(columns, stride);
        Words a = {.c = c, .t = t};
        for (int64_t i = 0; i < DSP_BLOCK * rows * columns && !a.is_wrong; i++) {
            const int64_t channel = i / columns / rows, r = i / columns % rows, column = i % columns;
            a.is_poison = false;
            window(&a, 2 * (r * stride * DSP_BLOCK + channel) * pitch + column * stride,
                   channel * DSP_TAPS_BYTES, channel + r * call_int(c, 5, t) + column * call_int(c, 6, t),
                   pitch);
        }
    }
    return CALL_DONE;
}

CallResult interp_dsp_taps1(Call *c)
{
    return taps(c, 1);
}

CallResult interp_dsp_taps2(Call *c)
{
    return taps(c, 2);
}
