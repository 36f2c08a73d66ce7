// SPDX-License-Identifier: Apache-2.0
// See trusted.h. Once a folder has passed, no other user can change what it holds, rename it or any folder
// above it; its path is the real one, so that links above it do not matter either.
#include "compiler/system/trusted.h"
#include "compiler/system/output.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHERS_WRITE = S_IWGRP | S_IWOTH };

typedef struct Check {
    Diag *diag;
    const char *setting, *folder;
} Check;

static bool refuse(const Check *c, const char *path, const char *why, const char *remedy)
{
    const bool is_above = strcmp(path, c->folder) != 0;
    return diag_error(c->diag, (Span){0}, E0002,
                      "cache folder %s: %s%s %s, so that others could put libraries there: %s, or name "
                      "another folder by %s",
                      c->folder, is_above ? path : "it", is_above ? ", above it," : "", why, remedy,
                      c->setting);
}

static bool check_one(const Check *c, const char *path)
{
    struct stat st;
    Arena *a = c->diag->arena;
    const bool is_above = strcmp(path, c->folder) != 0;
    if (lstat(path, &st) != 0)
        return diag_error(c->diag, (Span){0}, E0002, "cache folder %s: %s: %s", c->folder, path,
                          strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return diag_error(c->diag, (Span){0}, E0002, "cache folder %s: %s is not a folder", c->folder, path);
    if (st.st_uid != geteuid() && !(is_above && st.st_uid == 0))
        return refuse(c, path, arena_printf(a, "belongs to user %u", (unsigned)st.st_uid),
                      is_above ? "let it belong to root or you" : "remove it");
    if ((st.st_mode & OTHERS_WRITE) == 0 || (is_above && (st.st_mode & S_ISVTX) != 0))
        return true;
    return refuse(c, path, st.st_mode & S_IWOTH ? "can be written by everybody" : "can be written by a group",
                  arena_printf(a, "chmod go-w '%s'", path));
}

// The real path, of the folder and of each one above it.
static bool check(Diag *d, const char *setting, const char *path, const char **out)
{
    struct stat st;
    char *real = realpath(path, NULL);
    const Check c = {d, setting, real != NULL ? arena_strdup(d->arena, real) : path};
    free(real);
    if (lstat(path, &st) != 0 || c.folder[0] != '/')
        return diag_error(d, (Span){0}, E0002, "cache folder %s: %s", path, strerror(errno));
    if (S_ISLNK(st.st_mode))
        return diag_error(d, (Span){0}, E0002,
                          "cache folder %s is a symbolic link, which is not followed: remove it, or name the "
                          "folder itself, %s, by %s",
                          path, c.folder, setting);
    *out = c.folder;
    if (!check_one(&c, c.folder))
        return false;
    char *above = arena_strdup(d->arena, c.folder);
    for (char *slash; (slash = strrchr(above, '/')) != NULL && above[1] != '\0';) {
        slash[slash == above] = '\0';
        if (!check_one(&c, above))
            return false;
    }
    return true;
}

static const char *without_last_slash(Arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return arena_strndup(a, path, n);
}

static bool make(Diag *d, const char *setting, const char *path)
{
    uint32_t n_made;
    const char *wrong = output_make_parts(d->arena, path, 0700, &n_made);
    return wrong == NULL ||
           diag_error(d, (Span){0}, E0002,
                      "cache folder %s: cannot make %s: %s; name another folder by %s", path, wrong,
                      strerror(errno), setting);
}

bool trusted_folder_make(Diag *d, const char *setting, const char *path, const char **out)
{
    path = without_last_slash(d->arena, path);
    return make(d, setting, path) && check(d, setting, path, out);
}

bool trusted_folder_find(Diag *d, const char *setting, const char *path, const char **out)
{
    struct stat st;
    *out = NULL;
    path = without_last_slash(d->arena, path);
    return (lstat(path, &st) != 0 && errno == ENOENT) || check(d, setting, path, out);
}

bool trusted_is_file(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & OTHERS_WRITE) == 0;
}
