// SPDX-License-Identifier: Apache-2.0
// rlxc passes, header, targets, explain, dev-place: what the tables say.
#include "codegen/host/host.h"
#include "codegen/target/board.h"
#include "compiler/cli/cli.h"
#include "compiler/system/clock.h"
#include "compiler/system/json_text.h"
#include "compiler/system/rawfile.h"
#include "passes/pass.h"
#include "passes/plan/place/place.h"
#include <string.h>

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

ExitCode cmd_header(Cli *c)
{
    const HostText text = host_stubs(c->arena);
    if (!has_no_args(c))
        return cli_fail(c);
    if (c->options.json != NULL)
        printf("{\"name\": \"%s\", \"text\": \"%s\"}\n", text.name, json_text(c->arena, text.text));
    else
        fputs(text.text, stdout);
    return EXIT_OK;
}

static void print_targets_json(void)
{
    printf("{\n  \"targets\": [");
    for (const char *const *name = target_names; *name != NULL; name++)
        printf("%s\"%s\"", name == target_names ? "" : ", ", *name);
    printf("],\n  \"cpus\": [");
    const char *comma = "";
    for (const char *const *name = cpu_names; *name != NULL; name++) {
        CpuInfo cpu;
        if (!cpu_find(*name, &cpu))
            continue;
        printf("%s\n    {\"name\": \"%s\", \"cpu\": \"%s\", \"f32_lanes\": %u, \"registers\": %u, "
               "\"l1_bytes\": %u, \"l2_bytes\": %u, \"cc_flags\": \"%s\"}",
               comma, *name, cpu.name, cpu.f32_lanes, cpu.vector_regs, cpu.machine.l1_bytes,
               cpu.machine.l2_bytes, cpu.cc_flags);
        comma = ",";
    }
    printf("\n  ],\n");
}

static void print_boards_json(Arena *a)
{
    Board b;
    printf("  \"boards\": [");
    for (uint32_t i = 0; board_at(a, i, &b); i++) {
        printf("%s\n    {\"name\": \"%s\", \"chip\": \"%s\", \"cpu\": \"%s\", \"mhz\": %u, \"flash_bytes\": "
               "%llu, \"banks\": [",
               i == 0 ? "" : ",", b.name, b.chip, b.cpu, b.mhz, (unsigned long long)b.flash_bytes);
        for (uint32_t k = 0; k < b.n_banks; k++)
            printf("%s{\"name\": \"%s\", \"bytes\": %llu, \"slow\": %s}", k == 0 ? "" : ", ", b.bank[k].name,
                   (unsigned long long)b.bank[k].bytes, b.bank[k].is_slow ? "true" : "false");
        printf("]}");
    }
    printf("\n  ]\n}\n");
}

static void print_boards(Arena *a)
{
    Board b;
    for (uint32_t i = 0; board_at(a, i, &b); i++) {
        printf("board  %-19s %s, %s, %u MHz, flash %llu KiB%s, RAM", b.name, b.chip, b.cpu, b.mhz,
               (unsigned long long)b.flash_bytes >> 10, b.has_xip ? " (a chip of its own)" : "");
        for (uint32_t k = 0; k < b.n_banks; k++)
            printf("%s %s %llu KiB%s", k == 0 ? "" : ",", b.bank[k].name,
                   (unsigned long long)b.bank[k].bytes >> 10,
                   b.bank[k].is_slow ? " (a chip of its own)" : "");
        printf("\n");
    }
}

ExitCode cmd_targets(Cli *c)
{
    if (!has_no_args(c))
        return cli_fail(c);
    if (c->options.json != NULL) {
        print_targets_json();
        print_boards_json(c->arena);
        return EXIT_OK;
    }
    for (const char *const *name = target_names; *name != NULL; name++)
        printf("target %-10s%s\n", *name,
               strcmp(*name, "metal") != 0 ? "complete" : "complete, but never run on Apple hardware");
    for (const char *const *name = cpu_names; *name != NULL; name++) {
        CpuInfo cpu;
        if (cpu_find(*name, &cpu))
            printf("cpu    %-14s %s, %u f32 lanes, %u registers, L1 %u KiB, L2 %u KiB, cc flags: %s\n", *name,
                   cpu.name, cpu.f32_lanes, cpu.vector_regs, cpu.machine.l1_bytes / 1024,
                   cpu.machine.l2_bytes / 1024, cpu.cc_flags[0] != '\0' ? cpu.cc_flags : "none");
    }
    print_boards(c->arena);
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
    if (c->options.json != NULL) {
        printf("{\"code\": \"%s\", \"title\": \"%s\", \"text\": \"%s\"}\n", diag_code_text(code),
               json_text(c->arena, diag_code_title(code)), json_text(c->arena, diag_code_explanation(code)));
        return EXIT_OK;
    }
    printf("%s: %s\n\n%s\n", diag_code_text(code), diag_code_title(code), diag_code_explanation(code));
    return EXIT_OK;
}

// --- placement -----------------------------------------------------------------------------------

static void add_placement(const Cli *c, const char *path, uint32_t n, const PlaceResult *r, Str *out)
{
    const unsigned long long arena = (unsigned long long)r->arena, bound = (unsigned long long)r->lower_bound;
    if (c->options.json == NULL)
        str_add(out, arena_printf(c->arena,
                                  "%s: %u buffers, arena %llu, lower bound %llu, ratio %.4f, optimal: %s",
                                  path, n, arena, bound, bound == 0 ? 1.0 : (double)arena / (double)bound,
                                  r->optimal ? "yes" : "no"));
    else
        str_printf(out,
                   "%s\n  {\"file\": \"%s\", \"buffers\": %u, \"arena_bytes\": %llu, "
                   "\"arena_lower_bound_bytes\": %llu, \"arena_optimal\": %s",
                   out->len == 0 ? "[" : ",", json_text(c->arena, path), n, arena, bound,
                   r->optimal ? "true" : "false");
}

static bool place_file(Cli *c, const char *path, Str *out)
{
    RawFile file;
    PlaceItem *items = NULL;
    uint32_t n = 0;
    PlaceResult result;
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file) ||
        !place_read_csv(c->arena, c->diag, path, (const char *)file.data, file.len, &items, &n))
        return false;
    const double start = clock_seconds();
    place_solve(c->arena, items, n, (PlaceBudget){4000000}, &result);
    const double seconds = clock_seconds() - start;
    const char *wrong = place_check(c->arena, items, n, &result);
    if (wrong != NULL)
        diag_bug(path, 0, wrong);
    add_placement(c, path, n, &result, out);
    str_add(out,
            arena_printf(c->arena, c->options.json != NULL ? ", \"seconds\": %.2f}" : ", %.2f s\n",
                         seconds));
    return true;
}

ExitCode cmd_dev_place(Cli *c)
{
    Str out = str_new(c->arena);
    if (c->options.args.len == 0) {
        diag_error(c->diag, (Span){0}, E0003, "expected at least one table of items");
        return cli_fail(c);
    }
    for (uint32_t i = 0; i < c->options.args.len; i++)
        if (!place_file(c, c->options.args.data[i], &out))
            return cli_fail(c);
    printf("%s%s", str_text(&out), c->options.json != NULL ? "\n]\n" : "");
    return EXIT_OK;
}
