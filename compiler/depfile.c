// SPDX-License-Identifier: Apache-2.0
// See depfile.h. The syntax is the one that gcc -MD -MP writes and that make, ninja and CMake read.
#include "compiler/depfile.h"
#include "compiler/import/rawfile.h"
#include "compiler/output.h"
#include <string.h>

// Make has no way to write a line end in a name.
static bool add_name(Diag *d, const char *name, Str *out)
{
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\r')
            return diag_error(d, (Span){0}, E0002, "--depfile: there is a line end in the name '%s'", name);
        if (*c == '$')
            str_char(out, '$');
        else if (strchr(" \t#:", *c) != NULL)
            str_char(out, '\\');
        str_char(out, *c);
    }
    return true;
}

// "NAME.c NAME.h: model weights", and an empty rule for each input: without it make would stop when one was
// renamed. NAME.c comes first, as ninja wants the first output of a rule; what else there is (NAME.weights)
// depends on sizes, so that no rule can name it: it is made whenever NAME.c is.
static bool print_rules(const Job *j, const char *dir, Str *out)
{
    static const char *const suffixes[] = {".c", ".h"};
    Arena *a = j->cli->arena;
    uint32_t n = 0;
    const ReadFile *read = rawfile_list_read(&n);
    bool ok = true;
    if (strcmp(dir, ".") == 0) // ninja knows NAME.h, not ./NAME.h
        dir = "";
    for (uint32_t i = 0; i < 2; i++) {
        str_add(out, i == 0 ? "" : " ");
        ok = add_name(j->cli->diag, output_path(a, dir, arena_printf(a, "%s%s", j->host.name, suffixes[i])),
                      out) && ok;
    }
    str_char(out, ':');
    for (uint32_t i = 0; i < n && ok; i++) {
        str_add(out, " \\\n  ");
        ok = add_name(j->cli->diag, read[i].path, out);
    }
    str_char(out, '\n');
    for (uint32_t i = 0; i < n && ok; i++) {
        if (strchr(read[i].path, '%') != NULL) // as a target it would be a pattern
            continue;
        str_char(out, '\n');
        ok = add_name(j->cli->diag, read[i].path, out);
        str_add(out, ":\n");
    }
    return ok;
}

static bool write_text(const Job *j, const char *path, const Str *text)
{
    return rawfile_write(j->cli->diag, path, &(FilePart){str_text(text), text->len}, 1);
}

bool depfile_write(const Job *j, const char *dir)
{
    const Options *o = &j->cli->options;
    Str rules = str_new(j->cli->arena), flags = str_new(j->cli->arena);
    str_printf(&flags, "%s\n", j->host.cc_flags);
    if (o->cc_flags != NULL && !write_text(j, o->cc_flags, &flags))
        return false;
    return o->depfile == NULL || (print_rules(j, dir, &rules) && write_text(j, o->depfile, &rules));
}
