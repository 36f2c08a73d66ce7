// SPDX-License-Identifier: Apache-2.0
// See help.h.
#include "compiler/cli/help.h"
#include <string.h>

// --- text ----------------------------------------------------------------------------------------

void help_print(FILE *out)
{
    fputs("rlxc: compiles neural networks (ONNX, TensorFlow Lite, GGUF, JSON) to one C file.\n\n"
          "  rlxc compile model.onnx -o out        writes out/model.h and out/model.c\n"
          "  rlxc run model.onnx --random 1        compiles it, runs it once, and prints the outputs\n"
          "  rlxc inspect model.onnx               prints RAM, flash, multiply-adds and kernels\n"
          "\nCommands:\n",
          out);
    for (uint32_t i = 0; i < command_count; i++)
        fprintf(out, "  %-12s %s\n", command_info[i].name, command_info[i].text);
    fputs("\n`rlxc help COMMAND` (or `rlxc COMMAND --help`) shows the options of a command and examples.\n"
          "`rlxc --version` prints the version, and `rlxc --share-dir` the folder of the files for builds.\n"
          "\nExit codes:\n",
          out);
    for (uint32_t i = 0; i < exit_count; i++)
        fprintf(out, "  %d  %s\n", exit_info[i].number, exit_info[i].text);
}

static void print_examples(char letter, FILE *out)
{
    const char *title = "\nExamples:\n";
    for (uint32_t i = 0; i < example_count; i++) {
        const ExampleInfo *e = &example_info[i];
        if (e->letter != letter || e->line == NULL)
            continue;
        fprintf(out, "%s  %s\n      %s\n", title, e->line, e->text);
        title = "";
    }
    for (uint32_t i = 0; i < example_count; i++)
        if (example_info[i].letter == letter && example_info[i].line == NULL)
            fprintf(out, "\nNext: %s\n", example_info[i].text);
}

static void print_option(const char *usage, const char *help, FILE *out)
{
    fprintf(out, "  %-26s", usage);
    fprintf(out, "%s%s\n", strlen(usage) > 26 ? "\n                             " : " ", help);
}

void help_print_command(Arena *a, const CommandInfo *c, FILE *out)
{
    fprintf(out, "Usage: rlxc %s %s%s[options]\n\n%s.\n\nOptions:\n", c->name, c->args,
            c->args[0] != '\0' ? " " : "", c->text);
    for (uint32_t i = 0; i < option_count; i++)
        if (option_applies(&option_info[i], c->letter))
            print_option(option_usage(a, &option_info[i]), option_info[i].help, out);
    print_examples(c->letter, out);
}

// --- docs/CLI.md ---------------------------------------------------------------------------------

// A bar would end the cell of the table.
static void markdown_option(const char *usage, const char *help, FILE *out)
{
    fputs("| `", out);
    for (const char *c = usage; *c != '\0'; c++)
        fprintf(out, *c == '|' ? "\\%c" : "%c", *c);
    fprintf(out, "` | %s |\n", help);
}

static void markdown_command(Arena *a, const CommandInfo *c, FILE *out)
{
    fprintf(out, "\n## rlxc %s%s%s\n\n%s.\n\n| option | meaning |\n|---|---|\n", c->name,
            c->args[0] != '\0' ? " " : "", c->args, c->text);
    for (uint32_t k = 0; k < option_count; k++)
        if (option_applies(&option_info[k], c->letter))
            markdown_option(option_usage(a, &option_info[k]), option_info[k].help, out);
    fputs("\nExamples:\n\n", out);
    for (uint32_t i = 0; i < example_count; i++)
        if (example_info[i].letter == c->letter && example_info[i].line != NULL)
            fprintf(out, "* `%s`: %s\n", example_info[i].line, example_info[i].text);
    for (uint32_t i = 0; i < example_count; i++)
        if (example_info[i].letter == c->letter && example_info[i].line == NULL)
            fprintf(out, "\n%s\n", example_info[i].text);
}

void help_print_markdown(Arena *a, FILE *out)
{
    fputs("# Command line\n\nMade by `rlxc --help-markdown` from `compiler/cli/commands.def`, "
          "`compiler/cli/options.def`, `compiler/cli/examples.def`\nand `compiler/cli/exit_codes.def`.\n\n"
          "| exit code | meaning |\n|---|---|\n",
          out);
    for (uint32_t i = 0; i < exit_count; i++)
        fprintf(out, "| %d | %s |\n", exit_info[i].number, exit_info[i].text);
    fputs("\nMessages go to stderr, and results to stdout. Colours and progress appear only on a terminal, "
          "unless `NO_COLOR` is set or\n`TERM` is `dumb`. With `--json`, results and messages are JSON "
          "([JSON.md](JSON.md)). Arguments after `--` are not read as options.\n\n"
          "When a signal (Ctrl-C, `SIGTERM`, `SIGHUP`, `SIGPIPE`) ends `rlxc`, it first removes unfinished "
          "files and stops the C compilers\nthat it started. Shells then report 128 plus the number of the "
          "signal: 130 after Ctrl-C, 143 after `SIGTERM`.\n",
          out);
    for (uint32_t i = 0; i < command_count; i++)
        markdown_command(a, &command_info[i], out);
}
