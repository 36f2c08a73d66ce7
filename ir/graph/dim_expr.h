// SPDX-License-Identifier: Apache-2.0
// Inside of symbolic dims, for the dim_*.c files. An expression is an atom (a symbol, or a division,
// remainder, minimum or maximum of two dims) or a sum: a constant plus integer coefficients times products of
// atoms. Terms and factors are sorted by structure, not by age, so that the order does not depend on how a
// table was filled.
#ifndef IR_GRAPH_DIM_EXPR_H
#define IR_GRAPH_DIM_EXPR_H

#include "ir/graph/dim.h"

// Beyond these an expression is unknown. DIM_MAX_SIZE counts it written out as a tree, so it bounds every
// recursion.
enum { DIM_MAX_TERMS = 128, DIM_MAX_FACTORS = 8, DIM_MAX_SIZE = 1024 };

typedef enum DimKind {
    DIM_SYMBOL,
    DIM_FLOOR_DIV,
    DIM_MOD,
    DIM_MIN,
    DIM_MAX,
    DIM_SUM,
    DIM_UNKNOWN,
    DIM_KIND_COUNT
} DimKind;

typedef struct DimTerm {
    int64_t coef; // not 0
    uint32_t n;   // factors, at least 1
    Dim atom[DIM_MAX_FACTORS];
} DimTerm;

struct DimExpr {
    DimKind kind;
    uint32_t size;
    uint32_t symbol;  // DIM_SYMBOL
    Dim a, b;         // DIM_FLOOR_DIV .. DIM_MAX
    int64_t constant; // DIM_SUM
    uint32_t n_terms;
    const DimTerm *terms;
};

// A sum under construction. is_over: it left the limits, and will be unknown.
typedef struct DimSum {
    int64_t constant;
    uint32_t n;
    bool is_over;
    DimTerm term[DIM_MAX_TERMS];
} DimSum;

// The name of expression i is DIM_TAG + i: far below DIM_SYMBOLIC_BELOW, and far from INT64_MIN and other
// numbers that stand in files. A number that came past dim_from_size ends in the assertion.
#define DIM_TAG (INT64_MIN + (INT64_C(0x1d1a5b3d) << 32))

static inline const DimExpr *dim_expr(const DimTable *t, Dim d)
{
    rlx_assert(!dim_is_const(d) && dim_is_valid(t, d));
    return t->exprs.data[d - DIM_TAG];
}

// Constants stay well inside of int64, so that sums of two never wrap into the range of expressions.
static inline bool dim_fits(int64_t v)
{
    return v > DIM_SYMBOLIC_BELOW && v < -DIM_SYMBOLIC_BELOW;
}

Dim dim_unknown(DimTable *t);
// The dim of a constant, unknown when that does not fit.
Dim dim_constant(DimTable *t, int64_t v);
Dim dim_atom(DimTable *t, DimKind kind, Dim a, Dim b);
// A total order by structure; 0 only for equal dims.
int dim_compare(const DimTable *t, Dim a, Dim b);

void dim_sum_load(const DimTable *t, DimSum *s, Dim d);
void dim_sum_add_term(const DimTable *t, DimSum *s, const DimTerm *term);
Dim dim_sum_store(DimTable *t, const DimSum *s);

// Floor division and the remainder that goes with it; b > 0.
static inline int64_t dim_floor_div_int(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}
static inline int64_t dim_mod_int(int64_t a, int64_t b)
{
    return a % b < 0 ? a % b + b : a % b;
}

#endif
