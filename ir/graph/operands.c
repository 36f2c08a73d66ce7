// SPDX-License-Identifier: Apache-2.0
// The words of ops.def as tables, what follows from the class of elementwise ops, and the examples.
#include "ir/graph/operands.h"

#include <string.h>

typedef struct About {
    OpId op;
    const char *formula, *attributes;
} About;

static const About abouts[] = {
#define ABOUT(op, formula, ...) {OP_##op, formula, #__VA_ARGS__},
#include "ir/graph/ops.def"
};

// An op of ops.def without a row above does not compile.
enum {
#define ABOUT(op, formula, ...) ABOUT_##op,
#include "ir/graph/ops.def"
};
enum {
    ABOUT_none,
#define LEAF(name)       IS_THERE_##name = ABOUT_##name,
#define OP(name, ...)    IS_THERE_##name = ABOUT_##name,
#define SUGAR(name, ...) IS_THERE_##name = ABOUT_##name,
#include "ir/graph/ops.def"
};

static const OperandText operands[] = {
#define IN(op, name, use, types, shape, text, example)                                                       \
    {OP_##op, #name, OPERAND_##use, types, shape, text, example},
#include "ir/graph/ops.def"
};

static const OperandText results[] = {
#define OUT(op, name, types, shape, text) {OP_##op, #name, OPERAND_ONE, types, shape, text, ""},
#include "ir/graph/ops.def"
};

static const struct {
    OpId op;
    const char *model;
} examples[] = {
#define EXAMPLE(op, ...) {OP_##op, #__VA_ARGS__},
#include "ir/graph/ops.def"
};

static const struct {
    const char *floats, *integers;
} meanings[OP_COUNT] = {
#define EW(name, arity, cls, cost, flags, fexpr, iexpr, kernel) [OP_##name] = {#fexpr, #iexpr},
#include "ir/graph/ops.def"
};

// Operands and results of elementwise ops by their class.
static const struct {
    const char *types, *result, *example;
} classes[] = {
    [EW_NONE] = {"", "", ""},
    [EW_ARITH] = {"numbers", "as a", "f32"},
    [EW_FLOAT] = {"floats", "as a", "f32"},
    [EW_INTS] = {"integers or bool", "as a", "i32"},
    [EW_LOGIC] = {"bool", "as a", "bool"},
    [EW_CMP] = {"any", "bool", "f32"},
    [EW_TEST] = {"floats", "bool", "f32"},
    [EW_SEL] = {"any", "as b", "f32"},
};

static const About *find_about(OpId op)
{
    for (uint32_t i = 0; i < sizeof abouts / sizeof *abouts; i++)
        if (abouts[i].op == op)
            return &abouts[i];
    return NULL;
}

const char *op_formula(OpId op)
{
    const About *about = find_about(op);
    if (about != NULL)
        return about->formula;
    if (op_info[op].kind != OPKIND_EW)
        return "";
    return strcmp(meanings[op].floats, "NONE") != 0 ? meanings[op].floats : meanings[op].integers;
}

// Row i of an op, or NULL.
static const OperandText *find_row(const OperandText *row, size_t n, OpId op, uint32_t i)
{
    for (size_t k = 0; k < n; k++)
        if (row[k].op == op && i-- == 0)
            return &row[k];
    return NULL;
}

static uint32_t count_rows(const OperandText *row, size_t n, OpId op)
{
    uint32_t found = 0;
    for (size_t k = 0; k < n; k++)
        found += row[k].op == op;
    return found;
}

// --- operands ------------------------------------------------------------------------------------

// "f32[2, 3]" of an operand of an elementwise op: the first one is a choice where there is one.
static const char *elementwise_example(EwClass cls, uint32_t i)
{
    static const char *const shaped[][2] = {
        {"f32", "f32[2, 3]"}, {"i32", "i32[2, 3]"}, {"bool", "bool[2, 3]"}};
    const char *type = cls == EW_SEL && i == 0 ? "bool" : classes[cls].example;
    for (uint32_t k = 0; k < sizeof shaped / sizeof *shaped; k++)
        if (strcmp(shaped[k][0], type) == 0)
            return shaped[k][1];
    return "";
}

static OperandText elementwise_operand(OpId op, uint32_t i)
{
    static const char *const names[] = {"a", "b", "c"};
    static const char *const texts[] = {"the first operand", "the second", "the third"};
    const EwClass cls = op_info[op].ew;
    OperandText t = {.op = op,
                     .name = names[i],
                     .types = i == 0 ? classes[cls].types : "as a",
                     .shape = i == 0 ? "any" : "broadcasts",
                     .text = op_info[op].max_src == 1 ? "the operand" : texts[i]};
    for (size_t k = 0; k < sizeof operands / sizeof *operands; k++)
        if (operands[k].op == op && strcmp(operands[k].name, t.name) == 0)
            t = operands[k];
    t.example = elementwise_example(cls, i);
    return t;
}

uint32_t op_operand_count(OpId op)
{
    if (op_info[op].kind == OPKIND_EW)
        return op_info[op].max_src;
    return count_rows(operands, sizeof operands / sizeof *operands, op);
}

OperandText op_operand(OpId op, uint32_t i)
{
    rlx_assert(i < op_operand_count(op));
    if (op_info[op].kind == OPKIND_EW)
        return elementwise_operand(op, i);
    return *find_row(operands, sizeof operands / sizeof *operands, op, i);
}

uint32_t op_result_count(OpId op)
{
    if (op_info[op].kind == OPKIND_EW)
        return 1;
    return count_rows(results, sizeof results / sizeof *results, op);
}

OperandText op_result(OpId op, uint32_t i)
{
    rlx_assert(i < op_result_count(op));
    if (op_info[op].kind != OPKIND_EW)
        return *find_row(results, sizeof results / sizeof *results, op, i);
    return (OperandText){.op = op,
                         .name = "y",
                         .types = classes[op_info[op].ew].result,
                         .shape = op_info[op].max_src == 1 ? "that of a" : "all operands, broadcast",
                         .text = "the formula, of each element",
                         .example = ""};
}

// --- examples ------------------------------------------------------------------------------------

// `"x": {"dtype": "f32", "shape": [2, 3]}` of the first len bytes of "f32[2, 3]".
static void add_input(Arena *arena, const char *name, const char *type, size_t len, Str *out)
{
    const size_t dtype = (size_t)((const char *)memchr(type, '[', len) - type);
    str_add(out,
            arena_printf(arena, "%s\"%s\": {\"dtype\": \"%.*s\", \"shape\": %.*s}", out->len == 0 ? "" : ", ",
                         name, (int)dtype, type, (int)(len - dtype), type + dtype));
}

// Adds the inputs of the model for one operand, and their names to the node's list.
static void add_operand(Arena *arena, const OperandText *t, Str *inputs, Str *names)
{
    const char *at = t->example;
    for (uint32_t i = 0; *at != '\0'; i++) {
        const size_t len = strcspn(at, ";");
        const char *name = t->use != OPERAND_MANY ? t->name : arena_printf(arena, "%s_%u", t->name, i);
        add_input(arena, name, at, len, inputs);
        str_add(names, arena_printf(arena, "%s\"%s\"", names->len == 0 ? "" : ", ", name));
        at += len + (at[len] == ';');
    }
}

// The operands up to the last one that the example has; those between that it leaves out are null.
static void add_operands(Arena *arena, OpId op, Str *inputs, Str *names)
{
    uint32_t n = op_operand_count(op);
    while (n > 0 && op_operand(op, n - 1).example[0] == '\0')
        n--;
    for (uint32_t i = 0; i < n; i++) {
        const OperandText t = op_operand(op, i);
        if (t.example[0] == '\0')
            str_add(names, ", null");
        add_operand(arena, &t, inputs, names);
    }
}

// `"name": "y"`, or `"outputs": ["values", "places"]`.
static void add_results(Arena *arena, OpId op, Str *out)
{
    const uint32_t n = op_result_count(op);
    if (op_info[op].n_results == 1) {
        str_add(out, arena_printf(arena, "\"name\": \"%s\"", op_result(op, 0).name));
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        str_add(out,
                arena_printf(arena, "%s\"%s\"", i == 0 ? "\"outputs\": [" : ", ", op_result(op, i).name));
    str_add(out, "]");
}

void op_example(Arena *arena, OpId op, Str *out)
{
    for (uint32_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (examples[i].op == op) {
            str_add(out, examples[i].model);
            return;
        }
    const About *about = find_about(op);
    const char *attributes = about == NULL ? "" : about->attributes;
    Str inputs = str_new(arena), names = str_new(arena);
    add_operands(arena, op, &inputs, &names);
    str_add(out, arena_printf(arena, "{\"rlxc\": 1, \"inputs\": {%s}, \"nodes\": [{", str_text(&inputs)));
    add_results(arena, op, out);
    str_add(out, arena_printf(arena, ", \"op\": \"%s\", \"inputs\": [%s]%s%s}], \"outputs\": [\"%s\"]}",
                              op_info[op].name, str_text(&names), attributes[0] == '\0' ? "" : ", ",
                              attributes, op_result(op, 0).name));
}
