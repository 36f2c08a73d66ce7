// SPDX-License-Identifier: Apache-2.0
// What the device functions dsp_NAME do, for microcontrollers that multiply pairs of halfwords (device.def).
// They share layouts, so all of them are here.
//
// Inputs are words of two halfwords, each an element less the zero point. Weights are words as well: a byte
// each, for two inputs and two output channels, w[c] + 256 * w[c + 1] in the halfword of each input. The
// product of the two words is S0 + 256 * S1; that with the first and third bytes alone is S0, from which S1
// follows, if it is in -2^23 .. 2^23 - 1.
//
// dsp_pair(d, x, y, rows, n, pitch, zero): the windows of two pixels, `rows` runs of n elements each, `pitch`
// apart,
//   at x and y, to words at d: those of the two pixels in turn.
// dsp_edge(d, x, lo, hi, n, zero): one run of one pixel, of which only the elements lo .. hi - 1 exist (at
// x); the
//   others are the zero point. Every second word is written.
// dsp_sums2(s, x, w, steps, blocks): sums of two pixels, whose words are at x, by blocks of four channels:
//   s[(block * 2 + pixel) * 4 + channel]. w: a block is what the sums begin with, as C01, b0, C23, b2 (Cij =
//   bi + 256 * bj), then `steps` times the words of channels 0, 1 and of channels 2, 3.
// dsp_sums1(s, x, w, steps, blocks): of the first of the two: s[block * 4 + channel].
// dsp_row(s, x, w, steps, blocks): sums of 4 * steps elements at x, whatever the zero point, by blocks of
// eight
//   channels: s[block * 8 + channel]. w: a block is C01, b0, C23, b2, C45, b4, C67, b6, then for each word of
//   a run as below the words of channels 0, 1 to 6, 7.
// dsp_eight(s, x, w, steps): the same of one block, to an array of eight.
// dsp_bytes2_N(y, x, w, steps, blocks, z, high): the sums of dsp_sums2 as bytes, of one pixel at y and of the
// other at z. A
//   channel is floor((sum * factor + start) / 2^(32 + N)), from -128 to 127. Behind the weights of a block
//   stand any number of exceptions: -1 - channel, a sum, and the sum that counts in its stead; then the
//   factors of channels 0, 2, 1 and 3, which are not negative, where all starts are high * 2^32; or DSP_OWN,
//   and for each channel its factor and its start (the lower half, then the upper one). For odd channels all
//   of these starts and sums are 256 times as large, and the shift is N + 8.
//
// dsp_points_N(y, x, w, d, pixels, n, channels, high, zero): for pixels of n elements (a multiple of 4, i8)
// that follow each other, two at a time, dsp_pair to d and dsp_bytes2 to pixels of as many bytes as there are
// channels.
//
// dsp_windows_N(y, d, w, x, pairs, x_step, y_step, shape, start): for pairs of pixels, dsp_pair to d and
// dsp_bytes2. x_step: elements of the input (i8) from pair to pair, of which the second pixel is half as far
// away, or 0 where the windows of one pair are at d already; y_step: the same of the result, in words. shape
// (dsp_window_shape): runs of a window, elements of each, and how far apart they begin. start (dsp_start):
// high and the zero point. dsp_ahead_N: windows move by y_step words from pair to pair.
//
// dsp_planes(d, x, lo, rows, n, columns, row_step, column_step, shape): n rows of four channels to planes at
// d, as words of two neighbouring columns, less the zero point. Only `rows` rows from number lo on exist, the
// first of them at x; the others are zeros, as are columns beside the input's. shape (dsp_shape): how many
// columns of the plane are in front of the input's, the words of a row of a plane, and the zero point. A row
// of the plane of each channel in turn, then the next rows.
//
// dsp_taps1_N(y, d, w, rows, columns, row_step, column_step, high): windows of 3 x 3 of four such planes as
// bytes, three columns or more, each one row and one column behind the last (dsp_taps2_N: two rows and
// columns). w, for each channel: 9 weights, a word that the sum begins with, the factor. If the latter is
// negative, the channel has a start of its own: -2^31 + the distance from its weights to its number of
// exceptions, the factor, the start, and for each exception the sum and the one that counts in its stead.
// Words are not aligned. Results are those of dsp_bytes2.
#ifndef IR_KERNEL_DSP_H
#define IR_KERNEL_DSP_H

#include <stdint.h>

enum {
    DSP_BLOCK = 4,
    DSP_ROW_BLOCK = 8,
    DSP_PLAIN_TAIL = 4, // words behind the weights of a block
    DSP_OWN_TAIL = 1 + 3 * DSP_BLOCK,
    DSP_EXCEPTION = 3, // words of each
    DSP_OWN = -1 - DSP_BLOCK,
    DSP_MAX_SHIFT = 13,
    DSP_TAPS = 9,
    DSP_TAPS_BYTES = DSP_TAPS + 8, // of a channel
    DSP_TAPS_OWN = 16,             // more for a start of its own, without exceptions
};

enum { DSP_MOST_ROWS = 15, DSP_MOST_RUN = 4095, DSP_MOST_PITCH = 32767 };

static inline int64_t dsp_window_shape(int64_t rows, int64_t n, int64_t pitch)
{
    return rows | n << 4 | pitch << 16;
}

static inline int64_t dsp_window_rows(int64_t shape)
{
    return shape & DSP_MOST_ROWS;
}

static inline int64_t dsp_window_run(int64_t shape)
{
    return shape >> 4 & DSP_MOST_RUN;
}

static inline int64_t dsp_window_pitch(int64_t shape)
{
    return shape >> 16;
}

static inline int64_t dsp_start(int64_t high, int64_t zero)
{
    return high * 256 + (zero & 255);
}

static inline int64_t dsp_start_high(int64_t start)
{
    return (start - (start & 255)) / 256;
}

static inline int64_t dsp_start_zero(int64_t start)
{
    return (int8_t)(uint8_t)(start & 255);
}

static inline int64_t dsp_shape(int64_t before, int64_t pitch, int64_t zero)
{
    return before | (zero + 128) << 2 | pitch << 11;
}

static inline int64_t dsp_before(int64_t shape)
{
    return shape & 3;
}

static inline int64_t dsp_zero(int64_t shape)
{
    return (shape >> 2 & 511) - 128;
}

static inline int64_t dsp_pitch(int64_t shape)
{
    return shape >> 11;
}

// The words of a row that dsp_taps wants.
static inline int64_t dsp_taps_pitch(int64_t columns, int64_t stride)
{
    return (columns + 1) / 2 * stride + 1;
}

// Instructions that dsp_taps1 takes for a row of one channel, which it makes by six columns.
static inline int64_t dsp_taps_insns(int64_t columns)
{
    enum { COLUMNS = 6, TURN = 76, PAIR = 35, ROW = 18 };
    const int64_t rest = columns % COLUMNS, last = rest == 0 ? 0 : rest <= 2 ? PAIR : TURN;
    return columns / COLUMNS * TURN + last + ROW;
}

// Words behind the planes that dsp_taps may read: it takes six columns at a time, or one or two at the end.
static inline int64_t dsp_taps_spare(int64_t columns, int64_t stride)
{
    const int64_t rest = columns % 6;
    return rest > 2 ? (3 - (rest + 1) / 2) * stride : 0;
}

// Words of a run of n elements.
static inline int64_t dsp_words(int64_t n)
{
    return n / 4 * 2 + (n % 4 + 1) / 2;
}

// Of a window.
static inline int64_t dsp_window_words(int64_t shape)
{
    return dsp_window_rows(shape) * dsp_words(dsp_window_run(shape));
}

typedef struct DspWord {
    int64_t lo, hi; // elements of the run; hi = -1: 0
} DspWord;

// Word i of a run: elements 0 and 2 of each four, then 1 and 3; of what is left the first and the last, then
// the middle one.
static inline DspWord dsp_word(int64_t n, int64_t i)
{
    const int64_t whole = n / 4 * 4, rest = n - whole, at = i / 2 * 4 + i % 2;
    if (at < whole)
        return (DspWord){at, at + 2};
    return i % 2 == 0 ? (DspWord){whole, rest > 1 ? n - 1 : -1} : (DspWord){whole + 1, -1};
}

#endif
