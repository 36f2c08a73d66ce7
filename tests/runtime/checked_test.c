// SPDX-License-Identifier: Apache-2.0
// Checks: a run whose inputs break one gives RLX_ERR_VALUE and the message, and leaves states and outputs as
// they are, also a state that is updated in place.
#include "check.h"
#include "checked.h"

static RLX_ALIGNED unsigned char arena[CHECKED_ARENA_BYTES], state[CHECKED_STATE_BYTES];
static unsigned char before[CHECKED_STATE_BYTES];
static const float good[4] = {1, 4, 9, 16}, bad[4] = {-1, -100, 0, 0}, row[4] = {5, 6, 7, 8};
static const float roots[4] = {1, 2, 3, 4};

static int is_refused(rlx_ctx *ctx, const float *x, int64_t n, uint8_t flag, const char *message)
{
    float y[4] = {-7, -7, -7, -7}, rows[12];
    memcpy(before, state, sizeof state);
    return checked(ctx, x, &n, &flag, row, y, rows) == RLX_ERR_VALUE &&
           strcmp(rlx_failed_check(ctx), message) == 0 && memcmp(before, state, sizeof state) == 0 &&
           y[0] == -7;
}

int main(void)
{
    rlx_ctx ctx;
    float y[4], rows[12];
    const int64_t three = 3;
    const uint8_t yes = 1;
    CHECK(checked_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    CHECK(checked_model.n_checks == 3);
    CHECK(is_refused(&ctx, good, 4, 1, "n must be 3"));
    CHECK(is_refused(&ctx, good, 3, 0, "this model wants the flag"));
    CHECK(is_refused(&ctx, bad, 3, 1, "the sum must not be \"negative\""));
    CHECK(checked(&ctx, good, &three, &yes, row, y, rows) == RLX_OK);
    CHECK(memcmp(y, roots, sizeof y) == 0 && memcmp(rows, row, sizeof row) == 0 && rows[4] == 0);
    CHECK(is_refused(&ctx, bad, 3, 1, "the sum must not be \"negative\""));
    CHECK(strcmp(rlx_status_text(RLX_ERR_VALUE), "a condition of the model does not hold") == 0);
    return failed;
}
