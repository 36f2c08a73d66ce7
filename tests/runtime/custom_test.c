// SPDX-License-Identifier: Apache-2.0
// Custom ops: texts of the model, in front of and behind its other kernels, on strided operands, in a concat,
// in a state and in the body of a loop; with several results, scratch memory and attributes; on constants,
// which a product reads as well, in its own order.
#include "check.h"
#include "custom.h"

static RLX_ALIGNED unsigned char arena[CUSTOM_ARENA_BYTES], state[CUSTOM_STATE_BYTES];
static const float a[12] = {1, 2, 3, 4, 5, -6, 7, 8, -9, 10, 11, 12};

typedef struct Outputs {
    float kept[12], t[2], pair[24], last[12], rows[20], product[9], fixed[12], moved[12], sums[3];
    int32_t most[2];
} Outputs;

// a + 2 k, where k is what the run before kept.
static void check_kept(const Outputs *o, float factor)
{
    int i, ok = 1;
    for (i = 0; i < 12; i++)
        ok = ok && o->kept[i] > factor * a[i] - 0.001f && o->kept[i] < factor * a[i] + 0.001f;
    CHECK(ok);
    for (i = 0; i < 12; i++) {
        const float turned = o->pair[i / 4 * 8 + i % 4], want = -factor * a[i] - a[i];
        ok = ok && turned > want - 0.001f && turned < want + 0.001f && o->pair[i / 4 * 8 + 4 + i % 4] == a[i];
    }
    CHECK(ok);
}

static void check_rest(const Outputs *o)
{
    int i, j, ok = 1;
    CHECK(o->t[0] == 1 + 5 - 9 && o->t[1] == 3 + 7 + 11 && o->most[0] == 1 && o->most[1] == 2);
    for (i = 0; i < 12; i++)
        ok = ok && o->last[i] == 8 * a[i];
    for (i = 0; i < 5; i++)
        for (j = 0; j < 4; j++) {
            const float sum = a[j] + a[4 + j] + a[8 + j];
            ok = ok && o->rows[i * 4 + j] == (i < 3 ? (float)(2 << i) * sum : 0.0f);
        }
    CHECK(ok);
}

// w is 1, 2 ... 12 in 4 rows; the ops see it as it is, across, and beside a row that stands for three.
static void check_constants(const Outputs *o)
{
    static const float row[4] = {1, -2, 3, -4};
    int i, j, k, ok = 1;
    for (i = 0; i < 3; i++)
        for (j = 0; j < 4; j++) {
            const float across = (float)(3 * j + i + 1);
            ok = ok && o->fixed[4 * i + j] == across + 10 * row[j];
            ok = ok && o->moved[4 * i + j] == a[4 * i + j] + across;
        }
    CHECK(ok);
    for (i = 0; i < 3; i++)
        for (j = 0; j < 3; j++) {
            float sum = 0;
            for (k = 0; k < 4; k++)
                sum += a[4 * i + k] * (float)(3 * k + j + 1);
            ok = ok && o->product[3 * i + j] == sum;
        }
    CHECK(ok && o->sums[0] == 22 && o->sums[1] == 26 && o->sums[2] == 30);
}

int main(void)
{
    rlx_ctx ctx;
    Outputs o;
    const int64_t trips[1] = {3};
    const uint8_t yes[1] = {1};
    int run;
    float factor = 1;
    CHECK(custom_init(&ctx, arena, sizeof arena, state, sizeof state) == RLX_OK);
    for (run = 0; run < 3; run++) {
        memset(&o, 0xff, sizeof o);
        CHECK(custom(&ctx, a, trips, yes, o.kept, o.t, o.most, o.pair, o.last, o.rows, o.product, o.fixed,
                     o.moved, o.sums) == RLX_OK);
        check_kept(&o, factor);
        check_rest(&o);
        check_constants(&o);
        factor = 1 + 2 * factor;
    }
    CHECK(rlx_close(&ctx) == RLX_OK);
    return failed;
}
