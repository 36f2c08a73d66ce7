// SPDX-License-Identifier: Apache-2.0
// Shape rules of the ops that read quantised blocks, and of the products with group-affine weights.
#include "ir/graph/blocks.h"
#include "ir/shape/shape_rules.h"

// The format that attribute `id` names, of operand `operand`: u8 with blocks along its last axis.
static const BlockFormat *rule_format(ShapeCtx *c, uint32_t operand, AttrId id)
{
    const char *name = shape_attr(c, id)->u.str;
    const BlockFormat *f = block_format(c->g->arena, name);
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

bool shape_block_gather(ShapeCtx *c)
{
    const BlockFormat *f = rule_format(c, 0, A_block_gather_format);
    const Shape *x = &c->in[0].shape;
    Shape out = c->in[1].shape;
    if (f == NULL || !rule_rank(c, 0, 3, 3) || !rule_rank(c, 1, 0, SHAPE_MAX_RANK - 1))
        return false;
    if (!(CLS_INT >> dtype_info[c->in[1].dtype].cls & 1))
        return shape_fail(c, E0205, "operand 1 must be of an integer type");
    if (!shape_is_const(x) || x->dim[0] < 1)
        return shape_fail(c, E0207, "operand 0 needs constant sizes, and at least one row");
    out.dim[out.rank++] = x->dim[1] * f->elements;
    rule_out(c, 0, DTYPE_f32, &out);
    return true;
}

// Blocks of operand 1 hold rows as long as those of operand 0.
static const BlockFormat *rule_block_rows(ShapeCtx *c, AttrId id, uint32_t rank)
{
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK) || !rule_rank(c, 1, rank, rank))
        return NULL;
    const BlockFormat *f = rule_format(c, 1, id);
    if (f == NULL)
        return NULL;
    const Shape *x = &c->in[0].shape, *w = &c->in[1].shape;
    const Dim inner = x->dim[x->rank - 1];
    if (!shape_is_const(w) || !dim_is_const(inner))
        shape_fail(c, E0207, "the weights and the last axis of operand 0 need constant sizes");
    else if (w->dim[rank - 2] * f->elements != inner)
        shape_fail(c, E0204, "%lld blocks of %s are not %lld elements", (long long)w->dim[rank - 2], f->name,
                   (long long)inner);
    else
        return f;
    return NULL;
}

// The rows of the result: those of operand 0, with a column for each row of operand 1.
static bool out_of_rows(ShapeCtx *c)
{
    Shape out = c->in[0].shape;
    out.dim[out.rank - 1] = c->in[1].shape.dim[0];
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_block_matmul(ShapeCtx *c)
{
    return rule_block_rows(c, A_block_matmul_format, 3) != NULL && out_of_rows(c);
}

// The rows of the result: those of the index, with the columns of an expert.
static bool out_of_experts(ShapeCtx *c)
{
    if (!rule_experts(c))
        return false;
    Shape out = c->in[2].shape;
    out.dim[out.rank++] = c->in[1].shape.dim[1];
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_block_grouped_matmul(ShapeCtx *c)
{
    return rule_block_rows(c, A_block_grouped_matmul_format, 4) != NULL && out_of_experts(c);
}

// --- groups --------------------------------------------------------------------------------------

typedef struct GroupAttrs {
    AttrId bits, per_word;
} GroupAttrs;

// How many u32, or bytes of a group, there have to be. 0: reported.
static int64_t packed_size(ShapeCtx *c, bool is_words, int64_t bits, int64_t per_word, const int64_t *each)
{
    const int64_t inner = each[0], group = each[1];
    if (bits != 4 && bits != 6 && bits != 8)
        return shape_fail(c, E0203, "`bits` is %lld, expected 4, 6 or 8", (long long)bits);
    if (per_word < 0 || per_word > 32 / bits || (per_word > 0 && !is_words))
        return shape_fail(c, E0203, "`per_word` is %lld, expected 0, or 1 to %lld with weights of u32",
                          (long long)per_word, (long long)(32 / bits));
    if (per_word > 0)
        return (inner + per_word - 1) / per_word;
    if ((is_words ? inner : group) * bits % 8 != 0)
        return shape_fail(c, E0204, "%lld elements of %lld bits are no whole bytes",
                          (long long)(is_words ? inner : group), (long long)bits);
    return is_words ? (inner * bits + 31) / 32 : group * bits / 8;
}

// Weights: bytes [.., columns, groups, bytes of a group] or words [.., columns, words]; scale and bias [..,
// columns, groups] are operands `first` and the one behind it. leading: axes before the columns.
static bool check_groups(ShapeCtx *c, GroupAttrs attrs, uint32_t leading, uint32_t first)
{
    const int64_t bits = shape_attr(c, attrs.bits)->u.i, per_word = shape_attr(c, attrs.per_word)->u.i;
    const bool is_words = c->in[1].dtype == DTYPE_u32;
    const uint32_t rank = leading + (is_words ? 2 : 3);
    const Shape *x = &c->in[0].shape, *w = &c->in[1].shape, *s = &c->in[first].shape;
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK))
        return false;
    if (!is_words && c->in[1].dtype != DTYPE_u8)
        return shape_fail(c, E0205, "operand 1 must be of u8 or u32");
    if (!rule_rank(c, 1, rank, rank) || !rule_rank(c, first, leading + 2, leading + 2) ||
        !rule_rank(c, first + 1, leading + 2, leading + 2))
        return false;
    const DType type = c->in[first].dtype;
    if ((type != DTYPE_f16 && type != DTYPE_bf16 && type != DTYPE_f32) || c->in[first + 1].dtype != type)
        return shape_fail(c, E0205, "operands %u and %u must be of f16, bf16 or f32, both of one", first,
                          first + 1);
    const Dim inner = x->dim[x->rank - 1], groups = s->dim[leading + 1];
    if (!shape_is_const(w) || !shape_is_const(s) || !dim_is_const(inner))
        return shape_fail(c, E0207, "the weights and the last axis of operand 0 need constant sizes");
    for (uint32_t i = 0; i < leading + 2; i++)
        if (!rule_dims_equal(c, s->dim[i], c->in[first + 1].shape.dim[i], "scale and bias:") ||
            (i <= leading && !rule_dims_equal(c, s->dim[i], w->dim[i], "scale and weights:")))
            return false;
    if (inner < 1 || inner > SHAPE_MAX_STEP || groups < 1 || inner % groups != 0)
        return shape_fail(c, E0204, "%lld elements are not %lld groups of one size", (long long)inner,
                          (long long)groups);
    const int64_t each[2] = {inner, inner / groups}, last = w->dim[rank - 1];
    const int64_t size = packed_size(c, is_words, bits, per_word, each);
    if (size == 0)
        return false;
    if (last != size || (!is_words && w->dim[rank - 2] != groups))
        return shape_fail(c, E0204, "%s does not hold %lld elements of %lld bits", rule_shape_text(c, w),
                          (long long)inner, (long long)bits);
    return true;
}

bool shape_affine_matmul(ShapeCtx *c)
{
    const GroupAttrs attrs = {A_affine_matmul_bits, A_affine_matmul_per_word};
    return check_groups(c, attrs, 0, 2) && out_of_rows(c);
}

bool shape_affine_grouped_matmul(ShapeCtx *c)
{
    const GroupAttrs attrs = {A_affine_grouped_matmul_bits, A_affine_grouped_matmul_per_word};
    return check_groups(c, attrs, 1, 3) && out_of_experts(c);
}
