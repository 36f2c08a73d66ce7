// SPDX-License-Identifier: Apache-2.0
// What the convolution schedules share: the numbers of one convolution, and the depthwise schedule.
#ifndef PASSES_LOWER_CONV_CONV_H
#define PASSES_LOWER_CONV_CONV_H

#include "ir/shape/forms.h"
#include "passes/lower/tile/tile.h"

typedef struct Conv {
    NodeId x, w, bias; // bias 0 = none
    int64_t group;
    int64_t shuffle;                                // of the input channels, see the attribute; 1 = none
    TileShape s;                                    // of one group; one spatial axis is w
    int64_t stride_n, stride_c, stride_h, stride_w; // of the input, in elements
    int64_t stride_outer[TILE_MAX_OUTER];
    bool has_pairs;                                 // of bf16: conv_takes_pairs
    KRef images;                                    // that count in this run; 0: all
    const struct GpuBytes *bytes;                   // of int_conv (gpu_matmul.h); else NULL
} Conv;

// A transposed convolution; d: of the root.
typedef struct Transposed {
    NodeId x, w, bias;     // bias 0 = none
    WindowForm form;
    int64_t ic, oc; // channels of one group
    uint32_t spatial;
    Domain d;
    bool has_pairs; // conv_takes_pairs
    uint32_t pairs; // with them: parameter of the image as conv_pair_image makes it
} Transposed;

// Are the weights constant, or worth a kernel that packs them?
bool conv_can_pack(const Lower *l, NodeId w);
// Without vectors, tiles of many groups are more text than they gain.
bool conv_has_many_groups(const Lower *l, int64_t groups);
// Entry `axis` of a list, of which rows and columns are the last two; convolutions along one axis have the
// columns only.
int64_t conv_at_or(const Node *n, AttrId id, uint32_t axis, uint32_t n_spatial, int64_t dflt);
Conv conv_of(const Lower *l, NodeId id);
// Windows over the spatial axes of an input that is at x: all of the shape but n, ic and oc.
void conv_set_axes(Conv *c, const Loc *x, const TileAxis *axis, uint32_t spatial);
// Constant weights [outputs, channels, taps] as a parameter that has them by tap, then by output.
typedef struct TapWeights {
    const unsigned char *data; // lives as long as the kernels
    int64_t outputs, channels, taps;
    DType type;
} TapWeights;
uint32_t conv_param_by_tap(Lower *l, const TapWeights *w);
Point conv_point(const Domain *d, KRef image, KRef channel, KRef row, KRef column);
// The input of a convolution, for a tile to read.
TileInput conv_tile_input(Lower *l, const Conv *c);
// A 1x1 convolution of an image in rows whose result is wanted in rows: is it faster on them as they are?
bool conv_can_keep_rows(const Graph *g, const PassOptions *o, const Node *n);
// A convolution of a row of one channel without padding, whose result is wanted in rows: the same question.
bool conv_can_make_rows(const Graph *g, const PassOptions *o, const Node *n);
// Are image and weights of a convolution of f32 cast from bf16, and the weights constant?
bool conv_is_of_bf16(const Graph *g, const Node *n);
// A convolution of f32 whose image and constant weights come from bf16, on a target that multiplies these in
// matrix registers.
bool conv_comes_from_bf16(const Graph *g, const PassOptions *o, const Node *n);
// A transposed one of that kind, all of whose channels are one group.
bool conv_goes_to_matrix(const Graph *g, const PassOptions *o, const Node *n);
// Is it faster with pairs of channels, which are bf16? Only in tiles (conv_tile).
bool conv_takes_pairs(const Lower *l, const Conv *c);
// Emits a copy of the image in pairs of channels: its parameter.
uint32_t conv_pair_image(Lower *l, const Conv *c);
// Makes these pairs the channels of c, and the image that copy.
void conv_read_pairs(const Lower *l, Conv *c);
// A transposed convolution whose groups have one output channel, with steps along the last axis that make
// vectors: its result is written fastest in rows.
bool conv_can_make_steps(const Graph *g, const Node *n);
// d: of the output. False: nothing was emitted.
bool conv_rows(Lower *l, const Conv *c, const Domain *d);
enum { DEPTHWISE_MAX_EACH = 4 }; // output channels of a group
// Has the convolution one input channel for each group, and one, two or four output channels, next to each
// other, and either few taps or no border along the last axis?
bool depthwise_fits(const Lower *l, const Conv *c);
// Lowers it, if what stores its results takes vectors of channels. Channels are what src calls oc.
void depthwise_emit(Lower *l, const Conv *c, const TileSource *src, TileStore store, void *ctx);
// The same for few taps of rows and columns.
void depthwise_emit_tiles(Lower *l, const Conv *c, const TileSource *src, TileStore store, void *ctx);
// Lowers a convolution of 16-bit floats or of bytes for matrix units of GPUs; false when it does not fit.
bool gpu_conv_lower(Lower *l, const Conv *c);
// The same for all floats on every GPU; d: of the output.
bool gpu_window_conv_lower(Lower *l, const Conv *c, const Domain *d);
// The same for depthwise ones; false when it does not fit.
bool gpu_depthwise_lower(Lower *l, const Conv *c, const Domain *d);
// The same for those to few channels.
bool gpu_few_conv_lower(Lower *l, const Conv *c, const Domain *d);
// Transposed convolutions of floats, with constant weights or with as many taps as the strides have steps, on
// every GPU; false when it does not fit.
bool gpu_deconv_lower(Lower *l, const Transposed *t);
// int_conv on matrix units, where pass_bytes left one for them. False: it does not fit.
bool gpu_int_conv_lower(Lower *l);
// Makes the output's pixels one axis of its domain, its channels the other; false: they do not lie like that.
bool conv_joins_pixels(Lower *l, Domain *d);

#endif
