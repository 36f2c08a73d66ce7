// SPDX-License-Identifier: Apache-2.0
// The folder of the compile cache: which one it is, how much it may hold, and what goes when it holds more.
// Each compile is one file, KEY.rlxc-compile, which is written under another name and renamed, so that
// processes that share a folder see whole files only. Files of other names are left alone.
#ifndef COMPILER_CACHE_FOLDER_H
#define COMPILER_CACHE_FOLDER_H

#include "compiler/cli.h"

typedef struct CacheFolder {
    Arena *arena;
    const char *path; // NULL: no cache
    uint64_t limit;   // bytes
} CacheFolder;

typedef struct CacheUse {
    uint64_t entries, bytes;
} CacheUse;

// --cache, or RLXC_CACHE; the limit is RLXC_CACHE_SIZE, by default 1 GiB. Makes nothing. False: reported.
bool cache_folder_find(Cli *c, CacheFolder *out);
// Makes the folder if it is missing. Others must not be able to write to it: programs are made of what it
// holds. False: reported.
bool cache_folder_make(Cli *c, const CacheFolder *f);
const char *cache_folder_entry(const CacheFolder *f, const char *key);
CacheUse cache_folder_use(const CacheFolder *f);
// Removes what was not used for longest, until the rest fits.
void cache_folder_trim(const CacheFolder *f);
// Removes all entries; what was removed.
CacheUse cache_folder_clear(const CacheFolder *f);

#endif
