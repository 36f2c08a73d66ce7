// SPDX-License-Identifier: Apache-2.0
// The register-tiled core of convolution and matmul: a rectangle of pixels x NV vectors of output channels
// held in named accumulators, activations broadcast one scalar at a time, weights packed [oc
// block][kh][kw][ic][width of the block]. A matmul is a 1x1 convolution whose pixels are its rows. Borders
// are handled by tiles of their own, so nothing is padded and interior tiles test nothing. Spatial axes
// before rows are loops outside, with their taps clipped to the input. Every sum runs over the taps of these,
// kernel row, kernel column, channel, starting from the bias, however the work is cut.
#ifndef PASSES_LOWER_TILE_TILE_H
#define PASSES_LOWER_TILE_TILE_H

#include "ir/shape/forms.h"
#include "passes/lower/lower.h"

typedef WindowAxis TileAxis; // one spatial axis of a convolution

enum { TILE_MAX_OUTER = SHAPE_MAX_RANK - 4 };

typedef struct TileShape {
    uint32_t n_outer; // spatial axes before rows
    TileAxis outer[TILE_MAX_OUTER];
    int64_t n, h, w;                              // output pixels: images, rows, columns
    int64_t in_h, in_w;                           // input rows and columns
    int64_t ic, oc;                               // channels of one group
    int64_t kh, kw, sh, sw, dh, dw, pad_h, pad_w; // kernel, strides, dilations, pads at the beginning
    bool is_bf16;                                 // input and weights are, or come from, bf16
    int64_t paired; // 0, or the channels of bf16, of which two each are a channel of ic (KOP_dot_bf16)
} TileShape;

// How the input is read: element (image, channel, outer, row, column) at the sum of index * stride.
typedef struct TileInput {
    uint32_t param;
    int64_t stride_n, stride_c, stride_h, stride_w;
    int64_t stride_outer[TILE_MAX_OUTER];
    KRef base; // added to every index (group, batch); k_index(0) if none
    bool has_table;
    uint32_t table; // with has_table: i32, index of channel first_channel + c instead of c * stride_c
    KRef first_channel;
} TileInput;

// Weights: packed blocks of one buffer, or rows of a plain matrix (element (ic, oc) at ic * row_stride + oc).
typedef struct TileWeights {
    uint32_t param;
    bool is_packed;
    int64_t row_stride;
    KRef base;
} TileWeights;

// What the epilogue reads or writes at every pixel, its channels next to each other: fetched ahead when the
// values are too large for the caches. Element of (image, row, column) at the sum of index * stride.
typedef struct TileStream {
    uint32_t param;
    int64_t stride_n, stride_h, stride_w;
    int64_t stride_outer[TILE_MAX_OUTER];
} TileStream;
enum { TILE_MAX_STREAMS = 4 };

// Stores one output vector: `value` is the sum for the pixel; channel is the first of `lanes` channels, count
// of them real.
typedef struct TileOut {
    KRef image, row, column, channel;
    const KRef *outer;
    uint8_t lanes, count;
} TileOut;
typedef void (*TileStore)(Lower *l, const TileOut *out, KRef value, void *ctx);

// How the work is cut and in which order it is done: any plan gives the same bits.
typedef struct TilePlan {
    int64_t nv;            // vectors of output channels, at most
    int64_t rows, columns; // pixels, at most; more than one row only when tiles are as wide as the image
    bool pixels_outside;   // all channels of a tile of pixels before the next one; else all pixels of a block
                           // of channels, so that its weights are read once
} TilePlan;

typedef struct Tile {
    Lower *l;
    TileShape s;
    KRef images; // that count in this run; 0: all
    TileInput in;
    TileWeights w;
    uint32_t bias; // param of the bias [oc], valid when has_bias
    bool has_bias;
    KRef bias_base;
    uint8_t lanes;
    uint8_t max_acc; // accumulators that fit the register file
    uint8_t dot;     // lanes of input channels, see tile_take_dots; 0: none
    TilePlan plan;
    TileStore store;
    void *ctx;
    uint32_t n_streams;
    TileStream stream[TILE_MAX_STREAMS];
} Tile;

// Blocks of output channels, as equal as can be.
typedef struct TileBlocks {
    uint32_t n;
    struct {
        int64_t first, count; // first channel; number of equal blocks that follow each other
        int64_t nv;           // vectors per block
        int64_t width;        // weights per step: the lanes of all vectors
        int64_t channels;     // real channels of the (last) block: less than width when the rest is padding
    } block[4];
} TileBlocks;

// The shape of the rows of l->window, at most, without borders above and below; without a window, s.
TileShape tile_shape_of_window(const Lower *l, const TileShape *s);
// A tile of this shape with the plan that the cost model (or a measurement) prefers.
Tile tile_new(Lower *l, TileShape s);
// Once the input of a tile is set: where there are too few output channels for vectors of them, and input
// channels lie next to each other, sums have vectors of these.
void tile_take_dots(Tile *t);
TileBlocks tile_blocks(const Tile *t);
// Most pixels that tiles take beside nv vectors of channels.
int64_t tile_pixels(const Tile *t, int64_t nv);
// Weights given as element (oc, ic, outer taps, kh, kw) at the sum of index * stride of `data`, which lives
// in the graph: of f32, or bf16 where the shape says so. Strides are those of channels that are not paired.
typedef struct TileSource {
    const void *data;
    int64_t stride_oc, stride_ic, stride_kh, stride_kw;
    int64_t stride_outer[TILE_MAX_OUTER];
    int64_t groups, stride_group; // so many such weights, one behind the other; 0: one
    // So many versions of all groups, one behind the other, the last axis running fastest; 0: one.
    int64_t versions[SHAPE_MAX_RANK - 2], stride_version[SHAPE_MAX_RANK - 2];
    int64_t first; // of a value that is not constant: index of its element at 0 (data: unused)
} TileSource;
// Packed elements of one group.
int64_t tile_packed_elements(const Tile *t);
// A parameter with these weights in the order in which the tiles read them.
TileWeights tile_pack(const Tile *t, const TileSource *src, const char *name);
// Like tile_pack, for a value that is not constant: a kernel of its own packs it (packer.h).
TileWeights tile_pack_stored(const Tile *t, const TileSource *src, NodeId id);
// Tiles of a row: of equal width (give or take one pixel), at most `most` wide, equal neighbours as one run.
// A tile that touches the border is a run of its own, with a constant column.
typedef struct TileRun {
    int64_t column, pixels; // of the first tile
    int64_t count;          // tiles in the run
    bool is_edge;
} TileRun;
typedef VEC(TileRun) TileRuns;
TileRuns tile_runs(Lower *l, const TileShape *s, int64_t most);
// Opens the loop over a run (none for one tile) and gives the column of the tile; then close.
KRef tile_open_run(Kernel *k, const TileRun *run);
void tile_close_run(Kernel *k, const TileRun *run);
// No border columns, or so few of them and of taps that tiles with text of their own for the borders make
// sense.
bool tile_is_worthwhile(const TileShape *s);
// Taps that fall inside the input: [lo, hi). start: input position of tap 0, may be negative.
void tile_clip_taps(Kernel *k, const TileAxis *x, KRef start, KRef *lo, KRef *hi);
TileAxis tile_row_axis(const TileShape *s);
TileAxis tile_column_axis(const TileShape *s);
// Weights of one output channel.
int64_t tile_steps(const TileShape *s);
// Points of the spatial axes before rows, and their taps.
int64_t tile_outer_points(const TileShape *s);
int64_t tile_outer_taps(const TileShape *s);
// Emits the loops.
void tile_emit(const Tile *t);

#endif
