// SPDX-License-Identifier: Apache-2.0
// See share_dir.h. Found from where the program lies, so that an installed tree can be moved.
#include "compiler/cli/share_dir.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *share_dir_find(Diag *d)
{
    static const char *const places[] = {"share/rlxc", "../share/rlxc"}; // in the build, installed
    char *program = realpath("/proc/self/exe", NULL);
    char *slash = program != NULL ? strrchr(program, '/') : NULL;
    const char *folder = slash != NULL ? arena_strndup(d->arena, program, (size_t)(slash - program)) : "";
    free(program);
    for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *found = realpath(arena_printf(d->arena, "%s/%s", folder, places[i]), NULL);
        const char *copy = found != NULL ? arena_strdup(d->arena, found) : NULL;
        free(found);
        if (copy != NULL && access(arena_printf(d->arena, "%s/rlxc.mk", copy), R_OK) == 0)
            return copy;
    }
    diag_error(d, (Span){0}, E0001, "there is no folder share/rlxc beside or above %s",
               *folder != '\0' ? folder : "the program");
    return NULL;
}
