// SPDX-License-Identifier: Apache-2.0
// What ops.def says in words about every op, for those who print it: formula, operands, results, an example.
// Separate from the graph: no pass asks for it.
#ifndef IR_GRAPH_OPERANDS_H
#define IR_GRAPH_OPERANDS_H

#include "ir/graph/graph.h"

typedef enum OperandUse { OPERAND_ONE, OPERAND_MAYBE, OPERAND_MANY } OperandUse;

// All texts live as long as the program.
typedef struct OperandText {
    OpId op;
    const char *name;
    OperandUse use; // of operands
    const char *types, *shape, *text;
    const char *example; // of operands: "f32[2, 3]", "" = absent, or several with ; in between
} OperandText;

// What the op computes; "" for OP_none.
const char *op_formula(OpId op);
uint32_t op_operand_count(OpId op);
OperandText op_operand(OpId op, uint32_t i);
uint32_t op_result_count(OpId op);
OperandText op_result(OpId op, uint32_t i);
// Adds a model in JSON (docs/FORMAT.md) with this op, on one line.
void op_example(Arena *arena, OpId op, Str *out);

#endif
