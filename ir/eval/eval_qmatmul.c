// SPDX-License-Identifier: Apache-2.0
// The meaning of qmatmul: a product with weights of few bits, which are unpacked one by one.
#include "ir/eval/eval_ops.h"

#include <math.h>

typedef struct Packed {
    const Tensor *w;
    int64_t bits, block; // of an element; elements in a block
} Packed;

static double number_at(const Packed *p, int64_t column, int64_t k)
{
    const int64_t per_byte = 8 / p->bits, blob = p->w->dim[2];
    const int64_t in_block = k % p->block, at = (column * p->w->dim[1] + k / p->block) * blob;
    const int64_t byte = tensor_get_i64(p->w, at + in_block / per_byte);
    return (double)(byte >> (in_block % per_byte * p->bits) & ((1 << p->bits) - 1));
}

// The elements of a block as whole multiples of a step, in the arithmetic of f32.
static void round_block(double *x, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabsf((float)x[i]) > most ? fabsf((float)x[i]) : most;
    const float step = most / 127.0f, factor = 127.0f / most;
    for (int64_t i = 0; i < n; i++) {
        const float scaled = (float)x[i] * factor, whole = rintf(scaled);
        const float q = whole != whole ? 0 : whole < -128 ? -128 : whole > 127 ? 127 : whole;
        x[i] = (double)q * (double)step;
    }
}

bool eval_qmatmul(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    Packed p = {.w = &c->in[1], .bits = node_get_int(c->node, A_qmatmul_bits)};
    rlx_assert(p.w->rank == 3 && (p.bits == 2 || p.bits == 4 || p.bits == 8));
    p.block = p.w->dim[2] * (8 / p.bits);
    const int64_t inner = x->dim[x->rank - 1], columns = p.w->dim[0], blocks = p.w->dim[1];
    double *a = eval_doubles(c, 0);
    const double *scale = eval_doubles(c, 2), *zero = eval_doubles(c, 3);
    double *y = eval_scratch(c, c->out[0].numel);
    if (!eval_check_work(c, c->out[0].numel, inner))
        return false;
    for (int64_t i = 0; node_get_int(c->node, A_qmatmul_x_bits) == 8 && inner > 0 && i < x->numel; i += inner)
        for (int64_t k = 0; k < inner; k += p.block)
            round_block(a + i + k, inner - k < p.block ? inner - k : p.block);
    for (int64_t i = 0; i < c->out[0].numel; i++) {
        const int64_t column = i % columns;
        const double *row = a + i / columns * inner;
        for (int64_t k = 0; k < inner; k++) {
            const int64_t b = column * blocks + k / p.block;
            const double z = zero ? zero[b] : (double)(1 << (p.bits - 1));
            y[i] += row[k] * ((number_at(&p, column, k) - z) * scale[b]);
        }
    }
    eval_store(c, 0, y);
    return true;
}
