// SPDX-License-Identifier: Apache-2.0
// Meanings of matmul and linear. Floats are products and sums in double; integers wrap in 64 bits.
#include "ir/eval/eval_ops.h"

// One product [rows, inner] x [inner, cols] with strides in elements, so that transposed operands need no
// copy.
typedef struct Product {
    int64_t rows, inner, cols;
    int64_t a_row, a_inner, b_inner, b_col;
    int64_t live;  // of inner: that count
    uint32_t bias; // operand, 0: none
} Product;

static void multiply_doubles(const Product *p, const double *a, const double *b, double *y)
{
    for (int64_t i = 0; i < p->rows; i++) {
        double *row = y + i * p->cols;
        for (int64_t k = 0; k < p->live; k++) {
            const double v = a[i * p->a_row + k * p->a_inner];
            for (int64_t j = 0; j < p->cols; j++)
                row[j] += v * b[k * p->b_inner + j * p->b_col];
        }
    }
}

static void multiply_integers(const Product *p, const int64_t *a, const int64_t *b, int64_t *y)
{
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->cols; j++) {
            uint64_t sum = 0;
            for (int64_t k = 0; k < p->live; k++)
                sum +=
                    (uint64_t)a[i * p->a_row + k * p->a_inner] * (uint64_t)b[k * p->b_inner + j * p->b_col];
            y[i * p->cols + j] = (int64_t)sum;
        }
}

// The matrices are the last two axes; a vector stands for a matrix with one row (a) or column (b).
static Product product_of(const Tensor *a, const Tensor *b, bool transpose_a, bool transpose_b)
{
    rlx_assert(a->rank >= 1 && b->rank >= 1 && a->dtype == b->dtype);
    const int64_t a0 = a->rank < 2 ? 1 : a->dim[a->rank - 2], a1 = a->dim[a->rank - 1];
    const int64_t b0 = b->rank < 2 ? b->dim[0] : b->dim[b->rank - 2],
                  b1 = b->rank < 2 ? 1 : b->dim[b->rank - 1];
    Product p = {.rows = a0, .inner = a1, .cols = b1, .a_row = a1, .a_inner = 1, .b_inner = b1, .b_col = 1};
    if (transpose_a)
        p = (Product){
            .rows = a1, .inner = a0, .cols = b1, .a_row = 1, .a_inner = a1, .b_inner = b1, .b_col = 1};
    if (transpose_b) {
        p.cols = b0;
        p.b_inner = 1;
        p.b_col = b1;
    }
    p.live = p.inner;
    return p;
}

// The walk over the axes before the matrices: offsets in matrices of a and of b.
static EvalWalk batch_walk(const EvalCtx *c, Tensor *batch)
{
    Tensor heads[2];
    uint32_t rank = 0;
    for (uint32_t k = 0; k < 2; k++) {
        heads[k] = c->in[k];
        heads[k].rank = heads[k].rank < 2 ? 0 : heads[k].rank - 2;
        rank = heads[k].rank > rank ? heads[k].rank : rank;
    }
    *batch = c->out[0];
    batch->rank = rank;
    EvalWalk w = {.rank = rank, .n = 2, .dim = batch->dim};
    for (uint32_t k = 0; k < 2; k++)
        eval_broadcast_strides(&heads[k], rank, w.stride[k]);
    return w;
}

static bool multiply_batches(EvalCtx *c, const Product *p)
{
    Tensor batch;
    EvalWalk w = batch_walk(c, &batch);
    const int64_t n = eval_count(&batch, 0, batch.rank), a_size = p->rows * p->inner,
                  b_size = p->inner * p->cols;
    if (!eval_check_work(c, c->out[0].numel, p->inner))
        return false;
    if (dtype_info[c->in[0].dtype].cls == DCLASS_FLOAT) {
        const double *a = eval_doubles(c, 0), *b = eval_doubles(c, 1),
                     *bias = p->bias ? eval_doubles(c, p->bias) : NULL;
        double *y = eval_scratch(c, c->out[0].numel);
        for (int64_t i = 0; i < n; i++, eval_walk_next(&w))
            multiply_doubles(p, a + w.offset[0] * a_size, b + w.offset[1] * b_size,
                             y + i * p->rows * p->cols);
        w = (EvalWalk){.rank = c->out[0].rank, .n = 1, .dim = c->out[0].dim};
        if (bias != NULL)
            eval_broadcast_strides(&c->in[p->bias], w.rank, w.stride[0]);
        for (int64_t i = 0; bias != NULL && i < c->out[0].numel; i++, eval_walk_next(&w))
            y[i] += bias[w.offset[0]];
        eval_store(c, 0, y);
        return true;
    }
    const int64_t *a = eval_integers(c, 0), *b = eval_integers(c, 1);
    int64_t *y = ARENA_ARRAY(c->scratch, int64_t, c->out[0].numel);
    for (int64_t i = 0; i < n; i++, eval_walk_next(&w))
        multiply_integers(p, a + w.offset[0] * a_size, b + w.offset[1] * b_size, y + i * p->rows * p->cols);
    for (int64_t i = 0; i < c->out[0].numel; i++)
        tensor_set_i64(&c->out[0], i, y[i]);
    return true;
}

bool eval_matmul(EvalCtx *c)
{
    Product p = product_of(&c->in[0], &c->in[1], eval_flag(c, A_matmul_transpose_a),
                           eval_flag(c, A_matmul_transpose_b));
    const int64_t live = eval_has(c, 2) ? tensor_get_i64(&c->in[2], 0) : p.inner;
    p.live = live < 0 ? 0 : live < p.inner ? live : p.inner;
    return multiply_batches(c, &p);
}

// The bias is added before the one rounding.
bool eval_linear(EvalCtx *c)
{
    Product p = product_of(&c->in[0], &c->in[1], false, eval_flag(c, A_linear_transpose_b));
    p.bias = eval_has(c, 2) ? 2 : 0;
    return multiply_batches(c, &p);
}
