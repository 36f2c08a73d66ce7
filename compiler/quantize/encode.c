// SPDX-License-Identifier: Apache-2.0
// Element i of a block is d * scale(g) * q(i) + m * min(g) (ir/graph/blocks.h). First each group gets the
// step and the shift that suit it best, of a few that clip more or less; then d and m are what lets the
// integers scale and min come near to these; then d and m are fitted to the integers.
#include "compiler/quantize/encode.h"
#include "ir/graph/tensor.h"

#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = BLOCK_GROUP_MOST, MOST_GROUPS = MOST_ELEMENTS / 16, BYTE = 8, MANY_BITS = 5,
       LANES = 8, MOST_LEVELS = 16 };

typedef struct Range {
    int lo, hi;
} Range;

typedef struct Coder {
    const BlockFormat *f;
    Range q, scale, min;
    uint32_t bits; // of q
    const float *x, *w;
    // With `values`: these, ascending, and where the next one is nearer.
    float level[MOST_LEVELS], middle[MOST_LEVELS];
} Coder;

// A step and a shift, and the error that they leave.
typedef struct Fit {
    double step, shift, error;
} Fit;

// A whole block.
typedef struct Coded {
    double d, m, error;
    int scale[MOST_GROUPS], min[MOST_GROUPS];
    int q[MOST_ELEMENTS]; // with `values`: indices
} Coded;

// Sums over elements, of which a is what the step is multiplied by, and b what the shift is.
typedef struct Sums {
    double aa, ab, bb, ax, bx;
} Sums;

// --- numbers that a block can hold ---------------------------------------------------------------

static Range range_of(const BlockField *f)
{
    const uint32_t bits = f->low.bits + f->high.bits;
    const int a = f->sign * f->bias, b = f->sign * ((1 << bits) - 1 + f->bias);
    return a < b ? (Range){a, b} : (Range){b, a};
}

static bool is_field(const BlockField *f)
{
    return f->low.bits != 0;
}

// The float of a block that is nearest to v. In f16, what is not 0 stays so: integers of a scale can then
// still be fitted to it.
static double stored(BlockFloat kind, double v)
{
    const double least = ldexp(1, -24);
    if (kind == BLOCK_E8M0)
        return v == 0 ? ldexp(1, -128) : ldexp(1, (int)fmin(fmax(rint(log2(fabs(v))), -128), 127));
    if (kind == BLOCK_F16)
        return f16_to_f64(f16_from_f64(v != 0 && fabs(v) < least ? copysign(least, v) : v));
    return kind == BLOCK_BF16 ? bf16_to_f64(bf16_from_f64(v)) : (double)(float)v;
}

static void put_number(BlockFloat kind, double v, unsigned char *at)
{
    const uint16_t half = kind == BLOCK_F16 ? f16_from_f64(v) : bf16_from_f64(v);
    const float single = (float)v;
    if (kind == BLOCK_E8M0)
        *at = (unsigned char)(ilogb(v) + 128);
    else if (kind == BLOCK_F32)
        memcpy(at, &single, sizeof single);
    else
        memcpy(at, &half, sizeof half);
}

// --- levels: what q can stand for ----------------------------------------------------------------

static void sort_levels(Coder *c)
{
    for (uint32_t i = 0; i < MOST_LEVELS; i++) {
        uint32_t at = i;
        const float v = (float)c->f->values[i];
        for (; at != 0 && c->level[at - 1] > v; at--)
            c->level[at] = c->level[at - 1];
        c->level[at] = v;
    }
    for (uint32_t i = 0; i + 1 < MOST_LEVELS; i++)
        c->middle[i] = (c->level[i] + c->level[i + 1]) / 2;
}

static float nearest_level(const Coder *c, float v)
{
    uint32_t i = 0;
    for (uint32_t step = MOST_LEVELS / 2; step != 0; step /= 2)
        i += v > c->middle[i + step - 1] ? step : 0;
    return c->level[i];
}

// What is nearest to each of some numbers, none of which is a NaN.
static void round_lanes(const Coder *c, float v[LANES])
{
    const float least = (float)c->q.lo, most = (float)c->q.hi;
    for (uint32_t l = 0; c->f->values == NULL && l < LANES; l++) {
        const float low = v[l] < least ? least : v[l], clipped = low > most ? most : low;
        v[l] = (float)(int)(clipped - least + 0.5f) + least;
    }
    for (uint32_t l = 0; c->f->values != NULL && l < LANES; l++)
        v[l] = nearest_level(c, v[l]);
}

// The bits of q, as put_field takes them, for a level.
static int index_of(const Coder *c, float level)
{
    int i = 0;
    if (c->f->values == NULL)
        return (int)level;
    while ((float)c->f->values[i] != level)
        i++;
    return i;
}

static int meaning(const Coder *c, int q)
{
    return c->f->values != NULL ? c->f->values[q] : q;
}

static int clip(Range r, double v)
{
    return (int)fmin(fmax(rint(v), r.lo), r.hi);
}

// --- one group -----------------------------------------------------------------------------------

static float inverse(double step)
{
    return fabs(step) < 1e-30 ? 0 : (float)(1 / step);
}

// The error of a step and a shift, and the sums that say which ones would suit the same integers better.
// Sums in lanes, which compilers turn into vectors.
static double judge(const Coder *c, uint32_t from, double step, double shift, Sums *sums)
{
    const float inv = inverse(step), s = (float)step, m = (float)shift;
    float sum[6][LANES] = {{0}}, total[6] = {0};
    for (uint32_t i = from; i < from + c->f->group; i += LANES) {
        const float *x = c->x + i, *w = c->w + i;
        float q[LANES];
        for (uint32_t l = 0; l < LANES; l++)
            q[l] = (x[l] - m) * inv;
        round_lanes(c, q);
        for (uint32_t l = 0; l < LANES; l++) {
            const float off = x[l] - (s * q[l] + m), wq = w[l] * q[l];
            sum[0][l] += w[l] * off * off;
            sum[1][l] += wq * q[l];
            sum[2][l] += wq;
            sum[3][l] += w[l];
            sum[4][l] += wq * x[l];
            sum[5][l] += w[l] * x[l];
        }
    }
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t l = 0; l < LANES; l++)
            total[i] += sum[i][l];
    *sums = (Sums){(double)total[1], (double)total[2], (double)total[3], (double)total[4], (double)total[5]};
    return (double)total[0];
}

// The pair that is best for these sums. False: there is no such one.
static bool solve(const Sums *s, bool has_shift, double *a, double *b)
{
    const double det = s->aa * s->bb - s->ab * s->ab;
    const bool both = has_shift && det > 1e-9 * s->aa * s->bb;
    *a = both ? (s->ax * s->bb - s->bx * s->ab) / det : s->aa > 0 ? s->ax / s->aa : 0;
    *b = both ? (s->bx * s->aa - s->ax * s->ab) / det : 0;
    return s->aa > 0;
}

static void try_pair(const Coder *c, uint32_t from, double step, double shift, Fit *best, Sums *sums)
{
    const BlockFormat *f = c->f;
    if (!is_field(&f->scale))
        step = stored(f->float_kind, step);
    if (f->min.sign != 0 && !is_field(&f->min))
        shift = stored(f->float_kind, shift);
    const double error = judge(c, from, step, shift, sums);
    if (error < best->error)
        *best = (Fit){step, shift, error};
}

// The pair, and what its integers would rather have.
static void try_twice(const Coder *c, uint32_t from, double step, double shift, Fit *best)
{
    const bool has_shift = c->f->min.sign != 0, is_free = has_shift && !is_field(&c->f->min);
    Sums sums, unused;
    double a, b;
    try_pair(c, from, step, shift, best, &sums);
    if (!solve(&sums, has_shift, &a, &b))
        return;
    if (has_shift && !is_free && (b > 0 || a < 0)) // neither scale nor min has the other sign
        solve(&sums, false, &a, &b);
    try_pair(c, from, a, b, best, &unused);
}

// How many steps are tried: few bits gain by clipping.
static uint32_t tries_of(const Coder *c)
{
    return c->bits >= BYTE ? 1 : c->bits >= MANY_BITS ? 4 : 8;
}

static double width_of(uint32_t nth)
{
    return 1 - 0.05 * nth;
}

static Fit fit_symmetric(const Coder *c, uint32_t from, double largest)
{
    Fit best = {.error = INFINITY};
    const double ends[] = {c->q.lo, c->q.hi};
    for (uint32_t e = c->q.lo == -c->q.hi; e < 2; e++)
        for (uint32_t i = 0; i < tries_of(c); i++)
            try_twice(c, from, largest / ends[e] * width_of(i), 0, &best);
    return best;
}

static Fit fit_shifted(const Coder *c, uint32_t from, double least, double most)
{
    const bool is_free = !is_field(&c->f->min);
    Fit best = {.error = INFINITY};
    if (!is_free && least > 0)
        least = 0;
    const double all = most > least ? most - least : 0;
    for (uint32_t i = 0; i < tries_of(c); i++) {
        const double cut = all * (1 - width_of(i)) / 2;
        try_twice(c, from, all / c->q.hi * width_of(i), least, &best);
        try_twice(c, from, all / c->q.hi * width_of(i), !is_free && least + cut > 0 ? 0 : least + cut, &best);
    }
    return best;
}

static Fit fit_group(const Coder *c, uint32_t from)
{
    double least = (double)c->x[from], most = least;
    for (uint32_t i = from; i < from + c->f->group; i++) {
        least = fmin(least, (double)c->x[i]);
        most = fmax(most, (double)c->x[i]);
    }
    return c->f->min.sign != 0 ? fit_shifted(c, from, least, most)
                               : fit_symmetric(c, from, -least > most ? least : most);
}

// --- the block -----------------------------------------------------------------------------------

// What makes the largest of some numbers one that the integers of a field reach.
static double unit_of(Range r, const double *v, uint32_t n)
{
    double largest = 0;
    for (uint32_t g = 0; g < n; g++)
        largest = fabs(v[g]) > fabs(largest) ? v[g] : largest;
    return largest / (-r.lo > r.hi ? r.lo : r.hi);
}

static double from_unit(double v, double unit)
{
    return unit == 0 ? 0 : v / unit;
}

// The integers of a group for a given d and m: those nearest to its fit, or beside them.
static void choose_group(const Coder *c, uint32_t g, const Fit *fit, Coded *out)
{
    const BlockFormat *f = c->f;
    const int near_scale = is_field(&f->scale) ? 1 : 0, near_min = is_field(&f->min) ? 1 : 0;
    const int scale = near_scale ? clip(c->scale, from_unit(fit->step, out->d)) : 1;
    const int min = near_min ? clip(c->min, from_unit(fit->shift, out->m)) : f->min.sign != 0;
    double least = INFINITY;
    Sums unused;
    out->scale[g] = scale;
    out->min[g] = min;
    for (int s = scale - near_scale; s <= scale + near_scale; s++)
        for (int m = min - near_min; m <= min + near_min; m++) {
            if ((near_scale && (s < c->scale.lo || s > c->scale.hi)) ||
                (near_min && (m < c->min.lo || m > c->min.hi)))
                continue;
            const double error = judge(c, g * f->group, out->d * s, out->m * m, &unused);
            if (error >= least)
                continue;
            least = error;
            out->scale[g] = s;
            out->min[g] = m;
        }
    const double step = out->d * out->scale[g], shift = out->m * out->min[g];
    for (uint32_t i = g * f->group; i < (g + 1u) * f->group; i += LANES) {
        float q[LANES];
        for (uint32_t l = 0; l < LANES; l++)
            q[l] = (c->x[i + l] - (float)shift) * inverse(step);
        round_lanes(c, q);
        for (uint32_t l = 0; l < LANES; l++)
            out->q[i + l] = index_of(c, q[l]);
    }
    out->error += least;
}

static void choose(const Coder *c, const Fit *fits, double d, double m, Coded *out)
{
    out->d = stored(c->f->float_kind, d);
    out->m = c->f->min.sign != 0 ? stored(c->f->float_kind, m) : 0;
    out->error = 0;
    for (uint32_t g = 0; g < c->f->elements / (uint32_t)c->f->group; g++)
        choose_group(c, g, &fits[g], out);
}

// d and m for the integers of a block. False: there is nothing to fit.
static bool refit(const Coder *c, const Coded *k, double *d, double *m)
{
    Sums s = {0};
    for (uint32_t i = 0; i < c->f->elements; i++) {
        const uint32_t g = i / c->f->group;
        const double a = (double)k->scale[g] * meaning(c, k->q[i]), b = k->min[g];
        const double w = (double)c->w[i], x = (double)c->x[i];
        s.aa += w * a * a;
        s.ab += w * a * b;
        s.bb += w * b * b;
        s.ax += w * a * x;
        s.bx += w * b * x;
    }
    return solve(&s, c->f->min.sign != 0, d, m);
}

static void put_entry(const BlockPlane *p, unsigned char *block, uint32_t i, uint32_t v)
{
    if (p->bits == 0)
        return;
    const BlockPlace at = block_place(p, i);
    block[at.byte] |= (unsigned char)((v & ((1u << p->bits) - 1)) << at.shift);
}

static void put_field(const BlockField *f, unsigned char *block, uint32_t i, int v)
{
    const uint32_t bits = (uint32_t)(f->sign * v - f->bias) ^ f->flip;
    put_entry(&f->low, block, i, bits);
    put_entry(&f->high, block, i, bits >> f->low.bits);
}

static void put_block(const BlockFormat *f, const Coded *k, unsigned char *block)
{
    memset(block, 0, f->bytes);
    put_number(f->float_kind, k->d, block + f->d_at);
    if (f->min.sign != 0)
        put_number(f->float_kind, k->m, block + f->m_at);
    for (uint32_t g = 0; g < f->elements / (uint32_t)f->group; g++) {
        if (is_field(&f->scale))
            put_field(&f->scale, block, g, k->scale[g]);
        if (is_field(&f->min))
            put_field(&f->min, block, g, k->min[g]);
    }
    for (uint32_t i = 0; i < f->elements; i++)
        put_field(&f->q, block, i, k->q[i]);
}

// Formats whose numbers d and m are of the whole block.
static void encode_shared(const Coder *c, const Fit *fits, Coded *best)
{
    const uint32_t n = c->f->elements / (uint32_t)c->f->group;
    double step[MOST_GROUPS], shift[MOST_GROUPS], d, m;
    for (uint32_t g = 0; g < n; g++) {
        step[g] = fits[g].step;
        shift[g] = fits[g].shift;
    }
    choose(c, fits, is_field(&c->f->scale) ? unit_of(c->scale, step, n) : step[0],
           is_field(&c->f->min) ? unit_of(c->min, shift, n) : shift[0], best);
    Coded other;
    if (!refit(c, best, &d, &m))
        return;
    choose(c, fits, d, m, &other);
    if (other.error < best->error)
        *best = other;
}

static Range range_of_q(const BlockFormat *f)
{
    if (f->values == NULL) {
        const Range r = range_of(&f->q); // whole bytes are used up to the same number on both sides
        return f->q.low.bits == BYTE && -r.lo > r.hi ? (Range){-r.hi, r.hi} : r;
    }
    Range r = {0, 0};
    for (int i = 0; i < 16; i++) {
        r.lo = f->values[i] < r.lo ? f->values[i] : r.lo;
        r.hi = f->values[i] > r.hi ? f->values[i] : r.hi;
    }
    return r;
}

void encode_block(const BlockFormat *f, const float *x, const float *weight, unsigned char *block)
{
    rlx_assert(f->elements <= MOST_ELEMENTS && f->elements / f->group <= MOST_GROUPS && f->pitch == 0 &&
               f->group % LANES == 0);
    float ones[MOST_ELEMENTS];
    Fit fits[MOST_GROUPS];
    Coded coded;
    for (uint32_t i = 0; weight == NULL && i < f->elements; i++)
        ones[i] = 1;
    Coder c = {.f = f,
               .q = range_of_q(f),
               .scale = range_of(&f->scale),
               .min = range_of(&f->min),
               .bits = f->q.low.bits + f->q.high.bits,
               .x = x,
               .w = weight != NULL ? weight : ones};
    if (f->values != NULL)
        sort_levels(&c);
    for (uint32_t g = 0; g < f->elements / (uint32_t)f->group; g++)
        fits[g] = fit_group(&c, g * f->group);
    encode_shared(&c, fits, &coded);
    put_block(f, &coded, block);
}
