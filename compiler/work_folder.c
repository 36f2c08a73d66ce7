// SPDX-License-Identifier: Apache-2.0
// See work_folder.h.
#define _GNU_SOURCE // nftw
#include "compiler/work_folder.h"
#include "compiler/output.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "work-", lock_name[] = ".lock";
// Between the making of a folder and that of its lock; the folders that are not ours hold no lock at all.
enum { YOUNG_SECONDS = 60, OLD_SECONDS = 3600, OPEN_FOLDERS = 16 };

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    (void)remove(path);
    return 0;
}

void work_folder_remove_tree(const char *path)
{
    (void)nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

bool work_folder_make(Diag *d, const char *cache, WorkFolder *out)
{
    char *path = arena_printf(d->arena, "%s/%sXXXXXX", cache, prefix);
    *out = (WorkFolder){.lock = -1};
    if (mkdtemp(path) == NULL)
        return diag_error(d, (Span){0}, E0002, "cache folder %s: cannot make a folder in it: %s", cache,
                          strerror(errno));
    out->path = path;
    out->lock = open(output_path(d->arena, path, lock_name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out->lock >= 0 && flock(out->lock, LOCK_EX | LOCK_NB) == 0)
        return true;
    diag_error(d, (Span){0}, E0002, "cache folder %s: cannot lock what is made in it: %s", cache,
               strerror(errno));
    work_folder_remove(out);
    return false;
}

void work_folder_remove(WorkFolder *w)
{
    if (w->path != NULL)
        work_folder_remove_tree(w->path);
    if (w->lock >= 0)
        close(w->lock);
    *w = (WorkFolder){.lock = -1};
}

static bool is_older(const char *path, time_t seconds)
{
    struct stat st;
    return lstat(path, &st) == 0 && time(NULL) - st.st_mtime > seconds;
}

// Whoever made it has ended: its lock is free.
static bool is_left(Arena *a, const char *path)
{
    const int lock = open(output_path(a, path, lock_name), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0)
        return is_older(path, YOUNG_SECONDS);
    const bool is_free = flock(lock, LOCK_EX | LOCK_NB) == 0;
    close(lock);
    return is_free;
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

void work_folder_sweep(Arena *a, const char *cache, bool is_all)
{
    DIR *dir = opendir(cache);
    const struct dirent *e = NULL;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        const bool is_ours = begins(e->d_name, prefix);
        const bool is_old = begins(e->d_name, "build-") || begins(e->d_name, "rlx-metal-");
        const char *path = is_ours || is_old ? output_path(a, cache, e->d_name) : NULL;
        if ((is_ours && is_left(a, path)) || (is_old && (is_all || is_older(path, OLD_SECONDS))))
            work_folder_remove_tree(path);
    }
    if (dir != NULL)
        closedir(dir);
}
