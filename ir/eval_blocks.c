// SPDX-License-Identifier: Apache-2.0
// The meaning of the ops that read quantised blocks: every element is rounded to f32 once, whoever reads it.
#include "ir/blocks.h"
#include "ir/eval_ops.h"

bool eval_block_decode(EvalCtx *c)
{
    const BlockFormat *f = block_format(node_get_str(c->node, A_block_decode_format));
    const unsigned char *from = c->in[0].data;
    float *to = c->out[0].data;
    for (int64_t i = 0; i < c->out[0].numel; i += f->elements, from += f->bytes)
        block_decode(f, from, to + i);
    return true;
}

bool eval_block_matmul(EvalCtx *c)
{
    const BlockFormat *f = block_format(node_get_str(c->node, A_block_matmul_format));
    const Tensor *x = &c->in[0], *w = &c->in[1];
    const int64_t inner = x->dim[x->rank - 1], columns = w->dim[0], blocks = w->dim[1];
    const double *a = eval_doubles(c, 0);
    double *y = eval_scratch(c, c->out[0].numel);
    float *row = ARENA_ARRAY(c->scratch, float, inner + 1);
    if (!eval_check_work(c, c->out[0].numel, inner))
        return false;
    const int64_t rows = columns > 0 ? c->out[0].numel / columns : 0;
    for (int64_t n = 0; n < columns; n++) {
        for (int64_t b = 0; b < blocks; b++)
            block_decode(f, (const unsigned char *)w->data + (n * blocks + b) * f->bytes,
                         row + b * f->elements);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < inner; k++)
                y[r * columns + n] += a[r * inner + k] * (double)row[k];
    }
    eval_store(c, 0, y);
    return true;
}
