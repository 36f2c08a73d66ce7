// SPDX-License-Identifier: Apache-2.0
// The compile cache: the files of a compile, found by the content of all that decides about them. No daemon:
// a folder that any number of processes share (cache_folder.h).
#ifndef COMPILER_CACHE_CACHE_H
#define COMPILER_CACHE_CACHE_H

#include "compiler/system/cache_folder.h"
#include "compiler/job/compile_report.h"

typedef struct Cache {
    Job *job;
    CacheFolder folder;
    const char *key;       // NULL: this compile is not cached
    uint32_t n_items; // messages of reading the model, which comes again
} Cache;

typedef enum CacheResult { CACHE_MISS, CACHE_HIT, CACHE_FAILED } CacheResult;

// Opens the cache for a job that has begun: its inputs are read. False: reported.
bool cache_open(Job *j, Cache *out);
// Writes the files of an earlier compile into the folder. A damaged entry is a miss, with a warning.
// CACHE_FAILED: reported.
CacheResult cache_fetch(const Cache *c, const char *dir, CompileReport *out);
// Keeps what was written. What goes wrong is a warning: the compile is done.
void cache_store(const Cache *c, const char *dir, const CompileReport *r);

#endif
