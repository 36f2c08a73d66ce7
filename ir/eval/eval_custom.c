// SPDX-License-Identifier: Apache-2.0
// The shape rule of custom ops, which their declaration gives, and their meaning for the reference evaluator,
// which whoever can compile C provides.
#include "ir/graph/custom.h"
#include "ir/eval/eval_ops.h"
#include "ir/shape/shape_rules.h"

// The largest number of times that a text runs: indices of GPUs have 32 bits.
#define CUSTOM_MAX_ELEMENTS INT64_C(0x7fffffff)

static const char *sizes_of(ShapeCtx *c, const CustomTensor *t, const CustomNames *names, Shape *out)
{
    *out = (Shape){.rank = t->rank};
    for (uint32_t i = 0; i < t->rank; i++) {
        const char *wrong = custom_size(c->g->dims, c->g->arena, t->dim[i], names, &out->dim[i]);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

// Nothing else looks at these sizes.
static const char *scratch_of(ShapeCtx *c, const CustomTensor *t, const CustomNames *names)
{
    Shape s;
    const char *wrong = sizes_of(c, t, names, &s);
    uint64_t count = 1;
    for (uint32_t i = 0; wrong == NULL && i < s.rank; i++) {
        if (!dim_is_const(s.dim[i]))
            continue;
        if (s.dim[i] < 0 || __builtin_mul_overflow(count, (uint64_t)s.dim[i], &count) ||
            count > (uint64_t)DIM_MAX_VALUE)
            wrong = arena_printf(c->g->arena, "axis %u of '%s' would have %lld elements", i, t->name,
                                 (long long)s.dim[i]);
    }
    return wrong;
}

bool shape_custom(ShapeCtx *c)
{
    const char *function = shape_attr(c, A_custom_function)->u.str;
    CustomOp op;
    Shape s;
    const char *wrong = custom_read(c->g->dims, c->g->arena, c->attr, c->n_src, c->in, &op);
    c->n_out = wrong == NULL ? op.results.n : 1;
    for (uint32_t i = 0; wrong == NULL && i < op.results.n; i++) {
        wrong = sizes_of(c, &op.results.at[i], &op.names, &s);
        rule_out(c, i, op.results.at[i].dtype, &s);
    }
    for (uint32_t i = 0; wrong == NULL && i < op.scratch.n; i++)
        wrong = scratch_of(c, &op.scratch.at[i], &op.names);
    if (wrong != NULL)
        return shape_fail(c, E0204, "custom op '%s': %s", function, wrong);
    if (dim_is_const(op.elements) && (op.elements < 0 || op.elements > CUSTOM_MAX_ELEMENTS))
        return shape_fail(c, E0208, "custom op '%s' would run %lld times", function, (long long)op.elements);
    return true;
}

bool eval_custom(EvalCtx *c)
{
    const EvalBudget *b = c->g->budget;
    if (b->custom == NULL)
        return eval_fail(c, E0403, "the custom op '%s' runs only where C can be compiled",
                         node_get_str(c->node, A_custom_function));
    return b->custom(b->custom_ctx, c);
}
