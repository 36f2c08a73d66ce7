// SPDX-License-Identifier: Apache-2.0
// See requantiser.h. Separate from the pass because it knows no graph: numbers only.
#include "passes/graph/requantiser.h"

#include <math.h>
#include <string.h>

// NEAR: how far from the line's factor others are tried with exceptions; FAR: with other starts.
enum { MAX_BITS = 29, NEAR = 64, FAR = 1 << 24 };
static const double two_32 = 4294967296.0;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return -floor_div(-a, b);
}

static int64_t one_of(const RequantChannel *c)
{
    return INT64_C(1) << (32 + c->shift);
}

// What the product has to reach for the value v.
static int64_t needed(const RequantChannel *c, int64_t v)
{
    return v * one_of(c) - c->start + ((v & 1) != c->odd ? c->zone : -c->zone);
}

// The least sum whose product reaches this: in [lo, hi + 1].
static int64_t sum_for(const RequantChannel *c, int64_t need)
{
    if (c->factor == 0)
        return need <= 0 ? c->lo : c->hi + 1;
    const int64_t sum = ceil_div(need, c->factor);
    return sum < c->lo ? c->lo : sum > c->hi + 1 ? c->hi + 1 : sum;
}

// The least sum for which the integers give v or more: in [lo, hi + 1].
static int64_t threshold(const RequantChannel *c, int64_t v)
{
    return sum_for(c, needed(c, v));
}

// Are the values at the ends those of f, as far as no clamp makes them so?
static bool has_ends(const RequantChannel *c, const Requant *r)
{
    return (c->first == r->least || threshold(c, c->first) == c->lo) &&
           (c->last == r->most || threshold(c, c->last + 1) == c->hi + 1);
}

// Does f take each of its steps where the integers do?
static bool takes_steps(const Steps *f, const RequantChannel *c, uint32_t channel)
{
    int64_t sum[2 * REQUANT_MAX_STEPS], y[2 * REQUANT_MAX_STEPS];
    const uint32_t n = (uint32_t)(c->last - c->first);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t at = threshold(c, c->first + 1 + i);
        if (at <= c->lo || at > c->hi)
            return false;
        sum[2 * i] = at - 1;
        sum[2 * i + 1] = at;
    }
    if (n == 0)
        return true;
    f->eval(f->ctx, channel, sum, 2 * n, y);
    for (uint32_t i = 0; i < n; i++)
        if (y[2 * i] >= c->first + 1 + i || y[2 * i + 1] < c->first + 1 + i)
            return false;
    return true;
}

// By bisection: the least sum for which f is first + 1 + i or more.
static void find_steps(const Steps *f, const RequantChannel *c, uint32_t channel, int64_t *at)
{
    int64_t below[REQUANT_MAX_STEPS], middle[REQUANT_MAX_STEPS], y[REQUANT_MAX_STEPS];
    const uint32_t n = (uint32_t)(c->last - c->first);
    for (uint32_t i = 0; i < n; i++) {
        below[i] = c->lo;
        at[i] = c->hi;
    }
    for (bool is_done = n == 0; !is_done;) {
        is_done = true;
        for (uint32_t i = 0; i < n; i++)
            middle[i] = below[i] + (at[i] - below[i]) / 2;
        f->eval(f->ctx, channel, middle, n, y);
        for (uint32_t i = 0; i < n; i++) {
            if (at[i] - below[i] <= 1)
                continue;
            *(y[i] >= c->first + 1 + i ? &at[i] : &below[i]) = middle[i];
            is_done = is_done && at[i] - below[i] <= 1;
        }
    }
}

// The factor next to the line's with which the integers take their steps at `at`: each step allows an
// interval.
static bool fit_factor(RequantChannel *c, const int64_t *at)
{
    int64_t lo = 0, hi = INT32_MAX;
    for (int64_t v = c->first + 1; v <= c->last && lo <= hi; v++) {
        const int64_t sum = at[v - c->first - 1], need = needed(c, v);
        const int64_t reach[2] = {sum, 1 - sum}, least[2] = {need, 1 - need}; // factor * reach >= least
        for (uint32_t i = 0; i < 2; i++) {
            if (reach[i] > 0 && ceil_div(least[i], reach[i]) > lo)
                lo = ceil_div(least[i], reach[i]);
            else if (reach[i] < 0 && floor_div(least[i], reach[i]) < hi)
                hi = floor_div(least[i], reach[i]);
            else if (reach[i] == 0 && least[i] > 0)
                return false;
        }
    }
    c->factor = c->factor < lo ? lo : c->factor > hi ? hi : c->factor;
    return lo <= hi;
}

// Where the start has to be for all steps to be right with this factor: [lo, hi], or nowhere.
typedef struct Starts {
    int64_t lo, hi;
} Starts;

static Starts starts_for(const RequantChannel *c, const int64_t *at, const Requant *r, int64_t factor)
{
    const int64_t one = one_of(c);
    Starts s = {c->first == r->least ? INT64_MIN : c->first * one - c->lo * factor,
                c->last == r->most ? INT64_MAX : (c->last + 1) * one - 1 - c->hi * factor};
    for (int64_t v = c->first + 1; v <= c->last; v++) {
        const int64_t lo = v * one - at[v - c->first - 1] * factor, hi = lo + factor - 1;
        s.lo = lo > s.lo ? lo : s.lo;
        s.hi = hi < s.hi ? hi : s.hi;
    }
    return s;
}

// The factor that leaves most room for the start, and that room (its hi may be below its lo). The room is a
// concave function of the factor, so bisection by its slope finds it.
static Starts widest_starts(RequantChannel *c, const int64_t *at, const Requant *r)
{
    int64_t lo = c->factor - FAR < 0 ? 0 : c->factor - FAR;
    int64_t hi = c->factor + FAR > INT32_MAX ? INT32_MAX : c->factor + FAR;
    while (lo < hi) {
        const int64_t factor = lo + (hi - lo) / 2;
        const Starts here = starts_for(c, at, r, factor), next = starts_for(c, at, r, factor + 1);
        if (here.lo <= here.hi)
            lo = hi = factor;
        else if (here.lo - here.hi > next.lo - next.hi)
            lo = factor + 1;
        else
            hi = factor;
    }
    c->factor = lo;
    return starts_for(c, at, r, lo);
}

static bool add_exceptions(int64_t *list, uint32_t *n, int64_t from, int64_t to)
{
    for (int64_t sum = from; sum < to; sum++) {
        if (*n == REQUANT_MAX_EXCEPTIONS)
            return false;
        list[(*n)++] = sum;
    }
    return true;
}

// Names the sums for which the integers are off by one, where these are few.
static bool find_exceptions(RequantChannel *c, const int64_t *at)
{
    int64_t before = threshold(c, c->first); // steps do not overlap
    c->n_above = c->n_below = 0;
    for (int64_t v = c->first + 1; v <= c->last; v++) {
        const int64_t here = threshold(c, v), there = at[v - c->first - 1];
        if (here < before || there < before || !add_exceptions(c->above, &c->n_above, there, here) ||
            !add_exceptions(c->below, &c->n_below, here, there))
            return false;
        before = here > there ? here : there;
    }
    return threshold(c, c->last + 1) >= before;
}

// Takes the numbers of c for the best ones if they have fewer exceptions.
static void compare_exceptions(RequantChannel *c, const int64_t *at, const Requant *r, RequantChannel *best)
{
    if (c->factor >= 0 && c->factor <= INT32_MAX && has_ends(c, r) && find_exceptions(c, at) &&
        c->n_above <= r->exceptions && c->n_below <= r->exceptions &&
        c->n_above + c->n_below < best->n_above + best->n_below)
        *best = *c;
}

// A factor and a start with which the integers take their steps at `at`, or with the fewest exceptions.
static bool fit_line(RequantChannel *c, const int64_t *at, const Requant *r)
{
    RequantChannel best = {.n_above = REQUANT_MAX_EXCEPTIONS, .n_below = REQUANT_MAX_EXCEPTIONS + 1};
    const RequantChannel given = *c;
    for (int64_t i = 0; i <= 2 * NEAR; i++) {
        c->factor = given.factor + (i % 2 == 0 ? i / 2 : -(i + 1) / 2);
        compare_exceptions(c, at, r, &best);
    }
    *c = given;
    if (c->zone == 0 && c->first < c->last) {
        const Starts s = widest_starts(c, at, r);
        for (int64_t i = 0; i < 3; i++) {
            c->start = i == 0 ? s.lo + (s.hi - s.lo) / 2 : i == 1 ? s.lo : s.hi;
            compare_exceptions(c, at, r, &best);
        }
    }
    if (best.n_below <= REQUANT_MAX_EXCEPTIONS)
        *c = best;
    return best.n_below <= REQUANT_MAX_EXCEPTIONS;
}

// Finds which of two values counts, for each step, in a zone that takes each step where f does or holds no
// other sum than that.
static bool find_choices(RequantChannel *c, const Requant *r)
{
    const int64_t one = one_of(c);
    memset(c->upper, 0, sizeof c->upper);
    if ((c->first > r->least && sum_for(c, c->first * one - c->start + c->zone) > c->lo) ||
        (c->last < r->most && sum_for(c, (c->last + 1) * one - c->start - c->zone) <= c->hi))
        return false;
    for (int64_t v = c->first + 1; v <= c->last; v++) {
        const int64_t at = c->at[v - c->first - 1], bit = v - 1 - r->least;
        const bool is_upper = at == sum_for(c, v * one - c->start - c->zone);
        if (!is_upper && at != sum_for(c, v * one - c->start + c->zone))
            return false;
        c->upper[bit / 32] |= (uint32_t)is_upper << bit % 32;
    }
    return true;
}

static bool find_channel(const Steps *f, RequantChannel *c, uint32_t channel, const Requant *r)
{
    const double one = ldexp(1, (int)c->shift);
    const int64_t factor = (int64_t)rint(c->slope * two_32 * one);
    c->start = (int64_t)floor((c->offset + 0.5) * one * two_32);
    c->factor = factor;
    c->n_above = c->n_below = 0;
    if (c->zone == 0 && c->at == NULL && has_ends(c, r) && takes_steps(f, c, channel))
        return true;
    if (c->at == NULL)
        find_steps(f, c, channel, c->at = ARENA_ARRAY(r->arena, int64_t, REQUANT_MAX_STEPS));
    if (r->has_choices)
        return find_choices(c, r);
    if (fit_factor(c, c->at) && has_ends(c, r))
        return true;
    c->factor = factor;
    return fit_line(c, c->at, r);
}

// The largest shift with which a factor stays below 2^31; below REQUANT_MIN_SHIFT: none.
static int64_t shift_for(const Requant *r, double slope, double offset)
{
    int64_t shift = r->max_shift;
    while (shift >= REQUANT_MIN_SHIFT && (ldexp(slope, (int)shift) >= 0.4999999 ||
                                          ldexp(fabs(offset) + 257, (int)shift) >= (double)(1 << MAX_BITS)))
        shift--;
    return shift;
}

// What the shifts of a channel leave has to be an i32.
static bool fits_i32(const RequantChannel *c)
{
    const double most = fmax(fabs((double)c->lo), fabs((double)c->hi));
    return c->slope * most + fabs(c->offset) < (double)(1 << MAX_BITS);
}

// A channel with one value needs no sum.
static bool is_flat(RequantChannel *c)
{
    if (c->first == c->last) {
        c->slope = 0;
        c->offset = (double)c->first;
    }
    return c->first == c->last;
}

// Ways to round: where a channel decides between two values by which of them is even, and whether each has a
// shift of its own.
typedef struct Way {
    bool has_own_shifts;
    int32_t zone_bits; // half the width of the zone is 2^-bits; 0: there is none
    int64_t odd;
    bool has_choices;
} Way;

static bool find_in_way(const Steps *f, RequantChannel *channel, uint32_t n, Requant *r, Way way)
{
    r->odd = way.odd;
    r->has_zone = way.zone_bits != 0;
    r->has_choices = way.has_choices;
    for (uint32_t i = 0; i < n; i++) {
        RequantChannel *c = &channel[i];
        c->shift = way.has_own_shifts ? shift_for(r, c->slope, c->offset) : r->shift;
        c->odd = way.odd;
        if (c->shift < REQUANT_MIN_SHIFT)
            return false;
        c->zone = !r->has_zone ? 0 : way.zone_bits > 32 + c->shift ? 1 : one_of(c) >> way.zone_bits;
        if (!find_channel(f, c, i, r))
            return false;
    }
    return true;
}

// Products of floats are off by up to 2^-17 where results are bytes; by nothing for factors that are powers
// of 2.
static const int32_t zones[] = {0, 18, 17, 19, 20, 64};
enum { ZONES = sizeof zones / sizeof *zones };

// Zones from `first` on, in which the even or the odd value counts, with `exceptions` beside a zone.
static bool find_with_parity(const Steps *f, RequantChannel *channel, uint32_t n, Requant *r, uint32_t first,
                             uint32_t exceptions)
{
    const int64_t odd = (int64_t)rint(channel[0].offset) & 1;
    for (uint32_t z = first; z < ZONES; z++) {
        r->exceptions = z == 0 ? f->exceptions : exceptions;
        for (uint32_t own = 0; own < 2; own++)
            for (int64_t flip = 0; flip < (zones[z] == 0 ? 1 : 2); flip++)
                if (find_in_way(f, channel, n, r, (Way){own != 0, zones[z], odd ^ flip, false}))
                    return true;
    }
    return false;
}

static bool find_any_way(const Steps *f, RequantChannel *channel, uint32_t n, Requant *r)
{
    if (find_with_parity(f, channel, n, r, 0, f->prefers_choices ? 0 : f->exceptions))
        return true;
    // Round decimals: some products of floats are halves, and others next to a half are not rounded to one.
    for (uint32_t z = 1; z < ZONES; z++)
        for (uint32_t own = 0; own < 2; own++)
            if (find_in_way(f, channel, n, r, (Way){own != 0, zones[z], 0, true}))
                return true;
    return f->prefers_choices && find_with_parity(f, channel, n, r, 1, f->exceptions);
}

bool requant_find(Arena *a, const Steps *f, RequantChannel *channel, uint32_t n, Requant *out)
{
    *out = (Requant){.arena = a,
                     .shift = f->max_shift,
                     .least = INT64_MAX,
                     .most = INT64_MIN,
                     .exceptions = f->exceptions,
                     .max_shift = f->max_shift};
    for (uint32_t i = 0; i < n; i++) {
        RequantChannel *c = &channel[i];
        const int64_t ends[2] = {c->lo, c->hi};
        int64_t y[2];
        if (c->lo > c->hi || c->lo <= INT32_MIN || c->hi > INT32_MAX)
            return false;
        f->eval(f->ctx, i, ends, 2, y);
        c->first = y[0];
        c->last = y[1];
        if (y[1] < y[0] || y[1] - y[0] > REQUANT_MAX_STEPS)
            return false;
        out->least = y[0] < out->least ? y[0] : out->least;
        out->most = y[1] > out->most ? y[1] : out->most;
        const bool has_line = is_flat(c) || (c->slope > 0 && isfinite(c->slope) && isfinite(c->offset));
        const int64_t own = has_line ? shift_for(out, c->slope, c->offset) : REQUANT_MIN_SHIFT - 1;
        if (own < 0 && !fits_i32(c))
            return false;
        out->shift = own < out->shift ? own : out->shift;
        c->at = NULL;
    }
    const int64_t least = out->least, most = out->most;
    if (n == 0 || out->shift < REQUANT_MIN_SHIFT)
        return false;
    out->least = f->least;
    out->most = f->most;
    if (find_any_way(f, channel, n, out))
        return true;
    out->least = least;
    out->most = most;
    return (least > f->least || most < f->most) && find_any_way(f, channel, n, out);
}
