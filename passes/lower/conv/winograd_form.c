// SPDX-License-Identifier: Apache-2.0
// The matrices of Winograd convolution by Cook and Toom's construction: polynomial products by values at
// points and infinity (A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, 2016, section 4;
// A. Toom, 1963), transposed as S. Winograd did (Arithmetic Complexity of Computations, 1980). In exact
// fractions. And the straight code of their products, with what rows and columns of points of both signs
// share.
#include "passes/lower/conv/winograd.h"
#include <math.h>

typedef struct Fraction {
    int64_t num, den;
} Fraction;

// What belongs to n = m + r - 1: the points (the first n - 1 are used), how many channels are summed in one
// go, and the largest error, relative to the largest magnitude, for 1 and for many channels (it grows with
// the square root of the channels up to the chunk, and hardly beyond). Both come from measurements: sums of
// random normal numbers over 16 to 512 channels, up to 2 million outputs, the largest of three seeds and a
// tenth; tests/unit/test_winograd.c repeats them. The points are the best of 30 sets of small fractions.
// Chunks of 32 channels halve the error of n = 8 and cost 5 % of the time.
typedef struct Scheme {
    Fraction point[WINOGRAD_MAX_N - 1];
    int64_t chunk;
    double transform_error, sum_error; // sum_error: per square root of the channels of a chunk
} Scheme;

static const Scheme schemes[WINOGRAD_MAX_N + 1] = {
    [4] = {{{0, 1}, {1, 1}, {-1, 1}}, 256, 4e-7, 5e-8},
    [5] = {{{0, 1}, {1, 1}, {-1, 1}, {1, 2}}, 128, 2e-6, 3e-7},
    [6] = {{{0, 1}, {1, 1}, {-1, 1}, {1, 2}, {-2, 1}}, 128, 2e-6, 3e-7},
    [7] = {{{0, 1}, {1, 1}, {-1, 1}, {1, 2}, {-1, 2}, {3, 1}}, 64, 6e-6, 4.5e-7},
    [8] = {{{0, 1}, {1, 1}, {-1, 1}, {1, 2}, {-1, 2}, {2, 1}, {-2, 1}}, 32, 6.5e-6, 5e-7},
};

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

static Fraction reduced(int64_t num, int64_t den)
{
    const int64_t d = gcd(num, den) * (den < 0 ? -1 : 1);
    return (Fraction){num / d, den / d};
}

static Fraction add(Fraction a, Fraction b)
{
    return reduced(a.num * b.den + b.num * a.den, a.den * b.den);
}

static Fraction mul(Fraction a, Fraction b)
{
    return reduced(a.num * b.num, a.den * b.den);
}

static double value(Fraction a)
{
    return (double)a.num / (double)a.den;
}

// The polynomial of the points but one (skip = n - 1: of all) as coefficients, lowest first.
static void product(const Fraction *point, uint32_t n, uint32_t skip, Fraction *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (Fraction){i == 0, 1};
    for (uint32_t p = 0; p + 1 < n; p++) {
        const Fraction minus = {-point[p].num, point[p].den};
        for (uint32_t i = n; i-- > 0 && p != skip;)
            out[i] = add(mul(out[i], minus), i > 0 ? out[i - 1] : (Fraction){0, 1});
    }
}

// Product of the differences to the other points.
static Fraction denominator(const Fraction *point, uint32_t n, uint32_t i)
{
    Fraction d = {1, 1};
    for (uint32_t j = 0; j + 1 < n; j++)
        if (j != i)
            d = mul(d, add(point[i], (Fraction){-point[j].num, point[j].den}));
    return d;
}

static double power(Fraction a, uint32_t e)
{
    Fraction p = {1, 1};
    while (e-- > 0)
        p = mul(p, a);
    return value(p);
}

WinogradForm winograd_form(uint8_t m, uint8_t r)
{
    const uint8_t n = (uint8_t)(m + r - 1);
    rlx_assert(m >= WINOGRAD_MIN_M && n >= 4 && r <= WINOGRAD_MAX_R && n <= WINOGRAD_MAX_N);
    const Fraction *point = schemes[n].point;
    WinogradForm f = {.m = m, .n = n, .r = r, .chunk = schemes[n].chunk};
    for (uint32_t j = 0; j < n; j++) {
        const bool is_inf = j + 1u == n;
        Fraction row[WINOGRAD_MAX_N];
        product(point, n, j, row);
        for (uint32_t i = 0; i < n; i++)
            f.bt[j][i] = value(row[i]);
        for (uint32_t i = 0; i < m; i++)
            f.at[i][j] = is_inf ? i + 1u == m : power(point[j], i) / value(denominator(point, n, j));
        for (uint32_t i = 0; i < r; i++)
            f.g[j][i] = is_inf ? i + 1u == r : power(point[j], i);
    }
    return f;
}

WinogradFactor winograd_factor(double entry)
{
    rlx_assert(isfinite(entry));
    WinogradFactor f = {0};
    double rest = fabs(entry);
    while (rest > 0) {
        int exponent = 0;
        frexp(rest, &exponent);
        const double largest = ldexp(0.5, exponent);
        rlx_assert(f.n < WINOGRAD_MAX_PARTS);
        f.part[f.n++] = entry < 0 ? -largest : largest;
        rest -= largest;
    }
    return f;
}

double winograd_error(const WinogradForm *f, int64_t ic)
{
    rlx_assert(ic >= 0 && f->n <= WINOGRAD_MAX_N);
    const Scheme *s = &schemes[f->n];
    return s->transform_error + s->sum_error * sqrt((double)(ic < s->chunk ? ic : s->chunk));
}

// --- products with a matrix -----------------------------------------------------------------------

// y = at x. The same walk counts operations (k NULL) and emits them.
typedef struct Linear {
    Kernel *k;
    uint32_t ops;
    uint32_t rows, cols;
    double at[WINOGRAD_MAX_N][WINOGRAD_MAX_N];
} Linear;

static KRef op2(Linear *f, KOp op, KRef a, KRef b)
{
    f->ops++;
    return f->k != NULL ? k_op(f->k, op, a, b, 0) : 1;
}

// acc + c * x; acc 0 = nothing yet.
static KRef add_term(Linear *f, KRef acc, double c, KRef x)
{
    if (acc == 0)
        return c == 1 ? x : op2(f, KOP_mul, f->k != NULL ? k_number(f->k, DTYPE_f32, c) : 1, x);
    if (fabs(c) == 1)
        return op2(f, c > 0 ? KOP_add : KOP_sub, acc, x);
    f->ops++;
    return f->k != NULL ? k_fma(f->k, k_number(f->k, DTYPE_f32, c), x, acc) : 1;
}

// Begins with a coefficient of 1, where there is one.
static KRef combine(Linear *f, const double *c, const KRef *x, uint32_t n)
{
    uint32_t first = n;
    for (uint32_t i = n; i-- > 0;)
        if (c[i] == 1)
            first = i;
    KRef acc = first < n ? add_term(f, 0, 1, x[first]) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (c[i] != 0 && i != first)
            acc = add_term(f, acc, c[i], x[i]);
    return acc;
}

static uint32_t count_terms(const double *c, uint32_t n)
{
    uint32_t terms = 0;
    for (uint32_t i = 0; i < n; i++)
        terms += c[i] != 0;
    return terms;
}

// Columns of the points a and -a: x and its partner become sum and difference.
static void share_columns(Linear *f, KRef *x)
{
    for (uint32_t a = 0; a < f->cols; a++)
        for (uint32_t b = a + 1; b < f->cols; b++) {
            uint32_t terms = 0;
            bool is_pair = true;
            for (uint32_t i = 0; i < f->rows; i++) {
                is_pair = is_pair && fabs(f->at[i][a]) == fabs(f->at[i][b]);
                terms += f->at[i][a] != 0;
            }
            if (!is_pair || terms < 2)
                continue;
            const KRef sum = op2(f, KOP_add, x[a], x[b]), difference = op2(f, KOP_sub, x[a], x[b]);
            for (uint32_t i = 0; i < f->rows; i++)
                f->at[i][f->at[i][a] == f->at[i][b] ? b : a] = 0;
            x[a] = sum;
            for (uint32_t i = 0; i < f->rows; i++) // what is left stands in column b where signs differ
                f->at[i][b] = -f->at[i][b];
            x[b] = difference;
        }
}

// Rows of the points a and -a: even and odd parts, added and subtracted.
static bool share_rows(Linear *f, const KRef *x, uint32_t a, uint32_t b, KRef *y)
{
    double even[WINOGRAD_MAX_N] = {0}, odd[WINOGRAD_MAX_N] = {0};
    for (uint32_t i = 0; i < f->cols; i++) {
        if (fabs(f->at[a][i]) != fabs(f->at[b][i]))
            return false;
        *(f->at[a][i] == f->at[b][i] ? &even[i] : &odd[i]) = f->at[a][i];
    }
    const uint32_t n_even = count_terms(even, f->cols), n_odd = count_terms(odd, f->cols);
    if (n_even == 0 || n_odd == 0)
        return false;
    const KRef e = combine(f, even, x, f->cols);
    for (uint32_t i = 0; i < f->cols && n_odd == 1; i++)
        if (odd[i] != 0) {
            y[a] = add_term(f, e, odd[i], x[i]);
            y[b] = add_term(f, e, -odd[i], x[i]);
            return true;
        }
    const KRef o = combine(f, odd, x, f->cols);
    y[a] = op2(f, KOP_add, e, o);
    y[b] = op2(f, KOP_sub, e, o);
    return true;
}

// Row polynomial / (x^2 - 1), when that goes without a rest.
static bool divide(const double *row, uint32_t n, double *q)
{
    for (uint32_t i = n; i-- > 2;)
        q[i - 2] = row[i] + (i < n - 2 ? q[i] : 0);
    return n > 3 && row[0] == -q[0] && row[1] == -q[1];
}

// The rows that are left. Those with the factor x^2 - 1 are combinations of the differences x[i + 2] - x[i].
static void remaining_rows(Linear *f, const KRef *x, const bool *is_done, KRef *y)
{
    KRef difference[WINOGRAD_MAX_N] = {0};
    double q[WINOGRAD_MAX_N][WINOGRAD_MAX_N];
    int64_t saved = 2 - (int64_t)f->cols;
    bool divides[WINOGRAD_MAX_N] = {false};
    for (uint32_t i = 0; i < f->rows; i++) {
        divides[i] = !is_done[i] && divide(f->at[i], f->cols, q[i]);
        if (divides[i])
            saved += (int64_t)count_terms(f->at[i], f->cols) - (int64_t)count_terms(q[i], f->cols - 2);
    }
    for (uint32_t i = 0; saved > 0 && i + 2 < f->cols; i++)
        difference[i] = op2(f, KOP_sub, x[i + 2], x[i]);
    for (uint32_t i = 0; i < f->rows; i++)
        if (!is_done[i])
            y[i] = divides[i] && saved > 0 ? combine(f, q[i], difference, f->cols - 2)
                                           : combine(f, f->at[i], x, f->cols);
}

// pitch: of the rows of `at`.
static uint32_t linear(Kernel *k, uint32_t rows, uint32_t cols, const double *at, uint32_t pitch,
                       const KRef *in, KRef *y)
{
    Linear f = {.k = k, .rows = rows, .cols = cols};
    KRef x[WINOGRAD_MAX_N];
    bool is_done[WINOGRAD_MAX_N] = {false};
    for (uint32_t j = 0; j < cols; j++)
        x[j] = in[j];
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < cols; j++)
            f.at[i][j] = at[i * pitch + j];
    share_columns(&f, x);
    for (uint32_t a = 0; a < rows; a++)
        for (uint32_t b = a + 1; b < rows && !is_done[a]; b++)
            if (!is_done[b] && share_rows(&f, x, a, b, y))
                is_done[a] = is_done[b] = true;
    remaining_rows(&f, x, is_done, y);
    return f.ops;
}

static const KRef counted[WINOGRAD_MAX_N] = {1, 1, 1, 1, 1, 1, 1, 1};

uint32_t winograd_input_ops(const WinogradForm *f)
{
    KRef y[WINOGRAD_MAX_N];
    return linear(NULL, f->n, f->n, f->bt[0], WINOGRAD_MAX_N, counted, y);
}

uint32_t winograd_weight_ops(const WinogradForm *f)
{
    KRef y[WINOGRAD_MAX_N];
    return linear(NULL, f->n, f->r, f->g[0], WINOGRAD_MAX_R, counted, y);
}

uint32_t winograd_output_ops(const WinogradForm *f)
{
    KRef y[WINOGRAD_MAX_N];
    return linear(NULL, f->m, f->n, f->at[0], WINOGRAD_MAX_N, counted, y);
}

void winograd_emit_input(Kernel *k, const WinogradForm *f, const KRef *x, KRef *y)
{
    rlx_assert(f->n >= f->m && x != y);
    linear(k, f->n, f->n, f->bt[0], WINOGRAD_MAX_N, x, y);
}

void winograd_emit_weights(Kernel *k, const WinogradForm *f, const KRef *x, KRef *y)
{
    rlx_assert(f->n >= f->r && x != y);
    linear(k, f->n, f->r, f->g[0], WINOGRAD_MAX_R, x, y);
}

void winograd_emit_output(Kernel *k, const WinogradForm *f, const KRef *x, KRef *y)
{
    rlx_assert(f->n >= f->m && x != y);
    linear(k, f->m, f->n, f->at[0], WINOGRAD_MAX_N, x, y);
}
