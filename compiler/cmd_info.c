// SPDX-License-Identifier: Apache-2.0
// rlxc ops, passes, targets, explain, dev-place: what the tables say.
#include "codegen/target.h"
#include "compiler/cli.h"
#include "compiler/import/rawfile.h"
#include "passes/pass.h"
#include "passes/place.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- ops -----------------------------------------------------------------------------------------

static const char *const kind_names[] = {"leaf", "elementwise", "core", "convenience"};
static const char *const attr_type_names[] = {"int",  "float", "bool",  "string", "ints",
                                              "dims", "dtype", "bytes", "graph"};

static void print_op(OpId op)
{
    const OpInfo *info = &op_info[op];
    AttrId first;
    uint32_t n;
    attr_range(op, &first, &n);
    printf("%s (%s): %u", info->name, kind_names[info->kind], info->min_src);
    if (info->max_src != info->min_src)
        printf(" to %u", info->max_src);
    printf(" inputs");
    if (info->n_results != 1)
        printf(info->n_results == 0 ? ", several results" : ", %u results", info->n_results);
    printf("\n");
    if (info->kind == OPKIND_EW)
        printf("  computed as %s\n", info->kernel);
    for (uint32_t i = 0; i < n; i++) {
        const AttrInfo *a = &attr_info[first + i];
        printf("  %-18s %-7s %-20s %s\n", a->name, attr_type_names[a->type],
               a->dflt == NULL      ? "required"
               : a->dflt[0] == '\0' ? ""
                                    : a->dflt,
               a->text);
    }
}

static void print_ops_json(void)
{
    printf("[");
    for (OpId op = 1; op < OP_COUNT; op++)
        printf("%s\n  {\"name\": \"%s\", \"kind\": \"%s\", \"min_inputs\": %u, \"max_inputs\": %u}",
               op == 1 ? "" : ",", op_info[op].name, kind_names[op_info[op].kind], op_info[op].min_src,
               op_info[op].max_src);
    printf("\n]\n");
}

static bool print_named_op(Cli *c, const char *name)
{
    OpId op;
    if (op_parse(name, &op) && op != OP_none) {
        print_op(op);
        return true;
    }
    const char *names[OP_COUNT];
    for (uint32_t i = 0; i < OP_COUNT; i++)
        names[i] = op_info[i].name;
    diag_error(c->diag, (Span){0}, E0201, "no op named '%s'", name);
    const char *near = str_closest(name, names, OP_COUNT);
    if (near != NULL)
        diag_note(c->diag, (Span){0}, "did you mean '%s'?", near);
    return false;
}

ExitCode cmd_ops(Cli *c)
{
    if (c->options.json != NULL) {
        print_ops_json();
        return EXIT_OK;
    }
    for (uint32_t i = 0; i < c->options.args.len; i++)
        if (!print_named_op(c, c->options.args.data[i]))
            return cli_fail(c);
    for (OpId op = 1; c->options.args.len == 0 && op < OP_COUNT; op++)
        printf("%-18s %s\n", op_info[op].name, kind_names[op_info[op].kind]);
    return EXIT_OK;
}

// --- passes, targets, codes ----------------------------------------------------------------------

// For commands without arguments.
static bool has_no_args(Cli *c)
{
    return c->options.args.len == 0 ||
           diag_error(c->diag, (Span){0}, E0003, "expected no argument, got '%s'", c->options.args.data[0]);
}

ExitCode cmd_passes(Cli *c)
{
    if (!has_no_args(c))
        return cli_fail(c);
    for (uint32_t i = 0; i < pass_count; i++) {
        if (c->options.json != NULL)
            printf("%s{\"name\": \"%s\", \"level\": %d, \"text\": \"%s\"}%s\n", i == 0 ? "[" : " ",
                   pass_info[i].name, pass_info[i].min_level, pass_info[i].text,
                   i + 1 == pass_count ? "]" : ",");
        else
            printf("%-10s -O%d  %s\n", pass_info[i].name, pass_info[i].min_level, pass_info[i].text);
    }
    return EXIT_OK;
}

ExitCode cmd_targets(Cli *c)
{
    if (!has_no_args(c))
        return cli_fail(c);
    for (const char *const *name = target_names; *name != NULL; name++)
        printf("target %-10s%s\n", *name,
               strcmp(*name, "metal") != 0 ? "complete" : "kernel text only");
    for (const char *const *name = cpu_names; *name != NULL; name++) {
        CpuInfo cpu;
        if (cpu_find(*name, &cpu))
            printf("cpu    %-14s %s, %u f32 lanes, %u registers, L1 %u KiB, L2 %u KiB, cc flags: %s\n", *name,
                   cpu.name, cpu.f32_lanes, cpu.vector_regs, cpu.l1_bytes / 1024, cpu.l2_bytes / 1024,
                   cpu.cc_flags[0] != '\0' ? cpu.cc_flags : "none");
    }
    return EXIT_OK;
}

ExitCode cmd_explain(Cli *c)
{
    DiagCode code;
    if (c->options.args.len != 1 || !diag_code_parse(c->options.args.data[0], &code)) {
        diag_error(c->diag, (Span){0}, E0003, "expected one code such as E0204; the codes are:");
        for (uint32_t i = 0; i < DIAG_CODE_COUNT; i++)
            diag_note(c->diag, (Span){0}, "%s %s", diag_code_text((DiagCode)i), diag_code_title((DiagCode)i));
        return cli_fail(c);
    }
    printf("%s: %s\n\n%s\n", diag_code_text(code), diag_code_title(code), diag_code_explanation(code));
    return EXIT_OK;
}

// --- placement -----------------------------------------------------------------------------------

static bool place_file(Cli *c, const char *path)
{
    RawFile file;
    PlaceItem *items = NULL;
    uint32_t n = 0;
    PlaceResult result;
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file) ||
        !place_read_csv(c->arena, c->diag, path, (const char *)file.data, file.len, &items, &n))
        return false;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    place_solve(c->arena, items, n, (PlaceBudget){4000000}, &result);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const char *wrong = place_check(c->arena, items, n, &result);
    if (wrong != NULL)
        diag_bug(path, 0, wrong);
    printf("%s: %u buffers, arena %llu, lower bound %llu, ratio %.4f, optimal: %s, %.2f s\n", path, n,
           (unsigned long long)result.arena, (unsigned long long)result.lower_bound,
           result.lower_bound == 0 ? 1.0 : (double)result.arena / (double)result.lower_bound,
           result.optimal ? "yes" : "no",
           (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
    return true;
}

ExitCode cmd_dev_place(Cli *c)
{
    if (c->options.args.len == 0) {
        diag_error(c->diag, (Span){0}, E0003, "expected at least one table of items");
        return cli_fail(c);
    }
    for (uint32_t i = 0; i < c->options.args.len; i++)
        if (!place_file(c, c->options.args.data[i]))
            return cli_fail(c);
    return EXIT_OK;
}
