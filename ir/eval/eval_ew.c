// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: the meanings of ops.def become functions on double, int64_t and uint64_t, and one walk
// applies them with broadcasting. Nothing here names an op.
#include "ir/eval/eval_ops.h"
#include "ir/eval/scalar.h"

typedef double (*FloatMeaning)(double a, double b, double c);
typedef int64_t (*IntMeaning)(int64_t a, int64_t b, int64_t c);
typedef uint64_t (*UintMeaning)(uint64_t a, uint64_t b, uint64_t c);

// Stands for a meaning that an op does not have; the shape rules let no such call come here.
#define NONE (diag_bug(__FILE__, __LINE__, "the op has no meaning for this type"), 0)

// Unsigned values are never negative: the shared meanings ask anyway.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"

#define EW(name, arity, cls, cost, flags, fexpr, iexpr, kernel)                                              \
    static double f64_##name(double a, double b, double c)                                                   \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return fexpr;                                                                                        \
    }
#include "ir/graph/ops.def"

#define I int64_t
#define EW(name, arity, cls, cost, flags, fexpr, iexpr, kernel)                                              \
    static int64_t i64_##name(int64_t a, int64_t b, int64_t c)                                               \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return iexpr;                                                                                        \
    }
#include "ir/graph/ops.def"
#undef I

#define I uint64_t
#define EW(name, arity, cls, cost, flags, fexpr, iexpr, kernel)                                              \
    static uint64_t u64_##name(uint64_t a, uint64_t b, uint64_t c)                                           \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return iexpr;                                                                                        \
    }
#include "ir/graph/ops.def"
#undef I

#pragma GCC diagnostic pop

static const FloatMeaning f64_meaning[OP_COUNT] = {
#define EW(name, ...) [OP_##name] = f64_##name,
#include "ir/graph/ops.def"
};

static const IntMeaning i64_meaning[OP_COUNT] = {
#define EW(name, ...) [OP_##name] = i64_##name,
#include "ir/graph/ops.def"
};

static const UintMeaning u64_meaning[OP_COUNT] = {
#define EW(name, ...) [OP_##name] = u64_##name,
#include "ir/graph/ops.def"
};

double eval_ew_f64(OpId op, double a, double b, double c)
{
    rlx_assert(op < OP_COUNT && f64_meaning[op] != NULL);
    return f64_meaning[op](a, b, c);
}

int64_t eval_ew_i64(OpId op, int64_t a, int64_t b, int64_t c)
{
    rlx_assert(op < OP_COUNT && i64_meaning[op] != NULL);
    return i64_meaning[op](a, b, c);
}

uint64_t eval_ew_u64(OpId op, uint64_t a, uint64_t b, uint64_t c)
{
    rlx_assert(op < OP_COUNT && u64_meaning[op] != NULL);
    return u64_meaning[op](a, b, c);
}

// Element i of the result, from the operands at the walk's offsets. Absent third operands are read as 0.
typedef void (*ElementFn)(const EvalCtx *c, const EvalWalk *w, int64_t i);

static void float_element(const EvalCtx *c, const EvalWalk *w, int64_t i)
{
    double v[EVAL_WALK_MAX] = {0};
    for (uint32_t k = 0; k < w->n; k++)
        v[k] = tensor_get_f64(&c->in[k], w->offset[k]);
    tensor_set_f64(&c->out[0], i, f64_meaning[c->node->op](v[0], v[1], v[2]));
}

// Results of ops on bool are bit 0 of the meaning.
static void set_integer(Tensor *out, int64_t i, int64_t v)
{
    tensor_set_i64(out, i, out->dtype == DTYPE_bool ? v & 1 : v);
}

static void int_element(const EvalCtx *c, const EvalWalk *w, int64_t i)
{
    int64_t v[EVAL_WALK_MAX] = {0};
    for (uint32_t k = 0; k < w->n; k++)
        v[k] = tensor_get_i64(&c->in[k], w->offset[k]);
    set_integer(&c->out[0], i, i64_meaning[c->node->op](v[0], v[1], v[2]));
}

static void uint_element(const EvalCtx *c, const EvalWalk *w, int64_t i)
{
    uint64_t v[EVAL_WALK_MAX] = {0};
    for (uint32_t k = 0; k < w->n; k++)
        v[k] = (uint64_t)tensor_get_i64(&c->in[k], w->offset[k]);
    set_integer(&c->out[0], i, (int64_t)u64_meaning[c->node->op](v[0], v[1], v[2]));
}

static const ElementFn element_fns[] = {
    [DCLASS_FLOAT] = float_element,
    [DCLASS_INT] = int_element,
    [DCLASS_UINT] = uint_element,
    [DCLASS_BOOL] = uint_element,
};

bool eval_elementwise(EvalCtx *c)
{
    const Tensor *out = &c->out[0];
    const OpInfo *info = &op_info[c->node->op];
    const DType t = c->in[info->ew == EW_SEL ? 1 : 0].dtype;
    const ElementFn element = element_fns[dtype_info[t].cls];
    EvalWalk w = {.rank = out->rank, .n = c->node->n_src, .dim = out->dim};
    rlx_assert(w.n <= EVAL_WALK_MAX);
    for (uint32_t k = 0; k < w.n; k++)
        eval_broadcast_strides(&c->in[k], out->rank, w.stride[k]);
    for (int64_t i = 0; i < out->numel; i++, eval_walk_next(&w))
        element(c, &w, i);
    return true;
}
