// SPDX-License-Identifier: Apache-2.0
// Custom ops: kernels that a model brings along as text (docs/CUSTOM.md). What the attributes of OP_custom
// say: tensors by name, with sizes by name; constants; how often the text runs. Read by the shape rule, the
// lowering and the importers.
#ifndef IR_GRAPH_CUSTOM_H
#define IR_GRAPH_CUSTOM_H

#include "ir/graph/graph.h"

enum { CUSTOM_MAX_TENSORS = 24, CUSTOM_MAX_NAMES = 96 };

// "x: f32[n, k]"
typedef struct CustomTensor {
    const char *name;
    DType dtype;
    uint32_t rank;
    const char *dim[SHAPE_MAX_RANK]; // expressions
} CustomTensor;

typedef struct CustomTensors {
    uint32_t n;
    CustomTensor at[CUSTOM_MAX_TENSORS];
} CustomTensors;

// Sizes, and constants of the declaration: what the text finds by name. number: of floats; size: of others.
typedef struct CustomName {
    const char *name;
    bool is_float;
    Dim size;
    double number;
} CustomName;

typedef struct CustomNames {
    uint32_t n;
    CustomName at[CUSTOM_MAX_NAMES];
} CustomNames;

// "x: f32[n, k]; w: f32[k]", or "". Returns NULL, or what is wrong, in the arena.
const char *custom_read_tensors(Arena *a, const char *text, CustomTensors *out);
// "alpha = 0.5; taps = 3", or "": a number with '.' or 'e' is a float. Adds them.
const char *custom_read_constants(Arena *a, const char *text, CustomNames *out);
// The size that an expression gives: names are those of `names` (no floats); t: of the graph.
const char *custom_size(DimTable *t, Arena *a, const char *text, const CustomNames *names, Dim *out);
// Sizes of an operand against its declaration: a name that is new is taken from the operand, all else must be
// equal.
const char *custom_match(DimTable *t, Arena *a, const CustomTensor *tensor, const Shape *s,
                         CustomNames *names);
bool custom_is_name(const char *text);
// What is wrong with the text of a kernel in a language (A_custom_c ...): what could make a compiler read
// files, or a brace that closes what it did not open. "" is right.
const char *custom_check_text(Arena *a, AttrId language, const char *text);

// All that a node says, with its sizes. Operands must fit already where there are any.
typedef struct CustomOp {
    CustomTensors operands, results, scratch;
    CustomNames names;
    Dim elements;
} CustomOp;
// types: of the operands. Checks also that no two names are equal.
const char *custom_read(DimTable *t, Arena *a, const AttrVal *attr, uint32_t n_src, const TensorType *types,
                        CustomOp *out);
// Attributes that hold the text for a target by the name of its capabilities ("c", "cuda" ...); ATTR_COUNT:
// there is none.
AttrId custom_text_attr(const char *target);

#endif
