// SPDX-License-Identifier: Apache-2.0
// See work_folder.h.
#define _GNU_SOURCE // nftw
#include "compiler/system/work_folder.h"
#include "compiler/system/interrupt.h"
#include "compiler/system/output.h"
#include <ctype.h>
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

static const char prefix[] = "rlxc-work-", lock_name[] = ".lock";
// MARK_LEN: what mkdtemp puts for XXXXXX. YOUNG_SECONDS: between the making of a folder and that of its lock.
enum { MARK_LEN = 6, YOUNG_SECONDS = 60, OPEN_FOLDERS = 16 };

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

// Waits for a sweep that looks at it now. False, with errno; 0: that has taken it for left, and removed it.
static bool lock_folder(Arena *a, WorkFolder *w)
{
    struct stat st;
    w->lock = open(output_path(a, w->path, lock_name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (w->lock < 0)
        errno = errno == ENOENT ? 0 : errno;
    if (w->lock < 0 || flock(w->lock, LOCK_EX) != 0 || fstat(w->lock, &st) != 0)
        return false;
    errno = 0;
    return st.st_nlink != 0;
}

static void remove_all(WorkFolder *w)
{
    if (w->path != NULL)
        work_folder_remove_tree(w->path);
    if (w->lock >= 0)
        close(w->lock);
    *w = (WorkFolder){.lock = -1};
}

static bool fail(Diag *d, const char *cache, const char *what)
{
    diag_error(d, (Span){0}, E0002, "cache folder %s: cannot %s: %s", cache, what, strerror(errno));
    interrupt_release();
    return false;
}

bool work_folder_make(Diag *d, const char *cache, WorkFolder *out)
{
    rlx_assert(cache != NULL);
    interrupt_hold();
    do {
        char *path = arena_printf(d->arena, "%s/%sXXXXXX", cache, prefix);
        *out = (WorkFolder){.lock = -1};
        if (mkdtemp(path) == NULL)
            return fail(d, cache, "make a folder in it");
        out->path = path;
        if (lock_folder(d->arena, out))
            return true;
        const int why = errno;
        remove_all(out);
        errno = why;
    } while (errno == 0);
    return fail(d, cache, "lock what is made in it");
}

void work_folder_remove(WorkFolder *w)
{
    const bool is_made = w->path != NULL;
    remove_all(w);
    if (is_made)
        interrupt_release();
}

static bool is_older(const char *path, int64_t seconds)
{
    struct stat st;
    return lstat(path, &st) == 0 && time(NULL) - st.st_mtime > seconds;
}

// The lock is held while the folder goes: who makes one meanwhile waits, and sees that it is gone. Without a
// lock only an empty folder is ours.
static void remove_if_left(Arena *a, const char *path)
{
    const int lock = open(output_path(a, path, lock_name), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0 && is_older(path, YOUNG_SECONDS))
        (void)rmdir(path);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
        work_folder_remove_tree(path);
    if (lock >= 0)
        close(lock);
}

// What mkdtemp made of a name that begins like this.
static bool is_made_of(const char *name, const char *with)
{
    const size_t n = strlen(with);
    if (strncmp(name, with, n) != 0 || strlen(name) != n + MARK_LEN)
        return false;
    for (name += n; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name))
            return false;
    return true;
}

void work_folder_sweep(Arena *a, const char *cache)
{
    DIR *dir = opendir(cache);
    const struct dirent *e = NULL;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (is_made_of(e->d_name, prefix))
            remove_if_left(a, output_path(a, cache, e->d_name));
    if (dir != NULL)
        closedir(dir);
}

void work_folder_sweep_old(Arena *a, const char *cache, int64_t seconds)
{
    DIR *dir = opendir(cache);
    const struct dirent *e = NULL;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        const bool is_old = is_made_of(e->d_name, "build-") || is_made_of(e->d_name, "rlx-metal-");
        const char *path = is_old ? output_path(a, cache, e->d_name) : NULL;
        if (is_old && is_older(path, seconds))
            work_folder_remove_tree(path);
    }
    if (dir != NULL)
        closedir(dir);
}
