// SPDX-License-Identifier: Apache-2.0
// Pulling the value of a node at a point: elementwise nodes are computed, all else is loaded. See lower.h.
#include "ir/graph/tensor.h"
#include "passes/lower/operand.h"

bool pull_is_computed(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    return id != l->anchor && op_is_pointwise((OpId)n->op) && lower_is_in_body(l, id);
}

bool pull_is_immediate(const Lower *l, NodeId id)
{
    return node_is_scalar_const(l->g, id, NULL);
}

// Types that vectors compute with.
static bool is_vector_type(int type)
{
    return type == DTYPE_f32 || type == DTYPE_i32 || type == DTYPE_bool || k_is_half(type);
}

bool pull_is_vector(const Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    if (n->op == OP_cast)
        return k_casts_vectors(lower_node(l, n->src[0])->dtype, n->dtype);
    if (op_info[n->op].kind != OPKIND_EW)
        return (op_info[n->op].steps == OPSTEPS_FILTER && n->dtype == DTYPE_i32) ||
               (n->op != OP_bitcast && (n->dtype == DTYPE_f32 || k_is_half(n->dtype)));
    bool is_wide = is_vector_type(n->dtype);
    for (uint32_t i = 0; i < n->n_src; i++)
        is_wide = is_wide && is_vector_type(lower_node(l, n->src[i])->dtype);
    return is_wide;
}

Pull pull_at(Lower *l, const Domain *d, Point at)
{
    rlx_assert(d->rank <= SHAPE_MAX_RANK && point_is_sound(&at));
    Pull p = {.l = l, .d = d, .at = at};
    for (uint32_t i = 0; i < l->pk->body.len; i++)
        vec_push(l->pass->scratch, &p.memo, (KRef)0);
    return p;
}

KRef pull_index(Pull *p, NodeId id)
{
    const Access *a = domain_access(p->d, id, p->space);
    rlx_assert(a != NULL);
    KRef index = lower_base(p->l, id);
    for (uint32_t i = 0; i < p->d->rank; i++)
        if (a->stride[i] != 0)
            index = k_expr(p->l->k, "$ * # + $", p->at.idx[i], a->stride[i], index);
    return index;
}

static KRef pull_register(const Pull *p, NodeId id)
{
    const Lower *l = p->l;
    for (uint32_t i = 0; p->at.slot != 0 && i < l->wide.n_registers; i++)
        if (l->wide.registers[i].node == id && l->wide.registers[i].space == p->space)
            return k_aload(l->k, l->wide.registers[i].array, p->at.slot, 1);
    return 0;
}

static KRef pull_load(Pull *p, NodeId id)
{
    const KRef held = pull_register(p, id);
    if (held != 0)
        return held;
    const Access *a = domain_access(p->d, id, p->space);
    rlx_assert(a != NULL);
    rlx_assert(p->at.lanes == 1 || p->at.vec_axis < p->d->rank);
    const KRef index = pull_index(p, id);
    const uint32_t narrow = lower_param_narrow(p->l, id);
    if (narrow != 0)
        return k_cast(p->l->k, k_load(p->l->k, narrow - 1, index, 1, 1), DTYPE_i64);
    const bool is_vector = p->at.lanes > 1 && a->stride[p->at.vec_axis] != 0;
    if (is_vector && a->stride[p->at.vec_axis] == 2)
        return operand_even_lanes(p->l, id, index, p->at.lanes, p->at.count);
    return operand_lanes(p->l, id, index, is_vector ? p->at.lanes : 1, is_vector ? p->at.count : 1);
}

static KRef *memo_of(Pull *p, NodeId id)
{
    for (uint32_t i = 0; i < p->l->pk->body.len; i++)
        if (p->l->pk->body.data[i] == id)
            return &p->memo.data[i];
    return NULL;
}

static KRef immediate(Lower *l, NodeId id)
{
    const Node *n = lower_node(l, id);
    double v = 0;
    if (dtype_info[n->dtype].cls == DCLASS_FLOAT) {
        node_is_scalar_const(l->g, id, &v);
        return k_number(l->k, n->dtype, v);
    }
    const Tensor t = tensor_of_const(l->g, id);
    return k_integer(l->k, n->dtype, tensor_get_i64(&t, 0));
}

// Two truths as numbers: C leaves the second one of && and || out, so that compilers make no vectors of them.
static KRef joined_truths(Kernel *k, KOp op, KRef a, KRef b)
{
    const KRef both = k_op(k, op, k_cast(k, a, DTYPE_u8), k_cast(k, b, DTYPE_u8), 0);
    return k_cast(k, both, DTYPE_bool);
}

static KRef apply(Lower *l, const Node *n, const KRef *src, int type)
{
    const KRef v = k_form(l->k, op_info[n->op].kernel, src, type);
    const KInst i = *k_inst(l->k, v);
    const bool joins = i.kind == KI_op && (i.kop == KOP_and || i.kop == KOP_or) && i.dtype == DTYPE_bool;
    const bool has_vectors = caps_have_vectors(l->caps);
    return joins && has_vectors && i.lanes == 1 ? joined_truths(l->k, (KOp)i.kop, i.a, i.b) : v;
}

// Depth is bounded by the size of a group.
KRef pull_value(Pull *p, NodeId id)
{
    rlx_assert(id != 0);
    Lower *l = p->l;
    if (id == p->given)
        return p->given_value;
    if (id == p->other.id)
        return p->other.value;
    if (pull_is_immediate(l, id))
        return immediate(l, id);
    if (!pull_is_computed(l, id))
        return pull_load(p, id);
    if (lower_is_unmasked(l, id))
        return pull_value(p, lower_node(l, id)->src[1]);
    KRef *memo = memo_of(p, id);
    rlx_assert(memo != NULL);
    if (*memo != 0)
        return *memo;
    const Node *n = lower_node(l, id);
    KRef src[3] = {0};
    rlx_assert(n->n_src >= 1 && n->n_src <= 3);
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = pull_value(p, n->src[i]);
    const int type = lower_node(l, n->src[n->n_src - 1])->dtype;
    *memo = n->op == OP_cast      ? k_cast(l->k, src[0], n->dtype)
            : n->op == OP_bitcast ? k_bitcast(l->k, src[0], n->dtype)
                                  : apply(l, n, src, type);
    return *memo;
}

void lower_store(Lower *l, uint32_t param, KRef index, KRef value, const Point *at)
{
    rlx_assert(value != 0 && at->count >= 1 && at->count <= at->lanes);
    rlx_assert(point_is_sound(at));
    if (at->slot != 0 && l->wide.collected != 0) {
        k_astore(l->k, l->wide.collected, at->lane, value);
        return;
    }
    if (at->lanes > 1 && k_inst(l->k, value)->lanes == 1)
        value = k_splat(l->k, value, at->lanes);
    k_store(l->k, param, index, value, at->count);
}

// Sums of 16-bit floats are f32: what the epilogue reads is rounded, as it would be behind a store.
static KRef rounded_anchor(Lower *l, KRef value)
{
    const int type = l->anchor != 0 ? lower_node(l, l->anchor)->dtype : (int)DTYPE_f32;
    const bool is_cast = value != 0 && k_inst(l->k, value)->kind == KI_cast;
    if (value == 0 || l->root == l->anchor || is_cast || (type != DTYPE_f16 && type != DTYPE_bf16))
        return value;
    return k_cast(l->k, k_cast(l->k, value, DTYPE_f32), type);
}

static Pull pull_of_root(Lower *l, const Domain *d, Point at, KRef anchor_value)
{
    Pull p = pull_at(l, d, at);
    p.space = d->has_out_space ? SPACE_OUT : SPACE_IN;
    p.given = l->anchor;
    p.given_value = rounded_anchor(l, anchor_value);
    return p;
}

KRef pull_root(Lower *l, const Domain *d, Point at, KRef anchor_value)
{
    return pull_root_given(l, d, at, anchor_value, &(Given){0});
}

KRef pull_root_given(Lower *l, const Domain *d, Point at, KRef anchor_value, const Given *other)
{
    Pull p = pull_of_root(l, d, at, anchor_value);
    p.other = (Given){other->id, rounded_anchor(l, other->value)};
    return pull_value(&p, l->root);
}

void pull_store_root(Lower *l, const Domain *d, Point at, KRef anchor_value)
{
    pull_store_given(l, d, at, anchor_value, &(Given){0});
}

// Masks of lanes have no form in memory: truths are stored as bytes.
static void store_mask(Lower *l, KRef index, KRef mask, const Point *at)
{
    Kernel *k = l->k;
    const uint32_t bytes = lower_param_words_at(l, l->root, lower_loc(l, l->root), DTYPE_u8, PARAM_WRITE);
    const KRef one = k_splat(k, k_integer(k, DTYPE_i32, 1), at->lanes),
               zero = k_splat(k, k_integer(k, DTYPE_i32, 0), at->lanes);
    const KRef all = k_inst(k, mask)->lanes == 1 ? k_splat(k, mask, at->lanes) : mask;
    lower_store(l, bytes, index, k_cast(k, k_select(k, all, one, zero), DTYPE_u8), at);
}

void pull_store_given(Lower *l, const Domain *d, Point at, KRef anchor_value, const Given *other)
{
    Pull p = pull_of_root(l, d, at, anchor_value);
    p.other = (Given){other->id, rounded_anchor(l, other->value)};
    const KRef value = pull_value(&p, l->root);
    rlx_assert(value != 0);
    if (at.lanes > 1 && lower_node(l, l->root)->dtype == DTYPE_bool)
        store_mask(l, pull_index(&p, l->root), value, &at);
    else
        lower_store(l, lower_param(l, l->root, PARAM_WRITE), pull_index(&p, l->root), value, &at);
}
