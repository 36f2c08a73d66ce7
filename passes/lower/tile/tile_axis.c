// SPDX-License-Identifier: Apache-2.0
// Cuts the axes of convolutions: into runs of equal tiles with the borders apart, and into spans of taps that
// read inside the input for the same pixels.
#include "passes/lower/tile/tile_part.h"

int64_t tile_outer_points(const TileShape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->n_outer; i++)
        n *= s->outer[i].out;
    return n;
}

int64_t tile_outer_taps(const TileShape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->n_outer; i++)
        n *= s->outer[i].kernel;
    return n;
}

TileAxis tile_row_axis(const TileShape *s)
{
    return (TileAxis){s->h, s->in_h, s->kh, s->sh, s->dh, s->pad_h};
}

TileAxis tile_column_axis(const TileShape *s)
{
    return (TileAxis){s->w, s->in_w, s->kw, s->sw, s->dw, s->pad_w};
}

static int64_t edge_outputs(const TileAxis *x)
{
    return window_low_edge(x) + window_high_edge(x);
}

bool tile_axis_has_border(const TileAxis *x)
{
    return edge_outputs(x) > 0;
}

bool tile_axis_has_many_edges(const TileAxis *x)
{
    return edge_outputs(x) > CONV_MAX_EDGES;
}

bool tile_is_worthwhile(const TileShape *s)
{
    const TileAxis x = tile_column_axis(s);
    return !tile_axis_has_border(&x) || (s->kw <= CONV_MAX_TAPS && !tile_axis_has_many_edges(&x));
}

// The outputs of the tile at the low border, of those between the borders, and of the one at the high border.
// 0: there is no such border.
typedef struct BorderCut {
    int64_t low, between, high;
} BorderCut;

// Cuts an axis so that all tiles between the borders are equal, and share one text. The tiles at the borders
// have texts of their own anyway, so they may be longer or shorter. False: the borders are wider than
// that, or a tile would be so short that it leaves units for products idle.
static bool cut_at_borders(const TileAxis *x, int64_t most, BorderCut *best)
{
    const int64_t n = ceil_div(x->out, most), base = x->out / n;
    const int64_t low = window_low_edge(x), high = window_high_edge(x), borders = (low > 0) + (high > 0);
    int64_t longest_short = base / 2; // the shortest tile of the best cut
    for (int64_t between = base; borders > 0 && n > borders && between <= most && between <= base + 1;
         between++) {
        const int64_t rest = x->out - (n - borders) * between;
        const int64_t shorter = rest / borders, longer = rest - shorter * (borders - 1);
        const BorderCut cut = {.low = low > 0 ? longer : 0,
                               .between = between,
                               .high = high > 0 ? rest - (low > 0 ? longer : 0) : 0};
        if (shorter > longest_short && longer <= most && cut.low >= low && cut.high >= high) {
            longest_short = shorter;
            *best = cut;
        }
    }
    return longest_short > base / 2;
}

static TileRuns runs_of_cut(Arena *a, const TileAxis *x, const BorderCut *cut)
{
    TileRuns runs = {0};
    const int64_t end = x->out - cut->high;
    if (cut->low > 0)
        vec_push(a, &runs, ((TileRun){.pixels = cut->low, .count = 1, .is_edge = true}));
    vec_push(a, &runs,
             ((TileRun){
                 .column = cut->low, .pixels = cut->between, .count = (end - cut->low) / cut->between}));
    if (cut->high > 0)
        vec_push(a, &runs, ((TileRun){.column = end, .pixels = cut->high, .count = 1, .is_edge = true}));
    return runs;
}

// As equal as can be, the longer ones first.
static TileRuns equal_runs(Arena *a, const TileAxis *x, int64_t most)
{
    TileRuns runs = {0};
    const int64_t n = ceil_div(x->out, most), base = x->out / n, last = window_last_inside(x);
    const int64_t longer = x->out % n; // the first `longer` tiles have one more
    int64_t at = 0;
    for (int64_t i = 0; i < n;) {
        TileRun run = {.column = at, .pixels = base + (i < longer ? 1 : 0), .count = 1};
        const int64_t alike = (i < longer ? longer : n) - i, inside = (last + 1 - at) / run.pixels;
        run.is_edge = at * x->stride < x->pad || inside < 1;
        if (!run.is_edge)
            run.count = inside < alike ? inside : alike;
        vec_push(a, &runs, run);
        at += run.count * run.pixels;
        i += run.count;
    }
    return runs;
}

TileRuns tile_axis_runs(Arena *a, const TileAxis *x, int64_t most)
{
    rlx_assert(most >= 1 && x->kernel >= 0 && x->stride >= 1);
    BorderCut cut = {0};
    return cut_at_borders(x, most, &cut) ? runs_of_cut(a, x, &cut) : equal_runs(a, x, most);
}

TileRuns tile_runs(Lower *l, const TileShape *s, int64_t most)
{
    rlx_assert(s->w >= 0 && s->kw >= 0);
    const TileAxis x = tile_column_axis(s);
    return tile_axis_runs(l->pass->scratch, &x, most);
}

TileSpans tile_spans(Arena *a, const TileAxis *x, int64_t start, int64_t pixels)
{
    rlx_assert(pixels >= 1 && x->dilation >= 1);
    TileSpans spans = {0};
    for (int64_t tap = 0; tap < x->kernel; tap++) {
        TileSpan s = {.first = tap, .count = 1, .hi = pixels};
        const int64_t at = start * x->stride - x->pad + tap * x->dilation;
        while (start >= 0 && s.lo < s.hi && at + s.lo * x->stride < 0)
            s.lo++;
        while (start >= 0 && s.hi > s.lo && at + (s.hi - 1) * x->stride >= x->in)
            s.hi--;
        if (s.lo >= s.hi)
            continue;
        TileSpan *before = spans.len > 0 ? &spans.data[spans.len - 1] : NULL;
        if (before && before->lo == s.lo && before->hi == s.hi && before->first + before->count == tap)
            before->count++;
        else
            vec_push(a, &spans, s);
    }
    return spans;
}

KRef tile_open_run(Kernel *k, const TileRun *run)
{
    rlx_assert(run->count >= 1 && run->pixels >= 1);
    const KRef first = k_index(k, run->column);
    const KRef end = k_index(k, run->column + run->count * run->pixels);
    return run->count == 1 ? first : k_for(k, first, end, run->pixels, KFOR_PARALLEL, "ow");
}

void tile_close_run(Kernel *k, const TileRun *run)
{
    if (run->count > 1)
        k_end(k);
}
