// SPDX-License-Identifier: Apache-2.0
// The graph that makes a spectrogram of sound, as models that hear were trained on it: windows of 25 ms every
// 10 ms, the energy of their frequencies in bands that widen as the ear's do, and logarithms of it. Separate
// from the models, since it has no weights of theirs.
#include "compiler/import/llm/mel.h"

#include <math.h>

enum {
    HOP = MEL_HOP,
    WINDOW = MEL_WINDOW,
    FREQUENCIES = WINDOW / 2 + 1, // from 0 to half of the rate
    REFLECTED = WINDOW / 2,       // so that the first window has its middle at the first sample
    ROWS = (WINDOW + HOP - 1) / HOP // of HOP samples, that a window touches
};

typedef struct Mel {
    Graph *g;
    Span span;
    int64_t bins, frames;
} Mel;

static NodeId constant(const Mel *m, const int64_t dim[2], const float *data)
{
    const Shape s = shape_of(2, dim);
    return graph_const(m->g, DTYPE_f32, &s, data, type_bytes(DTYPE_f32, &s), m->span);
}

static NodeId scalar(const Mel *m, double v)
{
    return graph_scalar(m->g, DTYPE_f32, v, m->span);
}

// --- windows ---

// Samples as rows of a hop, with the first ones and the last ones mirrored around them.
static NodeId rows_of(const Mel *m)
{
    const int64_t n = m->frames * HOP, rows = m->frames + ROWS - 1;
    const Shape s = shape_of(1, &n), by_hop = shape_of(2, (const int64_t[]){rows, HOP});
    const int64_t pads[] = {REFLECTED, rows * HOP - n - REFLECTED};
    rlx_assert(pads[1] >= WINDOW - HOP - REFLECTED && pads[1] < n && REFLECTED < n);
    const NodeId x = graph_input(m->g, "samples", DTYPE_f32, &s, m->span);
    NodeBuild b = node_begin(m->g, OP_pad, m->span, NULL);
    node_src(&b, x);
    node_ints(&b, A_pad_pads, pads, 2);
    node_str(&b, A_pad_mode, "reflect");
    return graph_reshape(m->g, node_end(&b), &by_hop);
}

static NodeId part(const Mel *m, NodeId x, int64_t axis, int64_t from, int64_t to)
{
    NodeBuild b = node_begin(m->g, OP_slice, m->span, NULL);
    node_slice(&b, x, axis, from, to, 1);
    return node_end(&b);
}

// f32[frames, WINDOW]: what each window sees.
static NodeId windows_of(const Mel *m)
{
    const NodeId rows = rows_of(m);
    NodeId shifted[ROWS];
    for (int64_t i = 0; i < ROWS; i++)
        shifted[i] = part(m, rows, 0, i, i + m->frames);
    shifted[ROWS - 1] = part(m, shifted[ROWS - 1], 1, 0, WINDOW - (ROWS - 1) * HOP);
    NodeBuild b = node_begin(m->g, OP_concat, m->span, NULL);
    node_concat(&b, shifted, ROWS, 1);
    return node_end(&b);
}

// --- frequencies ---

// f32[WINDOW, 2 FREQUENCIES]: cosines, then sines, of all frequencies, faded in and out by half a wave.
static NodeId waves(const Mel *m)
{
    static const int64_t dim[] = {WINDOW, 2 * FREQUENCIES};
    const double turn = 2 * acos(-1.0) / WINDOW;
    float *w = ARENA_ARRAY(m->g->arena, float, WINDOW * 2 * FREQUENCIES);
    for (int t = 0; t < WINDOW; t++)
        for (int f = 0; f < FREQUENCIES; f++) {
            const double fade = 0.5 - 0.5 * cos(turn * t), angle = turn * (f * t % WINDOW);
            w[t * 2 * FREQUENCIES + f] = (float)(fade * cos(angle));
            w[t * 2 * FREQUENCIES + FREQUENCIES + f] = (float)(fade * sin(angle));
        }
    return constant(m, dim, w);
}

// Steps of pitch: even up to 1000 Hz, in proportion above.
static double pitch_of(double hertz)
{
    return hertz < 1000 ? hertz * 3 / 200 : 15 + log(hertz / 1000) * 27 / log(6.4);
}

static double hertz_of(double pitch)
{
    return pitch < 15 ? pitch * 200 / 3 : 1000 * exp((pitch - 15) * log(6.4) / 27);
}

// f32[FREQUENCIES, bins]: bands whose middles are even steps of pitch apart. Each rises from the middle of
// the band before to its own and falls to that of the next one; its weights have the same sum over hertz.
static NodeId bands(const Mel *m)
{
    const int64_t dim[] = {FREQUENCIES, m->bins};
    const double most = MEL_RATE / 2.0, step = pitch_of(most) / (double)(m->bins + 1);
    float *w = ARENA_ARRAY(m->g->arena, float, (size_t)(FREQUENCIES * m->bins));
    for (int64_t i = 0; i < m->bins; i++) {
        const double low = hertz_of((double)i * step), middle = hertz_of((double)(i + 1) * step);
        const double high = hertz_of((double)(i + 2) * step);
        for (int f = 0; f < FREQUENCIES; f++) {
            const double hertz = most * f / (FREQUENCIES - 1);
            const double up = (hertz - low) / (middle - low), down = (high - hertz) / (high - middle);
            w[f * m->bins + i] = (float)(fmax(0, fmin(up, down)) * 2 / (high - low));
        }
    }
    return constant(m, dim, w);
}

// --- the graph ---

// f32[frames, bins]
static NodeId energy_of(const Mel *m)
{
    const NodeId y = graph_op2(m->g, OP_matmul, windows_of(m), waves(m));
    const NodeId re = graph_op1(m->g, OP_square, part(m, y, 1, 0, FREQUENCIES));
    const NodeId im = graph_op1(m->g, OP_square, part(m, y, 1, FREQUENCIES, 2 * FREQUENCIES));
    return graph_op2(m->g, OP_matmul, graph_op2(m->g, OP_add, re, im), bands(m));
}

// Logarithms to base 10, of which none is more than 8 below the greatest; and that within about -1 to 1.
static NodeId compress(const Mel *m, NodeId energy)
{
    Graph *g = m->g;
    NodeId x = graph_op1(g, OP_log, graph_op2(g, OP_max, energy, scalar(m, 1e-10)));
    x = graph_op2(g, OP_mul, x, scalar(m, 1 / log(10)));
    NodeBuild b = node_begin(g, OP_reduce_max, m->span, NULL);
    node_src(&b, x);
    const NodeId least = graph_op2(g, OP_sub, node_end(&b), scalar(m, 8));
    x = graph_op2(g, OP_max, x, least);
    return graph_op2(g, OP_mul, graph_op2(g, OP_add, x, scalar(m, 4)), scalar(m, 0.25));
}

Graph *mel_graph(Arena *a, Diag *d, Span span, int64_t bins, int64_t frames)
{
    static const int64_t perm[] = {1, 0};
    rlx_assert(bins >= 1 && frames >= MEL_LEAST_FRAMES);
    const Mel m = {graph_new(a, d, "model"), span, bins, frames};
    const NodeId x = compress(&m, energy_of(&m));
    graph_output(m.g, "mel", graph_transpose(m.g, x, perm));
    return m.g;
}
