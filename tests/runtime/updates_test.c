// SPDX-License-Identifier: Apache-2.0
// States that are updated in part or whole along an axis whose size is set between runs (updates.json): what
// lies beyond the size of a run stays as it was, whatever the arena holds there, and counts again in a run
// with a larger size.
#include "check.h"
#include "updates.h"

enum { N = 8, STATES = 6, MAX_FLOATS = 48 };

static RLX_ALIGNED unsigned char arena[UPDATES_ARENA_BYTES], state[UPDATES_STATE_BYTES];
static const char *const names[STATES] = {"whole", "columns", "twice", "inner", "fixed", "few"};
static const int rows[STATES] = {N, N, N, 5, N, N}, columns[STATES] = {4, 6, 4, N, 4, 4};
static float want[STATES][MAX_FLOATS]; // all of each state
static float x[N * 4], v[3 * N], three[3 * 4];
static int64_t at[2];

static int64_t clamp(int64_t value, int64_t high)
{
    return value < 0 ? 0 : value > high ? high : value;
}

// want[which][row + i][column + j] = from[i * pitch + j] + bias
static void put(int which, int64_t row, int64_t column, const float *from, int64_t m, int64_t n,
                int64_t pitch, float bias)
{
    int64_t i, j;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            want[which][(row + i) * columns[which] + column + j] = from[i * pitch + j] + bias;
}

static void make_wanted(int64_t n)
{
    const int64_t two = clamp(at[1], 2);
    put(0, 0, 0, x, n, 4, 4, 0.5f);
    put(1, 0, two, x, n, 4, 4, 0.5f);
    put(2, 0, 0, x, n, 4, 4, 0.5f);
    put(2, 0, two, x, n, 2, 4, 0);
    put(3, clamp(at[0], 2), 0, v, 3, n, n, 0);
    put(4, clamp(at[0], N - n), 0, x, n, 4, 4, 0);
    put(5, n < 3 ? 0 : clamp(at[0], n - 3), 0, three, n < 3 ? n : 3, 4, 4, 0);
}

static void check_states(const rlx_ctx *ctx)
{
    float got[MAX_FLOATS];
    int i;
    for (i = 0; i < STATES; i++) {
        const size_t bytes = (size_t)(rows[i] * columns[i]) * sizeof(float);
        CHECK(rlx_read_state(ctx, names[i], got, bytes) == RLX_OK);
        check(memcmp(got, want[i], bytes) == 0, names[i], __LINE__);
    }
}

// The live part of every state is an output.
static void check_outputs(const rlx_ctx *ctx, int64_t n)
{
    int i;
    int64_t r, c;
    for (i = 0; i < STATES; i++) {
        const int64_t live_rows = i == 3 || i == 4 ? rows[i] : n, live_columns = i == 3 ? n : columns[i];
        const float *y = (const float *)rlx_output(ctx, (uint32_t)i);
        CHECK(rlx_output_bytes(ctx, (uint32_t)i) == (size_t)(live_rows * live_columns) * sizeof *y);
        for (r = 0; r < live_rows; r++)
            for (c = 0; c < live_columns; c++)
                check(y[r * live_columns + c] == want[i][r * columns[i] + c], names[i], __LINE__);
    }
}

static void run(rlx_ctx *ctx, int64_t n, int64_t row, int64_t column, int seed)
{
    int i;
    for (i = 0; i < N * 4; i++)
        x[i] = (float)((seed * 7 + i) % 13) * 0.25f;
    for (i = 0; i < 3 * N; i++)
        v[i] = (float)(seed * 100 + i);
    for (i = 0; i < 3 * 4; i++)
        three[i] = (float)(seed * 100 - i);
    at[0] = row;
    at[1] = column;
    make_wanted(n);
    memset(arena, 0xFF, sizeof arena);
    CHECK(updates_set_symbol(ctx, UPDATES_SYM_n, n) == RLX_OK);
    memcpy(rlx_input(ctx, UPDATES_INPUT_x), x, rlx_input_bytes(ctx, UPDATES_INPUT_x));
    memcpy(rlx_input(ctx, UPDATES_INPUT_v), v, rlx_input_bytes(ctx, UPDATES_INPUT_v));
    memcpy(rlx_input(ctx, UPDATES_INPUT_three), three, sizeof three);
    memcpy(rlx_input(ctx, UPDATES_INPUT_at), at, sizeof at);
    CHECK(rlx_run(ctx) == RLX_OK);
    check_outputs(ctx, n);
    check_states(ctx);
}

int main(void)
{
    rlx_ctx ctx;
    CHECK(updates_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    check_states(&ctx);
    run(&ctx, 3, 0, 0, 1); // beyond are zeros
    run(&ctx, 8, 2, 1, 2);
    run(&ctx, 3, 1, 2, 3); // beyond are rows of the run before
    run(&ctx, 8, -1, -1, 4);
    run(&ctx, 1, 9, 9, 5);
    run(&ctx, 2, 1, 0, 6);
    run(&ctx, 5, 2, 2, 7);
    run(&ctx, 8, 9, 9, 8);
    return failed;
}
