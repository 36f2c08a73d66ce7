// SPDX-License-Identifier: Apache-2.0
// What the device functions rvv_NAME do, for microcontrollers with the vectors of RISC-V (device.def), of at
// least 16 bytes. They share layouts, so all of them are here.
//
// A lane is an output channel. Channels are in blocks of 16, of which the last one may have fewer: L stands
// for how many a block has. Windows are copied by byte_window and byte_fill (mve.h); behind a window stand
// bytes of any value up to a multiple of 4. A window is n bytes.
//
// * rvv_sums(s, x, w, n, channels, pixels, to): sums of pixels, whose windows are at x and `to` apart:
//   s[pixel * channels + channel]. w: of each block what the L sums begin with, then for each input of the
//   window, and for zeros up to a multiple of 4, L weights, a byte each.
// * rvv_bytes_N(y, x, w, n, channels, pixels, pitch, high, to): the same sums as bytes; pixels of y are
//   `pitch` apart. What stands behind the weights of a block is as of mve_bytes2, with L channels in place
//   of four.
// * rvv_deep_N(y, x, w, channels, pixels, pitch, step, reach, head): depthwise, of pixels whose windows are
//   `step` apart in x, to y as above. reach: from the first byte of a window to its end. w: two heads (0 and
//   1), of which `head` says the one that holds: rows and columns of the kernel, how far rows and columns of
//   the window are apart in x, `high`, and how many channels that follow each other have the same input (up
//   to RVV_MOST_SHARED). Then blocks: what the L sums begin with, L weights of each tap, row by row, zeros up
//   to a word, and what stands behind them as above.
#ifndef IR_KERNEL_RVV_H
#define IR_KERNEL_RVV_H

enum {
    RVV_LANES = 16,
    RVV_STEP = 4, // inputs
    RVV_MOST_SHARED = 128,
    RVV_HEAD = 6  // words
};

#endif
