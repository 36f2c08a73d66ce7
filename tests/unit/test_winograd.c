// SPDX-License-Identifier: Apache-2.0
// The matrices of Winograd convolution: exact on small integers, and the error of the whole scheme in f32 on
// random normal numbers stays below what winograd_error says (the largest of three seeds; the tables in
// winograd_form.c come from the same sums over more of them).
#include "passes/lower/conv/winograd.h"
#include "unit.h"
#include <math.h>
#include <stdlib.h>

static uint64_t state;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 0.5) * 0x1p-53;
}

static float normal(void)
{
    const double r = sqrt(-2 * log(uniform()));
    return (float)(r * cos(6.283185307179586 * uniform()));
}

// One-dimensional, on small integers: all that is rounded is at.
static void test_matrices(void **unused)
{
    (void)unused;
    state = 1;
    for (uint8_t m = WINOGRAD_MIN_M; m <= WINOGRAD_MAX_M; m++) {
        const WinogradForm f = winograd_form(m, 3);
        double d[WINOGRAD_MAX_N], g[3], y[WINOGRAD_MAX_M] = {0};
        for (uint32_t i = 0; i < f.n; i++)
            d[i] = floor(uniform() * 19) - 9;
        for (uint32_t i = 0; i < 3; i++)
            g[i] = floor(uniform() * 19) - 9;
        for (uint32_t j = 0; j < f.n; j++) {
            double u = 0, v = 0;
            for (uint32_t i = 0; i < 3; i++)
                u += f.g[j][i] * g[i];
            for (uint32_t i = 0; i < f.n; i++) {
                v += f.bt[j][i] * d[i];
                assert_true((double)(float)f.bt[j][i] == f.bt[j][i]);
            }
            for (uint32_t i = 0; i < m; i++)
                y[i] += f.at[i][j] * u * v;
        }
        for (uint32_t i = 0; i < m; i++)
            assert_true(fabs(y[i] - (d[i] * g[0] + d[i + 1] * g[1] + d[i + 2] * g[2])) < 1e-9);
    }
}

// rows x cols times cols x size, in f32: out[rows][size].
static void multiply(const double *at, uint32_t pitch, uint32_t rows, uint32_t cols, const float *x,
                     uint32_t step, float *out, uint32_t out_step)
{
    for (uint32_t i = 0; i < rows; i++) {
        float sum = 0;
        for (uint32_t j = 0; j < cols; j++)
            sum = fmaf((float)at[i * pitch + j], x[j * step], sum);
        out[i * out_step] = sum;
    }
}

// a x a^T of a square x of `cols`; out: rows x rows.
static void both_sides(const double *at, uint32_t pitch, uint32_t rows, uint32_t cols, const float *x,
                       float *out)
{
    float z[WINOGRAD_MAX_N * WINOGRAD_MAX_N];
    for (uint32_t j = 0; j < cols; j++)
        multiply(at, pitch, rows, cols, x + j, cols, z + j, cols);
    for (uint32_t i = 0; i < rows; i++)
        multiply(at, pitch, rows, cols, z + (size_t)i * cols, 1, out + (size_t)i * rows, 1);
}

enum { MAX_IC = 256, TILES = 400 };

// Error and largest magnitude of one output tile.
static void one_tile(const WinogradForm *f, int64_t ic, double *error, double *largest)
{
    static float x[MAX_IC][WINOGRAD_MAX_N * WINOGRAD_MAX_N], w[MAX_IC][9];
    float sum[WINOGRAD_MAX_N * WINOGRAD_MAX_N] = {0}, part[WINOGRAD_MAX_N * WINOGRAD_MAX_N] = {0};
    float y[WINOGRAD_MAX_M * WINOGRAD_MAX_M];
    const uint32_t n = f->n, n2 = n * n;
    for (int64_t c = 0; c < ic; c++) {
        float u[WINOGRAD_MAX_N * WINOGRAD_MAX_N], v[WINOGRAD_MAX_N * WINOGRAD_MAX_N];
        for (uint32_t i = 0; i < n2; i++)
            x[c][i] = normal();
        for (uint32_t i = 0; i < 9; i++)
            w[c][i] = normal();
        both_sides(f->g[0], WINOGRAD_MAX_R, n, 3, w[c], u);
        both_sides(f->bt[0], WINOGRAD_MAX_N, n, n, x[c], v);
        for (uint32_t i = 0; i < n2; i++) {
            part[i] = fmaf(u[i], v[i], part[i]);
            if ((c + 1) % f->chunk == 0 || c + 1 == ic) {
                sum[i] += part[i];
                part[i] = 0;
            }
        }
    }
    both_sides(f->at[0], WINOGRAD_MAX_N, f->m, n, sum, y);
    for (uint32_t i = 0; i < f->m; i++)
        for (uint32_t j = 0; j < f->m; j++) {
            double want = 0;
            for (int64_t c = 0; c < ic; c++)
                for (uint32_t k = 0; k < 9; k++)
                    want += (double)x[c][(i + k / 3) * n + j + k % 3] * (double)w[c][k];
            *error = fmax(*error, fabs(want - (double)y[i * f->m + j]));
            *largest = fmax(*largest, fabs(want));
        }
}

static void test_error(void **unused)
{
    (void)unused;
    for (uint8_t m = WINOGRAD_MIN_M; m <= WINOGRAD_MAX_M; m++)
        for (int64_t ic = 16; ic <= MAX_IC; ic *= 4)
            for (uint64_t seed = 1; seed <= 3; seed++) {
                const WinogradForm f = winograd_form(m, 3);
                double error = 0, largest = 0;
                state = seed * 0x9e3779b97f4a7c15u;
                for (uint32_t t = 0; t < TILES / m; t++)
                    one_tile(&f, ic, &error, &largest);
                if (getenv("WINOGRAD_ERRORS") != NULL)
                    print_message("F%d %d channels: %.3g, expected %.3g\n", m, (int)ic, error / largest,
                                  winograd_error(&f, ic));
                assert_true(error / largest <= winograd_error(&f, ic));
                assert_true(error / largest >= 0.1 * winograd_error(&f, ic)); // the bound means something
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrices), cmocka_unit_test(test_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
