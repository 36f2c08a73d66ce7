// SPDX-License-Identifier: Apache-2.0
// Dimensions: constants, or interned integer expressions over named symbols with [min, max] and multiple-of.
// A Dim is a plain int64: values above DIM_SYMBOLIC_BELOW are constants (also negative ones, as intermediate
// results), the others name an expression in the table, under a tag that no number has by accident. Equal
// expressions have equal Dims (canonical sums of products).
#ifndef IR_GRAPH_DIM_H
#define IR_GRAPH_DIM_H

#include "base/diag.h"
#include "base/map.h"
#include "base/str.h"
#include <limits.h>

typedef int64_t Dim;

#define DIM_SYMBOLIC_BELOW (-(INT64_C(1) << 62))
// Sizes that rlxc accepts for one dim and for the element count of one tensor.
#define DIM_MAX_VALUE (INT64_C(1) << 40)

typedef struct Symbol {
    const char *name;
    int64_t min, max; // 1 <= min <= max <= DIM_MAX_VALUE (min may be 0)
    int64_t multiple; // the value is a multiple of this; 1 = any
    bool has_dflt;
    int64_t dflt;     // the size taken when the user gives none
} Symbol;

typedef struct DimExpr DimExpr; // defined in dim.c

typedef struct DimTable {
    Arena *arena;
    VEC(Symbol) symbols;
    VEC(DimExpr *) exprs;
    Map interned;
} DimTable;

// Values of the symbols, by symbol index; negative = unknown. n may be less than the symbols of the table
// (then those are unknown).
typedef struct DimValues {
    const int64_t *value;
    uint32_t n;
} DimValues;

static inline bool dim_is_const(Dim d)
{
    return d > DIM_SYMBOLIC_BELOW;
}

// The only two ways from a number of a file, an option or a user's tensor to a Dim: any other number could be
// the name of an expression. A size is from 0 to DIM_MAX_VALUE, else false; an entry of a list (a slice's
// end, a pad) may be negative, and saturates at +-DIM_MAX_ENTRY, as good as infinite; dims have room for sums
// of them.
#define DIM_MAX_ENTRY (INT64_C(1) << 60)
static inline bool dim_from_size(int64_t v, Dim *out)
{
    const bool fits = v >= 0 && v <= DIM_MAX_VALUE;
    *out = fits ? v : 0;
    return fits;
}
static inline Dim dim_from_entry(int64_t v)
{
    return v > DIM_MAX_ENTRY ? DIM_MAX_ENTRY : v < -DIM_MAX_ENTRY ? -DIM_MAX_ENTRY : v;
}
// Whether d is a constant or names an expression of this table.
bool dim_is_valid(const DimTable *t, Dim d);

// The symbol of that name; made with the range if new (an existing one keeps its range).
Dim dim_symbol(DimTable *t, const char *name, int64_t min, int64_t max, int64_t multiple);
// Index of a symbol by name, or -1.
int32_t dim_find_symbol(const DimTable *t, const char *name);
// Gives a symbol that there is the size taken when the user gives none.
void dim_set_default(DimTable *t, const char *name, int64_t dflt);
// The symbol index when d is just one symbol, else -1.
int32_t dim_as_symbol(const DimTable *t, Dim d);

Dim dim_add(DimTable *t, Dim a, Dim b);
Dim dim_sub(DimTable *t, Dim a, Dim b);
Dim dim_mul(DimTable *t, Dim a, Dim b);
Dim dim_product(DimTable *t, const Dim *list, uint32_t n);
Dim dim_floor_div(DimTable *t, Dim a, Dim b); // b > 0
Dim dim_ceil_div(DimTable *t, Dim a, Dim b);  // b > 0
Dim dim_mod(DimTable *t, Dim a, Dim b);       // b > 0; result in [0, b)
Dim dim_min(DimTable *t, Dim a, Dim b);
Dim dim_max(DimTable *t, Dim a, Dim b);

// The smallest and largest value over the symbols' ranges (an enclosure; saturates at +-2^61).
void dim_range(const DimTable *t, Dim d, int64_t *min, int64_t *max);
// True for a size that cannot be told: a constant overflowed, a divisor was 0, or the expression grew beyond
// the limits of the table. Such a dim equals no other and never evaluates; graphs do not accept it.
bool dim_is_unknown(const DimTable *t, Dim d);
// False when a symbol that d needs is unknown, or on overflow.
bool dim_eval(const DimTable *t, Dim d, DimValues v, int64_t *out);
// Puts constants for the known symbols.
Dim dim_substitute(DimTable *t, Dim d, DimValues v);

// "seq", "2*seq + 1", "floor(seq / 2)", "min(a, b)", "mod(a, 4)"; parse reads all of it. parse: false = no
// message made, *error_at says where.
void dim_print(const DimTable *t, Dim d, Str *out);
// Unknown names become new symbols with range [1, DIM_MAX_VALUE] when may_add, else the parse fails.
typedef enum DimParse { DIM_KNOWN_ONLY, DIM_ADD_SYMBOLS } DimParse;
bool dim_parse(DimTable *t, const char *text, size_t len, DimParse mode, Dim *out, size_t *error_at);

#endif
