// SPDX-License-Identifier: Apache-2.0
// See tool.h. Nothing is started to find out: that would take longer than to load a library.
#include "compiler/system/tool.h"
#include "base/portable.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool can_start(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

const char *tool_find(Arena *a, const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/') != NULL)
        return can_start(name) ? name : NULL;
    for (size_t n; path != NULL && *path != '\0'; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        const char *found = arena_printf(a, "%s/%s", n > 0 ? arena_strndup(a, path, n) : ".", name);
        if (can_start(found))
            return found;
    }
    return NULL;
}

// --- commands ------------------------------------------------------------------------------------

static const char blanks[] = " \t\r\n";

// The next word of a command; NULL at its end.
static const char *next_word(Arena *a, const char **at)
{
    *at += strspn(*at, blanks);
    const size_t n = strcspn(*at, blanks);
    const char *word = n != 0 ? arena_strndup(a, *at, n) : NULL;
    *at += n;
    return word;
}

const char *tool_of_command(Arena *a, const char *command)
{
    const char *word = next_word(a, &command);
    return word != NULL ? word : "";
}

// Programs are found from the folder in which rlxc was started, by their own path or one in PATH.
void tool_add_command(Arena *a, const char *command, Strings *argv)
{
    char *here = getcwd(NULL, 0);
    for (const char *word; (word = next_word(a, &command)) != NULL;) {
        const char *found = word[0] != '-' && (argv->len == 0 || strchr(word, '/') != NULL)
                                ? tool_find(a, word)
                                : NULL;
        const bool is_relative = found != NULL && found[0] != '/' && here != NULL;
        vec_push(a, argv, is_relative ? arena_printf(a, "%s/%s", here, found) : word);
    }
    free(here);
}

static void add_program(Arena *a, const char *word, Str *out)
{
    struct stat st;
    const char *found = tool_find(a, word);
    char *real = found != NULL ? realpath(found, NULL) : NULL;
    if (real != NULL && stat(real, &st) == 0)
        str_printf(out, "(%s %lld %lld.%09ld)", real, (long long)st.st_size,
                   (long long)STAT_MTIME(&st).tv_sec, (long)STAT_MTIME(&st).tv_nsec);
    free(real);
}

const char *tool_identity(Arena *a, const char *command)
{
    static const char *const variables[] = {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH",
                                            "COMPILER_PATH", "GCC_EXEC_PREFIX"};
    Str out = str_new(a);
    for (const char *word; (word = next_word(a, &command)) != NULL;) {
        str_printf(&out, "%s ", word);
        if (word[0] != '-')
            add_program(a, word, &out);
    }
    for (uint32_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        str_printf(&out, "\n%s", value != NULL ? value : "");
    }
    return str_text(&out);
}
