// SPDX-License-Identifier: Apache-2.0
// The device functions of microcontrollers with vectors of bytes (ir/kernel/mve.h).
#include "ir/interp/device_words.h"
#include "ir/kernel/mve.h"

// --- windows -------------------------------------------------------------------------------------

static int8_t with_sign(Words *a, int64_t i, DType type)
{
    return (int8_t)(words_read_byte(a, 1, i, type) - (type == DTYPE_u8 ? 128 : 0));
}

static CallResult window(Call *c, DType type)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const int64_t n = call_int(c, 2, t), rows = call_int(c, 3, t), pixels = call_int(c, 5, t);
        for (int64_t i = 0; i < n * rows * pixels && !a.is_wrong; i++) {
            const int64_t pixel = i / n / rows, row = i / n % rows;
            a.is_poison = false;
            const int64_t from = pixel * call_int(c, 6, t) + row * call_int(c, 4, t) + i % n;
            const int8_t v = with_sign(&a, from, type);
            words_write_byte(&a, 0, pixel * call_int(c, 7, t) + i % (n * rows), v);
        }
    }
    return CALL_DONE;
}

CallResult interp_byte_window_i8(Call *c)
{
    return window(c, DTYPE_i8);
}

CallResult interp_byte_window_u8(Call *c)
{
    return window(c, DTYPE_u8);
}

CallResult interp_byte_fill(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        for (int64_t i = 0; i < call_int(c, 1, t) && !a.is_wrong; i++)
            words_write_byte(&a, 0, i, (int8_t)call_int(c, 2, t));
    }
    return CALL_DONE;
}

static CallResult clamp(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const int64_t n = call_int(c, 1, t), least = call_int(c, 4, t), most = call_int(c, 5, t);
        for (int64_t i = 0; i < n * call_int(c, 2, t) && !a.is_wrong; i++) {
            const int64_t at = i / n * call_int(c, 3, t) + i % n;
            a.is_poison = false;
            const int64_t v = words_read_byte(&a, 0, at, DTYPE_i8);
            const int64_t kept = v < least ? least : v > most ? most : v;
            words_write_byte(&a, 0, at, (int8_t)(kept ^ call_int(c, 6, t)));
        }
    }
    return CALL_DONE;
}

CallResult interp_byte_clamp(Call *c)
{
    return clamp(c);
}

CallResult interp_dsp_clamp(Call *c)
{
    return clamp(c);
}

// --- sums ----------------------------------------------------------------------------------------

// Channel j of the block whose words begin at w, for the window at x.
static int32_t sum_of(Words *a, int64_t x, int64_t w, int64_t j)
{
    const int64_t n = call_int(a->c, 3, a->t);
    uint32_t sum = (uint32_t)words_read(a, 2, w + j);
    for (int64_t i = 0; i < n && !a->is_wrong; i++) {
        const int64_t step = i / MVE_INPUTS, at = (step * MVE_BLOCK + j) * MVE_INPUTS + i % MVE_INPUTS;
        const int32_t weight = words_read_byte(a, 2, (w + MVE_BLOCK) * 4 + at, DTYPE_i8);
        sum += (uint32_t)(words_read_byte(a, 1, x + i, DTYPE_i8) * weight);
    }
    return (int32_t)sum;
}

// Words of a block, without its tail.
static int64_t words_of_sums(const Words *a)
{
    return MVE_BLOCK + mve_padded(call_int(a->c, 3, a->t));
}

static CallResult sums(Call *c, int64_t pixels)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const int64_t to = pixels > 1 ? call_int(c, 5, t) : 0;
        for (int64_t i = 0; i < call_int(c, 4, t) * pixels * MVE_BLOCK && !a.is_wrong; i++) {
            const int64_t block = i / MVE_BLOCK / pixels, pixel = i / MVE_BLOCK % pixels;
            a.is_poison = false;
            const int32_t sum = sum_of(&a, pixel * to, block * words_of_sums(&a), i % MVE_BLOCK);
            words_write(&a, 0, i, sum);
        }
    }
    return CALL_DONE;
}

CallResult interp_mve_sums2(Call *c)
{
    return sums(c, 2);
}

CallResult interp_mve_sums1(Call *c)
{
    return sums(c, 1);
}

// --- bytes ---------------------------------------------------------------------------------------

// Of channel j, from its sum. *tail: where the words behind the weights begin, then the end of the block.
static int8_t byte_of(Words *a, int64_t *tail, int64_t j, int64_t sum, int64_t high)
{
    const int64_t shift = a->c->constant, half = INT64_C(1) << (shift - 1);
    const int32_t first = words_read(a, 2, *tail);
    uint64_t start = (uint64_t)high << 32;
    int64_t at = *tail;
    if (first == INT32_MIN) {
        sum += (uint32_t)sum << words_read(a, 2, at + 1 + j) >> 31;
        at += 1 + MVE_BLOCK;
    } else if (first < 0) {
        const int64_t n = -1 - (int64_t)first, factors = at + 1 + n * MVE_EXCEPTION;
        int64_t counts = sum;
        for (int64_t i = 0; i < n && !a->is_wrong; i++)
            if (words_read(a, 2, at + 1 + i * MVE_EXCEPTION + j) == counts)
                counts = words_read(a, 2, at + 1 + i * MVE_EXCEPTION + MVE_BLOCK + j);
        sum = counts;
        const uint32_t low = ~(uint32_t)words_read(a, 2, factors + MVE_BLOCK + j);
        start = (uint64_t)(int64_t)words_read(a, 2, factors + 2 * MVE_BLOCK + j) << 32 | low;
        at = factors;
    }
    *tail = at + (first < 0 && first != INT32_MIN ? MVE_OWN_TAIL : MVE_BLOCK);
    const int64_t product = sum * words_read(a, 2, at + j);
    const int64_t v = ((int64_t)((uint64_t)product + start) >> 32) + half;
    return words_saturated(v >> shift);
}

// One pixel, whose window is at x, to y.
static void bytes_of_pixel(Words *a, int64_t y, int64_t x, int64_t high)
{
    int64_t w = 0;
    for (int64_t i = 0; i < call_int(a->c, 4, a->t) * MVE_BLOCK && !a->is_wrong; i++) {
        a->is_poison = false;
        const int32_t sum = sum_of(a, x, w, i % MVE_BLOCK);
        int64_t tail = w + words_of_sums(a);
        const int8_t v = byte_of(a, &tail, i % MVE_BLOCK, sum, high);
        words_write_byte(a, 0, y + i, v);
        w = i % MVE_BLOCK == MVE_BLOCK - 1 ? tail : w;
    }
}

CallResult interp_mve_bytes2(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        for (int64_t i = 0; i < call_int(c, 5, t) && !a.is_wrong; i++)
            bytes_of_pixel(&a, i * call_int(c, 6, t), i * call_int(c, 8, t), call_int(c, 7, t));
    }
    return CALL_DONE;
}

CallResult interp_mve_bytes1(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        bytes_of_pixel(&a, 0, 0, call_int(c, 5, t));
    }
    return CALL_DONE;
}

// --- depthwise -----------------------------------------------------------------------------------

static CallResult columns(Call *c, DType type)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const int64_t n = call_int(c, 2, t), lo = call_int(c, 5, t), hi = lo + call_int(c, 6, t);
        for (int64_t i = 0; i < call_int(c, 3, t) * n * MVE_ROWS && !a.is_wrong; i++) {
            const int64_t row = i % MVE_ROWS, channel = i / MVE_ROWS % n, column = i / MVE_ROWS / n;
            const int64_t from = column * call_int(c, 4, t) + (row - lo) * call_int(c, 7, t) + channel;
            a.is_poison = false;
            const bool is_there = lo <= row && row < hi;
            const int8_t v = is_there ? with_sign(&a, from, type) : (int8_t)call_int(c, 8, t);
            words_write_byte(&a, 0, (column * MVE_CHANNELS + channel) * 4 + row, v);
        }
    }
    return CALL_DONE;
}

CallResult interp_mve_columns_i8(Call *c)
{
    return columns(c, DTYPE_i8);
}

CallResult interp_mve_columns_u8(Call *c)
{
    return columns(c, DTYPE_u8);
}

// Channel j of a block, whose words begin at w. from: where in t the word of its first column is, in bytes.
static int32_t deep_sum(Words *a, int64_t w, int64_t j, int64_t from)
{
    uint32_t sum = (uint32_t)words_read(a, 2, w + j);
    for (int64_t i = 0; i < MVE_INPUTS && !a->is_wrong; i++) {
        const int64_t at = from + words_read(a, 2, i / 4) + i % 4;
        const int32_t weight = words_read_byte(a, 2, (w + MVE_BLOCK) * 4 + j * MVE_INPUTS + i, DTYPE_i8);
        if (weight != 0)
            sum += (uint32_t)(words_read_byte(a, 1, at, DTYPE_i8) * weight);
    }
    return (int32_t)sum;
}

// All channels of a pixel, whose first column is at `from`.
static void deep_pixel(Words *a, int64_t y, int64_t from)
{
    int64_t w = MVE_DEEP_HEAD;
    for (int64_t i = 0; i < words_read(a, 2, MVE_WORDS + 2) * MVE_BLOCK && !a->is_wrong; i++) {
        a->is_poison = false;
        const int32_t sum = deep_sum(a, w, i % MVE_BLOCK, from + i * 4);
        int64_t tail = w + MVE_BLOCK + MVE_INPUTS;
        const int8_t v = byte_of(a, &tail, i % MVE_BLOCK, sum, call_int(a->c, 8, a->t));
        words_write_byte(a, 0, y + i * words_read(a, 2, MVE_WORDS + 3), v);
        w = i % MVE_BLOCK == MVE_BLOCK - 1 ? tail : w;
    }
}

CallResult interp_mve_deep(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const int64_t pixels = call_int(c, 4, t), rows = call_int(c, 5, t);
        int64_t from = 0;
        for (int64_t i = 0; i < pixels * rows && !a.is_wrong; i++) {
            const int64_t row = i / pixels, pixel = i % pixels;
            deep_pixel(&a, row * call_int(c, 7, t) + pixel * call_int(c, 6, t), from);
            from +=
                words_read(&a, 2, MVE_WORDS) + (pixel == pixels - 1 ? words_read(&a, 2, MVE_WORDS + 1) : 0);
        }
    }
    return CALL_DONE;
}

CallResult interp_mve_apart(Call *c)
{
    return interp_mve_deep(c);
}

// Channel j of a block of mve_wide, whose words begin at w. from: as of deep_sum.
static int32_t wide_sum(Words *a, int64_t w, int64_t j, int64_t from)
{
    uint32_t sum = (uint32_t)words_read(a, 2, w + j);
    for (int64_t i = 0; i < call_int(a->c, 8, a->t) && !a->is_wrong; i++) {
        const int64_t at = from + words_read(a, 2, MVE_WIDE_HEAD + i / 4) + i % 4;
        const int64_t step = i / MVE_INPUTS * MVE_BLOCK + j;
        const int32_t weight =
            words_read_byte(a, 2, (w + MVE_BLOCK) * 4 + step * MVE_INPUTS + i % MVE_INPUTS, DTYPE_i8);
        if (weight != 0)
            sum += (uint32_t)(words_read_byte(a, 1, at, DTYPE_i8) * weight);
    }
    return (int32_t)sum;
}

// A block of a pixel, whose words begin at w.
static void wide_block(Words *a, int64_t w, int64_t y, int64_t from)
{
    for (int64_t j = 0; j < MVE_BLOCK && !a->is_wrong; j++) {
        a->is_poison = false;
        int64_t tail = w + MVE_BLOCK + call_int(a->c, 8, a->t) / MVE_INPUTS * MVE_BLOCK * MVE_INPUTS / 4;
        const int32_t sum = wide_sum(a, w, j, from + j * 4);
        const int8_t v = byte_of(a, &tail, j, sum, words_read(a, 2, 4));
        words_write_byte(a, 0, y + j * words_read(a, 2, 1), v);
    }
}

CallResult interp_mve_wide(Call *c)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        Words a = {.c = c, .t = t};
        const int64_t pixels = call_int(c, 4, t), rows = call_int(c, 5, t);
        int64_t w = MVE_WIDE_HEAD + call_int(c, 8, t) / 4;
        for (int64_t b = 0; b < words_read(&a, 2, 0) && !a.is_wrong; b++) {
            for (int64_t i = 0; i < pixels * rows && !a.is_wrong; i++) {
                const int64_t y = i / pixels * call_int(c, 7, t) + i % pixels * call_int(c, 6, t),
                              from = i / pixels * words_read(&a, 2, 3) + i % pixels * words_read(&a, 2, 2);
                wide_block(&a, w + 1, y + b * MVE_BLOCK * words_read(&a, 2, 1), from + b * MVE_BLOCK * 4);
            }
            w += 1 + words_read(&a, 2, w) / 4;
        }
    }
    return CALL_DONE;
}
