// SPDX-License-Identifier: Apache-2.0
// Folders in a cache in which something is made, before it is put in its place by a rename. They are locked
// by the process that works in them: what a killed one left goes at the next use of the cache. Signals that
// end a process wait until it has removed its own (interrupt.h).
#ifndef COMPILER_SYSTEM_WORK_FOLDER_H
#define COMPILER_SYSTEM_WORK_FOLDER_H

#include "base/diag.h"

typedef struct WorkFolder {
    const char *path;
    int lock;
} WorkFolder;

// False: reported.
bool work_folder_make(Diag *d, const char *cache, WorkFolder *out);
// Removes the folder with all that is in it.
void work_folder_remove(WorkFolder *w);
// Removes those in which nobody works. A cache may hold folders of the user's: what does not look like ours
// in every respect stays.
void work_folder_sweep(Arena *a, const char *cache);
// Removes those of other versions of rlxc that are older, from a folder that is rlxc's alone.
void work_folder_sweep_old(Arena *a, const char *cache, int64_t seconds);
// A folder with all that is in it. Links are removed, not followed.
void work_folder_remove_tree(const char *path);

#endif
