// SPDX-License-Identifier: Apache-2.0
// Man pages from the tables of the command line, in the macros of man(7). See help.h.
#include "compiler/cli/help.h"
#include <ctype.h>
#include <string.h>

enum { MAX_COLUMN = 66 };

// Text of the tables: `code` is bold, and no line begins with what troff takes for a request.
static void print_text(const char *text, FILE *out)
{
    bool is_bold = false, is_first = true;
    uint32_t column = 0;
    for (const char *c = text; *c != '\0'; c++, column++) {
        if (is_first && (*c == '.' || *c == '\''))
            fputs("\\&", out);
        is_first = *c == ' ' && column + 1 + strcspn(c + 1, " ") > MAX_COLUMN;
        if (is_first) {
            fputc('\n', out);
            column = 0;
        } else if (*c == '`') {
            is_bold = !is_bold;
            fputs(is_bold ? "\\fB" : "\\fR", out);
        } else if (*c == '\\') {
            fputs("\\e", out);
        } else if (*c == '-') {
            fputs("\\-", out);
        } else {
            fputc(*c, out);
        }
    }
}

// A sentence a line, as man pages are written.
static void print_sentence(const char *text, const char *end, FILE *out)
{
    print_text(text, out);
    fprintf(out, "%s\n", end);
}

static void print_header(const char *title, const char *summary, FILE *out)
{
    fputs(".TH ", out);
    for (const char *c = title; *c != '\0'; c++)
        fputc(toupper((unsigned char)*c), out);
    fprintf(out, " 1 %s \"rlxc %s\"\n.SH NAME\n", RLXC_DATE, RLXC_VERSION);
    print_text(title, out);
    fputs(" \\-\n", out);
    print_sentence(summary, "", out);
}

static void print_option(const OptionInfo *o, FILE *out)
{
    fputs(".TP\n\\fB", out);
    print_text(o->name, out);
    fputs("\\fR", out);
    if (o->value != NULL) {
        fputs(" \\fI", out);
        print_text(o->value, out);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    print_sentence(o->help, ".", out);
}

static void print_examples(char letter, FILE *out)
{
    fputs(".SH EXAMPLES\n", out);
    for (uint32_t i = 0; i < example_count; i++) {
        if (example_info[i].letter != letter)
            continue;
        if (example_info[i].line == NULL) {
            fputs(".PP\n", out);
            print_sentence(example_info[i].text, "", out);
            continue;
        }
        fputs(".TP\n\\fB", out);
        print_text(example_info[i].line, out);
        fputs("\\fR\n", out);
        print_sentence(example_info[i].text, ".", out);
    }
}

static void print_exits(FILE *out)
{
    fputs(".SH EXIT STATUS\n", out);
    for (uint32_t i = 0; i < exit_count; i++) {
        fprintf(out, ".TP\n%d\n", exit_info[i].number);
        print_sentence(exit_info[i].text, ".", out);
    }
    fputs(".PP\n", out);
    print_sentence(
        "When a signal (SIGINT, SIGTERM, SIGHUP, SIGPIPE) ends rlxc, it first removes unfinished "
        "files and stops the compilers that it started; shells report 128 plus the number of the signal",
        ".", out);
}

static void print_command(Arena *a, const CommandInfo *c, FILE *out)
{
    print_header(arena_printf(a, "rlxc-%s", c->name), c->text, out);
    fputs(".SH SYNOPSIS\n\\fBrlxc ", out);
    print_text(c->name, out);
    fputs("\\fR ", out);
    print_text(c->args, out);
    fputs(" [options]\n.SH OPTIONS\n", out);
    for (uint32_t i = 0; i < option_count; i++)
        if (option_applies(&option_info[i], c->letter))
            print_option(&option_info[i], out);
    print_examples(c->letter, out);
    print_exits(out);
    fputs(".SH SEE ALSO\n.BR rlxc (1)\n", out);
}

static void print_program(Arena *a, FILE *out)
{
    print_header("rlxc", "compiles neural networks to self-contained C", out);
    fputs(".SH SYNOPSIS\n\\fBrlxc\\fR command [arguments] [options]\n.SH DESCRIPTION\n", out);
    print_sentence("Reads a model (its own JSON, or ONNX) and writes one self-contained C file, with kernels "
                   "for GPUs if you ask for them.",
                   "", out);
    print_sentence("Results go to standard output, and messages to standard error.", "", out);
    print_sentence("With `--json`, both are JSON.", "", out);
    fputs(".SH COMMANDS\n", out);
    for (uint32_t i = 0; i < command_count; i++) {
        fputs(".TP\n.BR ", out);
        print_text(arena_printf(a, "rlxc-%s", command_info[i].name), out);
        fputs(" (1)\n", out);
        print_sentence(command_info[i].text, ".", out);
    }
    print_exits(out);
    fputs(".SH ENVIRONMENT\n.TP\n\\fBCC\\fR\n", out);
    print_sentence("The C compiler that `run`, `verify`, `bisect` and `tune` use.", "", out);
    fputs(".TP\n\\fBXDG_CACHE_HOME\\fR\n", out);
    print_sentence("Libraries that were built are kept in its folder rlxc (default: ~/.cache/rlxc).", "",
                   out);
    fputs(".TP\n\\fBNO_COLOR\\fR, \\fBTERM\\fR\n", out);
    print_sentence("Colours and the line of progress are left out if NO_COLOR is set or TERM is dumb.", "",
                   out);
    fputs(".TP\n\\fBRLXC_NVRTC\\fR\n", out);
    print_sentence("The library libnvrtc.so, which compiles kernels for CUDA.", "", out);
}

void help_print_man(Arena *a, const CommandInfo *c, FILE *out)
{
    if (c != NULL)
        print_command(a, c, out);
    else
        print_program(a, out);
}
