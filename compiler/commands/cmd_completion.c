// SPDX-License-Identifier: Apache-2.0
// rlxc completion: scripts for shells, made from the tables of the command line.
#include "codegen/target/target.h"
#include "compiler/cli/cli_tables.h"
#include "compiler/system/json_text.h"
#include "ir/graph/graph.h"
#include "passes/pass.h"
#include <string.h>

// --- what can stand where ------------------------------------------------------------------------

typedef enum Kind { NOTHING, WORDS, FILES, FOLDERS, MODELS } Kind;

typedef struct Choice {
    Kind kind;
    const char *words; // separated by spaces
} Choice;

static const char *join(Arena *a, const char *const *names)
{
    Str s = str_new(a);
    for (; *names != NULL; names++)
        str_printf(&s, "%s%s", s.len == 0 ? "" : " ", *names);
    return str_text(&s);
}

static const char *pass_words(Arena *a)
{
    Str s = str_new(a);
    for (uint32_t i = 0; i < pass_count; i++)
        str_printf(&s, "%s%s", i == 0 ? "" : " ", pass_info[i].name);
    return str_text(&s);
}

// "[show|clear]" -> "show clear"
static const char *alternatives(Arena *a, const char *args)
{
    char *s = arena_strdup(a, args + (args[0] == '['));
    for (char *c = s; *c != '\0'; c++)
        *c = *c == '|' ? ' ' : *c == ']' ? '\0' : *c;
    return s;
}

static Choice choice_of_option(Arena *a, const OptionInfo *o)
{
    if (strchr(o->value, '|') != NULL)
        return (Choice){WORDS, alternatives(a, o->value)};
    if (strcmp(o->name, "--target") == 0)
        return (Choice){WORDS, join(a, target_names)};
    if (strcmp(o->name, "--cpu") == 0)
        return (Choice){WORDS, join(a, cpu_names)};
    if (strcmp(o->value, "PASS") == 0)
        return (Choice){WORDS, strcmp(o->name, "--dump") == 0 ? arena_printf(a, "all %s", pass_words(a))
                                                              : pass_words(a)};
    if (strstr(o->value, "FILE") != NULL)
        return (Choice){FILES, NULL};
    return (Choice){strcmp(o->value, "DIR") == 0 ? FOLDERS : NOTHING, NULL};
}

static Choice choice_of_args(Arena *a, const CommandInfo *c)
{
    Str s = str_new(a);
    if (strchr(c->args, '|') != NULL)
        return (Choice){WORDS, alternatives(a, c->args)};
    if (strcmp(c->args, "[NAME...]") == 0) {
        for (uint32_t op = 1; op < OP_COUNT; op++)
            str_printf(&s, "%s%s", s.len == 0 ? "" : " ", op_info[op].name);
        return (Choice){WORDS, str_text(&s)};
    }
    if (strcmp(c->args, "CODE") == 0) {
        for (uint32_t i = 0; i < DIAG_CODE_COUNT; i++)
            str_printf(&s, "%s%s", s.len == 0 ? "" : " ", diag_code_text((DiagCode)i));
        return (Choice){WORDS, str_text(&s)};
    }
    if (strncmp(c->args, "MODEL", 5) == 0)
        return (Choice){MODELS, NULL};
    return (Choice){c->args[0] != '\0' ? FILES : NOTHING, NULL};
}

// Text between single quotes of a shell, with a backslash before each of `special`.
static const char *quoted(Arena *a, const char *text, const char *special, const char *quote)
{
    Str s = str_new(a);
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(special, *c) != NULL)
            str_char(&s, '\\');
        if (*c == '\'')
            str_add(&s, quote);
        else
            str_char(&s, *c);
    }
    return str_text(&s);
}

// --- bash ----------------------------------------------------------------------------------------

static const char bash_begin[] =
    "# Completion of rlxc for bash, made by `rlxc completion bash`.\n"
    "_rlxc_files() {\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen \"$@\")\n"
    "}\n"
    "_rlxc_models() {\n"
    "    local end\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -d -- \"$1\"; for end in json onnx rlx rlxb; do\n"
    "        compgen -f -X \"!*.$end\" -- \"$1\"; done)\n"
    "}\n"
    "_rlxc() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}\n"
    "    local options='' words='' i=$((COMP_CWORD - 1))\n"
    "    # bash takes --option=value and NAME=FILE apart at the =\n"
    "    if [[ $cur == = ]]; then cur=; fi\n"
    "    if [[ $prev == = ]]; then i=$((i - 1)); prev=${COMP_WORDS[i]}; fi\n"
    "    if [[ $prev != -* && $i -gt 2 && ${COMP_WORDS[i+1]} == = ]]; then prev=${COMP_WORDS[i-1]}; fi\n"
    "    COMPREPLY=()\n"
    "    if [[ $COMP_CWORD -eq 1 ]]; then\n";

static const char *const bash_choice[] = {[NOTHING] = "return",
                                          [FILES] = "_rlxc_files -f -- \"$cur\"; return",
                                          [FOLDERS] = "_rlxc_files -d -- \"$cur\"; return",
                                          [MODELS] = "_rlxc_models \"$cur\"; return"};

static void bash_answer(const Choice *c, Str *out)
{
    rlx_assert(c->kind == WORDS || bash_choice[c->kind] != NULL);
    if (c->kind == WORDS)
        str_printf(out, " words='%s' ;;\n", c->words);
    else
        str_printf(out, " %s ;;\n", bash_choice[c->kind]);
}

static void bash_options(Arena *a, const CommandInfo *c, Str *out)
{
    str_printf(out, "    %s) options='", c->name);
    for (uint32_t i = 0; i < option_count; i++)
        if (option_applies(&option_info[i], c->letter))
            str_printf(out, "%s ", option_info[i].name);
    str_add(out, "'\n        [[ $cur == -* ]] ||");
    const Choice args = choice_of_args(a, c);
    if (args.kind == WORDS)
        str_printf(out, " options='%s' ;;\n", args.words);
    else
        str_printf(out, " { %s; } ;;\n", bash_choice[args.kind]);
}

static void print_bash(Arena *a, Str *out)
{
    str_printf(out, "%s        words='help --help --version", bash_begin);
    for (uint32_t i = 0; i < command_count; i++)
        str_printf(out, " %s", command_info[i].name);
    str_add(out, "'\n    fi\n    case \"$cmd $prev\" in\n");
    for (uint32_t i = 0; i < option_count; i++) {
        const OptionInfo *o = &option_info[i];
        const char *bar = "    ";
        for (uint32_t k = 0; k < command_count && o->value != NULL; k++)
            if (option_applies(o, command_info[k].letter)) {
                str_printf(out, "%s'%s %s'", bar, command_info[k].name, o->name);
                bar = "|";
            }
        const Choice choice = o->value != NULL ? choice_of_option(a, o) : (Choice){NOTHING, NULL};
        if (*bar == '|') {
            str_char(out, ')');
            bash_answer(&choice, out);
        }
    }
    str_add(out, "    esac\n    [[ -n $words ]] || case $cmd in\n    help) options='");
    for (uint32_t i = 0; i < command_count; i++)
        str_printf(out, "%s ", command_info[i].name);
    str_add(out, "' ;;\n");
    for (uint32_t i = 0; i < command_count; i++)
        bash_options(a, &command_info[i], out);
    str_add(out, "    esac\n"
                 "    mapfile -t COMPREPLY < <(compgen -W \"${words:-$options}\" -- \"$cur\")\n"
                 "}\n"
                 "complete -F _rlxc rlxc\n");
}

// --- zsh -----------------------------------------------------------------------------------------

static const char *const zsh_choice[] = {[NOTHING] = "",
                                         [FILES] = "_files",
                                         [FOLDERS] = "_files -/",
                                         [MODELS] = "_files -g \"*.(json|onnx|rlx|rlxb)\""};

static void zsh_action(const Choice *c, Str *out)
{
    rlx_assert(c->kind == WORDS || zsh_choice[c->kind] != NULL);
    if (c->kind == WORDS)
        str_printf(out, "(%s)", c->words);
    else
        str_add(out, zsh_choice[c->kind]);
}

static void zsh_option(Arena *a, const OptionInfo *o, Str *out)
{
    const bool is_long = o->name[1] == '-';
    const char *text = quoted(a, o->help, "[]\\", "'\\''");
    str_printf(out, " \\\n        '%s%s%s[%s]", o->is_list ? "*" : "", o->name,
               o->value == NULL ? "" : is_long ? "=" : "+", text);
    if (o->value != NULL) {
        const Choice choice = choice_of_option(a, o);
        str_printf(out, ":%s:", quoted(a, o->value, ":\\", ""));
        zsh_action(&choice, out);
    }
    str_char(out, '\'');
}

static void print_zsh(Arena *a, Str *out)
{
    str_add(out, "#compdef rlxc\n# Completion of rlxc for zsh, made by `rlxc completion zsh`.\n_rlxc() {\n"
                 "    local -a commands\n    commands=(\n");
    for (uint32_t i = 0; i < command_count; i++)
        str_printf(out, "        '%s:%s'\n", command_info[i].name,
                   quoted(a, command_info[i].text, ":\\", "'\\''"));
    str_add(out, "    )\n"
                 "    if (( CURRENT == 2 )); then\n"
                 "        _describe command commands\n"
                 "        return\n"
                 "    fi\n"
                 "    local cmd=${words[2]}\n"
                 "    shift words\n"
                 "    (( CURRENT-- ))\n"
                 "    case $cmd in\n"
                 "    help) _describe command commands ;;\n");
    for (uint32_t i = 0; i < command_count; i++) {
        const CommandInfo *c = &command_info[i];
        const Choice args = choice_of_args(a, c);
        str_printf(out, "    %s) _arguments", c->name);
        for (uint32_t k = 0; k < option_count; k++)
            if (option_applies(&option_info[k], c->letter))
                zsh_option(a, &option_info[k], out);
        if (args.kind != NOTHING) {
            str_printf(out, " \\\n        '*:%s:", quoted(a, c->args, ":\\", ""));
            zsh_action(&args, out);
            str_char(out, '\'');
        }
        str_add(out, " ;;\n");
    }
    str_add(out, "    esac\n}\nif [[ ${funcstack[1]} == _rlxc ]]; then\n    _rlxc \"$@\"\nelse\n"
                 "    compdef _rlxc rlxc\nfi\n");
}

// --- fish ----------------------------------------------------------------------------------------

static void fish_choice(const Choice *c, Str *out)
{
    if (c->kind == WORDS)
        str_printf(out, " -x -a '%s'", c->words);
    else if (c->kind == FOLDERS)
        str_add(out, " -x -a '(__fish_complete_directories)'");
    else
        str_add(out, c->kind == NOTHING ? " -x" : " -r -F");
}

static void fish_option(Arena *a, const OptionInfo *o, Str *out)
{
    const bool is_long = o->name[1] == '-';
    str_add(out, "complete -c rlxc -n '__fish_seen_subcommand_from");
    for (uint32_t k = 0; k < command_count; k++)
        if (option_applies(o, command_info[k].letter))
            str_printf(out, " %s", command_info[k].name);
    str_printf(out, "' -%c %s", is_long ? 'l' : 's', o->name + (is_long ? 2 : 1));
    if (o->value != NULL) {
        const Choice choice = choice_of_option(a, o);
        fish_choice(&choice, out);
    }
    str_printf(out, " -d '%s'\n", quoted(a, o->help, "\\", "\\'"));
}

static void print_fish(Arena *a, Str *out)
{
    str_add(out, "# Completion of rlxc for fish, made by `rlxc completion fish`.\ncomplete -c rlxc -f\n");
    for (uint32_t i = 0; i < command_count; i++) {
        const CommandInfo *c = &command_info[i];
        const Choice args = choice_of_args(a, c);
        str_printf(out, "complete -c rlxc -n __fish_use_subcommand -a %s -d '%s'\n", c->name,
                   quoted(a, c->text, "\\", "\\'"));
        if (args.kind == NOTHING)
            continue;
        str_printf(out, "complete -c rlxc -n '__fish_seen_subcommand_from %s'", c->name);
        if (args.kind == WORDS)
            str_printf(out, " -a '%s'\n", args.words);
        else
            str_add(out, " -F\n");
    }
    for (uint32_t i = 0; i < option_count; i++)
        fish_option(a, &option_info[i], out);
}

// --- the command ---------------------------------------------------------------------------------

static const struct {
    const char *name;
    void (*print)(Arena *a, Str *out);
} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

ExitCode cmd_completion(Cli *c)
{
    const Strings *args = &c->options.args;
    for (uint32_t i = 0; args->len == 1 && i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(args->data[0], shells[i].name) != 0)
            continue;
        Str out = str_new(c->arena);
        shells[i].print(c->arena, &out);
        if (c->options.json != NULL)
            printf("{\"shell\": \"%s\", \"script\": \"%s\"}\n", shells[i].name,
                   json_text(c->arena, str_text(&out)));
        else
            fputs(str_text(&out), stdout);
        return EXIT_OK;
    }
    diag_error(c->diag, (Span){0}, E0003, "expected a shell: bash, zsh or fish");
    return cli_fail(c);
}
