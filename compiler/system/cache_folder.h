// SPDX-License-Identifier: Apache-2.0
// The folders of the two caches, of compiles (cache.h) and of the libraries that `rlxc run` loads
// (libraries.h): which ones they are, how much they may hold, and what goes when they hold more. Each entry
// is one file, KEY.rlxc-compile or KEY.so, which is made elsewhere in the folder and renamed, so that
// processes that share a folder see whole files only. Files of other names are left alone.
#ifndef COMPILER_SYSTEM_CACHE_FOLDER_H
#define COMPILER_SYSTEM_CACHE_FOLDER_H

#include "compiler/cli/cli.h"

typedef enum CacheKind { CACHE_COMPILES, CACHE_LIBRARIES } CacheKind;

typedef struct CacheFolder {
    Arena *arena;
    CacheKind kind;
    const char *path; // NULL: no cache
    uint64_t limit;   // bytes
} CacheFolder;

typedef struct CacheUse {
    uint64_t entries, bytes;
} CacheUse;

// The folder of compiles: --cache, or RLXC_CACHE. That of libraries: $XDG_CACHE_HOME/rlxc or ~/.cache/rlxc.
// The limit of each is RLXC_CACHE_SIZE, by default 1 GiB. Makes nothing. False: reported.
bool cache_folder_find(Cli *c, CacheKind kind, CacheFolder *out);
// Makes the folder if it is missing, checks that nobody else can write to it (trusted.h), and removes what
// killed processes left there. False: reported.
bool cache_folder_make(Cli *c, CacheFolder *f);
// Checks a folder that is there; if there is none, its path becomes NULL.
bool cache_folder_check(Cli *c, CacheFolder *f);
const char *cache_folder_entry(const CacheFolder *f, const char *key);
// Notes that an entry was used, for the order in which entries go.
void cache_folder_touch(const char *entry);
// Removes an entry with what belongs to it.
bool cache_folder_remove(const CacheFolder *f, const char *entry);
CacheUse cache_folder_use(const CacheFolder *f);
// Removes what was not used for longest, until the rest fits; but not `keep`, which may be NULL.
void cache_folder_trim(const CacheFolder *f, const char *keep);
// Removes all entries; what was removed.
CacheUse cache_folder_clear(const CacheFolder *f);

#endif
