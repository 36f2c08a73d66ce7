// SPDX-License-Identifier: Apache-2.0
// See cache_folder.h. Other processes may remove files at any time: what is gone counts as removed.
#include "compiler/system/cache_folder.h"
#include "base/portable.h"
#include "compiler/system/output.h"
#include "compiler/system/trusted.h"
#include "compiler/system/work_folder.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STALE_SECONDS = 3600 }; // of a temporary file: whoever wrote it has died

static const struct {
    const char *suffix, *setting; // setting: what names another folder
} kinds[] = {[CACHE_COMPILES] = {".rlxc-compile", "--cache or RLXC_CACHE"},
             [CACHE_LIBRARIES] = {".so", "XDG_CACHE_HOME"}};

typedef struct Entry {
    const char *path;
    uint64_t bytes;
    struct timespec used;
    bool is_temporary;
} Entry;
typedef VEC(Entry) Entries;

// "512M", "2G", bytes.
static bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    const size_t n = strlen(text);
    const char *unit = n > 0 ? strchr(units, text[n - 1]) : NULL;
    const uint32_t shift = unit != NULL ? 10 * ((uint32_t)(unit - units) + 1) : 0;
    int64_t number = 0;
    if (!str_parse_i64(text, n - (unit != NULL ? 1 : 0), &number) || number < 0 ||
        number > INT64_MAX >> shift)
        return false;
    *out = (uint64_t)number << shift;
    return true;
}

static const char *find_compiles(const Cli *c)
{
    const char *path = c->options.cache != NULL ? c->options.cache : getenv("RLXC_CACHE");
    return path == NULL || path[0] == '\0' || strcmp(path, "none") == 0 ? NULL : path;
}

static const char *find_libraries(const Cli *c)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg != NULL && xdg[0] == '/')
        return arena_printf(c->arena, "%s/rlxc", xdg);
    if (home != NULL && home[0] == '/')
        return arena_printf(c->arena, "%s/.cache/rlxc", home);
    return arena_printf(c->arena, "/tmp/rlxc-cache-%u", (unsigned)geteuid());
}

bool cache_folder_find(Cli *c, CacheKind kind, CacheFolder *out)
{
    const char *size = getenv("RLXC_CACHE_SIZE");
    *out = (CacheFolder){.arena = c->arena, .kind = kind, .limit = UINT64_C(1) << 30};
    out->path = kind == CACHE_COMPILES ? find_compiles(c) : find_libraries(c);
    if (out->path == NULL || size == NULL || size[0] == '\0' || parse_size(size, &out->limit))
        return true;
    return diag_error(c->diag, (Span){0}, E0003, "RLXC_CACHE_SIZE=%s: expected a size such as 512M or 2G",
                      size);
}

// Older versions of rlxc left folders of names that may be anybody's, where they had only their own.
static void sweep(const CacheFolder *f, int64_t old_seconds)
{
    work_folder_sweep(f->arena, f->path);
    if (f->kind == CACHE_LIBRARIES)
        work_folder_sweep_old(f->arena, f->path, old_seconds);
}

bool cache_folder_make(Cli *c, CacheFolder *f)
{
    if (!trusted_folder_make(c->diag, kinds[f->kind].setting, f->path, &f->path))
        return false;
    sweep(f, STALE_SECONDS);
    return true;
}

bool cache_folder_check(Cli *c, CacheFolder *f)
{
    return f->path == NULL || trusted_folder_find(c->diag, kinds[f->kind].setting, f->path, &f->path);
}

const char *cache_folder_entry(const CacheFolder *f, const char *key)
{
    rlx_assert(f->path != NULL && (size_t)f->kind < sizeof kinds / sizeof *kinds);
    return output_path(f->arena, f->path, arena_printf(f->arena, "%s%s", key, kinds[f->kind].suffix));
}

void cache_folder_touch(const char *entry)
{
    utimensat(AT_FDCWD, entry, NULL, 0);
}

// The hash beside a library, and the folder of its name without the suffix (metal_cpu.c).
bool cache_folder_remove(const CacheFolder *f, const char *entry)
{
    const bool is_removed = unlink(entry) == 0;
    if (f->kind == CACHE_LIBRARIES) {
        unlink(arena_printf(f->arena, "%s.sum", entry));
        const size_t n = strlen(entry) - strlen(kinds[f->kind].suffix);
        work_folder_remove_tree(arena_strndup(f->arena, entry, n));
    }
    return is_removed;
}

static Entries list(const CacheFolder *f)
{
    rlx_assert(f->path != NULL);
    Entries all = {0};
    const char *suffix = kinds[f->kind].suffix;
    DIR *dir = opendir(f->path);
    const struct dirent *e = NULL;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        const char *end = strstr(e->d_name, suffix);
        struct stat st;
        Entry entry = {.path = output_path(f->arena, f->path, e->d_name)};
        if (end == NULL || end == e->d_name || lstat(entry.path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        entry.bytes = (uint64_t)st.st_size;
        entry.used = STAT_MTIME(&st); // set at each use
        entry.is_temporary = end[strlen(suffix)] != '\0';
        if (!entry.is_temporary || str_ends_with(e->d_name, ".tmp"))
            vec_push(f->arena, &all, entry);
    }
    if (dir != NULL)
        closedir(dir);
    return all;
}

static int compare_age(const void *a, const void *b)
{
    const struct timespec x = ((const Entry *)a)->used, y = ((const Entry *)b)->used;
    if (x.tv_sec != y.tv_sec)
        return x.tv_sec < y.tv_sec ? -1 : 1;
    return x.tv_nsec < y.tv_nsec ? -1 : x.tv_nsec > y.tv_nsec;
}

static CacheUse add_up(const Entries *all)
{
    CacheUse use = {0};
    for (uint32_t i = 0; i < all->len; i++) {
        use.entries += all->data[i].is_temporary ? 0 : 1;
        use.bytes += all->data[i].bytes;
    }
    return use;
}

CacheUse cache_folder_use(const CacheFolder *f)
{
    const Entries all = list(f);
    return add_up(&all);
}

void cache_folder_trim(const CacheFolder *f, const char *keep)
{
    Entries all = list(f);
    uint64_t bytes = add_up(&all).bytes;
    const time_t now = time(NULL);
    if (all.len != 0)
        qsort(all.data, all.len, sizeof *all.data, compare_age);
    for (uint32_t i = 0; i < all.len; i++) {
        const Entry *e = &all.data[i];
        const bool goes = e->is_temporary ? now - e->used.tv_sec > STALE_SECONDS : bytes > f->limit;
        if (goes && (keep == NULL || strcmp(e->path, keep) != 0) && cache_folder_remove(f, e->path))
            bytes -= e->bytes;
    }
}

CacheUse cache_folder_clear(const CacheFolder *f)
{
    const Entries all = list(f);
    CacheUse removed = {0};
    sweep(f, -1);
    for (uint32_t i = 0; i < all.len; i++)
        if (cache_folder_remove(f, all.data[i].path)) {
            removed.entries += all.data[i].is_temporary ? 0 : 1;
            removed.bytes += all.data[i].bytes;
        }
    return removed;
}
