// SPDX-License-Identifier: Apache-2.0
// The device functions of microcontrollers with the vectors of RISC-V (ir/kernel/rvv.h).
#include "ir/interp/device_words.h"
#include "ir/kernel/rvv.h"

// A block, whose words begin at word w of operand 2.
typedef struct Block {
    int64_t w, first, lanes; // first: channel
} Block;

static Block block_at(int64_t w, int64_t first, int64_t channels)
{
    return (Block){w, first, channels - first < RVV_LANES ? channels - first : RVV_LANES};
}

// Words of `inputs` weights of each channel, and of what sums begin with.
static int64_t words_of_sums(const Block *b, int64_t inputs)
{
    return b->lanes + (inputs * b->lanes + 3) / 4;
}

static int64_t padded(int64_t n)
{
    return (n + RVV_STEP - 1) / RVV_STEP * RVV_STEP;
}

// The product of input i and channel j; x: where in operand 1 the input is.
static uint32_t product(Words *a, const Block *b, int64_t x, int64_t i, int64_t j)
{
    const int32_t weight = words_read_byte(a, 2, (b->w + b->lanes) * 4 + i * b->lanes + j, DTYPE_i8);
    return (uint32_t)(words_read_byte(a, 1, x, DTYPE_i8) * weight);
}

// --- windows -------------------------------------------------------------------------------------

// Channel j, for the window at x.
static int32_t sum_of(Words *a, const Block *b, int64_t x, int64_t j)
{
    uint32_t sum = (uint32_t)words_read(a, 2, b->w + j);
    for (int64_t i = 0; i < call_int(a->c, 3, a->t) && !a->is_wrong; i++)
        sum += product(a, b, x + i, i, j);
    return (int32_t)sum;
}

CallResult interp_rvv_sums(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const int64_t n = call_int(c, 3, t), channels = call_int(c, 4, t), pixels = call_int(c, 5, t);
        Block b = block_at(0, 0, channels);
        for (int64_t i = 0; i < channels * pixels && !a.is_wrong; i++) {
            const int64_t channel = i / pixels, pixel = i % pixels;
            if (channel == b.first + b.lanes)
                b = block_at(b.w + words_of_sums(&b, padded(n)), channel, channels);
            a.is_poison = false;
            const int32_t sum = sum_of(&a, &b, pixel * call_int(c, 6, t), channel - b.first);
            words_write(&a, 0, pixel * channels + channel, sum);
        }
    }
    return CALL_DONE;
}

// --- bytes ---------------------------------------------------------------------------------------

// Of channel j, from its sum. tail: where the words behind the weights begin.
static int8_t byte_of(Words *a, const Block *b, int64_t tail, int64_t j, int64_t sum, int64_t high)
{
    const int64_t shift = a->c->constant, half = INT64_C(1) << (shift - 1), n = b->lanes;
    uint64_t start = (uint64_t)high << 32;
    const int32_t first = words_read(a, 2, tail);
    if (first == INT32_MIN) {
        sum += (uint32_t)sum << words_read(a, 2, tail + 1 + j) >> 31;
        tail += 1 + n;
    } else if (first < 0) {
        int64_t at = tail + 1;
        for (int64_t e = -1 - (int64_t)first; e > 0 && !a->is_wrong; e--, at += 2 * n)
            if (words_read(a, 2, at + j) == sum)
                sum = words_read(a, 2, at + n + j);
        const uint32_t low = ~(uint32_t)words_read(a, 2, at + n + j);
        start = (uint64_t)(int64_t)words_read(a, 2, at + 2 * n + j) << 32 | low;
        tail = at;
    }
    const int64_t scaled = sum * words_read(a, 2, tail + j);
    return words_saturated((((int64_t)((uint64_t)scaled + start) >> 32) + half) >> shift);
}

static int64_t words_of_tail(Words *a, const Block *b, int64_t tail)
{
    const int64_t first = words_read(a, 2, tail);
    if (first == INT32_MIN)
        return 1 + 2 * b->lanes;
    return first < 0 ? 1 + (2 * (-1 - first) + 3) * b->lanes : b->lanes;
}

static int64_t window_sum(Words *a, const Block *b, int64_t pixel, int64_t j)
{
    return sum_of(a, b, pixel * call_int(a->c, 8, a->t), j);
}

// --- depthwise -----------------------------------------------------------------------------------

typedef struct Head {
    int64_t rows, columns, row_pitch, column_pitch, high, shared;
} Head;

static Head head_of(Words *a)
{
    const int64_t at = call_int(a->c, 8, a->t) * RVV_HEAD;
    return (Head){words_read(a, 2, at), words_read(a, 2, at + 1), words_read(a, 2, at + 2),
                  words_read(a, 2, at + 3), words_read(a, 2, at + 4), words_read(a, 2, at + 5)};
}

static int64_t deep_sum(Words *a, const Block *b, int64_t pixel, int64_t j)
{
    const Head h = head_of(a);
    uint32_t sum = (uint32_t)words_read(a, 2, b->w + j);
    for (int64_t i = 0; i < h.rows * h.columns && !a->is_wrong; i++) {
        const int64_t x = pixel * call_int(a->c, 6, a->t) + i / h.columns * h.row_pitch +
                          i % h.columns * h.column_pitch + (b->first + j) / h.shared;
        sum += product(a, b, x, i, j);
    }
    return (int32_t)sum;
}

// --- both ----------------------------------------------------------------------------------------

typedef struct Bytes {
    int64_t w, inputs, channels, pixels, pitch, high;
    int64_t (*sum)(Words *a, const Block *b, int64_t pixel, int64_t j);
} Bytes;

static void bytes(Words *a, const Bytes *s)
{
    for (int64_t w = s->w, first = 0; first < s->channels && !a->is_wrong; first += RVV_LANES) {
        const Block b = block_at(w, first, s->channels);
        const int64_t tail = w + words_of_sums(&b, s->inputs);
        for (int64_t i = 0; i < b.lanes * s->pixels && !a->is_wrong; i++) {
            a->is_poison = false;
            const int64_t j = i % b.lanes, sum = s->sum(a, &b, i / b.lanes, j);
            const int8_t v = byte_of(a, &b, tail, j, sum, s->high);
            words_write_byte(a, 0, i / b.lanes * s->pitch + first + j, v);
        }
        w = tail + words_of_tail(a, &b, tail);
    }
}

CallResult interp_rvv_bytes(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        bytes(&a, &(Bytes){0, padded(call_int(c, 3, t)), call_int(c, 4, t), call_int(c, 5, t),
                           call_int(c, 6, t), call_int(c, 7, t), window_sum});
    }
    return CALL_DONE;
}

CallResult interp_rvv_deep(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const Head h = head_of(&a);
        bytes(&a, &(Bytes){2 * RVV_HEAD, h.rows * h.columns, call_int(c, 3, t), call_int(c, 4, t),
                           call_int(c, 5, t), h.high, deep_sum});
    }
    return CALL_DONE;
}
