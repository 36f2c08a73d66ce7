// SPDX-License-Identifier: Apache-2.0
// One entry of the compile cache as a file: text that lists the parts, with their sizes and hashes, and then
// the parts one after the other. Every byte of it is covered by a hash.
#ifndef COMPILER_CACHE_CACHE_ENTRY_H
#define COMPILER_CACHE_CACHE_ENTRY_H

#include "compiler/job/compile_report.h"

typedef struct CacheParts {
    CompileReport report;
    VEC(const char *) data; // of each file of the report
} CacheParts;

typedef enum EntryState { ENTRY_MISSING, ENTRY_DAMAGED, ENTRY_WHOLE } EntryState;

EntryState cache_entry_read(Arena *a, const char *path, CacheParts *out);
// False: reported to d.
bool cache_entry_write(Arena *a, Diag *d, const char *path, const CacheParts *parts);

#endif
