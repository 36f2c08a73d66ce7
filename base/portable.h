// SPDX-License-Identifier: Apache-2.0
// What systems call differently.
#ifndef BASE_PORTABLE_H
#define BASE_PORTABLE_H

#include <sys/stat.h>

// When a file was written: a struct timespec.
#if defined(__APPLE__)
#define STAT_MTIME(st) ((st)->st_mtimespec)
#else
#define STAT_MTIME(st) ((st)->st_mtim)
#endif

#endif
