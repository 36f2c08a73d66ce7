// SPDX-License-Identifier: Apache-2.0
// rlxc ops: the operators with what they compute, their operands, results and attributes, and an example.
#include "compiler/cli/cli.h"
#include "compiler/system/json_text.h"
#include "ir/graph/operands.h"

static const char *const kind_names[] = {"leaf", "elementwise", "core", "convenience"};
static const char *const use_names[] = {"required", "optional", "repeated"};
static const char *const attr_type_names[] = {"int",  "float", "bool",  "string", "ints",
                                              "dims", "dtype", "bytes", "graph"};

// --- text ----------------------------------------------------------------------------------------

static void print_counts(const OpInfo *info)
{
    rlx_assert((size_t)info->kind < sizeof kind_names / sizeof *kind_names);
    printf("%s (%s): %u", info->name, kind_names[info->kind], info->min_src);
    if (info->max_src != info->min_src)
        printf(info->max_src == 255 ? " or more" : " to %u", info->max_src);
    printf(info->max_src == 1 ? " input" : " inputs");
    if (info->n_results != 1)
        printf(info->n_results == 0 ? ", several results" : ", %u results", info->n_results);
    printf("\n");
}

static void print_operand(const char *title, uint32_t i, const OperandText *t)
{
    static const char *const marks[] = {"", ", optional", ", any number of them"};
    rlx_assert((size_t)t->use < sizeof marks / sizeof *marks);
    printf("%s  %-12s %s, %s%s: %s\n", i == 0 ? title : "", t->name, t->types, t->shape, marks[t->use],
           t->text);
}

static void print_attributes(OpId op)
{
    AttrId first;
    uint32_t n;
    attr_range(op, &first, &n);
    for (uint32_t i = 0; i < n; i++) {
        const AttrInfo *a = &attr_info[first + i];
        rlx_assert((size_t)a->type < sizeof attr_type_names / sizeof *attr_type_names);
        const char *dflt = a->dflt == NULL ? "required" : a->dflt[0] == '\0' ? "" : a->dflt;
        printf("%s  %-18s %-7s %-20s %s\n", i == 0 ? "attributes\n" : "", a->name, attr_type_names[a->type],
               dflt, a->text);
    }
}

static void print_op(Arena *arena, OpId op)
{
    Str example = str_new(arena);
    print_counts(&op_info[op]);
    if (op_old_name(op) != NULL)
        printf("  still read by its older name, %s\n", op_old_name(op));
    printf("  %s\n", op_formula(op));
    if (op_info[op].kind == OPKIND_EW)
        printf("  computed as %s\n", op_info[op].kernel);
    for (uint32_t i = 0; i < op_operand_count(op); i++) {
        const OperandText t = op_operand(op, i);
        print_operand("inputs\n", i, &t);
    }
    for (uint32_t i = 0; i < op_result_count(op); i++) {
        const OperandText t = op_result(op, i);
        print_operand("results\n", i, &t);
    }
    print_attributes(op);
    op_example(arena, op, &example);
    printf("example\n  %s\n", str_text(&example));
}

// --- JSON ----------------------------------------------------------------------------------------

static void print_attr_json(Arena *arena, const AttrInfo *a)
{
    const char *start = a->dflt == NULL ? "null" : arena_printf(arena, "\"%s\"", json_text(arena, a->dflt));
    printf("{\"name\": \"%s\", \"type\": \"%s\", \"default\": %s, \"required\": %s, \"text\": \"%s\"}",
           a->name, attr_type_names[a->type], start, a->dflt == NULL ? "true" : "false",
           json_text(arena, a->text));
}

static void print_operand_json(Arena *arena, const OperandText *t)
{
    printf("{\"name\": \"%s\", \"types\": \"%s\", \"shape\": \"%s\", \"text\": \"%s\"", t->name,
           json_text(arena, t->types), json_text(arena, t->shape), json_text(arena, t->text));
}

static void print_operands_json(Arena *arena, OpId op)
{
    for (uint32_t i = 0; i < op_operand_count(op); i++) {
        const OperandText t = op_operand(op, i);
        rlx_assert((size_t)t.use < sizeof use_names / sizeof *use_names);
        printf("%s", i == 0 ? "" : ", ");
        print_operand_json(arena, &t);
        printf(", \"use\": \"%s\"}", use_names[t.use]);
    }
    printf("], \"outputs\": [");
    for (uint32_t i = 0; i < op_result_count(op); i++) {
        const OperandText t = op_result(op, i);
        printf("%s", i == 0 ? "" : ", ");
        print_operand_json(arena, &t);
        printf("}");
    }
}

static void print_op_json(Arena *arena, OpId op, const char *comma)
{
    const OpInfo *info = &op_info[op];
    Str example = str_new(arena);
    AttrId first;
    uint32_t n;
    attr_range(op, &first, &n);
    op_example(arena, op, &example);
    printf("%s\n  {\"name\": \"%s\", \"kind\": \"%s\", \"min_inputs\": %u, \"max_inputs\": %u, "
           "\"results\": %u, \"formula\": \"%s\", \"operands\": [",
           comma, info->name, kind_names[info->kind], info->min_src, info->max_src, info->n_results,
           json_text(arena, op_formula(op)));
    print_operands_json(arena, op);
    printf("], \"attributes\": [");
    for (uint32_t i = 0; i < n; i++) {
        printf("%s", i == 0 ? "" : ", ");
        print_attr_json(arena, &attr_info[first + i]);
    }
    printf("], \"example\": %s}", str_text(&example));
}

// --- the command ---------------------------------------------------------------------------------

static bool find_named_op(Cli *c, const char *name, OpId *op)
{
    if (op_parse(name, op) && *op != OP_none)
        return true;
    const char *names[OP_COUNT];
    for (uint32_t i = 0; i < OP_COUNT; i++)
        names[i] = op_info[i].name;
    diag_error(c->diag, (Span){0}, E0201, "there is no op named '%s'", name);
    const char *near = str_closest(name, names, OP_COUNT);
    if (near != NULL)
        diag_note(c->diag, (Span){0}, "did you mean '%s'?", near);
    return false;
}

ExitCode cmd_ops(Cli *c)
{
    const uint32_t n_named = c->options.args.len, n = n_named != 0 ? n_named : OP_COUNT - 1u;
    const bool is_json = c->options.json != NULL;
    OpId *ops = ARENA_ARRAY(c->arena, OpId, n);
    for (uint32_t i = 0; i < n; i++) {
        ops[i] = (OpId)(i + 1);
        if (n_named != 0 && !find_named_op(c, c->options.args.data[i], &ops[i]))
            return cli_fail(c);
    }
    printf("%s", is_json ? "[" : "");
    for (uint32_t i = 0; i < n; i++) {
        if (is_json)
            print_op_json(c->arena, ops[i], i == 0 ? "" : ",");
        else if (n_named != 0)
            print_op(c->arena, ops[i]);
        else
            printf("%-18s %s\n", op_info[ops[i]].name, kind_names[op_info[ops[i]].kind]);
    }
    printf("%s", is_json ? "\n]\n" : "");
    return EXIT_OK;
}
