// SPDX-License-Identifier: Apache-2.0
// See libraries.h. The hash is put in place after its library: a process that ends in between leaves one
// without, which counts as damaged.
#include "compiler/system/libraries.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/trusted.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool libraries_open(Cli *c, CacheFolder *out)
{
    return cache_folder_find(c, CACHE_LIBRARIES, out) && cache_folder_make(c, out);
}

static bool is_whole(Arena *a, const char *library)
{
    RawFile sum;
    const char *path = arena_printf(a, "%s.sum", library);
    if (!trusted_is_file(library) || !trusted_is_file(path) || !rawfile_peek(a, path, &sum))
        return false;
    const char *hash = content_hash_file(a, library);
    return hash != NULL && sum.len == strlen(hash) && memcmp(sum.data, hash, sum.len) == 0;
}

const char *libraries_find(const CacheFolder *f, const char *key)
{
    const char *library = cache_folder_entry(f, key);
    struct stat st;
    if (lstat(library, &st) != 0)
        return NULL;
    if (is_whole(f->arena, library)) {
        cache_folder_touch(library);
        return library;
    }
    cache_folder_remove(f, library);
    return NULL;
}

const char *libraries_keep(Diag *d, const CacheFolder *f, const char *key, const char *made)
{
    const char *library = cache_folder_entry(f, key), *hash = content_hash_file(f->arena, made);
    const char *made_sum = arena_printf(f->arena, "%s.sum", made);
    const FilePart part = {hash, hash != NULL ? strlen(hash) : 0};
    if (hash == NULL) {
        diag_error(d, (Span){0}, E0002, "%s: %s", made, strerror(errno));
        return NULL;
    }
    if (!rawfile_write(d, made_sum, &part, 1))
        return NULL;
    if (chmod(made, 0600) != 0 || chmod(made_sum, 0600) != 0 || rename(made, library) != 0 ||
        rename(made_sum, arena_printf(f->arena, "%s.sum", library)) != 0) {
        diag_error(d, (Span){0}, E0002, "%s: %s", library, strerror(errno));
        return NULL;
    }
    cache_folder_trim(f, library);
    return library;
}
