// SPDX-License-Identifier: Apache-2.0
// What the device functions mve_NAME do, for microcontrollers that sum up 16 products of bytes in one
// instruction (device.def). They share layouts, so all of them are here.
//
// Inputs are bytes with a sign: those without one are less 128. What the zero point adds is a part of
// what sums begin with. A window is n bytes in scratch memory, behind which mve_padded(n) - n bytes
// may have any value.
//
// * byte_window(d, x, n, rows, pitch, pixels, step, to): of each pixel `rows` runs of n elements,
//   `pitch` apart, from x + step * pixel on, to d + to * pixel, where runs follow each other.
// * byte_fill(d, n, value): n bytes.
// * byte_clamp(y, n, pixels, pitch, least, most, flip): n bytes of each pixel, `pitch` apart, are kept
//   between `least` and `most`, then those bits change that `flip` has. dsp_clamp is the same.
// * mve_sums2(s, x, w, n, blocks, to): sums of two pixels, whose windows are at x and x + to, by
//   blocks of four channels: s[(block * 2 + pixel) * 4 + channel]. w: a block is what the sums begin
//   with, then for every 16 inputs those of channel 0, 1, 2 and 3, a byte each; behind the last input
//   stand zeros.
// * mve_sums1(s, x, w, n, blocks): of one pixel, whose window may be anywhere if n is a multiple of
//   16: s[block * 4 + channel].
// * mve_bytes2_N(y, x, w, n, blocks, pixels, pitch, high, to): the same sums as bytes, of any number
//   of pixels, whose windows are `to` apart; pixels of y are `pitch` apart. A channel is (sum *
//   factor + start) / 2^(32 + N), rounded down, from -128 to 127. Behind the weights of a block stand
//   the four factors, which are not negative, where all starts are (high + 2^(N - 1)) * 2^32 (that is
//   added by instructions which round); or -1 - e, then e times four sums and what counts in their
//   stead, channel by channel, the factors, and of each start the complement of the lower half and
//   the upper half, less 2^(N - 1); or -2^31, then for each channel how far left of its place a bit of the
//   sum has to go to become the sign, and the factors: that bit is added to the sum before it is scaled.
// * mve_bytes1_N(y, x, w, n, blocks, high): of the pixel of mve_sums1.
//
// Depthwise: columns of four rows, of 16 channels, a word for each channel.
//
// * mve_columns(t, x, n, columns, step, lo, rows, pitch, zero): n channels of columns that are `step`
//   elements apart. Only the rows lo .. lo + rows - 1 of the four exist, `pitch` apart (row lo is at
//   x); the others are `zero`.
// * mve_deep_N(y, t, w, span, pixels, rows, pitch, row_pitch, high): blocks of four channels of
//   rows of pixels, as the bytes of mve_bytes2, `pitch` and `row_pitch` apart. span: from the first
//   channel of a pixel to its end in y. w: where in t the four words of a window are, less the first one,
//   how far the next pixel is, and from the end of a row the next one, all in bytes; the number of blocks,
//   and how far a channel is from the next one in y, 1; then blocks as above, with 16 weights for a
//   channel: those of the four words. Inputs whose weight is 0 may have any value.
// * mve_apart_N(...): the same, where channels are any number apart in y.
// * mve_wide_N(y, t, w, span, pixels, rows, pitch, row_pitch, inputs): the same of windows of any number
//   of words, four for every 16 inputs, of at least two pixels. From the first channel of a pixel to the
//   last one of the next there are less than 2^16 bytes. w: the number of blocks, how far a channel is from
//   the next one in y, how far the next pixel and the next row are in t, in bytes, `high`, and where the
//   words of a window are; then blocks, before each of which stands how many bytes it has.
#ifndef IR_KERNEL_MVE_H
#define IR_KERNEL_MVE_H

#include <stdint.h>

enum {
    MVE_BLOCK = 4, // channels
    MVE_INPUTS = 16,
    MVE_EXCEPTION = 2 * MVE_BLOCK, // words of four
    MVE_OWN_TAIL = 3 * MVE_BLOCK,  // words behind them
    MVE_ROWS = 4,  // of columns
    MVE_WORDS = 4, // of a window of mve_deep
    MVE_CHANNELS = 16,
    MVE_DEEP_HEAD = MVE_WORDS + 4, // words before the blocks
    MVE_WIDE_HEAD = 5              // words before those that say where the words of a window are
};

static inline int64_t mve_padded(int64_t n)
{
    return (n + MVE_INPUTS - 1) / MVE_INPUTS * MVE_INPUTS;
}

#endif
