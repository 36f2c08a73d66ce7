// SPDX-License-Identifier: Apache-2.0
// The calls of rlx_moe.h on a generated model (moe_model.py; output set first = y), in both forms: all
// experts in the weights, and in a file of their own with memory for three; for one number of rows and for
// each, in buckets too; alone and on two threads. Results are compared with a dense evaluation of the experts
// that the router chose; masks, sources, slots and threads must change no bit.
#include "check.h"
#include "moe.h"
#include <math.h>
#include <stdio.h>

enum { ROWS = 6, LAYERS = 2 };
static const int n_experts[LAYERS] = {5, 7}, n_chosen[LAYERS] = {2, 3};

static int rows = ROWS; // of a run

typedef struct Blocks {
    RLX_ALIGNED unsigned char arena[MOE_ARENA_BYTES + 64];
    RLX_ALIGNED unsigned char state[MOE_STATE_BYTES + 64];
#ifdef MOE_MOE_SLOTS
    RLX_ALIGNED unsigned char pool[MOE_MOE_POOL_BYTES + 64];
#endif
} Blocks;

static Blocks one, two, before;
static RLX_ALIGNED unsigned char experts[MOE_MOE_BYTES + 65536];
static size_t experts_bytes;

// --- the model in double -------------------------------------------------------------------------

static double weight(int layer, int part, int i)
{
    return ((i * 37 + layer * 11 + part * 5 + i / 16) % 17 - 8) / (2.0 * WIDTH);
}

static double input(int run, int i)
{
    return ((i * 29 + run * 7) % 23 - 11) / 8.0;
}

// The router's probabilities for a row.
static void route(int layer, const double *x, double *p)
{
    double sum = 0;
    int e, i;
    for (e = 0; e < n_experts[layer]; e++) {
        p[e] = 0;
        for (i = 0; i < WIDTH; i++)
            p[e] += x[i] * weight(layer, 0, i * n_experts[layer] + e);
        sum += p[e] = exp(p[e]);
    }
    for (e = 0; e < n_experts[layer]; e++)
        p[e] /= sum;
}

// y += share * expert(x)
static void add_expert(int layer, int e, double share, const double *x, double *y)
{
    double h[HIDDEN];
    int i, j;
    for (j = 0; j < HIDDEN; j++) {
        double gate = 0, up = 0;
        for (i = 0; i < WIDTH; i++) {
            gate += x[i] * weight(layer, 1, (e * WIDTH + i) * HIDDEN + j);
            up += x[i] * weight(layer, 2, (e * WIDTH + i) * HIDDEN + j);
        }
        h[j] = gate / (1 + exp(-gate)) * up;
    }
    for (i = 0; i < WIDTH; i++)
        for (j = 0; j < HIDDEN; j++)
            y[i] += share * h[j] * weight(layer, 3, (e * HIDDEN + j) * WIDTH + i);
}

// One row through a layer, with the experts in `choice`, which must be the best ones.
static void mix(int layer, const int32_t *choice, const double *x, double *y)
{
    double p[8], least = 1, sum = 0;
    int i, e;
    route(layer, x, p);
    for (i = 0; i < n_chosen[layer]; i++) {
        CHECK(choice[i] >= 0 && choice[i] < n_experts[layer]);
        least = p[choice[i]] < least ? p[choice[i]] : least;
        sum += p[choice[i]];
    }
    for (e = 0; e < n_experts[layer]; e++) {
        int is_chosen = 0;
        for (i = 0; i < n_chosen[layer]; i++)
            is_chosen += choice[i] == e;
        CHECK(is_chosen <= 1 && (is_chosen || p[e] <= least + 1e-6));
    }
    memcpy(y, x, WIDTH * sizeof *y);
    for (i = 0; i < n_chosen[layer]; i++)
        add_expert(layer, choice[i], p[choice[i]] / sum, x, y);
}

static int is_near(const float *got, const double *want)
{
    int i, ok = 1;
    for (i = 0; i < WIDTH; i++)
        ok = ok && fabs(got[i] - want[i]) <= 1e-4 * (1 + fabs(want[i]));
    return ok;
}

static void fill_input(const rlx_ctx *ctx, int run)
{
    float *x = (float *)rlx_input(ctx, MOE_INPUT_x);
    int i;
    for (i = 0; i < rows * WIDTH; i++)
        x[i] = (float)input(run, i);
}

static void check_dense(const rlx_ctx *ctx, int run)
{
    const float *y = (const float *)rlx_output(ctx, MOE_OUTPUT_y),
                *z = (const float *)rlx_output(ctx, MOE_OUTPUT_z);
    size_t counts[LAYERS] = {0, 0};
    const int32_t *choice[LAYERS];
    int row, i;
    for (i = 0; i < LAYERS; i++) {
        choice[i] = rlx_moe_choices(ctx, (uint32_t)i, &counts[i]);
        CHECK(choice[i] != NULL && counts[i] == ctx->model->moe->layers[i].rows);
        if (choice[i] == NULL)
            return;
        for (row = rows * n_chosen[i]; row < (int)counts[i]; row++)
            CHECK(choice[i][row] == -1);
    }
    for (row = 0; row < rows; row++) {
        double x[WIDTH], want_y[WIDTH], want_z[WIDTH];
        for (i = 0; i < WIDTH; i++)
            x[i] = input(run, row * WIDTH + i);
        mix(0, choice[0] + row * n_chosen[0], x, want_y);
        mix(1, choice[1] + row * n_chosen[1], want_y, want_z);
        CHECK(is_near(y + row * WIDTH, want_y) && is_near(z + row * WIDTH, want_z));
    }
}

// --- statistics ----------------------------------------------------------------------------------

// Experts of a layer that have rows in the captured choices, and how many of these are in the mask.
static void count_groups(const rlx_ctx *ctx, uint32_t layer, unsigned mask, uint64_t *all, uint64_t *resident)
{
    size_t count = 0, i;
    const int32_t *choice = rlx_moe_choices(ctx, layer, &count);
    unsigned seen = 0;
    *all = *resident = 0;
    for (i = 0; choice != NULL && i < count; i++)
        seen |= choice[i] < 0 ? 0u : 1u << choice[i];
    for (i = 0; i < 8; i++) {
        *all += seen >> i & 1;
        *resident += (seen & mask) >> i & 1;
    }
}

static rlx_moe_stats stats_of(const rlx_ctx *ctx, uint32_t layer)
{
    rlx_moe_stats s;
    memset(&s, 0xff, sizeof s);
    CHECK(rlx_moe_get_stats(ctx, layer, &s) == RLX_OK);
    return s;
}

// Runs with the masks of both layers as they are, which say so; the outputs must have these bits.
static void run_with(rlx_ctx *ctx, int run, const unsigned *mask, const float *want)
{
    uint32_t layer;
    rlx_moe_stats was[LAYERS];
    for (layer = 0; layer < LAYERS; layer++)
        was[layer] = stats_of(ctx, layer);
    fill_input(ctx, run);
    CHECK(rlx_run(ctx) == RLX_OK);
    check_dense(ctx, run);
    if (want != NULL)
        CHECK(memcmp(rlx_output(ctx, MOE_OUTPUT_z), want, (size_t)(rows * WIDTH) * sizeof *want) == 0);
    for (layer = 0; layer < LAYERS; layer++) {
        const rlx_moe_stats s = stats_of(ctx, layer);
        uint64_t all, resident;
        count_groups(ctx, layer, mask[layer], &all, &resident);
        CHECK(s.runs == was[layer].runs + 1 && s.tokens == was[layer].tokens + (uint64_t)rows);
        CHECK(s.rows == was[layer].rows + (uint64_t)(rows * n_chosen[layer]));
        CHECK(s.resident == was[layer].resident + resident);
        CHECK(s.resident + s.away == was[layer].resident + was[layer].away + all);
    }
}

// --- calls ---------------------------------------------------------------------------------------

static void test_capture(rlx_ctx *ctx)
{
    size_t count = 99;
    fill_input(ctx, 0);
    CHECK(rlx_run(ctx) == RLX_OK && rlx_moe_choices(ctx, 0, &count) == NULL && count == 99);
    CHECK(rlx_moe_capture(NULL, 1) == RLX_ERR_NULL && rlx_moe_capture(ctx, 1) == RLX_OK);
    CHECK(rlx_moe_choices(ctx, 0, &count) == NULL && rlx_moe_choices(NULL, 0, &count) == NULL);
    fill_input(ctx, 0);
    CHECK(rlx_run(ctx) == RLX_OK && rlx_moe_choices(ctx, 0, NULL) != NULL);
    CHECK(rlx_moe_choices(ctx, LAYERS, &count) == NULL && count == 99);
    memset(one.arena, 0xff, sizeof one.arena); // choices outlive the arena
    CHECK(rlx_moe_choices(ctx, 1, &count) != NULL && count == 18 && rlx_moe_choices(ctx, 1, NULL)[17] < 7);
    CHECK(rlx_moe_capture(ctx, 0) == RLX_OK && rlx_moe_choices(ctx, 1, NULL) == NULL);
    CHECK(rlx_moe_capture(ctx, 1) == RLX_OK);
}

static void test_stats(rlx_ctx *ctx)
{
    rlx_moe_stats s, untouched;
    memset(&s, 0x5a, sizeof s);
    untouched = s;
    CHECK(rlx_moe_get_stats(NULL, 0, &s) == RLX_ERR_NULL && rlx_moe_get_stats(ctx, 0, NULL) == RLX_ERR_NULL);
    CHECK(rlx_moe_get_stats(ctx, LAYERS, &s) == RLX_ERR_RANGE && memcmp(&s, &untouched, sizeof s) == 0);
    CHECK(rlx_moe_reset_stats(NULL) == RLX_ERR_NULL && rlx_moe_reset_stats(ctx) == RLX_OK);
    CHECK(stats_of(ctx, 0).tokens == 0 && stats_of(ctx, 1).away == 0);
    fill_input(ctx, 0); // the second layer is left out
    CHECK(rlx_run_set(ctx, MOE_SET_first) == RLX_OK);
    CHECK(stats_of(ctx, 0).runs == 1 && stats_of(ctx, 1).runs == 0);
    CHECK(rlx_moe_reset_stats(ctx) == RLX_OK);
}

// Calls between a commit and rlx_sync find what the run has left.
static void test_committed(rlx_ctx *ctx)
{
    CHECK(rlx_moe_reset_stats(ctx) == RLX_OK && rlx_moe_capture(ctx, 1) == RLX_OK);
    fill_input(ctx, 1);
    CHECK(rlx_commit(ctx) == RLX_OK && stats_of(ctx, 0).runs == 1 && rlx_moe_choices(ctx, 1, NULL) != NULL);
    fill_input(ctx, 1);
    CHECK(rlx_commit(ctx) == RLX_OK && rlx_moe_reset_stats(ctx) == RLX_OK && rlx_sync(ctx) == RLX_OK);
    CHECK(stats_of(ctx, 0).runs == 0);
}

static void test_masks(rlx_ctx *ctx, const float *want)
{
    static const unsigned char some[1] = {0x15}, none[1] = {0}, every[1] = {0xff};
    unsigned now[LAYERS] = {0xff, 0xff};
#ifdef MOE_MOE_SLOTS
    static const unsigned loaded[LAYERS] = {1u << 4 | 1u << 1, 1u << 6};
#else
    static const unsigned loaded[LAYERS] = {0xff, 0xff};
#endif
    int round;
    REFUSES(rlx_set_moe_resident(NULL, some, 1), RLX_ERR_NULL);
    REFUSES(rlx_set_moe_resident(ctx, some, 2), RLX_ERR_SIZE);
    REFUSES(rlx_set_moe_resident(ctx, some, 0), RLX_ERR_SIZE);
    REFUSES(rlx_set_moe_resident(ctx, NULL, 1), RLX_ERR_SIZE);
    REFUSES(rlx_set_moe_resident_layer(NULL, 0, some, 1), RLX_ERR_NULL);
    REFUSES(rlx_set_moe_resident_layer(ctx, LAYERS, some, 1), RLX_ERR_RANGE);
    REFUSES(rlx_set_moe_resident_layer(ctx, 0, some, 2), RLX_ERR_SIZE);
    REFUSES(rlx_set_moe_resident_layer(ctx, 0, NULL, 1), RLX_ERR_SIZE);
    for (round = 0; round < 5; round++) {
        const unsigned char *const mask = round == 0 ? every : round == 2 ? none : some;
        now[0] = round == 4 ? 0xff : mask[0];
        now[1] = round == 3 ? 0 : round == 4 ? 0xff : mask[0];
        CHECK(rlx_set_moe_resident(ctx, mask, 1) == RLX_OK);
        if (round == 3)
            CHECK(rlx_set_moe_resident_layer(ctx, 1, none, 1) == RLX_OK);
        if (round == 4)
            CHECK(rlx_set_moe_resident(ctx, NULL, 0) == RLX_OK);
        now[0] &= loaded[0];
        now[1] &= loaded[1];
        run_with(ctx, 1, now, want);
    }
}

#define SAYS(call, status, sentence) CHECK((call) == (status) && strcmp(rlx_error_text(ctx), (sentence)) == 0)

static void test_sentences(rlx_ctx *ctx)
{
    static const unsigned char some[2] = {1, 1};
    rlx_error error;
    char want[80];
    CHECK(rlx_set_error(ctx, &error) == RLX_OK);
    SAYS(rlx_set_moe_resident(ctx, some, 2), RLX_ERR_SIZE,
         "the mask of experts: 1 bytes or elements were expected, 2 given");
    SAYS(rlx_set_moe_resident_layer(ctx, LAYERS, some, 1), RLX_ERR_RANGE,
         "layer of experts: 2 is out of range, the limit is 1");
    SAYS(rlx_set_moe_source(ctx, experts + 4, experts_bytes), RLX_ERR_ALIGNMENT,
         "the experts: memory that does not start at a multiple of 64 bytes");
    snprintf(want, sizeof want, "the experts: %u bytes were expected, 64 given", (unsigned)experts_bytes);
    SAYS(rlx_set_moe_source(ctx, experts, 64), RLX_ERR_WEIGHTS, want);
#ifdef MOE_MOE_SLOTS
    SAYS(rlx_moe_load(ctx, 0, 5, 0), RLX_ERR_RANGE, "expert: 5 is out of range, the limit is 4");
    snprintf(want, sizeof want, "slot of experts: number %u, but the model has %u", MOE_MOE_SLOTS,
             MOE_MOE_SLOTS);
    SAYS(rlx_moe_load(ctx, 0, 0, MOE_MOE_SLOTS), RLX_ERR_SLOT, want);
#endif
    CHECK(rlx_set_error(ctx, NULL) == RLX_OK);
}

static void test_source(rlx_ctx *ctx)
{
    REFUSES(rlx_set_moe_source(NULL, experts, experts_bytes), RLX_ERR_NULL);
    REFUSES(rlx_set_moe_source(ctx, experts, experts_bytes - 64), RLX_ERR_WEIGHTS);
    REFUSES(rlx_set_moe_source(ctx, NULL, experts_bytes), RLX_ERR_WEIGHTS);
    REFUSES(rlx_set_moe_source(ctx, experts, 0), RLX_ERR_WEIGHTS);
    REFUSES(rlx_set_moe_source(ctx, experts + 4, experts_bytes), RLX_ERR_ALIGNMENT);
    CHECK(rlx_set_moe_source(ctx, experts, experts_bytes) == RLX_OK);
}

#ifdef MOE_MOE_SLOTS
static void test_slots(rlx_ctx *ctx, const float *want)
{
    unsigned loaded[LAYERS] = {0, 0};
    run_with(ctx, 1, loaded, want);
    REFUSES(rlx_moe_load(ctx, 0, 0, 0), RLX_ERR_WEIGHTS); // no pool
    REFUSES(rlx_set_moe_pool(NULL, one.pool, MOE_MOE_POOL_BYTES), RLX_ERR_NULL);
    REFUSES(rlx_set_moe_pool(ctx, one.pool, MOE_MOE_POOL_BYTES - 1), RLX_ERR_SIZE);
    REFUSES(rlx_set_moe_pool(ctx, NULL, 64), RLX_ERR_SIZE);
    REFUSES(rlx_set_moe_pool(ctx, one.pool + 4, MOE_MOE_POOL_BYTES), RLX_ERR_ALIGNMENT);
    CHECK(rlx_set_moe_pool(ctx, one.pool, MOE_MOE_POOL_BYTES) == RLX_OK);
    REFUSES(rlx_moe_load(NULL, 0, 0, 0), RLX_ERR_NULL);
    REFUSES(rlx_moe_load(ctx, LAYERS, 0, 0), RLX_ERR_RANGE);
    REFUSES(rlx_moe_load(ctx, 0, 5, 0), RLX_ERR_RANGE);
    REFUSES(rlx_moe_load(ctx, 0, 0, MOE_MOE_SLOTS), RLX_ERR_SLOT);
    CHECK(rlx_moe_load(ctx, 0, 4, 0) == RLX_OK && rlx_moe_load(ctx, 1, 3, 1) == RLX_OK);
    loaded[0] = 1u << 4, loaded[1] = 1u << 3;
    run_with(ctx, 1, loaded, want);
    CHECK(rlx_moe_load(ctx, 1, 6, 1) == RLX_OK &&
          rlx_moe_load(ctx, 0, 1, 2) == RLX_OK); // 3 of layer 1 leaves
    loaded[0] |= 1u << 1, loaded[1] = 1u << 6;
    run_with(ctx, 1, loaded, want);
}

// Loaded experts are read in the pool, and no others.
static void test_where(rlx_ctx *ctx, const float *want)
{
    memset(experts, 0, sizeof experts);
    fill_input(ctx, 1);
    CHECK(rlx_run(ctx) == RLX_OK);
    CHECK(memcmp(rlx_output(ctx, MOE_OUTPUT_z), want, ROWS * WIDTH * sizeof *want) != 0);
}
#else
static void test_slots(rlx_ctx *ctx, const float *want)
{
    unsigned all[LAYERS] = {0xff, 0xff};
    REFUSES(rlx_set_moe_pool(ctx, two.state, sizeof two.state), RLX_ERR_SLOT);
    REFUSES(rlx_moe_load(ctx, 0, 0, 0), RLX_ERR_SLOT);
    run_with(ctx, 1, all, want);
}

#ifdef MOE_DEVICE_BYTES
// A device has all experts itself, and a copy of the source would be no other.
static void test_where(rlx_ctx *ctx, const float *want)
{
    static const unsigned char none[1] = {0};
    if (ctx->model->device == NULL) // there is none
        return;
    memset(experts, 0, sizeof experts);
    CHECK(rlx_set_moe_resident(ctx, none, 1) == RLX_OK);
    fill_input(ctx, 1);
    CHECK(rlx_run(ctx) == RLX_OK);
    CHECK(memcmp(rlx_output(ctx, MOE_OUTPUT_z), want, ROWS * WIDTH * sizeof *want) == 0);
}
#else
// Resident experts are read in the weights, the others in the source.
static void test_where(rlx_ctx *ctx, const float *want)
{
    static const unsigned char none[1] = {0};
    memset(experts, 0, sizeof experts);
    fill_input(ctx, 1);
    CHECK(rlx_run(ctx) == RLX_OK);
    CHECK(memcmp(rlx_output(ctx, MOE_OUTPUT_z), want, ROWS * WIDTH * sizeof *want) == 0);
    CHECK(rlx_set_moe_resident(ctx, none, 1) == RLX_OK);
    fill_input(ctx, 1); // experts of zeros: what comes in goes out
    CHECK(rlx_run(ctx) == RLX_OK && ((const float *)rlx_output(ctx, MOE_OUTPUT_z))[9] == (float)input(1, 9));
    CHECK(rlx_set_moe_source(ctx, NULL, 0) == RLX_OK);
    fill_input(ctx, 1); // no other place than the weights
    CHECK(rlx_run(ctx) == RLX_OK);
    CHECK(memcmp(rlx_output(ctx, MOE_OUTPUT_z), want, ROWS * WIDTH * sizeof *want) == 0);
}
#endif
#endif

static void test_clone(rlx_ctx *ctx, const float *want)
{
    rlx_ctx copy;
    CHECK(rlx_clone(&copy, ctx, two.arena, sizeof two.arena, two.state, sizeof two.state) == RLX_OK);
    fill_input(&copy, 1);
    CHECK(rlx_run(&copy) == RLX_OK && stats_of(&copy, 0).runs == stats_of(ctx, 0).runs + 1);
    CHECK(memcmp(rlx_output(&copy, MOE_OUTPUT_z), want, ROWS * WIDTH * sizeof *want) == 0);
    CHECK(rlx_close(&copy) == RLX_OK);
}

// The experts' bytes, as a program that maps the file has them. What runs in place of a device has its own.
static int read_experts(const rlx_ctx *ctx)
{
    const rlx_moe *m = ctx->model->moe;
#ifdef MOE_MOE_SLOTS
    FILE *f = fopen("moe.experts", "rb");
    const size_t n = f != NULL ? fread(experts, 1, sizeof experts, f) : 0;
    if (f != NULL)
        fclose(f);
    experts_bytes = n;
    return n == MOE_MOE_BYTES && n == m->bytes;
#else
    experts_bytes = m->bytes;
    if (m->bytes > sizeof experts)
        return 0;
    memcpy(experts, ctx->weights + m->begin, m->bytes);
#ifdef MOE_DEVICE_BYTES
    if (ctx->model->device == NULL)
        return 1;
#endif
    return m->begin == MOE_MOE_OFFSET && m->bytes == MOE_MOE_BYTES &&
           MOE_MOE_OFFSET + MOE_MOE_BYTES == MOE_WEIGHT_BYTES;
#endif
}

#ifdef MOE_SYM_rows
// Every number of rows: masks, slots and sources stay what they are when it changes, in other buckets too.
static void test_sizes(rlx_ctx *ctx)
{
    static const unsigned char some[1] = {0x15};
    const int last = rows;
    unsigned mask[LAYERS] = {0x15, 0x15};
    size_t count = 0, before_count = 0;
#ifdef MOE_MOE_SLOTS
    mask[0] &= 1u << 4 | 1u << 1, mask[1] &= 1u << 6;
#endif
    CHECK(rlx_set_moe_resident(ctx, some, 1) == RLX_OK);
    for (rows = 1; rows <= ROWS; rows++) {
        CHECK(rlx_moe_choices(ctx, 1, &before_count) != NULL);
        CHECK(moe_set_symbol(ctx, MOE_SYM_rows, rows) == RLX_OK);
        CHECK(rlx_moe_choices(ctx, 1, &count) != NULL && count == before_count); // of the last run
        memset(one.arena, 0xff, sizeof one.arena);
        run_with(ctx, 2, mask, NULL);
    }
    rows = last;
    CHECK(moe_set_symbol(ctx, MOE_SYM_rows, rows) == RLX_OK && rlx_set_moe_resident(ctx, NULL, 0) == RLX_OK);
}
#else
static void test_sizes(rlx_ctx *ctx)
{
    CHECK(rlx_set_moe_resident(ctx, NULL, 0) == RLX_OK);
}
#endif

#if MOE_THREADS > 1
static rlx_pool pool;

static void share_runs(rlx_ctx *ctx)
{
    CHECK(rlx_threads_start(ctx, &pool, 2) == RLX_OK);
}

static void stop_sharing(rlx_ctx *ctx)
{
    rlx_threads_stop(ctx);
}
#else
static void share_runs(rlx_ctx *ctx)
{
    (void)ctx;
}

static void stop_sharing(rlx_ctx *ctx)
{
    (void)ctx;
}
#endif

int main(void)
{
    rlx_ctx ctx;
    float want[ROWS * WIDTH];
    CHECK(moe_init(&ctx, one.arena, MOE_ARENA_BYTES, one.state, MOE_STATE_BYTES) == RLX_OK);
    CHECK(read_experts(&ctx));
    CHECK(moe_model.moe != NULL && moe_model.moe->n_layers == LAYERS && MOE_MOE_LAYERS == LAYERS);
#ifdef MOE_MOE_SLOTS
    fill_input(&ctx, 1);
    REFUSES(rlx_run(&ctx), RLX_ERR_WEIGHTS);
    REFUSES(rlx_moe_load(&ctx, 0, 0, 0), RLX_ERR_WEIGHTS);
    test_source(&ctx);
#endif
    test_capture(&ctx);
    test_stats(&ctx);
    test_committed(&ctx);
    fill_input(&ctx, 1);
    CHECK(rlx_run(&ctx) == RLX_OK);
    memcpy(want, rlx_output(&ctx, MOE_OUTPUT_z), sizeof want);
    share_runs(&ctx);
    test_slots(&ctx, want);
    test_masks(&ctx, want);
    test_source(&ctx);
    test_masks(&ctx, want);
    test_sentences(&ctx);
    test_sizes(&ctx);
    test_clone(&ctx, want);
    test_where(&ctx, want);
    stop_sharing(&ctx);
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
