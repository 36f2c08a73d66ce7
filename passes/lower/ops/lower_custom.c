// SPDX-License-Identifier: Apache-2.0
// custom: the text of the model, called for every element that it declares. What it does to its tensors the
// kernel IR does not see; it says only which they are.
#include "ir/graph/custom.h"
#include "passes/lower/operand.h"

typedef struct Call {
    Lower *l;
    CustomOp op;
    KCustom *custom;
} Call;

static void add_arg(Call *c, const char *name, uint32_t param, bool is_written)
{
    const KCustomArg arg = {name, param, is_written};
    vec_push(c->l->plan->arena, &c->custom->args, arg);
}

static void add_operands(Call *c, const Node *n)
{
    for (uint32_t i = 0; i < n->n_src; i++) {
        const Node *src = lower_node(c->l, n->src[i]);
        const TensorType t = {(DType)src->dtype, *src->shape};
        const char *name = c->op.operands.at[i].name;
        add_arg(c, name, lower_param_typed(c->l, &t, &c->l->pk->operands[i], name, PARAM_READ), false);
    }
}

// A result that nobody wants has memory all the same.
static void add_results(Call *c, const Node *n)
{
    for (uint32_t i = 0; i < n->n_results; i++) {
        const NodeId id = i == 0 ? c->l->anchor : lower_find_result(c->l, i);
        const CustomTensor *t = &c->op.results.at[i];
        const uint64_t bytes = n->n_results == 1 ? type_bytes((DType)n->dtype, n->shape)
                                                 : type_bytes(n->results[i].dtype, &n->results[i].shape);
        add_arg(c, t->name,
                id != 0 ? lower_param(c->l, id, PARAM_READ_WRITE)
                        : lower_param_scratch(c->l, t->name, t->dtype, bytes / dtype_info[t->dtype].bytes),
                true);
    }
}

static void add_scratch(Call *c)
{
    for (uint32_t i = 0; i < c->op.scratch.n; i++) {
        const CustomTensor *t = &c->op.scratch.at[i];
        uint64_t elements = 1;
        for (uint32_t k = 0; k < t->rank; k++) {
            Dim d = 0;
            const char *wrong = custom_size(c->l->g->dims, c->l->plan->arena, t->dim[k], &c->op.names, &d);
            rlx_assert(wrong == NULL && dim_is_const(d) && d >= 0);
            elements *= (uint64_t)d;
        }
        add_arg(c, t->name, lower_param_scratch(c->l, t->name, t->dtype, elements), true);
    }
}

void lower_custom(Lower *l)
{
    Kernel *k = l->k;
    const Node *n = lower_node(l, l->anchor);
    const AttrId text = custom_text_attr(l->caps->name);
    Arena *a = l->plan->arena;
    Call c = {.l = l, .custom = ARENA_NEW(a, KCustom)};
    rlx_assert(text < ATTR_COUNT);
    TensorType *types = ARENA_ARRAY(a, TensorType, n->n_src + 1u);
    for (uint32_t i = 0; i < n->n_src; i++)
        types[i] = (TensorType){(DType)lower_node(l, n->src[i])->dtype, *lower_node(l, n->src[i])->shape};
    const char *wrong = custom_read(l->g->dims, a, n->attr, n->n_src, types, &c.op);
    rlx_assert(wrong == NULL && text != ATTR_COUNT && dim_is_const(c.op.elements));
    c.custom->function = node_get_str(n, A_custom_function);
    c.custom->text = node_get_str(n, text);
    add_operands(&c, n);
    add_results(&c, n);
    add_scratch(&c);
    for (uint32_t i = 0; i < c.op.names.n; i++) {
        const CustomName *name = &c.op.names.at[i];
        const KCustomConstant v = {name->name, name->is_float, name->size, name->number};
        vec_push(a, &c.custom->constants, v);
    }
    k->custom = c.custom;
    if (c.op.elements == 1) {
        k_custom(k, k_index(k, 0));
        return;
    }
    k_custom(k, k_loop(k, c.op.elements, KFOR_PARALLEL, "i"));
    k_end(k);
}
