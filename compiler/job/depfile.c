// SPDX-License-Identifier: Apache-2.0
// See depfile.h. The syntax is the one that gcc -MD -MP writes and that make, ninja and CMake read.
#include "compiler/job/depfile.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/output.h"
#include <string.h>

// Make, ninja and CMake read the same file by rules of their own, and each has marks that cannot be escaped:
// to make "m.c: a;b" is a command, "m.c: a=b" a variable, "a*" a pattern; ninja ends a name where one of the
// others stands, and CMake forgets to escape ":". Names that one of them takes for something else are
// refused, so that a file's name, which comes with a model, never becomes more than a name.
static const char unwritable[] = "\\:;=*?[|<>&^`'\"";

static const char *after_this_folder(const char *name)
{
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    return name;
}

// What of a name cannot be written, NULL: nothing.
static const char *find_unwritable(Arena *a, const char *name)
{
    const char *begin = after_this_folder(name), *c = name;
    const size_t n = strlen(name);
    const char last = n != 0 ? name[n - 1] : '\0';
    for (; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte < ' ' || byte == 0x7f)
            return arena_printf(a, "the control character 0x%02x", byte);
        if (strchr(unwritable, *c) != NULL)
            return arena_printf(a, "'%c'", *c);
    }
    if (begin[0] == '~') // a home
        return "'~' at its beginning";
    if (last == ')') // a member of an archive
        return "')' at its end";
    return last == ' ' ? "a space at its end" : NULL;
}

static bool refuse(Diag *d, const char *name, const char *what)
{
    Str shown = str_new(d->arena);
    for (const char *c = name; *c != '\0'; c++)
        str_char(&shown, (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c);
    return diag_error(d, (Span){0}, E0002,
                      "--depfile: '%s' has %s, which make, ninja or CMake does not take as a part of a name: "
                      "rename it, or compile without --depfile",
                      str_text(&shown), what);
}

static bool add_name(Diag *d, const char *name, Str *out)
{
    const char *what = find_unwritable(d->arena, name);
    if (what != NULL)
        return refuse(d, name, what);
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '$')
            str_char(out, '$');
        else if (strchr(" #", *c) != NULL)
            str_char(out, '\\');
        str_char(out, *c);
    }
    return true;
}

// As a target, "%" would make a pattern, and ".NAME" may be one that make knows, such as .SILENT.
static bool can_be_target(const char *name)
{
    const char *begin = after_this_folder(name);
    return strchr(name, '%') == NULL && (begin[0] != '.' || strchr(begin, '/') != NULL);
}

static bool add_output(const Job *j, const char *dir, const char *suffix, Str *out)
{
    Arena *a = j->cli->arena;
    const char *name = output_path(a, dir, arena_printf(a, "%s%s", j->host.name, suffix));
    return can_be_target(name) ? add_name(j->cli->diag, name, out)
                               : refuse(j->cli->diag, name, "'%' in a target's name");
}

// "NAME.c NAME.h: model weights", and an empty rule for each input: without it make would stop when one was
// renamed. NAME.c comes first, as ninja wants the first output of a rule; what else there is (NAME.weights)
// depends on sizes, so that no rule can name it: it is made whenever NAME.c is.
static bool print_rules(const Job *j, const char *dir, Str *out)
{
    uint32_t n = 0;
    const ReadFile *read = rawfile_list_read(&n);
    if (strcmp(dir, ".") == 0) // ninja knows NAME.h, not ./NAME.h
        dir = "";
    bool ok = add_output(j, dir, ".c", out);
    str_char(out, ' ');
    ok = ok && add_output(j, dir, ".h", out);
    str_char(out, ':');
    for (uint32_t i = 0; i < n && ok; i++) {
        str_add(out, " \\\n  ");
        ok = add_name(j->cli->diag, read[i].path, out);
    }
    str_char(out, '\n');
    for (uint32_t i = 0; i < n && ok; i++) {
        if (!can_be_target(read[i].path))
            continue;
        str_char(out, '\n');
        ok = add_name(j->cli->diag, read[i].path, out);
        str_add(out, ":\n");
    }
    return ok;
}

bool depfile_check(const Job *j, const char *dir)
{
    Str rules = str_new(j->cli->arena);
    return j->cli->options.depfile == NULL || print_rules(j, dir, &rules);
}

static bool write_text(const Job *j, const char *path, const Str *text)
{
    return rawfile_write(j->cli->diag, path, &(FilePart){str_text(text), text->len}, 1);
}

bool depfile_write(const Job *j, const char *dir)
{
    rlx_assert(j->host.name != NULL && j->host.cc_flags != NULL);
    const Options *o = &j->cli->options;
    Str rules = str_new(j->cli->arena), flags = str_new(j->cli->arena);
    str_printf(&flags, "%s\n", j->host.cc_flags);
    if (o->cc_flags != NULL && !write_text(j, o->cc_flags, &flags))
        return false;
    return o->depfile == NULL || (print_rules(j, dir, &rules) && write_text(j, o->depfile, &rules));
}
