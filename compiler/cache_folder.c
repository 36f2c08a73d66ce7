// SPDX-License-Identifier: Apache-2.0
// See cache_folder.h. Other processes may remove files at any time: what is gone counts as removed.
#include "compiler/cache_folder.h"
#include "compiler/output.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".rlxc-compile"
enum { STALE_SECONDS = 3600 }; // of a temporary file: whoever wrote it has died

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

bool cache_folder_find(Cli *c, CacheFolder *out)
{
    const char *size = getenv("RLXC_CACHE_SIZE"), *path = c->options.cache;
    *out = (CacheFolder){.arena = c->arena, .limit = UINT64_C(1) << 30};
    if (path == NULL)
        path = getenv("RLXC_CACHE");
    if (path == NULL || path[0] == '\0' || strcmp(path, "none") == 0)
        return true;
    out->path = path;
    if (size == NULL || size[0] == '\0' || parse_size(size, &out->limit))
        return true;
    return diag_error(c->diag, (Span){0}, E0003, "RLXC_CACHE_SIZE=%s: expected a size such as 512M or 2G",
                      size);
}

bool cache_folder_make(Cli *c, const CacheFolder *f)
{
    struct stat st;
    if (!output_make_dir(c->diag, f->path))
        return false;
    if (stat(f->path, &st) == 0 && (st.st_mode & S_IWOTH) == 0)
        return true;
    return diag_error(c->diag, (Span){0}, E0002, "cache folder %s: everybody can write to it", f->path);
}

const char *cache_folder_entry(const CacheFolder *f, const char *key)
{
    return output_path(f->arena, f->path, arena_printf(f->arena, "%s" SUFFIX, key));
}

static Entries list(const CacheFolder *f)
{
    Entries all = {0};
    DIR *dir = opendir(f->path);
    const struct dirent *e = NULL;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        const char *end = strstr(e->d_name, SUFFIX);
        struct stat st;
        Entry entry = {.path = output_path(f->arena, f->path, e->d_name)};
        if (end == NULL || lstat(entry.path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        entry.bytes = (uint64_t)st.st_size;
        entry.used = st.st_mtim; // set at each use
        entry.is_temporary = end[strlen(SUFFIX)] != '\0';
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

void cache_folder_trim(const CacheFolder *f)
{
    Entries all = list(f);
    uint64_t bytes = add_up(&all).bytes;
    const time_t now = time(NULL);
    if (all.len != 0)
        qsort(all.data, all.len, sizeof *all.data, compare_age);
    for (uint32_t i = 0; i < all.len; i++) {
        const Entry *e = &all.data[i];
        const bool goes = e->is_temporary ? now - e->used.tv_sec > STALE_SECONDS : bytes > f->limit;
        if (goes && unlink(e->path) == 0)
            bytes -= e->bytes;
    }
}

CacheUse cache_folder_clear(const CacheFolder *f)
{
    const Entries all = list(f);
    CacheUse removed = {0};
    for (uint32_t i = 0; i < all.len; i++)
        if (unlink(all.data[i].path) == 0) {
            removed.entries += all.data[i].is_temporary ? 0 : 1;
            removed.bytes += all.data[i].bytes;
        }
    return removed;
}
