// SPDX-License-Identifier: Apache-2.0
// Handles that take outputs whose sizes are open (feeds.json with --dynamic): elements go to their places in
// the largest shape, what lies beyond stays; what has no such places is refused before anything is copied.
#include "check.h"
#include "feeds.h"

#ifndef RLX_VULKAN_H
#include "../gpu/fake_count.h"
#endif

enum { N = 8, ALL = 2 * N * 3, CUBE = 2 * N * N * N };

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[FEEDS_ARENA_BYTES];
    RLX_ALIGNED unsigned char state[FEEDS_STATE_BYTES];
} Blocks;

static Blocks one, before;
static float table[ALL], kept[ALL], flat[ALL], rows[N * 3]; // what the handles must hold
static float cube[CUBE];
static int64_t places[8], places8[8];
static const float v[4] = {0, 3, 0, 4};

static float x_at(int64_t b, int64_t t, int64_t k, int seed)
{
    return (float)(seed * 100 + b * 50 + t * 3 + k);
}

static void fill(rlx_ctx *ctx, int64_t n, int seed)
{
    float *x = (float *)rlx_input(ctx, FEEDS_INPUT_x);
    int64_t b, t, k;
    CHECK(rlx_set_symbol(ctx, FEEDS_SYM_seq, n) == RLX_OK);
    memset(one.arena, 0xFF, sizeof one.arena);
    for (b = 0; b < 2; b++)
        for (t = 0; t < n; t++)
            for (k = 0; k < 3; k++) {
                const float value = x_at(b, t, k, seed);
                x[(b * n + t) * 3 + k] = value;
                kept[(b * N + t) * 3 + k] += value;
            }
    memcpy(rlx_input(ctx, FEEDS_INPUT_v), v, sizeof v);
}

static void check_handles(const rlx_ctx *ctx, int line)
{
    float got[ALL] = {0};
    int64_t at[8] = {0};
    CHECK(rlx_read_handle(ctx, "table", got, sizeof table) == RLX_OK);
    check(memcmp(got, table, sizeof table) == 0, "table", line);
    CHECK(rlx_read_handle(ctx, "kept", got, sizeof kept) == RLX_OK);
    check(memcmp(got, kept, sizeof kept) == 0, "kept", line);
    CHECK(rlx_read_handle(ctx, "flat", got, sizeof flat) == RLX_OK);
    check(memcmp(got, flat, sizeof flat) == 0, "flat", line);
    CHECK(rlx_read_handle(ctx, "rows", got, sizeof rows) == RLX_OK);
    check(memcmp(got, rows, sizeof rows) == 0, "rows", line);
    CHECK(rlx_read_handle(ctx, "places", at, sizeof at) == RLX_OK);
    check(memcmp(at, places, sizeof at) == 0, "places", line);
}

// y = 2 x and r = the sum over the two, in the places that they have in the largest shapes.
static void want(int64_t n, int seed, float *to_whole, float *to_rows)
{
    int64_t b, t, k;
    for (b = 0; b < 2; b++)
        for (t = 0; t < n; t++)
            for (k = 0; k < 3; k++) {
                to_whole[(b * N + t) * 3 + k] = 2 * x_at(b, t, k, seed);
                to_rows[t * 3 + k] = x_at(0, t, k, seed) + x_at(1, t, k, seed);
            }
}

static void test_sizes(rlx_ctx *ctx)
{
    static const int64_t sizes[] = {3, 8, 1, 5};
    rlx_feed feeds[2];
    int i;
    feeds[0].handle = "table", feeds[0].output = FEEDS_OUTPUT_y;
    feeds[1].handle = "rows", feeds[1].output = FEEDS_OUTPUT_r;
    for (i = 0; i < 4; i++) {
        fill(ctx, sizes[i], i + 1);
        CHECK(rlx_run_feed(ctx, feeds, 2) == RLX_OK);
        want(sizes[i], i + 1, table, rows);
        check_handles(ctx, __LINE__);
    }
    fill(ctx, 4, 9); // a state: what the device has of it beyond the four stays
    CHECK(rlx_run(ctx) == RLX_OK && rlx_feed_handle(ctx, "kept", FEEDS_OUTPUT_y) == RLX_OK);
    want(4, 9, kept, rows);
    CHECK(rlx_feed_handle(ctx, "rows", FEEDS_OUTPUT_r) == RLX_OK);
    check_handles(ctx, __LINE__);
}

// The next run reads what was fed.
static void test_read(rlx_ctx *ctx)
{
    const float *seen;
    int64_t b, t, k;
    fill(ctx, 2, 11);
    CHECK(rlx_run(ctx) == RLX_OK);
    seen = (const float *)rlx_output(ctx, FEEDS_OUTPUT_seen);
    for (b = 0; b < 2; b++)
        for (t = 0; t < 2; t++)
            for (k = 0; k < 3; k++)
                CHECK(seen[(b * 2 + t) * 3 + k] == 2 * x_at(b, t, k, 11) + table[(b * N + t) * 3 + k]);
}

static void test_refused(rlx_ctx *ctx)
{
    rlx_feed feed;
    float unused[N * 3];
    feed.handle = "flat", feed.output = FEEDS_OUTPUT_y;
    fill(ctx, 3, 12);
    REFUSES(rlx_run_feed(ctx, &feed, 1), RLX_ERR_SIZE); // two pieces, for which flat has no axes
    CHECK(rlx_run(ctx) == RLX_OK);
    REFUSES(rlx_feed_handle(ctx, "flat", FEEDS_OUTPUT_y), RLX_ERR_SIZE);
    check_handles(ctx, __LINE__);
    fill(ctx, N, 13); // all of it is as many bytes
    CHECK(rlx_run_feed(ctx, &feed, 1) == RLX_OK);
    want(N, 13, flat, unused);
    check_handles(ctx, __LINE__);
}

// Feeds outputs whose sizes the model computes: 2 of 4 columns here.
static void test_computed(rlx_ctx *ctx)
{
    rlx_feed feed;
    feed.handle = "places8", feed.output = FEEDS_OUTPUT_at;
    REFUSES(rlx_run_feed(ctx, &feed, 1), RLX_ERR_SIZE);
    feed.handle = "places";
    fill(ctx, 1, 14);
    CHECK(rlx_run_feed(ctx, &feed, 1) == RLX_OK);
    places[0] = 0, places[1] = 1, places[4] = 1, places[5] = 1; // of [0, 1] and [1, 1]
    check_handles(ctx, __LINE__);
}

// What is copied by the device: on the driver of tests, and by Vulkan's command, -1 elsewhere.
static long n_copies;
#ifdef RLX_VULKAN_H
static void (*copy_of_device)(void *, uint64_t, uint64_t, uint32_t, const rlx_vk_copy *);

static void counted_copy(void *commands, uint64_t from, uint64_t to, uint32_t n, const rlx_vk_copy *copies)
{
    n_copies += from == to; // not to or from the host
    copy_of_device(commands, from, to, n, copies);
}
#endif

static long count_copies(void)
{
#ifdef RLX_VULKAN_H
    return n_copies;
#else
    n_copies = fake_count_of("cuMemcpy3DAsync_v2");
    return n_copies < 0 ? -1 : n_copies + fake_count_of("cuMemcpyDtoDAsync_v2");
#endif
}

// Feeds an output: by so many copies, whatever the number of its pieces.
static void feed_by(rlx_ctx *ctx, const char *handle, uint32_t output, long copies, int line)
{
    const long so_far = count_copies();
    check(rlx_feed_handle(ctx, handle, output) == RLX_OK, handle, line);
    check(so_far < 0 || count_copies() == so_far + copies, "copies", line);
}

// Pieces that are two rows, that are one, and those of three axes, of which two are one copy.
static void test_copies(rlx_ctx *ctx)
{
    static const int64_t n = 3;
    float *c, got[CUBE], unused[N * 3];
    int64_t i;
#ifdef RLX_VULKAN_H
    rlx_vulkan *const vk = &rlx_vulkan_of(ctx)->device;
    copy_of_device = vk->api.copy;
    vk->api.copy = counted_copy;
#endif
    fill(ctx, n, 15);
    c = (float *)rlx_input(ctx, FEEDS_INPUT_c);
    for (i = 0; i < 2 * n * n * n; i++)
        c[i] = (float)i;
    for (i = 0; i < 2 * n * n * n; i++)
        cube[((i / (n * n * n) * N + i / (n * n) % n) * N + i / n % n) * N + i % n] = 2 * (float)i;
    CHECK(rlx_run(ctx) == RLX_OK);
    feed_by(ctx, "table", FEEDS_OUTPUT_y, 1, __LINE__);
    feed_by(ctx, "rows", FEEDS_OUTPUT_r, 1, __LINE__);
    feed_by(ctx, "cube", FEEDS_OUTPUT_c2, 2, __LINE__);
    want(n, 15, table, rows);
    check_handles(ctx, __LINE__);
    CHECK(rlx_read_handle(ctx, "cube", got, sizeof got) == RLX_OK && memcmp(got, cube, sizeof got) == 0);
    fill(ctx, N, 16);
    CHECK(rlx_run(ctx) == RLX_OK);
    feed_by(ctx, "flat", FEEDS_OUTPUT_y, 1, __LINE__); // all of it is one piece
    want(N, 16, flat, unused);
    check_handles(ctx, __LINE__);
#ifdef RLX_VULKAN_H
    vk->api.copy = copy_of_device;
#endif
}

int main(void)
{
    rlx_ctx ctx;
    int i;
    memset(&one, 0xFF, sizeof one);
    for (i = 0; i < ALL; i++)
        table[i] = flat[i] = (float)-i;
    for (i = 0; i < 8; i++)
        places[i] = places8[i] = 70 + i;
    CHECK(feeds_init(&ctx, one.arena, sizeof one.arena, one.state, sizeof one.state) == RLX_OK);
    CHECK(rlx_bind_handle(&ctx, "table", table, sizeof table) == RLX_OK);
    for (i = 0; i < CUBE; i++)
        cube[i] = (float)-i;
    CHECK(rlx_bind_handle(&ctx, "cube", cube, sizeof cube) == RLX_OK);
    CHECK(rlx_bind_handle(&ctx, "flat", flat, sizeof flat) == RLX_OK);
    CHECK(rlx_bind_handle(&ctx, "rows", rows, sizeof rows) == RLX_OK);
    CHECK(rlx_bind_handle(&ctx, "places", places, sizeof places) == RLX_OK);
    CHECK(rlx_bind_handle(&ctx, "places8", places8, sizeof places8) == RLX_OK);
    test_sizes(&ctx);
    test_read(&ctx);
    test_refused(&ctx);
    test_computed(&ctx);
    test_copies(&ctx);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
