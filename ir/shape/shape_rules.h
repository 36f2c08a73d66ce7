// SPDX-License-Identifier: Apache-2.0
// What the files of shape rules share: the prototypes of all rules, by name from ops.def, and the checks that
// most rules begin with. Every check has reported the reason when it returns false. Private to ir/shape*.c.
#ifndef IR_SHAPE_SHAPE_RULES_H
#define IR_SHAPE_SHAPE_RULES_H

#include "ir/shape/shape.h"

#define OP(name, shape, ...)    bool shape_##shape(ShapeCtx *c);
#define SUGAR(name, shape, ...) bool shape_##shape(ShapeCtx *c);
#include "ir/graph/ops.def"

// The largest kernel size, stride, dilation, pad and group: with it no index arithmetic on them can overflow.
#define SHAPE_MAX_STEP INT64_C(0x7fffffff)

// Sets of element type classes.
enum {
    CLS_FLOAT = 1 << DCLASS_FLOAT,
    CLS_INT = 1 << DCLASS_INT | 1 << DCLASS_UINT,
    CLS_BOOL = 1 << DCLASS_BOOL,
};

static inline bool rule_has(const ShapeCtx *c, uint32_t i)
{
    return i < c->n_src && c->src[i] != 0;
}
// The first operands up to `count` have one of the classes and the same element type as operand 0; absent
// ones are skipped.
bool rule_dtypes(ShapeCtx *c, unsigned classes, uint32_t count);
bool rule_rank(ShapeCtx *c, uint32_t operand, uint32_t min, uint32_t max);
// Makes the INT attribute an axis in [0, rank).
bool rule_axis(ShapeCtx *c, AttrId id, uint32_t rank, uint32_t *axis);
// Makes every entry of the INTS attribute an axis in [0, rank); they must differ. *mask has their bits. The
// order is kept.
bool rule_axes(ShapeCtx *c, AttrId id, uint32_t rank, uint32_t *mask);
// Fills in an empty INTS attribute with n times dflt, and checks that it has n entries in [min,
// SHAPE_MAX_STEP].
bool rule_ints(ShapeCtx *c, AttrId id, uint32_t n, int64_t dflt, int64_t min);
void rule_set_ints(ShapeCtx *c, AttrId id, const int64_t *v, uint32_t n);
// Two dims that must be the same size.
bool rule_dims_equal(ShapeCtx *c, Dim a, Dim b, const char *what);
// Operand `operand` broadcasts to `to` without making it larger.
bool rule_broadcasts_to(ShapeCtx *c, uint32_t operand, const Shape *to);
// The text of a dim or a shape in the graph's arena, for messages.
const char *rule_dim_text(ShapeCtx *c, Dim d);
const char *rule_shape_text(ShapeCtx *c, const Shape *s);
// Operand 2 has the experts of the rows of operand 0: the leading axes of that, or one more.
bool rule_experts(ShapeCtx *c);
void rule_out(ShapeCtx *c, uint32_t i, DType t, const Shape *s);
// dim_min and dim_max that decide by the ranges where they can, so that canonical dims stay small.
Dim rule_min(DimTable *t, Dim a, Dim b);
Dim rule_max(DimTable *t, Dim a, Dim b);

#endif
