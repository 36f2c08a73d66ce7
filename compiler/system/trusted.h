// SPDX-License-Identifier: Apache-2.0
// Folders out of which programs are made or loaded: nobody but their owner may be able to put anything there.
// Both caches ask here.
#ifndef COMPILER_SYSTEM_TRUSTED_H
#define COMPILER_SYSTEM_TRUSTED_H

#include "base/diag.h"

// Makes a folder, and what is missing above it, for its owner only (0700), and checks it: no symbolic link,
// owned by who runs this, written by nobody else; each folder above it owned by that user or root, and
// written by nobody else unless it is sticky, as /tmp is. `setting`: what names another folder, for the
// message. out: its real path. False: reported, with what to do.
bool trusted_folder_make(Diag *d, const char *setting, const char *path, const char **out);
// Checks a folder in the same way, but does not make it; *out is NULL where there is none.
bool trusted_folder_find(Diag *d, const char *setting, const char *path, const char **out);

// A regular file of who runs this, which nobody else can write.
bool trusted_is_file(const char *path);

#endif
