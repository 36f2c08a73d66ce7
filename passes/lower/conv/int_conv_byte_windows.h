// SPDX-License-Identifier: Apache-2.0
// Windows of some pixels of int_conv, as bytes with a sign next to each other in scratch memory, with the
// zero point where they leave the input, for device functions that work on vectors of bytes (ir/kernel/mve.h,
// rvv.h).
#ifndef PASSES_LOWER_CONV_INT_CONV_BYTE_WINDOWS_H
#define PASSES_LOWER_CONV_INT_CONV_BYTE_WINDOWS_H

#include "ir/kernel/device.h"
#include "passes/lower/conv/int_conv.h"

typedef struct ByteWindows {
    IntConv c;
    const Domain *d;
    int64_t unit;       // what device functions read of a window is a multiple of it
    bool is_inside;     // no tap can leave the input
    bool is_joined;     // a run has all columns of the kernel
    bool is_even;       // windows of pixels are one run each, at equal distances
    int64_t runs, n;    // elements of a run
    int64_t to;         // from window to window, in scratch memory
    int64_t zero;       // of the inputs as bytes with a sign
    int64_t pixels;     // at a time
    bool is_by_rows;    // they are in one row, so that the kernel makes row after row
    uint32_t x, window; // params; window 0: the input itself
} ByteWindows;

// All but zero, pixels, is_by_rows and the params.
ByteWindows byte_windows_of(const IntConv *c, const Domain *d, bool is_inside, int64_t unit);
// Can windows be copied, and are zero points and bias known?
bool byte_windows_fit(const ByteWindows *s);
void byte_windows_add_params(ByteWindows *s);
int64_t byte_windows_pixels(const ByteWindows *s); // of the whole result
int64_t byte_windows_length(const ByteWindows *s);
// Element of a window: its weight in channel `o` of a group; 0 where there is none. at: group, o, element.
int32_t byte_windows_weight(const ByteWindows *s, const int32_t *values, const int64_t *at);

typedef struct BytePixels {
    KRef first, pixels; // the pixels whose windows are there
    KRef group;
    KRef x; // of the first window, in the input
} BytePixels;
// Opens loops over pixels and groups, in which the windows are there.
BytePixels byte_windows_open(const ByteWindows *s, uint32_t *opened);
// Of one pixel, to the scratch memory from `to` on.
void byte_windows_copy_pixel(const ByteWindows *s, const IntPixel *p, KRef to);
// Where the first window is. x: where it is in the input.
KRef byte_windows_at(const ByteWindows *s, KRef x);

// Of the taps of a row or column of the kernel, those inside of the input: lo .. lo + n - 1.
typedef struct ByteTaps {
    KRef lo, n;
} ByteTaps;
// at: where tap 0 is.
ByteTaps byte_taps_inside(Kernel *k, KRef at, int64_t taps, int64_t dilation, int64_t in);

#endif
