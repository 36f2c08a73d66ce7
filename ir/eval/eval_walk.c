// SPDX-License-Identifier: Apache-2.0
// Helpers of the evaluator: reading operands, scratch memory, strides, walks and mapped copies (see
// eval_ops.h).
#include "ir/eval/eval_ops.h"

#include <string.h>

bool eval_fail(const EvalCtx *c, DiagCode code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(c->g->arena, fmt, args);
    va_end(args);
    return diag_error(c->g->diag, node_span(c->g, c->id), code, "%s: %s", op_info[c->node->op].name, text);
}

double *eval_scratch(EvalCtx *c, int64_t n)
{
    rlx_assert(n >= 0);
    return ARENA_ARRAY(c->scratch, double, n);
}

double *eval_doubles(EvalCtx *c, uint32_t operand)
{
    rlx_assert(operand < c->node->n_src || !eval_has(c, operand));
    if (!eval_has(c, operand))
        return NULL;
    const Tensor *t = &c->in[operand];
    double *v = eval_scratch(c, t->numel);
    for (int64_t i = 0; i < t->numel; i++)
        v[i] = tensor_get_f64(t, i);
    return v;
}

int64_t *eval_integers(EvalCtx *c, uint32_t operand)
{
    rlx_assert(eval_has(c, operand));
    const Tensor *t = &c->in[operand];
    int64_t *v = ARENA_ARRAY(c->scratch, int64_t, t->numel);
    for (int64_t i = 0; i < t->numel; i++)
        v[i] = tensor_get_i64(t, i);
    return v;
}

void eval_store(EvalCtx *c, uint32_t i, const double *v)
{
    rlx_assert(i < c->node->n_results && (v != NULL || c->out[i].numel == 0));
    Tensor *out = &c->out[i];
    for (int64_t k = 0; k < out->numel; k++)
        tensor_set_f64(out, k, v[k]);
}

bool eval_check_work(const EvalCtx *c, int64_t results, int64_t each)
{
    int64_t work;
    if (!__builtin_mul_overflow(results, each, &work) && work <= EVAL_MAX_WORK)
        return true;
    return eval_fail(c, E0004, "%lld results of %lld steps each are too much for the reference evaluator",
                     (long long)results, (long long)each);
}

int64_t eval_count(const Tensor *t, uint32_t from, uint32_t to)
{
    rlx_assert(from <= to && to <= t->rank);
    int64_t n = 1;
    for (uint32_t i = from; i < to; i++)
        n *= t->dim[i];
    return n;
}

void eval_strides(const Tensor *t, int64_t *stride)
{
    rlx_assert(t->rank <= SHAPE_MAX_RANK);
    int64_t step = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        stride[i] = t->dim[i] == 1 ? 0 : step;
        step *= t->dim[i];
    }
}

void eval_broadcast_strides(const Tensor *t, uint32_t rank, int64_t *stride)
{
    rlx_assert(t->rank <= rank && rank <= SHAPE_MAX_RANK);
    for (uint32_t i = 0; i < rank - t->rank; i++)
        stride[i] = 0;
    eval_strides(t, stride + (rank - t->rank));
}

void eval_walk_next(EvalWalk *w)
{
    for (uint32_t i = w->rank; i-- > 0;) {
        for (uint32_t k = 0; k < w->n; k++)
            w->offset[k] += w->stride[k][i];
        if (++w->at[i] < w->dim[i])
            return;
        for (uint32_t k = 0; k < w->n; k++)
            w->offset[k] -= w->stride[k][i] * w->dim[i];
        w->at[i] = 0;
    }
}

// Where the map of one element leads, or -1.
static int64_t mapped_offset(const int64_t *const *map, const EvalWalk *w)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        const int64_t step = map[i][w->at[i]];
        if (step < 0)
            return -1;
        offset += step;
    }
    return offset;
}

void eval_copy_mapped(Tensor *out, const Tensor *src, const int64_t *const *map)
{
    rlx_assert(out->dtype == src->dtype);
    const size_t size = dtype_info[out->dtype].bytes;
    const char *from = src->data;
    char *to = out->data;
    EvalWalk w = {.rank = out->rank, .dim = out->dim};
    for (int64_t i = 0; i < out->numel; i++, eval_walk_next(&w)) {
        const int64_t offset = mapped_offset(map, &w);
        if (offset < 0)
            continue;
        rlx_assert(offset < src->numel);
        memcpy(to + (size_t)i * size, from + (size_t)offset * size, size);
    }
}

bool eval_copy_all(EvalCtx *c)
{
    rlx_assert(c->in[0].dtype == c->out[0].dtype);
    if (c->in[0].numel != c->out[0].numel)
        return eval_fail(c, E0204, "%lld elements cannot take a shape of %lld", (long long)c->in[0].numel,
                         (long long)c->out[0].numel);
    if (c->in[0].numel > 0)
        memcpy(c->out[0].data, c->in[0].data, (size_t)c->in[0].numel * dtype_info[c->in[0].dtype].bytes);
    return true;
}

void eval_copy_element(Tensor *to, int64_t at, const Tensor *from, int64_t i)
{
    const size_t size = dtype_info[to->dtype].bytes;
    memcpy((char *)to->data + (size_t)at * size, (const char *)from->data + (size_t)i * size, size);
}
