// SPDX-License-Identifier: Apache-2.0
// Shape rules of the ops that read quantised blocks: block_decode and block_matmul.
#include "ir/blocks.h"
#include "ir/shape_rules.h"

// The format that attribute `id` names, of operand `operand`: u8 with blocks along its last axis.
static const BlockFormat *rule_format(ShapeCtx *c, uint32_t operand, AttrId id)
{
    const char *name = shape_attr(c, id)->u.str;
    const BlockFormat *f = block_format(name);
    const Shape *s = &c->in[operand].shape;
    if (f == NULL) {
        shape_fail(c, E0203, "`%s` is \"%s\", which is no format of blocks", attr_info[id].name, name);
        return NULL;
    }
    if (c->in[operand].dtype != DTYPE_u8) {
        shape_fail(c, E0205, "operand %u must be of u8", operand);
        return NULL;
    }
    if (!rule_rank(c, operand, 2, SHAPE_MAX_RANK))
        return NULL;
    if (s->dim[s->rank - 1] != f->bytes) {
        shape_fail(c, E0204, "a block of %s has %u bytes, not %s", f->name, (unsigned)f->bytes,
                   rule_dim_text(c, s->dim[s->rank - 1]));
        return NULL;
    }
    if (!dim_is_const(s->dim[s->rank - 2]) || s->dim[s->rank - 2] > SHAPE_MAX_STEP) {
        shape_fail(c, E0207, "the number of blocks in a row must be constant, and not huge");
        return NULL;
    }
    return f;
}

bool shape_block_decode(ShapeCtx *c)
{
    const BlockFormat *f = rule_format(c, 0, A_block_decode_format);
    if (f == NULL)
        return false;
    Shape out = c->in[0].shape;
    out.rank--;
    out.dim[out.rank - 1] *= f->elements;
    rule_out(c, 0, DTYPE_f32, &out);
    return true;
}

bool shape_block_matmul(ShapeCtx *c)
{
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK) || !rule_rank(c, 1, 3, 3))
        return false;
    const BlockFormat *f = rule_format(c, 1, A_block_matmul_format);
    if (f == NULL)
        return false;
    Shape out = c->in[0].shape;
    const Shape *w = &c->in[1].shape;
    const Dim inner = out.dim[out.rank - 1];
    if (!shape_is_const(w) || !dim_is_const(inner))
        return shape_fail(c, E0207, "the weights and the last axis of operand 0 need constant sizes");
    if (w->dim[1] * f->elements != inner)
        return shape_fail(c, E0204, "%lld blocks of %s are not %lld elements", (long long)w->dim[1], f->name,
                          (long long)inner);
    out.dim[out.rank - 1] = w->dim[0];
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}
