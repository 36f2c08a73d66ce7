// SPDX-License-Identifier: Apache-2.0
// Meanings of algorithms that are ops of their own: determinants, walks through decision trees, random bits.
#include "ir/eval/eval_ops.h"

#include <math.h>
#include <string.h>

// --- determinants ---

// By elimination with the largest pivot of each column. Destroys a.
static double determinant(double *a, int64_t n)
{
    double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
                best = i;
        for (int64_t j = k; best != k && j < n; j++) {
            const double v = a[best * n + j];
            a[best * n + j] = a[k * n + j];
            a[k * n + j] = v;
        }
        det *= best == k ? a[k * n + k] : -a[k * n + k];
        if (!(fabs(a[k * n + k]) > 0))
            continue; // 0, or NaN, which det has by now
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t j = n; j-- > k;)
                a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
    }
    return det;
}

bool eval_det(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    rlx_assert(x->rank >= 2 && x->dim[x->rank - 1] == x->dim[x->rank - 2]);
    const int64_t n = x->dim[x->rank - 1], size = n * n;
    if (!eval_check_work(c, c->out[0].numel, size > INT32_MAX ? INT64_MAX / 4 : size * n))
        return false;
    double *a = eval_doubles(c, 0), *det = eval_scratch(c, c->out[0].numel);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        det[i] = determinant(a + i * size, n);
    eval_store(c, 0, det);
    return true;
}

// --- trees ---

static int64_t inside(int64_t v, int64_t n)
{
    return v < 0 ? 0 : v < n ? v : n - 1;
}

static bool goes_to_yes(int64_t kind, double v, double threshold)
{
    const bool holds[8] = {false,          v <= threshold, v<threshold, v >= threshold, v> threshold,
                           v == threshold, v != threshold, false};
    return holds[kind & 7] || ((kind & 8) && v != v);
}

bool eval_tree_walk(EvalCtx *c)
{
    const Tensor *x = &c->in[0], *nodes = &c->in[1], *thresholds = &c->in[2], *roots = &c->in[3];
    const int64_t depth = node_get_int(c->node, A_tree_walk_depth), trees = roots->numel;
    rlx_assert(x->rank == 2 && depth >= 0 && nodes->numel == 4 * thresholds->numel);
    if (!eval_check_work(c, c->out[0].numel, depth + 1))
        return false;
    for (int64_t i = 0; i < c->out[0].numel; i++) {
        int64_t at = inside(tensor_get_i64(roots, i % trees), thresholds->numel);
        for (int64_t step = 0; step < depth && tensor_get_i64(nodes, 4 * at + 1) != 0; step++) {
            const int64_t feature = inside(tensor_get_i64(nodes, 4 * at), x->dim[1]);
            const double v = tensor_get_f64(x, i / trees * x->dim[1] + feature);
            const bool yes =
                goes_to_yes(tensor_get_i64(nodes, 4 * at + 1), v, tensor_get_f64(thresholds, at));
            at = inside(tensor_get_i64(nodes, 4 * at + (yes ? 2 : 3)), thresholds->numel);
        }
        tensor_set_i64(&c->out[0], i, tensor_get_i64(nodes, 4 * at + 2));
    }
    return true;
}

// --- random bits ---

enum { MT_WORDS = 624, MT_AHEAD = 397 };

static void twist(uint32_t *mt)
{
    for (uint32_t i = 0; i < MT_WORDS; i++) {
        const uint32_t y = (mt[i] & 0x80000000u) | (mt[(i + 1) % MT_WORDS] & 0x7fffffffu);
        mt[i] = mt[(i + MT_AHEAD) % MT_WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
}

static uint32_t temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

bool eval_mt19937(EvalCtx *c)
{
    rlx_assert(c->in[0].dtype == DTYPE_u32 && c->in[0].numel == MT_WORDS + 1);
    uint32_t mt[MT_WORDS + 1];
    memcpy(mt, c->in[0].data, sizeof mt);
    uint32_t at = mt[MT_WORDS] < MT_WORDS ? mt[MT_WORDS] : MT_WORDS;
    for (int64_t i = 0; i < c->out[0].numel; i++) {
        if (at == MT_WORDS) {
            twist(mt);
            at = 0;
        }
        tensor_set_i64(&c->out[0], i, (int64_t)temper(mt[at++]));
    }
    mt[MT_WORDS] = at;
    memcpy(c->out[1].data, mt, sizeof mt);
    return true;
}
