// SPDX-License-Identifier: Apache-2.0
// Integers instead of floats behind a sum: what is found is compared with the floats for every sum that can
// occur, one by one. Channels that need exceptions, a zone or shifts of their own are among them, and some
// for which nothing can be found.
#include "passes/graph/requantiser.h"
#include "unit.h"

#include <math.h>

enum { MAX_CHANNELS = 64 };

typedef struct Floats {
    float scale[MAX_CHANNELS];
    float zero, least, most; // of results
    bool prefers_choices;
} Floats;

// What exporters write: a product, rounded half to even, a zero point, a cast that saturates.
static void eval_floats(void *ctx, uint32_t channel, const int64_t *sum, uint32_t n, int64_t *y)
{
    const Floats *f = ctx;
    for (uint32_t i = 0; i < n; i++) {
        const float scaled = (float)sum[i] * f->scale[channel], v = rintf(scaled) + f->zero;
        y[i] = (int64_t)(v < f->least ? f->least : v > f->most ? f->most : v);
    }
}

static int64_t shifted(int64_t v, int64_t bits)
{
    return v >> bits;
}

static int64_t in_integers(const RequantChannel *c, const Requant *r, int64_t sum)
{
    const int64_t product = sum * c->factor + c->start, bits = 32 + c->shift;
    assert_in_range(c->shift - REQUANT_MIN_SHIFT, 0, REQUANT_MAX_SHIFT - REQUANT_MIN_SHIFT);
    const int64_t low = shifted(product - c->zone, bits), high = shifted(product + c->zone, bits);
    const int64_t step = low < r->least ? 0 : low > r->most ? r->most - r->least : low - r->least;
    const int64_t upper = r->has_choices ? c->upper[step / 32] >> step % 32 : low + r->odd;
    int64_t y = low + ((high - low) & upper);
    for (uint32_t i = 0; i < c->n_above; i++)
        y += c->above[i] == sum;
    for (uint32_t i = 0; i < c->n_below; i++)
        y -= c->below[i] == sum;
    return y < r->least ? r->least : y > r->most ? r->most : y;
}

static bool find(Floats *f, RequantChannel *channel, uint32_t n, Requant *out)
{
    Arena a = {0};
    for (uint32_t i = 0; i < n; i++) {
        channel[i].slope = (double)f->scale[i];
        channel[i].offset = (double)f->zero;
    }
    const bool is_found =
        requant_find(&a, &(Steps){eval_floats, f, -128, 255, REQUANT_MAX_EXCEPTIONS, REQUANT_MAX_SHIFT,
                               f->prefers_choices},
                     channel, n, out);
    arena_free(&a);
    return is_found;
}

static void check_all_sums(Floats *f, const RequantChannel *channel, uint32_t n, const Requant *r)
{
    for (uint32_t i = 0; i < n; i++)
        for (int64_t sum = channel[i].lo; sum <= channel[i].hi; sum++) {
            int64_t y;
            eval_floats(f, i, &sum, 1, &y);
            if (in_integers(&channel[i], r, sum) != y)
                fail_msg("channel %u, sum %lld: %lld, expected %lld", i, (long long)sum,
                         (long long)in_integers(&channel[i], r, sum), (long long)y);
        }
}

static void test_random_scales(void **state)
{
    uint64_t seed = 7;
    uint32_t n_found = 0, n_exceptions = 0, n_starts = 0;
    (void)state;
    for (uint32_t k = 0; k < 40; k++) {
        Floats f = {.zero = -128, .least = -128, .most = 127};
        RequantChannel channel[4] = {0};
        Requant r;
        for (uint32_t i = 0; i < 4; i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            f.scale[i] = (float)(0.001 + (double)(seed >> 40) * 1e-10);
            channel[i].lo = -(int64_t)(seed >> 20 & 0x3ffff);
            channel[i].hi = (int64_t)(seed >> 3 & 0x3ffff);
        }
        if (!find(&f, channel, 4, &r))
            continue;
        check_all_sums(&f, channel, 4, &r);
        n_found++;
        for (uint32_t i = 0; i < 4; i++)
            n_exceptions += channel[i].n_above + channel[i].n_below;
        for (uint32_t i = 0; i < 4; i++) // a start that is not that of the line has low bits
            n_starts += !r.has_zone && channel[i].start % (INT64_C(1) << 32) != 0;
    }
    assert_true(n_found >= 38);
    assert_true(n_exceptions > 0 && n_starts > 0);
}

static void test_powers_of_two_need_a_zone(void **state)
{
    (void)state;
    for (int zero = -1; zero <= 0; zero++) {
        Floats f = {.scale = {0.125f, 0.0078125f}, .zero = (float)zero, .least = -128, .most = 127};
        RequantChannel channel[2] = {{.lo = -3000, .hi = 3000}, {.lo = -20000, .hi = 100}};
        Requant r;
        assert_true(find(&f, channel, 2, &r));
        assert_true(r.has_zone);
        check_all_sums(&f, channel, 2, &r);
    }
}

static void test_channels_of_one_value(void **state)
{
    Floats f = {.scale = {0, 0.001f, 0.001f, 0.02f}, .zero = 3, .least = -128, .most = 127};
    // A scale of 0; a sum that is constant; one that is below all steps; one as others are.
    RequantChannel channel[4] = {{.lo = -1000, .hi = 1000},
                                 {.lo = 77, .hi = 77},
                                 {.lo = -900000, .hi = -800000},
                                 {.lo = -9000, .hi = 5}};
    Requant r;
    (void)state;
    assert_true(find(&f, channel, 4, &r));
    check_all_sums(&f, channel, 4, &r);
    assert_int_equal(channel[0].factor, 0);
    assert_int_equal(channel[2].first, -128);
}

// A bias that leaves little of the range, at both ends of i32; scales that are far apart.
static void test_large_bias(void **state)
{
    Floats f = {.scale = {6e-8f, 0.2913f}, .zero = 0, .least = 0, .most = 255};
    RequantChannel channel[2] = {{.lo = INT32_MAX - 400000, .hi = INT32_MAX}, {.lo = -10, .hi = 2000}};
    Requant r;
    (void)state;
    assert_true(find(&f, channel, 2, &r));
    check_all_sums(&f, channel, 2, &r);
    channel[0].hi = (int64_t)INT32_MAX + 1;
    assert_false(find(&f, channel, 2, &r)); // it may wrap
}

static void test_shifts_of_their_own(void **state)
{
    Floats f = {.scale = {0.2503f, 1.7e-4f}, .zero = -128, .least = -128, .most = 127};
    RequantChannel channel[2] = {{.lo = -3000, .hi = 3000}, {.lo = -1500000, .hi = 1500000}};
    Requant r;
    (void)state;
    assert_true(find(&f, channel, 2, &r));
    check_all_sums(&f, channel, 2, &r);
    assert_int_not_equal(channel[0].shift, channel[1].shift);
}

// Round decimals: whether a product of floats that is nearly a half becomes one depends on its size, so that
// neither halves to even nor halves up are right for all.
static void test_round_decimals(void **state)
{
    static const double numbers[] = {1.0 / 120, 0.0008, 0.007, 0.05 * 0.014 / 0.06, 0.3 * 0.02 / 0.9};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    uint32_t n_choices = 0;
    (void)state;
    for (int i = 0; i < 8; i++) {
        Floats f = {.zero = (float)(i / 2 * 44 - 128), .least = -128, .most = 127, .prefers_choices = i % 2};
        RequantChannel channel[COUNT] = {0};
        Requant r;
        for (uint32_t j = 0; j < COUNT; j++) {
            f.scale[j] = (float)numbers[j];
            channel[j].lo = -70000 - (int64_t)j;
            channel[j].hi = 90000;
        }
        assert_true(find(&f, channel, COUNT, &r));
        check_all_sums(&f, channel, COUNT, &r);
        assert_true(!f.prefers_choices || !r.has_zone || channel[0].n_above + channel[0].n_below == 0);
        n_choices += r.has_choices;
    }
    assert_true(n_choices > 0);
}

// One step of the sum can be several of the result, and more than the type holds.
static void test_large_scales(void **state)
{
    static const float numbers[] = {0.5f, 0.75f, 0.5123f, 1, 3.7f, 100.25f, 2000};
    (void)state;
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Floats f = {.scale = {numbers[i], 0.003f}, .zero = -7, .least = -128, .most = 127};
        RequantChannel channel[2] = {{.lo = -3000, .hi = 2999}, {.lo = -40000, .hi = 40000}};
        Requant r;
        assert_true(find(&f, channel, 2, &r));
        check_all_sums(&f, channel, 2, &r);
        assert_true(channel[0].shift < 0);
    }
}

static void test_nothing_is_found(void **state)
{
    Floats f = {.scale = {3e6f}, .zero = 0, .least = -128, .most = 127};
    RequantChannel channel = {.lo = -30000, .hi = 30000};
    Requant r;
    (void)state;
    assert_false(find(&f, &channel, 1, &r)); // a factor that leaves more than i32 holds
    f = (Floats){.scale = {0.01f}, .least = -30000, .most = 30000};
    channel = (RequantChannel){.lo = -300000, .hi = 300000};
    assert_false(find(&f, &channel, 1, &r)); // more steps than a byte has
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_scales),         cmocka_unit_test(test_powers_of_two_need_a_zone),
        cmocka_unit_test(test_channels_of_one_value), cmocka_unit_test(test_large_bias),
        cmocka_unit_test(test_shifts_of_their_own),   cmocka_unit_test(test_round_decimals),
        cmocka_unit_test(test_large_scales),          cmocka_unit_test(test_nothing_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
