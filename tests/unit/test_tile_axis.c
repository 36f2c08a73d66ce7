// SPDX-License-Identifier: Apache-2.0
// The runs of tiles that an axis of a convolution is cut into, over many axes: they cover it once and in
// order, none is too long, and what is not called an edge reads inside the input only. Between the borders
// there is one text where the number of tiles allows it.
#include "passes/lower/tile/tile_part.h"
#include "unit.h"

enum { MAX_OUT = 70, MAX_TILE = 14 };

typedef struct Counts {
    uint32_t axes, with_borders, short_texts; // short_texts: at most one between the borders
} Counts;

static bool reads_inside(const TileAxis *x, int64_t first, int64_t end)
{
    const int64_t low = first * x->stride - x->pad;
    const int64_t high = (end - 1) * x->stride - x->pad + (x->kernel - 1) * x->dilation;
    return low >= 0 && high < x->in;
}

static void check_runs(Arena *a, const TileAxis *x, int64_t most, Counts *counts)
{
    const TileRuns runs = tile_axis_runs(a, x, most);
    int64_t at = 0, tiles = 0;
    for (uint32_t i = 0; i < runs.len; i++) {
        const TileRun *run = &runs.data[i];
        assert_int_equal(run->column, at);
        assert_in_range(run->pixels, 1, most);
        assert_true(run->count >= 1);
        assert_true(!run->is_edge || run->count == 1);
        at += run->pixels * run->count;
        tiles += run->count;
        assert_true(run->is_edge || reads_inside(x, run->column, at));
    }
    assert_int_equal(at, x->out);
    assert_int_equal(tiles, ceil_div(x->out, most));
    counts->axes++;
    if (tile_axis_has_border(x)) {
        counts->with_borders++;
        counts->short_texts += runs.len <= 3;
    }
}

// out outputs with `pad` zeros in front, and as much of the input as they read but for `missing` behind.
static void check_axis(Arena *a, TileAxis x, int64_t missing, Counts *counts)
{
    x.in = (x.out - 1) * x.stride + (x.kernel - 1) * x.dilation + 1 - x.pad - missing;
    for (int64_t most = 1; most <= MAX_TILE && x.in > 0; most++)
        check_runs(a, &x, most, counts);
}

static void test_runs(void **unused)
{
    (void)unused;
    Arena a = {0};
    Counts counts = {0};
    for (int64_t out = 1; out <= MAX_OUT; out++)
        for (int64_t kernel = 1; kernel <= 7; kernel += 2)
            for (int64_t stride = 1; stride <= 2; stride++)
                for (int64_t pad = 0; pad <= kernel / 2; pad++)
                    for (int64_t missing = 0; missing <= pad; missing++)
                        check_axis(&a, (TileAxis){out, 0, kernel, stride, 1, pad}, missing, &counts);
    assert_true(counts.with_borders > 10000);
    assert_true(counts.short_texts > counts.with_borders * 8 / 10);
    arena_free(&a);
}

static void test_one_text_between_borders(void **unused)
{
    (void)unused;
    static const int64_t sizes[][2] = {{26, 5},  {13, 5}, {52, 5}, {104, 5},
                                       {208, 5}, {28, 6}, {56, 6}, {112, 14}};
    Arena a = {0};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t n = sizes[i][0];
        const TileAxis x = {.out = n, .in = n, .kernel = 3, .stride = 1, .dilation = 1, .pad = 1};
        const TileRuns runs = tile_axis_runs(&a, &x, sizes[i][1]);
        assert_int_equal(runs.len, 3);
        assert_true(runs.data[0].is_edge && !runs.data[1].is_edge && runs.data[2].is_edge);
    }
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs),
                                       cmocka_unit_test(test_one_text_between_borders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
