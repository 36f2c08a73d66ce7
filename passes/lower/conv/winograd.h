// SPDX-License-Identifier: Apache-2.0
// Winograd convolution F(m x m, r x r): a tile of m x m outputs costs (m + r - 1)^2 products a pair of
// channels instead of m^2 r^2. One kernel: for a block of tiles, the input transform of all channels into V[n
// * n][tile][ic], then for each block of output channels n * n matrix products with the weights U[oc block][n
// * n][ic][oc] into S[n * n][tile][oc], then the output transform, bias, epilogue and store.
//
// Contract: results differ from direct sums by rounding only, within the bound --accuracy where the values
// are finite; a NaN or an infinity in the input reaches all outputs of the tiles that read it (up to m + r -
// 2 pixels away), where direct sums reach r - 1 pixels.
#ifndef PASSES_LOWER_CONV_WINOGRAD_H
#define PASSES_LOWER_CONV_WINOGRAD_H

#include "passes/lower/conv/conv.h"

// --- the matrices ----------------------------------------------------------------------------------

enum { WINOGRAD_MIN_M = 2, WINOGRAD_MAX_M = 6, WINOGRAD_MAX_N = 8, WINOGRAD_MAX_R = 5 };

// In one dimension: y = at ((g w) * (bt d)), with m outputs y, n = m + r - 1 inputs d and r weights w.
typedef struct WinogradForm {
    uint8_t m, n, r;
    int64_t chunk; // channels that are summed up before they join the sum of those before
    double at[WINOGRAD_MAX_M][WINOGRAD_MAX_N];
    double g[WINOGRAD_MAX_N][WINOGRAD_MAX_R];
    double bt[WINOGRAD_MAX_N][WINOGRAD_MAX_N];
} WinogradForm;

// The entries of g and bt are exact, those of at rounded once. m from WINOGRAD_MIN_M to WINOGRAD_MAX_M, m + r
// - 1 at most WINOGRAD_MAX_N.
WinogradForm winograd_form(uint8_t m, uint8_t r);
// The largest error to be expected of sums over ic channels, relative to the largest magnitude of the result.
double winograd_error(const WinogradForm *f, int64_t ic);
// An entry of g as a sum of powers of two: products with each are exact, so that what is added up has the
// same bits whether or not compilers fuse multiplications and additions.
enum { WINOGRAD_MAX_PARTS = 8 };
typedef struct WinogradFactor {
    uint32_t n; // 0: the entry is 0
    double part[WINOGRAD_MAX_PARTS];
} WinogradFactor;
WinogradFactor winograd_factor(double entry);
// Operations on vectors of one 1-D transform: of the input, of the weights, and of the output.
uint32_t winograd_input_ops(const WinogradForm *f);
uint32_t winograd_weight_ops(const WinogradForm *f);
uint32_t winograd_output_ops(const WinogradForm *f);
// Emits y = bt x, y = g x and y = at x on vectors.
void winograd_emit_input(Kernel *k, const WinogradForm *f, const KRef *x, KRef *y);
void winograd_emit_weights(Kernel *k, const WinogradForm *f, const KRef *x, KRef *y);
void winograd_emit_output(Kernel *k, const WinogradForm *f, const KRef *x, KRef *y);

// --- a convolution ---------------------------------------------------------------------------------

// Blocks of output channels: kinds of equal blocks, one after the other. channels: real ones of a block.
typedef struct WinogradBlocks {
    uint32_t n;
    struct {
        int64_t first, count, channels;
        uint8_t nv;
    } kind[3];
} WinogradBlocks;

typedef struct Winograd {
    Lower *l;
    const Conv *c;
    const Domain *d; // of the output, [N, C, H, W] or [N, C, W]
    WinogradForm form;
    int64_t rows, columns, tiles; // tiles of an image, and in all images
    int64_t block, blocks;        // tiles of a block of tiles, and how many blocks
    int64_t pitch;                // of the channels of a tile in V
    uint8_t in_lanes, lanes;      // of input and of output channels
    uint8_t max_acc;
    // Weights are transformed when the kernel runs, for one chunk of channels after the other, where reading
    // U from memory would take longer: it is n * n / r * r times as large as they are.
    bool transforms_weights;
    int64_t chunk; // channels that are summed in one go, at most form.chunk
    WinogradBlocks oc;
    int64_t threads; // for which blocks are chosen; all else is chosen for one
    double cycles;   // estimated
} Winograd;

// All but the emitted text: false when the convolution is none that it can do.
typedef enum WinogradWeights { WINOGRAD_FASTER, WINOGRAD_PACKED, WINOGRAD_RAW } WinogradWeights;
uint32_t winograd_pack(const Winograd *w);         // the parameter U, of constants ...
uint32_t winograd_pack_lasting(const Winograd *w); // ... and of parameters (winograd_pack.c)
int64_t winograd_weights(const Winograd *w);       // elements of that parameter, all groups
int64_t winograd_taps(const Winograd *w);          // of them for a pair of channels
// Floats between the panels of transformed weights of one chunk.
int64_t winograd_panel(const Winograd *w);
int64_t winograd_width(const Winograd *w); // channels of the widest block
// Floats of V and S for one block.
int64_t winograd_v_size(const Winograd *w);
int64_t winograd_s_stride(const Winograd *w);
void winograd_emit(const Winograd *w);
// Lowers the convolution when it can be done so, within the accuracy that the options allow, and is faster.
bool winograd_lower(Lower *l, const Conv *c, const Domain *d);

#endif
