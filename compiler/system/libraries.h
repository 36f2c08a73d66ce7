// SPDX-License-Identifier: Apache-2.0
// The cache of libraries: what `rlxc run`, verify, bench and tune compile with the system's C compiler and
// load. Nothing is loaded but a file of the user's own, whose hash stands beside it (KEY.so.sum): what was
// cut off or damaged is removed, and made again.
#ifndef COMPILER_SYSTEM_LIBRARIES_H
#define COMPILER_SYSTEM_LIBRARIES_H

#include "compiler/system/cache_folder.h"
#include "compiler/system/work_folder.h"

// Finds the folder, makes and checks it. False: reported.
bool libraries_open(Cli *c, CacheFolder *out);
// The library of a key. NULL: there is none, or none that is whole.
const char *libraries_find(const CacheFolder *f, const char *key);
// Puts a library that was made in a work folder into its place; what was not used for longest goes, where all
// is more than the limit. NULL: reported.
const char *libraries_keep(Diag *d, const CacheFolder *f, const char *key, const char *made);

#endif
