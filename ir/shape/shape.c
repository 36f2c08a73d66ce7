// SPDX-License-Identifier: Apache-2.0
// The driver of the shape rules, the table that finds them by name, the rule of all elementwise ops and of
// `if`. The rules of the structural ops are in shape_*.c, by kind of op.
#include "ir/shape/shape_rules.h"

typedef bool (*ShapeRule)(ShapeCtx *c);

static bool shape_elementwise(ShapeCtx *c);

static const ShapeRule rules[OP_COUNT] = {
#define EW(name, ...)           [OP_##name] = shape_elementwise,
#define OP(name, shape, ...)    [OP_##name] = shape_##shape,
#define SUGAR(name, shape, ...) [OP_##name] = shape_##shape,
#include "ir/graph/ops.def"
};

// The builder has checked the counts of operands and that the required ones are there; in a list every one is
// required.
static bool check_list(ShapeCtx *c)
{
    for (uint32_t i = 0; i < c->n_src && op_info[c->op].max_src == 255; i++)
        if (c->src[i] == 0)
            return shape_fail(c, E0202, "operand %u is missing", i);
    return true;
}

// The builder checks constant sizes; a symbolic one that no value of its symbols makes valid is an error as
// well.
static bool check_result(ShapeCtx *c, const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t lo, hi;
        dim_range(c->g->dims, s->dim[i], &lo, &hi);
        if (hi < 0)
            return shape_fail(c, E0204, "axis %u would have the negative size %s", i,
                              rule_dim_text(c, s->dim[i]));
    }
    return true;
}

bool shape_infer(ShapeCtx *c)
{
    rlx_assert(c->op < OP_COUNT && rules[c->op] != NULL);
    if (!check_list(c) || !rules[c->op](c))
        return false;
    rlx_assert(c->n_out >= 1 && c->n_out <= NODE_MAX_RESULTS);
    for (uint32_t i = 0; i < c->n_out; i++)
        if (!check_result(c, &c->out[i].shape))
            return false;
    return true;
}

AttrVal *shape_attr(ShapeCtx *c, AttrId id)
{
    for (uint32_t i = 0; i < c->n_attr; i++)
        if (c->attr[i].id == id)
            return &c->attr[i];
    diag_bug(__FILE__, __LINE__, attr_info[id].name);
}

// Operand types that a message lists; more are cut.
enum { MESSAGE_MAX_TYPES = 6 };

// "matmul: f32[2, 4] x f32[5, 3]: "
static void print_operands(ShapeCtx *c, Str *s)
{
    uint32_t shown = 0;
    str_printf(s, "%s: ", op_info[c->op].name);
    for (uint32_t i = 0; i < c->n_src && shown <= MESSAGE_MAX_TYPES; i++) {
        if (c->src[i] == 0)
            continue;
        str_add(s, shown > 0 ? " x " : "");
        if (shown++ == MESSAGE_MAX_TYPES)
            str_add(s, "...");
        else
            shape_print(c->g->dims, c->in[i].dtype, &c->in[i].shape, s);
    }
    str_add(s, shown > 0 ? ": " : "");
}

bool shape_fail(ShapeCtx *c, DiagCode code, const char *fmt, ...)
{
    Str s = str_new(c->g->arena);
    print_operands(c, &s);
    va_list args;
    va_start(args, fmt);
    str_add(&s, arena_vprintf(c->g->arena, fmt, args));
    va_end(args);
    return diag_error(c->g->diag, c->span, code, "%s", str_text(&s));
}

bool shape_broadcast(DimTable *t, const Shape *a, const Shape *b, Shape *out)
{
    (void)t;
    const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    Shape r = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        const Dim x = i < a->rank ? a->dim[a->rank - 1 - i] : 1;
        const Dim y = i < b->rank ? b->dim[b->rank - 1 - i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        r.dim[rank - 1 - i] = x == 1 ? y : x;
    }
    *out = r;
    return true;
}

static const unsigned ew_classes[] = {
    [EW_NONE] = 0,          [EW_ARITH] = CLS_FLOAT | CLS_INT,
    [EW_FLOAT] = CLS_FLOAT, [EW_INTS] = CLS_INT | CLS_BOOL,
    [EW_LOGIC] = CLS_BOOL,  [EW_CMP] = CLS_FLOAT | CLS_INT | CLS_BOOL,
    [EW_TEST] = CLS_FLOAT,  [EW_SEL] = CLS_FLOAT | CLS_INT | CLS_BOOL,
};

static bool shape_elementwise(ShapeCtx *c)
{
    const EwClass cls = op_info[c->op].ew;
    DType t = c->in[0].dtype;
    if (cls == EW_SEL) {
        t = c->in[1].dtype;
        if (c->in[0].dtype != DTYPE_bool)
            return shape_fail(c, E0205, "operand 0 must be bool");
        if (c->in[2].dtype != t)
            return shape_fail(c, E0205, "operands 1 and 2 have different element types");
    } else if (!rule_dtypes(c, ew_classes[cls], c->n_src)) {
        return false;
    }
    Shape s = c->in[0].shape;
    for (uint32_t i = 1; i < c->n_src; i++)
        if (!shape_broadcast(c->g->dims, &s, &c->in[i].shape, &s))
            return shape_fail(
                c, E0204, "the shapes do not broadcast: aligned at the last axis, sizes must be equal or 1");
    rule_out(c, 0, cls == EW_CMP || cls == EW_TEST ? DTYPE_bool : t, &s);
    return true;
}
