// SPDX-License-Identifier: Apache-2.0
// What the files of int_conv's schedule share: lower_int_conv.c brings operands into shape, int_conv_input.c
// the input, int_conv_tile.c computes with vectors, int_conv_matrix.c with matrix registers, int_conv_bytes.c
// with single elements.
#ifndef PASSES_LOWER_CONV_INT_CONV_H
#define PASSES_LOWER_CONV_INT_CONV_H

#include "passes/graph/requantise.h"
#include "passes/lower/lower.h"

// The input in words of four channels: strides in words, of images, slices, rows and columns of the input.
// Where products have 16 bits, a row has halves of words: those of channels 0 and 2, and behind all of them,
// at `odd`, those of channels 1 and 3, if there are more channels than one.
typedef struct IntInput {
    uint32_t param;
    int64_t image, slice, row, column, odd; // odd: 0 where words are bytes
} IntInput;

// How much of the input is copied at a time: all of it before the tiles, or by each thread for itself what a
// row of tiles reads, or one tile.
typedef enum IntCopy { INT_COPY_ALL, INT_COPY_ROWS, INT_COPY_TILE } IntCopy;

enum { INT_MAX_ACC = 32 };

// Tiles of matrix registers.
typedef struct IntMatrix {
    bool is_linear; // tiles are pixels of the padded input that follow each other, across rows
    int64_t pitch;  // pixels from row to row then
    int64_t rows;   // pixels of a tile
    int64_t tiles;  // of a row of pixels (of an image, when linear)
    int64_t taps;   // kernel columns apart from those in the run
    int64_t run;    // words that follow each other at a tap,
    int64_t blocks; // cut into so many blocks of
    int64_t words;
} IntMatrix;

typedef struct IntConv {
    Lower *l;
    NodeId x, w, bias, x_zero, w_zero; // the last three may be 0
    int64_t group;
    int64_t n, h, w_out;                    // result: images, rows, columns
    int64_t in_h, in_w;                     // input rows and columns
    int64_t depth, in_d, kd, sd, dd, pad_d; // of volumes: slices of the result, of the input ...
    int64_t ic, oc;                         // channels of one group
    int64_t words;                          // of the channels of one group and pixel
    int64_t kh, kw, sh, sw, dh, dw, pad_h, pad_w;
    int64_t stride_n, stride_c, stride_d, stride_h, stride_w; // of the input, in elements
    uint32_t source, copy;                                    // params: the input as words, the copy of it
    IntCopy copies;
    KRef copy_at; // index of the first word of a copy that is not of all
    IntInput in;
    // Tiles: `rows` x `columns` pixels (at most) x nv vectors of `lanes` output channels.
    uint8_t lanes, nv;
    int64_t rows, columns;
    bool has_joined_rows, has_joined_images; // one row of all pixels, one column for each image
    int64_t padded;                          // output channels of a group in whole vectors
    int64_t group_words;                     // packed weights of a group, in words
    uint32_t weights, begin, sums;           // params
    uint32_t bias_param;                     // 1 + the param, or 0: the bias is in `begin`
    bool has_sums;                           // the zero point is known at run time only
    IntMatrix m;                             // when on matrix registers
} IntConv;

// The taps along the depth of the kernel that are inside of the input, for some slices of the result; slices:
// 0 behind the last ones.
typedef struct IntTaps {
    int64_t first, n;
    int64_t slice, slices;
    int64_t number; // of such runs of slices
} IntTaps;

// Some pixels by some vectors of output channels.
typedef struct IntTile {
    const IntConv *c;
    const Domain *d;
    KRef zero; // the zero point, when has_sums
    int64_t group;
    IntTaps taps;
    KRef image, slice, row, column; // of the first pixel
    int64_t rows, columns;          // pixels
    KRef block;                     // number of the first channel in the group
    uint8_t nv;
    int64_t channels; // real ones of the block
    KRef weights;     // index of the block's first word
    KRef acc[INT_MAX_ACC];
} IntTile;

// The convolution that the kernel's anchor is.
IntConv int_conv_of(Lower *l);
// Channels of the block of weights that begins at channel `first` of a group, padding included.
int64_t int_conv_width(const IntConv *c, int64_t first);
// Elements of an input axis that windows of `kernel` elements at `out` places reach over.
int64_t int_conv_reach(int64_t out, int64_t stride, int64_t kernel, int64_t dilation);
// Columns of the input that so many of the result read, from `column` on: the first one and their number, and
// how many columns beside the input are in front of it.
typedef struct IntColumns {
    KRef first, n, before;
} IntColumns;
IntColumns int_conv_columns(const IntConv *c, KRef column, int64_t columns);
// Those of the first slices, and of the next ones.
IntTaps int_conv_first_taps(const IntConv *c);
IntTaps int_conv_next_taps(const IntConv *c, const IntTaps *before);
// Do words of halves have channels 1 and 3?
bool int_conv_has_odd(const IntConv *c);
// Are blocks of output channels outside of the loops over pixels?
bool int_conv_goes_by_blocks(const IntConv *c);
// Finds where tiles read: the input itself, or a copy. One of all is made now, the others by
// int_conv_copy_rows (for `rows` rows of the result) and int_conv_copy_tile.
void int_conv_prepare_input(IntConv *c);
void int_conv_copy_rows(const IntConv *c, KRef image, KRef row, int64_t rows);
void int_conv_copy_tile(const IntTile *t);
// Joins pixels where they follow each other everywhere, and chooses the tile.
void int_conv_shape(IntConv *c, Domain *d);
// Emits the loops. zero: the zero point as i32 when has_sums.
void int_conv_tiles(const IntConv *c, const Domain *d, KRef zero);
// Vector v of what the sums of a block begin with.
KRef int_conv_begin(const IntTile *t, uint32_t v);
// Stores vector v of the sums of the pixel at (row, column) of the tile.
void int_conv_store(const IntTile *t, KRef row, KRef column, uint32_t v, KRef value);

// Are matrix registers faster? The input is in words by now. Sets c->m.
bool int_conv_choose_matrix(IntConv *c);
// Packs the weights for them. data: the constant, which lives as long as the graph.
void int_conv_pack_matrix(IntConv *c, const void *data);
// Emits the loops, like int_conv_tiles.
void int_conv_matrix(const IntConv *c, const Domain *d, KRef zero);

// For targets that prefer integers: the whole kernel for constant weights and up to two spatial axes; false
// where it is for neither.
bool int_conv_bytes(IntConv *c, const Domain *d);
// The same with products of pairs of halfwords, where the target has them and they are exact. values: of the
// weights, less their zero points.
bool int_conv_dsp(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
// The same for windows of 3 x 3 of one channel (dsp_taps), and for any others.
bool int_conv_taps(const IntConv *c, const Domain *d, const int32_t *values);
// The same in tiles of pixels and channels, for targets without such products, and of 16-bit inputs.
bool int_conv_grid(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
// The same with sums of 16 products of bytes.
bool int_conv_mve(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
// The same with 16 output channels in vectors of RISC-V.
bool int_conv_rvv(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
// The same for groups with few output channels, some at a time.
bool int_conv_joined(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
// The same for one input channel a group; values: of the weights, less their zero points.
bool int_conv_planes(const IntConv *c, const Domain *d, const int32_t *values);
bool int_conv_mve_deep(const IntConv *c, const Domain *d, const int32_t *values);
bool int_conv_rvv_deep(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);
// The same with one weight for all taps of all channels, where is_inside: no tap can leave the input.
bool int_conv_pool(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside);

// What brings sums back to bytes (int_conv_scale.c).
typedef struct IntScales {
    const RequantScale *of;                    // by output channel
    int64_t n, n_own;                          // channels; those with numbers of their own
    int64_t high, shift;                       // what the others share: (sum * factor >> 32) + high >> shift
    int64_t n_exceptions;                      // of a channel, at most
    RequantEnds ends;
    bool has_even;                             // channels have RequantScale.even
    bool has_choice;                           // between two values: all channels start at `start`
    int64_t start;
    RequantChoice choice;
    uint32_t factors, own, starts, exceptions; // params
    uint32_t evens, choices;
} IntScales;
// False: there are none, or they need more than that.
bool int_scales_find(const IntConv *c, IntScales *s);
// The number of a channel among those that have numbers of their own, from 1 on, or 0 if it has none; no
// value (KRef 0) if no channel has.
KRef int_scales_own(const IntConv *c, const IntScales *s, KRef channel);
// The numbers of a channel, as variables; start is 0 if it has none of its own.
typedef struct IntScale {
    KRef factor, start, even, exception[REQUANT_MOST], added[REQUANT_MOST];
    KRef choices; // index of the channel's words
} IntScale;
// own: as above; 0 also where it is known to be 0.
IntScale int_scales_load(const IntConv *c, const IntScales *s, KRef channel, KRef own);
// Stores the sum of a pixel.
void int_scales_store(const IntConv *c, const Domain *d, const IntScales *s, const IntScale *of,
                      const Point *at, KRef sum);
// The upper half of the start that most of n channels have, if it has no lower half.
int64_t int_scales_high(const RequantScale *scale, int64_t n);
// The nearest sum that gives what exception i has to give; 0 where none is near.
int64_t int_scale_instead(const RequantScale *c, uint32_t i);
// Has the channel numbers of its own, where others have only a factor and start at high * 2^32?
bool int_scale_is_own(const RequantScale *c, int64_t high);
// Can a device function scale a channel with a shift that all share? Starts are to lie between -limit and
// limit.
bool int_scale_fits(const RequantScale *c, int64_t shift, int64_t limit);

// --- what schedules ask and derive (int_conv_facts.c) --------------------------------------------

bool int_conv_is_signed(const IntConv *c); // bytes with a sign?
bool int_conv_is_wide(const IntConv *c);   // 16-bit values?
// Is it a constant, or none?
bool int_conv_knows_bias(const IntConv *c);
bool int_conv_knows_zero(const IntConv *c);
// The zero point of the input; 0 if there is none, or it is no constant.
int64_t int_conv_zero_value(const IntConv *c);
// The zero point as i32.
KRef int_conv_zero(const IntConv *c);
bool int_conv_has_byte_weights(const IntConv *c, const int32_t *values);
// Bias - zero * sum of the weights, by output channel, where these are constants.
int64_t *int_conv_begins(const IntConv *c, const int32_t *values, int64_t zero);
// The same + added, as i32.
uint32_t int_conv_begin_param(const IntConv *c, const int32_t *values, int64_t zero, int64_t added);
// Do the columns of a window, with all channels of the group, follow each other in the input?
bool int_conv_is_joined(const IntConv *c);
// Does the size of an axis depend on the run?
bool int_conv_has_live_axes(const IntConv *c, const Domain *d);
// How the result is stored.
const Access *int_conv_result(const IntConv *c, const Domain *d);
// Rows become columns.
void int_conv_turn(IntConv *c);
// The largest number up to `most` that divides n.
int64_t int_conv_step(int64_t n, int64_t most);
// Ways that make a row of the result in 2, or 4, up to INT_MOST_PARTS parts, one after the other, so that the
// next kernel can take them one by one (passes/plan/ram/rows.h): columns of a part; 0: they would be too few.
enum { INT_MOST_PARTS = 4 };
int64_t int_conv_part(const IntConv *c, int64_t parts);
// Can four channels be read as a word?
bool int_conv_has_words(const IntConv *c);
// The input, where its channels are words, as i32: four channels to an element, or two of 16 bits.
uint32_t int_conv_words(const IntConv *c);

// --- pixels whose windows are copied for device functions (int_conv_window.c) --------------------

// A pixel of the result. row, column: of tap 0 in the input; x: the index of its first element. Both may be
// outside.
typedef struct IntPixel {
    KRef row, column, x;
    Point at;
} IntPixel;

// number: among all pixels of all images.
IntPixel int_pixel_of(const IntConv *c, const Domain *d, KRef number, KRef group);
// place: image, row and column of the result.
IntPixel int_pixel_at(const IntConv *c, const Domain *d, const KRef place[3], KRef group);
// Is all of its window inside of the input?
KRef int_pixel_is_whole(const IntConv *c, const IntPixel *p);
// The address of a channel of a pixel in the result, as bytes with a sign.
KRef int_result_at(const IntConv *c, const Domain *d, const IntPixel *p, KRef group, int64_t channel);
// The param for that.
uint32_t int_result_bytes(const IntConv *c);

// Bytes that a device function has written from address `y` on: `n` of each pixel, pixels `pitch` apart.
typedef struct IntBytes {
    KRef y, n, pixels;
    int64_t pitch;
} IntBytes;
// Makes of them what `ends` says.
void int_ends_emit(const IntConv *c, const RequantEnds *ends, const IntBytes *b);

#endif
