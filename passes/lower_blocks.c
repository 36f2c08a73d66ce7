// SPDX-License-Identifier: Apache-2.0
// Quantised blocks: block_decode, and the products with blocks as plain sums. Accumulation: fused
// multiply-adds of decoded elements in rising k, in f32 (f64 for f64).
#include "passes/blocks_team.h"
#include "passes/experts.h"
#include "passes/operand.h"

// --- decoding ------------------------------------------------------------------------------------

void lower_block_decode(Lower *l)
{
    Kernel *k = l->k;
    const Node *n = lower_node(l, l->anchor);
    const BlockFormat *f = block_format(node_get_str(n, A_block_decode_format));
    const BlockReader r = blocks_reader(l, f, n->src[0]);
    const uint32_t last = n->shape->rank - 1;
    Domain d = domain_of(lower_node(l, l->root)->shape);
    domain_trim(l, &d, l->root);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &d, last, &at);
    const KRef b = k_for(k, k_index(k, 0), k_index(k, d.extent[last] / f->elements), 1, KFOR_PARALLEL, "b");
    KRef idx[SHAPE_MAX_RANK] = {0};
    for (uint32_t i = 0; i < last; i++)
        idx[i] = at.idx[i];
    idx[last] = b;
    idx[last + 1] = k_index(k, 0);
    const KRef block = operand_index(l, n->src[0], idx);
    const KRef g = k_for(k, k_index(k, 0), k_index(k, f->elements / f->group), 1, KFOR_SERIAL, "g");
    const BlockGroup group = blocks_group(k, &r, block, g);
    const KRef i = k_for(k, k_index(k, 0), k_index(k, f->group), 1, KFOR_SERIAL, "i");
    const KRef e = k_mul_add(k, g, f->group, i);
    at.idx[last] = k_mul_add(k, b, f->elements, e);
    pull_store_root(l, &d, at, blocks_value(k, &r, &group, block, e));
    k_end(k);
    k_end(k);
    k_end(k);
    lower_close(l, opened);
}

// --- products ------------------------------------------------------------------------------------

// What a plain sum reads.
typedef struct PlainSum {
    const BlockProduct *p;
    BlockReader r;
} PlainSum;

void block_product_plain(Lower *l, const BlockProduct *p, const BlockReader *r, Point at, KRef e, KRef acc)
{
    const BlockFormat *f = r->f;
    const KRef column = at.idx[p->d.rank - 1];
    Kernel *k = l->k;
    const int type = k_inst(k, acc)->dtype;
    const KRef b = k_for(k, k_index(k, 0), k_index(k, p->inner / f->elements), 1, KFOR_SERIAL, "b");
    const KRef idx[4] = {e, column, b, k_index(k, 0)};
    const KRef block = operand_index(l, p->w, p->index ? idx : idx + 1);
    const KRef g = k_for(k, k_index(k, 0), k_index(k, f->elements / f->group), 1, KFOR_SERIAL, "g");
    const BlockGroup group = blocks_group(k, r, block, g);
    const KRef i = k_for(k, k_index(k, 0), k_index(k, f->group), 1, KFOR_SERIAL, "i");
    const KRef element = k_mul_add(k, g, f->group, i);
    const KRef value = k_cast(k, blocks_value(k, r, &group, block, element), type);
    at.idx[lower_node(l, p->x)->shape->rank - 1] = k_mul_add(k, b, f->elements, element);
    const KRef x = operand_scalar(l, p->x, operand_index(l, p->x, at.idx), type);
    k_set(k, acc, k_op(k, KOP_fma, x, value, k_get(k, acc)));
    k_end(k);
    k_end(k);
    k_end(k);
}

static KRef sum_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const PlainSum *s = ctx;
    const BlockProduct *p = s->p;
    Kernel *k = l->k;
    const int dtype = lower_node(l, p->x)->dtype, type = operand_sum_type(dtype);
    const KRef acc = k_var(k, k_number(k, type, 0), "acc");
    (void)d;
    if (p->index == 0) {
        block_product_plain(l, p, &s->r, at, 0, acc);
        return k_cast(k, k_get(k, acc), dtype);
    }
    const KRef e = block_expert(l, p->index, at.idx, p->experts);
    k_if(k, block_is_expert(k, e, p->experts));
    block_product_plain(l, p, &s->r, at, e, acc);
    k_end(k);
    return k_cast(k, k_get(k, acc), dtype);
}

KRef block_expert(Lower *l, NodeId index, const KRef *idx, int64_t experts)
{
    return operand_clamped(l, index, operand_index(l, index, idx), -1, experts);
}

KRef block_is_expert(Kernel *k, KRef e, int64_t experts)
{
    return k_op(k, KOP_and, k_op(k, KOP_le, k_index(k, 0), e, 0), k_op(k, KOP_lt, e, k_index(k, experts), 0),
                0);
}

static void lower_product(Lower *l, AttrId format, NodeId index)
{
    const Node *n = lower_node(l, l->anchor);
    const BlockFormat *f = block_format(node_get_str(n, format));
    const Shape *x = lower_node(l, n->src[0])->shape, *w = lower_node(l, n->src[1])->shape;
    BlockProduct p = {.x = n->src[0],
                      .w = n->src[1],
                      .index = index,
                      .f = f,
                      .inner = x->dim[x->rank - 1],
                      .columns = w->dim[w->rank - 3],
                      .experts = index ? w->dim[0] : 1,
                      .d = domain_of(lower_node(l, l->root)->shape)};
    p.rows = p.inner > 0 ? shape_numel(x) / p.inner : 0;
    domain_trim(l, &p.d, l->root);
    domain_add(l, &p.d, l->root);
    domain_add_operands(l, &p.d, l->root);
    l->pk->macs = (uint64_t)shape_numel(n->shape) * (uint64_t)p.inner;
    if (index != 0)
        experts_note_rows(l, index, p.experts, &p.d, x->rank == lower_node(l, index)->shape->rank);
    if (block_product_vectors(l, &p) || block_mma_product(l, &p) || block_tile_product(l, &p) ||
        block_team_product(l, &p))
        return;
    PlainSum sum = {.p = &p, .r = blocks_reader(l, f, p.w)};
    lower_map(l, sum_point, &sum, MAP_SCALAR);
}

void lower_block_matmul(Lower *l)
{
    lower_product(l, A_block_matmul_format, 0);
}

void lower_block_grouped_matmul(Lower *l)
{
    lower_product(l, A_block_grouped_matmul_format, lower_node(l, l->anchor)->src[2]);
}
